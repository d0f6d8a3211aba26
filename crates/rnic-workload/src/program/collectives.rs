//! The operations of a rank in collective operations, created one after the other.

mod direct;
mod halving;
mod hierarchical;
mod nvls;
mod ring;
mod tree;

use super::operation::{Action, After, Distances, Mark, Operation, Operations, Tag};
use super::rank_at;
use direct::Direct;
use halving::Halving;
use hierarchical::Hierarchical;
use nvls::Nvls;
use ring::Ring;
use rnic_spec::{Algorithm, Collective};
use rnic_transport::Time;
use std::sync::Arc;
use tree::Tree;

/// Minimum number of operations that a rank looks ahead.
const AHEAD: usize = 64;

/// A part of a collective operation: what one rank sends and receives in one repetition.
trait Schedule: std::fmt::Debug + Send {
    /// Number of operations of the rank in a repetition.
    fn len(&self) -> u64;
    /// The operation with the index `index` in the repetition `repeat`.
    fn operation(&self, ranks: &Ranks, repeat: u32, index: u64) -> Operation;
    /// Maximum number of operations of the rank that are open at a time.
    fn ahead(&self) -> usize;
}

/// The ranks of the group to which a rank belongs.
#[derive(Clone, Debug)]
struct Ranks {
    members: Members,
    /// The first rank of the traffic source, in the list of the ranks of all sources.
    first: u32,
}

#[derive(Clone, Debug)]
enum Members {
    /// The group with this number of a collective traffic source.
    Group(Box<Collective>, u32),
    /// The ranks of a communicator.
    Listed(Arc<[u32]>),
}

impl Ranks {
    /// The rank at a position of the group.
    fn at(&self, position: u32) -> u32 {
        self.first
            + match &self.members {
                Members::Group(collective, group) => rank_at(collective, *group, position),
                Members::Listed(ranks) => ranks[position as usize],
            }
    }
}

/// The number of bytes of part `index` of `parts` equal parts of `bytes` bytes: sizes differ by at most 1 B.
fn part(bytes: u64, parts: u64, index: u64) -> u64 {
    let end = |index: u64| (u128::from(bytes) * u128::from(index) / u128::from(parts)) as u64;
    end(index + 1) - end(index)
}

/// Number of messages for `bytes` bytes, of at most `chunk` bytes each (rounded up when the bytes do not divide).
fn pieces(bytes: u64, chunk: u64) -> u64 {
    bytes.div_ceil(chunk.max(1)).max(1)
}

/// The operations of the rank at the position `position` of a group. `first_rank` is the first rank of the traffic
/// source; `weights` has the fraction of the bytes that each position receives in a skewed all-to-all.
pub(super) fn operations(
    collective: &Collective, group: u32, position: u32, (first_rank, weights): (u32, &Option<Arc<[f64]>>),
) -> Box<dyn Operations> {
    let ranks = Ranks { members: Members::Group(Box::new(collective.clone()), group), first: first_rank };
    let own = ranks.at(position) - first_rank;
    let straggler = collective.straggler.filter(|straggler| straggler.rank == own);
    let delay = straggler.map_or(Time::ZERO, |straggler| straggler.delay);
    let schedule: Box<dyn Schedule> = match weights {
        None => schedule(collective, position),
        Some(weights) => Box::new(Direct::skewed(collective, position, weights.clone())),
    };
    let (compute, repeats) = (collective.compute.saturating_add(delay), collective.repeats);
    Box::new(Repeated { ranks, schedule, compute, repeats, repeat: 0, stage: Stage::Compute })
}

/// The operations of the rank at the position `position` of a communicator for its operation with the number
/// `sequence`.
pub(super) fn once(
    collective: &Collective, ranks: Arc<[u32]>, position: u32, (first_rank, sequence): (u32, u32),
) -> Box<dyn Operations> {
    let ranks = Ranks { members: Members::Listed(ranks), first: first_rank };
    // Few operations are open at a time, so the number may begin again.
    let sequence = sequence % (1 << 20);
    Box::new(Once { ranks, schedule: schedule(collective, position), sequence, next: 0 })
}

/// The part of the rank at a position of a group.
fn schedule(collective: &Collective, position: u32) -> Box<dyn Schedule> {
    match collective.algorithm {
        Algorithm::Ring => Box::new(Ring::new(collective, position)),
        Algorithm::Tree => Box::new(Tree::new(collective, position)),
        Algorithm::HalvingDoubling => Box::new(Halving::new(collective, position)),
        Algorithm::Direct => Box::new(Direct::new(collective, position)),
        Algorithm::Hierarchical => Box::new(Hierarchical::new(collective, position)),
        Algorithm::Nvls => Box::new(Nvls::new(collective, position)),
    }
}

/// Number of flows of a collective traffic source: of messages between ranks of different servers.
pub(super) fn flows(collective: &Collective) -> u128 {
    let of_group = |group: u32| flows_of_group(collective, |position| rank_at(collective, group, position));
    let all = match collective.server {
        None => of_group(0) * u128::from(collective.groups()),
        Some(_) => (0..collective.groups()).map(of_group).sum(),
    };
    all * u128::from(collective.repeats)
}

/// Number of flows of an operation of one group. `rank` returns the rank at a position of the group.
pub(super) fn flows_of_group(collective: &Collective, rank: impl Fn(u32) -> u32) -> u128 {
    let server = |position| rank(position) / collective.accelerators();
    // Messages from one position of the group to another that are flows.
    let crosses = |from: u32, to: u32| u128::from(server(from) != server(to));
    match collective.algorithm {
        Algorithm::Ring => Ring::flows(collective, crosses),
        Algorithm::Tree => Tree::flows(collective, crosses),
        Algorithm::HalvingDoubling => Halving::flows(collective, crosses),
        Algorithm::Hierarchical | Algorithm::Nvls => Hierarchical::flows(collective),
        Algorithm::Direct if !collective.matrix.is_empty() => {
            let messages = |from: u32| (0..collective.group).map(move |to| (from, to));
            let all = (0..collective.group).flat_map(messages);
            let sent = all.filter(|(from, to)| from != to && direct::entry(collective, *from, *to) > 0);
            sent.map(|(from, to)| crosses(from, to)).sum()
        }
        Algorithm::Direct => {
            let mut members = std::collections::BTreeMap::<u32, u128>::new();
            for position in 0..collective.group {
                *members.entry(server(position)).or_default() += 1;
            }
            let ranks = u128::from(collective.group);
            members.values().map(|members| members * (ranks - members)).sum()
        }
    }
}

/// Number of bytes of the largest message of a collective traffic source.
pub(super) fn largest(collective: &Collective) -> u64 {
    let (size, ranks) = (collective.size.0, u64::from(collective.group));
    match collective.algorithm {
        Algorithm::Ring | Algorithm::Tree | Algorithm::Hierarchical | Algorithm::Nvls => {
            collective.chunk.0.min(size) + 1
        }
        Algorithm::HalvingDoubling => size.div_ceil(2) + 1,
        Algorithm::Direct if !collective.matrix.is_empty() => size,
        // The first weight of a Zipf distribution is the largest, and less than 1.
        Algorithm::Direct if collective.skew.is_some() => size,
        Algorithm::Direct => size.div_ceil(ranks),
    }
}

/// The operations of a rank that repeats a collective operation.
#[derive(Debug)]
struct Repeated {
    ranks: Ranks,
    schedule: Box<dyn Schedule>,
    /// Time for which the rank computes before each operation.
    compute: Time,
    repeats: u32,
    repeat: u32,
    stage: Stage,
}

/// The operations of a rank for one collective operation.
#[derive(Debug)]
struct Once {
    ranks: Ranks,
    schedule: Box<dyn Schedule>,
    sequence: u32,
    next: u64,
}

impl Operations for Once {
    fn next(&mut self) -> Option<Operation> {
        let index = self.next;
        self.next += 1;
        (index < self.schedule.len()).then(|| self.schedule.operation(&self.ranks, self.sequence, index))
    }

    fn ahead(&self) -> usize {
        self.schedule.ahead().max(AHEAD)
    }
}

/// The next operation of a repetition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Compute,
    Begin,
    Step(u64),
    End,
}

impl Operations for Repeated {
    fn next(&mut self) -> Option<Operation> {
        let compute = self.compute;
        if self.repeat >= self.repeats {
            return None;
        }
        let join = |mark| Operation { action: Action::Join, after: After::All, mark };
        if self.stage == Stage::Compute && compute == Time::ZERO {
            self.stage = Stage::Begin;
        }
        Some(match self.stage {
            Stage::Compute => {
                self.stage = Stage::Begin;
                Operation { action: Action::Compute { time: compute }, after: After::All, mark: Mark::None }
            }
            Stage::Begin => {
                self.stage = Stage::Step(0);
                join(Mark::Begin(self.repeat))
            }
            Stage::Step(index) => {
                self.stage = if index + 1 < self.schedule.len() { Stage::Step(index + 1) } else { Stage::End };
                self.schedule.operation(&self.ranks, self.repeat, index)
            }
            Stage::End => {
                self.stage = Stage::Compute;
                self.repeat += 1;
                join(Mark::End(self.repeat - 1))
            }
        })
    }

    fn ahead(&self) -> usize {
        self.schedule.ahead().max(AHEAD)
    }
}

/// A send operation without a mark.
fn send(to: u32, bytes: u64, tag: Tag, connection: u32, after: After) -> Operation {
    Operation { action: Action::Send { to, bytes, tag, connection }, after, mark: Mark::None }
}

/// A receive operation that depends on nothing.
fn receive(from: u32, tag: Tag) -> Operation {
    Operation { action: Action::Receive { from, tag }, after: After::Nothing, mark: Mark::None }
}

/// The dependency on one earlier operation, `distance` operations before.
fn after(distance: u64) -> After {
    After::Earlier(Distances::from_slice(&[distance as u32]))
}
