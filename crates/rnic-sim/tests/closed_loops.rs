//! Traffic that follows from what has arrived: pairs, and incasts whose next request waits for the last one.

mod common;

use common::*;
use proptest::prelude::*;
use rnic_fabric::config::TopologySpec;
use rnic_sim::resolve::resolve;
use rnic_sim::results::{FlowRecord, RunOutput, RunStatus};
use rnic_sim::run::{Progress, RunOptions, RunProgress, run_scenario, simulate_run};
use rnic_sim::scenario::{Incast, RunSpec, Scenario, Traffic, TrafficPattern};
use rnic_sim::workload::SizeDistribution;
use rnic_transport::congestion::Settings;
use rnic_transport::{Bytes, Time};

/// A minimal frame (64 + 20 bytes of gap) on a 40 Gbps cable, in picoseconds.
const LEAST: u64 = 16_800;

fn source(name: &str, pattern: TrafficPattern) -> Traffic {
    Traffic { name: name.to_string(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO }
}

fn pairs(pairs: u32, bytes: (f64, f64), messages: Option<u32>, think: Time) -> Traffic {
    let sizes = SizeDistribution { name: "uniform".to_string(), points: vec![(bytes.0, 0.0), (bytes.1, 1.0)] };
    source("pairs", TrafficPattern::Pairs { pairs, sizes, messages, think })
}

fn incast(senders: u32, total: u64, receiver: u32, repeats: Option<u32>) -> Traffic {
    let incast = Incast { senders, total: Bytes(total), receiver, connections: 1 };
    source("incast", TrafficPattern::IncastLoop { incast, repeats, think: Time::ZERO })
}

fn run(run: &RunSpec) -> RunOutput {
    simulate_run(run, &resolve(run).unwrap(), &mut |_| {})
}

#[test]
fn the_next_message_starts_when_the_sender_can_know() {
    for (bytes, frames, think) in [(1_024.0, 1, 0), (3_072.0, 3, 7_000_000)] {
        let mut spec = run_on(TopologySpec::SingleSwitch { hosts: 2 }, "roce");
        spec.traffic = vec![pairs(1, (bytes, bytes), Some(4), Time::from_ps(think))];
        let output = run(&spec);
        assert_eq!((&output.status, output.flows.len(), output.offered), (&RunStatus::Completed, 4, 4));
        // Frames through the switch, a minimal one back, the thought.
        let (there, back) = (2 * D + (frames + 1) * ROCE, 2 * D + 2 * LEAST);
        for (number, flow) in (0..).zip(&output.flows) {
            assert_eq!(flow.start.as_ps(), number * (there + back + think));
            assert_eq!(fct(flow), there);
            assert_eq!((flow.src, flow.dst), (output.flows[0].src, output.flows[0].dst));
        }
    }
}

#[test]
fn the_next_request_starts_when_the_last_sender_can_know() {
    let mut spec = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
    spec.traffic = vec![incast(2, 2 * 1_024, 0, Some(3))];
    let output = run(&spec);
    assert_eq!((&output.status, output.flows.len()), (&RunStatus::Completed, 6));
    // Two frames meet at the switch: the second is there one frame after the first.
    let round = 2 * D + 3 * ROCE + 2 * D + 2 * LEAST;
    let starts: Vec<u64> = output.flows.iter().map(|f| f.start.as_ps()).collect();
    assert_eq!(starts, [0, 0, round, round, 2 * round, 2 * round]);
    assert_eq!(output.flows.iter().map(|f| f.request).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn a_loop_without_end_lasts_as_long_as_the_run() {
    let mut spec = run_on(TopologySpec::SingleSwitch { hosts: 2 }, "roce");
    spec.traffic = vec![pairs(1, (1_024.0, 1_024.0), None, Time::ZERO)];
    assert_eq!(
        resolve(&spec).unwrap_err().to_string(),
        "traffic `pairs` has no end, and the run no `duration` in [limits]"
    );
    spec.limits.duration = Some(Time::from_us(100));
    let output = run(&spec);
    // The last one starts before the end.
    let round = 4 * D + 2 * ROCE + 2 * LEAST;
    assert_eq!(output.flows.len() as u64, 100_000_000u64.div_ceil(round));
    assert_eq!((output.cut.unwrap().not_started, output.status), (None, RunStatus::Completed));
}

/// Links that a frame crosses from one host of the 16-host fat-tree to another.
fn hops(a: u32, b: u32) -> u64 {
    match (a / 2 == b / 2, a / 4 == b / 4) {
        (true, _) => 2,
        (_, true) => 4,
        _ => 6,
    }
}

/// When a flow's sender knows that all has arrived.
fn known(flow: &FlowRecord) -> u64 {
    flow.finish.unwrap().as_ps() + hops(flow.src, flow.dst) * (D + LEAST)
}

/// Every start of a loop but its first is the time at which the last round was known: exactly one round for each.
fn check_pairs(flows: &[FlowRecord], pairs: usize, messages: usize) {
    let first: Vec<&FlowRecord> = flows.iter().filter(|f| f.start == Time::ZERO).collect();
    assert_eq!((first.len(), flows.len()), (pairs, pairs * messages));
    let mut waiting: Vec<(u64, u32, u32)> = Vec::new();
    for flow in flows {
        if flow.start > Time::ZERO {
            let at = waiting.iter().position(|known| *known == (flow.start.as_ps(), flow.src, flow.dst));
            waiting.swap_remove(at.unwrap_or_else(|| panic!("{flow:?} follows from nothing")));
        }
        waiting.push((known(flow), flow.src, flow.dst));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn pairs_keep_to_the_rule_on_a_busy_fabric(
        count in 1u32..30, messages in 1u32..6, seed: u64, pfc: bool,
        transport in prop::sample::select(vec!["roce", "irn", "iwarp"]), loss in prop::sample::select(vec![0.0, 0.002]),
    ) {
        let mut spec = run_on(TopologySpec::FatTree { k: 4 }, transport);
        (spec.seed, spec.transport.pfc, spec.fabric.link.loss) = (seed, pfc, loss);
        spec.fabric.switch.buffer = Some(Bytes(60_000));
        spec.traffic = vec![pairs(count, (100.0, 60_000.0), Some(messages), Time::ZERO)];
        let output = run(&spec);
        prop_assert_eq!(&output.status, &RunStatus::Completed);
        assert_accounts(&output);
        prop_assert!(output.flows.is_sorted_by_key(|f| f.start));
        check_pairs(&output.flows, count as usize, messages as usize);
    }
}

struct Silent;
impl Progress for Silent {
    fn update(&self, _run: usize, state: RunProgress) {
        assert!(state.flows_done <= state.flows_total);
    }
}

/// Loops beside open traffic, with and without an end, over all congestion controls.
fn scenario() -> Scenario {
    let mut runs = Vec::new();
    for cc in rnic_sim::catalogue::Catalogue::standard().congestion_controls() {
        for (transport, duration) in [("roce", None), ("irn", Some(Time::from_us(400)))] {
            let mut spec = run_on(TopologySpec::FatTree { k: 4 }, transport);
            spec.name = format!("{transport} {}", cc.name);
            (spec.transport.cc, spec.transport.cc_settings) = (*cc, Settings::new(cc.parameters));
            spec.transport.pfc = transport == "roce";
            spec.limits.duration = duration;
            let end = |rounds| if duration.is_some() { None } else { Some(rounds) };
            let sizes = SizeDistribution { name: "uniform".to_string(), points: vec![(100.0, 0.0), (90_000.0, 1.0)] };
            let open = TrafficPattern::Poisson { load: 0.3, sizes, flows: 200 };
            let mut pairs = pairs(12, (100.0, 90_000.0), end(6), Time::from_us(3));
            pairs.warmup = 5;
            spec.traffic = vec![pairs, source("open", open), incast(8, 400_000, 3, end(5))];
            runs.push(spec);
        }
    }
    Scenario { title: "t".to_string(), name: "t".to_string(), seed: 1, runs }
}

#[test]
fn the_same_for_any_number_of_threads() {
    let outputs = |threads| -> Vec<RunOutput> {
        let reports = run_scenario(&scenario(), &RunOptions { threads }, &Silent).unwrap();
        reports.into_iter().map(|report| report.output).collect()
    };
    let one = outputs(1);
    for output in &one {
        assert_eq!(output.status, RunStatus::Completed);
        assert_accounts(output);
        assert!(output.flows.is_sorted_by_key(|f| (f.start, f.traffic, f.src)));
        let of = |traffic| output.flows.iter().filter(move |f| f.traffic == traffic);
        assert_eq!(of(0).filter(|f| !f.measured).count(), 5);
        assert!((0..3).all(|traffic| of(traffic).count() >= 16), "all sources send");
        if output.cut.is_none() {
            assert_eq!([0, 1, 2].map(|traffic| of(traffic).count()), [72, 200, 40]);
        }
    }
    assert!(one.iter().any(|output| output.cut.is_some()) && one.iter().any(|output| output.totals.pause_frames > 0));
    assert!(one == outputs(2) && one == outputs(7));
}
