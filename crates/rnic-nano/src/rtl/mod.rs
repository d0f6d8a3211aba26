//! P4 to RTL: a checked program becomes two pipelines in Verilog-2005, with its registers and match tables.
//!
//! [`generate`] turns the control flow of a pipeline into data flow: every statement is executed, and its predicate
//! says whether it has an effect. Each operation gets a stage. A packet may enter in every
//! cycle, unless two stages use the same registers; [`PipelineRtl::distance`] is the minimum distance.
//!
//! What has no hardware form is refused with a sentence ([`RtlError`]): loops of the parser, headers at a position that
//! depends on the packet, headers that are emitted conditionally, and a register array of read-modify-write operations
//! with two accesses. A scheduler has 16 messages in hardware; the virtual machine has a FIFO for further ones.

mod bench;
mod flow;
mod net;
mod verilog;

pub use bench::OutputWords;
pub use verilog::{CallSite, PipelineRtl, Port, Rtl, generate};

use crate::source::Span;

/// A construct without hardware form.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}; {help}")]
pub struct RtlError {
    /// The construct, and why it has no hardware form.
    pub message: String,
    /// What has one.
    pub help: &'static str,
    /// The source range of the construct, if the checked program still knows it.
    pub span: Option<Span>,
}

impl RtlError {
    fn new(message: impl Into<String>, help: &'static str, span: Option<Span>) -> RtlError {
        RtlError { message: message.into(), help, span }
    }
}
