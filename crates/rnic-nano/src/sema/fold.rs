//! Constant folding: functions that build expressions of the compiler's intermediate representation (HIR). If all
//! operands are constants, the result is the computed constant.

use super::integer::mask;
use crate::hir::{BinaryOp, Expr, ExprKind, SlotId, UnaryOp};

/// Builds a constant of `width` bits. Bits of the value above the width are dropped.
pub(super) fn constant(value: u128, width: u32) -> Expr {
    Expr { width, kind: ExprKind::Const(value & mask(width)) }
}

pub(super) fn slot(slot: u32, width: u32) -> Expr {
    Expr { width, kind: ExprKind::Slot(SlotId(slot)) }
}

/// Returns the value of an expression that is a constant; `None` for any other expression.
pub(super) fn known(expr: &Expr) -> Option<u128> {
    match expr.kind {
        ExprKind::Const(value) => Some(value),
        _ => None,
    }
}

pub(super) fn unary(op: UnaryOp, a: Expr) -> Expr {
    let width = a.width;
    match known(&a) {
        Some(value) => constant(if op == UnaryOp::Negate { value.wrapping_neg() } else { !value }, width),
        None => Expr { width, kind: ExprKind::Unary(op, Box::new(a)) },
    }
}

pub(super) fn not(a: Expr) -> Expr {
    unary(UnaryOp::Not, a)
}

pub(super) fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    use BinaryOp::{Concat, Eq, Le, LeSigned, Lt, LtSigned, Ne};
    let width = match op {
        Eq | Ne | Lt | Le | LtSigned | LeSigned => 1,
        Concat => a.width + b.width,
        _ => a.width,
    };
    match (known(&a), known(&b)) {
        (Some(x), Some(y)) => constant(evaluate(op, x, y, a.width, b.width), width),
        _ => Expr { width, kind: ExprKind::Binary(op, Box::new(a), Box::new(b)) },
    }
}

/// Builds `a && b`. The operands have no side effects, so their order does not matter.
pub(super) fn and(a: Expr, b: Expr) -> Expr {
    match (known(&a), known(&b)) {
        (Some(1), _) => b,
        (_, Some(1)) => a,
        _ => binary(BinaryOp::And, a, b),
    }
}

/// Builds a slice: the bits `low` to `low + width - 1` of an expression.
pub(super) fn slice(of: Expr, low: u32, width: u32) -> Expr {
    match known(&of) {
        _ if low == 0 && width == of.width => of,
        Some(value) => constant(value >> low, width),
        None => Expr { width, kind: ExprKind::Slice { of: Box::new(of), low } },
    }
}

/// Converts an expression to another width: truncates or extends it. A signed expression is extended with copies of its
/// sign bit.
pub(super) fn resize(a: Expr, width: u32, signed: bool) -> Expr {
    if width <= a.width {
        return slice(a, 0, width);
    }
    match known(&a) {
        Some(value) if signed => constant(sign_extended(value, a.width), width),
        Some(value) => constant(value, width),
        None if signed => Expr { width, kind: ExprKind::SignExtend(Box::new(a)) },
        None => Expr { width, kind: ExprKind::ZeroExtend(Box::new(a)) },
    }
}

pub(super) fn conditional(condition: Expr, a: Expr, b: Expr) -> Expr {
    match known(&condition) {
        Some(0) => b,
        Some(_) => a,
        None => Expr { width: a.width, kind: ExprKind::Conditional(Box::new(condition), Box::new(a), Box::new(b)) },
    }
}

/// Whether an expression reads at least one slot (scalar variable) whose number is in the range.
pub(super) fn reads(expr: &Expr, slots: &std::ops::Range<u32>) -> bool {
    match &expr.kind {
        ExprKind::Const(_) => false,
        ExprKind::Slot(slot) => slots.contains(&slot.0),
        ExprKind::Unary(_, a) | ExprKind::ZeroExtend(a) | ExprKind::SignExtend(a) => reads(a, slots),
        ExprKind::Slice { of, .. } => reads(of, slots),
        ExprKind::Binary(_, a, b) => reads(a, slots) || reads(b, slots),
        ExprKind::Conditional(a, b, c) => reads(a, slots) || reads(b, slots) || reads(c, slots),
    }
}

fn sign_extended(value: u128, width: u32) -> u128 {
    let unused = 128 - width;
    (((value << unused) as i128) >> unused) as u128
}

/// Computes an operator on constants of `width` and `width_b` bits. The caller truncates the result to the width of the
/// operator's result.
fn evaluate(op: BinaryOp, a: u128, b: u128, width: u32, width_b: u32) -> u128 {
    let signed_a = sign_extended(a, width) as i128;
    let signed_b = sign_extended(b, width_b) as i128;
    // Shift counts of more than 32 bits are clamped. Every count of 128 or more has the same effect.
    let count = b.min(u128::from(u32::MAX)) as u32;
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::SatAdd => a.saturating_add(b).min(mask(width)),
        BinaryOp::SatSub => a.saturating_sub(b),
        BinaryOp::SatAddSigned => clamp(signed_a.saturating_add(signed_b), width),
        BinaryOp::SatSubSigned => clamp(signed_a.saturating_sub(signed_b), width),
        BinaryOp::Shl => a.checked_shl(count).unwrap_or(0),
        BinaryOp::Shr => a.checked_shr(count).unwrap_or(0),
        BinaryOp::ShrSigned => (signed_a >> count.min(127)) as u128,
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Concat => a << width_b | b,
        BinaryOp::Eq => u128::from(a == b),
        BinaryOp::Ne => u128::from(a != b),
        BinaryOp::Lt => u128::from(a < b),
        BinaryOp::Le => u128::from(a <= b),
        BinaryOp::LtSigned => u128::from(signed_a < signed_b),
        BinaryOp::LeSigned => u128::from(signed_a <= signed_b),
    }
}

fn clamp(value: i128, width: u32) -> u128 {
    let greatest = (mask(width) >> 1) as i128;
    value.clamp(-greatest - 1, greatest) as u128
}
