//! The main parts of the report's page: title, conclusion with its warnings, results compared with the first run,
//! failures, definitions.

use super::super::compare::{self, Metric};
use super::super::conclusion::{Conclusion, conclusion};
use super::super::notes::{partial, truncations, warnings};
use super::super::seeds::{Replicates, over_seeds};
use super::super::summary::{RunSummary, ScenarioSummary};
use super::super::text::{count, percent, three_digits};
use super::html::{change, escape, exact, inline, row, table, time};
use super::page::NO_SCRIPT;
use super::settings::ROWS_FROM;

/// The command that reproduces the figures with this heading, if they belong to one run. Otherwise empty, because the
/// header contains the command for all figures.
pub(super) fn again(summary: &ScenarioSummary, heading: &str) -> String {
    let run = summary.runs.iter().find(|run| heading.ends_with(&format!(": {}", run.name)));
    let (Some(command), Some(run)) = (&summary.command, run.filter(|_| summary.runs.len() > 1)) else {
        return String::new();
    };
    // The name is quoted as shells need it.
    let command = format!("{command} --run '{}'", run.name.replace('\'', "'\\''"));
    format!("<p class=\"meta\">These figures again: <code>{}</code></p>\n", escape(&command))
}

pub(super) fn header(summary: &ScenarioSummary) -> String {
    let runs = match summary.runs.len() {
        1 => "1 run".to_string(),
        n => format!("{n} runs"),
    };
    let command = summary.command.as_ref().map_or(String::new(), |command| {
        format!("<p class=\"meta\">All figures and tables again: <code>{}</code></p>", escape(command))
    });
    let replay = if summary.replay {
        format!(" &middot; <a href=\"{}\">the runs over time</a>", super::REPLAY_FILE)
    } else {
        String::new()
    };
    format!(
        "<header><h1>{}</h1><p class=\"meta\">scenario <code>{}</code> &middot; seed {} &middot; {runs} &middot; \
         rnic {}{replay}</p>{command}</header>\n{NO_SCRIPT}",
        escape(&summary.title),
        escape(&summary.name),
        summary.seed,
        escape(summary.version),
    )
}

/// Maximum number of runs whose table of results is open when the page loads.
pub(super) const LONG: usize = 12;
/// Maximum number of warnings that are visible when the page loads. Further warnings are folded.
const WARNINGS: usize = 6;

/// The answer to the scenario's question: the conclusion, and below it its limitations: unfinished flows, and warnings.
pub(super) fn answer(summary: &ScenarioSummary) -> String {
    let Conclusion { main, notes } = conclusion(summary);
    let paragraph = |class: &str, sentence: &String| format!("<p class=\"{class}\">{}</p>\n", escape(sentence));
    let main = main.iter().map(|sentence| paragraph("lead", sentence));
    let mut html: String = main.chain(notes.iter().map(|sentence| paragraph("further", sentence))).collect();
    let truncated =
        truncations(summary).into_iter().map(|sentence| format!("<li class=\"warning\">{}.</li>", escape(&sentence)));
    let warned = warnings(summary).into_iter().map(|(runs, warning)| {
        let warning = inline(&end_sentence(warning));
        format!("<li class=\"warning\"><strong>Warning, {}:</strong> {warning}</li>", escape(&runs))
    });
    let items: Vec<String> = truncated.chain(warned).collect();
    let (visible, folded) = items.split_at(items.len().min(WARNINGS));
    if !visible.is_empty() {
        html += &format!("<ul class=\"warnings\">{}</ul>\n", visible.concat());
    }
    if !folded.is_empty() {
        let count = folded.len();
        html += &format!(
            "<details><summary>{count} more warnings</summary>\n<ul class=\"warnings\">{}</ul></details>\n",
            folded.concat()
        );
    }
    if html.is_empty() {
        return html;
    }
    format!("<section id=\"answer\" aria-label=\"Conclusion\">\n{html}</section>\n")
}

/// The table of results with comparisons to the reference run, which is the first run, or in a sweep the first run at
/// the same point; then the comparisons as sentences.
pub(super) fn results(summary: &ScenarioSummary) -> String {
    let mut metrics = Metric::OF_FLOWS.to_vec();
    if summary.runs.iter().any(|run| run.requests.is_some()) {
        metrics.push(Metric::AverageRct);
    }
    let mut head = vec!["Run".to_string()];
    head.extend(metrics.iter().map(|metric| title(*metric).to_string()));
    let lossy = summary.runs.iter().any(|run| run.totals.lost > 0);
    let lost = if lossy { &["Lost on links"][..] } else { &[] };
    let titles = ["Dropped"].iter().chain(lost).chain(&["Retransmitted", "Pauses", "Flows finished"]);
    head.extend(titles.map(|title| title.to_string()));
    let row = |run| result_row(summary.reference(run).unwrap_or(run), run, &metrics, lossy);
    let rows: Vec<String> = summary.runs.iter().map(row).collect();
    let compared = match (summary.runs.as_slice(), summary.swept().as_slice()) {
        ([first, _, ..], []) => {
            format!("<p class=\"tally\">Compared with the first run, {}.</p>\n", escape(&first.name))
        }
        ([first, _, ..], _) if summary.runs.iter().any(|run| run.base != first.base) => format!(
            "<p class=\"tally\">Each run is compared with {} at the same point of the sweep.</p>\n",
            escape(&first.base)
        ),
        _ => String::new(),
    };
    let table = table("results", "Results of each run", &head, &rows);
    let table = match rows.len() {
        count if count > LONG => format!("<details><summary>{count} runs</summary>\n{table}</details>\n"),
        _ => table,
    };
    let averaged = averaged(summary, &metrics);
    format!("<section id=\"results\"><h2>Results</h2>\n{averaged}{compared}{table}{}</section>\n", sentences(summary))
}

/// The table of a sweep over seeds: a row for each run and point, with means over the seeds and half the width of their
/// confidence intervals. Empty without such a sweep.
fn averaged(summary: &ScenarioSummary, metrics: &[Metric]) -> String {
    let groups = over_seeds(summary);
    if groups.iter().all(|group| group.runs.len() == 1) {
        return String::new();
    }
    let mut head = vec!["Run".to_string()];
    head.extend(groups.first().iter().flat_map(|group| group.point()).map(|(key, _)| escape(key)));
    head.push("Seeds".to_string());
    head.extend(metrics.iter().map(|metric| title(*metric).to_string()));
    let cell = |group: &Replicates<'_>, metric: Metric| {
        let Some(estimate) = group.estimate(|run| metric.value(run)) else { return "&ndash;".to_string() };
        let (mean, exact) = shown(metric, estimate.mean);
        let half = estimate
            .half_width
            .map_or(String::new(), |half| format!("<small>\u{b1} {}</small>", shown(metric, half).0));
        format!("<span data-tip=\"{exact}\">{mean}</span>{half}")
    };
    let line = |group: &Replicates<'_>| {
        let mut cells: Vec<String> = group.point().iter().map(|(_, value)| escape(value)).collect();
        let values = group.runs.iter().filter(|run| run.fct_us.is_some()).count();
        cells.push(values.to_string());
        cells.extend(metrics.iter().map(|metric| cell(group, *metric)));
        row(&escape(group.base), &cells)
    };
    let rows: Vec<String> = groups.iter().map(line).collect();
    format!(
        "<p class=\"tally\">Means over the seeds, and half the width of their 95 % confidence intervals (Student&#39;s \
         t).</p>\n{}",
        table("results", "Means over the seeds", &head, &rows)
    )
}

/// Title of the table column or the figure that shows `metric`.
pub(super) fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::AverageSlowdown => "Average slowdown",
        Metric::AverageFct => "Average FCT",
        Metric::P99Fct => "99th percentile FCT",
        Metric::AverageRct => "Average request time",
    }
}

/// The value of a metric as text with three digits (for the table), and with six digits (for the tooltip).
pub(super) fn shown(metric: Metric, value: f64) -> (String, String) {
    match metric {
        Metric::AverageSlowdown => (three_digits(value), exact(value, "")),
        _ => (time(value), exact(value, " \u{b5}s")),
    }
}

fn result_row(reference: &RunSummary, run: &RunSummary, metrics: &[Metric], lossy: bool) -> String {
    let mut cells: Vec<String> = metrics.iter().map(|metric| metric_cell(*metric, reference, run)).collect();
    let totals = &run.totals;
    let retransmitted = (run.failure.is_none() && totals.data > 0 && run.modelled(()).is_some())
        .then(|| percent(totals.retransmitted as f64 / totals.data as f64));
    let none = if run.modelled(()).is_some() { "&ndash;" } else { "not modelled" };
    cells.push(run.drop_rate.map_or(none.to_string(), |rate| escape(&percent(rate))));
    if lossy {
        cells.push(run.loss_rate().map_or(none.to_string(), |rate| escape(&percent(rate))));
    }
    cells.push(retransmitted.map_or(none.to_string(), |share| escape(&share)));
    cells.push(match totals.pause_frames {
        _ if run.modelled(()).is_none() => none.to_string(),
        0 => "0".to_string(),
        frames => format!("{}<small>{}</small>", count(frames), time(totals.paused_ps as f64 / 1e6)),
    });
    cells.push(format!("{}<small>of {}</small>", count(run.flows.completed), count(run.flows.offered)));
    let mark = match (&run.failure, run.interrupted) {
        (Some(_), _) => " <strong class=\"failed\">FAILED</strong>",
        (None, true) => " <strong class=\"failed\">PARTIAL</strong>",
        (None, false) => "",
    };
    row(&format!("{}{mark}", escape(&run.name)), &cells)
}

fn metric_cell(metric: Metric, reference: &RunSummary, run: &RunSummary) -> String {
    let Some(value) = metric.value(run) else {
        return "&ndash;".to_string();
    };
    let (text, exact) = shown(metric, value);
    let compared = match metric.change(reference, run) {
        Some(compared) if !std::ptr::eq(reference, run) => change(compared),
        _ => String::new(),
    };
    format!("<span data-tip=\"{}: {exact}\">{text}</span>{compared}", escape(&run.name))
}

/// A notice if the results are partial, and one notice per failed run with the reason of its failure.
pub(super) fn failures(summary: &ScenarioSummary) -> String {
    let partial = partial(summary).map(|note| {
        let names: Vec<String> = summary.not_started.iter().map(|name| escape(name)).collect();
        let names = match names.len() {
            0 => String::new(),
            _ => format!(" Runs that did not start: {}.", names.join("; ")),
        };
        format!("<p class=\"notice failed\"><strong>{}.</strong>{names}</p>\n", escape(&note))
    });
    let failed = summary.runs.iter().filter_map(|run| Some((run, run.failure.as_ref()?)));
    let failed = failed.map(|(run, reason)| {
        format!(
            "<p class=\"notice failed\"><strong>{} FAILED:</strong> {} The report counts its finished flows, but has no \
             statistics of them.</p>\n",
            escape(&run.name),
            inline(&end_sentence(reason)),
        )
    });
    partial.into_iter().chain(failed).collect()
}

fn end_sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_string() } else { format!("{text}.") }
}

fn sentences(summary: &ScenarioSummary) -> String {
    let mut items = Vec::new();
    // With many runs there would be too many sentences. The table contains the same comparisons.
    if summary.runs.len() <= ROWS_FROM {
        let pairs = summary.runs.iter().filter_map(|run| Some((summary.reference(run)?, run)));
        let others = pairs.filter(|(reference, run)| !std::ptr::eq(*reference, *run));
        let compared = others.filter_map(|(reference, run)| compare::sentence(reference, run));
        items.extend(compared.map(|sentence| format!("<li>{}.</li>", escape(&sentence))));
    }
    if items.is_empty() { String::new() } else { format!("<ul class=\"notes\">{}</ul>\n", items.concat()) }
}

/// The definitions of the terms in the report, as an HTML list.
pub(super) fn definitions() -> String {
    "<section id=\"definitions\"><h2>Definitions</h2>\n<dl>\
     <dt>FCT</dt><dd>Flow completion time: the time from handing a flow to the NIC until all its bytes have arrived at the \
     receiver.</dd>\
     <dt>Slowdown</dt><dd>FCT divided by the FCT of the flow alone on an empty fabric at line rate.</dd>\
     <dt>Percentile</dt><dd>By nearest rank: the smallest value such that the given percentage of the flows does not \
     exceed it.</dd>\
     <dt>Measured flows</dt><dd>Flows outside warm-up and cool-down. All statistics cover measured flows only.</dd>\
     <dt>Dropped, retransmitted</dt><dd>Data packets dropped at full buffers, and data packets retransmitted, as a \
     percentage of all data packets sent.</dd>\
     <dt>Lost on links</dt><dd>Packets that lossy links lost, as a percentage of all packets that hosts sent.</dd>\
     <dt>Pauses</dt><dd>Number of PFC pause (XOFF) frames, and the time for which they paused transmitters, summed over \
     ports and priorities.</dd>\
     </dl></section>\n"
        .to_string()
}
