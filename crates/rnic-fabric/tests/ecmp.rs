//! Tests of ECMP: the choice is per flow, balanced at every switch, and independent between switches.

use crate::common::*;
use rnic_fabric::config::TopologySpec;
use rnic_fabric::rng::{Purpose, mix};
use rnic_fabric::{HostId, PortId, Routes, Topology};
use std::collections::{BTreeMap, BTreeSet};

fn fat_tree(k: u32, seed: u64) -> (Topology, Routes) {
    let topology = Topology::build(&spec(TopologySpec::FatTree { k })).unwrap();
    let routes = Routes::new(&topology, seed).unwrap();
    (topology, routes)
}

/// Well-mixed flow hashes, as hosts make them.
fn hashes(count: u64) -> impl Iterator<Item = u32> {
    (0..count).map(|i| mix(99, Purpose::FlowHash, &[i]) as u32)
}

/// Chi-square statistic: the sum of (observed - expected)^2 / expected over equally likely cells.
fn chi_square(counts: &[u64]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    counts.iter().map(|c| (*c as f64 - expected).powi(2) / expected).sum()
}

/// Upper bound for a chi-square statistic: the mean of its distribution (the degrees of freedom) plus five standard
/// deviations. A fair choice exceeds the bound less than once in a million tests.
fn bound(degrees_of_freedom: usize) -> f64 {
    let mean = degrees_of_freedom as f64;
    mean + 5.0 * (2.0 * mean).sqrt() + 5.0
}

/// Counts how often each value in `0..choices` occurs.
fn count(values: impl Iterator<Item = u32>, choices: usize) -> Vec<u64> {
    let mut counts = vec![0; choices];
    for value in values {
        counts[value as usize] += 1;
    }
    counts
}

/// Number of a port within its node.
fn local(topology: &Topology, port: PortId) -> u32 {
    topology.port_in_node(port)
}

#[test]
fn every_switch_spreads_flows_evenly_over_all_of_its_uplinks() {
    for k in [6, 16] {
        let (topology, routes) = fat_tree(k, 1);
        let half = (k / 2) as usize;
        let far = HostId(topology.hosts - 1); // in the last pod
        let mut worst: f64 = 0.0;
        for pod in 0..k - 1 {
            for switch in 0..k / 2 {
                for first in [topology.hosts, topology.hosts + k * k / 2] {
                    let node = first + pod * k / 2 + switch;
                    let uplinks = hashes(4_000).map(|hash| routes.port(node, far, hash) - k / 2);
                    // Ports below k/2 lead down. If ECMP chose such a port, the subtraction above would overflow.
                    let counts = count(uplinks, half);
                    assert!(counts.iter().all(|c| *c > 0), "{}: {counts:?}", topology.names[node as usize]);
                    worst = worst.max(chi_square(&counts));
                }
            }
        }
        assert!(worst < bound(half - 1), "k = {k}: {worst}");
    }
}

/// Checks that flows between two pods spread over all (k/2)^2 core switches.
#[test]
fn flows_between_two_pods_use_every_core_switch_evenly() {
    for k in [6, 16] {
        let (topology, routes) = fat_tree(k, 1);
        let core = |hash| {
            let path = routes.path(&topology, HostId(0), HostId(topology.hosts - 1), hash);
            assert_eq!(path.len(), 6);
            topology.peer_node(path[2]) - (topology.nodes() - k * k / 4)
        };
        let cores = (k * k / 4) as usize;
        let counts = count(hashes(20_000).map(core), cores);
        let statistic = chi_square(&counts);
        assert!(statistic < bound(cores - 1), "k = {k}: {statistic}, {counts:?}");
    }
}

/// Without a salt per switch, all flows that leave an edge switch by its uplink i would leave the aggregation switch by
/// its uplink i, and most core switches would stay idle. So the choices of an edge switch and an aggregation switch
/// must be independent. The test is a chi-square test of the pairs of choices.
#[test]
fn the_choice_at_the_aggregation_switch_is_independent_of_that_at_the_edge_switch() {
    for k in [6, 16] {
        let half = (k / 2) as usize;
        for seed in 1..=5 {
            let (topology, routes) = fat_tree(k, seed);
            let (edge, agg) = (topology.hosts, topology.hosts + k * k / 2);
            let far = HostId(topology.hosts - 1);
            let pairs = hashes(20_000).map(|hash| {
                let (up, core) = (routes.port(edge, far, hash) - k / 2, routes.port(agg, far, hash) - k / 2);
                up * k / 2 + core
            });
            let counts = count(pairs, half * half);
            let statistic = chi_square(&counts);
            assert!(statistic < bound(half * half - 1), "k = {k}, seed {seed}: {statistic}");
            // The choices of two edge switches must be independent too.
            let pairs = hashes(20_000).map(|hash| {
                let (one, other) = (routes.port(edge, far, hash) - k / 2, routes.port(edge + 1, far, hash) - k / 2);
                one * k / 2 + other
            });
            let statistic = chi_square(&count(pairs, half * half));
            assert!(statistic < bound(half * half - 1), "k = {k}, seed {seed}: {statistic}");
        }
    }
}

#[test]
fn a_flow_has_one_path_and_the_packets_take_it() {
    let (topology, routes) = fat_tree(6, 3);
    for hash in hashes(20) {
        let path = routes.path(&topology, HostId(2), HostId(40), hash);
        let mut fabric = rnic_fabric::Fabric::new(&spec(TopologySpec::FatTree { k: 6 }), 3).unwrap();
        let mut script = Script::new(54);
        for id in 0..30 {
            script.send(2, 0, rnic_fabric::Packet { flow_hash: hash, ..packet(40, FRAME, id) });
        }
        fabric.run(&mut script);
        for port in topology.port_ids() {
            let expected = if path.contains(&port) { 30 } else { 0 };
            assert_eq!(fabric.counters(port)[0].tx_packets, expected);
        }
    }
}

#[test]
fn another_seed_places_flows_elsewhere() {
    let paths = |seed| {
        let (topology, routes) = fat_tree(6, seed);
        hashes(500).map(|hash| routes.path(&topology, HostId(0), HostId(53), hash)).collect::<Vec<_>>()
    };
    let (one, again, other) = (paths(1), paths(1), paths(2));
    assert_eq!(one, again);
    let same = one.iter().zip(&other).filter(|(a, b)| a == b).count();
    // By chance one path in nine is the same: 56 of 500, with a standard deviation of 7.
    assert!((21..=91).contains(&same), "{same}");
}

#[test]
fn neighbouring_hashes_are_spread_as_well() {
    // The hashes are consecutive numbers, like UDP source ports that the host does not mix.
    let (topology, routes) = fat_tree(6, 1);
    let core =
        |hash| topology.peer_node(routes.path(&topology, HostId(0), HostId(53), hash)[2]) - (topology.nodes() - 9);
    let statistic = chi_square(&count((0xc000..0xc000 + 9_000).map(core), 9));
    assert!(statistic < bound(8), "{statistic}");
}

#[test]
fn parallel_links_share_the_flows() {
    let links = [("a", "s"), ("s", "t"), ("s", "t"), ("s", "t"), ("b", "t")];
    let topology = Topology::build(&graph(&["a", "b"], &["s", "t"], &links)).unwrap();
    let routes = Routes::new(&topology, 1).unwrap();
    let ports = hashes(3_000).map(|hash| local(&topology, routes.path(&topology, HostId(0), HostId(1), hash)[1]) - 1);
    let statistic = chi_square(&count(ports, 3));
    assert!(statistic < bound(2), "{statistic}");
}

#[test]
fn leaf_spine_uses_every_spine_and_only_between_leaves() {
    let leaf_spine =
        TopologySpec::LeafSpine { leaves: 4, spines: 5, hosts_per_leaf: 3, uplink_rate: None, uplink_delay: None };
    let topology = Topology::build(&spec(leaf_spine)).unwrap();
    let routes = Routes::new(&topology, 1).unwrap();
    assert_eq!(routes.path(&topology, HostId(0), HostId(2), 77).len(), 2);
    let mut spines: BTreeMap<u32, u64> = BTreeMap::new();
    for hash in hashes(5_000) {
        let path = routes.path(&topology, HostId(0), HostId(11), hash);
        assert_eq!(path.len(), 4);
        *spines.entry(topology.peer_node(path[1])).or_default() += 1;
    }
    assert_eq!(spines.len(), 5);
    assert!(chi_square(&spines.into_values().collect::<Vec<_>>()) < bound(4));
}

#[test]
fn every_path_of_the_fat_tree_is_shortest_and_ends_at_its_host() {
    let (topology, routes) = fat_tree(4, 1);
    for src in 0..16 {
        for dst in (0..16).filter(|d| *d != src) {
            let links = if src / 2 == dst / 2 {
                2
            } else if src / 4 == dst / 4 {
                4
            } else {
                6
            };
            let mut distinct = BTreeSet::new();
            for hash in hashes(200) {
                let path = routes.path(&topology, HostId(src), HostId(dst), hash);
                assert_eq!(path.len(), links);
                assert_eq!(topology.peer_node(path[links - 1]), dst);
                for pair in path.windows(2) {
                    assert_eq!(topology.peer_node(pair[0]), topology.port(pair[1]).node);
                }
                distinct.insert(path);
            }
            // The hosts are joined by 1, k/2 and (k/2)^2 paths.
            assert_eq!(distinct.len(), [1, 2, 4][links / 2 - 1], "h{src} to h{dst}");
        }
    }
}
