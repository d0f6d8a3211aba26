//! Figures of distributions: flow completion times, their slowest part, and the lengths of queues by tier.

use super::super::ranks::{Ranked, nearest_rank, ranked};
use super::super::stats;
use super::super::summary::ScenarioSummary;
use super::super::tiers::{kind, link};
use super::figure::{Axis, Line, Lines, Point, Scale, Unit, View};
use super::runs::MANY;
use rnic_fabric::config::TopologySpec;
use rnic_spec::{FlowLog, PortRecord, RunOutput, RunRecord, RunSpec, Scenario};
use std::collections::BTreeMap;

/// Percentiles, in thousandths, whose points have a name in the tooltip.
const MARKS: [(u32, &str); 3] = [(500, "median"), (990, "99th percentile"), (999, "99.9th percentile")];

/// Percentiles of the figure of the slowest flows, in thousandths; they are equidistant on its axis.
const SLOWEST: [u32; 24] = [
    500, 550, 600, 650, 700, 750, 800, 840, 870, 900, 920, 940, 950, 960, 970, 980, 985, 990, 992, 994, 996, 997, 998,
    999,
];

/// The figure of the slowest flows is drawn only if a curve reaches this percentile, which takes about 50 flows.
const MIN_PERCENTILE: f64 = 98.0;

/// Percentiles of the figures of queues, in thousandths.
const QUEUES: [u32; 31] = [
    0, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700, 750, 800, 850, 900, 920, 940, 950, 960,
    970, 980, 985, 990, 995, 998, 999, 1000,
];

/// Figure of the distribution of the flow completion time, with a curve per run: the percentage of measured flows that
/// finished within a time. `None` if no flow was measured.
pub(super) fn fct(summary: &ScenarioSummary, reports: &[RunRecord]) -> Option<Lines> {
    let step = if summary.runs.len() > MANY { 20 } else { 5 };
    let per_mille: Vec<u32> = (0..990).step_by(step).chain(990..=1000).collect();
    let line = |(series, report): (usize, &RunRecord)| Line {
        series,
        points: match summary.runs[series].failure {
            Some(_) => Vec::new(),
            None => distribution(&report.output.flows, &per_mille),
        },
    };
    let lines: Vec<Line> = reports.iter().enumerate().take(summary.runs.len()).map(line).collect();
    lines.iter().any(|line| !line.points.is_empty()).then(|| Lines {
        title: "Distribution of the flow completion time".into(),
        caption:
            "percentage of the measured flows that finished within a time, with lines at the median, the 99th and the \
                  99.9th percentile; further left is better"
                .into(),
        x: Axis { name: "Flow completion time".into(), unit: Unit::Time, scale: Scale::Log },
        y: Axis { name: "Percentage of flows".into(), unit: Unit::Percent, scale: Scale::Zero },
        drops: true,
        views: vec![View { name: String::new(), lines }],
        ..Lines::default()
    })
}

/// The completion times of the measured flows, in microseconds, at these percentiles, in thousandths; `None` if no flow
/// was measured.
fn completion_times(flows: &FlowLog, per_mille: &[u32]) -> Option<Ranked> {
    let fct = ranked(flows, &[per_mille], |flow, add| {
        if let Some(fct) = stats::fct_us(flow).filter(|_| flow.measured) {
            add(0, fct);
        }
    });
    fct.into_iter().next().flatten()
}

/// The flow completion times of the measured flows at these percentiles, in thousandths. Among percentiles with the
/// same completion time, only the first and the last become points.
fn distribution(flows: &FlowLog, per_mille: &[u32]) -> Vec<Point> {
    let Some(fct) = completion_times(flows, per_mille) else { return Vec::new() };
    let mut points: Vec<Point> = Vec::new();
    for (per_mille, fct) in per_mille.iter().zip(fct.at) {
        let note = MARKS.iter().find(|(mark, _)| mark == per_mille).map_or("", |(_, name)| *name);
        let point = Point { note: note.to_string(), ..Point::at(fct, f64::from(*per_mille) / 10.0) };
        match points.as_mut_slice() {
            [.., before, last] if before.x == fct && last.x == fct && last.note.is_empty() => *last = point,
            _ => points.push(point),
        }
    }
    points
}

/// Figure of the slowest flows, with a curve per run: the completion time within which 50 to 99.9 % of the measured
/// flows finish. `None` if too few flows were measured.
pub(super) fn slowest(summary: &ScenarioSummary, reports: &[RunRecord]) -> Option<Lines> {
    let line = |(series, report): (usize, &RunRecord)| Line {
        series,
        points: match summary.runs[series].failure {
            Some(_) => Vec::new(),
            None => upper(&report.output.flows),
        },
    };
    let lines: Vec<Line> = reports.iter().enumerate().take(summary.runs.len()).map(line).collect();
    let is_long = |line: &Line| line.points.last().is_some_and(|last| last.y >= MIN_PERCENTILE);
    lines.iter().any(is_long).then(|| Lines {
        title: "The slowest flows".into(),
        caption: "time within which 50 %, 90 %, 99 % and 99.9 % of the measured flows finished; further left is better"
            .into(),
        x: Axis { name: "Flow completion time".into(), unit: Unit::Time, scale: Scale::Auto },
        y: Axis { name: "Percentile of flows".into(), unit: Unit::Percent, scale: Scale::Nines },
        views: vec![View { name: String::new(), lines }],
        ..Lines::default()
    })
}

/// Completion times from the median on. The curve ends at the last percentile above which there is at least one flow.
fn upper(flows: &FlowLog) -> Vec<Point> {
    let Some(fct) = completion_times(flows, &SLOWEST) else { return Vec::new() };
    let known = |(per_mille, _): &(u32, f64)| fct.count as u64 * u64::from(1000 - per_mille) >= 1000;
    let points = SLOWEST.into_iter().zip(fct.at.iter().copied()).take_while(known);
    points.map(|(per_mille, fct)| Point::at(fct, f64::from(per_mille) / 10.0)).collect()
}

/// The queues of a run by tier: each value is a number of bytes.
type Tiers = BTreeMap<(usize, String), Vec<f64>>;

/// Figure of the lengths of queues, with a view per tier and a curve per run: of the samples of queues if the run has
/// samples, otherwise of the maximum of each port. `None` if no queue was ever used.
pub(super) fn queues(scenario: &Scenario, summary: &ScenarioSummary, reports: &[RunRecord]) -> Option<Lines> {
    let runs = || scenario.runs.iter().zip(reports).take(summary.runs.len());
    let is_sampled =
        |report: &RunRecord| report.output.samples.as_ref().is_some_and(|samples| !samples.queues.is_empty());
    let of_samples = reports.iter().any(is_sampled);
    let tiers = |(run, report): (&RunSpec, &RunRecord)| match of_samples {
        true => sampled(&run.fabric.topology, &report.output),
        false => maxima(&run.fabric.topology, &report.output),
    };
    let has_failed = summary.runs.iter().map(|run| run.failure.is_some());
    let of_run = |(of, has_failed)| if has_failed { Tiers::new() } else { tiers(of) };
    let of_runs: Vec<Tiers> = runs().zip(has_failed).map(of_run).collect();
    let mut names: Vec<&(usize, String)> = of_runs.iter().flat_map(BTreeMap::keys).collect();
    names.sort_unstable();
    names.dedup();
    let view = |name: &(usize, String)| {
        let points = |tiers: &Tiers| tiers.get(name).map_or(Vec::new(), |values| percentiles(values));
        let line = |(series, tiers): (usize, &Tiers)| Line { series, points: points(tiers) };
        View { name: name.1.clone(), lines: of_runs.iter().enumerate().map(line).collect() }
    };
    let used =
        |name: &&&(usize, String)| of_runs.iter().filter_map(|of| of.get(**name)).flatten().any(|bytes| *bytes > 0.0);
    let views: Vec<View> = names.iter().filter(used).map(|name| view(name)).collect();
    let (title, caption, what) = match of_samples {
        true => (
            "Queues by tier",
            "share of the samples at which a watched queue was at most this long",
            "Percentage of samples",
        ),
        false => (
            "Fullest buffers by tier",
            "share of the ports whose buffer never held more than this; sampled queues need `queues` in [watch]",
            "Percentage of ports",
        ),
    };
    (!views.is_empty()).then(|| Lines {
        title: title.into(),
        caption: caption.into(),
        x: Axis { name: "Bytes".into(), unit: Unit::Bytes, scale: Scale::Zero },
        y: Axis { name: what.into(), unit: Unit::Percent, scale: Scale::Zero },
        views,
        ..Lines::default()
    })
}

/// The samples of the watched queues.
fn sampled(topology: &TopologySpec, output: &RunOutput) -> Tiers {
    let mut tiers = Tiers::new();
    // Parallel links share a name; the first of them stands for all, which lead to the same node.
    let ports: BTreeMap<String, &PortRecord> = output.ports.iter().rev().map(|port| (link(port), port)).collect();
    for queue in output.samples.iter().flat_map(|samples| &samples.queues) {
        let Some(port) = ports.get(&queue.name) else { continue };
        let tier = format!("{} to {}", kind(topology, &port.node), kind(topology, &port.peer));
        tiers.entry((0, tier)).or_default().extend(queue.bytes.iter().map(|bytes| f64::from(*bytes)));
    }
    tiers
}

/// The maximum occupancy of the buffer of each port of a switch.
fn maxima(topology: &TopologySpec, output: &RunOutput) -> Tiers {
    let mut tiers = Tiers::new();
    for port in &output.ports {
        let (own, peer) = (kind(topology, &port.node), kind(topology, &port.peer));
        if own != "host" {
            let fullest = port.priorities.iter().map(|of| of.queue_high_water).sum::<u64>();
            tiers.entry((1, format!("{own}, ports to {peer}"))).or_default().push(fullest as f64);
        }
    }
    tiers
}

/// The distribution of values as points of a curve.
fn percentiles(values: &[f64]) -> Vec<Point> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let point = |per_mille: u32| {
        let bytes = nearest_rank(&sorted, per_mille.max(1))?;
        Some(Point::at(bytes, f64::from(per_mille) / 10.0))
    };
    QUEUES.into_iter().filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::{fixture, summarise};
    use super::*;
    use rnic_spec::{FlowRecord, QueueSamples, Samples};
    use rnic_transport::Time;

    fn flows(n: u64) -> FlowLog {
        let flow = |i| FlowRecord { finish: Some(Time::from_us(i)), ..fixture::flow(i as u32 - 1, 1_000) };
        (1..=n).map(flow).collect()
    }

    fn marked(x: f64, y: f64, note: &str) -> Point {
        Point { note: note.to_string(), ..Point::at(x, y) }
    }

    #[test]
    fn a_distribution_begins_at_the_minimum_and_ends_at_the_maximum() {
        let per_mille: Vec<u32> = (0..=1000).step_by(5).collect();
        let points = distribution(&flows(1_000), &per_mille);
        assert_eq!((points.first(), points.last()), (Some(&Point::at(1.0, 0.0)), Some(&Point::at(1_000.0, 100.0))));
        assert_eq!(points[100], marked(500.0, 50.0, "median"));
        assert_eq!(points[198], marked(990.0, 99.0, "99th percentile"));
        // Two flows: the curve has two vertical steps.
        let steps =
            [(1.0, 0.0, ""), (1.0, 50.0, "median"), (2.0, 50.5, ""), (2.0, 99.0, "99th percentile"), (2.0, 100.0, "")];
        assert_eq!(distribution(&flows(2), &per_mille), steps.map(|(x, y, note)| marked(x, y, note)));
        assert_eq!(distribution(&FlowLog::new(), &per_mille), []);
    }

    #[test]
    fn the_slowest_flows_end_where_the_flows_end() {
        let points = upper(&flows(1_000));
        let ends = (points.len(), points.first(), points.last());
        assert_eq!(ends, (24, Some(&Point::at(500.0, 50.0)), Some(&Point::at(999.0, 99.9))));
        // Above the 98th percentile of 50 flows is one flow.
        assert_eq!(upper(&flows(50)).last(), Some(&Point::at(49.0, 98.0)));
    }

    #[test]
    fn buffers_by_tier() {
        let (scenario, mut reports) = fixture::two_runs();
        // Both runs have the ports h0 to s0, s0 to h1 and s0 to s1.
        for (report, factor) in reports.iter_mut().zip([1, 2]) {
            for (port, bytes) in report.output.ports.iter_mut().zip([7_000, 1_000, 3_000]) {
                port.priorities.iter_mut().for_each(|of| of.queue_high_water = 0);
                port.priorities[0].queue_high_water = bytes * factor;
            }
        }
        let figure = queues(&scenario, &summarise(&scenario, &reports), &reports).unwrap();
        let ends: Vec<_> = figure
            .views
            .iter()
            .flat_map(|view| {
                view.lines.iter().map(|line| (view.name.as_str(), line.series, line.points.last().unwrap().x))
            })
            .collect();
        let (host, switch) = ("switch, ports to host", "switch, ports to switch");
        assert_eq!(ends, [(host, 0, 1_000.0), (host, 1, 2_000.0), (switch, 0, 3_000.0), (switch, 1, 6_000.0)]);
        assert_eq!(figure.title, "Fullest buffers by tier");
    }

    #[test]
    fn sampled_queues_by_tier() {
        let (scenario, mut reports) = fixture::two_runs();
        let queue = |name: &str, bytes: [u32; 4]| QueueSamples { name: name.into(), bytes: bytes.to_vec() };
        reports[1].output.samples = Some(Samples {
            start: Time::ZERO,
            interval: Time::from_us(1),
            count: 4,
            queues: vec![queue("s0:h1", [0, 40, 10, 20]), queue("s0:s1", [0, 0, 0, 0])],
            links: Vec::new(),
            flows: Vec::new(),
        });
        let figure = queues(&scenario, &summarise(&scenario, &reports), &reports).unwrap();
        // The queue to the switch was always empty, and the first run has no samples.
        let [view] = figure.views.as_slice() else { panic!("{:?}", figure.views) };
        assert_eq!((view.name.as_str(), view.lines.len(), view.lines[0].points.len()), ("switch to host", 2, 0));
        let at = |percent: f64| view.lines[1].points.iter().find(|point| point.y == percent).unwrap().x;
        assert_eq!([0.0, 25.0, 30.0, 50.0, 75.0, 80.0, 100.0].map(at), [0.0, 0.0, 10.0, 10.0, 20.0, 40.0, 40.0]);
    }
}
