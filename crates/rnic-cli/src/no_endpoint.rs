//! The commands of the endpoint in a build without the endpoint. Their error says why they are missing.

use rnic_simulator::absent::{self, Ignored};
use rnic_simulator::error::CliError;

/// The error of a command that this build does not have.
fn absent(command: &str) -> CliError {
    match cfg!(target_os = "linux") {
        true => absent::without_feature(command, "endpoint"),
        false => absent::absent(command, "rnic's endpoint runs on Linux only; the other commands are here"),
    }
}

/// Replaces the module of `rnic perf`.
pub(crate) mod perf {
    use super::{CliError, Ignored, absent};

    pub(crate) type PerfArgs = Ignored;

    pub(crate) fn perf(_: &PerfArgs) -> Result<(), CliError> {
        Err(absent("perf"))
    }
}

/// Replaces the module of `rnic mesh`.
pub(crate) mod mesh {
    use super::{CliError, Ignored, absent};

    pub(crate) type MeshArgs = Ignored;

    pub(crate) fn mesh(_: &MeshArgs, _: &rnic_sim::Catalogue) -> Result<(), CliError> {
        Err(absent("mesh"))
    }
}

/// Replaces the module of `rnic ping`.
pub(crate) mod ping {
    use super::{CliError, Ignored, absent};

    pub(crate) type PingArgs = Ignored;

    pub(crate) fn ping(_: &PingArgs) -> Result<(), CliError> {
        Err(absent("ping"))
    }
}

/// Replaces the module of `rnic pingpong`.
pub(crate) mod pingpong {
    use super::{CliError, Ignored, absent};

    pub(crate) type PingpongArgs = Ignored;

    pub(crate) fn pingpong(_: &PingpongArgs) -> Result<(), CliError> {
        Err(absent("pingpong"))
    }
}

/// Replaces the module of `rnic top`.
pub(crate) mod top {
    use super::{CliError, Ignored, absent};

    pub(crate) type TopArgs = Ignored;

    pub(crate) fn top(_: &TopArgs) -> Result<(), CliError> {
        Err(absent("top"))
    }
}

/// Replaces the module of `rnic verbs`.
pub(crate) mod verbs {
    use super::{CliError, Ignored, absent};

    pub(crate) type VerbsArgs = Ignored;

    pub(crate) fn verbs(_: &VerbsArgs) -> Result<(), CliError> {
        Err(absent("verbs"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    enum Absent {
        Mesh(mesh::MeshArgs),
        Perf(perf::PerfArgs),
        Ping(ping::PingArgs),
        Pingpong(pingpong::PingpongArgs),
        Top(top::TopArgs),
        Verbs(verbs::VerbsArgs),
    }

    #[test]
    fn any_arguments_get_the_sentence_that_says_what_is_missing() {
        for arguments in [vec![], vec!["--help"], vec!["10.0.0.2", "-s", "64KiB", "--verify"], vec!["raw", "-p", "1"]] {
            for command in ["mesh", "perf", "ping", "pingpong", "top", "verbs"] {
                let parsed = Absent::try_parse_from(["rnic", command].iter().chain(&arguments)).unwrap();
                let error = match parsed {
                    Absent::Mesh(arguments) => mesh::mesh(&arguments, &rnic_sim::Catalogue::standard()).unwrap_err(),
                    Absent::Perf(arguments) => perf::perf(&arguments).unwrap_err(),
                    Absent::Ping(arguments) => ping::ping(&arguments).unwrap_err(),
                    Absent::Pingpong(arguments) => pingpong::pingpong(&arguments).unwrap_err(),
                    Absent::Top(arguments) => top::top(&arguments).unwrap_err(),
                    Absent::Verbs(arguments) => verbs::verbs(&arguments).unwrap_err(),
                };
                let sentence = error.to_string();
                assert!(sentence.starts_with(&format!("`rnic {command}` is not in this build: ")), "{sentence}");
                assert_eq!(error.code(), 2);
            }
        }
    }
}
