//! Settings and counters of the simulated hosts and their NICs.

use rnic_transport::Time;

/// Priority of data packets of RC-like transports (reliable flows).
pub(crate) const DATA_PRIORITY: u8 = 0;

/// Settings of the simulated hosts of a run that do not belong to the transport.
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
    /// Cost of a packet in the NIC; `None`: packets take no time.
    pub engine: Option<EngineCost>,
    /// Priority of ACKs, NACKs and CNPs.
    pub control_priority: u8,
    /// Simulated time at which the run fails if flows are unfinished (`max_time`).
    pub max_time: Time,
    /// The run fails if no flow makes progress for this long, in simulated time (`stall_time`).
    pub stall_time: Time,
    /// Simulated time at which the run ends and counts as completed, even with unfinished flows; `None`: when all flows
    /// have finished.
    pub duration: Option<Time>,
    /// Seed of the flow hashes, which determine ECMP paths.
    pub seed: u64,
}

/// The time that packets take in a NIC whose logic is hardware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineCost {
    /// Time between two operations of the NIC: a clock period.
    pub interval: Time,
    /// Time between two operations of one queue pair.
    pub queue_pair: Time,
}

/// Counters of packets, timeouts and aborted messages, summed over all hosts of a run or of a fabric partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostTotals {
    /// Data packets that hosts sent.
    pub data: u64,
    /// Control packets (such as ACKs) that hosts sent.
    pub control: u64,
    /// Data packets that hosts retransmitted.
    pub retransmitted: u64,
    /// Packets that hosts received.
    pub delivered: u64,
    /// CE-marked packets that hosts received.
    pub marked: u64,
    /// Congestion notification packets (CNPs) that hosts sent.
    pub notifications: u64,
    /// Retransmission timeouts of all hosts.
    pub timeouts: u64,
    /// Messages that their senders aborted.
    pub aborted: u64,
}

impl HostTotals {
    /// Adds the counters of other hosts to this sum.
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
