//! Buffers: where a switch stores the packets that wait, which packets have room, and when PFC pauses a link.
//!
//! Every buffer works with every scheduler, with ECN marking at either end of the queue, and with every path selection.
//! PFC is part of the buffers that have it: [`InputSpec`] and [`SharedSpec`].
//!
//! To add a buffer, write a file beside this one with its specification and its [`Buffer`], add its variant to
//! [`BufferSpec`] here, and its line to `switch/switches.rs`.

mod arbiter;
mod cells;
mod input;
mod output;
mod output_queues;
mod shared;

pub use arbiter::{ArbiterSpec, Quantum};
pub(crate) use input::InputBuffer;
pub use input::{InputSpec, PfcThresholds};
pub(crate) use output::OutputBuffer;
pub use output::{OutputBuffers, OutputSpec, TrimSpec, TrimmedPriority};
pub(crate) use shared::SharedBuffer;
pub use shared::{PauseThreshold, SharedLimits, SharedPfc, SharedSpec};

use crate::packet::Packet;
use crate::scheduler::Head;
use rnic_transport::Bytes;

/// Where a switch stores the packets that wait.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum BufferSpec {
    /// At the inputs, in virtual output queues.
    Input(InputSpec),
    /// At the outputs, in one buffer that all ports share.
    Shared(SharedSpec),
    /// At the outputs, each of which has a buffer of its own for each priority. It has no PFC.
    Output(OutputSpec),
}

impl BufferSpec {
    /// PFC's headroom of each port and priority; `None` without PFC.
    pub fn pfc_headroom(&self) -> Option<Bytes> {
        match self {
            BufferSpec::Input(input) => input.pfc.map(|pfc| pfc.headroom),
            BufferSpec::Shared(SharedSpec { limits: SharedLimits::Pfc(pfc), .. }) => Some(pfc.headroom),
            BufferSpec::Shared(_) | BufferSpec::Output(_) => None,
        }
    }

    /// Whether the switch sends PFC pauses.
    pub fn has_pfc(&self) -> bool {
        self.pfc_headroom().is_some()
    }
}

/// Size of a switch.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) ports: usize,
    pub(crate) priorities: usize,
    /// Whether ECN or telemetry reads the bytes of each egress queue.
    pub(crate) reads_egress: bool,
}

/// The state of a buffer after it has stored a packet.
pub(crate) struct Stored {
    /// Bytes in the packet's priority at the port that [`Buffer::counted_at`] names.
    pub(crate) occupancy: u64,
    /// Whether the peer of the packet's input must pause the packet's priority.
    pub(crate) pause: bool,
}

/// The buffer of one switch. Inputs, outputs and priorities count from 0; sizes are in bytes.
pub(crate) trait Buffer<B> {
    /// Whether a packet has room.
    fn admits(&self, input: usize, output: usize, packet: &Packet<B>) -> bool;
    /// Bytes that wait for an output in a priority, for ECN and telemetry; zero if [`Shape::reads_egress`] is not set.
    fn egress(&self, output: usize, priority: usize) -> u64;
    /// Bytes that wait for an output in a priority, possibly at the cost of a walk through the queue.
    fn queued_bytes(&self, output: usize, priority: usize) -> u64 {
        self.egress(output, priority)
    }
    /// The switch refused a packet that had no room.
    fn refused(&mut self, _input: usize, _priority: usize) {}
    /// How to trim a data packet that has no room; `None`: the switch drops the packet.
    fn trim(&self) -> Option<&TrimSpec> {
        None
    }
    /// Stores a packet that has room.
    fn push(&mut self, input: usize, output: usize, packet: Packet<B>) -> Stored;
    /// The port whose occupancy [`Buffer::push`] returns.
    fn counted_at(&self, input: usize, _output: usize) -> usize {
        input
    }
    /// The packet that [`Buffer::pop`] would return; some packet must wait.
    fn head(&self, output: usize, priority: usize) -> Head;
    /// Removes the first packet that waits for an output in a priority, and returns it with the input by which it came;
    /// some packet must wait.
    fn pop(&mut self, output: usize, priority: usize) -> (Packet<B>, usize);
    /// The switch sent a packet on without storing it.
    fn passed(&mut self, _input: usize, _output: usize, _packet: &Packet<B>) {}
    /// Whether the peer of an input may resume a priority that it has paused; asked after a packet from that input has
    /// left.
    fn may_resume(&self, _input: usize, _priority: usize) -> bool {
        true
    }
    /// Bitmap of the priorities in which packets wait for an output.
    fn backlog(&self, output: usize) -> u8;
    /// Number of packets that wait.
    fn queued(&self) -> usize;
    /// Bytes that came by `input` in a priority and wait.
    fn occupancy(&self, input: usize, priority: usize) -> u64;
    /// Bytes that came by `input` in a priority and wait for `output`.
    fn held(&self, input: usize, output: usize, priority: usize) -> u64;
}
