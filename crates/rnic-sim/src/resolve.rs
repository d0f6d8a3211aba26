//! Resolves a run before its simulation: computes the complete configuration of the fabric, the transport and the NICs
//! from the run's settings.
//!
//! Settings that a scenario leaves out are derived from its fabric as in the IRN paper (section 4.1): the BDP cap
//! (limit of packets in flight) follows from the longest path, and buffers hold twice the BDP. The timeout `RTO_high`
//! follows from the round-trip time with one congested link.

pub mod faults;
pub(crate) mod host;
pub(crate) mod message;
pub(crate) mod stacks;
mod switch;

use crate::host::{HostConfig, PipelineConfig, ProcessingConfig, StackConfig};
use crate::storm::StormStep;
use crate::watch::WatchPlan;
use host::HostPlan;
use message::MessagePlan;
use rnic_fabric::config::{FabricSpec, SEGMENT, SwitchSpec, TopologySpec};
use rnic_fabric::{
    MIN_FRAME, PathFacts, Routes, Topology, TopologyError, buffer_cycle, longest_path, lossless_headroom,
};
use rnic_run::{CongestionSpec, EcnSetup, P4Error, RunSpec, Storm, TransportSpec};
use rnic_transport::congestion::Marking;
use rnic_transport::headers::ROCE_DATA;
use rnic_transport::settings::{Settings, Value};
use rnic_transport::transports::{FabricFacts, IRN_PIPELINE_CYCLES};
use rnic_transport::{Bytes, FlowConfig, Psn, Time};
use rnic_workload::Network;
pub(crate) use stacks::StackPlan;
use std::sync::Arc;

/// Why a run cannot be set up.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SetupError {
    /// The fabric of the run cannot be built from its topology, links and routes.
    #[error(transparent)]
    Fabric(#[from] TopologyError),
    /// The traffic cannot be generated on this fabric, or the settings of the run contradict each other.
    #[error("{0}")]
    Impossible(String),
    /// The P4 program of the transport cannot be compiled.
    #[error(transparent)]
    Program(#[from] P4Error),
}

/// What a congestion control requires of the switches and of the receiving NICs of a run, and the values of its
/// parameters that it derived from the fabric.
#[derive(Clone, PartialEq, Debug)]
pub struct Demands {
    /// Default thresholds of ECN marking; `None` if the congestion control does not need marks.
    pub marking: Option<Marking>,
    /// Minimum time between two congestion notifications (CNPs) of a flow; `None` if receivers send no CNPs.
    pub cnp_interval: Option<Time>,
    /// Names and values of those parameters that are derived from the fabric, as far as the congestion control states
    /// their values.
    pub derived: Vec<(&'static str, Value)>,
}

/// The congestion controls that runs can name, with what they require of switches and NICs.
pub trait CongestionNeeds {
    /// What the congestion control `cc` requires of switches and NICs, for flows with the configuration `flow`.
    ///
    /// # Errors
    /// There is no congestion control of this name, or its settings contradict each other.
    fn demands(&self, cc: &CongestionSpec, flow: &FlowConfig) -> Result<Demands, SetupError>;
}

/// A run's complete configuration, derived settings included.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    /// Configuration of the fabric, including the settings of its switches that are derived from other settings.
    pub fabric: FabricSpec,
    /// Nodes and links of the fabric.
    pub topology: Arc<Topology>,
    /// The transport and the congestion control of the run with their settings.
    pub transport: TransportSpec,
    /// Transport settings that all flows of the run have.
    pub flow: FlowConfig,
    /// Settings that all hosts and NICs of the run have.
    pub host_config: HostConfig,
    /// Facts about the network that traffic generators use: number of hosts, rates of their links, MTU, header lengths.
    pub network: Network,
    /// Steps of the run's pause storms: which NIC starts or stops pausing its switch, and when. Empty without PFC.
    pub storms: Vec<StormStep>,
    /// Further faults of the run, and its watchdogs.
    pub faults: faults::ResolvedFaults,
    /// Time of the first sample of PFC pauses, and interval between samples; `None` if pauses are not sampled.
    pub watch_pauses: Option<(Time, Time)>,
    /// Whether the fabric cannot drop packets: it has PFC with enough headroom, and no random loss.
    pub lossless: bool,
    /// Number of hops, delay and rate of the longest path of the fabric.
    pub longest: PathFacts,
    /// Queues and flows to sample during the run; `None` if the run samples neither queues nor flows.
    pub watch: Option<WatchPlan>,
    /// All settings of the run in effect, as (key, value with unit), for the result files.
    pub parameters: Vec<(String, String)>,
    /// Warnings for readers of the results, one sentence each.
    pub warnings: Vec<String>,
    /// Configuration of the message transport; `None` with another transport.
    pub(crate) messages: Option<MessagePlan>,
    /// Configuration of the transport in host software; `None` with another transport.
    pub(crate) software: Option<HostPlan>,
    /// The transports of a run with traffic in several priorities, the run's own first; empty in other runs.
    pub(crate) stacks: Vec<StackPlan>,
}

/// Computes the complete configuration of the run `run`. `congestion` is usually a [`Catalogue`](crate::Catalogue); it
/// says what the run's congestion control requires of switches and NICs.
///
/// # Errors
/// The run cannot be set up, for the reason in the error.
pub fn resolve(congestion: &dyn CongestionNeeds, run: &RunSpec) -> Result<Resolved, SetupError> {
    resolve_beside(congestion, run, None)
}

/// As [`resolve`], for several runs. Consecutive runs with the same nodes and links share one topology in memory.
///
/// # Errors
/// A run cannot be set up. The error has the name of the first such run, and the reason.
pub fn resolve_all<'r>(
    congestion: &dyn CongestionNeeds, runs: impl IntoIterator<Item = &'r RunSpec>,
) -> Result<Vec<Resolved>, (String, SetupError)> {
    let mut all: Vec<Resolved> = Vec::new();
    for run in runs {
        let resolved = resolve_beside(congestion, run, all.last()).map_err(|error| (run.name.clone(), error))?;
        all.push(resolved);
    }
    Ok(all)
}

/// Removes the transport settings of a run that have no effect on its result, so that they have their defaults.
/// Examples are `rto_high` if PFC makes timeouts needless, and a setting whose value equals the default. Two runs that
/// differ only in such settings then become equal, so that the stored result of the first run serves for the second
/// run, too.
///
/// The function does not change the settings of a message transport, because its program reads them itself. It does not
/// change a run that cannot be set up either.
pub fn reset_idle_settings(congestion: &dyn CongestionNeeds, run: &mut RunSpec) {
    let declaration = run.transport.declaration;
    let Some(recovery) = declaration.recovery(&run.transport.settings) else {
        return;
    };
    let Ok(mut full) = resolve(congestion, run) else {
        return;
    };
    let given: Vec<&str> = run.transport.settings.given().map(|(name, _)| name).collect();
    for name in given {
        let before = run.transport.settings.clone();
        run.transport.settings.unset(name);
        full.transport.settings.unset(name);
        let is_idle = declaration.recovery(&run.transport.settings) == Some(recovery)
            && resolve_beside(congestion, run, Some(&full)).is_ok_and(|without| without == full);
        if !is_idle {
            run.transport.settings = before.clone();
            full.transport.settings = before;
        }
    }
}

/// The topology of `fabric`. If another run, `other`, has the same nodes and links, both runs share one topology in
/// memory.
fn topology(fabric: &FabricSpec, other: Option<&Resolved>) -> Result<Arc<Topology>, TopologyError> {
    let same = |spec: &FabricSpec| {
        (&spec.topology, &spec.link, &spec.links) == (&fabric.topology, &fabric.link, &fabric.links)
    };
    match other.filter(|other| same(&other.fabric)) {
        Some(other) => Ok(other.topology.clone()),
        None => Topology::build(fabric).map(Arc::new),
    }
}

fn resolve_beside(
    congestion: &dyn CongestionNeeds, run: &RunSpec, other: Option<&Resolved>,
) -> Result<Resolved, SetupError> {
    let resolved = resolve_own(congestion, run, other)?;
    if run.priorities_of_traffic().len() == 1 && run.beside.is_empty() {
        return Ok(resolved);
    }
    stacks::add(congestion, run, resolved)
}

/// Resolves a run with its own transport only.
fn resolve_own(
    congestion: &dyn CongestionNeeds, run: &RunSpec, other: Option<&Resolved>,
) -> Result<Resolved, SetupError> {
    if let Some(why) = run.transport.misfit() {
        return Err(SetupError::Impossible(why));
    }
    let mut fabric = FabricSpec {
        topology: run.fabric.topology.clone(),
        link: run.fabric.link,
        links: run.fabric.links.clone(),
        routes: run.fabric.routes.clone(),
        switch: SwitchSpec { priorities: switch::priorities(run)?, ..SwitchSpec::input_queued(Bytes(0)) },
        paths: run.fabric.paths.unwrap_or_else(|| run.transport.default_paths()),
        frame_gap: run.fabric.frame_gap.0 as u32,
        clocks: run.fabric.clocks,
    };
    let topology = topology(&fabric, other)?;
    let network = Network {
        hosts: topology.hosts,
        host_rate: topology.host_ids().map(|host| topology.port(topology.host_port(host)).link.rate).collect(),
        mtu: run.fabric.mtu.0 as u32,
        wire_overhead: ROCE_DATA + fabric.frame_gap,
    };
    rnic_workload::check(&run.traffic, &network).map_err(SetupError::Impossible)?;
    if let Some(source) = run.traffic.iter().find(|s| s.pattern.is_endless() && run.limits.duration.is_none()) {
        let message = format!("traffic `{}` has no end, and the run no `duration` in [limits]", source.name);
        return Err(SetupError::Impossible(message));
    }
    let longest = longest_path(&topology);
    let frames = Frames::new(run, &fabric)?;
    let needed = lossless_headroom(&topology, frames.longest, frames.gap, &fabric.clocks);
    let most_ports = (topology.hosts..topology.nodes()).map(|n| topology.ports_of(n).len()).max().unwrap_or(1);
    fabric.switch = switch::switch(run, &fabric, needed, longest, &frames, most_ports as u64)?;

    let mut warnings = Vec::new();
    let random_loss = topology.ports.iter().any(|port| port.link.loss > 0.0);
    let has_pfc = fabric.switch.buffer.has_pfc();
    let faults = faults::resolve(run, &topology, has_pfc, (frames.longest, frames.gap), &mut warnings)?;
    let lossless = fabric.switch.buffer.pfc_headroom().is_some_and(|headroom| headroom >= needed)
        && !random_loss
        && !faults.drop_packets();
    let processing = processing(&run.transport.settings);
    // A packet and its ACK are processed by a receiver each.
    let processed = processing.map_or(Time::ZERO, |processing| processing.receive_latency() * 2);
    let base_rtt = base_rtt(longest, &frames) + processed;
    let bdp = longest.rate.bytes_in(longest.delay * 2);
    let derived_cap = bdp.div_ceil(u64::from(run.fabric.mtu.0 as u32 + ROCE_DATA)).max(1);
    let congested_rtt = congested_round_trip(&fabric, most_ports, longest);
    let facts = FabricFacts {
        mtu: run.fabric.mtu.0 as u32,
        header: frames.header,
        line_rate: network.host_rate.iter().copied().max().unwrap_or_default(),
        base_rtt,
        bdp: derived_cap.min(u64::from(Psn::MAX_WINDOW)) as u32,
        congested_rtt,
        lossless,
        meant_lossless: fabric.switch.buffer.has_pfc() && !random_loss,
        cc_needs_acks: run.transport.cc.declaration.needs_acks,
    };
    let transport = &run.transport;
    let mut flow = transport.declaration.configure(&transport.settings, &facts).map_err(SetupError::Impossible)?;
    switch::warn_of_headroom(&fabric.switch, needed, flow.timeouts, &mut warnings);
    warn_of_cycle(run, &fabric, &topology, &mut warnings)?;
    warn_of_storms(run, fabric.switch.priorities, &mut warnings);
    switch::warn_of_trimming(run, &fabric.switch, &mut warnings);
    switch::warn_of_scheduler(&fabric.switch, &mut warnings);
    warn_of_many_paths(run, &fabric, &mut warnings);
    let messages = run
        .transport
        .is_message()
        .then(|| {
            // The timeout of a message is at least 40/3 round-trip times, the ratio in the NanoTransport paper: a timeout
            // of 7 us at a round-trip time of 525 ns.
            let least = Time::from_ps(base_rtt.as_ps() * 40 / 3);
            message::plan(run, &flow, &frames, congested_rtt.max(least))
        })
        .transpose()?;
    if let Some(plan) = &messages {
        message::check_sizes(plan, rnic_workload::largest(&run.traffic))?;
    }
    let software = run.transport.is_host().then(|| host::plan(run, &flow, &frames)).transpose()?;
    let cc = &run.transport.cc.declaration;
    let demands = congestion.demands(&run.transport.cc, &flow)?;
    if software.is_some() && demands.marking.is_some() && run.transport.settings.flag("nic_marks") != Ok(true) {
        return Err(SetupError::Impossible(format!(
            "cc \"{}\" responds to ECN marks, which host software above transport \"{}\" does not see; use one that responds to round-trip times or losses, or transport \"multipath\" with `nic_marks = true`",
            cc.name, run.transport.name
        )));
    }
    flow.cnp_interval = demands.cnp_interval;
    fabric.switch.ecn =
        marking(&run.fabric.switch.ecn, demands.marking, cc.name)?.map(|marking| switch::ecn(run, marking));
    switch::warn_of_late_marks(&fabric.switch, most_ports as u64, &mut warnings);
    if transport.declaration.warns_of_small_cap {
        warn_of_small_cap(&flow, &frames, longest, &mut warnings);
    }
    let fastest = network.host_rate.iter().max();
    let max_rate = flow.max_rate.or(software.as_ref().and_then(HostPlan::max_rate));
    if let Some((rate, fastest)) = max_rate.zip(fastest).filter(|(rate, fastest)| rate > *fastest) {
        warnings.push(format!("max_rate = \"{rate}\" changes nothing: no host's link is faster than {fastest}"));
    }
    if let Some(slowest) = network.host_rate.iter().min().filter(|rate| **rate < flow.line_rate)
        && cc.name != "none"
    {
        warnings.push(format!(
            "hosts have links of {slowest} to {}; cc \"{}\" takes the fastest as line rate for every flow",
            flow.line_rate, cc.name
        ));
    }
    let host_config = HostConfig {
        frame_gap: frames.gap,
        burst: transport.settings.count("nic_burst").unwrap_or(default_burst(cc.name == "none", run.fabric.mtu)) as u32,
        ack_bytes: frames.ack,
        nack_bytes: frames.nack,
        cnp_bytes: frames.cnp,
        control_priority: switch::control_priority(run, &fabric.switch),
        // A run with a `duration` completes at this time, so `max_time` cannot fail it.
        max_time: run.limits.max_time.filter(|_| run.limits.duration.is_none()).unwrap_or(Time::MAX),
        stall_time: run.limits.stall_time,
        duration: run.limits.duration,
        seed: run.seed,
        processing,
    };
    let watch = run.watch.as_ref().map(|watch| WatchPlan::new(watch, &topology)).transpose();
    let watch = watch.map_err(|reason| SetupError::Impossible(format!("[watch]: {reason}")))?;
    let mut parameters = parameters(
        run,
        &fabric,
        &flow,
        &host_config,
        (messages.as_ref(), software.as_ref(), &demands),
        longest,
        &topology,
    );
    if let Some(duration) = host_config.duration {
        parameters.push(("duration".to_string(), duration.to_string()));
    }
    let watch_pauses = run.watch.as_ref().filter(|watch| watch.pauses).map(|watch| (watch.start, watch.interval));
    let storms = match has_pfc {
        true => crate::storm::steps(&faults.storms, fabric.switch.priorities),
        false => Vec::new(),
    };
    Ok(Resolved {
        fabric,
        topology,
        transport: run.transport.clone(),
        flow,
        host_config,
        network,
        storms,
        faults,
        watch,
        watch_pauses,
        lossless,
        longest,
        parameters,
        warnings,
        messages,
        software,
        stacks: Vec::new(),
    })
}

/// The ECN thresholds of a run's switches: those of the scenario (`ecn`), else the defaults of the congestion control
/// named `cc` (`demanded`); `None` if switches mark no packets. If the scenario states both thresholds, switches mark
/// packets even if the congestion control ignores marks.
fn marking(ecn: &EcnSetup, demanded: Option<Marking>, cc: &str) -> Result<Option<Marking>, SetupError> {
    if ecn.off || (demanded.is_none() && *ecn == EcnSetup::default()) {
        return Ok(None);
    }
    let default = match (demanded, ecn.kmin, ecn.kmax) {
        (Some(default), ..) => default,
        (None, Some(kmin), Some(kmax)) => Marking { kmin, kmax, pmax: 1.0 },
        (None, ..) => {
            let given = [("kmin", ecn.kmin.is_some()), ("kmax", ecn.kmax.is_some()), ("pmax", ecn.pmax.is_some())];
            let given = given.iter().find(|(_, given)| *given).map_or("mark_on", |(name, _)| name);
            return Err(SetupError::Impossible(format!(
                "`{given}` in [fabric.switch.ecn] needs both `kmin` and `kmax`, because cc \"{cc}\" has no thresholds of its own"
            )));
        }
    };
    let (kmin, kmax) = match (ecn.kmin, ecn.kmax) {
        (None, None) => (default.kmin, default.kmax),
        (Some(kmin), None) => (kmin, default.kmax.max(kmin)),
        (None, Some(kmax)) => (default.kmin.min(kmax), kmax),
        (Some(kmin), Some(kmax)) => (kmin, kmax),
    };
    if kmin > kmax {
        return Err(SetupError::Impossible(format!("kmin = \"{kmin}\" is above kmax = \"{kmax}\"")));
    }
    Ok(Some(Marking { kmin, kmax, pmax: ecn.pmax.unwrap_or(default.pmax) }))
}

/// Frame lengths of the run's packets, in bytes.
struct Frames {
    header: u32,
    /// Frame length of a data packet with full payload (MTU).
    data: u32,
    ack: u32,
    nack: u32,
    cnp: u32,
    /// Length of the longest frame of the run, whatever its kind of packet.
    longest: u32,
    gap: u32,
}

impl Frames {
    fn new(run: &RunSpec, fabric: &FabricSpec) -> Result<Frames, SetupError> {
        let header = run.transport.header_bytes();
        let frame = |what: &str, bytes: u64| match u16::try_from(bytes.max(u64::from(MIN_FRAME))) {
            Ok(bytes) => Ok(u32::from(bytes)),
            Err(_) => Err(SetupError::Impossible(format!(
                "{what} of {bytes} bytes is too long; a frame has at most {} bytes",
                u16::MAX
            ))),
        };
        let data = frame("a full data packet", run.fabric.mtu.0.saturating_add(header))?;
        let ack = frame("an ACK", run.transport.ack_bytes())?;
        let nack = frame("a NACK", run.transport.nack_bytes())?;
        let cnp = frame("a CNP", run.transport.cnp_bytes())?;
        let longest = data.max(ack).max(nack).max(cnp);
        Ok(Frames { header: header as u32, data, ack, nack, cnp, longest, gap: fabric.frame_gap })
    }
}

/// Round-trip time of one full packet and its ACK over the longest path of an empty fabric.
fn base_rtt(longest: PathFacts, frames: &Frames) -> Time {
    let both = longest.rate.time_for(u64::from(frames.data + frames.gap))
        + longest.rate.time_for(u64::from(frames.ack + frames.gap));
    longest.delay * 2 + both * u64::from(longest.hops)
}

/// Warns of transport features that assume one path per flow, if the packets of a flow take different paths.
fn warn_of_many_paths(run: &RunSpec, fabric: &FabricSpec, warnings: &mut Vec<String>) {
    if fabric.paths.is_per_flow() {
        return;
    }
    let paths = fabric.paths.name();
    if run.watch.as_ref().is_some_and(|watch| watch.pauses) {
        warnings.push(format!("`paths` = \"{paths}\": victims of pauses are judged by one of each flow's paths"));
    }
    if run.transport.cc.declaration.telemetry {
        let name = run.transport.cc.name();
        warnings.push(format!("`paths` = \"{paths}\": cc \"{name}\" takes what it hears of several links for one"));
    }
}

/// The round-trip time over the fabric's longest path with one congested link: propagation in both directions, plus the
/// time to send all bytes that a switch of `most_ports` ports can hold for one output.
fn congested_round_trip(fabric: &FabricSpec, most_ports: usize, longest: PathFacts) -> Time {
    longest.delay * 2 + longest.rate.time_for(switch::most_ahead(&fabric.switch, most_ports as u64))
}

/// Description of a pause storm for the list of a run's settings in its results.
fn storm_text(storm: &Storm, topology: &Topology) -> String {
    let what = storm.priority.map_or("its switch".to_string(), |priority| format!("priority {priority} of its switch"));
    let until = storm.duration.map_or("for ever".to_string(), |duration| format!("for {duration}"));
    format!("{} pauses {what} from {} on {until}", topology.names[storm.host as usize], storm.start)
}

/// Warns if PFC pauses can deadlock. A deadlock needs a graph topology or changed routes (`[[fabric.route]]`). In every
/// other topology the default routes go up the tiers of switches and then down, so no deadlock is possible.
fn warn_of_cycle(
    run: &RunSpec, fabric: &FabricSpec, topology: &Topology, warnings: &mut Vec<String>,
) -> Result<(), SetupError> {
    let regular = !matches!(fabric.topology, TopologySpec::Graph { .. }) && fabric.routes.is_empty();
    if !fabric.switch.buffer.has_pfc() || regular {
        return Ok(());
    }
    let routes = Routes::with(topology, &fabric.routes, run.seed)?;
    if let Some(cycle) = buffer_cycle(topology, &routes) {
        let ports: Vec<String> = cycle.iter().take(8).map(|port| topology.port_name(*port)).collect();
        let more =
            if cycle.len() > ports.len() { format!(" and {} more", cycle.len() - ports.len()) } else { String::new() };
        warnings.push(format!(
            "the routes allow a deadlock under PFC: {}{more} can wait for each other in a circle",
            ports.join(", ")
        ));
    }
    Ok(())
}

/// Warns of pause storms that have no effect, because the run has no PFC or does not use the paused priority.
fn warn_of_storms(run: &RunSpec, priorities: u8, warnings: &mut Vec<String>) {
    if !run.fabric.storms.is_empty() && !run.transport.pfc {
        warnings.push("the storm changes nothing: without PFC switches ignore pause frames".to_string());
        return;
    }
    for priority in run.fabric.storms.iter().filter_map(|storm| storm.priority) {
        if priority >= priorities {
            warnings.push(format!(
                "the storm in priority {priority} changes nothing: the run uses priorities 0 to {}",
                priorities - 1
            ));
        }
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

/// Warns if the limit of packets in flight (`bdp_cap`) keeps a flow without competitors below 90 % of line rate.
fn warn_of_small_cap(flow: &FlowConfig, frames: &Frames, longest: PathFacts, warnings: &mut Vec<String>) {
    let needed =
        flow.base_rtt.as_ps().div_ceil(longest.rate.time_for(u64::from(frames.data + frames.gap)).as_ps().max(1));
    if u64::from(flow.bdp_cap) * 10 < needed * 9 {
        warnings.push(format!(
            "bdp_cap = {} holds a lone flow on the longest path to {:.0} % of line rate; {needed} packets would fill it",
            flow.bdp_cap,
            f64::from(flow.bdp_cap) / needed as f64 * 100.0
        ));
    }
}

fn parameters(
    run: &RunSpec, fabric: &FabricSpec, flow: &FlowConfig, host_config: &HostConfig,
    (messages, software, demands): (Option<&MessagePlan>, Option<&HostPlan>, &Demands), longest: PathFacts,
    topology: &Topology,
) -> Vec<(String, String)> {
    let mut list: Vec<(String, String)> = Vec::new();
    let mut put = |key: &str, value: String| list.push((key.to_string(), value));
    put("hosts", topology.hosts.to_string());
    put("switches", (topology.nodes() - topology.hosts).to_string());
    put("longest path", format!("{} links, {} one way, {}", longest.hops, longest.delay, longest.rate));
    for route in &fabric.routes {
        put("route", format!("at {} to {} via {}", route.at, route.to.join(", "), route.via));
    }
    for storm in &run.fabric.storms {
        put("storm", storm_text(storm, topology));
    }
    faults::put(run, topology, &mut put);
    put("base_rtt", flow.base_rtt.to_string());
    put("mtu", Bytes(u64::from(flow.mtu)).to_string());
    put("header", Bytes(u64::from(flow.header)).to_string());
    put("frame_gap", Bytes(u64::from(fabric.frame_gap)).to_string());
    if fabric.clocks.skew_ppm > 0 {
        put("clock_skew", format!("up to {} ppm", fabric.clocks.skew_ppm));
    }
    if fabric.clocks.jitter > Time::ZERO {
        put("clock_jitter", format!("up to {}", fabric.clocks.jitter));
    }
    if !fabric.paths.is_per_flow() {
        put("paths", fabric.paths.name().to_string());
    }
    switch::put_switch(&fabric.switch, &mut put);
    if let Some(plan) = messages {
        put("ack_size", Bytes(u64::from(host_config.ack_bytes)).to_string());
        message::put(run, plan, &mut put);
        return list;
    }
    if let Some(plan) = software {
        put("ack_size", Bytes(u64::from(host_config.ack_bytes)).to_string());
        host::put(run, plan, &mut put);
        put_congestion(&run.transport.cc, demands, &mut put);
        return list;
    }
    let transport = &run.transport;
    let (before, after) = transport.declaration.describe_flows(&transport.settings, flow);
    for (key, value) in before {
        put(key, value);
        if key == "recovery" {
            put("nack_size", Bytes(u64::from(host_config.nack_bytes)).to_string());
        }
    }
    put_congestion(&transport.cc, demands, &mut put);
    switch::put_ecn(&fabric.switch, &mut put);
    put("nic_burst", format!("{} packets", host_config.burst));
    if let Some(ProcessingConfig::Pipeline(PipelineConfig { cycle, latency })) = host_config.processing {
        put("nic_pipeline", format!("rtl:irn, an operation in {cycle}, done after {latency}"));
    }
    let acks = match (flow.acks, flow.tcp.delayed_acks.is_some()) {
        (false, _) => "none (all Reads)".to_string(),
        (true, false) => "every packet".to_string(),
        (true, true) => "every second packet".to_string(),
    };
    put("acks", acks);
    put("ack_size", Bytes(u64::from(host_config.ack_bytes)).to_string());
    for (key, value) in after {
        put(key, value);
    }
    list
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
