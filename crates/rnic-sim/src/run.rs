//! Running a scenario.

use crate::results::RunOutput;

/// One run's records and what it cost to simulate.
#[derive(Clone, PartialEq, Debug)]
pub struct RunReport {
    /// What the simulation recorded.
    pub output: RunOutput,
    /// Wall-clock time it took, in seconds.
    pub wall_s: f64,
    /// CPU time it took over all threads, in seconds.
    pub cpu_s: f64,
    /// Highest resident memory of the process so far, in bytes.
    pub peak_rss_bytes: u64,
}
