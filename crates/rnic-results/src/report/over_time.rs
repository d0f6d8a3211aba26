//! Figures of a run's samples as curves over time: queue lengths and goodput of flows.

use super::super::pauses::host_name;
use super::super::samples::goodput;
use super::super::summary::ScenarioSummary;
use super::figure::{Axis, Board, Figure, Line, Lines, Point, Scale, Unit, View};
use rnic_run::{RunOutput, RunRecord, Samples};

/// Maximum number of runs with figures over time. Runs after these have no such figures.
const RUNS: usize = 8;
/// Maximum number of curves in a figure. Curves after these are not drawn.
const CURVES: usize = 24;
/// Maximum number of points of a curve.
const POINTS: usize = 600;

/// The boards (figures with a shared legend) of all runs that have samples. A run has one board for its queues and one
/// for its flows.
pub(super) fn boards(summary: &ScenarioSummary, reports: &[RunRecord]) -> Vec<(String, Board)> {
    let runs = summary.runs.iter().zip(reports).take(RUNS);
    let boards = runs.flat_map(|(run, report)| {
        let samples = report.output.samples.as_ref();
        let boards = samples.map(|samples| [queues(samples), flows(samples, &report.output)]);
        boards.into_iter().flatten().flatten().map(|board| (format!("Over time: {}", run.name), board))
    });
    boards.collect()
}

fn queues(samples: &Samples) -> Option<Board> {
    let queues = || samples.queues.iter().take(CURVES);
    let line = |(series, queue): (usize, &rnic_run::QueueSamples)| {
        let values = (0..).zip(queue.bytes.iter().map(|bytes| f64::from(*bytes)));
        Line { series, points: thin(samples, values, |bucket| bucket.iter().copied().fold(0.0, f64::max)) }
    };
    (!samples.queues.is_empty()).then(|| Board {
        series: queues().map(|queue| queue.name.clone()).collect(),
        shown: 0,
        rows: vec![vec![figure(
            "Queues",
            format!(
                "bytes queued for an output of a switch, sampled every {}{}",
                samples.interval,
                more(samples.queues.len())
            ),
            Axis { name: "Queue".into(), unit: Unit::Bytes, scale: Scale::Zero },
            queues().enumerate().map(line).collect(),
        )]],
    })
}

fn flows(samples: &Samples, output: &RunOutput) -> Option<Board> {
    let flows = || samples.flows.iter().take(CURVES);
    let line = |(series, flow): (usize, &rnic_run::FlowSamples)| {
        let mean = |bucket: &[f64]| bucket.iter().sum::<f64>() / bucket.len() as f64;
        Line { series, points: thin(samples, goodput(samples, flow), mean) }
    };
    let name = |flow: &rnic_run::FlowSamples| {
        let host = |host| host_name(&output.ports, host);
        let record = output.flows.get(flow.flow);
        let hosts = record.map_or(String::new(), |flow| format!(", {} to {}", host(flow.src), host(flow.dst)));
        format!("flow {}{hosts}", flow.flow)
    };
    (!samples.flows.is_empty()).then(|| Board {
        series: flows().map(name).collect(),
        shown: 0,
        rows: vec![vec![figure(
            "Goodput of each flow",
            format!("payload delivered per interval of {}{}", samples.interval, more(samples.flows.len())),
            Axis { name: "Goodput, Gbps".into(), unit: Unit::Number, scale: Scale::Zero },
            flows().enumerate().map(line).collect(),
        )]],
    })
}

/// A note for the figure's caption, which says that some of the `all` curves are not drawn; empty if all are drawn.
fn more(all: usize) -> String {
    if all > CURVES { format!("; only the first {CURVES} of {all} are shown") } else { String::new() }
}

fn figure(title: &str, caption: String, y: Axis, lines: Vec<Line>) -> Figure {
    Figure::Lines(Lines {
        title: title.to_string(),
        caption,
        x: Axis { name: "Time".into(), unit: Unit::Time, scale: Scale::Linear },
        y,
        views: vec![View { name: String::new(), lines }],
        ..Lines::default()
    })
}

/// Reduces a series of samples to at most [`POINTS`] points by dividing it into groups. Each group becomes one point,
/// with the time of the last sample of the group and the value that `stand_in` computes from the group.
fn thin(samples: &Samples, values: impl Iterator<Item = (u32, f64)>, stand_in: impl Fn(&[f64]) -> f64) -> Vec<Point> {
    let values: Vec<(u32, f64)> = values.collect();
    let size = (samples.count as usize).div_ceil(POINTS).max(1);
    let point = |bucket: &[(u32, f64)]| {
        let (last, _) = bucket.last()?;
        let values: Vec<f64> = bucket.iter().map(|(_, value)| *value).collect();
        Some(Point::at(samples.at(*last).as_us(), super::super::text::round6(stand_in(&values))))
    };
    values.chunks(size).filter_map(point).collect()
}
