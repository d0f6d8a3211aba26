//! Shortest paths in a topology: distances between switches, and the longest of the shortest paths between hosts.

use crate::config::LinkSpec;
use crate::ids::{HostId, PortId};
use crate::topology::{Link, NodeId, Topology, Tree};
use rnic_transport::{BitRate, Time};
use std::collections::BTreeSet;

/// Facts about a path between two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathFacts {
    /// Number of links.
    pub hops: u32,
    /// Sum of the propagation delays of the path's links, one way.
    pub delay: Time,
    /// Rate of the path's slowest link.
    pub rate: BitRate,
}

impl PathFacts {
    /// A path without links.
    const NONE: PathFacts = PathFacts { hops: 0, delay: Time::ZERO, rate: BitRate::from_bps(u64::MAX) };

    /// This path, extended by one more link.
    fn and(self, link: LinkSpec) -> PathFacts {
        PathFacts { hops: self.hops + 1, delay: self.delay + link.delay, rate: self.rate.min(link.rate) }
    }

    /// The length by which paths are compared: delay first, then number of links.
    fn length(&self) -> (Time, u32) {
        (self.delay, self.hops)
    }
}

/// Distance from every switch to one target switch, on paths that never lead through a host: the number of links, of
/// which those between groups of a dragonfly are longer ([`Topology::length`]).
pub(crate) struct Distances {
    /// Per node: distance to the target; `u32::MAX` for hosts, and for switches without a path.
    links: Vec<u32>,
    /// The switches with a path to the target, nearest first.
    order: Vec<NodeId>,
}

/// Ports whose links are down, by port number; an empty list if all links are up.
#[derive(Clone, Copy)]
pub(crate) struct DownPorts<'a>(pub(crate) &'a [bool]);

impl DownPorts<'_> {
    pub(crate) const NONE: DownPorts<'static> = DownPorts(&[]);

    pub(crate) fn is_down(self, port: PortId) -> bool {
        self.0.get(port.index()).is_some_and(|down| *down)
    }
}

impl Distances {
    pub(crate) fn to(topology: &Topology, target: NodeId, down: DownPorts<'_>) -> Distances {
        if topology.group.is_some() {
            return Distances::by_length(topology, target, down);
        }
        let mut links = vec![u32::MAX; topology.nodes() as usize];
        let mut order = vec![target];
        links[target as usize] = 0;
        let mut next = 0;
        while let Some(node) = order.get(next).copied() {
            next += 1;
            let up = topology.ports_of(node).filter(|port| !down.is_down(*port));
            for peer in up.map(|port| topology.peer_node(port)) {
                if !topology.is_host(peer) && links[peer as usize] == u32::MAX {
                    links[peer as usize] = links[node as usize] + 1;
                    order.push(peer);
                }
            }
        }
        Distances { links, order }
    }

    /// As [`Distances::to`], for links of different lengths (Dijkstra's algorithm).
    fn by_length(topology: &Topology, target: NodeId, down: DownPorts<'_>) -> Distances {
        let mut links = vec![u32::MAX; topology.nodes() as usize];
        let mut order = Vec::new();
        let mut open = BTreeSet::from([(0, target)]);
        links[target as usize] = 0;
        while let Some((distance, node)) = open.pop_first() {
            order.push(node);
            let up = topology.ports_of(node).filter(|port| !down.is_down(*port));
            for peer in up.map(|port| topology.peer_node(port)).filter(|peer| !topology.is_host(*peer)) {
                let (old, new) = (links[peer as usize], distance + topology.length(node, peer));
                if new < old {
                    open.remove(&(old, peer));
                    open.insert((new, peer));
                    links[peer as usize] = new;
                }
            }
        }
        Distances { links, order }
    }

    /// Distance from a switch to the target.
    pub(crate) fn of(&self, switch: NodeId) -> u32 {
        self.links[switch as usize]
    }

    /// Whether a shortest path from `node` to the target begins with this port.
    fn is_closer(&self, topology: &Topology, node: NodeId, port: PortId) -> bool {
        let peer = topology.peer_node(port);
        match topology.group {
            Some(_) if topology.is_host(peer) => false,
            Some(_) => self.of(peer).checked_add(topology.length(node, peer)) == Some(self.of(node)),
            None => self.of(peer) < self.of(node),
        }
    }
}

/// The ports of a switch (numbered within it) that lead to switches closer to the target of `distances`, without the
/// ports in `down`.
pub(crate) fn next_hops(topology: &Topology, node: NodeId, distances: &Distances, down: DownPorts<'_>) -> Vec<u16> {
    let up = topology.ports_of(node).filter(|port| !down.is_down(*port));
    let closer = up.filter(|port| distances.is_closer(topology, node, *port));
    closer.map(|port| topology.port_in_node(port) as u16).collect()
}

/// The switches to which hosts are attached, in order of node index.
pub(crate) fn switches_with_hosts(topology: &Topology) -> Vec<NodeId> {
    let mut switches: Vec<NodeId> = topology.host_ids().map(|host| switch_of(topology, host)).collect();
    switches.sort_unstable();
    switches.dedup();
    switches
}

/// The first host attached to `switch`.
pub(crate) fn first_host_of(topology: &Topology, switch: NodeId) -> HostId {
    topology.host_ids().find(|host| switch_of(topology, *host) == switch).unwrap_or_default()
}

pub(crate) fn switch_of(topology: &Topology, host: HostId) -> NodeId {
    topology.peer_node(topology.host_port(host))
}

/// Facts about the longest of all shortest paths between two hosts: the path with the most delay and, among paths of
/// equal delay, the most links.
///
/// ```
/// use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
/// use rnic_fabric::{Topology, longest_path};
/// use rnic_transport::{BitRate, Bytes, Time};
///
/// let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 };
/// let switch = SwitchSpec::input_queued(Bytes(240_000));
/// let topology = Topology::build(&FabricSpec::new(TopologySpec::FatTree { k: 6 }, link, switch))?;
/// let path = longest_path(&topology);
/// assert_eq!((path.hops, path.delay), (6, Time::from_us(12)));
/// # Ok::<(), rnic_fabric::TopologyError>(())
/// ```
pub fn longest_path(topology: &Topology) -> PathFacts {
    let switches = match &topology.tree {
        Some(tree) => distinct_leaves(topology, tree),
        None => switches_with_hosts(topology),
    };
    let mut longest = PathFacts::NONE;
    for switch in switches {
        let to_switch = farthest_to(topology, switch);
        // Each path ends with the link from the switch to one of its hosts.
        for host_port in topology.ports_of(switch).filter(|port| topology.is_host(topology.peer_node(*port))) {
            let own = HostId(topology.peer_node(host_port));
            let Some((_, path)) = to_switch.iter().flatten().find(|(host, _)| *host != own) else {
                continue;
            };
            let path = path.and(topology.port(host_port).link);
            if path.length() > longest.length() {
                longest = path;
            }
        }
    }
    longest
}

/// What a frame and its acknowledgement take over the paths between two hosts.
#[derive(Clone, Copy)]
struct RoundTrip {
    /// Longest time of the frame.
    there: Time,
    /// Longest time of the acknowledgement.
    back: Time,
    /// Rate of the slowest link of the fastest path.
    rate: BitRate,
}

/// Lengths of a data frame and of its acknowledgement in bytes, frame gaps included, and time that passes in addition
/// to their way over the links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundTripFrames {
    /// Length of the data frame.
    pub data: u32,
    /// Length of the acknowledgement.
    pub ack: u32,
    /// Maximum additional delay of each frame on each link.
    pub jitter: Time,
    /// Time that both frames together spend in the hosts.
    pub processing: Time,
}

impl RoundTripFrames {
    fn and(&self, path: RoundTrip, link: LinkSpec) -> RoundTrip {
        let time = |bytes: u32| link.delay + self.jitter + link.rate.time_for(bytes.into());
        let (there, back) = (path.there + time(self.data), path.back + time(self.ack));
        RoundTrip { there, back, rate: path.rate.min(link.rate) }
    }
}

/// Number of data frames that a flow must have in flight to send without a pause between any two hosts of an empty
/// fabric: the time from the start of a frame until its acknowledgement has arrived, divided by the time that the frame
/// takes on the slowest link of the path, rounded up. Switches store and forward both frames.
///
/// ```
/// use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
/// use rnic_fabric::{RoundTripFrames, Topology, frames_to_fill};
/// use rnic_transport::{BitRate, Bytes, Time};
///
/// let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 };
/// let switch = SwitchSpec::input_queued(Bytes(240_000));
/// let topology = Topology::build(&FabricSpec::new(TopologySpec::FatTree { k: 6 }, link, switch))?;
/// // Six links there and back: 24 us, and 6 x (224.4 + 17.2) ns. The sum is 113.4 times 224.4 ns.
/// let frames = RoundTripFrames { data: 1_122, ack: 86, jitter: Time::ZERO, processing: Time::ZERO };
/// assert_eq!(frames_to_fill(&topology, &frames), 114);
/// # Ok::<(), rnic_fabric::TopologyError>(())
/// ```
pub fn frames_to_fill(topology: &Topology, frames: &RoundTripFrames) -> u64 {
    let switches = match &topology.tree {
        Some(tree) => distinct_leaves(topology, tree),
        None => switches_with_hosts(topology),
    };
    let mut most = 1;
    for switch in switches {
        let to_switch = round_trips_to(topology, switch, frames);
        for (link, host) in distinct_links(topology, switch) {
            for src in topology.host_ids().filter(|src| Some(*src) != host) {
                let Some(path) = to_switch[switch_of(topology, src) as usize] else { continue };
                let path = frames.and(frames.and(path, topology.port(topology.host_port(src)).link), link);
                let round_trip = path.there + path.back + frames.processing;
                let frame = path.rate.time_for(frames.data.into()).as_ps().max(1);
                most = most.max(round_trip.as_ps().div_ceil(frame));
            }
        }
    }
    most
}

/// The different links from a switch to its hosts, each with its host if only one host has such a link.
fn distinct_links(topology: &Topology, switch: NodeId) -> Vec<(LinkSpec, Option<HostId>)> {
    let mut links: Vec<(LinkSpec, Option<HostId>)> = Vec::new();
    for port in topology.ports_of(switch) {
        let (host, link) = (topology.peer_node(port), topology.port(port).link);
        if !topology.is_host(host) {
            continue;
        }
        match links.iter_mut().find(|(known, _)| (known.rate, known.delay) == (link.rate, link.delay)) {
            Some((_, only)) => *only = None,
            None => links.push((link, Some(HostId(host)))),
        }
    }
    links
}

/// Per node: what a frame and its acknowledgement take over the shortest paths between the node and `switch`; `None`
/// for hosts, and for switches without a path.
fn round_trips_to(topology: &Topology, switch: NodeId, frames: &RoundTripFrames) -> Vec<Option<RoundTrip>> {
    let distances = Distances::to(topology, switch, DownPorts::NONE);
    let mut paths: Vec<Option<RoundTrip>> = vec![None; topology.nodes() as usize];
    let none = RoundTrip { there: Time::ZERO, back: Time::ZERO, rate: BitRate::from_bps(u64::MAX) };
    paths[switch as usize] = Some(none);
    for node in distances.order[1..].iter().copied() {
        let closer = topology.ports_of(node).filter(|port| distances.is_closer(topology, node, *port));
        let over = closer
            .filter_map(|port| Some(frames.and(paths[topology.peer_node(port) as usize]?, topology.port(port).link)));
        paths[node as usize] = over.reduce(|a, b| RoundTrip {
            there: a.there.max(b.there),
            back: a.back.max(b.back),
            rate: a.rate.max(b.rate),
        });
    }
    paths
}

/// The leaves of a tree, except leaves that are equivalent to an earlier leaf: the paths to equivalent leaves have the
/// same lengths, so one of the leaves is enough to find the longest path. Two leaves of a pod, or two pods, are
/// equivalent if all of their links have the rate and delay that most links at the same level have.
fn distinct_leaves(topology: &Topology, tree: &Tree) -> Vec<NodeId> {
    let leaves = tree.pods * tree.leaves;
    let mut plain_leaf = vec![true; leaves as usize];
    let mut plain_pod = vec![true; tree.pods as usize];
    let (of_hosts, rest) = topology.links.split_at((leaves * tree.hosts) as usize);
    let (of_leaves, of_spines) = rest.split_at((leaves * tree.spines) as usize);
    let leaf_below = |link: &Link| link.b - topology.hosts;
    let leaf_above = |link: &Link| link.a - topology.hosts;
    for leaf in unusual(of_hosts).map(leaf_below).chain(unusual(of_leaves).map(leaf_above)) {
        plain_leaf[leaf as usize] = false;
        plain_pod[(leaf / tree.leaves) as usize] = false;
    }
    for link in unusual(of_spines) {
        plain_pod[((link.a - topology.hosts - leaves) / tree.spines) as usize] = false;
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

/// The links whose rate or delay differs from the rate and delay of the majority, that is of more than half of the
/// links. If no majority exists, the links are compared with an arbitrary link.
fn unusual(links: &[Link]) -> impl Iterator<Item = &Link> {
    let kind = |link: &Link| (link.spec.rate, link.spec.delay);
    // Majority vote (Boyer and Moore): different links cancel out in pairs.
    let (mut usual, mut votes) = (None, 0u32);
    for link in links {
        match usual == Some(kind(link)) {
            true => votes += 1,
            false if votes == 0 => (usual, votes) = (Some(kind(link)), 1),
            false => votes -= 1,
        }
    }
    links.iter().filter(move |link| usual != Some(kind(link)))
}

/// The two hosts that are farthest from `switch`, with their paths to it, the farther host first. The second host is
/// needed for paths that end at the first host itself, because a host has no path to itself.
fn farthest_to(topology: &Topology, switch: NodeId) -> [Option<(HostId, PathFacts)>; 2] {
    let facts = facts_to(topology, switch);
    let mut farthest: [Option<(HostId, PathFacts)>; 2] = [None; 2];
    let longer = |path: &PathFacts, than: &Option<(HostId, PathFacts)>| {
        than.is_none_or(|(_, than)| path.length() > than.length())
    };
    for host in topology.host_ids() {
        let Some(facts) = facts[switch_of(topology, host) as usize] else {
            continue;
        };
        let path = facts.and(topology.port(topology.host_port(host)).link);
        if longer(&path, &farthest[0]) {
            farthest = [Some((host, path)), farthest[0]];
        } else if longer(&path, &farthest[1]) {
            farthest[1] = Some((host, path));
        }
    }
    farthest
}

/// Per node: facts about the path with the most delay among the node's shortest paths to `switch`; `None` for hosts,
/// and for switches without a path.
fn facts_to(topology: &Topology, switch: NodeId) -> Vec<Option<PathFacts>> {
    let distances = Distances::to(topology, switch, DownPorts::NONE);
    let mut facts: Vec<Option<PathFacts>> = vec![None; topology.nodes() as usize];
    facts[switch as usize] = Some(PathFacts::NONE);
    for node in distances.order[1..].iter().copied() {
        facts[node as usize] = topology
            .ports_of(node)
            .filter(|port| distances.is_closer(topology, node, *port))
            .filter_map(|port| Some(facts[topology.peer_node(port) as usize]?.and(topology.port(port).link)))
            .max_by_key(|facts| facts.delay);
    }
    facts
}
