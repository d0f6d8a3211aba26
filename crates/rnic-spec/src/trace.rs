//! Traces of distributed programs: which file has the operations of the ranks, and how the ranks carry them out.

use crate::collective::{Algorithm, Collective, Deployment, Straggler};
use rnic_transport::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The pattern `trace`: the ranks of a distributed program carry out the operations of a file, which depend on each
/// other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Path of the file; for `chakra`, of the files without `.RANK.et`.
    pub file: String,
    /// The format of the file.
    pub format: TraceFormat,
    /// What the file had when the scenario was read; a file that has changed is refused.
    pub content: TraceContent,
    /// The algorithm of all-reduces and broadcasts.
    pub algorithm: Algorithm,
    /// Number of parts into which an operation along a ring is divided; the parts use different connections.
    pub channels: u32,
    /// Maximum number of bytes of a message of the algorithms `ring` and `tree`.
    pub chunk: Bytes,
    /// Maximum number of messages that a rank sends at the same time in an all-to-all.
    pub outstanding: u32,
    /// Factor of the length of every computation.
    pub compute_scale: f64,
    /// A rank of which each computation takes longer, by `delay`; `None` if all are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub straggler: Option<Straggler>,
    /// Where the ranks run.
    pub deployment: Deployment,
}

/// What the file of a trace has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceContent {
    /// Number of bytes of the file, or of all files of the trace together.
    pub bytes: u64,
    /// CRC-32 of the file, or of all files, one after the other by rank.
    pub crc32: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// Number of operations of all ranks.
    pub tasks: u64,
    /// Number of bytes of the largest message or collective operation.
    pub largest: u64,
}

/// The format of a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceFormat {
    /// `csv`: a row for each operation, in rnic's own columns.
    Csv,
    /// `goal`: GOAL as text, as its compilers and LogGOPSim read it.
    Goal,
    /// `chakra`: execution traces of MLCommons Chakra, a file for each rank.
    Chakra,
}

impl TraceFormat {
    /// All formats.
    pub const ALL: [TraceFormat; 3] = [TraceFormat::Csv, TraceFormat::Goal, TraceFormat::Chakra];

    /// The name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            TraceFormat::Csv => "csv",
            TraceFormat::Goal => "goal",
            TraceFormat::Chakra => "chakra",
        }
    }
}

impl Trace {
    /// How the ranks carry out collective operations; number of ranks and bytes of an operation are its own.
    pub fn plan(&self) -> Collective {
        self.deployment.plan(self.algorithm, self.channels, self.chunk, self.outstanding)
    }

    /// Checks that the settings fit together and to the trace.
    ///
    /// # Errors
    /// One sentence that says what is impossible and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        let (ranks, accelerators) = (self.content.ranks, self.deployment.accelerators());
        if self.deployment.ranks != ranks {
            return Err(format!("there are {} ranks; accepted: {ranks}, those of the trace", self.deployment.ranks));
        }
        self.deployment.check_algorithm(self.algorithm, self.channels)?;
        if !ranks.is_multiple_of(accelerators) {
            return Err(format!(
                "servers of {accelerators} accelerators do not divide {ranks} ranks; accepted: a divisor of the ranks"
            ));
        }
        if let Some(Straggler { rank, .. }) = self.straggler
            && rank >= ranks
        {
            return Err(format!("the straggler is rank {rank}; accepted: 0 to {}", ranks.saturating_sub(1)));
        }
        if !(0.0..=1e6).contains(&self.compute_scale) {
            return Err(format!("compute_scale is {}; accepted: 0 to 1000000", self.compute_scale));
        }
        if self.deployment.reaction == Time::ZERO {
            return Err("the reaction takes no time; accepted: a time above 0".to_string());
        }
        Ok(())
    }
}
