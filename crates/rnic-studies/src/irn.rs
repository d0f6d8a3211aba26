//! Study of "Revisiting Network Support for RDMA" (IRN; Mittal et al., SIGCOMM 2018): the experiments of the paper's
//! sections 4.2 to 4.6.

use super::figures::Chart;
use super::measured::{Case, Measured, Metric, THREE, cc_text, divide, each, farthest, largest, smallest};
use super::verdict::{Claim, Row, Sample, Unit};
use super::{Experiment, Source, Study, scenarios};

/// Definition of the study: its scenario files, experiments and remarks.
pub static STUDY: Study = Study {
    name: "irn",
    title: "Revisiting Network Support for RDMA (SIGCOMM 2018)",
    files: scenarios![
        "irn",
        "default.toml",
        "congestion.toml",
        "ablation.toml",
        "back-off.toml",
        "incast.toml",
        "incast-rate.toml",
        "incast-connections.toml",
        "incast-cross.toml",
        "window.toml",
        "iwarp.toml",
        "robustness.toml",
        "load.toml",
        "bandwidth.toml",
        "scale.toml",
        "uniform.toml",
        "buffers.toml",
        "rto-high.toml",
        "rto-low-n.toml",
    ],
    experiments: EXPERIMENTS,
    remarks: &[
        "Ratios are computed for each seed. The tables show their mean over the seeds with its 95 % confidence interval \
         (Student's t). A row is `inside` if the mean is in the range or within the bound that the paper states; if the paper \
         states one number, the confidence interval must include it; if the paper states only a direction, the whole interval \
         must have this direction. For claims that PFC or a variant does not help, gains of up to 1 % count as none.",
        "\"Better by a percentage\" is read as a reduction of the metric by this percentage, \"worse by a percentage\" as an \
         increase.",
        "The paper does not state the number of simulated flows, nor the order in which a NIC serves its flows. Both matter. \
         The settings here are one choice, made before the comparison and the same in all experiments.",
    ],
};

const ROCE_PFC: &str = "RoCE + PFC";
const ROCE: &str = "RoCE, no PFC";
const IRN: &str = "IRN";
const IRN_PFC: &str = "IRN + PFC";
const GO_BACK_N: &str = "IRN, go-back-N";
const NO_BDP_FC: &str = "IRN, no BDP-FC";
const NO_SACK: &str = "IRN, no SACK";
const DYNAMIC: &str = "IRN, dynamic RTO";
const BACK_OFF: &str = "IRN, go-back-N, back-off";

const CCS: [&str; 3] = ["none", "timely", "dcqcn"];
const EXPLICIT: [&str; 2] = ["timely", "dcqcn"];
const WINDOW: [&str; 2] = ["aimd", "dctcp"];

/// Settings that `--quick` changes for Poisson traffic.
const FEW: &[(&str, &str)] = &[("traffic.flows", "3000"), ("traffic.warmup", "300")];
const FEW_REQUESTS: &[(&str, &str)] = &[("traffic.total", "30 MB"), ("traffic.repeats", "2")];

const CONGESTION: Source = Source::all("congestion.toml").quick(FEW, &[]);
const ABLATION: Source = Source::all("ablation.toml").quick(FEW, &[]);
const BACKING_OFF: Source = Source::all("back-off.toml").quick(FEW, &[]);

/// (scenario file, run) of the runs in the default case of the paper.
const D_ROCE_PFC: (&str, &str) = ("congestion.toml", ROCE_PFC);
const D_ROCE: (&str, &str) = ("congestion.toml", ROCE);
const D_IRN: (&str, &str) = ("congestion.toml", IRN);
const D_IRN_PFC: (&str, &str) = ("congestion.toml", IRN_PFC);
const A_IRN: (&str, &str) = ("ablation.toml", IRN);
const A_GO_BACK_N: (&str, &str) = ("ablation.toml", GO_BACK_N);
const A_NO_BDP_FC: (&str, &str) = ("ablation.toml", NO_BDP_FC);

/// Bar charts of the paper's three metrics: average slowdown, average FCT and 99th percentile FCT.
const fn basic(runs: &'static [(&'static str, &'static str)], ccs: &'static [&'static str]) -> Chart {
    Chart::Bars { runs, ccs, metrics: &THREE, traffic: "" }
}

/// A bar chart of the average flow completion time (FCT).
const fn average(runs: &'static [(&'static str, &'static str)], ccs: &'static [&'static str]) -> Chart {
    Chart::Bars { runs, ccs, metrics: &[Metric::Fct], traffic: "" }
}

/// Figures of a robustness experiment: the ratios RoCE + PFC / IRN and IRN + PFC / IRN over the points of the sweep.
const fn swept(file: &'static str, axis: &'static str) -> Chart {
    Chart::Sweep { file, axis, pairs: &[(ROCE_PFC, IRN), (IRN_PFC, IRN)], ccs: &CCS, metrics: &THREE }
}

/// A figure of request completion times in a variant of the incast: the ratio IRN / IRN + PFC.
const fn variants(file: &'static str) -> Chart {
    Chart::Points { file, pair: (IRN, IRN_PFC), ccs: &CCS, metric: Metric::Rct }
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "fig1",
        title: "Figure 1: IRN against RoCE with PFC",
        seeds: 5,
        sources: &[CONGESTION.runs(&[ROCE_PFC, IRN]).ccs(&["none"])],
        charts: &[basic(&[D_ROCE_PFC, D_IRN], &["none"])],
        rows: |m| {
            three(m, &["none"], ROCE_PFC, IRN, "IRN up to 2.8-3.7x better across the three metrics", range(2.8, 3.7))
        },
    },
    Experiment {
        name: "fig2",
        title: "Figure 2: effect of PFC on IRN",
        seeds: 5,
        sources: &[CONGESTION.runs(&[IRN, IRN_PFC]).ccs(&["none"])],
        charts: &[basic(&[D_IRN, D_IRN_PFC], &["none"])],
        rows: fig2,
    },
    Experiment {
        name: "fig3",
        title: "Figure 3: effect of PFC on RoCE",
        seeds: 5,
        sources: &[CONGESTION.runs(&[ROCE_PFC, ROCE]).ccs(&["none"])],
        charts: &[basic(&[D_ROCE_PFC, D_ROCE], &["none"])],
        rows: |m| {
            three(m, &["none"], ROCE, ROCE_PFC, "1.5-3x worse without PFC across the three metrics", range(1.5, 3.0))
        },
    },
    Experiment {
        name: "fig4",
        title: "Figure 4: IRN against RoCE with PFC, under TIMELY and DCQCN",
        seeds: 5,
        sources: &[CONGESTION.runs(&[ROCE_PFC, IRN]).ccs(&EXPLICIT)],
        charts: &[basic(&[D_ROCE_PFC, D_IRN], &EXPLICIT)],
        rows: |m| {
            three(m, &EXPLICIT, ROCE_PFC, IRN, "IRN better by up to 1.5-2.2x across the three metrics", range(1.5, 2.2))
        },
    },
    Experiment {
        name: "fig5",
        title: "Figure 5: effect of PFC on IRN under TIMELY and DCQCN",
        seeds: 5,
        sources: &[CONGESTION.runs(&[IRN, IRN_PFC]).ccs(&EXPLICIT)],
        charts: &[basic(&[D_IRN, D_IRN_PFC], &EXPLICIT)],
        rows: fig5,
    },
    Experiment {
        name: "fig6",
        title: "Figure 6: effect of PFC on RoCE under TIMELY and DCQCN",
        seeds: 5,
        sources: &[CONGESTION.runs(&[ROCE_PFC, ROCE]).ccs(&EXPLICIT)],
        charts: &[basic(&[D_ROCE_PFC, D_ROCE], &EXPLICIT)],
        rows: |m| {
            three(
                m,
                &EXPLICIT,
                ROCE,
                ROCE_PFC,
                "PFC improves by 1.35x to 3.5x across the three metrics",
                range(1.35, 3.5),
            )
        },
    },
    Experiment {
        name: "takeaways",
        title: "Key takeaways of section 4.2",
        seeds: 5,
        sources: &[CONGESTION],
        charts: &[basic(&[D_ROCE_PFC, D_ROCE, D_IRN, D_IRN_PFC], &CCS)],
        rows: takeaways,
    },
    Experiment {
        name: "fig7",
        title: "Figure 7: effect of each of IRN's two changes",
        seeds: 5,
        sources: &[ABLATION.runs(&[IRN, GO_BACK_N, NO_BDP_FC])],
        charts: &[average(&[A_IRN, A_GO_BACK_N, A_NO_BDP_FC], &CCS)],
        rows: fig7,
    },
    Experiment {
        name: "backoff",
        title: "Section 4.3: go-back-N that backs off on loss",
        seeds: 5,
        sources: &[ABLATION.runs(&[IRN, GO_BACK_N]).ccs(&EXPLICIT), BACKING_OFF],
        charts: &[average(&[A_IRN, A_GO_BACK_N, ("back-off.toml", BACK_OFF)], &EXPLICIT)],
        rows: backoff,
    },
    Experiment {
        name: "no-sack",
        title: "Section 4.3: selective retransmission without SACK",
        seeds: 5,
        sources: &[ABLATION.runs(&[IRN, GO_BACK_N, NO_SACK])],
        charts: &[average(&[A_IRN, A_GO_BACK_N, ("ablation.toml", NO_SACK)], &CCS)],
        rows: no_sack,
    },
    Experiment {
        name: "dynamic-rto",
        title: "Section 4.3: timeouts computed as in TCP",
        seeds: 5,
        sources: &[ABLATION.runs(&[IRN, DYNAMIC])],
        charts: &[average(&[A_IRN, ("ablation.toml", DYNAMIC)], &CCS)],
        rows: |m| {
            let row = |cc: &str, metric: Metric| {
                ratio_row(
                    m,
                    ("ablation.toml", cc),
                    DYNAMIC,
                    IRN,
                    metric,
                    "dynamic timeouts did not help",
                    Claim::Above(1.0 - LITTLE),
                )
            };
            m.ccs("ablation.toml", &CCS).into_iter().map(|cc| row(cc, Metric::Fct)).collect()
        },
    },
    Experiment {
        name: "load",
        title: "Section 4.4.1: link utilisation 30 to 90 %",
        seeds: 3,
        sources: &[Source::all("load.toml").quick(FEW, &["0.3", "0.9"])],
        charts: &[swept("load.toml", "utilisation")],
        rows: |m| with_trend(m, "load.toml", "PFC's cost grows with utilisation", true),
    },
    Experiment {
        name: "bandwidth",
        title: "Section 4.4.1: links of 10, 40 and 100 Gbps",
        seeds: 3,
        sources: &[Source::all("bandwidth.toml").quick(FEW, &["10 Gbps", "100 Gbps"])],
        charts: &[swept("bandwidth.toml", "Gbps")],
        rows: |m| with_trend(m, "bandwidth.toml", "PFC's cost falls with bandwidth", false),
    },
    Experiment {
        name: "scale",
        title: "Section 4.4.1: 54, 128 and 250 servers",
        seeds: 3,
        sources: &[Source::all("scale.toml").quick(
            &[("sweep.\"traffic.flows\"", QUICK_SCALE), ("sweep.\"traffic.warmup\"", QUICK_SCALE_WARMUP)],
            &["8", "10"],
        )],
        charts: &[swept("scale.toml", "k of the fat-tree")],
        rows: |m| robustness(m, "scale.toml"),
    },
    Experiment {
        name: "uniform",
        title: "Section 4.4.1: flow sizes uniform in 500 KB to 5 MB",
        seeds: 3,
        sources: &[Source::all("uniform.toml").quick(&[("traffic.flows", "300"), ("traffic.warmup", "30")], &[])],
        charts: &[basic(&[("uniform.toml", ROCE_PFC), ("uniform.toml", IRN), ("uniform.toml", IRN_PFC)], &CCS)],
        rows: |m| robustness(m, "uniform.toml"),
    },
    Experiment {
        name: "buffers",
        title: "Section 4.4.1: buffers of 60 to 480 KB per port",
        seeds: 3,
        sources: &[Source::all("buffers.toml").quick(FEW, &["60 KB", "480 KB"])],
        charts: &[swept("buffers.toml", "KB per port")],
        rows: |m| with_trend(m, "buffers.toml", "PFC's cost grows as buffers shrink", false),
    },
    Experiment {
        name: "rto-high",
        title: "Section 4.4.1: RTO_high up to four times as long",
        seeds: 3,
        sources: &[Source::all("rto-high.toml").quick(FEW, &["320 us", "1280 us"])],
        charts: &[swept("rto-high.toml", "RTO_high, us")],
        rows: |m| with_sensitivity(m, "rto-high.toml"),
    },
    Experiment {
        name: "rto-low-n",
        title: "Section 4.4.1: RTO_low below N = 3, 10 and 15 packets in flight",
        seeds: 3,
        sources: &[Source::all("rto-low-n.toml").quick(FEW, &["3", "15"])],
        charts: &[swept("rto-low-n.toml", "N")],
        rows: |m| with_sensitivity(m, "rto-low-n.toml"),
    },
    Experiment {
        name: "fig8",
        title: "Figure 8: tail of single-packet messages",
        seeds: 5,
        sources: &[CONGESTION.runs(&[ROCE_PFC, IRN, IRN_PFC])],
        charts: &[Chart::Tails { file: "congestion.toml", runs: &[ROCE_PFC, IRN, IRN_PFC], ccs: &CCS }],
        rows: fig8,
    },
    Experiment {
        name: "fig9",
        title: "Figure 9: incast without cross traffic",
        seeds: 5,
        sources: &[Source::all("incast.toml").quick(FEW_REQUESTS, &["10", "50"])],
        charts: &[Chart::Sweep {
            file: "incast.toml",
            axis: "senders",
            pairs: &[(IRN, ROCE_PFC), (IRN, IRN_PFC)],
            ccs: &CCS,
            metrics: &[Metric::Rct],
        }],
        rows: fig9,
    },
    Experiment {
        name: "incast-variants",
        title: "Section 4.4.3: incast at 10 and 100 Gbps, and over several connections per host",
        seeds: 5,
        sources: &[
            Source::all("incast-rate.toml").quick(FEW_REQUESTS, &["10 Gbps, 30", "100 Gbps, 30"]),
            Source::all("incast-connections.toml").quick(FEW_REQUESTS, &["30"]),
        ],
        charts: &[variants("incast-rate.toml"), variants("incast-connections.toml")],
        rows: incast_variants,
    },
    Experiment {
        name: "incast-cross",
        title: "Section 4.4.3: incast with cross traffic",
        seeds: 5,
        sources: &[Source::all("incast-cross.toml").quick(
            &[
                ("traffic.incast.total", "10 MB"),
                ("traffic.incast.start", "500 us"),
                ("traffic.background.flows", "3000"),
                ("traffic.background.warmup", "300"),
            ],
            &[],
        )],
        charts: &[Chart::Bars {
            runs: &[("incast-cross.toml", ROCE_PFC), ("incast-cross.toml", IRN), ("incast-cross.toml", IRN_PFC)],
            ccs: &CCS,
            metrics: &[Metric::Rct, Metric::Slowdown, Metric::Fct, Metric::FctP99],
            traffic: "background",
        }],
        rows: incast_cross,
    },
    Experiment {
        name: "window-cc",
        title: "Section 4.4.4: AIMD and DCTCP",
        seeds: 5,
        sources: &[Source::all("window.toml").quick(FEW, &[]), CONGESTION.runs(&[IRN, IRN_PFC]).ccs(&["none"])],
        charts: &[basic(&[("window.toml", IRN), ("window.toml", IRN_PFC)], &WINDOW)],
        rows: window_cc,
    },
    Experiment {
        name: "fig10",
        title: "Figure 10: IRN against Resilient RoCE",
        seeds: 5,
        sources: &[CONGESTION.runs(&[ROCE]).ccs(&["dcqcn"]), CONGESTION.runs(&[IRN]).ccs(&["none"])],
        charts: &[basic(&[D_ROCE, D_IRN], &["none", "dcqcn"])],
        rows: fig10,
    },
    Experiment {
        name: "fig11",
        title: "Figure 11: IRN against iWARP",
        seeds: 5,
        sources: &[Source::all("iwarp.toml").quick(FEW, &[])],
        charts: &[basic(
            &[("iwarp.toml", "iWARP"), ("iwarp.toml", IRN), ("iwarp.toml", "IRN + AIMD")],
            &["none", "aimd"],
        )],
        rows: fig11,
    },
];

const QUICK_SCALE: &str = "[2000, 2000, 2000, 4000, 4000, 4000, 8000, 8000, 8000]";
const QUICK_SCALE_WARMUP: &str = "[200, 200, 200, 400, 400, 400, 800, 800, 800]";

/// A claim that a ratio lies between `low` and `high`.
const fn range(low: f64, high: f64) -> Claim {
    Claim::Between { low, high, neutral: 1.0 }
}

/// A claim that a relative change lies between `low` and `high`.
const fn change(low: f64, high: f64) -> Claim {
    Claim::Between { low, high, neutral: 0.0 }
}

fn case<'c>(file: &'c str, run: &'c str, cc: &'c str) -> Case<'c> {
    Case { file, run, cc, point: "" }
}

/// A row of verdicts about the ratio of two runs (`above` / `below`) of a scenario file under one congestion control.
fn ratio_row(
    m: &Measured<'_>, (file, cc): (&str, &str), above: &str, below: &str, metric: Metric, stated: &str, claim: Claim,
) -> Row {
    let sample = m.ratio(case(file, above, cc), case(file, below, cc), metric);
    Row::new(format!("{}, {}: {above} / {below}", metric.text(), cc_text(cc)), stated, claim, Unit::Ratio, sample)
}

/// A row of verdicts for each of the metrics [`THREE`] and each congestion control, in the default case of the paper.
fn three(m: &Measured<'_>, ccs: &[&str], above: &str, below: &str, stated: &str, claim: Claim) -> Vec<Row> {
    let rows =
        |cc: &&str| THREE.map(|metric| ratio_row(m, ("congestion.toml", cc), above, below, metric, stated, claim));
    ccs.iter().flat_map(rows).collect()
}

fn fig2(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = three(m, &["none"], IRN_PFC, IRN, "PFC increases each metric by about 1.5-2x", range(1.5, 2.0));
    let dropped = m.values(case("congestion.toml", IRN, "none"), Metric::Dropped);
    let claim = Claim::Exactly { value: 0.085, neutral: 0.0 };
    rows.push(Row::new("data packets dropped: IRN", "8.5 % without PFC", claim, Unit::Percent, dropped));
    rows
}

/// The ratios of two runs (`above` / `below`) for each congestion control, point of the sweep and metric. The name of
/// each ratio contains its metric, congestion control and point, if they vary.
fn ratios(
    m: &Measured<'_>, file: &str, ccs: &[&str], (above, below): (&str, &str), metrics: &[Metric],
) -> Vec<(String, Sample)> {
    let points = m.points(file);
    let points = if points.is_empty() { vec![""] } else { points };
    let mut cases = Vec::new();
    for cc in m.ccs(file, ccs) {
        for point in &points {
            let at = |run| Case { file, run, cc, point };
            for metric in metrics {
                let mut name = Vec::new();
                name.extend((metrics.len() > 1).then(|| metric.text()));
                name.extend((ccs.len() > 1).then(|| cc_text(cc)));
                name.extend((!point.is_empty()).then(|| point.to_string()));
                cases.push((name.join(", "), m.ratio(at(above), at(below), *metric)));
            }
        }
    }
    cases
}

fn changed(cases: Vec<(String, Sample)>, change: fn(f64) -> f64) -> Vec<(String, Sample)> {
    cases.into_iter().map(|(name, sample)| (name, each(sample, change))).collect()
}

/// Converts a ratio to a relative increase: 1.2 becomes 0.2.
fn increase(ratio: f64) -> f64 {
    ratio - 1.0
}

/// Converts a ratio to the relative reduction from its numerator to its denominator: 2 becomes 0.5.
fn reduction(ratio: f64) -> f64 {
    1.0 - 1.0 / ratio
}

/// A row of verdicts about the sample with the largest mean among several cases. The row's note names the case.
fn max_row(metric: &str, stated: &str, claim: Claim, unit: Unit, cases: Vec<(String, Sample)>) -> Row {
    let (sample, note) = largest(cases);
    Row::new(metric, stated, claim, unit, sample).note(note)
}

/// A row of verdicts about the sample with the smallest mean among several cases. The row's note names the case.
fn min_row(metric: &str, stated: &str, claim: Claim, unit: Unit, cases: Vec<(String, Sample)>) -> Row {
    let (sample, note) = smallest(cases);
    Row::new(metric, stated, claim, unit, sample).note(note)
}

fn fig5(m: &Measured<'_>) -> Vec<Row> {
    let cases = || ratios(m, "congestion.toml", &EXPLICIT, (IRN_PFC, IRN), &THREE);
    let gain = changed(cases(), |ratio| 1.0 - ratio);
    let loss = changed(cases(), increase);
    vec![
        max_row("largest gain of IRN by PFC", "less than 1 %", Claim::AtMost(LITTLE), Unit::Percent, gain),
        max_row("largest loss of IRN by PFC", "about 3.4 %", Claim::AtMost(0.034), Unit::Percent, loss),
    ]
}

/// Relative gain by PFC below which the paper counts PFC as no gain (figure 5).
const LITTLE: f64 = 0.01;

fn takeaways(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cc in CCS {
        let smallest_of = |stated: &str, claim: Claim, runs: (&str, &str)| {
            let cases = ratios(m, "congestion.toml", &[cc], runs, &THREE);
            let (above, below) = runs;
            min_row(
                &format!("smallest of three metrics, {}: {above} / {below}", cc_text(cc)),
                stated,
                claim,
                Unit::Ratio,
                cases,
            )
        };
        rows.push(smallest_of("(1) IRN performs better than RoCE with PFC", Claim::Above(1.0), (ROCE_PFC, IRN)));
        rows.push(smallest_of("(2) IRN does not require PFC", Claim::Above(1.0 - LITTLE), (IRN_PFC, IRN)));
        rows.push(smallest_of("(3) RoCE requires PFC", Claim::Above(1.0), (ROCE, ROCE_PFC)));
    }
    rows
}

fn fig7(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cc in CCS {
        let row = |above, below, stated| {
            ratio_row(m, ("ablation.toml", cc), above, below, Metric::Fct, stated, Claim::Above(1.0))
        };
        rows.push(row(GO_BACK_N, IRN, "go-back-N significantly worse"));
        rows.push(row(NO_BDP_FC, IRN, "BDP-FC significantly improves performance"));
        rows.push(row(GO_BACK_N, NO_BDP_FC, "go-back-N generally worse than no BDP-FC"));
    }
    rows
}

fn backoff(m: &Measured<'_>) -> Vec<Row> {
    let cost = |cc: &'static str| {
        each(m.ratio(case("back-off.toml", BACK_OFF, cc), case("ablation.toml", IRN, cc), Metric::Fct), increase)
    };
    let gain = |cc: &'static str| {
        m.ratio(case("ablation.toml", GO_BACK_N, cc), case("back-off.toml", BACK_OFF, cc), Metric::Fct)
    };
    vec![
        Row::new(
            "average FCT, TIMELY: go-back-N with back-off above IRN",
            "20-50 % worse than SACK",
            change(0.2, 0.5),
            Unit::Percent,
            cost("timely"),
        ),
        Row::new(
            "average FCT, DCQCN: go-back-N with back-off above IRN",
            "significantly worse than SACK",
            Claim::Above(0.0),
            Unit::Percent,
            cost("dcqcn"),
        ),
        Row::new(
            "average FCT, TIMELY: go-back-N without / with back-off",
            "back-off improves go-back-N for Timely",
            Claim::Above(1.0),
            Unit::Ratio,
            gain("timely"),
        ),
        Row::new(
            "average FCT, DCQCN: go-back-N without / with back-off",
            "but not for DCQCN",
            Claim::AtMost(1.0),
            Unit::Ratio,
            gain("dcqcn"),
        ),
    ]
}

fn no_sack(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cc in m.ccs("ablation.toml", &CCS) {
        let at = |run| case("ablation.toml", run, cc);
        let cost = each(m.ratio(at(NO_SACK), at(IRN), Metric::Fct), increase);
        let metric = format!("average FCT, {}: without SACK above IRN", cc_text(cc));
        rows.push(Row::new(metric, "worse by < 1 % up to 75 %", change(0.0, 0.75), Unit::Percent, cost));
        let stated = "better than go-back-N";
        rows.push(ratio_row(m, ("ablation.toml", cc), GO_BACK_N, NO_SACK, Metric::Fct, stated, Claim::Above(1.0)));
    }
    rows
}

/// Rows of verdicts that compare the paper's conclusions from all its robustness experiments with the results of the
/// one in `file`.
fn robustness(m: &Measured<'_>, file: &str) -> Vec<Row> {
    let better = || changed(ratios(m, file, &CCS, (ROCE_PFC, IRN), &THREE), reduction);
    let pfc = |cc| ratios(m, file, &[cc], (IRN_PFC, IRN), &THREE);
    let stated = "IRN better by 6-83 % in all cases";
    let mut rows = vec![
        min_row("smallest gain of IRN over RoCE + PFC", stated, change(0.06, 0.83), Unit::Percent, better()),
        max_row("largest gain of IRN over RoCE + PFC", stated, change(0.06, 0.83), Unit::Percent, better()),
        min_row("smallest IRN + PFC / IRN, no cc", "PFC always degrades", Claim::Above(1.0), Unit::Ratio, pfc("none")),
        max_row("largest IRN + PFC / IRN, no cc", "up to 2.4x", Claim::AtMost(2.4), Unit::Ratio, pfc("none")),
    ];
    for (cc, loss, gain) in [("timely", 0.39, 0.016), ("dcqcn", 0.20, 0.05)] {
        let percent = |share: f64| format!("at most {} %", (share * 1_000.0).round() / 10.0);
        let losses = changed(pfc(cc), increase);
        let gains = changed(pfc(cc), |ratio| 1.0 - ratio);
        let name = |what: &str| format!("largest {what} of IRN by PFC, {}", cc_text(cc));
        rows.push(max_row(&name("loss"), &percent(loss), Claim::AtMost(loss), Unit::Percent, losses));
        rows.push(max_row(&name("gain"), &percent(gain), Claim::AtMost(gain), Unit::Percent, gains));
    }
    rows
}

/// The rows of verdicts of [`robustness`], and rows about a trend. The cost of PFC is the ratio of the results of IRN +
/// PFC and IRN, without congestion control. The trend is how this cost changes from the first point of the sweep to the
/// last.
fn with_trend(m: &Measured<'_>, file: &str, stated: &str, grows: bool) -> Vec<Row> {
    let mut rows = robustness(m, file);
    let points = m.points(file);
    let (first, last) = (points.first().copied().unwrap_or(""), points.last().copied().unwrap_or(""));
    for metric in THREE {
        let cost = |point| {
            let at = |run| Case { file, run, cc: "none", point };
            m.ratio(at(IRN_PFC), at(IRN), metric)
        };
        let (above, below) = if grows { (last, first) } else { (first, last) };
        let sample = cost(above).and_then(|above| divide(above, &cost(below)?));
        let name = format!("{}, no cc: (IRN + PFC / IRN) at {above} / at {below}", metric.text());
        rows.push(Row::new(name, stated, Claim::Above(1.0), Unit::Ratio, sample));
    }
    rows
}

/// The rows of verdicts of [`robustness`], and a row about the largest change of IRN's results between the first point
/// of the sweep and any other point.
fn with_sensitivity(m: &Measured<'_>, file: &str) -> Vec<Row> {
    let mut rows = robustness(m, file);
    let points = m.points(file);
    let mut cases = Vec::new();
    for cc in m.ccs(file, &CCS) {
        for (point, metric) in points.iter().skip(1).flat_map(|point| THREE.map(|metric| (*point, metric))) {
            let at = |point| Case { file, run: IRN, cc, point };
            let sample = each(m.ratio(at(point), at(points[0]), metric), increase);
            cases.push((format!("{}, {}, {point}", metric.text(), cc_text(cc)), sample));
        }
    }
    let (sample, note) = farthest(cases);
    rows.push(Row::new("largest change of IRN", "very small", Claim::Open, Unit::Percent, sample).note(note));
    rows
}

/// The percentiles of the completion time of single-packet messages in the paper's figure 8.
const TAIL: [Metric; 4] = [Metric::Tail(900), Metric::Tail(950), Metric::Tail(990), Metric::Tail(999)];

fn fig8(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cc in CCS {
        let tail = |runs| ratios(m, "congestion.toml", &[cc], runs, &TAIL);
        let name = |above: &str| format!("90 to 99.9 %ile of single packets, {}: smallest {above} / IRN", cc_text(cc));
        let stated = "IRN significantly better than RoCE";
        rows.push(min_row(&name(ROCE_PFC), stated, Claim::Above(1.0), Unit::Ratio, tail((ROCE_PFC, IRN))));
        let stated = "similar or longer with PFC";
        rows.push(min_row(&name(IRN_PFC), stated, Claim::Above(1.0 - LITTLE), Unit::Ratio, tail((IRN_PFC, IRN))));
    }
    rows
}

fn fig9(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cc in CCS {
        let cases = |below| changed(ratios(m, "incast.toml", &[cc], (IRN, below), &[Metric::Rct]), increase);
        let name = |below: &str| format!("average RCT, {}: largest increase of IRN above {below}", cc_text(cc));
        rows.push(max_row(&name(ROCE_PFC), "within 2.5 %", Claim::AtMost(0.025), Unit::Percent, cases(ROCE_PFC)));
        rows.push(max_row(&name(IRN_PFC), "very similar", Claim::Open, Unit::Percent, cases(IRN_PFC)));
    }
    rows
}

fn incast_variants(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (file, what) in [("incast-rate.toml", "10 and 100 Gbps"), ("incast-connections.toml", "several connections")] {
        for cc in CCS {
            // The paper's text is about disabling PFC with IRN, but its figure compares IRN with RoCE. Each has its own
            // row.
            for below in [ROCE_PFC, IRN_PFC] {
                let cases = changed(ratios(m, file, &[cc], (IRN, below), &[Metric::Rct]), increase);
                let name = format!("average RCT, {what}, {}: largest increase of IRN above {below}", cc_text(cc));
                rows.push(max_row(&name, "within 9 %", Claim::AtMost(0.09), Unit::Percent, cases));
            }
        }
    }
    rows
}

fn incast_cross(m: &Measured<'_>) -> Vec<Row> {
    const FILE: &str = "incast-cross.toml";
    let background = |cc, runs: (&str, &str), metric| {
        m.ratio_of(case(FILE, runs.0, cc), case(FILE, runs.1, cc), "background", metric)
    };
    let mut rows = Vec::new();
    let mut pfc = Vec::new();
    for cc in CCS {
        let rct = |above, below| m.ratio(case(FILE, above, cc), case(FILE, below, cc), Metric::Rct);
        let name = format!("average RCT, {}: IRN below RoCE + PFC", cc_text(cc));
        let sample = each(rct(ROCE_PFC, IRN), reduction);
        rows.push(Row::new(name, "IRN lower by 4-30 %", change(0.04, 0.30), Unit::Percent, sample));
        pfc.push((format!("average RCT, {}", cc_text(cc)), rct(IRN_PFC, IRN)));
        for metric in THREE {
            let name = format!("background {}, {}: IRN below RoCE + PFC", metric.text(), cc_text(cc));
            let sample = each(background(cc, (ROCE_PFC, IRN), metric), reduction);
            rows.push(Row::new(name, "IRN better by 32-87 %", change(0.32, 0.87), Unit::Percent, sample));
            let name = format!("background {}, {}", metric.text(), cc_text(cc));
            pfc.push((name, background(cc, (IRN_PFC, IRN), metric)));
        }
    }
    let loss = changed(pfc.clone(), increase);
    let gain = changed(pfc, |ratio| 1.0 - ratio);
    rows.push(max_row("largest loss of IRN by PFC", "1-75 % worse", change(0.01, 0.75), Unit::Percent, loss));
    let stated = "better in one case only, by 1.13 %";
    rows.push(max_row("largest gain of IRN by PFC", stated, Claim::AtMost(0.0113), Unit::Percent, gain));
    rows
}

fn window_cc(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cc in WINDOW {
        for metric in THREE {
            let stated = "similar trends: PFC not required";
            rows.push(ratio_row(m, ("window.toml", cc), IRN_PFC, IRN, metric, stated, Claim::Above(1.0 - LITTLE)));
        }
    }
    for metric in THREE {
        let with = |file, cc| m.ratio(case(file, IRN_PFC, cc), case(file, IRN, cc), metric);
        let sample = with("window.toml", "aimd").and_then(|aimd| divide(aimd, &with("congestion.toml", "none")?));
        let name = format!("{}: (IRN + PFC / IRN) under AIMD / without cc", metric.text());
        rows.push(Row::new(name, "disabling PFC helps AIMD even more", Claim::Above(1.0), Unit::Ratio, sample));
    }
    rows
}

fn fig10(m: &Measured<'_>) -> Vec<Row> {
    let row = |metric: Metric| {
        let sample = m.ratio(case("congestion.toml", ROCE, "dcqcn"), case("congestion.toml", IRN, "none"), metric);
        let name = format!("{}: Resilient RoCE / IRN without cc", metric.text());
        Row::new(name, "IRN significantly better", Claim::Above(1.0), Unit::Ratio, sample)
    };
    THREE.map(row).to_vec()
}

fn fig11(m: &Measured<'_>) -> Vec<Row> {
    const FILE: &str = "iwarp.toml";
    let below = |run: &'static str, cc: &'static str, metric| {
        each(m.ratio(case(FILE, "iWARP", "none"), case(FILE, run, cc), metric), reduction)
    };
    let row = |metric: Metric, run: &'static str, cc: &'static str, stated: &str, claim: Claim| {
        let name = format!("{}: {run} below iWARP", metric.text());
        Row::new(name, stated, claim, Unit::Percent, below(run, cc, metric))
    };
    let exactly = |value| Claim::Exactly { value, neutral: 0.0 };
    vec![
        row(Metric::Slowdown, IRN, "none", "21 % smaller", exactly(0.21)),
        row(Metric::Fct, IRN, "none", "comparable", Claim::Open),
        row(Metric::FctP99, IRN, "none", "comparable", Claim::Open),
        row(Metric::Slowdown, "IRN + AIMD", "aimd", "44 % smaller", exactly(0.44)),
        row(Metric::Fct, "IRN + AIMD", "aimd", "11 % smaller", exactly(0.11)),
    ]
}
