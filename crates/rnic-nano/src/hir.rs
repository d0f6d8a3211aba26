//! The high-level intermediate representation (HIR) of a P4 program that has passed all checks of the compiler.
//!
//! In the HIR, names are resolved, types are checked, constants are folded, and calls of actions and controls are
//! inlined. Every variable, field and parameter that holds bits is a *slot* (a scalar variable) of its pipeline.
//! Structs, enums and generics no longer exist.
//!
//! The front end produces only well-formed HIR: the widths of operands agree, every slot exists, and slices lie within
//! their operands. So code generation and interpreters do not check these properties again.

pub mod check;

use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// A checked P4 program: two pipelines and the objects that they share.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// The ingress pipeline, which processes arriving packets: the parser and the ingress control.
    pub ingress: Pipeline,
    /// The egress pipeline, which writes the headers of departing packets: the egress control and the deparser.
    pub egress: Pipeline,
    /// The extern objects, such as register arrays, whose state both pipelines share.
    pub instances: Vec<Instance>,
    /// The annotations of the package's instance (`main`), each with its name and its argument. The argument is an
    /// empty string if the annotation has none.
    pub annotations: Vec<(String, String)>,
    /// The top-level constants whose values a user may replace, each with its current value.
    pub constants: Vec<(String, u128)>,
    /// The warnings about the program, in the order of their source ranges.
    pub warnings: Vec<Diagnostic>,
}

/// The ingress or the egress pipeline. Each pipeline has its own slots (scalar variables).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pipeline {
    /// The slots: all scalar variables of the pipeline.
    pub slots: Vec<Slot>,
    /// The headers that the parser can extract or the deparser can emit.
    pub headers: Vec<Header>,
    /// The match-action tables.
    pub tables: Vec<Table>,
    /// The values that the NIC passes to the pipeline for each packet. Each has a name, such as `arrival.trimmed`, and
    /// the slot (scalar variable) that receives the value before the pipeline runs.
    pub inputs: Vec<(String, SlotId)>,
    /// The values that the NIC reads after the pipeline has run, each with its name and its slot (scalar variable).
    /// They are zero before the pipeline runs, except for `inout` values, which are also among the inputs.
    pub outputs: Vec<(String, SlotId)>,
    /// The states of the parser; the first one is `start`. Empty in the egress pipeline.
    pub states: Vec<State>,
    /// The statements of the control, with all calls inlined.
    pub control: Vec<Stmt>,
    /// The statements of the deparser. Empty in the ingress pipeline.
    pub deparser: Vec<Stmt>,
}

/// Identifies a slot (scalar variable) by its index in [`Pipeline::slots`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SlotId(pub u32);
/// Identifies a header by its index in [`Pipeline::headers`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HeaderId(pub u32);
/// Identifies a table by its index in [`Pipeline::tables`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TableId(pub u32);
/// Identifies an extern object by its index in [`Program::instances`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct InstanceId(pub u32);
/// Identifies a parser state by its index in [`Pipeline::states`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StateId(pub u32);

/// A slot: a scalar variable of a pipeline. When the pipeline begins to process a packet, all slots are zero, except
/// the slots of its inputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The name of the slot for error messages and dumps, such as `hdr.ndp.flags`.
    pub name: String,
    /// The width in bits, 1 to 128. A `bool` has a width of 1.
    pub width: u32,
    /// Whether the slot holds a two's-complement number.
    pub signed: bool,
}

/// A header of a packet: its fields and its validity bit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The name of the header for error messages and dumps, such as `hdr.ndp`.
    pub name: String,
    /// The slot (scalar variable) of the validity bit: 1 if the header is present in the packet.
    pub valid: SlotId,
    /// The slots (scalar variables) of the header's fields, in their order in the packet. Their widths add up to whole
    /// bytes.
    pub fields: Vec<SlotId>,
}

/// An extern object, which keeps state between packets: an array of registers or a scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// The name of the object in the program.
    pub name: String,
    /// The name of the extern type, such as `IfElseRaw`.
    pub kind: String,
    /// The widths in bits of all scalars in the type argument, in order. For the type argument `bit<W>`, this is the
    /// single width W.
    pub types: Vec<u32>,
    /// The arguments of the constructor, such as the number of registers.
    pub arguments: Vec<u128>,
    /// The source range of the object's declaration.
    pub span: Span,
}

/// A state of the parser.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// The name of the state.
    pub name: String,
    /// The source range of the state's name.
    pub span: Span,
    /// The statements of the state.
    pub body: Vec<Stmt>,
    /// The transition to the next state.
    pub transition: Transition,
}

/// The transition at the end of a parser state.
#[derive(Clone, PartialEq, Debug)]
pub enum Transition {
    /// An unconditional transition.
    To(Target),
    /// A transition to the target of the first case whose patterns match all keys. If no case matches, the parser
    /// rejects the packet.
    Select {
        /// The expressions that are compared with the patterns.
        keys: Vec<Expr>,
        /// The cases in order, each with one pattern for each key, and the target of the transition.
        cases: Vec<(Vec<Pattern>, Target)>,
    },
}

/// The target of a parser transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Another parser state.
    State(StateId),
    /// `accept`: parsing ends, and the control runs next.
    Accept,
    /// `reject`: parsing ends, and the NIC drops the packet.
    Reject,
}

/// A pattern that is compared with a key; the key's value is treated as an unsigned number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Matches if `key & mask == value`. The value has no bits outside the mask.
    Masked {
        /// The value that the key must have under the mask.
        value: u128,
        /// The mask: its bits that are 1 are compared.
        mask: u128,
    },
    /// Matches if `low <= key <= high`.
    Range {
        /// The smallest matching value.
        low: u128,
        /// The largest matching value.
        high: u128,
    },
}

/// A match-action table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// The name of the table.
    pub name: String,
    /// The key expressions, each with its match kind.
    pub keys: Vec<(Expr, MatchKind)>,
    /// The actions that an entry can select.
    pub actions: Vec<Action>,
    /// The default action, which runs if no entry matches: its index in `actions` and its arguments. `None` if there
    /// is no default action.
    pub default: Option<(usize, Vec<u128>)>,
    /// Whether the default action is declared `const`: then the control plane cannot change it.
    pub default_const: bool,
    /// The entries that the program declares, in order of precedence. In a table with one `lpm` key, entries with
    /// longer prefixes come first.
    pub entries: Vec<Entry>,
    /// Whether the entries are declared `const`: then the control plane cannot change them.
    pub entries_const: bool,
    /// The maximum number of entries.
    pub size: u32,
    /// The source range of the table's declaration.
    pub span: Span,
}

/// The match kind of a key: how the table compares the key with its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchKind {
    /// All bits of the key are compared.
    Exact,
    /// The bits of the key under the entry's mask are compared.
    Ternary,
    /// A prefix of the key is compared. The entry with the longest matching prefix takes precedence.
    Lpm,
}

/// An action that entries of a table can select.
#[derive(Clone, PartialEq, Debug)]
pub struct Action {
    /// The name of the action.
    pub name: String,
    /// The slots (scalar variables) that receive the arguments of the matching entry before the action runs.
    pub parameters: Vec<SlotId>,
    /// The statements of the action.
    pub body: Vec<Stmt>,
}

/// An entry of a table: the patterns to match and the action to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The patterns that the entry matches, one for each key of the table.
    pub keys: Vec<Pattern>,
    /// The action that runs, as an index into the table's `actions`.
    pub action: usize,
    /// The arguments of the action.
    pub arguments: Vec<u128>,
}

/// A statement of a parser state, control or deparser.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// Assigns a value to a slot (scalar variable) of the same width.
    Assign {
        /// The slot that is assigned.
        slot: SlotId,
        /// The new value of the slot.
        value: Expr,
    },
    /// Assigns a value to some bits of a slot (scalar variable). The number of assigned bits is the width of the value.
    AssignSlice {
        /// The slot of which some bits are assigned.
        slot: SlotId,
        /// The index of the lowest bit that is assigned; bit 0 is the least significant one.
        low: u32,
        /// The new value of the assigned bits.
        value: Expr,
    },
    /// Runs one of two lists of statements, depending on a condition.
    If {
        /// The condition: an expression of width 1.
        condition: Expr,
        /// The statements that run if the condition is 1.
        then: Vec<Stmt>,
        /// The statements that run if the condition is 0.
        otherwise: Vec<Stmt>,
    },
    /// Runs the statements of the case that lists the value, or the default statements if no case lists it.
    Switch {
        /// The value that is compared with the values of the cases.
        value: Expr,
        /// The cases, each with its values and its statements. No value occurs in two cases.
        cases: Vec<(Vec<u128>, Vec<Stmt>)>,
        /// The statements that run if no case lists the value.
        default: Vec<Stmt>,
    },
    /// An inlined action or control. [`Stmt::Leave`] within these statements jumps to their end.
    Scope(Vec<Stmt>),
    /// Jumps to the end of an enclosing [`Stmt::Scope`] (an inlined action or control): 0 means the innermost enclosing
    /// scope, 1 the scope around it.
    Leave(u32),
    /// Ends the control (`exit`); the deparser of the egress pipeline still runs.
    Exit,
    /// Applies a table: looks up the keys, and runs the action of the matching entry or the default action.
    Apply {
        /// The table that is applied.
        table: TableId,
        /// The slot (scalar variable) that is set to 1 if an entry matched, else to 0. `None` if the program does not
        /// use this result.
        hit: Option<SlotId>,
        /// The slot (scalar variable) that is set to the index of the action that ran, or to the number of the table's
        /// actions if no action ran. `None` if the program does not use this result.
        action: Option<SlotId>,
    },
    /// Calls an extern function or a method of an extern object.
    Extern(ExternCall),
    /// Parser only: extracts a header from the packet and makes it valid. A packet with too few bytes is dropped.
    Extract(HeaderId),
    /// Parser only: skips this number of bits of the packet, a multiple of 8. A packet with too few bytes is dropped.
    Advance(u32),
    /// Parser only: assigns the next bits of the packet to slots, from the first bit on, without consuming them. A
    /// packet with too few bits is dropped.
    Lookahead(Vec<SlotId>),
    /// Deparser only: appends the header's bytes to the packet if the header is valid.
    Emit(HeaderId),
}

/// A call of an extern function, or of a method of an extern object, which the NIC provides.
#[derive(Clone, PartialEq, Debug)]
pub struct ExternCall {
    /// The name of the function or method, such as `delivered_event` or `execute`.
    pub function: String,
    /// The object whose method is called; `None` for a call of a function.
    pub instance: Option<InstanceId>,
    /// The arguments: the scalars of all `in` and `inout` parameters, in order.
    pub arguments: Vec<Expr>,
    /// The slots (scalar variables) that receive the results of the call: first the scalars of the return value, then
    /// the scalars of all `out` and `inout` parameters. Each slot has the declared width of the result. `None` for a
    /// result that the program does not use.
    pub results: Vec<Option<SlotId>>,
    /// The source range of the call.
    pub span: Span,
}

/// An expression without side effects.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// The width of the value in bits, 1 to 128; a `bool` has 1.
    pub width: u32,
    /// The kind of the expression: a constant, a slot (scalar variable), or an operator with its operands.
    pub kind: ExprKind,
}

/// The kinds of expressions. A value of width W is an unsigned number less than 2^W. A signed number is represented in
/// two's complement.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// A constant.
    Const(u128),
    /// The value of a slot (scalar variable) of the same width as this expression.
    Slot(SlotId),
    /// A unary operator with its operand, which has the same width as the result.
    Unary(UnaryOp, Box<Expr>),
    /// A binary operator. The operands have the same width, except in shifts and concatenations. The result has the
    /// operands' width, or width 1 for comparisons.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// A slice: bits `low` to `low + width - 1` of the operand, where `width` is the width of this expression.
    Slice {
        /// The operand from which the bits are taken.
        of: Box<Expr>,
        /// The index of the lowest bit of the slice; bit 0 is the least significant one.
        low: u32,
    },
    /// Extends an operand to the width of this expression with zeros.
    ZeroExtend(Box<Expr>),
    /// Extends an operand to the width of this expression with copies of its sign bit.
    SignExtend(Box<Expr>),
    /// A conditional expression: the condition (of width 1), the value if it is 1, and the value if it is 0.
    /// Expressions have no side effects, so both values may be evaluated.
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// Unary operators of the HIR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    /// Two's-complement negation.
    Negate,
    /// Bitwise complement; also the `!` of a `bool`.
    Not,
}

/// Binary operators of the HIR. Addition, subtraction and multiplication wrap on overflow.
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
    /// Left shift. The second operand, the shift count, is unsigned and may have any width. The result is 0 if the
    /// count is at least the width of the first operand.
    Shl,
    /// Logical right shift, which shifts in zeros.
    Shr,
    /// Arithmetic right shift, which shifts in copies of the sign bit.
    ShrSigned,
    /// Bitwise and; also `&&`.
    And,
    /// Bitwise or; also `||`.
    Or,
    /// Bitwise exclusive or; also the `!=` of two `bool` values.
    Xor,
    /// Concatenation: the first operand becomes the upper bits of the result, the second operand the lower bits.
    Concat,
    /// Equality; the result is 1 or 0.
    Eq,
    /// Inequality; the result is 1 or 0.
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
