//! Collective operations of a run: completion times and bandwidths, in `summary.json`, as sentences, and in
//! `collectives.csv`.
//!
//! The algorithm bandwidth is the size of the operation divided by its time. The bus bandwidth is the algorithm
//! bandwidth times a factor of the operation and the number of ranks, so that it can be compared with the rate of a
//! link. Both are defined as in nccl-tests (its document PERFORMANCE.md), and are in 10^9 bytes per second.

use super::stats::Distribution;
use super::text::{duration, exact_us, round6, three_digits};
use rnic_spec::{
    Algorithm, Collective, CollectiveOperation, CollectiveRecord, ExcessRecord, PathRecord, RunOutput, RunRecord,
    RunSpec, Scenario, TaskCollective, TrafficPattern,
};
use rnic_transport::Time;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Columns of `collectives.csv`, one row per run and collective operation of a group, or of a communicator of a program
/// of tasks. The columns from `end_us` to `excess_us` are empty if the operation did not complete; the last three of
/// them, the parts of the critical path, add up to `time_us`. `step` and `kind` are empty unless tasks have them, and
/// the columns after them unless the run measures the parts of `excess_us`.
const COLUMNS: [&str; 22] = [
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
    "algorithm",
    "step",
    "kind",
    "queueing_us",
    "pause_us",
    "retransmission_us",
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
    let has = |output: &RunOutput| !output.collectives.is_empty() || !output.task_collectives.records.is_empty();
    reports.iter().any(|report| has(&report.output))
}

/// A warning if the records of collective operations are not complete.
pub(super) fn missing(output: &RunOutput) -> Option<String> {
    let all = &output.task_collectives;
    (all.left_out > 0).then(|| {
        format!(
            "{} collective operations are missing in collectives.csv, which has the first {}",
            all.left_out,
            all.records.len()
        )
    })
}

/// What a row of `collectives.csv` says.
struct Row<'a> {
    traffic: u16,
    operation: CollectiveOperation,
    algorithm: Algorithm,
    ranks: u32,
    bytes: u64,
    group: u32,
    repeat: u32,
    /// Start of the first rank, start of the last rank, end.
    times: (Time, Time, Option<Time>),
    path: PathRecord,
    /// Step and kind of the tasks that are the operation.
    task: Option<(u32, &'a str)>,
}

impl<'a> Row<'a> {
    fn of_group(run: &RunSpec, record: &CollectiveRecord) -> Option<Row<'a>> {
        let TrafficPattern::Collective(collective) = &run.traffic.get(usize::from(record.traffic))?.pattern else {
            return None;
        };
        let Collective { operation, algorithm, size, group: ranks, .. } = *collective;
        let CollectiveRecord { traffic, group, repeat, start, last_start, end, path } = *record;
        let times = (start, last_start, end);
        Some(Row { traffic, operation, algorithm, ranks, bytes: size.0, group, repeat, times, path, task: None })
    }

    fn of_tasks(record: &TaskCollective, kind: &'a str) -> Row<'a> {
        let TaskCollective { traffic, operation, algorithm, ranks, bytes, communicator, number, path, .. } = *record;
        let times = (record.start, record.last_start, record.end);
        let (group, repeat, task) = (communicator, number, Some((record.step, kind)));
        Row { traffic, operation, algorithm, ranks, bytes, group, repeat, times, path, task }
    }

    /// The values of the row, in the order of [`COLUMNS`].
    fn cells(&self, run: &RunSpec) -> [String; COLUMNS.len()] {
        let (start, last_start, end) = self.times;
        let time = end.map(|end| end.saturating_sub(start));
        let algbw = time.and_then(|time| bandwidth(self.bytes as f64, time.as_us()));
        let optional = |value: Option<f64>| value.map_or(String::new(), |value| round6(value).to_string());
        let part = |part: Time| end.map_or(String::new(), |_| exact_us(part));
        let measured = self.path.excess_parts.filter(|_| end.is_some());
        let cause = |of: fn(&ExcessRecord) -> Time| measured.map_or(String::new(), |parts| exact_us(of(&parts)));
        [
            run.name.clone(),
            run.traffic.get(usize::from(self.traffic)).map_or(String::new(), |source| source.name.clone()),
            self.operation.name().to_string(),
            self.ranks.to_string(),
            self.bytes.to_string(),
            self.group.to_string(),
            self.repeat.to_string(),
            exact_us(start),
            exact_us(last_start),
            end.map_or(String::new(), exact_us),
            time.map_or(String::new(), exact_us),
            optional(algbw),
            optional(algbw.map(|bandwidth| bandwidth * self.operation.bus_factor(self.ranks))),
            part(self.path.late),
            part(self.path.network),
            part(self.path.excess),
            self.algorithm.name().to_string(),
            self.task.map_or(String::new(), |(step, _)| step.to_string()),
            self.task.map_or(String::new(), |(_, kind)| kind.to_string()),
            cause(|parts| parts.queueing),
            cause(|parts| parts.pause),
            cause(|parts| parts.retransmission),
        ]
    }
}

/// Algorithm bandwidth in 10^9 bytes per second; `None` if the operation took no time.
pub(super) fn bandwidth(bytes: f64, time_us: f64) -> Option<f64> {
    (time_us > 0.0).then(|| bytes / time_us / 1e3)
}

/// Writes `collectives.csv`.
pub(super) fn write(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        let all = &report.output.task_collectives;
        let of_groups = report.output.collectives.iter().filter_map(|record| Row::of_group(run, record));
        let of_tasks = all.records.iter().map(|record| Row::of_tasks(record, all.label(record)));
        for row in of_groups.chain(of_tasks) {
            csv.write_record(row.cells(run))?;
        }
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use rnic_spec::TaskCollectives;

    #[test]
    fn an_operation_of_tasks_in_a_row() {
        let (scenario, mut reports) = fixture::two_runs();
        let us = Time::from_us;
        // An all-reduce of 4,000 B among 4 ranks in 10 us: 0.4 GB/s, times 2 x 3 / 4.
        let parts = ExcessRecord { queueing: us(2), pause: us(0), retransmission: us(1) };
        let record = TaskCollective {
            traffic: 0,
            communicator: 2,
            number: 7,
            step: 1,
            label: 1,
            operation: CollectiveOperation::AllReduce,
            algorithm: Algorithm::Tree,
            bytes: 4_000,
            ranks: 4,
            start: us(5),
            last_start: us(6),
            end: Some(us(15)),
            path: PathRecord { late: us(1), compute: us(0), network: us(6), excess: us(3), excess_parts: Some(parts) },
        };
        let unfinished = TaskCollective { end: None, label: 0, path: PathRecord::default(), ..record };
        reports[0].output.task_collectives = TaskCollectives {
            labels: vec![String::new(), "tensor".into()],
            records: vec![record, unfinished],
            left_out: 3,
        };
        assert!(any(&reports));
        let warning = "3 collective operations are missing in collectives.csv, which has the first 2";
        assert_eq!(missing(&reports[0].output).as_deref(), Some(warning));
        let mut out = Vec::new();
        write(&mut out, &scenario, &reports).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<&str> = text.lines().skip(1).collect();
        let names = format!("{},{}", scenario.runs[0].name, scenario.runs[0].traffic[0].name);
        let expected = [
            format!("{names},all-reduce,4,4000,2,7,5,6,15,10,0.4,0.6,1,6,3,tree,1,tensor,2,0,1"),
            format!("{names},all-reduce,4,4000,2,7,5,6,,,,,,,,tree,1,,,,"),
        ];
        assert_eq!(rows, expected);
    }
}
