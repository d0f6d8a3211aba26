//! Executing runs.

use rnic_run::{RunEvent, RunRecord, RunSpec, Scenario};
use rnic_sim::resolve::{Resolved, SetupError, resolve, resolve_all};
use rnic_sim::run::run;
use rnic_sim::{Catalogue, Events, Sharing};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What became of a run: its record, or why it cannot be set up.
pub type Outcome = Result<RunRecord, SetupError>;

/// Is told what happens to runs, from any thread. Runs are meant by their index in the list that is executed.
pub trait Sink: Sync {
    /// Something happened in a run.
    fn event(&self, _run: usize, _event: RunEvent) {}

    /// A run has ended, well or not. `Break`: no further runs are to be started.
    fn done(&self, run: usize, outcome: Outcome) -> ControlFlow<()>;
}

/// Executes runs: in this process, in others, on other machines.
pub trait Executor {
    /// Executes the runs, in the order given as far as there are free processors, and tells `sink` of each. Returns when all have ended,
    /// or when those have ended that were under way when the sink said `Break`.
    fn execute(&self, runs: &[&RunSpec], sink: &dyn Sink);

    /// How many runs are executed at a time, at least 1.
    fn width(&self) -> usize;
}

/// Executes runs in threads of this process: as many runs at a time as there are threads, and a run on several of them where fewer runs
/// are left.
#[derive(Debug)]
pub struct Threads {
    catalogue: Catalogue,
    threads: usize,
    /// Runs that were resolved beforehand, by index; each is taken when its turn comes.
    prepared: Vec<Mutex<Option<Resolved>>>,
}

impl Threads {
    /// An executor with so many threads, at least 1, which resolves each run when its turn comes.
    pub fn new(catalogue: &Catalogue, threads: usize) -> Threads {
        Threads { catalogue: catalogue.clone(), threads: threads.max(1), prepared: Vec::new() }
    }

    /// An executor for exactly these runs, which are resolved at once: either all can be set up or none begins. Runs after each other with
    /// the same nodes and links share them in memory.
    ///
    /// # Errors
    /// The first run that cannot be set up, by its name.
    pub fn checked(catalogue: &Catalogue, threads: usize, runs: &[&RunSpec]) -> Result<Threads, (String, SetupError)> {
        let prepared = resolve_all(catalogue, runs.iter().copied())?;
        let prepared = prepared.into_iter().map(|resolved| Mutex::new(Some(resolved))).collect();
        Ok(Threads { prepared, ..Threads::new(catalogue, threads) })
    }

    fn resolved(&self, index: usize, spec: &RunSpec) -> Result<Resolved, SetupError> {
        let prepared =
            self.prepared.get(index).and_then(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).take());
        prepared.map_or_else(|| resolve(&self.catalogue, spec), Ok)
    }
}

impl Executor for Threads {
    fn execute(&self, runs: &[&RunSpec], sink: &dyn Sink) {
        let (next, unfinished, stopped) = (AtomicUsize::new(0), AtomicUsize::new(runs.len()), AtomicBool::new(false));
        let worker = || {
            while !stopped.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(spec) = runs.get(index) else { return };
                // Threads that neither pending nor running simulations use.
                let share = self.threads / unfinished.load(Ordering::Relaxed).clamp(1, self.threads);
                let outcome = self.resolved(index, spec).map(|resolved| {
                    let mut tell = |event| {
                        sink.event(index, event);
                        ControlFlow::Continue(())
                    };
                    run(spec, &resolved, None, &Sharing::among(share), &Events::to(&mut tell))
                });
                if let Err(error) = &outcome {
                    sink.event(index, RunEvent::Failed { reason: error.to_string() });
                }
                unfinished.fetch_sub(1, Ordering::Relaxed);
                if sink.done(index, outcome).is_break() {
                    stopped.store(true, Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.clamp(1, runs.len().max(1)) {
                scope.spawn(worker);
            }
            worker();
        });
    }

    fn width(&self) -> usize {
        self.threads
    }
}

/// Hears nothing and drops every record.
#[derive(Clone, Copy, Debug)]
pub struct Ignore;

impl Sink for Ignore {
    fn done(&self, _run: usize, _outcome: Outcome) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Puts each record into its slot and passes everything on to another sink.
struct Collect<'s> {
    /// Index in the scenario of each run that is executed.
    indices: Vec<usize>,
    records: Vec<Mutex<Option<RunRecord>>>,
    failure: Mutex<Option<(usize, SetupError)>>,
    listener: &'s dyn RunListener,
}

/// Is told of the runs of a scenario, by their index in it.
pub trait RunListener: Sync {
    /// Something happened in a run.
    fn event(&self, _run: usize, _event: &RunEvent) {}
    /// A run has yielded this record.
    fn finished(&self, _run: usize, _record: &RunRecord) {}
}

impl RunListener for Ignore {}

impl Sink for Collect<'_> {
    fn event(&self, run: usize, event: RunEvent) {
        self.listener.event(self.indices[run], &event);
    }

    fn done(&self, run: usize, outcome: Outcome) -> ControlFlow<()> {
        let index = self.indices[run];
        match outcome {
            Ok(record) => {
                self.listener.finished(index, &record);
                *self.records[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((index, error));
                ControlFlow::Break(())
            }
        }
    }
}

/// Executes the runs of a scenario that have no record yet: `found` has, in the scenario's order, the records of the others. All runs are
/// checked before the first begins. The records come in the scenario's order, and do not depend on the number of threads.
///
/// # Errors
/// The first run that cannot be set up, by its name.
pub fn execute_remaining(
    catalogue: &Catalogue, scenario: &Scenario, mut found: Vec<Option<RunRecord>>, threads: usize,
    listener: &dyn RunListener,
) -> Result<Vec<RunRecord>, (String, SetupError)> {
    found.resize(scenario.runs.len(), None);
    let indices: Vec<usize> = (0..found.len()).filter(|index| found[*index].is_none()).collect();
    let runs: Vec<&RunSpec> = indices.iter().map(|index| &scenario.runs[*index]).collect();
    let executor = Threads::checked(catalogue, threads, &runs)?;
    let records = found.into_iter().map(Mutex::new).collect();
    let sink = Collect { indices, records, failure: Mutex::new(None), listener };
    executor.execute(&runs, &sink);
    if let Some((index, error)) = sink.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err((scenario.runs[index].name.clone(), error));
    }
    let records = sink.records.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    Ok(records.collect())
}

/// Executes all runs of a scenario with the standard catalogue, in so many threads.
///
/// ```
/// let text = r#"
///     [fabric]
///     topology = "single-switch"
///     hosts = 4
///     rate = "100 Gbps"
///     delay = "1 us"
///     [traffic]
///     pattern = "permutation"
///     sizes = "fixed 64 KB"
///     repeats = 1
///     interval = "1 ms"
///     [[run]]
///     name = "IRN"
///     transport = "irn"
/// "#;
/// let scenario = rnic_scenario::from_str(text, "example.toml", "".as_ref(), &[], None).unwrap();
/// let records = rnic_campaign::run_scenario(&scenario, 2).unwrap();
/// assert_eq!(records[0].output.flows.len(), 4);
/// ```
///
/// # Errors
/// The first run that cannot be set up, by its name.
pub fn run_scenario(scenario: &Scenario, threads: usize) -> Result<Vec<RunRecord>, (String, SetupError)> {
    execute_remaining(&Catalogue::standard(), scenario, Vec::new(), threads, &Ignore)
}
