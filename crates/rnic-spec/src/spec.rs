//! A scenario and its runs as plain data, after a scenario file has been parsed and checked.
//!
//! A setting that is `None` is not given in the scenario: the simulator then derives its value, as the scenario
//! reference documents.

use crate::collective::{Collective, Deployment};
use crate::faults::{Faults, Watchdogs};
use crate::flow::FlowSpec;
use crate::inference::Inference;
use crate::mesh::Mesh;
use crate::sizes::SizeDistribution;
use crate::trace::Trace;
use crate::training::Training;
use crate::transport::TransportSpec;
use crate::triggered::Triggered;
use rnic_fabric::config::{
    ArbiterSpec, ClockSpec, LinkSpec, MarkOn, NamedLink, NamedRoute, Paths, SchedulerSpec, TopologySpec, TrimSpec,
    TrimmedPriority,
};
use rnic_transport::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The contents of a scenario file: named runs, each with its network, traffic and transport.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Title of the scenario: the file's `title`, else `name`.
    pub title: String,
    /// Name of the scenario file without its extension; also the name of the folder for the results.
    pub name: String,
    /// Seed of the scenario: the caller's seed, else the file's `seed`. The simulation of a run uses the field `seed`
    /// of the run, which differs if the scenario sweeps `seed`.
    pub seed: u64,
    /// The runs, in the file's order; at least one.
    pub runs: Vec<RunSpec>,
}

/// One run (simulation), complete in itself: the scenario's fabric and traffic with the changes that the run's `set`
/// makes, and the run's transport.
///
/// `T` is the type that describes the transport: a [`TransportSpec`] with everything that the transport declares, or a
/// [`TransportDocument`](crate::TransportDocument) of names and settings for JSON.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSpec<T = TransportSpec> {
    /// Name of the run; unique in the scenario.
    pub name: String,
    /// Name of the scenario's `[[run]]` table from which the run was made. A sweep makes many runs from one such table
    /// and appends the swept values to their names; without a sweep, `base` equals `name`.
    pub base: String,
    /// The swept keys of the scenario and their values in this run, as written in the file; empty without a sweep.
    pub point: Vec<(String, String)>,
    /// Seed of the run's pseudo-random numbers.
    pub seed: u64,
    /// The network that carries the traffic.
    pub fabric: FabricSetup,
    /// Sources of flows: what the hosts send, and when.
    pub traffic: Vec<Traffic>,
    /// Transport and congestion control of the hosts.
    pub transport: T,
    /// Transports that the hosts have beside `transport`, each for the traffic of one priority.
    #[serde(default = "no_others::<T>", skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside<T>>,
    /// Simulated times at which the run completes or fails.
    pub limits: Limits,
    /// Queues, flows and pauses to sample during the run; `None` samples nothing.
    pub watch: Option<Watch>,
    /// What the run simulates: packets, or flows as fluids (`fidelity`).
    #[serde(default, skip_serializing_if = "Fidelity::is_packet")]
    pub fidelity: Fidelity,
    /// With [`Fidelity::Flow`]: rates are computed again only at multiples of this simulated time
    /// (`fidelity_quantum`); zero: whenever a flow starts or ends.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub fidelity_quantum: Time,
    /// Skip simulated time in which flows, their rates and all queues repeat, up to this relative difference
    /// (`fast_forward`); 0: never.
    #[serde(default, skip_serializing_if = "is_off")]
    pub fast_forward: f64,
}

fn is_off(number: &f64) -> bool {
    *number == 0.0
}

fn is_no_time(time: &Time) -> bool {
    *time == Time::ZERO
}

/// What a run simulates: the setting `fidelity`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// `"packet"`: every packet on every link.
    #[default]
    Packet,
    /// `"flow"`: flows as fluids that share the links by max-min fair rates, without packets, queues, drops and pauses.
    Flow,
}

impl Fidelity {
    /// Whether the run simulates packets.
    pub fn is_packet(&self) -> bool {
        *self == Fidelity::Packet
    }

    /// The word in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Fidelity::Packet => "packet",
            Fidelity::Flow => "flow",
        }
    }
}

/// A transport that the hosts of a run have beside the run's own (`[[run.beside]]`): all traffic sources of its
/// priority use it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Beside<T = TransportSpec> {
    /// Priority of all packets of the transport, 1 to 7; priority 0 is that of the run's own transport.
    pub priority: u8,
    /// Transport and congestion control. Its `pfc` says whether the priority is lossless.
    pub transport: T,
}

fn no_others<T>() -> Vec<Beside<T>> {
    Vec::new()
}

/// The network of a run: the `[fabric]` table of a scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricSetup {
    /// Hosts, switches and the links between them.
    pub topology: TopologySpec,
    /// Rate, delay and loss probability of every link that `links` does not change (`rate`, `delay`, `loss`).
    pub link: LinkSpec,
    /// `[[fabric.link]]`: the links of a graph topology; in other topologies, changes to single links.
    pub links: Vec<NamedLink>,
    /// `[[fabric.route]]`: routes that replace shortest paths.
    pub routes: Vec<NamedRoute>,
    /// `[[fabric.storm]]`: NICs that send PFC pause frames to their switch.
    pub storms: Vec<Storm>,
    /// Further faults: `[[fabric.drop]]`, `[[fabric.dead]]` and `[[fabric.receiver]]`.
    #[serde(default, skip_serializing_if = "Faults::is_empty")]
    pub faults: Faults,
    /// Watchdogs against pause storms: `[fabric.nic_watchdog]` and `[fabric.watchdog]`.
    #[serde(default, skip_serializing_if = "Watchdogs::is_empty")]
    pub watchdogs: Watchdogs,
    /// `[[fabric.mesh]]`: hosts that probe each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meshes: Vec<Mesh>,
    /// Payload bytes of a full packet (`mtu`).
    pub mtu: Bytes,
    /// Bytes of link time that each frame takes beyond its own length, for preamble and inter-frame gap (`frame_gap`).
    pub frame_gap: Bytes,
    /// Imperfections of the clocks of all hosts and switches (`clock_skew_ppm`, `clock_jitter`).
    #[serde(default)]
    pub clocks: ClockSpec,
    /// How packets choose among several shortest paths (`paths`); default: the transport's own choice, `"ecmp"` for
    /// most.
    pub paths: Option<Paths>,
    /// Time without a packet after which a flowlet ends (`flowlet_gap`), with the path selection `"flowlet"`; default:
    /// [`Paths::FLOWLET_GAP`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flowlet_gap: Option<Time>,
    /// Settings of all switches: `[fabric.switch]`.
    pub switch: SwitchSetup,
}

/// A pause storm (`[[fabric.storm]]`): a host's NIC sends PFC pause frames to its switch, as a defective NIC would.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Storm {
    /// Index of the host whose NIC sends the pause frames.
    pub host: u32,
    /// Simulated time at which the NIC pauses its switch.
    pub start: Time,
    /// Time after `start` at which the NIC sends XON, so that the switch resumes; `None`: never.
    pub duration: Option<Time>,
    /// The priority that the NIC pauses; `None`: all priorities in use.
    pub priority: Option<u8>,
}

/// Settings of all switches: the `[fabric.switch]` table.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchSetup {
    /// Where a switch buffers packets (`queueing`), with the settings that only this kind of buffer has.
    pub queueing: QueueingSetup,
    /// Size of the buffer. With `queueing = "shared"`, this is the one buffer of the whole switch.
    /// Otherwise, it is the buffer of each port and priority.
    pub buffer: Option<Bytes>,
    /// PFC pause threshold. Default: `buffer` minus the headroom that prevents drops; with a shared buffer, a dynamic
    /// threshold.
    pub xoff: Option<Bytes>,
    /// PFC resume threshold: the switch resumes its peer when the input buffer's occupancy has fallen to this
    /// threshold; default `xoff`.
    pub xon: Option<Bytes>,
    /// Bytes of buffer above `xoff` for packets that arrive before a PFC pause takes effect. Default: the bytes that
    /// the fabric needs to be lossless, at least `buffer` minus `xoff`.
    pub headroom: Option<Bytes>,
    /// How an output chooses the priority to serve next: `scheduler` and `weights`.
    pub scheduler: SchedulerSetup,
    /// ECN marking: `ecn`.
    pub ecn: EcnSetup,
}

/// Where a switch buffers packets that wait for an output: the key `queueing`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "queueing", rename_all = "kebab-case")]
pub enum QueueingSetup {
    /// `"input"`: in virtual output queues at the inputs.
    Input(InputSetup),
    /// `"shared"`: in queues at the outputs, with one buffer for all ports.
    Shared(SharedSetup),
    /// `"output"`: in queues at the outputs, with a buffer of its own for each output and priority.
    Output(OutputSetup),
}

/// The default is `"input"`: buffers at the inputs.
impl Default for QueueingSetup {
    fn default() -> QueueingSetup {
        QueueingSetup::Input(InputSetup::default())
    }
}

/// Settings that only a switch with buffers at its inputs has (`queueing = "input"`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputSetup {
    /// Which of the inputs with packets for the same output sends next (`arbiter`, `arbiter_quantum`).
    #[serde(default)]
    pub arbiter: ArbiterSpec,
    /// Hysteresis: an input port that has dropped a packet drops every packet of this priority until this many bytes of
    /// its buffer are free. With 0, the default, the port accepts every packet that fits.
    #[serde(default)]
    pub drop_until_free: Bytes,
}

impl QueueingSetup {
    /// The number of priorities of the switches; `None` if the `[fabric.switch]` table does not give it.
    pub fn priorities(&self) -> Option<u8> {
        match self {
            QueueingSetup::Input(_) => None,
            QueueingSetup::Shared(shared) => shared.priorities,
            QueueingSetup::Output(output) => output.priorities,
        }
    }
}

/// How an output chooses the priority to serve next: the keys `scheduler` and `weights`, and the maximum number of
/// consecutive packets of the highest priority (`trim.in_a_row`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SchedulerSetup {
    /// The scheduler. Default: strict priority; if `weights` are given, deficit round robin.
    pub spec: SchedulerSpec,
    /// Number of `weights` given; 0 for a scheduler without weights.
    pub weights: u8,
}

/// Settings that only a switch with a buffer for each output and priority has (`queueing = "output"`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputSetup {
    /// Number of priorities of each output (`priorities`, or the number of `buffers`); default: the priorities in use.
    pub priorities: Option<u8>,
    /// Buffer size of each priority, lowest priority first (`buffers`); default: `buffer` for every priority.
    pub buffers: Option<[Bytes; 8]>,
    /// How the switch trims a data packet that does not fit into the buffer (`trim`); default: it drops the packet.
    pub trim: Option<TrimSpec>,
    /// Whether the packet that an output is transmitting still counts in its queue when the switch decides whether
    /// another packet fits (`count_in_service`).
    #[serde(default)]
    pub count_in_service: bool,
}

impl OutputSetup {
    /// Whether the highest priority is reserved for the headers of trimmed packets and for control packets.
    pub fn headers_apart(&self) -> bool {
        self.trim.is_some_and(|trim| trim.headers == TrimmedPriority::Highest)
    }

    /// The minimum number of priorities that a run with `transport` needs on these switches.
    pub fn needed_priorities(&self, transport: &TransportSpec) -> u8 {
        let above = self.trim.is_some_and(|trim| trim.headers == TrimmedPriority::Above);
        match transport.priorities() {
            // A header trimmed from a packet of the transport's highest priority travels one priority above it.
            Some(used) => (used + u8::from(above)).max(if self.trim.is_some() { 2 } else { 1 }),
            None if self.trim.is_some() || transport.control_priority() => 2,
            None => 1,
        }
    }
}

/// Settings that only a switch with a shared buffer has (`queueing = "shared"`).
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedSetup {
    /// Factor of the dynamic PFC threshold: threshold = `beta` x free bytes of the pool (the buffer without the
    /// reserved headroom) / number of priorities. Default 8 if `xoff` is not given.
    pub beta: Option<f64>,
    /// Bytes by which the occupancy charged to an input port and priority must fall below the pause threshold before
    /// the switch sends XON; default two full frames.
    pub xon_offset: Option<Bytes>,
    /// In priorities without PFC: maximum length of an output's queue, as a multiple of the buffer's free bytes.
    /// Default: a queue may take all free bytes.
    pub egress_alpha: Option<f64>,
    /// Number of priorities for which headroom is reserved, and by which the threshold of `beta` is divided; default:
    /// the priorities in use.
    pub priorities: Option<u8>,
}

/// ECN marking: `ecn = false`, or the `[fabric.switch.ecn]` table. If `kmin` and `kmax` are both given, switches mark
/// packets in every run. Otherwise they mark packets only in runs whose congestion control reacts to CE marks.
/// Thresholds that are not given are the defaults of this congestion control.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EcnSetup {
    /// Whether switches mark no packets (`ecn = false`).
    pub off: bool,
    /// Length of the egress queue up to which no packet is marked.
    pub kmin: Option<Bytes>,
    /// Length of the egress queue above which every packet is marked.
    pub kmax: Option<Bytes>,
    /// Probability that a packet is marked when the egress queue is at `kmax`, 0 to 1.
    pub pmax: Option<f64>,
    /// When a packet is marked: as it joins the egress queue (`"enqueue"`, default with buffers at the inputs) or as it
    /// leaves this queue (`"dequeue"`, default with shared buffers and with buffers at the outputs).
    pub mark_on: Option<MarkOn>,
}

/// One source of flows: the scenario's table `[traffic]`, or one of several tables `[[traffic]]`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Name of the source in the results; default: the pattern's name.
    pub name: String,
    /// The pattern in which the source starts flows.
    pub pattern: TrafficPattern,
    /// Number of the source's first flows that the statistics leave out.
    pub warmup: u64,
    /// Number of the source's last flows that the statistics leave out.
    pub cooldown: u64,
    /// Simulated time at which the source starts its first flows.
    pub start: Time,
    /// Priority of the source's packets, 0 to 7. A run without a transport for this priority (`[[run.beside]]`) uses
    /// its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: u8,
}

fn is_zero(priority: &u8) -> bool {
    *priority == 0
}

/// The pattern in which a traffic source starts flows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "pattern", rename_all = "kebab-case")]
pub enum TrafficPattern {
    /// `poisson`: every host starts flows to random other hosts at random times.
    Poisson {
        /// Mean fraction of each host's link rate that its data frames use, headers and frame gap included.
        load: f64,
        /// Distribution of the flow sizes.
        sizes: SizeDistribution,
        /// Total number of flows.
        flows: u64,
        /// Fractions of the flows that stay near their sender.
        #[serde(default, skip_serializing_if = "Locality::is_uniform")]
        locality: Locality,
        /// The process in which a host starts its flows.
        #[serde(default, skip_serializing_if = "Arrivals::is_poisson")]
        arrivals: Arrivals,
    },
    /// `incast`: requests, each striped over many senders that send to one receiver at the same time.
    Incast {
        /// Number of senders, drawn for each request from the other hosts.
        senders: u32,
        /// Payload bytes of one request, summed over its senders.
        total: Bytes,
        /// Number of requests.
        repeats: u32,
        /// The receiving host of each request.
        receiver: Receiver,
        /// Number of flows of each request from each sender.
        connections: u32,
        /// Time between the starts of two requests; default four times the time that one request occupies the
        /// receiver's link.
        interval: Option<Time>,
    },
    /// `permutation`: every host sends a flow to one other host and receives a flow from one other host.
    Permutation {
        /// Distribution of the flow sizes.
        sizes: SizeDistribution,
        /// Number of permutations of the hosts, each drawn at random.
        repeats: u32,
        /// Time between the starts of two permutations.
        interval: Time,
    },
    /// `all-to-all` without `outstanding`: every host sends one flow to every other host, all at the same time.
    AllToAll {
        /// Distribution of the flow sizes.
        sizes: SizeDistribution,
        /// Number of times that every host sends to every other host.
        repeats: u32,
        /// Time between the starts of two repetitions.
        interval: Time,
    },
    /// `list`: a given list of flows, sorted by start.
    List {
        /// The flows to start, in order of start.
        flows: Arc<[FlowSpec]>,
    },
    /// `triggered`: a list of flows, some of which start when others end; the pattern `list` with the triggers of a
    /// connection matrix of htsim.
    Triggered(Triggered),
    /// `pairs`: random pairs of hosts; in each pair, one host sends messages to the other, one at a time.
    Pairs {
        /// Number of pairs. Pairs are drawn independently of each other; two pairs may be equal.
        pairs: u32,
        /// Distribution of the message sizes.
        sizes: SizeDistribution,
        /// Number of messages of each pair; `None` for endless traffic.
        messages: Option<u32>,
        /// Time between the instant at which the sender knows that a message is complete and the start of its next
        /// message.
        think_time: Time,
        /// Whether all messages of a pair use the same, persistent connection.
        persistent: bool,
    },
    /// `all-to-all` with `outstanding`: every host sends to all other hosts in turn, with a fixed number of outstanding
    /// messages.
    AllToAllLoop {
        /// Distribution of the message sizes.
        sizes: SizeDistribution,
        /// Number of messages from each host to every other host.
        repeats: u32,
        /// Maximum number of outstanding messages per host.
        outstanding: u32,
        /// Time between the instant at which the sender knows that a message is complete and the start of its next
        /// message.
        think_time: Time,
    },
    /// `incast` with `interval = "completion"`: the next request starts when the previous one is complete.
    IncastLoop {
        /// Senders, receiver and size of each request.
        incast: Incast,
        /// Number of requests; `None` for endless traffic.
        repeats: Option<u32>,
        /// Time between the instant at which all senders know that a request is complete and the start of the next
        /// request.
        think_time: Time,
        /// Whether the flows of all requests from a sender use the same, persistent connections.
        persistent: bool,
    },
    /// `collective`: groups of ranks repeat a collective operation, such as an all-reduce.
    Collective(Collective),
    /// `training`: ranks carry out training steps of a large language model.
    Training(Box<Training>),
    /// `inference`: instances of a large language model answer requests.
    Inference(Box<Inference>),
    /// `trace`: ranks carry out the tasks of a file.
    Trace(Box<Trace>),
    /// `outside`: another program submits the flows while the simulation runs.
    Outside {
        /// Bytes of the largest flow that the program may submit.
        largest: Bytes,
        /// Minimum time between the completion of a flow and the time at which the program knows of it; default: one
        /// window of simulated time, which is the time of a minimum frame on the fabric's shortest link.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reaction: Option<Time>,
    },
}

impl TrafficPattern {
    /// Whether flows of the pattern start when earlier flows have completed: closed loops, collective operations
    /// and flows from outside.
    pub fn is_closed(&self) -> bool {
        matches!(
            self,
            TrafficPattern::Pairs { .. }
                | TrafficPattern::AllToAllLoop { .. }
                | TrafficPattern::IncastLoop { .. }
                | TrafficPattern::Triggered(_)
                | TrafficPattern::Outside { .. }
        ) || self.is_program()
    }

    /// Whether ranks carry out operations that depend on each other.
    pub fn is_program(&self) -> bool {
        matches!(
            self,
            TrafficPattern::Collective(_)
                | TrafficPattern::Training(_)
                | TrafficPattern::Inference(_)
                | TrafficPattern::Trace(_)
        )
    }

    /// Where the ranks of the pattern run; `None` for a pattern without ranks.
    pub fn deployment(&self) -> Option<Deployment> {
        match self {
            TrafficPattern::Collective(collective) => Some(collective.deployment()),
            TrafficPattern::Training(training) => Some(training.deployment.clone()),
            TrafficPattern::Inference(inference) => Some(inference.deployment.clone()),
            TrafficPattern::Trace(trace) => Some(trace.deployment.clone()),
            _ => None,
        }
    }

    /// Whether the pattern starts flows without end, so that only the run's `duration` ends it.
    pub fn is_endless(&self) -> bool {
        matches!(self, TrafficPattern::Pairs { messages: None, .. } | TrafficPattern::IncastLoop { repeats: None, .. })
    }
}

/// One request of an incast, striped evenly over its senders.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Incast {
    /// Number of senders, drawn again for each request among the other hosts.
    pub senders: u32,
    /// Payload bytes of the request, summed over all senders.
    pub total: Bytes,
    /// The receiving host.
    pub receiver: Receiver,
    /// Number of flows of the request from each sender.
    pub connections: u32,
}

impl Incast {
    /// Number of flows of one request.
    pub fn flows(&self) -> u64 {
        u64::from(self.senders) * u64::from(self.connections)
    }
}

/// The host that receives the requests of an incast (`receiver`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "`receiver` is neither the number of a host nor \"round-robin\" nor \"random\"")]
pub enum Receiver {
    /// The host of this index receives all requests.
    Host(u32),
    /// Each request has another receiver.
    Changing(Rotation),
}

/// How the requests of an incast choose their receivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rotation {
    /// `"round-robin"`: request n goes to host n modulo the number of hosts.
    RoundRobin,
    /// `"random"`: each request draws its receiver from all hosts.
    Random,
}

/// Fractions of the flows that stay near their sender (`locality`, `pod_locality`). Without either, receivers are
/// distributed uniformly over all other hosts.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Locality {
    /// Fraction of the flows whose receiver is attached to the sender's switch (`locality`); `None` counts as 0 if
    /// `pod` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf: Option<f64>,
    /// Fraction of the flows whose receiver is in the sender's pod, attached to another switch (`pod_locality`). All
    /// other flows leave the pod. `None`: all flows that leave the sender's switch are distributed uniformly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<f64>,
}

impl Locality {
    /// Whether the receivers are distributed uniformly over all other hosts.
    pub fn is_uniform(&self) -> bool {
        *self == Locality::default()
    }
}

/// The process in which a host of a traffic source starts its flows (`arrivals`). All have the same mean time between
/// two flows. The coefficient of variation (`cv`) of these times is their standard deviation divided by their mean.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "process", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// `"poisson"`: exponentially distributed times, whose coefficient of variation is 1.
    #[default]
    Poisson,
    /// `"log-normal"`: independent times with a log-normal distribution.
    LogNormal {
        /// Coefficient of variation of the times between two flows.
        cv: f64,
    },
    /// `"on-off"`: an interrupted Poisson process. The host starts flows as a Poisson process while it is on, and none
    /// while it is off; both periods are exponentially distributed.
    OnOff {
        /// Coefficient of variation of the times between two flows, at least [`Arrivals::MIN_ON_OFF_CV`].
        cv: f64,
        /// Fraction of the time in which the host is on.
        on_share: f64,
    },
}

impl Arrivals {
    /// Minimum coefficient of variation of [`Arrivals::OnOff`]. An interrupted Poisson process has more than 1, and the
    /// nearer to 1, the shorter are its periods.
    pub const MIN_ON_OFF_CV: f64 = 1.1;

    /// Whether this is the Poisson process.
    pub fn is_poisson(&self) -> bool {
        *self == Arrivals::Poisson
    }
}

/// What a run samples at regular intervals while it is simulated: the `[watch]` table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Simulated time between two samples (`interval`); without a meaning in a run that takes none.
    pub interval: Time,
    /// Simulated time of the first sample (`start`).
    pub start: Time,
    /// Egress queues of switches whose lengths are sampled (`queues`).
    pub queues: WatchedQueues,
    /// Links whose utilisation is sampled (`links`).
    #[serde(default, skip_serializing_if = "WatchedLinks::is_empty")]
    pub links: WatchedLinks,
    /// Whether the payload that each flow has delivered is sampled (`flows`).
    pub flows: bool,
    /// Whether samples determine which transmitters PFC pauses and which port causes the pause (`pauses`).
    pub pauses: bool,
    /// Whether the run measures why messages on critical paths are slower than on an empty fabric (`excess`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub excess: bool,
}

impl Watch {
    /// Value of `interval`, without a meaning, in a run that takes no samples.
    pub const NO_SAMPLES: Time = Time::from_ms(1_000);

    /// Whether the run takes samples.
    pub fn samples(&self) -> bool {
        self.flows || self.pauses || !self.links.is_empty() || self.queues != WatchedQueues::Named(Vec::new())
    }
}

/// The egress queues of switches that a run samples.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WatchedQueues {
    /// `"all"`: every output of every switch.
    All,
    /// The queues with these names. A name consists of the switch and the node to which the output sends, joined by a
    /// colon (`"s0:h0"`).
    Named(Vec<String>),
}

/// The links whose utilisation a run samples. Each direction of a link is sampled separately.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WatchedLinks {
    /// `"all"`: both directions of every link.
    All,
    /// The directions with these names. A name consists of the sending and the receiving node, joined by a colon
    /// (`"leaf0:spine1"`).
    Named(Vec<String>),
}

impl WatchedLinks {
    /// Whether no link is watched.
    pub fn is_empty(&self) -> bool {
        *self == WatchedLinks::default()
    }
}

impl Default for WatchedLinks {
    /// No link.
    fn default() -> WatchedLinks {
        WatchedLinks::Named(Vec::new())
    }
}

/// When a run ends, and when a run without progress fails: the `[limits]` table.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Simulated time at which the run ends and counts as completed, even with unfinished flows (`duration`); default:
    /// when all flows have finished.
    pub duration: Option<Time>,
    /// Simulated time at which a run with unfinished flows fails (`max_time`); default: no limit.
    pub max_time: Option<Time>,
    /// The run fails (livelock) if no flow makes progress for this simulated time (`stall_time`).
    pub stall_time: Time,
}

/// Number of hosts of a topology.
pub fn hosts(topology: &TopologySpec) -> u32 {
    let hosts = match topology {
        TopologySpec::FatTree { k } => u64::from(*k).saturating_pow(3) / 4,
        TopologySpec::LeafSpine { leaves, hosts_per_leaf, .. } => u64::from(*leaves) * u64::from(*hosts_per_leaf),
        TopologySpec::LeafSpineCore { pods, leaves_per_pod, hosts_per_leaf, .. } => {
            // The product of three 32-bit counts can exceed 64 bits.
            u64::from(*pods).saturating_mul(u64::from(*leaves_per_pod)).saturating_mul(u64::from(*hosts_per_leaf))
        }
        TopologySpec::SingleSwitch { hosts } => u64::from(*hosts),
        TopologySpec::Dumbbell { left, right, .. } => u64::from(*left) + u64::from(*right),
        TopologySpec::Dragonfly { groups, routers_per_group, hosts_per_router, .. } => u64::from(*groups)
            .saturating_mul(u64::from(*routers_per_group))
            .saturating_mul(u64::from(*hosts_per_router)),
        TopologySpec::MultiPlane { planes, leaves, hosts_per_leaf, .. } => {
            u64::from(*planes).saturating_mul(u64::from(*leaves)).saturating_mul(u64::from(*hosts_per_leaf))
        }
        TopologySpec::Graph { hosts, .. } => hosts.len() as u64,
    };
    u32::try_from(hosts).unwrap_or(u32::MAX)
}

/// Number of planes of a topology: parts without a path between them.
pub fn planes(topology: &TopologySpec) -> u32 {
    match topology {
        TopologySpec::MultiPlane { planes, .. } => (*planes).max(1),
        _ => 1,
    }
}

/// Number of links between the switches of a topology; 0 for a graph, which lists its links.
pub fn uplinks(topology: &TopologySpec) -> u64 {
    match topology {
        TopologySpec::FatTree { k } => u64::from(*k).saturating_pow(3) / 2,
        TopologySpec::LeafSpine { leaves, spines, .. } => u64::from(*leaves) * u64::from(*spines),
        TopologySpec::MultiPlane { planes, leaves, spines, .. } => {
            u64::from(*planes).saturating_mul(u64::from(*leaves)).saturating_mul(u64::from(*spines))
        }
        TopologySpec::LeafSpineCore { pods, leaves_per_pod, spines_per_pod, cores_per_plane, .. } => {
            let of_a_spine = u64::from(*leaves_per_pod) + u64::from(*cores_per_plane);
            (u64::from(*pods) * u64::from(*spines_per_pod)).saturating_mul(of_a_spine)
        }
        TopologySpec::SingleSwitch { .. } | TopologySpec::Graph { .. } => 0,
        TopologySpec::Dumbbell { .. } => 1,
        TopologySpec::Dragonfly { groups, routers_per_group, global_links, .. } => {
            let (groups, routers) = (u64::from(*groups), u64::from(*routers_per_group));
            let of_router = routers.saturating_add(u64::from(*global_links));
            groups.saturating_mul(routers).saturating_mul(of_router) / 2
        }
    }
}
