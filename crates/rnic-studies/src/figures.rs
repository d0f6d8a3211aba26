//! The figures of a study's report: which results each figure shows.

use super::measured::{Case, Measured, cc_text, each};
use super::metric::{GOODPUT_AXIS, Metric};
use super::verdict::Sample;
use rnic_campaign::statistics::{CONFIDENCE, Estimate};
use rnic_results::report::figure::{
    Axis, Bar, BarGroup, Bars, Board, Figure, Line, Lines, Point, Reference, Scale, Unit, View,
};
use rnic_results::stats::nearest_rank;

/// Description of one figure, or of several figures with a common legend, in the report of a study. Its fields select
/// the results to show.
#[derive(Clone, Copy, Debug)]
pub enum Chart {
    /// Bar charts, one for each metric. A chart has a group of bars for each congestion control and, in each group, a
    /// bar for each run.
    Bars {
        /// (name of the scenario file, name of the run) for each bar; runs without a result are left out.
        runs: &'static [(&'static str, &'static str)],
        /// Names of the congestion controls to show, a group of bars each.
        ccs: &'static [&'static str],
        /// Metrics to show, a bar chart each.
        metrics: &'static [Metric],
        /// Traffic source whose flows are shown; empty for all flows.
        traffic: &'static str,
    },
    /// Tails of the completion time of single-packet messages: a figure for each congestion control, with a curve for
    /// each run.
    Tails {
        /// Name of the scenario file.
        file: &'static str,
        /// Names of the runs to show, a curve each.
        runs: &'static [&'static str],
        /// Names of the congestion controls to show, a figure each.
        ccs: &'static [&'static str],
    },
    /// Curves of the ratio of two runs over the points of a sweep. Each pair of runs has a row of figures. The row has
    /// a figure for each metric, and each figure has a curve for each congestion control.
    Sweep {
        /// Name of the scenario file.
        file: &'static str,
        /// Title of the horizontal axis: the swept quantity.
        axis: &'static str,
        /// Pairs of runs, the numerator and the denominator of a ratio each.
        pairs: &'static [(&'static str, &'static str)],
        /// Names of the congestion controls to show, a curve each.
        ccs: &'static [&'static str],
        /// Metrics to show, a figure each.
        metrics: &'static [Metric],
    },
    /// Bars of the ratio of two runs at the points of a sweep. Each point has a group of bars, with a bar for each
    /// congestion control.
    Points {
        /// Name of the scenario file.
        file: &'static str,
        /// Names of the runs that are the numerator and the denominator of the ratio.
        pair: (&'static str, &'static str),
        /// Names of the congestion controls to show, a bar each.
        ccs: &'static [&'static str],
        /// Metric of which the ratio is computed.
        metric: Metric,
    },
    /// Bars of the median over the seeds, with minimum and maximum as a whisker, as papers show the spread over ECMP
    /// placements. Each case (run at a point of a sweep) has a group of bars, with a bar for each metric.
    Spread {
        /// Title of the figure.
        title: &'static str,
        /// Cases (runs at points of sweeps) to show, a group of bars each.
        groups: &'static [Pick],
        /// Metrics as (name of the bar, metric).
        bars: &'static [(&'static str, Metric)],
        /// Traffic source whose flows are shown; empty for all flows.
        traffic: &'static str,
    },
    /// Curves of a metric over the points of a sweep, one for each case (run and congestion control) in `picks`. A
    /// sweep may vary several keys. A curve then shows only those points whose names end in the same way as the name of
    /// the point in the curve's case.
    Curves {
        /// Title of the horizontal axis: the swept quantity.
        axis: &'static str,
        /// Cases (runs at points of a sweep) to show, a curve each.
        picks: &'static [Pick],
        /// Metric on the vertical axis.
        metric: Metric,
        /// Traffic source whose flows are shown; empty for all flows.
        traffic: &'static str,
    },
    /// Goodput of flows over time, for the first seed: a figure for each case (run at a point of a sweep), with a curve
    /// for each flow.
    Courses {
        /// Cases (runs at points of a sweep) to show, a figure each.
        picks: &'static [Pick],
        /// Names of the flows, in order of start.
        flows: &'static [&'static str],
    },
    /// A quantity that is computed from the completion times of flows, over the sizes of the flows. Each case (run at a
    /// point of a sweep) has a curve, which shows the mean over the seeds.
    EachFlow {
        /// Title of the figure and of the vertical axis.
        title: &'static str,
        /// Title of the horizontal axis.
        axis: &'static str,
        /// Sizes of the shown flows, as (bytes, value on the horizontal axis).
        sizes: &'static [(u64, f64)],
        /// Computes the quantity from the completion time in microseconds and the value on the horizontal axis.
        value: Derived,
        /// Cases (runs at points of a sweep) to show, a curve each.
        picks: &'static [Pick],
        /// Curves of the paper's values, as (name, the stated value for each size).
        stated: &'static [(&'static str, &'static [f64])],
    },
    /// Length of the sampled queue over time, for the first seed: one figure, with a curve for each case (run at a
    /// point of a sweep).
    Queues {
        /// Title of the figure.
        title: &'static str,
        /// Cases (runs at points of a sweep) to show, a curve each.
        picks: &'static [Pick],
    },
    /// Goodput over time of the flow that starts last, in the simulation with the first seed and in the fluid model of
    /// DCQCN: a figure for each case (run at a point of a sweep).
    Fluid {
        /// Cases (runs at points of a sweep) to show, a figure each.
        picks: &'static [Pick],
    },
}

/// Computes a quantity from a completion time in microseconds and a value on the horizontal axis.
pub type Derived = fn(f64, f64) -> f64;

/// A case (run at a point of a sweep) of the experiment, with the name that figures show for it.
#[derive(Clone, Copy, Debug)]
pub struct Pick {
    /// Name of the case in the figures.
    pub name: &'static str,
    /// Case whose results are shown.
    pub case: Case<'static>,
}

impl Chart {
    /// The figures that follow from this description and the results `m` of the experiment.
    pub fn board(&self, m: &Measured<'_>) -> Board {
        match *self {
            Chart::Bars { runs, ccs, metrics, traffic } => bars(m, runs, ccs, metrics, traffic),
            Chart::Tails { file, runs, ccs } => Board {
                series: runs.iter().map(ToString::to_string).collect(),
                shown: 0,
                rows: vec![ccs.iter().map(|cc| Figure::Lines(tails(m, file, runs, cc))).collect()],
            },
            Chart::Sweep { file, axis, pairs, ccs, metrics } => Board {
                series: ccs.iter().map(|cc| cc_text(cc)).collect(),
                shown: 0,
                rows: pairs
                    .iter()
                    .map(|pair| {
                        metrics.iter().map(|metric| Figure::Lines(sweep(m, file, axis, *pair, ccs, *metric))).collect()
                    })
                    .collect(),
            },
            Chart::Spread { title, groups, bars, traffic } => spread(m, title, groups, bars, traffic),
            Chart::Curves { axis, picks, metric, traffic } => Board {
                series: picks.iter().map(|pick| pick.name.to_string()).collect(),
                shown: 0,
                rows: vec![vec![Figure::Lines(curves(m, axis, picks, metric, traffic))]],
            },
            Chart::Courses { picks, flows } => Board {
                series: flows.iter().map(ToString::to_string).collect(),
                shown: 0,
                rows: picks.chunks(2).map(|pair| pair.iter().map(|pick| course(m, pick)).collect()).collect(),
            },
            Chart::EachFlow { title, axis, sizes, value, picks, stated } => {
                each_flow(m, (title, axis), (sizes, value), picks, stated)
            }
            Chart::Queues { title, picks } => Board {
                series: picks.iter().map(|pick| pick.name.to_string()).collect(),
                shown: 0,
                rows: vec![vec![queues(m, title, picks)]],
            },
            Chart::Fluid { picks } => Board {
                series: vec!["packets".to_string(), "fluid model".to_string()],
                shown: 0,
                rows: picks.chunks(2).map(|pair| pair.iter().map(|pick| fluid(m, pick)).collect()).collect(),
            },
            Chart::Points { file, pair, ccs, metric } => Board {
                series: ccs.iter().map(|cc| cc_text(cc)).collect(),
                shown: 0,
                rows: vec![vec![Figure::Bars(points(m, file, pair, ccs, metric))]],
            },
        }
    }
}

fn estimate(sample: Sample) -> Option<Estimate> {
    sample.ok().and_then(|values| Estimate::of(&values, CONFIDENCE))
}

/// The ends of a bar's whisker: the confidence interval of the mean. `None` for a single seed.
fn interval(estimate: &Estimate) -> Option<[f64; 2]> {
    estimate.half_width.map(|_| estimate.interval())
}

fn bar(series: usize, sample: Sample) -> Bar {
    let note = sample.as_ref().err().cloned().unwrap_or_default();
    let estimate = estimate(sample);
    Bar {
        series,
        value: estimate.map(|e| e.mean),
        interval: estimate.as_ref().and_then(interval),
        note,
        ..Bar::default()
    }
}

fn bars(
    m: &Measured<'_>, runs: &'static [(&'static str, &'static str)], ccs: &[&'static str], metrics: &[Metric],
    traffic: &str,
) -> Board {
    let group = |cc: &'static str, metric: Metric| {
        let cases = runs.iter().enumerate().map(|(series, (file, run))| (series, Case { file, run, cc, point: "" }));
        BarGroup {
            name: cc_text(cc),
            bars: cases
                .filter(|(_, case)| m.has(*case))
                .map(|(series, case)| bar(series, m.values_of(case, traffic, metric)))
                .collect(),
            stated: None,
        }
    };
    let figure = |metric: &Metric| {
        let of = if traffic.is_empty() || !metric.is_per_source() { String::new() } else { format!("{traffic}: ") };
        Figure::Bars(Bars {
            title: format!("{of}{}", metric.text()),
            caption: "lower is better; mean over the seeds and its 95 % confidence interval".to_string(),
            unit: metric.unit,
            groups: ccs.iter().map(|cc| group(cc, *metric)).filter(|group| !group.bars.is_empty()).collect(),
            reference: None,
        })
    };
    Board {
        series: runs.iter().map(|(_, run)| run.to_string()).collect(),
        shown: 0,
        rows: vec![metrics.iter().map(figure).collect()],
    }
}

fn tails(m: &Measured<'_>, file: &'static str, runs: &[&'static str], cc: &'static str) -> Lines {
    let line = |(series, run): (usize, &&'static str)| {
        let point = |per_mille: &u32| {
            let case = Case { file, run, cc, point: "" };
            let estimate = estimate(m.values(case, Metric::tail(*per_mille)))?;
            let x = f64::from(*per_mille) / 10.0;
            Some(Point { x, y: estimate.mean, interval: interval(&estimate), note: String::new() })
        };
        Line { series, points: crate::measurement::TAIL_PER_MILLE.iter().filter_map(point).collect() }
    };
    Lines {
        title: format!("single-packet messages, {}", cc_text(cc)),
        caption: "lower is better; bands are 95 % confidence intervals over the seeds".to_string(),
        x: Axis { name: "percentile".to_string(), unit: Unit::Number, scale: Scale::Nines },
        y: Axis { name: "FCT".to_string(), unit: Unit::Time, scale: Scale::Auto },
        dots: false,
        drops: false,
        views: vec![View { name: String::new(), lines: runs.iter().enumerate().map(line).collect() }],
        first: 0,
        reference: None,
        stated: None,
        reach: None,
    }
}

/// The reference line of figures of ratios: a ratio of 1 means that the two runs are equal.
fn same() -> Option<Reference> {
    Some(Reference { value: 1.0, name: "the same".to_string() })
}

fn sweep(
    m: &Measured<'_>, file: &'static str, axis: &str, (above, below): (&'static str, &'static str),
    ccs: &[&'static str], metric: Metric,
) -> Lines {
    let line = |(series, cc): (usize, &&'static str)| {
        let point = |point: &&str| {
            let at = |run| Case { file, run, cc, point };
            let estimate = estimate(m.ratio(at(above), at(below), metric))?;
            Some(Point { x: number(point)?, y: estimate.mean, interval: interval(&estimate), note: String::new() })
        };
        Line { series, points: m.points(file).iter().filter_map(point).collect() }
    };
    Lines {
        title: format!("{}: {above} / {below}", metric.text()),
        caption: "above 1, the second run is better; bands are 95 % confidence intervals over the seeds".to_string(),
        x: Axis { name: axis.to_string(), unit: Unit::Number, scale: Scale::Linear },
        y: Axis { name: "ratio".to_string(), unit: Unit::Factor, scale: Scale::Auto },
        dots: true,
        drops: false,
        views: vec![View { name: String::new(), lines: ccs.iter().enumerate().map(line).collect() }],
        first: 0,
        reference: same(),
        stated: None,
        reach: None,
    }
}

fn points(
    m: &Measured<'_>, file: &'static str, (above, below): (&'static str, &'static str), ccs: &[&'static str],
    metric: Metric,
) -> Bars {
    let group = |point: &&str| {
        let at = |run, cc| Case { file, run, cc, point };
        let bar = |(series, cc): (usize, &&'static str)| bar(series, m.ratio(at(above, cc), at(below, cc), metric));
        BarGroup { name: point.to_string(), bars: ccs.iter().enumerate().map(bar).collect(), stated: None }
    };
    Bars {
        title: format!("{}: {above} / {below}", metric.text()),
        caption: "above 1, the second run is better; mean over the seeds and its 95 % confidence interval".to_string(),
        unit: Unit::Factor,
        groups: m.points(file).iter().map(group).collect(),
        reference: same(),
    }
}

fn spread(m: &Measured<'_>, title: &str, groups: &[Pick], bars: &[(&'static str, Metric)], traffic: &str) -> Board {
    let bar = |case: Case<'_>, (series, (_, metric)): (usize, &(&str, Metric))| {
        let sample = m.values_of(case, traffic, *metric);
        let note = sample.as_ref().err().cloned().unwrap_or_default();
        let mut values = sample.unwrap_or_default();
        values.sort_unstable_by(f64::total_cmp);
        let ends = values.first().zip(values.last()).map(|(min, max)| [*min, *max]);
        Bar { series, value: nearest_rank(&values, 500), interval: ends, note, ..Bar::default() }
    };
    let group = |pick: &Pick| BarGroup {
        name: pick.name.to_string(),
        bars: bars.iter().enumerate().map(|named| bar(pick.case, named)).collect(),
        stated: None,
    };
    Board {
        series: bars.iter().map(|(name, _)| name.to_string()).collect(),
        shown: 0,
        rows: vec![vec![Figure::Bars(Bars {
            title: title.to_string(),
            caption: "median over the seeds; whiskers are minimum and maximum".to_string(),
            unit: bars[0].1.unit,
            groups: groups.iter().filter(|pick| m.has(pick.case)).map(group).collect(),
            reference: None,
        })]],
    }
}

fn curves(m: &Measured<'_>, axis: &str, picks: &[Pick], metric: Metric, traffic: &str) -> Lines {
    let line = |(series, pick): (usize, &Pick)| {
        let mine = m.points(pick.case.file).into_iter().filter(|point| point.ends_with(pick.case.point));
        let point = |point: &str| {
            let estimate = estimate(m.values_of(Case { point, ..pick.case }, traffic, metric))?;
            // A point at zero is left out, because a logarithmic axis cannot show it.
            let x = number(point).filter(|x| *x > 0.0)?;
            Some(Point { x, y: estimate.mean, interval: interval(&estimate), note: String::new() })
        };
        Line { series, points: mine.filter_map(point).collect() }
    };
    let of = if traffic.is_empty() { String::new() } else { format!("{traffic}: ") };
    let lines: Vec<Line> = picks.iter().enumerate().map(line).collect();
    // The horizontal axis is logarithmic for values below 1, such as probabilities, and linear for numbers of senders.
    let small = lines.iter().flat_map(|line| &line.points).any(|point| point.x < 1.0);
    Lines {
        title: format!("{of}{}", metric.text()),
        caption: "mean over the seeds; bands are 95 % confidence intervals".to_string(),
        x: Axis { name: axis.to_string(), unit: Unit::Number, scale: if small { Scale::Log } else { Scale::Linear } },
        y: Axis { name: metric.axis.to_string(), unit: metric.unit, scale: Scale::Zero },
        dots: true,
        drops: false,
        views: vec![View { name: String::new(), lines }],
        ..Lines::default()
    }
}

fn course(m: &Measured<'_>, pick: &Pick) -> Figure {
    let line = |(series, at_us, gbps): (usize, &[f64], &Vec<f64>)| {
        let late = at_us.len().saturating_sub(gbps.len());
        let points = at_us[late..].iter().zip(gbps).map(|(x, y)| Point::at(*x, *y));
        Line { series, points: points.collect() }
    };
    let lines = m.first(pick.case).and_then(|result| result.course.as_ref()).map_or(Vec::new(), |course| {
        course.gbps.iter().enumerate().map(|(series, gbps)| line((series, &course.at_us, gbps))).collect()
    });
    over_time(pick.name, "goodput of each flow over time; the first seed", GOODPUT, lines)
}

fn queues(m: &Measured<'_>, title: &str, picks: &[Pick]) -> Figure {
    let line = |(series, pick): (usize, &Pick)| {
        let course = m.first(pick.case)?.queue_course.as_ref()?;
        let points = course.at_us.iter().zip(&course.bytes).map(|(x, y)| Point::at(*x, f64::from(*y)));
        Some(Line { series, points: points.collect() })
    };
    let lines = picks.iter().enumerate().filter_map(line).collect();
    over_time(title, "maximum of each interval; the first seed", ("Queue", Unit::Bytes), lines)
}

fn each_flow(
    m: &Measured<'_>, (title, axis): (&str, &str), (sizes, value): (&[(u64, f64)], Derived), picks: &[Pick],
    stated: &[(&'static str, &[f64])],
) -> Board {
    let measured = |(series, pick): (usize, &Pick)| {
        let point = |(bytes, x): &(u64, f64)| {
            let values = m.values(pick.case, Metric::completion_us(*bytes));
            let estimate = estimate(each(values, |us| value(us, *x)))?;
            Some(Point { x: *x, y: estimate.mean, interval: interval(&estimate), note: String::new() })
        };
        Line { series, points: sizes.iter().filter_map(point).collect() }
    };
    let theirs = |(number, (_, values)): (usize, &(&str, &[f64]))| Line {
        series: picks.len() + number,
        points: sizes.iter().zip(*values).map(|((_, x), y)| Point::at(*x, *y)).collect(),
    };
    let lines = picks.iter().enumerate().map(measured).chain(stated.iter().enumerate().map(theirs)).collect();
    Board {
        series: picks
            .iter()
            .map(|pick| pick.name)
            .chain(stated.iter().map(|(name, _)| *name))
            .map(String::from)
            .collect(),
        shown: 0,
        rows: vec![vec![Figure::Lines(Lines {
            title: title.to_string(),
            caption: "lower is better; mean over the seeds".to_string(),
            x: Axis { name: axis.to_string(), unit: Unit::Number, scale: Scale::Linear },
            y: Axis { name: title.to_string(), unit: Unit::Number, scale: Scale::Zero },
            dots: true,
            drops: false,
            views: vec![View { name: String::new(), lines }],
            ..Lines::default()
        })]],
    }
}

/// Title and unit of the goodput axis.
const GOODPUT: (&str, Unit) = (GOODPUT_AXIS, Unit::Number);

fn over_time(title: &str, caption: &str, (name, unit): (&str, Unit), lines: Vec<Line>) -> Figure {
    Figure::Lines(Lines {
        title: title.to_string(),
        caption: caption.to_string(),
        x: Axis { name: "Time".to_string(), unit: Unit::Time, scale: Scale::Linear },
        y: Axis { name: name.to_string(), unit, scale: Scale::Zero },
        views: vec![View { name: String::new(), lines }],
        ..Lines::default()
    })
}

fn fluid(m: &Measured<'_>, pick: &Pick) -> Figure {
    let fluid = m.first(pick.case).and_then(|result| result.fluid.as_ref());
    let line = |series, at_us: &[f64], gbps: &[f64]| Line {
        series,
        points: at_us.iter().zip(gbps).map(|(x, y)| Point::at(*x, *y)).collect(),
    };
    let lines = fluid.map_or(Vec::new(), |fluid| {
        vec![line(0, &fluid.at_us, &fluid.packets_gbps), line(1, &fluid.at_us, &fluid.model_gbps)]
    });
    over_time(pick.name, "goodput of the last flow over time; the first seed", GOODPUT, lines)
}

/// Parses the number at the beginning of a text such as `60 KB`.
fn number(text: &str) -> Option<f64> {
    text.split([' ', ',']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_values_with_units() {
        assert_eq!([number("60 KB"), number("0.3"), number(""), number("x")], [Some(60.0), Some(0.3), None, None]);
        assert_eq!(number("0.001, 64 KB"), Some(0.001));
    }
}
