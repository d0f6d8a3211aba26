//! What runs: a flat list of small instructions over registers of 64 bits.
//!
//! Each instruction names its registers by `R`: any number of virtual ones while a program is being lowered, one of 256 when it runs. A
//! value of up to 64 bits is in one register, a wider one in two. No register ever holds bits beyond its value's width. Constants have registers of
//! their own, written once, so no instruction needs a form with a constant.

use crate::hir::BinaryOp;

/// One instruction. `d` is written after all others were read. `s` is 64 less the width of the result: what lies beyond is cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are what the line above each instruction says")]
pub enum Op<R> {
    /// `d = a`
    Mov { d: R, a: R },
    /// `d = a + b`
    Add { d: R, a: R, b: R, s: u8 },
    /// `d = a - b`
    Sub { d: R, a: R, b: R, s: u8 },
    /// `d = a * b`
    Mul { d: R, a: R, b: R, s: u8 },
    /// `d = a & b`
    And { d: R, a: R, b: R },
    /// `d = a | b`
    Or { d: R, a: R, b: R },
    /// `d = a ^ b`
    Xor { d: R, a: R, b: R },
    /// `d = !a`
    Not { d: R, a: R, s: u8 },
    /// `d = a << b`
    Shl { d: R, a: R, b: R, s: u8 },
    /// `d = a >> b`
    Shr { d: R, a: R, b: R },
    /// `d = a >> low`
    Bits { d: R, a: R, low: u8, s: u8 },
    /// `d = old`, with the bits from `low` on, 64 less `s` of them, taken from `a`
    Insert { d: R, old: R, a: R, low: u8, s: u8 },
    /// `d = a << low | b`
    Concat { d: R, a: R, b: R, low: u8 },
    /// `d = a` of 64 less `from` bits, with copies of the highest of them
    Extend { d: R, a: R, from: u8, s: u8 },
    /// `d = a == b`
    Eq { d: R, a: R, b: R },
    /// `d = a != b`
    Ne { d: R, a: R, b: R },
    /// `d = a < b`
    Lt { d: R, a: R, b: R },
    /// `d = a <= b`
    Le { d: R, a: R, b: R },
    /// `d = c ? a : b`
    Select { d: R, c: R, a: R, b: R },
    /// A rare operator, or one on wider values: [`Code::wide`].
    Wide(u16),
    /// Goes on elsewhere.
    Jump { to: u32 },
    /// The same, to before this instruction: it may go on for ever, so it is counted.
    JumpBack { to: u32 },
    /// If `a == b`
    JumpEq { a: R, b: R, to: u32 },
    /// If `a != b`
    JumpNe { a: R, b: R, to: u32 },
    /// If `a < b`
    JumpLt { a: R, b: R, to: u32 },
    /// If `a <= b`
    JumpLe { a: R, b: R, to: u32 },
    /// If `a & b != 0`
    JumpAny { a: R, b: R, to: u32 },
    /// If `a & b == 0`
    JumpNone { a: R, b: R, to: u32 },
    /// Rejects a packet of fewer bytes.
    Need { bytes: u16 },
    /// `d` = the eight bytes of the packet from `at` on, shifted to the left by `left` and to the right by `right`
    Load { d: R, at: u16, left: u8, right: u8 },
    /// The lowest `bytes` bytes of `a` go to `at` bytes after where the next header begins. It may leave zeros after them.
    Store { a: R, at: u16, bytes: u8 },
    /// Several loads one after the other: so many of [`Code::loads`].
    Loads { first: u16, count: u16 },
    /// Several stores one after the other: so many of [`Code::stores`].
    Stores { first: u16, count: u16 },
    /// The next header begins so many bytes later.
    Advance { bytes: u16 },
    /// An extern: [`Code::calls`].
    Call(u16),
    /// A table: [`Code::applies`].
    Apply(u16),
    /// The packet is forgotten.
    Reject,
    /// All is done.
    End,
}

const _: () = assert!(size_of::<Op<u8>>() == 8);

/// A wide value's registers: the lower 64 bits, and those above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair<R> {
    /// The lower 64 bits.
    pub lo: R,
    /// The upper bits; of a value of up to 64 bits the constant 0.
    pub hi: R,
}

/// An operator in its general form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wide<R> {
    /// Which.
    pub op: BinaryOp,
    /// Bits of the first operand.
    pub width: u8,
    /// Bits of the second.
    pub second: u8,
    /// Result. Its upper half may be a register that nobody reads.
    pub d: Pair<R>,
    /// First operand.
    pub a: Pair<R>,
    /// Second operand.
    pub b: Pair<R>,
}

/// [`Op::Load`] as one of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load<R> {
    /// Where the value goes.
    pub d: R,
    /// First byte.
    pub at: u16,
    /// Bits that come before the value.
    pub left: u8,
    /// 64 less the value's bits.
    pub right: u8,
}

/// [`Op::Store`] as one of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Store<R> {
    /// The value.
    pub a: R,
    /// First byte, from where the header begins.
    pub at: u16,
    /// How many.
    pub bytes: u8,
}

/// A call of an extern: what it does, and where its arguments and results are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call<R> {
    /// What it does.
    pub target: crate::runtime::Function,
    /// Where the arguments are: the scalars, each of up to 64 bits in one register and of more in two.
    pub arguments: Vec<R>,
    /// Where the results go, likewise; those that nobody wants into registers that nobody reads.
    pub results: Vec<R>,
}

/// A table being applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Apply<R> {
    /// Which, of its pipeline.
    pub table: u16,
    /// Where the keys are: each of up to 64 bits in one register, of more in two, the lower half first.
    pub keys: Vec<R>,
    /// Gets whether an entry matched.
    pub hit: Option<R>,
    /// Gets the action's index.
    pub action: Option<R>,
    /// The code of each action, and where its arguments go, likewise.
    pub actions: Vec<(u32, Vec<R>)>,
    /// Where to go on when no action runs.
    pub end: u32,
}

/// A pipeline in executable form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Code<R> {
    /// Instructions; the first one is at 0.
    pub ops: Vec<Op<R>>,
    /// Operators in their general form.
    pub wide: Vec<Wide<R>>,
    /// Loads by the group.
    pub loads: Vec<Load<R>>,
    /// Stores by the group.
    pub stores: Vec<Store<R>>,
    /// Calls of externs.
    pub calls: Vec<Call<R>>,
    /// Tables being applied.
    pub applies: Vec<Apply<R>>,
    /// What the architecture gives with each packet, by its place in the architecture's list. Only what is read.
    pub inputs: Vec<(u8, R)>,
    /// The same for what never changes: what the program may know of its NIC.
    pub pinned: Vec<(u8, R)>,
    /// What the architecture takes, in the order of its list.
    pub outputs: Vec<R>,
    /// Registers that hold one value for ever.
    pub constants: Vec<(u64, R)>,
}

/// How an instruction uses a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// It reads it.
    Use,
    /// It writes it.
    Def,
    /// It may write it.
    MayDef,
}

impl<R: Copy> Op<R> {
    /// The same instruction with each of its own registers replaced: those of [`Op::Wide`] and others are in lists.
    pub(crate) fn map<S>(self, mut f: impl FnMut(R, Role) -> S) -> Op<S> {
        use Role::{Def, Use};
        match self {
            Op::Mov { d, a } => Op::Mov { a: f(a, Use), d: f(d, Def) },
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

    /// Where it jumps, if it does ([`Op::Apply`] apart).
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

    /// Whether the next instruction never follows it.
    pub(crate) fn ends(&self) -> bool {
        matches!(self, Op::Jump { .. } | Op::JumpBack { .. } | Op::Apply(_) | Op::Reject | Op::End)
    }

    /// Whether it does nothing but to write registers.
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
    /// The same code with each register replaced.
    pub(crate) fn map<S: Copy>(&self, mut f: impl FnMut(R, Role) -> S) -> Code<S> {
        use Role::{Def, MayDef, Use};
        let f = &mut f;
        Code {
            ops: self.ops.iter().map(|op| op.map(&mut *f)).collect(),
            wide: self.wide.iter().map(|wide| wide.map(f)).collect(),
            loads: self.loads.iter().map(|load| load.map(f)).collect(),
            stores: self.stores.iter().map(|store| store.map(f)).collect(),
            calls: self.calls.iter().map(|call| call.map(f)).collect(),
            applies: self.applies.iter().map(|apply| apply.map(f)).collect(),
            inputs: self.inputs.iter().map(|&(place, r)| (place, f(r, MayDef))).collect(),
            pinned: self.pinned.iter().map(|&(place, r)| (place, f(r, Def))).collect(),
            outputs: self.outputs.iter().map(|&r| f(r, Use)).collect(),
            constants: self.constants.iter().map(|&(value, r)| (value, f(r, Def))).collect(),
        }
    }

    /// Calls `f` with each register of an instruction, those that it reads first.
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

    /// Calls `f` with the index of each instruction that may follow the one at `index`.
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
        let (a, b) = (self.a.map(Role::Use, f), self.b.map(Role::Use, f));
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
