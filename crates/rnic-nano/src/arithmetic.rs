//! Arithmetic of the P4 operators on numbers of 1 to 128 bits. The compiler uses it to compute constants. The virtual
//! machine uses it for operands of more than 64 bits and for operators that have no instruction of their own.

use crate::hir::{BinaryOp, UnaryOp};

/// Returns a number whose lowest `width` bits are ones; `width` is 0 to 128.
pub(crate) fn ones(width: u32) -> u128 {
    if width == 0 { 0 } else { u128::MAX >> (128 - width) }
}

/// Interprets the lowest `width` bits of a value as a two's-complement number.
fn signed(value: u128, width: u32) -> i128 {
    let unused = 128 - width;
    ((value << unused) as i128) >> unused
}

/// Sign-extends a two's-complement number of `from` bits to `to` bits.
pub(crate) fn sign_extend(value: u128, from: u32, to: u32) -> u128 {
    signed(value, from) as u128 & ones(to)
}

/// Computes a unary operator on an operand of `width` bits; the result also has `width` bits.
pub(crate) fn unary(op: UnaryOp, width: u32, a: u128) -> u128 {
    let value = match op {
        UnaryOp::Negate => a.wrapping_neg(),
        UnaryOp::Not => !a,
    };
    value & ones(width)
}

/// Computes a binary operator. The first operand has `width` bits and the second operand has `second` bits.
pub(crate) fn binary(op: BinaryOp, width: u32, second: u32, a: u128, b: u128) -> u128 {
    let saturated = |exact: i128| exact.clamp(-((ones(width - 1)) as i128) - 1, ones(width - 1) as i128) as u128;
    let shift = u32::try_from(b).unwrap_or(u32::MAX);
    let value = match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::SatAdd => a.saturating_add(b).min(ones(width)),
        BinaryOp::SatSub => a.saturating_sub(b),
        BinaryOp::SatAddSigned => saturated(signed(a, width).saturating_add(signed(b, width))),
        BinaryOp::SatSubSigned => saturated(signed(a, width).saturating_sub(signed(b, width))),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Shl => a.checked_shl(shift).unwrap_or(0),
        BinaryOp::Shr => a.checked_shr(shift).unwrap_or(0),
        BinaryOp::ShrSigned => (signed(a, width) >> shift.min(127)) as u128,
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Concat => return a.checked_shl(second).unwrap_or(0) | b,
        BinaryOp::Eq => u128::from(a == b),
        BinaryOp::Ne => u128::from(a != b),
        BinaryOp::Lt => u128::from(a < b),
        BinaryOp::Le => u128::from(a <= b),
        BinaryOp::LtSigned => u128::from(signed(a, width) < signed(b, width)),
        BinaryOp::LeSigned => u128::from(signed(a, width) <= signed(b, width)),
    };
    value & ones(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_wraps_or_saturates() {
        let of = |op, a, b| binary(op, 4, 4, a, b);
        assert_eq!((of(BinaryOp::Add, 15, 3), of(BinaryOp::SatAdd, 15, 3)), (2, 15));
        assert_eq!((of(BinaryOp::Sub, 2, 3), of(BinaryOp::SatSub, 2, 3)), (15, 0));
        assert_eq!(of(BinaryOp::Mul, 7, 7), 1); // 49 = 3 * 16 + 1
        // With four bits in two's complement, 7 + 1 saturates at 7, -8 - 1 saturates at -8, and -1 + 1 is 0.
        assert_eq!((of(BinaryOp::SatAddSigned, 7, 1), of(BinaryOp::SatSubSigned, 8, 1)), (7, 8));
        assert_eq!(of(BinaryOp::SatAddSigned, 15, 1), 0);
        assert_eq!(binary(BinaryOp::SatAdd, 128, 128, u128::MAX, 1), u128::MAX);
        assert_eq!(binary(BinaryOp::SatSubSigned, 128, 128, 1 << 127, 1), 1 << 127);
        assert_eq!((unary(UnaryOp::Negate, 4, 1), unary(UnaryOp::Not, 1, 1)), (15, 0));
    }

    #[test]
    fn shifts_by_the_width_or_more_give_zero_or_sign_bits() {
        let of = |op, a, b| binary(op, 8, 32, a, b);
        assert_eq!((of(BinaryOp::Shl, 0x81, 1), of(BinaryOp::Shl, 0x81, 8), of(BinaryOp::Shl, 1, 1 << 31)), (2, 0, 0));
        assert_eq!((of(BinaryOp::Shr, 0x81, 1), of(BinaryOp::Shr, 0x81, 8), of(BinaryOp::Shr, 1, 200)), (0x40, 0, 0));
        assert_eq!((of(BinaryOp::ShrSigned, 0x81, 1), of(BinaryOp::ShrSigned, 0x81, 300)), (0xc0, 0xff));
        assert_eq!(binary(BinaryOp::Shl, 128, 128, 1, u128::MAX), 0);
        assert_eq!(binary(BinaryOp::Concat, 4, 12, 0xa, 0xbcd), 0xabcd);
        assert_eq!(sign_extend(0x8, 4, 9), 0x1f8);
        assert_eq!(
            (of(BinaryOp::Lt, 0xff, 1), of(BinaryOp::LtSigned, 0xff, 1), of(BinaryOp::LeSigned, 1, 1)),
            (0, 1, 1)
        );
    }
}
