//! The `rnic` command.

use pyo3::prelude::*;
use rnic_sim::Catalogue;
use rnic_simulator::program::{Interpreter, run_by};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

/// Runs the command `rnic` with `arguments`, of which the first is the name of the program. Returns its exit code.
/// `start` is the program and the arguments that start the command again, and `libraries` the folder of the RDMA
/// libraries.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, arguments: Vec<OsString>, start: Vec<OsString>, libraries: PathBuf) -> u8 {
    run_by(Interpreter { command: start, libraries });
    py.detach(|| {
        let code = rnic_cli::execute(&Catalogue::standard(), arguments);
        // A program in Rust flushes its output when it ends. If the reader has closed it, the rest is lost.
        let _ = std::io::stdout().flush();
        code
    })
}
