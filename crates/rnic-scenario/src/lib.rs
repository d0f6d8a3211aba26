//! Scenarios: what to simulate, read from a TOML file.
//!
//! [`load`] goes from a file to [`Scenario`], plain data in which every value is checked. The way there has five steps:
//! the text becomes a tree in which each key and value knows its place, over the tree of the file that it extends;
//! overrides change the tree; each point of the sweep takes a copy with its values in place; each run takes a copy of
//! that with its own `set` applied; a typed reader turns the copy into a [`RunSpec`](rnic_run::RunSpec). The first
//! thing that is wrong ends it with a [`ScenarioError`] that points at the place.

mod error;
mod extends;
mod fabric;
mod faults;
pub mod format;
mod graph;
mod names;
mod output;
mod overrides;
mod p4;
mod read;
mod reader;
mod renamed;
pub(crate) mod sweep;
mod switch;
mod traffic;
mod transport;
mod tree;

pub use error::{Mistake, ScenarioError};
pub use names::{PATTERNS, TOPOLOGIES};

use extends::Files;
use read::Text;
use rnic_run::{Scenario, Vocabulary};
use std::io;
use std::path::Path;

/// Reads a scenario file.
///
/// Each override is a dotted path and the text of a TOML value (text that is no TOML value counts as a string); they
/// apply in order, before the sweep and the runs' own `set` tables. `seed` replaces the file's. Files that a file names
/// are relative to its folder.
///
/// # Errors
///
/// When the file cannot be read, is not TOML, or says something that cannot be simulated.
pub fn load(path: &Path, overrides: &[(String, String)], seed: Option<u64>) -> Result<Scenario, ScenarioError> {
    load_with(&Vocabulary::standard(), path, overrides, seed)
}

/// As [`load`], with names of one's own.
///
/// # Errors
///
/// As [`load`].
pub fn load_with(
    vocabulary: &Vocabulary, path: &Path, overrides: &[(String, String)], seed: Option<u64>,
) -> Result<Scenario, ScenarioError> {
    let text = std::fs::read_to_string(path).map_err(|error| ScenarioError::Io { path: path.to_path_buf(), error })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let text = Text { text: &text, name: &path.to_string_lossy(), folder, files: Files::Disk };
    read::scenario(vocabulary, &text, overrides, seed)
}

/// Reads a scenario from its text, as [`load`] does; `name` is the file's name, `base_dir` its folder.
///
/// # Errors
///
/// When the text is not TOML or says something that cannot be simulated.
pub fn from_str(
    text: &str, name: &str, base_dir: &Path, overrides: &[(String, String)], seed: Option<u64>,
) -> Result<Scenario, ScenarioError> {
    let text = Text { text, name, folder: base_dir, files: Files::Disk };
    read::scenario(&Vocabulary::standard(), &text, overrides, seed)
}

/// Reads one of several scenarios that are in memory, as [`load`] does. Each has a path and a text; what it `extends`
/// is one of the others.
///
/// # Errors
///
/// When there is no scenario of this name, or as [`load`].
pub fn from_embedded(
    files: &[(&str, &str)], name: &str, overrides: &[(String, String)], seed: Option<u64>,
) -> Result<Scenario, ScenarioError> {
    let path = Path::new(name);
    let files = Files::Embedded(files);
    let text = files.read(path).map_err(|why| ScenarioError::Io {
        path: path.to_path_buf(),
        error: io::Error::new(io::ErrorKind::NotFound, why),
    })?;
    let text = Text { text: &text, name, folder: path.parent().unwrap_or(Path::new("")), files };
    read::scenario(&Vocabulary::standard(), &text, overrides, seed)
}
