//! Random streams: one per entity (such as a flow, a link or a switch), derived from the run's seed, the stream's
//! purpose and the entity's number.
//!
//! A stream depends on nothing else. So a new flow or link does not change the random numbers of the other flows and
//! links, and the order in which entities are simulated does not matter. Only integer arithmetic is used: a seed gives
//! the same numbers on every machine.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// The purpose of a random stream; streams of different purposes are independent even for equal entity numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// Salt of a switch's ECMP hash.
    EcmpSalt = 1,
    /// Random loss on one direction of a link.
    LinkLoss = 2,
    /// ECMP hash of a flow; it stands for the entropy of the flow's UDP source port.
    FlowHash = 3,
    /// Random ECN marks at one output port of a switch.
    Marking = 4,
    /// Ports that a switch draws for single packets under packet spraying.
    Spray = 5,
    /// The rate of a node's clock.
    ClockSkew = 6,
    /// Additional delays of the frames on one direction of a link.
    Jitter = 7,
    /// Pairs of hosts that probe each other, and the times of their probes.
    Mesh = 8,
    /// Delays of probes in the software of hosts.
    Stack = 9,
    /// Arrivals, destinations and sizes of flows.
    Workload = 0x776f_726b_6c6f_6164,
}

/// The increment of splitmix64: 2^64 divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): a
/// bijection in which every input bit flips about half of the output bits.
const fn scramble(value: u64) -> u64 {
    let value = value.wrapping_add(GOLDEN);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A 64-bit hash of a seed, a purpose and the numbers that identify an entity. It is the entity's only random number,
/// or the start of its random stream.
pub fn mix(seed: u64, purpose: Purpose, entity: &[u64]) -> u64 {
    let start = scramble(scramble(seed) ^ purpose as u64);
    entity.iter().fold(start, |state, number| scramble(state ^ number))
}

/// A stream of random bits that belongs to one entity.
#[derive(Clone, Debug)]
pub struct Stream(Pcg64Mcg);

impl Stream {
    /// The stream, for one purpose, of the entity that the numbers in `entity` identify. The two halves of the
    /// generator's 128-bit initial state are outputs of splitmix64 that start from the result of [`mix`].
    pub fn new(seed: u64, purpose: Purpose, entity: &[u64]) -> Stream {
        let state = mix(seed, purpose, entity);
        let (high, low) = (scramble(state), scramble(state.wrapping_add(GOLDEN)));
        Stream(Pcg64Mcg::new(u128::from(high) << 64 | u128::from(low)))
    }
    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}
