//! What a source states against what was measured.

use super::html::{escape, inline, table};

/// One claim and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Which experiment; links to the [`super::Experiment`] of that name where there is one.
    pub experiment: String,
    /// Which quantity.
    pub metric: String,
    /// What the source states, in words or numbers.
    pub stated: String,
    /// What was measured.
    pub measured: String,
    /// Whether that is inside what is stated.
    pub within: Within,
    /// What a reader should know; may be empty. Text between backquotes becomes code, here as in the other fields.
    pub note: String,
}

/// Whether a measurement is inside what is stated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Within {
    /// It is.
    Inside,
    /// It is not.
    Outside,
    /// Its interval allows either answer.
    Inconclusive,
    /// The source gives no number to hold it against.
    NotStated,
    /// There is no measurement.
    NoResult,
}

impl Within {
    fn mark(self) -> &'static str {
        match self {
            Within::Inside => "<span class=\"mark inside\"><b aria-hidden=\"true\">\u{2713}</b> inside</span>",
            Within::Outside => "<span class=\"mark outside\"><b aria-hidden=\"true\">\u{2717}</b> outside</span>",
            Within::Inconclusive => "<span class=\"mark unstated\"><b aria-hidden=\"true\">?</b> inconclusive</span>",
            Within::NoResult => "<span class=\"mark outside\"><b aria-hidden=\"true\">!</b> no result</span>",
            Within::NotStated => "<span class=\"mark unstated\"><b aria-hidden=\"true\">\u{2013}</b> not stated</span>",
        }
    }
}

/// The section; nothing without verdicts. `anchor` gives the identifier of an experiment's section by its name.
pub(super) fn section(verdicts: &[Verdict], anchor: impl Fn(&str) -> Option<String>) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let count = |within| verdicts.iter().filter(|v| v.within == within).count();
    let mut tally = format!("{} inside what is stated, {} outside", count(Within::Inside), count(Within::Outside));
    for (within, text) in [
        (Within::Inconclusive, "inconclusive"),
        (Within::NotStated, "without a stated number"),
        (Within::NoResult, "without a result"),
    ] {
        if count(within) > 0 {
            tally += &format!(", {} {text}", count(within));
        }
    }
    let noted = verdicts.iter().any(|v| !v.note.is_empty());
    let mut head = ["Experiment", "Metric", "Stated", "Measured", "Within"].map(String::from).to_vec();
    if noted {
        head.push("Note".into());
    }
    let mut last = None;
    let mut rows = Vec::new();
    for verdict in verdicts {
        // The name of the experiment once for all its rows.
        let again = last == Some(&verdict.experiment);
        last = Some(&verdict.experiment);
        let name = inline(&verdict.experiment);
        let name = match anchor(&verdict.experiment) {
            Some(id) => format!("<a href=\"#{}\">{name}</a>", escape(&id)),
            None => name,
        };
        let name = if again { format!("<span class=\"again\">{name}</span>") } else { name };
        let mut cells = [&verdict.metric, &verdict.stated, &verdict.measured].map(|text| inline(text)).to_vec();
        cells.push(verdict.within.mark().into());
        if noted {
            cells.push(inline(&verdict.note));
        }
        // On a phone the labels stand before the cells.
        let cell = |(cell, label): (&String, &String)| match cell.as_str() {
            "" => "<td></td>".to_string(),
            cell => format!("<td data-label=\"{label}\"><span>{cell}</span></td>"),
        };
        let cells: String = cells.iter().zip(&head[1..]).map(cell).collect();
        let first = if again { "" } else { " class=\"first\"" };
        rows.push(format!("<tr{first}><th scope=\"row\">{name}</th>{cells}</tr>\n"));
    }
    format!(
        "<section id=\"verdicts\"><h2>Verdict</h2>\n<p class=\"tally\">{tally}</p>\n{}</section>\n",
        table("verdicts", "Verdict", &head, &rows)
    )
}
