//! Scenarios.

use crate::results::Results;
use crate::stream::Stream;
use crate::{congestion, convert, error, run};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rnic_scenario::write::{self, Toml};
use rnic_scenario::{Origin, ScenarioError as Wrong, read_with, to_toml};
use rnic_simulator::builtin;
use rnic_spec::RunSpec;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the text of a scenario is.
#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    BuiltIn(&'static str),
    Text { text: String, name: String, folder: PathBuf },
}

impl Source {
    fn origin(&self) -> Origin<'_> {
        match self {
            Source::File(path) => Origin::File(path),
            Source::BuiltIn(name) => Origin::Embedded { files: builtin::FILES, name },
            Source::Text { text, name, folder } => Origin::Text { text, name, folder },
        }
    }
}

/// A scenario whose values have been checked.
#[pyclass(frozen, module = "rnic._rnic")]
#[derive(Debug)]
pub(crate) struct Scenario {
    source: Source,
    overrides: Vec<(String, String)>,
    seed: Option<u64>,
    read: Arc<rnic_spec::Scenario>,
}

impl Scenario {
    fn read(py: Python<'_>, source: Source, overrides: Vec<(String, String)>, seed: Option<u64>) -> PyResult<Scenario> {
        let read = py.detach(|| {
            let vocabulary = congestion::catalogue().vocabulary();
            read_with(&vocabulary, &source.origin(), &overrides, seed)
        });
        match read {
            Ok(read) => Ok(Scenario { source, overrides, seed, read: Arc::new(read) }),
            Err(wrong) => Err(error::scenario(py, &wrong)),
        }
    }

    /// The scenario with the runs of these names. A name selects the run, or in a sweep all runs with this name in the
    /// scenario file.
    fn selected(&self, names: &[String]) -> PyResult<Arc<rnic_spec::Scenario>> {
        let is_called = |run: &RunSpec, name: &String| run.name == *name || run.base == *name;
        for name in names {
            if !self.read.runs.iter().any(|run| is_called(run, name)) {
                let known: Vec<String> = self.read.runs.iter().map(|run| format!("\"{}\"", run.name)).collect();
                let message = format!("unknown run \"{name}\"; accepted: {}", known.join(", "));
                return Err(PyKeyError::new_err(message));
            }
        }
        if names.is_empty() {
            return Ok(self.read.clone());
        }
        let runs = self.read.runs.iter().filter(|run| names.iter().any(|name| is_called(run, name)));
        Ok(Arc::new(rnic_spec::Scenario { runs: runs.cloned().collect(), ..(*self.read).clone() }))
    }
}

#[pymethods]
impl Scenario {
    /// Reads the file, or the built-in scenario if there is no such file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Scenario> {
        let built_in = path.to_str().and_then(builtin::path).filter(|_| !path.exists());
        if built_in.is_none() && !path.exists() && path.extension().is_none() {
            let message = format!(
                "`{}` is neither a file nor a built-in scenario; accepted: the path of a scenario file, or one of {}",
                path.display(),
                builtin::names().join(", ")
            );
            return Err(error::plain(py, &path.to_string_lossy(), &message));
        }
        Scenario::read(py, built_in.map_or(Source::File(path), Source::BuiltIn), Vec::new(), None)
    }

    /// Reads a text. Relative paths in it start at `folder`.
    #[staticmethod]
    fn from_toml(py: Python<'_>, text: String, name: String, folder: PathBuf) -> PyResult<Scenario> {
        Scenario::read(py, Source::Text { text, name, folder }, Vec::new(), None)
    }

    /// The scenario with more changes, as (path, value).
    fn changed(
        &self, py: Python<'_>, changes: Vec<(String, Bound<'_, PyAny>)>, seed: Option<u64>,
    ) -> PyResult<Scenario> {
        let mut overrides = self.overrides.clone();
        for (path, value) in changes {
            let value = convert::toml(&value, &path)?.inline();
            overrides.push((path, value));
        }
        Scenario::read(py, self.source.clone(), overrides, seed.or(self.seed))
    }

    fn to_toml(&self, py: Python<'_>) -> PyResult<String> {
        to_toml(&congestion::catalogue().vocabulary(), &self.source.origin(), &self.overrides, self.seed)
            .map_err(|wrong: Wrong| error::scenario(py, &wrong))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.read.name
    }

    #[getter]
    fn title(&self) -> &str {
        &self.read.title
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.read.seed
    }

    #[getter]
    fn runs(&self) -> Vec<&str> {
        self.read.runs.iter().map(|run| run.name.as_str()).collect()
    }

    /// The names of the runs that `names` select, or of all runs if there are no names.
    fn selection(&self, names: Vec<String>) -> PyResult<Vec<String>> {
        Ok(self.selected(&names)?.runs.iter().map(|run| run.name.clone()).collect())
    }

    /// The JSON document of each run.
    fn specs(&self) -> PyResult<Vec<String>> {
        let documents = self.read.runs.iter().map(|run| run.to_json(false));
        documents.collect::<Result<_, _>>().map_err(|error| PyKeyError::new_err(error.to_string()))
    }

    /// Simulates the runs called `names`, or all runs if there are no names. `listener` is called with the progress
    /// about every 0.1 s.
    fn run(
        &self, py: Python<'_>, names: Vec<String>, threads: Option<usize>, listener: Option<Py<PyAny>>,
        control: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Results> {
        let selected = self.selected(&names)?;
        let uses = selected.runs.iter().any(|run| run.transport.cc.name() == congestion::NAME);
        let Some(control) = control else { return run::run(py, selected, threads, listener, None) };
        if !uses {
            let message = "`congestion` has no effect: no run has cc = \"python\"; set it for a run";
            return Err(PyValueError::new_err(message));
        }
        let current = congestion::Class::enter(&control)?;
        run::run(py, selected, threads, listener, Some(&*current.0))
    }

    /// Simulates the run called `name`, or the first run, up to the simulated time `until`, and yields its events.
    fn stream(&self, py: Python<'_>, name: Option<String>, until: Option<String>) -> PyResult<Stream> {
        let mut selected = (*self.selected(name.as_slice())?).clone();
        selected.runs.truncate(1);
        Stream::start(py, selected, until)
    }
}

/// The names of the built-in scenarios.
#[pyfunction]
pub(crate) fn builtin_scenarios() -> Vec<&'static str> {
    builtin::names()
}

/// The TOML text of a dictionary.
#[pyfunction]
pub(crate) fn document(table: &Bound<'_, PyDict>) -> PyResult<String> {
    match convert::toml(table.as_any(), "")? {
        Toml::Table { entries, .. } => Ok(write::document(&entries)),
        other => Ok(other.inline()),
    }
}
