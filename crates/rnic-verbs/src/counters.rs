//! What a device counts.

/// Why a packet was not taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dropped {
    /// Its bytes are no packet.
    Malformed,
    /// No queue pair has its number.
    UnknownQp,
    /// It comes from another address than the queue pair's peer.
    WrongPeer,
    /// It has another partition key.
    Partition,
    /// The queue pair's service does not know its opcode.
    Opcode,
    /// The queue pair is in a state that takes no such packet.
    State,
    /// It is too long or too short for the path MTU.
    Length,
    /// It was taken before.
    Duplicate,
    /// Something before it is missing, and it is not kept.
    OutOfOrder,
    /// It acknowledges or answers what was long done.
    Stale,
    /// There is no receive for it.
    NoReceive,
    /// It asks for what is not admitted.
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

    /// A short name that does not change, for counters.
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

/// Counts of a device since it was made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets received, good or not.
    pub packets_received: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Payload bytes sent, repetitions included.
    pub bytes_sent: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Packets not taken, by reason.
    pub dropped: [u64; Dropped::ALL.len()],
    /// Requests that came again.
    pub duplicates: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// NAKs sent.
    pub naks_sent: u64,
    /// NAKs for a missing packet received.
    pub naks_received: u64,
    /// Losses noticed because a later answer came first.
    pub implied_naks: u64,
    /// NAKs for want of a receive sent.
    pub rnr_naks_sent: u64,
    /// NAKs for want of a receive received.
    pub rnr_naks_received: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Congestion notifications sent.
    pub cnps_sent: u64,
    /// Congestion notifications received.
    pub cnps_received: u64,
    /// Packets that arrived with a congestion mark.
    pub marked: u64,
    /// Queue pairs that went into error.
    pub queue_pair_errors: u64,
    /// Events that the application did not take in time.
    pub events_lost: u64,
}

impl Counters {
    /// Packets not taken for this reason.
    pub fn dropped(&self, why: Dropped) -> u64 {
        self.dropped[why as usize]
    }

    pub(crate) fn sent(&mut self, again: bool, bytes: u32) {
        self.retransmitted += u64::from(again);
        self.bytes_sent += u64::from(bytes);
    }
}
