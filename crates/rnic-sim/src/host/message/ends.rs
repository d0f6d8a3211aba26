//! The ends of a message.

use crate::host::ends::{ReceivingEnd, SendingEnd};
use crate::host::ids::{EndSlot, FlowId};
use rnic_fabric::HostId;

/// The sending end of a message.
pub(crate) struct SendEnd {
    pub(super) flow: FlowId,
    /// Receiving host.
    pub(super) dst: HostId,
    pub(super) bytes: u32,
    /// Slot of the receiving end.
    pub(super) receive_slot: EndSlot,
    pub(super) data_hash: u32,
    pub(super) retransmitted: u32,
    pub(super) timeouts: u32,
    /// [`Hosts`](crate::host::Hosts) has processed the note that the NIC has sent or aborted the message. Notes of both
    /// hosts from one window are processed host by host, not in order of time.
    pub(super) ended: bool,
}

impl SendingEnd for SendEnd {
    fn data_hash(&self) -> u32 {
        self.data_hash
    }
    /// Control packets have one hash per pair of hosts, so the flow's own hash stands for it.
    fn control_hash(&self) -> u32 {
        self.data_hash
    }
    fn retransmitted(&self) -> u32 {
        self.retransmitted
    }
    fn timeouts(&self) -> u32 {
        self.timeouts
    }
    /// The NIC has no timer and no packet left that refers to the slot.
    fn forget(&mut self) {}
}

/// The receiving end of a message.
pub(crate) struct ReceiveEnd {
    pub(super) flow: FlowId,
    pub(super) bytes: u64,
    /// Hash of the message's data packets, in which packets of earlier messages in the slot differ.
    pub(super) data_hash: u32,
    /// Payload bytes that have arrived.
    pub(super) delivered: u64,
    /// Everything has arrived.
    pub(super) done: bool,
}

impl ReceivingEnd for ReceiveEnd {
    fn is_done(&self) -> bool {
        self.done
    }
    /// Receivers of messages have no timeouts that records count.
    fn timeouts(&self) -> u32 {
        0
    }
    fn forget(&mut self) {
        self.data_hash = !self.data_hash;
    }
}
