//! Samples the PFC pauses of a run: the paused ports, the root (cause) of each pause, and the flows that are victims.

use crate::events::Listener;
use crate::host::{FlowUnderWay, Observer, RunHosts};
use rnic_fabric::{Body, Cause, Fabric, PauseTree, PortId, Wait, pause_tree};
use rnic_spec::FlowLog;
use rnic_spec::{
    BufferCycle, PauseRecords, PauseRoot, PauseRow, PauseSpan, PauseTreeRecord, RootKind, RunEvent, TreePort, Victim,
};
use rnic_transport::Time;
use std::collections::BTreeMap;

/// Maximum number of PFC pauses in a run's log of pauses.
pub(crate) const MAX_PAUSES: usize = 200_000;
/// Maximum number of spans in a run's chart of pauses. A span is a series of samples at which a port was paused because
/// of the same root (cause).
pub(crate) const MAX_SPANS: usize = 50_000;
/// Maximum number of flows in a run's list of victims. A victim is a flow that a pause delays although the cause of the
/// pause is not on the flow's path.
pub(crate) const MAX_VICTIMS: usize = 1_000;

/// A transmitter that PFC pauses: index of the port, and priority.
type Cell = (u32, u8);

/// State of a transmitter that was paused at the last pause sample.
#[derive(Clone, Copy)]
struct Seen {
    since: Time,
    root: Option<u32>,
    /// Index of the transmitter's current span in the chart of pauses; `None` if the chart is full.
    span: Option<usize>,
}

/// Samples of a victim: a flow that a pause delays although the flow's path does not contain the root (cause) of the
/// pause.
#[derive(Clone, Copy, Default)]
struct VictimSamples {
    /// Number of samples at which a pause delayed the flow.
    samples: u64,
    /// Index of the candidate root: if one root delayed the flow at more than half of its samples, it is this root.
    root: u32,
    /// Counter of the majority vote: since `root` became the candidate, the number of samples with this root minus the
    /// number of samples with other roots.
    ahead: u64,
}

impl VictimSamples {
    /// Adds a sample at which a pause with the cause `root` delayed the flow. If one root delays the flow at more than
    /// half of its samples, this root is the candidate after the last sample (majority vote of Boyer and Moore, 1981).
    fn add(&mut self, root: u32) {
        self.samples += 1;
        if self.ahead == 0 {
            self.root = root;
        }
        if self.root == root { self.ahead += 1 } else { self.ahead -= 1 }
    }
}

/// Calls its argument with every flow that has started and not finished.
type EachFlow<'f> = dyn FnMut(&mut dyn FnMut(FlowUnderWay)) + 'f;

/// Takes samples of a run's PFC pauses at regular intervals.
pub(crate) struct PauseWatch<'e> {
    interval: Time,
    next: Time,
    records: PauseRecords,
    /// Time of the first sample in the current series of samples with a cycle of pauses; `None` if the last sample had
    /// no such cycle.
    cycle_since: Option<Time>,
    /// Index of each root (cause of pauses) in the records, by kind, port and priority.
    roots: BTreeMap<(RootKind, u32, u8), u32>,
    /// The transmitters that were paused at the last pause sample.
    seen: BTreeMap<Cell, Seen>,
    /// Samples of each victim flow, by the id of the flow's record.
    victims: BTreeMap<u32, VictimSamples>,
    events: &'e dyn Listener,
}

impl<'e> PauseWatch<'e> {
    pub(crate) fn new(start: Time, interval: Time, events: &'e dyn Listener) -> PauseWatch<'e> {
        PauseWatch {
            interval,
            next: start,
            records: PauseRecords { start, interval, ..PauseRecords::default() },
            cycle_since: None,
            roots: BTreeMap::new(),
            seen: BTreeMap::new(),
            victims: BTreeMap::new(),
            events,
        }
    }

    /// Takes a sample of the pauses. `flows` must call its argument with every flow that has started and not finished.
    fn sample<B: Body>(&mut self, now: Time, fabric: &mut Fabric<B>, flows: &mut EachFlow<'_>) {
        self.records.samples += 1;
        self.log(fabric);
        let tree = pause_tree(fabric);
        let roots: Vec<Option<u32>> = tree.ports.iter().map(|p| self.root(p.cause, p.priority, now)).collect();
        self.count(&tree, &roots);
        self.span(now, &tree, &roots);
        self.cycle_since = (!tree.cycle.is_empty()).then(|| self.cycle_since.unwrap_or(now));
        if !tree.cycle.is_empty() && self.records.cycle.is_none() {
            let ports = tree.cycle.iter().map(|port| port.0).collect();
            self.records.cycle = Some(BufferCycle { first: now, ports, at_end: false, truncated: false });
        }
        let paused = tree.paused().count() as u32;
        self.records.max_paused = self.records.max_paused.max(paused);
        if paused > self.records.worst.as_ref().map_or(0, |worst| worst.paused) {
            self.records.worst = Some(record(now, paused, &tree, &roots));
        }
        if paused > 0 {
            let (topology, routes) = (fabric.topology().clone(), fabric.routes().clone());
            // For each port and priority that a pause keeps from sending, the index of the transmitter in the tree.
            let held: BTreeMap<(PortId, u8), usize> = tree.ports[..paused as usize]
                .iter()
                .enumerate()
                .filter(|(_, paused)| paused.cause != Cause::Released)
                .map(|(index, paused)| ((paused.port, paused.priority), index))
                .collect();
            flows(&mut |flow| {
                let path = routes.path(&topology, flow.src, flow.dst, flow.data_hash);
                let innocent =
                    |index: &usize| !path.iter().any(|port| tree.is_at_root(tree.ports[*index].cause, *port));
                let held = path.iter().filter_map(|port| held.get(&(*port, flow.priority)).copied());
                if let Some(root) = held.filter(innocent).find_map(|index| roots[index]) {
                    self.victims.entry(flow.id).or_default().add(root);
                }
            });
        }
    }

    /// Moves the pauses that have ended since the last sample from the fabric to the log of pauses.
    fn log<B: Body>(&mut self, fabric: &mut Fabric<B>) {
        let (mut ended, left_out) = fabric.take_pauses();
        self.records.pauses_left_out += left_out;
        sort_by_start(&mut ended);
        for pause in ended {
            let seen = self.seen.get(&(pause.port.0, pause.priority)).filter(|seen| seen.since == pause.from);
            let root = seen.and_then(|seen| seen.root);
            self.row(PauseRow {
                port: pause.port.0,
                priority: pause.priority,
                from: pause.from,
                to: Some(pause.to),
                root,
            });
        }
    }

    fn row(&mut self, row: PauseRow) {
        if let Some((_, listener)) = self.events.frames() {
            listener.pause(row);
        }
        if self.events.wants_details() {
            // The run stops at the next progress event if the listener cancels it here.
            let _ = self.events.tell(RunEvent::Pause(row));
        }
        if self.records.log.len() < MAX_PAUSES {
            self.records.log.push(row);
        } else {
            self.records.pauses_left_out += 1;
        }
    }

    /// The index in the records of the root with the cause `cause`. A root that is not in the records yet is added.
    fn root(&mut self, cause: Cause, priority: u8, now: Time) -> Option<u32> {
        let (kind, port) = match cause {
            Cause::Congestion { port } => (RootKind::Congestion, port),
            Cause::Nic { port } => (RootKind::Nic, port),
            Cause::Cycle { port } => (RootKind::Cycle, port),
            Cause::Released => return None,
        };
        let port = port.0;
        Some(*self.roots.entry((kind, port, priority)).or_insert_with(|| {
            self.records.roots.push(PauseRoot { kind, port, priority, first: now, samples: 0, max_ports: 0 });
            self.records.roots.len() as u32 - 1
        }))
    }

    /// Updates the counters of each root (cause of pauses) with the number of ports that it keeps paused at this
    /// sample.
    fn count(&mut self, tree: &PauseTree, roots: &[Option<u32>]) {
        let mut held: BTreeMap<u32, u32> = BTreeMap::new();
        for (_, root) in tree.ports.iter().zip(roots).filter(|(port, _)| port.on) {
            if let Some(root) = root {
                *held.entry(*root).or_default() += 1;
            }
        }
        for (root, ports) in held {
            let root = &mut self.records.roots[root as usize];
            root.samples += 1;
            root.max_ports = root.max_ports.max(ports);
        }
    }

    /// Adds the sample at `now` to the chart of pauses. A span of the chart continues as long as the port is paused
    /// because of the same root at each sample.
    fn span(&mut self, now: Time, tree: &PauseTree, roots: &[Option<u32>]) {
        let mut seen = BTreeMap::new();
        for (paused, root) in tree.ports.iter().zip(roots).filter(|(port, _)| port.on) {
            let cell = (paused.port.0, paused.priority);
            let before = self.seen.get(&cell).filter(|before| before.root == *root).and_then(|before| before.span);
            let to = now + self.interval;
            let span = match before {
                Some(span) => {
                    self.records.spans[span].to = to;
                    Some(span)
                }
                None if self.records.spans.len() < MAX_SPANS => {
                    self.records.spans.push(PauseSpan { port: cell.0, priority: cell.1, from: now, to, root: *root });
                    Some(self.records.spans.len() - 1)
                }
                None => {
                    self.records.spans_left_out += 1;
                    None
                }
            };
            seen.insert(cell, Seen { since: paused.since, root: *root, span });
        }
        self.seen = seen;
    }

    /// The complete pause records of a run that ended at `end`. `truncated` says whether the setting `duration` ended
    /// the run.
    pub(crate) fn finish<B: Body>(
        mut self, fabric: &mut Fabric<B>, end: Time, truncated: bool, flows: &FlowLog, warnings: &mut Vec<String>,
    ) -> PauseRecords {
        self.log(fabric);
        let tree = pause_tree(fabric);
        for paused in tree.paused() {
            let cell = (paused.port.0, paused.priority);
            let root = self.root(paused.cause, paused.priority, end);
            self.row(PauseRow { port: cell.0, priority: cell.1, from: paused.since, to: None, root });
        }
        if !tree.cycle.is_empty() {
            let ports = tree.cycle.iter().map(|port| port.0).collect();
            let first = self.cycle_since.unwrap_or(end);
            self.records.cycle = Some(BufferCycle { first, ports, at_end: true, truncated });
        }
        for span in &mut self.records.spans {
            span.to = span.to.min(end);
        }
        let victim = |(flow, seen): (u32, VictimSamples)| {
            let record = flows.get(flow)?;
            Some(Victim {
                flow,
                src: record.src,
                dst: record.dst,
                samples: seen.samples,
                root: seen.root,
                finished: record.finish.is_some(),
                goodput: record.goodput_bps(end).unwrap_or(0.0),
            })
        };
        let mut victims: Vec<Victim> = std::mem::take(&mut self.victims).into_iter().filter_map(victim).collect();
        sort_by_samples(&mut victims);
        self.records.victim_count = victims.len() as u64;
        victims.truncate(MAX_VICTIMS);
        self.records.victims = victims;
        if self.records.pauses_left_out > 0 {
            warnings.push(format!(
                "the log of pauses is full with {MAX_PAUSES} pauses; {} more are only counted",
                self.records.pauses_left_out
            ));
        }
        if self.records.spans_left_out > 0 {
            warnings.push(format!(
                "the chart of pauses is incomplete: it is full with {MAX_SPANS} spans; watch a shorter time"
            ));
        }
        self.records
    }
}

// These functions are compiled once and not for each type of packet.

fn sort_by_start(pauses: &mut [rnic_fabric::Pause]) {
    pauses.sort_unstable_by_key(|pause| (pause.from, pause.port, pause.priority));
}

fn sort_by_samples(victims: &mut [Victim]) {
    victims.sort_by_key(|victim| (std::cmp::Reverse(victim.samples), victim.flow));
}

/// The record of the pause tree at the sample at `at`, which has `paused` paused transmitters.
fn record(at: Time, paused: u32, tree: &PauseTree, roots: &[Option<u32>]) -> PauseTreeRecord {
    let port = |(port, root): (&rnic_fabric::Paused, &Option<u32>)| TreePort {
        port: port.port.0,
        priority: port.priority,
        paused: port.on,
        since: port.since,
        held: port.held,
        waits_for: match port.waits_for {
            Wait::Port(next) => Some(tree.ports[next].port.0),
            Wait::Root(Cause::Congestion { port } | Cause::Nic { port } | Cause::Cycle { port }) => Some(port.0),
            Wait::Root(Cause::Released) => None,
        },
        depth: port.depth,
        root: *root,
    };
    let ports = tree.ports.iter().zip(roots).take(rnic_spec::MAX_TREE_PORTS).map(port).collect();
    PauseTreeRecord { at, paused, ports }
}

impl<B: Body> Observer<B> for PauseWatch<'_> {
    fn next(&self) -> Time {
        self.next
    }
    fn observe(&mut self, now: Time, fabric: &mut Fabric<B>, hosts: &mut dyn RunHosts<B>) {
        self.sample(now, fabric, &mut |visit| {
            hosts.under_way(now, 0).into_iter().for_each(visit);
        });
        self.next = now.saturating_add(self.interval);
    }
}
