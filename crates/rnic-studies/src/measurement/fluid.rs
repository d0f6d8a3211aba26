//! Comparison of a packet-level run with the fluid model of DCQCN (figure 10 of the DCQCN paper).
//!
//! The model's parameters come from the complete configuration of the run:
//!
//! - A packet of the model is a full data frame. The model's capacity is the bottleneck's rate reduced by the gaps
//!   between frames, so that run and model send the same number of packets per second.
//! - ECN marking and congestion control have the run's parameters. The model has no hyper increase and no minimum rate.
//! - The control delay is the time from a CE mark at the bottleneck until the flow arrives at the bottleneck with its
//!   reduced rate. It is computed for an empty fabric: one full frame and one CNP over each link of the path. The delay
//!   does not contain the receiver's CNP interval, which is part of the model's equations. If the switch marks packets
//!   on enqueue, a marked packet also waits in the queue. The delay then includes the time to drain the queue of the
//!   model's fixed point, at most Kmax. If the flows have different paths, the control delay is that of the longest
//!   path.
//! - A flow starts at the same time as in the run, at line rate, with alpha = 1, and never ends. In the model, alpha
//!   decays from the start if there are no marks; in the run, alpha decays only after the first CNP.
//!
//! The model's goodput of a flow is the rate at which the bottleneck sends the flow's packets. While the queue is
//! empty, this is the flow's sending rate. While it is not empty, it is the capacity times the flow's share of the
//! arriving packets.

use rnic_fabric::config::{EcnSpec, MarkOn};
use rnic_fabric::{HostId, PortId};
use rnic_model::dcqcn::{Dcqcn, FixedPoint};
use rnic_model::series::{Group, Run, Series};
use rnic_results::samples::goodput;
use rnic_results::stats::{mean, nearest_rank};
use rnic_sim::flow_hashes;
use rnic_sim::resolve::Resolved;
use rnic_spec::{FlowSpec, RunSpec, Samples};
use rnic_transport::congestion::{CongestionControl, Dcqcn as Algorithm};
use rnic_transport::transports::WireFormat;
use rnic_transport::{BitRate, Bytes, Psn, Time};

/// Maximum number of flows in the model.
const MAX_FLOWS: usize = 1_000;
/// Number of values that the model's solver records per sampling interval of the run.
const VALUES_PER_INTERVAL: u64 = 16;

/// Comparison of a packet-level run with the fluid model of DCQCN, at the times of the run's samples except the first.
#[derive(Clone, PartialEq, Debug)]
pub struct FluidComparison {
    /// The fluid model with the parameters of the run.
    pub model: Dcqcn,
    /// The model's fixed point with all flows active.
    pub fixed_point: FixedPoint,
    /// Name of the bottleneck: a switch and the node to which its output sends, joined by a colon.
    pub bottleneck: String,
    /// Simulated time at the end of each interval between samples; all intervals have the same length.
    pub times: Vec<Time>,
    /// Goodput of each flow, in order of start.
    pub flows: Vec<FlowComparison>,
    /// Length of the bottleneck's queue.
    pub queue: QueueComparison,
    /// Fair share of a flow at the bottleneck (capacity / number of flows), in bit/s of payload.
    pub share: f64,
    /// Index of the first interval of the steady state, which is the second half of the time with all flows active.
    pub steady_from: usize,
    /// For the flow that starts last, from its start on: the mean absolute difference between its goodput in the run
    /// and in the model, divided by the fair share `share`.
    pub difference: f64,
}

/// Goodput of one flow in the simulation and in the fluid model, in bit/s of payload.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowComparison {
    /// Id of the flow in the run.
    pub flow: u32,
    /// Start of the flow.
    pub start: Time,
    /// Goodput in the packet-level run, in each interval between samples.
    pub packets: Vec<f64>,
    /// Goodput in the fluid model, in each interval between samples.
    pub model: Vec<f64>,
    /// Mean goodput in the run in the steady state.
    pub packets_steady: f64,
    /// Mean goodput in the model in the steady state.
    pub model_steady: f64,
}

/// Length of the bottleneck's queue in the simulation and in the fluid model, in bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueComparison {
    /// Length in the run at the end of each interval between samples; empty if the run did not sample the queue.
    pub packets: Vec<f64>,
    /// Mean length in the model over each interval between samples.
    pub model: Vec<f64>,
    /// Mean length in the run in the steady state; `None` if the run did not sample the queue.
    pub packets_steady: Option<f64>,
    /// Mean length in the model in the steady state.
    pub model_steady: f64,
    /// Minimum length in the run in the steady state; `None` if the run did not sample the queue.
    pub packets_min: Option<f64>,
    /// Minimum length in the model in the steady state, over the means of the intervals between samples.
    pub model_min: f64,
    /// 95th percentile of the length in the model in the steady state, over the same means.
    pub model_p95: f64,
}

/// Solves the fluid model of DCQCN for a run and compares the solution with the run. `resolved` is the run's complete
/// configuration from [`resolve`](rnic_sim::resolve::resolve); `samples` are the queue lengths and goodputs that the
/// run sampled.
///
/// # Errors
/// The model does not apply to this run. The error is one sentence with the reason: another congestion control, no ECN
/// marking, flows that were not sampled or that finish, closed-loop traffic, pause storms, more than one bottleneck, or
/// parameters that the model refuses.
pub fn compare_with_fluid(run: &RunSpec, resolved: &Resolved, samples: &Samples) -> Result<FluidComparison, String> {
    refuse(run, resolved)?;
    let end = samples.at(samples.count.saturating_sub(1));
    if samples.flows.is_empty() || samples.count < 3 {
        return Err(
            "too few samples: the comparison needs watched flows (`[watch] flows = true`) and at least 3 samples"
                .into(),
        );
    }
    let flows: Vec<FlowSpec> = rnic_workload::generate(&run.traffic, &resolved.network, run.seed)
        .take_while(|flow| flow.start < end)
        .take(MAX_FLOWS + 1)
        .collect();
    if flows.len() > MAX_FLOWS {
        return Err(format!("the run has more than {MAX_FLOWS} flows: the model is limited to {MAX_FLOWS}"));
    }
    let finished = samples.flows.iter().find(|flow| {
        flows.get(flow.flow as usize).is_none_or(|spec| flow.delivered.last().is_some_and(|bytes| *bytes >= spec.bytes))
    });
    if let Some(flow) = finished {
        return Err(format!("flow {} finishes in the run, but flows of the model never finish", flow.flow));
    }

    let bottleneck = Bottleneck::new(run, resolved, &flows)?;
    let (model, fixed_point) = model(resolved, &bottleneck, flows.len() as u32)?;
    let mut groups: Vec<Group> = Vec::new();
    let mut group_of = Vec::new();
    for flow in &flows {
        match groups.last_mut().filter(|group| group.start == flow.start) {
            Some(group) => group.count += 1,
            None => groups.push(Group { count: 1, rate: model.rate, start: flow.start }),
        }
        group_of.push(groups.len() - 1);
    }
    let step = Time::from_us(1).min(model.delay);
    let sample = Time::from_ps(samples.interval.as_ps() / VALUES_PER_INTERVAL).max(step);
    let series = model.solve(&groups, &Run { duration: end, step, sample }).map_err(|error| error.to_string())?;
    let payload = f64::from(resolved.flow.mtu) / model.packet.0 as f64;
    let capacity = model.rate.as_bps() as f64;
    let courses: Vec<Vec<f64>> =
        delivered(&series, capacity).into_iter().map(|rates| per_interval(&series.time, &rates, samples)).collect();

    let last_start = flows.last().map_or(Time::ZERO, |flow| flow.start);
    let times: Vec<Time> = (1..samples.count).map(|index| samples.at(index)).collect();
    let all_from = times.partition_point(|time| time.saturating_sub(samples.interval) < last_start);
    let steady_from = all_from + (times.len() - all_from) / 2;
    let steady = |values: &[f64]| mean(&values[steady_from..]).unwrap_or(0.0);
    let mut compared = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let mut packets = vec![0.0; times.len()];
        if let Some(flow) = samples.flows.iter().find(|flow| flow.flow as usize == number) {
            for (index, gbps) in goodput(samples, flow) {
                packets[index as usize - 1] = gbps * 1e9;
            }
        }
        let model: Vec<f64> = courses[group_of[number]].iter().map(|rate| rate * payload).collect();
        let packets_steady = steady(&packets);
        let model_steady = steady(&model);
        compared.push(FlowComparison {
            flow: number as u32,
            start: flow.start,
            packets,
            model,
            packets_steady,
            model_steady,
        });
    }
    let watched = samples.queues.iter().find(|queue| queue.name == bottleneck.name);
    let packets: Vec<f64> =
        watched.map_or(Vec::new(), |queue| queue.bytes[1..].iter().map(|b| f64::from(*b)).collect());
    let queue = per_interval(&series.time, &series.queue, samples);
    let min = |values: &[f64]| values[steady_from..].iter().copied().fold(f64::INFINITY, f64::min);
    let p95 = |values: &[f64]| {
        let mut sorted = values[steady_from..].to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        nearest_rank(&sorted, 950).unwrap_or(0.0)
    };
    let queue = QueueComparison {
        packets_steady: watched.map(|_| steady(&packets)),
        model_steady: steady(&queue),
        packets_min: watched.map(|_| min(&packets)),
        model_min: min(&queue),
        model_p95: p95(&queue),
        packets,
        model: queue,
    };
    let share = capacity * payload / flows.len() as f64;
    let apart = compared.last().map_or(Vec::new(), |flow| {
        flow.packets.iter().zip(&flow.model).skip(all_from).map(|(a, b)| (a - b).abs()).collect()
    });
    let difference = mean(&apart)
        .ok_or("the last flow starts too late: there is no complete sampling interval after its start")?
        / share;
    Ok(FluidComparison {
        model,
        fixed_point,
        bottleneck: bottleneck.name,
        times,
        flows: compared,
        queue,
        share,
        steady_from,
        difference,
    })
}

/// Returns an error if the model's equations do not apply to the run, for a reason other than the paths of its flows.
fn refuse(run: &RunSpec, resolved: &Resolved) -> Result<(), String> {
    let name = run.transport.cc.name();
    if name != Algorithm::NAME {
        return Err(format!("the run has cc \"{name}\", but the model covers only cc \"{}\"", Algorithm::NAME));
    }
    if resolved.flow.bdp_cap != Psn::MAX_WINDOW
        || matches!(run.transport.declaration.wire, WireFormat::Nic | WireFormat::Other)
    {
        return Err("the run limits the packets in flight, but the model does not".to_string());
    }
    if let Some(rate) = resolved.flow.max_rate.filter(|rate| *rate < resolved.flow.line_rate) {
        return Err(format!(
            "the run has max_rate = \"{rate}\", but flows of the model send at up to the bottleneck's rate"
        ));
    }
    if let Some(source) = run.traffic.iter().find(|source| source.pattern.is_closed()) {
        return Err(format!(
            "traffic \"{}\" is a closed loop, but flows of the model start at given times",
            source.name
        ));
    }
    if !resolved.storms.is_empty() {
        return Err("the run has a pause storm (`[[fabric.storm]]`), but the model has no pauses".to_string());
    }
    Ok(())
}

/// The model with the parameters of the run, and its fixed point with `flows` flows.
fn model(resolved: &Resolved, bottleneck: &Bottleneck, flows: u32) -> Result<(Dcqcn, FixedPoint), String> {
    let frame = u64::from(resolved.flow.mtu + resolved.flow.header);
    let on_link = frame + u64::from(resolved.host_config.frame_gap);
    let capacity = (u128::from(bottleneck.rate.as_bps()) * u128::from(frame) / u128::from(on_link)) as u64;
    let parameters =
        Dcqcn::new(BitRate::from_bps(capacity), &resolved.transport.cc.settings).map_err(|error| error.to_string())?;
    let EcnSpec { marking, mark_on } =
        resolved.fabric.switch.ecn.ok_or("the switches of the run do not mark packets (ECN is off)")?;
    let mut model = Dcqcn { packet: Bytes(frame), marking, delay: bottleneck.loop_time, ..parameters };
    let fixed_point = model.fixed_point(flows).map_err(|error| error.to_string())?;
    if mark_on == MarkOn::Enqueue {
        let queue = fixed_point.queue.min(marking.kmax.0 as f64) as u64;
        model.delay += BitRate::from_bps(capacity).time_for(queue);
    }
    Ok((model, fixed_point))
}

/// The switch output that all flows share and that limits their rates.
struct Bottleneck {
    /// Names of the switch and of the node to which the output sends, joined by a colon.
    name: String,
    rate: BitRate,
    /// Time for a full frame to the receiver and a CNP back to the sender, over the longest path of a flow.
    loop_time: Time,
}

impl Bottleneck {
    fn new(run: &RunSpec, resolved: &Resolved, flows: &[FlowSpec]) -> Result<Bottleneck, String> {
        let topology = &resolved.topology;
        if !resolved.fabric.paths.is_per_flow() {
            return Err(
                "packets of a flow take different paths in the run, but the model has one path and one bottleneck"
                    .to_string(),
            );
        }
        let mut paths: Vec<Vec<PortId>> = Vec::new();
        for (number, flow) in flows.iter().enumerate() {
            let same =
                flows[..number].iter().filter(|other| (other.src, other.start) == (flow.src, flow.start)).count();
            let hash = flow_hashes(run.seed, flow, same as u32).data;
            paths.push(resolved.routes.path(topology, HostId(flow.src), HostId(flow.dst), hash));
        }
        let name = |port: PortId| {
            let node = topology.port(port).node as usize;
            format!("{}:{}", topology.names[node], topology.names[topology.peer_node(port) as usize])
        };
        let rate = |port: PortId| topology.port(port).link.rate;
        let shared = |port: PortId| paths.iter().filter(|path| path.contains(&port)).count() as u64;
        let first = paths.first().ok_or("no flow starts before the last sample")?;
        let common = first
            .iter()
            .copied()
            .filter(|port| !topology.is_host(topology.port(*port).node) && shared(*port) == paths.len() as u64);
        // If several outputs have the same rate, the first one on the path is the bottleneck, because it limits the
        // packets that reach the others.
        let bottleneck = common.min_by_key(|port| rate(*port)).ok_or("the flows have no common output of a switch")?;
        for path in &paths {
            let own = path.iter().position(|port| *port == bottleneck).unwrap_or(0);
            for (index, port) in path.iter().copied().enumerate() {
                if topology.port(port).link.loss > 0.0 {
                    return Err(format!("link {} loses packets, but the model has no loss", name(port)));
                }
                let arriving = if index > own { 1 } else { shared(port) };
                if index != own && rate(port).as_bps() < arriving * rate(bottleneck).as_bps() {
                    return Err(format!(
                        "both {} and {} can be congested, but the model has one bottleneck",
                        name(port),
                        name(bottleneck)
                    ));
                }
            }
            if rate(path[0]) != rate(bottleneck) {
                return Err(format!(
                    "a host's link has {}, the bottleneck {}; the model has one rate for both",
                    rate(path[0]),
                    rate(bottleneck)
                ));
            }
        }
        let gap = u64::from(resolved.host_config.frame_gap);
        let data = u64::from(resolved.flow.mtu + resolved.flow.header) + gap;
        let cnp = u64::from(resolved.host_config.cnp_bytes) + gap;
        let there_and_back = |path: &Vec<PortId>| {
            let link = |port: &PortId| {
                let link = topology.port(*port).link;
                link.delay * 2 + link.rate.time_for(data) + link.rate.time_for(cnp)
            };
            path.iter().map(link).fold(Time::ZERO, |sum, time| sum + time)
        };
        let loop_time = paths.iter().map(there_and_back).max().unwrap_or_default();
        Ok(Bottleneck { name: name(bottleneck), rate: rate(bottleneck), loop_time })
    }
}

/// For each group of equal flows, the rate at which the bottleneck sends the packets of one flow, at each time of the
/// model's solution `series`.
fn delivered(series: &Series, capacity: f64) -> Vec<Vec<f64>> {
    let arriving = |i: usize| series.flows.iter().map(|flow| f64::from(flow.count) * flow.rate[i]).sum::<f64>();
    let sent = |i: usize| {
        let arriving = arriving(i);
        if arriving > 0.0 && (series.queue[i] > 0.0 || arriving > capacity) { capacity / arriving } else { 1.0 }
    };
    let factors: Vec<f64> = (0..series.time.len()).map(sent).collect();
    series
        .flows
        .iter()
        .map(|flow| flow.rate.iter().zip(&factors).map(|(rate, factor)| rate * factor).collect())
        .collect()
}

/// The mean of `values` over each interval between two samples.
fn per_interval(time: &[f64], values: &[f64], samples: &Samples) -> Vec<f64> {
    let at = |index: u32| samples.at(index).as_secs();
    (1..samples.count).map(|index| mean_between(time, values, at(index - 1), at(index))).collect()
}

/// The mean of a function over the time from `from` to `to`. The function is linear between its points (`time`,
/// `values`) and constant outside them.
fn mean_between(time: &[f64], values: &[f64], from: f64, to: f64) -> f64 {
    let value = |at: f64| {
        let after = time.partition_point(|time| *time < at);
        if after == 0 {
            return values[0];
        }
        let Some(end) = time.get(after) else { return values[after - 1] };
        let part = (at - time[after - 1]) / (end - time[after - 1]);
        values[after - 1] + part * (values[after] - values[after - 1])
    };
    let mut area = 0.0;
    let mut last = (from, value(from));
    let inner = time.partition_point(|time| *time <= from)..time.partition_point(|time| *time < to);
    for point in inner.map(|i| (time[i], values[i])).chain([(to, value(to))]) {
        area += (point.0 - last.0) * (point.1 + last.1) / 2.0;
        last = point;
    }
    area / (to - from)
}

#[cfg(test)]
mod tests;
