//! Reads the frames of a capture file in pcap or pcapng format, also compressed by gzip.

use flate2::read::MultiGzDecoder;
use pcap_parser::pcapng::InterfaceDescriptionBlock;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};
use std::io::{self, Read};

/// Initial size in bytes of the buffer with which a capture file is read. The buffer grows for longer blocks of the
/// file.
const CAPACITY: usize = 1 << 16;
/// Maximum length in bytes of a block of a capture file. A longer block means that the file is damaged.
const MAX_CAPACITY: usize = 1 << 28;
/// Maximum number of interfaces in a section of a capture file.
const MAX_INTERFACES: usize = 65_536;
const NS_PER_S: i128 = 1_000_000_000;

/// One captured frame.
pub(super) struct Captured<'a> {
    /// Position of the frame in the file, counted from 1.
    pub(super) number: u64,
    /// Capture time in nanoseconds since 1970; 0 if the file has no timestamp for the frame.
    pub(super) ns: i128,
    /// Link type of the capturing interface, as a number of the pcap format (1 is Ethernet).
    pub(super) link: i32,
    /// Name of the capturing interface; `None` if the file does not contain it.
    pub(super) interface: Option<&'a str>,
    /// The captured bytes of the frame.
    pub(super) bytes: &'a [u8],
    /// Length of the frame on the link in bytes, which may exceed the number of captured bytes.
    pub(super) original: usize,
}

/// An interface that the file describes: link type, name, and the unit and offset of its timestamps.
struct Interface {
    link: i32,
    name: Option<String>,
    units_per_s: i128,
    offset_s: i128,
}

impl Interface {
    fn of(block: &InterfaceDescriptionBlock) -> Interface {
        let units_per_s = block.ts_resolution().map_or(1_000_000, i128::from);
        let name = block.if_name().and_then(Result::ok).map(str::to_string);
        Interface { link: block.linktype.0, name, units_per_s, offset_s: block.ts_offset().into() }
    }

    fn ns(&self, units: u64) -> i128 {
        self.offset_s * NS_PER_S + i128::from(units) * NS_PER_S / self.units_per_s
    }
}

/// Calls `each` with each frame of `input`, until the input ends or `each` returns an error.
///
/// # Errors
/// The outer error describes a mistake in the file. The inner error is the error that `each` returned.
pub(super) fn read<E>(
    input: impl Read + Send, mut each: impl FnMut(Captured) -> Result<(), E>,
) -> Result<Result<(), E>, String> {
    let input = plain(input).map_err(|_| "the file cannot be read".to_string())?;
    let mut reader = create_reader(CAPACITY, Patient { input, started: false }).map_err(|error| match error {
        PcapError::Eof => "the file is empty".to_string(),
        PcapError::Incomplete(_) => "the file ends inside its header".to_string(),
        PcapError::ReadError => "the file cannot be read".to_string(),
        _ => "the file is neither pcap nor pcapng".to_string(),
    })?;
    let mut interfaces = Vec::new();
    let mut number = 0;
    let mut capacity = CAPACITY;
    loop {
        let step = match reader.next() {
            Ok((consumed, block)) => {
                if let Some(mut frame) =
                    frame(&block, &mut interfaces).map_err(|why| format!("{why}{}", after(number)))?
                {
                    number += 1;
                    frame.number = number;
                    if let Err(error) = each(frame) {
                        return Ok(Err(error));
                    }
                }
                Step::Consume(consumed)
            }
            Err(PcapError::Eof) => return Ok(Ok(())),
            Err(PcapError::Incomplete(_) | PcapError::BufferTooSmall) => Step::More,
            Err(PcapError::UnexpectedEof) => Step::Truncated,
            Err(_) => return Err(format!("the file is damaged{}", after(number))),
        };
        match step {
            Step::Consume(consumed) => reader.consume(consumed),
            Step::Truncated => return Err(format!("the file ends in the middle of a block{}", after(number))),
            Step::More if reader.reader_exhausted() => {
                return Err(format!("the file ends in the middle of a block{}", after(number)));
            }
            // The length that a block claims does not decide how much memory the buffer takes: the buffer grows only
            // when it is full of bytes that the file really has.
            Step::More if reader.data().len() < capacity => {
                reader.refill().map_err(|_| format!("the file cannot be read{}", after(number)))?;
            }
            Step::More => {
                capacity *= 2;
                if capacity > MAX_CAPACITY || !reader.grow(capacity) {
                    return Err(format!("the file is damaged{}: a block is longer than 256 MiB", after(number)));
                }
            }
        }
    }
}

/// The bytes of a file without its compression by gzip.
fn plain<'r>(mut input: impl Read + Send + 'r) -> io::Result<Box<dyn Read + Send + 'r>> {
    let mut head = Vec::new();
    input.by_ref().take(2).read_to_end(&mut head)?;
    let is_compressed = head == [0x1f, 0x8b];
    let whole = io::Cursor::new(head).chain(input);
    Ok(if is_compressed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
}

/// The next action while a capture file is read.
enum Step {
    /// Remove a processed block of this many bytes from the buffer.
    Consume(usize),
    /// Read more bytes of the file into the buffer, or enlarge the buffer if it is full.
    More,
    /// Fail, because the file ends inside a block.
    Truncated,
}

fn after(number: u64) -> String {
    format!(" after frame {number}")
}

/// The frame in a block of a capture file, without the number of the frame; `None` if the block is not a frame. A block
/// that describes an interface is added to `interfaces`.
fn frame<'a>(block: &'a PcapBlockOwned, interfaces: &'a mut Vec<Interface>) -> Result<Option<Captured<'a>>, String> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let units_per_s = if header.is_nanosecond_precision() { NS_PER_S } else { 1_000_000 };
            // The upper bits of this field describe the frame check sequence, not the link type.
            let link = header.network.0 & 0xffff;
            interfaces.push(Interface { link, name: None, units_per_s, offset_s: 0 });
        }
        PcapBlockOwned::Legacy(packet) => {
            let interface = interfaces.first().ok_or("the header is missing")?;
            let ns = i128::from(packet.ts_sec) * NS_PER_S + interface.ns(packet.ts_usec.into());
            return Ok(Some(captured(interface, ns, packet.data, packet.caplen, packet.origlen)));
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
        PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
            if interfaces.len() == MAX_INTERFACES {
                return Err(format!("the file has more than {MAX_INTERFACES} interfaces"));
            }
            interfaces.push(Interface::of(block));
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let interface = interfaces.get(packet.if_id as usize).ok_or("a frame refers to an unknown interface")?;
            let ns = interface.ns(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low));
            return Ok(Some(captured(interface, ns, packet.data, packet.caplen, packet.origlen)));
        }
        PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
            let interface = interfaces.first().ok_or("a frame refers to an unknown interface")?;
            return Ok(Some(captured(interface, 0, packet.data, packet.origlen, packet.origlen)));
        }
        PcapBlockOwned::NG(_) => {}
    }
    Ok(None)
}

/// A frame of which `len` bytes were captured. `data` may be longer, because blocks are padded.
fn captured<'a>(interface: &'a Interface, ns: i128, data: &'a [u8], len: u32, original: u32) -> Captured<'a> {
    let bytes = &data[..data.len().min(len as usize)];
    let (link, interface) = (interface.link, interface.name.as_deref());
    Captured { number: 0, ns, link, interface, bytes, original: original as usize }
}

/// A reader whose first call returns at least 4,096 bytes, or the whole input if it is shorter. The pcap library needs
/// a complete file header in the first call, and a pipe may return fewer bytes per call.
struct Patient<R> {
    input: R,
    started: bool,
}

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = if self.started { 1 } else { buffer.len().min(4096) };
        self.started = true;
        let mut len = 0;
        while len < wanted {
            match self.input.read(&mut buffer[len..]) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(len)
    }
}
