//! The two ends of a flow: their locations, their addresses in packets, and their common properties.

use super::ids::EndSlot;
use rnic_fabric::HostId;
use rnic_fabric::Location;
use rnic_transport::Psn;

/// Where one end of a flow is: the location of its host in the partitions, and the slot there.
#[derive(Clone, Copy, Default)]
pub(crate) struct EndLocation {
    pub(crate) host: Location,
    pub(crate) slot: EndSlot,
}

/// Where both ends of a flow are.
#[derive(Clone, Copy, Default)]
pub(crate) struct FlowEnds {
    pub(crate) sender: EndLocation,
    pub(crate) receiver: EndLocation,
}

/// Flow hashes: ECMP chooses paths by them, and with the slot they tell a flow's packets from packets of earlier flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowHashes {
    /// Hash of the data packets.
    pub data: u32,
    /// Hash of the control packets.
    pub control: u32,
}

impl FlowHashes {
    /// Makes late packets of a finished flow strangers to the next flow in its slot.
    pub(crate) fn invalidate(&mut self) {
        (self.data, self.control) = (!self.data, !self.control);
    }
}

/// The properties of a sending end that both kinds of NICs have.
pub(crate) trait SendingEnd {
    /// Hash of the flow's data packets.
    fn data_hash(&self) -> u32;
    /// Hash of the flow's control packets, as far as it is the flow's own.
    fn control_hash(&self) -> u32;
    /// Data packets retransmitted.
    fn retransmitted(&self) -> u32;
    /// Timeouts that fired.
    fn timeouts(&self) -> u32;
    /// The flow has retired: packets and timers of the flow no longer match.
    fn forget(&mut self);
}

/// The properties of a receiving end that both kinds of NICs have.
pub(crate) trait ReceivingEnd {
    /// Whether everything has arrived.
    fn is_done(&self) -> bool;
    /// Timeouts that fired.
    fn timeouts(&self) -> u32;
    /// The flow has retired: packets and timers of the flow no longer match.
    fn forget(&mut self);
}

/// One end of a flow as its packets address it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct EndAddress {
    pub(crate) host: HostId,
    pub(crate) slot: EndSlot,
}

/// The addresses, hashes and PSNs that identify a flow's packets. Flows that use the same slots one after the other
/// differ in their hashes; flows of one connection differ in their PSNs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowAddress {
    /// Destination of its data packets.
    pub(crate) receiver: EndAddress,
    /// Destination of its control packets.
    pub(crate) sender: EndAddress,
    pub(crate) hashes: FlowHashes,
    /// PSN of its first packet.
    pub(crate) first_psn: Psn,
}
