//! Decides which clients may read the page of a run. A page of another site must not read it, neither from its own
//! origin nor through a name that resolves to this machine (DNS rebinding). At an address that other machines can
//! reach, a client needs the token.

use crate::page_guard::is_token;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rnic_http::guard::{is_of_other_origin, names_this_machine, protect, text};
use std::sync::Arc;

/// What a request must prove.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// The token of the address; `None` on a loopback address, where the `Host` header must name this machine.
    pub(super) token: Option<Arc<str>>,
}

/// Paths that need no token: the page's script and style, which are the same for everyone.
const PUBLIC: [&str; 2] = ["/page.js", "/page.css"];

impl Guard {
    /// Why a request is refused, if it is.
    fn refusal(&self, path: &str, query: &str, headers: &HeaderMap) -> Option<&'static str> {
        let site = text(headers, HeaderName::from_static("sec-fetch-site"));
        if is_of_other_origin(headers) || (site == Some("cross-site") && path != "/") {
            return Some("requests of other sites are refused\n");
        }
        match &self.token {
            None if !names_this_machine(headers) => {
                Some("the Host header must name this machine, for example 127.0.0.1\n")
            }
            Some(token) if !PUBLIC.contains(&path) && !has_token(query, token) => {
                Some("the address lacks the token; use the address that rnic has printed\n")
            }
            _ => None,
        }
    }
}

/// Whether the query has the token.
fn has_token(query: &str, token: &str) -> bool {
    let mut given = query.split('&').filter_map(|pair| pair.strip_prefix("token="));
    given.any(|given| is_token(given.as_bytes(), token))
}

/// Rejects the requests that the guard does not admit, and adds the headers that prevent other sites from reading the
/// page.
pub(super) async fn admit(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let mut response = match guard.refusal(path, query, request.headers()) {
        Some(reason) => (StatusCode::FORBIDDEN, reason).into_response(),
        None => next.run(request).await,
    };
    protect(&mut response);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn refused(token: Option<&str>, path: &str, query: &str, headers: &[(&'static str, &str)]) -> bool {
        let guard = Guard { token: token.map(Arc::from) };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        guard.refusal(path, query, &map).is_some()
    }

    #[test]
    fn only_this_machine_names_a_loopback_address() {
        assert!(!refused(None, "/events", "", &[("host", "127.0.0.1:8080")]));
        assert!(refused(None, "/events", "", &[("host", "127.0.0.1.evil.example:80")]));
        assert!(refused(None, "/events", "", &[]));
    }

    #[test]
    fn other_origins_are_refused() {
        let host = ("host", "127.0.0.1:80");
        assert!(!refused(None, "/events", "", &[host, ("origin", "http://127.0.0.1:80")]));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:81", "https://127.0.0.1:80", ""] {
            assert!(refused(None, "/events", "", &[host, ("origin", origin)]), "{origin}");
        }
        assert!(refused(None, "/events", "", &[host, ("sec-fetch-site", "cross-site")]));
        assert!(!refused(None, "/", "", &[host, ("sec-fetch-site", "cross-site")]), "a link to the page");
    }

    #[test]
    fn the_token_is_needed_where_others_reach_the_page() {
        let host = [("host", "10.0.0.1:80")];
        for query in ["token=abcd", "x=1&token=abcd"] {
            assert!(!refused(Some("abcd"), "/events", query, &host), "{query}");
        }
        for query in ["", "token=", "token=abc", "token=abcde", "token=ABCD", "abcd", "nottoken=abcd"] {
            assert!(refused(Some("abcd"), "/events", query, &host), "{query}");
            assert!(refused(Some("abcd"), "/", query, &host), "{query}");
            assert!(refused(Some("abcd"), "/files/report.html", query, &host), "{query}");
        }
        assert!(!refused(Some("abcd"), "/page.js", "", &host));
    }
}
