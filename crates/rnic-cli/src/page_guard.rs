//! Protection that all pages of the command share: tokens, rejection of requests from other sites, headers of
//! responses.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

/// The policy of a page: only its own scripts, styles and requests.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// A token of 128 random bits.
///
/// # Errors
/// The system has no random numbers; the error is a sentence.
pub(crate) fn token() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random token: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether `given` is the token. The time of the comparison does not depend on the token's characters.
pub(crate) fn is_token(given: &[u8], token: &str) -> bool {
    given.ct_eq(token.as_bytes()).into()
}

/// The text of a header; `?` if it is no text.
pub(crate) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Whether the browser says that a page of another origin makes the request.
pub(crate) fn is_of_other_origin(headers: &HeaderMap) -> bool {
    let host = text(headers, header::HOST).unwrap_or_default();
    text(headers, header::ORIGIN).is_some_and(|origin| origin.strip_prefix("http://") != Some(host))
}

/// Adds the headers that prevent other sites from reading a page, and forbid browsers to cache it.
pub(crate) fn protect(response: &mut Response) {
    let headers = response.headers_mut();
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(PAGE_POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// A part of a page that the program contains.
pub(crate) fn asset(kind: &'static str, content: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], content).into_response()
}
