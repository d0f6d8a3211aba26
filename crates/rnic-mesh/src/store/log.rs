//! The log of the current hour: a header, then a record per batch. Integers are little-endian, checksums are CRC-32.
//!
//! | bytes of the header | content |
//! |---|---|
//! | 8 | `rnic-log` |
//! | 4 | version of the format, 1 |
//! | 8 | marker: a random number, different for each log |
//! | 4 | checksum of the bytes before |
//!
//! | bytes of a record | content |
//! |---|---|
//! | 8 | the marker |
//! | 4 | length of the batch |
//! | 8 | time of arrival in microseconds since 1970 |
//! | 4 | checksum of the bytes before |
//! | 4 | checksum of the batch |
//! | any | the batch |
//!
//! After a damaged record, readers continue at the next record, which they find by its marker. An agent does not know
//! the marker, so its batch cannot contain bytes that readers would mistake for the record of another host.
//!
//! Logs of rnic 0.2.0 and earlier have no header. Their records consist of the length of the batch (4 bytes), the
//! checksum of all bytes after this field (4 bytes), the time of arrival (8 bytes), and the batch. After a damaged
//! record, readers continue at the next bytes with a time within the log's hour and a correct checksum.

use super::names::Name;
use crate::record::Batch;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Maximum length of a batch in bytes.
pub(crate) const MAX_BATCH: usize = 1 << 20;

const MAGIC: [u8; 8] = *b"rnic-log";
const VERSION: u32 = 1;
/// Lengths of the header, of the fields of a record before its batch, and of these fields in a log without header.
const HEADER: usize = 24;
const FIELDS: usize = 28;
const OLD_FIELDS: usize = 16;

type Marker = [u8; 8];

/// A log to which batches are appended.
pub(super) struct Log {
    pub(super) path: PathBuf,
    pub(super) hour: String,
    file: File,
    marker: Marker,
    /// Length in bytes of the header and all complete records.
    len: u64,
    /// Whether an incomplete record could not be truncated, so that no record may be appended.
    pub(super) is_broken: bool,
}

impl Log {
    /// Creates a log that does not exist yet.
    pub(super) fn create(path: &Path, hour: String) -> io::Result<Log> {
        let marker = rnic_probe::random::<8>()?;
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
        let mut header = [&MAGIC[..], &VERSION.to_le_bytes(), &marker].concat();
        header.extend(crc32fast::hash(&header).to_le_bytes());
        if let Err(error) = file.write_all(&header) {
            // Otherwise each further attempt on a full disk would leave a file behind.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(Log { path: path.to_path_buf(), hour, file, marker, len: HEADER as u64, is_broken: false })
    }

    /// Appends batches. If an error occurs, none of them is stored.
    pub(super) fn append<'a>(&mut self, batches: impl Iterator<Item = &'a [u8]>, unix_us: u64) -> io::Result<()> {
        let mut bytes = Vec::new();
        for batch in batches {
            let start = bytes.len();
            bytes.extend_from_slice(&self.marker);
            bytes.extend_from_slice(&(batch.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&unix_us.to_le_bytes());
            let sum = crc32fast::hash(&bytes[start..]);
            bytes.extend_from_slice(&sum.to_le_bytes());
            bytes.extend_from_slice(&crc32fast::hash(batch).to_le_bytes());
            bytes.extend_from_slice(batch);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.len += bytes.len() as u64,
            Err(_) => {
                let truncated = self.file.set_len(self.len);
                self.is_broken = truncated.and_then(|()| self.file.seek(SeekFrom::Start(self.len))).is_err();
            }
        }
        written
    }
}

/// A batch in a log.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// When the controller received it, in microseconds since 1970.
    pub received_us: u64,
    /// The batch.
    pub batch: Batch,
}

/// The parts of a log that cannot be read.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Damage {
    /// Number of damaged places. Bytes without a readable record between them are one place.
    pub places: u64,
    /// Number of bytes in them.
    pub bytes: u64,
    /// Offset of the first one in bytes.
    pub first: u64,
    /// The reason why the rest of the log was not read, if the system refused to read it.
    pub error: Option<String>,
}

impl Damage {
    /// Whether the whole log was read.
    pub fn is_none(&self) -> bool {
        *self == Damage::default()
    }

    fn add(&mut self, at: u64, bytes: u64, is_new: bool) {
        if self.places == 0 {
            self.first = at;
        }
        self.places += u64::from(is_new);
        self.bytes += bytes;
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { places, bytes, first, error } = self;
        match places {
            0 => {}
            1 => write!(f, "{bytes} bytes from byte {first} on are damaged")?,
            _ => write!(f, "{bytes} bytes at {places} places are damaged, the first at byte {first}")?,
        }
        let comma = if *places > 0 { "; " } else { "" };
        error.as_ref().map_or(Ok(()), |error| write!(f, "{comma}the rest cannot be read: {error}"))
    }
}

/// The layout of a log's records.
enum Layout {
    Marked(Marker),
    /// The layout without header and marker, with the times of the log's hour.
    Old(Range<u64>),
}

/// The bytes of a log at a position.
enum Found {
    /// A record of this length.
    Record(usize, Entry),
    Damaged,
    /// The end of the log, or a record that a killed controller has not written completely.
    End,
}

/// The batches of a log in order; see [`entries`].
pub struct Entries {
    window: Window,
    layout: Layout,
    damage: Damage,
    /// Whether the bytes before the position are damaged.
    in_damage: bool,
}

impl Entries {
    /// The parts of the log before the current position that cannot be read.
    pub fn damage(&self) -> Damage {
        Damage { error: self.window.error.as_ref().map(io::Error::to_string), ..self.damage.clone() }
    }

    fn skip_damaged(&mut self, bytes: usize) {
        self.damage.add(self.window.offset, bytes as u64, !self.in_damage);
        self.in_damage = true;
        self.window.advance(bytes);
    }
}

impl Iterator for Entries {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            match find(&mut self.window, &self.layout, 0) {
                Found::Record(len, entry) => {
                    self.window.advance(len);
                    self.in_damage = false;
                    return Some(entry);
                }
                Found::End => return None,
                Found::Damaged => {
                    let bytes = match &self.layout {
                        Layout::Old(_) => 1,
                        Layout::Marked(marker) => self.window.distance(marker),
                    };
                    self.skip_damaged(bytes);
                }
            }
        }
    }
}

/// Reads the batches of a log in order. Skips damaged records, and a record at the end that a killed controller has not
/// written completely.
///
/// # Errors
/// If the log cannot be opened, or a later version of rnic has written it.
pub fn entries(path: &Path) -> io::Result<Entries> {
    let mut window = Window::new(File::open(path)?);
    let header = window.peek(HEADER + MAGIC.len()).to_vec();
    let marker = |from: usize| header.get(from..from + 8).and_then(|bytes| Marker::try_from(bytes).ok());
    let is_header = header.len() >= HEADER
        && header[..8] == MAGIC
        && header[20..24] == crc32fast::hash(&header[..20]).to_le_bytes();
    if is_header && number(&header, 8) != VERSION {
        let why = format!("this is a log of version {}; this rnic reads version {VERSION}", number(&header, 8));
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut damage = Damage::default();
    let name = path.file_name().and_then(|name| name.to_str()).and_then(Name::of);
    let old = Layout::Old(name.map_or(0..u64::MAX, |name| name.times()));
    let (first, second) = (marker(12), marker(HEADER));
    let is_incomplete = header.len() < HEADER && header.starts_with(&MAGIC[..header.len().min(8)]);
    let (layout, skip) = match (first, second) {
        (Some(marker), _) if is_header => (Layout::Marked(marker), HEADER),
        // The controller was killed when it created the log.
        _ if is_incomplete => (Layout::Marked(MAGIC), header.len()),
        (_, Some(marker)) => {
            // If only the header is damaged, the first record still has the marker.
            let layout = Layout::Marked(marker);
            if let Found::Record(..) = find(&mut window, &layout, HEADER) {
                damage.add(0, HEADER as u64, true);
                (layout, HEADER)
            } else {
                (old, 0)
            }
        }
        _ => (old, 0),
    };
    window.advance(skip);
    Ok(Entries { window, layout, damage, in_damage: false })
}

/// Reads the record `skip` bytes after the position.
fn find(window: &mut Window, layout: &Layout, skip: usize) -> Found {
    let fields = match layout {
        Layout::Marked(_) => FIELDS,
        Layout::Old(_) => OLD_FIELDS,
    };
    let head = &window.peek(skip + fields)[skip..];
    if head.is_empty() {
        return Found::End;
    }
    if head.len() < fields {
        // Only the current layout can tell an incomplete record from a damaged one.
        let is_start = |marker: &Marker| head.starts_with(&marker[..head.len().min(8)]);
        return if matches!(layout, Layout::Marked(marker) if is_start(marker)) { Found::End } else { Found::Damaged };
    }
    let (len, time) = match layout {
        Layout::Marked(_) => (number(head, 8), time(head, 12)),
        Layout::Old(_) => (number(head, 0), time(head, 8)),
    };
    let is_plausible = match layout {
        Layout::Marked(marker) => head[..8] == *marker && number(head, 20) == crc32fast::hash(&head[..20]),
        Layout::Old(times) => times.contains(&time),
    };
    let len = len as usize;
    if !is_plausible || len > MAX_BATCH {
        return Found::Damaged;
    }
    let record = &window.peek(skip + fields + len)[skip..];
    if record.len() < fields + len {
        return if matches!(layout, Layout::Marked(_)) { Found::End } else { Found::Damaged };
    }
    let is_intact = match layout {
        Layout::Marked(_) => number(record, 24) == crc32fast::hash(&record[fields..]),
        Layout::Old(_) => number(record, 4) == crc32fast::hash(&record[8..]),
    };
    match Batch::parse(&record[fields..]) {
        Ok(batch) if is_intact => Found::Record(fields + len, Entry { received_us: time, batch }),
        _ => Found::Damaged,
    }
}

/// The number of 4 bytes at `at`.
fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The time of 8 bytes at `at`.
fn time(bytes: &[u8], at: usize) -> u64 {
    u64::from(number(bytes, at)) | u64::from(number(bytes, at + 4)) << 32
}

/// A file that is read in order. A part of it, from the current position on, is in memory.
struct Window {
    file: File,
    bytes: Vec<u8>,
    /// Index of the position in `bytes`, and its offset in the file.
    start: usize,
    offset: u64,
    is_at_end: bool,
    error: Option<io::Error>,
}

impl Window {
    /// Bytes per read.
    const CHUNK: usize = 1 << 16;

    fn new(file: File) -> Window {
        Window { file, bytes: Vec::new(), start: 0, offset: 0, is_at_end: false, error: None }
    }

    /// The next `wanted` bytes, or fewer at the end of the file.
    fn peek(&mut self, wanted: usize) -> &[u8] {
        while self.bytes.len() - self.start < wanted && !self.is_at_end {
            self.read();
        }
        let end = self.bytes.len().min(self.start + wanted);
        &self.bytes[self.start..end]
    }

    fn read(&mut self) {
        if self.start >= 16 * Window::CHUNK {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let before = self.bytes.len();
        self.bytes.resize(before + Window::CHUNK, 0);
        let read = loop {
            match self.file.read(&mut self.bytes[before..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let count = read.unwrap_or_else(|error| {
            self.error = Some(error);
            0
        });
        self.is_at_end = count == 0;
        self.bytes.truncate(before + count);
    }

    fn advance(&mut self, bytes: usize) {
        let end = self.bytes.len().min(self.start + bytes);
        self.offset += (end - self.start) as u64;
        self.start = end;
    }

    /// Number of bytes, at least 1, that can be skipped without skipping a marker. After these bytes, either a marker
    /// begins, or the search continues.
    fn distance(&mut self, marker: &Marker) -> usize {
        let bytes = self.peek(Window::CHUNK);
        let rest = bytes.get(1..).unwrap_or_default();
        match rest.windows(marker.len()).position(|bytes| bytes == marker) {
            Some(at) => at + 1,
            // The last bytes may be the first ones of a marker, unless the file ends there.
            None if bytes.len() < Window::CHUNK => bytes.len().max(1),
            None => bytes.len() - marker.len() + 1,
        }
    }
}
