//! The program `rnic-simulator`: the commands of `rnic` that simulate, with the standard transports and congestion
//! controls.

use std::process::ExitCode;

fn main() -> ExitCode {
    rnic_simulator::main(rnic_simulator::Catalogue::standard())
}
