//! The future-event list of one node (host or switch) of a simulated fabric: a tournament tree over the few event
//! sources of the node.
//!
//! A node has at most one pending arrival per incoming link and at most one pending "transmitter free" event per port.
//! So the list is an array of keys indexed by event source, and a tree above the array finds the smallest key without
//! branches. A key holds the time and the source of an event, so no two keys are equal and the order of events is
//! unique. Earlier events come first; at the same instant, arrivals come before "transmitter free" events, and lower
//! ports before higher ports.

use crate::topology::MAX_PORTS;

/// Key of a source that has no event.
const NEVER: u64 = u64::MAX;
/// Number of low bits of a key that hold the source; the bits above them hold the time.
const SOURCE_BITS: u32 = MAX_PORTS.ilog2() + 1;
/// Number of keys of a tree for as many sources as a node can have. The array of keys always has this size, of which a
/// node uses the beginning, so that the compiler knows that masked indices are inside.
const KEYS: usize = 2 << SOURCE_BITS;

/// The events of a node, at most one per source. Sources are numbered from 0; among events at the same instant the
/// source with the lowest number comes first. Times are in picoseconds.
pub(crate) trait EventList {
    /// A list for nodes of up to `max_sources` sources.
    fn new(max_sources: usize) -> Self;
    /// Clears the list for a node of `sources` sources. The caller then sets the events with [`EventList::load`] and
    /// completes the list with [`EventList::build`]. No event may be earlier than `origin`.
    fn reset(&mut self, sources: usize, origin: u64);
    /// Sets the time of a source's event before [`EventList::build`]; `u64::MAX` means no event.
    fn load(&mut self, source: usize, time: u64);
    /// Completes the list after the last [`EventList::load`].
    fn build(&mut self);
    /// Sets the time of a source's event in a completed list; `u64::MAX` means no event.
    fn set(&mut self, source: usize, time: u64);
    /// Whether the source has an event.
    fn is_set(&self, source: usize) -> bool;
    /// Time and source of the first event; the time is `u64::MAX` if the list has no event.
    fn first(&mut self) -> (u64, usize);
    /// Time and source of the first event if it is before `end`, which must not be before the list's origin.
    fn first_before(&mut self, end: u64) -> Option<(u64, usize)> {
        Some(self.first()).filter(|(time, _)| *time < end)
    }
}

/// A tournament tree over event sources `0..sources`.
#[derive(Clone, Debug)]
pub(crate) struct EventTree {
    /// A binary tree in an array: `keys[1]` is the smallest key, and the leaves `keys[leaves..]` are the keys of the
    /// sources.
    keys: Box<[u64; KEYS]>,
    leaves: usize,
    /// Time, in picoseconds, from which the times in keys are counted.
    origin: u64,
}

impl EventTree {
    #[inline(always)]
    fn key(&self, source: usize, time: u64) -> u64 {
        if time == u64::MAX { NEVER } else { ((time - self.origin) << SOURCE_BITS) | source as u64 }
    }
}

impl EventList for EventTree {
    fn new(max_sources: usize) -> EventTree {
        debug_assert!(2 * max_sources.next_power_of_two() <= KEYS, "a topology has at most {MAX_PORTS} ports per node");
        // Zeros take no memory until they are overwritten.
        let keys = vec![0; KEYS].into_boxed_slice().try_into();
        EventTree { keys: keys.unwrap_or_else(|_| Box::new([0; KEYS])), leaves: 0, origin: 0 }
    }

    #[inline]
    fn reset(&mut self, sources: usize, origin: u64) {
        self.leaves = sources.next_power_of_two().max(2);
        self.origin = origin;
        self.keys[self.leaves..2 * self.leaves].fill(NEVER);
    }

    #[inline]
    fn load(&mut self, source: usize, time: u64) {
        self.keys[(self.leaves + source) % KEYS] = self.key(source, time);
    }

    #[inline]
    fn build(&mut self) {
        for node in (1..self.leaves.min(KEYS / 2)).rev() {
            self.keys[node] = self.keys[2 * node].min(self.keys[2 * node + 1]);
        }
    }

    #[inline]
    fn set(&mut self, source: usize, time: u64) {
        let mut node = (self.leaves + source) % KEYS;
        let mut smallest = self.key(source, time);
        self.keys[node] = smallest;
        while node > 1 {
            smallest = smallest.min(self.keys[(node ^ 1) % KEYS]);
            node >>= 1;
            self.keys[node % KEYS] = smallest;
        }
    }

    #[inline]
    fn is_set(&self, source: usize) -> bool {
        self.keys[(self.leaves + source) % KEYS] != NEVER
    }

    #[inline]
    fn first(&mut self) -> (u64, usize) {
        let key = self.keys[1];
        if key == NEVER {
            return (u64::MAX, 0);
        }
        (self.origin + (key >> SOURCE_BITS), (key & ((1 << SOURCE_BITS) - 1)) as usize)
    }

    #[inline]
    fn first_before(&mut self, end: u64) -> Option<(u64, usize)> {
        let key = self.keys[1];
        let event = (self.origin + (key >> SOURCE_BITS), (key & ((1 << SOURCE_BITS) - 1)) as usize);
        // The key of a source without event is larger than that of any time in a window.
        (key < (end - self.origin) << SOURCE_BITS).then_some(event)
    }
}

/// A binary heap with which tests compare the tournament tree. An entry that [`EventList::set`] has replaced stays in
/// the heap until it reaches the top.
#[cfg(test)]
#[derive(Clone, Debug, Default)]
pub(crate) struct EventHeap {
    heap: std::collections::BinaryHeap<std::cmp::Reverse<(u64, usize)>>,
    /// Per source: time of its event.
    times: Vec<u64>,
}

#[cfg(test)]
impl EventList for EventHeap {
    fn new(_max_sources: usize) -> EventHeap {
        EventHeap::default()
    }
    fn reset(&mut self, sources: usize, _origin: u64) {
        self.heap.clear();
        self.times = vec![u64::MAX; sources];
    }
    fn load(&mut self, source: usize, time: u64) {
        self.set(source, time);
    }
    fn build(&mut self) {}
    fn set(&mut self, source: usize, time: u64) {
        self.times[source] = time;
        self.heap.push(std::cmp::Reverse((time, source)));
    }
    fn is_set(&self, source: usize) -> bool {
        self.times[source] != u64::MAX
    }
    fn first(&mut self) -> (u64, usize) {
        while let Some(std::cmp::Reverse((time, source))) = self.heap.peek().copied() {
            if time == u64::MAX {
                break;
            }
            if self.times[source] == time {
                return (time, source);
            }
            self.heap.pop();
        }
        (u64::MAX, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks that the list always returns the same first event as a search through all sources.
    fn agrees<L: EventList>(sources: usize, steps: &[(usize, Option<u64>)]) -> Result<(), TestCaseError> {
        let mut list = L::new(70);
        list.reset(sources, 1_000);
        let mut model = vec![u64::MAX; sources];
        list.build();
        for (source, time) in steps {
            let (source, time) = (source % sources, time.unwrap_or(u64::MAX));
            model[source] = time;
            list.set(source, time);
            let best = (0..sources).min_by_key(|s| (model[*s], *s)).unwrap();
            let (at, which) = list.first();
            prop_assert_eq!(at, model[best]);
            prop_assert!(at == u64::MAX || which == best);
            prop_assert_eq!(list.is_set(source), time != u64::MAX);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn every_list_agrees_with_a_search(
            sources in 1usize..70,
            steps in prop::collection::vec((0usize..70, prop::option::of(1_000u64..2_000)), 1..200),
        ) {
            agrees::<EventTree>(sources, &steps)?;
            agrees::<EventHeap>(sources, &steps)?;
        }
    }
}
