//! What a run yields: raw records, summaries, files, the report.
//!
//! The records of a run ([`rnic_run::RunRecord`]) go through [`summary::summarise`] into one [`ScenarioSummary`]; the terminal table
//! ([`table::render`]), the files ([`files::write_all`]) and the HTML report ([`report::render`]) all show that
//! summary, so no number is computed twice. Same seed, same bytes: nothing here looks at a clock or at the machine.

pub mod compare;
pub mod files;
pub mod flow_files;
mod groups;
mod json;
pub mod pauses;
pub mod ranks;
pub mod report;
pub mod samples;
pub mod stats;
pub mod summary;
pub mod sweep_files;
pub mod table;
pub mod text;

#[cfg(any(test, feature = "testing"))]
pub mod fixture;

pub use files::{FlowFormat, write_all};
pub use summary::{ScenarioSummary, summarise};
