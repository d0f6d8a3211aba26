//! Tests of drops at full buffers and of losses on links: every packet is accounted for.

use crate::common::*;
use rnic_fabric::config::TopologySpec;
use rnic_fabric::{Fabric, HostId, Packet, PortId};

const F: u64 = FRAME as u64;

/// Two hosts send 100 frames each at line rate to a third; each input buffer holds exactly ten frames.
///
/// A pair of frames arrives every T, and one frame leaves every T. After pair 2j + 1 both queues hold j + 1 frames. The
/// second input is full when pair 19 arrives, and the first input is full when pair 20 arrives. From then on each pair
/// loses one frame, in turn at the two inputs.
#[test]
fn the_exact_packets_are_dropped_in_an_overload() {
    let mut spec = spec(TopologySpec::SingleSwitch { hosts: 3 });
    spec.switch.buffer = input_buffer(10 * F);
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let mut script = Script::new(3);
    for k in 0..100 {
        script.send(0, 0, packet(2, FRAME, k));
        script.send(1, 0, packet(2, FRAME, 100 + k));
    }
    fabric.run(&mut script);
    let switch = fabric.topology().ports_of(3);
    let counters: Vec<_> = switch.map(|port| fabric.counters(port)[0]).collect();
    let drops: Vec<u64> = counters.iter().map(|c| c.drops).collect();
    assert_eq!(drops, [40, 41, 0]);
    let high_water: Vec<u64> = counters.iter().map(|c| c.queue_high_water).collect();
    assert_eq!(high_water, [10 * F, 10 * F, 0]);
    let mut arrived: Vec<u32> = script.arrivals(2).iter().map(|(_, id)| *id).collect();
    arrived.sort_unstable();
    let kept = |id: &u32| match *id {
        k @ 0..100 => k < 20 || k % 2 == 1,
        k => k - 100 < 19 || k % 2 == 0,
    };
    let expected: Vec<u32> = (0..200).filter(kept).collect();
    assert_eq!(arrived, expected);
    assert_conserved(&fabric, &script);
}

/// A frame that the switch forwards at once does not count as queued; a frame that finds its output busy does.
#[test]
fn the_high_water_mark_counts_what_was_queued() {
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 4 }), 1).unwrap();
    let mut script = Script::new(4);
    script.send_burst(0, 0, 3, 50);
    fabric.run(&mut script);
    assert!(fabric.topology().ports_of(4).all(|p| fabric.counters(p)[0].queue_high_water == 0));

    // Three frames arrive at the same instant for one output: the first frame passes, and the others wait.
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 4 }), 1).unwrap();
    let mut script = Script::new(4);
    for (host, bytes) in [(0, 500), (1, 500), (2, 500)] {
        script.send(host, 0, packet(3, bytes, 0));
        script.send(host, 0, packet(3, 100 + host as u16, 1));
    }
    fabric.run(&mut script);
    let high_water: Vec<u64> = fabric.topology().ports_of(4).map(|p| fabric.counters(p)[0].queue_high_water).collect();
    // The small frames arrive 120 bytes (24 ns) after the large frames, and before the first large frame has left (104
    // ns).
    assert_eq!(high_water, [100, 601, 602, 0]);
    assert_conserved(&fabric, &script);
}

#[test]
fn control_packets_among_the_dropped_are_counted_apart() {
    let mut spec = spec(TopologySpec::SingleSwitch { hosts: 3 });
    spec.switch.buffer = input_buffer(F);
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let mut script = Script::new(3);
    script.send_burst(0, 0, 2, 8);
    for k in 0..8 {
        let flags = Packet::<u32>::CONTROL;
        script.send(1, 0, Packet { flags, ..packet(2, FRAME, k) });
    }
    fabric.run(&mut script);
    // The case is that of the first test, with a buffer of one frame and 8 pairs. The second input drops a frame of
    // every odd pair, and the first input drops a frame of every even pair from pair 2 on.
    let of = |port: PortId| (fabric.counters(port)[0].drops, fabric.counters(port)[0].control_drops);
    let switch = fabric.topology().first_port[3];
    assert_eq!(of(switch), (3, 0));
    assert_eq!(of(PortId(switch.0 + 1)), (4, 4));
    assert_conserved(&fabric, &script);
}

#[test]
fn a_buffer_is_per_input_port_and_priority() {
    let mut spec = spec(TopologySpec::SingleSwitch { hosts: 2 });
    spec.switch.priorities = 2;
    spec.switch.buffer = input_buffer(3 * F);
    spec.links = vec![with_rate(link("h1", "s0"), rnic_transport::BitRate::from_gbps(1))];
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let mut script = Script::new(2);
    for k in 0..10 {
        script.send(0, 0, Packet { priority: (k % 2) as u8, ..packet(1, FRAME, k) });
    }
    fabric.run(&mut script);
    // The first frame passes to the slow output. Then three frames of each priority fit, and the last three frames do
    // not.
    let order: Vec<u32> = script.arrivals(1).iter().map(|(_, id)| *id).collect();
    assert_eq!(order, [0, 1, 3, 5, 2, 4, 6], "the higher priority first");
    let input = fabric.topology().first_port[2];
    let drops: Vec<u64> = fabric.counters(input).iter().map(|c| c.drops).collect();
    assert_eq!(drops, [1, 2]);
    assert_conserved(&fabric, &script);
}

#[test]
fn exactly_the_chosen_frames_are_lost() {
    let mut fabric = Fabric::new(&spec(TopologySpec::FatTree { k: 4 }), 1).unwrap();
    let mut script = Script::new(16);
    script.send_burst(0, 0, 9, 20);
    let own = fabric.topology().host_port(HostId(0));
    fabric.lose_frames(own, &[17, 0, 5]);
    fabric.run(&mut script);
    let arrived: Vec<u32> = script.arrivals(9).iter().map(|(_, id)| *id).collect();
    let expected: Vec<u32> = (0..20).filter(|k| ![0, 5, 17].contains(k)).collect();
    assert_eq!(arrived, expected);
    assert_eq!(fabric.counters(own)[0].lost, 3);
    assert_conserved(&fabric, &script);
}

#[test]
fn a_frame_named_twice_is_lost_once_and_does_not_hide_later_ones() {
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 2 }), 1).unwrap();
    let mut script = Script::new(2);
    script.send_burst(0, 0, 1, 8);
    fabric.lose_frames(PortId(0), &[2, 2, 6]);
    fabric.run(&mut script);
    let arrived: Vec<u32> = script.arrivals(1).iter().map(|(_, id)| *id).collect();
    assert_eq!(arrived, [0, 1, 3, 4, 5, 7]);
}

#[test]
fn random_loss_has_the_rate_that_it_is_given_and_its_own_stream_per_direction() {
    let lost = |seed: u64| {
        let mut spec = spec(TopologySpec::SingleSwitch { hosts: 2 });
        spec.link.loss = 0.1;
        let mut fabric = Fabric::new(&spec, seed).unwrap();
        let mut script = Script::new(2);
        script.send_burst(0, 0, 1, 10_000);
        script.send_burst(1, 0, 0, 10_000);
        fabric.run(&mut script);
        assert_conserved(&fabric, &script);
        let at = |port: PortId| fabric.counters(port)[0].lost;
        (at(PortId(0)), at(PortId(1)), script.arrivals(1))
    };
    let (first, second, arrivals) = lost(1);
    // Binomial distribution: 1,000 losses expected, with a standard deviation of 30.
    assert!(first.abs_diff(1_000) < 150 && second.abs_diff(1_000) < 150, "{first}, {second}");
    assert!((arrivals.len() as u64).abs_diff(8_100) < 200, "{}", arrivals.len());
    assert_eq!(lost(1).2, arrivals, "the same seed loses the same frames");
    assert_ne!(lost(2).2, arrivals, "another seed loses others");
}
