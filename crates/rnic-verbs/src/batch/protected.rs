//! Batches of a protected connection, whose datagrams hold one or more packets.
//!
//! Short packets share a datagram: they need one header, one tag and one computation of it together. Datagrams of a
//! batch have equal lengths, so a datagram that is a little shorter than the others ends with zeros.

use super::{Batch, Destination};
use rnic_wire::{ICRC_LEN, ProtectedHeader};

const HEADER: usize = ProtectedHeader::LEN;
const LENGTH: usize = ProtectedHeader::LENGTH_LEN;
const TAG: usize = ProtectedHeader::TAG_LEN;
/// Maximum length of an ACK that longer packets may overtake. It always fits into a batch after them.
const SHORT: usize = 32;

/// Length of a datagram with one packet of `len` bytes without ICRC.
const fn around(len: usize) -> usize {
    HEADER + LENGTH + len + TAG
}

impl Batch {
    /// Where the next packet is written: into the open datagram if a packet as long as the last one fits there, or else
    /// into a new datagram. The first datagram determines the length of the others, so it is left open until it is
    /// nearly full.
    pub(super) fn place(&mut self) -> usize {
        if let Some(start) = self.open {
            let limit = self.limit(start);
            let is_full = match start {
                0 => !self.has_most() && self.len + TAG > limit - limit / 8,
                _ => !self.fits(start, self.last),
            };
            if is_full {
                self.close(start);
            }
        }
        self.len + LENGTH + if self.open.is_some() { 0 } else { HEADER }
    }

    /// Adds the packet of `len` bytes without ICRC that was written at [`Batch::place`].
    pub(super) fn enclose(&mut self, len: usize, to: Destination) -> bool {
        if self.packets == 0 {
            self.to = Some(to);
        }
        let mut at = self.len + LENGTH + if self.open.is_some() { 0 } else { HEADER };
        if let Some(start) = self.open
            && !self.fits(start, len)
        {
            if self.segment == 0 && self.max > 1 && self.last <= SHORT && self.is_lone_ack(start + HEADER + LENGTH) {
                self.tail.extend_from_slice(&self.bytes[start + HEADER + LENGTH..self.len]);
                self.bytes.copy_within(at..at + len, HEADER + LENGTH);
                (self.len, self.open, self.packets, self.datagrams) = (0, None, 0, 0);
            } else if !self.has_most() && self.is_worth_padding(start) && self.end(start) + around(len) <= Batch::BYTES
            {
                // The packet moves behind the rest of this datagram.
                let behind = self.end(start) + HEADER + LENGTH;
                self.bytes.copy_within(at..at + len, behind);
                self.close(start);
            } else {
                self.hold(at, len + ICRC_LEN, to);
                return false;
            }
            at = self.len + HEADER + LENGTH;
        }
        if self.open.is_none() {
            if self.segment > 0 && around(len) > self.segment {
                self.hold(at, len + ICRC_LEN, to);
                return false;
            }
            self.open = Some(self.len);
            self.datagrams += 1;
            self.len += HEADER;
        }
        self.bytes[self.len..self.len + LENGTH].copy_from_slice(&ProtectedHeader::length(len));
        self.len += LENGTH + len;
        self.packets += 1;
        self.last = len;
        true
    }

    /// Maximum length of the datagram that begins at `start`: that of the first datagram, which ends the choice.
    fn limit(&self, start: usize) -> usize {
        match (start, self.segment) {
            (0, _) | (_, 0) => self.to.map_or(0, |to| to.longest),
            (_, segment) => segment,
        }
    }

    /// Whether a packet of `len` bytes without ICRC fits into the open datagram that begins at `start`.
    fn fits(&self, start: usize, len: usize) -> bool {
        self.len - start + LENGTH + len + TAG <= self.limit(start)
    }

    /// Whether the open datagram that begins at `start` may be filled with zeros to the length of the others. Up to a
    /// quarter of a datagram is a good price for more packets in the batch. The first datagram needs no zeros.
    fn is_worth_padding(&self, start: usize) -> bool {
        start == 0 || self.segment - (self.len - start + TAG) <= self.segment / 4
    }

    /// Whether the batch whose open datagram begins at `start` can take another packet as long as the last one.
    pub(super) fn is_roomy(&self, start: usize) -> bool {
        self.fits(start, self.last)
            || !self.has_most()
                && self.is_worth_padding(start)
                && 2 * self.end(start) - start + self.tail.len() <= Batch::BYTES
    }

    /// The end of the open datagram that begins at `start`, if other datagrams follow it.
    fn end(&self, start: usize) -> usize {
        if start == 0 { self.len + TAG } else { start + self.segment }
    }

    /// Ends the open datagram that begins at `start`, with zeros up to the length of the others. The first datagram
    /// determines this length.
    fn close(&mut self, start: usize) {
        let end = self.end(start);
        self.bytes[self.len..end].fill(0);
        self.len = end;
        self.segment = end - start;
        self.open = None;
    }

    /// Ends the batch: adds the ACK that longer packets have overtaken, and ends the open datagram.
    pub(super) fn finish_protected(&mut self) {
        let Some(to) = self.to else { return };
        if !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            self.last = tail.len();
            let at = self.place();
            self.bytes[at..at + tail.len()].copy_from_slice(&tail);
            // If the batch cannot take it, the ACK is held back.
            self.enclose(tail.len(), to);
            self.tail = tail;
        }
        if let Some(start) = self.open.take() {
            self.bytes[self.len..self.len + TAG].fill(0);
            self.len += TAG;
            if start == 0 {
                self.segment = self.len;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ACK, TO as PLAIN, WRITE, fill_for};
    use super::*;

    const TO: Destination = Destination { protected: true, longest: 236, ..PLAIN };

    /// Adds packets as [`fill_for`], with lengths without ICRC.
    fn fill(batch: &mut Batch, packets: &[(u8, usize)]) -> usize {
        let packets: Vec<_> = packets.iter().map(|(opcode, len)| (*opcode, len + ICRC_LEN)).collect();
        fill_for(batch, TO, &packets)
    }

    /// The length of each datagram, and the opcode and length of each packet in it.
    fn datagrams(batch: &mut Batch) -> Vec<(usize, Vec<(u8, usize)>)> {
        let inside = |bytes: &[u8]| {
            let inside = ProtectedHeader::packets(&bytes[HEADER..bytes.len() - TAG + ICRC_LEN]);
            inside.map(|packet| (packet[0], packet.len() - ICRC_LEN)).collect()
        };
        batch.datagrams_mut().map(|bytes| (bytes.len(), inside(bytes))).collect()
    }

    #[test]
    fn short_packets_share_a_datagram() {
        // Header and tag take 32 of the 236 bytes; three packets take 3 times 4 + 60 of the others, a fourth is 60
        // long.
        let mut batch = Batch::overtaking(64);
        assert_eq!(fill(&mut batch, &[(WRITE, 60); 5]), 5);
        let [three, two] = [3, 2].map(|count| vec![(WRITE, 60); count]);
        assert_eq!(datagrams(&mut batch), [(224, three), (160, two)]);
        assert_eq!((batch.count(), batch.segment(), batch.bytes().len()), (2, 224, 384));
        assert_eq!(batch.begin(), None);
        // An acknowledgement and a message.
        assert_eq!(fill(&mut batch, &[(ACK, 20), (WRITE, 100)]), 2);
        assert_eq!(datagrams(&mut batch), [(32 + 24 + 104, vec![(ACK, 20), (WRITE, 100)])]);
        batch.begin();
        assert!(batch.is_empty() && !batch.is_closed());
    }

    #[test]
    fn datagrams_that_are_a_little_shorter_end_with_zeros() {
        let mut batch = Batch::overtaking(64);
        batch.bytes.fill(0xff);
        // 236, 208 and 200 bytes.
        let lens = [200, 172, 164, 200].map(|len| (WRITE, len));
        assert_eq!(fill(&mut batch, &lens), 4);
        let expected = lens.map(|(opcode, len)| (236, vec![(opcode, len)]));
        assert_eq!(datagrams(&mut batch), expected);
        let second = batch.datagrams_mut().nth(1).unwrap();
        assert_eq!(second[HEADER + LENGTH + 172..], [0; 28 + TAG]);
        // One that is shorter by more than a quarter ends the batch.
        batch.begin();
        assert_eq!(fill(&mut batch, &[(WRITE, 200), (WRITE, 140), (WRITE, 140)]), 2);
        assert_eq!(datagrams(&mut batch), [(236, vec![(WRITE, 200)]), (176, vec![(WRITE, 140)])]);
    }

    #[test]
    fn a_packet_that_does_not_fit_opens_a_datagram_or_waits() {
        let mut batch = Batch::overtaking(64);
        // The fourth packet does not fit behind the third, which was as short as the second.
        assert_eq!(fill(&mut batch, &[(WRITE, 100), (WRITE, 60), (WRITE, 20), (WRITE, 100)]), 4);
        let first = vec![(WRITE, 100), (WRITE, 60), (WRITE, 20)];
        assert_eq!(datagrams(&mut batch), [(32 + 104 + 64 + 24, first), (136, vec![(WRITE, 100)])]);
        batch.begin();
        // The third packet is longer than the first datagram.
        assert_eq!(fill(&mut batch, &[(WRITE, 60), (WRITE, 60), (WRITE, 200)]), 3);
        assert_eq!(datagrams(&mut batch), [(160, vec![(WRITE, 60), (WRITE, 60)])]);
        assert!(batch.holds());
        assert_eq!(batch.begin(), Some(TO));
        assert_eq!(fill(&mut batch, &[(WRITE, 200)]), 1);
        assert_eq!(datagrams(&mut batch), [(236, vec![(WRITE, 200)]), (236, vec![(WRITE, 200)])]);
    }

    #[test]
    fn a_lone_ack_goes_after_packets_that_leave_it_no_room() {
        let mut batch = Batch::overtaking(64);
        assert_eq!(fill(&mut batch, &[(ACK, 20), (WRITE, 200), (WRITE, 200)]), 3);
        let expected = [(236, vec![(WRITE, 200)]), (236, vec![(WRITE, 200)]), (56, vec![(ACK, 20)])];
        assert_eq!(datagrams(&mut batch), expected);
        batch.begin();
        assert_eq!(fill(&mut batch, &[(ACK, 20), (WRITE, 200), (WRITE, 120), (WRITE, 120)]), 3);
        assert_eq!(datagrams(&mut batch), [(236, vec![(WRITE, 200)]), (180, vec![(WRITE, 120), (ACK, 20)])]);
        let mut batch = Batch::new(64);
        assert_eq!(fill(&mut batch, &[(ACK, 20), (WRITE, 200)]), 2);
        assert_eq!(datagrams(&mut batch), [(56, vec![(ACK, 20)])]);
        assert!(batch.holds());
    }

    /// Whatever packets come: all arrive in order but for lone ACKs, no datagram is too long, and the kernel takes the
    /// batch.
    #[test]
    fn random_packets_are_all_sent() {
        use rand_core::{Rng, SeedableRng};
        let mut rng = chacha20::ChaCha20Rng::seed_from_u64(11);
        for _ in 0..2_000 {
            let longest = 300 + 4 * (rng.next_u32() % 2_200) as usize;
            let to = Destination { longest, ..TO };
            let most_datagrams = 1 + (rng.next_u32() % 64) as usize;
            let mut batch = Batch::overtaking(most_datagrams);
            let most = [20, 80, longest - 60][rng.next_u32() as usize % 3];
            let mut sent = Vec::new();
            let mut seen = Vec::new();
            for round in 0..6 {
                batch.begin();
                while round < 5 && !batch.is_closed() {
                    let len = 12 + 4 * (rng.next_u32() as usize % (most / 4 + 1));
                    let [_, a, b, c] = rng.next_u32().to_be_bytes();
                    let tag = [if a < 64 { ACK } else { WRITE }, a, b, c];
                    batch.room(&to)[..len].fill(0);
                    batch.room(&to)[..4].copy_from_slice(&tag);
                    sent.push((tag.to_vec(), len));
                    if !batch.push(len + ICRC_LEN, to) {
                        break;
                    }
                }
                batch.finish();
                assert!(batch.bytes().len() <= 65_507 && batch.segment() <= longest && batch.count() <= most_datagrams);
                assert_eq!(batch.count(), batch.datagrams_mut().count());
                for datagram in batch.datagrams_mut() {
                    let end = datagram.len() - TAG + ICRC_LEN;
                    let packets = ProtectedHeader::packets(&datagram[HEADER..end]);
                    seen.extend(packets.map(|packet| (packet[..4].to_vec(), packet.len() - ICRC_LEN)));
                }
            }
            let others = |packets: &[(Vec<u8>, usize)]| {
                packets.iter().filter(|(tag, _)| tag[0] == WRITE).cloned().collect::<Vec<_>>()
            };
            assert_eq!(others(&sent), others(&seen));
            sent.sort();
            seen.sort();
            assert_eq!(sent, seen);
        }
    }
}
