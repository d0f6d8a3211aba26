//! The items of the papers: whether rnic has them, and what shows it.
//!
//! An item is a mechanism, a parameter, an experiment, a table or a figure of a paper. `docs/results/items.toml` has an
//! array of tables for each of [`PAPERS`]:
//!
//! | key | contents |
//! |---|---|
//! | `where` | section, figure, table or slide of the paper |
//! | `item` | the item, in a phrase that a reader of the paper understands |
//! | `shown` | what shows that rnic has the item: see [`Reference`] |
//! | `lacks` | the part of the item that rnic lacks, in a clause |
//! | `missing` | why rnic does not have the item at all, in a clause; such an item has no `shown` |
//!
//! The file has no states. An item with `missing` is missing; an item with `lacks`, or with a row that is not inside
//! its claim, is partly there; every other item works.

use crate::data::Data;
use crate::study::{self, Counts, PAPERS, link, rows_page};
use crate::table::{escaped, lines, thousands};
use rnic_record::Table;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The file of the items, from the root of the repository.
pub const FILE: &str = "docs/results/items.toml";

/// The items of each paper, by the name of its record.
pub type Items = BTreeMap<String, Vec<Item>>;

/// An item of a paper.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Section, figure, table or slide of the paper.
    #[serde(rename = "where")]
    pub place: String,
    /// The item in words.
    #[serde(rename = "item")]
    pub text: String,
    /// What shows that rnic has the item.
    #[serde(default)]
    pub shown: Vec<Reference>,
    /// The part that rnic lacks.
    pub lacks: Option<String>,
    /// Why rnic does not have the item.
    pub missing: Option<String>,
}

/// What shows that rnic has an item.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub enum Reference {
    /// A test that fails if the item breaks: `crates/rnic-transport/tests/irn.rs::nothing_lost`.
    Test {
        /// Path of the file from the root of the repository.
        file: String,
        /// Name of the function.
        function: String,
    },
    /// The rows of an experiment: `irn fig1`; or the row with a metric, and if there is none, the rows whose metrics
    /// begin with this text: `irn load: smallest`.
    Rows {
        /// Name of the record of the study.
        study: String,
        /// Name of the experiment.
        experiment: String,
        /// The metric, or the beginning of metrics; empty for all rows of the experiment.
        metric: String,
    },
    /// A command and the page that documents it: `rnic lint (docs/reference/desired-state.md)`.
    Command {
        /// The words of the command, as the page has them.
        command: String,
        /// Path of the page from the root of the repository.
        page: String,
    },
}

impl TryFrom<String> for Reference {
    type Error = String;

    fn try_from(text: String) -> Result<Reference, String> {
        if let Some((command, page)) = text.strip_suffix(')').and_then(|text| text.split_once(" (docs/")) {
            return Ok(Reference::Command { command: command.to_string(), page: format!("docs/{page}") });
        }
        if let Some((file, function)) = text.split_once("::") {
            return Ok(Reference::Test { file: file.to_string(), function: function.to_string() });
        }
        let (rows, metric) = text.split_once(": ").unwrap_or((&text, ""));
        match rows.split(' ').collect::<Vec<_>>()[..] {
            [study, experiment] => Ok(Reference::Rows {
                study: study.to_string(),
                experiment: experiment.to_string(),
                metric: metric.to_string(),
            }),
            _ => Err(format!(
                "`{text}` shows nothing; accepted are FILE::TEST, STUDY EXPERIMENT, STUDY EXPERIMENT: BEGINNING OF \
                 METRICS, and COMMAND (docs/PAGE.md)"
            )),
        }
    }
}

/// Whether rnic has an item.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// rnic has all of it, and every row with a claim is inside.
    Works,
    /// rnic lacks a part, or a row with a claim is not inside.
    Partly,
    /// rnic does not have it.
    Missing,
}

impl State {
    /// The word on the page.
    pub fn text(self) -> &'static str {
        match self {
            State::Works => "works",
            State::Partly => "partly",
            State::Missing => "missing",
        }
    }
}

/// The items in the text of [`FILE`].
///
/// # Errors
/// One sentence about the first mistake: a key or a reference that is not accepted, a paper that is not one of
/// [`PAPERS`], or an item whose keys contradict each other.
pub fn read(text: &str) -> Result<Items, String> {
    let items: Items = toml::from_str(text).map_err(|error| format!("{FILE}: {}", error.to_string().trim()))?;
    for (paper, own) in &items {
        if PAPERS.iter().all(|(name, ..)| name != paper) {
            let names: Vec<&str> = PAPERS.iter().map(|(name, ..)| *name).collect();
            return Err(format!("{FILE}: `{paper}` is no paper; accepted are {}", names.join(", ")));
        }
        for (index, item) in own.iter().enumerate() {
            let mistake = match (&item.missing, &item.lacks, item.shown.is_empty()) {
                (Some(_), Some(_), _) => "has both `missing` and `lacks`; an item lacks a part or is missing",
                (Some(_), None, false) => "is missing and has `shown`; an item with a part has `lacks`",
                (None, _, true) => "has no `shown`; an item that nothing shows is `missing`",
                _ => continue,
            };
            return Err(format!("{FILE}: item {} of `{paper}`, \"{}\", {mistake}", index + 1, item.text));
        }
    }
    Ok(items)
}

/// Whether this row of a study is among those that a reference names.
fn names_row(reference: &Reference, name: &str, table: &Table, row: &[Value]) -> bool {
    let Reference::Rows { study, experiment, metric } = reference else { return false };
    let is_experiment = |row: &[Value]| study == name && table.text(row, "experiment") == experiment;
    let is_exact = |row: &[Value]| is_experiment(row) && table.text(row, "metric") == metric;
    match table.rows.iter().any(|row| is_exact(row)) {
        true => is_exact(row),
        false => is_experiment(row) && table.text(row, "metric").starts_with(metric),
    }
}

/// Numbers of the rows that an item refers to. A row counts once, however many references include it.
///
/// # Errors
/// One sentence about a reference without a row that has a claim.
fn counts(data: &Data, item: &Item) -> Result<Counts, String> {
    let mut studies: Vec<&str> = Vec::new();
    for reference in &item.shown {
        let Reference::Rows { study, experiment, metric } = reference else { continue };
        let own = study::counts_where(data, study, |table, row| names_row(reference, study, table, row))?;
        if own.checked() == 0 {
            return Err(format!(
                "`{study}` has no row of `{experiment}` with a claim whose metric begins with `{metric}`"
            ));
        }
        if !studies.contains(&study.as_str()) {
            studies.push(study);
        }
    }
    let mut counts = Counts::default();
    for name in studies {
        let is_named = |table: &Table, row: &[Value]| item.shown.iter().any(|own| names_row(own, name, table, row));
        counts += study::counts_where(data, name, is_named)?;
    }
    Ok(counts)
}

/// The state of an item, and the numbers of its rows.
///
/// # Errors
/// One sentence about a reference without rows.
pub fn state(data: &Data, item: &Item) -> Result<(State, Counts), String> {
    let counts = counts(data, item).map_err(|why| format!("\"{}\": {why}", item.text))?;
    let state = if item.missing.is_some() {
        State::Missing
    } else if item.lacks.is_some() || counts.inside < counts.checked() {
        State::Partly
    } else {
        State::Works
    };
    Ok((state, counts))
}

/// The text of a state in a table: "partly: 3 of 6 rows inside, 1 inconclusive, 1 opposite".
fn state_text(item: &Item, state: State, counts: Counts) -> String {
    let mut reasons: Vec<String> = item.missing.iter().chain(&item.lacks).cloned().collect();
    match (counts.checked(), counts.inside) {
        (0, _) => {}
        (1, 1) => reasons.push("its row is inside".to_string()),
        (1, 0) => reasons.push("its row is not inside".to_string()),
        (all, inside) if all == inside => reasons.push(format!("{all} of {all} rows inside")),
        (all, inside) => reasons.push(format!("{inside} of {all} rows inside")),
    }
    for (number, outcome) in [(counts.inconclusive, "inconclusive"), (counts.opposite, "opposite")] {
        if number > 0 {
            reasons.push(format!("{number} {outcome}"));
        }
    }
    if reasons.is_empty() { state.text().to_string() } else { format!("{}: {}", state.text(), reasons.join(", ")) }
}

/// A reference as a link from the page with the path `from`.
fn shown_text(data: &Data, from: &str, reference: &Reference) -> Result<String, String> {
    Ok(match reference {
        Reference::Test { file, function } => format!("[`{function}`]({})", link(from, file)),
        Reference::Rows { study, experiment, .. } => {
            let anchor = study::anchor(data, study, experiment)?;
            format!("[`{study} {experiment}`]({}#{anchor})", link(from, &rows_page(study)))
        }
        Reference::Command { command, page } => format!("[`{command}`]({})", link(from, page)),
    })
}

/// The items of a paper.
///
/// # Errors
/// One sentence if the paper has no items, or about a reference without rows.
fn of_paper<'d>(data: &'d Data, paper: &str) -> Result<&'d [Item], String> {
    data.items.get(paper).map(Vec::as_slice).ok_or_else(|| format!("`{FILE}` has no items of `{paper}`"))
}

/// The table of the items of a paper, on the page with the path `from`.
///
/// # Errors
/// One sentence if the paper has no items, or about a reference without rows.
pub fn table(data: &Data, from: &str, paper: &str) -> Result<String, String> {
    let mut body = Vec::new();
    for (index, item) in of_paper(data, paper)?.iter().enumerate() {
        let (state, counts) = state(data, item)?;
        let mut shown: Vec<String> = Vec::new();
        for reference in &item.shown {
            let text = shown_text(data, from, reference)?;
            // Several references to rows of an experiment are one link.
            if !shown.contains(&text) {
                shown.push(text);
            }
        }
        body.push(vec![
            (index + 1).to_string(),
            escaped(&item.place),
            escaped(&item.text),
            escaped(&state_text(item, state, counts)),
            shown.join(", "),
        ]);
    }
    let heads = ["", "where", "item", "state", "shown by"].map(ToString::to_string);
    Ok(lines(&heads, &[true, false, false, false, false], body.into_iter()))
}

/// Numbers of items by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Totals {
    works: u64,
    partly: u64,
    missing: u64,
    /// Items that are partly there, whose rows have claims, and none of these rows is inside.
    none_inside: u64,
}

impl Totals {
    fn add(&mut self, state: State, counts: Counts) {
        match state {
            State::Works => self.works += 1,
            State::Partly => self.partly += 1,
            State::Missing => self.missing += 1,
        }
        self.none_inside += u64::from(counts.checked() > 0 && counts.inside == 0);
    }

    fn all(self) -> u64 {
        self.works + self.partly + self.missing
    }
}

/// The numbers of items of these papers.
fn totals<'p>(data: &Data, papers: impl Iterator<Item = &'p str>) -> Result<Totals, String> {
    let mut totals = Totals::default();
    for paper in papers {
        for item in of_paper(data, paper)? {
            let (state, counts) = state(data, item)?;
            totals.add(state, counts);
        }
    }
    Ok(totals)
}

/// The numbers of items by state, for each paper.
///
/// # Errors
/// One sentence if a paper has no items, or about a reference without rows.
pub fn summary(data: &Data) -> Result<String, String> {
    let cells = |name: String, totals: Totals| {
        let numbers = [totals.all(), totals.works, totals.partly, totals.missing].map(thousands);
        std::iter::once(name).chain(numbers).collect::<Vec<_>>()
    };
    let mut body = Vec::new();
    for (paper, title, _) in PAPERS {
        body.push(cells(title.to_string(), totals(data, std::iter::once(paper))?));
    }
    body.push(cells("all".to_string(), totals(data, PAPERS.iter().map(|(paper, ..)| *paper))?));
    let heads = ["document", "items", "works", "partly", "missing"].map(ToString::to_string);
    Ok(lines(&heads, &[false, true, true, true, true], body.into_iter()))
}

/// An inline value: `all`, `works`, `partly`, `missing`, or `none-inside` of all papers; with a paper's name before it
/// (`irn.works`), of this paper.
///
/// # Errors
/// One sentence if there is no such value.
pub fn value(data: &Data, name: &str) -> Result<String, String> {
    let totals = match name.rsplit_once('.') {
        Some((paper, _)) => totals(data, std::iter::once(paper))?,
        None => totals(data, PAPERS.iter().map(|(paper, ..)| *paper))?,
    };
    let number = match name.rsplit('.').next().unwrap_or(name) {
        "all" => totals.all(),
        "works" => totals.works,
        "partly" => totals.partly,
        "missing" => totals.missing,
        "none-inside" => totals.none_inside,
        other => {
            return Err(format!(
                "items have no value `{other}`; accepted are all, works, partly, missing, none-inside"
            ));
        }
    };
    Ok(thousands(number))
}

/// Whether the text of a file has the test function: in Rust after the attribute `#[test]`, in Python a function whose
/// name begins with `test_`.
fn has_test(path: &str, text: &str, function: &str) -> bool {
    let text: Vec<&str> = text.lines().map(str::trim).collect();
    if Path::new(path).extension().is_some_and(|extension| extension == "py") {
        return function.starts_with("test_") && text.iter().any(|line| line.starts_with(&format!("def {function}(")));
    }
    let is_function = |line: &&str| line.starts_with(&format!("fn {function}("));
    let Some(at) = text.iter().position(is_function) else { return false };
    let before = text[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    before.into_iter().any(|line| *line == "#[test]")
}

/// A sentence for each reference to a test that does not exist, or to a page that does not have the command.
pub fn references(items: &Items, root: &Path) -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).map_err(|error| format!("`{path}`: {error}"));
    let wrong = |reference: &Reference| match reference {
        Reference::Test { file, function } => match read(file) {
            Ok(text) if has_test(file, &text, function) => None,
            Ok(_) => Some(format!("`{file}` has no test `{function}`")),
            Err(why) => Some(why),
        },
        Reference::Command { command, page } => match read(page) {
            Ok(text) if text.contains(command.as_str()) => None,
            Ok(_) => Some(format!("`{page}` does not have the command `{command}`")),
            Err(why) => Some(why),
        },
        Reference::Rows { .. } => None,
    };
    let of_item = |item: &Item| {
        let wrong = item.shown.iter().filter_map(wrong);
        wrong.map(|why| format!("{FILE}: \"{}\": {why}", item.text)).collect::<Vec<_>>()
    };
    items.values().flatten().flat_map(of_item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_record::Record;

    fn items(text: &str) -> Result<Items, String> {
        read(&text.replace("W ", "where = \"4\"\n"))
    }

    /// A study with six rows of three experiments.
    fn data(text: &str) -> Data {
        let record = r#"{"schema": 1, "title": "A paper", "command": "c", "date": "2026-01-02", "version": "0.1.0",
            "commit": null, "machine": "m", "values": {}, "tables": {
            "experiments": {"columns": ["experiment", "title"], "rows": [["a", "Figure 1: loss"]]},
            "rows": {"columns": ["experiment", "metric", "outcome"], "rows": [["a", "FCT, no cc", "inside"],
            ["a", "FCT, TIMELY", "inside"], ["a", "slowdown", "outside: opposite direction"], ["b", "queue", "not stated"],
            ["c", "RoCE", "inside"], ["c", "RoCE, no PFC", "outside: above"]]}}}"#;
        let mut data = Data { items: items(text).unwrap(), ..Data::default() };
        data.records.insert("irn".to_string(), Record::from_text(record).unwrap());
        data
    }

    #[test]
    fn states_follow_from_the_rows_and_from_what_is_absent() {
        let data = data(
            r#"
            [[irn]]
            W item = "the FCT"
            shown = ["irn a: FCT", "irn a: FCT, no cc"]
            [[irn]]
            W item = "one FCT"
            shown = ["irn a: FCT, no cc", "a.rs::f"]
            [[irn]]
            W item = "figure | 1"
            shown = ["irn a", "irn a: slow"]
            [[irn]]
            W item = "the slowdown"
            shown = ["irn a: slowdown"]
            [[irn]]
            W item = "the queue"
            shown = ["rnic lint (docs/a.md)"]
            lacks = "only one switch"
            [[irn]]
            W item = "RoCE with PFC"
            shown = ["irn c: RoCE"]
            [[irn]]
            W item = "the board"
            missing = "no hardware"
            "#,
        );
        assert_eq!(
            table(&data, "docs/results/items.md", "irn").unwrap().lines().skip(2).collect::<Vec<_>>(),
            [
                "| 1 | 4 | the FCT | works: 2 of 2 rows inside | [`irn a`](rows/irn.md#a-figure-1-loss) |",
                "| 2 | 4 | one FCT | works: its row is inside | [`irn a`](rows/irn.md#a-figure-1-loss), [`f`](../../a.rs) |",
                "| 3 | 4 | figure \\| 1 | partly: 2 of 3 rows inside, 1 opposite | [`irn a`](rows/irn.md#a-figure-1-loss) |",
                "| 4 | 4 | the slowdown | partly: its row is not inside, 1 opposite | [`irn a`](rows/irn.md#a-figure-1-loss) |",
                "| 5 | 4 | the queue | partly: only one switch | [`rnic lint`](../a.md) |",
                "| 6 | 4 | RoCE with PFC | works: its row is inside | [`irn c`](rows/irn.md#c) |",
                "| 7 | 4 | the board | missing: no hardware | |",
            ]
        );
        let values = ["irn.all", "irn.works", "irn.partly", "irn.missing", "irn.none-inside"];
        assert_eq!(values.map(|name| value(&data, name).unwrap()), ["7", "3", "3", "1", "1"]);
        assert!(value(&data, "irn.wrong").is_err() && value(&data, "dcqcn.all").is_err());
    }

    #[test]
    fn contradicting_items_and_unknown_rows_are_errors() {
        for (text, part) in [
            ("[[irn]]\nW item = \"a\"", "has no `shown`"),
            ("[[irn]]\nW item = \"a\"\nshown = [\"a.rs::f\"]\nmissing = \"b\"", "is missing and has `shown`"),
            ("[[irn]]\nW item = \"a\"\nlacks = \"b\"\nmissing = \"b\"", "both `missing` and `lacks`"),
            ("[[irn]]\nW item = \"a\"\nstate = \"works\"\nshown = [\"a.rs::f\"]", "unknown field `state`"),
            ("[[irn]]\nW item = \"a\"\nshown = [\"irn\"]", "accepted are FILE::TEST"),
            ("[[tcp]]\nW item = \"a\"\nmissing = \"b\"", "`tcp` is no paper; accepted are irn, dcqcn"),
        ] {
            let why = items(text).unwrap_err();
            assert!(why.contains(part) && why.starts_with(FILE), "{why}");
        }
        for (rows, metric) in
            [("a: queue", "`a` with a claim whose metric begins with `queue`"), ("b", "`b` with a claim")]
        {
            let data = data(&format!("[[irn]]\nW item = \"a\"\nshown = [\"irn {rows}\"]"));
            let why = table(&data, "docs/results/items.md", "irn").unwrap_err();
            assert!(why.starts_with("\"a\": `irn` has no row of ") && why.contains(metric), "{why}");
        }
    }

    #[test]
    fn tests_are_functions_with_the_attribute() {
        let rust = "#[test]\n/// What it is.\n#[ignore = \"slow\"]\nfn a() {\n}\n\nfn b() {}\n#[test]\nfn aa() {}\n";
        assert!(has_test("a.rs", rust, "a") && has_test("a.rs", rust, "aa"));
        assert!(!has_test("a.rs", rust, "b") && !has_test("a.rs", rust, "c"));
        let python = "class T:\n    def test_a(self):\n        pass\n\ndef b():\n    pass\n";
        assert!(has_test("a.py", python, "test_a") && !has_test("a.py", python, "b"));
    }
}
