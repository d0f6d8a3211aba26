//! What records or shows runs while they are simulated, beside the progress bars.

use super::replay::Replaying;
use super::traces::Traces;
use crate::args::RunArgs;
use crate::error::CliError;
use crate::live::{Serving, View, Views};
use crate::output::note;
use crate::recording::Recordings;
use rnic_campaign::RunListener;
use rnic_spec::Scenario;
use std::path::PathBuf;

/// Number of runs that are recorded for a page without a replay: the first of the scenario.
const SERVED: usize = 8;
/// Size of a recording for a page without a replay, on which the number of its frames depends.
const SERVED_BYTES: u64 = 2_000_000;

/// The traces, the recordings, the replay and the view of the runs of a scenario.
pub(super) struct Watching<'s> {
    traces: Traces<'s>,
    recordings: Recordings,
    replaying: Option<Replaying<'s>>,
    view: Option<Box<dyn View>>,
}

/// What is left of [`Watching`] after the last run.
pub(super) struct Watched {
    /// The page of the replay.
    pub(super) replay: Option<String>,
    /// The written traces.
    pub(super) files: Vec<PathBuf>,
    /// The view, which may show the results.
    pub(super) view: Option<Box<dyn View>>,
}

impl<'s> Watching<'s> {
    /// Creates the files of the traces and opens the view.
    pub(super) fn open(
        arguments: &RunArgs, scenario: &'s Scenario, replaying: Option<Replaying<'s>>, views: &dyn Views,
    ) -> Result<Watching<'s>, CliError> {
        let traces = Traces::create(arguments, scenario)?;
        let recordings = match (&replaying, arguments.serve) {
            (Some(replaying), _) => replaying.recordings().clone(),
            (None, Some(_)) => Recordings::of(&scenario.runs[..scenario.runs.len().min(SERVED)], SERVED_BYTES, &[]),
            (None, None) => Recordings::default(),
        };
        let view = match arguments.serve {
            Some(address) => {
                Some(views.serve(scenario, &recordings, Serving { address, stays: arguments.serve_for })?)
            }
            None if arguments.tui => Some(views.terminal(scenario)?),
            None => None,
        };
        Ok(Watching { traces, recordings, replaying, view })
    }

    /// All of them as listeners to the runs.
    pub(super) fn listeners(&self) -> Vec<&dyn RunListener> {
        let mut listeners: Vec<&dyn RunListener> = vec![&self.traces, &self.recordings];
        listeners.extend(self.replaying.as_ref().map(|replaying| replaying as &dyn RunListener));
        listeners.extend(self.view.as_ref().map(|view| &**view as &dyn RunListener));
        listeners
    }

    /// Ends what is for the time of the simulation.
    pub(super) fn conclude(self, is_quiet: bool) -> Result<Watched, CliError> {
        let Watching { traces, replaying, view, .. } = self;
        if let Some(view) = &view {
            view.close();
        }
        for sentence in replaying.iter().flat_map(Replaying::absent).filter(|_| !is_quiet) {
            note(&sentence);
        }
        let replay = replaying.as_ref().map(Replaying::page).transpose()?;
        Ok(Watched { replay, files: traces.conclude(is_quiet)?, view })
    }
}
