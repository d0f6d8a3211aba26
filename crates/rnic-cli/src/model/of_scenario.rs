//! `rnic model buffers SCENARIO.toml`: whether the ECN thresholds of a scenario's switches are low enough, so that
//! switches mark packets before PFC pauses their senders, and which values to use instead.

use super::{ModelFormat, aligned};
use rnic_fabric::Topology;
use rnic_fabric::config::{BufferSpec, EcnSpec, PauseThreshold, SharedPfc, SharedSpec};
use rnic_model::buffers::{kilobytes, reaction};
use rnic_model::port_rates::{Bounds, ConfiguredSwitch, PortGroup, Threshold};
use rnic_sim::resolve::Resolved;
use rnic_simulator::error::CliError;
use rnic_simulator::selection::Selection;
use rnic_simulator::{Catalogue, load_selected, output, select, set_up};
use rnic_spec::{QueueingSetup, RunSpec, Scenario};
use rnic_transport::{BitRate, Bytes, Time};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Switches of a fabric that have the same ports.
struct Kind {
    names: Vec<String>,
    switch: ConfiguredSwitch,
    bounds: Bounds,
}

/// The switches of a run, and the thresholds to check.
struct Fabric<'r> {
    run: &'r RunSpec,
    kinds: Vec<Kind>,
    /// Lower ECN threshold; `None` if the switches mark no packets.
    kmin: Option<Bytes>,
    headroom: Bytes,
    /// Length of a full data packet's frame, and the gap around each frame, in bytes.
    frame: u64,
    gap: u64,
}

/// Checks the switches of the run `name`, or of the first run with PFC, and prints the answer.
pub(super) fn check(
    selection: &Selection, name: Option<&str>, format: ModelFormat, catalogue: &Catalogue,
) -> Result<(), CliError> {
    let scenario = load_selected(catalogue, selection)?;
    let run = chosen(&scenario, name)?;
    refuse_other_buffers(run)?;
    let resolved = set_up(catalogue, run)?;
    let fabric = Fabric::new(run, &resolved)?;
    let wrong = fabric.findings();
    let text = match format {
        ModelFormat::Table => fabric.table(&wrong),
        ModelFormat::Json => format!("{:#}\n", fabric.document(&wrong)),
        ModelFormat::Csv => fabric.csv(),
    };
    output::print(|out| write!(out, "{text}"))?;
    if wrong.is_empty() { Ok(()) } else { Err(CliError::Failed(wrong)) }
}

/// The run to check, which must have PFC: without PFC, no pause can come before a mark.
fn chosen<'s>(scenario: &'s Scenario, name: Option<&str>) -> Result<&'s RunSpec, CliError> {
    let with_pfc = || scenario.runs.iter().filter(|run| run.transport.pfc);
    let run = match name {
        Some(name) => select(scenario, Some(name))?,
        None => with_pfc().next().map_or_else(|| select(scenario, None), Ok)?,
    };
    if run.transport.pfc {
        return Ok(run);
    }
    let names: Vec<String> = with_pfc().map(|run| format!("\"{}\"", run.name)).collect();
    let others = match names.len() {
        0 => "no run of the scenario has `pfc = true`".to_string(),
        _ => format!("runs with PFC: {}", names.join(", ")),
    };
    Err(CliError::Input(format!(
        "run \"{}\" has no PFC, so its switches send no pauses before they mark; {others}",
        run.name
    )))
}

/// Fails if the switches of the run have no shared buffer, because the model describes only shared buffers.
fn refuse_other_buffers(run: &RunSpec) -> Result<(), CliError> {
    let (key, what) = match run.fabric.switch.queueing {
        QueueingSetup::Shared(_) => return Ok(()),
        QueueingSetup::Input(_) => {
            ("input", "a buffer for each input, whose pause threshold is `xoff` of this input alone")
        }
        QueueingSetup::Output(_) => ("output", "a buffer for each output"),
    };
    Err(CliError::Input(format!(
        "the model describes switches with a shared buffer, but in run \"{}\" a switch has {what} (`queueing = \"{key}\"`); \
         set `queueing = \"shared\"` in [fabric.switch]",
        run.name
    )))
}

impl<'r> Fabric<'r> {
    fn new(run: &'r RunSpec, resolved: &Resolved) -> Result<Fabric<'r>, CliError> {
        let switch = &resolved.fabric.switch;
        let BufferSpec::Shared(SharedSpec { buffer, pfc: Some(pfc), .. }) = switch.buffer else {
            return Err(CliError::Input(format!("the switches of run \"{}\" have no PFC thresholds", run.name)));
        };
        let priorities = u32::from(switch.priorities);
        let SharedPfc { threshold, headroom, .. } = pfc;
        let configured = |groups: Vec<PortGroup>| ConfiguredSwitch {
            groups,
            buffer,
            priorities,
            lossless: pfc.protected(switch.priorities.into()) as u32,
            headroom,
            threshold: match threshold {
                PauseThreshold::Static(xoff) => Threshold::Static(xoff),
                PauseThreshold::Dynamic { beta } => Threshold::Dynamic(beta),
            },
        };
        let kinds = switches(&resolved.topology).into_iter().map(|(groups, names)| {
            let switch = configured(groups);
            Kind { names, bounds: switch.bounds(), switch }
        });
        Ok(Fabric {
            run,
            kinds: kinds.collect(),
            kmin: switch.ecn.map(|EcnSpec { marking, .. }| marking.kmin),
            headroom,
            frame: u64::from(resolved.flow.mtu) + u64::from(resolved.flow.header),
            gap: u64::from(resolved.fabric.frame_gap),
        })
    }

    /// The headroom that a port of the group needs in the simulation, and the headroom that it needs if its peer reacts
    /// to a pause as late as IEEE 802.3 allows.
    fn needed(&self, group: &PortGroup) -> [Bytes; 2] {
        [Time::ZERO, reaction(group.rate)].map(|reaction| group.headroom(self.frame, self.gap, reaction))
    }

    /// The kind of switches with the lowest bound of the ECN threshold.
    fn strictest(&self) -> Option<&Kind> {
        self.kinds.iter().min_by(|a, b| a.bounds.t_ecn.total_cmp(&b.bounds.t_ecn))
    }

    /// What is unsafe: one sentence each, with what to write instead.
    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for kind in &self.kinds {
            for group in &kind.switch.groups {
                let needed = self.needed(group)[0];
                if self.headroom < needed {
                    findings.push(format!(
                        "PFC can lose packets at {}: a headroom of {} is less than {needed}, which can still arrive at a \
                         port of {} after a pause; write `headroom = \"{needed}\"`",
                        shown(&kind.names),
                        self.headroom,
                        group.rate
                    ));
                }
            }
        }
        let (Some(kmin), Some(strictest)) = (self.kmin, self.strictest()) else { return findings };
        if kmin.0 as f64 >= strictest.bounds.t_ecn {
            findings.push(format!(
                "PFC can pause before ECN marks at {}: `kmin` of {kmin} is not below {}; {}",
                shown(&strictest.names),
                kilobytes(strictest.bounds.t_ecn),
                self.advice(strictest, kmin)
            ));
        }
        findings
    }

    /// What to write so that the switches mark before they pause.
    fn advice(&self, strictest: &Kind, kmin: Bytes) -> String {
        // The buffer of all kinds of switches is the same.
        let buffers: Option<Vec<Bytes>> = self.kinds.iter().map(|kind| kind.switch.buffer_for(kmin)).collect();
        let buffer = buffers.and_then(|buffers| buffers.into_iter().max());
        let xoff = Bytes(kmin.0.saturating_mul(u64::from(strictest.switch.ports())).saturating_add(1));
        let otherwise = match buffer {
            Some(buffer) => format!("`buffer = \"{buffer}\"` or more"),
            None => format!("`xoff = \"{xoff}\"` or more"),
        };
        match strictest.switch.largest_t_ecn(self.frame) {
            Some(largest) => format!("write `kmin = \"{largest}\"` or less, or {otherwise}"),
            None => format!("no threshold of at least one packet is low enough; write {otherwise}"),
        }
    }

    /// The answer in one sentence.
    fn answer(&self, wrong: &[String]) -> String {
        let name = &self.run.name;
        let lowest = self.strictest().map_or(f64::NAN, |kind| kind.bounds.t_ecn);
        match (wrong, self.kmin) {
            ([], Some(kmin)) => format!(
                "Yes: in run \"{name}\" ECN marks before PFC pauses, because `kmin` of {kmin} is below {} at every switch.",
                kilobytes(lowest)
            ),
            ([], None) if lowest <= 0.0 => format!(
                "Run \"{name}\" has no ECN, and no ECN threshold would mark before PFC pauses: headrooms fill the buffer."
            ),
            ([], None) => format!(
                "Run \"{name}\" has no ECN: its switches mark no packets. A `kmin` below {} would mark before PFC pauses.",
                kilobytes(lowest)
            ),
            (wrong, _) => format!("No: in run \"{name}\" {}.", wrong.join(". ")),
        }
    }

    fn table(&self, wrong: &[String]) -> String {
        let mut text = self.answer(wrong) + "\n\n";
        let head =
            ["switches", "ports", "rate", "delay", "headroom", "needed", "on hardware", "t_PFC", "t_ECN below", "kmin"];
        let mut rows = vec![head.map(str::to_string).to_vec()];
        for kind in &self.kinds {
            for (index, group) in kind.switch.groups.iter().enumerate() {
                let needed = self.needed(group).map(|bytes| kilobytes(bytes.0 as f64));
                let once = |text: String| if index == 0 { text } else { String::new() };
                rows.push(vec![
                    once(shown(&kind.names)),
                    group.ports.to_string(),
                    group.rate.to_string(),
                    group.delay.to_string(),
                    once(kilobytes(self.headroom.0 as f64)),
                    needed[0].clone(),
                    needed[1].clone(),
                    once(kilobytes(kind.bounds.t_pfc)),
                    once(kilobytes(kind.bounds.t_ecn)),
                    once(self.kmin.map_or("none".to_string(), |kmin| kilobytes(kmin.0 as f64))),
                ]);
            }
        }
        text += &aligned(&rows, 1);
        text += "\nheadroom: reserved for each port and lossless priority; needed: by links and frames of the run; on hardware: \
                 with the reaction\ntime that IEEE 802.3 allows. t_PFC: pause threshold of an input while the switch is \
                 empty. t_ECN: bound of `kmin`, for the\ncase that one input feeds all outputs.\n";
        text
    }

    fn document(&self, wrong: &[String]) -> Value {
        let group = |group: &PortGroup| {
            let [needed, on_hardware] = self.needed(group);
            json!({
                "ports": group.ports,
                "rate_bps": group.rate.as_bps(),
                "delay_us": group.delay.as_us(),
                "headroom_needed_bytes": needed.0,
                "headroom_on_hardware_bytes": on_hardware.0,
            })
        };
        let kind = |kind: &Kind| {
            json!({
                "switches": kind.names,
                "ports": kind.switch.ports(),
                "pool_bytes": kind.bounds.pool,
                "t_pfc_bytes": kind.bounds.t_pfc,
                "t_ecn_below_bytes": kind.bounds.t_ecn,
                "largest_kmin_bytes": kind.switch.largest_t_ecn(self.frame).map(|bytes| bytes.0),
                "kmin_is_below": self.kmin.map(|kmin| (kmin.0 as f64) < kind.bounds.t_ecn),
                "port_groups": kind.switch.groups.iter().map(group).collect::<Vec<_>>(),
            })
        };
        let first = self.kinds.first().map(|kind| &kind.switch);
        json!({
            "run": self.run.name,
            "answer": self.answer(wrong),
            "is_safe": wrong.is_empty(),
            "kmin_bytes": self.kmin.map(|kmin| kmin.0),
            "buffer_bytes": first.map(|switch| switch.buffer.0),
            "priorities": first.map(|switch| switch.priorities),
            "lossless_priorities": first.map(|switch| switch.lossless),
            "headroom_bytes": self.headroom.0,
            "switches": self.kinds.iter().map(kind).collect::<Vec<_>>(),
            "findings": wrong,
        })
    }

    fn csv(&self) -> String {
        let mut text = "first_switch,switches,ports,rate_bps,delay_us,headroom_bytes,headroom_needed_bytes,\
                        headroom_on_hardware_bytes,t_pfc_bytes,t_ecn_below_bytes,kmin_bytes\n"
            .to_string();
        for kind in &self.kinds {
            for group in &kind.switch.groups {
                let [needed, on_hardware] = self.needed(group);
                let first = kind.names.first().map_or("", String::as_str);
                let quoted = if first.contains([',', '"', '\n']) {
                    format!("\"{}\"", first.replace('"', "\"\""))
                } else {
                    first.into()
                };
                let kmin = self.kmin.map_or(String::new(), |kmin| kmin.0.to_string());
                text += &format!(
                    "{quoted},{},{},{},{},{},{},{},{},{},{kmin}\n",
                    kind.names.len(),
                    group.ports,
                    group.rate.as_bps(),
                    group.delay.as_us(),
                    self.headroom.0,
                    needed.0,
                    on_hardware.0,
                    kind.bounds.t_pfc,
                    kind.bounds.t_ecn
                );
            }
        }
        text
    }
}

/// The switches of the topology by their ports: groups of equal ports, in order of their rates and delays, and the
/// names of the switches with these groups. Kinds of switches are in the order of their first switches.
fn switches(topology: &Topology) -> Vec<(Vec<PortGroup>, Vec<String>)> {
    let mut kinds: Vec<(Vec<PortGroup>, Vec<String>)> = Vec::new();
    for node in topology.hosts..topology.nodes() {
        let mut groups: BTreeMap<(BitRate, Time), u32> = BTreeMap::new();
        for port in topology.ports_of(node) {
            let link = topology.port(port).link;
            *groups.entry((link.rate, link.delay)).or_default() += 1;
        }
        let groups: Vec<PortGroup> =
            groups.into_iter().map(|((rate, delay), ports)| PortGroup { ports, rate, delay }).collect();
        let name = topology.names[node as usize].clone();
        match kinds.iter_mut().find(|(known, _)| *known == groups) {
            Some((_, names)) => names.push(name),
            // A switch without links, which a graph may have, pauses no port.
            None if groups.is_empty() => {}
            None => kinds.push((groups, vec![name])),
        }
    }
    kinds
}

/// Names of switches as text: `leaf0`, or `leaf0 and 3 more`.
fn shown(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [name] => name.clone(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}
