//! The state of a campaign in its folder.

use super::folder::Folder;
use super::journal::{Worker, workers};
use super::manifest::Manifest;
use super::replication::Verdict;
use super::result::RunState;
use super::rows::Wanted;
use crate::fingerprint::Fingerprint;
use rnic_results::text::round6;
use serde_json::{Value, json};

/// A run that failed or was lost.
#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    /// Name of the run.
    pub run: String,
    /// Seed of the run.
    pub seed: u64,
    /// How it ended.
    pub state: RunState,
    /// Why it failed.
    pub reason: String,
}

/// The state of a campaign.
#[derive(Clone, PartialEq, Debug)]
pub struct Standing {
    /// Number of points: runs of the manifest.
    pub points: usize,
    /// Number of runs that are wanted so far, with all seeds. With a condition, it may still grow.
    pub wanted: usize,
    /// Number of runs that completed.
    pub completed: usize,
    /// The runs that failed or were lost, in the order of the manifest.
    pub failures: Vec<Failure>,
    /// Number of runs without a result.
    pub missing: usize,
    /// Number of points with the maximum number of seeds whose interval is still too wide.
    pub wide: usize,
    /// Number of points without an interval, because a run failed or has no value.
    pub undetermined: usize,
    /// CPU seconds of all results.
    pub cpu_s: f64,
    /// Hash of all results, see [`Folder::digest`].
    pub digest: u128,
    /// Number of attempts whose workers were killed, over the runs that are not stored as lost.
    pub lost: u32,
    /// The workers that are alive, the workers that were killed during a run, and the workers whose journals are
    /// damaged.
    pub workers: Vec<Worker>,
}

impl Standing {
    /// The state as JSON; `name` is the name of the campaign.
    pub fn to_json(&self, name: &str) -> Value {
        let failures: Vec<Value> = self
            .failures
            .iter()
            .map(|f| json!({"run": f.run, "seed": f.seed, "status": f.state.word(), "reason": f.reason}))
            .collect();
        let workers: Vec<Value> = self
            .workers
            .iter()
            .map(|w| {
                let current = w.current.as_ref();
                let current = current.map(|c| json!({"run": c.run, "seed": c.seed, "since_s": c.since_s}));
                json!({"name": w.name, "host": w.host, "engine": w.engine, "alive": w.is_alive, "current": current,
                       "ended": w.ended, "failed": w.failed, "last_s": w.last_s, "damaged": w.damaged})
            })
            .collect();
        json!({"name": name, "points": self.points, "runs": self.wanted, "completed": self.completed,
               "failed": self.failures.len(), "missing": self.missing, "wide": self.wide,
               "undetermined": self.undetermined, "cpu_s": round6(self.cpu_s),
               "content": format!("{:032x}", self.digest), "failures": failures, "workers": workers})
    }
}

/// Reads the state of a campaign.
pub fn status(manifest: &Manifest, folder: &Folder, program: &str) -> Standing {
    let mut completed = 0;
    let mut missing = 0;
    let mut cpu_s = 0.0;
    let mut failures = Vec::new();
    let wanted = Wanted::of(manifest, folder, program, |replica, spec, result| {
        let Some(result) = result else {
            missing += 1;
            return;
        };
        cpu_s += result.provenance.cpu_s;
        if result.state == RunState::Completed {
            completed += 1;
        } else {
            let run = spec.name.clone();
            let reason = result.failure.clone();
            failures.push((replica, Failure { run, seed: spec.seed, state: result.state, reason }));
        }
    });
    failures.sort_by_key(|(replica, _)| *replica);
    let count = |verdict| wanted.verdicts.iter().filter(|(_, _, of_point)| *of_point == verdict).count();
    let fingerprints: Vec<Fingerprint> = wanted.replicas.iter().map(|(_, fingerprint)| fingerprint.clone()).collect();
    let workers = workers(&folder.workers()).into_iter().map(|(_, worker)| worker);
    Standing {
        points: manifest.runs.len(),
        wanted: wanted.replicas.len(),
        completed,
        failures: failures.into_iter().map(|(_, failure)| failure).collect(),
        missing,
        wide: count(Verdict::Wide),
        undetermined: count(Verdict::Undetermined),
        cpu_s,
        digest: folder.digest(&fingerprints),
        lost: folder.lost().values().sum(),
        workers: workers.filter(|one| one.is_alive || one.current.is_some() || one.damaged > 0).collect(),
    }
}
