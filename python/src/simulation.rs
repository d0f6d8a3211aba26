//! A simulation that a Python program drives.

use crate::arrow::{self, Table};
use crate::results::Results;
use crate::{congestion, error};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, RecordBatchReader, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parking_lot::Mutex;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use rnic_sim::{FlowCompletion, FlowRequest, PortUse, SimulationError};
use rnic_spec::Scenario;
use rnic_transport::Time;
use std::sync::Arc;

/// Columns of submitted flows.
const COLUMNS: [&str; 4] = ["start_us", "src", "dst", "bytes"];

/// Picoseconds in a microsecond.
const PS: f64 = 1e6;

/// Largest time in microseconds that Python programs may name: 200 days.
const MAX_US: f64 = 200.0 * 86_400.0 * 1e6;

/// A simulation that the program drives; `None` after `finish`.
#[pyclass(frozen, module = "rnic._rnic")]
#[derive(Debug)]
pub(crate) struct Simulation {
    scenario: Arc<Scenario>,
    running: Mutex<Option<rnic_sim::Simulation>>,
}

impl Simulation {
    pub(crate) fn start(py: Python<'_>, scenario: Scenario, threads: usize) -> PyResult<Simulation> {
        let Some(spec) = scenario.runs.first().cloned() else {
            return Err(PyValueError::new_err("the scenario has no run"));
        };
        let begun = py.detach(|| rnic_sim::Simulation::new(congestion::catalogue(), spec, threads));
        let running = begun.map_err(|reason| error::plain(py, &scenario.name, &reason.to_string()))?;
        Ok(Simulation { scenario: Arc::new(scenario), running: Mutex::new(Some(running)) })
    }

    /// Calls `call` for the simulation, without Python's lock.
    fn with<T: Send>(
        &self, py: Python<'_>, call: impl FnOnce(&mut rnic_sim::Simulation) -> Result<T, SimulationError> + Send,
    ) -> PyResult<T> {
        let result = py.detach(|| self.running.lock().as_mut().map(call));
        match result {
            None => Err(PyRuntimeError::new_err("the simulation has been finished")),
            Some(result) => result.map_err(of_error),
        }
    }
}

fn of_error(error: SimulationError) -> PyErr {
    match error {
        SimulationError::Ended(_) | SimulationError::Thread(_) => PyRuntimeError::new_err(error.to_string()),
        SimulationError::Interrupted => PyKeyboardInterrupt::new_err(error.to_string()),
        error => PyValueError::new_err(error.to_string()),
    }
}

/// A time of a program, rounded to picoseconds.
fn time(name: &str, us: f64) -> PyResult<Time> {
    if (0.0..=MAX_US).contains(&us) {
        return Ok(Time::from_ps((us * PS).round() as u64));
    }
    Err(PyValueError::new_err(format!("{name} = {us} us; accepted: 0 to {MAX_US:e} us")))
}

fn us(time: Time) -> f64 {
    time.as_ps() as f64 / PS
}

/// Whether a signal, such as that of Ctrl-C, has arrived.
fn interrupted() -> bool {
    Python::attach(|py| py.check_signals().is_err())
}

fn flow(index: usize, [start, src, dst, bytes]: [f64; 4]) -> PyResult<FlowRequest> {
    let whole = |name: &str, value: f64, max: f64| {
        let fits = value.fract() == 0.0 && (0.0..=max).contains(&value);
        fits.then_some(value as u64)
            .ok_or_else(|| PyValueError::new_err(format!("flow {index}: {name} is {value}; accepted: a whole number")))
    };
    let host = |name: &str, value: f64| whole(name, value, f64::from(u32::MAX)).map(|host| host as u32);
    Ok(FlowRequest {
        start: time(&format!("flow {index}: start_us"), start)?,
        src: host("src", src)?,
        dst: host("dst", dst)?,
        bytes: whole("bytes", bytes, 9e15)?,
    })
}

/// The flows of an object with `__arrow_c_stream__`.
fn flows_of_arrow(source: &Bound<'_, PyAny>) -> PyResult<Vec<FlowRequest>> {
    let reader = arrow::reader(source)?;
    let schema = reader.schema();
    let known = |field: &&Arc<Field>| !COLUMNS.contains(&field.name().as_str());
    if let Some(unknown) = schema.fields().iter().find(known) {
        let message = format!("unknown column `{}`; accepted: {}", unknown.name(), COLUMNS.join(", "));
        return Err(PyValueError::new_err(message));
    }
    let mut flows = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let columns = COLUMNS.iter().map(|name| column(&batch, name)).collect::<PyResult<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let cells = [0usize, 1, 2, 3].map(|at| columns.get(at).map_or(f64::NAN, |column| column.value(row)));
            flows.push(flow(flows.len(), cells)?);
        }
    }
    Ok(flows)
}

/// A column as decimals, which are exact for whole numbers up to 2^53.
fn column(batch: &RecordBatch, name: &str) -> PyResult<Float64Array> {
    let Some(column) = batch.column_by_name(name) else {
        return Err(PyValueError::new_err(format!("column `{name}` is missing; required: {}", COLUMNS.join(", "))));
    };
    if column.null_count() > 0 {
        return Err(PyValueError::new_err(format!("column `{name}` has missing values")));
    }
    decimals(column).ok_or_else(|| {
        PyTypeError::new_err(format!("column `{name}` has the type {}; accepted: numbers", column.data_type()))
    })
}

fn decimals(column: &ArrayRef) -> Option<Float64Array> {
    macro_rules! numbers {
        ($($kind:ident $type:ident),*) => {
            match column.data_type() {
                $(DataType::$kind => {
                    let column = column.as_primitive::<arrow_array::types::$type>();
                    Some(column.values().iter().map(|value| *value as f64).collect::<Vec<_>>().into())
                })*
                _ => None,
            }
        };
    }
    numbers!(
        Float64 Float64Type, Float32 Float32Type, Int8 Int8Type, Int16 Int16Type, Int32 Int32Type, Int64 Int64Type,
        UInt8 UInt8Type, UInt16 UInt16Type, UInt32 UInt32Type, UInt64 UInt64Type
    )
}

fn table(columns: Vec<(&str, ArrayRef)>) -> PyResult<Table> {
    let fields: Vec<Field> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns.into_iter().map(|(_, column)| column).collect());
    let batch = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(Table::new(schema, vec![batch]))
}

#[pymethods]
impl Simulation {
    /// Submits flows: four lists of numbers, one for each column, or an object with `__arrow_c_stream__`.
    fn submit(&self, py: Python<'_>, columns: [Vec<f64>; 4]) -> PyResult<u64> {
        let [starts, ..] = &columns;
        let rows = 0..starts.len();
        let cell = |column: usize, row: usize| columns[column].get(row).copied().unwrap_or(f64::NAN);
        let flows = rows.map(|row| flow(row, [cell(0, row), cell(1, row), cell(2, row), cell(3, row)]));
        let flows = flows.collect::<PyResult<Vec<_>>>()?;
        self.with(py, |simulation| simulation.submit(&flows))
    }

    /// Returns the number of the first flow, and the number of flows.
    fn submit_arrow(&self, py: Python<'_>, source: &Bound<'_, PyAny>) -> PyResult<(u64, usize)> {
        let flows = flows_of_arrow(source)?;
        Ok((self.with(py, |simulation| simulation.submit(&flows))?, flows.len()))
    }

    fn advance(&self, py: Python<'_>, until_us: f64) -> PyResult<()> {
        let until = time("until_us", until_us)?;
        self.with(py, |simulation| simulation.advance_unless(until, &mut interrupted))
    }

    fn advance_to_completion(&self, py: Python<'_>, limit_us: Option<f64>) -> PyResult<Option<f64>> {
        let limit = limit_us.map_or(Ok(Time::MAX), |limit| time("limit_us", limit))?;
        let reached = self.with(py, |simulation| simulation.advance_to_completion_unless(limit, &mut interrupted))?;
        Ok(reached.map(us))
    }

    fn completions(&self, py: Python<'_>) -> PyResult<Table> {
        let completions = self.with(py, |simulation| Ok(simulation.completions()))?;
        let times = |of: fn(&FlowCompletion) -> Time| {
            Arc::new(
                completions.iter().map(|one| us(of(one))).collect::<Vec<f64>>().into_iter().collect::<Float64Array>(),
            ) as ArrayRef
        };
        let flows =
            Arc::new(completions.iter().map(|one| one.flow).collect::<Vec<u64>>().into_iter().collect::<UInt64Array>());
        table(vec![
            ("flow", flows),
            ("visible_us", times(|one| one.visible)),
            ("delivered_us", times(|one| one.delivered)),
            ("known_us", times(|one| one.known)),
        ])
    }

    /// Simulated time in microseconds.
    fn now_us(&self, py: Python<'_>) -> PyResult<f64> {
        self.with(py, |simulation| Ok(us(simulation.now())))
    }

    /// The facts that do not change, and the number of flows under way: (hosts, reaction_us, under way).
    fn facts(&self, py: Python<'_>) -> PyResult<(u32, f64, u64)> {
        self.with(py, |simulation| Ok((simulation.hosts(), us(simulation.reaction()), simulation.under_way())))
    }

    /// The state of all ports, and its time in microseconds.
    fn ports(&self, py: Python<'_>) -> PyResult<(f64, Table)> {
        let (at, ports) = self.with(py, rnic_sim::Simulation::ports)?;
        let numbers = |of: fn(&PortUse) -> u64| {
            Arc::new(ports.iter().map(of).collect::<Vec<u64>>().into_iter().collect::<UInt64Array>()) as ArrayRef
        };
        let texts = |of: fn(&PortUse) -> &str| {
            Arc::new(arrow_array::StringArray::from_iter_values(ports.iter().map(of))) as ArrayRef
        };
        let elapsed = at.as_ps().max(1) as f64;
        let utilisation: Float64Array =
            ports.iter().map(|port| port.busy.as_ps() as f64 / elapsed).collect::<Vec<f64>>().into_iter().collect();
        let table = table(vec![
            ("node", texts(|port| &port.node)),
            ("port", numbers(|port| port.port.into())),
            ("peer", texts(|port| &port.peer)),
            ("queued_bytes", numbers(|port| port.queued.0)),
            ("sent_bytes", numbers(|port| port.sent.0)),
            ("utilisation", Arc::new(utilisation)),
            ("paused", numbers(|port| port.paused.into())),
        ])?;
        Ok((us(at), table))
    }

    /// Simulates all flows to their end, and returns the results.
    fn finish(&self, py: Python<'_>) -> PyResult<Results> {
        let running = self.running.lock().take();
        let running = running.ok_or_else(|| PyRuntimeError::new_err("the simulation has been finished"))?;
        let record = py.detach(|| running.finish()).map_err(of_error)?;
        Ok(Results::of(py, self.scenario.clone(), vec![record]))
    }

    /// Ends the simulation without results.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.running.lock().take()));
    }
}
