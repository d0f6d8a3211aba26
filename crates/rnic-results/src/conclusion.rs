//! The conclusion of a scenario in a few sentences: which run is best, by how much, and how sure this is.
//!
//! The conclusion compares runs by the main metric of the scenario: the average slowdown; the average request
//! completion time if all flows belong to requests; or the mean goodput if flows run in closed loops, or if many flows
//! are unfinished. If a scenario has several traffic sources, each source has its own sentence, because a mean over all
//! flows depends on the number of flows of each source.

use super::compare::{Change, Metric};
use super::estimate::Estimate;
use super::seeds::{Replicates, over_seeds};
use super::summary::{RunSummary, ScenarioSummary};
use super::text::{count, duration, rate, three_digits};

/// Maximum share of unfinished flows of a truncated run. Above this share, the runs are not compared by slowdown.
const FEW_UNFINISHED: f64 = 0.01;
/// Minimum change of a further metric, as a factor, for a sentence about it.
const NOTABLE: f64 = 1.02;
/// Maximum number of run names, or of points of a sweep, that one sentence lists.
const NAMES: usize = 4;

/// A function that returns a value of a run; `None` if the run has no such value.
type Value<'s> = Box<dyn Fn(&RunSummary) -> Option<f64> + 's>;

/// A quantity by which the runs are compared.
struct Criterion<'s> {
    /// Name of the quantity for use within a sentence.
    name: &'static str,
    /// The traffic source to which the quantity is restricted; empty for all flows.
    source: &'s str,
    /// Whether smaller values are better.
    is_lower_better: bool,
    value: Value<'s>,
    show: fn(f64) -> String,
}

/// The sentences of the conclusion, each with its full stop. There are none if no run has results.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Conclusion {
    /// A sentence about the main metric, or one for each traffic source.
    pub(crate) main: Vec<String>,
    /// What a reader should know besides: other metrics, and how sure the conclusion is.
    pub(crate) notes: Vec<String>,
}

/// The conclusion of a scenario.
pub(crate) fn conclusion(summary: &ScenarioSummary) -> Conclusion {
    if let Some(packets) = summary.packets_of_mixed() {
        return conclusion(&packets);
    }
    let groups = over_seeds(summary);
    let criteria = criteria(summary);
    let (mut main, mut winners) = (Vec::new(), Vec::new());
    for criterion in &criteria {
        let Some((sentence, winner)) = sentence(&groups, criterion) else { continue };
        main.push(sentence);
        winners.extend(winner);
    }
    let points = points(&groups).len();
    let mut notes = Vec::new();
    if let ([criterion], 1) = (criteria.as_slice(), points) {
        notes.extend(other_metrics(&groups, criterion, winners.first()));
    }
    if criteria.len() > 1 && winners.windows(2).any(|pair| pair[0] != pair[1]) {
        let note =
            "The traffic sources disagree, so a mean over all flows depends on the number of flows of each source.";
        notes.push(note.to_string());
    }
    if !main.is_empty() && groups.len() > points && groups.iter().all(|group| group.runs.len() == 1) {
        notes.push("One seed, so no confidence interval: small differences may be chance.".to_string());
    }
    Conclusion { main, notes }
}

/// The quantities by which the runs of the scenario are compared: one, or one per traffic source.
fn criteria(summary: &ScenarioSummary) -> Vec<Criterion<'_>> {
    let by_goodput = summary.runs.iter().any(is_about_goodput);
    let sources = summary.runs.iter().map(|run| run.traffic.as_slice()).max_by_key(|sources| sources.len());
    if let Some(sources) = sources.filter(|sources| !sources.is_empty()) {
        return sources.iter().enumerate().map(|(index, source)| of(&source.name, index, by_goodput)).collect();
    }
    if by_goodput {
        let value = |run: &RunSummary| run.goodput.map(|goodput| goodput.mean);
        let criterion =
            Criterion { name: "mean goodput", source: "", is_lower_better: false, value: Box::new(value), show: rate };
        return vec![criterion];
    }
    let is_about_requests = summary.runs.iter().all(|run| run.about_requests);
    vec![of_metric(if is_about_requests { Metric::AverageRct } else { Metric::AverageSlowdown })]
}

fn of_metric(metric: Metric) -> Criterion<'static> {
    let show = if metric == Metric::AverageSlowdown { three_digits } else { duration };
    let value = move |run: &RunSummary| metric.value(run);
    Criterion { name: metric.name(), source: "", is_lower_better: true, value: Box::new(value), show }
}

fn of(source: &str, index: usize, by_goodput: bool) -> Criterion<'_> {
    let value = move |run: &RunSummary| {
        let class = run.traffic.get(index)?;
        if by_goodput { class.goodput.map(|goodput| goodput.mean) } else { class.group.slowdown.map(|of| of.mean) }
    };
    let (name, show): (_, fn(f64) -> String) =
        if by_goodput { ("mean goodput", rate) } else { (Metric::AverageSlowdown.name(), three_digits) };
    Criterion { name, source, is_lower_better: !by_goodput, value: Box::new(value), show }
}

/// Whether the goodput describes the run better than its finished flows do.
fn is_about_goodput(run: &RunSummary) -> bool {
    let unfinished = (run.flows.offered - run.flows.completed) as f64;
    match run.truncated {
        None => run.about_goodput,
        Some(truncation) => truncation.not_started.is_none() || unfinished > FEW_UNFINISHED * run.flows.offered as f64,
    }
}

/// The points of the sweep, apart from seeds; a single point without a sweep.
fn points<'s>(groups: &[Replicates<'s>]) -> Vec<Vec<(&'s str, &'s str)>> {
    let mut points: Vec<Vec<(&str, &str)>> = Vec::new();
    for point in groups.iter().map(Replicates::point) {
        if !points.contains(&point) {
            points.push(point);
        }
    }
    points
}

/// The sentence about one quantity, and the name of the best run in the scenario file, if one run is best. `None` if no
/// run has a value.
fn sentence(groups: &[Replicates<'_>], criterion: &Criterion<'_>) -> Option<(String, Option<String>)> {
    let start = if criterion.source.is_empty() { String::new() } else { format!("{}: ", criterion.source) };
    let points = points(groups);
    let (text, winner) = match points.as_slice() {
        [_] => at_one_point(&groups.iter().collect::<Vec<_>>(), criterion)?,
        _ => over_points(groups, &points, criterion)?,
    };
    Some((format!("{start}{text}."), winner))
}

impl Criterion<'_> {
    /// The first word of a sentence that does not begin with the name of a run: with a capital letter, unless the name
    /// of the traffic source comes before it.
    fn first_word(&self, word: &str) -> String {
        match (self.source, word.split_at_checked(1)) {
            ("", Some((first, rest))) => first.to_uppercase() + rest,
            _ => word.to_string(),
        }
    }
}

/// A group of runs with its mean.
#[derive(Clone, Copy)]
struct Ranked<'g, 's> {
    group: &'g Replicates<'s>,
    estimate: Estimate,
}

/// Returns the groups at one point that have a value, the best first, and the number of groups at the front whose order
/// the results do not decide.
fn ranking<'g, 's>(groups: &[&'g Replicates<'s>], criterion: &Criterion<'_>) -> Option<(Vec<Ranked<'g, 's>>, usize)> {
    let ranked = |group: &&'g Replicates<'s>| {
        Some(Ranked { group, estimate: group.estimate(&*criterion.value).filter(|of| of.mean > 0.0)? })
    };
    let mut ranking: Vec<Ranked<'_, '_>> = groups.iter().filter_map(ranked).collect();
    ranking.sort_by(|a, b| match criterion.is_lower_better {
        true => a.estimate.mean.total_cmp(&b.estimate.mean),
        false => b.estimate.mean.total_cmp(&a.estimate.mean),
    });
    let best = ranking.first()?.group;
    let leading = ranking.iter().take_while(|other| !Comparison::of(best, other.group, criterion).is_decided()).count();
    Some((ranking, leading.max(1)))
}

/// How much better one group of runs is than another one.
struct Comparison {
    /// Mean of the factor over the seeds, and its interval; `None` if the groups have no seed in common.
    factor: Option<Estimate>,
}

impl Comparison {
    fn of(better: &Replicates<'_>, worse: &Replicates<'_>, criterion: &Criterion<'_>) -> Comparison {
        let factor = match criterion.is_lower_better {
            true => better.ratio(worse, &*criterion.value),
            false => worse.ratio(better, &*criterion.value),
        };
        Comparison { factor }
    }

    /// Whether the results show a difference: a factor of at least 1.005, and an interval that does not contain 1.
    fn is_decided(&self) -> bool {
        self.factor.is_some_and(|factor| {
            Change::of(factor.mean, 1.0) != Some(Change::Same) && (factor.count == 1 || !contains_one(&factor))
        })
    }

    /// The factor as text, such as `2.9x better`, or `2.9x better (2.5x to 3.3x)`.
    fn text(&self) -> String {
        let Some(factor) = self.factor else { return "better".to_string() };
        let change = Change::of(factor.mean, 1.0).map_or("better".to_string(), |change| change.to_string());
        match factor.half_width {
            Some(_) => format!("{change} ({})", range(&factor)),
            None => change,
        }
    }
}

fn contains_one(factor: &Estimate) -> bool {
    let [low, high] = factor.interval();
    low <= 1.0 && high >= 1.0
}

fn range(factor: &Estimate) -> String {
    let [low, high] = factor.interval();
    format!("95 % interval {} to {}x", three_digits(low.max(0.0)), three_digits(high))
}

/// A mean as text; over several seeds, with half the width of its interval.
fn shown(estimate: &Estimate, criterion: &Criterion<'_>) -> String {
    let mean = (criterion.show)(estimate.mean);
    match estimate.half_width {
        Some(half) => format!("{mean} \u{b1} {}", (criterion.show)(half)),
        None => mean,
    }
}

fn at_one_point(groups: &[&Replicates<'_>], criterion: &Criterion<'_>) -> Option<(String, Option<String>)> {
    let (ranking, leading) = ranking(groups, criterion)?;
    let seeds = match ranking.iter().map(|of| of.estimate.count).max().unwrap_or(1) {
        1 => String::new(),
        seeds => format!(", mean over {seeds} seeds"),
    };
    let value = |of: &Ranked<'_, '_>| shown(&of.estimate, criterion);
    let with_value = |of: &Ranked<'_, '_>| format!("{} ({})", of.group.name(), value(of));
    let extreme = if criterion.is_lower_better { "lowest" } else { "highest" };
    let best = &ranking[0];
    if ranking.len() == 1 {
        return Some((alone(best, groups.len(), criterion, &seeds), None));
    }
    let (front, rest) = ranking.split_at(leading);
    let mut text = match (leading, rest.is_empty()) {
        (1, _) => format!("{} has the {extreme} {}, {}{seeds}", best.group.name(), criterion.name, value(best)),
        _ => undecided(front, rest.is_empty(), criterion, &seeds),
    };
    let winner = (leading == 1).then(|| best.group.base.to_string());
    let compared = |of: &Ranked<'_, '_>| Comparison::of(best.group, of.group, criterion).text();
    let first = groups.first().map(|group| group.base);
    let reference = rest.iter().find(|of| Some(of.group.base) == first);
    let mut links = Vec::new();
    links.extend(reference.map(|of| format!("{} than {}", compared(of), with_value(of))));
    if let Some(next) = rest.first().filter(|next| reference.is_none_or(|of| !std::ptr::eq(of.group, next.group))) {
        links.push(format!("{} than the next, {}", compared(next), with_value(next)));
    }
    if !links.is_empty() {
        text += &format!(": {}", links.join(", "));
    }
    Some((text, winner))
}

/// A single run with results: its main metric, and the tail of its flows.
fn alone(best: &Ranked<'_, '_>, groups: usize, criterion: &Criterion<'_>, seeds: &str) -> String {
    let value = shown(&best.estimate, criterion);
    let name = best.group.name();
    let subject = match groups {
        1 => name,
        _ => format!("{} {name} has results", criterion.first_word("only")),
    };
    let mut text = format!("{subject}: {} {value}{seeds}", criterion.name);
    if let ([run], "") = (best.group.runs.as_slice(), criterion.source)
        && let Some(p99) = Metric::P99Fct.value(run)
    {
        text += &format!(", 99th percentile FCT {}, over {} measured flows", duration(p99), count(run.flows.measured));
    }
    text
}

/// Several runs at the front between which the results do not decide.
fn undecided(front: &[Ranked<'_, '_>], is_all: bool, criterion: &Criterion<'_>, seeds: &str) -> String {
    let (best, last) = (&front[0], &front[front.len() - 1]);
    let names: Vec<String> = front.iter().take(NAMES).map(|of| of.group.name()).collect();
    let names = match front.len() {
        n if n > NAMES => format!("{} and {} more runs", names.join(", "), n - NAMES),
        _ => names.split_last().map_or(String::new(), |(last, others)| format!("{} and {last}", others.join(", "))),
    };
    let values = format!("{} and {}", shown(&best.estimate, criterion), shown(&last.estimate, criterion));
    let wide = front.iter().map(|of| Comparison::of(best.group, of.group, criterion).factor);
    let wide = wide.flatten().find(|factor| Change::of(factor.mean, 1.0) != Some(Change::Same));
    match (wide, is_all) {
        (Some(factor), _) => format!(
            "{} between {names}: {} {values}{seeds}; the {} of the ratio contains 1",
            criterion.first_word("inconclusive"),
            criterion.name,
            range(&factor)
        ),
        (None, is_all) => {
            let best = if is_all { "" } else { "the best, " };
            format!(
                "{} difference between {best}{names}: {} {values}{seeds}",
                criterion.first_word("no"),
                criterion.name
            )
        }
    }
}

/// The sentence about a sweep: at how many points each run is best.
fn over_points(
    groups: &[Replicates<'_>], points: &[Vec<(&str, &str)>], criterion: &Criterion<'_>,
) -> Option<(String, Option<String>)> {
    let at = |point: &Vec<(&str, &str)>| groups.iter().filter(|group| group.point() == *point).collect::<Vec<_>>();
    let bases: std::collections::BTreeSet<&str> = groups.iter().map(|group| group.base).collect();
    if bases.len() == 1 {
        return along(groups, criterion).map(|text| (text, None));
    }
    let mut wins: Vec<(&str, Vec<Option<Estimate>>)> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut known = 0;
    for point in points {
        let groups = at(point);
        let Some((ranking, leading)) = ranking(&groups, criterion) else { continue };
        known += 1;
        let label = super::seeds::named("", point).trim_start_matches(", ").to_string();
        let (best, next) = match ranking.as_slice() {
            [best, next, ..] if leading == 1 => (best, next),
            _ => {
                open.push(label);
                continue;
            }
        };
        let reference = groups.first().filter(|group| group.base != best.group.base);
        let factor = Comparison::of(best.group, reference.unwrap_or(&next.group), criterion).factor;
        match wins.iter_mut().find(|(base, _)| *base == best.group.base) {
            Some((_, factors)) => factors.push(factor),
            None => wins.push((best.group.base, vec![factor])),
        }
    }
    wins.sort_by_key(|(_, factors)| std::cmp::Reverse(factors.len()));
    let first = groups.first()?.base;
    let part = |(base, factors): &(&str, Vec<Option<Estimate>>)| {
        let means = factors.iter().flatten().map(|factor| factor.mean);
        let (min, max) = means.fold((f64::INFINITY, 0.0_f64), |(min, max), mean| (min.min(mean), max.max(mean)));
        let other = if *base == first { "the next" } else { first };
        let by = match (Change::of(min, 1.0), Change::of(max, 1.0)) {
            (Some(min), Some(max)) if min.to_string() == max.to_string() => format!(" ({min} than {other})"),
            (Some(min), Some(max)) => {
                let min = min.to_string();
                format!(" ({} to {max} than {other})", min.strip_suffix(" better").unwrap_or(&min))
            }
            _ => String::new(),
        };
        format!("{base} at {}{by}", factors.len())
    };
    let mut parts: Vec<String> = wins.iter().map(part).collect();
    if !open.is_empty() {
        let listed = if open.len() > NAMES { String::new() } else { format!(" ({})", open.join("; ")) };
        parts.push(format!("inconclusive or no difference at {}{listed}", open.len()));
    }
    let extreme = criterion.first_word(if criterion.is_lower_better { "lowest" } else { "highest" });
    let seeds = match groups.iter().map(|group| group.runs.len()).max().unwrap_or(1) {
        1 => String::new(),
        seeds => format!(", by 95 % intervals over {seeds} seeds"),
    };
    let winner = wins.first().filter(|(_, factors)| 2 * factors.len() > known).map(|(base, _)| (*base).to_string());
    let text = || format!("{extreme} {} at the {known} points{seeds}: {}", criterion.name, parts.join(", "));
    (known > 0).then(|| (text(), winner))
}

/// The sentence about a sweep with one run: the points with the best and the worst value.
fn along(groups: &[Replicates<'_>], criterion: &Criterion<'_>) -> Option<String> {
    let groups: Vec<&Replicates<'_>> = groups.iter().collect();
    let (ranking, _) = ranking(&groups, criterion)?;
    let (best, worst) = (ranking.first()?, ranking.last()?);
    let at = |of: &Ranked<'_, '_>| super::seeds::named("", &of.group.point()).trim_start_matches(", ").to_string();
    Some(format!(
        "{}: {} from {} at {} to {} at {}",
        best.group.base,
        criterion.name,
        shown(&best.estimate, criterion),
        at(best),
        shown(&worst.estimate, criterion),
        at(worst)
    ))
}

/// Sentences about further metrics by which another run than `winner` is best.
fn other_metrics(groups: &[Replicates<'_>], main: &Criterion<'_>, winner: Option<&String>) -> Vec<String> {
    let Some(winner) = winner else { return Vec::new() };
    let groups: Vec<&Replicates<'_>> = groups.iter().collect();
    let others = [Metric::P99Fct, Metric::AverageRct].into_iter().map(of_metric);
    let sentence = |criterion: Criterion<'_>| {
        let (ranking, leading) = ranking(&groups, &criterion)?;
        let best = ranking.first().filter(|best| leading == 1 && best.group.base != *winner)?;
        let other = ranking.iter().find(|of| of.group.base == *winner)?;
        let comparison = Comparison::of(best.group, other.group, &criterion);
        comparison.factor.filter(|factor| factor.mean >= NOTABLE)?;
        Some(format!(
            "But {} has the lowest {}, {}: {} than {} ({}).",
            best.group.name(),
            criterion.name,
            shown(&best.estimate, &criterion),
            comparison.text(),
            other.group.name(),
            shown(&other.estimate, &criterion)
        ))
    };
    others.filter(|other| other.name != main.name).filter_map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, summarise};
    use super::*;
    use rnic_spec::Truncation;
    use rnic_transport::Time;

    /// Two runs of one traffic source, so that all flows together are compared.
    fn one_source() -> (rnic_spec::Scenario, Vec<rnic_spec::RunRecord>) {
        let (mut scenario, mut reports) = fixture::two_runs();
        for run in &mut scenario.runs {
            run.traffic.truncate(1);
        }
        for report in &mut reports {
            for id in 0..5 {
                report.output.flows.edit(id, |flow| (flow.request, flow.traffic) = (u32::MAX, 0));
            }
        }
        (scenario, reports)
    }

    fn sentences(summary: &ScenarioSummary) -> Vec<String> {
        let Conclusion { main, notes } = conclusion(summary);
        [main, notes].concat()
    }

    const ONE_SEED: &str = "One seed, so no confidence interval: small differences may be chance.";

    #[test]
    fn the_best_run_is_named_with_its_lead() {
        let (scenario, reports) = one_source();
        let sentences = sentences(&summarise(&scenario, &reports));
        let best = "IRN has the lowest average slowdown, 2.50: 2.0x better than RoCE + PFC (5.00).";
        assert_eq!(sentences, [best, ONE_SEED]);
    }

    #[test]
    fn runs_with_equal_values_have_no_difference() {
        let (scenario, mut reports) = one_source();
        reports[1] = reports[0].clone();
        let sentences = sentences(&summarise(&scenario, &reports));
        assert_eq!(sentences[0], "No difference between RoCE + PFC and IRN: average slowdown 5.00 and 5.00.");
    }

    #[test]
    fn a_third_run_is_the_next() {
        let (mut scenario, mut reports) = one_source();
        scenario.runs.push(scenario.runs[1].clone());
        scenario.runs[2].name = "IRN + PFC".into();
        scenario.runs[2].base = "IRN + PFC".into();
        let mut third = reports[1].clone();
        third.output.flows.edit(3, |flow| flow.finish = flow.finish.map(|finish| finish + Time::from_us(200)));
        reports.push(third);
        // The slowdown of the slowest flow grows from 4 to 8, the average from 2.5 to 3.5.
        let sentences = sentences(&summarise(&scenario, &reports));
        let best = "IRN has the lowest average slowdown, 2.50: 2.0x better than RoCE + PFC (5.00), 1.4x better than the \
                    next, IRN + PFC (3.50).";
        assert_eq!(sentences[0], best);
    }

    #[test]
    fn another_metric_may_have_another_winner() {
        let (scenario, mut reports) = one_source();
        reports[1].output.flows.edit(3, |flow| flow.ideal = Time::from_us(2_000));
        reports[1].output.flows.edit(3, |flow| flow.finish = Some(flow.start + Time::from_us(800)));
        let sentences = sentences(&summarise(&scenario, &reports));
        let but = "But RoCE + PFC has the lowest 99th percentile FCT, 400 us: 2.0x better than IRN (800 us).";
        assert_eq!(sentences[1], but, "{sentences:?}");
    }

    #[test]
    fn each_traffic_source_has_its_sentence() {
        let (scenario, mut reports) = fixture::two_runs();
        let found = sentences(&summarise(&scenario, &reports));
        let each = ["background", "incast"].map(|source| found.iter().any(|text| text.starts_with(source)));
        assert_eq!((each, found.len()), ([true, true], 3), "{found:?}");
        // IRN is 2 times better for the background flows, and now 2 times worse for the incast.
        for id in [2, 3] {
            reports[1].output.flows.edit(id, |flow| {
                flow.finish = flow.finish.map(|finish| flow.start + (finish - flow.start) * 4);
            });
        }
        let found = sentences(&summarise(&scenario, &reports));
        assert!(found[0].starts_with("background: IRN has the lowest average slowdown, 1.50: 2.0x better"));
        assert!(found[1].starts_with("incast: RoCE + PFC has the lowest average slowdown, 7.00: 2.0x better"));
        assert!(found[2].starts_with("The traffic sources disagree"), "{found:?}");
    }

    #[test]
    fn truncated_runs_are_compared_by_goodput() {
        let (scenario, mut reports) = one_source();
        for report in &mut reports {
            report.output.truncated = Some(Truncation { at: report.output.end, not_started: None });
        }
        let sentences = sentences(&summarise(&scenario, &reports));
        assert!(sentences[0].starts_with("IRN has the highest mean goodput, 5.57 Gbps: 2.0x better"), "{sentences:?}");
    }

    #[test]
    fn an_interval_that_contains_one_is_inconclusive() {
        let noise = |run: &str, seed: u64| if run == "IRN" { [1.0, 3.0, 2.0][seed as usize - 1] } else { 2.2 };
        let summary = fixture::sweep(&["0.3"], &[1, 2, 3], |run, _, seed| noise(run, seed));
        let sentences = sentences(&summary);
        assert!(sentences[0].contains("inconclusive between IRN, load=0.3 and RoCE + PFC, load=0.3"), "{sentences:?}");
        assert!(sentences[0].contains("mean over 3 seeds") && sentences[0].contains("contains 1"), "{sentences:?}");
        assert!(!sentences.iter().any(|text| text == ONE_SEED));
    }

    #[test]
    fn several_seeds_have_an_interval() {
        // The ratios of the three seeds are 1.9, 2.0 and 2.1: mean 2.0, half-width 4.3027 * 0.1 / sqrt(3) = 0.248.
        let ratio = |seed: u64| 1.8 + seed as f64 / 10.0;
        let summary =
            fixture::sweep(&["0.3"], &[1, 2, 3], |run, _, seed| if run == "IRN" { 2.0 } else { 2.0 * ratio(seed) });
        let sentences = sentences(&summary);
        assert!(sentences[0].contains("2.0x better (95 % interval 1.75 to 2.25x) than RoCE + PFC"), "{sentences:?}");
    }

    #[test]
    fn a_sweep_counts_the_points_of_each_winner() {
        let slowdown = |run: &str, load: &str, _| match (run, load) {
            ("IRN", "0.9") => 5.0,
            ("IRN", _) => 2.0,
            (_, "0.5") => 2.0,
            _ => 4.0,
        };
        let summary = fixture::sweep(&["0.3", "0.5", "0.7", "0.9"], &[7], slowdown);
        let sentences = sentences(&summary);
        let expected = "lowest average slowdown at the 4 points: IRN at 2 (2.0x better than RoCE + PFC), RoCE + PFC at 1 \
                        (1.2x better than the next), inconclusive or no difference at 1 (load=0.5).";
        assert!(sentences[0].ends_with(expected), "{sentences:?}");
    }

    #[test]
    fn no_results_no_conclusion() {
        let (scenario, reports) = fixture::empty();
        assert_eq!(conclusion(&summarise(&scenario, &reports)), Conclusion::default());
        assert_eq!(conclusion(&summarise(&fixture::scenario(Vec::new()), &[])), Conclusion::default());
    }
}
