//! Values with their types.

use super::fold;
use super::integer::Integer;
use super::types::Type;
use crate::ast::Ident;
use crate::hir::Expr;
use crate::source::Span;

/// A value, as an expression gives it.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub(super) ty: Type,
    pub(super) value: Value,
    pub(super) span: Span,
}

/// What a value is made of.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Of [`Type::Error`] and [`Type::Void`].
    Nothing,
    /// Of [`Type::Integer`].
    Integer(Integer),
    /// Of everything else: as many as its type has slots, in their order.
    Scalars(Vec<Expr>),
    /// Of [`Type::List`].
    List(Vec<(Option<Ident>, Typed)>),
}

impl Typed {
    /// Of something that has been reported.
    pub(super) fn error(span: Span) -> Typed {
        Typed { ty: Type::Error, value: Value::Nothing, span }
    }

    pub(super) fn integer(value: Integer, span: Span) -> Typed {
        Typed { ty: Type::Integer, value: Value::Integer(value), span }
    }

    pub(super) fn scalar(ty: Type, expr: Expr, span: Span) -> Typed {
        Typed { ty, value: Value::Scalars(vec![expr]), span }
    }

    pub(super) fn is_error(&self) -> bool {
        self.ty == Type::Error
    }

    /// Its only scalar, for types that have just one.
    pub(super) fn into_scalar(self) -> Option<Expr> {
        match self.value {
            Value::Scalars(mut scalars) if scalars.len() == 1 => scalars.pop(),
            _ => None,
        }
    }

    /// Whether it is known when the program is compiled.
    pub(super) fn is_known(&self) -> bool {
        match &self.value {
            Value::Nothing => self.is_error(),
            Value::Integer(_) => true,
            Value::Scalars(scalars) => scalars.iter().all(|scalar| fold::known(scalar).is_some()),
            Value::List(items) => items.iter().all(|(_, item)| item.is_known()),
        }
    }

    /// As a number, if it is a known one.
    pub(super) fn as_integer(&self) -> Option<Integer> {
        match (&self.value, self.ty) {
            (Value::Integer(value), _) => Some(*value),
            (Value::Scalars(scalars), Type::Bit(width)) => {
                fold::known(scalars.first()?).map(|bits| Integer::from_bits(bits, width, false))
            }
            (Value::Scalars(scalars), Type::Int(width)) => {
                fold::known(scalars.first()?).map(|bits| Integer::from_bits(bits, width, true))
            }
            _ => None,
        }
    }

    /// A known number or truth value in decimal digits.
    pub(super) fn into_scalar_text(self) -> Option<String> {
        let number = self.as_integer().map(|number| number.to_string());
        number.or_else(|| fold::known(&self.into_scalar()?).map(|bits| bits.to_string()))
    }
}
