//! Code generation: translates the high-level intermediate representation (HIR) of a program to instructions of the
//! virtual machine.
//!
//! The modules `expression`, `statement` and `packet` generate simple code that uses any number of virtual registers.
//! `optimise` propagates copies and removes dead code. `allocate` assigns the virtual registers to the 256 registers of
//! the virtual machine.

mod allocate;
pub(crate) mod code;
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
pub(crate) use allocate::Executable;
pub(crate) use allocate::REGISTERS;
use code::{Code, Op, Pair};
use std::collections::BTreeMap;

/// Maximum number of bytes that in-band telemetry adds to a packet.
pub(crate) const TELEMETRY_BYTES: u32 = 16 * rnic_transport::telemetry::Telemetry::MAX_HOPS as u32;

/// Maximum number of instructions of a pipeline's code. It limits the memory of the optimiser, which is quadratic in
/// this number.
const MAX_OPS: usize = 1 << 13;

/// The interface between a pipeline and the NIC that runs it.
pub(crate) struct Architecture<'a> {
    /// The names of the values that the NIC provides to the pipeline. Compiled code refers to a value by its index in
    /// this list.
    pub(crate) inputs: &'a [&'a str],
    /// The index in `inputs` of the first parameter of the NIC, such as its address. Parameters never change; the
    /// values before them change with each packet.
    pub(crate) first_pinned: usize,
    /// The names of the values that the NIC reads after the pipeline has processed a packet. Each has a default value,
    /// for programs that have no output of this name.
    pub(crate) outputs: &'a [(&'a str, u64)],
    /// Whether the pipeline may call functions of the NIC's fixed-function blocks, such as `ctrl_pkt_event`.
    pub(crate) blocks: bool,
    /// The runtime objects that belong to the extern objects of the program.
    pub(crate) instances: &'a [Binding],
    /// Size of the buffer for the headers of an arriving packet, in bytes. Telemetry records may follow the headers in
    /// the buffer.
    pub(crate) header_room: u32,
}

/// Generates the code of a pipeline. Also returns the maximum total length in bytes of the headers that the pipeline
/// emits.
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

/// A jump target in code that is being generated: an index into [`Lowering::labels`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Label(u32);

/// The state of a [`Label`].
#[derive(Clone, Copy, Default)]
struct LabelState {
    /// The index of the instruction at the label; `None` until the label is bound to an instruction.
    at: Option<u32>,
    /// The number of bytes that the parser has consumed when execution reaches the label. It is `None` until the first
    /// jump to the label, or its binding, determines the number.
    position: Option<u32>,
}

struct Lowering<'a> {
    pipeline: &'a hir::Pipeline,
    architecture: &'a Architecture<'a>,
    code: Code<u32>,
    registers: u32,
    slots: Vec<Pair<u32>>,
    /// The register of each constant, by the constant's value. The map `values` is the inverse of this map.
    constants: BTreeMap<u64, u32>,
    values: BTreeMap<u32, u64>,
    /// The labels. Until `finish` replaces them by instruction indices, the targets of jumps are indices into this
    /// list.
    labels: Vec<LabelState>,
    /// The labels at the ends of the enclosing [`hir::Stmt::Scope`]s, from the outermost to the innermost.
    scopes: Vec<Label>,
    /// The label at the end of the control or deparser, to which `exit` jumps.
    exit: Label,
    /// Number of bytes of the packet that the parser has consumed before the next instruction.
    position: u32,
    /// Maximum number of bytes that the deparser has emitted before the next instruction.
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

    /// Connects the inputs and outputs of the pipeline to the values with the same names that the NIC provides and
    /// reads.
    fn bind_interface(&mut self) {
        for (name, slot) in &self.pipeline.inputs {
            let register = self.slots[slot.0 as usize].lo;
            match self.architecture.inputs.iter().position(|input| input == name) {
                Some(index) => self.code.inputs.push((index as u8, register)),
                None => self.fail(Span::default(), format!("this NIC does not provide '{name}'")),
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

    /// Generates code for the control and the deparser.
    fn control(&mut self) {
        let pipeline = self.pipeline;
        for body in [&pipeline.control, &pipeline.deparser] {
            self.exit = self.label();
            self.statements(body);
            self.bind(self.exit);
        }
        self.push(Op::End);
    }

    /// Returns the code, in which jump targets are instruction indices instead of labels.
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
            .partition(|(index, r)| usize::from(*index) >= first_pinned && !self.code.writes(*r));
        (self.code.pinned, self.code.inputs) = (pinned, inputs);
        self.code
    }

    /// Records an error of the program, unless another error has been recorded before.
    fn fail(&mut self, span: Span, message: String) {
        self.error.get_or_insert_with(|| Diagnostic::new(span, message, "here"));
    }

    fn push(&mut self, op: Op<u32>) {
        if self.code.ops.len() < MAX_OPS {
            self.code.ops.push(op);
        } else {
            let message = format!("the program is too large: a pipeline has at most {MAX_OPS} instructions");
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

    /// Returns the register of a constant; creates the constant if it does not exist.
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

    /// Returns the value of a pair of registers if both registers hold constants.
    fn value_of(&self, pair: Pair<u32>) -> Option<u128> {
        let lo = self.values.get(&pair.lo)?;
        let hi = self.values.get(&pair.hi)?;
        Some(u128::from(*hi) << 64 | u128::from(*lo))
    }

    fn label(&mut self) -> Label {
        self.labels.push(LabelState::default());
        Label(self.labels.len() as u32 - 1)
    }

    /// Returns the index of a label, as the target of a jump that the caller must emit as the next instruction.
    fn to(&mut self, label: Label) -> u32 {
        self.meet(label);
        label.0
    }

    /// Emits a jump.
    fn jump(&mut self, label: Label) {
        let to = self.to(label);
        self.push(Op::Jump { to });
    }

    /// Binds a label to the next instruction that is emitted.
    fn bind(&mut self, label: Label) {
        let follows = self.code.ops.last().is_none_or(|op| !op.ends());
        if follows {
            self.meet(label);
        } else {
            self.position = self.labels[label.0 as usize].position.unwrap_or(self.position);
        }
        self.labels[label.0 as usize].at = Some(self.code.ops.len() as u32);
    }

    /// Checks that the parser has consumed the same number of bytes on all paths to a label, and records this number.
    fn meet(&mut self, label: Label) {
        let position = *self.labels[label.0 as usize].position.get_or_insert(self.position);
        if position != self.position {
            let message = "the branches of this parser state extract different numbers of bytes".to_string();
            self.fail(Span::default(), message);
        }
    }
}

impl<R: Copy + PartialEq> Code<R> {
    /// Whether at least one instruction writes the register.
    pub(crate) fn writes(&self, register: R) -> bool {
        let mut written = false;
        for op in &self.ops {
            self.visit(*op, |r, role| written |= role != code::Role::Use && r == register);
        }
        written
    }
}
