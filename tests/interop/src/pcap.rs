//! Captures: reads the pcap files that qemu's `filter-dump` writes, and writes pcapng files.
//!
//! Formats: pcap as defined in <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/>, pcapng as defined in
//! <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>.

use crate::error::{Error, Result};
use crate::frame::roce_payload;
use std::path::Path;

/// A captured frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Captured {
    /// Time of the capture in microseconds of the capture's clock.
    pub time_us: u64,
    /// The bytes of the frame, without its frame check sequence.
    pub frame: Vec<u8>,
}

/// Reads a pcap file in this machine's byte order, as qemu writes it. A last frame that is not yet complete in the file
/// is left out.
///
/// # Errors
/// If the file cannot be read, or is not a pcap file of Ethernet frames.
pub fn read(path: &Path) -> Result<Vec<Captured>> {
    let bytes = std::fs::read(path).map_err(Error::file(path))?;
    parse(&bytes).ok_or_else(|| Error::Check(format!("{} is no pcap file of Ethernet frames", path.display())))
}

fn parse(bytes: &[u8]) -> Option<Vec<Captured>> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    // Magic number for microseconds, and Ethernet as link type.
    if word(bytes, 0)? != 0xa1b2_c3d4 || word(bytes, 20)? != 1 {
        return None;
    }
    let mut rest = &bytes[24..];
    let mut frames = Vec::new();
    while let (Some(seconds), Some(micros), Some(length)) = (word(rest, 0), word(rest, 4), word(rest, 8)) {
        let Some(frame) = rest.get(16..16 + length as usize) else { break };
        frames.push(Captured { time_us: u64::from(seconds) * 1_000_000 + u64::from(micros), frame: frame.to_vec() });
        rest = &rest[16 + length as usize..];
    }
    Some(frames)
}

/// Writes the RoCEv2 frames among `frames` to a pcapng file with this comment; returns their number. Times in the file
/// count from the first RoCEv2 frame.
///
/// # Errors
/// If the file cannot be written.
pub fn write_roce(path: &Path, comment: &str, frames: &[Captured]) -> Result<usize> {
    let roce: Vec<&Captured> = frames.iter().filter(|captured| roce_payload(&captured.frame).is_some()).collect();
    std::fs::write(path, pcapng(comment, &roce)).map_err(Error::file(path))?;
    Ok(roce.len())
}

/// Builds the bytes of a pcapng file: a section header with a comment, the description of one Ethernet interface, and
/// an enhanced packet block for each frame.
fn pcapng(comment: &str, frames: &[&Captured]) -> Vec<u8> {
    let mut section = [0x1a2b_3c4d_u32.to_le_bytes(), [1, 0, 0, 0], [0xff; 4], [0xff; 4]].concat();
    // Option 1 is the comment, option 0 the end of options.
    section.extend(1_u16.to_le_bytes());
    section.extend((comment.len() as u16).to_le_bytes());
    section.extend(padded(comment.as_bytes()));
    section.extend([0; 4]);
    let mut file = block(0x0a0d_0d0a, &section);
    // Link type Ethernet, no limit on the length of a frame, microseconds.
    file.extend(block(1, &[1, 0, 0, 0, 0, 0, 0, 0]));
    let start = frames.first().map_or(0, |first| first.time_us);
    for captured in frames {
        let time = captured.time_us - start;
        let length = captured.frame.len() as u32;
        let words = [0, (time >> 32) as u32, time as u32, length, length];
        let mut body = words.map(u32::to_le_bytes).concat();
        body.extend(padded(&captured.frame));
        file.extend(block(6, &body));
    }
    file
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, body, &length].concat()
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(4), 0);
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pcap_file_by_hand() {
        let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_536, 1].map(u32::to_ne_bytes).concat();
        let record = [[7, 5, 3, 3].map(u32::to_ne_bytes).concat(), b"abc".to_vec()].concat();
        let whole = [&header[..], &record, &record].concat();
        let expected = Captured { time_us: 7_000_005, frame: b"abc".to_vec() };
        assert_eq!(parse(&whole), Some(vec![expected.clone(), expected.clone()]));
        // The last record is not complete yet.
        assert_eq!(parse(&whole[..whole.len() - 1]), Some(vec![expected]));
        assert_eq!(parse(&header[..20]), None);
        assert_eq!(parse(b"something else, and long enough"), None);
    }

    #[test]
    fn a_pcapng_file_by_hand() {
        let frame = Captured { time_us: 9, frame: b"frame".to_vec() };
        #[rustfmt::skip]
        let expected = [
            0x0a, 0x0d, 0x0d, 0x0a, 40, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 1, 0, 3, 0, b'o', b'n', b'e', 0, 0, 0, 0, 0, 40, 0, 0, 0,
            1, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0,
            6, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0,
            b'f', b'r', b'a', b'm', b'e', 0, 0, 0, 40, 0, 0, 0,
        ];
        assert_eq!(pcapng("one", &[&frame]), expected);
    }
}
