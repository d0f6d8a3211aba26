//! What a run with `fidelity = "flow"` cannot have, because it simulates no packets, and what it leaves out.

use super::{Resolved, SetupError};
use rnic_spec::{RunSpec, WatchedQueues};
use rnic_transport::Time;

/// Checks that the run can be simulated as fluids, adds `fidelity` to its settings, and warns of what is left out.
///
/// # Errors
/// The run needs packets.
pub(super) fn check(run: &RunSpec, resolved: &mut Resolved) -> Result<(), SetupError> {
    if let Some(why) = needs_packets(run, resolved) {
        return Err(SetupError::NeedsPackets(why));
    }
    resolved.parameters.push(("fidelity".to_string(), run.fidelity.name().to_string()));
    if run.fidelity_quantum > Time::ZERO {
        resolved.parameters.push(("fidelity_quantum".to_string(), run.fidelity_quantum.to_string()));
    }
    let left_out = left_out(run, resolved);
    resolved.warnings.push(format!(
        "fidelity = \"flow\": flows share links by max-min fair rates; not modelled: {}",
        left_out.join(", ")
    ));
    Ok(())
}

/// Why the run cannot be simulated as fluids; `None` if it can.
fn needs_packets(run: &RunSpec, resolved: &Resolved) -> Option<String> {
    let (faults, fabric) = (&run.fabric.faults, &run.fabric);
    let transport = &run.transport.name;
    let watched = |queues: &WatchedQueues| *queues != WatchedQueues::Named(Vec::new());
    let why = if run.transport.is_message() {
        format!("the receivers of transport \"{transport}\" schedule packets of messages")
    } else if run.transport.is_host() {
        format!("transport \"{transport}\" schedules packets in host software")
    } else if transport == "tcp" {
        "transport \"tcp\" has costs of the host for each segment".to_string()
    } else if !resolved.stacks.is_empty() {
        "the traffic has several priorities, which switches schedule packet by packet".to_string()
    } else if !fabric.storms.is_empty() {
        "[[fabric.storm]] pauses ports".to_string()
    } else if !faults.drops.is_empty() {
        "[[fabric.drop]] drops packets".to_string()
    } else if !faults.dead.is_empty() {
        "[[fabric.dead]] drops or floods packets".to_string()
    } else if !faults.receivers.is_empty() {
        "[[fabric.receiver]] delays packets in a NIC".to_string()
    } else if !fabric.meshes.is_empty() {
        "[[fabric.mesh]] measures the queueing of probes".to_string()
    } else if run.watch.as_ref().is_some_and(|watch| watch.pauses) {
        "[watch] `pauses` samples PFC pauses".to_string()
    } else if run.watch.as_ref().is_some_and(|watch| watched(&watch.queues)) {
        "[watch] `queues` samples queued packets".to_string()
    } else {
        return None;
    };
    Some(why)
}

/// What the run has, or may have, and its simulation as fluids leaves out.
fn left_out(run: &RunSpec, resolved: &Resolved) -> Vec<String> {
    let cc = run.transport.cc.name();
    let mut list = vec!["queues".to_string(), "drops".to_string()];
    if run.transport.pfc {
        list.push("PFC pauses".to_string());
    }
    if resolved.topology.ports.iter().any(|port| port.link.loss > 0.0) {
        list.push("random loss on links".to_string());
    }
    if cc != "none" {
        list.push(format!("how cc \"{cc}\" finds its rates"));
    }
    if run.transport.name == "iwarp" {
        list.push("slow start".to_string());
    }
    if !resolved.faults.links.is_empty() {
        list.push("packets lost on failed links".to_string());
    }
    if run.fabric.clocks.skew_ppm > 0 || run.fabric.clocks.jitter > Time::ZERO {
        list.push("clock skew and jitter".to_string());
    }
    list
}
