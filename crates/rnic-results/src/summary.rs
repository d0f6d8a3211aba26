//! The summary of a scenario's runs: the statistics and counts that `summary.json`, the table and the report show.

pub use super::groups::{Group, SizeClass, TrafficClass};
pub use super::tiers::{Tier, Utilisation};

use super::answered::{self, InferenceSummary};
use super::collectives::{self, CollectiveSummary};
use super::groups::Groups;
use super::pauses::{self, PauseSummary};
use super::stats::{self, Distribution, Goodput};
use super::step_links;
use super::steps::{self, StepSummary};
use super::text::percent;
use super::tiers::{is_host, link, port_utilisation, tiers};
use super::timeline;
use super::watchdog::{self, WatchdogSummary};
use rnic_spec::RunRecord;
use rnic_spec::{FastForwardRecord, Fidelity, MeshRecord};
use rnic_spec::{LinkSamples, PortRecord, QueueSamples, RunOutput, RunStatus, Totals, Truncation};
use rnic_spec::{RunSpec, Scenario, TrafficPattern};
use rnic_transport::Time;

/// The summaries of all runs of one scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct ScenarioSummary {
    /// Title of the scenario.
    pub title: String,
    /// Name of the scenario: its file name without the extension.
    pub name: String,
    /// Seed of the scenario. Runs of a sweep over seeds have their own seeds.
    pub seed: u64,
    /// Version of rnic that computed the summary.
    pub version: &'static str,
    /// The summaries of the runs, in the scenario's order.
    pub runs: Vec<RunSummary>,
    /// Names of the runs that did not start because the scenario was interrupted; these runs are not in `runs`.
    pub not_started: Vec<String>,
    /// Whether `replay.html`, which shows the runs over time, is next to the report.
    pub replay: bool,
    /// The command that reproduces these results; `None` if they do not come from a command.
    pub command: Option<String>,
}

impl ScenarioSummary {
    /// The scenario keys that the scenario's `[sweep]` varies; empty if the scenario has no sweep.
    pub fn swept(&self) -> Vec<&str> {
        self.runs.first().map_or(Vec::new(), |run| run.point.iter().map(|(key, _)| key.as_str()).collect())
    }

    /// Whether the scenario was interrupted, so that the results are partial.
    pub(crate) fn is_partial(&self) -> bool {
        !self.not_started.is_empty() || self.runs.iter().any(|run| run.interrupted)
    }

    /// The reference run of `run`, with which results are compared. In a sweep, this is the first run with the same
    /// swept values as `run`; without a sweep, it is the first run of the scenario. A run of flows as fluids is
    /// compared with runs of fluids only.
    pub fn reference(&self, run: &RunSummary) -> Option<&RunSummary> {
        self.runs.iter().find(|other| other.point == run.point && other.fidelity == run.fidelity)
    }

    /// If runs with packets and runs of flows as fluids are mixed: the runs with packets alone, which can be compared
    /// with each other.
    pub(crate) fn packets_of_mixed(&self) -> Option<ScenarioSummary> {
        let (packets, flows): (Vec<&RunSummary>, Vec<&RunSummary>) =
            self.runs.iter().partition(|run| run.fidelity.is_packet());
        let runs = || packets.iter().map(|run| (*run).clone()).collect();
        (!packets.is_empty() && !flows.is_empty()).then(|| ScenarioSummary { runs: runs(), ..self.clone() })
    }
}

/// The summary of one run. Statistics cover only measured flows, which are the finished flows that count in the
/// statistics. A statistic is `None` (in JSON `null`) if no flow was measured. It is also `None` in every failed run,
/// because the finished flows of a failed run are not representative.
#[derive(Clone, PartialEq, Debug)]
pub struct RunSummary {
    /// Name of the run, unique in the scenario.
    pub name: String,
    /// Name of the run in the scenario file. It differs from `name` in a sweep only, where `name` includes the swept
    /// values.
    pub base: String,
    /// In a sweep: the swept keys and their values in this run, as the scenario file writes them. Empty without a
    /// sweep.
    pub point: Vec<(String, String)>,
    /// Seed of this run.
    pub seed: u64,
    /// Name of the transport, as in scenario files: `roce`, `irn`, ...
    pub transport: String,
    /// Name of the congestion control, as in scenario files: `none`, `dcqcn`, ...
    pub cc: String,
    /// Whether the switches sent PFC pauses.
    pub pfc: bool,
    /// Reason why the run failed; `None` for a completed or interrupted run.
    pub failure: Option<String>,
    /// Whether the run was interrupted, for example by Ctrl-C: its results are partial.
    pub interrupted: bool,
    /// Present if the run's `duration` or an interruption ended the run while flows were unfinished or still to start.
    pub truncated: Option<Truncation>,
    /// Numbers of offered, completed and measured flows.
    pub flows: FlowCounts,
    /// Distribution of the slowdown: flow completion time / completion time of the same flow alone on an empty fabric.
    pub slowdown: Option<Distribution>,
    /// Distribution of the flow completion times in microseconds.
    pub fct_us: Option<Distribution>,
    /// Statistics by flow size, in ascending order of size. Only size classes with finished flows are present.
    pub sizes: Vec<SizeClass>,
    /// Statistics by traffic source, in the scenario's order; empty if there is only one source.
    pub traffic: Vec<TrafficClass>,
    /// Counts of packets and pauses over the whole fabric.
    pub totals: Totals,
    /// Fraction of the sent data packets that switches dropped; `None` in a failed run or if no data packet was sent.
    pub drop_rate: Option<f64>,
    /// Utilisation of the links between hosts and switches, in both directions; `None` in a failed run.
    pub host_utilisation: Option<Utilisation>,
    /// Utilisation of all links, in both directions; `None` in a failed run.
    pub link_utilisation: Option<Utilisation>,
    /// Number of retransmission timeouts, over all flows.
    pub timeouts: u64,
    /// Distribution of the request completion times in microseconds; `None` if there are no requests.
    pub requests: Option<Distribution>,
    /// Distribution of the goodput in bit/s over the measured flows, both finished and unfinished ones.
    pub goodput: Option<Goodput>,
    /// Whether the table shows the goodput of this run, because the run was truncated or has closed-loop traffic.
    pub about_goodput: bool,
    /// Whether all traffic of the run consists of requests, as in an incast. Then the request completion time is the
    /// main metric of the run.
    pub about_requests: bool,
    /// Simulated time at which the run ended.
    pub sim_time: Time,
    /// The settings in effect, both given and derived ones, as (key, value with unit).
    pub parameters: Vec<(String, String)>,
    /// Warnings for readers of the results, one sentence each.
    pub warnings: Vec<String>,
    /// Traffic of the links by tier and direction; empty in a failed run.
    pub tiers: Vec<Tier>,
    /// Statistics of the switch queues that the run sampled (`watch.queues`).
    pub queues: Vec<QueueSummary>,
    /// Statistics of the links that the run sampled (`watch.links`).
    pub links: Vec<LinkSummary>,
    /// The transmitters that PFC paused, and the causes; `None` if the run did not record pauses.
    pub pauses: Option<PauseSummary>,
    /// The pause storms that the watchdogs of the run found, and their actions; empty without watchdogs.
    pub watchdog: Vec<WatchdogSummary>,
    /// The measurements of the meshes of probes; empty without meshes.
    pub meshes: Vec<MeshRecord>,
    /// The collective operations of the run, by traffic source; empty without them.
    pub collectives: Vec<CollectiveSummary>,
    /// The steps of programs of tasks, by traffic source; empty without them.
    pub steps: Vec<StepSummary>,
    /// The requests of inferences, by traffic source; empty without them.
    pub inference: Vec<InferenceSummary>,
    /// What the run simulated: packets, or flows as fluids. For flows as fluids, drops, losses, marks, retransmissions,
    /// timeouts, pauses and queues are not modelled; their counts are 0 and have no meaning.
    pub fidelity: Fidelity,
    /// Simulated time that was skipped; `None` if the run has no `fast_forward`.
    pub fast_forward: Option<FastForwardRecord>,
    /// Time and memory that the simulation used.
    pub timing: Timing,
}

impl RunSummary {
    /// A value that only a simulation of packets has; `None` ("not modelled") for flows as fluids.
    pub fn modelled<T>(&self, value: T) -> Option<T> {
        self.fidelity.is_packet().then_some(value)
    }

    /// Packets that links lost, as a fraction of all packets that hosts sent, control packets included. `None` for a
    /// failed run, and for a run without packets. A packet that crosses several lossy links may be lost on each of
    /// them.
    pub(crate) fn loss_rate(&self) -> Option<f64> {
        let sent = self.totals.data + self.totals.control;
        (self.failure.is_none() && sent > 0 && self.fidelity.is_packet()).then(|| self.totals.lost as f64 / sent as f64)
    }
}

/// Statistics of one sampled queue.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueSummary {
    /// Name of the queue: its switch, and the node to which this output of the switch sends.
    pub name: String,
    /// Distribution of the queue length in bytes over the samples. The interval between samples is constant, so the
    /// mean is the mean over time.
    pub bytes: Distribution,
}

/// Statistics of one direction of a sampled link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSummary {
    /// Name of the direction: the sending and the receiving node, joined by a colon.
    pub name: String,
    /// Distribution of the utilisation (0 to 1) over the intervals between samples.
    pub utilisation: Distribution,
}

/// Numbers of flows in one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowCounts {
    /// Number of flows that started.
    pub offered: u64,
    /// Number of flows that finished. Statistics of slowdown and completion time do not include unfinished flows.
    pub completed: u64,
    /// Number of finished flows that count in the statistics.
    pub measured: u64,
}

/// Time and memory that the simulation of a run used. They differ from machine to machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timing {
    /// Wall-clock time of the simulation in seconds.
    pub wall_s: f64,
    /// CPU time of the simulation over all threads, in seconds.
    pub cpu_s: f64,
    /// Maximum resident memory of the simulating process in bytes.
    pub peak_rss_bytes: u64,
}

/// Summarises the runs of `scenario`. `reports` are the records of these runs, in the same order.
pub fn summarise(scenario: &Scenario, reports: &[RunRecord]) -> ScenarioSummary {
    ScenarioSummary {
        command: None,
        title: scenario.title.clone(),
        name: scenario.name.clone(),
        seed: scenario.seed,
        version: env!("CARGO_PKG_VERSION"),
        runs: scenario.runs.iter().zip(reports).map(|(spec, report)| summarise_run(spec, report)).collect(),
        not_started: Vec::new(),
        replay: false,
    }
}

fn summarise_run(spec: &RunSpec, report: &RunRecord) -> RunSummary {
    let output = &report.output;
    let groups = Groups::new(spec);
    let counts = groups.count(output);
    let failure = failure(output, counts.unfinished);
    let ok = failure.is_none();
    let flows = groups.statistics(output, &counts, ok);
    let requests = if ok { stats::request_completion_us(&output.flows) } else { Vec::new() };
    if ok && output.flows.error().is_some() {
        return summarise_run(spec, report); // a read failed meanwhile: the run counts as failed
    }
    let totals = output.totals;
    RunSummary {
        name: spec.name.clone(),
        base: spec.base.clone(),
        point: spec.point.clone(),
        seed: spec.seed,
        transport: spec.transport.name.clone(),
        cc: spec.transport.cc.name().to_string(),
        pfc: spec.transport.pfc,
        flows: FlowCounts { offered: output.offered, completed: counts.completed, measured: flows.whole.flows },
        slowdown: flows.whole.slowdown,
        fct_us: flows.whole.fct_us,
        sizes: flows.sizes,
        traffic: flows.traffic,
        totals,
        drop_rate: (ok && totals.data > 0 && output.fidelity.is_packet())
            .then(|| totals.dropped_data as f64 / totals.data as f64),
        host_utilisation: utilisation(output, ok, |port| {
            is_host(&spec.fabric.topology, &port.node) || is_host(&spec.fabric.topology, &port.peer)
        }),
        link_utilisation: utilisation(output, ok, |_| true),
        timeouts: counts.timeouts,
        requests: Distribution::of(requests),
        goodput: flows.goodput,
        about_goodput: output.truncated.is_some() || spec.traffic.iter().any(|source| reacts(&source.pattern)),
        about_requests: spec.traffic.iter().all(|source| is_incast(&source.pattern)),
        interrupted: output.status == RunStatus::Interrupted,
        truncated: output.truncated,
        sim_time: output.end,
        parameters: output.parameters.clone(),
        warnings: warnings(spec, output, flows.whole.flows, ok),
        tiers: if ok { tiers(&spec.fabric.topology, output) } else { Vec::new() },
        queues: queues(output),
        links: links(output),
        pauses: pauses::summarise(output),
        watchdog: watchdog::summarise(output),
        meshes: output.meshes.clone(),
        collectives: collectives::summarise(spec, output),
        steps: steps::summarise(spec, output),
        inference: answered::summarise(spec, output),
        fidelity: output.fidelity,
        fast_forward: output.fast_forward,
        failure,
        timing: Timing { wall_s: report.wall_s, cpu_s: report.cpu_s, peak_rss_bytes: report.peak_rss_bytes },
    }
}

/// The reason why the run failed; `None` for a completed or interrupted run. A run that completed with unfinished flows
/// counts as failed too, unless it was truncated.
fn failure(output: &RunOutput, unfinished: u64) -> Option<String> {
    let unfinished = match output.truncated {
        // Messages that the transport aborted do not make the run fail: a warning reports them.
        None => unfinished.saturating_sub(output.totals.aborted),
        Some(_) => 0, // unfinished flows are normal in a truncated run
    };
    match (&output.status, output.flows.error()) {
        (RunStatus::Failed(reason), _) => Some(reason.clone()),
        (RunStatus::Completed | RunStatus::Interrupted, Some(error)) => Some(error.to_string()),
        (RunStatus::Completed, _) if unfinished > 0 => {
            Some(format!("{unfinished} of {} flows never finished", output.flows.len()))
        }
        (RunStatus::Completed | RunStatus::Interrupted, _) => None,
    }
}

/// Statistics of the switch queues that the run sampled. Failed runs have these statistics too.
fn queues(output: &RunOutput) -> Vec<QueueSummary> {
    let queues = output.samples.iter().flat_map(|samples| &samples.queues);
    let summary = |queue: &QueueSamples| {
        let bytes = Distribution::of(queue.bytes.iter().map(|bytes| f64::from(*bytes)).collect())?;
        Some(QueueSummary { name: queue.name.clone(), bytes })
    };
    queues.filter_map(summary).collect()
}

/// Statistics of the links that the run sampled. Failed runs have these statistics too.
fn links(output: &RunOutput) -> Vec<LinkSummary> {
    let Some(samples) = &output.samples else { return Vec::new() };
    let summary = |link: &LinkSamples| {
        let values = link.utilisation(samples.interval).map(|(_, utilisation)| utilisation);
        Some(LinkSummary { name: link.name.clone(), utilisation: Distribution::of(values.collect())? })
    };
    samples.links.iter().filter_map(summary).collect()
}

/// Whether completions cause flows in the simulation itself.
fn reacts(pattern: &TrafficPattern) -> bool {
    pattern.is_closed() && !matches!(pattern, TrafficPattern::Outside { .. })
}

fn is_incast(pattern: &TrafficPattern) -> bool {
    matches!(pattern, TrafficPattern::Incast { .. } | TrafficPattern::IncastLoop { .. })
}

/// Minimum utilisation of an overloaded link over the whole run.
const OVERLOADED: f64 = 0.97;

/// A warning if a link was busy for nearly the whole run although flows start independently of each other (Poisson).
/// The traffic then offers more than the link can carry, so its queue grows for as long as flows start.
fn overload(spec: &RunSpec, output: &RunOutput) -> Option<String> {
    if !spec.traffic.iter().any(|source| matches!(source.pattern, TrafficPattern::Poisson { .. })) {
        return None;
    }
    let busy = output.ports.iter().filter_map(|port| Some((port_utilisation(port, output.end)?, port)));
    let mut busy: Vec<(f64, &PortRecord)> = busy.filter(|(utilisation, _)| *utilisation >= OVERLOADED).collect();
    busy.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let (utilisation, port) = busy.first()?;
    let more = match busy.len() - 1 {
        0 => String::new(),
        1 => " (and 1 more link)".to_string(),
        more => format!(" (and {more} more links)"),
    };
    Some(format!(
        "overload: link {}{more} was busy for {} of the run; the queue of an overloaded link grows while flows start, so \
         slowdown and FCT depend on the number of flows",
        link(port),
        percent(*utilisation)
    ))
}

/// The warnings that the run reported, plus warnings if a link was overloaded, if the step of a timeline does not
/// exist, and if too few flows were measured for percentiles.
fn warnings(spec: &RunSpec, output: &RunOutput, measured: u64, ok: bool) -> Vec<String> {
    let mut warnings = output.warnings.clone();
    if ok {
        warnings.extend(overload(spec, output));
        warnings.extend(timeline::missing(spec, output));
        warnings.extend(collectives::missing(output));
        warnings.extend(step_links::missing(output));
    }
    if ok && measured == 0 {
        warnings.push("no flow was measured, so the run has no statistics".to_string());
    } else if ok && measured < 100 {
        let flows = if measured == 1 { "1 flow was".to_string() } else { format!("{measured} flows were") };
        warnings.push(format!("only {flows} measured: the 99th percentile is the maximum"));
    }
    warnings
}

fn utilisation(output: &RunOutput, ok: bool, member: impl Fn(&PortRecord) -> bool) -> Option<Utilisation> {
    let ports = output.ports.iter().filter(|port| ok && member(port));
    let values: Vec<f64> = ports.filter_map(|port| port_utilisation(port, output.end)).collect();
    let max = values.iter().copied().fold(0.0, f64::max);
    Some(Utilisation { mean: stats::mean(&values)?, max })
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_completed_run_with_unfinished_flows_is_a_failure() {
        let (scenario, mut reports) = fixture::two_runs();
        reports[1].output.flows.edit(2, |flow| flow.finish = None);
        let run = &summarise(&scenario, &reports).runs[1];
        assert_eq!(run.failure.as_deref(), Some("1 of 5 flows never finished"));
        assert_eq!((run.slowdown, run.fct_us, run.requests, run.drop_rate), (None, None, None, None));
    }

    #[test]
    fn a_run_whose_records_cannot_be_read_is_a_failure() {
        let (scenario, mut reports) = fixture::two_runs();
        reports[1].output.flows = reports[1].output.flows.unreadable();
        let run = &summarise(&scenario, &reports).runs[1];
        assert!(run.failure.as_ref().unwrap().contains("cannot be read"), "{:?}", run.failure);
        assert_eq!((run.slowdown, run.goodput, run.requests), (None, None, None));
    }

    #[test]
    fn a_link_that_is_always_busy_gives_a_warning() {
        let (mut scenario, mut reports) = fixture::two_runs();
        reports[0].output.ports[2].busy = Time::from_us(590);
        let overloads = |scenario: &Scenario, reports: &[RunRecord]| -> Vec<String> {
            let runs = summarise(scenario, reports).runs;
            runs[0].warnings.iter().filter(|text| text.starts_with("overload")).cloned().collect()
        };
        assert_eq!(overloads(&scenario, &reports), [""; 0], "a list of flows may start all of them at once");
        let sizes = rnic_spec::SizeDistribution { name: "fixed 1 KB".into(), points: vec![(1_000.0, 1.0)] };
        scenario.runs[0].traffic[0].pattern = TrafficPattern::Poisson {
            load: 0.7,
            sizes,
            flows: 5,
            locality: Default::default(),
            arrivals: Default::default(),
        };
        assert!(overloads(&scenario, &reports)[0].starts_with("overload: link s0:s1 was busy for 98.3 % of the run;"));
        reports[0].output.ports[2].busy = Time::from_us(580);
        assert_eq!(overloads(&scenario, &reports), [""; 0]);
    }

    #[test]
    fn few_measured_flows_give_a_warning() {
        let (scenario, reports) = fixture::two_runs();
        let warnings = &summarise(&scenario, &reports).runs[0].warnings;
        assert_eq!(
            *warnings,
            ["the clock is fictional", "only 4 flows were measured: the 99th percentile is the maximum"]
        );
    }
}
