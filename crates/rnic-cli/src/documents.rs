//! The commands that print or write documents about rnic itself: JSON Schemas, shell completions, manual pages.

use crate::args::{Cli, CompletionsArgs, ManArgs, Schema, SchemaArgs};
use crate::error::CliError;
use crate::output;
use clap::CommandFactory;
use rnic_run::{RunEvent, RunSpec};
use rnic_sim::Catalogue;
use std::fs;

/// Prints a JSON Schema. That of scenarios has the transports and congestion controls of `catalogue`.
pub(crate) fn schema(arguments: &SchemaArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let schema = match arguments.of {
        Schema::Scenario => rnic_scenario::schema(&catalogue.vocabulary()),
        Schema::Spec => RunSpec::json_schema(),
        Schema::Event => RunEvent::json_schema(),
    };
    output::print(|out| writeln!(out, "{schema:#}"))
}

/// Prints the completion script of a shell.
pub(crate) fn completions(arguments: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "rnic", &mut script);
    output::print(|out| out.write_all(&script))
}

/// Writes the manual pages: `rnic.1`, and one for each command.
pub(crate) fn man(arguments: &ManArgs) -> Result<(), CliError> {
    let folder = &arguments.folder;
    let unwritable = |error| CliError::Io { doing: format!("cannot write to `{}`", folder.display()), error };
    fs::create_dir_all(folder).map_err(unwritable)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(unwritable)
}
