//! Part of the semantic analysis of P4: translates match-action tables with their keys, actions and entries.

use super::control::ActionId;
use super::scope::Symbol;
use super::types::Type;
use super::{Analyser, Context, fold, integer};
use crate::ast::{self, ActionRef, Argument, Direction, Expr, Ident, KeySet, Parameter};
use crate::diagnostic::{Diagnostic, nearest};
use crate::hir::{self, MatchKind, Pattern, TableId};
use crate::source::Span;
use std::rc::Rc;

/// Maximum number of entries of a table whose declaration has no `size`.
const DEFAULT_SIZE: u32 = 1024;
/// Maximum value of a table's `size`: number of entries.
const MAX_ENTRIES: u32 = 1 << 20;

/// Maximum number of actions in the `actions` list of a table.
const MAX_ACTIONS: usize = 1024;

/// Identifies a declared table by its index in [`Analyser::tables`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TableInfoId(pub(super) usize);

/// A table that the program declares.
pub(super) struct TableInfo<'a> {
    pub(super) name: Rc<str>,
    pub(super) span: Span,
    /// The names of the table's actions.
    pub(super) actions: Vec<Rc<str>>,
    /// The table in the pipeline to which it belongs; `None` if the declaration has an error.
    pub(super) table: Option<TableId>,
    /// The actions in the order of the table's `actions` list.
    listed: Vec<Listed<'a>>,
}

/// An action in the `actions` list of a table.
struct Listed<'a> {
    reference: &'a ActionRef,
    id: ActionId,
    /// The arguments that the table's `actions` list gives to the action.
    bound: Vec<hir::Expr>,
    default_only: bool,
    table_only: bool,
}

/// A key of a table, after translation.
struct Key {
    expr: hir::Expr,
    ty: Type,
    kind: MatchKind,
}

impl<'a> Analyser<'a> {
    /// Translates a table and all its actions, and declares its name. The table's name in the program begins with
    /// `prefix`.
    pub(super) fn declare_table(&mut self, table: &'a ast::Table, prefix: &str) {
        let span = table.name.span;
        if self.context != Context::Control {
            return self.error(span, "only a control can have tables", "not allowed here");
        }
        let before = self.errors.len();
        let keys = self.table_keys(table);
        let mut info =
            TableInfo { name: table.name.name.clone(), span, actions: Vec::new(), table: None, listed: Vec::new() };
        let actions = self.table_actions(table, &mut info);
        let default = table.default.as_ref().map(|(reference, _)| self.default_action(reference, &info));
        let entries = keys.as_ref().map(|keys| self.entries(table, keys, &info));
        let size = self.table_size(table);
        if let (Some(keys), Some(entries), Some(size), false) =
            (keys, entries, size, self.errors.len() > before || self.stopped)
        {
            info.table = Some(TableId(self.pipe.code.tables.len() as u32));
            self.pipe.code.tables.push(hir::Table {
                name: format!("{prefix}{}", table.name.name),
                keys: keys.into_iter().map(|key| (key.expr, key.kind)).collect(),
                actions,
                default: default.flatten(),
                default_const: table.default.as_ref().is_some_and(|(_, constant)| *constant),
                entries,
                entries_const: table.entries_const,
                size,
                span,
            });
        }
        self.tables.push(info);
        self.declare(&table.name, Symbol::Table(TableInfoId(self.tables.len() - 1)));
    }

    fn table_keys(&mut self, table: &'a ast::Table) -> Option<Vec<Key>> {
        let mut keys = Vec::new();
        for (expr, kind) in &table.keys {
            let kind = self.match_kind(kind);
            let key = self.key(expr, "a table's key");
            if let (Some((expr, ty)), Some(kind)) = (key, kind) {
                keys.push(Key { expr, ty, kind });
            }
        }
        if keys.iter().filter(|key| key.kind == MatchKind::Lpm).count() > 1 {
            self.unsupported(table.name.span, "more than one `lpm` key in a table", Some("make the others `ternary`"));
        }
        (keys.len() == table.keys.len()).then_some(keys)
    }

    /// Translates a key of a table. A key must not contain a call. `what` describes the key in error messages.
    fn key(&mut self, expr: &'a Expr, what: &str) -> Option<(hir::Expr, Type)> {
        let (code, value) = self.collected(|this| this.expression(expr));
        if value.is_error() {
            return None;
        }
        let ty = value.ty;
        let scalar = self.types.scalar(ty).and_then(|_| value.into_scalar());
        if scalar.is_none() {
            let message = format!("{what} cannot be of type `{}`", self.types.display(ty));
            let label = "expected `bit`, `int`, `bool` or an enumeration";
            self.error(expr.span, message, label);
        } else if !code.is_empty() {
            let instead = "assign the result to a variable before `apply`, and use the variable as the key";
            self.unsupported(expr.span, &format!("a call in {what}"), Some(instead));
            return None;
        }
        scalar.map(|scalar| (scalar, ty))
    }

    fn match_kind(&mut self, name: &Ident) -> Option<MatchKind> {
        let known = [("exact", MatchKind::Exact), ("ternary", MatchKind::Ternary), ("lpm", MatchKind::Lpm)];
        let found = known.iter().find(|(kind, _)| **kind == *name.name).map(|(_, kind)| *kind);
        if found.is_none() {
            let what = match &*name.name {
                "range" | "optional" | "selector" => {
                    Diagnostic::unsupported(name.span, &format!("`{}` keys", name.name), None)
                }
                other => Diagnostic::new(name.span, format!("`{other}` is not a match kind"), "unknown match kind"),
            };
            self.report(what.with_help("the match kinds are `exact`, `ternary` and `lpm`"));
        }
        found
    }

    fn table_actions(&mut self, table: &'a ast::Table, info: &mut TableInfo<'a>) -> Vec<hir::Action> {
        let mut actions = Vec::new();
        if table.actions.len() > MAX_ACTIONS {
            let message = format!("a table has at most {MAX_ACTIONS} actions");
            self.error(table.name.span, message, "this table has more");
            return actions;
        }
        for reference in &table.actions {
            let Some(id) = self.action_named(&reference.name) else { continue };
            if let Some(first) = info.listed.iter().find(|listed| listed.reference.name.name == reference.name.name) {
                let message = format!("the action `{}` is listed twice", reference.name.name);
                let what = Diagnostic::new(reference.name.span, message, "listed again here");
                self.report(what.with_related(first.reference.name.span, "the first one"));
                continue;
            }
            let has = |name: &str| reference.annotations.iter().any(|annotation| &*annotation.name.name == name);
            let default_only = has("defaultonly");
            let table_only = has("tableonly");
            let Some((action, bound)) = self.table_action(reference, id) else { continue };
            info.actions.push(reference.name.name.clone());
            info.listed.push(Listed { reference, id, bound, default_only, table_only });
            actions.push(action);
        }
        if table.actions.is_empty() {
            let what = Diagnostic::new(
                table.name.span,
                format!("the table `{}` has no actions", table.name.name),
                "`actions` is missing",
            );
            self.report(what.with_help("list its actions: `actions = { NAME; }`"));
        }
        actions
    }

    fn action_named(&mut self, name: &Ident) -> Option<ActionId> {
        match self.lookup(name) {
            Symbol::Action(id) => Some(id),
            Symbol::Broken => None,
            other => {
                let message = format!("`{}` is {}, not an action", name.name, other.what());
                self.error(name.span, message, "expected an action");
                None
            }
        }
    }

    /// Translates an action of a table. Returns the action, and the arguments that the `actions` list gives to it.
    fn table_action(&mut self, reference: &'a ActionRef, id: ActionId) -> Option<(hir::Action, Vec<hir::Expr>)> {
        let span = reference.name.span;
        let ast = self.actions[id.0].ast;
        let parameters: Vec<&Parameter> = ast.parameters.iter().collect();
        let directed = parameters.iter().filter(|parameter| parameter.direction != Direction::None).count();
        let bound = self.bind(&ast.name.name, &parameters[..directed], &reference.arguments, span)?;
        let lvalues = self.action_parameters(id, span);
        let types = self.actions[id.0].types.clone();
        let frames = std::mem::take(&mut self.frames);
        let again = std::mem::replace(&mut self.again, true);
        let before = self.errors.len();
        let (body, arguments) = self.collected(|this| {
            let copies = this.copy_in(&parameters[..directed], &types, &lvalues, &bound);
            let arguments = this.code.iter().filter_map(argument_value).collect();
            this.action_body(id, &lvalues, copies.unwrap_or_default(), None, span);
            arguments
        });
        self.again = again;
        self.frames = frames;
        let given = lvalues[directed..].iter().flat_map(|lvalue| self.slots_of(*lvalue)).collect();
        let action = hir::Action { name: ast.name.name.to_string(), parameters: given, body };
        (self.errors.len() == before).then_some((action, arguments))
    }

    /// Resolves the action that an entry of a table or its default action names. Returns the index of the action in the
    /// table, and its arguments.
    fn chosen(&mut self, reference: &'a ActionRef, info: &TableInfo<'a>) -> Option<(usize, Vec<u128>)> {
        let name = &reference.name;
        let Some(number) = info.listed.iter().position(|listed| listed.reference.name.name == name.name) else {
            if self.action_named(name).is_some() {
                let what = format!("the action `{}` is not one of the table's", name.name);
                let help = match nearest(&name.name, info.actions.iter().map(|action| &**action)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("add the action to the list: `actions = {{ {}; }}`", name.name),
                };
                let what = Diagnostic::new(name.span, what, "not in the table's `actions`").with_help(help);
                self.report(what.with_related(info.span, "the table"));
            }
            return None;
        };
        let listed = &info.listed[number];
        let ast = self.actions[listed.id.0].ast;
        let types = self.actions[listed.id.0].types.clone();
        let directed = ast.parameters.iter().filter(|parameter| parameter.direction != Direction::None).count();
        let mut arguments = &reference.arguments[..];
        if directed > 0
            && arguments.len() == ast.parameters.len()
            && arguments.iter().all(|argument| argument.name.is_none())
        {
            self.check_repeated(&arguments[..directed], &types, listed);
            arguments = &arguments[directed..];
        }
        let parameters: Vec<&Parameter> = ast.parameters[directed..].iter().collect();
        let bound = self.bind(&name.name, &parameters, arguments, name.span)?;
        let mut values = Vec::new();
        for (argument, ty) in bound.into_iter().zip(&types[directed..]) {
            let value = self.discarded(|this| this.argument(argument));
            for scalar in self.scalars(value, *ty)? {
                let Some(value) = fold::known(&scalar) else {
                    let message = "an argument of a table's action must be a compile-time constant";
                    self.error(argument.span, message, "not a constant");
                    return None;
                };
                values.push(value);
            }
        }
        Some((number, values))
    }

    /// Checks the arguments that an entry or the default action gives for an action's parameters with a direction
    /// (`in`, `out` or `inout`). These arguments may only repeat the arguments in the `actions` list.
    fn check_repeated(&mut self, arguments: &'a [Argument], types: &[Type], listed: &Listed<'a>) {
        let (code, ()) = self.collected(|this| {
            for (argument, ty) in arguments.iter().zip(types) {
                let value = this.argument(argument);
                let lvalue = this.temporary(*ty, "argument", argument.span);
                if let Some(scalars) = this.scalars(value, *ty).filter(|_| lvalue.ty != Type::Error) {
                    this.write(lvalue, scalars, argument.span);
                }
            }
        });
        let again: Vec<hir::Expr> = code.iter().filter_map(argument_value).collect();
        if again != listed.bound && !arguments.is_empty() {
            let span = arguments[0].span.to(arguments[arguments.len() - 1].span);
            let what = Diagnostic::new(
                span,
                "these arguments differ from those in the table's `actions` list",
                "must be the same, or omitted",
            );
            self.report(what.with_related(listed.reference.name.span, "the arguments in the list"));
        }
    }

    fn default_action(&mut self, reference: &'a ActionRef, info: &TableInfo<'a>) -> Option<(usize, Vec<u128>)> {
        let chosen = self.chosen(reference, info)?;
        if info.listed[chosen.0].table_only {
            let message = format!("the action `{}` is `@tableonly`: it cannot be the default", reference.name.name);
            self.error(reference.name.span, message, "allowed in entries only");
        }
        Some(chosen)
    }

    fn entries(&mut self, table: &'a ast::Table, keys: &[Key], info: &TableInfo<'a>) -> Vec<hir::Entry> {
        let mut entries: Vec<(hir::Entry, Option<u128>)> = Vec::new();
        let mut seen = std::collections::BTreeMap::new();
        for entry in &table.entries {
            let patterns = self.entry_keys(entry, keys);
            let chosen = self.chosen(&entry.action, info);
            let (Some(patterns), Some((action, arguments))) = (patterns, chosen) else { continue };
            if info.listed[action].default_only {
                let message =
                    format!("the action `{}` is `@defaultonly`: an entry cannot have it", entry.action.name.name);
                self.error(entry.action.name.span, message, "allowed as the default action only");
            }
            let key: Vec<_> = patterns.iter().map(|pattern| pattern_parts(*pattern)).collect();
            if let Some(first) = seen.insert(key, entry.span) {
                let what = Diagnostic::new(entry.span, "two entries of the table have the same keys", "never matches");
                self.report(what.with_related(first, "the first one"));
            }
            let priority = entry.priority.as_ref().and_then(|priority| {
                let number = self.constant_integer(priority, "the priority of an entry")?.to_u32();
                if number.is_none() {
                    self.error(priority.span, "a priority is a number from 0 to 2^32 - 1", "out of range");
                }
                number.map(u128::from)
            });
            entries.push((hir::Entry { keys: patterns, action, arguments }, priority));
        }
        // Entries without priorities stand in the order of priority.
        let with = table.entries.iter().filter(|entry| entry.priority.is_some()).count();
        if with > 0 {
            if with < table.entries.len() {
                let message = "some entries of the table have a priority, and others have none";
                self.error(table.name.span, message, "give every entry a priority, or none");
            }
            match table.largest_priority_wins {
                true => entries.sort_by_key(|(_, priority)| std::cmp::Reverse(*priority)),
                false => entries.sort_by_key(|(_, priority)| *priority),
            }
            return entries.into_iter().map(|(entry, _)| entry).collect();
        }
        // An entry with a longer prefix comes first, unless another key can also match several values.
        let lpm = keys.iter().position(|key| key.kind == MatchKind::Lpm);
        if let (Some(lpm), false) = (lpm, keys.iter().any(|key| key.kind == MatchKind::Ternary)) {
            entries.sort_by_key(|(entry, _)| std::cmp::Reverse(prefix_length(entry.keys[lpm])));
        }
        entries.into_iter().map(|(entry, _)| entry).collect()
    }

    fn entry_keys(&mut self, entry: &'a ast::Entry, keys: &[Key]) -> Option<Vec<Pattern>> {
        if entry.keys.len() != keys.len() {
            let message = format!(
                "an entry of this table has {}, found {}",
                super::convert::count(keys.len(), "key"),
                entry.keys.len()
            );
            self.error(entry.span, message, "wrong number of keys");
            return None;
        }
        let mut patterns = Vec::new();
        for (set, key) in entry.keys.iter().zip(keys) {
            let pattern = self.pattern(set, key.ty)?;
            let width = key.expr.width;
            let (span, problem) = match (key.kind, set) {
                (MatchKind::Exact, KeySet::Any(span)) => (*span, "an `exact` key must match a single value"),
                (MatchKind::Exact, KeySet::Masked(a, b)) => (a.span.to(b.span), "an `exact` key cannot have a mask"),
                (_, KeySet::Range(a, b)) => (a.span.to(b.span), "a table's key cannot be a range"),
                (MatchKind::Lpm, KeySet::Masked(_, b)) if !is_prefix(pattern, width) => {
                    (b.span, "the mask of an `lpm` key must be a prefix: ones, then zeros")
                }
                _ => {
                    patterns.push(pattern);
                    continue;
                }
            };
            self.error(span, problem, "not allowed for this key");
            return None;
        }
        Some(patterns)
    }

    /// Translates a keyset of an entry or a `select` case to a pattern for a key of type `ty`.
    pub(super) fn pattern(&mut self, set: &'a KeySet, ty: Type) -> Option<Pattern> {
        let (width, signed) = self.types.scalar(ty)?;
        let all = integer::mask(width);
        match set {
            KeySet::Any(_) => Some(Pattern::Masked { value: 0, mask: 0 }),
            KeySet::Value(value) => {
                let value = self.key_value(value, ty)?;
                Some(Pattern::Masked { value, mask: all })
            }
            KeySet::Masked(value, mask) => {
                self.numeric_key(ty, value.span)?;
                let value = self.key_value(value, ty);
                let mask = self.key_value(mask, ty)?;
                Some(Pattern::Masked { value: value? & mask, mask })
            }
            KeySet::Range(low, high) => {
                self.numeric_key(ty, low.span)?;
                let first = self.key_value(low, ty);
                let last = self.key_value(high, ty)?;
                let first = first?;
                let span = low.span.to(high.span);
                let sign = 1 << (width - 1);
                if signed && (first ^ last) & sign != 0 {
                    self.unsupported(span, "a range from a negative to a positive number", Some("use two ranges"));
                    return None;
                }
                if first > last {
                    self.error(span, "a range from a larger to a smaller number", "the range is empty");
                    return None;
                }
                Some(Pattern::Range { low: first, high: last })
            }
        }
    }

    fn key_value(&mut self, expr: &'a Expr, ty: Type) -> Option<u128> {
        let value = self.discarded(|this| this.expression(expr));
        self.known_scalar(value, ty, "the value of a keyset")
    }

    fn numeric_key(&mut self, ty: Type, span: Span) -> Option<()> {
        if matches!(ty, Type::Bit(_) | Type::Int(_)) {
            return Some(());
        }
        let message = format!("a mask or range is not possible for `{}`", self.types.display(ty));
        self.error(span, message, "only on `bit` and `int`");
        None
    }

    fn table_size(&mut self, table: &'a ast::Table) -> Option<u32> {
        let entries = table.entries.len() as u32;
        let Some(size) = &table.size else {
            return Some(if table.entries_const { entries } else { DEFAULT_SIZE.max(entries) });
        };
        let number = self.constant_integer(size, "the size of a table")?;
        match number.to_u32() {
            Some(found) if found <= MAX_ENTRIES && found >= entries => Some(found),
            Some(found) if found < entries => {
                let message = format!("the table has {entries} entries, but a size of {found}");
                self.error(size.span, message, "too small");
                None
            }
            _ => {
                self.error(
                    size.span,
                    format!("the size {number} is out of range"),
                    "a table has at most 1048576 entries",
                );
                None
            }
        }
    }
}

/// Returns the assigned value if a statement is an assignment.
fn argument_value(statement: &hir::Stmt) -> Option<hir::Expr> {
    match statement {
        hir::Stmt::Assign { value, .. } => Some(value.clone()),
        _ => None,
    }
}

fn pattern_parts(pattern: Pattern) -> (u128, u128) {
    match pattern {
        Pattern::Masked { value, mask } => (value, mask),
        Pattern::Range { low, high } => (low, high),
    }
}

fn prefix_length(pattern: Pattern) -> u32 {
    pattern_parts(pattern).1.count_ones()
}

fn is_prefix(pattern: Pattern, width: u32) -> bool {
    let (_, mask) = pattern_parts(pattern);
    let zeros = integer::mask(width) ^ mask;
    zeros & zeros.wrapping_add(1) == 0
}
