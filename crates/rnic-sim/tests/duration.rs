//! Runs that end at a given time.

use crate::common::*;
use proptest::prelude::*;
use rnic_fabric::config::TopologySpec;
use rnic_spec::FlowSpec;
use rnic_spec::RunSpec;
use rnic_spec::{RunOutput, RunStatus, Truncation};
use rnic_transport::Time;

fn cut(run: &RunSpec, flows: &[FlowSpec], ps: u64) -> RunOutput {
    let mut run = run.clone();
    run.limits.duration = Some(Time::from_ps(ps));
    outcome(&run, flows)
}

/// One flow of 10 packets over a switch. Packet n, counted from 1, has arrived after two propagation delays and n + 1
/// frame times.
#[test]
fn what_arrived_before_the_end_is_delivered() {
    let run = run_on(TopologySpec::SingleSwitch { hosts: 2 }, "roce");
    let flows = [flow(0, 0, 1, 9 * 1_024 + 100), flow(1_000_000_000, 1, 0, 1)];
    let arrival = |n: u64| 2 * D + (n + 1) * ROCE;
    for (end, packets) in [(1, 0), (arrival(1), 0), (arrival(1) + 1, 1), (arrival(4), 3), (arrival(9) + 1, 9)] {
        let output = cut(&run, &flows, end);
        assert_eq!((&output.status, output.end), (&RunStatus::Completed, Time::from_ps(end)));
        assert_eq!(output.truncated, Some(Truncation { at: output.end, not_started: Some(1) }));
        assert_eq!((output.offered, output.flows.len()), (1, 1));
        assert_eq!(
            (output.flows.get(0).unwrap().finish, output.flows.get(0).unwrap().delivered),
            (None, packets * 1_024),
            "at {end}"
        );
        assert_accounts(&output);
    }
    // The duration ends the run between the two flows, although there is no event at this time.
    let output = cut(&run, &flows, 500_000_000);
    assert_eq!((output.end.as_ps(), output.flows.get(0).unwrap().delivered), (500_000_000, 9 * 1_024 + 100));
    assert_eq!(output.truncated.unwrap().not_started, Some(1));
    // A run that has no events left ends before its duration.
    let output = cut(&run, &flows, 5_000_000_000);
    assert!(output.truncated.is_none() && output.end < Time::from_ps(1_100_000_000));
    assert_eq!(output, RunOutput { parameters: output.parameters.clone(), ..outcome(&run, &flows) });
}

/// A flow without ACKs and timers is stuck if its last packet is lost. With a duration, such a run completes.
#[test]
fn a_stuck_flow_is_unfinished_at_the_end() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 2 }, "roce");
    run.transport.set("timeouts", false).unwrap();
    let flows = [flow(0, 0, 1, 3 * 1_024)];
    assert!(failure(&outcome_with_losses(&run, &flows, &[(0, &[2])])).contains("nothing is left to happen"));
    run.limits.duration = Some(Time::from_us(100));
    let output = outcome_with_losses(&run, &flows, &[(0, &[2])]);
    assert_eq!((output.status, output.end), (RunStatus::Completed, Time::from_us(100)));
    assert_eq!(output.flows.get(0).unwrap().delivered, 2 * 1_024);
}

/// Packets that arrive after a missing packet count as delivered if the receiver keeps them. This includes the short
/// last packet.
#[test]
fn accepted_out_of_order() {
    let flows = [flow(0, 0, 1, 4 * 1_024 + 7)];
    for (transport, kept) in [("irn", 3 * 1_024 + 7), ("roce", 1_024)] {
        let mut run = run_on(TopologySpec::SingleSwitch { hosts: 2 }, transport);
        // At the end of the run, the last packet has arrived, but not the retransmission of the second packet.
        run.limits.duration = Some(Time::from_ps(2 * D + 6 * IRN));
        let output = outcome_with_losses(&run, &flows, &[(0, &[1])]);
        assert_eq!(
            (output.flows.get(0).unwrap().finish, output.flows.get(0).unwrap().delivered),
            (None, kept),
            "{transport}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A truncated run is the beginning of the complete run: the flows that have finished by then are the same, with
    /// the same times.
    #[test]
    fn a_cut_run_is_the_beginning_of_the_whole(
        flows in prop::collection::vec((0u64..30_000_000, 0u32..8, 1u32..8, 1u64..60_000), 1..40),
        transport in prop::sample::select(vec!["roce", "irn", "iwarp"]), pfc: bool, end in 1u64..60_000_000,
    ) {
        let mut flows: Vec<FlowSpec> =
            flows.into_iter().map(|(at, src, step, bytes)| flow(at, src, (src + step) % 8, bytes)).collect();
        flows.sort_by_key(|f| f.start);
        let mut run = run_on(TopologySpec::FatTree { k: 4 }, transport);
        run.transport.pfc = pfc;
        let (whole, part) = (outcome(&run, &flows), cut(&run, &flows, end));
        prop_assert_eq!(&part.status, &RunStatus::Completed);
        assert_accounts(&part);
        prop_assert!(part.end <= Time::from_ps(end));
        for (early, late) in part.flows.iter().zip(&whole.flows) {
            prop_assert_eq!(early.finish, late.finish.filter(|at| *at < part.end || part.truncated.is_none()));
            prop_assert!(early.delivered <= early.bytes);
            prop_assert_eq!(early.delivered == early.bytes, early.finish.is_some());
        }
        if let Some(cut) = part.truncated {
            let started = flows.iter().filter(|f| f.start < part.end).count();
            prop_assert_eq!(part.flows.len(), started);
            prop_assert_eq!(cut.not_started, Some((flows.len() - started) as u64));
        }
    }
}
