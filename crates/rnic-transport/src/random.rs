//! Random numbers, and the conversion of random bits.

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

/// Random numbers of one flow or NIC: splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// 2014), with 8 bytes of state.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        below(z ^ (z >> 31), u64::from(bound)) as u32
    }
}
