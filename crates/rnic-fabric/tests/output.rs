//! Tests of switches with a buffer for each output and priority: order, drops, trimming, and returned headers.

use crate::common::*;
use proptest::prelude::*;
use rnic_fabric::config::{
    BufferSpec, FabricSpec, MarkOn, OutputBuffers, OutputSpec, Paths, TopologySpec, TrimSpec, TrimmedPriority,
};
use rnic_fabric::{Body, Ending, Fabric, HostId, Packet, PriorityCounters};
use rnic_transport::Bytes;

const F: u64 = FRAME as u64;
/// Time, in ps, at which the frames that hosts send at time 0 have arrived at their switch.
const A: u64 = T + 2 * US;
/// Serialisation time, in ps, of a trimmed packet on a 40 Gbps link: 64 + 20 bytes at 200 ps.
const H: u64 = 16_800;

/// A body that names its sender.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Signed {
    number: u32,
    source: u32,
}
impl Body for Signed {
    fn source(&self) -> Option<HostId> {
        Some(HostId(self.source))
    }
}
impl Numbered for Signed {
    fn number(&self) -> u32 {
        self.number
    }
}

const TRIM: TrimSpec = TrimSpec { to: 64, headers: TrimmedPriority::Highest, return_to_sender: false };

/// `hosts` hosts on one switch. `buffers` are the sizes in bytes of the buffers at each output, lowest priority first.
fn output(hosts: u32, buffers: &[u64], trim: Option<TrimSpec>) -> FabricSpec {
    let mut spec = spec(TopologySpec::SingleSwitch { hosts });
    let buffer = |priority: usize| Bytes(buffers.get(priority).copied().unwrap_or(0));
    let buffers_of = OutputBuffers::PerPriority(std::array::from_fn(buffer));
    spec.switch.buffer = BufferSpec::Output(OutputSpec { buffers: buffers_of, trim, count_in_service: false });
    spec.switch.priorities = buffers.len() as u8;
    spec
}

fn signed(source: u32, dst: u32, number: u32) -> Packet<Signed> {
    Packet { dst: HostId(dst), bytes: FRAME, body: Signed { number, source }, ..Packet::default() }
}

/// Each host except the last sends one packet to the last host at time 0. The packets arrive at the switch at `A`, in
/// the order of hosts.
fn all_to_the_last(spec: &FabricSpec, hosts: u32) -> (Fabric<Signed>, Script<Signed>) {
    let mut fabric = Fabric::new(spec, 1).unwrap();
    let mut script = Script::new(hosts);
    for host in 0..hosts - 1 {
        script.send(host, 0, signed(host, hosts - 1, host));
    }
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    assert_conserved(&fabric, &script);
    (fabric, script)
}

/// Sum of a counter over all priorities of the switch's port to a host.
fn total<B: Body>(fabric: &Fabric<B>, host: u32, of: fn(&PriorityCounters) -> u64) -> u64 {
    let number = port(fabric.topology(), "s0", &format!("h{host}"));
    fabric.counters(number).iter().map(of).sum()
}

/// Host 0 sends four frames. Half a frame time later, host 1 sends four frames in priorities 0, 2, 1 and 0. Frame 100
/// waits alone when frame 0 has left; among later frames the higher priorities go first.
#[test]
fn the_highest_priority_goes_first() {
    let mut fabric = Fabric::new(&output(3, &[100_000; 3], None), 1).unwrap();
    let mut script = Script::new(3);
    script.send_burst(0, 0, 2, 4);
    for (id, priority) in [(100, 0), (101, 2), (102, 1), (103, 0)] {
        script.send(1, T / 2, Packet { priority, ..packet(2, FRAME, id) });
    }
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    let order: Vec<u32> = script.arrivals(2).iter().map(|(_, id)| *id).collect();
    assert_eq!(order, [0, 100, 101, 102, 1, 2, 3, 103]);
}

/// Pairs of frames go to an output with room for three frames; from the third pair on, the second frame finds no room.
/// Another priority and another output have buffers of their own.
#[test]
fn a_buffer_is_per_output_and_priority() {
    let mut fabric = Fabric::new(&output(4, &[3 * F, F], None), 1).unwrap();
    let mut script = Script::new(4);
    for k in 0..5 {
        script.send(0, 0, packet(2, FRAME, k));
        script.send(1, 0, packet(2, FRAME, 100 + k));
    }
    script.send(3, A - 2 * US + T, Packet { priority: 1, ..packet(2, FRAME, 200) });
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    let order: Vec<u32> = script.arrivals(2).iter().map(|(_, id)| *id).collect();
    // Frame 200 arrives with the third pair, and is sent before the waiting frames. So both frames of the fourth pair
    // find the queue full.
    assert_eq!(order, [0, 100, 200, 1, 101, 2, 4]);
    let drops = [0, 1, 2, 3].map(|host| total(&fabric, host, |c| c.drops));
    assert_eq!(drops, [1, 3, 0, 0], "counted where the frames came in");
    let number = port(fabric.topology(), "s0", "h2");
    let high_water: Vec<u64> = fabric.counters(number).iter().map(|c| c.queue_high_water).collect();
    assert_eq!(high_water, [3 * F, F], "counted where the frames wait");
    assert_conserved(&fabric, &script);
}

/// The same pairs of frames with trimming: a header leaves before data that arrived earlier.
#[test]
fn a_header_overtakes_data() {
    let mut fabric = Fabric::new(&output(3, &[3 * F, 1_000], Some(TRIM)), 1).unwrap();
    let mut script = Script::new(3);
    for k in 0..5 {
        script.send(0, 0, packet(2, FRAME, k));
        script.send(1, 0, packet(2, FRAME, 100 + k));
    }
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    let arrived: Vec<(u32, bool)> = script.packets.iter().map(|packet| (packet.body, packet.is_trimmed())).collect();
    let whole = |id: u32| (id, false);
    let header = |id: u32| (id, true);
    let expected = [0, 100].map(whole).into_iter().chain([header(102), whole(1), header(103), whole(101), header(104)]);
    assert_eq!(arrived, expected.chain([2, 3, 4].map(whole)).collect::<Vec<_>>());
    assert_eq!(script.arrivals(2).last(), Some(&(A + 7 * T + 3 * H + 2 * US, 4)), "the output was never idle");
    for packet in script.packets.iter().filter(|packet| packet.is_trimmed()) {
        assert_eq!((packet.bytes, packet.priority, packet.is_returned()), (64, 1, false));
    }
    let number = port(fabric.topology(), "s0", "h2");
    let counters: Vec<(u64, u64)> = fabric.counters(number).iter().map(|c| (c.trimmed, c.returned)).collect();
    assert_eq!(counters, [(3, 0), (0, 0)], "by the priority that the packets had");
    assert_conserved(&fabric, &script);
}

/// Frame 0 passes through. Frames 1 and 2 wait, and so do the headers of frames 3 and 4. The header of frame 5 has no
/// room.
#[test]
fn a_header_without_room_is_dropped_or_goes_back() {
    let (fabric, script) = all_to_the_last(&output(7, &[2 * F, 128], Some(TRIM)), 7);
    let order: Vec<u32> = script.arrivals(6).iter().map(|(_, id)| *id).collect();
    assert_eq!(order, [0, 3, 4, 1, 2]);
    assert_eq!((total(&fabric, 5, |c| c.drops), total(&fabric, 6, |c| c.trimmed)), (1, 2));

    let back = TrimSpec { return_to_sender: true, ..TRIM };
    let (fabric, script) = all_to_the_last(&output(7, &[2 * F, 128], Some(back)), 7);
    assert_eq!(script.arrivals(6).len(), 5);
    assert_eq!(script.arrivals(5), [(A + H + 2 * US, 5)], "it passes, as the output to its sender is idle");
    let returned = script.packets.iter().find(|packet| packet.dst == HostId(5)).unwrap();
    assert!(returned.is_returned() && returned.is_trimmed());
    assert_eq!((returned.bytes, returned.priority, returned.body), (64, 1, Signed { number: 5, source: 5 }));
    assert_eq!((total(&fabric, 6, |c| c.trimmed), total(&fabric, 6, |c| c.returned)), (3, 1));
    assert_eq!((0..7).map(|host| total(&fabric, host, |c| c.drops)).sum::<u64>(), 0);

    // No output has room for a header.
    let (fabric, script) = all_to_the_last(&output(7, &[2 * F, 63], Some(back)), 7);
    assert_eq!(script.arrived.len(), 3);
    assert_eq!([3, 4, 5].map(|host| total(&fabric, host, |c| c.drops)), [1, 1, 1]);
    assert_eq!((total(&fabric, 6, |c| c.trimmed), total(&fabric, 6, |c| c.returned)), (0, 0));
}

/// A header whose body does not name its sender cannot be returned, and a control packet is not trimmed.
#[test]
fn what_cannot_be_trimmed_or_returned_is_dropped() {
    let back = TrimSpec { return_to_sender: true, ..TRIM };
    let mut fabric = Fabric::new(&output(5, &[F, 64], Some(back)), 1).unwrap();
    let mut script = Script::new(5);
    // Frame 0 passes through, frame 1 and the header of frame 2 wait, and frame 3 has no room. The frames that arrive
    // afterwards, a control packet and two small frames, have no room either.
    for host in 0..4 {
        script.send(host, 0, packet(4, FRAME, host));
    }
    script.send(0, 0, Packet { flags: Packet::<u32>::CONTROL, ..packet(4, 200, 10) });
    script.send(1, 0, packet(4, 64, 11));
    script.send(2, 0, packet(4, 64, 12));
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    let drops = |host: u32| (total(&fabric, host, |c| c.drops), total(&fabric, host, |c| c.control_drops));
    assert_eq!([0, 1, 2, 3].map(drops), [(1, 1), (1, 0), (1, 0), (1, 0)]);
    let order: Vec<u32> = script.arrivals(4).iter().map(|(_, id)| *id).collect();
    assert_eq!(order, [0, 2, 1]);
    assert_conserved(&fabric, &script);
}

#[test]
fn headers_go_one_priority_above_their_packets() {
    let above = TrimSpec { headers: TrimmedPriority::Above, to: 100, ..TRIM };
    let mut fabric = Fabric::new(&output(8, &[F, F, F], Some(above)), 1).unwrap();
    let mut script = Script::new(8);
    // Frame 0 passes through, and frames 1 (priority 0) and 3 (priority 2) wait. The other frames find no room.
    for (host, priority) in [(0, 0), (1, 0), (2, 0), (3, 2), (4, 2), (5, 1), (6, 1)] {
        script.send(host, 0, Packet { priority, ..packet(7, FRAME, host) });
    }
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    let trimmed: Vec<_> = script.packets.iter().filter(|p| p.is_trimmed()).map(|p| (p.body, p.priority)).collect();
    // The header of frame 4 stays in the highest priority, whose buffer is full. The header of frame 2 is in priority
    // 1, where frame 5 arrives later and finds no room.
    assert_eq!(trimmed, [(2, 1)]);
    assert_eq!([4, 5, 6].map(|host| total(&fabric, host, |c| c.drops)), [1, 1, 1]);
}

#[test]
fn headers_go_one_priority_below_their_packets() {
    let below = TrimSpec { headers: TrimmedPriority::Below, ..TRIM };
    let mut fabric = Fabric::new(&output(6, &[F, F], Some(below)), 1).unwrap();
    let mut script = Script::new(6);
    // Frame 0 passes through. Frame 1 (priority 1) waits and frame 2 finds no room. Its header waits in priority 0
    // behind frame 1, and leaves no room for frame 3. The header of frame 3 stays in priority 0, the lowest.
    for (host, priority) in [(0, 1), (1, 1), (2, 1), (3, 0)] {
        script.send(host, 0, Packet { priority, ..packet(5, FRAME, host) });
    }
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    let order: Vec<_> = script.packets.iter().map(|p| (p.body, p.priority, p.is_trimmed())).collect();
    assert_eq!(order, [(0, 1, false), (1, 1, false), (2, 0, true), (3, 0, true)]);
}

/// Five frames arrive at the same time, and one more when the output is idle again. A buffer for two frames holds two
/// waiting frames, or one if the frame in service counts.
#[test]
fn the_packet_in_service_counts_if_asked() {
    let run = |count_in_service, late_priority| {
        let mut spec = output(7, &[2 * F, 2 * F], None);
        let BufferSpec::Output(ref mut buffers) = spec.switch.buffer else { unreachable!() };
        buffers.count_in_service = count_in_service;
        let mut fabric = Fabric::new(&spec, 1).unwrap();
        let mut script = Script::new(7);
        for host in 0..5 {
            script.send(host, 0, packet(6, FRAME, host));
        }
        // Frames 10 and 11 arrive while frame 0 is in service, frames 20 and 21 when all others have left.
        script.send(5, 1, Packet { priority: late_priority, ..packet(6, FRAME, 10) });
        script.send(5, 0, Packet { priority: late_priority, ..packet(6, FRAME, 11) });
        script.send(0, 9 * T, packet(6, FRAME, 20));
        script.send(1, 9 * T, packet(6, FRAME, 21));
        assert_eq!(fabric.run(&mut script), Ending::Idle);
        assert_conserved(&fabric, &script);
        let number = port(fabric.topology(), "s0", "h6");
        let high_water = fabric.counters(number)[0].queue_high_water;
        (script.arrivals(6).iter().map(|(_, id)| *id).collect::<Vec<u32>>(), high_water)
    };
    let (order, high_water) = run(false, 0);
    assert_eq!(order[..3], [0, 1, 2]);
    assert_eq!((order[order.len() - 2..].to_vec(), high_water), (vec![20, 21], 2 * F));
    let (order, high_water) = run(true, 0);
    assert_eq!(order[..2], [0, 1]);
    assert_eq!((order[order.len() - 2..].to_vec(), high_water), (vec![20, 21], F), "the queue excludes the frame");
    // The frame in service does not count in another priority.
    let (order, _) = run(true, 1);
    assert!(order.contains(&10) && order.contains(&11), "{order:?}");
}

/// A packet is marked by the queue that it joins, and headers are not marked.
#[test]
fn data_is_marked_and_headers_are_not() {
    let mut spec = output(3, &[3 * F, 1_000], Some(TRIM));
    spec.switch.ecn = mark_above(F, MarkOn::Enqueue);
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let mut script = Script::new(3);
    for k in 0..4 {
        script.send(0, 0, packet(2, FRAME, k));
        script.send(1, 0, packet(2, FRAME, 100 + k));
    }
    assert_eq!(fabric.run(&mut script), Ending::Idle);
    // The second frame of the second pair finds two waiting frames, and so do the first frames of later pairs.
    assert_eq!(script.marked, [101, 2, 3]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    /// Every packet that is sent arrives once, whole or trimmed, or is returned, dropped or lost.
    #[test]
    fn no_packet_disappears(
        buffers in prop::collection::vec(64u64..4_000, 2..5), trimming: bool, above: bool, return_to_sender: bool, spray: bool,
        lossy: bool, seed: u64,
        bursts in prop::collection::vec((0u32..8, 0u32..8, 0u64..20, 1u32..30, 64u16..=FRAME, 0u8..5, any::<bool>()), 1..40),
    ) {
        let headers = if above { TrimmedPriority::Above } else { TrimmedPriority::Highest };
        let mut spec = output(8, &buffers, trimming.then_some(TrimSpec { headers, return_to_sender, ..TRIM }));
        let (uplink_rate, uplink_delay) = (None, None);
        spec.topology = TopologySpec::LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 4, uplink_rate, uplink_delay };
        spec.paths = if spray { Paths::Spray } else { Paths::Ecmp };
        spec.link.loss = if lossy { 0.02 } else { 0.0 };
        let mut fabric = Fabric::new(&spec, seed).unwrap();
        let mut script = Script::new(8);
        let mut bursts = bursts;
        bursts.sort_by_key(|burst| burst.2);
        let mut sent = Vec::new();
        for (from, to, at, count, bytes, priority, control) in bursts.into_iter().filter(|burst| burst.0 != burst.1) {
            for _ in 0..count {
                let flags = if control { Packet::<Signed>::CONTROL } else { 0 };
                let body = signed(from, to, sent.len() as u32);
                let packet = Packet { bytes, priority: priority % buffers.len() as u8, flags, flow_hash: from * 8 + to, ..body };
                script.send(from, at * US, packet);
                sent.push(packet);
            }
        }
        prop_assert_eq!(fabric.run(&mut script), Ending::Idle);
        assert_conserved(&fabric, &script);
        let count = |of: fn(&PriorityCounters) -> u64| -> u64 {
            fabric.topology().port_ids().flat_map(|port| fabric.counters(port)).map(of).sum()
        };
        let gone = count(|c| c.drops) + count(|c| c.lost);
        prop_assert_eq!(script.arrived.len() as u64 + gone, sent.len() as u64);
        let mut numbers: Vec<u32> = script.arrived.iter().map(|seen| seen.id).collect();
        numbers.sort_unstable();
        prop_assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "no packet arrives twice");
        for packet in &script.packets {
            let before = sent[packet.body.number as usize];
            prop_assert_eq!(packet.dst, if packet.is_returned() { HostId(before.body.source) } else { before.dst });
            prop_assert!(packet.is_trimmed() || !packet.is_returned());
            let bytes = if packet.is_trimmed() { 64 } else { before.bytes };
            prop_assert_eq!(packet.bytes, bytes);
            prop_assert!(!packet.is_trimmed() || before.flags == 0);
        }
        let arrived = |of: fn(&Packet<Signed>) -> bool| script.packets.iter().filter(|packet| of(packet)).count() as u64;
        let (trimmed, returned) = (arrived(Packet::is_trimmed), arrived(Packet::is_returned));
        prop_assert!((trimmed..=trimmed + gone).contains(&count(|c| c.trimmed)));
        prop_assert!((returned..=returned + gone).contains(&count(|c| c.returned)));
        for (priority, limit) in buffers.iter().enumerate() {
            let most = fabric.topology().port_ids().map(|port| fabric.counters(port)[priority].queue_high_water).max();
            prop_assert!(most <= Some(*limit));
        }
    }
}
