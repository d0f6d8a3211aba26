//! A port with fault injection, for tests: reproducible losses, duplicates, corruption, reordering and delays.

mod faults;
mod lane;

pub use faults::{CorruptionKind, FaultCounters, Faults, Probability, ProbabilityError, percentage};

use super::{Arrival, ArrivalTimes, Batch, Counters, Interest, Limits, Meta, Port, Received, SendError, TrafficClass};
use crate::clock::{Clock, TimeSource};
use lane::{Fate, Held, Hold, Lane};
use rnic_transport::Time;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::task::Waker;

/// A port that adds faults to another port: it loses, duplicates, corrupts, reorders and delays datagrams, as a bad
/// network would.
///
/// The faults are reproducible: with the same seed the same faults happen to the n-th datagram of a direction, whatever
/// its content and its batch. Only two times depend on the clock: when a delay ends, and when a reordered datagram is
/// delivered because no later datagrams arrive.
///
/// With faults on sent datagrams the port takes batches of one datagram only: if a datagram in the middle of a larger
/// batch were lost, the IPv4 identifications of the later datagrams would change, and their ICRCs would be wrong.
/// Faults on received datagrams do not limit the size of batches, so they are the right choice for measurements of
/// speed.
#[derive(Debug)]
pub struct FaultyPort<P, C = Clock> {
    inner: P,
    clock: C,
    sending: Lane<Outgoing>,
    receiving: Lane<Meta>,
    /// The bytes of the latest arrival (a batch of received datagrams). It is delivered in pieces if faults happened to
    /// some of its datagrams.
    stash: Vec<u8>,
    pieces: VecDeque<Piece>,
    /// The bytes of the last delivered datagram that was held back or duplicated.
    current: Vec<u8>,
}

/// A piece of a batch of received datagrams to which faults happened, which the next calls of [`Port::receive`]
/// deliver.
#[derive(Debug)]
enum Piece {
    /// Consecutive datagrams in `stash`, as a range of bytes.
    Run { meta: Meta, segment: usize, range: Range<usize> },
    /// One datagram that was held back or duplicated.
    Single { meta: Meta, data: Vec<u8> },
}

/// Addresses and traffic class with which a held datagram is sent later.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    destination: SocketAddr,
    source_port: u16,
    source_address: Option<IpAddr>,
    traffic_class: TrafficClass,
}

impl<P: Port> FaultyPort<P, Clock> {
    /// Adds the faults `sending` to the datagrams that `inner` sends, and the faults `receiving` to the datagrams that
    /// it receives. Each direction has its own random stream, derived from `seed`.
    pub fn new(inner: P, sending: Faults, receiving: Faults, seed: u64) -> FaultyPort<P, Clock> {
        FaultyPort::with_clock(inner, sending, receiving, seed, Clock::start())
    }
}

impl<P: Port, C: TimeSource + Send> FaultyPort<P, C> {
    /// Like [`FaultyPort::new`], but `clock` measures the delays. Tests use a clock that they advance themselves.
    pub fn with_clock(inner: P, sending: Faults, receiving: Faults, seed: u64, clock: C) -> FaultyPort<P, C> {
        FaultyPort {
            inner,
            clock,
            sending: Lane::new(sending, seed, 1),
            receiving: Lane::new(receiving, seed, 2),
            stash: Vec::new(),
            pieces: VecDeque::new(),
            current: Vec::new(),
        }
    }

    /// Replaces the faults of both directions. Datagrams that are held back at this time are delivered as before, and
    /// the random streams continue.
    ///
    /// Faults on sent datagrams reduce [`Limits::segments`](super::Limits) to 1. A caller that sets such faults while
    /// the port sends must send batches of one datagram from the beginning.
    pub fn set_faults(&mut self, sending: Faults, receiving: Faults) {
        self.sending.faults = sending;
        self.receiving.faults = receiving;
    }

    /// Returns the counters of the faults in each direction: first of sent, then of received datagrams.
    pub fn faults(&self) -> (FaultCounters, FaultCounters) {
        (self.sending.counters, self.receiving.counters)
    }

    /// Applies the faults `fate` to a datagram that is not lost, and sends or holds it. Returns `false` if the inner
    /// port's send buffer had no room for it.
    fn send_one(&mut self, batch: &Batch<'_>, fate: Fate, now: Time) -> Result<bool, SendError> {
        if fate.corruption.is_none() && fate.hold.is_none() {
            if self.inner.send(batch)? == 0 {
                return Ok(false);
            }
        } else {
            let mut data = self.sending.copy(batch.data.iter().map(|slice| &**slice));
            if let Some(corruption) = fate.corruption {
                corruption.apply(&mut data);
            }
            if let Some(hold) = fate.hold {
                self.sending.hold(Held { hold, meta: Outgoing::of(batch), data });
            } else {
                let sent = transmit(&mut self.inner, &Outgoing::of(batch), &data);
                self.sending.recycle(data);
                if sent? == 0 {
                    return Ok(false);
                }
            }
        }
        if fate.duplicated && self.inner.send(batch).is_ok_and(|sent| sent == 0) {
            let data = self.sending.copy(batch.data.iter().map(|slice| &**slice));
            self.sending.hold(Held { hold: Hold { due: now, until: 0 }, meta: Outgoing::of(batch), data });
        }
        Ok(true)
    }

    /// Sends the held datagrams whose delay or reordering is over.
    fn flush(&mut self) {
        if self.sending.holds_nothing() {
            return;
        }
        let now = self.clock.now();
        while let Some(held) = self.sending.release(now, self.sending.counters.seen) {
            if transmit(&mut self.inner, &held.meta, &held.data).is_ok_and(|sent| sent == 0) {
                self.sending.hold(held);
                return;
            }
            // A datagram that the inner port refuses with an error is lost, as in a network.
            self.sending.recycle(held.data);
        }
    }
}

impl Outgoing {
    fn of(batch: &Batch<'_>) -> Outgoing {
        let Batch { destination, source_port, source_address, traffic_class, .. } = *batch;
        Outgoing { destination, source_port, source_address, traffic_class }
    }
}

fn transmit<P: Port>(inner: &mut P, to: &Outgoing, data: &[u8]) -> Result<usize, SendError> {
    let Outgoing { destination, source_port, source_address, traffic_class } = *to;
    let segment = data.len();
    inner.send(&Batch { destination, source_port, source_address, traffic_class, segment, data: &[IoSlice::new(data)] })
}

impl Lane<Meta> {
    /// Appends to `pieces` the held datagrams that are due at `now`, or after datagram number `passed`.
    fn release_into(&mut self, pieces: &mut VecDeque<Piece>, now: Time, passed: u64) {
        while let Some(held) = self.release(now, passed) {
            pieces.push_back(Piece::Single { meta: held.meta, data: held.data });
        }
    }

    /// Applies faults to a batch of received datagrams, whose bytes are at the beginning of `stash`. Returns `false` if
    /// the batch can be delivered as it is. Otherwise a fault happened, or a held datagram is due, and `pieces` are the
    /// datagrams to deliver instead.
    fn strike(&mut self, batch: &Received, now: Time, stash: &mut [u8], pieces: &mut VecDeque<Piece>) -> bool {
        let segment = batch.segment.max(1);
        let meta_at = |at: usize| Meta {
            identification: batch.meta.identification.map(|first| first.wrapping_add((at / segment) as u16)),
            // The fault stands for one of the network, so the datagram arrives when the port delivers it.
            arrived_ns: None,
            ..batch.meta
        };
        let mut struck = false;
        let mut run = 0; // offset of the first byte that is not yet in `pieces`
        for at in (0..batch.length).step_by(segment) {
            let end = batch.length.min(at + segment);
            let fate = self.fate(now);
            let passed = self.counters.seen;
            if fate == Fate::PASSES && !self.may_release(now, passed) {
                continue;
            }
            struck = true;
            // The duplicate is copied before the original is corrupted.
            let duplicate = fate.duplicated.then(|| self.copy([&stash[at..end]].into_iter()));
            if let Some(corruption) = fate.corruption {
                corruption.apply(&mut stash[at..end]);
            }
            let passes = !fate.lost && fate.hold.is_none();
            push_run(pieces, meta_at(run), segment, run..if passes { end } else { at });
            run = end;
            if let Some(hold) = fate.hold {
                let data = self.copy([&stash[at..end]].into_iter());
                self.hold(Held { hold, meta: meta_at(at), data });
            }
            if let Some(data) = duplicate {
                pieces.push_back(Piece::Single { meta: meta_at(at), data });
            }
            self.release_into(pieces, now, passed);
        }
        if struck {
            push_run(pieces, meta_at(run), segment, run..batch.length);
        }
        struck
    }
}

fn push_run(pieces: &mut VecDeque<Piece>, meta: Meta, segment: usize, range: Range<usize>) {
    if !range.is_empty() {
        pieces.push_back(Piece::Run { meta, segment, range });
    }
}

impl<P: Port, C: TimeSource + Send> Port for FaultyPort<P, C> {
    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn source_port(&self, hash: u32) -> u16 {
        self.inner.source_port(hash)
    }

    fn limits(&self) -> Limits {
        let limits = self.inner.limits();
        if self.sending.faults.none() { limits } else { Limits { segments: 1, ..limits } }
    }

    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize> {
        self.inner.longest_datagram(destination)
    }

    /// Datagrams to which a fault happened have no arrival time.
    fn arrival_times(&self) -> ArrivalTimes {
        self.inner.arrival_times()
    }

    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError> {
        if self.sending.faults.none() {
            return self.inner.send(batch);
        }
        batch.check(self.inner.local_addr(), self.limits())?;
        self.flush();
        let now = self.clock.now();
        let mark = self.sending.mark();
        let fate = self.sending.fate(now);
        let taken = if fate.lost { Ok(true) } else { self.send_one(batch, fate, now) };
        if !matches!(taken, Ok(true)) {
            // The inner port did not take the datagram. The same faults must happen to it when the caller tries again.
            self.sending.rewind(mark);
            return taken.map(usize::from);
        }
        self.flush();
        Ok(1)
    }

    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        self.flush();
        if self.receiving.faults.none() && self.receiving.holds_nothing() && self.pieces.is_empty() {
            return self.inner.receive();
        }
        let now = self.clock.now();
        self.receiving.release_into(&mut self.pieces, now, self.receiving.counters.seen);
        if self.pieces.is_empty() {
            let Some(batch) = self.inner.receive_into(&mut self.stash)? else {
                return Ok(None);
            };
            let Received { meta, segment, length } = batch;
            if !self.receiving.strike(&batch, now, &mut self.stash, &mut self.pieces) {
                return Ok(Some(Arrival { meta, segment, data: &self.stash[..length] }));
            }
            if self.pieces.is_empty() {
                return Ok(Some(Arrival { meta, segment, data: &[] }));
            }
        }
        Ok(self.pieces.pop_front().map(|piece| match piece {
            Piece::Run { meta, segment, range } => Arrival { meta, segment, data: &self.stash[range] },
            Piece::Single { meta, data } => {
                let last = std::mem::replace(&mut self.current, data);
                self.receiving.recycle(last);
                Arrival { meta, segment: self.current.len().max(1), data: &self.current }
            }
        }))
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()> {
        self.flush();
        if !self.pieces.is_empty() {
            return Ok(());
        }
        let due = self.sending.due().min(self.receiving.due());
        let held = (due != Time::MAX).then(|| due.saturating_sub(self.clock.now()));
        self.inner.wait(interest, [timeout, held].into_iter().flatten().min())
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
