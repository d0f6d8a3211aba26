//! Tests of dragonflies: their links, and routes with at most one link between groups.

use crate::common::spec;
use rnic_fabric::config::TopologySpec;
use rnic_fabric::{Routes, Topology, buffer_cycle, longest_path};
use rnic_transport::{BitRate, Time};
use std::collections::BTreeMap;

fn dragonfly([groups, routers_per_group, global_links, hosts_per_router]: [u32; 4]) -> TopologySpec {
    TopologySpec::Dragonfly {
        groups,
        routers_per_group,
        global_links,
        hosts_per_router,
        local_rate: None,
        local_delay: Some(Time::from_us(1)),
        global_rate: Some(BitRate::from_gbps(100)),
        global_delay: Some(Time::from_us(10)),
    }
}

#[test]
fn links_of_the_largest_dragonfly_by_hand() {
    // Figure 5 of Kim et al.: 4 routers of 2 global links and 2 hosts, 9 groups, 72 hosts.
    let topology = Topology::build(&spec(dragonfly([9, 4, 2, 2]))).unwrap();
    assert_eq!((topology.hosts, topology.nodes()), (72, 72 + 36));
    assert_eq!(topology.links.len(), 72 + 9 * 6 + 36);
    let group = |node: u32| (node - 72) / 4;
    let mut pairs: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for link in topology.links.iter().filter(|link| link.a >= 72 && group(link.a) != group(link.b)) {
        *pairs.entry((group(link.a), group(link.b))).or_default() += 1;
        assert_eq!((link.spec.rate, link.spec.delay), (BitRate::from_gbps(100), Time::from_us(10)));
    }
    assert_eq!(pairs.len(), 36, "all pairs of groups");
    assert!(pairs.values().all(|links| *links == 1));
    // Each router has 2 hosts, 3 local and 2 global links.
    assert!((72..108).all(|router| topology.ports_of(router).len() == 7));
    // Router 0 leads to the groups 1 and 2, to the routers with the last ports.
    let names: Vec<&str> =
        topology.ports_of(72).map(|port| topology.names[topology.peer_node(port) as usize].as_str()).collect();
    assert_eq!(names, ["h0", "h1", "router1", "router2", "router3", "router7", "router11"]);
}

#[test]
fn several_links_join_two_groups_of_a_small_dragonfly() {
    // 8 global ports of each group for 3 other groups: two links to each, and two ports without a link.
    let topology = Topology::build(&spec(dragonfly([4, 4, 2, 1]))).unwrap();
    let group = |node: u32| (node - 16) / 4;
    let global: Vec<_> = topology.links.iter().filter(|link| link.a >= 16 && group(link.a) != group(link.b)).collect();
    assert_eq!(global.len(), 6 * 2);
    let mut ends: Vec<(u32, u32)> = global.iter().map(|link| (link.a, link.b)).collect();
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), 12, "no two links join the same routers");
}

#[test]
fn paths_have_at_most_one_link_between_groups() {
    for shape in [[9, 4, 2, 2], [4, 4, 2, 1], [3, 2, 1, 1], [5, 3, 2, 2]] {
        let topology = Topology::build(&spec(dragonfly(shape))).unwrap();
        let routes = Routes::new(&topology, 1).unwrap();
        let hosts = topology.hosts;
        let group = |node: u32| (node - hosts) / shape[1];
        for src in topology.host_ids() {
            for dst in topology.host_ids().filter(|dst| *dst != src) {
                for hash in 0..4 {
                    let path = routes.path(&topology, src, dst, 0x9E37_79B9_u32.wrapping_mul(hash));
                    let routers: Vec<u32> =
                        path.iter().map(|port| topology.peer_node(*port)).filter(|node| *node >= hosts).collect();
                    let global = routers.windows(2).filter(|two| group(two[0]) != group(two[1])).count();
                    let is_same = group(routers[0]) == group(*routers.last().unwrap());
                    assert_eq!(global, usize::from(!is_same), "{shape:?} {src:?} {dst:?}");
                    // At most one link in each of the two groups.
                    assert!(routers.len() - 1 - global <= if is_same { 1 } else { 2 });
                }
            }
        }
    }
}

#[test]
fn the_longest_path_of_a_dragonfly() {
    // Host, local, global, local, host: 2 x 2 us, 2 x 1 us, 10 us.
    let longest = longest_path(&Topology::build(&spec(dragonfly([9, 4, 2, 2]))).unwrap());
    assert_eq!((longest.hops, longest.delay, longest.rate), (5, Time::from_us(16), BitRate::from_gbps(40)));
}

#[test]
fn pauses_can_wait_for_each_other() {
    // Minimal routes on one virtual channel are not free of cycles.
    let topology = Topology::build(&spec(dragonfly([9, 4, 2, 2]))).unwrap();
    let routes = Routes::new(&topology, 1).unwrap();
    assert!(buffer_cycle(&topology, &routes).is_some());
}

#[test]
fn impossible_dragonflies_are_refused() {
    let error = |shape| Topology::build(&spec(dragonfly(shape))).unwrap_err().to_string();
    let expected = "a dragonfly of 10 groups with 4 routers of 2 global links is impossible; accepted: 3 to 9 groups";
    assert_eq!(error([10, 4, 2, 2]), expected);
    assert!(error([2, 4, 2, 2]).ends_with("accepted: 3 to 9 groups"));
}
