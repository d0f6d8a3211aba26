//! Reproducing a paper: its experiments as scenarios, its statements as rows, and what became of them.
//!
//! A [`Study`] is one paper: embedded scenario files and [`Experiment`]s, each of which says which runs it needs and which
//! statements they bear on. [`Plan::new`] turns a selection into jobs, each simulation once however many experiments share
//! it; [`rnic_campaign::jobs::execute`] does those that have no result yet; [`Plan::conclude`] holds the results against the statements.
//! Another paper is another file beside [`irn`] and an entry in [`STUDIES`].

pub mod dcqcn;
pub mod figures;
mod files;
pub mod irn;
pub mod measured;
pub mod nanotransport;
pub mod statistics;
mod table;
pub mod verdict;

#[cfg(test)]
mod tests;

pub use figures::Chart;
pub use files::write_all;
pub use measured::Measured;
pub use table::{table, tally};
pub use verdict::{Outcome, Row, Verdict};

use rnic_campaign::jobs::Job;
use rnic_campaign::{Fingerprint, Measurement};
use rnic_run::RunSpec;
use rnic_scenario::from_embedded;
use std::collections::BTreeMap;

/// Every paper that can be reproduced.
pub const STUDIES: [&Study; 3] = [&irn::STUDY, &dcqcn::STUDY, &nanotransport::STUDY];

/// Files of a folder of `scenarios/` with their texts.
macro_rules! scenarios {
    ($folder:literal, $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../scenarios/", $folder, "/", $name)))),*]
    };
}
pub(crate) use scenarios;

/// One paper.
#[derive(Debug)]
pub struct Study {
    /// What the command calls it.
    pub name: &'static str,
    /// The paper.
    pub title: &'static str,
    /// The scenario files by name; they may extend one another.
    pub files: &'static [(&'static str, &'static str)],
    /// What it reports, in its order.
    pub experiments: &'static [Experiment],
    /// How its numbers relate to the paper's, a paragraph each.
    pub remarks: &'static [&'static str],
}

/// One figure or statement of a paper.
#[derive(Debug)]
pub struct Experiment {
    /// What the command calls it.
    pub name: &'static str,
    /// What it compares.
    pub title: &'static str,
    /// How many seeds, from 1.
    pub seeds: u32,
    /// The runs it needs.
    pub sources: &'static [Source],
    /// Its figures.
    pub charts: &'static [Chart],
    /// The paper's statements with what was measured for them.
    pub rows: fn(&Measured<'_>) -> Vec<Row>,
}

/// Some of a scenario file's runs.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Name of the file.
    pub file: &'static str,
    /// Names of the runs in the file; none: all.
    pub runs: &'static [&'static str],
    /// Their congestion controls; none: all.
    pub ccs: &'static [&'static str],
    /// Settings for a quick look, as `--set` takes them.
    pub quick: &'static [(&'static str, &'static str)],
    /// Points of the sweep for a quick look; none: all.
    pub quick_points: &'static [&'static str],
}

/// What is asked of a study.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Names of experiments; none: all.
    pub experiments: Vec<String>,
    /// Few flows, few seeds, few points.
    pub quick: bool,
    /// Seeds of every experiment, in place of its own number.
    pub seeds: Option<u32>,
    /// More settings for every scenario.
    pub set: Vec<(String, String)>,
}

/// Seeds of a quick look.
const QUICK_SEEDS: u32 = 2;

/// What must be known of a quick look.
pub const QUICK: &str =
    "A quick look, not the reproduction: few flows, seeds and points, so that queues do not fill as they do in it";

/// Where a result belongs: what tells the runs of a study apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub(crate) file: &'static str,
    pub(crate) run: String,
    pub(crate) cc: &'static str,
    pub(crate) point: String,
    pub(crate) seed: u64,
}

/// One experiment with its jobs.
#[derive(Debug)]
pub struct Planned {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// Positions of its jobs in the plan, or why it cannot be done.
    pub jobs: Result<Vec<usize>, String>,
    /// Which result is whose.
    places: BTreeMap<Place, usize>,
    /// Points of its sweeps in the files' order.
    points: Vec<(&'static str, String)>,
    /// How many seeds it has.
    pub seeds: u32,
}

/// Everything to simulate for a request.
#[derive(Debug)]
pub struct Plan {
    /// The paper.
    pub study: &'static Study,
    /// Whether it is only a quick look.
    pub quick: bool,
    /// The number of seeds that was asked for, if any.
    pub asked_seeds: Option<u32>,
    /// The experiments, in the paper's order.
    pub experiments: Vec<Planned>,
    /// The simulations, each once.
    pub jobs: Vec<Job>,
}

impl Plan {
    /// Works out what the request needs.
    ///
    /// # Errors
    /// One sentence, when there is no experiment of a name.
    pub fn new(study: &'static Study, request: &Request) -> Result<Plan, String> {
        if let Some(unknown) = request.experiments.iter().find(|n| study.experiments.iter().all(|e| e.name != **n)) {
            let names: Vec<&str> = study.experiments.iter().map(|e| e.name).collect();
            let near = names.iter().map(|name| (strsim::osa_distance(name, unknown), name)).filter(|near| near.0 <= 2);
            let hint =
                near.min_by_key(|near| near.0).map_or(String::new(), |(_, name)| format!("; did you mean `{name}`"));
            return Err(format!("{} has no experiment `{unknown}`{hint}; there are: {}", study.name, names.join(", ")));
        }
        let mut plan =
            Plan { study, quick: request.quick, asked_seeds: request.seeds, experiments: Vec::new(), jobs: Vec::new() };
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
            Planned { experiment, jobs: Ok(Vec::new()), places: BTreeMap::new(), points: Vec::new(), seeds };
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
                    let (name, cc) = (run.base.clone(), run.transport.cc.name());
                    let job = Job::new(run);
                    let number = *known.entry(job.fingerprint.clone()).or_insert_with(|| {
                        self.jobs.push(job);
                        self.jobs.len() - 1
                    });
                    numbers.push(number);
                    planned.places.insert(Place { file: source.file, run: name, cc, point, seed }, number);
                }
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        planned.jobs = Ok(numbers);
        self.experiments.push(planned);
    }

    /// The jobs of one experiment.
    pub fn jobs_of(&self, planned: &Planned) -> Vec<Job> {
        planned.jobs.iter().flatten().map(|number| self.jobs[*number].clone()).collect()
    }

    /// Holds the results, which are in the order of the jobs, against the paper's statements.
    pub fn conclude(&self, results: &[Measurement]) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for planned in &self.experiments {
            let measured = self.measured(planned, results);
            let rows = (planned.experiment.rows)(&measured);
            verdicts.extend(rows.into_iter().map(|row| Verdict::of(planned.experiment.name, row)));
        }
        verdicts
    }

    /// The results of one experiment.
    pub fn measured<'r>(&'r self, planned: &'r Planned, results: &'r [Measurement]) -> Measured<'r> {
        let missing = planned.jobs.as_ref().err().map(String::as_str);
        let of = |(place, number): (&'r Place, &usize)| Some((place, results.get(*number)?));
        Measured::new(planned.places.iter().filter_map(of).collect(), &planned.points, missing)
    }
}

impl Source {
    /// Keys that follow another one in a sweep and need no mention.
    const ALONG: [&'static str; 3] = ["fabric.switch.xoff", "traffic.flows", "traffic.warmup"];

    /// All runs of a file.
    pub const fn all(file: &'static str) -> Source {
        Source { file, runs: &[], ccs: &[], quick: &[], quick_points: &[] }
    }

    /// Only these runs.
    pub const fn runs(self, runs: &'static [&'static str]) -> Source {
        Source { runs, ..self }
    }

    /// Only these congestion controls.
    pub const fn ccs(self, ccs: &'static [&'static str]) -> Source {
        Source { ccs, ..self }
    }

    /// These settings and points for a quick look; no points: all.
    pub const fn quick(
        self, quick: &'static [(&'static str, &'static str)], quick_points: &'static [&'static str],
    ) -> Source {
        Source { quick, quick_points, ..self }
    }

    /// Its runs for one seed.
    fn runs_of(&self, study: &Study, request: &Request, seed: u64) -> Result<Vec<RunSpec>, String> {
        let quick =
            self.quick.iter().filter(|_| request.quick).map(|(key, value)| (key.to_string(), value.to_string()));
        let set: Vec<(String, String)> = quick.chain(request.set.iter().cloned()).collect();
        let scenario = from_embedded(study.files, self.file, &set, Some(seed)).map_err(|error| error.to_string())?;
        let wanted = |run: &RunSpec| {
            (self.runs.is_empty() || self.runs.contains(&run.base.as_str()))
                && (self.ccs.is_empty() || self.ccs.contains(&run.transport.cc.name()))
                && (!request.quick || self.quick_points.is_empty() || self.quick_points.contains(&point(run).as_str()))
        };
        Ok(scenario.runs.into_iter().filter(wanted).collect())
    }
}

/// The values of the swept keys other than the congestion control, without quotes; empty where there are none. Of keys that
/// belong together ([`Source::ALONG`]) the first one tells.
fn point(run: &RunSpec) -> String {
    let axis = |(key, _): &&(String, String)| {
        !["transport.cc", "run.cc", "seed"].contains(&key.as_str()) && !Source::ALONG.contains(&key.as_str())
    };
    let values: Vec<&str> = run.point.iter().filter(axis).map(|(_, value)| value.trim_matches('"')).collect();
    values.join(", ")
}
