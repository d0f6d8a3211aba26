//! The specification of a simulated fabric (topology, links, routes, switches and clocks), as plain data.

pub use crate::buffer::{
    ArbiterSpec, BufferSpec, InputSpec, OutputBuffers, OutputSpec, PauseThreshold, PfcThresholds, Quantum, SEGMENT,
    SharedPfc, SharedSpec, TrimSpec, TrimmedPriority,
};
pub use crate::clocks::ClockSpec;
pub use crate::ecn::{EcnSpec, MarkOn};
pub use crate::path::{PATHS, PathEntry, Paths};
pub use crate::scheduler::{ChooseScheduler, SCHEDULERS, SchedulerEntry, SchedulerSpec, Weights};

use rnic_transport::{BitRate, Bytes, Time};

/// One full-duplex link; both directions have the same properties.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct LinkSpec {
    /// Rate of each direction.
    pub rate: BitRate,
    /// Propagation delay of each direction.
    pub delay: Time,
    /// Probability, 0 to 1, that the link loses a frame; each direction draws from its own random stream.
    pub loss: f64,
}

/// The nodes and links of a fabric.
///
/// Node names: hosts `h0`, `h1`, ...; fat-tree switches `edge0..`, `agg0..`, `core0..`; leaf-spine `leaf0..`,
/// `spine0..`; leaf-spine-core `leaf0..`, `spine0..`, `core0..`; single switch `s0`; dragonfly `router0..`; dumbbell
/// `left` and `right`; a graph names its own nodes.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(tag = "topology", rename_all = "kebab-case", deny_unknown_fields))]
pub enum TopologySpec {
    /// Three-tier k-ary fat-tree: k pods, k^3/4 hosts, 5 k^2/4 switches of k ports.
    FatTree {
        /// Number of ports of each switch; an even number, at least 2.
        k: u32,
    },
    /// Every leaf connects to every spine.
    LeafSpine {
        /// Number of leaf (top-of-rack) switches.
        leaves: u32,
        /// Number of spine switches.
        spines: u32,
        /// Number of hosts under each leaf.
        hosts_per_leaf: u32,
        /// Rate of each leaf-spine link; `None`: the rate of the host links. With host links of rate `rate`, the
        /// oversubscription of a leaf is `hosts_per_leaf * rate / (spines * uplink_rate)`.
        uplink_rate: Option<BitRate>,
        /// Delay of each leaf-spine link; `None`: the delay of the host links.
        uplink_delay: Option<Time>,
    },
    /// Pods of leaves and spines, with core switches above: a three-level Clos network.
    ///
    /// In a pod every leaf connects to every spine. The core switches form as many planes as a pod has spines: spine
    /// `s` of every pod connects to every core of plane `s`. Leaves and spines are numbered pod by pod, cores plane by
    /// plane. A fat-tree of k-port switches has this shape with k pods and k/2 leaves per pod, spines per pod, cores
    /// per plane and hosts per leaf.
    LeafSpineCore {
        /// Number of pods.
        pods: u32,
        /// Number of leaf (top-of-rack) switches of each pod.
        leaves_per_pod: u32,
        /// Number of spine switches of each pod; also the number of planes.
        spines_per_pod: u32,
        /// Number of core switches of each plane.
        cores_per_plane: u32,
        /// Number of hosts under each leaf.
        hosts_per_leaf: u32,
        /// Rate of each leaf-spine link; `None`: the rate of the host links. With host links of rate `rate`, the
        /// oversubscription of a leaf is `hosts_per_leaf * rate / (spines_per_pod * uplink_rate)`.
        uplink_rate: Option<BitRate>,
        /// Delay of each leaf-spine link; `None`: the delay of the host links.
        uplink_delay: Option<Time>,
        /// Rate of each spine-core link; `None`: the rate of the leaf-spine links. The oversubscription of a spine is
        /// `leaves_per_pod * uplink_rate / (cores_per_plane * core_rate)`.
        core_rate: Option<BitRate>,
        /// Delay of each spine-core link; `None`: the delay of the leaf-spine links.
        core_delay: Option<Time>,
    },
    /// All hosts on one switch.
    SingleSwitch {
        /// Number of hosts.
        hosts: u32,
    },
    /// Two switches joined by one link.
    Dumbbell {
        /// Number of hosts on the left switch.
        left: u32,
        /// Number of hosts on the right switch.
        right: u32,
        /// Rate of the link between the two switches; `None`: the rate of the host links.
        bottleneck_rate: Option<BitRate>,
        /// Delay of the link between the two switches; `None`: the delay of the host links.
        bottleneck_delay: Option<Time>,
    },
    /// A dragonfly (Kim et al.: Technology-Driven, Highly-Scalable Dragonfly Topology, 2008): groups of routers.
    ///
    /// In a group every router connects to every other. Each router has `global_links` links to other groups: with g
    /// groups, global port p of a group (ports are numbered router by router) leads to the group that is
    /// p mod (g - 1) + 1 groups further on, in a circle of groups. Ports beyond a multiple of g - 1 are not used.
    Dragonfly {
        /// Number of groups: more than `global_links`, at most `routers_per_group` x `global_links` + 1.
        groups: u32,
        /// Number of routers (switches) of each group.
        routers_per_group: u32,
        /// Number of links from each router to other groups.
        global_links: u32,
        /// Number of hosts on each router.
        hosts_per_router: u32,
        /// Rate of each link inside a group; `None`: the rate of the host links.
        local_rate: Option<BitRate>,
        /// Delay of each link inside a group; `None`: the delay of the host links.
        local_delay: Option<Time>,
        /// Rate of each link between groups; `None`: the rate of the links inside a group.
        global_rate: Option<BitRate>,
        /// Delay of each link between groups; `None`: the delay of the links inside a group.
        global_delay: Option<Time>,
    },
    /// Several leaf-spine fabrics side by side, without links between them: planes. Plane p has the hosts from
    /// p x `leaves` x `hosts_per_leaf` on. Hosts of different planes cannot reach each other.
    MultiPlane {
        /// Number of planes, at least 2.
        planes: u32,
        /// Number of leaf switches of each plane.
        leaves: u32,
        /// Number of spine switches of each plane.
        spines: u32,
        /// Number of hosts on each leaf.
        hosts_per_leaf: u32,
        /// Rate of each leaf-spine link; `None`: the rate of the host links.
        uplink_rate: Option<BitRate>,
        /// Delay of each leaf-spine link; `None`: the delay of the host links.
        uplink_delay: Option<Time>,
    },
    /// An arbitrary graph, whose links are listed in [`FabricSpec::links`].
    Graph {
        /// Names of the hosts; each has exactly one link, to a switch.
        hosts: Vec<String>,
        /// Names of the switches.
        switches: Vec<String>,
    },
}

/// A link, identified by the names of the two nodes that it joins. In a graph it is a new link; in other topologies it
/// is a change to an existing link.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct NamedLink {
    /// Name of the node at one end.
    pub from: String,
    /// Name of the node at the other end.
    pub to: String,
    /// Rate of the link. `None`: a new link has the rate of [`FabricSpec::link`], an existing link keeps its rate.
    pub rate: Option<BitRate>,
    /// Delay of the link. `None`: a new link has the delay of [`FabricSpec::link`], an existing link keeps its delay.
    pub delay: Option<Time>,
    /// Loss probability of the link. `None`: a new link has the loss of [`FabricSpec::link`], an existing link keeps
    /// its loss.
    pub loss: Option<f64>,
}

/// A route, configured by hand, that replaces the shortest paths from one switch to some hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct NamedRoute {
    /// Name of the switch.
    pub at: String,
    /// Names of the hosts whose packets take the route.
    pub to: Vec<String>,
    /// Name of the neighbouring node to which the switch sends these packets. The switch uses all of its links to that
    /// neighbour.
    pub via: String,
}

/// The parts of a switch: a buffer, a scheduler, and ECN marking. The path selection is set for the whole fabric, in
/// [`FabricSpec::paths`].
///
/// An example is a switch with a shared buffer of 12 MB and PFC. Its outputs send three times as many bytes of priority
/// 1 as of priority 0, and mark packets on dequeue:
///
/// ```
/// use rnic_fabric::config::{
///     BufferSpec, EcnSpec, MarkOn, PauseThreshold, SchedulerSpec, SharedPfc, SharedSpec, SwitchSpec,
/// };
/// use rnic_transport::{Bytes, congestion::Marking};
///
/// let pfc = SharedPfc {
///     threshold: PauseThreshold::Dynamic { beta: 8.0 },
///     xon_offset: Bytes(3_000),
///     headroom: Bytes(22_400),
///     lossless: u8::MAX,
/// };
/// let buffer = BufferSpec::Shared(SharedSpec { buffer: Bytes(12_000_000), pfc: Some(pfc), egress_alpha: None });
/// let marking = Marking { kmin: Bytes(5_000), kmax: Bytes(200_000), pmax: 0.01 };
/// let switch = SwitchSpec {
///     scheduler: SchedulerSpec::DeficitRoundRobin([1, 3, 0, 0, 0, 0, 0, 0]),
///     ecn: Some(EcnSpec { marking, mark_on: MarkOn::Dequeue }),
///     priorities: 2,
///     ..SwitchSpec::new(buffer)
/// };
/// assert!(switch.buffer.has_pfc());
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SwitchSpec {
    /// The buffer: where packets wait, how many bytes have room, and PFC if the buffer has it.
    pub buffer: BufferSpec,
    /// Which priority an output serves next.
    pub scheduler: SchedulerSpec,
    /// ECN marking of data packets; `None`: no marks.
    pub ecn: Option<EcnSpec>,
    /// Number of priorities in use, 1 to 8.
    pub priorities: u8,
}

impl SwitchSpec {
    /// A switch with this buffer, one priority, and no ECN.
    pub fn new(buffer: BufferSpec) -> SwitchSpec {
        SwitchSpec { buffer, scheduler: SchedulerSpec::STRICT, ecn: None, priorities: 1 }
    }

    /// A lossy input-queued switch with `buffer` bytes per input port, one priority, and no ECN.
    pub fn input_queued(buffer: Bytes) -> SwitchSpec {
        SwitchSpec::new(BufferSpec::Input(InputSpec::lossy(buffer)))
    }
}

/// Specification of a whole fabric: its topology, links, routes and switches.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricSpec {
    /// Nodes of the fabric, and its links unless the topology is a graph.
    pub topology: TopologySpec,
    /// Rate, delay and loss of every link for which neither `topology` nor `links` sets other values.
    pub link: LinkSpec,
    /// Links of a [`TopologySpec::Graph`]; in other topologies, changes to single links.
    pub links: Vec<NamedLink>,
    /// Routes, configured by hand, that replace shortest-path routes.
    pub routes: Vec<NamedRoute>,
    /// Buffer, scheduler, ECN marking and number of priorities, the same for every switch.
    pub switch: SwitchSpec,
    /// The path selection of every switch.
    pub paths: Paths,
    /// Time without a packet of a flow after which [`Paths::Flowlet`] ends a flowlet.
    pub flowlet_gap: Time,
    /// Bytes that each frame takes on a link in addition to its own length: preamble, start-of-frame delimiter and
    /// inter-frame gap (20 bytes in Ethernet).
    pub frame_gap: u32,
    /// Imperfections of the clocks of all nodes.
    pub clocks: ClockSpec,
}

impl FabricSpec {
    /// A fabric with perfect clocks whose links all have the properties of `link`, with ECMP over shortest paths and
    /// Ethernet's frame gap of 20 bytes.
    pub fn new(topology: TopologySpec, link: LinkSpec, switch: SwitchSpec) -> FabricSpec {
        let (links, routes) = (Vec::new(), Vec::new());
        FabricSpec {
            topology,
            link,
            links,
            routes,
            switch,
            paths: Paths::Ecmp,
            flowlet_gap: Paths::FLOWLET_GAP,
            frame_gap: 20,
            clocks: ClockSpec::default(),
        }
    }
}
