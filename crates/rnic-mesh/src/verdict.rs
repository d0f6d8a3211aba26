//! The controller's knowledge of the network: results by scope, pair of ToR switches, pair of hosts and path; alarms;
//! and the suspects of the localisation. This module uses neither sockets nor clocks: times are in ms of a monotonic
//! clock.

use crate::alarm::Alarms;
use crate::histogram::Histogram;
use crate::inventory::{Inventory, Scope};
use crate::parts::{Parts, Routes, UNTRACED};
use crate::presence::{Held, Presence, Waiting};
use crate::record::{Batch, ProbeResult, Trace};
use crate::suspects::Suspects;
pub use crate::suspects::{Finding, Symptom};
use crate::window::{Cell, Series, Window};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Length in ms of the time slots of a path. The localisation uses the current and the previous slot.
const PATH_MS: u64 = 30_000;
/// Length in ms and number of the time slots of a pair of hosts.
const PAIR_MS: u64 = 60_000;
const PAIR_SLOTS: u64 = 10;
/// Maximum number of pairs of hosts with results. More pairs than this occur only if agents invent targets.
const MAX_PAIRS: usize = 4_000_000;

/// The results of a pair of hosts in one minute.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Minute {
    /// Number of the minute, by the monotonic clock.
    pub slot: u64,
    /// Number of probes.
    pub probes: u32,
    /// Number of lost probes.
    pub lost: u32,
    /// Number of answered probes whose network round-trip time is known.
    pub answered: u32,
    /// Sum of these round-trip times in ns.
    pub sum_ns: u64,
    /// Maximum of these round-trip times in ns.
    pub max_ns: u64,
}

/// Numbers of all, lost and slow probes on a path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PathCounts {
    slot: u64,
    /// Number of probes.
    pub probes: u32,
    /// Number of lost probes.
    pub lost: u32,
    /// Number of slow probes.
    pub slow: u32,
}

/// A path between two hosts.
#[derive(Clone, Debug)]
pub struct Path {
    /// Number of the path. Both hosts of the pair use the same numbers.
    pub number: u16,
    /// UDP source port.
    pub source_port: u16,
    now: PathCounts,
    before: PathCounts,
    /// Number of its route.
    pub(crate) route: u32,
    complete: bool,
}

impl Path {
    fn new(number: u16) -> Path {
        let (now, before) = Default::default();
        Path { number, source_port: 0, now, before, route: UNTRACED, complete: false }
    }

    /// Number of the 30 s slot in which the path was last probed.
    pub(crate) fn last_slot(&self) -> u64 {
        self.now.slot
    }

    /// The counts of the last 30 to 60 seconds.
    pub fn counts(&self, now: u64) -> PathCounts {
        let slot = now / PATH_MS;
        let mut sum = PathCounts { slot, ..PathCounts::default() };
        for counts in [self.now, self.before] {
            if counts.slot + 1 >= slot {
                sum.probes += counts.probes;
                sum.lost += counts.lost;
                sum.slow += counts.slow;
            }
        }
        sum
    }

    fn current(&mut self, now: u64) -> &mut PathCounts {
        let slot = now / PATH_MS;
        if self.now.slot != slot {
            self.before = self.now;
            self.now = PathCounts { slot, ..PathCounts::default() };
        }
        &mut self.now
    }
}

/// A prober and a target.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    /// The last ten minutes, the oldest first.
    pub minutes: VecDeque<Minute>,
    /// The paths by number: the current ones, and some that were in use before a rotation.
    pub paths: Vec<Path>,
}

impl Pair {
    /// The path with this number.
    pub fn path(&self, number: u16) -> Option<&Path> {
        self.paths.binary_search_by_key(&number, |path| path.number).ok().and_then(|at| self.paths.get(at))
    }

    /// The path with this number. If the pair already has `max` paths, a new path replaces the least recently probed
    /// path.
    fn path_mut(&mut self, number: u16, max: usize) -> &mut Path {
        let at = match self.paths.binary_search_by_key(&number, |path| path.number) {
            Ok(at) => at,
            Err(_) => {
                if self.paths.len() >= max {
                    let oldest = (0..self.paths.len()).min_by_key(|at| self.paths[*at].now.slot);
                    self.paths.remove(oldest.unwrap_or(0));
                }
                let at = self.paths.partition_point(|path| path.number < number);
                self.paths.insert(at, Path::new(number));
                at
            }
        };
        &mut self.paths[at]
    }
}

/// The delays in the software of a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Software {
    slot: u64,
    now: [Histogram; 2],
    before: [Histogram; 2],
}

impl Software {
    fn add(&mut self, now: u64, which: usize, ns: u64) {
        let slot = now / PATH_MS;
        if self.slot != slot {
            self.before = std::mem::take(&mut self.now);
            self.slot = slot;
        }
        self.now[which].add(ns);
    }

    pub(crate) fn median_us(&self, now: u64, which: usize) -> Option<f64> {
        let mut sum = self.now[which].clone();
        sum.merge(&self.before[which]);
        (self.slot + 1 >= now / PATH_MS && sum.len() >= 10).then(|| sum.quantile(0.5).map(|ns| ns / 1e3)).flatten()
    }
}

/// Counters of a pair of ToR switches since the start of the controller.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Probes.
    pub probes: u64,
    /// Answered probes.
    pub answered: u64,
    /// Lost probes.
    pub lost: u64,
}

/// The state of a mesh.
pub struct Mesh {
    pub(crate) inventory: Arc<Inventory>,
    pub(crate) scopes: [Series; 4],
    pub(crate) tor_pairs: BTreeMap<(u32, u32), (Series, Totals)>,
    pub(crate) pairs: BTreeMap<(u32, u32), Pair>,
    pub(crate) software: Vec<Software>,
    /// Incarnation and sequence number of the last counted batch, by host.
    pub(crate) counted: BTreeMap<u32, (u64, u64)>,
    pub(crate) parts: Parts,
    pub(crate) routes: Routes,
    pub(crate) slow_ns: [f64; 4],
    pub(crate) alarms: Alarms,
    pub(crate) findings: Vec<Finding>,
    pub(crate) suspects: Suspects,
    /// Agents that are silent, which the controller knows.
    silent: Vec<Finding>,
    /// Probes without a response to targets that may be up or down.
    pub(crate) waiting: Waiting,
    probes: u64,
    gone: u64,
}

impl Mesh {
    /// A mesh without results.
    pub fn new(inventory: Arc<Inventory>) -> Mesh {
        Mesh {
            software: vec![Software::default(); inventory.hosts.len()],
            parts: Parts::new(&inventory),
            routes: Routes::default(),
            inventory,
            scopes: Default::default(),
            tor_pairs: BTreeMap::new(),
            pairs: BTreeMap::new(),
            counted: BTreeMap::new(),
            slow_ns: [f64::INFINITY; 4],
            alarms: Alarms::default(),
            findings: Vec::new(),
            suspects: Suspects::default(),
            silent: Vec::new(),
            waiting: Waiting::default(),
            probes: 0,
            gone: 0,
        }
    }

    /// The inventory.
    pub fn inventory(&self) -> &Arc<Inventory> {
        &self.inventory
    }

    /// The name of a part of the network.
    pub fn part_name(&self, part: u32) -> &str {
        self.parts.name(part)
    }

    /// Counts a batch that the controller received at `now`; a batch that was counted before is ignored. `presence`
    /// returns whether the agent of a host is up with an incarnation. If the target is down, a missing response is not
    /// a loss of the network. If the presence is unknown, the probe waits for [`Mesh::settle`].
    pub fn add(&mut self, batch: &Batch, now: u64, presence: impl Fn(u32, u64) -> Presence) {
        let Some(prober) = self.inventory.index(&batch.host) else { return };
        let last = self.counted.get(&prober);
        if last.is_some_and(|(incarnation, last)| *incarnation == batch.incarnation && batch.sequence <= *last) {
            return;
        }
        self.counted.insert(prober, (batch.incarnation, batch.sequence));
        let known = |(name, incarnation): &(String, u64)| {
            let target = self.inventory.index(name)?;
            Some((target, *incarnation, presence(target, *incarnation)))
        };
        let targets: Vec<Option<(u32, u64, Presence)>> = batch.targets.iter().map(known).collect();
        for probe in &batch.probes {
            // Results of a target that is no longer in the inventory are ignored.
            let Some((target, incarnation, presence)) = targets[usize::from(probe.target)] else { continue };
            let path = (probe.path, batch.source_ports[usize::from(probe.path)]);
            self.judge(Held { ends: (prober, target), incarnation, path, at: now }, probe.result, presence);
        }
        for trace in &batch.traces {
            if let Some((target, ..)) = targets[usize::from(trace.target)] {
                self.trace(prober, target, trace);
            }
        }
    }

    /// Notes that the results of a host were counted up to the batch `last`, given by its incarnation and sequence
    /// number.
    pub fn counted_before(&mut self, host: &str, last: (u64, u64)) {
        if let Some(host) = self.inventory.index(host) {
            self.counted.entry(host).or_insert(last);
        }
    }

    /// Counts a result that an earlier controller received. `now` must not decrease from one result to the next. If
    /// `presence` is `Unknown`, a timeout is held back.
    pub fn restore(&mut self, ends: (u32, u32), path: (u16, u16), result: ProbeResult, now: u64, presence: Presence) {
        self.judge(Held { ends, incarnation: 0, path, at: now }, result, presence);
    }

    /// Counts a result, or holds it back until the presence of the target is known.
    fn judge(&mut self, probe: Held, result: ProbeResult, presence: Presence) {
        let Held { ends, path, at, .. } = probe;
        match (result, presence) {
            (ProbeResult::Timeout, Presence::Down) => self.probe(ends, path, ProbeResult::Gone, at),
            (ProbeResult::Timeout, Presence::Unknown) => {
                if let Some(Held { ends, path, .. }) = self.waiting.hold(probe) {
                    self.probe(ends, path, ProbeResult::Gone, at);
                }
            }
            (result, _) => self.probe(ends, path, result, at),
        }
    }

    /// Counts the held probes to targets whose presence at `now` is known to `presence`.
    pub fn settle(&mut self, now: u64, presence: impl Fn(&Held) -> Presence) {
        for (held, presence) in self.waiting.settled(presence) {
            self.judge(Held { at: now, ..held }, ProbeResult::Timeout, presence);
        }
    }

    /// Target and incarnation of each held probe, without duplicates.
    pub fn held(&self) -> std::collections::BTreeSet<(u32, u64)> {
        self.waiting.iter().map(|held| (held.ends.1, held.incarnation)).collect()
    }

    fn probe(&mut self, (prober, target): (u32, u32), (path, source_port): (u16, u16), result: ProbeResult, now: u64) {
        self.probes += 1;
        if result == ProbeResult::Gone || prober == target {
            self.gone += 1;
            return;
        }
        let scope = self.inventory.scope(prober, target) as usize;
        self.scopes[scope].add(now, result);
        let tors = (self.inventory.host(prober).tor, self.inventory.host(target).tor);
        let (series, totals) = self.tor_pairs.entry(tors).or_default();
        series.add(now, result);
        totals.probes += 1;
        totals.answered += u64::from(!result.is_lost());
        totals.lost += u64::from(result.is_lost());
        if let ProbeResult::Answered { prober_ns, split_ns, .. } = result {
            self.software[prober as usize].add(now, 0, prober_ns);
            if let Some((responder_ns, _)) = split_ns {
                self.software[target as usize].add(now, 1, responder_ns);
            }
        }
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&(prober, target)) {
            return;
        }
        let pair = self.pairs.entry((prober, target)).or_default();
        let slot = now / PAIR_MS;
        if pair.minutes.back().is_none_or(|last| last.slot < slot) {
            pair.minutes.push_back(Minute { slot, ..Minute::default() });
            while pair.minutes.front().is_some_and(|first| first.slot + PAIR_SLOTS <= slot) {
                pair.minutes.pop_front();
            }
        }
        let network = result.network_ns();
        if let Some(minute) = pair.minutes.back_mut() {
            minute.probes += 1;
            minute.lost += u32::from(result.is_lost());
            minute.answered += u32::from(network.is_some());
            minute.sum_ns = minute.sum_ns.saturating_add(network.unwrap_or(0));
            minute.max_ns = minute.max_ns.max(network.unwrap_or(0));
        }
        let slow = network.is_some_and(|ns| ns as f64 > self.slow_ns[scope]);
        let path = pair.path_mut(path, 2 * usize::from(self.inventory.settings.paths));
        path.source_port = source_port;
        let counts = path.current(now);
        counts.probes += 1;
        counts.lost += u32::from(result.is_lost());
        counts.slow += u32::from(slow);
    }

    fn trace(&mut self, prober: u32, target: u32, trace: &Trace) {
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&(prober, target)) {
            return;
        }
        let (hops, complete) = self.parts.hops(&self.inventory, target, &trace.hops);
        let most = 2 * usize::from(self.inventory.settings.paths);
        let path = self.pairs.entry((prober, target)).or_default().path_mut(trace.path, most);
        // A trace that ends early may end at the fault, so it does not replace a complete one.
        if complete || !path.complete {
            path.route = self.routes.number(&mut self.parts, &hops);
            path.complete = complete;
        }
        if self.routes.is_full() {
            let paths = self.pairs.values_mut().flat_map(|pair| &mut pair.paths);
            self.routes.retain(paths.map(|path| &mut path.route));
        }
    }

    /// The switches on a path, as part numbers for [`Mesh::part_name`]; `None` for a hop that did not respond.
    pub fn hops(&self, path: &Path) -> &[Option<u32>] {
        self.routes.hops(path.route)
    }

    /// Sets the suspects whose agents are silent. They are suspects from the next evaluation on.
    pub fn set_silent(&mut self, silent: Vec<Finding>) {
        self.silent = silent;
    }

    /// The suspects whose agents are silent.
    pub(crate) fn silent(&self) -> &[Finding] {
        &self.silent
    }

    /// The suspects over time.
    pub fn suspects(&self) -> &Suspects {
        &self.suspects
    }

    /// The latest findings.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The alarms.
    pub fn alarms(&self) -> &Alarms {
        &self.alarms
    }

    /// The probes of a scope.
    pub fn scope(&self, scope: Scope, window: Window, now: u64) -> Cell {
        self.scopes[scope as usize].over(window, now)
    }

    /// The pairs of ToR switches with probes, by index: series and counters.
    pub fn tor_pairs(&self) -> impl Iterator<Item = ((u32, u32), &Series, Totals)> {
        self.tor_pairs.iter().map(|(tors, (series, totals))| (*tors, series, *totals))
    }

    /// The series of a pair of ToR switches.
    pub fn tor_pair(&self, from: u32, to: u32) -> Option<&Series> {
        self.tor_pairs.get(&(from, to)).map(|(series, _)| series)
    }

    /// The pairs of hosts with probes between two ToR switches.
    pub fn pairs_of(&self, from: u32, to: u32) -> impl Iterator<Item = ((u32, u32), &Pair)> {
        let tor = |host: u32| self.inventory.host(host).tor;
        let probers = (0..self.inventory.hosts.len() as u32).filter(move |host| tor(*host) == from);
        let of_prober = |prober: u32| self.pairs.range((prober, 0)..=(prober, u32::MAX));
        probers.flat_map(of_prober).filter(move |((_, target), _)| tor(*target) == to).map(|(key, pair)| (*key, pair))
    }

    /// The results of a pair of hosts.
    pub fn pair(&self, prober: u32, target: u32) -> Option<&Pair> {
        self.pairs.get(&(prober, target))
    }

    /// Median delays of a host's software as prober and as responder, in microseconds.
    pub fn software_us(&self, host: u32, now: u64) -> [Option<f64>; 2] {
        [0, 1].map(|which| self.software[host as usize].median_us(now, which))
    }

    /// Number of results since the start, and number of these results that do not concern the network.
    pub fn counts(&self) -> (u64, u64) {
        (self.probes, self.gone)
    }
}
