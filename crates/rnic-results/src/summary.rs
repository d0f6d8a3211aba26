//! The summary of a scenario's runs: the statistics and counts that `summary.json`, the table and the report show.

pub use super::groups::{Group, SizeClass, TrafficClass};

use super::groups::Groups;
use super::pauses::{self, PauseSummary};
use super::stats::{self, Distribution, Goodput};
use super::watchdog::{self, WatchdogSummary};
use rnic_fabric::config::TopologySpec;
use rnic_spec::MeshRecord;
use rnic_spec::RunRecord;
use rnic_spec::{PortRecord, QueueSamples, RunOutput, RunStatus, Totals, Truncation};
use rnic_spec::{RunSpec, Scenario};
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
    /// swept values as `run`; without a sweep, it is the first run of the scenario.
    pub fn reference(&self, run: &RunSummary) -> Option<&RunSummary> {
        self.runs.iter().find(|other| other.point == run.point)
    }
}

/// The summary of one run. Statistics cover only measured flows, which are the finished flows that count in the
/// statistics. A statistic is `None` (in JSON `null`) if no flow was measured. It is also `None` in every failed run,
/// because the flows that finished there are not representative.
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
    /// Simulated time at which the run ended.
    pub sim_time: Time,
    /// The settings in effect, both given and derived ones, as (key, value with unit).
    pub parameters: Vec<(String, String)>,
    /// Warnings for readers of the results, one sentence each.
    pub warnings: Vec<String>,
    /// Statistics of the switch queues that the run sampled (`watch.queues`).
    pub queues: Vec<QueueSummary>,
    /// The transmitters that PFC paused, and the causes; `None` if the run did not record pauses.
    pub pauses: Option<PauseSummary>,
    /// The pause storms that the watchdogs of the run found, and their actions; empty without watchdogs.
    pub watchdog: Vec<WatchdogSummary>,
    /// The measurements of the meshes of probes; empty without meshes.
    pub meshes: Vec<MeshRecord>,
    /// Time and memory that the simulation used.
    pub timing: Timing,
}

impl RunSummary {
    /// Packets that links lost, as a fraction of all packets that hosts sent, control packets included. `None` for a
    /// failed run, and for a run without packets. A packet that crosses several lossy links may be lost on each of
    /// them.
    pub(crate) fn loss_rate(&self) -> Option<f64> {
        let sent = self.totals.data + self.totals.control;
        (self.failure.is_none() && sent > 0).then(|| self.totals.lost as f64 / sent as f64)
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

/// Utilisation of a set of transmitters. The utilisation of one transmitter is the fraction of the run for which it was
/// sending.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Utilisation {
    /// Mean of the utilisation over the transmitters.
    pub mean: f64,
    /// Maximum of the utilisation over the transmitters.
    pub max: f64,
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
        title: scenario.title.clone(),
        name: scenario.name.clone(),
        seed: scenario.seed,
        version: env!("CARGO_PKG_VERSION"),
        runs: scenario.runs.iter().zip(reports).map(|(spec, report)| summarise_run(spec, report)).collect(),
        not_started: Vec::new(),
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
        drop_rate: (ok && totals.data > 0).then(|| totals.dropped_data as f64 / totals.data as f64),
        host_utilisation: utilisation(output, ok, |port| {
            is_host(&spec.fabric.topology, &port.node) || is_host(&spec.fabric.topology, &port.peer)
        }),
        link_utilisation: utilisation(output, ok, |_| true),
        timeouts: counts.timeouts,
        requests: Distribution::of(requests),
        goodput: flows.goodput,
        about_goodput: output.truncated.is_some() || spec.traffic.iter().any(|source| source.pattern.is_closed()),
        interrupted: output.status == RunStatus::Interrupted,
        truncated: output.truncated,
        sim_time: output.end,
        parameters: output.parameters.clone(),
        warnings: warnings(output, flows.whole.flows, ok),
        queues: queues(output),
        pauses: pauses::summarise(output),
        watchdog: watchdog::summarise(output),
        meshes: output.meshes.clone(),
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

/// The warnings that the run reported, plus a warning if too few flows were measured for percentiles.
fn warnings(output: &RunOutput, measured: u64, ok: bool) -> Vec<String> {
    let mut warnings = output.warnings.clone();
    if ok && measured == 0 {
        warnings.push("no flow was measured, so the run has no statistics".to_string());
    } else if ok && measured < 100 {
        let flows = if measured == 1 { "1 flow was".to_string() } else { format!("{measured} flows were") };
        warnings.push(format!("only {flows} measured: the 99th percentile is the maximum"));
    }
    warnings
}

/// Whether `node` is the name of a host of the topology.
fn is_host(topology: &TopologySpec, node: &str) -> bool {
    match topology {
        TopologySpec::Graph { hosts, .. } => hosts.iter().any(|h| h == node),
        _ => node.strip_prefix('h').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())),
    }
}

/// The fraction of the run for which the transmitter of `port` was sending; `None` if the run lasted no time.
pub(crate) fn port_utilisation(port: &PortRecord, duration: Time) -> Option<f64> {
    (duration > Time::ZERO).then(|| port.busy.as_ps() as f64 / duration.as_ps() as f64)
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
    fn hosts_by_name() {
        let built = TopologySpec::FatTree { k: 4 };
        assert!(is_host(&built, "h0") && is_host(&built, "h15"));
        assert!(!is_host(&built, "h") && !is_host(&built, "hub1") && !is_host(&built, "edge0"));
        let graph = TopologySpec::Graph { hosts: vec!["hub1".into()], switches: vec!["h0".into()] };
        assert!(is_host(&graph, "hub1") && !is_host(&graph, "h0"));
    }

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
    fn few_measured_flows_give_a_warning() {
        let (scenario, reports) = fixture::two_runs();
        let warnings = &summarise(&scenario, &reports).runs[0].warnings;
        assert_eq!(
            *warnings,
            ["the clock is fictional", "only 4 flows were measured: the 99th percentile is the maximum"]
        );
    }
}
