//! The rows of the IRN study. Each row compares a statement of the paper with a measurement.

use super::*;

/// A claim that a ratio lies between `low` and `high`.
pub(crate) const fn range(low: f64, high: f64) -> Claim {
    Claim::Between { low, high, neutral: 1.0 }
}

/// A claim that a relative change lies between `low` and `high`.
const fn change(low: f64, high: f64) -> Claim {
    Claim::Between { low, high, neutral: 0.0 }
}

fn case<'c>(file: &'c str, run: &'c str, cc: &'c str) -> Case<'c> {
    Case { file, run, cc, point: "" }
}

/// A row of verdicts about the ratio of two runs (`above` / `below`) of a scenario file under one congestion control.
pub(super) fn ratio_row(
    m: &Measured<'_>, (file, cc): (&str, &str), above: &str, below: &str, metric: Metric, stated: &str, claim: Claim,
) -> Row {
    let sample = m.ratio(case(file, above, cc), case(file, below, cc), metric);
    Row::new(format!("{}, {}: {above} / {below}", metric.text(), cc_text(cc)), stated, claim, Unit::Ratio, sample)
}

/// A row of verdicts for each of the metrics [`THREE`] and each congestion control, in the default case of the paper.
pub(super) fn three(m: &Measured<'_>, ccs: &[&str], above: &str, below: &str, stated: &str, claim: Claim) -> Vec<Row> {
    let rows =
        |cc: &&str| THREE.map(|metric| ratio_row(m, ("congestion.toml", cc), above, below, metric, stated, claim));
    ccs.iter().flat_map(rows).collect()
}

pub(super) fn fig2(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = three(m, &["none"], IRN_PFC, IRN, "PFC increases each metric by about 1.5-2x", range(1.5, 2.0));
    let dropped = m.values(case("congestion.toml", IRN, "none"), Metric::DROPPED);
    let claim = Claim::effect(0.085, 0.001, 0.0);
    rows.push(Row::new("data packets dropped: IRN", "8.5 % without PFC", claim, Unit::Percent, dropped));
    rows
}

/// The ratios of two runs (`above` / `below`) for each congestion control, point of the sweep and metric. The name of
/// each ratio contains its metric, congestion control and point, if they vary.
fn ratios(
    m: &Measured<'_>, file: &str, ccs: &[&str], (above, below): (&str, &str), metrics: &[Metric],
) -> Vec<(String, Sample)> {
    let points = m.points(file);
    let points = if points.is_empty() { vec![""] } else { points };
    let mut cases = Vec::new();
    for cc in m.ccs(file, ccs) {
        for point in &points {
            let at = |run| Case { file, run, cc, point };
            for metric in metrics {
                let mut name = Vec::new();
                name.extend((metrics.len() > 1).then(|| metric.text()));
                name.extend((ccs.len() > 1).then(|| cc_text(cc)));
                name.extend((!point.is_empty()).then(|| point.to_string()));
                cases.push((name.join(", "), m.ratio(at(above), at(below), *metric)));
            }
        }
    }
    cases
}

fn changed(cases: Vec<(String, Sample)>, change: fn(f64) -> f64) -> Vec<(String, Sample)> {
    cases.into_iter().map(|(name, sample)| (name, each(sample, change))).collect()
}

/// Converts a ratio to a relative increase: 1.2 becomes 0.2.
fn increase(ratio: f64) -> f64 {
    ratio - 1.0
}

/// Converts a ratio to the relative reduction from its numerator to its denominator: 2 becomes 0.5.
fn reduction(ratio: f64) -> f64 {
    1.0 - 1.0 / ratio
}

/// A row of verdicts about the sample with the largest mean among several cases. The row's note names the case.
fn max_row(metric: &str, stated: &str, claim: Claim, unit: Unit, cases: Vec<(String, Sample)>) -> Row {
    let (sample, note) = largest(cases);
    Row::new(metric, stated, claim, unit, sample).note(note)
}

/// A row of verdicts about the sample with the smallest mean among several cases. The row's note names the case.
fn min_row(metric: &str, stated: &str, claim: Claim, unit: Unit, cases: Vec<(String, Sample)>) -> Row {
    let (sample, note) = smallest(cases);
    Row::new(metric, stated, claim, unit, sample).note(note)
}

pub(super) fn fig5(m: &Measured<'_>) -> Vec<Row> {
    let cases = || ratios(m, "congestion.toml", &EXPLICIT, (IRN_PFC, IRN), &THREE);
    let gain = changed(cases(), |ratio| 1.0 - ratio);
    let loss = changed(cases(), increase);
    vec![
        max_row("largest gain of IRN by PFC", "less than 1 %", Claim::AtMost(LITTLE), Unit::Percent, gain),
        max_row("largest loss of IRN by PFC", "about 3.4 %", Claim::AtMost(0.034), Unit::Percent, loss),
    ]
}

/// Relative gain by PFC below which the paper counts PFC as no gain (figure 5).
pub(crate) const LITTLE: f64 = 0.01;

pub(super) fn takeaways(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cc in CCS {
        let smallest_of = |stated: &str, claim: Claim, runs: (&str, &str)| {
            let cases = ratios(m, "congestion.toml", &[cc], runs, &THREE);
            let (above, below) = runs;
            min_row(
                &format!("smallest of three metrics, {}: {above} / {below}", cc_text(cc)),
                stated,
                claim,
                Unit::Ratio,
                cases,
            )
        };
        rows.push(smallest_of("(1) IRN performs better than RoCE with PFC", Claim::Above(1.0), (ROCE_PFC, IRN)));
        rows.push(smallest_of("(2) IRN does not require PFC", Claim::Above(1.0 - LITTLE), (IRN_PFC, IRN)));
        rows.push(smallest_of("(3) RoCE requires PFC", Claim::Above(1.0), (ROCE, ROCE_PFC)));
    }
    rows
}

pub(super) fn fig7(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cc in CCS {
        let row = |above, below, stated| {
            ratio_row(m, ("ablation.toml", cc), above, below, Metric::FCT, stated, Claim::Above(1.0))
        };
        rows.push(row(GO_BACK_N, IRN, "go-back-N significantly worse"));
        rows.push(row(NO_BDP_FC, IRN, "BDP-FC significantly improves performance"));
        rows.push(row(GO_BACK_N, NO_BDP_FC, "go-back-N generally worse than no BDP-FC"));
    }
    rows
}

pub(super) fn backoff(m: &Measured<'_>) -> Vec<Row> {
    let cost = |cc: &'static str| {
        each(m.ratio(case("back-off.toml", BACK_OFF, cc), case("ablation.toml", IRN, cc), Metric::FCT), increase)
    };
    let gain = |cc: &'static str| {
        m.ratio(case("ablation.toml", GO_BACK_N, cc), case("back-off.toml", BACK_OFF, cc), Metric::FCT)
    };
    vec![
        Row::new(
            "average FCT, TIMELY: go-back-N with back-off above IRN",
            "20-50 % worse than SACK",
            change(0.2, 0.5),
            Unit::Percent,
            cost("timely"),
        ),
        Row::new(
            "average FCT, DCQCN: go-back-N with back-off above IRN",
            "significantly worse than SACK",
            Claim::Above(0.0),
            Unit::Percent,
            cost("dcqcn"),
        ),
        Row::new(
            "average FCT, TIMELY: go-back-N without / with back-off",
            "back-off improves go-back-N for Timely",
            Claim::Above(1.0),
            Unit::Ratio,
            gain("timely"),
        ),
        Row::new(
            "average FCT, DCQCN: go-back-N without / with back-off",
            "but not for DCQCN",
            Claim::AtMost(1.0),
            Unit::Ratio,
            gain("dcqcn"),
        ),
    ]
}

pub(super) fn no_sack(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cc in m.ccs("ablation.toml", &CCS) {
        let at = |run| case("ablation.toml", run, cc);
        let cost = each(m.ratio(at(NO_SACK), at(IRN), Metric::FCT), increase);
        let metric = format!("average FCT, {}: without SACK above IRN", cc_text(cc));
        rows.push(Row::new(metric, "worse by < 1 % up to 75 %", change(0.0, 0.75), Unit::Percent, cost));
        let stated = "better than go-back-N";
        rows.push(ratio_row(m, ("ablation.toml", cc), GO_BACK_N, NO_SACK, Metric::FCT, stated, Claim::Above(1.0)));
    }
    rows
}

/// Rows of verdicts that compare the paper's conclusions from all its robustness experiments with the results of the
/// one in `file`.
pub(super) fn robustness(m: &Measured<'_>, file: &str) -> Vec<Row> {
    let better = || changed(ratios(m, file, &CCS, (ROCE_PFC, IRN), &THREE), reduction);
    let pfc = |cc| ratios(m, file, &[cc], (IRN_PFC, IRN), &THREE);
    let stated = "IRN better by 6-83 % in all cases";
    let mut rows = vec![
        min_row("smallest gain of IRN over RoCE + PFC", stated, change(0.06, 0.83), Unit::Percent, better()),
        max_row("largest gain of IRN over RoCE + PFC", stated, change(0.06, 0.83), Unit::Percent, better()),
        min_row("smallest IRN + PFC / IRN, no cc", "PFC always degrades", Claim::Above(1.0), Unit::Ratio, pfc("none")),
        max_row("largest IRN + PFC / IRN, no cc", "up to 2.4x", Claim::AtMost(2.4), Unit::Ratio, pfc("none")),
    ];
    for (cc, loss, gain) in [("timely", 0.39, 0.016), ("dcqcn", 0.20, 0.05)] {
        let percent = |share: f64| format!("at most {} %", (share * 1_000.0).round() / 10.0);
        let losses = changed(pfc(cc), increase);
        let gains = changed(pfc(cc), |ratio| 1.0 - ratio);
        let name = |what: &str| format!("largest {what} of IRN by PFC, {}", cc_text(cc));
        rows.push(max_row(&name("loss"), &percent(loss), Claim::AtMost(loss), Unit::Percent, losses));
        rows.push(max_row(&name("gain"), &percent(gain), Claim::AtMost(gain), Unit::Percent, gains));
    }
    rows
}

/// The rows of verdicts of [`robustness`], and rows about a trend. The cost of PFC is the ratio of the results of IRN +
/// PFC and IRN, without congestion control. The trend is how this cost changes from the first point of the sweep to the
/// last.
pub(super) fn with_trend(m: &Measured<'_>, file: &str, stated: &str, grows: bool) -> Vec<Row> {
    let mut rows = robustness(m, file);
    let points = m.points(file);
    let first = points.first().copied().unwrap_or("");
    let last = points.last().copied().unwrap_or("");
    for metric in THREE {
        let cost = |point| {
            let at = |run| Case { file, run, cc: "none", point };
            m.ratio(at(IRN_PFC), at(IRN), metric)
        };
        let (above, below) = if grows { (last, first) } else { (first, last) };
        let sample = cost(above).and_then(|above| divide(above, &cost(below)?));
        let name = format!("{}, no cc: (IRN + PFC / IRN) at {above} / at {below}", metric.text());
        rows.push(Row::new(name, stated, Claim::Above(1.0), Unit::Ratio, sample));
    }
    rows
}

/// The rows of verdicts of [`robustness`], and a row about the largest change of IRN's results between the first point
/// of the sweep and any other point.
pub(super) fn with_sensitivity(m: &Measured<'_>, file: &str) -> Vec<Row> {
    let mut rows = robustness(m, file);
    let points = m.points(file);
    let mut cases = Vec::new();
    for cc in m.ccs(file, &CCS) {
        for (point, metric) in points.iter().skip(1).flat_map(|point| THREE.map(|metric| (*point, metric))) {
            let at = |point| Case { file, run: IRN, cc, point };
            let sample = each(m.ratio(at(point), at(points[0]), metric), increase);
            cases.push((format!("{}, {}, {point}", metric.text(), cc_text(cc)), sample));
        }
    }
    let (sample, note) = farthest(cases);
    rows.push(Row::new("largest change of IRN", "very small", Claim::Open, Unit::Percent, sample).note(note));
    rows
}

/// The percentiles of the completion time of single-packet messages in the paper's figure 8.
const TAIL: [Metric; 4] = [Metric::tail(900), Metric::tail(950), Metric::tail(990), Metric::tail(999)];

pub(super) fn fig8(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cc in CCS {
        let tail = |runs| ratios(m, "congestion.toml", &[cc], runs, &TAIL);
        let name = |above: &str| format!("90 to 99.9 %ile of single packets, {}: smallest {above} / IRN", cc_text(cc));
        let stated = "IRN significantly better than RoCE";
        rows.push(min_row(&name(ROCE_PFC), stated, Claim::Above(1.0), Unit::Ratio, tail((ROCE_PFC, IRN))));
        let stated = "similar or longer with PFC";
        rows.push(min_row(&name(IRN_PFC), stated, Claim::Above(1.0 - LITTLE), Unit::Ratio, tail((IRN_PFC, IRN))));
    }
    rows
}

pub(super) fn fig9(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cc in CCS {
        let cases = |below| changed(ratios(m, "incast.toml", &[cc], (IRN, below), &[Metric::RCT]), increase);
        let name = |below: &str| format!("average RCT, {}: largest increase of IRN above {below}", cc_text(cc));
        rows.push(max_row(&name(ROCE_PFC), "within 2.5 %", Claim::AtMost(0.025), Unit::Percent, cases(ROCE_PFC)));
        rows.push(max_row(&name(IRN_PFC), "very similar", Claim::Open, Unit::Percent, cases(IRN_PFC)));
    }
    rows
}

pub(super) fn incast_variants(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (file, what) in [("incast-rate.toml", "10 and 100 Gbps"), ("incast-connections.toml", "several connections")] {
        for cc in CCS {
            // The paper's text is about disabling PFC with IRN, but its figure compares IRN with RoCE. Each has its own
            // row.
            for below in [ROCE_PFC, IRN_PFC] {
                let cases = changed(ratios(m, file, &[cc], (IRN, below), &[Metric::RCT]), increase);
                let name = format!("average RCT, {what}, {}: largest increase of IRN above {below}", cc_text(cc));
                rows.push(max_row(&name, "within 9 %", Claim::AtMost(0.09), Unit::Percent, cases));
            }
        }
    }
    rows
}

pub(super) fn incast_cross(m: &Measured<'_>) -> Vec<Row> {
    const FILE: &str = "incast-cross.toml";
    let background = |cc, runs: (&str, &str), metric| {
        m.ratio_of(case(FILE, runs.0, cc), case(FILE, runs.1, cc), "background", metric)
    };
    let mut rows = Vec::new();
    let mut pfc = Vec::new();
    for cc in CCS {
        let rct = |above, below| m.ratio(case(FILE, above, cc), case(FILE, below, cc), Metric::RCT);
        let name = format!("average RCT, {}: IRN below RoCE + PFC", cc_text(cc));
        let sample = each(rct(ROCE_PFC, IRN), reduction);
        rows.push(Row::new(name, "IRN lower by 4-30 %", change(0.04, 0.30), Unit::Percent, sample));
        pfc.push((format!("average RCT, {}", cc_text(cc)), rct(IRN_PFC, IRN)));
        for metric in THREE {
            let name = format!("background {}, {}: IRN below RoCE + PFC", metric.text(), cc_text(cc));
            let sample = each(background(cc, (ROCE_PFC, IRN), metric), reduction);
            rows.push(Row::new(name, "IRN better by 32-87 %", change(0.32, 0.87), Unit::Percent, sample));
            let name = format!("background {}, {}", metric.text(), cc_text(cc));
            pfc.push((name, background(cc, (IRN_PFC, IRN), metric)));
        }
    }
    let loss = changed(pfc.clone(), increase);
    let gain = changed(pfc, |ratio| 1.0 - ratio);
    rows.push(max_row("largest loss of IRN by PFC", "1-75 % worse", change(0.01, 0.75), Unit::Percent, loss));
    let stated = "better in one case only, by 1.13 %";
    rows.push(max_row("largest gain of IRN by PFC", stated, Claim::AtMost(0.0113), Unit::Percent, gain));
    rows
}

pub(super) fn window_cc(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for cc in WINDOW {
        for metric in THREE {
            let stated = "similar trends: PFC not required";
            rows.push(ratio_row(m, ("window.toml", cc), IRN_PFC, IRN, metric, stated, Claim::Above(1.0 - LITTLE)));
        }
    }
    for metric in THREE {
        let with = |file, cc| m.ratio(case(file, IRN_PFC, cc), case(file, IRN, cc), metric);
        let sample = with("window.toml", "aimd").and_then(|aimd| divide(aimd, &with("congestion.toml", "none")?));
        let name = format!("{}: (IRN + PFC / IRN) under AIMD / without cc", metric.text());
        rows.push(Row::new(name, "disabling PFC helps AIMD even more", Claim::Above(1.0), Unit::Ratio, sample));
    }
    rows
}

pub(super) fn fig10(m: &Measured<'_>) -> Vec<Row> {
    let row = |metric: Metric| {
        let sample = m.ratio(case("congestion.toml", ROCE, "dcqcn"), case("congestion.toml", IRN, "none"), metric);
        let name = format!("{}: Resilient RoCE / IRN without cc", metric.text());
        Row::new(name, "IRN significantly better", Claim::Above(1.0), Unit::Ratio, sample)
    };
    THREE.map(row).to_vec()
}

pub(super) fn fig11(m: &Measured<'_>) -> Vec<Row> {
    const FILE: &str = "iwarp.toml";
    let below = |run: &'static str, cc: &'static str, metric| {
        each(m.ratio(case(FILE, "iWARP", "none"), case(FILE, run, cc), metric), reduction)
    };
    let row = |metric: Metric, run: &'static str, cc: &'static str, stated: &str, claim: Claim| {
        let name = format!("{}: {run} below iWARP", metric.text());
        Row::new(name, stated, claim, Unit::Percent, below(run, cc, metric))
    };
    let exactly = |value| Claim::effect(value, 0.01, 0.0);
    vec![
        row(Metric::SLOWDOWN, IRN, "none", "21 % smaller", exactly(0.21)),
        row(Metric::FCT, IRN, "none", "comparable", Claim::Open),
        row(Metric::FCT_P99, IRN, "none", "comparable", Claim::Open),
        row(Metric::SLOWDOWN, "IRN + AIMD", "aimd", "44 % smaller", exactly(0.44)),
        row(Metric::FCT, "IRN + AIMD", "aimd", "11 % smaller", exactly(0.11)),
    ]
}
