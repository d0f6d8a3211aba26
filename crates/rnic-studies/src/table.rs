//! The verdicts of a study as a table on the terminal.

use super::verdict::{Outcome, Verdict};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width};

const RULE: LineStyle = LineStyle { left: None, fill: Some('─'), junction: Some('─'), right: None };
const STYLE: TableStyle = TableStyle::new().top_border(RULE).header_separator(RULE).bottom_border(RULE);

/// The verdicts as plain text with lines of at most `width` characters; a `width` below 80 counts as 80. The text is a
/// table with a row per claim, followed by the number of claims per outcome.
pub fn table(verdicts: &[Verdict], width: usize) -> String {
    let mut table = Table::new();
    let width = width.clamp(80, usize::from(u16::MAX));
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_width(width as u16).force_no_tty();
    table.set_header(["experiment", "metric", "stated in the paper", "measured", "verdict"]);
    let mut last = "";
    for verdict in verdicts {
        let name = if verdict.experiment == last { "" } else { &verdict.experiment };
        last = &verdict.experiment;
        let metric = &verdict.row.metric;
        let note = &verdict.row.note;
        let metric = if note.is_empty() { metric.clone() } else { format!("{metric} ({note})") };
        let measured = Cell::new(verdict.measured()).set_alignment(CellAlignment::Right);
        let cells = [Cell::new(name), Cell::new(metric), Cell::new(&verdict.row.stated)];
        table.add_row(cells.into_iter().chain([measured, Cell::new(verdict.outcome.text())]));
    }
    let widths = table.column_max_content_widths();
    for (index, (column, width)) in table.column_iter_mut().zip(widths).enumerate() {
        column.set_padding((0, 1));
        // The columns of names and of measured numbers do not wrap.
        if [0, 3].contains(&index) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width + 1)));
        }
    }
    format!("{}\n{}\n", table.trim_fmt(), tally(verdicts))
}

/// A sentence that counts the claims per outcome, for example how many measurements are inside their claims.
pub fn tally(verdicts: &[Verdict]) -> String {
    let count = |wanted: fn(Outcome) -> bool| verdicts.iter().filter(|v| wanted(v.outcome)).count();
    format!(
        "{} inside, {} outside ({} of these in the same direction), {} inconclusive, {} without a stated number, \
         {} without a result",
        count(|o| o == Outcome::Inside),
        count(Outcome::is_outside),
        count(|o| matches!(o, Outcome::Smaller | Outcome::Larger)),
        count(Outcome::is_inconclusive),
        count(|o| o == Outcome::NotStated),
        count(|o| o == Outcome::NoResult),
    )
}
