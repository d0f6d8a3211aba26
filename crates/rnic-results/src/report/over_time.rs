//! Figures of a run's samples as curves over time: queue lengths and goodput of flows.

use super::super::pauses::host_name;
use super::super::ranks::mean;
use super::super::samples::goodput;
use super::super::summary::{RunSummary, ScenarioSummary};
use super::super::text::round6;
use super::figure::{Axis, Board, Figure, Line, Lines, Point, Scale, Unit, View};
use rnic_spec::{FlowSamples, QueueSamples, RunOutput, RunRecord, Samples};
use std::collections::BTreeMap;

/// Maximum number of runs with figures over time. Runs after these have no such figures.
const RUNS: usize = 8;
/// Maximum number of curves in the figure of one run. Curves after these are not drawn.
const CURVES: usize = 24;
/// Maximum number of views in a figure of all runs: queues or flows between which readers choose.
const VIEWS: usize = 8;
/// Maximum number of points of a curve.
const POINTS: usize = 600;

/// A run with samples: its index, its summary, its output, its samples.
type Sampled<'r> = (usize, &'r RunSummary, &'r RunOutput, &'r Samples);

/// The boards (figures with a shared legend) of the runs that have samples. If there are several such runs, the first
/// board lays their curves over each other. After it, each run has one board for its queues and one for its flows; all
/// figures of queues have the same axes, and so have all figures of flows.
pub(super) fn boards(summary: &ScenarioSummary, reports: &[RunRecord]) -> Vec<(String, Board)> {
    let runs = summary.runs.iter().zip(reports).enumerate().take(RUNS);
    let sampled: Vec<Sampled<'_>> = runs
        .filter_map(|(index, (run, report))| Some((index, run, &report.output, report.output.samples.as_ref()?)))
        .collect();
    let all = if sampled.len() > 1 { overlay(&sampled) } else { None };
    let mut own: Vec<[Option<Board>; 2]> =
        sampled.iter().map(|(_, _, output, samples)| [queues(samples), flows(samples, output)]).collect();
    if own.len() > 1 {
        for kind in 0..2 {
            share_axes(own.iter_mut().filter_map(|boards| boards[kind].as_mut()).collect());
        }
    }
    let own = sampled.iter().zip(own).flat_map(|((_, run, _, _), boards)| {
        boards.into_iter().flatten().map(|board| (format!("Over time: {}", run.name), board))
    });
    all.map(|board| ("Over time: all runs".to_string(), board)).into_iter().chain(own).collect()
}

/// The queues and the goodput of flows of several runs over each other: a view for each queue or flow, in which each
/// run has a curve.
fn overlay(sampled: &[Sampled<'_>]) -> Option<Board> {
    let rows: Vec<Vec<Figure>> =
        [overlaid_queues(sampled), overlaid_flows(sampled)].into_iter().flatten().map(|figure| vec![figure]).collect();
    let series = sampled.iter().map(|(_, run, _, _)| run.name.clone()).collect();
    (!rows.is_empty()).then_some(Board { series, shown: 0, rows })
}

fn overlaid_queues(sampled: &[Sampled<'_>]) -> Option<Figure> {
    let mut names: Vec<&str> = Vec::new();
    for queue in sampled.iter().flat_map(|(_, _, _, samples)| &samples.queues) {
        if !names.contains(&queue.name.as_str()) {
            names.push(&queue.name);
        }
    }
    let view = |name: &&str| View {
        name: name.to_string(),
        lines: sampled
            .iter()
            .enumerate()
            .filter_map(|(series, (_, _, _, samples))| {
                let queue = samples.queues.iter().find(|queue| queue.name == *name)?;
                Some(Line { series, points: queue_points(samples, queue) })
            })
            .collect(),
    };
    let caption = format!("bytes queued for an output of a switch{}", more(names.len(), VIEWS, "queues"));
    let views: Vec<View> = names.iter().take(VIEWS).map(view).collect();
    (!views.is_empty()).then(|| figure("Queues of all runs", caption, queue_axis(), views))
}

fn overlaid_flows(sampled: &[Sampled<'_>]) -> Option<Figure> {
    // The flows of the first run that has such samples; in the other runs, flows with the same numbers are the same.
    let (_, _, output, first) = sampled.iter().find(|(_, _, _, samples)| !samples.flows.is_empty())?;
    let lines = |points: &dyn Fn(&Samples) -> Option<Vec<Point>>| {
        let line =
            |(series, (_, _, _, samples)): (usize, &Sampled<'_>)| Some(Line { series, points: points(samples)? });
        sampled.iter().enumerate().filter_map(line).collect::<Vec<_>>()
    };
    let sum = View { name: "All flows".to_string(), lines: lines(&total) };
    let of_flow = |flow: &FlowSamples| View {
        name: flow_name(flow, output),
        lines: lines(&|samples| {
            let same = samples.flows.iter().find(|other| other.flow == flow.flow)?;
            Some(flow_points(samples, same))
        }),
    };
    let views = std::iter::once(sum).chain(first.flows.iter().take(VIEWS - 1).map(of_flow)).collect();
    let caption =
        format!("payload delivered per interval between samples{}", more(first.flows.len(), VIEWS - 1, "flows"));
    Some(figure("Goodput of all runs", caption, goodput_axis(), views))
}

/// The goodput of all flows of a run together; `None` if the run has no samples of flows.
fn total(samples: &Samples) -> Option<Vec<Point>> {
    if samples.flows.is_empty() {
        return None;
    }
    let mut sums: BTreeMap<u32, f64> = (1..samples.count).map(|index| (index, 0.0)).collect();
    for (index, gbps) in samples.flows.iter().flat_map(|flow| goodput(samples, flow)) {
        *sums.entry(index).or_default() += gbps;
    }
    Some(thin(samples, sums.into_iter(), |bucket| mean(bucket).unwrap_or_default()))
}

fn queue_points(samples: &Samples, queue: &QueueSamples) -> Vec<Point> {
    let values = (0..).zip(queue.bytes.iter().map(|bytes| f64::from(*bytes)));
    thin(samples, values, |bucket| bucket.iter().copied().fold(0.0, f64::max))
}

fn flow_points(samples: &Samples, flow: &FlowSamples) -> Vec<Point> {
    thin(samples, goodput(samples, flow), |bucket| mean(bucket).unwrap_or_default())
}

fn flow_name(flow: &FlowSamples, output: &RunOutput) -> String {
    let host = |host| host_name(&output.ports, host);
    let record = output.flows.get(flow.flow);
    let hosts = record.map_or(String::new(), |flow| format!(", {} to {}", host(flow.src), host(flow.dst)));
    format!("flow {}{hosts}", flow.flow)
}

fn queue_axis() -> Axis {
    Axis { name: "Queue".into(), unit: Unit::Bytes, scale: Scale::Zero }
}

fn goodput_axis() -> Axis {
    Axis { name: "Goodput, Gbps".into(), unit: Unit::Number, scale: Scale::Zero }
}

/// The board of one run's queues.
fn queues(samples: &Samples) -> Option<Board> {
    let queues = || samples.queues.iter().take(CURVES);
    let line = |(series, queue)| Line { series, points: queue_points(samples, queue) };
    let caption = format!(
        "bytes queued for an output of a switch, sampled every {}{}",
        samples.interval,
        more(samples.queues.len(), CURVES, "curves")
    );
    let views = vec![View { name: String::new(), lines: queues().enumerate().map(line).collect() }];
    (!samples.queues.is_empty()).then(|| Board {
        series: queues().map(|queue| queue.name.clone()).collect(),
        shown: 0,
        rows: vec![vec![figure("Queues", caption, queue_axis(), views)]],
    })
}

/// The board of one run's flows.
fn flows(samples: &Samples, output: &RunOutput) -> Option<Board> {
    let flows = || samples.flows.iter().take(CURVES);
    let line = |(series, flow)| Line { series, points: flow_points(samples, flow) };
    let caption = format!(
        "payload delivered per interval of {}{}",
        samples.interval,
        more(samples.flows.len(), CURVES, "curves")
    );
    let views = vec![View { name: String::new(), lines: flows().enumerate().map(line).collect() }];
    (!samples.flows.is_empty()).then(|| Board {
        series: flows().map(|flow| flow_name(flow, output)).collect(),
        shown: 0,
        rows: vec![vec![figure("Goodput of each flow", caption, goodput_axis(), views)]],
    })
}

/// A note for the figure's caption, which says that only `shown` of `all` queues, flows or curves are drawn; empty if
/// all are drawn.
fn more(all: usize, shown: usize, what: &str) -> String {
    if all > shown { format!("; only the first {shown} of {all} {what} are shown") } else { String::new() }
}

fn figure(title: &str, caption: String, y: Axis, views: Vec<View>) -> Figure {
    Figure::Lines(Lines {
        title: title.to_string(),
        caption,
        x: Axis { name: "Time".into(), unit: Unit::Time, scale: Scale::Linear },
        y,
        views,
        ..Lines::default()
    })
}

/// Gives the figures of all boards the same axes.
fn share_axes(mut boards: Vec<&mut Board>) {
    let points = boards.iter().flat_map(|board| board.figures()).filter_map(|figure| match figure {
        Figure::Lines(lines) => Some(lines),
        _ => None,
    });
    let points: Vec<&Point> =
        points.flat_map(|lines| &lines.views).flat_map(|view| &view.lines).flat_map(|line| &line.points).collect();
    let range = |value: fn(&Point) -> f64| {
        let values = points.iter().map(|point| value(point));
        values.fold([f64::INFINITY, f64::NEG_INFINITY], |[min, max], value| [min.min(value), max.max(value)])
    };
    let reach = [range(|point| point.x), range(|point| point.y)];
    if points.is_empty() {
        return;
    }
    for figure in boards.iter_mut().flat_map(|board| board.rows.iter_mut().flatten()) {
        if let Figure::Lines(lines) = figure {
            lines.reach = Some(reach);
        }
    }
}

/// Reduces a series of samples to at most [`POINTS`] points by dividing it into groups. Each group becomes one point,
/// with the time of the last sample of the group and the value that `stand_in` computes from the group.
fn thin(samples: &Samples, values: impl Iterator<Item = (u32, f64)>, stand_in: impl Fn(&[f64]) -> f64) -> Vec<Point> {
    let values: Vec<(u32, f64)> = values.collect();
    let size = (samples.count as usize).div_ceil(POINTS).max(1);
    let point = |bucket: &[(u32, f64)]| {
        let (last, _) = bucket.last()?;
        let values: Vec<f64> = bucket.iter().map(|(_, value)| *value).collect();
        Some(Point::at(samples.at(*last).as_us(), round6(stand_in(&values))))
    };
    values.chunks(size).filter_map(point).collect()
}
