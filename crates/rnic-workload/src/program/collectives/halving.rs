//! Recursive halving and doubling (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in
//! MPICH, 2005): log2 n exchanges with partners at distances of n/2, n/4 and so on, in which a rank sends half of the
//! data that it is still responsible for (reduce-scatter), and the same exchanges backwards (all-gather). All-reduce is
//! both.

use super::{Operation, Ranks, Schedule, Tag, after, receive, send};
use crate::program::operation::After;
use rnic_spec::{Collective, CollectiveOperation};

/// The part of one rank.
#[derive(Debug)]
pub(super) struct Halving {
    collective: Collective,
    position: u32,
}

impl Halving {
    pub(super) fn new(collective: &Collective, position: u32) -> Halving {
        Halving { collective: collective.clone(), position }
    }

    /// Number of flows of a group in one repetition. `crosses` returns 1 if a message from one position to another is a
    /// flow, else 0.
    pub(super) fn flows(collective: &Collective, crosses: impl Fn(u32, u32) -> u128) -> u128 {
        let of_rank = |position: u32| {
            let own = Halving::new(collective, position);
            (0..Halving::steps(collective)).map(|step| crosses(position, position ^ own.exchange(step).0)).sum::<u128>()
        };
        (0..collective.group).map(of_rank).sum()
    }

    /// Number of exchanges of a rank.
    fn steps(collective: &Collective) -> u32 {
        let half = collective.group.trailing_zeros();
        if collective.operation == CollectiveOperation::AllReduce { 2 * half } else { half }
    }

    /// The distance to the partner of exchange `step`, and whether the exchange halves the data.
    fn exchange(&self, step: u32) -> (u32, bool) {
        let Collective { operation, group, .. } = self.collective;
        let half = group.trailing_zeros();
        let halves = match operation {
            CollectiveOperation::AllGather => false,
            CollectiveOperation::ReduceScatter => true,
            _ => step < half,
        };
        match halves {
            true => (group >> (step + 1), true),
            false => (1 << (step % half), false),
        }
    }

    /// Bytes of the block of `ranks` segments that contains the segment of the rank at `position`.
    fn block(&self, position: u32, ranks: u32) -> u64 {
        let first = position / ranks * ranks;
        let Collective { size, group, .. } = self.collective;
        let end = |segment: u32| u128::from(size.0) * u128::from(segment) / u128::from(group);
        (end(first + ranks) - end(first)) as u64
    }
}

impl Schedule for Halving {
    fn len(&self) -> u64 {
        2 * u64::from(Halving::steps(&self.collective))
    }

    fn operation(&self, ranks: &Ranks, repeat: u32, index: u64) -> Operation {
        let step = (index / 2) as u32;
        let (distance, halves) = self.exchange(step);
        let partner = self.position ^ distance;
        let tag = Tag::From(Tag::number(repeat, step.into()));
        if !index.is_multiple_of(2) {
            return receive(ranks.at(partner), tag);
        }
        // A halving exchange sends the partner's half, a doubling one the block that the rank has completed.
        let bytes = self.block(if halves { partner } else { self.position }, distance);
        let depends = if step == 0 { After::Nothing } else { after(1) };
        send(ranks.at(partner), bytes, tag, 0, depends)
    }

    fn ahead(&self) -> usize {
        4
    }
}
