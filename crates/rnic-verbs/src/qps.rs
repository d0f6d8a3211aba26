//! The queue pairs of a device: each has a slot, by which the device's rings refer to it, and a random queue pair
//! number (QPN), by which the packets of its peer do.

#![allow(clippy::disallowed_types, reason = "looked up on every packet and never iterated over")]

use crate::config::Shard;
use crate::qp::Qp;
use crate::types::Qpn;
use rand_core::Rng;
use rnic_transport::Psn;
use slab::Slab;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hash of a queue pair number (QPN): a multiplication. An attacker cannot choose QPNs with equal hashes, because the
/// device draws them.
///
/// All QPNs of a device may have the same lowest bits ([`Shard`]). Then the lowest bits of the product, by which the
/// map chooses an entry, are the same too, so that the upper half of the product is added to them.
#[derive(Default)]
pub struct QpnHasher(u64);

/// A map from queue pair numbers (QPNs) that the device has drawn. Do not iterate over it: its order means nothing.
pub type QpnMap<V> = HashMap<u32, V, BuildHasherDefault<QpnHasher>>;

impl Hasher for QpnHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The queue pairs of a device.
pub(crate) struct QueuePairs {
    entries: Slab<Qp>,
    slots: QpnMap<u32>,
    /// QPN and slot of the queue pair that was looked up last. Packets of one queue pair usually arrive in runs, and
    /// then only the first one needs the hash table. Of the empty table and after a removal, a QPN that no queue pair
    /// can have.
    last: (u32, u32),
}

/// A number that no queue pair has: it is reserved for multicast.
const NONE: (u32, u32) = (Psn::MODULUS - 1, 0);

impl QueuePairs {
    pub(crate) fn new() -> QueuePairs {
        QueuePairs { entries: Slab::new(), slots: QpnMap::default(), last: NONE }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Draws a QPN of `shard` that no queue pair has, and inserts the queue pair that `make` returns for it. The QPN is
    /// random in all 24 bits, so that a third party has to guess it, and packets for a destroyed queue pair reach no
    /// new one. The QPNs 0, 1 and 0xffffff are reserved (InfiniBand volume 1, section 9.2.5).
    pub(crate) fn insert(&mut self, rng: &mut impl Rng, shard: Shard, make: impl FnOnce(Qpn) -> Qp) -> Qpn {
        let qpn = loop {
            let number = rng.next_u32() >> 8;
            let is_free = (2..Psn::MODULUS - 1).contains(&number) && !self.slots.contains_key(&number);
            if is_free && shard.has(number) {
                break Qpn(number);
            }
        };
        let slot = self.entries.insert(make(qpn));
        self.slots.insert(qpn.0, slot as u32);
        qpn
    }

    /// Removes a queue pair; returns it with its slot.
    pub(crate) fn remove(&mut self, qpn: Qpn) -> Option<(u32, Qp)> {
        let slot = self.slots.remove(&qpn.0)?;
        self.last = NONE;
        Some((slot, self.entries.remove(slot as usize)))
    }

    /// The slot of a queue pair.
    pub(crate) fn slot(&self, qpn: Qpn) -> Option<u32> {
        if self.last.0 == qpn.0 {
            return Some(self.last.1);
        }
        self.slots.get(&qpn.0).copied()
    }

    pub(crate) fn get(&self, qpn: Qpn) -> Option<&Qp> {
        self.entries.get(self.slot(qpn)? as usize)
    }

    /// The queue pair with this number, and its slot.
    #[inline]
    pub(crate) fn get_mut(&mut self, qpn: Qpn) -> Option<(u32, &mut Qp)> {
        if self.last.0 != qpn.0 {
            self.last = (qpn.0, *self.slots.get(&qpn.0)?);
        }
        let slot = self.last.1;
        Some((slot, self.entries.get_mut(slot as usize)?))
    }

    /// The queue pair in a slot.
    #[inline]
    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut Qp> {
        self.entries.get_mut(slot as usize)
    }

    /// The queue pair in a slot.
    pub(crate) fn at(&self, slot: usize) -> Option<&Qp> {
        self.entries.get(slot)
    }

    /// The slot after the last slot that a queue pair has had.
    pub(crate) fn end(&self) -> usize {
        self.entries.capacity()
    }

    /// The slots of all queue pairs.
    pub(crate) fn slots(&self) -> Vec<u32> {
        self.entries.iter().map(|(slot, _)| slot as u32).collect()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Qp> {
        self.entries.iter().map(|(_, qp)| qp)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Qp> {
        self.entries.iter_mut().map(|(_, qp)| qp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    /// A map finds an entry by the lowest bits of its hash, and compares the highest 7 bits before the QPN.
    #[test]
    fn the_hashes_of_a_shard_differ() {
        let build = BuildHasherDefault::<QpnHasher>::default();
        for shard in [Shard::default(), Shard { index: 5, count: 64 }, Shard { index: 1_020, count: 1_024 }] {
            let mut drawn = 0;
            let (mut low, mut high) = (BTreeSet::new(), BTreeSet::new());
            // Every fourth of the numbers that the shard has: those that are drawn are no sequence.
            for number in (0..Psn::MODULUS).filter(|number| shard.has(*number)).step_by(4).take(4_096) {
                let hash = build.hash_one(number);
                low.insert(hash % 4_096);
                high.insert(hash >> 57);
                drawn += 1;
            }
            // Random hashes would have 63 % of the values.
            assert!(drawn == 4_096 && low.len() > 2_000 && high.len() == 128, "{shard:?}: {}", low.len());
        }
    }
}
