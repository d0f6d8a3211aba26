//! Results of a scenario.

use crate::arrow::Table;
use crate::{congestion, identity, tables};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rnic_campaign::Stored;
use rnic_results::files::{CsvFile, FlowFormat, write_all};
use rnic_results::{ScenarioSummary, report, summarise, table};
use rnic_spec::{RunRecord, RunSpec, RunStatus, Scenario};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The records of a scenario's runs, with their statistics.
#[pyclass(frozen, module = "rnic._rnic")]
#[derive(Debug)]
pub(crate) struct Results {
    scenario: Arc<Scenario>,
    records: Vec<RunRecord>,
    summary: ScenarioSummary,
}

impl Results {
    pub(crate) fn of(py: Python<'_>, scenario: Arc<Scenario>, records: Vec<RunRecord>) -> Results {
        let summary = py.detach(|| summarise(&scenario, &records));
        Results { scenario, records, summary }
    }
}

fn os_error(error: io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, error.to_string())),
        None => PyOSError::new_err(error.to_string()),
    }
}

/// The stored state of results: title, name and seed of the scenario; the JSON document and the record of each run.
type State<'py> = (String, String, u64, Vec<(String, Bound<'py, PyBytes>)>);

#[pymethods]
impl Results {
    /// The state from which `of_state` makes equal results, also in another process.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<State<'py>> {
        let stored = |(run, record): (&RunSpec, &RunRecord)| {
            let document = run.to_json(false).map_err(|error| PyValueError::new_err(error.to_string()))?;
            let mut bytes = Vec::new();
            py.detach(|| record.write_to(&mut bytes)).map_err(os_error)?;
            Ok((document, PyBytes::new(py, &bytes)))
        };
        let runs = self.scenario.runs.iter().zip(&self.records).map(stored).collect::<PyResult<_>>()?;
        Ok((self.scenario.title.clone(), self.scenario.name.clone(), self.scenario.seed, runs))
    }

    #[staticmethod]
    fn of_state(py: Python<'_>, state: State<'_>) -> PyResult<Results> {
        let (title, name, seed, stored) = state;
        let vocabulary = congestion::catalogue().vocabulary();
        let (mut runs, mut records) = (Vec::new(), Vec::new());
        for (document, bytes) in &stored {
            let run = RunSpec::from_json(document, &vocabulary);
            runs.push(run.map_err(|error| PyValueError::new_err(error.to_string()))?);
            let mut bytes = bytes.as_bytes();
            let length = bytes.len() as u64;
            let record = RunRecord::read_from(&mut bytes, length);
            records.push(record.map_err(|error| {
                PyValueError::new_err(format!("the stored results are damaged, or of another version of rnic: {error}"))
            })?);
        }
        Ok(Results::of(py, Arc::new(Scenario { title, name, seed, runs }), records))
    }

    /// Whether both are the results of equal scenarios, with the same records apart from the time and memory that the
    /// simulations took.
    fn equals(&self, py: Python<'_>, other: &Bound<'_, Results>) -> bool {
        let other = other.get();
        py.detach(|| {
            let records = || self.records.iter().zip(&other.records);
            self.records.len() == other.records.len()
                && identity::of(&self.scenario) == identity::of(&other.scenario)
                && records().all(|(own, other)| own.output == other.output)
        })
    }

    /// The statistics of all runs as JSON. With `timing`, it has the resources that the simulation used.
    fn summary(&self, timing: bool) -> String {
        self.summary.to_json(timing).to_string()
    }

    /// Whether each run failed: the name of the run, and the reason.
    fn failures(&self) -> Vec<(&str, &str)> {
        let runs = self.scenario.runs.iter().zip(&self.records);
        runs.filter_map(|(run, record)| match &record.output.status {
            RunStatus::Failed(why) => Some((run.name.as_str(), why.as_str())),
            RunStatus::Completed | RunStatus::Interrupted => None,
        })
        .collect()
    }

    /// The table that `rnic run` prints, at most `width` columns wide.
    fn table(&self, width: usize) -> String {
        table::render(&self.summary, width)
    }

    /// The HTML report.
    fn report(&self, py: Python<'_>) -> String {
        py.detach(|| report::render(&self.scenario, &self.summary, &self.records))
    }

    /// Writes the result files into `folder`, and returns their paths.
    fn write(&self, py: Python<'_>, folder: PathBuf, flows: Vec<String>) -> PyResult<Vec<PathBuf>> {
        let format = |name: &String| match name.as_str() {
            "csv" => Ok(FlowFormat::Csv),
            "parquet" => Ok(FlowFormat::Parquet),
            _ => Err(PyValueError::new_err(format!("unknown format \"{name}\"; accepted: \"csv\", \"parquet\""))),
        };
        let flows: Vec<FlowFormat> = flows.iter().map(format).collect::<PyResult<_>>()?;
        py.detach(|| write_all(&folder, &self.scenario, &self.records, &self.summary, &flows)).map_err(os_error)
    }

    /// The flows of the run with this index, or of all runs.
    fn flows(&self, py: Python<'_>, run: Option<usize>) -> PyResult<Table> {
        let runs = match run {
            Some(index) if index >= self.records.len() => {
                return Err(PyValueError::new_err(format!("there is no run with the index {index}")));
            }
            Some(index) => index..index + 1,
            None => 0..self.records.len(),
        };
        py.detach(|| tables::flows(&self.scenario, &self.records, runs)).map_err(os_error)
    }

    /// One of the other result files as a table: `name` is its name without `.csv`.
    fn file(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let file = match name {
            "ports" => CsvFile::Ports,
            "queues" => CsvFile::Queues,
            "links" => CsvFile::Links,
            "goodput" => CsvFile::Goodput,
            "pauses" => CsvFile::Pauses,
            "victims" => CsvFile::Victims,
            "mesh" => CsvFile::Mesh,
            "watchdog" => CsvFile::Watchdog,
            "collectives" => CsvFile::Collectives,
            "steps" => CsvFile::Steps,
            "step_links" => CsvFile::StepLinks,
            "requests" => CsvFile::Requests,
            "timeline" => CsvFile::Timeline,
            "matrix" => CsvFile::Matrix,
            "sweep" => CsvFile::Sweep,
            _ => return Err(PyValueError::new_err(format!("there is no table \"{name}\""))),
        };
        let table = py.detach(|| {
            let mut csv = Vec::new();
            file.write(&mut csv, &self.scenario, &self.records, &self.summary)?;
            tables::of_csv(&csv)
        });
        table.map_err(os_error)
    }
}
