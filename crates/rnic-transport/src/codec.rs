//! Numbers as bytes in little-endian order, for the messages between ranks.

/// Reads numbers from the front of a byte slice. Every method returns `None` if too few bytes are left.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    /// A reader of `bytes`.
    pub fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader(bytes)
    }
    /// Whether all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }
    /// The bytes that have not been read.
    pub fn rest(self) -> &'b [u8] {
        self.0
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }
    /// The next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }
    /// The next number of 16 bits.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    /// The next number of 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    /// The next number of 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Appends a number of 16 bits.
pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}
/// Appends a number of 32 bits.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}
/// Appends a number of 64 bits.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_a_short_message_ends() {
        let mut out = vec![7];
        put_u16(&mut out, 0xfffe);
        put_u32(&mut out, 0xffff_fffd);
        put_u64(&mut out, u64::MAX - 3);
        out.extend([1, 2, 3]);
        let mut reader = Reader::new(&out);
        assert_eq!((reader.u8(), reader.u16(), reader.u32()), (Some(7), Some(0xfffe), Some(0xffff_fffd)));
        assert_eq!((reader.u64(), reader.u32(), reader.bytes(4)), (Some(u64::MAX - 3), None, None));
        assert_eq!((reader.bytes(2), reader.is_empty(), reader.rest()), (Some(&[1, 2][..]), false, &[3][..]));
    }
}
