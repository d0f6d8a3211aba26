//! Steps of programs of tasks, such as training steps: their times, the share of the time in which ranks compute, their
//! busiest links, and the operations of each kind, in `summary.json`, as sentences, and in `steps.csv`.

use super::collectives::bandwidth;
use super::stats::Distribution;
use super::step_links::{self, StepLink};
use super::text::{duration, exact_us, percent, round6, three_digits};
use rnic_spec::{ExcessRecord, OperationRecord, RunOutput, RunRecord, RunSpec, Scenario, StepRecord, TrafficPattern};
use rnic_transport::Time;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Columns of `steps.csv`, one row per run and step. The columns from `end_us` on are empty if the step did not
/// complete. The columns from `late_us` to `excess_us`, the parts of the critical path, add up to `time_us`. The last
/// three columns are empty unless the run measures the parts of `excess_us`.
const COLUMNS: [&str; 17] = [
    "run",
    "traffic",
    "step",
    "measured",
    "start_us",
    "end_us",
    "time_us",
    "computing",
    "late_us",
    "compute_us",
    "imbalance_us",
    "bubble_us",
    "network_us",
    "excess_us",
    "queueing_us",
    "pause_us",
    "retransmission_us",
];

/// The parts of the critical path of a step in microseconds; their sum is the time of the step. The critical path is a
/// chain of computations and messages: each begins when the previous one ends, and the last one ends the step.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Parts {
    /// Time from the start of the first rank to the start of the rank at which the path begins.
    pub late: f64,
    /// Time for which ranks compute on the path, at most as long as a rank computes on average.
    pub compute: f64,
    /// Time of computation on the path beyond `compute`, up to the time of the rank that computes longest: the other
    /// ranks wait for a straggler, or for a rank with more work.
    pub imbalance: f64,
    /// Time of computation on the path beyond the time of the rank that computes longest: computations of several ranks
    /// follow each other, as in the bubble of a pipeline.
    pub bubble: f64,
    /// Time that the messages on the path would take on an empty fabric.
    pub network: f64,
    /// Time by which these messages are slower.
    pub excess: f64,
}

impl Parts {
    /// The parts with their names in result files, in the order of the columns.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        let Parts { late, compute, imbalance, bubble, network, excess } = *self;
        [
            ("late", late),
            ("compute", compute),
            ("imbalance", imbalance),
            ("bubble", bubble),
            ("network", network),
            ("excess", excess),
        ]
    }

    /// The sum of the parts.
    pub fn sum(&self) -> f64 {
        self.named().iter().map(|(_, time)| time).sum()
    }

    fn of(step: &StepRecord, ranks: u32) -> Option<Parts> {
        step.end?;
        let path = &step.path;
        // Whole picoseconds, so that the parts add up exactly.
        let (on_path, longest) = (path.compute.as_ps(), step.longest_compute.as_ps());
        let compute = on_path.min(step.compute.as_ps() / u64::from(ranks.max(1)));
        let balanced = on_path.min(longest).max(compute);
        let us = |ps: u64| Time::from_ps(ps).as_us();
        Some(Parts {
            late: path.late.as_us(),
            compute: us(compute),
            imbalance: us(balanced - compute),
            bubble: us(on_path - balanced),
            network: path.network.as_us(),
            excess: path.excess.as_us(),
        })
    }

    fn mean(all: &[Parts]) -> Option<Parts> {
        let mean = |of: fn(&Parts) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        (!all.is_empty()).then(|| Parts {
            late: mean(|parts| parts.late),
            compute: mean(|parts| parts.compute),
            imbalance: mean(|parts| parts.imbalance),
            bubble: mean(|parts| parts.bubble),
            network: mean(|parts| parts.network),
            excess: mean(|parts| parts.excess),
        })
    }
}

/// The steps of one traffic source.
#[derive(Clone, PartialEq, Debug)]
pub struct StepSummary {
    /// Name of the traffic source.
    pub traffic: String,
    /// Number of ranks.
    pub ranks: u32,
    /// Number of steps that count in the statistics.
    pub steps: u64,
    /// Number of these steps that completed.
    pub completed: u64,
    /// Distribution of the times of the steps in microseconds, from the first rank's start to the last rank's end.
    pub time_us: Option<Distribution>,
    /// Fraction of the time of the steps for which a rank computes on average; the rest is time in which it waits for
    /// messages and other ranks.
    pub computing: Option<f64>,
    /// Where the time of the steps goes, on average.
    pub parts: Option<Parts>,
    /// Queueing, pauses, retransmission and the rest of the excess of a step in microseconds, on average; `None` if the
    /// run does not measure them.
    pub causes: Option<[f64; 4]>,
    /// The operations of each kind, of all steps.
    pub operations: Vec<OperationRecord>,
    /// The links that were sending for the largest fraction of the time of the measured steps, busiest first.
    pub links: Vec<StepLink>,
}

/// The fraction of a step for which ranks compute; `None` if the step did not complete.
fn computing(step: &StepRecord, ranks: u32) -> Option<f64> {
    let time = step.end?.saturating_sub(step.start);
    Some(step.compute.as_us() / (time.as_us() * f64::from(ranks)).max(f64::MIN_POSITIVE))
}

/// Number of ranks of a pattern with steps, and of its steps that count; `None` for the steps of a trace, where every
/// step that began counts.
fn extent(pattern: &TrafficPattern) -> Option<(u32, Option<u64>)> {
    match pattern {
        TrafficPattern::Training(training) => {
            Some((training.deployment.ranks, Some(u64::from(training.steps - training.warmup_steps))))
        }
        TrafficPattern::Inference(inference) => Some((inference.deployment.ranks, None)),
        TrafficPattern::Trace(trace) => Some((trace.deployment.ranks, None)),
        _ => None,
    }
}

/// Queueing, pauses, retransmission and the rest of the excess, on average over the steps that completed.
fn causes(steps: &[&StepRecord]) -> Option<[f64; 4]> {
    let of = |step: &&StepRecord| {
        step.end?;
        let ExcessRecord { queueing, pause, retransmission } = step.path.excess_parts?;
        let rest = step.path.excess.saturating_sub(queueing).saturating_sub(pause).saturating_sub(retransmission);
        Some([queueing, pause, retransmission, rest].map(Time::as_us))
    };
    let all: Vec<[f64; 4]> = steps.iter().filter_map(of).collect();
    let mean = |part: usize| all.iter().map(|of| of[part]).sum::<f64>() / all.len() as f64;
    (!all.is_empty()).then(|| [mean(0), mean(1), mean(2), mean(3)])
}

/// The steps of a run, by traffic source.
pub(super) fn summarise(spec: &RunSpec, output: &RunOutput) -> Vec<StepSummary> {
    let summary = |(index, source): (usize, &rnic_spec::Traffic)| {
        let (ranks, steps) = extent(&source.pattern)?;
        let own = |traffic: u16| usize::from(traffic) == index;
        let measured: Vec<_> = output.steps.iter().filter(|step| own(step.traffic) && step.is_measured).collect();
        let times = measured.iter().filter_map(|step| Some(step.end?.saturating_sub(step.start).as_us()));
        let times: Vec<f64> = times.collect();
        let parts: Vec<Parts> = measured.iter().filter_map(|step| Parts::of(step, ranks)).collect();
        let shares: Vec<f64> = measured.iter().filter_map(|step| computing(step, ranks)).collect();
        Some(StepSummary {
            traffic: source.name.clone(),
            ranks,
            steps: steps.unwrap_or(measured.len() as u64),
            completed: times.len() as u64,
            time_us: Distribution::of(times),
            computing: Distribution::of(shares).map(|shares| shares.mean),
            parts: Parts::mean(&parts),
            causes: causes(&measured),
            operations: output.operations.iter().filter(|record| own(record.traffic)).cloned().collect(),
            links: step_links::of_source(output, index),
        })
    };
    spec.traffic.iter().enumerate().filter_map(summary).collect()
}

/// The name of what operations do: that of a collective operation, or `message`.
fn name(record: &OperationRecord) -> &'static str {
    record.operation.map_or("message", |operation| operation.name())
}

fn mean_us(record: &OperationRecord) -> f64 {
    record.total_time.as_us() / record.count.max(1) as f64
}

/// Algorithm bandwidth in 10^9 bytes per second: the mean size divided by the mean time.
fn algbw(record: &OperationRecord) -> Option<f64> {
    bandwidth(record.bytes as f64, record.total_time.as_us())
}

/// Bus bandwidth in 10^9 bytes per second; for messages, as for the operation sendrecv of nccl-tests, the algorithm
/// bandwidth.
pub(super) fn busbw(record: &OperationRecord) -> Option<f64> {
    let factor = record.operation.map_or(1.0, |operation| operation.bus_factor(record.ranks));
    Some(algbw(record)? * factor)
}

/// The steps as a JSON array, one object per traffic source.
pub(super) fn to_json(summaries: &[StepSummary]) -> Value {
    let operation = |record: &OperationRecord| {
        json!({
            "kind": record.label,
            "operation": name(record),
            "ranks": record.operation.map(|_| record.ranks),
            "count": record.count,
            "bytes": record.bytes,
            "time_us": { "mean": round6(mean_us(record)), "max": round6(record.longest.as_us()) },
            "algbw_GBps": algbw(record).map(round6),
            "busbw_GBps": busbw(record).map(round6),
        })
    };
    let object = |summary: &StepSummary| {
        let us = |of: fn(&Distribution) -> f64| summary.time_us.as_ref().map(|time| round6(of(time)));
        json!({
            "traffic": summary.traffic,
            "ranks": summary.ranks,
            "steps": summary.steps,
            "completed": summary.completed,
            "time_us": {
                "mean": us(|time| time.mean),
                "p50": us(|time| time.p50),
                "p99": us(|time| time.p99),
                "max": us(|time| time.max),
            },
            "computing": summary.computing.map(round6),
            "path_us": summary.parts.map(|parts| {
                let parts = parts.named().map(|(name, time)| (name.to_string(), json!(round6(time))));
                parts.into_iter().collect::<serde_json::Map<_, _>>()
            }),
            "excess_us": summary.causes.map(|[queueing, pause, retransmission, sender]| json!({
                "queueing": round6(queueing),
                "pause": round6(pause),
                "retransmission": round6(retransmission),
                "sender": round6(sender),
            })),
            "links": summary.links.iter().map(step_links::to_json).collect::<Vec<_>>(),
            "operations": summary.operations.iter().map(operation).collect::<Vec<_>>(),
        })
    };
    summaries.iter().map(object).collect()
}

/// Maximum number of kinds of operations of a source that get a sentence: the kinds that took the most time.
const MAX_KINDS: usize = 8;

/// A number of bytes with three digits.
fn size(bytes: f64) -> String {
    let (scale, unit) =
        [(1e9, "GB"), (1e6, "MB"), (1e3, "KB")].into_iter().find(|(scale, _)| bytes >= *scale).unwrap_or((1.0, "B"));
    format!("{} {unit}", three_digits(bytes / scale))
}

/// A sentence about the operations of one kind.
fn sentence(traffic: &str, record: &OperationRecord) -> String {
    let OperationRecord { label, count, bytes, longest, .. } = record;
    let kind = if label.is_empty() { String::new() } else { format!(", {label}") };
    let (mean, name) = (duration(mean_us(record)), name(record));
    let size = size(*bytes as f64 / (*count).max(1) as f64);
    let ranks = record.operation.map_or(String::new(), |_| format!(" among {} ranks", record.ranks));
    let rate = busbw(record).map_or(String::new(), |rate| format!("; bus bandwidth {} GB/s", three_digits(rate)));
    match count {
        1 => format!("`{traffic}`{kind}: one {name}{ranks} of {size}: {mean}{rate}"),
        _ => {
            let longest = duration(longest.as_us());
            format!(
                "`{traffic}`{kind}: {count} x {name}{ranks}, {size} on average: {mean} on average, {longest} at most{rate}"
            )
        }
    }
}

/// A sentence about where the time of the steps goes: the parts of the critical path that are not 0.
fn path_sentence(traffic: &str, parts: &Parts) -> String {
    let what = |name| match name {
        "late" => "late start",
        "compute" => "computation",
        "imbalance" => "computation of the slowest rank beyond the mean",
        "bubble" => "computation of other ranks (bubble)",
        "network" => "messages on an empty fabric",
        _ => "messages beyond this",
    };
    let parts: Vec<String> = parts
        .named()
        .iter()
        .filter(|(_, time)| *time > 0.0)
        .map(|(name, time)| format!("{} {} ({})", what(name), duration(*time), percent(time / parts.sum())))
        .collect();
    format!("critical path of a step (`{traffic}`): {}", parts.join(", "))
}

/// A sentence about why the messages on the critical path are slower than on an empty fabric.
fn causes_sentence(traffic: &str, causes: [f64; 4]) -> String {
    let names = ["queueing", "pauses", "retransmission", "waiting at the sender"];
    let parts: Vec<String> = names
        .iter()
        .zip(causes)
        .filter(|(_, time)| *time > 0.0)
        .map(|(name, time)| format!("{name} {}", duration(time)))
        .collect();
    match parts.is_empty() {
        true => format!("messages on the critical path (`{traffic}`) are not slower than on an empty fabric"),
        false => format!("messages on the critical path (`{traffic}`) are slower by: {}", parts.join(", ")),
    }
}

/// Sentences for each traffic source with steps: one about the steps, one about their critical path, one about their
/// links, and one for each kind of operations.
pub(super) fn sentences(summaries: &[StepSummary]) -> Vec<String> {
    let of_source = |summary: &StepSummary| {
        let StepSummary { traffic, ranks, steps, completed, .. } = summary;
        let steps = match (&summary.time_us, summary.computing) {
            (Some(time), Some(share)) => format!(
                "steps of {ranks} ranks (`{traffic}`): {} on average, {} at most; ranks compute {} of the time; {completed} \
                 of {steps} completed",
                duration(time.mean),
                duration(time.max),
                percent(share)
            ),
            _ => format!("steps of {ranks} ranks (`{traffic}`): none of {steps} completed"),
        };
        let mut kinds: Vec<&OperationRecord> = summary.operations.iter().collect();
        kinds.sort_by_key(|record| std::cmp::Reverse(record.total_time));
        let others = kinds.len().saturating_sub(MAX_KINDS);
        kinds.truncate(MAX_KINDS);
        let others = (others > 0).then(|| format!("`{traffic}`: {others} other kinds of operations; see summary.json"));
        [steps]
            .into_iter()
            .chain(summary.parts.as_ref().map(|parts| path_sentence(traffic, parts)))
            .chain(summary.causes.map(|causes| causes_sentence(traffic, causes)))
            .chain(step_links::sentence(traffic, &summary.links))
            .chain(kinds.into_iter().map(|record| sentence(traffic, record)))
            .chain(others)
            .collect::<Vec<_>>()
    };
    summaries.iter().flat_map(of_source).collect()
}

/// Whether a run has steps.
pub(super) fn any(reports: &[RunRecord]) -> bool {
    reports.iter().any(|report| !report.output.steps.is_empty())
}

/// A time of whole picoseconds, given in microseconds.
fn us(time: f64) -> Time {
    Time::from_ps((time * 1e6).round() as u64)
}

/// Writes `steps.csv`.
pub(super) fn write(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        for record in &report.output.steps {
            let source = &run.traffic[usize::from(record.traffic)];
            let Some((ranks, _)) = extent(&source.pattern) else { continue };
            let time = record.end.map(|end| end.saturating_sub(record.start));
            let parts = Parts::of(record, ranks);
            let part = |index: usize| parts.map_or(String::new(), |parts| exact_us(us(parts.named()[index].1)));
            let measured = record.path.excess_parts.filter(|_| record.end.is_some());
            let cause = |of: fn(&ExcessRecord) -> Time| measured.map_or(String::new(), |parts| exact_us(of(&parts)));
            csv.write_record([
                run.name.as_str(),
                &source.name,
                &record.step.to_string(),
                &record.is_measured.to_string(),
                &exact_us(record.start),
                &record.end.map_or(String::new(), exact_us),
                &time.map_or(String::new(), exact_us),
                &computing(record, ranks).map_or(String::new(), |share| round6(share).to_string()),
                &part(0),
                &part(1),
                &part(2),
                &part(3),
                &part(4),
                &part(5),
                &cause(|parts| parts.queueing),
                &cause(|parts| parts.pause),
                &cause(|parts| parts.retransmission),
            ])?;
        }
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_spec::PathRecord;

    /// A step of four ranks that computed for 80 us together, the longest for 30 us.
    fn step(path: PathRecord) -> StepRecord {
        let us = Time::from_us;
        let end = Some(us(100) + path.late + path.compute + path.network + path.excess);
        let (compute, longest_compute) = (us(80), us(30));
        StepRecord { start: us(100), end, compute, longest_compute, path, ..StepRecord::default() }
    }

    fn path(compute: u64) -> PathRecord {
        let us = Time::from_us;
        PathRecord { late: us(1), compute: us(compute), network: us(7), excess: us(9), excess_parts: None }
    }

    #[test]
    fn computation_on_the_path_is_that_of_a_rank_a_straggler_and_a_bubble() {
        let parts = |compute| Parts::of(&step(path(compute)), 4).unwrap();
        let computing = |compute| {
            let Parts { compute, imbalance, bubble, .. } = parts(compute);
            [compute, imbalance, bubble]
        };
        assert_eq!(computing(35), [20.0, 10.0, 5.0]);
        assert_eq!(computing(30), [20.0, 10.0, 0.0]);
        assert_eq!(computing(22), [20.0, 2.0, 0.0]);
        assert_eq!(computing(15), [15.0, 0.0, 0.0]);
        for compute in [15, 22, 30, 35] {
            let parts = parts(compute);
            assert_eq!((parts.late, parts.network, parts.excess), (1.0, 7.0, 9.0));
            assert_eq!(parts.sum(), compute as f64 + 17.0, "the time of the step");
        }
        assert_eq!(Parts::of(&StepRecord { end: None, ..step(path(35)) }, 4), None);
    }

    #[test]
    fn causes_of_the_excess_by_hand() {
        let us = Time::from_us;
        let parts = |queueing| Some(ExcessRecord { queueing: us(queueing), pause: us(0), retransmission: us(2) });
        // Steps with an excess of 9 us, of which 3 and 1 us are queueing, and 2 us are retransmission.
        let of = |queueing| step(PathRecord { excess_parts: parts(queueing), ..path(20) });
        let (one, other) = (of(3), of(1));
        assert_eq!(causes(&[&one, &other]), Some([2.0, 0.0, 2.0, 5.0]));
        assert_eq!(causes(&[&step(path(20))]), None);
        assert_eq!(
            causes_sentence("t", [2.0, 0.0, 2.0, 5.0]),
            "messages on the critical path (`t`) are slower by: queueing 2.00 us, retransmission 2.00 us, waiting at the \
             sender 5.00 us"
        );
    }

    #[test]
    fn bandwidths_of_operations_by_hand() {
        // 10 all-reduces of 4,000 B among 4 ranks, 10 us each: 0.4 GB/s, times 2 x 3 / 4.
        let record = OperationRecord {
            traffic: 0,
            label: "tensor".into(),
            operation: Some(rnic_spec::CollectiveOperation::AllReduce),
            ranks: 4,
            count: 10,
            bytes: 40_000,
            total_time: Time::from_us(100),
            longest: Time::from_us(12),
        };
        assert_eq!((algbw(&record).map(round6), busbw(&record).map(round6)), (Some(0.4), Some(0.6)));
        assert_eq!(
            sentence("t", &record),
            "`t`, tensor: 10 x all-reduce among 4 ranks, 4.00 KB on average: 10.0 us on average, 12.0 us at most; bus \
             bandwidth 0.60 GB/s"
        );
        let message = OperationRecord { operation: None, ranks: 2, ..record.clone() };
        assert_eq!(busbw(&message), algbw(&message));
        assert_eq!(busbw(&OperationRecord { total_time: Time::ZERO, ..record }), None);
    }

    #[test]
    fn a_sentence_names_the_parts_that_are_not_zero() {
        let parts = Parts { late: 0.0, compute: 60.0, imbalance: 0.0, bubble: 0.0, network: 30.0, excess: 10.0 };
        assert_eq!(
            path_sentence("t", &parts),
            "critical path of a step (`t`): computation 60.0 us (60.0 %), messages on an empty fabric 30.0 us (30.0 %), \
             messages beyond this 10.0 us (10.0 %)"
        );
        assert_eq!(Parts::mean(&[parts, Parts { compute: 20.0, ..parts }]).unwrap().compute, 40.0);
        assert_eq!(Parts::mean(&[]), None);
    }
}
