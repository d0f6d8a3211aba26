//! Study of "RDMA over Commodity Ethernet at Scale" (Guo et al., SIGCOMM 2016): the safety problems of section 4 and
//! the experiments of section 5.4.

use super::measured::{Case, Measured, each};
use super::metric::Metric;
use super::verdict::{Claim, Row, Unit};
use super::{Experiment, Source, Study, scenarios};

/// Definition of the study: its scenario files, experiments and remarks.
pub static STUDY: Study = Study {
    name: "at-scale",
    title: "RDMA over Commodity Ethernet at Scale (SIGCOMM 2016)",
    files: scenarios![
        "at-scale",
        "livelock.toml",
        "deadlock.toml",
        "deadlock.csv",
        "storm.toml",
        "slow-receiver.toml",
        "alpha.toml",
        "fig6.toml",
        "fig6-20000.toml",
        "fig6-drops.toml",
        "fig7.toml",
        "fig7.csv",
        "fig7-cpu.toml",
        "fig8.toml",
        "fig8.csv",
        "fig8-idle.csv",
    ],
    experiments: EXPERIMENTS,
    exact: &[],
    remarks: &[
        "The paper reports measurements of production networks and incidents. It states few of the parameters of its servers \
         and switches; where a number here follows from a choice of ours, the result page says so.",
        "A row is `inside` if the mean over the seeds is in the range or within the bound that the paper states; if the paper \
         states one number, the 95 % confidence interval must include it; if it states only a direction, the whole interval \
         must have this direction.",
    ],
};

/// Payload of a full packet in these experiments.
const MTU: u64 = 1_024;
/// Number of connections of figure 7.
const FIG7_CONNECTIONS: f64 = 3_072.0;
/// Number of servers that send in figure 7.
const FIG7_SERVERS: f64 = 384.0;
/// Number of cores of a server, which the paper does not state: those of the servers in the DCQCN paper (section 2.1).
const SERVER_CORES: u32 = 16;
/// Number of cores of all servers of figure 6.
const SERVICE_CORES: u32 = 1_152 * SERVER_CORES;

/// Number of pairs of servers of figure 8.
const FIG8_PAIRS: f64 = 20.0;

/// Settings of figure 6 (20,160 servers) with `--quick`: two pods, and two servers that each send requests more often
/// than each of the 420 servers does.
const FIG6_QUICK: &[(&str, &str)] = &[
    ("fabric.pods", "2"),
    ("limits.duration", "2 ms"),
    (
        "traffic",
        "[{ name = \"a\", pattern = \"incast\", senders = 100, receiver = 49, total = \"1 MB\", interval = \"500 us\", repeats = 4 }, \
         { name = \"b\", pattern = \"incast\", senders = 100, receiver = 98, total = \"1 MB\", interval = \"500 us\", repeats = 4, \
         priority = 1 }]",
    ),
];

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "livelock",
        title: "Section 4.1: livelock when one of 256 packets is dropped",
        seeds: 5,
        sources: &[Source::all("livelock.toml").quick(&[("limits.duration", "5 ms")], &[])],
        charts: &[],
        rows: livelock,
    },
    Experiment {
        name: "deadlock",
        title: "Section 4.2: PFC deadlock from flooded packets",
        seeds: 10,
        sources: &[Source::all("deadlock.toml")],
        charts: &[],
        rows: deadlock,
    },
    Experiment {
        name: "storm",
        title: "Section 4.3: NIC pause storm, with and without watchdogs",
        seeds: 5,
        sources: &[
            Source::all("storm.toml").quick(&[("limits.duration", "700 ms"), ("traffic.pairs.pairs", "32")], &[])
        ],
        charts: &[],
        rows: storm,
    },
    Experiment {
        name: "slow-receiver",
        title: "Section 4.4: slow receiver",
        seeds: 10,
        sources: &[Source::all("slow-receiver.toml").quick(&[("limits.duration", "10 ms")], &[])],
        charts: &[],
        rows: slow_receiver,
    },
    Experiment {
        name: "fig6",
        title: "Figure 6: latency under bursty many-to-one traffic",
        seeds: 10,
        sources: &[Source::all("fig6.toml").quick(&[("limits.duration", "2 ms")], &[])],
        charts: &[],
        rows: |m| fig6(m, "fig6.toml"),
    },
    Experiment {
        name: "fig6-20000",
        title: "Figure 6 at 20,160 servers",
        seeds: 3,
        sources: &[Source::all("fig6-20000.toml").quick(FIG6_QUICK, &[])],
        charts: &[],
        rows: |m| fig6(m, "fig6-20000.toml"),
    },
    Experiment {
        name: "fig6-drops",
        title: "Figure 6 with a small threshold for TCP's queues, so that bursts are dropped",
        seeds: 10,
        sources: &[Source::all("fig6-drops.toml").quick(&[("limits.duration", "2 ms")], &[])],
        charts: &[],
        rows: fig6_drops,
    },
    Experiment {
        name: "fig7",
        title: "Figure 7: 3,072 connections between two podsets",
        seeds: 3,
        sources: &[Source::all("fig7.toml").quick(&[("limits.duration", "1 ms")], &[])],
        charts: &[],
        rows: fig7,
    },
    Experiment {
        name: "fig7-cpu",
        title: "Figure 7: CPU of a server that sends or receives 8 Gb/s",
        seeds: 2,
        sources: &[Source::all("fig7-cpu.toml").quick(&[("limits.duration", "10 ms")], &[])],
        charts: &[],
        rows: fig7_cpu,
    },
    Experiment {
        name: "fig8",
        title: "Figure 8: latency of RDMA and TCP, idle and under load",
        seeds: 10,
        sources: &[Source::all("fig8.toml").quick(&[("limits.duration", "5 ms")], &[])],
        charts: &[],
        rows: fig8,
    },
    Experiment {
        name: "alpha",
        title: "Section 6: buffer threshold alpha of 1/64 and 1/16 under incast",
        seeds: 10,
        sources: &[Source::all("alpha.toml").quick(&[("traffic.repeats", "4")], &[])],
        charts: &[],
        rows: alpha,
    },
];

/// A run of a scenario file without congestion control.
const fn case<'c>(file: &'c str, run: &'c str) -> Case<'c> {
    Case { file, run, cc: "none", point: "" }
}

/// A run of a scenario file with DCQCN.
const fn dcqcn<'c>(file: &'c str, run: &'c str) -> Case<'c> {
    Case { file, run, cc: "dcqcn", point: "" }
}

/// A row about one metric of one run.
fn row(m: &Measured<'_>, case: Case<'_>, metric: Metric, stated: &str, claim: Claim, unit: Unit) -> Row {
    Row::new(format!("{}: {}", case.run, metric.text()), stated, claim, unit, m.values(case, metric))
}

/// Rows about the latencies and losses that the probes of these runs show to an operator.
fn probes(m: &Measured<'_>, cases: &[Case<'_>]) -> Vec<Row> {
    let rows = |case: &Case<'_>| {
        let open = |case: Case<'_>, metric, unit| row(m, case, metric, "", Claim::Open, unit);
        [
            open(*case, Metric::mesh_p50("probes"), Unit::Microseconds),
            open(*case, Metric::mesh_p99("probes"), Unit::Microseconds),
            open(*case, Metric::unanswered("probes"), Unit::Percent),
        ]
    };
    cases.iter().flat_map(rows).collect()
}

fn livelock(m: &Measured<'_>) -> Vec<Row> {
    let run = |run| case("livelock.toml", run);
    let zero = run("go-back-0");
    let n = run("go-back-N");
    let irn = run("IRN");
    let full = Claim::Above(0.95);
    let mut rows = vec![
        row(
            m,
            zero,
            Metric::FINISHED_GBPS,
            "goodput 0: no message of 4 MB ever completes",
            Claim::AtMost(0.0),
            Unit::Gbps,
        ),
        row(m, zero, Metric::BUSIEST_HOST, "the sender's link is full", full, Unit::Percent),
        row(m, zero, Metric::finished_share(MTU), "useful share 0", Claim::AtMost(0.0), Unit::Percent),
        row(m, n, Metric::FINISHED_GBPS, "messages complete", Claim::Above(0.0), Unit::Gbps),
        row(m, n, Metric::useful_share(MTU), "", Claim::Open, Unit::Percent),
    ];
    // The round trip of a full packet and its ACK over two links of 500 ns, at 40 Gbps: RTT x C in packets.
    let packets = (2.0 * 2.0 * 500.0 + 2.0 * (221.2 + 17.2)) / 221.2;
    let waste = each(m.values(n, Metric::RETRANSMITTED_PER_DROP), |retransmitted| retransmitted / packets);
    rows.push(
        Row::new(
            "go-back-N: bytes retransmitted per drop / (RTT x C)",
            "at most RTT x C wasted per drop",
            Claim::AtMost(1.0),
            Unit::Ratio,
            waste,
        )
        .note(format!("RTT x C = {packets:.1} packets")),
    );
    rows.push(row(m, irn, Metric::FINISHED_GBPS, "", Claim::Open, Unit::Gbps));
    rows.push(row(m, irn, Metric::useful_share(MTU), "", Claim::Open, Unit::Percent));
    rows.push(row(m, run("go-back-N, no drops"), Metric::FINISHED_GBPS, "", Claim::Open, Unit::Gbps));
    rows.extend(probes(m, &[zero, n]));
    rows
}

fn deadlock(m: &Measured<'_>) -> Vec<Row> {
    let run = |run| case("deadlock.toml", run);
    let flood = run("flooding");
    let drop = run("drop");
    let cycle = "the four switches T0, La, T1, Lb pause each other, also after the server is back";
    let exactly = |count| Claim::Within { low: count, high: count };
    let mut rows = vec![
        row(m, flood, Metric::CYCLE_PORTS, cycle, exactly(4.0), Unit::Count),
        row(m, drop, Metric::CYCLE_PORTS, "no deadlock with the fix", exactly(0.0), Unit::Count),
        row(m, run("flooding, large shared buffer"), Metric::CYCLE_PORTS, "", Claim::Open, Unit::Count),
        row(m, flood, Metric::DELIVERED_GBPS, "", Claim::Open, Unit::Gbps),
        row(m, drop, Metric::DELIVERED_GBPS, "", Claim::Open, Unit::Gbps),
    ];
    rows.extend(probes(m, &[flood, drop]));
    rows
}

fn storm(m: &Measured<'_>) -> Vec<Row> {
    let run = |run| case("storm.toml", run);
    let calm = run("no storm");
    let mut rows = vec![row(
        m,
        run("storm"),
        Metric::BLOCKED,
        "one NIC can take the whole network down; half of a customer's servers were affected",
        Claim::Above(0.5),
        Unit::Percent,
    )];
    for name in ["storm, NIC watchdog", "storm, switch watchdog", "storm, both watchdogs"] {
        let stated = "the pauses do not spread any more";
        rows.push(row(m, run(name), Metric::BLOCKED, stated, Claim::AtMost(0.0), Unit::Percent));
    }
    rows.push(row(m, run("storm, NIC watchdog"), Metric::DETECTED_BY_NIC_MS, "", Claim::Open, Unit::Count).note("ms"));
    rows.push(
        row(m, run("storm, switch watchdog"), Metric::DETECTED_BY_SWITCH_MS, "", Claim::Open, Unit::Count).note("ms"),
    );
    // The storm begins at 2 % of the run. Every watchdog has acted before half of the run is over.
    for name in ["storm", "storm, NIC watchdog", "storm, switch watchdog", "storm, both watchdogs"] {
        let last = Metric::finished_after(60);
        let label = format!("{name} / no storm: {}", last.text());
        rows.push(Row::new(label, "", Claim::Open, Unit::Ratio, m.ratio(run(name), calm, last)));
    }
    rows.extend(probes(m, &["no storm", "storm", "storm, NIC watchdog", "storm, switch watchdog"].map(run)));
    rows
}

fn slow_receiver(m: &Measured<'_>) -> Vec<Row> {
    let run = |run| dcqcn("slow-receiver.toml", run);
    let small = run("4 KB pages, dynamic buffers");
    let small_static = run("4 KB pages, static buffers");
    let large = run("2 MB pages, dynamic buffers");
    let large_static = run("2 MB pages, static buffers");
    let thousands = Claim::Above(1_000.0);
    let fewer = "larger pages reduce the pauses";
    let mut rows = vec![
        row(m, small, Metric::pauses_per_second_at("leaf0"), "thousands of pauses per second", thousands, Unit::Count),
        row(
            m,
            small_static,
            Metric::pauses_per_second_at("leaf0"),
            "thousands of pauses per second",
            thousands,
            Unit::Count,
        ),
        row(m, large, Metric::pauses_per_second_at("leaf0"), "", Claim::Open, Unit::Count),
    ];
    let label = |what: &str| format!("pauses per second at leaf0: {what}");
    let less = m.ratio(large, small, Metric::pauses_per_second_at("leaf0"));
    rows.push(Row::new(label("2 MB pages / 4 KB pages"), fewer, Claim::AtMost(1.0), Unit::Ratio, less));
    rows.push(row(m, small, Metric::pauses_per_second_at("spine"), "", Claim::Open, Unit::Count));
    rows.push(row(m, small_static, Metric::pauses_per_second_at("spine"), "", Claim::Open, Unit::Count));
    let absorbed = m.values(small, Metric::pauses_per_second_at("spine")).and_then(|dynamic| {
        let fixed = m.values(small_static, Metric::pauses_per_second_at("spine"))?;
        Ok(fixed.into_iter().zip(dynamic).map(|(fixed, dynamic)| fixed - dynamic).collect())
    });
    rows.push(Row::new(
        "pauses per second at the spines, 4 KB pages: static minus dynamic buffers",
        "dynamic buffer sharing keeps pauses from spreading",
        Claim::Above(0.0),
        Unit::Count,
        absorbed,
    ));
    for case in [small, small_static, large, large_static] {
        rows.push(row(m, case, Metric::DELIVERED_GBPS, "", Claim::Open, Unit::Gbps));
    }
    rows.extend(probes(m, &[small, small_static, large]));
    rows
}

fn fig6(m: &Measured<'_>, file: &'static str) -> Vec<Row> {
    let both = dcqcn(file, "half RDMA, half TCP");
    let us_of = |value| Claim::size(value, 1.0);
    let us = Unit::Microseconds;
    vec![
        row(m, both, Metric::mesh_p99("RDMA"), "90 us", us_of(90.0), us),
        row(m, both, Metric::mesh_p999("RDMA"), "about 200 us", us_of(200.0), us),
        row(m, both, Metric::mesh_p99("TCP"), "700 us", us_of(700.0), us)
            .note("the delay of TCP's software is declared"),
        row(m, both, Metric::mesh_p999("TCP"), "spikes of several ms", Claim::Open, us),
        row(m, both, Metric::dropped_in(0), "no packet dropped", Claim::AtMost(0.0), Unit::Count).note("RDMA"),
        row(m, both, Metric::dropped_in(1), "", Claim::Open, Unit::Count).note("TCP"),
    ]
}

fn fig6_drops(m: &Measured<'_>) -> Vec<Row> {
    let file = "fig6-drops.toml";
    let both = dcqcn(file, "half RDMA, half TCP");
    let us = Unit::Microseconds;
    let mut rows = fig6(m, file);
    let spike = Claim::Within { low: 2_000.0, high: 10_000.0 };
    rows.push(row(m, both, Metric::mesh_worst_p99("TCP"), "spikes of several ms", spike, us));
    rows.push(row(m, both, Metric::mesh_worst_p99("RDMA"), "smoother than TCP's", Claim::Open, us));
    rows.push(
        row(m, both, Metric::sending_cpu(SERVICE_CORES), "", Claim::Open, Unit::Percent).note("TCP, all servers"),
    );
    rows
}

/// CPU of a server at 8 Gb/s. With less than half a percent "close to 0%" is rounded to 0.
fn fig7_cpu(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (run, stated, claim) in
        [("RDMA", "close to 0%", Claim::Within { low: 0.0, high: 0.005 }), ("TCP", "", Claim::Open)]
    {
        let case = case("fig7-cpu.toml", run);
        rows.push(row(m, case, Metric::DELIVERED_GBPS, "", Claim::Open, Unit::Gbps));
        for metric in [Metric::sending_cpu(SERVER_CORES), Metric::receiving_cpu(SERVER_CORES)] {
            rows.push(row(m, case, metric, stated, claim, Unit::Percent));
        }
    }
    rows
}

fn fig7(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in [dcqcn("fig7.toml", "RoCE + DCQCN"), case("fig7.toml", "RoCE")] {
        let per_connection = m.values(case, Metric::POOLED_GBPS);
        let total = each(per_connection.clone(), |gbps| gbps * FIG7_CONNECTIONS);
        let server = each(per_connection.clone(), |gbps| gbps * FIG7_CONNECTIONS / FIG7_SERVERS);
        let share = each(per_connection, |gbps| gbps * FIG7_CONNECTIONS / 5_120.0);
        let label = |what: &str| format!("{}: {what}", case.run);
        rows.push(Row::new(label("throughput"), "3.0 Tb/s", Claim::size(3_000.0, 100.0), Unit::Gbps, total));
        rows.push(Row::new(label("share of 5.12 Tb/s"), "60 %", Claim::size(0.6, 0.01), Unit::Percent, share));
        rows.push(Row::new(label("per server"), "8 Gb/s", Claim::size(8.0, 1.0), Unit::Gbps, server));
        rows.push(row(m, case, Metric::DROPPED, "no packet dropped", Claim::AtMost(0.0), Unit::Percent));
        rows.push(row(m, case, Metric::PAUSES_PER_SECOND, "", Claim::Open, Unit::Count));
        rows.extend(probes(m, &[case]));
    }
    rows
}

fn fig8(m: &Measured<'_>) -> Vec<Row> {
    let idle = dcqcn("fig8.toml", "idle");
    let load = dcqcn("fig8.toml", "load");
    let us_of = |value| Claim::size(value, 1.0);
    let us = Unit::Microseconds;
    let mut rows = vec![
        row(m, idle, Metric::mesh_p99("RDMA"), "50 us", us_of(50.0), us),
        row(m, load, Metric::mesh_p99("RDMA"), "400 us", us_of(400.0), us),
        row(m, idle, Metric::mesh_p999("RDMA"), "80 us", us_of(80.0), us),
        row(m, load, Metric::mesh_p999("RDMA"), "800 us", us_of(800.0), us),
    ];
    for (metric, stated, ratio) in [
        (Metric::mesh_p99("RDMA"), "400 / 50 us", Some(8.0)),
        (Metric::mesh_p999("RDMA"), "800 / 80 us", Some(10.0)),
        (Metric::mesh_p99("TCP"), "500 us, unchanged", Some(1.0)),
    ] {
        let sample = m.ratio(load, idle, metric);
        let claim = match ratio {
            Some(1.0) => Claim::equal(),
            Some(value) => Claim::effect(value, 0.0, 1.0),
            None => Claim::Open,
        };
        rows.push(Row::new(format!("load / idle: {}", metric.text()), stated, claim, Unit::Ratio, sample));
    }
    rows.push(
        row(m, load, Metric::mesh_p99("TCP"), "500 us", Claim::Open, us)
            .note("the delay of TCP's software is declared"),
    );
    for case in [idle, load] {
        let label = format!("{}: 99th percentile FCT of TCP's messages", case.run);
        let messages = Metric::FCT_P99;
        rows.push(Row::new(label, "", Claim::Open, us, m.values_of(case, "TCP", messages)));
    }
    let messages = m.ratio_of(load, idle, "TCP", Metric::FCT_P99);
    rows.push(Row::new("load / idle: 99th percentile FCT of TCP's messages", "", Claim::Open, Unit::Ratio, messages));
    rows.push(row(m, load, Metric::dropped_in(0), "", Claim::Open, Unit::Count).note("RDMA"));
    rows.push(row(m, load, Metric::dropped_in(1), "", Claim::Open, Unit::Count).note("TCP"));
    let per_pair = each(m.values(load, Metric::source_gbps("RDMA")), |gbps| gbps / FIG8_PAIRS);
    rows.push(Row::new("load: goodput of a pair", "7 Gb/s", Claim::size(7.0, 1.0), Unit::Gbps, per_pair));
    rows
}

fn alpha(m: &Measured<'_>) -> Vec<Row> {
    let run = |run| case("alpha.toml", run);
    let small = run("alpha 1/64");
    let large = run("alpha 1/16");
    // 20 requests, or 4 with `--quick`; one every 2 ms.
    let in_five_minutes = |sample: super::verdict::Sample| each(sample, |per_second| per_second * 300.0);
    let more = m.values(small, Metric::PAUSES).and_then(|small| {
        let large = m.values(large, Metric::PAUSES)?;
        Ok(small.into_iter().zip(large).map(|(small, large)| small - large).collect())
    });
    let scaled = |case: Case<'_>| {
        Row::new(
            format!("{}: pauses in 5 minutes at this rate of requests", case.run),
            "",
            Claim::Open,
            Unit::Count,
            in_five_minutes(m.values(case, Metric::PAUSES_PER_SECOND)),
        )
    };
    let mut rows = vec![
        Row::new(
            "pauses: alpha 1/64 minus alpha 1/16",
            "alpha 1/64 causes pauses; 1/16 reduces them",
            Claim::Above(0.0),
            Unit::Count,
            more,
        ),
        row(m, small, Metric::PAUSES, "", Claim::Open, Unit::Count),
        row(m, large, Metric::PAUSES, "", Claim::Open, Unit::Count),
        scaled(small).note("the paper: up to 60,000 in 5 minutes, at an unknown rate of requests"),
        scaled(large),
        row(m, small, Metric::RCT, "", Claim::Open, Unit::Microseconds),
        row(m, large, Metric::RCT, "", Claim::Open, Unit::Microseconds),
    ];
    rows.extend(probes(m, &[small, large]));
    rows
}
