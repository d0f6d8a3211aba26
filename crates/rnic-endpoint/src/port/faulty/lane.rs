//! A lane is one direction, sending or receiving, of a port with fault injection. It draws the faults of each datagram
//! and holds back the reordered and delayed datagrams.

use super::{CorruptionKind, FaultCounters, Faults};
use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;
use rnic_transport::Time;
use rnic_transport::random::below;

/// Maximum time for which a reordered datagram waits for later datagrams to overtake it.
const LONGEST_REORDERING: Time = Time::from_ms(1);
/// Maximum number of datagrams that one direction holds back at a time; further datagrams are neither reordered nor
/// delayed.
const MOST_HELD: usize = 1_024;

/// The faults that happen to one datagram.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Fate {
    pub(super) lost: bool,
    pub(super) duplicated: bool,
    /// If the datagram is corrupted: how, and 32 random bits that determine where.
    pub(super) corruption: Option<Corruption>,
    pub(super) hold: Option<Hold>,
}

impl Fate {
    pub(super) const PASSES: Fate = Fate { lost: false, duplicated: false, corruption: None, hold: None };
}

/// How one datagram is corrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Corruption {
    kind: CorruptionKind,
    random: u32,
}

/// When a datagram that is held back (reordered or delayed) is released: at the time `due`, or after datagram number
/// `until` of this direction, whichever comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hold {
    pub(super) due: Time,
    pub(super) until: u64,
}

impl Hold {
    fn over(self, now: Time, passed: u64) -> bool {
        self.due <= now || self.until <= passed
    }
}

/// A datagram that is held back, with the addresses (`meta`) that are needed to deliver it later.
#[derive(Debug)]
pub(super) struct Held<M> {
    pub(super) hold: Hold,
    pub(super) meta: M,
    pub(super) data: Vec<u8>,
}

/// One direction of a port with fault injection: its faults, its random stream and the datagrams it holds back.
#[derive(Debug)]
pub(super) struct Lane<M> {
    pub(super) faults: Faults,
    pub(super) counters: FaultCounters,
    rng: Pcg64Mcg,
    /// The datagrams held back, in the order of their arrival.
    held: Vec<Held<M>>,
    /// Earliest time and lowest datagram number at which a held datagram is released. The two values may belong to
    /// different datagrams. They are [`Time::MAX`] and [`u64::MAX`] if no datagram is held.
    next: Hold,
    /// Empty buffers, kept for reuse to save allocations.
    spare: Vec<Vec<u8>>,
}

const NEVER: Hold = Hold { due: Time::MAX, until: u64::MAX };

impl<M> Lane<M> {
    pub(super) fn new(faults: Faults, seed: u64, direction: u64) -> Lane<M> {
        let state = scramble(scramble(seed) ^ direction);
        let rng = Pcg64Mcg::new(u128::from(state) << 64 | u128::from(scramble(state)));
        Lane { faults, counters: FaultCounters::default(), rng, held: Vec::new(), next: NEVER, spare: Vec::new() }
    }

    /// Draws the faults of the next datagram. It always draws five random numbers, one for each kind of fault. So the
    /// probability of one kind of fault does not affect which datagrams another kind affects.
    pub(super) fn fate(&mut self, now: Time) -> Fate {
        let faults = self.faults;
        let [loss, duplication, corruption, reordering, delay] = [(); 5].map(|()| {
            let bits = self.rng.next_u64();
            ((bits >> 32) as u32, bits as u32)
        });
        let counters = &mut self.counters;
        counters.seen += 1;
        if faults.loss.strikes(loss.0) {
            counters.lost += 1;
            return Fate { lost: true, ..Fate::PASSES };
        }
        let mut fate = Fate { duplicated: faults.duplication.strikes(duplication.0), ..Fate::PASSES };
        counters.duplicated += u64::from(fate.duplicated);
        if faults.corruption.strikes(corruption.0) {
            counters.corrupted += 1;
            fate.corruption = Some(Corruption { kind: faults.corruption_kind, random: corruption.1 });
        }
        if self.held.len() >= MOST_HELD {
            return fate;
        }
        if faults.reordering_depth > 0 && faults.reordering.strikes(reordering.0) {
            counters.reordered += 1;
            let later = 1 + u64::from(reordering.1) % u64::from(faults.reordering_depth);
            fate.hold = Some(Hold { due: now + LONGEST_REORDERING, until: counters.seen + later });
        }
        if faults.longest_delay > Time::ZERO && faults.delay.strikes(delay.0) {
            counters.delayed += 1;
            let span = (u128::from(faults.longest_delay.as_ps()) * (u128::from(delay.1) + 1)) >> 32;
            fate.hold = Some(Hold { due: now + Time::from_ps(span as u64), until: u64::MAX });
        }
        fate
    }

    /// Returns the state of the random stream and the counters, to which [`Lane::rewind`] can return if a datagram is
    /// not sent after all.
    pub(super) fn mark(&self) -> (Pcg64Mcg, FaultCounters) {
        (self.rng.clone(), self.counters)
    }

    /// Restores the state that [`Lane::mark`] returned, as if no faults had been drawn since then.
    pub(super) fn rewind(&mut self, mark: (Pcg64Mcg, FaultCounters)) {
        (self.rng, self.counters) = mark;
    }

    /// The earliest time at which a held datagram is released if no further datagrams pass; [`Time::MAX`] if no
    /// datagram is held.
    pub(super) fn due(&self) -> Time {
        self.next.due
    }

    pub(super) fn holds_nothing(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn hold(&mut self, held: Held<M>) {
        self.next = earliest(self.next, held.hold);
        self.held.push(held);
    }

    /// Whether a held datagram can be released at `now`, or after datagram number `passed`.
    pub(super) fn may_release(&self, now: Time, passed: u64) -> bool {
        !self.held.is_empty() && self.next.over(now, passed)
    }

    /// Removes and returns the next held datagram that can be released at `now`, or after datagram number `passed`.
    pub(super) fn release(&mut self, now: Time, passed: u64) -> Option<Held<M>> {
        if !self.may_release(now, passed) {
            return None;
        }
        let first = self.held.iter().position(|held| held.hold.over(now, passed));
        let held = first.map(|at| self.held.remove(at));
        self.next = self.held.iter().fold(NEVER, |next, held| earliest(next, held.hold));
        held
    }

    /// Copies the bytes of `parts` into a reused or new buffer.
    pub(super) fn copy<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut data = self.spare.pop().unwrap_or_default();
        data.clear();
        parts.for_each(|part| data.extend_from_slice(part));
        data
    }

    /// Keeps a buffer for reuse.
    pub(super) fn recycle(&mut self, data: Vec<u8>) {
        if data.capacity() > 0 && self.spare.len() < MOST_HELD {
            self.spare.push(data);
        }
    }
}

impl Corruption {
    /// Maximum length in bytes of a burst.
    const BURST: usize = 32;
    /// Number of bytes that [`CorruptionKind::Bytes`] changes.
    const BYTES: usize = 8;

    /// Changes at least one bit of `data`, unless it is empty.
    pub(super) fn apply(self, data: &mut [u8]) {
        if data.is_empty() {
            return;
        }
        let mut state = u64::from(self.random);
        let mut next = || {
            state = scramble(state);
            state
        };
        let kind = match self.kind {
            CorruptionKind::Mixed => {
                [CorruptionKind::Bit, CorruptionKind::Burst, CorruptionKind::Bytes][below(next(), 3) as usize]
            }
            kind => kind,
        };
        let index = |bits: u64, end: usize| below(bits, end as u64) as usize;
        match kind {
            CorruptionKind::Bit => flip(data, self.random),
            CorruptionKind::Burst => {
                let len = (2 + index(next(), Corruption::BURST - 1)).min(data.len());
                let start = index(next(), data.len() - len + 1);
                for (at, byte) in data[start..start + len].iter_mut().enumerate() {
                    // The burst has the chosen length only if its first and last byte differ from the sent bytes.
                    let is_end = at == 0 || at + 1 == len;
                    *byte ^= (next() as u8).max(u8::from(is_end));
                }
            }
            CorruptionKind::Bytes | CorruptionKind::Mixed => {
                let first = index(next(), data.len());
                data[first] ^= (next() as u8).max(1);
                for _ in 1..Corruption::BYTES {
                    let (at, byte) = (index(next(), data.len()), next() as u8);
                    // The first corrupted byte must stay different from the sent byte.
                    if at != first {
                        data[at] = byte;
                    }
                }
            }
        }
    }
}

/// Flips one bit of `data`, which 32 random bits select.
fn flip(data: &mut [u8], random: u32) {
    let bits = data.len() as u64 * 8;
    let bit = (u64::from(random) * bits) >> 32;
    data[(bit / 8) as usize] ^= 1 << (bit % 8);
}

fn earliest(a: Hold, b: Hold) -> Hold {
    Hold { due: a.due.min(b.due), until: a.until.min(b.until) }
}

/// The output function of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
const fn scramble(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(due: u64, until: u64, name: u8) -> Held<u8> {
        Held { hold: Hold { due: Time::from_us(due), until }, meta: name, data: vec![name] }
    }

    #[test]
    fn held_datagrams_are_delivered_in_order_when_due_or_passed() {
        let mut lane = Lane::new(Faults::default(), 1, 1);
        lane.hold(held(30, 7, 1));
        lane.hold(held(10, 9, 2));
        lane.hold(held(20, 7, 3));
        assert_eq!(lane.due(), Time::from_us(10));
        assert!(lane.release(Time::from_us(9), 6).is_none());
        assert_eq!(lane.release(Time::from_us(9), 7).map(|h| h.meta), Some(1));
        assert_eq!(lane.release(Time::from_us(9), 7).map(|h| h.meta), Some(3));
        assert!(lane.release(Time::from_us(9), 7).is_none());
        assert_eq!(lane.release(Time::from_us(10), 7).map(|h| h.meta), Some(2));
        assert!(lane.holds_nothing());
        assert_eq!(lane.due(), Time::MAX);
        assert!(lane.release(Time::MAX, u64::MAX).is_none());
    }

    #[test]
    fn a_flip_changes_one_bit_anywhere() {
        for (random, byte, value) in [(0, 0, 1), (u32::MAX, 2, 0x80), (1 << 31, 1, 0x10)] {
            let mut data = [0u8; 3];
            flip(&mut data, random);
            let mut expected = [0u8; 3];
            expected[byte] = value;
            assert_eq!(data, expected);
        }
    }

    #[test]
    fn each_kind_of_corruption_changes_as_many_bytes_as_it_says() {
        const LEN: usize = 1_000;
        let changed = |kind, random| {
            let mut data = [0x5a_u8; LEN];
            Corruption { kind, random }.apply(&mut data);
            (0..LEN).filter(|at| data[*at] != 0x5a).collect::<Vec<_>>()
        };
        let mut seen = [0; 3];
        let (mut longest, mut shortest) = (0, LEN);
        for number in 0..1_000_u32 {
            let random = number.wrapping_mul(0x9e37_79b9);
            assert_eq!(changed(CorruptionKind::Bit, random).len(), 1);
            let burst = changed(CorruptionKind::Burst, random);
            let span = burst[burst.len() - 1] - burst[0] + 1;
            (longest, shortest) = (longest.max(span), shortest.min(span));
            let bytes = changed(CorruptionKind::Bytes, random);
            assert!((1..=8).contains(&bytes.len()), "{bytes:?}");
            assert_eq!(changed(CorruptionKind::Bytes, random), bytes, "the same bits give the same bytes");
            let mixed = changed(CorruptionKind::Mixed, random);
            let span = mixed[mixed.len() - 1] - mixed[0] + 1;
            seen[if mixed.len() == 1 { 0 } else { 1 + usize::from(span > 32) }] += 1;
        }
        assert_eq!((shortest, longest), (2, 32));
        assert!(seen.iter().all(|count| (250..420).contains(count)), "a third each: {seen:?}");
        for kind in CorruptionKind::ALL {
            let mut short = [7];
            Corruption { kind, random: 3 }.apply(&mut short);
            assert_ne!(short, [7], "{kind:?}");
            Corruption { kind, random: 3 }.apply(&mut []);
        }
    }

    #[test]
    fn no_more_than_the_limit_is_held() {
        let always = super::super::Probability::ALWAYS;
        let faults = Faults { delay: always, longest_delay: Time::from_ms(1), ..Faults::default() };
        let mut lane: Lane<u8> = Lane::new(faults, 1, 1);
        for _ in 0..MOST_HELD {
            let hold = lane.fate(Time::ZERO).hold.expect("held");
            assert!(hold.due > Time::ZERO && hold.due <= Time::from_ms(1));
            lane.hold(Held { hold, meta: 0, data: Vec::new() });
        }
        assert_eq!(lane.fate(Time::ZERO), Fate::PASSES);
        assert_eq!(lane.counters.delayed, MOST_HELD as u64);
    }
}
