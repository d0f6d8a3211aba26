//! The figures: bars as static HTML, frames for the curves that the script draws.

use super::super::compare::Metric;
use super::super::summary::ScenarioSummary;
use super::html::{change, escape};
use super::overview::{shown, title};

/// Colours that the style sheet defines (`--c0` ...).
const COLOURS: usize = 8;

/// Figures of all runs that have statistics.
pub(super) fn section(summary: &ScenarioSummary) -> String {
    if summary.runs.iter().all(|run| run.fct_us.is_none()) {
        return String::new();
    }
    let mut metrics = Metric::OF_FLOWS.to_vec();
    if summary.runs.iter().any(|run| run.requests.is_some()) {
        metrics.push(Metric::AverageRct);
    }
    let bars: String = metrics.iter().map(|metric| bars(summary, *metric)).collect();
    format!(
        "<section id=\"figures\"><h2>Figures</h2>\n{}<div class=\"panels\">{bars}</div>\n{CURVES}</section>\n",
        legend(summary)
    )
}

const CURVES: &str = "<noscript><p class=\"notice\">The two figures of curves need JavaScript; the tables below hold \
     their key numbers.</p></noscript>\n\
     <figure class=\"curve\" data-figure=\"tail\"><figcaption><strong>Tail of single-packet messages</strong>\
     <span>FCT from the 90th to the 99.9th percentile; further left is better</span></figcaption>\
     <div class=\"plot\"></div></figure>\n\
     <figure class=\"curve\" data-figure=\"sizes\"><figcaption><strong>Slowdown by flow size</strong>\
     <span>percentiles over the flows of similar size; lower is better</span></figcaption>\
     <div class=\"panels plots\"><div class=\"plot\" data-column=\"2\" data-name=\"Median\"></div>\
     <div class=\"plot\" data-column=\"3\" data-name=\"95th percentile\"></div>\
     <div class=\"plot\" data-column=\"4\" data-name=\"99th percentile\"></div></div></figure>\n";

/// One switch per run; failed runs have none.
fn legend(summary: &ScenarioSummary) -> String {
    let runs = summary.runs.iter().enumerate().filter(|(_, run)| run.fct_us.is_some());
    let items: String = runs
        .map(|(index, run)| {
            format!(
                "<button type=\"button\" aria-pressed=\"true\" data-run=\"{index}\"><i style=\"background:{}\"></i>{}\
                 </button>",
                colour(index),
                escape(&run.name)
            )
        })
        .collect();
    format!("<div class=\"legend\" role=\"group\" aria-label=\"Show or hide runs\">{items}</div>\n")
}

fn colour(index: usize) -> String {
    format!("var(--c{})", index % COLOURS)
}

/// One metric of every run, from zero, with its value and factor written beside.
fn bars(summary: &ScenarioSummary, metric: Metric) -> String {
    let values: Vec<Option<f64>> = summary.runs.iter().map(|run| metric.value(run)).collect();
    let largest = values.iter().flatten().copied().fold(0.0, f64::max);
    let mut bars = String::new();
    for (index, (run, value)) in summary.runs.iter().zip(values).enumerate() {
        let Some(value) = value else { continue };
        let (text, exact) = shown(metric, value);
        let compared = match summary.runs.first() {
            Some(first) if index > 0 => metric.change(first, run).map(change).unwrap_or_default(),
            _ => String::new(),
        };
        let width = if largest > 0.0 { 100.0 * value / largest } else { 0.0 };
        bars += &format!(
            "<div class=\"bar\" data-run=\"{index}\" data-tip=\"{name}: {exact}\"><span class=\"name\">{name}</span>\
             <span class=\"value\">{text}{compared}</span><span class=\"track\"><i style=\"width:{width:.2}%;\
             background:{colour}\"></i></span></div>\n",
            name = escape(&run.name),
            colour = colour(index),
        );
    }
    format!(
        "<figure class=\"bars\"><figcaption><strong>{}</strong><span>lower is better</span></figcaption>{bars}\
         </figure>\n",
        title(metric)
    )
}
