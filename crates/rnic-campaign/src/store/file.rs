//! Reads and writes the file of a stored result. Its layout:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `rnic-run` |
//! | 4 | [`FORMAT`] |
//! | 8, then as many as this number | length of the header, then the [`Header`] in the postcard encoding |
//! | any | the result, in the format of its kind ([`Stored`]) |
//! | 4 | CRC-32 of all previous bytes |
//!
//! Integers are little-endian.

use super::{Header, Stored};
use crate::summed::Summed;
use rnic_spec::{FlowLog, RunRecord};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::Path;

const MAGIC: [u8; 8] = *b"rnic-run";

/// Version of the layout of result files; it increases with every change of the layout.
const FORMAT: u32 = 2;

/// Writes a result with its header to `out`, in the layout that the documentation of this module describes.
pub(crate) fn write<V: Stored>(out: impl Write, header: &Header, value: &V) -> io::Result<()> {
    let mut out = Summed::new(out);
    out.write_all(&MAGIC)?;
    out.write_all(&FORMAT.to_le_bytes())?;
    write_value(&mut out, header)?;
    value.write_to(&mut out)?;
    let sum = out.sum.clone().finalize();
    out.write_all(&sum.to_le_bytes())
}

/// Writes the record of a run, as [`Store`](crate::Store) stores it and `rnic exec --record` writes it.
///
/// # Errors
/// `out` cannot be written, or flow records cannot be read.
pub fn write_record(mut out: impl Write, header: &Header, record: &RunRecord) -> io::Result<()> {
    write(&mut out, header, record)?;
    out.flush()
}

/// Reads a file that [`write_record`] wrote.
///
/// # Errors
/// The file cannot be used. The error says why, as the end of a sentence that begins with the file name.
pub fn read_record(path: &Path) -> Result<(Header, RunRecord), String> {
    read(path)
}

/// The bytes of a run's record begin with the record without its flows, in the postcard encoding. The number of flows
/// follows, in 4 bytes. Then each flow has 64 bytes, in the format of [`FlowLog`]. Flows are written and read one by
/// one, so the memory needed does not depend on their number.
impl Stored for RunRecord {
    const ENDING: &'static str = "run";

    fn write_to(&self, mut out: &mut dyn Write) -> io::Result<()> {
        let flows = u32::try_from(self.output.flows.len()).map_err(io::Error::other)?;
        write_value(&mut out, self)?;
        out.write_all(&flows.to_le_bytes())?;
        self.output.flows.write_to(&mut out)
    }

    fn read_from(mut input: &mut dyn Read, length: u64) -> io::Result<RunRecord> {
        let mut record: RunRecord = read_value(&mut input, length)?;
        let flows = u32::from_le_bytes(read_array(&mut input)?);
        record.output.flows = FlowLog::read_from(&mut input, flows)?;
        Ok(record)
    }
}

/// Writes the length of the encoded value in 8 bytes, then the value in the postcard encoding.
///
/// # Errors
/// The value has no postcard encoding, or `out` cannot be written.
pub fn write_value(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_stdvec(value).map_err(io::Error::other)?;
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(&bytes)
}

/// Reads the header of a result file. The error says what is wrong, as the end of a sentence that begins with the file
/// name.
pub(crate) fn read_header(path: &Path) -> Result<Header, String> {
    let (mut input, length) = open(path)?;
    read_value(&mut input, length).map_err(damaged)
}

/// Reads a result file with its header. The error says what is wrong, as the end of a sentence that begins with the
/// file name.
pub(crate) fn read<V: Stored>(path: &Path) -> Result<(Header, V), String> {
    let (mut input, length) = open(path)?;
    if !is_intact(&mut input).map_err(unreadable)? {
        return Err("is damaged: the checksum is wrong".to_string());
    }
    let (mut input, _) = open(path)?;
    let header = read_value(&mut input, length).map_err(damaged)?;
    let value = V::read_from(&mut input, length).map_err(damaged)?;
    Ok((header, value))
}

/// Opens the file of a stored result and checks its magic number and format version. Returns a reader positioned after
/// these fields, and the length of the file in bytes.
fn open(path: &Path) -> Result<(BufReader<File>, u64), String> {
    let file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let mut input = BufReader::new(file);
    if read_array(&mut input).map_err(damaged)? != MAGIC {
        return Err("is not a file of a run's result".to_string());
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
        io::ErrorKind::UnexpectedEof => "is damaged: the file ends too early".to_string(),
        _ => format!("is damaged: {error}"),
    }
}

/// Whether the checksum at the end of the file matches the bytes before it.
fn is_intact(input: &mut BufReader<File>) -> io::Result<bool> {
    input.rewind()?;
    let length = input.get_ref().metadata()?.len();
    let mut summed = Summed::new(io::sink());
    io::copy(&mut input.take(length.saturating_sub(4)), &mut summed)?;
    let mut sum = Vec::new();
    input.read_to_end(&mut sum)?;
    Ok(sum == summed.sum.finalize().to_le_bytes())
}

/// Reads a value that [`write_value`] wrote; `length` is the length of the whole file in bytes.
///
/// # Errors
/// `input` cannot be read, or its bytes are not a value of this type.
pub fn read_value<T: DeserializeOwned>(input: &mut impl Read, length: u64) -> io::Result<T> {
    let size = u64::from_le_bytes(read_array(input)?);
    // A wrong size in a damaged file must not allocate more than the file can hold.
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
