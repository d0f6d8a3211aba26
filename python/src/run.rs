//! Simulation of scenarios: the runs continue in other threads, while the calling thread handles signals and shows the
//! progress.

use crate::congestion::{self, Class};
use crate::error;
use crate::results::Results;
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rnic_campaign::{RunListener, execute_remaining};
use rnic_spec::{RunEvent, RunProgress, RunRecord, RunSpec, Scenario};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Interval at which Python's signals are checked. The progress is reported at every second check.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// What is known of a run while it runs.
#[derive(Clone, Copy, Default)]
struct Standing {
    progress: Option<RunProgress>,
    done: bool,
}

/// Notes the progress of the runs, and ends them when Python was interrupted.
struct Watch<'c> {
    /// The congestion control in Python, if there is one.
    class: Option<&'c Arc<Class>>,
    cancelled: AtomicBool,
    runs: Mutex<Vec<Standing>>,
}

impl Watch<'_> {
    fn runs(&self) -> MutexGuard<'_, Vec<Standing>> {
        self.runs.lock()
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.cancelled.load(Ordering::Relaxed) || self.class.is_some_and(|class| class.failed()) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl RunListener for Watch<'_> {
    fn event(&self, run: usize, event: &RunEvent) -> ControlFlow<()> {
        if let (RunEvent::Progress(progress), Some(standing)) = (event, self.runs().get_mut(run)) {
            standing.progress = Some(*progress);
        }
        self.flow()
    }

    fn finished(&self, run: usize, _record: &RunRecord) -> ControlFlow<()> {
        if let Some(standing) = self.runs().get_mut(run) {
            standing.done = true;
        }
        self.flow()
    }
}

/// The scenario with the first seed of each run, with the second seed, and so on: run and scenario have as many seeds,
/// from their own on.
fn with_seeds(scenario: &Arc<Scenario>, seeds: u32) -> PyResult<Vec<Arc<Scenario>>> {
    if seeds > 1 && scenario.runs.iter().any(|run| run.point.iter().any(|(key, _)| key == "seed")) {
        let message = "`seeds` and the sweep over `seed` exclude each other: give one of them";
        return Err(PyValueError::new_err(message));
    }
    let later = |seed: u64, number: u32| {
        seed.checked_add(number.into()).ok_or_else(|| {
            PyValueError::new_err(format!("seeds = {seeds}: a seed after {seed} would be larger than {}", u64::MAX))
        })
    };
    let with = |number: u32| {
        let run = |run: &RunSpec| Ok(RunSpec { seed: later(run.seed, number)?, ..run.clone() });
        let runs = scenario.runs.iter().map(run).collect::<PyResult<_>>()?;
        Ok(Arc::new(Scenario { seed: later(scenario.seed, number)?, runs, ..(**scenario).clone() }))
    };
    (0..seeds.max(1)).map(with).collect()
}

/// Simulates all runs of the scenario, each with `seeds` seeds, and returns the results of each seed. `listener` is
/// called with a list that has for each run of each seed: the part that is done from 0 to 1, the finished flows, all
/// flows or `None`, and the simulated time in microseconds.
pub(crate) fn run(
    py: Python<'_>, scenario: Arc<Scenario>, seeds: u32, threads: Option<usize>, listener: Option<Py<PyAny>>,
    class: Option<&Arc<Class>>,
) -> PyResult<Vec<Results>> {
    let parts = with_seeds(&scenario, seeds)?;
    let all = parts.iter().flat_map(|part| part.runs.iter().cloned()).collect();
    // The runs of all seeds share the threads.
    let scenario = Arc::new(Scenario { runs: all, ..(*scenario).clone() });
    let catalogue = congestion::catalogue();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // Threads would only wait for each other's calls into Python.
    let threads = if class.is_some() { 1 } else { threads.unwrap_or(processors).max(1) };
    let runs = Mutex::new(vec![Standing::default(); scenario.runs.len()]);
    let watch = Watch { class, cancelled: AtomicBool::new(false), runs };
    let call = |listener: &Option<Py<PyAny>>| {
        Python::attach(|py| -> PyResult<()> {
            py.check_signals()?;
            if let Some(listener) = listener {
                let standings: Vec<_> = watch.runs().iter().map(row).collect();
                listener.call1(py, (standings,))?;
            }
            Ok(())
        })
    };
    let (records, raised) = py.detach(|| {
        std::thread::scope(|scope| {
            let (ended, end) = mpsc::channel();
            let (catalogue, runs, shared) = (&catalogue, &*scenario, &watch);
            let worker = scope.spawn(move || {
                let simulate = || execute_remaining(catalogue, runs, Vec::new(), threads, shared);
                // A thread that Python knows already is much faster in each call into Python.
                let records = match shared.class {
                    Some(class) => congestion::with(class, || Python::attach(|py| py.detach(simulate))),
                    None => simulate(),
                };
                // The other end exists until this thread has ended.
                let _ = ended.send(());
                records
            });
            let (mut raised, mut ticks) = (None, 0_u64);
            while end.recv_timeout(SIGNAL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                ticks += 1;
                let shows = ticks.is_multiple_of(2);
                if raised.is_none()
                    && let Err(error) = call(if shows { &listener } else { &None })
                {
                    watch.cancelled.store(true, Ordering::Relaxed);
                    raised = Some(error);
                }
            }
            (worker.join(), raised)
        })
    });
    if let Some(error) = raised.or_else(|| class.and_then(|class| class.error())) {
        return Err(error);
    }
    let records = match records {
        Ok(records) => records.map_err(|(run, reason)| {
            error::plain(py, &scenario.name, &format!("run \"{run}\" cannot be set up: {reason}"))
        })?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    // Every run has a record, because nothing has cancelled a run.
    let mut records = records.into_iter().flatten();
    let of_part = |part: Arc<Scenario>| {
        let own = records.by_ref().take(part.runs.len()).collect();
        Results::of(py, part, own)
    };
    let results = parts.into_iter().map(of_part).collect();
    call(&listener)?;
    Ok(results)
}

/// A row of the list for the listener.
type Row = (f64, u64, Option<u64>, f64);

fn row(standing: &Standing) -> Row {
    let progress = standing.progress.unwrap_or_default();
    let fraction =
        if standing.done { 1.0 } else { progress.fraction().filter(|_| standing.progress.is_some()).unwrap_or(0.0) };
    (fraction, progress.flows_done, progress.flows_total, progress.time.as_us())
}
