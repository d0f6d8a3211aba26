//! What a run yields: raw records, summaries, files, the report.
//!
//! The records of [`model`] go through [`summary::summarise`] into one [`ScenarioSummary`]; the terminal table
//! ([`table::render`]), the files ([`files::write_all`]) and the HTML report ([`report::render`]) all show that
//! summary, so no number is computed twice. Same seed, same bytes: nothing here looks at a clock or at the machine.

pub mod compare;
pub mod files;
pub mod flow_files;
pub mod flow_log;
mod groups;
mod json;
pub mod model;
pub mod pauses;
pub mod ranks;
pub mod report;
pub mod samples;
pub mod stats;
mod stored;
pub mod summary;
pub mod sweep_files;
pub mod table;
pub mod text;

#[cfg(test)]
pub(crate) mod fixture;

pub use files::{FlowFormat, write_all};
pub use flow_log::FlowLog;
pub use model::{Cut, FlowRecord, PortRecord, PriorityCounters, RunOutput, RunStatus, Totals};
pub use summary::{ScenarioSummary, summarise};
