//! What keeps the pages of services closed to pages of other sites: checks of requests, and headers of responses.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use std::net::Ipv4Addr;

/// The policy of a page: only its own scripts, styles and requests.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The text of a header; `?` if it is no text.
pub fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Whether the browser says that a page of another origin makes the request.
pub fn is_of_other_origin(headers: &HeaderMap) -> bool {
    let host = text(headers, header::HOST).unwrap_or_default();
    text(headers, header::ORIGIN).is_some_and(|origin| origin.strip_prefix("http://") != Some(host))
}

/// Whether the `Host` header names this machine by a loopback address or `localhost`. A page of another site could
/// otherwise read responses through a name that the site resolves to a loopback address (DNS rebinding).
pub fn names_this_machine(headers: &HeaderMap) -> bool {
    is_loopback(text(headers, header::HOST).unwrap_or_default())
}

fn is_loopback(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, "80"),
    };
    let is_ip = name.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback());
    port.parse::<u16>().is_ok() && (is_ip || matches!(name, "localhost" | "[::1]"))
}

/// Adds the headers that keep a page closed to other sites, and forbid browsers to keep a copy.
pub fn protect(response: &mut Response) {
    let headers = response.headers_mut();
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(PAGE_POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// A part of a page that the program contains.
pub fn asset(kind: &'static str, content: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], content).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_name_this_machine() {
        for host in ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "127.0.0.1", "127.1.2.3:1", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "evil.example:8080",
            "127.evil.example",
            "127.0.0.1.evil.example:80",
            "",
            "localhost:x",
            "::1",
            "10.0.0.1:80",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
