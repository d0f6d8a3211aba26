//! The log of a run's flow records. A small number of records is kept in memory, a larger number in a temporary file.

mod file;
mod stream;

use crate::flow::FlowRecord;
use file::RecordFile;
use std::fmt;
use std::io;
use std::sync::OnceLock;

/// Maximum number of flow records that a [`FlowLog`] keeps in memory (16 MB). A log with more records keeps all of them
/// in a file.
pub(crate) const IN_MEMORY: usize = 200_000;

/// The records of all flows of a run. They are read in order of flow id. The record of each flow id, from 0 on, is put
/// into the log once, in any order.
///
/// A log of more than 200,000 flows keeps its records, 64 bytes each, in an unnamed file in the system's
/// temporary folder (on Unix `TMPDIR`, else `/tmp`). The system deletes the file with the last clone of the log. The
/// memory that a log needs therefore does not grow with the run. If the file cannot be written or read, records are
/// missing, and [`FlowLog::error`] says why.
///
/// ```
/// use rnic_spec::{FlowLog, FlowRecord};
/// use rnic_transport::Time;
///
/// let record = |id| FlowRecord {
///     id,
///     src: 0,
///     dst: 1,
///     bytes: 1_000,
///     start: Time::ZERO,
///     finish: Some(Time::from_us(10)),
///     ideal: Time::from_us(5),
///     delivered: 1_000,
///     retransmitted: 0,
///     timeouts: 0,
///     request: u32::MAX,
///     traffic: 0,
///     measured: true,
/// };
/// let mut log = FlowLog::new();
/// log.extend([1, 0, 2].map(record));
/// log.close();
/// assert_eq!(log.iter().map(|flow| flow.id).collect::<Vec<_>>(), [0, 1, 2]);
/// assert_eq!(log.error(), None);
/// ```
#[derive(Clone)]
pub struct FlowLog {
    store: Store,
    len: usize,
    /// Maximum number of flow records in memory.
    limit: usize,
    /// Error message for the first record that could not be stored.
    lost: Option<String>,
    /// Error message for the first record that could not be read.
    unread: OnceLock<String>,
}

#[derive(Clone)]
enum Store {
    /// The records, indexed by flow id; `None` until the record of the flow is put into the log.
    Memory(Vec<Option<FlowRecord>>),
    File(RecordFile),
}

impl Default for FlowLog {
    fn default() -> FlowLog {
        FlowLog::new()
    }
}

impl FlowLog {
    /// An empty log.
    pub fn new() -> FlowLog {
        FlowLog::with_limit(IN_MEMORY)
    }

    /// An empty log that keeps up to `limit` records in memory.
    pub(crate) fn with_limit(limit: usize) -> FlowLog {
        FlowLog { store: Store::Memory(Vec::new()), len: 0, limit, lost: None, unread: OnceLock::new() }
    }

    /// Puts the final record of one flow into the log. If the record cannot be stored, [`FlowLog::error`] says why.
    pub fn put(&mut self, record: FlowRecord) {
        if self.lost.is_some() {
            return;
        }
        match self.try_put(record) {
            Ok(()) => self.len += 1,
            Err(error) => self.lost = Some(told("kept", &error)),
        }
    }

    fn try_put(&mut self, record: FlowRecord) -> io::Result<()> {
        let records = match &mut self.store {
            Store::File(file) => return file.put(record),
            Store::Memory(records) => records,
        };
        let index = record.id as usize;
        if index < self.limit {
            if records.len() <= index {
                records.resize(index + 1, None);
            }
            records[index] = Some(record);
            return Ok(());
        }
        let mut file = RecordFile::new()?;
        for record in std::mem::take(records).into_iter().flatten() {
            file.put(record)?;
        }
        file.put(record)?;
        self.store = Store::File(file);
        Ok(())
    }

    /// Writes the records that are still buffered to the log's file. Call this method after the last record has been
    /// put into the log, because it makes [`FlowLog::get`] faster.
    pub fn close(&mut self) {
        if let Store::File(file) = &mut self.store
            && let Err(error) = file.write()
        {
            self.lost.get_or_insert_with(|| told("kept", &error));
        }
    }

    /// Number of records in the log.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the log has no records.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the records are in a temporary file instead of in memory.
    pub fn is_in_file(&self) -> bool {
        matches!(self.store, Store::File(_))
    }

    /// Why records are missing, in one sentence: the temporary file could not be written, or a previous read of it
    /// failed. `None` if none is known to be missing.
    pub fn error(&self) -> Option<&str> {
        self.lost.as_deref().or(self.unread.get().map(String::as_str))
    }

    /// Checks that no read of a record has failed so far, for example after the records were written to a result file.
    ///
    /// # Errors
    /// The error of the first stored record that could not be read.
    pub fn check(&self) -> io::Result<()> {
        self.unread.get().map_or(Ok(()), |error| Err(io::Error::other(error.clone())))
    }

    /// Iterates over all records, in order of flow id.
    pub fn iter(&self) -> Iter<'_> {
        self.range(0, u32::MAX)
    }

    /// Iterates over the records of the flows with ids `from..=to`, in order of flow id.
    pub fn range(&self, from: u32, to: u32) -> Iter<'_> {
        Iter(match &self.store {
            Store::Memory(records) => {
                let end = (to as usize).saturating_add(1).min(records.len());
                Records::Memory(records[(from as usize).min(end)..end].iter())
            }
            Store::File(file) => Records::File(file.range(from, to), &self.unread),
        })
    }

    /// The record of flow `id`; `None` if it was not put into the log or cannot be read.
    pub fn get(&self, id: u32) -> Option<FlowRecord> {
        match &self.store {
            Store::Memory(records) => records.get(id as usize).copied().flatten(),
            Store::File(file) => file.get(id).unwrap_or_else(|error| {
                unread(&self.unread, &error);
                None
            }),
        }
    }
}

/// Stores the message of a read error in `note`, unless `note` has an earlier message.
fn unread(note: &OnceLock<String>, error: &io::Error) {
    note.get_or_init(|| told("read", error));
}

/// The message of an error of the temporary file. `done` is the participle of the failed action: `kept` or `read`.
fn told(done: &str, error: &io::Error) -> String {
    format!(
        "the flow records cannot be {done} in a temporary file in {}: {error}; they need 64 bytes per flow; set TMPDIR \
         to use another folder",
        std::env::temp_dir().display()
    )
}

/// Iterator that yields copies of the records of a [`FlowLog`].
pub struct Iter<'l>(Records<'l>);

enum Records<'l> {
    Memory(std::slice::Iter<'l, Option<FlowRecord>>),
    File(file::Range<'l>, &'l OnceLock<String>),
}

impl Iterator for Iter<'_> {
    type Item = FlowRecord;

    fn next(&mut self) -> Option<FlowRecord> {
        match &mut self.0 {
            Records::Memory(records) => records.find_map(|record| *record),
            Records::File(range, note) => range.next()?.map_err(|error| unread(note, &error)).ok(),
        }
    }
}

impl<'l> IntoIterator for &'l FlowLog {
    type Item = FlowRecord;
    type IntoIter = Iter<'l>;

    fn into_iter(self) -> Iter<'l> {
        self.iter()
    }
}

impl Extend<FlowRecord> for FlowLog {
    fn extend<I: IntoIterator<Item = FlowRecord>>(&mut self, records: I) {
        records.into_iter().for_each(|record| self.put(record));
    }
}

impl FromIterator<FlowRecord> for FlowLog {
    fn from_iter<I: IntoIterator<Item = FlowRecord>>(records: I) -> FlowLog {
        let mut log = FlowLog::new();
        log.extend(records);
        log.close();
        log
    }
}

/// Two logs are equal if their records are equal, in memory or in a file.
impl PartialEq for FlowLog {
    fn eq(&self, other: &FlowLog) -> bool {
        self.len() == other.len() && self.iter().eq(other)
    }
}

impl fmt::Debug for FlowLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowLog").field("flows", &self.len).field("error", &self.error()).finish_non_exhaustive()
    }
}

#[cfg(any(test, feature = "testing"))]
impl FlowLog {
    /// For tests: changes the stored record of flow `id`.
    pub fn edit(&mut self, id: u32, change: impl FnOnce(&mut FlowRecord)) {
        let mut change = Some(change);
        let mut edited = FlowLog::with_limit(self.limit);
        edited.extend(self.iter().map(|mut record| {
            if record.id == id {
                change.take().unwrap()(&mut record);
            }
            record
        }));
        *self = edited;
    }

    /// For tests: a log with the same records in a file; some of them are still buffered.
    pub fn in_file(&self) -> FlowLog {
        let mut log = FlowLog::with_limit(0);
        log.extend(self);
        assert!(log.is_in_file() || log.is_empty());
        log
    }

    /// For tests: a log with the same records in a file that cannot be read.
    pub fn unreadable(&self) -> FlowLog {
        let mut log = self.in_file();
        log.close();
        let Store::File(file) = &mut log.store else { panic!("nothing is unreadable") };
        file.make_unreadable();
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(id: u32, bytes: u64) -> FlowRecord {
        FlowRecord::sample(id, bytes)
    }

    use proptest::prelude::*;

    fn log_of(limit: usize, ids: &[u32]) -> FlowLog {
        let mut log = FlowLog::with_limit(limit);
        log.extend(ids.iter().map(|id| flow(*id, u64::from(*id) * 10)));
        log
    }

    fn ids(log: &FlowLog) -> Vec<u32> {
        log.iter().map(|record| record.id).collect()
    }

    #[test]
    fn records_are_in_order_in_memory_and_in_a_file() {
        for limit in [0, 2, 3, 4, 100] {
            let log = log_of(limit, &[3, 0, 1, 2]);
            assert_eq!((ids(&log), log.len(), log.is_in_file()), (vec![0, 1, 2, 3], 4, limit < 4), "{limit}");
            assert_eq!(log.get(3), Some(flow(3, 30)));
            assert_eq!(log.get(4), None);
            assert_eq!(log.range(1, 2).collect::<Vec<_>>(), [flow(1, 10), flow(2, 20)]);
            assert_eq!(log.range(3, 9).chain(log.range(7, 9)).count(), 1);
        }
        let none = log_of(0, &[]);
        assert!(none.is_empty() && none.iter().next().is_none() && none.get(0).is_none());
    }

    /// The log has more records than one write and one read of its file handle. They arrive in an order that leaves
    /// gaps at first.
    #[test]
    fn many_records_in_a_scrambled_order() {
        let count = 40_000_u32;
        // 7,919 is a prime that does not divide the count.
        let scrambled: Vec<u32> = (0..count).map(|i| (u64::from(i) * 7_919 % u64::from(count)) as u32).collect();
        let in_file = log_of(1_000, &scrambled);
        assert!(in_file.is_in_file());
        let in_memory = log_of(IN_MEMORY, &scrambled);
        assert_eq!(in_file, in_memory);
        assert_eq!((0..count).step_by(97).find(|id| in_file.get(*id) != Some(flow(*id, u64::from(*id) * 10))), None);
        assert_ne!(in_file, log_of(1_000, &scrambled[1..]));
        let mut closed = in_file.clone();
        closed.close();
        assert!(closed == in_file && in_file.error().is_none());
    }

    #[test]
    fn clones_are_independent() {
        let first: Vec<u32> = (0..20_000).collect();
        let mut log = log_of(0, &first);
        let before = log.clone();
        let rest: Vec<u32> = (20_000..60_000).collect();
        log.extend(rest.iter().map(|id| flow(*id, 1)));
        assert_eq!((before.len(), before.iter().count()), (20_000, 20_000));
        assert_eq!((log.len(), log.iter().count()), (60_000, 60_000));
        assert_eq!(before, log_of(IN_MEMORY, &first));
    }

    proptest! {
        #[test]
        fn any_order_any_limit(order in Just((0..300).collect::<Vec<u32>>()).prop_shuffle(), limit in 0_usize..400) {
            let log = log_of(limit, &order);
            prop_assert_eq!(ids(&log), (0..300).collect::<Vec<u32>>());
            prop_assert_eq!(&log, &log_of(IN_MEMORY, &order));
        }
    }

    #[test]
    fn a_failed_read_is_reported() {
        let log = log_of(0, &[0, 1, 2]).unreadable();
        assert_eq!(log.error(), None, "nothing was read yet");
        assert_eq!((log.iter().count(), log.get(1)), (0, None));
        let error = log.error().unwrap();
        assert!(error.contains("cannot be read") && error.contains("set TMPDIR to use another folder"), "{error}");
        assert!(log.check().is_err() && log.clone().error().is_some());
    }

    #[test]
    fn a_failed_write_is_reported() {
        let mut log = log_of(0, &[0]).unreadable();
        log.extend((1..40_000).map(|id| flow(id, 1)));
        assert!(log.error().unwrap().contains("cannot be kept"), "{:?}", log.error());
        assert!(log.len() < 40_000);
    }
}
