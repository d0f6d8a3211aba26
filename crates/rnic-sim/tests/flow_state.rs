//! Flows start and retire: late packets and timers of a flow must not affect the next flow in its slot.

use crate::common::*;
use rnic_fabric::config::TopologySpec;
use rnic_spec::{RunOutput, RunStatus};
use rnic_transport::Time;

/// Number of packets that the host has transmitted.
fn sent(output: &RunOutput, host: &str) -> u64 {
    let port = output.ports.iter().find(|p| p.node == host).unwrap();
    port.priorities[0].tx_packets
}

/// A receiver sends a NACK too early, and has all packets before the NACK is back at the sender. By then the flow's id
/// belongs to another flow, which another host sends. The NACK must not make the first host send packets of the other
/// flow.
#[test]
fn a_late_nack_does_not_reach_the_flow_that_took_the_slot() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 12 }, "roce");
    run.transport.set("timeouts", true).unwrap();
    run.transport.set("rto_high", Time::from_us(5)).unwrap();
    let mut flows = Vec::new();
    // Eight hosts send one packet each to h1; h0 sends a picosecond after the others. The packet of h0 arrives last, at
    // 2 x 2,221,200 + 7 x 221,200 ps = 5.99 us, after the timeout of 5 us. The receiver's NACK is back at h0 at 9.03
    // us, when the eight flows have retired.
    for src in 2..9 {
        flows.push(flow(0, src, 1, 1_024));
    }
    flows.push(flow(1, 0, 1, 1_024));
    // At 3 us, h0 begins to send fourteen flows of four packets each, which take 12.4 us of transmission time. A packet
    // that the NACK triggered would wait for one packet of each of these flows, until 12.1 us. None of the fourteen
    // flows finishes before this time.
    for _ in 0..14 {
        flows.push(flow(3_000_000, 0, 9, 4 * 1_024));
    }
    // More than a simulation window (2.02 us) after the NACK, a flow of 30 packets from h10 takes the id that was freed
    // last, which is the id of h0's flow.
    flows.push(flow(11_300_000, 10, 11, 30 * 1_024));
    let output = outcome(&run, &flows);
    assert_eq!(output.status, RunStatus::Completed);
    let late = &output.flows.get(7).unwrap();
    assert_eq!((fct(late), late.timeouts), (2 * (ROCE + D) + 7 * ROCE - 1, 1), "the receiver sends a NACK too early");
    assert_eq!(sent(&output, "h10"), 30, "h10 sends all of its packets itself");
    assert_eq!(fct(&output.flows.get(22).unwrap()), 2 * (ROCE + D) + 29 * ROCE);
    assert_accounts(&output);
}

/// A timer entry of a finished flow is due at the same picosecond as a timeout of a later flow on another host. The
/// later flow has the id of the finished flow.
#[test]
fn a_leftover_timer_does_not_act_for_the_flow_that_took_the_slot() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 4 }, "irn");
    run.transport.set("rto_low", Time::from_us(100)).unwrap();
    run.transport.set("rto_high", Time::from_us(320)).unwrap();
    run.transport.set("bdp_cap", 111_u64).unwrap(); // no limit here
    // A flow of 1 MB from h0. Its first timer entry is due at 100 us. Before this time, the flow has progressed last
    // with the ACK of packet 407, at 407 x 224,400 + 8,483,200 = 99,814,000 ps. It has more than three packets in
    // flight, so the next entry is due 320 us after this progress. The flow ends at 228 us.
    let leftover = 99_814_000 + 320_000_000;
    let first = flow(0, 0, 1, 1_000_000);
    // The only packet of a flow from h2 is lost. The flow starts 100 us, which is its short timeout, before the
    // leftover entry is due.
    let second = flow(leftover - 100_000_000, 2, 3, 1_024);
    let output = outcome_with_losses(&run, &[first, second], &[(2, &[0])]);
    assert_eq!(output.status, RunStatus::Completed);
    let [first, second] = &output.flows.iter().collect::<Vec<_>>()[..] else { panic!("two flows") };
    assert!(first.finish.unwrap() < second.start);
    assert_eq!(fct(second), 100_000_000 + 2 * (IRN + D));
    assert_eq!((second.retransmitted, second.timeouts), (1, 1));
    assert_eq!((sent(&output, "h0"), sent(&output, "h2")), (977, 2), "h2 retransmits its own packet");
    assert_accounts(&output);
}
