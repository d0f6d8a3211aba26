//! The option `--replay`, which records the runs of a scenario while they are simulated.

use crate::args::RunArgs;
use crate::error::CliError;
use crate::recording::Recordings;
use parking_lot::Mutex;
use rnic_campaign::RunListener;
use rnic_results::replay::{RecordedRun, Recorder, render};
use rnic_spec::{RunRecord, RunSpec, Scenario};
use std::ops::ControlFlow;

/// The smallest size of a run in the file.
const MIN_RUN: u64 = 10_000;

/// Makes the page of the recorded runs of a scenario.
pub(crate) struct Replaying<'s> {
    scenario: &'s Scenario,
    recordings: Recordings,
    /// For each run that has ended, its part of the page.
    recorded: Mutex<Vec<Option<Result<RecordedRun, String>>>>,
    /// The flows of `--replay-flow`.
    named: &'s [u32],
    /// For each run without one of these flows, a sentence.
    absent: Mutex<Vec<String>>,
}

impl<'s> Replaying<'s> {
    /// The recordings of all runs; `None` without `--replay`. A run that has no frames, a size that is too small, and
    /// too many named flows are errors.
    pub(crate) fn of(arguments: &'s RunArgs, scenario: &'s Scenario) -> Result<Option<Replaying<'s>>, CliError> {
        if !arguments.replay {
            return Ok(None);
        }
        scenario.runs.iter().try_for_each(refuse)?;
        let (named, most) = (&arguments.replay_flows, Recorder::MAX_NAMED);
        if named.len() > most {
            return Err(CliError::Input(format!("--replay-flow: {} flows; accepted: at most {most}", named.len())));
        }
        let page = render(&scenario.title, &[], false).len() as u64;
        let runs = scenario.runs.len().max(1) as u64;
        let each = arguments.replay_size.0.saturating_sub(page) / runs;
        if each < MIN_RUN {
            let (size, least) = (arguments.replay_size, (page + MIN_RUN * runs).div_ceil(1_000));
            return Err(CliError::Input(format!(
                "--replay-size {size} is too small for a replay of {runs} runs: at least {least} KB"
            )));
        }
        let recordings = Recordings::of(&scenario.runs, each, named);
        let recorded = Mutex::new(scenario.runs.iter().map(|_| None).collect());
        Ok(Some(Replaying { scenario, recordings, recorded, named, absent: Mutex::default() }))
    }

    /// The runs that did not have a flow of `--replay-flow`, a sentence for each.
    pub(crate) fn absent(&self) -> Vec<String> {
        self.absent.lock().clone()
    }

    /// A sentence about the flows of `--replay-flow` that are not among the `flows` of a run; `None` if all are.
    fn lacks(&self, run: &RunSpec, flows: usize) -> Option<String> {
        let absent: Vec<String> = self.named.iter().filter(|id| **id as usize >= flows).map(u32::to_string).collect();
        if absent.is_empty() {
            return None;
        }
        let (name, ids) = (&run.name, absent.join(", "));
        let range = flows.checked_sub(1).map_or("none".to_string(), |last| format!("0 to {last}"));
        Some(format!("warning: --replay-flow {ids}: run \"{name}\" has no such flow; the ids of its flows: {range}"))
    }

    /// The recordings, which the runs must make.
    pub(crate) fn recordings(&self) -> &Recordings {
        &self.recordings
    }

    /// The page of the runs that have ended. Two runs are shown side by side.
    pub(crate) fn page(&self) -> Result<String, CliError> {
        let runs: Result<Vec<RecordedRun>, String> = self.recorded.lock().iter().flatten().cloned().collect();
        let runs = runs.map_err(|why| CliError::Failed(vec![format!("the replay cannot be written: {why}")]))?;
        Ok(render(&self.scenario.title, &runs, runs.len() == 2))
    }
}

impl RunListener for Replaying<'_> {
    /// Ends the recording of the run.
    fn finished(&self, run: usize, record: &RunRecord) -> ControlFlow<()> {
        if let (Some(recording), Some(spec)) = (self.recordings.get(run), self.scenario.runs.get(run)) {
            let recorded = recording.recorder().finish(spec, record).map_err(|error| error.to_string());
            self.recorded.lock()[run] = recorded.transpose();
            self.absent.lock().extend(self.lacks(spec, record.output.flows.len()));
        }
        ControlFlow::Continue(())
    }
}

/// Refuses a run that has no frames.
fn refuse(run: &RunSpec) -> Result<(), CliError> {
    let why = if !run.fidelity.is_packet() {
        "simulates flows as fluids, without queues; write fidelity = \"packet\""
    } else if run.fast_forward > 0.0 {
        "skips simulated time; leave `fast_forward` out"
    } else {
        return Ok(());
    };
    Err(CliError::Input(format!("--replay needs the packets of all runs, but run \"{}\" {why}", run.name)))
}
