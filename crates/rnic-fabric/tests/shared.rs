//! Tests of a fabric whose switch has a shared buffer.

use crate::common::*;
use proptest::prelude::*;
use rnic_fabric::config::{
    BufferSpec, ClockSpec, FabricSpec, MarkOn, PauseThreshold, SharedPfc, SharedSpec, TopologySpec,
};
use rnic_fabric::{Ending, Fabric, lossless_headroom};
use rnic_transport::{Bytes, Time};

const F: u64 = FRAME as u64;

/// `hosts` hosts on one switch with a pool of `buffer` bytes and lossless headroom. The pause threshold is dynamic if
/// `beta` is given, and otherwise `xoff` bytes.
fn shared(hosts: u32, buffer: u64, xoff: u64, beta: Option<f64>) -> FabricSpec {
    let mut spec = spec(TopologySpec::SingleSwitch { hosts });
    let topology = rnic_fabric::Topology::build(&spec).unwrap();
    let headroom = lossless_headroom(&topology, u32::from(FRAME), spec.frame_gap, &ClockSpec::default());
    let threshold = beta.map_or(PauseThreshold::Static(Bytes(xoff)), |beta| PauseThreshold::Dynamic { beta });
    let pfc = Some(SharedPfc { threshold, xon_offset: Bytes(2 * F), headroom, lossless: u8::MAX });
    spec.switch.buffer =
        BufferSpec::Shared(SharedSpec { pfc, ..SharedSpec::lossy(Bytes(buffer + headroom.0 * u64::from(hosts))) });
    spec
}

/// Two hosts send to a third as fast as they can. Their frames arrive alternately and leave in the same order, because
/// the output is first in, first out, whichever input a frame arrived on.
#[test]
fn an_output_sends_what_came_first() {
    let mut fabric = Fabric::new(&shared(3, 1_000_000, 500_000, None), 1).unwrap();
    let mut script = Script::new(3);
    for (host, start, first) in [(0, 0, 0), (1, T / 2, 100)] {
        for id in 0..20 {
            script.send(host, start, packet(2, FRAME, first + id));
        }
    }
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    let order: Vec<u32> = script.arrivals(2).iter().map(|(_, id)| *id).collect();
    let by_turns: Vec<u32> = (0..20).flat_map(|id| [id, 100 + id]).collect();
    assert_eq!(order, by_turns);
}

/// Two hosts overload an output by a factor of two. Both exceed the threshold, are paused, and are resumed later.
#[test]
fn a_pause_at_the_threshold_and_a_resume_below_it() {
    let mut fabric = Fabric::new(&shared(3, 1_000_000, 4 * F, None), 1).unwrap();
    let topology = fabric.topology().clone();
    let mut script = Script::new(3);
    for host in [0, 1] {
        script.send_burst(host, 0, 2, 300);
    }
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    for host in ["h0", "h1"] {
        let input = port(&topology, "s0", host);
        let counters = fabric.counters(input)[0];
        assert!(counters.pause_sent > 0 && counters.drops == 0);
        // The occupancy never exceeds the threshold plus the headroom.
        let headroom = lossless_headroom(&topology, u32::from(FRAME), 20, &ClockSpec::default()).0;
        assert!((4 * F..=4 * F + headroom).contains(&counters.queue_high_water), "{counters:?}");
    }
    assert_eq!(script.arrivals(2).len(), 600);
}

/// Host 0 sends five frames, and host 1 sends five frames half a frame time later. The threshold is two and a half
/// frames. Frame k of either host arrives while k frames wait. Frame 0 passes through. The other frames leave queues of
/// 1, 2, 3, 4 and then 4, 3, 2, 1, 0 frames behind.
#[test]
fn marks_by_the_queue_that_a_packet_joins_or_leaves_behind() {
    for (mark_on, expected) in [(MarkOn::Enqueue, [3, 103, 4, 104]), (MarkOn::Dequeue, [101, 2, 102, 3])] {
        let mut spec = shared(3, 1_000_000, 500_000, None);
        spec.switch.ecn = mark_above(5 * F / 2, mark_on);
        let mut fabric = Fabric::new(&spec, 1).unwrap();
        let output = port(fabric.topology(), "s0", "h2");
        let mut script = Script::new(3);
        for (host, start, first) in [(0, 0, 0), (1, T / 2, 100)] {
            for id in 0..5 {
                script.send(host, start, packet(2, FRAME, first + id));
            }
        }
        assert_eq!(fabric.run(&mut script), Ending::Idle);
        assert_eq!((script.marked, fabric.counters(output)[0].marked), (expected.to_vec(), 4), "{mark_on:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    /// With the headroom of `lossless_headroom`, no packet is dropped and every packet arrives, for any threshold and
    /// any traffic.
    #[test]
    fn headroom_makes_it_lossless(
        hosts in 2u32..7, dynamic: bool, level in 0u64..20, pool in 2u64..200,
        bursts in prop::collection::vec((0u32..7, 0u32..7, 0u64..40, 1u32..60, 64u16..=FRAME), 1..30),
    ) {
        let mut fabric = Fabric::new(&shared(hosts, pool * F, level * F, dynamic.then_some(0.05 + level as f64)), 1).unwrap();
        let mut script = Script::new(hosts);
        let mut bursts: Vec<_> = bursts.into_iter().map(|(a, b, at, n, bytes)| (a % hosts, b % hosts, at, n, bytes)).collect();
        bursts.sort_by_key(|burst| burst.2);
        let mut sent = 0;
        for (from, to, at, count, bytes) in bursts.into_iter().filter(|burst| burst.0 != burst.1) {
            for id in 0..count {
                script.send(from, at * US, packet(to, bytes, id));
                sent += 1;
            }
        }
        prop_assert_eq!(fabric.run(&mut script), Ending::Idle);
        prop_assert_eq!(script.arrived.len(), sent);
        for number in fabric.topology().port_ids() {
            prop_assert_eq!(fabric.counters(number)[0].drops, 0);
        }
        prop_assert!(fabric.now() < Time::from_ms(1_000));
    }
}
