//! The results of one experiment, by the names that its rows use.

use super::Place;
use super::verdict::Sample;
use rnic_campaign::measurement::{Flows, Measurement, TAIL_PER_MILLE};
use std::collections::BTreeMap;

/// One case of an experiment: which run, at which point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case<'c> {
    /// Name of the scenario file.
    pub file: &'c str,
    /// Name of the run in it.
    pub run: &'c str,
    /// Its congestion control.
    pub cc: &'c str,
    /// The value of the swept key; empty where none is swept.
    pub point: &'c str,
}

impl<'c> Case<'c> {
    /// The same case of another run.
    pub const fn run(self, run: &'c str) -> Case<'c> {
        Case { run, ..self }
    }

    /// Whether a result is one of this case.
    fn is(&self, place: &Place) -> bool {
        (self.file, self.run, self.cc, self.point) == (place.file, place.run.as_str(), place.cc, place.point.as_str())
    }

    /// For people.
    pub fn text(&self) -> String {
        let point = if self.point.is_empty() { String::new() } else { format!(", {}", self.point) };
        format!("{}, {}{point}", self.run, cc_text(self.cc))
    }
}

/// A congestion control for people.
pub fn cc_text(cc: &str) -> String {
    match cc {
        "none" => "no cc".to_string(),
        "timely" => "TIMELY".to_string(),
        name => name.to_uppercase(),
    }
}

/// A quantity of one simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// Average slowdown.
    Slowdown,
    /// Average flow completion time.
    Fct,
    /// Its 99th percentile.
    FctP99,
    /// Average request completion time.
    Rct,
    /// This percentile, in thousandths, of single-packet messages' completion times.
    Tail(u32),
    /// Data packets dropped, as a fraction.
    Dropped,
    /// Completion time in microseconds of the first flow of so many bytes.
    UsOf(u64),
    /// Finished flows in millions per second.
    MillionsPerSecond,
    /// Retransmission timeouts.
    Timeouts,
    /// Data packets that lost their payload at a full buffer.
    Trimmed,
    /// Headers that went back to their sender.
    Returned,
    /// When the watched queue's burst with this number began, in microseconds.
    BurstStart(usize),
    /// When it was over.
    BurstEnd(usize),
    /// Goodput in Gbps of the flow with this number.
    FlowGbps(usize),
    /// Smallest goodput among the flows with numbers below this one, in Gbps.
    LeastGbps(usize),
    /// Largest goodput among the flows with numbers below this one, in Gbps.
    MostGbps(usize),
    /// Sum of the flows' goodputs in Gbps.
    TotalGbps,
    /// Median goodput of flows in Gbps.
    MedianGbps,
    /// 10th percentile of the goodput of flows in Gbps.
    LowGbps,
    /// Payload of all flows over the sum of their lives, in Gbps.
    PooledGbps,
    /// Mean goodput in Gbps, over the last quarter of the run, of the flow with this number.
    LateGbps(usize),
    /// Standard deviation of that goodput over time.
    LateJitter(usize),
    /// How far the last quarter's goodputs of the flows with these numbers are apart, as a part of their sum.
    LateGap(usize, usize),
    /// How far the goodput of the last flow is from the fluid model's, from its start on: mean absolute difference, relative to an equal
    /// share.
    FluidDifference,
    /// Goodput of the last flow in the steady state, over the fluid model's.
    FluidRate,
    /// Mean queue in the steady state, over the fluid model's.
    FluidQueue,
    /// Median of the watched queue, in bytes.
    QueueMedian,
    /// 95th percentile of the watched queue, in bytes.
    QueueHigh,
    /// Largest sample of the watched queue, in bytes.
    QueueMax,
    /// PFC pauses that the switches whose names begin so received.
    Pauses(&'static str),
}

/// The paper's three metrics.
pub const THREE: [Metric; 3] = [Metric::Slowdown, Metric::Fct, Metric::FctP99];

impl Metric {
    /// For people.
    pub fn text(self) -> String {
        match self {
            Metric::Slowdown => "average slowdown".to_string(),
            Metric::Fct => "average FCT".to_string(),
            Metric::FctP99 => "99th percentile FCT".to_string(),
            Metric::Rct => "average RCT".to_string(),
            Metric::Tail(per_mille) => format!("{} %ile of single packets", f64::from(per_mille) / 10.0),
            Metric::Dropped => "data packets dropped".to_string(),
            Metric::UsOf(bytes) => format!("completion time of {bytes} B"),
            Metric::MillionsPerSecond => "flows per second".to_string(),
            Metric::Timeouts => "timeouts".to_string(),
            Metric::Trimmed => "packets trimmed".to_string(),
            Metric::Returned => "headers returned".to_string(),
            Metric::BurstStart(number) => format!("start of burst {number}"),
            Metric::BurstEnd(number) => format!("end of burst {number}"),
            Metric::FlowGbps(number) => format!("goodput of flow {number}"),
            Metric::LeastGbps(_) => "least goodput of a flow".to_string(),
            Metric::MostGbps(_) => "largest goodput of a flow".to_string(),
            Metric::TotalGbps => "goodput of all flows".to_string(),
            Metric::MedianGbps => "median goodput".to_string(),
            Metric::LowGbps => "10th percentile of the goodput".to_string(),
            Metric::PooledGbps => "goodput".to_string(),
            Metric::LateGbps(number) => format!("goodput of flow {number} in the last quarter"),
            Metric::LateJitter(number) => format!("its deviation, flow {number}"),
            Metric::LateGap(..) => "gap between the flows".to_string(),
            Metric::FluidDifference => "difference from the fluid model".to_string(),
            Metric::FluidRate => "goodput / the fluid model's".to_string(),
            Metric::FluidQueue => "queue / the fluid model's".to_string(),
            Metric::QueueMedian => "queue, median".to_string(),
            Metric::QueueHigh => "queue, 95th percentile".to_string(),
            Metric::QueueMax => "queue, largest".to_string(),
            Metric::Pauses(at) => format!("pauses at {at}"),
        }
    }

    fn of_flows(self, flows: &Flows) -> Option<f64> {
        match self {
            Metric::Slowdown => Some(flows.slowdown),
            Metric::Fct => Some(flows.fct_us),
            Metric::FctP99 => Some(flows.fct_p99_us),
            _ => None,
        }
    }

    fn of(self, result: &Measurement, traffic: &str) -> Option<f64> {
        match self {
            Metric::Slowdown | Metric::Fct | Metric::FctP99 if traffic.is_empty() => {
                result.flows.as_ref().and_then(|flows| self.of_flows(flows))
            }
            Metric::Slowdown | Metric::Fct | Metric::FctP99 => {
                result.traffic.get(traffic).and_then(|flows| self.of_flows(flows))
            }
            Metric::Rct => rnic_results::stats::mean(&result.requests_us),
            Metric::Tail(per_mille) => {
                let number = TAIL_PER_MILLE.iter().position(|known| *known == per_mille)?;
                result.tail_us.get(number).copied()
            }
            Metric::Dropped => result.drop_rate,
            Metric::UsOf(bytes) => Some(result.each_us.iter().find(|(own, _)| *own == bytes)?.1),
            Metric::MillionsPerSecond => result.millions_per_s,
            Metric::Timeouts => Some(result.timeouts as f64),
            Metric::Trimmed => Some(result.trimmed as f64),
            Metric::Returned => Some(result.returned as f64),
            Metric::BurstStart(number) => Some(result.queue_course.as_ref()?.bursts.get(number)?[0]),
            Metric::BurstEnd(number) => Some(result.queue_course.as_ref()?.bursts.get(number)?[1]),
            Metric::FlowGbps(number) => result.each_gbps.get(number).copied(),
            Metric::LeastGbps(below) => result.each_gbps.iter().take(below).copied().reduce(f64::min),
            Metric::MostGbps(below) => result.each_gbps.iter().take(below).copied().reduce(f64::max),
            Metric::TotalGbps => (!result.each_gbps.is_empty()).then(|| result.each_gbps.iter().sum()),
            Metric::MedianGbps => Some(result.goodput.get(traffic)?.p50),
            Metric::LowGbps => Some(result.goodput.get(traffic)?.p10),
            Metric::PooledGbps => result.pooled_gbps,
            Metric::LateGbps(number) => rnic_results::stats::mean(late(result, number)?),
            Metric::LateJitter(number) => {
                let values = late(result, number)?;
                let mean = rnic_results::stats::mean(values)?;
                let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
                Some((squares / values.len() as f64).sqrt())
            }
            Metric::FluidDifference => Some(result.fluid.as_ref()?.difference),
            Metric::FluidRate => Some(result.fluid.as_ref()?.rate),
            Metric::FluidQueue => result.fluid.as_ref()?.queue,
            Metric::LateGap(one, other) => {
                let [a, b] = [one, other].map(|number| Metric::LateGbps(number).of(result, traffic));
                let (a, b) = a.zip(b)?;
                Some((a - b).abs() / (a + b))
            }
            Metric::QueueMedian => Some(result.queues.values().next()?.p50),
            Metric::QueueHigh => Some(result.queues.values().next()?.p95),
            Metric::QueueMax => Some(result.queues.values().next()?.max),
            Metric::Pauses(at) => {
                let there = result.pauses_at.iter().filter(|(node, _)| node.starts_with(at));
                Some(there.map(|(_, pauses)| *pauses).sum::<u64>() as f64)
            }
        }
    }
}

/// The last quarter of a flow's course, in Gbps.
fn late(result: &Measurement, number: usize) -> Option<&[f64]> {
    let course = result.course.as_ref()?;
    let flow = course.gbps.get(number)?;
    Some(&flow[flow.len() - (course.at_us.len() / 4).clamp(1, flow.len().max(1)).min(flow.len())..])
}

/// The results of one experiment.
#[derive(Debug)]
pub struct Measured<'r> {
    results: BTreeMap<&'r Place, &'r Measurement>,
    points: &'r [(&'static str, String)],
    /// Why there are none at all.
    missing: Option<&'r str>,
}

impl<'r> Measured<'r> {
    pub(super) fn new(
        results: BTreeMap<&'r Place, &'r Measurement>, points: &'r [(&'static str, String)], missing: Option<&'r str>,
    ) -> Measured<'r> {
        Measured { results, points, missing }
    }

    /// Points of a file's sweep, in its order.
    pub fn points(&self, file: &str) -> Vec<&'r str> {
        self.points.iter().filter(|(name, _)| *name == file).map(|(_, point)| point.as_str()).collect()
    }

    /// Names of a file's congestion controls for which there are results, in the order of `of`.
    pub fn ccs<'c>(&self, file: &str, of: &[&'c str]) -> Vec<&'c str> {
        let known = |cc: &&&str| self.results.keys().any(|place| place.file == file && place.cc == **cc);
        // Where nothing could be run every case is named, so that its row can say so.
        of.iter().filter(|cc| self.missing.is_some() || known(cc)).copied().collect()
    }

    /// Whether the experiment has such a case.
    pub fn has(&self, case: Case<'_>) -> bool {
        self.results.keys().any(|place| case.is(place))
    }

    /// A metric of a case, for each seed.
    pub fn values(&self, case: Case<'_>, metric: Metric) -> Sample {
        self.values_of(case, "", metric)
    }

    /// A metric of one source of a case's traffic, for each seed.
    pub fn values_of(&self, case: Case<'_>, traffic: &str, metric: Metric) -> Sample {
        if let Some(reason) = self.missing {
            return Err(format!("not available: {reason}"));
        }
        let mut values = Vec::new();
        for (place, result) in self.results.iter().filter(|(place, _)| case.is(place)) {
            match (metric.of(result, traffic), &result.failure) {
                (_, Some(reason)) => return Err(format!("{} failed (seed {}): {reason}", case.text(), place.seed)),
                (None, None) => return Err(format!("{} has no {} (seed {})", case.text(), metric.text(), place.seed)),
                (Some(value), None) => values.push(value),
            }
        }
        if values.is_empty() { Err(format!("there is no run {} of {}", case.text(), case.file)) } else { Ok(values) }
    }

    /// The result of a case for the smallest seed.
    pub fn first(&self, case: Case<'_>) -> Option<&'r Measurement> {
        self.results.iter().find(|(place, _)| case.is(place)).map(|(_, result)| *result)
    }

    /// A metric of one case over that of another, seed by seed.
    pub fn ratio(&self, above: Case<'_>, below: Case<'_>, metric: Metric) -> Sample {
        divide(self.values(above, metric)?, &self.values(below, metric)?)
    }

    /// The same of one source of traffic.
    pub fn ratio_of(&self, above: Case<'_>, below: Case<'_>, traffic: &str, metric: Metric) -> Sample {
        divide(self.values_of(above, traffic, metric)?, &self.values_of(below, traffic, metric)?)
    }
}

/// Seed by seed.
pub fn divide(above: Vec<f64>, below: &[f64]) -> Sample {
    if above.len() != below.len() {
        return Err("the two cases have different seeds".to_string());
    }
    Ok(above.into_iter().zip(below).map(|(a, b)| a / b).collect())
}

/// Each value changed: `1.2` to `0.2` for what a ratio costs, and so on.
pub fn each(sample: Sample, change: impl Fn(f64) -> f64) -> Sample {
    sample.map(|values| values.into_iter().map(change).collect())
}

/// Of several cases the one with the largest mean, and which it is. Without one of them there is no result: it might be that one.
pub fn largest(cases: Vec<(String, Sample)>) -> (Sample, String) {
    extreme(cases, |mean| mean)
}

/// Of several cases the one with the smallest mean.
pub fn smallest(cases: Vec<(String, Sample)>) -> (Sample, String) {
    extreme(cases, |mean| -mean)
}

/// Of several cases the one whose mean is farthest from zero, whichever way.
pub fn farthest(cases: Vec<(String, Sample)>) -> (Sample, String) {
    extreme(cases, f64::abs)
}

fn extreme(cases: Vec<(String, Sample)>, rank: impl Fn(f64) -> f64) -> (Sample, String) {
    let mean = |values: &[f64]| rnic_results::stats::mean(values).unwrap_or(f64::NAN);
    let total = cases.len();
    let mut failures = Vec::new();
    let mut best: Option<(f64, String, Vec<f64>)> = None;
    for (name, sample) in cases {
        match sample {
            Err(reason) => failures.push(reason),
            Ok(values) => {
                let value = rank(mean(&values));
                if best.as_ref().is_none_or(|(most, ..)| value > *most) {
                    best = Some((value, name, values));
                }
            }
        }
    }
    match (best, failures.first()) {
        (None, None) => (Err("there is no case".to_string()), String::new()),
        (None, Some(reason)) => (Err(reason.clone()), String::new()),
        (Some((_, name, values)), None) => (Ok(values), name),
        (Some((_, name, _)), Some(reason)) => {
            let without = format!("{} of {total} cases have no result: {reason}", failures.len());
            (Err(without), format!("{name} of the others"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extreme_of_several_cases_is_named_with_those_that_failed() {
        let cases = || vec![("a".to_string(), Ok(vec![1.0, 2.0])), ("b".to_string(), Ok(vec![3.0, 1.0]))];
        assert_eq!(largest(cases()), (Ok(vec![3.0, 1.0]), "b".to_string()));
        assert_eq!(smallest(cases()), (Ok(vec![1.0, 2.0]), "a".to_string()));
        let mut failed = cases();
        failed.push(("c".to_string(), Err("stuck".to_string())));
        assert_eq!(largest(failed).0, Err("1 of 3 cases have no result: stuck".to_string()));
        assert_eq!(largest(vec![("c".into(), Err("stuck".into()))]).0, Err("stuck".to_string()));
        assert!(largest(Vec::new()).0.is_err());
    }

    #[test]
    fn ratios_are_seed_by_seed() {
        assert_eq!(divide(vec![2.0, 9.0], &[1.0, 3.0]), Ok(vec![2.0, 3.0]));
        assert!(divide(vec![2.0], &[1.0, 3.0]).is_err());
        assert_eq!(each(Ok(vec![1.5]), |r| r - 1.0), Ok(vec![0.5]));
    }
}
