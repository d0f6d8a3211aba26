//! The raw records of a run, as the simulator writes them: flows, ports, totals, pauses and samples.

use crate::faults::WatchdogAction;
use crate::flow_log::FlowLog;
use crate::mesh::MeshRecord;
use crate::program_record::{
    AnsweredRequest, CollectiveRecord, OperationRecord, StepLinks, StepRecord, TaskCollectives, Timeline,
};
use crate::spec::Fidelity;
use crate::stored;
use rnic_transport::{BitRate, Time};
use serde::{Deserialize, Serialize};

/// Everything that a run recorded, whether it completed or failed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunOutput {
    /// How the run ended.
    pub status: RunStatus,
    /// Number of flows of the traffic, whether they started or not; in a truncated run, the number of flows that
    /// started.
    pub offered: u64,
    /// When the run was truncated; `None` unless the run's `duration` or an interruption ended it while flows were
    /// unfinished or still to start.
    pub truncated: Option<Truncation>,
    /// The record of every flow that started, in order of start.
    #[serde(skip)]
    pub flows: FlowLog,
    /// Counters of every port of the fabric, ordered by node, then by port.
    pub ports: Vec<PortRecord>,
    /// Counts of packets, messages and pauses, summed over the fabric.
    pub totals: Totals,
    /// Simulated time at which the run ended.
    #[serde(with = "stored::time")]
    pub end: Time,
    /// The settings of the run in effect, including those derived from others, as (key, value with unit).
    pub parameters: Vec<(String, String)>,
    /// Warnings for readers of the results, one sentence each.
    pub warnings: Vec<String>,
    /// Which transmitters PFC paused, and why; `None` if the run did not watch pauses.
    pub pauses: Option<PauseRecords>,
    /// Samples of queues, links and flows; `None` if the run watched none of them.
    pub samples: Option<Samples>,
    /// The actions of watchdogs, in order of time; empty without watchdogs.
    pub watchdog: Vec<WatchdogRecord>,
    /// What the probes of each mesh measured, in the scenario's order.
    pub meshes: Vec<MeshRecord>,
    /// The collective operations that began, in order of traffic source, group and repetition.
    pub collectives: Vec<CollectiveRecord>,
    /// The steps of programs that began, in order of traffic source and number.
    pub steps: Vec<StepRecord>,
    /// The operations of programs of tasks, in order of traffic source and kind.
    pub operations: Vec<OperationRecord>,
    /// The single collective operations of programs of tasks.
    #[serde(default)]
    pub task_collectives: TaskCollectives,
    /// What the links transmitted in the steps of programs of tasks; without steps in runs of [`Fidelity::Flow`].
    #[serde(default)]
    pub step_links: StepLinks,
    /// The requests of inferences, in order of traffic source and arrival.
    pub answered: Vec<AnsweredRequest>,
    /// The tasks of ranks in the steps that programs record.
    #[serde(default)]
    pub timeline: Timeline,
    /// What the run simulated. With [`Fidelity::Flow`], counters of drops, losses, marks, pauses, queues,
    /// retransmissions and timeouts are 0 because they are not modelled.
    pub fidelity: Fidelity,
    /// How much simulated time was skipped; `None` if the run has no `fast_forward`.
    pub fast_forward: Option<FastForwardRecord>,
}

/// What a run with `fast_forward` skipped: simulated time in which its flows, their rates and all queues repeated.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FastForwardRecord {
    /// The setting: largest relative difference of rates and queues that repeat.
    pub bound: f64,
    /// Simulated time that was skipped.
    #[serde(with = "stored::time")]
    pub skipped: Time,
    /// Number of skips.
    pub skips: u32,
    /// Number of further skips that were simulated, at least in part, instead of skipped.
    pub checked: u32,
    /// The largest relative difference, over the checked skips and all flows, between the packets that a flow received
    /// and those that it was expected to receive.
    pub largest_deviation: f64,
}

/// What a watchdog found and did: a pause storm, from its detection to the end of the watchdog's action.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WatchdogRecord {
    /// Index of the port in [`RunOutput::ports`]: the paused port of a switch, or the port of a NIC that paused its
    /// switch.
    pub port: u32,
    /// The paused priority; `None` if a NIC's watchdog stopped the pauses of all priorities.
    pub priority: Option<u8>,
    /// What the watchdog did; `None` for the watchdog of a NIC, which stops the NIC's pauses.
    pub action: Option<WatchdogAction>,
    /// Simulated time at which the watchdog found the storm.
    #[serde(with = "stored::time")]
    pub detected: Time,
    /// Simulated time at which a switch restored the port; `None` if it did not before the end of the run, and for the
    /// watchdog of a NIC, which never allows pauses again.
    #[serde(with = "stored::optional_time")]
    pub restored: Option<Time>,
    /// Number of packets of the priority to and from the port that the action dropped.
    pub dropped: u64,
}

/// Samples of queue lengths, link utilisation and the flows' delivered bytes, taken every `interval` from `start` until
/// the run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Samples {
    /// Simulated time of the first sample.
    #[serde(with = "stored::time")]
    pub start: Time,
    /// Time between two samples.
    #[serde(with = "stored::time")]
    pub interval: Time,
    /// Number of samples.
    pub count: u32,
    /// The watched queues, in the order of the scenario.
    pub queues: Vec<QueueSamples>,
    /// The watched links, in the order of the scenario.
    #[serde(default)]
    pub links: Vec<LinkSamples>,
    /// Every flow that was active at a sample, in order of flow id; empty if flows are not watched.
    pub flows: Vec<FlowSamples>,
}

impl Samples {
    /// Simulated time of the sample with the number `index`, counted from 0.
    pub fn at(&self, index: u32) -> Time {
        self.start + self.interval * u64::from(index)
    }
}

/// Samples of one egress queue of a switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QueueSamples {
    /// Name of the queue: the switch and the node to which the queue sends, such as `s0:h0`.
    pub name: String,
    /// Queued bytes at each sample, summed over all priorities.
    pub bytes: Vec<u32>,
}

/// Samples of the transmitters that send from one node to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkSamples {
    /// Name of the direction: the sending and the receiving node, such as `leaf0:spine1`.
    pub name: String,
    /// Number of parallel links between the two nodes.
    pub transmitters: u32,
    /// Time in picoseconds for which the transmitters have been sending since the start of the run, at each sample,
    /// summed over the transmitters.
    pub busy_ps: Vec<u64>,
}

impl LinkSamples {
    /// The utilisation over time, as (index of a sample, utilisation from 0 to 1 in the interval that ends at this
    /// sample). The first sample of the run has no value, because no interval ends there.
    pub fn utilisation(&self, interval: Time) -> impl Iterator<Item = (u32, f64)> {
        let whole = interval.as_ps() as f64 * f64::from(self.transmitters.max(1));
        let pairs = (1..).zip(self.busy_ps.windows(2));
        pairs.map(move |(index, pair)| (index, pair[1].saturating_sub(pair[0]) as f64 / whole))
    }
}

/// Samples of the progress of one flow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowSamples {
    /// Id of the flow.
    pub flow: u32,
    /// Index of the first sample at which the flow was active.
    pub first: u32,
    /// Payload bytes that the flow has delivered so far, at each sample from `first` to the first sample after the
    /// flow's end.
    pub delivered: Vec<u64>,
}

impl RunOutput {
    /// The output of a run that failed before the simulation began, for `reason`.
    pub fn not_started(reason: String) -> RunOutput {
        RunOutput {
            status: RunStatus::Failed(reason),
            offered: 0,
            truncated: None,
            flows: FlowLog::new(),
            ports: Vec::new(),
            totals: Totals::default(),
            end: Time::ZERO,
            parameters: Vec::new(),
            warnings: Vec::new(),
            pauses: None,
            samples: None,
            watchdog: Vec::new(),
            meshes: Vec::new(),
            collectives: Vec::new(),
            steps: Vec::new(),
            operations: Vec::new(),
            task_collectives: TaskCollectives::default(),
            step_links: StepLinks::default(),
            answered: Vec::new(),
            timeline: Timeline::default(),
            fidelity: Fidelity::Packet,
            fast_forward: None,
        }
    }
}

/// How a run was truncated: it ended at its `duration`, or was interrupted, with flows unfinished or still to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Truncation {
    /// Simulated time at which the run was truncated: its `duration`, or the time of the interruption.
    #[serde(with = "stored::time")]
    pub at: Time,
    /// Number of flows that had not started at this time; `None` for endless traffic.
    pub not_started: Option<u64>,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RunStatus {
    /// All flows finished, or the run reached its `duration`.
    Completed,
    /// The run could not start or did not finish; the text says why, and which flows are stuck.
    Failed(String),
    /// The run was interrupted, for example by Ctrl-C. Its record is partial: it covers the simulated time up to
    /// [`RunOutput::end`], and `truncated` says how many flows are missing.
    Interrupted,
}

/// Counters of the transmitter and of the input buffer of one port.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PortRecord {
    /// Name of the port's host or switch, for example `edge3`.
    pub node: String,
    /// Index of the port on the node, from 0.
    pub port: u32,
    /// Name of the node at the other end of the link.
    pub peer: String,
    /// Rate of the port's link.
    #[serde(with = "stored::rate")]
    pub rate: BitRate,
    /// Total time for which the port's transmitter was sending.
    #[serde(with = "stored::time")]
    pub busy: Time,
    /// Counters of each priority in use, indexed by priority.
    pub priorities: Vec<PriorityCounters>,
}

/// Counters of one port for the packets of one priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PriorityCounters {
    /// Frames transmitted, pause frames not included.
    pub tx_packets: u64,
    /// Bytes of the transmitted frames, frame gaps not included.
    pub tx_bytes: u64,
    /// Frames that arrived at this port and that the switch dropped: because the buffer was full, by a drop rule or a
    /// watchdog, or because the destination was dead.
    pub drops: u64,
    /// Frames transmitted by this port and lost on the link.
    pub lost: u64,
    /// Frames that the switch CE-marked (ECN) at this output.
    pub marked: u64,
    /// Pause (XOFF) frames that this port sent to its peer.
    pub pause_sent: u64,
    /// Pause (XOFF) frames that this port received from its peer.
    pub pause_received: u64,
    /// Time for which this port's transmitter was paused, in picoseconds.
    pub paused_ps: u64,
    /// Maximum occupancy of this port's input buffer, in bytes; with `queueing = "output"`, of its output buffer.
    pub queue_high_water: u64,
    /// Packets that this output trimmed to their header because its buffer was full.
    pub trimmed: u64,
    /// Trimmed headers that did not fit into the buffer of this output and that the switch therefore returned to their
    /// sender.
    pub returned: u64,
}

/// Counts of packets, messages and pauses of one run, summed over the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Data packets that the hosts sent, retransmissions included.
    pub data: u64,
    /// ACKs, NACKs and other control packets that the hosts sent.
    pub control: u64,
    /// Retransmitted data packets.
    pub retransmitted: u64,
    /// Data and control packets that switches dropped: at full buffers, by a drop rule or a watchdog, or because the
    /// destination was dead.
    pub dropped: u64,
    /// Number of data packets among `dropped`.
    pub dropped_data: u64,
    /// Data packets whose payload a switch trimmed at a full buffer; their headers continued to the receiver or
    /// returned to the sender.
    pub trimmed: u64,
    /// Trimmed headers that a switch returned to their sender.
    pub returned: u64,
    /// Packets lost on links (random loss).
    pub lost: u64,
    /// Packets that flooding added: copies of packets for dead hosts, minus the packets that were copied.
    pub flooded: u64,
    /// Packets of probes (`[[fabric.mesh]]`) that the hosts sent, responses included; not part of `control`.
    pub probes: u64,
    /// CE-marked (ECN) packets that arrived at hosts.
    pub marked: u64,
    /// Congestion notifications (CNPs) that the hosts sent; part of `control`.
    pub notifications: u64,
    /// Messages that their senders aborted.
    pub aborted: u64,
    /// CPU time of the hosts for sending, in picoseconds, by the declared costs of the transport; 0 without such costs.
    #[serde(default)]
    pub cpu_send_ps: u64,
    /// CPU time of the hosts for receiving, in picoseconds, by the declared costs of the transport.
    #[serde(default)]
    pub cpu_receive_ps: u64,
    /// Transmissions of data or control packets on links; each link on a packet's path counts (packet-hops).
    pub hops: u64,
    /// Packets delivered to hosts.
    pub delivered: u64,
    /// Packets in a queue or on a link when the run ended.
    pub in_flight: u64,
    /// PFC XOFF frames sent by all ports.
    pub pause_frames: u64,
    /// Time for which transmitters were paused, summed over transmitters and priorities, in picoseconds.
    pub paused_ps: u64,
}

/// The PFC pauses of a run, and their causes (roots), which are determined at regular samples. In the fields, a port is
/// an index into [`RunOutput::ports`], and a root is an index into [`PauseRecords::roots`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PauseRecords {
    /// Simulated time of the first sample.
    #[serde(with = "stored::time")]
    pub start: Time,
    /// Time between two samples.
    #[serde(with = "stored::time")]
    pub interval: Time,
    /// Number of samples.
    pub samples: u64,
    /// Causes of pauses (roots), in order of first appearance.
    pub roots: Vec<PauseRoot>,
    /// Maximum number of transmitters paused at one sample, each priority counted separately.
    pub max_paused: u32,
    /// The paused transmitters at the first sample at which `max_paused` transmitters were paused; `None` if no
    /// transmitter was paused at any sample.
    pub worst: Option<PauseTreeRecord>,
    /// A cyclic buffer dependency (ports that pause each other in a cycle) that existed at a sample or at the end of
    /// the run; `None` if there was none.
    pub cycle: Option<BufferCycle>,
    /// Victims: flows that a root delayed although the root is not on their path. The flows that were delayed at the
    /// largest numbers of samples come first; the list is limited.
    pub victims: Vec<Victim>,
    /// Number of all victim flows, including those beyond the limit of `victims`.
    pub victim_count: u64,
    /// The pauses with their exact start and end, in the order in which samples noticed them; their number is limited.
    pub log: Vec<PauseRow>,
    /// Number of pauses that are missing in `log` because of its limit.
    pub pauses_left_out: u64,
    /// Intervals of consecutive samples at which a port was paused because of the same root; the report draws them as a
    /// figure.
    pub spans: Vec<PauseSpan>,
    /// Number of intervals that are missing in `spans` because of its limit.
    pub spans_left_out: u64,
}

/// The kind of cause (root) at the end of a chain of PFC pauses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum RootKind {
    /// A congested output: an output that is not paused and always busy, because packets for it arrive faster than it
    /// can send.
    Congestion,
    /// A host's NIC that pauses its switch.
    Nic,
    /// A cycle of ports, each paused by the next.
    Cycle,
}

impl RootKind {
    /// Name of the kind in result files.
    pub fn name(self) -> &'static str {
        match self {
            RootKind::Congestion => "congestion",
            RootKind::Nic => "nic",
            RootKind::Cycle => "cycle",
        }
    }
}

/// A cause (root) of PFC pauses: the last port in a chain of ports that wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PauseRoot {
    /// Kind of cause.
    pub kind: RootKind,
    /// The port of the root: the congested output, the NIC's port, or the port with the lowest index on the cycle.
    pub port: u32,
    /// The paused priority.
    pub priority: u8,
    /// Simulated time of the first sample at which this root kept a port paused.
    #[serde(with = "stored::time")]
    pub first: Time,
    /// Number of samples at which this root kept a port paused.
    pub samples: u64,
    /// Maximum number of ports that this root kept paused at one sample.
    pub max_ports: u32,
}

/// The pause tree at one sample: all paused transmitters, and the ports for which they wait.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PauseTreeRecord {
    /// Simulated time of the sample.
    #[serde(with = "stored::time")]
    pub at: Time,
    /// Number of paused transmitters.
    pub paused: u32,
    /// The paused ports, and the ports between them and the roots of their pauses; at most [`MAX_TREE_PORTS`].
    pub ports: Vec<TreePort>,
}

/// One transmitter in a pause tree (paused ports, and the ports for which they wait).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TreePort {
    /// Index of the transmitter's port.
    pub port: u32,
    /// Priority of the transmitter.
    pub priority: u8,
    /// Whether the transmitter is paused at this sample. `false` for a transmitter between a paused port and its root
    /// that has resumed and still sends the packets of its latest pause.
    pub paused: bool,
    /// Start of the current pause; of a transmitter that is not paused now, start of its latest pause.
    #[serde(with = "stored::time")]
    pub since: Time,
    /// Bytes received from this port that wait in its peer's buffer; 0 if the peer is a host.
    pub held: u64,
    /// Index of the port for which this port waits; `None` if an XON frame to this port is on its way.
    pub waits_for: Option<u32>,
    /// Distance from the root in hops, counted from 1 for a port next to the root.
    pub depth: u32,
    /// Index of the root that holds up this transmitter; `None` if an XON frame to this port is on its way.
    pub root: Option<u32>,
}

/// A cyclic buffer dependency: ports that wait for each other in a cycle.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BufferCycle {
    /// First sample with a cycle. If the run ended with a cycle, the first sample of the last uninterrupted series of
    /// samples with one.
    #[serde(with = "stored::time")]
    pub first: Time,
    /// The ports along the cycle: at the end of the run if `at_end`, else at `first`.
    pub ports: Vec<u32>,
    /// Whether the run ended with a cycle: a deadlock, unless the run was truncated.
    pub at_end: bool,
    /// Whether the run was truncated by its `duration`, so that the cycle could still have dissolved.
    pub truncated: bool,
}

/// A victim of PFC: a flow that was delayed by a pause whose root (cause) is not on the flow's path.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Victim {
    /// Id of the flow.
    pub flow: u32,
    /// Index of the sending host.
    pub src: u32,
    /// Index of the receiving host.
    pub dst: u32,
    /// Number of samples at which the flow was a victim.
    pub samples: u64,
    /// Index of the root that delayed the flow at more than half of the samples at which the flow was a victim. If
    /// there is no such root, index of one of the roots that delayed the flow.
    pub root: u32,
    /// Whether the flow finished.
    pub finished: bool,
    /// Delivered payload divided by the time from the flow's start to its finish, or to the end of the run, in bit/s.
    pub goodput: f64,
}

/// One PFC pause of a transmitter, with its exact start and end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PauseRow {
    /// Index of the paused port.
    pub port: u32,
    /// The paused priority.
    pub priority: u8,
    /// Start of the pause.
    #[serde(with = "stored::time")]
    #[schemars(with = "u64")]
    pub from: Time,
    /// End of the pause; `None` if the pause lasted until the end of the run.
    #[serde(with = "stored::optional_time")]
    #[schemars(with = "Option<u64>")]
    pub to: Option<Time>,
    /// Index of the cause (root) of the pause at its last sample; `None` if there was no sample during the pause.
    pub root: Option<u32>,
}

/// An interval of consecutive samples at which a port was paused because of the same root (cause).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PauseSpan {
    /// Index of the paused port.
    pub port: u32,
    /// The paused priority.
    pub priority: u8,
    /// Simulated time of the first sample.
    #[serde(with = "stored::time")]
    pub from: Time,
    /// Simulated time one sampling interval after the last sample, at most the end of the run.
    #[serde(with = "stored::time")]
    pub to: Time,
    /// Index of the root of the pause; `None` if an XON frame was on its way at these samples.
    pub root: Option<u32>,
}

/// The output of a run and the resources that the simulation used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// What the run recorded. It depends on the scenario and the seed alone.
    pub output: RunOutput,
    /// Wall-clock seconds that the simulation took.
    pub wall_s: f64,
    /// CPU seconds of the threads that simulated the run.
    pub cpu_s: f64,
    /// Maximum resident set size of the whole process until the end of the run, in bytes; 0 if the system does not
    /// report it.
    pub peak_rss_bytes: u64,
}

/// Maximum number of ports in a recorded pause tree.
pub const MAX_TREE_PORTS: usize = 1_000;
