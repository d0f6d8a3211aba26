//! The open simulations, and reading of the scenarios that they simulate.

use rnic_results::files::{FlowFormat, write_all};
use rnic_results::summary::summarise;
use rnic_sim::{Catalogue, FlowCompletion, Simulation, SimulationError};
use rnic_spec::{RunStatus, Scenario};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of simulations of a process that are open at a time.
const MAX_OPEN: usize = 4_096;

/// A failure: its number in the header, and a sentence.
pub(crate) struct Failure(pub(crate) i32, pub(crate) String);

/// The numbers of failures in the header.
pub(crate) const INVALID: i32 = -1;
pub(crate) const REFUSED: i32 = -2;
pub(crate) const ENDED: i32 = -3;
pub(crate) const INTERNAL: i32 = -4;

impl From<SimulationError> for Failure {
    fn from(error: SimulationError) -> Failure {
        let code = match error {
            SimulationError::Ended(_) | SimulationError::Interrupted => ENDED,
            SimulationError::Thread(_) => INTERNAL,
            _ => REFUSED,
        };
        Failure(code, error.to_string())
    }
}

/// An open simulation.
pub(crate) struct Open {
    /// `None` after `rnic_sim_finish`.
    simulation: Option<Simulation>,
    scenario: Scenario,
    /// Completions that are visible and have not been polled.
    pub(crate) visible: VecDeque<FlowCompletion>,
    pub(crate) error: CString,
}

impl Open {
    /// The simulation.
    pub(crate) fn running(&mut self) -> Result<&mut Simulation, Failure> {
        self.simulation.as_mut().ok_or_else(|| Failure(INVALID, "the simulation has been finished".to_string()))
    }

    /// Ends the run, and writes its results.
    pub(crate) fn finish(&mut self, folder: Option<&Path>) -> Result<(), Failure> {
        self.running()?;
        let Some(simulation) = self.simulation.take() else { return Ok(()) };
        let records = [simulation.finish()?];
        if let Some(folder) = folder {
            let summary = summarise(&self.scenario, &records);
            write_all(folder, &self.scenario, &records, &summary, &[FlowFormat::Csv]).map_err(|error| {
                Failure(REFUSED, format!("the results cannot be written to {}: {error}", folder.display()))
            })?;
        }
        match &records[0].output.status {
            RunStatus::Completed => Ok(()),
            RunStatus::Failed(reason) => Err(Failure(ENDED, reason.clone())),
            RunStatus::Interrupted => Err(Failure(ENDED, "the simulation was interrupted".to_string())),
        }
    }

    fn keep(&mut self, message: &str) {
        self.error = text(message);
    }
}

/// A text for C, without the zero bytes that it cannot have.
pub(crate) fn text(message: &str) -> CString {
    CString::new(message.replace('\0', "")).unwrap_or_default()
}

type Table = BTreeMap<usize, Arc<Mutex<Open>>>;

/// The open simulations by number, and the next number.
static OPEN: Mutex<(usize, Table)> = Mutex::new((1, BTreeMap::new()));

/// Begins the simulation of a scenario, and returns its number.
pub(crate) fn open(scenario: Scenario, run: Option<&str>, threads: usize) -> Result<usize, Failure> {
    let names = || scenario.runs.iter().map(|run| format!("\"{}\"", run.name)).collect::<Vec<_>>().join(", ");
    let spec = match (run, &scenario.runs[..]) {
        (None, [run]) => run,
        (None, _) => return Err(Failure(REFUSED, format!("the scenario has several runs; select one: {}", names()))),
        (Some(name), runs) => runs
            .iter()
            .find(|run| run.name == name)
            .ok_or_else(|| Failure(REFUSED, format!("there is no run \"{name}\"; available: {}", names())))?,
    };
    let spec = spec.clone();
    let simulation = Simulation::new(Catalogue::standard(), spec.clone(), threads.max(1))?;
    let scenario = Scenario { runs: vec![spec], ..scenario };
    let open = Open { simulation: Some(simulation), scenario, visible: VecDeque::new(), error: CString::default() };
    let mut table = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if table.1.len() >= MAX_OPEN {
        return Err(Failure(REFUSED, format!("{MAX_OPEN} simulations are open; close one of them first")));
    }
    let number = table.0;
    table.0 += 1;
    table.1.insert(number, Arc::new(Mutex::new(open)));
    Ok(number)
}

/// Calls `call` for the simulation of this number. A failure is kept for `rnic_sim_error`.
pub(crate) fn with<T>(number: usize, call: impl FnOnce(&mut Open) -> Result<T, Failure>) -> Result<T, Failure> {
    let found = OPEN.lock().unwrap_or_else(PoisonError::into_inner).1.get(&number).cloned();
    let open = found.ok_or_else(|| Failure(INVALID, "there is no such open simulation".to_string()))?;
    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
    let result = guarded(|| call(&mut open));
    if let Err(Failure(_, message)) = &result {
        open.keep(message);
    }
    result
}

/// Closes a simulation.
pub(crate) fn close(number: usize) {
    let removed = OPEN.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number);
    // The simulation's thread ends as the last reference is dropped, without the lock.
    let _ = guarded(|| {
        drop(removed);
        Ok(())
    });
}

/// Turns a panic into a failure.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let panicked = |_| Err(Failure(INTERNAL, "internal error: the library has panicked".to_string()));
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(panicked)
}
