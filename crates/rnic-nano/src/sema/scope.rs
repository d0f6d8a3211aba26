//! Part of the semantic analysis of P4: scopes with their declared names, and the symbols that describe the meanings of
//! names.

use super::control::{ActionId, ControlId, ControlInstanceId};
use super::lvalue::LValue;
use super::typed::Typed;
use super::types::Type;
use super::{Analyser, table::TableInfoId};
use crate::ast::{self, Ident};
use crate::diagnostic::{Diagnostic, nearest};
use crate::source::Span;
use std::collections::BTreeMap;

/// The meaning of a declared name.
#[derive(Clone)]
pub(super) enum Symbol<'a> {
    /// A declaration with an error, which has already been reported.
    Broken,
    Const(Typed),
    Variable(LValue),
    /// A parameter of an extern type, such as `packet_in`: the index of the extern type.
    Object(u32),
    Type(Type),
    /// A generic struct or header type, by its index among them.
    Generic(u32),
    Function(&'a ast::Prototype),
    ParserType(&'a ast::Prototype),
    ControlType(&'a ast::Prototype),
    Package(&'a ast::Prototype),
    Parser(&'a ast::Parser),
    /// An instance of a parser within another parser, with the values of its constructor parameters.
    SubParser(&'a ast::Parser, Vec<Symbol<'a>>),
    Control(ControlId),
    Action(ActionId),
    /// A function, which is inlined like an action.
    Inlined(ActionId),
    Table(TableInfoId),
    /// An extern object.
    Extern(ExternObject),
    /// An instance of a control within another control.
    Instance(ControlInstanceId),
    /// The package instance `main`.
    Main,
}

/// An extern object that the program declares.
#[derive(Clone)]
pub(super) struct ExternObject {
    /// The index of the extern type among the declared extern types.
    pub(super) of: u32,
    /// The type arguments of the extern type.
    pub(super) types: Vec<Type>,
    /// The index of the object in the instances of the checked program.
    pub(super) instance: u32,
}

impl Symbol<'_> {
    /// Describes the kind of the symbol in error messages, for example `a table`.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Symbol::Broken => "a declaration with an error",
            Symbol::Const(_) => "a constant",
            Symbol::Variable(_) => "a variable",
            Symbol::Object(_) | Symbol::Extern(_) => "an object",
            Symbol::Type(_) => "a type",
            Symbol::Generic(_) => "a generic type",
            Symbol::Function(_) | Symbol::Inlined(_) => "a function",
            Symbol::ParserType(_) => "the type of a parser",
            Symbol::ControlType(_) => "the type of a control",
            Symbol::Package(_) => "a package",
            Symbol::Parser(_) => "a parser",
            Symbol::SubParser(..) => "an instance of a parser",
            Symbol::Control(_) => "a control",
            Symbol::Action(_) => "an action",
            Symbol::Table(_) => "a table",
            Symbol::Instance(_) => "an instance of a control",
            Symbol::Main => "the package instance",
        }
    }
}

/// A scope: a region of the program with the names that are declared in it.
pub(super) struct Scope<'a> {
    parent: Option<usize>,
    /// Number of names that the program had declared when this scope was opened. Names that the parent scope declares
    /// later are not visible in this scope.
    seen: u32,
    names: BTreeMap<&'a str, Declared<'a>>,
}

struct Declared<'a> {
    symbol: Symbol<'a>,
    span: Span,
    number: u32,
}

impl<'a> Analyser<'a> {
    /// Opens a scope within the scope `parent` and makes it the current one. Names of the enclosing scopes are visible
    /// in it if they are among the first `seen` declarations of the program. Returns the previously current scope.
    pub(super) fn open_scope(&mut self, parent: usize, seen: u32) -> usize {
        self.scopes.push(Scope { parent: Some(parent), seen, names: BTreeMap::new() });
        std::mem::replace(&mut self.scope, self.scopes.len() - 1)
    }

    /// Opens a scope within the current one. Returns the previously current scope, for [`Self::close_scope`].
    pub(super) fn open_block(&mut self) -> usize {
        self.open_scope(self.scope, self.declarations)
    }

    /// Closes the current scope. The scope with the index `before` becomes the current one.
    pub(super) fn close_scope(&mut self, before: usize) {
        if self.scope + 1 == self.scopes.len() {
            self.scopes.pop();
        }
        self.scope = before;
    }

    /// Creates the top-level scope.
    pub(super) fn top_scope() -> Scope<'a> {
        Scope { parent: None, seen: 0, names: BTreeMap::new() }
    }

    /// Declares a name in the current scope.
    pub(super) fn declare(&mut self, name: &'a Ident, symbol: Symbol<'a>) {
        self.declarations += 1;
        let declared = Declared { symbol, span: name.span, number: self.declarations };
        match self.scopes[self.scope].names.get_mut(&*name.name) {
            None => {
                self.scopes[self.scope].names.insert(&name.name, declared);
            }
            Some(first) => {
                let first = first.span;
                let message = format!("`{}` is declared twice in one scope", name.name);
                let twice = Diagnostic::new(name.span, message, "declared again here");
                self.report(twice.with_related(first, "declared here first"));
            }
        }
    }

    /// Returns the symbol of a name that is visible in the current scope; `None` if there is none. Reports no error.
    pub(super) fn find(&self, name: &str) -> Option<&Symbol<'a>> {
        let mut scope = &self.scopes[self.scope];
        let mut seen = u32::MAX;
        loop {
            if let Some(declared) = scope.names.get(name)
                && declared.number <= seen
            {
                return Some(&declared.symbol);
            }
            seen = seen.min(scope.seen);
            scope = &self.scopes[scope.parent?];
        }
    }

    /// Returns the symbol of a name that is declared at the top level; `None` if there is none.
    pub(super) fn find_top(&self, name: &str) -> Option<&Symbol<'a>> {
        self.scopes[0].names.get(name).map(|declared| &declared.symbol)
    }

    /// Returns the span of a name's declaration.
    pub(super) fn span_of_name(&self, name: &str) -> Option<Span> {
        let mut scope = &self.scopes[self.scope];
        loop {
            if let Some(declared) = scope.names.get(name) {
                return Some(declared.span);
            }
            scope = &self.scopes[scope.parent?];
        }
    }

    /// Returns the symbol of a name that is visible in the current scope. Reports an unknown name.
    pub(super) fn lookup(&mut self, name: &Ident) -> Symbol<'a> {
        match self.find(&name.name) {
            Some(symbol) => symbol.clone(),
            None => {
                self.unknown(name);
                Symbol::Broken
            }
        }
    }

    /// Returns the symbol of the name in an expression `.name`, which refers to the top level. Reports an unknown name.
    pub(super) fn lookup_top(&mut self, name: &Ident) -> Symbol<'a> {
        let inner = std::mem::replace(&mut self.scope, 0);
        let symbol = self.lookup(name);
        self.scope = inner;
        symbol
    }

    fn unknown(&mut self, name: &Ident) {
        let unknown = Diagnostic::new(name.span, format!("`{}` is not declared", name.name), "unknown name");
        let unknown = match (self.declared_below(&name.name), nearest(&name.name, self.visible())) {
            (Some(span), _) => {
                unknown.with_related(span, "declared only here: move the declaration before its first use")
            }
            _ if CORE.contains(&&*name.name) => unknown.with_help("write `#include <core.p4>`"),
            (None, Some(near)) => unknown.with_help(format!("did you mean `{near}`?")),
            (None, None) => unknown,
        };
        self.report(unknown);
    }

    /// Returns all names that are visible from the current scope.
    fn visible(&self) -> Vec<&'a str> {
        let mut names = Vec::new();
        let mut scope = Some(self.scope);
        while let Some(number) = scope {
            names.extend(self.scopes[number].names.keys());
            scope = self.scopes[number].parent;
        }
        names
    }

    /// Returns the span of a top-level declaration of the name, for advice to an error about a use before the
    /// declaration.
    fn declared_below(&self, name: &str) -> Option<Span> {
        self.module.items.iter().filter_map(|item| item_name(&item.kind)).find(|i| &*i.name == name).map(|i| i.span)
    }
}

/// The names that `core.p4` declares. An error about one of these names advises including this file.
const CORE: [&str; 3] = ["packet_in", "packet_out", "NoAction"];

/// Returns the name that a top-level declaration declares; `None` if it declares no single name.
pub(super) fn item_name(item: &ast::ItemKind) -> Option<&Ident> {
    use ast::ItemKind::{
        Action, Const, Control, ControlType, Enum, Error, Extern, ExternFunction, Function, Header, Instance,
        MatchKind, Package, Parser, ParserType, Struct, Typedef,
    };
    match item {
        Const(item) => Some(&item.name),
        Typedef { name, .. } => Some(name),
        Header(item) | Struct(item) => Some(&item.name),
        Enum(item) => Some(&item.name),
        Extern(item) => Some(&item.name),
        ExternFunction(item) | ParserType(item) | ControlType(item) | Package(item) => Some(&item.name),
        Parser(item) => Some(&item.name),
        Control(item) => Some(&item.name),
        Action(item) => Some(&item.name),
        Function(item) => Some(&item.body.name),
        Instance(item) => Some(&item.name),
        Error(_) | MatchKind(_) => None,
    }
}

/// Returns the text `available: ` and a list of names, for error messages. The list has at most [`MAX_LISTED`] names.
pub(super) fn list_of_names(names: &[&str]) -> String {
    let shown = names.get(..MAX_LISTED).unwrap_or(names).join(", ");
    match names.len().saturating_sub(MAX_LISTED) {
        0 if names.is_empty() => "none are available".to_string(),
        0 => format!("available: {shown}"),
        more => format!("available: {shown} and {more} more"),
    }
}

/// Maximum number of names that an error message lists.
const MAX_LISTED: usize = 32;
