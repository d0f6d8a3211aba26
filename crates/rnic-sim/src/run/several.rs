//! Simulates runs with traffic in several priorities, each of which may have its own transport.
//!
//! The engine is compiled once for all such runs: it calls the hosts of each transport through a trait object. The
//! hosts of a transport are compiled for its loss recovery; they call its congestion control through a table.

use super::Job;
use super::engine::run_hosts;
use super::select::select_recovery;
use crate::events::Events;
use crate::events::Listener;
use crate::host::{FlowTable, LinkSharing, RcHosts, Segment, SharedHosts, StackHosts};
use crate::in_band::Several;
use crate::resolve::StackPlan;
use rnic_fabric::Fabric;
use rnic_fabric::config::FabricSpec;
use rnic_spec::{FlowSpec, RunOutput};
use rnic_transport::congestion::{CongestionControl, Dynamic, DynamicParams};
use rnic_transport::recovery::Protocol;
use rnic_transport::transports::ProtocolVisitor;
use rnic_workload::{FlowStream, Share, Source};
use std::marker::PhantomData;

/// The flows of a stream that belong to some of its traffic sources.
pub(crate) struct FlowsOf {
    all: FlowStream,
    /// Whether the flows of each source belong.
    sources: Vec<bool>,
}

impl Iterator for FlowsOf {
    type Item = FlowSpec;

    fn next(&mut self) -> Option<FlowSpec> {
        let FlowsOf { all, sources } = self;
        all.find(|flow| sources[usize::from(flow.traffic)])
    }
}

/// What the hosts of one transport of a run are made of.
pub(crate) struct StackJob<'a, 'f> {
    plan: &'a StackPlan,
    fabric: &'f Fabric<Segment<Several>>,
    flows: FlowsOf,
    source: Option<Box<dyn Source>>,
    events: &'a dyn Listener,
}

/// The function that makes the hosts of one transport, compiled for its congestion control.
pub(crate) type BuildStack = for<'a, 'f> fn(StackJob<'a, 'f>) -> Result<Box<dyn StackHosts + 'a>, String>;

/// Simulates a run with several transports. `build` returns the function that makes hosts with the congestion control
/// of this name.
pub(crate) fn simulate_several(job: Job<'_, '_>, build: impl Fn(&str) -> Option<BuildStack>) -> RunOutput {
    let Job { resolved, traffic, seed, events, capture, sharing, .. } = job;
    if capture.is_some() {
        return RunOutput::not_started("a capture needs a run whose traffic has one priority".to_string());
    }
    let mut fabric = match sharing.fabric(resolved, seed) {
        Ok(fabric) => fabric,
        Err(error) => return RunOutput::not_started(error.to_string()),
    };
    // The hosts of the single transports do not report their progress.
    let quiet = Events::ignored();
    let count = resolved.stacks.len() as u32;
    let mut stacks = Vec::new();
    for (index, plan) in (0..count).zip(&resolved.stacks) {
        let sources = traffic.iter().map(|source| source.priority == plan.priority).collect();
        let flows = FlowsOf { all: rnic_workload::generate(traffic, &resolved.network, seed), sources };
        let share = Share { priority: Some(plan.priority), offset: index, step: count };
        let source = rnic_workload::reactive(traffic, &resolved.network, seed, share);
        let stack = StackJob { plan, fabric: &fabric, flows, source, events: &quiet };
        let cc = plan.transport.cc.name();
        match build(cc).ok_or_else(|| format!("there is no cc \"{cc}\"")).and_then(|build| build(stack)) {
            Ok(hosts) => stacks.push((plan.priority, hosts)),
            Err(error) => return RunOutput::not_started(error),
        }
    }
    let FabricSpec { switch, .. } = &resolved.fabric;
    let priorities: Vec<u8> = resolved.stacks.iter().map(|plan| plan.priority).collect();
    let link = LinkSharing::new(&switch.scheduler, &priorities);
    let mut hosts = SharedHosts::new(stacks, link, &fabric.plan().clone(), events);
    let output = run_hosts(&mut fabric, resolved, &mut hosts, events);
    sharing.done(&fabric);
    output
}

/// Makes the hosts of one transport with the congestion control `C`. Only the constants of `C` select the code of the
/// hosts; its functions are called through a table ([`Dynamic`]), so the hosts are not compiled for each `C`.
pub(crate) fn build_stack<'a, C: CongestionControl>(job: StackJob<'a, '_>) -> Result<Box<dyn StackHosts + 'a>, String> {
    let StackPlan { transport, flow, .. } = job.plan;
    let params = DynamicParams::of::<C>(C::params(&transport.cc.settings, flow)?);
    match (C::PACED, C::CREDIT) {
        (false, false) => build::<Dynamic<false, false>>(job, params),
        (false, true) => build::<Dynamic<false, true>>(job, params),
        (true, false) => build::<Dynamic<true, false>>(job, params),
        (true, true) => build::<Dynamic<true, true>>(job, params),
    }
}

fn build<'a, C: CongestionControl>(
    job: StackJob<'a, '_>, params: C::Params,
) -> Result<Box<dyn StackHosts + 'a>, String> {
    let transport = &job.plan.transport;
    let build = Build::<C> { job, params, congestion: PhantomData };
    let name = transport.declaration.name;
    select_recovery(name, &transport.settings, build)
        .ok_or_else(|| format!("there is no transport \"{name}\" of flows"))
}

/// The hosts of a transport, before the code for its loss recovery has been selected.
struct Build<'a, 'f, C: CongestionControl> {
    job: StackJob<'a, 'f>,
    params: C::Params,
    congestion: PhantomData<C>,
}

impl<'a, C: CongestionControl> ProtocolVisitor for Build<'a, '_, C> {
    type Output = Box<dyn StackHosts + 'a>;

    fn visit<P: Protocol>(self) -> Box<dyn StackHosts + 'a> {
        let StackJob { plan, fabric, flows, source, events } = self.job;
        let (cfg, config) = (plan.flow.clone(), plan.host_config);
        let table = FlowTable::new(config, cfg.mtu, fabric, flows, source, events);
        Box::new(RcHosts::<P, C, FlowsOf, Several>::new(cfg, self.params, config, fabric.plan().clone(), table))
    }
}
