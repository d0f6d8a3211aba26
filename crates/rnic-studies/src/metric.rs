//! Metrics: quantities that are read from the measurement of one simulation. A metric is a name and a function; a new
//! metric is one declaration.

use crate::measurement::{Flows, Measurement, Speeds, TAIL_PER_MILLE};
use rnic_results::report::figure::Unit;
use rnic_results::stats::mean;

/// A quantity that is read from the measurement of one simulation: its name, its value, and how figures show it.
///
/// ```
/// use rnic_studies::measurement::Measurement;
/// use rnic_studies::metric::Metric;
///
/// let result = Measurement { each_gbps: vec![9.0, 4.0], ..Measurement::default() };
/// assert_eq!(Metric::flow_gbps(1).text(), "goodput of flow 1");
/// assert_eq!(Metric::flow_gbps(1).value(&result, ""), Some(4.0));
/// assert_eq!(Metric::flow_gbps(2).value(&result, ""), None, "the run has two flows");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    quantity: Quantity,
    /// Unit of the value in figures.
    pub(crate) unit: Unit,
    /// Title of the axis of a curve. It contains the unit if the figure's numbers do not show their unit.
    pub(crate) axis: &'static str,
}

/// Name and value of a metric, with the argument of both if it has one.
#[derive(Clone, Copy, Debug)]
enum Quantity {
    /// A quantity of the whole run.
    Run { text: &'static str, value: fn(&Measurement) -> Option<f64> },
    /// A quantity of the completed flows, of the whole run or of one traffic source.
    Flows { text: &'static str, value: fn(&Flows) -> f64 },
    /// A quantity of the flows' goodput, of the whole run or of one traffic source.
    Goodput { text: &'static str, value: fn(&Speeds) -> f64 },
    /// A quantity of the run that a number selects, such as the id of a flow.
    Numbered { number: u64, text: fn(u64) -> String, value: fn(&Measurement, u64) -> Option<f64> },
    /// A quantity of the run that a name selects, such as the name of a mesh of probes.
    Named { name: &'static str, text: fn(&str) -> String, value: fn(&Measurement, &str) -> Option<f64> },
}

/// Title of the axis of goodputs.
pub(crate) const GOODPUT_AXIS: &str = "Goodput, Gbps";

/// The three metrics in most figures of the IRN paper: average slowdown, average FCT and 99th percentile FCT.
pub const THREE: [Metric; 3] = [Metric::SLOWDOWN, Metric::FCT, Metric::FCT_P99];

/// How a metric is declared, and how it is read.
impl Metric {
    const fn new(quantity: Quantity) -> Metric {
        Metric { quantity, unit: Unit::Number, axis: GOODPUT_AXIS }
    }

    /// A quantity of the whole run. `value` is `None` for a run without it.
    pub const fn of_run(text: &'static str, value: fn(&Measurement) -> Option<f64>) -> Metric {
        Metric::new(Quantity::Run { text, value })
    }

    /// A quantity of the completed flows, of the whole run or of one traffic source.
    pub const fn of_flows(text: &'static str, value: fn(&Flows) -> f64) -> Metric {
        Metric::new(Quantity::Flows { text, value })
    }

    /// A quantity of the flows' goodput, of the whole run or of one traffic source.
    pub const fn of_goodput(text: &'static str, value: fn(&Speeds) -> f64) -> Metric {
        Metric::new(Quantity::Goodput { text, value })
    }

    /// A quantity of the run that `number` selects. `text` and `value` get this number.
    pub const fn numbered(number: u64, text: fn(u64) -> String, value: fn(&Measurement, u64) -> Option<f64>) -> Metric {
        Metric::new(Quantity::Numbered { number, text, value })
    }

    /// A quantity of the run that `name` selects. `text` and `value` get this name.
    pub const fn named(
        name: &'static str, text: fn(&str) -> String, value: fn(&Measurement, &str) -> Option<f64>,
    ) -> Metric {
        Metric::new(Quantity::Named { name, text, value })
    }

    /// The same metric, which figures show with this unit.
    pub const fn unit(self, unit: Unit) -> Metric {
        Metric { unit, ..self }
    }

    /// The same metric; the axis of its curves has this title.
    pub const fn axis(self, axis: &'static str) -> Metric {
        Metric { axis, ..self }
    }

    /// Name of the metric for tables and figures.
    pub fn text(self) -> String {
        match self.quantity {
            Quantity::Run { text, .. } | Quantity::Flows { text, .. } | Quantity::Goodput { text, .. } => {
                text.to_string()
            }
            Quantity::Numbered { number, text, .. } => text(number),
            Quantity::Named { name, text, .. } => text(name),
        }
    }

    /// The value of the metric, for the flows of one traffic source if the metric distinguishes them; an empty
    /// `traffic` stands for all flows. `None` if the run has no such value.
    pub fn value(self, result: &Measurement, traffic: &str) -> Option<f64> {
        match self.quantity {
            Quantity::Run { value, .. } => value(result),
            Quantity::Flows { value, .. } => {
                let all = traffic.is_empty();
                let flows = if all { result.flows.as_ref() } else { result.traffic.get(traffic) };
                flows.map(value)
            }
            Quantity::Goodput { value, .. } => result.goodput.get(traffic).map(value),
            Quantity::Numbered { number, value, .. } => value(result, number),
            Quantity::Named { name, value, .. } => value(result, name),
        }
    }

    /// Whether the value depends on the traffic source.
    pub(crate) fn is_per_source(self) -> bool {
        matches!(self.quantity, Quantity::Flows { .. } | Quantity::Goodput { .. })
    }
}

/// Collective operations and training steps of a run with one traffic source.
impl Metric {
    /// Mean time of an operation or step.
    pub const STEP_TIME: Metric =
        Metric::of_run("mean time of an operation or step", |result| Some(result.programs.values().next()?.time_us))
            .unit(Unit::Time);
    /// Bus bandwidth as nccl-tests defines it, in 10^9 bytes per second.
    pub const BUS_BANDWIDTH: Metric =
        Metric::of_run("bus bandwidth, GB/s", |result| result.programs.values().next()?.busbw);
    /// Time on the critical path by which messages are slower than on an empty fabric.
    pub const EXCESS: Metric = Metric::of_run("time of messages beyond an empty fabric", |result| {
        result.programs.values().next()?.parts.get("excess").copied()
    })
    .unit(Unit::Time);
}

/// Completion times of flows, in microseconds.
impl Metric {
    /// Average slowdown of the measured flows.
    pub const SLOWDOWN: Metric = Metric::of_flows("average slowdown", |flows| flows.slowdown);
    /// Average flow completion time.
    pub const FCT: Metric = Metric::of_flows("average FCT", |flows| flows.fct_us).unit(Unit::Time);
    /// 99th percentile of the flow completion time.
    pub const FCT_P99: Metric = Metric::of_flows("99th percentile FCT", |flows| flows.fct_p99_us).unit(Unit::Time);
    /// 99.9th percentile of the flow completion time.
    pub const FCT_P999: Metric = Metric::of_flows("99.9th percentile FCT", |flows| flows.fct_p999_us).unit(Unit::Time);
    /// Maximum flow completion time.
    pub const FCT_MAX: Metric = Metric::of_flows("maximum FCT", |flows| flows.fct_max_us).unit(Unit::Time);
    /// Average request completion time.
    pub const RCT: Metric = Metric::of_run("average RCT", |result| mean(&result.requests_us)).unit(Unit::Time);
    /// Median completion time of the messages that are longer than one packet.
    pub const LONG_MEDIAN: Metric = Metric::of_run("median completion time of long messages", |result| result.long_us)
        .unit(Unit::Time)
        .axis("Completion time");
    /// Finished flows per second, in millions.
    pub const MILLIONS_PER_SECOND: Metric = Metric::of_run("flows per second", |result| result.millions_per_s);

    /// Percentile, given in thousandths, of the completion time of single-packet messages.
    pub const fn tail(per_mille: u32) -> Metric {
        let text = |per_mille: u64| format!("{} %ile of single packets", per_mille as f64 / 10.0);
        let value = |result: &Measurement, per_mille: u64| {
            let index = TAIL_PER_MILLE.iter().position(|known| u64::from(*known) == per_mille)?;
            result.tail_us.get(index).copied()
        };
        Metric::numbered(per_mille as u64, text, value).unit(Unit::Time).axis("Completion time")
    }

    /// Completion time of the first flow whose size is this number of bytes.
    pub const fn completion_us(bytes: u64) -> Metric {
        let text = |bytes| format!("completion time of {bytes} B");
        Metric::numbered(bytes, text, |result, bytes| {
            result.each_us.iter().find(|(own, _)| *own == bytes).map(|(_, us)| *us)
        })
    }

    /// Number of flows that finished after this percentage of the run's time.
    pub const fn finished_after(percent: u64) -> Metric {
        let text = |percent| format!("messages finished from {percent} to 100 % of the run");
        Metric::numbered(percent, text, |result, percent| {
            Some(result.operations.finished.get(percent as usize..100)?.iter().sum::<u64>() as f64)
        })
    }
}

/// Goodput, in Gbps.
impl Metric {
    /// Sum of the goodputs of all flows.
    pub const TOTAL_GBPS: Metric = Metric::of_run("goodput of all flows", |result| {
        (!result.each_gbps.is_empty()).then(|| result.each_gbps.iter().sum())
    });
    /// Median of the goodputs of the flows.
    pub const MEDIAN_GBPS: Metric = Metric::of_goodput("median goodput", |goodput| goodput.p50);
    /// 10th percentile of the goodputs of the flows.
    pub const LOW_GBPS: Metric = Metric::of_goodput("10th percentile of the goodput", |goodput| goodput.p10);
    /// Payload of all flows divided by the sum of the flows' lifetimes.
    pub const POOLED_GBPS: Metric = Metric::of_run("goodput", |result| result.pooled_gbps);
    /// Payload that the receivers have at the end of the run, per time of the run.
    pub const DELIVERED_GBPS: Metric =
        Metric::of_run("delivered payload", |result| per_run(result, result.operations.delivered_bytes));
    /// Payload of the finished flows, per time of the run.
    pub const FINISHED_GBPS: Metric =
        Metric::of_run("payload of finished messages", |result| per_run(result, result.operations.finished_bytes));

    /// Goodput of the flow with this id.
    pub const fn flow_gbps(flow: u64) -> Metric {
        let text = |flow| format!("goodput of flow {flow}");
        Metric::numbered(flow, text, |result, flow| result.each_gbps.get(flow as usize).copied())
    }

    /// Minimum goodput among the flows whose ids are below this number.
    pub const fn min_gbps(below: u64) -> Metric {
        let text = |_| "minimum goodput of a flow".to_string();
        Metric::numbered(below, text, |result, below| first_gbps(result, below).reduce(f64::min))
    }

    /// Maximum goodput among the flows whose ids are below this number.
    pub const fn max_gbps(below: u64) -> Metric {
        let text = |_| "maximum goodput of a flow".to_string();
        Metric::numbered(below, text, |result, below| first_gbps(result, below).reduce(f64::max))
    }

    /// Mean goodput of the flow with this id over the last quarter of the run.
    pub const fn late_gbps(flow: u64) -> Metric {
        let text = |flow| format!("goodput of flow {flow} in the last quarter");
        Metric::numbered(flow, text, |result, flow| mean(late(result, flow)?))
    }

    /// For the flow with this id: standard deviation of its goodput over time in the last quarter of the run.
    pub const fn late_jitter(flow: u64) -> Metric {
        let text = |flow| format!("standard deviation of the goodput of flow {flow} in the last quarter");
        Metric::numbered(flow, text, |result, flow| {
            let values = late(result, flow)?;
            let mean = mean(values)?;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            Some((squares / values.len() as f64).sqrt())
        })
    }

    /// Payload of this traffic source that the receivers have at the end of the run, per time of the run.
    pub const fn source_gbps(source: &'static str) -> Metric {
        Metric::named(
            source,
            |source| format!("goodput of {source}"),
            |result, source| per_run(result, *result.operations.delivered_of.get(source)?),
        )
    }
}

/// Packets that were dropped, retransmitted, trimmed or useful.
impl Metric {
    /// Data packets that switches dropped, as a fraction of the data packets sent.
    pub const DROPPED: Metric = Metric::of_run("data packets dropped", |result| result.drop_rate).unit(Unit::Percent);
    /// Retransmitted data packets, as a fraction of the data packets sent.
    pub const RETRANSMITTED: Metric =
        Metric::of_run("data packets retransmitted", |result| result.retransmission_rate).unit(Unit::Percent);
    /// Number of retransmission timeouts.
    pub const TIMEOUTS: Metric = Metric::of_run("timeouts", |result| Some(result.timeouts as f64));
    /// Number of data packets that a switch trimmed to their headers because its buffer was full.
    pub const TRIMMED: Metric = Metric::of_run("packets trimmed", |result| Some(result.trimmed as f64));
    /// Number of trimmed headers that a switch returned to their sender.
    pub const RETURNED: Metric = Metric::of_run("headers returned", |result| Some(result.returned as f64));
    /// Retransmitted data packets for each dropped data packet.
    pub const RETRANSMITTED_PER_DROP: Metric = Metric::of_run("packets retransmitted per drop", |result| {
        let operations = &result.operations;
        (operations.dropped > 0).then(|| operations.retransmitted as f64 / operations.dropped as f64)
    });

    /// Number of packets that switches dropped in this priority.
    pub const fn dropped_in(priority: u64) -> Metric {
        let text = |priority| format!("packets dropped in priority {priority}");
        Metric::numbered(priority, text, |result, priority| {
            result.operations.dropped_in.get(priority as usize).map(|packets| *packets as f64)
        })
    }

    /// Payload that the receivers have, as a fraction of the payload of all data packets that were sent, for this many
    /// bytes of payload per packet.
    pub const fn useful_share(payload: u64) -> Metric {
        let text = |_| "useful share of the data packets".to_string();
        Metric::numbered(payload, text, |result, payload| {
            share_of_sent(result, payload, result.operations.delivered_bytes)
        })
    }

    /// Payload of the finished flows, as a fraction of the payload of all data packets that were sent, for this many
    /// bytes of payload per packet.
    pub const fn finished_share(payload: u64) -> Metric {
        let text = |_| "useful share of the data packets".to_string();
        Metric::numbered(payload, text, |result, payload| {
            share_of_sent(result, payload, result.operations.finished_bytes)
        })
    }
}

/// Queues and PFC pauses.
impl Metric {
    /// Mean length of the sampled queue in bytes.
    pub const QUEUE_MEAN: Metric =
        Metric::of_run("queue, mean", |result| Some(result.queues.values().next()?.mean)).queue();
    /// Median length of the sampled queue in bytes.
    pub const QUEUE_MEDIAN: Metric =
        Metric::of_run("queue, median", |result| Some(result.queues.values().next()?.p50)).queue();
    /// 95th percentile of the length of the sampled queue in bytes.
    pub const QUEUE_HIGH: Metric =
        Metric::of_run("queue, 95th percentile", |result| Some(result.queues.values().next()?.p95)).queue();
    /// 95th percentile of the means over 10 ms of the length of the sampled queue, in bytes.
    pub const QUEUE_AVERAGED_HIGH: Metric = Metric::of_run("queue averaged over 10 ms, 95th percentile", |result| {
        result.queues.values().next()?.averaged_p95
    })
    .queue();
    /// Maximum length of the sampled queue in bytes.
    pub const QUEUE_MAX: Metric =
        Metric::of_run("queue, maximum", |result| Some(result.queues.values().next()?.max)).queue();
    /// Number of PFC pause (XOFF) frames that were received.
    pub const PAUSES: Metric = Metric::of_run("pauses", |result| Some(pauses(result, ""))).axis("Pauses");
    /// Number per second of PFC pause (XOFF) frames that were received.
    pub const PAUSES_PER_SECOND: Metric =
        Metric::of_run("pauses per second", |result| Some(pauses(result, "") / (result.sim_time_us / 1e6)));
    /// Hosts that have been paused at the end of the run for at least a tenth of it, as a fraction of all hosts.
    pub const BLOCKED: Metric = Metric::of_run("hosts blocked at the end", |result| {
        Some(result.operations.blocked_hosts as f64 / result.operations.hosts.max(1) as f64)
    });
    /// Number of ports of the cycle of pauses at the end of the run.
    pub const CYCLE_PORTS: Metric =
        Metric::of_run("ports in a cycle of pauses at the end", |result| Some(result.operations.cycle_ports as f64));
    /// Time in milliseconds at which the first watchdog of a NIC detected a storm.
    pub const DETECTED_BY_NIC_MS: Metric = Metric::of_run("storm found by the NIC", |result| detected_ms(result, true));
    /// Time in milliseconds at which the first watchdog of a switch detected a storm.
    pub const DETECTED_BY_SWITCH_MS: Metric =
        Metric::of_run("storm found by the switch", |result| detected_ms(result, false));

    const fn queue(self) -> Metric {
        self.unit(Unit::Bytes).axis("Queue")
    }

    /// Number of PFC pause (XOFF) frames that were received by the nodes whose names start with this text.
    pub const fn pauses_at(nodes: &'static str) -> Metric {
        let text = |nodes: &str| format!("pauses at {nodes}");
        Metric::named(nodes, text, |result, nodes| Some(pauses(result, nodes))).axis("Pauses")
    }

    /// Number per second of PFC pause (XOFF) frames that were received by the nodes whose names start with this text.
    pub const fn pauses_per_second_at(nodes: &'static str) -> Metric {
        let text = |nodes: &str| format!("pauses per second at {nodes}");
        Metric::named(nodes, text, |result, nodes| Some(pauses(result, nodes) / (result.sim_time_us / 1e6)))
    }

    /// Start in microseconds of a burst (an interval in which the sampled queue is not empty), given the index of the
    /// burst.
    pub const fn burst_start(burst: u64) -> Metric {
        Metric::numbered(
            burst,
            |burst| format!("start of burst {burst}"),
            |result, burst| Some(result.queue_course.as_ref()?.bursts.get(burst as usize)?[0]),
        )
    }

    /// End in microseconds of a burst (an interval in which the sampled queue is not empty), given the index of the
    /// burst.
    pub const fn burst_end(burst: u64) -> Metric {
        Metric::numbered(
            burst,
            |burst| format!("end of burst {burst}"),
            |result, burst| Some(result.queue_course.as_ref()?.bursts.get(burst as usize)?[1]),
        )
    }
}

/// Hosts and probes.
impl Metric {
    /// Maximum utilisation of a host's transmitter.
    pub const BUSIEST_HOST: Metric =
        Metric::of_run("utilisation of the sender's link", |result| Some(result.operations.busiest_host));

    /// CPU time for sending, by declared costs, as a fraction of this number of cores.
    pub const fn sending_cpu(cores: u32) -> Metric {
        let text = |cores| format!("CPU of senders, of {cores} cores");
        Metric::numbered(cores as u64, text, |result, cores| cpu_share(result, 0, cores)).axis(CPU_AXIS)
    }

    /// CPU time for receiving, by declared costs, as a fraction of this number of cores.
    pub const fn receiving_cpu(cores: u32) -> Metric {
        let text = |cores| format!("CPU of receivers, of {cores} cores");
        Metric::numbered(cores as u64, text, |result, cores| cpu_share(result, 1, cores)).axis(CPU_AXIS)
    }

    /// Median of the round-trip time of the probes of a mesh, in microseconds.
    pub const fn mesh_p50(mesh: &'static str) -> Metric {
        Metric::named(
            mesh,
            |mesh| format!("median latency of {mesh}"),
            |result, mesh| result.operations.meshes.get(mesh).map(|rtt| rtt.p50),
        )
    }

    /// 99th percentile of the round-trip time of the probes of a mesh, in microseconds.
    pub const fn mesh_p99(mesh: &'static str) -> Metric {
        Metric::named(
            mesh,
            |mesh| format!("99th percentile latency of {mesh}"),
            |result, mesh| result.operations.meshes.get(mesh).map(|rtt| rtt.p99),
        )
    }

    /// 99.9th percentile of the round-trip time of the probes of a mesh, in microseconds.
    pub const fn mesh_p999(mesh: &'static str) -> Metric {
        Metric::named(
            mesh,
            |mesh| format!("99.9th percentile latency of {mesh}"),
            |result, mesh| result.operations.meshes.get(mesh).map(|rtt| rtt.p999),
        )
    }

    /// The largest 99th percentile of the round-trip times of a mesh in one of its windows, in microseconds.
    pub const fn mesh_worst_p99(mesh: &'static str) -> Metric {
        Metric::named(
            mesh,
            |mesh| format!("largest 99th percentile latency of {mesh} in a window"),
            |result, mesh| result.operations.meshes.get(mesh).map(|rtt| rtt.worst_p99),
        )
    }

    /// Probes of a mesh without a response before the end of the run, as a fraction of its probes.
    pub const fn unanswered(mesh: &'static str) -> Metric {
        Metric::named(
            mesh,
            |mesh| format!("{mesh} without a response"),
            |result, mesh| {
                result.operations.meshes.get(mesh).map(|rtt| rtt.unanswered as f64 / rtt.probes.max(1) as f64)
            },
        )
    }
}

/// Title of the axis of CPU times.
const CPU_AXIS: &str = "CPU, share of the cores";

/// Comparison with the fluid model of DCQCN ([`crate::measurement::fluid`]).
impl Metric {
    /// For the flow that starts last: the mean absolute difference between its goodput in the simulation and in the
    /// fluid model, as a fraction of its fair share of the bottleneck.
    pub const FLUID_DIFFERENCE: Metric =
        Metric::of_run("difference from the fluid model", |result| Some(result.fluid.as_ref()?.difference));
    /// Steady-state goodput of the flow that starts last: simulation divided by fluid model.
    pub const FLUID_RATE: Metric =
        Metric::of_run("goodput / goodput of the fluid model", |result| Some(result.fluid.as_ref()?.rate))
            .axis("Ratio");
    /// Mean length of the bottleneck's queue in the steady state: simulation divided by fluid model.
    pub const FLUID_QUEUE: Metric =
        Metric::of_run("queue / queue of the fluid model", |result| result.fluid.as_ref()?.queue).axis("Ratio");
    /// Mean length of the bottleneck's queue in the steady state of the fluid model, in bytes.
    pub const MODEL_QUEUE: Metric =
        Metric::of_run("queue of the fluid model, mean", |result| Some(result.fluid.as_ref()?.model_queue)).queue();
    /// 95th percentile of the length of the bottleneck's queue in the steady state of the fluid model, in bytes.
    pub const MODEL_QUEUE_HIGH: Metric = Metric::of_run("queue of the fluid model, 95th percentile", |result| {
        Some(result.fluid.as_ref()?.model_queue_p95)
    })
    .queue();
    /// Minimum length of the bottleneck's queue in the steady state of the fluid model, in bytes.
    pub const MODEL_QUEUE_MIN: Metric =
        Metric::of_run("queue of the fluid model, minimum", |result| Some(result.fluid.as_ref()?.model_queue_min))
            .queue();
    /// Minimum length of the bottleneck's queue in the steady state of the simulation, in bytes.
    pub const STEADY_QUEUE_MIN: Metric =
        Metric::of_run("queue in the steady state, minimum", |result| result.fluid.as_ref()?.packets_queue_min).queue();
}

/// The goodputs of the flows whose ids are below this number, in Gbps.
fn first_gbps(result: &Measurement, below: u64) -> impl Iterator<Item = f64> {
    result.each_gbps.iter().take(below as usize).copied()
}

/// Payload bytes per time of the run, in Gbps.
fn per_run(result: &Measurement, bytes: u64) -> Option<f64> {
    Some(bytes as f64 * 8e-3 / result.sim_time_us)
}

/// Payload bytes as a fraction of the payload of all data packets that were sent; `None` if none was sent.
fn share_of_sent(result: &Measurement, payload: u64, bytes: u64) -> Option<f64> {
    let sent = result.operations.data;
    (sent > 0).then(|| bytes as f64 / (sent * payload) as f64)
}

/// PFC pause (XOFF) frames that were received by the nodes whose names start with `nodes`.
fn pauses(result: &Measurement, nodes: &str) -> f64 {
    let received = result.pauses_at.iter().filter(|(node, _)| node.starts_with(nodes));
    received.map(|(_, pauses)| *pauses).sum::<u64>() as f64
}

fn detected_ms(result: &Measurement, by_nic: bool) -> Option<f64> {
    result.operations.storms.iter().find(|storm| storm.by_nic == by_nic).map(|storm| storm.detected_ms)
}

/// CPU time of the senders (`end` 0) or the receivers (1) as a fraction of `cores` over the whole run; `None` for a
/// transport without declared costs.
fn cpu_share(result: &Measurement, end: usize, cores: u64) -> Option<f64> {
    // One end may need no CPU: the NIC alone serves Reads.
    (result.cpu_us != [0.0, 0.0]).then(|| result.cpu_us[end] / (result.sim_time_us * cores as f64))
}

/// Goodputs of a flow in Gbps, one for each sampling interval in the last quarter of the run.
fn late(result: &Measurement, flow: u64) -> Option<&[f64]> {
    let course = result.course.as_ref()?;
    let flow = course.gbps.get(flow as usize)?;
    Some(&flow[flow.len() - (course.at_us.len() / 4).clamp(1, flow.len().max(1)).min(flow.len())..])
}

/// Jain's fairness index, `(sum x)^2 / (n sum x^2)`, of the mean goodputs of `flows` over the sampling intervals that
/// end after `from_us` and up to `to_us` microseconds. A flow without a sample in this time has a goodput of 0.
pub(crate) fn fairness(
    result: &Measurement, flows: std::ops::RangeInclusive<u64>, from_us: f64, to_us: f64,
) -> Option<f64> {
    let course = result.course.as_ref()?;
    let goodput = |flow: u64| -> Option<f64> {
        let flow = course.gbps.get(flow as usize)?;
        let at_us = course.at_us.iter().skip(course.at_us.len().checked_sub(flow.len())?);
        let within = |at_us: f64| at_us > from_us && at_us <= to_us;
        let values: Vec<f64> = at_us.zip(flow).filter(|(at_us, _)| within(**at_us)).map(|(_, gbps)| *gbps).collect();
        Some(mean(&values).unwrap_or(0.0))
    };
    let goodputs: Vec<f64> = flows.map(goodput).collect::<Option<_>>()?;
    let (sum, squares) = goodputs.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    // Rounding may exceed the maximum of the index.
    (squares > 0.0).then(|| (sum * sum / (goodputs.len() as f64 * squares)).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::Course;

    #[test]
    fn the_fairness_index_is_jains() {
        // The third flow starts late, so its values belong to the last two intervals.
        let gbps = vec![vec![9.0, 4.0, 4.0, 4.0], vec![9.0, 4.0, 4.0, 4.0], vec![1.0, 1.0]];
        let course = Course { at_us: vec![10.0, 20.0, 30.0, 40.0], gbps };
        let result = Measurement { course: Some(course), ..Measurement::default() };
        assert_eq!(fairness(&result, 0..=1, 10.0, 40.0), Some(1.0));
        assert_eq!(fairness(&result, 0..=2, 20.0, 40.0), Some(81.0 / (3.0 * 33.0)));
        assert_eq!(fairness(&result, 0..=2, 0.0, 20.0), Some((6.5 + 6.5_f64).powi(2) / (3.0 * 2.0 * 6.5 * 6.5)));
        assert_eq!(fairness(&result, 0..=3, 0.0, 20.0), None, "the run has no fourth flow");
    }

    #[test]
    fn a_traffic_source_selects_its_flows() {
        let flows =
            |slowdown| Flows { count: 1, slowdown, fct_us: 0.0, fct_p99_us: 0.0, fct_p999_us: 0.0, fct_max_us: 0.0 };
        let result = Measurement {
            flows: Some(flows(2.0)),
            traffic: [("users".to_string(), flows(3.0))].into(),
            requests_us: vec![5.0, 7.0],
            ..Measurement::default()
        };
        let values = |metric: Metric| ["", "users", "others"].map(|traffic| metric.value(&result, traffic));
        assert_eq!(values(Metric::SLOWDOWN), [Some(2.0), Some(3.0), None]);
        assert_eq!(values(Metric::RCT), [Some(6.0); 3]);
    }
}
