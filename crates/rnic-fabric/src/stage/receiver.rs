//! The receive pipeline of a NIC that caches entries of its memory translation table (MTT).
//!
//! The pipeline takes packets one by one out of the receive buffer. A packet takes the time of its transmission on the
//! link, so the pipeline keeps up with the link as long as the cache has the entry for the packet's memory. If the
//! entry is missing, the pipeline stops until the NIC has fetched it from the host's memory. While the receive buffer
//! holds more than `xoff` bytes, the NIC pauses its switch.

use crate::packet::{Body, Packet};
use rnic_transport::Time;
use std::collections::{BTreeMap, VecDeque};

/// A NIC's receive buffer, and its cache of the memory translation table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverSpec {
    /// Bytes of memory that one entry of the table covers, at least 1.
    pub page: u64,
    /// Entries that the cache holds, at least 1. The cache replaces the entry that was used longest ago.
    pub entries: usize,
    /// Time for which a missing entry stops the pipeline.
    pub miss: Time,
    /// Bytes of memory of each flow, which it writes in a circle, at least 1.
    pub memory: u64,
    /// Payload bytes of a full packet.
    pub mtu: u64,
    /// Size of the receive buffer in bytes.
    pub buffer: u64,
    /// The NIC pauses its switch while the receive buffer holds more than this.
    pub xoff: u64,
    /// The NIC ends the pause when the receive buffer holds at most this.
    pub xon: u64,
}

/// A cache that replaces the page that was used longest ago.
#[derive(Default)]
struct Cache {
    /// For each cached page, the number of its latest use.
    used: BTreeMap<u64, u64>,
    /// The cached pages by the number of their latest use.
    order: BTreeMap<u64, u64>,
    uses: u64,
}

impl Cache {
    /// Uses a page; returns whether the cache had it.
    fn touch(&mut self, page: u64, entries: usize) -> bool {
        self.uses += 1;
        let before = self.used.insert(page, self.uses);
        if let Some(before) = before {
            self.order.remove(&before);
        } else if self.used.len() > entries
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.used.remove(&oldest);
        }
        self.order.insert(self.uses, page);
        before.is_some()
    }
}

pub(super) struct Receiver<B> {
    spec: ReceiverSpec,
    /// The packets in the receive buffer, with the time that each takes; the pipeline works on the first.
    queue: VecDeque<(Packet<B>, u64)>,
    bytes: u64,
    /// Time at which the first packet is done; `u64::MAX` if there is none.
    done_at: u64,
    cache: Cache,
    /// Bitmap of the priorities that the NIC pauses, and of those of its latest pause frame.
    mask: u8,
    told: u8,
}

impl<B: Body> Receiver<B> {
    pub(super) fn new(spec: ReceiverSpec) -> Receiver<B> {
        let cache = Cache::default();
        Receiver { spec, queue: VecDeque::new(), bytes: 0, done_at: u64::MAX, cache, mask: 0, told: 0 }
    }

    pub(super) fn next(&self) -> u64 {
        self.done_at
    }

    pub(super) fn packets(&self) -> usize {
        self.queue.len()
    }

    /// Stores a packet that arrives at `now`, whose transmission took `transmission`; returns whether there is room.
    pub(super) fn accept(&mut self, now: u64, packet: Packet<B>, transmission: u64) -> bool {
        let bytes = self.bytes + u64::from(packet.bytes);
        if bytes > self.spec.buffer {
            return false;
        }
        self.bytes = bytes;
        if bytes > self.spec.xoff {
            self.mask |= 1 << packet.priority;
        }
        self.queue.push_back((packet, transmission));
        if self.queue.len() == 1 {
            self.begin(now);
        }
        true
    }

    /// The pipeline begins with the first packet.
    fn begin(&mut self, now: u64) {
        let Some((packet, transmission)) = self.queue.front() else {
            self.done_at = u64::MAX;
            return;
        };
        let hit = packet.body.place().is_none_or(|(region, number)| {
            let pages = self.spec.memory.div_ceil(self.spec.page);
            let offset = number.saturating_mul(self.spec.mtu) % self.spec.memory;
            self.cache.touch(u64::from(region) * pages + offset / self.spec.page, self.spec.entries)
        });
        self.done_at = now + transmission + if hit { 0 } else { self.spec.miss.as_ps() };
    }

    /// Takes the first packet, with which the pipeline is done, out of the receive buffer; there must be one.
    pub(super) fn finish(&mut self, now: u64) -> Packet<B> {
        let (packet, _) = self.queue.pop_front().unwrap_or_default();
        self.bytes -= u64::from(packet.bytes);
        if self.bytes <= self.spec.xon {
            self.mask = 0;
        }
        self.begin(now);
        packet
    }

    /// The priorities that a pause frame must pause, if the latest one has paused others.
    pub(super) fn new_mask(&mut self) -> Option<u8> {
        let changed = self.mask != self.told;
        self.told = self.mask;
        changed.then_some(self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_forgets_the_page_that_was_used_longest_ago() {
        let mut cache = Cache::default();
        let hits: Vec<bool> = [1, 2, 1, 3, 1, 2, 3].iter().map(|page| cache.touch(*page, 2)).collect();
        // 3 replaces 2, then 2 replaces 3, then 3 replaces 1.
        assert_eq!(hits, [false, false, true, false, true, false, false]);
        assert_eq!((cache.used.len(), cache.order.len()), (2, 2));
    }
}
