//! P4 to RTL: a checked program becomes two pipelines in Verilog-2005, with its registers and match tables.
//!
//! [`generate`] turns the control flow of a pipeline into data flow: every statement is executed, and its predicate
//! says whether it has an effect. Each operation gets a stage. A packet may enter in every
//! cycle, unless two stages use the same registers; [`PipelineRtl::distance`] is the minimum distance.
//!
//! What has no hardware form is refused with a sentence ([`RtlError`]): loops of the parser, more than eight positions
//! of a header in the packet, more than twelve headers that are emitted conditionally, and a register array of
//! read-modify-write operations with two accesses. A scheduler has 16 messages in hardware; the virtual machine has a
//! FIFO for further ones.

mod bench;
mod flow;
mod net;
mod tables;
mod verilog;

pub use bench::OutputWords;
pub use net::INFO_CYCLES;
pub use verilog::{CallSite, PipelineRtl, Port, Rtl, generate};

use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::{Program, Rejected};

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

    /// The error with its position in the source text of `program`; `None` if the position is not known.
    pub fn rejected(&self, program: &Program) -> Option<Rejected> {
        let error =
            Diagnostic::new(self.span?, format!("no hardware form: {}", self.message), "in a pipeline of fixed length");
        let sources = program.sources().clone();
        (!sources.files.is_empty()).then(|| Rejected { errors: vec![error.with_help(self.help)], sources })
    }
}
