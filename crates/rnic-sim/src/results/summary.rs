//! From raw records to the numbers that people compare: what `summary.json`, the table and the report show.

use super::model::{Cut, FlowRecord, PortRecord, QueueSamples, RunOutput, RunStatus, Totals};
use super::pauses::{self, PauseSummary};
use super::stats::{self, Distribution, Goodput};
use crate::run::RunReport;
use crate::scenario::{RunSpec, Scenario};
use rnic_fabric::config::TopologySpec;
use rnic_transport::{Bytes, Time};

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
    pub cut: Option<Cut>,
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
pub fn summarise(scenario: &Scenario, reports: &[RunReport]) -> ScenarioSummary {
    ScenarioSummary {
        title: scenario.title.clone(),
        name: scenario.name.clone(),
        seed: scenario.seed,
        version: env!("CARGO_PKG_VERSION"),
        runs: scenario.runs.iter().zip(reports).map(|(spec, report)| summarise_run(spec, report)).collect(),
    }
}

fn summarise_run(spec: &RunSpec, report: &RunReport) -> RunSummary {
    let output = &report.output;
    let failure = failure(output);
    let ok = failure.is_none();
    let measured: Vec<FlowRecord> = output.flows.iter().filter(|f| f.measured && f.finish.is_some()).collect();
    let whole = group(&measured, |_| true, ok);
    let requests = if ok { stats::request_completion_us(&output.flows) } else { Vec::new() };
    let totals = output.totals;
    RunSummary {
        name: spec.name.clone(),
        base: spec.base.clone(),
        point: spec.point.clone(),
        seed: spec.seed,
        transport: spec.transport.transport.clone(),
        cc: spec.transport.cc.name.to_string(),
        pfc: spec.transport.pfc,
        flows: FlowCounts {
            offered: output.offered,
            completed: output.flows.iter().filter(|f| f.finish.is_some()).count() as u64,
            measured: whole.flows,
        },
        slowdown: whole.slowdown,
        fct_us: whole.fct_us,
        sizes: by_size(&measured, spec.fabric.mtu, ok),
        traffic: by_traffic(spec, output, &measured, ok),
        totals,
        drop_rate: (ok && totals.data > 0).then(|| totals.dropped_data as f64 / totals.data as f64),
        host_utilisation: utilisation(output, ok, |port| {
            is_host(&spec.fabric.topology, &port.node) || is_host(&spec.fabric.topology, &port.peer)
        }),
        link_utilisation: utilisation(output, ok, |_| true),
        timeouts: output.flows.iter().map(|f| u64::from(f.timeouts)).sum(),
        requests: Distribution::of(requests),
        goodput: goodput(output, |_| true, ok),
        about_goodput: output.cut.is_some() || spec.traffic.iter().any(|source| source.pattern.is_closed()),
        cut: output.cut,
        sim_time: output.end,
        parameters: output.parameters.clone(),
        warnings: warnings(output, whole.flows, ok),
        queues: queues(output),
        pauses: pauses::summarise(output),
        failure,
        timing: Timing { wall_s: report.wall_s, cpu_s: report.cpu_s, peak_rss_bytes: report.peak_rss_bytes },
    }
}

/// Why the run's statistics cannot be trusted. A run that calls itself completed with unfinished flows is a failure too.
fn failure(output: &RunOutput) -> Option<String> {
    let unfinished = match output.cut {
        // Messages that were given up are told of in a warning.
        None => {
            (output.flows.iter().filter(|f| f.finish.is_none()).count() as u64).saturating_sub(output.totals.given_up)
        }
        Some(_) => 0, // a cut run is as it should be
    };
    match &output.status {
        RunStatus::Failed(reason) => Some(reason.clone()),
        RunStatus::Completed if unfinished > 0 => {
            Some(format!("{unfinished} of {} flows never finished", output.flows.len()))
        }
        RunStatus::Completed => None,
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

/// The flows among `measured` that `member` picks; with statistics only where the run is `ok`.
fn group(measured: &[FlowRecord], member: impl Fn(&FlowRecord) -> bool, ok: bool) -> Group {
    let of = |value: fn(&FlowRecord) -> Option<f64>| {
        measured.iter().filter(|f| member(f)).filter_map(value).collect::<Vec<f64>>()
    };
    let fct_us = of(stats::fct_us);
    let flows = fct_us.len() as u64;
    if !ok {
        return Group { flows, slowdown: None, fct_us: None };
    }
    Group { flows, slowdown: Distribution::of(of(stats::slowdown)), fct_us: Distribution::of(fct_us) }
}

/// Single packets (up to `mtu`), then decades up to 10 MB, then the rest; empty classes left out.
fn by_size(measured: &[FlowRecord], mtu: Bytes, ok: bool) -> Vec<SizeClass> {
    let mut limits = vec![("<= 1 packet".to_string(), Some(mtu.0))];
    limits.extend([10_000, 100_000, 1_000_000, 10_000_000].map(|n| (format!("<= {}", Bytes(n)), Some(n))));
    limits.push(("> 10 MB".to_string(), None));
    let mut min_bytes = 0;
    let mut classes = Vec::new();
    for (name, max_bytes) in limits {
        let range = min_bytes..=max_bytes.unwrap_or(u64::MAX);
        let group = group(measured, |f| range.contains(&f.bytes), ok);
        if group.flows > 0 {
            classes.push(SizeClass { name, min_bytes, max_bytes, group });
        }
        min_bytes = min_bytes.max(range.end().saturating_add(1));
    }
    classes
}

/// The goodput of the measured flows that `member` picks.
fn goodput(output: &RunOutput, member: impl Fn(&FlowRecord) -> bool, ok: bool) -> Option<Goodput> {
    let flows = output.flows.iter().filter(|f| ok && f.measured && member(f));
    Goodput::of(flows.filter_map(|f| stats::goodput_bps(&f, output.end)).collect())
}

fn by_traffic(spec: &RunSpec, output: &RunOutput, measured: &[FlowRecord], ok: bool) -> Vec<TrafficClass> {
    if spec.traffic.len() < 2 {
        return Vec::new();
    }
    let class = |(index, source): (usize, &crate::scenario::Traffic)| {
        let member = |f: &FlowRecord| usize::from(f.traffic) == index;
        TrafficClass {
            name: source.name.clone(),
            group: group(measured, member, ok),
            unfinished: output.flows.iter().filter(|f| member(f) && f.finish.is_none()).count() as u64,
            goodput: goodput(output, member, ok),
        }
    };
    spec.traffic.iter().enumerate().map(class).collect()
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
    fn single_packets_end_where_a_large_mtu_ends() {
        let flows = [fixture::flow(0, 9_000), fixture::flow(1, 12_000), fixture::flow(2, 12_001)];
        let classes = by_size(&flows, Bytes(12_000), true);
        let shape: Vec<_> =
            classes.iter().map(|c| (c.name.as_str(), c.min_bytes, c.max_bytes, c.group.flows)).collect();
        assert_eq!(shape, [("<= 1 packet", 0, Some(12_000), 2), ("<= 100 KB", 12_001, Some(100_000), 1)]);
    }

    #[test]
    fn the_largest_class_is_open() {
        let flows = [fixture::flow(0, u64::MAX), fixture::flow(1, 10_000_001), fixture::flow(2, 10_000_000)];
        let classes = by_size(&flows, Bytes(1_000), true);
        assert_eq!(classes.len(), 2);
        assert_eq!((classes[0].min_bytes, classes[0].group.flows), (1_000_001, 1));
        assert_eq!((classes[1].name.as_str(), classes[1].max_bytes, classes[1].group.flows), ("> 10 MB", None, 2));
    }

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
    fn few_flows_are_doubted() {
        let (scenario, reports) = fixture::two_runs();
        let warnings = &summarise(&scenario, &reports).runs[0].warnings;
        assert_eq!(
            *warnings,
            ["the clock is fictional", "only 4 flows were measured: the 99th percentile is the slowest flow"]
        );
    }
}
