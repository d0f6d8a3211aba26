//! The sending and the receiving end of a simulated flow: their locations, their addresses in packets, and the traits
//! that both kinds of NICs (RC-like and message) implement for them.

use super::ids::{EndSlot, FlowId};
use rnic_fabric::HostId;
use rnic_fabric::Location;
use rnic_transport::Psn;

/// Location of one end of a flow: its host's partition and position, and the end's slot (index) on the host.
#[derive(Clone, Copy, Default)]
pub(crate) struct EndLocation {
    pub(crate) host: Location,
    pub(crate) slot: EndSlot,
}

/// Locations of the sending and the receiving end of a flow.
#[derive(Clone, Copy, Default)]
pub(crate) struct FlowEnds {
    pub(crate) sender: EndLocation,
    pub(crate) receiver: EndLocation,
}

/// Hashes of a flow, which its packets carry. ECMP uses them to choose paths. Hosts compare them to recognise late
/// packets of an earlier flow that used the same slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowHashes {
    /// Hash that the flow's data packets carry.
    pub data: u32,
    /// Hash that the flow's control packets (such as ACKs) carry.
    pub control: u32,
}

impl FlowHashes {
    /// Both hashes as one number, the seed of the flow's path selection.
    pub(crate) fn seed(self) -> u64 {
        u64::from(self.control) << 32 | u64::from(self.data)
    }

    /// Changes the hashes of a slot after its flow has finished. The slot compares these hashes with the hashes of
    /// packets, so late packets of the flow no longer match the slot.
    pub(crate) fn invalidate(&mut self) {
        (self.data, self.control) = (!self.data, !self.control);
    }
}

/// Interface to the sending end of a flow, which both kinds of NICs (RC-like and message) implement.
pub(crate) trait SendingEnd {
    /// Hash of the flow's data packets.
    fn data_hash(&self) -> u32;
    /// Hash of the flow's control packets, such as ACKs. If control packets have no hash per flow, it is the hash of
    /// the data packets.
    fn control_hash(&self) -> u32;
    /// Number of data packets of the flow that this end has retransmitted.
    fn retransmitted(&self) -> u32;
    /// Number of timeouts at this end of the flow.
    fn timeouts(&self) -> u32;
    /// Marks this end as unused after its flow has retired: late packets and timers of the flow no longer match the
    /// end.
    fn forget(&mut self);
}

/// Interface to the receiving end of a flow, which both kinds of NICs (RC-like and message) implement.
pub(crate) trait ReceivingEnd {
    /// Whether all bytes of the flow `flow`, which uses this end, have arrived.
    fn is_done(&self, flow: FlowId) -> bool;
    /// Number of timeouts at this end of the flow.
    fn timeouts(&self) -> u32;
    /// Marks this end as unused after its flow has retired: late packets and timers of the flow no longer match the
    /// end.
    fn forget(&mut self);
}

/// Address of one end of a flow in simulated packets: the host, and the slot (index) of the end on the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct EndAddress {
    pub(crate) host: HostId,
    pub(crate) slot: EndSlot,
}

/// The addresses, hashes and first PSN that identify a flow's packets. Flows that use the same slots of the two hosts
/// one after the other differ in their hashes; flows of one persistent connection differ in their PSNs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowAddress {
    /// Destination of the flow's data packets.
    pub(crate) receiver: EndAddress,
    /// Destination of the flow's control packets.
    pub(crate) sender: EndAddress,
    pub(crate) hashes: FlowHashes,
    /// PSN of the flow's first packet.
    pub(crate) first_psn: Psn,
}
