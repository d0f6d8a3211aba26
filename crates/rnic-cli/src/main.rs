//! The `rnic` command with the standard transports and congestion controls.

use std::process::ExitCode;

fn main() -> ExitCode {
    rnic_cli::main(rnic_sim::Catalogue::standard())
}
