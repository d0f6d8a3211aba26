//! Verdicts: statements of a paper compared with measured results.

use super::html::{escape, inline, table};

/// One statement of a paper, compared with a measured result. In all texts, text between backquotes becomes code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Name of the experiment that the statement is about. The verdict links to the [`super::Experiment`] with this
    /// name, if the page has it.
    pub experiment: String,
    /// Name of the quantity that the statement is about.
    pub metric: String,
    /// The paper's statement, in words or numbers.
    pub stated: String,
    /// The measured value of the quantity.
    pub measured: String,
    /// Whether the measurement is inside the stated range.
    pub within: Within,
    /// A remark; may be empty.
    pub note: String,
}

/// Whether a measurement is inside the range that the paper states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Within {
    /// The measurement is inside the stated range.
    Inside,
    /// The measurement is outside the stated range.
    Outside,
    /// The confidence interval of the measurement contains a limit of the stated range, so the measurement may be
    /// inside or outside.
    Inconclusive,
    /// The paper states no number for this quantity.
    NotStated,
    /// There is no measurement, for example because a run failed.
    NoResult,
}

impl Within {
    /// The mark in the table of verdicts. A `neutral` mark has neither a colour nor a sign.
    fn mark(self, neutral: bool) -> &'static str {
        match self {
            Within::Inside if neutral => "<span class=\"mark unstated\">inside</span>",
            Within::Outside if neutral => "<span class=\"mark unstated\">outside</span>",
            Within::Inconclusive if neutral => "<span class=\"mark unstated\">inconclusive</span>",
            Within::Inside => "<span class=\"mark inside\"><b aria-hidden=\"true\">\u{2713}</b> inside</span>",
            Within::Outside => "<span class=\"mark outside\"><b aria-hidden=\"true\">\u{2717}</b> outside</span>",
            Within::Inconclusive => "<span class=\"mark unstated\"><b aria-hidden=\"true\">?</b> inconclusive</span>",
            Within::NoResult => "<span class=\"mark outside\"><b aria-hidden=\"true\">!</b> no result</span>",
            Within::NotStated => "<span class=\"mark unstated\"><b aria-hidden=\"true\">\u{2013}</b> not stated</span>",
        }
    }
}

/// The page's section of verdicts; empty without verdicts. `neutral` verdicts have neither colours nor signs: the
/// results are too rough for them. `anchor` returns the HTML id of an experiment's section, given the name of the
/// experiment.
pub(super) fn section(verdicts: &[Verdict], neutral: bool, anchor: impl Fn(&str) -> Option<String>) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let count = |within| verdicts.iter().filter(|v| v.within == within).count();
    let mut tally = format!("{} inside the stated range, {} outside", count(Within::Inside), count(Within::Outside));
    for (within, text) in [
        (Within::Inconclusive, "inconclusive"),
        (Within::NotStated, "without a stated number"),
        (Within::NoResult, "without a result"),
    ] {
        if count(within) > 0 {
            tally += &format!(", {} {text}", count(within));
        }
    }
    if neutral {
        tally += ". With results as rough as these, the verdicts say nothing about the paper.";
    }
    let noted = verdicts.iter().any(|v| !v.note.is_empty());
    let mut head = ["Experiment", "Metric", "Stated", "Measured", "Within"].map(String::from).to_vec();
    if noted {
        head.push("Note".into());
    }
    let mut last = None;
    let mut rows = Vec::new();
    for verdict in verdicts {
        // The name of an experiment is visible only in the first of its rows.
        let again = last == Some(&verdict.experiment);
        last = Some(&verdict.experiment);
        let name = inline(&verdict.experiment);
        let name = match anchor(&verdict.experiment) {
            Some(id) => format!("<a href=\"#{}\">{name}</a>", escape(&id)),
            None => name,
        };
        let name = if again { format!("<span class=\"again\">{name}</span>") } else { name };
        let mut cells = [&verdict.metric, &verdict.stated, &verdict.measured].map(|text| inline(text)).to_vec();
        cells.push(verdict.within.mark(neutral).into());
        if noted {
            cells.push(inline(&verdict.note));
        }
        // On a phone, the column's title stands before each cell.
        let cell = |(cell, label): (&String, &String)| match cell.as_str() {
            "" => "<td></td>".to_string(),
            cell => format!("<td data-label=\"{label}\"><span>{cell}</span></td>"),
        };
        let cells: String = cells.iter().zip(&head[1..]).map(cell).collect();
        let first = if again { "" } else { " class=\"first\"" };
        rows.push(format!("<tr{first}><th scope=\"row\">{name}</th>{cells}</tr>\n"));
    }
    format!(
        "<section id=\"verdicts\"><h2>Verdicts</h2>\n<p class=\"tally\">{tally}</p>\n{}</section>\n",
        table("verdicts", "Verdicts", &head, &rows)
    )
}
