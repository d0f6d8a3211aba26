//! Conversion of random bits.

/// A number below `bound`, selected by 64 random bits; 0 if `bound` is 0. The bias is at most `bound` / 2^64.
///
/// ```
/// use rnic_transport::random::below;
///
/// assert_eq!([0, 1 << 63, u64::MAX].map(|bits| below(bits, 10)), [0, 5, 9]);
/// ```
#[inline]
pub const fn below(bits: u64, bound: u64) -> u64 {
    ((bits as u128 * bound as u128) >> 64) as u64
}
