//! The buffer of the output-queued switch that the DCQCN paper assumes: one buffer that all ports share (sections 2.3
//! and 4).
//!
//! All ports share one pool of bytes. A packet waits in the queue of its output and priority, first in, first out, and
//! is charged to the port and priority on which it arrived. With PFC each (port, priority) has a threshold, fixed or a
//! multiple of the pool's free bytes divided by the number of priorities. Packets up to the threshold are charged to
//! the pool; packets beyond it are charged to the headroom of the (port, priority), and pause the upstream transmitter.
//! The headroom of every (port, priority) is reserved: the pool is the buffer minus all headroom. The bytes of a packet
//! that leaves are taken off the headroom first. The transmitter resumes when the headroom is empty and the charge to
//! the pool is zero or at least `xon_offset` below the threshold. The switch drops a packet for which neither the pool
//! nor the headroom has room.
//!
//! PFC may protect only some of the priorities. The others have no headroom: what is beyond the threshold is dropped.
//!
//! Without PFC there is no headroom, and a queue may be limited to a multiple of the pool's free bytes.

use super::output_queues::OutputQueues;
use super::{Buffer, Shape, Stored};
use crate::packet::Packet;
use crate::scheduler::Head;
use rnic_transport::Bytes;

/// The buffer of an output-queued switch, which all ports share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SharedSpec {
    /// Size of the whole buffer; with PFC it includes the headroom of all ports and priorities.
    pub buffer: Bytes,
    /// PFC; `None`: the switch pauses nobody and drops packets that do not fit.
    pub pfc: Option<SharedPfc>,
    /// Maximum length of the queue of an output in a priority that PFC does not protect, as a multiple of the free
    /// bytes of the buffer; `None`: the queue may take all free bytes.
    pub egress_alpha: Option<f64>,
}

impl SharedSpec {
    /// A buffer without PFC, in which a queue may take all free bytes.
    pub fn lossy(buffer: Bytes) -> SharedSpec {
        SharedSpec { buffer, pfc: None, egress_alpha: None }
    }
}

/// PFC settings of a buffer that all ports share: the switch pauses the peer of an input port in a priority if the
/// bytes that the port holds in this priority exceed a threshold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SharedPfc {
    /// Pause threshold for the bytes of a (port, priority) in the buffer. Packets beyond it go into the headroom and
    /// pause the upstream transmitter.
    pub threshold: PauseThreshold,
    /// A paused transmitter resumes when the headroom of its (port, priority) is empty, and the bytes of the (port,
    /// priority) in the buffer are zero or at least this many below the threshold.
    pub xon_offset: Bytes,
    /// Bytes reserved for each (port, priority), for packets that arrive beyond the threshold.
    pub headroom: Bytes,
    /// Bitmap of the priorities that PFC protects, normally all (255). In the others there is no headroom: the switch
    /// drops packets beyond the threshold and sends no pauses.
    pub lossless: u8,
}

impl SharedPfc {
    /// Whether PFC protects a priority.
    #[inline]
    pub fn protects(&self, priority: usize) -> bool {
        self.lossless & (1 << priority) != 0
    }

    /// Number of those of `priorities` priorities that PFC protects.
    pub fn protected(&self, priorities: usize) -> u64 {
        (0..priorities).filter(|priority| self.protects(*priority)).count() as u64
    }
}

/// PFC's pause threshold in a shared buffer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PauseThreshold {
    /// A fixed number of bytes (`xoff`).
    Static(Bytes),
    /// `beta` times the free bytes of the shared pool (the buffer without all headroom), divided by the number of
    /// priorities (DCQCN paper, section 4.1).
    Dynamic {
        /// The factor by which the free bytes are multiplied.
        beta: f64,
    },
}

/// The bytes of the buffer that packets from one input port take in one priority.
#[derive(Clone, Copy, Default)]
struct Charge {
    /// Bytes in the pool that all ports share.
    shared: u64,
    /// Bytes in the headroom of the port and priority.
    headroom: u64,
}

/// The shared buffer of one switch.
pub(crate) struct SharedBuffer<B> {
    priorities: usize,
    pool: u64,
    used: u64,
    pfc: Option<SharedPfc>,
    /// In priorities without PFC: a queue holds at most this multiple of the free bytes.
    egress_alpha: Option<f64>,
    queues: OutputQueues<B>,
    /// Per (input, priority): the bytes of the buffer that its packets take.
    charges: Vec<Charge>,
}

impl<B: Copy> SharedBuffer<B> {
    pub(crate) fn new(spec: &SharedSpec, shape: Shape) -> SharedBuffer<B> {
        let Shape { ports, priorities, .. } = shape;
        let SharedSpec { pfc, egress_alpha, .. } = *spec;
        let reserved = pfc.map_or(0, |pfc| pfc.headroom.0 * ports as u64 * pfc.protected(priorities));
        SharedBuffer {
            priorities,
            pool: spec.buffer.0.saturating_sub(reserved),
            used: 0,
            pfc,
            egress_alpha,
            queues: OutputQueues::new(shape),
            charges: vec![Charge::default(); ports * priorities],
        }
    }

    /// Bytes of the pool that are free.
    #[inline]
    fn free(&self) -> u64 {
        self.pool - self.used
    }

    /// The pause threshold of a (port, priority) at this moment.
    #[inline]
    fn threshold(&self, pfc: &SharedPfc) -> u64 {
        match pfc.threshold {
            PauseThreshold::Static(xoff) => xoff.0,
            PauseThreshold::Dynamic { beta } => (beta * self.free() as f64 / self.priorities as f64) as u64,
        }
    }

    /// Whether a packet of `bytes` bytes has room in the pool, if the packets of its (port, priority) already take
    /// `charge`.
    #[inline]
    fn fits_in_pool(&self, charge: &Charge, bytes: u64) -> bool {
        let below = self.pfc.as_ref().is_none_or(|pfc| charge.shared + bytes <= self.threshold(pfc));
        below && bytes <= self.free()
    }
}

impl<B: Copy> Buffer<B> for SharedBuffer<B> {
    #[inline(always)]
    fn admits(&self, input: usize, output: usize, packet: &Packet<B>) -> bool {
        let (bytes, priority) = (u64::from(packet.bytes), packet.priority as usize);
        let charge = &self.charges[input * self.priorities + priority];
        let is_lossless = self.pfc.is_some_and(|pfc| pfc.protects(priority));
        if let Some(alpha) = self.egress_alpha
            && !is_lossless
        {
            let queue = self.queues.bytes(output, priority) + bytes;
            if queue as f64 > alpha * self.free() as f64 {
                return false;
            }
        }
        let has_headroom = |pfc: SharedPfc| charge.headroom + bytes <= pfc.headroom.0 && is_lossless;
        self.fits_in_pool(charge, bytes) || self.pfc.is_some_and(has_headroom)
    }

    #[inline(always)]
    fn egress(&self, output: usize, priority: usize) -> u64 {
        self.queues.bytes(output, priority)
    }

    #[inline(always)]
    fn push(&mut self, input: usize, output: usize, packet: Packet<B>) -> Stored {
        let (bytes, priority) = (u64::from(packet.bytes), packet.priority as usize);
        let cell = input * self.priorities + priority;
        let in_pool = self.fits_in_pool(&self.charges[cell], bytes);
        let charge = &mut self.charges[cell];
        if in_pool {
            charge.shared += bytes;
            self.used += bytes;
        } else {
            charge.headroom += bytes;
        }
        let now = *charge;
        self.queues.push(input, output, packet);
        Stored { occupancy: now.shared + now.headroom, pause: now.headroom > 0 }
    }

    #[inline(always)]
    fn head(&self, output: usize, priority: usize) -> Head {
        self.queues.head(output, priority)
    }

    #[inline(always)]
    fn pop(&mut self, output: usize, priority: usize) -> (Packet<B>, usize) {
        let (packet, input) = self.queues.pop(output, priority);
        let bytes = u64::from(packet.bytes);
        let charge = &mut self.charges[input * self.priorities + priority];
        let from_headroom = charge.headroom.min(bytes);
        charge.headroom -= from_headroom;
        charge.shared -= bytes - from_headroom;
        self.used -= bytes - from_headroom;
        (packet, input)
    }

    #[inline(always)]
    fn may_resume(&self, input: usize, priority: usize) -> bool {
        let Some(pfc) = &self.pfc else { return true };
        let charge = &self.charges[input * self.priorities + priority];
        charge.headroom == 0 && (charge.shared == 0 || charge.shared + pfc.xon_offset.0 <= self.threshold(pfc))
    }

    #[inline(always)]
    fn backlog(&self, output: usize) -> u8 {
        self.queues.backlog(output)
    }

    fn queued(&self) -> usize {
        self.queues.queued()
    }

    fn occupancy(&self, input: usize, priority: usize) -> u64 {
        let charge = &self.charges[input * self.priorities + priority];
        charge.shared + charge.headroom
    }

    fn held(&self, inputs: &[usize], priority: usize, held: &mut [u64]) {
        self.queues.held(inputs, priority, held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const HEADROOM: u64 = 3_000;

    fn shape(ports: usize, priorities: usize) -> Shape {
        Shape { ports, priorities, reads_egress: false }
    }

    fn with_pfc(buffer: u64, threshold: PauseThreshold, xon_offset: u64) -> SharedSpec {
        let pfc = SharedPfc { threshold, xon_offset: Bytes(xon_offset), headroom: Bytes(HEADROOM), lossless: u8::MAX };
        SharedSpec { pfc: Some(pfc), ..SharedSpec::lossy(Bytes(buffer)) }
    }

    fn packet(bytes: u16, priority: u8) -> Packet<u32> {
        Packet { bytes, priority, ..Packet::default() }
    }

    /// Stores a packet of 1,000 bytes if the buffer has room. The result is whether the peer of its input must pause,
    /// or `None` if the packet is dropped.
    fn offer(buffer: &mut SharedBuffer<u32>, input: usize, output: usize, priority: u8) -> Option<bool> {
        let packet = packet(1_000, priority);
        buffer.admits(input, output, &packet).then(|| buffer.push(input, output, packet).pause)
    }

    #[test]
    fn a_static_threshold() {
        // Two ports, one priority: 10,000 bytes less twice 3,000 make a pool of 4,000.
        let threshold = PauseThreshold::Static(Bytes(2_500));
        let mut buffer = SharedBuffer::new(&with_pfc(10_000, threshold, 1_000), shape(2, 1));
        let offers: Vec<_> = (0..6).map(|_| offer(&mut buffer, 0, 1, 0)).collect();
        // Two packets fit below the threshold, and three in the headroom.
        assert_eq!(offers, [Some(false), Some(false), Some(true), Some(true), Some(true), None]);
        assert_eq!((buffer.used, buffer.occupancy(0, 0), buffer.egress(1, 0)), (2_000, 5_000, 5_000));
        // The other input is not affected. Its second packet fits in the rest of the pool.
        let others: Vec<_> = (0..2).map(|_| offer(&mut buffer, 1, 1, 0)).collect();
        assert_eq!((others, buffer.used), (vec![Some(false), Some(false)], 4_000));
        // The headroom empties first. A charge of 2,000 bytes is still above the resume threshold, 2,500 - 1,000 bytes.
        let mut resumes = Vec::new();
        for _ in 0..5 {
            assert_eq!(buffer.pop(1, 0).1, 0);
            resumes.push((buffer.charges[0].headroom, buffer.charges[0].shared, buffer.may_resume(0, 0)));
        }
        let by_hand = [(2_000, 2_000, false), (1_000, 2_000, false), (0, 2_000, false), (0, 1_000, true), (0, 0, true)];
        assert_eq!(resumes, by_hand);
    }

    #[test]
    fn a_priority_without_pfc_drops_beyond_the_threshold() {
        // Two ports, two priorities, PFC in the first only: 10,000 bytes less twice 3,000 make a pool of 4,000.
        let mut spec = with_pfc(10_000, PauseThreshold::Static(Bytes(1_500)), 1_000);
        spec.pfc.as_mut().unwrap().lossless = 0b01;
        let mut buffer = SharedBuffer::new(&spec, shape(2, 2));
        assert_eq!(buffer.pool, 4_000);
        let mut offers = |priority| [(); 3].map(|_| offer(&mut buffer, 0, 1, priority));
        assert_eq!(offers(0), [Some(false), Some(true), Some(true)]);
        assert_eq!(offers(1), [Some(false), None, None]);
    }

    #[test]
    fn the_egress_limit_is_for_priorities_without_pfc() {
        // As above, with a threshold that nothing reaches. A queue of q bytes of the second priority may be as long as
        // a quarter of the free bytes: 1,000 <= 4,000 / 4, but 2,000 > 3,000 / 4.
        let mut spec = with_pfc(10_000, PauseThreshold::Static(Bytes(4_000)), 1_000);
        spec.pfc.as_mut().unwrap().lossless = 0b01;
        spec.egress_alpha = Some(0.25);
        let mut buffer = SharedBuffer::new(&spec, shape(2, 2));
        let mut offers = |priority| [(); 2].map(|_| offer(&mut buffer, 0, 1, priority));
        assert_eq!(offers(1), [Some(false), None]);
        assert_eq!(offers(0), [Some(false), Some(false)]);
    }

    #[test]
    fn a_pool_that_is_full_pauses_below_the_threshold() {
        let threshold = PauseThreshold::Static(Bytes(9_000));
        let mut buffer = SharedBuffer::new(&with_pfc(2 * HEADROOM + 1_500, threshold, 0), shape(2, 1));
        assert_eq!([offer(&mut buffer, 0, 1, 0), offer(&mut buffer, 1, 1, 0)], [Some(false), Some(true)]);
    }

    #[test]
    fn a_dynamic_threshold_falls_as_the_pool_fills() {
        // A pool of 16,000 for two priorities, beta 2: an input may be charged the free bytes of the pool.
        let threshold = PauseThreshold::Dynamic { beta: 2.0 };
        let mut buffer = SharedBuffer::new(&with_pfc(16_000 + 4 * HEADROOM, threshold, 2_000), shape(2, 2));
        // k packets are charged while 1,000 k <= 16,000 - 1,000 (k - 1): up to 8.
        let first: Vec<_> = (0..9).map(|_| offer(&mut buffer, 0, 1, 0)).collect();
        assert_eq!(first.iter().filter(|offer| **offer == Some(false)).count(), 8);
        assert_eq!((first[8], buffer.used), (Some(true), 8_000));
        // Of the other priority of this input, with 8,000 bytes free, 4 packets are charged; then 4,000 bytes are free.
        let second: Vec<_> = (0..5).map(|_| offer(&mut buffer, 0, 1, 1)).collect();
        assert_eq!(second, [Some(false), Some(false), Some(false), Some(false), Some(true)]);
        // The first priority resumes when its headroom is empty and its charge c is 2,000 bytes below the free bytes,
        // which are 16,000 - 4,000 - c.
        let mut left = Vec::new();
        for _ in 0..9 {
            buffer.pop(1, 0);
            left.push(buffer.may_resume(0, 0));
        }
        // 5,000 + 2,000 <= 7,000 holds after four packets: the packet in the headroom and three of the eight in the
        // pool.
        assert_eq!(left.iter().position(|resumes| *resumes), Some(3));
    }

    #[test]
    fn without_pfc_packets_are_dropped_at_the_egress_limit_or_when_the_pool_is_full() {
        let mut lossy = SharedSpec::lossy(Bytes(10_000));
        let mut buffer = SharedBuffer::new(&lossy, shape(2, 1));
        let taken = (0..20).filter(|_| offer(&mut buffer, 0, 1, 0).is_some()).count();
        assert_eq!((taken, buffer.may_resume(0, 0)), (10, true));
        // A queue of q bytes may be as long as the free bytes: q + 1,000 <= 10,000 - q.
        lossy.egress_alpha = Some(1.0);
        let mut buffer = SharedBuffer::new(&lossy, shape(2, 1));
        let taken = [1, 0].map(|output| (0..20).filter(|_| offer(&mut buffer, 0, output, 0).is_some()).count());
        // The first queue takes 5 packets. Then 5,000 bytes are free for the second queue: q + 1,000 <= 5,000 - q.
        assert_eq!(taken, [5, 3]);
    }

    proptest! {
        /// For any sequence of arrivals and departures, charges add up, the buffer is never exceeded, and each queue is
        /// first in, first out.
        #[test]
        fn nothing_is_lost_or_counted_twice(
            dynamic: bool,
            steps in prop::collection::vec((0usize..4, 0usize..4, 0u8..2, 64u16..1_600, any::<bool>()), 1..400),
        ) {
            let threshold =
                if dynamic { PauseThreshold::Dynamic { beta: 1.0 } } else { PauseThreshold::Static(Bytes(5_000)) };
            let mut buffer = SharedBuffer::new(&with_pfc(8 * HEADROOM + 20_000, threshold, 1_000), shape(4, 2));
            let mut model = vec![VecDeque::new(); 8];
            for (number, (input, output, priority, bytes, leave)) in steps.into_iter().enumerate() {
                let backlog = buffer.backlog(output);
                if leave && backlog != 0 {
                    // The priority may be any priority with a backlog, as a scheduler could choose it.
                    let priority = if backlog == 0b11 { usize::from(priority) } else { usize::from(backlog >> 1) };
                    let head = buffer.head(output, priority);
                    let (packet, by) = buffer.pop(output, priority);
                    let queue = &mut model[output * 2 + priority];
                    prop_assert_eq!(queue.pop_front(), Some((packet.body, by, u64::from(packet.bytes))));
                    prop_assert_eq!((head.bytes, head.is_last), (packet.bytes, queue.is_empty()));
                } else {
                    let packet = Packet { body: number as u32, ..packet(bytes, priority) };
                    if buffer.admits(input, output, &packet) {
                        buffer.push(input, output, packet);
                        model[output * 2 + usize::from(priority)].push_back((packet.body, input, u64::from(bytes)));
                    }
                }
                let held: u64 = model.iter().flatten().map(|(_, _, bytes)| bytes).sum();
                let charged: u64 = buffer.charges.iter().map(|charge| charge.shared + charge.headroom).sum();
                prop_assert_eq!(charged, held);
                prop_assert_eq!(buffer.charges.iter().map(|charge| charge.shared).sum::<u64>(), buffer.used);
                prop_assert!(buffer.used <= 20_000);
                prop_assert!(buffer.charges.iter().all(|charge| charge.headroom <= HEADROOM));
                prop_assert_eq!(buffer.queued(), model.iter().map(VecDeque::len).sum::<usize>());
                for (lane, queue) in model.iter().enumerate() {
                    let (output, priority) = (lane / 2, lane % 2);
                    prop_assert_eq!(buffer.egress(output, priority), queue.iter().map(|(_, _, bytes)| bytes).sum::<u64>());
                    prop_assert_eq!(buffer.backlog(output) >> priority & 1 == 1, !queue.is_empty());
                    let mut held = [0; 2 * 4];
                    buffer.held(&[3, 1], priority, &mut held);
                    for (row, input) in [3, 1].into_iter().enumerate() {
                        let bytes = queue.iter().filter(|(_, by, _)| *by == input).map(|(_, _, bytes)| bytes).sum::<u64>();
                        prop_assert_eq!(held[row * 4 + output], bytes);
                    }
                }
            }
        }
    }
}
