//! The connection of this process to the other processes of its MPI job.

use super::NoRank;
use mpi::Threading;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};
use rnic_fabric::{RankError, RankGroup, Ranks};

/// Size in bytes of the block that each rank sends to every other rank at a barrier. The rest of a longer message is
/// sent in a second step.
const BLOCK: usize = 512;

/// Number of message bytes in a block; the message's length precedes them.
const ROOM: usize = BLOCK - 8;

/// Maximum number of bytes in one MPI message. MPI counts bytes in 32 bits.
const PIECE: usize = 1 << 30;

/// MPI in this process, from initialisation to finalisation. An MPI error ends all processes of the job.
pub(in crate::run) struct Session {
    group: RankGroup,
    /// Ends MPI when it is dropped.
    _universe: Universe,
}

impl Session {
    pub(super) fn new() -> Result<Session, NoRank> {
        let started = mpi::initialize_with_threading(Threading::Funneled);
        let (universe, threading) =
            started.ok_or_else(|| NoRank("MPI was started twice in this process".to_string()))?;
        if threading < Threading::Funneled {
            return Err(NoRank("this MPI library does not allow threads".to_string()));
        }
        // If a rank panics, the other ranks would wait forever, so the panic hook ends all of them.
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            report(panic);
            SimpleCommunicator::world().abort(101);
        }));
        let world = universe.world();
        let ranks =
            MpiRanks { rank: world.rank() as usize, size: world.size() as usize, blocks: Vec::new(), rest: Vec::new() };
        Ok(Session { group: RankGroup::new(Box::new(ranks)), _universe: universe })
    }

    /// The group of all ranks.
    pub(in crate::run) fn group(&self) -> RankGroup {
        self.group.clone()
    }
}

/// The ranks of an MPI job. Only the thread that initialised MPI may call it.
struct MpiRanks {
    rank: usize,
    size: usize,
    /// Buffers of a gather: the blocks of all ranks, and the parts of messages that did not fit into blocks.
    blocks: Vec<u8>,
    rest: Vec<u8>,
}

impl Ranks for MpiRanks {
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.size
    }

    /// One allgather of small blocks, and a second one if a message is longer than its block.
    fn gather(&mut self, own: &[u8], all: &mut Vec<Vec<u8>>) -> Result<(), RankError> {
        let world = SimpleCommunicator::world();
        let mut block = [0; BLOCK];
        let (fits, beyond) = own.split_at(own.len().min(ROOM));
        block[..8].copy_from_slice(&(own.len() as u64).to_le_bytes());
        block[8..8 + fits.len()].copy_from_slice(fits);
        self.blocks.resize(BLOCK * self.size, 0);
        world.all_gather_into(&block[..], &mut self.blocks[..]);
        let length = |block: &[u8]| u64::from_le_bytes(block[..8].try_into().unwrap_or_default()) as usize;
        let lengths: Vec<usize> = self.blocks.chunks_exact(BLOCK).map(length).collect();
        let counts: Vec<i32> =
            lengths.iter().map(|length| i32::try_from(length.saturating_sub(ROOM)).unwrap_or(i32::MAX)).collect();
        let total: usize = counts.iter().map(|count| *count as usize).sum();
        if total > i32::MAX as usize {
            return Err(RankError::Connection(format!(
                "the ranks have {total} bytes for a barrier; the limit is {}",
                i32::MAX
            )));
        }
        self.rest.resize(total, 0);
        let firsts: Vec<i32> =
            counts.iter().scan(0, |sum, count| Some(std::mem::replace(sum, *sum + *count))).collect();
        if total > 0 {
            let mut parts = PartitionMut::new(&mut self.rest[..], &counts[..], &firsts[..]);
            world.all_gather_varcount_into(beyond, &mut parts);
        }
        all.resize_with(self.size, Vec::new);
        for (rank, message) in all.iter_mut().enumerate() {
            let block = &self.blocks[BLOCK * rank..BLOCK * (rank + 1)];
            let (first, count) = (firsts[rank] as usize, counts[rank] as usize);
            message.clear();
            message.extend_from_slice(&block[8..8 + lengths[rank].min(ROOM)]);
            message.extend_from_slice(&self.rest[first..first + count]);
        }
        Ok(())
    }

    /// Exchanges messages with non-blocking sends and receives, only between ranks that have data for each other.
    fn exchange(&mut self, out: &[Vec<u8>], lengths: &[usize], into: &mut Vec<Vec<u8>>) -> Result<(), RankError> {
        let world = SimpleCommunicator::world();
        into.resize_with(self.size, Vec::new);
        into.iter_mut().zip(lengths).for_each(|(message, length)| message.resize(*length, 0));
        mpi::request::scope(|scope| {
            let (mut receives, mut sends) = (Vec::new(), Vec::new());
            for (rank, message) in into.iter_mut().enumerate() {
                for piece in message.chunks_mut(PIECE) {
                    receives.push(world.process_at_rank(rank as i32).immediate_receive_into(scope, piece));
                }
            }
            for (rank, message) in out.iter().enumerate() {
                for piece in message.chunks(PIECE) {
                    sends.push(world.process_at_rank(rank as i32).immediate_send(scope, piece));
                }
            }
            receives.into_iter().for_each(|request| request.wait_without_status());
            sends.into_iter().for_each(|request| request.wait_without_status());
        });
        Ok(())
    }
}
