//! Resolves a run before its simulation: computes the complete configuration of the fabric, the transport and the NICs
//! from the run's settings.
//!
//! Settings that a scenario leaves out are derived from its fabric as in the IRN paper (section 4.1): the BDP cap
//! (limit of packets in flight) follows from the longest path, and buffers hold twice the BDP. The timeout `RTO_high`
//! follows from the round-trip time with one congested link.

mod ecn;
mod error;
mod excess;
mod faults;
mod fluid;
mod forward;
pub(crate) mod host;
mod links;
mod mesh;
pub(crate) mod message;
mod overload;
pub(crate) mod stacks;
mod switch;
mod transport;

pub use crate::link_faults::LinkFaultError;
pub use error::{CongestionError, EcnError, FaultError, SetupError, SwitchError, TransportError};
pub(crate) use stacks::StackPlan;

use crate::host::HostConfig;
use crate::storm::StormStep;
use crate::watch::WatchPlan;
use host::HostPlan;
use links::Links;
use message::MessagePlan;
use rnic_fabric::config::FabricSpec;
use rnic_fabric::{Routes, Topology};
use rnic_spec::{CongestionSpec, RunSpec, TransportSpec};
use rnic_transport::congestion::Marking;
use rnic_transport::settings::Value;
use rnic_transport::{FlowConfig, GoBack, Time};
use rnic_workload::Network;
use std::sync::Arc;
use transport::Hosts;

/// What a congestion control requires of the switches and of the receiving NICs of a run, and the values of its
/// parameters that it derived from the fabric.
#[derive(Clone, PartialEq, Debug)]
pub struct Demands {
    /// Default thresholds of ECN marking; `None` if the congestion control does not need marks.
    pub marking: Option<Marking>,
    /// Minimum time between two congestion notifications (CNPs) of a flow; `None` if receivers send no CNPs.
    pub cnp_interval: Option<Time>,
    /// Minimum time between two CNPs of a NIC, over all its flows; zero for no limit.
    pub nic_cnp_interval: Time,
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
    fn demands(&self, cc: &CongestionSpec, flow: &FlowConfig) -> Result<Demands, CongestionError>;
}

/// A run's complete configuration, derived settings included.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    /// Configuration of the fabric, including the settings of its switches that are derived from other settings.
    pub fabric: FabricSpec,
    /// Nodes and links of the fabric.
    pub topology: Arc<Topology>,
    /// The routes at the start of the run.
    pub routes: Arc<Routes>,
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
    pub(crate) faults: faults::ResolvedFaults,
    /// The meshes of probes of the run.
    pub(crate) meshes: mesh::ResolvedMeshes,
    /// Time of the first sample of PFC pauses, and interval between samples; `None` if pauses are not sampled.
    pub(crate) watch_pauses: Option<(Time, Time)>,
    /// Whether the run measures why messages are slower than on an empty fabric.
    pub(crate) splits_excess: bool,
    /// Whether the fabric cannot drop packets: it has PFC with enough headroom, and no random loss.
    pub lossless: bool,
    /// Queues and flows to sample during the run; `None` if the run samples neither queues nor flows.
    pub(crate) watch: Option<WatchPlan>,
    /// All settings of the run in effect, as (key, value with unit), for the result files.
    pub parameters: Vec<(String, String)>,
    /// Warnings for readers of the results, one sentence each.
    pub warnings: Vec<String>,
    /// Configuration of the message transport; `None` with another transport.
    pub(crate) messages: Option<MessagePlan>,
    /// Configuration of the transport in host software; `None` with another transport.
    pub(crate) software: Option<HostPlan>,
    /// Whether ranks of programs carry out operations, such as collective operations.
    pub(crate) programs: bool,
    /// The transports of a run with traffic in several priorities, the run's own first; empty in other runs.
    pub(crate) stacks: Vec<StackPlan>,
    /// The search of steady states to skip; `None` without `fast_forward`.
    pub(crate) fast_forward: Option<crate::fast_forward::ForwardPlan>,
}

/// Computes the complete configuration of the run `run`. `congestion` is usually a [`Catalogue`](crate::Catalogue); it
/// says what the run's congestion control requires of switches and NICs.
///
/// # Errors
/// The run cannot be set up, for the reason in the error.
pub fn resolve(congestion: &dyn CongestionNeeds, run: &RunSpec) -> Result<Resolved, SetupError> {
    resolve_next(congestion, run, None)
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
        let resolved = resolve_next(congestion, run, all.last()).map_err(|error| (run.name.clone(), error))?;
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
    // The load of links follows from the traffic and from what is compared.
    let Ok(mut full) = resolve_all_but_load(congestion, run, None) else {
        return;
    };
    let given: Vec<&str> = run.transport.settings.given().map(|(name, _)| name).collect();
    for name in given {
        let before = run.transport.settings.clone();
        run.transport.settings.unset(name);
        full.transport.settings.unset(name);
        let is_idle = declaration.recovery(&run.transport.settings) == Some(recovery)
            && resolve_all_but_load(congestion, run, Some(&full)).is_ok_and(|without| without == full);
        if !is_idle {
            run.transport.settings = before.clone();
            full.transport.settings = before;
        }
    }
}

/// Resolves a run. If the run `previous` has the same nodes and links, both share one topology in memory.
fn resolve_next(
    congestion: &dyn CongestionNeeds, run: &RunSpec, previous: Option<&Resolved>,
) -> Result<Resolved, SetupError> {
    let mut resolved = resolve_all_but_load(congestion, run, previous)?;
    overload::warn(run, &mut resolved);
    if !run.fidelity.is_packet() {
        fluid::check(run, &mut resolved)?;
    }
    if run.fast_forward > 0.0 {
        forward::add(run, &mut resolved)?;
    }
    if run.watch.as_ref().is_some_and(|watch| watch.excess) {
        excess::add(run, &mut resolved)?;
    }
    Ok(resolved)
}

/// As [`resolve_next`], without the warning of overloaded links.
fn resolve_all_but_load(
    congestion: &dyn CongestionNeeds, run: &RunSpec, previous: Option<&Resolved>,
) -> Result<Resolved, SetupError> {
    let resolved = resolve_own(congestion, run, previous)?;
    match run.priorities_of_traffic().len() == 1 && run.beside.is_empty() {
        true => Ok(resolved),
        false => stacks::add(congestion, run, resolved),
    }
}

/// Resolves a run with its own transport only, part by part. The warnings are in the order of the parts.
fn resolve_own(
    congestion: &dyn CongestionNeeds, run: &RunSpec, previous: Option<&Resolved>,
) -> Result<Resolved, SetupError> {
    if let Some(why) = run.transport.misfit() {
        return Err(TransportError::Misfit(why).into());
    }
    let mut warnings = Vec::new();
    let mut fabric = links::fabric(run, switch::priorities(run)?);
    let topology = links::topology(&fabric, previous)?;
    let routes = links::routes(run, &fabric, &topology, previous)?;
    let network = links::network(run, &fabric, &topology);
    check_traffic(run, &network)?;
    let links = Links::new(run, &fabric, &topology)?;

    fabric.switch = switch::switch(run, fabric.switch.priorities, &links)?;
    let has_pfc = fabric.switch.buffer.has_pfc();
    let faults = faults::resolve(run, (&topology, &routes), has_pfc, &links.frames, &mut warnings)?;
    let has_headroom = fabric.switch.buffer.pfc_headroom().is_some_and(|headroom| headroom >= links.headroom);
    let lossless = has_headroom && !links.random_loss && !faults.drop_packets();

    let facts = transport::facts(run, &fabric.switch, &links, &network, lossless);
    let mut flow = transport::flow(run, &facts)?;
    transport::check_credit(run, &network)?;
    check_streams(run, &flow)?;
    links::check_entropy(&fabric, &flow)?;
    switch::warn_of_headroom(&fabric.switch, links.headroom, flow.timeouts, &mut warnings);
    links::warn_of_cycle(&fabric, &topology, &routes, &mut warnings);
    faults::warn_of_storms(run, fabric.switch.priorities, &mut warnings);
    switch::warn_of_trimming(run, &fabric.switch, &mut warnings);
    switch::warn_of_scheduler(&fabric.switch, &mut warnings);
    links::warn_of_many_paths(run, &fabric, &mut warnings);
    let messages = transport::messages(run, &flow, &links, &facts)?;
    warnings.extend(messages.iter().filter_map(|plan| plan.p4.as_ref()).flat_map(|p4| p4.warnings()));
    let software = transport::software(run, &flow, &links)?;
    let demands = congestion.demands(&run.transport.cc, &flow)?;

    fabric.switch.ecn = ecn::ecn(run, &demands)?;
    flow.cnp_interval = demands.cnp_interval;
    flow.nic_cnp_interval = demands.nic_cnp_interval;
    ecn::warn_of_late_marks(&fabric.switch, links.ports, &mut warnings);
    transport::warn_of_rates(run, &flow, software.as_ref(), &links, &network, &mut warnings);

    let host_config = transport::host_config(run, &fabric.switch, &links);
    let sampled = run.watch.as_ref().filter(|watch| watch.samples());
    let watch = sampled.map(|watch| WatchPlan::new(watch, &topology)).transpose();
    let hosts = Hosts {
        flow: &flow,
        config: &host_config,
        messages: messages.as_ref(),
        software: software.as_ref(),
        demands: &demands,
    };
    let parameters = parameters(run, &fabric, &topology, &links, &hosts);
    let storms = match has_pfc {
        true => crate::storm::steps(&faults.storms, fabric.switch.priorities),
        false => Vec::new(),
    };
    Ok(Resolved {
        transport: run.transport.clone(),
        meshes: mesh::resolve(run, topology.hosts),
        watch: watch.map_err(SetupError::Watch)?,
        splits_excess: false,
        watch_pauses: run.watch.as_ref().filter(|watch| watch.pauses).map(|watch| (watch.start, watch.interval)),
        programs: has_programs(run),
        stacks: Vec::new(),
        fast_forward: None,
        fabric,
        topology,
        routes,
        flow,
        host_config,
        network,
        storms,
        faults,
        lossless,
        parameters,
        warnings,
        messages,
        software,
    })
}

/// Checks that the traffic of a run can be generated, and that the run ends.
fn check_traffic(run: &RunSpec, network: &Network) -> Result<(), SetupError> {
    rnic_workload::check(&run.traffic, network).map_err(SetupError::Traffic)?;
    match run.traffic.iter().find(|source| source.pattern.is_endless() && run.limits.duration.is_none()) {
        Some(source) => Err(SetupError::Endless(source.name.clone())),
        None => Ok(()),
    }
}

/// Whether ranks of programs carry out operations in the run.
fn has_programs(run: &RunSpec) -> bool {
    run.traffic.iter().any(|source| source.pattern.is_program())
}

/// Checks that queue pairs can carry several messages, if programs need that.
fn check_streams(run: &RunSpec, flow: &FlowConfig) -> Result<(), SetupError> {
    if flow.go_back == GoBack::First && has_programs(run) {
        let why = "programs of ranks send several messages on a queue pair, and go-back-0 would begin with the first of \
                   them again; accepted: another `go_back`";
        return Err(SetupError::Traffic(why.to_string()));
    }
    Ok(())
}

/// All settings of the run in effect, as (key, value with unit), for its results.
fn parameters(
    run: &RunSpec, fabric: &FabricSpec, topology: &Topology, links: &Links, hosts: &Hosts<'_>,
) -> Vec<(String, String)> {
    let mut list: Vec<(String, String)> = Vec::new();
    let mut put = |key: &str, value: String| list.push((key.to_string(), value));
    links::put_topology(fabric, topology, &links.longest, &mut put);
    faults::put(run, topology, &mut put);
    links::put_links(fabric, hosts.flow, &mut put);
    switch::put_switch(&fabric.switch, &mut put);
    transport::put(run, &fabric.switch, hosts, &mut put);
    if let Some(duration) = hosts.config.duration {
        put("duration", duration.to_string());
    }
    list
}
