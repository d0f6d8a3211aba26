//! The `rnic` command: parses its arguments, calls the library, prints.

mod args;
mod describe;
mod error;
mod export;
mod list;
mod output;
mod progress;
mod run;

use args::{Cli, Command, Selection};
use clap::Parser;
use error::CliError;
use rnic_sim::scenario::{Scenario, load};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too, with code 0. If nobody reads them, nothing is lost.
            let _ = error.print();
            return ExitCode::from(error.exit_code().clamp(0, 255) as u8);
        }
    };
    match dispatch(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}

fn dispatch(command: Command) -> Result<(), CliError> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Flows(arguments) => export::flows(&arguments),
        Command::Topology(arguments) => export::topology(&arguments),
        Command::List(arguments) => list::list(&arguments),
        Command::Check(arguments) => describe::check(&arguments),
    }
}

/// Reads the scenario that the arguments select.
fn load_selected(selection: &Selection) -> Result<Scenario, CliError> {
    Ok(load(&selection.scenario, &selection.set, selection.seed)?)
}
