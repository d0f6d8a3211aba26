//! The abstract syntax tree (AST) of a P4_16 program after preprocessing. The parser builds the AST without resolving
//! names and without checking types.
//!
//! The AST can represent only the subset of P4_16 that this compiler supports. The parser reports every other construct
//! of P4_16 as "not supported".

use crate::source::Span;
use std::rc::Rc;

/// An identifier in the source text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ident {
    /// The identifier's text.
    pub name: Rc<str>,
    /// The source range of the identifier.
    pub span: Span,
}

/// An annotation: `@name` or `@name(arguments)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Annotation {
    /// The annotation's name without the `@`.
    pub name: Ident,
    /// The annotation's arguments, if they are a list of expressions. Empty for an annotation without arguments or with
    /// arguments of another form.
    pub arguments: Vec<Expr>,
}

/// A whole program, including the files that it includes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    /// The top-level declarations, in source order.
    pub items: Vec<Item>,
}

/// A declaration at the top level of a program, such as a header type or a control.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// The annotations before the declaration.
    pub annotations: Vec<Annotation>,
    /// The source range of the whole declaration.
    pub span: Span,
    /// The kind of the declaration, with its contents.
    pub kind: ItemKind,
}

/// The kinds of declarations at the top level of a program.
#[derive(Clone, PartialEq, Debug)]
pub enum ItemKind {
    /// A constant: `const T NAME = value;`
    Const(Const),
    /// A type alias: `typedef T NAME;` or `type T NAME;`
    Typedef {
        /// The alias.
        name: Ident,
        /// The type that the alias stands for.
        of: Type,
    },
    /// A header type: `header NAME { ... }`
    Header(Struct),
    /// A struct type: `struct NAME { ... }`
    Struct(Struct),
    /// An enum type: `enum NAME { A, B }` or `enum bit<8> NAME { A = 1, B = 2 }`
    Enum(Enum),
    /// Error constants: `error { A, B }`
    Error(Vec<Ident>),
    /// Names of match kinds for table keys: `match_kind { exact, ternary }`
    MatchKind(Vec<Ident>),
    /// An extern type: `extern NAME<T> { NAME(...); R method(...); }`
    Extern(Extern),
    /// An extern function: `extern R name<T>(...);`
    ExternFunction(Prototype),
    /// A parser type, which is a signature without a body: `parser NAME<T>(...);`
    ParserType(Prototype),
    /// A control type, which is a signature without a body: `control NAME<T>(...);`
    ControlType(Prototype),
    /// A package type: `package NAME<T>(...);`
    Package(Prototype),
    /// A parser: `parser NAME(...) { ... }`
    Parser(Parser),
    /// A control: `control NAME(...) { ... apply { ... } }`
    Control(Control),
    /// An action outside all controls: `action NAME(...) { ... }`
    Action(Action),
    /// A function: `TYPE NAME(...) { ... }`
    Function(Function),
    /// An instance of an extern or package: `TYPE(arguments) NAME;`
    Instance(Instance),
}

/// A constant declaration, at the top level or within a parser, control or block.
#[derive(Clone, PartialEq, Debug)]
pub struct Const {
    /// The type of the constant.
    pub ty: Type,
    /// The name of the constant.
    pub name: Ident,
    /// The expression that gives the constant's value.
    pub value: Expr,
}

/// A declaration of a header type or struct type.
#[derive(Clone, PartialEq, Debug)]
pub struct Struct {
    /// The name of the header or struct type.
    pub name: Ident,
    /// The type parameters of a generic type: `struct NAME<A, B> { ... }`.
    pub type_parameters: Vec<Ident>,
    /// The fields of the header or struct type, in source order.
    pub fields: Vec<Field>,
}

/// A field of a header or struct type.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// The type of the field.
    pub ty: Type,
    /// The name of the field.
    pub name: Ident,
}

/// A declaration of an enum type.
#[derive(Clone, PartialEq, Debug)]
pub struct Enum {
    /// The name of the enum type.
    pub name: Ident,
    /// The underlying type of a serializable enum, in which every member has a value; `None` for an enum without an
    /// underlying type.
    pub representation: Option<Type>,
    /// The members in source order, each with its value if the source text gives one.
    pub members: Vec<(Ident, Option<Expr>)>,
}

/// An extern type: a kind of object that the architecture provides.
#[derive(Clone, PartialEq, Debug)]
pub struct Extern {
    /// The name of the extern type.
    pub name: Ident,
    /// The type parameters of the extern type: `T` in `extern NAME<T>`.
    pub type_parameters: Vec<Ident>,
    /// The constructors, as prototypes that have the extern's name and no result type.
    pub constructors: Vec<Prototype>,
    /// The prototypes of the extern type's methods.
    pub methods: Vec<Prototype>,
}

/// The signature of a function, method, constructor, parser, control or package.
#[derive(Clone, PartialEq, Debug)]
pub struct Prototype {
    /// The result type. `None` for a function that returns `void`, and for constructors, parsers, controls and
    /// packages, which have no result.
    pub result: Option<Type>,
    /// The name of the function, method, constructor, parser, control or package.
    pub name: Ident,
    /// The type parameters: `T` in `name<T>(...)`.
    pub type_parameters: Vec<Ident>,
    /// The parameters, in source order.
    pub parameters: Vec<Parameter>,
}

/// A parameter of a function, method, constructor, parser, control, package or action.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// The direction of the parameter: `in`, `out`, `inout` or none.
    pub direction: Direction,
    /// The type of the parameter.
    pub ty: Type,
    /// The name of the parameter.
    pub name: Ident,
    /// The argument of calls that omit it, if the parameter has a default value.
    pub default: Option<Argument>,
}

/// The direction of a parameter, which says whether the callee reads the argument, writes the argument, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// No direction: the argument is a compile-time constant, or the control plane gives it as an action argument of a
    /// table entry.
    None,
    /// `in`: the callee only reads the parameter.
    In,
    /// `out`: the callee writes the parameter, and the caller receives the value.
    Out,
    /// `inout`: the callee reads and writes the parameter, and the caller receives the new value.
    InOut,
}

/// A type as the source text writes it, with unresolved names.
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// The source range of the type.
    pub span: Span,
    /// The kind of the type.
    pub kind: TypeKind,
}

/// The kinds of types in the source text.
#[derive(Clone, PartialEq, Debug)]
pub enum TypeKind {
    /// The type `bool`.
    Bool,
    /// An unsigned number of W bits, `bit<W>`. The type `bit` without a width means `bit<1>`.
    Bit(Box<Expr>),
    /// A signed number of W bits, `int<W>`.
    Int(Box<Expr>),
    /// The type `int` without a width: an integer of arbitrary precision that is known at compile time.
    Integer,
    /// The type `error`.
    Error,
    /// A declared type or a type parameter, `NAME`, or a generic type with type arguments, `NAME<arguments>`.
    Named {
        /// The name of the type.
        name: Ident,
        /// The type arguments of the type; empty if there are none.
        arguments: Vec<Type>,
    },
    /// A header stack or an array: `T[size]`.
    Stack(Box<Type>, Box<Expr>),
    /// A tuple: `tuple<A, B>`.
    Tuple(Vec<Type>),
    /// The placeholder `_` as a type argument: the compiler infers the type.
    Any,
}

/// A declaration of a parser with its states.
#[derive(Clone, PartialEq, Debug)]
pub struct Parser {
    /// The name of the parser.
    pub name: Ident,
    /// The parameters of the parser.
    pub parameters: Vec<Parameter>,
    /// The parameters of the constructor, whose values are known at compile time.
    pub constructor: Vec<Parameter>,
    /// The constants, variables and instances declared before the first state.
    pub locals: Vec<Local>,
    /// The states of the parser, in source order.
    pub states: Vec<State>,
}

/// A state of a P4 parser: statements, and a transition to the next state.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// The name of the state.
    pub name: Ident,
    /// The statements of the state, without the transition.
    pub body: Vec<Stmt>,
    /// The transition to the next state. A state without a `transition` statement goes to `reject`.
    pub transition: Option<Transition>,
}

/// The transition at the end of a parser state.
#[derive(Clone, PartialEq, Debug)]
pub enum Transition {
    /// An unconditional transition: `transition NAME;`
    To(Ident),
    /// A transition that depends on values: `transition select(keys) { cases }`
    Select {
        /// The source range of the `select` expression.
        span: Span,
        /// The expressions in the parentheses of the `select`, which are compared with the keysets of each case.
        keys: Vec<Expr>,
        /// The cases, in source order. The first matching case decides the next state.
        cases: Vec<SelectCase>,
    },
}

/// A case of a `select` transition: `keysets: state;`
#[derive(Clone, PartialEq, Debug)]
pub struct SelectCase {
    /// The keysets (sets of matching values), one for each key of the `select`.
    pub keys: Vec<KeySet>,
    /// The source range of the keysets.
    pub span: Span,
    /// The name of the state that follows if all keysets match.
    pub next: Ident,
}

/// A keyset: the set of values that a key of a `select` or of a table entry must have.
#[derive(Clone, PartialEq, Debug)]
pub enum KeySet {
    /// `default` or `_`: every value matches.
    Any(Span),
    /// A single value: only this value matches.
    Value(Expr),
    /// `value &&& mask`: a key matches if it equals the value in the bits that are set in the mask.
    Masked(Expr, Expr),
    /// `low .. high`: the values from `low` to `high`, both included, match.
    Range(Expr, Expr),
}

/// A declaration of a control with its `apply` block.
#[derive(Clone, PartialEq, Debug)]
pub struct Control {
    /// The name of the control.
    pub name: Ident,
    /// The parameters of the control.
    pub parameters: Vec<Parameter>,
    /// The parameters of the constructor, whose values are known at compile time.
    pub constructor: Vec<Parameter>,
    /// The constants, variables, instances, actions and tables declared before `apply`.
    pub locals: Vec<Local>,
    /// The `apply` block: the statements that the control runs for a packet.
    pub apply: Block,
}

/// A declaration within a parser (before its states) or within a control (before `apply`).
#[derive(Clone, PartialEq, Debug)]
pub enum Local {
    /// A declaration of a constant.
    Const(Const),
    /// A declaration of a variable.
    Variable(Variable),
    /// An instance of an extern or control.
    Instance(Instance),
    /// A declaration of an action (in controls only).
    Action(Action),
    /// A declaration of a table (in controls only).
    Table(Table),
}

/// A declaration of a variable, with or without an initial value.
#[derive(Clone, PartialEq, Debug)]
pub struct Variable {
    /// The type of the variable.
    pub ty: Type,
    /// The name of the variable.
    pub name: Ident,
    /// The initial value; `None` if the declaration has no initialiser.
    pub value: Option<Expr>,
}

/// An instantiation of an extern, control, parser or package.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// The annotations before the instantiation, such as `@priorities(4)` before the package's instance.
    pub annotations: Vec<Annotation>,
    /// The extern, control, parser or package type that is instantiated.
    pub ty: Type,
    /// The arguments of the instance's constructor.
    pub arguments: Vec<Argument>,
    /// The name of the instance.
    pub name: Ident,
}

/// An argument of a call or constructor, or an item of a list expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    /// The name of the parameter or field in `name = value`; `None` for a positional argument.
    pub name: Option<Ident>,
    /// The value of the argument; `None` for `_`, which discards the value of an `out` parameter.
    pub value: Option<Expr>,
    /// The source range of the argument.
    pub span: Span,
}

/// A declaration of an action.
#[derive(Clone, PartialEq, Debug)]
pub struct Action {
    /// The name of the action.
    pub name: Ident,
    /// The parameters of the action.
    pub parameters: Vec<Parameter>,
    /// The statements of the action.
    pub body: Block,
}

/// A declaration of a function.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// The type of the result; `None` for `void`.
    pub result: Option<Type>,
    /// The name, parameters and statements of the function.
    pub body: Action,
}

/// A declaration of a match-action table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// The name of the table.
    pub name: Ident,
    /// The key expressions, each with the name of its match kind: `exact`, `ternary` or `lpm`.
    pub keys: Vec<(Expr, Ident)>,
    /// The actions of the `actions` property: the table's entries can select only these actions.
    pub actions: Vec<ActionRef>,
    /// The default action, which runs if no entry matches, and whether it is declared `const`. The control plane cannot
    /// change a `const` default action.
    pub default: Option<(ActionRef, bool)>,
    /// The initial entries, from the `entries` property.
    pub entries: Vec<Entry>,
    /// Whether the `entries` property is declared `const`: then the control plane cannot change the entries.
    pub entries_const: bool,
    /// The maximum number of entries, from the `size` property; `None` if the table has no such property.
    pub size: Option<Expr>,
    /// Whether the entry with the largest priority comes first, from the property `largest_priority_wins`.
    pub largest_priority_wins: bool,
}

/// A reference to an action by name, optionally with arguments: in an `actions` list, an entry or a default action.
#[derive(Clone, PartialEq, Debug)]
pub struct ActionRef {
    /// The name of the referenced action.
    pub name: Ident,
    /// The arguments that the reference gives to the action.
    pub arguments: Vec<Argument>,
    /// The annotations before the reference, such as `@defaultonly` and `@tableonly`.
    pub annotations: Vec<Annotation>,
}

/// An initial entry of a table, as the program declares it: `keysets: action(arguments);`
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The keysets (sets of matching values), one for each key of the table.
    pub keys: Vec<KeySet>,
    /// The source range of the keysets.
    pub span: Span,
    /// The action that runs if the entry matches, with its arguments.
    pub action: ActionRef,
    /// The priority of the entry, if it has one.
    pub priority: Option<Expr>,
}

/// A block of statements: `{ ... }`
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// The statements of the block, in source order.
    pub body: Vec<Stmt>,
    /// The source range of the block, including its braces.
    pub span: Span,
}

/// A statement of an action, a control or a parser state.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// The source range of the statement.
    pub span: Span,
    /// The kind of the statement, with its contents.
    pub kind: StmtKind,
}

/// The kinds of statements, with their contents.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// A declaration of a local variable.
    Variable(Variable),
    /// A declaration of a local constant.
    Const(Const),
    /// An assignment: `target = value;`
    Assign {
        /// The lvalue that is assigned: a variable, a field, or a slice of bits.
        target: Expr,
        /// The expression that gives the new value.
        value: Expr,
    },
    /// A call of an action, method, extern function or `apply`.
    Call(Expr),
    /// A conditional statement: `if (condition) then else otherwise`
    If {
        /// The condition: an expression of type `bool`.
        condition: Expr,
        /// The statement or block that runs if the condition is true.
        then: Box<Stmt>,
        /// The statement or block after `else`; `None` if there is no `else`.
        otherwise: Option<Box<Stmt>>,
    },
    /// A `switch` statement: `switch (value) { labels: { ... } }`. The value may be `table.apply().action_run`; then
    /// the labels are names of actions.
    Switch {
        /// The expression that is compared with the labels of the cases.
        value: Expr,
        /// The cases, in source order.
        cases: Vec<SwitchCase>,
    },
    /// A nested block: `{ ... }`
    Block(Block),
    /// `exit;`: ends the top-level control, also from within an action or an inner control.
    Exit,
    /// `return;`: ends the current action or control.
    Return(Option<Expr>),
    /// An empty statement: `;`
    Empty,
}

/// A case of a `switch` statement.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchCase {
    /// The label with which the value is compared; `None` for `default`.
    pub label: Option<Expr>,
    /// The source range of the label.
    pub span: Span,
    /// The block of the case; `None` if the case falls through to the block of the next case.
    pub body: Option<Block>,
}

/// An expression, with its position in the source text.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// The source range of the expression.
    pub span: Span,
    /// The kind of the expression, with its operands.
    pub kind: ExprKind,
}

/// The kinds of expressions, with their operands.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// An integer literal: `10`, `0x1F`, `8w255`, `4s7`, `0b1010_1010`
    Number {
        /// The number, without its width prefix.
        value: u128,
        /// The width in bits and whether the literal is signed, if it has a width prefix such as `8w` or `4s`.
        width: Option<(u32, bool)>,
    },
    /// A Boolean literal: `true` or `false`
    Bool(bool),
    /// A string literal; allowed in annotations only.
    String(Rc<str>),
    /// The name of a variable, constant, type or other declaration.
    Name(Ident),
    /// `.NAME`: a name that is looked up at the top level, so that local declarations cannot hide it.
    TopName(Ident),
    /// `value.member`: a field, a method, or a member of an enum.
    Member(Box<Expr>, Ident),
    /// `value[high:low]`: the bits from `high` down to `low` of a number.
    Slice {
        /// The number from which the bits are taken.
        value: Box<Expr>,
        /// The index of the highest selected bit; bit 0 is the least significant one.
        high: Box<Expr>,
        /// The index of the lowest selected bit.
        low: Box<Expr>,
    },
    /// `value[index]`: an element of a header stack, or a member of a tuple.
    Index(Box<Expr>, Box<Expr>),
    /// A call: `function<types>(arguments)`
    Call {
        /// The callee: the name of a function or action, or a member of an object.
        function: Box<Expr>,
        /// The type arguments of the call; empty if it has none.
        types: Vec<Type>,
        /// The arguments of the call.
        arguments: Vec<Argument>,
    },
    /// A list expression `{a, b}` or `{x = a, y = b}`: the values of a struct's fields, by position or by name.
    List(Vec<Argument>),
    /// A cast to another type: `(T) value`
    Cast(Type, Box<Expr>),
    /// A unary operator with its operand: `-a`, `~a`, `!a` or `+a`
    Unary(UnaryOp, Box<Expr>),
    /// A binary operator with its two operands, such as `a + b`
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// A conditional expression: `condition ? a : b`
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// Unary operators of P4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    /// Negation: `-a`
    Negate,
    /// Bitwise complement: `~a`
    BitNot,
    /// Logical negation of a `bool`: `!a`
    Not,
    /// Unary plus, which returns its operand: `+a`
    Plus,
}

/// Binary operators of P4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    /// Addition: `+`
    Add,
    /// Subtraction: `-`
    Sub,
    /// Saturating addition: `|+|`
    SatAdd,
    /// Saturating subtraction: `|-|`
    SatSub,
    /// Multiplication: `*`
    Mul,
    /// Division: `/`
    Div,
    /// Remainder of a division: `%`
    Mod,
    /// Left shift: `<<`
    Shl,
    /// Right shift: `>>`
    Shr,
    /// Bitwise and: `&`
    And,
    /// Bitwise or: `|`
    Or,
    /// Bitwise exclusive or: `^`
    Xor,
    /// Concatenation of bit strings: `++`
    Concat,
    /// Equal: `==`
    Eq,
    /// Not equal: `!=`
    Ne,
    /// Less than: `<`
    Lt,
    /// Less than or equal: `<=`
    Le,
    /// Greater than: `>`
    Gt,
    /// Greater than or equal: `>=`
    Ge,
    /// Logical and of two `bool` values: `&&`
    LogicalAnd,
    /// Logical or of two `bool` values: `||`
    LogicalOr,
}
