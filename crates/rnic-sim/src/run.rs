//! Running a scenario: as many runs at a time as there are threads, and a run on several of them where there are fewer runs.

use crate::capture::Capture;
use crate::catalogue::Job;
use crate::flow_book::{FlowBook, Stop};
use crate::hosts::Hosts;
use crate::in_band::InBand;
use crate::nic::{HostTotals, Segment};
use crate::pauses::PauseWatch;
use crate::resolve::{Resolved, SetupError, resolve_all};
use crate::results::{Cut, FlowLog, PortRecord, PriorityCounters, RunOutput, RunStatus, Totals};
use crate::scenario::{RunSpec, Scenario};
use crate::storm::Storms;
use crate::watch::Recorder;
use crate::workload::{self, FlowSpec, Loops};
use cpu_time::ThreadTime;
use rnic_fabric::{
    Body, BodyOf, Cause, Ending, Fabric, PartitionPlan, PartitionedHosts, PortId, Topology, TopologyError, Watcher,
    pause_tree,
};
use rnic_transport::Time;
use rnic_transport::congestion::CongestionControl;
use rnic_transport::recovery::Protocol;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How to run, as opposed to what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunOptions {
    /// Threads in all, at least 1.
    pub threads: usize,
}

/// Parts of a fabric for each thread: more of them share the work more evenly, and have more cables between them.
const PARTS_PER_THREAD: usize = 2;

/// Most threads of one run: the more parts there are, the more of what is sent crosses between two.
const MOST_THREADS: usize = 32;

/// How one run is shared among threads. No result depends on it.
pub struct Sharing<'s> {
    threads: usize,
    cut: Option<&'s dyn Fn(&Topology) -> PartitionPlan>,
    helpers_cpu_s: Cell<f64>,
}

impl<'s> Sharing<'s> {
    /// Among so many threads, but at most 32.
    pub fn among(threads: usize) -> Sharing<'s> {
        Sharing { threads: threads.min(MOST_THREADS), cut: None, helpers_cpu_s: Cell::new(0.0) }
    }
    /// Among so many threads, in the parts that `cut` makes of the fabric, however little there is to do.
    pub fn in_parts(threads: usize, cut: &'s dyn Fn(&Topology) -> PartitionPlan) -> Sharing<'s> {
        Sharing { cut: Some(cut), ..Sharing::among(threads) }
    }

    /// The fabric of a run.
    pub(crate) fn fabric<B: Body>(&self, resolved: &Resolved, seed: u64) -> Result<Fabric<B>, TopologyError> {
        let cut = |topology: &Topology| match self.cut {
            Some(cut) => cut(topology),
            None if self.threads > 1 => PartitionPlan::balanced(topology, PARTS_PER_THREAD * self.threads),
            None => PartitionPlan::whole(topology),
        };
        let mut fabric = Fabric::partitioned(resolved.topology.clone(), &resolved.fabric, seed, self.threads, cut)?;
        if self.cut.is_some() {
            fabric.share_always();
        }
        Ok(fabric)
    }

    /// A run on this fabric is over.
    pub(crate) fn done<B: Body>(&self, fabric: &Fabric<B>) {
        self.helpers_cpu_s.set(self.helpers_cpu_s.get() + fabric.workers_cpu_s());
    }
}

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunProgress {
    /// Flows finished.
    pub flows_done: u64,
    /// Flows in all.
    pub flows_total: u64,
    /// Packet transmissions so far.
    pub hops: u64,
    /// Simulated time.
    pub sim_time: Time,
}

/// Is told how runs proceed; called from worker threads.
pub trait Progress: Sync {
    /// Run number `run` (in the scenario's order) is at `state`.
    fn update(&self, run: usize, state: RunProgress);

    /// Run number `run` has ended, well or not, with this report.
    fn finished(&self, _run: usize, _report: &RunReport) {}
}

/// A finished run and what it cost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// What it recorded; the same for the same scenario and seed, always.
    pub output: RunOutput,
    /// Wall-clock seconds.
    pub wall_s: f64,
    /// CPU seconds of the threads that ran it.
    pub cpu_s: f64,
    /// Largest resident set of the whole process so far, in bytes; 0 where the system does not tell.
    pub peak_rss_bytes: u64,
}

/// Runs everything in a scenario. Results come in the scenario's order and do not depend on the number of threads.
///
/// # Errors
/// The first run that cannot be set up, with its name.
pub fn run_scenario(
    scenario: &Scenario, options: &RunOptions, progress: &dyn Progress,
) -> Result<Vec<RunReport>, (String, SetupError)> {
    run_remaining(scenario, Vec::new(), options, progress)
}

/// Runs what is left of a scenario: `found` has, in the scenario's order, the reports of runs that are done, and of those that it lacks
/// nothing. What comes out is the same as of [`run_scenario`]; `progress` is told of the others alone.
///
/// # Errors
/// The first run to do that cannot be set up, with its name.
pub fn run_remaining(
    scenario: &Scenario, mut found: Vec<Option<RunReport>>, options: &RunOptions, progress: &dyn Progress,
) -> Result<Vec<RunReport>, (String, SetupError)> {
    found.resize(scenario.runs.len(), None);
    let left = || scenario.runs.iter().enumerate().filter(|(index, _)| found[*index].is_none());
    let prepared = resolve_all(left().map(|(_, run)| run))?;
    let to_do: Vec<_> = left().zip(prepared).map(|((index, run), resolved)| (index, run, resolved)).collect();
    let next = AtomicUsize::new(0);
    let unfinished = AtomicUsize::new(to_do.len());
    let slots: Vec<Mutex<Option<RunReport>>> = found.into_iter().map(Mutex::new).collect();
    let worker = || {
        while let Some((index, run, resolved)) = to_do.get(next.fetch_add(1, Ordering::Relaxed)) {
            // Those that the runs still to come, and those that go on, do not need.
            let sharing =
                Sharing::among(options.threads / unfinished.load(Ordering::Relaxed).clamp(1, options.threads.max(1)));
            let report = run_one(run, resolved, None, &sharing, &mut |state| progress.update(*index, state));
            unfinished.fetch_sub(1, Ordering::Relaxed);
            progress.finished(*index, &report);
            *slots[*index].lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(report);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.clamp(1, to_do.len().max(1)) {
            scope.spawn(worker);
        }
        worker();
    });
    let reports = slots.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(|p| p.into_inner()));
    Ok(reports.collect())
}

/// Runs one run, of which [`resolve`](crate::resolve::resolve) made `resolved`, and captures the frames of a link.
pub fn run_with_capture(
    run: &RunSpec, resolved: &Resolved, capture: &mut Capture, progress: &dyn Progress,
) -> RunReport {
    let sharing = Sharing::among(1);
    let report = run_one(run, resolved, Some(capture), &sharing, &mut |state| progress.update(0, state));
    progress.finished(0, &report);
    report
}

#[expect(clippy::disallowed_methods, reason = "the cost of a run is measured here, and nowhere in its results")]
fn run_one(
    run: &RunSpec, resolved: &Resolved, capture: Option<&mut Capture>, sharing: &Sharing<'_>,
    progress: &mut dyn FnMut(RunProgress),
) -> RunReport {
    let (wall, cpu) = (std::time::Instant::now(), ThreadTime::now());
    let output = simulate_with(run, resolved, capture, sharing, progress);
    RunReport {
        output,
        wall_s: wall.elapsed().as_secs_f64(),
        cpu_s: cpu.elapsed().as_secs_f64() + sharing.helpers_cpu_s.get(),
        peak_rss_bytes: peak_rss_bytes(),
    }
}

/// Largest resident set of this process so far.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map_or(0, |kib| kib * 1_024)
}

/// Simulates a run with its own traffic, by the code compiled for its transport and congestion control; `resolved` is what
/// [`resolve`](crate::resolve::resolve) makes of it.
pub fn simulate_run(run: &RunSpec, resolved: &Resolved, progress: &mut dyn FnMut(RunProgress)) -> RunOutput {
    simulate_with(run, resolved, None, &Sharing::among(1), progress)
}

/// As [`simulate_run`], shared among threads.
pub fn simulate_run_shared(
    run: &RunSpec, resolved: &Resolved, sharing: &Sharing<'_>, progress: &mut dyn FnMut(RunProgress),
) -> RunOutput {
    simulate_with(run, resolved, None, sharing, progress)
}

fn simulate_with(
    run: &RunSpec, resolved: &Resolved, capture: Option<&mut Capture>, sharing: &Sharing<'_>,
    progress: &mut dyn FnMut(RunProgress),
) -> RunOutput {
    let seed = run.seed;
    let stream = workload::generate(&run.traffic, &resolved.network, seed);
    let loops = workload::closed_loops(&run.traffic, &resolved.network, seed);
    // None: the traffic has no end.
    let total = loops.as_ref().map_or(Some(0), Loops::total).map(|looped| looped.saturating_add(stream.total()));
    let duration = resolved.hosting.duration;
    let mut observer = |done: u64, now: Time, hops: u64| {
        let flows_total = expected(total, duration, done, now);
        progress(RunProgress { flows_done: done, flows_total, hops, sim_time: now });
        ControlFlow::Continue(())
    };
    let settings = &resolved.settings;
    let job = Job { resolved, settings, seed, flows: stream, loops, observer: &mut observer, capture, sharing };
    let output = (run.transport.cc.simulate)(job);
    let started = output.flows.len() as u64;
    if let Some(cut) = output.cut {
        let cut = Some(Cut { not_started: total.map(|total| total.saturating_sub(started)), ..cut });
        return RunOutput { cut, ..output };
    }
    // A stream that ended early (starts beyond the end of time) must not pass for a finished run.
    let status = match output.status {
        RunStatus::Completed if total.is_none_or(|total| started < total) => RunStatus::Failed(format!(
            "only {started} of {} flows start before the end of time (213 days)",
            total.map_or("endless".to_string(), |total| total.to_string())
        )),
        status => status,
    };
    RunOutput { status, offered: total.unwrap_or(started), ..output }
}

/// Flows that a run will have in all, for a sense of progress: as many as its traffic has, or fewer if its duration ends it before.
fn expected(total: Option<u64>, duration: Option<Time>, done: u64, now: Time) -> u64 {
    let Some(duration) = duration else { return total.unwrap_or(u64::MAX) };
    let scaled = u128::from(done) * u128::from(duration.as_ps()) / u128::from(now.as_ps().max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX).max(done.saturating_add(1)).min(total.unwrap_or(u64::MAX))
}

/// Is called now and then with flows finished, simulated time and packet transmissions; `Break` cancels the run.
pub type Observer<'o> = &'o mut dyn FnMut(u64, Time, u64) -> ControlFlow<()>;

/// Simulates one run with the given flows, which must be in order of start.
pub fn simulate<P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>>(
    resolved: &Resolved, params: C::Params, seed: u64, flows: S, observer: Observer<'_>,
) -> RunOutput {
    simulate_captured::<P, C, S, ()>(resolved, params, (seed, &Sharing::among(1)), (flows, None), observer, None)
}

/// As [`simulate`], shared among threads, with closed loops beside the flows, with the frames of a link captured if that is asked for, and with
/// packets that have room for `T`.
pub(crate) fn simulate_captured<P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T: InBand>(
    resolved: &Resolved, params: C::Params, (seed, sharing): (u64, &Sharing<'_>), flows: (S, Option<Loops>),
    observer: Observer<'_>, capture: Option<&mut Capture>,
) -> RunOutput {
    let mut fabric = match sharing.fabric(resolved, seed) {
        Ok(fabric) => fabric,
        Err(error) => return RunOutput::not_started(error.to_string()),
    };
    let output = run_on::<P, C, S, T>(&mut fabric, resolved, params, flows, observer, capture);
    sharing.done(&fabric);
    output
}

/// As [`simulate`], on a fabric that the caller has prepared.
pub fn simulate_on<P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>>(
    mut fabric: Fabric<Segment>, resolved: &Resolved, params: C::Params, flows: S, observer: Observer<'_>,
) -> RunOutput {
    run_on::<P, C, S, ()>(&mut fabric, resolved, params, (flows, None), observer, None)
}

fn run_on<P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T: InBand>(
    fabric: &mut Fabric<Segment<T>>, resolved: &Resolved, params: C::Params, flows: (S, Option<Loops>),
    observer: Observer<'_>, capture: Option<&mut Capture>,
) -> RunOutput {
    let book = flow_book(fabric, resolved, flows, observer);
    let partition = fabric.plan().clone();
    let mut hosts = Hosts::<P, C, S, T>::new(resolved.flow.clone(), params, resolved.hosting, partition, book);
    if let Some(capture) = &capture {
        capture.begin(fabric);
        hosts.keep_places();
    }
    let output = run_hosts(fabric, resolved, &mut hosts);
    if let Some(capture) = capture {
        capture.end(fabric, &hosts.take_places(), &output.flows);
    }
    output
}

/// The flows of a run on a fabric.
pub(crate) fn flow_book<'o, B: Body, S: Iterator<Item = FlowSpec>>(
    fabric: &Fabric<B>, resolved: &Resolved, (flows, loops): (S, Option<Loops>), observer: Observer<'o>,
) -> FlowBook<'o, S> {
    let (topology, routes) = (fabric.topology().clone(), fabric.routes().clone());
    FlowBook::new(resolved.hosting, resolved.flow.mtu, topology, routes, flows, loops, observer)
}

/// What a run needs of its hosts, beside moving packets.
pub(crate) trait RunHosts: PartitionedHosts {
    /// Counts over all hosts.
    fn totals(&self) -> HostTotals;
    /// Why the hosts ended the run, if they did.
    fn stop(&self) -> Option<Stop>;
    /// Flows that have started and not finished.
    fn unfinished(&self) -> u64;
    /// Every flow that is under way before `now`: its number, sending and receiving host, and hash.
    fn under_way(&self, now: Time) -> impl Iterator<Item = (u32, u32, u32, u32)>;
    /// Number of every flow that is under way before `now`, and the payload bytes that it has delivered.
    fn delivered(&self, now: Time) -> impl Iterator<Item = (u32, u64)>;
    /// One record per flow that has started, in order of start.
    fn take_records(&mut self) -> FlowLog;
}

/// Runs hosts on a fabric until they are done or the run's time is over.
pub(crate) fn run_hosts<H: RunHosts>(fabric: &mut Fabric<BodyOf<H>>, resolved: &Resolved, hosts: &mut H) -> RunOutput {
    let until = resolved.hosting.duration.unwrap_or(Time::MAX);
    let mut recorder = resolved.watch.as_ref().map(Recorder::new);
    let mut storms = Storms::new(&resolved.storms);
    let mut pauses = resolved.watch_pauses.map(|(start, interval)| PauseWatch::new(start, interval));
    if pauses.is_some() {
        fabric.log_pauses(crate::pauses::MOST_PAUSES);
    }
    let mut watchers: Vec<&mut dyn Watcher<_>> = vec![&mut storms];
    watchers.extend(pauses.as_mut().map(|watch| watch as &mut dyn Watcher<_>));
    watchers.extend(recorder.as_mut().map(|recorder| recorder as &mut dyn Watcher<_>));
    let ending = fabric.run_watched(hosts, &mut watchers, until);
    let end = fabric.now();
    fabric.close_counters(end);
    let host_totals = hosts.totals();
    let unfinished = hosts.unfinished();
    let stop = hosts.stop();
    let ports = port_records(fabric);
    let totals = totals(fabric, &ports, host_totals);
    let accounted = totals.delivered + totals.dropped + totals.lost + totals.in_flight;
    let status = if totals.data + totals.control != accounted {
        RunStatus::Failed(format!(
            "internal error: {} packets were sent but {accounted} are accounted for",
            totals.data + totals.control
        ))
    } else if resolved.lossless && totals.dropped > 0 {
        RunStatus::Failed(format!("internal error: a lossless fabric dropped {} packets", totals.dropped))
    } else {
        status(fabric, ending, stop, unfinished, end)
    };
    let mut warnings = resolved.warnings.clone();
    if resolved.fabric.switch.buffer.has_pfc() && totals.dropped > 0 {
        warnings.push(format!("PFC did not prevent loss: {} packets were dropped", totals.dropped));
    }
    let cut = (ending == Ending::TimeUp).then_some(Cut { at: end, not_started: None });
    let cycle = cut.map_or(Vec::new(), |_| pause_tree(fabric).cycle);
    if !cycle.is_empty() {
        let names: Vec<String> = cycle.iter().map(|port| fabric.topology().port_name(*port)).collect();
        warnings.push(format!("a cycle of pauses at the end of the run: through {}", names.join(", ")));
    }
    let flows = hosts.take_records();
    let status = flows.error().map_or(status, |error| RunStatus::Failed(error.to_string()));
    let pauses = pauses.map(|watch| watch.finish(fabric, end, cut.is_some(), &flows, &mut warnings));
    let samples = recorder.map(|recorder| recorder.finish(&flows, &mut warnings));
    RunOutput {
        status,
        offered: flows.len() as u64,
        cut,
        flows,
        ports,
        totals,
        end,
        parameters: resolved.parameters.clone(),
        warnings,
        pauses,
        samples,
    }
}

fn status<B: Body>(fabric: &Fabric<B>, ending: Ending, stop: Option<Stop>, unfinished: u64, end: Time) -> RunStatus {
    let end = Time::from_ns(end.as_ps() / 1_000);
    let flows = if unfinished == 1 { "1 flow has".to_string() } else { format!("{unfinished} flows have") };
    let what = match (ending, stop) {
        (_, Some(Stop::Finished)) | (Ending::TimeUp, _) => return RunStatus::Completed,
        (Ending::Idle, _) if unfinished == 0 => return RunStatus::Completed,
        (Ending::Idle, _) => format!("nothing is left to happen at {end}, but {flows} not finished"),
        (_, Some(Stop::TimeLimit)) => format!("the time limit was reached at {end}; {flows} not finished"),
        (_, Some(Stop::Stalled)) => {
            format!("no flow has progressed for a long time at {end}; {flows} not finished")
        }
        _ => format!("stopped at {end}; {flows} not finished"),
    };
    RunStatus::Failed(what + &blocked(fabric))
}

/// A sentence on who is paused, empty if nobody is.
fn blocked<B: Body>(fabric: &Fabric<B>) -> String {
    let (tree, topology) = (pause_tree(fabric), fabric.topology());
    if !tree.cycle.is_empty() {
        let names: Vec<String> = tree.cycle.iter().map(|port| topology.port_name(*port)).collect();
        return format!("; deadlock: the pauses form a cycle through {}", names.join(", "));
    }
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

fn port_records<B: Body>(fabric: &Fabric<B>) -> Vec<PortRecord> {
    let topology = fabric.topology();
    let record = |port: PortId| {
        let info = topology.port(port);
        PortRecord {
            node: topology.names[info.node as usize].clone(),
            port: topology.port_in_node(port),
            peer: topology.names[topology.peer_node(port) as usize].clone(),
            rate: info.link.rate,
            // A frame that is being sent at the end counts whole.
            busy: fabric.busy(port).min(fabric.now()),
            priorities: fabric.counters(port).iter().map(PriorityCounters::from).collect(),
        }
    };
    topology.port_ids().map(record).collect()
}

fn totals<B: Body>(fabric: &Fabric<B>, ports: &[PortRecord], hosts: crate::nic::HostTotals) -> Totals {
    let mut totals = Totals {
        data: hosts.data,
        control: hosts.control,
        retransmitted: hosts.retransmitted,
        delivered: hosts.delivered,
        marked: hosts.marked,
        notifications: hosts.notifications,
        given_up: hosts.given_up,
        hops: fabric.hops(),
        in_flight: fabric.in_flight(),
        ..Totals::default()
    };
    for port in fabric.topology().port_ids() {
        totals.dropped_data += fabric.counters(port).iter().map(|c| c.drops - c.control_drops).sum::<u64>();
    }
    for counters in ports.iter().flat_map(|port| &port.priorities) {
        totals.dropped += counters.drops;
        totals.trimmed += counters.trimmed;
        totals.returned += counters.returned;
        totals.lost += counters.lost;
        totals.pause_frames += counters.pause_sent;
        totals.paused_ps += counters.paused_ps;
    }
    totals
}

impl From<&rnic_fabric::PriorityCounters> for PriorityCounters {
    fn from(c: &rnic_fabric::PriorityCounters) -> PriorityCounters {
        PriorityCounters {
            tx_packets: c.tx_packets,
            tx_bytes: c.tx_bytes,
            drops: c.drops,
            lost: c.lost,
            marked: c.marked,
            pause_sent: c.pause_sent,
            pause_received: c.pause_received,
            paused_ps: c.paused_ps,
            queue_high_water: c.queue_high_water,
            trimmed: c.trimmed,
            returned: c.returned,
        }
    }
}
