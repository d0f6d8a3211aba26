//! Executes runs of a campaign and stores their results, for every engine.

use super::error::CampaignError;
use super::folder::Folder;
use super::journal::{Journal, host, now_s};
use super::result::{Provenance, RunResult, RunState};
use crate::executor::{Executor, Outcome, Sink};
use crate::fingerprint::{CODE, Fingerprint};
use crate::store::Header;
use parking_lot::Mutex;
use rnic_spec::{RunEvent, RunSpec};
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;

/// The folder for the results of runs, and facts that are stored in the provenance of each result.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    /// The folder of the results.
    pub folder: &'p Folder,
    /// Name of the campaign.
    pub campaign: &'p str,
    /// Name of the engine: letters and digits.
    pub engine: &'p str,
    /// Whether the complete records of the runs are stored too.
    pub records: bool,
    /// Distinguishes programs with other congestion controls, see [`Fingerprint::of`].
    pub program: &'p str,
}

/// The state of a campaign while it is executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Runs with a result.
    pub done: usize,
    /// Runs among them that failed or were lost.
    pub failed: usize,
    /// Runs among them whose result was stored before.
    pub found: usize,
    /// Runs that are wanted so far. With a condition, it may still grow.
    pub wanted: usize,
}

/// Receives the events and results of a campaign's runs. Its methods may be called from any thread. `key` is the key of
/// the run's fingerprint.
pub trait CampaignListener: Sync {
    /// A run starts.
    fn started(&self, _key: &str, _run: &RunSpec) {}

    /// An event of a run. `Break` interrupts it.
    fn event(&self, _key: &str, _event: &RunEvent) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// A run has ended; without a result it was interrupted. After `Break`, no further run starts.
    fn ended(&self, _key: &str, _result: Option<&RunResult>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Called by [`run_campaign`](super::run_campaign) after each run, with the state of the whole campaign.
    fn progress(&self, _progress: Progress) {}
}

impl CampaignListener for crate::executor::Ignore {}

/// A sink that stores the result of each run when it has ended.
struct ResultSink<'s> {
    place: &'s Place<'s>,
    runs: &'s [&'s RunSpec],
    fingerprints: Vec<Fingerprint>,
    /// The key of each fingerprint.
    keys: Vec<String>,
    /// How often each run was lost before.
    lost: &'s BTreeMap<String, u32>,
    listener: &'s dyn CampaignListener,
    state: Mutex<ExecutionState>,
}

#[derive(Default)]
struct ExecutionState {
    running: BTreeMap<usize, RunningRun>,
    error: Option<io::Error>,
}

/// A run that is being simulated.
struct RunningRun {
    /// Journal of its worker.
    journal: Journal,
    /// Start of the run in seconds since 1970.
    started_s: f64,
}

impl ResultSink<'_> {
    /// Opens a journal and records in it that the run starts.
    fn start(&self, run: usize) -> io::Result<()> {
        let spec = self.runs[run];
        let mut journal = Journal::open(&self.place.folder.workers(), self.place.engine)?;
        journal.start(&self.keys[run], &spec.name, spec.seed)?;
        self.state.lock().running.insert(run, RunningRun { journal, started_s: now_s() });
        Ok(())
    }

    /// Stores the result that the function `result` returns for the run's provenance, and records in the journal that
    /// the run has ended.
    fn end(
        &self, run: usize, outcome: Option<&Outcome>, result: impl FnOnce(Provenance) -> Option<RunResult>,
    ) -> io::Result<Option<RunResult>> {
        let Some(RunningRun { mut journal, started_s }) = self.state.lock().running.remove(&run) else {
            return Ok(None);
        };
        let record = outcome.and_then(|outcome| outcome.as_ref().ok());
        let key = &self.keys[run];
        let spec = self.runs[run];
        let provenance = Provenance {
            code: CODE.to_string(),
            campaign: self.place.campaign.to_string(),
            engine: self.place.engine.to_string(),
            host: host(),
            worker: journal.name(),
            started_s,
            wall_s: (now_s() - started_s).max(0.0),
            cpu_s: record.map_or(0.0, |record| record.cpu_s),
            lost: self.lost.get(key).copied().unwrap_or(0),
        };
        let cpu_s = provenance.cpu_s;
        let result = result(provenance);
        if let Some(result) = &result {
            let fingerprint = self.fingerprints[run].clone();
            let header = Header { run: spec.name.clone(), seed: spec.seed, cpu_s, fingerprint };
            self.place.folder.put(&header, result, record.filter(|_| self.place.records))?;
        }
        journal.end(key, result.as_ref().map(|result| result.state))?;
        journal.release();
        Ok(result)
    }

    /// Reports the end of a run to the listener.
    fn report(&self, run: usize, result: io::Result<Option<RunResult>>) -> ControlFlow<()> {
        match result {
            Ok(result) => {
                let is_interrupted = result.is_none();
                let flow = self.listener.ended(&self.keys[run], result.as_ref());
                if is_interrupted { ControlFlow::Break(()) } else { flow }
            }
            Err(error) => {
                let _ = self.listener.ended(&self.keys[run], None);
                self.state.lock().error.get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl Sink for ResultSink<'_> {
    fn starting(&self, run: usize) -> ControlFlow<()> {
        if let Err(error) = self.start(run) {
            self.state.lock().error.get_or_insert(error);
            return ControlFlow::Break(());
        }
        self.listener.started(&self.keys[run], self.runs[run]);
        ControlFlow::Continue(())
    }

    fn event(&self, run: usize, event: RunEvent) -> ControlFlow<()> {
        self.listener.event(&self.keys[run], &event)
    }

    fn done(&self, run: usize, outcome: Outcome) -> ControlFlow<()> {
        let result = self.end(run, Some(&outcome), |provenance| RunResult::of(self.runs[run], &outcome, provenance));
        self.report(run, result)
    }

    fn panicked(&self, run: usize, message: &str) -> ControlFlow<()> {
        let failure =
            format!("the simulation panicked, which is an error in rnic or in a congestion control: {message}");
        let result =
            self.end(run, None, |provenance| Some(RunResult::without_record(RunState::Failed, failure, provenance)));
        self.report(run, result)
    }
}

/// Executes the runs and stores their results, including the results of failed runs. An interrupted run has no result.
/// `lost` has the number of earlier losses of each run, by the key of its fingerprint.
///
/// # Errors
/// A result or a journal cannot be written, for example because the disk is full. Runs that are simulated at that
/// moment end first; no partial result remains.
pub fn execute(
    place: &Place<'_>, runs: &[&RunSpec], lost: &BTreeMap<String, u32>, executor: &dyn Executor,
    listener: &dyn CampaignListener,
) -> Result<(), CampaignError> {
    let fingerprints: Vec<Fingerprint> = runs.iter().map(|run| Fingerprint::of(run, place.program)).collect();
    let keys = fingerprints.iter().map(Fingerprint::key).collect();
    let sink = ResultSink { place, runs, fingerprints, keys, lost, listener, state: Mutex::default() };
    executor.execute(runs, &sink);
    match sink.state.into_inner().error {
        Some(error) => Err(CampaignError::Io {
            doing: format!("cannot store a result in `{}`", place.folder.path().display()),
            error,
        }),
        None => Ok(()),
    }
}

/// Stores a result which says that the run was lost too often.
pub(crate) fn put_lost(
    place: &Place<'_>, spec: &RunSpec, fingerprint: &Fingerprint, lost: u32,
) -> io::Result<RunResult> {
    let provenance = Provenance {
        code: CODE.to_string(),
        campaign: place.campaign.to_string(),
        engine: place.engine.to_string(),
        host: host(),
        started_s: now_s(),
        lost,
        ..Provenance::default()
    };
    let failure = format!(
        "{lost} workers were killed or their machines stopped while they executed this run (out of memory, or a time \
         limit?)"
    );
    let result = RunResult::without_record(RunState::Lost, failure, provenance);
    let fingerprint = fingerprint.clone();
    let header = Header { run: spec.name.clone(), seed: spec.seed, cpu_s: 0.0, fingerprint };
    place.folder.put(&header, &result, None)?;
    Ok(result)
}
