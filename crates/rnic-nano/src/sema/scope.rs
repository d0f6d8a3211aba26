//! Names and what they stand for.

use super::control::{ActionId, ControlId, InstanceNumber};
use super::place::Place;
use super::typed::Typed;
use super::types::Type;
use super::{Analyser, table::TableNumber};
use crate::ast::{self, Ident};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use std::collections::BTreeMap;

/// What a name stands for.
#[derive(Clone)]
pub(super) enum Symbol<'a> {
    /// Something wrong that has been reported.
    Broken,
    Const(Typed),
    Variable(Place),
    /// A parameter that is an object: `packet_in`.
    Object(u32),
    Type(Type),
    Function(&'a ast::Prototype),
    ParserType(&'a ast::Prototype),
    ControlType(&'a ast::Prototype),
    Package(&'a ast::Prototype),
    Parser(&'a ast::Parser),
    Control(ControlId),
    Action(ActionId),
    Table(TableNumber),
    /// An object of the architecture.
    Extern(ExternObject),
    /// A control within a control.
    Instance(InstanceNumber),
    /// `main`
    Main,
}

/// An object of the architecture that the program has declared.
#[derive(Clone)]
pub(super) struct ExternObject {
    /// Which extern.
    pub(super) of: u32,
    /// Its type arguments.
    pub(super) types: Vec<Type>,
    /// Which instance of the checked program.
    pub(super) instance: u32,
}

impl Symbol<'_> {
    /// For messages: `a table`.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Symbol::Broken => "something with an error",
            Symbol::Const(_) => "a constant",
            Symbol::Variable(_) => "a variable",
            Symbol::Object(_) | Symbol::Extern(_) => "an object",
            Symbol::Type(_) => "a type",
            Symbol::Function(_) => "a function",
            Symbol::ParserType(_) => "the type of a parser",
            Symbol::ControlType(_) => "the type of a control",
            Symbol::Package(_) => "a package",
            Symbol::Parser(_) => "a parser",
            Symbol::Control(_) => "a control",
            Symbol::Action(_) => "an action",
            Symbol::Table(_) => "a table",
            Symbol::Instance(_) => "an instance of a control",
            Symbol::Main => "the program itself",
        }
    }
}

/// Names declared in one place.
pub(super) struct Scope<'a> {
    parent: Option<usize>,
    /// What the parent had declared when this scope was opened: later names are not seen.
    seen: u32,
    names: BTreeMap<&'a str, Declared<'a>>,
}

struct Declared<'a> {
    symbol: Symbol<'a>,
    span: Span,
    number: u32,
}

impl<'a> Analyser<'a> {
    /// A scope within another one; it becomes the current one. Returns the one before.
    pub(super) fn open_scope(&mut self, parent: usize, seen: u32) -> usize {
        self.scopes.push(Scope { parent: Some(parent), seen, names: BTreeMap::new() });
        std::mem::replace(&mut self.scope, self.scopes.len() - 1)
    }

    /// A scope within the current one. Returns the one before, for [`Self::close_scope`].
    pub(super) fn open_block(&mut self) -> usize {
        self.open_scope(self.scope, self.declarations)
    }

    /// Back to a scope. The current one is forgotten.
    pub(super) fn close_scope(&mut self, before: usize) {
        if self.scope + 1 == self.scopes.len() {
            self.scopes.pop();
        }
        self.scope = before;
    }

    /// The scope of the top level.
    pub(super) fn top_scope() -> Scope<'a> {
        Scope { parent: None, seen: 0, names: BTreeMap::new() }
    }

    /// Gives a name a meaning in the current scope.
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
                let twice = Diagnostic::new(name.span, message, "here again");
                self.report(twice.with_related(first, "declared here first"));
            }
        }
    }

    /// What a name stands for; nothing is reported.
    pub(super) fn find(&self, name: &str) -> Option<&Symbol<'a>> {
        let (mut scope, mut seen) = (&self.scopes[self.scope], u32::MAX);
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

    /// What a name of the top level stands for.
    pub(super) fn find_top(&self, name: &str) -> Option<&Symbol<'a>> {
        self.scopes[0].names.get(name).map(|declared| &declared.symbol)
    }

    /// Where a name was declared.
    pub(super) fn place_of_name(&self, name: &str) -> Option<Span> {
        let mut scope = &self.scopes[self.scope];
        loop {
            if let Some(declared) = scope.names.get(name) {
                return Some(declared.span);
            }
            scope = &self.scopes[scope.parent?];
        }
    }

    /// What a name stands for; an unknown one is reported.
    pub(super) fn lookup(&mut self, name: &Ident) -> Symbol<'a> {
        match self.find(&name.name) {
            Some(symbol) => symbol.clone(),
            None => {
                self.unknown(name);
                Symbol::Broken
            }
        }
    }

    /// The same for `.name`.
    pub(super) fn lookup_top(&mut self, name: &Ident) -> Symbol<'a> {
        let inner = std::mem::replace(&mut self.scope, 0);
        let symbol = self.lookup(name);
        self.scope = inner;
        symbol
    }

    fn unknown(&mut self, name: &Ident) {
        let unknown = Diagnostic::new(name.span, format!("`{}` is not declared", name.name), "unknown name");
        let unknown = match (self.declared_below(&name.name), nearest(&name.name, self.visible())) {
            (Some(span), _) => unknown.with_related(span, "declared only here: move it before its use"),
            _ if CORE.contains(&&*name.name) => unknown.with_help("write `#include <core.p4>`"),
            (None, Some(near)) => unknown.with_help(format!("did you mean `{near}`?")),
            (None, None) => unknown,
        };
        self.report(unknown);
    }

    /// All names that can be used here.
    fn visible(&self) -> Vec<&'a str> {
        let (mut names, mut scope) = (Vec::new(), Some(self.scope));
        while let Some(number) = scope {
            names.extend(self.scopes[number].names.keys());
            scope = self.scopes[number].parent;
        }
        names
    }

    /// Where the top level declares a name further down.
    fn declared_below(&self, name: &str) -> Option<Span> {
        self.module.items.iter().filter_map(|item| item_name(&item.kind)).find(|i| &*i.name == name).map(|i| i.span)
    }
}

/// What <core.p4> declares.
const CORE: [&str; 3] = ["packet_in", "packet_out", "NoAction"];

/// The name that something of the top level declares.
pub(super) fn item_name(item: &ast::ItemKind) -> Option<&Ident> {
    use ast::ItemKind::{
        Action, Const, Control, ControlType, Enum, Error, Extern, ExternFunction, Header, Instance, MatchKind, Package,
        Parser, ParserType, Struct, Typedef,
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
        Instance(item) => Some(&item.name),
        Error(_) | MatchKind(_) => None,
    }
}

/// The name that was probably meant: at most a third of the letters differ.
pub(super) fn nearest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let most = name.chars().count() / 3;
    let near = names.into_iter().map(|other| (strsim::damerau_levenshtein(name, other), other));
    near.filter(|(distance, _)| *distance <= most).min().map(|(_, other)| other)
}

/// `it has: ` and names, not too many of them.
pub(super) fn they_are(names: &[&str]) -> String {
    let shown = names.get(..MOST_LISTED).unwrap_or(names).join(", ");
    match names.len().saturating_sub(MOST_LISTED) {
        0 if names.is_empty() => "it has none".to_string(),
        0 => format!("it has: {shown}"),
        more => format!("it has: {shown} and {more} more"),
    }
}

/// Names that a message lists.
const MOST_LISTED: usize = 32;
