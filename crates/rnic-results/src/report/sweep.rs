//! Detection of the numeric setting that varies between the runs of a scenario, for example the number of senders of an
//! incast. Figures use this setting as their horizontal axis.

use super::super::summary::ScenarioSummary;
use super::settings::Settings;
use std::collections::BTreeSet;

/// Maximum number of series (curves) of a figure.
const SERIES: usize = 8;

/// The runs of a scenario as curves over one numeric setting that varies.
#[derive(PartialEq, Debug)]
pub(super) struct Sweep {
    /// Scenario key of the varying setting.
    pub(super) key: String,
    /// Unit of the varying setting; may be empty.
    pub(super) unit: String,
    /// Names of the series, one per curve.
    pub(super) names: Vec<String>,
    /// For each series, its runs in ascending order of the setting, as (value of the setting, index of the run).
    pub(super) series: Vec<Vec<(f64, usize)>>,
}

/// Finds the setting for the horizontal axis: among the settings that `wanted` accepts, the one that gives the fewest
/// series. `None` if the runs do not form curves over any such setting.
pub(super) fn find(summary: &ScenarioSummary, settings: &Settings, wanted: impl Fn(&str) -> bool) -> Option<Sweep> {
    let differ: Vec<usize> = (0..settings.keys.len()).filter(|key| !settings.same(*key)).collect();
    let sweeps = differ.iter().filter(|key| wanted(&settings.keys[**key]));
    // If several settings give equally few series, the first setting is taken. The settings of the traffic come before
    // the settings of the fabric that follow from others.
    sweeps.filter_map(|key| over(summary, settings, &differ, *key)).min_by_key(|sweep| sweep.series.len())
}

fn over(summary: &ScenarioSummary, settings: &Settings, differ: &[usize], key: usize) -> Option<Sweep> {
    let text = |run: usize, key: usize| settings.values[run][key].as_deref().unwrap_or("");
    let parsed: Vec<(f64, &str)> =
        (0..summary.runs.len()).map(|run| number(text(run, key))).collect::<Option<Vec<_>>>()?;
    let unit = parsed.first()?.1;
    if parsed.iter().any(|(_, other)| *other != unit) {
        return None;
    }
    // Runs with different transports belong to different series. The same holds for runs that differ in another
    // setting, unless this setting follows from the varying one.
    let kind = |run: usize| {
        let run = &summary.runs[run];
        (run.transport.as_str(), run.cc.as_str(), run.pfc)
    };
    let follows = |other: usize| {
        let pairs = || (0..parsed.len()).map(|run| (kind(run), text(run, key), text(run, other)));
        let distinct: BTreeSet<_> = pairs().collect();
        let by: BTreeSet<_> = pairs().map(|(kind, x, _)| (kind, x)).collect();
        distinct.len() == by.len()
    };
    let others: Vec<usize> = differ.iter().copied().filter(|other| *other != key && !follows(*other)).collect();
    let mut keys: Vec<_> = Vec::new();
    let mut series: Vec<Vec<(f64, usize)>> = Vec::new();
    for (run, (x, _)) in parsed.iter().enumerate() {
        let own = (kind(run), others.iter().map(|other| text(run, *other)).collect::<Vec<_>>());
        let index = keys.iter().position(|known| *known == own).unwrap_or_else(|| {
            keys.push(own);
            series.push(Vec::new());
            series.len() - 1
        });
        series[index].push((*x, run));
    }
    for points in &mut series {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        // A series in which two runs have the same value of the setting is not a curve.
        if points.len() < 2 || points.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return None;
        }
    }
    if series.is_empty() || series.len() > SERIES {
        return None;
    }
    let runs: Vec<Vec<usize>> = series.iter().map(|points| points.iter().map(|(_, run)| *run).collect()).collect();
    let names = names(summary, &runs);
    Some(Sweep { key: settings.keys[key].clone(), unit: unit.to_string(), names, series })
}

/// Splits a value with a unit, for example `240 KB`, into the number 240 and the unit `KB`.
fn number(text: &str) -> Option<(f64, &str)> {
    let (value, unit) = text.split_once(' ').unwrap_or((text, ""));
    let value: f64 = value.parse().ok()?;
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

    #[test]
    fn derived_settings_do_not_make_series() {
        let found = sweep(&[(240, "a"), (120, "a"), (480, "a")]).unwrap();
        assert_eq!((found.key.as_str(), found.unit.as_str()), ("buffer", "KB"));
        assert_eq!(found.names, ["RoCE + PFC, a", "IRN, a"]);
        assert_eq!(found.series[1], [(120.0, 3), (240.0, 1), (480.0, 5)]);
    }

    #[test]
    fn independent_settings_make_series() {
        let found = sweep(&[(120, "a"), (240, "a"), (120, "b"), (240, "b")]).unwrap();
        assert_eq!(found.names, ["RoCE + PFC, a", "IRN, a", "RoCE + PFC, b", "IRN, b"]);
        assert_eq!(found.series[3], [(120.0, 5), (240.0, 7)]);
    }

    #[test]
    fn runs_without_a_regular_number_are_no_sweep() {
        assert_eq!(sweep(&[(120, "a"), (120, "b")]), None);
        assert_eq!(sweep(&[(120, "a")]), None);
        assert_eq!(sweep(&[(120, "a"), (240, "a"), (120, "a")]), None, "two runs of the same settings");
    }
}
