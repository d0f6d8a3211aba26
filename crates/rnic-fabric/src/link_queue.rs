//! The packets in flight in one direction of a link.

use crate::packet::Packet;
use crate::prefetch::prefetch;

/// A packet on a link and the instant at which its last bit arrives.
#[derive(Clone, Copy, Default)]
struct InFlight<B> {
    at: u64,
    packet: Packet<B>,
}

/// Prefetch distance: a slot in the ring buffer of a link's packets is prefetched this many packets before it is read
/// or written.
const PREFETCH_DISTANCE: u32 = 4;

/// The packets in flight in one direction of a link. Propagation is first in, first out, so only the first packet is an
/// event.
///
/// The structure takes half a cache line (32 bytes), because a switch reads the queues of all its ports at the start of
/// each window of simulated time.
#[repr(align(32))]
pub(crate) struct LinkQueue<B> {
    /// Arrival time of the first packet, `u64::MAX` if the link is empty.
    first_at: u64,
    head: u32,
    len: u32,
    /// Ring of the packets. Its size is a power of two: 1 in [`LinkQueue::new`], larger after [`LinkQueue::grow`], and
    /// nothing else changes it.
    slots: Box<[InFlight<B>]>,
}

impl<B: Copy + Default> LinkQueue<B> {
    pub(crate) fn new() -> LinkQueue<B> {
        LinkQueue { first_at: u64::MAX, head: 0, len: 0, slots: Box::new([InFlight::default()]) }
    }

    /// Arrival time of the first packet, `u64::MAX` if the link is empty.
    #[inline(always)]
    pub(crate) fn first_at(&self) -> u64 {
        self.first_at
    }

    /// Prefetches the slots of the first packets in the ring buffer.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        if self.len > 0 {
            prefetch(self.slot(0));
            prefetch(self.slot(2));
        }
    }

    /// Number of packets on the link, pause frames not included.
    pub(crate) fn packets(&self) -> usize {
        (0..self.len).filter(|i| !self.slot(*i).packet.is_pause()).count()
    }

    /// Index of the ring slot that has `before` packets ahead of it.
    #[inline(always)]
    fn index(&self, before: u32) -> usize {
        (self.head.wrapping_add(before) as usize) & (self.slots.len() - 1)
    }

    /// The ring slot that has `before` packets ahead of it.
    #[inline(always)]
    fn slot(&self, before: u32) -> &InFlight<B> {
        // SAFETY: the ring's size is a power of two, so it is at least 1, and the mask of the index is less than it.
        unsafe { self.slots.get_unchecked(self.index(before)) }
    }

    /// Whether the ring has no room for another packet.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.len as usize == self.slots.len()
    }

    /// Appends a packet that arrives after all others; returns whether the link was empty. The ring must have room:
    /// in a full one the first packet would be lost.
    #[inline(always)]
    pub(crate) fn push(&mut self, at: u64, packet: &Packet<B>) -> bool {
        debug_assert!(!self.is_full() && (self.len == 0 || self.slot(self.len - 1).at <= at));
        prefetch(self.slot(self.len + PREFETCH_DISTANCE));
        let index = self.index(self.len);
        let was_empty = self.len == 0;
        self.len += 1;
        if was_empty {
            self.first_at = at;
        }
        // SAFETY: as in `slot`.
        *unsafe { self.slots.get_unchecked_mut(index) } = InFlight { at, packet: *packet };
        was_empty
    }

    /// Makes room for more packets.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(8);
        let mut slots = Vec::with_capacity(size);
        slots.extend((0..self.len).map(|i| *self.slot(i)));
        slots.resize(size, InFlight::default());
        self.slots = slots.into_boxed_slice();
        self.head = 0;
    }

    /// Removes the first packet; the link must not be empty.
    #[inline]
    pub(crate) fn pop(&mut self) -> Packet<B> {
        debug_assert!(self.len > 0);
        let packet = self.slot(0).packet;
        prefetch(self.slot(PREFETCH_DISTANCE));
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        self.first_at = if self.len == 0 { u64::MAX } else { self.slot(0).at };
        packet
    }
}
