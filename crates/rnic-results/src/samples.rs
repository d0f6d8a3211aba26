//! The files of samples over time: `queues.csv` (queue lengths), `links.csv` (utilisation of links) and `goodput.csv`
//! (goodput of flows).

use super::text::{exact_us, round6};
use rnic_spec::RunRecord;
use rnic_spec::Scenario;
use rnic_spec::{FlowSamples, Samples};
use std::io::{self, Write};

/// Columns of `queues.csv`, one row per run, sample and queue. `bytes` is the queue length at the sample.
const QUEUE_COLUMNS: [&str; 4] = ["run", "time_us", "queue", "bytes"];
/// Columns of `links.csv`, one row per run, sample and direction of a link, from the second sample on. `utilisation` is
/// the share of the interval since the previous sample for which the link's transmitters were sending.
const LINK_COLUMNS: [&str; 4] = ["run", "time_us", "link", "utilisation"];
/// Columns of `goodput.csv`, one row per run, flow and sample. `goodput_gbps` is the payload that was delivered since
/// the previous sample, divided by the interval between samples.
const FLOW_COLUMNS: [&str; 6] = ["run", "time_us", "flow", "src", "dst", "goodput_gbps"];

pub(super) fn has_queues(reports: &[RunRecord]) -> bool {
    samples(reports).any(|samples| !samples.queues.is_empty())
}

pub(super) fn has_links(reports: &[RunRecord]) -> bool {
    samples(reports).any(|samples| !samples.links.is_empty())
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

pub(super) fn write_links(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(LINK_COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        let Some(samples) = &report.output.samples else { continue };
        // The samples of all links at one time are adjacent.
        let mut links: Vec<_> =
            samples.links.iter().map(|link| (&link.name, link.utilisation(samples.interval))).collect();
        for index in 1..samples.count {
            let time = exact_us(samples.at(index));
            for (name, values) in &mut links {
                let Some((_, utilisation)) = values.next() else { continue };
                csv.write_record([&run.name, &time, *name, &round6(utilisation).to_string()])?;
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

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use rnic_spec::LinkSamples;
    use rnic_transport::Time;

    #[test]
    fn links_csv_by_hand() {
        let (scenario, mut reports) = fixture::two_runs();
        let link = |name: &str, transmitters, busy_ps| LinkSamples { name: String::from(name), transmitters, busy_ps };
        // One link is busy for 1 us and then for 3 us of 4 us; two parallel links together for 4 us, then for 8 us.
        reports[0].output.samples = Some(Samples {
            start: Time::from_us(2),
            interval: Time::from_us(4),
            count: 3,
            queues: Vec::new(),
            links: vec![
                link("h0:s0", 1, vec![7_000_000, 8_000_000, 11_000_000]),
                link("s0:s1", 2, vec![0, 4_000_000, 12_000_000]),
            ],
            flows: Vec::new(),
        });
        assert!(has_links(&reports) && !has_queues(&reports) && !has_flows(&reports));
        let mut bytes = Vec::new();
        write_links(&mut bytes, &scenario, &reports).unwrap();
        let expected = "run,time_us,link,utilisation\nRoCE + PFC,6,h0:s0,0.25\nRoCE + PFC,6,s0:s1,0.5\n\
                        RoCE + PFC,10,h0:s0,0.75\nRoCE + PFC,10,s0:s1,1\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        let links = &crate::summarise(&scenario, &reports).runs[0].links;
        assert_eq!((links[1].name.as_str(), links[1].utilisation.mean, links[1].utilisation.max), ("s0:s1", 0.75, 1.0));
    }
}
