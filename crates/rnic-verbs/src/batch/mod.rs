//! Batches: packets of one queue pair to one peer that one system call can send.

mod protected;

use crate::types::{MAX_MTU, Qpn};
use rnic_wire::{ICRC_LEN, Opcode, Operation};
use std::net::SocketAddr;
use std::slice::Chunks;

/// Datagrams of one queue pair for its peer, one after the other in one buffer, as Linux's `UDP_SEGMENT` (UDP
/// segmentation offload) expects them. All datagrams have the same length, except that the last may be shorter.
///
/// Each datagram is one packet, which ends with four bytes for its ICRC. On a protected connection a datagram holds one
/// or more packets between a header and a tag ([`rnic_wire::ProtectedHeader`]). The owner of the
/// [`Device`](crate::Device) fills in ICRCs, headers and tags.
#[derive(Clone, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    len: usize,
    segment: usize,
    /// Number of packets.
    packets: usize,
    datagrams: usize,
    max: usize,
    /// Maximum number of packets on a protected connection.
    enclosed: usize,
    /// On a protected connection, where the last datagram begins if it can take more packets.
    open: Option<usize>,
    /// Length of the last packet, without its ICRC on a protected connection.
    last: usize,
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

/// Maximum bytes around the payload of a packet: its headers and its ICRC.
pub const AROUND_PAYLOAD: usize = Opcode::IRN_WRITE_LAST_IMM.header_len() + ICRC_LEN;

/// The destination of a batch's packets, and the fields of their IP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The local queue pair that sends the packets.
    pub qpn: Qpn,
    /// Hash by which the owner of the device chooses the UDP source port: the QPN of a connected queue pair, the flow
    /// label of a datagram.
    pub flow: u32,
    /// The peer's IP address and UDP port.
    pub peer: SocketAddr,
    /// Differentiated services code point (DSCP), 0 to 63.
    pub dscp: u8,
    /// Whether the packets carry the ECN codepoint ECT(0), so that switches may CE-mark them.
    pub ecn: bool,
    /// Whether the owner of the device must protect the packets
    /// ([`Connection::protected`](crate::Connection::protected)).
    pub protected: bool,
    /// Maximum length of a datagram, in bytes of UDP payload.
    pub longest: usize,
}

impl Batch {
    /// Creates an empty batch for up to `max` datagrams and 65,000 bytes. Packets stay in the order in which the queue
    /// pair produces them.
    pub fn new(max: usize) -> Batch {
        Batch {
            bytes: vec![0; Batch::BYTES + Batch::PACKET],
            len: 0,
            segment: 0,
            packets: 0,
            datagrams: 0,
            max: max.max(1),
            enclosed: Batch::ENCLOSED,
            open: None,
            last: 0,
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
    /// Maximum number of packets of a protected batch while only one queue pair has packets to send. With larger
    /// batches the peer would wait for longer than the saved system calls take.
    const ENCLOSED: usize = 64;
    /// The same while other queue pairs have packets, too: the peer is busy with theirs.
    const ENCLOSED_OF_MANY: usize = 128;
    /// Maximum length of a packet in bytes: payload, and at most 128 bytes of headers, padding and ICRC.
    const PACKET: usize = MAX_MTU as usize + 128;

    /// The bytes of all datagrams, one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Iterates over the datagrams, so that the caller can fill in their ICRCs, or headers and tags.
    pub fn datagrams_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.bytes[..self.len].chunks_mut(self.segment.max(1))
    }

    /// Length in bytes of every datagram except the last, which may be shorter.
    pub fn segment(&self) -> usize {
        self.segment
    }

    /// The number of datagrams in the batch.
    pub fn count(&self) -> usize {
        self.datagrams
    }

    /// The destination of the datagrams; `None` for an empty batch.
    pub fn destination(&self) -> Option<Destination> {
        self.to
    }

    /// Empties the batch. If the previous batch held a packet back, adds this packet and returns its destination.
    pub(crate) fn begin(&mut self) -> Option<Destination> {
        self.len = 0;
        self.segment = 0;
        self.packets = 0;
        self.datagrams = 0;
        self.open = None;
        self.to = None;
        let to = self.held_for.take()?;
        let held = std::mem::take(&mut self.held);
        self.room(&to)[..held.len()].copy_from_slice(&held);
        self.push(held.len(), to);
        self.held = held;
        Some(to)
    }

    /// Says whether other queue pairs have packets to send, too.
    pub(crate) fn set_alone(&mut self, alone: bool) {
        self.enclosed = if alone { Batch::ENCLOSED } else { Batch::ENCLOSED_OF_MANY };
    }

    /// Drops the packet that is held back for the next batch if it belongs to one of these queue pairs.
    pub(crate) fn forget_held(&mut self, qpns: &[Qpn]) {
        self.held_for = self.held_for.filter(|to| !qpns.contains(&to.qpn));
    }

    /// Whether a packet is held back for the next batch.
    pub(crate) fn holds(&self) -> bool {
        self.held_for.is_some()
    }

    /// Whether the batch has no packet.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// The free part of the buffer into which the caller writes the next packet, with four bytes for its ICRC.
    pub(crate) fn room(&mut self, to: &Destination) -> &mut [u8] {
        let at = if to.protected { self.place() } else { self.len };
        &mut self.bytes[at..]
    }

    /// Adds the packet of `len` bytes that was written into [`Batch::room`]. Returns `false` if the batch cannot take
    /// it; then the packet is held back for the next batch.
    pub(crate) fn push(&mut self, len: usize, to: Destination) -> bool {
        if to.protected { self.enclose(len - ICRC_LEN, to) } else { self.append(len, to) }
    }

    /// Adds the `len` bytes behind the last packet as a packet.
    fn append(&mut self, len: usize, to: Destination) -> bool {
        if self.packets == 0 {
            self.segment = len;
            self.to = Some(to);
        } else if len > self.segment && self.is_lone_ack(0) {
            self.tail.extend_from_slice(&self.bytes[..self.len]);
            self.bytes.copy_within(self.len..self.len + len, 0);
            self.segment = len;
            self.len = len;
            return true;
        } else if len > self.segment {
            self.hold(self.len, len, to);
            return false;
        }
        self.len += len;
        self.packets += 1;
        self.datagrams += 1;
        true
    }

    /// Holds the packet of `len` bytes at position `at` back for the next batch.
    fn hold(&mut self, at: usize, len: usize, to: Destination) {
        self.held.clear();
        self.held.extend_from_slice(&self.bytes[at..at + len]);
        self.held_for = Some(to);
    }

    /// Whether the batch can take no other packet.
    pub(crate) fn is_closed(&self) -> bool {
        match self.open {
            Some(start) => self.packets >= self.enclosed || !self.is_roomy(start),
            None => {
                let is_full = self.len + self.tail.len() + self.segment > Batch::BYTES;
                self.has_most() || self.packets > 0 && (!self.is_even() || is_full)
            }
        }
    }

    /// Whether the batch can take no other datagram.
    fn has_most(&self) -> bool {
        self.datagrams + usize::from(!self.tail.is_empty()) >= self.max
    }

    /// Whether the batch holds exactly one packet, at position `at`, this packet is an ACK or NAK, and longer packets
    /// may overtake it.
    fn is_lone_ack(&self, at: usize) -> bool {
        self.overtaking && self.packets == 1 && self.tail.is_empty() && acknowledges(&self.bytes[at..])
    }

    /// Whether all datagrams have the same length.
    fn is_even(&self) -> bool {
        self.len.is_multiple_of(self.segment)
    }

    /// Ends the batch: appends the ACK that longer packets have overtaken, if any. No packet is added afterwards.
    pub(crate) fn finish(&mut self) {
        if self.to.is_some_and(|to| to.protected) {
            self.finish_protected();
        } else if !self.tail.is_empty() && self.is_even() {
            self.bytes[self.len..self.len + self.tail.len()].copy_from_slice(&self.tail);
            self.len += self.tail.len();
            self.packets += 1;
            self.datagrams += 1;
        } else if !self.tail.is_empty() {
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

/// Splits the packets of a received batch into the ACK that longer packets have overtaken, with its index, and the
/// others in their order. The receiver processes the ACK first.
///
/// A sender lets longer packets overtake an ACK in a batch ([`Batch::overtaking`]). Over a NIC a request never
/// overtakes the ACK before it, and programs rely on it: tgt refuses the response to a message whose Send has not
/// completed. An ACK behind a response to an RDMA Read or an atomic has not been overtaken: before the response it
/// would mean that the response is lost.
pub fn split_overtaken_ack<'a>(mut packets: Chunks<'a, u8>) -> (Option<(usize, &'a [u8])>, Chunks<'a, u8>) {
    let index = packets.len().saturating_sub(1);
    let last = packets.clone().last().filter(|packet| acknowledges(packet));
    let overtaken = last.filter(|_| index > 0 && !packets.clone().any(responds));
    if overtaken.is_some() {
        packets.next_back();
    }
    (overtaken.map(|packet| (index, packet)), packets)
}

/// Whether a packet carries a response to an RDMA Read or an atomic. Requests and ACKs of the queue pair keep their
/// place behind it: the ACK of a later request would mean that the response is lost.
fn responds(packet: &[u8]) -> bool {
    let operation = packet.first().and_then(|opcode| Opcode::from_u8(*opcode)).map(Opcode::operation);
    matches!(operation, Some(Operation::ReadResponse | Operation::AtomicAcknowledge))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const TO: Destination = Destination {
        qpn: Qpn(9),
        flow: 9,
        peer: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1),
        dscp: 0,
        protected: false,
        ecn: false,
        longest: 9_000,
    };
    pub(super) const ACK: u8 = 0x11;
    pub(super) const WRITE: u8 = 0x0a;

    /// Adds packets for `to` with these opcodes and lengths, with ICRC, until the batch is closed; returns the number
    /// of packets written, including a packet that the batch held back.
    pub(super) fn fill_for(batch: &mut Batch, to: Destination, packets: &[(u8, usize)]) -> usize {
        let mut taken = 0;
        for (opcode, len) in packets {
            if batch.is_closed() {
                break;
            }
            batch.room(&to)[..*len].fill(*opcode);
            taken += 1;
            if !batch.push(*len, to) {
                break;
            }
        }
        batch.finish();
        taken
    }

    fn fill(batch: &mut Batch, packets: &[(u8, usize)]) -> usize {
        fill_for(batch, TO, packets)
    }

    /// The first byte (opcode) and the length of each packet in the batch.
    fn packets(batch: &mut Batch) -> Vec<(u8, usize)> {
        batch.datagrams_mut().map(|packet| (packet[0], packet.len())).collect()
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
