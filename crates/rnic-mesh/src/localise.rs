//! Localisation: which part of the network the failing paths have in common.
//!
//! A probe crosses parts of the network: hosts, links and switches, on its way and on the way of its response. Each
//! observation is the number of probes on one such path, and how many of them were bad (lost, or slow). If one part is
//! the cause, the probes through it are bad with a higher probability than the others. The search is greedy, as in
//! SCORE (Kompella et al., NSDI 2005) with the likelihood of Flock (Harsh et al., CoNEXT 2023): it takes the part whose
//! probability of bad probes explains the observations best, against the probability of all other probes; removes what
//! it explains; and starts again with the rest.
//!
//! The logarithm of the likelihood ratio of a part with k bad ones of n probes, against the background probability b,
//! is k ln(p / b) + (n - k) ln((1 - p) / (1 - b)), where p = k / n. A switch of which one link is bad has the same k as
//! the link and a larger n, so the link explains more.

use std::collections::{BTreeMap, BTreeSet};

/// What was seen on one path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observation {
    /// The parts of the network on the path, in ascending order without repetition.
    pub parts: Vec<u32>,
    /// Number of probes.
    pub probes: u32,
    /// Number of bad ones.
    pub bad: u32,
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
    /// Rules for lost probes: healthy networks lose less than one in a thousand.
    pub const LOSS: Rules = Rules { background: 1e-3, score: 15.0, bad: 3, suspects: 16 };
    /// Rules for slow probes: hosts in software are slow now and then.
    pub const DELAY: Rules = Rules { background: 2e-2, score: 20.0, bad: 5, suspects: 16 };
}

/// A part of the network that explains bad probes.
#[derive(Clone, PartialEq, Debug)]
pub struct Suspect {
    /// The part, and others that the observations cannot tell from it.
    pub parts: Vec<u32>,
    /// Number of probes through it, without those that earlier suspects explain.
    pub probes: u64,
    /// Number of bad ones.
    pub bad: u64,
    /// Logarithm of the likelihood ratio.
    pub score: f64,
}

/// Finds the parts that explain the bad probes, the most likely one first.
pub fn localise(observations: &[Observation], rules: Rules) -> Vec<Suspect> {
    let mut explained = vec![false; observations.len()];
    let mut through: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let suspicious: BTreeSet<u32> =
        observations.iter().filter(|o| o.bad > 0).flat_map(|o| o.parts.iter().copied()).collect();
    for (number, observation) in observations.iter().enumerate() {
        for part in observation.parts.iter().filter(|part| suspicious.contains(part)) {
            through.entry(*part).or_default().push(number);
        }
    }
    let mut suspects = Vec::new();
    while suspects.len() < rules.suspects {
        let rest = observations.iter().zip(&explained).filter(|(_, explained)| !**explained);
        let background = background(rest.map(|(observation, _)| observation), rules);
        let mut best: Option<Suspect> = None;
        for (part, numbers) in &through {
            let (mut probes, mut bad) = (0, 0);
            for number in numbers.iter().filter(|number| !explained[**number]) {
                probes += u64::from(observations[*number].probes);
                bad += u64::from(observations[*number].bad);
            }
            if bad < u64::from(rules.bad) {
                continue;
            }
            let score = likelihood_ratio(probes, bad, background);
            if score >= rules.score && best.as_ref().is_none_or(|best| score > best.score) {
                best = Some(Suspect { parts: vec![*part], probes, bad, score });
            }
        }
        let Some(mut suspect) = best else { break };
        let own =
            |part: &u32| -> Vec<usize> { through[part].iter().copied().filter(|number| !explained[*number]).collect() };
        let first = own(&suspect.parts[0]);
        suspect.parts = through.keys().filter(|part| own(part) == first).copied().collect();
        for number in first {
            explained[number] = true;
        }
        suspects.push(suspect);
    }
    suspects
}

/// The probability of a bad probe that parts without fault have: the first decile over all parts, at least the rules'.
/// It is low because with few hosts a fault touches most parts.
fn background<'a>(observations: impl Iterator<Item = &'a Observation>, rules: Rules) -> f64 {
    let mut of_part: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for observation in observations {
        for part in &observation.parts {
            let (probes, bad) = of_part.entry(*part).or_default();
            *probes += u64::from(observation.probes);
            *bad += u64::from(observation.bad);
        }
    }
    let mut shares: Vec<f64> =
        of_part.values().filter(|(probes, _)| *probes > 0).map(|(probes, bad)| *bad as f64 / *probes as f64).collect();
    shares.sort_unstable_by(f64::total_cmp);
    shares.get(shares.len() / 10).copied().unwrap_or(0.0).clamp(rules.background, 0.5)
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
    fn fabric(bad: impl Fn(&[u32]) -> u32) -> Vec<Observation> {
        let mut observations = Vec::new();
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
                    observations.push(Observation { parts, probes: 20, bad });
                }
            }
        }
        observations
    }

    fn found(observations: &[Observation]) -> Vec<Vec<u32>> {
        localise(observations, Rules::LOSS).into_iter().map(|suspect| suspect.parts).collect()
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
        assert_eq!(found(&[]), Vec::<Vec<u32>>::new());
    }

    /// Parts that all probes cross together cannot be told apart, and all are named.
    #[test]
    fn what_cannot_be_told_apart_is_named_together() {
        let lossy = Observation { parts: vec![1, 2, 3], probes: 50, bad: 25 };
        let healthy = (3..20).map(|part| Observation { parts: vec![part, part + 1], probes: 50, bad: 0 });
        assert_eq!(found(&[vec![lossy], healthy.collect()].concat()), [vec![1, 2]]);
    }
}
