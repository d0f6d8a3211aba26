//! PFC pauses and their causes: their summary, and the files `pauses.csv` and `victims.csv`. A pause tree is the tree
//! of paused ports that wait for each other; its root is the cause, for example a congested output.

use super::text::{duration, exact_us, round6, three_digits};
use rnic_spec::RunRecord;
use rnic_spec::Scenario;
use rnic_spec::{PauseRecords, PauseRoot, PortRecord, RootKind, RunOutput};
use rnic_transport::Time;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Columns of `pauses.csv`, one row per run and pause. `to_us` is empty if the pause lasted until the end of the run.
/// `root` and `root_kind` are empty if no sample was taken during the pause, because the causes are determined only at
/// samples.
const PAUSE_COLUMNS: [&str; 9] = ["run", "node", "port", "peer", "priority", "from_us", "to_us", "root_kind", "root"];
/// Columns of `victims.csv`, one row per run and victim flow ([`VictimSummary`]).
const VICTIM_COLUMNS: [&str; 9] =
    ["run", "flow", "src", "dst", "victim_us", "root_kind", "root", "finished", "goodput_bps"];
/// Maximum number of victims (flows delayed by a cause of pauses that is not on their path) that the summary lists.
const VICTIMS: usize = 10;
/// Maximum number of ports that the summary lists for the sample with the most paused transmitters.
const TREE: usize = 100;
/// Maximum number of causes of pauses that are described in a sentence each.
const NAMED: usize = 3;

/// The PFC pauses of a run, with names of ports and hosts instead of indices. Samples at a fixed interval determine the
/// causes of the pauses.
#[derive(Clone, PartialEq, Debug)]
pub struct PauseSummary {
    /// Simulated time between two samples.
    pub interval: Time,
    /// Number of samples that were taken.
    pub samples: u64,
    /// Maximum number of transmitters paused at one sample, each priority counted separately.
    pub max_paused: u32,
    /// Causes of pauses, the cause with the longest pauses first.
    pub roots: Vec<RootSummary>,
    /// A cyclic buffer dependency; `None` if none was found at a sample or at the end of the run.
    pub cycle: Option<CycleSummary>,
    /// Number of victims: flows that a root (a cause of pauses) delayed although the root's port is not on their path.
    pub victims: u64,
    /// The victim flows with the longest delays, longest first; at most 10.
    pub longest: Vec<VictimSummary>,
    /// The paused ports and their causes at the first sample with the maximum number of paused transmitters.
    pub worst: Option<TreeSummary>,
}

/// A cause of pauses: the root of a tree of paused ports that wait for each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootSummary {
    /// Kind of cause: congestion, a NIC that pauses its switch, or a cycle.
    pub kind: RootKind,
    /// Description of the cause for readers, for example `congestion at edge0:3->agg1`.
    pub name: String,
    /// Name of the congested output, of the NIC's port, or of the first port of the cycle.
    pub port: String,
    /// PFC priority in which the pauses occurred.
    pub priority: u8,
    /// Simulated time of the first sample at which this root kept a port paused.
    pub first: Time,
    /// Time for which this root kept ports paused: the number of samples at which ports were paused because of this
    /// root, times the interval.
    pub held: Time,
    /// Maximum number of ports that this root kept paused at the same sample.
    pub max_ports: u32,
}

/// A cyclic buffer dependency: ports that wait for each other in a cycle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CycleSummary {
    /// Simulated time of the first sample with the cycle.
    pub first: Time,
    /// Names of the ports in the order of the cycle.
    pub ports: Vec<String>,
    /// Whether the cycle existed at the end of the run.
    pub at_end: bool,
    /// Whether the run's `duration` ended the run, so that the cycle could still have dissolved later.
    pub truncated: bool,
}

/// A victim: a flow that a root (a cause of pauses) delayed although the root's port is not on the flow's path.
#[derive(Clone, PartialEq, Debug)]
pub struct VictimSummary {
    /// Id of the flow.
    pub flow: u32,
    /// Name of the sending host.
    pub src: String,
    /// Name of the receiving host.
    pub dst: String,
    /// Time for which the flow was delayed: the number of samples at which it was a victim, times the interval.
    pub time: Time,
    /// Description of the root that delayed the flow.
    pub root: String,
    /// Whether the flow finished.
    pub finished: bool,
    /// Goodput until the flow finished or the run ended, in bit/s.
    pub goodput: f64,
}

/// All pause trees (trees of paused ports that wait for each other) at one sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeSummary {
    /// Simulated time at which the sample was taken.
    pub at: Time,
    /// Number of paused transmitters at this sample.
    pub paused: u32,
    /// The paused ports, and the ports between them and the roots (causes) of their pauses; at most 100 ports.
    pub ports: Vec<TreePortSummary>,
}

/// A port of a pause tree (a tree of paused ports that wait for each other), at the time of the sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreePortSummary {
    /// Name of the port, for example `edge0:3->agg1`.
    pub port: String,
    /// PFC priority to which the other fields refer.
    pub priority: u8,
    /// Whether the transmitter was paused at this sample. It is `false` if a pause had ended and the transmitter was
    /// still sending the packets that had been queued during the pause.
    pub paused: bool,
    /// Simulated time at which the pause began.
    pub since: Time,
    /// Number of bytes from this port that were queued in its peer's buffer.
    pub held: u64,
    /// Name of the port for which this port waited; `None` if the XON frame that ends the pause was already on its way.
    pub waits_for: Option<String>,
    /// Distance of this port from the root of its tree (the cause of the pauses), in hops.
    pub depth: u32,
    /// Description of the root of this port's tree (the cause of the pauses); `None` if no root is known.
    pub root: Option<String>,
}

/// Name of a port: its node, its index in the node, and the node at the other end of its link, as in `edge0:3->agg1`.
pub(super) fn port_name(ports: &[PortRecord], port: u32) -> String {
    ports.get(port as usize).map_or(String::new(), |port| format!("{}:{}->{}", port.node, port.port, port.peer))
}

/// Name of a host. Hosts are the first nodes and have one port each, so the index of the port equals the host's id.
pub(super) fn host_name(ports: &[PortRecord], host: u32) -> String {
    ports.get(host as usize).map_or(String::new(), |port| port.node.clone())
}

/// Description of a root (a cause of pauses) for readers, as in `congestion at edge0:3->agg1`.
pub(super) fn root_name(ports: &[PortRecord], root: &PauseRoot) -> String {
    let priority = match ports.first().map_or(1, |port| port.priorities.len()) {
        1 => String::new(),
        _ => format!(" in priority {}", root.priority),
    };
    match root.kind {
        RootKind::Congestion => format!("congestion at {}{priority}", port_name(ports, root.port)),
        RootKind::Nic => {
            let node = ports.get(root.port as usize).map_or("", |port| &port.node);
            format!("the NIC of {node}{priority}")
        }
        RootKind::Cycle => format!("a cycle through {}{priority}", port_name(ports, root.port)),
    }
}

/// The summary of a run's pauses; `None` if the run did not record pauses (`watch.pauses`).
pub(super) fn summarise(output: &RunOutput) -> Option<PauseSummary> {
    let (records, ports) = (output.pauses.as_ref()?, &output.ports);
    let name = |port: &u32| port_name(ports, *port);
    let root_text = |root: u32| records.roots.get(root as usize).map(|root| root_name(ports, root));
    let mut roots: Vec<RootSummary> = records
        .roots
        .iter()
        .map(|root| RootSummary {
            kind: root.kind,
            name: root_name(ports, root),
            port: name(&root.port),
            priority: root.priority,
            first: root.first,
            held: records.interval * root.samples,
            max_ports: root.max_ports,
        })
        .collect();
    roots.sort_by_key(|root| std::cmp::Reverse(root.held));
    let victim = |victim: &rnic_spec::Victim| VictimSummary {
        flow: victim.flow,
        src: host_name(ports, victim.src),
        dst: host_name(ports, victim.dst),
        time: records.interval * victim.samples,
        root: root_text(victim.root).unwrap_or_default(),
        finished: victim.finished,
        goodput: victim.goodput,
    };
    let tree_port = |port: &rnic_spec::TreePort| TreePortSummary {
        port: name(&port.port),
        priority: port.priority,
        paused: port.paused,
        since: port.since,
        held: port.held,
        waits_for: port.waits_for.as_ref().map(name),
        depth: port.depth,
        root: port.root.and_then(root_text),
    };
    Some(PauseSummary {
        interval: records.interval,
        samples: records.samples,
        max_paused: records.max_paused,
        roots,
        cycle: records.cycle.as_ref().map(|cycle| CycleSummary {
            first: cycle.first,
            ports: cycle.ports.iter().map(name).collect(),
            at_end: cycle.at_end,
            truncated: cycle.truncated,
        }),
        victims: records.victim_count,
        longest: records.victims.iter().take(VICTIMS).map(victim).collect(),
        worst: records.worst.as_ref().map(|worst| TreeSummary {
            at: worst.at,
            paused: worst.paused,
            ports: worst.ports.iter().take(TREE).map(tree_port).collect(),
        }),
    })
}

impl PauseSummary {
    /// The cycle, the main causes and the worst victim, each described in a sentence without a full stop.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let Some(cycle) = &self.cycle {
            let (at, ports) = (duration(cycle.first.as_us()), cycle.ports.join(", "));
            sentences.push(match (cycle.at_end, cycle.truncated) {
                (true, false) => format!("deadlock from {at} on: {ports} wait for each other"),
                (true, true) => {
                    format!("a cycle of pauses from {at} until the end of the run: {ports} wait for each other")
                }
                (false, _) => format!("a cycle of pauses at {at}, which dissolved: {ports} waited for each other"),
            });
        }
        for root in self.roots.iter().take(NAMED) {
            sentences.push(format!(
                "{} kept other ports paused for {}, up to {} ports at a time, first at {}",
                root.name,
                duration(root.held.as_us()),
                root.max_ports,
                duration(root.first.as_us())
            ));
        }
        match self.roots.len().saturating_sub(NAMED) {
            0 => {}
            1 => sentences.push("1 more cause of pauses".to_string()),
            more => sentences.push(format!("{more} more causes of pauses")),
        }
        if let Some(worst) = self.longest.first() {
            let flows = if self.victims == 1 { "1 victim".to_string() } else { format!("{} victims", self.victims) };
            let end = if worst.finished { "" } else { ", and it did not finish" };
            sentences.push(format!(
                "{flows}; flow {} from {} to {} was delayed for {} by {}; its goodput was {} Gbps{end}",
                worst.flow,
                worst.src,
                worst.dst,
                duration(worst.time.as_us()),
                worst.root,
                three_digits(worst.goodput / 1e9)
            ));
        }
        sentences
    }

    /// The pauses as the JSON value of the field `pauses` in `summary.json`.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "interval_us": self.interval.as_us(),
            "samples": self.samples,
            "max_paused": self.max_paused,
            "roots": self.roots.iter().map(|root| json!({
                "kind": root.kind.name(),
                "port": root.port,
                "priority": root.priority,
                "first_us": root.first.as_us(),
                "held_us": root.held.as_us(),
                "max_ports": root.max_ports,
            })).collect::<Vec<_>>(),
            "cycle": self.cycle.as_ref().map(|cycle| json!({
                "first_us": cycle.first.as_us(),
                "ports": cycle.ports,
                "at_end": cycle.at_end,
            })),
            "victims": self.victims,
            "longest_victims": self.longest.iter().map(|victim| json!({
                "flow": victim.flow,
                "src": victim.src,
                "dst": victim.dst,
                "victim_us": victim.time.as_us(),
                "root": victim.root,
                "finished": victim.finished,
                "goodput_bps": round6(victim.goodput),
            })).collect::<Vec<_>>(),
            "worst": self.worst.as_ref().map(|worst| json!({
                "at_us": worst.at.as_us(),
                "paused": worst.paused,
                "ports": worst.ports.iter().map(|port| json!({
                    "port": port.port,
                    "priority": port.priority,
                    "paused": port.paused,
                    "since_us": port.since.as_us(),
                    "held_bytes": port.held,
                    "waits_for": port.waits_for,
                    "depth": port.depth,
                    "root": port.root,
                })).collect::<Vec<_>>(),
            })),
        })
    }
}

/// Whether any of the runs recorded pauses.
pub(super) fn any(reports: &[RunRecord]) -> bool {
    reports.iter().any(|report| report.output.pauses.is_some())
}

fn root_cells(records: &PauseRecords, ports: &[PortRecord], root: Option<u32>) -> [String; 2] {
    let root = root.and_then(|root| records.roots.get(root as usize));
    root.map_or([String::new(), String::new()], |root| [root.kind.name().to_string(), port_name(ports, root.port)])
}

pub(super) fn write_pauses(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(PAUSE_COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        let (Some(records), ports) = (&report.output.pauses, &report.output.ports) else { continue };
        for pause in &records.log {
            let Some(port) = ports.get(pause.port as usize) else { continue };
            let [kind, root] = root_cells(records, ports, pause.root);
            csv.write_record([
                run.name.as_str(),
                &port.node,
                &port.port.to_string(),
                &port.peer,
                &pause.priority.to_string(),
                &exact_us(pause.from),
                &pause.to.map_or(String::new(), exact_us),
                &kind,
                &root,
            ])?;
        }
    }
    csv.flush()
}

pub(super) fn write_victims(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(VICTIM_COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        let Some(records) = &report.output.pauses else { continue };
        for victim in &records.victims {
            let [kind, root] = root_cells(records, &report.output.ports, Some(victim.root));
            csv.write_record([
                run.name.as_str(),
                &victim.flow.to_string(),
                &victim.src.to_string(),
                &victim.dst.to_string(),
                &exact_us(records.interval * victim.samples),
                &kind,
                &root,
                &victim.finished.to_string(),
                &round6(victim.goodput).to_string(),
            ])?;
        }
    }
    csv.flush()
}
