//! Shortest-path routing: the equal-cost ports of each switch towards each host.
//!
//! In a tree of pods (a fat-tree, leaf-spine or leaf-spine-core) a host's address has three digits, lowest first: the
//! port of a leaf that leads to the host, the port of a spine that leads to the host's leaf, and the port of a core
//! that leads to the host's pod. A switch compares the digits above its own level with the digits that all hosts below
//! the switch have in common. If the digits are equal, the host is below the switch, and the digit of the switch's
//! level is the output port. Otherwise any port up leads to the host. So the routes of a switch take only a few words
//! of memory.
//!
//! In other topologies a switch stores one entry for each *group*: the hosts that are attached to the same switch. The
//! entry refers to a set of equal-cost ports; a switch has only a few distinct sets. A host to which some switch has a
//! named route (a route configured by hand) is a group of its own, in a tree too.
//!
//! If a set has several ports, the path selection (module `path`) picks one of them.

use crate::config::NamedRoute;
use crate::cycles::find_cycle;
use crate::detours::{detoured, detours};
use crate::ids::{HostId, PortId};
use crate::path::Candidates;
use crate::rng::{Purpose, mix};
use crate::shortest_paths::{Distances, DownPorts, first_host_of, next_hops, switch_of, switches_with_hosts};
use crate::topology::{NodeId, Topology, TopologyError, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The address of each host, and the routes of each switch.
///
/// Routes of one topology that differ in their salts only share everything else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routes {
    /// Per host: its address. In a tree it consists of three digits, the ports that lead down to the host at a leaf, a
    /// spine and a core, the leaf's port in the lowest bits. For stored routes it consists of the flag [`STORED`], the
    /// number of the host's group (hosts with the same routes), and the port of the host's switch that leads to the
    /// host.
    addresses: Arc<[u64]>,
    switches: Vec<SwitchRoutes>,
    /// Per switch: the stored routes to groups of hosts; empty if no host is in a group.
    stored: Arc<[Sets]>,
    hosts: u32,
}

/// Number of bits of a digit, the part of a host's address that is one port number. In an address with a group of
/// hosts, the port takes one digit and the group takes two.
const DIGIT: u32 = 16;
/// Flag in an address: the routes to this host are stored per group, and not computed from the address's digits.
const STORED: u64 = 1 << (3 * DIGIT);

/// The routes of one switch.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SwitchRoutes {
    /// The digits of a host's address above the switch's level in a tree, which all hosts below the switch have in
    /// common; the other bits are zero. [`u64::MAX`] if no host is below the switch.
    below: u64,
    salt: u32,
    /// Number of bits in a host's address below the digit (port number) of the switch's level.
    shift: u32,
    /// The ports that lead up in a tree: the first of these ports, and how many there are.
    up: (u16, u16),
}

/// The stored routes of one switch, for hosts whose routes are not computed from their addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Sets {
    /// Per group of hosts with the same routes: index into `sets` of the ports towards the group.
    set_of_group: Vec<u16>,
    /// Per distinct set of equal-cost ports: start and length in `ports`.
    sets: Vec<(u32, u32)>,
    /// The ports of all sets, numbered within the switch.
    ports: Vec<u16>,
}

impl Sets {
    /// Start and length in `ports` of the equal-cost ports towards the host with this address.
    #[inline(always)]
    fn towards(&self, address: u64) -> (u32, u32) {
        self.sets[usize::from(self.set_of_group[((address ^ STORED) >> DIGIT) as usize])]
    }
}

impl Routes {
    /// Computes all shortest paths (fewest links) of a topology; `seed` determines the switches' ECMP salts.
    ///
    /// # Errors
    /// [`TopologyError::Unreachable`] if no path leads from one host to another.
    ///
    /// ```
    /// use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
    /// use rnic_fabric::{HostId, Routes, Topology};
    /// use rnic_transport::{BitRate, Bytes, Time};
    ///
    /// let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 };
    /// let switch = SwitchSpec::input_queued(Bytes(240_000));
    /// let topology = Topology::build(&FabricSpec::new(TopologySpec::FatTree { k: 6 }, link, switch))?;
    /// let routes = Routes::new(&topology, 1)?;
    /// // From the first pod to the last: up to a core switch, and down.
    /// let path = routes.path(&topology, HostId(0), HostId(53), 77);
    /// assert_eq!(path.len(), 6);
    /// assert_eq!(topology.peer_node(path[5]), 53);
    /// # Ok::<(), rnic_fabric::TopologyError>(())
    /// ```
    pub fn new(topology: &Topology, seed: u64) -> Result<Routes, TopologyError> {
        Routes::with(topology, &[], seed)
    }

    /// Like [`Routes::new`], with the routes `named`, configured by hand, in place of shortest paths.
    ///
    /// # Errors
    /// Two hosts without a path between them; a named route with unknown names; a named route that makes a routing
    /// loop.
    pub fn with(topology: &Topology, named: &[NamedRoute], seed: u64) -> Result<Routes, TopologyError> {
        let switch = |salt| SwitchRoutes { salt, below: u64::MAX, shift: 0, up: (0, 0) };
        let mut switches: Vec<SwitchRoutes> = salts(topology, seed).map(switch).collect();
        let mut builders: Vec<SetBuilder> = Vec::new();
        let mut addresses = match topology.tree.filter(Tree::is_connected) {
            Some(tree) => compute(&tree, &mut switches),
            None => store(topology, &mut switches, &mut builders)?,
        };
        let detours = detours(topology, named)?;
        if !detours.is_empty() {
            builders.resize_with(switches.len(), SetBuilder::default);
            let sources = switches_with_hosts(topology);
            for (host, detours) in detours {
                let group = builders[0].sets.set_of_group.len() as u64;
                for (builder, set) in
                    builders.iter_mut().zip(detoured(topology, &sources, host, &detours, DownPorts::NONE)?)
                {
                    builder.add(set);
                }
                let port = addresses[host.index()] & ((1 << DIGIT) - 1);
                addresses[host.index()] = STORED | group << DIGIT | port;
            }
        }
        let stored = builders.into_iter().map(|builder| builder.sets).collect();
        Ok(Routes { addresses: addresses.into(), switches, stored, hosts: topology.hosts })
    }

    /// These routes with the ECMP salts of another seed, as [`Routes::with`] computes them.
    pub fn reseeded(&self, topology: &Topology, seed: u64) -> Routes {
        let switches = self.switches.iter().zip(salts(topology, seed));
        Routes {
            switches: switches.map(|(switch, salt)| SwitchRoutes { salt, ..switch.clone() }).collect(),
            ..self.clone()
        }
    }

    /// These routes after switches have stopped using their own ports in `down` wherever another port of equal cost is
    /// left (local repair), before any switch has learned of a link that is not its own. `down` has an entry for each
    /// port of the topology, `true` at both ends of a link that is down.
    pub fn repaired(&self, topology: &Topology, down: &[bool]) -> Routes {
        self.in_sets(topology, |_, _, first, set| {
            let up = |port: &u16| !DownPorts(down).is_down(PortId(first.0 + u32::from(*port)));
            let left: Vec<u16> = set.iter().copied().filter(up).collect();
            if left.is_empty() { set } else { left }
        })
    }

    /// The routes that all switches have once routing has converged on the failure of links: shortest paths without the
    /// links in `down` (as in [`Routes::repaired`]), and the routes `named`. A switch without a path to a host keeps
    /// the ports of these routes, where its packets get lost.
    ///
    /// # Errors
    /// Together with the new shortest paths a named route makes a routing loop.
    pub fn around(&self, topology: &Topology, named: &[NamedRoute], down: &[bool]) -> Result<Routes, TopologyError> {
        let down = DownPorts(down);
        let sources = switches_with_hosts(topology);
        let detours = detours(topology, named)?;
        let mut by_hand: BTreeMap<HostId, Vec<Vec<u16>>> = BTreeMap::new();
        for (host, detours) in detours {
            by_hand.insert(host, detoured(topology, &sources, host, &detours, down)?);
        }
        // Groups come in order, and each switch asks for the same one: the distances of one group are enough.
        let mut latest: Option<(HostId, Distances)> = None;
        Ok(self.in_sets(topology, |node, host, _, set| {
            let new = if let Some(sets) = by_hand.get(&host) {
                sets[(node - topology.hosts) as usize].clone()
            } else {
                let (_, distances) = match &mut latest {
                    Some(of_group) if of_group.0 == host => of_group,
                    other => other.insert((host, Distances::to(topology, switch_of(topology, host), down))),
                };
                next_hops(topology, node, distances, down)
            };
            if new.is_empty() { set } else { new }
        }))
    }

    /// A copy of the routes with stored sets for all groups of hosts. `change(switch, host, first, set)` returns the
    /// equal-cost ports (numbered within the switch, whose first port is `first`) that replace `set`, for the group of
    /// `host`; it is called for all switches of a group before the next group.
    fn in_sets(
        &self, topology: &Topology, mut change: impl FnMut(NodeId, HostId, PortId, Vec<u16>) -> Vec<u16>,
    ) -> Routes {
        let mut groups: BTreeMap<u64, (u64, HostId)> = BTreeMap::new();
        for (address, host) in self.addresses.iter().zip(topology.host_ids()) {
            groups.entry(address >> DIGIT).or_insert((*address, host));
        }
        let numbers: BTreeMap<u64, u64> = groups.keys().copied().zip(0..).collect();
        let mut builders: Vec<SetBuilder> = Vec::new();
        builders.resize_with(self.switches.len(), SetBuilder::default);
        let mut switches = self.switches.clone();
        for switch in &mut switches {
            (switch.below, switch.shift, switch.up) = (u64::MAX, 0, (0, 0));
        }
        for ((key, (address, host)), group) in groups.into_iter().zip(0u64..) {
            for (index, (builder, node)) in builders.iter_mut().zip(topology.hosts..).enumerate() {
                let set = self.ports_of_set(index, self.set(index, address));
                let set = set.into_iter().map(|port| port as u16).collect();
                builder.add(change(node, host, topology.first_port[node as usize], set));
            }
            let leaf = (switch_of(topology, host) - topology.hosts) as usize;
            // The hosts of a switch, but for those that have a group of their own.
            if self.switches[leaf].below >> DIGIT == key {
                switches[leaf].below = STORED | group << DIGIT;
            }
        }
        let port = |address: u64| address & ((1 << DIGIT) - 1);
        let addresses = self.addresses.iter();
        Routes {
            addresses: addresses.map(|a| STORED | numbers[&(a >> DIGIT)] << DIGIT | port(*a)).collect(),
            switches,
            stored: builders.into_iter().map(|builder| builder.sets).collect(),
            hosts: self.hosts,
        }
    }

    /// Checks that [`Routes::with`] accepts these routes.
    ///
    /// # Errors
    /// A named route with unknown names, or one that makes a routing loop.
    pub fn check(topology: &Topology, named: &[NamedRoute]) -> Result<(), TopologyError> {
        let sources = switches_with_hosts(topology);
        for (host, detours) in detours(topology, named)? {
            detoured(topology, &sources, host, &detours, DownPorts::NONE)?;
        }
        Ok(())
    }

    /// The port (within its switch) on which `switch` sends a packet of this flow to host `dst` under ECMP.
    #[inline]
    pub fn port(&self, switch: NodeId, dst: HostId, flow_hash: u32) -> u32 {
        self.pick(switch, dst, |candidates| candidates.by_hash(flow_hash))
    }

    /// The port, numbered within `switch`, on which the switch sends packets to host `dst`. If several ports have equal
    /// cost, `select` returns the index of one of these candidates.
    #[inline(always)]
    pub(crate) fn pick(&self, switch: NodeId, dst: HostId, select: impl FnOnce(Candidates<'_>) -> u32) -> u32 {
        let index = (switch - self.hosts) as usize;
        let (routes, address) = (&self.switches[index], self.addresses[dst.index()]);
        // If the addresses differ above the digit of the switch's level, the result does not fit in a digit.
        let down = (address ^ routes.below) >> routes.shift;
        if down < 1 << DIGIT {
            return down as u32;
        }
        let (first, len, ports) = match address & STORED {
            0 => (u32::from(routes.up.0), u32::from(routes.up.1), None),
            _ => {
                let sets = &self.stored[index];
                let (first, len) = sets.towards(address);
                (first, len, Some(&sets.ports[..]))
            }
        };
        let candidates = Candidates { ports, first, len, salt: routes.salt };
        candidates.port(if len == 1 { 0 } else { select(candidates) })
    }

    /// The ports of equal cost on which `switch` sends packets to host `dst`.
    pub fn candidates(&self, topology: &Topology, switch: NodeId, dst: HostId) -> Vec<PortId> {
        let (index, first) = ((switch - self.hosts) as usize, topology.first_port[switch as usize]);
        let set = self.ports_of_set(index, self.set(index, self.addresses[dst.index()]));
        set.into_iter().map(|port| PortId(first.0 + port)).collect()
    }

    /// Number that identifies the hosts with the same routes as host `dst`.
    pub(crate) fn group(&self, dst: HostId) -> u64 {
        self.addresses[dst.index()] >> DIGIT
    }

    /// Whether all routes are those of a tree, computed from addresses: every way up is equally good.
    pub(crate) fn are_of_tree(&self) -> bool {
        self.stored.is_empty()
    }

    /// Number that identifies, within switch `index`, the set of equal-cost ports towards the host with this address.
    fn set(&self, index: usize, address: u64) -> u32 {
        let routes = &self.switches[index];
        let down = (address ^ routes.below) >> routes.shift;
        match down < 1 << DIGIT {
            true => down as u32,
            false if address & STORED == 0 => 1 << DIGIT,
            false => {
                let sets = &self.stored[index];
                (2 << DIGIT) + u32::from(sets.set_of_group[((address ^ STORED) >> DIGIT) as usize])
            }
        }
    }

    /// The ports, numbered within switch `index`, of the set that [`Routes::set`] identifies by the number `set`.
    fn ports_of_set(&self, index: usize, set: u32) -> Vec<u32> {
        match set >> DIGIT {
            0 => vec![set],
            1 => {
                let (first, len) = self.switches[index].up;
                (0..u32::from(len)).map(|port| u32::from(first) + port).collect()
            }
            _ => {
                let sets = &self.stored[index];
                let (start, len) = sets.sets[(set - (2 << DIGIT)) as usize];
                sets.ports[start as usize..(start + len) as usize].iter().map(|port| u32::from(*port)).collect()
            }
        }
    }

    /// The ports that transmit a packet of this flow on its way from host `src` to host `dst` under ECMP, in order.
    pub fn path(&self, topology: &Topology, src: HostId, dst: HostId, flow_hash: u32) -> Vec<PortId> {
        let mut ports = vec![topology.host_port(src)];
        loop {
            let node = topology.peer_node(ports[ports.len() - 1]);
            if node == dst.0 {
                return ports;
            }
            let first = topology.first_port[node as usize];
            ports.push(PortId(first.0 + self.port(node, dst, flow_hash)));
        }
    }
}

/// The ECMP salt of each switch.
fn salts(topology: &Topology, seed: u64) -> impl Iterator<Item = u32> {
    (topology.hosts..topology.nodes()).map(move |node| mix(seed, Purpose::EcmpSalt, &[u64::from(node)]) as u32)
}

/// Computes the addresses of all hosts in a tree, and for each switch the address digits that all hosts below it have
/// in common.
fn compute(tree: &Tree, switches: &mut [SwitchRoutes]) -> Vec<u64> {
    let digits =
        |pod: u32, leaf: u32, port: u32| u64::from(pod) << (2 * DIGIT) | u64::from(leaf) << DIGIT | u64::from(port);
    let leaves = (0..tree.pods).flat_map(|pod| (0..tree.leaves).map(move |leaf| (pod, leaf)));
    let hosts = leaves.clone().flat_map(|(pod, leaf)| (0..tree.hosts).map(move |port| digits(pod, leaf, port)));
    let of_leaf = |(pod, leaf)| (digits(pod, leaf, 0), 0, (tree.hosts as u16, tree.spines as u16));
    let of_spine = |spine| (digits(spine / tree.spines, 0, 0), DIGIT, (tree.leaves as u16, tree.cores as u16));
    let of_core = |_| (0, 2 * DIGIT, (0, 0));
    let spines = (0..tree.pods * tree.spines).map(of_spine);
    let all = leaves.map(of_leaf).chain(spines).chain((0..tree.spines * tree.cores).map(of_core));
    for (switch, (below, shift, up)) in switches.iter_mut().zip(all) {
        (switch.below, switch.shift, switch.up) = (below, shift, up);
    }
    hosts.collect()
}

/// Puts the hosts of each switch into a group, and computes the routes of every switch to each group; returns the
/// addresses of all hosts.
fn store(
    topology: &Topology, switches: &mut [SwitchRoutes], builders: &mut Vec<SetBuilder>,
) -> Result<Vec<u64>, TopologyError> {
    builders.resize_with(switches.len(), SetBuilder::default);
    for (group, switch) in (0u64..).zip(switches_with_hosts(topology)) {
        let distances = Distances::to(topology, switch, DownPorts::NONE);
        let reached = |host: &HostId| distances.of(topology.peer_node(topology.host_port(*host))) != u32::MAX;
        if let Some(host) = topology.host_ids().find(|host| !reached(host)) {
            let from = first_host_of(topology, switch);
            return Err(TopologyError::Unreachable {
                from: topology.names[from.index()].clone(),
                to: topology.names[host.index()].clone(),
            });
        }
        for (builder, node) in builders.iter_mut().zip(topology.hosts..) {
            builder.add(next_hops(topology, node, &distances, DownPorts::NONE));
        }
        switches[(switch - topology.hosts) as usize].below = STORED | group << DIGIT;
    }
    let address = |host| {
        let peer = topology.port(topology.host_port(host)).peer;
        let (switch, port) = (topology.port(peer).node, topology.port_in_node(peer));
        switches[(switch - topology.hosts) as usize].below | u64::from(port)
    };
    Ok(topology.host_ids().map(address).collect())
}

/// Finds a cyclic buffer dependency: switch ports that, judged by the routes alone, may wait for each other in a cycle
/// under PFC. `None` means that no such cycle exists, so pauses cannot end in a deadlock.
///
/// Port A depends on port B if some packet leaves one switch by A and the next switch by B (Dally and Seitz, 1987).
/// Networks in which packets go up and then down, such as regular trees, have no cycle.
pub fn buffer_cycle(topology: &Topology, routes: &Routes) -> Option<Vec<PortId>> {
    // One address stands for all hosts with the same routes.
    let ways: BTreeMap<u64, u64> = routes.addresses.iter().map(|address| (*address >> DIGIT, *address)).collect();
    let index = |node: NodeId| (node - topology.hosts) as usize;
    let set = |node: NodeId, set: u32| {
        let first = topology.first_port[node as usize];
        routes.ports_of_set(index(node), set).into_iter().map(move |port| PortId(first.0 + port))
    };
    let sources = switches_with_hosts(topology);
    // Per port: the sets of equal-cost ports by which the port's packets may leave the next switch.
    let mut follows: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); topology.ports.len()];
    for address in ways.into_values() {
        let mut known = vec![false; topology.nodes() as usize];
        let mut open = sources.clone();
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut known[node as usize], true) {
                continue;
            }
            for port in set(node, routes.set(index(node), address)) {
                // At a host packets leave the network.
                let next = topology.peer_node(port);
                if !topology.is_host(next) {
                    follows[port.index()].insert(routes.set(index(next), address));
                    open.push(next);
                }
            }
        }
    }
    let edges: Vec<Vec<usize>> = follows
        .iter()
        .zip(topology.port_ids())
        .map(|(sets, port)| {
            let next = topology.peer_node(port);
            let ports = sets.iter().flat_map(|number| set(next, *number));
            ports.filter(|port| !topology.is_host(topology.peer_node(*port))).map(PortId::index).collect()
        })
        .collect();
    let cycle = find_cycle(&edges, 0..edges.len())?;
    Some(cycle.into_iter().map(PortId::new).collect())
}

/// Collects the sets of equal-cost ports of one switch, and stores each distinct set once.
#[derive(Default)]
struct SetBuilder {
    known: BTreeMap<Vec<u16>, u16>,
    sets: Sets,
}

impl SetBuilder {
    /// Adds the set of equal-cost ports towards the next group of hosts; groups are added in order of their numbers.
    fn add(&mut self, set: Vec<u16>) {
        let sets = &mut self.sets;
        let next = sets.sets.len() as u16;
        let index = *self.known.entry(set).or_insert_with_key(|set| {
            sets.sets.push((sets.ports.len() as u32, set.len() as u32));
            sets.ports.extend(set);
            next
        });
        sets.set_of_group.push(index);
    }
}
