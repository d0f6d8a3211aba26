//! All that the controller knows about the network: results by scope, pair of ToR switches, pair of hosts and path,
//! alarms, and the suspects of the localisation. It uses neither sockets nor clocks: time is in ms of a clock that does
//! not go back.

use crate::alarm::{About, Alarms};
use crate::histogram::Histogram;
use crate::inventory::{Inventory, Scope};
use crate::localise::{Observation, Rules, Suspect, localise};
use crate::record::{Batch, ProbeResult, Trace};
use crate::window::{Cell, Series, Window};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Length of the slots of a path; the localisation looks at the current and the last one.
const PATH_MS: u64 = 30_000;
/// Length and number of the slots of a pair of hosts.
const PAIR_MS: u64 = 60_000;
const PAIR_SLOTS: u64 = 10;
/// Maximum number of pairs of hosts that are remembered. An honest mesh has fewer.
const MAX_PAIRS: usize = 4_000_000;
/// A probe is slow above this multiple of the scope's median, and above this time.
const SLOW_FACTOR: f64 = 5.0;
const SLOW_MIN_NS: f64 = 50_000.0;
/// Minimum number of answered probes for a median.
const MIN_MEDIAN: u64 = 100;

/// A minute of a pair of hosts.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Minute {
    /// Number of the minute.
    pub slot: u64,
    /// Number of probes.
    pub probes: u32,
    /// Number of lost ones.
    pub lost: u32,
    /// Number of answered ones whose network time is known, and the sum and the maximum of these times in ns.
    pub answered: u32,
    /// Sum in ns.
    pub sum_ns: u64,
    /// Maximum in ns.
    pub max_ns: u64,
}

/// Counts of a path: all probes, lost and slow ones.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PathCounts {
    slot: u64,
    /// Number of probes.
    pub probes: u32,
    /// Number of lost ones.
    pub lost: u32,
    /// Number of slow ones.
    pub slow: u32,
}

/// A path between two hosts.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// UDP source port.
    pub source_port: u16,
    now: PathCounts,
    before: PathCounts,
    /// The switches on the path, as numbers of [`Mesh::part_name`]; `None` for a hop that did not answer.
    pub hops: Vec<Option<u32>>,
    complete: bool,
}

impl Path {
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
    /// The paths.
    pub paths: Vec<Path>,
}

/// The delays in the software of a host.
#[derive(Clone, Debug, Default)]
struct Software {
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

    fn median_us(&self, now: u64, which: usize) -> Option<f64> {
        let mut sum = self.now[which].clone();
        sum.merge(&self.before[which]);
        (self.slot + 1 >= now / PATH_MS && sum.len() >= 10).then(|| sum.quantile(0.5).map(|ns| ns / 1e3)).flatten()
    }
}

/// What is wrong with a suspect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Symptom {
    /// Probes through it are lost.
    Loss,
    /// Probes through it are slow.
    Delay,
    /// Its agent answers late: the software of the host is slow, not the network.
    SlowHost,
}

/// A suspect of the localisation, in words.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Finding {
    /// What is wrong.
    pub symptom: Symptom,
    /// The part of the network, and others that the probes cannot tell from it.
    pub parts: Vec<String>,
    /// Number of probes through it.
    pub probes: u64,
    /// Number of bad ones.
    pub bad: u64,
    /// Logarithm of the likelihood ratio; for a slow host, its delay divided by that of the others.
    pub score: f64,
}

/// Counters of a pair of ToR switches since the start of the controller.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Probes.
    pub probes: u64,
    /// Answered ones.
    pub answered: u64,
    /// Lost ones.
    pub lost: u64,
}

/// The state of a mesh.
pub struct Mesh {
    inventory: Arc<Inventory>,
    scopes: [Series; 4],
    tor_pairs: BTreeMap<(u32, u32), (Series, Totals)>,
    pairs: BTreeMap<(u32, u32), Pair>,
    software: Vec<Software>,
    /// Last batch of each host that was counted.
    counted: BTreeMap<u32, (u64, u64)>,
    parts: Parts,
    slow_ns: [f64; 4],
    alarms: Alarms,
    findings: Vec<Finding>,
    probes: u64,
    gone: u64,
}

/// Names of the parts of the network: hosts, switches and links.
#[derive(Default)]
struct Parts {
    names: Vec<String>,
    numbers: BTreeMap<String, u32>,
    links: BTreeMap<(u32, u32), u32>,
}

impl Parts {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_string());
        self.numbers.insert(name.to_string(), number);
        number
    }

    fn link(&mut self, a: u32, b: u32) -> u32 {
        let ends = (a.min(b), a.max(b));
        if let Some(number) = self.links.get(&ends) {
            return *number;
        }
        let mut names = [&self.names[a as usize], &self.names[b as usize]]
            .map(|name| name.strip_prefix("switch ").unwrap_or(name).to_string());
        names.sort();
        let number = self.number(&format!("link {}", names.join(" - ")));
        self.links.insert(ends, number);
        number
    }
}

impl Mesh {
    /// A mesh without results.
    pub fn new(inventory: Arc<Inventory>) -> Mesh {
        let mut parts = Parts::default();
        // The parts of a host have the number of the host.
        for host in &inventory.hosts {
            parts.number(&format!("host {}", host.name));
        }
        Mesh {
            software: vec![Software::default(); inventory.hosts.len()],
            inventory,
            scopes: Default::default(),
            tor_pairs: BTreeMap::new(),
            pairs: BTreeMap::new(),
            counted: BTreeMap::new(),
            parts,
            slow_ns: [f64::INFINITY; 4],
            alarms: Alarms::default(),
            findings: Vec::new(),
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
        &self.parts.names[part as usize]
    }

    /// Counts a batch that the controller received at `now`; a batch that was counted before is ignored. `is_up` says
    /// whether the agent of a host is up with an incarnation: if it is not, its silence is no loss.
    pub fn add(&mut self, batch: &Batch, now: u64, is_up: impl Fn(u32, u64) -> bool) {
        let Some(prober) = self.inventory.index(&batch.host) else { return };
        let last = self.counted.get(&prober);
        if last.is_some_and(|(incarnation, last)| *incarnation == batch.incarnation && batch.sequence <= *last) {
            return;
        }
        self.counted.insert(prober, (batch.incarnation, batch.sequence));
        let targets: Vec<Option<(u32, bool)>> = batch
            .targets
            .iter()
            .map(|(name, incarnation)| self.inventory.index(name).map(|target| (target, is_up(target, *incarnation))))
            .collect();
        for probe in &batch.probes {
            // A target that has left the inventory tells nothing any more.
            let Some((target, up)) = targets[usize::from(probe.target)] else { continue };
            let result = if probe.result == ProbeResult::Timeout && !up { ProbeResult::Gone } else { probe.result };
            let source_port = batch.source_ports[usize::from(probe.path)];
            self.probe((prober, target), (probe.path, source_port), result, now);
        }
        for trace in &batch.traces {
            if let Some((target, _)) = targets[usize::from(trace.target)] {
                self.trace(prober, target, trace);
            }
        }
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
            minute.sum_ns += network.unwrap_or(0);
            minute.max_ns = minute.max_ns.max(network.unwrap_or(0));
        }
        let slow = network.is_some_and(|ns| ns as f64 > self.slow_ns[scope]);
        let path = path_mut(pair, path);
        path.source_port = source_port;
        let counts = path.current(now);
        counts.probes += 1;
        counts.lost += u32::from(result.is_lost());
        counts.slow += u32::from(slow);
    }

    fn trace(&mut self, prober: u32, target: u32, trace: &Trace) {
        let inventory = self.inventory.clone();
        let name = |address: &std::net::IpAddr| match inventory.switches.get(&address.to_canonical()) {
            Some(name) => format!("switch {name}"),
            None => format!("switch {address}"),
        };
        let mut hops: Vec<Option<u32>> =
            trace.hops.iter().map(|hop| hop.as_ref().map(|address| self.parts.number(&name(address)))).collect();
        while hops.last() == Some(&None) {
            hops.pop();
        }
        let tor = self.parts.number(&format!("switch {}", inventory.tor_of(target).name));
        let known = inventory.switches.values().any(|name| *name == inventory.tor_of(target).name);
        let complete =
            hops.iter().all(Option::is_some) && !hops.is_empty() && (!known || hops.last() == Some(&Some(tor)));
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&(prober, target)) {
            return;
        }
        let path = path_mut(self.pairs.entry((prober, target)).or_default(), trace.path);
        // A trace that ends early may end at the fault, so it does not replace a complete one.
        if complete || !path.complete {
            path.hops = hops;
            path.complete = complete;
        }
    }

    /// Judges everything: alarms, and suspects. To be called regularly.
    pub fn evaluate(&mut self, now: u64) {
        for (number, rule) in self.inventory.clone().rules.iter().enumerate() {
            let rule = (number, rule);
            match rule.1.about {
                About::Scope => {
                    for scope in Scope::ALL.into_iter().filter(|scope| rule.1.applies(*scope)) {
                        let cell = self.scopes[scope as usize].over(rule.1.over, now);
                        self.alarms.judge(rule, &format!("scope {}", scope.name()), &cell, now);
                    }
                }
                About::TorPair => {
                    for ((a, b), (series, _)) in &self.tor_pairs {
                        let (a, b) = (&self.inventory.tors[*a as usize], &self.inventory.tors[*b as usize]);
                        if rule.1.applies(a.scope(b)) {
                            let about = format!("{} to {}", a.name, b.name);
                            self.alarms.judge(rule, &about, &series.over(rule.1.over, now), now);
                        }
                    }
                }
            }
        }
        for scope in Scope::ALL {
            let cell = self.scopes[scope as usize].over(Window::TenMinutes, now);
            let median = cell.network.quantile(0.5).filter(|_| cell.network.len() >= MIN_MEDIAN);
            self.slow_ns[scope as usize] = median.map_or(f64::INFINITY, |ns| (ns * SLOW_FACTOR).max(SLOW_MIN_NS));
        }
        let mut findings = Vec::new();
        for (symptom, rules) in [(Symptom::Loss, Rules::LOSS), (Symptom::Delay, Rules::DELAY)] {
            let observations = self.observations(symptom, now);
            for Suspect { parts, probes, bad, score } in localise(&observations, rules) {
                let parts = parts.into_iter().map(|part| self.part_name(part).to_string()).collect();
                findings.push(Finding { symptom, parts, probes, bad, score });
            }
        }
        findings.extend(self.slow_hosts(now));
        self.findings = findings;
    }

    /// The observations of all paths over the last 30 to 60 seconds.
    pub fn observations(&mut self, symptom: Symptom, now: u64) -> Vec<Observation> {
        let mut observations = Vec::new();
        let (pairs, parts, inventory) = (&self.pairs, &mut self.parts, &self.inventory);
        for ((prober, target), pair) in pairs {
            for (number, path) in pair.paths.iter().enumerate() {
                let counts = path.counts(now);
                let (probes, bad) = match symptom {
                    Symptom::Loss => (counts.probes, counts.lost),
                    // A lost probe says nothing about delay.
                    _ => (counts.probes - counts.lost, counts.slow),
                };
                if probes == 0 {
                    continue;
                }
                let mut crossed = Vec::with_capacity(16);
                cross(parts, inventory, (*prober, *target), &path.hops, &mut crossed);
                let back = pairs.get(&(*target, *prober)).and_then(|pair| pair.paths.get(number));
                if let Some(back) = back.filter(|back| !back.hops.is_empty()) {
                    cross(parts, inventory, (*target, *prober), &back.hops, &mut crossed);
                }
                crossed.sort_unstable();
                crossed.dedup();
                observations.push(Observation { parts: crossed, probes, bad });
            }
        }
        observations
    }

    /// Hosts whose software is much slower than that of the median host.
    fn slow_hosts(&self, now: u64) -> Vec<Finding> {
        let mut findings: BTreeMap<u32, Finding> = BTreeMap::new();
        for which in 0..2 {
            let medians = (0..).zip(&self.software).filter_map(|(host, s)| Some((host, s.median_us(now, which)?)));
            let medians: Vec<(u32, f64)> = medians.collect();
            let mut sorted: Vec<f64> = medians.iter().map(|(_, us)| *us).collect();
            sorted.sort_unstable_by(f64::total_cmp);
            let Some(normal) = sorted.get(sorted.len() / 2).copied().filter(|_| sorted.len() >= 3) else { continue };
            for (host, us) in medians.into_iter().filter(|(_, us)| *us > 10.0 * normal && *us > normal + 1_000.0) {
                let parts = vec![self.part_name(host).to_string()];
                let finding = Finding { symptom: Symptom::SlowHost, parts, probes: 0, bad: 0, score: us / normal };
                findings.entry(host).or_insert(finding);
            }
        }
        findings.into_values().collect()
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

    /// Number of results since the start, and of results that say nothing about the network.
    pub fn counts(&self) -> (u64, u64) {
        (self.probes, self.gone)
    }
}

fn path_mut(pair: &mut Pair, path: u16) -> &mut Path {
    let at = usize::from(path);
    if pair.paths.len() <= at {
        pair.paths.resize(at + 1, Path::default());
    }
    &mut pair.paths[at]
}

/// Adds the parts that a packet from one host to another crosses. Of a path that was not traced, only the hosts and
/// their ToR switches are known.
fn cross(
    parts: &mut Parts, inventory: &Inventory, (from, to): (u32, u32), hops: &[Option<u32>], crossed: &mut Vec<u32>,
) {
    crossed.extend([from, to]);
    if hops.is_empty() {
        for host in [from, to] {
            crossed.push(parts.number(&format!("switch {}", inventory.tor_of(host).name)));
        }
        return;
    }
    crossed.extend(hops.iter().flatten());
    for ends in hops.windows(2) {
        if let [Some(a), Some(b)] = ends {
            crossed.push(parts.link(*a, *b));
        }
    }
}
