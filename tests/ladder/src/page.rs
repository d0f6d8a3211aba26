//! The tables of results, as data of a record.

use crate::figures::Figure;
use crate::kernel::{self, Outcome};
use crate::measure::{Contest, Measured};
use crate::programs::{ALL, Kernel};
use rnic_record::{Column, Table, cells};
use serde_json::{Value, json};

/// The result of one program of the ladder.
#[derive(Clone, Debug)]
pub struct Row {
    /// The program.
    pub name: &'static str,
    /// Version of its package; `None` if it is not installed.
    pub version: Option<String>,
    /// The result of the program.
    pub result: Done,
}

/// The result of a program.
#[derive(Clone, Debug)]
pub enum Done {
    /// The program ran: the figure, if it measures one, and a remark.
    Passed(Option<Figure>, String),
    /// The program failed, or refused to run.
    Failed(String),
    /// The program was not run, for this reason.
    Skipped(String),
}

/// The text as one line for a table cell, without characters that would begin code.
fn plain(text: &str) -> String {
    text.replace(['\n', '`'], " ")
}

/// The reason why a program does not run between the guests.
fn reason(name: &str) -> &'static str {
    let program = ALL.iter().find(|program| program.name == name);
    match program.map(|program| program.kernel) {
        Some(Kernel::No(why)) => why,
        _ => "the guests ended before",
    }
}

/// The table of programs.
pub fn programs(rows: &[Row], kernel: &Result<Vec<kernel::Row>, String>) -> Table {
    let mut table = Table::new(vec![
        Column::new("program"),
        Column::new("version"),
        Column::new("result"),
        Column::new("bandwidth").digits(3).suffix(" Gbit/s"),
        Column::new("latency").digits(3).suffix(" us"),
        Column::new("between guests with rdma_rxe"),
    ]);
    for row in rows {
        let version = row.version.clone().unwrap_or_else(|| "not installed".into());
        let (result, figure) = match &row.result {
            Done::Passed(figure, remark) if remark.is_empty() => ("passed".to_string(), *figure),
            Done::Passed(figure, remark) => (format!("passed: {}", plain(remark)), *figure),
            Done::Failed(why) => (format!("**failed**: {}", plain(why)), None),
            Done::Skipped(why) => (format!("skipped: {}", plain(why)), None),
        };
        let bandwidth = figure.filter(|figure| matches!(figure, Figure::Bandwidth(_)));
        let latency = figure.filter(|figure| matches!(figure, Figure::Latency(_)));
        let number = |figure: Option<Figure>| figure.map_or(Value::Null, |figure| cells(&[figure.value()]));
        let guests = match kernel {
            Ok(rows) => json!(match rows.iter().find(|other| other.name == row.name).map(|other| &other.result) {
                Some(Outcome::Passed(Some(figure), _)) => figure.to_string(),
                Some(Outcome::Passed(None, remark)) if remark.is_empty() => "passed".to_string(),
                Some(Outcome::Passed(None, remark)) => format!("passed: {}", plain(remark)),
                Some(Outcome::Failed(why)) => format!("failed: {}", plain(why)),
                Some(Outcome::NotRun(why)) => format!("not run: {}", plain(why)),
                None => format!("not run: {}", plain(reason(row.name))),
            }),
            Err(_) => Value::Null,
        };
        table.rows.push(vec![
            json!(plain(row.name)),
            json!(plain(&version)),
            json!(result),
            number(bandwidth),
            number(latency),
            guests,
        ]);
    }
    table
}

/// The table of one comparison.
pub fn contest(contest: &Contest, measured: &[Measured]) -> Table {
    let first = measured.first().and_then(Measured::median);
    let unit = if matches!(first, Some(Figure::Latency(_))) { " us" } else { " Gbit/s" };
    let mut table = Table::new(vec![
        Column::new(contest.title),
        Column::new("median").digits(3).suffix(unit),
        Column::new("min to max").digits(3),
        Column::new("of the first row").digits(3),
    ]);
    for one in measured {
        let mut row = vec![json!(one.name)];
        row.extend(match (&one.figures, one.median()) {
            (Ok(figures), Some(median)) => {
                let values = || figures.iter().map(|figure| figure.value());
                let (min, max) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
                let ratio = first.map_or(Value::Null, |first| cells(&[median.value() / first.value()]));
                vec![cells(&[median.value()]), cells(&[min, max]), ratio]
            }
            (Err(why), _) => vec![json!(format!("failed: {}", plain(why))), Value::Null, Value::Null],
            _ => vec![Value::Null; 3],
        });
        table.rows.push(row);
    }
    table
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
        let text = rnic_pages::table::markdown(&programs(&rows, &guests));
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| a | 1.0 | passed | | 5.00 us | 100 us |",
                "| b | 1.0 | **failed**: x \\| y | | | not run: not compiled |",
                "| c | not installed | skipped: not there | | | not run: the guests ended before |",
            ]
        );
    }

    #[test]
    fn a_contest_has_the_ratio_to_its_first_row() {
        let of = |values: &[f64]| Ok(values.iter().map(|value| Figure::Latency(*value)).collect());
        let measured = [
            Measured { name: "a", figures: of(&[2.0, 4.0, 3.0]) },
            Measured { name: "b", figures: of(&[6.0]) },
            Measured { name: "c", figures: Err("no".into()) },
        ];
        let text =
            rnic_pages::table::markdown(&contest(&Contest { name: "n", title: "t", contenders: &[] }, &measured));
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let expected =
            ["| a | 3.00 us | 2.00 to 4.00 | 1.00 |", "| b | 6.00 us | 6.00 | 2.00 |", "| c | failed: no | | |"];
        assert_eq!(lines, expected);
    }
}
