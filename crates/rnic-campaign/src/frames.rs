//! Passes the frames of one run to several listeners, for example to a trace and to a replay.

use rnic_fabric::{Routes, Topology};
use rnic_sim::{FrameListener, FramePlan};
use rnic_spec::{Frame, PauseRow};
use rnic_transport::Time;
use std::sync::Arc;

/// Several listeners of the frames of one run. All of them receive the same frames, at the instants of one plan: the
/// plan with the shortest interval, and among several such plans, the plan with the most frames.
///
/// ```
/// use rnic_campaign::FrameListeners;
/// use rnic_fabric::{Routes, Topology};
/// use rnic_sim::{FrameListener, FramePlan};
/// use rnic_spec::{Frame, PauseRow};
/// use rnic_transport::Time;
/// use std::sync::Arc;
///
/// struct Print;
///
/// impl FrameListener for Print {
///     fn begin(&self, _: &Arc<Topology>, _: &Arc<Routes>) {}
///     fn frame(&self, frame: Frame) {
///         println!("{}", frame.time);
///     }
///     fn pause(&self, _: PauseRow) {}
/// }
///
/// let plan = |us, frames| FramePlan { interval: Time::from_us(us), frames };
/// let both = FrameListeners::new(vec![(plan(5, 100), &Print), (plan(1, 50), &Print)]).unwrap();
/// assert_eq!(both.plan(), plan(1, 50));
/// both.frame(Frame::default());
/// assert!(FrameListeners::new(Vec::new()).is_none());
/// ```
pub struct FrameListeners<'l> {
    plan: FramePlan,
    listeners: Vec<&'l dyn FrameListener>,
}

impl<'l> FrameListeners<'l> {
    /// Combines listeners and the plans that they ask for; `None` without listeners.
    pub fn new(listeners: Vec<(FramePlan, &'l dyn FrameListener)>) -> Option<FrameListeners<'l>> {
        let plan = listeners.iter().map(|(plan, _)| *plan);
        let plan = plan.min_by_key(|plan| (plan.interval, std::cmp::Reverse(plan.frames)))?;
        Some(FrameListeners { plan, listeners: listeners.into_iter().map(|(_, listener)| listener).collect() })
    }

    /// The instants of the frames.
    pub fn plan(&self) -> FramePlan {
        self.plan
    }
}

impl FrameListener for FrameListeners<'_> {
    fn begin(&self, topology: &Arc<Topology>, routes: &Arc<Routes>) {
        self.listeners.iter().for_each(|listener| listener.begin(topology, routes));
    }

    fn frame(&self, frame: Frame) {
        if let Some((last, others)) = self.listeners.split_last() {
            others.iter().for_each(|listener| listener.frame(frame.clone()));
            last.frame(frame);
        }
    }

    /// The shortest interval that a listener asks for. A listener without an interval needs the plan's interval, so the
    /// interval is longer than the plan's only if every listener has an interval.
    fn interval_to_next(&self) -> Option<Time> {
        let asked: Vec<Time> = self.listeners.iter().filter_map(|listener| listener.interval_to_next()).collect();
        let shortest = asked.iter().min().copied();
        shortest.filter(|interval| asked.len() == self.listeners.len() || *interval < self.plan.interval)
    }

    fn pause(&self, pause: PauseRow) {
        self.listeners.iter().for_each(|listener| listener.pause(pause));
    }
}
