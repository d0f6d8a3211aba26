//! Stores the finished runs of a scenario, so that an interrupted scenario can be resumed.
//!
//! While a scenario is simulated, [`RunCache::put`] stores the record of each finished run in a file. After an
//! interruption, [`RunCache::load`] returns the records that are still valid, and
//! [`execute_remaining`](crate::execute_remaining) executes the other runs. The result files are then identical to
//! those of an uninterrupted scenario.

use crate::fingerprint::Fingerprint;
use crate::store::{Header, Store};
use rnic_spec::{RunRecord, RunSpec, RunStatus, Scenario};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The stored results of a scenario's finished runs.
///
/// ```
/// # let text = r#"
/// #     [fabric]
/// #     topology = "single-switch"
/// #     hosts = 4
/// #     rate = "100 Gbps"
/// #     delay = "1 us"
/// #     [traffic]
/// #     pattern = "permutation"
/// #     sizes = "fixed 64 KB"
/// #     [[run]]
/// #     name = "IRN"
/// #     transport = "irn"
/// # "#;
/// # let scenario = rnic_scenario::from_str(text, "example.toml", "".as_ref(), &[], None).unwrap();
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
/// use rnic_campaign::{RunCache, run_scenario};
///
/// let cache = RunCache::of(&scenario, folder, "");
/// assert_eq!(cache.load().count(), 0);
/// let records = run_scenario(&scenario, 1).unwrap();
/// cache.put(0, &records[0])?;
/// assert_eq!(cache.load().records, [Some(records[0].clone())]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RunCache {
    store: Store<RunRecord>,
    /// Name, seed and fingerprint of every run, in the scenario's order.
    headers: Vec<Header>,
}

/// The valid records of a [`RunCache`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CachedRuns {
    /// The stored record of each run, in the scenario's order; `None` for a run without a valid record.
    pub records: Vec<Option<RunRecord>>,
    /// Runs whose stored record cannot be used: the index of the run, and the reason as the end of a sentence that
    /// begins with "the stored result".
    pub refused: Vec<(usize, String)>,
}

impl CachedRuns {
    /// Number of valid records.
    pub fn count(&self) -> usize {
        self.records.iter().flatten().count()
    }
}

impl RunCache {
    /// The cache of `scenario` in `folder`, which need not exist. `program` distinguishes programs with different
    /// catalogues (lists of available congestion controls and transports), see [`Fingerprint::of`].
    pub fn of(scenario: &Scenario, folder: &Path, program: &str) -> RunCache {
        let header = |run: &RunSpec| Header {
            run: run.name.clone(),
            seed: run.seed,
            cpu_s: 0.0,
            fingerprint: Fingerprint::of(run, program),
        };
        RunCache { store: Store::at(folder), headers: scenario.runs.iter().map(header).collect() }
    }

    /// The folder in which the cache stores its files.
    pub fn folder(&self) -> &Path {
        self.store.folder()
    }

    /// Number of runs of the scenario with a file in the cache, valid or not.
    pub fn count(&self) -> usize {
        self.headers.iter().filter(|header| self.store.path(&header.fingerprint).exists()).count()
    }

    /// Stores the record of the run with the index `run`.
    ///
    /// # Errors
    /// The scenario has no run with this index, the run was interrupted, the file cannot be written, or the flow
    /// records cannot be read.
    pub fn put(&self, run: usize, record: &RunRecord) -> io::Result<()> {
        let no_such_run = || io::Error::other(format!("the scenario has no run with index {run}"));
        let header = self.headers.get(run).ok_or_else(no_such_run)?;
        if record.output.status == RunStatus::Interrupted {
            return Err(io::Error::other("the record of an interrupted run is partial"));
        }
        self.store.put(&Header { cpu_s: record.cpu_s, ..header.clone() }, record)
    }

    /// Loads the stored records of the scenario's runs. Runs without a valid record must be simulated.
    pub fn load(&self) -> CachedRuns {
        let mut cached = CachedRuns::default();
        let mut missing = Vec::new();
        for (index, header) in self.headers.iter().enumerate() {
            cached.records.push(match self.store.get(&header.fingerprint) {
                Ok(Some((_, record))) if record.output.status == RunStatus::Interrupted => {
                    cached.refused.push((index, "is partial, because the run was interrupted".to_string()));
                    None
                }
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

    /// For each run in `missing` of which an older result with other settings is stored: its index, and the parts of
    /// the fingerprint that have changed.
    fn outdated(&self, missing: &[usize]) -> Vec<(usize, String)> {
        let mut old: BTreeMap<String, Vec<Fingerprint>> = BTreeMap::new();
        for header in if missing.is_empty() { Vec::new() } else { self.store.headers() } {
            old.entry(header.run).or_default().push(header.fingerprint);
        }
        let changed = |index: &usize| {
            let header = &self.headers[*index];
            // If several stored runs have this name, compare with the one that has the fewest differences.
            let changes = old.get(&header.run)?.iter().map(|old| old.differences(&header.fingerprint));
            let changes = changes.filter(|changes| !changes.is_empty()).min_by_key(Vec::len)?;
            Some((*index, format!("has a different {}", changes.join(" and a different "))))
        };
        missing.iter().filter_map(changed).collect()
    }

    /// Removes the scenario's stored runs; with `all`, the stored runs of other scenarios too. Removes the folder if it
    /// is then empty.
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
