//! Tests of fabrics with several planes, between which no path leads.

use crate::common::spec;
use rnic_fabric::config::TopologySpec;
use rnic_fabric::{HostId, Routes, Topology, buffer_cycle, longest_path};
use rnic_transport::Time;

fn two_planes() -> Topology {
    let topology = TopologySpec::MultiPlane {
        planes: 2,
        leaves: 2,
        spines: 3,
        hosts_per_leaf: 2,
        uplink_rate: None,
        uplink_delay: Some(Time::from_us(5)),
    };
    Topology::build(&spec(topology)).unwrap()
}

/// The names of the nodes on the path of a flow, after its sender.
fn nodes(topology: &Topology, routes: &Routes, src: u32, dst: u32, hash: u32) -> Vec<String> {
    let path = routes.path(topology, HostId(src), HostId(dst), hash);
    path.into_iter().map(|port| topology.names[topology.peer_node(port) as usize].clone()).collect()
}

#[test]
fn planes_by_hand() {
    let topology = two_planes();
    assert_eq!((topology.hosts, topology.nodes(), topology.planes()), (8, 8 + 4 + 6, 2));
    // Each plane has 4 links to hosts and 2 x 3 between switches.
    assert_eq!(topology.links.len(), 2 * (4 + 6));
    let routes = Routes::new(&topology, 1).unwrap();
    for hash in 0..64 {
        let first = nodes(&topology, &routes, 0, 3, hash);
        assert!(["spine0", "spine1", "spine2"].contains(&first[1].as_str()), "{first:?}");
        assert_eq!((first[0].as_str(), first[2].as_str(), first[3].as_str()), ("leaf0", "leaf1", "h3"));
        let second = nodes(&topology, &routes, 6, 4, hash);
        assert!(["spine3", "spine4", "spine5"].contains(&second[1].as_str()), "{second:?}");
        assert_eq!((second[0].as_str(), second[2].as_str(), second[3].as_str()), ("leaf3", "leaf2", "h4"));
    }
    assert_eq!(nodes(&topology, &routes, 4, 5, 7), ["leaf2", "h5"]);
    // Two links of 2 us to hosts, and two of 5 us.
    let longest = longest_path(&topology);
    assert_eq!((longest.hops, longest.delay), (4, Time::from_us(14)));
    assert_eq!(buffer_cycle(&topology, &routes), None);
}

#[test]
fn links_of_a_plane_fail() {
    let topology = two_planes();
    let routes = Routes::new(&topology, 1).unwrap();
    let joins = |a: &str, b: &str| {
        let ends = |port| {
            let [from, to] = [topology.port(port).node, topology.peer_node(port)];
            [topology.names[from as usize].as_str(), topology.names[to as usize].as_str()]
        };
        topology.port_ids().map(|port| [[a, b], [b, a]].contains(&ends(port))).collect::<Vec<bool>>()
    };
    let down = joins("leaf2", "spine3");
    for changed in [routes.around(&topology, &[], &down).unwrap(), routes.repaired(&topology, &down)] {
        for hash in 0..64 {
            let path = nodes(&topology, &changed, 4, 7, hash);
            assert!(["spine4", "spine5"].contains(&path[1].as_str()), "{path:?}");
            assert_eq!(nodes(&topology, &changed, 0, 3, hash), nodes(&topology, &routes, 0, 3, hash));
        }
    }
}

#[test]
fn a_plane_and_pods_without_cores_are_refused() {
    let (uplink_rate, uplink_delay, planes) = (None, None, 1);
    let one = TopologySpec::MultiPlane { planes, leaves: 1, spines: 1, hosts_per_leaf: 2, uplink_rate, uplink_delay };
    let error = Topology::build(&spec(one)).unwrap_err().to_string();
    assert!(error.ends_with("a fabric of 1 planes; accepted: at least 2"), "{error}");
    let (core_rate, core_delay) = (None, None);
    let pods = TopologySpec::LeafSpineCore {
        pods: 2,
        leaves_per_pod: 1,
        spines_per_pod: 1,
        cores_per_plane: 0,
        hosts_per_leaf: 1,
        uplink_rate,
        uplink_delay,
        core_rate,
        core_delay,
    };
    let topology = Topology::build(&spec(pods)).unwrap();
    assert!(Routes::new(&topology, 1).is_err(), "no path joins the pods");
}
