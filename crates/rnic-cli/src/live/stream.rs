//! The stream of server-sent events of one client. The client takes each event when its connection has room for it; the
//! next event is made of the state at that time. So a slow client needs memory for one event only, and delays neither
//! the runs nor other clients.
//!
//! Events: `hello` (title and names of the runs), `state` (progress and warnings), `fabric` (a run whose recording
//! begins), `frames` (its next frames), `results` (the table and the names of the files).

use super::state::{RECORDED, Runs};
use axum::response::sse::Event;
use futures::stream::{Stream, unfold};
use rnic_results::replay::Cursor;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks at the state.
const LOOK: Duration = Duration::from_millis(200);
/// Number of looks without news after which a comment shows that the connection works.
const SILENT_LOOKS: u32 = 50;
/// Maximum number of frames in an event.
const FRAMES: usize = 16;

/// What a client has got.
struct Client {
    runs: Arc<Runs>,
    /// Events of the latest look, at most three and two for each recording.
    waiting: VecDeque<Event>,
    /// For each recorded run, what the client has read; `None` before its fabric.
    cursors: Vec<Option<Cursor>>,
    state: String,
    has_results: bool,
    silent: u32,
    /// Whether there is more to read at once.
    more: bool,
}

/// The events of a new client.
pub(super) fn events(runs: Arc<Runs>) -> impl Stream<Item = Result<Event, Infallible>> {
    let names: Vec<&str> = runs.runs.iter().map(|run| run.name.as_str()).collect();
    let hello = event("hello", &json!({ "title": runs.title, "runs": names, "recorded": RECORDED }));
    let cursors = runs.runs.iter().take(RECORDED).map(|_| None).collect();
    let client = Client {
        runs,
        waiting: VecDeque::from([hello]),
        cursors,
        state: String::new(),
        has_results: false,
        silent: 0,
        more: true,
    };
    unfold(client, |mut client| async move {
        loop {
            if let Some(event) = client.waiting.pop_front() {
                return Some((Ok(event), client));
            }
            if !std::mem::take(&mut client.more) {
                tokio::time::sleep(LOOK).await;
            }
            client.look();
        }
    })
}

fn event(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}

impl Client {
    /// Adds the events of what is new.
    fn look(&mut self) {
        let state = self.runs.to_json().to_string();
        if state != self.state {
            self.waiting.push_back(Event::default().event("state").data(&state));
            self.state = state;
        }
        for (index, (run, slot)) in self.runs.runs.iter().zip(&mut self.cursors).enumerate() {
            if slot.is_none()
                && let Some(fabric) = run.fabric()
            {
                self.waiting.push_back(event("fabric", &json!({ "run": index, "fabric": fabric })));
                *slot = Some(Cursor::default());
            }
            let frames = slot.as_mut().and_then(|cursor| run.frames(cursor, FRAMES));
            if let Some(frames) = frames {
                self.waiting.push_back(event("frames", &json!({ "run": index, "frames": frames.to_json() })));
                self.more = true;
            }
        }
        // The results follow the last frames.
        if !self.has_results
            && !self.more
            && let Some(shown) = self.runs.results()
        {
            let files: Vec<&String> = shown.files.keys().collect();
            self.waiting.push_back(event("results", &json!({ "table": shown.table, "files": files })));
            self.has_results = true;
        }
        self.silent = if self.waiting.is_empty() { self.silent + 1 } else { 0 };
        if self.silent >= SILENT_LOOKS {
            self.waiting.push_back(Event::default().comment("the runs continue"));
            self.silent = 0;
        }
    }
}
