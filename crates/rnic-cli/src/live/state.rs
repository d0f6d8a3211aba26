//! The state of the runs that a page shows: their progress, warnings, recordings and results. The simulation writes the
//! state, and each client of the server reads the parts that it has not read yet, so no client makes a run wait.

use crate::run_state::{RunState, Stage};
use crate::service::Clock;
use parking_lot::Mutex;
use rnic_campaign::RunListener;
use rnic_results::replay::{Cursor, NewFrames};
use rnic_simulator::recording::{Recording, Recordings};
use rnic_spec::{RunEvent, RunRecord, Scenario};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of runs whose fabrics the page shows: the first of the scenario. Of further runs it has the progress.
pub(super) const RECORDED: usize = 8;
/// Maximum number of warnings on the page.
const MAX_WARNINGS: usize = 100;

/// All runs of a scenario.
pub(super) struct Runs {
    pub(super) title: String,
    pub(super) runs: Vec<Run>,
    clock: Clock,
    /// Name of the run and sentence of each warning.
    warnings: Mutex<Vec<(String, String)>>,
    results: Mutex<Option<Arc<Shown>>>,
}

/// The results as the page shows them.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) table: String,
    /// The result files by their names.
    pub(super) files: BTreeMap<String, PathBuf>,
}

/// One run.
pub(super) struct Run {
    pub(super) name: String,
    state: Mutex<RunState>,
    recording: Option<Arc<Recording>>,
}

impl Runs {
    pub(super) fn of(scenario: &Scenario, recordings: &Recordings) -> Runs {
        let run = |(index, run): (usize, &rnic_spec::RunSpec)| {
            let recording = recordings.get(index).filter(|_| index < RECORDED).cloned();
            Run { name: run.name.clone(), state: Mutex::default(), recording }
        };
        Runs {
            title: scenario.title.clone(),
            runs: scenario.runs.iter().enumerate().map(run).collect(),
            clock: Clock::start(),
            warnings: Mutex::default(),
            results: Mutex::default(),
        }
    }

    /// The progress of all runs and the warnings so far.
    pub(super) fn to_json(&self) -> Value {
        let warnings = self.warnings.lock();
        json!({
            "runs": self.runs.iter().map(Run::to_json).collect::<Vec<_>>(),
            "warnings": warnings.iter().map(|(run, text)| json!({ "run": run, "text": text })).collect::<Vec<_>>(),
        })
    }

    pub(super) fn results(&self) -> Option<Arc<Shown>> {
        self.results.lock().clone()
    }

    pub(super) fn show(&self, shown: Shown) {
        *self.results.lock() = Some(Arc::new(shown));
    }

    fn warn(&self, run: usize, sentence: &str) {
        let Some(run) = self.runs.get(run) else { return };
        let mut warnings = self.warnings.lock();
        if warnings.len() < MAX_WARNINGS {
            warnings.push((run.name.clone(), sentence.to_string()));
        }
    }
}

impl Run {
    fn to_json(&self) -> Value {
        let state = self.state.lock();
        let text = if state.stage == Stage::Waiting { String::new() } else { state.text() };
        let done = (state.fraction() * 1e4).round() / 1e4;
        json!({ "name": self.name, "stage": state.stage.name(), "done": done, "text": text })
    }

    /// The fabric of the run; `None` before the first frame, and for a run without a recording.
    pub(super) fn fabric(&self) -> Option<Value> {
        self.recording.as_ref()?.recorder().fabric(&self.name)
    }

    /// The frames that a reader has not read yet, at most `most`.
    pub(super) fn frames(&self, cursor: &mut Cursor, most: usize) -> Option<NewFrames> {
        self.recording.as_ref()?.recorder().read(cursor, most)
    }
}

impl RunListener for Runs {
    fn event(&self, run: usize, event: &RunEvent) -> ControlFlow<()> {
        let Some(found) = self.runs.get(run) else { return ControlFlow::Continue(()) };
        found.state.lock().event(event, self.clock.nanoseconds());
        match event {
            RunEvent::Started { warnings, .. } => warnings.iter().for_each(|warning| self.warn(run, warning)),
            RunEvent::Failed { reason } => self.warn(run, reason),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn finished(&self, run: usize, record: &RunRecord) -> ControlFlow<()> {
        if let Some(run) = self.runs.get(run) {
            run.state.lock().end(&record.output.status);
        }
        ControlFlow::Continue(())
    }
}
