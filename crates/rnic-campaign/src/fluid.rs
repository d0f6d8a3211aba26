//! The fluid model of DCQCN beside a run of packets (figure 10 of the DCQCN paper).
//!
//! The model gets what the run resolves to:
//!
//! - a packet is a full data frame. The capacity is the bottleneck's rate less the frame gaps, so that both send the same packets per second;
//! - marking and the congestion control's parameters are the run's. Hyper increase and the least rate are not in the model;
//! - the control delay is how long it takes until a mark is felt where it was made, in an empty fabric: a full frame over each link of the
//!   path and a CNP back. The receiver's wait between CNPs is in the equations already. Where packets are marked as they join the queue, a
//!   mark waits in it too: as long as the fixed point's queue lasts, Kmax at most. Of several flows the longest delay counts;
//! - a flow starts at line rate with alpha = 1, when it does in the run, and has no end. From there on alpha decays without marks; in packets
//!   it does so from the first CNP on.
//!
//! The model's goodput is what the bottleneck sends of a flow: its rate while nothing waits, else its share of what arrives.

use rnic_fabric::config::{EcnSpec, MarkOn};
use rnic_fabric::{HostId, PortId, Routes};
use rnic_model::dcqcn::{Dcqcn, FixedPoint};
use rnic_model::series::{Group, Run, Series};
use rnic_results::samples::goodput;
use rnic_results::stats::mean;
use rnic_run::FlowSpec;
use rnic_run::RunSpec;
use rnic_run::Samples;
use rnic_sim::flow_hashes;
use rnic_sim::resolve::{Resolved, Stack};
use rnic_transport::congestion::{CongestionControl, Dcqcn as Algorithm};
use rnic_transport::{BitRate, Bytes, Time};

/// Most flows that are modelled.
const MOST_FLOWS: usize = 1_000;
/// Kept values of the model in an interval of the samples.
const VALUES_PER_INTERVAL: u64 = 16;

/// Packets and the model on the same grid: that of the run's samples, without the first.
#[derive(Clone, PartialEq, Debug)]
pub struct FluidComparison {
    /// The model.
    pub model: Dcqcn,
    /// Where it stands still with all flows.
    pub fixed_point: FixedPoint,
    /// The bottleneck: a switch and the node that it sends to.
    pub bottleneck: String,
    /// When each interval ends. All are equally long.
    pub times: Vec<Time>,
    /// The flows, in order of their start.
    pub flows: Vec<FlowComparison>,
    /// The bottleneck's queue.
    pub queue: QueueComparison,
    /// C/N: an equal share of the bottleneck in bit/s of payload.
    pub share: f64,
    /// Number of the first interval of the steady state: of the second half of the time with all flows.
    pub steady_from: usize,
    /// How far apart the goodputs of the flow that starts last are from its start on: mean absolute difference, relative to `share`.
    pub difference: f64,
}

/// A flow's goodput, in bit/s of payload.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowComparison {
    /// Its number in the run.
    pub flow: u32,
    /// When it starts.
    pub start: Time,
    /// Of the packets, in each interval.
    pub packets: Vec<f64>,
    /// Of the model.
    pub model: Vec<f64>,
    /// Mean of the packets in the steady state.
    pub packets_steady: f64,
    /// Mean of the model.
    pub model_steady: f64,
}

/// A queue in bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueComparison {
    /// Of the packets, at the end of each interval; empty where it was not watched.
    pub packets: Vec<f64>,
    /// Of the model, its mean in each interval.
    pub model: Vec<f64>,
    /// Mean of the packets in the steady state.
    pub packets_steady: Option<f64>,
    /// Mean of the model.
    pub model_steady: f64,
}

/// Solves the model for a run, of which [`resolve`](rnic_sim::resolve::resolve) made `resolved` and which yielded `samples`.
///
/// # Errors
/// One sentence that says why the model cannot stand for this run: another congestion control, no marks, flows that were not watched or that
/// end or that follow from what has arrived, storms of pauses, more than one bottleneck, or parameters that it refuses.
pub fn compare_with_fluid(run: &RunSpec, resolved: &Resolved, samples: &Samples) -> Result<FluidComparison, String> {
    refuse(run, resolved)?;
    let end = samples.at(samples.count.saturating_sub(1));
    if samples.flows.is_empty() || samples.count < 3 {
        return Err(
            "too little was sampled: the model is compared with watched flows at three instants at least".into()
        );
    }
    let flows: Vec<FlowSpec> = rnic_workload::generate(&run.traffic, &resolved.network, run.seed)
        .take_while(|flow| flow.start < end)
        .take(MOST_FLOWS + 1)
        .collect();
    if flows.len() > MOST_FLOWS {
        return Err(format!("more than {MOST_FLOWS} flows are too many for the model"));
    }
    let finished = samples.flows.iter().find(|flow| {
        flows.get(flow.flow as usize).is_none_or(|spec| flow.delivered.last().is_some_and(|bytes| *bytes >= spec.bytes))
    });
    if let Some(flow) = finished {
        return Err(format!("flow {} ends, but the model's flows do not", flow.flow));
    }

    let place = Place::new(run, resolved, &flows)?;
    let (model, fixed_point) = model(resolved, &place, flows.len() as u32)?;
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
        let (packets_steady, model_steady) = (steady(&packets), steady(&model));
        compared.push(FlowComparison {
            flow: number as u32,
            start: flow.start,
            packets,
            model,
            packets_steady,
            model_steady,
        });
    }
    let watched = samples.queues.iter().find(|queue| queue.name == place.name);
    let packets: Vec<f64> =
        watched.map_or(Vec::new(), |queue| queue.bytes[1..].iter().map(|b| f64::from(*b)).collect());
    let queue = per_interval(&series.time, &series.queue, samples);
    let queue = QueueComparison {
        packets_steady: watched.map(|_| steady(&packets)),
        model_steady: steady(&queue),
        packets,
        model: queue,
    };
    let share = capacity * payload / flows.len() as f64;
    let apart = compared.last().map_or(Vec::new(), |flow| {
        flow.packets.iter().zip(&flow.model).skip(all_from).map(|(a, b)| (a - b).abs()).collect()
    });
    let difference = mean(&apart).ok_or("the last flow starts too late: no whole interval is left")? / share;
    Ok(FluidComparison {
        model,
        fixed_point,
        bottleneck: place.name,
        times,
        flows: compared,
        queue,
        share,
        steady_from,
        difference,
    })
}

/// What the equations do not have, wherever the flows go.
fn refuse(run: &RunSpec, resolved: &Resolved) -> Result<(), String> {
    let name = run.transport.cc.name;
    if name != Algorithm::NAME {
        return Err(format!("the model is one of cc \"{}\", and the run has cc \"{name}\"", Algorithm::NAME));
    }
    if run.transport.capped() || resolved.stack == Stack::Tcp {
        return Err("the run limits the packets in flight, and the model does not".to_string());
    }
    if let Some(rate) = resolved.flow.max_rate.filter(|rate| *rate < resolved.flow.line_rate) {
        return Err(format!("the run has max_rate = \"{rate}\", and the model's flows go up to the bottleneck's rate"));
    }
    if let Some(source) = run.traffic.iter().find(|source| source.pattern.is_closed()) {
        return Err(format!(
            "the flows of traffic \"{}\" follow from what has arrived, and the model's start at given times",
            source.name
        ));
    }
    if !resolved.storms.is_empty() {
        return Err("a NIC of the run pauses its switch, and the model has no pauses".to_string());
    }
    Ok(())
}

/// The model with a run's parameters.
fn model(resolved: &Resolved, place: &Place, flows: u32) -> Result<(Dcqcn, FixedPoint), String> {
    let frame = u64::from(resolved.flow.mtu + resolved.flow.header);
    let on_cable = frame + u64::from(resolved.hosting.frame_gap);
    let capacity = (u128::from(place.rate.as_bps()) * u128::from(frame) / u128::from(on_cable)) as u64;
    let parameters = Dcqcn::new(BitRate::from_bps(capacity), &resolved.settings).map_err(|error| error.to_string())?;
    let EcnSpec { marking, mark_on } = resolved.fabric.switch.ecn.ok_or("the switches mark nothing")?;
    let mut model = Dcqcn { packet: Bytes(frame), marking, delay: place.loop_time, ..parameters };
    let fixed_point = model.fixed_point(flows).map_err(|error| error.to_string())?;
    if mark_on == MarkOn::Enqueue {
        let queue = fixed_point.queue.min(marking.kmax.0 as f64) as u64;
        model.delay += BitRate::from_bps(capacity).time_for(queue);
    }
    Ok((model, fixed_point))
}

/// Where the flows meet.
struct Place {
    /// The bottleneck's switch and the node that it sends to.
    name: String,
    rate: BitRate,
    /// A full frame to the receiver and a CNP back, over the longest of the paths.
    loop_time: Time,
}

impl Place {
    fn new(run: &RunSpec, resolved: &Resolved, flows: &[FlowSpec]) -> Result<Place, String> {
        let topology = &resolved.topology;
        let routes = Routes::with(topology, &resolved.fabric.routes, run.seed).map_err(|error| error.to_string())?;
        if !resolved.fabric.paths.is_per_flow() {
            return Err("each packet has a path of its own, and the model has one bottleneck".to_string());
        }
        let mut paths: Vec<Vec<PortId>> = Vec::new();
        for (number, flow) in flows.iter().enumerate() {
            let same =
                flows[..number].iter().filter(|other| (other.src, other.start) == (flow.src, flow.start)).count();
            let hash = flow_hashes(run.seed, flow, same as u32).data;
            paths.push(routes.path(topology, HostId(flow.src), HostId(flow.dst), hash));
        }
        let name = |port: PortId| {
            let node = topology.port(port).node as usize;
            format!("{}:{}", topology.names[node], topology.names[topology.peer_node(port) as usize])
        };
        let rate = |port: PortId| topology.port(port).link.rate;
        let shared = |port: PortId| paths.iter().filter(|path| path.contains(&port)).count() as u64;
        let first = paths.first().ok_or("no flow starts while samples are taken")?;
        let common = first
            .iter()
            .copied()
            .filter(|port| !topology.is_host(topology.port(*port).node) && shared(*port) == paths.len() as u64);
        // The first of equals: what follows it gets no more than it can send.
        let bottleneck = common.min_by_key(|port| rate(*port)).ok_or("the flows share no output of a switch")?;
        for path in &paths {
            let place = path.iter().position(|port| *port == bottleneck).unwrap_or(0);
            for (index, port) in path.iter().copied().enumerate() {
                if topology.port(port).link.loss > 0.0 {
                    return Err(format!("{} loses packets, and the model does not", name(port)));
                }
                let arriving = if index > place { 1 } else { shared(port) };
                if index != place && rate(port).as_bps() < arriving * rate(bottleneck).as_bps() {
                    return Err(format!(
                        "{} can be congested as well as {}, and the model has one bottleneck",
                        name(port),
                        name(bottleneck)
                    ));
                }
            }
            if rate(path[0]) != rate(bottleneck) {
                return Err(format!(
                    "a host's link has {}, the bottleneck {}: the model has one rate for both",
                    rate(path[0]),
                    rate(bottleneck)
                ));
            }
        }
        let gap = u64::from(resolved.hosting.frame_gap);
        let data = u64::from(resolved.flow.mtu + resolved.flow.header) + gap;
        let cnp = u64::from(resolved.hosting.cnp_bytes) + gap;
        let there_and_back = |path: &Vec<PortId>| {
            let link = |port: &PortId| {
                let link = topology.port(*port).link;
                link.delay * 2 + link.rate.time_for(data) + link.rate.time_for(cnp)
            };
            path.iter().map(link).fold(Time::ZERO, |sum, time| sum + time)
        };
        let loop_time = paths.iter().map(there_and_back).max().unwrap_or_default();
        Ok(Place { name: name(bottleneck), rate: rate(bottleneck), loop_time })
    }
}

/// What the bottleneck sends of one flow of each group, at the series' times.
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

/// Means in the intervals between the samples.
fn per_interval(time: &[f64], values: &[f64], samples: &Samples) -> Vec<f64> {
    let at = |index: u32| samples.at(index).as_secs();
    (1..samples.count).map(|index| mean_between(time, values, at(index - 1), at(index))).collect()
}

/// The mean of what is linear between points, from a time to a later one; constant before the first point and after the last.
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
    let (mut area, mut last) = (0.0, (from, value(from)));
    let inner = time.partition_point(|time| *time <= from)..time.partition_point(|time| *time < to);
    for point in inner.map(|i| (time[i], values[i])).chain([(to, value(to))]) {
        area += (point.0 - last.0) * (point.1 + last.1) / 2.0;
        last = point;
    }
    area / (to - from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_model::series::FlowSeries;

    #[test]
    fn means_of_a_broken_line_by_hand() {
        let (time, values) = ([0.0, 1.0, 3.0], [0.0, 4.0, 2.0]);
        // 0.5 to 1: 2 to 4, area 1.5; 1 to 2: 4 to 3, area 3.5.
        assert_eq!(mean_between(&time, &values, 0.5, 2.0), 5.0 / 1.5);
        // Up to 3: area 2 of the last half; then constant.
        assert_eq!(mean_between(&time, &values, 2.0, 5.0), (2.5 + 4.0) / 3.0);
        assert_eq!(mean_between(&time, &values, 1.0, 3.0), 3.0);
    }

    #[test]
    fn what_waits_is_shared() {
        let flow = |count, rate: [f64; 3]| FlowSeries { count, rate: rate.to_vec(), state: Vec::new() };
        let series = Series {
            time: vec![0.0, 1.0, 2.0],
            queue: vec![0.0, 0.0, 5.0],
            marking: Vec::new(),
            flows: vec![flow(1, [4.0, 10.0, 2.0]), flow(2, [1.0, 5.0, 3.0])],
        };
        // 6 of 10 arrive; 20 of 10; 8 with a queue, so 10 leave.
        assert_eq!(delivered(&series, 10.0), [[4.0, 5.0, 2.5], [1.0, 2.5, 3.75]]);
    }
}
