//! The static HTML of a board, which is a legend with the figures that share it: the legend, the frames of the figures,
//! and tables of their values.

use super::figure::{Board, Figure, Unit};
use super::html::{escape, inline, row, table};
use std::fmt::Write;

/// Number of colours that the style sheet defines (`--c0` ...).
const COLOURS: usize = 8;
/// Maximum number of series for a legend that stays visible while scrolling.
const STICKY: usize = 6;
/// Maximum number of rows that a table of values has for one curve.
const ROWS: usize = 12;

/// The HTML frame of a board (figures with a shared legend), in which the page's script draws the figures. `number` is
/// the index of the board in the page's JSON data. `numbers` adds a table of values to each figure, for pages that show
/// these values nowhere else.
pub(super) fn frame(number: usize, board: &Board, numbers: bool) -> String {
    let mut html = format!("<div class=\"board\" data-board=\"{number}\">\n{}", legend(board));
    let mut index = 0;
    for figures in &board.rows {
        let columns = figures.len().clamp(1, 4);
        let _ = writeln!(html, "<div class=\"row of{columns}\">");
        for figure in figures {
            let table = if numbers { numbers_of(board, figure) } else { String::new() };
            let _ = writeln!(
                html,
                "<figure data-figure=\"{index}\"><figcaption><strong>{}</strong><span>{}</span></figcaption>\
                 <div class=\"plot\"></div>{table}</figure>",
                escape(figure.title()),
                inline(figure.caption()),
            );
            index += 1;
        }
        html += "</div>\n";
    }
    html + "</div>\n"
}

/// The legend of a board. Each series has a button, which shows or hides the series in all figures of the board.
fn legend(board: &Board) -> String {
    let items: String = board
        .series
        .iter()
        .enumerate()
        .map(|(index, name)| {
            format!(
                "<button type=\"button\" aria-pressed=\"true\" data-series=\"{index}\"><i style=\"background:\
                 var(--c{})\"></i>{}</button>",
                index % COLOURS,
                escape(name)
            )
        })
        .collect();
    let sticky = if board.series.len() <= STICKY { " sticky" } else { "" };
    format!("<div class=\"legend{sticky}\" role=\"group\" aria-label=\"Show or hide\">{items}</div>\n")
}

fn numbers_of(board: &Board, figure: &Figure) -> String {
    let name = |series: usize| board.series.get(series).map_or("", String::as_str);
    let (head, rows) = match figure {
        Figure::Bars(bars) => {
            let mut rows = Vec::new();
            for group in &bars.groups {
                for bar in &group.bars {
                    let title = if bar.name.is_empty() { name(bar.series) } else { &bar.name };
                    let title = [group.name.as_str(), title].into_iter().filter(|t| !t.is_empty());
                    rows.push(row(
                        &escape(&title.collect::<Vec<_>>().join(": ")),
                        &[value(bars.unit, bar.value), range(bars.unit, bar.interval), range(bars.unit, group.stated)],
                    ));
                }
            }
            (["", "Value", "Interval", "Stated"].map(String::from).to_vec(), rows)
        }
        Figure::Spans(spans) => {
            let of = |wanted: &super::figure::SpanRow| wanted.spans.iter().map(|span| span.to - span.from).sum::<f64>();
            let rows = spans.rows.iter().map(|line| row(&escape(&line.name), &[value(spans.x.unit, Some(of(line)))]));
            (["", "Total"].map(String::from).to_vec(), rows.collect())
        }
        Figure::Lines(lines) => {
            let mut rows = Vec::new();
            for view in &lines.views {
                for line in &view.lines {
                    let step = line.points.len().div_ceil(ROWS).max(1);
                    let last = line.points.len().saturating_sub(1);
                    let kept = line.points.iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last);
                    for (_, point) in kept {
                        let title = [name(line.series), &view.name].into_iter().filter(|t| !t.is_empty());
                        rows.push(row(
                            &escape(&title.collect::<Vec<_>>().join(", ")),
                            &[
                                value(lines.x.unit, Some(point.x)),
                                value(lines.y.unit, Some(point.y)),
                                range(lines.y.unit, point.interval),
                            ],
                        ));
                    }
                }
            }
            (["", &lines.x.name, &lines.y.name, "Interval"].map(escape).to_vec(), rows)
        }
    };
    format!(
        "<details class=\"numbers\"><summary>Numbers</summary>\n{}</details>",
        table("numbers", figure.title(), &head, &rows)
    )
}

fn value(unit: Unit, value: Option<f64>) -> String {
    match value.filter(|v| v.is_finite()) {
        Some(v) => format!("<span data-tip=\"{}\">{}</span>", unit.exact(v), unit.text(v)),
        None => "&ndash;".to_string(),
    }
}

fn range(unit: Unit, range: Option<[f64; 2]>) -> String {
    match range {
        Some([low, high]) if low == high => unit.text(low),
        Some([low, high]) => format!("{} &ndash; {}", unit.text(low), unit.text(high)),
        None => "&ndash;".to_string(),
    }
}
