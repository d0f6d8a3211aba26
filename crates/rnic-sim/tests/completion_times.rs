//! Flow completion times, checked to the picosecond against values worked out by hand.

use crate::common::*;
use rnic_fabric::config::{ArbiterSpec, LinkSpec, NamedLink, TopologySpec};
use rnic_spec::{FlowSpec, InputSetup, QueueingSetup, RunSpec, RunStatus};
use rnic_transport::{BitRate, Bytes, Time};

/// Destinations from h0, with the number of links to each: under the same switch, in the same pod, in another pod.
const PEERS: [(u32, u64); 3] = [(1, 2), (3, 4), (9, 6)];

#[test]
fn a_lone_roce_flow_of_any_size_takes_exactly_its_ideal_time() {
    let sizes = [1, 2, 3, 63, 64, 1_023, 1_024, 1_025, 2_048, 2_049, 10_000, 100_000, 1_000_000];
    let mut flows = Vec::new();
    for (dst, _) in PEERS {
        for size in sizes {
            flows.push(flow(flows.len() as u64 * 1_000_000_000, 0, dst, size));
        }
    }
    for pfc in [false, true] {
        let mut run = fat_tree("roce");
        run.transport.pfc = pfc;
        let output = outcome(&run, &flows);
        assert_eq!(output.status, RunStatus::Completed);
        for record in &output.flows {
            assert_eq!(fct(&record), record.ideal.as_ps(), "{record:?}");
        }
    }
}

/// The ideal time of a flow equals the time worked out by hand. A small last frame follows the full frames without
/// gaining on them, because at every switch it waits for the full frame before it.
#[test]
fn the_ideal_time_is_that_worked_out_by_hand() {
    for (dst, links) in PEERS {
        // One frame takes 2 us and its serialisation time per link. With 1 B of payload it has 63 bytes, is padded to
        // 64, and takes 16,800 ps with the gap. With 2 B it has 64 bytes without padding.
        for (bytes, frame) in [(1, 16_800), (2, 16_800), (3, 17_000), (1_024, ROCE)] {
            let output = outcome(&fat_tree("roce"), &[flow(5, 0, dst, bytes)]);
            assert_eq!(fct(&output.flows.get(0).unwrap()), links * (frame + D), "{bytes} B, {links} links");
        }
        // The flow has 977 packets. The last has 576 bytes of payload and takes 658 bytes on the link, which are
        // 131,600 ps.
        let output = outcome(&fat_tree("roce"), &[flow(5, 0, dst, 1_000_000)]);
        assert_eq!(fct(&output.flows.get(0).unwrap()), links * (ROCE + D) + 975 * ROCE + 131_600);
        // Two packets, the second with one byte.
        let output = outcome(&fat_tree("roce"), &[flow(5, 0, dst, 1_025)]);
        assert_eq!(fct(&output.flows.get(0).unwrap()), links * (ROCE + D) + 16_800);
    }
}

/// The ideal time has plain RoCEv2 headers of 62 bytes and the frame gap of the run. 100 Gbps are 80 ps per byte; six
/// links of 1 us.
#[test]
fn the_ideal_time_has_the_frame_gap_of_the_run() {
    // (MTU, header, gap): 12,345 B are 13 packets, the last of 345 B; 49 packets, the last of 57 B; 9 packets, the last
    // of 345 B.
    for ((mtu, header, gap), (full, last, packets)) in [
        ((1_000, 48, 0), (1_062, 407, 13)),
        ((1_000, 48, 20), (1_082, 427, 13)),
        ((256, 90, 12), (330, 131, 49)),
        ((1_500, 54, 24), (1_586, 431, 9)),
    ] {
        let mut run = fat_tree("roce");
        run.fabric.link.rate = BitRate::from_gbps(100);
        run.fabric.link.delay = Time::from_us(1);
        (run.fabric.mtu, run.fabric.frame_gap) = (Bytes(mtu), Bytes(gap));
        run.transport.set("header", Bytes(header)).unwrap();
        let record = outcome(&run, &[flow(0, 0, 53, 12_345)]).flows.get(0).unwrap();
        let by_hand = 6 * (full * 80 + 1_000_000) + (packets - 2) * full * 80 + last * 80;
        assert_eq!(record.ideal.as_ps(), by_hand, "{mtu} {header} {gap}");
        // The packets have the headers of the run, which may be shorter.
        let (own_full, own_last) = (full + header - 62, last + header - 62);
        let fct_by_hand = 6 * (own_full * 80 + 1_000_000) + (packets - 2) * own_full * 80 + own_last * 80;
        assert_eq!(fct(&record), fct_by_hand, "{mtu} {header} {gap}");
    }
}

/// The default of `bdp_cap` lets a lone flow send without a pause: the flow is as fast as without a cap, and with the
/// headers of RoCE it takes its ideal time.
#[test]
fn the_default_cap_fills_an_empty_path() {
    let fabrics = [
        (TopologySpec::SingleSwitch { hosts: 2 }, 1),
        (TopologySpec::LeafSpine { leaves: 2, spines: 1, hosts_per_leaf: 1, uplink_rate: None, uplink_delay: None }, 1),
        (TopologySpec::FatTree { k: 4 }, 15),
    ];
    for (topology, dst) in fabrics {
        for (mtu, rate) in [(256, 10), (1_024, 400), (4_096, 25), (4_096, 100), (9_000, 10), (9_000, 400)] {
            for delay in [Time::from_ns(100), Time::from_ns(500), Time::from_us(10)] {
                let mut run = run_on(topology.clone(), "irn");
                run.fabric.link.rate = BitRate::from_gbps(rate);
                run.fabric.link.delay = delay;
                run.fabric.mtu = Bytes(mtu);
                run.fabric.switch.buffer = Some(Bytes(2_000_000));
                let lone = [flow(0, 0, dst, 1_000_000)];
                let capped = outcome(&run, &lone).flows.get(0).unwrap();
                run.transport.set("bdp_fc", false).unwrap();
                let free = outcome(&run, &lone).flows.get(0).unwrap();
                assert_eq!(fct(&capped), fct(&free), "{topology:?}, {mtu} B, {rate} Gbps, {delay}");
                let mut run = RunSpec { transport: run_on(topology.clone(), "irn").transport, ..run };
                run.transport.set("header", Bytes(62)).unwrap();
                let plain = outcome(&run, &lone).flows.get(0).unwrap();
                assert_eq!(fct(&plain), plain.ideal.as_ps(), "{topology:?}, {mtu} B, {rate} Gbps, {delay}");
            }
        }
    }
}

/// The cap fills the path between any two hosts, not only the longest: here a short path with a fast link needs more
/// packets than the long path over a slow link.
#[test]
fn the_default_cap_follows_from_the_path_that_needs_most() {
    let dumbbell = TopologySpec::Dumbbell {
        left: 2,
        right: 1,
        bottleneck_rate: Some(BitRate::from_gbps(4)),
        bottleneck_delay: Some(Time::from_us(3)),
    };
    let cap = |run: &RunSpec| resolved(run, &[flow(0, 0, 1, 1)]).flow.bdp_cap;
    let mut run = run_on(dumbbell, "irn");
    // h0 to h1: 4 links of 2 us there and back, 2 x (224.4 + 17.2) ns: 8,483.2 ns are 37.8 packets of 224.4 ns.
    // Over the bottleneck 14 us, 2 x (224.4 + 17.2) ns and 2,244 + 172 ns at 4 Gbps are 16,899.2 ns, 7.5 packets of
    // 2,244 ns.
    assert_eq!(cap(&run), 38);
    run.transport.set("bdp_delay", "propagation").unwrap();
    // 14 us at 4 Gbps are 7,000 bytes, 6.4 packets of 1,086.
    assert_eq!(cap(&run), 7);
    // The default case of the IRN paper.
    let mut run = fat_tree("irn");
    assert_eq!(cap(&run), 114);
    run.transport.set("bdp_delay", "propagation").unwrap();
    assert_eq!(cap(&run), 111);
    // Leaves of 25 Gbps under spines of 100 Gbps, packets of 4 KB: a frame of 4,194 bytes takes 1,342.08 or 335.52 ns,
    // an ACK 27.52 or 6.88 ns. The round trip is 7,424 ns, 5.5 packets.
    let uplink_rate = Some(BitRate::from_gbps(100));
    let pod = TopologySpec::LeafSpine { leaves: 4, spines: 2, hosts_per_leaf: 24, uplink_rate, uplink_delay: None };
    let mut run = run_on(pod, "irn");
    run.fabric.link = LinkSpec { rate: BitRate::from_gbps(25), delay: Time::from_ns(500), loss: 0.0 };
    run.fabric.mtu = Bytes(4_096);
    assert_eq!(cap(&run), 6);
    run.transport.set("bdp_delay", "propagation").unwrap();
    assert_eq!(cap(&run), 4);
    let warnings = resolved(&run, &[flow(0, 0, 1, 1)]).warnings;
    assert!(warnings[0].contains("67 % of line rate; 6 packets would fill it"), "{warnings:?}");
}

#[test]
fn headers_are_those_of_the_transport_unless_configured() {
    let mut run = fat_tree("irn");
    let alone = [flow(0, 0, 9, 1_024)];
    assert_eq!(fct(&outcome(&run, &alone).flows.get(0).unwrap()), 6 * (IRN + D));
    run.transport.set("header", Bytes(100)).unwrap(); // 1,144 bytes with the gap
    assert_eq!(fct(&outcome(&run, &alone).flows.get(0).unwrap()), 6 * (228_800 + D));
    let mut run = fat_tree("roce");
    run.transport.set("header", Bytes(42)).unwrap();
    let output = outcome(&run, &alone);
    assert_eq!(fct(&output.flows.get(0).unwrap()), 6 * (217_200 + D));
    // The denominator of the slowdown has plain RoCEv2 headers for every transport.
    assert_eq!(output.flows.get(0).unwrap().ideal.as_ps(), 6 * (ROCE + D));
}

#[test]
fn a_lone_flow_is_never_faster_than_its_ideal_time_whatever_the_frame_gap() {
    for gap in [0, 12, 20, 40] {
        let mut run = fat_tree("roce");
        run.fabric.frame_gap = Bytes(gap);
        let output = outcome(&run, &[flow(0, 0, 9, 50_000)]);
        // The flow has 49 packets; the last has 848 bytes of payload.
        let (full, last) = ((1_086 + gap) * 200, (910 + gap) * 200);
        assert_eq!(fct(&output.flows.get(0).unwrap()), 6 * (full + D) + 47 * full + last);
        assert_eq!(output.flows.get(0).unwrap().ideal.as_ps(), fct(&output.flows.get(0).unwrap()), "gap {gap}");
    }
}

/// With one packet in flight, each further packet takes a full round trip: the frame over all links, then the ACK.
#[test]
fn acks_have_the_size_and_time_of_real_ones() {
    for (dst, links) in PEERS {
        for (ack_size, ack) in [(None, 17_200), (Some(64), 16_800), (Some(20), 16_800), (Some(300), 64_000)] {
            let mut run = fat_tree("irn");
            run.transport.set("bdp_cap", 1_u64).unwrap();
            if let Some(bytes) = ack_size {
                run.transport.set("ack_size", Bytes(bytes)).unwrap();
            }
            let output = outcome(&run, &[flow(0, 0, dst, 5 * 1_024)]);
            let round_trip = links * (IRN + D) + links * (ack + D);
            assert_eq!(fct(&output.flows.get(0).unwrap()), 4 * round_trip + links * (IRN + D));
            assert_eq!((output.totals.data, output.totals.control), (5, 5));
        }
    }
}

#[test]
fn the_cap_on_packets_in_flight_is_exact() {
    // Over two links, a frame and its ACK take 2 x (224,400 + 17,200) ps + 8 us = 8,483,200 ps, which are 37.8 frame
    // times. With a BDP cap of 10, ten frames leave back to back, and each ACK releases one more frame.
    let mut run = fat_tree("irn");
    run.transport.set("bdp_cap", 10_u64).unwrap();
    let output = outcome(&run, &[flow(0, 0, 1, 35 * 1_024)]);
    // Packet 34 is the fifth packet of the fourth batch of ten.
    assert_eq!(fct(&output.flows.get(0).unwrap()), 3 * 8_483_200 + 4 * IRN + 2 * (IRN + D));
    // With a BDP cap of 38 the sender never waits.
    run.transport.set("bdp_cap", 38_u64).unwrap();
    let output = outcome(&run, &[flow(0, 0, 1, 200 * 1_024)]);
    assert_eq!(fct(&output.flows.get(0).unwrap()), 199 * IRN + 2 * (IRN + D));
    run.transport.set("bdp_cap", 37_u64).unwrap();
    let output = outcome(&run, &[flow(0, 0, 1, 38 * 1_024)]);
    assert_eq!(fct(&output.flows.get(0).unwrap()), 8_483_200 + 2 * (IRN + D));
}

#[test]
fn two_flows_into_one_host_take_turns_at_the_switch() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
    let flows = [flow(0, 0, 2, 70 * 1_024), flow(0, 1, 2, 70 * 1_024)];
    // 140 frames follow each other on the last link, and the turns begin with the lower port. With the default, 64 KB,
    // a turn has 59 frames of 1,086 bytes: 59 of the first flow, 59 of the second, 11 of the first, 11 of the second.
    let output = outcome(&run, &flows);
    assert_eq!(fct(&output.flows.get(0).unwrap()), 2 * (ROCE + D) + 128 * ROCE);
    assert_eq!(fct(&output.flows.get(1).unwrap()), 2 * (ROCE + D) + 139 * ROCE);
    // In turns of one frame, the first flow finishes one frame earlier.
    let arbiter = ArbiterSpec::PACKET_BY_PACKET;
    run.fabric.switch.queueing = QueueingSetup::Input(InputSetup { arbiter, ..InputSetup::default() });
    let output = outcome(&run, &flows);
    assert_eq!(fct(&output.flows.get(0).unwrap()), 2 * (ROCE + D) + 138 * ROCE);
    assert_eq!(fct(&output.flows.get(1).unwrap()), 2 * (ROCE + D) + 139 * ROCE);
}

#[test]
fn flows_of_one_host_take_turns_packet_by_packet() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 4 }, "roce");
    run.transport.set("nic_burst", 1_u64).unwrap();
    let flows = [flow(0, 0, 1, 3 * 1_024), flow(0, 0, 2, 1_024), flow(0, 0, 3, 2 * 1_024)];
    let output = outcome(&run, &flows);
    // The first flow has sent a packet and is in the queue of ready flows again before the others start. From then on
    // the flows take turns. The packets on h0's link belong to the flows 1, 1, 2, 3, 1, 3.
    let last_sent = [4, 2, 5];
    for (record, before) in output.flows.iter().zip(last_sent) {
        assert_eq!(fct(&record), before * ROCE + 2 * (ROCE + D), "{record:?}");
    }
}

#[test]
fn links_of_unequal_rate() {
    // The links of the path have 40, 10 and 100 Gbps: frame times of 221,200, 884,800 and 88,480 ps.
    let mut run = run_on(
        TopologySpec::Dumbbell {
            left: 1,
            right: 1,
            bottleneck_rate: Some(BitRate::from_gbps(10)),
            bottleneck_delay: None,
        },
        "roce",
    );
    let mut fast = link_between("right", "h1");
    fast.rate = Some(BitRate::from_gbps(100));
    run.fabric.links.push(fast);
    run.fabric.switch.buffer = Some(Bytes(1_000_000)); // three quarters of the flow wait at the bottleneck
    let output = outcome(&run, &[flow(0, 0, 1, 100 * 1_024)]);
    let expected = 3 * D + 221_200 + 100 * 884_800 + 88_480;
    assert_eq!(fct(&output.flows.get(0).unwrap()), expected);
    assert_eq!(output.flows.get(0).unwrap().ideal.as_ps(), expected);
}

#[test]
fn a_maximum_rate_spaces_the_packets() {
    let mut run = fat_tree("roce");
    run.transport.set("max_rate", BitRate::from_gbps(8)).unwrap();
    let output = outcome(&run, &[flow(0, 0, 1, 10 * 1_024)]);
    // The flow sends one frame of 1,086 bytes every 1,086 ns.
    assert_eq!(fct(&output.flows.get(0).unwrap()), 9 * 1_086_000 + 2 * (ROCE + D));
}

#[test]
fn a_flow_starts_at_its_own_picosecond() {
    let starts = [0, 1, 999, 2_016_799, 2_016_800, 2_016_801, 77_777_777];
    let flows: Vec<FlowSpec> =
        starts.iter().enumerate().map(|(i, s)| flow(*s, 3 * i as u32, 3 * i as u32 + 1, 1)).collect();
    let output = outcome(&fat_tree("roce"), &flows);
    for (record, start) in output.flows.iter().zip(starts) {
        assert_eq!(record.start, Time::from_ps(start));
        assert_eq!(fct(&record), 2 * (16_800 + D), "{record:?}");
    }
}

/// Two flows of 8 packets leave one host, and use separate links behind the switch. With a burst of at least 8, such as
/// the default of 62, the first flow leaves as a whole, as if it were alone, and the second flow waits for its 8
/// packets. With a burst of 1, as with a congestion control, the first flow waits for most packets of the second flow.
#[test]
fn a_nic_takes_turns_in_bursts() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
    run.transport.pfc = true;
    let flows = [flow(0, 0, 1, 8 * 1_024), flow(0, 0, 2, 8 * 1_024)];
    let late = |run: &RunSpec| -> Vec<u64> {
        outcome(run, &flows).flows.iter().map(|record| fct(&record) - record.ideal.as_ps()).collect()
    };
    const T: u64 = 221_200;
    assert_eq!(late(&run), [0, 8 * T]);
    run.transport.set("nic_burst", 1_u64).unwrap();
    // The first flow sends a packet before the second flow starts, so it is ahead by one packet.
    assert_eq!(late(&run), [6 * T, 8 * T]);
    run.transport.set("nic_burst", 8_u64).unwrap();
    assert_eq!(late(&run), [0, 8 * T]);
    run.transport.set("nic_burst", 4_u64).unwrap();
    assert_eq!(late(&run), [4 * T, 8 * T]);
}

/// One host has a slower link than the others. `max_rate` limits a flow between two fast hosts, whether it is below, at
/// or above the rate of the slow link: 1,000 packets of 1,086 bytes leave at `max_rate`.
#[test]
fn a_rate_limit_holds_whatever_the_other_links_are() {
    for gbps in [5, 10, 11, 20, 39] {
        let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
        run.fabric.links.push(NamedLink { rate: Some(BitRate::from_gbps(10)), ..link_between("h2", "s0") });
        run.transport.set("max_rate", BitRate::from_gbps(gbps)).unwrap();
        let output = outcome(&run, &[flow(0, 0, 1, 1_024_000)]);
        let apart = BitRate::from_gbps(gbps).time_for(1_086).as_ps();
        assert_eq!(fct(&output.flows.get(0).unwrap()), 999 * apart + 2 * (ROCE + D), "{gbps} Gbps");
    }
}

/// With IRN's blocks in hardware, a queue pair has an operation in every seventh cycle, and a block one in each cycle.
/// A frame with 64 bytes of payload takes 162 bytes on the link with its gap, which are 32.4 ns, less than the 70 ns
/// between two operations of a queue pair. No ACK returns while the packets leave. The receiver has a packet six cycles
/// after its arrival.
#[test]
fn small_packets_of_a_queue_pair_wait_for_its_operations() {
    const FRAME: u64 = 32_400;
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "irn");
    run.fabric.mtu = Bytes(64);
    run.transport.set("nic_burst", 1_u64).unwrap();
    let flows = [flow(0, 0, 1, 20 * 64), flow(0, 0, 2, 20 * 64)];
    let last = |run: &RunSpec, flows: &[FlowSpec]| -> Vec<u64> {
        outcome(run, flows).flows.iter().map(|record| fct(&record) - 2 * (FRAME + D)).collect()
    };
    assert_eq!(last(&run, &flows[..1]), [19 * FRAME]);
    run.transport.set("nic_pipeline", "rtl:irn").unwrap();
    run.transport.set("nic_cycle", Time::from_ns(10)).unwrap();
    assert_eq!(last(&run, &flows[..1]), [19 * 70_000 + 60_000]);
    // The second flow's first packet waits for the link, and from then on the flows take turns.
    assert_eq!(last(&run, &flows), [19 * 70_000 + 60_000, FRAME + 19 * 70_000 + 60_000]);
    // At 4 ns per cycle an operation of the queue pair takes less time than a frame on the link.
    run.transport.set("nic_cycle", Time::from_ns(4)).unwrap();
    assert_eq!(last(&run, &flows[..1]), [19 * FRAME + 24_000]);
    // Two senders have one receiver, whose block has operations of both in turn. The link of the receiver is the
    // bottleneck.
    let flows = [flow(0, 0, 2, 20 * 64), flow(0, 1, 2, 20 * 64)];
    let both = last(&run, &flows);
    assert_eq!(*both.iter().max().unwrap(), 39 * FRAME + 24_000, "{both:?}");
}
