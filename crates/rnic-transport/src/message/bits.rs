//! A bitmap with one bit per packet of a message.

use smallvec::{SmallVec, smallvec};

/// A two-level bitmap. Each bit of the summary says whether a word of 64 bits has any set bit, so that the lowest set
/// bit of a long message is found in few steps. The bitmap of a message of up to 64 packets is stored inline.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    words: SmallVec<[u64; 1]>,
    /// Bit w says whether word w is not zero.
    summary: SmallVec<[u64; 1]>,
    /// Number of set bits.
    set: u32,
    /// All words of `summary` before this index are zero.
    low: u32,
}

/// When a bitmap is reset for a shorter message, it keeps the memory of at most this number of 64-bit words.
const KEPT_WORDS: usize = 1_024;

impl Bits {
    /// Clears all bits and changes the length to `bits` bits. Reuses the allocated memory.
    pub(super) fn reset(&mut self, bits: u32) {
        let words = (bits as usize).div_ceil(64);
        if self.words.capacity() > KEPT_WORDS && words <= KEPT_WORDS {
            self.words = smallvec![];
        }
        self.words.clear();
        self.words.resize(words, 0);
        self.summary.clear();
        self.summary.resize(words.div_ceil(64), 0);
        (self.set, self.low) = (0, 0);
    }

    /// Number of set bits.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.set
    }

    /// Whether bit `at` is set.
    #[inline]
    pub(super) fn get(&self, at: u32) -> bool {
        self.words[(at >> 6) as usize] & 1 << (at & 63) != 0
    }

    /// The 64 bits that begin with bit `64 * word`.
    #[inline]
    pub(super) fn word(&self, word: u32) -> u64 {
        self.words[word as usize]
    }

    /// Sets the bits in `mask` of word `word`; returns how many of these bits were clear.
    #[inline]
    pub(super) fn set_mask(&mut self, word: u32, mask: u64) -> u32 {
        if mask == 0 {
            return 0;
        }
        let old = self.words[word as usize];
        self.words[word as usize] = old | mask;
        self.summary[(word >> 6) as usize] |= 1 << (word & 63);
        self.low = self.low.min(word >> 6);
        let new = (mask & !old).count_ones();
        self.set += new;
        new
    }

    /// Clears the bits in `mask` of word `word`.
    #[inline]
    pub(super) fn clear_mask(&mut self, word: u32, mask: u64) {
        let old = self.words[word as usize];
        self.words[word as usize] = old & !mask;
        self.set -= (old & mask).count_ones();
        if old & !mask == 0 {
            self.summary[(word >> 6) as usize] &= !(1 << (word & 63));
        }
    }

    /// Sets bit `at`; returns whether the bit was clear.
    #[inline]
    pub(super) fn set(&mut self, at: u32) -> bool {
        self.set_mask(at >> 6, 1 << (at & 63)) == 1
    }

    /// Clears bit `at`.
    #[inline]
    pub(super) fn clear(&mut self, at: u32) {
        self.clear_mask(at >> 6, 1 << (at & 63));
    }

    /// The index of the lowest set bit.
    #[inline]
    pub(super) fn lowest(&mut self) -> Option<u32> {
        if self.set == 0 {
            return None;
        }
        while self.summary[self.low as usize] == 0 {
            self.low += 1;
        }
        let word = self.low << 6 | self.summary[self.low as usize].trailing_zeros();
        Some(word << 6 | self.words[word as usize].trailing_zeros())
    }

    /// The index of the first clear bit from bit `at` on; `end` if all bits before `end` are set.
    #[inline]
    pub(super) fn first_clear(&self, at: u32, end: u32) -> u32 {
        let mut at = at;
        while at < end {
            let clear = !self.word(at >> 6) >> (at & 63);
            if clear != 0 {
                return end.min(at + clear.trailing_zeros());
            }
            at = (at | 63) + 1;
        }
        end
    }
}

/// Divides the bits from `first` (inclusive) to `end` (exclusive) into words of 64 bits. Returns the index of each
/// word, and a mask of its bits in this range.
pub(super) fn runs(first: u32, end: u32) -> impl Iterator<Item = (u32, u64)> {
    let words = if first < end { first >> 6..((end - 1) >> 6) + 1 } else { 0..0 };
    words.map(move |word| {
        let from = if word == first >> 6 { u64::MAX << (first & 63) } else { u64::MAX };
        let to = if word == (end - 1) >> 6 { u64::MAX >> (63 - ((end - 1) & 63)) } else { u64::MAX };
        (word, from & to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn runs_cover_exactly_their_bits() {
        assert_eq!(runs(5, 5).count(), 0);
        assert!(runs(62, 65).eq([(0, 3 << 62), (1, 1)]));
        assert!(runs(64, 128).eq([(1, u64::MAX)]));
        assert!(runs(1, 3).eq([(0, 6)]));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(size in 1u32..10_000, steps in prop::collection::vec((0u32..10_000, any::<bool>()), 0..300)) {
            let mut bits = Bits::default();
            bits.reset(70_000);
            bits.set(69_999);
            bits.reset(size);
            let mut model = BTreeSet::new();
            for (at, set) in steps {
                let at = at % size;
                if set {
                    prop_assert_eq!(bits.set(at), model.insert(at));
                } else {
                    bits.clear(at);
                    model.remove(&at);
                }
                prop_assert_eq!(bits.get(at), set);
                prop_assert_eq!(bits.count() as usize, model.len());
                prop_assert_eq!(bits.lowest(), model.first().copied());
                let clear = (at..size).find(|other| !model.contains(other)).unwrap_or(size);
                prop_assert_eq!(bits.first_clear(at, size), clear);
            }
        }
    }
}
