//! Counters of hosts and switches as metrics.
//!
//! A source ([`Host`], [`Sonic`]) returns [`Reading`]s, and a [`Recorder`] converts each into metrics. A simulated
//! fabric has the same metrics ([`rnic_metrics::simulated`]). So a dashboard or an alert rule for a simulation also
//! works for the real network.

mod host;
pub mod pause_metrics;
mod sonic;

pub use host::Host;
pub use rnic_metrics::{Group, Paused, Priority, Queue, Reading, Recorder, suspects};
pub use sonic::Sonic;

/// Maximum number of values that are read from a source, so that a malicious source cannot fill the memory.
const MAX_VALUES: usize = 2_000_000;
