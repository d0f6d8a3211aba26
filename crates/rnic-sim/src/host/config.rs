//! Settings and counters of simulated NICs.

use rnic_transport::Time;

/// Priority of data packets of RC-like transports.
pub(crate) const DATA_PRIORITY: u8 = 0;

/// Settings of the hosts of a run that do not belong to their transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostConfig {
    /// Bytes of link time that each frame takes beyond its own length, for preamble and inter-frame gap.
    pub frame_gap: u32,
    /// Frame length of an ACK, in bytes.
    pub ack_bytes: u32,
    /// Frame length of a NACK, in bytes.
    pub nack_bytes: u32,
    /// Frame length of a congestion notification packet (CNP), in bytes.
    pub cnp_bytes: u32,
    /// Number of packets that a NIC sends of one flow before the next ready flow has its turn, at least 1.
    pub burst: u32,
    /// Priority of ACKs, NACKs and CNPs.
    pub control_priority: u8,
    /// Simulated time at which the run fails if flows are unfinished.
    pub max_time: Time,
    /// Simulated time without progress of any flow after which the run fails.
    pub stall_time: Time,
    /// Simulated time at which the run completes, even with unfinished flows; `None`: when all flows have finished.
    pub duration: Option<Time>,
    /// Seed of the flow hashes.
    pub seed: u64,
}

/// Counters, summed over all hosts of a run or of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostTotals {
    /// Data packets sent.
    pub data: u64,
    /// Control packets sent.
    pub control: u64,
    /// Data packets retransmitted.
    pub retransmitted: u64,
    /// Packets received.
    pub delivered: u64,
    /// CE-marked packets received.
    pub marked: u64,
    /// Congestion notification packets sent.
    pub notifications: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Messages that their senders aborted.
    pub aborted: u64,
}

impl HostTotals {
    /// Adds the counters of other hosts.
    pub(crate) fn add(&mut self, other: &HostTotals) {
        let HostTotals { data, control, retransmitted, delivered, marked, notifications, timeouts, aborted } = other;
        self.data += data;
        self.control += control;
        self.retransmitted += retransmitted;
        self.delivered += delivered;
        self.marked += marked;
        self.notifications += notifications;
        self.timeouts += timeouts;
        self.aborted += aborted;
    }
}
