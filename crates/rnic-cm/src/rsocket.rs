//! The protocol of stream rsockets, which carry byte streams in RDMA Writes: the private data of a connection,
//! immediate data, and the flow control of both directions. The only specification of the protocol is the
//! implementation in librdmacm of rdma-core.
//!
//! A receiver has a ring buffer. Its peer writes into the two halves of the ring alternately. The immediate data of
//! each Write contains its length, and each Write consumes a receive request of the receiver ([`Immediate::Data`]).
//! When the program has read half of the ring, the receiver writes the address of this half into the *target list* of
//! the peer, a list of two entries in the peer's memory. The immediate data of this Write says for how many further
//! Writes the receiver has receive requests ([`Immediate::Credits`]). The receiver uses the two entries of the target
//! list alternately.

use std::collections::VecDeque;

/// Bytes of [`ConnectData`].
pub const CONNECT_LEN: usize = 40;
/// Entries of a target list.
pub const TARGETS: usize = 2;
/// Bytes of a [`Target`].
pub const TARGET_LEN: usize = 16;
/// Bytes of an entry of the list of mappings: an offset, and a [`Target`].
pub const MAPPING_LEN: usize = 8 + TARGET_LEN;
/// Maximum number of messages without data that may be outstanding in each direction, in addition to messages with
/// data.
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
    /// Encodes the target in the byte order of the peer's memory: big-endian if `big_endian`, otherwise little-endian.
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

    /// Decodes a target that the peer has written into this host's memory.
    pub fn read(bytes: &[u8; TARGET_LEN]) -> Target {
        let (address, rest) = bytes.split_first_chunk().expect("16 bytes");
        let (key, len) = rest.split_first_chunk().expect("8 bytes");
        let len = len.first_chunk().expect("4 bytes");
        Target { address: u64::from_ne_bytes(*address), key: u32::from_ne_bytes(*key), len: u32::from_ne_bytes(*len) }
    }
}

/// The private data of a REQ, after the header of the IP CM service, and of the REP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectData {
    /// Whether the sender stores numbers with the most significant byte first.
    pub big_endian: bool,
    /// Number of Writes with data for which the sender has receive requests.
    pub credits: u16,
    /// Entries of the sender's list of mappings, which follows its target list in memory.
    pub mappings: u32,
    /// The sender's target list; its `len` is the number of entries.
    pub targets: Target,
    /// The first half of the sender's ring.
    pub data: Target,
}

const VERSION: u8 = 1;
const BIG_ENDIAN: u8 = 1;
const MAPPINGS: u8 = 2;

/// Encodes a number of mappings as one byte: a small number as itself, a larger number as a multiple of 256.
pub fn scale(mappings: u32) -> u8 {
    if mappings <= 128 { mappings as u8 } else { 0x80 | (mappings >> 8).min(0x7f) as u8 }
}

/// Returns the number of mappings for a byte that [`scale`] has returned.
pub fn unscale(byte: u8) -> u32 {
    if byte <= 128 { byte.into() } else { u32::from(byte & 0x7f) << 8 }
}

impl ConnectData {
    /// Encodes the private data.
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

    /// Decodes the private data; `None` if the bytes are too short or of another version, or if the length of the
    /// target list is not 1 to 256.
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

/// A message, encoded in the immediate data of a Write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Immediate {
    /// Number of bytes that a Write has put into the receiver's ring.
    Data(u32),
    /// The number of the first Write with data for which the sender has no receive request. The peer may have written
    /// an entry of the receiver's target list.
    Credits(u16),
    /// An entry of the receiver's list of mappings was written.
    Mapping(u16),
    /// The sender ends the connection.
    Disconnect,
    /// The sender still exists.
    KeepAlive,
    /// The sender sends no more data.
    Shutdown,
    /// A number without a known meaning.
    Unknown,
}

const DATA: u32 = 0;
const CREDITS: u32 = 4;
const MAPPING: u32 = 6;
const CONTROL: u32 = 7;
/// Maximum length of a Write with data.
const LEN_MASK: u32 = (1 << 29) - 1;

impl Immediate {
    /// Encodes the message as a number, in the byte order of this host.
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

    /// Decodes the message from a number.
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

/// Error: the peer violates the flow control, because it has written more than its credits allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the peer has written more than its credits admit")]
pub struct Violation;

/// A grant of credits, which a receiver sends to its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Offset of the half of the ring to which the peer may write next; `None` if no further half is free.
    pub half: Option<u32>,
    /// The number to send in [`Immediate::Credits`].
    pub credits: u16,
}

/// State of the receiving end: the ring, and the received Writes that the program has not read.
#[derive(Debug)]
pub struct Inbox {
    /// Bytes of the ring, an even number.
    size: u32,
    /// Number of receive requests.
    queue: u16,
    /// Lengths of the messages that have arrived and are not read yet, oldest first.
    messages: VecDeque<u32>,
    unread: u32,
    /// Offset of the next byte that the program reads.
    at: u32,
    /// Number of free bytes of the ring that were not granted to the peer yet.
    free: u32,
    /// Offset of the first of these free bytes.
    free_at: u32,
    /// Number of granted bytes that the peer has not written yet.
    granted: u32,
    /// Number of Writes that the program has read.
    sequence: u16,
    /// When `sequence` reaches this value, a grant is due, even if no half of the ring is free.
    report_at: u16,
}

impl Inbox {
    /// Makes a ring of `size` bytes with `queue` receive requests. The peer knows the first half of the ring.
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

    /// Records that a Write with `len` bytes has arrived.
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

    /// Returns the next bytes that the program may read, at most `len`, as two ranges of the ring: offset and length of
    /// each. The second range may be empty.
    pub fn ranges(&self, len: usize) -> [(u32, u32); 2] {
        let len = u32::try_from(len).unwrap_or(u32::MAX).min(self.unread);
        ranges(self.size, self.at, len)
    }

    /// Records that the program has read `len` bytes, at most [`Inbox::unread`].
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

    /// Returns the grant that the caller has to send to the peer now; `None` if no grant is due.
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

/// Splits `len` bytes, beginning at offset `at` of a ring of `size` bytes, into two ranges: offset and length of each.
/// The second range may be empty.
fn ranges(size: u32, at: u32, len: u32) -> [(u32, u32); 2] {
    let first = len.min(size - at);
    [(at, first), (0, len - first)]
}

/// State of the sending end: the send buffer, which is a ring too, and the credits.
#[derive(Debug)]
pub struct Outbox {
    size: u32,
    /// Offset in the buffer to which the next byte is copied.
    at: u32,
    /// Number of free bytes in the buffer. A byte is free when the Write that sent its previous content is complete.
    free: u32,
    /// Number of free send requests.
    requests: u16,
    /// Number of Writes that were sent.
    sequence: u16,
    /// Number of the first Write for which this end has no credit.
    limit: u16,
}

impl Outbox {
    /// Makes a send buffer of `size` bytes with `queue` send requests, and with `credits` from the peer.
    pub fn new(size: u32, queue: u16, credits: u16) -> Outbox {
        Outbox { size, at: 0, free: size, requests: queue, sequence: 0, limit: credits }
    }

    /// Handles [`Immediate::Credits`] from the peer.
    pub fn credit(&mut self, limit: u16) {
        self.limit = limit;
    }

    /// Whether a Write may be sent: a send request, a credit, and enough of the buffer are available.
    pub fn is_ready(&self) -> bool {
        self.requests > 0 && self.sequence != self.limit && self.free >= LOW_WATER.min(self.size)
    }

    /// Bytes of the buffer that may be filled.
    pub fn room(&self) -> u32 {
        self.free
    }

    /// Returns where to copy the next bytes, at most `len` and [`Outbox::room`], as two ranges of the buffer: offset
    /// and length of each. The second range may be empty.
    pub fn ranges(&self, len: u32) -> [(u32, u32); 2] {
        let len = len.min(self.free);
        ranges(self.size, self.at, len)
    }

    /// Records that a Write of `len` bytes was sent. `is_copied`: its bytes were in the buffer. `is_counted`: it
    /// consumes a credit.
    pub fn sent(&mut self, len: u32, is_copied: bool, is_counted: bool) {
        self.requests -= 1;
        self.free -= len;
        if is_copied {
            self.at = (self.at + len) % self.size;
        }
        self.sequence = self.sequence.wrapping_add(is_counted.into());
    }

    /// Records that a Write of `len` bytes is complete.
    pub fn done(&mut self, len: u32) {
        self.requests += 1;
        self.free += len;
    }

    /// Returns the number of free send requests.
    pub fn requests(&self) -> u16 {
        self.requests
    }
}
