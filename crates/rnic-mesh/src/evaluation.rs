//! The evaluation of the results, in steps: it raises and clears alarms, and finds suspects.
//!
//! An evaluation of 10,000 hosts processes millions of paths. If the controller held the lock of the mesh for the whole
//! evaluation, it could not count reports in the meantime. So each [`Evaluation::step`] needs the mesh for a few
//! milliseconds only, and copies the counts of some paths; [`Evaluation::localise`], which takes most of the time,
//! works on the copy.

use crate::alarm::{About, Subject};
use crate::inventory::Scope;
use crate::localise::{Observation, Rules, Seen, localise};
use crate::parts::UNTRACED;
use crate::verdict::{Finding, Mesh, Symptom};
use crate::window::Window;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A probe is slow if its round-trip time is above this multiple of the scope's median, and above the minimum time.
const SLOW_FACTOR: f64 = 5.0;
const SLOW_MIN_NS: f64 = 50_000.0;
/// Minimum number of answered probes for a median.
const MIN_MEDIAN: u64 = 100;
/// Number of pairs of ToR switches that one step evaluates.
const TOR_PAIRS: usize = 1_000;
/// Number of pairs of hosts that one step copies.
const PAIRS: usize = 10_000;

/// Evaluates all alarms and suspects; the caller calls this periodically. A service that must not block for the whole
/// evaluation runs the steps of an [`Evaluation`] instead.
pub fn evaluate(mesh: &mut Mesh, now: u64) {
    let mut evaluation = Evaluation::new(now);
    while evaluation.step(mesh) {}
    evaluation.conclude(mesh);
}

/// The next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Scopes,
    /// The pairs of ToR switches after this one.
    TorPairs(Bound<(u32, u32)>),
    /// The pairs of hosts from this prober on.
    Pairs(u32),
    Done,
}

/// The counts of a path.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// Prober and target.
    ends: (u32, u32),
    number: u16,
    route: u32,
    probes: u32,
    lost: u32,
    slow: u32,
}

/// An evaluation of alarms and suspects in progress.
#[derive(Debug)]
pub struct Evaluation {
    now: u64,
    stage: Stage,
    /// [`Routes::generation`](crate::parts::Routes::generation) of the route numbers of the copied paths.
    generation: u64,
    paths: Vec<Counted>,
    /// Index of the first copied path of each prober.
    starts: Vec<usize>,
    /// Median delays in the software of each host.
    software: [Vec<(u32, f64)>; 2],
    seen: Seen,
    /// The ToR switch of each host, as a part number.
    tors: Vec<u32>,
    suspects: Option<Vec<(Symptom, Vec<crate::localise::Suspect>)>>,
}

impl Evaluation {
    /// An evaluation of the state at `now`.
    pub fn new(now: u64) -> Evaluation {
        Evaluation {
            now,
            stage: Stage::Scopes,
            generation: 0,
            paths: Vec::new(),
            starts: Vec::new(),
            software: Default::default(),
            seen: Seen::default(),
            tors: Vec::new(),
            suspects: None,
        }
    }

    /// Runs the next step. Returns whether more steps follow.
    pub fn step(&mut self, mesh: &mut Mesh) -> bool {
        self.stage = match self.stage {
            Stage::Scopes => {
                self.scopes(mesh);
                Stage::TorPairs(Bound::Unbounded)
            }
            Stage::TorPairs(after) => match self.tor_pairs(mesh, after) {
                Some(last) => Stage::TorPairs(Bound::Excluded(last)),
                None => Stage::Pairs(0),
            },
            Stage::Pairs(prober) => {
                let next = self.pairs(mesh, prober);
                if (next as usize) < mesh.inventory.hosts.len() { Stage::Pairs(next) } else { Stage::Done }
            }
            // The routes were renumbered since the paths were copied, so the paths are copied again.
            Stage::Done if self.generation != mesh.routes.generation() => Stage::Pairs(0),
            Stage::Done => {
                // Includes the routes of traces that arrived since the first step.
                self.seen.routes = mesh.routes.parts();
                self.seen.parts = mesh.parts.len();
                self.tors = (0..mesh.inventory.hosts.len() as u32).map(|host| mesh.parts.tor_of(host)).collect();
                return false;
            }
        };
        true
    }

    fn scopes(&self, mesh: &mut Mesh) {
        let inventory = mesh.inventory.clone();
        for (number, rule) in inventory.rules.iter().enumerate().filter(|(_, rule)| rule.about == About::Scope) {
            for scope in Scope::ALL.into_iter().filter(|scope| rule.applies(*scope)) {
                let name = || format!("scope {}", scope.name());
                let series = &mesh.scopes[scope as usize];
                mesh.alarms.watch((number, rule), Subject::Scope(scope), name, series, self.now);
            }
        }
        for scope in Scope::ALL {
            let cell = mesh.scopes[scope as usize].over(Window::TenMinutes, self.now);
            let median = cell.network.quantile(0.5).filter(|_| cell.network.len() >= MIN_MEDIAN);
            mesh.slow_ns[scope as usize] = median.map_or(f64::INFINITY, |ns| (ns * SLOW_FACTOR).max(SLOW_MIN_NS));
        }
    }

    /// Evaluates the alarms of some pairs of ToR switches. Returns the last of these pairs, or `None` if no pairs are
    /// left.
    fn tor_pairs(&self, mesh: &mut Mesh, after: Bound<(u32, u32)>) -> Option<(u32, u32)> {
        let inventory = mesh.inventory.clone();
        let mut last = None;
        for ((a, b), (series, _)) in mesh.tor_pairs.range((after, Bound::Unbounded)).take(TOR_PAIRS) {
            last = Some((*a, *b));
            let (from, to) = (&inventory.tors[*a as usize], &inventory.tors[*b as usize]);
            let scope = from.scope(to);
            for (number, rule) in inventory.rules.iter().enumerate().filter(|(_, rule)| rule.about == About::TorPair) {
                if rule.applies(scope) {
                    let name = || format!("{} to {}", from.name, to.name);
                    mesh.alarms.watch((number, rule), Subject::TorPair(*a, *b), name, series, self.now);
                }
            }
        }
        last
    }

    /// Copies the counts of the pairs of some probers; returns the next prober.
    fn pairs(&mut self, mesh: &Mesh, first: u32) -> u32 {
        let (now, mut count, mut prober) = (self.now, 0, first);
        if first == 0 {
            self.generation = mesh.routes.generation();
            self.paths.clear();
            self.starts.clear();
            self.software = Default::default();
        }
        while (prober as usize) < mesh.inventory.hosts.len() && count < PAIRS {
            self.starts.push(self.paths.len());
            for (ends, pair) in mesh.pairs.range((prober, 0)..=(prober, u32::MAX)) {
                count += 1;
                for path in &pair.paths {
                    let counts = path.counts(now);
                    self.paths.push(Counted {
                        ends: *ends,
                        number: path.number,
                        route: path.route,
                        probes: counts.probes,
                        lost: counts.lost,
                        slow: counts.slow,
                    });
                }
            }
            for (which, medians) in self.software.iter_mut().enumerate() {
                medians.extend(mesh.software[prober as usize].median_us(now, which).map(|us| (prober, us)));
            }
            prober += 1;
        }
        prober
    }

    /// Finds the suspects. Works on the copy, without the mesh.
    pub fn localise(&mut self) {
        let mut suspects = Vec::new();
        for (symptom, rules) in [(Symptom::Loss, Rules::LOSS), (Symptom::Delay, Rules::DELAY)] {
            let bad = |path: &Counted| if symptom == Symptom::Loss { path.lost } else { path.slow };
            if self.paths.iter().any(|path| bad(path) > 0) {
                self.seen.observations = self.observations(symptom);
                suspects.push((symptom, localise(&self.seen, rules)));
            }
        }
        self.suspects = Some(suspects);
    }

    fn observations(&self, symptom: Symptom) -> Vec<Observation> {
        let observed = |path: &Counted| {
            let (probes, bad) = match symptom {
                Symptom::Loss => (path.probes, path.lost),
                // A lost probe has no delay.
                _ => (path.probes - path.lost, path.slow),
            };
            if probes == 0 {
                return None;
            }
            let (prober, target) = path.ends;
            // If a path was not traced, only its hosts and their ToR switches are known.
            let ends = match path.route {
                UNTRACED => [prober, target, self.tors[prober as usize], self.tors[target as usize]],
                _ => [prober, target, prober, target],
            };
            Some(Observation { ends, routes: [path.route, self.back(path)], probes, bad })
        };
        self.paths.iter().filter_map(observed).collect()
    }

    /// The route of the response to a probe.
    fn back(&self, path: &Counted) -> u32 {
        let (prober, target) = path.ends;
        let start = self.starts[target as usize];
        let end = self.starts.get(target as usize + 1).copied().unwrap_or(self.paths.len());
        let of_target = &self.paths[start..end];
        let found = of_target.binary_search_by_key(&(prober, path.number), |back| (back.ends.1, back.number));
        found.map_or(UNTRACED, |at| of_target[at].route)
    }

    /// Stores the findings in the mesh.
    pub fn conclude(mut self, mesh: &mut Mesh) {
        if self.suspects.is_none() {
            self.localise();
        }
        mesh.findings = self.findings(mesh);
        mesh.suspects.update(&mesh.findings, self.now);
    }

    fn findings(&self, mesh: &Mesh) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (symptom, suspects) in self.suspects.iter().flatten() {
            for suspect in suspects {
                let parts = suspect.parts.iter().map(|part| mesh.part_name(*part).to_string()).collect();
                let (probes, bad, score) = (suspect.probes, suspect.bad, suspect.score);
                let worst = self
                    .worst(*symptom, &suspect.parts)
                    .map(|(prober, target)| [prober, target].map(|host| mesh.inventory.host(host).name.clone()));
                findings.push(Finding { symptom: *symptom, parts, probes, bad, score, worst });
            }
        }
        findings.extend(self.slow_hosts(mesh));
        findings.extend_from_slice(mesh.silent());
        findings
    }

    /// The pair of hosts with the most bad probes whose probes or responses cross a suspect.
    fn worst(&self, symptom: Symptom, parts: &[u32]) -> Option<(u32, u32)> {
        let of_route: Vec<bool> =
            self.seen.routes.iter().map(|on| parts.iter().any(|part| on.contains(part))).collect();
        let is_on = |route: u32| of_route.get(route as usize).copied().unwrap_or(false);
        let bad = |path: &Counted| if symptom == Symptom::Loss { path.lost } else { path.slow };
        let through = self.paths.iter().filter(|path| {
            let (a, b) = path.ends;
            let tors = [a, b].map(|host| self.tors.get(host as usize).copied().unwrap_or(u32::MAX));
            let untraced = path.route == UNTRACED && tors.iter().any(|tor| parts.contains(tor));
            bad(path) > 0
                && (parts.contains(&a) || parts.contains(&b) || untraced || is_on(path.route) || is_on(self.back(path)))
        });
        // Of equal pairs, the first one, so that the page does not change with each verdict.
        through.max_by_key(|path| (bad(path), std::cmp::Reverse(path.ends))).map(|path| path.ends)
    }

    /// Hosts whose median software delay is more than 10 times the median host's delay, and more than 1 ms longer.
    fn slow_hosts(&self, mesh: &Mesh) -> Vec<Finding> {
        let mut findings: BTreeMap<u32, Finding> = BTreeMap::new();
        for medians in &self.software {
            let mut sorted: Vec<f64> = medians.iter().map(|(_, us)| *us).collect();
            sorted.sort_unstable_by(f64::total_cmp);
            let Some(normal) = sorted.get(sorted.len() / 2).copied().filter(|_| sorted.len() >= 3) else { continue };
            for (host, us) in medians.iter().filter(|(_, us)| *us > 10.0 * normal && *us > normal + 1_000.0) {
                let parts = vec![mesh.part_name(*host).to_string()];
                let finding =
                    Finding { symptom: Symptom::SlowHost, parts, probes: 0, bad: 0, score: us / normal, worst: None };
                findings.entry(*host).or_insert(finding);
            }
        }
        findings.into_values().collect()
    }
}
