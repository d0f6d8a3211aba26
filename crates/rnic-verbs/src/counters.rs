//! Counters of a device, and the reasons for which it drops packets.

/// Why the device dropped a received packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dropped {
    /// The bytes are not a packet of RoCEv2 or IRN.
    Malformed,
    /// There is no queue pair with the packet's destination QPN.
    UnknownQp,
    /// The packet comes from another address than that of the queue pair's peer.
    WrongPeer,
    /// The packet has another partition key than 0xffff.
    Partition,
    /// The queue pair's service has no such opcode.
    Opcode,
    /// The queue pair is in a state in which it drops such packets.
    State,
    /// The payload is too long or too short for the path MTU.
    Length,
    /// The packet was received before.
    Duplicate,
    /// An earlier packet is missing, and the service does not keep packets out of order.
    OutOfOrder,
    /// An ACK, NAK or response to a request that is completed.
    Stale,
    /// There is no receive for the message.
    NoReceive,
    /// The request is invalid, or the memory does not admit it.
    Refused,
}

impl Dropped {
    /// All reasons.
    pub const ALL: [Dropped; 12] = [
        Dropped::Malformed,
        Dropped::UnknownQp,
        Dropped::WrongPeer,
        Dropped::Partition,
        Dropped::Opcode,
        Dropped::State,
        Dropped::Length,
        Dropped::Duplicate,
        Dropped::OutOfOrder,
        Dropped::Stale,
        Dropped::NoReceive,
        Dropped::Refused,
    ];

    /// The name of its counter, which does not change.
    pub const fn label(self) -> &'static str {
        match self {
            Dropped::Malformed => "malformed",
            Dropped::UnknownQp => "unknown_qp",
            Dropped::WrongPeer => "wrong_peer",
            Dropped::Partition => "partition",
            Dropped::Opcode => "opcode",
            Dropped::State => "state",
            Dropped::Length => "length",
            Dropped::Duplicate => "duplicate",
            Dropped::OutOfOrder => "out_of_order",
            Dropped::Stale => "stale",
            Dropped::NoReceive => "no_receive",
            Dropped::Refused => "refused",
        }
    }
}

/// Counters of a device, from its creation on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets received, dropped ones included.
    pub packets_received: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Data packets retransmitted.
    pub retransmitted: u64,
    /// Packets dropped, by [`Dropped`].
    pub dropped: [u64; Dropped::ALL.len()],
    /// Requests and responses received more than once.
    pub duplicates: u64,
    /// ACKs sent.
    pub acks_sent: u64,
    /// NAKs sent.
    pub naks_sent: u64,
    /// NAKs for a missing packet (PSN sequence error) received.
    pub naks_received: u64,
    /// Implied NAKs (RC): an ACK or response arrived before the response to an earlier read or atomic.
    pub implied_naks: u64,
    /// RNR NAKs sent: there was no receive.
    pub rnr_naks_sent: u64,
    /// RNR NAKs received.
    pub rnr_naks_received: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Congestion notification packets (CNPs) sent.
    pub cnps_sent: u64,
    /// Congestion notification packets (CNPs) received.
    pub cnps_received: u64,
    /// Packets received with a CE mark.
    pub marked: u64,
    /// Queue pairs that went into the error state by themselves.
    pub queue_pair_errors: u64,
    /// Events that were lost because the application did not poll them.
    pub events_lost: u64,
}

impl Counters {
    /// Packets dropped for this reason.
    pub fn dropped(&self, why: Dropped) -> u64 {
        self.dropped[why as usize]
    }

    pub(crate) fn sent(&mut self, retransmission: bool, bytes: u32) {
        self.retransmitted += u64::from(retransmission);
        self.bytes_sent += u64::from(bytes);
    }
}
