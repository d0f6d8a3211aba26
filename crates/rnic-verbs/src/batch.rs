//! Batches: packets of one queue pair that one system call can send.

use crate::types::{MAX_MTU, Qpn};
use rnic_wire::{Opcode, Operation, ProtectedHeader};
use std::net::SocketAddr;

/// Packets of one queue pair for its peer, one after the other in one buffer, as Linux's `UDP_SEGMENT` (UDP
/// segmentation offload) expects them.
///
/// All packets have the same length, except that the last packet may be shorter. Each packet ends with four bytes for
/// its ICRC, which the owner of the [`Device`](crate::Device) fills in.
#[derive(Clone, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    len: usize,
    segment: usize,
    count: usize,
    max: usize,
    /// Whether an ACK that is alone in the batch may be sent after longer packets that follow it; see
    /// [`Batch::overtaking()`].
    overtaking: bool,
    to: Option<Destination>,
    /// An ACK that moves to the end of the batch, because the packets after it are longer; empty if there is no such
    /// ACK.
    tail: Vec<u8>,
    /// A packet that is held back for the next batch, because it is longer than the packets of this batch.
    held: Vec<u8>,
    held_for: Option<Destination>,
}

/// The destination of a batch's packets, and the fields of their IP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The local queue pair that sends the packets.
    pub qpn: Qpn,
    /// The peer's IP address and UDP port.
    pub peer: SocketAddr,
    /// Differentiated services code point (DSCP), 0 to 63.
    pub dscp: u8,
    /// Whether the packets carry the ECN codepoint ECT(0), so that switches may CE-mark them.
    pub ecn: bool,
    /// Whether the owner of the device must protect the packets
    /// ([`Connection::protected`](crate::Connection::protected)).
    pub protected: bool,
}

impl Destination {
    /// Number of bytes before each packet for the header of a protected packet.
    fn header(&self) -> usize {
        if self.protected { ProtectedHeader::LEN } else { 0 }
    }
}

impl Batch {
    /// Creates an empty batch for up to `max` packets and 65,000 bytes. Packets stay in the order in which the queue
    /// pair produces them.
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

    /// Creates an empty batch like [`Batch::new`], in which longer packets may overtake an ACK that was alone in the
    /// batch. Without this exception a batch that begins with a short ACK could not take longer packets, so the longer
    /// packets would need a second system call.
    pub fn overtaking(max: usize) -> Batch {
        Batch { overtaking: true, ..Batch::new(max) }
    }

    /// Maximum length of a batch in bytes. The kernel takes a batch as one UDP payload, which has at most 65,507 bytes
    /// over IPv4.
    const BYTES: usize = 65_000;
    /// Maximum length of a packet in bytes: payload, and at most 128 bytes of headers, padding and ICRC.
    const PACKET: usize = MAX_MTU as usize + 128;

    /// The bytes of all packets, one packet after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Iterates over the packets, so that the caller can fill in their ICRCs.
    pub fn packets_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.bytes[..self.len].chunks_mut(self.segment.max(1))
    }

    /// Length in bytes of every packet except the last, which may be shorter.
    pub fn segment(&self) -> usize {
        self.segment
    }

    /// The number of packets in the batch.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The destination of the packets; `None` for an empty batch.
    pub fn destination(&self) -> Option<Destination> {
        self.to
    }

    /// Empties the batch. If the previous batch held a packet back, adds this packet and returns its destination.
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

    /// Drops the packet that is held back for the next batch if it belongs to one of these queue pairs.
    pub(crate) fn forget_held(&mut self, qpns: &[Qpn]) {
        self.held_for = self.held_for.filter(|to| !qpns.contains(&to.qpn));
    }

    /// Whether a packet is held back for the next batch.
    pub(crate) fn holds(&self) -> bool {
        self.held_for.is_some()
    }

    /// The free part of the buffer into which the caller writes the next packet: behind the last packet, and for a
    /// protected connection behind the room for the packet's header. If the last packet of a protected connection is a
    /// little shorter than the others, padding first makes it as long.
    pub(crate) fn room(&mut self, to: &Destination) -> &mut [u8] {
        self.pad();
        &mut self.bytes[self.len + to.header()..]
    }

    /// Makes the last packet of a protected connection as long as the others.
    fn pad(&mut self) {
        let padding = self.shortfall();
        if padding > 0 {
            let last = (self.count - 1) * self.segment;
            self.bytes[self.len - ProtectedHeader::TAG_LEN..self.len + padding].fill(0);
            ProtectedHeader::set_padding(&mut self.bytes[last..], padding);
            self.len += padding;
        }
    }

    /// Bytes by which the last packet is shorter than the others; 0 if all have the same length.
    fn shortfall(&self) -> usize {
        (self.count * self.segment).saturating_sub(self.len)
    }

    /// Whether the last packet is as long as the others, or padding can make it so. Up to a quarter of a packet is a
    /// good price for more packets in the batch.
    fn is_even(&self) -> bool {
        let most = (self.segment / 4).min(ProtectedHeader::MAX_PADDING);
        let shortfall = self.shortfall();
        shortfall == 0 || self.to.is_some_and(|to| to.protected) && shortfall <= most
    }

    /// Adds the packet of `len` bytes that was written into [`Batch::room`]. Returns `false` if the packet is longer
    /// than the others; then the packet is held back for the next batch.
    pub(crate) fn push(&mut self, len: usize, to: Destination) -> bool {
        self.append(len + if to.protected { ProtectedHeader::OVERHEAD } else { 0 }, to)
    }

    /// Adds the `len` bytes behind the last packet as a packet, with header and tag if the connection is protected.
    fn append(&mut self, len: usize, to: Destination) -> bool {
        if to.protected {
            ProtectedHeader::set_padding(&mut self.bytes[self.len..], 0);
        }
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

    /// Whether the batch can take no other packet.
    pub(crate) fn is_closed(&self) -> bool {
        let count = self.count + usize::from(!self.tail.is_empty());
        let len = self.count * self.segment + self.tail.len();
        count >= self.max || self.count > 0 && (!self.is_even() || len + self.segment > Batch::BYTES)
    }

    /// Whether the batch holds exactly one packet, this packet is an ACK or NAK, and longer packets may overtake it.
    fn may_overtake(&self) -> bool {
        self.overtaking
            && self.count == 1
            && self.tail.is_empty()
            && self.to.is_some_and(|to| acknowledges(&self.bytes[to.header()..]))
    }

    /// Ends the batch: appends the ACK that longer packets have overtaken, if any. No packet is added afterwards.
    pub(crate) fn finish(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        if self.is_even() {
            self.pad();
            self.bytes[self.len..self.len + self.tail.len()].copy_from_slice(&self.tail);
            self.len += self.tail.len();
            self.count += 1;
        } else {
            // The last packet is already shorter than the others, so the ACK cannot follow it and is held back. No
            // other packet is held back at this time.
            std::mem::swap(&mut self.held, &mut self.tail);
            self.held_for = self.to;
        }
        self.tail.clear();
    }
}

/// Whether a packet is only an ACK or NAK, without data, so that later packets of the queue pair may overtake it. The
/// function reads the opcode alone; the packet's ICRC need not have been checked.
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
        protected: false,
        ecn: false,
    };
    const ACK: u8 = 0x11;
    const WRITE: u8 = 0x0a;

    /// Adds packets with these opcodes and lengths until the batch is closed; returns the number of packets written,
    /// including a packet that the batch held back.
    fn fill(batch: &mut Batch, packets: &[(u8, usize)]) -> usize {
        let mut taken = 0;
        for (opcode, len) in packets {
            if batch.is_closed() {
                break;
            }
            batch.room(&TO)[..*len].fill(*opcode);
            taken += 1;
            if !batch.append(*len, TO) {
                break;
            }
        }
        batch.finish();
        taken
    }

    /// The first byte (opcode) and the length of each packet in the batch.
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
        // Without other packets the ACK is sent alone.
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
    fn padding_keeps_a_batch_open() {
        let protected = Destination { protected: true, ..TO };
        let mut batch = Batch::new(64);
        // With header and tag 128, 100, 128, 96 and 88 bytes: the last one is more than a quarter shorter than the
        // first.
        for (len, is_closed) in [(100, false), (72, false), (100, false), (68, false), (60, true)] {
            batch.room(&protected)[..len].fill(1);
            assert!(batch.push(len, protected));
            assert_eq!(batch.is_closed(), is_closed, "{len} B");
        }
        batch.finish();
        let packets: Vec<(usize, u16)> =
            batch.packets_mut().map(|packet| (packet.len(), ProtectedHeader::padding_of(packet))).collect();
        assert_eq!(packets, [(128, 0), (128, 28), (128, 0), (128, 32), (88, 0)]);
        // Behind the 72 bytes of the second packet without ICRC are zeros, of which the tag takes the last 16.
        let second = batch.packets_mut().nth(1).map(|packet| packet[16 + 68..].to_vec());
        assert_eq!(second, Some(vec![0; 28 + 16]));
        // Packets that are not protected have no padding.
        for len in [100, 96] {
            batch.begin();
            batch.push(100, TO);
            batch.push(len, TO);
            assert_eq!(batch.is_closed(), len == 96);
        }
    }

    #[test]
    fn a_held_packet_of_a_reset_queue_pair_is_forgotten() {
        for (reset, held) in [(TO.qpn, None), (Qpn(TO.qpn.0 + 1), Some(TO))] {
            let mut batch = Batch::new(64);
            fill(&mut batch, &[(ACK, 20), (WRITE, 100)]);
            assert!(batch.holds());
            batch.forget_held(&[reset]);
            assert_eq!(batch.holds(), held.is_some());
            assert_eq!(batch.begin(), held);
        }
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
