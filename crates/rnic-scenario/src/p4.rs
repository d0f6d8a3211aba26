//! Compiles the program of `transport = "p4:FILE"`.

use super::extends::Files;
use super::reader::{Item, Result};
use rnic_nano::source::SourceFile;
use rnic_nano::{CompileError, compile, compile_file};
use rnic_run::P4Program;
use std::path::Path;

/// Compiles the program in `file`, one of `files`, which `item` names.
pub(super) fn read(item: &Item<'_>, file: &str, constants: &[(String, u128)], files: Files<'_>) -> Result<P4Program> {
    let path = item.folder().join(file);
    let unreadable = |error: String| {
        item.error(format!("cannot read the P4 program `{file}`: {error}"), "a file beside the scenario")
    };
    let compiled = match files {
        Files::Disk => compile_file(&path, constants),
        Files::Embedded(_) => {
            let text = files.read(&path).map_err(unreadable)?;
            let folder = path.parent().unwrap_or(Path::new(""));
            let include = |beside: &str| files.read(&folder.join(beside)).ok();
            compile(SourceFile { name: file.to_string(), text }, &include, constants).map_err(CompileError::from)
        }
    };
    let program = compiled.map_err(|error| match error {
        CompileError::Unreadable { error, .. } => unreadable(error.to_string()),
        CompileError::Rejected(rejected) => {
            let count = rejected.errors.len();
            let errors = if count == 1 { "an error".to_string() } else { format!("{count} errors") };
            item.error(format!("the P4 program `{file}` has {errors}"), rejected.to_string())
        }
    })?;
    P4Program::of(program).map_err(|(annotation, accepted)| {
        let message = format!("the P4 program `{file}` has the annotation {annotation}");
        item.error(message, format!("accepted: {accepted}"))
    })
}
