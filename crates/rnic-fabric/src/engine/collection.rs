//! The collection of counters and states of all ranks on rank 0, at the end of a run.

use super::Fabric;
use crate::ids::PortId;
use crate::packet::Body;
use crate::port::PriorityCounters;
use crate::rank_message::{append, take_last};
use crate::ranks::RankError;
use crate::stage::ProbeResult;
use rnic_transport::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The counters and states that rank 0 has collected from all ranks.
#[derive(Default)]
pub(super) struct Collected {
    /// Per port: time for which it was transmitting, in picoseconds.
    pub(super) busy: Vec<u64>,
    pub(super) in_flight: u64,
    pub(super) copies: i64,
    pub(super) probe_packets: (u64, u64),
    pub(super) probe_results: Vec<ProbeResult>,
    pub(super) any_paused: bool,
    /// The ports that are paused, pause their peer, or were paused before.
    pauses: BTreeMap<PortId, PortPauses>,
    /// Bytes in switches that arrived on an input in a priority, and of these the bytes for an output.
    pub(super) occupancy: BTreeMap<(PortId, u8), u64>,
    pub(super) held: BTreeMap<(PortId, PortId, u8), u64>,
}

impl Collected {
    /// State of a port's pauses at the end of the run.
    pub(super) fn pauses(&self, port: PortId) -> PortPauses {
        self.pauses.get(&port).cloned().unwrap_or_default()
    }

    /// Times of a port's latest pause and latest resume in a priority, in picoseconds; 0 if never.
    pub(super) fn pause_times(&self, port: PortId, priority: usize) -> (u64, u64) {
        self.pauses.get(&port).and_then(|port| port.times.get(priority)).copied().unwrap_or_default()
    }
}

/// State of a port's pauses.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct PortPauses {
    /// Bitmap of the priorities in which the port is paused.
    pub(super) paused: u8,
    /// Bitmap of the priorities in which the port wants its peer to pause.
    pub(super) wanted: u8,
    /// Per priority: time of the latest pause, and of the latest resume, in picoseconds; 0 if never.
    times: Vec<(u64, u64)>,
}

/// What a rank sends to rank 0 at the end of a run.
#[derive(Serialize, Deserialize)]
struct FabricReport {
    in_flight: u64,
    copies: i64,
    probe_packets: (u64, u64),
    probes: Vec<ProbeReport>,
    /// The ports with counters other than 0.
    counters: Vec<PortCounters>,
    /// The ports that are paused, pause their peer, or were paused before.
    pauses: Vec<(u32, PortPauses)>,
    occupancy: Vec<InputOccupancy>,
}

#[derive(Serialize, Deserialize)]
struct ProbeReport {
    at_ps: u64,
    pair: u32,
    rtt_ps: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct PortCounters {
    port: u32,
    busy_ps: u64,
    /// Per priority.
    counters: Vec<PriorityCounters>,
}

/// Bytes in a switch that arrived on a port in a priority.
#[derive(Serialize, Deserialize)]
struct InputOccupancy {
    port: u32,
    priority: u8,
    bytes: u64,
    /// The bytes that wait for each output port with such bytes.
    outputs: Vec<(u32, u64)>,
}

impl<B: Body> Fabric<B> {
    /// Collects the counters and the state of all ranks on rank 0, at the end of a run. Afterwards rank 0 can access
    /// the counters and pauses of all ports. Returns whether this is rank 0, or a fabric of one process.
    ///
    /// # Errors
    /// Another rank cannot be reached.
    pub fn collect(&mut self) -> Result<bool, RankError> {
        let Some(group) = self.ranks.as_ref().map(|ranks| ranks.group.clone()) else { return Ok(true) };
        let mut report = Vec::new();
        append(&self.report(), &mut report)?;
        let messages = group.collect(report)?;
        if !group.is_root() {
            return Ok(false);
        }
        let priorities = usize::from(self.priorities());
        for partition in 0..self.plan.partitions() as u32 {
            if !self.plan.is_here(partition) {
                let cells = self.plan.port_count(partition) * priorities;
                self.partitions[partition as usize].links.counters = vec![PriorityCounters::default(); cells];
            }
        }
        let mut collected = Collected { busy: vec![0; self.topology.ports.len()], ..Collected::default() };
        for message in messages {
            let report = take_last(&message, "the counters of a rank");
            report.and_then(|report| self.add_report(report, &mut collected)).map_err(|error| group.fail(error))?;
        }
        collected.probe_results = super::faults::sorted(collected.probe_results);
        if let Some(ranks) = &mut self.ranks {
            ranks.collected = Some(collected);
        }
        Ok(true)
    }

    /// The counters and state of this rank's partitions.
    fn report(&self) -> FabricReport {
        let is_own = |(number, _): &(usize, _)| self.plan.is_here(*number as u32);
        let partitions = || self.partitions.iter().enumerate().filter(is_own).map(|(_, partition)| partition);
        let stages = || partitions().flat_map(|partition| partition.stages());
        let mut probes = Vec::new();
        stages().for_each(|stage| stage.results(self.now(), &mut probes));
        let probe =
            |ProbeResult { at, pair, rtt }| ProbeReport { at_ps: at.as_ps(), pair, rtt_ps: rtt.map(Time::as_ps) };
        let ports = || self.topology.port_ids().filter(|port| self.plan.is_here(self.plan.port(*port).partition));
        FabricReport {
            in_flight: partitions().map(|partition| partition.in_flight() as u64).sum(),
            copies: partitions().map(|partition| partition.copies()).sum(),
            probe_packets: (
                stages().map(|stage| stage.probe_packets().0).sum(),
                stages().map(|stage| stage.probe_packets().1).sum(),
            ),
            probes: probes.into_iter().map(probe).collect(),
            counters: ports().filter_map(|port| self.port_counters(port)).collect(),
            pauses: ports().filter_map(|port| Some((port.0, self.port_pauses(port)?))).collect(),
            occupancy: ports().flat_map(|port| self.input_occupancy(port)).collect(),
        }
    }

    /// The counters of a port; `None` if all are 0.
    fn port_counters(&self, port: PortId) -> Option<PortCounters> {
        let counters = self.counters(port);
        let is_used = counters.iter().any(|counters| *counters != PriorityCounters::default());
        is_used.then(|| PortCounters { port: port.0, busy_ps: self.busy(port).as_ps(), counters: counters.to_vec() })
    }

    /// State of a port's pauses; `None` if the port was never paused and does not pause its peer.
    fn port_pauses(&self, port: PortId) -> Option<PortPauses> {
        let paused = self.paused(port);
        let wanted = self.pauses_peer(port);
        let times = |priority| {
            let resumed = self.resumed_at(port, priority).map_or(0, Time::as_ps);
            (self.paused_since(port, priority).as_ps(), resumed)
        };
        let times: Vec<(u64, u64)> = (0..usize::from(self.priorities())).map(times).collect();
        let is_used = paused | wanted != 0 || times.iter().any(|(since, _)| *since > 0);
        is_used.then_some(PortPauses { paused, wanted, times })
    }

    /// The occupancy of an input port in each priority with bytes.
    fn input_occupancy(&self, port: PortId) -> impl Iterator<Item = InputOccupancy> {
        let occupancy = move |priority: u8| {
            let bytes = self.occupancy(port, usize::from(priority));
            if bytes == 0 {
                return None;
            }
            let outputs = self.topology.ports_of(self.topology.port(port).node);
            let mut held = vec![0; outputs.len()];
            self.held(&[port], usize::from(priority), &mut held);
            let held = outputs.map(|output| output.0).zip(held);
            let outputs = held.filter(|(_, bytes)| *bytes > 0).collect();
            Some(InputOccupancy { port: port.0, priority, bytes, outputs })
        };
        (0..self.priorities()).filter_map(occupancy)
    }

    /// Adds the report of a rank to what rank 0 has collected.
    fn add_report(&mut self, report: FabricReport, collected: &mut Collected) -> Result<(), RankError> {
        let ports = self.topology.ports.len() as u32;
        let port = |number: u32| {
            (number < ports).then_some(PortId(number)).ok_or(RankError::Damaged("a port in the counters of a rank"))
        };
        collected.in_flight += report.in_flight;
        collected.copies += report.copies;
        collected.probe_packets.0 += report.probe_packets.0;
        collected.probe_packets.1 += report.probe_packets.1;
        collected.probe_results.extend(report.probes.into_iter().map(|ProbeReport { at_ps, pair, rtt_ps }| {
            ProbeResult { at: Time::from_ps(at_ps), pair, rtt: rtt_ps.map(Time::from_ps) }
        }));
        for PortCounters { port: number, busy_ps, counters } in report.counters {
            let port = port(number)?;
            collected.busy[port.index()] = busy_ps;
            let location = self.plan.port(port);
            let links = &mut self.partitions[location.partition as usize].links;
            let first = location.slot.index() * links.priorities;
            let own = &mut links.counters[first..first + links.priorities];
            if own.len() != counters.len() {
                return Err(RankError::Damaged("the number of priorities in the counters of a rank"));
            }
            own.copy_from_slice(&counters);
        }
        for (number, pauses) in report.pauses {
            collected.any_paused |= pauses.paused != 0;
            collected.pauses.insert(port(number)?, pauses);
        }
        for InputOccupancy { port: number, priority, bytes, outputs } in report.occupancy {
            let input = port(number)?;
            collected.occupancy.insert((input, priority), bytes);
            for (output, bytes) in outputs {
                collected.held.insert((input, port(output)?, priority), bytes);
            }
        }
        Ok(())
    }

    /// The state of all ranks, on rank 0 at the end of a run.
    pub(super) fn collected(&self) -> Option<&Collected> {
        self.ranks.as_ref()?.collected.as_ref()
    }
}
