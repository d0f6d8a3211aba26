//! Checksums of files, computed while they are written.

use crc32fast::Hasher;
use std::io::{self, Write};

/// A writer that computes the CRC-32 of the bytes written.
pub(crate) struct Summed<W> {
    pub(crate) inner: W,
    pub(crate) sum: Hasher,
}

impl<W> Summed<W> {
    pub(crate) fn new(inner: W) -> Summed<W> {
        Summed { inner, sum: Hasher::new() }
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
