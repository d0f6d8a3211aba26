//! Compares routes and longest paths that are computed from a tree's shape with the results of a search in a graph of
//! the same nodes and links.

use crate::common::*;
use proptest::prelude::*;
use rnic_fabric::config::{FabricSpec, NamedLink, NamedRoute, TopologySpec};
use rnic_fabric::rng::{Purpose, mix};
use rnic_fabric::{HostId, PathFacts, PortId, Routes, Topology, buffer_cycle, longest_path};
use rnic_transport::{BitRate, Time};

/// Trees of every kind: fat-tree, leaf-spine, and leaf-spine-core.
fn trees() -> impl Strategy<Value = TopologySpec> {
    let rate = prop::option::of((1u64..4).prop_map(|tens| BitRate::from_gbps(10 * tens)));
    let delay = prop::option::of((1u64..4).prop_map(Time::from_us));
    let pods = (1u32..5, 1u32..5, 1u32..4, 1u32..4, 1u32..4);
    let links = (rate.clone(), delay.clone(), rate.clone(), delay.clone());
    prop_oneof![
        1 => (1u32..4).prop_map(|half| TopologySpec::FatTree { k: 2 * half }),
        2 => (1u32..6, 1u32..5, 2u32..4, rate, delay).prop_map(|(leaves, spines, hosts, rate, delay)| {
            TopologySpec::LeafSpine { leaves, spines, hosts_per_leaf: hosts, uplink_rate: rate, uplink_delay: delay }
        }),
        4 => (pods, links).prop_filter_map("at least two hosts", |(pods, links)| {
            let (pods, leaves_per_pod, spines_per_pod, cores_per_plane, hosts_per_leaf) = pods;
            (pods * leaves_per_pod * hosts_per_leaf > 1).then_some(TopologySpec::LeafSpineCore {
                pods,
                leaves_per_pod,
                spines_per_pod,
                cores_per_plane,
                hosts_per_leaf,
                uplink_rate: links.0,
                uplink_delay: links.1,
                core_rate: links.2,
                core_delay: links.3,
            })
        }),
    ]
}

/// The nodes and links of `topology` as a graph, for which routes are searched because the shape is unknown.
fn as_graph(topology: &Topology) -> Topology {
    let (hosts, switches) = topology.names.split_at(topology.hosts as usize);
    let mut graph = spec(TopologySpec::Graph { hosts: hosts.to_vec(), switches: switches.to_vec() });
    let name = |node: u32| topology.names[node as usize].clone();
    let link = |link: &rnic_fabric::topology::Link| NamedLink {
        from: name(link.a),
        to: name(link.b),
        rate: Some(link.spec.rate),
        delay: Some(link.spec.delay),
        loss: Some(link.spec.loss),
    };
    graph.links = topology.links.iter().map(link).collect();
    let graph = Topology::build(&graph).unwrap();
    assert_eq!((&graph.ports, &graph.first_port), (&topology.ports, &topology.first_port));
    graph
}

/// The tree with some of its links changed.
fn with_changes(tree: TopologySpec, changes: &[(usize, u64, u64)]) -> FabricSpec {
    let mut spec = spec(tree);
    let plain = Topology::build(&spec).unwrap();
    let name = |node: u32| plain.names[node as usize].clone();
    let change = |(link, us, gbps): &(usize, u64, u64)| {
        let link = plain.links[link % plain.links.len()];
        let (rate, delay) = (Some(BitRate::from_gbps(*gbps)), Some(Time::from_us(*us)));
        NamedLink { from: name(link.b), to: name(link.a), rate, delay, loss: None }
    };
    spec.links = changes.iter().map(change).collect();
    spec
}

/// Finds the longest path by trying every pair of hosts. Of the paths with the fewest links between two hosts, the path
/// with the most delay counts. Of equally long paths, the first counts, in order of last switch, destination and
/// source.
fn longest_of_all_pairs(topology: &Topology) -> PathFacts {
    let nodes = topology.nodes();
    let mut longest = PathFacts { hops: 0, delay: Time::ZERO, rate: BitRate::from_bps(u64::MAX) };
    let mut last_ports: Vec<PortId> =
        topology.host_ids().map(|host| topology.port(topology.host_port(host)).peer).collect();
    last_ports.sort_unstable();
    for last in last_ports {
        let (switch, dst) = (topology.port(last).node, topology.peer_node(last));
        // Round n extends the best paths to nodes that are n links away from the switch. Hosts are only at the ends of
        // paths.
        let mut best: Vec<Option<PathFacts>> = vec![None; nodes as usize];
        best[switch as usize] = Some(PathFacts { hops: 0, delay: Time::ZERO, rate: BitRate::from_bps(u64::MAX) });
        for hops in 1..=nodes {
            let before = best.clone();
            for node in (0..nodes).filter(|node| before[*node as usize].is_none()) {
                let step = |port: PortId| {
                    let next = topology.peer_node(port);
                    let rest = before[next as usize].filter(|_| !topology.is_host(next))?;
                    let link = topology.port(port).link;
                    Some(PathFacts { hops, delay: rest.delay + link.delay, rate: rest.rate.min(link.rate) })
                };
                best[node as usize] = topology.ports_of(node).filter_map(step).max_by_key(|path| path.delay);
            }
        }
        for src in (0..topology.hosts).filter(|src| *src != dst) {
            let (Some(way), link) = (best[src as usize], topology.port(last).link) else { continue };
            let path = PathFacts { hops: way.hops + 1, delay: way.delay + link.delay, rate: way.rate.min(link.rate) };
            if (path.delay, path.hops) > (longest.delay, longest.hops) {
                longest = path;
            }
        }
    }
    longest
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_sends_packets_by_the_ports_of_the_same_graph(
        tree in trees(),
        changes in prop::collection::vec((any::<usize>(), 1u64..9, 1u64..90), 0..4),
        wanted in prop_oneof![
            3 => Just(Vec::new()),
            1 => prop::collection::vec((any::<usize>(), any::<usize>(), any::<usize>()), 1..4),
        ],
        seed: u64,
    ) {
        let topology = Topology::build(&with_changes(tree, &changes)).unwrap();
        let graph = as_graph(&topology);
        let (hosts, nodes) = (topology.hosts, topology.nodes());
        let named: Vec<NamedRoute> = wanted
            .iter()
            .map(|(at, to, via)| {
                let at = hosts + (at % (nodes - hosts) as usize) as u32;
                let ports: Vec<PortId> = topology.ports_of(at).collect();
                let via = topology.peer_node(ports[via % ports.len()]);
                let name = |node: u32| topology.names[node as usize].clone();
                NamedRoute { at: name(at), to: vec![name((to % hosts as usize) as u32)], via: name(via) }
            })
            .collect();
        let (computed, searched) = (Routes::with(&topology, &named, seed), Routes::with(&graph, &named, seed));
        prop_assert_eq!(computed.as_ref().err(), searched.as_ref().err());
        let (Ok(computed), Ok(searched)) = (computed, searched) else { return Ok(()) };
        let other = seed.wrapping_add(1);
        prop_assert_eq!(&computed.reseeded(&topology, other), &Routes::with(&topology, &named, other).unwrap());
        prop_assert_eq!(&searched.reseeded(&graph, other), &Routes::with(&graph, &named, other).unwrap());
        for (switch, dst) in (hosts..nodes).flat_map(|switch| (0..hosts).map(move |dst| (switch, dst))) {
            for flow in 0..16 {
                let hash = mix(seed, Purpose::FlowHash, &[flow]) as u32;
                let ports = [&computed, &searched].map(|routes| routes.port(switch, HostId(dst), hash));
                prop_assert_eq!(ports[0], ports[1], "at {} to host {}", &topology.names[switch as usize], dst);
            }
        }
        prop_assert_eq!(buffer_cycle(&topology, &computed).is_some(), buffer_cycle(&graph, &searched).is_some());
    }

    #[test]
    fn the_longest_path_is_that_of_all_pairs(
        tree in trees(),
        changes in prop::collection::vec((any::<usize>(), 1u64..9, 1u64..90), 0..9),
    ) {
        let topology = Topology::build(&with_changes(tree, &changes)).unwrap();
        let expected = longest_of_all_pairs(&topology);
        prop_assert_eq!(longest_path(&topology), expected);
        prop_assert_eq!(longest_path(&as_graph(&topology)), expected);
    }
}

#[test]
fn the_longest_path_may_be_between_two_later_pods() {
    let mut spec = spec(TopologySpec::LeafSpineCore {
        pods: 4,
        leaves_per_pod: 2,
        spines_per_pod: 2,
        cores_per_plane: 2,
        hosts_per_leaf: 1,
        uplink_rate: None,
        uplink_delay: None,
        core_rate: None,
        core_delay: None,
    });
    for (spine, gbps) in [("spine4", 30), ("spine6", 25)] {
        let mut slow = with_rate(link(spine, "core0"), BitRate::from_gbps(gbps));
        slow.delay = Some(Time::from_us(20));
        spec.links.push(slow);
    }
    // The longest path has two slow links of 20 us and four links of 2 us.
    let expected = PathFacts { hops: 6, delay: Time::from_us(48), rate: BitRate::from_gbps(25) };
    assert_eq!(longest_path(&Topology::build(&spec).unwrap()), expected);
}

#[test]
fn hosts_in_pods_without_a_core_between_them_are_named() {
    let split = TopologySpec::LeafSpineCore {
        pods: 2,
        leaves_per_pod: 1,
        spines_per_pod: 2,
        cores_per_plane: 0,
        hosts_per_leaf: 2,
        uplink_rate: None,
        uplink_delay: None,
        core_rate: None,
        core_delay: None,
    };
    let topology = Topology::build(&spec(split)).unwrap();
    let error = Routes::new(&topology, 1).unwrap_err();
    assert_eq!(error.to_string(), "no path from host h0 to host h2; every host must reach every other");
}
