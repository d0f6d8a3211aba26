//! Scenarios: what to simulate, read from a TOML file.
//!
//! [`load`] goes from a file to [`Scenario`], plain data in which every value is checked. The way there has four steps:
//! the text becomes a tree in which each key and value knows its place; overrides change the tree; each run takes a copy
//! of the tree with its own `set` applied; a typed reader turns the copy into a [`RunSpec`]. The first thing that is
//! wrong ends it with a [`ScenarioError`] that points at the place.

mod error;
mod fabric;
mod graph;
pub mod model;
mod names;
mod overrides;
mod read;
mod reader;
mod traffic;
mod transport;
mod tree;

pub use error::{Mistake, ScenarioError};
pub use fabric::hosts;
pub use model::{
    EcnSetup, FabricSetup, Limits, Recovery, RunSpec, Scenario, SwitchSetup, Traffic, TrafficPattern, TransportSpec,
};
pub use names::{PATTERNS, TOPOLOGIES};
pub(crate) use transport::header;

use crate::catalogue::Catalogue;
use std::path::Path;

/// Reads a scenario file.
///
/// Each override is a dotted path and the text of a TOML value (text that is no TOML value counts as a string); they
/// apply in order, before the runs' own `set` tables. `seed` replaces the file's. Files that the scenario names are
/// relative to its folder.
///
/// # Errors
///
/// When the file cannot be read, is not TOML, or says something that cannot be simulated.
pub fn load(path: &Path, overrides: &[(String, String)], seed: Option<u64>) -> Result<Scenario, ScenarioError> {
    load_with(&Catalogue::standard(), path, overrides, seed)
}

/// As [`load`], with the congestion controls of a catalogue of one's own.
///
/// # Errors
///
/// As [`load`].
pub fn load_with(
    catalogue: &Catalogue, path: &Path, overrides: &[(String, String)], seed: Option<u64>,
) -> Result<Scenario, ScenarioError> {
    let text = std::fs::read_to_string(path).map_err(|error| ScenarioError::Io { path: path.to_path_buf(), error })?;
    let base_dir = path.parent().unwrap_or(Path::new(""));
    read::scenario(catalogue, &text, &path.to_string_lossy(), base_dir, overrides, seed)
}

/// Reads a scenario from its text, as [`load`] does; `name` is the file's name, `base_dir` its folder.
///
/// # Errors
///
/// When the text is not TOML or says something that cannot be simulated.
pub fn from_str(
    text: &str, name: &str, base_dir: &Path, overrides: &[(String, String)], seed: Option<u64>,
) -> Result<Scenario, ScenarioError> {
    read::scenario(&Catalogue::standard(), text, name, base_dir, overrides, seed)
}
