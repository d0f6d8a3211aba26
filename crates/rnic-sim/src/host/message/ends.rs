//! The sending and the receiving end of a message.

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
    /// Whether the sender is done with the message, sent or aborted, according to a note that
    /// [`Hosts`](crate::host::Hosts) has processed. The receiver's note may be processed before or after it, because
    /// notes are processed host by host, not in order of time.
    pub(super) ended: bool,
}

impl SendingEnd for SendEnd {
    fn data_hash(&self) -> u32 {
        self.data_hash
    }
    /// Control packets have one hash per pair of hosts and not per flow, so this is the hash of the data packets.
    fn control_hash(&self) -> u32 {
        self.data_hash
    }
    fn retransmitted(&self) -> u32 {
        self.retransmitted
    }
    fn timeouts(&self) -> u32 {
        self.timeouts
    }
    /// There is nothing to do: the NIC has no timer and no packet left that refers to the slot.
    fn forget(&mut self) {}
}

/// The receiving end of a message.
pub(crate) struct ReceiveEnd {
    pub(super) flow: FlowId,
    pub(super) bytes: u64,
    /// Hash of the message's data packets. Packets of earlier messages in the same slot have another hash.
    pub(super) data_hash: u32,
    /// Number of payload bytes that have arrived.
    pub(super) delivered: u64,
    /// Whether all bytes have arrived.
    pub(super) done: bool,
}

impl ReceivingEnd for ReceiveEnd {
    fn is_done(&self) -> bool {
        self.done
    }
    /// Always 0: flow records do not count timeouts at the receivers of messages.
    fn timeouts(&self) -> u32 {
        0
    }
    fn forget(&mut self) {
        self.data_hash = !self.data_hash;
    }
}
