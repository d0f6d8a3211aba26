//! The suspects: the contents of a finding, the time since which a part of the network is suspected, and the suspects
//! of the past.

use std::collections::VecDeque;

/// The symptom of a suspect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Symptom {
    /// Probes through the suspect are lost.
    Loss,
    /// Probes through the suspect are slow.
    Delay,
    /// The host's agent responds late: the host's software is slow, not the network.
    SlowHost,
    /// The agents of the suspect had registered, and send nothing to the controller anymore: the host or the agent is
    /// down, or the host has no network.
    Silent,
}

impl Symptom {
    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Symptom::Loss => "loss",
            Symptom::Delay => "delay",
            Symptom::SlowHost => "slow-host",
            Symptom::Silent => "silent",
        }
    }
}

/// A suspect of the localisation, with the names of its parts.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Finding {
    /// The symptom.
    pub symptom: Symptom,
    /// The suspected part of the network, and other parts that the probes cannot distinguish from it.
    pub parts: Vec<String>,
    /// Number of probes through the suspect; for [`Symptom::Silent`], number of its registered agents.
    pub probes: u64,
    /// Number of lost or slow probes through the suspect, or number of its silent agents.
    pub bad: u64,
    /// Logarithm of the likelihood ratio; for a slow host, its median delay divided by the median host's delay; for
    /// silent agents, their number.
    pub score: f64,
    /// The pair of hosts with the most lost or slow probes through the suspect: prober and target.
    pub worst: Option<[String; 2]>,
}

/// Time in ms for which a suspect can be absent without ending: a fault near the limit of detection is not found by
/// every evaluation.
const ABSENT_MS: u64 = 60_000;
/// Maximum number of ended suspects that are kept.
const MAX_ENDED: usize = 200;
/// Maximum number of suspects whose start is stored. If an evaluation finds more, the further suspects have no start.
const MAX_OPEN: usize = 10_000;

/// A suspect over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Suspected {
    /// Its latest finding.
    pub finding: Finding,
    /// Time in ms of the evaluation that found it first.
    pub since_ms: u64,
    /// Time in ms of the latest evaluation that found it.
    pub last_ms: u64,
}

/// The suspects over time.
#[derive(Clone, Debug, Default)]
pub struct Suspects {
    open: Vec<Suspected>,
    /// The suspects that ended, the newest last.
    ended: VecDeque<Suspected>,
}

impl Suspects {
    /// Notes the findings of an evaluation at `now`.
    pub(crate) fn update(&mut self, findings: &[Finding], now: u64) {
        for finding in findings {
            let known = self.open.iter().position(|open| key(&open.finding) == key(finding));
            if let Some(open) = known.and_then(|known| self.open.get_mut(known)) {
                (open.finding, open.last_ms) = (finding.clone(), now);
            } else if self.open.len() < MAX_OPEN {
                self.open.push(Suspected { finding: finding.clone(), since_ms: now, last_ms: now });
            }
        }
        let ended = &mut self.ended;
        self.open.retain(|open| {
            let is_open = now <= open.last_ms + ABSENT_MS;
            if !is_open {
                ended.push_back(open.clone());
            }
            is_open
        });
        while self.ended.len() > MAX_ENDED {
            self.ended.pop_front();
        }
    }

    /// The time in ms since which a suspect has been found without a longer interruption.
    pub fn since_ms(&self, finding: &Finding) -> Option<u64> {
        self.open.iter().find(|open| key(&open.finding) == key(finding)).map(|open| open.since_ms)
    }

    /// The suspects that are not in `findings`, the findings of the latest evaluation: first the suspects that have
    /// ended, then the suspects that may return. The newest is last.
    pub fn past(&self, findings: &[Finding]) -> impl Iterator<Item = &Suspected> {
        let is_past = |open: &&Suspected| !findings.iter().any(|finding| key(finding) == key(&open.finding));
        self.ended.iter().chain(self.open.iter().filter(is_past))
    }
}

fn key(finding: &Finding) -> (Symptom, &[String]) {
    (finding.symptom, &finding.parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_keeps_its_start_and_has_an_end() {
        let finding = |part: &str, bad| Finding {
            symptom: Symptom::Loss,
            parts: vec![part.to_string()],
            probes: 100,
            bad,
            score: 9.0,
            worst: None,
        };
        let (link, host) = (finding("link a - b", 5), finding("host h", 7));
        let mut suspects = Suspects::default();
        suspects.update(std::slice::from_ref(&link), 10_000);
        suspects.update(std::slice::from_ref(&host), 20_000);
        // It was missing once, and its counts have changed.
        suspects.update(&[host.clone(), finding("link a - b", 6)], 30_000);
        assert_eq!((suspects.since_ms(&link), suspects.since_ms(&host)), (Some(10_000), Some(20_000)));
        assert_eq!(suspects.past(&[host.clone(), link.clone()]).count(), 0);
        suspects.update(std::slice::from_ref(&host), 40_000);
        let past: Vec<&Suspected> = suspects.past(std::slice::from_ref(&host)).collect();
        assert_eq!((past.len(), past[0].finding.bad, past[0].last_ms), (1, 6, 30_000));
        suspects.update(&[], 95_000);
        assert_eq!((suspects.since_ms(&link), suspects.since_ms(&host)), (None, Some(20_000)));
        suspects.update(&[], 101_000);
        let past: Vec<(u64, u64)> = suspects.past(&[]).map(|past| (past.since_ms, past.last_ms)).collect();
        assert_eq!(past, [(10_000, 30_000), (20_000, 40_000)]);
    }
}
