//! The protocol of rsockets, streams of bytes over RDMA Writes, as librdmacm of rdma-core has it: the private data of a
//! connection, immediate data, and the flow control of both directions. There is no other specification than that
//! program.
//!
//! A receiver has a ring of bytes, of which its peer may write one half after the other. Each Write has immediate data
//! with its length, and takes a receive request of the receiver ([`Immediate::Data`]). When the program has read half
//! of the ring, the receiver writes the address of that half into the *target list* of the peer, a list of two entries
//! in the peer's memory, and says how many further Writes it has receive requests for ([`Immediate::Credits`]). Its
//! peer writes into the entries of its target list in turns.

use std::collections::VecDeque;

/// Bytes of [`ConnectData`].
pub const CONNECT_LEN: usize = 40;
/// Entries of a target list.
pub const TARGETS: usize = 2;
/// Bytes of a [`Target`].
pub const TARGET_LEN: usize = 16;
/// Bytes of an entry of the list of mappings: an offset, and a [`Target`].
pub const MAPPING_LEN: usize = 8 + TARGET_LEN;
/// Messages without data that may be outstanding in each direction, besides those with data.
pub const CONTROLS: u8 = 4;
/// Bytes that the send buffer must have free before a program may send.
pub const LOW_WATER: u32 = 2_048;

/// A buffer to which the peer may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// Address.
    pub address: u64,
    /// Remote key.
    pub key: u32,
    /// Bytes.
    pub len: u32,
}

impl Target {
    /// The bytes of a target in the memory of a host that stores numbers as `big_endian` says.
    pub fn bytes(&self, big_endian: bool) -> [u8; TARGET_LEN] {
        let mut out = [0; TARGET_LEN];
        if big_endian {
            out[..8].copy_from_slice(&self.address.to_be_bytes());
            out[8..12].copy_from_slice(&self.key.to_be_bytes());
            out[12..].copy_from_slice(&self.len.to_be_bytes());
        } else {
            out[..8].copy_from_slice(&self.address.to_le_bytes());
            out[8..12].copy_from_slice(&self.key.to_le_bytes());
            out[12..].copy_from_slice(&self.len.to_le_bytes());
        }
        out
    }

    /// The target in this host's memory, which the peer has written.
    pub fn read(bytes: &[u8; TARGET_LEN]) -> Target {
        let (address, rest) = bytes.split_first_chunk().expect("16 bytes");
        let (key, len) = rest.split_first_chunk().expect("8 bytes");
        let len = len.first_chunk().expect("4 bytes");
        Target { address: u64::from_ne_bytes(*address), key: u32::from_ne_bytes(*key), len: u32::from_ne_bytes(*len) }
    }
}

/// The private data of a REQ, behind the header of the IP CM service, and of its REP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectData {
    /// Whether the sender stores numbers with the most significant byte first.
    pub big_endian: bool,
    /// Writes with data for which the sender has receive requests.
    pub credits: u16,
    /// Entries of the sender's list of mappings, which follows its target list in memory.
    pub mappings: u32,
    /// The sender's target list, whose `len` is its number of entries.
    pub targets: Target,
    /// The first half of the sender's ring.
    pub data: Target,
}

const VERSION: u8 = 1;
const BIG_ENDIAN: u8 = 1;
const MAPPINGS: u8 = 2;

/// A number of mappings as one byte: small numbers are themselves, larger ones multiples of 256.
pub fn scale(mappings: u32) -> u8 {
    if mappings <= 128 { mappings as u8 } else { 0x80 | (mappings >> 8).min(0x7f) as u8 }
}

/// The number of mappings that a byte of [`scale`] stands for.
pub fn unscale(byte: u8) -> u32 {
    if byte <= 128 { byte.into() } else { u32::from(byte & 0x7f) << 8 }
}

impl ConnectData {
    /// The bytes.
    pub fn emit(&self) -> [u8; CONNECT_LEN] {
        let mut out = [0; CONNECT_LEN];
        out[0] = VERSION;
        out[1] = MAPPINGS | if self.big_endian { BIG_ENDIAN } else { 0 };
        out[2..4].copy_from_slice(&self.credits.to_be_bytes());
        out[7] = scale(self.mappings);
        out[8..24].copy_from_slice(&self.targets.bytes(true));
        out[24..].copy_from_slice(&self.data.bytes(true));
        out
    }

    /// Reads the bytes; `None` if they are too short, or of another version, or have a target list of another length.
    pub fn parse(bytes: &[u8]) -> Option<ConnectData> {
        let bytes = bytes.first_chunk::<CONNECT_LEN>()?;
        let u32_at = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let target = |at: usize| Target {
            address: u64::from(u32_at(at)) << 32 | u64::from(u32_at(at + 4)),
            key: u32_at(at + 8),
            len: u32_at(at + 12),
        };
        let data = ConnectData {
            big_endian: bytes[1] & BIG_ENDIAN != 0,
            credits: u16::from_be_bytes([bytes[2], bytes[3]]),
            mappings: if bytes[1] & MAPPINGS == 0 { 0 } else { unscale(bytes[7]) },
            targets: target(8),
            data: target(24),
        };
        (bytes[0] == VERSION && (1..=256).contains(&data.targets.len)).then_some(data)
    }
}

/// What a message says: immediate data of a Write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Immediate {
    /// Number of bytes that a Write has put into the receiver's ring.
    Data(u32),
    /// The number of the first Write with data for which the sender has no receive request. An entry of the receiver's
    /// target list may have been written.
    Credits(u16),
    /// An entry of the receiver's list of mappings was written.
    Mapping(u16),
    /// The sender ends the connection.
    Disconnect,
    /// The sender still exists.
    KeepAlive,
    /// The sender sends no more data.
    Shutdown,
    /// None of these.
    Unknown,
}

const DATA: u32 = 0;
const CREDITS: u32 = 4;
const MAPPING: u32 = 6;
const CONTROL: u32 = 7;
/// Maximum length of a Write with data.
const LEN_MASK: u32 = (1 << 29) - 1;

impl Immediate {
    /// The number, in the byte order of this host.
    pub fn number(self) -> u32 {
        let (kind, value) = match self {
            Immediate::Data(len) => (DATA, len & LEN_MASK),
            // Numbers of Writes wrap at 16 bits; librdmacm ignores the bits above.
            Immediate::Credits(sequence) => (CREDITS, sequence.into()),
            Immediate::Mapping(index) => (MAPPING, index.into()),
            Immediate::Disconnect => (CONTROL, 0),
            Immediate::KeepAlive => (CONTROL, 1),
            Immediate::Shutdown => (CONTROL, 2),
            Immediate::Unknown => (2, 0),
        };
        kind << 29 | value
    }

    /// The meaning of a number.
    pub fn of(number: u32) -> Immediate {
        let value = number & LEN_MASK;
        match (number >> 29, value) {
            (DATA, len) => Immediate::Data(len),
            (CREDITS, sequence) => Immediate::Credits(sequence as u16),
            (MAPPING, index) => Immediate::Mapping(index as u16),
            (CONTROL, 0) => Immediate::Disconnect,
            (CONTROL, 1) => Immediate::KeepAlive,
            (CONTROL, 2) => Immediate::Shutdown,
            _ => Immediate::Unknown,
        }
    }
}

/// The peer does not keep to the flow control: it has written more than it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the peer has written more than its credits admit")]
pub struct Violation;

/// A grant of credits, which a receiver sends to its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Offset of the half of the ring to which the peer may write next, if there is a new one.
    pub half: Option<u32>,
    /// What [`Immediate::Credits`] says.
    pub credits: u16,
}

/// The receiving end: the ring, and the Writes in it that the program has not read.
#[derive(Debug)]
pub struct Inbox {
    /// Bytes of the ring, an even number.
    size: u32,
    /// Receive requests.
    queue: u16,
    /// Lengths of the messages that have arrived and are not read yet, oldest first.
    messages: VecDeque<u32>,
    unread: u32,
    /// Offset of the next byte that the program reads.
    at: u32,
    /// Bytes of which the peer does not know that they may be written.
    free: u32,
    /// Where they begin.
    free_at: u32,
    /// Bytes that the peer may still write.
    granted: u32,
    /// Number of Writes that the program has read.
    sequence: u16,
    /// The peer gets the number at the latest when it has this value.
    report_at: u16,
}

impl Inbox {
    /// A ring of `size` bytes, of which the peer knows the first half, with `queue` receive requests.
    pub fn new(size: u32, queue: u16) -> Inbox {
        let half = size / 2;
        Inbox {
            size: half * 2,
            queue,
            messages: VecDeque::with_capacity(queue.into()),
            unread: 0,
            at: 0,
            free: half,
            free_at: half,
            granted: half,
            sequence: 0,
            report_at: queue / 2,
        }
    }

    /// Bytes that the program may read.
    pub fn unread(&self) -> u32 {
        self.unread
    }

    /// A Write with `len` bytes has arrived.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn arrived(&mut self, len: u32) -> Result<(), Violation> {
        if len == 0 || len > self.granted || self.messages.len() >= self.queue.into() {
            return Err(Violation);
        }
        self.granted -= len;
        self.unread += len;
        self.messages.push_back(len);
        Ok(())
    }

    /// The next at most `len` bytes that the program may read, as ranges of the ring: offset and length. The second
    /// may be empty.
    pub fn ranges(&self, len: usize) -> [(u32, u32); 2] {
        let len = u32::try_from(len).unwrap_or(u32::MAX).min(self.unread);
        ranges(self.size, self.at, len)
    }

    /// The program has read `len` bytes, at most [`Inbox::unread`].
    pub fn consume(&mut self, len: u32) {
        let mut rest = len.min(self.unread);
        self.unread -= rest;
        self.free += rest;
        self.at = (self.at + rest) % self.size;
        while let Some(first) = self.messages.front_mut() {
            if *first > rest {
                *first -= rest;
                return;
            }
            rest -= *first;
            self.messages.pop_front();
            self.sequence = self.sequence.wrapping_add(1);
            if rest == 0 {
                return;
            }
        }
    }

    /// The grant that has to be sent to the peer now, if any; the caller sends it.
    pub fn grant(&mut self) -> Option<Grant> {
        let half = self.size / 2;
        let is_due = self.sequence.wrapping_sub(self.report_at) as i16 >= 0;
        if self.free < half && !is_due {
            return None;
        }
        self.report_at = self.sequence.wrapping_add(self.queue / 2);
        let offset = (self.free >= half).then(|| {
            let offset = self.free_at;
            self.free -= half;
            self.free_at = (self.free_at + half) % self.size;
            self.granted += half;
            offset
        });
        Some(Grant { half: offset, credits: self.sequence.wrapping_add(self.queue) })
    }
}

/// Where `len` bytes from `at` on are in a ring of `size` bytes: offset and length of each part. The second may be
/// empty.
fn ranges(size: u32, at: u32, len: u32) -> [(u32, u32); 2] {
    let first = len.min(size - at);
    [(at, first), (0, len - first)]
}

/// The sending end: the send buffer, which is a ring too, and the credits.
#[derive(Debug)]
pub struct Outbox {
    size: u32,
    /// Offset of the next byte that is copied into the buffer.
    at: u32,
    /// Bytes whose Writes are complete.
    free: u32,
    /// Send requests that are free.
    requests: u16,
    /// Number of Writes that were sent.
    sequence: u16,
    /// Number of the first Write that may not be sent.
    limit: u16,
}

impl Outbox {
    /// A buffer of `size` bytes, with `queue` send requests, and the peer's `credits`.
    pub fn new(size: u32, queue: u16, credits: u16) -> Outbox {
        Outbox { size, at: 0, free: size, requests: queue, sequence: 0, limit: credits }
    }

    /// The peer has sent [`Immediate::Credits`].
    pub fn credit(&mut self, limit: u16) {
        self.limit = limit;
    }

    /// Whether there is a send request, a credit, and enough of the buffer.
    pub fn is_ready(&self) -> bool {
        self.requests > 0 && self.sequence != self.limit && self.free >= LOW_WATER.min(self.size)
    }

    /// Bytes of the buffer that may be filled.
    pub fn room(&self) -> u32 {
        self.free
    }

    /// Where the next at most `len` bytes of [`Outbox::room`] are, as ranges of the buffer: offset and length. The
    /// second may be empty.
    pub fn ranges(&self, len: u32) -> [(u32, u32); 2] {
        let len = len.min(self.free);
        ranges(self.size, self.at, len)
    }

    /// A Write of `len` bytes was sent: `is_copied` if from the buffer, `is_counted` if it takes a credit.
    pub fn sent(&mut self, len: u32, is_copied: bool, is_counted: bool) {
        self.requests -= 1;
        self.free -= len;
        if is_copied {
            self.at = (self.at + len) % self.size;
        }
        self.sequence = self.sequence.wrapping_add(is_counted.into());
    }

    /// A Write of `len` bytes is complete.
    pub fn done(&mut self, len: u32) {
        self.requests += 1;
        self.free += len;
    }

    /// Send requests that are free.
    pub fn requests(&self) -> u16 {
        self.requests
    }
}
