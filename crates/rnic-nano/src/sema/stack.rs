//! Part of the semantic analysis of P4: header stacks and tuples.
//!
//! The elements of a stack are headers with slots (scalar variables) of their own. A constant index names one of them.
//! A variable index selects among all of them: a read becomes a multiplexer, a write an `if` for each element.
//!
//! In a parser `next` is the element after those that were extracted. Their number is known when a state is translated,
//! because the parser has a copy of the state for each number (`states`). So `next` always names one element, and in
//! hardware each copy of a state reads its header at a fixed position.

use super::lvalue::LValue;
use super::typed::{Typed, Value};
use super::types::{Shape, Type};
use super::{Analyser, Context, fold};
use crate::ast::{Argument, Expr, ExprKind, Ident};
use crate::diagnostic::Diagnostic;
use crate::hir::{self, Stmt};
use crate::source::Span;
use std::collections::BTreeMap;

/// For each header stack, by its first slot: the number of elements that the parser has extracted into it.
pub(super) type Counts = BTreeMap<u32, u32>;

impl<'a> Analyser<'a> {
    /// The element with the number `number` of a header stack, or the member of a tuple.
    fn at(&self, whole: LValue, number: u32) -> LValue {
        match self.types.info(whole.ty).and_then(|info| info.fields.get(number as usize)) {
            Some(field) => LValue { ty: field.ty, slot: whole.slot + field.offset, ..whole },
            None => LValue::BROKEN,
        }
    }

    /// The value of an index that is known at compile time; `None` for a variable index. Reports an index out of range.
    fn known_index(&mut self, whole: Type, index: &'a Expr) -> Option<Result<u32, ()>> {
        if let Some((chosen, number)) = self.chosen
            && std::ptr::eq(chosen, index)
        {
            return Some(Ok(number));
        }
        let value = self.discarded(|this| this.expression(index));
        if value.is_error() {
            return Some(Err(()));
        }
        let number = value.as_integer()?;
        match number.to_u32() {
            Some(known) if known < self.types.elements(whole) => Some(Ok(known)),
            _ => {
                let message = format!("`{}` has no element {number}", self.types.display(whole));
                let help = format!("the elements are [0] to [{}]", self.types.elements(whole).saturating_sub(1));
                self.report(Diagnostic::new(index.span, message, "out of range").with_help(help));
                Some(Err(()))
            }
        }
    }

    /// The lvalue of an element with a known index; `None` for a variable index, or if the value has no elements.
    pub(super) fn element_of(&mut self, whole: LValue, index: &'a Expr) -> Option<LValue> {
        if self.types.elements(whole.ty) == 0 {
            return None;
        }
        match self.known_index(whole.ty, index)? {
            Ok(number) => Some(self.at(whole, number)),
            Err(()) => Some(LValue::BROKEN),
        }
    }

    /// Translates `value[index]`.
    pub(super) fn element(&mut self, expr: &'a Expr, base: &'a Expr, index: &'a Expr) -> Typed {
        let span = expr.span;
        if let Some(lvalue) = self.lvalue_of(expr) {
            return self.read(lvalue, span);
        }
        let mut whole = self.expression(base);
        if whole.is_error() {
            return Typed::error(span);
        }
        let ty = whole.ty;
        let count = self.types.elements(whole.ty);
        if count == 0 {
            let message = format!("`{}` has no elements", self.types.display(ty));
            let what = Diagnostic::new(span, message, "expected a header stack or a tuple");
            self.report(match ty {
                Type::Bit(_) | Type::Int(_) => what.with_help("bits of a number are a slice: `value[high:low]`"),
                _ => what,
            });
            return Typed::error(span);
        }
        let known = self.known_index(ty, index);
        if let Some(Err(())) = known {
            return Typed::error(span);
        }
        if known.is_none() && self.types.shape(ty) == Some(Shape::Tuple) {
            let what = Diagnostic::new(index.span, "the index of a tuple must be a compile-time constant", "variable");
            self.report(what.with_help("its members have different types, and wires of their own"));
            return Typed::error(span);
        }
        let position = self.code.len();
        let selected = if known.is_none() { self.index(index) } else { Some(fold::constant(0, 1)) };
        self.settle(&mut [&mut whole], position);
        let (Some(selected), Value::Scalars(scalars)) = (selected, whole.value) else { return Typed::error(span) };
        let fields: Vec<(Type, usize)> = self
            .types
            .info(ty)
            .map_or(Vec::new(), |info| info.fields.iter().map(|f| (f.ty, f.offset as usize)).collect());
        let element = known.and_then(Result::ok).unwrap_or(0) as usize;
        let (element_ty, offset) = fields[element];
        let size = self.types.size(element_ty) as usize;
        if known.is_some() {
            return Typed { ty: element_ty, value: Value::Scalars(scalars[offset..offset + size].to_vec()), span };
        }
        self.spend(size as u32 * count, span);
        let choose = |leaf: usize| {
            let values: Vec<hir::Expr> = fields.iter().map(|(_, offset)| scalars[offset + leaf].clone()).collect();
            select(&selected, &values, 0)
        };
        Typed { ty: element_ty, value: Value::Scalars((0..size).map(choose).collect()), span }
    }

    /// Evaluates a variable index once, and returns a temporary variable with its value.
    fn index(&mut self, index: &'a Expr) -> Option<hir::Expr> {
        let value = self.expression(index);
        if value.is_error() {
            return None;
        }
        if !matches!(value.ty, Type::Bit(_)) {
            let message = format!("the index of a header stack cannot be of type `{}`", self.types.display(value.ty));
            self.error(index.span, message, "expected a `bit<W>`");
            return None;
        }
        let mut scalar = value.into_scalar()?;
        self.save(&mut [&mut scalar], None, index.span);
        Some(scalar)
    }

    /// The variable index in an lvalue such as `stack[index].field`, with the number of elements of its stack.
    pub(super) fn variable_index(&mut self, expr: &'a Expr) -> Option<(&'a Expr, u32)> {
        match &expr.kind {
            ExprKind::Member(base, _) | ExprKind::Slice { value: base, .. } => self.variable_index(base),
            ExprKind::Index(base, index) => {
                let stack = self.lvalue_of(base)?;
                if self.types.shape(stack.ty) != Some(Shape::Stack) || self.known_index(stack.ty, index).is_some() {
                    return None;
                }
                Some((index, self.types.elements(stack.ty)))
            }
            _ => None,
        }
    }

    /// Appends code for each element that a variable index in `target` may select. An index beyond the stack selects
    /// none.
    pub(super) fn each_element(&mut self, target: &'a Expr, span: Span, mut code_of: impl FnMut(&mut Self, LValue)) {
        let Some((index, count)) = self.variable_index(target) else { return };
        let Some(selected) = self.index(index) else { return };
        for number in 0..count {
            if selected.width < 32 && number >> selected.width != 0 {
                break;
            }
            let before = self.chosen.replace((index, number));
            let (code, written) = self.collected(|this| {
                let lvalue = this.writable_lvalue(target);
                if let Some(lvalue) = lvalue {
                    code_of(this, lvalue);
                }
                lvalue.is_some()
            });
            self.chosen = before;
            if !written || self.stopped {
                return;
            }
            let wanted = fold::constant(number.into(), selected.width);
            let condition = fold::binary(hir::BinaryOp::Eq, selected.clone(), wanted);
            self.emit(Stmt::If { condition, then: code, otherwise: Vec::new() }, span);
        }
    }

    /// Translates `stack[index].field = value;` with a variable index.
    pub(super) fn assign_element(&mut self, target: &'a Expr, value: &'a Expr, span: Span) {
        let value = self.expression(value);
        let Some((index, _)) = self.variable_index(target) else { return };
        let before = self.chosen.replace((index, 0));
        let first = self.discarded(|this| this.writable_lvalue(target));
        self.chosen = before;
        let Some(first) = first else { return };
        let Some(mut scalars) = self.scalars(value, first.ty) else { return };
        // The value is computed once, before any element changes.
        self.save(&mut scalars.iter_mut().collect::<Vec<_>>(), None, span);
        self.each_element(target, span, |this, lvalue| this.write(lvalue, scalars.clone(), span));
    }

    /// The elements `next` and `last` of a header stack, which exist in a parser.
    pub(super) fn stack_member(&mut self, stack: LValue, member: &Ident) -> Option<LValue> {
        if !matches!(&*member.name, "next" | "last") {
            return None;
        }
        if self.context != Context::Parser {
            let message = format!("`{}` of a header stack outside of a parser", member.name);
            let what = Diagnostic::new(member.span, message, "not allowed here");
            self.report(what.with_help("only the parser counts the elements: use an index"));
            return Some(LValue::BROKEN);
        }
        let count = self.count(stack);
        let size = self.types.elements(stack.ty);
        let number = if &*member.name == "next" { count } else { count.wrapping_sub(1) };
        if number >= size {
            self.pipe.overflow = true;
        }
        Some(self.at(stack, number.min(size - 1)))
    }

    /// Translates `stack.size` and `stack.lastIndex`.
    pub(super) fn stack_property(&mut self, stack: LValue, member: &Ident, span: Span) -> Typed {
        let value = match &*member.name {
            "size" => self.types.elements(stack.ty),
            "lastIndex" if self.context == Context::Parser => self.count(stack).wrapping_sub(1),
            _ => {
                let message = format!("`{}` has no member `{}` here", self.types.display(stack.ty), member.name);
                let what = Diagnostic::new(member.span, message, "unknown member");
                self.report(
                    what.with_help("available: size, push_front, pop_front; in a parser also next, last, lastIndex"),
                );
                return Typed::error(span);
            }
        };
        Typed::scalar(Type::Bit(32), fold::constant(value.into(), 32), span)
    }

    fn count(&self, stack: LValue) -> u32 {
        self.pipe.counts.get(&stack.slot).copied().unwrap_or(0)
    }

    fn set_count(&mut self, stack: LValue, count: u32) {
        match count {
            0 => self.pipe.counts.remove(&stack.slot),
            count => self.pipe.counts.insert(stack.slot, count),
        };
    }

    /// Counts the element of an `extract(stack.next)`.
    pub(super) fn count_next(&mut self, argument: &'a Expr) {
        if let ExprKind::Member(base, member) = &argument.kind
            && &*member.name == "next"
            && let Some(stack) = self.lvalue_of(base)
            && self.types.shape(stack.ty) == Some(Shape::Stack)
        {
            self.set_count(stack, self.count(stack) + 1);
        }
    }

    /// Copies the numbers of elements of all header stacks in `from` to those in `to`, which is of the same type.
    pub(super) fn copy_counts(&mut self, from: LValue, to: LValue) {
        let size = self.types.size(to.ty);
        let copied: Vec<(u32, u32)> =
            self.pipe.counts.range(from.slot..from.slot + size).map(|(s, n)| (*s, *n)).collect();
        self.pipe.counts.retain(|slot, _| !(to.slot..to.slot + size).contains(slot));
        self.pipe.counts.extend(copied.into_iter().map(|(slot, count)| (slot - from.slot + to.slot, count)));
    }

    /// Reports branches of a statement that change the number of elements of a stack, or exceed it.
    pub(super) fn same_counts(&mut self, counts: Counts, overflow: bool, span: Span) {
        if self.pipe.counts != counts || self.pipe.overflow != overflow {
            let what = Diagnostic::new(span, "a branch takes an element of a header stack", "not allowed in a branch");
            self.report(what.with_help("write it in a state of its own: each state knows the number of elements"));
            (self.pipe.counts, self.pipe.overflow) = (counts, overflow);
        }
    }

    /// Translates `stack.push_front(count)` and `stack.pop_front(count)`.
    pub(super) fn shift_stack(
        &mut self, stack: LValue, base: &'a Expr, method: &'a Ident, arguments: &'a [Argument], span: Span,
    ) -> Typed {
        let nothing = Typed { ty: Type::Void, value: Value::Nothing, span };
        let [Argument { value: Some(argument), .. }] = arguments else {
            self.error(span, format!("`{}` takes 1 argument", method.name), "wrong number of arguments");
            return nothing;
        };
        let Some(count) = self.constant_integer(argument, "the number of elements") else { return nothing };
        let Some(count) = count.to_u32() else {
            self.error(argument.span, format!("cannot shift by {count} elements"), "expected a positive number");
            return nothing;
        };
        if self.writable_lvalue(base).is_none() {
            return nothing;
        }
        let Value::Scalars(old) = self.read(stack, span).value else { return nothing };
        let elements = self.types.elements(stack.ty);
        let count = count.min(elements);
        let size = old.len() / elements.max(1) as usize;
        let moved = count as usize * size;
        let empty = old.iter().take(moved).map(|scalar| fold::constant(0, scalar.width));
        let push = &*method.name == "push_front";
        let new: Vec<hir::Expr> = if push {
            empty.chain(old[..old.len() - moved].iter().cloned()).collect()
        } else {
            old[moved..].iter().cloned().chain(empty).collect()
        };
        self.write(stack, new, span);
        if self.context == Context::Parser {
            let before = self.count(stack);
            self.set_count(stack, if push { (before + count).min(elements) } else { before.saturating_sub(count) });
        }
        nothing
    }
}

/// The value whose number is `index`, of which the first has the number `first`: a balanced tree of multiplexers. An
/// index beyond the values selects the last one.
fn select(index: &hir::Expr, values: &[hir::Expr], first: u32) -> hir::Expr {
    let half = values.len() / 2;
    let middle = first + half as u32;
    if half == 0 {
        return values[0].clone();
    }
    if index.width < 32 && middle >> index.width != 0 {
        return select(index, &values[..half], first);
    }
    let below = fold::binary(hir::BinaryOp::Lt, index.clone(), fold::constant(middle.into(), index.width));
    fold::conditional(below, select(index, &values[..half], first), select(index, &values[half..], middle))
}
