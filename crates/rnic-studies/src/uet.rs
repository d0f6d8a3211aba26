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
    files: scenarios![
        "uet",
        "permutation.toml",
        "one.toml",
        "one.csv",
        "incast.toml",
        "incast-15.toml",
        "incast-1023.toml",
        "permutation-16.toml",
        "slow-links.toml",
        "oversubscribed-4.toml",
        "oversubscribed-8.toml"
    ],
    experiments: EXPERIMENTS,
    exact: &["one", "one-credit"],
    remarks: &[
        "The stated values are recorded outputs of a simulator, not of a paper. Each is met within 3 % for times and 15 % \
         for retransmissions.",
        "The reference simulator ends a flow when its last acknowledgement has arrived at the sender. rnic ends it when the \
         last byte has arrived, so the rows add the time of an acknowledgement over the longest path, 6.03 us.",
        "The permutations of the reference are other random permutations, and its hosts of an incast are in fixed places.",
        "The retransmission timeout, the range of packets that a receiver keeps track of, and the queues of slow links are \
         those of the reference. With credit its last switches do not mark; here all switches mark.",
    ],
};

/// Time of an acknowledgement of 64 bytes over the longest path: six links of 100 Gbps and 1 us.
const RETURN_US: f64 = 6.0 * (1.0 + 64.0 * 8.0 / 100e3);

/// The same for 64 bytes over four links, in a fabric of two tiers.
const RETURN_TWO_TIERS_US: f64 = 4.0 * (1.0 + 64.0 * 8.0 / 100e3);

/// The run with RCCC alone, and with NSCC beside it.
const CREDIT: &str = "UET, credit";
const BOTH: &str = "UET, credit and NSCC";

const PER_PACKET: &str = "UET, an ACK per packet";
const REPS: &str = "UET, REPS";
const REPS_PER_PACKET: &str = "UET, REPS, an ACK per packet";
const BITMAP: &str = "UET, bitmap";
const OBLIVIOUS: &str = "UET, oblivious";
const ONE_PATH: &str = "UET, one path";

/// Runs of the permutation, with the time that the reference needs, in microseconds, and what its output is.
const PERMUTATION: [(&str, f64, &str); 7] = [
    ("UET", 200.5, "200.5 us (mixed)"),
    (PER_PACKET, 193.2, "193.2 us (mixed)"),
    (REPS, 208.2, "208.2 us (REPS)"),
    (REPS_PER_PACKET, 198.2, "198.2 us (REPS)"),
    (BITMAP, 200.5, "200.5 us (bitmap)"),
    (OBLIVIOUS, 212.8, "212.8 us (oblivious)"),
    (ONE_PATH, 889.9, "889.9 us (one path)"),
];

/// Runs that the rows of a permutation need.
const RUNS: &[&str] = &["UET", PER_PACKET, REPS, REPS_PER_PACKET, BITMAP, OBLIVIOUS, ONE_PATH];

const SPRAYED: &[&str] = &["UET", PER_PACKET, REPS, REPS_PER_PACKET, BITMAP, OBLIVIOUS];

/// Runs by congestion control.
const ALL: &[&str] = &["UET", CREDIT, BOTH];

/// Runs of the permutation with slow links, with the time of the reference.
const SLOW: [(&str, f64, &str); 6] = [
    ("UET", 219.6, "219.6 us (mixed)"),
    (PER_PACKET, 211.8, "211.8 us (mixed)"),
    (REPS, 245.8, "245.8 us (REPS)"),
    (REPS_PER_PACKET, 206.7, "206.7 us (REPS)"),
    (BITMAP, 220.3, "220.3 us (bitmap)"),
    (OBLIVIOUS, 280.8, "280.8 us (oblivious)"),
];

/// Settings of `--quick`: a fat tree of 16 hosts.
const QUICK: &[(&str, &str)] = &[("fabric.k", "4"), ("traffic.sizes", "fixed 200 KB")];
const QUICK_SLOW: &[(&str, &str)] = &[("traffic.sizes", "fixed 50 KB")];
const QUICK_SPINES: &[(&str, &str)] = &[("traffic.sizes", "fixed 100 KB")];
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
                    ONE_PATH => row.note("decided by the collisions of one permutation"),
                    _ => row,
                }
            };
            PERMUTATION.into_iter().map(row).collect()
        },
    },
    Experiment {
        name: "one-credit",
        title: "One flow of 2 MB with credit",
        seeds: 1,
        sources: &[Source::all("one.toml").runs(&[CREDIT, BOTH])],
        charts: &[],
        rows: |m| with_credit(m, "one.toml", "one flow", [177.4, 177.4]),
    },
    Experiment {
        name: "incast-credit",
        title: "Incast of 15 and 127 flows of 2 MB with credit",
        seeds: 3,
        sources: &[
            Source::all("incast-15.toml").runs(&[CREDIT, BOTH]).quick(QUICK_INCAST, &[]),
            Source::all("incast.toml").runs(&[CREDIT, BOTH]).quick(QUICK_INCAST, &[]),
        ],
        charts: &[],
        rows: |m| {
            let mut rows = with_credit(m, "incast-15.toml", "15 flows", [2_464.4, 2_462.9]);
            rows.extend(with_credit(m, "incast.toml", "127 flows", [20_891.0, 20_892.0]));
            rows.push(retransmitted(m, CREDIT, "127 flows with credit", 6_218.0, "6,218"));
            rows
        },
    },
    Experiment {
        name: "incast-1023",
        title: "Incast of 1,023 flows of 100 KB",
        seeds: 3,
        sources: &[Source::all("incast-1023.toml").runs(ALL).quick(QUICK_INCAST, &[])],
        charts: &[],
        rows: |m| {
            let mut rows = vec![time(m, "incast-1023.toml", "UET", "1,023 flows", 10_556.0, "10,556 us")];
            rows.extend(with_credit(m, "incast-1023.toml", "1,023 flows", [8_902.0, 8_803.0]));
            rows
        },
    },
    Experiment {
        name: "permutation-credit",
        title: "Permutation of 1,024 hosts, 2 MB, with credit",
        seeds: 3,
        sources: &[Source::all("permutation.toml").runs(&[CREDIT, BOTH]).quick(QUICK, &[])],
        charts: &[],
        rows: |m| with_credit(m, "permutation.toml", "permutation", [203.4, 202.6]),
    },
    Experiment {
        name: "permutation-16",
        title: "Permutation of 16 hosts, 2 MB",
        seeds: 5,
        sources: &[Source::all("permutation-16.toml").runs(ALL).quick(QUICK, &[])],
        charts: &[],
        rows: |m| {
            let mut rows = vec![time(m, "permutation-16.toml", "UET", "16 hosts", 194.0, "194.0 us")];
            rows.extend(with_credit(m, "permutation-16.toml", "16 hosts", [195.7, 196.8]));
            rows
        },
    },
    Experiment {
        name: "slow-links",
        title: "Permutation of 1,024 hosts, 2 MB, with 8 slow links, by path selection",
        seeds: 10,
        sources: &[Source::all("slow-links.toml").runs(SPRAYED).quick(QUICK_SLOW, &[])],
        charts: &[],
        rows: |m| SLOW.iter().map(|(run, us, stated)| time(m, "slow-links.toml", run, run, *us, stated)).collect(),
    },
    Experiment {
        name: "oversubscription",
        title: "Permutation of 1,024 hosts, 2 MB, with 4:1 and 8:1 oversubscription",
        seeds: 10,
        sources: &[
            Source::all("oversubscribed-4.toml").runs(ALL).quick(QUICK_SPINES, &[]),
            Source::all("oversubscribed-8.toml").runs(ALL).quick(QUICK_SPINES, &[]),
        ],
        charts: &[],
        rows: |m| {
            let mut rows = Vec::new();
            for (file, what, us) in [
                ("oversubscribed-4.toml", "4:1", [786.0, 750.0, 814.0]),
                ("oversubscribed-8.toml", "8:1", [1_443.0, 1_459.0, 1_479.0]),
            ] {
                for (run, us) in ALL.iter().zip(us) {
                    rows.push(slowest(
                        m,
                        case(file, run),
                        RETURN_TWO_TIERS_US,
                        (&format!("{what}, {run}"), us, &format!("{us} us")),
                    ));
                }
            }
            rows
        },
    },
];

/// Whose congestion control is which: NSCC, RCCC, both.
fn case<'a>(file: &'a str, run: &'a str) -> Case<'a> {
    let cc = if run == CREDIT || run == BOTH { "rccc" } else { "nscc" };
    Case { file, run, cc, point: "" }
}

/// The completion time of the slowest flow, as the reference counts it: `back` after the last byte has arrived. The
/// claim is what the row is called, the time of the reference in microseconds, and how the page states it.
fn slowest(m: &Measured<'_>, case: Case<'_>, back: f64, (what, us, stated): (&str, f64, &str)) -> Row {
    let sample = each(m.values(case, Metric::FCT_MAX), |time| time + back);
    let claim = Claim::Within { low: 0.97 * us, high: 1.03 * us };
    Row::new(format!("{what}: slowest flow"), stated, claim, Unit::Microseconds, sample)
}

fn time(m: &Measured<'_>, file: &str, run: &str, what: &str, us: f64, stated: &str) -> Row {
    slowest(m, case(file, run), RETURN_US, (what, us, stated))
}

/// The rows of RCCC alone, and of both, with the times of the reference.
fn with_credit(m: &Measured<'_>, file: &str, what: &str, us: [f64; 2]) -> Vec<Row> {
    let row = |(run, us): (&str, f64)| time(m, file, run, &format!("{what}, {run}"), us, &format!("{us} us"));
    [CREDIT, BOTH].into_iter().zip(us).map(row).collect()
}

fn retransmitted(m: &Measured<'_>, run: &str, what: &str, packets: f64, stated: &str) -> Row {
    Row::new(
        format!("{what}: retransmitted packets"),
        stated,
        Claim::Within { low: 0.85 * packets, high: 1.15 * packets },
        Unit::Count,
        m.values(case("incast.toml", run), Metric::TRIMMED),
    )
}

fn incast(m: &Measured<'_>) -> Vec<Row> {
    vec![
        time(m, "incast-15.toml", "UET", "15 flows", 2_478.5, "2,478.5 us"),
        time(m, "incast.toml", "UET", "127 flows", 21_029.0, "21,029 us"),
        retransmitted(m, "UET", "127 flows", 72_623.0, "72,623"),
    ]
}
