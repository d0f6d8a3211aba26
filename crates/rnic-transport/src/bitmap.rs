//! A bitmap of the packets in a sliding window; loss recovery uses it to track arrived or acknowledged packets.

use crate::Psn;
use smallvec::SmallVec;

/// A bitmap with one bit per packet of a sliding window of PSNs.
///
/// The bit of a packet is at index `psn mod capacity`, so no bits move when the window slides. The bitmap of a window
/// of up to 128 packets is stored inline, which suffices for the default bandwidth-delay product of 111 packets. A
/// larger bitmap takes one heap allocation for its whole lifetime.
///
/// ```
/// use rnic_transport::Psn;
/// use rnic_transport::bitmap::BitWindow;
///
/// // Packets 100, 101 and 103 of a window of 64 have arrived.
/// let first = Psn::new(100);
/// let mut arrived = BitWindow::new(64);
/// for offset in [0, 1, 3] {
///     assert!(arrived.set(first.plus(offset)));
/// }
/// assert_eq!(arrived.run_length(first), 2);
/// assert_eq!(arrived.first_clear(first, 64), Some(Psn::new(102)));
/// arrived.clear(first, 2); // the window slides
/// assert_eq!(arrived.count(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct BitWindow {
    words: SmallVec<[u64; 2]>,
    /// Number of set bits.
    set: u32,
}

impl BitWindow {
    /// An all-clear bitmap for a window of `packets` packets, at most [`Psn::MAX_WINDOW`].
    pub fn new(packets: u32) -> BitWindow {
        debug_assert!(packets <= Psn::MAX_WINDOW);
        let words = packets.max(1).next_power_of_two().div_ceil(64) as usize;
        BitWindow { words: SmallVec::from_elem(0, words.max(2)), set: 0 }
    }

    /// Number of bits in the bitmap: a power of two, at least the size of the window in packets.
    pub fn capacity(&self) -> u32 {
        self.words.len() as u32 * 64
    }

    /// The bits, 64 in each word, in the order of `psn mod capacity`; the lowest bit of a word is the first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Number of set bits.
    pub fn count(&self) -> u32 {
        self.set
    }

    #[inline]
    fn locate(&self, psn: Psn) -> (usize, u64) {
        let bit = psn.value() & (self.capacity() - 1);
        ((bit >> 6) as usize, 1 << (bit & 63))
    }

    /// Whether the bit of `psn` is set.
    #[inline]
    pub fn get(&self, psn: Psn) -> bool {
        let (word, mask) = self.locate(psn);
        self.words[word] & mask != 0
    }

    /// Sets the bit of `psn`; returns whether it was clear before.
    #[inline]
    pub fn set(&mut self, psn: Psn) -> bool {
        let (word, mask) = self.locate(psn);
        let new = self.words[word] & mask == 0;
        self.words[word] |= mask;
        self.set += u32::from(new);
        new
    }

    /// Sets the bits of the `count` packets that begin with `first`; returns how many of these bits were clear before.
    pub fn set_run(&mut self, first: Psn, count: u32) -> u32 {
        let before = self.set;
        let mut at = first.value() & (self.capacity() - 1);
        let mut left = count.min(self.capacity());
        while left > 0 {
            let offset = at & 63;
            let span = (64 - offset).min(left);
            let mask = (u64::MAX >> (64 - span)) << offset;
            let word = &mut self.words[(at >> 6) as usize];
            self.set += (!*word & mask).count_ones();
            *word |= mask;
            at = (at + span) & (self.capacity() - 1);
            left -= span;
        }
        self.set - before
    }

    /// Clears the bits of the `count` packets that begin with `first`. The caller must clear the bits of packets that
    /// leave the window, because later packets use the same bits.
    pub fn clear(&mut self, first: Psn, count: u32) {
        if self.set == 0 {
            return;
        }
        let mut at = first.value() & (self.capacity() - 1);
        let mut left = count.min(self.capacity());
        while left > 0 {
            let offset = at & 63;
            let span = (64 - offset).min(left);
            let mask = (u64::MAX >> (64 - span)) << offset;
            let word = &mut self.words[(at >> 6) as usize];
            self.set -= (*word & mask).count_ones();
            *word &= !mask;
            at = (at + span) & (self.capacity() - 1);
            left -= span;
        }
    }

    /// Number of consecutive set bits that begin with `first`.
    pub fn run_length(&self, first: Psn) -> u32 {
        if self.set == 0 {
            return 0;
        }
        self.distance_to(first, self.capacity(), true)
    }

    /// The first packet with a clear bit among the `count` packets that begin with `first`.
    pub fn first_clear(&self, first: Psn, count: u32) -> Option<Psn> {
        if self.set == 0 {
            return (count > 0).then_some(first);
        }
        let run = self.distance_to(first, count.min(self.capacity()), true);
        (run < count).then(|| first.plus(run))
    }

    /// The first packet with a set bit among the `count` packets that begin with `first`.
    pub fn first_set(&self, first: Psn, count: u32) -> Option<Psn> {
        if self.set == 0 {
            return None;
        }
        let run = self.distance_to(first, count.min(self.capacity()), false);
        (run < count.min(self.capacity())).then(|| first.plus(run))
    }

    /// The last packet with a clear bit among the `count` packets that begin with `first`.
    pub fn last_clear(&self, first: Psn, count: u32) -> Option<Psn> {
        let count = count.min(self.capacity());
        let run = self.run_length_below(first.plus(count), count);
        (run < count).then(|| first.plus(count - run - 1))
    }

    /// Number of consecutive set bits that end just before `end`, at most `limit`.
    pub fn run_length_below(&self, end: Psn, limit: u32) -> u32 {
        let limit = limit.min(self.set);
        let mut at = end.value() & (self.capacity() - 1);
        let mut run = 0;
        while run < limit {
            at = at.wrapping_sub(1) & (self.capacity() - 1);
            let offset = at & 63;
            let other = !self.words[(at >> 6) as usize] << (63 - offset);
            let here = other.leading_zeros().min(offset + 1);
            run += here;
            if here <= offset {
                break;
            }
            at -= offset;
        }
        run.min(limit)
    }

    /// Number of consecutive bits equal to `value` that begin with `first`, at most `limit`.
    fn distance_to(&self, first: Psn, limit: u32, value: bool) -> u32 {
        let mut at = first.value() & (self.capacity() - 1);
        let mut run = 0;
        while run < limit {
            let offset = at & 63;
            let word = self.words[(at >> 6) as usize];
            let other = (if value { !word } else { word }) >> offset;
            let here = other.trailing_zeros().min(64 - offset);
            run += here;
            if here < 64 - offset {
                break;
            }
            at = (at + here) & (self.capacity() - 1);
        }
        run.min(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn capacity_covers_any_bandwidth_delay_product() {
        assert_eq!(BitWindow::new(111).capacity(), 128);
        assert_eq!(BitWindow::new(128).capacity(), 128);
        assert_eq!(BitWindow::new(2_210).capacity(), 4_096); // 800 Gbps, 24 us, 1 KB
        assert!(!BitWindow::new(111).words.spilled());
    }

    #[test]
    fn a_run_across_the_sequence_wrap() {
        let mut window = BitWindow::new(128);
        let first = Psn::new(Psn::MODULUS - 3);
        for offset in 0..7 {
            assert!(window.set(first.plus(offset)));
        }
        assert!(!window.set(first));
        assert_eq!(window.run_length(first), 7);
        assert_eq!(window.first_clear(first, 10), Some(Psn::new(4)));
        assert_eq!(window.first_clear(first, 7), None);
        window.clear(first, 5);
        assert_eq!(window.count(), 2);
    }

    proptest! {
        /// After any sequence of operations the bitmap agrees with a set of absolute packet numbers.
        #[test]
        fn agrees_with_a_set(
            start in 0..Psn::MODULUS, size in 1u32..3_000,
            steps in prop::collection::vec((0u32..3_000, 0u32..400), 1..200),
        ) {
            let mut window = BitWindow::new(size);
            let capacity = window.capacity();
            let mut base = 0u64; // absolute number of the window's first packet
            let mut model = BTreeSet::new();
            let psn = |absolute: u64| Psn::new(start.wrapping_add(absolute as u32));
            for (offset, slide) in steps {
                let absolute = base + u64::from(offset % capacity);
                prop_assert_eq!(window.set(psn(absolute)), model.insert(absolute));
                let run = (base..).take_while(|n| model.contains(n)).count() as u32;
                prop_assert_eq!(window.run_length(psn(base)), run.min(capacity));
                let hole = (base..base + u64::from(capacity)).find(|n| !model.contains(n));
                prop_assert_eq!(window.first_clear(psn(base), capacity), hole.map(psn));
                let set = (base..base + u64::from(capacity)).find(|n| model.contains(n));
                prop_assert_eq!(window.first_set(psn(base), capacity), set.map(psn));
                let within = 1 + slide.min(capacity - 1);
                let last = (base..base + u64::from(within)).rev().find(|n| !model.contains(n));
                prop_assert_eq!(window.last_clear(psn(base), within), last.map(psn));
                let below = (base..absolute).rev().take_while(|n| model.contains(n)).count() as u32;
                prop_assert_eq!(window.run_length_below(psn(absolute), (absolute - base) as u32), below);
                prop_assert_eq!(window.run_length_below(psn(absolute), below / 2), below / 2);
                let run = slide.min(capacity - offset % capacity);
                let before = model.len();
                model.extend(absolute..absolute + u64::from(run));
                prop_assert_eq!(window.set_run(psn(absolute), run) as usize, model.len() - before);
                prop_assert_eq!(window.count() as usize, model.len());
                window.clear(psn(base), slide);
                model = model.split_off(&(base + u64::from(slide)));
                base += u64::from(slide);
                prop_assert_eq!(window.count() as usize, model.len());
            }
        }
    }
}
