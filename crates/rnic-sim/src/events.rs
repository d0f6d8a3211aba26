//! Where the events of a run go.

use rnic_run::{RunEvent, RunProgress};
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

/// A function that is told events; `Break` cancels the run.
type Sink<'e> = &'e mut dyn FnMut(RunEvent) -> ControlFlow<()>;

/// Passes the events of one run to a function of the caller's.
///
/// Events never influence results: a run that nobody listens to has the same record.
pub struct Events<'e> {
    sink: RefCell<Option<Sink<'e>>>,
    /// Samples and pauses are told too.
    detailed: bool,
    cancelled: Cell<bool>,
    /// Estimates the number of flows from (flows finished, simulated time).
    flows_total: RefCell<Box<dyn Fn(&RunProgress) -> Option<u64> + 'e>>,
}

impl<'e> Events<'e> {
    fn with(sink: Option<Sink<'e>>, detailed: bool) -> Events<'e> {
        let unknown = |_: &RunProgress| None;
        Events {
            sink: RefCell::new(sink),
            detailed,
            cancelled: Cell::new(false),
            flows_total: RefCell::new(Box::new(unknown)),
        }
    }

    /// Nobody listens.
    pub fn ignored() -> Events<'e> {
        Events::with(None, false)
    }

    /// Tells `sink` of the run's start, progress and end.
    pub fn to(sink: Sink<'e>) -> Events<'e> {
        Events::with(Some(sink), false)
    }

    /// Tells `sink` of samples and pauses too.
    pub fn detailed(sink: Sink<'e>) -> Events<'e> {
        Events::with(Some(sink), true)
    }

    /// From now on progress has this estimate of the number of flows.
    pub(crate) fn estimate_flows(&self, total: impl Fn(&RunProgress) -> Option<u64> + 'e) {
        *self.flows_total.borrow_mut() = Box::new(total);
    }
}

/// What the parts of a simulation need of [`Events`].
pub(crate) trait Listener {
    /// Whether samples and pauses are to be told.
    fn wants_details(&self) -> bool;
    /// Takes an event; `Break` if the run is to be cancelled.
    fn tell(&self, event: RunEvent) -> ControlFlow<()>;
    /// Takes how far the run is; `Break` if it is to be cancelled.
    fn progress(&self, progress: RunProgress) -> ControlFlow<()>;
}

impl Listener for Events<'_> {
    fn wants_details(&self) -> bool {
        self.detailed
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
        self.tell(RunEvent::Progress(RunProgress { flows_total, ..progress }))
    }
}
