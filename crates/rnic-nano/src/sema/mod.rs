//! From a program as it is written to a program as it is meant.
//!
//! Items of the top level are taken in order; what is named must be declared before. Every control, parser and action is checked where
//! it is declared, in a pipeline that is thrown away; what `main` names is then lowered for good. So an error is reported once, also in
//! what nobody uses.
//!
//! Where this is not P4_16, version 1.2:
//!
//! - A number that does not fit in the type that it must have is an error, not cut off. Numbers without a width have at most 128 bits and
//!   a sign.
//! - `type` is `typedef`: it makes no new type.
//! - Variables and fields are zero until they are written, headers invalid.
//! - Only known numbers can be divided, or unsigned ones by a known power of two.
//! - States that are never reached are left out. A loop of a parser must take bytes off the packet in every round.
//! - A table without a size has room for 1024 entries; a call in a key is not possible.
//! - Controls can be applied in controls, parsers not in parsers. `exit` is not possible in a table of an inner control with `out` or
//!   `inout` parameters.
//!
//! | module | holds |
//! |---|---|
//! | `scope` | names |
//! | `types`, `resolve` | types, how they lie in slots; types as they are written |
//! | `integer`, `fold` | numbers of no fixed width; constant expressions |
//! | `typed`, `place` | values and variables |
//! | `expression`, `operators`, `convert` | expressions; the rules of operators; casts |
//! | `call`, `methods` | arguments, functions and objects of the architecture; `apply`, `isValid` |
//! | `statement`, `control`, `table`, `states` | what they say; actions and controls put in place |
//! | `declare`, `package` | the top level; what `main` must fit |

mod call;
mod control;
mod convert;
mod declare;
mod expression;
mod fold;
mod integer;
mod methods;
mod operators;
mod package;
mod place;
mod resolve;
mod scope;
mod statement;
mod states;
mod table;
mod typed;
mod types;

use crate::ast::Module;
use crate::diagnostic::Diagnostic;
use crate::hir::{self, HeaderId, SlotId, Stmt};
use crate::source::Span;
use scope::{Scope, Symbol};
use std::collections::BTreeMap;

/// Errors reported at most.
const MOST_ERRORS: usize = 20;
/// Statements and expressions nested in each other at most.
const MOST_DEPTH: u32 = 200;
/// Statements and expressions that may be looked at while everything is checked.
const MOST_CHECKED: u32 = 4_000_000;
/// Statements and expressions of the checked program at most.
const MOST_NODES: u32 = 200_000;

/// Checks a program and lowers it. `constants` gives constants of the top level other values, by name.
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

/// What is being put together.
struct Analyser<'a> {
    module: &'a Module,
    overrides: &'a [(String, u128)],
    errors: Vec<Diagnostic>,
    /// Something went wrong that makes going on pointless.
    stopped: bool,
    /// Statements and expressions looked at, and how many may be.
    work: u32,
    most_work: u32,
    depth: u32,
    types: types::Types<'a>,
    scopes: Vec<Scope<'a>>,
    /// The current one.
    scope: usize,
    /// Names declared so far.
    declarations: u32,
    actions: Vec<control::ActionInfo<'a>>,
    controls: Vec<control::ControlInfo<'a>>,
    applied: Vec<control::ControlInstance<'a>>,
    tables: Vec<table::TableInfo<'a>>,
    pipe: Pipe,
    /// Statements of the block that is being lowered.
    code: Vec<Stmt>,
    /// Actions and controls that are being put in place, outermost first.
    frames: Vec<control::Frame>,
    instances: Vec<hir::Instance>,
    constants: Vec<(String, u128)>,
    /// The package's instance.
    main: Option<&'a crate::ast::Item>,
    /// What is being lowered is thrown away: actions are checked where they are declared.
    checking: bool,
    context: Context,
    /// What is being lowered may run more than once: variables are set to zero where they are declared.
    again: bool,
    /// A table of a control within another one is being lowered, and that control copies parameters out.
    inner_table: bool,
}

/// Where statements stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Context {
    /// Constants.
    Top,
    Parser,
    Control,
    Action,
}

/// A pipeline that is being put together.
#[derive(Default)]
struct Pipe {
    code: hir::Pipeline,
    /// Slots that are written once, before they are read.
    temporary: Vec<bool>,
    /// Headers by the slot of their validity.
    header_at: BTreeMap<SlotId, HeaderId>,
}

impl<'a> Analyser<'a> {
    fn new(module: &'a Module, overrides: &'a [(String, u128)]) -> Analyser<'a> {
        Analyser {
            module,
            overrides,
            errors: Vec::new(),
            stopped: false,
            work: 0,
            most_work: MOST_CHECKED,
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
            again: false,
            inner_table: false,
        }
    }

    /// Notes an error, once.
    fn report(&mut self, error: Diagnostic) {
        if self.stopped || self.errors.contains(&error) {
            return;
        }
        self.errors.push(error);
        self.stopped = self.errors.len() >= MOST_ERRORS;
    }

    /// Notes an error without related places and advice.
    fn error(&mut self, span: Span, message: impl Into<String>, label: &str) {
        self.report(Diagnostic::new(span, message, label));
    }

    /// Notes that something is not part of the subset.
    fn unsupported(&mut self, span: Span, what: &str, instead: Option<&str>) {
        self.report(Diagnostic::unsupported(span, what, instead));
    }

    /// Notes an error after which nothing is looked at.
    fn stop(&mut self, error: Diagnostic) {
        self.report(error);
        self.stopped = true;
    }

    /// Counts work; false once there is too much of it, or another reason to end.
    fn spend(&mut self, nodes: u32, span: Span) -> bool {
        self.work = self.work.saturating_add(nodes);
        if self.work > self.most_work && !self.stopped {
            let message = format!("the program is too large: more than {} operations", self.most_work);
            self.stop(Diagnostic::new(span, message, "the limit is reached here").with_help(
                "every call of an action or control is put in place, with all that it calls: use fewer calls",
            ));
        }
        !self.stopped
    }

    /// Counts the work of looking through so many things.
    fn search(&mut self, things: usize, span: Span) {
        self.spend((things / 16) as u32, span);
    }

    /// Does something that nests; what is nested too deep is an error.
    fn nested<R>(&mut self, span: Span, refused: R, work: impl FnOnce(&mut Self) -> R) -> R {
        if self.depth >= MOST_DEPTH {
            let message = format!("nested too deep: at most {MOST_DEPTH} levels");
            self.stop(Diagnostic::new(span, message, "one level too many").with_help("use variables for parts of it"));
        }
        if !self.spend(1, span) {
            return refused;
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// Appends a statement.
    fn emit(&mut self, statement: Stmt, span: Span) {
        if self.spend(1, span) {
            self.code.push(statement);
        }
    }

    /// The statements that some work appends.
    fn collected<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> (Vec<Stmt>, R) {
        let before = std::mem::take(&mut self.code);
        let result = work(self);
        (std::mem::replace(&mut self.code, before), result)
    }

    /// Does something for its value or errors alone: what it appends is thrown away.
    fn discarded<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        self.collected(work).1
    }

    /// Does something in a pipeline that is thrown away, with all objects that it declares.
    fn scratch<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let pipe = std::mem::take(&mut self.pipe);
        let (instances, checking) = (self.instances.len(), std::mem::replace(&mut self.checking, true));
        let result = self.discarded(work);
        self.instances.truncate(instances);
        (self.pipe, self.checking) = (pipe, checking);
        result
    }
}
