//! Semantic analysis of P4 programs: checks the types in an abstract syntax tree (AST), and translates (lowers) the AST
//! to the high-level intermediate representation (HIR).
//!
//! The analyser processes the top-level declarations in source order; a name must be declared before it is used. The
//! analyser checks every control, parser and action where it is declared. To do so, it translates the declaration into
//! a scratch pipeline and then discards this pipeline. Afterwards it translates the parser and the controls that `main`
//! names a second time, now into the program. The analyser thus finds errors also in declarations that the program does
//! not use, and it reports each error once.
//!
//! Differences from P4_16, version 1.2:
//!
//! - An integer literal or constant that does not fit in its target type is an error; it is not truncated. Integers of
//!   type `int` have a sign and at most 128 bits.
//! - `type` is the same as `typedef`: it does not create a new type.
//! - Variables and fields are zero and headers are invalid until they are written.
//! - The operands of a division are compile-time constants, or the dividend is unsigned and the divisor is a constant
//!   power of two.
//! - Unreachable parser states are removed. Every cycle of parser states must consume bytes of the packet.
//! - A table without `size` has a size of 1024. The key of a table cannot contain a call.
//! - The number of elements of a header stack is known at each state of a parser: the parser has a copy of a state for
//!   each number. So `next` and `last` stand outside of blocks and branches.
//! - A parser is applied within another parser only in a statement of a state, outside of blocks.
//! - `exit` is not supported in an action if a table of an inner control runs the action and this control has `out` or
//!   `inout` parameters.
//!
//! | module | holds |
//! |---|---|
//! | `scope` | names and scopes |
//! | `types`, `resolve` | types and their layout in slots; type expressions |
//! | `integer`, `fold` | arbitrary-precision integers; constant folding |
//! | `typed`, `lvalue` | values and lvalues |
//! | `expression`, `operators`, `convert` | expressions; typing rules of operators; casts |
//! | `call`, `methods` | arguments, calls of the architecture's functions and methods; `apply`, `isValid` |
//! | `stack` | header stacks and tuples |
//! | `statement`, `control`, `table`, `states` | statements; inlining of actions and controls; tables; parser states |
//! | `declare`, `package` | top-level declarations; the package instance `main` |
//! | `warn` | warnings about the checked program |

mod call;
mod control;
mod convert;
mod declare;
mod expression;
mod fold;
mod integer;
mod lvalue;
mod methods;
mod operators;
mod package;
mod resolve;
mod scope;
mod stack;
mod statement;
mod states;
mod table;
mod typed;
mod types;
mod warn;

use crate::ast::Module;
use crate::diagnostic::Diagnostic;
use crate::hir::{self, HeaderId, SlotId, Stmt};
use crate::source::Span;
use scope::{Scope, Symbol};
use std::collections::BTreeMap;

/// Maximum number of errors that the analyser reports for a program.
const MAX_ERRORS: usize = 20;
/// Maximum nesting depth of statements and expressions in a program.
const MAX_DEPTH: u32 = 200;
/// Maximum work for checking all declarations of a program, as a number of statements and expressions.
const MAX_CHECKED: u32 = 4_000_000;
/// Maximum size of the translated program, as a number of statements and expressions. Inlining can make a program much
/// larger than its source text.
const MAX_NODES: u32 = 200_000;

/// Checks a program and translates it to HIR. `constants` lists names of top-level constants and the values that
/// replace the values in the program.
///
/// # Errors
/// The errors in the program; the list has 1 to 20 errors.
///
/// # Examples
/// ```
/// use rnic_nano::parser::parse_program;
/// use rnic_nano::sema::analyse;
/// use rnic_nano::source::SourceFile;
///
/// let main = SourceFile { name: "main.p4".into(), text: "const bit<8> A = true;\n".into() };
/// let (module, _sources) = parse_program(main, &|_path| None).expect("the program has no syntax error");
/// let errors = analyse(&module, &[]).expect_err("a bool is not a bit<8>");
/// assert_eq!(errors[0].message, "expected `bit<8>`, found `bool`");
/// ```
pub fn analyse(module: &Module, constants: &[(String, u128)]) -> Result<hir::Program, Vec<Diagnostic>> {
    let mut analyser = Analyser::new(module, constants);
    analyser.check_overrides();
    for item in &module.items {
        analyser.item(item);
    }
    let program = analyser.program();
    match program {
        Some(program) if analyser.errors.is_empty() => {
            debug_assert_eq!(hir::check::check(&program), Ok(()));
            Ok(program)
        }
        _ => Err(analyser.errors),
    }
}

/// The state of the semantic analysis of a program.
struct Analyser<'a> {
    module: &'a Module,
    overrides: &'a [(String, u128)],
    errors: Vec<Diagnostic>,
    /// Whether the analysis has stopped, because the program exceeds a limit or has too many errors.
    stopped: bool,
    /// Work that the analysis has done so far, as a number of statements and expressions. The field `max_work` is its
    /// limit.
    work: u32,
    max_work: u32,
    depth: u32,
    types: types::Types<'a>,
    scopes: Vec<Scope<'a>>,
    /// The index of the current scope in `scopes`.
    scope: usize,
    /// Number of names declared so far, in all scopes.
    declarations: u32,
    actions: Vec<control::ActionInfo<'a>>,
    controls: Vec<control::ControlInfo<'a>>,
    applied: Vec<control::ControlInstance<'a>>,
    tables: Vec<table::TableInfo<'a>>,
    pipe: Pipe,
    /// The statements of the block that is being translated.
    code: Vec<Stmt>,
    /// The state of the actions and controls that are being inlined, from the outermost to the innermost.
    frames: Vec<control::Frame>,
    instances: Vec<hir::Instance>,
    constants: Vec<(String, u128)>,
    /// The declaration of `main`, the instance of the package; `None` until it is found.
    main: Option<&'a crate::ast::Item>,
    /// Whether a declaration is only being checked, so that its translation will be discarded.
    checking: bool,
    context: Context,
    /// The generic types of the program.
    generics: Vec<Generic<'a>>,
    /// The variable index of a header stack that stands for an element just now.
    chosen: Option<(&'a crate::ast::Expr, u32)>,
    /// Whether the code that is being translated may run more than once for a packet. Then a variable must be set to
    /// zero where it is declared.
    again: bool,
    /// Whether the table that is being translated belongs to a control that another control applies, and that control
    /// has `out` or `inout` parameters. Their values are copied back to the caller when the control ends.
    inner_table: bool,
}

/// A generic struct or header type, with the types that were made of it so far.
struct Generic<'a> {
    of: &'a crate::ast::Struct,
    header: bool,
    made: Vec<(Vec<types::Type>, types::Type)>,
}

/// The construct that contains the current statement or expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Context {
    /// A declaration at the top level, such as a constant.
    Top,
    Parser,
    Control,
    Action,
    Function,
}

/// The pipeline (ingress or egress) that is being translated.
#[derive(Default)]
struct Pipe {
    code: hir::Pipeline,
    /// For each slot (scalar variable), whether it is a temporary variable, which is written only once and before it is
    /// read.
    temporary: Vec<bool>,
    /// For each slot (scalar variable) that is the validity bit of a header: the header.
    header_at: BTreeMap<SlotId, HeaderId>,
    /// In a parser: the number of elements that were extracted into each header stack, by the stack's first slot. A
    /// stack without an entry has none.
    counts: stack::Counts,
    /// In a parser: the state names an element that its stack does not have, so it rejects the packet.
    overflow: bool,
    /// Notes for the warnings.
    notes: warn::Notes,
}

impl<'a> Analyser<'a> {
    fn new(module: &'a Module, overrides: &'a [(String, u128)]) -> Analyser<'a> {
        Analyser {
            module,
            overrides,
            errors: Vec::new(),
            stopped: false,
            work: 0,
            max_work: MAX_CHECKED,
            depth: 0,
            types: types::Types::default(),
            scopes: vec![Analyser::top_scope()],
            scope: 0,
            declarations: 0,
            actions: Vec::new(),
            controls: Vec::new(),
            applied: Vec::new(),
            tables: Vec::new(),
            pipe: Pipe::default(),
            code: Vec::new(),
            frames: Vec::new(),
            instances: Vec::new(),
            constants: Vec::new(),
            main: None,
            checking: true,
            context: Context::Top,
            generics: Vec::new(),
            chosen: None,
            again: false,
            inner_table: false,
        }
    }

    /// Reports an error, unless the analyser has reported the same error before.
    fn report(&mut self, error: Diagnostic) {
        if self.stopped || self.errors.contains(&error) {
            return;
        }
        self.errors.push(error);
        self.stopped = self.errors.len() >= MAX_ERRORS;
    }

    /// Reports an error that has no related source ranges and no advice.
    fn error(&mut self, span: Span, message: impl Into<String>, label: &str) {
        self.report(Diagnostic::new(span, message, label));
    }

    /// Reports a construct of P4 that this compiler does not support.
    fn unsupported(&mut self, span: Span, what: &str, instead: Option<&str>) {
        self.report(Diagnostic::unsupported(span, what, instead));
    }

    /// Reports an error and stops the semantic analysis.
    fn stop(&mut self, error: Diagnostic) {
        self.report(error);
        self.stopped = true;
    }

    /// Adds `nodes` statements or expressions to the work that the analysis has done. Returns false if the work exceeds
    /// its limit or the analysis has stopped.
    fn spend(&mut self, nodes: u32, span: Span) -> bool {
        self.work = self.work.saturating_add(nodes);
        if self.work > self.max_work && !self.stopped {
            let message = format!("the program is too large: more than {} operations", self.max_work);
            self.stop(
                Diagnostic::new(span, message, "the limit is reached here")
                    .with_help("every call of an action or control is inlined, with all nested calls: use fewer calls"),
            );
        }
        !self.stopped
    }

    /// Adds a linear search through `things` items to the work that the analysis has done: one sixteenth of a statement
    /// for each item.
    fn search(&mut self, things: usize, span: Span) {
        self.spend((things / 16) as u32, span);
    }

    /// Runs a function that analyses a nested construct. Returns `refused` and reports an error if the nesting depth or
    /// the work of the analysis exceeds its limit.
    fn nested<R>(&mut self, span: Span, refused: R, work: impl FnOnce(&mut Self) -> R) -> R {
        if self.depth >= MAX_DEPTH {
            let message = format!("nested too deeply: at most {MAX_DEPTH} levels");
            self.stop(
                Diagnostic::new(span, message, "the limit is exceeded here")
                    .with_help("assign parts of the expression to variables"),
            );
        }
        if !self.spend(1, span) {
            return refused;
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// Appends a statement to the block that is being translated.
    fn emit(&mut self, statement: Stmt, span: Span) {
        if self.spend(1, span) {
            self.code.push(statement);
        }
    }

    /// Runs a function, and returns its result and the statements that it appended. The statements are not added to the
    /// current block.
    fn collected<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> (Vec<Stmt>, R) {
        let before = std::mem::take(&mut self.code);
        let result = work(self);
        (std::mem::replace(&mut self.code, before), result)
    }

    /// Runs a function for its result and its error reports. The statements that it appended are discarded.
    fn discarded<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        self.collected(work).1
    }

    /// Runs a function with an empty pipeline. Afterwards discards this pipeline and the extern objects that the
    /// function declared.
    fn scratch<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let pipe = std::mem::take(&mut self.pipe);
        let instances = self.instances.len();
        let checking = std::mem::replace(&mut self.checking, true);
        let result = self.discarded(work);
        self.instances.truncate(instances);
        (self.pipe, self.checking) = (pipe, checking);
        result
    }
}
