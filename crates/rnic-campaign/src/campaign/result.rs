//! The result of one run of a campaign, and where it was simulated.

use crate::executor::Outcome;
use crate::hash::Fnv1a;
use crate::store::Stored;
use crate::store::file::{read_value, write_value};
use rnic_results::summary::summarise;
use rnic_spec::{RunRecord, RunSpec, RunStatus, Scenario};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::{self, Read, Write};

/// How a run of a campaign ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum RunState {
    /// The run has results.
    Completed,
    /// The run cannot be set up, or failed. A simulation is deterministic, so it would fail each time.
    Failed,
    /// The run was lost the maximum number of times: each worker that started the run was killed, or its machine
    /// stopped.
    Lost,
}

impl RunState {
    /// All states.
    pub const ALL: [RunState; 3] = [RunState::Completed, RunState::Failed, RunState::Lost];

    /// The state that [`RunState::word`] names; `None` for another word.
    pub fn of_word(word: &str) -> Option<RunState> {
        RunState::ALL.into_iter().find(|state| state.word() == word)
    }

    /// The state as one word.
    pub fn word(self) -> &'static str {
        match self {
            RunState::Completed => "completed",
            RunState::Failed => "failed",
            RunState::Lost => "lost",
        }
    }
}

/// Where, when and by which program a run was simulated. The provenance is not part of the result, because it differs
/// between executions of the same run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Provenance {
    /// Version and hash of the simulator's code, [`CODE`](crate::CODE).
    pub code: String,
    /// The campaign for which the run was simulated.
    pub campaign: String,
    /// The engine that executed the run, such as `threads` or `dask`.
    pub engine: String,
    /// Name of the machine.
    pub host: String,
    /// Name of the worker's journal.
    pub worker: String,
    /// When the run started, in seconds since 1970.
    pub started_s: f64,
    /// Seconds of wall time that the run took.
    pub wall_s: f64,
    /// Seconds of CPU time that the run took.
    pub cpu_s: f64,
    /// Number of attempts before this one, whose workers were killed.
    pub lost: u32,
}

/// The result of one run of a campaign, as a [`Folder`](super::Folder) stores it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// How the run ended.
    pub state: RunState,
    /// Why the run failed or was lost; empty for a completed run.
    pub failure: String,
    /// The run in `summary.json` as JSON, without its name and point, which do not determine the result. Empty if the
    /// run could not be set up or was lost.
    pub summary: String,
    /// Where the run was simulated.
    pub provenance: Provenance,
}

impl RunResult {
    /// The result of an executed run; `None` if the run was interrupted.
    pub(crate) fn of(spec: &RunSpec, outcome: &Outcome, provenance: Provenance) -> Option<RunResult> {
        let failed = |failure: String| {
            Some(RunResult { state: RunState::Failed, failure, summary: String::new(), provenance: provenance.clone() })
        };
        let record = match outcome {
            Err(error) => return failed(format!("cannot be set up: {error}")),
            Ok(record) => record,
        };
        let state = match &record.output.status {
            RunStatus::Interrupted => return None,
            RunStatus::Completed => RunState::Completed,
            RunStatus::Failed(_) => RunState::Failed,
        };
        let (summary, failure) = summary(spec, record);
        // Reading the flows back from a temporary file may fail after the run has completed.
        let state = if failure.is_empty() { state } else { RunState::Failed };
        Some(RunResult { state, failure, summary, provenance })
    }

    /// The result of a run that was lost too often, or whose simulation panicked.
    pub(crate) fn without_record(state: RunState, failure: String, provenance: Provenance) -> RunResult {
        RunResult { state, failure, summary: String::new(), provenance }
    }

    /// The metrics of the run as one flat object: nested keys are joined by dots, and lists are left out.
    pub fn metrics(&self) -> Map<String, Value> {
        let mut flat = Map::new();
        if let Ok(Value::Object(summary)) = serde_json::from_str(&self.summary) {
            flatten("", summary, &mut flat);
        }
        flat
    }

    /// A metric of the run, with keys joined by dots; `None` if the run has no such number.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let summary: Value = serde_json::from_str(&self.summary).ok()?;
        name.split('.').try_fold(&summary, |value, key| value.get(key))?.as_f64()
    }

    /// Hash of the result without its provenance.
    pub fn digest(&self) -> u128 {
        let mut hash = Fnv1a::new();
        for part in [self.state.word(), &self.failure, &self.summary] {
            hash.absorb(&(part.len() as u64).to_le_bytes());
            hash.absorb(part.as_bytes());
        }
        hash.finish()
    }
}

/// The summary of a run as JSON, and why the run failed.
fn summary(spec: &RunSpec, record: &RunRecord) -> (String, String) {
    let unnamed = RunSpec { name: String::new(), base: String::new(), point: Vec::new(), ..spec.clone() };
    let scenario = Scenario { title: String::new(), name: String::new(), seed: spec.seed, runs: vec![unnamed] };
    let summary = summarise(&scenario, std::slice::from_ref(record));
    let failure = summary.runs.first().and_then(|run| run.failure.clone()).unwrap_or_default();
    let mut document = summary.to_json(false);
    let mut run = document["runs"][0].take();
    if let Value::Object(run) = &mut run {
        run.shift_remove("name");
    }
    (run.to_string(), failure)
}

fn flatten(prefix: &str, object: Map<String, Value>, flat: &mut Map<String, Value>) {
    for (key, value) in object {
        let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            Value::Object(object) => flatten(&name, object, flat),
            Value::Array(_) => {}
            value => {
                flat.insert(name, value);
            }
        }
    }
}

impl Stored for RunResult {
    const ENDING: &'static str = "result";

    /// A simulation is deterministic, so a run that has completed once is completed.
    fn rank(&self) -> u32 {
        u32::from(self.state == RunState::Completed)
    }

    fn write_to(&self, mut out: &mut dyn Write) -> io::Result<()> {
        write_value(&mut out, self)
    }

    fn read_from(mut input: &mut dyn Read, length: u64) -> io::Result<RunResult> {
        read_value(&mut input, length)
    }
}
