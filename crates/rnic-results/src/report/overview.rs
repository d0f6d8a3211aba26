//! What a reader sees first: title, results against the first run, failures, definitions.

use super::super::compare::{self, Metric};
use super::super::summary::{RunSummary, ScenarioSummary};
use super::super::table::{cuts, warnings};
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

/// The table with factors against the first run, the same in sentences, and warnings.
pub(super) fn results(summary: &ScenarioSummary) -> String {
    let mut metrics = Metric::OF_FLOWS.to_vec();
    if summary.runs.iter().any(|run| run.requests.is_some()) {
        metrics.push(Metric::AverageRct);
    }
    let mut head = vec!["Run".to_string()];
    head.extend(metrics.iter().map(|metric| title(*metric).to_string()));
    head.extend(["Dropped", "Sent again", "Pauses", "Flows finished"].map(String::from));
    let first = summary.runs.first();
    let rows: Vec<String> = summary.runs.iter().filter_map(|run| Some(result_row(first?, run, &metrics))).collect();
    format!(
        "<section id=\"results\"><h2>Results</h2>\n{}{}</section>\n",
        table("results", "Results of each run", &head, &rows),
        sentences(summary),
    )
}

/// A metric as a column or figure is titled.
pub(super) fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::AverageSlowdown => "Average slowdown",
        Metric::AverageFct => "Average FCT",
        Metric::P99Fct => "99th percentile FCT",
        Metric::AverageRct => "Average request time",
    }
}

/// A metric's value for people, and with all digits.
pub(super) fn shown(metric: Metric, value: f64) -> (String, String) {
    match metric {
        Metric::AverageSlowdown => (three_digits(value), exact(value, "")),
        _ => (time(value), exact(value, " \u{b5}s")),
    }
}

fn result_row(first: &RunSummary, run: &RunSummary, metrics: &[Metric]) -> String {
    let mut cells: Vec<String> = metrics.iter().map(|metric| metric_cell(*metric, first, run)).collect();
    let totals = &run.totals;
    let again =
        (run.failure.is_none() && totals.data > 0).then(|| percent(totals.retransmitted as f64 / totals.data as f64));
    cells.push(run.drop_rate.map_or("&ndash;".to_string(), |rate| escape(&percent(rate))));
    cells.push(again.map_or("&ndash;".to_string(), |share| escape(&share)));
    cells.push(match totals.pause_frames {
        0 => "0".to_string(),
        frames => format!("{}<small>{}</small>", count(frames), time(totals.paused_ps as f64 / 1e6)),
    });
    cells.push(format!("{}<small>of {}</small>", count(run.flows.completed), count(run.flows.offered)));
    let failed = if run.failure.is_some() { " <strong class=\"failed\">FAILED</strong>" } else { "" };
    row(&format!("{}{failed}", escape(&run.name)), &cells)
}

fn metric_cell(metric: Metric, first: &RunSummary, run: &RunSummary) -> String {
    let Some(value) = metric.value(run) else {
        return "&ndash;".to_string();
    };
    let (text, exact) = shown(metric, value);
    let compared = match metric.change(first, run) {
        Some(compared) if !std::ptr::eq(first, run) => change(compared),
        _ => String::new(),
    };
    format!("<span data-tip=\"{}: {exact}\">{text}</span>{compared}", escape(&run.name))
}

/// One notice per failed run.
pub(super) fn failures(summary: &ScenarioSummary) -> String {
    let failed = summary.runs.iter().filter_map(|run| Some((run, run.failure.as_ref()?)));
    failed
        .map(|(run, reason)| {
            format!(
                "<p class=\"notice failed\"><strong>{} FAILED:</strong> {} Its flows that did finish are counted, \
                 but no statistic is made of them.</p>\n",
                escape(&run.name),
                inline(&end_sentence(reason)),
            )
        })
        .collect()
}

fn end_sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_string() } else { format!("{text}.") }
}

fn sentences(summary: &ScenarioSummary) -> String {
    let mut items = Vec::new();
    // Of many runs the table says it better.
    if let Some((first, others)) = summary.runs.split_first()
        && others.len() < ROWS_FROM
    {
        let compared = others.iter().filter_map(|run| compare::sentence(first, run));
        items.extend(compared.map(|sentence| format!("<li>{}.</li>", escape(&sentence))));
    }
    items.extend(cuts(summary).iter().map(|sentence| format!("<li>{}.</li>", escape(sentence))));
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

/// The words that the report uses.
pub(super) fn definitions() -> String {
    "<section id=\"definitions\"><h2>Definitions</h2>\n<dl>\
     <dt>FCT</dt><dd>Flow completion time: from handing a flow to the NIC until its last byte has arrived, and all \
     before it.</dd>\
     <dt>Slowdown</dt><dd>FCT divided by the time the flow needs alone on an empty fabric at line rate.</dd>\
     <dt>Percentile</dt><dd>By nearest rank: the smallest value that at least that share of the flows does not \
     exceed.</dd>\
     <dt>Measured flows</dt><dd>All statistics are over these: flows outside warm-up and cool-down.</dd>\
     <dt>Dropped, sent again</dt><dd>Data packets dropped at full buffers, and sent once more, as a share of all data \
     packets sent.</dd>\
     <dt>Pauses</dt><dd>PFC pause (XOFF) frames, and the time for which transmitters stood still because of them, \
     summed over ports and priorities.</dd>\
     </dl></section>\n"
        .to_string()
}
