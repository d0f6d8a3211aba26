//! A buffer for each output and priority, as NDP (SIGCOMM 2017) and Homa (SIGCOMM 2018) assume it.
//!
//! A packet waits in the queue of its output and priority, first in, first out. The switch drops a packet that does not
//! fit, or trims it ([`TrimSpec`]). There is no PFC: a queue holds packets from any input, so pausing one input would
//! not relieve it.

use super::cells::{Cells, Queue};
use super::{Buffer, Shape, Stored};
use crate::packet::Packet;
use crate::scheduler::Head;
use rnic_transport::Bytes;

/// A buffer for each output and priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutputSpec {
    /// Their sizes.
    pub buffers: OutputBuffers,
    /// How to trim data packets that do not fit; `None`: the switch drops them.
    pub trim: Option<TrimSpec>,
}

impl OutputSpec {
    /// Size of the buffer of a priority at each output.
    pub fn buffer_of(&self, priority: usize) -> Bytes {
        match self.buffers {
            OutputBuffers::Equal(buffer) => buffer,
            OutputBuffers::PerPriority(buffers) => buffers[priority],
        }
    }
}

/// Sizes of an output's buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputBuffers {
    /// The same for every priority.
    Equal(Bytes),
    /// By priority, the lowest first.
    PerPriority([Bytes; 8]),
}

/// Trimming: a data packet that finds no room loses its payload, and its header goes on, as in NDP (Handley et al.,
/// SIGCOMM 2017).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct TrimSpec {
    /// Length of a trimmed packet, at least [`MIN_FRAME`](crate::MIN_FRAME); a shorter packet loses its payload all the
    /// same, and keeps its length.
    pub to: u16,
    /// The priority of the trimmed packet.
    pub headers: TrimmedPriority,
    /// A header that has no room either goes back to its sender, if its body names the sender; otherwise the switch
    /// drops it.
    pub return_to_sender: bool,
}

/// The priority of a trimmed packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum TrimmedPriority {
    /// The highest.
    #[default]
    Highest,
    /// One above that of the packet, the highest at most.
    Above,
}

/// The buffers of all outputs of a switch.
pub(crate) struct OutputBuffer<B> {
    priorities: usize,
    /// Bytes that a queue may hold, by priority.
    limits: [u64; 8],
    trim: Option<TrimSpec>,
    /// Per (output, priority).
    queues: Vec<Queue>,
    egress: Vec<u64>,
    /// Per output: bitmap of priorities with a non-empty queue.
    backlog: Vec<u8>,
    /// Packets and the inputs that they came by.
    cells: Cells<(Packet<B>, u32)>,
}

impl<B: Copy> OutputBuffer<B> {
    pub(crate) fn new(spec: &OutputSpec, shape: Shape) -> OutputBuffer<B> {
        let Shape { ports, priorities, .. } = shape;
        OutputBuffer {
            priorities,
            limits: std::array::from_fn(|priority| spec.buffer_of(priority).0),
            trim: spec.trim,
            queues: vec![Queue::EMPTY; ports * priorities],
            egress: vec![0; ports * priorities],
            backlog: vec![0; ports],
            cells: Cells::new(),
        }
    }
}

impl<B: Copy> Buffer<B> for OutputBuffer<B> {
    #[inline(always)]
    fn admits(&self, _input: usize, output: usize, packet: &Packet<B>) -> bool {
        let priority = packet.priority as usize;
        self.egress[output * self.priorities + priority] + u64::from(packet.bytes) <= self.limits[priority]
    }

    #[inline(always)]
    fn egress(&self, output: usize, priority: usize) -> u64 {
        self.egress[output * self.priorities + priority]
    }

    fn trim(&self) -> Option<&TrimSpec> {
        self.trim.as_ref()
    }

    #[inline(always)]
    fn push(&mut self, input: usize, output: usize, packet: Packet<B>) -> Stored {
        let lane = output * self.priorities + packet.priority as usize;
        self.egress[lane] += u64::from(packet.bytes);
        self.backlog[output] |= 1 << packet.priority;
        self.cells.push(&mut self.queues[lane], (packet, input as u32));
        Stored { occupancy: self.egress[lane], pause: false }
    }

    #[inline(always)]
    fn counted_at(&self, _input: usize, output: usize) -> usize {
        output
    }

    #[inline(always)]
    fn head(&self, output: usize, priority: usize) -> Head {
        let queue = &self.queues[output * self.priorities + priority];
        Head { bytes: self.cells.first(queue).0.bytes, is_last: queue.is_single() }
    }

    #[inline(always)]
    fn pop(&mut self, output: usize, priority: usize) -> (Packet<B>, usize) {
        let lane = output * self.priorities + priority;
        let (packet, input) = self.cells.pop(&mut self.queues[lane]);
        self.egress[lane] -= u64::from(packet.bytes);
        if self.queues[lane].is_empty() {
            self.backlog[output] &= !(1 << priority);
        }
        (packet, input as usize)
    }

    #[inline(always)]
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
