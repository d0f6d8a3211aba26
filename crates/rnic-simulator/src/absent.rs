//! Commands that a build leaves out because a cargo feature is off. Their error names the missing feature.

use crate::error::CliError;
use clap::Args;
use std::ffi::OsString;

/// The arguments of a command that this build does not have. It accepts everything, so that the command always reports
/// what is missing.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

/// The error of the command `rnic COMMAND`, which this build does not have. `remedy` says why, and how to get the
/// command.
pub fn absent(command: &str, remedy: &str) -> CliError {
    CliError::Input(format!("`rnic {command}` is not in this build: {remedy}"))
}

/// The error of a command that needs the cargo feature `feature`, which is off.
pub fn without_feature(command: &str, feature: &str) -> CliError {
    let remedy = format!("this rnic was built without the feature `{feature}`: build it with `cargo build --release`");
    absent(command, &remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Absent {
        #[command(flatten)]
        arguments: Ignored,
    }

    #[test]
    fn any_arguments_are_accepted_and_the_error_names_the_feature() {
        for arguments in [vec![], vec!["--help"], vec!["irn", "--steps", "100"], vec!["check", "-x", "a.p4"]] {
            let parsed = Absent::try_parse_from(std::iter::once("hw").chain(arguments.iter().copied())).unwrap();
            assert_eq!(parsed.arguments._arguments.len(), arguments.len());
        }
        let error = without_feature("hw", "hardware");
        let sentence = "`rnic hw` is not in this build: this rnic was built without the feature `hardware`: build it \
                        with `cargo build --release`";
        assert_eq!((error.to_string().as_str(), error.code()), (sentence, 2));
    }
}
