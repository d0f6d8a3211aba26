//! The simulations behind a study: each one once, the longest first, and never again once its result is on disk.
//!
//! A result is a file `<key>.json`. The key is a hash of everything that determines the result, the simulator's code included, so that
//! a changed setting, seed or program never finds an old one. A file appears whole or not at all: a run that is interrupted leaves nothing.

use super::measurement::Measurement;
use crate::hash::Fnv1a;
use crate::resolve::resolve;
use crate::results::files::write_atomically;
use crate::results::summary::summarise;
use crate::run::{Progress, RunOptions, RunProgress, run_scenario};
use crate::scenario::{RunSpec, Scenario, TrafficPattern};
use cpu_time::ThreadTime;
use rnic_fabric::config::TopologySpec;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of the files' format: part of every key, so that files of another format are not found.
const FORMAT: u32 = 3;

/// One simulation to do.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Name of its result.
    pub key: String,
    /// What to simulate.
    pub run: RunSpec,
    /// Expected processor seconds, from a model ([`cost`]).
    pub cost: f64,
}

impl Job {
    /// The simulation of a run.
    pub fn new(run: RunSpec) -> Job {
        Job { key: key(&run), cost: cost(&run), run }
    }
}

/// The key of a run's result: a hash of everything that the simulation works with, of the seed, of the code that simulates and of the format. What a run is called does not matter, nor a setting that it does not use.
pub fn key(run: &RunSpec) -> String {
    let (cc, mtu, seed) = (run.transport.cc.name, run.fabric.mtu, run.seed);
    // What follows from the fabric belongs to it too: the rules may change.
    let settings = match resolve(run) {
        Ok(resolved) => format!("{resolved:?}"),
        Err(error) => format!("{error:?} {run:?}"),
    };
    let text = format!("{FORMAT}\n{SIMULATOR}\n{seed} {cc} {mtu:?}\n{:?}\n{settings}", run.traffic);
    format!("{:032x}", Fnv1a::of(text.as_bytes()))
}

/// Version and code of what simulates; the build script makes it.
const SIMULATOR: &str = env!("RNIC_SIMULATOR");

/// Seconds for one packet to cross one link.
const SECONDS_PER_HOP: f64 = 80e-9;

/// Expected processor seconds of a run: packets times links on a path, twice with acknowledgements, more where go-back-N
/// meets loss. It orders the jobs and, scaled by what jobs really took, estimates how long they take.
pub fn cost(run: &RunSpec) -> f64 {
    let mtu = run.fabric.mtu.0 as f64;
    let mut packets: f64 = run.traffic.iter().map(|traffic| packets(&traffic.pattern, &run.fabric.topology, mtu)).sum();
    if let Some(duration) = run.limits.duration {
        // No more than half of the hosts can receive.
        let hosts = f64::from(crate::scenario::hosts(&run.fabric.topology));
        packets = packets.min(run.fabric.link.rate.bytes_in(duration) as f64 / mtu * hosts / 2.0);
    }
    let links = match run.fabric.topology {
        TopologySpec::FatTree { .. } | TopologySpec::LeafSpineCore { .. } => 5.6,
        TopologySpec::SingleSwitch { .. } => 2.0,
        _ => 4.0,
    };
    let transport = &run.transport;
    let acks = transport.acknowledged();
    let again = match (transport.pfc, transport.recovery, transport.cc.name) {
        (true, ..) => 1.0,
        (_, crate::scenario::Recovery::GoBackN, "none") if transport.transport == "roce" => 30.0,
        (_, crate::scenario::Recovery::GoBackN, "none") => 5.0,
        (_, crate::scenario::Recovery::GoBackN, "timely") => 2.5,
        _ => 1.1,
    };
    packets * links * if acks { 2.0 } else { 1.0 } * again * SECONDS_PER_HOP
}

fn packets(pattern: &TrafficPattern, topology: &TopologySpec, mtu: f64) -> f64 {
    let hosts = f64::from(crate::scenario::hosts(topology));
    match pattern {
        TrafficPattern::Poisson { sizes, flows, .. } => *flows as f64 * sizes.mean_packets(mtu as u32),
        // Few flows at a time stay in the processor's caches.
        TrafficPattern::Incast { total, repeats, .. } => total.0 as f64 / mtu * f64::from(*repeats) * 0.5,
        TrafficPattern::Permutation { sizes, repeats, .. } => {
            hosts * f64::from(*repeats) * sizes.mean_packets(mtu as u32)
        }
        TrafficPattern::AllToAll { sizes, repeats, .. } | TrafficPattern::AllToAllLoop { sizes, repeats, .. } => {
            hosts * hosts * f64::from(*repeats) * sizes.mean_packets(mtu as u32)
        }
        // A loop without end is cut off at some time: take a thousand rounds.
        TrafficPattern::Pairs { pairs, sizes, messages, .. } => {
            f64::from(*pairs) * f64::from(messages.unwrap_or(1_000)) * sizes.mean_packets(mtu as u32)
        }
        TrafficPattern::IncastLoop { incast, repeats, .. } => {
            incast.total.0 as f64 / mtu * f64::from(repeats.unwrap_or(1_000)) * 0.5
        }
        TrafficPattern::List { flows } => flows.iter().map(|flow| (flow.bytes as f64 / mtu).ceil()).sum(),
    }
}

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

/// What a file holds.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// Its own key: a file that was renamed is not believed.
    key: String,
    /// Name of the run, for people.
    run: String,
    /// Seed of the run, for people.
    seed: u64,
    /// Processor seconds that it took.
    cpu_s: f64,
    /// Hash of `result`: a file that was damaged is not believed.
    check: String,
    /// What was measured.
    result: Measurement,
}

impl Cache {
    /// The results in `folder`, which is made if there is none.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(folder: &Path) -> io::Result<Cache> {
        std::fs::create_dir_all(folder)?;
        Ok(Cache { folder: folder.to_path_buf() })
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }

    /// The result of this key and the seconds that it took; `None` if there is none, or none to be trusted.
    pub fn load(&self, key: &str) -> Option<(Measurement, f64)> {
        let text = std::fs::read_to_string(self.path(key)).ok()?;
        let stored: Stored = serde_json::from_str(&text).ok()?;
        let intact = stored.key == key && check(&stored.result) == Some(stored.check);
        intact.then_some((stored.result, stored.cpu_s))
    }

    fn store(&self, job: &Job, result: &Measurement, cpu_s: f64) -> io::Result<()> {
        let stored = Stored {
            key: job.key.clone(),
            run: job.run.name.clone(),
            seed: job.run.seed,
            cpu_s,
            check: check(result).unwrap_or_default(),
            result: result.clone(),
        };
        write_atomically(&self.path(&job.key), |out| {
            serde_json::to_writer_pretty(&mut *out, &stored)?;
            out.write_all(b"\n")
        })?;
        Ok(())
    }
}

fn check(result: &Measurement) -> Option<String> {
    Some(format!("{:032x}", Fnv1a::of(&serde_json::to_vec(result).ok()?)))
}

/// How to work through the jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Simulations at the same time, at least 1.
    pub threads: usize,
    /// Whether results on disk are ignored and replaced.
    pub fresh: bool,
}

/// How far the jobs are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct State {
    /// Jobs with a result.
    pub done: usize,
    /// Of these, found on disk.
    pub found: usize,
    /// All jobs.
    pub total: usize,
    /// Expected seconds until the last one is done.
    pub remaining_s: f64,
}

/// Is told how the jobs proceed; called from worker threads.
pub trait Watch: Sync {
    /// A job is done, or nothing has begun yet.
    fn update(&self, state: State);
}

/// Says nothing.
impl Watch for () {
    fn update(&self, _state: State) {}
}

/// What has been done and what that took.
struct Ledger {
    results: Vec<Option<Measurement>>,
    /// Positions of the jobs to do, the longest last.
    queue: Vec<usize>,
    found: usize,
    done: usize,
    /// Expected and real seconds of the jobs that are done.
    expected_s: f64,
    real_s: f64,
    /// Expected seconds of the jobs that are not.
    left_s: f64,
    /// Why a result could not be written.
    error: Option<io::Error>,
}

impl Ledger {
    fn state(&self, options: &Options) -> State {
        let threads = options.threads.clamp(1, (self.results.len() - self.done).max(1));
        State {
            done: self.done,
            found: self.found,
            total: self.results.len(),
            remaining_s: self.left_s * scale(self.expected_s, self.real_s) / threads as f64,
        }
    }

    /// A job of the queue is done.
    fn finish(&mut self, index: usize, cost: f64, result: Measurement, cpu_s: f64, stored: io::Result<()>) {
        self.left_s = (self.left_s - cost).max(0.0);
        self.enter(index, cost, result, cpu_s);
        if let Err(error) = stored {
            self.error.get_or_insert(error);
        }
    }

    fn enter(&mut self, index: usize, cost: f64, result: Measurement, cpu_s: f64) {
        self.results[index] = Some(result);
        self.done += 1;
        self.expected_s += cost;
        self.real_s += cpu_s;
    }
}

/// How much longer jobs take than the model says, from those that are done.
fn scale(expected_s: f64, real_s: f64) -> f64 {
    if expected_s > 0.0 && real_s > 0.0 { real_s / expected_s } else { 1.0 }
}

/// Expected seconds for all jobs that have no result in the cache (with `fresh` for all), and how many these are. Results
/// that are there, of whatever age, tell how fast this machine is.
pub fn outlook(jobs: &[Job], cache: Option<&Cache>, options: &Options) -> (f64, usize) {
    let (mut expected, mut real, mut left, mut longest, mut count) = (0.0, 0.0, 0.0, 0.0_f64, 0);
    for job in jobs {
        let found = cache.and_then(|cache| cache.load(&job.key));
        if let Some((_, cpu_s)) = &found {
            (expected, real) = (expected + job.cost, real + cpu_s);
        }
        if found.is_none() || options.fresh {
            (left, longest, count) = (left + job.cost, longest.max(job.cost), count + 1);
        }
    }
    let threads = options.threads.clamp(1, count.max(1)) as f64;
    ((left / threads).max(longest) * scale(expected, real), count)
}

/// Expected seconds of the job that tells how fast a machine is.
const CALIBRATION_S: f64 = 0.3;

/// Does one short job if none has a result, so that [`outlook`] has something to go by.
///
/// # Errors
/// When its result cannot be written.
pub fn calibrate(jobs: &[Job], cache: &Cache) -> io::Result<()> {
    if jobs.iter().any(|job| cache.load(&job.key).is_some()) {
        return Ok(());
    }
    // A very short one says little of the others.
    let long_enough = |job: &&Job| job.cost >= CALIBRATION_S;
    let shortest = jobs.iter().filter(long_enough).min_by(|a, b| a.cost.total_cmp(&b.cost));
    let job = shortest.or_else(|| jobs.iter().max_by(|a, b| a.cost.total_cmp(&b.cost)));
    job.map_or(Ok(()), |job| perform(job, cache).2)
}

/// Does every job that has no result yet and returns all results in the order of the jobs, which have different keys.
///
/// # Errors
/// When a result cannot be written; jobs that are being simulated at that moment are finished first.
pub fn execute(jobs: &[Job], cache: &Cache, options: &Options, watch: &dyn Watch) -> io::Result<Vec<Measurement>> {
    let mut ledger = Ledger {
        results: vec![None; jobs.len()],
        queue: Vec::new(),
        found: 0,
        done: 0,
        expected_s: 0.0,
        real_s: 0.0,
        left_s: 0.0,
        error: None,
    };
    for (index, job) in jobs.iter().enumerate() {
        match cache.load(&job.key).filter(|_| !options.fresh) {
            Some((result, cpu_s)) => {
                ledger.enter(index, job.cost, result, cpu_s);
                ledger.found += 1;
            }
            None => {
                ledger.left_s += job.cost;
                ledger.queue.push(index);
            }
        }
    }
    // Stable: jobs of the same cost in their order.
    ledger.queue.reverse();
    ledger.queue.sort_by(|a, b| jobs[*a].cost.total_cmp(&jobs[*b].cost));
    watch.update(ledger.state(options));
    let threads = options.threads.clamp(1, ledger.queue.len().max(1));
    let ledger = Mutex::new(ledger);
    let worker = || {
        loop {
            let index = {
                let mut ledger = lock(&ledger);
                let next = if ledger.error.is_none() { ledger.queue.pop() } else { None };
                let Some(index) = next else { return };
                index
            };
            let (result, cpu_s, stored) = perform(&jobs[index], cache);
            let mut ledger = lock(&ledger);
            ledger.finish(index, jobs[index].cost, result, cpu_s, stored);
            watch.update(ledger.state(options));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(worker);
        }
        worker();
    });
    let ledger = ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
    match ledger.error {
        Some(error) => Err(error),
        None => Ok(ledger.results.into_iter().flatten().collect()),
    }
}

/// Simulates and stores: the result, the seconds it took, and whether it could be written.
fn perform(job: &Job, cache: &Cache) -> (Measurement, f64, io::Result<()>) {
    let (result, cpu_s) = simulate(&job.run);
    let stored = cache.store(job, &result, cpu_s);
    (result, cpu_s, stored)
}

/// A ledger is whole after any panic: nothing that could panic runs halfway through a change to it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hears nothing of a single run.
struct Deaf;

impl Progress for Deaf {
    fn update(&self, _run: usize, _state: RunProgress) {}
}

/// Simulates a run; its measurement and the processor seconds it took. A run that cannot be set up has failed.
fn simulate(run: &RunSpec) -> (Measurement, f64) {
    let time = ThreadTime::now();
    let scenario = Scenario {
        title: String::new(),
        name: String::new(),
        seed: run.seed,
        runs: vec![RunSpec { name: String::new(), ..run.clone() }],
    };
    let measurement = match run_scenario(&scenario, &RunOptions { threads: 1 }, &Deaf) {
        Err((_, error)) => Measurement::failed(format!("cannot be set up: {error}")),
        Ok(reports) => match (summarise(&scenario, &reports).runs.first(), reports.first()) {
            (Some(summary), Some(report)) => Measurement::of(run, summary, report),
            _ => Measurement::failed("the run has no result".to_string()),
        },
    };
    (measurement, time.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::from_str;
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

    /// Counts jobs that were simulated.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Watch for Count {
        fn update(&self, state: State) {
            self.0.store(state.done - state.found, Ordering::Relaxed);
        }
    }

    fn simulated(jobs: &[Job], cache: &Cache, threads: usize, fresh: bool) -> (Vec<Measurement>, usize) {
        let count = Count::default();
        let results = execute(jobs, cache, &Options { threads, fresh }, &count).unwrap();
        (results, count.0.into_inner())
    }

    #[test]
    fn what_is_on_disk_is_not_simulated_again_and_what_is_damaged_is() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("runs")).unwrap();
        let jobs = jobs();
        let (first, count) = simulated(&jobs, &cache, 2, false);
        assert_eq!((first.len(), count), (6, 6));
        assert_eq!(simulated(&jobs, &cache, 1, false), (first.clone(), 0));

        let text = std::fs::read_to_string(cache.path(&jobs[1].key)).unwrap();
        let digit = text.find("\"slowdown\": ").unwrap() + 12;
        let other = if &text[digit..=digit] == "1" { "2" } else { "1" };
        let damaged = [
            (0, text[..text.len() / 2].to_string()),
            (1, format!("{}{other}{}", &text[..digit], &text[digit + 1..])),
            (2, text.clone()), // The file of another job.
            (3, String::new()),
        ];
        for (job, text) in damaged {
            std::fs::write(cache.path(&jobs[job].key), text).unwrap();
        }
        assert_eq!(simulated(&jobs, &cache, 2, false), (first.clone(), 4));
        assert_eq!(simulated(&jobs, &cache, 2, true), (first, 6), "fresh");
    }

    #[test]
    fn a_job_that_was_interrupted_is_done_and_the_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let jobs = jobs();
        let (first, _) = simulated(&jobs, &cache, 1, false);
        std::fs::remove_file(cache.path(&jobs[4].key)).unwrap();
        std::fs::write(folder.path().join(format!("{}.json.123.tmp", jobs[4].key)), "{").unwrap();
        assert_eq!(simulated(&jobs, &cache, 1, false), (first, 1));
    }

    #[test]
    fn a_key_is_of_what_determines_the_result_and_of_nothing_else() {
        let [one, irn]: [RunSpec; 2] = runs(TINY, 1).try_into().unwrap();
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
        // A setting that PFC makes idle: without timers, their length cannot matter.
        assert_eq!(key(&one), other("pfc = true", "pfc = true\nrto_high = \"999 us\""));
    }

    #[test]
    fn a_run_that_cannot_finish_or_be_set_up_is_a_result() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let stuck = runs(&format!("{TINY}\n[limits]\nmax_time = \"1 us\""), 1);
        let mut impossible = runs(TINY, 1)[0].clone();
        impossible.fabric.switch.buffer = Some(rnic_transport::Bytes(100));
        let jobs = [Job::new(stuck[0].clone()), Job::new(impossible)];
        let (results, _) = simulated(&jobs, &cache, 1, false);
        assert!(
            results.iter().all(|r| r.failure.is_some() && r.flows.is_none() && r.tail_us.is_empty()),
            "{results:?}"
        );
        assert!(results[1].failure.as_deref().is_some_and(|f| f.starts_with("cannot be set up")));
        assert_eq!(simulated(&jobs, &cache, 1, false), (results, 0));
    }

    #[test]
    fn an_unwritable_folder_ends_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("runs")).unwrap();
        std::fs::remove_dir(folder.path().join("runs")).unwrap();
        assert!(execute(&jobs(), &cache, &Options { threads: 2, fresh: false }, &()).is_err());
    }

    #[test]
    fn time_is_expected_from_what_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let jobs = jobs();
        let options = Options { threads: 2, fresh: false };
        let (before, to_do) = outlook(&jobs, Some(&cache), &options);
        assert!(before > 0.0 && to_do == 6);
        calibrate(&jobs, &cache).unwrap();
        assert_eq!(outlook(&jobs, Some(&cache), &options).1, 5);
        calibrate(&jobs, &cache).unwrap();
        assert_eq!(outlook(&jobs, Some(&cache), &options).1, 5, "once is enough");
        assert_eq!(outlook(&jobs, Some(&cache), &Options { fresh: true, ..options }).1, 6);
        simulated(&jobs, &cache, 1, false);
        assert_eq!(outlook(&jobs, Some(&cache), &options), (0.0, 0));
        assert!(cost(&jobs[1].run) > cost(&jobs[0].run), "acknowledgements cost");
    }
}
