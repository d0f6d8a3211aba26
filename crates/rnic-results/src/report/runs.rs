//! The figures in the report of a scenario's runs.

use super::super::compare::Metric;
use super::super::estimate::{CONFIDENCE, Estimate};
use super::super::ranks::{Ranked, ranked};
use super::super::stats;
use super::super::summary::{Group, RunSummary, ScenarioSummary};
use super::distributions;
use super::figure::{Axis, Bar, BarGroup, Bars, Board, Figure, Line, Lines, Point, Reference, Scale, Unit, View};
use super::over_time;
use super::overview::title;
use super::settings::Settings;
use super::sweep::{self, Categories, Sweep, SweepPoint};
use super::{steps, timeline};
use rnic_spec::FlowLog;
use rnic_spec::RunRecord;
use rnic_spec::{RunSpec, Scenario};

/// Maximum number of runs for which each bar has the colour of its run. With more runs, bars have the colour of the
/// run's transport, and only the curves of the first [`FEW`] runs are visible when the page loads.
pub(super) const MANY: usize = 8;
/// Number of runs whose curves are visible when the page loads, if there are more than [`MANY`] runs.
const FEW: usize = 8;

/// The figures of a scenario's report as (heading, board); a board is a legend and the figures that share it. Empty if
/// no flow was measured.
pub fn boards(scenario: &Scenario, summary: &ScenarioSummary, reports: &[RunRecord]) -> Vec<(String, Board)> {
    let Boards { main, details, over_time } = Boards::of(scenario, summary, reports);
    [main, details, over_time].concat()
}

/// The figures of a scenario's report by their place on the page, each as (heading, board).
pub(super) struct Boards {
    /// The main comparison: the metrics of all runs.
    pub(super) main: Vec<(String, Board)>,
    /// Distributions: the tail, slowdown by flow size, completion times.
    pub(super) details: Vec<(String, Board)>,
    /// Samples of queues, links and flows.
    pub(super) over_time: Vec<(String, Board)>,
}

impl Boards {
    pub(super) fn of(scenario: &Scenario, summary: &ScenarioSummary, reports: &[RunRecord]) -> Boards {
        let mut over_time = over_time::boards(summary, reports);
        over_time.extend(timeline::boards(scenario, reports));
        let parts = timeline::parts(summary).map(|board| ("Where the time of a step goes".to_string(), board));
        if summary.runs.iter().all(|run| run.fct_us.is_none()) {
            // Samples are worth seeing even if no flow finished.
            let main = parts.into_iter().chain(steps::boards(summary)).collect();
            return Boards { main, details: Vec::new(), over_time };
        }
        let mut main = comparison(summary, &Settings::of(scenario, summary));
        main.extend(parts);
        main.extend(steps::boards(summary));
        let curves: Vec<Vec<Figure>> =
            curves(scenario, summary, reports).into_iter().map(|figure| vec![figure]).collect();
        let names: Vec<String> = summary.runs.iter().map(|run| run.name.clone()).collect();
        let shown = if names.len() > MANY { FEW } else { 0 };
        let heading = if names.len() == 1 { "Distributions" } else { "Distributions of single runs" };
        let board = Board { series: names, shown, rows: curves };
        let details = if board.rows.is_empty() { Vec::new() } else { vec![(heading.to_string(), board)] };
        Boards { main, details, over_time }
    }
}

/// The figures that compare the metrics of all runs: over a setting that varies if there is one, else a bar per run.
fn comparison(summary: &ScenarioSummary, settings: &Settings) -> Vec<(String, Board)> {
    let fan_in = sweep::find(summary, settings, |key| key.starts_with("traffic.") && key.ends_with("senders"));
    if let Some(sweep) = fan_in.filter(|_| summary.swept().is_empty()) {
        return [vec![("Incast".to_string(), incast(summary, &sweep))], all_runs(summary)].concat();
    }
    if let Some(sweep) = sweep::of_sweep(summary) {
        let is_fan_in = sweep.key.starts_with("traffic.") && sweep.key.ends_with(".senders") && sweep.views.len() == 1;
        let incast = is_fan_in.then(|| ("Incast".to_string(), incast(summary, &sweep)));
        return incast.into_iter().chain([(format!("Over {}", sweep.key), over(summary, &sweep))]).collect();
    }
    if let Some(categories) = sweep::categories(summary) {
        let heading = match categories.keys.as_slice() {
            [] => "Metrics".to_string(),
            keys => format!("By {}", keys.join(" and ")),
        };
        return vec![(heading, by_category(summary, &categories))];
    }
    let swept = sweep::find(summary, settings, |_| true).filter(|sweep| sweep.longest() > 2);
    let swept = swept.map(|sweep| (format!("Over {}", sweep.key), over(summary, &sweep)));
    swept.into_iter().chain(all_runs(summary)).collect()
}

/// The bars of all metrics, with a bar per run.
fn all_runs(summary: &ScenarioSummary) -> Vec<(String, Board)> {
    let many = summary.runs.len() > MANY;
    let sources: Vec<Figure> = if many { Vec::new() } else { by_source(summary) };
    let metrics = metrics(summary).into_iter().map(|metric| Figure::Bars(bars(summary, metric))).collect();
    let rows = [sources, metrics].into_iter().filter(|row| !row.is_empty()).collect();
    let names = summary.runs.iter().map(|run| run.name.clone()).collect();
    let (heading, series) = if many { ("All runs", names_of_kinds(summary)) } else { ("Metrics", names) };
    vec![(heading.to_string(), Board { series, shown: 0, rows })]
}

/// Figures of the distributions of completion times and slowdowns, with a curve per run.
fn curves(scenario: &Scenario, summary: &ScenarioSummary, reports: &[RunRecord]) -> Vec<Figure> {
    // If all flows have about the same size, curves over the size would be single points.
    let by_size = slowdown_by_size(summary, reports).map(|lines| match has_one_size(&lines) {
        true => Figure::Bars(slowdown_percentiles(summary)),
        false => Figure::Lines(lines),
    });
    let tails = tails(scenario, summary, reports).map(Figure::Lines);
    let fcts = distributions::fct(summary, reports).map(Figure::Lines);
    let slowest = distributions::slowest(summary, reports).map(Figure::Lines);
    let queues = distributions::queues(scenario, summary, reports).map(Figure::Lines);
    [tails, by_size, fcts, slowest, queues].into_iter().flatten().collect()
}

/// Bar charts of the average slowdown and of the 99th percentile FCT by traffic source, with a bar per run; empty if
/// there is only one source.
fn by_source(summary: &ScenarioSummary) -> Vec<Figure> {
    type Value = fn(&Group) -> Option<f64>;
    let metrics: [(&str, Unit, Value); 2] = [
        ("Average slowdown by traffic source", Unit::Number, |of| Some(of.slowdown?.mean)),
        ("99th percentile FCT by traffic source", Unit::Time, |of| Some(of.fct_us?.p99)),
    ];
    let names = source_names(summary);
    let figure = |(title, unit, value): (&str, Unit, Value)| {
        let bar = |source: usize, series: usize, run: &RunSummary| {
            let value = run.traffic.get(source).and_then(|source| value(&source.group));
            Bar { series, value, ..Bar::default() }
        };
        let group = |(source, name): (usize, &&str)| BarGroup {
            name: (*name).to_string(),
            bars: summary.runs.iter().enumerate().map(|(series, run)| bar(source, series, run)).collect(),
            stated: None,
        };
        Figure::Bars(Bars {
            title: title.into(),
            caption: "lower is better".into(),
            unit,
            groups: names.iter().enumerate().map(group).collect(),
            reference: None,
        })
    };
    if names.is_empty() { Vec::new() } else { metrics.into_iter().map(figure).collect() }
}

/// Names of the traffic sources; empty if there is only one.
fn source_names(summary: &ScenarioSummary) -> Vec<&str> {
    let sources = summary.runs.iter().map(|run| run.traffic.as_slice()).max_by_key(|sources| sources.len());
    sources.map_or(Vec::new(), |sources| sources.iter().map(|source| source.name.as_str()).collect())
}

/// Average slowdown of one traffic source.
fn of_source(run: &RunSummary, source: usize) -> Option<f64> {
    Some(run.traffic.get(source)?.group.slowdown?.mean)
}

/// The metrics that the report shows for every run. The request completion time is one of them if there are requests.
fn metrics(summary: &ScenarioSummary) -> Vec<Metric> {
    let mut metrics = Metric::OF_FLOWS.to_vec();
    if summary.runs.iter().any(|run| run.requests.is_some()) {
        metrics.push(Metric::AverageRct);
    }
    metrics
}

fn unit(metric: Metric) -> Unit {
    match metric {
        Metric::AverageSlowdown => Unit::Number,
        _ => Unit::Time,
    }
}

/// The bar chart of one metric, with a bar per run. With many runs, the colour of a bar shows the kind of run
/// (transport, congestion control, PFC).
fn bars(summary: &ScenarioSummary, metric: Metric) -> Bars {
    let kinds = kinds(summary);
    let many = summary.runs.len() > MANY;
    let bar = |(index, run): (usize, &RunSummary)| Bar {
        series: if many { kinds.iter().position(|k| *k == kind(run)).unwrap_or(0) } else { index },
        name: run.name.clone(),
        value: metric.value(run),
        interval: None,
        note: note(summary, metric, run),
    };
    Bars {
        title: title(metric).to_string(),
        caption: "lower is better".to_string(),
        unit: unit(metric),
        groups: vec![BarGroup { bars: summary.runs.iter().enumerate().map(bar).collect(), ..BarGroup::default() }],
        reference: None,
    }
}

/// The note in the tooltip of a run's bar: how the run compares with its reference run, or that it failed.
fn note(summary: &ScenarioSummary, metric: Metric, run: &RunSummary) -> String {
    let reference = summary.reference(run).filter(|reference| !std::ptr::eq(*reference, run));
    let change = reference.and_then(|reference| Some((metric.change(reference, run)?, reference)));
    match (change, &run.failure, run.interrupted) {
        (_, Some(_), _) => "failed".to_string(),
        (None, None, true) => "partial: the run was interrupted".to_string(),
        (Some((change, reference)), None, interrupted) => {
            let partial = if interrupted { "; partial" } else { "" };
            format!("{} than {}{partial}", change.to_string().replace('x', "\u{d7}"), reference.name)
                .replace("same than", "same as")
        }
        (None, None, false) => String::new(),
    }
}

/// The settings that distinguish kinds of runs: name of the transport, name of the congestion control, and whether PFC
/// is on.
type Kind<'a> = (&'a str, &'a str, bool);

fn kind(run: &RunSummary) -> Kind<'_> {
    (&run.transport, &run.cc, run.pfc)
}

/// The kinds of runs (transport, congestion control, PFC) in the scenario, in order of first appearance.
fn kinds(summary: &ScenarioSummary) -> Vec<Kind<'_>> {
    let mut kinds = Vec::new();
    for kind in summary.runs.iter().map(kind) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

/// Names of the kinds of runs (transport, congestion control, PFC) for the legend, in the order of [`kinds`].
fn names_of_kinds(summary: &ScenarioSummary) -> Vec<String> {
    let runs_of = |wanted: &Kind<'_>| {
        let runs = summary.runs.iter().enumerate().filter(|(_, run)| kind(run) == *wanted);
        runs.map(|(index, _)| index).collect()
    };
    let groups: Vec<Vec<usize>> = kinds(summary).iter().map(runs_of).collect();
    sweep::names(summary, &groups)
}

/// The figures of a sweep over the number of senders of an incast (the fan-in): request completion time against fan-in,
/// and the ratio of this time to the request completion time of the first series at the same fan-in.
fn incast(summary: &ScenarioSummary, sweep: &Sweep) -> Board {
    let x = || Axis { name: "Senders (fan-in)".into(), unit: Unit::Number, scale: Scale::Linear };
    let value = |run: usize| Metric::AverageRct.value(&summary.runs[run]);
    let mut row = vec![Figure::Lines(Lines {
        title: "Request completion time against fan-in".into(),
        caption: format!("mean over the requests; lower is better{}", of_seeds(sweep)),
        x: x(),
        y: Axis { name: "Request completion time".into(), unit: Unit::Time, scale: Scale::Zero },
        dots: true,
        views: views(summary, sweep, |point| estimate(point, value)),
        ..Lines::default()
    })];
    if let Some(first) = sweep.views[0].series.first().filter(|_| sweep.names.len() > 1) {
        // The first series contains the scenario's first run. At each fan-in of the first series, the other series are
        // compared with it, each run with the run of the same seed.
        let reference = |x: f64, run: usize| {
            let runs = &first.iter().find(|point| point.x == x)?.runs;
            let seed = summary.runs[run].seed;
            value(*runs.iter().find(|other| runs.len() == 1 || summary.runs[**other].seed == seed)?)
        };
        let mut ratios = views(summary, sweep, |point| {
            estimate(point, |run| Some(value(run)? / reference(point.x, run).filter(|of| *of > 0.0)?))
        });
        ratios.iter_mut().for_each(|view| view.lines.retain(|line| line.series != 0));
        row.push(Figure::Lines(Lines {
            title: format!("Ratio to {}", sweep.names[0]),
            caption: format!("request completion times at the same fan-in; below 1 is better{}", of_seeds(sweep)),
            x: x(),
            y: Axis { name: "Ratio".into(), unit: Unit::Factor, scale: Scale::Linear },
            dots: true,
            views: ratios,
            reference: Some(Reference { value: 1.0, name: sweep.names[0].clone() }),
            ..Lines::default()
        }));
    }
    Board { series: sweep.names.clone(), shown: 0, rows: vec![row] }
}

/// Figures of a sweep: every metric against the setting that varies. With several traffic sources, the slowdown of each
/// source has its own view.
fn over(summary: &ScenarioSummary, sweep: &Sweep) -> Board {
    let name = if sweep.unit.is_empty() { sweep.key.clone() } else { format!("{}, {}", sweep.key, sweep.unit) };
    let lines = |title: &str, unit: Unit, views: Vec<View>| {
        Figure::Lines(Lines {
            title: title.to_string(),
            caption: format!("lower is better{}", of_seeds(sweep)),
            x: Axis { name: name.clone(), unit: Unit::Number, scale: Scale::Linear },
            y: Axis { name: String::new(), unit, scale: Scale::Zero },
            dots: true,
            views,
            ..Lines::default()
        })
    };
    let of_metric = |metric: Metric| {
        let value = |run: usize| metric.value(&summary.runs[run]);
        lines(title(metric), unit(metric), views(summary, sweep, |point| estimate(point, value)))
    };
    let source = |(source, name): (usize, &str)| {
        let value = |run: usize| of_source(&summary.runs[run], source);
        let views = views(summary, sweep, |point| estimate(point, value));
        lines(&format!("Average slowdown, {name}"), Unit::Number, views)
    };
    let sources: Vec<Figure> = source_names(summary).into_iter().enumerate().map(source).collect();
    let metrics: Vec<Figure> = metrics(summary).into_iter().map(of_metric).collect();
    let rows = [sources, metrics].into_iter().filter(|row| !row.is_empty()).collect();
    Board { series: sweep.names.clone(), shown: 0, rows }
}

/// Figures of a sweep whose values are not numbers: for every metric, a group of bars for each point.
fn by_category(summary: &ScenarioSummary, categories: &Categories) -> Board {
    let seeds = categories.points.iter().flat_map(|(_, series)| series).map(Vec::len).max().unwrap_or(1);
    let bar = |value: &dyn Fn(usize) -> Option<f64>, series: usize, runs: &[usize]| {
        let (estimate, known) = estimate_of(runs, value);
        Bar {
            series,
            name: String::new(),
            value: estimate.map(|of| of.mean),
            interval: estimate.filter(|of| of.half_width.is_some()).map(|of| of.interval().map(|end| end.max(0.0))),
            note: if runs.len() > 1 { format!("mean of {known} seeds") } else { String::new() },
        }
    };
    let figure = |title: &str, unit: Unit, value: &dyn Fn(usize) -> Option<f64>| {
        let group = |(name, series): &(String, Vec<Vec<usize>>)| BarGroup {
            name: name.clone(),
            bars: series.iter().enumerate().map(|(index, runs)| bar(value, index, runs)).collect(),
            stated: None,
        };
        Figure::Bars(Bars {
            title: title.to_string(),
            caption: format!("lower is better{}", if seeds > 1 { MEANS } else { "" }),
            unit,
            groups: categories.points.iter().map(group).collect(),
            reference: None,
        })
    };
    let of_source = |(source, name): (usize, &str)| {
        figure(&format!("Average slowdown, {name}"), Unit::Number, &|run| of_source(&summary.runs[run], source))
    };
    let sources: Vec<Figure> = source_names(summary).into_iter().enumerate().map(of_source).collect();
    let of_metric = |metric: Metric| figure(title(metric), unit(metric), &|run| metric.value(&summary.runs[run]));
    let metrics: Vec<Figure> = metrics(summary).into_iter().map(of_metric).collect();
    let rows = [sources, metrics].into_iter().filter(|row| !row.is_empty()).collect();
    Board { series: categories.names.clone(), shown: 0, rows }
}

/// The end of the caption of a figure with means over seeds.
const MEANS: &str = "; means over the seeds with their 95 % confidence intervals (Student's t)";

fn of_seeds(sweep: &Sweep) -> &'static str {
    let several = sweep.views.iter().flat_map(|view| &view.series).flatten().any(|point| point.runs.len() > 1);
    if several { MEANS } else { "" }
}

/// The mean of `value` over the runs of a point, and the number of runs with a value.
fn estimate(point: &SweepPoint, value: impl Fn(usize) -> Option<f64>) -> (Option<Estimate>, usize) {
    estimate_of(&point.runs, &value)
}

fn estimate_of(runs: &[usize], value: &dyn Fn(usize) -> Option<f64>) -> (Option<Estimate>, usize) {
    let values: Vec<f64> = runs.iter().filter_map(|run| value(*run)).collect();
    (Estimate::of(&values, CONFIDENCE), values.len())
}

/// The curves of a sweep. Points for which `value` returns no mean are left out.
fn views(
    summary: &ScenarioSummary, sweep: &Sweep, value: impl Fn(&SweepPoint) -> (Option<Estimate>, usize),
) -> Vec<View> {
    let point = |of: &SweepPoint| {
        let (estimate, known) = value(of);
        let estimate = estimate?;
        let note = match of.runs.as_slice() {
            [run] => summary.runs[*run].name.clone(),
            _ => format!("mean of {known} seeds"),
        };
        // No metric is negative, so an interval that reaches below zero is drawn from zero on.
        let interval = estimate.half_width.map(|_| estimate.interval().map(|end| end.max(0.0)));
        Some(Point { interval, note, ..Point::at(of.x, estimate.mean) })
    };
    let line = |(series, points): (usize, &Vec<SweepPoint>)| Line {
        series,
        points: points.iter().filter_map(point).collect(),
    };
    let view = |view: &sweep::SweepView| View {
        name: view.name.clone(),
        lines: view.series.iter().enumerate().map(line).collect(),
    };
    sweep.views.iter().map(view).collect()
}

/// Figure of the tail of the completion times of single-packet messages, with a curve per run from the 90th to the
/// 99.9th percentile, or to the last percentile above which there is a message. `None` if no run has such messages.
pub fn tails(scenario: &Scenario, summary: &ScenarioSummary, reports: &[RunRecord]) -> Option<Lines> {
    // With many curves, every fifth point up to the 99th percentile is enough.
    let many = summary.runs.len() > MANY;
    let kept = |point: &Point| !many || point.y >= 99.0 || (point.y * 2.0).fract() == 0.0;
    let line = |(series, (spec, report)): (usize, (&RunSpec, &RunRecord))| Line {
        series,
        points: match summary.runs[series].failure {
            Some(_) => Vec::new(),
            None => tail(&report.output.flows, spec.fabric.mtu.0).into_iter().filter(kept).collect(),
        },
    };
    let lines: Vec<Line> = scenario.runs.iter().zip(reports).enumerate().map(line).collect();
    let last = lines.iter().flat_map(|line| &line.points).map(|point| point.y).fold(0.0, f64::max);
    lines.iter().any(|line| !line.points.is_empty()).then(|| Lines {
        title: "Tail of single-packet messages".into(),
        caption: format!("time within which 90 % to {last} % of these messages complete; further left is better"),
        x: Axis { name: "Flow completion time".into(), unit: Unit::Time, scale: Scale::Auto },
        y: Axis { name: "Percentile of messages".into(), unit: Unit::Percent, scale: Scale::Nines },
        views: vec![View { name: String::new(), lines }],
        ..Lines::default()
    })
}

/// Figure of the slowdown by flow size: median, 95th and 99th percentile, with a curve per run. `None` if no flow was
/// measured.
fn slowdown_by_size(summary: &ScenarioSummary, reports: &[RunRecord]) -> Option<Lines> {
    let points: Vec<Vec<SizePoint>> = summary
        .runs
        .iter()
        .zip(reports)
        .map(|(run, report)| if run.failure.is_some() { Vec::new() } else { by_size(&report.output.flows) })
        .collect();
    let view = |name: &str, pick: fn(&SizePoint) -> Option<f64>| View {
        name: name.to_string(),
        lines: points
            .iter()
            .enumerate()
            .map(|(series, points)| Line {
                series,
                points: points
                    .iter()
                    .filter_map(|point| {
                        let flows = super::super::text::count(point.flows as u64);
                        Some(Point { note: format!("{flows} flows"), ..Point::at(point.bytes, pick(point)?) })
                    })
                    .collect(),
            })
            .collect(),
    };
    let views =
        vec![view("Median", |p| Some(p.p50)), view("95th percentile", |p| p.p95), view("99th percentile", |p| p.p99)];
    // The view that is visible first is the highest percentile for which most flow sizes have enough flows.
    let filled = |view: &View| view.lines.iter().map(|line| line.points.len()).sum::<usize>();
    let first = views.iter().rposition(|view| 2 * filled(view) > filled(&views[0])).unwrap_or(0);
    points.iter().any(|points| !points.is_empty()).then(|| Lines {
        title: "Slowdown by flow size".into(),
        caption: "over flows of similar size; lower is better".into(),
        x: Axis { name: "Flow size".into(), unit: Unit::Bytes, scale: Scale::Log },
        y: Axis { name: "Slowdown".into(), unit: Unit::Number, scale: Scale::Auto },
        dots: true,
        views,
        first,
        ..Lines::default()
    })
}

/// Whether every curve of [`slowdown_by_size`] is one point, and all points have about the same flow size.
fn has_one_size(lines: &Lines) -> bool {
    let of_lines = lines.views.iter().flat_map(|view| &view.lines);
    let sizes: Vec<f64> = of_lines.clone().flat_map(|line| &line.points).map(|point| point.x).collect();
    let (min, max) = sizes.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), size| (min.min(*size), max.max(*size)));
    of_lines.into_iter().all(|line| line.points.len() <= 1) && max <= 1.5 * min
}

/// The bar chart of the median, the 95th and the 99th percentile of the slowdown, for flows of one size.
fn slowdown_percentiles(summary: &ScenarioSummary) -> Bars {
    let group = |name: &str, pick: fn(&stats::Distribution) -> f64| BarGroup {
        name: name.to_string(),
        bars: summary
            .runs
            .iter()
            .enumerate()
            .map(|(series, run)| Bar {
                series,
                value: run.slowdown.as_ref().filter(|_| run.failure.is_none()).map(pick),
                ..Bar::default()
            })
            .collect(),
        stated: None,
    };
    Bars {
        title: "Slowdown percentiles".into(),
        caption: "all flows have about the same size; lower is better".into(),
        unit: Unit::Number,
        groups: vec![
            group("median", |slowdown| slowdown.p50),
            group("95th percentile", |slowdown| slowdown.p95),
            group("99th percentile", |slowdown| slowdown.p99),
        ],
        reference: None,
    }
}

/// Percentiles of the completion time of single-packet messages, from the 90th on in steps of 0.1 %. The curve ends at
/// the last percentile above which there is at least one flow: with 500 flows, this is the 99.8th. Percentiles are
/// computed as in the summary, so the curve passes through the summary's 99th and 99.9th percentiles.
fn tail(flows: &FlowLog, mtu: u64) -> Vec<Point> {
    let per_mille: Vec<u32> = (900..=999).collect();
    let fct = ranked(flows, &[&per_mille], |flow, add| {
        if let Some(fct) = stats::fct_us(flow).filter(|_| flow.measured && flow.bytes <= mtu) {
            add(0, fct);
        }
    });
    let Some(Some(fct)) = fct.into_iter().next() else { return Vec::new() };
    per_mille
        .into_iter()
        .zip(fct.at)
        .take_while(|(per_mille, _)| fct.count as u64 * u64::from(1000 - per_mille) >= 1000)
        .map(|(per_mille, fct)| Point::at(fct, f64::from(per_mille) / 10.0))
        .collect()
}

/// Percentiles of the slowdown of flows of similar size. The 95th percentile is `None` for fewer than 20 flows, the
/// 99th percentile for fewer than 100 flows.
#[derive(Clone, Copy, PartialEq, Debug)]
struct SizePoint {
    /// Median flow size in bytes.
    bytes: f64,
    flows: usize,
    p50: f64,
    p95: Option<f64>,
    p99: Option<f64>,
}

/// The slowdown of flows by size. The ranges of flow sizes end at 1, 2, 5, 10, 20, 50, ... bytes.
fn by_size(flows: &FlowLog) -> Vec<SizePoint> {
    let ends: Vec<u64> = range_ends().collect();
    // Each range has two series of values: flow sizes and slowdowns.
    let wanted: Vec<&[u32]> = ends.iter().flat_map(|_| [&[500][..], &[500, 950, 990]]).collect();
    let values = ranked(flows, &wanted, |flow, add| {
        if let Some(slowdown) = stats::slowdown(flow).filter(|_| flow.measured) {
            let range = ends.partition_point(|end| *end < flow.bytes);
            add(2 * range, flow.bytes as f64);
            add(2 * range + 1, slowdown);
        }
    });
    values.chunks(2).filter_map(|range| size_point(range[0].as_ref()?, range[1].as_ref()?)).collect()
}

fn size_point(sizes: &Ranked, slowdowns: &Ranked) -> Option<SizePoint> {
    let [p50, p95, p99] = *slowdowns.at.as_slice() else { return None };
    let flows = slowdowns.count;
    let known = |value, enough| (flows >= enough).then_some(value);
    Some(SizePoint { bytes: *sizes.at.first()?, flows, p50, p95: known(p95, 20), p99: known(p99, 100) })
}

/// Upper ends of the ranges of flow sizes in bytes: 1, 2, 5, 10, 20, 50, ... up to `u64::MAX`.
fn range_ends() -> impl Iterator<Item = u64> {
    let decades = std::iter::successors(Some(1_u64), |decade| decade.checked_mul(10));
    decades.flat_map(|decade| [1, 2, 5].map(|digit| decade.saturating_mul(digit)))
}

#[cfg(test)]
mod tests {
    use super::super::super::{fixture, fixture::flow, summarise};
    use super::*;
    use rnic_spec::FlowRecord;
    use rnic_spec::{Receiver, TrafficPattern};
    use rnic_transport::{Bytes, Time};

    #[test]
    fn size_ranges() {
        let ends: Vec<u64> = range_ends().collect();
        assert_eq!(ends[..8], [1, 2, 5, 10, 20, 50, 100, 200]);
        assert_eq!(ends[57..], [10_000_000_000_000_000_000, u64::MAX, u64::MAX]);
    }

    fn flows(n: u64) -> FlowLog {
        (1..=n).map(|i| FlowRecord { finish: Some(Time::from_us(i)), ..flow(i as u32 - 1, 1_000) }).collect()
    }

    #[test]
    fn the_tail_ends_where_the_flows_end() {
        let thousand = flows(1_000);
        let points = tail(&thousand, 1_000);
        let ends = (points.len(), &points[0], &points[99]);
        assert_eq!(ends, (100, &Point::at(900.0, 90.0), &Point::at(999.0, 99.9)));
        let fifty = flows(50);
        let points = tail(&fifty, 1_000);
        assert_eq!(points.last(), Some(&Point::at(49.0, 98.0)));
        assert_eq!(tail(&fifty, 999), []);
    }

    #[test]
    fn flows_of_one_size_have_bars_instead_of_single_points() {
        let (scenario, mut reports) = fixture::two_runs();
        let titles = |reports: &[RunRecord]| {
            let found = boards(&scenario, &summarise(&scenario, reports), reports);
            let figures = found.iter().flat_map(|(_, board)| board.figures());
            figures.map(|figure| figure.title().to_string()).collect::<Vec<_>>()
        };
        assert!(titles(&reports).contains(&"Slowdown by flow size".to_string()));
        for report in &mut reports {
            report.output.flows = flows(100);
        }
        assert!(!titles(&reports).contains(&"Slowdown by flow size".to_string()));
        let summary = summarise(&scenario, &reports);
        let bars = slowdown_percentiles(&summary);
        let values: Vec<_> = bars.groups.iter().map(|group| group.bars[1].value).collect();
        let slowdown = summary.runs[1].slowdown.unwrap();
        assert_eq!(values, [slowdown.p50, slowdown.p95, slowdown.p99].map(Some));
    }

    #[test]
    fn percentiles_need_enough_flows() {
        let twenty = flows(20);
        let points = by_size(&twenty);
        assert_eq!(points, [SizePoint { bytes: 1_000.0, flows: 20, p50: 2.0, p95: Some(3.8), p99: None }]);
    }

    #[test]
    fn curves_go_through_the_percentiles_of_the_summary() {
        let (scenario, reports) = fixture::showcase();
        let summary = summarise(&scenario, &reports);
        let tails = tails(&scenario, &summary, &reports).unwrap();
        let single = summary.runs[0].sizes[0].group.fct_us.unwrap();
        let at = |percentile| tails.views[0].lines[0].points.iter().find(|p| p.y == percentile).unwrap().x;
        assert_eq!((at(99.0), at(99.9)), (single.p99, single.p999));
        assert!(tails.views[0].lines[3].points.is_empty(), "a failed run has no curve");
    }

    /// A scenario of incasts. For each number of senders it has two runs, one with RoCE and one with IRN.
    fn incasts(senders: &[u32]) -> (Scenario, Vec<RunRecord>) {
        let (scenario, reports) = fixture::two_runs();
        let mut runs = Vec::new();
        for number in senders {
            for run in &scenario.runs {
                let mut run = run.clone();
                run.name = format!("{}, {number} senders", run.name);
                run.traffic[1].pattern = TrafficPattern::Incast {
                    senders: *number,
                    total: Bytes(1_000),
                    repeats: 1,
                    receiver: Receiver::Host(0),
                    connections: 1,
                    interval: None,
                };
                runs.push(run);
            }
        }
        let reports = senders.iter().flat_map(|_| reports.clone()).collect();
        (fixture::scenario(runs), reports)
    }

    #[test]
    fn incasts_of_several_fan_ins_become_curves_with_ratios() {
        let (scenario, reports) = incasts(&[10, 30, 20]);
        let boards = boards(&scenario, &summarise(&scenario, &reports), &reports);
        let (heading, board) = &boards[0];
        assert_eq!(
            (heading.as_str(), &board.series[..]),
            ("Incast", &["RoCE + PFC".to_string(), "IRN".to_string()][..])
        );
        let Figure::Lines(times) = &board.rows[0][0] else { panic!() };
        let shape = |line: &Line| line.points.iter().map(|p| (p.x, p.y)).collect::<Vec<_>>();
        assert_eq!(shape(&times.views[0].lines[0]), [(10.0, 410.0), (20.0, 410.0), (30.0, 410.0)]);
        let Figure::Lines(ratios) = &board.rows[0][1] else { panic!() };
        assert_eq!(ratios.views[0].lines.len(), 1);
        let ratio = 210.0 / 410.0;
        assert_eq!(shape(&ratios.views[0].lines[0]), [(10.0, ratio), (20.0, ratio), (30.0, ratio)]);
    }

    #[test]
    fn one_fan_in_is_no_sweep_and_neither_are_transports() {
        let (scenario, reports) = incasts(&[10]);
        let found = boards(&scenario, &summarise(&scenario, &reports), &reports);
        assert_eq!(
            found.iter().map(|(heading, _)| heading.as_str()).collect::<Vec<_>>(),
            ["Metrics", "Distributions of single runs"]
        );
    }

    #[test]
    fn many_runs_are_coloured_by_transport() {
        let (scenario, reports) = incasts(&[10, 20, 30, 40, 50, 60, 70]);
        let found = boards(&scenario, &summarise(&scenario, &reports), &reports);
        assert_eq!(
            found.iter().map(|(heading, _)| heading.as_str()).collect::<Vec<_>>(),
            ["Incast", "All runs", "Distributions of single runs"]
        );
        assert_eq!(found[1].1.series, ["RoCE + PFC", "IRN"]);
        assert_eq!((found[2].1.series.len(), found[2].1.shown), (14, 8));
    }
}
