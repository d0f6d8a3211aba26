//! From a run's settings to the numbers that the fabric and the transport work with.
//!
//! What a scenario leaves open follows from its fabric as the IRN paper does it (section 4.1): the BDP cap from the longest path, buffers
//! of twice the BDP, `RTO_high` from one congested link.

pub(crate) mod message;
mod switch;

use crate::catalogue::{Catalogue, CongestionEntry};
use crate::host::HostConfig;
use crate::storm::StormStep;
use crate::watch::WatchPlan;
use message::MessagePlan;
use rnic_fabric::config::{FabricSpec, SwitchSpec, TopologySpec};
use rnic_fabric::{
    MIN_FRAME, PathFacts, Routes, Topology, TopologyError, buffer_cycle, longest_path, lossless_headroom,
};
use rnic_run::{EcnSetup, Recovery, RunSpec, Storm, TransportSpec};
use rnic_transport::congestion::{Marking, Settings};
use rnic_transport::headers::{CNP, IRN_NACK, IWARP_ACK, IWARP_SACK, MESSAGE_HEADER, ROCE_ACK, ROCE_DATA};
use rnic_transport::{Bytes, FlowConfig, Psn, TcpConfig, Time, Timeouts};
use rnic_workload::Network;
use std::sync::Arc;

/// InfiniBand's usual local ACK timeout, 4.096 us x 2^14: what guards a fabric that is meant to be lossless but may not be.
const SAFETY_TIMEOUT: Time = Time::from_ps(4_096_000 << 14);

/// Why a run cannot be set up.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SetupError {
    /// Its fabric cannot be built.
    #[error(transparent)]
    Fabric(#[from] TopologyError),
    /// Its traffic cannot be generated on this fabric, or its settings contradict each other.
    #[error("{0}")]
    Impossible(String),
}

/// The loss recovery that a run's flows are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stack {
    /// Go-back-N: RoCE, and a variant of IRN.
    GoBackN,
    /// IRN's selective retransmission, with or without SACK.
    Irn,
    /// TCP, under iWARP.
    Tcp,
}

/// Everything that a run needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    /// The fabric.
    pub fabric: FabricSpec,
    /// Its nodes and cables.
    pub topology: Arc<Topology>,
    /// The loss recovery; without meaning for a transport of messages.
    pub stack: Stack,
    /// The congestion control.
    pub(crate) congestion: CongestionEntry,
    /// Parameters of the congestion control.
    pub settings: Settings,
    /// Settings of every flow.
    pub flow: FlowConfig,
    /// Settings of every NIC.
    pub hosting: HostConfig,
    /// What the workload must know.
    pub network: Network,
    /// What NICs pause and when; nothing without PFC.
    pub storms: Vec<StormStep>,
    /// When pauses are looked at: the first time, and how far apart.
    pub watch_pauses: Option<(Time, Time)>,
    /// Whether nothing can be dropped: PFC with enough headroom, and no random loss.
    pub lossless: bool,
    /// The longest path.
    pub longest: PathFacts,
    /// What is looked at while the run goes on.
    pub watch: Option<WatchPlan>,
    /// The settings as (key, value with unit).
    pub parameters: Vec<(String, String)>,
    /// What a reader should know.
    pub warnings: Vec<String>,
    /// Of a run whose transport is one of messages.
    pub(crate) messages: Option<MessagePlan>,
}

/// Works out everything that the run leaves open; its congestion control is one of the catalogue.
///
/// # Errors
/// What is impossible in the run.
pub fn resolve(catalogue: &Catalogue, run: &RunSpec) -> Result<Resolved, SetupError> {
    resolve_beside(catalogue, run, None)
}

/// As [`resolve`], for several runs; those after each other with the same nodes and cables share them in memory.
///
/// # Errors
/// The first run that cannot be set up, by its name.
pub fn resolve_all<'r>(
    catalogue: &Catalogue, runs: impl IntoIterator<Item = &'r RunSpec>,
) -> Result<Vec<Resolved>, (String, SetupError)> {
    let mut all: Vec<Resolved> = Vec::new();
    for run in runs {
        let resolved = resolve_beside(catalogue, run, all.last()).map_err(|error| (run.name.clone(), error))?;
        all.push(resolved);
    }
    Ok(all)
}

/// The nodes and cables of `fabric`: those of `other` if they are the same.
fn topology(fabric: &FabricSpec, other: Option<&Resolved>) -> Result<Arc<Topology>, TopologyError> {
    let same = |spec: &FabricSpec| {
        (&spec.topology, &spec.link, &spec.links) == (&fabric.topology, &fabric.link, &fabric.links)
    };
    match other.filter(|other| same(&other.fabric)) {
        Some(other) => Ok(other.topology.clone()),
        None => Topology::build(fabric).map(Arc::new),
    }
}

fn resolve_beside(catalogue: &Catalogue, run: &RunSpec, other: Option<&Resolved>) -> Result<Resolved, SetupError> {
    let mut fabric = FabricSpec {
        topology: run.fabric.topology.clone(),
        link: run.fabric.link,
        links: run.fabric.links.clone(),
        routes: run.fabric.routes.clone(),
        switch: SwitchSpec { priorities: switch::priorities(run)?, ..SwitchSpec::input_queued(Bytes(0)) },
        paths: run.fabric.paths.unwrap_or_else(|| message::paths(&run.transport)),
        frame_gap: run.fabric.frame_gap.0 as u32,
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
    let needed = lossless_headroom(&topology, frames.longest, frames.gap);
    let most_ports = (topology.hosts..topology.nodes()).map(|n| topology.ports_of(n).len()).max().unwrap_or(1);
    fabric.switch = switch::switch(run, &fabric, needed, longest, &frames, most_ports as u64)?;

    let mut warnings = Vec::new();
    let random_loss = topology.ports.iter().any(|port| port.link.loss > 0.0);
    let lossless = fabric.switch.buffer.pfc_headroom().is_some_and(|headroom| headroom >= needed) && !random_loss;
    let timeouts = timeouts(run, &fabric, &topology, longest, lossless, random_loss);
    switch::warn_of_headroom(&fabric.switch, needed, timeouts, &mut warnings);
    warn_of_cycle(run, &fabric, &topology, &mut warnings)?;
    warn_of_storms(run, fabric.switch.priorities, &mut warnings);
    switch::warn_of_trimming(run, &fabric.switch, &mut warnings);
    switch::warn_of_scheduler(&fabric.switch, &mut warnings);
    warn_of_many_paths(run, &fabric, &mut warnings);
    let base_rtt = base_rtt(longest, &frames);
    let bdp = longest.rate.bytes_in(longest.delay * 2);
    let derived_cap = bdp.div_ceil(u64::from(run.fabric.mtu.0 as u32 + ROCE_DATA)).max(1);
    let bdp_packets = derived_cap.min(u64::from(Psn::MAX_WINDOW)) as u32;
    let stack = match (run.transport.transport.as_str(), run.transport.recovery) {
        ("iwarp", _) => Stack::Tcp,
        ("roce", _) | (_, Recovery::GoBackN) => Stack::GoBackN,
        _ => Stack::Irn,
    };
    let mut flow = FlowConfig {
        mtu: run.fabric.mtu.0 as u32,
        header: frames.header,
        line_rate: network.host_rate.iter().copied().max().unwrap_or_default(),
        base_rtt,
        bdp: bdp_packets,
        bdp_cap: bdp_cap(&run.transport, bdp_packets),
        sack: run.transport.recovery != Recovery::NoSack,
        timeouts,
        acks: run.transport.acknowledged(),
        nacks: run.transport.nacks,
        cnp_interval: None,
        max_rate: run.transport.max_rate,
        first_psn: Psn::new(0),
        tcp: tcp(&run.transport)?,
    };
    let messages = run.transport.is_message().then(|| {
        // At least as many round trips as in the NanoTransport paper: 7 us of 525 ns.
        let least = Time::from_ps(base_rtt.as_ps() * 40 / 3);
        let follows = || congested_round_trip(&fabric, most_ports, longest).max(least);
        let timeout = run.transport.rto_high.unwrap_or_else(follows);
        message::plan(run, &flow, &frames, timeout)
    });
    if let Some(plan) = &messages {
        message::check_sizes(plan, rnic_workload::largest(&run.traffic))?;
    }
    let cc = &run.transport.cc;
    let congestion = *catalogue.congestion_control(cc.name).ok_or_else(|| unknown_cc(catalogue, cc.name))?;
    let demands = (congestion.demands)(&run.transport.cc_settings, &flow)
        .map_err(|reason| SetupError::Impossible(format!("cc \"{}\": {reason}", cc.name)))?;
    flow.cnp_interval = demands.cnp_interval;
    fabric.switch.ecn = marking(&run.fabric.switch.ecn, demands.marking)?.map(|marking| switch::ecn(run, marking));
    switch::warn_of_late_marks(&fabric.switch, most_ports as u64, &mut warnings);
    if run.transport.transport == "irn" {
        warn_of_small_cap(&flow, &frames, longest, &mut warnings);
    }
    let fastest = network.host_rate.iter().max();
    if let Some((rate, fastest)) = run.transport.max_rate.zip(fastest).filter(|(rate, fastest)| rate > *fastest) {
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
    let hosting = HostConfig {
        frame_gap: frames.gap,
        burst: run.transport.nic_burst.unwrap_or(1),
        ack_bytes: frames.ack,
        nack_bytes: frames.nack,
        cnp_bytes: frames.cnp,
        control_priority: switch::control_priority(run, &fabric.switch),
        // A duration is at most that, and ends the run well.
        max_time: run.limits.max_time.filter(|_| run.limits.duration.is_none()).unwrap_or(Time::MAX),
        stall_time: run.limits.stall_time,
        duration: run.limits.duration,
        seed: run.seed,
    };
    let watch = run.watch.as_ref().map(|watch| WatchPlan::new(watch, &topology)).transpose();
    let watch = watch.map_err(|reason| SetupError::Impossible(format!("[watch]: {reason}")))?;
    let mut parameters = parameters(run, &fabric, &flow, &hosting, messages.as_ref(), longest, &topology);
    if let Some(duration) = hosting.duration {
        parameters.push(("duration".to_string(), duration.to_string()));
    }
    let settings = run.transport.cc_settings.clone();
    let watch_pauses = run.watch.as_ref().filter(|watch| watch.pauses).map(|watch| (watch.start, watch.interval));
    let storms = match fabric.switch.buffer.has_pfc() {
        true => crate::storm::steps(&run.fabric.storms, fabric.switch.priorities),
        false => Vec::new(),
    };
    Ok(Resolved {
        fabric,
        topology,
        stack,
        congestion,
        settings,
        flow,
        hosting,
        network,
        storms,
        watch,
        watch_pauses,
        lossless,
        longest,
        parameters,
        warnings,
        messages,
    })
}

/// A run names a congestion control that this program does not have.
fn unknown_cc(catalogue: &Catalogue, name: &str) -> SetupError {
    let known: Vec<&str> = catalogue.congestion_controls().iter().map(|entry| entry.declaration.name).collect();
    SetupError::Impossible(format!("there is no cc \"{name}\"; there are: {}", known.join(", ")))
}

/// What a scenario says of TCP, over the model's defaults.
fn tcp(transport: &TransportSpec) -> Result<TcpConfig, SetupError> {
    let default = TcpConfig::default();
    // What is given moves the defaults that would contradict it.
    let (shortest, longest) = (transport.rto_min.or(transport.rto_initial), transport.rto_max);
    let rto_initial = transport
        .rto_initial
        .unwrap_or(default.rto_initial.max(transport.rto_min.unwrap_or_default()).min(longest.unwrap_or(Time::MAX)));
    let rto_min = transport.rto_min.unwrap_or(default.rto_min.min(rto_initial));
    let rto_max = longest.unwrap_or(default.rto_max.max(shortest.unwrap_or_default()));
    if rto_min > rto_initial || rto_initial > rto_max {
        return Err(SetupError::Impossible(format!(
            "rto_min = \"{rto_min}\", rto_initial = \"{rto_initial}\", rto_max = \"{rto_max}\": each can be at most the next"
        )));
    }
    Ok(TcpConfig {
        sack: transport.recovery != Recovery::NewReno,
        delayed_acks: transport.delayed_acks.then(|| transport.delayed_ack_timeout.unwrap_or(TcpConfig::DELAYED_ACK)),
        initial_window: transport.initial_window,
        receive_window: transport.receive_window.map_or(default.receive_window, |bytes| bytes.0 as u32),
        rto_min,
        rto_initial,
        rto_max,
        handshake: transport.handshake,
        ..default
    })
}

/// The most packets in flight.
fn bdp_cap(transport: &TransportSpec, bdp: u32) -> u32 {
    if transport.capped() { transport.bdp_cap.unwrap_or(bdp) } else { Psn::MAX_WINDOW }
}

/// Marking thresholds: what the scenario says over what the congestion control asks for.
fn marking(ecn: &EcnSetup, demanded: Option<Marking>) -> Result<Option<Marking>, SetupError> {
    let Some(default) = demanded.filter(|_| !ecn.off) else {
        return Ok(None);
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

/// Frame lengths.
struct Frames {
    header: u32,
    /// A full data packet.
    data: u32,
    ack: u32,
    nack: u32,
    cnp: u32,
    /// The longest of all.
    longest: u32,
    gap: u32,
}

impl Frames {
    fn new(run: &RunSpec, fabric: &FabricSpec) -> Result<Frames, SetupError> {
        let (ack, nack) = match run.transport.transport.as_str() {
            "irn" => (ROCE_ACK, IRN_NACK),
            "iwarp" => (IWARP_ACK, IWARP_SACK),
            "roce" => (ROCE_ACK, ROCE_ACK),
            _ => (MESSAGE_HEADER, MESSAGE_HEADER),
        };
        let (ack, nack) = (ack + run.transport.telemetry(), nack + run.transport.telemetry());
        let size = |given: Option<Bytes>, default: u32| given.unwrap_or(Bytes(u64::from(default))).0;
        let header = run.transport.header_bytes().0;
        let frame = |what: &str, bytes: u64| match u16::try_from(bytes.max(u64::from(MIN_FRAME))) {
            Ok(bytes) => Ok(u32::from(bytes)),
            Err(_) => Err(SetupError::Impossible(format!(
                "{what} of {bytes} bytes is too long; a frame has at most {} bytes",
                u16::MAX
            ))),
        };
        let data = frame("a full data packet", run.fabric.mtu.0.saturating_add(header))?;
        let ack = frame("an ACK", size(run.transport.ack_size, ack))?;
        let nack = frame("a NACK", size(run.transport.nack_size, nack))?;
        let cnp = frame("a CNP", size(run.transport.cnp_size, CNP))?;
        let longest = data.max(ack).max(nack).max(cnp);
        Ok(Frames { header: header as u32, data, ack, nack, cnp, longest, gap: fabric.frame_gap })
    }
}

/// Round trip of one full packet and its ACK over the longest path of an empty fabric.
fn base_rtt(longest: PathFacts, frames: &Frames) -> Time {
    let both = longest.rate.time_for(u64::from(frames.data + frames.gap))
        + longest.rate.time_for(u64::from(frames.ack + frames.gap));
    longest.delay * 2 + both * u64::from(longest.hops)
}

/// Warns where something is worked out from a flow's path, but each packet has its own.
fn warn_of_many_paths(run: &RunSpec, fabric: &FabricSpec, warnings: &mut Vec<String>) {
    if fabric.paths.is_per_flow() {
        return;
    }
    let paths = fabric.paths.name();
    if run.watch.as_ref().is_some_and(|watch| watch.pauses) {
        warnings.push(format!("`paths` = \"{paths}\": victims of pauses are judged by one of each flow's paths"));
    }
    if run.transport.cc.telemetry {
        let name = run.transport.cc.name;
        warnings.push(format!("`paths` = \"{paths}\": cc \"{name}\" takes what it hears of several links for one"));
    }
}

/// The run's timeouts. A lossless fabric has none; one that is meant to be lossless, but lacks headroom, only a long one.
fn timeouts(
    run: &RunSpec, fabric: &FabricSpec, topology: &Topology, longest: PathFacts, lossless: bool, random_loss: bool,
) -> Option<Timeouts> {
    let transport = &run.transport;
    let meant_lossless = fabric.switch.buffer.has_pfc() && !random_loss;
    let low_packets = transport.rto_low_packets.unwrap_or(3);
    match transport.timeouts {
        Some(false) => return None,
        None if lossless => return None,
        None if meant_lossless => {
            return Some(Timeouts { high: SAFETY_TIMEOUT, low: SAFETY_TIMEOUT, low_packets, dynamic: None });
        }
        _ => {}
    }
    let most_ports = (topology.hosts..topology.nodes()).map(|n| topology.ports_of(n).len()).max().unwrap_or(1);
    let high = transport.rto_high.unwrap_or_else(|| congested_round_trip(fabric, most_ports, longest));
    let low = transport.rto_low.unwrap_or(Time::from_us(100)).min(high);
    // RoCE has one timeout, whatever is in flight.
    let low = if transport.transport == "irn" { low } else { high };
    let dynamic = transport.dynamic_rto.then(|| transport.rto_min.unwrap_or(Time::from_us(100)));
    Some(Timeouts { high, low, low_packets, dynamic })
}

/// The round-trip propagation of the longest path, and all that a switch of so many ports can hold for one link.
fn congested_round_trip(fabric: &FabricSpec, most_ports: usize, longest: PathFacts) -> Time {
    longest.delay * 2 + longest.rate.time_for(switch::most_ahead(&fabric.switch, most_ports as u64))
}

/// A storm in words.
fn storm_text(storm: &Storm, topology: &Topology) -> String {
    let what = storm.priority.map_or("its switch".to_string(), |priority| format!("priority {priority} of its switch"));
    let until = storm.duration.map_or("for ever".to_string(), |duration| format!("for {duration}"));
    format!("{} pauses {what} from {} on {until}", topology.names[storm.host as usize], storm.start)
}

/// Warns when pauses can end in a deadlock. Regular topologies with their own routes lead up and then down, where they cannot.
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

/// Warns of storms that stop nothing.
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

/// Warns when the cap alone keeps a lone flow clearly below line rate.
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
    run: &RunSpec, fabric: &FabricSpec, flow: &FlowConfig, hosting: &HostConfig, messages: Option<&MessagePlan>,
    longest: PathFacts, topology: &Topology,
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
    put("base_rtt", flow.base_rtt.to_string());
    put("mtu", Bytes(u64::from(flow.mtu)).to_string());
    put("header", Bytes(u64::from(flow.header)).to_string());
    put("frame_gap", Bytes(u64::from(fabric.frame_gap)).to_string());
    if !fabric.paths.is_per_flow() {
        put("paths", fabric.paths.name().to_string());
    }
    switch::put_switch(&fabric.switch, &mut put);
    if let Some(plan) = messages {
        put("ack_size", Bytes(u64::from(hosting.ack_bytes)).to_string());
        message::put(plan, &mut put);
        return list;
    }
    if run.transport.transport != "roce" {
        let recovery = match run.transport.recovery {
            Recovery::Selective => "selective",
            Recovery::NoSack => "no-sack",
            Recovery::GoBackN => "go-back-n",
            Recovery::Sack => "sack",
            Recovery::NewReno => "newreno",
        };
        put("recovery", recovery.to_string());
        put("nack_size", Bytes(u64::from(hosting.nack_bytes)).to_string());
    }
    if run.transport.transport == "iwarp" {
        let tcp = flow.tcp;
        put("initial_window", format!("{} packets", tcp.initial_window_bytes(flow.mtu) / flow.mtu));
        put("receive_window", Bytes(u64::from(tcp.receive_window)).to_string());
        put("rto", format!("from {}, {} to {}", tcp.rto_initial, tcp.rto_min, tcp.rto_max));
        put("connection setup", if tcp.handshake { "part of the flow" } else { "not simulated" }.to_string());
    } else {
        match flow.bdp_cap {
            Psn::MAX_WINDOW => put("bdp_fc", "off".to_string()),
            cap => put("bdp_cap", format!("{cap} packets")),
        }
    }
    for parameter in run.transport.cc.parameters {
        let value = run.transport.cc_settings.value(parameter.name);
        put(
            &format!("{}.{}", run.transport.cc.name, parameter.name),
            value.map_or("derived from the fabric".to_string(), |value| value.to_string()),
        );
    }
    switch::put_ecn(&fabric.switch, &mut put);
    put("nic_burst", format!("{} packets", hosting.burst));
    let acks = match (flow.acks, run.transport.delayed_acks) {
        (false, _) => "none (all Reads)".to_string(),
        (true, false) => "every packet".to_string(),
        (true, true) => "every second packet".to_string(),
    };
    put("acks", acks);
    put("ack_size", Bytes(u64::from(hosting.ack_bytes)).to_string());
    match flow.timeouts {
        _ if run.transport.transport == "iwarp" => {}
        None => put("timeouts", "off".to_string()),
        Some(Timeouts { high, dynamic: Some(least), .. }) => {
            put("rto", format!("dynamic, from {high}, at least {least}"));
        }
        Some(t) if run.transport.transport == "irn" => {
            put("rto_high", t.high.to_string());
            put("rto_low", t.low.to_string());
            put("rto_low_packets", t.low_packets.to_string());
        }
        Some(t) => put("rto_high", t.high.to_string()),
    }
    list
}
