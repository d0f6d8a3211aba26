//! The events of a run, one by one, while it is simulated in another thread.

use crate::results::Results;
use crate::{congestion, error};
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rnic_sim::resolve::resolve;
use rnic_sim::{Events, Sharing};
use rnic_spec::{RunEvent, RunRecord, Scenario};
use rnic_transport::Time;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of events that the simulation may be ahead of the program that reads them.
const AHEAD: usize = 256;

/// Interval at which Python's signals are checked while the next event is awaited.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// What remains of a run while it is simulated.
#[derive(Debug)]
struct Running {
    events: Receiver<RunEvent>,
    thread: JoinHandle<RunRecord>,
}

/// An iterator over the events of a run. If it is dropped, the run ends.
#[pyclass(frozen, module = "rnic._rnic")]
#[derive(Debug)]
pub(crate) struct Stream {
    scenario: Arc<Scenario>,
    running: Mutex<Option<Running>>,
    record: Mutex<Option<RunRecord>>,
}

impl Stream {
    pub(crate) fn start(py: Python<'_>, mut scenario: Scenario, until: Option<String>) -> PyResult<Stream> {
        let until = until.map(|text| text.parse::<Time>()).transpose();
        let until = until.map_err(|error| PyValueError::new_err(format!("until: {error}")))?;
        if until == Some(Time::ZERO) {
            return Err(PyValueError::new_err("until: a run cannot end at 0; accepted: a time above 0"));
        }
        for run in &mut scenario.runs {
            run.limits.duration = run.limits.duration.into_iter().chain(until).min();
        }
        let scenario = Arc::new(scenario);
        let catalogue = congestion::catalogue();
        let Some(spec) = scenario.runs.first() else {
            return Err(PyValueError::new_err("the scenario has no run"));
        };
        let resolved = py.detach(|| resolve(&catalogue, spec)).map_err(|reason| {
            error::plain(py, &scenario.name, &format!("run \"{}\" cannot be set up: {reason}", spec.name))
        })?;
        let (sender, events) = mpsc::sync_channel(AHEAD);
        let of_thread = scenario.clone();
        let thread = std::thread::spawn(move || {
            // When no reader takes the events any more, the run ends.
            let mut tell = |event: RunEvent| match sender.send(event) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
            let spec = &of_thread.runs[0];
            let events = Events::detailed(&mut tell);
            rnic_sim::run::run(&catalogue, spec, &resolved, None, &Sharing::among(1), &events)
        });
        let running = Mutex::new(Some(Running { events, thread }));
        Ok(Stream { scenario, running, record: Mutex::new(None) })
    }
}

#[pymethods]
impl Stream {
    /// The next event as JSON; `None` after the last one.
    fn next(&self, py: Python<'_>) -> PyResult<Option<String>> {
        loop {
            let received = py.detach(|| {
                let running = self.running.lock();
                running.as_ref().map(|running| running.events.recv_timeout(SIGNAL_INTERVAL))
            });
            match received {
                Some(Ok(event)) => {
                    let text = serde_json::to_string(&event);
                    return text.map(Some).map_err(|error| PyRuntimeError::new_err(error.to_string()));
                }
                Some(Err(RecvTimeoutError::Timeout)) => py.check_signals()?,
                Some(Err(RecvTimeoutError::Disconnected)) => {
                    let thread = self.running.lock().take().map(|running| running.thread);
                    match thread.map(|thread| py.detach(|| thread.join())) {
                        Some(Ok(record)) => *self.record.lock() = Some(record),
                        Some(Err(panic)) => std::panic::resume_unwind(panic),
                        None => {}
                    }
                    return Ok(None);
                }
                None => return Ok(None),
            }
        }
    }

    /// Ends the run.
    fn close(&self, py: Python<'_>) {
        py.detach(|| *self.running.lock() = None);
    }

    /// The results of the run. `None` before its end.
    fn results(&self, py: Python<'_>) -> Option<Results> {
        let record = self.record.lock().clone()?;
        Some(Results::of(py, self.scenario.clone(), vec![record]))
    }
}
