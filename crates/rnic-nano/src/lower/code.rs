//! The instructions of the virtual machine: a flat list of simple operations on 64-bit registers.
//!
//! `R` is the type of a register number. During code generation it is `u32`, because the number of virtual registers is
//! not limited. In executable code it is `u8`, because the virtual machine has 256 registers. A value of up to 64 bits
//! occupies one register, and a wider value occupies two. A register never holds bits beyond the width of its value.
//! Constants have registers that are written once, before the first packet, so that no instruction needs an immediate
//! operand.

use crate::hir::BinaryOp;

/// An instruction of the virtual machine. It reads all its operands before it writes its result `d`. The field `s` is
/// 64 minus the width of the result; bits of the result beyond its width are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op<R> {
    /// Copies a register: `d = a`.
    Mov { d: R, a: R },
    /// Loads a constant: `d` = entry `index` of [`Code::numbers`].
    Const { d: R, index: u16 },
    /// Addition: `d = a + b`.
    Add { d: R, a: R, b: R, s: u8 },
    /// Subtraction: `d = a - b`.
    Sub { d: R, a: R, b: R, s: u8 },
    /// Multiplication: `d = a * b`.
    Mul { d: R, a: R, b: R, s: u8 },
    /// Bitwise and: `d = a & b`.
    And { d: R, a: R, b: R },
    /// Bitwise or: `d = a | b`.
    Or { d: R, a: R, b: R },
    /// Bitwise exclusive or: `d = a ^ b`.
    Xor { d: R, a: R, b: R },
    /// Bitwise complement: `d = !a`.
    Not { d: R, a: R, s: u8 },
    /// Left shift: `d = a << b`; 0 if `b` is 64 or more.
    Shl { d: R, a: R, b: R, s: u8 },
    /// Logical right shift: `d = a >> b`; 0 if `b` is 64 or more.
    Shr { d: R, a: R, b: R },
    /// Slice: `d = a >> low`, truncated to the width of the result.
    Bits { d: R, a: R, low: u8, s: u8 },
    /// Replaces bits: `d = old`, in which the bits from `low` on are replaced by `a`. The number of replaced bits is 64
    /// minus `s`.
    Insert { d: R, old: R, a: R, low: u8, s: u8 },
    /// Concatenation: `d = a << low | b`.
    Concat { d: R, a: R, b: R, low: u8 },
    /// Sign extension: `d = a`, where `a` is a signed number of 64 minus `from` bits.
    Extend { d: R, a: R, from: u8, s: u8 },
    /// Comparison: `d = a == b`.
    Eq { d: R, a: R, b: R },
    /// Comparison: `d = a != b`.
    Ne { d: R, a: R, b: R },
    /// Comparison of unsigned numbers: `d = a < b`.
    Lt { d: R, a: R, b: R },
    /// Comparison of unsigned numbers: `d = a <= b`.
    Le { d: R, a: R, b: R },
    /// Conditional value: `d = c ? a : b`.
    Select { d: R, c: R, a: R, b: R },
    /// Executes a binary operator in its general form, for operands of up to 128 bits: the entry of [`Code::wide`] with
    /// this index.
    Wide(u16),
    /// Jumps to instruction `to`.
    Jump { to: u32 },
    /// Jumps backwards to instruction `to`. The virtual machine limits the number of instructions that backward jumps
    /// repeat, because a loop might be infinite.
    JumpBack { to: u32 },
    /// Jumps to instruction `to` if `a == b`.
    JumpEq { a: R, b: R, to: u32 },
    /// Jumps to instruction `to` if `a != b`.
    JumpNe { a: R, b: R, to: u32 },
    /// Jumps to instruction `to` if `a < b`.
    JumpLt { a: R, b: R, to: u32 },
    /// Jumps to instruction `to` if `a <= b`.
    JumpLe { a: R, b: R, to: u32 },
    /// Jumps to instruction `to` if `a & b != 0`.
    JumpAny { a: R, b: R, to: u32 },
    /// Jumps to instruction `to` if `a & b == 0`.
    JumpNone { a: R, b: R, to: u32 },
    /// Rejects the packet if its headers have fewer than `bytes` bytes.
    Need { bytes: u16 },
    /// Loads a field of the packet: `d` = the eight bytes from byte `at` on as a big-endian number, shifted left by
    /// `left` and then right by `right` bits.
    Load { d: R, at: u16, left: u8, right: u8 },
    /// Stores the lowest `bytes` bytes of `a` into the emitted headers, `at` bytes after the start of the current
    /// header. The instruction may also write zeros after these bytes.
    Store { a: R, at: u16, bytes: u8 },
    /// Executes `count` consecutive entries of [`Code::loads`], starting with entry `first`.
    Loads { first: u16, count: u16 },
    /// Executes `count` consecutive entries of [`Code::stores`], starting with entry `first`.
    Stores { first: u16, count: u16 },
    /// Ends the current emitted header: the next header starts `bytes` bytes later in the output.
    Advance { bytes: u16 },
    /// Calls an extern function or method: the entry of [`Code::calls`] with this index.
    Call(u16),
    /// Applies a table: the entry of [`Code::applies`] with this index.
    Apply(u16),
    /// Rejects the packet, which the NIC then drops.
    Reject,
    /// Ends the execution for this packet.
    End,
}

const _: () = assert!(size_of::<Op<u8>>() == 8);

/// The two registers that hold a value of up to 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair<R> {
    /// The register of the lower 64 bits.
    pub lo: R,
    /// The register of the upper bits. For a value of up to 64 bits, this is the register of the constant 0.
    pub hi: R,
}

/// A binary operator in its general form, for operands of up to 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wide<R> {
    /// The operator that is computed.
    pub op: BinaryOp,
    /// The width of the first operand in bits.
    pub width: u8,
    /// The width of the second operand in bits.
    pub second: u8,
    /// The registers of the operator's result. If the upper half of the result is not used, no instruction reads the
    /// register of that half.
    pub d: Pair<R>,
    /// The registers of the first operand.
    pub a: Pair<R>,
    /// The registers of the second operand.
    pub b: Pair<R>,
}

/// A load within [`Op::Loads`]; the fields are those of [`Op::Load`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load<R> {
    /// The register that receives the loaded value.
    pub d: R,
    /// The offset in the packet of the first byte that is read.
    pub at: u16,
    /// The left shift in bits, which removes the bits before the loaded value.
    pub left: u8,
    /// The right shift in bits: 64 minus the width of the loaded value.
    pub right: u8,
}

/// A store within [`Op::Stores`]; the fields are those of [`Op::Store`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Store<R> {
    /// The register that holds the stored value.
    pub a: R,
    /// The offset of the first stored byte, relative to the start of the current header.
    pub at: u16,
    /// The number of bytes that are stored.
    pub bytes: u8,
}

/// A call of an extern function or method.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call<R> {
    /// The function or method that is called.
    pub target: crate::runtime::Function,
    /// The registers of the scalar arguments of the call: one for a scalar of up to 64 bits, two for a wider one.
    pub arguments: Vec<R>,
    /// The registers of the scalar results of the call: one for a scalar of up to 64 bits, two for a wider one. A
    /// result that is not used has a register that no instruction reads.
    pub results: Vec<R>,
}

/// A table application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Apply<R> {
    /// The index of the applied table among the tables of the pipeline.
    pub table: u16,
    /// The registers of the table's keys: one for a key of up to 64 bits; two for a wider one, the lower half first.
    pub keys: Vec<R>,
    /// The register that is set to 1 if an entry matched, else to 0. `None` if the program does not use this result.
    pub hit: Option<R>,
    /// The register that is set to the index of the action that runs. `None` if the program does not use this result.
    pub action: Option<R>,
    /// For each action of the table, the index of its first instruction and the registers that receive its arguments.
    pub actions: Vec<(u32, Vec<R>)>,
    /// The index of the instruction at which execution continues if no action runs.
    pub end: u32,
}

/// The code of an ingress or egress pipeline: its instructions and the lists to which they refer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Code<R> {
    /// The instructions. Execution begins with the first one.
    pub ops: Vec<Op<R>>,
    /// The operators that [`Op::Wide`] executes.
    pub wide: Vec<Wide<R>>,
    /// The constants that [`Op::Const`] loads: constants that are read so rarely that they have no register of their
    /// own.
    pub numbers: Vec<u64>,
    /// The fields of the packet that [`Op::Loads`] loads.
    pub loads: Vec<Load<R>>,
    /// The fields of headers that [`Op::Stores`] stores.
    pub stores: Vec<Store<R>>,
    /// The calls that [`Op::Call`] executes.
    pub calls: Vec<Call<R>>,
    /// The table applications that [`Op::Apply`] executes.
    pub applies: Vec<Apply<R>>,
    /// The values that the NIC provides with each packet and that the code reads: for each value, its index in the
    /// architecture's list of inputs, and the register that receives it.
    pub inputs: Vec<(u8, R)>,
    /// The parameters of the NIC that the code reads and never writes: for each parameter, its index in the
    /// architecture's list of inputs, and the register that permanently holds its value.
    pub pinned: Vec<(u8, R)>,
    /// The registers that the NIC reads after the pipeline has processed a packet, in the order of the architecture's
    /// list of outputs.
    pub outputs: Vec<R>,
    /// The constants that have a register: for each constant, its value, and the register that permanently holds it.
    pub constants: Vec<(u64, R)>,
}

/// The way in which an instruction accesses a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The instruction reads the register.
    Use,
    /// The instruction writes the register.
    Def,
    /// The instruction writes the register in some executions, but not in all.
    MayDef,
}

impl<R: Copy> Op<R> {
    /// Returns the instruction with each of its registers replaced by the result of `f`. Registers of [`Op::Wide`] and
    /// of similar instructions are in the lists of [`Code`] and are not replaced.
    pub(crate) fn map<S>(self, mut f: impl FnMut(R, Role) -> S) -> Op<S> {
        use Role::{Def, Use};
        match self {
            Op::Mov { d, a } => Op::Mov { a: f(a, Use), d: f(d, Def) },
            Op::Const { d, index } => Op::Const { d: f(d, Def), index },
            Op::Add { d, a, b, s } => Op::Add { a: f(a, Use), b: f(b, Use), d: f(d, Def), s },
            Op::Sub { d, a, b, s } => Op::Sub { a: f(a, Use), b: f(b, Use), d: f(d, Def), s },
            Op::Mul { d, a, b, s } => Op::Mul { a: f(a, Use), b: f(b, Use), d: f(d, Def), s },
            Op::And { d, a, b } => Op::And { a: f(a, Use), b: f(b, Use), d: f(d, Def) },
            Op::Or { d, a, b } => Op::Or { a: f(a, Use), b: f(b, Use), d: f(d, Def) },
            Op::Xor { d, a, b } => Op::Xor { a: f(a, Use), b: f(b, Use), d: f(d, Def) },
            Op::Not { d, a, s } => Op::Not { a: f(a, Use), d: f(d, Def), s },
            Op::Shl { d, a, b, s } => Op::Shl { a: f(a, Use), b: f(b, Use), d: f(d, Def), s },
            Op::Shr { d, a, b } => Op::Shr { a: f(a, Use), b: f(b, Use), d: f(d, Def) },
            Op::Bits { d, a, low, s } => Op::Bits { a: f(a, Use), d: f(d, Def), low, s },
            Op::Insert { d, old, a, low, s } => Op::Insert { old: f(old, Use), a: f(a, Use), d: f(d, Def), low, s },
            Op::Concat { d, a, b, low } => Op::Concat { a: f(a, Use), b: f(b, Use), d: f(d, Def), low },
            Op::Extend { d, a, from, s } => Op::Extend { a: f(a, Use), d: f(d, Def), from, s },
            Op::Eq { d, a, b } => Op::Eq { a: f(a, Use), b: f(b, Use), d: f(d, Def) },
            Op::Ne { d, a, b } => Op::Ne { a: f(a, Use), b: f(b, Use), d: f(d, Def) },
            Op::Lt { d, a, b } => Op::Lt { a: f(a, Use), b: f(b, Use), d: f(d, Def) },
            Op::Le { d, a, b } => Op::Le { a: f(a, Use), b: f(b, Use), d: f(d, Def) },
            Op::Select { d, c, a, b } => Op::Select { c: f(c, Use), a: f(a, Use), b: f(b, Use), d: f(d, Def) },
            Op::Wide(index) => Op::Wide(index),
            Op::Jump { to } => Op::Jump { to },
            Op::JumpBack { to } => Op::JumpBack { to },
            Op::JumpEq { a, b, to } => Op::JumpEq { a: f(a, Use), b: f(b, Use), to },
            Op::JumpNe { a, b, to } => Op::JumpNe { a: f(a, Use), b: f(b, Use), to },
            Op::JumpLt { a, b, to } => Op::JumpLt { a: f(a, Use), b: f(b, Use), to },
            Op::JumpLe { a, b, to } => Op::JumpLe { a: f(a, Use), b: f(b, Use), to },
            Op::JumpAny { a, b, to } => Op::JumpAny { a: f(a, Use), b: f(b, Use), to },
            Op::JumpNone { a, b, to } => Op::JumpNone { a: f(a, Use), b: f(b, Use), to },
            Op::Need { bytes } => Op::Need { bytes },
            Op::Load { d, at, left, right } => Op::Load { d: f(d, Def), at, left, right },
            Op::Store { a, at, bytes } => Op::Store { a: f(a, Use), at, bytes },
            Op::Loads { first, count } => Op::Loads { first, count },
            Op::Stores { first, count } => Op::Stores { first, count },
            Op::Advance { bytes } => Op::Advance { bytes },
            Op::Call(index) => Op::Call(index),
            Op::Apply(index) => Op::Apply(index),
            Op::Reject => Op::Reject,
            Op::End => Op::End,
        }
    }

    /// Returns the target of a jump; `None` for other instructions. The targets of [`Op::Apply`] are in
    /// [`Code::applies`].
    pub(crate) fn target(&mut self) -> Option<&mut u32> {
        match self {
            Op::Jump { to }
            | Op::JumpBack { to }
            | Op::JumpEq { to, .. }
            | Op::JumpNe { to, .. }
            | Op::JumpLt { to, .. }
            | Op::JumpLe { to, .. }
            | Op::JumpAny { to, .. }
            | Op::JumpNone { to, .. } => Some(to),
            _ => None,
        }
    }

    /// Whether execution never continues at the following instruction.
    pub(crate) fn ends(&self) -> bool {
        matches!(self, Op::Jump { .. } | Op::JumpBack { .. } | Op::Apply(_) | Op::Reject | Op::End)
    }

    /// Whether the instruction has no effect besides writing registers.
    pub(crate) fn is_pure(&self) -> bool {
        let stores = matches!(self, Op::Store { .. } | Op::Stores { .. } | Op::Advance { .. });
        let effect = stores || matches!(self, Op::Need { .. } | Op::Call(_));
        !effect && !self.ends() && self.clone_target().is_none()
    }

    fn clone_target(mut self) -> Option<u32> {
        self.target().copied()
    }
}

impl<R: Copy> Pair<R> {
    fn map<S>(self, role: Role, f: &mut impl FnMut(R, Role) -> S) -> Pair<S> {
        Pair { lo: f(self.lo, role), hi: f(self.hi, role) }
    }
}

impl<R: Copy> Code<R> {
    /// Returns the code with each register replaced by the result of `f`.
    pub(crate) fn map<S: Copy>(&self, mut f: impl FnMut(R, Role) -> S) -> Code<S> {
        use Role::{Def, MayDef, Use};
        let f = &mut f;
        Code {
            ops: self.ops.iter().map(|op| op.map(&mut *f)).collect(),
            wide: self.wide.iter().map(|wide| wide.map(f)).collect(),
            numbers: self.numbers.clone(),
            loads: self.loads.iter().map(|load| load.map(f)).collect(),
            stores: self.stores.iter().map(|store| store.map(f)).collect(),
            calls: self.calls.iter().map(|call| call.map(f)).collect(),
            applies: self.applies.iter().map(|apply| apply.map(f)).collect(),
            inputs: self.inputs.iter().map(|&(index, r)| (index, f(r, MayDef))).collect(),
            pinned: self.pinned.iter().map(|&(index, r)| (index, f(r, Def))).collect(),
            outputs: self.outputs.iter().map(|&r| f(r, Use)).collect(),
            constants: self.constants.iter().map(|&(value, r)| (value, f(r, Def))).collect(),
        }
    }

    /// Calls `f` with each register of an instruction: first with the registers that the instruction reads, then with
    /// those that it writes.
    pub(crate) fn visit(&self, op: Op<R>, mut f: impl FnMut(R, Role)) {
        match op {
            Op::Wide(index) => drop(self.wide[usize::from(index)].map(&mut f)),
            Op::Call(index) => drop(self.calls[usize::from(index)].map(&mut f)),
            Op::Apply(index) => drop(self.applies[usize::from(index)].map(&mut f)),
            Op::Loads { first, count } => {
                let loads = &self.loads[usize::from(first)..][..usize::from(count)];
                loads.iter().for_each(|load| f(load.d, Role::Def));
            }
            Op::Stores { first, count } => {
                let stores = &self.stores[usize::from(first)..][..usize::from(count)];
                stores.iter().for_each(|store| f(store.a, Role::Use));
            }
            _ => drop(op.map(f)),
        }
    }

    /// Replaces each register of an instruction by the result of `f`, including its registers in the lists of [`Code`].
    /// Each list item belongs to one instruction, so no other instruction changes.
    pub(crate) fn replace(&mut self, op: Op<R>, f: &mut impl FnMut(R, Role) -> R) -> Op<R> {
        match op {
            Op::Wide(at) => self.wide[usize::from(at)] = self.wide[usize::from(at)].map(f),
            Op::Call(at) => self.calls[usize::from(at)] = self.calls[usize::from(at)].map(f),
            Op::Apply(at) => self.applies[usize::from(at)] = self.applies[usize::from(at)].map(f),
            _ => {}
        }
        op.map(f)
    }

    /// Updates all jump targets after instructions have moved: the instruction with the old index `index` now has the
    /// index `new_indices[index]`.
    pub(crate) fn redirect(&mut self, new_indices: &[u32]) {
        for op in &mut self.ops {
            op.target().into_iter().for_each(|to| *to = new_indices[*to as usize]);
        }
        for apply in &mut self.applies {
            apply.actions.iter_mut().for_each(|(to, _)| *to = new_indices[*to as usize]);
            apply.end = new_indices[apply.end as usize];
        }
    }

    /// Calls `f` with the index of each instruction that may be executed after the instruction at `index`.
    pub(crate) fn successors(&self, index: usize, mut f: impl FnMut(usize)) {
        let mut op = self.ops[index];
        if !op.ends() {
            f(index + 1);
        }
        if let Some(to) = op.target() {
            f(*to as usize);
        }
        if let Op::Apply(apply) = op {
            let apply = &self.applies[usize::from(apply)];
            apply.actions.iter().for_each(|(to, _)| f(*to as usize));
            f(apply.end as usize);
        }
    }
}

impl<R: Copy> Load<R> {
    fn map<S>(&self, f: &mut impl FnMut(R, Role) -> S) -> Load<S> {
        Load { d: f(self.d, Role::Def), at: self.at, left: self.left, right: self.right }
    }
}

impl<R: Copy> Store<R> {
    fn map<S>(&self, f: &mut impl FnMut(R, Role) -> S) -> Store<S> {
        Store { a: f(self.a, Role::Use), at: self.at, bytes: self.bytes }
    }
}

impl<R: Copy> Wide<R> {
    pub(crate) fn map<S>(&self, f: &mut impl FnMut(R, Role) -> S) -> Wide<S> {
        let a = self.a.map(Role::Use, f);
        let b = self.b.map(Role::Use, f);
        Wide { op: self.op, width: self.width, second: self.second, a, b, d: self.d.map(Role::Def, f) }
    }
}

impl<R: Copy> Call<R> {
    pub(crate) fn map<S>(&self, f: &mut impl FnMut(R, Role) -> S) -> Call<S> {
        Call {
            target: self.target,
            arguments: self.arguments.iter().map(|&r| f(r, Role::Use)).collect(),
            results: self.results.iter().map(|&r| f(r, Role::Def)).collect(),
        }
    }
}

impl<R: Copy> Apply<R> {
    pub(crate) fn map<S>(&self, f: &mut impl FnMut(R, Role) -> S) -> Apply<S> {
        let mut all = |registers: &[R], role| registers.iter().map(|&r| f(r, role)).collect::<Vec<S>>();
        let keys = all(&self.keys, Role::Use);
        let actions = self.actions.iter().map(|(to, parameters)| (*to, all(parameters, Role::MayDef))).collect();
        Apply {
            table: self.table,
            keys,
            actions,
            hit: self.hit.map(|r| f(r, Role::Def)),
            action: self.action.map(|r| f(r, Role::Def)),
            end: self.end,
        }
    }
}
