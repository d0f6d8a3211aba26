//! The log of the current hour. Each record consists of a header and a batch. The header has the length of the batch (4
//! bytes), the CRC-32 of all bytes after this field (4 bytes), and the time of arrival in microseconds since 1970 (8
//! bytes), all little-endian.

use crate::record::Batch;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Maximum length of a batch in bytes.
pub(crate) const MAX_BATCH: usize = 1 << 20;

/// A log to which batches are appended.
pub(super) struct Log {
    pub(super) path: PathBuf,
    pub(super) hour: String,
    file: File,
    /// Length in bytes of all complete records.
    len: u64,
}

impl Log {
    /// Creates a log that does not exist yet.
    pub(super) fn create(path: &Path, hour: String) -> io::Result<Log> {
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Log { path: path.to_path_buf(), hour, file, len: 0 })
    }

    /// Appends batches. If an error occurs, none of them is stored.
    pub(super) fn append<'a>(&mut self, batches: impl Iterator<Item = &'a [u8]>, unix_us: u64) -> io::Result<()> {
        let mut bytes = Vec::new();
        for batch in batches {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&unix_us.to_le_bytes());
            hasher.update(batch);
            bytes.extend_from_slice(&(batch.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&hasher.finalize().to_le_bytes());
            bytes.extend_from_slice(&unix_us.to_le_bytes());
            bytes.extend_from_slice(batch);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.len += bytes.len() as u64,
            Err(_) => {
                // The write may have left a partial record. Readers stop at a partial record, so if it cannot be
                // truncated now, no further record may be appended.
                self.file.set_len(self.len)?;
                self.file.seek(SeekFrom::Start(self.len))?;
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

/// Reads the batches of a log in order, and stops at the first incomplete record.
///
/// # Errors
/// If the log cannot be opened.
pub fn entries(path: &Path) -> io::Result<impl Iterator<Item = Entry> + use<>> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let next = move || -> Option<Entry> {
        let mut header = [0; 16];
        file.read_exact(&mut header).ok()?;
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (len, crc) = (word(0) as usize, word(4));
        if len > MAX_BATCH {
            return None;
        }
        let mut bytes = vec![0; len];
        file.read_exact(&mut bytes).ok()?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&header[8..]);
        hasher.update(&bytes);
        if hasher.finalize() != crc {
            return None;
        }
        let received_us = u64::from(word(8)) | u64::from(word(12)) << 32;
        Some(Entry { received_us, batch: Batch::parse(&bytes).ok()? })
    };
    Ok(std::iter::from_fn(next).fuse())
}
