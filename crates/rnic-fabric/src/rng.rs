//! Random streams: one per entity, derived from the run's seed and the entity's number.
//!
//! A stream depends on nothing else, so adding a flow or a link elsewhere changes nothing here, and the order in which entities
//! are simulated does not matter.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What a stream is for; streams of different purposes are independent even for equal entity numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// Salt of a switch's ECMP hash.
    EcmpSalt = 1,
    /// Random loss on one direction of a link.
    LinkLoss = 2,
    /// A flow's hash, as its UDP source port would give.
    FlowHash = 3,
}

/// A well-mixed 64-bit hash of (`seed`, `purpose`, `entity`); the finaliser of SplitMix64 applied to each in turn.
pub fn mix(seed: u64, purpose: Purpose, entity: u64) -> u64 {
    let step = |state: u64, input: u64| {
        let mut z = (state ^ input).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    step(step(step(0, seed), purpose as u64), entity)
}

/// A stream of random bits.
#[derive(Clone, Debug)]
pub struct Stream(Pcg64Mcg);

impl Stream {
    /// The stream of one entity.
    pub fn new(seed: u64, purpose: Purpose, entity: u64) -> Stream {
        Stream(Pcg64Mcg::seed_from_u64(mix(seed, purpose, entity)))
    }
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}
