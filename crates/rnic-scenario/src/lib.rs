//! Reads scenarios from TOML files: what to simulate, on which network and with which traffic.
//!
//! [`load`] turns a file into a [`Scenario`]: plain data, with every value checked. It takes five steps:
//!
//! 1. The text becomes a tree of TOML values in which each key and value knows its position in the text. The tree is
//!    merged over the tree of the file that the scenario extends.
//! 2. Overrides (`--set`) change values of the tree.
//! 3. Each point of the sweep (a combination of swept values) gets a copy of the tree with its values.
//! 4. Each run at this point gets a copy of the point's tree, changed by the run's own `set`.
//! 5. A typed reader turns the tree of the run into a [`RunSpec`](rnic_run::RunSpec).
//!
//! A scenario with mistakes becomes a [`ScenarioError`], which points at the position of each mistake. Mistakes that
//! may only be consequences of others are left out.

mod error;
mod extends;
mod fabric;
mod faults;
pub mod format;
mod graph;
mod mesh;
mod names;
mod output;
mod overrides;
mod p4;
mod read;
mod reader;
mod renamed;
mod repair;
mod schema;
pub(crate) mod sweep;
mod switch;
mod traffic;
mod transport;
mod tree;

pub use error::{Mistake, ScenarioError};
pub use names::{PATTERNS, TOPOLOGIES};
pub use schema::schema;

use extends::Files;
use read::Text;
use rnic_run::{Scenario, Vocabulary};
use std::io;
use std::path::Path;

/// Reads a scenario file.
///
/// Each of `overrides` is the dotted path of a key and the text of its new TOML value; text that is not a TOML value
/// counts as a string. Overrides apply in order, before the sweep and the runs' own `set` tables. `seed` replaces the
/// seed that the file gives. Relative paths in a scenario file start at the folder of this file.
///
/// # Errors
///
/// The file cannot be read, is not TOML, or describes something that cannot be simulated.
pub fn load(path: &Path, overrides: &[(String, String)], seed: Option<u64>) -> Result<Scenario, ScenarioError> {
    load_with(&Vocabulary::standard(), path, overrides, seed)
}

/// As [`load`], with the transports and congestion controls of `vocabulary` instead of the standard ones.
///
/// # Errors
///
/// As for [`load`].
pub fn load_with(
    vocabulary: &Vocabulary, path: &Path, overrides: &[(String, String)], seed: Option<u64>,
) -> Result<Scenario, ScenarioError> {
    let text = std::fs::read_to_string(path).map_err(|error| ScenarioError::Io { path: path.to_path_buf(), error })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let text = Text { text: &text, name: &path.to_string_lossy(), folder, files: Files::Disk };
    read::scenario(vocabulary, &text, overrides, seed)
}

/// Reads a scenario from `text`, as [`load`] does from a file. `name` is the file name for error messages; relative
/// paths in the text start at `base_dir`.
///
/// # Errors
///
/// The text is not TOML, or describes something that cannot be simulated.
pub fn from_str(
    text: &str, name: &str, base_dir: &Path, overrides: &[(String, String)], seed: Option<u64>,
) -> Result<Scenario, ScenarioError> {
    let text = Text { text, name, folder: base_dir, files: Files::Disk };
    read::scenario(&Vocabulary::standard(), &text, overrides, seed)
}

/// Reads the scenario `name` from `files`, which are pairs of path and text in memory, as [`load`] does from a file.
/// The file that it `extends` must be in `files` too.
///
/// # Errors
///
/// `files` has no scenario of this name; otherwise as for [`load`].
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
