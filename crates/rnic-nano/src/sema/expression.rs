//! Part of the semantic analysis of P4: translates expressions from the syntax tree (AST) to the intermediate
//! representation (HIR).

use super::call::Want;
use super::integer::Integer;
use super::typed::{Typed, Value};
use super::types::{Shape, Type};
use super::{Analyser, Symbol, fold};
use crate::ast::{BinaryOp, Expr, ExprKind, Ident};
use crate::diagnostic::{Diagnostic, nearest};
use crate::hir::{self, Stmt};
use crate::source::Span;

impl<'a> Analyser<'a> {
    /// Translates an expression and returns its value. Calls within the expression are appended to the code that is
    /// being generated.
    pub(super) fn expression(&mut self, expr: &'a Expr) -> Typed {
        let refused = Typed::error(expr.span);
        self.nested(expr.span, refused, |this| this.expression_kind(expr))
    }

    fn expression_kind(&mut self, expr: &'a Expr) -> Typed {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Number { value, width } => self.number(*value, *width, span),
            ExprKind::Bool(value) => Typed::scalar(Type::Bool, fold::constant(u128::from(*value), 1), span),
            ExprKind::String(_) => {
                self.unsupported(
                    span,
                    "a string outside of an annotation",
                    Some("a packet has no strings: use a number of fixed width"),
                );
                Typed::error(span)
            }
            ExprKind::Name(name) => {
                let symbol = self.lookup(name);
                self.name(name, symbol, span)
            }
            ExprKind::TopName(name) => {
                let symbol = self.lookup_top(name);
                self.name(name, symbol, span)
            }
            ExprKind::Member(base, member) => self.member(expr, base, member),
            ExprKind::Slice { value, high, low } => self.slice(value, high, low, span),
            ExprKind::Index(base, index) => self.element(expr, base, index),
            ExprKind::Call { .. } => self.call(expr, Want::Value),
            ExprKind::List(items) => self.list(items, span),
            ExprKind::Cast(ty, value) => {
                let ty = self.type_of(ty);
                let value = self.expression(value);
                self.cast(value, ty, span)
            }
            ExprKind::Unary(op, value) => {
                let value = self.expression(value);
                self.unary(*op, value, span)
            }
            ExprKind::Binary(op @ (BinaryOp::LogicalAnd | BinaryOp::LogicalOr), a, b) => self.logical(*op, a, b, span),
            ExprKind::Binary(op, a, b) => {
                let mut left = self.expression(a);
                let position = self.code.len();
                let right = self.expression(b);
                self.settle(&mut [&mut left], position);
                self.binary(*op, left, right, span)
            }
            ExprKind::Conditional(condition, a, b) => self.conditional(condition, a, b, span),
        }
    }

    fn number(&mut self, value: u128, width: Option<(u32, bool)>, span: Span) -> Typed {
        let number = Integer::new(false, value);
        let Some((width, signed)) = width else { return Typed::integer(number, span) };
        if !(1..=128).contains(&width) {
            self.error(span, format!("the width {width} is out of range"), "1 to 128 bits");
            return Typed::error(span);
        }
        let ty = if signed { Type::Int(width) } else { Type::Bit(width) };
        let value = Typed::integer(number, span);
        self.converted(value, ty)
    }

    fn name(&mut self, name: &Ident, symbol: Symbol<'a>, span: Span) -> Typed {
        match symbol {
            Symbol::Broken => Typed::error(span),
            Symbol::Const(value) => {
                let size = self.types.size(value.ty);
                self.spend(size, span);
                Typed { span, ..value }
            }
            Symbol::Variable(lvalue) => self.read(lvalue, span),
            other => {
                let message = format!("`{}` is {}, not a value", name.name, other.what());
                let what = Diagnostic::new(span, message, "expected a value");
                self.report(match self.span_of_name(&name.name) {
                    Some(first) => what.with_related(first, "declared here"),
                    None => what,
                });
                Typed::error(span)
            }
        }
    }

    fn member(&mut self, expr: &'a Expr, base: &'a Expr, member: &'a Ident) -> Typed {
        let span = expr.span;
        if let Some(lvalue) = self.lvalue_of(expr) {
            return self.read(lvalue, span);
        }
        if let Some(ty) = self.named_type(base) {
            return self.type_member(ty, member, span);
        }
        if let Some(value) = self.apply_member(base, member, span) {
            return value;
        }
        if let Some(stack) = self.lvalue_of(base).filter(|lvalue| self.types.shape(lvalue.ty) == Some(Shape::Stack)) {
            return self.stack_property(stack, member, span);
        }
        let value = self.expression(base);
        if value.is_error() {
            return Typed::error(span);
        }
        let field = self.types.info(value.ty).and_then(|info| info.fields.iter().find(|f| f.name == member.name));
        match (field.map(|field| (field.ty, field.offset as usize)), value.value) {
            (Some((ty, offset)), Value::Scalars(mut scalars)) => {
                let size = self.types.size(ty) as usize;
                let scalars = scalars.drain(offset..offset + size).collect();
                Typed { ty, value: Value::Scalars(scalars), span }
            }
            _ => {
                self.no_such_member(value.ty, member);
                Typed::error(span)
            }
        }
    }

    /// Translates a member of a type: `ENUM.MEMBER` or `error.MEMBER`.
    fn type_member(&mut self, ty: Type, member: &Ident, span: Span) -> Typed {
        let (found, names): (_, Vec<&str>) = match ty {
            Type::Enum(number) => {
                let members = &self.types.enums[number as usize].members;
                let found = members.iter().find(|(name, _)| *name == member.name).map(|(_, value)| *value);
                (found, members.iter().map(|(name, _)| &**name).collect())
            }
            Type::Failure => {
                let found = self.types.failures.iter().position(|name| *name == member.name);
                (found.map(|value| value as u128), self.types.failures.iter().map(|name| &**name).collect())
            }
            Type::Error => return Typed::error(span),
            ty => {
                let message = format!("the type `{}` has no members", self.types.display(ty));
                self.error(span, message, "expected a value");
                return Typed::error(span);
            }
        };
        if let (Some(value), Some((width, _))) = (found, self.types.scalar(ty)) {
            let members = names.len();
            self.search(members, span);
            return Typed::scalar(ty, fold::constant(value, width), span);
        }
        let help = match nearest(&member.name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => super::scope::list_of_names(&names),
        };
        let message = format!("`{}` has no member `{}`", self.types.display(ty), member.name);
        self.report(Diagnostic::new(member.span, message, "unknown member").with_help(help));
        Typed::error(span)
    }

    fn slice(&mut self, value: &'a Expr, high: &'a Expr, low: &'a Expr, span: Span) -> Typed {
        let value = self.expression(value);
        let (Type::Bit(width) | Type::Int(width)) = value.ty else {
            if !value.is_error() {
                let message = format!("a slice of `{}` is not possible", self.types.display(value.ty));
                let what = Diagnostic::new(span, message, "only `bit` and `int` with a width have bits");
                self.report(match value.ty {
                    Type::Integer => what.with_help("give the number a width: `(bit<32>) value`"),
                    _ => what,
                });
            }
            return Typed::error(span);
        };
        match (self.slice_bounds(width, high, low), value.into_scalar()) {
            (Some((low, bits)), Some(scalar)) => Typed::scalar(Type::Bit(bits), fold::slice(scalar, low, bits), span),
            _ => Typed::error(span),
        }
    }

    fn list(&mut self, items: &'a [crate::ast::Argument], span: Span) -> Typed {
        let mut values: Vec<(Option<Ident>, Typed)> = Vec::new();
        for item in items {
            let Some(expr) = &item.value else {
                self.unsupported(item.span, "`_` in a list expression", Some("write a value"));
                return Typed::error(span);
            };
            let position = self.code.len();
            let value = self.expression(expr);
            if self.code.len() > position {
                self.spend(values.len() as u32, item.span);
                let mut earlier: Vec<&mut Typed> = values.iter_mut().map(|(_, value)| value).collect();
                self.settle(&mut earlier, position);
            }
            values.push((item.name.clone(), value));
        }
        if values.iter().any(|(_, value)| value.is_error()) {
            return Typed::error(span);
        }
        Typed { ty: Type::List, value: Value::List(values), span }
    }

    /// Translates `a && b` and `a || b`. The program evaluates the second operand only if the first operand does not
    /// decide the result.
    fn logical(&mut self, op: BinaryOp, a: &'a Expr, b: &'a Expr, span: Span) -> Typed {
        let left = self.condition(a);
        let (code, right) = self.collected(|this| this.condition(b));
        let (Some(left), Some(right)) = (left, right) else { return Typed::error(span) };
        let is_and = op == BinaryOp::LogicalAnd;
        if code.is_empty() {
            let joined =
                if is_and { fold::and(left, right) } else { fold::not(fold::and(fold::not(left), fold::not(right))) };
            return Typed::scalar(Type::Bool, joined, span);
        }
        let result = self.temporary(Type::Bool, "condition", span);
        if self.stopped {
            return Typed::error(span);
        }
        let assign = |value| Stmt::Assign { slot: hir::SlotId(result.slot), value };
        let decided = vec![assign(fold::constant(u128::from(!is_and), 1))];
        let mut otherwise = code;
        otherwise.push(assign(right));
        let (then, otherwise) = if is_and { (otherwise, decided) } else { (decided, otherwise) };
        self.emit(Stmt::If { condition: left, then, otherwise }, span);
        self.read(result, span)
    }

    /// Translates an expression that must have the type `bool`. Reports an error if it has another type.
    pub(super) fn condition(&mut self, expr: &'a Expr) -> Option<hir::Expr> {
        let value = self.expression(expr);
        if value.ty == Type::Bool {
            return value.into_scalar();
        }
        if !value.is_error() {
            let message = format!("expected `bool`, found `{}`", self.types.display(value.ty));
            let what = Diagnostic::new(expr.span, message, "expected a condition");
            self.report(match value.ty {
                Type::Bit(_) | Type::Int(_) | Type::Integer => what.with_help("compare the value: `value != 0`"),
                _ => what,
            });
        }
        None
    }

    fn conditional(&mut self, condition: &'a Expr, a: &'a Expr, b: &'a Expr, span: Span) -> Typed {
        let condition = self.condition(condition);
        let (code_a, a) = self.collected(|this| this.expression(a));
        let (code_b, b) = self.collected(|this| this.expression(b));
        let Some(mut condition) = condition else { return Typed::error(span) };
        if let (Some(chosen), Type::Integer, Type::Integer) = (fold::known(&condition), a.ty, b.ty) {
            return Typed { span, ..if chosen == 1 { a } else { b } };
        }
        let Some((a, b)) = self.same_type(a, b, span) else { return Typed::error(span) };
        let ty = a.ty;
        let (Value::Scalars(first), Value::Scalars(second)) = (a.value, b.value) else {
            if ty != Type::Error {
                let message = "the two values of a condition have no width";
                let what = Diagnostic::new(span, message, "give at least one of them a type");
                self.report(what.with_help("for example `condition ? 32w1 : 0`"));
            }
            return Typed::error(span);
        };
        self.spend(first.len() as u32, span);
        if code_a.is_empty() && code_b.is_empty() {
            if first.len() > 1 {
                self.save(&mut [&mut condition], None, span);
            }
            let scalars = first.into_iter().zip(second);
            let scalars = scalars.map(|(a, b)| fold::conditional(condition.clone(), a, b)).collect();
            return Typed { ty, value: Value::Scalars(scalars), span };
        }
        self.branches(condition, ty, (code_a, first), (code_b, second), span)
    }

    /// Translates a conditional expression of which at least one value contains calls. The program makes only the calls
    /// in the value that the condition selects.
    fn branches(&mut self, condition: hir::Expr, ty: Type, a: Branch, b: Branch, span: Span) -> Typed {
        let result = self.temporary(ty, "value", span);
        if self.stopped {
            return Typed::error(span);
        }
        let finish = |(mut code, scalars): Branch| {
            let assigns = (result.slot..).zip(scalars);
            code.extend(assigns.map(|(slot, value)| Stmt::Assign { slot: hir::SlotId(slot), value }));
            code
        };
        self.emit(Stmt::If { condition, then: finish(a), otherwise: finish(b) }, span);
        self.read(result, span)
    }
}

/// One branch of a conditional expression: its statements, and the scalars of its value after these statements.
type Branch = (Vec<Stmt>, Vec<hir::Expr>);
