//! What a fabric is made of, before it is built: plain data.

use rnic_transport::congestion::Marking;
use rnic_transport::{BitRate, Bytes, Time};

/// One full-duplex cable; both directions have the same properties.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkSpec {
    /// Rate of each direction.
    pub rate: BitRate,
    /// Propagation delay of each direction.
    pub delay: Time,
    /// Probability that a frame is lost on the cable, each direction drawing from its own random stream.
    pub loss: f64,
}

/// How nodes are wired.
///
/// Node names: hosts `h0`, `h1`, ...; fat-tree switches `edge0..`, `agg0..`, `core0..`; leaf-spine `leaf0..`, `spine0..`;
/// leaf-spine-core `leaf0..`, `spine0..`, `core0..`; single switch `s0`; dumbbell `left` and `right`; a graph names its own.
#[derive(Clone, PartialEq, Debug)]
pub enum TopologySpec {
    /// Three-tier k-ary fat-tree: k pods, k^3/4 hosts, 5 k^2/4 switches of k ports.
    FatTree {
        /// Ports per switch; even, at least 2.
        k: u32,
    },
    /// Every leaf connects to every spine.
    LeafSpine {
        /// Number of leaf (top-of-rack) switches.
        leaves: u32,
        /// Number of spine switches.
        spines: u32,
        /// Hosts under each leaf.
        hosts_per_leaf: u32,
        /// Rate of each leaf-spine cable, `None`: as the host links. Oversubscription is
        /// `hosts_per_leaf * rate / (spines * uplink_rate)`.
        uplink_rate: Option<BitRate>,
        /// Delay of each leaf-spine cable, `None`: as the host links.
        uplink_delay: Option<Time>,
    },
    /// Pods of leaves and spines, with core switches above: a three-level Clos network.
    ///
    /// In a pod every leaf connects to every spine. The cores are in as many planes as a pod has spines: spine `s` of every pod connects
    /// to every core of plane `s`. Switches are numbered pod by pod, cores plane by plane. A fat-tree of k-port switches has this shape,
    /// with k pods and k/2 of everything else.
    LeafSpineCore {
        /// Number of pods.
        pods: u32,
        /// Leaf (top-of-rack) switches of each pod.
        leaves_per_pod: u32,
        /// Spine switches of each pod; also the number of planes.
        spines_per_pod: u32,
        /// Core switches of each plane.
        cores_per_plane: u32,
        /// Hosts under each leaf.
        hosts_per_leaf: u32,
        /// Rate of each leaf-spine cable, `None`: as the host links. Oversubscription of a leaf is
        /// `hosts_per_leaf * rate / (spines_per_pod * uplink_rate)`.
        uplink_rate: Option<BitRate>,
        /// Delay of each leaf-spine cable, `None`: as the host links.
        uplink_delay: Option<Time>,
        /// Rate of each spine-core cable, `None`: as the leaf-spine cables. Oversubscription of a spine is
        /// `leaves_per_pod * uplink_rate / (cores_per_plane * core_rate)`.
        core_rate: Option<BitRate>,
        /// Delay of each spine-core cable, `None`: as the leaf-spine cables.
        core_delay: Option<Time>,
    },
    /// All hosts on one switch.
    SingleSwitch {
        /// Number of hosts.
        hosts: u32,
    },
    /// Two switches joined by one cable.
    Dumbbell {
        /// Hosts on the left switch.
        left: u32,
        /// Hosts on the right switch.
        right: u32,
        /// Rate of the cable in the middle, `None`: as the host links.
        bottleneck_rate: Option<BitRate>,
        /// Delay of the cable in the middle, `None`: as the host links.
        bottleneck_delay: Option<Time>,
    },
    /// Any graph; its cables are [`FabricSpec::links`].
    Graph {
        /// Names of the hosts; each has exactly one cable, to a switch.
        hosts: Vec<String>,
        /// Names of the switches.
        switches: Vec<String>,
    },
}

/// A cable named by its ends: defines one (in a graph) or changes an existing one (elsewhere).
#[derive(Clone, PartialEq, Debug)]
pub struct NamedLink {
    /// Name of one end.
    pub from: String,
    /// Name of the other end.
    pub to: String,
    /// Its rate, `None`: the fabric's.
    pub rate: Option<BitRate>,
    /// Its delay, `None`: the fabric's.
    pub delay: Option<Time>,
    /// Its loss probability, `None`: the fabric's.
    pub loss: Option<f64>,
}

/// A route that a switch takes instead of the shortest one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedRoute {
    /// Name of the switch.
    pub at: String,
    /// Names of the hosts to which its packets go that way.
    pub to: Vec<String>,
    /// Name of the neighbour that it sends them to, over all cables between the two.
    pub via: String,
}

/// Priority flow control (IEEE 802.1Qbb) thresholds, in bytes of an input port's occupancy in one priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PfcThresholds {
    /// Pause the upstream transmitter when the occupancy is above this.
    pub xoff: Bytes,
    /// Resume it when the occupancy has fallen to this or below.
    pub xon: Bytes,
    /// Buffer reserved above `xoff` for what arrives after a pause was asked for; a frame that exceeds it is dropped.
    pub headroom: Bytes,
}

/// An output-queued switch whose ports share one buffer.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SharedSpec {
    /// PFC's threshold for what an input port is charged in a priority: this multiple of what is free of the shared pool, divided by the
    /// number of priorities (DCQCN paper, section 4.1); `None`: [`PfcThresholds::xoff`].
    pub beta: Option<f64>,
    /// A transmitter resumes when its charge is this far below the threshold.
    pub resume: Bytes,
    /// Without PFC: a queue of an output holds at most this multiple of what is free, `None`: all of it.
    pub egress_alpha: Option<f64>,
    /// Weights of the priorities for deficit round robin, 0 for strictly first; `None`: all strict, the highest first.
    pub weights: Option<[u32; 8]>,
    /// ECN looks at the queue that a packet leaves behind, not at the one that it joins.
    pub mark_departures: bool,
}

/// An output-queued switch with a buffer for each output and priority; it has no PFC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutputSpec {
    /// Buffers by priority, lowest first; `None`: [`SwitchSpec::buffer`] for each.
    pub buffers: Option<[Bytes; 8]>,
    /// What does not fit loses its payload only; `None`: it is dropped.
    pub trim: Option<TrimSpec>,
    /// ECN looks at the queue that a packet leaves behind, not at the one that it joins.
    pub mark_departures: bool,
}

impl OutputSpec {
    /// The buffer of a priority, in a switch whose `buffer` is given.
    pub fn buffer_of(&self, priority: usize, buffer: Bytes) -> Bytes {
        self.buffers.map_or(buffer, |buffers| buffers[priority])
    }
}

/// What is left of a data packet that finds no room, as in NDP (Handley et al., SIGCOMM 2017).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrimSpec {
    /// Length that a packet is cut to, at least [`MIN_FRAME`](crate::MIN_FRAME); a shorter packet loses its payload all the same, and keeps
    /// its length.
    pub to: u16,
    /// Where the header goes on.
    pub headers: Headers,
    /// While other packets wait, an output sends at most so many of the highest priority in a row; `None`: strictly first. NDP's switches do
    /// it (SIGCOMM 2017, section 3.1), so that a flood of headers leaves room for data.
    pub in_a_row: Option<u32>,
    /// A header that has no room either goes back to its sender, if its body tells who that is; else it is dropped.
    pub return_to_sender: bool,
}

/// The priority of a trimmed packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Headers {
    /// The highest.
    #[default]
    Highest,
    /// One above that of the packet, the highest at most.
    Above,
}

/// How a switch stores what waits.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum QueueingSpec {
    /// At its inputs, with virtual output queues and round-robin over inputs.
    #[default]
    Input,
    /// At its outputs, in one buffer that all ports share.
    Shared(SharedSpec),
    /// At its outputs, each of which has a buffer of its own for each priority.
    Output(OutputSpec),
}

impl QueueingSpec {
    /// Whether ECN looks at the queue that a packet leaves behind.
    pub fn mark_departures(&self) -> bool {
        match self {
            QueueingSpec::Input => false,
            QueueingSpec::Shared(shared) => shared.mark_departures,
            QueueingSpec::Output(output) => output.mark_departures,
        }
    }
}

/// Which of several shortest paths packets take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Paths {
    /// All packets of a flow the same one, by its hash.
    #[default]
    Ecmp,
    /// Each packet its own: every switch picks among its ports at random.
    Spray,
}

/// A switch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SwitchSpec {
    /// How it queues.
    pub queueing: QueueingSpec,
    /// Input-queued: buffer of each input port and priority in a lossy fabric; a frame that does not fit is dropped. With PFC the limit is
    /// `xoff` plus `headroom`. Shared: the whole buffer, which with PFC includes the headroom of all ports and priorities. Output-queued:
    /// buffer of each output port and priority.
    pub buffer: Bytes,
    /// PFC, or `None` for a lossy fabric. In a shared buffer `xon` has no meaning; with buffers at the outputs PFC has none.
    pub pfc: Option<PfcThresholds>,
    /// ECN marking of data packets by the egress queue that they join, or `None` for no marks. The egress queue of an output and
    /// priority is what this switch holds for it, whatever inputs it came by: neither the packet that arrives nor the one that is being
    /// transmitted is part of it.
    pub marking: Option<Marking>,
    /// Number of priorities in use, 1 to 8; a higher number is served first.
    pub priorities: u8,
}

/// A whole fabric.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricSpec {
    /// The wiring.
    pub topology: TopologySpec,
    /// Every cable, unless [`FabricSpec::links`] says otherwise.
    pub link: LinkSpec,
    /// Cables of a graph, or changes to single cables.
    pub links: Vec<NamedLink>,
    /// Routes that differ from the shortest.
    pub routes: Vec<NamedRoute>,
    /// Every switch.
    pub switch: SwitchSpec,
    /// Which of several shortest paths packets take.
    pub paths: Paths,
    /// Bytes that each frame takes on a cable beyond its own: preamble, start-of-frame delimiter, inter-frame gap (20).
    pub frame_gap: u32,
}
