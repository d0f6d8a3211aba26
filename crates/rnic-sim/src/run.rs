//! Running a scenario. STUB: the types are final, the body is not.

use crate::results::RunOutput;
use crate::scenario::Scenario;
use rnic_transport::Time;

/// How to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunOptions {
    /// Most threads to use; at least 1.
    pub threads: usize,
}

/// How far a run has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunProgress {
    /// Flows that have finished.
    pub flows_done: u64,
    /// Flows in all.
    pub flows_total: u64,
    /// Transmissions of packets on links so far.
    pub hops: u64,
    /// Simulated time so far.
    pub sim_time: Time,
}

/// Is told how far the runs have come; called from the threads that run them.
pub trait Progress: Sync {
    /// Run number `run` of the scenario has come this far.
    fn update(&self, run: usize, state: RunProgress);
}

/// What one run yielded, and what it cost.
#[derive(Clone, PartialEq, Debug)]
pub struct RunReport {
    /// The records.
    pub output: RunOutput,
    /// Wall-clock seconds.
    pub wall_s: f64,
    /// CPU seconds over all threads.
    pub cpu_s: f64,
    /// Highest resident memory of the process while it ran, in bytes.
    pub peak_rss_bytes: u64,
}

/// Runs every run of a scenario; the reports are in the scenario's order.
///
/// # Errors
/// The first run that cannot be set up: its name and why.
pub fn run_scenario(
    _scenario: &Scenario,
    _options: &RunOptions,
    _progress: &dyn Progress,
) -> Result<Vec<RunReport>, (String, String)> {
    Ok(Vec::new())
}
