//! The raw records of a run, as the simulation hands them over.

use crate::flow_log::FlowLog;
use crate::stored;
use rnic_transport::{BitRate, Time};
use serde::{Deserialize, Serialize};

/// Everything that one finished (or given-up) run recorded.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunOutput {
    /// How it ended.
    pub status: RunStatus,
    /// Flows that the traffic has in all, started or not; in a run that was cut those that started.
    pub offered: u64,
    /// Where the run's `duration` cut it off.
    pub truncated: Option<Truncation>,
    /// Every flow that started, in order of its start.
    #[serde(skip)]
    pub flows: FlowLog,
    /// Every port, in order of node and port.
    pub ports: Vec<PortRecord>,
    /// Fabric-wide counts.
    pub totals: Totals,
    /// Simulated time at which the run ended.
    #[serde(with = "stored::time")]
    pub end: Time,
    /// Resolved settings, as (key, value with unit), for the summary and the report.
    pub parameters: Vec<(String, String)>,
    /// What a reader of the results should know, one sentence each.
    pub warnings: Vec<String>,
    /// Who was paused and why, if that was watched.
    pub pauses: Option<PauseRecords>,
    /// What was sampled, if that was asked for.
    pub samples: Option<Samples>,
}

/// What was looked at during a run, at regular instants from `start` on, until the run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Samples {
    /// Of the first sample.
    #[serde(with = "stored::time")]
    pub start: Time,
    /// From one sample to the next.
    #[serde(with = "stored::time")]
    pub interval: Time,
    /// How many samples.
    pub count: u32,
    /// The watched queues.
    pub queues: Vec<QueueSamples>,
    /// Every flow that was there at a sample, in order of the flows' numbers, if flows are watched.
    pub flows: Vec<FlowSamples>,
}

impl Samples {
    /// When sample number `index`, counted from 0, was taken.
    pub fn at(&self, index: u32) -> Time {
        self.start + self.interval * u64::from(index)
    }
}

/// What a switch held for one of its outputs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QueueSamples {
    /// The switch and the node that it sends to.
    pub name: String,
    /// Bytes at each sample, over all priorities.
    pub bytes: Vec<u32>,
}

/// How far a flow was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowSamples {
    /// Number of the flow.
    pub flow: u32,
    /// Number of the first sample at which it was there.
    pub first: u32,
    /// Payload bytes delivered, at each sample from then on until the first one after its end.
    pub delivered: Vec<u64>,
}

impl RunOutput {
    /// Of a run that could not begin.
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
        }
    }
}

/// A run that ended at its `duration`, with flows unfinished or still to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Truncation {
    /// Its duration.
    #[serde(with = "stored::time")]
    pub at: Time,
    /// Flows of the traffic that had not started; `None` for traffic without an end.
    pub not_started: Option<u64>,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RunStatus {
    /// Every flow finished, or the run's duration is over.
    Completed,
    /// It cannot or did not finish; the text says why and what is stuck.
    Failed(String),
}

/// One flow's fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// Number of the flow in order of start.
    pub id: u32,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Payload bytes.
    pub bytes: u64,
    /// When the application handed it to the NIC.
    pub start: Time,
    /// When its last byte had arrived, all before it included; `None`: never.
    pub finish: Option<Time>,
    /// Time it needs alone on an empty fabric at line rate with plain RoCEv2 headers: the slowdown's denominator.
    pub ideal: Time,
    /// Payload bytes that the receiver had accepted by the end of the run.
    pub delivered: u64,
    /// Data packets sent again.
    pub retransmitted: u32,
    /// Timeouts that fired.
    pub timeouts: u32,
    /// The request it belongs to, `u32::MAX` for none.
    pub request: u32,
    /// Index of its source in the run's list of traffic.
    pub traffic: u16,
    /// Whether it counts in the statistics.
    pub measured: bool,
}

/// One port's counters: its own transmitter, and what it received into its buffer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PortRecord {
    /// The node it belongs to, for example `edge3`.
    pub node: String,
    /// Its number on that node.
    pub port: u32,
    /// The node at the other end.
    pub peer: String,
    /// Rate of the link.
    #[serde(with = "stored::rate")]
    pub rate: BitRate,
    /// Time for which the transmitter was sending.
    #[serde(with = "stored::time")]
    pub busy: Time,
    /// One entry per priority in use.
    pub priorities: Vec<PriorityCounters>,
}

/// Counters of one port in one priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PriorityCounters {
    /// Frames transmitted (pause frames not included).
    pub tx_packets: u64,
    /// Their bytes, without frame gap.
    pub tx_bytes: u64,
    /// Frames that arrived here and found the buffer full.
    pub drops: u64,
    /// Frames transmitted here that the cable lost.
    pub lost: u64,
    /// Frames that this switch marked (ECN) on their way to this output.
    pub marked: u64,
    /// Pause (XOFF) frames that this port sent to its peer.
    pub pause_sent: u64,
    /// Pause (XOFF) frames that this port received from its peer.
    pub pause_received: u64,
    /// Time for which this port's transmitter was paused, in picoseconds.
    pub paused_ps: u64,
    /// Highest occupancy of this port's input buffer, in bytes; with `queueing = "output"` of its output buffer.
    pub queue_high_water: u64,
    /// Packets that found this output full and went on without their payload.
    pub trimmed: u64,
    /// Packets that found this output full, even for their header, which went back to its sender.
    pub returned: u64,
}

/// Fabric-wide counts of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Data packets that the hosts sent, retransmissions included.
    pub data: u64,
    /// ACKs, NACKs and other control packets that the hosts sent.
    pub control: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Packets dropped at full buffers.
    pub dropped: u64,
    /// Data packets among the dropped.
    pub dropped_data: u64,
    /// Data packets that lost their payload at a full buffer, and went on or back as headers.
    pub trimmed: u64,
    /// Headers that went back to their sender.
    pub returned: u64,
    /// Packets lost on cables (random loss).
    pub lost: u64,
    /// Marked (ECN) packets that arrived at hosts.
    pub marked: u64,
    /// Congestion notifications (CNPs) that the hosts sent; part of `control`.
    pub notifications: u64,
    /// Messages that their senders gave up.
    pub aborted: u64,
    /// Transmissions of data or control packets on a link.
    pub hops: u64,
    /// Packets delivered to hosts.
    pub delivered: u64,
    /// Packets still queued or on a cable at the end.
    pub in_flight: u64,
    /// PFC XOFF frames sent by all ports.
    pub pause_frames: u64,
    /// Time paused, summed over transmitters and priorities, in picoseconds.
    pub paused_ps: u64,
}

/// The pauses of a run, looked at in regular samples. Ports are indices into [`RunOutput::ports`], roots into
/// [`PauseRecords::roots`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PauseRecords {
    /// Time of the first sample.
    #[serde(with = "stored::time")]
    pub start: Time,
    /// From one sample to the next.
    #[serde(with = "stored::time")]
    pub interval: Time,
    /// Number of samples.
    pub samples: u64,
    /// What pauses came from, in order of first appearance.
    pub roots: Vec<PauseRoot>,
    /// Most transmitters that were paused at one sample, each priority counted.
    pub max_paused: u32,
    /// The sample with most of them, the first of several.
    pub worst: Option<PauseTreeRecord>,
    /// A cyclic buffer dependency, if a sample or the end of the run had one.
    pub cycle: Option<BufferCycle>,
    /// Flows that were held up by a root that is not on their path, those that suffered longest first.
    pub victims: Vec<Victim>,
    /// How many there were in all.
    pub victim_count: u64,
    /// Every pause, exact to the picosecond, in the order in which samples came to know of it.
    pub log: Vec<PauseRow>,
    /// Pauses for which the log had no room.
    pub pauses_left_out: u64,
    /// For the picture: stretches of time at whose samples a port was paused for the same root.
    pub spans: Vec<PauseSpan>,
    /// Stretches for which the picture had no room.
    pub spans_left_out: u64,
}

/// What kind of thing pauses come from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum RootKind {
    /// An output that is not paused and sends all the time: more comes in for it than goes out.
    Congestion,
    /// A host's NIC that pauses its switch.
    Nic,
    /// A cycle of ports that wait for each other.
    Cycle,
}

impl RootKind {
    /// As files name it.
    pub fn name(self) -> &'static str {
        match self {
            RootKind::Congestion => "congestion",
            RootKind::Nic => "nic",
            RootKind::Cycle => "cycle",
        }
    }
}

/// Where pauses came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PauseRoot {
    /// What it is.
    pub kind: RootKind,
    /// The congested output, the NIC's port, the lowest port on the cycle.
    pub port: u32,
    /// The priority.
    pub priority: u8,
    /// The first sample at which it held a port.
    #[serde(with = "stored::time")]
    pub first: Time,
    /// At how many samples it held a port.
    pub samples: u64,
    /// Most ports that it held at one sample.
    pub max_ports: u32,
}

/// All paused transmitters at an instant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PauseTreeRecord {
    /// The instant.
    #[serde(with = "stored::time")]
    pub at: Time,
    /// How many are paused.
    pub paused: u32,
    /// Them, and what lies between them and their roots; at most [`MAX_TREE_PORTS`].
    pub ports: Vec<TreePort>,
}

/// A transmitter in a pause tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TreePort {
    /// The port.
    pub port: u32,
    /// The priority.
    pub priority: u8,
    /// Whether it is paused at this instant; else it sends what a pause has left behind.
    pub paused: bool,
    /// When it was paused.
    #[serde(with = "stored::time")]
    pub since: Time,
    /// Bytes that its peer holds for it.
    pub held: u64,
    /// The port that it waits for, `None`: nothing, a resume is on its way.
    pub waits_for: Option<u32>,
    /// Distance from the root, 1 next to it.
    pub depth: u32,
    /// Its root.
    pub root: Option<u32>,
}

/// Ports that wait for each other in a circle.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BufferCycle {
    /// The first sample with such a cycle: of those with one on end until the end of the run if there is one then, else of all.
    #[serde(with = "stored::time")]
    pub first: Time,
    /// The ports along it: at the end of the run if there is one then, else at that sample.
    pub ports: Vec<u32>,
    /// Whether the run ended with one: a deadlock, unless it was cut.
    pub at_end: bool,
    /// Whether the run's `duration` cut it, so that the cycle might have dissolved yet.
    pub truncated: bool,
}

/// A flow that was held up without having a part in it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Victim {
    /// Number of the flow.
    pub flow: u32,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// At how many samples.
    pub samples: u64,
    /// The root that held it up at more than half of these; if none did, one of them.
    pub root: u32,
    /// Whether it finished.
    pub finished: bool,
    /// Payload delivered per time from its start to its finish, else to the end of the run, in bit/s.
    pub goodput: f64,
}

/// One pause of a transmitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PauseRow {
    /// Its port.
    pub port: u32,
    /// The priority.
    pub priority: u8,
    /// When it began.
    #[serde(with = "stored::time")]
    pub from: Time,
    /// When it ended; `None`: not before the run did.
    #[serde(with = "stored::optional_time")]
    pub to: Option<Time>,
    /// Its root at the last sample that saw it; `None` if none did.
    pub root: Option<u32>,
}

/// A stretch of time for which a port was paused at every sample, for one root.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PauseSpan {
    /// The port.
    pub port: u32,
    /// The priority.
    pub priority: u8,
    /// Its first sample.
    #[serde(with = "stored::time")]
    pub from: Time,
    /// One interval after its last.
    #[serde(with = "stored::time")]
    pub to: Time,
    /// The root.
    pub root: Option<u32>,
}

/// A finished run and what it cost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// What it recorded; the same for the same scenario and seed, always.
    pub output: RunOutput,
    /// Wall-clock seconds.
    pub wall_s: f64,
    /// CPU seconds of the threads that ran it.
    pub cpu_s: f64,
    /// Largest resident set of the whole process so far, in bytes; 0 where the system does not tell.
    pub peak_rss_bytes: u64,
}

/// Most ports in a recorded pause tree.
pub const MAX_TREE_PORTS: usize = 1_000;

impl FlowRecord {
    /// The flow's goodput in bit/s: payload that its receiver accepted, over the time from its start to its finish or to `end`, where the
    /// run ended. `None` for a flow that had no time.
    pub fn goodput_bps(&self, end: Time) -> Option<f64> {
        let life = self.finish.unwrap_or(end).saturating_sub(self.start).as_ps();
        (life > 0).then(|| self.delivered as f64 * 8e12 / life as f64)
    }

    /// A measured flow for tests: it started at 0 and took 10 us, twice its ideal time.
    #[cfg(any(test, feature = "testing"))]
    pub fn sample(id: u32, bytes: u64) -> FlowRecord {
        FlowRecord {
            id,
            src: 0,
            dst: 1,
            bytes,
            start: Time::ZERO,
            finish: Some(Time::from_us(10)),
            ideal: Time::from_us(5),
            delivered: bytes,
            retransmitted: 0,
            timeouts: 0,
            request: u32::MAX,
            traffic: 0,
            measured: true,
        }
    }
}
