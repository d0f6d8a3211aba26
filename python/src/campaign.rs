//! Campaigns: manifests, the coordination of engines, and what a worker does.

use crate::arrow::Table;
use crate::tables;
use arrow_array::{ArrayRef, StringArray};
use parking_lot::Mutex;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rnic_campaign::campaign::{
    self, CampaignError, CampaignListener, Folder, Limits, METRICS, Manifest, MissingRun, Outcomes, Place, RunResult,
    RunState, Shard, Until,
};
use rnic_campaign::statistics::Estimate;
use rnic_campaign::{CODE, Fingerprint, Threads, cost};
use rnic_results::dataset::{Columns, write_csv, write_parquet};
use rnic_results::files::write_atomically;
use rnic_sim::Catalogue;
use rnic_spec::{RunEvent, RunRecord, RunSpec, Scenario, SpecError};
use serde_json::json;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval at which a worker checks Python's signals while it simulates.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The exception for an error of a campaign.
fn raised(error: CampaignError) -> PyErr {
    match error {
        CampaignError::Input(sentence) => PyValueError::new_err(sentence),
        CampaignError::Io { doing, error } => match error.raw_os_error() {
            Some(errno) => PyOSError::new_err((errno, format!("{doing}: {error}"))),
            None => PyOSError::new_err(format!("{doing}: {error}")),
        },
    }
}

/// The list of a campaign's runs.
#[pyclass(frozen, module = "rnic._rnic")]
#[derive(Debug)]
pub(crate) struct Campaign {
    manifest: Arc<Manifest>,
}

#[pymethods]
impl Campaign {
    /// A campaign of these runs: each is a label, or nothing, and the JSON document of a run. A label is put before the
    /// run's name, and becomes a column.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the Python layer names them")]
    fn new(
        py: Python<'_>, name: &str, runs: Vec<(Option<String>, String)>, seeds: u32, until: Option<&str>,
        max_seeds: u32, confidence: f64, records: bool,
    ) -> PyResult<Campaign> {
        let until = until.map(str::parse::<Until>).transpose();
        let until = until.map_err(|error| PyValueError::new_err(format!("until: {error}")))?;
        let until = until.map(|until| Until { max_seeds, confidence, ..until });
        let made = py.detach(|| {
            let vocabulary = Catalogue::standard().vocabulary();
            let read = |(label, document): &(Option<String>, String)| {
                let mut run = RunSpec::from_json(document, &vocabulary)
                    .map_err(|error| CampaignError::Input(error.to_string()))?;
                if let Some(label) = label {
                    run.name = format!("{label}: {}", run.name);
                    run.point.insert(0, ("label".to_string(), label.clone()));
                }
                Ok(run)
            };
            let runs = runs.iter().map(read).collect::<Result<Vec<_>, CampaignError>>()?;
            Manifest::new(name, runs, seeds, until, records)
        });
        Ok(Campaign { manifest: Arc::new(made.map_err(raised)?) })
    }

    /// Reads a manifest.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Campaign> {
        let read = py.detach(|| Manifest::read(&path, &Catalogue::standard().vocabulary()));
        Ok(Campaign { manifest: Arc::new(read.map_err(raised)?) })
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.manifest.write(&path)).map_err(raised)
    }

    /// The manifest as bytes, which `of_state` reads, also in another process.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let file = tempfile::NamedTempFile::new()?;
        py.detach(|| self.manifest.write(file.path())).map_err(raised)?;
        Ok(PyBytes::new(py, &std::fs::read(file.path())?))
    }

    #[staticmethod]
    fn of_state(py: Python<'_>, bytes: &[u8]) -> PyResult<Campaign> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(bytes)?;
        file.flush()?;
        Campaign::load(py, file.path().to_path_buf())
    }

    #[getter]
    fn name(&self) -> &str {
        &self.manifest.name
    }

    #[getter]
    fn seeds(&self) -> u32 {
        self.manifest.seeds
    }

    #[getter]
    fn until(&self) -> Option<String> {
        self.manifest.until.as_ref().map(ToString::to_string)
    }

    #[getter]
    fn records(&self) -> bool {
        self.manifest.records
    }

    /// The names of the points.
    #[getter]
    fn points(&self) -> Vec<&str> {
        self.manifest.runs.iter().map(|run| run.name.as_str()).collect()
    }

    /// Stores the manifest in the folder of results.
    fn register(&self, py: Python<'_>, store: PathBuf, replace: bool) -> PyResult<()> {
        py.detach(|| Folder::at(&store).register(&self.manifest, replace)).map_err(raised)
    }

    /// The missing runs of the campaign, for a coordinator.
    fn coordinate(
        &self, py: Python<'_>, store: PathBuf, engine: String, retries: u32, retry_failed: bool,
    ) -> PyResult<Coordinator> {
        let limits = Limits { shard: Shard::WHOLE, retries, retry_failed };
        let manifest = self.manifest.clone();
        let made = py.detach(|| Coordinator::new(manifest, store, engine, limits));
        made.map_err(raised)
    }
}

/// The missing runs of a campaign. Engines take batches of them and add the results.
#[pyclass(frozen, module = "rnic._rnic")]
pub(crate) struct Coordinator {
    manifest: Arc<Manifest>,
    folder: Folder,
    engine: String,
    outcomes: Mutex<Outcomes>,
}

impl Coordinator {
    fn new(
        manifest: Arc<Manifest>, store: PathBuf, engine: String, limits: Limits,
    ) -> Result<Coordinator, CampaignError> {
        let folder = Folder::at(&store);
        let place = place(&folder, &manifest, &engine);
        let outcomes = Mutex::new(Outcomes::new(manifest.clone(), &place, limits)?);
        Ok(Coordinator { manifest, folder, engine, outcomes })
    }

    fn place(&self) -> Place<'_> {
        place(&self.folder, &self.manifest, &self.engine)
    }
}

fn place<'p>(folder: &'p Folder, manifest: &'p Manifest, engine: &'p str) -> Place<'p> {
    Place { folder, campaign: &manifest.name, engine, records: manifest.records, program: "" }
}

#[pymethods]
impl Coordinator {
    /// The next batch of missing runs, and the estimate of its CPU time. The batch takes about `seconds` of CPU time,
    /// if runs take `scale` times as long as estimated.
    fn next_batch(&self, py: Python<'_>, count: usize, seconds: f64, scale: f64) -> PyResult<(Batch, f64)> {
        let batch = py.detach(|| {
            let runs = self.outcomes.lock().next_batch(count, seconds, scale);
            let expected = runs.iter().map(|run| cost(&run.spec)).sum();
            pack(&runs).map(|batch| (batch, expected))
        });
        batch.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Adds the result that `work` returned for one run. If the run was interrupted, it is missing again.
    fn add_result(&self, py: Python<'_>, key: &str, end: &str, metric: Option<f64>) -> PyResult<()> {
        let end = RunEnd::of_word(end)?;
        py.detach(|| {
            let mut outcomes = self.outcomes.lock();
            match end {
                RunEnd::Ended(state) => outcomes.add_result(&self.place(), key, state, metric),
                RunEnd::Interrupted => outcomes.add_loss(&self.place(), key, false),
            }
        })
        .map_err(raised)
    }

    /// Adds losses: the worker of these runs was killed. Without `certain`, the journals say which of them had started.
    fn add_losses(&self, py: Python<'_>, keys: Vec<String>, certain: bool) -> PyResult<()> {
        py.detach(|| {
            let journals = self.folder.lost();
            let mut outcomes = self.outcomes.lock();
            keys.iter().try_for_each(|key| {
                let before = outcomes.lost().get(key).copied().unwrap_or(0);
                let was_started = certain || journals.get(key).copied().unwrap_or(0) > before;
                outcomes.add_loss(&self.place(), key, was_started)
            })
        })
        .map_err(raised)
    }

    /// Number of missing runs that have not been taken.
    #[getter]
    fn missing(&self) -> usize {
        self.outcomes.lock().missing()
    }

    /// The numbers of runs that are done, failed, found and wanted.
    #[getter]
    fn progress(&self) -> (usize, usize, usize, usize) {
        let progress = self.outcomes.lock().progress();
        (progress.done, progress.failed, progress.found, progress.wanted)
    }

    /// The metric that `work` has to return.
    #[getter]
    fn metric(&self) -> Option<String> {
        self.outcomes.lock().metric().map(str::to_string)
    }
}

/// Runs on their way to a worker: JSON documents, and for each run the key of its fingerprint, the index of its
/// document, and its seed, with which it replaces that of the document. Runs of one point of the campaign share a
/// document, so a batch is small enough for engines to send it with the task: Ray puts more than 100 KiB into its
/// object store first.
type Batch = (Vec<String>, Vec<(String, usize, u64)>);

fn pack(runs: &[MissingRun]) -> Result<Batch, SpecError> {
    let (mut documents, mut of_point) = (Vec::new(), BTreeMap::new());
    let mut packed = Vec::with_capacity(runs.len());
    for MissingRun { key, point, spec } in runs {
        let index = match of_point.entry(*point) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                documents.push(spec.to_json(false)?);
                *new.insert(documents.len() - 1)
            }
        };
        packed.push((key.clone(), index, spec.seed));
    }
    Ok((documents, packed))
}

fn unpack(documents: &[String], runs: &[(String, usize, u64)], catalogue: &Catalogue) -> Result<Vec<RunSpec>, String> {
    let vocabulary = catalogue.vocabulary();
    let read = |document: &String| RunSpec::from_json(document, &vocabulary).map_err(|error| error.to_string());
    let points = documents.iter().map(read).collect::<Result<Vec<RunSpec>, String>>()?;
    let run = |(key, index, seed): &(String, usize, u64)| {
        let point = points.get(*index).ok_or_else(|| {
            format!("the run {key} has the document number {index}, and the batch has {}", points.len())
        })?;
        Ok(RunSpec { seed: *seed, ..point.clone() })
    };
    runs.iter().map(run).collect()
}

/// Ends the batches that threads of this process simulate for one call of `Campaign.run`: Python raises
/// KeyboardInterrupt only in its main thread. It stays set, because the executor does not know a thread that Ctrl-C
/// interrupted at its start, and cannot wait for it.
#[pyclass(frozen, module = "rnic._rnic")]
#[derive(Debug, Default)]
pub(crate) struct Stop(AtomicBool);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Stop {
        Stop::default()
    }

    /// Ends the batches that are being simulated, and every further one.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How a run ended on a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RunEnd {
    /// The run has a result.
    Ended(RunState),
    /// The run was interrupted and has no result.
    Interrupted,
}

impl RunEnd {
    const INTERRUPTED: &'static str = "interrupted";

    /// The word for Python, which engines can send to other processes and machines.
    fn word(self) -> &'static str {
        match self {
            RunEnd::Ended(state) => state.word(),
            RunEnd::Interrupted => RunEnd::INTERRUPTED,
        }
    }

    fn of_word(word: &str) -> PyResult<RunEnd> {
        if word == RunEnd::INTERRUPTED {
            return Ok(RunEnd::Interrupted);
        }
        let state = RunState::of_word(word);
        state.map(RunEnd::Ended).ok_or_else(|| PyValueError::new_err(format!("`{word}` is not the end of a run")))
    }
}

/// A run that a worker has ended: key, [`RunEnd`] as a word, value of the metric, CPU seconds.
type RunReport = (String, &'static str, Option<f64>, f64);

/// Collects the reports of a batch's runs, and ends the batch after an interruption.
struct BatchListener<'n> {
    metric: Option<&'n str>,
    cancelled: &'n AtomicBool,
    stop: Option<&'n Stop>,
    reports: Mutex<Vec<RunReport>>,
}

impl BatchListener<'_> {
    fn flow(&self) -> ControlFlow<()> {
        let stopped = self.stop.is_some_and(|stop| stop.0.load(Ordering::Relaxed));
        let ends = stopped || self.cancelled.load(Ordering::Relaxed);
        if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl CampaignListener for BatchListener<'_> {
    fn event(&self, _key: &str, _event: &RunEvent) -> ControlFlow<()> {
        self.flow()
    }

    fn ended(&self, key: &str, result: Option<&RunResult>) -> ControlFlow<()> {
        let end = result.map_or(RunEnd::Interrupted, |result| RunEnd::Ended(result.state));
        let metric = self.metric.zip(result).and_then(|(metric, result)| result.metric(metric));
        let cpu_s = result.map_or(0.0, |result| result.provenance.cpu_s);
        self.reports.lock().push((key.to_string(), end.word(), metric, cpu_s));
        self.flow()
    }
}

/// Simulates a batch of runs in this thread and stores their results in the folder `store`. Returns for each run its
/// key, `completed`, `failed` or `interrupted`, the value of `metric`, and its CPU seconds.
#[pyfunction]
#[pyo3(signature = (store, campaign, engine, records, batch, metric, code, stop = None))]
#[expect(clippy::too_many_arguments, reason = "the Python layer names them")]
pub(crate) fn work(
    py: Python<'_>, store: PathBuf, campaign: &str, engine: &str, records: bool, batch: Batch, metric: Option<&str>,
    code: &str, stop: Option<Py<Stop>>,
) -> PyResult<Vec<RunReport>> {
    if code != CODE {
        return Err(PyRuntimeError::new_err(format!(
            "a worker has the version {CODE} of rnic, and the program that sends it runs has {code}: their results \
             could differ; install the same version for both"
        )));
    }
    let (documents, runs) = batch;
    let catalogue = Catalogue::standard();
    let specs = unpack(&documents, &runs, &catalogue).map_err(PyValueError::new_err)?;
    let folder = Folder::at(&store);
    let place = Place { folder: &folder, campaign, engine, records, program: "" };
    let cancelled = AtomicBool::new(false);
    let stop = stop.as_ref().map(Py::get);
    let listener = BatchListener { metric, cancelled: &cancelled, stop, reports: Mutex::default() };
    let mut interrupted = None;
    let ended = py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, end) = std::sync::mpsc::channel();
            let (place, listener, catalogue, specs) = (&place, &listener, &catalogue, &specs);
            let worker = scope.spawn(move || {
                let refs: Vec<&RunSpec> = specs.iter().collect();
                let ended = campaign::execute(place, &refs, &BTreeMap::new(), &Threads::new(catalogue, 1), listener);
                // The other end exists until this thread has ended.
                let _ = sender.send(());
                ended
            });
            while end.recv_timeout(SIGNAL_INTERVAL) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                if interrupted.is_none()
                    && let Err(error) = Python::attach(|py| py.check_signals())
                {
                    cancelled.store(true, Ordering::Relaxed);
                    interrupted = Some(error);
                }
            }
            worker.join()
        })
    });
    match ended {
        Err(panic) => std::panic::resume_unwind(panic),
        Ok(Err(error)) => return Err(raised(error)),
        Ok(Ok(())) => {}
    }
    if let Some(error) = interrupted {
        return Err(error);
    }
    Ok(listener.reports.into_inner())
}

/// The results of campaigns in a folder.
#[pyclass(frozen, module = "rnic._rnic")]
#[derive(Debug)]
pub(crate) struct CampaignFolder {
    folder: Folder,
    manifests: Vec<Manifest>,
}

#[pymethods]
impl CampaignFolder {
    /// Opens the folder. `name` is the name of one campaign; without it, there are all.
    #[new]
    fn new(py: Python<'_>, store: PathBuf, name: Option<String>) -> PyResult<CampaignFolder> {
        let folder = Folder::at(&store);
        let manifests = py.detach(|| {
            let vocabulary = Catalogue::standard().vocabulary();
            let names = match name {
                Some(name) => vec![name],
                None => folder.campaigns()?,
            };
            names.iter().map(|name| folder.manifest(Some(name), &vocabulary)).collect::<Result<Vec<_>, _>>()
        });
        Ok(CampaignFolder { manifests: manifests.map_err(raised)?, folder })
    }

    #[getter]
    fn names(&self) -> Vec<&str> {
        self.manifests.iter().map(|manifest| manifest.name.as_str()).collect()
    }

    /// A row for each run with a result.
    fn rows(&self, py: Python<'_>, provenance: bool) -> PyResult<Table> {
        let table = py.detach(|| {
            let rows = self.manifests.iter();
            let rows: Vec<_> = rows.flat_map(|m| campaign::rows(m, &self.folder, "", provenance)).collect();
            tables::of_documents(&rows)
        });
        table.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// A row for each point, with the mean of a metric and its confidence interval.
    fn estimates(&self, py: Python<'_>, metric: Option<&str>, confidence: f64) -> PyResult<Table> {
        if let Some(metric) = metric
            && !METRICS.contains(&metric)
        {
            let message = format!("there is no metric `{metric}`; accepted: {}", METRICS.join(", "));
            return Err(PyValueError::new_err(message));
        }
        let table = py.detach(|| {
            let mut rows = Vec::new();
            for manifest in &self.manifests {
                let own = manifest.until.as_ref().map(|until| until.metric.as_str());
                let metric = metric.or(own).unwrap_or(METRICS[0]);
                for mut row in campaign::estimates(manifest, &self.folder, "", metric, confidence) {
                    row.shift_insert(0, "campaign".to_string(), json!(manifest.name));
                    row.shift_insert(1, "metric".to_string(), json!(metric));
                    rows.push(row);
                }
            }
            tables::of_documents(&rows)
        });
        table.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// A row for each run that failed or was lost.
    fn failures(&self, py: Python<'_>) -> PyResult<Table> {
        let table = py.detach(|| {
            let names = ["campaign", "point", "seed", "status", "failure"];
            let all = self.manifests.iter().flat_map(|m| campaign::rows(m, &self.folder, "", false));
            let failed = all.filter(|row| row.get("status").is_some_and(|status| status != "completed"));
            let cell = |row: &campaign::Row, name: &str| row.get(name).cloned().unwrap_or_default();
            let row = |row: campaign::Row| names.map(|name| (name.to_string(), cell(&row, name))).into_iter().collect();
            let rows: Vec<campaign::Row> = failed.map(row).collect();
            if rows.is_empty() {
                let texts = |name: &str| (name.to_string(), Arc::new(StringArray::new_null(0)) as ArrayRef);
                return tables::of_columns(names.map(texts).into_iter());
            }
            tables::of_documents(&rows)
        });
        table.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The flows of a run: the name of its point, and its seed.
    fn flows(&self, py: Python<'_>, run: &str, seed: u64) -> PyResult<Table> {
        let missing = |what: String| PyValueError::new_err(what);
        let found = self.manifests.iter().find_map(|manifest| {
            let last = manifest.until.as_ref().map_or(manifest.seeds, |until| until.max_seeds);
            let has = |spec: &&RunSpec| spec.name == run && (spec.seed..spec.seed + u64::from(last)).contains(&seed);
            manifest.runs.iter().find(has).map(|spec| RunSpec { seed, ..spec.clone() })
        });
        let spec = found.ok_or_else(|| missing(format!("there is no run \"{run}\" with the seed {seed}")))?;
        let record: Option<RunRecord> = py.detach(|| self.folder.record(&Fingerprint::of(&spec, "")));
        let record = record.ok_or_else(|| {
            missing(format!(
                "the record of run \"{run}\" with the seed {seed} is not stored; accepted: a run of a campaign with \
                 records=True that has a result"
            ))
        })?;
        let scenario = Scenario { title: String::new(), name: String::new(), seed, runs: vec![spec] };
        py.detach(|| tables::flows(&scenario, &[record], 0..1)).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// The state of each campaign as JSON.
    fn status(&self, py: Python<'_>) -> String {
        py.detach(|| {
            let status = |manifest: &Manifest| campaign::status(manifest, &self.folder, "").to_json(&manifest.name);
            serde_json::Value::from(self.manifests.iter().map(status).collect::<Vec<_>>()).to_string()
        })
    }

    /// Writes a row for each run with a result as Parquet or CSV. The rows are not in memory together.
    fn write(&self, py: Python<'_>, path: PathBuf, provenance: bool) -> PyResult<()> {
        let parquet = match path.extension().and_then(|ending| ending.to_str()) {
            Some("parquet") => true,
            Some("csv") => false,
            _ => {
                let message = format!("`{}`: unknown ending; accepted: .parquet, .csv", path.display());
                return Err(PyValueError::new_err(message));
            }
        };
        let written = py.detach(|| {
            let all = || self.manifests.iter().flat_map(|m| campaign::rows(m, &self.folder, "", provenance));
            let columns = Columns::of(all());
            write_atomically(&path, |out| {
                if parquet { write_parquet(out, &columns, all()) } else { write_csv(out, &columns, all()) }
            })
        });
        written.map(|_| ()).map_err(|error| match error.raw_os_error() {
            Some(errno) => PyOSError::new_err((errno, error.to_string())),
            None => PyOSError::new_err(error.to_string()),
        })
    }

    /// Removes what no campaign of the folder needs; with `dry` it only counts. Returns the numbers of unused results,
    /// of damaged files and of journals, and their bytes.
    fn clean(&self, py: Python<'_>, dry: bool) -> PyResult<(usize, usize, usize, u64)> {
        let removed = py.detach(|| {
            let used = campaign::used(&self.folder, &Catalogue::standard().vocabulary(), "")?;
            self.folder.clean(&used, dry)
        });
        let removed = removed.map_err(raised)?;
        Ok((removed.unused, removed.damaged, removed.journals, removed.bytes))
    }
}

/// The metrics of runs: numbers of `summary.json`, with their keys joined by dots.
#[pyfunction]
pub(crate) fn metrics() -> Vec<&'static str> {
    METRICS.to_vec()
}

/// The mean of values, and half the width of its confidence interval, `None` for a single value. `None` without values.
#[pyfunction]
pub(crate) fn estimate(values: Vec<f64>, confidence: f64) -> Option<(f64, Option<f64>)> {
    Estimate::of(&values, confidence).map(|estimate| (estimate.mean, estimate.half_width))
}

/// Version and hash of the code that determines results.
#[pyfunction]
pub(crate) fn code() -> &'static str {
    CODE
}
