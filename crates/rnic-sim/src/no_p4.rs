//! Stands in for the module `p4` in a build without the cargo feature `p4`, which has no P4 compiler.

use rnic_spec::{P4Compiler, P4Error, P4Program};
use rnic_transport::FlowConfig;
use rnic_transport::transports::{MessageFacts, ProgramVisitor};

/// The compiler for the vocabulary of scenarios: none.
pub(crate) const COMPILER: Option<P4Compiler> = None;

/// The compiled program of a run's transport, which cannot exist.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum P4Plan {}

impl P4Plan {
    /// The error that this build has no compiler.
    pub(crate) fn new(p4: &P4Program, _: &MessageFacts, _: &FlowConfig) -> Result<P4Plan, P4Error> {
        Err(P4Error::NoCompiler { file: p4.source.file.clone() })
    }

    /// The warnings of the compiler, which this build does not have.
    pub(crate) fn warnings(&self) -> Vec<String> {
        match *self {}
    }

    /// Has nothing to select from.
    pub(crate) fn select<V: ProgramVisitor>(&self, _: V) -> V::Output {
        match *self {}
    }
}
