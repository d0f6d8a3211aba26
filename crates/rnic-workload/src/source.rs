//! The seam between the simulator and traffic whose flows depend on the completion of earlier flows.

use super::FlowSpec;
use super::boundaries::StepBoundaries;
use super::loops::{Loops, Origin};
use rnic_fabric::PortStates;
use rnic_spec::ProgramRecords;
use rnic_transport::Time;
use std::fmt::Debug;

/// When a flow completed, as seen from its two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Time at which the last byte had arrived at the receiver.
    pub delivered: Time,
    /// Time from which the sender knows that all bytes have arrived. The simulator assumes that the receiver sends a
    /// frame of minimum size when the last byte arrives, and that this frame crosses an empty fabric.
    pub known: Time,
    /// The time that the flow would have taken alone on an empty fabric, from its start to the arrival of the last
    /// byte.
    pub ideal: Time,
    /// Why the flow took longer; `None` if this is not measured.
    pub delays: Option<MessageDelays>,
}

/// Why a message took longer than on an empty fabric: the way of the packet with whose arrival it was complete, from
/// the start of the message on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageDelays {
    /// Time for which the packet waited in switches while its output was not paused, beyond its wait for packets of its
    /// own message on an empty fabric.
    pub queued: Time,
    /// Time for which the packet waited in switches while its output was paused.
    pub paused: Time,
    /// Time from the first transmission of the packet to the one that arrived.
    pub resent: Time,
    /// Time before the first transmission of the packet in which the sender's port was paused.
    pub paused_at_sender: Time,
    /// Time before the first transmission of the packet in which a packet had been sent that was later retransmitted.
    pub recovering: Time,
}

impl MessageDelays {
    /// The parts of the time `excess` by which the message was slower: queueing, pauses, and retransmission; their sum
    /// is at most `excess`. What happened in the fabric counts before what happened at the sender.
    ///
    /// ```
    /// use rnic_transport::Time;
    /// use rnic_workload::MessageDelays;
    /// let us = Time::from_us;
    /// let delays = MessageDelays { queued: us(3), paused: us(2), recovering: us(9), ..MessageDelays::default() };
    /// assert_eq!(delays.parts(us(10)), [us(3), us(2), us(5)]);
    /// ```
    pub fn parts(&self, excess: Time) -> [Time; 3] {
        let mut left = excess;
        let mut take = |time: Time| {
            let part = time.min(left);
            left = left.saturating_sub(part);
            part
        };
        let (paused, queued, resent) = (take(self.paused), take(self.queued), take(self.resent));
        let (paused_at_sender, recovering) = (take(self.paused_at_sender), take(self.recovering));
        [queued, paused.saturating_add(paused_at_sender), resent.saturating_add(recovering)]
    }
}

/// What the engine is about to simulate.
pub struct Pending<'a> {
    /// Whether all known flows have completed: without a further flow, the run ends here.
    pub held: bool,
    /// Time of the next event, or start of the next flow of another source; [`Time::MAX`] if none is known.
    pub next: Time,
    /// Length of the longest window of simulated time.
    pub window: Time,
    /// Returns the state of all ports.
    pub ports: &'a dyn Fn() -> PortStates,
}

/// Whether a source knows the flows of the next window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// It knows them.
    Known,
    /// The run is cancelled.
    Cancelled,
}

/// A source of flows that depend on the completion of earlier flows.
///
/// The simulator calls the functions between windows of simulated time. In each window it first calls
/// [`advance`](Source::advance), then takes the flows that start in the window, and after the window it calls
/// [`complete`](Source::complete) for each flow that has completed in the window. A flow that a completion causes must
/// start after the window.
pub trait Source: Debug + Send {
    /// Processes everything that happens before `end` and needs no further completion, such as the end of a
    /// computation, so that [`head`](Source::head) is right for flows that start before `end`.
    fn advance(&mut self, _end: Time) {}
    /// Start and traffic source of the next flow; `None` if none is known.
    fn head(&self) -> Option<(Time, u16)>;
    /// Time of the next flow, or of the next event that may lead to flows; [`Time::MAX`] while the source waits for
    /// flows to complete.
    fn next_event(&self) -> Time {
        self.head().map_or(Time::MAX, |(start, _)| start)
    }
    /// Takes the next flow, with its origin.
    fn take(&mut self) -> Option<(FlowSpec, Origin)>;
    /// Notes that the flow with the origin `member` has the slot `flow` of the simulator's flow table.
    fn place(&mut self, flow: u32, member: u32);
    /// Whether the source waits for the completion of the flow in slot `flow`.
    fn holds(&self, flow: u32) -> bool;
    /// Notes that the flow in slot `flow` has completed.
    fn complete(&mut self, flow: u32, completion: Completion);
    /// Total number of flows, including flows already taken; `None` for endless traffic.
    fn total(&self) -> Option<u64>;
    /// The shortest time between a completion and a flow that it causes, if this time may be shorter than a frame needs
    /// to cross a link. No window of simulated time may be longer.
    fn reaction(&self) -> Option<Time> {
        None
    }
    /// Waits, if flows come from outside the simulation, until all flows that start in the next window are known. A
    /// window begins at the next event or flow.
    fn settle(&mut self, _pending: &Pending<'_>) -> Settled {
        Settled::Known
    }
    /// Whether flows come from outside the simulation, and more may come.
    fn is_open(&self) -> bool {
        false
    }
    /// Sentences about operations that have not completed, at most a few; empty if everything has completed.
    fn waiting(&self) -> Vec<String> {
        Vec::new()
    }
    /// The boundaries of the steps of programs, from now on; `None` if no program has steps.
    fn step_boundaries(&mut self) -> Option<StepBoundaries> {
        None
    }
    /// Divides the excess of critical paths into its parts, by the `delays` of completions.
    fn split_excess(&mut self) {}
    /// Takes what programs recorded.
    fn take_records(&mut self) -> ProgramRecords {
        ProgramRecords::default()
    }
}

impl Source for Loops {
    fn head(&self) -> Option<(Time, u16)> {
        Loops::head(self)
    }
    fn take(&mut self) -> Option<(FlowSpec, Origin)> {
        Loops::take(self)
    }
    fn place(&mut self, flow: u32, member: u32) {
        Loops::place(self, flow, member);
    }
    fn holds(&self, flow: u32) -> bool {
        Loops::holds(self, flow)
    }
    fn complete(&mut self, flow: u32, completion: Completion) {
        Loops::complete(self, flow, completion.known);
    }
    fn total(&self) -> Option<u64> {
        Loops::total(self)
    }
}
