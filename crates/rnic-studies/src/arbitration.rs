//! Figures 1 to 3 of the IRN paper under other assumptions about arbitration, which the paper does not state: the
//! number of packets in a turn at the switch and at the NIC, the order of arrival, the hysteresis of a full buffer, and
//! clocks.
//!
//! A row is a figure's claim at one point of the space, so `inside` and `outside` show the region in which the paper's
//! figures hold.

use super::measured::{Case, Measured, Metric, THREE};
use super::verdict::{Claim, Row, Unit};
use super::{Experiment, Source, Study, scenarios};

/// The study.
pub static STUDY: Study = Study {
    name: "irn-arbitration",
    title: "IRN paper, figures 1 to 3: sensitivity to arbitration",
    files: scenarios!["irn-arbitration", "../irn/default.toml", "map.toml", "long.toml", "variants.toml"],
    experiments: &[
        Experiment {
            name: "map",
            title: "Packets in a turn of a switch input, and of a flow at a NIC; 20,000 flows",
            seeds: 5,
            sources: &[Source::all(MAP).quick(FEW, &["1, 1", "110, 110"])],
            charts: &[],
            rows: |m| map(m, MAP),
        },
        Experiment {
            name: "long",
            title: "Three points of the map with 50,000 flows",
            seeds: 5,
            sources: &[Source::all(LONG).quick(FEW, &["1, 32"])],
            charts: &[],
            rows: |m| map(m, LONG),
        },
        Experiment {
            name: "variants",
            title: "Oldest packet first, hysteresis of a full buffer, clocks",
            seeds: 5,
            sources: &[Source::all(VARIANTS).quick(FEW, &[])],
            charts: &[],
            rows: variants,
        },
    ],
    remarks: &[
        "The point \"8, 32\" has turns of 8 packets at a switch input, and of 32 packets at a NIC. `ACKs` means that \
                RoCE acknowledges every packet; in the other runs RoCE sends no ACKs.",
    ],
};

const MAP: &str = "map.toml";
const LONG: &str = "long.toml";
const VARIANTS: &str = "variants.toml";
/// Settings of `--quick`.
const FEW: &[(&str, &str)] = &[("traffic.flows", "3000"), ("traffic.warmup", "300")];

/// The four runs of figures 1 to 3.
struct Runs<'r> {
    roce_pfc: &'r str,
    roce: &'r str,
    irn: &'r str,
    irn_pfc: &'r str,
}

/// The rows of figures 1 and 3 for the two runs of RoCE; `what` names the point of the space.
fn roce(m: &Measured<'_>, file: &str, point: &str, runs: &Runs<'_>, what: &str) -> Vec<Row> {
    let between = |low, high| Claim::Between { low, high, neutral: 1.0 };
    let mut rows = ratios(m, file, point, (runs.roce_pfc, runs.irn), what, ("figure 1: 2.8-3.7", between(2.8, 3.7)));
    rows.extend(ratios(m, file, point, (runs.roce, runs.roce_pfc), what, ("figure 3: 1.5-3", between(1.5, 3.0))));
    rows
}

/// The rows of figure 2, and of the drop rate of IRN.
fn irn(m: &Measured<'_>, file: &str, point: &str, runs: &Runs<'_>, what: &str) -> Vec<Row> {
    let claim = Claim::Between { low: 1.5, high: 2.0, neutral: 1.0 };
    let mut rows = ratios(m, file, point, (runs.irn_pfc, runs.irn), what, ("figure 2: 1.5-2", claim));
    let dropped = m.values(case(file, point, runs.irn), Metric::Dropped);
    let claim = Claim::Exactly { value: 0.085, neutral: 0.0 };
    rows.push(Row::new(format!("{what}: data packets dropped, IRN"), "8.5 %", claim, Unit::Percent, dropped));
    rows
}

/// A row for each of the three metrics.
fn ratios(
    m: &Measured<'_>, file: &str, point: &str, (above, below): (&str, &str), what: &str, (stated, claim): (&str, Claim),
) -> Vec<Row> {
    let row = |metric: Metric| {
        let sample = m.ratio(case(file, point, above), case(file, point, below), metric);
        Row::new(format!("{what}: {}, {above} / {below}", metric.text()), stated, claim, Unit::Ratio, sample)
    };
    THREE.map(row).into()
}

fn case<'c>(file: &'c str, point: &'c str, run: &'c str) -> Case<'c> {
    Case { file, run, cc: "none", point }
}

/// The rows of all points of a sweep over the granularity of arbitration.
fn map(m: &Measured<'_>, file: &str) -> Vec<Row> {
    let (irn_run, irn_pfc) = ("IRN", "IRN + PFC");
    let mut rows = Vec::new();
    for point in m.points(file) {
        let plain = Runs { roce_pfc: "RoCE + PFC", roce: "RoCE, no PFC", irn: irn_run, irn_pfc };
        let acks = Runs { roce_pfc: "RoCE + PFC, ACKs", roce: "RoCE, no PFC, ACKs", irn: irn_run, irn_pfc };
        let nacks = "RoCE, no PFC, NACKs for every packet";
        rows.extend(irn(m, file, point, &plain, point));
        rows.extend(roce(m, file, point, &plain, point));
        rows.extend(roce(m, file, point, &acks, point));
        let claim = Claim::Between { low: 1.5, high: 3.0, neutral: 1.0 };
        rows.extend(ratios(m, file, point, (nacks, plain.roce_pfc), point, ("figure 3: 1.5-3", claim)));
    }
    rows
}

/// The rows of the other switches and clocks.
fn variants(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for what in ["oldest first", "oldest first, bursts of 32", "hysteresis", "clock skew", "jitter"] {
        let names = ["RoCE + PFC", "RoCE, no PFC", "IRN", "IRN + PFC"].map(|run| format!("{run}, {what}"));
        let [roce_pfc, roce_run, irn_run, irn_pfc] = &names;
        let runs = Runs { roce_pfc, roce: roce_run, irn: irn_run, irn_pfc };
        rows.extend(irn(m, VARIANTS, "", &runs, what));
        rows.extend(roce(m, VARIANTS, "", &runs, what));
    }
    rows
}
