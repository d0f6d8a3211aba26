//! Detection of the setting that varies between the runs of a scenario, for example a swept load, or the number of
//! senders of an incast. Figures use this setting as their horizontal axis. Runs that differ in their seed only are one
//! point.

use super::super::seeds::{SEED, named, over_seeds};
use super::super::summary::{RunSummary, ScenarioSummary};
use super::settings::Settings;
use std::collections::BTreeSet;

/// Maximum number of series (curves) that are drawn together.
const SERIES: usize = 8;
/// Maximum number of views, between which readers choose.
const VIEWS: usize = 12;

/// The runs of a scenario as curves over one numeric setting that varies.
#[derive(PartialEq, Debug)]
pub(super) struct Sweep {
    /// Scenario key of the varying setting.
    pub(super) key: String,
    /// Unit of the varying setting; may be empty.
    pub(super) unit: String,
    /// Names of the series.
    pub(super) names: Vec<String>,
    /// Curves that are drawn together.
    pub(super) views: Vec<SweepView>,
}

/// Curves that are drawn together.
#[derive(PartialEq, Debug)]
pub(super) struct SweepView {
    /// The values of the other swept keys; empty if there is a single view.
    pub(super) name: String,
    /// For each series, its points in ascending order of the setting.
    pub(super) series: Vec<Vec<SweepPoint>>,
}

/// A point of a curve.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SweepPoint {
    /// Value of the varying setting.
    pub(super) x: f64,
    /// Indices of the runs at this point: several if they differ in their seed only.
    pub(super) runs: Vec<usize>,
}

impl Sweep {
    /// Maximum number of points of a curve.
    pub(super) fn longest(&self) -> usize {
        self.views.iter().flat_map(|view| &view.series).map(Vec::len).max().unwrap_or(0)
    }
}

/// The runs of a `[sweep]` whose swept values are not numbers, or that varies the seed only.
#[derive(PartialEq, Debug)]
pub(super) struct Categories {
    /// The swept keys other than the seed; empty if only the seed varies.
    pub(super) keys: Vec<String>,
    /// Names of the series: the runs of the scenario file.
    pub(super) names: Vec<String>,
    /// Name of each point, and for each series the indices of its runs there.
    pub(super) points: Vec<(String, Vec<Vec<usize>>)>,
}

/// The runs of the scenario's `[sweep]` as curves over a swept key. Among several keys with numeric values, the key
/// with the most values is the horizontal axis. `None` without a sweep over numbers.
pub(super) fn of_sweep(summary: &ScenarioSummary) -> Option<Sweep> {
    let swept = summary.swept();
    let text = |run: &RunSummary, key: usize| run.point.get(key).map_or(String::new(), |(_, text)| text.clone());
    let numbers = |key: usize| {
        let values: Vec<String> = summary.runs.iter().map(|run| text(run, key)).collect();
        with_common_unit(&values)
    };
    let axes = (0..swept.len()).filter(|key| swept[*key] != SEED);
    let axes = axes.filter_map(|key| Some((key, numbers(key)?)));
    let distinct = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<BTreeSet<_>>().len();
    let axes = axes.filter(|(_, (values, _))| distinct(values) > 1);
    // `max_by_key` returns the last maximum, so the keys are reversed: among equals, the first key is the axis.
    let (axis, (values, unit)) =
        axes.collect::<Vec<_>>().into_iter().rev().max_by_key(|(_, (values, _))| distinct(values))?;
    // A key whose value follows from the axis, as in a sweep of mode "zip", distinguishes no curves.
    let follows = |other: usize| {
        let pairs: BTreeSet<_> = summary.runs.iter().map(|run| (text(run, axis), text(run, other))).collect();
        pairs.len() == summary.runs.iter().map(|run| text(run, axis)).collect::<BTreeSet<_>>().len()
    };
    let others: Vec<usize> =
        (0..swept.len()).filter(|key| *key != axis && swept[*key] != SEED && !follows(*key)).collect();
    let mut bases: Vec<&str> = Vec::new();
    let mut combinations: Vec<Vec<(&str, &str)>> = Vec::new();
    for run in &summary.runs {
        if !bases.contains(&run.base.as_str()) {
            bases.push(&run.base);
        }
        let combination = combination(run, &others);
        if !combinations.contains(&combination) {
            combinations.push(combination);
        }
    }
    let curve = |base: &str, of: &[(&str, &str)]| {
        let runs =
            summary.runs.iter().enumerate().filter(|(_, run)| run.base == base && combination(run, &others) == of);
        points(runs.map(|(index, _)| (values[index], index)))
    };
    let (names, views) = if bases.len() * combinations.len() <= SERIES {
        let series = || combinations.iter().flat_map(|of| bases.iter().map(move |base| (*base, of)));
        let names = series().map(|(base, of)| named(base, of)).collect();
        (names, vec![SweepView { name: String::new(), series: series().map(|(base, of)| curve(base, of)).collect() }])
    } else {
        let view = |of: &Vec<(&str, &str)>| SweepView {
            name: named("", of).trim_start_matches(", ").to_string(),
            series: bases.iter().map(|base| curve(base, of)).collect(),
        };
        let views = combinations.iter().take(VIEWS).map(view).collect();
        (bases.iter().map(|base| (*base).to_string()).collect(), views)
    };
    Some(Sweep { key: swept[axis].to_string(), unit, names, views })
}

/// The swept keys with these indices and their values in `run`.
fn combination<'r>(run: &'r RunSummary, keys: &[usize]) -> Vec<(&'r str, &'r str)> {
    let pair = |key: &usize| run.point.get(*key).map(|(key, value)| (key.as_str(), value.as_str()));
    keys.iter().filter_map(pair).collect()
}

/// The points of a curve, in ascending order. Runs with the same value are one point.
fn points(runs: impl Iterator<Item = (f64, usize)>) -> Vec<SweepPoint> {
    let mut points: Vec<SweepPoint> = Vec::new();
    for (x, run) in runs {
        match points.iter_mut().find(|point| point.x == x) {
            Some(point) => point.runs.push(run),
            None => points.push(SweepPoint { x, runs: vec![run] }),
        }
    }
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}

/// The points of a `[sweep]` as categories, for a sweep that [`of_sweep`] cannot draw. `None` without a sweep.
pub(super) fn categories(summary: &ScenarioSummary) -> Option<Categories> {
    let keys: Vec<String> = summary.swept().into_iter().filter(|key| *key != SEED).map(str::to_string).collect();
    if summary.swept().is_empty() {
        return None;
    }
    let mut names: Vec<String> = Vec::new();
    let mut points: Vec<(String, Vec<Vec<usize>>)> = Vec::new();
    for group in over_seeds(summary) {
        let series = names.iter().position(|name| name == group.base).unwrap_or_else(|| {
            names.push(group.base.to_string());
            names.len() - 1
        });
        let name = group.point().iter().map(|(_, value)| *value).collect::<Vec<_>>().join(", ");
        let index = points.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
            points.push((name, Vec::new()));
            points.len() - 1
        });
        let of_series = &mut points[index].1;
        of_series.resize(of_series.len().max(series + 1), Vec::new());
        of_series[series] = group.indices;
    }
    Some(Categories { keys, names, points })
}

/// Finds the setting for the horizontal axis of runs without a `[sweep]`: among the settings that `wanted` accepts, the
/// setting that gives the fewest series. `None` if the runs do not form curves over any such setting.
pub(super) fn find(summary: &ScenarioSummary, settings: &Settings, wanted: impl Fn(&str) -> bool) -> Option<Sweep> {
    let differ: Vec<usize> = (0..settings.keys.len()).filter(|key| !settings.same(*key)).collect();
    let sweeps = differ.iter().filter(|key| wanted(&settings.keys[**key]));
    // If several settings give equally few series, the first setting is taken. The settings of the traffic come before
    // the settings of the fabric that follow from others.
    sweeps.filter_map(|key| over(summary, settings, &differ, *key)).min_by_key(|sweep| sweep.names.len())
}

fn over(summary: &ScenarioSummary, settings: &Settings, differ: &[usize], key: usize) -> Option<Sweep> {
    let text = |run: usize, key: usize| settings.values[run][key].as_deref().unwrap_or("");
    let texts: Vec<String> = (0..summary.runs.len()).map(|run| text(run, key).to_string()).collect();
    let (values, unit) = with_common_unit(&texts)?;
    // Runs with different transports belong to different series. The same holds for runs that differ in another
    // setting, unless this setting follows from the varying one.
    let kind = |run: usize| {
        let run = &summary.runs[run];
        (run.transport.as_str(), run.cc.as_str(), run.pfc)
    };
    let follows = |other: usize| {
        let pairs = || (0..values.len()).map(|run| (kind(run), text(run, key), text(run, other)));
        let distinct: BTreeSet<_> = pairs().collect();
        let by: BTreeSet<_> = pairs().map(|(kind, x, _)| (kind, x)).collect();
        distinct.len() == by.len()
    };
    let others: Vec<usize> = differ.iter().copied().filter(|other| *other != key && !follows(*other)).collect();
    let mut keys: Vec<_> = Vec::new();
    let mut series: Vec<Vec<(f64, usize)>> = Vec::new();
    for (run, x) in values.iter().enumerate() {
        let own = (kind(run), others.iter().map(|other| text(run, *other)).collect::<Vec<_>>());
        let index = keys.iter().position(|known| *known == own).unwrap_or_else(|| {
            keys.push(own);
            series.push(Vec::new());
            series.len() - 1
        });
        series[index].push((*x, run));
    }
    if series.is_empty() || series.len() > SERIES {
        return None;
    }
    let names = names(summary, &series.iter().map(|of| of.iter().map(|(_, run)| *run).collect()).collect::<Vec<_>>());
    let series: Vec<Vec<SweepPoint>> = series.into_iter().map(|of| points(of.into_iter())).collect();
    // A series in which two runs have the same settings is not a curve.
    let is_curve = |points: &Vec<SweepPoint>| points.len() > 1 && points.iter().all(|point| point.runs.len() == 1);
    if !series.iter().all(is_curve) {
        return None;
    }
    let views = vec![SweepView { name: String::new(), series }];
    Some(Sweep { key: settings.keys[key].clone(), unit, names, views })
}

/// Units of values, and how many units of the smallest unit of their kind they are.
const UNITS: [&[(&str, f64)]; 4] = [
    &[("B", 1.0), ("KB", 1e3), ("MB", 1e6), ("GB", 1e9)],
    &[("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)],
    &[("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("ms", 1e9), ("s", 1e12)],
    &[("bps", 1.0), ("Kbps", 1e3), ("Mbps", 1e6), ("Gbps", 1e9), ("Tbps", 1e12)],
];

/// Splits values such as `240 KB` and `1 MB` into numbers with a common unit: 240 and 1000, `KB`. The common unit is
/// the unit of the first value. `None` if a value is not a number, or if the units are of different kinds.
fn with_common_unit(texts: &[String]) -> Option<(Vec<f64>, String)> {
    let parsed: Vec<(f64, &str)> = texts.iter().map(|text| number(text)).collect::<Option<_>>()?;
    let unit = parsed.first()?.1;
    let factor = |own: &str| {
        if own == unit {
            return Some(1.0);
        }
        let of =
            |units: &[(&str, f64)], name: &str| units.iter().find(|(unit, _)| *unit == name).map(|(_, size)| *size);
        UNITS.iter().find_map(|units| Some(of(units, own)? / of(units, unit)?))
    };
    // Rounding removes the errors of binary fractions, so that equal values of different units are equal.
    let value = |(value, own): &(f64, &str)| Some(super::super::text::round6(value * factor(own)?));
    Some((parsed.iter().map(value).collect::<Option<_>>()?, unit.to_string()))
}

/// Splits a value with a unit, for example `240 KB`, into the number 240 and the unit `KB`.
fn number(text: &str) -> Option<(f64, &str)> {
    let (value, unit) = text.split_once(' ').unwrap_or((text, ""));
    let value: f64 = value.replace('_', "").parse().ok()?;
    value.is_finite().then_some((value, unit))
}

/// A name for each group of runs: the part that the names of its runs have in common. If these parts are empty or
/// equal, the name consists of a number and the transport.
pub(super) fn names(summary: &ScenarioSummary, groups: &[Vec<usize>]) -> Vec<String> {
    let of = |split: fn(&str) -> Vec<&str>, joint: &str| -> Option<Vec<String>> {
        let common = |runs: &Vec<usize>| {
            let mut names = runs.iter().map(|run| split(&summary.runs[*run].name));
            let first = names.next().unwrap_or_default();
            let others: Vec<Vec<&str>> = names.collect();
            let kept = first.iter().enumerate().filter(|(i, part)| others.iter().all(|o| o.get(*i) == Some(part)));
            kept.map(|(_, part)| *part).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(joint)
        };
        let names: Vec<String> = groups.iter().map(common).collect();
        let distinct: BTreeSet<&String> = names.iter().collect();
        let telling = distinct.len() == names.len() && names.iter().all(|name| name.chars().any(char::is_alphabetic));
        telling.then_some(names)
    };
    of(|name| name.split([',', ';', '/', '|', '(', ')', '@', ':']).map(str::trim).collect(), ", ")
        .or_else(|| of(|name| name.split_whitespace().collect(), " "))
        .unwrap_or_else(|| groups.iter().enumerate().map(|(index, runs)| plain(summary, index, runs)).collect())
}

fn plain(summary: &ScenarioSummary, index: usize, runs: &[usize]) -> String {
    let Some(run) = runs.first().map(|run| &summary.runs[*run]) else {
        return String::new();
    };
    let pfc = if run.pfc { ", PFC" } else { "" };
    format!("{}: {}, {}{pfc}", index + 1, run.transport, run.cc)
}

#[cfg(test)]
mod tests {
    use super::super::super::{fixture, summarise};
    use super::*;

    /// Finds the sweep in runs of RoCE and IRN with each of the given buffers (in KB) and values of the setting
    /// `other`. The setting `xoff` follows from the buffer.
    fn sweep(runs: &[(u32, &str)]) -> Option<Sweep> {
        let (scenario, reports) = fixture::two_runs();
        let (mut specs, mut outputs) = (Vec::new(), Vec::new());
        for (buffer, other) in runs {
            for (spec, report) in scenario.runs.iter().zip(&reports) {
                let mut spec = spec.clone();
                spec.name = format!("{}, {buffer} KB, {other}", spec.name);
                specs.push(spec);
                let mut report = report.clone();
                report.output.parameters = vec![
                    ("buffer".into(), format!("{buffer} KB")),
                    ("xoff".into(), format!("{} KB", buffer - 20)),
                    ("other".into(), (*other).into()),
                ];
                outputs.push(report);
            }
        }
        let scenario = fixture::scenario(specs);
        let summary = summarise(&scenario, &outputs);
        find(&summary, &Settings::of(&scenario, &summary), |_| true)
    }

    fn curve(sweep: &Sweep, series: usize) -> Vec<(f64, Vec<usize>)> {
        sweep.views[0].series[series].iter().map(|point| (point.x, point.runs.clone())).collect()
    }

    #[test]
    fn seeds_of_a_sweep_are_one_point() {
        let summary = fixture::sweep(&["0.9", "0.3"], &[1, 2], |_, _, _| 1.0);
        let found = of_sweep(&summary).unwrap();
        assert_eq!((found.key.as_str(), found.unit.as_str()), ("traffic.load", ""));
        assert_eq!((found.names.as_slice(), found.longest()), (&["RoCE + PFC".to_string(), "IRN".to_string()][..], 2));
        assert_eq!(curve(&found, 1), [(0.3, vec![5, 7]), (0.9, vec![1, 3])]);
    }

    #[test]
    fn a_sweep_without_numbers_has_categories() {
        let summary = fixture::sweep(&["ecmp", "spray"], &[1, 2], |_, _, _| 1.0);
        assert_eq!(of_sweep(&summary), None);
        let found = categories(&summary).unwrap();
        assert_eq!((found.keys.as_slice(), found.names.len()), (&["traffic.load".to_string()][..], 2));
        assert_eq!(found.points[1], ("spray".to_string(), vec![vec![4, 6], vec![5, 7]]));
        // A sweep over seeds alone has one category.
        let mut seeds = fixture::sweep(&["0.3"], &[1, 2, 3], |_, _, _| 1.0);
        seeds.runs.iter_mut().for_each(|run| drop(run.point.remove(0)));
        assert_eq!(of_sweep(&seeds), None);
        let found = categories(&seeds).unwrap();
        assert_eq!(found.points, [(String::new(), vec![vec![0, 2, 4], vec![1, 3, 5]])]);
    }

    #[test]
    fn a_second_key_makes_series_or_views() {
        let mut summary = fixture::sweep(&["0.3", "0.5", "0.7"], &[1, 2], |_, _, _| 1.0);
        summary.runs.iter_mut().for_each(|run| run.point[1].0 = "fabric.k".into());
        let found = of_sweep(&summary).unwrap();
        assert_eq!(found.names, ["RoCE + PFC, k=1", "IRN, k=1", "RoCE + PFC, k=2", "IRN, k=2"]);
        assert_eq!(curve(&found, 2), [(0.3, vec![2]), (0.5, vec![6]), (0.7, vec![10])]);
        // Five values of the second key would be ten series.
        let mut summary = fixture::sweep(&["1", "2", "3", "4", "5", "6"], &[1, 2, 3, 4, 5], |_, _, _| 1.0);
        summary.runs.iter_mut().for_each(|run| run.point[1].0 = "fabric.k".into());
        let found = of_sweep(&summary).unwrap();
        assert_eq!((found.names.len(), found.views.len(), found.views[4].name.as_str()), (2, 5, "k=5"));
        assert_eq!(curve(&found, 0)[1].1, [10]);
    }

    #[test]
    fn a_key_that_varies_together_with_the_axis_makes_no_series() {
        let mut summary = fixture::sweep(&["1", "2"], &[4], |_, _, _| 1.0);
        summary.runs.iter_mut().for_each(|run| run.point[1] = ("fabric.k".into(), format!("{} KB", run.point[0].1)));
        assert_eq!(of_sweep(&summary).unwrap().names, ["RoCE + PFC", "IRN"]);
    }

    #[test]
    fn units_of_a_kind_are_converted() {
        let values = |texts: &[&str]| with_common_unit(&texts.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(values(&["240 KB", "1 MB", "500 B"]), Some((vec![240.0, 1_000.0, 0.5], "KB".into())));
        assert_eq!(values(&["1 us", "1_500 ns"]), Some((vec![1.0, 1.5], "us".into())));
        assert_eq!((values(&["1 us", "1 KB"]), values(&["1", "ecmp"])), (None, None));
    }

    #[test]
    fn derived_settings_do_not_make_series() {
        let found = sweep(&[(240, "a"), (120, "a"), (480, "a")]).unwrap();
        assert_eq!((found.key.as_str(), found.unit.as_str()), ("buffer", "KB"));
        assert_eq!(found.names, ["RoCE + PFC, a", "IRN, a"]);
        assert_eq!(curve(&found, 1), [(120.0, vec![3]), (240.0, vec![1]), (480.0, vec![5])]);
    }

    #[test]
    fn independent_settings_make_series() {
        let found = sweep(&[(120, "a"), (240, "a"), (120, "b"), (240, "b")]).unwrap();
        assert_eq!(found.names, ["RoCE + PFC, a", "IRN, a", "RoCE + PFC, b", "IRN, b"]);
        assert_eq!(curve(&found, 3), [(120.0, vec![5]), (240.0, vec![7])]);
    }

    #[test]
    fn runs_without_a_regular_number_are_no_sweep() {
        assert_eq!(sweep(&[(120, "a"), (120, "b")]), None);
        assert_eq!(sweep(&[(120, "a")]), None);
        assert_eq!(sweep(&[(120, "a"), (240, "a"), (120, "a")]), None, "two runs of the same settings");
    }
}
