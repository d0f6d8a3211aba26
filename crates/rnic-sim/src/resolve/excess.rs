//! What a run that measures the parts of the excess (`[watch] excess`) cannot have.

use super::{Resolved, SetupError};
use rnic_spec::RunSpec;

/// Checks that the run can measure the parts of the excess, and makes it do so.
///
/// # Errors
/// The run has no critical paths, or packets that cannot be followed.
pub(super) fn add(run: &RunSpec, resolved: &mut Resolved) -> Result<(), SetupError> {
    let transport = &run.transport.name;
    let why = if !run.traffic.iter().any(|source| source.pattern.is_program()) {
        "no traffic has critical paths; accepted: the patterns collective, training, inference and trace".to_string()
    } else if !run.fidelity.is_packet() {
        "fidelity = \"flow\" has no packets".to_string()
    } else if run.transport.is_message() || run.transport.is_host() {
        format!("packets of transport \"{transport}\" cannot be followed; accepted: transports of flows, such as irn")
    } else if !resolved.stacks.is_empty() {
        "the traffic has several priorities, or [[run.beside]]; accepted: one priority".to_string()
    } else {
        resolved.splits_excess = true;
        return Ok(());
    };
    Err(SetupError::Watch(format!("`excess`: {why}")))
}
