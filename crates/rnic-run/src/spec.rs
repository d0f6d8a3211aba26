//! A scenario as plain data, after parsing and checking.
//!
//! `None` in a setting means "not given": the value then follows from the fabric, as the reference documents.

use crate::congestion::CongestionDeclaration;
use crate::flow::FlowSpec;
use crate::message::{self, MessageSpec};
use crate::p4::P4Program;
use crate::sizes::SizeDistribution;
use rnic_fabric::config::{
    LinkSpec, MarkOn, NamedLink, NamedRoute, Paths, SchedulerSpec, TopologySpec, TrimSpec, TrimmedPriority,
};
use rnic_transport::congestion::Settings;
use rnic_transport::headers::{IRN_DATA, IWARP_DATA, MESSAGE_HEADER, ROCE_DATA, TELEMETRY};
use rnic_transport::registry::FLOWS;
use rnic_transport::{BitRate, Bytes, NackPolicy, Time};
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
#[derive(Clone, PartialEq, Debug)]
pub struct RunSpec {
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
    pub transport: TransportSpec,
    /// When to give up.
    pub limits: Limits,
    /// What is looked at while it goes on.
    pub watch: Option<Watch>,
}

/// The `[fabric]` table.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricSetup {
    /// The wiring.
    pub topology: TopologySpec,
    /// Default of every cable (`rate`, `delay`, `loss`).
    pub link: LinkSpec,
    /// `[[fabric.link]]`: cables of a graph, or changes to single cables.
    pub links: Vec<NamedLink>,
    /// `[[fabric.route]]`: routes that differ from the shortest.
    pub routes: Vec<NamedRoute>,
    /// `[[fabric.storm]]`: NICs that pause their switch.
    pub storms: Vec<Storm>,
    /// Payload bytes of a full packet (`mtu`).
    pub mtu: Bytes,
    /// Bytes on the cable around each frame (`frame_gap`, default 20 B).
    pub frame_gap: Bytes,
    /// Which of several shortest paths packets take (`paths`); default `"ecmp"`.
    pub paths: Option<Paths>,
    /// `[fabric.switch]`.
    pub switch: SwitchSetup,
}

/// A host's NIC that pauses its switch: `[[fabric.storm]]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SwitchSetup {
    /// `queueing`.
    pub queueing: QueueingSetup,
    /// Shared: the whole buffer; default 12 MB. Otherwise the buffer per port and priority; default twice the longest path's bandwidth-delay product, at least 16 full frames.
    pub buffer: Option<Bytes>,
    /// PFC pause threshold; default buffer minus the headroom that makes the fabric lossless, in a shared buffer a dynamic one.
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
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum QueueingSetup {
    /// `"input"`: at the inputs.
    #[default]
    Input,
    /// `"shared"`: at the outputs, in one buffer for all ports.
    Shared(SharedSetup),
    /// `"output"`: at the outputs, in a buffer for each of them and each priority.
    Output(OutputSetup),
}

impl QueueingSetup {
    /// The number of priorities, where the table gives it.
    pub fn priorities(&self) -> Option<u8> {
        match self {
            QueueingSetup::Input => None,
            QueueingSetup::Shared(shared) => shared.priorities,
            QueueingSetup::Output(output) => output.priorities,
        }
    }
}

/// Which priority an output serves next: `scheduler`, `weights`, and the bound that `trim` sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SchedulerSetup {
    /// The scheduler; default strict priority, with `weights` deficit round robin.
    pub spec: SchedulerSpec,
    /// Number of `weights` given; 0 for a scheduler without weights.
    pub weights: u8,
}

/// What only a switch with a buffer for each output and priority has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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
        match transport.bands() {
            // Headers of packets in the first band have one above it.
            Some(bands) => (bands + u8::from(above)).max(if self.trim.is_some() { 2 } else { 1 }),
            None if self.trim.is_some() || transport.control_priority => 2,
            None => 1,
        }
    }
}

/// What only a switch with a shared buffer has.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SharedSetup {
    /// Dynamic PFC threshold: this multiple of the pool's free bytes, divided by the priorities; default 8 if there is no `xoff`.
    pub beta: Option<f64>,
    /// Bytes by which a charge must fall below its threshold for a resume; default two full frames.
    pub xon_offset: Option<Bytes>,
    /// Without PFC: limit of a queue as a multiple of the pool's free bytes; default all of them.
    pub egress_alpha: Option<f64>,
    /// Priorities for which the buffer is divided; default those in use.
    pub priorities: Option<u8>,
}

/// ECN marking: `ecn = false`, or the `[fabric.switch.ecn]` table. It concerns only runs whose congestion control listens to marks,
/// and has that one's thresholds by default.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct EcnSetup {
    /// No marks at all (`ecn = false`).
    pub off: bool,
    /// No packet is marked up to this egress queue.
    pub kmin: Option<Bytes>,
    /// Every packet is marked above this egress queue.
    pub kmax: Option<Bytes>,
    /// Probability of a mark at `kmax`.
    pub pmax: Option<f64>,
    /// Which end of the queue decides; default `"enqueue"` with buffers at the inputs, `"dequeue"` with buffers at the outputs.
    pub mark_on: Option<MarkOn>,
}

/// One source of flows: `[traffic]`, or one of several `[[traffic]]`.
#[derive(Clone, PartialEq, Debug)]
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

/// What a source of flows does.
#[derive(Clone, PartialEq, Debug)]
pub enum TrafficPattern {
    /// `poisson`: every host starts flows as a Poisson process towards uniformly random other hosts.
    Poisson {
        /// Fraction of each host's link that its data frames (headers and frame gap included) take on average.
        load: f64,
        /// Flow sizes.
        sizes: SizeDistribution,
        /// Number of flows in all.
        flows: u64,
    },
    /// `incast`: one request striped over many senders to one receiver, repeated.
    Incast {
        /// Number of senders, drawn anew for each repetition among the other hosts.
        senders: u32,
        /// Bytes of one request over all senders.
        total: Bytes,
        /// How many requests.
        repeats: u32,
        /// The receiver's host number; default: host 0.
        receiver: u32,
        /// Flows from each sender.
        connections: u32,
        /// From one request's start to the next; default four times what the receiver's link needs for one.
        interval: Option<Time>,
    },
    /// `permutation`: every host sends to one other and receives from one other.
    Permutation {
        /// Flow sizes.
        sizes: SizeDistribution,
        /// Number of permutations, each drawn anew.
        repeats: u32,
        /// From one permutation's start to the next.
        interval: Time,
    },
    /// `all-to-all`: every host sends one flow to every other host.
    AllToAll {
        /// Flow sizes.
        sizes: SizeDistribution,
        /// How many times.
        repeats: u32,
        /// From one start to the next.
        interval: Time,
    },
    /// `list`: exactly these flows, sorted by start.
    List {
        /// The flows.
        flows: Arc<[FlowSpec]>,
    },
    /// `pairs`: random pairs of hosts, each of which sends message after message.
    Pairs {
        /// How many pairs; their hosts are drawn independently and may be the same.
        pairs: u32,
        /// Message sizes.
        sizes: SizeDistribution,
        /// Messages of each pair; `None`: without end.
        messages: Option<u32>,
        /// From when the sender knows that a message is complete to the start of the next one.
        think: Time,
        /// Whether the messages of a pair share a connection.
        lasting: bool,
    },
    /// `all-to-all` with `at_once`: every host sends to all others in turn, and has so many messages under way.
    AllToAllLoop {
        /// Message sizes.
        sizes: SizeDistribution,
        /// How many times each host sends to every other.
        repeats: u32,
        /// Messages of a host that are under way at once.
        at_once: u32,
        /// From when the sender knows that a message is complete to the start of its next one.
        think: Time,
    },
    /// `incast` with `interval = "completion"`: the next request starts when the last one is complete.
    IncastLoop {
        /// The request.
        incast: Incast,
        /// How many requests; `None`: without end.
        repeats: Option<u32>,
        /// From when the senders know that a request is complete to the start of the next one.
        think: Time,
        /// Whether the connections of a sender last from request to request.
        lasting: bool,
    },
}

impl TrafficPattern {
    /// Whether what it sends depends on what has arrived.
    pub fn is_closed(&self) -> bool {
        matches!(
            self,
            TrafficPattern::Pairs { .. } | TrafficPattern::AllToAllLoop { .. } | TrafficPattern::IncastLoop { .. }
        )
    }

    /// Whether it never ends.
    pub fn is_endless(&self) -> bool {
        matches!(self, TrafficPattern::Pairs { messages: None, .. } | TrafficPattern::IncastLoop { repeats: None, .. })
    }
}

/// One request of an incast, striped evenly over its senders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// How a transport recovers from loss: `recovery`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recovery {
    /// IRN (`selective`): the source retransmits what selective acknowledgements show to be lost.
    #[default]
    Selective,
    /// IRN (`no-sack`): selective retransmission of what cumulative acknowledgements alone show to be lost.
    NoSack,
    /// RoCE and IRN (`go-back-n`): the source goes back to the first lost packet.
    GoBackN,
    /// iWARP (`sack`): TCP with selective acknowledgements.
    Sack,
    /// iWARP (`newreno`): TCP without.
    NewReno,
}

impl TransportSpec {
    /// Whether it is a transport of messages, and not of reliable flows.
    pub fn is_message(&self) -> bool {
        !FLOWS.contains(&self.transport.as_str())
    }

    /// Priorities that a message transport uses; `None` for one of flows.
    pub fn bands(&self) -> Option<u8> {
        self.is_message().then(|| message::bands(self))
    }

    /// Whether packets in flight are capped.
    pub fn capped(&self) -> bool {
        self.bdp_fc.unwrap_or(self.transport == "irn" || self.bdp_cap.is_some())
    }

    /// What needs acknowledgements in this run, if anything does.
    pub fn needs_acks(&self) -> Option<String> {
        if self.cc.needs_acks {
            Some(format!("cc \"{}\"", self.cc.name))
        } else if self.capped() {
            Some("a cap on packets in flight".to_string())
        } else {
            self.dynamic_rto.then(|| "a dynamic timeout".to_string())
        }
    }

    /// Bytes of in-band telemetry in data packets, ACKs and NACKs.
    pub fn telemetry(&self) -> u32 {
        let of_program = self.program.as_ref().is_some_and(|program| program.telemetry);
        if self.cc.telemetry || self.transport == "hpcc" || of_program { TELEMETRY } else { 0 }
    }

    /// Whether every data packet is acknowledged.
    pub fn acknowledged(&self) -> bool {
        self.transport != "roce" || self.acks.unwrap_or_else(|| self.needs_acks().is_some())
    }

    /// Headers and trailers of a data packet: what the run says, else the transport's own.
    pub fn header_bytes(&self) -> Bytes {
        let own = match self.transport.as_str() {
            "irn" => IRN_DATA,
            "iwarp" => IWARP_DATA,
            "roce" => ROCE_DATA,
            _ => MESSAGE_HEADER,
        };
        self.header.unwrap_or(Bytes(u64::from(own + self.telemetry())))
    }
}

/// How the hosts of a run send: `transport`, `cc`, `pfc` and their settings.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TransportSpec {
    /// Name of the transport, one of `rnic list transports`, or `p4:FILE`.
    pub transport: String,
    /// The congestion control, one of `rnic list congestion` (`cc`); default `none`.
    pub cc: CongestionDeclaration,
    /// Its parameters, under its own name.
    pub cc_settings: Settings,
    /// How it recovers from loss; default IRN `selective`, iWARP `sack`; RoCE always `go-back-n`.
    pub recovery: Recovery,
    /// Whether the switches send PFC pauses.
    pub pfc: bool,
    /// Whether retransmission timers run; default: unless the fabric is lossless.
    pub timeouts: Option<bool>,
    /// Whether the timeout follows measured round-trip times as TCP's does (`rto = "dynamic"`); default no.
    pub dynamic_rto: bool,
    /// Lower bound of a computed timeout (`rto_min`); default 100 us, iWARP 1 ms.
    pub rto_min: Option<Time>,
    /// iWARP: timeout before the first measurement (`rto_initial`); default 1 ms, at least `rto_min`.
    pub rto_initial: Option<Time>,
    /// iWARP: longest timeout (`rto_max`); default 60 ms, at least the two others.
    pub rto_max: Option<Time>,
    /// iWARP: initial congestion window in packets; default 4 for an MTU of up to 1,095 B, 3 up to 2,190 B, else 2.
    pub initial_window: Option<u32>,
    /// iWARP: the receiver's buffer per flow; default 4 MB.
    pub receive_window: Option<Bytes>,
    /// iWARP: whether every second packet is acknowledged instead of every one (`delayed_acks`); default no.
    pub delayed_acks: bool,
    /// iWARP: longest time that an acknowledgement is held back (`delayed_ack_timeout`); default 500 us.
    pub delayed_ack_timeout: Option<Time>,
    /// iWARP: whether a flow includes the setup of its connection; default no.
    pub handshake: bool,
    /// Retransmission timeout; default the longest path's round-trip propagation plus all buffers of the largest switch sent over one link.
    pub rto_high: Option<Time>,
    /// IRN's short timeout; default 100 us.
    pub rto_low: Option<Time>,
    /// IRN uses `rto_low` while at most this many packets are in flight (`rto_low_packets`); default 3.
    pub rto_low_packets: Option<u32>,
    /// Whether packets in flight are capped (`bdp_fc`); default yes for IRN, no for RoCE unless it gives a `bdp_cap`.
    pub bdp_fc: Option<bool>,
    /// Cap on packets in flight; default the longest path's bandwidth-delay product.
    pub bdp_cap: Option<u32>,
    /// RoCE: whether every data packet is acknowledged; default no (all Reads), unless the congestion control needs it.
    pub acks: Option<bool>,
    /// Go-back-N: which packets out of order earn a NACK (`nacks`, `"first"` or `"every"`); default the first.
    pub nacks: NackPolicy,
    /// Bytes of headers and trailers of a data packet (`header`); default 62 B, IRN 78 B, iWARP 90 B.
    pub header: Option<Bytes>,
    /// Bytes of an ACK frame; default 66 B, iWARP 70 B.
    pub ack_size: Option<Bytes>,
    /// Bytes of a NACK frame; default 66 B, IRN 70 B, iWARP 82 B.
    pub nack_size: Option<Bytes>,
    /// Bytes of a congestion notification packet; default 78 B.
    pub cnp_size: Option<Bytes>,
    /// Whether ACKs, NACKs and CNPs travel in a higher priority than data; default no.
    pub control_priority: bool,
    /// Packets that a NIC sends of one flow before it turns to the next ready one (`nic_burst`); default 1.
    pub nic_burst: Option<u32>,
    /// Rate of a lone flow if lower than the link's (`max_rate`); default the host link's rate.
    pub max_rate: Option<BitRate>,
    /// What only message transports have.
    pub message: MessageSpec,
    /// The program of `transport = "p4:FILE"`.
    pub program: Option<P4Program>,
}

/// What is looked at while a run goes on: the `[watch]` table.
#[derive(Clone, PartialEq, Debug)]
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WatchedQueues {
    /// `"all"`: every output of every switch.
    All,
    /// Those with these names: a switch and the node that it sends to, with a colon between them.
    Named(Vec<String>),
}

/// When to end and when to give up: the `[limits]` table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Simulated time at which the run ends well, whatever is unfinished (`duration`); default: when all flows have finished.
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
