//! What a run with `fast_forward` cannot have, because it never repeats or because its time stamps would be wrong.

use super::{Resolved, SetupError};
use crate::fast_forward::ForwardPlan;
use rnic_spec::{RunSpec, TrafficPattern};
use rnic_transport::{GoBack, Time};

/// Checks that simulated time of the run can be skipped, and adds `fast_forward` to its settings.
///
/// # Errors
/// The run has something that cannot be skipped.
pub(super) fn add(run: &RunSpec, resolved: &mut Resolved) -> Result<(), SetupError> {
    if let Some(why) = obstacle(run, resolved) {
        return Err(SetupError::NoFastForward(why));
    }
    let flow = &resolved.flow;
    resolved.fast_forward = Some(ForwardPlan {
        bound: run.fast_forward,
        base_rtt: flow.base_rtt,
        packet: u64::from(flow.mtu + flow.header),
        bdp: flow.line_rate.bytes_in(flow.base_rtt),
    });
    resolved.parameters.push(("fast_forward".to_string(), run.fast_forward.to_string()));
    Ok(())
}

/// Why no simulated time of the run can be skipped; `None` if it can.
fn obstacle(run: &RunSpec, resolved: &Resolved) -> Option<String> {
    let (faults, fabric, transport) = (&run.fabric.faults, &run.fabric, &run.transport.name);
    let waits = |pattern: &TrafficPattern| {
        pattern.is_program() || matches!(pattern, TrafficPattern::Outside { .. } | TrafficPattern::Triggered(_))
    };
    let reactive = run.traffic.iter().find(|source| waits(&source.pattern));
    let why = if !run.fidelity.is_packet() {
        "fidelity = \"flow\" has no packets".to_string()
    } else if run.transport.is_message() {
        format!("transport \"{transport}\" sends messages that no state of a flow describes")
    } else if run.transport.is_host() {
        format!("transport \"{transport}\" is in host software")
    } else if !resolved.stacks.is_empty() {
        "the traffic has several priorities".to_string()
    } else if let Some(source) = reactive {
        format!("a program starts the flows of traffic `{}`", source.name)
    } else if resolved.flow.go_back == GoBack::First {
        "go_back = \"first\" begins messages again".to_string()
    } else if resolved.host_config.processing.is_some() {
        format!("transport \"{transport}\" has costs of the host")
    } else if resolved.topology.ports.iter().any(|port| port.link.loss > 0.0) {
        "links lose packets at random".to_string()
    } else if fabric.clocks.jitter > Time::ZERO {
        "clocks have jitter".to_string()
    } else if !fabric.storms.is_empty() || !faults.drops.is_empty() || !faults.dead.is_empty() {
        "[[fabric.storm]], [[fabric.drop]] and [[fabric.dead]] change what happens over time".to_string()
    } else if !faults.receivers.is_empty() {
        "[[fabric.receiver]] delays packets in a NIC".to_string()
    } else if resolved.faults.watchdog.is_some() {
        "[fabric.watchdog] measures how long pauses last".to_string()
    } else if !fabric.meshes.is_empty() {
        "[[fabric.mesh]] sends probes".to_string()
    } else if run.watch.as_ref().is_some_and(|watch| watch.pauses) {
        "[watch] `pauses` records every pause".to_string()
    } else {
        return None;
    };
    Some(why)
}
