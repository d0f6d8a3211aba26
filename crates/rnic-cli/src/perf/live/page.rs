//! The page of `rnic perf --serve` over HTTP. The binary contains all parts of the page.
//!
//! The data and the sliders need a token, which follows `#` in the address that the command prints. Browsers do not
//! send this part of an address; the page's script sends the token in a header. A page of another site does not know
//! the token, and cannot send the header. Requests that change faults must also come from the page's own origin, if the
//! browser states one.

use crate::page_guard::{is_token, token};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use parking_lot::Mutex;
use rnic_http::guard::{asset, is_of_other_origin, protect};
use rnic_perf::{Live, LiveFaults, Point};
use rnic_untrusted::text::brief;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, LazyLock};

const HTML: &str = include_str!("../../../page/perf.html");
static SCRIPT: LazyLock<String> = LazyLock::new(|| rnic_web::script(include_str!("../../../page/perf.js")));
static STYLE: LazyLock<String> = LazyLock::new(|| rnic_web::style(include_str!("../../../page/perf.css")));

/// Header of requests that carries the token.
pub(super) const TOKEN: &str = "x-rnic-token";
/// Maximum number of intervals in the list: one minute.
const MAX_ROWS: usize = 240;
/// Maximum bytes of a request's body.
const MAX_BODY: usize = 1_024;
/// Maximum characters of the reason of a failure.
const MAX_REASON: usize = 300;

/// One interval: its end in seconds since the start, and a point for each series.
pub(super) struct Row {
    pub(super) seconds: f64,
    pub(super) points: Vec<Point>,
}

/// The state of the page.
pub(super) struct Page {
    token: String,
    names: Vec<String>,
    lives: Vec<Arc<Live>>,
    faults: Mutex<LiveFaults>,
    failures: Mutex<Vec<Option<String>>>,
    /// The latest intervals, and the number of intervals before them.
    rows: Mutex<(VecDeque<Row>, u64)>,
}

impl Page {
    /// A page with one series for each name, whose measurements have the given faults from now on.
    ///
    /// # Errors
    /// The system has no random numbers, or a fault is out of range.
    pub(super) fn new(names: Vec<String>, lives: Vec<Arc<Live>>, faults: LiveFaults) -> io::Result<Arc<Page>> {
        let token = token().map_err(io::Error::other)?;
        for live in &lives {
            live.set_faults(&faults).map_err(io::Error::other)?;
        }
        let failures = Mutex::new(vec![None; names.len()]);
        Ok(Arc::new(Page { token, names, lives, faults: Mutex::new(faults), failures, rows: Mutex::default() }))
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Adds an interval; the oldest one leaves a full list.
    pub(super) fn add(&self, row: Row) {
        let mut rows = self.rows.lock();
        if rows.0.len() == MAX_ROWS {
            rows.0.pop_front();
            rows.1 += 1;
        }
        rows.0.push_back(row);
    }

    /// Notes why the measurement of a series failed last; `None` if it did not.
    pub(super) fn fail(&self, series: usize, why: Option<String>) {
        self.failures.lock()[series] = why.map(|why| brief(&why, MAX_REASON).into_owned());
    }

    /// The intervals from number `after` on, and everything else that the page shows.
    fn data(&self, after: u64) -> Value {
        let rows = self.rows.lock();
        let first = after.max(rows.1);
        let new = rows.0.iter().skip((first - rows.1) as usize);
        let new: Vec<Value> = new.map(|row| json!({ "seconds": row.seconds, "points": row.points })).collect();
        json!({
            "names": self.names,
            "failures": *self.failures.lock(),
            "faults": *self.faults.lock(),
            "limits": {
                "loss": LiveFaults::MAX_LOSS,
                "reorder": LiveFaults::MAX_REORDER,
                "duplicate": LiveFaults::MAX_DUPLICATE,
                "delay": LiveFaults::MAX_DELAY,
            },
            "next": rows.1 + rows.0.len() as u64,
            "rows": new,
        })
    }

    fn is_admitted(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(TOKEN).map(HeaderValue::as_bytes).unwrap_or_default();
        is_token(given, &self.token)
    }
}

/// The routes of the page.
pub(super) fn router(page: Arc<Page>) -> Router {
    let data = Router::new()
        .route("/api/points", get(points))
        .route("/api/faults", post(faults))
        .layer(middleware::from_fn_with_state(page.clone(), admit));
    Router::new()
        .route("/", get(|| async { asset("text/html; charset=utf-8", HTML) }))
        .route("/perf.js", get(|| async { asset("text/javascript; charset=utf-8", &SCRIPT) }))
        .route("/perf.css", get(|| async { asset("text/css; charset=utf-8", &STYLE) }))
        .merge(data)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::map_response(|mut response: Response| async {
            protect(&mut response);
            response
        }))
        .with_state(page)
}

/// Admits requests with the token that do not come from a page of another origin.
async fn admit(State(page): State<Arc<Page>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if !page.is_admitted(headers) {
        return (StatusCode::FORBIDDEN, "the token is missing or wrong; open the address that the command printed\n")
            .into_response();
    }
    if is_of_other_origin(headers) {
        return (StatusCode::FORBIDDEN, "the request comes from a page of another origin\n").into_response();
    }
    next.run(request).await
}

async fn points(State(page): State<Arc<Page>>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    match query.get("after").map_or(Ok(0), |after| after.parse()) {
        Ok(after) => Json(page.data(after)).into_response(),
        Err(_) => (StatusCode::BAD_REQUEST, "`after` is not the number of an interval\n").into_response(),
    }
}

async fn faults(State(page): State<Arc<Page>>, body: Bytes) -> Response {
    // A struct can also be read from an array, which would stand for other values than its sender means.
    let object = serde_json::from_slice::<Map<String, Value>>(&body);
    let faults: LiveFaults = match object.and_then(|object| serde_json::from_value(Value::Object(object))) {
        Ok(faults) => faults,
        Err(error) => {
            return (StatusCode::BAD_REQUEST, format!("{}\n", brief(&error.to_string(), 200))).into_response();
        }
    };
    // One change at a time, so that all series have the same faults.
    let mut current = page.faults.lock();
    for live in &page.lives {
        if let Err(error) = live.set_faults(&faults) {
            return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response();
        }
    }
    *current = faults;
    Json(faults).into_response()
}

#[cfg(test)]
mod tests;
