//! Counters of hosts and switches as metrics.
//!
//! A source ([`Host`], [`Sonic`]) makes [`Reading`]s, and a [`Recorder`] turns each into metrics. A simulated fabric
//! has the same metrics ([`rnic_metrics::simulated`]). So a dashboard or an alert rule that works on a simulation works
//! on the real network.

mod host;
pub mod pause_metrics;
mod sonic;

pub use host::Host;
pub use rnic_metrics::{Group, Paused, Priority, Queue, Reading, Recorder, suspects};
pub use sonic::Sonic;

/// Number of values of a source that are read at most, so that a hostile source cannot fill the memory.
const MAX_VALUES: usize = 2_000_000;
