//! Reads scenarios from TOML files: what to simulate, on which network and with which traffic.
//!
//! [`load`] turns a file into a [`Scenario`]: plain data, with every value checked. It takes five steps:
//!
//! 1. The text becomes a tree of TOML values in which each key and value knows its position in the text. The tree is
//!    merged over the tree of the file that the scenario extends.
//! 2. Overrides (`--set`) change values of the tree.
//! 3. Each point of the sweep (a combination of swept values) gets a copy of the tree with its values.
//! 4. Each run at this point gets a copy of the point's tree, changed by the run's own `set`.
//! 5. A typed reader turns the tree of the run into a [`RunSpec`](rnic_spec::RunSpec).
//!
//! A scenario with mistakes becomes a [`ScenarioError`], which points at the position of each mistake. Mistakes that
//! may only be consequences of others are left out.

mod beside;
mod deployment;
mod error;
mod extends;
mod fabric;
mod faults;
pub mod format;
mod graph;
mod inference;
mod list;
mod mesh;
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
mod topology_file;
mod trace;
mod traffic;
mod training;
mod transport;
mod tree;
pub mod write;

pub use error::{Mistake, ScenarioError};
pub use schema::schema;

use extends::Files;
use format::Graph;
use read::Text;
use rnic_fabric::config::LinkSpec;
use rnic_spec::{Scenario, Vocabulary};
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
    read_with(vocabulary, &Origin::File(path), overrides, seed)
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
    read_with(&Vocabulary::standard(), &Origin::Text { text, name, folder: base_dir }, overrides, seed)
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
    read_with(&Vocabulary::standard(), &Origin::Embedded { files, name }, overrides, seed)
}

/// Where the text of a scenario is.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'o> {
    /// In this file.
    File(&'o Path),
    /// In memory, with the files that it extends or names.
    Embedded {
        /// Pairs of the path of a file and its text.
        files: &'o [(&'o str, &'o str)],
        /// Path of the scenario's own file.
        name: &'o str,
    },
    /// In memory; other files are in the file system.
    Text {
        /// The text itself.
        text: &'o str,
        /// Name of the file for error messages, and without its extension the name of the scenario.
        name: &'o str,
        /// Folder at which relative paths in the text start.
        folder: &'o Path,
    },
}

impl Origin<'_> {
    /// Calls `read` with the text.
    fn text<T>(&self, read: impl FnOnce(&Text<'_>) -> Result<T, ScenarioError>) -> Result<T, ScenarioError> {
        match *self {
            Origin::File(path) => {
                let text =
                    rnic_workload::read_text(path).map_err(|error| ScenarioError::Io { path: path.into(), error })?;
                let folder = path.parent().unwrap_or(Path::new(""));
                read(&Text { text: &text, name: &path.to_string_lossy(), folder, files: Files::Disk })
            }
            Origin::Embedded { files, name } => {
                let (path, files) = (Path::new(name), Files::Embedded(files));
                let text = files.read(path).map_err(|why| ScenarioError::Io {
                    path: path.into(),
                    error: io::Error::new(io::ErrorKind::NotFound, why),
                })?;
                read(&Text { text: &text, name, folder: path.parent().unwrap_or(Path::new("")), files })
            }
            Origin::Text { text, name, folder } => read(&Text { text, name, folder, files: Files::Disk }),
        }
    }
}

/// Reads a scenario, as [`load`] does, from any [`Origin`], with the transports and congestion controls of
/// `vocabulary`.
///
/// # Errors
///
/// As for [`load`].
pub fn read_with(
    vocabulary: &Vocabulary, origin: &Origin<'_>, overrides: &[(String, String)], seed: Option<u64>,
) -> Result<Scenario, ScenarioError> {
    origin.text(|text| read::scenario(vocabulary, text, overrides, seed))
}

/// The scenario as one TOML text without `extends`: the files that it extends are merged into it, `overrides` and
/// `seed` are applied. Relative paths of existing files become absolute if the scenario is in the file system. The
/// values are not checked: [`read_with`] does this. Inherited keys that have no effect are left out.
///
/// # Errors
///
/// A file cannot be read or is not TOML, or an override cannot be applied.
pub fn to_toml(
    vocabulary: &Vocabulary, origin: &Origin<'_>, overrides: &[(String, String)], seed: Option<u64>,
) -> Result<String, ScenarioError> {
    origin.text(|text| write::merged(vocabulary, text, overrides, seed))
}

/// The text of [`to_toml`] with the fabric as a graph: `topology = "graph"`, and a `[[fabric.link]]` for each link of
/// `graph`, which are the nodes and links of the scenario's own topology. Links have the properties `base` unless their
/// tables give others. With `run`, the text has only the `[[run]]` of this name. Faults of links stay; a link with two
/// faults of the same kind gets a table that the reader refuses.
///
/// # Errors
///
/// As for [`to_toml`].
pub fn to_graph_toml(
    vocabulary: &Vocabulary, origin: &Origin<'_>, overrides: &[(String, String)], seed: Option<u64>, run: Option<&str>,
    base: &LinkSpec, graph: &Graph,
) -> Result<String, ScenarioError> {
    origin.text(|text| write::as_graph(vocabulary, text, overrides, seed, run, base, graph))
}
