//! Notes on the runs of a scenario that both the table on the terminal and the HTML report show: truncated runs, which
//! ended at their `duration` before all flows had finished, and warnings.

use super::summary::{RunSummary, ScenarioSummary};
use super::text::{count, duration};

/// Maximum number of runs for which the notes have a line per run, and for which the table on the terminal shows
/// comparisons between runs.
pub(crate) const FEW: usize = 8;
/// Maximum number of run names that are listed in one warning.
const NAMES: usize = 6;

/// The note that the results are partial, because the scenario was interrupted; `None` if they are complete.
pub(crate) fn partial(summary: &ScenarioSummary) -> Option<String> {
    if !summary.is_partial() {
        return None;
    }
    let interrupted = summary.runs.iter().filter(|run| run.interrupted).count();
    let complete = summary.runs.len() - interrupted;
    let total = summary.runs.len() + summary.not_started.len();
    if total == 1 {
        return Some("PARTIAL RESULTS: the run was interrupted".to_string());
    }
    let verb = if interrupted == 1 { "was" } else { "were" };
    Some(format!(
        "PARTIAL RESULTS: of {total} runs, {complete} ended, {interrupted} {verb} interrupted, {} did not start",
        summary.not_started.len()
    ))
}

/// Notes on the runs that were interrupted or that their `duration` truncated, with the numbers of unfinished flows:
/// one note per run. More than [`FEW`] runs that were truncated at their `duration` have a single note.
pub(crate) fn truncations(summary: &ScenarioSummary) -> Vec<String> {
    let unfinished = |run: &RunSummary| run.flows.offered - run.flows.completed;
    let all = summary.runs.iter().filter_map(|run| Some((run, run.truncated?)));
    let (interrupted, truncated): (Vec<_>, Vec<_>) = all.partition(|(run, _)| run.interrupted);
    let not_started = |flows: u64| if flows == 0 { String::new() } else { format!(", {} not started", count(flows)) };
    let line = |(run, truncation): &(&RunSummary, rnic_spec::Truncation)| {
        let (how, at) = match run.interrupted {
            true => ("interrupted", duration(truncation.at.as_us())),
            false => ("truncated", truncation.at.to_string()),
        };
        format!(
            "{how} at {at}: {}: {} of {} flows unfinished{}; slowdown and FCT cover finished flows only",
            run.name,
            count(unfinished(run)),
            count(run.flows.offered),
            not_started(truncation.not_started.unwrap_or(0))
        )
    };
    let mut notes: Vec<String> = interrupted.iter().map(line).collect();
    if truncated.len() > FEW {
        let of = truncated.iter().map(|(run, _)| unfinished(run));
        let (min, max) = (of.clone().min().unwrap_or(0), of.max().unwrap_or(0));
        notes.push(format!(
            "truncated at their duration: {} runs, each with {} to {} unfinished flows; slowdown and FCT cover finished flows \
             only",
            truncated.len(),
            count(min),
            count(max)
        ));
    } else {
        notes.extend(truncated.iter().map(line));
    }
    notes
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
