//! The progress of a run that is being simulated, for the views of `rnic run`.

use rnic_simulator::progress::{Estimate, message};
use rnic_spec::{RunEvent, RunProgress, RunStatus};

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Stage {
    #[default]
    Waiting,
    Running,
    Finished,
    Interrupted,
    Failed,
}

impl Stage {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Stage::Waiting => "waiting",
            Stage::Running => "running",
            Stage::Finished => "finished",
            Stage::Interrupted => "interrupted",
            Stage::Failed => "failed",
        }
    }
}

/// The state of one run.
#[derive(Default)]
pub(crate) struct RunState {
    pub(crate) stage: Stage,
    latest: RunProgress,
    /// Nanoseconds at the start of the run.
    began: u64,
    elapsed_s: f64,
    estimate: Estimate,
}

impl RunState {
    /// Takes an event of the run at a time in nanoseconds.
    pub(crate) fn event(&mut self, event: &RunEvent, nanoseconds: u64) {
        match event {
            RunEvent::Started { .. } => (self.stage, self.began) = (Stage::Running, nanoseconds),
            RunEvent::Progress(latest) => {
                self.elapsed_s = nanoseconds.saturating_sub(self.began) as f64 / 1e9;
                self.estimate.add(self.elapsed_s, latest.fraction().unwrap_or(0.0));
                self.latest = *latest;
            }
            RunEvent::Failed { .. } => self.stage = Stage::Failed,
            RunEvent::Finished { time, flows_done, flows_total } => {
                let latest = &mut self.latest;
                (latest.time, latest.flows_done, latest.flows_total) = (*time, *flows_done, Some(*flows_total));
            }
            _ => {}
        }
    }

    /// Notes how the run ended.
    pub(crate) fn end(&mut self, status: &RunStatus) {
        self.stage = match status {
            RunStatus::Completed => Stage::Finished,
            RunStatus::Interrupted => Stage::Interrupted,
            RunStatus::Failed(_) => Stage::Failed,
        };
    }

    /// The part of the run that is done, from 0 to 1.
    pub(crate) fn fraction(&self) -> f64 {
        if self.stage == Stage::Finished { 1.0 } else { self.latest.fraction().unwrap_or(0.0) }
    }

    /// Finished flows, simulated time and speed; for a run that is being simulated, also the remaining time.
    pub(crate) fn text(&self) -> String {
        match self.stage {
            Stage::Running => message(&self.latest, self.elapsed_s, &self.estimate),
            _ => message(&self.latest, self.elapsed_s, &Estimate::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_transport::Time;

    #[test]
    fn a_run_that_failed_has_not_finished() {
        let mut run = RunState::default();
        run.event(
            &RunEvent::Started { run: "a".into(), seed: 1, parameters: Vec::new(), warnings: Vec::new() },
            1_000_000_000,
        );
        let progress = RunProgress { flows_done: 1, flows_total: Some(4), ..RunProgress::default() };
        run.event(&RunEvent::Progress(progress), 2_000_000_000);
        assert_eq!((run.stage, run.fraction(), run.elapsed_s), (Stage::Running, 0.25, 1.0));
        run.event(&RunEvent::Failed { reason: "why".into() }, 3_000_000_000);
        run.end(&RunStatus::Failed("why".into()));
        assert_eq!((run.stage, run.fraction()), (Stage::Failed, 0.25));
        run.event(&RunEvent::Finished { time: Time::from_us(5), flows_done: 4, flows_total: 4 }, 4_000_000_000);
        run.end(&RunStatus::Completed);
        assert_eq!((run.stage, run.fraction(), run.latest.time), (Stage::Finished, 1.0, Time::from_us(5)));
    }
}
