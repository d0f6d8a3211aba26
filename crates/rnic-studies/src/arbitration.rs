//! Study of figures 1 to 3 of the IRN paper under different assumptions about the switches and NICs, because the paper
//! does not state these properties. The study varies how many packets a switch input or a flow at a NIC sends in one
//! turn, and whether the oldest packet goes first. It also varies whether a full buffer drops packets until a part of
//! it is free again, and whether clocks are imperfect.
//!
//! Each row of the results compares one claim of a figure with the measurement under one combination of these
//! assumptions. The outcomes, `inside` or `outside` the claim, show under which assumptions the paper's figures hold.

use super::measured::{Case, Measured};
use super::metric::{Metric, THREE};
use super::verdict::{Claim, Row, Unit};
use super::{Experiment, Source, Study, scenarios};

/// Definition of the study: its scenario files, experiments and remarks.
pub static STUDY: Study = Study {
    name: "irn-arbitration",
    title: "IRN paper, figures 1 to 3: sensitivity to arbitration",
    files: scenarios![
        "irn-arbitration",
        "../irn/default.toml",
        "map.toml",
        "segments.toml",
        "long.toml",
        "variants.toml"
    ],
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
            name: "segments",
            title: "rnic's default: turns of 64 KB at switches and NICs; 20,000 flows",
            seeds: 5,
            sources: &[Source::all(SEGMENTS).quick(FEW, &[])],
            charts: &[],
            rows: |m| map(m, SEGMENTS),
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
    exact: &[],
    remarks: &[
        "The point \"8, 32\" has turns of 8 packets at a switch input, and of 32 packets at a NIC. `ACKs` means that \
                RoCE acknowledges every packet; in the other runs RoCE sends no ACKs.",
    ],
};

const MAP: &str = "map.toml";
const SEGMENTS: &str = "segments.toml";
const LONG: &str = "long.toml";
const VARIANTS: &str = "variants.toml";
/// Settings that `--quick` changes, so that only few flows are simulated.
const FEW: &[(&str, &str)] = &[("traffic.flows", "3000"), ("traffic.warmup", "300")];

/// Names of the four runs that figures 1 to 3 of the IRN paper compare.
struct Runs<'r> {
    roce_pfc: &'r str,
    roce: &'r str,
    irn: &'r str,
    irn_pfc: &'r str,
}

/// Rows of verdicts about figures 1 and 3, which show RoCE with and without PFC. `what` names the assumptions under
/// which the runs were simulated.
fn roce(m: &Measured<'_>, file: &str, point: &str, runs: &Runs<'_>, what: &str) -> Vec<Row> {
    let between = |low, high| Claim::Between { low, high, neutral: 1.0 };
    let label = |runs: &str| format!("{what}: {runs}");
    let figure_1 = ("figure 1: 2.8-3.7", between(2.8, 3.7));
    let mut rows = ratios(m, file, point, (runs.roce_pfc, runs.irn), &label("RoCE + PFC / IRN"), figure_1);
    let figure_3 = ("figure 3: 1.5-3", between(1.5, 3.0));
    rows.extend(ratios(m, file, point, (runs.roce, runs.roce_pfc), &label("RoCE, no PFC / RoCE + PFC"), figure_3));
    rows
}

/// Rows of verdicts about figure 2, which compares IRN with and without PFC, and about the drop rate of IRN.
fn irn(m: &Measured<'_>, file: &str, point: &str, runs: &Runs<'_>, what: &str) -> Vec<Row> {
    let claim = Claim::Between { low: 1.5, high: 2.0, neutral: 1.0 };
    let label = format!("{what}: IRN + PFC / IRN");
    let mut rows = ratios(m, file, point, (runs.irn_pfc, runs.irn), &label, ("figure 2: 1.5-2", claim));
    let dropped = m.values(case(file, point, runs.irn), Metric::DROPPED);
    let claim = Claim::effect(0.085, 0.001, 0.0);
    rows.push(Row::new(format!("{what}: data packets dropped, IRN"), "8.5 %", claim, Unit::Percent, dropped));
    rows
}

/// A row of verdicts about the ratio of two runs (`above` / `below`) for each of the metrics [`THREE`].
fn ratios(
    m: &Measured<'_>, file: &str, point: &str, (above, below): (&str, &str), label: &str,
    (stated, claim): (&str, Claim),
) -> Vec<Row> {
    let row = |metric: Metric| {
        let sample = m.ratio(case(file, point, above), case(file, point, below), metric);
        Row::new(format!("{label}, {}", metric.text()), stated, claim, Unit::Ratio, sample)
    };
    THREE.map(row).into()
}

fn case<'c>(file: &'c str, point: &'c str, run: &'c str) -> Case<'c> {
    Case { file, run, cc: "none", point }
}

/// Rows of verdicts for all points of a sweep over the granularity of arbitration, the number of packets in one turn.
fn map(m: &Measured<'_>, file: &str) -> Vec<Row> {
    let irn_run = "IRN";
    let irn_pfc = "IRN + PFC";
    let mut rows = Vec::new();
    for point in m.points(file) {
        let plain = Runs { roce_pfc: "RoCE + PFC", roce: "RoCE, no PFC", irn: irn_run, irn_pfc };
        let acks = Runs { roce_pfc: "RoCE + PFC, ACKs", roce: "RoCE, no PFC, ACKs", irn: irn_run, irn_pfc };
        let nacks = "RoCE, no PFC, NACKs for every packet";
        rows.extend(irn(m, file, point, &plain, point));
        rows.extend(roce(m, file, point, &plain, point));
        rows.extend(roce(m, file, point, &acks, &format!("{point}, ACKs")));
        let claim = Claim::Between { low: 1.5, high: 3.0, neutral: 1.0 };
        let label = format!("{point}, NACKs for every packet: RoCE, no PFC / RoCE + PFC");
        rows.extend(ratios(m, file, point, (nacks, plain.roce_pfc), &label, ("figure 3: 1.5-3", claim)));
    }
    rows
}

/// Rows of verdicts for the runs with other switches (oldest packet first, hysteresis of a full buffer) and with
/// imperfect clocks.
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
