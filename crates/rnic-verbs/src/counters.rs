//! Counters of a [`Device`](crate::Device) (one RDMA NIC), and the reasons for which it drops received packets.

/// The reason for which the device dropped a received packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dropped {
    /// The bytes are not a packet of RoCEv2 or IRN.
    Malformed,
    /// No queue pair has the packet's destination QPN.
    UnknownQp,
    /// The packet's source IP address or UDP source port is not that of the queue pair's peer.
    WrongPeer,
    /// The packet is not protected although the connection is, or the other way round.
    Unprotected,
    /// The queue key (Q_Key) of a datagram is not that of the UD queue pair.
    QKey,
    /// The packet's partition key is not a key of the default partition (0xffff or 0x7fff).
    Partition,
    /// The opcode does not belong to the queue pair's transport service.
    Opcode,
    /// The queue pair is in a state in which it does not process such packets, for example RESET.
    State,
    /// The payload is too long or too short for the path MTU, or a datagram is longer than the receive that is posted
    /// for it.
    Length,
    /// The packet was received before.
    Duplicate,
    /// An earlier packet is missing, and the service does not accept packets out of order.
    OutOfOrder,
    /// The packet is an ACK, a NAK or a response for a request that is not outstanding, or a CNP although the queue
    /// pair has sent no packet for a while.
    Stale,
    /// The message needs a receive, and no receive is posted.
    NoReceive,
    /// The request is invalid, or its access to memory is not allowed.
    Refused,
}

impl Dropped {
    /// All reasons.
    pub const ALL: [Dropped; 14] = [
        Dropped::Malformed,
        Dropped::UnknownQp,
        Dropped::WrongPeer,
        Dropped::Unprotected,
        Dropped::QKey,
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

    /// The name of the reason in statistics. Names are stable across versions.
    pub const fn label(self) -> &'static str {
        match self {
            Dropped::Malformed => "malformed",
            Dropped::UnknownQp => "unknown_qp",
            Dropped::WrongPeer => "wrong_peer",
            Dropped::Unprotected => "unprotected",
            Dropped::QKey => "q_key",
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

/// Counters of a device, which count from its creation on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets received, dropped packets included.
    pub packets_received: u64,
    /// Packets sent, retransmissions included.
    pub packets_sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Data packets retransmitted.
    pub retransmitted: u64,
    /// Packets dropped, by reason: the index is `Dropped as usize`.
    pub dropped: [u64; Dropped::ALL.len()],
    /// Request and response packets that had been received before.
    pub duplicates: u64,
    /// ACKs sent.
    pub acks_sent: u64,
    /// NAKs sent, except RNR NAKs.
    pub naks_sent: u64,
    /// NAKs for a missing packet (PSN sequence error) received.
    pub naks_received: u64,
    /// Implied NAKs of RC: an ACK or response that arrived before the response to an earlier read or atomic operation,
    /// and so shows that packets of the earlier response were lost.
    pub implied_naks: u64,
    /// RNR NAKs sent, because there was no posted receive for a message.
    pub rnr_naks_sent: u64,
    /// RNR NAKs received.
    pub rnr_naks_received: u64,
    /// Expired retransmission timeouts.
    pub timeouts: u64,
    /// Congestion notification packets (CNPs) sent.
    pub cnps_sent: u64,
    /// Congestion notification packets (CNPs) received.
    pub cnps_received: u64,
    /// Packets received with a CE mark (ECN).
    pub marked: u64,
    /// Queue pairs that went into the error state because of an error, and not because the application moved them.
    pub queue_pair_errors: u64,
    /// Asynchronous events that were lost because the application polled too rarely: more than
    /// [`MAX_EVENTS`](crate::MAX_EVENTS) were waiting.
    pub events_lost: u64,
}

impl Counters {
    /// Number of packets dropped for the reason `why`.
    pub fn dropped(&self, why: Dropped) -> u64 {
        self.dropped[why as usize]
    }

    pub(crate) fn sent(&mut self, retransmission: bool, bytes: u32) {
        self.retransmitted += u64::from(retransmission);
        self.bytes_sent += u64::from(bytes);
    }
}
