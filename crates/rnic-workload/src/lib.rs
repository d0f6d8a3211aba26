//! Workloads of simulated networks: start time, sender, receiver and size of every flow.
//!
//! - [`sizes`] turns a name or a CDF file into a [`SizeDistribution`].
//! - [`generate()`] turns the open-loop traffic of a run (whose start times do not depend on the network) into a lazy,
//!   time-ordered stream of [`FlowSpec`]s.
//! - [`closed_loops()`] yields the flows of closed loops, whose start depends on the completion of earlier flows.
//! - [`program`] yields the flows of programs: ranks that send, receive and compute, as in collective operations.
//! - [`Outside`] yields the flows that another program submits while the simulation runs.
//! - [`Source`] is what the simulator knows of the last three.
//!
//! All random numbers come from the streams of [`rng`], so the same seed gives the same flows on every machine.

mod all_to_all;
mod arrivals;
mod boundaries;
mod composite;
pub mod generate;
mod loops;
mod network;
mod offered;
mod outside;
mod places;
mod poisson;
pub mod program;
pub mod rng;
mod rounds;
pub mod sizes;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod triggered;

pub use boundaries::{Boundary, StepBoundaries};
pub use generate::{FlowStream, Share, check, closed_loops, generate, largest, reactive};
pub use loops::{Loops, Origin};
pub use network::Network;
pub use offered::{Offered, offered};
pub use outside::{Feed, FlowCompletion, Grant, Outside};
pub use program::Program;
pub use sizes::BUILT_IN as BUILT_IN_SIZES;
pub use source::{Completion, MessageDelays, Pending, Settled, Source};
pub use text::read_text;

use rnic_spec::{FlowSpec, SizeDistribution};
