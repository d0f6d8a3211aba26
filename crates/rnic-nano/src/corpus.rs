//! Checks of many programs: how far the compiler gets with each of the programs in a folder.

use crate::compile::{CompileError, compile_file};
use crate::diagnostic::Diagnostic;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of programs in a folder that are checked.
pub(crate) const MAX_PROGRAMS: usize = 100_000;

/// The programs of a folder and its subfolders, in groups.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Corpus {
    /// Programs that run on a NIC of the NanoTransport architecture.
    pub run: Vec<PathBuf>,
    /// Programs without an error, but for another architecture or without `main`.
    pub without_main: Vec<PathBuf>,
    /// Refused programs by their first error, in which names and numbers are replaced by `_`.
    pub refused: BTreeMap<String, Vec<PathBuf>>,
}

impl Corpus {
    /// Compiles all files in `folder` whose name ends with `.p4`.
    ///
    /// # Errors
    /// The folder or a file in it cannot be read, or there are more than `MAX_PROGRAMS` files.
    pub fn check(folder: &Path) -> io::Result<Corpus> {
        let mut files = Vec::new();
        collect(folder, &mut files)?;
        files.sort();
        let mut corpus = Corpus::default();
        for file in files {
            match compile_file(&file, &[]) {
                Ok(_) => corpus.run.push(file),
                Err(CompileError::Rejected(rejected)) => match rejected.errors.first() {
                    Some(_) if rejected.errors.iter().all(lacks_main) => corpus.without_main.push(file),
                    Some(first) => corpus.refused.entry(group(&first.message)).or_default().push(file),
                    None => {}
                },
                Err(CompileError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::InvalidData => {
                    corpus.refused.entry("not UTF-8 text".into()).or_default().push(file);
                }
                Err(CompileError::Unreadable { error, .. }) => return Err(error),
            }
        }
        Ok(corpus)
    }

    /// Number of programs.
    pub fn programs(&self) -> usize {
        self.run.len() + self.without_main.len() + self.refused.values().map(Vec::len).sum::<usize>()
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&path, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "p4") {
            files.push(path);
        }
        if files.len() > MAX_PROGRAMS {
            return Err(io::Error::other(format!("more than {MAX_PROGRAMS} programs")));
        }
    }
    Ok(())
}

/// Whether an error only says that the program is for another architecture or has no `main`.
fn lacks_main(error: &Diagnostic) -> bool {
    error.message.contains("an architecture other than NanoTransport") || error.message == "the program has no `main`"
}

/// An error message without its names.
fn group(message: &str) -> String {
    let parts = message.split('`').enumerate().map(|(number, part)| if number % 2 == 1 { "_" } else { part });
    let text = parts.collect::<Vec<_>>().join("`");
    // A construct that is not supported keeps its name.
    if message.starts_with("not supported: ") { message.to_string() } else { text }
}
