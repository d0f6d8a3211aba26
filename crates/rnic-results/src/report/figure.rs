//! Figures as plain data, without any drawing code.
//!
//! A [`Board`] is a legend and the figures that share it. Rust decides what a figure shows and writes it as JSON
//! (`to_json`); the scripts of the crate `rnic-web` draw it. Reports of scenarios and reports of studies both draw
//! their figures this way.

use super::super::text::{self, round6};
use serde_json::{Value, json};

/// A legend and the figures that share it. Hiding a series in the legend hides it in all of these figures.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Board {
    /// Names of the series in the legend. Bars and curves refer to a series by its index here, which also determines
    /// their colour.
    pub series: Vec<String>,
    /// Number of series that are visible when the page loads, counted from the first series; 0 for all.
    pub shown: usize,
    /// Rows of figures from top to bottom. The figures of one row stand side by side if the page is wide enough.
    pub rows: Vec<Vec<Figure>>,
}

/// A figure of one of three kinds.
#[derive(Clone, PartialEq, Debug)]
pub enum Figure {
    /// A bar chart.
    Bars(Bars),
    /// Curves on two numeric axes.
    Lines(Lines),
    /// Intervals of time as horizontal bars, in rows.
    Spans(Spans),
}

/// A figure of vertical bars in groups. The bars start at zero, or at the lower end of a logarithmic axis, which the
/// page chooses if the largest value is many times the smallest.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bars {
    /// Heading of the figure.
    pub title: String,
    /// Line of text below the heading, for example `lower is better`.
    pub caption: String,
    /// Unit of the values of all bars.
    pub unit: Unit,
    /// Groups of bars from left to right.
    pub groups: Vec<BarGroup>,
    /// A value to compare the bars with, drawn as a horizontal line.
    pub reference: Option<Reference>,
}

/// Bars that stand next to each other in a [`Bars`] figure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BarGroup {
    /// Label of the group below the axis; may be empty.
    pub name: String,
    /// Bars from left to right.
    pub bars: Vec<Bar>,
    /// Minimum and maximum value that a paper states for the group, drawn as a band behind the bars.
    pub stated: Option<[f64; 2]>,
}

/// One bar of a [`Bars`] figure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bar {
    /// Series to which the bar belongs: index into [`Board::series`].
    pub series: usize,
    /// Name in the bar's tooltip; if empty, the tooltip shows the name of the series.
    pub name: String,
    /// Value of the bar. `None` means that no result exists, and is drawn as a cross on the axis.
    pub value: Option<f64>,
    /// Ends of the bar's whisker, for example of a 95 % confidence interval.
    pub interval: Option<[f64; 2]>,
    /// One more line in the bar's tooltip; may be empty.
    pub note: String,
}

/// A figure of curves on two numeric axes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Lines {
    /// Heading of the figure.
    pub title: String,
    /// Line of text below the heading.
    pub caption: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Whether a dot marks each point.
    pub dots: bool,
    /// Whether a vertical line leads from each point with a note to the horizontal axis, if few curves are visible.
    pub drops: bool,
    /// Views of the figure, all on the same axes. Readers of the page select the view that is visible. A figure with a
    /// single view has no selection.
    pub views: Vec<View>,
    /// Index of the view that is visible when the page loads.
    pub first: usize,
    /// A value of `y` to compare the curves with, drawn as a horizontal line.
    pub reference: Option<Reference>,
    /// Minimum and maximum of `y` that a paper states, drawn as a horizontal band.
    pub stated: Option<[f64; 2]>,
    /// Minimum ranges of the horizontal and the vertical axis, so that several figures can have the same axes. The axes
    /// are longer if points lie outside these ranges.
    pub reach: Option<[[f64; 2]; 2]>,
}

/// A figure of intervals of time in rows, for example of the pauses of each port.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Spans {
    /// Heading of the figure.
    pub title: String,
    /// Line of text below the heading.
    pub caption: String,
    /// Horizontal axis: time.
    pub x: Axis,
    /// Minimum range of the horizontal axis. The axis is longer if spans or marks lie outside this range.
    pub reach: [f64; 2],
    /// Rows from top to bottom.
    pub rows: Vec<SpanRow>,
    /// Instants that a vertical line marks, with their names.
    pub marks: Vec<Reference>,
}

/// A row of a [`Spans`] figure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SpanRow {
    /// Name of the row.
    pub name: String,
    /// If the row shows a root (a cause of pauses), the series of this root. Such rows are thinner than the others.
    /// `None` for a row that shows no root.
    pub root: Option<usize>,
    /// Intervals of the row in order of time.
    pub spans: Vec<Span>,
}

/// An interval of time in a [`SpanRow`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Span {
    /// Series to which the interval belongs, which determines its colour: index into [`Board::series`].
    pub series: usize,
    /// Start of the interval, in the unit of the horizontal axis.
    pub from: f64,
    /// End of the interval, in the unit of the horizontal axis.
    pub to: f64,
}

/// One axis of a figure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Axis {
    /// Title of the axis.
    pub name: String,
    /// Unit of the values on the axis.
    pub unit: Unit,
    /// How values are mapped to positions on the axis: linear, logarithmic, ...
    pub scale: Scale,
}

/// A view of a [`Lines`] figure: the curves that are visible together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct View {
    /// Name of the view in the control with which readers select a view; empty for a single view.
    pub name: String,
    /// The curves of the view.
    pub lines: Vec<Line>,
}

/// One curve of a [`Lines`] figure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Line {
    /// Series to which the curve belongs: index into [`Board::series`].
    pub series: usize,
    /// Points in the order in which the curve connects them.
    pub points: Vec<Point>,
}

/// One point of a curve.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Point {
    /// Value on the horizontal axis.
    pub x: f64,
    /// Value on the vertical axis.
    pub y: f64,
    /// Ends of the band around the curve at this `x`, for example of a confidence interval.
    pub interval: Option<[f64; 2]>,
    /// One more line in the point's tooltip; may be empty.
    pub note: String,
}

impl Point {
    /// A point that has neither a band nor a note.
    pub fn at(x: f64, y: f64) -> Point {
        Point { x, y, ..Point::default() }
    }
}

/// A value for comparison or an instant, drawn as a named line across the figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Reference {
    /// The value or instant, in the unit of the axis on which it lies.
    pub value: f64,
    /// Name of the line.
    pub name: String,
}

/// Units of the values in a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unit {
    /// No unit, as for a count or a slowdown.
    #[default]
    Number,
    /// Microseconds. The text of a value uses ns, µs, ms or s, whichever suits its magnitude.
    Time,
    /// Bytes. The text of a value uses B, KB, MB or GB, whichever suits its magnitude.
    Bytes,
    /// Percent: the value 8.5 is shown as 8.5 %.
    Percent,
    /// A ratio: the value 1.5 is shown as 1.5×.
    Factor,
}

/// How values are mapped to positions on an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scale {
    /// Logarithmic if the largest value is at least five times the smallest, else linear.
    #[default]
    Auto,
    /// Linear over the range of the values. If there are few values, each value has a tick.
    Linear,
    /// Linear, from the smallest to the largest value, for time.
    Range,
    /// Linear, with an axis that starts at zero.
    Zero,
    /// Logarithmic. All values must be positive.
    Log,
    /// For percentiles: logarithmic in the distance from 100, so that 90, 99 and 99.9 are equidistant.
    Nines,
}

impl Unit {
    pub(super) fn key(self) -> &'static str {
        match self {
            Unit::Number => "number",
            Unit::Time => "time",
            Unit::Bytes => "bytes",
            Unit::Percent => "percent",
            Unit::Factor => "factor",
        }
    }

    /// The value as text with three digits and its unit, for labels.
    pub fn text(self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => "\u{2013}".to_string(),
            Unit::Number => text::three_digits(value),
            Unit::Time => super::html::time(value),
            Unit::Bytes => bytes(value),
            Unit::Percent => format!("{} %", text::three_digits(value)),
            Unit::Factor => format!("{}\u{d7}", text::three_digits(value)),
        }
    }

    /// The value as text for an axis: at most six significant digits and a unit that suits its magnitude.
    pub(super) fn axis_label(self, value: f64) -> String {
        match self {
            Unit::Time | Unit::Bytes if value == 0.0 => "0".to_string(),
            Unit::Number => grouped(value),
            Unit::Time => scaled(value, &[(1e6, "s"), (1e3, "ms"), (1.0, "\u{b5}s"), (1e-3, "ns")]),
            Unit::Bytes => scaled(value, &[(1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")]),
            Unit::Percent => format!("{}\u{a0}%", grouped(value)),
            Unit::Factor => format!("{}\u{d7}", grouped(value)),
        }
    }

    /// The value as text with six digits and its unit, for tooltips.
    pub fn exact(self, value: f64) -> String {
        let unit = match self {
            Unit::Number => "",
            Unit::Time => " \u{b5}s",
            Unit::Bytes => " B",
            Unit::Percent => " %",
            Unit::Factor => "\u{d7}",
        };
        format!("{}{unit}", round6(value))
    }
}

/// The value with at most six significant digits, in the largest unit of which it is at least 1, otherwise in the last.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let size = round6(value.abs());
    let unit = units.iter().find(|(factor, _)| size >= *factor).or(units.last());
    unit.map_or(String::new(), |(factor, unit)| format!("{}\u{a0}{unit}", grouped(value / factor)))
}

/// The value with at most six significant digits and thousands separators.
fn grouped(value: f64) -> String {
    let text = round6(value).abs().to_string();
    let (integer, fraction) = text.split_once('.').map_or((text.as_str(), None), |(i, f)| (i, Some(f)));
    let integer = integer.parse().map_or_else(|_| integer.to_string(), text::count);
    let sign = if value < 0.0 { "-" } else { "" };
    fraction.map_or_else(|| format!("{sign}{integer}"), |fraction| format!("{sign}{integer}.{fraction}"))
}

fn bytes(value: f64) -> String {
    let (scale, unit) = [(1e9, "GB"), (1e6, "MB"), (1e3, "KB")]
        .into_iter()
        .find(|(scale, _)| value >= scale * 0.9995)
        .unwrap_or((1.0, "B"));
    let text = text::three_digits(value / scale);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text };
    format!("{text} {unit}")
}

impl Scale {
    pub(super) fn key(self) -> &'static str {
        match self {
            Scale::Auto => "auto",
            Scale::Linear => "linear",
            Scale::Range => "range",
            Scale::Zero => "zero",
            Scale::Log => "log",
            Scale::Nines => "nines",
        }
    }
}

impl Board {
    /// All figures of the board, from the first row to the last.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.rows.iter().flatten()
    }

    /// The board as JSON for the page's script. Values have six significant digits, as in `summary.json`.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "series": self.series,
            "shown": if self.shown == 0 { self.series.len() } else { self.shown },
            "figures": self.figures().map(Figure::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Figure {
    /// The heading of the figure, of whichever kind it is.
    pub fn title(&self) -> &str {
        match self {
            Figure::Bars(bars) => &bars.title,
            Figure::Lines(lines) => &lines.title,
            Figure::Spans(spans) => &spans.title,
        }
    }

    /// The line of text below the figure's heading.
    pub fn caption(&self) -> &str {
        match self {
            Figure::Bars(bars) => &bars.caption,
            Figure::Lines(lines) => &lines.caption,
            Figure::Spans(spans) => &spans.caption,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Figure::Bars(bars) => json!({
                "kind": "bars",
                "title": bars.title,
                "unit": bars.unit.key(),
                "reference": reference(&bars.reference),
                "groups": bars.groups.iter().map(|group| json!({
                    "name": group.name,
                    "stated": range(group.stated),
                    "bars": group.bars.iter().map(bar).collect::<Vec<_>>(),
                })).collect::<Vec<_>>(),
            }),
            Figure::Spans(spans) => json!({
                "kind": "spans",
                "title": spans.title,
                "x": axis(&spans.x),
                "reach": spans.reach.map(round6),
                "rows": spans.rows.iter().map(|row| json!({
                    "name": row.name,
                    "root": row.root,
                    "spans": row.spans.iter().map(|span| json!([span.series, round6(span.from), round6(span.to)])).collect::<Vec<_>>(),
                })).collect::<Vec<_>>(),
                "marks": spans.marks.iter().map(|mark| json!({"value": round6(mark.value), "name": mark.name})).collect::<Vec<_>>(),
            }),
            Figure::Lines(lines) => json!({
                "kind": "lines",
                "title": lines.title,
                "x": axis(&lines.x),
                "y": axis(&lines.y),
                "dots": lines.dots,
                "first": lines.first,
                "drops": lines.drops,
                "reference": reference(&lines.reference),
                "stated": range(lines.stated),
                "reach": lines.reach.map(|axes| axes.map(|ends| ends.map(round6))),
                "views": lines.views.iter().map(|view| json!({
                    "name": view.name,
                    "lines": view.lines.iter().map(|line| json!({
                        "series": line.series,
                        "points": line.points.iter().map(point).collect::<Vec<_>>(),
                    })).collect::<Vec<_>>(),
                })).collect::<Vec<_>>(),
            }),
        }
    }
}

fn bar(bar: &Bar) -> Value {
    json!({
        "series": bar.series,
        "name": bar.name,
        "value": bar.value.map(round6),
        "interval": range(bar.interval),
        "note": bar.note,
    })
}

/// A point as JSON: `[x, y]`, or `[x, y, [low, high] or null, note]` for a point with a band or a note.
fn point(point: &Point) -> Value {
    let (x, y) = (round6(point.x), round6(point.y));
    match (point.interval, point.note.as_str()) {
        (None, "") => json!([x, y]),
        (interval, note) => json!([x, y, range(interval), note]),
    }
}

fn range(range: Option<[f64; 2]>) -> Value {
    json!(range.map(|ends| ends.map(round6)))
}

fn axis(axis: &Axis) -> Value {
    json!({"name": axis.name, "unit": axis.unit.key(), "scale": axis.scale.key()})
}

fn reference(reference: &Option<Reference>) -> Value {
    json!(reference.as_ref().map(|r| json!({"value": round6(r.value), "name": r.name})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_as_short_as_they_can_be() {
        assert_eq!(point(&Point::at(1.0, 1.0 / 3.0)), json!([1.0, 0.333333]));
        let full = Point { interval: Some([0.25, 0.5]), note: "five seeds".into(), ..Point::at(1.0, 0.4) };
        assert_eq!(point(&full), json!([1.0, 0.4, [0.25, 0.5], "five seeds"]));
    }

    #[test]
    fn values_that_are_not_finite_are_null() {
        let none = Bar { value: Some(f64::NAN), ..Bar::default() };
        assert_eq!(bar(&none)["value"], Value::Null);
        assert_eq!(point(&Point::at(f64::INFINITY, 1.0)), json!([null, 1.0]));
    }

    #[test]
    fn numbers_with_units() {
        assert_eq!(Unit::Time.text(1_234.0), "1.23 ms");
        assert_eq!(Unit::Time.exact(1_234.0), "1234 \u{b5}s");
        assert_eq!(Unit::Factor.text(1.5), "1.50\u{d7}");
        assert_eq!(
            [Unit::Bytes.text(1_000.0), Unit::Bytes.text(150e6), Unit::Bytes.text(7.0)],
            ["1 KB", "150 MB", "7 B"]
        );
        assert_eq!(Unit::Number.text(f64::NAN), "\u{2013}");
    }
}
