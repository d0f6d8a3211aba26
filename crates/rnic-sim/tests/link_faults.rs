//! Links that fail, return and lose a part of their rate, in whole runs.

use crate::common::*;
use rnic_fabric::PartitionPlan;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_sim::run::{Sharing, simulate_run_shared};
use rnic_spec::{LinkFault, RunSpec, RunStatus};
use rnic_transport::transports::SAFETY_TIMEOUT;
use rnic_transport::{BitRate, Time};

/// The link between s0 and s1 is down from 1 us on, for `us` microseconds.
fn fault(us: Option<u64>) -> LinkFault {
    let duration = us.map(Time::from_us);
    LinkFault {
        from: "s0".into(),
        to: "s1".into(),
        rate: None,
        one_way: false,
        scales_queues: false,
        start: Time::from_us(1),
        duration,
        every: None,
    }
}

/// A ring of four switches. Routing learns of the failure after 20 us.
fn broken_ring(transport: &str, fault: LinkFault) -> RunSpec {
    let mut run = ring(4, transport);
    run.fabric.faults.links = vec![fault];
    run.fabric.faults.convergence = Some(Time::from_us(20));
    run
}

/// One packet from h0 to h1 reaches the failed link after 2 us. RoCE with PFC has a timeout of 67 ms for such a loss.
/// Without ACKs a flow is a Read: the receiver asks again, with a packet of 66 bytes (17.2 ns with its gap). This
/// packet and the retransmission take the other way around the ring, over five links instead of three.
#[test]
fn roce_with_pfc_waits_for_the_safety_timeout() {
    let mut run = broken_ring("roce", fault(None));
    run.transport.pfc = true;
    let output = outcome(&run, &[flow(0, 0, 1, 1_024)]);
    assert_accounts(&output);
    assert_eq!((output.status.clone(), output.totals.lost), (RunStatus::Completed, 1));
    let finish = output.flows.iter().next().unwrap().finish.unwrap();
    assert_eq!(finish, SAFETY_TIMEOUT + Time::from_ps(5 * (17_200 + D) + 5 * (ROCE + D)));
    let cost =
        "packets lost on links with faults: 1; flows that waited for a retransmission timeout of 67.108864 ms: 1 of 1";
    assert!(output.warnings.iter().any(|warning| warning == cost), "{:?}", output.warnings);
}

/// IRN loses the packets of 20 us, retransmits them as NACKs arrive, and continues around the ring.
#[test]
fn irn_goes_around_after_convergence() {
    let bytes = 1_000_000;
    let whole = outcome(&ring(4, "irn"), &[flow(0, 0, 1, bytes)]);
    let output = outcome(&broken_ring("irn", fault(None)), &[flow(0, 0, 1, bytes)]);
    assert_accounts(&output);
    assert_eq!(output.status, RunStatus::Completed);
    let lost = output.totals.lost;
    // A frame leaves every 224.4 ns for at most 20 us, unless the cap on packets in flight stops the flow.
    assert!((10..=90).contains(&lost), "{lost}");
    assert!(output.totals.retransmitted >= lost);
    let finish = |output: &rnic_spec::RunOutput| output.flows.iter().next().unwrap().finish.unwrap();
    assert!(finish(&output) > finish(&whole) + Time::from_us(20));
    // After the failure the packets pass s3 and s2.
    let sent = |output: &rnic_spec::RunOutput| -> u64 {
        let port = output.ports.iter().find(|port| port.node == "s3" && port.peer == "s2").unwrap();
        port.priorities.iter().map(|counters| counters.tx_packets).sum()
    };
    assert_eq!(sent(&whole), 0);
    assert!(sent(&output) > 800, "{}", sent(&output));
}

/// The link returns before routing has converged, so the packets keep their way.
#[test]
fn a_short_failure_changes_no_route() {
    let output = outcome(&broken_ring("irn", fault(Some(10))), &[flow(0, 0, 1, 1_000_000)]);
    assert_eq!(output.status, RunStatus::Completed);
    assert!(output.totals.lost > 10);
    // Routing learns of the failure at 21 us, and of the return at 31 us.
    let around = output.ports.iter().find(|port| port.node == "s3" && port.peer == "s2").unwrap();
    let sent: u64 = around.priorities.iter().map(|counters| counters.tx_packets).sum();
    assert!((1..60).contains(&sent), "{sent}");
}

/// A link of a quarter of its rate takes four times as long: 1,000 packets of 221.2 ns at 40 Gbps.
#[test]
fn a_slower_link_needs_no_new_route() {
    let slow = LinkFault { rate: Some(BitRate::from_gbps(10)), start: Time::ZERO, ..fault(None) };
    let mut run = broken_ring("roce", slow);
    run.transport.pfc = true;
    let output = outcome(&run, &[flow(0, 0, 1, 1_024_000)]);
    assert_accounts(&output);
    assert_eq!(output.totals.lost + output.totals.dropped, 0);
    let finish = output.flows.iter().next().unwrap().finish.unwrap();
    // Link by link: the first packet over the first link, all packets over the slow one, the last one over the third.
    assert_eq!(finish, Time::from_ps(3 * D + ROCE + 4_000 * ROCE + ROCE));
}

/// Only the direction from `s0` to `s1` is slow: data of the flow take four times as long, those of a flow back do not.
#[test]
fn one_direction_of_a_link_can_be_slow() {
    let rate = Some(BitRate::from_gbps(10));
    let finish = |from: &str, to: &str, src, dst| {
        let slow =
            LinkFault { from: from.into(), to: to.into(), rate, one_way: true, start: Time::ZERO, ..fault(None) };
        let mut run = broken_ring("roce", slow);
        run.transport.pfc = true;
        let output = outcome(&run, &[flow(0, src, dst, 1_024_000)]);
        output.flows.iter().next().unwrap().finish.unwrap()
    };
    let (slow, whole) = (Time::from_ps(3 * D + 4_002 * ROCE), Time::from_ps(3 * D + 1_002 * ROCE));
    assert_eq!((finish("s0", "s1", 0, 1), finish("s0", "s1", 1, 0)), (slow, whole));
    assert_eq!((finish("s1", "s0", 0, 1), finish("s1", "s0", 1, 0)), (whole, slow));
}

/// A link that is down stays down when another fault, which names its ends in the other order, lowers its rate.
#[test]
fn faults_of_one_link_add_up() {
    let mut run = broken_ring("irn", fault(None));
    let slow = LinkFault {
        from: "s1".into(),
        to: "s0".into(),
        rate: Some(BitRate::from_gbps(10)),
        start: Time::from_us(5),
        ..fault(Some(10))
    };
    let flows = [flow(0, 0, 1, 1_000_000)];
    let alone = outcome(&run, &flows);
    run.fabric.faults.links.push(slow);
    let both = outcome(&run, &flows);
    assert!(alone.totals.lost > 10);
    assert_eq!((both.totals.lost, &both.flows), (alone.totals.lost, &alone.flows));
}

/// The link fails for 5 us in every 20 us. Flows finish, and two threads give the same result.
#[test]
fn a_link_that_flaps_gives_one_result() {
    let mut run = broken_ring("irn", LinkFault { every: Some(Time::from_us(20)), ..fault(Some(5)) });
    run.fabric.faults.local_repair = Some(Time::from_us(2));
    let flows: Vec<_> = (0..40u32).map(|n| flow(u64::from(n) * 3_000_000, n % 4, (n + 1) % 4, 60_000)).collect();
    let alone = outcome(&run, &flows);
    assert_accounts(&alone);
    assert_eq!(alone.status, RunStatus::Completed);
    assert!(alone.totals.lost > 20, "{}", alone.totals.lost);
    let run = RunSpec { traffic: list(&flows), ..run };
    let catalogue = Catalogue::standard();
    let resolved = resolve(&catalogue, &run).unwrap();
    let divide = |topology: &rnic_fabric::Topology| PartitionPlan::balanced(topology, 4);
    let shared = simulate_run_shared(&catalogue, &run, &resolved, &Sharing::in_parts(2, &divide));
    assert_eq!((&shared.flows, shared.totals, &shared.ports), (&alone.flows, alone.totals, &alone.ports));
}

#[test]
fn separated_hosts_and_wrong_links_are_named() {
    let mut run = ring(4, "irn");
    run.fabric.faults.links = vec![LinkFault { from: "h2".into(), to: "s2".into(), ..fault(Some(5)) }];
    let warnings = resolved(&run, &[flow(0, 0, 1, 1_024)]).warnings;
    let expected = "while h2:s2 is down, no path leads to h2 (1 of 4 hosts); packets for them are lost, and flows wait";
    assert!(warnings.iter().any(|warning| warning == expected), "{warnings:?}");
    let error = |fault: LinkFault| {
        let mut run = ring(4, "irn");
        run.fabric.faults.links = vec![fault];
        run.traffic = list(&[flow(0, 0, 1, 1_024)]);
        resolve(&Catalogue::standard(), &run).unwrap_err().to_string()
    };
    let unknown = error(LinkFault { to: "s2".into(), ..fault(None) });
    assert_eq!(unknown, "[[fabric.link]]: no link joins s0 and s2; s0 has links to h0, s1, s3");
    let queues = error(LinkFault { rate: Some(BitRate::from_gbps(10)), scales_queues: true, ..fault(None) });
    assert_eq!(
        queues,
        "[[fabric.link]]: `slow_queues` of the link from s0 to s1 needs buffers of the outputs; accepted: queueing = \"output\" in `[fabric.switch]`, or `slow_queues = false`"
    );
    let fast = error(LinkFault { rate: Some(BitRate::from_gbps(100)), ..fault(None) });
    assert_eq!(
        fast,
        "[[fabric.link]]: `slow_rate` of the link from s0 to s1 is 100 Gbps; accepted: at most the link's own rate, 40 Gbps"
    );
}
