//! Compiles the program of `transport = "p4:FILE"`.

use super::extends::Files;
use super::reader::{Item, Result};
use rnic_run::{P4Program, P4Source};
use std::collections::BTreeMap;
use std::path::Path;

/// Compiles the program in `file`, one of `files`, which `item` names.
pub(super) fn read(
    item: &Item<'_>, file: &str, constants: BTreeMap<String, u64>, files: Files<'_>,
) -> Result<P4Program> {
    let path = item.folder().join(file);
    let text = files.read(&path).map_err(|error| {
        item.error(format!("cannot read the P4 program `{file}`: {error}"), "a file beside the scenario")
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let include = |beside: &str| files.read(&folder.join(beside)).ok();
    // Messages name a file on disk by its path, as an editor opens it.
    let shown = if let Files::Disk = files { path.to_string_lossy() } else { file.into() };
    let (source, program) = P4Source::compile(&shown, text, &include, constants).map_err(|rejected| {
        let count = rejected.errors.len();
        let errors = if count == 1 { "an error".to_string() } else { format!("{count} errors") };
        item.error(format!("the P4 program `{file}` has {errors}"), rejected.to_string())
    })?;
    // Where a file lies does not determine what it does.
    let source = P4Source { file: file.to_string(), ..source };
    P4Program::of(source, program).map_err(|(annotation, accepted)| {
        let message = format!("the P4 program `{file}` has the annotation {annotation}");
        item.error(message, format!("accepted: {accepted}"))
    })
}
