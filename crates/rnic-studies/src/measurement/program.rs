//! Metrics of distributed programs: the times of collective operations and of training steps, and their parts.

use rnic_results::summary::RunSummary;
use rnic_results::text::round6;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Times of the collective operations, or of the measured training steps, of one traffic source.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// Mean time of an operation or step in microseconds, from the start of the first rank to the end of the last one.
    pub time_us: f64,
    /// Bus bandwidth of a collective operation as nccl-tests defines it, in 10^9 bytes per second.
    pub busbw: Option<f64>,
    /// The parts of the critical path in microseconds, by name; their sum is `time_us`.
    pub parts: BTreeMap<String, f64>,
}

/// The programs of a run, by name of the traffic source. A source of which an operation or step did not complete is
/// left out.
pub(super) fn all(summary: &RunSummary) -> BTreeMap<String, Program> {
    let collectives = summary.collectives.iter().filter(|one| one.completed == one.operations).filter_map(|one| {
        let [late, network, excess] = one.path_us?;
        let parts = [("late", late), ("network", network), ("excess", excess)];
        let program = Program {
            time_us: round6(one.time_us.as_ref()?.mean),
            busbw: one.busbw().map(round6),
            parts: parts.map(|(name, time)| (name.to_string(), round6(time))).into(),
        };
        Some((one.traffic.clone(), program))
    });
    let steps = summary.steps.iter().filter(|one| one.completed == one.steps).filter_map(|one| {
        let parts = one.parts?.named().map(|(name, time)| (name.to_string(), round6(time)));
        let program = Program { time_us: round6(one.time_us.as_ref()?.mean), busbw: None, parts: parts.into() };
        Some((one.traffic.clone(), program))
    });
    collectives.chain(steps).collect()
}
