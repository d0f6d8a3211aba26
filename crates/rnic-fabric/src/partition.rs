//! Which part of a fabric simulates which node.
//!
//! The parts of a fabric go through each window at the same time, so a partition decides how fast a run is, and nothing
//! else. A cable between two parts costs a packet one more copy; so a host is where its switch is, and switches are
//! where most of their cables go.

use crate::topology::{NodeId, Topology};
use std::ops::Range;

/// Where something is: in which part, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The part.
    pub part: u32,
    /// Its number within the part.
    pub index: u32,
}

/// Parts of a fabric. In a part, nodes and ports keep their order: hosts come first, and their ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Per part: its nodes, in order.
    nodes: Vec<Vec<NodeId>>,
    /// Per part: how many of them are hosts.
    hosts: Vec<u32>,
    node_place: Vec<Place>,
    port_place: Vec<Place>,
}

impl Partition {
    /// Everything in one part.
    pub fn whole(topology: &Topology) -> Partition {
        Partition::of_nodes(topology, &vec![0; topology.nodes() as usize])
    }

    /// At most `parts` parts with about as much to do each.
    ///
    /// Switches with hosts are dealt out in their order, by the rate of their cables: neighbours in regular topologies
    /// have neighbouring numbers. Each other switch, the nearest to hosts first, goes where most of its cables go among
    /// the parts that are not yet full.
    pub fn balanced(topology: &Topology, parts: usize) -> Partition {
        let switches = topology.hosts..topology.nodes();
        let loads: Vec<f64> = (0..topology.nodes()).map(|node| load(topology, node)).collect();
        let with_hosts: Vec<NodeId> =
            switches.clone().filter(|switch| hosts_of(topology, *switch).next().is_some()).collect();
        let parts = parts.clamp(1, with_hosts.len().max(1));
        let total: f64 = with_hosts.iter().map(|switch| loads[*switch as usize]).sum();
        let mut part_of = vec![u32::MAX; topology.nodes() as usize];
        let mut filled = vec![0.0; parts];
        let mut before = 0.0;
        for switch in &with_hosts {
            let own = loads[*switch as usize];
            let middle = (before + own / 2.0) / total.max(f64::MIN_POSITIVE);
            let part = ((middle * parts as f64) as usize).min(parts - 1);
            before += own;
            filled[part] += own;
            part_of[*switch as usize] = part as u32;
            for host in hosts_of(topology, *switch) {
                part_of[host as usize] = part as u32;
            }
        }
        let room = loads[topology.hosts as usize..].iter().sum::<f64>() / parts as f64;
        for switch in by_height(topology, &with_hosts) {
            let part = best_part(topology, switch, &part_of, &filled, room);
            part_of[switch as usize] = part as u32;
            filled[part] += loads[switch as usize];
        }
        // What no host reaches has nothing to do.
        part_of.iter_mut().filter(|part| **part == u32::MAX).for_each(|part| *part = 0);
        Partition::of_nodes(topology, &part_of)
    }

    /// The parts that this gives to each node; a part without nodes is left out.
    ///
    /// # Panics
    /// If it does not have one entry per node.
    pub fn of_nodes(topology: &Topology, part_of_node: &[u32]) -> Partition {
        assert_eq!(part_of_node.len(), topology.nodes() as usize, "one part for each node");
        let mut used: Vec<u32> = part_of_node.to_vec();
        used.sort_unstable();
        used.dedup();
        let mut nodes: Vec<Vec<NodeId>> = vec![Vec::new(); used.len()];
        let mut hosts = vec![0; used.len()];
        let mut ports = vec![0u32; used.len()];
        let mut node_place = Vec::with_capacity(part_of_node.len());
        let mut port_place = Vec::with_capacity(topology.ports.len());
        for (node, part) in (0..).zip(part_of_node) {
            let part = used.partition_point(|other| other < part);
            node_place.push(Place { part: part as u32, index: nodes[part].len() as u32 });
            nodes[part].push(node);
            hosts[part] += u32::from(topology.is_host(node));
            for _ in topology.ports_of(node) {
                port_place.push(Place { part: part as u32, index: ports[part] });
                ports[part] += 1;
            }
        }
        Partition { nodes, hosts, node_place, port_place }
    }

    /// How many parts there are, at least 1.
    pub fn parts(&self) -> usize {
        self.nodes.len()
    }
    /// Where a node is.
    pub fn node(&self, node: NodeId) -> Place {
        self.node_place[node as usize]
    }
    /// Where a port is.
    pub fn port(&self, port: usize) -> Place {
        self.port_place[port]
    }
    /// The hosts of a part, in order: a host's number in the part is its position here.
    pub fn hosts_of(&self, part: usize) -> &[NodeId] {
        &self.nodes[part][..self.hosts[part] as usize]
    }
    /// The switches of a part, in order.
    pub(crate) fn switches_of(&self, part: usize) -> &[NodeId] {
        &self.nodes[part][self.hosts[part] as usize..]
    }
    /// The nodes of a part, in order.
    pub(crate) fn nodes_of(&self, part: usize) -> &[NodeId] {
        &self.nodes[part]
    }
    /// The numbers within its part of a switch's ports.
    pub(crate) fn ports_of(&self, topology: &Topology, switch: NodeId) -> Range<usize> {
        let ports = topology.ports_of(switch);
        let first = self.port_place.get(ports.start).map_or(0, |place| place.index as usize);
        first..first + ports.len()
    }
}

/// Rate of all cables of a node: what it may have to do.
fn load(topology: &Topology, node: NodeId) -> f64 {
    topology.ports_of(node).map(|port| topology.ports[port].link.rate.as_bps() as f64).sum()
}

fn hosts_of(topology: &Topology, switch: NodeId) -> impl Iterator<Item = NodeId> {
    topology.ports_of(switch).map(|port| topology.peer_node(port)).filter(|node| topology.is_host(*node))
}

/// The switches that others lead to, in order of their distance from those with hosts.
fn by_height(topology: &Topology, with_hosts: &[NodeId]) -> Vec<NodeId> {
    let mut known = vec![false; topology.nodes() as usize];
    with_hosts.iter().for_each(|switch| known[*switch as usize] = true);
    let mut order = with_hosts.to_vec();
    let mut next = 0;
    while let Some(switch) = order.get(next).copied() {
        next += 1;
        for port in topology.ports_of(switch) {
            let peer = topology.peer_node(port);
            if !topology.is_host(peer) && !std::mem::replace(&mut known[peer as usize], true) {
                order.push(peer);
            }
        }
    }
    order.split_off(with_hosts.len())
}

/// The part to which most of a switch's cables lead, by their rate, of those with room; the emptiest of equals.
fn best_part(topology: &Topology, switch: NodeId, part_of: &[u32], filled: &[f64], room: f64) -> usize {
    let mut drawn = vec![0.0; filled.len()];
    for port in topology.ports_of(switch) {
        if let Some(rate) = drawn.get_mut(part_of[topology.peer_node(port) as usize] as usize) {
            *rate += topology.ports[port].link.rate.as_bps() as f64;
        }
    }
    let emptiest = (0..filled.len()).min_by(|a, b| filled[*a].total_cmp(&filled[*b])).unwrap_or(0);
    let with_room = (0..filled.len()).filter(|part| filled[*part] < room || *part == emptiest);
    let order = |a: &usize, b: &usize| drawn[*a].total_cmp(&drawn[*b]).then(filled[*b].total_cmp(&filled[*a]));
    // The last of equals would win: look from the last to the first.
    with_room.rev().max_by(order).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FabricSpec, LinkSpec, Paths, SwitchSpec, TopologySpec};
    use rnic_transport::{BitRate, Bytes, Time};

    fn build(topology: TopologySpec) -> Topology {
        let link = LinkSpec { rate: BitRate::from_gbps(100), delay: Time::from_us(1), loss: 0.0 };
        let switch = SwitchSpec::input_queued(Bytes(1_000));
        let (links, routes) = (Vec::new(), Vec::new());
        let spec = FabricSpec { topology, link, links, routes, switch, paths: Paths::Ecmp, frame_gap: 20 };
        Topology::build(&spec).unwrap()
    }

    /// Cables between parts.
    fn cut(topology: &Topology, partition: &Partition) -> usize {
        let crosses = |cable: &&crate::topology::Cable| partition.node(cable.a).part != partition.node(cable.b).part;
        topology.cables.iter().filter(crosses).count()
    }

    #[test]
    fn pods_stay_together() {
        let topology = build(TopologySpec::FatTree { k: 8 });
        let partition = Partition::balanced(&topology, 4);
        assert_eq!(partition.parts(), 4);
        for part in 0..4 {
            assert_eq!(partition.hosts_of(part).len(), 32);
            // Two pods of four edge and four aggregation switches, and a quarter of the sixteen cores.
            assert_eq!(partition.switches_of(part).len(), 16 + 4);
        }
        // Three quarters of the cables between pods and cores.
        assert_eq!(cut(&topology, &partition), 128 * 3 / 4);
    }

    #[test]
    fn there_are_no_more_parts_than_switches_with_hosts() {
        for (topology, parts) in [
            (TopologySpec::SingleSwitch { hosts: 5 }, 1),
            (TopologySpec::Dumbbell { left: 3, right: 2, bottleneck_rate: None, bottleneck_delay: None }, 2),
        ] {
            assert_eq!(Partition::balanced(&build(topology), 8).parts(), parts);
        }
    }

    #[test]
    fn places_are_numbered_within_parts() {
        // Hosts 0 to 3, a switch.
        let topology = build(TopologySpec::SingleSwitch { hosts: 4 });
        let partition = Partition::of_nodes(&topology, &[7, 3, 7, 3, 7]);
        assert_eq!((partition.parts(), partition.hosts_of(0), partition.hosts_of(1)), (2, &[1, 3][..], &[0, 2][..]));
        assert_eq!(partition.node(2), Place { part: 1, index: 1 });
        assert_eq!(partition.port(3), Place { part: 0, index: 1 });
        assert_eq!((partition.switches_of(1), partition.ports_of(&topology, 4)), (&[4][..], 2..6));
        assert_eq!(Partition::whole(&topology).parts(), 1);
    }
}
