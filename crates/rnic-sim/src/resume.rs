//! Going on with a scenario that was interrupted, run by run.
//!
//! While a scenario is simulated, [`KeptRuns::keep`] writes the report of each run that has finished into a folder, a file for each run.
//! The file's name is the run's [`Fingerprint`]: everything that determines its results. So a file is found by the run that it belongs to, and by no
//! other. It appears whole or not at all. [`KeptRuns::take`] hands over the reports that fit, [`run_remaining`](crate::run::run_remaining) simulates
//! the others, and the results are the same bytes as without an interruption.

mod file;
mod fingerprint;

pub use fingerprint::Fingerprint;

use crate::results::files::write_and_rename;
use crate::run::RunReport;
use crate::scenario::{RunSpec, Scenario};
use file::Header;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How the name of a kept run's file ends.
const ENDING: &str = "run";

/// The runs of a scenario that have finished, in files.
#[derive(Debug)]
pub struct KeptRuns {
    folder: PathBuf,
    /// Of every run, in the scenario's order.
    headers: Vec<Header>,
    /// One file at a time: runs that differ in their names alone share one.
    writing: Mutex<()>,
}

/// What was kept of a scenario.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Taken {
    /// In the scenario's order the reports that fit, `None` for the other runs.
    pub reports: Vec<Option<RunReport>>,
    /// Runs of which something is kept that cannot be taken: their numbers, and why in words that follow "what is kept of it".
    pub refused: Vec<(usize, String)>,
}

impl Taken {
    /// How many reports fit.
    pub fn count(&self) -> usize {
        self.reports.iter().flatten().count()
    }
}

impl KeptRuns {
    /// The runs of `scenario` that are kept in `folder`, which need not exist. `program` tells what simulates from anything that might simulate
    /// differently: another version, or another congestion control of the same name.
    pub fn of(scenario: &Scenario, folder: &Path, program: &str) -> KeptRuns {
        let header = |run: &RunSpec| Header { run: run.name.clone(), fingerprint: Fingerprint::of(run, program) };
        let headers = scenario.runs.iter().map(header).collect();
        KeptRuns { folder: folder.to_path_buf(), headers, writing: Mutex::new(()) }
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, fingerprint: &Fingerprint) -> PathBuf {
        self.folder.join(format!("{}.{ENDING}", fingerprint.key()))
    }

    /// How many runs have a file that can be theirs.
    pub fn count(&self) -> usize {
        self.headers.iter().filter(|header| self.path(&header.fingerprint).exists()).count()
    }

    /// Keeps what run number `run` has yielded.
    ///
    /// # Errors
    /// There is no such run, or its file cannot be written, or the records of its flows cannot be read.
    pub fn keep(&self, run: usize, report: &RunReport) -> io::Result<()> {
        let no_such_run = || io::Error::other(format!("the scenario has no run number {run}"));
        let header = self.headers.get(run).ok_or_else(no_such_run)?;
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        fs::create_dir_all(&self.folder)?;
        let path = self.path(&header.fingerprint);
        // Without waiting for the disk: what a power failure damages is simulated again.
        write_and_rename(&path, |out| file::write(out, header, report), |_| Ok(())).map(|_| ())
    }

    /// What is kept of the runs. What is missing or does not fit, for whatever reason, is to be simulated again.
    pub fn take(&self) -> Taken {
        let mut taken = Taken::default();
        let mut missing = Vec::new();
        for (number, header) in self.headers.iter().enumerate() {
            let path = self.path(&header.fingerprint);
            let mut refuse = |why| {
                taken.refused.push((number, why));
                None
            };
            let report = match path.exists().then(|| file::read(&path)) {
                Some(Ok((found, report))) if found.fingerprint == header.fingerprint => Some(report),
                Some(Ok(_)) => refuse(format!("is of another run: `{}`", path.display())),
                Some(Err(why)) => refuse(format!("cannot be used: `{}` {why}", path.display())),
                None => {
                    missing.push(number);
                    None
                }
            };
            taken.reports.push(report);
        }
        taken.refused.extend(self.outdated(&missing));
        taken
    }

    /// Of these runs those that are kept as they once were, and what has changed.
    fn outdated(&self, missing: &[usize]) -> Vec<(usize, String)> {
        let mut old: BTreeMap<String, Vec<Fingerprint>> = BTreeMap::new();
        for path in if missing.is_empty() { Vec::new() } else { self.files(ENDING) } {
            if let Ok(header) = file::read_header(&path) {
                old.entry(header.run).or_default().push(header.fingerprint);
            }
        }
        let changed = |number: &usize| {
            let header = &self.headers[*number];
            // The one that is most like it.
            let changes = old.get(&header.run)?.iter().map(|old| old.differences(&header.fingerprint));
            let changes = changes.filter(|changes| !changes.is_empty()).min_by_key(Vec::len)?;
            Some((*number, format!("is of another {}", changes.join(" and another "))))
        };
        missing.iter().filter_map(changed).collect()
    }

    /// Removes what is kept, once the results are written: of the scenario's runs, and if they are `all` that the folder is for, of others too. The
    /// folder goes with the last of it.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear(&self, all: bool) -> io::Result<()> {
        let own = |path: &PathBuf| all || self.headers.iter().any(|header| self.path(&header.fingerprint) == *path);
        let unfinished = if all { self.files("tmp") } else { Vec::new() };
        for path in self.files(ENDING).into_iter().filter(own).chain(unfinished) {
            fs::remove_file(path)?;
        }
        // Somebody's own files may be there too.
        let _ = fs::remove_dir(&self.folder);
        Ok(())
    }

    /// The files in the folder that end so, in order of their names.
    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == ending));
        files.sort();
        files
    }
}

#[cfg(test)]
mod tests;
