//! Access to the results of one experiment by scenario file, run, congestion control and point of the sweep.

use super::RunKey;
use super::verdict::Sample;
use rnic_campaign::measurement::{Flows, Measurement, TAIL_PER_MILLE};
use std::collections::BTreeMap;

/// One case of an experiment: a run with its congestion control at one point of the sweep. A case has a result per
/// seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case<'c> {
    /// Name of the scenario file.
    pub file: &'c str,
    /// Name of the run in the scenario file.
    pub run: &'c str,
    /// Name of the run's congestion control.
    pub cc: &'c str,
    /// Name of the point of the sweep; empty without a sweep.
    pub point: &'c str,
}

impl<'c> Case<'c> {
    /// A copy of this case with another run: the scenario file, the congestion control and the point of the sweep stay.
    pub const fn run(self, run: &'c str) -> Case<'c> {
        Case { run, ..self }
    }

    /// Whether the result with this key belongs to this case.
    fn is(&self, key: &RunKey) -> bool {
        (self.file, self.run, self.cc, self.point) == (key.file, key.run.as_str(), key.cc, key.point.as_str())
    }

    /// Description of the case for readers: run, congestion control and point.
    pub fn text(&self) -> String {
        let point = if self.point.is_empty() { String::new() } else { format!(", {}", self.point) };
        format!("{}, {}{point}", self.run, cc_text(self.cc))
    }
}

/// Name of a congestion control for tables and figures, for example `no cc`.
pub fn cc_text(cc: &str) -> String {
    match cc {
        "none" => "no cc".to_string(),
        "timely" => "TIMELY".to_string(),
        name => name.to_uppercase(),
    }
}

/// A quantity that is read from the result of one simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// Average slowdown of the measured flows.
    Slowdown,
    /// Average flow completion time in microseconds.
    Fct,
    /// 99th percentile of the flow completion time in microseconds.
    FctP99,
    /// 99.9th percentile of the flow completion time in microseconds.
    FctP999,
    /// Maximum flow completion time in microseconds.
    FctMax,
    /// Average request completion time in microseconds.
    Rct,
    /// CPU time for sending, by declared costs, as a fraction of this number of cores.
    SendingCpu(u32),
    /// CPU time for receiving, by declared costs, as a fraction of this number of cores.
    ReceivingCpu(u32),
    /// Median completion time in microseconds of the messages that are longer than one packet.
    LongMedian,
    /// Jain's fairness index of the mean goodputs of some flows over an interval.
    Fairness {
        /// First of the flows.
        first: u32,
        /// Last of the flows.
        last: u32,
        /// Start of the interval in microseconds.
        from: u32,
        /// End of the interval in microseconds.
        to: u32,
    },
    /// Percentile, given in thousandths, of the completion time of single-packet messages in microseconds.
    Tail(u32),
    /// Data packets that switches dropped, as a fraction of the data packets sent.
    Dropped,
    /// Completion time in microseconds of the first flow whose size is this number of bytes.
    UsOf(u64),
    /// Finished flows per second, in millions.
    MillionsPerSecond,
    /// Number of retransmission timeouts.
    Timeouts,
    /// Number of data packets that a switch trimmed to their headers because its buffer was full.
    Trimmed,
    /// Number of trimmed headers that a switch returned to their sender.
    Returned,
    /// Start in microseconds of a burst (an interval in which the sampled queue is not empty), given the index of the
    /// burst.
    BurstStart(usize),
    /// End in microseconds of a burst (an interval in which the sampled queue is not empty), given the index of the
    /// burst.
    BurstEnd(usize),
    /// Goodput in Gbps of the flow with this id.
    FlowGbps(usize),
    /// Minimum goodput in Gbps among the flows whose ids are below this number.
    MinGbps(usize),
    /// Maximum goodput in Gbps among the flows whose ids are below this number.
    MaxGbps(usize),
    /// Sum in Gbps of the goodputs of all flows.
    TotalGbps,
    /// Median in Gbps of the goodputs of the flows.
    MedianGbps,
    /// 10th percentile in Gbps of the goodputs of the flows.
    LowGbps,
    /// Payload of all flows divided by the sum of the flows' lifetimes, in Gbps.
    PooledGbps,
    /// Mean goodput of the flow with this id over the last quarter of the run, in Gbps.
    LateGbps(usize),
    /// For the flow with this id: standard deviation of its goodput over time in the last quarter of the run, in Gbps.
    LateJitter(usize),
    /// Difference between the mean goodputs of two flows in the last quarter of the run, divided by the sum of these
    /// two goodputs.
    LateGap(usize, usize),
    /// For the flow that starts last: the mean absolute difference between its goodput in the simulation and in the
    /// fluid model, as a fraction of its fair share of the bottleneck.
    FluidDifference,
    /// Steady-state goodput of the flow that starts last: simulation divided by fluid model.
    FluidRate,
    /// Mean length of the bottleneck's queue in the steady state: simulation divided by fluid model.
    FluidQueue,
    /// Median length of the sampled queue in bytes.
    QueueMedian,
    /// 95th percentile of the length of the sampled queue in bytes.
    QueueHigh,
    /// Maximum length of the sampled queue in bytes.
    QueueMax,
    /// Number of PFC pause (XOFF) frames that were received by the nodes whose names start with this text.
    Pauses(&'static str),
    /// Number per second of PFC pause (XOFF) frames that were received by the nodes whose names start with this text.
    PausesPerSecond(&'static str),
    /// Payload that the receivers got, as a fraction of the payload of all data packets that were sent, for a payload
    /// of this many bytes per packet. With `true` only the payload of finished flows counts.
    Useful(u64, bool),
    /// Payload that the receivers have at the end of the run, per time of the run, in Gbps. With `true` only the
    /// payload of finished flows counts.
    Goodput(bool),
    /// Maximum utilisation of a host's transmitter.
    BusiestHost,
    /// Retransmitted data packets for each dropped data packet.
    RetransmittedPerDrop,
    /// Number of flows that finished in this part of the run: from one percentage of its time to another.
    Finished(usize, usize),
    /// Hosts that have been paused at the end of the run for at least a tenth of it, as a fraction of all hosts.
    Blocked,
    /// Number of ports of the cycle of pauses at the end of the run.
    CyclePorts,
    /// Time in milliseconds at which the first watchdog found a storm: of a NIC (`true`) or of a switch.
    Detected(bool),
    /// Median of the round-trip time of the probes of a mesh, in microseconds.
    MeshP50(&'static str),
    /// 99th percentile of the round-trip time of the probes of a mesh, in microseconds.
    MeshP99(&'static str),
    /// 99.9th percentile of the round-trip time of the probes of a mesh, in microseconds.
    MeshP999(&'static str),
    /// Payload of this traffic source that the receivers have at the end of the run, per time of the run, in Gbps.
    SourceGbps(&'static str),
    /// Number of packets that switches dropped in this priority.
    DroppedIn(usize),
    /// Probes of a mesh without a response before the end of the run, as a fraction of its probes.
    Unanswered(&'static str),
}

/// The three metrics in most figures of the IRN paper: average slowdown, average FCT and 99th percentile FCT.
pub const THREE: [Metric; 3] = [Metric::Slowdown, Metric::Fct, Metric::FctP99];

impl Metric {
    /// Name of the metric for tables and figures.
    pub fn text(self) -> String {
        match self {
            Metric::Slowdown => "average slowdown".to_string(),
            Metric::Fct => "average FCT".to_string(),
            Metric::FctP99 => "99th percentile FCT".to_string(),
            Metric::FctP999 => "99.9th percentile FCT".to_string(),
            Metric::FctMax => "maximum FCT".to_string(),
            Metric::SendingCpu(cores) => format!("CPU of senders, of {cores} cores"),
            Metric::ReceivingCpu(cores) => format!("CPU of receivers, of {cores} cores"),
            Metric::Rct => "average RCT".to_string(),
            Metric::LongMedian => "median completion time of long messages".to_string(),
            Metric::Fairness { .. } => "fairness index".to_string(),
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
            Metric::MinGbps(_) => "minimum goodput of a flow".to_string(),
            Metric::MaxGbps(_) => "maximum goodput of a flow".to_string(),
            Metric::TotalGbps => "goodput of all flows".to_string(),
            Metric::MedianGbps => "median goodput".to_string(),
            Metric::LowGbps => "10th percentile of the goodput".to_string(),
            Metric::PooledGbps => "goodput".to_string(),
            Metric::LateGbps(number) => format!("goodput of flow {number} in the last quarter"),
            Metric::LateJitter(number) => {
                format!("standard deviation of the goodput of flow {number} in the last quarter")
            }
            Metric::LateGap(..) => "gap between the flows".to_string(),
            Metric::FluidDifference => "difference from the fluid model".to_string(),
            Metric::FluidRate => "goodput / goodput of the fluid model".to_string(),
            Metric::FluidQueue => "queue / queue of the fluid model".to_string(),
            Metric::QueueMedian => "queue, median".to_string(),
            Metric::QueueHigh => "queue, 95th percentile".to_string(),
            Metric::QueueMax => "queue, maximum".to_string(),
            Metric::Pauses("") => "pauses".to_string(),
            Metric::Pauses(at) => format!("pauses at {at}"),
            Metric::PausesPerSecond("") => "pauses per second".to_string(),
            Metric::PausesPerSecond(at) => format!("pauses per second at {at}"),
            Metric::Useful(..) => "useful share of the data packets".to_string(),
            Metric::Goodput(false) => "delivered payload".to_string(),
            Metric::Goodput(true) => "payload of finished messages".to_string(),
            Metric::BusiestHost => "utilisation of the sender's link".to_string(),
            Metric::RetransmittedPerDrop => "packets retransmitted per drop".to_string(),
            Metric::Finished(from, to) => format!("messages finished from {from} to {to} % of the run"),
            Metric::Blocked => "hosts blocked at the end".to_string(),
            Metric::CyclePorts => "ports in a cycle of pauses at the end".to_string(),
            Metric::Detected(true) => "storm found by the NIC".to_string(),
            Metric::Detected(false) => "storm found by the switch".to_string(),
            Metric::MeshP50(mesh) => format!("median latency of {mesh}"),
            Metric::MeshP99(mesh) => format!("99th percentile latency of {mesh}"),
            Metric::MeshP999(mesh) => format!("99.9th percentile latency of {mesh}"),
            Metric::SourceGbps(source) => format!("goodput of {source}"),
            Metric::DroppedIn(priority) => format!("packets dropped in priority {priority}"),
            Metric::Unanswered(mesh) => format!("{mesh} without a response"),
        }
    }

    fn of_flows(self, flows: &Flows) -> Option<f64> {
        match self {
            Metric::Slowdown => Some(flows.slowdown),
            Metric::Fct => Some(flows.fct_us),
            Metric::FctP99 => Some(flows.fct_p99_us),
            Metric::FctP999 => Some(flows.fct_p999_us),
            Metric::FctMax => Some(flows.fct_max_us),
            _ => None,
        }
    }

    fn of(self, result: &Measurement, traffic: &str) -> Option<f64> {
        let cpu = |side: usize, cores: u32| {
            let share = result.cpu_us[side] / (result.sim_time_us * f64::from(cores));
            (result.cpu_us[side] > 0.0).then_some(share)
        };
        match self {
            Metric::SendingCpu(cores) => cpu(0, cores),
            Metric::ReceivingCpu(cores) => cpu(1, cores),
            Metric::Slowdown | Metric::Fct | Metric::FctP99 | Metric::FctP999 | Metric::FctMax
                if traffic.is_empty() =>
            {
                result.flows.as_ref().and_then(|flows| self.of_flows(flows))
            }
            Metric::Slowdown | Metric::Fct | Metric::FctP99 | Metric::FctP999 | Metric::FctMax => {
                result.traffic.get(traffic).and_then(|flows| self.of_flows(flows))
            }
            Metric::Rct => rnic_results::stats::mean(&result.requests_us),
            Metric::LongMedian => result.long_us,
            Metric::Fairness { first, last, from, to } => fairness(result, first..=last, from, to),
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
            Metric::MinGbps(below) => result.each_gbps.iter().take(below).copied().reduce(f64::min),
            Metric::MaxGbps(below) => result.each_gbps.iter().take(below).copied().reduce(f64::max),
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
            _ => self.of_operations(result),
        }
    }

    fn of_operations(self, result: &Measurement) -> Option<f64> {
        let operations = &result.operations;
        let bytes = |finished| if finished { operations.finished_bytes } else { operations.delivered_bytes };
        let mesh = |name| operations.meshes.get(name);
        match self {
            Metric::PausesPerSecond(at) => Some(Metric::Pauses(at).of(result, "")? / (result.sim_time_us / 1e6)),
            Metric::Useful(payload, finished) => {
                (operations.data > 0).then(|| bytes(finished) as f64 / (operations.data * payload) as f64)
            }
            Metric::Goodput(finished) => Some(bytes(finished) as f64 * 8e-3 / result.sim_time_us),
            Metric::BusiestHost => Some(operations.busiest_host),
            Metric::RetransmittedPerDrop => {
                (operations.dropped > 0).then(|| operations.retransmitted as f64 / operations.dropped as f64)
            }
            Metric::Finished(from, to) => Some(operations.finished.get(from..to)?.iter().sum::<u64>() as f64),
            Metric::Blocked => Some(operations.blocked_hosts as f64 / operations.hosts.max(1) as f64),
            Metric::CyclePorts => Some(operations.cycle_ports as f64),
            Metric::Detected(by_nic) => {
                operations.storms.iter().find(|storm| storm.by_nic == by_nic).map(|storm| storm.detected_ms)
            }
            Metric::MeshP50(name) => mesh(name).map(|rtt| rtt.p50),
            Metric::MeshP99(name) => mesh(name).map(|rtt| rtt.p99),
            Metric::MeshP999(name) => mesh(name).map(|rtt| rtt.p999),
            Metric::SourceGbps(source) => {
                Some(*operations.delivered_of.get(source)? as f64 * 8e-3 / result.sim_time_us)
            }
            Metric::DroppedIn(priority) => operations.dropped_in.get(priority).map(|packets| *packets as f64),
            Metric::Unanswered(name) => mesh(name).map(|rtt| rtt.unanswered as f64 / rtt.probes.max(1) as f64),
            _ => None,
        }
    }
}

/// Goodputs of the flow with index `number` in Gbps, one for each sampling interval in the last quarter of the run.
fn late(result: &Measurement, number: usize) -> Option<&[f64]> {
    let course = result.course.as_ref()?;
    let flow = course.gbps.get(number)?;
    Some(&flow[flow.len() - (course.at_us.len() / 4).clamp(1, flow.len().max(1)).min(flow.len())..])
}

/// Jain's fairness index, `(sum x)^2 / (n sum x^2)`, of the mean goodputs of `flows` over the sampling intervals that
/// end after `from` and up to `to` microseconds. A flow without a sample in this time has a goodput of 0.
fn fairness(result: &Measurement, flows: std::ops::RangeInclusive<u32>, from: u32, to: u32) -> Option<f64> {
    let course = result.course.as_ref()?;
    let goodput = |number: u32| -> Option<f64> {
        let flow = course.gbps.get(number as usize)?;
        let at = course.at_us.iter().skip(course.at_us.len().checked_sub(flow.len())?);
        let within = |at: f64| at > f64::from(from) && at <= f64::from(to);
        let values: Vec<f64> = at.zip(flow).filter(|(at, _)| within(**at)).map(|(_, gbps)| *gbps).collect();
        Some(rnic_results::stats::mean(&values).unwrap_or(0.0))
    };
    let goodputs: Vec<f64> = flows.map(goodput).collect::<Option<_>>()?;
    let (sum, squares) = goodputs.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (goodputs.len() as f64 * squares))
}

/// The results of one experiment, for all its runs and seeds.
#[derive(Debug)]
pub struct Measured<'r> {
    results: BTreeMap<&'r RunKey, &'r Measurement>,
    points: &'r [(&'static str, String)],
    /// Reason why the experiment has no results; `None` if it has results.
    missing: Option<&'r str>,
}

impl<'r> Measured<'r> {
    pub(super) fn new(
        results: BTreeMap<&'r RunKey, &'r Measurement>, points: &'r [(&'static str, String)], missing: Option<&'r str>,
    ) -> Measured<'r> {
        Measured { results, points, missing }
    }

    /// Names of the points of the sweep in `file`, in the order of the file.
    pub fn points(&self, file: &str) -> Vec<&'r str> {
        self.points.iter().filter(|(name, _)| *name == file).map(|(_, point)| point.as_str()).collect()
    }

    /// The congestion controls in `of` for which the experiment has results of runs of `file`, in the order of `of`.
    pub fn ccs<'c>(&self, file: &str, of: &[&'c str]) -> Vec<&'c str> {
        let known = |cc: &&&str| self.results.keys().any(|key| key.file == file && key.cc == **cc);
        // If the experiment has no results, all congestion controls are returned, so that there are rows that say so.
        of.iter().filter(|cc| self.missing.is_some() || known(cc)).copied().collect()
    }

    /// Whether the experiment has a result for this case (a run at a point of the sweep).
    pub fn has(&self, case: Case<'_>) -> bool {
        self.results.keys().any(|key| case.is(key))
    }

    /// The values of a metric in a case (a run at a point of the sweep), one value per seed.
    pub fn values(&self, case: Case<'_>, metric: Metric) -> Sample {
        self.values_of(case, "", metric)
    }

    /// The values of a metric for the flows of one traffic source in a case, one value per seed.
    pub fn values_of(&self, case: Case<'_>, traffic: &str, metric: Metric) -> Sample {
        if let Some(reason) = self.missing {
            return Err(format!("not available: {reason}"));
        }
        let mut values = Vec::new();
        for (key, result) in self.results.iter().filter(|(key, _)| case.is(key)) {
            match (metric.of(result, traffic), &result.failure) {
                (_, Some(reason)) => return Err(format!("{} failed (seed {}): {reason}", case.text(), key.seed)),
                (None, None) => return Err(format!("{} has no {} (seed {})", case.text(), metric.text(), key.seed)),
                (Some(value), None) => values.push(value),
            }
        }
        if values.is_empty() { Err(format!("there is no run {} of {}", case.text(), case.file)) } else { Ok(values) }
    }

    /// The result of the case (a run at a point of the sweep) for the first seed; `None` if there is none.
    pub fn first(&self, case: Case<'_>) -> Option<&'r Measurement> {
        self.results.iter().find(|(key, _)| case.is(key)).map(|(_, result)| *result)
    }

    /// The ratio of a metric between two cases (`above` / `below`), one value per seed.
    pub fn ratio(&self, above: Case<'_>, below: Case<'_>, metric: Metric) -> Sample {
        divide(self.values(above, metric)?, &self.values(below, metric)?)
    }

    /// The ratio of a metric between two cases for the flows of one traffic source, one value per seed.
    pub fn ratio_of(&self, above: Case<'_>, below: Case<'_>, traffic: &str, metric: Metric) -> Sample {
        divide(self.values_of(above, traffic, metric)?, &self.values_of(below, traffic, metric)?)
    }
}

/// The quotients of two samples (`above` / `below`), one value per seed.
pub fn divide(above: Vec<f64>, below: &[f64]) -> Sample {
    if above.len() != below.len() {
        return Err("the two cases have different seeds".to_string());
    }
    Ok(above.into_iter().zip(below).map(|(a, b)| a / b).collect())
}

/// Applies `change` to each value of a sample, for example to turn the ratio 1.2 into the increase 0.2.
pub fn each(sample: Sample, change: impl Fn(f64) -> f64) -> Sample {
    sample.map(|values| values.into_iter().map(change).collect())
}

/// The sample with the largest mean among the named samples of several cases, and its name. If a case has no result,
/// the returned sample is an error, because the missing mean could be the largest.
pub fn largest(cases: Vec<(String, Sample)>) -> (Sample, String) {
    extreme(cases, |mean| mean)
}

/// The sample with the smallest mean among the named samples of several cases, and its name.
pub fn smallest(cases: Vec<(String, Sample)>) -> (Sample, String) {
    extreme(cases, |mean| -mean)
}

/// The sample whose mean has the largest absolute value among the named samples of several cases, and its name.
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
                if best.as_ref().is_none_or(|(max, ..)| value > *max) {
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
    fn extremes_have_a_name_and_need_all_cases() {
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
    fn the_fairness_index_is_jains() {
        use rnic_campaign::measurement::Course;
        // The third flow starts late, so its values belong to the last two intervals.
        let gbps = vec![vec![9.0, 4.0, 4.0, 4.0], vec![9.0, 4.0, 4.0, 4.0], vec![1.0, 1.0]];
        let course = Course { at_us: vec![10.0, 20.0, 30.0, 40.0], gbps };
        let result = Measurement { course: Some(course), ..Measurement::default() };
        assert_eq!(fairness(&result, 0..=1, 10, 40), Some(1.0));
        assert_eq!(fairness(&result, 0..=2, 20, 40), Some(81.0 / (3.0 * 33.0)));
        assert_eq!(fairness(&result, 0..=2, 0, 20), Some((6.5 + 6.5_f64).powi(2) / (3.0 * 2.0 * 6.5 * 6.5)));
        assert_eq!(fairness(&result, 0..=3, 0, 20), None, "there is no fourth flow");
    }

    #[test]
    fn ratios_are_computed_for_each_seed() {
        assert_eq!(divide(vec![2.0, 9.0], &[1.0, 3.0]), Ok(vec![2.0, 3.0]));
        assert!(divide(vec![2.0], &[1.0, 3.0]).is_err());
        assert_eq!(each(Ok(vec![1.5]), |r| r - 1.0), Ok(vec![0.5]));
    }
}
