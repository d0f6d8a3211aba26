//! Ultra Ethernet Transport beside the recorded outputs of the public reference simulator of the Ultra Ethernet
//! Consortium (uet-htsim, folder `validate_outputs`, August 2025).

use super::measured::{Case, Measured, each};
use super::metric::Metric;
use super::verdict::{Claim, Row, Unit};
use super::{Experiment, Source, Study, scenarios};

/// Definition of the study: its scenario files, experiments and remarks.
pub static STUDY: Study = Study {
    name: "uet",
    title: "Ultra Ethernet Transport and its public reference simulator",
    files: scenarios!["uet", "permutation.toml", "one.toml", "one.csv", "incast.toml", "incast-15.toml"],
    experiments: EXPERIMENTS,
    exact: &["one"],
    remarks: &[
        "The stated values are recorded outputs of a simulator, not of a paper. Each is met within 3 % for times and 15 % \
         for retransmissions.",
        "The reference simulator ends a flow when its last acknowledgement has arrived at the sender. rnic ends it when the \
         last byte has arrived, so the rows add the time of an acknowledgement over the longest path, 6.03 us.",
        "The permutations of the reference are other random permutations, and its hosts of an incast are in fixed places.",
        "NSCC alone controls the window; credit of receivers (RCCC) is not implemented.",
    ],
};

/// Time of an acknowledgement of 64 bytes over the longest path: six links of 100 Gbps and 1 us.
const RETURN_US: f64 = 6.0 * (1.0 + 64.0 * 8.0 / 100e3);

/// Runs of the permutation, with the time that the reference needs, in microseconds, and what its output is.
const PERMUTATION: [(&str, f64, &str); 5] = [
    ("UET", 193.2, "193.2 us (mixed, an ACK per packet)"),
    ("UET, REPS", 198.2, "198.2 us (REPS, an ACK per packet)"),
    ("UET, bitmap", 200.5, "200.5 us (bitmap, an ACK per 16 KB)"),
    ("UET, oblivious", 212.8, "212.8 us (oblivious, an ACK per 16 KB)"),
    ("UET, one path", 889.9, "889.9 us (one path)"),
];

/// Runs that the rows of a permutation need.
const RUNS: &[&str] = &["UET", "UET, REPS", "UET, bitmap", "UET, oblivious", "UET, one path"];

/// Settings of `--quick`: a fat tree of 16 hosts.
const QUICK: &[(&str, &str)] = &[("fabric.k", "4"), ("traffic.sizes", "fixed 200 KB")];
const QUICK_INCAST: &[(&str, &str)] = &[("fabric.k", "8"), ("traffic.total", "3 MB"), ("traffic.senders", "15")];

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "one",
        title: "One flow of 2 MB",
        seeds: 1,
        sources: &[Source::all("one.toml").runs(&["UET"])],
        charts: &[],
        rows: |m| vec![time(m, "one.toml", "UET", "one flow", 176.2, "176.2 us")],
    },
    Experiment {
        name: "incast",
        title: "Incast of 15 and 127 flows of 2 MB",
        seeds: 5,
        sources: &[
            Source::all("incast-15.toml").runs(&["UET"]).quick(QUICK_INCAST, &[]),
            Source::all("incast.toml").runs(&["UET"]).quick(QUICK_INCAST, &[]),
        ],
        charts: &[],
        rows: incast,
    },
    Experiment {
        name: "permutation",
        title: "Permutation of 1,024 hosts, 2 MB, by path selection",
        seeds: 5,
        sources: &[Source::all("permutation.toml").runs(RUNS).quick(QUICK, &[])],
        charts: &[],
        rows: |m| {
            let row = |(run, us, stated): (&'static str, f64, &str)| {
                let row = time(m, "permutation.toml", run, run, us, stated);
                match run {
                    "UET, one path" => row.note("decided by the collisions of one permutation"),
                    _ => row,
                }
            };
            PERMUTATION.into_iter().map(row).collect()
        },
    },
];

const fn case(file: &'static str, run: &'static str) -> Case<'static> {
    Case { file, run, cc: "nscc", point: "" }
}

/// The completion time of the slowest flow, as the reference counts it.
fn time(m: &Measured<'_>, file: &'static str, run: &'static str, what: &str, us: f64, stated: &str) -> Row {
    let sample = each(m.values(case(file, run), Metric::FCT_MAX), |time| time + RETURN_US);
    let claim = Claim::Within { low: 0.97 * us, high: 1.03 * us };
    Row::new(format!("{what}: slowest flow"), stated, claim, Unit::Microseconds, sample)
}

fn incast(m: &Measured<'_>) -> Vec<Row> {
    let retransmitted = m.values(case("incast.toml", "UET"), Metric::TRIMMED);
    vec![
        time(m, "incast-15.toml", "UET", "15 flows", 2_478.5, "2,478.5 us"),
        time(m, "incast.toml", "UET", "127 flows", 21_029.0, "21,029 us"),
        Row::new(
            "127 flows: retransmitted packets",
            "72,623",
            Claim::Within { low: 0.85 * 72_623.0, high: 1.15 * 72_623.0 },
            Unit::Count,
            retransmitted,
        ),
    ]
}
