//! A trace of one run for Perfetto (<https://ui.perfetto.dev>): tracks of ports with their queues and pauses, of hosts
//! with their flows, and of collective operations, steps and ranks.
//!
//! Frames ([`rnic_spec::Frame`]) and pauses are written during the run, so memory does not grow with the run. Flows and
//! operations follow at its end. The file has a maximum size; the counters and pauses take at most half of it.

mod lanes;
mod packets;
mod pauses;
mod proto;
mod records;

use packets::{Packets, Slice};
use pauses::{OpenPauses, Seen};
use proto::{CounterDescriptor, DebugAnnotation};
use rnic_fabric::{PortId, Topology};
use rnic_spec::{Frame, FramePort, PauseRow, RootKind, RunOutput, RunSpec};
use rnic_transport::Time;
use std::io::{self, Write};
use std::sync::Arc;

/// Default maximum size of a trace, in bytes.
pub const DEFAULT_SIZE: u64 = 200_000_000;

/// Minimum of the maximum size of a trace, in bytes.
pub const MIN_SIZE: u64 = 100_000;

/// What a trace lacks, because of its maximum size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Missing {
    /// Simulated time from which on counters are missing.
    pub counters_from: Option<Time>,
    /// Number of pauses that are missing.
    pub pauses: u64,
    /// Number of flows, operations, steps and tasks that are missing.
    pub slices: u64,
}

/// Writes a trace of one run to `W`.
pub struct PerfettoTrace<W> {
    packets: Packets<W>,
    limit: u64,
    topology: Option<Arc<Topology>>,
    ports: Vec<PortState>,
    /// Ports with a utilisation above 0 between the latest frames.
    active: Vec<u32>,
    /// Time of the latest frame.
    now: Time,
    pauses: OpenPauses,
    /// Pauses that had not ended at the end of the run.
    unended: Vec<PauseRow>,
    missing: Missing,
}

/// The state of a port, as the trace shows it.
#[derive(Clone, Copy, Default)]
struct PortState {
    latest: FramePort,
    /// Utilisation between the latest frames, in percent.
    utilisation: u32,
}

/// The counters of a port: name, unit, and value.
type Counter = (&'static str, &'static str, fn(&FramePort) -> u64);

/// The counters that have a track as soon as they are not 0.
const COUNTERS: [Counter; 5] = [
    ("queue", "bytes", |port| port.queued),
    ("dropped", "packets", |port| port.dropped),
    ("lost on the link", "packets", |port| port.lost),
    ("trimmed", "packets", |port| port.trimmed),
    ("marked", "packets", |port| port.marked),
];

/// Number of the counter of the utilisation among the counters of a port.
const UTILISATION: u64 = COUNTERS.len() as u64;

/// The kinds of tracks, the highest byte of their unique ids.
const NODE: u64 = 1 << 56;
const PORT: u64 = 2 << 56;
const COUNTER_OF_PORT: u64 = 3 << 56;
const PAUSES_OF_PORT: u64 = 4 << 56;

impl<W: Write> PerfettoTrace<W> {
    /// A trace of at most `limit` bytes, at least [`MIN_SIZE`].
    pub fn new(out: W, limit: u64) -> PerfettoTrace<W> {
        let limit = limit.max(MIN_SIZE);
        PerfettoTrace {
            packets: Packets::new(out, limit / 2),
            limit,
            topology: None,
            ports: Vec::new(),
            active: Vec::new(),
            now: Time::ZERO,
            pauses: OpenPauses::default(),
            unended: Vec::new(),
            missing: Missing::default(),
        }
    }

    /// Begins the trace of a run on this topology.
    pub fn begin(&mut self, topology: &Arc<Topology>) {
        self.ports = vec![PortState::default(); topology.ports.len()];
        self.topology = Some(topology.clone());
    }

    /// Adds a frame.
    pub fn frame(&mut self, frame: &Frame) {
        let Some(topology) = self.topology.clone() else { return };
        self.pauses.add(&frame.pauses);
        let was_active = std::mem::take(&mut self.active);
        if self.missing.counters_from.is_none() {
            for port in &frame.ports {
                self.utilisation(&topology, port, frame.time);
                self.counters(&topology, port, frame.time);
            }
            let is_active = std::mem::take(&mut self.active);
            let idle = was_active.into_iter().filter(|port| is_active.binary_search(port).is_err());
            for port in idle.collect::<Vec<_>>() {
                let latest = self.ports[port as usize].latest;
                self.utilisation(&topology, &latest, frame.time);
            }
            self.active = is_active;
        }
        self.now = frame.time;
    }

    /// Writes the counters of a port that have changed.
    fn counters(&mut self, topology: &Topology, port: &FramePort, at: Time) {
        let Some(state) = self.ports.get_mut(port.port as usize) else { return };
        let before = std::mem::replace(&mut state.latest, *port);
        for (number, (_, _, value)) in (0..).zip(&COUNTERS) {
            if value(&before) != value(port) {
                self.count(topology, port.port, number, value(port), at);
            }
        }
    }

    /// Writes the utilisation of a port since the latest frame, if it differs from the time before.
    fn utilisation(&mut self, topology: &Topology, port: &FramePort, at: Time) {
        let Some(state) = self.ports.get_mut(port.port as usize) else { return };
        let (busy, since) = (port.busy_ps - state.latest.busy_ps.min(port.busy_ps), self.now);
        let elapsed = at.saturating_sub(since).as_ps();
        // The busy time of a frame that is being sent counts whole when it begins.
        let percent = (busy * 100).checked_div(elapsed).unwrap_or(0).min(100) as u32;
        if percent > 0 {
            self.active.push(port.port);
        }
        if std::mem::replace(&mut state.utilisation, percent) != percent {
            self.count(topology, port.port, UTILISATION, percent.into(), since);
        }
    }

    /// Writes the value of counter `number` of a port. If the counter's track is not in the file yet, writes the track
    /// first.
    fn count(&mut self, topology: &Topology, port: u32, number: u64, value: u64, at: Time) {
        let track = COUNTER_OF_PORT | number << 32 | u64::from(port);
        if !self.packets.has(track) {
            let parent = self.port(topology, port);
            let (name, unit) = COUNTERS.get(number as usize).map_or(("utilisation", "%"), |of| (of.0, of.1));
            let counter = CounterDescriptor { unit: 0, unit_name: Some(unit.to_string()) };
            self.packets.counters(track, parent, name, counter);
            if at > Time::ZERO {
                self.packets.value(track, Time::ZERO, 0);
            }
        }
        if !self.packets.value(track, at, value.min(i64::MAX as u64) as i64) {
            self.missing.counters_from.get_or_insert(at);
        }
    }

    /// The track of a port, a thread of its node's process.
    fn port(&mut self, topology: &Topology, port: u32) -> u64 {
        let (uuid, id) = (PORT | u64::from(port), PortId(port));
        if !self.packets.has(uuid) {
            let node = topology.port(id).node;
            self.node(topology, node);
            let peer = &topology.names[topology.peer_node(id) as usize];
            // The ids of threads must differ from the ids of processes.
            let tid = (topology.nodes() + 1 + port) as i32;
            let name = format!("port {} to {peer}", topology.port_in_node(id));
            self.packets.thread(uuid, (pid(node), tid), &name);
        }
        uuid
    }

    /// The track of a host or switch.
    fn node(&mut self, topology: &Topology, node: u32) -> u64 {
        let uuid = NODE | u64::from(node);
        self.packets.process(uuid, pid(node), &topology.names[node as usize]);
        uuid
    }

    /// Adds a pause that has ended, or one that lasts until the end of the run.
    pub fn pause(&mut self, pause: PauseRow) {
        match pause.to {
            Some(to) => self.write_pause(pause, to),
            None => self.unended.push(pause),
        }
    }

    fn write_pause(&mut self, pause: PauseRow, to: Time) {
        let Some(topology) = self.topology.clone() else { return };
        let seen = self.pauses.take(pause.port, pause.priority, pause.from);
        let track = PAUSES_OF_PORT | u64::from(pause.priority) << 32 | u64::from(pause.port);
        if !self.packets.has(track) {
            let parent = self.port(&topology, pause.port);
            self.packets.slices(track, parent, &format!("pauses of priority {}", pause.priority));
        }
        let mut annotations = annotations(&topology, seen.as_ref());
        annotations.push(DebugAnnotation::number("duration_ps", to.saturating_sub(pause.from).as_ps()));
        annotations.extend(pause.to.is_none().then(|| DebugAnnotation::flag("ended", false)));
        let Seen { to: begins, from: ends, .. } = seen.unwrap_or_default();
        let slice = Slice {
            track,
            name: "paused".to_string(),
            category: "pause",
            from: pause.from,
            to,
            annotations,
            arrows: (begins, ends.into_iter().collect()),
        };
        self.missing.pauses += u64::from(!self.packets.slice(slice));
    }

    /// Completes the trace with the flows and operations of the run. Returns the file, and a description of the parts
    /// that are missing.
    ///
    /// # Errors
    /// The file cannot be written, or the records of flows cannot be read.
    pub fn finish(mut self, run: &RunSpec, output: &RunOutput) -> io::Result<(W, Missing)> {
        for pause in std::mem::take(&mut self.unended) {
            self.write_pause(pause, output.end);
        }
        self.packets.set_limit(self.limit);
        self.missing.slices = records::add(&mut self.packets, self.topology.as_deref(), run, output);
        output.flows.check()?;
        Ok((self.packets.finish()?, self.missing))
    }

    /// Number of bytes written so far.
    pub fn written(&self) -> u64 {
        self.packets.written()
    }
}

/// The id of the process that shows a node.
fn pid(node: u32) -> i32 {
    (node + 1) as i32
}

/// What frames have shown of a pause, as annotations of its slice.
fn annotations(topology: &Topology, seen: Option<&Seen>) -> Vec<DebugAnnotation> {
    let name = |port: u32| topology.port_name(PortId(port));
    let cause = match seen.map(|seen| seen.root) {
        None => "unknown: the pause began and ended between two frames of the trace".to_string(),
        Some(None) => "unknown: the queue was empty at every frame of the trace".to_string(),
        Some(Some((RootKind::Congestion, port))) => format!("the output {} is congested", name(port)),
        Some(Some((RootKind::Nic, port))) => format!("the NIC at {} pauses its switch", name(port)),
        Some(Some((RootKind::Cycle, port))) => format!("a cycle of pauses through {}", name(port)),
    };
    let waits_for = seen.and_then(|seen| seen.waits_for).map(|port| DebugAnnotation::text("waits_for", name(port)));
    std::iter::once(DebugAnnotation::text("cause", cause)).chain(waits_for).collect()
}

#[cfg(test)]
mod tests;
