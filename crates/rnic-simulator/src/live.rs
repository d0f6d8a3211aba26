//! Views of runs while they are simulated: `rnic run --serve` and `rnic run --tui`. This crate has no sockets, so a
//! program that has views passes them to [`SimulatorCommand::run_with`](crate::SimulatorCommand::run_with).

use crate::absent;
use crate::error::CliError;
use crate::interrupt::Interruption;
use crate::recording::Recordings;
use rnic_campaign::RunListener;
use rnic_spec::Scenario;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a user asks of the server of a run.
#[derive(Clone, Copy, Debug)]
pub struct Serving {
    /// Address to listen at.
    pub address: SocketAddr,
    /// Time for which the server stays after the end of the runs; `None` means until a signal.
    pub stays: Option<Duration>,
}

/// The results of the runs, after all have ended.
#[derive(Clone, Copy, Debug)]
pub struct Results<'r> {
    /// The table of results, as text.
    pub table: &'r str,
    /// The result files.
    pub files: &'r [PathBuf],
    /// Folder of the files of this scenario.
    pub folder: &'r Path,
}

/// A view of the runs of a scenario. It receives the events of the runs; their frames if it asks for them, or it reads
/// their recordings.
pub trait View: RunListener {
    /// Called when all runs have ended, before their results are printed: a view in the terminal gives the terminal
    /// back.
    fn close(&self);
    /// Called when the results are printed and their files are written. Returns when the view may end.
    fn stay(&self, results: &Results<'_>, interruption: &Interruption);
}

/// The views that a program has.
pub trait Views {
    /// Serves the runs of the scenario as a page, with their recordings, which others make.
    ///
    /// # Errors
    /// This program has no server, or the address cannot be used.
    fn serve(&self, scenario: &Scenario, recordings: &Recordings, serving: Serving) -> Result<Box<dyn View>, CliError>;
    /// Shows the runs in the terminal.
    ///
    /// # Errors
    /// This program has no such view, or there is no terminal.
    fn terminal(&self, scenario: &Scenario) -> Result<Box<dyn View>, CliError>;
}

/// No views: both options are refused with a sentence that says how to get them.
#[derive(Clone, Copy, Debug)]
pub struct NoViews;

/// How to get a program with views.
const REMEDY: &str = "this program only simulates; `cargo build --release` builds `rnic`, which has it";

impl Views for NoViews {
    fn serve(&self, _: &Scenario, _: &Recordings, _: Serving) -> Result<Box<dyn View>, CliError> {
        Err(absent::absent("run --serve", REMEDY))
    }

    fn terminal(&self, _: &Scenario) -> Result<Box<dyn View>, CliError> {
        Err(absent::absent("run --tui", REMEDY))
    }
}
