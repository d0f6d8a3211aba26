//! Results on disk, in one folder.
//!
//! | file | holds |
//! |---|---|
//! | `probes-HOUR-N.log` | the batches of the current hour, as they arrive |
//! | `probes-HOUR-N.parquet` | the results of an hour; HOUR is `2026-01-31T23` in UTC |
//! | `probes-HOUR-N.log.damaged` | a log of which some bytes cannot be read |
//! | `state.json` | agents, and the last batch of each; see [`State`] |
//!
//! The store neither reads nor removes files with other names. All its files have checksums.
//!
//! The controller confirms a batch to its agent after the batch is in the log and the log is flushed to the disk. When
//! an hour has passed, its log is converted into a Parquet file: the file is written under another name, flushed, and
//! renamed, so that a file named `.parquet` is complete even if the controller was killed. The hour of a batch is the
//! hour of its arrival by the controller's clock. If this clock goes back, an hour gets another part (N).

mod columns;
mod log;
mod names;
mod pages;

use crate::record::Batch;
pub use columns::Stored as StoredResult;
use log::Log;
pub(crate) use log::MAX_BATCH;
pub use log::{Damage, Entries, Entry, entries};
use names::Name;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use time::{OffsetDateTime, PrimitiveDateTime};

/// Incarnation and sequence number of each agent's last batch on disk, by name of the host.
pub type Stored = BTreeMap<String, (u64, u64)>;

/// The controller's state apart from the results.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct State {
    /// Agents that have registered.
    pub agents: Vec<crate::record::Registration>,
    /// The last batch of each agent.
    pub stored: Stored,
    /// Secret from which the numbers of sessions are derived.
    pub secret: Vec<u8>,
}

/// The reason why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Another controller uses the folder.
    #[error("{path}: another controller uses this folder", path = path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// `state.json` is damaged.
    #[error("{path}: {why}; if you remove the file, the agents register again", path = path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

fn at(path: &Path) -> impl Fn(io::Error) -> StoreError + '_ {
    move |error| StoreError::Io { path: path.to_path_buf(), error }
}

/// A folder with results.
pub struct Store {
    folder: PathBuf,
    retention: Arc<AtomicUsize>,
    log: Option<Log>,
    stored: Stored,
    /// Holds the lock of the folder.
    _lock: nix::fcntl::Flock<File>,
}

/// The hour of a time in microseconds since 1970, as in file names. Times after the year 9999 are mapped to its last
/// hour.
pub fn hour(unix_us: u64) -> String {
    let last = PrimitiveDateTime::MAX.assume_utc();
    let utc = OffsetDateTime::from_unix_timestamp((unix_us / 1_000_000) as i64).unwrap_or(last);
    format!("{:04}-{:02}-{:02}T{:02}", utc.year(), u8::from(utc.month()), utc.day(), utc.hour())
}

impl Store {
    /// Opens a folder, and creates it if it does not exist. Passes the batches of earlier logs to `replay` in order,
    /// and returns the store and the state. Completes file operations that a killed controller left unfinished.
    ///
    /// # Errors
    /// If the folder cannot be used, or another controller uses it.
    pub fn open(folder: &Path, retention: usize, mut replay: impl FnMut(Entry)) -> Result<(Store, State), StoreError> {
        fs::create_dir_all(folder).map_err(at(folder))?;
        let path = folder.join("lock");
        let file = File::create(&path).map_err(at(&path))?;
        let lock = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusiveNonblock)
            .map_err(|_| StoreError::InUse { path: folder.to_path_buf() })?;
        let path = folder.join("state.json");
        let mut state: State = match fs::read(&path) {
            Ok(bytes) => read_state(&bytes).map_err(|why| StoreError::State { path: path.clone(), why })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
            Err(error) => return Err(at(&path)(error)),
        };
        for name in names(folder)? {
            if name == STATE_TMP || Name::is(&name, "parquet.tmp") {
                let path = folder.join(name);
                fs::remove_file(&path).map_err(at(&path))?;
            }
        }
        let mut stored = std::mem::take(&mut state.stored);
        for name in names(folder)?.iter().filter(|name| Name::is(name, "log")) {
            let path = folder.join(name);
            for entry in entries(&path).map_err(at(&path))? {
                let Batch { host, incarnation, sequence, .. } = &entry.batch;
                stored.insert(host.clone(), (*incarnation, *sequence));
                replay(entry);
            }
        }
        let retention = Arc::new(AtomicUsize::new(retention));
        let store = Store { folder: folder.to_path_buf(), retention, log: None, stored: stored.clone(), _lock: lock };
        Ok((store, State { stored, ..state }))
    }

    /// Whether a batch of an agent is on disk already.
    pub fn has(&self, batch: &Batch) -> bool {
        self.stored
            .get(&batch.host)
            .is_some_and(|(incarnation, sequence)| *incarnation == batch.incarnation && batch.sequence <= *sequence)
    }

    /// Appends batches, and returns once they are on the disk. `bytes` are the batches as they arrived. Returns the log
    /// of an hour that has passed, for [`Converter::convert`].
    ///
    /// # Errors
    /// If the disk is full, for example. In this case none of the batches is stored.
    pub fn append(&mut self, batches: &[(&Batch, &[u8])], unix_us: u64) -> Result<Option<PathBuf>, StoreError> {
        let mut passed = None;
        let now = hour(unix_us);
        if self.log.as_ref().is_none_or(|log| log.hour != now || log.is_broken) {
            let path = self.next_path(&now)?;
            let log = Log::create(&path, now).map_err(at(&path))?;
            sync_folder(&self.folder)?;
            passed = self.log.replace(log).map(|old| old.path);
        }
        let Some(log) = &mut self.log else { return Ok(passed) };
        let fresh = batches.iter().filter(|(batch, _)| {
            let last = self.stored.get(&batch.host);
            last.is_none_or(|(incarnation, sequence)| *incarnation != batch.incarnation || batch.sequence > *sequence)
        });
        let fresh: Vec<&(&Batch, &[u8])> = fresh.collect();
        let result = log.append(fresh.iter().map(|(_, bytes)| *bytes), unix_us);
        if let Err(error) = result {
            let path = log.path.clone();
            return Err(StoreError::Io { path, error });
        }
        for (batch, _) in fresh {
            self.stored.insert(batch.host.clone(), (batch.incarnation, batch.sequence));
        }
        Ok(passed)
    }

    /// The last batch of each agent on disk.
    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// The path of a new part of an hour.
    fn next_path(&self, hour: &str) -> Result<PathBuf, StoreError> {
        let part = |name: &String| Name::of(name).filter(|name| name.hour == hour).map(|name| name.part);
        let next = names(&self.folder)?.iter().filter_map(part).max().map_or(0, |last| last.saturating_add(1));
        Ok(self.folder.join(format!("probes-{hour}-{next}.log")))
    }

    /// The folder and the number of hours to keep, with which another thread can convert logs.
    pub fn converter(&self) -> Converter {
        Converter { folder: self.folder.clone(), retention: self.retention.clone() }
    }

    /// The logs of earlier controllers, to which no batch is appended any more.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn passed(&self) -> Result<Vec<PathBuf>, StoreError> {
        let current = self.log.as_ref().map(|log| log.path.clone());
        let logs = names(&self.folder)?.into_iter().filter(|name| Name::is(name, "log"));
        Ok(logs.map(|name| self.folder.join(name)).filter(|path| Some(path) != current.as_ref()).collect())
    }
}

/// The result of [`earlier`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Earlier {
    /// Number of results.
    pub results: u64,
    /// Number of older results that were skipped because of the maximum.
    pub left_out: u64,
    /// Files that could not be read, each with the reason.
    pub unreadable: Vec<String>,
}

/// Reads the results that the controller received from `since_us` to `now_us` from the Parquet files of a folder, in
/// order of arrival, but at most the newest row groups with `max` results. Results after `now_us` are left out: the
/// clock went back, so their age is not known. Damaged files are skipped.
///
/// # Errors
/// If the folder cannot be read.
pub fn earlier(
    folder: &Path, (since_us, now_us): (u64, u64), max: usize, mut result: impl FnMut(StoredResult),
) -> Result<Earlier, StoreError> {
    let names = match names(folder) {
        Err(StoreError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => return Ok(Earlier::default()),
        names => names?,
    };
    let hours = hour(since_us)..=hour(now_us);
    let mut files: Vec<(&str, u64, PathBuf)> = names
        .iter()
        .filter_map(|name| {
            let Name { hour, part, .. } = Name::of(name).filter(|name| name.ending == "parquet")?;
            // If a controller was killed, the log of a Parquet file may still exist. The log is then read and converted
            // again, so this file is skipped.
            let log = format!("{}log", name.strip_suffix("parquet")?);
            let is_complete = names.binary_search(&log).is_err();
            (is_complete && hours.contains(&hour.to_string())).then_some((hour, part, folder.join(name)))
        })
        .collect();
    files.sort_unstable();
    let mut earlier = Earlier::default();
    let mut plan = Vec::new();
    let mut rows = 0;
    for (.., path) in files.into_iter().rev() {
        match File::open(&path).map_err(parquet::errors::ParquetError::from).and_then(columns::groups) {
            Err(why) => earlier.unreadable.push(format!("{}: {why}", path.display())),
            Ok(groups) => {
                let mut skip = groups.len();
                while skip > 0 && rows + groups[skip - 1] <= max {
                    skip -= 1;
                    rows += groups[skip];
                }
                earlier.left_out += groups[..skip].iter().map(|rows| *rows as u64).sum::<u64>();
                plan.push((path, skip));
                if skip > 0 {
                    rows = max;
                }
            }
        }
    }
    for (path, skip) in plan.into_iter().rev() {
        let each = |stored: StoredResult| {
            if (since_us..=now_us).contains(&stored.received_us) {
                earlier.results += 1;
                result(stored);
            }
        };
        let read = File::open(&path).map_err(parquet::errors::ParquetError::from);
        if let Err(why) = read.and_then(|file| columns::read(file, skip, each)) {
            earlier.unreadable.push(format!("{}: {why}", path.display()));
        }
    }
    Ok(earlier)
}

/// Turns logs into Parquet files, and removes old ones.
#[derive(Clone, Debug)]
pub struct Converter {
    folder: PathBuf,
    retention: Arc<AtomicUsize>,
}

impl Converter {
    /// Sets the number of hours whose files are kept.
    pub fn set_retention(&self, hours: usize) {
        self.retention.store(hours, Ordering::Relaxed);
    }

    /// Converts a log into a Parquet file, and removes the files of the oldest hours beyond the retention. A damaged
    /// log is kept under another name; then returns a sentence about the damage.
    ///
    /// # Errors
    /// If the disk is full, for example; the log remains then.
    pub fn convert(&self, log: &Path) -> Result<Option<String>, StoreError> {
        let path = log.with_extension("parquet");
        let temporary = log.with_extension("parquet.tmp");
        let written = || -> io::Result<(u64, Damage)> {
            let mut options = fs::OpenOptions::new();
            let mut file = options.read(true).write(true).create(true).truncate(true).open(&temporary)?;
            let mut entries = entries(log)?;
            let rows = columns::write(&mut file, &mut entries)?;
            file.sync_all()?;
            Ok((rows, entries.damage()))
        };
        let (rows, damage) = written().map_err(|error| {
            // If this fails, the next start removes the file.
            let _ = fs::remove_file(&temporary);
            StoreError::Io { path: temporary.clone(), error }
        })?;
        if rows == 0 && !damage.is_none() {
            fs::remove_file(&temporary).map_err(at(&temporary))?;
        } else {
            fs::rename(&temporary, &path).map_err(at(&path))?;
        }
        sync_folder(&self.folder)?;
        let sentence = if damage.is_none() {
            fs::remove_file(log).map_err(at(log))?;
            None
        } else {
            let kept = log.with_extension("log.damaged");
            fs::rename(log, &kept).map_err(at(&kept))?;
            sync_folder(&self.folder)?;
            let saved = if rows == 0 {
                "no result can be read".to_string()
            } else {
                format!("{rows} results are in {}", path.display())
            };
            Some(format!("{}: {damage}; {saved}; the file is now {}", log.display(), kept.display()))
        };
        self.retain()?;
        Ok(sentence)
    }

    /// Removes the files of all but the newest hours. The retention counts hours with files instead of comparing with
    /// the clock, so that a clock that jumps ahead removes no results.
    fn retain(&self) -> Result<(), StoreError> {
        let names = names(&self.folder)?;
        let files: Vec<(&str, &String)> = names
            .iter()
            .filter_map(|name| Some((Name::of(name).filter(|name| name.ending == "parquet")?.hour, name)))
            .collect();
        let hours: BTreeSet<&str> = files.iter().map(|(hour, _)| *hour).collect();
        let old: BTreeSet<&str> = hours.into_iter().rev().skip(self.retention.load(Ordering::Relaxed)).collect();
        for (_, name) in files.iter().filter(|(hour, _)| old.contains(hour)) {
            let path = self.folder.join(name);
            fs::remove_file(&path).map_err(at(&path))?;
        }
        Ok(())
    }

    /// Writes `state.json`, complete or not at all.
    ///
    /// # Errors
    /// If the disk is full, for example; the old state remains then.
    pub fn save(&self, state: &State) -> Result<(), StoreError> {
        let path = self.folder.join("state.json");
        let temporary = self.folder.join(STATE_TMP);
        let write = || -> io::Result<()> {
            use std::os::unix::fs::OpenOptionsExt;
            let mut options = fs::OpenOptions::new();
            // The file contains a secret, so only its owner may read it.
            let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
            let mut text = serde_json::to_string(state)?;
            text += &state_checksum(&text);
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        };
        write().map_err(at(&path))?;
        sync_folder(&self.folder)
    }
}

/// Name of the temporary file of the state.
const STATE_TMP: &str = "state.json.tmp";

/// The second line of `state.json`, with the line break before it: the checksum of the first line.
fn state_checksum(text: &str) -> String {
    format!("\ncrc32 {:08x}\n", crc32fast::hash(text.as_bytes()))
}

/// Reads the content of `state.json`. Files of rnic 0.2.0 and earlier have neither a checksum nor a line break.
fn read_state(bytes: &[u8]) -> Result<State, String> {
    let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let (json, sum) = text.split_at(text.find('\n').unwrap_or(text.len()));
    if !sum.is_empty() && sum != state_checksum(json) {
        return Err("the file is damaged: its checksum is wrong".to_string());
    }
    serde_json::from_str(json).map_err(|error| error.to_string())
}

fn names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let read = fs::read_dir(folder).and_then(|entries| {
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<Vec<_>>>()
    });
    let mut names = read.map_err(at(folder))?;
    names.sort();
    Ok(names)
}

/// Flushes a folder: a new or renamed file survives a power failure only if its folder has been flushed.
fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(at(folder))
}

#[cfg(test)]
mod damage_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{PROTOCOL, ProbeRecord, ProbeResult};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    const HOUR: u64 = 3_600_000_000;

    pub(super) fn batch(host: &str, sequence: u64, probes: u64) -> Batch {
        let probe = |n| ProbeRecord {
            target: 0,
            path: (n % 2) as u16,
            at_us: n,
            result: match n % 3 {
                0 => ProbeResult::Timeout,
                1 => ProbeResult::Answered { total_ns: n, prober_ns: 1, split_ns: None },
                _ => ProbeResult::Answered { total_ns: n, prober_ns: 1, split_ns: Some((2, 3)) },
            },
        };
        Batch {
            protocol: PROTOCOL,
            host: host.to_string(),
            incarnation: 4,
            sequence,
            targets: vec![("target".to_string(), 5)],
            source_ports: vec![50_000, 50_001],
            probes: (0..probes).map(probe).collect(),
            traces: Vec::new(),
        }
    }

    pub(super) fn append(store: &mut Store, batch: &Batch, unix_us: u64) -> Option<PathBuf> {
        store.append(&[(batch, &batch.emit())], unix_us).unwrap()
    }

    pub(super) fn rows(path: &Path) -> usize {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().len()).filter(|columns| *columns == 12).count()
    }

    #[test]
    fn hours_have_names() {
        assert_eq!(hour(0), "1970-01-01T00");
        assert_eq!(hour(951_782_399_000_000), "2000-02-28T23");
        assert_eq!(hour(951_782_400_000_000), "2000-02-29T00");
        assert_eq!(hour(4_107_542_400_000_000), "2100-03-01T00");
    }

    #[test]
    fn an_hour_becomes_a_parquet_file_and_old_hours_go() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(folder.path(), 2, |_| panic!("the folder is empty")).unwrap();
        for number in 0..4 {
            let passed = append(&mut store, &batch("a", number + 1, 10), number * HOUR);
            assert_eq!(passed.is_some(), number > 0);
            if let Some(log) = passed {
                store.converter().convert(&log).unwrap();
                assert_eq!(rows(&log.with_extension("parquet")), 10);
            }
        }
        let names = names(folder.path()).unwrap();
        let expected =
            ["lock", "probes-1970-01-01T01-0.parquet", "probes-1970-01-01T02-0.parquet", "probes-1970-01-01T03-0.log"];
        assert_eq!(names, expected);
        // The clock goes back: the hour gets another part, and nothing is overwritten.
        append(&mut store, &batch("a", 9, 1), HOUR);
        assert!(folder.path().join("probes-1970-01-01T01-1.log").exists());
    }

    /// If a controller is killed at any byte of the log, all confirmed batches are still read, and a partial record
    /// does not cause an error.
    #[test]
    fn a_killed_controller_loses_nothing_that_was_confirmed() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(folder.path(), 9, |_| ()).unwrap();
        for number in 1..=3 {
            append(&mut store, &batch("a", number, 5), 7);
        }
        drop(store);
        let path = folder.path().join("probes-1970-01-01T00-0.log");
        let bytes = fs::read(&path).unwrap();
        for cut in [bytes.len(), bytes.len() - 1, bytes.len() * 2 / 3 + 1, 3, 0] {
            fs::write(&path, &bytes[..cut]).unwrap();
            let mut seen = Vec::new();
            let (mut store, state) = Store::open(folder.path(), 9, |entry| seen.push(entry.batch.sequence)).unwrap();
            let whole = cut.saturating_sub(24) * 3 / (bytes.len() - 24);
            assert_eq!(seen, (1..=whole as u64).collect::<Vec<_>>(), "{cut}");
            assert_eq!(state.stored.get("a").map(|(_, last)| *last), (whole > 0).then_some(whole as u64));
            // The agent reports again what was not confirmed, and something that was.
            append(&mut store, &batch("a", 1, 5), 7);
            append(&mut store, &batch("a", 4, 5), 7);
            for log in store.passed().unwrap() {
                store.converter().convert(&log).unwrap();
                assert_eq!(rows(&log.with_extension("parquet")), 5 * whole, "{cut}");
                fs::remove_file(log.with_extension("parquet")).unwrap();
            }
            drop(store);
            for name in names(folder.path()).unwrap().iter().filter(|name| name.ends_with("log")) {
                fs::remove_file(folder.path().join(name)).unwrap();
            }
        }
    }

    /// The results of the last hour are read from the Parquet files in order of arrival, whatever the part numbers are.
    #[test]
    fn earlier_results_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let none = earlier(&folder.path().join("none"), (0, HOUR), 10, |_| panic!("there is no folder")).unwrap();
        assert_eq!(none, Earlier::default());
        let (mut store, _) = Store::open(folder.path(), 99, |_| ()).unwrap();
        let mut sequence = 0;
        // Two hours, the second one in twelve parts: the clock went back repeatedly.
        for number in [0, 1].into_iter().chain((0..22).map(|turn| turn % 2 * 2 + 1)) {
            sequence += 1;
            if let Some(log) = append(&mut store, &batch("a", sequence, 3), number * HOUR + sequence) {
                store.converter().convert(&log).unwrap();
            }
        }
        let read = |since, until, max| {
            let mut seen = Vec::new();
            let earlier = earlier(folder.path(), (since, until), max, |stored| seen.push(stored)).unwrap();
            (seen, earlier)
        };
        let (seen, earlier) = read(HOUR, 2 * HOUR, 1_000);
        let times: Vec<u64> = seen.iter().map(|stored| stored.received_us - HOUR).collect();
        assert!(times.is_sorted() && seen.len() == 36 && earlier.results == 36, "{times:?}");
        let batch = batch("a", 1, 3);
        for (stored, probe) in seen.iter().zip(&batch.probes) {
            assert_eq!((stored.prober.data(), stored.target.data()), (&b"a"[..], &b"target"[..]));
            assert_eq!(
                (stored.path, stored.result),
                ((probe.path, batch.source_ports[usize::from(probe.path)]), probe.result)
            );
        }
        let (seen, earlier) = read(HOUR, 2 * HOUR, 7);
        assert_eq!((seen.len(), earlier.left_out, seen[5].received_us), (6, 30, HOUR + times[35]));
        fs::write(folder.path().join("probes-1970-01-01T01-3.parquet"), "PAR1").unwrap();
        let (seen, earlier) = read(HOUR, 2 * HOUR, 1_000);
        assert_eq!((seen.len(), earlier.unreadable.len()), (33, 1));
        assert!(earlier.unreadable[0].contains("T01-3.parquet: "), "{:?}", earlier.unreadable);
    }

    #[test]
    fn two_controllers_do_not_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let _first = Store::open(folder.path(), 9, |_| ()).unwrap();
        let error = Store::open(folder.path(), 9, |_| ()).err().unwrap();
        assert!(error.to_string().ends_with("another controller uses this folder"), "{error}");
    }

    #[test]
    fn the_state_is_saved() {
        let folder = tempfile::tempdir().unwrap();
        let (store, state) = Store::open(folder.path(), 9, |_| ()).unwrap();
        let state = State { secret: vec![7; 32], ..state };
        store.converter().save(&state).unwrap();
        drop(store);
        assert_eq!(Store::open(folder.path(), 9, |_| ()).unwrap().1, state);
        fs::write(folder.path().join("state.json"), "{").unwrap();
        let error = Store::open(folder.path(), 9, |_| ()).err().unwrap().to_string();
        assert!(error.contains("state.json: EOF") && error.contains("register again"), "{error}");
    }
}
