//! The commands that print or write documents about rnic itself: shell completions, manual pages.

use crate::args::{Cli, CompletionsArgs, ManArgs};
use clap::CommandFactory;
use rnic_simulator::error::CliError;
use rnic_simulator::output;
use std::fs;

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
