//! The server of `rnic run --serve`.

use super::guard::{Guard, admit};
use super::state::{Runs, Shown};
use super::stream::events;
use crate::page_guard::token;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::sse::Sse;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rnic_campaign::RunListener;
use rnic_http::guard::asset;
use rnic_http::{Limits, Server};
use rnic_simulator::error::CliError;
use rnic_simulator::interrupt::Interruption;
use rnic_simulator::live::{Results, Serving, View};
use rnic_simulator::output::note;
use rnic_simulator::recording::Recordings;
use rnic_spec::{RunEvent, RunRecord, Scenario};
use std::fs::File;
use std::io::Read;
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const HTML: &str = include_str!("../../page/live.html");
static SCRIPT: LazyLock<String> = LazyLock::new(|| rnic_web::script(include_str!("../../page/live.js")));
static STYLE: LazyLock<String> =
    LazyLock::new(|| rnic_web::style(&[rnic_web::RECORDING_STYLE, include_str!("../../page/live.css")].concat()));

/// The content security policy of result files: pages such as the report contain their scripts, and get their own
/// origin.
const FILE_POLICY: &str = "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; \
     script-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'";
/// Bytes of a file that are read at a time.
const CHUNK: usize = 64 << 10;
/// How long a server stays that stays until a signal.
const FOREVER: Duration = Duration::from_secs(1 << 31);

/// Limits of the server. A stream of events is one long response, so a connection has no total time; a client that
/// accepts nothing for 5 s is closed.
fn limits() -> Limits {
    Limits { connections: 64, of_host: 16, keep_alive: true, ..Limits::default() }
}

/// The page of the runs.
struct Page {
    runs: Arc<Runs>,
    stays: Option<Duration>,
    _server: Server,
}

/// Starts to serve the page of a scenario's runs, and prints its address on standard error.
pub(super) fn open(scenario: &Scenario, recordings: &Recordings, serving: Serving) -> Result<Box<dyn View>, CliError> {
    let address = serving.address;
    let io = |doing: String| move |error| CliError::Io { doing, error };
    let listener = TcpListener::bind(address).map_err(io(format!("cannot listen at {address}")))?;
    let token =
        if address.ip().is_loopback() { None } else { Some(token().map_err(|why| CliError::Failed(vec![why]))?) };
    let token: Option<Arc<str>> = token.map(Into::into);
    let runs = Arc::new(Runs::of(scenario, recordings));
    let router = router(runs.clone(), Guard { token: token.clone() });
    let server = Server::start(listener, router, limits()).map_err(io("cannot serve the runs".to_string()))?;
    let query = token.map_or(String::new(), |token| format!("?token={token}"));
    note(&format!("the runs at http://{}/{query}", server.address()));
    Ok(Box::new(Page { runs, stays: serving.stays, _server: server }))
}

fn router(runs: Arc<Runs>, guard: Guard) -> Router {
    let no_page = || async { (StatusCode::NOT_FOUND, "no such page; try /\n") };
    Router::new()
        .route("/", get(|| async { asset("text/html; charset=utf-8", HTML) }))
        .route("/page.js", get(|| async { asset("text/javascript; charset=utf-8", &SCRIPT) }))
        .route("/page.css", get(|| async { asset("text/css; charset=utf-8", &STYLE) }))
        .route("/events", get(|State(runs): State<Arc<Runs>>| async { Sse::new(events(runs)) }))
        .route("/files/{name}", get(file))
        .fallback(no_page)
        .layer(middleware::from_fn_with_state(guard, admit))
        .with_state(runs)
}

/// A result file. Its name is looked up in the list of the files that the runs have written, so a request cannot read
/// any other file.
async fn file(State(runs): State<Arc<Runs>>, Path(name): Path<String>) -> Response {
    let shown = runs.results();
    let found = shown.as_ref().and_then(|shown| shown.files.get(&name));
    let Some(Ok(file)) = found.map(File::open) else {
        return (StatusCode::NOT_FOUND, "no such result file\n").into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind(&name))),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(FILE_POLICY)),
    ];
    (headers, Body::from_stream(futures::stream::iter(Chunks(file)))).into_response()
}

/// The type of a result file by its name.
fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("json") => "application/json",
        Some("csv") => "text/csv; charset=utf-8",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// The contents of a file, read when the client takes them.
struct Chunks(File);

impl Iterator for Chunks {
    type Item = std::io::Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut chunk = vec![0; CHUNK];
        match self.0.read(&mut chunk) {
            Ok(0) => None,
            Ok(length) => {
                chunk.truncate(length);
                Some(Ok(chunk.into()))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl RunListener for Page {
    fn event(&self, run: usize, event: &RunEvent) -> ControlFlow<()> {
        self.runs.event(run, event)
    }

    fn finished(&self, run: usize, record: &RunRecord) -> ControlFlow<()> {
        self.runs.finished(run, record)
    }
}

impl View for Page {
    fn close(&self) {}

    fn stay(&self, results: &Results<'_>, interruption: &Interruption) {
        let name = |file: &std::path::PathBuf| {
            let name = file.strip_prefix(results.folder).ok()?.to_str()?;
            Some((name.to_string(), file.clone()))
        };
        let files = results.files.iter().filter_map(name).collect();
        self.runs.show(Shown { table: results.table.to_string(), files });
        let until = match self.stays {
            Some(time) if time.is_zero() => return,
            Some(time) => format!("for {} s, or until Ctrl-C", time.as_secs_f64()),
            None => "until Ctrl-C".to_string(),
        };
        note(&format!("the runs have ended; the page stays {until}"));
        crate::service::wait(self.stays.unwrap_or(FOREVER).min(FOREVER), interruption);
    }
}

#[cfg(test)]
mod tests;
