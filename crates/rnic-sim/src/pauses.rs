//! Looking at the pauses of a run: who holds whom up, where it begins, and who suffers for others.

use crate::nic::DATA_PRIORITY;
use crate::results::FlowLog;
use crate::results::model::{
    BufferCycle, PauseRecords, PauseRoot, PauseRow, PauseSpan, PauseTreeRecord, RootKind, TreePort, Victim,
};
use crate::results::stats::goodput_bps;
use crate::run::RunHosts;
use rnic_fabric::{Body, BodyOf, Cause, Fabric, HostId, PauseTree, PortId, Wait, Watcher, pause_tree};
use rnic_transport::Time;
use std::collections::BTreeMap;

/// Most pauses in the log of a run.
pub const MOST_PAUSES: usize = 200_000;
/// Most stretches of time in the picture of a run.
pub const MOST_SPANS: usize = 50_000;
/// Most ports in a recorded tree.
pub const MOST_TREE_PORTS: usize = 1_000;
/// Most victims in the list.
pub const MOST_VICTIMS: usize = 1_000;

/// A paused transmitter: port and priority.
type Cell = (u32, u8);

/// What was last seen of a transmitter that was paused at the last sample.
#[derive(Clone, Copy)]
struct Seen {
    since: Time,
    root: Option<u32>,
    /// Its stretch in the picture, if there was room.
    span: Option<usize>,
}

/// A flow that was held up by what it has no part in.
#[derive(Clone, Copy, Default)]
struct Suffered {
    samples: u64,
    root: u32,
    /// By how many samples this root is ahead of others.
    ahead: u64,
}

impl Suffered {
    /// One more sample. A root that holds the flow up at more than half of its samples is the one kept in the end (majority vote of Boyer
    /// and Moore, 1981).
    fn add(&mut self, root: u32) {
        self.samples += 1;
        if self.ahead == 0 {
            self.root = root;
        }
        if self.root == root { self.ahead += 1 } else { self.ahead -= 1 }
    }
}

/// Takes the samples of a run.
pub(crate) struct PauseWatch {
    interval: Time,
    next: Time,
    records: PauseRecords,
    /// Since which sample there has been a cycle at every one.
    cycle_since: Option<Time>,
    /// Index into the roots.
    roots: BTreeMap<(RootKind, u32, u8), u32>,
    /// Of those seen at the last sample.
    seen: BTreeMap<Cell, Seen>,
    victims: BTreeMap<u32, Suffered>,
}

impl PauseWatch {
    pub(crate) fn new(start: Time, interval: Time) -> PauseWatch {
        PauseWatch {
            interval,
            next: start,
            records: PauseRecords { start, interval, ..PauseRecords::default() },
            cycle_since: None,
            roots: BTreeMap::new(),
            seen: BTreeMap::new(),
            victims: BTreeMap::new(),
        }
    }

    /// One sample; `flows` calls back with every flow that is under way: its number, hosts and hash.
    fn sample<B: Body>(
        &mut self, now: Time, fabric: &mut Fabric<B>, flows: impl FnOnce(&mut dyn FnMut(u32, u32, u32, u32)),
    ) {
        self.records.samples += 1;
        self.log(fabric);
        let tree = pause_tree(fabric);
        let roots: Vec<Option<u32>> = tree.ports.iter().map(|p| self.root(p.cause, p.priority, now)).collect();
        self.count(&tree, &roots);
        self.span(now, &tree, &roots);
        self.cycle_since = (!tree.cycle.is_empty()).then(|| self.cycle_since.unwrap_or(now));
        if !tree.cycle.is_empty() && self.records.cycle.is_none() {
            let ports = tree.cycle.iter().map(|port| port.0).collect();
            self.records.cycle = Some(BufferCycle { first: now, ports, at_end: false, cut: false });
        }
        let paused = tree.paused().count() as u32;
        self.records.most_paused = self.records.most_paused.max(paused);
        if paused > self.records.worst.as_ref().map_or(0, |worst| worst.paused) {
            self.records.worst = Some(record(now, paused, &tree, &roots));
        }
        if paused > 0 {
            let (topology, routes) = (fabric.topology().clone(), fabric.routes().clone());
            // Data that a paused port holds up, by port.
            let held: BTreeMap<PortId, usize> = tree.ports[..paused as usize]
                .iter()
                .enumerate()
                .filter(|(_, paused)| paused.priority == DATA_PRIORITY && paused.cause != Cause::Released)
                .map(|(index, paused)| (paused.port, index))
                .collect();
            flows(&mut |flow, src, dst, hash| {
                let path = routes.path(&topology, HostId(src), HostId(dst), hash);
                let innocent =
                    |index: &usize| !path.iter().any(|port| tree.is_at_root(tree.ports[*index].cause, *port));
                let held = path.iter().filter_map(|port| held.get(port).copied());
                if let Some(root) = held.filter(innocent).find_map(|index| roots[index]) {
                    self.victims.entry(flow).or_default().add(root);
                }
            });
        }
    }

    /// Takes over the pauses that have ended since the last sample.
    fn log<B: Body>(&mut self, fabric: &mut Fabric<B>) {
        let (mut ended, left_out) = fabric.take_pauses();
        self.records.pauses_left_out += left_out;
        ended.sort_unstable_by_key(|pause| (pause.from, pause.port, pause.priority));
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
        if self.records.log.len() < MOST_PAUSES {
            self.records.log.push(row);
        } else {
            self.records.pauses_left_out += 1;
        }
    }

    /// The index of a root, which is made if it is new.
    fn root(&mut self, cause: Cause, priority: u8, now: Time) -> Option<u32> {
        let (kind, port) = match cause {
            Cause::Congestion { port } => (RootKind::Congestion, port),
            Cause::Nic { port } => (RootKind::Nic, port),
            Cause::Cycle { port } => (RootKind::Cycle, port),
            Cause::Released => return None,
        };
        let port = port.0;
        Some(*self.roots.entry((kind, port, priority)).or_insert_with(|| {
            self.records.roots.push(PauseRoot { kind, port, priority, first: now, samples: 0, most_ports: 0 });
            self.records.roots.len() as u32 - 1
        }))
    }

    /// Counts how many ports each root holds.
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
            root.most_ports = root.most_ports.max(ports);
        }
    }

    /// Draws the sample into the picture: a stretch of time goes on as long as the port is paused at each sample for the same root.
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
                None if self.records.spans.len() < MOST_SPANS => {
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

    /// What was found in a run that ended at `end` with these records; `cut`: by its duration.
    pub(crate) fn finish<B: Body>(
        mut self, fabric: &mut Fabric<B>, end: Time, cut: bool, flows: &FlowLog, warnings: &mut Vec<String>,
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
            self.records.cycle = Some(BufferCycle { first, ports, at_end: true, cut });
        }
        for span in &mut self.records.spans {
            span.to = span.to.min(end);
        }
        let victim = |(flow, suffered): (u32, Suffered)| {
            let record = flows.get(flow)?;
            Some(Victim {
                flow,
                src: record.src,
                dst: record.dst,
                samples: suffered.samples,
                root: suffered.root,
                finished: record.finish.is_some(),
                goodput: goodput_bps(&record, end).unwrap_or(0.0),
            })
        };
        let mut victims: Vec<Victim> = std::mem::take(&mut self.victims).into_iter().filter_map(victim).collect();
        victims.sort_by_key(|victim| (std::cmp::Reverse(victim.samples), victim.flow));
        self.records.victim_count = victims.len() as u64;
        victims.truncate(MOST_VICTIMS);
        self.records.victims = victims;
        if self.records.pauses_left_out > 0 {
            warnings.push(format!(
                "the log of pauses has {MOST_PAUSES}; {} more are counted only",
                self.records.pauses_left_out
            ));
        }
        if self.records.spans_left_out > 0 {
            warnings
                .push("the picture of pauses is not complete: there are too many; watch a shorter time".to_string());
        }
        self.records
    }
}

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
    let ports = tree.ports.iter().zip(roots).take(MOST_TREE_PORTS).map(port).collect();
    PauseTreeRecord { at, paused, ports }
}

impl<H: RunHosts> Watcher<H> for PauseWatch {
    fn next(&self) -> Time {
        self.next
    }
    fn observe(&mut self, now: Time, fabric: &mut Fabric<BodyOf<H>>, hosts: &mut H) {
        self.sample(now, fabric, |visit| {
            for (flow, src, dst, hash) in hosts.under_way(now) {
                visit(flow, src, dst, hash);
            }
        });
        self.next = now.saturating_add(self.interval);
    }
}
