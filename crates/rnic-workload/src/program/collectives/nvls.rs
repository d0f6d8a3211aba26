//! All-reduce with a reduction in the switches of the servers, as NCCL's algorithm NVLS does it with NVLink SHARP: each
//! rank owns a part of the data. The switch of a server adds the parts of all its ranks and sends the sum to the owner;
//! the owners with the same number in all servers form a ring; and each owner sends its result once to the switch,
//! which copies it to all ranks of the server.
//!
//! With n ranks in a server, each port carries 1 + 1/n times the size in each direction, whatever n; a ring inside the
//! server carries 2 (n - 1) / n. The data is divided into pieces, which go through the three parts independently, so
//! the copies of one piece overlap with the sums of the next ones.

use super::hierarchical::Hierarchical;
use super::{Operation, Ranks, Schedule, Tag, after};
use crate::program::operation::{Action, After, Mark};
use rnic_spec::Collective;

/// The part of one rank: the pieces, parts and rings are those of a hierarchical all-reduce.
#[derive(Debug)]
pub(super) struct Nvls(Hierarchical);

impl Nvls {
    pub(super) fn new(collective: &Collective, position: u32) -> Nvls {
        Nvls(Hierarchical::new(collective, position))
    }

    /// Number of operations of a piece: the sums, their result, the ring, the copy, and the copies of all ranks.
    fn of_piece(&self) -> u64 {
        u64::from(self.0.members()) + 1 + 2 * self.0.steps() + 2
    }
}

impl Schedule for Nvls {
    fn len(&self) -> u64 {
        self.0.pieces() * self.of_piece()
    }

    fn operation(&self, ranks: &Ranks, repeat: u32, index: u64) -> Operation {
        let (members, in_ring) = (self.0.members(), 2 * self.0.steps());
        let (piece, at) = (index / self.of_piece(), index % self.of_piece());
        let tag = |is_last: bool| Tag::Any(Tag::number(repeat, piece * 2 + u64::from(is_last)));
        let gather = |messages, is_last| {
            let action = Action::Gather { messages, tag: tag(is_last) };
            Operation { action, after: After::Nothing, mark: Mark::None }
        };
        let sums = u64::from(members);
        if at < sums {
            let (to, bytes) = (ranks.at(self.0.first() + at as u32), self.0.of_local(piece, at as u32));
            let action = Action::Reduce { to, bytes, tag: tag(false), members };
            return Operation { action, after: After::Nothing, mark: Mark::None };
        }
        if at == sums {
            return gather(1, false);
        }
        let step = at - sums - 1;
        if step < in_ring {
            return self.0.ring(ranks, (repeat, piece), step);
        }
        if step > in_ring {
            return gather(members, true);
        }
        let (first, bytes) = (ranks.at(self.0.first()), self.0.of_local(piece, self.0.local()));
        let stride = ranks.at(self.0.first() + 1) - first;
        let action = Action::Multicast { first, stride, members, bytes, tag: tag(true) };
        // The operation before is the sum, or the last receive operation of the ring.
        Operation { action, after: after(1), mark: Mark::None }
    }

    fn ahead(&self) -> usize {
        Hierarchical::PIECES * self.of_piece() as usize
    }
}
