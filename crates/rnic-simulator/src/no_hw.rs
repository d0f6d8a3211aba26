//! Replaces the module `hw` in a build without the cargo feature `hardware`.

use crate::absent::{Ignored, without_feature};
use crate::args::ReproduceArgs;
use crate::error::CliError;

/// The name of the study of hardware in `rnic reproduce`.
pub(crate) const STUDY: &str = "hardware";
/// The title of the hardware study in the list of studies.
pub(crate) const TITLE: &str =
    "IRN and NanoTransport as hardware: not in this build, which lacks the feature `hardware`";

/// The error of `rnic hw`.
pub(crate) fn hw(_: &Ignored) -> Result<(), CliError> {
    Err(without_feature("hw", "hardware"))
}

/// The error of `rnic reproduce hardware`.
pub(crate) fn reproduce(_: &ReproduceArgs) -> Result<(), CliError> {
    Err(without_feature("reproduce hardware", "hardware"))
}
