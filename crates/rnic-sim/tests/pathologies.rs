//! The PFC pathologies in the scenarios of `scenarios/pfc`: the root of each pathology, its victims, and the warnings.

use proptest::prelude::*;
use rnic_campaign::run_scenario;
use rnic_fabric::config::TopologySpec;
use rnic_results::{ScenarioSummary, summarise};
use rnic_scenario::load;
use rnic_spec::RunRecord;
use rnic_spec::{PauseRecords, RootKind};
use rnic_spec::{QueueingSetup, Scenario, Storm, Watch, WatchedQueues};
use rnic_spec::{RunOutput, RunStatus};
use rnic_transport::Time;
use std::path::Path;

/// Simulates a scenario of `scenarios/pfc`.
fn run(name: &str, overrides: &[(&str, &str)]) -> (Scenario, Vec<RunRecord>, ScenarioSummary) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/pfc").join(name);
    let overrides: Vec<_> = overrides.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let scenario = load(&path, &overrides, None).unwrap();
    let reports = run_scenario(&scenario, 2).unwrap();
    let summary = summarise(&scenario, &reports);
    (scenario, reports, summary)
}

fn pauses(report: &RunRecord) -> &PauseRecords {
    report.output.pauses.as_ref().unwrap()
}

fn name(output: &RunOutput, port: u32) -> String {
    let port = &output.ports[port as usize];
    format!("{}->{}", port.node, port.peer)
}

/// Checks that the log of pauses is exact: its pauses add up to the counters of every port.
fn assert_log_is_whole(output: &RunOutput) {
    let records = output.pauses.as_ref().unwrap();
    assert_eq!(records.pauses_left_out, 0);
    for (number, port) in output.ports.iter().enumerate() {
        for (priority, counters) in port.priorities.iter().enumerate() {
            let own =
                records.log.iter().filter(|row| (row.port as usize, usize::from(row.priority)) == (number, priority));
            let (mut pauses, mut paused) = (0, 0);
            for row in own {
                pauses += 1;
                paused += (row.to.unwrap_or(output.end) - row.from).as_ps();
            }
            assert_eq!((pauses, paused), (counters.pause_received, counters.paused_ps), "{}->{}", port.node, port.peer);
        }
    }
}

#[test]
fn a_storm_is_traced_to_its_nic_and_its_victims_are_named() {
    let (_, reports, summary) = run("storm.toml", &[]);
    let [calm, storm, for_ever, irn] = &reports[..] else { panic!() };
    for report in [calm, storm, for_ever] {
        assert_log_is_whole(&report.output);
        assert!(pauses(report).cycle.is_none());
    }
    assert!(pauses(calm).roots.iter().all(|root| root.kind == RootKind::Congestion));
    for (report, lasts) in [(storm, Time::from_ms(2)), (for_ever, for_ever.output.end - Time::from_ms(1))] {
        let (records, output) = (pauses(report), &report.output);
        let nic: Vec<_> = records.roots.iter().filter(|root| root.kind == RootKind::Nic).collect();
        assert_eq!(nic.len(), 1);
        assert_eq!(name(output, nic[0].port), "h0->leaf0");
        // The storm starts at 1 ms, and its pause frame arrives one link delay later. The next sample, within 10 us,
        // shows the pause.
        assert!(nic[0].first > Time::from_ms(1) && nic[0].first <= Time::from_us(1_020), "{}", nic[0].first);
        // The pauses last until the queues that the storm has filled are empty.
        let held = records.interval * nic[0].samples;
        assert!(held + Time::from_us(30) > lasts && held < lasts + Time::from_us(500), "{held}");
        // The storm pauses ports of every switch, and hosts under every leaf.
        let worst = records.worst.as_ref().unwrap();
        let root = records.roots.iter().position(|root| root.kind == RootKind::Nic).unwrap() as u32;
        for part in ["leaf0->h0", "spine0->leaf0", "leaf3->spine", "h1", "h15->leaf3"] {
            let mut held = worst.ports.iter().filter(|port| port.root == Some(root) && port.paused);
            assert!(held.any(|port| name(output, port.port).starts_with(part)), "{part}");
        }
        // No flow to h0 is a victim of h0's NIC, because the NIC is on its path; many other flows are victims.
        let of_nic: Vec<_> = records.victims.iter().filter(|victim| victim.root == root).collect();
        assert!(of_nic.len() > 100 && of_nic.iter().all(|victim| victim.dst != 0), "{}", of_nic.len());
    }
    assert_eq!(storm.output.status, RunStatus::Completed);
    let RunStatus::Failed(reason) = &for_ever.output.status else { panic!() };
    assert!(reason.contains("the NIC of h0 pauses its switch"), "{reason}");
    // Without PFC no port is paused, and a warning says that the storm has no effect.
    assert!(pauses(irn).log.is_empty() && pauses(irn).roots.is_empty() && irn.output.status == RunStatus::Completed);
    assert!(irn.output.warnings.iter().any(|warning| warning.starts_with("the storm changes nothing")));
    let p99 = |run: usize| summary.runs[run].slowdown.unwrap().p99;
    assert!(p99(1) > 5.0 * p99(0) && p99(3) < 2.0 * p99(0), "{} {} {}", p99(0), p99(1), p99(3));
}

#[test]
fn the_victim_of_head_of_line_blocking_is_named_and_is_none_without_pfc() {
    let (_, reports, _) = run("head-of-line.toml", &[]);
    {
        let (records, output) = (pauses(&reports[0]), &reports[0].output);
        assert_log_is_whole(output);
        // The root of all pauses is h3's port.
        assert_eq!(records.roots.len(), 1);
        let root = records.roots[0];
        assert_eq!((root.kind, name(output, root.port).as_str()), (RootKind::Congestion, "right->h3"));
        assert_eq!(root.max_ports, 4);
        let victims: Vec<_> = records.victims.iter().map(|victim| victim.flow).collect();
        assert_eq!((victims, records.victim_count), (vec![2], 1));
        let victim = records.victims[0];
        // 5 MB take 1 ms at 40 Gbps. The victim gets about as much as each of the other flows, half of this rate.
        let lasted = (output.flows.get(2).unwrap().finish.unwrap() - output.flows.get(2).unwrap().start).as_ps() as f64;
        assert!((victim.goodput - 5e6 * 8e12 / lasted).abs() < 1.0 && victim.goodput < 22e9, "{victim:?}");
        assert!(records.interval * victim.samples > Time::from_us(500), "{victim:?}");
    }
    let alone = &reports[1].output.flows.get(2).unwrap();
    assert!((alone.finish.unwrap() - alone.start) < Time::from_us(1_200));
    assert_eq!(pauses(&reports[1]).victim_count, 0);
}

#[test]
fn the_deadlock_is_seen_when_it_closes_and_where() {
    let (_, reports, summary) = run("deadlock.toml", &[]);
    let [broken, shortest, irn] = &reports[..] else { panic!() };
    assert_log_is_whole(&broken.output);
    let cycle = pauses(broken).cycle.as_ref().unwrap();
    assert!(cycle.at_end);
    let mut ports: Vec<_> = cycle.ports.iter().map(|port| name(&broken.output, *port)).collect();
    let next = |from: &str| from.split_once("->").unwrap().1.to_string();
    for (index, port) in ports.iter().enumerate() {
        assert!(ports[(index + 1) % ports.len()].starts_with(&next(port)), "each waits for the next: {ports:?}");
    }
    ports.sort();
    assert_eq!(ports, ["s0->s2", "s1->s0", "s2->s1"]);
    // The cycle first appears in the first sample after the last of its three ports was paused for the rest of the run.
    let stuck: Vec<Time> = cycle
        .ports
        .iter()
        .map(|port| pauses(broken).log.iter().find(|row| row.port == *port && row.to.is_none()).unwrap().from)
        .collect();
    let closed = *stuck.iter().max().unwrap();
    assert!(cycle.first >= closed && cycle.first <= closed + pauses(broken).interval, "{} {closed}", cycle.first);
    // At the end of the run, every paused port waits for the cycle.
    let root = pauses(broken).roots.iter().position(|root| root.kind == RootKind::Cycle).unwrap() as u32;
    let open = pauses(broken).log.iter().filter(|row| row.to.is_none());
    assert!(open.clone().count() >= 9 && open.clone().all(|row| row.root == Some(root)));
    let RunStatus::Failed(reason) = &broken.output.status else { panic!() };
    assert!(reason.contains("deadlock: the pauses form a cycle through "), "{reason}");
    assert!(summary.runs[0].pauses.as_ref().unwrap().sentences()[0].starts_with("deadlock from "));
    // Only the run whose routes allow a deadlock has a warning, which names the cycle before the run starts.
    let warned = |report: &RunRecord| report.output.warnings.iter().any(|warning| warning.contains("allow a deadlock"));
    assert_eq!([broken, shortest, irn].map(warned), [true, false, false]);
    let warning = broken.output.warnings.iter().find(|warning| warning.contains("deadlock")).unwrap();
    assert!(["s0:3->s2", "s2:2->s1", "s1:2->s0"].iter().all(|port| warning.contains(port)), "{warning}");
    for report in [shortest, irn] {
        assert_eq!(report.output.status, RunStatus::Completed);
        assert!(pauses(report).cycle.is_none());
    }
}

#[test]
fn a_run_that_its_duration_cuts_claims_no_deadlock() {
    let (_, reports, summary) = run("deadlock.toml", &[("limits.duration", "\"200 us\"")]);
    let broken = &reports[0];
    let cycle = pauses(broken).cycle.as_ref().unwrap();
    assert!(cycle.at_end && cycle.truncated && broken.output.status == RunStatus::Completed);
    let sentences = summary.runs[0].pauses.as_ref().unwrap().sentences();
    assert!(
        sentences[0].starts_with("a cycle of pauses from ") && sentences[0].contains(" until the end of the run: "),
        "{sentences:?}"
    );
    let told = |warning: &String| warning.starts_with("a cycle of pauses at the end of the run: through ");
    assert_eq!(broken.output.warnings.iter().filter(|warning| told(warning)).count(), 1);
}

#[test]
fn watching_pauses_changes_no_result_and_threads_change_no_record() {
    let (scenario, watched, _) = run("storm.toml", &[("traffic.flows", "400")]);
    let mut blind = scenario.clone();
    blind.runs.iter_mut().for_each(|run| run.watch = None);
    let unwatched = run_scenario(&blind, 1).unwrap();
    let again = run_scenario(&scenario, 1).unwrap();
    for ((watched, unwatched), again) in watched.iter().zip(&unwatched).zip(&again) {
        assert_eq!(watched.output, again.output);
        let mut output = watched.output.clone();
        (output.pauses, output.samples) = (None, None);
        assert_eq!(output, unwatched.output);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// With random traffic and random storms that end, no packet is dropped, all flows finish, and the pause records
    /// are consistent.
    #[test]
    fn storms_that_end_lose_nothing_and_leave_whole_records(
        storms in prop::collection::vec((0u32..8, 0u64..200_000, 1_000u64..300_000), 0..4),
        flows in prop::collection::vec((0u64..200_000, 0u32..8, 1u32..8, 1u64..400_000), 1..30),
        shared: bool,
        transport in prop::sample::select(vec!["roce", "irn"]),
    ) {
        let leaf_spine =
            TopologySpec::LeafSpine { leaves: 4, spines: 2, hosts_per_leaf: 2, uplink_rate: None, uplink_delay: None };
        let mut run = crate::common::run_on(leaf_spine, transport);
        run.transport.pfc = true;
        if shared {
            run.fabric.switch.queueing = QueueingSetup::Shared(Default::default());
            run.fabric.switch.buffer = Some(rnic_transport::Bytes(400_000));
        }
        let storm = |(host, start, duration): &(u32, u64, u64)| Storm {
            host: *host,
            start: Time::from_ns(*start),
            duration: Some(Time::from_ns(*duration)),
            priority: None,
        };
        run.fabric.storms = storms.iter().map(storm).collect();
        let queues = WatchedQueues::Named(Vec::new());
        run.watch = Some(Watch {
            interval: Time::from_us(3),
            start: Time::ZERO,
            queues,
            links: Default::default(),
            flows: false,
            pauses: true,
            excess: false,
        });
        let mut flows: Vec<_> =
            flows.iter().map(|(at, src, by, bytes)| crate::common::flow(at * 1_000, *src, (src + by) % 8, *bytes)).collect();
        flows.sort_by_key(|flow| flow.start);
        let output = crate::common::outcome(&run, &flows);
        prop_assert_eq!(&output.status, &RunStatus::Completed);
        prop_assert_eq!(output.totals.dropped, 0);
        crate::common::assert_accounts(&output);
        assert_log_is_whole(&output);
        let records = output.pauses.as_ref().unwrap();
        prop_assert!(records.cycle.is_none(), "up and down has no cycle");
        prop_assert!(records.roots.iter().all(|root| root.kind != RootKind::Cycle));
        for root in records.roots.iter().filter(|root| root.kind == RootKind::Nic) {
            prop_assert!(storms.iter().any(|(host, ..)| *host == root.port), "{:?}", root);
        }
        for victim in &records.victims {
            let root = records.roots[victim.root as usize];
            let guilty = match root.kind {
                RootKind::Nic => root.port == victim.dst,
                _ => output.ports[root.port as usize].peer == format!("h{}", victim.dst),
            };
            prop_assert!(!guilty && victim.samples > 0 && victim.samples <= records.samples, "{:?} {:?}", victim, root);
        }
        // Spans of a port do not overlap.
        let mut spans = records.spans.clone();
        spans.sort_by_key(|span| (span.port, span.priority, span.from));
        for pair in spans.windows(2).filter(|pair| (pair[0].port, pair[0].priority) == (pair[1].port, pair[1].priority)) {
            prop_assert!(pair[0].to <= pair[1].from, "{:?}", pair);
        }
    }
}
