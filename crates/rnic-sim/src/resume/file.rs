//! The file of a kept run.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `rnic-run` |
//! | 4 | [`FORMAT`] |
//! | 8 and as many as they say | [`Header`], in postcard |
//! | 8 and as many as they say | [`RunReport`] without its flows, in postcard |
//! | 4 | how many flows |
//! | 64 each | the flows' records, as a [`FlowLog`] has them |
//! | 4 | CRC-32 of all before |
//!
//! Integers are little-endian. Flows are written and read one after the other; the rest of a report is in memory at once.

use super::Fingerprint;
use crate::results::FlowLog;
use crate::run::RunReport;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::Path;

const MAGIC: [u8; 8] = *b"rnic-run";

/// Rises with every change of what files hold.
const FORMAT: u32 = 1;

/// Whose report it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    /// Name of the run.
    pub(super) run: String,
    /// What determined its results.
    pub(super) fingerprint: Fingerprint,
}

/// Writes the file of a run.
pub(super) fn write(out: impl Write, header: &Header, report: &RunReport) -> io::Result<()> {
    let mut out = Summed { inner: out, sum: crc32fast::Hasher::new() };
    let flows = u32::try_from(report.output.flows.len()).map_err(io::Error::other)?;
    out.write_all(&MAGIC)?;
    out.write_all(&FORMAT.to_le_bytes())?;
    write_value(&mut out, header)?;
    write_value(&mut out, report)?;
    out.write_all(&flows.to_le_bytes())?;
    report.output.flows.write_to(&mut out)?;
    let sum = out.sum.clone().finalize();
    out.write_all(&sum.to_le_bytes())
}

fn write_value(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_stdvec(value).map_err(io::Error::other)?;
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(&bytes)
}

/// Whose report a file has, or what is wrong with the file, in words that follow its name.
pub(super) fn read_header(path: &Path) -> Result<Header, String> {
    let (mut input, length) = open(path)?;
    read_value(&mut input, length).map_err(damaged)
}

/// What a file has, or what is wrong with it, in words that follow its name.
pub(super) fn read(path: &Path) -> Result<(Header, RunReport), String> {
    let (mut input, length) = open(path)?;
    if !is_intact(&mut input).map_err(unreadable)? {
        return Err("is damaged: its checksum is wrong".to_string());
    }
    let (mut input, _) = open(path)?;
    read_whole(&mut input, length).map_err(damaged)
}

/// A file with a reader behind its format, and its length in bytes.
fn open(path: &Path) -> Result<(BufReader<File>, u64), String> {
    let file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let mut input = BufReader::new(file);
    if read_array(&mut input).map_err(damaged)? != MAGIC {
        return Err("is not the result of a run".to_string());
    }
    match u32::from_le_bytes(read_array(&mut input).map_err(damaged)?) {
        FORMAT => Ok((input, length)),
        other => Err(format!("is in format {other}; this version of rnic reads format {FORMAT}")),
    }
}

fn unreadable(error: io::Error) -> String {
    format!("cannot be read: {error}")
}

fn damaged(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "is damaged: it ends too early".to_string(),
        _ => format!("is damaged: {error}"),
    }
}

/// Whether the checksum is right.
fn is_intact(input: &mut BufReader<File>) -> io::Result<bool> {
    input.rewind()?;
    let length = input.get_ref().metadata()?.len();
    let mut summed = Summed { inner: io::sink(), sum: crc32fast::Hasher::new() };
    io::copy(&mut input.take(length.saturating_sub(4)), &mut summed)?;
    let mut sum = Vec::new();
    input.read_to_end(&mut sum)?;
    Ok(sum == summed.sum.finalize().to_le_bytes())
}

/// `length`: of the file.
fn read_whole(input: &mut impl Read, length: u64) -> io::Result<(Header, RunReport)> {
    let header = read_value(input, length)?;
    let mut report: RunReport = read_value(input, length)?;
    let flows = u32::from_le_bytes(read_array(input)?);
    report.output.flows = FlowLog::read_from(input, flows)?;
    Ok((header, report))
}

fn read_value<T: DeserializeOwned>(input: &mut impl Read, length: u64) -> io::Result<T> {
    let size = u64::from_le_bytes(read_array(input)?);
    // No more than there can be, whatever the file says.
    if size > length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut bytes = vec![0; size as usize];
    input.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

fn read_array<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes).map(|()| bytes)
}

/// Adds up what is written.
struct Summed<W> {
    inner: W,
    sum: crc32fast::Hasher,
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
