//! Parts of one file, each of which belongs to a rank.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of parts of a file, over all ranks.
const MAX_PARTS: usize = 4_000_000;

/// The parts of a file that belong to each rank, as (first byte, byte after the last).
#[derive(Debug, Default)]
pub(crate) struct Parts {
    of_rank: Vec<Vec<(u64, u64)>>,
    count: usize,
}

impl Parts {
    /// Adds a part behind the others.
    pub(crate) fn add(&mut self, rank: u32, begin: u64, end: u64) -> Result<(), String> {
        let rank = rank as usize;
        if self.of_rank.len() <= rank {
            self.of_rank.resize_with(rank + 1, Vec::new);
        }
        match self.of_rank[rank].last_mut() {
            Some((_, last)) if *last == begin => *last = end,
            _ => {
                self.of_rank[rank].push((begin, end));
                self.count += 1;
            }
        }
        match self.count > MAX_PARTS {
            true => Err(format!(
                "the file changes between ranks more than {MAX_PARTS} times; accepted: the lines of a rank behind each other"
            )),
            false => Ok(()),
        }
    }

    pub(crate) fn into_ranks(self) -> Vec<Vec<(u64, u64)>> {
        self.of_rank
    }
}

/// Reads the parts of one rank, one after the other.
#[derive(Debug)]
pub(crate) struct Section {
    file: Arc<Mutex<File>>,
    parts: std::vec::IntoIter<(u64, u64)>,
    at: u64,
    end: u64,
}

impl Section {
    pub(crate) fn new(file: Arc<Mutex<File>>, parts: Vec<(u64, u64)>) -> Section {
        Section { file, parts: parts.into_iter(), at: 0, end: 0 }
    }
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.at == self.end {
            let Some((begin, end)) = self.parts.next() else { return Ok(0) };
            (self.at, self.end) = (begin, end);
        }
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(self.at))?;
        let read = file.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.at += read as u64;
        Ok(read)
    }
}
