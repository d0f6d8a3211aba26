//! The `rnic` command: the commands of the simulator (crate `rnic-simulator`), and the commands that measure real
//! networks, run RDMA programs, monitor switches and hosts, and compile transports in P4.
//!
//! It is a library, so that a program that adds its own congestion controls can provide the complete command: see
//! [`main`].

mod args;
mod columns;
mod counters;
mod decode;
mod documents;
mod lint;
mod live;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod mesh;
mod model;
#[cfg(any(test, not(all(feature = "endpoint", target_os = "linux"))))]
mod no_endpoint;
#[cfg(feature = "p4")]
mod p4;
mod page_guard;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod peer;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod perf;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod ping;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod pingpong;
mod run_state;
mod service;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod top;
mod trace;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod trust;
mod tui;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod verbs;

use args::{Cli, Command};
pub use decode::{Undecodable, decode_file};
#[cfg(not(all(feature = "endpoint", target_os = "linux")))]
use no_endpoint::{mesh, perf, ping, pingpong, top, verbs};
pub use rnic_simulator::Catalogue;
use rnic_simulator::error::CliError;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command with the arguments of this program and returns its exit code. `catalogue` lists the congestion
/// controls and transports that scenarios may name.
pub fn main(catalogue: Catalogue) -> ExitCode {
    ExitCode::from(execute(&catalogue, std::env::args_os()))
}

/// Runs the command with `arguments`, of which the first is the name of the program, and returns its exit code. It is
/// for programs that contain the command, such as the Python package.
pub fn execute(catalogue: &Catalogue, arguments: impl IntoIterator<Item = OsString>) -> u8 {
    rnic_simulator::execute(arguments, |cli: Cli| dispatch(cli.command, catalogue))
}

fn dispatch(command: Command, catalogue: &Catalogue) -> Result<(), CliError> {
    match command {
        Command::Simulator(command) => command.run_with(catalogue, &live::CommandViews),
        Command::Perf(arguments) => perf::perf(&arguments),
        Command::Ping(arguments) => ping::ping(&arguments),
        Command::Mesh(arguments) => mesh::mesh(&arguments, catalogue),
        Command::Pingpong(arguments) => pingpong::pingpong(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Verbs(arguments) => verbs::verbs(&arguments),
        Command::Decode(arguments) => decode::decode(&arguments),
        Command::Trace(arguments) => trace::trace(&arguments, catalogue),
        Command::Model(arguments) => model::model(&arguments, catalogue),
        Command::Lint(arguments) => lint::lint(&arguments),
        Command::Counters(arguments) => counters::counters(&arguments),
        #[cfg(feature = "p4")]
        Command::P4(arguments) => p4::p4(&arguments),
        #[cfg(not(feature = "p4"))]
        Command::P4(_) => Err(rnic_simulator::absent::without_feature("p4", "p4")),
        Command::Completions(arguments) => documents::completions(&arguments),
        Command::Man(arguments) => documents::man(&arguments),
    }
}
