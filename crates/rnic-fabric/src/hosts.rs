//! The interface between a fabric and the hosts attached to it.

use crate::ids::{HostId, PortId, SlotId};
use crate::observed::ObservedPorts;
use crate::packet::{Body, Packet};
use crate::ranks::RankError;
use crate::tap::Tapped;
use rnic_transport::Time;
use std::ops::ControlFlow;

/// The hosts of one partition of a fabric (a part that one thread simulates). The fabric identifies a host by its slot:
/// the host's position in [`PartitionPlan::hosts_of`](crate::PartitionPlan::hosts_of).
///
/// The fabric calls the methods for one host in order of time. Calls for different hosts are in order of time only from
/// one window of simulated time to the next, not within a window. So a method may change only the state of the host for
/// which it is called, and state that does not depend on the order of calls, such as counters.
pub trait HostPartition: Send {
    /// The part of a packet that only hosts understand.
    type Body: Body;

    /// Handles a packet that arrives at the host at time `now`.
    fn receive(&mut self, host: SlotId, now: Time, packet: &Packet<Self::Body>);
    /// Time at which the fabric must call [`HostPartition::wake`] for the host; [`Time::MAX`] means never.
    fn next_wake(&self, host: SlotId) -> Time;
    /// Handles the event that [`HostPartition::next_wake`] announced for time `now`.
    fn wake(&mut self, host: SlotId, now: Time);
    /// Whether the host may have a packet to send, now or after the switch has resumed a paused priority.
    fn wants_to_transmit(&self, host: SlotId) -> bool;
    /// Returns the next packet to send; the fabric calls this when the host's transmitter is free. The packet's
    /// priority must not be in `paused`, the bitmap of priorities that the switch has paused. `None`: no packet may be
    /// sent now.
    fn transmit(&mut self, host: SlotId, now: Time, paused: u8) -> Option<Packet<Self::Body>>;
}

/// The window of simulated time that comes next, without the flows that may start before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextWindow {
    /// Time of the next event, at which the window begins; [`Time::MAX`] if no event is left.
    pub next: Time,
    /// Maximum length of the window.
    pub longest: Time,
}

/// All hosts of a fabric, by partition. The fabric calls the methods between two windows of simulated time, when no
/// partition is being simulated.
pub trait PartitionedHosts {
    /// The type of the hosts of one partition.
    type Partition: HostPartition;

    /// The hosts of each partition, in the order of the partitions in the fabric's plan. While several threads simulate
    /// a window of simulated time, the fabric takes the entries out of the vector.
    fn partitions(&mut self) -> &mut Vec<Self::Partition>;
    /// The earliest start time of a flow that [`PartitionedHosts::open_window`] has not made known to its hosts;
    /// [`Time::MAX`] if no such flow is left.
    fn next_start(&self) -> Time;
    /// Called before each window of simulated time, before [`PartitionedHosts::next_start`]: hosts whose flows come
    /// from outside the simulation wait until they know every flow that may start in the window. `ports` shows the
    /// fabric. `Break` ends the run.
    fn settle(&mut self, _window: NextWindow, _ports: &dyn ObservedPorts) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    /// Called before a window of simulated time in which flows start: makes every flow that starts before `end`, the
    /// end of the window, known to its hosts. The implementation calls `wake` to tell the fabric that a host has an
    /// event at a given time.
    fn open_window(&mut self, end: Time, wake: &mut dyn FnMut(HostId, Time));
    /// Called after each window of simulated time, before [`PartitionedHosts::close_window`], if
    /// [`Fabric::hand_frames`](crate::Fabric::hand_frames) asks for it: the frames that ports have transmitted or
    /// dropped in the window, in order of time, then of port.
    fn note_frames(&mut self, _frames: &[(PortId, Tapped<BodyOf<Self>>)])
    where
        Self: Sized,
    {
    }
    /// Called after each window of simulated time, when every event before its end, `end`, has been processed. `hops`
    /// is the number of packets that all ports have transmitted so far. `Break` ends the run.
    fn close_window(&mut self, end: Time, hops: u64) -> ControlFlow<()>;
    /// On several ranks, called before [`PartitionedHosts::close_window`]: appends to `message` the notices of this
    /// rank's hosts for all ranks. Every rank has hosts in its own partitions only; its other partitions are empty.
    ///
    /// # Errors
    /// A notice cannot be encoded.
    fn send_notices(&mut self, _message: &mut Vec<u8>) -> Result<(), RankError> {
        Ok(())
    }
    /// On several ranks, called after [`PartitionedHosts::send_notices`] for every rank, its own included, in order of
    /// rank: processes the notices of rank `rank`.
    ///
    /// # Errors
    /// The message is damaged.
    fn receive_notices(&mut self, _rank: usize, _message: &[u8]) -> Result<(), RankError> {
        Ok(())
    }
}

/// The part of a packet that the hosts `H` understand.
pub type BodyOf<H> = <<H as PartitionedHosts>::Partition as HostPartition>::Body;
