//! Tests that a tapped port records every frame that it transmits, with the time at which the frame's transmission
//! begins.

use crate::common::*;
use rnic_fabric::config::TopologySpec;
use rnic_fabric::{Fabric, Fate, HostId, PortId, TapFilter};
use rnic_transport::Time;

#[test]
fn frames_in_order_with_their_times_lost_ones_too() {
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 2 }), 1).unwrap();
    let topology = fabric.topology().clone();
    let (out, back) = (port(&topology, "h0", "s0"), port(&topology, "s0", "h1"));
    fabric.lose_frames(out, &[1]);
    fabric.tap(out, TapFilter::ALL);
    fabric.tap(back, TapFilter::ALL);
    let mut script = Script::new(2);
    script.send_burst(0, 0, 1, 3);
    fabric.run(&mut script);
    let seen = |port: PortId| -> Vec<(u64, u32)> {
        fabric.tapped(port).iter().map(|frame| (frame.at.as_ps(), frame.packet.body)).collect()
    };
    assert_eq!(seen(out), [(0, 0), (T, 1), (2 * T, 2)]);
    // The switch receives a frame whole 2 us after its last bit has left the host, and forwards the frame at once.
    assert_eq!(seen(back), [(T + 2 * US, 0), (3 * T + 2 * US, 2)]);
    assert_eq!(fabric.counters(out)[0].lost, 1);
    let arrives = |at| Fate::Arrives(Time::from_ps(at));
    let fates: Vec<Fate> = fabric.tapped(out).iter().map(|frame| frame.fate).collect();
    assert_eq!(fates, [arrives(T + 2 * US), Fate::Lost, arrives(3 * T + 2 * US)]);
    assert!(fabric.tapped(port(&topology, "s0", "h0")).is_empty(), "this port is not tapped");
}

#[test]
fn pause_frames() {
    // Two hosts send at line rate to a third; the second frame that waits at an input exceeds xoff.
    let mut fabric =
        Fabric::new(&with_pfc(spec(TopologySpec::SingleSwitch { hosts: 3 }), 100_000, u64::from(FRAME), 0), 1).unwrap();
    let topology = fabric.topology().clone();
    let to_host = port(&topology, "s0", "h0");
    fabric.tap(to_host, TapFilter::ALL);
    let mut script = Script::new(3);
    script.send_burst(0, 0, 2, 200);
    script.send_burst(1, 0, 2, 200);
    fabric.run(&mut script);
    let frames = fabric.tapped(to_host);
    assert!(frames.iter().all(|frame| frame.packet.is_pause()));
    let masks: Vec<u8> = frames.iter().map(|frame| frame.packet.paused_priorities()).collect();
    let pauses = masks.iter().filter(|mask| **mask == 1).count() as u64;
    assert_eq!(pauses, fabric.counters(to_host)[0].pause_sent);
    assert!(pauses > 1);
    // Pauses and resumes alternate.
    assert!(masks.iter().zip([1, 0].iter().cycle()).all(|(mask, expected)| mask == expected), "{masks:?}");
}

#[test]
fn dropped_frames_are_recorded_where_they_arrive() {
    // Two hosts send 20 frames each at line rate to a third; each input of the switch has room for 3 frames.
    let mut shape = spec(TopologySpec::SingleSwitch { hosts: 3 });
    shape.switch.buffer = input_buffer(3 * u64::from(FRAME));
    let mut fabric = Fabric::new(&shape, 1).unwrap();
    let topology = fabric.topology().clone();
    let input = port(&topology, "s0", "h0");
    fabric.tap(input, TapFilter::ALL);
    let mut script = Script::new(3);
    script.send_burst(0, 0, 2, 20);
    script.send_burst(1, 0, 2, 20);
    fabric.run(&mut script);
    let dropped = fabric.tapped(input);
    assert!(dropped.iter().all(|frame| frame.fate == Fate::Dropped && frame.packet.dst == HostId(2)));
    assert_eq!(dropped.len() as u64, fabric.counters(input)[0].drops);
    assert!(!dropped.is_empty());
    // A frame is dropped when it has arrived whole: 2 us after its last bit has left the host.
    assert!(dropped.iter().all(|frame| (frame.at.as_ps() - 2 * US).is_multiple_of(T)));
}

#[test]
fn a_filter_chooses_frames_and_limits_their_number() {
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 4 }), 1).unwrap();
    let topology = fabric.topology().clone();
    let out = port(&topology, "h0", "s0");
    fabric.tap(out, TapFilter { hosts: Some([HostId(2), HostId(3)]), max: 3 });
    let mut script = Script::new(4);
    script.send_burst(0, 0, 1, 2);
    script.send_burst(0, 0, 2, 2);
    script.send_burst(0, 0, 3, 2);
    fabric.run(&mut script);
    let to: Vec<u32> = fabric.tapped(out).iter().map(|frame| frame.packet.dst.0).collect();
    assert_eq!(to, [2, 2, 3]);
}
