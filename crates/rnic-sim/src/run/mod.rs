//! Simulates one run: takes its complete configuration ([`Resolved`]) and returns its record.

mod engine;
mod fluid;
mod host;
mod message;
mod ranks;
mod rc;
mod records;
mod select;
mod several;
mod sharing;

pub(crate) use host::simulate_host;
pub(crate) use message::simulate_messages;
pub use ranks::{RankEfficiency, RankReport, check_ranks};
pub(crate) use rc::simulate_captured;
pub use rc::{simulate, simulate_on};
pub(crate) use select::select_recovery;
pub(crate) use several::{BuildStack, build_stack, simulate_several};
pub use sharing::Sharing;

use crate::capture::Capture;
use crate::events::{Events, Listener};
use crate::resolve::Resolved;
use cpu_time::ThreadTime;
use rnic_spec::{
    Fidelity, RunEvent, RunOutput, RunProgress, RunRecord, RunSpec, RunStatus, Traffic, TrafficPattern, Truncation,
};
use rnic_transport::Time;
use rnic_workload::{Feed, FlowStream, Outside, Share, Source};
use std::sync::Arc;

/// The inputs of the simulation of one run, for the code that is compiled for the run's transport.
pub struct Job<'a, 'o> {
    pub(crate) resolved: &'a Resolved,
    /// The traffic sources of `flows` and `source`.
    pub(crate) traffic: &'a [Traffic],
    pub(crate) seed: u64,
    pub(crate) flows: FlowStream,
    pub(crate) source: Option<Box<dyn Source>>,
    pub(crate) events: &'o dyn Listener,
    pub(crate) capture: Option<&'a mut Capture>,
    pub(crate) sharing: &'a Sharing<'a>,
}

/// Simulates runs with the code that is compiled for their congestion control. [`Catalogue`](crate::Catalogue) is the
/// usual implementation.
pub trait Simulator {
    /// Simulates the run that `job` describes, and returns its output.
    fn simulate(&self, job: Job<'_, '_>) -> RunOutput;
}

/// Simulates the run `spec` with its own traffic. `simulator` has the code that is compiled for the run's transport and
/// congestion control. `resolved` is the result of [`resolve`](crate::resolve::resolve) for `spec`. The function fills
/// `capture` with the frames of a link, divides the run among the threads of `sharing`, and passes the events of the
/// run to `events`.
///
/// ```
/// use rnic_sim::{Catalogue, Events, Sharing, resolve::resolve, run::run};
/// let text = r#"
///     [fabric]
///     topology = "single-switch"
///     hosts = 4
///     rate = "100 Gbps"
///     delay = "1 us"
///     [traffic]
///     pattern = "permutation"
///     sizes = "fixed 64 KB"
///     repeats = 1
///     interval = "1 ms"
///     [[run]]
///     name = "IRN"
///     transport = "irn"
/// "#;
/// let scenario = rnic_scenario::from_str(text, "example.toml", "".as_ref(), &[], None).unwrap();
/// let spec = &scenario.runs[0];
/// let catalogue = Catalogue::standard();
/// let resolved = resolve(&catalogue, spec).unwrap();
/// let record = run(&catalogue, spec, &resolved, None, &Sharing::among(1), &Events::ignored());
/// assert_eq!(record.output.flows.len(), 4);
/// ```
pub fn run(
    simulator: &dyn Simulator, spec: &RunSpec, resolved: &Resolved, capture: Option<&mut Capture>,
    sharing: &Sharing<'_>, events: &Events<'_>,
) -> RunRecord {
    run_fed(simulator, spec, resolved, (capture, None), sharing, events)
}

/// As [`run`], with the flows that another program submits.
#[expect(clippy::disallowed_methods, reason = "the cost of a run is measured here, and nowhere in its results")]
pub(crate) fn run_fed(
    simulator: &dyn Simulator, spec: &RunSpec, resolved: &Resolved,
    (capture, feed): (Option<&mut Capture>, Option<Arc<Feed>>), sharing: &Sharing<'_>, events: &Events<'_>,
) -> RunRecord {
    let (wall, cpu) = (std::time::Instant::now(), ThreadTime::now());
    // The result is ignored because the listener can cancel a run only at progress events.
    let _ = events.tell(RunEvent::Started {
        run: spec.name.clone(),
        seed: spec.seed,
        parameters: resolved.parameters.clone(),
        warnings: resolved.warnings.clone(),
    });
    let output = simulate_with(simulator, spec, resolved, (capture, feed), sharing, events);
    let finished = || output.flows.iter().filter(|flow| flow.finish.is_some()).count() as u64;
    let _ = events.tell(match &output.status {
        RunStatus::Completed => {
            RunEvent::Finished { time: output.end, flows_done: finished(), flows_total: output.offered }
        }
        RunStatus::Interrupted => {
            RunEvent::Interrupted { time: output.end, flows_done: finished(), flows_started: output.offered }
        }
        RunStatus::Failed(reason) => RunEvent::Failed { reason: reason.clone() },
    });
    RunRecord {
        output,
        wall_s: wall.elapsed().as_secs_f64(),
        cpu_s: cpu.elapsed().as_secs_f64() + sharing.workers_cpu_s(),
        peak_rss_bytes: peak_rss_bytes(),
    }
}

/// Maximum resident set size of this process so far, in bytes; 0 if the system does not report it.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map_or(0, |kib| kib * 1_024)
}

/// As [`run`], on one thread, without capture and events, and without measuring run time and memory.
pub fn simulate_run(simulator: &dyn Simulator, spec: &RunSpec, resolved: &Resolved) -> RunOutput {
    simulate_with(simulator, spec, resolved, (None, None), &Sharing::among(1), &Events::ignored())
}

/// As [`simulate_run`], divided among the threads of `sharing`.
pub fn simulate_run_shared(
    simulator: &dyn Simulator, spec: &RunSpec, resolved: &Resolved, sharing: &Sharing<'_>,
) -> RunOutput {
    simulate_with(simulator, spec, resolved, (None, None), sharing, &Events::ignored())
}

fn simulate_with(
    simulator: &dyn Simulator, spec: &RunSpec, resolved: &Resolved,
    (capture, feed): (Option<&mut Capture>, Option<Arc<Feed>>), sharing: &Sharing<'_>, events: &Events<'_>,
) -> RunOutput {
    let seed = spec.seed;
    let outside = match outside(spec, resolved, feed.as_ref()) {
        Ok(outside) => outside,
        Err(reason) => return RunOutput::not_started(reason),
    };
    let stream = rnic_workload::generate(&spec.traffic, &resolved.network, seed);
    let source = rnic_workload::reactive(&spec.traffic, &resolved.network, seed, Share::WHOLE);
    let source = outside.or(source);
    // The number of flows; `None` if the traffic has no end.
    let listed = stream.total();
    let total = source.as_ref().map_or(Some(0), |source| source.total());
    let total = total.map(|total| total.saturating_add(listed));
    let duration = resolved.host_config.duration;
    events.estimate_flows(duration, move |progress| expected(total, duration, progress));
    if sharing.has_ranks() && !spec.fidelity.is_packet() {
        return RunOutput::not_started("fidelity = \"flow\" needs one process, without mpirun".to_string());
    }
    let job = Job { resolved, traffic: &spec.traffic, seed, flows: stream, source, events, capture, sharing };
    if sharing.has_ranks()
        && let Err(reason) = check_ranks(resolved)
    {
        return RunOutput::not_started(reason);
    }
    let output = match spec.fidelity {
        Fidelity::Packet => simulator.simulate(job),
        Fidelity::Flow => fluid::simulate(job, spec.fidelity_quantum),
    };
    if !sharing.is_root() {
        return output;
    }
    let started = output.flows.len() as u64;
    let total = feed.map_or(total, |feed| Some(listed.saturating_add(feed.submitted())));
    if let Some(truncation) = output.truncated {
        let not_started = total.map(|total| total.saturating_sub(started));
        return RunOutput { truncated: Some(Truncation { not_started, ..truncation }), ..output };
    }
    // The stream of flows ends early if a flow would start after the largest time that `Time` can represent. Such a
    // run is not complete. The number of flows of a trace is not known before.
    let endless = spec.traffic.iter().any(|source| source.pattern.is_endless());
    let status = match output.status {
        RunStatus::Completed if total.map_or(endless, |total| started < total) => RunStatus::Failed(format!(
            "only {started} of {} flows start before the end of time (213 days)",
            total.map_or("endless".to_string(), |total| total.to_string())
        )),
        status => status,
    };
    RunOutput { status, offered: total.unwrap_or(started), ..output }
}

/// The traffic source whose flows another program submits, if the run has one.
fn outside(spec: &RunSpec, resolved: &Resolved, feed: Option<&Arc<Feed>>) -> Result<Option<Box<dyn Source>>, String> {
    let mut sources = (0..u16::MAX).zip(&spec.traffic);
    let source = sources.find(|(_, source)| matches!(source.pattern, TrafficPattern::Outside { .. }));
    let Some((index, source)) = source else { return Ok(None) };
    let Some(feed) = feed else {
        return Err(format!(
            "another program submits the flows of traffic `{}` (pattern \"outside\"); start the simulation from that program, \
             with `rnic.Simulation` in Python, `rnic_sim_open` in C or `rnic_sim::Simulation` in Rust",
            source.name
        ));
    };
    if !resolved.stacks.is_empty() {
        return Err(format!(
            "traffic `{}` has pattern \"outside\" in a run with several priorities; accepted: one priority for all traffic",
            source.name
        ));
    }
    let TrafficPattern::Outside { reaction, .. } = source.pattern else { return Ok(None) };
    Ok(Some(Box::new(Outside::new(feed.clone(), index, source.warmup, reaction))))
}

/// Estimates the number of flows that finish in a run: the number of flows in its traffic (`total`), or fewer if the
/// run's `duration` ends it before.
fn expected(total: Option<u64>, duration: Option<Time>, progress: &RunProgress) -> Option<u64> {
    let Some(duration) = duration else { return total };
    let scaled =
        u128::from(progress.flows_done) * u128::from(duration.as_ps()) / u128::from(progress.time.as_ps().max(1));
    let scaled = u64::try_from(scaled).unwrap_or(u64::MAX).max(progress.flows_done.saturating_add(1));
    Some(scaled.min(total.unwrap_or(u64::MAX)))
}
