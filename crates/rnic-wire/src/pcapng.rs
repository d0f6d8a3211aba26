//! Writes capture files in the pcapng format: one section, Ethernet interfaces, time in nanoseconds.
//!
//! The same frames give the same bytes: no time of writing, no machine, no program version goes into the file.

use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const LINK_ETHERNET: u16 = 1;
/// Options of an interface: its name, and the resolution of time as a negative power of ten.
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const NANOSECONDS: u8 = 9;

/// A capture file in the making.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    interfaces: u32,
}

impl<W: Write> Writer<W> {
    /// Begins a file with one Ethernet interface of each of these names.
    ///
    /// # Errors
    /// What `out` reports.
    pub fn new(mut out: W, interfaces: &[&str]) -> io::Result<Writer<W>> {
        // Version 1.0, length of the section not given.
        let mut body = Vec::from(BYTE_ORDER.to_le_bytes());
        body.extend([1, 0, 0, 0]);
        body.extend([0xff; 8]);
        block(&mut out, SECTION_HEADER, &[&body])?;
        for name in interfaces {
            let mut body = Vec::from(u32::from(LINK_ETHERNET).to_le_bytes());
            // No limit to the length of a frame.
            body.extend([0; 4]);
            option(&mut body, IF_NAME, name.as_bytes());
            option(&mut body, IF_TSRESOL, &[NANOSECONDS]);
            option(&mut body, 0, &[]);
            block(&mut out, INTERFACE_DESCRIPTION, &[&body])?;
        }
        Ok(Writer { out, interfaces: interfaces.len() as u32 })
    }

    /// Adds a frame that was on the interface of this number, from 0, at `ns` nanoseconds.
    ///
    /// # Errors
    /// What the output reports.
    ///
    /// # Panics
    /// If there is no such interface.
    pub fn frame(&mut self, interface: u32, ns: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(interface < self.interfaces, "there are {} interfaces, not {interface}", self.interfaces);
        let len = bytes.len() as u32;
        let fields = [interface, (ns >> 32) as u32, ns as u32, len, len];
        let mut head = [0; 20];
        for (place, field) in head.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        block(&mut self.out, ENHANCED_PACKET, &[&head, bytes])
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    /// What the output reports.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Zeros up to a whole word.
fn padding(len: usize) -> &'static [u8] {
    &[0; 3][..len.wrapping_neg() & 3]
}

fn block(out: &mut impl Write, kind: u32, parts: &[&[u8]]) -> io::Result<()> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let padding = padding(len);
    let total = ((12 + len + padding.len()) as u32).to_le_bytes();
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&total)?;
    for part in parts {
        out.write_all(part)?;
    }
    out.write_all(padding)?;
    out.write_all(&total)
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    body.extend(padding(value.len()));
}
