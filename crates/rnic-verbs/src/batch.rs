//! Packets that leave together.

use crate::types::{MAX_MTU, Qpn};
use rnic_wire::{Opcode, Operation};
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
    /// An acknowledgement may be overtaken by what follows it.
    overtaking: bool,
    to: Option<Destination>,
    /// An acknowledgement that goes last, because what follows it is longer.
    tail: Vec<u8>,
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
            overtaking: false,
            to: None,
            tail: Vec::with_capacity(Batch::PACKET),
            held: Vec::with_capacity(Batch::PACKET),
            held_for: None,
        }
    }

    /// The same; a lone acknowledgement goes behind longer packets that follow it, so that all of them leave at once.
    pub fn overtaking(most: usize) -> Batch {
        Batch { overtaking: true, ..Batch::new(most) }
    }

    /// No more bytes than this leave at once: an IPv4 datagram holds 65,507.
    const BYTES: usize = 65_000;
    /// No packet is longer.
    const PACKET: usize = MAX_MTU as usize + 128;

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
        } else if len > self.segment && self.may_overtake() {
            self.tail.extend_from_slice(&self.bytes[..self.len]);
            self.bytes.copy_within(self.len..self.len + len, 0);
            self.segment = len;
            self.len = len;
            return true;
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
        let (count, len) = (self.count + usize::from(!self.tail.is_empty()), self.len + self.tail.len());
        count >= self.most || self.count > 0 && (!self.is_even() || len + self.segment > Batch::BYTES)
    }

    /// Whether the one packet that there is may go last.
    fn may_overtake(&self) -> bool {
        self.overtaking && self.count == 1 && self.tail.is_empty() && acknowledges(&self.bytes)
    }

    /// Whether all packets have the same length.
    fn is_even(&self) -> bool {
        self.len.is_multiple_of(self.segment)
    }

    /// Nothing more comes.
    pub(crate) fn finish(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        if self.is_even() {
            self.bytes[self.len..self.len + self.tail.len()].copy_from_slice(&self.tail);
            self.len += self.tail.len();
            self.count += 1;
        } else {
            // The last packet is a short one already, and behind it nothing can be held.
            std::mem::swap(&mut self.held, &mut self.tail);
            self.held_for = self.to;
        }
        self.tail.clear();
    }
}

/// Whether a packet only acknowledges, so that packets which follow it may overtake it; its ICRC need not have been checked.
pub fn acknowledges(packet: &[u8]) -> bool {
    let operation = packet.first().and_then(|opcode| Opcode::from_u8(*opcode)).map(Opcode::operation);
    matches!(operation, Some(Operation::Acknowledge | Operation::ReadAcknowledge))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Destination = Destination {
        qpn: Qpn(9),
        peer: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1),
        dscp: 0,
        ecn: false,
    };
    const ACK: u8 = 0x11;
    const WRITE: u8 = 0x0a;

    /// Appends packets of these opcodes and lengths until the batch is closed; returns how many of them are its own now.
    fn fill(batch: &mut Batch, packets: &[(u8, usize)]) -> usize {
        let mut taken = 0;
        for (opcode, len) in packets {
            if batch.is_closed() {
                break;
            }
            batch.room()[..*len].fill(*opcode);
            taken += 1;
            if !batch.append(*len, TO) {
                break;
            }
        }
        batch.finish();
        taken
    }

    /// The packets: first byte and length.
    fn packets(batch: &mut Batch) -> Vec<(u8, usize)> {
        batch.packets_mut().map(|packet| (packet[0], packet.len())).collect()
    }

    #[test]
    fn an_acknowledgement_goes_behind_what_is_longer() {
        let mut batch = Batch::overtaking(64);
        assert_eq!(fill(&mut batch, &[(ACK, 20), (WRITE, 100), (WRITE, 100)]), 3);
        assert_eq!(packets(&mut batch), [(WRITE, 100), (WRITE, 100), (ACK, 20)]);
        assert_eq!((batch.count(), batch.segment(), batch.bytes().len()), (3, 100, 220));
        assert_eq!(batch.begin(), None);
        // Alone it goes alone.
        assert_eq!(fill(&mut batch, &[(ACK, 20)]), 1);
        assert_eq!(packets(&mut batch), [(ACK, 20)]);
    }

    #[test]
    fn behind_a_short_packet_it_waits() {
        let mut batch = Batch::overtaking(64);
        assert_eq!(fill(&mut batch, &[(ACK, 20), (WRITE, 100), (WRITE, 50), (WRITE, 50)]), 3);
        assert_eq!(packets(&mut batch), [(WRITE, 100), (WRITE, 50)]);
        assert!(batch.holds());
        assert_eq!(batch.begin(), Some(TO));
        assert_eq!(fill(&mut batch, &[(WRITE, 60)]), 1);
        assert_eq!(packets(&mut batch), [(WRITE, 60), (ACK, 20)]);
    }

    #[test]
    fn only_one_acknowledgement_is_overtaken_and_nothing_else() {
        let mut batch = Batch::overtaking(64);
        assert_eq!(fill(&mut batch, &[(ACK, 20), (ACK, 20), (WRITE, 100), (WRITE, 100)]), 3);
        assert_eq!(packets(&mut batch), [(ACK, 20), (ACK, 20)]);
        assert_eq!(batch.begin(), Some(TO));
        assert_eq!(fill(&mut batch, &[(WRITE, 200), (WRITE, 200)]), 1);
        assert_eq!(packets(&mut batch), [(WRITE, 100)]);
        assert_eq!(batch.begin(), Some(TO));
        assert_eq!(packets(&mut batch), [(WRITE, 200)]);
    }

    #[test]
    fn it_counts_for_the_room() {
        let mut batch = Batch::overtaking(3);
        assert_eq!(fill(&mut batch, &[(ACK, 20), (WRITE, 100), (WRITE, 100), (WRITE, 100)]), 3);
        assert_eq!(packets(&mut batch), [(WRITE, 100), (WRITE, 100), (ACK, 20)]);
        let mut batch = Batch::overtaking(64);
        let mut many = vec![(WRITE, 8_000); 10];
        many.insert(0, (ACK, 2_000));
        assert_eq!(fill(&mut batch, &many), 8);
        assert_eq!(batch.bytes().len(), 7 * 8_000 + 2_000);
    }

    #[test]
    fn without_it_packets_stay_in_order() {
        let mut batch = Batch::new(64);
        assert_eq!(fill(&mut batch, &[(ACK, 20), (WRITE, 100)]), 2);
        assert_eq!(packets(&mut batch), [(ACK, 20)]);
        assert_eq!(batch.begin(), Some(TO));
        assert_eq!(packets(&mut batch), [(WRITE, 100)]);
    }
}
