//! The tables of studies: verdicts by experiment, rows, and what the pages say of their origin.

use crate::Data;
use crate::table::{escaped, lines, thousands};
use rnic_record::{Claim, Measured, Outcome, Record, Table, Unit, judge};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Papers of the table of evidence: name of the record, of the paper, and where it was published. Other studies vary
/// or extend these papers.
pub const PAPERS: [(&str, &str, &str); 5] = [
    ("irn", "IRN", "SIGCOMM 2018"),
    ("dcqcn", "DCQCN", "SIGCOMM 2015"),
    ("nanotransport", "NanoTransport", "SOSR 2021"),
    ("at-scale", "RDMA at scale", "SIGCOMM 2016"),
    ("rogue", "RoGUE", "SoCC 2018"),
];

/// The page with all rows of a study.
pub fn rows_page(name: &str) -> String {
    format!("docs/results/rows/{name}.md")
}

/// The study whose page of all rows has this path.
pub fn name_of_rows_page(path: &str) -> Option<&str> {
    path.strip_prefix("docs/results/rows/")?.strip_suffix(".md")
}

/// Numbers of rows by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// All rows.
    pub rows: u64,
    /// Rows inside their claims.
    pub inside: u64,
    /// Rows outside their claims.
    pub outside: u64,
    /// Rows outside their claims whose effect has the stated direction.
    pub same_direction: u64,
    /// Rows outside their claims whose effect is opposite to the stated direction.
    pub opposite: u64,
    /// Rows whose interval decides nothing.
    pub inconclusive: u64,
    /// Rows for which the paper states nothing.
    pub not_stated: u64,
    /// Rows without a measured value.
    pub no_result: u64,
}

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        self.rows += 1;
        match outcome {
            Outcome::Inside => self.inside += 1,
            Outcome::NotStated => self.not_stated += 1,
            Outcome::NoResult => self.no_result += 1,
            outcome if outcome.is_outside() => self.outside += 1,
            _ => self.inconclusive += 1,
        }
        self.opposite += u64::from(outcome == Outcome::Opposite);
        self.same_direction += u64::from(matches!(outcome, Outcome::Smaller | Outcome::Larger));
    }

    /// Rows for which the paper states something.
    pub fn checked(&self) -> u64 {
        self.rows - self.not_stated
    }

    /// The count with this name in inline values.
    pub fn named(&self, name: &str) -> Option<u64> {
        Some(match name {
            "rows" => self.rows,
            "inside" => self.inside,
            "outside" => self.outside,
            "same-direction" => self.same_direction,
            "opposite" => self.opposite,
            "inconclusive" => self.inconclusive,
            "not-stated" => self.not_stated,
            "no-result" => self.no_result,
            "checked" => self.checked(),
            _ => return None,
        })
    }

    fn cells(&self) -> [String; 5] {
        [self.rows, self.inside, self.outside, self.inconclusive, self.not_stated].map(thousands)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.rows += other.rows;
        self.inside += other.inside;
        self.outside += other.outside;
        self.same_direction += other.same_direction;
        self.opposite += other.opposite;
        self.inconclusive += other.inconclusive;
        self.not_stated += other.not_stated;
        self.no_result += other.no_result;
    }
}

/// The outcome that is stored in a row.
///
/// # Errors
/// One sentence if the text is that of no outcome.
pub fn outcome(table: &Table, row: &[Value]) -> Result<Outcome, String> {
    let text = table.text(row, "outcome");
    Outcome::of_text(text).ok_or_else(|| format!("`{text}` is no outcome of a row"))
}

/// Counts the rows of a study; of one experiment if it is named.
///
/// # Errors
/// One sentence if the study has no rows.
pub fn counts(data: &Data, name: &str, experiment: Option<&str>) -> Result<Counts, String> {
    counts_where(data, name, |table, row| experiment.is_none_or(|own| table.text(row, "experiment") == own))
}

/// Counts the rows of a study for which `wanted` holds.
///
/// # Errors
/// One sentence if the study has no rows.
pub fn counts_where(data: &Data, name: &str, wanted: impl Fn(&Table, &[Value]) -> bool) -> Result<Counts, String> {
    let table = data.table(name, "rows")?;
    let mut counts = Counts::default();
    for row in table.rows.iter().filter(|row| wanted(table, row)) {
        counts.add(outcome(table, row)?);
    }
    Ok(counts)
}

/// The measured value of a row as text: `1.53 ± 0.12x`.
pub fn measured(table: &Table, row: &[Value]) -> String {
    let unit = Unit::of_name(table.text(row, "unit")).unwrap_or(Unit::Count);
    table.number(row, "mean").map_or("-".to_string(), |mean| unit.show(mean, table.number(row, "half_width")))
}

fn stated(table: &Table, row: &[Value]) -> String {
    escaped(table.text(row, "stated"))
}

/// The rows of a study with one of these outcomes.
fn rows(data: &Data, name: &str, wanted: impl Fn(&Table, &[Value], Outcome) -> bool) -> Result<String, String> {
    let table = data.table(name, "rows")?;
    let mut selected = Vec::new();
    for row in &table.rows {
        let outcome = outcome(table, row)?;
        if wanted(table, row, outcome) {
            let note = table.text(row, "note");
            let metric = table.text(row, "metric");
            let metric = if note.is_empty() { metric.to_string() } else { format!("{metric} ({note})") };
            selected.push(vec![
                escaped(table.text(row, "experiment")),
                escaped(&metric),
                stated(table, row),
                measured(table, row),
                outcome.text().to_string(),
            ]);
        }
    }
    if selected.is_empty() {
        return Ok("None.".to_string());
    }
    let heads = ["experiment", "metric", "stated in the paper", "measured", "verdict"].map(ToString::to_string);
    Ok(lines(&heads, &[false; 5], selected.into_iter()))
}

/// The rows outside their claims.
///
/// # Errors
/// One sentence if the study has no rows.
pub fn outside(data: &Data, name: &str) -> Result<String, String> {
    rows(data, name, |_, _, outcome| outcome.is_outside())
}

/// The rows whose interval decides nothing.
///
/// # Errors
/// One sentence if the study has no rows.
pub fn inconclusive(data: &Data, name: &str) -> Result<String, String> {
    rows(data, name, |_, _, outcome| outcome.is_inconclusive())
}

/// All rows of one experiment.
///
/// # Errors
/// One sentence if the study has no such experiment.
pub fn experiment(data: &Data, name: &str, experiment: &str) -> Result<String, String> {
    if counts(data, name, Some(experiment))?.rows == 0 {
        return Err(format!("`{name}` has no experiment `{experiment}` with rows"));
    }
    rows(data, name, |table, row, _| table.text(row, "experiment") == experiment)
}

/// The rows of one experiment whose metrics have the form `VARIANT: FIGURE, QUANTITY` or `VARIANT: QUANTITY`: a line
/// for each variant and a column for each figure or quantity, with the means. A mean that meets its claim is bold.
///
/// # Errors
/// One sentence if the study has no such experiment, or a metric has another form.
pub fn variants(data: &Data, name: &str, experiment: &str) -> Result<String, String> {
    let table = data.table(name, "rows")?;
    let (mut figures, mut variants): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut cells: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for row in table.rows.iter().filter(|row| table.text(row, "experiment") == experiment) {
        let metric = table.text(row, "metric");
        let form = || format!("`{metric}` of `{name}` has not the form `VARIANT: QUANTITY`");
        let (variant, rest) = metric.split_once(": ").ok_or_else(form)?;
        let figure = rest.split_once(", ").map_or(rest, |(figure, _)| figure);
        for (names, own) in [(&mut figures, figure), (&mut variants, variant)] {
            if !names.contains(&own) {
                names.push(own);
            }
        }
        cells.entry((variant, figure)).or_default().push(mean(table, row)?);
    }
    if variants.is_empty() {
        return Err(format!("`{name}` has no experiment `{experiment}` with rows"));
    }
    let body = variants.iter().map(|variant| {
        let values = |figure: &&str| cells.get(&(*variant, *figure)).map_or(String::new(), |values| values.join(", "));
        std::iter::once(escaped(variant)).chain(figures.iter().map(values)).collect()
    });
    let heads: Vec<String> = std::iter::once("variant").chain(figures.iter().copied()).map(escaped).collect();
    Ok(lines(&heads, &vec![false; heads.len()], body))
}

/// The mean of a row as text without the `x` of a ratio, bold if it meets its claim.
fn mean(table: &Table, row: &[Value]) -> Result<String, String> {
    let unit = Unit::of_name(table.text(row, "unit")).unwrap_or(Unit::Count);
    let Some(mean) = table.number(row, "mean") else { return Ok("-".to_string()) };
    let claim = Claim::from_json(table.cell(row, "claim").unwrap_or(&Value::Null))?;
    let text = unit.show(mean, None).trim_end_matches('x').to_string();
    let exact = Measured { mean, half_width: None, exact: true };
    Ok(if judge(&claim, &exact) == Outcome::Inside { format!("**{text}**") } else { text })
}

/// The numbers of rows by outcome, a line per experiment.
///
/// # Errors
/// One sentence if the study has no rows.
pub fn summary(data: &Data, name: &str) -> Result<String, String> {
    let table = data.table(name, "experiments")?;
    let mut body = Vec::new();
    for row in &table.rows {
        let experiment = table.text(row, "experiment");
        let own = counts(data, name, Some(experiment))?;
        let mut line = vec![escaped(experiment), escaped(table.text(row, "title"))];
        line.push(table.number(row, "seeds").map_or(String::new(), |seeds| format!("{seeds}")));
        line.extend(own.cells());
        body.push(line);
    }
    let mut total = vec!["all".to_string(), String::new(), String::new()];
    total.extend(counts(data, name, None)?.cells());
    body.push(total);
    let heads = ["experiment", "", "seeds", "rows", "inside", "outside", "inconclusive", "not stated"];
    let right = [false, false, true, true, true, true, true, true];
    Ok(lines(&heads.map(ToString::to_string), &right, body.into_iter()))
}

/// The counts of all papers, of the rows for which the paper states something: other rows, such as those of our own
/// extensions of a study, are no evidence for or against the paper. Links lead from the page with the path `from`.
///
/// # Errors
/// One sentence if a paper has no rows.
pub fn evidence(data: &Data, from: &str) -> Result<(String, Vec<String>), String> {
    let cells = |counts: Counts| [counts.checked(), counts.inside, counts.outside, counts.inconclusive].map(thousands);
    let (mut body, mut used, mut total) = (Vec::new(), Vec::new(), Counts::default());
    for (name, paper, venue) in PAPERS {
        let own = counts(data, name, None)?;
        let to = link(from, &format!("docs/results/{name}.md"));
        let mut line = vec![format!("[{paper}]({to}) ({venue})")];
        line.extend(cells(own));
        line.push(dates(data.record(name)?));
        body.push(line);
        total += own;
        used.push(format!("{name}/rows"));
    }
    let mut line = vec!["all".to_string()];
    line.extend(cells(total));
    line.push(String::new());
    body.push(line);
    let heads = ["paper", "rows", "inside", "outside", "inconclusive", "measured"];
    let right = [false, true, true, true, true, false];
    Ok((lines(&heads.map(ToString::to_string), &right, body.into_iter()), used))
}

/// The relative path from one page to another, both from the root of the repository.
pub fn link(from: &str, to: &str) -> String {
    let (mut from, mut to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    from.pop();
    while !from.is_empty() && to.len() > 1 && from[0] == to[0] {
        from.remove(0);
        to.remove(0);
    }
    "../".repeat(from.len()) + &to.join("/")
}

/// The link to the page of all rows.
///
/// # Errors
/// One sentence if the study has no rows.
pub fn all_rows_link(data: &Data, name: &str, from: &str) -> Result<String, String> {
    let counts = counts(data, name, None)?;
    Ok(format!("[All {} rows]({}) are on a page of their own.", thousands(counts.rows), link(from, &rows_page(name))))
}

/// Sentences about the origin of a record, and whether it may be older than the code.
///
/// # Errors
/// One sentence if there is no such record.
pub fn provenance(data: &Data, name: &str) -> Result<String, String> {
    let record = data.record(name)?;
    let versions = all(record, "version").join(" and ");
    let mut text = format!("Measured by `{}` on {} with rnic {versions}", record.command, dates(record));
    match &all(record, "commit")[..] {
        [] => {}
        [commit] => text += &format!(" (commit {commit})"),
        commits => text += &format!(" (commits {})", commits.join(", ")),
    }
    let machines = all(record, "machine");
    if !machines.is_empty() {
        text += &format!("; machine: {}", machines.join("; "));
    }
    text.push('.');
    if let Some(table) = record.table("experiments") {
        let numbers = |column: &str| table.rows.iter().filter_map(|row| table.number(row, column)).collect::<Vec<_>>();
        let (seeds, simulations) = (numbers("seeds"), numbers("simulations"));
        let (min, max) = seeds.iter().fold((f64::MAX, 0.0_f64), |(min, max), n| (min.min(*n), max.max(*n)));
        if !seeds.is_empty() {
            let range = if min == max { format!("{min}") } else { format!("{min} to {max}") };
            text += &format!(" Seeds of an experiment: {range}");
            let total: f64 = simulations.iter().sum();
            let shared = "simulations, some of them shared by experiments";
            text += &if total > 0.0 { format!("; {} {shared}.", thousands(total as u64)) } else { ".".to_string() };
        }
        if let Some(why) = data.staleness(name) {
            text += &format!(" **These data are older than the code: {why}.**");
        }
        let unknown = data.unknown(name);
        if !unknown.is_empty() {
            let all = unknown.len() == table.rows.len();
            let which = if all { "The rows".to_string() } else { format!("The rows of {}", unknown.join(", ")) };
            text += &format!(
                " {which} come from an earlier version of this page, with its rounded numbers. It did not record the \
                 state of the code: the study or the simulator may have changed since."
            );
        }
        let missing = data.missing(name);
        if !missing.is_empty() {
            text += &format!(" Not measured yet: {}.", missing.join(", "));
        }
    } else if record.imported {
        text += " The numbers come from an earlier version of this page.";
    }
    Ok(text)
}

/// The different texts of a property of the record or, in a study, of its experiments.
fn all(record: &Record, column: &str) -> Vec<String> {
    let own = match column {
        "version" => record.version.clone(),
        "commit" => record.commit.clone().unwrap_or_default(),
        _ => record.machine.clone(),
    };
    let table = record.table("experiments").filter(|table| table.column(column).is_some());
    let mut texts = match table {
        Some(table) => table.rows.iter().map(|row| table.text(row, column).to_string()).collect(),
        None => vec![own],
    };
    texts.retain(|text| !text.is_empty());
    texts.sort();
    texts.dedup();
    texts
}

/// The dates of a record: that of the record, or the first and the last one of its experiments.
fn dates(record: &Record) -> String {
    let table = record.table("experiments");
    let mut dates: Vec<&str> =
        table.into_iter().flat_map(|table| table.rows.iter().map(|row| table.text(row, "date"))).collect();
    dates.retain(|date| !date.is_empty());
    dates.sort_unstable();
    match (dates.first(), dates.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(only), _) => (*only).to_string(),
        _ => record.date.clone(),
    }
}

/// The heading of an experiment on the page of all rows.
fn heading(record: &Record, experiment: &str) -> String {
    let title = record.table("experiments").and_then(|experiments| {
        let row = experiments.rows.iter().find(|row| experiments.text(row, "experiment") == experiment)?;
        Some(experiments.text(row, "title"))
    });
    match title.filter(|title| !title.is_empty()) {
        Some(title) => format!("{experiment}: {title}"),
        None => experiment.to_string(),
    }
}

/// The anchor of an experiment on the page of all rows: its heading in lower case without punctuation, with hyphens for
/// spaces.
///
/// # Errors
/// One sentence if there is no such study.
pub fn anchor(data: &Data, name: &str, experiment: &str) -> Result<String, String> {
    let of_character = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c => c.is_alphanumeric().then_some(c),
    };
    Ok(heading(data.record(name)?, experiment).to_lowercase().chars().filter_map(of_character).collect())
}

/// The page with all rows of a study.
///
/// # Errors
/// One sentence if the study has no rows.
pub fn all_rows(data: &Data, name: &str) -> Result<String, String> {
    let record = data.record(name)?;
    let back = link(&rows_page(name), &format!("docs/results/{name}.md"));
    let verdicts = link(&rows_page(name), "docs/reference/cli.md");
    let table = data.table(name, "rows")?;
    let mut text = format!(
        "# All rows: {}\n\n<!-- Generated by `cargo run -p rnic-pages` from ../data/{name}.json; changes by hand are \
         lost. -->\n\n[The page of the study]({back}) explains the rows. {}\n\n{}\n\nIn a metric, \"A / B\" is a ratio, \
         \"A less B\" a difference, and \"no cc\" means without congestion control. `±` is half the width of the 95 % \
         confidence interval over the seeds. A row about the largest or smallest value of several cases names the case \
         in parentheses. [The reference]({verdicts}#verdicts) defines the verdicts.\n",
        record.title,
        provenance(data, name)?,
        summary(data, name)?
    );
    for (title, list) in [("Rows outside", outside(data, name)?), ("Inconclusive rows", inconclusive(data, name)?)] {
        text += &format!("\n## {title}\n\n{list}\n");
    }
    for experiment in experiments(table) {
        let title = heading(record, experiment);
        let body = table.rows.iter().filter(|row| table.text(row, "experiment") == experiment).map(|row| {
            let note = table.text(row, "note");
            let metric = table.text(row, "metric");
            let metric = if note.is_empty() { metric.to_string() } else { format!("{metric} ({note})") };
            vec![escaped(&metric), stated(table, row), measured(table, row), table.text(row, "outcome").to_string()]
        });
        let heads = ["metric", "stated in the paper", "measured", "verdict"].map(ToString::to_string);
        text += &format!("\n## {title}\n\n{}\n", lines(&heads, &[false; 4], body));
    }
    Ok(text)
}

/// The experiments of a table of rows, in its order.
fn experiments(table: &Table) -> Vec<&str> {
    let mut names = Vec::new();
    for row in &table.rows {
        let name = table.text(row, "experiment");
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_a_line_each_and_means_that_meet_their_claims_are_bold() {
        let text = r#"{"schema": 1, "title": "A paper", "command": "c", "date": "2026-01-02", "version": "0.1.0",
            "commit": null, "machine": "m", "values": {}, "tables": {"rows": {"columns":
            ["experiment", "metric", "claim", "unit", "mean"], "rows": [
            ["a", "g = 1: figure 4, FCT", {"between": [1.5, 2.2], "neutral": 1}, "ratio", 1.71],
            ["a", "g = 1: figure 4, slowdown", {"between": [1.5, 2.2], "neutral": 1}, "ratio", 1.2],
            ["a", "g = 1: figure 5, loss", {"at_most": 0.034}, "fraction", 0.02],
            ["b", "g = 3: figure 4, FCT", null, "ratio", 9],
            ["a", "g | 2: figure 5, loss", null, "fraction", 0.5],
            ["c", "FCT", null, "ratio", 1]]}}}"#;
        let mut data = Data::default();
        data.records.insert("irn".to_string(), Record::from_text(text).unwrap());
        let expected = "| variant | figure 4 | figure 5 |\n|---|---|---|\n\
                        | g = 1 | **1.71**, 1.20 | **2.00 %** |\n| g \\| 2 | | 50.0 % |";
        assert_eq!(variants(&data, "irn", "a").unwrap(), expected);
        assert!(variants(&data, "irn", "c").unwrap_err().contains("VARIANT: QUANTITY"));
        assert!(variants(&data, "irn", "d").is_err());
    }

    #[test]
    fn links_are_relative() {
        assert_eq!(link("README.md", "docs/results/irn.md"), "docs/results/irn.md");
        assert_eq!(link("docs/results/irn.md", "docs/results/rows/irn.md"), "rows/irn.md");
        assert_eq!(link("docs/results/rows/irn.md", "docs/reference/cli.md"), "../../reference/cli.md");
        assert_eq!(link("docs/results/irn.md", "docs/results/dcqcn.md"), "dcqcn.md");
    }
}
