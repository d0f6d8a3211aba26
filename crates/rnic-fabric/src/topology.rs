//! Topologies of simulated fabrics: nodes, ports and links, built from a specification.

use crate::config::{FabricSpec, LinkSpec, NamedLink, TopologySpec};
use crate::ids::{HostId, PortId};
use rnic_transport::{BitRate, Time};
use std::collections::BTreeMap;
use std::ops::Range;

/// Index of a node (host or switch) in a topology; hosts have the lowest indices.
pub type NodeId = u32;

/// Maximum number of ports of a switch. The limit bounds the memory for virtual output queues, which grows with the
/// square of the number of ports.
pub const MAX_PORTS: u32 = 4_096;

/// Why a fabric cannot be built.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum TopologyError {
    /// An impossible specification; the text says what would be accepted.
    #[error("{0}")]
    Invalid(String),
    /// An impossible [`NamedRoute`](crate::config::NamedRoute).
    #[error("{reason}")]
    Route {
        /// Index of the route in [`FabricSpec::routes`].
        index: usize,
        /// Why the route is impossible, and what would be accepted.
        reason: String,
    },
    /// Two hosts without a path.
    #[error("no path from host {from} to host {to}; every host must reach every other")]
    Unreachable {
        /// Name of one host.
        from: String,
        /// Name of the other host.
        to: String,
    },
}

fn invalid<T>(message: impl Into<String>) -> Result<T, TopologyError> {
    Err(TopologyError::Invalid(message.into()))
}

/// A link between two nodes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Node at one end.
    pub a: NodeId,
    /// Node at the other end.
    pub b: NodeId,
    /// Rate, delay and loss of the link.
    pub spec: LinkSpec,
}

/// One end of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PortInfo {
    /// The node to which the port belongs.
    pub node: NodeId,
    /// The port at the other end of the link.
    pub peer: PortId,
    /// Rate, delay and loss of the link.
    pub link: LinkSpec,
}

/// The shape of a tree of pods: hosts, leaves (edge switches of a fat-tree), spines (aggregation switches of a
/// fat-tree) and cores. The first ports of a switch lead down, in the order of the nodes below the switch. Its other
/// ports lead up, in the order of the nodes above the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tree {
    pub(crate) pods: u32,
    /// Number of leaves in each pod.
    pub(crate) leaves: u32,
    /// Number of spines in each pod.
    pub(crate) spines: u32,
    /// Number of core switches in each plane; 0 if the tree has only leaves and spines. Several pods without cores are
    /// planes that nothing connects.
    pub(crate) cores: u32,
    /// Number of hosts under each leaf.
    pub(crate) hosts: u32,
}

impl Tree {
    /// Whether the tree has hosts, and a path between any two leaves of a pod, and between pods with cores.
    pub(crate) fn is_connected(&self) -> bool {
        self.leaves > 0 && self.hosts > 0 && self.spines > 0
    }
}

/// Nodes, ports and links. Nodes `0..hosts` are hosts, each with one port; the others are switches.
#[derive(Clone, PartialEq, Debug)]
pub struct Topology {
    /// Number of hosts.
    pub hosts: u32,
    /// Names of all nodes, in order of node index.
    pub names: Vec<String>,
    /// All links, in the order in which the topology was built.
    pub links: Vec<Link>,
    /// All ports, in order of their nodes.
    pub ports: Vec<PortInfo>,
    /// First port of each node, followed by the number of all ports: the ports of node `n` are
    /// `first_port[n]..first_port[n + 1]`.
    pub first_port: Vec<PortId>,
    /// Shape of the topology if it is a tree of pods: a fat-tree, leaf-spine or leaf-spine-core.
    pub(crate) tree: Option<Tree>,
    /// Number of switches of each group of a dragonfly; `None` for other topologies.
    pub(crate) group: Option<u32>,
}

impl Topology {
    /// Builds the topology of `spec`.
    ///
    /// # Errors
    /// An impossible specification; the error names what is wrong and what would be accepted.
    ///
    /// ```
    /// use rnic_fabric::Topology;
    /// use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
    /// use rnic_transport::{BitRate, Bytes, Time};
    ///
    /// let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 };
    /// let switch = SwitchSpec::input_queued(Bytes(240_000));
    /// let topology = Topology::build(&FabricSpec::new(TopologySpec::FatTree { k: 6 }, link, switch))?;
    /// assert_eq!((topology.hosts, topology.nodes()), (54, 54 + 45));
    /// assert_eq!(topology.port_name(topology.port_ids().last().unwrap()), "core8:5->agg17");
    /// # Ok::<(), rnic_fabric::TopologyError>(())
    /// ```
    pub fn build(spec: &FabricSpec) -> Result<Topology, TopologyError> {
        let mut plan = Plan::default();
        let link = spec.link;
        match &spec.topology {
            TopologySpec::FatTree { k } => plan.fat_tree(*k, link)?,
            TopologySpec::LeafSpine { leaves, spines, hosts_per_leaf, uplink_rate, uplink_delay } => {
                let tree = Tree { pods: 1, leaves: *leaves, spines: *spines, cores: 0, hosts: *hosts_per_leaf };
                let uplink = or_else(link, *uplink_rate, *uplink_delay);
                plan.tree(tree, ["leaf", "spine"], [link, uplink, uplink]);
            }
            TopologySpec::MultiPlane { planes, leaves, spines, hosts_per_leaf, uplink_rate, uplink_delay } => {
                if *planes < 2 {
                    return invalid(format!("a fabric of {planes} planes; accepted: at least 2"));
                }
                // A pod without cores above it is a plane.
                let tree = Tree { pods: *planes, leaves: *leaves, spines: *spines, cores: 0, hosts: *hosts_per_leaf };
                let uplink = or_else(link, *uplink_rate, *uplink_delay);
                plan.tree(tree, ["leaf", "spine"], [link, uplink, uplink]);
            }
            TopologySpec::LeafSpineCore {
                pods,
                leaves_per_pod,
                spines_per_pod,
                cores_per_plane,
                hosts_per_leaf,
                uplink_rate,
                uplink_delay,
                core_rate,
                core_delay,
            } => {
                let uplink = or_else(link, *uplink_rate, *uplink_delay);
                let tree = Tree {
                    pods: *pods,
                    leaves: *leaves_per_pod,
                    spines: *spines_per_pod,
                    cores: *cores_per_plane,
                    hosts: *hosts_per_leaf,
                };
                plan.tree(tree, ["leaf", "spine"], [link, uplink, or_else(uplink, *core_rate, *core_delay)]);
                // Pods that nothing connects are planes only if they are meant to be: a path between them is missing.
                plan.tree = plan.tree.filter(|tree| tree.cores > 0 || tree.pods == 1);
            }
            TopologySpec::SingleSwitch { hosts } => plan.single_switch(*hosts, link),
            TopologySpec::Dumbbell { left, right, bottleneck_rate, bottleneck_delay } => {
                plan.dumbbell(*left, *right, link, or_else(link, *bottleneck_rate, *bottleneck_delay));
            }
            TopologySpec::Dragonfly {
                groups,
                routers_per_group,
                global_links,
                hosts_per_router,
                local_rate,
                local_delay,
                global_rate,
                global_delay,
            } => {
                let local = or_else(link, *local_rate, *local_delay);
                let global = or_else(local, *global_rate, *global_delay);
                let shape = [*groups, *routers_per_group, *global_links, *hosts_per_router];
                plan.dragonfly(shape, [link, local, global])?;
            }
            TopologySpec::Graph { hosts, switches } => {
                plan.hosts = hosts.len() as u32;
                plan.names = hosts.iter().chain(switches).cloned().collect();
            }
        }
        let is_graph = matches!(spec.topology, TopologySpec::Graph { .. });
        plan.apply_links(&spec.links, link, is_graph)?;
        plan.finish()
    }

    /// Number of nodes: hosts plus switches.
    pub fn nodes(&self) -> u32 {
        self.names.len() as u32
    }
    /// Whether the node is a host.
    pub fn is_host(&self, node: NodeId) -> bool {
        node < self.hosts
    }
    /// The ports of a node.
    pub fn ports_of(&self, node: NodeId) -> impl ExactSizeIterator<Item = PortId> + Clone + use<> {
        ids(self.first_port[node as usize].index()..self.first_port[node as usize + 1].index())
    }
    /// All ports.
    pub fn port_ids(&self) -> impl ExactSizeIterator<Item = PortId> + Clone + use<> {
        ids(0..self.ports.len())
    }
    /// All hosts.
    pub fn host_ids(&self) -> impl ExactSizeIterator<Item = HostId> + Clone + use<> {
        let hosts = self.hosts as usize;
        (0..hosts).map(|host| HostId(host as u32))
    }
    /// A port's node, peer and link.
    #[inline]
    pub fn port(&self, port: PortId) -> &PortInfo {
        &self.ports[port.index()]
    }
    /// The number of a port within its node.
    pub fn port_in_node(&self, port: PortId) -> u32 {
        port.0 - self.first_port[self.port(port).node as usize].0
    }
    /// The node at the other end of a port's link.
    pub fn peer_node(&self, port: PortId) -> NodeId {
        self.port(self.port(port).peer).node
    }
    /// The port of a host, which has exactly one.
    pub fn host_port(&self, host: HostId) -> PortId {
        self.first_port[host.index()]
    }
    /// Number of planes: parts of a tree without a path between them; 1 for all other topologies.
    pub fn planes(&self) -> u32 {
        self.tree.filter(|tree| tree.cores == 0).map_or(1, |tree| tree.pods)
    }
    /// The number of the pod to which a host belongs; `None` if the topology is not a fat-tree or a leaf-spine-core.
    pub fn pod_of(&self, host: HostId) -> Option<u32> {
        let tree = self.tree.filter(|tree| tree.cores > 0)?;
        Some(host.0 / (tree.leaves * tree.hosts))
    }
    /// Length of the link between two switches, by which shortest paths are found: 1, but 3 between two groups of a
    /// dragonfly, so that a shortest path has at most one such link (minimal routing).
    pub(crate) fn length(&self, a: NodeId, b: NodeId) -> u32 {
        let of = |node: NodeId, routers: u32| (node - self.hosts) / routers;
        match self.group {
            Some(routers) if of(a, routers) != of(b, routers) => 3,
            _ => 1,
        }
    }

    /// The name of a port in files and messages. For example, `edge0:3->agg1` is port 3 of `edge0`, and its link leads
    /// to `agg1`.
    pub fn port_name(&self, port: PortId) -> String {
        let node = &self.names[self.port(port).node as usize];
        format!("{node}:{}->{}", self.port_in_node(port), self.names[self.peer_node(port) as usize])
    }
}

/// A topology under construction: its nodes and links so far.
#[derive(Default)]
struct Plan {
    hosts: u32,
    names: Vec<String>,
    links: Vec<Link>,
    tree: Option<Tree>,
    group: Option<u32>,
}

impl Plan {
    /// Adds `count` nodes named `prefix0`, `prefix1`, ...; returns the index of the first node.
    fn nodes(&mut self, prefix: &str, count: u32) -> NodeId {
        let first = self.names.len() as u32;
        self.names.extend((0..count).map(|i| format!("{prefix}{i}")));
        first
    }
    fn link(&mut self, a: NodeId, b: NodeId, spec: LinkSpec) {
        self.links.push(Link { a, b, spec });
    }

    /// Adds a k-ary fat-tree. Each pod has k/2 edge and k/2 aggregation switches; core switch c connects to aggregation
    /// switch c / (k/2) of each pod.
    fn fat_tree(&mut self, k: u32, link: LinkSpec) -> Result<(), TopologyError> {
        if k < 2 || !k.is_multiple_of(2) {
            return invalid(format!("a fat-tree needs an even k of at least 2, not {k}"));
        }
        let half = k / 2;
        let tree = Tree { pods: k, leaves: half, spines: half, cores: half, hosts: half };
        self.tree(tree, ["edge", "agg"], [link; 3]);
        Ok(())
    }

    /// Adds a tree of pods. `names` are the name prefixes of leaves and spines. `links` are the properties of host
    /// links, leaf-spine links and spine-core links.
    fn tree(&mut self, shape: Tree, names: [&str; 2], links: [LinkSpec; 3]) {
        self.tree = Some(shape);
        let (all_leaves, all_spines) = (shape.pods * shape.leaves, shape.pods * shape.spines);
        self.hosts = all_leaves * shape.hosts;
        let hosts = self.nodes("h", self.hosts);
        let leaves = self.nodes(names[0], all_leaves);
        let spines = self.nodes(names[1], all_spines);
        let cores = self.nodes("core", shape.spines * shape.cores);
        for leaf in 0..all_leaves {
            for host in 0..shape.hosts {
                self.link(hosts + leaf * shape.hosts + host, leaves + leaf, links[0]);
            }
        }
        for leaf in 0..all_leaves {
            let pod = leaf / shape.leaves;
            for spine in 0..shape.spines {
                self.link(leaves + leaf, spines + pod * shape.spines + spine, links[1]);
            }
        }
        for spine in 0..all_spines {
            let plane = spine % shape.spines;
            for core in 0..shape.cores {
                self.link(spines + spine, cores + plane * shape.cores + core, links[2]);
            }
        }
    }

    /// Adds a dragonfly. `shape` has the numbers of groups, of routers in each, and of global links and hosts of each
    /// router; `links` the properties of host links, links inside groups and links between groups.
    fn dragonfly(&mut self, shape: [u32; 4], links: [LinkSpec; 3]) -> Result<(), TopologyError> {
        let [groups, routers, global, hosts] = shape;
        let ports = routers.saturating_mul(global);
        if routers == 0 || global == 0 || groups <= global || groups > ports.saturating_add(1) {
            return invalid(format!(
                "a dragonfly of {groups} groups with {routers} routers of {global} global links is impossible; accepted: {} \
                 to {} groups",
                global.saturating_add(1),
                ports.saturating_add(1)
            ));
        }
        let all = groups.saturating_mul(routers);
        self.group = Some(routers);
        self.hosts = all.saturating_mul(hosts);
        let first_host = self.nodes("h", self.hosts);
        let first = self.nodes("router", all);
        for host in 0..self.hosts {
            self.link(first_host + host, first + host / hosts, links[0]);
        }
        for group in 0..groups {
            for a in 0..routers {
                (a + 1..routers).for_each(|b| {
                    self.link(first + group * routers + a, first + group * routers + b, links[1]);
                });
            }
        }
        // Number of links between two groups. Two of them never join the same routers, because their ports differ by at
        // least as many ports as a router has.
        let copies = ports / (groups - 1);
        for group in 0..groups {
            for other in group + 1..groups {
                let (there, back) = (other - group - 1, groups - 1 - (other - group));
                for copy in 0..copies {
                    let router =
                        |group: u32, distance: u32| first + group * routers + (distance + copy * (groups - 1)) / global;
                    self.link(router(group, there), router(other, back), links[2]);
                }
            }
        }
        Ok(())
    }

    fn single_switch(&mut self, hosts: u32, link: LinkSpec) {
        self.hosts = hosts;
        let first = self.nodes("h", hosts);
        let switch = self.nodes("s", 1);
        for host in 0..hosts {
            self.link(first + host, switch, link);
        }
    }

    fn dumbbell(&mut self, left: u32, right: u32, link: LinkSpec, middle: LinkSpec) {
        self.hosts = left + right;
        let hosts = self.nodes("h", self.hosts);
        let left_switch = self.names.len() as u32;
        self.names.extend(["left".to_string(), "right".to_string()]);
        for host in 0..left {
            self.link(hosts + host, left_switch, link);
        }
        for host in left..left + right {
            self.link(hosts + host, left_switch + 1, link);
        }
        self.link(left_switch, left_switch + 1, middle);
    }

    /// Adds the links of a graph, or changes links of a regular topology (any topology that is not a graph).
    fn apply_links(&mut self, links: &[NamedLink], base: LinkSpec, is_graph: bool) -> Result<(), TopologyError> {
        // The names of a regular topology are all different, so only links need the checks below.
        if links.is_empty() && !is_graph {
            return Ok(());
        }
        let by_name: BTreeMap<&str, NodeId> =
            self.names.iter().enumerate().map(|(i, name)| (name.as_str(), i as u32)).collect();
        if by_name.len() != self.names.len() {
            return invalid("two nodes have the same name");
        }
        let find = |name: &str| match by_name.get(name) {
            Some(node) => Ok(*node),
            None => invalid(format!("no node is called `{name}`")),
        };
        let ends = |link: &Link| (link.a.min(link.b), link.a.max(link.b));
        let by_ends: BTreeMap<(NodeId, NodeId), usize> = match is_graph {
            true => BTreeMap::new(),
            false => self.links.iter().map(ends).zip(0..).collect(),
        };
        for named in links {
            let (a, b) = (find(&named.from)?, find(&named.to)?);
            if a == b {
                return invalid(format!("a link from `{}` to itself", named.from));
            }
            if is_graph {
                self.links.push(Link { a, b, spec: changed(base, named) });
                continue;
            }
            // Two nodes of a regular topology are joined by at most one link.
            let Some(link) = by_ends.get(&(a.min(b), a.max(b))) else {
                return invalid(format!("this topology has no link between `{}` and `{}`", named.from, named.to));
            };
            let link = &mut self.links[*link];
            link.spec = changed(link.spec, named);
        }
        Ok(())
    }

    fn finish(self) -> Result<Topology, TopologyError> {
        if self.hosts < 2 {
            return invalid(format!("a fabric needs at least 2 hosts, not {}", self.hosts));
        }
        let nodes = self.names.len();
        let mut degree = vec![0u32; nodes];
        for link in &self.links {
            degree[link.a as usize] += 1;
            degree[link.b as usize] += 1;
        }
        for (name, links) in self.names.iter().zip(&degree).take(self.hosts as usize) {
            if *links != 1 {
                return invalid(format!("host `{name}` has {links} links; a host has exactly one"));
            }
        }
        if let Some(link) = self.links.iter().find(|link| link.a < self.hosts && link.b < self.hosts) {
            let (a, b) = (&self.names[link.a as usize], &self.names[link.b as usize]);
            return invalid(format!("hosts `{a}` and `{b}` are linked directly; a host's link goes to a switch"));
        }
        if let Some(link) = self.links.iter().find(|link| link.spec.rate == BitRate::default()) {
            let (a, b) = (&self.names[link.a as usize], &self.names[link.b as usize]);
            return invalid(format!("the link between `{a}` and `{b}` has a rate of 0; give it one above 0"));
        }
        if let Some((name, ports)) = self.names.iter().zip(&degree).find(|(_, ports)| **ports > MAX_PORTS) {
            return invalid(format!("switch `{name}` has {ports} ports; at most {MAX_PORTS} are possible"));
        }
        let mut first_port = vec![PortId(0); nodes + 1];
        for node in 0..nodes {
            first_port[node + 1] = PortId(first_port[node].0 + degree[node]);
        }
        let mut next = first_port.clone();
        let blank = LinkSpec { rate: Default::default(), delay: Default::default(), loss: 0.0 };
        let mut ports = vec![PortInfo { node: 0, peer: PortId(0), link: blank }; self.links.len() * 2];
        for link in &self.links {
            let (a, b) = (next[link.a as usize], next[link.b as usize]);
            ports[a.index()] = PortInfo { node: link.a, peer: b, link: link.spec };
            ports[b.index()] = PortInfo { node: link.b, peer: a, link: link.spec };
            next[link.a as usize].0 += 1;
            next[link.b as usize].0 += 1;
        }
        Ok(Topology {
            hosts: self.hosts,
            names: self.names,
            links: self.links,
            ports,
            first_port,
            tree: self.tree,
            group: self.group,
        })
    }
}

fn ids(range: Range<usize>) -> impl ExactSizeIterator<Item = PortId> + Clone {
    range.map(PortId::new)
}

/// `base`, with its rate and delay replaced by `rate` and `delay` where these are given.
fn or_else(base: LinkSpec, rate: Option<BitRate>, delay: Option<Time>) -> LinkSpec {
    LinkSpec { rate: rate.unwrap_or(base.rate), delay: delay.unwrap_or(base.delay), loss: base.loss }
}

fn changed(base: LinkSpec, named: &NamedLink) -> LinkSpec {
    LinkSpec { loss: named.loss.unwrap_or(base.loss), ..or_else(base, named.rate, named.delay) }
}
