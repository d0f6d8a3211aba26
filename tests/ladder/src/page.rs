//! The tables, as Markdown.

use crate::figures::{Figure, short};
use crate::kernel::{self, Outcome};
use crate::measure::{Contest, Measured};
use crate::programs::{ALL, Kernel};
use std::fmt::Write;

/// What a program of the ladder did.
#[derive(Clone, Debug)]
pub struct Row {
    /// The program.
    pub name: &'static str,
    /// Version of its package; `None` if it is not installed.
    pub version: Option<String>,
    /// What it did.
    pub result: Done,
}

/// The result of a program.
#[derive(Clone, Debug)]
pub enum Done {
    /// It ran; its figure, if it measures something, and a remark.
    Passed(Option<Figure>, String),
    /// It failed, or refused to run.
    Failed(String),
    /// It was not tried, for this reason.
    Skipped(String),
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '`'], " ")
}

/// Why a program does not run between the guests.
fn reason(name: &str) -> &'static str {
    let program = ALL.iter().find(|program| program.name == name);
    match program.map(|program| program.kernel) {
        Some(Kernel::No(why)) => why,
        _ => "the guests ended before",
    }
}

/// The table of programs.
pub fn programs(rows: &[Row], kernel: &Result<Vec<kernel::Row>, String>) -> String {
    let mut out = String::from(
        "| program | version | result | bandwidth | latency | between guests with rdma_rxe |\n|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let version = row.version.clone().unwrap_or_else(|| "not installed".into());
        let (result, figure) = match &row.result {
            Done::Passed(figure, remark) if remark.is_empty() => ("passed".to_string(), *figure),
            Done::Passed(figure, remark) => (format!("passed: {}", cell(remark)), *figure),
            Done::Failed(why) => (format!("**failed**: {}", cell(why)), None),
            Done::Skipped(why) => (format!("skipped: {}", cell(why)), None),
        };
        let bandwidth = figure.filter(|figure| matches!(figure, Figure::Bandwidth(_)));
        let latency = figure.filter(|figure| matches!(figure, Figure::Latency(_)));
        let show = |figure: Option<Figure>| figure.map_or(String::new(), |figure| figure.to_string());
        let guests = match kernel {
            Ok(rows) => match rows.iter().find(|other| other.name == row.name).map(|other| &other.result) {
                Some(Outcome::Passed(Some(figure), _)) => figure.to_string(),
                Some(Outcome::Passed(None, remark)) if remark.is_empty() => "passed".to_string(),
                Some(Outcome::Passed(None, remark)) => format!("passed: {}", cell(remark)),
                Some(Outcome::Failed(why)) => format!("failed: {}", cell(why)),
                Some(Outcome::NotRun(why)) => format!("not run: {}", cell(why)),
                None => format!("not run: {}", cell(reason(row.name))),
            },
            Err(_) => String::new(),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {result} | {} | {} | {guests} |",
            cell(row.name),
            cell(&version),
            show(bandwidth),
            show(latency)
        );
    }
    if let Err(why) = kernel {
        let _ = writeln!(out, "\nThe column of the kernel is empty: {}.", cell(why));
    }
    out
}

/// The table of a contest.
pub fn contest(contest: &Contest, measured: &[Measured]) -> String {
    let mut out = format!("| {} | median | least to most | of the first row |\n|---|---|---|---|\n", contest.title);
    let first = measured.first().and_then(Measured::median);
    for one in measured {
        let line = match (&one.figures, one.median()) {
            (Ok(figures), Some(median)) => {
                let values = || figures.iter().map(|figure| figure.value());
                let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
                let ratio = first.map_or(String::new(), |first| short(median.value() / first.value()));
                format!("{median} | {} to {} | {ratio}", short(least), short(most))
            }
            (Err(why), _) => format!("failed: {} | |", cell(why)),
            _ => "| |".to_string(),
        };
        let _ = writeln!(out, "| {} | {line} |", one.name);
    }
    out
}

/// Replaces the text between the marks of a page.
///
/// # Errors
/// If the page has no marks.
pub fn replace(page: &str, text: &str) -> Result<String, String> {
    const MARKS: [&str; 2] = ["<!-- ladder: begin -->\n", "<!-- ladder: end -->"];
    let missing = || format!("the page has no lines `{}` and `{}`", MARKS[0].trim(), MARKS[1]);
    let begin = page.find(MARKS[0]).ok_or_else(missing)? + MARKS[0].len();
    let end = page.find(MARKS[1]).filter(|end| *end >= begin).ok_or_else(missing)?;
    Ok(format!("{}\n{}\n\n{}", &page[..begin], text.trim(), &page[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_a_line_for_each_program() {
        let row = |name, result| Row { name, version: Some("1.0".into()), result };
        let rows = [
            row("a", Done::Passed(Some(Figure::Latency(5.0)), String::new())),
            row("b", Done::Failed("x | y".into())),
            Row { name: "c", version: None, result: Done::Skipped("not there".into()) },
        ];
        let guest = |name, result| kernel::Row { name, result };
        let guests = Ok(vec![
            guest("a", Outcome::Passed(Some(Figure::Latency(100.0)), String::new())),
            guest("b", Outcome::NotRun("not compiled".into())),
        ]);
        let text = programs(&rows, &guests);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| a | 1.0 | passed |  | 5.00 us | 100 us |",
                "| b | 1.0 | **failed**: x \\| y |  |  | not run: not compiled |",
                "| c | not installed | skipped: not there |  |  | not run: the guests ended before |",
            ]
        );
    }

    #[test]
    fn only_the_text_between_the_marks_changes() {
        let page = "# A\n<!-- ladder: begin -->\nold\n<!-- ladder: end -->\nB\n";
        let expected = "# A\n<!-- ladder: begin -->\n\nnew\n\n<!-- ladder: end -->\nB\n";
        assert_eq!(replace(page, "new").as_deref(), Ok(expected));
        assert_eq!(replace(expected, "new").as_deref(), Ok(expected));
        assert!(replace("# A\n", "new").is_err());
    }
}
