//! Delivery of a run's events (start, progress, samples, pauses, end) to a listener, which is a function of the caller.

use crate::frame_listener::{FrameListener, FramePlan};
use rnic_spec::{RunEvent, RunProgress};
use rnic_transport::Time;
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

/// A function that receives the events of a run. If it returns `Break`, the run is cancelled.
type Sink<'e> = &'e mut dyn FnMut(RunEvent) -> ControlFlow<()>;

/// A function that receives the result of each probe of the run's meshes.
type ProbeSink<'e> = &'e mut dyn FnMut(MeshProbe);

/// The result of a probe of a mesh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeshProbe {
    /// Index of the mesh in the list of the run's fabric.
    pub mesh: usize,
    /// Indices of the probing and of the responding host.
    pub ends: (u32, u32),
    /// When it was posted.
    pub at: Time,
    /// Round-trip time, with the declared delay of the hosts' software; `None`: no response before the end of the run.
    pub rtt: Option<Time>,
}

/// A function that estimates the number of flows of the whole run from the run's progress so far.
type FlowEstimate<'e> = Box<dyn Fn(&RunProgress) -> Option<u64> + 'e>;

/// Passes the events of one run to a function of the caller.
///
/// Events do not influence the results of a run: without such a function the run has the same record.
///
/// ```
/// use rnic_spec::RunEvent;
/// use rnic_sim::Events;
/// use std::ops::ControlFlow;
/// let mut last_time = None;
/// let mut note = |event| {
///     if let RunEvent::Progress(progress) = event {
///         last_time = Some(progress.time);
///     }
///     ControlFlow::Continue(())
/// };
/// let events = Events::to(&mut note);
/// ```
pub struct Events<'e> {
    sink: RefCell<Option<Sink<'e>>>,
    /// Whether the listener (`sink`) also receives samples and pauses.
    detailed: bool,
    probes: RefCell<Option<ProbeSink<'e>>>,
    frames: Option<(FramePlan, &'e dyn FrameListener)>,
    cancelled: Cell<bool>,
    flows_total: RefCell<FlowEstimate<'e>>,
    /// The run's `duration`.
    duration: Cell<Option<Time>>,
}

impl<'e> Events<'e> {
    fn with(sink: Option<Sink<'e>>, detailed: bool) -> Events<'e> {
        let unknown = |_: &RunProgress| None;
        Events {
            sink: RefCell::new(sink),
            detailed,
            probes: RefCell::new(None),
            frames: None,
            cancelled: Cell::new(false),
            flows_total: RefCell::new(Box::new(unknown)),
            duration: Cell::new(None),
        }
    }

    /// Discards all events of the run.
    pub fn ignored() -> Events<'e> {
        Events::with(None, false)
    }

    /// Passes the run's start, progress and end to `sink`.
    pub fn to(sink: Sink<'e>) -> Events<'e> {
        Events::with(Some(sink), false)
    }

    /// Passes all events of the run to `sink`, samples and pauses included.
    pub fn detailed(sink: Sink<'e>) -> Events<'e> {
        Events::with(Some(sink), true)
    }

    /// Also passes the result of each probe of the run's meshes to `sink`: mesh by mesh, in order of time, at the end
    /// of the run.
    pub fn with_probes(self, sink: ProbeSink<'e>) -> Events<'e> {
        Events { probes: RefCell::new(Some(sink)), ..self }
    }

    /// Also passes frames of the run, the states of its fabric at successive instants, to `listener`. A run on several
    /// ranks, and one with `fidelity = "flow"`, has none.
    pub fn with_frames(self, plan: FramePlan, listener: &'e dyn FrameListener) -> Events<'e> {
        Events { frames: Some((plan, listener)), ..self }
    }

    /// Sets the run's `duration` for the following progress events, and the function that estimates the number of flows
    /// of the whole run.
    pub(crate) fn estimate_flows(&self, duration: Option<Time>, total: impl Fn(&RunProgress) -> Option<u64> + 'e) {
        self.duration.set(duration);
        *self.flows_total.borrow_mut() = Box::new(total);
    }
}

/// The part of [`Events`] that the simulation uses to pass events to the listener.
pub(crate) trait Listener {
    /// Whether the listener receives samples and pauses.
    fn wants_details(&self) -> bool;
    /// The instants of the frames that the run must take, and their listener; `None` without a listener.
    fn frames(&self) -> Option<(FramePlan, &dyn FrameListener)>;
    /// Passes the result of a probe to the listener.
    fn probe(&self, probe: MeshProbe);
    /// Passes an event to the listener. Returns `Break` if the listener has cancelled the run.
    fn tell(&self, event: RunEvent) -> ControlFlow<()>;
    /// Passes the progress of the run to the listener. Returns `Break` if the listener has cancelled the run.
    fn progress(&self, progress: RunProgress) -> ControlFlow<()>;
}

impl Listener for Events<'_> {
    fn wants_details(&self) -> bool {
        self.detailed
    }

    fn frames(&self) -> Option<(FramePlan, &dyn FrameListener)> {
        self.frames
    }

    fn probe(&self, probe: MeshProbe) {
        if let Some(sink) = self.probes.borrow_mut().as_mut() {
            sink(probe);
        }
    }

    fn tell(&self, event: RunEvent) -> ControlFlow<()> {
        if let Some(sink) = self.sink.borrow_mut().as_mut()
            && sink(event).is_break()
        {
            self.cancelled.set(true);
        }
        if self.cancelled.get() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn progress(&self, progress: RunProgress) -> ControlFlow<()> {
        let flows_total = (self.flows_total.borrow())(&progress);
        self.tell(RunEvent::Progress(RunProgress { flows_total, duration: self.duration.get(), ..progress }))
    }
}
