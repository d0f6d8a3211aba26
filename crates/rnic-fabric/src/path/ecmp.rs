//! Equal-cost multipath: the flow's hash picks the path.

/// The index, below `len`, of the equal-cost port that ECMP picks for a flow with this hash. `salt` is a random number
/// of the switch.
#[inline(always)]
pub(super) fn index(flow_hash: u32, salt: u32, len: u32) -> u32 {
    let mut z = u64::from(flow_hash ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (((z >> 32) * u64::from(len)) >> 32) as u32
}
