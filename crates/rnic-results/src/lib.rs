//! Results of runs: statistics, result files, the table on the terminal, the HTML report.
//!
//! [`summarise`] turns the records of a scenario's runs ([`rnic_spec::RunRecord`]) into one [`ScenarioSummary`]. The
//! table ([`table::render`]), the files ([`write_all`]) and the HTML report ([`report::render`]) all show this summary,
//! so no statistic is computed twice. No file depends on a clock or on the machine: the same scenario and seed give the
//! same bytes.
//!
//! ```
//! # let scenario = rnic_spec::Scenario { title: "Empty".into(), name: "empty".into(), seed: 1, runs: Vec::new() };
//! # let records: Vec<rnic_spec::RunRecord> = Vec::new();
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path();
//! // `scenario` and `records` are the argument and the result of `rnic_campaign::run_scenario`.
//! use rnic_results::{FlowFormat, summarise, table, write_all};
//!
//! let summary = summarise(&scenario, &records);
//! println!("{}", table::render(&summary, 100));
//! let paths = write_all(folder, &scenario, &records, &summary, &[FlowFormat::Parquet])?;
//! assert!(paths.contains(&folder.join("summary.json")) && paths.contains(&folder.join("flows.parquet")));
//! # Ok::<(), std::io::Error>(())
//! ```

mod answered;
mod collectives;
pub mod columns;
mod compare;
mod conclusion;
pub mod dataset;
pub mod estimate;
pub mod fidelity;
pub mod files;
pub mod flow_files;
pub mod folder;
mod groups;
mod json;
mod matrix;
mod mesh;
mod notes;
mod pauses;
pub mod perfetto;
pub mod ranks;
pub mod replay;
pub mod report;
pub mod samples;
mod seeds;
pub mod stats;
mod step_links;
mod steps;
pub mod summary;
mod sweep_files;
pub mod table;
pub mod text;
mod tiers;
mod timeline;
mod watchdog;

#[cfg(any(test, feature = "testing"))]
pub mod fixture;

pub use files::{FlowFormat, write_all};
pub use summary::{ScenarioSummary, summarise};
