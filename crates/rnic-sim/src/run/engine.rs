//! Simulates the hosts of one run on its fabric, and determines whether the run completed or failed.

use super::records::{port_records, totals};
use crate::dead::Deaths;
use crate::events::{Listener, MeshProbe};
use crate::host::{RunHosts, Stop};
use crate::pauses::{MAX_PAUSES, PauseWatch};
use crate::resolve::Resolved;
use crate::storm::Storms;
use crate::watch::Recorder;
use crate::watchdog::Watchdog;
use rnic_fabric::{Body, BodyOf, Cause, Ending, Fabric, PortId, ProbeResult, Watcher, pause_tree};
use rnic_run::{PortRecord, RunOutput, RunStatus, Totals, Truncation};
use rnic_transport::Time;

/// Simulates the hosts on the fabric until all flows have finished or the run's `duration` is over.
pub(super) fn run_hosts<H: RunHosts>(
    fabric: &mut Fabric<BodyOf<H>>, resolved: &Resolved, hosts: &mut H, events: &dyn Listener,
) -> RunOutput {
    let until = resolved.host_config.duration.unwrap_or(Time::MAX);
    if let Some(group) = fabric.ranks().cloned() {
        hosts.join_ranks(group);
    }
    let mut recorder = resolved.watch.as_ref().map(|plan| Recorder::new(plan, events));
    let mut storms = Storms::new(&resolved.storms);
    let mut pauses = resolved.watch_pauses.map(|(start, interval)| PauseWatch::new(start, interval, events));
    if pauses.is_some() {
        fabric.log_pauses(MAX_PAUSES);
    }
    let faults = &resolved.faults;
    if faults.guards_switches() {
        fabric.guard_switches();
        faults.drops.iter().for_each(|(port, every)| fabric.drop_every(*port, *every));
    }
    faults.receivers.iter().for_each(|(host, spec)| fabric.set_receiver(*host, *spec));
    if !faults.probes.is_empty() {
        fabric.set_probes(faults.probes.clone());
    }
    let mut deaths = Deaths::new(&faults.dead);
    let mut watchdog =
        faults.watchdog.as_ref().map(|settings| Watchdog::new(settings, &resolved.topology, fabric.priorities()));
    let mut watchers: Vec<&mut dyn Watcher<_>> = vec![&mut storms, &mut deaths];
    watchers.extend(watchdog.as_mut().map(|watchdog| watchdog as &mut dyn Watcher<_>));
    watchers.extend(pauses.as_mut().map(|watch| watch as &mut dyn Watcher<_>));
    watchers.extend(recorder.as_mut().map(|recorder| recorder as &mut dyn Watcher<_>));
    let ending = fabric.run_watched(hosts, &mut watchers, until);
    let end = fabric.now();
    fabric.close_counters(end);
    match fabric.collect().and_then(|is_root| hosts.collect().map(|()| is_root)) {
        Ok(true) => {}
        // Rank 0 has the results.
        Ok(false) => return RunOutput { status: RunStatus::Completed, ..RunOutput::not_started(String::new()) },
        Err(error) => return RunOutput::not_started(error.to_string()),
    }
    if let Some(recorder) = &mut recorder {
        recorder.tell_drops(end, fabric);
    }
    let ports = port_records(fabric);
    let totals = totals(fabric, &ports, hosts.totals());
    let status = accounts(resolved, &totals)
        .map_or_else(|| status(fabric, ending, hosts.stop(), hosts.unfinished(), end), RunStatus::Failed);
    let flows = hosts.take_records();
    let status = flows.error().map_or(status, |error| RunStatus::Failed(error.to_string()));
    let mut warnings = resolved.warnings.clone();
    let dropped = dropped_despite_pfc(resolved.fabric.switch.buffer.lossless_priorities(), &ports);
    if dropped > 0 {
        warnings.push(format!("PFC did not prevent loss: {dropped} packets were dropped"));
    }
    let interrupted = status == RunStatus::Interrupted;
    let truncated = (ending == Ending::TimeUp || interrupted).then_some(Truncation { at: end, not_started: None });
    if truncated.is_some() {
        warnings
            .extend(cycle_of_pauses(fabric).map(|ports| format!("a cycle of pauses at the end of the run: {ports}")));
    }
    let pauses = pauses.map(|watch| watch.finish(fabric, end, truncated.is_some(), &flows, &mut warnings));
    let samples = recorder.map(|recorder| recorder.finish(&flows, &mut warnings));
    let of_nics = faults.nic_watchdogs.iter().copied().filter(|record| record.detected < end);
    let mut found: Vec<_> = of_nics.chain(watchdog.into_iter().flat_map(|watchdog| watchdog.finish(fabric))).collect();
    found.sort_by_key(|record| (record.detected, record.port));
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
        watchdog: found,
        meshes: crate::mesh::records(
            &faults.meshes.0,
            &faults.meshes.1,
            &fabric.probe_results(),
            resolved.host_config.seed,
            |mesh, ProbeResult { pair, at, rtt }| {
                let spec = &faults.probes[pair as usize];
                events.probe(MeshProbe { mesh, ends: (spec.src.0, spec.dst.0), at, rtt });
            },
        ),
    }
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

/// The status of a run that ended at `end` with `unfinished` flows: completed, interrupted, or failed with the reason.
fn status<B: Body>(fabric: &Fabric<B>, ending: Ending, stop: Option<Stop>, unfinished: u64, end: Time) -> RunStatus {
    let end = Time::from_ns(end.as_ps() / 1_000).rounded();
    let flows = if unfinished == 1 { "1 flow has".to_string() } else { format!("{unfinished} flows have") };
    let what = match (ending, stop) {
        (_, Some(Stop::Finished)) | (Ending::TimeUp, _) => return RunStatus::Completed,
        (_, Some(Stop::Cancelled)) => return RunStatus::Interrupted,
        (Ending::Idle, _) if unfinished == 0 => return RunStatus::Completed,
        (Ending::Idle, _) => format!("nothing is left to happen at {end}, but {flows} not finished"),
        (_, Some(Stop::TimeLimit)) => format!("the time limit was reached at {end}; {flows} not finished"),
        (_, Some(Stop::Stalled)) => {
            format!("no flow has progressed for a long time at {end}; {flows} not finished")
        }
        (Ending::Stopped | Ending::RankLost, None) => format!("stopped at {end}; {flows} not finished"),
    };
    RunStatus::Failed(what + &blocked(fabric))
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
