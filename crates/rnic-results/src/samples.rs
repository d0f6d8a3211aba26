//! The files of samples over time: `queues.csv` (queue lengths) and `goodput.csv` (goodput of flows).

use super::text::{exact_us, round6};
use rnic_spec::RunRecord;
use rnic_spec::Scenario;
use rnic_spec::{FlowSamples, Samples};
use std::io::{self, Write};

/// Columns of `queues.csv`, one row per run, sample and queue. `bytes` is the queue length at the sample.
const QUEUE_COLUMNS: [&str; 4] = ["run", "time_us", "queue", "bytes"];
/// Columns of `goodput.csv`, one row per run, flow and sample. `goodput_gbps` is the payload that was delivered since
/// the previous sample, divided by the interval between samples.
const FLOW_COLUMNS: [&str; 6] = ["run", "time_us", "flow", "src", "dst", "goodput_gbps"];

pub(super) fn has_queues(reports: &[RunRecord]) -> bool {
    samples(reports).any(|samples| !samples.queues.is_empty())
}

pub(super) fn has_flows(reports: &[RunRecord]) -> bool {
    samples(reports).any(|samples| !samples.flows.is_empty())
}

fn samples(reports: &[RunRecord]) -> impl Iterator<Item = &Samples> {
    reports.iter().filter_map(|report| report.output.samples.as_ref())
}

/// The goodput of `flow` over time, as (index of a sample, goodput in Gbps over the interval that ends at this sample).
/// The first sample of the run has no value, because no interval ends there.
pub fn goodput<'s>(samples: &'s Samples, flow: &'s FlowSamples) -> impl Iterator<Item = (u32, f64)> {
    let interval = samples.interval.as_ps() as f64;
    let before = std::iter::once(&0).chain(&flow.delivered);
    let pairs = (flow.first..).zip(flow.delivered.iter().zip(before)).skip(usize::from(flow.first == 0));
    pairs.map(move |(index, (delivered, before))| (index, (delivered - before) as f64 * 8_000.0 / interval))
}

pub(super) fn write_queues(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(QUEUE_COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        let Some(samples) = &report.output.samples else { continue };
        for index in 0..samples.count {
            let time = exact_us(samples.at(index));
            for queue in &samples.queues {
                csv.write_record([&run.name, &time, &queue.name, &queue.bytes[index as usize].to_string()])?;
            }
        }
    }
    csv.flush()
}

pub(super) fn write_flows(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(FLOW_COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        let Some(samples) = &report.output.samples else { continue };
        for flow in &samples.flows {
            let Some(record) = report.output.flows.get(flow.flow) else { continue };
            for (index, gbps) in goodput(samples, flow) {
                csv.write_record([
                    &run.name,
                    &exact_us(samples.at(index)),
                    &flow.flow.to_string(),
                    &record.src.to_string(),
                    &record.dst.to_string(),
                    &round6(gbps).to_string(),
                ])?;
            }
        }
    }
    csv.flush()
}
