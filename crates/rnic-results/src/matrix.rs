//! Payload between hosts over time in runs with programs, such as collective operations and training: `matrix.csv`.
//!
//! The file shows which hosts communicate in which part of a run. Its size is bounded whatever the number of hosts,
//! messages and operations: hosts are aggregated into groups, and times into intervals.

use super::text::exact_us;
use rnic_spec::{RunRecord, RunSpec, Scenario, Traffic};
use rnic_transport::Time;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Largest number of groups of hosts of a run. Groups have the same number of consecutive hosts, except the last one.
const GROUPS: u32 = 32;

/// Number of intervals into which a run is divided.
const INTERVALS: u64 = 32;

/// Columns of `matrix.csv`, one row per run, traffic source, interval, group of senders and group of receivers between
/// which a message arrived. `bytes` is the payload of the messages whose last byte arrived in the interval; an interval
/// does not include its start, and includes its end.
const COLUMNS: [&str; 10] =
    ["run", "traffic", "start_us", "end_us", "first_src", "last_src", "first_dst", "last_dst", "messages", "bytes"];

/// A cell of the matrix: traffic source, interval, group of senders, group of receivers.
type Cell = (u16, u64, u32, u32);

/// Messages and payload bytes of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Amount {
    messages: u64,
    bytes: u64,
}

/// The matrix of one run.
struct Matrix {
    /// One more than the largest index of a host that sent or received.
    hosts: u32,
    /// Number of hosts of a group.
    group: u32,
    /// Length of an interval in picoseconds.
    interval: u64,
    /// End of the run.
    end: Time,
    cells: BTreeMap<Cell, Amount>,
}

impl Matrix {
    /// The messages of the programs of `run`. Reads the records of flows twice.
    fn of(run: &RunSpec, report: &RunRecord) -> Self {
        let messages = || {
            let own = |traffic: u16| run.traffic.get(usize::from(traffic)).is_some_and(is_program);
            report.output.flows.iter().filter(move |flow| own(flow.traffic))
        };
        let hosts = messages().map(|flow| flow.src.max(flow.dst).saturating_add(1)).max().unwrap_or(0);
        let group = hosts.div_ceil(GROUPS).max(1);
        let end = report.output.end;
        let interval = end.as_ps().div_ceil(INTERVALS).max(1);
        let mut cells: BTreeMap<Cell, Amount> = BTreeMap::new();
        for flow in messages() {
            let Some(finish) = flow.finish else { continue };
            let number = (finish.as_ps().saturating_sub(1) / interval).min(INTERVALS - 1);
            let cell = cells.entry((flow.traffic, number, flow.src / group, flow.dst / group)).or_default();
            cell.messages += 1;
            cell.bytes = cell.bytes.saturating_add(flow.bytes);
        }
        Matrix { hosts, group, interval, end, cells }
    }

    /// The start and the end of an interval.
    fn times(&self, number: u64) -> (Time, Time) {
        let at = |number: u64| Time::from_ps(self.interval.saturating_mul(number)).min(self.end);
        (at(number), at(number + 1))
    }

    /// The first and the last host of a group.
    fn members(&self, group: u32) -> (u32, u32) {
        let first = group.saturating_mul(self.group);
        (first, first.saturating_add(self.group).min(self.hosts).saturating_sub(1))
    }
}

fn is_program(source: &Traffic) -> bool {
    source.pattern.is_program()
}

/// Whether a run has a program.
pub(super) fn any(scenario: &Scenario) -> bool {
    scenario.runs.iter().any(|run| run.traffic.iter().any(is_program))
}

/// Writes `matrix.csv`.
pub(super) fn write(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        if !run.traffic.iter().any(is_program) {
            continue;
        }
        let matrix = Matrix::of(run, report);
        for (&(traffic, number, senders, receivers), amount) in &matrix.cells {
            let (start, end) = matrix.times(number);
            let (first_src, last_src) = matrix.members(senders);
            let (first_dst, last_dst) = matrix.members(receivers);
            csv.write_record([
                run.name.as_str(),
                run.traffic.get(usize::from(traffic)).map_or("", |source| &source.name),
                &exact_us(start),
                &exact_us(end),
                &first_src.to_string(),
                &last_src.to_string(),
                &first_dst.to_string(),
                &last_dst.to_string(),
                &amount.messages.to_string(),
                &amount.bytes.to_string(),
            ])?;
        }
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use rnic_spec::{
        Algorithm, Collective, CollectiveOperation, CollectiveRecord, FlowRecord, Grouping, Placement, RunOutput,
        TrafficPattern,
    };
    use rnic_transport::Bytes;

    /// An all-to-all among `ranks` hosts with the given messages: (sender, receiver, bytes, finish). A background flow
    /// of another source shares the fabric.
    fn run_of(ranks: u32, messages: &[(u32, u32, u64, Option<Time>)], end: Time) -> (Scenario, Vec<RunRecord>) {
        let (mut scenario, mut reports) = fixture::empty();
        let run = &mut scenario.runs[0];
        run.traffic[0].pattern = TrafficPattern::Collective(Collective {
            operation: CollectiveOperation::AllToAll,
            algorithm: Algorithm::Direct,
            size: Bytes(1_000_000),
            ranks,
            group: ranks,
            grouping: Grouping::Consecutive,
            placement: Placement::Linear,
            placed: [].into(),
            matrix: [].into(),
            skew: None,
            repeats: 1,
            channels: 1,
            chunk: Bytes(100_000),
            outstanding: 4,
            compute: Time::ZERO,
            straggler: None,
            server: None,
            reaction: Time::from_ns(200),
        });
        let other = run.traffic[0].clone();
        run.traffic
            .push(rnic_spec::Traffic { pattern: fixture::two_runs().0.runs[0].traffic[0].pattern.clone(), ..other });
        let flow = |(id, &(src, dst, bytes, finish)): (usize, &(u32, u32, u64, Option<Time>))| FlowRecord {
            src,
            dst,
            finish,
            traffic: 0,
            ..fixture::flow(id as u32, bytes)
        };
        let own = messages.iter().enumerate().map(flow);
        let background = FlowRecord { traffic: 1, ..fixture::flow(messages.len() as u32, 77) };
        let start = Time::ZERO;
        reports[0].output = RunOutput {
            flows: own.chain([background]).collect(),
            end,
            collectives: vec![CollectiveRecord {
                traffic: 0,
                group: 0,
                repeat: 0,
                start,
                last_start: start,
                end: None,
                path: rnic_spec::PathRecord::default(),
            }],
            ..reports[0].output.clone()
        };
        (scenario, reports)
    }

    fn rows_of(ranks: u32, messages: &[(u32, u32, u64, Option<Time>)], end: Time) -> Vec<String> {
        let (scenario, reports) = run_of(ranks, messages, end);
        let mut out = Vec::new();
        write(&mut out, &scenario, &reports).unwrap();
        String::from_utf8(out).unwrap().lines().skip(1).map(String::from).collect()
    }

    #[test]
    fn messages_count_in_the_interval_in_which_they_arrive() {
        let us = |us| Some(Time::from_us(us));
        let messages = [(0, 1, 10, us(1)), (0, 1, 5, us(1)), (1, 0, 20, us(2)), (1, 2, 30, us(32)), (2, 0, 40, None)];
        // Intervals of 1 us. The background flow and the unfinished message do not count.
        let expected = [
            "nothing,background,0,1,0,0,1,1,2,15",
            "nothing,background,1,2,1,1,0,0,1,20",
            "nothing,background,31,32,1,1,2,2,1,30",
        ];
        assert_eq!(rows_of(3, &messages, Time::from_us(32)), expected);
    }

    #[test]
    fn many_hosts_form_at_most_32_groups_of_hosts_that_exist() {
        let at = Some(Time::from_us(32));
        let messages: Vec<_> = (0..100).flat_map(|src| (0..100).map(move |dst| (src, dst, 1, at))).collect();
        let rows = rows_of(100, &messages, Time::from_us(32));
        // Groups of 4 hosts.
        assert_eq!(rows.len(), 25 * 25);
        assert_eq!(rows[0], "nothing,background,31,32,0,3,0,3,16,16");
        assert_eq!(rows[624], "nothing,background,31,32,96,99,96,99,16,16");
        let odd = rows_of(34, &[(33, 0, 7, at)], Time::from_us(32));
        assert_eq!(odd, ["nothing,background,31,32,32,33,0,1,1,7"]);
    }

    #[test]
    fn a_run_without_time_or_messages_has_no_rows() {
        assert_eq!(rows_of(3, &[], Time::ZERO), [""; 0]);
    }
}
