//! The `rnic` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    rnic_cli::main(rnic_sim::Catalogue::standard())
}
