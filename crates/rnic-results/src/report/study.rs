//! The report of a study, which consists of several experiments: stated and measured values, and the figures of each
//! experiment.

use super::board;
use super::figure::Board;
use super::html::{escape, inline};
use super::page;
use super::verdict::{self, Verdict};
use serde_json::json;

/// The contents of the report of a study. In all texts, text between backquotes becomes code.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Study {
    /// Heading of the page.
    pub title: String,
    /// Command that reproduces the page, shown in the header; may be empty.
    pub command: String,
    /// Version of rnic that measured the results.
    pub version: String,
    /// Further facts in the header, for example `("seeds", "1 to 5")`; they must not depend on the machine.
    pub facts: Vec<(String, String)>,
    /// Paragraphs before the verdicts.
    pub introduction: Vec<String>,
    /// Comparisons of the paper's statements with the results: the rows of the table of verdicts.
    pub verdicts: Vec<Verdict>,
    /// Whether the verdicts are shown without colours and marks, because the results are too rough for them.
    pub neutral: bool,
    /// Experiments of the study; each is a section of the page.
    pub experiments: Vec<Experiment>,
}

/// One section of a [`Study`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Experiment {
    /// Name of the experiment, to which verdicts refer, for example `Figure 1`; unique in the study.
    pub name: String,
    /// Heading of the section, which follows the name.
    pub title: String,
    /// Paragraphs of text before the figures.
    pub text: Vec<String>,
    /// Figures of the experiment. A board is a legend and the figures that share it.
    pub boards: Vec<Board>,
}

/// The report of several experiments as one HTML file, like [`super::render`].
///
/// ```
/// use rnic_results::report::figure::{Bar, BarGroup, Bars, Board, Figure, Unit};
/// use rnic_results::report::{Experiment, Study, Verdict, Within, render_study};
///
/// let around = |value: f64| Some([value - 0.1, value + 0.1]);
/// let bar = |series, value| Bar { series, value: Some(value), interval: around(value), ..Bar::default() };
/// let bars = Bars {
///     title: "RoCE + PFC over IRN".into(),
///     unit: Unit::Factor,
///     groups: vec![BarGroup {
///         name: "average FCT".into(),
///         bars: vec![bar(0, 1.7), bar(1, 2.9)],
///         stated: Some([2.8, 3.7]),
///     }],
///     ..Bars::default()
/// };
/// let series = vec!["default".into(), "bursts of 32".into()];
/// let study = Study {
///     title: "The IRN paper".into(),
///     verdicts: vec![Verdict {
///         experiment: "Figure 1".into(),
///         metric: "average FCT".into(),
///         stated: "2.8 to 3.7".into(),
///         measured: "1.7".into(),
///         within: Within::Outside,
///         note: "depends on `nic_burst`".into(),
///     }],
///     experiments: vec![Experiment {
///         name: "Figure 1".into(),
///         boards: vec![Board { series, shown: 0, rows: vec![vec![Figure::Bars(bars)]] }],
///         ..Experiment::default()
///     }],
///     ..Study::default()
/// };
/// assert!(render_study(&study).starts_with("<!doctype html>"));
/// ```
pub fn render_study(study: &Study) -> String {
    let anchor = |name: &str| {
        let found = study.experiments.iter().position(|e| e.name == name);
        found.map(|index| format!("experiment-{index}"))
    };
    let mut body = header(study);
    body += "<main>\n";
    body += &study.introduction.iter().map(|text| paragraph(text)).collect::<String>();
    body += &verdict::section(&study.verdicts, study.neutral, anchor);
    body += &contents(study);
    let mut boards = Vec::new();
    for (index, experiment) in study.experiments.iter().enumerate() {
        let heading = [&experiment.name, &experiment.title].map(|text| inline(text));
        let heading: Vec<String> = heading.into_iter().filter(|text| !text.is_empty()).collect();
        body += &format!("<section id=\"experiment-{index}\"><h2>{}</h2>\n", heading.join(": "));
        body += &experiment.text.iter().map(|text| paragraph(text)).collect::<String>();
        for board in &experiment.boards {
            body += &board::frame(boards.len(), board, true);
            boards.push(board.to_json());
        }
        body += "</section>\n";
    }
    body += "</main>";
    page::report(&study.title, &body, &json!({ "boards": boards }))
}

fn paragraph(text: &str) -> String {
    format!("<p class=\"prose\">{}</p>\n", inline(text))
}

fn header(study: &Study) -> String {
    let mut facts: Vec<String> =
        study.facts.iter().map(|(name, value)| format!("{} {}", escape(name), inline(value))).collect();
    if !study.version.is_empty() {
        facts.push(format!("rnic {}", escape(&study.version)));
    }
    let command = match study.command.as_str() {
        "" => String::new(),
        command => format!("<p class=\"meta command\"><code>{}</code></p>", escape(command)),
    };
    format!(
        "<header><h1>{}</h1><p class=\"meta\">{}</p>{command}</header>\n{}",
        escape(&study.title),
        facts.join(" &middot; "),
        page::NO_SCRIPT,
    )
}

/// Links to the sections of the experiments; empty if there are fewer than three experiments.
fn contents(study: &Study) -> String {
    if study.experiments.len() < 3 {
        return String::new();
    }
    let links: String = study
        .experiments
        .iter()
        .enumerate()
        .map(|(index, e)| {
            let text = if e.name.is_empty() { &e.title } else { &e.name };
            format!("<li><a href=\"#experiment-{index}\">{}</a></li>", inline(text))
        })
        .collect();
    format!("<nav aria-label=\"Experiments\"><ul>{links}</ul></nav>\n")
}
