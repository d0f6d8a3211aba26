//! Line figures as one static SVG picture, in the colours of the reports.

use super::figure::{Line, Lines};
use super::html::escape;
use super::scale::AxisScale;
use std::fmt::Write;

/// A line figure in an SVG picture, with its own legend.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Panel {
    /// Names of the series in the legend. Curves refer to a series by its index here. A figure with a single series has
    /// no legend.
    pub series: Vec<String>,
    /// The figure. Only its first view is drawn.
    pub figure: Lines,
}

/// Colours of the series on a light page, as in `theme.css` of the crate `rnic-web`.
const COLOURS: [&str; 8] = ["#1d5fa8", "#c2570c", "#2b7a4b", "#80489c", "#a62b4f", "#0a7684", "#7d6608", "#4d5b6a"];
/// Dash patterns of curves. Series beyond the eight colours repeat the colours with the next pattern.
const DASHES: [&str; 4] = ["", "6 4", "2 4", "8 3 2 3"];
const WIDTH: f64 = 520.0;
const GAP: f64 = 28.0;
const PLOT: f64 = 230.0;
/// Width of a character in pixels, for text of 12 pixels height.
const CHARACTER: f64 = 6.6;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#566172}.t{font-size:14px;font-weight:600;fill:#1b2430}\
    .g{stroke:#dfe3e9}.a{stroke:#a9b2bf}.s{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}\
    .r{stroke:#566172;stroke-width:1.5;stroke-dasharray:5 4}.b{fill:#8a94a3;opacity:.2}";

/// Draws an SVG picture. `rows` are the rows of panels from top to bottom.
pub fn svg(rows: &[Vec<Panel>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0).max(1) as f64;
    let width = columns * WIDTH + (columns + 1.0) * GAP;
    let mut body = String::new();
    let mut y = GAP;
    for row in rows {
        let legend = row.iter().map(|panel| legend(panel).1).fold(0.0, f64::max);
        let mut height = 0.0f64;
        for (column, panel) in row.iter().enumerate() {
            let x = GAP + column as f64 * (WIDTH + GAP);
            let _ = write!(body, "<g transform=\"translate({x} {y})\">");
            height = height.max(draw(&mut body, panel, legend));
            body += "</g>\n";
        }
        y += height + GAP;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" viewBox=\"0 0 {width} {y}\">\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// Positions of the legend's entries in pixels, and the height of the legend.
fn legend(panel: &Panel) -> (Vec<(f64, f64)>, f64) {
    if panel.series.len() < 2 {
        return (Vec::new(), 0.0);
    }
    let (mut places, mut x, mut y) = (Vec::new(), 0.0, 0.0);
    for name in &panel.series {
        let needed = 30.0 + name.chars().count() as f64 * CHARACTER + 14.0;
        if x > 0.0 && x + needed > WIDTH {
            (x, y) = (0.0, y + 18.0);
        }
        places.push((x, y));
        x += needed;
    }
    (places, y + 18.0)
}

/// Draws one panel, with its upper left corner at the origin, and returns the panel's height in pixels.
fn draw(out: &mut String, panel: &Panel, legend_height: f64) -> f64 {
    let figure = &panel.figure;
    let text = |out: &mut String, x: f64, y: f64, attributes: &str, text: &str| {
        let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\"{attributes}>{}</text>", escape(text));
    };
    text(out, 0.0, 12.0, " class=\"t\"", &figure.title);
    let mut y = 12.0;
    if !figure.caption.is_empty() {
        y += 17.0;
        text(out, 0.0, y, "", &figure.caption);
    }
    y += 12.0;
    for (index, (left, down)) in legend(panel).0.into_iter().enumerate() {
        let middle = y + down + 6.0;
        let _ = write!(out, "<path class=\"s\" {} d=\"M{left:.1} {middle:.1}h22\"/>", stroke(index));
        text(out, left + 28.0, middle + 4.0, "", &panel.series[index]);
    }
    y += legend_height + 14.0;
    text(out, 0.0, y, "", &figure.y.name);
    y += 14.0;

    let no_lines = Vec::new();
    let lines = figure.views.get(figure.first).or(figure.views.first()).map_or(&no_lines, |view| &view.lines);
    let points =
        || lines.iter().flat_map(|line| &line.points).filter(|point| point.x.is_finite() && point.y.is_finite());
    let x_values: Vec<f64> = points().map(|point| point.x).collect();
    let x_scale = AxisScale::new(figure.x.scale, &x_values, false);
    let more = figure.reference.iter().map(|reference| reference.value).chain(figure.stated.into_iter().flatten());
    let bands = points().flat_map(|point| point.interval.into_iter().flatten());
    let y_values: Vec<f64> = points().map(|point| point.y).chain(more).chain(bands).collect();
    let y_scale = AxisScale::new(figure.y.scale, &y_values, true);

    let y_labels = y_scale.labels(figure.y.unit, |value| y_scale.at(value) * PLOT, |_| y_scale.apart);
    let widest = y_labels.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0) as f64;
    let left = widest * CHARACTER + 10.0;
    let (right, top, bottom) = (WIDTH - 8.0, y, y + PLOT);
    let px = |value: f64| left + (right - left) * x_scale.at(value);
    let py = |value: f64| bottom - (bottom - top) * y_scale.at(value).clamp(-0.1, 1.1);
    for (value, label) in &y_labels {
        let at = py(*value);
        let _ = write!(out, "<path class=\"g\" d=\"M{left:.1} {at:.1}H{right:.1}\"/>");
        text(out, left - 6.0, at + 4.0, " text-anchor=\"end\"", label);
    }
    let label_width = |label: &str| label.chars().count() as f64 * CHARACTER + 14.0;
    for (value, label) in x_scale.labels(figure.x.unit, px, label_width) {
        let at = px(value);
        let _ = write!(out, "<path class=\"a\" d=\"M{at:.1} {bottom:.1}v4\"/>");
        text(out, at, bottom + 18.0, " text-anchor=\"middle\"", &label);
    }
    let _ = write!(out, "<path class=\"a\" d=\"M{left:.1} {bottom:.1}H{right:.1}\"/>");
    text(out, (left + right) / 2.0, bottom + 38.0, " text-anchor=\"middle\"", &figure.x.name);
    if let Some([low, high]) = figure.stated {
        let (from, to) = (py(high), py(low));
        let _ = write!(out, "<path class=\"b\" d=\"M{left:.1} {from:.1}H{right:.1}V{to:.1}H{left:.1}Z\"/>");
    }
    for line in lines {
        curve(out, line, figure.dots, px, py);
    }
    if let Some(reference) = &figure.reference {
        let at = py(reference.value);
        let _ = write!(out, "<path class=\"r\" d=\"M{left:.1} {at:.1}H{right:.1}\"/>");
        text(out, right, at - 5.0, " text-anchor=\"end\"", &reference.name);
    }
    bottom + 42.0
}

fn stroke(series: usize) -> String {
    let dash = match DASHES[series / COLOURS.len() % DASHES.len()] {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    };
    format!("stroke=\"{}\"{dash}", COLOURS[series % COLOURS.len()])
}

fn curve(out: &mut String, line: &Line, dots: bool, px: impl Fn(f64) -> f64, py: impl Fn(f64) -> f64) {
    let colour = COLOURS[line.series % COLOURS.len()];
    let band: Vec<_> = line.points.iter().filter_map(|point| Some((point.x, point.interval?))).collect();
    if band.len() > 1 {
        let upper = band.iter().map(|(x, [_, high])| format!("{:.1} {:.1}", px(*x), py(*high)));
        let lower = band.iter().rev().map(|(x, [low, _])| format!("{:.1} {:.1}", px(*x), py(*low)));
        let corners: Vec<String> = upper.chain(lower).collect();
        let _ = write!(out, "<path d=\"M{}Z\" fill=\"{colour}\" opacity=\".15\"/>", corners.join("L"));
    }
    let mut path = String::new();
    let mut pen_is_down = false;
    let mut last = String::new();
    for point in &line.points {
        if !(point.x.is_finite() && point.y.is_finite()) {
            pen_is_down = false;
            continue;
        }
        let place = format!("{:.1} {:.1}", px(point.x), py(point.y));
        if dots || line.points.len() == 1 {
            let (x, y) = place.split_once(' ').unwrap_or_default();
            let _ = write!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>");
        }
        if !pen_is_down || place != last {
            let _ = write!(path, "{}{place}", if pen_is_down { 'L' } else { 'M' });
        }
        pen_is_down = true;
        last = place;
    }
    let _ = write!(out, "<path class=\"s\" {} d=\"{path}\"/>", stroke(line.series));
}

#[cfg(test)]
mod tests {
    use super::super::figure::{Axis, Point, Reference, Scale, Unit, View};
    use super::*;

    fn panel(points: &[(f64, f64)]) -> Panel {
        let points = points.iter().map(|(x, y)| Point::at(*x, *y)).collect();
        let view = View { name: String::new(), lines: vec![Line { series: 0, points }] };
        let axis = |name: &str, scale| Axis { name: name.to_string(), unit: Unit::Number, scale };
        Panel {
            series: vec!["one <a>".to_string(), "two".to_string()],
            figure: Lines {
                title: "A & B".to_string(),
                x: axis("time", Scale::Range),
                y: axis("queue", Scale::Zero),
                views: vec![view],
                ..Lines::default()
            },
        }
    }

    #[test]
    fn points_are_where_the_axes_say() {
        let text = svg(&[vec![panel(&[(0.0, 0.0), (5.0, 10.0), (10.0, 5.0)])]]);
        // The plot is 230 pixels high. It begins below title, gap, legend (18 pixels) and axis title: at 12 + 12 + 18 +
        // 14 + 14 = 70.
        let left = 2.0 * CHARACTER + 10.0;
        let (right, middle) = (WIDTH - 8.0, (left + WIDTH - 8.0) / 2.0);
        let path = format!("M{left:.1} 300.0L{middle:.1} 70.0L{right:.1} 185.0");
        assert!(text.contains(&path), "{path} is not in\n{text}");
        for part in ["A &amp; B", "one &lt;a&gt;", ">10</text>", ">queue</text>", "#1d5fa8", "#c2570c"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn what_is_no_number_interrupts_the_curve() {
        let text = svg(&[vec![panel(&[(0.0, 1.0), (1.0, f64::NAN), (2.0, 2.0), (3.0, 2.0)])]]);
        let path = text.split("class=\"s\"").last().unwrap();
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert!(!text.contains("NaN"));
    }

    #[test]
    fn nothing_to_draw_is_an_empty_plot() {
        for rows in [vec![], vec![vec![panel(&[])]], vec![vec![panel(&[(3.0, 4.0)])]]] {
            let text = svg(&rows);
            assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n") && !text.contains("NaN"), "{text}");
        }
    }

    #[test]
    fn a_logarithmic_axis_has_ticks_at_round_values() {
        let mut panel = panel(&[(0.1, 1.0), (1.0, 2.0), (30.0, 3.0)]);
        panel.figure.x.scale = Scale::Log;
        panel.figure.reference = Some(Reference { value: 2.5, name: "fair".to_string() });
        let text = svg(&[vec![panel]]);
        for part in [">0.1</text>", ">1</text>", ">10</text>", ">fair</text>"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn pictures_have_the_colours_of_the_pages() {
        let style = rnic_web::style("");
        for (series, colour) in COLOURS.iter().enumerate() {
            assert!(style.contains(&format!("--c{series}: {colour};")), "{colour}");
        }
    }
}
