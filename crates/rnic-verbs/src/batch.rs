//! Packets that leave together.

use crate::types::Qpn;
use std::net::SocketAddr;

/// Packets of one queue pair for its peer, one behind the other: what one system call can send.
///
/// All have the same length but the last, which may be shorter. Each ends with four bytes of room for its ICRC.
#[derive(Clone, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    len: usize,
    segment: usize,
    count: usize,
    most: usize,
    to: Option<Destination>,
    /// A packet that did not fit in the batch before.
    held: Vec<u8>,
    held_for: Option<Destination>,
}

/// Where the packets of a batch go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The queue pair that sends.
    pub qpn: Qpn,
    /// The peer's address.
    pub peer: SocketAddr,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Switches may mark the packets (ECT(0)).
    pub ecn: bool,
}

impl Batch {
    /// A batch of up to `most` packets and 65,000 bytes.
    pub fn new(most: usize) -> Batch {
        Batch {
            bytes: vec![0; Batch::BYTES + Batch::PACKET],
            len: 0,
            segment: 0,
            count: 0,
            most: most.max(1),
            to: None,
            held: Vec::with_capacity(Batch::PACKET),
            held_for: None,
        }
    }

    /// No more bytes than this leave at once: an IPv4 datagram holds 65,507.
    const BYTES: usize = 65_000;
    /// No packet is longer.
    const PACKET: usize = 8_192 + 128;

    /// The packets.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The packets, for their ICRCs to be filled in.
    pub fn packets_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.bytes[..self.len].chunks_mut(self.segment.max(1))
    }

    /// Length of every packet but the last in bytes.
    pub fn segment(&self) -> usize {
        self.segment
    }

    /// How many packets there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Where they go; `None` if there are none.
    pub fn destination(&self) -> Option<Destination> {
        self.to
    }

    /// Begins anew, with the packet that is held; returns where that goes.
    pub(crate) fn begin(&mut self) -> Option<Destination> {
        self.len = 0;
        self.segment = 0;
        self.count = 0;
        self.to = None;
        let to = self.held_for.take()?;
        let len = self.held.len();
        self.bytes[..len].copy_from_slice(&self.held);
        self.append(len, to);
        Some(to)
    }

    /// Whether a packet is held.
    pub(crate) fn holds(&self) -> bool {
        self.held_for.is_some()
    }

    /// Room for one packet behind the others.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..]
    }

    /// The packet of `len` bytes behind the others belongs to the batch; `false` if it is longer than they, and held for the next one.
    pub(crate) fn append(&mut self, len: usize, to: Destination) -> bool {
        if self.count == 0 {
            self.segment = len;
            self.to = Some(to);
        } else if len > self.segment {
            self.held.clear();
            self.held.extend_from_slice(&self.bytes[self.len..self.len + len]);
            self.held_for = Some(to);
            return false;
        }
        self.len += len;
        self.count += 1;
        true
    }

    /// Whether no more fits.
    pub(crate) fn is_closed(&self) -> bool {
        self.count >= self.most
            || self.count > 0 && (!self.len.is_multiple_of(self.segment) || self.len + self.segment > Batch::BYTES)
    }
}
