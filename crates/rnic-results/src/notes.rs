//! Notes on the runs of a scenario that both the table on the terminal and the HTML report show: truncated runs, which
//! ended at their `duration` before all flows had finished, and warnings.

use super::summary::{RunSummary, ScenarioSummary};
use super::text::count;

/// Maximum number of runs for which the notes have a line per run, and for which the table on the terminal shows
/// comparisons between runs.
pub(crate) const FEW: usize = 8;
/// Maximum number of run names that are listed in one warning.
const NAMES: usize = 6;

/// Notes on the runs that their `duration` truncated, with the numbers of unfinished flows: one note per run, or a
/// single note if there are more than [`FEW`] such runs.
pub(crate) fn truncations(summary: &ScenarioSummary) -> Vec<String> {
    let unfinished = |run: &RunSummary| run.flows.offered - run.flows.completed;
    let truncated: Vec<_> = summary.runs.iter().filter_map(|run| Some((run, run.truncated?))).collect();
    let not_started = |flows: u64| if flows == 0 { String::new() } else { format!(", {} not started", count(flows)) };
    if truncated.len() > FEW {
        let of = truncated.iter().map(|(run, _)| unfinished(run));
        let (min, max) = (of.clone().min().unwrap_or(0), of.max().unwrap_or(0));
        return vec![format!(
            "truncated at their duration: {} runs, each with {} to {} unfinished flows; slowdown and FCT cover finished flows \
             only",
            truncated.len(),
            count(min),
            count(max)
        )];
    }
    let line = |(run, truncation): &(&RunSummary, rnic_run::Truncation)| {
        format!(
            "truncated at {}: {}: {} of {} flows unfinished{}; slowdown and FCT cover finished flows only",
            truncation.at,
            run.name,
            count(unfinished(run)),
            count(run.flows.offered),
            not_started(truncation.not_started.unwrap_or(0))
        )
    };
    truncated.iter().map(line).collect()
}

/// Each distinct warning once, as (names of the runs that have it, text of the warning).
pub(crate) fn warnings(summary: &ScenarioSummary) -> Vec<(String, &str)> {
    let mut found: Vec<(Vec<&str>, &str)> = Vec::new();
    for run in &summary.runs {
        for warning in &run.warnings {
            match found.iter_mut().find(|(_, text)| text == warning) {
                Some((names, _)) => names.push(&run.name),
                None => found.push((vec![&run.name], warning)),
            }
        }
    }
    let all = summary.runs.len();
    let runs = |names: Vec<&str>| {
        // The name of a run of a sweep contains commas, so names are separated by semicolons.
        let comma = if names.iter().any(|name| name.contains(", ")) { "; " } else { ", " };
        match names.len() {
            n if n > 1 && n == all => "all runs".to_string(),
            n if n > NAMES + 1 => format!("{} and {} more runs", names[..NAMES].join(comma), n - NAMES),
            _ => names.join(comma),
        }
    };
    found.into_iter().map(|(names, text)| (runs(names), text)).collect()
}
