//! Settings and counters of the simulated hosts and their NICs.

use rnic_transport::Time;
use rnic_transport::settings::Settings;
use serde::{Deserialize, Serialize};

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
    /// What takes time for packets in a host besides its link; `None`: nothing does.
    pub processing: Option<ProcessingConfig>,
}

/// What takes time for packets in a host besides its link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessingConfig {
    /// The network stack in the host's kernel.
    Kernel(StackConfig),
    /// The blocks of a NIC in hardware.
    Pipeline(PipelineConfig),
}

impl ProcessingConfig {
    /// Time from the arrival of a packet until the transport has it, if nothing else is processed.
    pub fn receive_latency(&self) -> Time {
        match self {
            ProcessingConfig::Kernel(stack) => stack.receive_latency,
            ProcessingConfig::Pipeline(pipeline) => pipeline.latency,
        }
    }
}

/// Latencies and CPU costs of the network stack in the kernel of each host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackConfig {
    /// Time from the start of a flow until its first segment is in the NIC.
    pub send_latency: Time,
    /// Time from a packet's arrival until the transport has it.
    pub receive_latency: Time,
    /// Time from the arrival of a flow's last byte in the transport until its application runs.
    pub wake_latency: Time,
    /// CPU time of a flow at each of its ends, apart from its bytes.
    pub message: Time,
    /// CPU time of the sender for a segment of [`OFFLOAD`](rnic_transport::transports::OFFLOAD) bytes.
    pub send: Time,
    /// CPU time of the receiver for such a segment.
    pub receive: Time,
    /// Number of cores of a host that run its stack.
    pub cores: u32,
}

impl StackConfig {
    /// The costs in the settings of a transport; `None` if the transport does not declare them.
    pub fn of(settings: &Settings) -> Option<StackConfig> {
        Some(StackConfig {
            send_latency: settings.time("send_latency").ok()?,
            receive_latency: settings.time("receive_latency").ok()?,
            wake_latency: settings.time("wake_latency").ok()?,
            message: settings.time("message_cost").ok()?,
            send: settings.time("send_cost").ok()?,
            receive: settings.time("receive_cost").ok()?,
            cores: settings.count("cores").ok()? as u32,
        })
    }
}

/// The time that packets take in a NIC whose logic is hardware. A block begins an operation in each cycle, but one of
/// the same queue pair only in the cycle after the previous operation is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PipelineConfig {
    /// Clock period.
    pub cycle: Time,
    /// Time from the beginning of an operation until it is done.
    pub latency: Time,
}

/// Counters of packets, timeouts and aborted messages, summed over all hosts of a run or of a fabric partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HostTotals {
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
    /// CPU time of hosts for sending, and for receiving, in picoseconds. 0 without a declared cost.
    pub cpu_send: u64,
    /// See `cpu_send`.
    pub cpu_receive: u64,
}

impl HostTotals {
    /// Adds the counters of other hosts to this sum.
    pub(crate) fn add(&mut self, other: HostTotals) {
        *self = self.with(other, |own, other| own + other);
    }

    /// What has been counted since `before`.
    pub(crate) fn since(self, before: HostTotals) -> HostTotals {
        self.with(before, |now, before| now - before)
    }

    /// `times` times these counters.
    pub(crate) fn times(self, times: u64) -> HostTotals {
        self.with(self, |count, _| count * times)
    }

    fn with(self, other: HostTotals, of: impl Fn(u64, u64) -> u64) -> HostTotals {
        HostTotals {
            data: of(self.data, other.data),
            control: of(self.control, other.control),
            retransmitted: of(self.retransmitted, other.retransmitted),
            delivered: of(self.delivered, other.delivered),
            marked: of(self.marked, other.marked),
            notifications: of(self.notifications, other.notifications),
            timeouts: of(self.timeouts, other.timeouts),
            aborted: of(self.aborted, other.aborted),
            cpu_send: of(self.cpu_send, other.cpu_send),
            cpu_receive: of(self.cpu_receive, other.cpu_receive),
        }
    }
}
