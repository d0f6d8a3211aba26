//! The barrier of ranks: several processes simulate one fabric, and exchange messages at the end of each window of
//! simulated time.
//!
//! Every rank has all partitions of the plan, but the partitions of other ranks are empty: a frame for such a partition
//! reaches its mailbox, as between the partitions of one process, and from there goes to the other rank. At a barrier,
//! each rank sends to all others the time of its next event, the notices of its hosts, and how many bytes of frames it
//! has for each of them; then the ranks exchange the frames. So every rank knows the time of the earliest event of the
//! whole fabric, and all of them simulate the same windows.

use super::Fabric;
use super::collection::Collected;
use crate::hosts::PartitionedHosts;
use crate::packet::Body;
use crate::rank_message::{append, take};
use crate::ranks::{RankCosts, RankError, RankGroup};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// State of a fabric that several ranks simulate together.
pub(super) struct RankState {
    pub(super) group: RankGroup,
    /// Time of the earliest event of any rank at the latest barrier, in picoseconds.
    pub(super) next: u64,
    /// Frames that all ranks had transmitted at the latest barrier.
    pub(super) hops: u64,
    /// Messages of a barrier, kept for their memory: what this rank sends to all, what it receives from all, and the
    /// frames that it sends to and receives from each rank.
    own: Vec<u8>,
    all: Vec<Vec<u8>>,
    outgoing: Vec<Vec<u8>>,
    incoming: Vec<Vec<u8>>,
    windows: u64,
    frame_bytes: u64,
    work: Duration,
    began: Option<Instant>,
    wall: Duration,
    /// Time of a barrier without work, in seconds.
    barrier_s: f64,
    /// On rank 0 at the end of a run: the state of all ranks.
    pub(super) collected: Option<Collected>,
}

/// What a rank sends to all ranks at a barrier. The notices of its hosts follow.
#[derive(Serialize, Deserialize)]
struct BarrierMessage {
    /// Time of the earliest event of the rank or of a frame that it sends, in picoseconds; `u64::MAX`: none.
    next: u64,
    /// Frames that the rank has transmitted since the run began.
    hops: u64,
    /// For each rank: bytes of frames that the sender of this message has for it.
    frame_bytes: Vec<u64>,
}

/// Hosts of any type, which exchange notices with those of other ranks. So a barrier is compiled for each type of
/// packets, not of hosts.
trait Notices {
    /// See [`PartitionedHosts::send_notices`].
    fn send(&mut self, message: &mut Vec<u8>) -> Result<(), RankError>;
    /// See [`PartitionedHosts::receive_notices`].
    fn receive(&mut self, rank: usize, message: &[u8]) -> Result<(), RankError>;
}

impl<E: PartitionedHosts> Notices for E {
    fn send(&mut self, message: &mut Vec<u8>) -> Result<(), RankError> {
        self.send_notices(message)
    }
    fn receive(&mut self, rank: usize, message: &[u8]) -> Result<(), RankError> {
        self.receive_notices(rank, message)
    }
}

#[expect(clippy::disallowed_methods, reason = "the cost of ranks and threads is measured, and in no result of a run")]
pub(super) fn clock() -> Instant {
    Instant::now()
}

impl<B: Body> Fabric<B> {
    /// Makes this fabric the part of rank `group.rank()` in a fabric that the ranks of `group` simulate together. The
    /// plan of the fabric must be the plan of the rank ([`PartitionPlan::on_rank`](crate::PartitionPlan::on_rank)).
    /// Must be called before the run begins.
    ///
    /// # Errors
    /// Packets of this type cannot go from one rank to another, or a rank cannot be reached.
    pub fn join(&mut self, group: RankGroup) -> Result<(), RankError> {
        if B::RANK_CODEC.is_none() && group.size() > 1 {
            return Err(RankError::NotEncodable);
        }
        let barrier_s = group.measure_barrier()?;
        let outgoing = vec![Vec::new(); group.size()];
        self.ranks = Some(Box::new(RankState {
            group,
            next: u64::MAX,
            hops: 0,
            own: Vec::new(),
            all: Vec::new(),
            outgoing,
            incoming: Vec::new(),
            windows: 0,
            frame_bytes: 0,
            work: Duration::ZERO,
            began: None,
            wall: Duration::ZERO,
            barrier_s,
            collected: None,
        }));
        Ok(())
    }

    /// The ranks that simulate this fabric; `None` for a fabric of one process.
    pub fn ranks(&self) -> Option<&RankGroup> {
        self.ranks.as_ref().map(|ranks| &ranks.group)
    }

    /// The costs of this rank so far; `None` for a fabric of one process.
    pub fn rank_costs(&self) -> Option<RankCosts> {
        let ranks = self.ranks.as_ref()?;
        let (barriers, spent) = ranks.group.spent();
        Some(RankCosts {
            windows: ranks.windows,
            barriers,
            frame_bytes: ranks.frame_bytes,
            work_s: ranks.work.as_secs_f64(),
            barriers_s: spent.as_secs_f64(),
            wall_s: ranks.wall.as_secs_f64(),
            barrier_s: ranks.barrier_s,
        })
    }

    /// Whether another rank cannot be reached, so that the run must end.
    pub(super) fn has_lost_a_rank(&self) -> bool {
        self.ranks.as_ref().is_some_and(|ranks| ranks.group.error().is_some())
    }

    /// Starts the measurement of a window's work; `None` without ranks.
    pub(super) fn begin_work(&mut self) -> Option<Instant> {
        self.ranks.as_mut().map(|ranks| {
            let now = clock();
            ranks.began.get_or_insert(now);
            now
        })
    }

    /// Waits at a barrier for the other ranks, after this rank has simulated its partitions from `began` on. If
    /// `is_window_end` is false, the window continues after an observation, and the hosts send no notices.
    #[inline]
    pub(super) fn synchronise<E: PartitionedHosts>(
        &mut self, hosts: &mut E, began: Option<Instant>, is_window_end: bool,
    ) {
        if self.ranks.is_some() {
            self.wait_for_ranks(hosts, began, is_window_end);
        }
    }

    fn wait_for_ranks(&mut self, hosts: &mut dyn Notices, began: Option<Instant>, is_window_end: bool) {
        let Some(mut ranks) = self.ranks.take() else { return };
        if let Some(began) = began {
            ranks.work += clock() - began;
            ranks.windows += u64::from(is_window_end);
        }
        if let Err(error) = self.barrier(&mut ranks, is_window_end.then_some(hosts)) {
            // The engine asks the group for the error.
            ranks.group.fail(error);
        }
        if let Some(began) = ranks.began {
            ranks.wall = clock() - began;
        }
        self.ranks = Some(ranks);
    }

    /// Determines the time of the earliest event of all ranks, and exchanges frames; with `hosts`, also their notices.
    fn barrier(&mut self, ranks: &mut RankState, mut hosts: Option<&mut dyn Notices>) -> Result<(), RankError> {
        let RankState { group, own, all, outgoing, incoming, .. } = ranks;
        let rank = group.rank();
        let next = self.send_frames(outgoing)?;
        let frame_bytes: Vec<u64> = outgoing.iter().map(|frames| frames.len() as u64).collect();
        ranks.frame_bytes += frame_bytes.iter().sum::<u64>();
        let hops = self.partitions.iter().map(|partition| partition.links.hops).sum();
        own.clear();
        append(&BarrierMessage { next, hops, frame_bytes }, own)?;
        if let Some(hosts) = &mut hosts {
            hosts.send(own)?;
        }
        group.gather(own, all)?;
        ranks.next = u64::MAX;
        ranks.hops = 0;
        let mut lengths = Vec::with_capacity(all.len());
        for (sender, message) in all.iter().enumerate() {
            let mut message = &message[..];
            let BarrierMessage { next, hops, frame_bytes } = take(&mut message, "the head of a barrier")?;
            ranks.next = ranks.next.min(next);
            ranks.hops += hops;
            let length = frame_bytes.get(rank).ok_or(RankError::Damaged("the head of a barrier"))?;
            lengths.push(*length as usize);
            if let Some(hosts) = &mut hosts {
                hosts.receive(sender, message)?;
            }
        }
        // A rank sends nothing to a rank without a common link, and does not wait for it.
        group.exchange(outgoing, &lengths, incoming)?;
        incoming.iter().try_for_each(|frames| self.receive_frames(frames))
    }

    /// Moves the frames for other ranks into one message for each rank; returns the time of the earliest event of this
    /// rank or of a frame that it sends.
    fn send_frames(&mut self, messages: &mut [Vec<u8>]) -> Result<u64, RankError> {
        messages.iter_mut().for_each(Vec::clear);
        let mut next = u64::MAX;
        for (number, partition) in self.partitions.iter_mut().enumerate() {
            if self.plan.is_here(number as u32) {
                next = next.min(partition.next);
                continue;
            }
            partition.next = u64::MAX;
            let message = &mut messages[self.plan.rank_of(number, messages.len())];
            for (from, mailbox) in partition.links.inbox.iter_mut().enumerate() {
                if mailbox.first_at < u64::MAX {
                    append(&(from, number), message)?;
                    next = next.min(mailbox.append_to(message)?);
                }
            }
        }
        Ok(next)
    }

    /// Puts the frames of another rank's message into the mailboxes of this rank's partitions.
    fn receive_frames(&mut self, mut message: &[u8]) -> Result<(), RankError> {
        const PARTITION: &str = "the partition of frames";
        while !message.is_empty() {
            let (from, to): (usize, usize) = take(&mut message, PARTITION)?;
            let partition = self.partitions.get_mut(to).filter(|_| self.plan.is_here(to as u32));
            let partition = partition.ok_or(RankError::Damaged(PARTITION))?;
            let ports = partition.links.ports.len();
            let priorities = partition.links.priorities;
            let mailbox = partition.links.inbox.get_mut(from).ok_or(RankError::Damaged(PARTITION))?;
            mailbox.take_from(&mut message, ports, priorities)?;
            partition.next = partition.next.min(mailbox.first_at);
        }
        Ok(())
    }
}
