//! The rows of the DCQCN study. Each row compares a statement of the paper with a measurement.

use super::*;

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

pub(super) fn hosts(m: &Measured<'_>) -> Vec<Row> {
    let note = "by declared costs with sources of their own";
    let latency = |run| m.values(host(LATENCY, run, ""), Metric::FCT);
    let us = |what: &str, stated: &str, value: f64, sample: Sample| {
        Row::new(what, stated, Claim::size(value, 0.1), Unit::Microseconds, sample).note(note)
    };
    let ratio = latency("TCP").and_then(|tcp| divide(tcp, &latency("RDMA")?));
    let mut rows = vec![
        us("latency of 2 KB, TCP", "25.4 us", 25.4, latency("TCP")),
        us("latency of 2 KB, RDMA", "2.8 us (Send)", 2.8, latency("RDMA")),
        Row::new(
            "latency of 2 KB, TCP / RDMA",
            "25.4 us / 2.8 us",
            Claim::effect(25.4 / 2.8, 0.0, 1.0),
            Unit::Ratio,
            ratio,
        )
        .note(note),
    ];
    for (point, name) in SIZES.into_iter().filter(|(point, _)| m.points(THROUGHPUT).contains(point)) {
        for run in ["TCP", "RDMA"] {
            let of = |metric| m.values(host(THROUGHPUT, run, point), metric);
            let label = format!("{run}, messages of {name}: goodput");
            rows.push(Row::new(label, "nothing in numbers", Claim::Open, Unit::Gbps, of(Metric::DELIVERED_GBPS)));
            let (stated, claim) = match (run, name) {
                ("TCP", "4 MB") => ("above 20 %", Claim::Within { low: 0.2, high: 1.0 }),
                ("RDMA", "4 MB") => ("below 3 %", Claim::Within { low: 0.0, high: 0.03 }),
                _ => ("nothing in numbers", Claim::Open),
            };
            let label = format!("{run}, messages of {name}: CPU of the sender, of {CORES} cores");
            rows.push(Row::new(label, stated, claim, Unit::Percent, of(Metric::sending_cpu(CORES))).note(note));
            let label = format!("{run}, messages of {name}: CPU of the receiver, of {CORES} cores");
            let receiver = of(Metric::receiving_cpu(CORES));
            rows.push(Row::new(label, "nothing in numbers", Claim::Open, Unit::Percent, receiver).note(note));
        }
    }
    rows
}

pub(super) fn unfairness(m: &Measured<'_>) -> Vec<Row> {
    let near = |case| m.values(case, Metric::flow_gbps(3));
    let far = |case| m.values(case, Metric::max_gbps(3));
    let spread = |case| difference(m.values(case, Metric::max_gbps(4)), m.values(case, Metric::min_gbps(4)));
    let pfc = pfc("unfairness.toml", "");
    let dcqcn = dcqcn("unfairness.toml", "");
    let narrower = spread(pfc).and_then(|pfc| divide(pfc, &spread(dcqcn)?));
    let share = m.values(dcqcn, Metric::min_gbps(4)).and_then(|l| divide(l, &m.values(dcqcn, Metric::max_gbps(4))?));
    vec![
        Row::new(
            "PFC only: H4's goodput, largest over placements",
            "H4 up to 20 Gbps",
            Claim::effect(20.0, 1.0, 10.0),
            Unit::Gbps,
            on_the_link(over_seeds(near(pfc), maximum)),
        )
        .pooled()
        .note(ONE),
        Row::new(
            "PFC only: H4's smallest goodput above the largest of the others, over all placements",
            "its minimum is above the others' maximum",
            at_least(TIE),
            Unit::Gbps,
            difference(over_seeds(near(pfc), minimum), over_seeds(far(pfc), maximum)),
        )
        .pooled()
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

pub(super) fn victim(m: &Measured<'_>) -> Vec<Row> {
    let of = |case| m.values(case, VICTIM);
    let change = |of_run: fn(&'static str, &'static str) -> Case<'static>| {
        divide(of(of_run("victim.toml", VICTIMS[2]))?, &of(of_run("victim.toml", VICTIMS[0]))?)
    };
    vec![
        Row::new(
            "PFC only: victim's goodput without senders under T3, median over placements",
            "10 Gbps where 20 are expected",
            Claim::effect(10.0, 1.0, 20.0),
            Unit::Gbps,
            on_the_link(over_seeds(of(pfc("victim.toml", VICTIMS[0])), median)),
        )
        .pooled()
        .note(ONE),
        Row::new(
            "PFC only: with two senders under T3, median over placements",
            "4.5 Gbps",
            Claim::effect(4.5, 0.1, 20.0),
            Unit::Gbps,
            on_the_link(over_seeds(of(pfc("victim.toml", VICTIMS[2])), median)),
        )
        .pooled()
        .note(ONE),
        Row::new(
            "PFC only: lost by the victim to two senders under T3",
            "4.5 of 10 Gbps are left",
            Claim::effect(0.55, 0.0, 0.0),
            Unit::Percent,
            each(change(pfc), |ratio| 1.0 - ratio),
        ),
        Row::new(
            "DCQCN: victim's goodput with two senders under T3 / without",
            "independent of senders under T3",
            Claim::equal(),
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
pub(super) fn ratio(m: &Measured<'_>, above: Case<'_>, below: Case<'_>, traffic: &str, metric: Metric) -> Sample {
    m.ratio_of(above, below, traffic, metric)
}

pub(super) fn incast(m: &Measured<'_>) -> Vec<Row> {
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
        let (slowest, at) = smallest(cases(run, Metric::TOTAL_GBPS));
        let (longest, longest_at) = largest(cases(run, Metric::QUEUE_MAX));
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

pub(super) fn fluid(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, case) in [("short links", SHORT_LINKS), ("round trip of 50 us", LONG_LINKS)] {
        let row = |metric: Metric, stated: &str, claim, unit| {
            Row::new(format!("{name}: second flow, {}", metric.text()), stated, claim, unit, m.values(case, metric))
        };
        rows.push(row(Metric::FLUID_RATE, "the model matches the implementation", Claim::equal(), Unit::Ratio));
        rows.push(row(Metric::FLUID_DIFFERENCE, "", Claim::Open, Unit::Percent));
        rows.push(row(Metric::FLUID_QUEUE, "", Claim::Open, Unit::Ratio));
    }
    rows
}

/// Rows of verdicts about the minimum queue of the fluid model, with packet-level runs of the same parameters.
pub(super) fn underflow(m: &Measured<'_>) -> Vec<Row> {
    let of = |point, metric| m.values(dcqcn("underflow.toml", point), metric);
    let mut rows = Vec::new();
    for (point, senders, r_ai, stated, claim) in [
        ("16, 40 Mbps", 16, 40, "no underflow", Claim::Above(0.0)),
        ("32, 40 Mbps", 32, 40, "underflow (half of R_AI avoids it)", at_most(0.0)),
        ("32, 20 Mbps", 32, 20, "no underflow", Claim::Above(0.0)),
        ("16, 20 Mbps", 16, 20, "", Claim::Open),
    ] {
        let name = |what: &str| format!("{senders}:1, R_AI {r_ai} Mbps: minimum of the queue, {what}");
        let model = of(point, Metric::MODEL_QUEUE_MIN);
        rows.push(Row::new(name("fluid model"), stated, claim, Unit::Kilobytes, model));
        let packets = of(point, Metric::STEADY_QUEUE_MIN);
        rows.push(Row::new(name("simulation"), "", Claim::Open, Unit::Kilobytes, packets));
    }
    rows
}

/// Difference between the mean goodputs of the flows 0 and 2 in the last quarter of the run, divided by their sum.
const LATE_GAP: Metric = Metric::of_run("gap between the flows", |result| {
    let [first, last] = [0, 2].map(|flow| Metric::late_gbps(flow).value(result, ""));
    let (first, last) = first.zip(last)?;
    Some((first - last).abs() / (first + last))
});

pub(super) fn validation(m: &Measured<'_>) -> Vec<Row> {
    let gap = |case| m.values(case, LATE_GAP);
    let jitter = |case| m.values(case, Metric::late_jitter(2));
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

/// The quantities of [`validation`] about the timer and the byte counter, with the increase events of the fluid model.
/// The paper makes no statement about this variant of its algorithm, so the rows have no verdict.
pub(super) fn validation_as_modelled(m: &Measured<'_>) -> Vec<Row> {
    let gap = |run: &'static str| m.values(dcqcn("validation-model.toml", "").run(run), LATE_GAP);
    let strawman = gap("strawman");
    let row = |what: &str, figure: &str, sample| {
        let metric = format!("gap between the two goodputs as part of their sum, last quarter: {what}");
        Row::new(metric, figure, Claim::Open, Unit::Percent, sample)
            .note("additive increase after one event; no hyper increase")
    };
    let closed = |run: &'static str| difference(strawman.clone(), gap(run));
    vec![
        row("strawman", "figure 13: unfair", strawman.clone()),
        row("strawman less timer of 55 us", "figure 13: fair", closed(TIMER_ONLY)),
        row("strawman less byte counter of 10 MB", "fair (no figure)", closed(COUNTER_ONLY)),
        row("strawman less timer of 55 us with a byte counter of 10 MB", "figure 13: fair", closed(TIMER_AND_COUNTER)),
    ]
}

pub(super) fn benchmark(m: &Measured<'_>) -> Vec<Row> {
    let pfc = |point| pfc("benchmark.toml", point);
    let dcqcn = |point| dcqcn("benchmark.toml", point);
    let low = |case| on_the_link(m.values_of(case, RECOVERY, Metric::LOW_GBPS));
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
            m.ratio(dcqcn("10"), pfc("10"), Metric::pauses_at("s")),
        ),
        users(Metric::MEDIAN_GBPS, "without DCQCN it collapses"),
        users(Metric::LOW_GBPS, "without DCQCN it collapses"),
        Row::new(
            "users' median goodput with DCQCN: degree 10 / degree 2",
            "flat",
            Claim::equal(),
            Unit::Ratio,
            ratio(m, dcqcn("10"), dcqcn("2"), USERS, Metric::MEDIAN_GBPS),
        ),
        Row::new(
            "recovery's 10th percentile at degree 10: PFC only",
            "1.12 Gbps",
            Claim::size(1.12, 0.01),
            Unit::Gbps,
            low(pfc("10")),
        ),
        Row::new(
            "recovery's 10th percentile at degree 10: DCQCN",
            "3.43 Gbps",
            Claim::size(3.43, 0.01),
            Unit::Gbps,
            low(dcqcn("10")),
        ),
        Row::new(
            "recovery's 10th percentile at degree 10: DCQCN / PFC only",
            "3.43 against 1.12 Gbps",
            Claim::effect(3.43 / 1.12, 0.0, 1.0),
            Unit::Ratio,
            ratio(m, dcqcn("10"), pfc("10"), RECOVERY, Metric::LOW_GBPS),
        ),
    ]
}

/// Rows of verdicts about the large simulation. The paper states only that its results are like those of the testbed.
pub(super) fn large(m: &Measured<'_>) -> Vec<Row> {
    let (pfc, dcqcn) = (pfc("large.toml", ""), dcqcn("large.toml", ""));
    let stated = "similar to the testbed";
    let better = |whose: &str, traffic, metric: Metric| {
        let name = format!("{whose} {}: DCQCN / PFC only", metric.text());
        Row::new(name, stated, Claim::Above(1.0), Unit::Ratio, ratio(m, dcqcn, pfc, traffic, metric))
    };
    vec![
        Row::new(
            "pauses received by core switches: DCQCN / PFC only",
            stated,
            at_most(0.0005),
            Unit::Percent,
            m.ratio(dcqcn, pfc, Metric::pauses_at("core")),
        ),
        better("users'", USERS, Metric::MEDIAN_GBPS),
        better("users'", USERS, Metric::LOW_GBPS),
        better("recovery's", RECOVERY, Metric::LOW_GBPS),
    ]
}

pub(super) fn pairs(m: &Measured<'_>) -> Vec<Row> {
    let many = dcqcn("benchmark-pairs.toml", "80");
    let few = pfc("benchmark-pairs.toml", "5");
    let of = |case, metric| over_seeds(m.values_of(case, USERS, metric), median);
    let row = |metric: Metric| {
        Row::new(
            format!("users' {}, median over placements: 80 pairs with DCQCN / 5 pairs with PFC only", metric.text()),
            "the same: 16 times the load",
            Claim::equal(),
            Unit::Ratio,
            of(many, metric).and_then(|many| divide(many, &of(few, metric)?)),
        )
        .pooled()
        .note(ONE)
    };
    let at_80 = ratio(m, many, pfc("benchmark-pairs.toml", "80"), USERS, Metric::MEDIAN_GBPS);
    vec![
        row(Metric::MEDIAN_GBPS),
        row(Metric::LOW_GBPS),
        Row::new(
            "users' median goodput at 80 pairs: DCQCN / PFC only",
            "DCQCN carries more users",
            Claim::Above(1.0),
            Unit::Ratio,
            at_80,
        ),
    ]
}

pub(super) fn need(m: &Measured<'_>) -> Vec<Row> {
    let low = |case, traffic| m.values_of(case, traffic, Metric::LOW_GBPS);
    let pfc = pfc("benchmark-need.toml", "");
    let dcqcn = dcqcn("benchmark-need.toml", "");
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

pub(super) fn queue(m: &Measured<'_>) -> Vec<Row> {
    const AVERAGED: &str = "95th percentile of the queue averaged over 10 ms: DCQCN";
    let high = |case| m.values(case, Metric::QUEUE_HIGH);
    let dcqcn = dcqcn("queue.toml", "");
    let stated = Claim::size(76_600.0, 100.0);
    let model =
        |name: &str, text: &str, claim, metric| Row::new(name, text, claim, Unit::Kilobytes, m.values(dcqcn, metric));
    vec![
        Row::new("95th percentile of the queue: DCQCN", "76.6 KB", stated, Unit::Kilobytes, high(dcqcn)),
        Row::new(
            "95th percentile of the queue: DCTCP",
            "162.9 KB",
            Claim::size(162_900.0, 100.0),
            Unit::Kilobytes,
            high(DCTCP),
        ),
        Row::new(
            "95th percentile of the queue: DCTCP / DCQCN",
            "162.9 against 76.6 KB",
            Claim::effect(162.9 / 76.6, 0.0, 1.0),
            Unit::Ratio,
            m.ratio(DCTCP, dcqcn, Metric::QUEUE_HIGH),
        ),
        // The paper: "these numbers are consistent with the DCQCN fluid model".
        model("95th percentile of the queue: fluid model of DCQCN", "76.6 KB", stated, Metric::MODEL_QUEUE_HIGH),
        model("mean of the queue: fluid model of DCQCN", "", Claim::Open, Metric::MODEL_QUEUE),
        model("mean of the queue: DCQCN", "", Claim::Open, Metric::QUEUE_MEAN),
        model(AVERAGED, "", Claim::Open, Metric::QUEUE_AVERAGED_HIGH),
    ]
}

/// Rows about the queue of figure 19 with other settings. The metrics have the form `SETTING: QUANTITY`.
pub(super) fn queue_settings(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for run in m.runs(QUEUE_SETTINGS) {
        let case = dcqcn(QUEUE_SETTINGS, "").run(run);
        let row = |what: &str, stated: &str, claim, unit, sample| {
            Row::new(format!("{run}: {what}"), stated, claim, unit, sample)
        };
        let queue = |what: &str, metric: Metric| row(what, "", Claim::Open, Unit::Kilobytes, m.values(case, metric));
        let stated = Claim::size(76_600.0, 100.0);
        let high = m.values(case, Metric::QUEUE_HIGH);
        rows.extend([
            queue("mean queue", Metric::QUEUE_MEAN),
            row("95th percentile", "76.6 KB", stated, Unit::Kilobytes, high),
            queue("95th percentile of means over 10 ms", Metric::QUEUE_AVERAGED_HIGH),
            row("throughput", "", Claim::Open, Unit::Gbps, on_the_link(m.values(case, Metric::TOTAL_GBPS))),
        ]);
    }
    rows
}

/// Rows about the goodput of a disk recovery without PFC. The metrics have the form `SETTING: QUANTITY`.
pub(super) fn losses(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for run in m.runs(LOSSES) {
        let case = dcqcn(LOSSES, "").run(run);
        let of = |traffic, metric| m.values_of(case, traffic, metric);
        let row = |what: &str, stated: &str, claim, unit, sample| {
            Row::new(format!("{run}: {what}"), stated, claim, unit, sample)
        };
        rows.extend([
            row("data packets dropped", "", Claim::Open, Unit::Percent, of("", Metric::DROPPED)),
            row("10th percentile of recovery", "0", at_most(TIE), Unit::Gbps, of(RECOVERY, Metric::LOW_GBPS)),
            row("median of recovery", "", Claim::Open, Unit::Gbps, of(RECOVERY, Metric::MEDIAN_GBPS)),
            row("10th percentile of users", "", Claim::Open, Unit::Gbps, of(USERS, Metric::LOW_GBPS)),
        ]);
    }
    rows
}

pub(super) fn two_bottlenecks(m: &Measured<'_>) -> Vec<Row> {
    let middle = |case| on_the_link(m.values(case, Metric::late_gbps(1)));
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

pub(super) fn random_loss(m: &Measured<'_>) -> Vec<Row> {
    let kept = |run, loss: &str| {
        let of = |loss: &str| {
            let point = format!("{loss}, fixed 4 MB");
            m.values(Case { point: &point, ..lossy(run, "") }, Metric::POOLED_GBPS)
        };
        divide(of(loss)?, &of("0.0")?)
    };
    let gain = |size: &str| {
        let point = format!("1e-2, fixed {size}");
        let case = |run| Case { point: &point, ..lossy(run, "") };
        m.ratio(case("IRN"), case("RoCE"), Metric::POOLED_GBPS)
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
