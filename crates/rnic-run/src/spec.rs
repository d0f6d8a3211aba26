//! A scenario as plain data, after parsing and checking.
//!
//! `None` in a setting means "not given": the value then follows from the fabric, as the reference documents.

use crate::flow::FlowSpec;
use crate::sizes::SizeDistribution;
use crate::transport::TransportSpec;
use rnic_fabric::config::{
    ArbiterSpec, ClockSpec, LinkSpec, MarkOn, NamedLink, NamedRoute, Paths, SchedulerSpec, TopologySpec, TrimSpec,
    TrimmedPriority,
};
use rnic_transport::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One scenario file: named runs over fabrics and traffic.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// What the file calls itself.
    pub title: String,
    /// Stem of the file's name; names the output folder.
    pub name: String,
    /// The seed as written or as asked for; each run has its own copy, which is the one that counts.
    pub seed: u64,
    /// The runs, in the file's order; at least one.
    pub runs: Vec<RunSpec>,
}

/// One run, complete in itself: the scenario's fabric and traffic with this run's own changes applied.
///
/// `T` is how the transport is described: with all that it declares, or as a document
/// ([`TransportDocument`](crate::TransportDocument)).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSpec<T = TransportSpec> {
    /// Its name; unique in the scenario.
    pub name: String,
    /// Its name in the file; the same but in a sweep, which makes many runs of one.
    pub base: String,
    /// In a sweep: the swept keys and their values, as written.
    pub point: Vec<(String, String)>,
    /// Seed of its random streams.
    pub seed: u64,
    /// The fabric it runs on.
    pub fabric: FabricSetup,
    /// What the hosts send.
    pub traffic: Vec<Traffic>,
    /// How they send it.
    pub transport: T,
    /// Limits at which the run ends or fails.
    pub limits: Limits,
    /// What to sample during the run; `None` samples nothing.
    pub watch: Option<Watch>,
}

/// The `[fabric]` table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricSetup {
    /// The wiring.
    pub topology: TopologySpec,
    /// Default of every link (`rate`, `delay`, `loss`).
    pub link: LinkSpec,
    /// `[[fabric.link]]`: links of a graph, or changes to single links.
    pub links: Vec<NamedLink>,
    /// `[[fabric.route]]`: routes that differ from the shortest.
    pub routes: Vec<NamedRoute>,
    /// `[[fabric.storm]]`: NICs that pause their switch.
    pub storms: Vec<Storm>,
    /// Payload bytes of a full packet (`mtu`).
    pub mtu: Bytes,
    /// Bytes on the link around each frame (`frame_gap`, default 20 B).
    pub frame_gap: Bytes,
    /// Imperfections of the clocks (`clock_skew_ppm`, `clock_jitter`); default none.
    #[serde(default)]
    pub clocks: ClockSpec,
    /// Which of several shortest paths packets take (`paths`); default `"ecmp"`.
    pub paths: Option<Paths>,
    /// `[fabric.switch]`.
    pub switch: SwitchSetup,
}

/// A host's NIC that pauses its switch: `[[fabric.storm]]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Storm {
    /// The host's number.
    pub host: u32,
    /// When it tells its switch to pause.
    pub start: Time,
    /// How long after that it lets its switch resume; `None`: never.
    pub duration: Option<Time>,
    /// The one priority that it pauses; `None`: all in use.
    pub priority: Option<u8>,
}

/// The `[fabric.switch]` table.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchSetup {
    /// `queueing`.
    pub queueing: QueueingSetup,
    /// Shared: the whole buffer; default 12 MB. Otherwise the buffer per port and priority; default twice the longest
    /// path's bandwidth-delay product, at least 16 full frames.
    pub buffer: Option<Bytes>,
    /// PFC pause threshold; default buffer minus the headroom that makes the fabric lossless, in a shared buffer a
    /// dynamic one.
    pub xoff: Option<Bytes>,
    /// PFC resume threshold; default `xoff`.
    pub xon: Option<Bytes>,
    /// Buffer reserved above `xoff`; default what the fabric needs to be lossless, and at least `buffer` minus `xoff`.
    pub headroom: Option<Bytes>,
    /// `scheduler` and `weights`.
    pub scheduler: SchedulerSetup,
    /// `ecn`.
    pub ecn: EcnSetup,
}

/// How a switch stores what waits: `queueing`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "queueing", rename_all = "kebab-case")]
pub enum QueueingSetup {
    /// `"input"`: at the inputs.
    Input(InputSetup),
    /// `"shared"`: at the outputs, in one buffer for all ports.
    Shared(SharedSetup),
    /// `"output"`: at the outputs, in a buffer for each of them and each priority.
    Output(OutputSetup),
}

/// Buffers at the inputs.
impl Default for QueueingSetup {
    fn default() -> QueueingSetup {
        QueueingSetup::Input(InputSetup::default())
    }
}

/// Settings that only a switch with buffers at its inputs has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputSetup {
    /// Which of the inputs with packets for the same output sends next (`arbiter`, `arbiter_quantum`).
    #[serde(default)]
    pub arbiter: ArbiterSpec,
    /// Hysteresis: an input port that has dropped a packet drops every packet of this priority until this many bytes of
    /// its buffer are free. 0, the default: it accepts every packet that fits.
    #[serde(default)]
    pub drop_until_free: Bytes,
}

impl QueueingSetup {
    /// The number of priorities, where the table gives it.
    pub fn priorities(&self) -> Option<u8> {
        match self {
            QueueingSetup::Input(_) => None,
            QueueingSetup::Shared(shared) => shared.priorities,
            QueueingSetup::Output(output) => output.priorities,
        }
    }
}

/// Which priority an output serves next: `scheduler`, `weights`, and the bound that `trim` sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SchedulerSetup {
    /// The scheduler; default strict priority, with `weights` deficit round robin.
    pub spec: SchedulerSpec,
    /// Number of `weights` given; 0 for a scheduler without weights.
    pub weights: u8,
}

/// What only a switch with a buffer for each output and priority has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputSetup {
    /// Priorities that it has (`priorities`, or as many as there are `buffers`); default those in use.
    pub priorities: Option<u8>,
    /// A buffer for each priority, lowest first; default the same for all.
    pub buffers: Option<[Bytes; 8]>,
    /// What is left of packets that do not fit (`trim`); default nothing.
    pub trim: Option<TrimSpec>,
}

impl OutputSetup {
    /// Whether headers of trimmed packets have the highest priority to themselves, and to control packets.
    pub fn headers_apart(&self) -> bool {
        self.trim.is_some_and(|trim| trim.headers == TrimmedPriority::Highest)
    }

    /// The fewest priorities with which it serves a transport.
    pub fn needed_priorities(&self, transport: &TransportSpec) -> u8 {
        let above = self.trim.is_some_and(|trim| trim.headers == TrimmedPriority::Above);
        match transport.priorities() {
            // A trimmed header of the highest of them travels one priority above.
            Some(used) => (used + u8::from(above)).max(if self.trim.is_some() { 2 } else { 1 }),
            None if self.trim.is_some() || transport.control_priority() => 2,
            None => 1,
        }
    }
}

/// What only a switch with a shared buffer has.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedSetup {
    /// Dynamic PFC threshold: this multiple of the pool's free bytes, divided by the priorities; default 8 if there is
    /// no `xoff`.
    pub beta: Option<f64>,
    /// Bytes by which a charge must fall below its threshold for a resume; default two full frames.
    pub xon_offset: Option<Bytes>,
    /// Without PFC: limit of a queue as a multiple of the pool's free bytes; default all of them.
    pub egress_alpha: Option<f64>,
    /// Priorities for which the buffer is divided; default those in use.
    pub priorities: Option<u8>,
}

/// ECN marking: `ecn = false`, or the `[fabric.switch.ecn]` table. It concerns only runs whose congestion control
/// listens to marks, and has that one's thresholds by default.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EcnSetup {
    /// No marks at all (`ecn = false`).
    pub off: bool,
    /// No packet is marked up to this egress queue.
    pub kmin: Option<Bytes>,
    /// Every packet is marked above this egress queue.
    pub kmax: Option<Bytes>,
    /// Probability of a mark at `kmax`.
    pub pmax: Option<f64>,
    /// Which end of the queue decides; default `"enqueue"` with buffers at the inputs, `"dequeue"` with buffers at the
    /// outputs.
    pub mark_on: Option<MarkOn>,
}

/// One source of flows: `[traffic]`, or one of several `[[traffic]]`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Its name in the results; default the pattern's name.
    pub name: String,
    /// What it does.
    pub pattern: TrafficPattern,
    /// Number of its first flows to leave out of the statistics.
    pub warmup: u64,
    /// Number of its last flows to leave out of the statistics.
    pub cooldown: u64,
    /// When it begins.
    pub start: Time,
}

/// The pattern in which a traffic source starts flows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "pattern", rename_all = "kebab-case")]
pub enum TrafficPattern {
    /// `poisson`: every host starts flows to uniformly random other hosts, as a Poisson process.
    Poisson {
        /// Mean fraction of each host's link rate that its data frames use, headers and frame gap included.
        load: f64,
        /// Flow sizes.
        sizes: SizeDistribution,
        /// Total number of flows.
        flows: u64,
    },
    /// `incast`: requests, each striped over many senders that send to one receiver at the same time.
    Incast {
        /// Number of senders, drawn for each request from the other hosts.
        senders: u32,
        /// Bytes of one request, summed over its senders.
        total: Bytes,
        /// Number of requests.
        repeats: u32,
        /// Receiving host; default host 0.
        receiver: u32,
        /// Number of flows from each sender.
        connections: u32,
        /// Time between the starts of two requests; default four times the time that one request occupies the
        /// receiver's link.
        interval: Option<Time>,
    },
    /// `permutation`: every host sends to one other host and receives from one other host.
    Permutation {
        /// Flow sizes.
        sizes: SizeDistribution,
        /// Number of permutations, each drawn at random.
        repeats: u32,
        /// Time between the starts of two permutations.
        interval: Time,
    },
    /// `all-to-all`: every host sends one flow to every other host.
    AllToAll {
        /// Flow sizes.
        sizes: SizeDistribution,
        /// Number of repetitions.
        repeats: u32,
        /// Time between the starts of two repetitions.
        interval: Time,
    },
    /// `list`: a given list of flows, sorted by start.
    List {
        /// The flows.
        flows: Arc<[FlowSpec]>,
    },
    /// `pairs`: random pairs of hosts; in each pair, one host sends messages to the other, one at a time.
    Pairs {
        /// Number of pairs. Pairs are drawn independently of each other; two pairs may be equal.
        pairs: u32,
        /// Message sizes.
        sizes: SizeDistribution,
        /// Messages of each pair; `None` for endless traffic.
        messages: Option<u32>,
        /// Time from the sender's knowledge that a message is complete to the start of its next message.
        think_time: Time,
        /// Whether all messages of a pair use the same, persistent connection.
        persistent: bool,
    },
    /// `all-to-all` with `outstanding`: every host sends to all other hosts in turn, with a fixed number of outstanding
    /// messages.
    AllToAllLoop {
        /// Message sizes.
        sizes: SizeDistribution,
        /// Number of messages from each host to every other host.
        repeats: u32,
        /// Maximum number of outstanding messages per host.
        outstanding: u32,
        /// Time from the sender's knowledge that a message is complete to the start of its next message.
        think_time: Time,
    },
    /// `incast` with `interval = "completion"`: the next request starts when the previous one is complete.
    IncastLoop {
        /// The request.
        incast: Incast,
        /// Number of requests; `None` for endless traffic.
        repeats: Option<u32>,
        /// Time from the senders' knowledge that a request is complete to the start of the next request.
        think_time: Time,
        /// Whether senders keep their connections from request to request.
        persistent: bool,
    },
}

impl TrafficPattern {
    /// Whether the pattern is a closed loop: later flows start when earlier flows complete.
    pub fn is_closed(&self) -> bool {
        matches!(
            self,
            TrafficPattern::Pairs { .. } | TrafficPattern::AllToAllLoop { .. } | TrafficPattern::IncastLoop { .. }
        )
    }

    /// Whether the pattern starts flows without end.
    pub fn is_endless(&self) -> bool {
        matches!(self, TrafficPattern::Pairs { messages: None, .. } | TrafficPattern::IncastLoop { repeats: None, .. })
    }
}

/// One request of an incast, striped evenly over its senders.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Incast {
    /// Number of senders, drawn anew for each request among the other hosts.
    pub senders: u32,
    /// Bytes of the request over all senders.
    pub total: Bytes,
    /// The receiver's host number.
    pub receiver: u32,
    /// Flows from each sender.
    pub connections: u32,
}

impl Incast {
    /// Flows of one request.
    pub fn flows(&self) -> u64 {
        u64::from(self.senders) * u64::from(self.connections)
    }
}

/// What is looked at while a run goes on: the `[watch]` table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// From one sample to the next (`interval`).
    pub interval: Time,
    /// When the first sample is taken (`start`, default 0).
    pub start: Time,
    /// Egress queues of switches (`queues`).
    pub queues: WatchedQueues,
    /// Whether the payload that each flow has delivered is sampled (`flows`, default no).
    pub flows: bool,
    /// Whether it is looked at who is paused and why (`pauses`, default no).
    pub pauses: bool,
}

/// The queues that a run samples.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WatchedQueues {
    /// `"all"`: every output of every switch.
    All,
    /// Those with these names: a switch and the node that it sends to, with a colon between them.
    Named(Vec<String>),
}

/// When to end and when to give up: the `[limits]` table.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Simulated time at which the run ends well, whatever is unfinished (`duration`); default: when all flows have
    /// finished.
    pub duration: Option<Time>,
    /// Simulated time at which a run that has not finished is a failure (`max_time`).
    pub max_time: Option<Time>,
    /// Simulated time without any flow progressing after which a run is a livelock (`stall_time`, default 1 s).
    pub stall_time: Time,
}

/// Number of hosts of a topology.
pub fn hosts(topology: &TopologySpec) -> u32 {
    let hosts = match topology {
        TopologySpec::FatTree { k } => u64::from(*k).pow(3) / 4,
        TopologySpec::LeafSpine { leaves, hosts_per_leaf, .. } => u64::from(*leaves) * u64::from(*hosts_per_leaf),
        TopologySpec::LeafSpineCore { pods, leaves_per_pod, hosts_per_leaf, .. } => {
            // Three counts of at most 2^32 could be more than 64 bits hold.
            u64::from(*pods).saturating_mul(u64::from(*leaves_per_pod)).saturating_mul(u64::from(*hosts_per_leaf))
        }
        TopologySpec::SingleSwitch { hosts } => u64::from(*hosts),
        TopologySpec::Dumbbell { left, right, .. } => u64::from(*left) + u64::from(*right),
        TopologySpec::Graph { hosts, .. } => hosts.len() as u64,
    };
    u32::try_from(hosts).unwrap_or(u32::MAX)
}
