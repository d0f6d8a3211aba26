//! Packets that one system call can send.

use crate::types::{MAX_MTU, Qpn};
use rnic_wire::{Opcode, Operation};
use std::net::SocketAddr;

/// Packets of one queue pair for its peer, one after the other in one buffer, as `UDP_SEGMENT` takes them.
///
/// All packets have the same length, but the last may be shorter. Each ends with four bytes for its ICRC, which the
/// owner fills in.
#[derive(Clone, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    len: usize,
    segment: usize,
    count: usize,
    max: usize,
    /// Packets may overtake a lone ACK.
    overtaking: bool,
    to: Option<Destination>,
    /// An ACK that goes last, because the packets that followed it are longer.
    tail: Vec<u8>,
    /// A packet that was too long for the previous batch.
    held: Vec<u8>,
    held_for: Option<Destination>,
}

/// Where the packets of a batch go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The queue pair that sends them.
    pub qpn: Qpn,
    /// The peer's address.
    pub peer: SocketAddr,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Switches may CE-mark the packets: they carry ECT(0).
    pub ecn: bool,
}

impl Batch {
    /// A batch of up to `max` packets and 65,000 bytes.
    pub fn new(max: usize) -> Batch {
        Batch {
            bytes: vec![0; Batch::BYTES + Batch::PACKET],
            len: 0,
            segment: 0,
            count: 0,
            max: max.max(1),
            overtaking: false,
            to: None,
            tail: Vec::with_capacity(Batch::PACKET),
            held: Vec::with_capacity(Batch::PACKET),
            held_for: None,
        }
    }

    /// The same, but a lone ACK goes after longer packets that follow it, so that one system call sends all of them.
    pub fn overtaking(max: usize) -> Batch {
        Batch { overtaking: true, ..Batch::new(max) }
    }

    /// Maximum bytes of a batch: the UDP payload of an IPv4 packet is at most 65,507.
    const BYTES: usize = 65_000;
    /// Maximum bytes of a packet.
    const PACKET: usize = MAX_MTU as usize + 128;

    /// The packets, one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The packets one by one, for their ICRCs to be filled in.
    pub fn packets_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.bytes[..self.len].chunks_mut(self.segment.max(1))
    }

    /// Length in bytes of every packet but the last.
    pub fn segment(&self) -> usize {
        self.segment
    }

    /// The number of packets.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Where the packets go; `None` for an empty batch.
    pub fn destination(&self) -> Option<Destination> {
        self.to
    }

    /// Empties the batch; then adds the packet that the previous batch held back, if there is one, and returns where it
    /// goes.
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

    /// Whether a packet is held back for the next batch.
    pub(crate) fn holds(&self) -> bool {
        self.held_for.is_some()
    }

    /// The buffer after the last packet, for the next one.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..]
    }

    /// Adds the packet of `len` bytes that was written into [`Batch::room`]; `false` if it is longer than the others,
    /// and held back for the next batch.
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

    /// Whether no other packet fits.
    pub(crate) fn is_closed(&self) -> bool {
        let (count, len) = (self.count + usize::from(!self.tail.is_empty()), self.len + self.tail.len());
        count >= self.max || self.count > 0 && (!self.is_even() || len + self.segment > Batch::BYTES)
    }

    /// Whether the packet in the batch is a lone ACK that may go last.
    fn may_overtake(&self) -> bool {
        self.overtaking && self.count == 1 && self.tail.is_empty() && acknowledges(&self.bytes)
    }

    /// Whether all packets have the same length.
    fn is_even(&self) -> bool {
        self.len.is_multiple_of(self.segment)
    }

    /// Ends the batch: no other packet is added.
    pub(crate) fn finish(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        if self.is_even() {
            self.bytes[self.len..self.len + self.tail.len()].copy_from_slice(&self.tail);
            self.len += self.tail.len();
            self.count += 1;
        } else {
            // The last packet is shorter than the others already, so that the ACK is held back; no other packet is.
            std::mem::swap(&mut self.held, &mut self.tail);
            self.held_for = self.to;
        }
        self.tail.clear();
    }
}

/// Whether a packet is an ACK or NAK and no more, so that later packets may overtake it. Its ICRC need not have been
/// checked.
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

    /// Adds packets of these opcodes and lengths until the batch is closed; returns how many were taken.
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
    fn a_lone_ack_goes_after_longer_packets() {
        let mut batch = Batch::overtaking(64);
        assert_eq!(fill(&mut batch, &[(ACK, 20), (WRITE, 100), (WRITE, 100)]), 3);
        assert_eq!(packets(&mut batch), [(WRITE, 100), (WRITE, 100), (ACK, 20)]);
        assert_eq!((batch.count(), batch.segment(), batch.bytes().len()), (3, 100, 220));
        assert_eq!(batch.begin(), None);
        // Without other packets it is sent alone.
        assert_eq!(fill(&mut batch, &[(ACK, 20)]), 1);
        assert_eq!(packets(&mut batch), [(ACK, 20)]);
    }

    #[test]
    fn an_ack_after_a_short_packet_waits_for_the_next_batch() {
        let mut batch = Batch::overtaking(64);
        assert_eq!(fill(&mut batch, &[(ACK, 20), (WRITE, 100), (WRITE, 50), (WRITE, 50)]), 3);
        assert_eq!(packets(&mut batch), [(WRITE, 100), (WRITE, 50)]);
        assert!(batch.holds());
        assert_eq!(batch.begin(), Some(TO));
        assert_eq!(fill(&mut batch, &[(WRITE, 60)]), 1);
        assert_eq!(packets(&mut batch), [(WRITE, 60), (ACK, 20)]);
    }

    #[test]
    fn packets_overtake_one_ack_and_no_other_packet() {
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
    fn an_overtaken_ack_counts_for_the_size_of_the_batch() {
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
    fn without_overtaking_packets_stay_in_order() {
        let mut batch = Batch::new(64);
        assert_eq!(fill(&mut batch, &[(ACK, 20), (WRITE, 100)]), 2);
        assert_eq!(packets(&mut batch), [(ACK, 20)]);
        assert_eq!(batch.begin(), Some(TO));
        assert_eq!(packets(&mut batch), [(WRITE, 100)]);
    }
}
