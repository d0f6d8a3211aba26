//! The queues of a switch that stores packets at its outputs: one for each output and priority, first in, first out.

use super::Shape;
use super::cells::{Cells, Queue};
use crate::packet::Packet;
use crate::scheduler::Head;

/// The packets that wait at the outputs of a switch, and their bytes.
pub(super) struct OutputQueues<B> {
    priorities: usize,
    /// Per (output, priority): the queue of waiting packets.
    queues: Vec<Queue>,
    /// Per (output, priority): bytes that wait.
    bytes: Vec<u64>,
    /// Per output: bitmap of priorities with a non-empty queue.
    backlog: Vec<u8>,
    /// The packets of all queues, each with the input on which it arrived.
    cells: Cells<(Packet<B>, u32)>,
}

impl<B: Copy> OutputQueues<B> {
    pub(super) fn new(shape: Shape) -> OutputQueues<B> {
        let Shape { ports, priorities, .. } = shape;
        OutputQueues {
            priorities,
            queues: vec![Queue::EMPTY; ports * priorities],
            bytes: vec![0; ports * priorities],
            backlog: vec![0; ports],
            cells: Cells::new(),
        }
    }

    /// Bytes that wait for an output in a priority.
    #[inline(always)]
    pub(super) fn bytes(&self, output: usize, priority: usize) -> u64 {
        self.bytes[output * self.priorities + priority]
    }

    /// Appends a packet to its queue, and returns the bytes that the queue then holds.
    #[inline(always)]
    pub(super) fn push(&mut self, input: usize, output: usize, packet: Packet<B>) -> u64 {
        let lane = output * self.priorities + packet.priority as usize;
        self.bytes[lane] += u64::from(packet.bytes);
        self.backlog[output] |= 1 << packet.priority;
        self.cells.push(&mut self.queues[lane], (packet, input as u32));
        self.bytes[lane]
    }

    /// The packet that [`OutputQueues::pop`] would return; the queue must not be empty.
    #[inline(always)]
    pub(super) fn head(&self, output: usize, priority: usize) -> Head {
        let queue = &self.queues[output * self.priorities + priority];
        Head { bytes: self.cells.first(queue).0.bytes, is_last: queue.is_single() }
    }

    /// Removes the first packet of a queue, and returns it with its input; the queue must not be empty.
    #[inline(always)]
    pub(super) fn pop(&mut self, output: usize, priority: usize) -> (Packet<B>, usize) {
        let lane = output * self.priorities + priority;
        let (packet, input) = self.cells.pop(&mut self.queues[lane]);
        self.bytes[lane] -= u64::from(packet.bytes);
        if self.queues[lane].is_empty() {
            self.backlog[output] &= !(1 << priority);
        }
        (packet, input as usize)
    }

    /// Bitmap of the priorities in which packets wait for an output.
    #[inline(always)]
    pub(super) fn backlog(&self, output: usize) -> u8 {
        self.backlog[output]
    }

    /// Number of packets that wait.
    pub(super) fn queued(&self) -> usize {
        self.cells.used()
    }

    /// Number of outputs.
    pub(super) fn outputs(&self) -> usize {
        self.backlog.len()
    }

    /// Bytes that arrived on `input` in a priority and wait for `output`. The function walks through the queue to count
    /// them.
    pub(super) fn held(&self, input: usize, output: usize, priority: usize) -> u64 {
        let queue = &self.queues[output * self.priorities + priority];
        self.cells.iter(queue).filter(|(_, by)| *by as usize == input).map(|(packet, _)| u64::from(packet.bytes)).sum()
    }
}
