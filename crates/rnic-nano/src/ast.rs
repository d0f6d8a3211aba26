//! The abstract syntax tree (AST) of a P4_16 program, after preprocessing. Names are not resolved and nothing is
//! checked.
//!
//! The AST has only the constructs of the supported subset; the parser reports all others as "not supported".

use crate::source::Span;
use std::rc::Rc;

/// An identifier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ident {
    /// The name.
    pub name: Rc<str>,
    /// The source range of the name.
    pub span: Span,
}

/// An annotation: `@name` or `@name(arguments)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Annotation {
    /// The name without the `@`.
    pub name: Ident,
    /// The arguments, if they are a list of expressions; else empty.
    pub arguments: Vec<Expr>,
}

/// A whole program, including the files that it includes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    /// The declarations, in source order.
    pub items: Vec<Item>,
}

/// A declaration at the top level.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// The annotations before the declaration.
    pub annotations: Vec<Annotation>,
    /// The source range of the whole declaration.
    pub span: Span,
    /// The declaration itself.
    pub kind: ItemKind,
}

/// The kinds of top-level declarations.
#[derive(Clone, PartialEq, Debug)]
pub enum ItemKind {
    /// `const T NAME = value;`
    Const(Const),
    /// `typedef T NAME;` or `type T NAME;`
    Typedef {
        /// The new name.
        name: Ident,
        /// The type that the name stands for.
        of: Type,
    },
    /// `header NAME { ... }`
    Header(Struct),
    /// `struct NAME { ... }`
    Struct(Struct),
    /// `enum NAME { A, B }` or `enum bit<8> NAME { A = 1, B = 2 }`
    Enum(Enum),
    /// `error { A, B }`
    Error(Vec<Ident>),
    /// `match_kind { exact, ternary }`
    MatchKind(Vec<Ident>),
    /// `extern NAME<T> { NAME(...); R method(...); }`
    Extern(Extern),
    /// `extern R name<T>(...);`
    ExternFunction(Prototype),
    /// `parser NAME<T>(...);`: a parser type declaration
    ParserType(Prototype),
    /// `control NAME<T>(...);`: a control type declaration
    ControlType(Prototype),
    /// `package NAME<T>(...);`
    Package(Prototype),
    /// `parser NAME(...) { ... }`
    Parser(Parser),
    /// `control NAME(...) { ... apply { ... } }`
    Control(Control),
    /// `action NAME(...) { ... }` at the top level
    Action(Action),
    /// `TYPE(arguments) NAME;`
    Instance(Instance),
}

/// A constant declaration, at the top level or within a parser, control or block.
#[derive(Clone, PartialEq, Debug)]
pub struct Const {
    /// The type.
    pub ty: Type,
    /// The name.
    pub name: Ident,
    /// The value.
    pub value: Expr,
}

/// A header or struct declaration.
#[derive(Clone, PartialEq, Debug)]
pub struct Struct {
    /// The name.
    pub name: Ident,
    /// The fields.
    pub fields: Vec<Field>,
}

/// A field of a header or struct.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// The type.
    pub ty: Type,
    /// The name.
    pub name: Ident,
}

/// An enum declaration.
#[derive(Clone, PartialEq, Debug)]
pub struct Enum {
    /// The name.
    pub name: Ident,
    /// The underlying type of a serializable enum, in which every member has a value; `None` for an enum without an
    /// underlying type.
    pub representation: Option<Type>,
    /// The members, each with its value if it has one.
    pub members: Vec<(Ident, Option<Expr>)>,
}

/// An extern type: a kind of object that the architecture provides.
#[derive(Clone, PartialEq, Debug)]
pub struct Extern {
    /// The name.
    pub name: Ident,
    /// The type parameters.
    pub type_parameters: Vec<Ident>,
    /// The constructors: prototypes with the name of the extern and without a result type.
    pub constructors: Vec<Prototype>,
    /// The methods.
    pub methods: Vec<Prototype>,
}

/// The signature of a function, method, constructor, parser, control or package.
#[derive(Clone, PartialEq, Debug)]
pub struct Prototype {
    /// The result type; `None` for `void` and for what has no result.
    pub result: Option<Type>,
    /// The name.
    pub name: Ident,
    /// The type parameters.
    pub type_parameters: Vec<Ident>,
    /// The parameters.
    pub parameters: Vec<Parameter>,
}

/// A parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// The direction.
    pub direction: Direction,
    /// The type.
    pub ty: Type,
    /// The name.
    pub name: Ident,
}

/// The direction of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// No direction: the argument is a compile-time constant, or an action's argument given by the control plane.
    None,
    /// `in`
    In,
    /// `out`
    Out,
    /// `inout`
    InOut,
}

/// A type as it is written.
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// The source range.
    pub span: Span,
    /// The type itself.
    pub kind: TypeKind,
}

/// The kinds of types.
#[derive(Clone, PartialEq, Debug)]
pub enum TypeKind {
    /// `bool`
    Bool,
    /// `bit<W>`; `bit` alone means `bit<1>`
    Bit(Box<Expr>),
    /// `int<W>`
    Int(Box<Expr>),
    /// `int`: an integer of arbitrary precision, known at compile time
    Integer,
    /// `error`
    Error,
    /// `NAME` or `NAME<arguments>`
    Named {
        /// The name.
        name: Ident,
        /// The type arguments.
        arguments: Vec<Type>,
    },
    /// `_` as a type argument: the compiler infers the type
    Any,
}

/// A parser with its body.
#[derive(Clone, PartialEq, Debug)]
pub struct Parser {
    /// The name.
    pub name: Ident,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// The declarations before the first state.
    pub locals: Vec<Local>,
    /// The states.
    pub states: Vec<State>,
}

/// A state of a parser.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// The name.
    pub name: Ident,
    /// The statements.
    pub body: Vec<Stmt>,
    /// The transition; a state without one goes to `reject`.
    pub transition: Option<Transition>,
}

/// The transition at the end of a state.
#[derive(Clone, PartialEq, Debug)]
pub enum Transition {
    /// `transition NAME;`
    To(Ident),
    /// `transition select(keys) { cases }`
    Select {
        /// The source range.
        span: Span,
        /// The expressions that the cases are compared with.
        keys: Vec<Expr>,
        /// The cases, in source order.
        cases: Vec<SelectCase>,
    },
}

/// A case of a `select`.
#[derive(Clone, PartialEq, Debug)]
pub struct SelectCase {
    /// One keyset for each key.
    pub keys: Vec<KeySet>,
    /// The source range of the keysets.
    pub span: Span,
    /// The next state.
    pub next: Ident,
}

/// A keyset: the set of values that a key is compared with.
#[derive(Clone, PartialEq, Debug)]
pub enum KeySet {
    /// `default` or `_`: every value
    Any(Span),
    /// A single value.
    Value(Expr),
    /// `value &&& mask`
    Masked(Expr, Expr),
    /// `low .. high`
    Range(Expr, Expr),
}

/// A control with its body.
#[derive(Clone, PartialEq, Debug)]
pub struct Control {
    /// The name.
    pub name: Ident,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// The declarations before `apply`.
    pub locals: Vec<Local>,
    /// The `apply` block.
    pub apply: Block,
}

/// A declaration within a parser or control.
#[derive(Clone, PartialEq, Debug)]
pub enum Local {
    /// A constant.
    Const(Const),
    /// A variable.
    Variable(Variable),
    /// An instance of an extern or control.
    Instance(Instance),
    /// An action.
    Action(Action),
    /// A table.
    Table(Table),
}

/// A variable declaration.
#[derive(Clone, PartialEq, Debug)]
pub struct Variable {
    /// The type.
    pub ty: Type,
    /// The name.
    pub name: Ident,
    /// The initial value.
    pub value: Option<Expr>,
}

/// An instantiation of an extern, control, parser or package.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// The annotations before the instantiation.
    pub annotations: Vec<Annotation>,
    /// The type that is instantiated.
    pub ty: Type,
    /// The constructor's arguments.
    pub arguments: Vec<Argument>,
    /// The name of the instance.
    pub name: Ident,
}

/// An argument of a call.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    /// The name of the parameter in `name = value`; `None` for a positional argument.
    pub name: Option<Ident>,
    /// The value; `None` for `_`, which discards the value of an `out` parameter.
    pub value: Option<Expr>,
    /// The source range.
    pub span: Span,
}

/// An action declaration.
#[derive(Clone, PartialEq, Debug)]
pub struct Action {
    /// The name.
    pub name: Ident,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// The body.
    pub body: Block,
}

/// A table declaration.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// The name.
    pub name: Ident,
    /// The keys, each with the name of its match kind: `exact`, `ternary`, `lpm`.
    pub keys: Vec<(Expr, Ident)>,
    /// The `actions` list.
    pub actions: Vec<ActionRef>,
    /// The default action, and whether it is `const`, so that the control plane cannot change it.
    pub default: Option<(ActionRef, bool)>,
    /// The entries that the program gives.
    pub entries: Vec<Entry>,
    /// Whether the entries are `const`, so that the control plane cannot change them.
    pub entries_const: bool,
    /// The maximum number of entries.
    pub size: Option<Expr>,
}

/// A reference to an action by name, with arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct ActionRef {
    /// The name of the action.
    pub name: Ident,
    /// The arguments.
    pub arguments: Vec<Argument>,
    /// The annotations before the reference, such as `@defaultonly` and `@tableonly`.
    pub annotations: Vec<Annotation>,
}

/// An entry of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// One keyset for each key of the table.
    pub keys: Vec<KeySet>,
    /// The source range of the keysets.
    pub span: Span,
    /// The action with its arguments.
    pub action: ActionRef,
}

/// A block of statements: `{ ... }`
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// The statements, in source order.
    pub body: Vec<Stmt>,
    /// The source range.
    pub span: Span,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// The source range.
    pub span: Span,
    /// The statement itself.
    pub kind: StmtKind,
}

/// The kinds of statements.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// A variable declaration.
    Variable(Variable),
    /// A constant declaration.
    Const(Const),
    /// `target = value;`
    Assign {
        /// An lvalue.
        target: Expr,
        /// The value.
        value: Expr,
    },
    /// A call of an action, method, extern function or `apply`.
    Call(Expr),
    /// `if (condition) then else otherwise`
    If {
        /// The condition, of type `bool`.
        condition: Expr,
        /// A statement or a block.
        then: Box<Stmt>,
        /// The statement or block after `else`.
        otherwise: Option<Box<Stmt>>,
    },
    /// `switch (value) { labels: { ... } }`; the value may be `table.apply().action_run`
    Switch {
        /// The expression that the labels are compared with.
        value: Expr,
        /// The cases, in source order.
        cases: Vec<SwitchCase>,
    },
    /// `{ ... }`
    Block(Block),
    /// `exit;`
    Exit,
    /// `return;`
    Return,
    /// `;`
    Empty,
}

/// A case of a `switch`.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchCase {
    /// The label; `None` for `default`.
    pub label: Option<Expr>,
    /// The source range of the label.
    pub span: Span,
    /// The block of the case; `None` if the case falls through to the block of the next case.
    pub body: Option<Block>,
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// The source range.
    pub span: Span,
    /// The expression itself.
    pub kind: ExprKind,
}

/// The kinds of expressions.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// An integer literal: `10`, `0x1F`, `8w255`, `4s7`, `0b1010_1010`
    Number {
        /// The value.
        value: u128,
        /// The width and whether the literal is signed, if it has a width prefix.
        width: Option<(u32, bool)>,
    },
    /// `true`, `false`
    Bool(bool),
    /// A string literal, in annotations only.
    String(Rc<str>),
    /// An identifier.
    Name(Ident),
    /// `.NAME`: an identifier looked up at the top level
    TopName(Ident),
    /// `value.member`
    Member(Box<Expr>, Ident),
    /// `value[high:low]`
    Slice {
        /// The value that is sliced.
        value: Box<Expr>,
        /// The index of the highest bit.
        high: Box<Expr>,
        /// The index of the lowest bit.
        low: Box<Expr>,
    },
    /// `function<types>(arguments)`
    Call {
        /// The callee: a name, or a member of an object.
        function: Box<Expr>,
        /// The type arguments.
        types: Vec<Type>,
        /// The arguments.
        arguments: Vec<Argument>,
    },
    /// A list expression `{a, b}` or `{x = a, y = b}`: a struct given by its fields
    List(Vec<Argument>),
    /// `(T) value`
    Cast(Type, Box<Expr>),
    /// `-a`, `~a`, `!a`, `+a`
    Unary(UnaryOp, Box<Expr>),
    /// `a + b`
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `condition ? a : b`
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// Unary operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    /// `-`
    Negate,
    /// `~`
    BitNot,
    /// `!`
    Not,
    /// `+`
    Plus,
}

/// Binary operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `|+|`: saturating addition
    SatAdd,
    /// `|-|`: saturating subtraction
    SatSub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// `++`: concatenation
    Concat,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `&&`
    LogicalAnd,
    /// `||`
    LogicalOr,
}
