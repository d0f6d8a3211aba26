//! Study of RoGUE: RDMA over lossy Ethernet with commodity NICs, and with congestion control in host software. The
//! compared statements come from a public talk. Its evaluation has 16 hosts with links of 10 Gbps on one switch.

use super::figures::{Chart, Pick};
use super::measured::{Case, Measured, divide, largest};
use super::metric::{Metric, fairness};
use super::verdict::{Claim, Row, Sample, Unit};
use super::{Experiment, Source, Study, scenarios};

/// Definition of the study: its scenario files, experiments and remarks.
pub static STUDY: Study = Study {
    name: "rogue",
    title: "RoGUE: RDMA over Generic Unconverged Ethernet",
    files: scenarios!["rogue", "rpc.toml", "rpc.cdf", "loss.toml", "sharing.toml", "sharing.csv", "cpu.toml"],
    experiments: EXPERIMENTS,
    exact: &[],
    remarks: &[
        "The source gives axes and words, and few numbers. \"Competitive\" is read as at most 1.25 times the baseline, and \"fair\" \
         as a fairness index (Jain) of at least 0.9. RoGUE's thresholds and constants are not stated: those of `cc = \"rogue\"` are \
         a reconstruction.",
        "DCTCP runs in the TCP of a kernel and RoGUE above a NIC, both with declared latencies and CPU costs (`rnic list transports`). \
         RoCE has neither: its completion times lack the latencies of doorbell, DMA and completion.",
        "The source does not say how RPCs are assigned to queue pairs. \"RoGUE\" has one channel for all RPCs between two hosts, \
         \"RoGUE, small apart\" a second one for those of 1 KB.",
        "The source says that RoGUE supports UC, and neither how it recovers losses over UC nor which service its experiments \
         use; the CPU figure alone names RC. \"RoGUE\" is over RC, and the rows over UC compare with the same statements. Our \
         recovery over UC is a reconstruction.",
        "The client of a Read is the host that receives the data. A NIC serves Reads without its host's software, so the server's \
         CPU time is 0 here.",
    ],
};

const RPC: &str = "rpc.toml";
const LOSS: &str = "loss.toml";
const SHARING: &str = "sharing.toml";
const CPU: &str = "cpu.toml";
/// Settings that `--quick` changes.
const FEW: &[(&str, &str)] = &[("traffic.flows", "300"), ("traffic.warmup", "30")];
const LOADS: [&str; 4] = ["0.1", "0.25", "0.5", "0.75"];
/// Largest ratio to a baseline that counts as competitive.
const COMPETITIVE: f64 = 1.25;
/// Smallest fairness index that counts as fair.
const FAIR: f64 = 0.9;
/// Time between two flows that join, in microseconds.
const PHASE_US: f64 = 50_000.0;

const fn rogue(file: &'static str, point: &'static str) -> Case<'static> {
    Case { file, run: "RoGUE", cc: "rogue", point }
}
const fn apart(file: &'static str, point: &'static str) -> Case<'static> {
    Case { run: "RoGUE, small apart", ..rogue(file, point) }
}
const fn uc(file: &'static str, point: &'static str) -> Case<'static> {
    Case { run: "RoGUE over UC", ..rogue(file, point) }
}
const fn uc_apart(file: &'static str, point: &'static str) -> Case<'static> {
    Case { run: "RoGUE over UC, small apart", ..rogue(file, point) }
}
const fn roce(file: &'static str, point: &'static str) -> Case<'static> {
    Case { file, run: "RoCE", cc: "dcqcn", point }
}
const fn dctcp(file: &'static str, point: &'static str) -> Case<'static> {
    Case { file, run: "DCTCP", cc: "dctcp", point }
}

const fn picks(file: &'static str, point: &'static str) -> [Pick; 4] {
    [
        Pick { name: "RoGUE", case: rogue(file, point) },
        Pick { name: "RoGUE over UC", case: uc(file, point) },
        Pick { name: "RoCE + DCQCN", case: roce(file, point) },
        Pick { name: "DCTCP", case: dctcp(file, point) },
    ]
}

const LOADED: [Pick; 9] = [
    Pick { name: "RoGUE", case: rogue(RPC, "") },
    Pick { name: "RoGUE, small apart", case: apart(RPC, "") },
    Pick { name: "RoGUE over UC", case: uc(RPC, "") },
    Pick { name: "RoGUE over UC, small apart", case: uc_apart(RPC, "") },
    Pick { name: "RoGUE + PFC", case: rogue(RPC, "").run("RoGUE + PFC") },
    Pick { name: "RoCE + DCQCN", case: roce(RPC, "") },
    Pick { name: "RoCE + DCQCN + PFC", case: roce(RPC, "").run("RoCE + PFC") },
    Pick { name: "DCTCP", case: dctcp(RPC, "") },
    Pick { name: "DCTCP + PFC", case: dctcp(RPC, "").run("DCTCP + PFC") },
];
const LOSSY: [Pick; 4] = picks(LOSS, "");
const SHARED: [Pick; 4] = picks(SHARING, "");

/// Median completion time of the RPCs of 1 MB.
const LARGE: Metric = Metric::LONG_MEDIAN;
/// 90th percentile of the completion time of the RPCs of 1 KB.
const SMALL: Metric = Metric::tail(900);

const fn curve(axis: &'static str, picks: &'static [Pick], metric: Metric) -> Chart {
    Chart::Curves { axis, picks, metric, traffic: "" }
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "large",
        title: "(a) Median completion time of RPCs of 1 MB",
        seeds: 5,
        sources: &[Source::all(RPC).quick(FEW, &["0.1", "0.5"])],
        charts: &[curve("load", &LOADED, LARGE)],
        rows: large,
    },
    Experiment {
        name: "small",
        title: "(b) 90th percentile of the completion time of RPCs of 1 KB",
        seeds: 5,
        sources: &[Source::all(RPC).quick(FEW, &["0.1", "0.5"])],
        charts: &[curve("load", &LOADED, SMALL)],
        rows: small,
    },
    Experiment {
        name: "loss",
        title: "(a) and (b) over links that lose packets",
        seeds: 5,
        sources: &[Source::all(LOSS).quick(FEW, &["0.0", "1e-4", "1e-3"])],
        charts: &[curve("probability of loss", &LOSSY, LARGE), curve("probability of loss", &LOSSY, SMALL)],
        rows: lossy,
    },
    Experiment {
        name: "sharing",
        title: "(c) Five flows join and leave",
        seeds: 2,
        sources: &[Source::all(SHARING)],
        charts: &[Chart::Courses { picks: &SHARED, flows: &["flow 1", "flow 2", "flow 3", "flow 4", "flow 5"] }],
        rows: sharing,
    },
    Experiment {
        name: "cpu",
        title: "(d) CPU by declared costs",
        seeds: 2,
        sources: &[Source::all(CPU).quick(&[("limits.duration", "5 ms")], &[])],
        charts: &[],
        rows: cpu,
    },
];

/// The loads for which the experiment has results.
fn loads(m: &Measured<'_>) -> Vec<&'static str> {
    LOADS.into_iter().filter(|load| m.points(RPC).contains(load)).collect()
}

/// A row for each load: the ratio of RoGUE's metric to the metric of a baseline.
fn against(
    m: &Measured<'_>, (own, label): (fn(&'static str, &'static str) -> Case<'static>, &str),
    (base, name): (fn(&'static str) -> Case<'static>, &str), what: &str, metric: Metric,
) -> Vec<Row> {
    let row = |load| {
        let label = format!("{what} at load {load}: {label} / {name}");
        let claim = Claim::Within { low: 0.0, high: COMPETITIVE };
        Row::new(
            label,
            "competitive with RoCE + DCQCN",
            claim,
            Unit::Ratio,
            m.ratio(own(RPC, load), base(load), metric),
        )
    };
    loads(m).into_iter().map(row).collect()
}

/// A row that compares RoGUE's largest value over all loads with the end of the axis in the source's figure.
fn axis(m: &Measured<'_>, (own, name): Named, what: &str, stated: &str, metric: Metric, most: f64) -> Row {
    let of = |load| (format!("at load {load}"), m.values(own(RPC, load), metric));
    let (sample, at) = largest(loads(m).into_iter().map(of).collect());
    let label = format!("{what}: {name}, largest over the loads");
    Row::new(label, stated, Claim::AtMost(most), Unit::Microseconds, sample).note(at)
}

/// A function that returns the case of a scenario file at a load, and the name of this case in the table.
type Named = (fn(&'static str, &'static str) -> Case<'static>, &'static str);

/// RoGUE with one channel between two hosts, RoGUE with a second channel for small RPCs, and both over UC.
const ALL: [Named; 4] =
    [(rogue, "RoGUE"), (apart, "RoGUE, small apart"), (uc, "RoGUE over UC"), (uc_apart, "RoGUE over UC, small apart")];

fn rpcs(m: &Measured<'_>, what: &str, metric: Metric, (stated, most): (&str, f64)) -> Vec<Row> {
    let mut rows = Vec::new();
    for own in ALL {
        rows.push(axis(m, own, what, stated, metric, most));
        rows.extend(against(m, own, (|load| roce(RPC, load), "RoCE + DCQCN"), what, metric));
        rows.extend(against(m, own, (|load| roce(RPC, load).run("RoCE + PFC"), "RoCE + DCQCN + PFC"), what, metric));
    }
    rows
}

fn large(m: &Measured<'_>) -> Vec<Row> {
    rpcs(m, "median of 1 MB", LARGE, ("the axis ends at 7 ms", 7_000.0))
}

fn small(m: &Measured<'_>) -> Vec<Row> {
    let what = "90th percentile of 1 KB";
    let mut rows = rpcs(m, what, SMALL, ("the axis ends at 700 us", 700.0));
    for (own, name) in ALL {
        rows.extend(loads(m).into_iter().map(|load| {
            Row::new(
                format!("{what} at load {load}: DCTCP / {name}"),
                "far better than DCTCP",
                Claim::Above(1.0),
                Unit::Ratio,
                m.ratio(dctcp(RPC, load), own(RPC, load), SMALL),
            )
        }));
    }
    rows
}

/// Rows about lossy links, on which the source states nothing in numbers.
fn lossy(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for point in m.points(LOSS).into_iter().filter(|point| *point != "0.0") {
        for (name, of) in [
            ("RoGUE", rogue as fn(_, _) -> _),
            ("RoGUE, small apart", apart),
            ("RoGUE over UC", uc),
            ("RoCE + DCQCN", roce),
            ("DCTCP", dctcp),
        ] {
            for (what, metric) in [("median of 1 MB", LARGE), ("90th percentile of 1 KB", SMALL)] {
                let case: Case<'_> = of(LOSS, "0.0");
                let ratio = m.ratio(Case { point, ..case }, case, metric);
                let label = format!("{what}, {name}: loss of {point} / no loss");
                rows.push(Row::new(label, "nothing", Claim::Open, Unit::Ratio, ratio));
            }
        }
    }
    rows
}

/// First and last of the flows that are active in a phase of the experiment `sharing`.
fn active(phase: u64) -> (u64, u64) {
    (phase.saturating_sub(4), phase.min(4))
}

/// Jain's fairness index of the active flows in the second half of a phase, in which they have had time to converge.
fn fairness_in(phase: u64) -> Metric {
    Metric::numbered(
        phase,
        |_| "fairness index".to_string(),
        |result, phase| {
            let (first, last) = active(phase);
            let start_us = PHASE_US * phase as f64;
            fairness(result, first..=last, start_us + PHASE_US / 2.0, start_us + PHASE_US)
        },
    )
}

fn sharing(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, case) in [
        ("RoGUE", rogue(SHARING, "")),
        ("RoGUE over UC", uc(SHARING, "")),
        ("RoCE + DCQCN", roce(SHARING, "")),
        ("DCTCP", dctcp(SHARING, "")),
    ] {
        for phase in 1..8 {
            let (first, last) = active(phase);
            let sample = m.values(case, fairness_in(phase));
            let label = format!("{name}: fairness index of flows {} to {}, phase {}", first + 1, last + 1, phase + 1);
            let (stated, claim) = match name {
                "RoGUE" | "RoGUE over UC" => {
                    ("fair shares when flows join and leave", Claim::Within { low: FAIR, high: 1.0 })
                }
                _ => ("nothing", Claim::Open),
            };
            rows.push(Row::new(label, stated, claim, Unit::Ratio, sample));
        }
    }
    rows
}

/// Maximum difference that counts as little, as a share of a core. The paper's axis ends at 60 %.
const LITTLE: f64 = 0.05;
/// Rate of payload, in Gbps, for which the source states the CPU time.
const GBPS: f64 = 10.0;

/// CPU of one end for [`GBPS`] of payload, as a share of a core, by declared costs.
fn share(m: &Measured<'_>, run: &'static str, cc: &'static str, cpu: Metric) -> Sample {
    let case = Case { file: CPU, run, cc, point: "" };
    let delivered = m.values(case, Metric::DELIVERED_GBPS)?;
    Ok(divide(m.values(case, cpu)?, &delivered)?.into_iter().map(|x| x * GBPS).collect())
}

fn less(above: Sample, below: Sample) -> Sample {
    Ok(above?.into_iter().zip(below?).map(|(above, below)| above - below).collect())
}

fn cpu_row(what: String, stated: &str, claim: Claim, unit: Unit, sample: Sample) -> Row {
    Row::new(what, stated, claim, unit, sample).note("by the declared costs")
}

fn cpu(m: &Measured<'_>) -> Vec<Row> {
    let sending = |run, cc| share(m, run, cc, Metric::sending_cpu(1));
    let percent = |what: String, stated: &str, claim, sample| cpu_row(what, stated, claim, Unit::Percent, sample);
    let below = |most: f64| Claim::Within { low: 0.0, high: most };
    let of = |run| sending(run, "rogue");
    let mut rows = vec![
        percent("RoGUE, verbs of 1 MB, at 10 Gbps".into(), "below 10 % of a core", below(0.1), of("RoGUE")),
        percent(
            "RoGUE, verbs of 1 KB, at 10 Gbps".into(),
            "below 20 % of a core",
            below(0.2),
            of("RoGUE, verbs of 1 KB"),
        ),
        percent(
            "verbs of 1 MB: RoGUE's share of a core above that of plain verbs".into(),
            "a little above RoCE",
            below(LITTLE),
            less(of("RoGUE"), sending("verbs", "none")),
        ),
        cpu_row(
            "verbs of 1 MB: DCTCP / RoGUE".into(),
            "far below DCTCP",
            Claim::Within { low: 1.0, high: f64::INFINITY },
            Unit::Ratio,
            sending("DCTCP", "dctcp").and_then(|tcp| divide(tcp, &of("RoGUE")?)),
        ),
        percent("DCTCP, 1 MB, at 10 Gbps".into(), "the axis ends at 60 %", below(0.6), sending("DCTCP", "dctcp")),
    ];
    rows.extend(reads(m));
    for (run, chunk) in
        [("RoGUE, 4 KB", "4 KB"), ("RoGUE, 16 KB", "16 KB"), ("RoGUE, 256 KB", "256 KB"), ("RoGUE, 1 MB", "1 MB")]
    {
        rows.push(percent(format!("RoGUE, verbs of 1 MB in chunks of {chunk}"), "nothing", Claim::Open, of(run)));
    }
    let each = "RoGUE, verbs of 1 KB, each with a completion";
    rows.push(percent(each.into(), "nothing", Claim::Open, of(each)));
    for (run, what) in [("RoGUE over UC", "verbs of 1 MB"), ("RoGUE over UC, verbs of 1 KB", "verbs of 1 KB")] {
        for (end, metric) in [("sender", Metric::sending_cpu(1)), ("receiver", Metric::receiving_cpu(1))] {
            let sample = share(m, run, "rogue", metric);
            rows.push(percent(format!("RoGUE over UC, {what}, {end}"), "nothing", Claim::Open, sample));
        }
    }
    rows
}

/// Rows about Reads: the source's figure has the client's and the server's CPU for RC Reads.
fn reads(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (end, metric) in [("client", Metric::receiving_cpu(1)), ("server", Metric::sending_cpu(1))] {
        let of = |run, cc| share(m, run, cc, metric);
        let (rogue, verbs, tcp) =
            (|| of("RoGUE, Reads", "rogue"), || of("verbs, Reads", "none"), || of("DCTCP", "dctcp"));
        let axis = Claim::Within { low: 0.0, high: 0.6 };
        let label = |what: &str| format!("Reads of 1 MB, {end}: {what}");
        for (name, sample) in [("RoGUE", rogue()), ("RoCE", verbs()), ("DCTCP", tcp())] {
            rows.push(cpu_row(label(name), "the axis ends at 60 %", axis, Unit::Percent, sample));
        }
        let little = Claim::Within { low: 0.0, high: LITTLE };
        let (above, below) = (less(rogue(), verbs()), less(tcp(), rogue()));
        rows.push(cpu_row(label("RoGUE less RoCE"), "a little above RoCE", little, Unit::Percent, above));
        rows.push(cpu_row(label("DCTCP less RoGUE"), "far below DCTCP", Claim::Above(0.0), Unit::Percent, below));
    }
    rows
}
