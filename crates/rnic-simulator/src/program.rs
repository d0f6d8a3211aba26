//! The program that runs the command: its command line, with which it can start itself again, and its identity.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A program that runs the command, but is not its executable: the interpreter of the Python package.
#[derive(Debug)]
pub struct Interpreter {
    /// The program and the arguments that start the command, before the arguments of the command.
    pub command: Vec<OsString>,
    /// The folder of `libibverbs.so.1` and `librdmacm.so.1`. It exists only in packages of a release.
    pub libraries: PathBuf,
}

static INTERPRETER: OnceLock<Interpreter> = OnceLock::new();

/// Declares that an interpreter runs the command in this process. Only the first call has an effect.
pub fn run_by(interpreter: Interpreter) {
    let _ = INTERPRETER.set(interpreter);
}

/// The program and the arguments that start the command again.
///
/// # Errors
/// The operating system does not know the path of this program's file.
pub fn command() -> io::Result<Vec<OsString>> {
    match INTERPRETER.get() {
        Some(interpreter) => Ok(interpreter.command.clone()),
        None => Ok(vec![std::env::current_exe()?.into()]),
    }
}

/// The folder of the RDMA libraries, if an interpreter runs the command and its package contains them.
pub fn libraries() -> Option<&'static Path> {
    INTERPRETER.get().map(|interpreter| interpreter.libraries.as_path())
}

/// Identifies this program by the length and the checksum of its executable file. Two programs with different
/// congestion controls of the same name differ in their executables.
pub(crate) fn identity() -> io::Result<String> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(std::env::current_exe()?)?);
    let (mut length, mut sum) = (0, crc32fast::Hasher::new());
    loop {
        let bytes = file.fill_buf()?;
        let count = bytes.len();
        if count == 0 {
            return Ok(format!("{length} bytes, CRC-32 {:08x}", sum.finalize()));
        }
        sum.update(bytes);
        length += count;
        file.consume(count);
    }
}
