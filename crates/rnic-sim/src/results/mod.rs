//! What a run yields: raw records, summaries, files, the report.

pub mod model;

pub use model::{FlowRecord, PortRecord, PriorityCounters, RunOutput, RunStatus, Totals};
