//! The runs of an interrupted scenario.
//!
//! While a scenario is simulated, [`RunCache::put`] stores the record of each run that has finished, a file for each. [`RunCache::load`] hands
//! over the records that fit, [`execute_remaining`](crate::execute_remaining) executes the other runs, and the results are the same bytes as
//! without an interruption.

use crate::fingerprint::Fingerprint;
use crate::store::{Header, Store};
use rnic_run::{RunRecord, RunSpec, Scenario};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The stored runs of a scenario.
#[derive(Debug)]
pub struct RunCache {
    store: Store<RunRecord>,
    /// Name, seed and fingerprint of every run, in the scenario's order.
    headers: Vec<Header>,
}

/// The stored runs of a scenario that fit it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CachedRuns {
    /// In the scenario's order the records that fit, `None` for the other runs.
    pub records: Vec<Option<RunRecord>>,
    /// Runs with a stored record that cannot be used: their indices, and why, in words that follow "the stored result".
    pub refused: Vec<(usize, String)>,
}

impl CachedRuns {
    /// How many records fit.
    pub fn count(&self) -> usize {
        self.records.iter().flatten().count()
    }
}

impl RunCache {
    /// The runs of `scenario` that are stored in `folder`, which need not exist. `program` is the code that simulates, see
    /// [`Fingerprint::of`].
    pub fn of(scenario: &Scenario, folder: &Path, program: &str) -> RunCache {
        let header = |run: &RunSpec| Header {
            run: run.name.clone(),
            seed: run.seed,
            cpu_s: 0.0,
            fingerprint: Fingerprint::of(run, program),
        };
        RunCache { store: Store::at(folder), headers: scenario.runs.iter().map(header).collect() }
    }

    /// Where the runs are stored.
    pub fn folder(&self) -> &Path {
        self.store.folder()
    }

    /// How many runs have a file that can be theirs.
    pub fn count(&self) -> usize {
        self.headers.iter().filter(|header| self.store.path(&header.fingerprint).exists()).count()
    }

    /// Stores the record of the run with this index.
    ///
    /// # Errors
    /// There is no such run, or its file cannot be written, or the records of its flows cannot be read.
    pub fn put(&self, run: usize, record: &RunRecord) -> io::Result<()> {
        let no_such_run = || io::Error::other(format!("the scenario has no run with index {run}"));
        let header = self.headers.get(run).ok_or_else(no_such_run)?;
        self.store.put(&Header { cpu_s: record.cpu_s, ..header.clone() }, record)
    }

    /// The stored records. A run whose record is missing or does not fit, for whatever reason, is to be simulated again.
    pub fn load(&self) -> CachedRuns {
        let mut cached = CachedRuns::default();
        let mut missing = Vec::new();
        for (index, header) in self.headers.iter().enumerate() {
            cached.records.push(match self.store.get(&header.fingerprint) {
                Ok(Some((_, record))) => Some(record),
                Ok(None) => {
                    missing.push(index);
                    None
                }
                Err(why) => {
                    cached.refused.push((index, why));
                    None
                }
            });
        }
        cached.refused.extend(self.outdated(&missing));
        cached
    }

    /// Of these runs those that are stored as they once were, and what has changed.
    fn outdated(&self, missing: &[usize]) -> Vec<(usize, String)> {
        let mut old: BTreeMap<String, Vec<Fingerprint>> = BTreeMap::new();
        for header in if missing.is_empty() { Vec::new() } else { self.store.headers() } {
            old.entry(header.run).or_default().push(header.fingerprint);
        }
        let changed = |index: &usize| {
            let header = &self.headers[*index];
            // The stored run that is most like it.
            let changes = old.get(&header.run)?.iter().map(|old| old.differences(&header.fingerprint));
            let changes = changes.filter(|changes| !changes.is_empty()).min_by_key(Vec::len)?;
            Some((*index, format!("is of another {}", changes.join(" and another "))))
        };
        missing.iter().filter_map(changed).collect()
    }

    /// Removes the scenario's stored runs, once the results are written; `all`: those of others too. The folder goes with the last file.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear(&self, all: bool) -> io::Result<()> {
        let own: Vec<&Fingerprint> = self.headers.iter().map(|header| &header.fingerprint).collect();
        self.store.remove(if all { None } else { Some(&own) })
    }
}

#[cfg(test)]
mod tests;
