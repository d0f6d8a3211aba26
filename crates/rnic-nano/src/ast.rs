//! A P4_16 program as it is written, after preprocessing. Names are not resolved, nothing is checked.
//!
//! Only what the subset has is here: the parser answers everything else with "not supported".

use crate::source::Span;
use std::rc::Rc;

/// A name and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ident {
    /// The name.
    pub name: Rc<str>,
    /// Where.
    pub span: Span,
}

/// `@name` or `@name(arguments)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Annotation {
    /// Without the `@`.
    pub name: Ident,
    /// Its arguments, if it has a list of expressions.
    pub arguments: Vec<Expr>,
}

/// A whole program with everything that it includes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    /// In order.
    pub items: Vec<Item>,
}

/// Something at the top level.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// Before it.
    pub annotations: Vec<Annotation>,
    /// All of it.
    pub span: Span,
    /// What it is.
    pub kind: ItemKind,
}

/// What stands at the top level.
#[derive(Clone, PartialEq, Debug)]
pub enum ItemKind {
    /// `const T NAME = value;`
    Const(Const),
    /// `typedef T NAME;` or `type T NAME;`
    Typedef {
        /// The new name.
        name: Ident,
        /// What it stands for.
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
    /// `parser NAME<T>(...);`: the type of a parser
    ParserType(Prototype),
    /// `control NAME<T>(...);`: the type of a control
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

/// A constant, at the top level or within a parser, control or block.
#[derive(Clone, PartialEq, Debug)]
pub struct Const {
    /// Its type.
    pub ty: Type,
    /// Its name.
    pub name: Ident,
    /// Its value.
    pub value: Expr,
}

/// A header or struct.
#[derive(Clone, PartialEq, Debug)]
pub struct Struct {
    /// Its name.
    pub name: Ident,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// A field of a header or struct.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Its type.
    pub ty: Type,
    /// Its name.
    pub name: Ident,
}

/// An enumeration.
#[derive(Clone, PartialEq, Debug)]
pub struct Enum {
    /// Its name.
    pub name: Ident,
    /// The type of its values, if it is given: then every member has a value.
    pub representation: Option<Type>,
    /// Its members.
    pub members: Vec<(Ident, Option<Expr>)>,
}

/// A kind of object that the architecture provides.
#[derive(Clone, PartialEq, Debug)]
pub struct Extern {
    /// Its name.
    pub name: Ident,
    /// Its type parameters.
    pub type_parameters: Vec<Ident>,
    /// Its constructors: prototypes of its own name, without result.
    pub constructors: Vec<Prototype>,
    /// Its methods.
    pub methods: Vec<Prototype>,
}

/// What something takes and returns.
#[derive(Clone, PartialEq, Debug)]
pub struct Prototype {
    /// What it returns; `None` for `void`, and for what returns nothing.
    pub result: Option<Type>,
    /// Its name.
    pub name: Ident,
    /// Its type parameters.
    pub type_parameters: Vec<Ident>,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
}

/// A parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// `in`, `out`, `inout` or none.
    pub direction: Direction,
    /// Its type.
    pub ty: Type,
    /// Its name.
    pub name: Ident,
}

/// Which way a parameter goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// None written: known when the program is compiled, or given by the control plane.
    None,
    /// `in`
    In,
    /// `out`
    Out,
    /// `inout`
    InOut,
}

/// A type.
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// Where.
    pub span: Span,
    /// What.
    pub kind: TypeKind,
}

/// What a type is.
#[derive(Clone, PartialEq, Debug)]
pub enum TypeKind {
    /// `bool`
    Bool,
    /// `bit<W>`; `bit` alone is `bit<1>`
    Bit(Box<Expr>),
    /// `int<W>`
    Int(Box<Expr>),
    /// `int`: a number of any size, known when the program is compiled
    Integer,
    /// `error`
    Error,
    /// `NAME` or `NAME<arguments>`
    Named {
        /// The name.
        name: Ident,
        /// Its type arguments.
        arguments: Vec<Type>,
    },
    /// `_` as a type argument: to be found out
    Any,
}

/// A parser.
#[derive(Clone, PartialEq, Debug)]
pub struct Parser {
    /// Its name.
    pub name: Ident,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// What it declares before its states.
    pub locals: Vec<Local>,
    /// Its states.
    pub states: Vec<State>,
}

/// A state of a parser.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// Its name.
    pub name: Ident,
    /// What it does.
    pub body: Vec<Stmt>,
    /// Where it goes; none written is `reject`.
    pub transition: Option<Transition>,
}

/// Where a parser goes on.
#[derive(Clone, PartialEq, Debug)]
pub enum Transition {
    /// `transition NAME;`
    To(Ident),
    /// `transition select(keys) { cases }`
    Select {
        /// Where.
        span: Span,
        /// What it looks at.
        keys: Vec<Expr>,
        /// In order.
        cases: Vec<SelectCase>,
    },
}

/// A case of a `select`.
#[derive(Clone, PartialEq, Debug)]
pub struct SelectCase {
    /// One for each key.
    pub keys: Vec<KeySet>,
    /// All of them.
    pub span: Span,
    /// The next state.
    pub next: Ident,
}

/// What a key may be.
#[derive(Clone, PartialEq, Debug)]
pub enum KeySet {
    /// `default` or `_`
    Any(Span),
    /// A value.
    Value(Expr),
    /// `value &&& mask`
    Masked(Expr, Expr),
    /// `low .. high`
    Range(Expr, Expr),
}

/// A control.
#[derive(Clone, PartialEq, Debug)]
pub struct Control {
    /// Its name.
    pub name: Ident,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// What it declares before `apply`.
    pub locals: Vec<Local>,
    /// What it does.
    pub apply: Block,
}

/// Something declared within a parser or control.
#[derive(Clone, PartialEq, Debug)]
pub enum Local {
    /// A constant.
    Const(Const),
    /// A variable.
    Variable(Variable),
    /// An object.
    Instance(Instance),
    /// An action.
    Action(Action),
    /// A table.
    Table(Table),
}

/// A variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Variable {
    /// Its type.
    pub ty: Type,
    /// Its name.
    pub name: Ident,
    /// Its first value.
    pub value: Option<Expr>,
}

/// An object made of an extern, control, parser or package.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// Before it.
    pub annotations: Vec<Annotation>,
    /// What it is made of.
    pub ty: Type,
    /// What the constructor gets.
    pub arguments: Vec<Argument>,
    /// Its name.
    pub name: Ident,
}

/// An argument of a call.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    /// `name = value`: of which parameter it is.
    pub name: Option<Ident>,
    /// The value; `None` for `_`: an `out` that nobody wants.
    pub value: Option<Expr>,
    /// Where.
    pub span: Span,
}

/// An action.
#[derive(Clone, PartialEq, Debug)]
pub struct Action {
    /// Its name.
    pub name: Ident,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// What it does.
    pub body: Block,
}

/// A table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Its name.
    pub name: Ident,
    /// What it looks at, and how: `exact`, `ternary`, `lpm`.
    pub keys: Vec<(Expr, Ident)>,
    /// What it can do.
    pub actions: Vec<ActionRef>,
    /// What it does when nothing matches, and whether the control plane may change that.
    pub default: Option<(ActionRef, bool)>,
    /// Its entries.
    pub entries: Vec<Entry>,
    /// `const entries`: the control plane may add none.
    pub entries_const: bool,
    /// How many entries it may have.
    pub size: Option<Expr>,
}

/// An action by name, with arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct ActionRef {
    /// Which.
    pub name: Ident,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// Before it: `@defaultonly`, `@tableonly`.
    pub annotations: Vec<Annotation>,
}

/// An entry of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// One for each key of the table.
    pub keys: Vec<KeySet>,
    /// All of them.
    pub span: Span,
    /// What it does.
    pub action: ActionRef,
}

/// `{ ... }`
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// In order.
    pub body: Vec<Stmt>,
    /// Where.
    pub span: Span,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// Where.
    pub span: Span,
    /// What.
    pub kind: StmtKind,
}

/// What a statement is.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// A variable.
    Variable(Variable),
    /// A constant.
    Const(Const),
    /// `target = value;`
    Assign {
        /// An l-value.
        target: Expr,
        /// The value.
        value: Expr,
    },
    /// A call: of an action, a method, an extern function, or `apply`.
    Call(Expr),
    /// `if (condition) then else otherwise`
    If {
        /// Of type `bool`.
        condition: Expr,
        /// A statement or a block.
        then: Box<Stmt>,
        /// The same.
        otherwise: Option<Box<Stmt>>,
    },
    /// `switch (value) { labels: { ... } }`; the value may be `table.apply().action_run`
    Switch {
        /// What it looks at.
        value: Expr,
        /// In order; a case without a block shares that of the next.
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
    /// What it is for; `None`: `default`.
    pub label: Option<Expr>,
    /// Where the label stands.
    pub span: Span,
    /// What it does; `None`: what the next case does.
    pub body: Option<Block>,
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// Where.
    pub span: Span,
    /// What.
    pub kind: ExprKind,
}

/// What an expression is.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// A number: `10`, `0x1F`, `8w255`, `4s7`, `0b1010_1010`
    Number {
        /// Its value.
        value: u128,
        /// Its width and whether it is signed, if that is written.
        width: Option<(u32, bool)>,
    },
    /// `true`, `false`
    Bool(bool),
    /// A string, in annotations only.
    String(Rc<str>),
    /// A name.
    Name(Ident),
    /// `.NAME`: a name of the top level
    TopName(Ident),
    /// `value.member`
    Member(Box<Expr>, Ident),
    /// `value[high:low]`
    Slice {
        /// Of what.
        value: Box<Expr>,
        /// Highest bit.
        high: Box<Expr>,
        /// Lowest bit.
        low: Box<Expr>,
    },
    /// `function<types>(arguments)`
    Call {
        /// What is called: a name, or a member of an object.
        function: Box<Expr>,
        /// Type arguments.
        types: Vec<Type>,
        /// Arguments.
        arguments: Vec<Argument>,
    },
    /// `{a, b}` or `{x = a, y = b}`: a struct by its fields
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

/// Operators with one operand.
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

/// Operators with two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `|+|`: saturating
    SatAdd,
    /// `|-|`: saturating
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
