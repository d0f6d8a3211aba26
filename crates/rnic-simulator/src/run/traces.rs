//! The traces of runs that `rnic run --trace` writes.

use crate::args::RunArgs;
use crate::error::CliError;
use crate::output::note;
use parking_lot::Mutex;
use rnic_campaign::RunListener;
use rnic_fabric::{Routes, Topology};
use rnic_results::perfetto::{Missing, PerfettoTrace};
use rnic_results::text::duration;
use rnic_sim::{FrameListener, FramePlan};
use rnic_spec::{Frame, PauseRow, RunRecord, RunSpec, Scenario, hosts, uplinks};
use rnic_transport::Time;
use std::fs::File;
use std::io::{self, BufWriter};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of runs of a command with `--trace`: each has a file.
const MAX_RUNS: usize = 64;

/// Number of values, one for each port and frame, after which the interval between frames doubles.
const VALUES: u64 = 4_000_000;

/// The traces of the runs of a scenario, one for each run; none without `--trace`.
pub(super) struct Traces<'s>(Vec<Trace<'s>>);

struct Trace<'s> {
    run: &'s RunSpec,
    path: PathBuf,
    plan: FramePlan,
    state: Mutex<State>,
}

enum State {
    Open(Box<PerfettoTrace<BufWriter<File>>>),
    Written(io::Result<Missing>),
    /// The run had no result.
    Closed,
}

impl<'s> Traces<'s> {
    /// Creates the files before the simulation, so that a wrong path fails early.
    pub(super) fn create(arguments: &RunArgs, scenario: &'s Scenario) -> Result<Traces<'s>, CliError> {
        let Some(path) = &arguments.trace else { return Ok(Traces(Vec::new())) };
        let runs = scenario.runs.len();
        if runs > MAX_RUNS {
            return Err(CliError::Input(format!(
                "--trace writes a file for each of {runs} runs; choose at most {MAX_RUNS} with --run"
            )));
        }
        let names: Vec<&str> = scenario.runs.iter().map(|run| run.name.as_str()).collect();
        let paths = paths(path, &names);
        let open = |(run, path): (&'s RunSpec, PathBuf)| {
            let file = File::create(&path).map_err(|error| cannot_write(&path, error))?;
            let trace = PerfettoTrace::new(BufWriter::new(file), arguments.trace_size * 1_000_000);
            let plan = plan(run, Time::from_ns(arguments.trace_interval_ns));
            Ok(Trace { run, path, plan, state: Mutex::new(State::Open(Box::new(trace))) })
        };
        scenario.runs.iter().zip(paths).map(open).collect::<Result<_, _>>().map(Traces)
    }

    /// Prints what is missing in traces, unless `is_quiet`, and returns the paths of the written files. Removes the
    /// files of runs that have no result.
    pub(super) fn conclude(mut self, is_quiet: bool) -> Result<Vec<PathBuf>, CliError> {
        let mut written = Vec::new();
        for Trace { path, state, .. } in std::mem::take(&mut self.0) {
            match state.into_inner() {
                State::Written(Ok(missing)) => {
                    if let Some(sentence) = lacks(&path, &missing).filter(|_| !is_quiet) {
                        note(&sentence);
                    }
                    written.push(path);
                }
                State::Written(Err(error)) => return Err(cannot_write(&path, error)),
                State::Open(_) | State::Closed => remove(&path),
            }
        }
        Ok(written)
    }
}

impl RunListener for Traces<'_> {
    fn frames(&self, run: usize) -> Option<(FramePlan, &dyn FrameListener)> {
        self.0.get(run).map(|trace| (trace.plan, trace as &dyn FrameListener))
    }

    /// Completes the trace of the run.
    fn finished(&self, run: usize, record: &RunRecord) -> ControlFlow<()> {
        if let Some(trace) = self.0.get(run) {
            let mut state = trace.state.lock();
            *state = match std::mem::replace(&mut *state, State::Closed) {
                State::Open(open) => State::Written(open.finish(trace.run, &record.output).map(|(_, missing)| missing)),
                other => other,
            };
        }
        ControlFlow::Continue(())
    }
}

/// If a run cannot be set up, no run has a trace.
impl Drop for Traces<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|trace| remove(&trace.path));
    }
}

/// Removes the file of a run without a result: an empty file would not be a trace. If it cannot be removed, it stays
/// empty.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

fn cannot_write(path: &Path, error: io::Error) -> CliError {
    CliError::Io { doing: format!("cannot write `{}`", path.display()), error }
}

/// The instants of the frames: at first one every `interval`; in a large fabric the interval doubles sooner.
fn plan(run: &RunSpec, interval: Time) -> FramePlan {
    let topology = &run.fabric.topology;
    let ports = 2 * (u64::from(hosts(topology)) + uplinks(topology));
    FramePlan { interval, frames: (VALUES / ports.max(1)).clamp(200, 10_000) as u32 }
}

/// The file of each run: `path` for a single run. For several runs, a part of the run's name follows the name of the
/// file, and a number if two files would have the same name.
fn paths(path: &Path, runs: &[&str]) -> Vec<PathBuf> {
    if runs.len() == 1 {
        return vec![path.to_path_buf()];
    }
    let text = |part: Option<&std::ffi::OsStr>| part.map_or(String::new(), |part| part.to_string_lossy().into_owned());
    let (stem, extension) = (text(path.file_stem()), text(path.extension()));
    let dot = if extension.is_empty() { "" } else { "." };
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        let part = run.replace(|c: char| !c.is_ascii_alphanumeric() && !"._=-".contains(c), "_");
        let part = part.chars().take(100).collect::<String>();
        let name = |number: String| format!("{stem}-{part}{number}{dot}{extension}");
        let numbers = std::iter::once(String::new()).chain((2..).map(|number: usize| format!("-{number}")));
        names.extend(numbers.map(name).find(|name| !names.contains(name)));
    }
    names.into_iter().map(|name| path.with_file_name(name)).collect()
}

/// A sentence about what is missing in a trace; `None` if nothing is.
fn lacks(path: &Path, missing: &Missing) -> Option<String> {
    let counters = missing.counters_from.map(|from| format!("queues from {} on", duration(from.as_us())));
    let count = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let parts = [counters, count(missing.pauses, "pauses"), count(missing.slices, "flows, operations and tasks")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| {
        format!("`{}` is full; it lacks {}: make it larger with --trace-size", path.display(), parts.join(", "))
    })
}

impl FrameListener for Trace<'_> {
    fn begin(&self, topology: &Arc<Topology>, _routes: &Arc<Routes>) {
        if let State::Open(trace) = &mut *self.state.lock() {
            trace.begin(topology);
        }
    }

    fn frame(&self, frame: Frame) {
        if let State::Open(trace) = &mut *self.state.lock() {
            trace.frame(&frame);
        }
    }

    fn pause(&self, pause: PauseRow) {
        if let State::Open(trace) = &mut *self.state.lock() {
            trace.pause(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_file() {
        let names = |runs: &[&str]| {
            let paths = paths("a/run.pftrace".as_ref(), runs);
            paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(&["RoCE + PFC"]), ["a/run.pftrace"]);
        assert_eq!(
            names(&["IRN", "IRN, load=0.5", "../x", "a/b", "a_b"]),
            [
                "a/run-IRN.pftrace",
                "a/run-IRN__load=0.5.pftrace",
                "a/run-.._x.pftrace",
                "a/run-a_b.pftrace",
                "a/run-a_b-2.pftrace"
            ]
        );
        assert_eq!(paths("trace".as_ref(), &["a", "b"]), [Path::new("trace-a"), Path::new("trace-b")]);
    }

    #[test]
    fn a_full_trace_is_announced() {
        let missing = Missing { counters_from: Some(Time::from_us(1_500)), pauses: 0, slices: 7 };
        assert_eq!(
            lacks("a.pftrace".as_ref(), &missing).unwrap(),
            "`a.pftrace` is full; it lacks queues from 1.50 ms on, 7 flows, operations and tasks: make it larger with \
             --trace-size"
        );
        assert_eq!(lacks("a.pftrace".as_ref(), &Missing::default()), None);
    }
}
