//! Synthetic results of runs for tests, small enough to compute their statistics by hand.

use super::report::figure::{
    Axis, Bar, BarGroup, Bars, Board, Figure, Line, Lines, Point, Reference, Scale, Unit, View,
};
use super::report::{Experiment, Study, Verdict, Within};
use super::summary::ScenarioSummary;
use rnic_fabric::config::{LinkSpec, TopologySpec};
use rnic_spec::RunRecord;
use rnic_spec::{FabricSetup, Limits, RunSpec, Scenario, SwitchSetup, Traffic, TrafficPattern, TransportSpec};
use rnic_spec::{FlowRecord, PortRecord, PriorityCounters, RunOutput, RunStatus, Totals};
use rnic_transport::{BitRate, Bytes, Time};

/// A measured flow that started at time 0 and took 10 us, which is twice its ideal time.
pub fn flow(id: u32, bytes: u64) -> FlowRecord {
    FlowRecord::sample(id, bytes)
}

/// Two runs of a scenario: `RoCE + PFC` with slowdowns 2, 4, 6 and 8, and `IRN` with half of each slowdown. Each run
/// has one request of two flows.
pub fn two_runs() -> (Scenario, Vec<RunRecord>) {
    let traffic = vec![source("background"), source("incast")];
    let runs = vec![run("RoCE + PFC", "roce", true, &traffic), run("IRN", "irn", false, &traffic)];
    let reports = vec![report(output(1)), report(output(2))];
    (scenario(runs), reports)
}

/// A sweep of [`two_runs`] over loads and seeds, the load varying slowest. All flows of a run have the slowdown that
/// `slowdown` returns for the name of the run in the scenario file, the load and the seed.
pub fn sweep_records(
    loads: &[&str], seeds: &[u64], slowdown: impl Fn(&str, &str, u64) -> f64,
) -> (Scenario, Vec<RunRecord>) {
    let (tiny, records) = two_runs();
    let (mut runs, mut reports) = (Vec::new(), Vec::new());
    let points = loads.iter().flat_map(|load| seeds.iter().map(move |seed| (*load, *seed)));
    for (load, seed) in points {
        for (run, record) in tiny.runs.iter().zip(&records) {
            let (mut run, mut record) = (run.clone(), record.clone());
            run.name = format!("{}, load={load}, seed={seed}", run.base);
            run.point = vec![("traffic.load".into(), load.into()), ("seed".into(), seed.to_string())];
            run.seed = seed;
            let slowdown = slowdown(&run.base, load, seed);
            for id in 0..record.output.flows.len() as u32 {
                record.output.flows.edit(id, |flow| {
                    let fct = Time::from_ps((flow.ideal.as_ps() as f64 * slowdown) as u64);
                    flow.finish = Some(flow.start + fct);
                });
            }
            runs.push(run);
            reports.push(record);
        }
    }
    (scenario(runs), reports)
}

/// The summary of [`sweep_records`].
pub fn sweep(loads: &[&str], seeds: &[u64], slowdown: impl Fn(&str, &str, u64) -> f64) -> ScenarioSummary {
    let (scenario, reports) = sweep_records(loads, seeds, slowdown);
    super::summarise(&scenario, &reports)
}

/// A scenario with one run, in which no flow ever started.
pub fn empty() -> (Scenario, Vec<RunRecord>) {
    let nothing = RunOutput { status: RunStatus::Completed, ..RunOutput::not_started(String::new()) };
    (scenario(vec![run("nothing", "irn", false, &[source("background")])]), vec![report(nothing)])
}

/// A scenario with the given runs.
pub fn scenario(runs: Vec<RunSpec>) -> Scenario {
    Scenario { title: "A tiny case".into(), name: "tiny".into(), seed: 7, runs }
}

/// A record of a run with the given output.
pub fn report(output: RunOutput) -> RunRecord {
    RunRecord { output, wall_s: 1.25, cpu_s: 1.5, peak_rss_bytes: 1 << 20 }
}

/// The output of a run whose flow completion times are divided by `faster`.
fn output(faster: u64) -> RunOutput {
    let timed = |id, bytes, start, fct: u64, ideal, request, traffic| FlowRecord {
        start: Time::from_us(start),
        finish: Some(Time::from_us(start + fct / faster)),
        ideal: Time::from_us(ideal),
        request,
        traffic,
        ..flow(id, bytes)
    };
    let flows = [
        timed(0, 1_000, 0, 10, 5, u32::MAX, 0),
        timed(1, 5_000, 1, 40, 10, u32::MAX, 0),
        FlowRecord { timeouts: 2, ..timed(2, 200_000, 100, 300, 50, 0, 1) },
        FlowRecord { retransmitted: 6, ..timed(3, 200_000, 110, 400, 50, 0, 1) },
        FlowRecord { measured: false, ..timed(4, 1_000, 120, 200, 5, u32::MAX, 0) },
    ];
    let end = Time::from_ps(600_000_001);
    RunOutput {
        status: RunStatus::Completed,
        offered: flows.len() as u64,
        truncated: None,
        flows: flows.into_iter().collect(),
        ports: ports(),
        totals: totals(),
        end,
        parameters: vec![("rate".into(), "40 Gbps".into()), ("buffer".into(), "240 KB".into())],
        warnings: vec!["the clock is fictional".into()],
        pauses: None,
        watchdog: Vec::new(),
        meshes: Vec::new(),
        collectives: Vec::new(),
        steps: Vec::new(),
        timeline: Default::default(),
        operations: Vec::new(),
        task_collectives: rnic_spec::TaskCollectives::default(),
        step_links: rnic_spec::StepLinks::default(),
        answered: Vec::new(),
        fidelity: Default::default(),
        fast_forward: None,
        samples: None,
    }
}

/// Three ports whose transmitters were sending for a half, a quarter and a quarter of the run.
fn ports() -> Vec<PortRecord> {
    let port = |node: &str, port, peer: &str, busy_us, drops, paused_ps| PortRecord {
        node: node.into(),
        port,
        peer: peer.into(),
        rate: BitRate::from_gbps(40),
        busy: Time::from_us(busy_us),
        priorities: vec![PriorityCounters {
            tx_packets: 300,
            tx_bytes: 318_600,
            drops,
            lost: 1,
            marked: 0,
            pause_sent: 2,
            pause_received: 3,
            paused_ps,
            queue_high_water: 231_003,
            trimmed: 0,
            returned: 0,
        }],
    };
    vec![port("h0", 0, "s0", 300, 0, 12_500_000), port("s0", 1, "h1", 150, 4, 0), port("s0", 2, "s1", 150, 1, 87_500)]
}

fn totals() -> Totals {
    Totals {
        data: 600,
        control: 20,
        retransmitted: 6,
        dropped: 5,
        dropped_data: 4,
        trimmed: 0,
        returned: 0,
        flooded: 0,
        probes: 0,
        lost: 1,
        marked: 2,
        notifications: 0,
        aborted: 0,
        hops: 1_200,
        delivered: 610,
        in_flight: 4,
        pause_frames: 3,
        paused_ps: 12_500_000,
        cpu_send_ps: 0,
        cpu_receive_ps: 0,
    }
}

/// A traffic source with the given name.
pub fn source(name: &str) -> Traffic {
    Traffic {
        name: name.into(),
        pattern: TrafficPattern::List { flows: [].into() },
        warmup: 0,
        cooldown: 0,
        start: Time::ZERO,
        priority: 0,
    }
}

/// The specification of a run on a small fabric.
pub fn run(name: &str, transport: &str, pfc: bool, traffic: &[Traffic]) -> RunSpec {
    let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 };
    RunSpec {
        name: name.into(),
        base: name.into(),
        point: Vec::new(),
        seed: 7,
        fabric: FabricSetup {
            topology: TopologySpec::SingleSwitch { hosts: 3 },
            link,
            links: Vec::new(),
            routes: Vec::new(),
            storms: Vec::new(),
            faults: Default::default(),
            watchdogs: Default::default(),
            meshes: Vec::new(),
            mtu: Bytes(1_000),
            frame_gap: Bytes(20),
            clocks: Default::default(),
            paths: None,
            flowlet_gap: None,
            switch: SwitchSetup::default(),
        },
        traffic: traffic.to_vec(),
        transport: transport_spec(transport, pfc),
        beside: Vec::new(),
        limits: Limits { duration: None, max_time: None, stall_time: Time::from_ms(1_000) },
        watch: None,
        fidelity: Default::default(),
        fidelity_quantum: Time::ZERO,
        fast_forward: 0.0,
    }
}

fn transport_spec(transport: &str, pfc: bool) -> TransportSpec {
    TransportSpec { pfc, ..TransportSpec::named(transport).expect("a built-in transport") }
}

/// A scenario of four runs with many synthetic flows, for a realistic report. One of the runs failed.
pub fn showcase() -> (Scenario, Vec<RunRecord>) {
    let traffic = vec![source("poisson")];
    let runs = vec![
        run("RoCE + PFC", "roce", true, &traffic),
        run("IRN", "irn", false, &traffic),
        run("IRN + PFC", "irn", true, &traffic),
        run("RoCE without PFC", "roce", false, &traffic),
    ];
    let mut reports: Vec<RunRecord> = [3.0, 1.0, 1.8, 6.0].map(|slow| report(showcase_output(slow))).into();
    reports[3].output.status =
        RunStatus::Failed("no flow progressed for 1 s of simulated time; flow 1203 (h4 to h17) waits".into());
    reports[3].output.flows.edit(1_203, |flow| flow.finish = None);
    (Scenario { title: "IRN and RoCE, default case".into(), ..scenario(runs) }, reports)
}

fn showcase_output(slow: f64) -> RunOutput {
    let sizes = [64u64, 400, 1_000, 1_000, 4_000, 7_000, 30_000, 120_000, 700_000, 2_400_000];
    // A multiplicative hash of the flow's id instead of a random generator.
    let noise = |i: u64| ((i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 + 1.0) / (1u64 << 24) as f64;
    let one = |i: u64| {
        let bytes = sizes[(noise(i + 7) * 10.0) as usize % 10] + (noise(i + 99) * 50.0) as u64;
        let ideal = Time::from_ns(12_000 + bytes / 5);
        let slowdown = 1.0 + slow * 0.6 * (-noise(i).ln()).powf(1.8);
        FlowRecord {
            start: Time::from_us(i),
            finish: Some(Time::from_us(i) + ideal.scale(slowdown)),
            ideal,
            ..flow(i as u32, bytes)
        }
    };
    let mut output = output(1);
    output.flows = (0..20_000).map(one).collect();
    output.offered = 20_000;
    output.end = Time::from_us(23_000);
    let port = |i: u64| PortRecord {
        node: format!("agg{}", i / 6),
        port: (i % 6) as u32,
        peer: format!("core{}", i % 9),
        busy: Time::from_us((noise(i) * 20_000.0) as u64),
        priorities: vec![PriorityCounters {
            drops: if slow < 1.5 { (noise(i) * 4_000.0) as u64 } else { 0 },
            paused_ps: if slow > 1.5 { (noise(i) * 9e9) as u64 } else { 0 },
            ..Default::default()
        }],
        ..output.ports[0].clone()
    };
    output.ports = (0..40).map(port).collect();
    output.parameters = [("topology", "fat-tree, k = 6"), ("rate", "40 Gbps"), ("buffer", "240 KB per input port")]
        .map(|(k, v)| (k.to_string(), v.to_string()))
        .into();
    output.parameters.push(("BDP cap".into(), if slow < 2.0 { "111 packets" } else { "none" }.into()));
    output.warnings.clear();
    output.totals = Totals {
        data: 3_961_204,
        control: 3_912_004,
        retransmitted: if slow < 1.5 { 341_022 } else { 0 },
        dropped_data: if slow < 1.5 { 337_310 } else { 0 },
        dropped: if slow < 1.5 { 338_310 } else { 0 },
        pause_frames: if slow > 1.5 { 48_211 } else { 0 },
        paused_ps: if slow > 1.5 { 912_345_678_000 } else { 0 },
        ..totals()
    };
    output
}

/// A study with every kind of figure, for tests and for inspection.
pub fn study() -> Study {
    let bar = |series, value: f64, half: f64| Bar {
        series,
        value: Some(value),
        interval: Some([value - half, value + half]),
        note: "mean of 5 seeds".into(),
        ..Bar::default()
    };
    let group = |name: &str, irn, roce, stated| BarGroup {
        name: name.into(),
        bars: vec![bar(0, irn, irn * 0.1), bar(1, roce, roce * 0.15)],
        stated,
    };
    let bars = Bars {
        title: "Ratios of the three metrics".into(),
        caption: "RoCE over IRN; the band is the range that the paper states".into(),
        unit: Unit::Factor,
        groups: vec![
            group("average slowdown", 2.0, 2.9, Some([2.8, 3.7])),
            group("average FCT", 1.7, 1.8, Some([2.8, 3.7])),
            group("99th percentile FCT", 1.6, 1.6, None),
        ],
        reference: Some(Reference { value: 1.0, name: "no difference".into() }),
    };
    let line = |series, base: f64| Line {
        series,
        points: [10.0, 20.0, 30.0, 40.0, 50.0]
            .map(|x| Point { interval: Some([base - x / 900.0, base + x / 700.0]), ..Point::at(x, base + x / 2_000.0) })
            .into(),
    };
    let lines = Lines {
        title: "Incast: request completion time".into(),
        caption: "ratio to RoCE + PFC; below 1 is better".into(),
        x: Axis { name: "Senders (fan-in)".into(), unit: Unit::Number, scale: Scale::Linear },
        y: Axis { name: "Ratio".into(), unit: Unit::Factor, scale: Scale::Linear },
        dots: true,
        views: vec![View { name: String::new(), lines: vec![line(0, 0.96), line(1, 1.02)] }],
        reference: Some(Reference { value: 1.0, name: "RoCE + PFC".into() }),
        stated: Some([0.975, 1.045]),
        ..Lines::default()
    };
    let verdict = |experiment: &str, metric: &str, stated: &str, measured: &str, within, note: &str| Verdict {
        experiment: experiment.into(),
        metric: metric.into(),
        stated: stated.into(),
        measured: measured.into(),
        within,
        note: note.into(),
    };
    let board = |figure| Board { series: vec!["IRN".into(), "IRN + PFC".into()], shown: 0, rows: vec![vec![figure]] };
    Study {
        neutral: false,
        title: "The IRN paper, reproduced".into(),
        command: "rnic reproduce irn --seeds 5".into(),
        version: "0.2.0".into(),
        facts: vec![("seeds".into(), "1 to 5".into())],
        introduction: vec!["Every experiment of the paper with `k = 6`, five seeds each.".into()],
        verdicts: vec![
            verdict(
                "Figure 1",
                "average slowdown",
                "2.8 to 3.7",
                "2.0 (1.7 to 2.4)",
                Within::Outside,
                "`nic_burst` matters",
            ),
            verdict("Figure 1", "average FCT", "2.8 to 3.7", "3.0", Within::Inside, ""),
            verdict("Figure 9", "request completion time", "within 4 %", "2.1 %", Within::Inside, ""),
            verdict("Elsewhere", "data dropped", "", "6.2 %", Within::NotStated, ""),
        ],
        experiments: vec![
            Experiment {
                name: "Figure 1".into(),
                title: "IRN and RoCE".into(),
                text: vec!["No congestion control, load 0.7.".into()],
                boards: vec![board(Figure::Bars(bars))],
            },
            Experiment {
                name: "Figure 9".into(),
                title: "Incast".into(),
                text: vec!["150 MB striped over 10 to 50 senders.".into()],
                boards: vec![board(Figure::Lines(lines))],
            },
        ],
    }
}
