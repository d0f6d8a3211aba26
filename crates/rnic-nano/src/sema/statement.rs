//! Part of the semantic analysis of P4: translates statements from the syntax tree (AST) to the intermediate
//! representation (HIR).

use super::call::Want;
use super::integer::Integer;
use super::lvalue::LValue;
use super::methods::Applied;
use super::scope::Symbol;
use super::typed::Typed;
use super::types::Type;
use super::{Analyser, Context, fold};
use crate::ast::{self, Expr, ExprKind, StmtKind, SwitchCase};
use crate::diagnostic::{Diagnostic, nearest};
use crate::hir::{self, Stmt};
use crate::source::Span;
use std::collections::BTreeMap;

impl<'a> Analyser<'a> {
    /// Translates a block. The block has a scope of its own.
    pub(super) fn block(&mut self, block: &'a ast::Block) {
        let before = self.open_block();
        for statement in &block.body {
            self.statement(statement);
        }
        self.close_scope(before);
    }

    /// Translates one statement.
    pub(super) fn statement(&mut self, statement: &'a ast::Stmt) {
        self.nested(statement.span, (), |this| this.statement_kind(statement));
    }

    fn statement_kind(&mut self, statement: &'a ast::Stmt) {
        let span = statement.span;
        match &statement.kind {
            StmtKind::Variable(variable) => self.variable(variable),
            StmtKind::Const(constant) => self.local_constant(constant),
            StmtKind::Assign { target, value } if self.variable_index(target).is_some() => {
                self.assign_element(target, value, span);
            }
            StmtKind::Assign { target, value } => match self.writable_lvalue(target) {
                Some(lvalue) => self.assign(lvalue, value, span),
                None => {
                    self.expression(value);
                }
            },
            StmtKind::Call(call) => {
                self.call(call, Want::Nothing);
            }
            StmtKind::If { condition, then, otherwise } => self.choice(condition, then, otherwise.as_deref(), span),
            StmtKind::Switch { value, cases } => self.switch(value, cases, span),
            StmtKind::Block(block) => self.block(block),
            StmtKind::Exit => self.exit(span),
            StmtKind::Return(value) => self.leave(value.as_ref(), span),
            StmtKind::Empty => {}
        }
    }

    /// Translates a variable declaration. A variable without an initial value is zero.
    pub(super) fn variable(&mut self, variable: &'a ast::Variable) {
        let ty = self.stored_type(&variable.ty);
        let span = variable.name.span;
        let lvalue = self.allocate(ty, &variable.name.name, true, span);
        let slots = lvalue.slot..self.pipe.code.slots.len() as u32;
        self.pipe.notes.variables.push((slots, span, variable.value.is_some()));
        match &variable.value {
            Some(value) if ty == Type::Error => {
                self.expression(value);
            }
            Some(value) => self.assign(lvalue, value, span),
            None if self.again => self.clear(lvalue, span),
            None => {}
        }
        self.declare(&variable.name, if ty == Type::Error { Symbol::Broken } else { Symbol::Variable(lvalue) });
    }

    fn assign(&mut self, lvalue: LValue, value: &'a Expr, span: Span) {
        // In a parser the number of elements of a header stack is assigned with it.
        let from = if self.context == Context::Parser { self.lvalue_of(value) } else { None };
        let value = match value.kind {
            ExprKind::Call { .. } => self.call(value, Want::Into(lvalue)),
            _ => self.expression(value),
        };
        let Some(scalars) = self.scalars(value, lvalue.ty) else { return };
        if let Some(from) = from {
            self.copy_counts(from, lvalue);
        }
        let unchanged = |(slot, value): (u32, &hir::Expr)| value.kind == hir::ExprKind::Slot(hir::SlotId(slot));
        if lvalue.low.is_some() || !(lvalue.slot..).zip(&scalars).all(unchanged) {
            self.write(lvalue, scalars, span);
        }
    }

    /// Translates a branch of an `if` statement, and returns its statements instead of appending them to the current
    /// block.
    fn branch(&mut self, statement: &'a ast::Stmt) -> Vec<Stmt> {
        let before = self.open_block();
        let (code, ()) = self.collected(|this| this.statement(statement));
        self.close_scope(before);
        code
    }

    fn choice(&mut self, condition: &'a Expr, then: &'a ast::Stmt, otherwise: Option<&'a ast::Stmt>, span: Span) {
        let condition = self.condition(condition);
        let counts = self.pipe.counts.clone();
        let overflow = self.pipe.overflow;
        let then = self.branch(then);
        let otherwise = otherwise.map_or(Vec::new(), |statement| self.branch(statement));
        self.same_counts(counts, overflow, span);
        let Some(condition) = condition else { return };
        match fold::known(&condition) {
            Some(0) => self.code.extend(otherwise),
            Some(_) => self.code.extend(then),
            None => self.emit(Stmt::If { condition, then, otherwise }, span),
        }
    }

    fn switch(&mut self, value: &'a Expr, cases: &'a [SwitchCase], span: Span) {
        if let ExprKind::Member(base, member) = &value.kind
            && &*member.name == "action_run"
            && let Some((table, arguments)) = self.table_application(base)
        {
            let run = self.apply_table(table, arguments, Applied::ActionRun, value.span);
            let known = !run.is_error();
            let run = run.into_scalar().unwrap_or(fold::constant(0, 1));
            return self.cases(
                run,
                cases,
                span,
                |this, label| {
                    if known { this.action_label(table, label) } else { None }
                },
            );
        }
        let value = self.expression(value);
        let ty = value.ty;
        let scalar = match self.types.scalar(ty) {
            Some(_) => value.into_scalar(),
            None => {
                if ty != Type::Error {
                    let message = format!("`switch` does not work on `{}`", self.types.display(ty));
                    let what = Diagnostic::new(value.span, message, "expected `bit`, `int`, `bool` or an enumeration");
                    self.report(match ty {
                        Type::Integer => what.with_help("give the number a width"),
                        _ => what,
                    });
                }
                None
            }
        };
        let known = scalar.is_some();
        self.cases(scalar.unwrap_or(fold::constant(0, 1)), cases, span, |this, label| {
            if known { this.value_label(ty, label) } else { None }
        });
    }

    /// Translates the cases of a `switch` statement. A case without a block has the block of the next case, so the
    /// labels of both select that block.
    fn cases(
        &mut self, value: hir::Expr, cases: &'a [SwitchCase], span: Span,
        mut label_of: impl FnMut(&mut Self, &'a Expr) -> Option<u128>,
    ) {
        let counts = self.pipe.counts.clone();
        let overflow = self.pipe.overflow;
        let mut lowered = Vec::new();
        let mut default = None;
        let mut default_at = None;
        let mut seen: BTreeMap<u128, Span> = BTreeMap::new();
        let mut labels = Vec::new();
        let mut is_default = false;
        for case in cases {
            if let Some(first) = default_at {
                let what =
                    Diagnostic::new(case.span, "`default` must be the last case", "this case comes after `default`");
                self.report(what.with_related(first, "`default` is here"));
                break;
            }
            match &case.label {
                None => (is_default, default_at) = (true, Some(case.span)),
                Some(label) => {
                    if let Some(number) = label_of(self, label) {
                        match seen.insert(number, case.span) {
                            Some(first) => {
                                let what = Diagnostic::new(
                                    case.span,
                                    "a label occurs twice in one `switch`",
                                    "duplicate label",
                                );
                                self.report(what.with_related(first, "the first one"));
                            }
                            None => labels.push(number),
                        }
                    }
                }
            }
            let Some(body) = &case.body else { continue };
            let (code, ()) = self.collected(|this| this.block(body));
            let labels = std::mem::take(&mut labels);
            if is_default {
                default = Some(code);
            } else if !labels.is_empty() {
                lowered.push((labels, code));
            }
        }
        self.same_counts(counts, overflow, span);
        let default = default.unwrap_or_default();
        self.emit(Stmt::Switch { value, cases: lowered, default }, span);
    }

    fn action_label(&mut self, table: super::table::TableInfoId, label: &'a Expr) -> Option<u128> {
        let (ExprKind::Name(name) | ExprKind::TopName(name)) = &label.kind else {
            self.error(label.span, "expected an action of the table", "not an action's name");
            return None;
        };
        let info = &self.tables[table.0];
        let position = info.actions.iter().position(|action| *action == name.name);
        if position.is_none() {
            let names: Vec<&str> = info.actions.iter().map(|action| &**action).collect();
            let help = match nearest(&name.name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => super::scope::list_of_names(&names),
            };
            let message = format!("the table `{}` has no action `{}`", info.name, name.name);
            let what = Diagnostic::new(label.span, message, "not one of the table's actions").with_help(help);
            let span = info.span;
            self.report(what.with_related(span, "declared here"));
        }
        position.map(|position| position as u128)
    }

    fn value_label(&mut self, ty: Type, label: &'a Expr) -> Option<u128> {
        let value = self.discarded(|this| this.expression(label));
        self.known_scalar(value, ty, "a case")
    }

    /// Converts a compile-time constant to the type `ty` and returns its bits. `what` describes the constant in error
    /// messages.
    pub(super) fn known_scalar(&mut self, value: Typed, ty: Type, what: &str) -> Option<u128> {
        let span = value.span;
        let scalar = self.converted(value, ty).into_scalar()?;
        let known = fold::known(&scalar);
        if known.is_none() {
            self.error(span, format!("{what} must be a compile-time constant"), "not a constant");
        }
        known
    }

    /// Declares a constant within a block, parser or control.
    pub(super) fn local_constant(&mut self, constant: &'a ast::Const) {
        let value = self.constant_value(constant);
        self.declare(&constant.name, if value.is_error() { Symbol::Broken } else { Symbol::Const(value) });
    }

    /// Evaluates the value of a constant.
    pub(super) fn constant_value(&mut self, constant: &'a ast::Const) -> Typed {
        let ty = match self.type_of(&constant.ty) {
            Type::Extern(_) => self.stored_type(&constant.ty),
            ty => ty,
        };
        let value = self.discarded(|this| this.expression(&constant.value));
        let value = self.converted(value, ty);
        if !value.is_known() {
            let message =
                format!("the constant `{}` must have a compile-time constant as its value", constant.name.name);
            self.error(value.span, message, "not a constant");
            return Typed::error(value.span);
        }
        value
    }

    /// Converts the value that a user gives for a constant to the type of the constant. Reports an error if the value
    /// does not fit.
    pub(super) fn given_constant(&mut self, ty: Type, given: u128, span: Span) -> Option<Typed> {
        let number = Integer::new(false, given);
        let (width, signed) = match ty {
            Type::Integer => return Some(Typed::integer(number, span)),
            ty => self.types.scalar(ty)?,
        };
        let bits = number.to_bits(width, signed)?;
        Some(Typed::scalar(ty, fold::constant(bits, width), span))
    }
}
