//! The commands of `rnic` that simulate: they parse their arguments, call the crates that do the work, and print the
//! results. The program `rnic-simulator` has these commands only, and builds in a third of the time of `rnic`.
//!
//! It is a library, so that a program that adds its own congestion controls can provide the commands: see [`main`].
//! The crate `rnic-cli` adds the other commands, and uses the modules that are public here.

pub mod absent;
mod args;
pub mod builtin;
mod campaign;
mod describe;
#[cfg(feature = "p4")]
mod drawn;
pub mod error;
mod exec;
mod export;
pub mod format;
#[cfg(feature = "hardware")]
mod hw;
#[cfg(not(feature = "hardware"))]
#[path = "no_hw.rs"]
mod hw;
pub mod interrupt;
mod list;
pub mod live;
pub mod output;
pub mod program;
pub mod progress;
mod provenance;
mod recorded;
pub mod recording;
mod reproduce;
mod resume;
mod run;
mod schema;
pub mod selection;
mod shell;

use args::Cli;
use args::Command;
use clap::{ArgMatches, FromArgMatches, Parser, Subcommand};
use error::CliError;
use live::Views;
use rnic_scenario::{ScenarioError, read_with};
pub use rnic_sim::Catalogue;
use rnic_sim::resolve::{Resolved, SetupError, resolve};
use rnic_spec::{RunSpec, Scenario};
use selection::Selection;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Runs the commands of the simulator with the arguments of this program and returns its exit code. `catalogue` lists
/// the congestion controls and transports that scenarios may name.
pub fn main(catalogue: Catalogue) -> ExitCode {
    let dispatch = |cli: Cli| SimulatorCommand(cli.command).run(&catalogue);
    ExitCode::from(execute(std::env::args_os(), dispatch))
}

/// Parses `arguments`, of which the first is the name of the program, calls `dispatch` with the result, and returns the
/// program's exit code. Errors are printed on standard error.
pub fn execute<P: Parser>(
    arguments: impl IntoIterator<Item = OsString>, dispatch: impl FnOnce(P) -> Result<(), CliError>,
) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let parsed = match P::try_parse_from(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            let elsewhere = args::elsewhere::<P>(&error).or_else(|| args::separated::<P>(&error, &arguments));
            // Requests for help and version arrive here too, with code 0. If printing fails, the output is closed.
            let _ = match (args::renamed(&error), args::not_utf8::<P>(&error, arguments.into_iter()).or(elsewhere)) {
                (Some((old, new)), _) => writeln!(io::stderr(), "error: {old} is now called {new}; write {new}"),
                (None, Some(message)) => writeln!(io::stderr(), "error: {message}"),
                (None, None) => error.print(),
            };
            return error.exit_code().clamp(0, 255) as u8;
        }
    };
    match dispatch(parsed) {
        Ok(()) => 0,
        Err(error) => error.report(),
    }
}

/// One of the commands of the simulator, with its arguments. A program that has these commands among others flattens
/// it into the enumeration of its commands.
#[derive(Debug)]
pub struct SimulatorCommand(Command);

impl FromArgMatches for SimulatorCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Command::from_arg_matches(matches).map(SimulatorCommand)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Subcommand for SimulatorCommand {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        Command::augment_subcommands(command)
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Command::augment_subcommands_for_update(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Command::has_subcommand(name)
    }
}

impl SimulatorCommand {
    /// Runs the command. `catalogue` lists the congestion controls and transports that scenarios may name.
    ///
    /// # Errors
    /// The input is invalid, a run failed, or a file cannot be written.
    pub fn run(self, catalogue: &Catalogue) -> Result<(), CliError> {
        self.run_with(catalogue, &live::NoViews)
    }

    /// As [`SimulatorCommand::run`], in a program that has views of runs.
    ///
    /// # Errors
    /// As [`SimulatorCommand::run`]; or a view cannot be opened.
    pub fn run_with(self, catalogue: &Catalogue, views: &dyn Views) -> Result<(), CliError> {
        match self.0 {
            Command::Run(arguments) => run::run(&arguments, catalogue, views),
            Command::Exec(arguments) => exec::exec(&arguments, catalogue),
            Command::Flows(arguments) => export::flows(&arguments, catalogue),
            Command::Topology(arguments) => export::topology(&arguments, catalogue),
            Command::List(arguments) => list::list(&arguments, catalogue),
            Command::Check(arguments) => describe::check(&arguments, catalogue),
            Command::Reproduce(arguments) => reproduce::reproduce(&arguments),
            Command::Campaign(arguments) => campaign::campaign(&arguments, catalogue),
            Command::Hw(arguments) => hw::hw(&arguments),
            Command::Schema(arguments) => schema::schema(&arguments, catalogue),
        }
    }
}

/// Reads the scenario of the command line, a file or a built-in scenario, with its `--set` and `--seed`.
pub fn load_selected(catalogue: &Catalogue, selection: &Selection) -> Result<Scenario, CliError> {
    let origin = builtin::origin(&selection.scenario);
    read_with(&catalogue.vocabulary(), &origin, &selection.set, selection.seed).map_err(|error| match error {
        ScenarioError::Io { path, error } if error.kind() == io::ErrorKind::NotFound => {
            CliError::Input(format!("cannot read `{}`: {error}; {}", path.display(), builtin::suggestion(&path)))
        }
        error => error.into(),
    })
}

/// As [`load_selected`], with those runs only that `names` selects; all runs if there are no names.
fn load_runs(catalogue: &Catalogue, selection: &Selection, names: &[String]) -> Result<Scenario, CliError> {
    let mut scenario = load_selected(catalogue, selection)?;
    for name in names {
        select(&scenario, Some(name))?;
    }
    scenario.runs.retain(|run| names.is_empty() || names.iter().any(|name| is_called(run, name)));
    Ok(scenario)
}

/// Whether `name` selects `run`: `name` is the run's own name, or in a sweep the name of the run in the scenario file.
fn is_called(run: &RunSpec, name: &str) -> bool {
    run.name == name || run.base == name
}

/// The first run that `name` selects. If `name` is `None`, this is the first run of the scenario.
pub fn select<'s>(scenario: &'s Scenario, name: Option<&str>) -> Result<&'s RunSpec, CliError> {
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
pub fn set_up(catalogue: &Catalogue, run: &RunSpec) -> Result<Resolved, CliError> {
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
pub fn cannot_be_set_up((run, error): (String, SetupError)) -> CliError {
    CliError::Input(format!("run \"{run}\" cannot be set up: {error}"))
}
