//! Part of the semantic analysis of P4: lvalues, which are variables and parts of variables that a program can assign.

use super::typed::{Typed, Value};
use super::types::{Shape, Type};
use super::{Analyser, Symbol, fold};
use crate::ast::{Expr, ExprKind, Ident};
use crate::diagnostic::{Diagnostic, nearest};
use crate::hir::{self, Header, HeaderId, Slot, SlotId, Stmt};
use crate::source::Span;

/// Maximum number of slots (scalar variables) of a pipeline.
const MAX_SLOTS: u32 = 65_536;

/// An lvalue: a variable or a part of a variable. It occupies consecutive slots (scalar variables) of the pipeline.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LValue {
    pub(super) ty: Type,
    /// The index of the first slot (scalar variable) of the lvalue.
    pub(super) slot: u32,
    /// The index of the lowest bit, if the lvalue is a slice of a single slot; else `None`.
    pub(super) low: Option<u32>,
    /// The position of the declaration, if the lvalue is read-only because it is an `in` parameter; else `None`.
    pub(super) fixed: Option<Span>,
}

impl LValue {
    /// The lvalue that stands for an expression with an error that has already been reported.
    pub(super) const BROKEN: LValue = LValue { ty: Type::Error, slot: 0, low: None, fixed: None };
}

impl<'a> Analyser<'a> {
    /// Allocates the slots (scalar variables) that a variable consists of; all slots are zero initially. If `headers`
    /// is true, the parser can extract and the deparser can emit the headers in the variable.
    pub(super) fn allocate(&mut self, ty: Type, name: &str, headers: bool, span: Span) -> LValue {
        let slot = self.pipe.code.slots.len() as u32;
        if self.types.size(ty) > MAX_SLOTS - slot {
            let message = format!("the program needs more than {MAX_SLOTS} scalar variables");
            self.stop(Diagnostic::new(span, message, "the limit is exceeded by this variable").with_help(
                "every inlined call of an action or control has its own copy of its variables: use fewer calls, or smaller structs",
            ));
            return LValue::BROKEN;
        }
        for leaf in self.types.leaves(ty, name) {
            let at = SlotId(self.pipe.code.slots.len() as u32);
            self.pipe.code.slots.push(Slot { name: leaf.name, width: leaf.width, signed: leaf.signed });
            if let (Some(header), true) = (leaf.header, headers) {
                self.register_header(header, at);
            }
        }
        LValue { ty, slot, low: None, fixed: None }
    }

    /// Allocates the slots (scalar variables) of a temporary variable, which is written only once, and is written
    /// before it is read.
    pub(super) fn temporary(&mut self, ty: Type, name: &str, span: Span) -> LValue {
        let lvalue = self.allocate(ty, name, false, span);
        let end = self.pipe.code.slots.len();
        self.pipe.temporary.resize(end, false);
        self.pipe.temporary[lvalue.slot as usize..].fill(true);
        lvalue
    }

    fn register_header(&mut self, number: u32, valid: SlotId) {
        let name = &self.pipe.code.slots[valid.0 as usize].name;
        let name = name.strip_suffix(".$valid").unwrap_or(name).to_string();
        let size = self.types.structs[number as usize].size;
        let fields = (valid.0 + 1..valid.0 + size).map(SlotId).collect();
        self.pipe.header_at.insert(valid, HeaderId(self.pipe.code.headers.len() as u32));
        self.pipe.code.headers.push(Header { name, valid, fields });
    }

    /// Returns the current value of an lvalue, as the values of its slots (scalar variables).
    pub(super) fn read(&mut self, lvalue: LValue, span: Span) -> Typed {
        if lvalue.ty == Type::Error {
            return Typed::error(span);
        }
        let size = self.types.size(lvalue.ty);
        self.spend(size, span);
        if let (Some(low), Type::Bit(width)) = (lvalue.low, lvalue.ty) {
            let whole = self.slot(lvalue.slot);
            return Typed::scalar(lvalue.ty, fold::slice(whole, low, width), span);
        }
        let scalars = (lvalue.slot..lvalue.slot + size).map(|slot| self.slot(slot)).collect();
        Typed { ty: lvalue.ty, value: Value::Scalars(scalars), span }
    }

    /// Returns an expression that reads the current value of a slot (scalar variable).
    pub(super) fn slot(&self, slot: u32) -> hir::Expr {
        fold::slot(slot, self.pipe.code.slots[slot as usize].width)
    }

    /// Assigns scalar values to an lvalue, in the order of its slots (scalar variables).
    pub(super) fn write(&mut self, lvalue: LValue, mut scalars: Vec<hir::Expr>, span: Span) {
        if let Some(low) = lvalue.low {
            let value = scalars.swap_remove(0);
            return self.emit(Stmt::AssignSlice { slot: SlotId(lvalue.slot), low, value }, span);
        }
        // If a value reads a slot that an earlier one of these assignments overwrites, all values are first saved in
        // temporary variables.
        let clobbers = |(number, value)| fold::reads(value, &(lvalue.slot..lvalue.slot + number as u32));
        if scalars.iter().enumerate().any(clobbers) {
            let mut held: Vec<_> = scalars.iter_mut().collect();
            self.save(&mut held, None, span);
        }
        for (slot, value) in (lvalue.slot..).zip(scalars) {
            self.emit(Stmt::Assign { slot: SlotId(slot), value }, span);
        }
    }

    /// Sets all slots (scalar variables) of an lvalue to zero. This also makes the headers in it invalid.
    pub(super) fn clear(&mut self, lvalue: LValue, span: Span) {
        for slot in lvalue.slot..lvalue.slot + self.types.size(lvalue.ty) {
            let width = self.pipe.code.slots[slot as usize].width;
            self.emit(Stmt::Assign { slot: SlotId(slot), value: fold::constant(0, width) }, span);
        }
    }

    /// Copies values to temporary variables, so that later statements cannot change them. The assignments are inserted
    /// at index `position` of the code that is being generated, or at the end of the code if `position` is `None`.
    pub(super) fn save(&mut self, values: &mut [&mut hir::Expr], position: Option<usize>, span: Span) {
        let mut saved = Vec::new();
        for value in values {
            let lasting = match value.kind {
                hir::ExprKind::Const(_) => true,
                hir::ExprKind::Slot(slot) => self.pipe.temporary.get(slot.0 as usize) == Some(&true),
                _ => false,
            };
            if !lasting && !self.stopped {
                let lvalue = self.temporary(Type::Bit(value.width), "value", span);
                if lvalue.ty == Type::Error {
                    return;
                }
                let value = std::mem::replace(*value, self.slot(lvalue.slot));
                saved.push(Stmt::Assign { slot: SlotId(lvalue.slot), value });
            }
        }
        self.spend(saved.len() as u32, span);
        let position = position.unwrap_or(self.code.len());
        self.code.splice(position..position, saved);
    }

    /// Protects values from statements that were appended to the code after index `position`, because these statements
    /// might change the values. If there are such statements, the function saves the values in temporary variables
    /// before them.
    pub(super) fn settle(&mut self, values: &mut [&mut Typed], position: usize) {
        if self.code.len() > position {
            let mut scalars = Vec::new();
            let span = values.last().map(|value| value.span);
            values.iter_mut().for_each(|value| collect_scalars(value, &mut scalars));
            let span = span.unwrap_or_default();
            self.save(&mut scalars, Some(position), span);
        }
    }

    /// Returns the lvalue that an expression denotes; `None` if it does not denote an lvalue. This function reports an
    /// unknown field as an error, and no other errors.
    pub(super) fn lvalue_of(&mut self, expr: &'a Expr) -> Option<LValue> {
        match &expr.kind {
            ExprKind::Name(name) => match self.find(&name.name) {
                Some(Symbol::Variable(lvalue)) => Some(*lvalue),
                _ => None,
            },
            ExprKind::Member(base, member) => {
                let lvalue = self.lvalue_of(base)?;
                match self.types.info(lvalue.ty)?.shape {
                    Shape::Fields => Some(self.field(lvalue, member)),
                    Shape::Stack => self.stack_member(lvalue, member),
                    Shape::Tuple => None,
                }
            }
            ExprKind::Index(base, index) => {
                let lvalue = self.lvalue_of(base)?;
                self.element_of(lvalue, index)
            }
            _ => None,
        }
    }

    fn field(&mut self, lvalue: LValue, member: &Ident) -> LValue {
        let fields = self.types.info(lvalue.ty).map_or(0, |info| info.fields.len());
        self.search(fields, member.span);
        let Some(info) = self.types.info(lvalue.ty) else { return LValue::BROKEN };
        match info.fields.iter().find(|field| field.name == member.name) {
            Some(field) => LValue { ty: field.ty, slot: lvalue.slot + field.offset, ..lvalue },
            None => {
                self.no_such_member(lvalue.ty, member);
                LValue::BROKEN
            }
        }
    }

    /// Reports that the type `ty` does not have the field `member`.
    pub(super) fn no_such_member(&mut self, ty: Type, member: &Ident) {
        let Some(info) = self.types.info(ty) else {
            let message = format!("`{}` has no members", self.types.display(ty));
            return self.error(member.span, message, "not a header or struct");
        };
        let names: Vec<&str> = info.fields.iter().map(|field| &*field.name).collect();
        let help = match nearest(&member.name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => super::scope::list_of_names(&names),
        };
        let message = format!("`{}` has no field `{}`", info.name, member.name);
        let span = info.span;
        let unknown = Diagnostic::new(member.span, message, "unknown field").with_help(help);
        self.report(unknown.with_related(span, "declared here"));
    }

    /// Returns the lvalue that an expression denotes and that the program may write. Reports an error if there is none.
    pub(super) fn writable_lvalue(&mut self, expr: &'a Expr) -> Option<LValue> {
        let lvalue = match &expr.kind {
            ExprKind::Slice { value, high, low } => {
                let whole = self.writable_lvalue(value)?;
                return self.slice_of(whole, expr, high, low);
            }
            _ => self.lvalue_of(expr),
        };
        let Some(lvalue) = lvalue else {
            self.not_writable(expr);
            return None;
        };
        if let Some(declared) = lvalue.fixed {
            let what = Diagnostic::new(expr.span, "an `in` parameter cannot be assigned to", "read only");
            self.report(
                what.with_related(declared, "declared `in` here").with_help("copy the parameter to a variable first"),
            );
            return None;
        }
        (lvalue.ty != Type::Error).then_some(lvalue)
    }

    fn slice_of(&mut self, whole: LValue, expr: &'a Expr, high: &'a Expr, low: &'a Expr) -> Option<LValue> {
        let width = match whole.ty {
            Type::Bit(width) | Type::Int(width) => width,
            ty => {
                let message = format!("a slice of `{}` is not possible", self.types.display(ty));
                self.error(expr.span, message, "only `bit` and `int` have bits");
                return None;
            }
        };
        let (low, bits) = self.slice_bounds(width, high, low)?;
        Some(LValue { ty: Type::Bit(bits), low: Some(whole.low.unwrap_or(0) + low), ..whole })
    }

    fn not_writable(&mut self, expr: &'a Expr) {
        let (message, help) = match &expr.kind {
            ExprKind::Name(name) | ExprKind::TopName(name) => match self.lookup(name) {
                Symbol::Broken => return,
                symbol => {
                    let message = format!("`{}` is {}: it cannot be assigned to", name.name, symbol.what());
                    let first = self.span_of_name(&name.name).unwrap_or(name.span);
                    let what = Diagnostic::new(expr.span, message, "not a variable");
                    return self.report(what.with_related(first, "declared here"));
                }
            },
            ExprKind::Index(..) | ExprKind::Member(..) if self.variable_index(expr).is_some() => (
                "an element of a header stack with a variable index cannot be passed on",
                "it can be read, assigned to, and made valid or invalid; elsewhere use a constant index",
            ),
            ExprKind::Member(..) => {
                let before = self.errors.len();
                let value = self.discarded(|this| this.expression(expr));
                if self.errors.len() > before || value.is_error() {
                    return;
                }
                ("this expression cannot be assigned to", "only variables, their fields and slices can be assigned to")
            }
            _ => {
                ("this expression cannot be assigned to", "only variables, their fields and slices can be assigned to")
            }
        };
        self.report(Diagnostic::new(expr.span, message, "not a variable").with_help(help));
    }
}

fn collect_scalars<'t>(value: &'t mut Typed, scalars: &mut Vec<&'t mut hir::Expr>) {
    match &mut value.value {
        Value::Scalars(found) => scalars.extend(found.iter_mut()),
        Value::List(items) => items.iter_mut().for_each(|(_, item)| collect_scalars(item, scalars)),
        Value::Nothing | Value::Integer(_) => {}
    }
}
