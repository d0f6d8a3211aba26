//! Who was paused and why: what the summary says of it, `pauses.csv` and `victims.csv`.

use super::text::{duration, exact_us, round6, three_digits};
use rnic_run::RunRecord;
use rnic_run::Scenario;
use rnic_run::{PauseRecords, PauseRoot, PortRecord, RootKind, RunOutput};
use rnic_transport::Time;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Columns of `pauses.csv`, one row per run and pause; `to_us` is empty for a pause that the end of the run cut off, `root` and
/// `root_kind` for one that no sample saw.
const PAUSE_COLUMNS: [&str; 9] = ["run", "node", "port", "peer", "priority", "from_us", "to_us", "root_kind", "root"];
/// Columns of `victims.csv`, one row per run and victim.
const VICTIM_COLUMNS: [&str; 9] =
    ["run", "flow", "src", "dst", "victim_us", "root_kind", "root", "finished", "goodput_bps"];
/// Victims in the summary.
const VICTIMS: usize = 10;
/// Ports of the tree in the summary.
const TREE: usize = 100;
/// Roots that sentences name.
const NAMED: usize = 3;

/// The pauses of a run, with names in place of numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct PauseSummary {
    /// From one sample to the next.
    pub interval: Time,
    /// Number of samples.
    pub samples: u64,
    /// Most transmitters paused at one sample, each priority counted.
    pub max_paused: u32,
    /// What they waited for in the end, longest first.
    pub roots: Vec<RootSummary>,
    /// A cycle of pauses.
    pub cycle: Option<CycleSummary>,
    /// Flows that were held up by a root that is not on their path.
    pub victims: u64,
    /// Those that suffered longest.
    pub longest: Vec<VictimSummary>,
    /// The sample with most paused transmitters.
    pub worst: Option<TreeSummary>,
}

/// Where pauses came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootSummary {
    /// What it is.
    pub kind: RootKind,
    /// In words.
    pub name: String,
    /// The congested output, the NIC's port, the lowest port on the cycle.
    pub port: String,
    /// The priority.
    pub priority: u8,
    /// The first sample at which it held a port.
    pub first: Time,
    /// For how long it held ports: samples times interval.
    pub held: Time,
    /// Most ports that it held at one sample.
    pub max_ports: u32,
}

/// Ports that waited for each other in a circle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CycleSummary {
    /// The first sample with it.
    pub first: Time,
    /// The ports along it.
    pub ports: Vec<String>,
    /// Whether the run ended with one.
    pub at_end: bool,
    /// Whether the run's `duration` cut it.
    pub truncated: bool,
}

/// A flow that was held up without having a part in it.
#[derive(Clone, PartialEq, Debug)]
pub struct VictimSummary {
    /// Its number.
    pub flow: u32,
    /// Name of the sending host.
    pub src: String,
    /// Name of the receiving host.
    pub dst: String,
    /// For how long: samples times interval.
    pub time: Time,
    /// What held it up, in words.
    pub root: String,
    /// Whether it finished.
    pub finished: bool,
    /// In bit/s, until it finished or the run ended.
    pub goodput: f64,
}

/// The pause tree at an instant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeSummary {
    /// The instant.
    pub at: Time,
    /// Transmitters that were paused.
    pub paused: u32,
    /// The first of them, and what lies between them and their roots.
    pub ports: Vec<TreePortSummary>,
}

/// A port of a pause tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreePortSummary {
    /// The port.
    pub port: String,
    /// The priority.
    pub priority: u8,
    /// Whether it was paused at that instant; else it sent what a pause had left behind.
    pub paused: bool,
    /// When it was paused.
    pub since: Time,
    /// Bytes that its peer held for it.
    pub held: u64,
    /// The port that it waited for.
    pub waits_for: Option<String>,
    /// Distance from the root.
    pub depth: u32,
    /// Its root, in words.
    pub root: Option<String>,
}

/// A port as people name it: `edge0:3->agg1`.
pub(super) fn port_name(ports: &[PortRecord], port: u32) -> String {
    ports.get(port as usize).map_or(String::new(), |port| format!("{}:{}->{}", port.node, port.port, port.peer))
}

/// A host's name: hosts come first, and have one port each.
pub(super) fn host_name(ports: &[PortRecord], host: u32) -> String {
    ports.get(host as usize).map_or(String::new(), |port| port.node.clone())
}

/// A root in words.
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

/// What a run's records say.
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
    let victim = |victim: &rnic_run::Victim| VictimSummary {
        flow: victim.flow,
        src: host_name(ports, victim.src),
        dst: host_name(ports, victim.dst),
        time: records.interval * victim.samples,
        root: root_text(victim.root).unwrap_or_default(),
        finished: victim.finished,
        goodput: victim.goodput,
    };
    let tree_port = |port: &rnic_run::TreePort| TreePortSummary {
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
    /// What happened, one sentence each without a full stop.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let Some(cycle) = &self.cycle {
            let (at, ports) = (duration(cycle.first.as_us()), cycle.ports.join(", "));
            sentences.push(match (cycle.at_end, cycle.truncated) {
                (true, false) => format!("deadlock from {at} on: {ports} wait for each other"),
                (true, true) => {
                    format!("a cycle of pauses at the end of the run, from {at} on: {ports} wait for each other")
                }
                (false, _) => format!("a cycle of pauses at {at} that dissolved: {ports} waited for each other"),
            });
        }
        for root in self.roots.iter().take(NAMED) {
            sentences.push(format!(
                "{} paused others for {}, up to {} at once, first seen at {}",
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
            let end = if worst.finished { "" } else { " without an end" };
            sentences.push(format!(
                "{flows}; flow {} from {} to {} was held up for {} by {}, and came to {} Gbps{end}",
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

    /// As `summary.json` has it.
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

/// Whether any run has recorded pauses.
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
