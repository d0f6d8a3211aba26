//! The output-queued switch with a shared buffer that the DCQCN paper assumes (sections 2.3 and 4).
//!
//! All ports share one pool. A packet waits in the queue of its output and priority, first in, first out, and is charged to the port and
//! priority that it came by. With PFC each (port, priority) has a threshold, fixed or a multiple of what is free of the pool
//! divided by the priorities: what is charged up to it comes out of the pool, what arrives beyond it goes into the (port,
//! priority)'s own headroom, and pauses the upstream transmitter. Both are reserved: the pool is the buffer less all headroom. A packet
//! that leaves is taken off the headroom first; the transmitter resumes when that is empty and the charge is `resume` below the threshold.
//! A packet that has room nowhere is dropped.
//!
//! Without PFC there is no headroom, and a queue may be limited to a multiple of what is free of the pool.
//!
//! An output serves its priorities strictly, the highest first, or by weight: deficit round robin (Shreedhar and Varghese, SIGCOMM
//! 1995), with a priority of weight 0 served strictly before all others.

use super::Queueing;
use super::cells::{Cells, Queue};
use crate::config::{QueueingSpec, SharedSpec, SwitchSpec};
use crate::packet::{Body, Packet};

/// Bytes that a priority of weight 1 may send in a round: a frame of the usual MTU.
const QUANTUM: i64 = 1_600;

/// What a port and priority holds.
#[derive(Clone, Copy, Default)]
struct Charge {
    /// Out of the pool.
    shared: u64,
    /// In its headroom.
    headroom: u64,
}

/// PFC's parameters.
#[derive(Clone, Copy)]
struct Pause {
    xoff: u64,
    beta: Option<f64>,
    resume: u64,
    headroom: u64,
}

/// Deficit round robin of one output.
#[derive(Clone, Copy, Default)]
struct Round {
    deficit: [i64; 8],
    /// Whose turn it is, and whether it got its quantum.
    turn: u8,
    served: bool,
}

/// A buffer for all inputs.
pub(crate) struct SharedBuffer<B> {
    priorities: usize,
    pool: u64,
    used: u64,
    pause: Option<Pause>,
    /// Without PFC: a queue holds at most this multiple of what is free.
    egress_alpha: Option<f64>,
    weights: Option<[u32; 8]>,
    /// Per (output, priority).
    queues: Vec<Queue>,
    egress: Vec<u64>,
    /// Per output.
    backlog: Vec<u8>,
    rounds: Vec<Round>,
    /// Per (input, priority).
    charges: Vec<Charge>,
    cells: Cells<(Packet<B>, u32)>,
}

impl<B: Body> SharedBuffer<B> {
    /// Bytes of the pool that nobody uses.
    #[inline]
    fn free(&self) -> u64 {
        self.pool - self.used
    }

    /// What a (port, priority) may be charged before it pauses its peer.
    #[inline]
    fn limit(&self, pause: &Pause) -> u64 {
        match pause.beta {
            None => pause.xoff,
            Some(beta) => (beta * self.free() as f64 / self.priorities as f64) as u64,
        }
    }

    /// Whether a packet comes out of the pool.
    #[inline]
    fn fits_in_pool(&self, charge: &Charge, bytes: u64) -> bool {
        let below = self.pause.as_ref().is_none_or(|pause| charge.shared + bytes <= self.limit(pause));
        below && bytes <= self.free()
    }

    /// The priority that an output serves next.
    #[inline]
    fn next_priority(&mut self, output: usize, sendable: u8) -> usize {
        let highest = 7 - sendable.leading_zeros() as usize;
        let Some(weights) = &self.weights else { return highest };
        let strict = (0..8).rev().find(|p| sendable & (1 << p) != 0 && weights[*p] == 0);
        if let Some(priority) = strict {
            return priority;
        }
        let round = &mut self.rounds[output];
        loop {
            let priority = usize::from(round.turn);
            if sendable & (1 << priority) != 0 {
                if !round.served {
                    round.deficit[priority] += i64::from(weights[priority]) * QUANTUM;
                    round.served = true;
                }
                let (packet, _) = self.cells.first(&self.queues[output * self.priorities + priority]);
                if i64::from(packet.bytes) <= round.deficit[priority] {
                    round.deficit[priority] -= i64::from(packet.bytes);
                    return priority;
                }
            }
            round.served = false;
            round.turn = if priority + 1 == self.priorities { 0 } else { round.turn + 1 };
        }
    }
}

impl<B: Body> Queueing<B> for SharedBuffer<B> {
    fn new(ports: usize, spec: &SwitchSpec) -> SharedBuffer<B> {
        let priorities = spec.priorities as usize;
        let shared = match spec.queueing {
            QueueingSpec::Shared(shared) => shared,
            _ => SharedSpec::default(),
        };
        let SharedSpec { beta, resume, egress_alpha, weights, .. } = shared;
        let pause = spec.pfc.map(|pfc| Pause { xoff: pfc.xoff.0, beta, resume: resume.0, headroom: pfc.headroom.0 });
        let reserved = pause.map_or(0, |pause| pause.headroom * (ports * priorities) as u64);
        SharedBuffer {
            priorities,
            pool: spec.buffer.0.saturating_sub(reserved),
            used: 0,
            pause,
            egress_alpha: egress_alpha.filter(|_| pause.is_none()),
            weights,
            queues: vec![Queue::EMPTY; ports * priorities],
            egress: vec![0; ports * priorities],
            backlog: vec![0; ports],
            rounds: vec![Round::default(); if weights.is_some() { ports } else { 0 }],
            charges: vec![Charge::default(); ports * priorities],
            cells: Cells::new(),
        }
    }

    #[inline]
    fn admits(&self, input: usize, output: usize, packet: &Packet<B>) -> bool {
        let (bytes, priority) = (u64::from(packet.bytes), packet.priority as usize);
        let charge = &self.charges[input * self.priorities + priority];
        if let Some(alpha) = self.egress_alpha {
            let queue = self.egress[output * self.priorities + priority] + bytes;
            if queue as f64 > alpha * self.free() as f64 {
                return false;
            }
        }
        self.fits_in_pool(charge, bytes) || self.pause.is_some_and(|pause| charge.headroom + bytes <= pause.headroom)
    }

    #[inline]
    fn egress(&self, output: usize, priority: usize) -> u64 {
        self.egress[output * self.priorities + priority]
    }

    #[inline]
    fn push(&mut self, input: usize, output: usize, packet: Packet<B>) -> (u64, bool) {
        let (bytes, priority) = (u64::from(packet.bytes), packet.priority as usize);
        let (lane, cell) = (output * self.priorities + priority, input * self.priorities + priority);
        let in_pool = self.fits_in_pool(&self.charges[cell], bytes);
        let charge = &mut self.charges[cell];
        if in_pool {
            charge.shared += bytes;
            self.used += bytes;
        } else {
            charge.headroom += bytes;
        }
        let now = *charge;
        self.egress[lane] += bytes;
        self.backlog[output] |= 1 << priority;
        self.cells.push(&mut self.queues[lane], (packet, input as u32));
        (now.shared + now.headroom, now.headroom > 0)
    }

    #[inline]
    fn pop(&mut self, output: usize, sendable: u8) -> (Packet<B>, usize) {
        let priority = self.next_priority(output, sendable);
        let lane = output * self.priorities + priority;
        let (packet, input) = self.cells.pop(&mut self.queues[lane]);
        let bytes = u64::from(packet.bytes);
        self.egress[lane] -= bytes;
        if self.queues[lane].is_empty() {
            self.backlog[output] &= !(1 << priority);
            if let Some(round) = self.rounds.get_mut(output) {
                round.deficit[priority] = 0;
            }
        }
        let charge = &mut self.charges[input as usize * self.priorities + priority];
        let from_headroom = charge.headroom.min(bytes);
        charge.headroom -= from_headroom;
        charge.shared -= bytes - from_headroom;
        self.used -= bytes - from_headroom;
        (packet, input as usize)
    }

    #[inline]
    fn passed(&mut self, _input: usize, _output: usize, _priority: usize) {}

    #[inline]
    fn may_resume(&self, input: usize, priority: usize) -> bool {
        let Some(pause) = &self.pause else { return true };
        let charge = &self.charges[input * self.priorities + priority];
        charge.headroom == 0 && (charge.shared == 0 || charge.shared + pause.resume <= self.limit(pause))
    }

    #[inline]
    fn backlog(&self, output: usize) -> u8 {
        self.backlog[output]
    }

    fn queued(&self) -> usize {
        self.cells.used()
    }

    fn occupancy(&self, input: usize, priority: usize) -> u64 {
        let charge = &self.charges[input * self.priorities + priority];
        charge.shared + charge.headroom
    }

    fn held(&self, input: usize, output: usize, priority: usize) -> u64 {
        let queue = &self.queues[output * self.priorities + priority];
        self.cells.iter(queue).filter(|(_, by)| *by as usize == input).map(|(packet, _)| u64::from(packet.bytes)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PfcThresholds;
    use proptest::prelude::*;
    use rnic_transport::Bytes;
    use std::collections::VecDeque;

    const HEADROOM: u64 = 3_000;

    /// PFC's threshold.
    enum Threshold {
        Static(u64),
        Dynamic(f64),
    }

    fn spec(buffer: u64, priorities: u8, threshold: Option<Threshold>, resume: u64) -> SwitchSpec {
        let headroom = Bytes(HEADROOM);
        let (beta, pfc) = match threshold {
            None => (None, None),
            Some(Threshold::Static(xoff)) => (None, Some(PfcThresholds { xoff: Bytes(xoff), xon: Bytes(0), headroom })),
            Some(Threshold::Dynamic(beta)) => {
                (Some(beta), Some(PfcThresholds { xoff: Bytes(0), xon: Bytes(0), headroom }))
            }
        };
        SwitchSpec {
            queueing: QueueingSpec::Shared(SharedSpec { beta, resume: Bytes(resume), ..SharedSpec::default() }),
            buffer: Bytes(buffer),
            pfc,
            marking: None,
            priorities,
        }
    }

    fn packet(bytes: u16, priority: u8) -> Packet<u32> {
        Packet { bytes, priority, ..Packet::default() }
    }

    /// Stores a packet of 1,000 bytes if it has room: whether its input is to pause, `None` if it is dropped.
    fn offer(buffer: &mut SharedBuffer<u32>, input: usize, output: usize, priority: u8) -> Option<bool> {
        let packet = packet(1_000, priority);
        buffer.admits(input, output, &packet).then(|| buffer.push(input, output, packet).1)
    }

    #[test]
    fn a_static_threshold() {
        // Two ports, one priority: 10,000 bytes less twice 3,000 make a pool of 4,000.
        let threshold = Some(Threshold::Static(2_500));
        let mut buffer = SharedBuffer::new(2, &spec(10_000, 1, threshold, 1_000));
        let offers: Vec<_> = (0..6).map(|_| offer(&mut buffer, 0, 1, 0)).collect();
        // Two fit below the threshold, three in the headroom.
        assert_eq!(offers, [Some(false), Some(false), Some(true), Some(true), Some(true), None]);
        assert_eq!((buffer.used, buffer.occupancy(0, 0), buffer.egress(1, 0)), (2_000, 5_000, 5_000));
        // The other input is not touched by that. Its second packet fits in what is left of the pool.
        let others: Vec<_> = (0..2).map(|_| offer(&mut buffer, 1, 1, 0)).collect();
        assert_eq!((others, buffer.used), (vec![Some(false), Some(false)], 4_000));
        // The headroom empties first, and 2,000 are more than 2,500 - 1,000.
        let mut resumes = Vec::new();
        for _ in 0..5 {
            assert_eq!(buffer.pop(1, 1).1, 0);
            resumes.push((buffer.charges[0].headroom, buffer.charges[0].shared, buffer.may_resume(0, 0)));
        }
        let by_hand = [(2_000, 2_000, false), (1_000, 2_000, false), (0, 2_000, false), (0, 1_000, true), (0, 0, true)];
        assert_eq!(resumes, by_hand);
    }

    #[test]
    fn a_pool_that_is_full_pauses_below_the_threshold() {
        let mut buffer = SharedBuffer::new(2, &spec(2 * HEADROOM + 1_500, 1, Some(Threshold::Static(9_000)), 0));
        assert_eq!([offer(&mut buffer, 0, 1, 0), offer(&mut buffer, 1, 1, 0)], [Some(false), Some(true)]);
    }

    #[test]
    fn a_dynamic_threshold_falls_as_the_pool_fills() {
        // A pool of 16,000 for two classes, beta 2: an input may be charged what is free.
        let mut buffer = SharedBuffer::new(2, &spec(16_000 + 4 * HEADROOM, 2, Some(Threshold::Dynamic(2.0)), 2_000));
        // k packets are charged while 1,000 k <= 16,000 - 1,000 (k - 1): up to 8.
        let first: Vec<_> = (0..9).map(|_| offer(&mut buffer, 0, 1, 0)).collect();
        assert_eq!(first.iter().filter(|offer| **offer == Some(false)).count(), 8);
        assert_eq!((first[8], buffer.used), (Some(true), 8_000));
        // Another class of it, with 8,000 free: 4; then 4,000 are free.
        let second: Vec<_> = (0..5).map(|_| offer(&mut buffer, 0, 1, 1)).collect();
        assert_eq!(second, [Some(false), Some(false), Some(false), Some(false), Some(true)]);
        // The first class resumes when its charge c is 2,000 below what is free, 16,000 - 4,000 - c, without headroom.
        let mut left = Vec::new();
        for _ in 0..9 {
            buffer.pop(1, 1);
            left.push(buffer.may_resume(0, 0));
        }
        // 5,000 + 2,000 <= 7,000, after the one in the headroom and three of eight.
        assert_eq!(left.iter().position(|resumes| *resumes), Some(3));
    }

    #[test]
    fn without_pfc_packets_are_dropped_at_the_egress_limit_or_when_the_pool_is_full() {
        let mut lossy = spec(10_000, 1, None, 0);
        let mut buffer = SharedBuffer::new(2, &lossy);
        let taken = (0..20).filter(|_| offer(&mut buffer, 0, 1, 0).is_some()).count();
        assert_eq!((taken, buffer.may_resume(0, 0)), (10, true));
        // A queue q of at most what is free: q + 1,000 <= 10,000 - q.
        lossy.queueing = QueueingSpec::Shared(SharedSpec { egress_alpha: Some(1.0), ..SharedSpec::default() });
        let mut buffer = SharedBuffer::new(2, &lossy);
        let taken = [1, 0].map(|output| (0..20).filter(|_| offer(&mut buffer, 0, output, 0).is_some()).count());
        // 5 for the first, then 5,000 are free: q + 1,000 <= 5,000 - q.
        assert_eq!(taken, [5, 3]);
    }

    #[test]
    fn weights_share_an_output_and_weight_0_goes_first() {
        let mut spec = spec(1_000_000, 3, None, 0);
        spec.queueing =
            QueueingSpec::Shared(SharedSpec { weights: Some([1, 3, 0, 0, 0, 0, 0, 0]), ..SharedSpec::default() });
        let mut buffer = SharedBuffer::new(2, &spec);
        for _ in 0..60 {
            // Sizes do not change the shares.
            buffer.push(0, 1, packet(400, 0));
            buffer.push(0, 1, packet(1_500, 1));
        }
        let mut bytes = [0u64; 3];
        for turn in 0..64 {
            if turn == 30 {
                buffer.push(0, 1, packet(64, 2));
            }
            let packet = buffer.pop(1, buffer.backlog(1)).0;
            assert_eq!(packet.priority == 2, turn == 30);
            bytes[usize::from(packet.priority)] += u64::from(packet.bytes);
        }
        let share = bytes[1] as f64 / bytes[0] as f64;
        assert!((2.7..3.3).contains(&share), "{bytes:?}");
        // A priority that may not be sent gives its turn away.
        assert_eq!(buffer.pop(1, 0b01).0.priority, 0);
        assert_eq!(buffer.pop(1, 0b10).0.priority, 1);
    }

    proptest! {
        /// Whatever comes and goes: charges add up, nothing exceeds the buffer, and each queue is first in, first out.
        #[test]
        fn nothing_is_lost_or_counted_twice(
            dynamic: bool, weighted: bool,
            steps in prop::collection::vec((0usize..4, 0usize..4, 0u8..2, 64u16..1_600, any::<bool>()), 1..400),
        ) {
            let threshold = if dynamic { Threshold::Dynamic(1.0) } else { Threshold::Static(5_000) };
            let mut spec = spec(8 * HEADROOM + 20_000, 2, Some(threshold), 1_000);
            if weighted && let QueueingSpec::Shared(shared) = &mut spec.queueing {
                shared.weights = Some([2, 1, 0, 0, 0, 0, 0, 0]);
            }
            let mut buffer = SharedBuffer::new(4, &spec);
            let mut model = vec![VecDeque::new(); 8];
            for (number, (input, output, priority, bytes, leave)) in steps.into_iter().enumerate() {
                let backlog = buffer.backlog(output);
                if leave && backlog != 0 {
                    let (packet, by) = buffer.pop(output, backlog);
                    let first = model[output * 2 + usize::from(packet.priority)].pop_front();
                    prop_assert_eq!(first, Some((packet.body, by, u64::from(packet.bytes))));
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
                    for input in 0..4 {
                        let held = queue.iter().filter(|(_, by, _)| *by == input).map(|(_, _, bytes)| bytes).sum::<u64>();
                        prop_assert_eq!(buffer.held(input, output, priority), held);
                    }
                }
            }
        }
    }
}
