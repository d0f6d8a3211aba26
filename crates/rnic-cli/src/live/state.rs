//! The state of the runs that a page shows: their progress, warnings, recordings and results. The simulation writes the
//! state, and each client of the server reads the parts that it has not read yet, so no client makes a run wait.

use crate::run_state::{RunState, Stage};
use crate::service::Clock;
use parking_lot::Mutex;
use rnic_campaign::RunListener;
use rnic_fabric::{Routes, Topology};
use rnic_results::replay::{Cursor, NewFrames, Recorder};
use rnic_sim::{FrameListener, FramePlan};
use rnic_spec::{Frame, PauseRow, RunEvent, RunRecord, Scenario, hosts};
use rnic_transport::Time;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// Number of runs whose fabrics are recorded: the first runs of the scenario. For further runs, the page shows only the
/// progress.
pub(super) const RECORDED: usize = 8;
/// Size of a recording, on which the number of its frames depends.
const RECORDING_BYTES: u64 = 2_000_000;
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
    film: Option<Film>,
}

/// The recording of a run.
struct Film {
    plan: FramePlan,
    recorder: Mutex<Recorder>,
}

impl Runs {
    pub(super) fn of(scenario: &Scenario) -> Runs {
        let run = |(index, run): (usize, &rnic_spec::RunSpec)| {
            let frames = Recorder::frames_for(RECORDING_BYTES, hosts(&run.fabric.topology));
            let film = (index < RECORDED).then(|| Film {
                plan: FramePlan { interval: Recorder::INTERVAL, frames },
                recorder: Mutex::new(Recorder::new(RECORDING_BYTES, &[])),
            });
            Run { name: run.name.clone(), state: Mutex::default(), film }
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
        self.film.as_ref()?.recorder.lock().fabric(&self.name)
    }

    /// The frames that a reader has not read yet, at most `most`.
    pub(super) fn frames(&self, cursor: &mut Cursor, most: usize) -> Option<NewFrames> {
        self.film.as_ref()?.recorder.lock().read(cursor, most)
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

    fn frames(&self, run: usize) -> Option<(FramePlan, &dyn FrameListener)> {
        let film = self.runs.get(run)?.film.as_ref()?;
        Some((film.plan, film))
    }

    fn finished(&self, run: usize, record: &RunRecord) -> ControlFlow<()> {
        if let Some(run) = self.runs.get(run) {
            run.state.lock().end(&record.output.status);
        }
        ControlFlow::Continue(())
    }
}

impl FrameListener for Film {
    fn begin(&self, topology: &Arc<Topology>, routes: &Arc<Routes>) {
        self.recorder.lock().begin(topology, routes, self.plan.frames);
    }

    fn frame(&self, frame: Frame) {
        self.recorder.lock().frame(&frame);
    }

    fn interval_to_next(&self) -> Option<Time> {
        self.recorder.lock().interval_to_next()
    }

    fn pause(&self, pause: PauseRow) {
        self.recorder.lock().pause(pause);
    }
}
