//! Executes the missing runs of a campaign with an [`Executor`].

use super::error::CampaignError;
use super::execute::{CampaignListener, Place, Progress, execute, put_lost};
use super::manifest::Manifest;
use super::replication::{Replica, Replication, Shard};
use super::result::{RunResult, RunState};
use crate::cost::cost;
use crate::executor::Executor;
use crate::fingerprint::Fingerprint;
use parking_lot::Mutex;
use rnic_spec::{RunEvent, RunSpec};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximum number of runs whose specifications are prepared at the same time, so that memory does not grow with the
/// number of runs.
const CHUNK: usize = 512;

/// How a campaign treats failed runs, and which part of it is executed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The part of the campaign.
    pub shard: Shard,
    /// How often a run that was lost is started again, before it counts as failed.
    pub retries: u32,
    /// Whether runs that are stored as failed or lost are simulated again.
    pub retry_failed: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { shard: Shard::WHOLE, retries: 2, retry_failed: false }
    }
}

/// A run without a result, taken from [`Outcomes`] to be executed.
#[derive(Clone, Debug)]
pub struct MissingRun {
    /// Key of the run's fingerprint.
    pub key: String,
    /// Index of the run's point in the manifest. The runs of a point differ in their seeds alone.
    pub point: usize,
    /// The run.
    pub spec: RunSpec,
}

/// The runs of a campaign that are missing, and the results that are known. Coordinators of all engines use it: they
/// take batches of missing runs, and add the results.
pub struct Outcomes {
    manifest: Arc<Manifest>,
    limits: Limits,
    replication: Replication,
    lost: BTreeMap<String, u32>,
    /// By key: the runs whose results are awaited. Runs that differ only in their names have the same key.
    awaited: BTreeMap<String, Vec<Replica>>,
    missing: VecDeque<(Replica, Fingerprint)>,
    progress: Progress,
}

impl Outcomes {
    /// Looks up the stored results of a campaign.
    ///
    /// # Errors
    /// The result of a run that was lost too often cannot be stored.
    pub fn new(manifest: Arc<Manifest>, place: &Place<'_>, limits: Limits) -> Result<Outcomes, CampaignError> {
        let replication = Replication::new(&manifest, limits.shard);
        let lost = place.folder.lost();
        let awaited = BTreeMap::new();
        let missing = VecDeque::new();
        let progress = Progress { wanted: replication.wanted(), ..Progress::default() };
        let mut outcomes = Outcomes { manifest, limits, replication, lost, awaited, missing, progress };
        outcomes.look_up(place, &BTreeSet::new())?;
        Ok(outcomes)
    }

    /// How often each run was lost, by key.
    pub fn lost(&self) -> &BTreeMap<String, u32> {
        &self.lost
    }

    /// The state of the campaign.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Looks up stored results of the runs that have become wanted. A result may make further runs wanted, so the
    /// search continues until it finds no new wanted run.
    fn look_up(&mut self, place: &Place<'_>, fresh: &BTreeSet<String>) -> Result<(), CampaignError> {
        loop {
            let mut wanted = self.replication.take_wanted();
            // The first seed of each point, then the second one of each, and so on: an interrupted campaign has results
            // of all points.
            wanted.sort_by_key(|replica| (replica.number, replica.point));
            self.progress.wanted = self.replication.wanted();
            if wanted.is_empty() {
                return Ok(());
            }
            place.folder.refresh();
            for replica in wanted {
                let Some(spec) = self.manifest.run(replica.point, replica.number) else { continue };
                let fingerprint = Fingerprint::of(&spec, place.program);
                let key = fingerprint.key();
                if let Some(same) = self.awaited.get_mut(&key) {
                    same.push(replica);
                    continue;
                }
                let retries = |result: &RunResult| {
                    self.limits.retry_failed && result.state != RunState::Completed && !fresh.contains(&key)
                };
                let found = place.folder.result(&fingerprint).filter(|result| !retries(result));
                let found = found.filter(|_| !place.records || place.folder.has_record(&fingerprint));
                let lost = self.lost.get(&key).copied().unwrap_or(0);
                match found {
                    Some(result) => {
                        self.progress.found += 1;
                        self.count(result.state);
                        self.replication.add_result(replica, &result);
                    }
                    None if lost > self.limits.retries && !self.limits.retry_failed => {
                        let result = put_lost(place, &spec, &fingerprint, lost)
                            .map_err(CampaignError::writing(place.folder.path()))?;
                        self.count(result.state);
                        self.replication.add_result(replica, &result);
                    }
                    None => {
                        self.awaited.insert(key, vec![replica]);
                        self.missing.push_back((replica, fingerprint));
                    }
                }
            }
        }
    }

    fn count(&mut self, state: RunState) {
        self.progress.done += 1;
        self.progress.failed += usize::from(state != RunState::Completed);
    }

    /// Takes the next missing runs: at most `count`, with at most `seconds` of CPU time in total, estimated as [`cost`]
    /// times `scale`, but at least one. Empty if no run is missing at the moment.
    pub fn next_batch(&mut self, count: usize, seconds: f64, scale: f64) -> Vec<MissingRun> {
        let mut batch = Vec::new();
        let mut sum = 0.0;
        while batch.len() < count
            && (batch.is_empty() || sum < seconds)
            && let Some((replica, fingerprint)) = self.missing.pop_front()
        {
            if let Some(spec) = self.manifest.run(replica.point, replica.number) {
                sum += cost(&spec) * scale;
                batch.push(MissingRun { key: fingerprint.key(), point: replica.point, spec });
            }
        }
        batch
    }

    /// Number of runs that are missing and have not been taken.
    pub fn missing(&self) -> usize {
        self.missing.len()
    }

    /// Adds the result of a run of a batch. `metric` is the value of the condition's metric.
    ///
    /// # Errors
    /// As [`Outcomes::new`].
    pub fn add_result(
        &mut self, place: &Place<'_>, key: &str, state: RunState, metric: Option<f64>,
    ) -> Result<(), CampaignError> {
        for replica in self.awaited.remove(key).unwrap_or_default() {
            self.count(state);
            self.replication.add_value(replica, state, metric);
        }
        self.look_up(place, &BTreeSet::from([key.to_string()]))
    }

    /// Records that the worker of a run was killed. The run is then missing again. If the run was lost too often, this
    /// is stored as its result instead.
    ///
    /// # Errors
    /// The result cannot be stored.
    pub fn add_loss(&mut self, place: &Place<'_>, key: &str, was_started: bool) -> Result<(), CampaignError> {
        let Some(replica) = self.awaited.get(key).and_then(|replicas| replicas.first().copied()) else { return Ok(()) };
        let Some(spec) = self.manifest.run(replica.point, replica.number) else { return Ok(()) };
        let fingerprint = Fingerprint::of(&spec, place.program);
        // The worker may have stored the result before it was killed.
        place.folder.refresh();
        if let Some(result) = place.folder.result(&fingerprint).filter(|result| result.state == RunState::Completed) {
            let metric = self.manifest.until.as_ref().and_then(|until| result.metric(&until.metric));
            return self.add_result(place, key, result.state, metric);
        }
        let lost = self.lost.entry(key.to_string()).or_default();
        *lost += u32::from(was_started);
        if *lost > self.limits.retries {
            let result =
                put_lost(place, &spec, &fingerprint, *lost).map_err(CampaignError::writing(place.folder.path()))?;
            return self.add_result(place, key, result.state, None);
        }
        self.missing.push_front((replica, fingerprint));
        Ok(())
    }

    /// The metric of the campaign's condition.
    pub fn metric(&self) -> Option<&str> {
        self.manifest.until.as_ref().map(|until| until.metric.as_str())
    }
}

/// A listener that adds the results of a batch to the outcomes of the campaign.
struct BatchListener<'c> {
    outcomes: &'c Mutex<Outcomes>,
    place: &'c Place<'c>,
    listener: &'c dyn CampaignListener,
    /// The reason why no further batch starts: an error, or `Ok` if the listener returned `Break`.
    stopped: &'c Mutex<Option<Result<(), CampaignError>>>,
}

impl CampaignListener for BatchListener<'_> {
    fn started(&self, key: &str, run: &RunSpec) {
        self.listener.started(key, run);
    }

    fn event(&self, key: &str, event: &RunEvent) -> ControlFlow<()> {
        self.listener.event(key, event)
    }

    fn ended(&self, key: &str, result: Option<&RunResult>) -> ControlFlow<()> {
        let mut outcomes = self.outcomes.lock();
        let added = result.map_or(Ok(()), |result| {
            let metric = outcomes.metric().and_then(|metric| result.metric(metric));
            outcomes.add_result(self.place, key, result.state, metric)
        });
        let flow = self.listener.ended(key, result);
        self.listener.progress(outcomes.progress());
        let mut stopped = self.stopped.lock();
        match added {
            Err(error) => *stopped = Some(Err(error)),
            Ok(()) if flow.is_break() && stopped.is_none() => *stopped = Some(Ok(())),
            Ok(()) => {}
        }
        if stopped.is_some() { ControlFlow::Break(()) } else { flow }
    }
}

/// Executes all missing runs of the campaign or of the shard, and returns the final state. A repeated call continues an
/// interrupted campaign: it executes no run that has a stored result.
///
/// # Errors
/// A result cannot be stored.
pub fn run_campaign(
    manifest: &Arc<Manifest>, place: &Place<'_>, limits: Limits, executor: &dyn Executor,
    listener: &dyn CampaignListener,
) -> Result<Progress, CampaignError> {
    let outcomes = Outcomes::new(manifest.clone(), place, limits)?;
    let lost = outcomes.lost().clone();
    let outcomes = Mutex::new(outcomes);
    let stopped = Mutex::new(None);
    loop {
        let lock = || outcomes.lock();
        let batch = lock().next_batch(CHUNK, f64::INFINITY, 1.0);
        if batch.is_empty() {
            return Ok(lock().progress());
        }
        let runs: Vec<&RunSpec> = batch.iter().map(|run| &run.spec).collect();
        let in_batch = BatchListener { outcomes: &outcomes, place, listener, stopped: &stopped };
        execute(place, &runs, &lost, executor, &in_batch)?;
        match stopped.lock().take() {
            Some(Ok(())) => return Ok(lock().progress()),
            Some(Err(error)) => return Err(error),
            None => {}
        }
    }
}
