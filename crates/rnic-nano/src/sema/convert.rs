//! Part of the semantic analysis of P4: implicit conversions and casts.

use super::integer::Integer;
use super::typed::{Typed, Value};
use super::types::Type;
use super::{Analyser, fold};
use crate::ast::Ident;
use crate::diagnostic::Diagnostic;
use crate::hir;
use crate::source::Span;

impl<'a> Analyser<'a> {
    /// Converts a value implicitly to the type `to`. Reports an error if P4 does not allow the conversion.
    pub(super) fn converted(&mut self, value: Typed, to: Type) -> Typed {
        let span = value.span;
        if value.ty == to || value.is_error() {
            return value;
        }
        match (value.value, value.ty, to) {
            (_, _, Type::Error) => Typed::error(span),
            (Value::Integer(number), _, Type::Bit(width)) => self.fitted(number, to, width, false, span),
            (Value::Integer(number), _, Type::Int(width)) => self.fitted(number, to, width, true, span),
            (Value::List(items), _, Type::Struct(_) | Type::Header(_)) => self.structured(items, to, span),
            (Value::Scalars(scalars), Type::Enum(number), _)
                if self.types.enums[number as usize].representation == Some(to) =>
            {
                Typed { ty: to, value: Value::Scalars(scalars), span }
            }
            (_, from, _) => {
                self.mismatch(from, to, span);
                Typed::error(span)
            }
        }
    }

    /// Converts a value implicitly to the type `to`, and returns its scalars: one for each slot (scalar variable) that
    /// the type occupies.
    pub(super) fn scalars(&mut self, value: Typed, to: Type) -> Option<Vec<hir::Expr>> {
        match self.converted(value, to).value {
            Value::Scalars(scalars) => Some(scalars),
            _ => None,
        }
    }

    fn mismatch(&mut self, from: Type, to: Type, span: Span) {
        let found = self.types.display(from);
        let expected = self.types.display(to);
        let what = Diagnostic::new(span, format!("expected `{expected}`, found `{found}`"), format!("`{found}`"));
        self.report(match (from, to) {
            (Type::Bit(_), Type::Bit(_)) | (Type::Int(_), Type::Int(_)) => {
                what.with_help(format!("write `({expected}) value`"))
            }
            (Type::Bit(a), Type::Int(b)) | (Type::Int(a), Type::Bit(b)) if a == b => {
                what.with_help(format!("write `({expected}) value`"))
            }
            (Type::Bool, Type::Bit(width)) => what.with_help(format!("write `condition ? {width}w1 : 0`")),
            (Type::Bit(_) | Type::Int(_) | Type::Integer, Type::Bool) => {
                what.with_help("compare the value: `value != 0`")
            }
            (Type::Bit(_) | Type::Int(_) | Type::Integer, Type::Enum(_)) => {
                what.with_help(format!("write a member, `{expected}.NAME`, or cast a value of the underlying type"))
            }
            _ => what,
        });
    }

    /// Converts a compile-time integer to a number of `width` bits. Reports an error if the number does not fit.
    fn fitted(&mut self, number: Integer, ty: Type, width: u32, signed: bool, span: Span) -> Typed {
        match number.to_bits(width, signed) {
            Some(bits) => Typed::scalar(ty, fold::constant(bits, width), span),
            None => {
                let name = self.types.display(ty);
                let (least, greatest) = bounds(width, signed);
                let what = Diagnostic::new(
                    span,
                    format!("{number} does not fit in `{name}`"),
                    format!("{least} to {greatest}"),
                );
                self.report(what.with_help(format!("to keep the low {width} bits, write `({name}) value`")));
                Typed::error(span)
            }
        }
    }

    /// Builds a struct or header from the values of its fields, which are given in order or by name.
    fn structured(&mut self, items: Vec<(Option<Ident>, Typed)>, to: Type, span: Span) -> Typed {
        let info = self.types.info(to).expect("a struct");
        let fields: Vec<_> = info.fields.iter().map(|field| (field.name.clone(), field.ty)).collect();
        let Some(items) = self.in_order(items, &fields, to, span) else { return Typed::error(span) };
        let mut scalars = Vec::new();
        if let Type::Header(_) = to {
            scalars.push(fold::constant(1, 1));
        }
        let mut whole = true;
        for (value, (_, ty)) in items.into_iter().zip(fields) {
            match self.scalars(value, ty) {
                Some(found) => scalars.extend(found),
                None => whole = false,
            }
        }
        if whole { Typed { ty: to, value: Value::Scalars(scalars), span } } else { Typed::error(span) }
    }

    fn in_order(
        &mut self, mut items: Vec<(Option<Ident>, Typed)>, fields: &[(std::rc::Rc<str>, Type)], to: Type, span: Span,
    ) -> Option<Vec<Typed>> {
        let name = self.types.display(to);
        let names = || super::scope::list_of_names(&fields.iter().map(|(name, _)| &**name).collect::<Vec<_>>());
        if items.iter().any(|(name, _)| name.is_some()) {
            for (number, (field, value)) in items.iter().enumerate() {
                self.search(2 * items.len(), value.span);
                let Some(field) = field else {
                    self.error(
                        value.span,
                        "fields must be given all by name or all in order",
                        "this value has no name",
                    );
                    return None;
                };
                if !fields.iter().any(|(name, _)| *name == field.name) {
                    self.no_such_member(to, field);
                    return None;
                }
                if let Some((first, _)) =
                    items[..number].iter().find(|(other, _)| other.as_ref().is_some_and(|o| o.name == field.name))
                {
                    let what = Diagnostic::new(
                        field.span,
                        format!("the field `{}` is given twice", field.name),
                        "given again here",
                    );
                    let first = first.as_ref().map_or(span, |first| first.span);
                    self.report(what.with_related(first, "given here first"));
                    return None;
                }
            }
        }
        if items.len() != fields.len() {
            let message =
                format!("`{name}` has {}, found {}", count(fields.len(), "field"), count(items.len(), "value"));
            self.report(Diagnostic::new(span, message, "wrong number of values").with_help(names()));
            return None;
        }
        if items.first().is_some_and(|(name, _)| name.is_some()) {
            let position_of = |name: &Option<Ident>| {
                fields.iter().position(|(field, _)| name.as_ref().is_some_and(|n| n.name == *field))
            };
            items.sort_by_key(|(name, _)| position_of(name));
        }
        Some(items.into_iter().map(|(_, value)| value).collect())
    }

    /// Converts two values implicitly to a common type.
    pub(super) fn same_type(&mut self, a: Typed, b: Typed, span: Span) -> Option<(Typed, Typed)> {
        if a.is_error() || b.is_error() {
            return None;
        }
        if a.ty == b.ty {
            return Some((a, b));
        }
        // The operand whose type has the lower rank is converted to the type of the other operand: first integers and
        // lists, then members of serializable enums.
        let to_first = rank(a.ty) > rank(b.ty);
        let (from, to) = if to_first { (b, a) } else { (a, b) };
        let found = from.ty;
        let expected = to.ty;
        let becomes = match (found, expected) {
            (Type::Integer, Type::Bit(_) | Type::Int(_)) | (Type::List, Type::Struct(_) | Type::Header(_)) => true,
            (Type::Enum(number), _) => self.types.enums[number as usize].representation == Some(expected),
            _ => false,
        };
        if let (Type::Integer, Type::Enum(number)) = (found, expected)
            && let Some(representation) = self.types.enums[number as usize].representation
        {
            let from = self.converted(from, representation);
            let to = Typed { ty: representation, ..to };
            return (!from.is_error()).then_some(if to_first { (to, from) } else { (from, to) });
        }
        if !becomes {
            let (first, second) = if to_first { (expected, found) } else { (found, expected) };
            let a = self.types.display(first);
            let b = self.types.display(second);
            let message = format!("`{a}` and `{b}` are different types");
            let what = Diagnostic::new(span, message, "both must have the same type");
            self.report(match (first, second) {
                (Type::Bit(_), Type::Bit(_)) | (Type::Int(_), Type::Int(_)) => {
                    what.with_help(format!("cast one operand: `({a}) value`"))
                }
                (Type::Bit(x), Type::Int(y)) | (Type::Int(x), Type::Bit(y)) if x == y => {
                    what.with_help(format!("cast one operand: `({a}) value`"))
                }
                _ => what,
            });
            return None;
        }
        let from = self.converted(from, expected);
        (!from.is_error()).then_some(if to_first { (to, from) } else { (from, to) })
    }

    /// Translates a cast: `(T) value`.
    pub(super) fn cast(&mut self, value: Typed, to: Type, span: Span) -> Typed {
        let value = Typed { span, ..value };
        if value.is_error() || to == Type::Error {
            return Typed::error(span);
        }
        let from = value.ty;
        // A member of an enum is first converted to the underlying type of the enum.
        if let Type::Enum(number) = from
            && let Some(representation) = self.types.enums[number as usize].representation
            && !matches!(to, Type::Enum(_))
        {
            let value = Typed { ty: representation, ..value };
            return self.cast(value, to, span);
        }
        match (from, to) {
            (from, to) if from == to => value,
            (Type::Integer, Type::Bit(width) | Type::Int(width)) => match value.as_integer() {
                Some(number) => Typed::scalar(to, fold::constant(number.wrap(width), width), span),
                None => Typed::error(span),
            },
            (Type::Bit(_) | Type::Int(_), Type::Integer) => match value.as_integer() {
                Some(number) => Typed::integer(number, span),
                None => {
                    self.error(span, "only a compile-time constant can be cast to `int`", "not a constant");
                    Typed::error(span)
                }
            },
            (Type::Integer, Type::Bool) | (Type::Bool, Type::Bit(1)) | (Type::Bit(1), Type::Bool) => {
                self.cast_bool(value, to, span)
            }
            (Type::Bit(a), Type::Int(b)) | (Type::Int(a), Type::Bit(b)) if a == b => Typed { ty: to, ..value },
            (Type::Bit(_), Type::Bit(width)) => self.resized(value, to, width, false, span),
            (Type::Int(_), Type::Int(width)) => self.resized(value, to, width, true, span),
            (_, Type::Enum(number)) if self.types.enums[number as usize].representation.is_some() => {
                let representation = self.types.enums[number as usize].representation.unwrap_or(Type::Error);
                let value = if from == Type::Integer || from == representation {
                    self.converted(value, representation)
                } else {
                    self.impossible_cast(from, to, span)
                };
                if value.is_error() { value } else { Typed { ty: to, ..value } }
            }
            (Type::List, Type::Struct(_) | Type::Header(_)) => self.converted(value, to),
            _ => self.impossible_cast(from, to, span),
        }
    }

    fn resized(&mut self, value: Typed, to: Type, width: u32, signed: bool, span: Span) -> Typed {
        match value.into_scalar() {
            Some(scalar) => Typed::scalar(to, fold::resize(scalar, width, signed), span),
            None => Typed::error(span),
        }
    }

    fn cast_bool(&mut self, value: Typed, to: Type, span: Span) -> Typed {
        if let Some(number) = value.as_integer().filter(|_| value.ty == Type::Integer) {
            return match number.to_bits(1, false) {
                Some(bit) => Typed::scalar(to, fold::constant(bit, 1), span),
                None => {
                    self.error(span, format!("{number} cannot be cast to `bool`"), "only 0 and 1 can be");
                    Typed::error(span)
                }
            };
        }
        Typed { ty: to, ..value }
    }

    fn impossible_cast(&mut self, from: Type, to: Type, span: Span) -> Typed {
        let a = self.types.display(from);
        let b = self.types.display(to);
        let what = Diagnostic::new(span, format!("`{a}` cannot be cast to `{b}`"), "no such cast");
        self.report(match (from, to) {
            (Type::Bit(width), Type::Int(_)) => what.with_help(format!("cast to `int<{width}>` first, then to `{b}`")),
            (Type::Int(width), Type::Bit(_)) => what.with_help(format!("cast to `bit<{width}>` first, then to `{b}`")),
            (Type::Bool, Type::Bit(_)) => what.with_help(format!("cast to `bit<1>` first, then to `{b}`")),
            (Type::Bit(_) | Type::Int(_), Type::Bool) => what.with_help("compare the value: `value != 0`"),
            _ => what,
        });
        Typed::error(span)
    }
}

fn bounds(width: u32, signed: bool) -> (Integer, Integer) {
    let bits = if signed { width - 1 } else { width };
    let greatest = if bits == 0 { 0 } else { super::integer::mask(bits) };
    let least = if signed { Integer::new(true, 1 << (width - 1)) } else { Integer::new(false, 0) };
    (least, Integer::new(false, greatest))
}

/// Returns the rank of a type for [`Analyser::same_type`], which converts the operand whose type has the lower rank.
fn rank(ty: Type) -> u32 {
    match ty {
        Type::Integer | Type::List => 0,
        Type::Enum(_) => 1,
        _ => 2,
    }
}

/// Formats a number with its noun in the singular or plural: `1 field`, `2 fields`.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
