//! The file of a flow log: the record of flow n is at offset n times the size of a record.

use crate::flow::FlowRecord;
use rnic_transport::Time;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Size of a flow record in the file, in bytes.
pub(super) const SIZE: usize = 64;
/// Number of records that are buffered in memory and then written to the file together.
const BATCH: usize = 16_384;
/// Number of records that an iterator reads from the file together.
const CHUNK: usize = 4_096;

/// The flags in the last byte of an encoded flow record. A record that was never written is all zeros.
const PRESENT: u8 = 1;
const FINISHED: u8 = 2;
const MEASURED: u8 = 4;

/// A file of flow records. Clones of this value share the file until one of them writes; that clone then gets a copy of
/// the file.
#[derive(Clone)]
pub(super) struct RecordFile {
    file: Arc<File>,
    /// Records that are buffered in memory and not yet written to the file.
    waiting: Vec<FlowRecord>,
    /// The largest flow id of all records so far, plus one.
    end: u64,
}

impl RecordFile {
    pub(super) fn new() -> io::Result<RecordFile> {
        Ok(RecordFile { file: Arc::new(tempfile::tempfile()?), waiting: Vec::with_capacity(BATCH), end: 0 })
    }

    pub(super) fn put(&mut self, record: FlowRecord) -> io::Result<()> {
        self.end = self.end.max(u64::from(record.id) + 1);
        self.waiting.push(record);
        if self.waiting.len() < BATCH { Ok(()) } else { self.write() }
    }

    /// Writes the buffered records to the file; records with consecutive ids go out in one write.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if Arc::get_mut(&mut self.file).is_none() {
            self.file = Arc::new(self.copy()?);
        }
        self.waiting.sort_unstable_by_key(|record| record.id);
        let mut bytes = Vec::new();
        for run in self.waiting.chunk_by(|one, next| one.id.checked_add(1) == Some(next.id)) {
            bytes.clear();
            run.iter().for_each(|record| bytes.extend_from_slice(&encode(record)));
            write_all_at(&self.file, &bytes, offset(run[0].id))?;
        }
        self.waiting.clear();
        Ok(())
    }

    /// Copies the file, because this log is about to write and clones of it share the file.
    fn copy(&self) -> io::Result<File> {
        let copy = tempfile::tempfile()?;
        let mut bytes = vec![0; CHUNK * SIZE];
        for id in (0..self.end).step_by(CHUNK) {
            self.read(&mut bytes, id as u32)?;
            write_all_at(&copy, &bytes, offset(id as u32))?;
        }
        Ok(copy)
    }

    pub(super) fn get(&self, id: u32) -> io::Result<Option<FlowRecord>> {
        if let Some(record) = self.waiting.iter().find(|record| record.id == id) {
            return Ok(Some(*record));
        }
        let mut bytes = [0; SIZE];
        self.read(&mut bytes, id)?;
        Ok(decode(id, &bytes))
    }

    /// Iterates over the records of the flows with ids `from..=to`.
    pub(super) fn range(&self, from: u32, to: u32) -> Range<'_> {
        let end = self.end.min(u64::from(to) + 1);
        Range { file: self, next: u64::from(from), end, chunk: Vec::new(), first: u64::from(from) }
    }

    /// Fills `bytes` with the file's records from flow `id` on, and with zeros beyond the end of the file.
    fn read(&self, bytes: &mut [u8], id: u32) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match read_at(&self.file, &mut bytes[done..], offset(id) + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes[done..].fill(0);
        Ok(())
    }
}

/// Iterator over flow records in order of flow id; ends after the first error.
pub(super) struct Range<'f> {
    file: &'f RecordFile,
    /// Id of the next flow.
    next: u64,
    end: u64,
    /// Encoded records of the flows from `first` on.
    chunk: Vec<u8>,
    first: u64,
}

impl Range<'_> {
    /// Reads the records from flow id `next` on into `chunk`, and adds those that are still buffered in memory.
    fn fill(&mut self) -> io::Result<()> {
        let records = (self.end - self.next).min(CHUNK as u64);
        self.chunk.resize(records as usize * SIZE, 0);
        self.first = self.next;
        self.file.read(&mut self.chunk, self.next as u32)?;
        let covered = self.first..self.first + records;
        for record in self.file.waiting.iter().filter(|record| covered.contains(&u64::from(record.id))) {
            let at = (u64::from(record.id) - self.first) as usize * SIZE;
            self.chunk[at..at + SIZE].copy_from_slice(&encode(record));
        }
        Ok(())
    }
}

impl Iterator for Range<'_> {
    type Item = io::Result<FlowRecord>;

    fn next(&mut self) -> Option<io::Result<FlowRecord>> {
        while self.next < self.end {
            let mut at = (self.next - self.first) as usize * SIZE;
            if at >= self.chunk.len() {
                if let Err(error) = self.fill() {
                    self.end = self.next;
                    return Some(Err(error));
                }
                at = 0;
            }
            let id = self.next as u32;
            self.next += 1;
            if let Some(record) = self.chunk[at..].first_chunk().and_then(|bytes| decode(id, bytes)) {
                return Some(Ok(record));
            }
        }
        None
    }
}

/// Reads up to `bytes.len()` bytes of `file` from `offset` on, and returns how many; 0 means the end of the file.
#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

/// Writes all of `bytes` to `file` from `offset` on.
#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => (bytes, offset) = (&bytes[written..], offset + written as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn offset(id: u32) -> u64 {
    u64::from(id) * SIZE as u64
}

/// Encodes a flow record in little-endian order, without its id: the offset in the file gives the id.
pub(super) fn encode(record: &FlowRecord) -> [u8; SIZE] {
    let FlowRecord { id: _, src, dst, bytes, start, finish, ideal, delivered, .. } = *record;
    let FlowRecord { retransmitted, timeouts, request, traffic, measured, .. } = *record;
    let mut to = [0; SIZE];
    for (at, long) in
        [bytes, start.as_ps(), finish.map_or(0, Time::as_ps), ideal.as_ps(), delivered].into_iter().enumerate()
    {
        to[8 * at..8 * at + 8].copy_from_slice(&long.to_le_bytes());
    }
    for (at, short) in [src, dst, retransmitted, timeouts, request].into_iter().enumerate() {
        to[40 + 4 * at..44 + 4 * at].copy_from_slice(&short.to_le_bytes());
    }
    to[60..62].copy_from_slice(&traffic.to_le_bytes());
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    to[63] = PRESENT | flag(finish.is_some(), FINISHED) | flag(measured, MEASURED);
    to
}

/// Decodes the record of flow `id`; `None` if it was never written.
pub(super) fn decode(id: u32, from: &[u8; SIZE]) -> Option<FlowRecord> {
    let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| from[8 * at + byte]));
    let short = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| from[40 + 4 * at + byte]));
    let flags = from[63];
    (flags & PRESENT != 0).then(|| FlowRecord {
        id,
        src: short(0),
        dst: short(1),
        bytes: long(0),
        start: Time::from_ps(long(1)),
        finish: (flags & FINISHED != 0).then(|| Time::from_ps(long(2))),
        ideal: Time::from_ps(long(3)),
        delivered: long(4),
        retransmitted: short(2),
        timeouts: short(3),
        request: short(4),
        traffic: u16::from_le_bytes([from[60], from[61]]),
        measured: flags & MEASURED != 0,
    })
}

#[cfg(any(test, feature = "testing"))]
impl RecordFile {
    /// For tests: makes every later read and write fail, by replacing the file with a directory.
    pub(super) fn make_unreadable(&mut self) {
        self.file = Arc::new(File::open(std::env::temp_dir()).unwrap());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = FlowRecord> {
        let time = || any::<u64>().prop_map(Time::from_ps);
        let place = (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>());
        let times = (time(), prop::option::of(time()), time());
        let rest = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u16>(), any::<bool>());
        (any::<u32>(), place, times, rest).prop_map(
            |(id, (src, dst, bytes, delivered), (start, finish, ideal), rest)| {
                let (retransmitted, timeouts, request, traffic, measured) = rest;
                FlowRecord {
                    id,
                    src,
                    dst,
                    bytes,
                    start,
                    finish,
                    ideal,
                    delivered,
                    retransmitted,
                    timeouts,
                    request,
                    traffic,
                    measured,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_record_survives_encoding_and_decoding(record in record()) {
            prop_assert_eq!(decode(record.id, &encode(&record)), Some(record));
        }
    }

    #[test]
    fn a_record_by_hand() {
        let record = FlowRecord {
            id: 9,
            src: 1,
            dst: 0x0203,
            bytes: 1_000,
            start: Time::from_ps(256),
            finish: None,
            ideal: Time::from_ps(5),
            delivered: u64::MAX,
            retransmitted: 6,
            timeouts: 7,
            request: u32::MAX,
            traffic: 0x0809,
            measured: true,
        };
        let mut expected = [0; SIZE];
        expected[..2].copy_from_slice(&[0xE8, 3]);
        (expected[9], expected[24]) = (1, 5);
        expected[32..40].fill(0xFF);
        (expected[40], expected[44], expected[45], expected[48], expected[52]) = (1, 3, 2, 6, 7);
        expected[56..60].fill(0xFF);
        (expected[60], expected[61], expected[63]) = (9, 8, PRESENT | MEASURED);
        assert_eq!(encode(&record), expected);
        assert_eq!(decode(9, &[0; SIZE]), None, "never written");
    }
}
