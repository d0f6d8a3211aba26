//! Tests of packet spraying.

use crate::common::*;
use rnic_fabric::config::{Paths, TopologySpec};
use rnic_fabric::{Ending, Fabric};

const PACKETS: u32 = 4_000;

/// Sends one flow of full packets across four spines. Returns the number of packets on each uplink of the first leaf,
/// and the arrivals.
fn across(paths: Paths, seed: u64) -> (Vec<u64>, Vec<(u64, u32)>) {
    let (leaves, spines, hosts_per_leaf) = (2, 4, 2);
    let (uplink_rate, uplink_delay) = (None, None);
    let mut spec = spec(TopologySpec::LeafSpine { leaves, spines, hosts_per_leaf, uplink_rate, uplink_delay });
    spec.paths = paths;
    let mut fabric = Fabric::new(&spec, seed).unwrap();
    let mut script = Script::new(4);
    script.send_burst(0, 0, 2, PACKETS);
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    let topology = fabric.topology();
    let uplinks = (0..4).map(|spine| port(topology, "leaf0", &format!("spine{spine}")));
    (uplinks.map(|port| fabric.counters(port)[0].tx_packets).collect(), script.arrivals(2))
}

#[test]
fn packets_of_a_flow_use_all_paths_evenly() {
    let (uplinks, arrivals) = across(Paths::Spray, 1);
    assert_eq!(arrivals.len(), PACKETS as usize);
    // Binomial distribution: 1,000 packets expected on each uplink, with a standard deviation of 27.
    assert!(uplinks.iter().all(|sent| sent.abs_diff(1_000) < 130), "{uplinks:?}");
    let (mut uplinks, _) = across(Paths::Ecmp, 1);
    uplinks.sort_unstable();
    assert_eq!(uplinks, [0, 0, 0, u64::from(PACKETS)]);
}

#[test]
fn the_seed_decides() {
    let first = across(Paths::Spray, 1);
    assert_eq!(across(Paths::Spray, 1), first);
    assert_ne!(across(Paths::Spray, 2).0, first.0);
}

/// Each switch has a random stream of its own: the draws of one switch do not change the paths at another switch.
#[test]
fn switches_draw_independently() {
    let mut spec = spec(TopologySpec::FatTree { k: 4 });
    spec.paths = Paths::Spray;
    let up = |others: bool| {
        let mut fabric = Fabric::new(&spec, 7).unwrap();
        let mut script = Script::new(16);
        script.send_burst(0, 0, 15, 200);
        if others {
            script.send_burst(4, 0, 12, 300);
        }
        assert_eq!(fabric.run(&mut script), Ending::Idle);
        ["agg0", "agg1"].map(|to| fabric.counters(port(fabric.topology(), "edge0", to))[0].tx_packets)
    };
    let alone = up(false);
    assert_eq!(alone.iter().sum::<u64>(), 200);
    assert_eq!(up(true), alone);
}
