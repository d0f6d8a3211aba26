//! The memory for the flow records of a run does not grow with the number of flows, from the simulation to the result
//! files. In a process of its own: other tests would add to its peak.

mod common;

use crate::common::fat_tree;
use rnic_results::{FlowFormat, summarise, write_all};
use rnic_spec::RunRecord;
use rnic_spec::{FlowLog, FlowRecord, RunOutput, RunStatus};
use rnic_spec::{Scenario, Traffic, TrafficPattern};
use rnic_transport::Time;

/// Maximum resident set size of this process so far in bytes; `None` if the system does not report it.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// The record of a flow, in a run in which a flow starts every 10 ns. Sizes and completion times are pseudo-random, so
/// some flows finish after many later flows.
fn record(id: u32) -> FlowRecord {
    let noise = u64::from(id).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let start = Time::from_ns(u64::from(id) * 10);
    let bytes = 1 + noise % 3_000_000;
    FlowRecord {
        id,
        src: (noise % 54) as u32,
        dst: (noise / 54 % 54) as u32,
        bytes,
        start,
        finish: Some(start + Time::from_ns(12_000 + bytes * (1 + noise % 7))),
        ideal: Time::from_ns(12_000 + bytes / 5),
        delivered: bytes,
        retransmitted: (noise % 3) as u32,
        timeouts: 0,
        request: u32::MAX,
        traffic: (noise % 2) as u16,
        measured: id > 100,
    }
}

/// A log that receives its records in blocks of a thousand, the last block first, so that every block lies before the
/// blocks already written.
fn log(flows: u32) -> FlowLog {
    let mut log = FlowLog::new();
    for block in (0..flows).step_by(1_000) {
        log.extend((block..flows.min(block + 1_000)).rev().map(record));
    }
    log.close();
    log
}

/// Writes the summary and all result files of a run with `flows` flows.
fn write_results(flows: u32) {
    let source = |name: &str| Traffic {
        name: name.into(),
        pattern: TrafficPattern::List { flows: [].into() },
        warmup: 0,
        cooldown: 0,
        start: Time::ZERO,
        priority: 0,
    };
    let mut run = fat_tree("irn");
    run.traffic = vec![source("one"), source("other")];
    let scenario = Scenario { title: "Many flows".into(), name: "many".into(), seed: 1, runs: vec![run] };
    let output = RunOutput {
        status: RunStatus::Completed,
        offered: u64::from(flows),
        flows: log(flows),
        end: Time::from_ns(u64::from(flows) * 10 + 1_000_000_000),
        ..RunOutput::not_started(String::new())
    };
    let reports = [RunRecord { output, wall_s: 0.0, cpu_s: 0.0, peak_rss_bytes: 0 }];
    let folder = tempfile::tempdir().unwrap();
    let summary = summarise(&scenario, &reports);
    assert_eq!(summary.runs[0].flows.completed, u64::from(flows));
    assert_eq!(summary.runs[0].slowdown.unwrap().count, flows as usize - 101);
    write_all(folder.path(), &scenario, &reports, &summary, &[FlowFormat::Csv, FlowFormat::Parquet]).unwrap();
    assert_eq!(reports[0].output.flows.error(), None);
}

#[test]
fn many_flows_need_the_memory_of_few() {
    write_results(10_000);
    let Some(few) = peak() else { return };
    write_results(600_000);
    let more = peak().unwrap() - few;
    // In memory, the records alone would take 43 MB, and 86 MB together with three statistics in three groups each.
    assert!(more < 30_000_000, "{more} B more");
}

#[test]
#[ignore = "ten million flows, for a look at memory and time: run it alone, with --nocapture"]
fn ten_million_flows() {
    write_results(10_000);
    println!("10,000 flows: at most {} MB", peak().unwrap_or(0) / 1_000_000);
    write_results(10_000_000);
    println!("10,000,000 flows: at most {} MB", peak().unwrap_or(0) / 1_000_000);
}
