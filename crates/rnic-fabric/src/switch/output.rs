//! An output-queued switch with a buffer for each output and priority, as NDP (SIGCOMM 2017) and Homa (SIGCOMM 2018) assume it.
//!
//! A packet waits in the queue of its output and priority, first in, first out. What does not fit there is dropped, or loses its payload
//! ([`TrimSpec`]). An output serves its priorities strictly, the highest first, or lets the highest have only so many turns in a row. There is no PFC: what a queue holds came by any
//! input.

use super::Queueing;
use super::cells::{Cells, Queue};
use crate::config::{OutputSpec, QueueingSpec, SwitchSpec, TrimSpec};
use crate::packet::{Body, Packet};

/// A buffer for each output and priority.
pub(crate) struct OutputQueued<B> {
    priorities: usize,
    /// Bytes that a queue may hold, by priority.
    limits: [u64; 8],
    trim: Option<TrimSpec>,
    /// Per output: turns of the highest priority in a row while others waited.
    row: Vec<u32>,
    /// Per (output, priority).
    queues: Vec<Queue>,
    egress: Vec<u64>,
    /// Per output: bitmap of priorities with a non-empty queue.
    backlog: Vec<u8>,
    /// Packets and the inputs that they came by.
    cells: Cells<(Packet<B>, u32)>,
}

impl<B: Body> OutputQueued<B> {
    /// The priority that an output serves next.
    #[inline]
    fn next_priority(&mut self, output: usize, sendable: u8) -> usize {
        let highest = 7 - sendable.leading_zeros() as usize;
        let Some(most) = self.trim.as_ref().and_then(|trim| trim.in_a_row) else { return highest };
        let others = sendable & !(1 << highest);
        if highest + 1 < self.priorities || others == 0 {
            self.row[output] = 0;
            return highest;
        }
        if self.row[output] < most {
            self.row[output] += 1;
            return highest;
        }
        self.row[output] = 0;
        7 - others.leading_zeros() as usize
    }
}

impl<B: Body> Queueing<B> for OutputQueued<B> {
    fn new(ports: usize, spec: &SwitchSpec) -> OutputQueued<B> {
        let priorities = spec.priorities as usize;
        let output = match spec.queueing {
            QueueingSpec::Output(output) => output,
            _ => OutputSpec::default(),
        };
        OutputQueued {
            priorities,
            limits: std::array::from_fn(|priority| output.buffer_of(priority, spec.buffer).0),
            trim: output.trim,
            row: vec![0; ports],
            queues: vec![Queue::EMPTY; ports * priorities],
            egress: vec![0; ports * priorities],
            backlog: vec![0; ports],
            cells: Cells::new(),
        }
    }

    #[inline]
    fn admits(&self, _input: usize, output: usize, packet: &Packet<B>) -> bool {
        let priority = packet.priority as usize;
        self.egress[output * self.priorities + priority] + u64::from(packet.bytes) <= self.limits[priority]
    }

    #[inline]
    fn egress(&self, output: usize, priority: usize) -> u64 {
        self.egress[output * self.priorities + priority]
    }

    fn trim(&self) -> Option<&TrimSpec> {
        self.trim.as_ref()
    }

    #[inline]
    fn push(&mut self, input: usize, output: usize, packet: Packet<B>) -> (u64, bool) {
        let lane = output * self.priorities + packet.priority as usize;
        self.egress[lane] += u64::from(packet.bytes);
        self.backlog[output] |= 1 << packet.priority;
        self.cells.push(&mut self.queues[lane], (packet, input as u32));
        (self.egress[lane], false)
    }

    #[inline]
    fn counted_at(&self, _input: usize, output: usize) -> usize {
        output
    }

    #[inline]
    fn pop(&mut self, output: usize, sendable: u8) -> (Packet<B>, usize) {
        let priority = self.next_priority(output, sendable);
        let lane = output * self.priorities + priority;
        let (packet, input) = self.cells.pop(&mut self.queues[lane]);
        self.egress[lane] -= u64::from(packet.bytes);
        if self.queues[lane].is_empty() {
            self.backlog[output] &= !(1 << priority);
        }
        (packet, input as usize)
    }

    #[inline]
    fn passed(&mut self, _input: usize, _output: usize, _priority: usize) {}

    #[inline]
    fn may_resume(&self, _input: usize, _priority: usize) -> bool {
        true
    }

    #[inline]
    fn backlog(&self, output: usize) -> u8 {
        self.backlog[output]
    }

    fn queued(&self) -> usize {
        self.cells.used()
    }

    fn occupancy(&self, input: usize, priority: usize) -> u64 {
        (0..self.backlog.len()).map(|output| self.held(input, output, priority)).sum()
    }

    fn held(&self, input: usize, output: usize, priority: usize) -> u64 {
        let queue = &self.queues[output * self.priorities + priority];
        self.cells.iter(queue).filter(|(_, by)| *by as usize == input).map(|(packet, _)| u64::from(packet.bytes)).sum()
    }
}
