//! Small numbers for what is alive at the moment, and what is known by address and number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Numbers from 0 on, given out lowest free one first: what is indexed by them stays small.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    free: BinaryHeap<Reverse<u16>>,
    /// Numbers that were ever given out.
    ever: u32,
}

impl Slots {
    /// Numbers that exist: the greatest 16-bit value is none of them.
    pub(super) const MOST: u32 = u16::MAX as u32;

    /// The lowest free number.
    pub(super) fn allocate(&mut self) -> Option<u16> {
        if let Some(Reverse(number)) = self.free.pop() {
            return Some(number);
        }
        (self.ever < Slots::MOST).then(|| {
            self.ever += 1;
            (self.ever - 1) as u16
        })
    }

    /// Takes a number back.
    pub(super) fn release(&mut self, number: u16) {
        self.free.push(Reverse(number));
    }

    /// Numbers that are given out at the moment.
    pub(super) fn in_use(&self) -> usize {
        self.ever as usize - self.free.len()
    }
}

/// Finds the number of what belongs to an address and a slot there. Entries are never removed: there are as many as
/// pairs that were ever seen, and their numbers count up from 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    /// Open addressing, linear probing; at most half full. Key and number + 1; 0 is empty.
    places: Vec<(u64, u32)>,
    entries: u32,
}

impl Directory {
    #[inline]
    fn first_place(&self, key: u64) -> usize {
        // Multiplicative hashing: 2^64 divided by the golden ratio; the upper bits are the best mixed.
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash as usize & (self.places.len() - 1)
    }

    /// The number of (`ip`, `slot`), and whether the pair is new.
    #[inline]
    pub(super) fn number(&mut self, ip: u32, slot: u16) -> (usize, bool) {
        if self.places.len() <= 2 * self.entries as usize {
            self.grow();
        }
        let key = u64::from(ip) << 16 | u64::from(slot);
        let mask = self.places.len() - 1;
        let mut place = self.first_place(key);
        loop {
            match self.places[place] {
                (_, 0) => {
                    self.entries += 1;
                    self.places[place] = (key, self.entries);
                    return (self.entries as usize - 1, true);
                }
                (other, number) if other == key => return (number as usize - 1, false),
                _ => place = (place + 1) & mask,
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (2 * self.places.len()).max(16);
        let old = std::mem::replace(&mut self.places, vec![(0, 0); size]);
        for (key, number) in old.into_iter().filter(|(_, number)| *number != 0) {
            let mut place = self.first_place(key);
            while self.places[place].1 != 0 {
                place = (place + 1) & (size - 1);
            }
            self.places[place] = (key, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_first() {
        let mut slots = Slots::default();
        assert!((0..4).all(|number| slots.allocate() == Some(number)));
        slots.release(2);
        slots.release(0);
        assert_eq!(slots.in_use(), 2);
        assert_eq!([slots.allocate(), slots.allocate(), slots.allocate()], [Some(0), Some(2), Some(4)]);
    }

    #[test]
    fn numbers_run_out() {
        let mut slots = Slots::default();
        assert!((0..u16::MAX).all(|number| slots.allocate() == Some(number)));
        assert_eq!(slots.allocate(), None);
        slots.release(77);
        assert_eq!(slots.allocate(), Some(77));
    }

    #[test]
    fn a_directory_knows_each_pair_once() {
        let mut directory = Directory::default();
        for round in 0..2 {
            for ip in 0..50u32 {
                for slot in 0..40u16 {
                    let number = (ip * 40 + u32::from(slot)) as usize;
                    assert_eq!(directory.number(ip << 24, slot), (number, round == 0));
                }
            }
        }
        assert!(directory.places.len() >= 4_000);
    }
}
