//! Study of "Revisiting Network Support for RDMA" (IRN; Mittal et al., SIGCOMM 2018): the experiments of the paper's
//! sections 4.2 to 4.6.

mod bridge;
mod rows;

pub(crate) use self::rows::{LITTLE, range};
use self::rows::{ratio_row, three};
use super::figures::Chart;
use super::measured::{Case, Measured, cc_text, divide, each, farthest, largest, smallest};
use super::metric::{Metric, THREE};
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
        "bridge.toml",
        "bridge-permutation.toml",
        "bridge-all-to-all.toml",
        "bridge-at-once.toml",
    ],
    experiments: EXPERIMENTS,
    exact: &[],
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
    Chart::Bars { runs, ccs, metrics: &[Metric::FCT], traffic: "" }
}

/// Figures of a robustness experiment: the ratios RoCE + PFC / IRN and IRN + PFC / IRN over the points of the sweep.
const fn swept(file: &'static str, axis: &'static str) -> Chart {
    Chart::Sweep { file, axis, pairs: &[(ROCE_PFC, IRN), (IRN_PFC, IRN)], ccs: &CCS, metrics: &THREE }
}

/// A figure of request completion times in a variant of the incast: the ratio IRN / IRN + PFC.
const fn variants(file: &'static str) -> Chart {
    Chart::Points { file, pair: (IRN, IRN_PFC), ccs: &CCS, metric: Metric::RCT }
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
        rows: rows::fig2,
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
        rows: rows::fig5,
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
        rows: rows::takeaways,
    },
    Experiment {
        name: "fig7",
        title: "Figure 7: effect of each of IRN's two changes",
        seeds: 5,
        sources: &[ABLATION.runs(&[IRN, GO_BACK_N, NO_BDP_FC])],
        charts: &[average(&[A_IRN, A_GO_BACK_N, A_NO_BDP_FC], &CCS)],
        rows: rows::fig7,
    },
    Experiment {
        name: "backoff",
        title: "Section 4.3: go-back-N that backs off on loss",
        seeds: 5,
        sources: &[ABLATION.runs(&[IRN, GO_BACK_N]).ccs(&EXPLICIT), BACKING_OFF],
        charts: &[average(&[A_IRN, A_GO_BACK_N, ("back-off.toml", BACK_OFF)], &EXPLICIT)],
        rows: rows::backoff,
    },
    Experiment {
        name: "no-sack",
        title: "Section 4.3: selective retransmission without SACK",
        seeds: 5,
        sources: &[ABLATION.runs(&[IRN, GO_BACK_N, NO_SACK])],
        charts: &[average(&[A_IRN, A_GO_BACK_N, ("ablation.toml", NO_SACK)], &CCS)],
        rows: rows::no_sack,
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
            m.ccs("ablation.toml", &CCS).into_iter().map(|cc| row(cc, Metric::FCT)).collect()
        },
    },
    Experiment {
        name: "load",
        title: "Section 4.4.1: link utilisation 30 to 90 %",
        seeds: 3,
        sources: &[Source::all("load.toml").quick(FEW, &["0.3", "0.9"])],
        charts: &[swept("load.toml", "utilisation")],
        rows: |m| rows::with_trend(m, "load.toml", "PFC's cost grows with utilisation", true),
    },
    Experiment {
        name: "bandwidth",
        title: "Section 4.4.1: links of 10, 40 and 100 Gbps",
        seeds: 3,
        sources: &[Source::all("bandwidth.toml").quick(FEW, &["10 Gbps", "100 Gbps"])],
        charts: &[swept("bandwidth.toml", "Gbps")],
        rows: |m| rows::with_trend(m, "bandwidth.toml", "PFC's cost falls with bandwidth", false),
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
        rows: |m| rows::robustness(m, "scale.toml"),
    },
    Experiment {
        name: "uniform",
        title: "Section 4.4.1: flow sizes uniform in 500 KB to 5 MB",
        seeds: 3,
        sources: &[Source::all("uniform.toml").quick(&[("traffic.flows", "300"), ("traffic.warmup", "30")], &[])],
        charts: &[basic(&[("uniform.toml", ROCE_PFC), ("uniform.toml", IRN), ("uniform.toml", IRN_PFC)], &CCS)],
        rows: |m| rows::robustness(m, "uniform.toml"),
    },
    Experiment {
        name: "buffers",
        title: "Section 4.4.1: buffers of 60 to 480 KB per port",
        seeds: 3,
        sources: &[Source::all("buffers.toml").quick(FEW, &["60 KB", "480 KB"])],
        charts: &[swept("buffers.toml", "KB per port")],
        rows: |m| rows::with_trend(m, "buffers.toml", "PFC's cost grows as buffers shrink", false),
    },
    Experiment {
        name: "rto-high",
        title: "Section 4.4.1: RTO_high up to four times as long",
        seeds: 3,
        sources: &[Source::all("rto-high.toml").quick(FEW, &["320 us", "1280 us"])],
        charts: &[swept("rto-high.toml", "RTO_high, us")],
        rows: |m| rows::with_sensitivity(m, "rto-high.toml"),
    },
    Experiment {
        name: "rto-low-n",
        title: "Section 4.4.1: RTO_low below N = 3, 10 and 15 packets in flight",
        seeds: 3,
        sources: &[Source::all("rto-low-n.toml").quick(FEW, &["3", "15"])],
        charts: &[swept("rto-low-n.toml", "N")],
        rows: |m| rows::with_sensitivity(m, "rto-low-n.toml"),
    },
    Experiment {
        name: "fig8",
        title: "Figure 8: tail of single-packet messages",
        seeds: 5,
        sources: &[CONGESTION.runs(&[ROCE_PFC, IRN, IRN_PFC])],
        charts: &[Chart::Tails { file: "congestion.toml", runs: &[ROCE_PFC, IRN, IRN_PFC], ccs: &CCS }],
        rows: rows::fig8,
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
            metrics: &[Metric::RCT],
        }],
        rows: rows::fig9,
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
        rows: rows::incast_variants,
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
            metrics: &[Metric::RCT, Metric::SLOWDOWN, Metric::FCT, Metric::FCT_P99],
            traffic: "background",
        }],
        rows: rows::incast_cross,
    },
    Experiment {
        name: "window-cc",
        title: "Section 4.4.4: AIMD and DCTCP",
        seeds: 5,
        sources: &[Source::all("window.toml").quick(FEW, &[]), CONGESTION.runs(&[IRN, IRN_PFC]).ccs(&["none"])],
        charts: &[basic(&[("window.toml", IRN), ("window.toml", IRN_PFC)], &WINDOW)],
        rows: rows::window_cc,
    },
    Experiment {
        name: "fig10",
        title: "Figure 10: IRN against Resilient RoCE",
        seeds: 5,
        sources: &[CONGESTION.runs(&[ROCE]).ccs(&["dcqcn"]), CONGESTION.runs(&[IRN]).ccs(&["none"])],
        charts: &[basic(&[D_ROCE, D_IRN], &["none", "dcqcn"])],
        rows: rows::fig10,
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
        rows: rows::fig11,
    },
    Experiment {
        name: "bridge",
        title: "Beyond the paper: from RoCE to Ultra Ethernet, what each idea adds",
        seeds: 3,
        sources: bridge::SOURCES,
        charts: &[],
        rows: bridge::ideas,
    },
    Experiment {
        name: "bridge-times",
        title: "Beyond the paper: from RoCE to Ultra Ethernet, flow completion times",
        seeds: 3,
        sources: bridge::SOURCES,
        charts: &[],
        rows: bridge::times,
    },
    Experiment {
        name: "bridge-losses",
        title: "Beyond the paper: from RoCE to Ultra Ethernet, retransmitted packets",
        seeds: 3,
        sources: bridge::SOURCES,
        charts: &[],
        rows: bridge::losses,
    },
];

const QUICK_SCALE: &str = "[2000, 2000, 2000, 4000, 4000, 4000, 8000, 8000, 8000]";
const QUICK_SCALE_WARMUP: &str = "[200, 200, 200, 400, 400, 400, 800, 800, 800]";
