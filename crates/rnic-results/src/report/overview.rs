//! The main parts of the report's page: title, results compared with the first run, failures, definitions.

use super::super::compare::{self, Metric};
use super::super::notes::{partial, truncations, warnings};
use super::super::summary::{RunSummary, ScenarioSummary};
use super::super::text::{count, percent, three_digits};
use super::html::{change, escape, exact, inline, row, table, time};
use super::page::NO_SCRIPT;
use super::settings::ROWS_FROM;

pub(super) fn header(summary: &ScenarioSummary) -> String {
    let runs = match summary.runs.len() {
        1 => "1 run".to_string(),
        n => format!("{n} runs"),
    };
    format!(
        "<header><h1>{}</h1><p class=\"meta\">scenario <code>{}</code> &middot; seed {} &middot; {runs} &middot; \
         rnic {}</p></header>\n{NO_SCRIPT}",
        escape(&summary.title),
        escape(&summary.name),
        summary.seed,
        escape(summary.version),
    )
}

/// The table of results with comparisons to the reference run, which is the first run, or in a sweep the first run at
/// the same point; then the comparisons as sentences, then the warnings.
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
    format!(
        "<section id=\"results\"><h2>Results</h2>\n{compared}{}{}</section>\n",
        table("results", "Results of each run", &head, &rows),
        sentences(summary),
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
    let retransmitted =
        (run.failure.is_none() && totals.data > 0).then(|| percent(totals.retransmitted as f64 / totals.data as f64));
    cells.push(run.drop_rate.map_or("&ndash;".to_string(), |rate| escape(&percent(rate))));
    if lossy {
        cells.push(run.loss_rate().map_or("&ndash;".to_string(), |rate| escape(&percent(rate))));
    }
    cells.push(retransmitted.map_or("&ndash;".to_string(), |share| escape(&share)));
    cells.push(match totals.pause_frames {
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
    items.extend(truncations(summary).iter().map(|sentence| format!("<li>{}.</li>", escape(sentence))));
    let warned = warnings(summary).into_iter().map(|(runs, warning)| {
        format!(
            "<li class=\"warning\"><strong>Warning, {}:</strong> {}</li>",
            escape(&runs),
            inline(&end_sentence(warning))
        )
    });
    items.extend(warned);
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
