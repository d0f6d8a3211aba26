//! The division of a fabric's nodes into partitions.
//!
//! The engine simulates the partitions of a fabric at the same time, on several threads, one window of simulated time
//! after the other. So a plan decides how fast a run is, but it does not change any result. A link between two
//! partitions costs one more copy of each packet; so the plan puts a host into the partition of its switch, and a
//! switch into the partition to which most of its links lead.

use crate::ids::{HostId, PortId, SlotId};
use crate::topology::{NodeId, Topology};
use std::ops::Range;

/// The partition of a node or port, and the slot of the node or port in the partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Location {
    /// Number of the partition.
    pub partition: u32,
    /// Slot of the node among the nodes of the partition, or of the port among its ports.
    pub slot: SlotId,
}

/// A division of a fabric into partitions, which threads simulate independently of each other. Nodes and ports keep
/// their order within a partition: hosts and their ports come first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionPlan {
    /// Per partition: its nodes, in order.
    nodes: Vec<Vec<NodeId>>,
    /// Per partition: its hosts, in order.
    hosts: Vec<Vec<HostId>>,
    node_locations: Vec<Location>,
    port_locations: Vec<Location>,
    /// The partitions of this rank: all of them unless several ranks simulate the fabric.
    own: Range<u32>,
}

impl PartitionPlan {
    /// All nodes in one partition.
    pub fn whole(topology: &Topology) -> PartitionPlan {
        PartitionPlan::of_nodes(topology, &vec![0; topology.nodes() as usize])
    }

    /// At most `partitions` partitions with about the same load, measured by the sum of link rates.
    ///
    /// Switches with hosts go to partitions in their order, because neighbours in regular topologies have neighbouring
    /// numbers. Each other switch, the nearest to hosts first, goes to the partition to which most of its links lead,
    /// among the partitions that are not yet full.
    ///
    /// ```
    /// use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
    /// use rnic_fabric::{Fabric, PartitionPlan, Topology};
    /// use rnic_transport::{BitRate, Bytes, Time};
    /// use std::sync::Arc;
    ///
    /// let link = LinkSpec { rate: BitRate::from_gbps(100), delay: Time::from_us(1), loss: 0.0 };
    /// let switch = SwitchSpec::input_queued(Bytes(240_000));
    /// let spec = FabricSpec::new(TopologySpec::FatTree { k: 8 }, link, switch);
    /// let topology = Arc::new(Topology::build(&spec)?);
    /// // Two threads, two partitions for each.
    /// let plan = |topology: &Topology| PartitionPlan::balanced(topology, 4);
    /// let fabric = Fabric::<u32>::partitioned(topology, &spec, 1, 2, plan)?;
    /// assert_eq!(fabric.plan().hosts_of(0).len(), 128 / 4);
    /// # Ok::<(), rnic_fabric::TopologyError>(())
    /// ```
    pub fn balanced(topology: &Topology, partitions: usize) -> PartitionPlan {
        let switches = topology.hosts..topology.nodes();
        let loads: Vec<f64> = (0..topology.nodes()).map(|node| load(topology, node)).collect();
        let with_hosts: Vec<NodeId> =
            switches.clone().filter(|switch| hosts_of(topology, *switch).next().is_some()).collect();
        let partitions = partitions.clamp(1, with_hosts.len().max(1));
        let total: f64 = with_hosts.iter().map(|switch| loads[*switch as usize]).sum();
        let mut partition_of = vec![u32::MAX; topology.nodes() as usize];
        let mut filled = vec![0.0; partitions];
        let mut before = 0.0;
        for switch in &with_hosts {
            let own = loads[*switch as usize];
            let middle = (before + own / 2.0) / total.max(f64::MIN_POSITIVE);
            let partition = ((middle * partitions as f64) as usize).min(partitions - 1);
            before += own;
            filled[partition] += own;
            partition_of[*switch as usize] = partition as u32;
            for host in hosts_of(topology, *switch) {
                partition_of[host as usize] = partition as u32;
            }
        }
        let room = loads[topology.hosts as usize..].iter().sum::<f64>() / partitions as f64;
        for switch in by_height(topology, &with_hosts) {
            let partition = best_partition(topology, switch, &partition_of, &filled, room);
            partition_of[switch as usize] = partition as u32;
            filled[partition] += loads[switch as usize];
        }
        // Nodes that no host reaches never have events.
        partition_of.iter_mut().filter(|partition| **partition == u32::MAX).for_each(|partition| *partition = 0);
        PartitionPlan::of_nodes(topology, &partition_of)
    }

    /// The plan that puts each node into the partition that `partition_of_node` assigns to it. Partition numbers to
    /// which no node is assigned are left out, and higher numbers decrease accordingly.
    ///
    /// # Panics
    /// If `partition_of_node` does not have one entry per node.
    pub fn of_nodes(topology: &Topology, partition_of_node: &[u32]) -> PartitionPlan {
        assert_eq!(partition_of_node.len(), topology.nodes() as usize, "one partition for each node");
        let mut used: Vec<u32> = partition_of_node.to_vec();
        used.sort_unstable();
        used.dedup();
        let mut nodes: Vec<Vec<NodeId>> = vec![Vec::new(); used.len()];
        let mut hosts = vec![Vec::new(); used.len()];
        let mut ports = vec![0u32; used.len()];
        let mut node_locations = Vec::with_capacity(partition_of_node.len());
        let mut port_locations = Vec::with_capacity(topology.ports.len());
        for (node, partition) in (0..).zip(partition_of_node) {
            let partition = used.partition_point(|other| other < partition);
            node_locations.push(Location { partition: partition as u32, slot: SlotId::new(nodes[partition].len()) });
            nodes[partition].push(node);
            if topology.is_host(node) {
                hosts[partition].push(HostId(node));
            }
            for _ in topology.ports_of(node) {
                port_locations.push(Location { partition: partition as u32, slot: SlotId(ports[partition]) });
                ports[partition] += 1;
            }
        }
        let own = 0..nodes.len() as u32;
        PartitionPlan { nodes, hosts, node_locations, port_locations, own }
    }

    /// The same plan on rank `rank` of `ranks`: the rank has consecutive partitions, and the others are empty for it.
    /// The locations of all nodes and ports remain known. If there are fewer partitions than ranks, some ranks have
    /// none.
    pub fn on_rank(mut self, rank: usize, ranks: usize) -> PartitionPlan {
        let first = |rank: usize| (rank * self.partitions()).div_ceil(ranks);
        self.own = first(rank) as u32..first(rank + 1) as u32;
        for partition in 0..self.partitions() {
            if !self.is_here(partition as u32) {
                (self.nodes[partition], self.hosts[partition]) = (Vec::new(), Vec::new());
            }
        }
        self
    }

    /// Number of partitions, at least 1.
    pub fn partitions(&self) -> usize {
        self.nodes.len()
    }
    /// Whether this rank simulates the partition.
    #[inline]
    pub fn is_here(&self, partition: u32) -> bool {
        self.own.contains(&partition)
    }
    /// The rank that simulates a partition, on `ranks` ranks.
    pub(crate) fn rank_of(&self, partition: usize, ranks: usize) -> usize {
        partition * ranks / self.partitions()
    }
    /// Number of ports of a partition of any rank.
    pub(crate) fn port_count(&self, partition: u32) -> usize {
        self.port_locations.iter().filter(|location| location.partition == partition).count()
    }
    /// The partition of a node, and its slot there.
    pub fn node(&self, node: NodeId) -> Location {
        self.node_locations[node as usize]
    }
    /// The partition of a port, and its slot there.
    pub fn port(&self, port: PortId) -> Location {
        self.port_locations[port.index()]
    }
    /// The hosts of a partition, in order of their slots.
    pub fn hosts_of(&self, partition: usize) -> &[HostId] {
        &self.hosts[partition]
    }
    /// The switches of a partition, in order of their slots.
    pub(crate) fn switches_of(&self, partition: usize) -> &[NodeId] {
        &self.nodes[partition][self.hosts[partition].len()..]
    }
    /// The nodes of a partition, in order of their slots.
    pub(crate) fn nodes_of(&self, partition: usize) -> &[NodeId] {
        &self.nodes[partition]
    }
    /// The slots of a switch's ports in the switch's partition.
    pub(crate) fn ports_of(&self, topology: &Topology, switch: NodeId) -> Range<usize> {
        let mut ports = topology.ports_of(switch);
        let count = ports.len();
        let first = ports.next().map_or(0, |port| self.port(port).slot.index());
        first..first + count
    }
}

/// Load of a node: the sum of the rates of its links.
fn load(topology: &Topology, node: NodeId) -> f64 {
    topology.ports_of(node).map(|port| topology.port(port).link.rate.as_bps() as f64).sum()
}

fn hosts_of(topology: &Topology, switch: NodeId) -> impl Iterator<Item = NodeId> {
    topology.ports_of(switch).map(|port| topology.peer_node(port)).filter(|node| topology.is_host(*node))
}

/// The switches without hosts, in order of their distance from switches with hosts.
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

/// The best partition for a switch: of the partitions with a load below `room`, the partition to which the most link
/// bandwidth of the switch leads; of equal partitions, the one with the least load.
fn best_partition(topology: &Topology, switch: NodeId, partition_of: &[u32], filled: &[f64], room: f64) -> usize {
    let mut drawn = vec![0.0; filled.len()];
    for port in topology.ports_of(switch) {
        if let Some(rate) = drawn.get_mut(partition_of[topology.peer_node(port) as usize] as usize) {
            *rate += topology.port(port).link.rate.as_bps() as f64;
        }
    }
    let emptiest = (0..filled.len()).min_by(|a, b| filled[*a].total_cmp(&filled[*b])).unwrap_or(0);
    let with_room = (0..filled.len()).filter(|partition| filled[*partition] < room || *partition == emptiest);
    let order = |a: &usize, b: &usize| drawn[*a].total_cmp(&drawn[*b]).then(filled[*b].total_cmp(&filled[*a]));
    // `max_by` returns the last of equal elements. The reversed order makes this the lowest partition.
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
        let spec = FabricSpec {
            topology,
            link,
            links,
            routes,
            switch,
            paths: Paths::Ecmp,
            flowlet_gap: Paths::FLOWLET_GAP,
            frame_gap: 20,
            clocks: crate::config::ClockSpec::default(),
        };
        Topology::build(&spec).unwrap()
    }

    /// Number of links between partitions.
    fn cut(topology: &Topology, plan: &PartitionPlan) -> usize {
        let crosses = |link: &&crate::topology::Link| plan.node(link.a).partition != plan.node(link.b).partition;
        topology.links.iter().filter(crosses).count()
    }

    #[test]
    fn pods_stay_together() {
        let topology = build(TopologySpec::FatTree { k: 8 });
        let plan = PartitionPlan::balanced(&topology, 4);
        assert_eq!(plan.partitions(), 4);
        for partition in 0..4 {
            assert_eq!(plan.hosts_of(partition).len(), 32);
            // Two pods of four edge and four aggregation switches, and a quarter of the sixteen cores.
            assert_eq!(plan.switches_of(partition).len(), 16 + 4);
        }
        // Three quarters of the links between pods and cores.
        assert_eq!(cut(&topology, &plan), 128 * 3 / 4);
    }

    #[test]
    fn there_are_no_more_parts_than_switches_with_hosts() {
        for (topology, partitions) in [
            (TopologySpec::SingleSwitch { hosts: 5 }, 1),
            (TopologySpec::Dumbbell { left: 3, right: 2, bottleneck_rate: None, bottleneck_delay: None }, 2),
        ] {
            assert_eq!(PartitionPlan::balanced(&build(topology), 8).partitions(), partitions);
        }
    }

    #[test]
    fn places_are_numbered_within_parts() {
        // Nodes 0 to 3 are hosts, and node 4 is a switch.
        let topology = build(TopologySpec::SingleSwitch { hosts: 4 });
        let plan = PartitionPlan::of_nodes(&topology, &[7, 3, 7, 3, 7]);
        assert_eq!(
            (plan.partitions(), plan.hosts_of(0), plan.hosts_of(1)),
            (2, &[HostId(1), HostId(3)][..], &[HostId(0), HostId(2)][..])
        );
        assert_eq!(plan.node(2), Location { partition: 1, slot: SlotId(1) });
        assert_eq!(plan.port(PortId(3)), Location { partition: 0, slot: SlotId(1) });
        assert_eq!((plan.switches_of(1), plan.ports_of(&topology, 4)), (&[4][..], 2..6));
        assert_eq!(PartitionPlan::whole(&topology).partitions(), 1);
    }

    #[test]
    fn each_partition_is_on_one_rank() {
        let topology = build(TopologySpec::FatTree { k: 4 });
        for (partitions, ranks) in [(8, 1), (8, 2), (8, 3), (8, 5), (2, 4), (1, 3)] {
            let plan = PartitionPlan::balanced(&topology, partitions);
            let parts: Vec<PartitionPlan> = (0..ranks).map(|rank| plan.clone().on_rank(rank, ranks)).collect();
            for partition in 0..plan.partitions() {
                let here: Vec<usize> = (0..ranks).filter(|rank| parts[*rank].is_here(partition as u32)).collect();
                assert_eq!(here, [plan.rank_of(partition, ranks)], "{partitions} partitions, {ranks} ranks");
                assert_eq!(parts[here[0]].nodes_of(partition), plan.nodes_of(partition));
            }
            assert_eq!(parts.iter().map(|plan| plan.hosts.iter().flatten().count()).sum::<usize>(), 16);
            assert!(parts.iter().all(|part| (0..36).all(|node| part.node(node) == plan.node(node))));
        }
    }
}
