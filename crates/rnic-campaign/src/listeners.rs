//! Passes the events, frames and records of runs to several listeners.

use crate::executor::RunListener;
use crate::frames::FrameListeners;
use rnic_sim::{FrameListener, FramePlan};
use rnic_spec::{RunEvent, RunRecord};
use std::ops::ControlFlow;

/// Several listeners to the runs of a scenario. Each event goes to the listeners in their order, until one returns
/// `Break`.
pub struct RunListeners<'l> {
    listeners: Vec<&'l dyn RunListener>,
    /// For each run, the listeners of its frames.
    frames: Vec<Option<FrameListeners<'l>>>,
}

impl<'l> RunListeners<'l> {
    /// Combines listeners of a scenario with `runs` runs.
    pub fn new(listeners: Vec<&'l dyn RunListener>, runs: usize) -> RunListeners<'l> {
        let of_run = |run| listeners.iter().filter_map(|listener| listener.frames(run)).collect();
        let frames = (0..runs).map(|run| FrameListeners::new(of_run(run))).collect();
        RunListeners { listeners, frames }
    }
}

impl RunListener for RunListeners<'_> {
    fn event(&self, run: usize, event: &RunEvent) -> ControlFlow<()> {
        self.listeners.iter().try_for_each(|listener| listener.event(run, event))
    }

    fn frames(&self, run: usize) -> Option<(FramePlan, &dyn FrameListener)> {
        let frames = self.frames.get(run)?.as_ref()?;
        Some((frames.plan(), frames))
    }

    fn finished(&self, run: usize, record: &RunRecord) -> ControlFlow<()> {
        self.listeners.iter().try_for_each(|listener| listener.finished(run, record))
    }
}
