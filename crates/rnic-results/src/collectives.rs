//! Collective operations of a run: completion times and bandwidths, in `summary.json`, as sentences, and in
//! `collectives.csv`.
//!
//! The algorithm bandwidth is the size of the operation divided by its time. The bus bandwidth is the algorithm
//! bandwidth times a factor of the operation and the number of ranks, so that it can be compared with the rate of a
//! link. Both are defined as in nccl-tests (its document PERFORMANCE.md), and are in 10^9 bytes per second.

use super::stats::Distribution;
use super::text::{duration, exact_us, round6, three_digits};
use rnic_spec::{Collective, CollectiveRecord, RunOutput, RunRecord, RunSpec, Scenario, TrafficPattern};
use rnic_transport::Time;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Columns of `collectives.csv`, one row per run and collective operation of a group. The columns from `end_us` on are
/// empty if the operation did not complete. The last three columns, the parts of the critical path, add up to
/// `time_us`.
const COLUMNS: [&str; 16] = [
    "run",
    "traffic",
    "operation",
    "ranks",
    "bytes",
    "group",
    "repeat",
    "start_us",
    "last_start_us",
    "end_us",
    "time_us",
    "algbw_GBps",
    "busbw_GBps",
    "late_us",
    "network_us",
    "excess_us",
];

/// The collective operations of one traffic source.
#[derive(Clone, PartialEq, Debug)]
pub struct CollectiveSummary {
    /// Name of the traffic source.
    pub traffic: String,
    /// The operations that the source repeats.
    pub collective: Collective,
    /// Number of operations that completed, over all groups.
    pub completed: u64,
    /// Number of operations of the source, over all groups.
    pub operations: u64,
    /// Distribution of the completion times in microseconds, from the first rank's start to the last rank's end.
    pub time_us: Option<Distribution>,
    /// The parts of the critical path in microseconds, on average over the completed operations: late start of a rank,
    /// messages on an empty fabric, and the additional time of messages on the loaded fabric. They add up to the mean
    /// of `time_us`.
    pub path_us: Option<[f64; 3]>,
}

impl CollectiveSummary {
    /// Algorithm bandwidth in 10^9 bytes per second, at the mean completion time.
    pub fn algbw(&self) -> Option<f64> {
        self.time_us.as_ref().map(|time| self.collective.size.0 as f64 / time.mean / 1e3)
    }

    /// Bus bandwidth in 10^9 bytes per second, at the mean completion time.
    pub fn busbw(&self) -> Option<f64> {
        self.algbw().map(|bandwidth| bandwidth * self.collective.bus_factor())
    }
}

/// The time that an operation took; `None` if it did not complete.
fn time(record: &CollectiveRecord) -> Option<Time> {
    record.end.map(|end| end.saturating_sub(record.start))
}

/// The collective operations of a run, by traffic source.
pub(super) fn summarise(spec: &RunSpec, output: &RunOutput) -> Vec<CollectiveSummary> {
    let summary = |(index, source): (usize, &rnic_spec::Traffic)| {
        let TrafficPattern::Collective(collective) = &source.pattern else { return None };
        let own = output.collectives.iter().filter(|record| usize::from(record.traffic) == index);
        let done: Vec<&CollectiveRecord> = own.clone().filter(|record| record.end.is_some()).collect();
        let mean = |of: fn(&CollectiveRecord) -> Time| {
            done.iter().map(|record| of(record).as_us()).sum::<f64>() / done.len() as f64
        };
        let path_us =
            [mean(|record| record.path.late), mean(|record| record.path.network), mean(|record| record.path.excess)];
        let times: Vec<f64> = own.filter_map(time).map(|time| time.as_us()).collect();
        Some(CollectiveSummary {
            traffic: source.name.clone(),
            collective: collective.clone(),
            completed: times.len() as u64,
            operations: u64::from(collective.groups()) * u64::from(collective.repeats),
            path_us: (!done.is_empty()).then_some(path_us),
            time_us: Distribution::of(times),
        })
    };
    spec.traffic.iter().enumerate().filter_map(summary).collect()
}

/// The collective operations as a JSON array, one object per traffic source.
pub(super) fn to_json(collectives: &[CollectiveSummary]) -> Value {
    let object = |summary: &CollectiveSummary| {
        let Collective { operation, algorithm, size, group, .. } = summary.collective;
        let us = |of: fn(&Distribution) -> f64| summary.time_us.as_ref().map(|time| round6(of(time)));
        json!({
            "traffic": summary.traffic,
            "operation": operation.name(),
            "algorithm": algorithm.name(),
            "bytes": size.0,
            "ranks": group,
            "operations": summary.operations,
            "completed": summary.completed,
            "time_us": {
                "mean": us(|time| time.mean),
                "p50": us(|time| time.p50),
                "p99": us(|time| time.p99),
                "max": us(|time| time.max),
            },
            "path_us": summary.path_us.map(|[late, network, excess]| json!({
                "late": round6(late),
                "network": round6(network),
                "excess": round6(excess),
            })),
            "algbw_GBps": summary.algbw().map(round6),
            "busbw_GBps": summary.busbw().map(round6),
        })
    };
    collectives.iter().map(object).collect()
}

/// A sentence for each traffic source with collective operations.
pub(super) fn sentences(collectives: &[CollectiveSummary]) -> Vec<String> {
    let sentence = |summary: &CollectiveSummary| {
        let Collective { operation, size, group, .. } = summary.collective;
        let what = format!("{} of {size} among {group} ranks (`{}`)", operation.name(), summary.traffic);
        match (&summary.time_us, summary.algbw(), summary.busbw()) {
            (Some(time), Some(algbw), Some(busbw)) => format!(
                "{what}: {} on average, {} at most; algorithm bandwidth {} GB/s, bus bandwidth {} GB/s; {} of {} completed",
                duration(time.mean),
                duration(time.max),
                three_digits(algbw),
                three_digits(busbw),
                summary.completed,
                summary.operations
            ),
            _ => format!("{what}: none of {} operations completed", summary.operations),
        }
    };
    collectives.iter().map(sentence).collect()
}

/// Whether a run has collective operations.
pub(super) fn any(reports: &[RunRecord]) -> bool {
    reports.iter().any(|report| !report.output.collectives.is_empty())
}

/// Writes `collectives.csv`.
pub(super) fn write(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        for record in &report.output.collectives {
            let source = &run.traffic[usize::from(record.traffic)];
            let TrafficPattern::Collective(collective) = &source.pattern else { continue };
            let time = time(record);
            let algbw = time.map(|time| collective.size.0 as f64 / time.as_us() / 1e3);
            let optional = |value: Option<f64>| value.map_or(String::new(), |value| round6(value).to_string());
            let part = |part: Time| record.end.map_or(String::new(), |_| exact_us(part));
            csv.write_record([
                run.name.as_str(),
                &source.name,
                collective.operation.name(),
                &collective.group.to_string(),
                &collective.size.0.to_string(),
                &record.group.to_string(),
                &record.repeat.to_string(),
                &exact_us(record.start),
                &exact_us(record.last_start),
                &record.end.map_or(String::new(), exact_us),
                &time.map_or(String::new(), exact_us),
                &optional(algbw),
                &optional(algbw.map(|bandwidth| bandwidth * collective.bus_factor())),
                &part(record.path.late),
                &part(record.path.network),
                &part(record.path.excess),
            ])?;
        }
    }
    csv.flush()
}
