//! Writes the fat-tree file of the simulator htsim, which describes a regular tree of two or three tiers of switches,
//! tier by tier.
//!
//! htsim's loader (csg-htsim) accepts only rates in whole Gbps, delays in whole nanoseconds above 0, and one rate in
//! all tiers. All tiers need the same rate because the loader uses the oversubscription of a tier both as a ratio of
//! ports and as a ratio of bandwidths.

use super::topology::{Graph, invalid};
use rnic_fabric::config::{LinkSpec, TopologySpec};
use rnic_transport::{BitRate, Time};
use std::io::{self, Write};

/// A regular tree for htsim's fat-tree file: all switches of a tier are alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FatTreeShape {
    /// Number of hosts.
    pub hosts: u32,
    /// Number of hosts per pod; with two tiers, the number of all hosts.
    pub hosts_per_pod: u32,
    /// The switch tiers from the hosts upwards; two or three.
    pub tiers: Vec<Tier>,
}

/// One tier (level) of switches in a regular tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tier {
    /// Number of ports of each switch towards the hosts.
    pub down: u32,
    /// Number of ports of each switch away from the hosts; 0 in the highest tier.
    pub up: u32,
    /// Rate of the ports towards the hosts.
    pub rate: BitRate,
    /// Delay of the links towards the hosts.
    pub delay: Time,
}

impl FatTreeShape {
    /// The shape of a fat-tree, a leaf-spine or a leaf-spine-core fabric with these host links; `None` for other
    /// topologies.
    pub fn of(topology: &TopologySpec, link: &LinkSpec) -> Option<FatTreeShape> {
        let tier = |down, up| Tier { down, up, rate: link.rate, delay: link.delay };
        match *topology {
            TopologySpec::FatTree { k } => {
                let (half, hosts_per_pod) = (k / 2, (k / 2).checked_mul(k / 2)?);
                let tiers = vec![tier(half, half), tier(half, half), tier(k, 0)];
                Some(FatTreeShape { hosts: hosts_per_pod.checked_mul(k)?, hosts_per_pod, tiers })
            }
            TopologySpec::LeafSpine { leaves, spines, hosts_per_leaf, uplink_rate, uplink_delay } => {
                let hosts = leaves.checked_mul(hosts_per_leaf)?;
                let (rate, delay) = (uplink_rate.unwrap_or(link.rate), uplink_delay.unwrap_or(link.delay));
                let spine = Tier { down: leaves, up: 0, rate, delay };
                Some(FatTreeShape { hosts, hosts_per_pod: hosts, tiers: vec![tier(hosts_per_leaf, spines), spine] })
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
                let hosts_per_pod = leaves_per_pod.checked_mul(hosts_per_leaf)?;
                let uplink = (uplink_rate.unwrap_or(link.rate), uplink_delay.unwrap_or(link.delay));
                let (rate, delay) = uplink;
                let spine = Tier { down: leaves_per_pod, up: cores_per_plane, rate, delay };
                let (rate, delay) = (core_rate.unwrap_or(uplink.0), core_delay.unwrap_or(uplink.1));
                let core = Tier { down: pods, up: 0, rate, delay };
                let tiers = vec![tier(hosts_per_leaf, spines_per_pod), spine, core];
                Some(FatTreeShape { hosts: hosts_per_pod.checked_mul(pods)?, hosts_per_pod, tiers })
            }
            _ => None,
        }
    }

    /// Checks that htsim can read this tree; the error is the reason why it cannot.
    fn validate(&self) -> Result<(), String> {
        if !(2..=3).contains(&self.tiers.len()) {
            return Err(format!("{} tiers of switches; it has two or three", self.tiers.len()));
        }
        for tier in &self.tiers {
            if tier.rate != self.tiers[0].rate {
                return Err(format!("rates of {} and {}; it has one rate", self.tiers[0].rate, tier.rate));
            }
            if tier.rate.as_bps() == 0 || !tier.rate.as_bps().is_multiple_of(1_000_000_000) {
                return Err(format!("a rate of {}; it has whole Gbps", tier.rate));
            }
            if tier.delay == Time::ZERO || !tier.delay.as_ps().is_multiple_of(1_000) {
                return Err(format!("a delay of {}; it has whole nanoseconds above 0", tier.delay));
            }
        }
        let (_, lower) = self.tiers.split_last().unwrap_or((&self.tiers[0], &[]));
        match lower.iter().find(|tier| tier.up == 0 || !tier.down.is_multiple_of(tier.up)) {
            Some(Tier { down, up, .. }) => {
                Err(format!("switches with {down} ports down and {up} up; it has whole ratios"))
            }
            None => Ok(()),
        }
    }

    /// Checks that the built topology `graph` has the shape of this tree; the error is the first difference.
    fn matches(&self, graph: &Graph) -> Result<(), String> {
        if graph.hosts() as u64 != u64::from(self.hosts) {
            return Err(format!("{} hosts where the tree has {}", graph.hosts(), self.hosts));
        }
        let levels = graph.tiers();
        for link in &graph.links {
            let [a, b] = link.ends.map(|end| &graph.nodes[end as usize].name);
            let level = link.ends.iter().filter_map(|&end| levels[end as usize]).min();
            let tier = level.and_then(|level| self.tiers.get(level as usize));
            if tier.is_none_or(|tier| (tier.rate, tier.delay) != (link.rate, link.delay)) {
                return Err(format!("the link {a}-{b} is not like the others of its tier; it has regular trees"));
            }
            if link.loss > 0.0 {
                return Err(format!("the link {a}-{b} loses frames; it has no loss"));
            }
        }
        Ok(())
    }
}

/// Writes the tree `shape` as htsim's fat-tree file. `graph` is the built topology, which must have this shape.
pub(super) fn write(out: &mut dyn Write, graph: &Graph, shape: Option<&FatTreeShape>) -> io::Result<()> {
    let fail = |why: String| invalid(format!("htsim's topology file cannot describe this fabric: {why}"));
    let shape =
        shape.ok_or_else(|| fail("it has fat-trees, leaf-spine and leaf-spine-core fabrics only".to_string()))?;
    shape.validate().and_then(|()| shape.matches(graph)).map_err(fail)?;
    let FatTreeShape { hosts, hosts_per_pod, tiers } = shape;
    writeln!(out, "Nodes {hosts}\nTiers {}\nPodsize {hosts_per_pod}", tiers.len())?;
    for (number, tier) in tiers.iter().enumerate() {
        writeln!(out, "\nTier {number}")?;
        writeln!(out, "Downlink_speed_Gbps {}", tier.rate.as_bps() / 1_000_000_000)?;
        writeln!(out, "Radix_Down {}", tier.down)?;
        if number + 1 < tiers.len() {
            writeln!(out, "Radix_Up {}\nOversubscribed {}", tier.up, tier.down / tier.up)?;
        }
        writeln!(out, "Downlink_Latency_ns {}\nSwitch_Latency_ns 0", tier.delay.as_ps() / 1_000)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::topology::{Link, Node, TopologyExport, write_topology};

    const LINK: LinkSpec = LinkSpec { rate: BitRate::from_gbps(100), delay: Time::from_us(1), loss: 0.0 };

    fn leaf_spine(leaves: u32, spines: u32, hosts_per_leaf: u32) -> (TopologySpec, Graph) {
        let hosts = leaves * hosts_per_leaf;
        let node = |name: String, is_switch| Node { name, is_switch };
        let nodes = (0..hosts)
            .map(|i| node(format!("h{i}"), false))
            .chain((0..leaves).map(|i| node(format!("leaf{i}"), true)))
            .chain((0..spines).map(|i| node(format!("spine{i}"), true)))
            .collect();
        let link = |a, b| Link { ends: [a, b], rate: LINK.rate, delay: LINK.delay, loss: 0.0 };
        let down = (0..hosts).map(|host| link(host, hosts + host / hosts_per_leaf));
        let up = (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| link(hosts + leaf, hosts + leaves + spine)));
        let graph = Graph { nodes, links: down.chain(up).collect() };
        let topology =
            TopologySpec::LeafSpine { leaves, spines, hosts_per_leaf, uplink_rate: None, uplink_delay: None };
        (topology, graph)
    }

    fn written(graph: &Graph, shape: Option<&FatTreeShape>) -> Result<String, String> {
        let mut out = Vec::new();
        write_topology(&mut out, TopologyExport::Htsim, graph, shape).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_leaf_spine_fabric_has_two_tiers() {
        let (topology, graph) = leaf_spine(4, 2, 8);
        let expected = "Nodes 32\nTiers 2\nPodsize 32\n\n\
            Tier 0\nDownlink_speed_Gbps 100\nRadix_Down 8\nRadix_Up 2\nOversubscribed 4\n\
            Downlink_Latency_ns 1000\nSwitch_Latency_ns 0\n\n\
            Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 4\nDownlink_Latency_ns 1000\nSwitch_Latency_ns 0\n";
        assert_eq!(written(&graph, FatTreeShape::of(&topology, &LINK).as_ref()), Ok(expected.to_string()));
    }

    #[test]
    fn a_fat_tree_has_three_tiers() {
        let shape = FatTreeShape::of(&TopologySpec::FatTree { k: 16 }, &LINK).unwrap();
        assert_eq!((shape.hosts, shape.hosts_per_pod), (1024, 64));
        let ports: Vec<(u32, u32)> = shape.tiers.iter().map(|tier| (tier.down, tier.up)).collect();
        assert_eq!(ports, [(8, 8), (8, 8), (16, 0)]);
        assert_eq!(shape.validate(), Ok(()));
    }

    #[test]
    fn pods_under_planes_of_cores_have_three_tiers() {
        let pods = |core_rate| TopologySpec::LeafSpineCore {
            pods: 3,
            leaves_per_pod: 4,
            spines_per_pod: 2,
            cores_per_plane: 4,
            hosts_per_leaf: 8,
            uplink_rate: None,
            uplink_delay: Some(Time::from_us(2)),
            core_rate,
            core_delay: None,
        };
        let shape = FatTreeShape::of(&pods(None), &LINK).unwrap();
        assert_eq!((shape.hosts, shape.hosts_per_pod), (96, 32));
        let tiers: Vec<_> = shape.tiers.iter().map(|tier| (tier.down, tier.up, tier.delay.as_ps() / 1_000)).collect();
        assert_eq!(tiers, [(8, 2, 1_000), (4, 4, 2_000), (3, 0, 2_000)]);
        assert_eq!(shape.validate(), Ok(()));
        let fast = FatTreeShape::of(&pods(Some(BitRate::from_gbps(400))), &LINK).unwrap();
        assert_eq!(fast.validate(), Err("rates of 100 Gbps and 400 Gbps; it has one rate".to_string()));
    }

    #[test]
    fn other_fabrics_are_refused_with_a_reason() {
        let (topology, graph) = leaf_spine(2, 1, 2);
        let shape = FatTreeShape::of(&topology, &LINK).unwrap();
        let refused = |graph: &Graph, shape: Option<&FatTreeShape>| {
            written(graph, shape).unwrap_err().replace("htsim's topology file cannot describe this fabric: ", "")
        };
        assert_eq!(refused(&graph, None), "it has fat-trees, leaf-spine and leaf-spine-core fabrics only");
        let changed = |change: fn(&mut FatTreeShape)| {
            let mut shape = shape.clone();
            change(&mut shape);
            refused(&graph, Some(&shape))
        };
        assert_eq!(changed(|s| s.hosts = 5), "4 hosts where the tree has 5");
        assert_eq!(changed(|s| s.tiers.truncate(1)), "1 tiers of switches; it has two or three");
        assert_eq!(
            changed(|s| s.tiers[1].rate = BitRate::from_gbps(40)),
            "rates of 100 Gbps and 40 Gbps; it has one rate"
        );
        assert_eq!(changed(|s| s.tiers[0].up = 3), "switches with 2 ports down and 3 up; it has whole ratios");
        assert_eq!(
            changed(|s| s.tiers[0].delay = Time::from_ps(1_500)),
            "a delay of 1.5 ns; it has whole nanoseconds above 0"
        );
        let mut slow = graph.clone();
        slow.links[0].delay = Time::from_us(9);
        assert_eq!(
            refused(&slow, Some(&shape)),
            "the link h0-leaf0 is not like the others of its tier; it has regular trees"
        );
        let mut lossy = graph;
        lossy.links[0].loss = 0.1;
        assert_eq!(refused(&lossy, Some(&shape)), "the link h0-leaf0 loses frames; it has no loss");
    }
}
