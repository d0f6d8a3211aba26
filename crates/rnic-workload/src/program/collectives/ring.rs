//! Collective operations along a ring: each rank receives from its predecessor and sends to its successor.
//!
//! All-reduce is a reduce-scatter and an all-gather, 2 (n - 1) steps in all; in each step a rank sends one of n
//! segments of its buffer, which it has received (and reduced) in the step before (Patarasuk, Yuan: Bandwidth optimal
//! all-reduce algorithms for clusters of workstations, 2009). A segment is sent in messages of at most `chunk` bytes;
//! the rank sends each message on as soon as it has arrived. A broadcast sends the whole buffer along the ring, from
//! the first rank to the last.

use super::{Operation, Ranks, Schedule, Tag, after, part, pieces, receive, send};
use crate::program::operation::After;
use rnic_spec::{Collective, CollectiveOperation};

/// The part of one rank.
#[derive(Debug)]
pub(super) struct Ring {
    collective: Collective,
    position: u32,
    /// Number of messages of a segment.
    pieces: u64,
}

/// Number of messages of a segment of one channel; of the whole buffer of a channel for a broadcast.
fn pieces_of(collective: &Collective) -> u64 {
    let channel = collective.size.0.div_ceil(collective.channels.into());
    let least = collective.size.0 / u64::from(collective.channels);
    let ranks = u64::from(collective.group);
    match collective.operation {
        CollectiveOperation::Broadcast => pieces(channel, collective.chunk.0).min(least.max(1)),
        // The smallest segment has at least a byte for each message.
        _ => pieces(channel.div_ceil(ranks), collective.chunk.0).min((least / ranks).max(1)),
    }
}

impl Ring {
    pub(super) fn new(collective: &Collective, position: u32) -> Ring {
        Ring { collective: collective.clone(), position, pieces: pieces_of(collective) }
    }

    /// Number of flows of a group in one repetition. `crosses` returns 1 if a message from one position to another is a
    /// flow, else 0.
    pub(super) fn flows(collective: &Collective, crosses: impl Fn(u32, u32) -> u128) -> u128 {
        let messages = u128::from(pieces_of(collective)) * u128::from(collective.channels);
        let (links, steps) = match collective.operation {
            CollectiveOperation::Broadcast => (collective.group - 1, 1),
            _ => (collective.group, u128::from(steps(collective))),
        };
        let links: u128 = (0..links).map(|from| crosses(from, (from + 1) % collective.group)).sum();
        messages * links * steps
    }

    fn successor(&self, ranks: &Ranks) -> u32 {
        ranks.at((self.position + 1) % self.collective.group)
    }

    fn predecessor(&self, ranks: &Ranks) -> u32 {
        ranks.at((self.position + self.collective.group - 1) % self.collective.group)
    }

    /// Bytes of a message of the segment `segment` of a channel.
    fn bytes(&self, channel: u64, segment: u64, piece: u64) -> u64 {
        let Collective { size, channels, group, .. } = self.collective;
        let of_channel = part(size.0, channels.into(), channel);
        part(part(of_channel, group.into(), segment), self.pieces, piece)
    }

    /// Messages of a step, over all channels.
    fn messages(&self) -> u64 {
        self.pieces * u64::from(self.collective.channels)
    }

    /// The operation of a broadcast with the index `index`. The root sends; the others receive and, but for the last,
    /// send on.
    fn broadcast(&self, ranks: &Ranks, repeat: u32, index: u64) -> Operation {
        let Collective { size, channels, group, outstanding, .. } = self.collective;
        let (is_root, is_last) = (self.position == 0, self.position == group - 1);
        let message = if is_root || is_last { index } else { index / 2 };
        let (piece, channel) = (message / u64::from(channels), message % u64::from(channels));
        let tag = Tag::From(Tag::number(repeat, message));
        if is_last || (!is_root && index.is_multiple_of(2)) {
            return receive(self.predecessor(ranks), tag);
        }
        let bytes = part(part(size.0, channels.into(), channel), self.pieces, piece);
        let outstanding = u64::from(outstanding);
        let depends = match is_root {
            true if index < outstanding => After::Nothing,
            true => after(outstanding),
            false => after(1),
        };
        send(self.successor(ranks), bytes, tag, channel as u32, depends)
    }
}

/// Number of steps, in each of which every rank sends a segment.
fn steps(collective: &Collective) -> u64 {
    let others = u64::from(collective.group) - 1;
    if collective.operation == CollectiveOperation::AllReduce { 2 * others } else { others }
}

impl Schedule for Ring {
    fn len(&self) -> u64 {
        let Collective { operation, group, .. } = self.collective;
        match operation {
            CollectiveOperation::Broadcast if self.position == 0 || self.position == group - 1 => self.messages(),
            CollectiveOperation::Broadcast => 2 * self.messages(),
            _ => 2 * self.messages() * steps(&self.collective),
        }
    }

    fn operation(&self, ranks: &Ranks, repeat: u32, index: u64) -> Operation {
        if self.collective.operation == CollectiveOperation::Broadcast {
            return self.broadcast(ranks, repeat, index);
        }
        let message = index / 2;
        let tag = Tag::From(Tag::number(repeat, message));
        if !index.is_multiple_of(2) {
            return receive(self.predecessor(ranks), tag);
        }
        let group = u64::from(self.collective.group);
        let (step, in_step) = (message / self.messages(), message % self.messages());
        let (channel, piece) = (in_step / self.pieces, in_step % self.pieces);
        // The segment that the rank received in the step before; its own segment in step 0. In the second half of an
        // all-reduce, the rank first sends the segment that it has reduced last, so the rule is the same.
        let segment = (u64::from(self.position) + 2 * group - step) % group;
        let depends = if step == 0 { After::Nothing } else { after(2 * self.messages() - 1) };
        send(self.successor(ranks), self.bytes(channel, segment, piece), tag, channel as u32, depends)
    }

    fn ahead(&self) -> usize {
        // Two steps, of which each has a send and a receive operation for each message.
        let ahead = match self.collective.operation {
            CollectiveOperation::Broadcast => 2 * u64::from(self.collective.outstanding),
            _ => 4 * self.messages(),
        };
        usize::try_from(ahead).unwrap_or(usize::MAX)
    }
}
