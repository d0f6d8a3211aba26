//! Variables in slots, and what can stand on the left of an assignment.

use super::typed::{Typed, Value};
use super::types::Type;
use super::{Analyser, Symbol, fold, scope::nearest};
use crate::ast::{Expr, ExprKind, Ident};
use crate::diagnostic::Diagnostic;
use crate::hir::{self, Header, HeaderId, Slot, SlotId, Stmt};
use crate::source::Span;

/// Slots that a pipeline may have.
const MOST_SLOTS: u32 = 65_536;

/// A variable or a part of one: slots that follow each other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Place {
    pub(super) ty: Type,
    /// The first slot.
    pub(super) slot: u32,
    /// Of one slot only the bits from here on.
    pub(super) low: Option<u32>,
    /// An `in` parameter, declared there.
    pub(super) fixed: Option<Span>,
}

impl Place {
    /// Of something that has been reported.
    pub(super) const BROKEN: Place = Place { ty: Type::Error, slot: 0, low: None, fixed: None };
}

impl<'a> Analyser<'a> {
    /// New slots for a variable, all zero. With `headers` the headers in it can be extracted and emitted.
    pub(super) fn allocate(&mut self, ty: Type, name: &str, headers: bool, span: Span) -> Place {
        let slot = self.pipe.code.slots.len() as u32;
        if self.types.size(ty) > MOST_SLOTS - slot {
            let message = format!("the program needs more than {MOST_SLOTS} scalar variables");
            self.stop(Diagnostic::new(span, message, "no room for this one").with_help(
                "every call of an action or control has its own copy of the variables in it: use fewer calls, or smaller structs",
            ));
            return Place::BROKEN;
        }
        for leaf in self.types.leaves(ty, name) {
            let at = SlotId(self.pipe.code.slots.len() as u32);
            self.pipe.code.slots.push(Slot { name: leaf.name, width: leaf.width, signed: leaf.signed });
            if let (Some(header), true) = (leaf.header, headers) {
                self.register_header(header, at);
            }
        }
        Place { ty, slot, low: None, fixed: None }
    }

    /// Slots that are written once, before they are read.
    pub(super) fn temporary(&mut self, ty: Type, name: &str, span: Span) -> Place {
        let place = self.allocate(ty, name, false, span);
        let end = self.pipe.code.slots.len();
        self.pipe.temporary.resize(end, false);
        self.pipe.temporary[place.slot as usize..].fill(true);
        place
    }

    fn register_header(&mut self, number: u32, valid: SlotId) {
        let name = &self.pipe.code.slots[valid.0 as usize].name;
        let name = name.strip_suffix(".$valid").unwrap_or(name).to_string();
        let size = self.types.structs[number as usize].size;
        let fields = (valid.0 + 1..valid.0 + size).map(SlotId).collect();
        self.pipe.header_at.insert(valid, HeaderId(self.pipe.code.headers.len() as u32));
        self.pipe.code.headers.push(Header { name, valid, fields });
    }

    /// The slots' values.
    pub(super) fn read(&mut self, place: Place, span: Span) -> Typed {
        if place.ty == Type::Error {
            return Typed::error(span);
        }
        let size = self.types.size(place.ty);
        self.spend(size, span);
        if let (Some(low), Type::Bit(width)) = (place.low, place.ty) {
            let whole = self.slot(place.slot);
            return Typed::scalar(place.ty, fold::slice(whole, low, width), span);
        }
        let scalars = (place.slot..place.slot + size).map(|slot| self.slot(slot)).collect();
        Typed { ty: place.ty, value: Value::Scalars(scalars), span }
    }

    /// A slot's value.
    pub(super) fn slot(&self, slot: u32) -> hir::Expr {
        fold::slot(slot, self.pipe.code.slots[slot as usize].width)
    }

    /// Writes the scalars of a value of the place's type.
    pub(super) fn write(&mut self, place: Place, mut scalars: Vec<hir::Expr>, span: Span) {
        if let Some(low) = place.low {
            let value = scalars.swap_remove(0);
            return self.emit(Stmt::AssignSlice { slot: SlotId(place.slot), low, value }, span);
        }
        // A slot that a later value reads must not be written before.
        let clobbers = |(number, value)| fold::reads(value, &(place.slot..place.slot + number as u32));
        if scalars.iter().enumerate().any(clobbers) {
            let mut held: Vec<_> = scalars.iter_mut().collect();
            self.save(&mut held, None, span);
        }
        for (slot, value) in (place.slot..).zip(scalars) {
            self.emit(Stmt::Assign { slot: SlotId(slot), value }, span);
        }
    }

    /// Sets all of it to zero, headers invalid.
    pub(super) fn clear(&mut self, place: Place, span: Span) {
        for slot in place.slot..place.slot + self.types.size(place.ty) {
            let width = self.pipe.code.slots[slot as usize].width;
            self.emit(Stmt::Assign { slot: SlotId(slot), value: fold::constant(0, width) }, span);
        }
    }

    /// Puts values into temporaries, at a position of the code or at its end, so that what follows cannot change them.
    pub(super) fn save(&mut self, values: &mut [&mut hir::Expr], position: Option<usize>, span: Span) {
        let mut saved = Vec::new();
        for value in values {
            let lasting = match value.kind {
                hir::ExprKind::Const(_) => true,
                hir::ExprKind::Slot(slot) => self.pipe.temporary.get(slot.0 as usize) == Some(&true),
                _ => false,
            };
            if !lasting && !self.stopped {
                let place = self.temporary(Type::Bit(value.width), "value", span);
                if place.ty == Type::Error {
                    return;
                }
                let value = std::mem::replace(*value, self.slot(place.slot));
                saved.push(Stmt::Assign { slot: SlotId(place.slot), value });
            }
        }
        self.spend(saved.len() as u32, span);
        let position = position.unwrap_or(self.code.len());
        self.code.splice(position..position, saved);
    }

    /// Saves what was computed before the code from `position` on, if there is such code: that might change it.
    pub(super) fn settle(&mut self, values: &mut [&mut Typed], position: usize) {
        if self.code.len() > position {
            let (mut scalars, span) = (Vec::new(), values.last().map(|value| value.span));
            values.iter_mut().for_each(|value| collect_scalars(value, &mut scalars));
            let span = span.unwrap_or_default();
            self.save(&mut scalars, Some(position), span);
        }
    }

    /// The variable, or part of one, that an expression is; `None` if it is none. Nothing is reported but an unknown field.
    pub(super) fn place_of(&mut self, expr: &'a Expr) -> Option<Place> {
        match &expr.kind {
            ExprKind::Name(name) => match self.find(&name.name) {
                Some(Symbol::Variable(place)) => Some(*place),
                _ => None,
            },
            ExprKind::Member(base, member) => {
                let place = self.place_of(base)?;
                self.types.info(place.ty)?;
                Some(self.field(place, member))
            }
            _ => None,
        }
    }

    fn field(&mut self, place: Place, member: &Ident) -> Place {
        let fields = self.types.info(place.ty).map_or(0, |info| info.fields.len());
        self.search(fields, member.span);
        let Some(info) = self.types.info(place.ty) else { return Place::BROKEN };
        match info.fields.iter().find(|field| field.name == member.name) {
            Some(field) => Place { ty: field.ty, slot: place.slot + field.offset, ..place },
            None => {
                self.no_such_member(place.ty, member);
                Place::BROKEN
            }
        }
    }

    /// Reports that a type has no such field.
    pub(super) fn no_such_member(&mut self, ty: Type, member: &Ident) {
        let Some(info) = self.types.info(ty) else {
            let message = format!("`{}` has no members", self.types.display(ty));
            return self.error(member.span, message, "not a header or struct");
        };
        let names: Vec<&str> = info.fields.iter().map(|field| &*field.name).collect();
        let help = match nearest(&member.name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => super::scope::they_are(&names),
        };
        let message = format!("`{}` has no field `{}`", info.name, member.name);
        let span = info.span;
        let unknown = Diagnostic::new(member.span, message, "unknown field").with_help(help);
        self.report(unknown.with_related(span, "declared here"));
    }

    /// What an expression names that can be written to; anything else is reported.
    pub(super) fn target(&mut self, expr: &'a Expr) -> Option<Place> {
        let place = match &expr.kind {
            ExprKind::Slice { value, high, low } => {
                let whole = self.target(value)?;
                return self.slice_of(whole, expr, high, low);
            }
            _ => self.place_of(expr),
        };
        let Some(place) = place else {
            self.not_a_target(expr);
            return None;
        };
        if let Some(declared) = place.fixed {
            let what = Diagnostic::new(expr.span, "an `in` parameter cannot be changed", "read only");
            self.report(what.with_related(declared, "declared `in` here").with_help("copy it to a variable first"));
            return None;
        }
        (place.ty != Type::Error).then_some(place)
    }

    fn slice_of(&mut self, whole: Place, expr: &'a Expr, high: &'a Expr, low: &'a Expr) -> Option<Place> {
        let width = match whole.ty {
            Type::Bit(width) | Type::Int(width) => width,
            ty => {
                let message = format!("bits of `{}` cannot be taken", self.types.display(ty));
                self.error(expr.span, message, "only `bit` and `int` have bits");
                return None;
            }
        };
        let (low, bits) = self.slice_bounds(width, high, low)?;
        Some(Place { ty: Type::Bit(bits), low: Some(whole.low.unwrap_or(0) + low), ..whole })
    }

    fn not_a_target(&mut self, expr: &'a Expr) {
        let (message, help) = match &expr.kind {
            ExprKind::Name(name) | ExprKind::TopName(name) => match self.lookup(name) {
                Symbol::Broken => return,
                symbol => {
                    let message = format!("`{}` is {}: it cannot be changed", name.name, symbol.what());
                    let first = self.place_of_name(&name.name).unwrap_or(name.span);
                    let what = Diagnostic::new(expr.span, message, "not a variable");
                    return self.report(what.with_related(first, "declared here"));
                }
            },
            ExprKind::Member(..) => {
                let before = self.errors.len();
                let value = self.discarded(|this| this.expression(expr));
                if self.errors.len() > before || value.is_error() {
                    return;
                }
                ("this cannot be changed", "only variables, their fields and bits can")
            }
            _ => ("this cannot be changed", "only variables, their fields and bits can"),
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
