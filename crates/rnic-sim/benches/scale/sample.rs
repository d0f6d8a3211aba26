//! One measurement in a child process.

use crate::cases::Case;
use rnic_sim::resolve::resolve;
use rnic_sim::run::run;
use rnic_sim::{Catalogue, Events, Sharing};
use rnic_spec::RunStatus;
use rnic_transport::Time;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The first argument of a child process that measures. It is followed by the path of the scenario, the name of the run
/// and a [`Task`].
pub(crate) const CHILD: &str = "--measure";

/// What a child process measures of a case.
pub(crate) struct Task {
    threads: usize,
    /// Whether to measure only the set-up: the run up to its first event.
    set_up: bool,
    /// Number of repetitions of the traffic (`repeats`), if its pattern has this key.
    repeats: Option<u32>,
}

impl Task {
    /// Measures the set-up: the run up to its first event.
    pub(crate) fn set_up() -> Task {
        Task { threads: 1, set_up: true, repeats: None }
    }

    /// Measures the whole run on `threads` threads.
    pub(crate) fn whole(threads: usize) -> Task {
        Task { threads, set_up: false, repeats: None }
    }

    /// Measures the whole run on one thread, with `repeats` times the flows.
    pub(crate) fn repeated(repeats: u32) -> Task {
        Task { threads: 1, set_up: false, repeats: Some(repeats) }
    }

    fn words(&self) -> [String; 3] {
        [self.threads.to_string(), u32::from(self.set_up).to_string(), self.repeats.unwrap_or(0).to_string()]
    }

    fn parse(words: &[String]) -> Option<Task> {
        let [threads, set_up, repeats] = words else { return None };
        let repeats = Some(repeats.parse().ok()?).filter(|repeats| *repeats > 0);
        Some(Task { threads: threads.parse().ok()?, set_up: set_up == "1", repeats })
    }
}

/// The result of one measurement.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) hops: u64,
    /// Number of flows that have started and not finished at the end of the run.
    pub(crate) under_way: u64,
    /// Wall-clock seconds from reading the scenario file to the end of the run.
    pub(crate) total_s: f64,
    /// Wall-clock seconds of the run.
    pub(crate) wall_s: f64,
    /// CPU seconds of the run, over all its threads.
    pub(crate) cpu_s: f64,
    /// Wall-clock seconds in which several threads simulated windows.
    pub(crate) together_s: f64,
    /// Maximum resident set size in bytes until the end of the run (`peak_bytes`), and before the scenario is read
    /// (`base_bytes`).
    pub(crate) peak_bytes: u64,
    pub(crate) base_bytes: u64,
}

impl Sample {
    fn print(&self) {
        let Sample { hops, under_way, total_s, wall_s, cpu_s, together_s, peak_bytes, base_bytes } = self;
        println!("{hops} {under_way} {total_s} {wall_s} {cpu_s} {together_s} {peak_bytes} {base_bytes}");
    }

    fn parse(text: &str) -> Option<Sample> {
        let fields: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let [hops, under_way, total_s, wall_s, cpu_s, together_s, peak, base] = fields[..] else { return None };
        let (hops, under_way) = (hops as u64, under_way as u64);
        let (peak_bytes, base_bytes) = (peak as u64, base as u64);
        Some(Sample { hops, under_way, total_s, wall_s, cpu_s, together_s, peak_bytes, base_bytes })
    }
}

/// Starts a child process that measures `task` on `case`.
pub(crate) fn of(case: &Case, task: &Task) -> Result<Sample, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/bench").join(case.file);
    let mut command = Command::new(program);
    command.arg(CHILD).arg(path).arg(case.run).args(task.words());
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    Sample::parse(&text).filter(|_| output.status.success()).ok_or_else(|| {
        let reason = String::from_utf8_lossy(&output.stderr);
        format!("{}: failed ({}): {}", case.name(), output.status, reason.trim())
    })
}

/// The main function of a child process: measures, and prints a [`Sample`].
#[expect(clippy::disallowed_methods, reason = "a measurement of time")]
pub(crate) fn child(words: &[String]) -> Result<(), String> {
    let [path, name, task @ ..] = words else { return Err("no case".to_string()) };
    let task = Task::parse(task).ok_or("no task")?;
    let base_bytes = peak_rss_bytes();
    let start = Instant::now();
    let changes: Vec<(String, String)> =
        task.repeats.iter().map(|n| ("traffic.repeats".to_string(), n.to_string())).collect();
    let mut scenario = rnic_scenario::load(Path::new(path), &changes, None).map_err(|error| error.to_string())?;
    scenario.runs.retain(|run| run.name == *name);
    if task.set_up {
        scenario.runs.iter_mut().for_each(|run| run.limits.duration = Some(Time::from_ps(1)));
    }
    let spec = scenario.runs.first().ok_or("the scenario has no such run")?;
    let catalogue = Catalogue::standard();
    let resolved = resolve(&catalogue, spec).map_err(|error| error.to_string())?;
    let sharing = Sharing::among(task.threads);
    let report = run(&catalogue, spec, &resolved, None, &sharing, &Events::ignored());
    let total_s = start.elapsed().as_secs_f64();
    if let RunStatus::Failed(reason) = &report.output.status {
        return Err(reason.clone());
    }
    let under_way = report.output.flows.iter().filter(|flow| flow.finish.is_none()).count() as u64;
    let (hops, peak_bytes) = (report.output.totals.hops, report.peak_rss_bytes);
    let (wall_s, cpu_s, together_s) = (report.wall_s, report.cpu_s, sharing.together_s());
    Sample { hops, under_way, total_s, wall_s, cpu_s, together_s, peak_bytes, base_bytes }.print();
    Ok(())
}

/// Maximum resident set size of this process so far, in bytes.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map_or(0, |kib| kib * 1_024)
}
