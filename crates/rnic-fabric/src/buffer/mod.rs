//! Buffers of simulated switches: where a switch stores waiting packets, which arriving packets have room, and when PFC
//! pauses a link.
//!
//! Any kind of buffer can be combined with any scheduler, with ECN marking on enqueue or on dequeue, and with any path
//! selection. PFC is an option of two kinds of buffer, [`InputSpec`] and [`SharedSpec`].
//!
//! To add a kind of buffer, write a file beside this one with its specification and its implementation of [`Buffer`].
//! Then add a variant to [`BufferSpec`] here, and to the enum `Switches` in `switch/switches.rs`.

mod arbiter;
mod cells;
mod input;
mod output;
mod output_queues;
mod shared;

pub use arbiter::{ArbiterSpec, Quantum, SEGMENT};
pub(crate) use arbiter::{OtherArbiter, RoundRobin};
pub(crate) use input::InputBuffer;
pub use input::{InputSpec, PfcThresholds};
pub(crate) use output::OutputBuffer;
pub use output::{OutputBuffers, OutputSpec, TrimSpec, TrimmedPriority};
pub(crate) use shared::SharedBuffer;
pub use shared::{PauseThreshold, SharedPfc, SharedSpec};

use crate::packet::Packet;
use crate::scheduler::Head;
use rnic_transport::Bytes;

/// Where a switch stores waiting packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum BufferSpec {
    /// At the inputs, in virtual output queues.
    Input(InputSpec),
    /// At the outputs, in one buffer that all ports share.
    Shared(SharedSpec),
    /// At the outputs, each of which has a buffer of its own for each priority. This buffer has no PFC.
    Output(OutputSpec),
}

impl BufferSpec {
    /// PFC headroom: the bytes reserved for each port and priority; `None` without PFC.
    pub fn pfc_headroom(&self) -> Option<Bytes> {
        match self {
            BufferSpec::Input(input) => input.pfc.map(|pfc| pfc.headroom),
            BufferSpec::Shared(SharedSpec { pfc: Some(pfc), .. }) => Some(pfc.headroom),
            BufferSpec::Shared(_) | BufferSpec::Output(_) => None,
        }
    }

    /// Bitmap of the priorities that PFC protects; 0 without PFC.
    pub fn lossless_priorities(&self) -> u8 {
        match self {
            BufferSpec::Shared(SharedSpec { pfc: Some(pfc), .. }) => pfc.lossless,
            other if other.has_pfc() => u8::MAX,
            _ => 0,
        }
    }

    /// Whether the switch sends PFC pauses.
    pub fn has_pfc(&self) -> bool {
        self.pfc_headroom().is_some()
    }
}

/// Dimensions of a switch, from which its buffer is built.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) ports: usize,
    pub(crate) priorities: usize,
    /// Whether the buffer must count the bytes of each egress queue, because ECN or telemetry reads them.
    pub(crate) reads_egress: bool,
}

/// The state of a buffer after it has stored a packet.
pub(crate) struct Stored {
    /// Bytes of the packet's priority that the buffer holds for the packet's input, or for its output if
    /// [`Buffer::counted_at`] returns the output.
    pub(crate) occupancy: u64,
    /// Whether PFC must pause the packet's priority at the peer of its input: the transmitter at the other end of the
    /// link.
    pub(crate) pause: bool,
}

/// The buffer of one switch. Inputs, outputs and priorities count from 0; sizes are in bytes.
pub(crate) trait Buffer<B> {
    /// Whether the buffer has room for a packet that arrives on `input` and leaves by `output`.
    fn admits(&self, input: usize, output: usize, packet: &Packet<B>) -> bool;
    /// Whether the packet that an output is transmitting counts in its queue. If it does, the switch calls
    /// [`Buffer::served`] before [`Buffer::admits`] if the output's transmitter is idle.
    fn counts_in_service(&self) -> bool {
        false
    }
    /// Tells the buffer that the transmitter of an output is idle.
    fn served(&mut self, _output: usize) {}
    /// Changes the queues of an output to this share of their size; buffers that are not those of one output stay.
    fn scale(&mut self, _output: usize, _share: f64) {}
    /// Bytes that wait for an output in a priority, for ECN and telemetry; zero if [`Shape::reads_egress`] is not set.
    fn egress(&self, output: usize, priority: usize) -> u64;
    /// Bytes that wait for an output in a priority. Unless the buffer counts them, this walks through the queue.
    fn queued_bytes(&self, output: usize, priority: usize) -> u64 {
        self.egress(output, priority)
    }
    /// Adds the bytes that wait for each output in a priority. Unless the buffer counts them, this walks through
    /// queues.
    fn add_queued(&self, priority: usize, queued: &mut [u64]) {
        queued.iter_mut().enumerate().for_each(|(output, bytes)| *bytes += self.egress(output, priority));
    }
    /// Tells the buffer that the switch refused a packet for which the buffer had no room. A buffer with hysteresis
    /// then refuses more packets.
    fn refused(&mut self, _input: usize, _priority: usize) {}
    /// How to trim a data packet for which the buffer has no room; `None`: the switch drops such a packet.
    fn trim(&self) -> Option<&TrimSpec> {
        None
    }
    /// Stores a packet for which the buffer has room.
    fn push(&mut self, input: usize, output: usize, packet: Packet<B>) -> Stored;
    /// The port whose occupancy [`Buffer::push`] returns: the input, or the output if buffers are at the outputs.
    fn counted_at(&self, input: usize, _output: usize) -> usize {
        input
    }
    /// The packet that [`Buffer::pop`] would return; a packet must wait for the output in the priority.
    fn head(&self, output: usize, priority: usize) -> Head;
    /// Removes the first packet that waits for an output in a priority, and returns it with the input on which it
    /// arrived; a packet must wait for the output in the priority.
    fn pop(&mut self, output: usize, priority: usize) -> (Packet<B>, usize);
    /// Tells the buffer that the switch forwarded a packet at once, without storing it. In a round robin over the
    /// inputs, the packet counts towards the turn of its input. A buffer that counts the packet in service counts it.
    fn passed(&mut self, _input: usize, _output: usize, _packet: &Packet<B>) {}
    /// Whether the switch may resume a priority that it has paused at the peer of `input`. The switch asks after each
    /// packet from this input that leaves the buffer.
    fn may_resume(&self, _input: usize, _priority: usize) -> bool {
        true
    }
    /// Bitmap of the priorities in which packets wait for an output.
    fn backlog(&self, output: usize) -> u8;
    /// Number of packets in the buffer.
    fn queued(&self) -> usize;
    /// Bytes in the buffer that arrived on `input` in a priority.
    fn occupancy(&self, input: usize, priority: usize) -> u64;
    /// Adds the bytes that arrived on some inputs in a priority, by the outputs for which they wait. `held` has a row
    /// for each of `inputs`, which differ; a row has a number for each output.
    fn held(&self, inputs: &[usize], priority: usize, held: &mut [u64]);
}
