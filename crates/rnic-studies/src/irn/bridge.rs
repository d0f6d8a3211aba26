//! From RoCE with PFC to Ultra Ethernet in steps of one idea each, on the paper's default case and on 1,024 hosts. The
//! rows have no stated values: no paper has these comparisons.

use crate::Source;
use crate::measured::{Case, Measured};
use crate::metric::Metric;
use crate::verdict::{Claim, Row, Unit};

/// A traffic pattern: its scenario file, its name in the rows, and the two metrics that matter in it.
struct Traffic {
    file: &'static str,
    name: &'static str,
    metrics: [Metric; 2],
}

const TRAFFIC: [Traffic; 4] = [
    Traffic { file: "bridge.toml", name: "default case", metrics: [Metric::FCT, Metric::FCT_P99] },
    Traffic { file: "bridge-permutation.toml", name: "permutation", metrics: [Metric::FCT, Metric::FCT_MAX] },
    Traffic { file: "bridge-all-to-all.toml", name: "all-to-all in turn", metrics: [Metric::FCT, Metric::FCT_P99] },
    Traffic { file: "bridge-at-once.toml", name: "all-to-all at once", metrics: [Metric::FCT, Metric::FCT_MAX] },
];

/// Settings of `--quick`: a fat-tree of 16 hosts.
const SMALL: &[(&str, &str)] = &[("fabric.k", "4"), ("traffic.sizes", "fixed 100 KB")];
const SMALL_MESSAGES: &[(&str, &str)] = &[("fabric.k", "4")];

/// The simulations of all rows.
pub(super) const SOURCES: &[Source] = &[
    Source::all("bridge.toml").quick(super::FEW, &[]),
    Source::all("bridge-permutation.toml").quick(SMALL, &[]),
    Source::all("bridge-all-to-all.toml").quick(SMALL_MESSAGES, &[]),
    Source::all("bridge-at-once.toml").quick(SMALL_MESSAGES, &[]),
];

/// A run and its congestion control, as in the scenario files.
type Run = (&'static str, &'static str);

const ROCE_PFC: Run = ("RoCE + PFC, DCQCN", "dcqcn");
const ROCE: Run = ("RoCE, DCQCN", "dcqcn");
const IRN_DCQCN: Run = ("IRN, DCQCN", "dcqcn");
const IRN: Run = ("IRN", "none");
const IRN_NSCC: Run = ("IRN, NSCC", "nscc");
const SPRAYED: Run = ("IRN, NSCC, sprayed", "nscc");
const UNTRIMMED: Run = ("UET without trimming", "nscc");
const UNTRIMMED_OUTPUT: Run = ("UET without trimming, output buffers", "nscc");
const UET: Run = ("UET", "nscc");
const CREDIT: Run = ("UET, credit", "rccc");
const BOTH: Run = ("UET, credit and NSCC", "rccc");

const RUNS: [Run; 11] =
    [ROCE_PFC, ROCE, IRN_DCQCN, IRN, IRN_NSCC, SPRAYED, UNTRIMMED, UNTRIMMED_OUTPUT, UET, CREDIT, BOTH];

/// The ideas: name, run without it, run with it.
const IDEAS: [(&str, Run, Run); 11] = [
    ("PFC with go-back-N", ROCE, ROCE_PFC),
    ("selective recovery", ROCE, IRN_DCQCN),
    ("selective recovery instead of PFC", ROCE_PFC, IRN_DCQCN),
    ("NSCC instead of DCQCN", IRN_DCQCN, IRN_NSCC),
    ("NSCC instead of a fixed window", IRN, IRN_NSCC),
    ("spraying", IRN_NSCC, SPRAYED),
    ("UET's window, recovery and ACK priority", SPRAYED, UNTRIMMED),
    ("trimming", UNTRIMMED_OUTPUT, UET),
    ("credit beside NSCC", UET, BOTH),
    ("credit instead of NSCC", UET, CREDIT),
    ("all together, UET instead of RoCE + PFC", ROCE_PFC, UET),
];

fn case(traffic: &Traffic, (run, cc): Run) -> Case<'static> {
    Case { file: traffic.file, run, cc, point: "" }
}

/// The factor by which each idea makes flows faster: time without it / time with it.
pub(super) fn ideas(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (idea, before, after) in IDEAS {
        for traffic in &TRAFFIC {
            for metric in traffic.metrics {
                let sample = m.ratio(case(traffic, before), case(traffic, after), metric);
                let label = format!("{idea}: {}, {}", traffic.name, metric.text());
                rows.push(Row::new(label, "", Claim::Open, Unit::Ratio, sample));
            }
        }
    }
    rows
}

/// The times of each run.
pub(super) fn times(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for run in RUNS {
        for traffic in &TRAFFIC {
            for metric in traffic.metrics {
                let label = format!("{}: {}, {}", run.0, traffic.name, metric.text());
                rows.push(Row::new(label, "", Claim::Open, Unit::Microseconds, m.values(case(traffic, run), metric)));
            }
        }
    }
    rows
}

/// The shares of packets that each run lost: dropped, retransmitted.
pub(super) fn losses(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for run in RUNS {
        for traffic in &TRAFFIC {
            let label = format!("{}: {}, retransmitted", run.0, traffic.name);
            let sample = m.values(case(traffic, run), Metric::RETRANSMITTED);
            rows.push(Row::new(label, "", Claim::Open, Unit::Percent, sample));
        }
    }
    rows
}
