//! Slow receivers (`[[fabric.receiver]]`) and meshes of probes (`[[fabric.mesh]]`): times and counts computed by hand.

use crate::common::{D, ROCE, assert_accounts, fct, flow, list, outcome, run_on};
use rnic_fabric::config::TopologySpec;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_sim::run::{Sharing, simulate_run_shared};
use rnic_spec::{LinkFault, Mesh, MeshPairs, RunSpec, RunStatus, SlowReceiver, StackDelay};
use rnic_transport::{Bytes, Time};

/// Two hosts on one switch with PFC; the NIC of h1 is slow.
fn slow(page: u64, miss: Time) -> RunSpec {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 2 }, "roce");
    run.transport.pfc = true;
    run.fabric.faults.receivers = vec![SlowReceiver {
        hosts: vec![1],
        page: Bytes(page),
        entries: 4,
        miss,
        memory: Bytes(1_024 * 1_024),
        buffer: Bytes(200_000),
        xoff: Bytes(100_000),
        xon: Bytes(50_000),
    }];
    run
}

/// With pages of one packet, each of the packets is a miss. The pipeline takes the packets one by one, each for its
/// transmission time and the miss. The first packet arrives after two links.
#[test]
fn every_miss_stops_the_pipeline() {
    let miss = Time::from_us(1);
    let first = 2 * (ROCE + D);
    for packets in [1, 40, 400] {
        let output = outcome(&slow(1_024, miss), &[flow(0, 0, 1, 1_024 * packets)]);
        assert_accounts(&output);
        assert_eq!((output.status.clone(), output.totals.dropped), (RunStatus::Completed, 0));
        assert_eq!(fct(&output.flows.get(0).unwrap()), first + packets * (ROCE + miss.as_ps()), "{packets} packets");
        // 40 packets fit into the receive buffer below xoff; 400 do not, and the NIC pauses the switch.
        assert_eq!(output.ports[3].priorities[0].pause_received > 0, packets == 400);
    }
    // A page of 4 packets has one miss for four packets.
    let output = outcome(&slow(4_096, miss), &[flow(0, 0, 1, 1_024 * 40)]);
    assert_eq!(fct(&output.flows.get(0).unwrap()), first + 40 * ROCE + 10 * miss.as_ps());
    // One page covers all: one miss.
    let output = outcome(&slow(1_048_576, miss), &[flow(0, 0, 1, 1_024 * 400)]);
    assert_eq!(fct(&output.flows.get(0).unwrap()), first + 400 * ROCE + miss.as_ps());
    assert_eq!(output.totals.pause_frames, 0);
}

/// A receive buffer without headroom drops packets, and a warning states this.
#[test]
fn a_receive_buffer_without_headroom_warns_and_drops() {
    let mut run = slow(1_024, Time::from_us(1));
    run.fabric.faults.receivers[0].buffer = Bytes(101_000);
    run.limits.duration = Some(Time::from_ms(1));
    let output = outcome(&run, &[flow(0, 0, 1, 1_024 * 400)]);
    assert_accounts(&output);
    assert!(output.totals.dropped > 0 && output.ports[1].priorities[0].drops == output.totals.dropped);
    assert!(output.warnings.iter().any(|warning| warning.starts_with("the NIC of h1 may drop packets")));
}

fn mesh(priority: u8) -> Mesh {
    Mesh {
        name: format!("class {priority}"),
        pairs: MeshPairs::Listed(vec![(0, 1)]),
        interval: Time::from_us(50),
        start: Time::ZERO,
        payload: Bytes(512),
        priority,
        window: Time::from_us(100),
        rto: None,
        stack: None,
    }
}

/// On an idle fabric a probe and its response take two links each way. A frame of 512 + 62 bytes and 20 bytes of gap
/// takes 118.8 ns.
#[test]
fn an_idle_round_trip() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
    run.fabric.meshes = vec![mesh(0)];
    run.limits.duration = Some(Time::from_ms(1));
    let output = outcome(&run, &[flow(0, 2, 1, 1), flow(900_000_000, 2, 1, 1)]);
    assert_accounts(&output);
    let total = output.meshes[0].total;
    let rtt = Time::from_ps(4 * (118_800 + D));
    assert_eq!([total.p50, total.p99, total.p999, total.max], [rtt; 4]);
    // The run ends with its last flow, 0.9 ms after its start; one probe in 50 us.
    assert_eq!((total.probes, total.unanswered), (18, 0));
    assert_eq!((output.totals.probes, output.meshes[0].rows.len()), (36, 9));
}

/// The link to h1 loses everything for 100 us, and with it the first two probes (one in 50 us). Retransmitted after 100
/// us, both arrive; their round-trip times count from the first transmission.
#[test]
fn a_lost_probe_is_sent_again() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
    let duration = Some(Time::from_us(100));
    let (from, to) = ("s0".into(), "h1".into());
    run.fabric.faults.links = vec![LinkFault {
        from,
        to,
        rate: None,
        start: Time::ZERO,
        duration,
        every: None,
        one_way: false,
        scales_queues: false,
    }];
    run.fabric.meshes = vec![mesh(0), Mesh { rto: Some(Time::from_us(100)), ..mesh(0) }];
    run.limits.duration = Some(Time::from_ms(1));
    let output = outcome(&run, &[flow(920_000_000, 2, 0, 1)]);
    assert_accounts(&output);
    let [once, again] = [0, 1].map(|mesh| output.meshes[mesh].total);
    assert_eq!([once.unanswered, again.unanswered], [2, 0]);
    let rtt = Time::from_ps(4 * (118_800 + D));
    assert_eq!([once.max, again.p50], [rtt; 2]);
    assert_eq!(again.max, Time::from_us(100) + rtt);
    // Two probes without a response, and two that were sent twice.
    assert_eq!(output.totals.probes, (once.probes + again.probes) * 2);
}

/// A congested class delays its own probes, but not those of the other class, which has half of the link.
#[test]
fn classes_are_isolated_by_the_scheduler() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 4 }, "roce");
    run.transport.pfc = true;
    let weights = rnic_fabric::config::SchedulerSpec::DeficitRoundRobin([1; 8]);
    run.fabric.switch.scheduler = rnic_spec::SchedulerSetup { spec: weights, weights: 2 };
    run.fabric.meshes = vec![mesh(0), mesh(1)];
    run.limits.duration = Some(Time::from_ms(2));
    let flows = [flow(0, 2, 1, 100_000_000), flow(0, 3, 1, 100_000_000)];
    let output = outcome(&run, &flows);
    assert_accounts(&output);
    let [rdma, tcp] = [0, 1].map(|mesh| output.meshes[mesh].total);
    // A probe of class 0 waits for most of a turn of another input: 64 packets, 14 us.
    assert!(rdma.p50 > tcp.max + Time::from_us(10), "{} {}", rdma.p50, tcp.max);
    // At most one frame in transmission on each link and one turn of the other class delay a probe of class 1.
    assert!(tcp.max < Time::from_ps(4 * (118_800 + D) + 8 * ROCE), "{}", tcp.max);
    assert_eq!((rdma.unanswered <= 2, tcp.unanswered <= 1), (true, true));
}

/// The declared delay of the software is added, and threads change nothing.
#[test]
fn threads_change_no_probe() {
    let topology =
        TopologySpec::LeafSpine { leaves: 3, spines: 2, hosts_per_leaf: 3, uplink_rate: None, uplink_delay: None };
    let mut run = run_on(topology, "roce");
    run.transport.pfc = true;
    run.limits.duration = Some(Time::from_ms(1));
    let stack = StackDelay { median: Time::from_us(100), p99: Time::from_us(500) };
    run.fabric.meshes = vec![
        Mesh { pairs: MeshPairs::Random(20), ..mesh(0) },
        Mesh { pairs: MeshPairs::Random(20), stack: Some(stack), ..mesh(0) },
    ];
    let receiver = slow(1_024, Time::from_ns(300)).fabric.faults.receivers;
    run.fabric.faults.receivers = vec![SlowReceiver { hosts: vec![0, 4], ..receiver[0].clone() }];
    let flows: Vec<_> = (0..9)
        .flat_map(|src| (0..9).filter(move |dst| *dst != src).map(move |dst| flow(0, src, dst, 100_000)))
        .collect();
    run.traffic = list(&flows);
    let resolved = resolve(&Catalogue::standard(), &run).unwrap();
    let whole = simulate_run_shared(&Catalogue::standard(), &run, &resolved, &Sharing::among(1));
    assert_accounts(&whole);
    let [rdma, tcp] = [0, 1].map(|mesh| whole.meshes[mesh].total);
    assert!(rdma.probes > 100 && tcp.p50 > rdma.p50 + Time::from_us(50), "{rdma:?} {tcp:?}");
    for threads in [2, 3] {
        let plan = |topology: &rnic_fabric::Topology| rnic_fabric::PartitionPlan::balanced(topology, 2 * threads);
        let shared = simulate_run_shared(&Catalogue::standard(), &run, &resolved, &Sharing::in_parts(threads, &plan));
        assert_eq!(shared, whole, "{threads} threads");
    }
}
