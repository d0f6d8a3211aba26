//! Checksums of Parquet files.
//!
//! Each page has the CRC-32 of its compressed bytes in its header, as the Parquet format defines it; the `parquet`
//! crate writes pages without. In addition, the 12 bytes before the footer are [`MAGIC`] and the CRC-32 of all other
//! bytes of the file, footer included. Readers of Parquet skip these 12 bytes, because no offset of the footer refers
//! to them. The key [`KEY`] in the footer says that a file has these checksums; files of rnic 0.2.0 and earlier have
//! neither.

use parquet::column::page::{CompressedPage, PageWriteSpec, PageWriter};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

const MAGIC: [u8; 8] = *b"rnic-sum";
const KEY: &str = "rnic.checksum";
/// Length of the magic number and the checksum.
const SUM: u64 = 12;
/// Length of the end of a Parquet file: the length of the footer in 4 bytes, and `PAR1`.
const END: u64 = 8;

/// The entry in the footer of a file that [`seal`] completes.
pub(super) fn key() -> KeyValue {
    KeyValue::new(KEY.to_string(), "crc-32".to_string())
}

/// Writes the pages of a column chunk to memory, with their checksums.
pub(super) struct Pages<'a>(pub(super) &'a mut Vec<u8>);

impl PageWriter for Pages<'_> {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec, ParquetError> {
        let data = page.compressed_size();
        let mut written = TrackedWrite::new(Vec::new());
        let mut spec = SerializedPageWriter::new(&mut written).write_page(page)?;
        let bytes = written.into_inner()?;
        let (header, data) = bytes.split_at(bytes.len() - data);
        let unknown = || ParquetError::General("the header of a page has an unknown layout".to_string());
        let summed = with_checksum(header, crc32fast::hash(data)).ok_or_else(unknown)?;
        let more = summed.len() - header.len();
        spec.offset = self.0.len() as u64;
        spec.uncompressed_size += more;
        spec.compressed_size += more;
        spec.bytes_written += more as u64;
        self.0.extend_from_slice(&summed);
        self.0.extend_from_slice(data);
        Ok(spec)
    }

    fn close(&mut self) -> Result<(), ParquetError> {
        Ok(())
    }
}

/// Inserts field 4, `crc`, into a page header in Thrift's compact protocol. The fields 1 to 3 are 32-bit integers: the
/// type of the page and its two sizes. In front of each field is a byte: its lower four bits are the type of the field,
/// and its upper four bits are the difference between the field's number and the previous field's number.
fn with_checksum(header: &[u8], sum: u32) -> Option<Vec<u8>> {
    const INTEGER: u8 = 0x15;
    let mut at = 0;
    for _ in 0..3 {
        if *header.get(at)? != INTEGER {
            return None;
        }
        let number = header.get(at + 1..)?;
        at += 2 + number.iter().position(|byte| byte & 0x80 == 0)?;
    }
    let next = *header.get(at)?;
    if next < 0x20 {
        return None;
    }
    let mut summed = header[..at].to_vec();
    summed.push(INTEGER);
    let signed = sum as i32;
    let mut zigzag = (signed << 1 ^ signed >> 31) as u32;
    while zigzag >= 0x80 {
        summed.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    summed.push(zigzag as u8);
    summed.push(next - 0x10);
    summed.extend_from_slice(&header[at + 1..]);
    Some(summed)
}

/// The offset of the footer of a Parquet file with `len` bytes.
fn footer(file: &mut File, len: u64) -> io::Result<u64> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the end of the file is damaged");
    let mut end = [0; END as usize];
    file.seek(SeekFrom::Start(len.checked_sub(END).ok_or_else(damaged)?))?;
    file.read_exact(&mut end)?;
    let [a, b, c, d, rest @ ..] = end;
    let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
    if rest != *b"PAR1" {
        return Err(damaged());
    }
    (len - END).checked_sub(footer).ok_or_else(damaged)
}

/// The CRC-32 of the first `len` bytes of a file, and of further bytes.
fn checksum(file: &mut File, len: u64, further: &[u8]) -> io::Result<u32> {
    file.seek(SeekFrom::Start(0))?;
    let mut sum = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    let mut rest = file.take(len);
    loop {
        match rest.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => sum.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    sum.update(further);
    Ok(sum.finalize())
}

/// Inserts the checksum of a complete Parquet file before its footer. The file must be open for reading and writing.
pub(super) fn seal(file: &mut File) -> io::Result<()> {
    let len = file.metadata()?.len();
    let at = footer(file, len)?;
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.read_to_end(&mut end)?;
    let sum = checksum(file, at, &end)?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(&[&MAGIC[..], &sum.to_le_bytes(), &end].concat())
}

/// Compares a file with its checksum. Files without a checksum are accepted, unless their footer says that they have
/// one; `keys` are the entries of the footer.
pub(super) fn verify(file: &mut File, keys: Option<&Vec<KeyValue>>) -> io::Result<()> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the file is damaged: its checksum is wrong");
    let len = file.metadata()?.len();
    let at = footer(file, len)?;
    let mut sum = [0; SUM as usize];
    let start = at.checked_sub(SUM).ok_or_else(damaged)?;
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(&mut sum)?;
    let has_key = keys.into_iter().flatten().any(|entry| entry.key == KEY);
    if sum[..8] != MAGIC {
        return if has_key { Err(damaged()) } else { Ok(()) };
    }
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    if checksum(file, start, &end)?.to_le_bytes() == sum[8..] { Ok(()) } else { Err(damaged()) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Reads an integer in Thrift's compact protocol, and its length in bytes.
    fn integer(bytes: &[u8]) -> (i32, usize) {
        let len = 1 + bytes.iter().position(|byte| byte & 0x80 == 0).unwrap();
        let value = (0..).zip(&bytes[..len]).fold(0_u64, |sum, (at, byte)| sum | u64::from(byte & 0x7f) << (7 * at));
        ((value as u32 >> 1) as i32 ^ -(value as i32 & 1), len)
    }

    /// Length of a page header, length of the page's bytes, and the checksum in the header.
    pub(in super::super) fn header(bytes: &[u8]) -> (usize, usize, Option<u32>) {
        // Depth-first over the fields: the header of a data page is a structure, and its statistics are another.
        let (mut at, mut number, mut outer) = (0, 0, Vec::new());
        let (mut data, mut sum) = (0, None);
        loop {
            let (kind, distance) = (bytes[at] & 0xf, bytes[at] >> 4);
            at += 1;
            match kind {
                0 => match outer.pop() {
                    Some(before) => number = before,
                    None => return (at, data, sum),
                },
                _ => {
                    assert!(distance > 0);
                    number += distance;
                    match kind {
                        1 | 2 => {}
                        5 | 6 => {
                            let (value, len) = integer(&bytes[at..]);
                            at += len;
                            match (outer.len(), number) {
                                (0, 3) => data = value as usize,
                                (0, 4) => sum = Some(value as u32),
                                _ => {}
                            }
                        }
                        // The length of a binary is an integer without sign.
                        8 => at += 1 + usize::from(bytes[at]),
                        12 => {
                            outer.push(number);
                            number = 0;
                        }
                        other => panic!("type {other}"),
                    }
                }
            }
        }
    }

    #[test]
    fn the_checksum_follows_the_sizes() {
        // A data page with 300 and 200 bytes, and 5 values.
        let plain = [0x15, 0, 0x15, 0xd8, 4, 0x15, 0x90, 3, 0x2c, 0x15, 10, 0, 0];
        assert_eq!(header(&plain), (plain.len(), 200, None));
        for sum in [0, 1, 0x7fff_ffff, 0x8000_0000, 0xdead_beef, u32::MAX] {
            let summed = with_checksum(&plain, sum).unwrap();
            assert_eq!(header(&summed), (summed.len(), 200, Some(sum)));
            assert_eq!(with_checksum(&summed, 1), None, "the header has a checksum");
        }
        assert_eq!(with_checksum(&plain[..8], 1), None);
        assert_eq!(with_checksum(&[0x25, 0], 1), None);
    }
}
