//! Collective operations: messages of ranks that depend on each other, on streams.

use crate::common::*;
use rnic_fabric::config::TopologySpec;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_sim::run::simulate_run;
use rnic_spec::{Algorithm, Collective, CollectiveOperation, Grouping, Placement, Server};
use rnic_spec::{FlowRecord, RunOutput, RunSpec, RunStatus, Traffic, TrafficPattern};
use rnic_transport::{BitRate, Bytes, Time};

/// Serialisation time of a minimum-size frame (64 bytes + 20 bytes of gap) on a 40 Gbps link, in picoseconds.
const LEAST: u64 = 16_800;
const REACTION: u64 = 200_000;

fn collective(operation: CollectiveOperation, ranks: u32, size: u64, chunk: u64) -> Collective {
    Collective {
        operation,
        algorithm: operation.algorithms()[0],
        size: Bytes(size),
        ranks,
        group: ranks,
        grouping: Grouping::Consecutive,
        placement: Placement::Linear,
        placed: [].into(),
        matrix: [].into(),
        skew: None,
        repeats: 1,
        channels: 1,
        chunk: Bytes(chunk),
        outstanding: 8,
        compute: Time::ZERO,
        straggler: None,
        server: None,
        reaction: Time::from_ps(REACTION),
    }
}

fn run(hosts: u32, transport: &str, collective: Collective) -> RunOutput {
    let pattern = TrafficPattern::Collective(collective);
    let mut spec = run_on(TopologySpec::SingleSwitch { hosts }, transport);
    spec.traffic = vec![Traffic { name: "c".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 }];
    simulate(&spec)
}

fn simulate(spec: &RunSpec) -> RunOutput {
    simulate_run(&Catalogue::standard(), spec, &resolve(&Catalogue::standard(), spec).unwrap())
}

fn flows(output: &RunOutput) -> Vec<FlowRecord> {
    assert_eq!(output.status, RunStatus::Completed);
    output.flows.iter().collect()
}

#[test]
fn a_ring_all_reduce_by_hand() {
    // 3 ranks; each of 4 steps sends 2 packets to the successor, through the switch, without any contention.
    let output = run(3, "roce", collective(CollectiveOperation::AllReduce, 3, 6_144, 1_000_000));
    let there = 2 * D + 3 * ROCE;
    for (index, flow) in (0..).zip(flows(&output)) {
        assert_eq!(flow.start.as_ps(), index / 3 * (there + REACTION));
        assert_eq!((fct(&flow), flow.bytes, flow.request), (there, 2_048, 0));
    }
    let end = 4 * there + 3 * REACTION + 2 * D + 2 * LEAST + REACTION;
    let [record] = output.collectives[..] else { panic!("one operation") };
    assert_eq!((record.start, record.last_start, record.end), (Time::ZERO, Time::ZERO, Some(Time::from_ps(end))));
    assert_eq!((output.flows.len(), output.offered), (12, 12));
}

#[test]
fn messages_of_a_stream_follow_each_other_without_a_gap() {
    // Two messages of 1,500 B: packets of 1,024 B, 476 B, 1,024 B and 476 B. At 40 Gbps a byte takes 0.2 ns. The
    // frames leave one after the other; on the second link each waits for the frame before it.
    for (transport, extra) in [("roce", 0), ("irn", 16)] {
        let output = run(2, transport, collective(CollectiveOperation::Broadcast, 2, 3_000, 1_500));
        let (long, short) = ((1_024 + 82 + extra) * 200, (476 + 82 + extra) * 200);
        let flows = flows(&output);
        let times: Vec<u64> = flows.iter().map(fct).collect();
        assert_eq!(times, [2 * D + 2 * long + short, 2 * D + 3 * long + 2 * short], "{transport}");
        assert!(flows.iter().all(|flow| flow.bytes == 1_500 && flow.start == Time::ZERO));
        assert_eq!(output.totals.data, 4);
    }
}

#[test]
fn one_message_is_as_fast_as_a_flow() {
    for transport in ["roce", "irn", "tcp", "iwarp", "ndp", "homa"] {
        let output = run(2, transport, collective(CollectiveOperation::Broadcast, 2, 100_000, 1_000_000));
        let spec = run_on(TopologySpec::SingleSwitch { hosts: 2 }, transport);
        let alone = outcome(&spec, &[flow(0, 0, 1, 100_000)]);
        let [of_stream, of_flow] = [output, alone].map(|output| flows(&output)[0].finish);
        assert_eq!(of_stream, of_flow, "{transport}");
    }
}

/// Four ranks on lossy links repeat an all-reduce in small messages.
const LOSSY: &str = "
    [fabric]
    topology = \"single-switch\"
    hosts = 4
    rate = \"40 Gbps\"
    delay = \"1 us\"
    loss = 0.002
    [traffic]
    pattern = \"collective\"
    operation = \"all-reduce\"
    size = \"400 KB\"
    chunk = \"10 KB\"
    channels = 2
    repeats = 3
";

#[test]
fn streams_recover_from_losses() {
    let transports = ["roce", "irn", "tcp", "iwarp", "ndp", "homa"];
    let scenario = scenario(LOSSY, &transports, "").unwrap();
    for (output, transport) in outputs(&scenario, 1).iter().zip(transports) {
        let flows = flows(output);
        // 4 ranks x 6 steps x 2 channels x 5 messages, three times.
        assert_eq!(flows.len(), 720, "{transport}");
        assert!(output.totals.lost > 0 && output.totals.retransmitted > 0, "{transport}: {:?}", output.totals);
        let of_flows: u64 = flows.iter().map(|flow| u64::from(flow.retransmitted)).sum();
        assert_eq!(of_flows, output.totals.retransmitted, "{transport}: each retransmission is counted once");
        assert_eq!(output.collectives.len(), 3, "{transport}");
        assert!(output.collectives.windows(2).all(|two| two[1].start > two[0].start), "{transport}");
        assert!(output.collectives.iter().all(|record| record.end > Some(record.last_start)), "{transport}");
    }
}

#[test]
fn threads_change_nothing() {
    let text = "
        [fabric]
        topology = \"leaf-spine\"
        leaves = 3
        spines = 2
        hosts_per_leaf = 4
        rate = \"100 Gbps\"
        delay = \"500 ns\"
        loss = 0.0005
        [[traffic]]
        name = \"ring\"
        pattern = \"collective\"
        operation = \"reduce-scatter\"
        size = \"1 MB\"
        chunk = \"20 KB\"
        group = 3
        grouping = \"strided\"
        placement = \"random\"
        [[traffic]]
        name = \"tree\"
        pattern = \"collective\"
        operation = \"all-reduce\"
        algorithm = \"tree\"
        size = \"1 MB\"
        chunk = \"20 KB\"
        compute = \"3 us\"
        repeats = 2
        [[traffic]]
        name = \"turns\"
        pattern = \"collective\"
        operation = \"all-to-all\"
        size = \"200 KB\"
        outstanding = 3
        [[traffic]]
        name = \"loop\"
        pattern = \"pairs\"
        pairs = 5
        messages = 7
        sizes = \"fixed 20 KB\"
        persistent_connections = true
        [[traffic]]
        name = \"background\"
        pattern = \"poisson\"
        load = 0.2
        flows = 200
        sizes = \"websearch\"
    ";
    let scenario = scenario(text, &["roce", "irn", "tcp", "ndp", "homa"], "").unwrap();
    let [one, two] = [1, 2].map(|threads| outputs(&scenario, threads));
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(one.status, RunStatus::Completed);
        assert_eq!(one.collectives.len(), 4 + 2 + 1);
        assert!(one.collectives.iter().all(|record| record.end.is_some()));
        assert!(one == two, "the same results on one and on two threads");
    }
}

#[test]
fn two_transports_carry_their_own_operations() {
    let text = "
        [fabric]
        topology = \"single-switch\"
        hosts = 4
        rate = \"40 Gbps\"
        delay = \"1 us\"
        [fabric.switch]
        queueing = \"shared\"
        priorities = 2
        [[traffic]]
        name = \"training\"
        pattern = \"collective\"
        operation = \"all-reduce\"
        size = \"100 KB\"
        repeats = 2
        [[traffic]]
        name = \"storage\"
        pattern = \"collective\"
        operation = \"all-gather\"
        size = \"100 KB\"
        priority = 1
        [[run]]
        name = \"both\"
        transport = \"irn\"
        [[run.beside]]
        priority = 1
        transport = \"tcp\"
    ";
    let scenario = read_scenario(text, std::path::Path::new(".")).unwrap();
    let output = &outputs(&scenario, 1)[0];
    let sources: Vec<(u16, u32)> = output.collectives.iter().map(|record| (record.traffic, record.repeat)).collect();
    assert_eq!((&output.status, sources), (&RunStatus::Completed, vec![(0, 0), (0, 1), (1, 0)]));
    // The requests of the sources are different ones.
    let requests = |traffic| output.flows.iter().filter(move |flow| flow.traffic == traffic).map(|flow| flow.request);
    assert!(requests(0).all(|request| request < 2) && requests(1).all(|request| request == 2));
}

#[test]
fn a_tree_is_faster_than_a_ring_for_small_messages() {
    let time = |algorithm| {
        let collective = Collective { algorithm, ..collective(CollectiveOperation::AllReduce, 16, 16_384, 1_000_000) };
        run(16, "irn", collective).collectives[0].end.unwrap()
    };
    let [ring, tree, halving] = [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling].map(time);
    assert!(tree < ring && halving < ring, "30 steps of a ring, about 8 of trees and of exchanges");
}

#[test]
fn two_planes_halve_the_time_of_a_ring() {
    // 4 ranks on one switch with 100 messages of a packet in each step, and on two planes: each plane carries half of
    // the messages of a step, and forwarding overlaps.
    let own = Collective { chunk: Bytes(1_024), ..collective(CollectiveOperation::AllReduce, 4, 400 * 1_024, 1_024) };
    let on = |topology: TopologySpec| {
        let mut spec = run_on(topology, "irn");
        let pattern = TrafficPattern::Collective(own.clone());
        spec.traffic =
            vec![Traffic { name: "c".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 }];
        simulate(&spec)
    };
    let (uplink_rate, uplink_delay) = (None, None);
    let one = on(TopologySpec::LeafSpine { leaves: 1, spines: 1, hosts_per_leaf: 4, uplink_rate, uplink_delay });
    let (planes, leaves, spines) = (2, 1, 1);
    let two = on(TopologySpec::MultiPlane { planes, leaves, spines, hosts_per_leaf: 4, uplink_rate, uplink_delay });
    let flows: Vec<FlowRecord> = flows(&two);
    assert_eq!(flows.len(), 4 * 6 * 100);
    assert!(flows.iter().all(|flow| flow.src / 4 == flow.dst / 4));
    assert_eq!(flows.iter().filter(|flow| flow.src < 4).count(), 2 * 6 * 100, "half of the messages in each plane");
    let end = |output: &RunOutput| output.collectives[0].end.unwrap().as_ps() as f64;
    // A step of 100 packets takes 22.4 us on one link; latencies of 4 us and 0.2 us for each step remain.
    assert!(end(&two) < 0.65 * end(&one), "{} {}", end(&two), end(&one));
}

#[test]
fn a_lone_server_reduces_in_its_switch() {
    let server = Some(Server { accelerators: 4, rate: BitRate::from_gbps(8), latency: Time::from_ns(100) });
    let nvls = collective(CollectiveOperation::AllReduce, 4, 1_600, 1_000_000);
    let output = run(4, "roce", Collective { algorithm: Algorithm::Nvls, server, ..nvls });
    assert_eq!((&output.status, output.flows.len()), (&RunStatus::Completed, 0));
    // 1,600 ns for the sums, 1,600 ns for the copies, the latency and the reaction.
    assert_eq!(output.collectives[0].end, Some(Time::from_ns(1_600 + 1_600 + 100 + 200)));
}
