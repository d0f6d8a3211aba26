//! The folder of campaigns: manifests, results, records, journals.

use super::error::CampaignError;
use super::journal::{self, Worker};
use super::manifest::Manifest;
use super::result::RunResult;
use crate::fingerprint::{CODE, Fingerprint};
use crate::hash::Fnv1a;
use crate::store::{Header, PackedStore};
use rnic_spec::{RunRecord, Vocabulary};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder with the results of one campaign or of several.
///
/// | path | content |
/// |---|---|
/// | `manifests/NAME.jsonl` | the manifest of each campaign |
/// | `runs/NUMBER.results` | the results of many runs, each with the key of its [`Fingerprint`] |
/// | `runs/NUMBER.runs` | the complete records of runs, if the manifest asks for them |
/// | `runs/KEY.result`, `runs/KEY.run` | the result and the record of one run, written by an earlier version |
/// | `workers/NAME.jsonl` | the journal of a worker |
/// | `logs/*` | what the tasks of a cluster have written to standard error |
///
/// All files are checked when they are read. Any number of processes on any number of machines may use a folder at the
/// same time: each appends results to a file of its own. A process that is killed loses at most the result that it is
/// writing.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    results: PackedStore<RunResult>,
    records: PackedStore<RunRecord>,
}

/// Numbers of files that [`Folder::clean`] removed, or would remove.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    /// Results and records that no campaign of the folder contains, or that another version of rnic computed.
    pub unused: usize,
    /// Damaged results, and damaged or incomplete files.
    pub damaged: usize,
    /// Journals of workers that have ended.
    pub journals: usize,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Folder {
    /// The folder at `path`, which need not exist.
    pub fn at(path: &Path) -> Folder {
        let runs = path.join("runs");
        Folder { path: path.to_path_buf(), results: PackedStore::at(&runs), records: PackedStore::at(&runs) }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the workers' journals.
    pub fn workers(&self) -> PathBuf {
        self.path.join("workers")
    }

    fn manifests(&self) -> PathBuf {
        self.path.join("manifests")
    }

    /// Stores the manifest, so that the results can be shown without it.
    ///
    /// # Errors
    /// The folder has another campaign of this name and `replace` is false, or the file cannot be written.
    pub fn register(&self, manifest: &Manifest, replace: bool) -> Result<(), CampaignError> {
        let path = self.manifests().join(format!("{}.jsonl", manifest.name));
        match fs::read(&path) {
            Ok(old) if manifest.is_in(&old).map_err(CampaignError::writing(&path))? => return Ok(()),
            Ok(_) if !replace => {
                return Err(CampaignError::Input(format!(
                    "`{}` has another campaign with the name `{}`; give this one another name, or replace that one \
                     (--replace, in Python replace=True): runs that both contain are not simulated again",
                    self.path.display(),
                    manifest.name
                )));
            }
            _ => {}
        }
        fs::create_dir_all(self.manifests()).map_err(CampaignError::writing(&self.path))?;
        manifest.write(&path)
    }

    /// The names of the campaigns in this folder, in alphabetical order.
    ///
    /// # Errors
    /// The folder does not exist or has no campaigns.
    pub fn campaigns(&self) -> Result<Vec<String>, CampaignError> {
        let entries = fs::read_dir(self.manifests());
        let names = entries.into_iter().flatten().flatten().filter_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.strip_suffix(".jsonl").map(str::to_string)
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        if names.is_empty() {
            let accepted = "accepted: the folder of results of `rnic campaign run` or rnic.Campaign.run";
            return Err(CampaignError::Input(format!("`{}` has no campaigns; {accepted}", self.path.display())));
        }
        Ok(names)
    }

    /// The manifest of the campaign `name`, or of the only campaign if `name` is `None`.
    ///
    /// # Errors
    /// The folder has no such campaign, it has several campaigns and no name is given, or the manifest cannot be read.
    pub fn manifest(&self, name: Option<&str>, vocabulary: &Vocabulary) -> Result<Manifest, CampaignError> {
        let names = self.campaigns()?;
        let chosen = match (name, names.as_slice()) {
            (Some(name), _) if names.iter().any(|known| known == name) => name,
            (None, [only]) => only,
            (None, _) => {
                return Err(CampaignError::Input(format!(
                    "`{}` has {} campaigns; give the name of one: {}",
                    self.path.display(),
                    names.len(),
                    names.join(", ")
                )));
            }
            (Some(name), _) => {
                let known = names.join(", ");
                return Err(CampaignError::Input(format!(
                    "`{}` has no campaign `{name}`; accepted: {known}",
                    self.path.display()
                )));
            }
        };
        Manifest::read(&self.manifests().join(format!("{chosen}.jsonl")), vocabulary)
    }

    /// Looks for results that other processes have stored since the first result was looked up.
    pub fn refresh(&self) {
        self.results.refresh();
        self.records.refresh();
    }

    /// The stored result of a run; `None` if the run has no result or it is damaged. See [`Folder::refresh`].
    pub fn result(&self, fingerprint: &Fingerprint) -> Option<RunResult> {
        self.results.get(fingerprint).map(|(_, result)| result)
    }

    /// The stored record of a run, with all its flows; `None` if the run has no record or it is damaged.
    pub fn record(&self, fingerprint: &Fingerprint) -> Option<RunRecord> {
        self.records.get(fingerprint).map(|(_, record)| record)
    }

    /// Whether the record of a run is stored.
    pub(crate) fn has_record(&self, fingerprint: &Fingerprint) -> bool {
        self.records.contains(&fingerprint.key())
    }

    /// Stores the result of a run, and its record before it, so that a result without its record cannot be found.
    pub(crate) fn put(&self, header: &Header, result: &RunResult, record: Option<&RunRecord>) -> std::io::Result<()> {
        if let Some(record) = record {
            self.records.put(header, record)?;
        }
        self.results.put(header, result)
    }

    /// The number of times that each run was lost, by the key of its fingerprint.
    pub fn lost(&self) -> BTreeMap<String, u32> {
        journal::lost(&self.workers())
    }

    /// Hash of the keys and results of these runs without their provenance. It is the same for every engine.
    pub fn digest(&self, fingerprints: &[Fingerprint]) -> u128 {
        let mut keys: Vec<(String, &Fingerprint)> = fingerprints.iter().map(|one| (one.key(), one)).collect();
        keys.sort();
        keys.dedup();
        let mut hash = Fnv1a::new();
        for (key, fingerprint) in keys {
            if let Some(result) = self.result(fingerprint) {
                hash.absorb(key.as_bytes());
                hash.absorb(&result.digest().to_le_bytes());
            }
        }
        hash.finish()
    }

    /// Removes what is not needed: results whose keys are not in `used` or that another version of rnic computed,
    /// replaced and damaged results, incomplete files, and journals of workers that have ended. A journal remains if
    /// its worker lost a run that is still missing. An incomplete file remains for an hour, because a running worker
    /// may be writing it. With `dry`, files are only counted.
    ///
    /// # Errors
    /// A worker is simulating, so its new result could be removed; or a file cannot be removed.
    pub fn clean(&self, used: &BTreeSet<String>, dry: bool) -> Result<Removed, CampaignError> {
        let workers = journal::workers(&self.workers());
        // A damaged line may be the one that says what the worker simulates.
        let is_busy = |worker: &Worker| worker.is_alive && (worker.current.is_some() || worker.damaged > 0);
        let busy = workers.iter().filter(|(_, worker)| is_busy(worker)).count();
        if busy > 0 && !dry {
            return Err(CampaignError::Input(format!(
                "{busy} workers are simulating into `{}`, and their new results could be removed; accepted: a folder \
                 whose campaigns have ended or were interrupted",
                self.path.display()
            )));
        }
        let mut removed = Removed::default();
        let mut remove = |path: &Path, count: &mut usize| {
            removed.bytes += fs::metadata(path).map_or(0, |file| file.len());
            *count += 1;
            if dry { Ok(()) } else { fs::remove_file(path).map_err(CampaignError::writing(&self.path)) }
        };
        let mut unused = 0;
        let mut damaged = 0;
        let mut journals = 0;
        for folder in [self.path.join("runs"), self.manifests()] {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                match path.extension().and_then(|ending| ending.to_str()) {
                    Some("tmp") if is_old(&path) => remove(&path, &mut damaged)?,
                    Some("result" | "run") if !used.contains(&stem) => remove(&path, &mut unused)?,
                    Some("result") if crate::store::file::read::<RunResult>(&path).is_err() => {
                        remove(&path, &mut damaged)?;
                    }
                    Some("run") if crate::store::file::read::<RunRecord>(&path).is_err() => {
                        remove(&path, &mut damaged)?;
                    }
                    _ => {}
                }
            }
        }
        let mut packed_bytes = 0;
        for cleaned in [self.results.clean(used, dry), self.records.clean(used, dry)] {
            let cleaned = cleaned.map_err(CampaignError::writing(&self.path))?;
            unused += cleaned.unused;
            damaged += cleaned.damaged;
            packed_bytes += cleaned.bytes;
        }
        for (path, worker) in workers {
            let is_missing = |key: &str| !self.results.contains(key);
            if !worker.is_alive && !worker.current.is_some_and(|current| is_missing(&current.key)) {
                remove(&path, &mut journals)?;
            }
        }
        Ok(Removed { unused, damaged, journals, bytes: removed.bytes + packed_bytes })
    }

    /// A sentence about results of other versions of rnic, which are not used; `None` if the folder has no such
    /// results.
    pub fn other_versions(&self) -> Option<String> {
        let mut codes: BTreeMap<String, usize> = BTreeMap::new();
        self.results.for_each(|result| {
            if result.provenance.code != CODE {
                *codes.entry(result.provenance.code).or_default() += 1;
            }
        });
        let count: usize = codes.values().sum();
        let names: Vec<&str> = codes.keys().map(String::as_str).collect();
        (count > 0).then(|| {
            format!(
                "{count} results are of other versions of rnic ({}) and are not used; `rnic campaign gc` removes them",
                names.join(", ")
            )
        })
    }
}

/// Whether a file was last changed more than an hour ago.
fn is_old(path: &Path) -> bool {
    let age = fs::metadata(path).and_then(|file| file.modified()).ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age.as_secs() > 3600)
}

/// The keys of the runs of all campaigns in a folder. [`Folder::clean`] does not remove the results of these runs.
///
/// # Errors
/// A manifest cannot be read.
pub fn used(folder: &Folder, vocabulary: &Vocabulary, program: &str) -> Result<BTreeSet<String>, CampaignError> {
    let mut used = BTreeSet::new();
    for name in folder.campaigns()? {
        let manifest = folder.manifest(Some(&name), vocabulary)?;
        let wanted = super::rows::Wanted::of(&manifest, folder, program, |_, _, _| {});
        used.extend(wanted.replicas.iter().map(|(_, fingerprint)| fingerprint.key()));
    }
    Ok(used)
}
