//! Pack files: results of many runs, one after the other, so that a campaign of thousands of runs has a few files.
//!
//! A process appends to one pack, which it has locked; other processes append to other packs. Readers need no lock.
//! Each result of a pack is an *entry*:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | [`MARKER`], which includes the version of this layout |
//! | 16 | key of the result's fingerprint |
//! | 4 | rank of the result ([`Stored::rank`](super::Stored::rank)) |
//! | 8 | when the result was written, in milliseconds since 1970 |
//! | 8 | length of the content in bytes |
//! | 4 | CRC-32 of the previous 44 bytes |
//! | as many as the length | the content: header and result, as in the file of a single result |
//! | 4 | CRC-32 of the content |
//!
//! Integers are little-endian. After damaged or missing bytes a reader continues at the next marker with a correct
//! checksum, so a wrong bit costs one result, and a file that was cut costs the result at its end.

use crate::summed::Summed;
use parking_lot::Mutex;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The first bytes of an entry.
const MARKER: [u8; 8] = *b"\xf5rnic-1\n";
/// Length in bytes of an entry before its content.
const HEADER: usize = 48;
/// Length in bytes of the checksum after the content.
const SUM: u64 = 4;
/// Length in bytes from which on a pack is not continued, so that few bytes are read to continue it, and little space
/// is needed to rewrite it.
const MAX_CONTINUED: u64 = 64 << 20;
/// Maximum buffer for an entry that is written. An entry that is not longer is written by a single system call.
const MAX_BUFFER: u64 = 1 << 20;

/// Where an entry is, and what its first bytes say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Key of the fingerprint.
    pub(super) key: u128,
    /// Rank of the result, and when it was written. Of several results of one run, the largest is valid.
    pub(super) order: (u32, u64),
    /// Offset of the content in the file, in bytes.
    pub(super) offset: u64,
    /// Length of the content in bytes.
    pub(super) length: u64,
}

impl Entry {
    /// Offset of the first byte after the entry.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.length).saturating_add(SUM)
    }

    /// Length in bytes of the whole entry.
    pub(super) fn whole_length(&self) -> u64 {
        self.length.saturating_add(HEADER as u64 + SUM)
    }

    fn header(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MARKER);
        bytes[8..24].copy_from_slice(&self.key.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.order.0.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.order.1.to_le_bytes());
        bytes[36..44].copy_from_slice(&self.length.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..44]);
        bytes[44..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the first bytes of an entry at offset `at`; `None` if they are not those of an entry.
    fn read(bytes: &[u8; HEADER], at: u64) -> Option<Entry> {
        let (fields, sum) = bytes.split_last_chunk()?;
        let (marker, fields) = fields.split_first_chunk()?;
        if *marker != MARKER || crc32fast::hash(&bytes[..44]) != u32::from_le_bytes(*sum) {
            return None;
        }
        let (key, fields) = fields.split_first_chunk()?;
        let (rank, fields) = fields.split_first_chunk()?;
        let (time, fields) = fields.split_first_chunk()?;
        let order = (u32::from_le_bytes(*rank), u64::from_le_bytes(*time));
        let length = u64::from_le_bytes(fields.try_into().ok()?);
        Some(Entry { key: u128::from_le_bytes(*key), order, offset: at + HEADER as u64, length })
    }

    /// Whether the content's checksum is correct. Returns the content's reader, at its first byte.
    ///
    /// # Errors
    /// The file cannot be read, or ends too early.
    pub(super) fn open(&self, path: &Path) -> io::Result<(bool, io::Take<BufReader<File>>)> {
        let mut file = BufReader::new(File::open(path)?);
        file.seek(SeekFrom::Start(self.offset))?;
        let mut summed = Summed::new(io::sink());
        if io::copy(&mut file.by_ref().take(self.length), &mut summed)? != self.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut sum = [0; SUM as usize];
        file.read_exact(&mut sum)?;
        file.seek(SeekFrom::Start(self.offset))?;
        Ok((summed.sum.finalize().to_le_bytes() == sum, file.take(self.length)))
    }
}

/// The entries of a part of a pack.
#[derive(Default, Debug)]
pub(super) struct Scan {
    pub(super) entries: Vec<Entry>,
    /// Offset after the last complete entry. A later scan begins here.
    pub(super) end: u64,
    /// Number of places with bytes that belong to no entry. An incomplete entry at the end is such a place.
    pub(super) damaged: usize,
}

/// Finds the entries of a pack from offset `from` on. Does not check their contents.
///
/// # Errors
/// The file cannot be read.
pub(super) fn scan(path: &Path, from: u64) -> io::Result<Scan> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut input = BufReader::new(file);
    let mut scan = Scan { end: from, ..Scan::default() };
    let mut at = from;
    while at < length {
        match read_entry(&mut input, at, length)?.filter(|entry| entry.end() <= length) {
            Some(entry) => {
                at = entry.end();
                scan.end = at;
                scan.entries.push(entry);
            }
            None => {
                scan.damaged += 1;
                at = next_entry(&mut input, at + 1, length)?;
            }
        }
    }
    Ok(scan)
}

/// Reads the first bytes of the entry at `at`; `None` if there is no entry, or the file of `length` bytes ends there.
fn read_entry(input: &mut BufReader<File>, at: u64, length: u64) -> io::Result<Option<Entry>> {
    if length - at < HEADER as u64 {
        return Ok(None);
    }
    seek(input, at)?;
    let mut bytes = [0; HEADER];
    input.read_exact(&mut bytes)?;
    Ok(Entry::read(&bytes, at))
}

/// The offset of the next complete entry from `at` on; `length`, the length of the file, if there is none.
fn next_entry(input: &mut BufReader<File>, mut at: u64, length: u64) -> io::Result<u64> {
    let mut block = Vec::new();
    while at < length {
        seek(input, at)?;
        block.clear();
        input.by_ref().take(1 << 16).read_to_end(&mut block)?;
        let Some(index) = block.windows(MARKER.len()).position(|window| *window == MARKER) else {
            // A marker may begin within the last bytes of this block.
            let unseen = block.len().saturating_sub(MARKER.len() - 1).max(1);
            at += unseen as u64;
            continue;
        };
        at += index as u64;
        if read_entry(input, at, length)?.is_some_and(|entry| entry.end() <= length) {
            return Ok(at);
        }
        at += 1;
    }
    Ok(length)
}

/// Moves to an offset, without discarding bytes that are buffered.
fn seek(input: &mut BufReader<File>, to: u64) -> io::Result<()> {
    let at = input.stream_position()?;
    input.seek_relative(to.wrapping_sub(at) as i64)
}

/// A sink that counts bytes.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Content of an entry: a function that writes it, and that writes the same bytes each time.
pub(super) type Content<'c> = &'c dyn Fn(&mut dyn Write) -> io::Result<()>;

/// Writes an entry whose first byte is at offset `at`; returns it.
///
/// # Errors
/// `out` cannot be written, or `content` fails. Part of the entry may have been written.
pub(super) fn write_entry(
    out: &mut dyn Write, at: u64, key: u128, order: (u32, u64), content: Content<'_>,
) -> io::Result<Entry> {
    let mut counter = Counter(0);
    content(&mut counter)?;
    let entry = Entry { key, order, offset: at + HEADER as u64, length: counter.0 };
    let mut out = BufWriter::with_capacity((entry.end() - at).min(MAX_BUFFER) as usize, out);
    out.write_all(&entry.header())?;
    let mut summed = Summed::new(&mut out);
    content(&mut summed)?;
    let sum = summed.sum.finalize();
    out.write_all(&sum.to_le_bytes())?;
    out.flush()?;
    Ok(entry)
}

/// Copies entries of a pack.
///
/// # Errors
/// The pack cannot be read, or `out` cannot be written.
pub(super) fn copy(path: &Path, entries: &[Entry], out: &mut impl Write) -> io::Result<()> {
    let mut input = BufReader::new(File::open(path)?);
    for entry in entries {
        seek(&mut input, entry.offset - HEADER as u64)?;
        io::copy(&mut input.by_ref().take(entry.whole_length()), out)?;
    }
    Ok(())
}

/// The pack to which this process appends.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) path: PathBuf,
    file: File,
    end: u64,
    /// Process that opened the pack. A process that was forked from it shares its lock and must not write to it.
    pid: u32,
}

/// The packs of this process to which no store appends at the moment. An engine opens a store for each batch of runs,
/// and need not read the pack each time.
static FREE: Mutex<Vec<Writer>> = Mutex::new(Vec::new());

/// Closes the packs to which no store of this process appends at the moment.
pub(super) fn close_unused() {
    FREE.lock().clear();
}

impl Writer {
    /// Opens a pack of `folder` that nobody else writes to and that is complete, or creates one. `packs` are the packs
    /// in the folder, `ending` is the extension of their names.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn open(folder: &Path, packs: &[PathBuf], ending: &str) -> io::Result<Writer> {
        {
            let mut free = FREE.lock();
            free.retain(Writer::is_usable);
            if let Some(index) = free.iter().position(|writer| packs.contains(&writer.path)) {
                return Ok(free.swap_remove(index));
            }
        }
        if let Some(writer) = packs.iter().find_map(|path| Writer::continued(path)) {
            return Ok(writer);
        }
        fs::create_dir_all(folder)?;
        for number in packs.len() + 1.. {
            let path = folder.join(format!("{number:06}.{ending}"));
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                // Another process may have found the new pack and locked it first.
                Ok(file) if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) => {}
                Ok(file) => return Ok(Writer { path, file, end: 0, pid: std::process::id() }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Opens an existing pack, unless another process has locked it, or it is long, or its end is damaged. On file
    /// systems without locks no pack is continued.
    fn continued(path: &Path) -> Option<Writer> {
        if fs::metadata(path).ok()?.len() >= MAX_CONTINUED {
            return None;
        }
        let file = lock(path)?;
        let end = scan(path, 0).ok()?.end;
        let is_whole = file.metadata().ok()?.len() == end;
        is_whole.then(|| Writer { path: path.to_path_buf(), file, end, pid: std::process::id() })
    }

    /// Lets other stores of this process append to the pack.
    pub(super) fn release(self) {
        FREE.lock().push(self);
    }

    /// Whether this process may append to the pack.
    pub(super) fn is_usable(&self) -> bool {
        let is_whole = self.file.metadata().is_ok_and(|file| file.len() == self.end);
        let is_own = self.pid == std::process::id() && is_in_place(&self.file, &self.path);
        is_own && is_whole && self.end < MAX_CONTINUED
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// As [`write_entry`]. The writer must not be used again.
    pub(super) fn append(&mut self, key: u128, order: (u32, u64), content: Content<'_>) -> io::Result<Entry> {
        let written = write_entry(&mut self.file, self.end, key, order, content);
        match &written {
            Ok(entry) => self.end = entry.end(),
            // If the incomplete entry remains, readers skip it.
            Err(_) => _ = self.file.set_len(self.end),
        }
        written
    }
}

/// Opens a pack and locks it; `None` if another process has locked or removed it, or there are no locks.
pub(super) fn lock(path: &Path) -> Option<File> {
    let file = OpenOptions::new().append(true).open(path).ok()?;
    (file.try_lock().is_ok() && is_in_place(&file, path)).then_some(file)
}

/// Whether the file still exists at its path: another process may have rewritten or removed it.
fn is_in_place(file: &File, path: &Path) -> bool {
    let own = file.try_clone().and_then(same_file::Handle::from_file);
    own.is_ok_and(|own| same_file::Handle::from_path(path).is_ok_and(|there| there == own))
}
