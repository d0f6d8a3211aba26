//! Shortest paths: how far switches are apart, and the longest path of all.

use crate::config::LinkSpec;
use crate::topology::{Cable, NodeId, Topology, Tree};
use rnic_transport::{BitRate, Time};

/// Facts about a path between two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathFacts {
    /// Links on it.
    pub hops: u32,
    /// Sum of propagation delays, one way.
    pub delay: Time,
    /// Rate of its slowest link.
    pub rate: BitRate,
}

impl PathFacts {
    /// No link.
    const NONE: PathFacts = PathFacts { hops: 0, delay: Time::ZERO, rate: BitRate::from_bps(u64::MAX) };

    /// With one more link.
    fn and(self, link: LinkSpec) -> PathFacts {
        PathFacts { hops: self.hops + 1, delay: self.delay + link.delay, rate: self.rate.min(link.rate) }
    }

    /// What the longest path has most of.
    fn length(&self) -> (Time, u32) {
        (self.delay, self.hops)
    }
}

/// Links from every switch to one of them, on ways that never lead through a host.
pub(crate) struct Distances {
    /// Per node; `u32::MAX` where there is no way, and for hosts.
    links: Vec<u32>,
    /// The switches that have a way, nearest first.
    order: Vec<NodeId>,
}

impl Distances {
    pub(crate) fn to(topology: &Topology, target: NodeId) -> Distances {
        let mut links = vec![u32::MAX; topology.nodes() as usize];
        let mut order = vec![target];
        links[target as usize] = 0;
        let mut next = 0;
        while let Some(node) = order.get(next).copied() {
            next += 1;
            for peer in topology.ports_of(node).map(|port| topology.peer_node(port)) {
                if !topology.is_host(peer) && links[peer as usize] == u32::MAX {
                    links[peer as usize] = links[node as usize] + 1;
                    order.push(peer);
                }
            }
        }
        Distances { links, order }
    }

    /// From this switch.
    pub(crate) fn of(&self, switch: NodeId) -> u32 {
        self.links[switch as usize]
    }

    /// Whether a port of `node` leads closer, to a switch.
    fn is_closer(&self, topology: &Topology, node: NodeId, port: usize) -> bool {
        self.of(topology.peer_node(port)) < self.of(node)
    }
}

/// The ports of a switch (numbered within it) that lead closer, towards switches.
pub(crate) fn next_hops(topology: &Topology, node: NodeId, distances: &Distances) -> Vec<u16> {
    let first = topology.first_port[node as usize] as usize;
    let closer = topology.ports_of(node).filter(|port| distances.is_closer(topology, node, *port));
    closer.map(|port| (port - first) as u16).collect()
}

/// Switches that have hosts, in order.
pub(crate) fn switches_with_hosts(topology: &Topology) -> Vec<NodeId> {
    let mut switches: Vec<NodeId> = (0..topology.hosts).map(|host| switch_of(topology, host)).collect();
    switches.sort_unstable();
    switches.dedup();
    switches
}

/// The first host attached to `switch`.
pub(crate) fn first_host_of(topology: &Topology, switch: NodeId) -> NodeId {
    (0..topology.hosts).find(|host| switch_of(topology, *host) == switch).unwrap_or(0)
}

fn switch_of(topology: &Topology, host: NodeId) -> NodeId {
    topology.peer_node(topology.host_port(host))
}

/// The longest of all shortest paths between hosts: most delay, then most links.
pub fn longest_path(topology: &Topology) -> PathFacts {
    let switches = match &topology.tree {
        Some(tree) => distinct_leaves(topology, tree),
        None => switches_with_hosts(topology),
    };
    let mut longest = PathFacts::NONE;
    for switch in switches {
        let to_switch = farthest_to(topology, switch);
        // The last link, from the group's switch to its host with the most delay.
        for host_port in topology.ports_of(switch).filter(|port| topology.is_host(topology.peer_node(*port))) {
            let own = topology.peer_node(host_port);
            let Some((_, path)) = to_switch.iter().flatten().find(|(host, _)| *host != own) else {
                continue;
            };
            let path = path.and(topology.ports[host_port].link);
            if path.length() > longest.length() {
                longest = path;
            }
        }
    }
    longest
}

/// The leaves of a tree but for those that are like an earlier one, so that paths to them are as long. Two leaves of a
/// pod, or two pods, can change places if all of their cables are like most on their level.
fn distinct_leaves(topology: &Topology, tree: &Tree) -> Vec<NodeId> {
    let leaves = tree.pods * tree.leaves;
    let mut plain_leaf = vec![true; leaves as usize];
    let mut plain_pod = vec![true; tree.pods as usize];
    let (of_hosts, rest) = topology.cables.split_at((leaves * tree.hosts) as usize);
    let (of_leaves, of_spines) = rest.split_at((leaves * tree.spines) as usize);
    let leaf_below = |cable: &Cable| cable.b - topology.hosts;
    let leaf_above = |cable: &Cable| cable.a - topology.hosts;
    for leaf in unusual(of_hosts).map(leaf_below).chain(unusual(of_leaves).map(leaf_above)) {
        plain_leaf[leaf as usize] = false;
        plain_pod[(leaf / tree.leaves) as usize] = false;
    }
    for cable in unusual(of_spines) {
        plain_pod[((cable.a - topology.hosts - leaves) / tree.spines) as usize] = false;
    }
    let mut distinct = Vec::new();
    let mut known_pod = false;
    let is_new = |(_, plain): &(u32, bool)| !plain || !std::mem::replace(&mut known_pod, true);
    for (pod, _) in (0..tree.pods).zip(plain_pod).filter(is_new) {
        let mut known_leaf = false;
        let of_pod = pod * tree.leaves..(pod + 1) * tree.leaves;
        distinct.extend(of_pod.filter(|leaf| !plain_leaf[*leaf as usize] || !std::mem::replace(&mut known_leaf, true)));
    }
    distinct.into_iter().map(|leaf| topology.hosts + leaf).collect()
}

/// The cables that differ in rate or delay from what more than half of them have, if there is that.
fn unusual(cables: &[Cable]) -> impl Iterator<Item = &Cable> {
    let kind = |cable: &Cable| (cable.link.rate, cable.link.delay);
    // Majority vote (Boyer and Moore): what differs is crossed off pairwise.
    let (mut usual, mut votes) = (None, 0u32);
    for cable in cables {
        match usual == Some(kind(cable)) {
            true => votes += 1,
            false if votes == 0 => (usual, votes) = (Some(kind(cable)), 1),
            false => votes -= 1,
        }
    }
    cables.iter().filter(move |cable| usual != Some(kind(cable)))
}

/// The first host from which the way to `switch` is longest, and the first of the others: the longest path from a host
/// is that of the one or, for the one itself, of the other.
fn farthest_to(topology: &Topology, switch: NodeId) -> [Option<(NodeId, PathFacts)>; 2] {
    let facts = facts_to(topology, switch);
    let mut farthest: [Option<(NodeId, PathFacts)>; 2] = [None; 2];
    let longer = |path: &PathFacts, than: &Option<(NodeId, PathFacts)>| {
        than.is_none_or(|(_, than)| path.length() > than.length())
    };
    for host in 0..topology.hosts {
        let Some(facts) = facts[switch_of(topology, host) as usize] else {
            continue;
        };
        let path = facts.and(topology.ports[topology.host_port(host)].link);
        if longer(&path, &farthest[0]) {
            farthest = [Some((host, path)), farthest[0]];
        } else if longer(&path, &farthest[1]) {
            farthest[1] = Some((host, path));
        }
    }
    farthest
}

/// Per node: facts of a switch's shortest path with the most delay to `switch`.
fn facts_to(topology: &Topology, switch: NodeId) -> Vec<Option<PathFacts>> {
    let distances = Distances::to(topology, switch);
    let mut facts: Vec<Option<PathFacts>> = vec![None; topology.nodes() as usize];
    facts[switch as usize] = Some(PathFacts::NONE);
    for node in distances.order[1..].iter().copied() {
        facts[node as usize] = topology
            .ports_of(node)
            .filter(|port| distances.is_closer(topology, node, *port))
            .filter_map(|port| Some(facts[topology.peer_node(port) as usize]?.and(topology.ports[port].link)))
            .max_by_key(|facts| facts.delay);
    }
    facts
}
