//! Packet spraying: each packet takes a path at random.

use super::Candidates;
use crate::rng::{Purpose, Stream};
use rnic_transport::random::below;

/// Packet spraying at one switch: the random stream from which the switch draws ports.
pub(crate) struct Spray(Stream);

impl Spray {
    pub(super) fn new(seed: u64, node: u32) -> Spray {
        Spray(Stream::new(seed, Purpose::Spray, &[u64::from(node)]))
    }

    /// The index of one of the equal-cost ports, drawn at random with equal probabilities.
    pub(crate) fn select(&mut self, candidates: Candidates<'_>) -> u32 {
        below(self.0.next_u64(), candidates.len.into()) as u32
    }
}
