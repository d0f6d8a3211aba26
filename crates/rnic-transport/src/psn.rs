//! Packet sequence numbers (PSNs): 24-bit numbers that wrap around.

use std::fmt;

/// A 24-bit packet sequence number (PSN), as in the InfiniBand base transport header.
///
/// PSNs wrap around and so have no total order; this type does not implement `Ord`. [`Psn::distance_from`] and
/// [`Psn::is_before`] compare two PSNs that are less than 2^23 apart.
///
/// ```
/// use rnic_transport::Psn;
///
/// let last = Psn::new(0xff_ffff);
/// let next = last.plus(1);
/// assert_eq!(next, Psn::new(0));
/// assert!(last.is_before(next));
/// assert_eq!(next.distance_from(last), 1);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// Number of distinct PSNs, 2^24.
    pub const MODULUS: u32 = 1 << 24;
    /// Maximum number of outstanding packets of a flow, 2^23 - 1. Within this limit [`Psn::is_before`] orders correctly
    /// the PSNs of all outstanding packets and the PSN of the next new packet.
    pub const MAX_WINDOW: u32 = (1 << 23) - 1;

    /// The PSN whose value is the low 24 bits of `value`.
    pub const fn new(value: u32) -> Psn {
        Psn(value & (Psn::MODULUS - 1))
    }
    /// The value of the PSN, 0 to 2^24 - 1.
    pub const fn value(self) -> u32 {
        self.0
    }
    /// The PSN that is `count` packets after this PSN; it wraps around after 2^24 - 1.
    pub const fn plus(self, count: u32) -> Psn {
        Psn::new(self.0.wrapping_add(count))
    }
    /// Signed distance in packets from `other` to `self`, -2^23 to 2^23 - 1; positive if `self` is later.
    pub const fn distance_from(self, other: Psn) -> i32 {
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }
    /// Number of packets from `other` (inclusive) to `self` (exclusive), 0 to 2^24 - 1. `self` must not be before
    /// `other`.
    pub const fn since(self, other: Psn) -> u32 {
        self.0.wrapping_sub(other.0) & (Psn::MODULUS - 1)
    }
    /// Whether `self` is earlier than `other`.
    pub const fn is_before(self, other: Psn) -> bool {
        self.distance_from(other) < 0
    }
    /// The later of the two PSNs.
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
