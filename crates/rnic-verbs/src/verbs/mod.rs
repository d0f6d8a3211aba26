//! The verbs of a [`Device`](crate::Device) (one RDMA NIC): functions that create, modify and destroy objects, post
//! work requests and poll completions.

mod memory;
mod post;
mod queue_pairs;
mod queues;
mod statistics;
mod windows;

use crate::types::{State, VerbsError};

/// Checks that the state of a queue pair is one of `admitted`.
fn require(state: State, admitted: &[State], action: &'static str) -> Result<(), VerbsError> {
    if admitted.contains(&state) { Ok(()) } else { Err(VerbsError::WrongState { state, action }) }
}
