//! The average load of every link that follows from what hosts send to each other, and from the routes: each switch
//! divides the traffic to a host evenly among its ports of equal cost, as ECMP does with many flows, and spraying
//! always.

use crate::ids::{HostId, PortId};
use crate::routing::Routes;
use crate::shortest_paths::{switch_of, switches_with_hosts};
use crate::topology::{NodeId, Topology, Tree};
use std::collections::BTreeMap;

/// Maximum number of pairs of a sending switch and a group of receiving hosts for which loads are computed (64 MB).
const MAX_PAIRS: usize = 1 << 23;

/// Maximum number of steps in which loads are computed: one for each group of receiving hosts and port of a switch.
const MAX_STEPS: usize = 1 << 27;

/// What the hosts of a fabric send to each other on average, in bit/s on the links.
///
/// ```
/// use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
/// use rnic_fabric::{Demand, HostId, Routes, Topology};
/// use rnic_transport::{BitRate, Bytes, Time};
///
/// let link = LinkSpec { rate: BitRate::from_gbps(10), delay: Time::from_us(1), loss: 0.0 };
/// let (uplink_rate, uplink_delay) = (None, None);
/// let spec = TopologySpec::LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 3, uplink_rate, uplink_delay };
/// let topology = Topology::build(&FabricSpec::new(spec, link, SwitchSpec::input_queued(Bytes(240_000))))?;
/// let routes = Routes::new(&topology, 1)?;
///
/// // Each host sends 5 Gbps to the five others: 3 x 5 x 3/5 Gbps leave each leaf, over two links.
/// let mut demand = Demand::new(&topology, &routes).expect("a small fabric");
/// demand.to_all_others(&[5e9; 6]);
/// let loads = demand.loads(&topology, &routes).expect("a small fabric");
/// let up = topology.port_ids().find(|port| topology.port_name(*port).ends_with("->spine0")).expect("a port up");
/// assert!((loads[up.index()] - 4.5e9).abs() < 1.0);
/// assert!((loads[topology.host_port(HostId(0)).index()] - 5e9).abs() < 1.0);
/// # Ok::<(), rnic_fabric::TopologyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Demand {
    hosts: usize,
    /// Number of the switch of each host, in the order of [`switches_with_hosts`].
    switch: Vec<u32>,
    /// Number of the group of each host: hosts with the same routes.
    group: Vec<u32>,
    /// For each group, one of its hosts.
    of_group: Vec<HostId>,
    /// Number of hosts of each switch and of each group.
    hosts_of_switch: Vec<f64>,
    hosts_of_group: Vec<f64>,
    /// Bit/s that each host sends, and that each host receives.
    sent: Vec<f64>,
    received: Vec<f64>,
    /// Bit/s from each switch to each group, by group, then switch.
    between: Vec<f64>,
}

impl Demand {
    /// No traffic on this fabric; `None` if the fabric is too large to compute loads.
    pub fn new(topology: &Topology, routes: &Routes) -> Option<Demand> {
        let switches = switches_with_hosts(topology);
        let number: BTreeMap<NodeId, u32> = switches.iter().copied().zip(0..).collect();
        let mut groups: BTreeMap<u64, u32> = BTreeMap::new();
        let (mut switch, mut group, mut of_group) = (Vec::new(), Vec::new(), Vec::new());
        for host in topology.host_ids() {
            switch.push(number[&switch_of(topology, host)]);
            let next = groups.len() as u32;
            let own = *groups.entry(routes.group(host)).or_insert(next);
            if own == next {
                of_group.push(host);
            }
            group.push(own);
        }
        let pairs = switches.len().checked_mul(of_group.len()).filter(|pairs| *pairs <= MAX_PAIRS)?;
        let (mut hosts_of_switch, mut hosts_of_group) = (vec![0.0; switches.len()], vec![0.0; of_group.len()]);
        for (switch, group) in switch.iter().zip(&group) {
            hosts_of_switch[*switch as usize] += 1.0;
            hosts_of_group[*group as usize] += 1.0;
        }
        let hosts = topology.hosts as usize;
        Some(Demand {
            hosts,
            switch,
            group,
            of_group,
            hosts_of_switch,
            hosts_of_group,
            sent: vec![0.0; hosts],
            received: vec![0.0; hosts],
            between: vec![0.0; pairs],
        })
    }

    /// Adds traffic of `rate` bit/s from one host to another.
    pub fn pair(&mut self, from: HostId, to: HostId, rate: f64) {
        self.sent[from.index()] += rate;
        self.received[to.index()] += rate;
        let (switch, group) = (self.switch[from.index()] as usize, self.group[to.index()] as usize);
        self.between[group * self.hosts_of_switch.len() + switch] += rate;
    }

    /// Adds traffic of each host to all other hosts evenly; `rates` are the bit/s that each host sends.
    pub fn to_all_others(&mut self, rates: &[f64]) {
        let others = (self.hosts - 1) as f64;
        let total: f64 = rates.iter().sum();
        let mut of_switch = vec![0.0; self.hosts_of_switch.len()];
        for (host, rate) in rates.iter().enumerate() {
            self.sent[host] += rate;
            self.received[host] += (total - rate) / others;
            of_switch[self.switch[host] as usize] += rate;
        }
        let switches = of_switch.len();
        for (group, hosts) in self.hosts_of_group.iter().enumerate() {
            for (switch, rate) in of_switch.iter().enumerate() {
                self.between[group * switches + switch] += rate * hosts / others;
            }
        }
        // No host sends to itself.
        for (host, rate) in rates.iter().enumerate() {
            self.between[self.group[host] as usize * switches + self.switch[host] as usize] -= rate / others;
        }
    }

    /// Adds traffic of `rate` bit/s to one host, evenly from all others.
    pub fn from_all_others(&mut self, to: HostId, rate: f64) {
        let each = rate / (self.hosts - 1) as f64;
        self.received[to.index()] += rate;
        self.sent.iter_mut().enumerate().filter(|(host, _)| *host != to.index()).for_each(|(_, sent)| *sent += each);
        let (group, switches) = (self.group[to.index()] as usize, self.hosts_of_switch.len());
        for (switch, hosts) in self.hosts_of_switch.iter().enumerate() {
            self.between[group * switches + switch] += each * hosts;
        }
        self.between[group * switches + self.switch[to.index()] as usize] -= each;
    }

    /// The load of each link in bit/s, by the port that transmits, if packets take `routes`; `None` if the fabric is
    /// too large to compute loads. The routes must have the same groups of hosts as those of [`Demand::new`]: they are
    /// these routes, or these routes [around](Routes::around) failed links.
    pub fn loads(&self, topology: &Topology, routes: &Routes) -> Option<Vec<f64>> {
        let mut loads = vec![0.0; topology.ports.len()];
        for host in topology.host_ids() {
            let port = topology.host_port(host);
            loads[port.index()] = self.sent[host.index()];
            loads[topology.port(port).peer.index()] = self.received[host.index()];
        }
        match topology.tree.filter(|_| routes.are_of_tree()) {
            Some(tree) => self.over_tree(topology, &tree, &mut loads),
            None if self.of_group.len().saturating_mul(loads.len()) > MAX_STEPS => return None,
            None => self.over_routes(topology, routes, &mut loads),
        }
        Some(loads)
    }

    /// Adds the loads of the links between switches in a tree, where every way up is equally good: the traffic that
    /// leaves a leaf or a pod divides evenly among all links up, and arrives evenly over all links down.
    fn over_tree(&self, topology: &Topology, tree: &Tree, loads: &mut [f64]) {
        let leaves = (tree.pods * tree.leaves) as usize;
        let pod = |leaf: usize| leaf / tree.leaves as usize;
        let mut of_leaf = vec![[0.0; 2]; leaves];
        let mut of_pod = vec![[0.0; 2]; tree.pods as usize];
        for to in 0..leaves {
            for from in (0..leaves).filter(|from| *from != to) {
                let rate = self.between[to * leaves + from];
                of_leaf[from][0] += rate;
                of_leaf[to][1] += rate;
                if pod(from) != pod(to) {
                    of_pod[pod(from)][0] += rate;
                    of_pod[pod(to)][1] += rate;
                }
            }
        }
        let (first_spine, first_core) = (leaves as u32, leaves as u32 + tree.pods * tree.spines);
        let (ways, far_ways) = (f64::from(tree.spines), f64::from(tree.spines * tree.cores.max(1)));
        for node in topology.hosts..topology.nodes() {
            for port in topology.ports_of(node) {
                let (own, peer) = (node - topology.hosts, topology.peer_node(port));
                if topology.is_host(peer) {
                    continue;
                }
                let peer = peer - topology.hosts;
                loads[port.index()] = match (own, peer) {
                    (leaf, _) if leaf < first_spine => of_leaf[leaf as usize][0] / ways,
                    (_, leaf) if leaf < first_spine => of_leaf[leaf as usize][1] / ways,
                    (spine, _) if spine < first_core => {
                        of_pod[((spine - first_spine) / tree.spines) as usize][0] / far_ways
                    }
                    (_, spine) => of_pod[((spine - first_spine) / tree.spines) as usize][1] / far_ways,
                };
            }
        }
    }

    /// Adds the loads of the links between switches for any routes: for each group of hosts, the traffic moves from
    /// switch to switch, and divides among the ports of equal cost.
    fn over_routes(&self, topology: &Topology, routes: &Routes, loads: &mut [f64]) {
        let switches = switches_with_hosts(topology);
        let count = (topology.nodes() - topology.hosts) as usize;
        for (group, host) in self.of_group.iter().enumerate() {
            let mut at = vec![0.0; count];
            for (number, switch) in switches.iter().enumerate() {
                at[(switch - topology.hosts) as usize] = self.between[group * switches.len() + number];
            }
            let candidates: Vec<Vec<PortId>> =
                (topology.hosts..topology.nodes()).map(|switch| routes.candidates(topology, switch, *host)).collect();
            for switch in downstream(topology, &candidates) {
                let rate = std::mem::take(&mut at[switch]);
                let ports = &candidates[switch];
                for port in ports.iter().filter(|_| rate > 0.0) {
                    let peer = topology.peer_node(*port);
                    if !topology.is_host(peer) {
                        loads[port.index()] += rate / ports.len() as f64;
                        at[(peer - topology.hosts) as usize] += rate / ports.len() as f64;
                    }
                }
            }
        }
    }
}

/// The switches, each after all switches that send to it; `candidates` has the ports to which each switch sends.
/// Switches of a routing loop are left out.
fn downstream(topology: &Topology, candidates: &[Vec<PortId>]) -> Vec<usize> {
    let next = |switch: usize| {
        let peers = candidates[switch].iter().map(|port| topology.peer_node(*port));
        peers.filter(|peer| !topology.is_host(*peer)).map(|peer| (peer - topology.hosts) as usize)
    };
    let mut before = vec![0u32; candidates.len()];
    (0..candidates.len()).flat_map(next).for_each(|switch| before[switch] += 1);
    let mut order: Vec<usize> = (0..candidates.len()).filter(|switch| before[*switch] == 0).collect();
    let mut done = 0;
    while let Some(switch) = order.get(done).copied() {
        done += 1;
        for peer in next(switch) {
            before[peer] -= 1;
            if before[peer] == 0 {
                order.push(peer);
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FabricSpec, LinkSpec, NamedRoute, SwitchSpec, TopologySpec};
    use rnic_transport::{BitRate, Bytes, Time};

    const LINK: LinkSpec = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(1), loss: 0.0 };

    fn topology(spec: TopologySpec) -> Topology {
        Topology::build(&FabricSpec::new(spec, LINK, SwitchSpec::input_queued(Bytes(240_000)))).unwrap()
    }

    /// Traffic of every kind, different for each host.
    fn mixed(topology: &Topology, routes: &Routes) -> Demand {
        let mut demand = Demand::new(topology, routes).unwrap();
        let rates: Vec<f64> = (0..topology.hosts).map(|host| f64::from(host % 7) * 1e9).collect();
        demand.to_all_others(&rates);
        demand.from_all_others(HostId(3), 17e9);
        demand.pair(HostId(0), HostId(topology.hosts - 1), 3e9);
        demand.pair(HostId(1), HostId(0), 2e9);
        demand
    }

    fn port(topology: &Topology, name: &str) -> usize {
        let (from, to) = name.split_once(':').unwrap();
        let is_it = |port: &PortId| {
            topology.names[topology.port(*port).node as usize] == from
                && topology.names[topology.peer_node(*port) as usize] == to
        };
        topology.port_ids().find(is_it).unwrap().index()
    }

    /// The sums over a tree equal the way of the traffic from switch to switch.
    #[test]
    fn both_ways_to_compute_the_loads_of_a_tree_agree() {
        let pods = TopologySpec::LeafSpineCore {
            pods: 3,
            leaves_per_pod: 2,
            spines_per_pod: 2,
            cores_per_plane: 3,
            hosts_per_leaf: 2,
            uplink_rate: None,
            uplink_delay: None,
            core_rate: None,
            core_delay: None,
        };
        let leaves =
            TopologySpec::LeafSpine { leaves: 3, spines: 2, hosts_per_leaf: 3, uplink_rate: None, uplink_delay: None };
        for spec in [TopologySpec::FatTree { k: 4 }, pods, leaves] {
            let topology = topology(spec);
            let routes = Routes::new(&topology, 1).unwrap();
            let demand = mixed(&topology, &routes);
            let sums = demand.loads(&topology, &routes).unwrap();
            // Without failed links these are the same routes, stored for each switch.
            let stored = routes.around(&topology, &[], &vec![false; topology.ports.len()]).unwrap();
            assert!(routes.are_of_tree() && !stored.are_of_tree());
            let walked = demand.loads(&topology, &stored).unwrap();
            for (port, (sum, walked)) in topology.port_ids().zip(sums.iter().zip(&walked)) {
                assert!((sum - walked).abs() < 1.0, "{}: {sum} {walked}", topology.port_name(port));
            }
            // What hosts send arrives.
            let sent: f64 = topology.host_ids().map(|host| sums[topology.host_port(host).index()]).sum();
            let to_hosts = topology.host_ids().map(|host| topology.port(topology.host_port(host)).peer);
            let arrived: f64 = to_hosts.map(|port| sums[port.index()]).sum();
            assert!((sent - arrived).abs() < 1.0, "{sent} {arrived}");
        }
    }

    #[test]
    fn traffic_takes_the_routes_that_are_left() {
        let topology = topology(TopologySpec::LeafSpine {
            leaves: 4,
            spines: 2,
            hosts_per_leaf: 24,
            uplink_rate: None,
            uplink_delay: None,
        });
        let routes = Routes::new(&topology, 1).unwrap();
        let mut demand = Demand::new(&topology, &routes).unwrap();
        demand.to_all_others(&[20e9; 96]);
        let up = |loads: &[f64], name: &str| loads[port(&topology, name)] / 1e9;
        // 24 hosts send 20 Gbps each, of which 72 in 95 flows leave the leaf.
        let leaving = 24.0 * 20.0 * 72.0 / 95.0;
        let whole = demand.loads(&topology, &routes).unwrap();
        assert!((up(&whole, "leaf0:spine1") - leaving / 2.0).abs() < 1e-6);

        let mut down = vec![false; topology.ports.len()];
        (down[port(&topology, "leaf0:spine1")], down[port(&topology, "spine1:leaf0")]) = (true, true);
        let around = demand.loads(&topology, &routes.around(&topology, &[], &down).unwrap()).unwrap();
        assert_eq!(up(&around, "leaf0:spine1"), 0.0);
        assert!((up(&around, "leaf0:spine0") - leaving).abs() < 1e-6);
        // The other leaves send what is for leaf 0, a third of what leaves them, by spine 0 alone.
        assert!((up(&around, "leaf1:spine0") - leaving * (1.0 / 3.0 + 1.0 / 3.0)).abs() < 1e-6);
        assert!((up(&around, "spine0:leaf0") - leaving).abs() < 1e-6);

        // A route by hand has the same effect for the hosts that it names.
        let named = NamedRoute { at: "leaf1".into(), to: vec!["h0".into(), "h1".into()], via: "spine0".into() };
        let routes = Routes::with(&topology, &[named], 1).unwrap();
        let mut demand = Demand::new(&topology, &routes).unwrap();
        demand.to_all_others(&[20e9; 96]);
        let by_hand = demand.loads(&topology, &routes).unwrap();
        let of_two = 24.0 * 20.0 * 2.0 / 95.0;
        assert!((up(&by_hand, "leaf1:spine0") - (leaving / 2.0 + of_two / 2.0)).abs() < 1e-6);
    }

    #[test]
    fn incasts_and_pairs_load_the_links_of_their_receivers() {
        let topology =
            topology(TopologySpec::Dumbbell { left: 2, right: 3, bottleneck_rate: None, bottleneck_delay: None });
        let routes = Routes::new(&topology, 1).unwrap();
        let mut demand = Demand::new(&topology, &routes).unwrap();
        demand.from_all_others(HostId(2), 8e9);
        demand.pair(HostId(0), HostId(4), 1e9);
        let loads = demand.loads(&topology, &routes).unwrap();
        let at = |name| loads[port(&topology, name)] / 1e9;
        assert_eq!((at("right:h2"), at("left:right"), at("right:left")), (8.0, 5.0, 0.0));
        assert_eq!((at("h0:left"), at("h1:left"), at("h3:right"), at("right:h4")), (3.0, 2.0, 2.0, 1.0));
    }
}
