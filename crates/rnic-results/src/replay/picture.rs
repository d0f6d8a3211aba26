//! The picture of a fabric: which nodes and links are drawn, and at which positions. Trees are drawn by tiers, other
//! fabrics in which all switches have hosts as a ring. A large fabric is drawn by groups of nodes.

use rnic_fabric::topology::NodeId;
use rnic_fabric::{HostId, PortId, Topology};
use std::collections::BTreeMap;

/// Largest number of hosts that are drawn one by one; in a larger fabric, nodes are drawn in groups.
const MAX_HOSTS: u32 = 2_048;
/// Largest number of groups of switches in a fabric without pods, and of switches outside pods: each of these has a
/// line to each pod.
const MAX_GROUPS: (u32, u32) = (256, 64);
/// Number of hosts that fit into one row; more hosts are drawn as cells in several rows.
const ROW: usize = 160;
/// Number of columns of cells that fit beside each other.
const COLUMNS: usize = 120;
/// Height of the rows of cells, at most, as a fraction of the picture.
const CELLS: f64 = 0.5;
/// In no drawn port: a link between two nodes of one group.
pub(super) const INSIDE: u32 = u32::MAX;

/// What a drawn node stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Host,
    Switch,
    Group,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::Switch => "switch",
            Kind::Group => "group",
        }
    }
}

/// A drawn node.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Number of hosts that the node stands for.
    pub(super) hosts: u32,
    /// Distance from the hosts: 0 for hosts, 1 for switches with hosts, ...
    pub(super) tier: u32,
    /// From the left and from the top of the picture, 0 to 1.
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A drawn port: the ports of the topology that send from one drawn node to another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct DrawnPort {
    pub(super) node: u32,
    pub(super) peer: u32,
    pub(super) gbps: f64,
    pub(super) links: u32,
}

/// The drawn nodes and ports of a fabric.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Picture {
    pub(super) nodes: Vec<Node>,
    pub(super) ports: Vec<DrawnPort>,
    /// Whether hosts are drawn as cells.
    pub(super) cells: bool,
    /// The drawn port of each port of the topology, or [`INSIDE`].
    pub(super) drawn: Vec<u32>,
}

impl Picture {
    pub(super) fn of(topology: &Topology) -> Picture {
        let tiers = tiers(topology);
        let members = members(topology, &tiers);
        let nodes = nodes(topology, &tiers, &members);
        let (ports, drawn) = ports(topology, &members, nodes.len());
        let mut picture = Picture { nodes, ports, cells: false, drawn };
        picture.place();
        picture
    }

    fn place(&mut self) {
        let levels = self.nodes.iter().map(|node| node.tier).max().unwrap_or(0);
        let switches = self.nodes.iter().filter(|node| node.tier > 0).count();
        if levels == 1 && switches > 2 { self.place_in_ring() } else { self.place_by_tiers(levels) }
    }

    /// The drawn nodes of tier 0, by the index of their first neighbour in the tier above.
    fn below(&self) -> BTreeMap<u32, Vec<usize>> {
        let mut below: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for port in &self.ports {
            let (host, above) = (port.node, self.ports[port.peer as usize].node);
            if self.nodes[host as usize].tier == 0 {
                let hosts = below.entry(above).or_default();
                if hosts.last() != Some(&(host as usize)) {
                    hosts.push(host as usize);
                }
            }
        }
        below
    }

    /// Switches on an ellipse, the hosts of each switch outside of it.
    fn place_in_ring(&mut self) {
        let below = self.below();
        let switches: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].tier > 0).collect();
        let step = std::f64::consts::TAU / switches.len() as f64;
        let at = |angle: f64, radius: f64| (0.5 + radius * angle.sin(), 0.5 - radius * angle.cos());
        for (index, node) in switches.into_iter().enumerate() {
            let angle = step * index as f64;
            (self.nodes[node].x, self.nodes[node].y) = at(angle, 0.38);
            let hosts = below.get(&(node as u32)).map_or(&[][..], Vec::as_slice);
            for (place, host) in hosts.iter().enumerate() {
                let aside = (place as f64 + 0.5) / hosts.len() as f64 - 0.5;
                (self.nodes[*host].x, self.nodes[*host].y) = at(angle + aside * step * 0.8, 0.5);
            }
        }
    }

    /// Hosts at the bottom, below their switches; switches above, tier by tier, near the nodes below them.
    fn place_by_tiers(&mut self, levels: u32) {
        let zone = self.place_hosts();
        let base = if zone > 0.0 { 1.0 - zone - 0.16 } else { 0.66 };
        for tier in 1..=levels {
            let mut row: Vec<(f64, usize)> = (0..self.nodes.len())
                .filter(|node| self.nodes[*node].tier == tier)
                .map(|node| (self.centre_below(node), node))
                .collect();
            row.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let count = row.len() as f64;
            for (place, (centre, node)) in row.into_iter().enumerate() {
                // Above cells, a switch stands in the middle of its hosts.
                let keeps = tier == 1 && self.cells;
                self.nodes[node].x = if keeps { centre } else { (place as f64 + 0.5) / count };
                let height = f64::from(levels - tier) / f64::from(levels.max(2) - 1);
                self.nodes[node].y = if levels == 1 { base * 0.3 } else { base * height };
            }
        }
    }

    /// The mean position of the neighbours in lower tiers; the middle without such neighbours.
    fn centre_below(&self, node: usize) -> f64 {
        let tier = self.nodes[node].tier;
        let own = self.ports.iter().filter(|port| port.node as usize == node);
        let below: Vec<f64> = own
            .map(|port| &self.nodes[self.ports[port.peer as usize].node as usize])
            .filter(|other| other.tier < tier)
            .map(|other| other.x)
            .collect();
        if below.is_empty() { 0.5 } else { below.iter().sum::<f64>() / below.len() as f64 }
    }

    /// Places the hosts in one row or, if they are many, as cells in several rows. Returns the total height of the
    /// rows.
    fn place_hosts(&mut self) -> f64 {
        let blocks: Vec<Vec<usize>> = self.below().into_values().collect();
        let count: usize = blocks.iter().map(Vec::len).sum();
        if count <= ROW {
            let places = blocks.into_iter().flatten().enumerate();
            places.for_each(|(place, host)| {
                (self.nodes[host].x, self.nodes[host].y) = ((place as f64 + 0.5) / count as f64, 1.0);
            });
            return 0.0;
        }
        self.cells = true;
        let columns = |rows: usize| blocks.iter().map(|hosts| hosts.len().div_ceil(rows)).collect::<Vec<_>>();
        let width = |rows: usize| columns(rows).iter().map(|count| *count as f64 + 0.7).sum::<f64>();
        let height = |rows: usize| rows as f64 * 1.8 / width(rows);
        let most = blocks.iter().map(Vec::len).max().unwrap_or(0);
        let mut rows = 1;
        while width(rows) > COLUMNS as f64 && height(rows + 1) <= CELLS && rows < most {
            rows += 1;
        }
        let (dx, dy) = (1.0 / width(rows), 1.8 / width(rows));
        let mut left = 0.35;
        for (hosts, columns) in blocks.iter().zip(columns(rows)) {
            for (place, host) in hosts.iter().enumerate() {
                let (row, column) = (place / columns, place % columns);
                self.nodes[*host].x = (left + column as f64 + 0.5) * dx;
                self.nodes[*host].y = 1.0 - (rows - 1 - row) as f64 * dy;
            }
            left += columns as f64 + 0.7;
        }
        rows as f64 * dy
    }
}

/// The distance of each node from the nearest host.
fn tiers(topology: &Topology) -> Vec<u32> {
    let mut tiers = vec![u32::MAX; topology.nodes() as usize];
    let mut reached: Vec<NodeId> = (0..topology.hosts).collect();
    reached.iter().for_each(|host| tiers[*host as usize] = 0);
    let mut tier = 0;
    while !reached.is_empty() {
        tier += 1;
        let mut next = Vec::new();
        for port in reached.iter().flat_map(|node| topology.ports_of(*node)) {
            let peer = topology.peer_node(port);
            if tiers[peer as usize] == u32::MAX {
                tiers[peer as usize] = tier;
                next.push(peer);
            }
        }
        reached = next;
    }
    // A switch without links is at the top.
    tiers.iter_mut().for_each(|found| *found = (*found).min(tier));
    tiers
}

/// The group of nodes to which a node belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// The node alone.
    Node(NodeId),
    /// The nodes of a tier in a pod.
    Pod { tier: u32, pod: u32 },
    /// The hosts of a switch, or of a group of switches.
    Hosts(u32),
    /// Consecutive switches of a tier.
    Switches { tier: u32, number: u32 },
}

/// The index of the drawn node of each node.
fn members(topology: &Topology, tiers: &[u32]) -> Vec<u32> {
    if topology.hosts <= MAX_HOSTS {
        return (0..topology.nodes()).collect();
    }
    let pods = pods(topology, tiers);
    let loose = (topology.hosts..topology.nodes()).filter(|node| pods[*node as usize].is_none()).count() as u32;
    let has_pods = topology.host_ids().any(|host| pods[host.index()].is_some());
    let size = loose.div_ceil(if has_pods { MAX_GROUPS.1 } else { MAX_GROUPS.0 }).max(1);
    let switches = |node: NodeId| {
        let number = (node - topology.hosts) / size;
        if size == 1 { Group::Node(node) } else { Group::Switches { tier: tiers[node as usize], number } }
    };
    let groups: Vec<Group> = (0..topology.nodes())
        .map(|node| match (pods[node as usize], topology.is_host(node)) {
            (Some(pod), _) => Group::Pod { tier: tiers[node as usize], pod },
            (None, true) => {
                let above = topology.peer_node(topology.host_port(HostId(node)));
                Group::Hosts((above - topology.hosts) / size)
            }
            (None, false) => switches(node),
        })
        .collect();
    let mut order: Vec<(u32, Group)> = groups.iter().enumerate().map(|(node, group)| (tiers[node], *group)).collect();
    order.sort_unstable();
    order.dedup();
    let index = |group: &(u32, Group)| order.binary_search(group).unwrap_or_default() as u32;
    groups.into_iter().enumerate().map(|(node, group)| index(&(tiers[node], group))).collect()
}

/// The pod of each node: the pod of all nodes below it, if these nodes are in one pod.
fn pods(topology: &Topology, tiers: &[u32]) -> Vec<Option<u32>> {
    let mut pods: Vec<Option<u32>> = vec![None; topology.nodes() as usize];
    topology.host_ids().for_each(|host| pods[host.index()] = topology.pod_of(host));
    let levels = tiers.iter().max().copied().unwrap_or(0);
    for tier in 1..=levels {
        for node in (topology.hosts..topology.nodes()).filter(|node| tiers[*node as usize] == tier) {
            let peers = topology.ports_of(node).map(|port| topology.peer_node(port) as usize);
            let mut below = peers.filter(|peer| tiers[*peer] < tier).map(|peer| pods[peer]);
            let first = below.next().flatten();
            pods[node as usize] = first.filter(|_| below.all(|pod| pod == first));
        }
    }
    pods
}

fn nodes(topology: &Topology, tiers: &[u32], members: &[u32]) -> Vec<Node> {
    let count = members.iter().max().map_or(0, |last| *last as usize + 1);
    let mut of_group: Vec<Vec<NodeId>> = vec![Vec::new(); count];
    members.iter().zip(0..).for_each(|(group, node)| of_group[*group as usize].push(node));
    let node = |nodes: &Vec<NodeId>| {
        let (first, last) = (nodes[0], nodes[nodes.len() - 1]);
        let name = |node: NodeId| topology.names[node as usize].clone();
        Node {
            name: if first == last { name(first) } else { format!("{}\u{2013}{}", name(first), name(last)) },
            kind: match (first == last, topology.is_host(first)) {
                (false, _) => Kind::Group,
                (true, true) => Kind::Host,
                (true, false) => Kind::Switch,
            },
            hosts: nodes.iter().filter(|node| topology.is_host(**node)).count() as u32,
            tier: tiers[first as usize],
            x: 0.5,
            y: 0.5,
        }
    };
    of_group.iter().map(node).collect()
}

/// The drawn ports, and the drawn port of each port.
fn ports(topology: &Topology, members: &[u32], nodes: usize) -> (Vec<DrawnPort>, Vec<u32>) {
    let is_grouped = nodes < topology.nodes() as usize;
    let gbps = |port: PortId| topology.port(port).link.rate.as_bps() as f64 / 1e9;
    let ends = |port: PortId| {
        let group = |node: NodeId| members[node as usize];
        (group(topology.port(port).node), group(topology.peer_node(port)))
    };
    if !is_grouped {
        let port = |port: PortId| {
            let peer = topology.port(port).peer.0;
            DrawnPort { node: ends(port).0, peer, gbps: gbps(port), links: 1 }
        };
        return (topology.port_ids().map(port).collect(), (0..topology.ports.len() as u32).collect());
    }
    let mut found: BTreeMap<(u32, u32), (f64, u32)> = BTreeMap::new();
    for port in topology.port_ids().filter(|port| ends(*port).0 != ends(*port).1) {
        found.entry(ends(port)).or_insert((gbps(port), 0)).1 += 1;
    }
    let index: BTreeMap<(u32, u32), u32> = found.keys().copied().zip(0..).collect();
    let port = |(&(from, to), &(gbps, links)): (&(u32, u32), &(f64, u32))| DrawnPort {
        node: from,
        peer: index[&(to, from)],
        gbps,
        links,
    };
    let drawn = topology.port_ids().map(|port| index.get(&ends(port)).copied().unwrap_or(INSIDE)).collect();
    (found.iter().map(port).collect(), drawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
    use rnic_transport::{BitRate, Bytes, Time};

    fn picture(topology: TopologySpec) -> Picture {
        let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(1), loss: 0.0 };
        let switch = SwitchSpec::input_queued(Bytes(240_000));
        Picture::of(&Topology::build(&FabricSpec::new(topology, link, switch)).unwrap())
    }

    fn places(picture: &Picture, tier: u32) -> Vec<(f64, f64)> {
        picture.nodes.iter().filter(|node| node.tier == tier).map(|node| (node.x, node.y)).collect()
    }

    #[test]
    fn a_switch_stands_above_its_hosts() {
        let picture = picture(TopologySpec::SingleSwitch { hosts: 4 });
        assert_eq!(places(&picture, 0), [(0.125, 1.0), (0.375, 1.0), (0.625, 1.0), (0.875, 1.0)]);
        assert_eq!(places(&picture, 1), [(0.5, 0.66 * 0.3)]);
        assert!(!picture.cells && picture.drawn.iter().zip(0..).all(|(drawn, port)| *drawn == port));
        assert_eq!(picture.ports[0], DrawnPort { node: 0, peer: 4, gbps: 40.0, links: 1 });
    }

    #[test]
    fn a_fat_tree_has_four_rows() {
        let picture = picture(TopologySpec::FatTree { k: 4 });
        let row = |tier| places(&picture, tier);
        assert_eq!([0, 1, 2, 3].map(|tier| row(tier).len()), [16, 8, 8, 4]);
        assert_eq!([0, 1, 2, 3].map(|tier| row(tier)[0].1), [1.0, 0.66, 0.33, 0.0]);
        assert_eq!(row(1)[0].0, row(2)[0].0);
    }

    #[test]
    fn many_hosts_are_cells_below_their_leaf() {
        let leaves = TopologySpec::LeafSpine {
            leaves: 32,
            spines: 4,
            hosts_per_leaf: 32,
            uplink_rate: None,
            uplink_delay: None,
        };
        let picture = picture(leaves);
        // 11 rows of 3 columns are the fewest rows that need at most 120 columns: 32 * 3.7 = 118.4.
        assert!(picture.cells);
        let (first, last) = (&picture.nodes[0], &picture.nodes[31]);
        assert!((first.x - 0.85 / 118.4).abs() < 1e-9 && (last.x - 1.85 / 118.4).abs() < 1e-9);
        assert!((first.y - (1.0 - 10.0 * 1.8 / 118.4)).abs() < 1e-9 && (last.y - 1.0).abs() < 1e-9);
        assert!(picture.nodes.iter().all(|node| (0.0..=1.0).contains(&node.x) && (0.0..=1.0).contains(&node.y)));
        let mut seen: Vec<(u64, u64)> = picture.nodes.iter().map(|node| (node.x.to_bits(), node.y.to_bits())).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), picture.nodes.len(), "no two nodes share a place");
    }

    #[test]
    fn cells_have_no_more_rows_than_a_switch_has_hosts() {
        // 128 switches with eight hosts each: one column for each switch, 128 * 1.7 wide.
        let picture = picture(TopologySpec::FatTree { k: 16 });
        let rows: Vec<f64> = picture.nodes[..8].iter().map(|node| node.y).collect();
        let expected: Vec<f64> = (0..8).map(|row| 1.0 - f64::from(7 - row) * 1.8 / 217.6).collect();
        assert!(rows.iter().zip(&expected).all(|(row, expected)| (row - expected).abs() < 1e-9), "{rows:?}");
    }

    #[test]
    fn switches_that_all_have_hosts_form_a_ring() {
        let picture = picture(TopologySpec::Dragonfly {
            groups: 3,
            routers_per_group: 2,
            global_links: 1,
            hosts_per_router: 1,
            local_rate: None,
            local_delay: None,
            global_rate: None,
            global_delay: None,
        });
        assert_eq!(picture.nodes.len(), 12);
        let switches = places(&picture, 1);
        for (x, y) in &switches {
            assert!((((x - 0.5).powi(2) + (y - 0.5).powi(2)).sqrt() - 0.38).abs() < 1e-9);
        }
        // A host is behind its switch.
        let (host, switch) = (places(&picture, 0)[0], switches[0]);
        assert!((host.0 - 0.5).abs() < 1e-9 && host.1 < switch.1);
    }

    #[test]
    fn a_large_fabric_is_drawn_by_pods() {
        let picture = picture(TopologySpec::LeafSpineCore {
            pods: 4,
            leaves_per_pod: 8,
            spines_per_pod: 2,
            cores_per_plane: 2,
            hosts_per_leaf: 128,
            uplink_rate: None,
            uplink_delay: None,
            core_rate: None,
            core_delay: None,
        });
        // For each pod its hosts, leaves and spines, and the four cores.
        let names: Vec<&str> = picture.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names[0], "h0\u{2013}h1023");
        assert_eq!(names[4], "leaf0\u{2013}leaf7");
        assert_eq!(names[8], "spine0\u{2013}spine1");
        assert_eq!(names[12..], ["core0", "core1", "core2", "core3"]);
        assert_eq!((picture.nodes[0].hosts, picture.nodes[0].kind), (1024, Kind::Group));
        // Hosts and leaves of a pod are joined by 1,024 links, leaves and spines by 16.
        let links = |from: u32, to: u32| {
            let joins = |port: &&DrawnPort| port.node == from && picture.ports[port.peer as usize].node == to;
            picture.ports.iter().find(joins).map(|port| port.links)
        };
        assert_eq!((links(0, 4), links(8, 4), links(8, 12), links(0, 5)), (Some(1024), Some(16), Some(1), None));
        assert!(picture.drawn.iter().all(|port| *port != INSIDE));
    }

    #[test]
    fn many_cores_are_drawn_by_groups() {
        let picture = picture(TopologySpec::FatTree { k: 32 });
        // 32 pods with hosts, edge and aggregation switches each; 256 cores in groups of four.
        assert_eq!(picture.nodes.len(), 3 * 32 + 64);
        assert_eq!((picture.nodes[96].name.as_str(), picture.nodes[96].kind), ("core0\u{2013}core3", Kind::Group));
        // Both directions of hosts to edge, edge to aggregation, and aggregation to each group of cores.
        assert_eq!(picture.ports.len(), 2 * (32 + 32 + 32 * 64));
    }

    #[test]
    fn a_large_fabric_without_pods_is_drawn_by_switches() {
        let leaves = TopologySpec::LeafSpine {
            leaves: 40,
            spines: 2,
            hosts_per_leaf: 64,
            uplink_rate: None,
            uplink_delay: None,
        };
        let picture = picture(leaves);
        assert_eq!(picture.nodes.len(), 40 + 40 + 2);
        assert_eq!((picture.nodes[0].name.as_str(), picture.nodes[0].hosts), ("h0\u{2013}h63", 64));
    }
}
