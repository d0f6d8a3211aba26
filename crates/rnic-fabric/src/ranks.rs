//! Ranks: processes that simulate one fabric together, each of them some of the fabric's partitions.
//!
//! Every rank executes the same program with the same input, and all ranks call the functions of this module in the
//! same order (SPMD). What carries the messages is an implementation of [`Ranks`]: [`local_ranks`] are threads of one
//! process; another crate has an implementation for MPI.

use serde::{Deserialize, Serialize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Why ranks cannot continue a run together. The text is one sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RankError {
    /// A rank has ended.
    #[error("rank {0} has ended before the run")]
    Ended(usize),
    /// A message of another rank cannot be decoded, or contradicts what this rank knows. The text names the part.
    #[error("a message between ranks is damaged: {0}")]
    Damaged(&'static str),
    /// The bodies of packets have no [`RankCodec`](crate::RankCodec).
    #[error("the packets of this transport cannot go from one rank to another")]
    NotEncodable,
    /// The connection between the ranks has failed, for a reason that its implementation knows.
    #[error("{0}")]
    Connection(String),
}

/// Messages between the ranks of a run. All ranks call the methods in the same order; a call returns when this rank has
/// the messages of the others.
pub trait Ranks: Send {
    /// Number of this rank, from 0. Rank 0 has the results of a run.
    fn rank(&self) -> usize;
    /// Number of ranks, at least 1.
    fn size(&self) -> usize;
    /// Sends `own` to every rank, and stores the messages of all ranks in `all`, in order of rank.
    ///
    /// # Errors
    /// Another rank cannot be reached.
    fn gather(&mut self, own: &[u8], all: &mut Vec<Vec<u8>>) -> Result<(), RankError>;
    /// Sends `out[r]` to each rank `r` for which it is not empty, and stores in `into[r]` the message of rank `r`,
    /// which has `lengths[r]` bytes; no message arrives from a rank whose length is 0.
    ///
    /// # Errors
    /// Another rank cannot be reached.
    fn exchange(&mut self, out: &[Vec<u8>], lengths: &[usize], into: &mut Vec<Vec<u8>>) -> Result<(), RankError>;
}

/// One of several ranks in threads of this process, connected by channels.
#[derive(Debug)]
struct LocalRank {
    rank: usize,
    /// Per rank: the channel to it, and the channel from it.
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

/// `count` ranks for threads of this process, in order of their numbers. They serve tests, and programs that want to
/// see what ranks would do without a cluster.
pub fn local_ranks(count: usize) -> Vec<Box<dyn Ranks>> {
    let mut to: Vec<Vec<Sender<Vec<u8>>>> = (0..count).map(|_| Vec::new()).collect();
    let mut from: Vec<Vec<Receiver<Vec<u8>>>> = (0..count).map(|_| Vec::new()).collect();
    for sending in &mut to {
        for receiving in &mut from {
            let (sender, receiver) = channel();
            sending.push(sender);
            receiving.push(receiver);
        }
    }
    let ranks = to.into_iter().zip(from).enumerate();
    ranks.map(|(rank, (to, from))| Box::new(LocalRank { rank, to, from }) as Box<dyn Ranks>).collect()
}

impl LocalRank {
    fn send(&self, to: usize, message: &[u8]) -> Result<(), RankError> {
        self.to[to].send(message.to_vec()).map_err(|_| RankError::Ended(to))
    }
    fn receive(&self, from: usize) -> Result<Vec<u8>, RankError> {
        self.from[from].recv().map_err(|_| RankError::Ended(from))
    }
}

impl Ranks for LocalRank {
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.to.len()
    }
    fn gather(&mut self, own: &[u8], all: &mut Vec<Vec<u8>>) -> Result<(), RankError> {
        (0..self.size()).try_for_each(|to| self.send(to, own))?;
        all.clear();
        for from in 0..self.size() {
            all.push(self.receive(from)?);
        }
        Ok(())
    }
    fn exchange(&mut self, out: &[Vec<u8>], lengths: &[usize], into: &mut Vec<Vec<u8>>) -> Result<(), RankError> {
        let sent = out.iter().enumerate().filter(|(_, message)| !message.is_empty());
        sent.into_iter().try_for_each(|(to, message)| self.send(to, message))?;
        into.clear();
        for (from, length) in lengths.iter().enumerate() {
            into.push(if *length > 0 { self.receive(from)? } else { Vec::new() });
        }
        Ok(())
    }
}

/// The costs of a run on one rank.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RankCosts {
    /// Windows of simulated time.
    pub windows: u64,
    /// Barriers at which all ranks exchanged messages.
    pub barriers: u64,
    /// Bytes of frames that the rank has sent to others.
    pub frame_bytes: u64,
    /// Time in which the rank simulated its partitions, in seconds.
    pub work_s: f64,
    /// Time at barriers, which includes waiting for slower ranks, in seconds.
    pub barriers_s: f64,
    /// Time from the first to the last window, in seconds.
    pub wall_s: f64,
    /// Median time of a barrier without work, in seconds, measured before the run.
    pub barrier_s: f64,
}

struct Inner {
    ranks: Box<dyn Ranks>,
    /// The first error; every later call fails with it.
    error: Option<RankError>,
    barriers: u64,
    spent: Duration,
}

/// A handle of this rank's connection to the others; clones share the connection.
#[derive(Clone)]
pub struct RankGroup {
    rank: usize,
    size: usize,
    inner: Arc<Mutex<Inner>>,
}

impl RankGroup {
    /// A group for this connection.
    pub fn new(ranks: Box<dyn Ranks>) -> RankGroup {
        let (rank, size) = (ranks.rank(), ranks.size());
        let inner = Inner { ranks, error: None, barriers: 0, spent: Duration::ZERO };
        RankGroup { rank, size, inner: Arc::new(Mutex::new(inner)) }
    }

    /// Number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }
    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }
    /// Whether this rank gets the results of runs.
    pub fn is_root(&self) -> bool {
        self.rank == 0
    }
    /// The first error of a call, after which all calls fail.
    pub fn error(&self) -> Option<RankError> {
        self.lock().error.clone()
    }
    /// Makes all later calls fail with `error`, for example because a message of another rank is damaged. Returns the
    /// first error of the group.
    pub fn fail(&self, error: RankError) -> RankError {
        self.lock().error.get_or_insert(error).clone()
    }
    /// Number of barriers so far, and the time spent in them.
    pub(crate) fn spent(&self) -> (u64, Duration) {
        let inner = self.lock();
        (inner.barriers, inner.spent)
    }

    /// See [`Ranks::gather`].
    ///
    /// # Errors
    /// Another rank cannot be reached.
    pub fn gather(&self, own: &[u8], all: &mut Vec<Vec<u8>>) -> Result<(), RankError> {
        self.timed(1, |ranks| ranks.gather(own, all))
    }

    /// See [`Ranks::exchange`].
    ///
    /// # Errors
    /// Another rank cannot be reached.
    pub fn exchange(&self, out: &[Vec<u8>], lengths: &[usize], into: &mut Vec<Vec<u8>>) -> Result<(), RankError> {
        // An exchange belongs to the barrier of the gather before it.
        self.timed(0, |ranks| ranks.exchange(out, lengths, into))
    }

    /// Sends `own` to rank 0. On rank 0 it returns the messages of all ranks, in order of rank; else an empty list.
    ///
    /// # Errors
    /// Another rank cannot be reached.
    pub fn collect(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>, RankError> {
        let mut all = Vec::new();
        self.gather(&(own.len() as u64).to_le_bytes(), &mut all)?;
        let length = |message: &Vec<u8>| Some(u64::from_le_bytes(message.as_slice().try_into().ok()?) as usize);
        let lengths: Option<Vec<usize>> = all.iter().map(length).collect();
        let mut lengths = lengths.ok_or_else(|| self.fail(RankError::Damaged("a length")))?;
        lengths[0] = 0;
        let mut out = vec![Vec::new(); self.size];
        if self.is_root() {
            let mut into = Vec::new();
            self.exchange(&out, &lengths, &mut into)?;
            into[0] = own;
            return Ok(into);
        }
        out[0] = own;
        self.exchange(&out, &vec![0; self.size], &mut Vec::new())?;
        Ok(Vec::new())
    }

    /// Replaces each number by its sum over all ranks.
    ///
    /// # Errors
    /// Another rank cannot be reached.
    pub fn sum(&self, numbers: &mut [u64]) -> Result<(), RankError> {
        let own: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut all = Vec::new();
        self.gather(&own, &mut all)?;
        numbers.fill(0);
        for message in &all {
            if message.len() != own.len() {
                return Err(self.fail(RankError::Damaged("numbers to add")));
            }
            for (sum, bytes) in numbers.iter_mut().zip(message.chunks_exact(8)) {
                *sum = sum.wrapping_add(u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
            }
        }
        Ok(())
    }

    /// The median time of a barrier with short messages, in seconds.
    ///
    /// # Errors
    /// Another rank cannot be reached.
    pub fn measure_barrier(&self) -> Result<f64, RankError> {
        let (mut all, mut times) = (Vec::new(), Vec::new());
        for _ in 0..51 {
            let before = self.spent().1;
            self.gather(&[0; 64], &mut all)?;
            times.push(self.spent().1 - before);
        }
        times.sort_unstable();
        let mut inner = self.lock();
        inner.barriers = 0;
        inner.spent = Duration::ZERO;
        Ok(times[times.len() / 2].as_secs_f64())
    }

    #[expect(clippy::disallowed_methods, reason = "the cost of barriers is measured here, and in no result of a run")]
    fn timed(
        &self, barriers: u64, call: impl FnOnce(&mut dyn Ranks) -> Result<(), RankError>,
    ) -> Result<(), RankError> {
        let mut inner = self.lock();
        if let Some(error) = &inner.error {
            return Err(error.clone());
        }
        let before = Instant::now();
        let result = call(&mut *inner.ranks);
        inner.spent += before.elapsed();
        inner.barriers += barriers;
        if let Err(error) = &result {
            inner.error = Some(error.clone());
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `each` on every rank, in a thread of its own; returns the results in order of rank.
    fn on_ranks<R: Send>(count: usize, each: impl Fn(RankGroup) -> R + Sync) -> Vec<R> {
        std::thread::scope(|scope| {
            let each = &each;
            let threads: Vec<_> =
                local_ranks(count).into_iter().map(|rank| scope.spawn(move || each(RankGroup::new(rank)))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn every_rank_gets_every_message() {
        let all = on_ranks(3, |group| {
            let (mut all, mut into) = (Vec::new(), Vec::new());
            group.gather(&[group.rank() as u8; 2], &mut all).unwrap();
            // Rank r sends r + 1 bytes to the next rank, and nothing to the others.
            let next = (group.rank() + 1) % 3;
            let mut out = vec![Vec::new(); 3];
            out[next] = vec![9; group.rank() + 1];
            let mut lengths = [0; 3];
            lengths[(group.rank() + 2) % 3] = (group.rank() + 2) % 3 + 1;
            group.exchange(&out, &lengths, &mut into).unwrap();
            let mut numbers = [1, group.rank() as u64];
            group.sum(&mut numbers).unwrap();
            (all, into.iter().map(Vec::len).collect::<Vec<_>>(), numbers, group.collect(vec![7]).unwrap().len())
        });
        for (rank, (all, lengths, numbers, collected)) in all.into_iter().enumerate() {
            assert_eq!(all, [[0, 0], [1, 1], [2, 2]]);
            let mut expected = [0; 3];
            expected[(rank + 2) % 3] = (rank + 2) % 3 + 1;
            assert_eq!(lengths, expected);
            assert_eq!((numbers, collected), ([3, 3], if rank == 0 { 3 } else { 0 }));
        }
    }

    #[test]
    fn a_rank_that_ends_is_an_error_of_the_others() {
        let errors = on_ranks(3, |group| {
            let mut all = Vec::new();
            group.gather(&[], &mut all).unwrap();
            if group.rank() == 1 {
                return None;
            }
            let error = group.gather(&[], &mut all).unwrap_err();
            assert_eq!(group.sum(&mut [1]).unwrap_err(), error);
            Some(error.to_string())
        });
        for error in errors.iter().flatten() {
            assert!(error.starts_with("rank ") && error.ends_with("has ended before the run"), "{error}");
        }
        assert_eq!(errors.iter().flatten().count(), 2);
    }
}
