//! Study of our own: does training need PFC? Collective operations and training steps on accelerators with NICs of
//! 400 Gbps, over transports that need a lossless fabric and over transports that do not.

use super::figures::{Chart, Pick};
use super::measured::{Case, Measured, each};
use super::metric::Metric;
use super::verdict::{Claim, Row, Unit};
use super::{Experiment, Source, Study, scenarios};

/// Definition of the study: its scenario files, experiments and remarks.
pub static STUDY: Study = Study {
    name: "ai",
    title: "Does training need PFC?",
    files: scenarios![
        "ai",
        "study-all-reduce.toml",
        "study-all-reduce-failed.toml",
        "study-all-reduce-slow.toml",
        "study-all-reduce-straggler.toml",
        "study-all-to-all.toml",
        "study-all-to-all-failed.toml",
        "study-all-to-all-slow.toml",
        "study-all-to-all-straggler.toml",
        "study-dense.toml",
        "study-dense-failed.toml",
        "study-dense-slow.toml",
        "study-experts.toml",
        "study-experts-failed.toml",
        "study-experts-slow.toml",
        "study-anchors.toml",
    ],
    experiments: EXPERIMENTS,
    exact: &[],
    remarks: &[
        "This is a study of our own, not the reproduction of a paper: all rows but those of the anchors are open, and get no \
         verdict. The anchors are bus bandwidths that the documentation of SimAI publishes; its fabrics, latencies and \
         algorithms are not ours.",
        "Retransmission timers run in all runs, also with PFC.",
    ],
};

/// The compared transports: (name of the run, congestion control). A further transport is one line here, and its
/// `[[run]]` in `study-all-to-all.toml`, which the other files of the study extend.
const TRANSPORTS: [(&str, &str); 5] = [
    ("RoCE + PFC + DCQCN", "dcqcn"),
    ("RoCE + PFC", "none"),
    ("IRN", "none"),
    ("IRN, sprayed", "none"),
    ("multipath", "none"),
];

/// The run with which the others are compared.
const BASE: (&str, &str) = TRANSPORTS[0];

/// Conditions: (name, what the name of a workload's file ends with, point of the sweep).
const CONDITIONS: [(&str, &str, &str); 6] = [
    ("no loss", ".toml", "0.0"),
    ("0.01 % loss", ".toml", "1e-4"),
    ("0.1 % loss", ".toml", "1e-3"),
    ("failed link", "-failed.toml", ""),
    ("slow link", "-slow.toml", ""),
    ("straggler", "-straggler.toml", ""),
];

const fn pick(file: &'static str, (name, cc): (&'static str, &'static str), point: &'static str) -> Pick {
    Pick { name, case: Case { file, run: name, cc, point } }
}

/// The runs of a file at a point of the sweep over losses; at an empty `point`, at all points.
const fn picks(file: &'static str, point: &'static str) -> [Pick; TRANSPORTS.len()] {
    let mut picks = [pick(file, BASE, point); TRANSPORTS.len()];
    let mut index = 0;
    while index < TRANSPORTS.len() {
        picks[index] = pick(file, TRANSPORTS[index], point);
        index += 1;
    }
    picks
}

const ALL_REDUCE: [Pick; TRANSPORTS.len()] = picks("study-all-reduce.toml", "0.0");
const ALL_REDUCE_LOSS: [Pick; TRANSPORTS.len()] = picks("study-all-reduce.toml", "");
const ALL_TO_ALL: [Pick; TRANSPORTS.len()] = picks("study-all-to-all.toml", "0.0");
const ALL_TO_ALL_LOSS: [Pick; TRANSPORTS.len()] = picks("study-all-to-all.toml", "");
const DENSE: [Pick; TRANSPORTS.len()] = picks("study-dense.toml", "0.0");
const DENSE_LOSS: [Pick; TRANSPORTS.len()] = picks("study-dense.toml", "");
const EXPERTS: [Pick; TRANSPORTS.len()] = picks("study-experts.toml", "0.0");
const EXPERTS_LOSS: [Pick; TRANSPORTS.len()] = picks("study-experts.toml", "");

/// Bars of the time, and of the part that a better network could remove.
const BARS: &[(&str, Metric)] = &[("time", Metric::STEP_TIME), ("beyond an empty fabric", Metric::EXCESS)];

/// Settings of `--quick` for collective operations: 16 ranks and 4 MB.
const QUICK_COLLECTIVE: &[(&str, &str)] =
    &[("fabric.hosts_per_leaf", "4"), ("fabric.spines", "4"), ("traffic.size", "4 MB")];
/// Settings of `--quick` for training: short sequences and few layers.
const QUICK_DENSE: &[(&str, &str)] =
    &[("traffic.layers", "2"), ("traffic.sequence", "64"), ("traffic.vocabulary", "100"), ("traffic.hidden", "512")];
const QUICK_EXPERTS: &[(&str, &str)] =
    &[("traffic.layers", "1"), ("traffic.sequence", "64"), ("traffic.feed_forward", "256"), ("traffic.hidden", "512")];

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "all-reduce",
        title: "All-reduce of 64 MB in a ring among 64 ranks",
        seeds: 3,
        sources: &[
            Source::all("study-all-reduce.toml").quick(QUICK_COLLECTIVE, &[]),
            Source::all("study-all-reduce-failed.toml").quick(QUICK_COLLECTIVE, &[]),
            Source::all("study-all-reduce-slow.toml").quick(QUICK_COLLECTIVE, &[]),
            Source::all("study-all-reduce-straggler.toml").quick(QUICK_COLLECTIVE, &[]),
        ],
        charts: &[
            Chart::Spread { title: "Time of an all-reduce, us", groups: &ALL_REDUCE, bars: BARS, traffic: "" },
            Chart::Curves { axis: "loss on a link", picks: &ALL_REDUCE_LOSS, metric: Metric::STEP_TIME, traffic: "" },
        ],
        rows: |m| rows(m, "study-all-reduce"),
    },
    Experiment {
        name: "all-to-all",
        title: "All-to-all of 64 MB among 64 ranks",
        seeds: 3,
        sources: &[
            Source::all("study-all-to-all.toml").quick(QUICK_COLLECTIVE, &[]),
            Source::all("study-all-to-all-failed.toml").quick(QUICK_COLLECTIVE, &[]),
            Source::all("study-all-to-all-slow.toml").quick(QUICK_COLLECTIVE, &[]),
            Source::all("study-all-to-all-straggler.toml").quick(QUICK_COLLECTIVE, &[]),
        ],
        charts: &[
            Chart::Spread { title: "Time of an all-to-all, us", groups: &ALL_TO_ALL, bars: BARS, traffic: "" },
            Chart::Curves { axis: "loss on a link", picks: &ALL_TO_ALL_LOSS, metric: Metric::STEP_TIME, traffic: "" },
        ],
        rows: |m| rows(m, "study-all-to-all"),
    },
    Experiment {
        name: "dense",
        title: "A training step of a dense model on 64 ranks",
        seeds: 3,
        sources: &[
            Source::all("study-dense.toml").quick(QUICK_DENSE, &[]),
            Source::all("study-dense-failed.toml").quick(QUICK_DENSE, &[]),
            Source::all("study-dense-slow.toml").quick(QUICK_DENSE, &[]),
        ],
        charts: &[
            Chart::Spread { title: "Time of a step, us", groups: &DENSE, bars: BARS, traffic: "" },
            Chart::Curves { axis: "loss on a link", picks: &DENSE_LOSS, metric: Metric::STEP_TIME, traffic: "" },
        ],
        rows: |m| rows(m, "study-dense"),
    },
    Experiment {
        name: "experts",
        title: "A training step of a mixture of experts on 64 ranks",
        seeds: 3,
        sources: &[
            Source::all("study-experts.toml").quick(QUICK_EXPERTS, &[]),
            Source::all("study-experts-failed.toml").quick(QUICK_EXPERTS, &[]),
            Source::all("study-experts-slow.toml").quick(QUICK_EXPERTS, &[]),
        ],
        charts: &[
            Chart::Spread { title: "Time of a step, us", groups: &EXPERTS, bars: BARS, traffic: "" },
            Chart::Curves { axis: "loss on a link", picks: &EXPERTS_LOSS, metric: Metric::STEP_TIME, traffic: "" },
        ],
        rows: |m| rows(m, "study-experts"),
    },
    Experiment {
        name: "anchors",
        title: "Bus bandwidth of an all-reduce among 32 ranks, next to SimAI's",
        seeds: 2,
        sources: &[Source::all("study-anchors.toml").quick(&[], &["16 MB"])],
        charts: &[],
        rows: anchors,
    },
];

/// Rows of a workload: for each condition and transport, the time and its ratio to RoCE with PFC and DCQCN under the
/// same condition; without loss also the part of the time that a better network could remove.
fn rows(m: &Measured<'_>, workload: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let files = STUDY.files.iter().map(|(name, _)| *name);
    for (condition, ending, point) in CONDITIONS {
        let name = format!("{workload}{ending}");
        let Some(file) = files.clone().find(|file| *file == name) else { continue };
        let case = |(run, cc)| Case { file, run, cc, point };
        for transport in TRANSPORTS {
            let label = |what: &str| format!("{condition}, {}: {what}", transport.0);
            let open = |what: &str, unit, sample| Row::new(label(what), "", Claim::Open, unit, sample);
            let time = m.values(case(transport), Metric::STEP_TIME);
            rows.push(open("time", Unit::Microseconds, time));
            if transport != BASE {
                let ratio = m.ratio(case(transport), case(BASE), Metric::STEP_TIME);
                rows.push(open("time / RoCE + PFC + DCQCN", Unit::Ratio, ratio));
            }
            if point == "0.0" {
                let excess = m.values(case(transport), Metric::EXCESS);
                rows.push(open("time beyond an empty fabric", Unit::Microseconds, excess));
            }
        }
    }
    rows
}

/// SimAI's published bus bandwidths of an all-reduce among 32 H100 with NICs of 400 Gbps, rail-optimised, in a ring
/// with PXN (aliyun/SimAI, `docs/Tutorial.md`), in 10^9 bytes per second.
const SIMAI: [(&str, f64); 3] = [("16 MB", 141.8), ("64 MB", 160.6), ("256 MB", 165.7)];

fn anchors(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (size, stated) in SIMAI {
        if !m.points("study-anchors.toml").contains(&size) {
            continue;
        }
        for (run, cc) in [("RoCE + PFC + DCQCN", "dcqcn"), ("IRN", "none")] {
            let case = Case { file: "study-anchors.toml", run, cc, point: size };
            // 10^9 bytes per second, as Gbps.
            let sample = each(m.values(case, Metric::BUS_BANDWIDTH), |bandwidth| 8.0 * bandwidth);
            let label = format!("{size}, {run}: bus bandwidth");
            let text = format!("{stated} GB/s");
            rows.push(Row::new(label, &text, Claim::size(8.0 * stated, 0.8), Unit::Gbps, sample));
        }
    }
    rows
}
