//! Compilation of a P4 program's source text to a [`Program`] that can run on a NIC.

use crate::diagnostic::Diagnostic;
use crate::parser::{Include, parse_program};
use crate::preprocess::MAX_BYTES;
use crate::program::Program;
use crate::sema;
use crate::source::{SourceFile, SourceMap};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The errors of a P4 program that the compiler refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// The errors in the program, 1 to 20 of them. The compiler stops after 20 errors.
    pub errors: Vec<Diagnostic>,
    /// The program's source files, which the spans of the errors refer to.
    pub sources: SourceMap,
}

impl fmt::Display for Rejected {
    /// Writes all errors of the program as plain text, each with its source line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors: Vec<String> = self.errors.iter().map(|error| error.render(&self.sources)).collect();
        f.write_str(errors.join("\n").trim_end())
    }
}

impl std::error::Error for Rejected {}

/// The reason why [`compile_file`] returned no program.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A source file of the program cannot be read.
    #[error("cannot read {file}: {error}")]
    Unreadable {
        /// Path of the source file.
        file: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The program has errors.
    #[error(transparent)]
    Rejected(#[from] Rejected),
}

/// Compiles a P4 program.
///
/// `include` is a function that returns the text of a file that the program includes with `#include "..."`. Its
/// argument is the file's path, relative to the folder of the program's main file. `constants` lists names of top-level
/// constants and the values that replace the values in the program.
///
/// # Errors
/// The errors in the program, each with its position.
///
/// # Examples
/// ```
/// use rnic_nano::compile;
/// use rnic_nano::source::SourceFile;
///
/// let text = "const bit<8> A = 256;\n".to_string();
/// let main = SourceFile { name: "wrong.p4".into(), text };
/// let rejected = compile(main, &|_path| None, &[]).expect_err("256 does not fit in 8 bits");
/// assert!(rejected.to_string().contains("wrong.p4:1:18"));
/// ```
pub fn compile(main: SourceFile, include: Include, constants: &[(String, u128)]) -> Result<Program, Rejected> {
    let (module, sources) = parse_program(main, include).map_err(|(errors, sources)| Rejected { errors, sources })?;
    let checked = sema::analyse(&module, constants);
    match checked.and_then(Program::new) {
        Ok(program) => Ok(program.with_sources(sources)),
        Err(errors) => Err(Rejected { errors, sources }),
    }
}

/// Compiles the program in a file, together with the files that it includes.
///
/// `constants` lists names of top-level constants and the values that replace the values in the program.
///
/// # Errors
/// [`CompileError::Unreadable`] if the file cannot be read, [`CompileError::Rejected`] if the program has errors.
///
/// # Examples
/// ```
/// use rnic_nano::compile_file;
/// use std::path::Path;
///
/// let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/ndp.p4"));
/// let program = compile_file(path, &[])?;
/// // The NDP program adds a header of 29 bytes after the Ethernet and IPv4 headers.
/// assert!(program.emitted_bytes() <= program.header_room() as u32);
/// # Ok::<(), rnic_nano::CompileError>(())
/// ```
pub fn compile_file(path: &Path, constants: &[(String, u128)]) -> Result<Program, CompileError> {
    let name = path.to_string_lossy().into_owned();
    let text = read(path).map_err(|error| CompileError::Unreadable { file: name.clone(), error })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let include = |beside: &str| read(&folder.join(beside)).ok();
    Ok(compile(SourceFile { name, text }, &include, constants)?)
}

/// Reads the text of a file, but at most one byte more than the compiler accepts. From the additional byte, the
/// preprocessor detects that the file is too large, and reports the limit.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}
