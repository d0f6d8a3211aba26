//! Verilator's lint of what this project writes and generates.

use crate::model::Design;
use crate::tools::{HwError, Tool, run};
use std::process::Command;

/// Warnings of `verilator -Wall` that are not about faults, and why they are there.
pub const WAIVED: [(&str, &str); 6] = [
    ("CMPCONST", "a program may compare with the largest number of a type"),
    ("UNSIGNED", "a program may compare with 0"),
    ("DECLFILENAME", "a file of generated Verilog has the name of its program, not of its first module"),
    ("UNUSEDSIGNAL", "a program does not use every bit of a header or of an interface"),
    ("UNUSEDPARAM", "parameters for widths are passed on to blocks that derive others from them"),
    ("PINCONNECTEMPTY", "outputs that no block needs are left open explicitly"),
];

/// Checks a design with `verilator --lint-only -Wall`, apart from the warnings that are [`WAIVED`].
///
/// # Errors
/// Verilator is not installed; the design has a warning, which the error contains.
pub fn lint(design: &Design) -> Result<(), HwError> {
    let verilator = Tool::Verilator.find()?;
    let folder = tempfile::tempdir().map_err(HwError::io("cannot make a temporary folder"))?;
    let files = design.write(folder.path())?;
    let mut command = Command::new(verilator);
    command.args(["--lint-only", "-Wall", "--top-module", design.top]);
    command.args(WAIVED.map(|(name, _)| format!("-Wno-{name}")));
    command.args(design.parameters.iter().map(|(name, value)| format!("-G{name}={value}")));
    run("verilator", command.args(files)).map(|_| ())
}
