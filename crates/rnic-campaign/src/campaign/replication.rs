//! Which runs of a campaign are wanted: the points of the manifest, each with its seeds.

use super::manifest::Manifest;
use super::result::{RunResult, RunState};
use rnic_results::estimate::Estimate;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

/// One run of a campaign: the index of its point in the manifest, and the number of its seed from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Replica {
    /// Index of the run in the manifest.
    pub point: usize,
    /// Number of the seed: 0 is the seed in the manifest.
    pub number: u32,
}

/// A part of a campaign, for workers that share no coordinator: `3/10` is the third of ten parts.
///
/// The parts have the same number of points, or of runs if each point has a fixed number of seeds. Shards of one
/// campaign have no run in common, and together they have all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Number of the part, from 1 to `of`.
    pub number: u32,
    /// Number of parts.
    pub of: u32,
}

impl Shard {
    /// The whole campaign.
    pub const WHOLE: Shard = Shard { number: 1, of: 1 };

    fn has(self, index: u64) -> bool {
        index % u64::from(self.of) == u64::from(self.number - 1)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let wrong = || format!("`{text}` is no part of a campaign; accepted: i/n with i from 1 to n, as in 3/10");
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let number = number.trim().parse().map_err(|_| wrong())?;
        let of = of.trim().parse().map_err(|_| wrong())?;
        if (1..=of).contains(&number) { Ok(Shard { number, of }) } else { Err(wrong()) }
    }
}

/// The state of a point of a campaign.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verdict {
    /// Runs of the point are missing.
    Open,
    /// All seeds are simulated; with a condition, the interval is narrow enough.
    Done,
    /// The maximum number of seeds is simulated, and the interval is still too wide.
    Wide,
    /// A run of the point failed, or has no value of the condition's metric, so it has no interval.
    Undetermined,
}

/// The known value of the metric of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Value {
    Known(f64),
    Missing,
}

struct Point {
    index: usize,
    /// Number of seeds that are wanted so far.
    wanted: u32,
    values: BTreeMap<u32, Value>,
    verdict: Verdict,
}

/// The state of a campaign, or of one shard: it determines the wanted runs from the results so far. Results may arrive
/// in any order.
pub struct Replication {
    manifest: Arc<Manifest>,
    shard: Shard,
    points: Vec<Point>,
    /// The runs that have become wanted since the last [`Replication::take_wanted`].
    newly_wanted: Vec<Replica>,
    wanted: usize,
}

impl Replication {
    /// The state without any result.
    pub fn new(manifest: &Arc<Manifest>, shard: Shard) -> Replication {
        let index_of =
            |index: usize| Point { index, wanted: manifest.seeds, values: BTreeMap::new(), verdict: Verdict::Open };
        // An `until` condition compares the values of all seeds of a point, so one shard has all runs of this point.
        let is_own = |index: &usize| manifest.until.is_none() || shard.has(*index as u64);
        let points = (0..manifest.runs.len()).filter(is_own).map(index_of).collect();
        let manifest = manifest.clone();
        let mut replication = Replication { manifest, shard, points, newly_wanted: Vec::new(), wanted: 0 };
        for point in 0..replication.points.len() {
            replication.want(point, 0);
        }
        replication
    }

    /// Whether the run belongs to the shard.
    fn is_own(&self, replica: Replica) -> bool {
        let seeds = u64::from(self.manifest.seeds);
        let number = u64::from(replica.number);
        self.manifest.until.is_some() || self.shard.has(replica.point as u64 * seeds + number)
    }

    fn want(&mut self, position: usize, from: u32) {
        let Some(point) = self.points.get(position) else { return };
        let index = point.index;
        let wanted = point.wanted;
        for number in from..wanted {
            let replica = Replica { point: index, number };
            if self.is_own(replica) {
                self.newly_wanted.push(replica);
                self.wanted += 1;
            }
        }
    }

    /// The runs that were added to the wanted runs since the last call, in the order of the manifest.
    pub fn take_wanted(&mut self) -> Vec<Replica> {
        std::mem::take(&mut self.newly_wanted)
    }

    /// Number of runs that are wanted so far, with and without a result.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Adds the result of a run. If it is the last missing result of its point, and the interval is too wide, further
    /// seeds of the point are wanted.
    pub fn add_result(&mut self, replica: Replica, result: &RunResult) {
        let metric = self.manifest.until.as_ref().and_then(|until| result.metric(&until.metric));
        self.add_value(replica, result.state, metric);
    }

    /// As [`Replication::add_result`], with the value of the condition's metric.
    pub fn add_value(&mut self, replica: Replica, state: RunState, metric: Option<f64>) {
        let Ok(position) = self.points.binary_search_by_key(&replica.point, |point| point.index) else { return };
        let value = match (state, metric) {
            (RunState::Completed, Some(value)) => Value::Known(value),
            (RunState::Completed, None) if self.manifest.until.is_none() => Value::Known(0.0),
            _ => Value::Missing,
        };
        let point = &mut self.points[position];
        point.values.insert(replica.number, value);
        let from = point.wanted;
        let own = match self.manifest.until {
            Some(_) => from as usize,
            None => {
                let seeds = u64::from(self.manifest.seeds);
                (0..seeds).filter(|number| self.shard.has(replica.point as u64 * seeds + number)).count()
            }
        };
        if point.values.len() < own {
            return;
        }
        let known: Vec<f64> = point.values.values().filter_map(known).collect();
        let has_all = known.len() == point.values.len();
        point.verdict = match &self.manifest.until {
            None if has_all => Verdict::Done,
            Some(until) if has_all => match until.next(&known) {
                Some(next) => {
                    point.wanted = next;
                    Verdict::Open
                }
                None if Estimate::of(&known, until.confidence).is_some_and(|known| until.is_narrow(&known)) => {
                    Verdict::Done
                }
                None => Verdict::Wide,
            },
            _ => Verdict::Undetermined,
        };
        self.want(position, from);
    }

    /// The state of each point of the shard, as (index of its run in the manifest, number of its results, verdict).
    pub fn verdicts(&self) -> impl Iterator<Item = (usize, usize, Verdict)> + '_ {
        self.points.iter().map(|point| (point.index, point.values.len(), point.verdict))
    }
}

fn known(value: &Value) -> Option<f64> {
    match value {
        Value::Known(value) => Some(*value),
        Value::Missing => None,
    }
}
