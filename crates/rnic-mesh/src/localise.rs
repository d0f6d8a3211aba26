//! Localisation: which part of the network the failing paths have in common.
//!
//! A probe crosses parts of the network (hosts, links and switches), and so does its response. Each observation is the
//! number of probes on one such path, and the number of bad (lost or slow) probes among them. If one part is faulty,
//! probes through it are bad with a higher probability than other probes. The search is greedy, as in SCORE (Kompella
//! et al., NSDI 2005), with the likelihood of Flock (Harsh et al., CoNEXT 2023). It selects the part that explains the
//! observations best: the part whose probability of bad probes, compared with the probability of all other probes,
//! gives the highest likelihood. It then removes the observations that this part explains, and repeats the search with
//! the remaining observations.
//!
//! For a part with k bad probes of n, and the background probability b, the logarithm of the likelihood ratio is k ln(p
//! / b) + (n - k) ln((1 - p) / (1 - b)), where p = k / n. If one link of a switch is bad, the switch has the same k as
//! the link and a larger n, so the link has the higher ratio.

use std::sync::Arc;

/// The probes on one path, and how many of them were bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Observation {
    /// Parts at the ends of the path, such as hosts; the same part may occur twice.
    pub ends: [u32; 4],
    /// Routes of the probe and of its response, as indexes into [`Seen::routes`]; an index beyond the end stands for no
    /// route.
    pub routes: [u32; 2],
    /// Number of probes.
    pub probes: u32,
    /// Number of bad probes.
    pub bad: u32,
}

/// The observations on all paths.
#[derive(Clone, Default, Debug)]
pub struct Seen {
    /// Number of parts. Part numbers are below this number.
    pub parts: usize,
    /// The parts on each route.
    pub routes: Vec<Arc<[u32]>>,
    /// The paths.
    pub observations: Vec<Observation>,
}

impl Seen {
    /// Calls `visit` for the parts on a path, some of them more than once.
    fn parts_of(&self, observation: &Observation, mut visit: impl FnMut(u32)) {
        observation.ends.iter().for_each(|part| visit(*part));
        for route in observation.routes {
            self.routes.get(route as usize).into_iter().flat_map(|parts| parts.iter()).for_each(|part| visit(*part));
        }
    }
}

/// Settings of [`localise`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rules {
    /// Minimum background probability of a bad probe.
    pub background: f64,
    /// Minimum logarithm of the likelihood ratio of a suspect.
    pub score: f64,
    /// Minimum number of bad probes of a suspect.
    pub bad: u32,
    /// Maximum number of suspects.
    pub suspects: usize,
}

impl Rules {
    /// Rules for lost probes: healthy networks lose less than one probe in a thousand.
    pub const LOSS: Rules = Rules { background: 1e-3, score: 15.0, bad: 3, suspects: 16 };
    /// Rules for slow probes: endpoints in software are occasionally slow.
    pub const DELAY: Rules = Rules { background: 2e-2, score: 20.0, bad: 5, suspects: 16 };
}

/// A part of the network that explains bad probes.
#[derive(Clone, PartialEq, Debug)]
pub struct Suspect {
    /// The suspected part, and other parts that the observations cannot distinguish from it.
    pub parts: Vec<u32>,
    /// Number of probes through the part, without probes that earlier suspects explain.
    pub probes: u64,
    /// Number of bad probes among them.
    pub bad: u64,
    /// Logarithm of the likelihood ratio.
    pub score: f64,
}

/// Sums over the observations through one part, without observations that suspects explain.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Through {
    paths: u32,
    probes: u64,
    bad: u64,
}

/// The last path on which each part was visited, so that a part that occurs twice on a path counts once.
struct Visited(Vec<u32>);

impl Visited {
    fn is_new(&mut self, part: u32, path: u32) -> bool {
        std::mem::replace(&mut self.0[part as usize], path) != path
    }
}

/// Finds the parts that explain the bad probes, the most likely part first. The time per suspect is proportional to the
/// number of paths, and the memory to the number of parts.
pub fn localise(seen: &Seen, rules: Rules) -> Vec<Suspect> {
    let mut suspects = Vec::new();
    if seen.observations.iter().map(|o| u64::from(o.bad)).sum::<u64>() < u64::from(rules.bad) {
        return suspects;
    }
    let mut through = vec![Through::default(); seen.parts];
    let mut visited = Visited(vec![u32::MAX; seen.parts]);
    for (path, observation) in (0..).zip(&seen.observations) {
        seen.parts_of(observation, |part| {
            if visited.is_new(part, path) {
                let sum = &mut through[part as usize];
                sum.paths += 1;
                sum.probes += u64::from(observation.probes);
                sum.bad += u64::from(observation.bad);
            }
        });
    }
    let mut explained = vec![false; seen.observations.len()];
    while suspects.len() < rules.suspects {
        let background = background(&through, rules);
        let mut best: Option<Suspect> = None;
        for (part, sum) in (0..).zip(&through).filter(|(_, sum)| sum.bad >= u64::from(rules.bad)) {
            let score = likelihood_ratio(sum.probes, sum.bad, background);
            if score >= rules.score && best.as_ref().is_none_or(|best| score > best.score) {
                best = Some(Suspect { parts: vec![part], probes: sum.probes, bad: sum.bad, score });
            }
        }
        let Some(mut suspect) = best else { break };
        suspect.parts = explain(seen, suspect.parts[0], &mut through, &mut explained, &mut visited);
        suspects.push(suspect);
    }
    suspects
}

/// Removes the paths through `suspect` from the sums. Returns the parts that are on exactly these paths, which the
/// observations cannot distinguish from the suspect.
fn explain(
    seen: &Seen, suspect: u32, through: &mut [Through], explained: &mut [bool], visited: &mut Visited,
) -> Vec<u32> {
    let on_route: Vec<bool> = seen.routes.iter().map(|parts| parts.contains(&suspect)).collect();
    let is_on = |route: u32| on_route.get(route as usize).copied().unwrap_or(false);
    // Two parts that are on exactly the same paths have equal sums before, and all paths of both are removed.
    let sums = through[suspect as usize];
    let alike: Vec<u32> = (0..).zip(&*through).filter(|(_, sum)| **sum == sums).map(|(part, _)| part).collect();
    visited.0.fill(u32::MAX);
    for ((path, observation), explained) in (0..).zip(&seen.observations).zip(explained) {
        let through_it = observation.ends.contains(&suspect) || observation.routes.iter().any(|route| is_on(*route));
        if *explained || !through_it {
            continue;
        }
        *explained = true;
        seen.parts_of(observation, |part| {
            if visited.is_new(part, path) {
                let sum = &mut through[part as usize];
                sum.paths -= 1;
                sum.probes -= u64::from(observation.probes);
                sum.bad -= u64::from(observation.bad);
            }
        });
    }
    alike.into_iter().filter(|part| through[*part as usize].paths == 0).collect()
}

/// The background probability: the probability that a probe through parts without fault is bad. It is estimated as the
/// first decile over all parts, and is at least the minimum of the rules. A low quantile is used because with few hosts
/// a fault touches most parts.
fn background(through: &[Through], rules: Rules) -> f64 {
    let with_probes = through.iter().filter(|sum| sum.probes > 0);
    let mut shares: Vec<f64> = with_probes.map(|sum| sum.bad as f64 / sum.probes as f64).collect();
    let decile = shares.len() / 10;
    let share = if shares.is_empty() { 0.0 } else { *shares.select_nth_unstable_by(decile, f64::total_cmp).1 };
    share.clamp(rules.background, 0.5)
}

fn likelihood_ratio(probes: u64, bad: u64, background: f64) -> f64 {
    let (n, k) = (probes as f64, bad as f64);
    let p = k / n;
    if p <= background {
        return 0.0;
    }
    let good = if bad == probes { 0.0 } else { (n - k) * ((1.0 - p) / (1.0 - background)).ln() };
    k * (p / background).ln() + good
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three ToRs (10 to 12), two spines (20, 21); hosts 0 to 2 below the first ToR, and so on. Part 100 + 10 t + s is
    /// the link from ToR t to spine s.
    fn fabric(bad: impl Fn(&[u32]) -> u32) -> Seen {
        let mut paths = Vec::new();
        for a in 0..9_u32 {
            for b in (0..9).filter(|b| *b != a) {
                for path in 0..4 {
                    let (ta, tb) = (a / 3, b / 3);
                    let mut parts = vec![a, b, 10 + ta];
                    if ta != tb {
                        let (there, back) = ((a + b + path) % 2, (a * 3 + b + path / 2) % 2);
                        for spine in [there, back] {
                            parts.extend([10 + tb, 20 + spine, 100 + 10 * ta + spine, 100 + 10 * tb + spine]);
                        }
                    }
                    parts.sort_unstable();
                    parts.dedup();
                    let bad = bad(&parts);
                    paths.push((parts, 20, bad));
                }
            }
        }
        seen(&paths)
    }

    /// Observations of paths over these parts. The first part is at both ends of the path; the other parts are on
    /// overlapping routes.
    fn seen(paths: &[(Vec<u32>, u32, u32)]) -> Seen {
        let mut seen = Seen { parts: 200, ..Seen::default() };
        for (parts, probes, bad) in paths {
            let half = parts.len() / 2;
            let first = seen.routes.len() as u32;
            seen.routes.extend([parts[..=half].into(), parts[half..].into()]);
            let (ends, routes) = ([parts[0]; 4], [first, first + 1]);
            seen.observations.push(Observation { ends, routes, probes: *probes, bad: *bad });
        }
        seen
    }

    fn found(seen: &Seen) -> Vec<Vec<u32>> {
        localise(seen, Rules::LOSS).into_iter().map(|suspect| suspect.parts).collect()
    }

    #[test]
    fn one_cause_is_named_whatever_it_is() {
        for cause in [0, 5, 10, 12, 20, 21, 100, 101, 110, 121] {
            for bad in [1, 5, 20] {
                let observations = fabric(|parts| if parts.contains(&cause) { bad } else { 0 });
                assert_eq!(found(&observations), [vec![cause]], "{cause} {bad}");
            }
        }
    }

    #[test]
    fn three_causes_are_named_together() {
        let bad = |parts: &[u32]| {
            let of = |part, share| if parts.contains(&part) { share } else { 0 };
            of(101, 20).max(of(5, 8)).max(of(110, 2))
        };
        let mut causes = found(&fabric(bad));
        causes.sort();
        assert_eq!(causes, [vec![5], vec![101], vec![110]]);
    }

    #[test]
    fn a_healthy_network_has_no_suspects() {
        assert_eq!(found(&fabric(|_| 0)), Vec::<Vec<u32>>::new());
        assert_eq!(found(&Seen::default()), Vec::<Vec<u32>>::new());
    }

    /// Parts that all probes cross together cannot be distinguished, and all are named.
    #[test]
    fn what_cannot_be_told_apart_is_named_together() {
        let lossy = (vec![1, 2, 3], 50, 25);
        let healthy = (3..20).map(|part| (vec![part, part + 1], 50, 0));
        assert_eq!(found(&seen(&[vec![lossy], healthy.collect()].concat())), [vec![1, 2]]);
    }
}
