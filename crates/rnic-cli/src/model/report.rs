//! Shows the solution of a fluid model as a table, JSON, CSV or a plot.

use super::{ModelFormat, SolveArgs, aligned, gbps, size, write};
use rnic_model::series::{Series, Statistics, StepCheck};
use rnic_results::report::figure::{Axis, Line, Lines, Point, Reference, Scale, Unit, View};
use rnic_results::report::svg::{Panel, svg};
use rnic_results::text::round6;
use rnic_simulator::error::CliError;
use rnic_simulator::output;
use serde_json::{Value, json};

/// Maximum number of points of a plotted curve.
const MAX_POINTS: usize = 1_500;
/// Maximum number of flows that have their own line in a table of statistics. Further flows are not listed.
const MAX_FLOWS: usize = 16;

/// The solution of a fluid model, and everything that is printed with it.
pub(super) struct Report<'a> {
    pub(super) title: String,
    /// Parameters of the model as (name, value).
    pub(super) parameters: Vec<(&'static str, String)>,
    pub(super) fixed_point: Option<Fixed>,
    /// Sentences about the fixed point, for example about its range of validity.
    pub(super) remarks: Vec<String>,
    pub(super) series: &'a Series,
    pub(super) check: Option<StepCheck>,
    pub(super) solve: &'a SolveArgs,
}

/// The fixed point of a fluid model, with the quantities that are printed for it.
pub(super) struct Fixed {
    /// Queue length at the fixed point in bytes.
    pub(super) queue: f64,
    /// Quantities at the fixed point, as (name in tables, key in JSON, value, value as text).
    pub(super) values: Vec<(&'static str, &'static str, f64, String)>,
    pub(super) residuals: Vec<(&'static str, f64)>,
    pub(super) limits: Vec<String>,
}

impl Report<'_> {
    /// Prints the solution in the selected format, and plots it if `--plot` is given.
    pub(super) fn give(&self) -> Result<(), CliError> {
        if let Some(path) = &self.solve.plot {
            write(path, &self.picture())?;
        }
        let text = match self.solve.format {
            ModelFormat::Table => self.table(),
            ModelFormat::Json => format!("{:#}\n", self.document()),
            ModelFormat::Csv => csv(self.series),
        };
        output::print(|out| write!(out, "{text}"))
    }

    fn skipped(&self) -> usize {
        self.series.from(self.solve.skip.as_secs())
    }

    /// Statistics of the queue and of the flows after `--skip`, as (name, unit, statistics).
    fn statistics(&self) -> Vec<(String, &'static str, Statistics)> {
        let from = self.skipped();
        let mut rows = vec![("queue".to_string(), "bytes", Statistics::of(&self.series.queue[from..]))];
        for (i, flow) in self.series.flows.iter().enumerate().take(MAX_FLOWS) {
            let name = match self.series.flows.len() {
                1 if flow.count == 1 => "rate".to_string(),
                1 => "rate of each flow".to_string(),
                _ => format!("rate of flow {}", i + 1),
            };
            rows.push((name, "bps", Statistics::of(&flow.rate[from..])));
        }
        if self.series.flows.len() > 1 {
            rows.push(("fastest minus slowest".to_string(), "bps", Statistics::of(&self.series.spread()[from..])));
        }
        rows
    }

    fn table(&self) -> String {
        let cells = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<String>>();
        let parameters: Vec<String> = self.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let mut text = format!("{}\n{}\n", self.title, parameters.join(", "));
        if let Some(fixed) = &self.fixed_point {
            let valid = if fixed.limits.is_empty() { "" } else { " (not valid)" };
            text += &format!("\nFixed point{valid}\n");
            let mut rows: Vec<Vec<String>> =
                fixed.values.iter().map(|(name, _, _, value)| cells(&[name, value])).collect();
            rows.push(cells(&["residual of each equation, relative to its largest term", ""]));
            for (equation, residual) in &fixed.residuals {
                rows.push(cells(&[&format!("  {equation}"), &format!("{residual:.1e}")]));
            }
            text += &aligned(&rows, 1);
            for limit in &fixed.limits {
                text += &format!("not valid: {limit}.\n");
            }
        }
        for remark in &self.remarks {
            text += &format!("{remark}\n");
        }
        text += &format!("\nSolution from {} to {}\n", self.solve.skip, self.solve.duration);
        let mut rows = vec![cells(&["", "mean", "deviation", "min", "max", "at the end"])];
        let last = self.series.time.len() - 1;
        let ends: Vec<f64> = std::iter::once(self.series.queue[last])
            .chain(self.series.flows.iter().take(MAX_FLOWS).map(|flow| flow.rate[last]))
            .chain(self.series.spread().last().copied())
            .collect();
        for ((name, unit, stretch), end) in self.statistics().into_iter().zip(ends) {
            let show = if unit == "bytes" { size } else { gbps };
            let values = [stretch.mean, stretch.deviation, stretch.min, stretch.max, end].map(show);
            rows.push(std::iter::once(name).chain(values).collect());
        }
        text += &aligned(&rows, 1);
        if let Some(check) = &self.check {
            text += &step_text(check);
        }
        text
    }

    fn document(&self) -> Value {
        let of = |values: &[f64]| values.iter().copied().map(round6).collect::<Vec<f64>>();
        let flows = self.series.flows.iter().map(|flow| {
            let mut object = json!({"count": flow.count, "rate_bps": of(&flow.rate)});
            for (name, values) in &flow.state {
                object[*name] = json!(of(values));
            }
            object
        });
        json!({
            "model": self.title,
            "parameters": self.parameters.iter().map(|(name, value)| (name.to_string(), json!(value))).collect::<serde_json::Map<_, _>>(),
            "fixed_point": self.fixed_point.as_ref().map(|fixed| {
                let mut object = json!({
                    "valid": fixed.limits.is_empty(),
                    "limits": fixed.limits,
                    "residuals": fixed.residuals.iter().map(|(equation, residual)| json!({"equation": equation, "relative": residual})).collect::<Vec<_>>(),
                });
                for (_, key, value, _) in &fixed.values {
                    object[*key] = json!(value);
                }
                object
            }),
            "remarks": self.remarks,
            "statistics": self.statistics().iter().map(|(name, unit, s)| json!({
                "of": name, "unit": unit, "mean": round6(s.mean), "deviation": round6(s.deviation), "min": round6(s.min), "max": round6(s.max),
            })).collect::<Vec<_>>(),
            "step_check": self.check.as_ref().map(|check| json!({
                "step_us": check.step * 1e6,
                "queue_differences_bytes": check.queue, "queue_order": StepCheck::order(check.queue),
                "rate_differences_bps": check.rate, "rate_order": StepCheck::order(check.rate),
            })),
            "series": {
                "time_us": self.series.time.iter().map(|time| round6(time * 1e6)).collect::<Vec<f64>>(),
                "queue_bytes": of(&self.series.queue),
                "marking": of(&self.series.marking),
                "flows": flows.collect::<Vec<_>>(),
            },
        })
    }

    fn picture(&self) -> String {
        let queue = queue_panel("Queue", &[(String::new(), self.series)], self.fixed_point.as_ref().map(|f| f.queue));
        let flows = &self.series.flows;
        let rates = Panel {
            series: (1..=flows.len()).map(|number| format!("flow {number}")).collect(),
            figure: Lines {
                title: if flows.len() == 1 { "Rate of each flow".to_string() } else { "Rates".to_string() },
                x: time_axis(),
                y: Axis { name: "Gbps".to_string(), unit: Unit::Number, scale: Scale::Zero },
                views: vec![View {
                    name: String::new(),
                    lines: flows
                        .iter()
                        .enumerate()
                        .map(|(i, flow)| line(i, &self.series.time, &flow.rate, 1e-9))
                        .collect(),
                }],
                ..Lines::default()
            },
        };
        svg(&[vec![queue, rates]])
    }
}

/// A text that compares solutions with different time steps, to show how exact the solution is.
fn step_text(check: &StepCheck) -> String {
    let step = |parts: f64| format!("{} us", round6(check.step * 1e6 / parts));
    let order = |differences| StepCheck::order(differences).map_or("-".to_string(), |order| format!("{order:.2}"));
    let row = |name: &str, values: [String; 2], order: String| {
        let [first, second] = values;
        vec![name.to_string(), first, second, order]
    };
    let rows = [
        row(
            "largest difference of",
            [format!("{} - {}", step(1.0), step(2.0)), format!("{} - {}", step(2.0), step(4.0))],
            "observed order".to_string(),
        ),
        row("queue", check.queue.map(|value| format!("{value:.3e} B")), order(check.queue)),
        row("rate", check.rate.map(|value| format!("{value:.3e} bps")), order(check.rate)),
    ];
    format!(
        "\nSteps\n{}The order is 4 if the model is smooth, and about 1 if a threshold is crossed within a step.\n",
        aligned(&rows, 1)
    )
}

/// The solution as CSV, a line per sample: time, queue, marking probability, and the state of each flow.
fn csv(series: &Series) -> String {
    let mut text = "time_us,queue_bytes".to_string();
    if !series.marking.is_empty() {
        text += ",marking";
    }
    for (i, flow) in series.flows.iter().enumerate() {
        let number = if series.flows.len() == 1 { String::new() } else { format!("_{}", i + 1) };
        text += &format!(",rate_bps{number}");
        for (name, _) in &flow.state {
            text += &format!(",{name}{number}");
        }
    }
    text.push('\n');
    for at in 0..series.time.len() {
        text += &format!("{},{}", round6(series.time[at] * 1e6), round6(series.queue[at]));
        if let Some(marking) = series.marking.get(at) {
            text += &format!(",{}", round6(*marking));
        }
        for flow in &series.flows {
            text += &format!(",{}", round6(flow.rate[at]));
            for (_, values) in &flow.state {
                text += &format!(",{}", round6(values[at]));
            }
        }
        text.push('\n');
    }
    text
}

/// A curve over time with at most [`MAX_POINTS`] points. `time` is in seconds and is shown in milliseconds; `values`
/// are multiplied by `scale`.
pub(super) fn line(series: usize, time: &[f64], values: &[f64], scale: f64) -> Line {
    let every = time.len().div_ceil(MAX_POINTS).max(1);
    let points = time.iter().zip(values).step_by(every).map(|(time, value)| Point::at(time * 1e3, value * scale));
    Line { series, points: points.collect() }
}

pub(super) fn time_axis() -> Axis {
    Axis { name: "time (ms)".to_string(), unit: Unit::Number, scale: Scale::Range }
}

/// A figure of queue lengths over time. The queue length at the fixed point is shown as a line.
pub(super) fn queue_panel(title: &str, curves: &[(String, &Series)], fixed: Option<f64>) -> Panel {
    Panel {
        series: curves.iter().map(|(name, _)| name.clone()).collect(),
        figure: Lines {
            title: title.to_string(),
            x: time_axis(),
            y: Axis { name: "queue (KB)".to_string(), unit: Unit::Number, scale: Scale::Zero },
            views: vec![View {
                name: String::new(),
                lines: curves
                    .iter()
                    .enumerate()
                    .map(|(i, (_, series))| line(i, &series.time, &series.queue, 1e-3))
                    .collect(),
            }],
            reference: fixed.map(|queue| Reference { value: queue / 1e3, name: "fixed point".to_string() }),
            ..Lines::default()
        },
    }
}

/// A figure of the difference between the rates of the fastest and the slowest flow over time.
pub(super) fn spread_panel(title: &str, caption: &str, curves: &[(String, &Series)]) -> Panel {
    Panel {
        series: curves.iter().map(|(name, _)| name.clone()).collect(),
        figure: Lines {
            title: title.to_string(),
            caption: caption.to_string(),
            x: time_axis(),
            y: Axis { name: "fastest minus slowest flow (Gbps)".to_string(), unit: Unit::Number, scale: Scale::Zero },
            views: vec![View {
                name: String::new(),
                lines: curves
                    .iter()
                    .enumerate()
                    .map(|(i, (_, series))| line(i, &series.time, &series.spread(), 1e-9))
                    .collect(),
            }],
            ..Lines::default()
        },
    }
}
