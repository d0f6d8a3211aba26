//! The interface between a fabric and the hosts attached to it.

use crate::ids::{HostId, SlotId};
use crate::packet::{Body, Packet};
use rnic_transport::Time;
use std::ops::ControlFlow;

/// The hosts of one partition of a fabric. A host is named by its slot in the partition, its position in
/// [`PartitionPlan::hosts_of`](crate::PartitionPlan::hosts_of).
///
/// The fabric calls the methods of one host in order of time. Between hosts there is no order but the windows of the
/// engine, so a method may touch only the state of the host that it is called for, and state that does not depend on
/// order, such as counters.
pub trait HostPartition: Send {
    /// The part of a packet that only hosts understand.
    type Body: Body;

    /// A packet arrived.
    fn receive(&mut self, host: SlotId, now: Time, packet: &Packet<Self::Body>);
    /// Time at which the fabric must call [`HostPartition::wake`] for the host, [`Time::MAX`] for never.
    fn next_wake(&self, host: SlotId) -> Time;
    /// The time that [`HostPartition::next_wake`] named has come.
    fn wake(&mut self, host: SlotId, now: Time);
    /// Whether the host may have a packet to send, now or when it is resumed.
    fn wants_to_transmit(&self, host: SlotId) -> bool;
    /// The transmitter is free: the next packet, of a priority that is not in the bitmap `paused`.
    fn transmit(&mut self, host: SlotId, now: Time, paused: u8) -> Option<Packet<Self::Body>>;
}

/// All hosts of a fabric, by partition. The fabric calls the methods between windows, when no partition is simulated.
pub trait PartitionedHosts {
    /// The hosts of one partition.
    type Partition: HostPartition;

    /// The hosts of each partition of the fabric's plan, in order. During a window the fabric takes them out.
    fn partitions(&mut self) -> &mut Vec<Self::Partition>;
    /// The earliest start of a flow that is unknown to its host as yet, [`Time::MAX`] for none.
    fn next_start(&self) -> Time;
    /// Makes every flow that starts before `end` known to its hosts. `wake` tells the fabric that a host has an event
    /// at a time.
    fn open_window(&mut self, end: Time, wake: &mut dyn FnMut(HostId, Time));
    /// Every event before `end` has been processed; the fabric has transmitted `hops` packets so far. `Break` ends the
    /// run.
    fn close_window(&mut self, end: Time, hops: u64) -> ControlFlow<()>;
}

/// The part of a packet that the hosts `H` understand.
pub type BodyOf<H> = <<H as PartitionedHosts>::Partition as HostPartition>::Body;
