//! Tests every buffer with every scheduler, with ECN marking on enqueue and on dequeue, and with every path selection.

use crate::common::*;
use proptest::prelude::*;
use rnic_fabric::config::{
    ArbiterSpec, BufferSpec, ClockSpec, FabricSpec, InputSpec, MarkOn, OutputBuffers, OutputSpec, PATHS,
    PauseThreshold, PfcThresholds, Quantum, SchedulerSpec, SharedPfc, SharedSpec, TopologySpec,
};
use rnic_fabric::{Ending, Fabric, Packet, Topology, lossless_headroom};
use rnic_transport::{Bytes, Time};

const F: u64 = FRAME as u64;

/// Every buffer without PFC, of `size` bytes for each port and priority of `ports` ports and `priorities` priorities.
fn buffers(size: u64, ports: u64, priorities: u64) -> [BufferSpec; 3] {
    [
        input_buffer(size),
        BufferSpec::Shared(SharedSpec::lossy(Bytes(size * ports * priorities))),
        BufferSpec::Output(OutputSpec {
            buffers: OutputBuffers::Equal(Bytes(size)),
            trim: None,
            count_in_service: false,
        }),
    ]
}

/// Every arbiter of an input-queued switch, with and without hysteresis, with buffers of `size` bytes.
fn arbiters(size: u64) -> [InputSpec; 4] {
    let lossy = InputSpec::lossy(Bytes(size));
    let (two_frames, three_packets) = (Quantum::Bytes(Bytes(2 * F)), Quantum::Packets(3));
    [
        lossy,
        InputSpec { arbiter: ArbiterSpec::RoundRobin(three_packets), ..lossy },
        InputSpec { arbiter: ArbiterSpec::RoundRobin(two_frames), drop_until_free: Bytes(size / 2), ..lossy },
        InputSpec { arbiter: ArbiterSpec::OldestFirst, drop_until_free: Bytes(size), ..lossy },
    ]
}

/// Clocks far from perfect.
const BAD_CLOCKS: ClockSpec = ClockSpec { skew_ppm: 20_000, jitter: Time::from_ns(100) };

/// Weights of all eight priorities from the weights of the lowest three.
fn weights(weights: [u32; 3]) -> [u32; 8] {
    std::array::from_fn(|priority| weights.get(priority).copied().unwrap_or(0))
}

/// Every scheduler, for three priorities.
fn schedulers() -> [SchedulerSpec; 5] {
    [
        SchedulerSpec::STRICT,
        SchedulerSpec::Strict { max_in_a_row: Some(2) },
        SchedulerSpec::RoundRobin,
        SchedulerSpec::DeficitRoundRobin(weights([1, 2, 4])),
        SchedulerSpec::WeightedRoundRobin(weights([1, 2, 3])),
    ]
}

/// A fabric with one switch and a priority for each sending host: tests let host p send in priority p to the last host.
fn single_switch(hosts: u32, buffer: BufferSpec, scheduler: SchedulerSpec) -> FabricSpec {
    let mut spec = spec(TopologySpec::SingleSwitch { hosts });
    spec.switch.buffer = buffer;
    spec.switch.scheduler = scheduler;
    spec.switch.priorities = hosts as u8 - 1;
    spec
}

/// Priorities in the order in which six full frames of each of three priorities arrive. The first frame of priority 0
/// passes through. After it, one frame leaves in the time in which one frame of each priority arrives.
fn order(buffer: BufferSpec, scheduler: SchedulerSpec) -> Vec<u8> {
    let mut fabric = Fabric::new(&single_switch(4, buffer, scheduler), 1).unwrap();
    let mut script = Script::new(4);
    for priority in 0..3 {
        for id in 0..6 {
            let packet = packet(3, FRAME, 100 * u32::from(priority) + id);
            script.send(u32::from(priority), 0, Packet { priority, ..packet });
        }
    }
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    assert_conserved(&fabric, &script);
    for priority in 0..3 {
        let sent = script.packets.iter().filter(|packet| packet.priority == priority);
        let ids: Vec<u32> = sent.map(|packet| packet.body % 100).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4, 5], "a priority is first in, first out");
    }
    script.packets.iter().map(|packet| packet.priority).collect()
}

#[test]
fn each_scheduler_gives_the_order_by_hand_with_each_buffer() {
    let strict_then = |then: &[u8]| [&[0, 2, 2, 2, 2, 2, 2][..], then].concat();
    let by_hand = [
        (SchedulerSpec::STRICT, strict_then(&[1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0])),
        (SchedulerSpec::Strict { max_in_a_row: Some(2) }, vec![0, 2, 2, 1, 2, 2, 1, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0]),
        (SchedulerSpec::RoundRobin, vec![0, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 1, 2]),
        // Quanta of 1,600, 3,200 and 6,400 bytes are enough for one, two and five frames of 1,086 bytes. When the
        // second frame of priority 0 leaves, its queue is empty, so its deficit is reset. In their next turns, priority
        // 1 sends three frames and priority 2 sends its last frame.
        (
            SchedulerSpec::DeficitRoundRobin(weights([1, 2, 4])),
            vec![0, 0, 1, 1, 2, 2, 2, 2, 2, 0, 1, 1, 1, 2, 0, 1, 0, 0],
        ),
        (SchedulerSpec::DeficitRoundRobin(weights([1, 1, 0])), strict_then(&[0, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1])),
        (
            SchedulerSpec::WeightedRoundRobin(weights([1, 2, 3])),
            vec![0, 0, 1, 1, 2, 2, 2, 0, 1, 1, 2, 2, 2, 0, 1, 1, 0, 0],
        ),
        (SchedulerSpec::WeightedRoundRobin(weights([1, 1, 0])), strict_then(&[0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1])),
    ];
    for buffer in buffers(1_000_000, 4, 3) {
        for (scheduler, expected) in &by_hand {
            assert_eq!(order(buffer, *scheduler), *expected, "{scheduler:?} {buffer:?}");
        }
    }
}

/// Bytes of each priority among the first 3,000 packets to arrive, when priority 0 sends packets of 400 bytes and
/// priority 1 full frames, each as fast as its link allows.
fn shares(buffer: BufferSpec, scheduler: SchedulerSpec) -> [u64; 2] {
    let mut fabric = Fabric::new(&single_switch(3, buffer, scheduler), 1).unwrap();
    let mut script = Script::new(3);
    for id in 0..8_000 {
        script.send(0, 0, packet(2, 400, id));
        script.send(1, 0, Packet { priority: 1, ..packet(2, FRAME, id) });
    }
    script.stop_at = 1_000 * US;
    fabric.run(&mut script);
    assert!(script.packets.len() > 3_000);
    let mut bytes = [0; 2];
    for packet in &script.packets[..3_000] {
        bytes[usize::from(packet.priority)] += u64::from(packet.bytes);
    }
    bytes
}

/// Asserts that `partition` is the expected share of all bytes in `of`, within 1 %.
fn assert_share(partition: u64, of: [u64; 2], expected: f64) {
    let share = partition as f64 / of.iter().sum::<u64>() as f64;
    assert!((share - expected).abs() < 0.01, "{share} instead of {expected}");
}

#[test]
fn deficits_share_bytes_and_weighted_turns_share_packets() {
    let weights = weights([1, 3, 0]);
    for buffer in buffers(10_000_000, 3, 2) {
        let bytes = shares(buffer, SchedulerSpec::DeficitRoundRobin(weights));
        assert_share(bytes[0], bytes, 0.25);
        // Priority 0 sends one packet of 400 bytes for three packets of 1,086 bytes of priority 1.
        let bytes = shares(buffer, SchedulerSpec::WeightedRoundRobin(weights));
        assert_share(bytes[0], bytes, 400.0 / (400.0 + 3.0 * 1_086.0));
        let bytes = shares(buffer, SchedulerSpec::RoundRobin);
        assert_share(bytes[0], bytes, 400.0 / (400.0 + 1_086.0));
        let bytes = shares(buffer, SchedulerSpec::STRICT);
        assert!(bytes[0] < 20 * 400, "priority 0 starves after priority 1 begins: {bytes:?}");
    }
}

/// Host 0 sends five frames, and host 1 sends five frames half a frame time later, all in one priority. The threshold
/// is two and a half frames. Frame k of either host arrives while k frames wait. The first frame passes through. The
/// other frames leave queues of 1, 2, 3, 4 and then 4, 3, 2, 1, 0 frames behind.
#[test]
fn each_buffer_marks_at_either_end_of_the_queue() {
    for buffer in buffers(1_000_000, 3, 1) {
        for (mark_on, expected) in [(MarkOn::Enqueue, [3, 103, 4, 104]), (MarkOn::Dequeue, [101, 2, 102, 3])] {
            let mut spec = single_switch(3, buffer, SchedulerSpec::STRICT);
            spec.switch.priorities = 1;
            spec.switch.ecn = mark_above(5 * F / 2, mark_on);
            let mut fabric = Fabric::new(&spec, 1).unwrap();
            let mut script = Script::new(3);
            for (host, start, first) in [(0, 0, 0), (1, T / 2, 100)] {
                for id in 0..5 {
                    script.send(host, start, packet(2, FRAME, first + id));
                }
            }
            assert_eq!(fabric.run(&mut script), Ending::Idle);
            assert_eq!(script.marked, expected, "{mark_on:?} {buffer:?}");
        }
    }
}

/// A burst between two of eight hosts: sender, receiver, start in microseconds, number of packets, and bytes and
/// priority of each packet.
type Burst = (u32, u32, u64, u32, u16, u8);

fn bursts() -> impl Strategy<Value = Vec<Burst>> {
    prop::collection::vec((0u32..8, 0u32..8, 0u64..20, 1u32..40, 64u16..=FRAME, 0u8..3), 1..30)
}

/// Runs the bursts; returns the number of packets that hosts sent.
fn run(fabric: &mut Fabric<u32>, script: &mut Script, mut bursts: Vec<Burst>) -> u32 {
    bursts.sort_by_key(|burst| burst.2);
    let mut sent = 0;
    for (from, to, at, count, bytes, priority) in bursts.into_iter().filter(|burst| burst.0 != burst.1) {
        for _ in 0..count {
            let packet = Packet { priority, flow_hash: from * 8 + to, ..packet(to, bytes, sent) };
            script.send(from, at * US, packet);
            sent += 1;
        }
    }
    assert_eq!(fabric.run(script), Ending::Idle);
    sent
}

fn leaf_spine(buffer: BufferSpec, scheduler: SchedulerSpec) -> FabricSpec {
    let (uplink_rate, uplink_delay) = (None, None);
    let topology = TopologySpec::LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 4, uplink_rate, uplink_delay };
    let mut spec = spec(topology);
    (spec.switch.buffer, spec.switch.scheduler, spec.switch.priorities) = (buffer, scheduler, 3);
    spec
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    /// Every packet arrives once or is dropped, for every combination of the parts of a switch.
    #[test]
    fn no_combination_loses_or_repeats_packets(bursts in bursts(), size in 1u64..20, seed: u64) {
        let arbiters = arbiters(size * F).map(BufferSpec::Input);
        for buffer in buffers(size * F, 6, 3).into_iter().chain(arbiters) {
            for scheduler in schedulers() {
                for path in PATHS {
                    for mark_on in [MarkOn::Enqueue, MarkOn::Dequeue] {
                        let mut spec = leaf_spine(buffer, scheduler);
                        spec.paths = path.paths;
                        spec.clocks = if mark_on == MarkOn::Enqueue { ClockSpec::default() } else { BAD_CLOCKS };
                        spec.switch.ecn = mark_above(2 * F, mark_on);
                        let mut fabric = Fabric::new(&spec, seed).unwrap();
                        let mut script = Script::new(8);
                        let sent = run(&mut fabric, &mut script, bursts.clone());
                        assert_conserved(&fabric, &script);
                        let drops: u64 = fabric.topology().port_ids()
                            .flat_map(|port| fabric.counters(port)).map(|c| c.drops).sum();
                        prop_assert_eq!(script.arrived.len() as u64 + drops, u64::from(sent));
                        let mut ids: Vec<u32> = script.arrived.iter().map(|seen| seen.id).collect();
                        ids.sort_unstable();
                        prop_assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "no packet arrives twice");
                    }
                }
            }
        }
    }

    /// With the headroom of `lossless_headroom`, PFC drops no packet and delays no packet for ever, with every
    /// scheduler and arbiter, and with good and bad clocks.
    #[test]
    fn pfc_is_lossless_with_every_scheduler(
        bursts in bursts(), xoff in 0u64..10, xon in 0u64..10, beta in 0.1..4.0f64, bad_clocks: bool, seed: u64,
    ) {
        let topology = Topology::build(&leaf_spine(input_buffer(0), SchedulerSpec::STRICT)).unwrap();
        let clocks = if bad_clocks { BAD_CLOCKS } else { ClockSpec::default() };
        let headroom = lossless_headroom(&topology, u32::from(FRAME), 20, &clocks);
        let pfc = PfcThresholds { xoff: Bytes(xoff * F), xon: Bytes(xon.min(xoff) * F), headroom };
        let shared = |threshold| {
            let pfc = Some(SharedPfc { threshold, xon_offset: Bytes(2 * F), headroom, lossless: u8::MAX });
            BufferSpec::Shared(SharedSpec { pfc, ..SharedSpec::lossy(Bytes(20 * F + 6 * 3 * headroom.0)) })
        };
        let inputs = arbiters(0).map(|input| BufferSpec::Input(InputSpec { pfc: Some(pfc), ..input }));
        let shared = [shared(PauseThreshold::Static(Bytes(xoff * F))), shared(PauseThreshold::Dynamic { beta })];
        for buffer in inputs.into_iter().chain(shared) {
            for scheduler in schedulers() {
                let spec = FabricSpec { clocks, ..leaf_spine(buffer, scheduler) };
                let mut fabric = Fabric::new(&spec, seed).unwrap();
                let mut script = Script::new(8);
                let sent = run(&mut fabric, &mut script, bursts.clone());
                prop_assert_eq!(script.arrived.len(), sent as usize, "{:?} {:?}", scheduler, buffer);
            }
        }
    }
}
