//! A program as it is meant: names resolved, types checked, constants folded, calls of actions and controls put in place. Every variable,
//! field and parameter that holds bits is a *slot* of its pipeline; nothing of structs, enums and generics is left.
//!
//! It is correct by construction: widths agree, slots exist, slices lie within what they are of. What executes it need not check.

pub mod check;

use crate::source::Span;

/// A checked program.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// Parser and ingress control.
    pub ingress: Pipeline,
    /// Egress control and deparser.
    pub egress: Pipeline,
    /// Objects with state, shared by both pipelines.
    pub instances: Vec<Instance>,
    /// Annotations of the package's instance (`main`), as name and argument (empty without).
    pub annotations: Vec<(String, String)>,
    /// Constants of the top level that may be given another value, with the value that they have.
    pub constants: Vec<(String, u128)>,
}

/// One of the two pipelines, with slots of its own.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pipeline {
    /// What its slots are.
    pub slots: Vec<Slot>,
    /// Its headers.
    pub headers: Vec<Header>,
    /// Its tables.
    pub tables: Vec<Table>,
    /// What the architecture gives it: `arrival.trimmed` and the slot. Written before it runs.
    pub inputs: Vec<(String, SlotId)>,
    /// What the architecture takes from it. Zero before it runs, but for an `inout`: that is also one of the inputs.
    pub outputs: Vec<(String, SlotId)>,
    /// States of the parser; the first one is `start`. Empty in egress.
    pub states: Vec<State>,
    /// What the control does.
    pub control: Vec<Stmt>,
    /// What the deparser does. Empty in ingress.
    pub deparser: Vec<Stmt>,
}

/// Number of a slot in its pipeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SlotId(pub u32);
/// Number of a header in its pipeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HeaderId(pub u32);
/// Number of a table in its pipeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TableId(pub u32);
/// Number of an instance in the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct InstanceId(pub u32);
/// Number of a state in its parser.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StateId(pub u32);

/// A scalar variable. All are zero when a pipeline begins, but for its inputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// For readers: `hdr.ndp.flags`.
    pub name: String,
    /// Bits, 1 to 128; a `bool` has 1.
    pub width: u32,
    /// Two's complement.
    pub signed: bool,
}

/// A header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// For readers: `hdr.ndp`.
    pub name: String,
    /// One bit: whether it is valid.
    pub valid: SlotId,
    /// Its fields, first to last. Their widths add up to whole bytes.
    pub fields: Vec<SlotId>,
}

/// Something with state that the architecture provides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// Its name in the program.
    pub name: String,
    /// Which extern it is: `IfElseRaw`.
    pub kind: String,
    /// Widths of the scalars of its type argument, first to last; one for a `bit<W>`.
    pub types: Vec<u32>,
    /// What its constructor was given.
    pub arguments: Vec<u128>,
    /// Where it is declared.
    pub span: Span,
}

/// A state of the parser.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// Its name.
    pub name: String,
    /// What it does.
    pub body: Vec<Stmt>,
    /// Where it goes.
    pub transition: Transition,
}

/// The end of a state.
#[derive(Clone, PartialEq, Debug)]
pub enum Transition {
    /// On.
    To(Target),
    /// To the first case that all keys match; with none to `reject`.
    Select {
        /// What it looks at.
        keys: Vec<Expr>,
        /// In order: one pattern for each key.
        cases: Vec<(Vec<Pattern>, Target)>,
    },
}

/// Where a parser goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// To a state.
    State(StateId),
    /// To the control.
    Accept,
    /// Nowhere: the packet is forgotten.
    Reject,
}

/// What a key may be, compared as unsigned numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// `key & mask == value`; the value has no bit outside the mask.
    Masked {
        /// The value.
        value: u128,
        /// Bits that matter.
        mask: u128,
    },
    /// `low <= key <= high`
    Range {
        /// Least.
        low: u128,
        /// Greatest.
        high: u128,
    },
}

/// A table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// What it looks at, and how.
    pub keys: Vec<(Expr, MatchKind)>,
    /// What it can do.
    pub actions: Vec<Action>,
    /// What it does when nothing matches: an action by its index, and the arguments; `None`: nothing.
    pub default: Option<(usize, Vec<u128>)>,
    /// The control plane may not change the default.
    pub default_const: bool,
    /// Entries of the program. In order of precedence, but for one `lpm` key: there the longest prefix comes first.
    pub entries: Vec<Entry>,
    /// The control plane may add none.
    pub entries_const: bool,
    /// How many entries it may have.
    pub size: u32,
    /// Where it is declared.
    pub span: Span,
}

/// How a table looks at a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchKind {
    /// All of it.
    Exact,
    /// Under a mask.
    Ternary,
    /// A prefix, the longest first.
    Lpm,
}

/// What a table can do.
#[derive(Clone, PartialEq, Debug)]
pub struct Action {
    /// Its name.
    pub name: String,
    /// Where the entry's arguments go before it runs.
    pub parameters: Vec<SlotId>,
    /// What it does.
    pub body: Vec<Stmt>,
}

/// An entry of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// One for each key.
    pub keys: Vec<Pattern>,
    /// The action, by its index in the table.
    pub action: usize,
    /// Its arguments.
    pub arguments: Vec<u128>,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// All of a slot; the widths are the same.
    Assign {
        /// The slot.
        slot: SlotId,
        /// Its new value.
        value: Expr,
    },
    /// As many bits of a slot as the value has.
    AssignSlice {
        /// The slot.
        slot: SlotId,
        /// Lowest bit.
        low: u32,
        /// The bits' new value.
        value: Expr,
    },
    /// One or the other.
    If {
        /// Of width 1.
        condition: Expr,
        /// If it is 1.
        then: Vec<Stmt>,
        /// If it is 0.
        otherwise: Vec<Stmt>,
    },
    /// The case with the value, else the default.
    Switch {
        /// What it looks at.
        value: Expr,
        /// Values and what to do; no value twice.
        cases: Vec<(Vec<u128>, Vec<Stmt>)>,
        /// What to do otherwise.
        default: Vec<Stmt>,
    },
    /// A body that [`Stmt::Leave`] can leave: an action or control that was put in place.
    Scope(Vec<Stmt>),
    /// Goes on after the so manieth enclosing [`Stmt::Scope`], 0 for the innermost.
    Leave(u32),
    /// Ends the control.
    Exit,
    /// Looks a table up, and does what it says.
    Apply {
        /// Which.
        table: TableId,
        /// Gets 1 if an entry matched, else 0.
        hit: Option<SlotId>,
        /// Gets the index of the action that ran; that of no action if none did: the number of the table's actions.
        action: Option<SlotId>,
    },
    /// Calls something of the architecture.
    Extern(ExternCall),
    /// Parser: takes the header's bytes off the packet, and makes it valid. Too few bytes: the packet is forgotten.
    Extract(HeaderId),
    /// Parser: leaves out so many bits, a multiple of 8.
    Advance(u32),
    /// Deparser: puts the header's bytes into the packet, if it is valid.
    Emit(HeaderId),
}

/// A call of something that the architecture provides.
#[derive(Clone, PartialEq, Debug)]
pub struct ExternCall {
    /// `execute`, or `delivered_event`.
    pub function: String,
    /// The object whose method it is.
    pub instance: Option<InstanceId>,
    /// What goes in: the scalars of every parameter that is not `out`, first to last.
    pub arguments: Vec<Expr>,
    /// Where what comes out goes: the scalars of the result, then those of every `out` and `inout` parameter. Their widths are as declared;
    /// `None` where nobody wants it.
    pub results: Vec<Option<SlotId>>,
    /// Where it stands.
    pub span: Span,
}

/// An expression without effects.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// Bits of its value, 1 to 128; a `bool` has 1.
    pub width: u32,
    /// What it is.
    pub kind: ExprKind,
}

/// What an expression is. Values are unsigned numbers below two to the width; what is signed is two's complement.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// A number.
    Const(u128),
    /// A slot, of the same width.
    Slot(SlotId),
    /// One operand, of the same width.
    Unary(UnaryOp, Box<Expr>),
    /// Two operands. But for shifts and concatenation they have the same width; so has the value, or it has width 1 for comparisons.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// As many bits as this expression has, from `low` on.
    Slice {
        /// Of what.
        of: Box<Expr>,
        /// Lowest bit.
        low: u32,
    },
    /// To more bits, with zeros.
    ZeroExtend(Box<Expr>),
    /// To more bits, with copies of the highest.
    SignExtend(Box<Expr>),
    /// By a condition of width 1. Both are without effects, so either may be evaluated.
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// Operators with one operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    /// Two's complement.
    Negate,
    /// All bits; also the `!` of a `bool`.
    Not,
}

/// Operators with two operands. Overflow wraps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Sum, at most the greatest value.
    SatAdd,
    /// Difference, at least the least value.
    SatSub,
    /// The same for two's complement.
    SatAddSigned,
    /// The same for two's complement.
    SatSubSigned,
    /// Product.
    Mul,
    /// To higher bits; the second operand is unsigned, of any width. By the width or more: 0.
    Shl,
    /// To lower bits, with zeros.
    Shr,
    /// To lower bits, with copies of the highest.
    ShrSigned,
    /// Bitwise; also `&&`.
    And,
    /// Bitwise; also `||`.
    Or,
    /// Bitwise; also `!=` of a `bool`.
    Xor,
    /// The first operand's bits above the second's.
    Concat,
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Less, as two's complement.
    LtSigned,
    /// Less or equal, as two's complement.
    LeSigned,
}
