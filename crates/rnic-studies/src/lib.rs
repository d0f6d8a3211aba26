//! Reproductions of papers: their experiments as simulated scenarios, and their claims compared with the results.
//!
//! A [`Study`] is one paper: its scenario files, which are embedded in the program, and its [`Experiment`]s. Each
//! experiment names its runs and the claims of the paper about them. [`Plan::new`] turns a [`Request`] (the experiments
//! to reproduce) into jobs. A job is one simulation, which several experiments may share.
//! [`jobs::execute`] executes the jobs that have no stored result. [`Plan::conclude`] compares the
//! results with the claims. To add a paper, add a module like [`irn`] and its entry in [`STUDIES`].
//!
//! ```
//! use rnic_studies::{Plan, Request, irn};
//!
//! let request = Request { experiments: vec!["fig1".into()], quick: true, seeds: Some(1), ..Request::default() };
//! let plan = Plan::new(&irn::STUDY, &request)?;
//! assert_eq!(plan.jobs.len(), 2, "RoCE + PFC and IRN");
//! # Ok::<(), String>(())
//! ```

pub mod ai;
pub mod arbitration;
pub mod at_scale;
pub mod dcqcn;
pub mod figures;
mod files;
pub mod hostcc;
pub mod irn;
pub mod irn_unstated;
pub mod jobs;
pub mod measured;
pub mod measurement;
pub mod metric;
pub mod nanotransport;
mod record;
pub mod rogue;
mod state;
mod table;
pub mod uet;
pub mod verdict;

#[cfg(test)]
mod tests;

pub use figures::Chart;
pub use files::write_all;
pub use measured::Measured;
pub use measurement::Measurement;
pub use metric::Metric;
pub use record::record;
pub use state::{BEHAVIOUR, ExperimentState};
pub use table::{table, tally};
pub use verdict::{Outcome, Row, Verdict};

use jobs::Job;
use rnic_campaign::Fingerprint;
use rnic_scenario::{Origin, read_with};
use rnic_sim::Catalogue;
use rnic_spec::RunSpec;
use std::collections::BTreeMap;

/// All studies that `rnic reproduce` can execute.
pub const STUDIES: [&Study; 10] = [
    &irn::STUDY,
    &arbitration::STUDY,
    &irn_unstated::STUDY,
    &dcqcn::STUDY,
    &nanotransport::STUDY,
    &rogue::STUDY,
    &hostcc::STUDY,
    &at_scale::STUDY,
    &ai::STUDY,
    &uet::STUDY,
];

/// Embeds files of a folder of `scenarios/`, as a list of (name, text).
macro_rules! scenarios {
    ($folder:literal, $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../scenarios/", $folder, "/", $name)))),*]
    };
}
pub(crate) use scenarios;

/// The reproduction of one paper.
#[derive(Debug)]
pub struct Study {
    /// Name of the study on the command line: `rnic reproduce <name>`.
    pub name: &'static str,
    /// Title of the paper.
    pub title: &'static str,
    /// Scenario files of the study as (name, text). A file may extend another file of the list.
    pub files: &'static [(&'static str, &'static str)],
    /// The experiments, in the order of the paper.
    pub experiments: &'static [Experiment],
    /// Names of the experiments in which nothing is random: every seed gives the same result, which therefore needs no
    /// confidence interval. A single value of another experiment decides no claim.
    pub exact: &'static [&'static str],
    /// Remarks on how the reproduction differs from the paper, a paragraph each.
    pub remarks: &'static [&'static str],
}

/// One experiment of a study: a figure or a claim of the paper.
#[derive(Debug)]
pub struct Experiment {
    /// Name of the experiment on the command line.
    pub name: &'static str,
    /// Title of the experiment.
    pub title: &'static str,
    /// Number of seeds with which each run is repeated. Seeds count from 1.
    pub seeds: u32,
    /// Runs of the experiment, selected from the study's scenario files.
    pub sources: &'static [Source],
    /// Figures that show the results of the experiment.
    pub charts: &'static [Chart],
    /// Compares the paper's claims with the results: a row for each claim.
    pub rows: fn(&Measured<'_>) -> Vec<Row>,
}

/// A selection of the runs of one scenario file.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Name of the scenario file, as in [`Study::files`].
    pub file: &'static str,
    /// Names of the selected runs in the file; empty for all runs.
    pub runs: &'static [&'static str],
    /// Names of the selected congestion controls; empty for all.
    pub ccs: &'static [&'static str],
    /// Settings that `--quick` changes, as (key, value) in the form of `--set`.
    pub quick: &'static [(&'static str, &'static str)],
    /// Points of the file's sweep that `--quick` simulates; empty for all points.
    pub quick_points: &'static [&'static str],
}

/// The part of a study to reproduce, and how thoroughly.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Names of the experiments to reproduce; empty for all experiments of the study.
    pub experiments: Vec<String>,
    /// Whether to simulate only few flows, seeds and points (`--quick`).
    pub quick: bool,
    /// Number of seeds for every experiment; `None` for the number that each experiment defines.
    pub seeds: Option<u32>,
    /// Further settings for every scenario, as (key, value) in the form of `--set`.
    pub set: Vec<(String, String)>,
}

/// Maximum number of seeds per experiment with `--quick`.
const QUICK_SEEDS: u32 = 2;

/// The warning that accompanies results of `--quick`.
pub const QUICK: &str =
    "A quick look, not the reproduction: with so few flows, seeds and points, queues do not fill as in the full runs";

/// Key under which the result of a simulation is found: the properties that distinguish the runs of an experiment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RunKey {
    pub(crate) file: &'static str,
    pub(crate) run: String,
    pub(crate) cc: &'static str,
    pub(crate) point: String,
    pub(crate) seed: u64,
}

/// An experiment with the simulations that it needs.
#[derive(Debug)]
pub struct Planned {
    /// The experiment as its study defines it.
    pub experiment: &'static Experiment,
    /// Indices of the experiment's jobs in [`Plan::jobs`], or the reason why the experiment is not available.
    pub jobs: Result<Vec<usize>, String>,
    /// For each run, the index of its job in [`Plan::jobs`].
    keys: BTreeMap<RunKey, usize>,
    /// Points of the experiment's sweeps as (name of the scenario file, name of the point), in the order of the files.
    points: Vec<(&'static str, String)>,
    /// Number of seeds with which each run is repeated.
    pub seeds: u32,
}

/// All simulations that a request needs. Experiments can share simulations.
#[derive(Debug)]
pub struct Plan {
    /// The study to which the request refers.
    pub study: &'static Study,
    /// Whether the request was for few flows, seeds and points (`--quick`).
    pub quick: bool,
    /// Number of seeds in the request; `None` if each experiment's own number applies.
    pub asked_seeds: Option<u32>,
    /// The requested experiments, in the paper's order.
    pub experiments: Vec<Planned>,
    /// The simulations of all experiments, without duplicates.
    pub jobs: Vec<Job>,
    /// Number of jobs without a result, because the reproduction was interrupted; 0 for a complete reproduction. With
    /// another number, all result files say that they are partial.
    pub missing: usize,
}

/// The reason why a simulation of an interrupted reproduction has no result.
const INTERRUPTED: &str = "not simulated, because the reproduction was interrupted";

impl Plan {
    /// Determines the simulations that `request` needs.
    ///
    /// # Errors
    /// One sentence if the study has no experiment with a requested name.
    pub fn new(study: &'static Study, request: &Request) -> Result<Plan, String> {
        if let Some(unknown) = request.experiments.iter().find(|n| study.experiments.iter().all(|e| e.name != **n)) {
            let names: Vec<&str> = study.experiments.iter().map(|e| e.name).collect();
            let near = names.iter().map(|name| (strsim::osa_distance(name, unknown), name)).filter(|near| near.0 <= 2);
            let hint =
                near.min_by_key(|near| near.0).map_or(String::new(), |(_, name)| format!(" (did you mean `{name}`?)"));
            return Err(format!("{} has no experiment `{unknown}`{hint}; there are: {}", study.name, names.join(", ")));
        }
        let mut plan = Plan {
            study,
            quick: request.quick,
            asked_seeds: request.seeds,
            experiments: Vec::new(),
            jobs: Vec::new(),
            missing: 0,
        };
        let mut known: BTreeMap<Fingerprint, usize> = BTreeMap::new();
        let wanted =
            |e: &&Experiment| request.experiments.is_empty() || request.experiments.iter().any(|n| n == e.name);
        for experiment in study.experiments.iter().filter(wanted) {
            plan.add(experiment, request, &mut known);
        }
        Ok(plan)
    }

    fn add(&mut self, experiment: &'static Experiment, request: &Request, known: &mut BTreeMap<Fingerprint, usize>) {
        let own = if request.quick { experiment.seeds.min(QUICK_SEEDS) } else { experiment.seeds };
        let seeds = request.seeds.unwrap_or(own);
        let mut planned =
            Planned { experiment, jobs: Ok(Vec::new()), keys: BTreeMap::new(), points: Vec::new(), seeds };
        let mut numbers = Vec::new();
        for source in experiment.sources {
            for seed in 1..=u64::from(seeds) {
                let runs = match source.runs_of(self.study, request, seed) {
                    Ok(runs) => runs,
                    Err(reason) => {
                        planned.jobs = Err(reason);
                        self.experiments.push(planned);
                        return;
                    }
                };
                for run in runs {
                    let point = point(&run);
                    if !planned.points.iter().any(|(file, known)| (*file, known) == (source.file, &point)) {
                        planned.points.push((source.file, point.clone()));
                    }
                    let name = run.base.clone();
                    let cc = run.transport.cc.name();
                    let job = Job::new(run);
                    let number = *known.entry(job.fingerprint.clone()).or_insert_with(|| {
                        self.jobs.push(job);
                        self.jobs.len() - 1
                    });
                    numbers.push(number);
                    planned.keys.insert(RunKey { file: source.file, run: name, cc, point, seed }, number);
                }
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        planned.jobs = Ok(numbers);
        self.experiments.push(planned);
    }

    /// The jobs of one experiment of this plan.
    pub fn jobs_of(&self, planned: &Planned) -> Vec<Job> {
        planned.jobs.iter().flatten().map(|number| self.jobs[*number].clone()).collect()
    }

    /// Completes the results of an interrupted reproduction for [`Plan::conclude`]: a job without a result gets a
    /// failed result, so a claim that needs it gets no verdict. Notes the number of missing results in
    /// [`Plan::missing`].
    pub fn accept_partial(&mut self, results: Vec<Option<Measurement>>) -> Vec<Measurement> {
        self.missing = results.iter().filter(|result| result.is_none()).count();
        results
            .into_iter()
            .map(|result| result.unwrap_or_else(|| Measurement::failed(INTERRUPTED.to_string())))
            .collect()
    }

    /// The sentence that the results are partial, without a full stop; `None` if they are complete.
    pub fn partial(&self) -> Option<String> {
        let total = self.jobs.len();
        let done = self.jobs.len() - self.missing;
        (self.missing > 0).then(|| {
            format!("PARTIAL RESULTS: the reproduction was interrupted; {done} of {total} simulations have a result")
        })
    }

    /// Compares the results with the paper's claims, one verdict per claim. `results` are the results of
    /// [`Plan::jobs`], in the same order.
    pub fn conclude(&self, results: &[Measurement]) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for planned in &self.experiments {
            let measured = self.measured(planned, results);
            let rows = (planned.experiment.rows)(&measured);
            let name = planned.experiment.name;
            let exact = self.study.exact.contains(&name);
            verdicts.extend(rows.into_iter().map(|row| Verdict::of(name, exact, row)));
        }
        verdicts
    }

    /// The results of one experiment. `results` are the results of [`Plan::jobs`], in the same order.
    pub fn measured<'r>(&'r self, planned: &'r Planned, results: &'r [Measurement]) -> Measured<'r> {
        let missing = planned.jobs.as_ref().err().map(String::as_str);
        let of = |(key, number): (&'r RunKey, &usize)| Some((key, results.get(*number)?));
        Measured::new(planned.keys.iter().filter_map(of).collect(), &planned.points, missing)
    }
}

impl Source {
    /// Swept keys whose values follow from another key of the same sweep, so that the names of points need not contain
    /// them.
    const ALONG: [&'static str; 5] = [
        "fabric.switch.xoff",
        "traffic.flows",
        "traffic.warmup",
        "traffic.background.flows",
        "traffic.background.warmup",
    ];

    /// A selection of all runs of a scenario file.
    pub const fn all(file: &'static str) -> Source {
        Source { file, runs: &[], ccs: &[], quick: &[], quick_points: &[] }
    }

    /// The same selection, restricted to runs with these names.
    pub const fn runs(self, runs: &'static [&'static str]) -> Source {
        Source { runs, ..self }
    }

    /// The same selection, restricted to runs with these congestion controls.
    pub const fn ccs(self, ccs: &'static [&'static str]) -> Source {
        Source { ccs, ..self }
    }

    /// The same selection, with the settings and the points of the sweep that `--quick` simulates. An empty
    /// `quick_points` selects all points.
    pub const fn quick(
        self, quick: &'static [(&'static str, &'static str)], quick_points: &'static [&'static str],
    ) -> Source {
        Source { quick, quick_points, ..self }
    }

    /// The specifications of the selected runs with the given seed.
    fn runs_of(&self, study: &Study, request: &Request, seed: u64) -> Result<Vec<RunSpec>, String> {
        let quick =
            self.quick.iter().filter(|_| request.quick).map(|(key, value)| (key.to_string(), value.to_string()));
        let set: Vec<(String, String)> = quick.chain(request.set.iter().cloned()).collect();
        let origin = Origin::Embedded { files: study.files, name: self.file };
        let vocabulary = Catalogue::standard().vocabulary();
        let scenario = read_with(&vocabulary, &origin, &set, Some(seed)).map_err(|error| error.to_string())?;
        let wanted = |run: &RunSpec| {
            (self.runs.is_empty() || self.runs.contains(&run.base.as_str()))
                && (self.ccs.is_empty() || self.ccs.contains(&run.transport.cc.name()))
                && (!request.quick || self.quick_points.is_empty() || self.quick_points.contains(&point(run).as_str()))
        };
        Ok(scenario.runs.into_iter().filter(wanted).collect())
    }
}

/// Name of the run's point of the sweep: the values of the swept keys without quotes. The values of the congestion
/// control, of the seed and of the keys in [`Source::ALONG`] are left out. Empty if no value remains.
fn point(run: &RunSpec) -> String {
    let axis = |(key, _): &&(String, String)| {
        !["transport.cc", "run.cc", "seed"].contains(&key.as_str()) && !Source::ALONG.contains(&key.as_str())
    };
    let values: Vec<&str> = run.point.iter().filter(axis).map(|(_, value)| value.trim_matches('"')).collect();
    values.join(", ")
}
