//! The option `--replay`, which records the runs of a scenario while they are simulated.

use crate::args::RunArgs;
use crate::error::CliError;
use crate::recording::Recordings;
use parking_lot::Mutex;
use rnic_campaign::RunListener;
use rnic_results::replay::{RecordedRun, render};
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
}

impl<'s> Replaying<'s> {
    /// The recordings of all runs; `None` without `--replay`. A run that has no frames, and a size that is too small,
    /// are errors.
    pub(crate) fn of(arguments: &RunArgs, scenario: &'s Scenario) -> Result<Option<Replaying<'s>>, CliError> {
        if !arguments.replay {
            return Ok(None);
        }
        scenario.runs.iter().try_for_each(refuse)?;
        let page = render(&scenario.title, &[], false).len() as u64;
        let runs = scenario.runs.len().max(1) as u64;
        let each = arguments.replay_size.0.saturating_sub(page) / runs;
        if each < MIN_RUN {
            let (size, least) = (arguments.replay_size, (page + MIN_RUN * runs).div_ceil(1_000));
            return Err(CliError::Input(format!(
                "--replay-size {size} is too small for a replay of {runs} runs: at least {least} KB"
            )));
        }
        let recordings = Recordings::of(&scenario.runs, each, &arguments.replay_flows);
        let recorded = Mutex::new(scenario.runs.iter().map(|_| None).collect());
        Ok(Some(Replaying { scenario, recordings, recorded }))
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
