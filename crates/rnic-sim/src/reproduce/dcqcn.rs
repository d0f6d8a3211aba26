//! "Congestion Control for Large-Scale RDMA Deployments" (Zhu et al., SIGCOMM 2015): sections 2 to 6.

use super::figures::{Chart, Pick};
use super::measured::{Case, Measured, Metric, divide, each};
use super::verdict::{Claim, Row, Sample, Unit};
use super::{Experiment, Source, Study, scenarios};

/// The study.
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
    ],
    experiments: EXPERIMENTS,
    remarks: &[
        "The paper's testbed runs for minutes, these simulations for the milliseconds that each scenario says: long enough that what \
         is compared has settled. Where ECMP places flows, each seed is another placement; minimum, median and maximum are over them.",
        "A number that the paper gives is met within 5 %: most are read from its figures. Goodput is payload; of a link of 40 Gbps it \
         is at most 37.8 Gbps with frames of 1,500 bytes, and where the paper speaks of throughput it is scaled to the link.",
    ],
};

const PFC: &str = "PFC only";
const DCQCN: &str = "DCQCN";

/// A case of a run without congestion control.
const fn pfc(file: &'static str, point: &'static str) -> Case<'static> {
    Case { file, run: PFC, cc: "none", point }
}

/// The same with DCQCN.
const fn dcqcn(file: &'static str, point: &'static str) -> Case<'static> {
    Case { file, run: DCQCN, cc: "dcqcn", point }
}

const fn pick(name: &'static str, case: Case<'static>) -> Pick {
    Pick { name, case }
}

/// A number of the paper, met within 5 %; `neutral` would mean no effect.
const fn about(value: f64, neutral: f64) -> Claim {
    Claim::Between { low: value * 0.95, high: value * 1.05, neutral }
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
];

/// One value for all seeds: their median, smallest or largest.
fn over_seeds(sample: Sample, pick: fn(&[f64]) -> Option<f64>) -> Sample {
    let mut values = sample?;
    values.sort_unstable_by(f64::total_cmp);
    pick(&values).map(|value| vec![value]).ok_or_else(|| "there is no value".to_string())
}

fn median(sorted: &[f64]) -> Option<f64> {
    crate::results::stats::nearest_rank(sorted, 500)
}

fn least(sorted: &[f64]) -> Option<f64> {
    sorted.first().copied()
}

fn most(sorted: &[f64]) -> Option<f64> {
    sorted.last().copied()
}

fn difference(above: Sample, below: Sample) -> Sample {
    Ok(above?.into_iter().zip(below?).map(|(a, b)| a - b).collect())
}

fn unfairness(m: &Measured<'_>) -> Vec<Row> {
    let near = |case| m.values(case, Metric::FlowGbps(3));
    let far = |case| m.values(case, Metric::MostGbps(3));
    let spread = |case| difference(m.values(case, Metric::MostGbps(4)), m.values(case, Metric::LeastGbps(4)));
    let (pfc, dcqcn) = (pfc("unfairness.toml", ""), dcqcn("unfairness.toml", ""));
    let narrower = spread(pfc).and_then(|pfc| divide(pfc, &spread(dcqcn)?));
    let share = m.values(dcqcn, Metric::LeastGbps(4)).and_then(|l| divide(l, &m.values(dcqcn, Metric::MostGbps(4))?));
    vec![
        Row::new(
            "PFC only: H4's goodput, largest over placements",
            "H4 up to 20 Gbps",
            about(20.0, 10.0),
            Unit::Gbps,
            over_seeds(near(pfc), most),
        ),
        Row::new(
            "PFC only: H4's smallest goodput above the largest of the others, over all placements",
            "its minimum is above the others' maximum",
            Claim::Above(0.0),
            Unit::Gbps,
            difference(over_seeds(near(pfc), least), over_seeds(far(pfc), most)),
        ),
        Row::new(
            "PFC only: H4's goodput above the largest of the others, placement by placement",
            "H4 is always ahead",
            Claim::Above(0.0),
            Unit::Gbps,
            difference(near(pfc), far(pfc)),
        ),
        Row::new(
            "DCQCN: smallest / largest of the four goodputs",
            "four equal shares, little variance",
            Claim::Open,
            Unit::Ratio,
            share,
        ),
        Row::new(
            "largest less smallest goodput: PFC only / DCQCN",
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
            over_seeds(of(pfc("victim.toml", VICTIMS[0])), median),
        ),
        Row::new(
            "PFC only: with two senders under T3, median over placements",
            "4.5 Gbps",
            about(4.5, 20.0),
            Unit::Gbps,
            over_seeds(of(pfc("victim.toml", VICTIMS[2])), median),
        ),
        Row::new(
            "PFC only: lost by the victim to two senders under T3",
            "it loses more than half",
            Claim::Above(0.0),
            Unit::Percent,
            each(change(pfc), |ratio| 1.0 - ratio),
        ),
        Row::new(
            "DCQCN: victim's goodput with two senders under T3 / without",
            "independent of senders under T3",
            about(1.0, 0.0),
            Unit::Ratio,
            change(dcqcn),
        ),
        Row::new(
            "victim's goodput with two senders under T3: DCQCN / PFC only",
            "DCQCN protects the victim",
            Claim::Above(1.0),
            Unit::Ratio,
            divide(
                of(dcqcn("victim.toml", VICTIMS[2])).unwrap_or_default(),
                &of(pfc("victim.toml", VICTIMS[2])).unwrap_or_default(),
            ),
        ),
    ]
}
