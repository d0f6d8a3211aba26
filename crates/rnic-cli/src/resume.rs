//! Runs of a scenario that have finished are kept while the others go on; `rnic run --resume` takes them over.

use crate::args::RunArgs;
use crate::error::CliError;
use crate::progress::Bars;
use rnic_campaign::{CachedRuns, RunCache, RunListener};
use rnic_run::RunEvent;
use rnic_run::RunRecord;
use rnic_run::Scenario;
use rnic_sim::Catalogue;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The folder beside the result files.
const FOLDER: &str = "unfinished";

/// A scenario whose runs are kept, or are to be taken over.
pub(crate) struct Resumable<'a> {
    cache: RunCache,
    arguments: &'a RunArgs,
    scenario: &'a Scenario,
}

impl<'a> Resumable<'a> {
    /// `None` where nothing is to be kept, as of a single run, nor to be taken over.
    pub(crate) fn open(
        arguments: &'a RunArgs, scenario: &'a Scenario, catalogue: &Catalogue,
    ) -> Result<Option<Resumable<'a>>, CliError> {
        if !arguments.resume && (scenario.runs.len() < 2 || arguments.pcap.is_some()) {
            return Ok(None);
        }
        let folder = arguments.out.join(&scenario.name).join(FOLDER);
        match if catalogue.is_extended() { program() } else { Ok(String::new()) } {
            Ok(program) => {
                Ok(Some(Resumable { cache: RunCache::of(scenario, &folder, &program), arguments, scenario }))
            }
            Err(error) if arguments.resume => {
                Err(CliError::Io { doing: "cannot read this program's own file".to_string(), error })
            }
            // Nobody has asked for it.
            Err(_) => Ok(None),
        }
    }

    /// The reports that `--resume` takes over, and `None` for the other runs. Says on standard error what becomes of what is kept.
    pub(crate) fn take(&self) -> Vec<Option<RunRecord>> {
        let (folder, runs) = (self.cache.folder().display(), self.scenario.runs.len());
        if !self.arguments.resume {
            let count = self.cache.count();
            if count > 0 {
                self.say(&format!(
                    "{count} of {runs} runs are kept in `{folder}`; --resume takes them over instead of simulating them again"
                ));
            }
            return Vec::new();
        }
        let cached = self.cache.load();
        match cached.count() {
            0 if cached.refused.is_empty() => self.say(&format!("nothing is kept in `{folder}`")),
            0 => {}
            count => self.say(&format!("{count} of {runs} runs are taken over from `{folder}`")),
        }
        self.say_refused(&cached);
        cached.records
    }

    /// A sentence for each reason for which what is kept is not taken over.
    fn say_refused(&self, cached: &CachedRuns) {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (run, why) in &cached.refused {
            reasons.entry(why).or_default().push(&self.scenario.runs[*run].name);
        }
        for (why, runs) in reasons {
            match runs.as_slice() {
                [run] => self.say(&format!("run \"{run}\" is simulated again: what is kept of it {why}")),
                runs => self.say(&format!(
                    "{} runs, \"{}\" the first of them, are simulated again: what is kept of each {why}",
                    runs.len(),
                    runs[0]
                )),
            }
        }
    }

    fn say(&self, sentence: &str) {
        if !self.arguments.quiet {
            tell(sentence);
        }
    }

    /// What keeps the runs as they finish, after `found` of them; `None` for a single run.
    pub(crate) fn keeping<'r>(&'r self, bars: Option<&'r Bars>, found: usize) -> Option<Keeping<'r>> {
        let state = Mutex::new(State { kept: found, failed: false });
        let total = self.scenario.runs.len();
        (total > 1).then_some(Keeping { resumable: self, bars, total, state })
    }

    /// The results are written: nothing need be kept any more.
    pub(crate) fn close(&self) {
        // With `--run` the others may still be wanted.
        if let Err(error) = self.cache.clear(self.arguments.runs.is_empty()) {
            self.say(&format!("cannot remove what is kept in `{}`: {error}", self.cache.folder().display()));
        }
    }
}

/// What tells this program from any that might simulate differently, for example with another congestion control of the same name: what its
/// file holds.
fn program() -> io::Result<String> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(std::env::current_exe()?)?);
    let (mut length, mut sum) = (0, crc32fast::Hasher::new());
    loop {
        let bytes = file.fill_buf()?;
        let count = bytes.len();
        if count == 0 {
            return Ok(format!("{length} bytes, CRC-32 {:08x}", sum.finalize()));
        }
        sum.update(bytes);
        length += count;
        file.consume(count);
    }
}

/// Where standard error is gone there is nobody to tell.
fn tell(sentence: &str) {
    let _ = writeln!(io::stderr(), "{sentence}");
}

/// Keeps runs as they finish, and tells the bars.
pub(crate) struct Keeping<'r> {
    resumable: &'r Resumable<'r>,
    bars: Option<&'r Bars>,
    total: usize,
    state: Mutex<State>,
}

struct State {
    /// Runs of this scenario that are kept.
    kept: usize,
    /// A run could not be kept.
    failed: bool,
}

impl RunListener for Keeping<'_> {
    fn event(&self, run: usize, event: &RunEvent) {
        if let Some(bars) = self.bars {
            bars.event(run, event);
        }
    }

    fn finished(&self, run: usize, report: &RunRecord) {
        self.keep(run, report);
        if let Some(bars) = self.bars {
            bars.finished(run, report);
        }
    }
}

impl Keeping<'_> {
    fn keep(&self, run: usize, report: &RunRecord) {
        let mut state = self.lock();
        match self.resumable.cache.put(run, report) {
            Ok(()) => state.kept += 1,
            Err(error) if !state.failed => {
                state.failed = true;
                self.aside(|| self.resumable.say(&format!("finished runs are not kept for --resume: {error}")));
            }
            Err(_) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes while no bar is drawn.
    fn aside(&self, write: impl FnOnce()) {
        match self.bars {
            Some(bars) => bars.aside(write),
            None => write(),
        }
    }

    /// Does the work. Ctrl-C says how to go on and ends the program; the second ends it at once.
    pub(crate) fn interruptible<T>(&self, work: impl FnOnce() -> T) -> Result<T, CliError> {
        let listening = |error| CliError::Io { doing: "cannot listen to signals".to_string(), error };
        let at_once = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_default(signal, at_once.clone()).map_err(listening)?;
        }
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(listening)?;
        let working = Working { signals: signals.handle(), at_once: at_once.clone() };
        let wait = || {
            if let Some(signal) = signals.forever().next() {
                at_once.store(true, Ordering::SeqCst);
                self.interrupted(signal);
            }
        };
        Ok(std::thread::scope(|scope| {
            scope.spawn(wait);
            let _working = working;
            work()
        }))
    }

    fn interrupted(&self, signal: i32) {
        // What is being written is written to its end, and nothing after it.
        let state = self.lock();
        self.aside(|| {
            tell(&match (state.kept, state.failed) {
                (0, _) => "interrupted: no run has finished".to_string(),
                (kept, false) => format!(
                    "interrupted: {kept} of {} runs have finished and are kept; the same command with --resume goes on",
                    self.total
                ),
                (kept, true) => format!(
                    "interrupted: {kept} of {} runs are kept, but not all that have finished; the same command with --resume goes on",
                    self.total
                ),
            });
            std::process::exit(128 + signal);
        });
    }
}

/// While it lives, signals are waited for; afterwards they end the program as usual.
struct Working {
    signals: Handle,
    at_once: Arc<AtomicBool>,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.at_once.store(true, Ordering::SeqCst);
        self.signals.close();
    }
}
