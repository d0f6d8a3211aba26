//! The metrics that a study (the reproduction of a paper's experiments) stores for each simulation.

pub mod fluid;
pub mod operations;
pub mod program;

use fluid::compare_with_fluid;
use operations::Operations;
use program::Program;
use rnic_campaign::Outcome;
use rnic_results::ranks::ranked;
use rnic_results::stats::{Distribution, Goodput, fct_us, nearest_rank};
use rnic_results::summary::{Group, QueueSummary, RunSummary, summarise};
use rnic_results::text::round6;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_spec::{FlowLog, FlowRecord, FlowSamples, RunOutput, RunRecord, RunSpec, Samples, Scenario};
use rnic_transport::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The percentiles in [`Measurement::tail_us`], in units of 0.1 %: from 90 % to 99.9 %.
pub const TAIL_PER_MILLE: [u32; 19] =
    [900, 910, 920, 930, 940, 950, 955, 960, 965, 970, 975, 980, 985, 990, 992, 994, 996, 998, 999];

/// Slowdown and completion times of a set of flows. A measured flow is a finished flow that counts in the statistics.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Flows {
    /// Number of measured flows.
    pub count: u64,
    /// Average slowdown.
    pub slowdown: f64,
    /// Average flow completion time in microseconds.
    pub fct_us: f64,
    /// 99th percentile of the flow completion time in microseconds.
    pub fct_p99_us: f64,
    /// 99.9th percentile of the flow completion time in microseconds.
    #[serde(default)]
    pub fct_p999_us: f64,
    /// Maximum of the flow completion time in microseconds.
    #[serde(default)]
    pub fct_max_us: f64,
}

/// The metrics that a study (the reproduction of a paper's experiments) stores for one simulation. Statistics are
/// rounded to six significant digits.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// Why the run failed; `None` for a completed run. A failed run has no statistics.
    pub failure: Option<String>,
    /// Metrics of all measured flows.
    pub flows: Option<Flows>,
    /// Metrics of the flows of each traffic source, by its name; empty if there is only one source.
    pub traffic: BTreeMap<String, Flows>,
    /// Percentiles ([`TAIL_PER_MILLE`]) of the completion times of single-packet messages, in microseconds; empty if
    /// the run has no such messages.
    pub tail_us: Vec<f64>,
    /// Median completion time of the messages that are longer than one packet, in microseconds.
    #[serde(default)]
    pub long_us: Option<f64>,
    /// Completion time of each request (all flows of one incast), in microseconds.
    pub requests_us: Vec<f64>,
    /// Number of dropped data packets divided by the number of data packets sent.
    pub drop_rate: Option<f64>,
    /// Number of retransmitted data packets divided by the number of data packets sent.
    pub retransmission_rate: Option<f64>,
    /// Number of PFC XOFF frames that all ports sent.
    pub pauses: u64,
    /// Number of PFC XOFF frames that each node received, by the node's name.
    pub pauses_at: BTreeMap<String, u64>,
    /// Distribution of the goodput of measured flows, finished or not, by name of the traffic source. The empty name
    /// stands for all sources together.
    pub goodput: BTreeMap<String, Speeds>,
    /// Delivered payload of all measured flows divided by the sum of their lifetimes, in Gbps.
    pub pooled_gbps: Option<f64>,
    /// Goodput of each flow in Gbps, in order of start. If the run samples flows, the goodput is taken over the sampled
    /// time, else over the flow's lifetime. Empty if the run has more than 64 flows.
    pub each_gbps: Vec<f64>,
    /// Payload bytes and completion time in microseconds of each finished flow, in order of start. Empty if the run has
    /// more than 64 flows.
    pub each_us: Vec<(u64, f64)>,
    /// Message rate in millions per second: the number of finished flows divided by the time from the first start to
    /// the last finish.
    pub millions_per_s: Option<f64>,
    /// Number of retransmission timeouts.
    pub timeouts: u64,
    /// Number of data packets that a switch trimmed to their header because a buffer was full.
    pub trimmed: u64,
    /// Number of trimmed headers that a switch returned to their sender.
    pub returned: u64,
    /// Statistics of the length of each queue that the run sampled, by the queue's name.
    pub queues: BTreeMap<String, Queue>,
    /// Length of the first sampled queue over time.
    pub queue_course: Option<QueueCourse>,
    /// Goodput of each flow over time; `None` if the run does not sample flows or has more than 64 flows.
    pub course: Option<Course>,
    /// Comparison with the fluid model of DCQCN; `None` if the model does not apply to the run.
    pub fluid: Option<Fluid>,
    /// Number of transmissions of packets on links (packet-hops).
    pub hops: u64,
    /// Simulated time at the end of the run, in microseconds.
    pub sim_time_us: f64,
    /// CPU time of the hosts for sending, and for receiving, in microseconds, by the declared costs of the transport; 0
    /// without such costs.
    #[serde(default)]
    pub cpu_us: [f64; 2],
    /// Metrics about running a network: watchdogs, probes, blocked hosts, useful traffic.
    pub operations: Operations,
    /// Times of collective operations or of training steps, by name of the traffic source.
    #[serde(default)]
    pub programs: BTreeMap<String, Program>,
}

/// Distribution of the goodput of a set of flows, in Gbps.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Speeds {
    /// Number of flows.
    pub flows: usize,
    /// Minimum of the goodput.
    pub min: f64,
    /// 10th percentile of the goodput.
    pub p10: f64,
    /// Median.
    pub p50: f64,
    /// Mean.
    pub mean: f64,
    /// Maximum.
    pub max: f64,
}

/// Delivered payload of all measured flows divided by the sum of their lifetimes, in Gbps.
fn pooled_gbps(output: &RunOutput) -> Option<f64> {
    let life = |flow: &FlowRecord| flow.finish.unwrap_or(output.end).saturating_sub(flow.start).as_us();
    let measured = output.flows.iter().filter(|flow| flow.measured);
    let of_flow = |(bits, us): (f64, f64), flow: FlowRecord| (bits + flow.delivered as f64 * 8.0, us + life(&flow));
    let (bits, us) = measured.fold((0.0, 0.0), of_flow);
    (us > 0.0).then(|| round6(bits / us / 1e3))
}

/// Statistics of the length of a sampled queue over its samples, in bytes.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Queue {
    /// Mean length over time.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile of the length.
    pub p95: f64,
    /// Maximum length in a sample.
    pub max: f64,
    /// 95th percentile of the means over 10 ms, as a counter that is averaged over this time shows it; `None` if the
    /// run samples the queue for less than 10 ms.
    pub averaged_p95: Option<f64>,
}

/// Time over which [`Queue::averaged_p95`] averages.
const AVERAGED: Time = Time::from_ms(10);

/// The length of a queue over time, with the samples combined into at most 200 intervals.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct QueueCourse {
    /// Start of each interval, in microseconds of simulated time.
    pub at_us: Vec<f64>,
    /// Maximum length among the samples of each interval, in bytes.
    pub bytes: Vec<u32>,
    /// Start and end of each burst in microseconds. A burst lasts while the queue is not empty; gaps of less than 1 us
    /// do not end it. Bytes that are queued at the end of the run are assumed to leave at the link's rate.
    pub bursts: Vec<[f64; 2]>,
}

/// A burst ends when the queue has been empty for this time. (A burst is a time in which packets are queued.)
const BURST_GAP: Time = Time::from_us(1);

impl QueueCourse {
    fn of(output: &RunOutput) -> Option<QueueCourse> {
        let samples = output.samples.as_ref()?;
        let queue = samples.queues.first().filter(|queue| !queue.bytes.is_empty())?;
        let step = queue.bytes.len().div_ceil(COURSE as usize);
        let at = |index: usize| samples.at(index as u32);
        let mut bursts: Vec<[Time; 2]> = Vec::new();
        for (index, _) in queue.bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            let from = at(index);
            let to = at(index + 1);
            match bursts.last_mut() {
                Some([_, end]) if from - *end < BURST_GAP => *end = to,
                _ => bursts.push([from, to]),
            }
        }
        let port = output.ports.iter().find(|port| format!("{}:{}", port.node, port.peer) == queue.name);
        if let (Some(left), Some(port), Some([_, end])) = (queue.bytes.last(), port, bursts.last_mut())
            && *left > 0
        {
            *end = output.end + port.rate.time_for(u64::from(*left));
        }
        Some(QueueCourse {
            at_us: (0..queue.bytes.len()).step_by(step).map(|index| round6(at(index).as_us())).collect(),
            bytes: queue.bytes.chunks(step).filter_map(|bytes| bytes.iter().copied().max()).collect(),
            bursts: bursts.into_iter().map(|ends| ends.map(|time| round6(time.as_us()))).collect(),
        })
    }
}

/// Goodput of flows over time, with the samples combined into at most 200 intervals.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Course {
    /// End of each interval in microseconds.
    pub at_us: Vec<f64>,
    /// Goodput of each flow in Gbps, in order of start. A flow that starts late has fewer values; they belong to the
    /// last intervals.
    pub gbps: Vec<Vec<f64>>,
}

/// Comparison of a DCQCN run with the fluid model ([`fluid`]).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Fluid {
    /// For the flow that starts last: the mean absolute difference between its goodput in the run and in the model,
    /// divided by its fair share of the bottleneck.
    pub difference: f64,
    /// Goodput in the steady state of the flow that starts last: the run's value divided by the model's.
    pub rate: f64,
    /// Mean queue length in the steady state: the run's value divided by the model's. `None` if the run did not sample
    /// the queue, or if the queue is empty in the model.
    pub queue: Option<f64>,
    /// Minimum queue length in the steady state in the run, in bytes; `None` if the run did not sample the queue.
    pub packets_queue_min: Option<f64>,
    /// Minimum queue length in the steady state in the model, in bytes.
    pub model_queue_min: f64,
    /// Mean queue length in the steady state in the model, in bytes.
    pub model_queue: f64,
    /// 95th percentile of the queue length in the steady state in the model, in bytes.
    pub model_queue_p95: f64,
    /// End of each interval in microseconds.
    pub at_us: Vec<f64>,
    /// Goodput in the run of the flow that starts last, in each interval, in Gbps.
    pub packets_gbps: Vec<f64>,
    /// Goodput in the model of the flow that starts last, in each interval, in Gbps.
    pub model_gbps: Vec<f64>,
}

impl Fluid {
    fn of(run: &RunSpec, samples: &Samples) -> Option<Fluid> {
        let comparison = compare_with_fluid(run, &resolve(&Catalogue::standard(), run).ok()?, samples).ok()?;
        let last = comparison.flows.last()?;
        let step = comparison.times.len().div_ceil(COURSE as usize).max(1);
        let gbps = |rates: &[f64]| -> Vec<f64> {
            let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
            rates.chunks(step).map(|rates| round6(mean(rates) / 1e9)).collect()
        };
        let ends = comparison.times.chunks(step).filter_map(|times| times.last());
        // In the model, the queue of a single sender is empty.
        let over = |packets: f64, model: f64| (model > 0.0).then(|| round6(packets / model));
        let queue = comparison.queue.packets_steady.and_then(|packets| over(packets, comparison.queue.model_steady));
        Some(Fluid {
            difference: round6(comparison.difference),
            rate: over(last.packets_steady, last.model_steady)?,
            queue,
            packets_queue_min: comparison.queue.packets_min.map(round6),
            model_queue_min: round6(comparison.queue.model_min),
            model_queue: round6(comparison.queue.model_steady),
            model_queue_p95: round6(comparison.queue.model_p95),
            at_us: ends.map(|time| round6(time.as_us())).collect(),
            packets_gbps: gbps(&last.packets),
            model_gbps: gbps(&last.model),
        })
    }
}

/// Maximum number of flows of a run for which per-flow values are stored.
const FEW_FLOWS: usize = 64;
/// Maximum number of intervals that are stored for a metric over time.
const COURSE: u32 = 200;

impl Measurement {
    /// The measurement of a run that failed for `reason`.
    pub fn failed(reason: String) -> Measurement {
        Measurement { failure: Some(reason), ..Measurement::default() }
    }

    /// The measurement of a run and the CPU seconds that the run took. A run that cannot be set up yields a failed
    /// measurement.
    pub(crate) fn of_outcome(run: &RunSpec, outcome: Outcome) -> (Measurement, f64) {
        let record = match outcome {
            Ok(record) => record,
            Err(error) => return (Measurement::failed(format!("cannot be set up: {error}")), 0.0),
        };
        let runs = vec![RunSpec { name: String::new(), ..run.clone() }];
        let scenario = Scenario { title: String::new(), name: String::new(), seed: run.seed, runs };
        let cpu_s = record.cpu_s;
        let records = [record];
        let measurement = match summarise(&scenario, &records).runs.first() {
            Some(summary) => Measurement::of(run, summary, &records[0]),
            None => Measurement::failed("the run has no result".to_string()),
        };
        (measurement, cpu_s)
    }

    /// The measurement of a run from its record `report` and the statistics `summary`.
    fn of(run: &RunSpec, summary: &RunSummary, report: &RunRecord) -> Measurement {
        let whole = Group { flows: summary.flows.measured, slowdown: summary.slowdown, fct_us: summary.fct_us };
        let totals = summary.totals;
        let ok = summary.failure.is_none();
        let measurement = Measurement {
            failure: summary.failure.clone(),
            flows: flows(&whole),
            traffic: summary.traffic.iter().filter_map(|t| Some((t.name.clone(), flows(&t.group)?))).collect(),
            tail_us: if ok { tail(&report.output.flows, run.fabric.mtu.0) } else { Vec::new() },
            long_us: if ok { long(&report.output.flows, run.fabric.mtu.0) } else { None },
            requests_us: if ok { requests(&report.output.flows) } else { Vec::new() },
            drop_rate: summary.drop_rate.map(round6),
            retransmission_rate: (ok && totals.data > 0)
                .then(|| round6(totals.retransmitted as f64 / totals.data as f64)),
            pauses: totals.pause_frames,
            pauses_at: pauses_at(&report.output),
            goodput: if ok { goodputs(summary) } else { BTreeMap::new() },
            pooled_gbps: if ok { pooled_gbps(&report.output) } else { None },
            each_gbps: if ok { each_gbps(&report.output) } else { Vec::new() },
            each_us: if ok { each_us(&report.output) } else { Vec::new() },
            millions_per_s: if ok { millions_per_s(&report.output) } else { None },
            timeouts: report.output.flows.iter().map(|flow| u64::from(flow.timeouts)).sum(),
            trimmed: totals.trimmed,
            returned: totals.returned,
            queue_course: QueueCourse::of(&report.output),
            queues: queues(summary, &report.output),
            fluid: report.output.samples.as_ref().and_then(|samples| Fluid::of(run, samples)),
            course: report.output.samples.as_ref().and_then(course),
            hops: totals.hops,
            sim_time_us: round6(summary.sim_time.as_us()),
            cpu_us: [totals.cpu_send_ps, totals.cpu_receive_ps].map(|ps| round6(Time::from_ps(ps).as_us())),
            operations: Operations::of(run, &report.output),
            programs: if ok { program::all(summary) } else { BTreeMap::new() },
        };
        match report.output.flows.error() {
            Some(error) if ok => Measurement::failed(error.to_string()),
            _ => measurement,
        }
    }
}

impl Queue {
    fn of(bytes: &Distribution, averaged_p95: Option<f64>) -> Queue {
        Queue { mean: round6(bytes.mean), p50: bytes.p50, p95: bytes.p95, max: bytes.max, averaged_p95 }
    }
}

/// Statistics of each sampled queue.
fn queues(summary: &RunSummary, output: &RunOutput) -> BTreeMap<String, Queue> {
    let averaged_p95 = |name: &str| {
        let samples = output.samples.as_ref()?;
        let bytes = &samples.queues.iter().find(|queue| queue.name == name)?.bytes;
        let count = (AVERAGED.as_ps() / samples.interval.as_ps().max(1)).max(1) as usize;
        let mean = |bytes: &[u32]| bytes.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / count as f64;
        let mut means: Vec<f64> = bytes.chunks_exact(count).map(mean).collect();
        means.sort_unstable_by(f64::total_cmp);
        nearest_rank(&means, 950).map(round6)
    };
    let one = |queue: &QueueSummary| (queue.name.clone(), Queue::of(&queue.bytes, averaged_p95(&queue.name)));
    summary.queues.iter().map(one).collect()
}

impl Speeds {
    fn of(goodput: &Goodput) -> Speeds {
        let gbps = |bps: f64| round6(bps / 1e9);
        Speeds {
            flows: goodput.flows,
            min: gbps(goodput.min),
            p10: gbps(goodput.p10),
            p50: gbps(goodput.p50),
            mean: gbps(goodput.mean),
            max: gbps(goodput.max),
        }
    }
}

fn goodputs(summary: &RunSummary) -> BTreeMap<String, Speeds> {
    let sources = summary.traffic.iter().map(|traffic| (traffic.name.clone(), traffic.goodput));
    let all = std::iter::once((String::new(), summary.goodput)).chain(sources);
    all.filter_map(|(name, goodput)| Some((name, Speeds::of(&goodput?)))).collect()
}

fn each_gbps(output: &RunOutput) -> Vec<f64> {
    if output.flows.len() > FEW_FLOWS {
        return Vec::new();
    }
    let watched = output.samples.as_ref().filter(|samples| !samples.flows.is_empty());
    let gbps = |flow: &FlowRecord| match watched {
        None => flow.goodput_bps(output.end).map_or(0.0, |bps| bps / 1e9),
        Some(samples) => {
            let own = samples.flows.iter().find(|watched| watched.flow == flow.id);
            let ends =
                own.and_then(|own| Some((own.delivered.first()?, own.delivered.last()?, own.delivered.len() - 1)));
            let rate = |(first, last, intervals): (&u64, &u64, usize)| {
                (last - first) as f64 * 8_000.0 / (samples.interval.as_ps() as f64 * intervals.max(1) as f64)
            };
            ends.map_or(0.0, rate)
        }
    };
    output.flows.iter().map(|flow| round6(gbps(&flow))).collect()
}

fn each_us(output: &RunOutput) -> Vec<(u64, f64)> {
    if output.flows.len() > FEW_FLOWS {
        return Vec::new();
    }
    output.flows.iter().filter_map(|flow| Some((flow.bytes, round6(fct_us(&flow)?)))).collect()
}

fn millions_per_s(output: &RunOutput) -> Option<f64> {
    let mut first = Time::MAX;
    let mut last = Time::ZERO;
    let mut finished = 0_u64;
    for flow in &output.flows {
        first = first.min(flow.start);
        if let Some(finish) = flow.finish {
            last = last.max(finish);
            finished += 1;
        }
    }
    let us = last.saturating_sub(first).as_us();
    (us > 0.0).then(|| round6(finished as f64 / us))
}

fn course(samples: &Samples) -> Option<Course> {
    if samples.flows.is_empty() || samples.flows.len() > FEW_FLOWS || samples.count < 2 {
        return None;
    }
    let step = (samples.count - 1).div_ceil(COURSE);
    let ends = (1..=(samples.count - 1) / step).map(|number| number * step);
    let at = |flow: &FlowSamples, index: u32| {
        let own = index.checked_sub(flow.first)? as usize;
        flow.delivered.get(own).or(flow.delivered.last()).copied()
    };
    let gbps = |flow: &FlowSamples| {
        let rate = |end: u32| {
            let now = at(flow, end)?;
            let before = at(flow, end - step).unwrap_or(0);
            Some(round6((now - before) as f64 * 8_000.0 / (samples.interval.as_ps() as f64 * f64::from(step))))
        };
        ends.clone().filter_map(rate).collect()
    };
    Some(Course {
        at_us: ends.clone().map(|end| round6(samples.at(end).as_us())).collect(),
        gbps: samples.flows.iter().map(gbps).collect(),
    })
}

fn pauses_at(output: &RunOutput) -> BTreeMap<String, u64> {
    let mut pauses = BTreeMap::new();
    for port in &output.ports {
        let received: u64 = port.priorities.iter().map(|priority| priority.pause_received).sum();
        if received > 0 {
            *pauses.entry(port.node.clone()).or_default() += received;
        }
    }
    pauses
}

fn flows(group: &Group) -> Option<Flows> {
    let slowdown = group.slowdown?;
    let fct = group.fct_us?;
    Some(Flows {
        count: group.flows,
        slowdown: round6(slowdown.mean),
        fct_us: round6(fct.mean),
        fct_p99_us: round6(fct.p99),
        fct_p999_us: round6(fct.p999),
        fct_max_us: round6(fct.max),
    })
}

fn tail(flows: &FlowLog, mtu: u64) -> Vec<f64> {
    let times = ranked(flows, &[&TAIL_PER_MILLE], |flow, add| {
        if let Some(fct) = fct_us(flow).filter(|_| flow.measured && flow.bytes <= mtu) {
            add(0, fct);
        }
    });
    times.into_iter().flatten().flat_map(|times| times.at).map(round6).collect()
}

fn long(flows: &FlowLog, mtu: u64) -> Option<f64> {
    let times = ranked(flows, &[&[500]], |flow, add| {
        if let Some(fct) = fct_us(flow).filter(|_| flow.measured && flow.bytes > mtu) {
            add(0, fct);
        }
    });
    times.into_iter().flatten().flat_map(|times| times.at).map(round6).next()
}

fn requests(flows: &FlowLog) -> Vec<f64> {
    rnic_results::stats::request_completion_us(flows).into_iter().map(round6).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_spec::{PortRecord, QueueSamples};
    use rnic_transport::BitRate;

    /// The bursts of a queue with samples every 100 ns. The link has 8 Gbps, so it sends one byte per nanosecond.
    fn bursts(bytes: &[u32], end: Time) -> Vec<[f64; 2]> {
        let port = PortRecord {
            node: "s0".into(),
            port: 1,
            peer: "h1".into(),
            rate: BitRate::from_bps(8_000_000_000),
            busy: Time::ZERO,
            priorities: Vec::new(),
        };
        let samples = Samples {
            start: Time::ZERO,
            interval: Time::from_ns(100),
            count: bytes.len() as u32,
            queues: vec![QueueSamples { name: "s0:h1".into(), bytes: bytes.to_vec() }],
            links: Vec::new(),
            flows: Vec::new(),
        };
        let output =
            RunOutput { ports: vec![port], samples: Some(samples), end, ..RunOutput::not_started(String::new()) };
        QueueCourse::of(&output).unwrap().bursts
    }

    #[test]
    fn a_queue_that_is_empty_for_a_microsecond_has_ended_its_burst() {
        let short = [&[0, 5, 5][..], &[0; 9], &[7, 0]].concat();
        assert_eq!(bursts(&short, Time::from_us(2)), [[0.1, 1.3]]);
        let long = [&[0, 5, 5][..], &[0; 10], &[7, 0]].concat();
        assert_eq!(bursts(&long, Time::from_us(2)), [[0.1, 0.3], [1.3, 1.4]]);
        assert!(bursts(&[0, 0], Time::from_us(1)).is_empty());
    }

    #[test]
    fn the_queue_at_the_end_of_the_run_drains_at_line_rate() {
        assert_eq!(bursts(&[0, 9, 3_000], Time::from_ns(250)), [[0.1, 3.25]]);
    }

    #[test]
    fn a_long_course_keeps_its_peaks() {
        let bytes: Vec<u32> = (0..1_000).map(|index| if index == 777 { 9_000 } else { 1 }).collect();
        let samples = Samples {
            start: Time::ZERO,
            interval: Time::from_ns(20),
            count: 1_000,
            queues: vec![QueueSamples { name: "s0:h1".into(), bytes }],
            links: Vec::new(),
            flows: Vec::new(),
        };
        let output = RunOutput { samples: Some(samples), ..RunOutput::not_started(String::new()) };
        let course = QueueCourse::of(&output).unwrap();
        assert_eq!((course.at_us.len(), course.bytes.len(), course.bytes[155]), (200, 200, 9_000));
        assert_eq!(course.at_us[155], 15.5);
    }
}
