//! Shortest-path routing with per-flow ECMP, or with a choice for each packet.
//!
//! Hosts under the same switch share their routes, so a switch keeps one entry per such *group*, and each entry names one of
//! the few distinct sets of equal-cost ports that the switch has. A flow's hash, salted per switch, picks the port. A host to which
//! some switch has a route of its own is a group of its own.

use crate::config::NamedRoute;
use crate::rng::{Purpose, Stream, mix};
use crate::topology::{NodeId, Topology, TopologyError};
use rnic_transport::{BitRate, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Where hosts are attached, and the way to them from each switch.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Per host: the group of hosts that it belongs to (one per switch with hosts, then one per host with routes of its own), and the port
    /// of its switch.
    host_place: Vec<(u32, u32)>,
    switches: Vec<SwitchRoutes>,
    hosts: u32,
}

/// The routes of one switch.
#[derive(Clone, Debug)]
struct SwitchRoutes {
    salt: u32,
    /// The group of its own hosts, `u32::MAX` if it has none.
    own_group: u32,
    /// Per group: which of `sets`.
    set_of_group: Vec<u16>,
    /// Start and length in `ports`.
    sets: Vec<(u32, u32)>,
    /// Ports, numbered within the switch.
    ports: Vec<u16>,
}

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

impl Routes {
    /// Computes all shortest paths (fewest links) of a topology.
    pub fn new(topology: &Topology, seed: u64) -> Result<Routes, TopologyError> {
        Routes::with(topology, &[], seed)
    }

    /// As [`Routes::new`], but some switches send the packets to some hosts another way.
    ///
    /// # Errors
    /// Hosts without a path; a route that names what is not there, or makes packets circle.
    pub fn with(topology: &Topology, named: &[NamedRoute], seed: u64) -> Result<Routes, TopologyError> {
        let groups = groups(topology);
        let mut host_place: Vec<(u32, u32)> = (0..topology.hosts)
            .map(|host| {
                let peer = topology.ports[topology.host_port(host)].peer;
                let switch = topology.ports[peer as usize].node;
                (groups.of_switch[&switch], peer - topology.first_port[switch as usize])
            })
            .collect();
        let mut builders: Vec<SetBuilder> = (topology.hosts..topology.nodes()).map(|_| SetBuilder::default()).collect();
        for switch in &groups.switches {
            let distance = distances(topology, *switch);
            if let Some(host) = (0..topology.hosts).find(|h| distance[*h as usize] == u32::MAX) {
                let from = first_host_of(topology, *switch);
                return Err(TopologyError::Unreachable {
                    from: topology.names[from as usize].clone(),
                    to: topology.names[host as usize].clone(),
                });
            }
            for node in topology.hosts..topology.nodes() {
                builders[(node - topology.hosts) as usize].add(next_hops(topology, node, &distance));
            }
        }
        for (group, (host, detours)) in (groups.switches.len() as u32..).zip(detours(topology, named)?) {
            for (builder, set) in builders.iter_mut().zip(detoured(topology, &groups.switches, host, &detours)?) {
                builder.add(set);
            }
            host_place[host as usize].0 = group;
        }
        let switches = builders
            .into_iter()
            .enumerate()
            .map(|(i, builder)| {
                let node = topology.hosts + i as u32;
                let own_group = groups.of_switch.get(&node).copied().unwrap_or(u32::MAX);
                builder.finish(own_group, mix(seed, Purpose::EcmpSalt, &[u64::from(node)]) as u32)
            })
            .collect();
        Ok(Routes { host_place, switches, hosts: topology.hosts })
    }

    /// Whether [`Routes::with`] would take these routes.
    ///
    /// # Errors
    /// A route that names what is not there, or makes packets circle.
    pub fn check(topology: &Topology, named: &[NamedRoute]) -> Result<(), TopologyError> {
        let groups = groups(topology);
        for (host, detours) in detours(topology, named)? {
            detoured(topology, &groups.switches, host, &detours)?;
        }
        Ok(())
    }

    /// The port (within its switch) on which `switch` sends a packet of this flow to host `dst`.
    #[inline]
    pub fn port(&self, switch: NodeId, dst: u32, flow_hash: u32) -> u32 {
        self.pick(switch, dst, |salt, len| choose(flow_hash ^ salt, len))
    }

    /// The port on which `switch` sends a single packet to host `dst` if it sprays: any of its equal-cost ports, all as likely. A random
    /// number is drawn only where there is a choice.
    pub(crate) fn spray(&self, switch: NodeId, dst: u32, stream: &mut Stream) -> u32 {
        self.pick(switch, dst, |_, len| ((u128::from(stream.next_u64()) * u128::from(len)) >> 64) as u32)
    }

    /// The port towards host `dst`; where there are several, `choose` picks one by the switch's salt and their number.
    #[inline(always)]
    fn pick(&self, switch: NodeId, dst: u32, choose: impl FnOnce(u32, u32) -> u32) -> u32 {
        let routes = &self.switches[(switch - self.hosts) as usize];
        let (group, host_port) = self.host_place[dst as usize];
        if group == routes.own_group {
            return host_port;
        }
        let (start, len) = routes.sets[routes.set_of_group[group as usize] as usize];
        let choice = if len == 1 { 0 } else { choose(routes.salt, len) };
        u32::from(routes.ports[(start + choice) as usize])
    }

    /// The ports (over all nodes) that a packet of this flow is transmitted on from host `src` to host `dst`.
    pub fn path(&self, topology: &Topology, src: u32, dst: u32, flow_hash: u32) -> Vec<usize> {
        let mut ports = vec![topology.host_port(src)];
        loop {
            let node = topology.peer_node(ports[ports.len() - 1]);
            if node == dst {
                return ports;
            }
            ports.push((topology.first_port[node as usize] + self.port(node, dst, flow_hash)) as usize);
        }
    }
}

/// Ports of switches that may come to wait for each other in a circle under PFC, by the routes alone: a cyclic buffer dependency. `None`
/// if there are no such ports; then pauses cannot end in a deadlock.
///
/// A port depends on another if some packet leaves by the one and, at the switch that it leads to, by the other (Dally and Seitz, 1987).
/// Networks in which packets go up and then down, as in regular trees, have no cycle.
pub fn buffer_cycle(topology: &Topology, routes: &Routes) -> Option<Vec<usize>> {
    // A switch's group is out of use when all of its hosts have groups of their own.
    let in_use: BTreeSet<u32> = routes.host_place.iter().map(|(group, _)| *group).collect();
    let at = |node: NodeId| &routes.switches[(node - topology.hosts) as usize];
    let out = |node: NodeId, port: &u16| topology.first_port[node as usize] as usize + usize::from(*port);
    let set = |node: NodeId, index: u16| {
        let (start, len) = at(node).sets[usize::from(index)];
        at(node).ports[start as usize..(start + len) as usize].iter().map(move |port| out(node, port))
    };
    let sources: Vec<NodeId> = self::groups(topology).switches;
    // Per port: which sets of the next switch its packets may go on by.
    let mut follows: Vec<BTreeSet<u16>> = vec![BTreeSet::new(); topology.ports.len()];
    for group in in_use {
        let mut known = vec![false; topology.nodes() as usize];
        let mut open = sources.clone();
        while let Some(node) = open.pop() {
            // At their own switch packets leave the network.
            if std::mem::replace(&mut known[node as usize], true) || at(node).own_group == group {
                continue;
            }
            for port in set(node, at(node).set_of_group[group as usize]) {
                let next = topology.peer_node(port);
                if !topology.is_host(next) {
                    if at(next).own_group != group {
                        follows[port].insert(at(next).set_of_group[group as usize]);
                    }
                    open.push(next);
                }
            }
        }
    }
    let edges: Vec<Vec<usize>> = follows
        .iter()
        .enumerate()
        .map(|(port, sets)| {
            let next = topology.peer_node(port);
            let ports = sets.iter().flat_map(|index| set(next, *index));
            ports.filter(|port| !topology.is_host(topology.peer_node(*port))).collect()
        })
        .collect();
    find_cycle(&edges, 0..edges.len())
}

/// A number below `len` from a flow's salted hash.
#[inline]
fn choose(salted: u32, len: u32) -> u32 {
    let mut z = u64::from(salted).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (((z >> 32) * u64::from(len)) >> 32) as u32
}

/// The longest of all shortest paths between hosts: most delay, then most links.
pub fn longest_path(topology: &Topology) -> PathFacts {
    let groups = groups(topology);
    let mut longest = PathFacts { hops: 0, delay: Time::ZERO, rate: BitRate::from_bps(u64::MAX) };
    for switch in &groups.switches {
        let distance = distances(topology, *switch);
        let facts = facts_to(topology, *switch, &distance);
        // The last link, from the group's switch to its host with the most delay.
        for host_port in topology.ports_of(*switch).filter(|p| topology.is_host(topology.peer_node(*p))) {
            let last = topology.ports[host_port].link;
            let own = topology.peer_node(host_port);
            for host in (0..topology.hosts).filter(|h| *h != own) {
                let Some(to_switch) = facts[host as usize] else {
                    continue;
                };
                let path = PathFacts {
                    hops: to_switch.hops + 1,
                    delay: to_switch.delay + last.delay,
                    rate: to_switch.rate.min(last.rate),
                };
                if (path.delay, path.hops) > (longest.delay, longest.hops) {
                    longest = path;
                }
            }
        }
    }
    longest
}

/// Per node: facts of the shortest path with the most delay to `switch`.
fn facts_to(topology: &Topology, switch: NodeId, distance: &[u32]) -> Vec<Option<PathFacts>> {
    let mut order: Vec<NodeId> = (0..topology.nodes()).filter(|n| distance[*n as usize] != u32::MAX).collect();
    order.sort_by_key(|n| distance[*n as usize]);
    let mut facts: Vec<Option<PathFacts>> = vec![None; topology.nodes() as usize];
    facts[switch as usize] = Some(PathFacts { hops: 0, delay: Time::ZERO, rate: BitRate::from_bps(u64::MAX) });
    for node in order.into_iter().filter(|n| *n != switch) {
        facts[node as usize] = topology
            .ports_of(node)
            .filter(|p| distance[topology.peer_node(*p) as usize] < distance[node as usize])
            .filter_map(|p| {
                let next = facts[topology.peer_node(p) as usize]?;
                let link = topology.ports[p].link;
                Some(PathFacts { hops: next.hops + 1, delay: next.delay + link.delay, rate: next.rate.min(link.rate) })
            })
            .max_by_key(|f| f.delay);
    }
    facts
}

/// Switches that have hosts, in order, each with the number of its group.
struct Groups {
    switches: Vec<NodeId>,
    of_switch: BTreeMap<NodeId, u32>,
}

fn groups(topology: &Topology) -> Groups {
    let mut of_switch = BTreeMap::new();
    for host in 0..topology.hosts {
        of_switch.insert(topology.peer_node(topology.host_port(host)), 0);
    }
    let switches: Vec<NodeId> = of_switch.keys().copied().collect();
    for (group, switch) in switches.iter().enumerate() {
        of_switch.insert(*switch, group as u32);
    }
    Groups { switches, of_switch }
}

/// The first host attached to `switch`.
fn first_host_of(topology: &Topology, switch: NodeId) -> NodeId {
    (0..topology.hosts).find(|h| topology.peer_node(topology.host_port(*h)) == switch).unwrap_or(0)
}

/// Links from every node to `target`, never through a host; `u32::MAX` where there is no way.
fn distances(topology: &Topology, target: NodeId) -> Vec<u32> {
    let mut distance = vec![u32::MAX; topology.nodes() as usize];
    distance[target as usize] = 0;
    let mut frontier = vec![target];
    let mut hops = 0;
    while !frontier.is_empty() {
        hops += 1;
        let mut next = Vec::new();
        for node in frontier {
            for port in topology.ports_of(node) {
                let peer = topology.peer_node(port);
                if distance[peer as usize] == u32::MAX {
                    distance[peer as usize] = hops;
                    if !topology.is_host(peer) {
                        next.push(peer);
                    }
                }
            }
        }
        frontier = next;
    }
    distance
}

/// The ports of `node` (numbered within it) that lead closer, towards switches.
fn next_hops(topology: &Topology, node: NodeId, distance: &[u32]) -> Vec<u16> {
    let first = topology.first_port[node as usize] as usize;
    topology
        .ports_of(node)
        .filter(|p| {
            let peer = topology.peer_node(*p);
            !topology.is_host(peer) && distance[peer as usize] < distance[node as usize]
        })
        .map(|p| (p - first) as u16)
        .collect()
}

/// Where a switch sends packets instead: its ports (numbered within it), and which of the named routes says so.
type Detours = BTreeMap<NodeId, (Vec<u16>, usize)>;

/// By host: the switches that have a route of their own to it.
fn detours(topology: &Topology, named: &[NamedRoute]) -> Result<BTreeMap<NodeId, Detours>, TopologyError> {
    let mut found: BTreeMap<NodeId, Detours> = BTreeMap::new();
    if named.is_empty() {
        return Ok(found);
    }
    let nodes: BTreeMap<&str, NodeId> =
        topology.names.iter().zip(0..).map(|(name, node)| (name.as_str(), node)).collect();
    for (index, route) in named.iter().enumerate() {
        let refused = |reason: String| TopologyError::Route { index, reason };
        let find = |name: &str| {
            nodes
                .get(name)
                .copied()
                .ok_or_else(|| refused(format!("a route names `{name}`, but no node is called that")))
        };
        let (at, via) = (find(&route.at)?, find(&route.via)?);
        if topology.is_host(at) {
            return Err(refused(format!("a route is at `{}`, which is a host; only switches have routes", route.at)));
        }
        let first = topology.first_port[at as usize] as usize;
        let towards = |port: &usize| topology.peer_node(*port) == via;
        let ports: Vec<u16> = topology.ports_of(at).filter(towards).map(|port| (port - first) as u16).collect();
        if ports.is_empty() {
            return Err(refused(format!(
                "a route at `{}` goes via `{}`, but no cable joins the two; name a neighbour",
                route.at, route.via
            )));
        }
        for name in &route.to {
            let to = find(name)?;
            if !topology.is_host(to) {
                return Err(refused(format!("a route leads to `{name}`, which is a switch; routes lead to hosts")));
            }
            if topology.is_host(via) && via != to {
                return Err(refused(format!(
                    "a route to `{name}` goes via the host `{}`; hosts do not forward packets",
                    route.via
                )));
            }
            if found.entry(to).or_default().insert(at, (ports.clone(), index)).is_some() {
                return Err(refused(format!("a second route at `{}` to `{name}`; there can be one", route.at)));
            }
        }
    }
    Ok(found)
}

/// The next hops of every switch towards `host`: the shortest ways but for its detours.
fn detoured(
    topology: &Topology, host_switches: &[NodeId], host: NodeId, detours: &Detours,
) -> Result<Vec<Vec<u16>>, TopologyError> {
    let last = topology.peer_node(topology.host_port(host));
    let distance = distances(topology, last);
    let mut sets: Vec<Vec<u16>> =
        (topology.hosts..topology.nodes()).map(|node| next_hops(topology, node, &distance)).collect();
    let own = topology.ports[topology.host_port(host)].peer - topology.first_port[last as usize];
    sets[(last - topology.hosts) as usize] = vec![own as u16];
    for (at, (ports, _)) in detours {
        sets[(at - topology.hosts) as usize] = ports.clone();
    }
    // Every switch has a way on. So what does not arrive circles.
    let next = |node: u32| -> Vec<usize> {
        let first = topology.first_port[node as usize] as usize;
        let set = sets.get((node.wrapping_sub(topology.hosts)) as usize).map_or(&[][..], Vec::as_slice);
        set.iter().map(|port| topology.peer_node(first + *port as usize) as usize).collect()
    };
    let edges: Vec<Vec<usize>> = (0..topology.nodes()).map(next).collect();
    let starts = host_switches.iter().map(|switch| *switch as usize);
    let Some(circle) = find_cycle(&edges, starts) else {
        return Ok(sets);
    };
    let index =
        circle.iter().filter_map(|node| detours.get(&(*node as u32))).map(|(_, index)| *index).max().unwrap_or(0);
    let names: Vec<&str> = circle.iter().chain(&circle[..1]).map(|node| topology.names[*node].as_str()).collect();
    let reason = format!(
        "with this route packets to `{}` would circle for ever through {}; let it lead to the host in the end",
        topology.names[host as usize],
        names.join(" -> ")
    );
    Err(TopologyError::Route { index, reason })
}

/// A cycle of a directed graph that can be reached from one of `starts`, as the nodes along it.
pub(crate) fn find_cycle(edges: &[Vec<usize>], starts: impl Iterator<Item = usize>) -> Option<Vec<usize>> {
    // 0: not visited, 1: on the current path, 2: done.
    let mut state = vec![0u8; edges.len()];
    for start in starts {
        if state[start] != 0 {
            continue;
        }
        let mut path = vec![(start, 0)];
        state[start] = 1;
        while let Some((node, tried)) = path.last_mut() {
            let Some(next) = edges[*node].get(*tried).copied() else {
                state[*node] = 2;
                path.pop();
                continue;
            };
            *tried += 1;
            if state[next] == 1 {
                let from = path.iter().position(|(n, _)| *n == next)?;
                return Some(path[from..].iter().map(|(n, _)| *n).collect());
            }
            if state[next] == 0 {
                state[next] = 1;
                path.push((next, 0));
            }
        }
    }
    None
}

/// Collects the next-hop sets of one switch, each distinct set once.
#[derive(Default)]
struct SetBuilder {
    known: BTreeMap<Vec<u16>, u16>,
    set_of_group: Vec<u16>,
    sets: Vec<(u32, u32)>,
    ports: Vec<u16>,
}

impl SetBuilder {
    fn add(&mut self, set: Vec<u16>) {
        let next = self.sets.len() as u16;
        let index = *self.known.entry(set).or_insert_with_key(|set| {
            self.sets.push((self.ports.len() as u32, set.len() as u32));
            self.ports.extend(set);
            next
        });
        self.set_of_group.push(index);
    }
    fn finish(self, own_group: u32, salt: u32) -> SwitchRoutes {
        SwitchRoutes { salt, own_group, set_of_group: self.set_of_group, sets: self.sets, ports: self.ports }
    }
}

#[cfg(test)]
mod tests {
    use super::find_cycle;

    #[test]
    fn cycles_are_found_and_only_cycles() {
        assert_eq!(find_cycle(&[vec![1, 2], vec![3], vec![3], vec![]], 0..4), None);
        assert_eq!(find_cycle(&[vec![1], vec![2], vec![3], vec![1]], 0..4), Some(vec![1, 2, 3]));
        assert_eq!(find_cycle(&[vec![], vec![1]], 0..2), Some(vec![1]));
        assert_eq!(find_cycle(&[vec![], vec![1]], 0..1), None, "not reached");
    }
}
