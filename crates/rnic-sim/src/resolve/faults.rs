//! Resolves the faults of a run, and the watchdogs of its switches and NICs: names become ports, and times become
//! steps.

use super::FaultError;
use super::links::Frames;
use crate::dead::{self, DeadStep};
use crate::link_faults::LinkPlan;
use crate::storm;
use rnic_fabric::{HostId, PortId, ReceiverSpec, Routes, Topology, required_headroom};
use rnic_spec::{
    Faults, RunSpec, Storm, SwitchWatchdog, UnknownMacAction, WatchdogAction, WatchdogRecord, WatchedPorts,
};

/// The faults of a run apart from replaced routes, and its watchdogs.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ResolvedFaults {
    /// Switch ports that drop one data packet in a given number.
    pub(crate) drops: Vec<(PortId, u64)>,
    /// When a host receives nothing.
    pub(crate) dead: Vec<DeadStep>,
    /// The pause storms of the run, shortened by the watchdogs of the NICs.
    pub(crate) storms: Vec<Storm>,
    /// The records of the watchdogs of the NICs.
    pub(crate) nic_watchdogs: Vec<WatchdogRecord>,
    /// The PFC watchdog of the switches; `None` without PFC.
    pub(crate) watchdog: Option<SwitchWatchdog>,
    /// Hosts with a slow receive pipeline.
    pub(crate) receivers: Vec<(HostId, ReceiverSpec)>,
    /// Whether every receive buffer has room for the packets that arrive before a pause takes effect.
    pub(crate) receivers_have_headroom: bool,
    /// Faults of links, and when switches learn of them.
    pub(crate) links: LinkPlan,
}

impl ResolvedFaults {
    /// Whether switches do more than forward packets.
    pub(crate) fn guards_switches(&self) -> bool {
        !self.drops.is_empty() || !self.dead.is_empty() || self.watchdog.is_some()
    }

    /// Whether packets may get lost for another reason than a full buffer.
    pub(crate) fn drop_packets(&self) -> bool {
        let drops = |watchdog: &SwitchWatchdog| watchdog.action == WatchdogAction::Drop;
        !self.drops.is_empty()
            || !self.dead.is_empty()
            || !self.links.is_empty()
            || !self.receivers_have_headroom
            || self.watchdog.as_ref().is_some_and(drops)
    }
}

/// Resolves the faults and watchdogs of `run`.
pub(super) fn resolve(
    run: &RunSpec, (topology, routes): (&Topology, &Routes), has_pfc: bool, frames: &Frames, warnings: &mut Vec<String>,
) -> Result<ResolvedFaults, FaultError> {
    let faults = &run.fabric.faults;
    let mut drops = Vec::new();
    for rule in &faults.drops {
        let ports = crate::link::ports(topology, &format!("{}:{}", rule.at, rule.from));
        let ports = ports.map_err(FaultError::NoLink)?;
        if topology.is_host(topology.port(ports[0]).node) {
            return Err(FaultError::DropAtHost(rule.at.clone()));
        }
        if ports.iter().any(|port| drops.iter().any(|(other, _)| other == port)) {
            return Err(FaultError::DropTwice { from: rule.from.clone(), at: rule.at.clone() });
        }
        drops.extend(ports.into_iter().map(|port| (port, rule.every)));
    }
    if run.transport.is_message() && !faults.dead.is_empty() {
        return Err(FaultError::DeadHosts(run.transport.name.clone()));
    }
    let watchdogs = &run.fabric.watchdogs;
    let detection = watchdogs.nic.filter(|_| has_pfc).map(|nic| nic.detection);
    let port_of = |host| topology.host_port(HostId(host)).0;
    let (storms, nic_watchdogs) = storm::watched_by_nics(&run.fabric.storms, detection, port_of);
    if detection.is_some() && !run.fabric.storms.is_empty() && nic_watchdogs.is_empty() {
        warnings.push("the watchdog of the NICs never acts: every storm is shorter than its `detection`".to_string());
    }
    let (receivers, receivers_have_headroom) = receivers(run, topology, has_pfc, frames, warnings)?;
    let links = LinkPlan::resolve(&run.fabric, topology, routes)?;
    warnings.extend(links.warnings(topology));
    Ok(ResolvedFaults {
        receivers,
        receivers_have_headroom,
        drops,
        links,
        dead: dead::steps(&faults.dead, &run.fabric.storms, detection),
        storms,
        nic_watchdogs,
        watchdog: watchdogs.switch.filter(|_| has_pfc),
    })
}

/// The slow receivers of a run, and whether each of them has room for the packets that arrive before a pause takes
/// effect.
fn receivers(
    run: &RunSpec, topology: &Topology, has_pfc: bool, frames: &Frames, warnings: &mut Vec<String>,
) -> Result<(Vec<(HostId, ReceiverSpec)>, bool), FaultError> {
    let mut all: Vec<(HostId, ReceiverSpec)> = Vec::new();
    let mut fits = true;
    for slow in run.fabric.faults.receivers.iter().filter(|_| has_pfc) {
        let spec = ReceiverSpec {
            page: slow.page.0,
            entries: slow.entries as usize,
            miss: slow.miss,
            memory: slow.memory.0,
            mtu: run.fabric.mtu.0,
            buffer: slow.buffer.0,
            xoff: slow.xoff.0,
            xon: slow.xon.0,
        };
        for host in &slow.hosts {
            let name = &topology.names[*host as usize];
            if all.iter().any(|(other, _)| other.0 == *host) {
                return Err(FaultError::ReceiverTwice(name.clone()));
            }
            if run.fabric.storms.iter().any(|storm| storm.host == *host) {
                return Err(FaultError::StormAndReceiver(name.clone()));
            }
            let link = topology.port(topology.host_port(HostId(*host))).link;
            let needed = required_headroom(&link, frames.longest, frames.gap).0;
            if slow.buffer.0 - slow.xoff.0 < needed {
                fits = false;
                let room = slow.buffer.0 - slow.xoff.0;
                warnings.push(format!(
                    "the NIC of {name} may drop packets: its receive buffer has {room} bytes above xoff, and {needed} may arrive \
                     before a pause takes effect"
                ));
            }
            all.push((HostId(*host), spec));
        }
    }
    Ok((all, fits))
}

/// Warns of pause storms that have no effect, because the run has no PFC or does not use the paused priority.
pub(super) fn warn_of_storms(run: &RunSpec, priorities: u8, warnings: &mut Vec<String>) {
    if !run.fabric.storms.is_empty() && !run.transport.pfc {
        warnings.push("the storm changes nothing: without PFC switches ignore pause frames".to_string());
        return;
    }
    for priority in run.fabric.storms.iter().filter_map(|storm| storm.priority) {
        if priority >= priorities {
            warnings.push(format!(
                "the storm in priority {priority} changes nothing: the run uses priorities 0 to {}",
                priorities - 1
            ));
        }
    }
}

/// Description of a pause storm for the list of a run's settings in its results.
fn storm_text(storm: &Storm, topology: &Topology) -> String {
    let what = storm.priority.map_or("its switch".to_string(), |priority| format!("priority {priority} of its switch"));
    let until = storm.duration.map_or("for ever".to_string(), |duration| format!("for {duration}"));
    format!("{} pauses {what} from {} on {until}", topology.names[storm.host as usize], storm.start)
}

/// Passes the faults, the meshes of probes and the watchdogs of a run to `put`, for the run's results.
pub(super) fn put(run: &RunSpec, topology: &Topology, put: &mut impl FnMut(&str, String)) {
    let (faults, watchdogs) = (&run.fabric.faults, &run.fabric.watchdogs);
    for storm in &run.fabric.storms {
        put("storm", storm_text(storm, topology));
    }
    for rule in &faults.drops {
        put("drop rule", format!("{} drops one of every {} data packets from {}", rule.at, rule.every, rule.from));
    }
    for dead in &faults.dead {
        let until = dead.duration.map_or("for ever".to_string(), |duration| format!("for {duration}"));
        let what = match dead.unknown_mac {
            UnknownMacAction::Flood => "flooded",
            UnknownMacAction::Drop => "dropped",
        };
        let name = &topology.names[dead.host as usize];
        put("dead host", format!("{name} from {} on {until}; packets for it are {what}", dead.start));
    }
    for fault in &faults.links {
        let what = fault.rate.map_or("down".to_string(), |rate| format!("at {rate}"));
        let until = fault.duration.map_or("on, for ever".to_string(), |duration| format!("on for {duration}"));
        let again = fault.every.map_or(String::new(), |every| format!(", every {every}"));
        let queues = if fault.scales_queues { ", with its queues in proportion" } else { "" };
        let (from, to) = (&fault.from, &fault.to);
        put("link fault", format!("{from} to {to} is {what} from {} {until}{again}{queues}", fault.start));
    }
    if !faults.links.is_empty() {
        put("convergence", faults.convergence.unwrap_or(Faults::CONVERGENCE).to_string());
    }
    if let Some(delay) = faults.local_repair.filter(|_| !faults.links.is_empty()) {
        put("local_repair", delay.to_string());
    }
    for slow in faults.receivers.iter().filter(|_| run.transport.pfc) {
        put(
            "slow receivers",
            format!(
                "{} hosts: {} entries of {}, {} for a miss; flows write {} each; buffer {}, xoff {}, xon {}",
                slow.hosts.len(),
                slow.entries,
                slow.page,
                slow.miss,
                slow.memory,
                slow.buffer,
                slow.xoff,
                slow.xon
            ),
        );
    }
    super::mesh::put(&run.fabric.meshes, put);
    if let Some(nic) = watchdogs.nic.filter(|_| run.transport.pfc) {
        put("nic_watchdog", format!("a NIC that is stuck for {} stops pausing", nic.detection));
    }
    if let Some(switch) = watchdogs.switch.filter(|_| run.transport.pfc) {
        let ports = if switch.ports == WatchedPorts::Hosts { "ports to hosts" } else { "all ports" };
        let (detection, restoration, interval) = (switch.detection, switch.restoration, switch.interval);
        let action = switch.action.name();
        put(
            "watchdog",
            format!(
                "{ports}, checked every {interval}; detection {detection}, restoration {restoration}, action {action}"
            ),
        );
    }
}
