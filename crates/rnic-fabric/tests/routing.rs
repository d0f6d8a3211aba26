//! Routes and path facts on topologies of every kind, and what is refused.

mod common;

use common::*;
use rnic_fabric::config::{FabricSpec, TopologySpec};
use rnic_fabric::{Fabric, PathFacts, Routes, Topology, TopologyError, longest_path};
use rnic_transport::{BitRate, Time};

fn longest(spec: &FabricSpec) -> PathFacts {
    longest_path(&Topology::build(spec).unwrap())
}

fn facts(hops: u32, us: u64, gbps: u64) -> PathFacts {
    PathFacts { hops, delay: Time::from_us(us), rate: BitRate::from_gbps(gbps) }
}

/// h0 .. h(n-1), each on its own switch s0 .. s(n-1), the switches in a ring.
fn ring(n: usize) -> FabricSpec {
    let hosts: Vec<String> = (0..n).map(|i| format!("h{i}")).collect();
    let switches: Vec<String> = (0..n).map(|i| format!("s{i}")).collect();
    let mut spec = spec(TopologySpec::Graph { hosts: hosts.clone(), switches: switches.clone() });
    for i in 0..n {
        spec.links.push(cable(&hosts[i], &switches[i]));
        spec.links.push(cable(&switches[i], &switches[(i + 1) % n]));
    }
    spec
}

#[test]
fn the_longest_path_of_regular_topologies() {
    assert_eq!(longest(&spec(TopologySpec::SingleSwitch { hosts: 5 })), facts(2, 4, 40));
    assert_eq!(longest(&spec(TopologySpec::FatTree { k: 4 })), facts(6, 12, 40));
    assert_eq!(longest(&spec(TopologySpec::FatTree { k: 6 })), facts(6, 12, 40));
    // One host per pod and one core switch.
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
    // Two hosts under the same switch with long cables: 2 x 20 us beats six links of 2 us.
    for host in ["h4", "h5"] {
        let mut link = cable(host, "edge2");
        link.delay = Some(Time::from_us(20));
        spec.links.push(link);
    }
    // From h4 over six links it is still longer: 20 + 5 x 2 us; from h4 to h5 40 us.
    assert_eq!(longest(&spec), facts(2, 40, 40));
}

#[test]
fn in_a_ring_the_shorter_way_is_taken_and_both_if_equal() {
    let odd = Topology::build(&ring(5)).unwrap();
    let routes = Routes::new(&odd, 1).unwrap();
    let names = |topology: &Topology, path: Vec<usize>| -> Vec<String> {
        path.iter().map(|p| topology.names[topology.peer_node(*p) as usize].clone()).collect()
    };
    for hash in 0..50 {
        assert_eq!(names(&odd, routes.path(&odd, 0, 2, hash)), ["s0", "s1", "s2", "h2"]);
        assert_eq!(names(&odd, routes.path(&odd, 0, 3, hash)), ["s0", "s4", "s3", "h3"]);
    }
    assert_eq!(longest(&ring(5)), facts(4, 8, 40));

    let even = Topology::build(&ring(6)).unwrap();
    let routes = Routes::new(&even, 1).unwrap();
    let clockwise = (0..400).filter(|h| names(&even, routes.path(&even, 0, 3, *h))[1] == "s1").count();
    assert!((120..280).contains(&clockwise), "{clockwise} of 400");
    assert_eq!(longest(&ring(6)), facts(5, 10, 40));
}

#[test]
fn a_switch_without_hosts_and_one_with_hosts_in_the_middle_both_forward() {
    let cables = [("a", "s"), ("s", "t"), ("t", "u"), ("u", "v"), ("b", "v"), ("c", "t")];
    let mut fabric = Fabric::new(&graph(&["a", "b", "c"], &["s", "t", "u", "v"], &cables), 1).unwrap();
    let mut script = Script::new(3);
    for (src, dst) in [(0, 1), (1, 0), (0, 2), (2, 1)] {
        script.send(src, 0, packet(dst, FRAME, 10 * src + dst));
    }
    fabric.run(&mut script);
    let links = |at: u64| at / (T + 2 * US);
    let mut arrived: Vec<_> = script.arrived.iter().map(|s| (s.host, s.id, links(s.at))).collect();
    arrived.sort_unstable();
    // a's second packet and the one that c sends into the same cable come a frame time later; whole links still.
    assert_eq!(arrived, [(0, 10, 5), (1, 1, 5), (1, 21, 4), (2, 2, 3)]);
}

#[test]
fn hosts_that_cannot_reach_each_other_are_named() {
    let cables = [("a", "s"), ("b", "s"), ("c", "t"), ("d", "t")];
    let spec = graph(&["a", "b", "c", "d"], &["s", "t"], &cables);
    let error = Fabric::<u32>::new(&spec, 1).err().unwrap();
    assert_eq!(error.to_string(), "no path from host a to host c; every host must reach every other");
}

#[test]
fn paths_never_lead_through_a_host() {
    // A host with two cables would be the only way; it is refused.
    let cables = [("a", "s"), ("b", "s"), ("b", "t"), ("c", "t")];
    let error = Topology::build(&graph(&["a", "b", "c"], &["s", "t"], &cables)).unwrap_err();
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
    unknown.links = vec![cable("h0", "core0")];
    assert!(refused(&unknown).contains("no link between `h0` and `core0`"));
    unknown.links = vec![cable("h0", "nowhere")];
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
fn ports_of_a_cable_point_at_each_other() {
    for topology in [
        TopologySpec::FatTree { k: 4 },
        TopologySpec::SingleSwitch { hosts: 3 },
        TopologySpec::Dumbbell { left: 1, right: 2, bottleneck_rate: None, bottleneck_delay: None },
    ] {
        let topology = Topology::build(&spec(topology)).unwrap();
        for (number, port) in topology.ports.iter().enumerate() {
            assert_eq!(topology.ports[port.peer as usize].peer as usize, number);
            assert!(topology.ports_of(port.node).contains(&number));
        }
        assert_eq!(topology.ports.len(), 2 * topology.cables.len());
    }
}
