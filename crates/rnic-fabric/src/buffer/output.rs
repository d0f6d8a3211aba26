//! A buffer for each output and priority, as NDP (SIGCOMM 2017) and Homa (SIGCOMM 2018) assume it.
//!
//! A packet waits in the queue of its output and priority, first in, first out. The switch drops a packet that does not
//! fit, or trims it ([`TrimSpec`]). There is no PFC: a queue holds packets from any input, so pausing one input would
//! not relieve it.

use super::output_queues::OutputQueues;
use super::{Buffer, Shape, Stored};
use crate::packet::Packet;
use crate::scheduler::Head;
use rnic_transport::Bytes;

/// The buffers of a switch that has one buffer for each output and priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutputSpec {
    /// Sizes of the buffers of one output; every output has buffers of the same sizes.
    pub buffers: OutputBuffers,
    /// How to trim data packets that do not fit; `None`: the switch drops them.
    pub trim: Option<TrimSpec>,
    /// Whether the packet that an output is transmitting still counts in its queue when the switch decides whether
    /// another packet fits. ECN, telemetry and results never count this packet.
    pub count_in_service: bool,
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

/// Sizes of the buffers of one output of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputBuffers {
    /// One size, the same for every priority.
    Equal(Bytes),
    /// One size for each priority, the lowest priority first.
    PerPriority([Bytes; 8]),
}

/// Trimming as in NDP (Handley et al., SIGCOMM 2017): a switch removes the payload of a data packet that does not fit
/// into the buffer, and forwards the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct TrimSpec {
    /// Length of a trimmed packet in bytes, at least [`MIN_FRAME`](crate::MIN_FRAME). A packet that is shorter keeps
    /// its length, but loses its payload too.
    pub to: u16,
    /// The priority of trimmed packets.
    pub headers: TrimmedPriority,
    /// Whether the switch returns a trimmed packet's header to the sender if the buffer has no room for the header. The
    /// packet's body must name the sender; otherwise the switch drops the header.
    pub return_to_sender: bool,
}

/// The priority of a trimmed packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum TrimmedPriority {
    /// The highest priority of the switch.
    #[default]
    Highest,
    /// The priority above the packet's own priority, but at most the highest priority of the switch.
    Above,
    /// The priority below the packet's own priority, but at least the lowest priority of the switch.
    Below,
}

/// The packet that an output is transmitting.
#[derive(Clone, Copy, Default)]
struct InService {
    /// Length of the packet in bytes; 0 if the transmitter is idle.
    bytes: u16,
    priority: u8,
}

/// The buffers of all outputs of a switch. `IN_SERVICE` says whether the packet that an output is transmitting counts
/// in its queue ([`OutputSpec::count_in_service`]).
pub(crate) struct OutputBuffer<B, const IN_SERVICE: bool> {
    /// Bytes that a queue may hold, by priority.
    limits: [u64; 8],
    /// The same of each output; empty while all outputs have `limits`.
    own_limits: Vec<[u64; 8]>,
    trim: Option<TrimSpec>,
    queues: OutputQueues<B>,
    /// Per output: the packet that it is transmitting; empty unless `IN_SERVICE` is set.
    in_service: Vec<InService>,
}

impl<B: Copy, const IN_SERVICE: bool> OutputBuffer<B, IN_SERVICE> {
    pub(crate) fn new(spec: &OutputSpec, shape: Shape) -> OutputBuffer<B, IN_SERVICE> {
        OutputBuffer {
            limits: std::array::from_fn(|priority| spec.buffer_of(priority).0),
            own_limits: Vec::new(),
            trim: spec.trim,
            queues: OutputQueues::new(shape),
            in_service: vec![InService::default(); if IN_SERVICE { shape.ports } else { 0 }],
        }
    }

    /// Bytes that a queue may hold.
    #[inline(always)]
    fn limit(&self, output: usize, priority: usize) -> u64 {
        if self.own_limits.is_empty() { self.limits[priority] } else { self.own_limits[output][priority] }
    }

    /// Bytes of the packet that an output is transmitting, if the packet counts in the queue of this priority.
    #[inline(always)]
    fn bytes_in_service(&self, output: usize, priority: usize) -> u64 {
        if !IN_SERVICE || usize::from(self.in_service[output].priority) != priority {
            return 0;
        }
        u64::from(self.in_service[output].bytes)
    }

    #[inline(always)]
    fn serve(&mut self, output: usize, packet: &Packet<B>) {
        if IN_SERVICE {
            self.in_service[output] = InService { bytes: packet.bytes, priority: packet.priority };
        }
    }
}

impl<B: Copy, const IN_SERVICE: bool> Buffer<B> for OutputBuffer<B, IN_SERVICE> {
    #[inline(always)]
    fn admits(&self, _input: usize, output: usize, packet: &Packet<B>) -> bool {
        let priority = packet.priority as usize;
        let ahead = self.queues.bytes(output, priority) + self.bytes_in_service(output, priority);
        ahead + u64::from(packet.bytes) <= self.limit(output, priority)
    }

    #[inline(always)]
    fn counts_in_service(&self) -> bool {
        IN_SERVICE
    }

    fn served(&mut self, output: usize) {
        if IN_SERVICE {
            self.in_service[output] = InService::default();
        }
    }

    fn scale(&mut self, output: usize, share: f64) {
        if self.own_limits.is_empty() {
            if share == 1.0 {
                return;
            }
            self.own_limits = vec![self.limits; self.queues.outputs()];
        }
        self.own_limits[output] = self.limits.map(|limit| (limit as f64 * share) as u64);
    }

    #[inline(always)]
    fn passed(&mut self, _input: usize, output: usize, packet: &Packet<B>) {
        self.serve(output, packet);
    }

    #[inline(always)]
    fn egress(&self, output: usize, priority: usize) -> u64 {
        self.queues.bytes(output, priority)
    }

    fn trim(&self) -> Option<&TrimSpec> {
        self.trim.as_ref()
    }

    #[inline(always)]
    fn push(&mut self, input: usize, output: usize, packet: Packet<B>) -> Stored {
        Stored { occupancy: self.queues.push(input, output, packet), pause: false }
    }

    #[inline(always)]
    fn counted_at(&self, _input: usize, output: usize) -> usize {
        output
    }

    #[inline(always)]
    fn head(&self, output: usize, priority: usize) -> Head {
        self.queues.head(output, priority)
    }

    #[inline(always)]
    fn pop(&mut self, output: usize, priority: usize) -> (Packet<B>, usize) {
        let (packet, input) = self.queues.pop(output, priority);
        self.serve(output, &packet);
        (packet, input)
    }

    #[inline(always)]
    fn backlog(&self, output: usize) -> u8 {
        self.queues.backlog(output)
    }

    fn queued(&self) -> usize {
        self.queues.queued()
    }

    fn occupancy(&self, input: usize, priority: usize) -> u64 {
        let mut held = vec![0; self.queues.outputs()];
        self.held(&[input], priority, &mut held);
        held.iter().sum()
    }

    fn held(&self, inputs: &[usize], priority: usize, held: &mut [u64]) {
        self.queues.held(inputs, priority, held);
    }
}
