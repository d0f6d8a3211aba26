//! Compiles the P4 program of a run with `transport = "p4:FILE"`.

use super::extends::Files;
use super::reader::{Item, Result};
use rnic_spec::{P4Error, P4Program, P4Source, Vocabulary};
use std::collections::BTreeMap;
use std::path::Path;

/// Compiles the P4 program in `file` with the compiler of `vocabulary`; the values in `constants` override constants of
/// the program. `item` is the scenario value that names the file, for error positions; `files` says where files are
/// read.
pub(super) fn read(
    item: &Item<'_>, file: &str, constants: BTreeMap<String, u64>, vocabulary: &Vocabulary, files: Files<'_>,
) -> Result<P4Program> {
    let path = item.folder().join(file);
    let text = files.read(&path).map_err(|error| {
        item.error(format!("cannot read the P4 program `{file}`: {error}"), "a file beside the scenario")
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let include = |beside: &str| files.read(&folder.join(beside)).ok();
    // For a file on disk, error messages have the whole path, so that an editor can open it.
    let shown = if let Files::Disk = files { path.to_string_lossy() } else { file.into() };
    let source = P4Source { file: shown.into_owned(), text, constants, ..P4Source::default() };
    let mut program = vocabulary.compile_p4(source, &include).map_err(|error| match error {
        P4Error::NoCompiler { .. } => item.error(
            format!("transport \"p4:{file}\" needs the P4 compiler, which this build does not have"),
            P4Error::REMEDY,
        ),
        P4Error::Rejected(rejected) => {
            let errors =
                if rejected.count == 1 { "an error".to_string() } else { format!("{} errors", rejected.count) };
            item.error(format!("the P4 program `{file}` has {errors}"), rejected.text)
        }
        P4Error::Annotation { annotation, accepted, .. } => {
            let message = format!("the P4 program `{file}` has the annotation {annotation}");
            item.error(message, format!("accepted: {accepted}"))
        }
    })?;
    // The run specification keeps the file name without the folder, because the folder does not affect results.
    program.source.file = file.to_string();
    Ok(program)
}
