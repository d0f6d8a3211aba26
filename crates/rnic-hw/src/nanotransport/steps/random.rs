//! Random choices of a trace.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// A source of random choices, the same for the same seed.
pub(super) struct Random(Pcg64Mcg);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(Pcg64Mcg::new((u128::from(seed) << 64 | 0x5d4c_3b2a_1908_f7e6) | 1))
    }

    /// Returns a number below `bound`; all have the same probability.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true with the probability 1 / `count`.
    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Returns a random number of 32 bits.
    pub(super) fn bits32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// Returns a random number of 64 bits.
    pub(super) fn bits64(&mut self) -> u64 {
        self.0.next_u64()
    }
}
