//! The time that a host needs for packets besides the link: in its kernel or in the blocks of its NIC. Most runs have
//! neither, so a NIC asks once for each packet, and what follows is away from its hot path.

use super::pipeline::Pipeline;
use super::stack::Stack;
use crate::host::config::ProcessingConfig;
use rnic_transport::Time;

/// What processes the packets of one host, which have the type `P`.
pub(super) enum Processing<P> {
    /// The network stack in the host's kernel.
    Kernel(Stack<P>),
    /// The blocks of a NIC in hardware.
    Pipeline(Pipeline<P>),
}

impl<P> Processing<P> {
    pub(super) fn new(config: ProcessingConfig) -> Processing<P> {
        match config {
            ProcessingConfig::Kernel(config) => Processing::Kernel(Stack::new(config)),
            ProcessingConfig::Pipeline(config) => Processing::Pipeline(Pipeline::new(config)),
        }
    }

    /// When the next packet of the flow with this hash may leave, as far as the kernel is concerned.
    #[cold]
    pub(super) fn may_send(&self, hash: u32) -> Time {
        match self {
            Processing::Kernel(stack) => stack.may_send(hash),
            Processing::Pipeline(_) => Time::ZERO,
        }
    }

    /// When the next packet that has arrived is processed; [`Time::MAX`] if there is none.
    #[cold]
    pub(super) fn next(&self) -> Time {
        match self {
            Processing::Kernel(stack) => stack.next(),
            Processing::Pipeline(pipeline) => pipeline.next(),
        }
    }

    /// Takes the next packet that is processed by `now`.
    #[cold]
    pub(super) fn take(&mut self, now: Time) -> Option<P> {
        match self {
            Processing::Kernel(stack) => stack.take(now),
            Processing::Pipeline(pipeline) => pipeline.take(now),
        }
    }
}
