//! Views of the runs of `rnic run` while they are simulated: a page (`--serve`), and the terminal (`--tui`).

mod guard;
mod server;
mod state;
mod stream;

use rnic_simulator::error::CliError;
use rnic_simulator::live::{Serving, View, Views};
use rnic_simulator::recording::Recordings;
use rnic_spec::Scenario;

/// The views of the command `rnic`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandViews;

impl Views for CommandViews {
    fn serve(&self, scenario: &Scenario, recordings: &Recordings, serving: Serving) -> Result<Box<dyn View>, CliError> {
        server::open(scenario, recordings, serving)
    }

    fn terminal(&self, scenario: &Scenario) -> Result<Box<dyn View>, CliError> {
        crate::tui::open(scenario)
    }
}
