//! The journal of a worker: a file to which it appends a line when it starts and when it ends a run.
//!
//! A worker's process holds a lock on the file as long as it lives. By this lock, other processes distinguish a run
//! that is being simulated from a run whose worker was killed, although a killed worker cannot write a last line.
//!
//! Each line ends with the CRC-32 of the rest of the line, in the field `sum`. Lines of earlier versions have none.

use super::result::RunState;
use parking_lot::Mutex;
use same_file::Handle;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum length of a line in bytes; the rest of a longer line is ignored.
const MAX_LINE: u64 = 1 << 16;

/// What precedes the checksum of a line, and what follows it.
const SUM: [&str; 2] = [",\"sum\":\"", "\"}}"];

/// A line of a journal.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    /// The first line.
    Worker { host: String, pid: u32, engine: String },
    /// The worker starts a run.
    Start { key: String, run: String, seed: u64, at_s: f64 },
    /// The run has ended and its result is stored; `None` if it was interrupted.
    End { key: String, state: Option<RunState>, at_s: f64 },
}

impl Line {
    /// The line as text, with its checksum and the line break.
    fn to_text(&self) -> io::Result<String> {
        let plain = serde_json::to_string(self)?;
        let sum = crc32fast::hash(plain.as_bytes());
        let fields = plain.strip_suffix("}}").ok_or_else(|| io::Error::other("a line has no fields"))?;
        Ok(format!("{fields}{}{sum:08x}{}\n", SUM[0], SUM[1]))
    }

    /// Reads the text of a line; `None` if it is damaged or incomplete.
    fn read(text: &[u8]) -> Option<Line> {
        let text = std::str::from_utf8(text).ok()?.strip_suffix('\n')?;
        // In a field's value the quotation marks have backslashes, so this text is only before the checksum.
        let Some((fields, sum)) = text.rsplit_once(SUM[0]) else { return serde_json::from_str(text).ok() };
        let plain = format!("{fields}}}}}");
        let expected = format!("{:08x}{}", crc32fast::hash(plain.as_bytes()), SUM[1]);
        if sum == expected { serde_json::from_str(&plain).ok() } else { None }
    }
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
        self.file.as_file_mut().write_all(line.to_text()?.as_bytes())
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
    /// Number of lines of its journal that are damaged or incomplete. The content of these lines is missing.
    pub damaged: u64,
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
        damaged: 0,
    };
    worker.read(BufReader::new(file))?;
    Some(worker)
}

/// Whether a line ends before its checksum, at the end of the file.
fn is_incomplete(line: &[u8]) -> bool {
    let has_sum = line.windows(SUM[0].len()).any(|window| window == SUM[0].as_bytes());
    !line.ends_with(b"\n") && !has_sum
}

impl Worker {
    /// Reads the lines of the journal; `None` if they cannot be read.
    fn read(&mut self, mut input: impl BufRead) -> Option<()> {
        loop {
            let mut line = Vec::new();
            if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).ok()? == 0 {
                return Some(());
            }
            match Line::read(&line) {
                Some(Line::Worker { host, engine, .. }) => (self.host, self.engine) = (host, engine),
                Some(Line::Start { key, run, seed, at_s }) => {
                    self.last_s = at_s;
                    self.current = Some(Current { key, run, seed, since_s: at_s });
                }
                Some(Line::End { key, state, at_s }) => {
                    self.last_s = at_s;
                    self.current.take_if(|current| current.key == key);
                    self.ended += u64::from(state.is_some());
                    self.failed += u64::from(state.is_some_and(|state| state != RunState::Completed));
                }
                // The worker was killed while it wrote the last line, or a disk was full.
                None if is_incomplete(&line) => self.damaged += 1,
                // The line may have ended the run, so no run counts as lost.
                None => {
                    self.damaged += 1;
                    self.current = None;
                }
            }
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

    /// If any bit of a journal is changed, the worker's state follows from the undamaged lines, and the damaged line is
    /// counted.
    #[test]
    fn a_changed_bit_of_a_journal_is_noticed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("workers");
        let mut journal = Journal::open(&folder, "threads").unwrap();
        for (key, state) in [("first", RunState::Completed), ("second", RunState::Failed)] {
            journal.start(key, "load=0.6, \"sum\":\"0\"", 1).unwrap();
            journal.end(key, Some(state)).unwrap();
        }
        let path = journal.path.clone();
        drop(journal);
        let bytes = fs::read(&path).unwrap();
        let whole = read(&path).unwrap();
        assert_eq!((whole.ended, whole.failed, whole.damaged), (2, 1, 0));
        let empty =
            Worker { host: String::new(), engine: String::new(), ended: 0, failed: 0, last_s: 0.0, ..whole.clone() };
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let mut worker = empty.clone();
                worker.read(&*changed).unwrap();
                assert!((1..=2).contains(&worker.damaged), "bit {bit} of byte {at}: {worker:?}");
                assert!(worker.ended <= 2 && worker.failed <= 1 && worker.current.is_none(), "{worker:?}");
                let is_known = |text: &str, whole: &str| text == whole || text.is_empty();
                assert!(is_known(&worker.host, &whole.host) && is_known(&worker.engine, &whole.engine), "{worker:?}");
            }
        }
    }

    #[test]
    fn journals_of_earlier_versions_are_read() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("old.jsonl");
        let lines = "{\"worker\":{\"host\":\"a\",\"pid\":7,\"engine\":\"threads\"}}\n\
                     {\"start\":{\"key\":\"k\",\"run\":\"IRN\",\"seed\":1,\"at_s\":1.5}}\n";
        fs::write(&path, lines).unwrap();
        let worker = read(&path).unwrap();
        assert_eq!((worker.host.as_str(), worker.damaged), ("a", 0));
        assert_eq!(worker.current.unwrap().key, "k");
    }
}
