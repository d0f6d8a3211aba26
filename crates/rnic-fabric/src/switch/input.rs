//! The input-queued switch of the IRN paper (section 4.1): virtual output queues, round-robin over inputs.
//!
//! A packet is queued at its input for its output; each output takes one from the next input that has any for it. Inputs are not limited
//! to one output at a time (a crossbar with enough speed-up). A packet leaves its input buffer when its transmission begins. Each input
//! port has `buffer` bytes per priority: what does not fit is dropped. With PFC, an occupancy above `xoff` pauses the upstream
//! transmitter in that priority, one that has fallen to `xon` resumes it, and `headroom` bytes above `xoff` take what is still on its way.
//! ECN looks at what waits for the same output and priority, at whichever inputs ([`SwitchSpec::marking`]). Of the priorities the
//! highest is served first.

use super::Queueing;
use super::cells::{Cells, Queue};
use crate::config::SwitchSpec;
use crate::packet::{Body, Packet};

/// Thresholds in bytes; without PFC `xoff` is never reached.
#[derive(Clone, Copy)]
struct Thresholds {
    buffer: u32,
    xoff: u32,
    xon: u32,
}

/// A buffer for each input.
pub(crate) struct InputQueued<B> {
    ports: usize,
    priorities: usize,
    thresholds: Thresholds,
    /// Per (output, priority, input).
    queues: Vec<Queue>,
    /// Per (output, priority): bitmap of inputs with a non-empty queue, `words` words each.
    waiting: Vec<u64>,
    words: usize,
    /// Per (output, priority): the input to look at first.
    turn: Vec<u32>,
    /// Per output: bitmap of priorities with a non-empty queue.
    backlog: Vec<u8>,
    /// Per (input, priority): bytes queued.
    occupancy: Vec<u32>,
    /// Per (output, priority): bytes that wait for it at all inputs. Counted only for ECN and telemetry.
    egress: Vec<u64>,
    cells: Cells<Packet<B>>,
}

impl<B: Body> InputQueued<B> {
    /// `input` has had its turn.
    #[inline(always)]
    fn pass_turn(&mut self, lane: usize, input: usize) {
        self.turn[lane] = if input + 1 == self.ports { 0 } else { input as u32 + 1 };
    }

    /// The first input at or after the turn, cyclically, with a packet waiting.
    #[inline(always)]
    fn next_input(&self, lane: usize) -> usize {
        let words = &self.waiting[lane * self.words..(lane + 1) * self.words];
        let turn = self.turn[lane] as usize;
        let first = turn / 64;
        let later = words[first] & (u64::MAX << (turn % 64));
        if later != 0 {
            return first * 64 + later.trailing_zeros() as usize;
        }
        for step in 1..=words.len() {
            let word = (first + step) % words.len();
            if words[word] != 0 {
                return word * 64 + words[word].trailing_zeros() as usize;
            }
        }
        debug_assert!(false, "an output with a backlog has a waiting input");
        0
    }
}

impl<B: Body> Queueing<B> for InputQueued<B> {
    fn new(ports: usize, spec: &SwitchSpec) -> InputQueued<B> {
        let priorities = spec.priorities as usize;
        let words = ports.div_ceil(64);
        let limit = |bytes: u64| bytes.min(u64::from(u32::MAX / 2)) as u32;
        let thresholds = Thresholds {
            buffer: limit(spec.pfc.map_or(spec.buffer.0, |pfc| pfc.xoff.0 + pfc.headroom.0)),
            xoff: spec.pfc.map_or(u32::MAX, |pfc| limit(pfc.xoff.0)),
            xon: spec.pfc.map_or(0, |pfc| limit(pfc.xon.0)),
        };
        InputQueued {
            ports,
            priorities,
            thresholds,
            queues: vec![Queue::EMPTY; ports * priorities * ports],
            waiting: vec![0; ports * priorities * words],
            words,
            turn: vec![0; ports * priorities],
            backlog: vec![0; ports],
            occupancy: vec![0; ports * priorities],
            egress: vec![0; if spec.marking.is_some() || B::TELEMETRY { ports * priorities } else { 0 }],
            cells: Cells::new(),
        }
    }

    #[inline(always)]
    fn admits(&self, input: usize, _output: usize, packet: &Packet<B>) -> bool {
        let cell = input * self.priorities + packet.priority as usize;
        self.occupancy[cell] + u32::from(packet.bytes) <= self.thresholds.buffer
    }

    #[inline(always)]
    fn egress(&self, output: usize, priority: usize) -> u64 {
        self.egress.get(output * self.priorities + priority).copied().unwrap_or(0)
    }

    fn waiting(&self, output: usize, priority: usize) -> u64 {
        let lane = output * self.priorities + priority;
        let queues = &self.queues[lane * self.ports..(lane + 1) * self.ports];
        let counted = || queues.iter().flat_map(|queue| self.cells.iter(queue)).map(|p| u64::from(p.bytes)).sum();
        self.egress.get(lane).copied().unwrap_or_else(counted)
    }

    #[inline(always)]
    fn push(&mut self, input: usize, output: usize, packet: Packet<B>) -> (u64, bool) {
        let priority = packet.priority as usize;
        let lane = output * self.priorities + priority;
        if let Some(bytes) = self.egress.get_mut(lane) {
            *bytes += u64::from(packet.bytes);
        }
        let queue = &mut self.queues[lane * self.ports + input];
        if queue.is_empty() {
            self.waiting[lane * self.words + input / 64] |= 1 << (input % 64);
            self.backlog[output] |= 1 << priority;
        }
        self.cells.push(queue, packet);
        let occupancy = &mut self.occupancy[input * self.priorities + priority];
        *occupancy += u32::from(packet.bytes);
        (u64::from(*occupancy), *occupancy > self.thresholds.xoff)
    }

    #[inline(always)]
    fn pop(&mut self, output: usize, sendable: u8) -> (Packet<B>, usize) {
        let priority = 7 - sendable.leading_zeros() as usize;
        let lane = output * self.priorities + priority;
        let input = self.next_input(lane);
        self.pass_turn(lane, input);
        let queue = &mut self.queues[lane * self.ports + input];
        let packet = self.cells.pop(queue);
        if let Some(bytes) = self.egress.get_mut(lane) {
            *bytes -= u64::from(packet.bytes);
        }
        if queue.is_empty() {
            let words = &mut self.waiting[lane * self.words..(lane + 1) * self.words];
            words[input / 64] &= !(1 << (input % 64));
            if words.iter().all(|w| *w == 0) {
                self.backlog[output] &= !(1 << priority);
            }
        }
        self.occupancy[input * self.priorities + priority] -= u32::from(packet.bytes);
        (packet, input)
    }

    #[inline(always)]
    fn passed(&mut self, input: usize, output: usize, priority: usize) {
        self.pass_turn(output * self.priorities + priority, input);
    }

    #[inline(always)]
    fn may_resume(&self, input: usize, priority: usize) -> bool {
        self.occupancy[input * self.priorities + priority] <= self.thresholds.xon
    }

    #[inline(always)]
    fn backlog(&self, output: usize) -> u8 {
        self.backlog[output]
    }

    fn queued(&self) -> usize {
        self.cells.used()
    }

    fn occupancy(&self, input: usize, priority: usize) -> u64 {
        u64::from(self.occupancy[input * self.priorities + priority])
    }

    fn held(&self, input: usize, output: usize, priority: usize) -> u64 {
        let queue = &self.queues[(output * self.priorities + priority) * self.ports + input];
        self.cells.iter(queue).map(|packet| u64::from(packet.bytes)).sum()
    }
}
