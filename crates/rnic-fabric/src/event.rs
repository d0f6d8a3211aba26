//! The future-event list of one node: a tournament tree over its few event sources.
//!
//! A node has one possible arrival per incoming link and one possible "transmitter free" per port, so the list is an array of
//! keys indexed by source, and the tree above it finds the smallest without branches. A key holds time and source, which
//! makes the order total: earlier first; at the same instant arrivals before transmitters, lower ports before higher.

use crate::topology::MAX_PORTS;

/// "No event".
const NEVER: u64 = u64::MAX;
/// Bits of a key that hold the source.
const SOURCE_BITS: u32 = MAX_PORTS.ilog2() + 1;

/// A tournament tree over event sources `0..sources`.
#[derive(Clone, Debug)]
pub(crate) struct EventTree {
    /// `keys[1]` is the smallest; the sources' own keys are `keys[leaves..]`.
    keys: Vec<u64>,
    leaves: usize,
    /// Times are kept relative to this.
    origin: u64,
}

impl EventTree {
    pub(crate) fn new(max_sources: usize) -> EventTree {
        EventTree { keys: vec![NEVER; 2 * max_sources.next_power_of_two().max(2)], leaves: 0, origin: 0 }
    }

    /// Forgets everything; `sources` sources follow, set with [`EventTree::load`], then [`EventTree::build`].
    pub(crate) fn reset(&mut self, sources: usize, origin: u64) {
        self.leaves = sources.next_power_of_two().max(2);
        self.origin = origin;
        self.keys[self.leaves..2 * self.leaves].fill(NEVER);
    }

    fn key(&self, source: usize, time: u64) -> u64 {
        if time == u64::MAX { NEVER } else { ((time - self.origin) << SOURCE_BITS) | source as u64 }
    }

    /// Sets a source's time without repairing the tree.
    #[inline]
    pub(crate) fn load(&mut self, source: usize, time: u64) {
        self.keys[self.leaves + source] = self.key(source, time);
    }

    /// Makes the tree after a series of loads.
    pub(crate) fn build(&mut self) {
        for node in (1..self.leaves).rev() {
            self.keys[node] = self.keys[2 * node].min(self.keys[2 * node + 1]);
        }
    }

    /// Sets a source's time, `u64::MAX` for no event.
    #[inline]
    pub(crate) fn set(&mut self, source: usize, time: u64) {
        let mut node = self.leaves + source;
        let mut smallest = self.key(source, time);
        let keys = &mut self.keys[..2 * self.leaves];
        keys[node] = smallest;
        while node > 1 {
            smallest = smallest.min(keys[node ^ 1]);
            node >>= 1;
            keys[node] = smallest;
        }
    }

    /// Whether the source has an event.
    #[inline]
    pub(crate) fn is_set(&self, source: usize) -> bool {
        self.keys[self.leaves + source] != NEVER
    }

    /// Time and source of the first event; time `u64::MAX` when there is none.
    #[inline]
    pub(crate) fn first(&self) -> (u64, usize) {
        let key = self.keys[1];
        if key == NEVER {
            return (u64::MAX, 0);
        }
        (self.origin + (key >> SOURCE_BITS), (key & ((1 << SOURCE_BITS) - 1)) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The tree always names the same event as a search through all sources.
        #[test]
        fn agrees_with_a_search(
            sources in 1usize..70,
            steps in prop::collection::vec((0usize..70, prop::option::of(1_000u64..2_000)), 1..200),
        ) {
            let mut tree = EventTree::new(70);
            tree.reset(sources, 1_000);
            let mut model = vec![u64::MAX; sources];
            tree.build();
            for (source, time) in steps {
                let (source, time) = (source % sources, time.unwrap_or(u64::MAX));
                model[source] = time;
                tree.set(source, time);
                let best = (0..sources).min_by_key(|s| (model[*s], *s)).unwrap();
                let (at, which) = tree.first();
                prop_assert_eq!(at, model[best]);
                prop_assert!(at == u64::MAX || which == best);
                prop_assert_eq!(tree.is_set(source), time != u64::MAX);
            }
        }
    }
}
