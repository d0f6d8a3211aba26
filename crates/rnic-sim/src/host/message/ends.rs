//! The sending and the receiving end of a flow of a message transport; each flow is one message.

use crate::host::ends::{ReceivingEnd, SendingEnd};
use crate::host::ids::{EndSlot, FlowId};
use rnic_fabric::HostId;

/// The sending end of a message, on the sending host.
pub(crate) struct SendEnd {
    pub(super) flow: FlowId,
    /// Receiving host.
    pub(super) dst: HostId,
    pub(super) bytes: u32,
    /// Slot of the message's receiving end on that host.
    pub(super) receive_slot: EndSlot,
    pub(super) data_hash: u32,
    pub(super) retransmitted: u32,
    pub(super) timeouts: u32,
    /// Whether the sender is done with the message: its NIC has left a note that the message is sent or aborted, and
    /// [`Hosts`](crate::host::Hosts) has processed this note. The receiver's NIC leaves a note, too. Notes are
    /// processed host by host, not in order of time, so either of the two notes may be processed first.
    pub(super) ended: bool,
}

impl SendingEnd for SendEnd {
    fn data_hash(&self) -> u32 {
        self.data_hash
    }
    /// The hash of the data packets, because control packets of message transports have one hash per pair of hosts and
    /// not per flow.
    fn control_hash(&self) -> u32 {
        self.data_hash
    }
    fn retransmitted(&self) -> u32 {
        self.retransmitted
    }
    fn timeouts(&self) -> u32 {
        self.timeouts
    }
    /// Does nothing: when a message retires, the NIC has no timer and no packet left that refers to the message's slot.
    fn forget(&mut self) {}
}

/// The receiving end of a message, on the receiving host.
pub(crate) struct ReceiveEnd {
    pub(super) flow: FlowId,
    pub(super) bytes: u64,
    /// Hash of the message's data packets. Packets of an earlier message that used the same slot on the host have
    /// another hash.
    pub(super) data_hash: u32,
    /// Number of payload bytes of the message that have arrived.
    pub(super) delivered: u64,
    /// Whether all bytes of the message have arrived.
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
