//! Figures of a run's samples as curves over time: queue lengths, utilisation of links and goodput of flows. If there
//! are more queues, links or flows than curves, the longest queues (by maximum), the busiest links (by mean
//! utilisation) and the largest flows are drawn.

use super::super::pauses::host_name;
use super::super::ranks::mean;
use super::super::samples::goodput;
use super::super::summary::{RunSummary, ScenarioSummary};
use super::super::text::round6;
use super::figure::{Axis, Board, Figure, Line, Lines, Point, Scale, Unit, View};
use rnic_spec::{FlowSamples, LinkSamples, QueueSamples, RunOutput, RunRecord, Samples};
use std::collections::BTreeMap;

/// Maximum number of runs with figures over time. Runs after these have no such figures.
const RUNS: usize = 8;
/// Maximum number of queues, links or flows that are all drawn in the figure of one run.
const ALL: usize = 24;
/// Number of curves in the figure of one run that has more than [`ALL`] queues, links or flows.
const CURVES: usize = 12;
/// Maximum number of curves that are visible when the page loads: as many as there are colours.
const VISIBLE: usize = 8;
/// Maximum number of views in a figure of all runs: queues, links or flows between which readers choose.
const VIEWS: usize = 8;
/// Maximum number of points of a curve.
const POINTS: usize = 600;

/// A run with samples: its index, its summary, its output, its samples.
type Sampled<'r> = (usize, &'r RunSummary, &'r RunOutput, &'r Samples);

/// The boards (figures with a shared legend) of the runs that have samples. If there are several such runs, the first
/// board lays their curves over each other. After it, each run has one board for its queues, one for its links and one
/// for its flows; all figures of a kind have the same axes.
pub(super) fn boards(summary: &ScenarioSummary, reports: &[RunRecord]) -> Vec<(String, Board)> {
    let runs = summary.runs.iter().zip(reports).enumerate();
    let all: Vec<Sampled<'_>> = runs
        .filter_map(|(index, (run, report))| Some((index, run, &report.output, report.output.samples.as_ref()?)))
        .collect();
    let sampled = &all[..all.len().min(RUNS)];
    let together = if sampled.len() > 1 { overlay(sampled, all.len()) } else { None };
    let mut own: Vec<[Option<Board>; 3]> = sampled
        .iter()
        .map(|(_, _, output, samples)| [queues(samples), links(samples), flows(samples, output)])
        .collect();
    if own.len() > 1 {
        for kind in 0..3 {
            share_axes(own.iter_mut().filter_map(|boards| boards[kind].as_mut()).collect());
        }
    }
    let own = sampled.iter().zip(own).flat_map(|((_, run, _, _), boards)| {
        boards.into_iter().flatten().map(|board| (format!("Over time: {}", run.name), board))
    });
    let heading = match all.len() {
        count if count > RUNS => format!("Over time: the first {RUNS} of {count} runs"),
        _ => "Over time: all runs".to_string(),
    };
    together.map(|board| (heading, board)).into_iter().chain(own).collect()
}

/// The queues, the links and the goodput of flows of several runs over each other: a view for each queue, link or flow,
/// in which each run has a curve. `all` is the number of runs with samples, some of which may not be drawn.
fn overlay(sampled: &[Sampled<'_>], all: usize) -> Option<Board> {
    let figures = [overlaid_queues(sampled), overlaid_links(sampled), overlaid_flows(sampled)];
    let mut rows: Vec<Vec<Figure>> = figures.into_iter().flatten().map(|figure| vec![figure]).collect();
    if all > sampled.len() {
        for figure in rows.iter_mut().flatten() {
            if let Figure::Lines(lines) = figure {
                lines.caption += &format!("; the first {} of {all} runs", sampled.len());
            }
        }
    }
    let series = sampled.iter().map(|(_, run, _, _)| run.name.clone()).collect();
    (!rows.is_empty()).then_some(Board { series, shown: 0, rows })
}

/// The names of queues or links of all runs, each once, with the largest of its `(name, rank)` first. Names of equal
/// rank keep their order.
fn ranked_names<'s>(named: impl Iterator<Item = (&'s str, f64)>) -> Vec<&'s str> {
    let mut names: Vec<(&str, f64)> = Vec::new();
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, rank) in named {
        let at = *index.entry(name).or_insert(names.len());
        match names.get_mut(at) {
            Some((_, max)) => *max = max.max(rank),
            None => names.push((name, rank)),
        }
    }
    names.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    names.into_iter().map(|(name, _)| name).collect()
}

fn longest(queue: &QueueSamples) -> f64 {
    f64::from(queue.bytes.iter().copied().max().unwrap_or(0))
}

fn mean_utilisation(samples: &Samples, link: &LinkSamples) -> f64 {
    let values: Vec<f64> = link.utilisation(samples.interval).map(|(_, utilisation)| utilisation).collect();
    mean(&values).unwrap_or(0.0)
}

fn overlaid_queues(sampled: &[Sampled<'_>]) -> Option<Figure> {
    let queues = sampled.iter().flat_map(|(_, _, _, samples)| &samples.queues);
    let names = ranked_names(queues.map(|queue| (queue.name.as_str(), longest(queue))));
    let of_name = |samples: &Samples, name: &str| {
        let queue = samples.queues.iter().find(|queue| queue.name == name)?;
        Some(queue_points(samples, queue))
    };
    let caption =
        format!("bytes queued for an output of a switch{}", more(names.len(), VIEWS, "longest", "queues", MAX));
    let views = views_by_name(sampled, &names, of_name);
    (!views.is_empty()).then(|| figure("Queues of all runs", caption, queue_axis(), views))
}

fn overlaid_links(sampled: &[Sampled<'_>]) -> Option<Figure> {
    let links = sampled.iter().flat_map(|(_, _, _, samples)| samples.links.iter().map(move |link| (samples, link)));
    let names = ranked_names(links.map(|(samples, link)| (link.name.as_str(), mean_utilisation(samples, link))));
    let of_name = |samples: &Samples, name: &str| {
        let link = samples.links.iter().find(|link| link.name == name)?;
        Some(link_points(samples, link))
    };
    let caption = format!(
        "share of each interval for which the link was sending{}",
        more(names.len(), VIEWS, "busiest", "links", MEAN)
    );
    let views = views_by_name(sampled, &names, of_name);
    (!views.is_empty()).then(|| figure("Utilisation of links, all runs", caption, utilisation_axis(), views))
}

/// A view for each of the first names, with a curve for each run that has points for this name.
fn views_by_name(
    sampled: &[Sampled<'_>], names: &[&str], points: impl Fn(&Samples, &str) -> Option<Vec<Point>>,
) -> Vec<View> {
    let view = |name: &&str| {
        let line =
            |(series, (_, _, _, samples)): (usize, &Sampled<'_>)| Some(Line { series, points: points(samples, name)? });
        View { name: name.to_string(), lines: sampled.iter().enumerate().filter_map(line).collect() }
    };
    names.iter().take(VIEWS).map(view).collect()
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
    let views = std::iter::once(sum).chain(largest(first, output, VIEWS - 1).into_iter().map(of_flow)).collect();
    let all = first.flows.len();
    let caption =
        format!("payload delivered per interval between samples{}", more(all, VIEWS - 1, "largest", "flows", BYTES));
    Some(figure("Goodput of all runs", caption, goodput_axis(), views))
}

/// The `count` largest flows of a run, in the order of their numbers.
fn largest<'s>(samples: &'s Samples, output: &RunOutput, count: usize) -> Vec<&'s FlowSamples> {
    let mut flows: Vec<&FlowSamples> = samples.flows.iter().collect();
    if flows.len() > count {
        flows
            .sort_by_cached_key(|flow| std::cmp::Reverse(output.flows.get(flow.flow).map_or(0, |record| record.bytes)));
        flows.truncate(count);
        flows.sort_by_key(|flow| flow.flow);
    }
    flows
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

fn link_points(samples: &Samples, link: &LinkSamples) -> Vec<Point> {
    let percent = link.utilisation(samples.interval).map(|(index, utilisation)| (index, 100.0 * utilisation));
    thin(samples, percent, |bucket| mean(bucket).unwrap_or_default())
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

fn utilisation_axis() -> Axis {
    Axis { name: "Utilisation".into(), unit: Unit::Percent, scale: Scale::Zero }
}

fn goodput_axis() -> Axis {
    Axis { name: "Goodput, Gbps".into(), unit: Unit::Number, scale: Scale::Zero }
}

/// The order by which curves are chosen: queues by their maximum, links by their mean utilisation, flows by their size.
const MAX: &str = "by maximum";
const MEAN: &str = "by mean utilisation";
const BYTES: &str = "by size";

/// The board of one run's queues.
fn queues(samples: &Samples) -> Option<Board> {
    let names = ranked_names(samples.queues.iter().map(|queue| (queue.name.as_str(), longest(queue))));
    let caption = format!(
        "bytes queued for an output of a switch, sampled every {}{}",
        samples.interval,
        more(names.len(), drawn(names.len()), "longest", "queues", MAX)
    );
    let points = |name: &str| {
        let queue = samples.queues.iter().find(|queue| queue.name == name);
        queue.map_or(Vec::new(), |queue| queue_points(samples, queue))
    };
    own_board(&names, points, |views| figure("Queues", caption, queue_axis(), views))
}

/// The board of one run's links.
fn links(samples: &Samples) -> Option<Board> {
    let names = ranked_names(samples.links.iter().map(|link| (link.name.as_str(), mean_utilisation(samples, link))));
    let caption = format!(
        "share of each interval of {} for which the link was sending{}",
        samples.interval,
        more(names.len(), drawn(names.len()), "busiest", "links", MEAN)
    );
    let points = |name: &str| {
        let link = samples.links.iter().find(|link| link.name == name);
        link.map_or(Vec::new(), |link| link_points(samples, link))
    };
    own_board(&names, points, |views| figure("Utilisation of links", caption, utilisation_axis(), views))
}

/// The board of the first of one run's queues or links, `names`. `None` if the run has none.
fn own_board(
    names: &[&str], points: impl Fn(&str) -> Vec<Point>, figure: impl FnOnce(Vec<View>) -> Figure,
) -> Option<Board> {
    let names = &names[..drawn(names.len())];
    let line = |(series, name): (usize, &&str)| Line { series, points: points(name) };
    let views = vec![View { name: String::new(), lines: names.iter().enumerate().map(line).collect() }];
    (!names.is_empty()).then(|| Board {
        series: names.iter().map(|name| (*name).to_string()).collect(),
        shown: if names.len() > VISIBLE { VISIBLE } else { 0 },
        rows: vec![vec![figure(views)]],
    })
}

/// The board of one run's flows.
fn flows(samples: &Samples, output: &RunOutput) -> Option<Board> {
    let flows = largest(samples, output, drawn(samples.flows.len()));
    let line = |(series, flow): (usize, &&FlowSamples)| Line { series, points: flow_points(samples, flow) };
    let caption = format!(
        "payload delivered per interval of {}{}",
        samples.interval,
        more(samples.flows.len(), drawn(samples.flows.len()), "largest", "flows", BYTES)
    );
    let views = vec![View { name: String::new(), lines: flows.iter().enumerate().map(line).collect() }];
    (!flows.is_empty()).then(|| Board {
        series: flows.iter().map(|flow| flow_name(flow, output)).collect(),
        shown: if flows.len() > VISIBLE { VISIBLE } else { 0 },
        rows: vec![vec![figure("Goodput of each flow", caption, goodput_axis(), views)]],
    })
}

/// Number of curves in the figure of one run with `all` queues, links or flows.
fn drawn(all: usize) -> usize {
    if all > ALL { CURVES } else { all }
}

/// A note for the figure's caption, which says that only `shown` of `all` queues, links or flows are drawn, and how
/// they were chosen; empty if all are drawn.
fn more(all: usize, shown: usize, superlative: &str, what: &str, by: &str) -> String {
    if all > shown { format!("; the {shown} {superlative} of {all} {what} ({by})") } else { String::new() }
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

#[cfg(test)]
mod tests {
    use super::super::super::{fixture, summarise};
    use super::*;
    use rnic_transport::Time;

    /// Samples of `count` queues and links, of which the last is the longest queue and the busiest link.
    fn samples(count: u32) -> Samples {
        let queue = |index| QueueSamples { name: format!("s0:h{index}"), bytes: vec![0, 10 * index, 0] };
        let link = |index| LinkSamples {
            name: format!("s0:h{index}"),
            transmitters: 1,
            busy_ps: vec![5, 5 + u64::from(index) * 1_000_000, 5 + u64::from(index) * 1_000_000],
        };
        Samples {
            start: Time::ZERO,
            interval: Time::from_us(200),
            count: 3,
            queues: (1..=count).map(queue).collect(),
            links: (1..=count).map(link).collect(),
            flows: Vec::new(),
        }
    }

    fn lines(board: &Board) -> &Lines {
        match board.figures().next() {
            Some(Figure::Lines(lines)) => lines,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_longest_queues_and_the_busiest_links_are_drawn() {
        let (scenario, mut reports) = fixture::two_runs();
        reports[0].output.samples = Some(samples(110));
        let boards = boards(&summarise(&scenario, &reports), &reports);
        assert_eq!(boards.len(), 2);
        let (queues, links) = (&boards[0].1, &boards[1].1);
        assert_eq!((queues.series.len(), queues.shown, queues.series[0].as_str()), (12, 8, "s0:h110"));
        assert!(lines(queues).caption.ends_with("; the 12 longest of 110 queues (by maximum)"));
        assert_eq!((links.series[0].as_str(), links.series[11].as_str()), ("s0:h110", "s0:h99"));
        assert!(lines(links).caption.ends_with("; the 12 busiest of 110 links (by mean utilisation)"));
        // The link was sending for 110 of the first 200 us, and not in the next 200 us.
        let points: Vec<_> = lines(links).views[0].lines[0].points.iter().map(|p| (p.x, p.y)).collect();
        assert_eq!(points, [(200.0, 55.0), (400.0, 0.0)]);
    }

    #[test]
    fn a_queue_that_is_long_in_any_run_has_a_view() {
        let (scenario, mut reports) = fixture::two_runs();
        reports[0].output.samples = Some(samples(12));
        let mut second = samples(12);
        second.queues[2].bytes[1] = 9_000;
        reports[1].output.samples = Some(second);
        let boards = boards(&summarise(&scenario, &reports), &reports);
        assert_eq!(boards[0].0, "Over time: all runs");
        let names: Vec<&str> = lines(&boards[0].1).views.iter().map(|view| view.name.as_str()).collect();
        assert_eq!(names, ["s0:h3", "s0:h12", "s0:h11", "s0:h10", "s0:h9", "s0:h8", "s0:h7", "s0:h6"]);
        assert!(lines(&boards[0].1).caption.ends_with("; the 8 longest of 12 queues (by maximum)"));
    }
}
