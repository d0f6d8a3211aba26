//! Part of the semantic analysis of P4: values of expressions with their types.

use super::fold;
use super::integer::Integer;
use super::types::Type;
use crate::ast::Ident;
use crate::hir::Expr;
use crate::source::Span;

/// The value of an expression, with its type.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub(super) ty: Type,
    pub(super) value: Value,
    pub(super) span: Span,
}

/// The representation of a value during semantic analysis.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// No value, for [`Type::Error`] and [`Type::Void`].
    Nothing,
    /// The value of an expression of type [`Type::Integer`].
    Integer(Integer),
    /// The value of any other type: one scalar expression for each slot (scalar variable) that the type occupies.
    Scalars(Vec<Expr>),
    /// The items of a [`Type::List`], each with its field name if the source text gives one.
    List(Vec<(Option<Ident>, Typed)>),
}

impl Typed {
    /// Creates the value that stands for an expression with an error that has already been reported.
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

    /// Returns the scalar of a value that consists of a single scalar; `None` for any other value.
    pub(super) fn into_scalar(self) -> Option<Expr> {
        match self.value {
            Value::Scalars(mut scalars) if scalars.len() == 1 => scalars.pop(),
            _ => None,
        }
    }

    /// Whether the value is a compile-time constant.
    pub(super) fn is_known(&self) -> bool {
        match &self.value {
            Value::Nothing => self.is_error(),
            Value::Integer(_) => true,
            Value::Scalars(scalars) => scalars.iter().all(|scalar| fold::known(scalar).is_some()),
            Value::List(items) => items.iter().all(|(_, item)| item.is_known()),
        }
    }

    /// Returns the value as an integer if it is a constant number; else `None`.
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

    /// Formats a constant number or a constant `bool` in decimal digits, for error messages.
    pub(super) fn into_scalar_text(self) -> Option<String> {
        let number = self.as_integer().map(|number| number.to_string());
        number.or_else(|| fold::known(&self.into_scalar()?).map(|bits| bits.to_string()))
    }
}
