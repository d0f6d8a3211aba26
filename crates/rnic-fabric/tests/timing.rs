//! Tests of arrival times, to the picosecond. A frame takes (bytes + 20) x 200 ps on a 40 Gbps link, and then 2 us of
//! propagation. A switch receives a frame whole before it forwards the frame, and adds no time itself.

use crate::common::*;
use rnic_fabric::config::TopologySpec;
use rnic_fabric::{Ending, Fabric, HostId, MIN_FRAME};
use rnic_transport::{BitRate, Time};

const D: u64 = 2 * US;

fn fat_tree() -> TopologySpec {
    TopologySpec::FatTree { k: 6 }
}

#[test]
fn one_packet_over_two_four_and_six_links_of_the_fat_tree() {
    // An edge switch has three hosts and a pod has nine: h1 is under the same switch as h0, h3 in the same pod, and h9
    // in the next pod.
    for (dst, links) in [(1, 2), (3, 4), (9, 6)] {
        let mut fabric = Fabric::new(&spec(fat_tree()), 1).unwrap();
        let mut script = Script::new(54);
        script.send(0, 0, packet(dst, FRAME, 7));
        assert_eq!(fabric.run(&mut script), Ending::Idle);
        // Each link takes 2,221,200 ps, so the packets take 4,442,400, 8,884,800 and 13,327,200 ps.
        assert_eq!(script.arrivals(dst), [(links * 2_221_200, 7)]);
        assert_eq!(fabric.hops(), links);
        assert_eq!(fabric.in_flight(), 0);
    }
}

#[test]
fn packets_of_one_host_follow_each_other_without_a_gap() {
    let mut fabric = Fabric::new(&spec(fat_tree()), 1).unwrap();
    let mut script = Script::new(54);
    script.send_burst(0, 5_000, 9, 10);
    fabric.run(&mut script);
    let expected: Vec<_> = (0..10).map(|k| (5_000 + 6 * (T + D) + u64::from(k) * T, k)).collect();
    assert_eq!(script.arrivals(9), expected);
    let departures: Vec<_> = (0..10).map(|k| (5_000 + u64::from(k) * T, k)).collect();
    assert_eq!(script.departures(0), departures);
}

#[test]
fn a_small_packet_behind_a_large_one_waits_for_it_at_every_switch() {
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 2 }), 1).unwrap();
    let mut script = Script::new(2);
    script.send(0, 0, packet(1, FRAME, 0));
    script.send(0, 0, packet(1, MIN_FRAME, 1));
    fabric.run(&mut script);
    // The small packet arrives at the switch 16,800 ps after the large packet, which takes 221,200 ps to leave the
    // switch.
    assert_eq!(script.arrivals(1), [(2 * (T + D), 0), (2 * (T + D) + 16_800, 1)]);
}

#[test]
fn a_large_packet_behind_a_small_one_never_waits() {
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 2 }), 1).unwrap();
    let mut script = Script::new(2);
    script.send(0, 0, packet(1, MIN_FRAME, 0));
    script.send(0, 0, packet(1, FRAME, 1));
    fabric.run(&mut script);
    assert_eq!(script.arrivals(1), [(2 * (16_800 + D), 0), (16_800 + 2 * (T + D), 1)]);
}

/// Two hosts send to a third at the same instant and keep sending.
#[test]
fn two_inputs_of_an_output_take_turns_from_the_first_packet_on() {
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 3 }), 1).unwrap();
    let mut script = Script::new(3);
    for k in 0..4 {
        script.send(0, 0, packet(2, FRAME, k));
        script.send(1, 0, packet(2, FRAME, 100 + k));
    }
    fabric.run(&mut script);
    // The first packets of both hosts arrive at the switch at T + D. The packet at the lower port goes first; from then
    // on the inputs take turns.
    let order = [0, 100, 1, 101, 2, 102, 3, 103];
    let expected: Vec<_> = (0..8).map(|k| (2 * (T + D) + k as u64 * T, order[k])).collect();
    assert_eq!(script.arrivals(2), expected);
}

#[test]
fn three_inputs_of_an_output_take_turns_in_cyclic_order() {
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 4 }), 1).unwrap();
    let mut script = Script::new(4);
    for k in 0..3 {
        // The packet of host 1 arrives at the switch first; packets of hosts 2 and 0 arrive during its transmission.
        script.send(1, 0, packet(3, FRAME, 100 + k));
        script.send(2, 1_000, packet(3, FRAME, 200 + k));
        script.send(0, 2_000, packet(3, FRAME, k));
    }
    fabric.run(&mut script);
    let order: Vec<u32> = script.arrivals(3).iter().map(|(_, id)| *id).collect();
    assert_eq!(order, [100, 200, 0, 101, 201, 1, 102, 202, 2]);
}

#[test]
fn an_output_that_other_inputs_do_not_want_is_no_ones_turn() {
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 4 }), 1).unwrap();
    let mut script = Script::new(4);
    script.send_burst(0, 0, 2, 5);
    script.send_burst(1, 0, 3, 5);
    fabric.run(&mut script);
    for host in [2, 3] {
        let expected: Vec<_> = (0..5).map(|k| (2 * (T + D) + u64::from(k) * T, k)).collect();
        assert_eq!(script.arrivals(host), expected);
    }
}

#[test]
fn the_slow_link_of_a_dumbbell_sets_the_pace() {
    let topology = TopologySpec::Dumbbell {
        left: 1,
        right: 1,
        bottleneck_rate: Some(BitRate::from_gbps(10)),
        bottleneck_delay: Some(Time::from_us(5)),
    };
    let mut fabric = Fabric::new(&spec(topology), 1).unwrap();
    let mut script = Script::new(2);
    script.send_burst(0, 0, 1, 3);
    fabric.run(&mut script);
    // A packet takes 221,200 ps on each host link, 884,800 ps on the middle link, and 2 + 5 + 2 us of propagation.
    let first = 2 * 221_200 + 884_800 + 9 * US;
    assert_eq!(script.arrivals(1), [(first, 0), (first + 884_800, 1), (first + 2 * 884_800, 2)]);
}

#[test]
fn a_rate_without_whole_picoseconds_per_byte_rounds_to_the_nearest() {
    let mut spec = spec(TopologySpec::SingleSwitch { hosts: 2 });
    spec.link.rate = BitRate::from_gbps(30);
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let mut script = Script::new(2);
    script.send_burst(0, 0, 1, 2);
    fabric.run(&mut script);
    // 1,106 bytes x 8 / 30 Gbps = 294,933.33 ps.
    assert_eq!(script.arrivals(1), [(2 * (294_933 + D), 0), (3 * 294_933 + 2 * D, 1)]);
}

#[test]
fn the_time_for_which_a_port_was_sending_is_right_at_any_rate() {
    for (gbps, ps_per_frame) in [(40, 221_200), (30, 294_933), (100, 88_480)] {
        let mut spec = spec(TopologySpec::SingleSwitch { hosts: 2 });
        spec.link.rate = BitRate::from_gbps(gbps);
        let mut fabric = Fabric::new(&spec, 1).unwrap();
        let mut script = Script::new(2);
        script.send_burst(0, 0, 1, 3_000); // 3.3 MB
        fabric.run(&mut script);
        let busy = fabric.busy(fabric.topology().host_port(HostId(0))).as_ps();
        // The tolerance is 1 ps per frame, because the time of each frame is rounded.
        assert!(busy.abs_diff(3_000 * ps_per_frame) <= 3_000, "{gbps} Gbps: {busy} ps");
        assert_eq!(script.arrivals(1).len(), 3_000);
    }
}

#[test]
fn the_frame_gap_takes_time_but_no_buffer() {
    for gap in [0, 20, 40] {
        // Four frames queue behind the first; the buffer holds exactly four frames without gaps.
        let mut spec = spec(TopologySpec::SingleSwitch { hosts: 2 });
        spec.frame_gap = gap;
        spec.switch.buffer = input_buffer(4 * u64::from(FRAME));
        spec.links = vec![with_rate(link("h1", "s0"), BitRate::from_gbps(1))];
        let mut fabric = Fabric::new(&spec, 1).unwrap();
        let mut script = Script::new(2);
        script.send_burst(0, 0, 1, 5);
        fabric.run(&mut script);
        let frame = u64::from(u32::from(FRAME) + gap);
        let first = frame * 200 + frame * 8_000 + 2 * D;
        let expected: Vec<_> = (0..5).map(|k| (first + u64::from(k) * frame * 8_000, k)).collect();
        assert_eq!(script.arrivals(1), expected);
    }
}

#[test]
fn the_fabric_can_be_stopped_and_run_on() {
    let arrivals = |stops: &[u64]| {
        let mut fabric = Fabric::new(&spec(fat_tree()), 1).unwrap();
        let mut script = Script::new(54);
        for host in 0..8 {
            script.send_burst(host, u64::from(host) * 777, 9, 20);
        }
        for stop in stops {
            assert!(run_until(&mut fabric, &mut script, *stop) >= *stop);
        }
        run_until(&mut fabric, &mut script, u64::MAX);
        script.arrivals(9)
    };
    let whole = arrivals(&[]);
    assert_eq!(whole.len(), 160);
    assert_eq!(whole, arrivals(&[3 * US, 4 * US, 20 * US]));
}
