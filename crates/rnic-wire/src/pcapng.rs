//! Writes capture files in the pcapng format, with one section, Ethernet interfaces and timestamps in nanoseconds.
//!
//! The same frames always give the same file: the file names neither the time of writing nor the machine nor the
//! program.

use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const LINK_ETHERNET: u16 = 1;
/// Codes of the options that describe an interface: its name, and the resolution of its timestamps as a negative power
/// of ten.
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const NANOSECONDS: u8 = 9;

/// Writes a capture file frame by frame.
///
/// ```
/// use rnic_wire::MacAddr;
/// use rnic_wire::pcapng::Writer;
///
/// let mut file = Writer::new(Vec::new(), &["eth0"])?;
/// file.frame(0, 1_700_000_000_000_000_000, &rnic_wire::Pfc::of(3, 100).emit(MacAddr::default()))?;
/// let bytes = file.finish()?;
/// assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a pcapng file begins with a section header block");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    interfaces: u32,
}

impl<W: Write> Writer<W> {
    /// Begins a file with Ethernet interfaces of these names.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn new(mut out: W, interfaces: &[&str]) -> io::Result<Writer<W>> {
        // Version 1.0; the length of the section is not specified.
        let mut body = Vec::from(BYTE_ORDER.to_le_bytes());
        body.extend([1, 0, 0, 0]);
        body.extend([0xff; 8]);
        block(&mut out, SECTION_HEADER, &[&body])?;
        for name in interfaces {
            let mut body = Vec::from(u32::from(LINK_ETHERNET).to_le_bytes());
            // Captured length (snaplen) 0: frames are not truncated.
            body.extend([0; 4]);
            option(&mut body, IF_NAME, name.as_bytes());
            option(&mut body, IF_TSRESOL, &[NANOSECONDS]);
            option(&mut body, 0, &[]);
            block(&mut out, INTERFACE_DESCRIPTION, &[&body])?;
        }
        Ok(Writer { out, interfaces: interfaces.len() as u32 })
    }

    /// Writes a frame with a timestamp of `ns` nanoseconds. `interface` is an index, from 0, into the interfaces of
    /// [`Writer::new`].
    ///
    /// # Errors
    /// If writing to the output fails.
    ///
    /// # Panics
    /// If `interface` is not less than the number of interfaces.
    pub fn frame(&mut self, interface: u32, ns: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(
            interface < self.interfaces,
            "interface {interface} does not exist: the file has {} interfaces, numbered from 0",
            self.interfaces
        );
        let len = bytes.len() as u32;
        let fields = [interface, (ns >> 32) as u32, ns as u32, len, len];
        let mut head = [0; 20];
        for (bytes, field) in head.chunks_exact_mut(4).zip(fields) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        block(&mut self.out, ENHANCED_PACKET, &[&head, bytes])
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    /// If flushing the output fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// The zero bytes that pad `len` bytes to a multiple of four.
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
