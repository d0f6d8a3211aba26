//! Tests of links that fail, return and change their rate, and of routes around failed links.

use crate::common::*;
use rnic_fabric::config::{BufferSpec, FabricSpec, MarkOn, NamedRoute, OutputBuffers, OutputSpec, TopologySpec};
use rnic_fabric::{
    Fabric, HostId, LinkState, Packet, PartitionPlan, PortId, PriorityCounters, Routes, Topology, Watcher,
};
use rnic_transport::{BitRate, Bytes, Time};
use std::sync::Arc;

/// Changes of links and routes, each at an instant in picoseconds.
struct Changes {
    later: Vec<(u64, Change)>,
}

#[derive(Clone)]
enum Change {
    Link(PortId, LinkState),
    Routes(Arc<Routes>),
}

impl Watcher<Script> for Changes {
    fn next(&self) -> Time {
        self.later.first().map_or(Time::MAX, |(at, _)| Time::from_ps(*at))
    }
    fn observe(&mut self, now: Time, fabric: &mut Fabric<u32>, _script: &mut Script) {
        while self.later.first().is_some_and(|(at, _)| *at <= now.as_ps()) {
            match self.later.remove(0).1 {
                Change::Link(port, state) => fabric.set_link(port, state),
                Change::Routes(routes) => fabric.set_routes(routes),
            }
        }
    }
    fn acts(&self) -> bool {
        !self.later.is_empty()
    }
}

const FULL: BitRate = BitRate::from_gbps(40);
const UP: LinkState = LinkState::up(FULL);
const DOWN: LinkState = LinkState { is_up: false, ..UP };

/// Ports of both directions of the links between the named nodes.
fn down(topology: &Topology, links: &[(&str, &str)]) -> Vec<bool> {
    let mut down = vec![false; topology.ports.len()];
    for (a, b) in links {
        for port in [port(topology, a, b), port(topology, b, a)] {
            down[port.index()] = true;
        }
    }
    down
}

/// Host 0 sends ten frames back to back over one switch; frame k leaves the host at kT and the switch at (k + 1)T + 2
/// us. The host's link is down from 2.5T to 5.5T: frames 3, 4 and 5 are lost there, frame 2 is already on its way. The
/// link to the receiver is down while frames 7 and 8 leave the switch.
#[test]
fn a_link_that_is_down_loses_what_its_ends_transmit() {
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 2 }), 1).unwrap();
    let topology = fabric.topology().clone();
    let (first, second) = (port(&topology, "h0", "s0"), port(&topology, "s0", "h1"));
    let leaves = |frame: u64| (frame + 1) * T + 2 * US;
    let later = vec![
        (5 * T / 2, Change::Link(first, DOWN)),
        (11 * T / 2, Change::Link(first, UP)),
        (leaves(7) - 1, Change::Link(second, DOWN)),
        (leaves(8) + 1, Change::Link(second, UP)),
    ];
    let mut script = Script::new(2);
    script.send_burst(0, 0, 1, 10);
    fabric.run_watched(&mut script, &mut Changes { later }, Time::MAX);
    let expected: Vec<(u64, u32)> =
        [0, 1, 2, 6, 9].map(|frame| (leaves(frame) + T + 2 * US, frame as u32)).into_iter().collect();
    assert_eq!(script.arrivals(1), expected);
    let lost = |port| fabric.counters(port)[0].lost;
    assert_eq!((lost(first), lost(second)), (3, 2));
    // Bytes that the port transmitted into the broken link count as its transmissions.
    assert_eq!(fabric.counters(first)[0].tx_packets, 10);
    assert_eq!(fabric.in_flight(), 0);
}

/// From the middle of frame 3 on the link has a quarter of its rate: frame 3 still takes T, each later one 4T. The time
/// for which the transmitter was busy is 4T and 2 x 4T.
#[test]
fn a_slower_link_takes_longer_for_each_later_frame() {
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 2 }), 1).unwrap();
    let topology = fabric.topology().clone();
    let host = port(&topology, "h0", "s0");
    let slow = LinkState::up(BitRate::from_gbps(10));
    let mut script = Script::new(2);
    script.send_burst(0, 0, 1, 6);
    let later = vec![(7 * T / 2, Change::Link(host, slow))];
    fabric.run_watched(&mut script, &mut Changes { later }, Time::MAX);
    let departures: Vec<u64> = script.departures(0).into_iter().map(|(at, _)| at).collect();
    assert_eq!(departures, [0, T, 2 * T, 3 * T, 4 * T, 8 * T]);
    assert_eq!(fabric.busy(host), Time::from_ps(12 * T));
}

/// Two hosts send 20 frames each to a third, whose link has a quarter of its rate from the start. The switch has room
/// for 8 frames at each output and marks from 4 on; if the queues shrink with the rate, room for 2 and marks from 1 on.
#[test]
fn queues_shrink_with_the_rate_of_their_link_if_asked() {
    let frame = u64::from(FRAME);
    let run = |scales_queues: bool, slow: bool| {
        let mut spec = spec(TopologySpec::SingleSwitch { hosts: 3 });
        let buffers = OutputBuffers::Equal(Bytes(8 * frame));
        spec.switch.buffer = BufferSpec::Output(OutputSpec { buffers, trim: None, count_in_service: false });
        spec.switch.ecn = mark_above(4 * frame - 1, MarkOn::Enqueue);
        let mut fabric = Fabric::new(&spec, 1).unwrap();
        let topology = fabric.topology().clone();
        let output = port(&topology, "s0", "h2");
        let mut script = Script::new(3);
        script.send_burst(0, 0, 2, 20);
        script.send_burst(0, 1, 2, 20);
        let rates = if slow { [BitRate::from_gbps(10), FULL] } else { [FULL; 2] };
        // The topology names the link of a host from the host.
        let rates = if output < port(&topology, "h2", "s0") { rates } else { [rates[1], rates[0]] };
        let state = LinkState { rates, scales_queues, ..UP };
        let first = output.min(port(&topology, "h2", "s0"));
        let later = vec![(1, Change::Link(first, state))];
        fabric.run_watched(&mut script, &mut Changes { later }, Time::MAX);
        let counters = &fabric.counters(output)[0];
        (counters.queue_high_water / frame, script.arrivals(2).len() as u64, counters.marked)
    };
    let (whole, scaled) = (run(false, true), run(true, true));
    assert_eq!((whole.0, scaled.0), (8, 2));
    assert!(scaled.1 < whole.1, "more frames are dropped: {scaled:?} {whole:?}");
    // Two thirds of the frames find four waiting in the large queue, and nearly all find one in the small one.
    assert!(scaled.2 * whole.1 > whole.2 * scaled.1, "{scaled:?} {whole:?}");
    assert_eq!(run(true, false), run(false, false), "a link with its whole rate keeps its queues");
}

/// Host a sends to b, whose link is four times slower, so the switch pauses a. The link of a fails while a is paused,
/// and returns: a transmits, although it never received the resume, and the switch pauses it again when it has to.
#[test]
fn a_link_that_returns_is_not_paused_by_the_past() {
    let mut slow = graph(&["a", "b"], &["s"], &[("a", "s"), ("s", "b")]);
    slow.links[1].rate = Some(BitRate::from_gbps(10));
    let frame = u64::from(FRAME);
    let spec = with_pfc(slow, 100_000, 2 * frame, frame);
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let topology = fabric.topology().clone();
    let (a, to_a) = (port(&topology, "a", "s"), port(&topology, "s", "a"));
    let mut script = Script::new(2);
    script.send_burst(0, 0, 1, 300);
    // The host is paused by then. The switch drains while the link is down, and its resume is lost.
    let later = vec![(20 * US, Change::Link(a, DOWN)), (60 * US, Change::Link(a, UP))];
    fabric.run_watched(&mut script, &mut Changes { later }, Time::MAX);
    let lost = fabric.counters(a)[0].lost;
    assert!(fabric.counters(to_a)[0].pause_sent > 2, "the switch paused the host before and after");
    // The host does not notice the failure, and sends into it for 40 us, which are 180 frames.
    assert!((180..=182).contains(&lost), "{lost}");
    assert_eq!(script.arrivals(1).len() as u64 + lost, 300);
    assert_eq!((script.waiting(), fabric.any_paused()), (0, false));
}

fn paths(routes: &Routes, topology: &Topology, src: u32, dst: u32) -> Vec<Vec<String>> {
    let names =
        |ports: Vec<PortId>| ports.iter().map(|p| topology.names[topology.peer_node(*p) as usize].clone()).collect();
    let mut paths: Vec<Vec<String>> =
        (0..200).map(|hash| names(routes.path(topology, HostId(src), HostId(dst), hash * 7_919))).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Without changes, stored sets give each flow of each topology the same path as the routes that they replace.
#[test]
fn routes_around_no_failure_are_the_same() {
    let topologies = [
        TopologySpec::FatTree { k: 4 },
        TopologySpec::SingleSwitch { hosts: 3 },
        TopologySpec::LeafSpine { leaves: 3, spines: 2, hosts_per_leaf: 2, uplink_rate: None, uplink_delay: None },
    ];
    for shape in topologies {
        let topology = Topology::build(&spec(shape)).unwrap();
        let routes = Routes::new(&topology, 3).unwrap();
        let none = vec![false; topology.ports.len()];
        let others = [routes.repaired(&topology, &none), routes.around(&topology, &[], &none).unwrap()];
        for (src, dst) in topology.host_ids().flat_map(|a| topology.host_ids().map(move |b| (a, b))) {
            for hash in (0..8).map(|n| n * 0x1234_5677) {
                let path = |routes: &Routes| routes.path(&topology, src, dst, hash);
                if src != dst {
                    assert_eq!(others.each_ref().map(path), [path(&routes), path(&routes)]);
                }
            }
        }
    }
}

/// A leaf-spine of two spines. The link from leaf 0 to spine 0 is down.
///
/// Local repair: leaf 0 sends nothing more to spine 0, but leaf 1 does, whose packets to hosts of leaf 0 get lost.
/// Converged: all traffic between the leaves uses spine 1.
#[test]
fn routing_avoids_a_failed_link_at_its_ends_first_and_then_everywhere() {
    let shape =
        TopologySpec::LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 1, uplink_rate: None, uplink_delay: None };
    let topology = Topology::build(&spec(shape)).unwrap();
    let names = &topology.names;
    let [leaf0, leaf1, spine0, spine1] = [2, 3, 4, 5].map(|node| names[node].as_str());
    let routes = Routes::new(&topology, 1).unwrap();
    let both = |from: &str, to: &str, host: &str| -> Vec<Vec<String>> {
        [spine0, spine1].map(|spine| [from, spine, to, host].map(str::to_string).to_vec()).to_vec()
    };
    assert_eq!(paths(&routes, &topology, 0, 1), both(leaf0, leaf1, "h1"));
    let broken = down(&topology, &[(leaf0, spine0)]);
    let repaired = routes.repaired(&topology, &broken);
    let second = |from: &str, to: &str, host: &str| vec![[from, spine1, to, host].map(str::to_string).to_vec()];
    assert_eq!(paths(&repaired, &topology, 0, 1), second(leaf0, leaf1, "h1"));
    assert_eq!(paths(&repaired, &topology, 1, 0), both(leaf1, leaf0, "h0"));
    let converged = routes.around(&topology, &[], &broken).unwrap();
    assert_eq!(paths(&converged, &topology, 0, 1), second(leaf0, leaf1, "h1"));
    assert_eq!(paths(&converged, &topology, 1, 0), second(leaf1, leaf0, "h0"));
    // Without a path left, packets keep their way, and get lost at the broken link.
    let cut = down(&topology, &[(leaf0, spine0), (leaf0, spine1)]);
    assert_eq!(paths(&routes.around(&topology, &[], &cut).unwrap(), &topology, 1, 0), both(leaf1, leaf0, "h0"));
}

/// A square of switches: the shortest path to `b` is over `s2`; if that link is down it is over `s3` and `s4`. A named
/// route through `s2` stays where it is.
#[test]
fn longer_paths_replace_shortest_ones_and_named_routes_stay() {
    let links = [("a", "s1"), ("s1", "s2"), ("s2", "b"), ("s1", "s3"), ("s3", "s4"), ("s4", "s2"), ("c", "s4")];
    let topology = Topology::build(&graph(&["a", "b", "c"], &["s1", "s2", "s3", "s4"], &links)).unwrap();
    let broken = down(&topology, &[("s1", "s2")]);
    let way = |names: &[&str]| vec![names.iter().map(|name| (*name).to_string()).collect::<Vec<String>>()];
    let routes = Routes::new(&topology, 1).unwrap();
    assert_eq!(paths(&routes, &topology, 0, 1), way(&["s1", "s2", "b"]));
    let around = routes.around(&topology, &[], &broken).unwrap();
    assert_eq!(paths(&around, &topology, 0, 1), way(&["s1", "s3", "s4", "s2", "b"]));
    assert_eq!(paths(&around, &topology, 2, 0), way(&["s4", "s3", "s1", "a"]));
    let named = [NamedRoute { at: "s1".into(), to: vec!["b".into()], via: "s2".into() }];
    let routes = Routes::with(&topology, &named, 1).unwrap();
    let around = routes.around(&topology, &named, &broken).unwrap();
    assert_eq!(paths(&around, &topology, 0, 1), way(&["s1", "s2", "b"]), "by hand");
    assert_eq!(paths(&around, &topology, 0, 2), way(&["s1", "s3", "s4", "c"]));
}

/// Failures and new routes in the middle of a run have the same result with one partition and with several on threads.
#[test]
fn partitions_and_threads_change_nothing() {
    fn spec_of() -> FabricSpec {
        spec(TopologySpec::FatTree { k: 4 })
    }
    let topology = Arc::new(Topology::build(&spec_of()).unwrap());
    // The first link from a leaf up.
    let leaf = topology.peer_node(topology.host_port(HostId(0)));
    let up = topology.ports_of(leaf).find(|p| !topology.is_host(topology.peer_node(*p))).unwrap();
    let mut broken = vec![false; topology.ports.len()];
    (broken[up.index()], broken[topology.port(up).peer.index()]) = (true, true);
    let run = |threads: usize, divide: fn(&Topology) -> PartitionPlan| {
        let mut fabric: Fabric<u32> = Fabric::partitioned(topology.clone(), &spec_of(), 1, threads, divide).unwrap();
        fabric.share_always();
        let routes = fabric.routes().clone();
        let later = vec![
            (10 * US, Change::Link(up, DOWN)),
            (15 * US, Change::Routes(Arc::new(routes.repaired(&topology, &broken)))),
            (25 * US, Change::Routes(Arc::new(routes.around(&topology, &[], &broken).unwrap()))),
            (40 * US, Change::Link(up, UP)),
            (45 * US, Change::Routes(routes)),
        ];
        let mut script = Script::partitioned(fabric.plan());
        for host in 0..16 {
            for id in 0..300 {
                let packet = Packet { flow_hash: id * 77, ..packet((host + 5) % 16, FRAME, id) };
                script.send(host, u64::from(host) * 1_000, packet);
            }
        }
        fabric.run_watched(&mut script, &mut Changes { later }, Time::MAX);
        let mut arrived = script.arrived.clone();
        arrived.sort_by_key(|seen| (seen.at, seen.host, seen.id));
        let sum = |count: fn(&PriorityCounters) -> u64| -> u64 {
            topology.port_ids().map(|port| count(&fabric.counters(port)[0])).sum()
        };
        let (lost, dropped) = (sum(|counters| counters.lost), sum(|counters| counters.drops));
        assert_eq!(arrived.len() as u64 + lost + dropped, 16 * 300);
        (arrived, lost)
    };
    let alone = run(1, PartitionPlan::whole);
    assert!(alone.1 > 10, "{} frames lost", alone.1);
    assert_eq!(run(2, |topology| PartitionPlan::balanced(topology, 2)), alone);
}
