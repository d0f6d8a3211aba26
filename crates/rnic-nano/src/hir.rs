//! The high-level intermediate representation (HIR): a checked program.
//!
//! In the HIR, names are resolved, types are checked, constants are folded, and calls of actions and controls are
//! inlined. Every variable, field and parameter that holds bits is a *slot* of its pipeline; structs, enums and
//! generics no longer exist.
//!
//! The front end produces only well-formed HIR: widths agree, slots exist, and slices lie within their operands. Code
//! that executes the HIR need not check this again.

pub mod check;

use crate::source::Span;

/// A checked program.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// The parser and the ingress control.
    pub ingress: Pipeline,
    /// The egress control and the deparser.
    pub egress: Pipeline,
    /// The objects with state, which both pipelines share.
    pub instances: Vec<Instance>,
    /// The annotations of the package's instance (`main`): name and argument. The argument is empty if the annotation
    /// has none.
    pub annotations: Vec<(String, String)>,
    /// The top-level constants whose values a user may replace, each with its current value.
    pub constants: Vec<(String, u128)>,
}

/// One of the two pipelines. Each has its own slots.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pipeline {
    /// The slots.
    pub slots: Vec<Slot>,
    /// The headers.
    pub headers: Vec<Header>,
    /// The tables.
    pub tables: Vec<Table>,
    /// The values that the architecture passes to the pipeline: the name, such as `arrival.trimmed`, and the slot that
    /// is written before the pipeline runs.
    pub inputs: Vec<(String, SlotId)>,
    /// The values that the architecture reads after the pipeline has run. They are zero before it runs, except for
    /// `inout` values, which are also among the inputs.
    pub outputs: Vec<(String, SlotId)>,
    /// The states of the parser; the first one is `start`. Empty in egress.
    pub states: Vec<State>,
    /// The statements of the control.
    pub control: Vec<Stmt>,
    /// The statements of the deparser. Empty in ingress.
    pub deparser: Vec<Stmt>,
}

/// A slot: its index in the pipeline's slots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SlotId(pub u32);
/// A header: its index in the pipeline's headers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HeaderId(pub u32);
/// A table: its index in the pipeline's tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TableId(pub u32);
/// An extern object: its index in the program's instances.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct InstanceId(pub u32);
/// A parser state: its index in the pipeline's states.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StateId(pub u32);

/// A scalar variable. All slots are zero when a pipeline begins, except its inputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The name for diagnostics and dumps, such as `hdr.ndp.flags`.
    pub name: String,
    /// The width in bits, 1 to 128; a `bool` has 1.
    pub width: u32,
    /// Whether the value is a two's-complement number.
    pub signed: bool,
}

/// A header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The name for diagnostics and dumps, such as `hdr.ndp`.
    pub name: String,
    /// The slot of the validity bit.
    pub valid: SlotId,
    /// The fields, first to last. Their widths add up to whole bytes.
    pub fields: Vec<SlotId>,
}

/// An object with state that the architecture provides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// The name in the program.
    pub name: String,
    /// The extern type: `IfElseRaw`.
    pub kind: String,
    /// The widths of the scalars of the type argument, first to last; a `bit<W>` has one.
    pub types: Vec<u32>,
    /// The arguments of the constructor.
    pub arguments: Vec<u128>,
    /// The source range of the declaration.
    pub span: Span,
}

/// A state of the parser.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// The name.
    pub name: String,
    /// The statements.
    pub body: Vec<Stmt>,
    /// The transition to the next state.
    pub transition: Transition,
}

/// The transition at the end of a parser state.
#[derive(Clone, PartialEq, Debug)]
pub enum Transition {
    /// An unconditional transition.
    To(Target),
    /// A transition to the target of the first case whose patterns match all keys; to `reject` if no case matches.
    Select {
        /// The expressions that are compared with the patterns.
        keys: Vec<Expr>,
        /// The cases in order: one pattern for each key, and the target.
        cases: Vec<(Vec<Pattern>, Target)>,
    },
}

/// The target of a transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A state.
    State(StateId),
    /// `accept`: the control runs next.
    Accept,
    /// `reject`: the NIC drops the packet.
    Reject,
}

/// A pattern that a key is compared with, as an unsigned number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Matches if `key & mask == value`; the value has no bit outside the mask.
    Masked {
        /// The value.
        value: u128,
        /// The bits that are compared.
        mask: u128,
    },
    /// Matches if `low <= key <= high`.
    Range {
        /// The minimum.
        low: u128,
        /// The maximum.
        high: u128,
    },
}

/// A table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// The name.
    pub name: String,
    /// The keys with their match kinds.
    pub keys: Vec<(Expr, MatchKind)>,
    /// The actions.
    pub actions: Vec<Action>,
    /// The default action, which runs if no entry matches: its index in `actions` and its arguments. `None` if there
    /// is no default action.
    pub default: Option<(usize, Vec<u128>)>,
    /// Whether the default action is `const`: the control plane cannot change it.
    pub default_const: bool,
    /// The program's entries in order of precedence; in a table with one `lpm` key, entries with longer prefixes come
    /// first.
    pub entries: Vec<Entry>,
    /// Whether the entries are `const`: the control plane cannot change them.
    pub entries_const: bool,
    /// The maximum number of entries.
    pub size: u32,
    /// The source range of the declaration.
    pub span: Span,
}

/// The match kind of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchKind {
    /// All bits are compared.
    Exact,
    /// The bits under the entry's mask are compared.
    Ternary,
    /// The prefix is compared; the longest matching prefix takes precedence.
    Lpm,
}

/// An action of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Action {
    /// The name.
    pub name: String,
    /// The slots that receive the entry's arguments before the action runs.
    pub parameters: Vec<SlotId>,
    /// The statements.
    pub body: Vec<Stmt>,
}

/// An entry of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// One pattern for each key.
    pub keys: Vec<Pattern>,
    /// The action: its index in the table's `actions`.
    pub action: usize,
    /// The arguments of the action.
    pub arguments: Vec<u128>,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// Assigns a value to a slot of the same width.
    Assign {
        /// The slot.
        slot: SlotId,
        /// The new value.
        value: Expr,
    },
    /// Assigns a value to some bits of a slot: as many as the value has.
    AssignSlice {
        /// The slot.
        slot: SlotId,
        /// The lowest bit that is assigned.
        low: u32,
        /// The new value of the bits.
        value: Expr,
    },
    /// Runs one of two branches.
    If {
        /// The condition, of width 1.
        condition: Expr,
        /// Runs if the condition is 1.
        then: Vec<Stmt>,
        /// Runs if the condition is 0.
        otherwise: Vec<Stmt>,
    },
    /// Runs the case with the value, or else the default.
    Switch {
        /// The value that is compared.
        value: Expr,
        /// The cases: values and statements. No value occurs twice.
        cases: Vec<(Vec<u128>, Vec<Stmt>)>,
        /// Runs if no case has the value.
        default: Vec<Stmt>,
    },
    /// A body that [`Stmt::Leave`] can leave: an inlined action or control.
    Scope(Vec<Stmt>),
    /// Continues after an enclosing [`Stmt::Scope`]: 0 means the innermost one, 1 the one around it.
    Leave(u32),
    /// Ends the control.
    Exit,
    /// Applies a table: looks up the keys and runs the action found.
    Apply {
        /// The table.
        table: TableId,
        /// The slot set to 1 if an entry matched, else to 0.
        hit: Option<SlotId>,
        /// The slot set to the index of the action that ran, or to the number of the table's actions if no action ran.
        action: Option<SlotId>,
    },
    /// Calls a function or method of the architecture.
    Extern(ExternCall),
    /// Parser only: extracts a header from the packet and makes it valid. A packet with too few bytes is dropped.
    Extract(HeaderId),
    /// Parser only: skips bits of the packet; the number is a multiple of 8.
    Advance(u32),
    /// Deparser only: appends the header's bytes to the packet, if the header is valid.
    Emit(HeaderId),
}

/// A call of a function or method that the architecture provides.
#[derive(Clone, PartialEq, Debug)]
pub struct ExternCall {
    /// The name: `execute`, or `delivered_event`.
    pub function: String,
    /// The object whose method is called; `None` for a function.
    pub instance: Option<InstanceId>,
    /// The arguments: the scalars of all `in` and `inout` parameters, first to last.
    pub arguments: Vec<Expr>,
    /// The slots that receive the results: the scalars of the return value, then those of all `out` and `inout`
    /// parameters. The slots' widths are as declared; `None` for a result that is not used.
    pub results: Vec<Option<SlotId>>,
    /// The source range of the call.
    pub span: Span,
}

/// An expression without side effects.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// The width of the value in bits, 1 to 128; a `bool` has 1.
    pub width: u32,
    /// The expression itself.
    pub kind: ExprKind,
}

/// The kinds of expressions. A value is an unsigned number less than two to the power of its width; a signed one is
/// represented in two's complement.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// A constant.
    Const(u128),
    /// The value of a slot of the same width.
    Slot(SlotId),
    /// A unary operator; the operand has the same width.
    Unary(UnaryOp, Box<Expr>),
    /// A binary operator. The operands have the same width, except in shifts and concatenations. The result has the
    /// operands' width, or width 1 for comparisons.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// A slice: bits `low` to `low + width - 1` of the operand, where `width` is that of this expression.
    Slice {
        /// The operand.
        of: Box<Expr>,
        /// The lowest bit.
        low: u32,
    },
    /// Zero extension to this expression's width.
    ZeroExtend(Box<Expr>),
    /// Sign extension to this expression's width.
    SignExtend(Box<Expr>),
    /// A conditional expression; the condition has width 1. No operand has side effects, so both values may be
    /// evaluated.
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// Unary operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    /// Two's-complement negation.
    Negate,
    /// Bitwise complement; also the `!` of a `bool`.
    Not,
}

/// Binary operators. Addition, subtraction and multiplication wrap on overflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    /// Addition.
    Add,
    /// Subtraction.
    Sub,
    /// Unsigned saturating addition.
    SatAdd,
    /// Unsigned saturating subtraction.
    SatSub,
    /// Signed saturating addition.
    SatAddSigned,
    /// Signed saturating subtraction.
    SatSubSigned,
    /// Multiplication.
    Mul,
    /// Left shift. The second operand is unsigned and may have any width; the result is 0 if it is at least the width
    /// of the first.
    Shl,
    /// Logical right shift.
    Shr,
    /// Arithmetic right shift.
    ShrSigned,
    /// Bitwise and; also `&&`.
    And,
    /// Bitwise or; also `||`.
    Or,
    /// Bitwise exclusive or; also the `!=` of `bool`s.
    Xor,
    /// Concatenation: the first operand gives the upper bits.
    Concat,
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Unsigned less than.
    Lt,
    /// Unsigned less than or equal.
    Le,
    /// Signed less than.
    LtSigned,
    /// Signed less than or equal.
    LeSigned,
}
