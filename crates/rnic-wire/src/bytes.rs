//! Helpers of the header parsers: read and write big-endian fields at given offsets of a byte slice.

/// Returns the `N` bytes of `bytes` that start at offset `at`. The caller has checked that `bytes` is long enough.
#[inline(always)]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

#[inline(always)]
pub(crate) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

#[inline(always)]
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

#[inline(always)]
pub(crate) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(bytes, at))
}

#[inline(always)]
pub(crate) fn put(out: &mut [u8], at: usize, field: &[u8]) {
    out[at..at + field.len()].copy_from_slice(field);
}
