//! From the checked program to what runs.
//!
//! `expression`, `statement` and `packet` write straightforward code over as many virtual registers as it takes. `optimise` removes copies
//! and what nobody needs, `allocate` finds a place for each value in the 256 registers of the machine.

mod allocate;
pub mod code;
mod constants;
mod expression;
mod optimise;
mod packet;
mod statement;
#[cfg(test)]
mod tests;

use crate::diagnostic::Diagnostic;
use crate::hir;
use crate::runtime::Binding;
use crate::source::Span;
pub use allocate::Executable;
pub(crate) use allocate::REGISTERS;
use code::{Code, Op, Pair};
use std::collections::BTreeMap;

/// Bytes that telemetry adds to a packet at most.
pub(crate) const TELEMETRY_BYTES: u32 = 16 * rnic_transport::telemetry::Telemetry::MAX_HOPS as u32;

/// Most instructions of a pipeline. What optimises them takes memory by the square.
const MOST_OPS: usize = 1 << 13;

/// What a pipeline is lowered with.
pub(crate) struct Architecture<'a> {
    /// Names of what it gives; a pipeline finds the values by their places here.
    pub(crate) inputs: &'a [&'a str],
    /// From here on they never change for a NIC.
    pub(crate) first_pinned: usize,
    /// Names of what it takes, and what that is if the program has none of this name.
    pub(crate) outputs: &'a [(&'a str, u64)],
    /// Functions of the fixed blocks may be called.
    pub(crate) blocks: bool,
    /// What the program's instances are.
    pub(crate) instances: &'a [Binding],
    /// Bytes of an arriving header's buffer. Telemetry may follow it.
    pub(crate) header_room: u32,
}

/// What comes out: the code, and the greatest length of a header that it emits, in bytes.
pub(crate) fn lower(
    pipeline: &hir::Pipeline, architecture: &Architecture<'_>,
) -> Result<(Executable, u32), Vec<Diagnostic>> {
    let mut lowering = Lowering::new(pipeline, architecture);
    lowering.parser();
    lowering.control();
    if let Some(error) = lowering.error.take() {
        return Err(vec![error]);
    }
    let emitted = lowering.emitted;
    let mut code = lowering.finish();
    optimise::optimise(&mut code);
    let executable = allocate::allocate(&code).map_err(|error| vec![error])?;
    Ok((executable, emitted))
}

/// A place in the code, known or not yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Label(u32);

/// Where a label is.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Index of the instruction.
    at: Option<u32>,
    /// Bytes of the packet that the parser is past there.
    position: Option<u32>,
}

struct Lowering<'a> {
    pipeline: &'a hir::Pipeline,
    architecture: &'a Architecture<'a>,
    code: Code<u32>,
    registers: u32,
    slots: Vec<Pair<u32>>,
    /// Registers of constants, and back.
    constants: BTreeMap<u64, u32>,
    values: BTreeMap<u32, u64>,
    /// Targets of jumps are labels until the end.
    labels: Vec<Place>,
    /// Ends of the enclosing scopes.
    scopes: Vec<Label>,
    /// Where `exit` goes.
    exit: Label,
    /// Bytes that the parser is past.
    position: u32,
    /// Bytes that the deparser has emitted so far, at most.
    emitted: u32,
    error: Option<Diagnostic>,
}

impl<'a> Lowering<'a> {
    fn new(pipeline: &'a hir::Pipeline, architecture: &'a Architecture<'a>) -> Lowering<'a> {
        let (ops, wide, numbers, loads, stores, calls, applies) = Default::default();
        let (inputs, pinned, outputs, constants) = Default::default();
        let mut lowering = Lowering {
            pipeline,
            architecture,
            code: Code { ops, wide, numbers, loads, stores, calls, applies, inputs, pinned, outputs, constants },
            registers: 0,
            slots: Vec::new(),
            constants: BTreeMap::new(),
            values: BTreeMap::new(),
            labels: Vec::new(),
            scopes: Vec::new(),
            exit: Label(0),
            position: 0,
            emitted: 0,
            error: None,
        };
        let slots = pipeline.slots.iter().map(|slot| lowering.fresh_pair(slot.width)).collect();
        lowering.slots = slots;
        lowering.exit = lowering.label();
        lowering.bind_interface();
        lowering
    }

    /// Joins the pipeline's inputs and outputs with those of the architecture.
    fn bind_interface(&mut self) {
        for (name, slot) in &self.pipeline.inputs {
            let register = self.slots[slot.0 as usize].lo;
            match self.architecture.inputs.iter().position(|input| input == name) {
                Some(place) => self.code.inputs.push((place as u8, register)),
                None => self.fail(Span::default(), format!("this NIC gives a program no '{name}'")),
            }
        }
        for (name, default) in self.architecture.outputs {
            let bound = self.pipeline.outputs.iter().find(|(output, _)| output == name);
            let register = match bound {
                Some((_, slot)) => self.slots[slot.0 as usize].lo,
                None => self.constant(*default),
            };
            self.code.outputs.push(register);
        }
    }

    /// Control and deparser.
    fn control(&mut self) {
        let pipeline = self.pipeline;
        for body in [&pipeline.control, &pipeline.deparser] {
            self.exit = self.label();
            self.statements(body);
            self.bind(self.exit);
        }
        self.push(Op::End);
    }

    /// The code, with labels replaced by the places that they stand for.
    fn finish(mut self) -> Code<u32> {
        let at = |to: &mut u32| *to = self.labels[*to as usize].at.expect("every label that is jumped to is bound");
        for (index, op) in self.code.ops.iter_mut().enumerate() {
            op.target().into_iter().for_each(at);
            if let Op::Jump { to } = *op
                && to as usize <= index
            {
                *op = Op::JumpBack { to };
            }
        }
        for apply in &mut self.code.applies {
            apply.actions.iter_mut().for_each(|(to, _)| at(to));
            at(&mut apply.end);
        }
        self.code.constants = self.constants.into_iter().collect();
        let first_pinned = self.architecture.first_pinned;
        let (pinned, inputs) = self
            .code
            .inputs
            .iter()
            .partition(|(place, r)| usize::from(*place) >= first_pinned && !self.code.writes(*r));
        (self.code.pinned, self.code.inputs) = (pinned, inputs);
        self.code
    }

    /// Notes the first thing that is wrong.
    fn fail(&mut self, span: Span, message: String) {
        self.error.get_or_insert_with(|| Diagnostic::new(span, message, "here"));
    }

    fn push(&mut self, op: Op<u32>) {
        if self.code.ops.len() < MOST_OPS {
            self.code.ops.push(op);
        } else {
            let message = format!("the program is too large: a pipeline has at most {MOST_OPS} instructions");
            self.fail(Span::default(), message);
        }
    }

    fn fresh(&mut self) -> u32 {
        self.registers += 1;
        self.registers - 1
    }

    fn fresh_pair(&mut self, width: u32) -> Pair<u32> {
        let lo = self.fresh();
        Pair { lo, hi: if width > 64 { self.fresh() } else { self.constant(0) } }
    }

    /// The register of a constant.
    fn constant(&mut self, value: u64) -> u32 {
        if let Some(register) = self.constants.get(&value) {
            return *register;
        }
        let register = self.fresh();
        self.constants.insert(value, register);
        self.values.insert(register, value);
        register
    }

    fn constant_pair(&mut self, value: u128) -> Pair<u32> {
        Pair { lo: self.constant(value as u64), hi: self.constant((value >> 64) as u64) }
    }

    /// The value, if it is a constant.
    fn value_of(&self, pair: Pair<u32>) -> Option<u128> {
        let (lo, hi) = (self.values.get(&pair.lo)?, self.values.get(&pair.hi)?);
        Some(u128::from(*hi) << 64 | u128::from(*lo))
    }

    fn label(&mut self) -> Label {
        self.labels.push(Place::default());
        Label(self.labels.len() as u32 - 1)
    }

    /// The label's number as the target of a jump that is about to be written.
    fn to(&mut self, label: Label) -> u32 {
        self.meet(label);
        label.0
    }

    /// Writes a jump.
    fn jump(&mut self, label: Label) {
        let to = self.to(label);
        self.push(Op::Jump { to });
    }

    /// The label stands for what comes next.
    fn bind(&mut self, label: Label) {
        let follows = self.code.ops.last().is_none_or(|op| !op.ends());
        if follows {
            self.meet(label);
        } else {
            self.position = self.labels[label.0 as usize].position.unwrap_or(self.position);
        }
        self.labels[label.0 as usize].at = Some(self.code.ops.len() as u32);
    }

    /// Two ways meet at a label: the parser must be past the same bytes on both.
    fn meet(&mut self, label: Label) {
        let position = *self.labels[label.0 as usize].position.get_or_insert(self.position);
        if position != self.position {
            let message = "the branches of this parser state extract different numbers of bytes".to_string();
            self.fail(Span::default(), message);
        }
    }
}

impl<R: Copy + PartialEq> Code<R> {
    /// Whether an instruction writes the register.
    pub(crate) fn writes(&self, register: R) -> bool {
        let mut written = false;
        for op in &self.ops {
            self.visit(*op, |r, role| written |= role != code::Role::Use && r == register);
        }
        written
    }
}
