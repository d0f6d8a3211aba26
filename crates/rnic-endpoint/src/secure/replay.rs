//! The window of received packet numbers, by which a receiver detects that a packet was received before.

/// Bits of one word of the window.
const WORD: u64 = u64::BITS as u64;
/// Number of words: a power of two.
const WORDS: usize = 256;

/// The numbers of received packets. The window stores one bit for each of the last [`ReplayWindow::SIZE`] numbers; all
/// earlier numbers count as received. The words are a ring, in which the window slides a whole word at a time (RFC
/// 6479).
pub struct ReplayWindow {
    /// Bit `n % 64` of word `n / 64 % WORDS` says whether packet `n` was received.
    words: Box<[u64; WORDS]>,
    /// Index of the newest word of the window: the highest received number divided by 64.
    top: u64,
}

impl ReplayWindow {
    /// Minimum number of packet numbers below the highest received number for which the window knows whether the packet
    /// was received. A connection has at most 8,192 packets in flight for each direction of requests.
    pub const SIZE: u64 = (WORDS as u64 - 1) * WORD;

    /// A window of which no packet was received.
    #[expect(clippy::new_without_default, reason = "a window belongs to a connection")]
    pub fn new() -> ReplayWindow {
        ReplayWindow { words: Box::new([0; WORDS]), top: 0 }
    }

    /// Whether packet `number` was not received before.
    pub fn is_new(&self, number: u64) -> bool {
        let word = number / WORD;
        if word > self.top {
            return true;
        }
        self.top - word < WORDS as u64 && self.words[word as usize % WORDS] >> (number % WORD) & 1 == 0
    }

    /// Records that packet `number` was received. The caller has checked [`ReplayWindow::is_new`], and that the packet
    /// is authentic: otherwise a forged number would move the window.
    pub fn insert(&mut self, number: u64) {
        let word = number / WORD;
        let skipped = word.saturating_sub(self.top).min(WORDS as u64);
        for newer in 1..=skipped {
            self.words[(word - skipped + newer) as usize % WORDS] = 0;
        }
        self.top = self.top.max(word);
        self.words[word as usize % WORDS] |= 1 << (number % WORD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_number_is_new_once() {
        let mut window = ReplayWindow::new();
        for number in [0, 5, 1, 63, 64, 10_000, 9_000, 1 << 40, (1 << 40) - ReplayWindow::SIZE] {
            assert!(window.is_new(number), "{number}");
            window.insert(number);
            assert!(!window.is_new(number), "{number}");
        }
        // What lies before the window counts as received.
        assert!(!window.is_new(2) && !window.is_new((1 << 40) - ReplayWindow::SIZE - 64));
        assert!(window.is_new((1 << 40) - 1) && window.is_new(u64::MAX));
        window.insert(u64::MAX);
        assert!(!window.is_new(u64::MAX) && window.is_new(u64::MAX - 1) && !window.is_new(1 << 40));
    }

    proptest! {
        /// Compares the window with a set: no number is new twice, and every number within the window is new the first
        /// time.
        #[test]
        fn it_agrees_with_a_set(steps in prop::collection::vec((0..40_000u64, 0..50_000u64), 1..400)) {
            let (mut window, mut set, mut highest) = (ReplayWindow::new(), BTreeSet::new(), 0u64);
            for (forward, back) in steps {
                let number = (highest + forward).saturating_sub(back);
                let is_new = window.is_new(number);
                prop_assert!(!(is_new && set.contains(&number)));
                if number + ReplayWindow::SIZE >= highest {
                    prop_assert_eq!(is_new, !set.contains(&number));
                }
                if is_new {
                    window.insert(number);
                    set.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }
}
