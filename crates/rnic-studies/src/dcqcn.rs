//! Study of "Congestion Control for Large-Scale RDMA Deployments" (DCQCN; Zhu et al., SIGCOMM 2015): the experiments of
//! the paper's sections 2.2, 5 and 6.

use super::figures::{Chart, Pick};
use super::measured::{Case, Measured, Metric, divide, each, largest, smallest};
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
        "benchmark.toml",
        "benchmark-pairs.toml",
        "benchmark-need.toml",
        "queue.toml",
        "parking-lot.toml",
        "parking-lot.csv",
        "loss.toml",
        "fluid.toml",
        "fluid.csv",
        "host-latency.toml",
        "host-throughput.toml",
    ],
    experiments: EXPERIMENTS,
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

/// A claim that an effect equals `value` within 5 %. `neutral` is the value that means no effect.
const fn about(value: f64, neutral: f64) -> Claim {
    Claim::Between { low: value * 0.95, high: value * 1.05, neutral }
}

/// A claim that a size equals `value` within 5 %.
const fn size(value: f64) -> Claim {
    Claim::Within { low: value * 0.95, high: value * 1.05 }
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
    ("H1", Metric::FlowGbps(0)),
    ("H2", Metric::FlowGbps(1)),
    ("H3", Metric::FlowGbps(2)),
    ("H4, under the receiver's ToR", Metric::FlowGbps(3)),
];

const VICTIM: Metric = Metric::FlowGbps(4);
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
            curve("bytes of 16 messages", &HOSTS, Metric::Goodput(false), ""),
            curve("bytes of 16 messages", &HOSTS, Metric::SendingCpu(CORES), ""),
            curve("bytes of 16 messages", &HOSTS, Metric::ReceivingCpu(CORES), ""),
        ],
        rows: hosts,
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
        rows: unfairness,
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
        rows: victim,
    },
    Experiment {
        name: "incast",
        title: "Section 6.1: K:1 incast, K from 1 to 19",
        seeds: 5,
        sources: &[Source::all("incast.toml").quick(&[("limits.duration", "60 ms")], &["1", "4", "16"])],
        charts: &[
            curve("senders", &INCAST, Metric::TotalGbps, ""),
            curve("senders", &INCAST, Metric::QueueMax, ""),
            curve("senders", &INCAST, Metric::FluidQueue, ""),
        ],
        rows: incast,
    },
    Experiment {
        name: "fig10",
        title: "Figure 10: fluid model and packet-level runs",
        seeds: 10,
        sources: &[Source::all("fluid.toml")],
        charts: &[Chart::Fluid {
            picks: &[pick("Short links", SHORT_LINKS), pick("A round trip of 50 us", LONG_LINKS)],
        }],
        rows: fluid,
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
        rows: validation,
    },
    Experiment {
        name: "fig15",
        title: "Figures 15 and 16: benchmark traffic during the recovery of a disk",
        seeds: 10,
        sources: &[Source::all("benchmark.toml").quick(SHORT, &["2", "10"])],
        charts: &[
            curve("incast degree", &BENCHMARK, Metric::MedianGbps, USERS),
            curve("incast degree", &BENCHMARK, Metric::LowGbps, USERS),
            curve("incast degree", &BENCHMARK, Metric::MedianGbps, RECOVERY),
            curve("incast degree", &BENCHMARK, Metric::LowGbps, RECOVERY),
        ],
        rows: benchmark,
    },
    Experiment {
        name: "fig17",
        title: "Figure 17: number of communicating pairs",
        seeds: 10,
        sources: &[Source::all("benchmark-pairs.toml").quick(SHORT, &["5", "80"])],
        charts: &[curve("pairs", &PAIRS, Metric::MedianGbps, USERS), curve("pairs", &PAIRS, Metric::LowGbps, RECOVERY)],
        rows: pairs,
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
        rows: need,
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
                ("median", Metric::QueueMedian),
                ("95th percentile", Metric::QueueHigh),
                ("maximum", Metric::QueueMax),
            ],
            traffic: "",
        }],
        rows: queue,
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
        rows: two_bottlenecks,
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
            Metric::PooledGbps,
            "",
        )],
        rows: random_loss,
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
const PERCENTILES: &[(&str, Metric)] = &[("10th percentile", Metric::LowGbps), ("median", Metric::MedianGbps)];
const NEED: [Pick; 4] = [
    pick(PFC, pfc("benchmark-need.toml", "")),
    pick("DCQCN without PFC", WITHOUT_PFC),
    pick("DCQCN, misconfigured", MISCONFIGURED),
    pick(DCQCN, dcqcn("benchmark-need.toml", "")),
];
const WITHOUT_PFC: Case<'_> = dcqcn("benchmark-need.toml", "").run("DCQCN without PFC");
const MISCONFIGURED: Case<'_> = dcqcn("benchmark-need.toml", "").run("DCQCN, misconfigured");
const STRAWMAN: Case<'_> = dcqcn("validation.toml", "").run("strawman");
const TIMER: Case<'_> = dcqcn("validation.toml", "").run("timer of 55 us");
const COUNTER: Case<'_> = dcqcn("validation.toml", "").run("counter of 10 MB");
const BOTH: Case<'_> = dcqcn("validation.toml", "").run("timer of 55 us, counter of 10 MB");
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

/// Converts goodput to throughput on the link, where 1,438 of the 1,520 bytes of a packet are payload.
fn on_the_link(sample: Sample) -> Sample {
    each(sample, |gbps| gbps * 1_520.0 / 1_438.0)
}

/// Note in rows of verdicts that combine the values of all seeds. Each seed gives another ECMP placement of the flows.
const ONE: &str = "one value over all seeds";
/// Flows have equal shares if the smallest share is at least this fraction of the largest.
const EQUAL: f64 = 0.9;
/// Maximum difference, in Gbps, between two goodputs that count as equal.
const TIE: f64 = 0.1;

/// Combines the values of all seeds into one value. `pick` selects it from the sorted values: median, minimum or
/// maximum.
fn over_seeds(sample: Sample, pick: fn(&[f64]) -> Option<f64>) -> Sample {
    let mut values = sample?;
    values.sort_unstable_by(f64::total_cmp);
    pick(&values).map(|value| vec![value]).ok_or_else(|| "there is no value".to_string())
}

fn median(sorted: &[f64]) -> Option<f64> {
    rnic_results::stats::nearest_rank(sorted, 500)
}

fn minimum(sorted: &[f64]) -> Option<f64> {
    sorted.first().copied()
}

fn maximum(sorted: &[f64]) -> Option<f64> {
    sorted.last().copied()
}

fn difference(above: Sample, below: Sample) -> Sample {
    Ok(above?.into_iter().zip(below?).map(|(a, b)| a - b).collect())
}

fn hosts(m: &Measured<'_>) -> Vec<Row> {
    let note = "by declared costs with sources of their own";
    let latency = |run| m.values(host(LATENCY, run, ""), Metric::Fct);
    let us = |what: &str, stated: &str, value: f64, sample: Sample| {
        Row::new(what, stated, size(value), Unit::Microseconds, sample).note(note)
    };
    let ratio = latency("TCP").and_then(|tcp| divide(tcp, &latency("RDMA")?));
    let mut rows = vec![
        us("latency of 2 KB, TCP", "25.4 us", 25.4, latency("TCP")),
        us("latency of 2 KB, RDMA", "2.8 us (Send)", 2.8, latency("RDMA")),
        Row::new("latency of 2 KB, TCP / RDMA", "25.4 us / 2.8 us", about(25.4 / 2.8, 1.0), Unit::Ratio, ratio)
            .note(note),
    ];
    for (point, name) in SIZES.into_iter().filter(|(point, _)| m.points(THROUGHPUT).contains(point)) {
        for run in ["TCP", "RDMA"] {
            let of = |metric| m.values(host(THROUGHPUT, run, point), metric);
            let label = format!("{run}, messages of {name}: goodput");
            rows.push(Row::new(label, "nothing in numbers", Claim::Open, Unit::Gbps, of(Metric::Goodput(false))));
            let (stated, claim) = match (run, name) {
                ("TCP", "4 MB") => ("above 20 %", Claim::Within { low: 0.2, high: 1.0 }),
                ("RDMA", "4 MB") => ("below 3 %", Claim::Within { low: 0.0, high: 0.03 }),
                _ => ("nothing in numbers", Claim::Open),
            };
            let label = format!("{run}, messages of {name}: CPU of the sender, of {CORES} cores");
            rows.push(Row::new(label, stated, claim, Unit::Percent, of(Metric::SendingCpu(CORES))).note(note));
            let label = format!("{run}, messages of {name}: CPU of the receiver, of {CORES} cores");
            let receiver = of(Metric::ReceivingCpu(CORES));
            rows.push(Row::new(label, "nothing in numbers", Claim::Open, Unit::Percent, receiver).note(note));
        }
    }
    rows
}

fn unfairness(m: &Measured<'_>) -> Vec<Row> {
    let near = |case| m.values(case, Metric::FlowGbps(3));
    let far = |case| m.values(case, Metric::MaxGbps(3));
    let spread = |case| difference(m.values(case, Metric::MaxGbps(4)), m.values(case, Metric::MinGbps(4)));
    let (pfc, dcqcn) = (pfc("unfairness.toml", ""), dcqcn("unfairness.toml", ""));
    let narrower = spread(pfc).and_then(|pfc| divide(pfc, &spread(dcqcn)?));
    let share = m.values(dcqcn, Metric::MinGbps(4)).and_then(|l| divide(l, &m.values(dcqcn, Metric::MaxGbps(4))?));
    vec![
        Row::new(
            "PFC only: H4's goodput, largest over placements",
            "H4 up to 20 Gbps",
            about(20.0, 10.0),
            Unit::Gbps,
            on_the_link(over_seeds(near(pfc), maximum)),
        )
        .note(ONE),
        Row::new(
            "PFC only: H4's smallest goodput above the largest of the others, over all placements",
            "its minimum is above the others' maximum",
            at_least(TIE),
            Unit::Gbps,
            difference(over_seeds(near(pfc), minimum), over_seeds(far(pfc), maximum)),
        )
        .note("one value over all seeds; a flow that has one of the ToR's uplinks to itself gets as much as H4"),
        Row::new(
            "PFC only: H4's goodput above the largest of the others, placement by placement",
            "H4 is always ahead",
            at_least(TIE),
            Unit::Gbps,
            difference(near(pfc), far(pfc)),
        ),
        Row::new(
            "DCQCN: smallest / largest of the four goodputs",
            "four equal shares, little variance",
            Claim::Within { low: EQUAL, high: 1.0 },
            Unit::Ratio,
            share,
        ),
        Row::new(
            "difference of largest and smallest goodput: PFC only / DCQCN",
            "PFC alone is unfair, DCQCN fair",
            Claim::Above(1.0),
            Unit::Ratio,
            narrower,
        ),
    ]
}

fn victim(m: &Measured<'_>) -> Vec<Row> {
    let of = |case| m.values(case, VICTIM);
    let change = |of_run: fn(&'static str, &'static str) -> Case<'static>| {
        divide(of(of_run("victim.toml", VICTIMS[2]))?, &of(of_run("victim.toml", VICTIMS[0]))?)
    };
    vec![
        Row::new(
            "PFC only: victim's goodput without senders under T3, median over placements",
            "10 Gbps where 20 are expected",
            about(10.0, 20.0),
            Unit::Gbps,
            on_the_link(over_seeds(of(pfc("victim.toml", VICTIMS[0])), median)),
        )
        .note(ONE),
        Row::new(
            "PFC only: with two senders under T3, median over placements",
            "4.5 Gbps",
            about(4.5, 20.0),
            Unit::Gbps,
            on_the_link(over_seeds(of(pfc("victim.toml", VICTIMS[2])), median)),
        )
        .note(ONE),
        Row::new(
            "PFC only: lost by the victim to two senders under T3",
            "4.5 of 10 Gbps are left",
            about(0.55, 0.0),
            Unit::Percent,
            each(change(pfc), |ratio| 1.0 - ratio),
        ),
        Row::new(
            "DCQCN: victim's goodput with two senders under T3 / without",
            "independent of senders under T3",
            size(1.0),
            Unit::Ratio,
            change(dcqcn),
        ),
        Row::new(
            "victim's goodput with two senders under T3: DCQCN / PFC only",
            "DCQCN protects the victim",
            Claim::Above(1.0),
            Unit::Ratio,
            m.ratio(dcqcn("victim.toml", VICTIMS[2]), pfc("victim.toml", VICTIMS[2]), VICTIM),
        ),
    ]
}

/// The ratio of a metric between two cases (`above` / `below`) for one traffic source, one value per seed.
fn ratio(m: &Measured<'_>, above: Case<'_>, below: Case<'_>, traffic: &str, metric: Metric) -> Sample {
    m.ratio_of(above, below, traffic, metric)
}

fn incast(m: &Measured<'_>) -> Vec<Row> {
    let cases = |run, metric: Metric| -> Vec<(String, Sample)> {
        let points = m.points("incast.toml").into_iter();
        points
            .map(|point| {
                (format!("K = {point}"), m.values(Case { point, ..dcqcn("incast.toml", "").run(run) }, metric))
            })
            .collect()
    };
    let mut rows = Vec::new();
    for run in [DCQCN, ON_ARRIVAL] {
        let (slowest, at) = smallest(cases(run, Metric::TotalGbps));
        let (longest, longest_at) = largest(cases(run, Metric::QueueMax));
        let throughput = Row::new(
            format!("{run}: smallest throughput of the receiver's link over K"),
            "always more than 39 Gbps",
            Claim::Above(39.0),
            Unit::Gbps,
            on_the_link(slowest),
        );
        let queue = Row::new(
            format!("{run}: longest queue over K, after the first 50 ms"),
            "never more than 100 KB",
            at_most(100_000.0),
            Unit::Kilobytes,
            longest,
        );
        rows.extend([throughput.note(at), queue.note(longest_at)]);
    }
    rows
}

fn fluid(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, case) in [("short links", SHORT_LINKS), ("round trip of 50 us", LONG_LINKS)] {
        let row = |metric: Metric, stated: &str, claim, unit| {
            Row::new(format!("{name}: second flow, {}", metric.text()), stated, claim, unit, m.values(case, metric))
        };
        rows.push(row(Metric::FluidRate, "the model matches the implementation", size(1.0), Unit::Ratio));
        rows.push(row(Metric::FluidDifference, "", Claim::Open, Unit::Percent));
        rows.push(row(Metric::FluidQueue, "", Claim::Open, Unit::Ratio));
    }
    rows
}

fn validation(m: &Measured<'_>) -> Vec<Row> {
    let gap = |case| m.values(case, Metric::LateGap(0, 2));
    let jitter = |case| m.values(case, Metric::LateJitter(2));
    let calmer = jitter(RED).and_then(|red| divide(red, &jitter(DEPLOYED)?));
    let row = |metric: &str, stated: &str, claim, unit, sample| Row::new(metric, stated, claim, unit, sample);
    // The goodput gap with the strawman parameters is nearly 100 %. The gap counts as closed if it shrinks by more than
    // 50 %.
    let apart = "gap between the two goodputs as part of their sum, last quarter";
    vec![
        row(&format!("{apart}: strawman"), "unfair", at_least(0.5), Unit::Percent, gap(STRAWMAN)),
        row(&format!("{apart}: deployed parameters"), "fair", at_most(1.0 - EQUAL), Unit::Percent, gap(DEPLOYED)),
        row(
            &format!("{apart}: strawman less timer of 55 us"),
            "a timer of 55 us mends the strawman",
            at_least(0.5),
            Unit::Percent,
            difference(gap(STRAWMAN), gap(TIMER)),
        )
        .note("the byte counter is still 150 KB"),
        row(
            &format!("{apart}: strawman less byte counter of 10 MB"),
            "a slower byte counter mends it",
            at_least(0.5),
            Unit::Percent,
            difference(gap(STRAWMAN), gap(COUNTER)),
        )
        .note("the timer is still 1.5 ms"),
        row(
            &format!("{apart}: strawman less timer of 55 us with a byte counter of 10 MB"),
            "both mend it",
            at_least(0.5),
            Unit::Percent,
            difference(gap(STRAWMAN), gap(BOTH)),
        ),
        row(
            &format!("{apart}: strawman less RED-like marking"),
            "RED-like marking mends it too",
            at_least(0.5),
            Unit::Percent,
            difference(gap(STRAWMAN), gap(RED)),
        ),
        row(
            "deviation of the second flow's goodput over time: RED-like marking / deployed",
            "RED-like marking alone is jittery, both together best",
            Claim::Above(1.0),
            Unit::Ratio,
            calmer,
        ),
    ]
}

fn benchmark(m: &Measured<'_>) -> Vec<Row> {
    let (pfc, dcqcn) = (|point| pfc("benchmark.toml", point), |point| dcqcn("benchmark.toml", point));
    let low = |case| on_the_link(m.values_of(case, RECOVERY, Metric::LowGbps));
    let users = |metric: Metric, stated: &str| {
        let sample = ratio(m, dcqcn("10"), pfc("10"), USERS, metric);
        Row::new(
            format!("users' {} at degree 10: DCQCN / PFC only", metric.text()),
            stated,
            Claim::Above(1.0),
            Unit::Ratio,
            sample,
        )
    };
    vec![
        Row::new(
            "pauses received by spines at degree 10: DCQCN / PFC only",
            "about 3,000 against more than 6 million",
            at_most(0.0005),
            Unit::Percent,
            m.ratio(dcqcn("10"), pfc("10"), Metric::Pauses("s")),
        ),
        users(Metric::MedianGbps, "without DCQCN it collapses"),
        users(Metric::LowGbps, "without DCQCN it collapses"),
        Row::new(
            "users' median goodput with DCQCN: degree 10 / degree 2",
            "flat",
            size(1.0),
            Unit::Ratio,
            ratio(m, dcqcn("10"), dcqcn("2"), USERS, Metric::MedianGbps),
        ),
        Row::new(
            "recovery's 10th percentile at degree 10: PFC only",
            "1.12 Gbps",
            size(1.12),
            Unit::Gbps,
            low(pfc("10")),
        ),
        Row::new(
            "recovery's 10th percentile at degree 10: DCQCN",
            "3.43 Gbps",
            size(3.43),
            Unit::Gbps,
            low(dcqcn("10")),
        ),
        Row::new(
            "recovery's 10th percentile at degree 10: DCQCN / PFC only",
            "3.43 against 1.12 Gbps",
            about(3.43 / 1.12, 1.0),
            Unit::Ratio,
            ratio(m, dcqcn("10"), pfc("10"), RECOVERY, Metric::LowGbps),
        ),
    ]
}

fn pairs(m: &Measured<'_>) -> Vec<Row> {
    let (many, few) = (dcqcn("benchmark-pairs.toml", "80"), pfc("benchmark-pairs.toml", "5"));
    let of = |case, metric| over_seeds(m.values_of(case, USERS, metric), median);
    let row = |metric: Metric| {
        Row::new(
            format!("users' {}, median over placements: 80 pairs with DCQCN / 5 pairs with PFC only", metric.text()),
            "the same: 16 times the load",
            size(1.0),
            Unit::Ratio,
            of(many, metric).and_then(|many| divide(many, &of(few, metric)?)),
        )
        .note(ONE)
    };
    let at_80 = ratio(m, many, pfc("benchmark-pairs.toml", "80"), USERS, Metric::MedianGbps);
    vec![
        row(Metric::MedianGbps),
        row(Metric::LowGbps),
        Row::new(
            "users' median goodput at 80 pairs: DCQCN / PFC only",
            "DCQCN carries more users",
            Claim::Above(1.0),
            Unit::Ratio,
            at_80,
        ),
    ]
}

fn need(m: &Measured<'_>) -> Vec<Row> {
    let low = |case, traffic| m.values_of(case, traffic, Metric::LowGbps);
    let (pfc, dcqcn) = (pfc("benchmark-need.toml", ""), dcqcn("benchmark-need.toml", ""));
    let mut rows = vec![Row::new(
        "recovery's 10th percentile: DCQCN without PFC",
        "0 Gbps",
        at_most(TIE),
        Unit::Gbps,
        low(WITHOUT_PFC, RECOVERY),
    )];
    for (whose, traffic) in [("users'", USERS), ("recovery's", RECOVERY)] {
        let stated = "misconfigured thresholds lie between PFC only and DCQCN";
        let row = |pair: &str, above, below| {
            let sample = difference(low(above, traffic), low(below, traffic));
            Row::new(format!("{whose} 10th percentile: {pair}"), stated, Claim::Above(0.0), Unit::Gbps, sample)
        };
        rows.push(row("DCQCN less misconfigured", dcqcn, MISCONFIGURED));
        rows.push(row("misconfigured less PFC only", MISCONFIGURED, pfc));
    }
    rows
}

fn queue(m: &Measured<'_>) -> Vec<Row> {
    let high = |case| m.values(case, Metric::QueueHigh);
    let dcqcn = dcqcn("queue.toml", "");
    vec![
        Row::new("95th percentile of the queue: DCQCN", "76.6 KB", size(76_600.0), Unit::Kilobytes, high(dcqcn)),
        Row::new("95th percentile of the queue: DCTCP", "162.9 KB", size(162_900.0), Unit::Kilobytes, high(DCTCP)),
        Row::new(
            "95th percentile of the queue: DCTCP / DCQCN",
            "162.9 against 76.6 KB",
            about(162.9 / 76.6, 1.0),
            Unit::Ratio,
            m.ratio(DCTCP, dcqcn, Metric::QueueHigh),
        ),
    ]
}

fn two_bottlenecks(m: &Measured<'_>) -> Vec<Row> {
    let middle = |case| on_the_link(m.values(case, Metric::LateGbps(1)));
    let mut rows = Vec::new();
    for (name, cut_off, red_like) in
        [("deployed timers", CUT_OFF, RED_LIKE), ("strawman's", STRAWMAN_CUT_OFF, STRAWMAN_RED_LIKE)]
    {
        let row = |metric: &str, stated: &str, claim, sample| {
            Row::new(format!("f2, {name}: {metric}"), stated, claim, Unit::Gbps, sample)
        };
        rows.push(row("cut-off marking", "starved, of an ideal 20 Gbps", at_most(10.0), middle(cut_off)));
        rows.push(row("RED-like marking", "", Claim::Open, middle(red_like)));
        let gain = difference(middle(red_like), middle(cut_off));
        rows.push(row("RED-like less cut-off marking", "RED-like marking mitigates", Claim::Above(0.0), gain));
    }
    rows
}

fn random_loss(m: &Measured<'_>) -> Vec<Row> {
    let kept = |run, loss: &str| {
        let of = |loss: &str| {
            let point = format!("{loss}, fixed 4 MB");
            m.values(Case { point: &point, ..lossy(run, "") }, Metric::PooledGbps)
        };
        divide(of(loss)?, &of("0.0")?)
    };
    let gain = |size: &str| {
        let point = format!("1e-2, fixed {size}");
        let case = |run| Case { point: &point, ..lossy(run, "") };
        m.ratio(case("IRN"), case("RoCE"), Metric::PooledGbps)
    };
    let row = |metric: &str, stated: &str, claim, unit, sample| Row::new(metric, stated, claim, unit, sample);
    let collapse = "collapses above a loss of 0.1 %";
    let mut rows = Vec::new();
    for (name, run) in [("go-back-N", "RoCE"), ("go-back-N, timeout of 67 ms", TIMEOUT)] {
        let percent = |metric: &str, stated, claim, sample| {
            row(&format!("{name}, 4 MB: {metric}"), stated, claim, Unit::Percent, sample)
        };
        rows.push(percent("kept at 0.01 % loss", "no collapse yet", at_least(0.5), kept(run, "1e-4")));
        rows.push(percent("kept at 0.1 % loss", "", Claim::Open, kept(run, "1e-3")));
        rows.push(percent("kept at 1 % loss", collapse, at_most(0.5), kept(run, "1e-2")));
    }
    rows.push(row("IRN, 4 MB: kept at 1 % loss", "", Claim::Open, Unit::Percent, kept("IRN", "1e-2")));
    for size in ["64 KB", "1 MB", "4 MB"] {
        rows.push(row(&format!("{size} at 1 % loss: IRN / go-back-N"), "", Claim::Open, Unit::Ratio, gain(size)));
    }
    rows
}
