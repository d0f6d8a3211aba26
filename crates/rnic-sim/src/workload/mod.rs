//! Workloads: which flows start when, between whom, how large.
//!
//! [`sizes`] turns a name or a CDF file into a [`SizeDistribution`], [`generate()`] turns a run's traffic into a lazy,
//! time-ordered stream of [`FlowSpec`]s, [`closed_loops()`] into those that follow from what has arrived, [`list`] reads flows that somebody else generated. Everything random draws
//! from the streams of [`rng`], so a seed gives the same flows on every machine.

use rnic_transport::Time;

mod all_to_all;
pub mod generate;
pub mod list;
mod loops;
mod poisson;
pub mod rng;
mod rounds;
pub mod sizes;
#[cfg(test)]
mod tests;

pub use generate::{FlowStream, Network, check, closed_loops, generate, largest};
pub use list::{ListFormat, read_flow_list};
pub use loops::Loops;
pub(crate) use loops::Origin;
pub use sizes::BUILT_IN as BUILT_IN_SIZES;

/// One flow to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSpec {
    /// When the application hands it to the NIC.
    pub start: Time,
    /// Sending host.
    pub src: u32,
    /// Receiving host; never the sender.
    pub dst: u32,
    /// Payload bytes, at least 1.
    pub bytes: u64,
    /// The request it is a part of (incast), [`FlowSpec::NO_REQUEST`] for none.
    pub request: u32,
    /// Index of its source in the run's list of traffic.
    pub traffic: u16,
    /// Whether it counts in the statistics (outside warm-up and cool-down).
    pub measured: bool,
}

impl FlowSpec {
    /// Not part of a request.
    pub const NO_REQUEST: u32 = u32::MAX;
}

/// How large flows are.
#[derive(Clone, PartialEq, Debug)]
pub struct SizeDistribution {
    /// What the scenario calls it: `irn-heavy-tailed`, `websearch`, `fixed 1 MB`, `uniform 500 KB - 5 MB`, or a file's name.
    pub name: String,
    /// Points (bytes, cumulative probability), both rising, the last probability 1. Between two points bytes are linear in
    /// probability; two points of equal probability make a gap, two of equal bytes a point mass; below the first point's
    /// probability lies its own mass.
    pub points: Vec<(f64, f64)>,
}
