//! Allocation of message slots (indices of a NIC's per-message state), and a hash table that maps the address of a NIC
//! and a slot to an index.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Allocates message slots, numbered from 0. It always allocates the lowest free slot, so that arrays indexed by slot
/// stay small.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    free: BinaryHeap<Reverse<u16>>,
    /// Number of different slots that have been allocated so far.
    ever: u32,
}

impl Slots {
    /// Maximum number of slots, 65,535. The number 65,535 itself is not a slot, because
    /// [`RxMsgInfo::COMPLETE`](super::RxMsgInfo::COMPLETE) uses it.
    pub(super) const MAX: u32 = u16::MAX as u32;

    /// Allocates the lowest free slot; `None` if all are in use.
    pub(super) fn allocate(&mut self) -> Option<u16> {
        if let Some(Reverse(slot)) = self.free.pop() {
            return Some(slot);
        }
        (self.ever < Slots::MAX).then(|| {
            self.ever += 1;
            (self.ever - 1) as u16
        })
    }

    /// Frees a slot.
    pub(super) fn release(&mut self, slot: u16) {
        self.free.push(Reverse(slot));
    }

    /// Number of slots in use.
    pub(super) fn in_use(&self) -> usize {
        self.ever as usize - self.free.len()
    }
}

/// A hash table that assigns an index to each pair of a NIC's address and a message slot. Indices count up from 0 in
/// the order in which the pairs were first seen. Entries are never removed.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    /// Open addressing with linear probing, at most half full. An entry holds the key and the index + 1; a 0 in place
    /// of index + 1 marks an empty entry.
    table: Vec<(u64, u32)>,
    entries: u32,
}

impl Directory {
    #[inline]
    fn first_probe(&self, key: u64) -> usize {
        // Multiplicative hashing with 2^64 divided by the golden ratio; the upper bits are mixed best.
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash as usize & (self.table.len() - 1)
    }

    /// The index of (`ip`, `slot`), and whether the pair is new.
    #[inline]
    pub(super) fn index(&mut self, ip: u32, slot: u16) -> (usize, bool) {
        if self.table.len() <= 2 * self.entries as usize {
            self.grow();
        }
        let key = u64::from(ip) << 16 | u64::from(slot);
        let mask = self.table.len() - 1;
        let mut at = self.first_probe(key);
        loop {
            match self.table[at] {
                (_, 0) => {
                    self.entries += 1;
                    self.table[at] = (key, self.entries);
                    return (self.entries as usize - 1, true);
                }
                (other, index) if other == key => return (index as usize - 1, false),
                _ => at = (at + 1) & mask,
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (2 * self.table.len()).max(16);
        let old = std::mem::replace(&mut self.table, vec![(0, 0); size]);
        for (key, index) in old.into_iter().filter(|(_, index)| *index != 0) {
            let mut at = self.first_probe(key);
            while self.table[at].1 != 0 {
                at = (at + 1) & (size - 1);
            }
            self.table[at] = (key, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_slot_is_allocated_first() {
        let mut slots = Slots::default();
        assert!((0..4).all(|slot| slots.allocate() == Some(slot)));
        slots.release(2);
        slots.release(0);
        assert_eq!(slots.in_use(), 2);
        assert_eq!([slots.allocate(), slots.allocate(), slots.allocate()], [Some(0), Some(2), Some(4)]);
    }

    #[test]
    fn slots_run_out() {
        let mut slots = Slots::default();
        assert!((0..u16::MAX).all(|slot| slots.allocate() == Some(slot)));
        assert_eq!(slots.allocate(), None);
        slots.release(77);
        assert_eq!(slots.allocate(), Some(77));
    }

    #[test]
    fn a_directory_assigns_one_index_to_each_pair() {
        let mut directory = Directory::default();
        for round in 0..2 {
            for ip in 0..50u32 {
                for slot in 0..40u16 {
                    let index = (ip * 40 + u32::from(slot)) as usize;
                    assert_eq!(directory.index(ip << 24, slot), (index, round == 0));
                }
            }
        }
        assert!(directory.table.len() >= 4_000);
    }
}
