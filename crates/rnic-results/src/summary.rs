//! From raw records to the numbers that people compare: what `summary.json`, the table and the report show.

use super::groups::Groups;
use super::pauses::{self, PauseSummary};
use super::stats::{self, Distribution, Goodput};
use rnic_fabric::config::TopologySpec;
use rnic_run::RunRecord;
use rnic_run::{PortRecord, QueueSamples, RunOutput, RunStatus, Totals, Truncation};
use rnic_run::{RunSpec, Scenario};
use rnic_transport::Time;

/// Every run of one scenario, summarised, in the scenario's order.
#[derive(Clone, PartialEq, Debug)]
pub struct ScenarioSummary {
    /// What the scenario calls itself.
    pub title: String,
    /// The scenario's short name.
    pub name: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// Version of this crate.
    pub version: &'static str,
    /// The runs.
    pub runs: Vec<RunSummary>,
}

impl ScenarioSummary {
    /// The swept keys; empty without a sweep.
    pub fn swept(&self) -> Vec<&str> {
        self.runs.first().map_or(Vec::new(), |run| run.point.iter().map(|(key, _)| key.as_str()).collect())
    }

    /// The run that others are compared with: the first at the same point of the sweep.
    pub fn reference(&self, run: &RunSummary) -> Option<&RunSummary> {
        self.runs.iter().find(|other| other.point == run.point)
    }
}

/// One run, summarised. Every statistic is over measured flows only and is `None` (in JSON `null`) where nothing was
/// measured and in every failed run: the flows that did finish in one would pass the slow ones over in silence.
#[derive(Clone, PartialEq, Debug)]
pub struct RunSummary {
    /// Its name.
    pub name: String,
    /// Its name in the scenario's file; the same but in a sweep.
    pub base: String,
    /// In a sweep: the swept keys and their values, as written.
    pub point: Vec<(String, String)>,
    /// Seed of its random streams.
    pub seed: u64,
    /// Name of its transport.
    pub transport: String,
    /// Name of its congestion control.
    pub cc: String,
    /// Whether the switches sent PFC pauses.
    pub pfc: bool,
    /// Why it failed; `None` for a completed run.
    pub failure: Option<String>,
    /// Where the run's `duration` cut it off, if it did.
    pub truncated: Option<Truncation>,
    /// How many flows.
    pub flows: FlowCounts,
    /// Flow completion time divided by that of the flow alone on an empty fabric.
    pub slowdown: Option<Distribution>,
    /// Flow completion times in microseconds.
    pub fct_us: Option<Distribution>,
    /// By flow size, ascending; only sizes that occur.
    pub sizes: Vec<SizeClass>,
    /// By source of traffic, in the scenario's order; empty where there is only one.
    pub traffic: Vec<TrafficClass>,
    /// Fabric-wide counts.
    pub totals: Totals,
    /// Dropped data packets as a fraction of all data packets sent; `None` in a failed run or without data.
    pub drop_rate: Option<f64>,
    /// Busy time as a fraction of the run's, over both directions of the hosts' cables.
    pub host_utilisation: Option<Utilisation>,
    /// The same over every link.
    pub link_utilisation: Option<Utilisation>,
    /// Timeouts that fired, over all flows.
    pub timeouts: u64,
    /// Request completion times in microseconds; `None` where there are no requests.
    pub requests: Option<Distribution>,
    /// Goodput of the measured flows that started, finished or not, in bit/s.
    pub goodput: Option<Goodput>,
    /// Whether the goodput is what the run is about: it was cut, or its traffic is a closed loop.
    pub about_goodput: bool,
    /// Simulated time at which the run ended.
    pub sim_time: Time,
    /// Resolved settings: key, value with unit.
    pub parameters: Vec<(String, String)>,
    /// What a reader should know, one sentence each.
    pub warnings: Vec<String>,
    /// The watched queues.
    pub queues: Vec<QueueSummary>,
    /// Who was paused and why; `None` if that was not watched.
    pub pauses: Option<PauseSummary>,
    /// What the simulation cost.
    pub timing: Timing,
}

/// The samples of one queue.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueSummary {
    /// The switch and the node that it sends to.
    pub name: String,
    /// Bytes over the samples: as these are regular, the mean is one over time.
    pub bytes: Distribution,
}

/// Numbers of flows in one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowCounts {
    /// Flows that started.
    pub offered: u64,
    /// Flows that finished. The others are in no slowdown and no completion time.
    pub completed: u64,
    /// Finished flows that count in the statistics.
    pub measured: u64,
}

/// The measured flows of one range of sizes.
#[derive(Clone, PartialEq, Debug)]
pub struct SizeClass {
    /// For example `<= 10 KB`.
    pub name: String,
    /// Smallest size in it, in bytes.
    pub min_bytes: u64,
    /// Largest size in it, in bytes; `None`: no limit.
    pub max_bytes: Option<u64>,
    /// Its flows.
    pub group: Group,
}

/// The measured flows of one source of traffic.
#[derive(Clone, PartialEq, Debug)]
pub struct TrafficClass {
    /// The source's name.
    pub name: String,
    /// Its flows.
    pub group: Group,
    /// Its flows that started and did not finish, measured or not.
    pub unfinished: u64,
    /// Goodput of its measured flows that started, in bit/s.
    pub goodput: Option<Goodput>,
}

/// Some of the measured flows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Group {
    /// How many finished.
    pub flows: u64,
    /// Their slowdown.
    pub slowdown: Option<Distribution>,
    /// Their completion times in microseconds.
    pub fct_us: Option<Distribution>,
}

/// How busy a set of links was, as fractions of the run's duration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Utilisation {
    /// Mean over the links.
    pub mean: f64,
    /// The busiest link.
    pub max: f64,
}

/// What a run cost to simulate: differs from machine to machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timing {
    /// Wall-clock time in seconds.
    pub wall_s: f64,
    /// CPU time over all threads in seconds.
    pub cpu_s: f64,
    /// Highest resident memory in bytes.
    pub peak_rss_bytes: u64,
}

/// Summarises the runs of `scenario`, whose reports are in the same order.
pub fn summarise(scenario: &Scenario, reports: &[RunRecord]) -> ScenarioSummary {
    ScenarioSummary {
        title: scenario.title.clone(),
        name: scenario.name.clone(),
        seed: scenario.seed,
        version: env!("CARGO_PKG_VERSION"),
        runs: scenario.runs.iter().zip(reports).map(|(spec, report)| summarise_run(spec, report)).collect(),
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
        return summarise_run(spec, report); // the records cannot be read any more: a failed run
    }
    let totals = output.totals;
    RunSummary {
        name: spec.name.clone(),
        base: spec.base.clone(),
        point: spec.point.clone(),
        seed: spec.seed,
        transport: spec.transport.transport.clone(),
        cc: spec.transport.cc.name.to_string(),
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
        truncated: output.truncated,
        sim_time: output.end,
        parameters: output.parameters.clone(),
        warnings: warnings(output, flows.whole.flows, ok),
        queues: queues(output),
        pauses: pauses::summarise(output),
        failure,
        timing: Timing { wall_s: report.wall_s, cpu_s: report.cpu_s, peak_rss_bytes: report.peak_rss_bytes },
    }
}

/// Why the run's statistics cannot be trusted. A run that calls itself completed with unfinished flows is a failure too.
fn failure(output: &RunOutput, unfinished: u64) -> Option<String> {
    let unfinished = match output.truncated {
        // Messages that were given up are told of in a warning.
        None => unfinished.saturating_sub(output.totals.aborted),
        Some(_) => 0, // a cut run is as it should be
    };
    match (&output.status, output.flows.error()) {
        (RunStatus::Failed(reason), _) => Some(reason.clone()),
        (RunStatus::Completed, Some(error)) => Some(error.to_string()),
        (RunStatus::Completed, _) if unfinished > 0 => {
            Some(format!("{unfinished} of {} flows never finished", output.flows.len()))
        }
        (RunStatus::Completed, _) => None,
    }
}

/// The watched queues that have samples, in a failed run too.
fn queues(output: &RunOutput) -> Vec<QueueSummary> {
    let queues = output.samples.iter().flat_map(|samples| &samples.queues);
    let summary = |queue: &QueueSamples| {
        let bytes = Distribution::of(queue.bytes.iter().map(|bytes| f64::from(*bytes)).collect())?;
        Some(QueueSummary { name: queue.name.clone(), bytes })
    };
    queues.filter_map(summary).collect()
}

/// The run's own warnings, and a doubt about percentiles that rest on too few flows.
fn warnings(output: &RunOutput, measured: u64, ok: bool) -> Vec<String> {
    let mut warnings = output.warnings.clone();
    if ok && measured == 0 {
        warnings.push("no flow was measured, so there are no statistics".to_string());
    } else if ok && measured < 100 {
        let flows = if measured == 1 { "1 flow was".to_string() } else { format!("{measured} flows were") };
        warnings.push(format!("only {flows} measured: the 99th percentile is the slowest flow"));
    }
    warnings
}

/// Whether `node` is a host, by the names that [`TopologySpec`] gives.
fn is_host(topology: &TopologySpec, node: &str) -> bool {
    match topology {
        TopologySpec::Graph { hosts, .. } => hosts.iter().any(|h| h == node),
        _ => node.strip_prefix('h').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())),
    }
}

/// The fraction of the run for which `port`'s transmitter was busy; `None` for a run of no duration.
pub fn port_utilisation(port: &PortRecord, duration: Time) -> Option<f64> {
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
    fn few_flows_are_doubted() {
        let (scenario, reports) = fixture::two_runs();
        let warnings = &summarise(&scenario, &reports).runs[0].warnings;
        assert_eq!(
            *warnings,
            ["the clock is fictional", "only 4 flows were measured: the 99th percentile is the slowest flow"]
        );
    }
}
