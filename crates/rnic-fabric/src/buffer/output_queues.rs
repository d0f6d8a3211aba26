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

    /// Adds the bytes that arrived on some inputs in a priority, by outputs ([`Buffer::held`](super::Buffer::held)).
    /// The function walks once through the queues of the priority.
    pub(super) fn held(&self, inputs: &[usize], priority: usize, held: &mut [u64]) {
        let outputs = self.outputs();
        let mut rows = vec![None; outputs];
        inputs.iter().zip((0..).step_by(outputs)).for_each(|(input, row)| rows[*input] = Some(row));
        for output in 0..outputs {
            let packets = self.cells.iter(&self.queues[output * self.priorities + priority]);
            for (row, packet) in packets.filter_map(|(packet, by)| Some((rows[*by as usize]?, packet))) {
                held[row + output] += u64::from(packet.bytes);
            }
        }
    }
}
