//! Shortest-path routing: the equal-cost ports of each switch towards each host.
//!
//! A host's address consists of digits: the port of its switch that leads to it and, in a tree of pods, the port of a
//! spine that leads to its leaf and the port of a core that leads to its pod. A switch compares the digits above its
//! own level with the digits that all hosts below it have in common. If they are equal, the next digit is the port;
//! otherwise any port up leads to the host. So the routes of a switch in a tree take a few words.
//!
//! In other topologies a switch keeps one entry for each *group*, the hosts under the same switch. An entry names one
//! of the few distinct sets of equal-cost ports that the switch has. A host to which some switch has a named route is a
//! group of its own, in a tree too.
//!
//! Where a set has several ports, a path selection picks one (the module `path`).

use crate::config::NamedRoute;
use crate::cycles::find_cycle;
use crate::detours::{detoured, detours};
use crate::ids::{HostId, PortId};
use crate::path::Candidates;
use crate::rng::{Purpose, mix};
use crate::shortest_paths::{Distances, first_host_of, next_hops, switches_with_hosts};
use crate::topology::{NodeId, Topology, TopologyError, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// The address of each host, and the routes of each switch.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Per host: its digits, the lowest in the lowest bits; or [`STORED`], its group and the port of its switch.
    addresses: Vec<u64>,
    switches: Vec<SwitchRoutes>,
    /// Per switch: routes to hosts with groups; empty if no host has a group.
    stored: Vec<Sets>,
    hosts: u32,
}

/// Bits of a digit. In an address with a group the port takes one digit, the group two.
const DIGIT: u32 = 16;
/// In an address: the routes to this host are stored.
const STORED: u64 = 1 << (3 * DIGIT);

/// The routes of one switch.
#[derive(Clone, Debug)]
struct SwitchRoutes {
    /// The digits above its level that addresses of the hosts below it have, the other bits zero; [`u64::MAX`] if no
    /// host is below it.
    below: u64,
    salt: u32,
    /// Bits below the digit of its level.
    shift: u32,
    /// Its ports up in a tree: the first, and their number.
    up: (u16, u16),
}

/// The stored routes of one switch.
#[derive(Clone, Debug, Default)]
struct Sets {
    /// Per group: index into `sets`.
    set_of_group: Vec<u16>,
    /// Start and length in `ports`.
    sets: Vec<(u32, u32)>,
    /// Ports, numbered within the switch.
    ports: Vec<u16>,
}

impl Sets {
    /// Start and length in `ports` of the equal-cost ports towards a host with this address.
    #[inline(always)]
    fn towards(&self, address: u64) -> (u32, u32) {
        self.sets[usize::from(self.set_of_group[((address ^ STORED) >> DIGIT) as usize])]
    }
}

impl Routes {
    /// Computes all shortest paths (fewest links) of a topology; `seed` determines the switches' ECMP salts.
    ///
    /// # Errors
    /// Hosts without a path.
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

    /// As [`Routes::new`], with named routes that replace the shortest ones.
    ///
    /// # Errors
    /// Hosts without a path; a named route with unknown names, or one that makes packets circle.
    pub fn with(topology: &Topology, named: &[NamedRoute], seed: u64) -> Result<Routes, TopologyError> {
        let salts = (topology.hosts..topology.nodes())
            .map(|node| mix(seed, Purpose::EcmpSalt, &[u64::from(node)]) as u32)
            .map(|salt| SwitchRoutes { salt, below: u64::MAX, shift: 0, up: (0, 0) });
        let mut routes = Routes {
            addresses: Vec::with_capacity(topology.hosts as usize),
            switches: salts.collect(),
            stored: Vec::new(),
            hosts: topology.hosts,
        };
        let mut builders: Vec<SetBuilder> = Vec::new();
        match topology.tree.filter(Tree::is_connected) {
            Some(tree) => routes.compute(&tree),
            None => builders = routes.store(topology)?,
        }
        let detours = detours(topology, named)?;
        if !detours.is_empty() {
            builders.resize_with(routes.switches.len(), SetBuilder::default);
            let sources = switches_with_hosts(topology);
            for (host, detours) in detours {
                let group = builders[0].sets.set_of_group.len() as u64;
                for (builder, set) in builders.iter_mut().zip(detoured(topology, &sources, host, &detours)?) {
                    builder.add(set);
                }
                let port = routes.addresses[host.index()] & ((1 << DIGIT) - 1);
                routes.addresses[host.index()] = STORED | group << DIGIT | port;
            }
        }
        routes.stored = builders.into_iter().map(|builder| builder.sets).collect();
        Ok(routes)
    }

    /// The addresses in a tree, and the digits with which its switches compare them.
    fn compute(&mut self, tree: &Tree) {
        let digits =
            |pod: u32, leaf: u32, port: u32| u64::from(pod) << (2 * DIGIT) | u64::from(leaf) << DIGIT | u64::from(port);
        let leaves = (0..tree.pods).flat_map(|pod| (0..tree.leaves).map(move |leaf| (pod, leaf)));
        let hosts = leaves.clone().flat_map(|(pod, leaf)| (0..tree.hosts).map(move |port| digits(pod, leaf, port)));
        self.addresses.extend(hosts);
        let of_leaf = |(pod, leaf)| (digits(pod, leaf, 0), 0, (tree.hosts as u16, tree.spines as u16));
        let of_spine = |spine| (digits(spine / tree.spines, 0, 0), DIGIT, (tree.leaves as u16, tree.cores as u16));
        let of_core = |_| (0, 2 * DIGIT, (0, 0));
        let spines = (0..tree.pods * tree.spines).map(of_spine);
        let all = leaves.map(of_leaf).chain(spines).chain((0..tree.spines * tree.cores).map(of_core));
        for (switch, (below, shift, up)) in self.switches.iter_mut().zip(all) {
            (switch.below, switch.shift, switch.up) = (below, shift, up);
        }
    }

    /// A group for the hosts of each switch, and the routes of every switch to each group.
    fn store(&mut self, topology: &Topology) -> Result<Vec<SetBuilder>, TopologyError> {
        let mut builders: Vec<SetBuilder> = Vec::new();
        builders.resize_with(self.switches.len(), SetBuilder::default);
        for (group, switch) in (0u64..).zip(switches_with_hosts(topology)) {
            let distances = Distances::to(topology, switch);
            let reached = |host: &HostId| distances.of(topology.peer_node(topology.host_port(*host))) != u32::MAX;
            if let Some(host) = topology.host_ids().find(|host| !reached(host)) {
                let from = first_host_of(topology, switch);
                return Err(TopologyError::Unreachable {
                    from: topology.names[from.index()].clone(),
                    to: topology.names[host.index()].clone(),
                });
            }
            for (builder, node) in builders.iter_mut().zip(topology.hosts..) {
                builder.add(next_hops(topology, node, &distances));
            }
            self.switches[(switch - topology.hosts) as usize].below = STORED | group << DIGIT;
        }
        let address = |host| {
            let peer = topology.port(topology.host_port(host)).peer;
            let (switch, port) = (topology.port(peer).node, topology.port_in_node(peer));
            self.switches[(switch - topology.hosts) as usize].below | u64::from(port)
        };
        self.addresses = topology.host_ids().map(address).collect();
        Ok(builders)
    }

    /// Checks that [`Routes::with`] accepts these routes.
    ///
    /// # Errors
    /// A named route with unknown names, or one that makes packets circle.
    pub fn check(topology: &Topology, named: &[NamedRoute]) -> Result<(), TopologyError> {
        let sources = switches_with_hosts(topology);
        for (host, detours) in detours(topology, named)? {
            detoured(topology, &sources, host, &detours)?;
        }
        Ok(())
    }

    /// The port (within its switch) on which `switch` sends a packet of this flow to host `dst` under ECMP.
    #[inline]
    pub fn port(&self, switch: NodeId, dst: HostId, flow_hash: u32) -> u32 {
        self.pick(switch, dst, |candidates| candidates.by_hash(flow_hash))
    }

    /// The port towards host `dst`; where there are several, `select` returns the index of one of them.
    #[inline(always)]
    pub(crate) fn pick(&self, switch: NodeId, dst: HostId, select: impl FnOnce(Candidates<'_>) -> u32) -> u32 {
        let index = (switch - self.hosts) as usize;
        let (routes, address) = (&self.switches[index], self.addresses[dst.index()]);
        // If the addresses differ above the digit, the result is too large for a digit.
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

    /// The equal-cost ports of a switch towards a host, as a number that is equal for equal ports.
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

    /// The ports of a [`set`](Routes::set) of a switch, numbered within it.
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

    /// The ports (over all nodes) that a packet of this flow is transmitted on from host `src` to host `dst`.
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

/// A cyclic buffer dependency: ports of switches that may wait for each other in a circle under PFC, judged by the
/// routes alone. `None` if there is no such circle; then pauses cannot end in a deadlock.
///
/// A port depends on another if some packet leaves by the former and, at the switch that it leads to, by the latter
/// (Dally and Seitz, 1987). Networks in which packets go up and then down, such as regular trees, have no cycle.
pub fn buffer_cycle(topology: &Topology, routes: &Routes) -> Option<Vec<PortId>> {
    // One host for all hosts with the same routes.
    let ways: BTreeMap<u64, u64> = routes.addresses.iter().map(|address| (*address >> DIGIT, *address)).collect();
    let index = |node: NodeId| (node - topology.hosts) as usize;
    let set = |node: NodeId, set: u32| {
        let first = topology.first_port[node as usize];
        routes.ports_of_set(index(node), set).into_iter().map(move |port| PortId(first.0 + port))
    };
    let sources = switches_with_hosts(topology);
    // Per port: the sets of the next switch by which its packets may leave.
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

/// Collects the next-hop sets of one switch, each distinct set once.
#[derive(Default)]
struct SetBuilder {
    known: BTreeMap<Vec<u16>, u16>,
    sets: Sets,
}

impl SetBuilder {
    /// Adds the ports towards the next group.
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
