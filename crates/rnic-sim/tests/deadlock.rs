//! A run that cannot finish fails, and the reason names the paused ports.

use crate::common::*;
use rnic_fabric::config::TopologySpec;
use rnic_spec::FlowSpec;
use rnic_spec::RunOutput;
use rnic_spec::RunSpec;
use rnic_transport::{Bytes, Time};

/// Seven switches in a ring. Each host sends to the host that is three switches further, which is the shorter way
/// around the ring.
///
/// Three flows share every link of the ring. An output alternates between packets of its host and packets from the
/// ring, so half of each link's traffic is new. All new traffic continues over the next link, together with traffic
/// from hosts further back. The next link has only half of its rate for both, because the other half goes to its own
/// host. So all buffers along the ring fill, and each waits for the next.
fn around_the_ring(transport: &str) -> (RunSpec, Vec<FlowSpec>) {
    let mut run = ring(7, transport);
    run.transport.pfc = true;
    run.fabric.switch.buffer = Some(Bytes(60_000));
    let flows = (0..7).map(|i| flow(0, i, (i + 3) % 7, 2_000_000)).collect();
    (run, flows)
}

/// Checks that the reason names the ring's ports in the direction of the traffic: s0:p->s1, s1:p->s2, and so on.
fn assert_names_the_ring(reason: &str) {
    let (_, cycle) = reason.split_once("deadlock: the pauses form a cycle through ").expect(reason);
    let ports: Vec<&str> = cycle.split(", ").collect();
    assert_eq!(ports.len(), 7, "{reason}");
    for pair in 0..7 {
        let (from, to) = ports[pair].split_once("->").expect(reason);
        let (node, _) = from.split_once(':').expect(reason);
        let (next, _) = ports[(pair + 1) % 7].split_once(':').expect(reason);
        assert_eq!(to, next, "each port waits for one of the switch that it leads to: {reason}");
        let number = |name: &str| name[1..].parse::<u32>().unwrap();
        assert_eq!((number(node) + 1) % 7, number(to), "{reason}");
    }
}

fn finished(output: &RunOutput) -> usize {
    output.flows.iter().filter(|f| f.finish.is_some()).count()
}

#[test]
fn a_cycle_of_pauses_is_reported_as_a_deadlock_that_names_the_ports() {
    let (run, flows) = around_the_ring("roce");
    let output = outcome(&run, &flows);
    let reason = failure(&output);
    assert!(reason.starts_with("nothing is left to happen at "), "{reason}");
    assert!(reason.contains("7 flows have not finished"), "{reason}");
    assert_names_the_ring(reason);
    assert_accounts(&output);
    assert_eq!(output.totals.dropped, 0);
    assert!(output.totals.in_flight > 0);
    assert_eq!(finished(&output), 0);
}

/// In a deadlock under IRN, retransmission timers keep running as long as packets are in flight. The run fails because
/// no flow progresses.
#[test]
fn a_deadlock_under_timers_is_found_by_the_lack_of_progress() {
    let (mut run, flows) = around_the_ring("irn");
    run.transport.set("timeouts", true).unwrap();
    run.transport.set("bdp_cap", 1_000_u64).unwrap();
    run.limits.stall_time = Time::from_ms(20);
    let output = outcome(&run, &flows);
    let reason = failure(&output);
    assert!(reason.starts_with("no flow has progressed for a long time at "), "{reason}");
    assert_names_the_ring(reason);
    assert_accounts(&output);
}

#[test]
fn the_same_traffic_without_pfc_or_one_switch_less_far_is_no_deadlock() {
    let (mut run, flows) = around_the_ring("irn");
    run.transport.pfc = false;
    assert_eq!(finished(&outcome(&run, &flows)), 7);
    let (run, _) = around_the_ring("roce");
    let near: Vec<_> = (0..7).map(|i| flow(0, i, (i + 1) % 7, 2_000_000)).collect();
    assert_eq!(finished(&outcome(&run, &near)), 7);
}

#[test]
fn the_time_limit_ends_a_run() {
    let mut run = fat_tree("roce");
    run.limits.max_time = Some(Time::from_us(50));
    let output = outcome(&run, &[flow(0, 0, 9, 1_024), flow(0, 1, 10, 10_000_000)]);
    let reason = failure(&output);
    assert!(reason.starts_with("the time limit was reached at "), "{reason}");
    assert!(reason.ends_with("; 1 flow has not finished"), "{reason}");
    assert_accounts(&output);
    assert_eq!(finished(&output), 1);
    // The run ends at the end of the simulation window that contains the limit. A window is as long as the link delay
    // of 2 us plus the time of 84 bytes.
    assert!(output.end >= Time::from_us(50) && output.end < Time::from_ps(52_016_800), "{}", output.end);
}

#[test]
fn a_run_whose_flows_do_not_progress_is_stalled() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "irn");
    let mut dead = link_between("h1", "s0");
    dead.loss = Some(1.0);
    run.fabric.links.push(dead);
    run.limits.stall_time = Time::from_ms(5);
    run.transport.set("rto_high", Time::from_us(320)).unwrap();
    let output = outcome(&run, &[flow(0, 0, 2, 100_000), flow(0, 0, 1, 1_024)]);
    let reason = failure(&output);
    assert!(reason.starts_with("no flow has progressed for a long time at "), "{reason}");
    // The engine notices the stall at the next event. Events are timeouts here, which are 100 us apart.
    assert!(output.end > Time::from_ms(5) && output.end < Time::from_us(5_200), "{}", output.end);
    assert!(reason.ends_with("; 1 flow has not finished"), "{reason}");
    assert_accounts(&output);
    // The sender retransmits every 100 us, and the last link loses all retransmissions.
    assert!((45..=52).contains(&output.flows.get(1).unwrap().retransmitted), "{:?}", output.flows.get(1).unwrap());
    assert_eq!(output.totals.lost + output.totals.in_flight, u64::from(output.flows.get(1).unwrap().retransmitted) + 1);
}

/// The flow has no timers and its last packets are lost, so no event is left.
#[test]
fn a_lost_tail_without_timers_ends_the_run() {
    let mut run = fat_tree("roce");
    run.transport.set("timeouts", false).unwrap();
    let output = outcome_with_losses(&run, &[flow(0, 0, 9, 3 * 1_024)], &[(0, &[2])]);
    let reason = failure(&output);
    assert!(reason.starts_with("nothing is left to happen at "), "{reason}");
    assert!(reason.ends_with("1 flow has not finished"), "{reason}");
    assert_accounts(&output);
}
