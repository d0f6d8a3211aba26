//! Scenarios.

use crate::error::Written;
use crate::flows::Flows;
use crate::results::Results;
use crate::simulation::Simulation;
use crate::stream::Stream;
use crate::{congestion, convert, error, identity, run};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rnic_scenario::write::{self, Toml};
use rnic_scenario::{Origin, ScenarioError as Wrong, read_with, to_toml};
use rnic_simulator::builtin;
use rnic_spec::RunSpec;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Where the text of a scenario is.
#[derive(Clone, Debug)]
enum Source {
    BuiltIn(&'static str),
    Text {
        text: Arc<str>,
        name: String,
        folder: PathBuf,
        /// Whether the text was made of the keyword arguments of `Scenario`.
        is_arguments: bool,
    },
}

impl Source {
    fn origin(&self) -> Origin<'_> {
        match self {
            Source::BuiltIn(name) => Origin::Embedded { files: builtin::FILES, name },
            Source::Text { text, name, folder, .. } => Origin::Text { text, name, folder },
        }
    }

    fn arguments(&self) -> Option<&str> {
        match self {
            Source::Text { text, is_arguments: true, .. } => Some(text),
            _ => None,
        }
    }
}

/// A change of a scenario.
#[derive(Clone, Debug)]
enum Change {
    /// The value at a path, as TOML.
    Value(String, String),
    /// Flows from Python replace the traffic.
    Flows(Flows),
}

/// The changes for the reader of scenarios.
fn overrides(changes: &[Change]) -> Vec<(String, String)> {
    let of = |change: &Change| match change {
        Change::Value(path, value) => (path.clone(), value.clone()),
        Change::Flows(flows) => {
            let file = Toml::string(&flows.path().to_string_lossy()).inline();
            ("traffic".to_string(), format!("{{ pattern = \"list\", file = {file} }}"))
        }
    };
    changes.iter().map(of).collect()
}

/// A scenario whose values have been checked.
#[pyclass(frozen, module = "rnic._rnic")]
#[derive(Debug)]
pub(crate) struct Scenario {
    source: Source,
    changes: Vec<Change>,
    seed: Option<u64>,
    read: Arc<rnic_spec::Scenario>,
    identity: OnceLock<String>,
}

/// The stored state of a scenario: name of a built-in scenario, or else text, name, folder, whether the text was made
/// of keyword arguments; changes as (path, value), or as the bytes of a flow list; seed.
type State<'py> = (Option<String>, String, String, PathBuf, bool, Vec<StoredChange<'py>>, Option<u64>);

type StoredChange<'py> = (Option<(String, String)>, Option<Bound<'py, PyBytes>>);

impl Scenario {
    fn read(py: Python<'_>, source: Source, changes: Vec<Change>, seed: Option<u64>) -> PyResult<Scenario> {
        let overrides = overrides(&changes);
        let read = py.detach(|| {
            let vocabulary = congestion::catalogue().vocabulary();
            read_with(&vocabulary, &source.origin(), &overrides, seed)
        });
        match read {
            Ok(read) => Ok(Scenario { source, changes, seed, read: Arc::new(read), identity: OnceLock::new() }),
            Err(wrong) => Err(error::scenario(py, &wrong, &written(&source, &changes, &overrides))),
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

fn written<'w>(source: &'w Source, changes: &[Change], overrides: &'w [(String, String)]) -> Written<'w> {
    let file = |change: &Change| match change {
        Change::Flows(flows) => Some(flows.path().to_path_buf()),
        Change::Value(..) => None,
    };
    let flows = changes.iter().filter_map(file).collect();
    Written { arguments: source.arguments(), changes: overrides, flows }
}

/// `path` from the root of the file system, so that another process finds it from another folder.
fn absolute(path: &Path) -> PathBuf {
    // Fails only for an empty path, or if the current folder was removed.
    std::path::absolute(path).or_else(|_| std::env::current_dir()).unwrap_or_else(|_| path.to_path_buf())
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
        let source = match built_in {
            Some(name) => Source::BuiltIn(name),
            None => {
                let text = std::fs::read_to_string(&path).map_err(|error| {
                    error::scenario(py, &Wrong::Io { path: path.clone(), error }, &Written::default())
                })?;
                let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
                let name = path.to_string_lossy().into_owned();
                Source::Text { text: text.into(), name, folder, is_arguments: false }
            }
        };
        Scenario::read(py, source, Vec::new(), None)
    }

    /// Reads a text. Relative paths in it start at `folder`.
    #[staticmethod]
    fn from_toml(py: Python<'_>, text: String, name: String, folder: PathBuf) -> PyResult<Scenario> {
        let source = Source::Text { text: text.into(), name, folder, is_arguments: false };
        Scenario::read(py, source, Vec::new(), None)
    }

    /// Makes a scenario of a dictionary of tables. `flows` replace the traffic.
    #[staticmethod]
    fn of_tables(
        py: Python<'_>, tables: &Bound<'_, PyDict>, name: String, folder: PathBuf, flows: Option<&Bound<'_, Flows>>,
    ) -> PyResult<Scenario> {
        let text = match convert::toml(tables.as_any(), "")? {
            Toml::Table { entries, .. } => write::document(&entries),
            other => other.inline(),
        };
        let source = Source::Text { text: text.into(), name, folder, is_arguments: true };
        let changes = flows.map(|flows| Change::Flows(flows.get().clone()));
        Scenario::read(py, source, changes.into_iter().collect(), None)
    }

    /// The scenario with more changes, as (path, value). `flows` replace the traffic.
    fn changed(
        &self, py: Python<'_>, changes: Vec<(String, Bound<'_, PyAny>)>, seed: Option<u64>,
        flows: Option<&Bound<'_, Flows>>,
    ) -> PyResult<Scenario> {
        let mut all = self.changes.clone();
        for (path, value) in changes {
            let value = convert::toml(&value, &path)?.inline();
            all.push(Change::Value(path, value));
        }
        all.extend(flows.map(|flows| Change::Flows(flows.get().clone())));
        Scenario::read(py, self.source.clone(), all, seed.or(self.seed))
    }

    /// The flows from Python, if they are the traffic.
    fn flows(&self) -> Option<Flows> {
        let last = self.changes.iter().rev().find(|change| match change {
            Change::Value(path, _) => path == "traffic",
            Change::Flows(_) => true,
        })?;
        match last {
            Change::Flows(flows) => Some(flows.clone()),
            Change::Value(..) => None,
        }
    }

    fn to_toml(&self, py: Python<'_>) -> PyResult<String> {
        let overrides = overrides(&self.changes);
        to_toml(&congestion::catalogue().vocabulary(), &self.source.origin(), &overrides, self.seed)
            .map_err(|wrong: Wrong| error::scenario(py, &wrong, &written(&self.source, &self.changes, &overrides)))
    }

    /// The tables of the scenario as a dictionary.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        convert::dictionary(py, &self.to_toml(py)?)
    }

    /// The state from which `of_state` makes an equal scenario, also in another process.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<State<'py>> {
        let stored = |change: &Change| -> PyResult<StoredChange<'py>> {
            Ok(match change {
                Change::Value(path, value) => (Some((path.clone(), value.clone())), None),
                Change::Flows(flows) => (None, Some(flows.content(py)?)),
            })
        };
        let changes = self.changes.iter().map(stored).collect::<PyResult<_>>()?;
        Ok(match &self.source {
            Source::BuiltIn(name) => {
                (Some(name.to_string()), String::new(), String::new(), PathBuf::new(), false, changes, self.seed)
            }
            Source::Text { text, name, folder, is_arguments } => {
                (None, text.to_string(), name.clone(), absolute(folder), *is_arguments, changes, self.seed)
            }
        })
    }

    #[staticmethod]
    fn of_state(py: Python<'_>, state: State<'_>) -> PyResult<Scenario> {
        let (built_in, text, name, folder, is_arguments, stored, seed) = state;
        let source = match built_in {
            None => Source::Text { text: text.into(), name, folder, is_arguments },
            Some(name) => match builtin::FILES.iter().find(|(path, _)| *path == name) {
                Some((path, _)) => Source::BuiltIn(path),
                None => {
                    let message = format!("this version of rnic has no built-in scenario `{name}`");
                    return Err(error::plain(py, &name, &message));
                }
            },
        };
        let change = |stored: StoredChange<'_>| match stored {
            (Some((path, value)), _) => Ok(Change::Value(path, value)),
            (None, Some(bytes)) => Flows::from_bytes(bytes.as_bytes()).map(Change::Flows),
            (None, None) => Err(PyValueError::new_err("the stored scenario is damaged")),
        };
        let changes = stored.into_iter().map(change).collect::<PyResult<_>>()?;
        Scenario::read(py, source, changes, seed)
    }

    /// A text that two scenarios share if and only if they are equal.
    #[getter]
    fn identity(&self) -> &str {
        self.identity.get_or_init(|| identity::of(&self.read))
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

    /// Name, transport, congestion control of each run, and whether it has PFC.
    fn about(&self) -> Vec<(&str, &str, &str, bool)> {
        let runs = self.read.runs.iter().map(|run| (run.name.as_str(), &run.transport));
        runs.map(|(name, transport)| (name, transport.name.as_str(), transport.cc.name(), transport.pfc)).collect()
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

    /// Simulates the runs called `names`, or all runs if there are no names, with `seeds` seeds each, from their own
    /// seeds on. Returns the results of each seed. `listener` is called with the progress about every 0.1 s.
    fn run(
        &self, py: Python<'_>, names: Vec<String>, seeds: u32, threads: Option<usize>, listener: Option<Py<PyAny>>,
        control: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Results>> {
        let selected = self.selected(&names)?;
        let uses = selected.runs.iter().any(|run| run.transport.cc.name() == congestion::NAME);
        let Some(control) = control else { return run::run(py, selected, seeds, threads, listener, None) };
        if !uses {
            let message = "`congestion` has no effect: no run has cc = \"python\"; set it for a run";
            return Err(PyValueError::new_err(message));
        }
        let current = congestion::Class::enter(&control)?;
        run::run(py, selected, seeds, threads, listener, Some(&current.0))
    }

    /// Simulates the run called `name`, or the first run, up to the simulated time `until`, and yields its events.
    fn stream(&self, py: Python<'_>, name: Option<String>, until: Option<String>) -> PyResult<Stream> {
        let mut selected = (*self.selected(name.as_slice())?).clone();
        selected.runs.truncate(1);
        Stream::start(py, selected, until)
    }

    /// Begins the simulation of the run called `name`, or of the first run, whose flows the program submits.
    fn simulation(&self, py: Python<'_>, name: Option<String>, threads: usize) -> PyResult<Simulation> {
        let mut selected = (*self.selected(name.as_slice())?).clone();
        selected.runs.truncate(1);
        Simulation::start(py, selected, threads)
    }
}

/// The names of the built-in scenarios.
#[pyfunction]
pub(crate) fn builtin_scenarios() -> Vec<&'static str> {
    builtin::names()
}
