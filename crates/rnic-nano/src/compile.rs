//! From a program's text to what runs on a NIC.

use crate::diagnostic::Diagnostic;
use crate::parser::{Include, parse_program};
use crate::preprocess::MOST_BYTES;
use crate::program::Program;
use crate::sema;
use crate::source::{SourceFile, SourceMap};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A program that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// What is wrong: at least one thing, at most 20.
    pub errors: Vec<Diagnostic>,
    /// The files that the places are in.
    pub sources: SourceMap,
}

impl fmt::Display for Rejected {
    /// All of it as plain text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors: Vec<String> = self.errors.iter().map(|error| error.render(&self.sources)).collect();
        f.write_str(errors.join("\n").trim_end())
    }
}

impl std::error::Error for Rejected {}

/// Why a file gives no program.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// It cannot be read.
    #[error("cannot read {file}: {error}")]
    Unreadable {
        /// The file.
        file: String,
        /// What the operating system says.
        error: io::Error,
    },
    /// It is wrong.
    #[error(transparent)]
    Rejected(#[from] Rejected),
}

/// Compiles a program. `include` gives the text of a file beside it, by its path relative to the program; `constants` gives constants of
/// its top level other values, by name.
///
/// # Errors
/// What is wrong with the program, and where.
pub fn compile(main: SourceFile, include: Include, constants: &[(String, u128)]) -> Result<Program, Rejected> {
    let (module, sources) = parse_program(main, include).map_err(|(errors, sources)| Rejected { errors, sources })?;
    let checked = sema::analyse(&module, constants);
    checked.and_then(Program::new).map_err(|errors| Rejected { errors, sources })
}

/// Compiles the program in a file, with the files beside it that it includes.
///
/// # Errors
/// The file cannot be read, or what is wrong with the program, and where.
pub fn compile_file(path: &Path, constants: &[(String, u128)]) -> Result<Program, CompileError> {
    let name = path.to_string_lossy().into_owned();
    let text = read(path).map_err(|error| CompileError::Unreadable { file: name.clone(), error })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let include = |beside: &str| read(&folder.join(beside)).ok();
    Ok(compile(SourceFile { name, text }, &include, constants)?)
}

/// A file's text; of one that is far too long only so much that the compiler refuses it.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}
