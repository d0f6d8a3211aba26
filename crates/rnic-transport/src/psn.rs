//! Packet sequence numbers: 24 bits, compared by signed wrap-around distance.

use std::fmt;

/// A 24-bit packet sequence number (InfiniBand BTH).
///
/// Sequence numbers wrap, so there is no total order and this type has no `Ord`: compare with [`Psn::distance_from`]
/// or [`Psn::is_before`], which are meaningful while both numbers lie less than 2^23 apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// Number of distinct sequence numbers.
    pub const MODULUS: u32 = 1 << 24;
    /// Largest number of packets that may be outstanding at once, so that comparison stays unambiguous: an acknowledgement of
    /// all of them is still later than the first.
    pub const MAX_WINDOW: u32 = (1 << 23) - 1;

    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Psn {
        Psn(value & (Psn::MODULUS - 1))
    }
    /// The number, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }
    /// The number `count` packets later.
    pub const fn plus(self, count: u32) -> Psn {
        Psn::new(self.0.wrapping_add(count))
    }
    /// Signed distance from `other` to `self`, in -2^23 .. 2^23: positive when `self` is later.
    pub const fn distance_from(self, other: Psn) -> i32 {
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }
    /// Packets from `other` up to but not including `self`; `self` must not be before `other`.
    pub const fn since(self, other: Psn) -> u32 {
        self.0.wrapping_sub(other.0) & (Psn::MODULUS - 1)
    }
    /// Whether `self` comes before `other`.
    pub const fn is_before(self, other: Psn) -> bool {
        self.distance_from(other) < 0
    }
    /// The later of the two.
    pub const fn later(self, other: Psn) -> Psn {
        if self.is_before(other) { other } else { self }
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn comparison_wraps() {
        let last = Psn::new(Psn::MODULUS - 1);
        assert_eq!(last.plus(1), Psn::new(0));
        assert!(last.is_before(Psn::new(0)));
        assert_eq!(Psn::new(5).distance_from(last), 6);
        assert_eq!(last.distance_from(Psn::new(5)), -6);
        assert_eq!(Psn::new(5).since(last), 6);
        assert_eq!(Psn::new(0).later(last), Psn::new(0));
        assert_eq!(Psn::new(0x1_00_00_07), Psn::new(7));
    }

    proptest! {
        #[test]
        fn distance_inverts_plus(base in 0..Psn::MODULUS, step in 0..Psn::MAX_WINDOW) {
            let base = Psn::new(base);
            let later = base.plus(step);
            prop_assert_eq!(later.since(base), step);
            prop_assert_eq!(later.distance_from(base), step as i32);
            prop_assert_eq!(base.distance_from(later), -(step as i32));
            prop_assert_eq!(base.is_before(later), step > 0);
        }
    }
}
