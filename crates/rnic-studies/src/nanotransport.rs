//! Study of "NanoTransport: A Low-Latency, Programmable Transport Layer for NICs" (Arslan et al., SOSR 2021). It has
//! the incast of the paper's figure 2, messages at line rate, and experiments on how sensitive the results are.

use super::figures::{Chart, Pick};
use super::measured::{Case, Measured, divide, each};
use super::metric::Metric;
use super::verdict::{Claim, Row, Sample, Unit};
use super::{Experiment, Source, Study, scenarios};
use rnic_record::MARGIN;
use rnic_results::stats::mean;

/// Definition of the study: its scenario files, experiments and remarks.
pub static STUDY: Study = Study {
    name: "nanotransport",
    title: "NanoTransport: A Low-Latency, Programmable Transport Layer for NICs (SOSR 2021)",
    files: scenarios![
        "nanotransport",
        "incast.toml",
        "incast.csv",
        "incast-reversed.csv",
        "incast-staggered.csv",
        "sensitivity.toml",
        "small-buffer.toml",
        "authors-simulator.toml",
        "authors-simulator.csv",
        "line-rate.toml",
        "ndp-switch.toml",
        "fat-tree.toml",
        "p4.toml",
        "p4-long.toml",
        "../../p4/ndp.p4",
        "../../p4/homa.p4",
        "../../p4/homa-tr.p4",
        "../../p4/hpcc.p4",
        "../../p4/dcqcn.p4",
        "../../p4/swift.p4",
        "../../p4/include/quotient.p4",
        "../../p4/include/inverse_roots.p4",
        "../../p4/include/frame.p4",
        "../../p4/include/parser.p4",
        "../../p4/include/reciprocals.p4",
    ],
    experiments: EXPERIMENTS,
    exact: &["fig2", "fig2-small", "sensitivity", "small-buffer", "authors-simulator", "p4", "line-rate", "ndp-switch"],
    remarks: &[
        "The incast has no random numbers, so all seeds give the same packets and one seed is enough, but for `p4-long`, where \
         marks are random. The experiment `sensitivity` varies the order of packets that reach the switch at the same time.",
        "Slowdown is defined as in the paper: completion time / completion time of n packets of 1,088 bytes at 200 Gbps on an empty \
         network, which is (n - 1) x 43.5 ns + 43.5 ns + 2 x 87.5 ns. A number of the paper is met within 5 %. The numbers were \
         read from a figure with an accuracy of 0.05.",
    ],
};

/// Ten messages as (bytes, packets): the first has this number of packets, each further one two packets more. A packet
/// has 1,024 bytes of payload.
const fn messages(first: u64) -> [(u64, f64); 10] {
    let mut all = [(0, 0.0); 10];
    let mut index = 0;
    while index < all.len() {
        let packets = first + 2 * index as u64;
        all[index] = (packets * 1_024, packets as f64);
        index += 1;
    }
    all
}

/// The messages of the incast in the paper's figure 2, as (bytes, packets).
const MESSAGES: [(u64, f64); 10] = messages(20);
/// Slowdowns of NDP that the paper's figure 2b shows for the ten messages, with the large buffer.
const NDP_STATED: [f64; 10] = [8.2, 8.57, 8.52, 8.47, 8.34, 8.1, 7.92, 7.64, 7.36, 7.09];
/// Slowdowns of Homa and of Homa-Tr that the paper's figure 2b shows for the ten messages, with the large buffer.
const HOMA_STATED: [f64; 10] = [5.33, 5.47, 5.56, 5.79, 5.98, 6.21, 6.49, 6.81, 6.95, 7.09];

/// The messages of the incast that the authors published with their simulator, as (bytes, packets).
const AUTHORS_MESSAGES: [(u64, f64); 10] = messages(18);
/// Median and 90th percentile of the ten slowdowns that the authors published with their simulator, as (the run that
/// behaves like the simulator, buffer, median, 90th percentile).
const AUTHORS: [(&str, &str, f64, f64); 6] = [
    ("NDP, retransmits with PULLs", AUTHORS_LARGE, 7.087, 7.290),
    (HOMA, AUTHORS_LARGE, 5.455, 6.215),
    (LIKE_THE_AUTHORS, AUTHORS_LARGE, 5.455, 6.215),
    ("NDP, retransmits with PULLs", AUTHORS_SMALL, 7.187, 7.727),
    (HOMA, AUTHORS_SMALL, 9.242, 11.115),
    (LIKE_THE_AUTHORS, AUTHORS_SMALL, 4.737, 6.118),
];
/// Runs of the authors' incast that retransmit trimmed packets or order their headers unlike the authors' simulator.
const UNLIKE_THE_AUTHORS: [&str; 3] = [NDP, "Homa-Tr, headers above", "Homa-Tr, headers below"];
const LIKE_THE_AUTHORS: &str = "Homa-Tr, headers below, retransmits with GRANTs";
const AUTHORS_LARGE: &str = "119900 B";
const AUTHORS_SMALL: &str = "63220 B";

/// Resolution with which slowdowns are read from the paper's figure: the error is at most half of this value.
const READING: f64 = 0.1;

const LARGE: &str = "108.8 KB";
const SMALL: &str = "54.4 KB";
const NDP: &str = "NDP";
const HOMA: &str = "Homa";
const HOMA_TR: &str = "Homa-Tr";
/// Names of the runs with transports that the paper's figure 2 does not show.
const OTHERS: [&str; 2] = ["HPCC", "IRN"];

/// The case (a run with one size of the switch buffer) of the incast in the paper's figure 2.
const fn incast(run: &'static str, buffer: &'static str) -> Case<'static> {
    Case { file: "incast.toml", run, cc: "none", point: buffer }
}

/// The case (a run with one size of the switch buffer) of a variant of the incast, with another order of the packets or
/// other settings of Homa.
const fn changed(run: &'static str, buffer: &'static str) -> Case<'static> {
    Case { file: "sensitivity.toml", ..incast(run, buffer) }
}

const fn of_file(file: &'static str, run: &'static str, cc: &'static str) -> Case<'static> {
    Case { file, run, cc, point: "" }
}

const fn pick(name: &'static str, case: Case<'static>) -> Pick {
    Pick { name, case }
}

const fn all_five(buffer: &'static str) -> [Pick; 5] {
    [
        pick(NDP, incast(NDP, buffer)),
        pick(HOMA, incast(HOMA, buffer)),
        pick(HOMA_TR, incast(HOMA_TR, buffer)),
        pick(OTHERS[0], incast(OTHERS[0], buffer)),
        pick(OTHERS[1], incast(OTHERS[1], buffer)),
    ]
}

const WITH_LARGE: [Pick; 5] = all_five(LARGE);
const WITH_SMALL: [Pick; 5] = all_five(SMALL);
const NDP_ORDERS: [Pick; 3] = [
    pick("shortest first", incast(NDP, LARGE)),
    pick("longest first", changed("NDP, longest first", LARGE)),
    pick("staggered", changed("NDP, staggered", LARGE)),
];
const HOMA_CHANGES: [Pick; 6] = [
    pick("as in fig2", incast(HOMA, LARGE)),
    pick("longest first", changed("Homa, longest first", LARGE)),
    pick("staggered", changed("Homa, staggered", LARGE)),
    pick("one granted priority", changed("Homa, one granted priority", LARGE)),
    pick("one granted priority, longest first", changed("Homa, one granted priority, longest first", LARGE)),
    pick("one grant at a time", changed("Homa, one grant at a time", LARGE)),
];
/// Variants of the incast, with another order of the packets or other settings of Homa, as (name of the run, slowdowns
/// in the paper's figure 2b to compare with).
const CHANGES: [(&str, &[f64; 10]); 10] = [
    ("NDP, longest first", &NDP_STATED),
    ("NDP, staggered", &NDP_STATED),
    ("Homa, longest first", &HOMA_STATED),
    ("Homa, staggered", &HOMA_STATED),
    ("Homa, one granted priority", &HOMA_STATED),
    ("Homa, one granted priority, longest first", &HOMA_STATED),
    ("Homa, one grant at a time", &HOMA_STATED),
    ("Homa-Tr, longest first", &HOMA_STATED),
    ("Homa-Tr, one granted priority", &HOMA_STATED),
    ("Homa-Tr, one granted priority, longest first", &HOMA_STATED),
];
const OWN_SWITCH: [&str; 5] =
    ["trimmed", "few headers, dropped", "few headers, returned", "not trimmed", "as in the NDP paper"];
const fn long(run: &'static str, cc: &'static str) -> Case<'static> {
    of_file("p4-long.toml", run, cc)
}
const LONG: [Pick; 4] = [
    pick("DCQCN, P4", long("DCQCN, P4", "none")),
    pick("DCQCN, Rust", long("DCQCN, Rust", "dcqcn")),
    pick("Swift, P4", long("Swift, P4", "none")),
    pick("Swift, Rust", long("Swift, Rust", "swift")),
];
/// Names of the runs whose transports also exist as P4 programs.
const IN_P4: [&str; 4] = [NDP, HOMA, HOMA_TR, OTHERS[0]];
const TREE: &str = "fat-tree.toml";

/// Completion time in microseconds of a message of `packets` packets of 1,088 bytes on an empty network at 200 Gbps.
fn ideal_us(packets: f64) -> f64 {
    (packets - 1.0) * 1_088.0 * 8.0 / 200e3 + 0.043_5 + 2.0 * 0.087_5
}

fn slowdown_of(us: f64, packets: f64) -> f64 {
    us / ideal_us(packets)
}

const fn slowdowns(
    title: &'static str, picks: &'static [Pick], stated: &'static [(&'static str, &'static [f64])],
) -> Chart {
    Chart::EachFlow { title, axis: "packets of the message", sizes: &MESSAGES, value: slowdown_of, picks, stated }
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "fig2",
        title: "Figure 2: incast of ten messages, with a buffer for all of them",
        seeds: 1,
        sources: &[Source::all("incast.toml")],
        charts: &[
            Chart::Queues { title: "Queue of the receiver's link, 108.8 KB for each priority", picks: &WITH_LARGE },
            slowdowns(
                "Slowdown",
                &WITH_LARGE,
                &[("NDP, the paper", &NDP_STATED), ("Homa and Homa-Tr, the paper", &HOMA_STATED)],
            ),
        ],
        rows: large_buffer,
    },
    Experiment {
        name: "fig2-small",
        title: "Figure 2: the same incast with half the buffer",
        seeds: 1,
        sources: &[Source::all("incast.toml")],
        charts: &[
            Chart::Queues { title: "Queue of the receiver's link, 54.4 KB for each priority", picks: &WITH_SMALL },
            slowdowns("Slowdown", &WITH_SMALL, &[]),
        ],
        rows: small_buffer,
    },
    Experiment {
        name: "sensitivity",
        title: "Sensitivity of the slowdowns to the order of simultaneous packets and to Homa's priorities",
        seeds: 1,
        sources: &[Source::all("sensitivity.toml"), Source::all("incast.toml").runs(&[NDP, HOMA, HOMA_TR])],
        charts: &[
            slowdowns("Slowdown of NDP, large buffer", &NDP_ORDERS, &[("the paper", &NDP_STATED)]),
            slowdowns("Slowdown of Homa, large buffer", &HOMA_CHANGES, &[("the paper", &HOMA_STATED)]),
        ],
        rows: sensitivity,
    },
    Experiment {
        name: "small-buffer",
        title: "What the results with the small buffer depend on",
        seeds: 1,
        sources: &[Source::all("small-buffer.toml")],
        charts: &[],
        rows: small_buffer_changes,
    },
    Experiment {
        name: "authors-simulator",
        title: "The incast that the authors published with their simulator",
        seeds: 1,
        sources: &[Source::all("authors-simulator.toml")],
        charts: &[],
        rows: authors_simulator,
    },
    Experiment {
        name: "p4",
        title: "The same incast with the transports as P4 programs",
        seeds: 1,
        sources: &[Source::all("p4.toml"), Source::all("incast.toml").runs(&IN_P4)],
        charts: &[],
        rows: in_p4,
    },
    Experiment {
        name: "p4-long",
        title: "Section 6.2: DCQCN and Swift as P4 programs, with long messages",
        seeds: 5,
        sources: &[Source::all("p4-long.toml")],
        charts: &[Chart::Queues { title: "Queue of the receiver's link", picks: &LONG }],
        rows: long_in_p4,
    },
    Experiment {
        name: "line-rate",
        title: "Section 5.1: messages of one byte at line rate",
        seeds: 1,
        sources: &[Source::all("line-rate.toml")],
        charts: &[],
        rows: line_rate,
    },
    Experiment {
        name: "ndp-switch",
        title: "NDP with its own switch: 8 packets of data, headers dropped or returned",
        seeds: 1,
        sources: &[Source::all("ndp-switch.toml").quick(&[], &["10, 204800 B"])],
        charts: &[],
        rows: ndp_switch,
    },
    Experiment {
        name: "fat-tree",
        title: "All transports on the IRN paper's fat-tree",
        seeds: 3,
        sources: &[
            Source::all(TREE).quick(&[("traffic.flows", "1000"), ("traffic.warmup", "100"), ("fabric.k", "4")], &[])
        ],
        charts: &[
            spread("Average slowdown", &[("average slowdown", Metric::SLOWDOWN)]),
            spread("Flow completion time", &[("average", Metric::FCT), ("99th percentile", Metric::FCT_P99)]),
        ],
        rows: fat_tree,
    },
];

const fn spread(title: &'static str, bars: &'static [(&'static str, Metric)]) -> Chart {
    Chart::Spread { title, groups: &ON_THE_TREE, bars, traffic: "" }
}

const OWN_QUEUES: &str = "NDP, 8 packets";
const ON_THE_TREE: [Pick; 7] = [
    pick("IRN", of_file(TREE, "IRN", "none")),
    pick("IRN with HPCC", of_file(TREE, "IRN with HPCC", "hpcc")),
    pick(NDP, of_file(TREE, NDP, "none")),
    pick(OWN_QUEUES, of_file(TREE, OWN_QUEUES, "none")),
    pick(HOMA, of_file(TREE, HOMA, "none")),
    pick(HOMA_TR, of_file(TREE, HOMA_TR, "none")),
    pick(OTHERS[0], of_file(TREE, OTHERS[0], "none")),
];

/// Slowdown of the message with index `number` in [`MESSAGES`], one value per seed.
fn slowdown(m: &Measured<'_>, case: Case<'_>, number: usize) -> Sample {
    let (bytes, packets) = MESSAGES[number];
    each(m.values(case, Metric::completion_us(bytes)), |us| slowdown_of(us, packets))
}

/// Applies `of` to the slowdowns of the ten messages; the result has one value per seed.
fn over_messages(m: &Measured<'_>, case: Case<'_>, of: impl Fn(&[f64]) -> f64) -> Sample {
    let all = (0..MESSAGES.len()).map(|number| slowdown(m, case, number)).collect::<Result<Vec<_>, String>>()?;
    let seeds = all.iter().map(Vec::len).min().unwrap_or(0);
    Ok((0..seeds).map(|seed| of(&all.iter().map(|values| values[seed]).collect::<Vec<_>>())).collect())
}

fn average(m: &Measured<'_>, case: Case<'_>) -> Sample {
    over_messages(m, case, |all| mean(all).unwrap_or(f64::NAN))
}

/// Ratio of the average slowdowns of two cases (`worse` / `than`), one value per seed.
fn better(m: &Measured<'_>, worse: Case<'_>, than: Case<'_>) -> Sample {
    divide(average(m, worse)?, &average(m, than)?)
}

/// Mean relative difference between the measured slowdowns and the paper's, one value per seed.
fn off(m: &Measured<'_>, case: Case<'_>, stated: &[f64; 10]) -> Sample {
    over_messages(m, case, |all| {
        let apart: Vec<f64> = all.iter().zip(stated).map(|(ours, theirs)| (ours / theirs - 1.0).abs()).collect();
        mean(&apart).unwrap_or(f64::NAN)
    })
}

fn large_buffer(m: &Measured<'_>) -> Vec<Row> {
    let [ndp, homa, homa_tr] = [NDP, HOMA, HOMA_TR].map(|run| incast(run, LARGE));
    let mut rows = Vec::new();
    for (case, stated) in [(ndp, NDP_STATED), (homa, HOMA_STATED)] {
        for (number, value) in stated.into_iter().enumerate() {
            let metric = format!("{}: slowdown of {} packets", case.run, MESSAGES[number].1);
            rows.push(Row::new(
                metric,
                &format!("{value}"),
                Claim::size(value, READING),
                Unit::Ratio,
                slowdown(m, case, number),
            ));
        }
    }
    rows.push(Row::new(
        "Homa-Tr: largest difference of a slowdown from Homa's",
        "exactly the same",
        Claim::Within { low: 0.0, high: 0.0 },
        Unit::Percent,
        max_difference(m, homa_tr, homa),
    ));
    for case in [ndp, homa, homa_tr] {
        let queue = m.values(case, Metric::QUEUE_MAX);
        rows.push(Row::new(
            format!("{}: longest queue", case.run),
            "89 KB",
            Claim::size(89_000.0, 1_000.0),
            Unit::Kilobytes,
            queue,
        ));
    }
    rows.push(Row::new(
        "median of the queue: NDP / Homa",
        "NDP's stays high, Homa's settles low",
        Claim::Above(1.0),
        Unit::Ratio,
        m.ratio(ndp, homa, Metric::QUEUE_MEDIAN),
    ));
    rows.push(Row::new(
        "average slowdown: NDP / Homa",
        "Homa's is lower",
        Claim::Above(1.0),
        Unit::Ratio,
        better(m, ndp, homa),
    ));
    rows.extend(others(m, LARGE));
    rows
}

/// Rows of verdicts about the transports that the paper's figure 2 does not show.
fn others(m: &Measured<'_>, buffer: &'static str) -> Vec<Row> {
    let row = |run| {
        Row::new(format!("{run}: average slowdown"), "", Claim::Open, Unit::Ratio, average(m, incast(run, buffer)))
    };
    OTHERS.into_iter().map(row).collect()
}

fn small_buffer(m: &Measured<'_>) -> Vec<Row> {
    let [ndp, homa, homa_tr] = [NDP, HOMA, HOMA_TR].map(|run| incast(run, SMALL));
    // With the large buffer, the paper calls slowdowns similar that have this ratio of smallest to largest.
    let similar = 7.09 / 8.57;
    let evenness = |all: &[f64]| {
        let (min, max) = all.iter().fold((f64::MAX, 0.0_f64), |(min, max), v| (min.min(*v), max.max(*v)));
        min / max
    };
    let homas = "timeouts, and a second burst from 14 to 17 us";
    let mut rows = vec![
        Row::new(
            "NDP: smallest / largest slowdown of a message",
            "similar for all messages (0.83 with the large buffer)",
            Claim::Within { low: similar * (1.0 - MARGIN), high: 1.0 },
            Unit::Ratio,
            over_messages(m, ndp, evenness),
        ),
        Row::new(
            "average slowdown: Homa / Homa-Tr",
            "about 2x",
            Claim::effect(2.0, 1.0, 1.0),
            Unit::Ratio,
            better(m, homa, homa_tr),
        ),
        Row::new(
            "average slowdown: NDP / Homa-Tr",
            "about 1.5x",
            Claim::effect(1.5, 0.1, 1.0),
            Unit::Ratio,
            better(m, ndp, homa_tr),
        ),
        Row::new(
            "average slowdown: Homa / NDP",
            "NDP's is lower",
            Claim::Above(1.0),
            Unit::Ratio,
            better(m, homa, ndp),
        ),
        Row::new("Homa: packets dropped", homas, Claim::Above(0.0), Unit::Percent, m.values(homa, Metric::DROPPED)),
        Row::new("Homa: timeouts", homas, Claim::Above(0.0), Unit::Count, m.values(homa, Metric::TIMEOUTS)),
        Row::new(
            "Homa: second burst begins",
            homas,
            Claim::size(14.0, 1.0),
            Unit::Microseconds,
            m.values(homa, Metric::burst_start(1)),
        ),
        Row::new(
            "Homa: second burst ends",
            homas,
            Claim::size(17.0, 1.0),
            Unit::Microseconds,
            m.values(homa, Metric::burst_end(1)),
        ),
    ];
    for case in [ndp, homa_tr] {
        rows.push(Row::new(
            format!("{}: packets dropped", case.run),
            "trimmed instead",
            Claim::Within { low: 0.0, high: 0.0 },
            Unit::Percent,
            m.values(case, Metric::DROPPED),
        ));
    }
    for case in [ndp, homa_tr] {
        let trimmed = m.values(case, Metric::TRIMMED);
        rows.push(Row::new(format!("{}: packets trimmed", case.run), "", Claim::Open, Unit::Count, trimmed));
    }
    for case in [ndp, homa, homa_tr] {
        let slowdown = average(m, case);
        rows.push(Row::new(format!("{}: average slowdown", case.run), "", Claim::Open, Unit::Ratio, slowdown));
    }
    rows.extend(others(m, SMALL));
    rows
}

fn sensitivity(m: &Measured<'_>) -> Vec<Row> {
    let own = [(NDP, &NDP_STATED), (HOMA, &HOMA_STATED)].map(|(run, stated)| (incast(run, LARGE), stated));
    let changes = CHANGES.map(|(run, stated)| (changed(run, LARGE), stated));
    let off = |(case, stated): (Case<'_>, &[f64; 10])| {
        let metric = format!("{}, large buffer: mean difference from the paper's slowdowns", case.run);
        Row::new(metric, "", Claim::Open, Unit::Percent, off(m, case, stated))
    };
    let mut rows: Vec<Row> = own.into_iter().chain(changes).map(off).collect();
    let pairs = [
        ("longest first", "Homa, longest first", "Homa-Tr, longest first"),
        ("one granted priority", "Homa, one granted priority", "Homa-Tr, one granted priority"),
        (
            "one granted priority, longest first",
            "Homa, one granted priority, longest first",
            "Homa-Tr, one granted priority, longest first",
        ),
    ];
    let ratio = |metric: String, worse, than| {
        Row::new(metric, "", Claim::Open, Unit::Ratio, better(m, changed(worse, SMALL), changed(than, SMALL)))
    };
    for (name, homa, homa_tr) in pairs {
        rows.push(ratio(format!("{name}, small buffer: average slowdown, Homa / Homa-Tr"), homa, homa_tr));
    }
    let metric = "longest first, small buffer: average slowdown, NDP / Homa-Tr".to_string();
    rows.push(ratio(metric, "NDP, longest first", "Homa-Tr, longest first"));
    rows
}

/// Runs of the incast with the small buffer and one change each.
const SMALL_CHANGES: [&str; 12] = [
    NDP,
    "NDP, retransmits with PULLs",
    "NDP, packet in service counts",
    "NDP, PULLs at 0.99",
    "NDP, headers of 128 B",
    "NDP, ten headers in a row",
    HOMA,
    "Homa, one buffer for all priorities",
    "Homa-Tr, headers above",
    "Homa-Tr, headers below",
    "Homa-Tr, headers above, retransmits with GRANTs",
    LIKE_THE_AUTHORS,
];

fn small_buffer_changes(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for run in SMALL_CHANGES {
        let case = Case { file: "small-buffer.toml", ..incast(run, SMALL) };
        let trimmed = m.first(case).map(|_| m.values(case, Metric::TRIMMED)).and_then(Result::ok);
        let trimmed = trimmed.and_then(|values| values.first().copied()).unwrap_or(0.0);
        let row = Row::new(format!("{run}: average slowdown"), "", Claim::Open, Unit::Ratio, average(m, case));
        rows.push(row.note(format!("{trimmed} trimmed")));
        let queue = m.values(case, Metric::QUEUE_MAX);
        rows.push(Row::new(format!("{run}: longest queue"), "", Claim::Open, Unit::Kilobytes, queue));
    }
    rows
}

/// Slowdown as the authors' notebook computes it, for a message of `packets` packets that took `us` microseconds.
fn authors_slowdown(us: f64, packets: f64) -> f64 {
    let packet_us = 1_088.0 * 8.0 / 200e3;
    us / ((packets - 1.0) * packet_us + 2.0 * (packet_us + 0.131))
}

/// The quantile of the ten messages' slowdowns in the authors' incast, interpolated linearly; one value per seed.
fn authors_quantile(m: &Measured<'_>, case: Case<'_>, quantile: f64) -> Sample {
    let of = |(bytes, packets)| each(m.values(case, Metric::completion_us(bytes)), |us| authors_slowdown(us, packets));
    let all = AUTHORS_MESSAGES.into_iter().map(of).collect::<Result<Vec<_>, String>>()?;
    let seeds = all.iter().map(Vec::len).min().unwrap_or(0);
    let of_seed = |seed: usize| {
        let mut values: Vec<f64> = all.iter().map(|values| values[seed]).collect();
        values.sort_by(f64::total_cmp);
        let rank = quantile * (values.len() - 1) as f64;
        let below = values[rank as usize];
        let above = values[(rank as usize + 1).min(values.len() - 1)];
        below + (above - below) * rank.fract()
    };
    Ok((0..seeds).map(of_seed).collect())
}

fn authors_simulator(m: &Measured<'_>) -> Vec<Row> {
    let case = |run, buffer| Case { file: "authors-simulator.toml", ..incast(run, buffer) };
    let name = |buffer| if buffer == AUTHORS_LARGE { "large" } else { "small" };
    let mut rows = Vec::new();
    for (run, buffer, median, high) in AUTHORS {
        for (text, quantile, stated) in [("median", 0.5, median), ("90th percentile", 0.9, high)] {
            let metric = format!("{run}, {} buffer: {text} of the slowdowns", name(buffer));
            let sample = authors_quantile(m, case(run, buffer), quantile);
            let row = Row::new(metric, &format!("{stated}"), Claim::size(stated, 0.001), Unit::Ratio, sample);
            rows.push(row.note("stated by the authors' notebook, not in the paper"));
        }
    }
    for run in UNLIKE_THE_AUTHORS {
        let metric = format!("{run}, small buffer: median of the slowdowns");
        let sample = authors_quantile(m, case(run, AUTHORS_SMALL), 0.5);
        rows.push(Row::new(metric, "", Claim::Open, Unit::Ratio, sample));
    }
    rows
}

/// Largest relative difference, over the ten messages, between a message's slowdowns in two cases (runs of the incast);
/// one value per seed.
fn max_difference(m: &Measured<'_>, case: Case<'_>, other: Case<'_>) -> Sample {
    let apart = |number| each(divide(slowdown(m, case, number)?, &slowdown(m, other, number)?), |r| (r - 1.0).abs());
    let larger = |a: Sample, b: Sample| Ok(a?.into_iter().zip(b?).map(|(a, b)| a.max(b)).collect());
    (1..MESSAGES.len()).map(apart).fold(apart(0), larger)
}

fn in_p4(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, buffer) in [("large", LARGE), ("small", SMALL)] {
        for run in IN_P4 {
            let native = incast(run, buffer);
            let apart = max_difference(m, Case { file: "p4.toml", ..native }, native);
            let metric = format!("{run}, {name} buffer: largest difference of a slowdown, P4 from Rust");
            rows.push(Row::new(metric, "", Claim::Open, Unit::Percent, apart));
        }
        for run in ["DCQCN", "Swift"] {
            let metric = format!("{run}, {name} buffer: average slowdown");
            let slowdown = average(m, Case { file: "p4.toml", ..incast(run, buffer) });
            rows.push(Row::new(metric, "", Claim::Open, Unit::Ratio, slowdown));
        }
    }
    rows
}

fn long_in_p4(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for Pick { name, case } in LONG {
        let row = |metric: Metric, unit| {
            Row::new(format!("{name}: {}", metric.text()), "", Claim::Open, unit, m.values(case, metric))
        };
        rows.push(row(Metric::RCT, Unit::Microseconds));
        rows.push(row(Metric::QUEUE_MEDIAN, Unit::Kilobytes));
        rows.push(row(Metric::QUEUE_MAX, Unit::Kilobytes));
    }
    rows
}

fn line_rate(m: &Measured<'_>) -> Vec<Row> {
    let rate = |run| m.values(of_file("line-rate.toml", run, "none"), Metric::MILLIONS_PER_SECOND);
    let mut rows = Vec::new();
    for run in [NDP, HOMA] {
        let metric = format!("{run}: messages of one byte, sent and received");
        rows.push(Row::new(metric, "380 million/s", Claim::size(380.0, 1.0), Unit::MillionsPerSecond, rate(run)));
    }
    for (name, run) in [(NDP, "NDP, both ways"), (HOMA, "Homa, both ways")] {
        let each_way = each(rate(run), |both| both / 2.0);
        let metric = format!("{name}: each way, when both hosts send");
        let row = Row::new(metric, "", Claim::Open, Unit::MillionsPerSecond, each_way);
        rows.push(row.note("an acknowledgement for each message takes the other half of the link"));
    }
    rows
}

fn ndp_switch(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for point in m.points("ndp-switch.toml") {
        let senders = point.split(',').next().unwrap_or(point);
        for run in OWN_SWITCH {
            let case = Case { file: "ndp-switch.toml", run, cc: "none", point };
            let counts = [(Metric::TRIMMED, "trimmed"), (Metric::RETURNED, "returned")].map(|(metric, name)| {
                let count = m.first(case).map(|_| m.values(case, metric)).and_then(Result::ok);
                format!("{} {name}", count.and_then(|values| values.first().copied()).unwrap_or(0.0))
            });
            let metric = format!("{senders} senders, {run}: request completion time");
            let row = Row::new(metric, "", Claim::Open, Unit::Microseconds, m.values(case, Metric::RCT));
            rows.push(row.note(counts.join(", ")));
        }
    }
    rows
}

fn fat_tree(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for Pick { name, case } in ON_THE_TREE {
        let row = |metric: Metric, unit| {
            Row::new(format!("{name}: {}", metric.text()), "", Claim::Open, unit, m.values(case, metric))
        };
        rows.push(row(Metric::SLOWDOWN, Unit::Ratio));
        rows.push(row(Metric::FCT_P99, Unit::Microseconds));
        rows.push(row(Metric::DROPPED, Unit::Percent));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_time_agrees_with_the_paper() {
        // 19 packets take 43.52 ns each, one packet takes 43.5 ns, and the two links add their propagation delays.
        assert!((ideal_us(20.0) - 1.045_38).abs() < 1e-9, "{}", ideal_us(20.0));
        assert!((ideal_us(38.0) - 1.828_74).abs() < 1e-9, "{}", ideal_us(38.0));
    }

    #[test]
    fn the_messages_agree_with_the_traffic_files() {
        for name in ["incast.csv", "incast-reversed.csv", "incast-staggered.csv"] {
            let (_, text) = STUDY.files.iter().find(|(file, _)| *file == name).unwrap();
            let bytes = text.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse().unwrap());
            let mut bytes: Vec<u64> = bytes.collect();
            bytes.sort_unstable();
            assert_eq!(bytes, MESSAGES.map(|message| message.0), "{name}");
            assert!(MESSAGES.iter().all(|(bytes, packets)| *bytes == *packets as u64 * 1024));
        }
        let (_, text) = STUDY.files.iter().find(|(file, _)| *file == "authors-simulator.csv").unwrap();
        let bytes = text.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse::<u64>().unwrap());
        assert!(bytes.eq(AUTHORS_MESSAGES.map(|message| message.0)));
        assert!(AUTHORS_MESSAGES.iter().all(|(bytes, packets)| *bytes == *packets as u64 * 1024));
    }
}
