//! Simulates the hosts of one run on its fabric, and determines whether the run completed or failed.

use super::records::{port_records, totals};
use crate::dead::Deaths;
use crate::events::{Listener, MeshProbe};
use crate::fast_forward::FastForward;
use crate::frames::FrameRecorder;
use crate::host::{HostTotals, Observer, RunHosts, Stop};
use crate::link_faults::LinkFaults;
use crate::pauses::{MAX_PAUSES, PauseWatch};
use crate::resolve::Resolved;
use crate::step_links::StepWatch;
use crate::storm::Storms;
use crate::watch::Recorder;
use crate::watchdog::Watchdog;
use rnic_fabric::{Body, Cause, Ending, Fabric, PortId, ProbeResult, pause_tree};
use rnic_spec::{
    FastForwardRecord, Fidelity, FlowLog, PortRecord, ProgramRecords, RunOutput, RunStatus, StepLinks, Totals,
    Truncation, WatchdogRecord,
};
use rnic_transport::Time;

/// Simulates the hosts on the fabric until all flows have finished or the run's `duration` is over.
///
/// This function is compiled for each type of packets; only the engine is compiled for each pair of a loss recovery and
/// a congestion control, in [`RunHosts::run`].
pub(super) fn run_hosts<B: Body>(
    fabric: &mut Fabric<B>, resolved: &Resolved, hosts: &mut dyn RunHosts<B>, events: &dyn Listener,
) -> RunOutput {
    let until = resolved.host_config.duration.unwrap_or(Time::MAX);
    if let Some(group) = fabric.ranks().cloned() {
        hosts.join_ranks(group);
    }
    if let Some(reaction) = hosts.reaction() {
        fabric.limit_window(reaction);
    }
    let mut observers = Observers::prepare(fabric, resolved, events);
    observers.steps = StepWatch::new(hosts.step_boundaries(), fabric.topology());
    let Observers { storms, deaths, links, watchdog, pauses, recorder, frames, steps } = &mut observers;
    let mut watchers: Vec<&mut dyn Observer<B>> = vec![storms, deaths];
    watchers.extend(links.as_mut().map(|links| links as &mut dyn Observer<B>));
    watchers.extend(watchdog.as_mut().map(|watchdog| watchdog as &mut dyn Observer<B>));
    watchers.extend(pauses.as_mut().map(|watch| watch as &mut dyn Observer<B>));
    watchers.extend(recorder.as_mut().map(|recorder| recorder as &mut dyn Observer<B>));
    watchers.extend(frames.as_mut().map(|frames| frames as &mut dyn Observer<B>));
    watchers.extend(steps.as_mut().map(|steps| steps as &mut dyn Observer<B>));
    let (ending, forward) = match resolved.fast_forward {
        None => (hosts.run(fabric, &mut watchers, until), None),
        Some(plan) => {
            let mut forward = FastForward::new(plan, until.min(resolved.host_config.max_time), &mut watchers);
            (hosts.run(fabric, &mut forward, until), Some(forward.record()))
        }
    };
    fabric.close_counters(fabric.now());
    match fabric.collect().and_then(|is_root| hosts.collect().map(|()| is_root)) {
        Ok(true) => {}
        // Rank 0 has the results.
        Ok(false) => return RunOutput { status: RunStatus::Completed, ..RunOutput::not_started(String::new()) },
        Err(error) => return RunOutput::not_started(error.to_string()),
    }
    let totals = hosts.totals();
    let (stop, unfinished) = (hosts.stop(), hosts.unfinished());
    let (waiting, programs) = (hosts.waiting(), hosts.take_programs());
    if let Some(frames) = &mut observers.frames {
        frames.end(fabric.now(), hosts);
    }
    let flows = hosts.take_records();
    let outcome = Outcome { ending, stop, unfinished, waiting, totals, programs, flows, forward };
    observers.conclude(fabric, resolved, outcome, events)
}

/// How a simulation ended, and what its hosts counted.
struct Outcome {
    ending: Ending,
    stop: Option<Stop>,
    unfinished: u64,
    waiting: Vec<String>,
    totals: HostTotals,
    programs: ProgramRecords,
    flows: FlowLog,
    forward: Option<FastForwardRecord>,
}

/// What observes a simulation, or acts on it at certain times.
struct Observers<'r> {
    storms: Storms<'r>,
    deaths: Deaths<'r>,
    links: Option<LinkFaults<'r>>,
    watchdog: Option<Watchdog<'r>>,
    pauses: Option<PauseWatch<'r>>,
    recorder: Option<Recorder<'r>>,
    frames: Option<FrameRecorder<'r>>,
    steps: Option<StepWatch>,
}

impl<'r> Observers<'r> {
    /// Sets up the faults of the run on the fabric, and makes the observers that the run needs.
    fn prepare<B: Body>(fabric: &mut Fabric<B>, resolved: &'r Resolved, events: &'r dyn Listener) -> Observers<'r> {
        let recorder = resolved.watch.as_ref().map(|plan| Recorder::new(plan, events));
        let pauses = resolved.watch_pauses.map(|(start, interval)| PauseWatch::new(start, interval, events));
        if pauses.is_some() {
            fabric.log_pauses(MAX_PAUSES);
        }
        let frames = FrameRecorder::new(fabric, events, pauses.is_some());
        let (faults, meshes) = (&resolved.faults, &resolved.meshes);
        if faults.guards_switches() {
            fabric.guard_switches();
            faults.drops.iter().for_each(|(port, every)| fabric.drop_every(*port, *every));
        }
        faults.receivers.iter().for_each(|(host, spec)| fabric.set_receiver(*host, *spec));
        if !meshes.probes.is_empty() {
            fabric.set_probes(meshes.probes.clone());
        }
        let watchdog =
            faults.watchdog.as_ref().map(|settings| Watchdog::new(settings, &resolved.topology, fabric.priorities()));
        let (storms, deaths) = (Storms::new(&resolved.storms), Deaths::new(&faults.dead));
        let links = (!faults.links.is_empty())
            .then(|| LinkFaults::new(&faults.links, &resolved.topology, fabric.routes().clone()));
        Observers { storms, deaths, links, watchdog, pauses, recorder, frames, steps: None }
    }

    /// The output of the run: counters, records, the status and warnings.
    fn conclude<B: Body>(
        self, fabric: &mut Fabric<B>, resolved: &Resolved, outcome: Outcome, events: &dyn Listener,
    ) -> RunOutput {
        let Observers { watchdog, pauses, mut recorder, frames, steps: steps_watch, .. } = self;
        let end = fabric.now();
        let (faults, meshes) = (&resolved.faults, &resolved.meshes);
        if let Some(recorder) = &mut recorder {
            recorder.tell_drops(end, fabric);
        }
        if let Some(frames) = frames {
            frames.finish(fabric);
        }
        let ports = port_records(fabric);
        let totals = totals(fabric, &ports, outcome.totals);
        let status = accounts(resolved, &totals).map_or_else(
            || {
                let Outcome { ending, stop, unfinished, waiting, .. } = &outcome;
                End { ending: *ending, stop: *stop, unfinished: *unfinished, waiting }.status(end, || blocked(fabric))
            },
            RunStatus::Failed,
        );
        let Outcome { flows, programs, ending, forward, .. } = outcome;
        let ProgramRecords { collectives, steps, operations, task_collectives, answered, timeline } = programs;
        let status = flows.error().map_or(status, |error| RunStatus::Failed(error.to_string()));
        let mut warnings = resolved.warnings.clone();
        let dropped = dropped_despite_pfc(resolved.fabric.switch.buffer.lossless_priorities(), &ports);
        if dropped > 0 {
            warnings.push(format!("PFC did not prevent loss: {dropped} packets were dropped"));
        }
        warnings.extend(cost_of_link_faults(resolved, &ports, &flows));
        warnings.extend(forward.map(|forward| skipped(&forward, end)));
        let interrupted = status == RunStatus::Interrupted;
        let truncated = (ending == Ending::TimeUp || interrupted).then_some(Truncation { at: end, not_started: None });
        if truncated.is_some() {
            warnings.extend(
                cycle_of_pauses(fabric).map(|ports| format!("a cycle of pauses at the end of the run: {ports}")),
            );
        }
        let pauses = pauses.map(|watch| watch.finish(fabric, end, truncated.is_some(), &flows, &mut warnings));
        let samples = recorder.map(|recorder| recorder.finish(&flows, &mut warnings));
        let of_nics = faults.nic_watchdogs.iter().copied().filter(|record| record.detected < end);
        let found = of_nics.chain(watchdog.into_iter().flat_map(|watchdog| watchdog.finish(fabric)));
        RunOutput {
            status,
            offered: flows.len() as u64,
            truncated,
            flows,
            ports,
            totals,
            end,
            parameters: resolved.parameters.clone(),
            warnings,
            pauses,
            samples,
            watchdog: in_order_of_detection(found.collect()),
            collectives,
            steps,
            operations,
            task_collectives,
            step_links: steps_watch.map_or_else(StepLinks::default, StepWatch::finish),
            answered,
            timeline,
            fidelity: Fidelity::Packet,
            fast_forward: forward,
            meshes: crate::mesh::records(
                &meshes.meshes,
                &meshes.pairs,
                &fabric.probe_results(),
                resolved.host_config.seed,
                &mut |mesh, ProbeResult { pair, at, rtt }| {
                    let spec = &meshes.probes[pair as usize];
                    events.probe(MeshProbe { mesh, ends: (spec.src.0, spec.dst.0), at, rtt });
                },
            ),
        }
    }
}

/// What watchdogs found, in order of the time of detection, then of the port.
fn in_order_of_detection(mut found: Vec<WatchdogRecord>) -> Vec<WatchdogRecord> {
    found.sort_by_key(|record| (record.detected, record.port));
    found
}

/// Checks that every sent packet was delivered, dropped, lost or is in flight, and that a lossless fabric dropped none.
/// If not, returns the error as a sentence.
fn accounts(resolved: &Resolved, totals: &Totals) -> Option<String> {
    let sent = totals.data + totals.control + totals.probes + totals.flooded;
    let accounted = totals.delivered + totals.dropped + totals.lost + totals.in_flight;
    if sent != accounted {
        return Some(format!("internal error: {sent} packets were sent but {accounted} are accounted for"));
    }
    (resolved.lossless && totals.dropped > 0)
        .then(|| format!("internal error: a lossless fabric dropped {} packets", totals.dropped))
}

/// How much simulated time `fast_forward` skipped, as a sentence.
fn skipped(forward: &FastForwardRecord, end: Time) -> String {
    if forward.skips == 0 {
        return format!("fast_forward = {} skipped nothing: no state of the run repeated", forward.bound);
    }
    let share = 100.0 * forward.skipped.as_ps() as f64 / end.as_ps().max(1) as f64;
    let checked = match forward.checked {
        0 => "none of the skips was checked".to_string(),
        checked => format!(
            "in {checked} checked skips the packets of a flow differed by at most {:.2} %",
            100.0 * forward.largest_deviation
        ),
    };
    format!(
        "fast_forward = {} skipped {share:.1} % of the simulated time, in {} skips; {checked}",
        forward.bound, forward.skips
    )
}

/// What the faults of links cost: packets lost on them, and flows that waited for a timeout.
fn cost_of_link_faults(resolved: &Resolved, ports: &[PortRecord], flows: &FlowLog) -> Option<String> {
    let links = resolved.faults.links.ports(&resolved.topology);
    if links.is_empty() {
        return None;
    }
    let lost_at = |port: &PortId| ports[port.index()].priorities.iter().map(|counters| counters.lost).sum::<u64>();
    let lost: u64 = links.iter().map(lost_at).sum();
    let waited = flows.iter().filter(|flow| flow.timeouts > 0).count();
    let timeout = resolved.flow.timeouts.map_or(String::new(), |timeouts| format!(" of {}", timeouts.high));
    Some(format!(
        "packets lost on links with faults: {lost}; flows that waited for a retransmission timeout{timeout}: {waited} of {}",
        flows.len()
    ))
}

/// Number of packets that were dropped in the priorities of the bitmap `lossless`, which PFC protects.
fn dropped_despite_pfc(lossless: u8, ports: &[PortRecord]) -> u64 {
    let of_port = |port: &PortRecord| {
        let protected = port.priorities.iter().enumerate().filter(|(priority, _)| lossless & (1 << priority) != 0);
        protected.map(|(_, counters)| counters.drops).sum::<u64>()
    };
    ports.iter().map(of_port).sum()
}

/// The ports that form a cycle of PFC pauses, as the text "through PORT, PORT"; `None` if there is no such cycle.
fn cycle_of_pauses<B: Body>(fabric: &Fabric<B>) -> Option<String> {
    let cycle = pause_tree(fabric).cycle;
    let names: Vec<String> = cycle.iter().map(|port| fabric.topology().port_name(*port)).collect();
    (!names.is_empty()).then(|| format!("through {}", names.join(", ")))
}

/// How a simulation ended.
pub(super) struct End<'a> {
    pub(super) ending: Ending,
    pub(super) stop: Option<Stop>,
    /// Number of flows that have started and not finished.
    pub(super) unfinished: u64,
    /// What operations of programs wait for, as sentences.
    pub(super) waiting: &'a [String],
}

impl End<'_> {
    /// The status of a run that ended at `end`: completed, interrupted, or failed with the reason. `blocked` returns
    /// what ends the sentence about a run that failed: what holds up the flows.
    pub(super) fn status(&self, end: Time, blocked: impl FnOnce() -> String) -> RunStatus {
        let End { ending, stop, unfinished, waiting } = *self;
        let end = Time::from_ns(end.as_ps() / 1_000).rounded();
        let flows = if unfinished == 1 { "1 flow has".to_string() } else { format!("{unfinished} flows have") };
        let stuck = || RunStatus::Failed(format!("no message is under way at {end}, but {}", waiting.join("; ")));
        let what = match (ending, stop) {
            (_, Some(Stop::Finished)) | (Ending::TimeUp, _) => return RunStatus::Completed,
            (_, Some(Stop::Cancelled)) => return RunStatus::Interrupted,
            (Ending::Idle, _) if unfinished == 0 && waiting.is_empty() => return RunStatus::Completed,
            (_, Some(Stop::Stuck)) => return stuck(),
            (Ending::Idle, _) if unfinished == 0 => return stuck(),
            (Ending::Idle, _) => format!("nothing is left to happen at {end}, but {flows} not finished"),
            (_, Some(Stop::TimeLimit)) => format!("the time limit was reached at {end}; {flows} not finished"),
            (_, Some(Stop::Stalled)) => {
                format!("no flow has progressed for a long time at {end}; {flows} not finished")
            }
            (Ending::Stopped | Ending::RankLost, None) => format!("stopped at {end}; {flows} not finished"),
        };
        RunStatus::Failed(what + &blocked())
    }
}

/// The end of an error message: the ports that PFC pauses, and the cause of their pauses. Empty if no port is paused.
fn blocked<B: Body>(fabric: &Fabric<B>) -> String {
    if let Some(ports) = cycle_of_pauses(fabric) {
        return format!("; deadlock: the pauses form a cycle {ports}");
    }
    let (tree, topology) = (pause_tree(fabric), fabric.topology());
    let mut ports: Vec<PortId> = tree.paused().map(|paused| paused.port).collect();
    ports.dedup();
    if ports.is_empty() {
        return String::new();
    }
    let names: Vec<String> = ports.iter().take(8).map(|port| topology.port_name(*port)).collect();
    let more = if ports.len() > names.len() { ", ..." } else { "" };
    let mut text = format!("; {} ports are paused: {}{more}", ports.len(), names.join(", "));
    let nic = tree.paused().find_map(|paused| match paused.cause {
        Cause::Nic { port } => Some(port),
        _ => None,
    });
    if let Some(port) = nic {
        text += &format!("; the NIC of {} pauses its switch", topology.names[topology.port(port).node as usize]);
    }
    text
}
