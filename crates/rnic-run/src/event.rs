//! What a run tells while it goes on.

use crate::record::PauseRow;
use rnic_transport::Time;
use serde::{Deserialize, Serialize};

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RunProgress {
    /// Flows that have finished.
    pub flows_done: u64,
    /// Flows in all, as far as that can be foreseen; `None` where nobody knows.
    pub flows_total: Option<u64>,
    /// Transmissions of data and control packets on links so far.
    pub hops: u64,
    /// Simulated time, in picoseconds.
    #[serde(rename = "time_ps", with = "crate::stored::time")]
    pub time: Time,
}

/// One event in the life of a run.
///
/// A run tells [`RunEvent::Started`] first, then any number of the others, and [`RunEvent::Finished`] or [`RunEvent::Failed`] last. A run
/// that cannot be set up tells `Failed` alone.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// The simulation begins.
    Started {
        /// Name of the run.
        run: String,
        /// Seed of its random streams.
        seed: u64,
        /// Settings that the run works with, derived ones included: (key, value with unit).
        parameters: Vec<(String, String)>,
        /// Sentences that a reader of the results should know.
        warnings: Vec<String>,
    },
    /// The run is so far.
    Progress(RunProgress),
    /// A sample of what the run's `[watch]` asks for.
    Sample {
        /// Simulated time of the sample, in picoseconds.
        #[serde(rename = "time_ps", with = "crate::stored::time")]
        time: Time,
        /// Bytes in each watched queue, in the order of the record's samples.
        queue_bytes: Vec<u32>,
        /// Each flow under way, and the payload bytes that it has delivered, if flows are watched.
        delivered: Vec<(u32, u64)>,
    },
    /// A pause of a transmitter has ended, or the run has ended before it.
    Pause(PauseRow),
    /// The run has completed.
    Finished {
        /// Simulated time at its end, in picoseconds.
        #[serde(rename = "time_ps", with = "crate::stored::time")]
        time: Time,
        /// Flows that finished.
        flows_done: u64,
        /// Flows that the traffic has in all.
        flows_total: u64,
    },
    /// The run could not be set up, or did not complete.
    Failed {
        /// One sentence that says why.
        reason: String,
    },
}
