//! The receiver's chunks: which have arrived, and in which order records take effect.

use super::note::{Bits, WINDOW};

/// Which chunks have arrived.
#[derive(Default, Debug)]
pub(super) struct Receiver {
    /// Number of the first chunk that has not arrived.
    next: u64,
    /// Bit k of `arrived`: whether chunk `next + k` has arrived. Bit k of `records`: whether this chunk is a record.
    arrived: Bits,
    records: Bits,
}

impl Receiver {
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn bits(&self) -> &Bits {
        &self.arrived
    }

    /// Records that chunk `number` has arrived. Returns `false` if it had already arrived, or is beyond the window.
    pub(super) fn receive(&mut self, number: u64, is_record: bool) -> bool {
        let Some(at) = number.checked_sub(self.next).filter(|at| *at < WINDOW) else { return false };
        let (word, bit) = (at as usize / 64, 1 << (at % 64));
        if self.arrived[word] & bit != 0 {
            return false;
        }
        self.arrived[word] |= bit;
        if is_record {
            self.records[word] |= bit;
        }
        true
    }

    /// Advances past the next chunk in order if it has arrived. Returns its number, and whether it is a record.
    pub(super) fn advance(&mut self) -> Option<(u64, bool)> {
        if self.arrived[0] & 1 == 0 {
            return None;
        }
        let (number, is_record) = (self.next, self.records[0] & 1 != 0);
        shift(&mut self.arrived);
        shift(&mut self.records);
        self.next += 1;
        Some((number, is_record))
    }
}

fn shift(bits: &mut Bits) {
    let mut carry = 0;
    for word in bits.iter_mut().rev() {
        (*word, carry) = (*word >> 1 | carry << 63, *word & 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_pass_in_order() {
        let mut receiver = Receiver::default();
        assert!(receiver.receive(2, true) && receiver.receive(64, false) && receiver.receive(511, true));
        assert!(!receiver.receive(2, true), "a duplicate");
        assert!(!receiver.receive(512, true), "beyond the window");
        assert_eq!((receiver.advance(), receiver.bits()[0], receiver.bits()[7]), (None, 4, 1 << 63));
        assert!(receiver.receive(0, false) && receiver.receive(1, false));
        let passed: Vec<_> = std::iter::from_fn(|| receiver.advance()).collect();
        assert_eq!(passed, [(0, false), (1, false), (2, true)]);
        assert_eq!((receiver.next(), receiver.bits()[0], receiver.bits()[7]), (3, 1 << 61, 1 << 60));
        assert!(!receiver.receive(2, true), "a duplicate of a chunk that has passed");
        assert!(receiver.receive(514, false));
    }
}
