//! Workloads: which flows start when, between whom, how large.
//!
//! [`sizes`] turns a name or a CDF file into a [`SizeDistribution`], [`generate()`] turns a run's traffic into a lazy,
//! time-ordered stream of [`FlowSpec`]s, [`closed_loops()`] into those that follow from what has arrived. Everything random draws
//! from the streams of [`rng`], so a seed gives the same flows on every machine.

mod all_to_all;
pub mod generate;
mod loops;
mod network;
mod poisson;
pub mod rng;
mod rounds;
pub mod sizes;
#[cfg(test)]
mod tests;

pub use generate::{FlowStream, check, closed_loops, generate, largest};
pub use loops::{Loops, Origin};
pub use network::Network;
pub use sizes::BUILT_IN as BUILT_IN_SIZES;

use rnic_run::{FlowSpec, SizeDistribution};
