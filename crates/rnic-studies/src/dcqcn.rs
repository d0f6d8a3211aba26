//! Study of "Congestion Control for Large-Scale RDMA Deployments" (DCQCN; Zhu et al., SIGCOMM 2015): the experiments of
//! the paper's sections 2.2, 5 and 6.

mod rows;

use super::figures::{Chart, Pick};
use super::measured::{Case, Measured, divide, each, largest, smallest};
use super::metric::Metric;
use super::verdict::{Claim, Row, Sample, Unit};
use super::{Experiment, Source, Study, scenarios};

/// Definition of the study: its scenario files, experiments and remarks.
pub static STUDY: Study = Study {
    name: "dcqcn",
    title: "Congestion Control for Large-Scale RDMA Deployments (SIGCOMM 2015)",
    files: scenarios![
        "dcqcn",
        "unfairness.toml",
        "unfairness.csv",
        "victim.toml",
        "victim-0.csv",
        "victim-1.csv",
        "victim-2.csv",
        "incast.toml",
        "validation.toml",
        "validation.csv",
        "validation-model.toml",
        "benchmark.toml",
        "benchmark-pairs.toml",
        "benchmark-need.toml",
        "benchmark-loss.toml",
        "queue.toml",
        "queue-settings.toml",
        "parking-lot.toml",
        "parking-lot.csv",
        "loss.toml",
        "fluid.toml",
        "fluid.csv",
        "underflow.toml",
        "large.toml",
        "host-latency.toml",
        "host-throughput.toml",
    ],
    experiments: EXPERIMENTS,
    exact: &[],
    remarks: &[
        "The paper's testbed runs for seconds to minutes; each simulation runs for the time in its scenario. For long flows, the \
         first 50 ms are not measured, because DCQCN starts at line rate and needs this time to converge. With ECMP, each seed is \
         a different placement of the flows; minimum, median and maximum are over the placements.",
        "A number of the paper is met within 5 %, because most numbers are read from its figures. Goodput is payload: on a link of \
         40 Gbps with frames of 1,500 bytes it is at most 37.8 Gbps. Where the paper states throughput, the goodput is scaled to \
         the rate of the link.",
    ],
};

const PFC: &str = "PFC only";
const DCQCN: &str = "DCQCN";

/// The case (run at a point of the sweep in `file`) without congestion control, with PFC alone.
const fn pfc(file: &'static str, point: &'static str) -> Case<'static> {
    Case { file, run: PFC, cc: "none", point }
}

/// The case (run at a point of the sweep in `file`) with DCQCN.
const fn dcqcn(file: &'static str, point: &'static str) -> Case<'static> {
    Case { file, run: DCQCN, cc: "dcqcn", point }
}

const fn pick(name: &'static str, case: Case<'static>) -> Pick {
    Pick { name, case }
}

/// A claim that a size is at most `value`.
const fn at_most(value: f64) -> Claim {
    Claim::Within { low: f64::NEG_INFINITY, high: value }
}

/// A claim that a difference is at least `value`, where 0 means no difference.
const fn at_least(value: f64) -> Claim {
    Claim::Between { low: value, high: f64::INFINITY, neutral: 0.0 }
}

const SENDERS: &[(&str, Metric)] = &[
    ("H1", Metric::flow_gbps(0)),
    ("H2", Metric::flow_gbps(1)),
    ("H3", Metric::flow_gbps(2)),
    ("H4, under the receiver's ToR", Metric::flow_gbps(3)),
];

const VICTIM: Metric = Metric::flow_gbps(4);
const VICTIMS: &[&str] = &["victim-0.csv", "victim-1.csv", "victim-2.csv"];

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "fig1",
        title: "Figure 1 and section 2.1: TCP and RDMA, by declared costs of the hosts",
        seeds: 2,
        sources: &[
            Source::all(LATENCY),
            Source::all(THROUGHPUT).quick(&[("limits.duration", "5 ms")], &["64 KB", "64 MB"]),
        ],
        charts: &[
            curve("bytes of 16 messages", &HOSTS, Metric::DELIVERED_GBPS, ""),
            curve("bytes of 16 messages", &HOSTS, Metric::sending_cpu(CORES), ""),
            curve("bytes of 16 messages", &HOSTS, Metric::receiving_cpu(CORES), ""),
        ],
        rows: rows::hosts,
    },
    Experiment {
        name: "fig3",
        title: "Figures 3 and 8: the parking lot, with PFC alone and with DCQCN",
        seeds: 30,
        sources: &[Source::all("unfairness.toml")],
        charts: &[Chart::Spread {
            title: "Goodput, Gbps",
            groups: &[pick(PFC, pfc("unfairness.toml", "")), pick(DCQCN, dcqcn("unfairness.toml", ""))],
            bars: SENDERS,
            traffic: "",
        }],
        rows: rows::unfairness,
    },
    Experiment {
        name: "fig4",
        title: "Figures 4 and 9: the victim flow, with PFC alone and with DCQCN",
        seeds: 30,
        sources: &[Source::all("victim.toml")],
        charts: &[Chart::Spread {
            title: "Goodput of the victim, Gbps",
            groups: &[
                pick("PFC only, 0 under T3", pfc("victim.toml", VICTIMS[0])),
                pick("1 under T3", pfc("victim.toml", VICTIMS[1])),
                pick("2 under T3", pfc("victim.toml", VICTIMS[2])),
                pick("DCQCN, 0 under T3", dcqcn("victim.toml", VICTIMS[0])),
                pick("1 under T3", dcqcn("victim.toml", VICTIMS[1])),
                pick("2 under T3", dcqcn("victim.toml", VICTIMS[2])),
            ],
            bars: &[("victim", VICTIM)],
            traffic: "",
        }],
        rows: rows::victim,
    },
    Experiment {
        name: "incast",
        title: "Section 6.1: K:1 incast, K from 1 to 19",
        seeds: 5,
        sources: &[Source::all("incast.toml").quick(&[("limits.duration", "60 ms")], &["1", "4", "16"])],
        charts: &[
            curve("senders", &INCAST, Metric::TOTAL_GBPS, ""),
            curve("senders", &INCAST, Metric::QUEUE_MAX, ""),
            curve("senders", &INCAST, Metric::FLUID_QUEUE, ""),
        ],
        rows: rows::incast,
    },
    Experiment {
        name: "fig10",
        title: "Figure 10: fluid model and packet-level runs",
        seeds: 10,
        sources: &[Source::all("fluid.toml")],
        charts: &[Chart::Fluid {
            picks: &[pick("Short links", SHORT_LINKS), pick("A round trip of 50 us", LONG_LINKS)],
        }],
        rows: rows::fluid,
    },
    Experiment {
        name: "underflow",
        title: "Section 5.2: R_AI and underflow of the queue, in the fluid model and in packet-level runs",
        seeds: 3,
        sources: &[Source::all("underflow.toml").quick(&[("limits.duration", "50 ms")], &[])],
        charts: &[],
        rows: rows::underflow,
    },
    Experiment {
        name: "fig13",
        title: "Figure 13: validation of the parameters",
        seeds: 10,
        sources: &[Source::all("validation.toml")],
        charts: &[Chart::Courses {
            picks: &[
                pick("Strawman", STRAWMAN),
                pick("Timer of 55 us", TIMER),
                pick("Byte counter of 10 MB", COUNTER),
                pick("Timer of 55 us, byte counter of 10 MB", BOTH),
                pick("RED-like marking", RED),
                pick("Deployed", DEPLOYED),
            ],
            flows: &["first flow", "cross traffic at 300 ms", "second flow"],
        }],
        rows: rows::validation,
    },
    Experiment {
        name: "fig13-model",
        title: "Figure 13 with the increase events of the fluid model",
        seeds: 10,
        sources: &[Source {
            runs: &["strawman", TIMER_ONLY, COUNTER_ONLY, TIMER_AND_COUNTER],
            ..Source::all("validation-model.toml")
        }],
        charts: &[],
        rows: rows::validation_as_modelled,
    },
    Experiment {
        name: "fig15",
        title: "Figures 15 and 16: benchmark traffic during the recovery of a disk",
        seeds: 10,
        sources: &[Source::all("benchmark.toml").quick(SHORT, &["2", "10"])],
        charts: &[
            curve("incast degree", &BENCHMARK, Metric::MEDIAN_GBPS, USERS),
            curve("incast degree", &BENCHMARK, Metric::LOW_GBPS, USERS),
            curve("incast degree", &BENCHMARK, Metric::MEDIAN_GBPS, RECOVERY),
            curve("incast degree", &BENCHMARK, Metric::LOW_GBPS, RECOVERY),
        ],
        rows: rows::benchmark,
    },
    Experiment {
        name: "fig17",
        title: "Figure 17: number of communicating pairs",
        seeds: 10,
        sources: &[Source::all("benchmark-pairs.toml").quick(SHORT, &["5", "80"])],
        charts: &[
            curve("pairs", &PAIRS, Metric::MEDIAN_GBPS, USERS),
            curve("pairs", &PAIRS, Metric::LOW_GBPS, RECOVERY),
        ],
        rows: rows::pairs,
    },
    Experiment {
        name: "fig18",
        title: "Figure 18: the need for PFC and for correct thresholds",
        seeds: 10,
        sources: &[Source::all("benchmark-need.toml").quick(SHORT, &[])],
        charts: &[
            Chart::Spread { title: "Users' goodput, Gbps", groups: &NEED, bars: PERCENTILES, traffic: USERS },
            Chart::Spread {
                title: "Goodput of the recovery, Gbps",
                groups: &NEED,
                bars: PERCENTILES,
                traffic: RECOVERY,
            },
        ],
        rows: rows::need,
    },
    Experiment {
        name: "fig18-loss",
        title: "Figure 18 without PFC, with more frequent and more expensive losses",
        seeds: 5,
        sources: &[Source::all(LOSSES).quick(SHORT, &[])],
        charts: &[],
        rows: rows::losses,
    },
    Experiment {
        name: "fig19",
        title: "Figure 19: the queue of a 20:1 incast",
        seeds: 5,
        sources: &[Source::all("queue.toml").quick(&[("limits.duration", "80 ms")], &[])],
        charts: &[Chart::Spread {
            title: "Queue",
            groups: &[pick(DCQCN, dcqcn("queue.toml", "")), pick("DCTCP", DCTCP)],
            bars: &[
                ("median", Metric::QUEUE_MEDIAN),
                ("95th percentile", Metric::QUEUE_HIGH),
                ("maximum", Metric::QUEUE_MAX),
            ],
            traffic: "",
        }],
        rows: rows::queue,
    },
    Experiment {
        name: "fig19-settings",
        title: "Figure 19 with other settings",
        seeds: 2,
        sources: &[Source::all(QUEUE_SETTINGS).quick(&[("limits.duration", "80 ms")], &[])],
        charts: &[],
        rows: rows::queue_settings,
    },
    Experiment {
        name: "fig20",
        title: "Figure 20: two bottlenecks",
        seeds: 5,
        sources: &[Source::all("parking-lot.toml")],
        charts: &[Chart::Courses {
            picks: &[
                pick("Deployed timers, cut-off marking", CUT_OFF),
                pick("Deployed timers, RED-like marking", RED_LIKE),
                pick("Strawman, cut-off marking", STRAWMAN_CUT_OFF),
                pick("Strawman, RED-like marking", STRAWMAN_RED_LIKE),
            ],
            flows: &["f1", "f2", "f3"],
        }],
        rows: rows::two_bottlenecks,
    },
    Experiment {
        name: "fig21",
        title: "Figure 21: random loss and the size of messages, under go-back-N and under IRN",
        seeds: 5,
        sources: &[Source::all("loss.toml").quick(&[("limits.duration", "50 ms")], &[])],
        charts: &[curve(
            "probability of loss",
            &[
                pick("RoCE, 64 KB", lossy("RoCE", "fixed 64 KB")),
                pick("RoCE, 1 MB", lossy("RoCE", "fixed 1 MB")),
                pick("RoCE, 4 MB", lossy("RoCE", "fixed 4 MB")),
                pick("timeout of 67 ms, 64 KB", lossy(TIMEOUT, "fixed 64 KB")),
                pick("timeout of 67 ms, 4 MB", lossy(TIMEOUT, "fixed 4 MB")),
                pick("IRN, 64 KB", lossy("IRN", "fixed 64 KB")),
                pick("IRN, 1 MB", lossy("IRN", "fixed 1 MB")),
                pick("IRN, 4 MB", lossy("IRN", "fixed 4 MB")),
            ],
            Metric::POOLED_GBPS,
            "",
        )],
        rows: rows::random_loss,
    },
    Experiment {
        name: "large",
        title: "Section 7: benchmark traffic on a fabric of 864 hosts",
        seeds: 3,
        sources: &[Source::all("large.toml").quick(&[("limits.duration", "2 ms")], &[])],
        charts: &[
            Chart::Spread { title: "Users' goodput, Gbps", groups: &LARGE, bars: PERCENTILES, traffic: USERS },
            Chart::Spread {
                title: "Goodput of the recovery in the first pod, Gbps",
                groups: &LARGE,
                bars: PERCENTILES,
                traffic: RECOVERY,
            },
        ],
        rows: rows::large,
    },
];

const LATENCY: &str = "host-latency.toml";
const THROUGHPUT: &str = "host-throughput.toml";
/// Cores of a host in the paper.
const CORES: u32 = 16;
/// Points of the sweep of 16 messages, and the size of one message.
const SIZES: [(&str, &str); 6] = [
    ("64 KB", "4 KB"),
    ("256 KB", "16 KB"),
    ("1 MB", "64 KB"),
    ("4 MB", "256 KB"),
    ("16 MB", "1 MB"),
    ("64 MB", "4 MB"),
];
const HOSTS: [Pick; 2] = [pick("TCP", host(THROUGHPUT, "TCP", "")), pick("RDMA", host(THROUGHPUT, "RDMA", ""))];

const fn host(file: &'static str, run: &'static str, point: &'static str) -> Case<'static> {
    Case { file, run, cc: "none", point }
}

const ON_ARRIVAL: &str = "DCQCN, marks on arrival";
const INCAST: [Pick; 2] =
    [pick(DCQCN, dcqcn("incast.toml", "")), pick(ON_ARRIVAL, dcqcn("incast.toml", "").run(ON_ARRIVAL))];
const SHORT: &[(&str, &str)] = &[("limits.duration", "20 ms")];
const USERS: &str = "users";
const RECOVERY: &str = "recovery";
const BENCHMARK: [Pick; 2] = [pick(PFC, pfc("benchmark.toml", "")), pick(DCQCN, dcqcn("benchmark.toml", ""))];
const PAIRS: [Pick; 2] = [pick(PFC, pfc("benchmark-pairs.toml", "")), pick(DCQCN, dcqcn("benchmark-pairs.toml", ""))];
const PERCENTILES: &[(&str, Metric)] = &[("10th percentile", Metric::LOW_GBPS), ("median", Metric::MEDIAN_GBPS)];
const NEED: [Pick; 4] = [
    pick(PFC, pfc("benchmark-need.toml", "")),
    pick("DCQCN without PFC", WITHOUT_PFC),
    pick("DCQCN, misconfigured", MISCONFIGURED),
    pick(DCQCN, dcqcn("benchmark-need.toml", "")),
];
const QUEUE_SETTINGS: &str = "queue-settings.toml";
const LOSSES: &str = "benchmark-loss.toml";
const LARGE: [Pick; 2] = [pick(PFC, pfc("large.toml", "")), pick(DCQCN, dcqcn("large.toml", ""))];
const WITHOUT_PFC: Case<'_> = dcqcn("benchmark-need.toml", "").run("DCQCN without PFC");
const MISCONFIGURED: Case<'_> = dcqcn("benchmark-need.toml", "").run("DCQCN, misconfigured");
const TIMER_ONLY: &str = "timer of 55 us";
const COUNTER_ONLY: &str = "counter of 10 MB";
const TIMER_AND_COUNTER: &str = "timer of 55 us, counter of 10 MB";
const STRAWMAN: Case<'_> = dcqcn("validation.toml", "").run("strawman");
const TIMER: Case<'_> = dcqcn("validation.toml", "").run(TIMER_ONLY);
const COUNTER: Case<'_> = dcqcn("validation.toml", "").run(COUNTER_ONLY);
const BOTH: Case<'_> = dcqcn("validation.toml", "").run(TIMER_AND_COUNTER);
const RED: Case<'_> = dcqcn("validation.toml", "").run("RED-like marking");
const DEPLOYED: Case<'_> = dcqcn("validation.toml", "").run("deployed");
const SHORT_LINKS: Case<'_> = dcqcn("fluid.toml", "").run("short links");
const LONG_LINKS: Case<'_> = dcqcn("fluid.toml", "").run("a round trip of 50 us");
const DCTCP: Case<'_> = Case { file: "queue.toml", run: "DCTCP", cc: "dctcp", point: "" };
const CUT_OFF: Case<'_> = dcqcn("parking-lot.toml", "").run("cut-off marking");
const RED_LIKE: Case<'_> = dcqcn("parking-lot.toml", "").run("RED-like marking");

/// Name of the run of RoCE with go-back-N and the timeout that is usual in InfiniBand.
const TIMEOUT: &str = "RoCE, timeout of 67 ms";

const fn lossy(run: &'static str, point: &'static str) -> Case<'static> {
    Case { file: "loss.toml", run, cc: "none", point }
}
const STRAWMAN_CUT_OFF: Case<'_> = dcqcn("parking-lot.toml", "").run("strawman, cut-off marking");
const STRAWMAN_RED_LIKE: Case<'_> = dcqcn("parking-lot.toml", "").run("strawman, RED-like marking");

const fn curve(axis: &'static str, picks: &'static [Pick], metric: Metric, traffic: &'static str) -> Chart {
    Chart::Curves { axis, picks, metric, traffic }
}
