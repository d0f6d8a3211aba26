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
use crate::config::{PauseThreshold, SharedSpec, SwitchSpec};
use crate::packet::Packet;

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
    threshold: PauseThreshold,
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

impl<B: Copy + Default> SharedBuffer<B> {
    /// Bytes of the pool that nobody uses.
    #[inline]
    fn free(&self) -> u64 {
        self.pool - self.used
    }

    /// What a (port, priority) may be charged before it pauses its peer.
    #[inline]
    fn limit(&self, pause: &Pause) -> u64 {
        match pause.threshold {
            PauseThreshold::Static(bytes) => bytes.0,
            PauseThreshold::Dynamic(beta) => (beta * self.free() as f64 / self.priorities as f64) as u64,
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

impl<B: Copy + Default> Queueing<B> for SharedBuffer<B> {
    fn new(ports: usize, spec: &SwitchSpec) -> SharedBuffer<B> {
        let priorities = spec.priorities as usize;
        let shared = spec.shared.unwrap_or_default();
        let SharedSpec { threshold, resume, egress_alpha, weights } = shared;
        let pause = spec.pfc.map(|pfc| Pause {
            threshold: threshold.unwrap_or(PauseThreshold::Static(pfc.xoff)),
            resume: resume.0,
            headroom: pfc.headroom.0,
        });
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

    fn holds(&self, input: usize, output: usize, priority: usize) -> bool {
        let queue = &self.queues[output * self.priorities + priority];
        self.cells.iter(queue).any(|(_, by)| *by as usize == input)
    }
}
