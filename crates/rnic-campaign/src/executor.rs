//! Executors, which simulate a list of runs and report each result to a [`Sink`], the receiver of results.

use parking_lot::Mutex;
use rnic_sim::resolve::{Resolved, SetupError, resolve, resolve_all};
use rnic_sim::run::run;
use rnic_sim::{Catalogue, Events, FrameListener, FramePlan, Sharing};
use rnic_spec::{RunEvent, RunRecord, RunSpec, Scenario};
use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Result of a run: its record (everything that the simulation measured), or the reason why the run cannot be set up.
pub type Outcome = Result<RunRecord, SetupError>;

/// Receives the events and outcomes of runs; its methods may be called from any thread. The argument `run` is the index
/// of the run in the executor's list.
pub trait Sink: Sync {
    /// Called before a run is set up. If it returns `Break`, neither this run nor a further one starts.
    fn starting(&self, _run: usize) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Called for each event during a run, for example its start or its progress. If it returns `Break`, the run is
    /// interrupted: it ends early, and the status of its record is
    /// [`RunStatus::Interrupted`](rnic_spec::RunStatus::Interrupted).
    fn event(&self, _run: usize, _event: RunEvent) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// The instants of the frames that the run must take, and their listener; `None` for no frames. Called once, before
    /// the run starts.
    fn frames(&self, _run: usize) -> Option<(FramePlan, &dyn FrameListener)> {
        None
    }

    /// Called when a run has ended. If it returns `Break`, the executor starts no further runs.
    fn done(&self, run: usize, outcome: Outcome) -> ControlFlow<()>;

    /// Called instead of [`Sink::done`] when the code of a run has panicked. Unless a sink implements it, the panic
    /// continues. If it returns `Break`, the executor starts no further runs.
    fn panicked(&self, _run: usize, message: &str) -> ControlFlow<()> {
        std::panic::resume_unwind(Box::new(message.to_string()))
    }
}

/// Executes runs, in this process, in other processes or on other machines.
pub trait Executor {
    /// Starts the runs in the given order and reports them to `sink`. Returns when all runs have ended or, after
    /// `Break`, when all started runs have ended.
    fn execute(&self, runs: &[&RunSpec], sink: &dyn Sink);

    /// Number of runs that are executed at the same time, at least 1.
    fn width(&self) -> usize;
}

/// Executes runs in threads of this process: one run per thread, or several threads per run if fewer runs than threads
/// are left.
///
/// ```
/// # let text = r#"
/// #     [fabric]
/// #     topology = "single-switch"
/// #     hosts = 4
/// #     rate = "100 Gbps"
/// #     delay = "1 us"
/// #     [traffic]
/// #     pattern = "permutation"
/// #     sizes = "fixed 64 KB"
/// #     [[run]]
/// #     name = "IRN"
/// #     transport = "irn"
/// # "#;
/// # let scenario = rnic_scenario::from_str(text, "example.toml", "".as_ref(), &[], None).unwrap();
/// use rnic_campaign::{Executor, Outcome, Sink, Threads};
/// use rnic_spec::RunEvent;
/// use rnic_sim::Catalogue;
/// use std::ops::ControlFlow;
///
/// struct Print;
///
/// impl Sink for Print {
///     fn event(&self, run: usize, event: RunEvent) -> ControlFlow<()> {
///         println!("run {run}: {event:?}");
///         ControlFlow::Continue(())
///     }
///
///     fn done(&self, run: usize, outcome: Outcome) -> ControlFlow<()> {
///         println!("run {run}: {} flows", outcome.map_or(0, |record| record.output.flows.len()));
///         ControlFlow::Continue(())
///     }
/// }
///
/// let runs: Vec<_> = scenario.runs.iter().collect();
/// Threads::new(&Catalogue::standard(), 2).execute(&runs, &Print);
/// ```
#[derive(Debug)]
pub struct Threads {
    catalogue: Catalogue,
    threads: usize,
    /// Complete configurations of the runs, which [`Threads::checked`] has derived from their specifications, by index
    /// of the run; `None` after the run has started.
    prepared: Vec<Mutex<Option<Resolved>>>,
}

impl Threads {
    /// An executor with `threads` threads, at least 1. When it starts a run, it derives the run's complete
    /// configuration ([`resolve`]).
    pub fn new(catalogue: &Catalogue, threads: usize) -> Threads {
        Threads { catalogue: catalogue.clone(), threads: threads.max(1), prepared: Vec::new() }
    }

    /// An executor for exactly the runs `runs`. It derives the complete configurations of all of them now, so that no
    /// run starts if one of them cannot be set up. Consecutive runs with the same nodes and links share one topology in
    /// memory.
    ///
    /// # Errors
    /// A run cannot be set up: the name of the first such run, and the reason.
    pub fn checked(catalogue: &Catalogue, threads: usize, runs: &[&RunSpec]) -> Result<Threads, (String, SetupError)> {
        let prepared = resolve_all(catalogue, runs.iter().copied())?;
        let prepared = prepared.into_iter().map(|resolved| Mutex::new(Some(resolved))).collect();
        Ok(Threads { prepared, ..Threads::new(catalogue, threads) })
    }

    fn resolved(&self, index: usize, spec: &RunSpec) -> Result<Resolved, SetupError> {
        let prepared = self.prepared.get(index).and_then(|slot| slot.lock().take());
        prepared.map_or_else(|| resolve(&self.catalogue, spec), Ok)
    }
}

impl Executor for Threads {
    fn execute(&self, runs: &[&RunSpec], sink: &dyn Sink) {
        let next = AtomicUsize::new(0);
        let unfinished = AtomicUsize::new(runs.len());
        let stopped = AtomicBool::new(false);
        let worker = || {
            while !stopped.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(spec) = runs.get(index) else { return };
                if sink.starting(index).is_break() {
                    stopped.store(true, Ordering::Relaxed);
                    return;
                }
                // Number of threads for this run: more than one if fewer runs than threads are left.
                let share = self.threads / unfinished.load(Ordering::Relaxed).clamp(1, self.threads);
                let simulate = || {
                    self.resolved(index, spec).map(|resolved| {
                        let mut report = |event| sink.event(index, event);
                        let mut events = Events::to(&mut report);
                        if let Some((plan, listener)) = sink.frames(index) {
                            events = events.with_frames(plan, listener);
                        }
                        run(&self.catalogue, spec, &resolved, None, &Sharing::among(share), &events)
                    })
                };
                // The sink decides what a panic means. The state of a run that has panicked is dropped with it.
                let outcome = catch_unwind(AssertUnwindSafe(simulate));
                unfinished.fetch_sub(1, Ordering::Relaxed);
                let flow = match outcome {
                    Ok(outcome) => {
                        if let Err(error) = &outcome {
                            // The run has ended, so it cannot be interrupted any more.
                            let _ = sink.event(index, RunEvent::Failed { reason: error.to_string() });
                        }
                        sink.done(index, outcome)
                    }
                    Err(panic) => sink.panicked(index, message(&*panic)),
                };
                if flow.is_break() {
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

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// A sink that collects the records of runs and forwards their events and records to a listener.
struct RecordSink<'s> {
    /// For each executed run, its index in the scenario.
    indices: Vec<usize>,
    records: Vec<Mutex<Option<RunRecord>>>,
    failure: Mutex<Option<(usize, SetupError)>>,
    listener: &'s dyn RunListener,
}

/// Receives the events and records of a scenario's runs; its methods may be called from any thread. The argument `run`
/// is the index of the run in the scenario.
pub trait RunListener: Sync {
    /// Called for each event during a run, for example its start or its progress. `Break` interrupts the run, as in
    /// [`Sink::event`].
    fn event(&self, _run: usize, _event: &RunEvent) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    /// The instants of the frames that the run must take, and their listener, as [`Sink::frames`].
    fn frames(&self, _run: usize) -> Option<(FramePlan, &dyn FrameListener)> {
        None
    }
    /// Called with the record (the measured results) of a run that has ended. After `Break`, no further run starts.
    fn finished(&self, _run: usize, _record: &RunRecord) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// A listener that ignores all events and results of runs.
#[derive(Clone, Copy, Debug)]
pub struct Ignore;

impl RunListener for Ignore {}

impl Sink for RecordSink<'_> {
    fn event(&self, run: usize, event: RunEvent) -> ControlFlow<()> {
        self.listener.event(self.indices[run], &event)
    }

    fn frames(&self, run: usize) -> Option<(FramePlan, &dyn FrameListener)> {
        self.listener.frames(self.indices[run])
    }

    fn done(&self, run: usize, outcome: Outcome) -> ControlFlow<()> {
        let index = self.indices[run];
        match outcome {
            Ok(record) => {
                let flow = self.listener.finished(index, &record);
                *self.records[index].lock() = Some(record);
                flow
            }
            Err(error) => {
                self.failure.lock().get_or_insert((index, error));
                ControlFlow::Break(())
            }
        }
    }
}

/// Executes the runs of a scenario whose results are not yet known. `found` has the known record of each run, or is
/// empty. All other runs are set up before the first of these runs starts. Returns the records of all runs, known and
/// new, in the scenario's order; `None` for a run that did not start because `listener` returned `Break`. The records
/// do not depend on the number of threads.
///
/// # Errors
/// A run cannot be set up: the name of the first such run, and the reason.
pub fn execute_remaining(
    catalogue: &Catalogue, scenario: &Scenario, mut found: Vec<Option<RunRecord>>, threads: usize,
    listener: &dyn RunListener,
) -> Result<Vec<Option<RunRecord>>, (String, SetupError)> {
    found.resize(scenario.runs.len(), None);
    let indices: Vec<usize> = (0..found.len()).filter(|index| found[*index].is_none()).collect();
    let runs: Vec<&RunSpec> = indices.iter().map(|index| &scenario.runs[*index]).collect();
    let executor = Threads::checked(catalogue, threads, &runs)?;
    let records = found.into_iter().map(Mutex::new).collect();
    let sink = RecordSink { indices, records, failure: Mutex::new(None), listener };
    executor.execute(&runs, &sink);
    if let Some((index, error)) = sink.failure.into_inner() {
        return Err((scenario.runs[index].name.clone(), error));
    }
    let records = sink.records.into_iter().map(|slot| slot.into_inner());
    Ok(records.collect())
}

/// Executes all runs of a scenario in `threads` threads, with the congestion controls and transports that rnic
/// contains.
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
/// A run cannot be set up: the name of the first such run, and the reason.
pub fn run_scenario(scenario: &Scenario, threads: usize) -> Result<Vec<RunRecord>, (String, SetupError)> {
    let records = execute_remaining(&Catalogue::standard(), scenario, Vec::new(), threads, &Ignore)?;
    // `Ignore` stops no run, so every run has a record.
    Ok(records.into_iter().flatten().collect())
}
