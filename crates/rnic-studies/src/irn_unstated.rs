//! Study of settings that the IRN paper does not state: the variant of DCQCN (figures 4, 5, 6 and 10), and the incast
//! with cross traffic. `irn-arbitration` is the study of the turns of switches and NICs (figures 1 to 3).
//!
//! A row compares a claim of a figure with the measurement under one assumption. Its metric begins with the assumption,
//! so a page can show the rows as a table with a line for each assumption and a column for each figure.

use super::irn::{LITTLE, range};
use super::measured::{Case, Measured, each, largest};
use super::metric::{Metric, THREE};
use super::verdict::{Claim, Row, Sample, Unit};
use super::{Experiment, Source, Study, scenarios};

/// Definition of the study: its scenario files, experiments and remarks.
pub static STUDY: Study = Study {
    name: "irn-unstated",
    title: "IRN paper: variants of DCQCN, and of the incast with cross traffic",
    files: scenarios![
        "irn-unstated",
        "../irn/default.toml",
        "../irn/robustness.toml",
        "../irn/incast-cross.toml",
        "dcqcn.toml",
        "dcqcn-connectx.toml",
        "dcqcn-paper.toml",
        "dcqcn-marking.toml",
        "incast.toml",
        "incast-nic.toml",
    ],
    experiments: &[
        Experiment {
            name: "dcqcn",
            title: "Variants of DCQCN",
            seeds: 5,
            sources: &[Source::all(VARIANTS).quick(FEW, &[]), WITHOUT],
            charts: &[],
            rows: |m| dcqcn(m, VARIANTS),
        },
        Experiment {
            name: "dcqcn-connectx",
            title: "The profile `connectx` with single parameters of the DCQCN paper",
            seeds: 2,
            sources: &[Source::all(CONNECTX).quick(FEW, &[]), WITHOUT],
            charts: &[],
            rows: |m| dcqcn(m, CONNECTX),
        },
        Experiment {
            name: "dcqcn-paper",
            title: "DCQCN of the paper with single parameters of ConnectX",
            seeds: 2,
            sources: &[Source::all(PAPER).quick(FEW, &[]), WITHOUT],
            charts: &[],
            rows: |m| dcqcn(m, PAPER),
        },
        Experiment {
            name: "dcqcn-marking",
            title: "DCQCN with other ECN marking",
            seeds: 2,
            sources: &[Source::all(MARKING).quick(FEW, &[]), WITHOUT],
            charts: &[],
            rows: |m| dcqcn(m, MARKING),
        },
        Experiment {
            name: "incast",
            title: "Incast with cross traffic: its start and the length of the background traffic",
            seeds: 2,
            sources: &[Source::all(INCAST).quick(FEW_INCAST, &[])],
            charts: &[],
            rows: starts,
        },
        Experiment {
            name: "incast-nic",
            title: "Incast with cross traffic: other NICs and switches",
            seeds: 2,
            sources: &[Source::all(NICS).quick(FEW_BACKGROUND, &[])],
            charts: &[],
            rows: nics,
        },
    ],
    exact: &[],
    remarks: &[
        "The name of a row begins with the settings of its runs; all other settings are those of the study `irn`.",
    ],
};

const VARIANTS: &str = "dcqcn.toml";
const CONNECTX: &str = "dcqcn-connectx.toml";
const PAPER: &str = "dcqcn-paper.toml";
const MARKING: &str = "dcqcn-marking.toml";
const INCAST: &str = "incast.toml";
const NICS: &str = "incast-nic.toml";
/// Settings that `--quick` changes for the incast.
const FEW_BACKGROUND: &[(&str, &str)] = &[
    ("traffic.incast.total", "10 MB"),
    ("traffic.incast.start", "500 us"),
    ("traffic.background.flows", "3000"),
    ("traffic.background.warmup", "300"),
];
const FEW_INCAST: &[(&str, &str)] = &[
    ("traffic.incast.total", "10 MB"),
    ("sweep.\"traffic.incast.start\"", "[\"500 us\", \"600 us\", \"700 us\"]"),
    ("sweep.\"traffic.background.flows\"", "[3000, 3000, 4000]"),
    ("sweep.\"traffic.background.warmup\"", "[300, 300, 300]"),
];
const DEFAULT: &str = "../irn/default.toml";
/// IRN without congestion control, with which figure 10 compares.
const WITHOUT: Source = Source::all(DEFAULT).runs(&[IRN]).quick(FEW, &[]);
/// Settings that `--quick` changes, so that only few flows are simulated.
const FEW: &[(&str, &str)] = &[("traffic.flows", "3000"), ("traffic.warmup", "300")];

const ROCE_PFC: &str = "RoCE + PFC";
const ROCE: &str = "RoCE, no PFC";
const IRN: &str = "IRN";
const IRN_PFC: &str = "IRN + PFC";

/// Name of an assumption: the settings of a point of the sweep, without the syntax of TOML tables and strings.
fn settings(point: &str) -> String {
    point.replace(['{', '}', '"'], "").trim().to_string()
}

/// Rows of verdicts about figures 4, 5, 6 and 10 under DCQCN, for each point of the sweep in `file`.
fn dcqcn(m: &Measured<'_>, file: &'static str) -> Vec<Row> {
    let mut rows = Vec::new();
    for point in m.points(file) {
        let name = settings(point);
        let case = |run| Case { file, run, cc: "dcqcn", point };
        let without = Case { file: DEFAULT, run: IRN, cc: "none", point: "" };
        let ratio = |above, below: Case<'_>, metric| m.ratio(case(above), below, metric);
        let row = |figure: &str, metric: Metric, stated: &str, claim, sample: Sample| {
            Row::new(format!("{name}: {figure}, {}", metric.text()), stated, claim, Unit::Ratio, sample)
        };
        let roce_irn = |metric| {
            let sample = ratio(ROCE_PFC, case(IRN), metric);
            row("figure 4", metric, "RoCE + PFC / IRN: 1.5 to 2.2", range(1.5, 2.2), sample)
        };
        rows.extend(THREE.map(roce_irn));
        let changes = |change: fn(f64) -> f64| {
            THREE.map(|metric| (metric.text(), each(ratio(IRN_PFC, case(IRN), metric), change))).into()
        };
        let loss: fn(f64) -> f64 = |ratio| ratio - 1.0;
        let gain: fn(f64) -> f64 = |ratio| 1.0 - ratio;
        for (what, stated, bound, change) in
            [("loss", "at most 3.4 %", 0.034, loss), ("gain", "at most 1 %", LITTLE, gain)]
        {
            let (sample, at) = largest(changes(change));
            let metric = format!("{name}: figure 5, largest {what} of IRN by PFC");
            rows.push(Row::new(metric, stated, Claim::AtMost(bound), Unit::Percent, sample).note(at));
        }
        let roce = |metric| {
            let sample = ratio(ROCE, case(ROCE_PFC), metric);
            row("figure 6", metric, "RoCE without / with PFC: 1.35 to 3.5", range(1.35, 3.5), sample)
        };
        rows.extend(THREE.map(roce));
        let resilient = |metric| {
            let sample = ratio(ROCE, without, metric);
            row("figure 10", metric, "Resilient RoCE / IRN: above 1", Claim::Above(1.0), sample)
        };
        rows.extend(THREE.map(resilient));
    }
    rows
}

/// Rows of verdicts about the incast with cross traffic: the request completion time and the background's metrics of
/// `above` divided by those of `below`. `name` is the assumption, `pair` the two runs; `of_incast` and `of_background`
/// are the statements of the paper.
fn incast(
    m: &Measured<'_>, (above, below): (Case<'_>, Case<'_>), name: &str, pair: &str, of_incast: (&str, Claim),
    of_background: (&str, Claim),
) -> Vec<Row> {
    let row = |what: String, (stated, claim): (&str, Claim), sample| {
        Row::new(format!("{name}: {pair}, {what}"), stated, claim, Unit::Ratio, sample)
    };
    let mut rows = vec![row(Metric::RCT.text(), of_incast, m.ratio(above, below, Metric::RCT))];
    let background = |metric: Metric| {
        let sample = m.ratio_of(above, below, BACKGROUND, metric);
        row(format!("background {}", metric.text()), of_background, sample)
    };
    rows.extend(THREE.map(background));
    rows
}

/// The paper's statement about IRN with PFC, as the ratio of a metric with and without PFC.
const WORSE: (&str, Claim) = ("1-75 % worse", range(1.01, 1.75));
/// The paper's statements about RoCE with PFC, as the ratio of a metric of RoCE with PFC and of IRN.
const LOWER: (&str, Claim) = ("IRN lower by 4-30 %", range(1.0 / 0.96, 1.0 / 0.7));
const BETTER: (&str, Claim) = ("IRN better by 32-87 %", range(1.0 / 0.68, 1.0 / 0.13));
const BACKGROUND: &str = "background";

/// Rows for the starts of the incast, which are the names of the points.
fn starts(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for point in m.points(INCAST) {
        let case = |run| Case { file: INCAST, run, cc: "none", point };
        let name = format!("start at {point}");
        rows.extend(incast(m, (case(IRN_PFC), case(IRN)), &name, "IRN + PFC / IRN", WORSE, WORSE));
        rows.extend(incast(m, (case(ROCE_PFC), case(IRN)), &name, "RoCE + PFC / IRN", LOWER, BETTER));
    }
    rows
}

/// Assumptions about NICs and switches in `incast-nic.toml`.
const ASSUMPTIONS: [&str; 4] =
    ["ACKs in their own priority", "turns of one packet", "BDP cap of 55 packets", "XON at 110 KB"];

fn nics(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for name in ASSUMPTIONS {
        let [irn_pfc, irn] = [IRN_PFC, IRN].map(|run| format!("{run}, {name}"));
        let case = |run| Case { file: NICS, run, cc: "none", point: "" };
        rows.extend(incast(m, (case(&irn_pfc), case(&irn)), name, "IRN + PFC / IRN", WORSE, WORSE));
    }
    rows
}
