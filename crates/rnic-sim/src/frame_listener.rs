//! The listener of a run's frames, and the instants of the frames.

use rnic_fabric::{Routes, Topology};
use rnic_spec::{Frame, PauseRow};
use rnic_transport::Time;
use std::sync::Arc;

/// The instants of the frames of a run. The end of a run is not known before, so the interval between frames grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FramePlan {
    /// Interval between the first frames.
    pub interval: Time,
    /// After this number of frames the interval doubles, and again whenever half as many have followed. A listener
    /// that then drops every second of the earlier frames has equally distant frames, at most this number.
    pub frames: u32,
}

/// Receives the frames of a run. All methods are called on the thread that executes the run.
pub trait FrameListener: Sync {
    /// Called before the first frame.
    fn begin(&self, topology: &Arc<Topology>, routes: &Arc<Routes>);
    /// Called for each frame, in order of time.
    fn frame(&self, frame: Frame);
    /// Called after each frame: the interval to the next frame, if it should not be that of the plan: shorter after an
    /// event, or longer because little happens. Frames between those of the plan do not count towards
    /// [`FramePlan::frames`].
    fn interval_to_next(&self) -> Option<Time> {
        None
    }
    /// Called for each PFC pause after it has ended, or at the end of the run; with its root cause if the run samples
    /// pauses (`[watch]`), in order of the ends of pauses.
    fn pause(&self, pause: PauseRow);
}
