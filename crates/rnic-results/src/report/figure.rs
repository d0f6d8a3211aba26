//! Figures as plain data: what the page's script draws, and nothing about how.
//!
//! A [`Board`] is a legend and the figures that share it. Rust says what is shown (`to_json`), `script.js` draws it; the
//! run report and the study have no other way to draw.

use super::super::text::{self, round6};
use serde_json::{Value, json};

/// Figures that share a legend. A reader can hide each of its series in all of them at once.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Board {
    /// Names in the legend; bars and lines refer to them by index, which also picks the colour.
    pub series: Vec<String>,
    /// How many of them, from the first, are visible at first; 0: all.
    pub shown: usize,
    /// Rows of figures: those of one row stand side by side where the page is wide enough.
    pub rows: Vec<Vec<Figure>>,
}

/// One figure.
#[derive(Clone, PartialEq, Debug)]
pub enum Figure {
    /// Values side by side.
    Bars(Bars),
    /// Curves over a numeric axis.
    Lines(Lines),
    /// Stretches of time, in rows.
    Spans(Spans),
}

/// Vertical bars from zero, in groups.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bars {
    /// Heading.
    pub title: String,
    /// A line below it, for example `lower is better`.
    pub caption: String,
    /// Of every value.
    pub unit: Unit,
    /// From left to right.
    pub groups: Vec<BarGroup>,
    /// A value to compare with, drawn across.
    pub reference: Option<Reference>,
}

/// Bars next to each other.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BarGroup {
    /// Below the axis; may be empty.
    pub name: String,
    /// From left to right.
    pub bars: Vec<Bar>,
    /// Smallest and largest value that a source states for the group, drawn as a band behind the bars.
    pub stated: Option<[f64; 2]>,
}

/// One bar.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bar {
    /// Index into [`Board::series`].
    pub series: usize,
    /// In the tooltip instead of the series' name; empty: that name.
    pub name: String,
    /// `None` is a cross on the axis: there is no result.
    pub value: Option<f64>,
    /// Ends of the whisker, for example of a 95 % confidence interval.
    pub interval: Option<[f64; 2]>,
    /// One more line of the tooltip; may be empty.
    pub note: String,
}

/// Curves.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Lines {
    /// Heading.
    pub title: String,
    /// A line below it.
    pub caption: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Whether each point has a dot.
    pub dots: bool,
    /// What a reader chooses from, all on the same axes; one view needs no choice.
    pub views: Vec<View>,
    /// Number of the view to begin with.
    pub first: usize,
    /// A value of `y` to compare with, drawn across.
    pub reference: Option<Reference>,
    /// Smallest and largest value of `y` that a source states, drawn as a band across.
    pub stated: Option<[f64; 2]>,
}

/// Stretches of time: a row for each thing that they are of.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Spans {
    /// Heading.
    pub title: String,
    /// A line below it.
    pub caption: String,
    /// Horizontal axis: time.
    pub x: Axis,
    /// Where it begins and ends at least.
    pub reach: [f64; 2],
    /// From top to bottom.
    pub rows: Vec<SpanRow>,
    /// Instants to mark, drawn from top to bottom.
    pub marks: Vec<Reference>,
}

/// A row of [`Spans`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SpanRow {
    /// What it is of.
    pub name: String,
    /// The series whose root it is, if it is one: drawn apart.
    pub root: Option<usize>,
    /// In order of time.
    pub spans: Vec<Span>,
}

/// A stretch of time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Span {
    /// Index into [`Board::series`].
    pub series: usize,
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
}

/// One axis.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Axis {
    /// Its title.
    pub name: String,
    /// Of its values.
    pub unit: Unit,
    /// How values become places.
    pub scale: Scale,
}

/// One choice of a [`Lines`] figure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct View {
    /// What the choice is called; empty where there is only one.
    pub name: String,
    /// Its curves.
    pub lines: Vec<Line>,
}

/// One curve.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Line {
    /// Index into [`Board::series`].
    pub series: usize,
    /// In the order in which they are joined.
    pub points: Vec<Point>,
}

/// One point of a curve.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Point {
    /// Place on the horizontal axis.
    pub x: f64,
    /// Place on the vertical axis.
    pub y: f64,
    /// Where the curve's band begins and ends at this `x`.
    pub interval: Option<[f64; 2]>,
    /// One more line of the tooltip; may be empty.
    pub note: String,
}

impl Point {
    /// A point without band and note.
    pub fn at(x: f64, y: f64) -> Point {
        Point { x, y, ..Point::default() }
    }
}

/// A value with a name.
#[derive(Clone, PartialEq, Debug)]
pub struct Reference {
    /// Where.
    pub value: f64,
    /// What.
    pub name: String,
}

/// What numbers are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unit {
    /// Nothing: a count or a slowdown.
    #[default]
    Number,
    /// Microseconds, shown as ns, µs, ms or s.
    Time,
    /// Bytes, shown as B, KB, MB or GB.
    Bytes,
    /// Percent: 8.5 is 8.5 %.
    Percent,
    /// A ratio: 1.5 is 1.5×.
    Factor,
}

/// How values become places on an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scale {
    /// Logarithmic where the values span a factor of five or more, else linear.
    #[default]
    Auto,
    /// Linear, only as long as the values need; each value has a tick where there are few.
    Linear,
    /// Linear from zero.
    Zero,
    /// Logarithmic; values must be positive.
    Log,
    /// Percentiles by their distance from 100: 90, 99 and 99.9 are equally far apart.
    Nines,
}

impl Unit {
    fn key(self) -> &'static str {
        match self {
            Unit::Number => "number",
            Unit::Time => "time",
            Unit::Bytes => "bytes",
            Unit::Percent => "percent",
            Unit::Factor => "factor",
        }
    }

    /// Three digits with the unit, for people.
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

    /// Six digits with the unit.
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
    fn key(self) -> &'static str {
        match self {
            Scale::Auto => "auto",
            Scale::Linear => "linear",
            Scale::Zero => "zero",
            Scale::Log => "log",
            Scale::Nines => "nines",
        }
    }
}

impl Board {
    /// Its figures from the first row to the last.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.rows.iter().flatten()
    }

    /// As the script reads it: figures in one list. Values have six significant digits, as in `summary.json`.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "series": self.series,
            "shown": if self.shown == 0 { self.series.len() } else { self.shown },
            "figures": self.figures().map(Figure::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Figure {
    /// Its heading.
    pub fn title(&self) -> &str {
        match self {
            Figure::Bars(bars) => &bars.title,
            Figure::Lines(lines) => &lines.title,
            Figure::Spans(spans) => &spans.title,
        }
    }

    /// The line below the heading.
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
                "reference": reference(&lines.reference),
                "stated": range(lines.stated),
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

/// `[x, y]`, and where there is more to say `[x, y, [low, high] or null, note]`.
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
    fn what_is_no_number_is_null() {
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
