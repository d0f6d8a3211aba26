//! Part of the semantic analysis of P4: checks the operand types of operators, and translates operators to the
//! intermediate representation (HIR).

use super::integer::Integer;
use super::typed::{Typed, Value};
use super::types::Type;
use super::{Analyser, fold};
use crate::ast::{BinaryOp, UnaryOp};
use crate::diagnostic::Diagnostic;
use crate::hir::{self, Expr};
use crate::source::Span;
use std::cmp::Ordering;

impl Analyser<'_> {
    /// Translates a unary operator.
    pub(super) fn unary(&mut self, op: UnaryOp, value: Typed, span: Span) -> Typed {
        let ty = value.ty;
        let (name, lowered) = match (op, ty) {
            (_, Type::Error) => return Typed::error(span),
            (UnaryOp::Negate, Type::Integer) => {
                return value.as_integer().map_or(Typed::error(span), |number| Typed::integer(number.negate(), span));
            }
            (UnaryOp::Plus, Type::Integer | Type::Bit(_) | Type::Int(_)) => return Typed { span, ..value },
            (UnaryOp::Negate, Type::Bit(_) | Type::Int(_)) => ("-", Some(hir::UnaryOp::Negate)),
            (UnaryOp::BitNot, Type::Bit(_) | Type::Int(_)) => ("~", Some(hir::UnaryOp::Not)),
            (UnaryOp::Not, Type::Bool) => ("!", Some(hir::UnaryOp::Not)),
            (UnaryOp::Negate, _) => ("-", None),
            (UnaryOp::BitNot, _) => ("~", None),
            (UnaryOp::Not, _) => ("!", None),
            (UnaryOp::Plus, _) => ("+", None),
        };
        match (lowered, value.into_scalar()) {
            (Some(op), Some(scalar)) => Typed::scalar(ty, fold::unary(op, scalar), span),
            _ => {
                let message = format!("`{name}` does not work on `{}`", self.types.display(ty));
                let what = Diagnostic::new(span, message, "wrong type");
                self.report(match (op, ty) {
                    (UnaryOp::Not, Type::Bit(_) | Type::Int(_)) => {
                        what.with_help("`~` inverts all bits; `value == 0` is a `bool`")
                    }
                    (UnaryOp::BitNot, Type::Bool) => what.with_help("`!` negates a `bool`"),
                    (UnaryOp::BitNot, Type::Integer) => {
                        what.with_help("give the number a width: `32w1` or `(bit<32>) value`")
                    }
                    _ => what,
                });
                Typed::error(span)
            }
        }
    }

    /// Translates a binary operator that always evaluates both operands.
    pub(super) fn binary(&mut self, op: BinaryOp, a: Typed, b: Typed, span: Span) -> Typed {
        if a.is_error() || b.is_error() {
            return Typed::error(span);
        }
        match op {
            BinaryOp::Shl | BinaryOp::Shr => self.shift(op, a, b, span),
            BinaryOp::Concat => self.concat(a, b, span),
            BinaryOp::Eq | BinaryOp::Ne => self.equality(op, a, b, span),
            _ => self.arithmetic(op, a, b, span),
        }
    }

    fn arithmetic(&mut self, op: BinaryOp, a: Typed, b: Typed, span: Span) -> Typed {
        let Some((a, b)) = self.same_type(a, b, span) else { return Typed::error(span) };
        let ty = a.ty;
        if let (Some(x), Some(y), Type::Integer) = (a.as_integer(), b.as_integer(), ty) {
            return self.integers(op, x, y, span);
        }
        // From this point on, a member of a serializable enum counts as a number of the enum's underlying type.
        let ty = self.represented_type(ty);
        let signed = matches!(ty, Type::Int(_));
        if !signed && !matches!(ty, Type::Bit(_)) {
            return self.does_not_work(op, ty, span);
        }
        let divisor = b.clone();
        let (Some(x), Some(y)) = (a.into_scalar(), b.into_scalar()) else { return Typed::error(span) };
        use hir::BinaryOp as Op;
        let compare = |op, x, y| Typed::scalar(Type::Bool, fold::binary(op, x, y), span);
        let (less, less_equal) = if signed { (Op::LtSigned, Op::LeSigned) } else { (Op::Lt, Op::Le) };
        let op = match op {
            BinaryOp::Lt => return compare(less, x, y),
            BinaryOp::Le => return compare(less_equal, x, y),
            BinaryOp::Gt => return compare(less, y, x),
            BinaryOp::Ge => return compare(less_equal, y, x),
            BinaryOp::Div | BinaryOp::Mod => return self.division(op, ty, (x, y), &divisor, span),
            BinaryOp::Add => Op::Add,
            BinaryOp::Sub => Op::Sub,
            BinaryOp::Mul => Op::Mul,
            BinaryOp::SatAdd if signed => Op::SatAddSigned,
            BinaryOp::SatAdd => Op::SatAdd,
            BinaryOp::SatSub if signed => Op::SatSubSigned,
            BinaryOp::SatSub => Op::SatSub,
            BinaryOp::And => Op::And,
            BinaryOp::Or => Op::Or,
            _ => Op::Xor,
        };
        Typed::scalar(ty, fold::binary(op, x, y), span)
    }

    /// Returns the underlying type of a serializable enum. Returns any other type unchanged.
    fn represented_type(&self, ty: Type) -> Type {
        match ty {
            Type::Enum(number) => self.types.enums[number as usize].representation.unwrap_or(ty),
            _ => ty,
        }
    }

    fn does_not_work(&mut self, op: BinaryOp, ty: Type, span: Span) -> Typed {
        let message = format!("`{}` does not work on `{}`", symbol(op), self.types.display(ty));
        let what = Diagnostic::new(span, message, "wrong type");
        self.report(match (op, ty) {
            (BinaryOp::And, Type::Bool) => what.with_help("write `&&`"),
            (BinaryOp::Or, Type::Bool) => what.with_help("write `||`"),
            (BinaryOp::Xor, Type::Bool) => what.with_help("write `!=`"),
            (_, Type::Integer) => what.with_help("give one operand a width: `32w1` or `(bit<32>) value`"),
            _ => what,
        });
        Typed::error(span)
    }

    /// Computes a binary operator on two compile-time integers of type `int`.
    fn integers(&mut self, op: BinaryOp, x: Integer, y: Integer, span: Span) -> Typed {
        let truth = |value: bool| Typed::scalar(Type::Bool, fold::constant(u128::from(value), 1), span);
        let order = x.cmp(&y);
        let result = match op {
            BinaryOp::Add => x.add(y),
            BinaryOp::Sub => x.sub(y),
            BinaryOp::Mul => x.mul(y),
            BinaryOp::Div | BinaryOp::Mod => match self.divisible(x, y, span) {
                true if op == BinaryOp::Div => x.div(y),
                true => x.rem(y),
                false => return Typed::error(span),
            },
            BinaryOp::Eq => return truth(order == Ordering::Equal),
            BinaryOp::Ne => return truth(order != Ordering::Equal),
            BinaryOp::Lt => return truth(order == Ordering::Less),
            BinaryOp::Le => return truth(order != Ordering::Greater),
            BinaryOp::Gt => return truth(order == Ordering::Greater),
            BinaryOp::Ge => return truth(order != Ordering::Less),
            _ => return self.does_not_work(op, Type::Integer, span),
        };
        match result {
            Some(number) => Typed::integer(number, span),
            None => self.too_large(span),
        }
    }

    fn too_large(&mut self, span: Span) -> Typed {
        self.error(span, "the number needs more than 128 bits", "too large");
        Typed::error(span)
    }

    /// Whether the division of two compile-time integers has a result. Reports an error if it has none.
    fn divisible(&mut self, x: Integer, y: Integer, span: Span) -> bool {
        if y.is_zero() {
            self.error(span, "division by zero", "the divisor is 0");
        } else if x.is_negative() || y.is_negative() {
            self.error(span, "division of negative numbers", "an operand is negative");
        } else {
            return true;
        }
        false
    }

    /// Translates a division or remainder by a constant. If the dividend is not a constant, the divisor must be a power
    /// of two.
    fn division(&mut self, op: BinaryOp, ty: Type, (x, y): (Expr, Expr), divisor: &Typed, span: Span) -> Typed {
        let Type::Bit(width) = ty else {
            let what = format!("`{}` on `{}`", symbol(op), self.types.display(ty));
            self.unsupported(span, &what, Some("divide values of type `bit<W>` or `int`"));
            return Typed::error(span);
        };
        let advice = "use a shift, or multiply by a reciprocal from a table";
        let Some(by) = fold::known(&y) else {
            self.unsupported(divisor.span, "division by a value that is not a compile-time constant", Some(advice));
            return Typed::error(span);
        };
        if by == 0 {
            self.error(span, "division by zero", "the divisor is 0");
            return Typed::error(span);
        }
        let result = match (fold::known(&x), op) {
            (Some(x), BinaryOp::Div) => fold::constant(x / by, width),
            (Some(x), _) => fold::constant(x % by, width),
            (None, BinaryOp::Div) if by.is_power_of_two() => {
                fold::binary(hir::BinaryOp::Shr, x, fold::constant(u128::from(by.trailing_zeros()), 8))
            }
            (None, _) if by.is_power_of_two() => fold::binary(hir::BinaryOp::And, x, fold::constant(by - 1, width)),
            _ => {
                self.unsupported(
                    span,
                    "division of a value that is not a compile-time constant, unless the divisor is a power of two",
                    Some(advice),
                );
                return Typed::error(span);
            }
        };
        Typed::scalar(ty, result, span)
    }

    fn shift(&mut self, op: BinaryOp, a: Typed, b: Typed, span: Span) -> Typed {
        let lvalues = match b.as_integer() {
            Some(number) if number.is_negative() => {
                self.error(b.span, "a shift count cannot be negative", "negative");
                return Typed::error(span);
            }
            // A shift by 2^32 bits or more has the same effect as a shift by 2^32 - 1 bits.
            Some(number) => fold::constant(u128::from(number.to_u32().unwrap_or(u32::MAX)), 32),
            None if matches!(b.ty, Type::Bit(_)) => match b.clone().into_scalar() {
                Some(scalar) => scalar,
                None => return Typed::error(span),
            },
            None => {
                let message = format!("a shift count cannot be of type `{}`", self.types.display(b.ty));
                let what = Diagnostic::new(b.span, message, "expected `bit` or a constant");
                self.report(what.with_help("cast the shift count to `bit` first"));
                return Typed::error(span);
            }
        };
        let ty = self.represented_type(a.ty);
        let lowered = match (op, ty) {
            (_, Type::Integer) => return self.shift_integer(op, &a, &lvalues, span),
            (BinaryOp::Shl, Type::Bit(_) | Type::Int(_)) => hir::BinaryOp::Shl,
            (_, Type::Bit(_)) => hir::BinaryOp::Shr,
            (_, Type::Int(_)) => hir::BinaryOp::ShrSigned,
            _ => return self.does_not_work(op, ty, span),
        };
        match a.into_scalar() {
            Some(scalar) => Typed::scalar(ty, fold::binary(lowered, scalar, lvalues), span),
            None => Typed::error(span),
        }
    }

    fn shift_integer(&mut self, op: BinaryOp, a: &Typed, lvalues: &Expr, span: Span) -> Typed {
        let (Some(number), Some(lvalues)) = (a.as_integer(), fold::known(lvalues)) else {
            let message = "an `int` without a width can only be shifted by a compile-time constant";
            let what = Diagnostic::new(a.span, message, "no width");
            self.report(what.with_help("give the number a width: `32w1`"));
            return Typed::error(span);
        };
        match op {
            BinaryOp::Shl => match number.shl(lvalues as u32) {
                Some(number) => Typed::integer(number, span),
                None => self.too_large(span),
            },
            _ => Typed::integer(number.shr(lvalues as u32), span),
        }
    }

    fn concat(&mut self, a: Typed, b: Typed, span: Span) -> Typed {
        for value in [&a, &b] {
            if !matches!(value.ty, Type::Bit(_) | Type::Int(_)) {
                let message = format!("`++` does not work on `{}`", self.types.display(value.ty));
                let what = Diagnostic::new(value.span, message, "expected `bit` or `int` with a width");
                self.report(match value.ty {
                    Type::Integer => what.with_help("give the number a width: `8w1`"),
                    _ => what,
                });
                return Typed::error(span);
            }
        }
        let signed = matches!(a.ty, Type::Int(_));
        let (Some(high), Some(low)) = (a.into_scalar(), b.into_scalar()) else { return Typed::error(span) };
        let width = high.width + low.width;
        if width > 128 {
            self.error(span, format!("the width {width} is out of range"), "1 to 128 bits");
            return Typed::error(span);
        }
        let ty = if signed { Type::Int(width) } else { Type::Bit(width) };
        Typed::scalar(ty, fold::binary(hir::BinaryOp::Concat, high, low), span)
    }

    fn equality(&mut self, op: BinaryOp, a: Typed, b: Typed, span: Span) -> Typed {
        let Some((a, b)) = self.same_type(a, b, span) else { return Typed::error(span) };
        let ty = a.ty;
        let equal = match (a.value, b.value) {
            (Value::Integer(x), Value::Integer(y)) => fold::constant(u128::from(x == y), 1),
            (Value::Scalars(x), Value::Scalars(y)) => {
                if let ([_], [_], BinaryOp::Ne) = (&x[..], &y[..], op)
                    && self.types.scalar(ty).is_some()
                {
                    let x = x.into_iter().next();
                    let y = y.into_iter().next();
                    let (Some(x), Some(y)) = (x, y) else { return Typed::error(span) };
                    return Typed::scalar(Type::Bool, fold::binary(hir::BinaryOp::Ne, x, y), span);
                }
                self.spend(3 * x.len() as u32, span);
                self.all_equal(ty, &x, &y)
            }
            _ => {
                let what = Diagnostic::new(
                    span,
                    format!("`{}` does not work on `{}`", symbol(op), self.types.display(ty)),
                    "wrong type",
                );
                self.report(what.with_help("cast one operand to a struct"));
                return Typed::error(span);
            }
        };
        let result = if op == BinaryOp::Eq { equal } else { fold::not(equal) };
        Typed::scalar(Type::Bool, result, span)
    }

    /// Builds a comparison of two values for equality. Two headers are equal if both are invalid, or if both are valid
    /// and all their fields are equal. Two structs are equal if all their fields are equal.
    fn all_equal(&self, ty: Type, x: &[Expr], y: &[Expr]) -> Expr {
        let Some(info) = self.types.info(ty) else {
            return fold::binary(hir::BinaryOp::Eq, x[0].clone(), y[0].clone());
        };
        let mut equal = Vec::new();
        for field in &info.fields {
            let range = field.offset as usize..(field.offset + self.types.size(field.ty)) as usize;
            if !range.is_empty() {
                equal.push(self.all_equal(field.ty, &x[range.clone()], &y[range]));
            }
        }
        let fields = conjunction(equal);
        if let Type::Header(_) = ty {
            let same = fold::binary(hir::BinaryOp::Eq, x[0].clone(), y[0].clone());
            // Two headers are equal if their validity bits are equal and, in addition, the headers are invalid or their
            // fields are equal.
            let differ = fold::and(x[0].clone(), fold::not(fields));
            return fold::and(same, fold::not(differ));
        }
        fields
    }
}

/// Combines conditions with `&&` in a balanced tree, so that the expression is not nested too deeply.
fn conjunction(mut conditions: Vec<Expr>) -> Expr {
    while conditions.len() > 1 {
        let mut joined = Vec::with_capacity(conditions.len().div_ceil(2));
        let mut rest = conditions.into_iter();
        while let Some(a) = rest.next() {
            joined.push(match rest.next() {
                Some(b) => fold::and(a, b),
                None => a,
            });
        }
        conditions = joined;
    }
    conditions.pop().unwrap_or_else(|| fold::constant(1, 1))
}

/// Returns the symbol of an operator in P4 syntax.
fn symbol(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::SatAdd => "|+|",
        BinaryOp::SatSub => "|-|",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Mod => "%",
        BinaryOp::Shl => "<<",
        BinaryOp::Shr => ">>",
        BinaryOp::And => "&",
        BinaryOp::Or => "|",
        BinaryOp::Xor => "^",
        BinaryOp::Concat => "++",
        BinaryOp::Eq => "==",
        BinaryOp::Ne => "!=",
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
        BinaryOp::LogicalAnd => "&&",
        BinaryOp::LogicalOr => "||",
    }
}
