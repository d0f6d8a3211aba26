//! The same input gives the same output, on any number of threads, in any order of runs, flows and nodes.

use crate::common::*;
use rnic_campaign::{RunListener, execute_remaining, run_scenario};
use rnic_fabric::config::TopologySpec;
use rnic_sim::Catalogue;
use rnic_spec::CongestionSpec;
use rnic_spec::RunEvent;
use rnic_spec::{Arrivals, Locality, RunSpec, Scenario, Traffic, TrafficPattern};
use rnic_spec::{FlowSpec, SizeDistribution};
use rnic_spec::{RunOutput, RunStatus, Truncation};
use rnic_transport::{Bytes, Psn, Time};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Adds Poisson traffic that sometimes overflows buffers.
fn poisson(mut run: RunSpec, name: &str) -> RunSpec {
    run.name = name.to_string();
    run.traffic = vec![Traffic {
        name: "poisson".to_string(),
        pattern: TrafficPattern::Poisson {
            load: 0.8,
            sizes: SizeDistribution { name: "uniform".to_string(), points: vec![(100.0, 0.0), (100_000.0, 1.0)] },
            flows: 400,
            locality: Locality::default(),
            arrivals: Arrivals::Poisson,
        },
        warmup: 0,
        cooldown: 0,
        start: Time::ZERO,
        priority: 0,
    }];
    run
}

/// Runs of every transport with and without PFC, with random loss and with two priorities, and of every congestion
/// control with or without PFC.
fn variants() -> Vec<RunSpec> {
    let mut runs = Vec::new();
    for cc in rnic_spec::Vocabulary::standard().congestion_controls().iter().filter(|cc| !cc.host_only) {
        for (transport, pfc) in [("roce", true), ("irn", false)] {
            let mut run = run_on(TopologySpec::FatTree { k: 4 }, transport_with(cc, transport));
            run.transport.cc = CongestionSpec::of(*cc);
            run.transport.pfc = pfc;
            run.fabric.switch.buffer = Some(Bytes(60_000));
            runs.push(poisson(run, &format!("{transport} {}", cc.name)));
        }
    }
    for transport in ["roce", "irn", "iwarp"] {
        for pfc in [false, true] {
            let mut run = run_on(TopologySpec::FatTree { k: 4 }, transport);
            run.transport.pfc = pfc;
            run.transport.set("control_priority", pfc).unwrap();
            run.fabric.switch.buffer = Some(Bytes(60_000));
            runs.push(poisson(run.clone(), &format!("{transport} pfc {pfc}")));
            run.fabric.link.loss = 0.001;
            runs.push(poisson(run, &format!("{transport} pfc {pfc} loss")));
        }
    }
    runs
}

/// A scenario of all variants with the same seed.
fn scenario(seed: u64) -> Scenario {
    let runs = variants().into_iter().map(|run| RunSpec { seed, ..run }).collect();
    Scenario { title: "t".to_string(), name: "t".to_string(), seed, runs }
}

fn outputs(seed: u64, threads: usize) -> Vec<RunOutput> {
    let reports = run_scenario(&scenario(seed), threads).unwrap();
    reports.into_iter().map(|report| report.output).collect()
}

#[test]
fn a_seed_determines_everything_on_any_number_of_threads() {
    let one = outputs(5, 1);
    assert!(one.iter().any(|o| o.totals.marked > 0) && one.iter().any(|o| o.totals.notifications > 0));
    for output in &one {
        assert_eq!(output.status, RunStatus::Completed);
        assert_accounts(output);
    }
    assert!(one.iter().any(|o| o.totals.dropped > 0) && one.iter().any(|o| o.totals.pause_frames > 0));
    assert!(one == outputs(5, 1), "twice on one thread");
    assert!(one == outputs(5, 2), "on two threads");
    assert!(one == outputs(5, 16), "on more threads than runs");
    let other = outputs(6, 1);
    assert!(one.iter().zip(&other).all(|(a, b)| a.flows != b.flows), "another seed");
}

#[test]
fn a_run_does_not_depend_on_the_other_runs_of_its_scenario() {
    let all = outputs(5, 1);
    for index in [0, 3, 5] {
        let mut scenario = scenario(5);
        scenario.runs = vec![scenario.runs[index].clone()];
        let alone = run_scenario(&scenario, 1).unwrap();
        assert!(alone[0].output == all[index]);
    }
}

/// Many flows into a few hosts, with pseudo-random starts.
fn busy_flows(hosts: u32, count: u64) -> Vec<FlowSpec> {
    let scramble = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) >> 33;
    let mut flows: Vec<FlowSpec> = (0..count)
        .map(|i| {
            let src = (scramble(i) % u64::from(hosts)) as u32;
            let dst = (src + 1 + (scramble(i + count) % u64::from(hosts - 1)) as u32) % hosts;
            flow(scramble(i + 2 * count) % 300_000_000, src, dst, 1 + scramble(i + 3 * count) % 150_000)
        })
        .collect();
    flows.sort_by_key(|f| f.start);
    flows
}

#[test]
fn the_first_sequence_number_does_not_matter() {
    for transport in ["roce", "irn"] {
        for acks in [false, true] {
            let mut run = run_on(TopologySpec::FatTree { k: 4 }, transport);
            run.fabric.link.loss = 0.002;
            run.fabric.switch.buffer = Some(Bytes(30_000));
            if transport == "roce" {
                run.transport.set("acks", acks).unwrap();
            }
            let flows = busy_flows(16, 300);
            let mut resolved = resolved(&run, &flows);
            let base = outcome_of(&run, &resolved, &flows);
            assert_eq!(base.status, RunStatus::Completed);
            assert!(base.totals.retransmitted > 100);
            for first in [1, Psn::MODULUS / 2 - 3, Psn::MODULUS - 1, Psn::MODULUS - 60] {
                resolved.flow.first_psn = Psn::new(first);
                let other = outcome_of(&run, &resolved, &flows);
                assert!(other == base, "{transport}, first PSN {first}");
            }
        }
    }
}

#[test]
fn a_flow_far_away_changes_nothing_here() {
    // Turns of one packet and longer ones; the flow ids in an unfinished turn are those of other flows later.
    for (transport, burst) in [("roce", 1_u64), ("roce", 64), ("irn", 1), ("irn", 64)] {
        // Traffic within pod 0 and traffic within pod 5 of the fat-tree share no link, so they cannot influence each
        // other.
        let here: Vec<FlowSpec> = busy_flows(9, 100);
        let mut run = fat_tree(transport);
        run.fabric.switch.buffer = Some(Bytes(40_000));
        run.transport.set("rto_high", Time::from_us(320)).unwrap();
        run.transport.set("nic_burst", burst).unwrap();
        let alone = outcome(&run, &here);
        assert!(alone.totals.retransmitted > 0, "the flows do get into each other's way");
        let mut all = here.clone();
        all.extend((0..20).map(|i| flow(i * 5_000_000 + 3, 45 + (i % 4) as u32, 50, 200_000)));
        all.sort_by_key(|f| f.start);
        let together = outcome(&run, &all);
        let mut seen = together.flows.iter().filter(|f| f.src < 9);
        for record in &alone.flows {
            let other = seen.next().unwrap();
            assert_eq!((record.src, record.start, record.finish), (other.src, other.start, other.finish));
            assert_eq!((record.retransmitted, record.timeouts), (other.retransmitted, other.timeouts));
        }
    }
}

/// Six switches in a line, each with one host. `order` permutes the numbers of the nodes. The links are always created
/// in the same order, so the ports of each switch always have the same numbers.
fn line(order: [usize; 6], transport: &str, pfc: bool) -> RunSpec {
    let names = |prefix: &str| order.iter().map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
    let (hosts, switches) = (names("h"), names("s"));
    let mut run = run_on(TopologySpec::Graph { hosts, switches }, transport);
    for i in 0..6 {
        if i > 0 {
            run.fabric.links.push(link_between(&format!("s{i}"), &format!("s{}", i - 1)));
        }
        run.fabric.links.push(link_between(&format!("h{i}"), &format!("s{i}")));
    }
    run.transport.pfc = pfc;
    run.transport.set("timeouts", true).unwrap();
    run.fabric.switch.buffer = Some(Bytes(40_000));
    run
}

/// The engine simulates nodes in the order of their numbers, so a permutation of the numbers permutes the order of
/// simulation.
#[test]
fn the_order_in_which_nodes_are_simulated_does_not_matter() {
    const IDENTITY: [usize; 6] = [0, 1, 2, 3, 4, 5];
    let flows = busy_flows(6, 200);
    for transport in ["roce", "irn"] {
        for pfc in [false, true] {
            let base = outcome(&line(IDENTITY, transport, pfc), &flows);
            assert_eq!(base.status, RunStatus::Completed, "{transport}, pfc {pfc}");
            assert!(if pfc { base.totals.pause_frames > 0 } else { base.totals.dropped > 0 });
            for order in [[5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 2], [1, 0, 3, 2, 5, 4]] {
                // Host n of the unpermuted line keeps the name h(n); `number` is its number in the permuted line.
                let number = |host: u32| order.iter().position(|o| *o == host as usize).unwrap() as u32;
                let renamed: Vec<FlowSpec> =
                    flows.iter().map(|f| FlowSpec { src: number(f.src), dst: number(f.dst), ..*f }).collect();
                let other = outcome(&line(order, transport, pfc), &renamed);
                assert_eq!(other.totals, base.totals, "{transport}, pfc {pfc}, {order:?}");
                for (a, b) in base.flows.iter().zip(&other.flows) {
                    assert_eq!((a.start, a.finish), (b.start, b.finish));
                    assert_eq!((a.retransmitted, a.timeouts), (b.retransmitted, b.timeouts));
                }
            }
        }
    }
}

#[test]
fn progress_is_reported_and_does_not_change_results() {
    struct Count(AtomicU64);
    impl RunListener for Count {
        fn event(&self, run: usize, event: &RunEvent) -> ControlFlow<()> {
            if let RunEvent::Progress(state) = event {
                assert!(run < variants().len() && state.flows_done <= 400 && state.flows_total == Some(400));
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            ControlFlow::Continue(())
        }
    }
    let scenario = scenario(5);
    let count = Count(AtomicU64::new(0));
    let reports = execute_remaining(&Catalogue::standard(), &scenario, Vec::new(), 1, &count).unwrap();
    assert!(count.0.into_inner() > 0);
    let expected = outputs(5, 1);
    assert!(reports.iter().flatten().map(|r| &r.output).eq(&expected));
}

/// A run that is interrupted at its third progress event has the same partial results on any number of threads, and all
/// its packets are accounted for.
#[test]
fn an_interrupted_run_ends_at_a_progress_event() {
    struct Third(AtomicU64);
    impl RunListener for Third {
        fn event(&self, _run: usize, event: &RunEvent) -> ControlFlow<()> {
            match event {
                RunEvent::Progress(_) if self.0.fetch_add(1, Ordering::Relaxed) == 2 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let mut scenario = scenario(5);
    scenario.runs.truncate(1);
    // Enough flows for more than three progress events.
    let TrafficPattern::Poisson { flows, .. } = &mut scenario.runs[0].traffic[0].pattern else { panic!() };
    *flows = 4_000;
    let interrupted = |threads| {
        let third = Third(AtomicU64::new(0));
        let records = execute_remaining(&Catalogue::standard(), &scenario, Vec::new(), threads, &third).unwrap();
        records.into_iter().flatten().next().unwrap().output
    };
    let (partial, whole) = (interrupted(1), &run_scenario(&scenario, 1).unwrap()[0].output);
    assert_eq!(partial.status, RunStatus::Interrupted);
    assert_accounts(&partial);
    let started = partial.flows.len() as u64;
    assert!(started > 0 && partial.end < whole.end);
    let truncation = Truncation { at: partial.end, not_started: Some(4_000 - started) };
    assert_eq!((partial.offered, partial.truncated), (started, Some(truncation)));
    // The flows that finished before the interruption finished at the same times as in the whole run.
    for (flow, of_whole) in partial.flows.iter().zip(&whole.flows).filter(|(flow, _)| flow.finish.is_some()) {
        assert_eq!((flow.start, flow.finish), (of_whole.start, of_whole.finish));
    }
    for threads in [2, 5] {
        assert_eq!(interrupted(threads), partial, "{threads} threads");
    }
}
