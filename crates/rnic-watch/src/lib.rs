//! Operation of RDMA networks: checks of configurations, and counters of real hosts and switches.
//!
//! - [`lint`] compares the running configuration of switches (SONiC) and hosts (mlx5) with the desired state, finds
//!   dangerous configurations, and writes a scenario of the fabric for the simulator.
//! - [`counters`] reads the counters of hosts and switches as Prometheus metrics; the simulator's counters have the
//!   same names (crate `rnic-metrics`).

pub mod counters;
mod dump;
pub mod input;
pub mod lint;
