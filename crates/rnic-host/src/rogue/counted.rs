//! Loss recovery over unreliable connections (UC), which neither acknowledge nor retransmit.
//!
//! The source states that RoGUE supports UC, but not how. So this is a reconstruction. Every part is a Write with
//! Immediate, because the responder's software sees no other Write. The immediate data is the part's *mark*: its number
//! modulo 2,048, so that the responder detects a lost part as soon as the next part arrives. Such a Write consumes a
//! receive and no buffer, so both layers keep [`PARTS`] receives without buffers posted, and no more parts are
//! outstanding.
//!
//! - The responder acknowledges a part that asks for it, over the control connection, with the number of parts that it
//!   has accepted. The requester requests an acknowledgement where it would request a completion of an RC queue pair:
//!   once per chunk. The acknowledgement completes the parts before it.
//! - A part whose number is not the next one shows a loss. The responder then leaves the epoch, as if its queue pair
//!   had failed: the shadow takes over, and the requester replays the parts that the responder has not accepted.
//! - A requester that gets no acknowledgement for some round-trip times sends a probe. A responder that lacks a part
//!   before the number in the probe leaves the epoch.
//!
//! The responder counts every part. So the outcome of a part is never unknown, as it may be over RC: a part that the
//! responder has not accepted is replayed, and the responder has not reported its message.
//!
//! The application's immediate data has 32 bits and the mark has room for 16 of them. The upper half, unless it is 0,
//! is sent before, in an empty part.
//!
//! A UC responder accepts every packet that begins a message, unless its PSN is before the expected PSN. So a queue
//! pair that was reset continues with the PSN after its last one, and the responder drops a late packet from before the
//! reset as a duplicate.

use super::queue::Part;
use rnic_transport::{Psn, Time};
use rnic_verbs::SendOp;
use std::collections::VecDeque;

/// Maximum number of outstanding parts of an end, and number of receives that its peer keeps posted.
pub(super) const PARTS: u32 = 512;
/// Part numbers in marks are modulo this number, which is more than twice [`PARTS`].
const NUMBERS: u64 = 2_048;
const ASKS: u32 = 1 << 11;
const KIND: u32 = 12;

/// What a part means to the responder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    /// Bytes of a Write, and nothing else.
    Bytes,
    /// The upper half of the immediate data of the next message.
    UpperHalf(u16),
    /// The last part of a Write with Immediate, with the lower half of its immediate data.
    Message(u16),
}

/// The immediate data of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// Number of the part modulo [`NUMBERS`].
    number: u16,
    /// Whether the requester asks for an acknowledgement.
    pub(super) asks: bool,
    pub(super) meaning: Meaning,
}

impl Mark {
    fn to_imm(self) -> u32 {
        let (kind, half) = match self.meaning {
            Meaning::Bytes => (0, 0),
            Meaning::UpperHalf(half) => (1, half),
            Meaning::Message(half) => (2, half),
        };
        u32::from(self.number) | if self.asks { ASKS } else { 0 } | kind << KIND | u32::from(half) << 16
    }

    /// Returns `None` for bits that no layer writes.
    fn from_imm(imm: u32) -> Option<Mark> {
        let half = (imm >> 16) as u16;
        let meaning = match imm >> KIND & 0xf {
            0 if half == 0 => Meaning::Bytes,
            1 => Meaning::UpperHalf(half),
            2 => Meaning::Message(half),
            _ => return None,
        };
        Some(Mark { number: (imm as u64 % NUMBERS) as u16, asks: imm & ASKS != 0, meaning })
    }
}

/// The operation of a part of a request with the operation `op`; `None` if UC does not support it.
pub(super) fn part_op(op: SendOp, part: &Part, asks: bool) -> Option<SendOp> {
    let (addr, rkey, imm) = match op {
        SendOp::Write { addr, rkey } => (addr, rkey, None),
        SendOp::WriteImm { addr, rkey, imm } => (addr, rkey, Some(imm)),
        _ => return None,
    };
    let meaning = match imm {
        Some(imm) if part.is_upper_half => Meaning::UpperHalf((imm >> 16) as u16),
        Some(imm) if part.is_last => Meaning::Message(imm as u16),
        _ => Meaning::Bytes,
    };
    let mark = Mark { number: (part.number % NUMBERS) as u16, asks, meaning };
    Some(SendOp::WriteImm { addr: addr + part.offset, rkey, imm: mark.to_imm() })
}

/// First PSN of a queue pair's present connection, and the PSN after the last one that the connection has used.
#[derive(Clone, Copy, Default, Debug)]
struct Psns {
    first: u32,
    next: u32,
}

/// State of a channel over UC.
#[derive(Default, Debug)]
pub(super) struct Counted {
    own: [Psns; 2],
    /// First PSNs of the peer's queue pairs when they are connected next.
    peer: [u32; 2],
    /// Number of receives that the primary has.
    pub(super) posted: u32,
    /// Parts that have arrived in order and are not accepted, because a message among them waits for a receive of the
    /// application. At most [`PARTS`], because each holds a receive of the NIC.
    arrived: VecDeque<Mark>,
    /// Number of parts accepted in all epochs.
    pub(super) accepted: u64,
    /// The upper half of the next message's immediate data.
    upper_half: u16,
    /// Whether a part of this epoch is missing; then later ones are ignored.
    pub(super) is_missing: bool,
    /// The time of the latest acknowledgement or probe, and the number of probes since the latest acknowledgement.
    pub(super) answered: Time,
    pub(super) probes: u8,
}

impl Counted {
    /// Both sides have computed the first PSNs of both queue pairs.
    pub(super) fn meet(&mut self, slot: usize, own: u32, peer: u32) {
        (self.own[slot], self.peer[slot]) = (Psns { first: own, next: own }, peer);
    }

    /// First PSNs, own and peer's, of a queue pair that is connected now.
    pub(super) fn connect(&mut self, slot: usize) -> (u32, u32) {
        self.own[slot].first = self.own[slot].next;
        (self.own[slot].first, self.peer[slot])
    }

    /// A part of this number of packets was posted to a queue pair.
    pub(super) fn sent(&mut self, slot: usize, packets: u32) {
        let next = &mut self.own[slot].next;
        *next = Psn::new(*next).plus(packets).value();
    }

    /// The PSNs to announce at the beginning of an epoch: the first PSN of this epoch's queue pair, and the first PSN
    /// with which the dead queue pair will be connected again.
    pub(super) fn announced(&self, epoch: u32) -> [u32; 2] {
        [0, 1].map(|slot| if slot == epoch as usize % 2 { self.own[slot].first } else { self.own[slot].next })
    }

    pub(super) fn learn(&mut self, psns: [u32; 2]) {
        self.peer = psns;
    }

    /// The old primary is drained: what was not accepted will be replayed.
    pub(super) fn switch(&mut self, now: Time) {
        self.arrived.clear();
        (self.posted, self.is_missing) = (0, false);
        self.answer_at(now);
    }

    pub(super) fn answer_at(&mut self, now: Time) {
        (self.answered, self.probes) = (now, 0);
    }

    /// Handles a part that arrived. The result is whether all parts before it have arrived, too; as soon as a part is
    /// missing, the result is false for the rest of the epoch.
    pub(super) fn arrive(&mut self, imm: Option<u32>) -> bool {
        let expected = (self.arrived_to() % NUMBERS) as u16;
        match imm.and_then(Mark::from_imm).filter(|mark| mark.number == expected && !self.is_missing) {
            Some(mark) => self.arrived.push_back(mark),
            None => self.is_missing = true,
        }
        !self.is_missing
    }

    /// Number of parts that have arrived in order in all epochs.
    pub(super) fn arrived_to(&self) -> u64 {
        self.accepted + self.arrived.len() as u64
    }

    /// Accepts the next part, if it needs no receive of the application or `has_receive`. Returns its mark, and the
    /// immediate data of the message that it completes.
    pub(super) fn accept(&mut self, has_receive: bool) -> Option<(Mark, Option<u32>)> {
        let mark = *self.arrived.front()?;
        let message = match mark.meaning {
            Meaning::Bytes => None,
            Meaning::UpperHalf(half) => {
                self.upper_half = half;
                None
            }
            Meaning::Message(_) if !has_receive => return None,
            Meaning::Message(half) => Some(u32::from(std::mem::take(&mut self.upper_half)) << 16 | u32::from(half)),
        };
        self.arrived.pop_front();
        self.accepted += 1;
        Some((mark, message))
    }
}

/// The number at or above `base` whose low 32 bits are `low`.
pub(super) fn widen(base: u64, low: u32) -> u64 {
    base + u64::from(low.wrapping_sub(base as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_were_written() {
        for meaning in [Meaning::Bytes, Meaning::UpperHalf(0xfedc), Meaning::Message(0), Meaning::Message(0xffff)] {
            for (number, asks) in [(0, false), (2_047, true), (1_024, true)] {
                let mark = Mark { number, asks, meaning };
                assert_eq!(Mark::from_imm(mark.to_imm()), Some(mark));
            }
        }
        for imm in [0x3000, 0x8000, 0xf000, 0x1_0000] {
            assert_eq!(Mark::from_imm(imm), None, "{imm:#x}");
        }
    }

    fn imm(number: u16, meaning: Meaning) -> Option<u32> {
        Some(Mark { number, asks: false, meaning }.to_imm())
    }

    /// Parts 0 to 3 are Bytes, UpperHalf, Message, Bytes; part 4 is lost.
    #[test]
    fn a_missing_part_ends_the_counting() {
        let mut counted = Counted::default();
        for (number, meaning) in
            [Meaning::Bytes, Meaning::UpperHalf(7), Meaning::Message(9), Meaning::Bytes].into_iter().enumerate()
        {
            assert!(counted.arrive(imm(number as u16, meaning)));
        }
        assert_eq!(counted.accept(false).map(|(_, message)| message), Some(None));
        assert_eq!(counted.accept(false).map(|(_, message)| message), Some(None));
        assert_eq!(counted.accept(false), None, "the message waits for a receive");
        assert_eq!((counted.accepted, counted.arrived_to()), (2, 4));
        assert_eq!(counted.accept(true).map(|(_, message)| message), Some(Some(0x7_0009)));
        assert!(!counted.arrive(imm(5, Meaning::Bytes)));
        assert!(!counted.arrive(imm(4, Meaning::Bytes)), "late, and of an epoch that has ended");
        // The next epoch begins with the first part that was not accepted.
        counted.switch(Time::ZERO);
        assert_eq!((counted.accepted, counted.arrived_to()), (3, 3));
        assert!(counted.arrive(imm(3, Meaning::Bytes)));
        assert!(!counted.arrive(None), "a message without immediate data is none of the layer's");
    }

    #[test]
    fn a_reset_queue_pair_continues_behind_its_last_psn() {
        let mut counted = Counted::default();
        counted.meet(0, Psn::MODULUS - 10, 77);
        counted.meet(1, 500, 88);
        assert_eq!((counted.connect(0), counted.connect(1)), ((Psn::MODULUS - 10, 77), (500, 88)));
        counted.sent(0, 64);
        assert_eq!(counted.announced(1), [54, 500], "of the dead one the next PSN, of the new one the first");
        counted.sent(1, 3);
        assert_eq!(counted.announced(1), [54, 500]);
        counted.learn([90, 88]);
        assert_eq!(counted.connect(0), (54, 90));
    }

    #[test]
    fn a_count_is_widened() {
        assert_eq!(widen(0x1_ffff_fff0, 5), 0x2_0000_0005);
        assert_eq!(widen(7, 7), 7);
    }
}
