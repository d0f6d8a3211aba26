//! Resolves the transports of a run with traffic in several priorities.

use super::{CongestionNeeds, EcnError, Resolved, SetupError, TransportError, resolve_own};
use crate::host::HostConfig;
use rnic_fabric::rng::{Purpose, mix};
use rnic_spec::{RunSpec, TransportSpec};
use rnic_transport::FlowConfig;

/// One of the transports of a run with traffic in several priorities, as all hosts have it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct StackPlan {
    /// Priority of all packets of the transport.
    pub(crate) priority: u8,
    pub(crate) transport: TransportSpec,
    pub(crate) flow: FlowConfig,
    pub(crate) host_config: HostConfig,
}

/// Adds the transports of all priorities to `resolved`, the configuration of the run with its own transport. Each
/// transport gets the settings that it has alone on this fabric. The switches mark packets by the thresholds of the
/// run's own congestion control, or of the only other one that has thresholds.
pub(super) fn add(
    congestion: &dyn CongestionNeeds, run: &RunSpec, mut resolved: Resolved,
) -> Result<Resolved, SetupError> {
    if let Some(why) = run.cannot_share() {
        return Err(TransportError::Misfit(why).into());
    }
    let lossless = resolved.fabric.switch.buffer.lossless_priorities();
    let priorities = run.priorities_of_traffic();
    for priority in priorities.iter().copied() {
        let transport = run.transport_of(priority);
        let alone = match priority {
            0 => resolved.clone(),
            _ => resolve_own(congestion, &alone(run, transport), Some(&resolved))?,
        };
        // The hosts are the same, but flows in another priority have other entropies.
        let seed = if priority == 0 { run.seed } else { mix(run.seed, Purpose::FlowHash, &[priority.into()]) };
        // Every packet of a transport, control packets too, has its priority: the NIC sees only one.
        let host_config = HostConfig { seed, control_priority: 0, ..alone.host_config };
        let name = &transport.name;
        resolved.warnings.extend(
            alone.warnings.iter().filter(|_| priority > 0).map(|warning| format!("transport \"{name}\": {warning}")),
        );
        match (resolved.fabric.switch.ecn, alone.fabric.switch.ecn) {
            (None, Some(ecn)) => resolved.fabric.switch.ecn = Some(ecn),
            (Some(one), Some(other)) if one != other => {
                let (cc, other) = (transport.cc.name(), run.transport.cc.name());
                return Err(EcnError::Differ { cc, transport: name.clone(), other }.into());
            }
            _ => {}
        }
        if priority > 0 {
            put(&mut resolved.parameters, priority, &alone);
        }
        let (transport, flow) = (transport.clone(), alone.flow);
        resolved.stacks.push(StackPlan { priority, transport, flow, host_config });
    }
    // The fabric as a whole may drop packets if one of its priorities may.
    resolved.lossless &= priorities.iter().all(|priority| lossless & (1 << priority) != 0);
    Ok(resolved)
}

/// The run with `transport` alone, to derive the settings of this transport. Faults of the run do not matter for them.
fn alone(run: &RunSpec, transport: &TransportSpec) -> RunSpec {
    let mut alone = RunSpec { transport: transport.clone(), beside: Vec::new(), watch: None, ..run.clone() };
    alone.fabric.storms.clear();
    alone.fabric.faults = Default::default();
    alone.fabric.watchdogs = Default::default();
    alone
}

/// Adds the settings of a transport beside the run's own to the list of all settings, with the priority before each
/// key. Settings of the fabric are there already.
fn put(parameters: &mut Vec<(String, String)>, priority: u8, alone: &Resolved) {
    let of_transport = alone.parameters.iter().filter(|setting| !parameters.contains(setting)).cloned();
    let mut own = vec![("transport".to_string(), alone.transport.name.clone())];
    own.push(("cc".to_string(), alone.transport.cc.name().to_string()));
    own.extend(of_transport.filter(|(key, _)| !key.starts_with("ecn.")));
    parameters.extend(own.into_iter().map(|(key, value)| (format!("priority {priority}: {key}"), value)));
}
