//! Tests of routes and of the longest path on topologies of every kind, and of topologies and routes that are refused.

use crate::common::*;
use proptest::prelude::*;
use rnic_fabric::config::{FabricSpec, NamedRoute, TopologySpec};
use rnic_fabric::{Fabric, HostId, PathFacts, PortId, Routes, Topology, TopologyError, buffer_cycle, longest_path};
use rnic_transport::{BitRate, Time};

fn longest(spec: &FabricSpec) -> PathFacts {
    longest_path(&Topology::build(spec).unwrap())
}

fn facts(hops: u32, us: u64, gbps: u64) -> PathFacts {
    PathFacts { hops, delay: Time::from_us(us), rate: BitRate::from_gbps(gbps) }
}

/// A ring of n switches s0 to s(n-1), each with one host, h0 to h(n-1).
fn ring(n: usize) -> FabricSpec {
    let hosts: Vec<String> = (0..n).map(|i| format!("h{i}")).collect();
    let switches: Vec<String> = (0..n).map(|i| format!("s{i}")).collect();
    let mut spec = spec(TopologySpec::Graph { hosts: hosts.clone(), switches: switches.clone() });
    for i in 0..n {
        spec.links.push(link(&hosts[i], &switches[i]));
        spec.links.push(link(&switches[i], &switches[(i + 1) % n]));
    }
    spec
}

/// A leaf-spine-core topology with the given numbers of pods, leaves per pod, spines per pod, cores per plane and hosts
/// per leaf. Links in a pod have 10 Gbps and 5 us; links to cores have 25 Gbps and 7 us.
fn pods([pods, leaves_per_pod, spines_per_pod, cores_per_plane, hosts_per_leaf]: [u32; 5]) -> TopologySpec {
    TopologySpec::LeafSpineCore {
        pods,
        leaves_per_pod,
        spines_per_pod,
        cores_per_plane,
        hosts_per_leaf,
        uplink_rate: Some(BitRate::from_gbps(10)),
        uplink_delay: Some(Time::from_us(5)),
        core_rate: Some(BitRate::from_gbps(25)),
        core_delay: Some(Time::from_us(7)),
    }
}

#[test]
fn the_longest_path_of_regular_topologies() {
    assert_eq!(longest(&spec(TopologySpec::SingleSwitch { hosts: 5 })), facts(2, 4, 40));
    assert_eq!(longest(&spec(TopologySpec::FatTree { k: 4 })), facts(6, 12, 40));
    assert_eq!(longest(&spec(TopologySpec::FatTree { k: 6 })), facts(6, 12, 40));
    // This fat-tree has one host per pod and one core switch.
    assert_eq!(longest(&spec(TopologySpec::FatTree { k: 2 })), facts(6, 12, 40));
    let leaf_spine = |leaves| TopologySpec::LeafSpine {
        leaves,
        spines: 2,
        hosts_per_leaf: 3,
        uplink_rate: Some(BitRate::from_gbps(10)),
        uplink_delay: Some(Time::from_us(5)),
    };
    assert_eq!(longest(&spec(leaf_spine(4))), facts(4, 14, 10));
    assert_eq!(longest(&spec(leaf_spine(1))), facts(2, 4, 40));
    // The path has two host links of 2 us, two links in pods of 5 us, and two links to a core of 7 us.
    assert_eq!(longest(&spec(pods([3, 2, 2, 4, 1]))), facts(6, 28, 10));
    assert_eq!(longest(&spec(pods([1, 2, 2, 4, 1]))), facts(4, 14, 10));
    let dumbbell = TopologySpec::Dumbbell {
        left: 2,
        right: 3,
        bottleneck_rate: Some(BitRate::from_gbps(25)),
        bottleneck_delay: None,
    };
    assert_eq!(longest(&spec(dumbbell)), facts(3, 6, 25));
}

#[test]
fn the_longest_path_is_that_of_most_delay_even_over_fewer_links() {
    let mut spec = spec(TopologySpec::FatTree { k: 4 });
    // Two hosts under the same switch have long links: the delay of 2 x 20 us exceeds that of six links of 2 us.
    for host in ["h4", "h5"] {
        let mut link = link(host, "edge2");
        link.delay = Some(Time::from_us(20));
        spec.links.push(link);
    }
    // A path from h4 over six links takes 20 + 5 x 2 us, which is less than the 40 us from h4 to h5.
    assert_eq!(longest(&spec), facts(2, 40, 40));
}

#[test]
fn in_a_ring_the_shorter_way_is_taken_and_both_if_equal() {
    let odd = Topology::build(&ring(5)).unwrap();
    let routes = Routes::new(&odd, 1).unwrap();
    let names = |topology: &Topology, path: Vec<PortId>| -> Vec<String> {
        path.iter().map(|p| topology.names[topology.peer_node(*p) as usize].clone()).collect()
    };
    for hash in 0..50 {
        assert_eq!(names(&odd, routes.path(&odd, HostId(0), HostId(2), hash)), ["s0", "s1", "s2", "h2"]);
        assert_eq!(names(&odd, routes.path(&odd, HostId(0), HostId(3), hash)), ["s0", "s4", "s3", "h3"]);
    }
    assert_eq!(longest(&ring(5)), facts(4, 8, 40));

    let even = Topology::build(&ring(6)).unwrap();
    let routes = Routes::new(&even, 1).unwrap();
    let clockwise = (0..400).filter(|h| names(&even, routes.path(&even, HostId(0), HostId(3), *h))[1] == "s1").count();
    assert!((120..280).contains(&clockwise), "{clockwise} of 400");
    assert_eq!(longest(&ring(6)), facts(5, 10, 40));
}

#[test]
fn a_switch_without_hosts_and_one_with_hosts_in_the_middle_both_forward() {
    let links = [("a", "s"), ("s", "t"), ("t", "u"), ("u", "v"), ("b", "v"), ("c", "t")];
    let mut fabric = Fabric::new(&graph(&["a", "b", "c"], &["s", "t", "u", "v"], &links), 1).unwrap();
    let mut script = Script::new(3);
    for (src, dst) in [(0, 1), (1, 0), (0, 2), (2, 1)] {
        script.send(src, 0, packet(dst, FRAME, 10 * src + dst));
    }
    fabric.run(&mut script);
    let links = |at: u64| at / (T + 2 * US);
    let mut arrived: Vec<_> = script.arrived.iter().map(|s| (s.host, s.id, links(s.at))).collect();
    arrived.sort_unstable();
    // The second packet of a, and the packet that c sends into the same link, arrive one frame time later; the division
    // above rounds to whole links.
    assert_eq!(arrived, [(0, 10, 5), (1, 1, 5), (1, 21, 4), (2, 2, 3)]);
}

#[test]
fn hosts_that_cannot_reach_each_other_are_named() {
    let links = [("a", "s"), ("b", "s"), ("c", "t"), ("d", "t")];
    let spec = graph(&["a", "b", "c", "d"], &["s", "t"], &links);
    let error = Fabric::<u32>::new(&spec, 1).err().unwrap();
    assert_eq!(error.to_string(), "no path from host a to host c; every host must reach every other");
}

#[test]
fn paths_never_lead_through_a_host() {
    // The only path from a to c would lead through host b, which has two links; the topology is refused.
    let links = [("a", "s"), ("b", "s"), ("b", "t"), ("c", "t")];
    let error = Topology::build(&graph(&["a", "b", "c"], &["s", "t"], &links)).unwrap_err();
    assert_eq!(error.to_string(), "host `b` has 2 links; a host has exactly one");
}

#[test]
fn impossible_fabrics_are_refused_with_a_reason() {
    let refused = |spec: &FabricSpec| match Fabric::<u32>::new(spec, 1).err().unwrap() {
        TopologyError::Invalid(reason) => reason,
        other => panic!("{other}"),
    };
    assert!(refused(&spec(TopologySpec::FatTree { k: 5 })).contains("even k"));
    assert!(refused(&spec(TopologySpec::SingleSwitch { hosts: 1 })).contains("at least 2 hosts"));
    let mut unknown = spec(TopologySpec::FatTree { k: 4 });
    unknown.links = vec![link("h0", "core0")];
    assert!(refused(&unknown).contains("no link between `h0` and `core0`"));
    unknown.links = vec![link("h0", "nowhere")];
    assert!(refused(&unknown).contains("no node is called `nowhere`"));
    assert!(refused(&graph(&["a", "b"], &["s"], &[("a", "b")])).contains("linked directly"));
    assert!(refused(&graph(&["a", "a"], &["s"], &[("a", "s")])).contains("same name"));
    assert!(refused(&graph(&["a", "b"], &["s"], &[("a", "s"), ("s", "s"), ("b", "s")])).contains("to itself"));
}

#[test]
fn a_link_without_a_rate_is_refused() {
    let mut none = spec(TopologySpec::SingleSwitch { hosts: 2 });
    none.link.rate = BitRate::from_bps(0);
    let error = Fabric::<u32>::new(&none, 1).err().unwrap();
    assert!(error.to_string().contains("rate"), "{error}");
}

#[test]
fn ports_of_a_link_point_at_each_other() {
    for topology in [
        TopologySpec::FatTree { k: 4 },
        TopologySpec::SingleSwitch { hosts: 3 },
        TopologySpec::Dumbbell { left: 1, right: 2, bottleneck_rate: None, bottleneck_delay: None },
        pods([3, 2, 4, 5, 1]),
    ] {
        let topology = Topology::build(&spec(topology)).unwrap();
        for (number, port) in topology.port_ids().zip(&topology.ports) {
            assert_eq!(topology.port(port.peer).peer, number);
            assert!(topology.ports_of(port.node).any(|own| own == number));
        }
        assert_eq!(topology.ports.len(), 2 * topology.links.len());
    }
}

#[test]
fn pods_are_wired_in_planes() {
    let topology = Topology::build(&spec(pods([3, 2, 2, 4, 3]))).unwrap();
    assert_eq!((topology.hosts, topology.nodes()), (18, 18 + 6 + 6 + 8));
    let ports = |name: &str| -> Vec<String> {
        let node = topology.names.iter().position(|n| n == name).unwrap() as u32;
        topology.ports_of(node).map(|port| topology.names[topology.peer_node(port) as usize].clone()).collect()
    };
    assert_eq!(ports("h17"), ["leaf5"]);
    // `leaf3` is leaf 1 of pod 1, and `spine3` is spine 1 of pod 1. `core6` is a core of the plane of `spine3`.
    assert_eq!(ports("leaf3"), ["h9", "h10", "h11", "spine2", "spine3"]);
    assert_eq!(ports("spine3"), ["leaf2", "leaf3", "core4", "core5", "core6", "core7"]);
    assert_eq!(ports("core6"), ["spine1", "spine3", "spine5"]);
    let link = |name: &str, port: usize| {
        let node = topology.names.iter().position(|n| n == name).unwrap();
        let link = topology.ports[topology.first_port[node].index() + port].link;
        (link.rate.as_bps() / 1_000_000_000, link.delay.as_ps() / US)
    };
    assert_eq!([link("leaf3", 0), link("leaf3", 4)], [(40, 2), (10, 5)]);
    assert_eq!([link("spine3", 1), link("spine3", 5)], [(10, 5), (25, 7)]);
}

#[test]
fn pods_like_those_of_a_fat_tree_are_a_fat_tree() {
    let plain = TopologySpec::LeafSpineCore {
        pods: 6,
        leaves_per_pod: 3,
        spines_per_pod: 3,
        cores_per_plane: 3,
        hosts_per_leaf: 3,
        uplink_rate: None,
        uplink_delay: None,
        core_rate: None,
        core_delay: None,
    };
    let (pods, tree) = (Topology::build(&spec(plain)), Topology::build(&spec(TopologySpec::FatTree { k: 6 })));
    let (pods, tree) = (pods.unwrap(), tree.unwrap());
    assert_eq!((&pods.links, &pods.ports, &pods.first_port), (&tree.links, &tree.ports, &tree.first_port));
    let names: Vec<String> =
        tree.names.iter().map(|name| name.replace("edge", "leaf").replace("agg", "spine")).collect();
    assert_eq!(pods.names, names);
}

#[test]
fn packets_to_another_pod_may_take_every_spine_and_every_core_of_its_plane() {
    let topology = Topology::build(&spec(pods([3, 2, 2, 4, 1]))).unwrap();
    let routes = Routes::new(&topology, 1).unwrap();
    let hash = |i: u64| rnic_fabric::rng::mix(7, rnic_fabric::rng::Purpose::FlowHash, &[i]) as u32;
    let ways =
        |dst| (0..500).map(|i| way(&topology, &routes, 0, dst, hash(i))).collect::<std::collections::BTreeSet<_>>();
    let in_pod: Vec<Vec<String>> = ways(1).into_iter().collect();
    assert_eq!(in_pod, [["leaf0", "spine0", "leaf1", "h1"], ["leaf0", "spine1", "leaf1", "h1"]]);
    let far = ways(4);
    assert_eq!(far.len(), 8);
    for way in far {
        let plane = if way[1] == "spine0" { 0..4 } else { 4..8 };
        let core = way[2].strip_prefix("core").unwrap().parse().unwrap();
        assert!(plane.contains(&core), "{way:?}");
        assert_eq!([&way[3], &way[4]], [if plane.start == 0 { "spine4" } else { "spine5" }, "leaf4"]);
    }
}

fn route(at: &str, to: &[&str], via: &str) -> NamedRoute {
    NamedRoute { at: at.into(), to: to.iter().map(|name| (*name).to_string()).collect(), via: via.into() }
}

/// The nodes that a flow's packets pass after the sending host.
fn way(topology: &Topology, routes: &Routes, src: u32, dst: u32, hash: u32) -> Vec<String> {
    let path = routes.path(topology, HostId(src), HostId(dst), hash);
    path.iter().map(|port| topology.names[topology.peer_node(*port) as usize].clone()).collect()
}

#[test]
fn a_named_route_changes_one_switch_and_one_destination() {
    let leaf_spine =
        TopologySpec::LeafSpine { leaves: 3, spines: 2, hosts_per_leaf: 2, uplink_rate: None, uplink_delay: None };
    let topology = Topology::build(&spec(leaf_spine)).unwrap();
    let plain = Routes::new(&topology, 1).unwrap();
    // Packets for h0 that spine0 receives go down to leaf2, which sends them up again to the other spine.
    let named = [route("spine0", &["h0"], "leaf2"), route("leaf2", &["h0"], "spine1")];
    let routes = Routes::with(&topology, &named, 1).unwrap();
    let mut bounced = 0;
    for hash in 0..200 {
        let before = way(&topology, &plain, 2, 0, hash);
        let after = way(&topology, &routes, 2, 0, hash);
        if before[1] == "spine0" {
            bounced += 1;
            assert_eq!(after, ["leaf1", "spine0", "leaf2", "spine1", "leaf0", "h0"]);
        } else {
            assert_eq!(after, before);
        }
        // Packets to h1, on the same switch as h0, and packets between other pairs of hosts keep their paths.
        for (src, dst) in [(2, 1), (0, 3), (4, 2), (1, 0)] {
            assert_eq!(way(&topology, &routes, src, dst, hash), way(&topology, &plain, src, dst, hash));
        }
    }
    assert!((60..140).contains(&bounced), "{bounced} of 200");
}

#[test]
fn a_named_route_uses_every_link_to_its_neighbour() {
    let links = [("a", "s"), ("s", "t"), ("s", "t"), ("s", "u"), ("u", "t"), ("b", "t")];
    let topology = Topology::build(&graph(&["a", "b"], &["s", "t", "u"], &links)).unwrap();
    let direct = Routes::with(&topology, &[route("s", &["b"], "t")], 1).unwrap();
    let first: std::collections::BTreeSet<PortId> =
        (0..50).map(|hash| direct.path(&topology, HostId(0), HostId(1), hash)[1]).collect();
    assert_eq!(first.len(), 2);
    let detour = Routes::with(&topology, &[route("s", &["b"], "u"), route("t", &["b"], "b")], 1).unwrap();
    assert_eq!(way(&topology, &detour, 0, 1, 7), ["s", "u", "t", "b"]);
}

#[test]
fn impossible_routes_are_refused_with_a_reason() {
    let topology = Topology::build(&ring(4)).unwrap();
    let refused = |named: &[NamedRoute]| match Routes::with(&topology, named, 1).unwrap_err() {
        TopologyError::Route { index, reason } => (index, reason),
        other => panic!("{other}"),
    };
    let fine = || route("s0", &["h1"], "s1");
    let message = |bad: NamedRoute| {
        let (index, reason) = refused(&[fine(), bad]);
        assert_eq!(index, 1, "{reason}");
        reason
    };
    assert!(message(route("s9", &["h1"], "s0")).contains("names `s9`, but no node is called that"));
    assert!(message(route("s1", &["h7"], "s0")).contains("`h7`"));
    assert!(message(route("s1", &["h3"], "s9")).contains("`s9`"));
    assert!(message(route("h0", &["h3"], "s0")).contains("only switches have routes"));
    assert!(message(route("s0", &["h3"], "s2")).contains("no link joins the two"));
    assert!(message(route("s0", &["s3"], "s1")).contains("routes lead to hosts"));
    assert!(message(route("s0", &["h2"], "h0")).contains("hosts do not forward"));
    assert!(message(route("s0", &["h2", "h1"], "s1")).contains("a second route at `s0` to `h1`"));
    // The next hop of s1 towards h2 would be s2. This route sends packets back to s0, which sends them to s1 or s3;
    // from s1 they come back again.
    let loops = message(route("s1", &["h2"], "s0"));
    assert!(loops.contains("packets to `h2` would circle for ever through "), "{loops}");
    assert!(loops.contains("s0 -> s1 -> s0") || loops.contains("s1 -> s0 -> s1"), "{loops}");
    // Here the switch of host h2 itself sends packets for h2 away.
    assert!(message(route("s2", &["h2"], "s3")).contains("would circle"));
    // These two routes make a loop only together; the error names the later route.
    let both = [route("s0", &["h2"], "s1"), route("s1", &["h2"], "s0")];
    assert_eq!(refused(&both).0, 1);
}

#[test]
fn packets_follow_a_named_route() {
    let mut spec = ring(4);
    spec.routes = vec![route("s0", &["h1"], "s3")];
    // s3 has two equally short paths to h1, one of them through s0, so it needs a route too.
    spec.routes.push(route("s3", &["h1"], "s2"));
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let mut script = Script::new(4);
    script.send(0, 0, packet(1, FRAME, 1));
    script.send(2, 0, packet(1, FRAME, 2));
    fabric.run(&mut script);
    // The packet from h0 takes five links instead of three.
    assert_eq!(script.arrivals(1), [(3 * (T + 2 * US), 2), (5 * (T + 2 * US), 1)]);
}

/// The switches of the ports of a cyclic buffer dependency, beginning with the lowest port.
fn cycle(spec: &FabricSpec, named: &[NamedRoute]) -> Option<Vec<String>> {
    let topology = Topology::build(spec).unwrap();
    let mut cycle = buffer_cycle(&topology, &Routes::with(&topology, named, 1).unwrap())?;
    for (index, port) in cycle.iter().enumerate() {
        let next = cycle[(index + 1) % cycle.len()];
        assert_eq!(topology.peer_node(*port), topology.port(next).node, "each leads to the switch of the next");
    }
    let lowest = cycle.iter().enumerate().min_by_key(|(_, port)| **port).unwrap().0;
    cycle.rotate_left(lowest);
    Some(cycle.iter().map(|port| topology.names[topology.port(*port).node as usize].clone()).collect())
}

#[test]
fn up_and_down_allows_no_cycle_of_buffers() {
    let leaf_spine = |spines, hosts_per_leaf| TopologySpec::LeafSpine {
        leaves: 4,
        spines,
        hosts_per_leaf,
        uplink_rate: None,
        uplink_delay: None,
    };
    let dumbbell = TopologySpec::Dumbbell { left: 2, right: 3, bottleneck_rate: None, bottleneck_delay: None };
    let trees = [2, 4, 6].map(|k| TopologySpec::FatTree { k });
    let others = [leaf_spine(2, 3), leaf_spine(1, 1), dumbbell, pods([3, 2, 2, 3, 2]), pods([2, 3, 1, 1, 1])];
    for topology in trees.into_iter().chain(others) {
        assert_eq!(cycle(&spec(topology.clone()), &[]), None, "{topology:?}");
    }
    assert_eq!(cycle(&spec(TopologySpec::SingleSwitch { hosts: 3 }), &[]), None);
}

#[test]
fn a_ring_allows_a_cycle_once_packets_cross_two_of_its_links() {
    assert_eq!(cycle(&ring(3), &[]), None);
    for n in [4, 5, 7] {
        assert_eq!(cycle(&ring(n), &[]).unwrap().len(), n);
    }
}

#[test]
fn routes_that_no_packet_takes_any_more_allow_no_cycle() {
    // Every packet takes the line s0 - s1 - s2 - s3, and no packet takes the link that closes the ring.
    let line = [
        route("s1", &["h0"], "s0"),
        route("s2", &["h0", "h1"], "s1"),
        route("s3", &["h0", "h1", "h2"], "s2"),
        route("s0", &["h1", "h2", "h3"], "s1"),
        route("s1", &["h2", "h3"], "s2"),
        route("s2", &["h3"], "s3"),
    ];
    assert_eq!(cycle(&ring(4), &line), None);
}

#[test]
fn broken_routes_that_close_a_circle_are_found() {
    // Each route takes the long way round a triangle. One or two such routes do not close a cycle; three routes do.
    let around = [route("s0", &["h1"], "s2"), route("s1", &["h2"], "s0"), route("s2", &["h0"], "s1")];
    assert_eq!((cycle(&ring(3), &around[..1]), cycle(&ring(3), &around[..2])), (None, None));
    assert_eq!(cycle(&ring(3), &around).unwrap(), ["s0", "s2", "s1"]);
    // In a leaf-spine fabric, packets for two destinations go down and up again, in opposite directions.
    let fabric = spec(TopologySpec::LeafSpine {
        leaves: 4,
        spines: 2,
        hosts_per_leaf: 1,
        uplink_rate: None,
        uplink_delay: None,
    });
    let bounces = [
        route("spine0", &["h2"], "leaf1"),
        route("leaf1", &["h2"], "spine1"),
        route("spine1", &["h3"], "leaf0"),
        route("leaf0", &["h3"], "spine0"),
    ];
    assert_eq!(cycle(&fabric, &bounces[..2]), None);
    assert_eq!(cycle(&fabric, &bounces).unwrap(), ["leaf0", "spine0", "leaf1", "spine1"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Named routes are either refused, or every packet arrives. The ports on the packets' paths form a cycle only if
    /// `buffer_cycle` finds a cycle.
    #[test]
    fn routes_by_hand_lead_somewhere_or_are_refused(
        kind in 0usize..3,
        wanted in prop::collection::vec((0usize..20, 0usize..20, 0usize..8), 0..6),
    ) {
        let leaf_spine =
            TopologySpec::LeafSpine { leaves: 3, spines: 2, hosts_per_leaf: 2, uplink_rate: None, uplink_delay: None };
        let spec = [ring(5), spec(leaf_spine), spec(TopologySpec::FatTree { k: 4 })].into_iter().nth(kind).unwrap();
        let topology = Topology::build(&spec).unwrap();
        let (hosts, nodes) = (topology.hosts as usize, topology.nodes() as usize);
        let named: Vec<NamedRoute> = wanted
            .iter()
            .map(|(at, to, via)| {
                let at = hosts + at % (nodes - hosts);
                let ports: Vec<PortId> = topology.ports_of(at as u32).collect();
                let via = topology.peer_node(ports[via % ports.len()]) as usize;
                route(&topology.names[at], &[&topology.names[to % hosts]], &topology.names[via])
            })
            .collect();
        let checked = Routes::check(&topology, &named);
        let routes = Routes::with(&topology, &named, 1);
        prop_assert_eq!(checked.is_ok(), routes.is_ok());
        let Ok(routes) = routes else { return Ok(()) };
        let mut edges = vec![std::collections::BTreeSet::new(); topology.ports.len()];
        for (src, dst, hash) in (0..hosts * hosts).flat_map(|pair| (0..8).map(move |hash| (pair / hosts, pair % hosts, hash))) {
            if src == dst {
                continue;
            }
            let mut port = topology.host_port(HostId(src as u32));
            for step in 0.. {
                let node = topology.peer_node(port);
                if topology.is_host(node) {
                    prop_assert_eq!(node as usize, dst);
                    break;
                }
                prop_assert!(step < nodes, "a packet from {} to {} circles", src, dst);
                let first = topology.first_port[node as usize];
                let next = PortId(first.0 + routes.port(node, HostId(dst as u32), hash * 77));
                edges[port.index()].insert(next.index());
                port = next;
            }
        }
        if buffer_cycle(&topology, &routes).is_none() {
            // If ports that depend on no other remaining port are removed repeatedly, no port may be left.
            let mut left: Vec<usize> = (0..edges.len()).collect();
            loop {
                let before = left.len();
                let kept = left.clone();
                left.retain(|port| edges[*port].iter().any(|next| kept.contains(next)));
                if left.len() == before {
                    break;
                }
            }
            prop_assert!(left.is_empty(), "{:?}", named);
        }
    }
}
