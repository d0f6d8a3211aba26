//! Payload bytes derived from a seed, a queue pair and the number of a message, so that the receiver can verify them.

/// The expected payload bytes of one message.
///
/// Each word of eight bytes is derived from the next element of an arithmetic progression that differs for each
/// message. So bytes of another message or from another offset fail the comparison. Writing and comparing the words is
/// about as fast as memory access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern(u64);

impl Pattern {
    /// Step of the arithmetic progression: an odd number with many bits set, so that neighbouring words differ in many
    /// bits.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    pub(super) fn new(seed: u64, queue_pair: usize, message: u64) -> Pattern {
        let mut state = seed;
        for value in [queue_pair as u64, message] {
            // The finaliser of splitmix64.
            state = (state ^ value).wrapping_add(Pattern::STEP);
            state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            state ^= state >> 31;
        }
        Pattern(state)
    }

    fn words(self) -> impl Iterator<Item = [u8; 8]> {
        let mut word = self.0;
        std::iter::repeat_with(move || {
            word = word.wrapping_add(Pattern::STEP);
            // The low bits of the progression have short periods, so its high bits are mixed in.
            (word ^ word >> 32).to_le_bytes()
        })
    }

    pub(super) fn fill(self, bytes: &mut [u8]) {
        for (chunk, word) in bytes.chunks_mut(8).zip(self.words()) {
            let len = chunk.len();
            chunk.copy_from_slice(&word[..len]);
        }
    }

    /// Compares `bytes` with this pattern; returns the number of wrong bytes.
    pub(super) fn wrong(self, bytes: &[u8]) -> u64 {
        let differs = |chunk: &[u8], word: [u8; 8]| chunk.iter().zip(word).filter(|(a, b)| **a != *b).count() as u64;
        bytes
            .chunks(8)
            .zip(self.words())
            .map(|(chunk, word)| if *chunk == word[..chunk.len()] { 0 } else { differs(chunk, word) })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_byte_is_counted() {
        let mut bytes = [0; 1_003];
        let pattern = Pattern::new(7, 3, 11);
        pattern.fill(&mut bytes);
        assert_eq!(pattern.wrong(&bytes), 0);
        for at in [0, 1, 7, 8, 500, 999, 1_000, 1_002] {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            assert_eq!(pattern.wrong(&damaged), 1, "{at}");
        }
        bytes.copy_within(16..32, 0);
        assert!(pattern.wrong(&bytes) > 8, "bytes of another offset pass");
    }

    #[test]
    fn messages_differ() {
        let mut one = [0; 64];
        Pattern::new(7, 3, 11).fill(&mut one);
        for (seed, queue_pair, message) in [(8, 3, 11), (7, 4, 11), (7, 3, 12), (7, 11, 3)] {
            let wrong = Pattern::new(seed, queue_pair, message).wrong(&one);
            assert!(wrong > 48, "{wrong} of 64 differ");
        }
    }
}
