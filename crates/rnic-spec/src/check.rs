//! Checks the rules of a run specification ([`RunSpec`]) that connect several of its values, if it is read from JSON.
//! The ranges of single values are in [`settings`](crate::settings). For runs of scenario files, the crate
//! `rnic-scenario` checks these rules, because its errors point at the text.

use crate::collective::Deployment;
use crate::faults::Faults;
use crate::mesh::MeshPairs;
use crate::settings::{self, MAX_HOSTS, MAX_MESH_PAIRS, MAX_UPLINKS, document};
use crate::spec::{Arrivals, Incast, QueueingSetup, Receiver, RunSpec, Traffic, TrafficPattern};
use crate::transport::TransportSpec;
use crate::triggered::TriggeredPart;
use rnic_fabric::config::{Paths, TopologySpec};
use rnic_transport::settings::{Kind, MAX_BYTES, MAX_TIME, Value};

/// Checks that the values of the run `run` on which the simulator relies are in range, and fit each other.
///
/// # Errors
/// A field is out of range. The error is one sentence that names the first such field and the accepted values.
pub(crate) fn check(run: &RunSpec<TransportSpec>) -> Result<(), String> {
    document::check(run)?;
    topology(&run.fabric.topology)?;
    let hosts = crate::hosts(&run.fabric.topology);
    for (index, storm) in run.fabric.storms.iter().enumerate() {
        host(&format!("run.fabric.storms[{index}].host"), storm.host, hosts)?;
    }
    faults(run, hosts)?;
    switch(run)?;
    if run.traffic.is_empty() {
        return Err("run.traffic: there is no traffic; at least one source is needed".to_string());
    }
    for (index, source) in run.traffic.iter().enumerate() {
        traffic(&format!("run.traffic[{index}].pattern"), source, hosts)?;
    }
    beside(run)
}

fn faults(run: &RunSpec<TransportSpec>, hosts: u32) -> Result<(), String> {
    for (index, dead) in run.fabric.faults.dead.iter().enumerate() {
        host(&format!("run.fabric.faults.dead[{index}].host"), dead.host, hosts)?;
    }
    for (index, slow) in run.fabric.faults.receivers.iter().enumerate() {
        let at = format!("run.fabric.faults.receivers[{index}]");
        slow.hosts.iter().try_for_each(|one| host(&format!("{at}.hosts"), *one, hosts))?;
        within(slow.xoff <= slow.buffer, &format!("{at}.xoff"), &format!("at most `buffer`, {}", slow.buffer))?;
        within(slow.xon <= slow.xoff, &format!("{at}.xon"), &format!("at most `xoff`, {}", slow.xoff))?;
    }
    let is_used = run.fabric.flowlet_gap.is_none() || run.fabric.paths == Some(Paths::Flowlet);
    within(is_used, "run.fabric.flowlet_gap", "no value, unless `paths` is \"flowlet\"")?;
    let routing = &run.fabric.faults;
    let convergence = routing.convergence.unwrap_or(Faults::CONVERGENCE);
    let repairs_first = routing.local_repair.is_none_or(|delay| delay <= convergence);
    within(repairs_first, "run.fabric.faults.local_repair", &format!("at most `convergence`, {convergence}"))?;
    for (index, link) in run.fabric.faults.links.iter().enumerate() {
        if let (Some(duration), Some(every)) = (link.duration, link.every) {
            let at = format!("run.fabric.faults.links[{index}].every");
            within(every > duration, &at, &format!("more than `duration`, {duration}"))?;
        }
    }
    for (index, mesh) in run.fabric.meshes.iter().enumerate() {
        let at = format!("run.fabric.meshes[{index}]");
        if let MeshPairs::Listed(pairs) = &mesh.pairs {
            range(&format!("the number of pairs of {at}"), pairs.len() as u64, 1, MAX_MESH_PAIRS)?;
            for (from, to) in pairs {
                host(&format!("{at}.pairs"), (*from).max(*to), hosts)?;
                within(from != to, &format!("{at}.pairs"), "two different hosts")?;
            }
        }
        if let Some(stack) = mesh.stack {
            within(stack.p99 >= stack.median, &format!("{at}.stack.p99"), "at least the median")?;
        }
    }
    Ok(())
}

fn switch(run: &RunSpec<TransportSpec>) -> Result<(), String> {
    let switch = &run.fabric.switch;
    range("run.fabric.switch.scheduler.weights", switch.scheduler.weights.into(), 0, 8)?;
    let QueueingSetup::Output(output) = &switch.queueing else { return Ok(()) };
    // Priorities that the switch does not have are zero in the document.
    let in_use = usize::from(output.priorities.unwrap_or(8));
    let Some(Kind::List(kind)) = settings::kind("fabric.switch", "buffers") else { return Ok(()) };
    for (index, bytes) in output.buffers.iter().flatten().take(in_use).enumerate() {
        let name = format!("run.fabric.switch.queueing.buffers[{index}]");
        within(kind.accepts(&Value::Bytes(*bytes)), &name, &kind.range())?;
    }
    Ok(())
}

fn topology(topology: &TopologySpec) -> Result<(), String> {
    if let TopologySpec::FatTree { k } = topology {
        within(k.is_multiple_of(2), "run.fabric.topology.k", "an even number")?;
    }
    range("run.fabric.topology: number of hosts", crate::hosts(topology).into(), 2, MAX_HOSTS.into())?;
    let links = format!("at most {MAX_UPLINKS} links between switches");
    within(crate::uplinks(topology) <= MAX_UPLINKS, "run.fabric.topology", &links)
}

/// Checks the transports beside the run's own: each is for another priority, and they can share the hosts.
fn beside(run: &RunSpec<TransportSpec>) -> Result<(), String> {
    for (index, beside) in run.beside.iter().enumerate() {
        let name = format!("run.beside[{index}].priority");
        if run.beside[..index].iter().any(|other| other.priority == beside.priority) {
            return Err(format!("{name} is {}, which another transport has; accepted: one for each", beside.priority));
        }
    }
    run.cannot_share().map_or(Ok(()), |why| Err(format!("run.beside: {why}")))
}

/// Checks the pattern of a traffic source, whose path in the document is `at`.
fn traffic(at: &str, source: &Traffic, hosts: u32) -> Result<(), String> {
    let sizes = match &source.pattern {
        TrafficPattern::Poisson { sizes, locality, arrivals, .. } => {
            let near = locality.leaf.unwrap_or(0.0) + locality.pod.unwrap_or(0.0);
            within(near <= 1.0 + SHARE_ERROR, &format!("{at}.locality"), "fractions of at most 1 together")?;
            if let Arrivals::OnOff { cv, .. } = arrivals {
                let min = Arrivals::MIN_ON_OFF_CV;
                within(*cv >= min, &format!("{at}.arrivals.cv"), &format!("at least {min} for an on-off process"))?;
            }
            sizes
        }
        TrafficPattern::Permutation { sizes, .. }
        | TrafficPattern::AllToAll { sizes, .. }
        | TrafficPattern::Pairs { sizes, .. } => sizes,
        TrafficPattern::AllToAllLoop { sizes, outstanding, .. } => {
            range(&format!("{at}.outstanding"), (*outstanding).into(), 1, u64::from(hosts) - 1)?;
            sizes
        }
        TrafficPattern::Incast { senders, total, receiver, connections, .. } => {
            let (senders, total, receiver, connections) = (*senders, *total, *receiver, *connections);
            return incast(at, &Incast { senders, total, receiver, connections }, hosts);
        }
        TrafficPattern::IncastLoop { incast: own, .. } => return incast(&format!("{at}.incast"), own, hosts),
        TrafficPattern::Collective(collective) => {
            range(&format!("{at}.ranks"), collective.ranks.into(), 2, hosts.into())?;
            places(at, &collective.deployment(), hosts)?;
            return collective.check().map_err(|error| format!("{at}: {error}"));
        }
        TrafficPattern::Outside { largest, reaction } => {
            range(&format!("{at}.largest"), largest.0, 1, MAX_BYTES)?;
            let positive = reaction.is_none_or(|reaction| reaction.as_ps() > 0 && reaction <= MAX_TIME);
            return within(positive, &format!("{at}.reaction"), "a time above 0 of at most 30 days");
        }
        TrafficPattern::Trace(trace) => {
            range(&format!("{at}.content.ranks"), trace.content.ranks.into(), 1, hosts.into())?;
            places(at, &trace.deployment, hosts)?;
            return trace.check().map_err(|error| format!("{at}: {error}"));
        }
        TrafficPattern::Training(training) => {
            range(&format!("{at}.deployment.ranks"), training.deployment.ranks.into(), 2, hosts.into())?;
            places(at, &training.deployment, hosts)?;
            return training.check().map_err(|error| format!("{at}: {error}"));
        }
        TrafficPattern::Inference(inference) => {
            range(&format!("{at}.deployment.ranks"), inference.deployment.ranks.into(), 2, hosts.into())?;
            places(at, &inference.deployment, hosts)?;
            return inference.check().map_err(|error| format!("{at}: {error}"));
        }
        TrafficPattern::Triggered(list) => {
            return list.check(hosts).map_err(|(part, error)| match part {
                TriggeredPart::Flow(index) => format!("{at}.flows[{index}]: {error}"),
                TriggeredPart::Trigger(index) => format!("{at}.triggers[{index}]: {error}"),
                TriggeredPart::Whole => format!("{at}: {error}"),
            });
        }
        TrafficPattern::List { flows } => {
            let sorted = flows.is_sorted_by_key(|flow| flow.start);
            within(sorted && !flows.is_empty(), &format!("{at}.flows"), "at least one flow, in order of start")?;
            for (index, flow) in flows.iter().enumerate() {
                let fits = flow.src < hosts && flow.dst < hosts && flow.src != flow.dst;
                within(fits, &format!("{at}.flows[{index}]"), &format!("two different hosts from 0 to {}", hosts - 1))?;
                range(&format!("{at}.flows[{index}].bytes"), flow.bytes, 1, MAX_BYTES)?;
                within(flow.start <= MAX_TIME, &format!("{at}.flows[{index}].start"), "at most 30 days")?;
            }
            return Ok(());
        }
    };
    sizes.validate().map_err(|error| format!("{at}: {error}"))
}

/// Checks that each rank of a program has a host.
fn places(at: &str, deployment: &Deployment, hosts: u32) -> Result<(), String> {
    deployment.check_places(hosts).map_err(|error| format!("{at}: {error}"))
}

/// Rounding error that the sum of two fractions may have.
const SHARE_ERROR: f64 = 1e-9;

/// Checks that the hosts of the fabric can be senders and receiver of an incast, and that each of its flows has a byte.
fn incast(at: &str, incast: &Incast, hosts: u32) -> Result<(), String> {
    range(&format!("{at}.senders"), incast.senders.into(), 1, u64::from(hosts) - 1)?;
    if let Receiver::Host(receiver) = incast.receiver {
        host(&format!("{at}.receiver"), receiver, hosts)?;
    }
    within(incast.total.0 >= incast.flows(), &format!("{at}.total"), "at least one byte for each flow of a request")
}

/// Checks that the value `number` of the field `name` is the number of a host.
fn host(name: &str, number: u32, hosts: u32) -> Result<(), String> {
    range(name, number.into(), 0, u64::from(hosts) - 1)
}

fn within(fits: bool, name: &str, accepted: &str) -> Result<(), String> {
    if fits { Ok(()) } else { Err(format!("{name} is out of range; accepted: {accepted}")) }
}

fn range(name: &str, value: u64, min: u64, max: u64) -> Result<(), String> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(format!("{name} is {value}; accepted: {min} to {max}")) }
}
