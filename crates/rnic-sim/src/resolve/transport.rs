//! Configuration of a run's transport and of its hosts, derived from the run's settings and its fabric.

use super::host::{self, HostPlan};
use super::links::Links;
use super::message::{self, MessagePlan};
use super::{Demands, SetupError, TransportError, switch};
use crate::host::{HostConfig, PipelineConfig, ProcessingConfig, StackConfig};
use rnic_fabric::config::{BufferSpec, OutputSpec, SEGMENT, SwitchSpec};
use rnic_spec::{CongestionSpec, RunSpec};
use rnic_transport::settings::Settings;
use rnic_transport::transports::{FabricFacts, IRN_PIPELINE_CYCLES};
use rnic_transport::{Bytes, FlowConfig, Time};
use rnic_workload::Network;

/// Facts about the fabric from which the transport derives its settings. `lossless` says whether the fabric cannot drop
/// packets.
pub(super) fn facts(
    run: &RunSpec, switch: &SwitchSpec, links: &Links, network: &Network, lossless: bool,
) -> FabricFacts {
    let mtu = run.fabric.mtu.0 as u32;
    FabricFacts {
        mtu,
        header: links.frames.header,
        line_rate: network.host_rate.iter().copied().max().unwrap_or_default(),
        base_rtt: links.base_rtt() + processing_of_round_trip(run),
        bdp: links.bdp(mtu),
        fill: links.fill,
        congested_rtt: links.congested_rtt(switch),
        lossless,
        meant_lossless: switch.buffer.has_pfc() && !links.random_loss,
        needs_acks: run.transport.cc.declaration.needs_acks || super::has_programs(run),
        trims: matches!(switch.buffer, BufferSpec::Output(OutputSpec { trim: Some(_), .. })),
    }
}

/// Time that hosts need to process a packet and its ACK, each at its receiver.
pub(super) fn processing_of_round_trip(run: &RunSpec) -> Time {
    processing(&run.transport.settings).map_or(Time::ZERO, |config| config.receive_latency() * 2)
}

/// Transport settings that all flows of the run have, without those that the congestion control demands.
pub(super) fn flow(run: &RunSpec, facts: &FabricFacts) -> Result<FlowConfig, TransportError> {
    run.transport.declaration.configure(&run.transport.settings, facts).map_err(TransportError::Settings)
}

/// Checks that receivers can grant credit, if the congestion control needs that: they have links of the same rate.
pub(super) fn check_credit(run: &RunSpec, network: &Network) -> Result<(), SetupError> {
    let (slowest, fastest) = (network.host_rate.iter().min(), network.host_rate.iter().max());
    match slowest.zip(fastest) {
        Some((slowest, fastest)) if run.transport.cc.declaration.needs_credit && slowest != fastest => {
            let cc = run.transport.cc.name().to_string();
            Err(SetupError::CreditRates { cc, slowest: *slowest, fastest: *fastest })
        }
        _ => Ok(()),
    }
}

/// Configuration of the run's message transport; `None` with another transport.
pub(super) fn messages(
    run: &RunSpec, flow: &FlowConfig, links: &Links, facts: &FabricFacts,
) -> Result<Option<MessagePlan>, SetupError> {
    if !run.transport.is_message() {
        return Ok(None);
    }
    // The timeout of a message is at least 40/3 round-trip times, the ratio in the NanoTransport paper: a timeout of
    // 7 us at a round-trip time of 525 ns.
    let min = Time::from_ps(facts.base_rtt.as_ps() * 40 / 3);
    let plan = message::plan(run, flow, &links.frames, facts.congested_rtt.max(min))?;
    message::check_sizes(&plan, rnic_workload::largest(&run.traffic))?;
    Ok(Some(plan))
}

/// Configuration of the run's transport in host software; `None` with another transport.
pub(super) fn software(run: &RunSpec, flow: &FlowConfig, links: &Links) -> Result<Option<HostPlan>, TransportError> {
    run.transport.is_host().then(|| host::plan(run, flow, &links.frames)).transpose()
}

/// Settings that all hosts and NICs of the run have.
pub(super) fn host_config(run: &RunSpec, switch: &SwitchSpec, links: &Links) -> HostConfig {
    let settings = &run.transport.settings;
    let burst = default_burst(run.transport.cc.name() == "none", run.fabric.mtu);
    HostConfig {
        frame_gap: links.frames.gap,
        burst: settings.count("nic_burst").unwrap_or(burst) as u32,
        ack_bytes: links.frames.ack,
        nack_bytes: links.frames.nack,
        cnp_bytes: links.frames.cnp,
        control_priority: switch::control_priority(run, switch),
        // A run with a `duration` completes at this time, so `max_time` cannot fail it.
        max_time: run.limits.max_time.filter(|_| run.limits.duration.is_none()).unwrap_or(Time::MAX),
        stall_time: run.limits.stall_time,
        duration: run.limits.duration,
        seed: run.seed,
        processing: processing(settings),
    }
}

/// What takes time for packets in the hosts: the kernel's network stack of a transport that has one, or with
/// `nic_pipeline = "rtl:irn"` the blocks `irn_sender` and `irn_receiver` in `hw/irn`.
fn processing(settings: &Settings) -> Option<ProcessingConfig> {
    let pipeline = || {
        let cycle = settings.is("nic_pipeline", "rtl:irn").then(|| settings.time("nic_cycle").ok()).flatten()?;
        let latency = Time::from_ps(cycle.as_ps().saturating_mul(IRN_PIPELINE_CYCLES.into()));
        Some(ProcessingConfig::Pipeline(PipelineConfig { cycle, latency }))
    };
    StackConfig::of(settings).map(ProcessingConfig::Kernel).or_else(pipeline)
}

/// Default of `nic_burst`: the number of packets of one flow that a NIC sends before the turn of the next flow. Without
/// congestion control it is a segment ([`SEGMENT`]) in full packets. Congestion control paces each packet of a flow, so
/// there the flows take turns packet by packet.
fn default_burst(is_unpaced: bool, mtu: Bytes) -> u64 {
    if is_unpaced { (SEGMENT.0 / mtu.0).max(1) } else { 1 }
}

/// Warns of a cap or a rate that limits no flow or every flow, and of hosts with different links.
pub(super) fn warn_of_rates(
    run: &RunSpec, flow: &FlowConfig, software: Option<&HostPlan>, links: &Links, network: &Network,
    warnings: &mut Vec<String>,
) {
    if run.transport.declaration.warns_of_small_cap {
        warn_of_small_cap(flow, links, warnings);
    }
    let fastest = network.host_rate.iter().max();
    let max_rate = flow.max_rate.or(software.and_then(HostPlan::max_rate));
    if let Some((rate, fastest)) = max_rate.zip(fastest).filter(|(rate, fastest)| rate > *fastest) {
        warnings.push(format!("max_rate = \"{rate}\" changes nothing: no host's link is faster than {fastest}"));
    }
    let cc = run.transport.cc.name();
    if let Some(slowest) = network.host_rate.iter().min().filter(|rate| **rate < flow.line_rate)
        && cc != "none"
    {
        warnings.push(format!(
            "hosts have links of {slowest} to {}; cc \"{cc}\" takes the fastest as line rate for every flow",
            flow.line_rate
        ));
    }
}

/// Warns if the limit of packets in flight (`bdp_cap`) keeps a flow without competitors below 90 % of line rate.
fn warn_of_small_cap(flow: &FlowConfig, links: &Links, warnings: &mut Vec<String>) {
    let needed = links.fill;
    if u64::from(flow.bdp_cap) * 10 < u64::from(needed) * 9 {
        warnings.push(format!(
            "bdp_cap = {} holds a lone flow on the longest path to {:.0} % of line rate; {needed} packets would fill it",
            flow.bdp_cap,
            f64::from(flow.bdp_cap) / f64::from(needed) * 100.0
        ));
    }
}

/// The configuration of a run's hosts, for the description of its settings.
pub(super) struct Hosts<'a> {
    pub(super) flow: &'a FlowConfig,
    pub(super) config: &'a HostConfig,
    pub(super) messages: Option<&'a MessagePlan>,
    pub(super) software: Option<&'a HostPlan>,
    pub(super) demands: &'a Demands,
}

/// Passes the settings of the transport, the congestion control and the hosts to `put`, for the run's results.
pub(super) fn put(run: &RunSpec, switch: &SwitchSpec, hosts: &Hosts<'_>, put: &mut impl FnMut(&str, String)) {
    let ack_size = Bytes(u64::from(hosts.config.ack_bytes)).to_string();
    if let Some(plan) = hosts.messages {
        put("ack_size", ack_size);
        message::put(run, plan, put);
    } else if let Some(plan) = hosts.software {
        put("ack_size", ack_size);
        host::put(run, plan, put);
        put_congestion(&run.transport.cc, hosts.demands, put);
    } else {
        put_flows(run, switch, hosts, put);
    }
}

/// Passes the settings of a transport of flows to `put`.
fn put_flows(run: &RunSpec, switch: &SwitchSpec, hosts: &Hosts<'_>, put: &mut impl FnMut(&str, String)) {
    let (transport, Hosts { flow, config, .. }) = (&run.transport, hosts);
    let (before, after) = transport.declaration.describe_flows(&transport.settings, flow);
    for (key, value) in before {
        put(key, value);
        if key == "recovery" {
            put("nack_size", Bytes(u64::from(config.nack_bytes)).to_string());
        }
    }
    put_congestion(&transport.cc, hosts.demands, put);
    super::ecn::put(switch, put);
    put("nic_burst", format!("{} packets", config.burst));
    if let Some(ProcessingConfig::Pipeline(PipelineConfig { cycle, latency })) = config.processing {
        put("nic_pipeline", format!("rtl:irn, an operation in {cycle}, done after {latency}"));
    }
    let acks = match (flow.acks, flow.tcp.delayed_acks.is_some()) {
        (false, _) => "none (all Reads)".to_string(),
        (true, false) => "every packet".to_string(),
        (true, true) => "every second packet".to_string(),
    };
    put("acks", acks);
    put("ack_size", Bytes(u64::from(config.ack_bytes)).to_string());
    for (key, value) in after {
        put(key, value);
    }
}

/// Passes the parameters of the congestion control to `put`.
fn put_congestion(cc: &CongestionSpec, demands: &Demands, put: &mut impl FnMut(&str, String)) {
    for parameter in cc.declaration.parameters {
        let derived = || demands.derived.iter().find(|(name, _)| *name == parameter.name);
        let value = cc.settings.value(parameter.name).or_else(|| Some(derived()?.1.clone()));
        put(
            &format!("{}.{}", cc.name(), parameter.name),
            value.map_or("derived from the fabric".to_string(), |value| value.to_string()),
        );
    }
}
