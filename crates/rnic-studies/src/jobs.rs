//! Executes the simulations of a study (the reproduction of a paper's experiments), the longest first. A simulation
//! whose result is stored is not executed again.
//!
//! A result is stored under its [`Fingerprint`], which covers everything that determines the result. So no old result
//! is used after a change of a setting, the seed or the program.

use crate::measurement::Measurement;
use rnic_campaign::{
    Executor, Fingerprint, Header, Outcome, RunListener, Sink, Store, Stored, cost, read_value, write_value,
};
use rnic_sim::Catalogue;
use rnic_sim::resolve::reset_idle_settings;
use rnic_spec::{RunEvent, RunSpec, RunStatus};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Hash of the code that turns the record of a run into its [`Measurement`]; part of the fingerprint of every stored
/// measurement, in addition to the simulator's code. The build script computes it.
const MEASUREMENT_CODE: &str = env!("RNIC_MEASUREMENT_CODE");

/// One simulation of a study (the reproduction of a paper's experiments).
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Fingerprint of the result: the fingerprint of the run without the transport settings that have no effect on it.
    pub fingerprint: Fingerprint,
    /// The run to simulate.
    pub run: RunSpec,
    /// Expected CPU seconds of the simulation, as [`cost`] estimates them.
    pub cost: f64,
}

impl Job {
    /// The job that simulates `run`.
    pub fn new(run: RunSpec) -> Job {
        let mut effective = run.clone();
        reset_idle_settings(&Catalogue::standard(), &mut effective);
        Job { fingerprint: Fingerprint::of(&effective, MEASUREMENT_CODE), cost: cost(&run), run }
    }
}

impl Stored for Measurement {
    const ENDING: &'static str = "measurement";

    fn write_to(&self, mut out: &mut dyn Write) -> io::Result<()> {
        write_value(&mut out, self)
    }

    fn read_from(mut input: &mut dyn Read, length: u64) -> io::Result<Measurement> {
        read_value(&mut input, length)
    }
}

/// Progress of a list of jobs (simulations).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JobProgress {
    /// Number of jobs with a result.
    pub done: usize,
    /// Number of jobs whose result was already stored, part of `done`.
    pub found: usize,
    /// Number of all jobs.
    pub total: usize,
    /// Expected seconds until all jobs are done.
    pub remaining_s: f64,
}

/// Results of the finished jobs (simulations), and the CPU time that these jobs took.
struct FinishedJobs {
    results: Vec<Option<Measurement>>,
    found: usize,
    done: usize,
    /// Expected CPU seconds of the jobs that are done; `real_s` has the measured CPU seconds.
    expected_s: f64,
    real_s: f64,
    /// Expected CPU seconds of the jobs that are not done.
    remaining_s: f64,
    /// Error of the first result that could not be stored.
    error: Option<io::Error>,
}

impl FinishedJobs {
    fn progress(&self, width: usize) -> JobProgress {
        let width = width.clamp(1, (self.results.len() - self.done).max(1));
        JobProgress {
            done: self.done,
            found: self.found,
            total: self.results.len(),
            remaining_s: self.remaining_s * scale(self.expected_s, self.real_s) / width as f64,
        }
    }

    /// Adds the result and the CPU time of a job that was just simulated.
    fn add_simulated(&mut self, index: usize, cost: f64, result: Measurement, cpu_s: f64, stored: io::Result<()>) {
        self.remaining_s = (self.remaining_s - cost).max(0.0);
        self.add(index, cost, result, cpu_s);
        if let Err(error) = stored {
            self.error.get_or_insert(error);
        }
    }

    fn add(&mut self, index: usize, cost: f64, result: Measurement, cpu_s: f64) {
        self.results[index] = Some(result);
        self.done += 1;
        self.expected_s += cost;
        self.real_s += cpu_s;
    }
}

/// Ratio of real to expected CPU time of the jobs that are done; 1 if none is done.
fn scale(expected_s: f64, real_s: f64) -> f64 {
    if expected_s > 0.0 && real_s > 0.0 { real_s / expected_s } else { 1.0 }
}

/// The stored result of a job and the CPU seconds that the job took; `None` if there is no valid stored result.
fn stored(store: &Store<Measurement>, job: &Job) -> Option<(Measurement, f64)> {
    let (header, result) = store.get(&job.fingerprint).ok()??;
    Some((result, header.cpu_s))
}

/// Returns an estimate of the seconds that the remaining jobs will take, and the number of these jobs. The remaining
/// jobs are those without a stored result, or all jobs if `fresh`. The CPU times of stored results calibrate the
/// estimate for this machine. `width` is the number of jobs that are executed at the same time.
pub fn outlook(jobs: &[Job], store: Option<&Store<Measurement>>, width: usize, fresh: bool) -> (f64, usize) {
    // Sums over the jobs with a stored result, whose CPU time is known.
    let mut expected_s = 0.0;
    let mut real_s = 0.0;
    // Over the jobs to execute.
    let mut remaining_s = 0.0;
    let mut longest_s = 0.0_f64;
    let mut count = 0;
    for job in jobs {
        let found = store.and_then(|store| stored(store, job));
        if let Some((_, cpu_s)) = &found {
            expected_s += job.cost;
            real_s += cpu_s;
        }
        if found.is_none() || fresh {
            remaining_s += job.cost;
            longest_s = longest_s.max(job.cost);
            count += 1;
        }
    }
    let width = width.clamp(1, count.max(1)) as f64;
    ((remaining_s / width).max(longest_s) * scale(expected_s, real_s), count)
}

/// Minimum expected CPU seconds of the job with which [`calibrate`] measures the speed of the machine.
const CALIBRATION_S: f64 = 0.3;

/// Executes one short job if no job has a stored result, so that [`outlook`] knows the speed of the machine. `listener`
/// can interrupt the job.
///
/// # Errors
/// The result of the job cannot be stored.
pub fn calibrate(
    jobs: &[Job], store: &Store<Measurement>, executor: &dyn Executor, listener: &dyn RunListener,
) -> io::Result<()> {
    if jobs.iter().any(|job| stored(store, job).is_some()) {
        return Ok(());
    }
    // The CPU time of a very short job is not representative of longer jobs.
    let long_enough = |job: &&Job| job.cost >= CALIBRATION_S;
    let shortest = jobs.iter().filter(long_enough).min_by(|a, b| a.cost.total_cmp(&b.cost));
    let job = shortest.or_else(|| jobs.iter().max_by(|a, b| a.cost.total_cmp(&b.cost)));
    job.map_or(Ok(()), |job| execute(std::slice::from_ref(job), store, executor, false, listener, &|_| {}).map(|_| ()))
}

/// A sink that stores the result of each job when it is done.
struct MeasurementSink<'s> {
    jobs: &'s [Job],
    /// For each executed run, the index of its job in `jobs`.
    indices: Vec<usize>,
    store: &'s Store<Measurement>,
    finished: Mutex<FinishedJobs>,
    listener: &'s dyn RunListener,
    progress: &'s (dyn Fn(JobProgress) + Sync),
    width: usize,
}

impl Sink for MeasurementSink<'_> {
    fn event(&self, run: usize, event: RunEvent) -> ControlFlow<()> {
        self.listener.event(self.indices[run], &event)
    }

    fn done(&self, run: usize, outcome: Outcome) -> ControlFlow<()> {
        let index = self.indices[run];
        let job = &self.jobs[index];
        if outcome.as_ref().is_ok_and(|record| record.output.status == RunStatus::Interrupted) {
            // A partial result is not stored, so the simulation is repeated the next time.
            return ControlFlow::Break(());
        }
        let flow = outcome.as_ref().map_or(ControlFlow::Continue(()), |record| self.listener.finished(index, record));
        let (result, cpu_s) = Measurement::of_outcome(&job.run, outcome);
        let header =
            Header { run: job.run.name.clone(), seed: job.run.seed, cpu_s, fingerprint: job.fingerprint.clone() };
        let stored = self.store.put(&header, &result);
        let mut finished = lock(&self.finished);
        finished.add_simulated(index, job.cost, result, cpu_s, stored);
        (self.progress)(finished.progress(self.width));
        if finished.error.is_some() { ControlFlow::Break(()) } else { flow }
    }
}

/// Executes every job that has no stored result (with `fresh`, every job) and returns all results in the order of the
/// jobs; `None` for a job that `listener` interrupted or kept from starting. No two jobs may have the same fingerprint.
/// `progress` is called once before the first job starts, and after each job, from any thread.
///
/// ```
/// # let text = r#"
/// #     [fabric]
/// #     topology = "single-switch"
/// #     hosts = 4
/// #     rate = "100 Gbps"
/// #     delay = "1 us"
/// #     [traffic]
/// #     pattern = "permutation"
/// #     sizes = "fixed 64 KB"
/// #     [[run]]
/// #     name = "IRN"
/// #     transport = "irn"
/// # "#;
/// # let scenario = rnic_scenario::from_str(text, "example.toml", "".as_ref(), &[], None).unwrap();
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
/// use rnic_studies::jobs::{Job, execute};
/// use rnic_campaign::{Ignore, Store, Threads};
/// use rnic_sim::Catalogue;
///
/// let jobs: Vec<Job> = scenario.runs.into_iter().map(Job::new).collect();
/// let store = Store::at(folder);
/// let executor = Threads::new(&Catalogue::standard(), 2);
/// let measurements = execute(&jobs, &store, &executor, false, &Ignore, &|_| {})?;
/// let first = measurements[0].as_ref().unwrap();
/// assert_eq!(first.flows.map(|flows| flows.count), Some(4));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// A result cannot be stored. Jobs that are running at that moment finish first.
pub fn execute(
    jobs: &[Job], store: &Store<Measurement>, executor: &dyn Executor, fresh: bool, listener: &dyn RunListener,
    progress: &(dyn Fn(JobProgress) + Sync),
) -> io::Result<Vec<Option<Measurement>>> {
    let width = executor.width();
    let mut finished = FinishedJobs {
        results: vec![None; jobs.len()],
        found: 0,
        done: 0,
        expected_s: 0.0,
        real_s: 0.0,
        remaining_s: 0.0,
        error: None,
    };
    let mut indices = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        match stored(store, job).filter(|_| !fresh) {
            Some((result, cpu_s)) => {
                finished.add(index, job.cost, result, cpu_s);
                finished.found += 1;
            }
            None => {
                finished.remaining_s += job.cost;
                indices.push(index);
            }
        }
    }
    // The sort is stable: jobs of equal cost keep their order.
    indices.sort_by(|a, b| jobs[*b].cost.total_cmp(&jobs[*a].cost));
    progress(finished.progress(width));
    let runs: Vec<RunSpec> =
        indices.iter().map(|index| RunSpec { name: String::new(), ..jobs[*index].run.clone() }).collect();
    let sink = MeasurementSink { jobs, indices, store, finished: Mutex::new(finished), listener, progress, width };
    executor.execute(&runs.iter().collect::<Vec<_>>(), &sink);
    let finished = sink.finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    match finished.error {
        Some(error) => Err(error),
        None => Ok(finished.results),
    }
}

/// Locks the mutex even if it is poisoned. This is safe because no code that can panic runs in the middle of a change
/// of the finished jobs.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_campaign::{Ignore, Threads};
    use rnic_scenario::from_str;
    use rnic_sim::Catalogue;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const TINY: &str = r#"
        [fabric]
        topology = "single-switch"
        hosts = 4
        rate = "40 Gbps"
        delay = "1 us"
        [traffic]
        pattern = "poisson"
        load = 0.5
        sizes = "fixed 1 KB"
        flows = 40
        [[run]]
        name = "RoCE + PFC"
        transport = "roce"
        pfc = true
        [[run]]
        name = "IRN"
        transport = "irn"
    "#;

    fn runs(text: &str, seed: u64) -> Vec<RunSpec> {
        from_str(text, "tiny.toml", Path::new(""), &[], Some(seed)).unwrap().runs
    }

    fn jobs() -> Vec<Job> {
        (1..=3).flat_map(|seed| runs(TINY, seed)).map(Job::new).collect()
    }

    fn threaded(threads: usize) -> Threads {
        Threads::new(&Catalogue::standard(), threads)
    }

    /// The results of the jobs, and the number of jobs that were simulated.
    fn simulated(jobs: &[Job], store: &Store<Measurement>, threads: usize, fresh: bool) -> (Vec<Measurement>, usize) {
        let count = AtomicUsize::new(0);
        let progress = |progress: JobProgress| count.store(progress.done - progress.found, Ordering::Relaxed);
        let results = execute(jobs, store, &threaded(threads), fresh, &Ignore, &progress).unwrap();
        (results.into_iter().flatten().collect(), count.into_inner())
    }

    #[test]
    fn only_jobs_without_a_valid_stored_result_are_simulated() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(&folder.path().join("runs"));
        let jobs = jobs();
        let (first, count) = simulated(&jobs, &store, 2, false);
        assert_eq!((first.len(), count), (6, 6));
        assert_eq!(simulated(&jobs, &store, 1, false), (first.clone(), 0));

        let bytes = std::fs::read(store.path(&jobs[1].fingerprint)).unwrap();
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 1;
        let damaged = [
            (0, bytes[..bytes.len() / 2].to_vec()),
            (1, flipped),
            (2, bytes), // The file of another job.
            (3, Vec::new()),
        ];
        for (job, bytes) in damaged {
            std::fs::write(store.path(&jobs[job].fingerprint), bytes).unwrap();
        }
        assert_eq!(simulated(&jobs, &store, 2, false), (first.clone(), 4));
        assert_eq!(simulated(&jobs, &store, 2, true), (first, 6), "fresh");
    }

    #[test]
    fn only_an_interrupted_job_is_simulated() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        let jobs = jobs();
        let (first, _) = simulated(&jobs, &store, 1, false);
        std::fs::remove_file(store.path(&jobs[4].fingerprint)).unwrap();
        std::fs::write(store.path(&jobs[4].fingerprint).with_extension("measurement.123.tmp"), "{").unwrap();
        assert_eq!(simulated(&jobs, &store, 1, false), (first, 1));
    }

    #[test]
    fn fingerprints_depend_on_everything_except_names() {
        let [one, irn]: [RunSpec; 2] = runs(TINY, 1).try_into().unwrap();
        let key = |run: &RunSpec| Job::new(run.clone()).fingerprint.key();
        assert_eq!(key(&one), key(&RunSpec { name: "other".into(), base: "other".into(), ..one.clone() }));
        let other = |from: &str, to: &str| key(&runs(&TINY.replacen(from, to, 1), 1)[0]);
        let keys = [
            key(&one),
            key(&irn),
            key(&RunSpec { seed: 2, ..one.clone() }),
            other("load = 0.5", "load = 0.6"),
            other("1 KB", "2 KB"),
            other("1 us", "2 us"),
            other("pfc = true", "pfc = true\ncc = \"dcqcn\""),
            other("flows = 40", "flows = 40\nwarmup = 3"),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(key.len(), 32);
            assert!(!keys[..index].contains(key), "{index}");
        }
        // Transports with PFC have no retransmission timers, so the setting of the timers' length has no effect.
        assert_eq!(key(&one), other("pfc = true", "pfc = true\nrto_high = \"999 us\""));
        // A setting with its default value has no effect; another value, or another loss recovery, has.
        let irn_with = |setting: &str| key(&runs(&format!("{TINY}\n{setting}"), 1)[1]);
        assert_eq!(key(&irn), irn_with("rto_low = \"100 us\""));
        assert_ne!(key(&irn), irn_with("rto_low = \"1 us\""));
        assert_ne!(key(&irn), irn_with("recovery = \"go-back-n\""));
    }

    #[test]
    fn a_run_that_fails_or_cannot_be_set_up_has_a_result() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        let stuck = runs(&format!("{TINY}\n[limits]\nmax_time = \"1 us\""), 1);
        let mut impossible = runs(TINY, 1)[0].clone();
        impossible.fabric.switch.buffer = Some(rnic_transport::Bytes(100));
        let jobs = [Job::new(stuck[0].clone()), Job::new(impossible)];
        let (results, _) = simulated(&jobs, &store, 1, false);
        assert!(
            results.iter().all(|r| r.failure.is_some() && r.flows.is_none() && r.tail_us.is_empty()),
            "{results:?}"
        );
        assert!(results[1].failure.as_deref().is_some_and(|f| f.starts_with("cannot be set up")));
        assert_eq!(simulated(&jobs, &store, 1, false), (results, 0));
    }

    #[test]
    fn an_unwritable_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("runs"), "a file where the folder should be").unwrap();
        let store = Store::at(&folder.path().join("runs"));
        assert!(execute(&jobs(), &store, &threaded(2), false, &Ignore, &|_| {}).is_err());
    }

    #[test]
    fn the_expected_time_follows_from_stored_results() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        let jobs = jobs();
        let (before, to_do) = outlook(&jobs, Some(&store), 2, false);
        assert!(before > 0.0 && to_do == 6);
        calibrate(&jobs, &store, &threaded(2), &Ignore).unwrap();
        assert_eq!(outlook(&jobs, Some(&store), 2, false).1, 5);
        calibrate(&jobs, &store, &threaded(2), &Ignore).unwrap();
        assert_eq!(outlook(&jobs, Some(&store), 2, false).1, 5, "once is enough");
        assert_eq!(outlook(&jobs, Some(&store), 2, true).1, 6);
        simulated(&jobs, &store, 1, false);
        assert_eq!(outlook(&jobs, Some(&store), 2, false), (0.0, 0));
        assert!(cost(&jobs[1].run) > cost(&jobs[0].run), "acknowledgements cost");
    }
}
