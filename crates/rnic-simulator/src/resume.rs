//! Stores the finished runs of a scenario while other runs are simulated, so that `rnic run --resume` can use them.

use crate::args::RunArgs;
use crate::error::CliError;
use crate::output::note;
use crate::program;
use crate::progress::Bars;
use parking_lot::Mutex;
use rnic_campaign::{CachedRuns, RunCache, RunListener};
use rnic_sim::Catalogue;
use rnic_spec::RunEvent;
use rnic_spec::Scenario;
use rnic_spec::{RunRecord, RunStatus};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Name of the folder with the stored runs, in the folder of the result files.
const FOLDER: &str = "unfinished";

/// A scenario with the cache, a folder of files that stores its finished runs.
pub(crate) struct Resumable<'a> {
    cache: RunCache,
    arguments: &'a RunArgs,
    scenario: &'a Scenario,
}

impl<'a> Resumable<'a> {
    /// Opens the cache of the scenario. `None` if runs need not be stored: a scenario with a single run or with a
    /// capture stores no runs unless `--resume` is given.
    pub(crate) fn open(
        arguments: &'a RunArgs, scenario: &'a Scenario, catalogue: &Catalogue,
    ) -> Result<Option<Resumable<'a>>, CliError> {
        if !arguments.resume && (scenario.runs.len() < 2 || arguments.pcap.is_some()) {
            return Ok(None);
        }
        let folder = arguments.out.join(&scenario.name).join(FOLDER);
        match if catalogue.is_extended() { program::identity() } else { Ok(String::new()) } {
            Ok(program) => {
                Ok(Some(Resumable { cache: RunCache::of(scenario, &folder, &program), arguments, scenario }))
            }
            Err(error) if arguments.resume => {
                Err(CliError::Io { doing: "cannot read this program's own file".to_string(), error })
            }
            // Without `--resume`, the scenario can be simulated without the cache.
            Err(_) => Ok(None),
        }
    }

    /// The records of the stored runs that `--resume` can use; `None` for each other run. Messages on standard error
    /// say how many stored runs are used, and why the other stored runs are not used.
    pub(crate) fn take(&self) -> Vec<Option<RunRecord>> {
        let (folder, runs) = (self.cache.folder().display(), self.scenario.runs.len());
        if !self.arguments.resume {
            let count = self.cache.count();
            if count > 0 {
                self.say(&format!(
                    "{count} of {runs} runs are stored in `{folder}`; --resume uses them instead of simulating them again"
                ));
            }
            return Vec::new();
        }
        let cached = self.cache.load();
        match cached.count() {
            0 if cached.refused.is_empty() => self.say(&format!("no runs are stored in `{folder}`")),
            0 => {}
            count => self.say(&format!("using {count} of {runs} runs stored in `{folder}`")),
        }
        self.say_refused(&cached);
        cached.records
    }

    /// Prints a sentence for each reason for which stored runs cannot be used.
    fn say_refused(&self, cached: &CachedRuns) {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (run, why) in &cached.refused {
            reasons.entry(why).or_default().push(&self.scenario.runs[*run].name);
        }
        for (why, runs) in reasons {
            match runs.as_slice() {
                [run] => self.say(&format!("run \"{run}\" is simulated again: the stored result {why}")),
                runs => self.say(&format!(
                    "{} runs (the first is \"{}\") are simulated again: the stored result {why}",
                    runs.len(),
                    runs[0]
                )),
            }
        }
    }

    fn say(&self, sentence: &str) {
        if !self.arguments.quiet {
            note(sentence);
        }
    }

    /// A [`RunListener`] that stores each run when it finishes; `None` if the scenario has a single run. `found` is the
    /// number of runs that are stored already.
    pub(crate) fn storing<'r>(&'r self, bars: Option<&'r Bars>, found: usize) -> Option<Storing<'r>> {
        let state = Mutex::new(State { stored: found, failed: false });
        let total = self.scenario.runs.len();
        (total > 1).then_some(Storing { resumable: self, bars, total, state })
    }

    /// Removes the stored runs of the scenario. It is called when the result files have been written.
    pub(crate) fn close(&self) {
        // With `--run`, the stored runs that were not selected remain in the folder.
        if let Err(error) = self.cache.clear(self.arguments.runs.is_empty()) {
            self.say(&format!("cannot remove the stored runs in `{}`: {error}", self.cache.folder().display()));
        }
    }
}

/// A [`RunListener`] that stores each run when it finishes, and forwards events of the runs to the progress bars.
pub(crate) struct Storing<'r> {
    resumable: &'r Resumable<'r>,
    bars: Option<&'r Bars>,
    total: usize,
    state: Mutex<State>,
}

struct State {
    /// Number of runs of this scenario that are stored.
    stored: usize,
    /// Whether a run could not be stored.
    failed: bool,
}

impl RunListener for Storing<'_> {
    fn event(&self, run: usize, event: &RunEvent) -> ControlFlow<()> {
        self.bars.map_or(ControlFlow::Continue(()), |bars| bars.event(run, event))
    }

    fn finished(&self, run: usize, report: &RunRecord) -> ControlFlow<()> {
        // A partial record must never be used as the result of the run.
        if report.output.status != RunStatus::Interrupted {
            self.store(run, report);
        }
        self.bars.map_or(ControlFlow::Continue(()), |bars| bars.finished(run, report))
    }
}

impl Storing<'_> {
    fn store(&self, run: usize, report: &RunRecord) {
        let mut state = self.state.lock();
        match self.resumable.cache.put(run, report) {
            Ok(()) => state.stored += 1,
            Err(error) if !state.failed => {
                state.failed = true;
                self.aside(|| self.resumable.say(&format!("finished runs are not stored for --resume: {error}")));
            }
            Err(_) => {}
        }
    }

    /// Calls `write`, which prints messages, while the progress bars are hidden.
    fn aside(&self, write: impl FnOnce()) {
        match self.bars {
            Some(bars) => bars.aside(write),
            None => write(),
        }
    }

    /// Says how many runs are stored, for the message after an interruption.
    pub(crate) fn interrupted(&self) -> String {
        let state = self.state.lock();
        match (state.stored, state.failed) {
            (0, _) => "no run has finished".to_string(),
            (stored, false) => format!(
                "{stored} of {} runs have finished and are stored; the same command with --resume continues",
                self.total
            ),
            (stored, true) => format!(
                "{stored} of {} runs are stored, other finished runs could not be stored; the same command with --resume \
                 continues",
                self.total
            ),
        }
    }
}
