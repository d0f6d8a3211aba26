//! All-reduce in three parts: a reduce-scatter inside each server, a ring all-reduce of each part among the ranks with
//! the same number in all servers, and an all-gather inside each server. With a rail for each number, the ring does not
//! leave its rail.
//!
//! The data is divided into pieces, which go through the three parts independently.

use super::{Operation, Ranks, Schedule, Tag, part, pieces, receive, send};
use crate::program::operation::{Action, After, Distances, Mark};
use rnic_spec::Collective;

/// The part of one rank.
#[derive(Debug)]
pub(super) struct Hierarchical {
    collective: Collective,
    /// Number of the rank in its server, and of the server in the group.
    local: u32,
    server: u32,
    pieces: u64,
}

/// Number of servers of a group.
fn servers(collective: &Collective) -> u32 {
    collective.group / collective.accelerators()
}

/// Number of pieces. A message of the ring has at most `chunk` bytes, and at least one byte.
fn pieces_of(collective: &Collective) -> u64 {
    let ranks = u64::from(collective.group);
    pieces(collective.size.0.div_ceil(ranks), collective.chunk.0).min((collective.size.0 / ranks).max(1))
}

impl Hierarchical {
    /// Number of pieces that a rank works on at a time.
    pub(super) const PIECES: usize = 4;

    pub(super) fn new(collective: &Collective, position: u32) -> Hierarchical {
        let accelerators = collective.accelerators();
        Hierarchical {
            collective: collective.clone(),
            local: position % accelerators,
            server: position / accelerators,
            pieces: pieces_of(collective),
        }
    }

    /// Number of flows of a group in one repetition: the messages of the rings.
    pub(super) fn flows(collective: &Collective) -> u128 {
        let servers = u128::from(servers(collective));
        let rings = u128::from(collective.accelerators());
        rings * servers * 2 * (servers - 1) * u128::from(pieces_of(collective))
    }

    /// Number of ranks of a server.
    pub(super) fn members(&self) -> u32 {
        self.collective.accelerators()
    }

    /// Number of the rank in its server.
    pub(super) fn local(&self) -> u32 {
        self.local
    }

    /// Position of the first rank of the server in the group.
    pub(super) fn first(&self) -> u32 {
        self.server * self.members()
    }

    /// Number of pieces.
    pub(super) fn pieces(&self) -> u64 {
        self.pieces
    }

    /// Number of other ranks of the server.
    fn others(&self) -> u64 {
        u64::from(self.collective.accelerators()) - 1
    }

    /// Number of steps of the ring.
    pub(super) fn steps(&self) -> u64 {
        2 * (u64::from(servers(&self.collective)) - 1)
    }

    /// Bytes of the part of a piece that the rank with the number `local` in its server reduces.
    pub(super) fn of_local(&self, piece: u64, local: u32) -> u64 {
        let piece = part(self.collective.size.0, self.pieces, piece);
        part(piece, self.collective.accelerators().into(), local.into())
    }

    /// A message to the other rank of the server with the index `index`, in the first part or the last one.
    fn inside(
        &self, ranks: &Ranks, (repeat, piece): (u32, u64), index: u64, is_last: bool, depends: After,
    ) -> Operation {
        let accelerators = self.collective.accelerators();
        let peer = (self.local + 1 + index as u32) % accelerators;
        let bytes = self.of_local(piece, if is_last { self.local } else { peer });
        let tag = Tag::Any(Tag::number(repeat, piece * 2 + u64::from(is_last)));
        send(ranks.at(self.server * accelerators + peer), bytes, tag, 0, depends)
    }

    /// The operation of the ring with the index `index`; the operation before the ring must be its dependency.
    pub(super) fn ring(&self, ranks: &Ranks, (repeat, piece): (u32, u64), index: u64) -> Operation {
        let (step, servers) = (index / 2, servers(&self.collective));
        let accelerators = self.collective.accelerators();
        let tag = Tag::From(Tag::number(repeat, piece * self.steps() + step));
        if !index.is_multiple_of(2) {
            let server = (self.server + servers - 1) % servers;
            return receive(ranks.at(server * accelerators + self.local), tag);
        }
        let segment = (u64::from(self.server) + 2 * u64::from(servers) - step) % u64::from(servers);
        let bytes = part(self.of_local(piece, self.local), servers.into(), segment);
        let server = (self.server + 1) % servers;
        // Both the operation before the ring, and the receive operation of the step before, are the previous ones.
        send(ranks.at(server * accelerators + self.local), bytes, tag, 0, super::after(1))
    }

    /// Waits for the messages of the other ranks of the server.
    fn gather(&self, (repeat, piece): (u32, u64), is_last: bool) -> Operation {
        let tag = Tag::Any(Tag::number(repeat, piece * 2 + u64::from(is_last)));
        let action = Action::Gather { messages: self.others() as u32, tag };
        Operation { action, after: After::Nothing, mark: Mark::None }
    }
}

impl Schedule for Hierarchical {
    fn len(&self) -> u64 {
        self.pieces * (2 * self.others() + 2 + 2 * self.steps())
    }

    fn operation(&self, ranks: &Ranks, repeat: u32, index: u64) -> Operation {
        let (others, steps) = (self.others(), self.steps());
        let count = 2 * others + 2 + 2 * steps;
        let (piece, at) = (index / count, index % count);
        let after = |distance: u64| After::Earlier(Distances::from_slice(&[distance as u32]));
        let which = (repeat, piece);
        if at < others {
            return self.inside(ranks, which, at, false, After::Nothing);
        }
        if at == others {
            return self.gather(which, false);
        }
        let in_ring = at - others - 1;
        if in_ring < 2 * steps {
            return self.ring(ranks, which, in_ring);
        }
        let last = in_ring - 2 * steps;
        if last < others {
            return self.inside(ranks, which, last, true, after(last + 1));
        }
        self.gather(which, true)
    }

    fn ahead(&self) -> usize {
        Hierarchical::PIECES * (2 * self.others() + 2 + 2 * self.steps()) as usize
    }
}
