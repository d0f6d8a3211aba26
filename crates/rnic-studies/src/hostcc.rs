//! Study of transports in host software at 400 Gbps: a permutation on 1,024 hosts, goodput against the loss rate, and
//! an incast next to a permutation. The compared statements come from UCCL-Tran (OSDI 2026) and from its authors'
//! simulations.

use super::figures::{Chart, Pick};
use super::measured::{Case, Measured, each};
use super::metric::Metric;
use super::verdict::{Claim, Row, Sample, Unit};
use super::{Experiment, Source, Study, scenarios};

/// Definition of the study: its scenario files, experiments and remarks.
pub static STUDY: Study = Study {
    name: "hostcc",
    title: "Transports in host software at 400 Gbps",
    files: scenarios![
        "hostcc",
        "permutation.toml",
        "loss.toml",
        "incast.toml",
        "marks.toml",
        "trim.toml",
        "spread.toml"
    ],
    experiments: EXPERIMENTS,
    exact: &[],
    remarks: &[
        "The published times of the permutation come from another simulator, whose delays and buffers are not stated. A time of \
         the paper is met within 10 %. The published goodputs under loss are those of hardware on a testbed.",
        "CPU time of software is declared: 265 ns for each request to the NIC, 50 ns for each completion. It is measured on our \
         test machine, not on the paper's.",
    ],
};

const PERMUTATION: &str = "permutation.toml";
const LOSS: &str = "loss.toml";
const INCAST: &str = "incast.toml";

const fn case(file: &'static str, run: &'static str, cc: &'static str) -> Case<'static> {
    Case { file, run, cc, point: "" }
}

/// A run with its name in the table.
const fn pick(file: &'static str, run: &'static str, cc: &'static str) -> Pick {
    Pick { name: run, case: case(file, run, cc) }
}

const LOSSY: [Pick; 6] = [
    pick(LOSS, "go-back-N", "none"),
    pick(LOSS, "IRN", "none"),
    pick(LOSS, "RoGUE", "rogue"),
    pick(LOSS, "multipath, credit", "none"),
    pick(LOSS, "multipath, CUBIC", "cubic"),
    pick(LOSS, "multipath, RoGUE's response", "rogue"),
];

const PERMUTED: [Pick; 11] = [
    pick(PERMUTATION, "RoCE + DCQCN", "dcqcn"),
    pick(PERMUTATION, "NDP", "none"),
    pick(PERMUTATION, "RoGUE", "rogue"),
    pick(PERMUTATION, "multipath, one core", "none"),
    pick(PERMUTATION, "multipath", "none"),
    pick(PERMUTATION, "multipath, CUBIC", "cubic"),
    pick(PERMUTATION, "multipath, Swift", "swift"),
    pick(PERMUTATION, "multipath, RoGUE's response", "rogue"),
    pick(PERMUTATION, "multipath, credit", "none"),
    pick(PERMUTATION, "multipath, round robin", "none"),
    pick(PERMUTATION, "multipath, one path", "none"),
];

const MIXED: [Pick; 4] = [
    pick(INCAST, "RoCE + DCQCN", "dcqcn"),
    pick(INCAST, "multipath, CUBIC", "cubic"),
    pick(INCAST, "multipath, RoGUE's response", "rogue"),
    pick(INCAST, "multipath, credit", "none"),
];

/// Bars of the completion times of permutations.
const TIMES: &[(&str, Metric)] = &[("mean", Metric::FCT), ("maximum", Metric::FCT_MAX)];

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "permutation",
        title: "64 MB from every host to another one",
        seeds: 3,
        sources: &[Source::all(PERMUTATION).quick(&[("fabric.k", "4"), ("traffic.sizes", "\"fixed 4 MB\"")], &[])],
        charts: &[Chart::Spread { title: "Completion time, us", groups: &PERMUTED, bars: TIMES, traffic: "" }],
        rows: permutation,
    },
    Experiment {
        name: "loss",
        title: "Goodput against loss",
        seeds: 3,
        sources: &[Source::all(LOSS).quick(&[("traffic.sizes", "\"fixed 8 MB\"")], &["0.0", "1.22e-4", "1.953e-3"])],
        charts: &[Chart::Curves { axis: "loss on a link", picks: &LOSSY, metric: Metric::POOLED_GBPS, traffic: "" }],
        rows: loss,
    },
    Experiment {
        name: "incast",
        title: "An incast beside a permutation",
        seeds: 3,
        sources: &[Source::all(INCAST)
            .quick(&[("fabric.k", "4"), ("traffic.permutation.repeats", "10"), ("traffic.incast.senders", "12")], &[])],
        charts: &[Chart::Spread {
            title: "Completion time of the permutation, us",
            groups: &MIXED,
            bars: &[("99th percentile", Metric::FCT_P99), ("99.9th percentile", Metric::FCT_P999)],
            traffic: "permutation",
        }],
        rows: incast,
    },
    Experiment {
        name: "nic",
        title: "What authors of such transports ask NICs for: CE marks, trimming, entropy per request",
        seeds: 2,
        sources: &[
            Source::all("marks.toml").quick(&[("traffic.repeats", "5")], &[]),
            Source::all("trim.toml").quick(&[("traffic.repeats", "5")], &[]),
            Source::all("spread.toml").quick(&[("traffic.sizes", "\"fixed 4 MB\"")], &[]),
        ],
        charts: &[Chart::Spread {
            title: "Completion time of an incast's messages, us",
            groups: &ASKED,
            bars: &[("mean", Metric::FCT), ("99th percentile", Metric::FCT_P99)],
            traffic: "",
        }],
        rows: asked,
    },
];

const ASKED: [Pick; 9] = [
    pick("marks.toml", "CUBIC", "cubic"),
    pick("marks.toml", "RoGUE's response", "rogue"),
    pick("marks.toml", "credit", "none"),
    pick("marks.toml", "DCTCP with marks", "dctcp"),
    pick("trim.toml", "CUBIC, drops", "cubic"),
    pick("trim.toml", "CUBIC, trimming unseen", "cubic"),
    pick("trim.toml", "CUBIC, trimming seen", "cubic"),
    pick("trim.toml", "credit, drops", "none"),
    pick("trim.toml", "credit, trimming seen", "none"),
];
const ENTROPY: [&str; 4] =
    ["32 queue pairs", "256 queue pairs", "one queue pair, 32 entropies", "one queue pair, 256 entropies"];

fn asked(m: &Measured<'_>) -> Vec<Row> {
    let row = |label: String, unit, sample| Row::new(label, "nothing", Claim::Open, unit, sample);
    let mut rows = Vec::new();
    for Pick { name, case } in ASKED {
        for (what, metric, unit) in [
            ("goodput", Metric::DELIVERED_GBPS, Unit::Gbps),
            ("99th percentile", Metric::FCT_P99, Unit::Microseconds),
            ("queue, 95th percentile", Metric::QUEUE_HIGH, Unit::Kilobytes),
        ] {
            rows.push(row(format!("incast, {name}: {what}"), unit, m.values(case, metric)));
        }
    }
    for run in ENTROPY {
        let sample = m.values(case("spread.toml", run, "cubic"), Metric::FCT_MAX);
        rows.push(row(format!("permutation of 16 MB, {run}: last host"), Unit::Microseconds, sample));
    }
    rows
}

fn permutation(m: &Measured<'_>) -> Vec<Row> {
    let time = |run, cc| m.values(case(PERMUTATION, run, cc), Metric::FCT_MAX);
    let row = |run: &str, stated: &str, claim: Claim, sample: Sample| {
        Row::new(format!("last host, {run}"), stated, claim, Unit::Microseconds, sample)
    };
    let mut rows = vec![
        row(
            "multipath, one core",
            "1.71 ms (chunks of 32 KB by round-trip time, at one core's pace)",
            Claim::size(1_710.0, 10.0),
            time("multipath, one core", "none"),
        ),
        row(
            "multipath",
            "1.47 ms (chunks of 32 KB by round-trip time)",
            Claim::size(1_470.0, 10.0),
            time("multipath", "none"),
        ),
        row(
            "multipath, credit",
            "1.43 ms (receiver control)",
            Claim::size(1_430.0, 10.0),
            time("multipath, credit", "none"),
        ),
        row(
            "multipath, CUBIC",
            "1.45 ms (sender control, per packet)",
            Claim::size(1_450.0, 10.0),
            time("multipath, CUBIC", "cubic"),
        ),
        row("NDP", "1.43 ms (receiver control, per packet)", Claim::size(1_430.0, 10.0), time("NDP", "none")),
    ];
    for (run, cc) in [
        ("multipath, Swift", "swift"),
        ("multipath, RoGUE's response", "rogue"),
        ("multipath, round robin", "none"),
        ("multipath, one path", "none"),
        ("RoGUE", "rogue"),
        ("RoCE + DCQCN", "dcqcn"),
    ] {
        rows.push(row(run, "nothing; alone, a message takes 1.28 ms", Claim::Open, time(run, cc)));
    }
    rows
}

/// Loss rates on a packet's path, as (point of the sweep, loss rate as a fraction).
const LOSSES: [(&str, &str); 5] = [
    ("7.63e-6", "1/65536"),
    ("3.05e-5", "1/16384"),
    ("1.22e-4", "1/4096"),
    ("4.88e-4", "1/1024"),
    ("1.953e-3", "1/256"),
];

/// The paper's statement about the share of goodput that is lost at a loss rate, for hardware or for the paper's
/// software.
fn stated(loss: &str, is_hardware: bool) -> (&'static str, Claim) {
    let within = |low, high| Claim::Within { low, high };
    match (loss, is_hardware) {
        ("1/16384" | "1/4096", true) => ("26 to 42 % (NICs)", within(0.26, 0.42)),
        ("1/1024" | "1/256", true) => ("59 to 76 % (NICs)", within(0.59, 0.76)),
        ("1/16384" | "1/4096", false) => ("about 1 %", Claim::size(0.01, 0.01)),
        ("1/1024" | "1/256", false) => ("6 to 30 %", within(0.06, 0.3)),
        _ => ("nothing", Claim::Open),
    }
}

fn loss(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let goodput = |case| m.values(case, Metric::POOLED_GBPS);
    for Pick { name, case } in LOSSY {
        let label = format!("{name}: goodput without loss");
        rows.push(Row::new(label, "nothing", Claim::Open, Unit::Gbps, goodput(Case { point: "0.0", ..case })));
        for (point, text) in LOSSES.into_iter().filter(|(point, _)| m.points(LOSS).contains(point)) {
            let ratio = m.ratio(Case { point, ..case }, Case { point: "0.0", ..case }, Metric::POOLED_GBPS);
            let (stated, claim) = match name {
                "go-back-N" => stated(text, true),
                "multipath, credit" => stated(text, false),
                _ => ("nothing", Claim::Open),
            };
            let label = format!("{name}: goodput lost at a loss of {text}");
            rows.push(Row::new(label, stated, claim, Unit::Percent, each(ratio, |ratio| 1.0 - ratio)));
        }
    }
    rows
}

fn incast(m: &Measured<'_>) -> Vec<Row> {
    const OF: &str = "permutation";
    let credit = case(INCAST, "multipath, credit", "none");
    let mut rows = Vec::new();
    for (metric, name, factor) in
        [(Metric::FCT_P99, "99th percentile", 4.5), (Metric::FCT_P999, "99.9th percentile", 4.88)]
    {
        for (run, cc) in
            [("multipath, CUBIC", "cubic"), ("multipath, RoGUE's response", "rogue"), ("RoCE + DCQCN", "dcqcn")]
        {
            let label = format!("{name} of the permutation: {run} / multipath, credit");
            let (stated, claim) = match cc {
                "cubic" => (format!("credit is {factor} times better"), Claim::effect(factor, 0.01, 1.0)),
                _ => ("nothing".to_string(), Claim::Open),
            };
            let ratio = m.ratio_of(case(INCAST, run, cc), credit, OF, metric);
            rows.push(Row::new(label, &stated, claim, Unit::Ratio, ratio));
        }
        let label = format!("{name} of the permutation: multipath, credit");
        rows.push(Row::new(label, "nothing", Claim::Open, Unit::Microseconds, m.values_of(credit, OF, metric)));
    }
    rows
}
