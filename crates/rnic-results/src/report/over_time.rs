//! Samples of queues and flows as curves over time.

use super::super::samples::goodput;
use super::super::summary::ScenarioSummary;
use super::figure::{Axis, Board, Figure, Line, Lines, Point, Scale, Unit, View};
use rnic_run::FlowLog;
use rnic_run::RunRecord;
use rnic_run::Samples;

/// Maximum number of runs with figures; further runs have none.
const RUNS: usize = 8;
/// Maximum number of curves in a figure; further curves are not drawn.
const CURVES: usize = 24;
/// Maximum number of points of a curve.
const POINTS: usize = 600;

/// The boards of the watched runs: one for the queues of a run, one for its flows.
pub(super) fn boards(summary: &ScenarioSummary, reports: &[RunRecord]) -> Vec<(String, Board)> {
    let runs = summary.runs.iter().zip(reports).take(RUNS);
    let boards = runs.flat_map(|(run, report)| {
        let samples = report.output.samples.as_ref();
        let boards = samples.map(|samples| [queues(samples), flows(samples, &report.output.flows)]);
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

fn flows(samples: &Samples, records: &FlowLog) -> Option<Board> {
    let flows = || samples.flows.iter().take(CURVES);
    let line = |(series, flow): (usize, &rnic_run::FlowSamples)| {
        let mean = |bucket: &[f64]| bucket.iter().sum::<f64>() / bucket.len() as f64;
        Line { series, points: thin(samples, goodput(samples, flow), mean) }
    };
    let name = |flow: &rnic_run::FlowSamples| {
        let hosts = records.get(flow.flow).map_or(String::new(), |flow| format!(", {} to {}", flow.src, flow.dst));
        format!("flow {}{hosts}", flow.flow)
    };
    (!samples.flows.is_empty()).then(|| Board {
        series: flows().map(name).collect(),
        shown: 0,
        rows: vec![vec![figure(
            "Goodput of each flow",
            format!("payload delivered in intervals of {}{}", samples.interval, more(samples.flows.len())),
            Axis { name: "Goodput, Gbps".into(), unit: Unit::Number, scale: Scale::Zero },
            flows().enumerate().map(line).collect(),
        )]],
    })
}

/// A note for the caption if curves are left out.
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

/// Reduces the samples to at most [`POINTS`] points. A point has the time of the last sample of its group, and the
/// value that `stand_in` computes from the group.
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
