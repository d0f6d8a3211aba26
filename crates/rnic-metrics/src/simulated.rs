//! Converts the counters of a simulated run into metrics over simulated time.

use crate::exposition::Metrics;
use crate::{Paused, Priority, Queue, Reading, Recorder};
use rnic_spec::{PauseRow, PortRecord, RunRecord};
use rnic_transport::Time;
use std::collections::BTreeMap;

/// Default of the maximum number of sampled values of all runs together, which take about 10 MB as text.
pub const MAX_VALUES: u64 = 100_000;

/// Adds the metrics of a run. They have the label `run` in addition to the labels of metrics of real devices.
///
/// Pause times and queues have a value at every sample of the run (`[watch]`), if these are at most `max_values`
/// values; otherwise at every second, third, ... sample. The other counters have one value, at the end, because the
/// simulator records them only there. Time stamps are simulated time from 0, multiplied by `stretch`. Pause times are
/// multiplied too, so that shares of time keep their values. Returns a sentence about each missing item.
pub fn add(run: &str, record: &RunRecord, stretch: u32, max_values: u64, metrics: &mut Metrics) -> Vec<String> {
    let output = &record.output;
    let mut missing = Vec::new();
    let mut times: Vec<Time> = Vec::new();
    let watch = output.pauses.as_ref().map(|pauses| (pauses.start, pauses.interval, pauses.samples));
    let watch =
        watch.or(output.samples.as_ref().map(|samples| (samples.start, samples.interval, samples.count.into())));
    let mut pauses: BTreeMap<(u32, u8), Vec<&PauseRow>> = BTreeMap::new();
    match &output.pauses {
        Some(records) => {
            for row in &records.log {
                pauses.entry((row.port, row.priority)).or_default().push(row);
            }
            if records.pauses_left_out > 0 {
                let count = records.pauses_left_out;
                missing.push(format!(
                    "{count} pauses of run \"{run}\" are missing in its log; their time is in the value at the end"
                ));
            }
        }
        None => missing
            .push(format!("run \"{run}\" does not watch pauses, so that pause times have only values at the end")),
    }
    match watch {
        Some((start, interval, count)) => {
            let queues = output.samples.as_ref().map_or(0, |samples| samples.queues.len());
            // A paused transmitter has four values at each sample.
            let values = 4 * pauses.len() as u64 + queues as u64;
            let stride = count.saturating_mul(values).div_ceil(max_values.max(1)).max(1);
            if stride > 1 {
                missing.push(format!(
                    "run \"{run}\": one of {stride} samples, because all samples would be {} values; \
                     `--metrics-values all` writes all of them",
                    count.saturating_mul(values)
                ));
            }
            let all = (0..count).step_by(usize::try_from(stride).unwrap_or(usize::MAX));
            times.extend(all.map(|index| start + interval * index).filter(|time| *time < output.end));
        }
        None => missing.push(format!("run \"{run}\" has no [watch], so that its metrics have only values at the end")),
    }
    if let Some((_, interval, _)) = watch {
        // Removes a sample shortly before the end, because the values at the end replace it.
        times.retain(|time| *time + interval <= output.end);
        if interval * u64::from(stretch) < Time::from_ms(1) {
            missing.push(format!(
                "the samples of run \"{run}\" are {interval} apart, but Prometheus stores times in milliseconds: to import them, stretch time by at least {}",
                1_000_000_000u64.div_ceil(interval.as_ps().max(1))
            ));
        }
    }
    times.push(output.end);
    let mut nodes: BTreeMap<&str, (Recorder, Vec<usize>)> = BTreeMap::new();
    for (index, port) in output.ports.iter().enumerate() {
        let entry = nodes.entry(&port.node);
        let recorder = || Recorder::new(port.node.as_str()).with_label("run", run);
        entry.or_insert_with(|| (recorder(), Vec::new())).1.push(index);
    }
    let last = times.len() - 1;
    // Of flows as fluids, the counters of pauses, drops and marks mean nothing.
    let modelled = output.fidelity.is_packet();
    for (number, time) in times.iter().enumerate() {
        let at = (time.as_ps() / 1_000).saturating_mul(u64::from(stretch));
        metrics.set_time(at);
        for (node, (recorder, ports)) in &mut nodes {
            let mut reading = Reading::default();
            for index in ports.iter() {
                of_port(&output.ports[*index], *index as u32, *time, &pauses, (number == last, modelled), &mut reading);
            }
            of_queues(node, record, *time, &mut reading);
            for priority in &mut reading.priorities {
                if let Paused::Measured(us) = &mut priority.paused {
                    *us *= f64::from(stretch);
                }
            }
            recorder.record(&reading, at, metrics);
        }
    }
    missing
}

/// The name of a port as in result files: the node's port number and the peer's name.
fn name(port: &PortRecord) -> String {
    format!("{}->{}", port.port, port.peer)
}

fn of_port(
    port: &PortRecord, index: u32, time: Time, pauses: &BTreeMap<(u32, u8), Vec<&PauseRow>>,
    (at_end, modelled): (bool, bool), reading: &mut Reading,
) {
    for (priority, counters) in (0..).zip(&port.priorities) {
        let mut of = Priority { port: name(port), priority, speed: Some(port.rate), ..Priority::default() };
        let rows = pauses.get(&(index, priority));
        let begun: Vec<&&PauseRow> = rows.into_iter().flatten().filter(|row| row.from < time).collect();
        of.pauses = rows.map(|_| begun.len() as u64);
        if at_end {
            if modelled {
                of.paused = Paused::Measured(counters.paused_ps as f64 / 1e6);
                of.frames_received = Some(counters.pause_received);
                of.frames_sent = Some(counters.pause_sent);
                of.dropped = Some(counters.drops);
            }
            of.packets = [None, Some(counters.tx_packets)];
            of.bytes = [None, Some(counters.tx_bytes)];
            reading.queues.push(Queue {
                port: name(port),
                queue: Some(priority),
                packets: Some(counters.tx_packets),
                bytes: Some(counters.tx_bytes),
                marked: modelled.then_some(counters.marked),
                trimmed: modelled.then_some(counters.trimmed),
                ..Queue::default()
            });
        } else if rows.is_some() {
            let paused: u64 = begun.iter().map(|row| row.to.unwrap_or(time).min(time).as_ps() - row.from.as_ps()).sum();
            of.paused = Paused::Measured(paused as f64 / 1e6);
        } else {
            continue;
        }
        reading.priorities.push(of);
    }
}

/// Queues are sampled for all priorities together.
fn of_queues(node: &str, record: &RunRecord, time: Time, reading: &mut Reading) {
    let Some(samples) = &record.output.samples else { return };
    let Some(since) = time.as_ps().checked_sub(samples.start.as_ps()) else { return };
    let index = (since / samples.interval.as_ps().max(1)).min(u64::from(samples.count.saturating_sub(1)));
    for queue in &samples.queues {
        let Some((switch, peer)) = queue.name.split_once(':') else { continue };
        if switch == node
            && let Some(bytes) = queue.bytes.get(index as usize)
        {
            let ports = record.output.ports.iter().filter(|port| port.node == node && port.peer == peer);
            reading.queues.push(Queue {
                port: ports.map(name).next().unwrap_or_else(|| peer.to_string()),
                occupancy: Some(u64::from(*bytes)),
                ..Queue::default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_spec::{QueueSamples, RunOutput, RunStatus, Samples};
    use rnic_transport::BitRate;

    /// A run with one port, whose queue was sampled every 10 us for 1 ms.
    fn record() -> RunRecord {
        let counters = rnic_spec::PriorityCounters { tx_packets: 7, tx_bytes: 7_000, ..Default::default() };
        let port = PortRecord {
            node: "s0".into(),
            port: 0,
            peer: "h0".into(),
            rate: BitRate::from_gbps(40),
            busy: Time::ZERO,
            priorities: vec![counters],
        };
        let samples = Samples {
            start: Time::ZERO,
            interval: Time::from_us(10),
            count: 100,
            queues: vec![QueueSamples { name: "s0:h0".into(), bytes: (0..100).collect() }],
            links: Vec::new(),
            flows: Vec::new(),
        };
        let output = RunOutput {
            status: RunStatus::Completed,
            ports: vec![port],
            samples: Some(samples),
            end: Time::from_us(1_000),
            ..RunOutput::not_started(String::new())
        };
        RunRecord { output, wall_s: 0.0, cpu_s: 0.0, peak_rss_bytes: 0 }
    }

    #[test]
    fn queues_and_counters_are_valid_open_metrics() {
        let mut metrics = Metrics::new();
        add("a \"run\"\n", &record(), 1, MAX_VALUES, &mut metrics);
        add("another", &record(), 1, MAX_VALUES, &mut metrics);
        let contents = crate::check::open_metrics(&metrics.open_metrics()).unwrap();
        // The queue has 100 samples and the value at the end.
        assert_eq!(contents.samples["rnic_queue_occupancy_bytes"], 2 * 101);
        assert_eq!(contents.samples["rnic_queue_bytes"], 2);
    }

    #[test]
    fn a_budget_thins_the_samples() {
        let mut metrics = Metrics::new();
        let missing = add("a", &record(), 1, 30, &mut metrics);
        // One of four samples: 25 values, and the value at the end.
        let contents = crate::check::open_metrics(&metrics.open_metrics()).unwrap();
        assert_eq!(contents.samples["rnic_queue_occupancy_bytes"], 26);
        assert!(
            missing.iter().any(|text| text.contains("one of 4 samples") && text.contains("100 values")),
            "{missing:?}"
        );
    }
}
