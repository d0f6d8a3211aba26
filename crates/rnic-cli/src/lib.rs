//! The `rnic` command: parses its arguments, calls the crates that do the work, and prints the results.
//!
//! It is a library, so that a program that adds its own congestion controls can provide the complete command: see
//! [`main`].

mod args;
pub mod builtin;
mod campaign;
mod counters;
mod decode;
mod describe;
mod documents;
mod drawn;
mod error;
mod exec;
mod export;
mod format;
mod hw;
mod interrupt;
mod lint;
mod list;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod mesh;
mod model;
#[cfg(any(test, not(all(feature = "endpoint", target_os = "linux"))))]
mod no_endpoint;
mod output;
mod p4;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod peer;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod perf;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod ping;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod pingpong;
mod program;
mod progress;
mod provenance;
mod recorded;
mod reproduce;
mod resume;
mod run;
mod selection;
mod service;
mod shell;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod trust;
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod verbs;

use args::{Cli, Command, Selection};
use clap::Parser;
pub use decode::{Undecodable, decode_file};
use error::CliError;
#[cfg(not(all(feature = "endpoint", target_os = "linux")))]
use no_endpoint::{mesh, perf, ping, pingpong, verbs};
use rnic_run::{RunSpec, Scenario};
use rnic_scenario::read_with;
pub use rnic_sim::Catalogue;
use rnic_sim::resolve::{Resolved, SetupError, resolve};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Runs the command with the arguments of this program and returns its exit code. `catalogue` lists the congestion
/// controls and transports that scenarios may name.
pub fn main(catalogue: Catalogue) -> ExitCode {
    ExitCode::from(execute(&catalogue, std::env::args_os()))
}

/// Runs the command with `arguments`, of which the first is the name of the program, and returns its exit code. It is
/// for programs that contain the command, such as the Python package.
pub fn execute(catalogue: &Catalogue, arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Requests for help and version arrive here too, with code 0. If printing fails, the output is closed.
            let _ = match (args::renamed(&error), args::not_utf8(&error, arguments.into_iter())) {
                (Some((old, new)), _) => writeln!(io::stderr(), "error: {old} is now called {new}; write {new}"),
                (None, Some(message)) => writeln!(io::stderr(), "error: {message}"),
                (None, None) => error.print(),
            };
            return error.exit_code().clamp(0, 255) as u8;
        }
    };
    match dispatch(cli.command, catalogue) {
        Ok(()) => 0,
        Err(error) => error.report(),
    }
}

fn dispatch(command: Command, catalogue: &Catalogue) -> Result<(), CliError> {
    match command {
        Command::Run(arguments) => run::run(&arguments, catalogue),
        Command::Exec(arguments) => exec::exec(&arguments, catalogue),
        Command::Flows(arguments) => export::flows(&arguments, catalogue),
        Command::Topology(arguments) => export::topology(&arguments, catalogue),
        Command::List(arguments) => list::list(&arguments, catalogue),
        Command::Check(arguments) => describe::check(&arguments, catalogue),
        Command::Reproduce(arguments) => reproduce::reproduce(&arguments),
        Command::Campaign(arguments) => campaign::campaign(&arguments, catalogue),
        Command::Perf(arguments) => perf::perf(&arguments),
        Command::Ping(arguments) => ping::ping(&arguments),
        Command::Mesh(arguments) => mesh::mesh(&arguments, catalogue),
        Command::Pingpong(arguments) => pingpong::pingpong(&arguments),
        Command::Verbs(arguments) => verbs::verbs(&arguments),
        Command::Decode(arguments) => decode::decode(&arguments),
        Command::Model(arguments) => model::model(&arguments),
        Command::Lint(arguments) => lint::lint(&arguments),
        Command::Counters(arguments) => counters::counters(&arguments),
        Command::P4(arguments) => p4::p4(&arguments),
        Command::Hw(arguments) => hw::hw(&arguments),
        Command::Schema(arguments) => documents::schema(&arguments, catalogue),
        Command::Completions(arguments) => documents::completions(&arguments),
        Command::Man(arguments) => documents::man(&arguments),
    }
}

/// Reads the scenario of the command line, a file or a built-in scenario, with its `--set` and `--seed`.
fn load_selected(catalogue: &Catalogue, selection: &Selection) -> Result<Scenario, CliError> {
    let origin = builtin::origin(&selection.scenario);
    Ok(read_with(&catalogue.vocabulary(), &origin, &selection.set, selection.seed)?)
}

/// Whether `name` selects `run`: `name` is the run's own name, or in a sweep the name of the run in the scenario file.
fn is_called(run: &RunSpec, name: &str) -> bool {
    run.name == name || run.base == name
}

/// The first run that `name` selects. If `name` is `None`, this is the first run of the scenario.
fn select<'s>(scenario: &'s Scenario, name: Option<&str>) -> Result<&'s RunSpec, CliError> {
    let run = match name {
        Some(name) => scenario.runs.iter().find(|run| is_called(run, name)),
        None => scenario.runs.first(),
    };
    run.ok_or_else(|| {
        let mut names: Vec<String> = Vec::new();
        for run in &scenario.runs {
            let name = format!("\"{}\"", run.base);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let name = name.unwrap_or_default();
        CliError::Input(format!("unknown run \"{name}\"; accepted: {}", names.join(", ")))
    })
}

/// Determines all settings of a run, including those that follow from the fabric.
fn set_up(catalogue: &Catalogue, run: &RunSpec) -> Result<Resolved, CliError> {
    resolve(catalogue, run).map_err(|error| cannot_be_set_up((run.name.clone(), error)))
}

/// The error that runs of a scenario cannot be set up, one sentence for each different reason. `first` is the first
/// such run and its reason.
fn cannot_be_set_up_all(catalogue: &Catalogue, runs: &[RunSpec], first: (String, SetupError)) -> CliError {
    let mut reasons: Vec<(String, String, usize)> = Vec::new();
    let failures = runs.iter().filter_map(|run| Some((run.name.clone(), resolve(catalogue, run).err()?.to_string())));
    for (run, reason) in failures {
        match reasons.iter_mut().find(|(_, known, _)| *known == reason) {
            Some((_, _, others)) => *others += 1,
            None => reasons.push((run, reason, 0)),
        }
    }
    if reasons.is_empty() {
        return cannot_be_set_up(first);
    }
    let sentence = |(run, reason, others): (String, String, usize)| {
        let others = match others {
            0 => String::new(),
            1 => " and another run".to_string(),
            _ => format!(" and {others} other runs"),
        };
        format!("run \"{run}\"{others} cannot be set up: {reason}")
    };
    CliError::Inputs(reasons.into_iter().map(sentence).collect())
}

/// The error that a run cannot be set up.
fn cannot_be_set_up((run, error): (String, SetupError)) -> CliError {
    CliError::Input(format!("run \"{run}\" cannot be set up: {error}"))
}
