//! The `rnic` command.

use pyo3::prelude::*;
use rnic_sim::Catalogue;
use std::ffi::OsString;
use std::io::Write;

/// Runs the command `rnic` with `arguments`, of which the first is the name of the program. Returns its exit code.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| {
        let code = rnic_cli::execute(&Catalogue::standard(), arguments);
        // A program in Rust flushes its output when it ends. If the reader has closed it, the rest is lost.
        let _ = std::io::stdout().flush();
        code
    })
}
