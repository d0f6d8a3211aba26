//! The option `--replay`, which records the runs of a scenario while they are simulated.

use crate::args::RunArgs;
use crate::error::CliError;
use parking_lot::Mutex;
use rnic_campaign::RunListener;
use rnic_fabric::{Routes, Topology};
use rnic_results::replay::{RecordedRun, Recorder, render};
use rnic_sim::{FrameListener, FramePlan};
use rnic_spec::{Frame, PauseRow, RunRecord, RunSpec, Scenario, hosts};
use rnic_transport::Time;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The smallest size of a run in the file.
const MIN_RUN: u64 = 10_000;

/// Records the runs of a scenario.
pub(crate) struct Replaying<'s> {
    scenario: &'s Scenario,
    runs: Vec<Recording>,
}

/// The recording of one run.
struct Recording {
    plan: FramePlan,
    recorder: Mutex<Option<Recorder>>,
    recorded: Mutex<Option<Result<RecordedRun, String>>>,
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
        let recording = |run: &RunSpec| {
            let frames = Recorder::frames_for(each, hosts(&run.fabric.topology));
            Recording {
                plan: FramePlan { interval: Recorder::INTERVAL, frames },
                recorder: Mutex::new(Some(Recorder::new(each, &arguments.replay_flows))),
                recorded: Mutex::new(None),
            }
        };
        Ok(Some(Replaying { scenario, runs: scenario.runs.iter().map(recording).collect() }))
    }

    /// The page of the runs that have ended. Two runs are shown side by side.
    pub(crate) fn page(&self) -> Result<String, CliError> {
        let recorded = self.runs.iter().filter_map(|recording| recording.recorded.lock().clone());
        let runs: Result<Vec<RecordedRun>, String> = recorded.collect();
        let runs = runs.map_err(|why| CliError::Failed(vec![format!("the replay cannot be written: {why}")]))?;
        Ok(render(&self.scenario.title, &runs, runs.len() == 2))
    }
}

impl RunListener for Replaying<'_> {
    fn frames(&self, run: usize) -> Option<(FramePlan, &dyn FrameListener)> {
        self.runs.get(run).map(|recording| (recording.plan, recording as &dyn FrameListener))
    }

    /// Ends the recording of the run.
    fn finished(&self, run: usize, record: &RunRecord) -> ControlFlow<()> {
        if let (Some(recording), Some(spec)) = (self.runs.get(run), self.scenario.runs.get(run))
            && let Some(recorder) = recording.recorder.lock().take()
        {
            let recorded = recorder.finish(spec, record).map_err(|error| error.to_string());
            *recording.recorded.lock() = recorded.transpose();
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

impl FrameListener for Recording {
    fn begin(&self, topology: &Arc<Topology>, routes: &Arc<Routes>) {
        if let Some(recorder) = &mut *self.recorder.lock() {
            recorder.begin(topology, routes, self.plan.frames);
        }
    }

    fn frame(&self, frame: Frame) {
        if let Some(recorder) = &mut *self.recorder.lock() {
            recorder.frame(&frame);
        }
    }

    fn interval_to_next(&self) -> Option<Time> {
        self.recorder.lock().as_ref()?.interval_to_next()
    }

    fn pause(&self, pause: PauseRow) {
        if let Some(recorder) = &mut *self.recorder.lock() {
            recorder.pause(pause);
        }
    }
}
