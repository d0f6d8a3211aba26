//! The journal of a worker: a file to which it appends a line when it starts and when it ends a run.
//!
//! A worker's process holds a lock on the file as long as it lives. By this lock, other processes distinguish a run
//! that is being simulated from a run whose worker was killed, although a killed worker cannot write a last line.

use super::result::RunState;
use parking_lot::Mutex;
use same_file::Handle;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum length of a line in bytes; what follows in a longer line is ignored.
const MAX_LINE: u64 = 1 << 16;

/// A line of a journal.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first line.
    Worker { host: String, pid: u32, engine: String },
    /// The worker starts a run.
    Start { key: String, run: String, seed: u64, at_s: f64 },
    /// The run has ended and its result is stored; `None` if it was interrupted.
    End { key: String, state: Option<RunState>, at_s: f64 },
}

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "it says when a result was computed, and is no part of it")]
pub(crate) fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Name of this machine, with characters that file names may have.
pub(crate) fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
    if name.is_empty() { "host".to_string() } else { name }
}

/// The journal of a worker of this process.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Handle,
    /// Absolute path of the file, because the process may change its current folder.
    path: PathBuf,
    /// Process that opened the file. A process that was forked from it must not write to it.
    pid: u32,
}

/// The journals of this process that no worker uses at the moment.
static FREE: Mutex<Vec<Journal>> = Mutex::new(Vec::new());

impl Journal {
    /// A journal in `folder`: one that a worker of this process has used before, or a new file.
    pub(crate) fn open(folder: &Path, engine: &str) -> io::Result<Journal> {
        let pid = std::process::id();
        let prefix = format!("{}-{pid}-{engine}", host());
        let folder = std::path::absolute(folder)?;
        {
            let mut free = FREE.lock();
            free.retain(|journal| journal.pid == pid && journal.is_in_place());
            let is_own = |journal: &Journal| {
                let name = journal.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                journal.path.parent() == Some(&*folder) && name.starts_with(&prefix)
            };
            if let Some(index) = free.iter().position(is_own) {
                return Ok(free.swap_remove(index));
            }
        }
        fs::create_dir_all(&folder)?;
        for number in 0.. {
            let path = folder.join(format!("{prefix}-{number}.jsonl"));
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => {
                    // Some network file systems have no locks: then every worker counts as alive.
                    let _ = file.lock();
                    let mut journal = Journal { file: Handle::from_file(file)?, path, pid };
                    journal.write(&Line::Worker { host: host(), pid, engine: engine.to_string() })?;
                    return Ok(journal);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Whether the file still exists at its path: its folder may have been removed and created again.
    fn is_in_place(&self) -> bool {
        Handle::from_path(&self.path).is_ok_and(|there| there == self.file)
    }

    /// Lets other workers of this process use the journal.
    pub(crate) fn release(self) {
        FREE.lock().push(self);
    }

    /// Name of the worker.
    pub(crate) fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(crate) fn start(&mut self, key: &str, run: &str, seed: u64) -> io::Result<()> {
        self.write(&Line::Start { key: key.to_string(), run: run.to_string(), seed, at_s: now_s() })
    }

    pub(crate) fn end(&mut self, key: &str, state: Option<RunState>) -> io::Result<()> {
        self.write(&Line::End { key: key.to_string(), state, at_s: now_s() })
    }

    /// Writes a line with a single system call, so that each line of a killed worker is complete or missing.
    fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.as_file_mut().write_all(text.as_bytes())
    }
}

/// The run that a worker executes, or executed when it was killed.
#[derive(Clone, PartialEq, Debug)]
pub struct Current {
    /// Key of the run's fingerprint.
    pub key: String,
    /// Name of the run.
    pub run: String,
    /// Seed of the run.
    pub seed: u64,
    /// When the run started, in seconds since 1970.
    pub since_s: f64,
}

/// The state of a worker according to its journal.
#[derive(Clone, PartialEq, Debug)]
pub struct Worker {
    /// Name of the worker: machine, process, engine and a number.
    pub name: String,
    /// Machine of the worker.
    pub host: String,
    /// The engine that started the worker.
    pub engine: String,
    /// Whether the process of the worker is running.
    pub is_alive: bool,
    /// The run that it executes, or the run during which it was killed.
    pub current: Option<Current>,
    /// Number of runs that it has ended.
    pub ended: u64,
    /// Number of runs among them that failed.
    pub failed: u64,
    /// When it last wrote a line, in seconds since 1970.
    pub last_s: f64,
}

/// The workers whose journals are in `folder`, in order of name. Journals that cannot be read are left out.
pub(crate) fn workers(folder: &Path) -> Vec<(PathBuf, Worker)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    files.sort();
    files.into_iter().filter_map(|path| read(&path).map(|worker| (path, worker))).collect()
}

fn read(path: &Path) -> Option<Worker> {
    let file = File::open(path).ok()?;
    let is_alive = match file.try_lock_shared() {
        Ok(()) => {
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        // Without locks, as on some network file systems, every worker counts as alive.
        Err(TryLockError::Error(_)) => true,
    };
    let mut worker = Worker {
        name: path.file_stem()?.to_string_lossy().into_owned(),
        host: String::new(),
        engine: String::new(),
        is_alive,
        current: None,
        ended: 0,
        failed: 0,
        last_s: 0.0,
    };
    let mut input = BufReader::new(file);
    loop {
        let mut line = Vec::new();
        if (&mut input).take(MAX_LINE).read_until(b'\n', &mut line).ok()? == 0 {
            return Some(worker);
        }
        // A line may be incomplete, because a disk was full.
        match serde_json::from_slice(&line) {
            Ok(Line::Worker { host, engine, .. }) => (worker.host, worker.engine) = (host, engine),
            Ok(Line::Start { key, run, seed, at_s }) => {
                worker.last_s = at_s;
                worker.current = Some(Current { key, run, seed, since_s: at_s });
            }
            Ok(Line::End { key, state, at_s }) => {
                worker.last_s = at_s;
                worker.current.take_if(|current| current.key == key);
                worker.ended += u64::from(state.is_some());
                worker.failed += u64::from(state.is_some_and(|state| state != RunState::Completed));
            }
            Err(_) => {}
        }
    }
}

/// The number of times that each run was lost, by the key of its fingerprint. A run is lost if its worker is killed
/// during the run.
pub(crate) fn lost(folder: &Path) -> BTreeMap<String, u32> {
    let mut lost = BTreeMap::new();
    for (_, worker) in workers(folder) {
        if let Some(current) = worker.current.filter(|_| !worker.is_alive) {
            *lost.entry(current.key).or_default() += 1;
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_do_not_write_to_the_journal_of_a_removed_folder() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("workers");
        Journal::open(&folder, "threads").unwrap().release();
        fs::remove_dir_all(&folder).unwrap();
        for key in ["first", "second"] {
            let mut journal = Journal::open(&folder, "threads").unwrap();
            journal.start(key, "IRN", 1).unwrap();
            journal.end(key, Some(RunState::Completed)).unwrap();
            journal.release();
        }
        let workers = workers(&folder);
        assert_eq!(workers.len(), 1, "the second run reuses the journal of the first: {workers:?}");
        assert_eq!(workers[0].1.ended, 2);
    }
}
