//! The page and the metrics over HTTP. The binary contains all parts of the page, and a content security policy forbids
//! the browser to load anything from other sites.

use super::tls::Peer;
use super::{metrics, views};
use crate::alarm::Metric;
use crate::credentials::{OPERATOR, is_for};
use crate::state::MeshState;
use crate::window::Window;
use axum::extract::{ConnectInfo, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use rnic_http::guard::{asset, names_this_machine, protect};
use rnic_metrics::exposition::CONTENT_TYPE;
use serde::Deserialize;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

const HTML: &str = include_str!("../../page/index.html");
static SCRIPT: LazyLock<String> = LazyLock::new(|| rnic_web::script(include_str!("../../page/page.js")));
static STYLE: LazyLock<String> = LazyLock::new(|| rnic_web::style(include_str!("../../page/page.css")));

/// The routes for browsers and for Prometheus. `local` means that the server listens on a loopback address. It then
/// accepts requests without a certificate whose `Host` header names this machine.
pub(super) fn router(state: Arc<MeshState>, local: bool) -> Router {
    let guard = middleware::from_fn_with_state((state.clone(), local), admit);
    Router::new()
        .route("/", get(|| async { asset("text/html; charset=utf-8", HTML) }))
        .route("/page.js", get(|| async { asset("text/javascript; charset=utf-8", &SCRIPT) }))
        .route("/page.css", get(|| async { asset("text/css; charset=utf-8", &STYLE) }))
        .route("/api/overview", get(overview))
        .route("/api/tors", get(tor_pair))
        .route("/api/pair", get(pair))
        .route("/api/agents", get(agents))
        .route("/metrics", get(text))
        .layer(guard)
        .with_state(state)
}

/// Admits only operators. On a loopback address it admits only requests whose `Host` header names this machine:
/// otherwise a page of another site could read the responses through a name that the site resolves to this address (DNS
/// rebinding).
async fn admit(State((state, local)): State<(Arc<MeshState>, bool)>, request: Request, next: Next) -> Response {
    let admitted = if local {
        names_this_machine(request.headers())
    } else {
        let peer = request.extensions().get::<ConnectInfo<Peer>>();
        let peer = peer.filter(|ConnectInfo(peer)| !peer.identity.is_none_or(|(print, _)| state.is_denied(&print)));
        let certificate = peer.and_then(|ConnectInfo(peer)| peer.certificate.as_ref());
        certificate.is_some_and(|certificate| is_for(certificate, OPERATOR))
    };
    if !admitted {
        state.refused.fetch_add(1, Ordering::Relaxed);
        return (StatusCode::FORBIDDEN, "only operators read the mesh's data\n").into_response();
    }
    let mut response = next.run(request).await;
    protect(&mut response);
    response
}

#[derive(Deserialize)]
struct Choice {
    window: Option<Window>,
    metric: Option<Metric>,
}

/// Computes a view on a separate thread, because a view of a large mesh would block the threads that serve requests.
async fn blocking<T: Send + 'static>(
    state: Arc<MeshState>, make: impl FnOnce(&MeshState) -> T + Send + 'static,
) -> Result<T, StatusCode> {
    tokio::task::spawn_blocking(move || make(&state)).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn overview(
    State(state): State<Arc<MeshState>>, Query(choice): Query<Choice>,
) -> Result<impl IntoResponse, StatusCode> {
    let (window, metric) = (choice.window.unwrap_or(Window::Minute), choice.metric.unwrap_or(Metric::Loss));
    blocking(state, move |state| views::overview(state, window, metric)).await.map(Json)
}

#[derive(Deserialize)]
struct Ends {
    from: String,
    to: String,
}

async fn tor_pair(
    State(state): State<Arc<MeshState>>, Query(ends): Query<Ends>,
) -> Result<impl IntoResponse, StatusCode> {
    let found = blocking(state, move |state| views::tor_pair(state, &ends.from, &ends.to)).await?;
    found.map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn pair(State(state): State<Arc<MeshState>>, Query(ends): Query<Ends>) -> Result<impl IntoResponse, StatusCode> {
    let found = blocking(state, move |state| views::pair(state, &ends.from, &ends.to)).await?;
    found.map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn agents(State(state): State<Arc<MeshState>>) -> Result<impl IntoResponse, StatusCode> {
    blocking(state, views::agents).await.map(Json)
}

async fn text(State(state): State<Arc<MeshState>>) -> Result<impl IntoResponse, StatusCode> {
    let text = blocking(state, |state| metrics::metrics(state).prometheus()).await?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of agents and files are untrusted input, so the page's script must not parse them as markup or as a
    /// script.
    #[test]
    fn the_script_parses_no_markup() {
        for way in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "DOMParser", "eval(", "Function("] {
            assert!(!SCRIPT.contains(way), "{way}");
        }
        assert!(SCRIPT.contains("const element = "), "the script has its components");
    }
}
