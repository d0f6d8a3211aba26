//! The input-queued switch: its arbiters, the hysteresis of a full buffer, and imperfect clocks.

use crate::common::*;
use rnic_fabric::config::{ArbiterSpec, BufferSpec, ClockSpec, FabricSpec, InputSpec, Quantum, TopologySpec};
use rnic_fabric::{Ending, Fabric};
use rnic_transport::{Bytes, Time};

const F: u64 = FRAME as u64;

/// One switch with three hosts and this buffer.
fn switch(input: InputSpec) -> FabricSpec {
    let mut spec = spec(TopologySpec::SingleSwitch { hosts: 3 });
    spec.switch.buffer = BufferSpec::Input(input);
    spec
}

/// The order in which host 2 receives six frames of each of two hosts. The frames of host 1 (100 to 105) arrive half a
/// frame after those of host 0 (0 to 5).
fn order(arbiter: ArbiterSpec) -> Vec<u32> {
    let spec = switch(InputSpec { arbiter, ..InputSpec::lossy(Bytes(100 * F)) });
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let mut script = Script::new(3);
    for id in 0..6 {
        script.send(0, 0, packet(2, FRAME, id));
        script.send(1, T / 2, packet(2, FRAME, 100 + id));
    }
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    assert_conserved(&fabric, &script);
    script.packets.iter().map(|packet| packet.body).collect()
}

#[test]
fn each_arbiter_gives_the_order_by_hand() {
    // Frame 0 passes through and counts in the first turn.
    let alternate = [0, 100, 1, 101, 2, 102, 3, 103, 4, 104, 5, 105];
    assert_eq!(order(ArbiterSpec::PACKET_BY_PACKET), alternate);
    assert_eq!(order(ArbiterSpec::OldestFirst), alternate);
    // When frame 0 has left, frame 1 has arrived at this very instant, and 100 half a frame before.
    let pairs = [0, 1, 100, 101, 2, 3, 102, 103, 4, 5, 104, 105];
    assert_eq!(order(ArbiterSpec::RoundRobin(Quantum::Packets(2))), pairs);
    assert_eq!(order(ArbiterSpec::RoundRobin(Quantum::Bytes(Bytes(F + 1)))), pairs);
    // Host 0 sends one frame in the time of one frame, so its turn never ends before its last frame.
    assert_eq!(order(ArbiterSpec::RoundRobin(Quantum::Packets(6)))[..6], [0, 1, 2, 3, 4, 5]);
}

/// The numbers of the frames that arrive when two hosts send twenty frames each, to the same host at the same time,
/// through buffers of four frames.
fn survivors(drop_until_free: u64) -> Vec<u32> {
    let lossy = InputSpec::lossy(Bytes(4 * F));
    let spec = switch(InputSpec { drop_until_free: Bytes(drop_until_free), ..lossy });
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let mut script = Script::new(3);
    for id in 0..20 {
        script.send(0, 0, packet(2, FRAME, id));
        script.send(1, 0, packet(2, FRAME, 100 + id));
    }
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    assert_conserved(&fabric, &script);
    let mut ids: Vec<u32> = script.arrived.iter().map(|seen| seen.id).collect();
    ids.sort_unstable();
    ids
}

/// Each buffer fills by half a frame in the time of a frame, so it is full after about eight frames. From then on it
/// has room for every second frame. With a hysteresis of two frames, it drops until two frames have left, which takes
/// the time of four.
#[test]
fn a_full_buffer_drops_until_bytes_are_free() {
    let runs = |ids: &[u32]| ids.windows(2).filter(|pair| pair[1] != pair[0] + 1 && pair[1] != 100).count();
    let (none, two) = (survivors(0), survivors(2 * F));
    assert!(runs(&none) >= 8, "every second frame is lost: {none:?}");
    assert!(runs(&two) <= 5, "runs of frames are lost: {two:?}");
    let gaps = two.windows(2).filter(|pair| pair[0] < 100 && pair[1] < 100).map(|pair| pair[1] - pair[0]);
    assert!(gaps.max().unwrap() >= 3, "{two:?}");
    assert_eq!(survivors(1).len(), none.len(), "a single free byte is no hysteresis");
}

/// When 1,000 frames arrive that one host sends to another.
fn arrivals(clocks: ClockSpec, seed: u64) -> Vec<u64> {
    let spec = FabricSpec { clocks, ..switch(InputSpec::lossy(Bytes(100 * F))) };
    let mut fabric = Fabric::new(&spec, seed).unwrap();
    let mut script = Script::new(3);
    script.send_burst(0, 0, 1, 1_000);
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    script.arrivals(1).iter().map(|(at, _)| *at).collect()
}

#[test]
fn a_skewed_clock_sends_faster_or_slower_than_its_rate() {
    let perfect = arrivals(ClockSpec::default(), 1);
    let skewed = |seed| arrivals(ClockSpec { skew_ppm: 1_000, jitter: Time::ZERO }, seed);
    assert_eq!(skewed(1), skewed(1));
    let duration = |times: &[u64]| (times[999] - times[0]) as f64;
    let ratios: Vec<f64> = (1..20).map(|seed| duration(&skewed(seed)) / duration(&perfect)).collect();
    assert!(ratios.iter().all(|ratio| (ratio - 1.0).abs() <= 0.001_01), "{ratios:?}");
    assert!(ratios.iter().any(|ratio| *ratio > 1.000_2) && ratios.iter().any(|ratio| *ratio < 0.999_8), "{ratios:?}");
}

#[test]
fn jitter_delays_frames_and_keeps_their_order() {
    let perfect = arrivals(ClockSpec::default(), 1);
    let jitter = Time::from_ns(5);
    let late = arrivals(ClockSpec { skew_ppm: 0, jitter }, 1);
    assert_ne!(late, arrivals(ClockSpec { skew_ppm: 0, jitter }, 2));
    let mut max = 0;
    for (frame, (late, perfect)) in late.iter().zip(&perfect).enumerate() {
        assert!(late >= perfect, "frame {frame}");
        max = max.max(late - perfect);
    }
    // Two links, and a switch whose output can be late by one more jitter.
    assert!((5_000..=15_000).contains(&max), "{max} ps");
}
