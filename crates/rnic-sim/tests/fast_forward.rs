//! Runs with `fast_forward`: they end as runs without it do, up to the bound, and skip nothing that is due.

use crate::common::{flow, list, outputs, read_scenario, run_on, scenario};
use rnic_fabric::config::TopologySpec;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_sim::run::simulate_run;
use rnic_spec::{FastForwardRecord, FlowSpec, LinkFault, RunOutput, RunSpec, RunStatus};
use rnic_transport::Time;
use std::path::Path;

fn outcome(run: &RunSpec, bound: f64, flows: &[FlowSpec]) -> RunOutput {
    let run = RunSpec { traffic: list(flows), fast_forward: bound, ..run.clone() };
    let output = simulate_run(&Catalogue::standard(), &run, &resolve(&Catalogue::standard(), &run).unwrap());
    assert_eq!(output.status, RunStatus::Completed);
    output
}

fn skipped(output: &RunOutput) -> FastForwardRecord {
    output.fast_forward.unwrap()
}

/// Asserts that the two values differ by at most this share of the first.
fn assert_close(a: f64, b: f64, share: f64) {
    assert!((a - b).abs() <= share * a.abs(), "{b} is not {a} up to {share}");
}

/// Compares completion times and counters of a run with those of the same run without `fast_forward`.
fn compare(exact: &RunOutput, fast: &RunOutput, share: f64) {
    assert_eq!(exact.flows.len(), fast.flows.len());
    for (exact, fast) in exact.flows.iter().zip(fast.flows.iter()) {
        assert_eq!(
            (exact.id, exact.start, exact.bytes, fast.delivered),
            (fast.id, fast.start, fast.bytes, exact.bytes)
        );
        let time = |record: &rnic_spec::FlowRecord| (record.finish.unwrap() - record.start).as_ps() as f64;
        assert_close(time(&exact), time(&fast), share);
    }
    assert_close(exact.totals.data as f64, fast.totals.data as f64, share);
    assert_close(exact.totals.hops as f64, fast.totals.hops as f64, share);
    for (exact, fast) in exact.ports.iter().zip(&fast.ports) {
        assert_close(exact.busy.as_ps() as f64, fast.busy.as_ps() as f64, share.max(0.02));
    }
}

fn switch(hosts: u32) -> TopologySpec {
    TopologySpec::SingleSwitch { hosts }
}

#[test]
fn lone_flows_are_skipped_almost_whole_and_end_at_the_same_time() {
    for transport in ["irn", "roce"] {
        let run = run_on(switch(4), transport);
        let flows = [flow(5_000, 0, 3, 500_000_000), flow(7_000, 1, 2, 250_000_000)];
        let (exact, fast) = (outcome(&run, 0.0, &flows), outcome(&run, 0.01, &flows));
        assert_eq!(exact.fast_forward, None);
        compare(&exact, &fast, 1e-3);
        let share = skipped(&fast).skipped.as_ps() as f64 / fast.end.as_ps() as f64;
        assert!(share > 0.9, "{transport}: {share}");
        assert!(skipped(&fast).largest_deviation < 0.01);
    }
}

#[test]
fn flows_that_share_a_link_change_their_rates_when_one_ends() {
    // Two flows share the link to host 3; when the shorter ends, the other is alone.
    let run = run_on(switch(4), "roce");
    let flows = [flow(0, 0, 3, 100_000_000), flow(0, 1, 3, 300_000_000)];
    let (exact, fast) = (outcome(&run, 0.0, &flows), outcome(&run, 0.01, &flows));
    compare(&exact, &fast, 0.01);
    assert!(skipped(&fast).skips >= 2);
}

#[test]
fn a_flow_that_starts_later_is_not_skipped() {
    let run = run_on(switch(4), "irn");
    // The second flow starts at 40 ms: half of the first flow's time on the link of 40 Gbps.
    let flows = [flow(0, 0, 3, 400_000_000), flow(40_000_000_000, 1, 2, 1_000_000)];
    let (exact, fast) = (outcome(&run, 0.0, &flows), outcome(&run, 0.01, &flows));
    compare(&exact, &fast, 1e-3);
    let finish = |output: &RunOutput| output.flows.get(1).unwrap().finish;
    assert_eq!(finish(&exact), finish(&fast), "a flow on its own path, whose start is exact");
}

#[test]
fn faults_of_links_and_the_end_of_the_run_happen_when_they_are_due() {
    let mut run = run_on(switch(4), "irn");
    let fault = LinkFault {
        from: "h0".into(),
        to: "s0".into(),
        rate: Some(rnic_transport::BitRate::from_gbps(10)),
        start: Time::from_ms(30),
        one_way: false,
        scales_queues: false,
        duration: Some(Time::from_ms(20)),
        every: None,
    };
    run.fabric.faults.links.push(fault);
    let flows = [flow(0, 0, 3, 400_000_000)];
    let (exact, fast) = (outcome(&run, 0.0, &flows), outcome(&run, 0.01, &flows));
    compare(&exact, &fast, 2e-3);
    assert!(skipped(&fast).skips >= 3);

    run.limits.duration = Some(Time::from_ms(40));
    let (exact, fast) = (outcome(&run, 0.0, &flows), outcome(&run, 0.01, &flows));
    assert_eq!((exact.end, fast.end), (Time::from_ms(40), Time::from_ms(40)));
    let delivered = |output: &RunOutput| output.flows.get(0).unwrap().delivered as f64;
    assert_close(delivered(&exact), delivered(&fast), 2e-3);
    assert!(skipped(&fast).skips >= 1);
}

const CASES: [(&str, &str); 4] =
    [("irn", ""), ("roce", "pfc = true\ncc = \"dcqcn\""), ("irn", "cc = \"swift\""), ("irn", "cc = \"hpcc\"")];

#[test]
fn threads_do_not_matter_and_the_errors_are_within_the_bound() {
    let text = r#"
        fast_forward = 0.02
        [fabric]
        topology = "fat-tree"
        k = 4
        rate = "100 Gbps"
        delay = "1 us"
        [traffic]
        pattern = "incast"
        senders = 4
        total = "100 MB"
        receiver = "random"
        repeats = 2
        interval = "3 ms"
    "#;
    for (transport, keys) in CASES {
        let fast = scenario(text, &[transport], keys).unwrap();
        let exact = scenario(&text.replace("fast_forward = 0.02", ""), &[transport], keys).unwrap();
        let (exact, fast, threads) =
            (outputs(&exact, 1).remove(0), outputs(&fast, 1).remove(0), outputs(&fast, 3).remove(0));
        assert_eq!(fast, threads);
        assert_eq!((exact.status.clone(), fast.status.clone()), (RunStatus::Completed, RunStatus::Completed));
        let mean = |output: &RunOutput| {
            let times = output.flows.iter().map(|flow| (flow.finish.unwrap() - flow.start).as_ps() as f64);
            times.sum::<f64>() / output.flows.len() as f64
        };
        assert_close(mean(&exact), mean(&fast), 0.02);
    }
}

#[test]
fn flows_of_persistent_connections_go_on_after_a_shortened_one() {
    let text = |forward: &str| {
        format!(
            r#"
        {forward}
        [fabric]
        topology = "single-switch"
        hosts = 4
        rate = "100 Gbps"
        delay = "1 us"
        [traffic]
        pattern = "pairs"
        pairs = 3
        sizes = "fixed 50 MB"
        messages = 4
        persistent_connections = true
    "#
        )
    };
    for transport in ["irn", "roce"] {
        let run = |forward| outputs(&scenario(&text(forward), &[transport], "").unwrap(), 1).remove(0);
        let (exact, fast) = (run(""), run("fast_forward = 0.01"));
        assert_eq!(fast.status, RunStatus::Completed);
        assert!(skipped(&fast).skips >= 4, "{:?}", fast.fast_forward);
        assert_close(exact.end.as_ps() as f64, fast.end.as_ps() as f64, 0.01);
        assert_eq!(fast.totals.dropped, 0);
    }
}

#[test]
fn short_flows_that_come_and_go_are_simulated_whole() {
    let text = r#"
        fast_forward = 0.01
        [fabric]
        topology = "fat-tree"
        k = 4
        rate = "100 Gbps"
        delay = "1 us"
        [traffic]
        pattern = "poisson"
        load = 0.6
        sizes = "irn-heavy-tailed"
        flows = 1000
    "#;
    let fast = outputs(&scenario(text, &["irn"], "").unwrap(), 1).remove(0);
    let exact = outputs(&scenario(&text.replace("fast_forward = 0.01", ""), &["irn"], "").unwrap(), 1).remove(0);
    assert_eq!(skipped(&fast).skips, 0);
    assert!(fast.flows.iter().eq(exact.flows.iter()), "nothing was skipped, so nothing differs");
    assert!(fast.warnings.iter().any(|warning| warning.contains("skipped nothing")), "{:?}", fast.warnings);
}

#[test]
fn what_cannot_be_skipped_is_refused() {
    let base = r#"
        fast_forward = 0.01
        [fabric]
        topology = "single-switch"
        hosts = 4
        rate = "100 Gbps"
        delay = "1 us"
        [traffic]
        pattern = "permutation"
        sizes = "fixed 1 MB"
        repeats = 1
        interval = "1 ms"
    "#;
    let error = |text: &str, transport: &str, keys: &str| {
        let scenario = read_scenario(&scenario_text(text, transport, keys), Path::new("")).unwrap();
        let failed = resolve(&Catalogue::standard(), &scenario.runs[0]).map(|_| ());
        failed.unwrap_err().to_string()
    };
    for (text, transport, keys, why) in [
        (base.to_string(), "ndp", "", "transport \"ndp\" sends messages"),
        (base.to_string(), "tcp", "", "has costs of the host"),
        (
            base.replace("fast_forward", "fidelity = \"flow\"\nfast_forward"),
            "irn",
            "",
            "fidelity = \"flow\" has no packets",
        ),
        (base.replace("delay", "loss = 0.001\ndelay"), "irn", "", "links lose packets at random"),
        (
            format!("{base}\n[watch]\ninterval = \"10 us\"\npauses = true"),
            "roce",
            "pfc = true",
            "`pauses` records every pause",
        ),
        (
            base.replace(
                "pattern = \"permutation\"",
                "pattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"1 MB\"",
            )
            .replace("sizes = \"fixed 1 MB\"", "")
            .replace("interval = \"1 ms\"", ""),
            "irn",
            "",
            "a program starts the flows of traffic",
        ),
    ] {
        let error = error(&text, transport, keys);
        assert!(error.contains(why) && error.contains("leave `fast_forward` out"), "{error}");
    }
    let text = base.replace("0.01", "0.2");
    let error = read_scenario(&scenario_text(&text, "irn", ""), Path::new("")).unwrap_err();
    assert!(error.to_string().contains("fast_forward"), "{error}");
}

fn scenario_text(text: &str, transport: &str, keys: &str) -> String {
    format!("{text}\n[[run]]\nname = \"run\"\ntransport = \"{transport}\"\n{keys}\n")
}
