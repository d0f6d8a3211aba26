//! Compile-time integers of P4's type `int`, with a sign and a magnitude of up to 128 bits.

use std::cmp::Ordering;
use std::fmt;

/// An integer from -(2^128 - 1) to 2^128 - 1. The sign of zero is never negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Integer {
    negative: bool,
    magnitude: u128,
}

impl Integer {
    pub(super) fn new(negative: bool, magnitude: u128) -> Integer {
        Integer { negative: negative && magnitude != 0, magnitude }
    }

    /// Creates the integer that `width` bits represent, as an unsigned or a two's-complement number.
    pub(super) fn from_bits(bits: u128, width: u32, signed: bool) -> Integer {
        if signed && bits >> (width - 1) & 1 == 1 {
            Integer::new(true, (!bits & mask(width)) + 1)
        } else {
            Integer::new(false, bits)
        }
    }

    /// Returns the representation of the integer in `width` bits; `None` if it does not fit.
    pub(super) fn to_bits(self, width: u32, signed: bool) -> Option<u128> {
        let fits = match (signed, self.negative) {
            (false, negative) => !negative && self.magnitude <= mask(width),
            (true, false) => self.magnitude <= mask(width) >> 1,
            (true, true) => self.magnitude <= 1 << (width - 1),
        };
        fits.then(|| self.wrap(width))
    }

    /// Returns the lowest `width` bits of the integer in two's complement.
    pub(super) fn wrap(self, width: u32) -> u128 {
        (if self.negative { self.magnitude.wrapping_neg() } else { self.magnitude }) & mask(width)
    }

    /// Returns the integer as a `u32`; `None` if it does not fit.
    pub(super) fn to_u32(self) -> Option<u32> {
        self.to_bits(32, false).map(|bits| bits as u32)
    }

    pub(super) fn is_negative(self) -> bool {
        self.negative
    }

    pub(super) fn is_zero(self) -> bool {
        self.magnitude == 0
    }

    pub(super) fn negate(self) -> Integer {
        Integer::new(!self.negative, self.magnitude)
    }

    pub(super) fn add(self, other: Integer) -> Option<Integer> {
        if self.negative == other.negative {
            return Some(Integer::new(self.negative, self.magnitude.checked_add(other.magnitude)?));
        }
        let larger = if self.magnitude >= other.magnitude { self } else { other };
        Some(Integer::new(larger.negative, self.magnitude.abs_diff(other.magnitude)))
    }

    pub(super) fn sub(self, other: Integer) -> Option<Integer> {
        self.add(other.negate())
    }

    pub(super) fn mul(self, other: Integer) -> Option<Integer> {
        Some(Integer::new(self.negative != other.negative, self.magnitude.checked_mul(other.magnitude)?))
    }

    /// Divides two integers, which must not be negative. Returns `None` if the divisor is 0.
    pub(super) fn div(self, other: Integer) -> Option<Integer> {
        Some(Integer::new(false, self.magnitude.checked_div(other.magnitude)?))
    }

    /// Returns the remainder of two integers, which must not be negative. Returns `None` if the divisor is 0.
    pub(super) fn rem(self, other: Integer) -> Option<Integer> {
        Some(Integer::new(false, self.magnitude.checked_rem(other.magnitude)?))
    }

    pub(super) fn shl(self, count: u32) -> Option<Integer> {
        let shifted = self.magnitude.checked_shl(count).unwrap_or(0);
        let whole = self.magnitude == 0 || (count < 128 && shifted >> count == self.magnitude);
        whole.then(|| Integer::new(self.negative, shifted))
    }

    /// Shifts the integer to the right: divides it by a power of two and rounds down.
    pub(super) fn shr(self, count: u32) -> Integer {
        let shifted = self.magnitude.checked_shr(count).unwrap_or(0);
        let lost = self.magnitude != 0 && self.magnitude.trailing_zeros() < count;
        Integer::new(self.negative, shifted + u128::from(self.negative && lost))
    }
}

impl PartialOrd for Integer {
    fn partial_cmp(&self, other: &Integer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Integer {
    fn cmp(&self, other: &Integer) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.magnitude.cmp(&other.magnitude),
            (true, true) => other.magnitude.cmp(&self.magnitude),
            (negative, _) => {
                if negative {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.negative { "-" } else { "" }, self.magnitude)
    }
}

/// Returns a mask of the low `width` bits; `width` is 1 to 128.
pub(super) fn mask(width: u32) -> u128 {
    u128::MAX >> (128 - width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn from_i128(value: i128) -> Integer {
        Integer::new(value < 0, value.unsigned_abs())
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_i128(a in -(1i128 << 62)..1 << 62, b in -(1i128 << 62)..1 << 62, count in 0u32..64) {
            let x = from_i128(a);
            let y = from_i128(b);
            prop_assert_eq!(x.add(y), Some(from_i128(a + b)));
            prop_assert_eq!(x.sub(y), Some(from_i128(a - b)));
            prop_assert_eq!(x.mul(y), Some(from_i128(a * b)));
            prop_assert_eq!(x.shl(count), Some(from_i128(a << count)));
            prop_assert_eq!(x.shr(count), from_i128(a >> count));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(x.wrap(64), u128::from(a as u64));
            prop_assert_eq!(Integer::from_bits(x.wrap(64), 64, true), x);
            prop_assert_eq!(x.to_bits(40, true).is_some(), (-(1i128 << 39)..1 << 39).contains(&a));
            prop_assert_eq!(x.to_string(), a.to_string());
        }
    }

    #[test]
    fn overflow_beyond_128_bits_is_none() {
        let greatest = Integer::new(false, u128::MAX);
        assert_eq!(greatest.add(Integer::new(false, 1)), None);
        assert_eq!(greatest.negate().sub(Integer::new(false, 1)), None);
        assert_eq!(greatest.mul(Integer::new(false, 2)), None);
        assert_eq!(greatest.shl(1), None);
        assert_eq!(Integer::new(false, 1).shl(128), None);
        assert_eq!(Integer::new(false, 0).shl(4_000_000_000), Some(Integer::new(false, 0)));
        assert_eq!(Integer::new(true, 5).shr(200), Integer::new(true, 1), "rounded down, to -1");
        assert_eq!(Integer::new(false, 5).div(Integer::new(false, 0)), None);
        assert_eq!(greatest.to_bits(128, false), Some(u128::MAX));
        assert_eq!(Integer::from_bits(1 << 127, 128, true), Integer::new(true, 1 << 127));
        assert_eq!(Integer::new(true, 0), Integer::new(false, 0));
    }
}
