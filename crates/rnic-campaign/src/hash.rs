//! A hash function with the same value in every process, on every machine and in every version.

use std::io;

/// The 128-bit FNV-1a hash of the bytes or the text written to it.
pub(crate) struct Fnv1a(u128);

impl Fnv1a {
    /// The state before the first byte: the hash of an empty input.
    pub(crate) fn new() -> Fnv1a {
        Fnv1a(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// Adds bytes to the hash.
    pub(crate) fn absorb(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    /// The hash of all bytes that have been added.
    pub(crate) fn finish(&self) -> u128 {
        self.0
    }
}

impl io::Write for Fnv1a {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.absorb(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn of(bytes: &[u8]) -> u128 {
        let mut hash = Fnv1a::new();
        hash.absorb(bytes);
        hash.finish()
    }

    /// The expected values are published test vectors of FNV-1a.
    #[test]
    fn is_fnv_1a() {
        assert_eq!(of(b""), 0x6c62272e07bb014262b821756295c58d);
        assert_eq!(of(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
    }

    #[test]
    fn piece_by_piece_is_the_same() {
        let mut hash = Fnv1a::new();
        hash.absorb(b"one ");
        write!(hash, "{}", 2).unwrap();
        assert_eq!(hash.finish(), of(b"one 2"));
    }
}
