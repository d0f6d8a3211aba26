//! Measures bandwidth: the client keeps as many messages outstanding as the plan permits.

use super::control::{Control, Message, unexpected};
use super::end::{End, Tag, Watch};
use super::live::Timed;
use super::pattern::Pattern;
use super::plan::Amount;
use super::{PerfError, Verified};
use crate::Op;
use crate::peak::Peak;
use rnic_endpoint::clock::{Clock, TimeSource};
use rnic_endpoint::exchange::RemoteMemory;
use rnic_transport::Time;
use rnic_verbs::{Completion, Data, Opcode, SendFlags, SendOp, SendRequest, Sge};
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of completions taken from the completion queue by one call.
const AT_ONCE: usize = 64;
/// Time for which the receiver of an unreliable connection waits for messages that are still in flight when the client
/// has finished.
const AFTERMATH: Time = Time::from_ms(20);

/// The client's result of a measurement of bandwidth.
pub(super) struct Outcome {
    /// Number of messages completed on each queue pair.
    pub(super) messages: Vec<u64>,
    /// Time from the first posted request to the last completion.
    pub(super) elapsed: Time,
    /// Highest rate in messages per second over at least 10 ms; 0 for a shorter measurement.
    pub(super) peak: f64,
    pub(super) verified: Verified,
}

/// The client in a measurement of bandwidth.
pub(super) struct Client<'a> {
    pub(super) end: &'a End,
    pub(super) control: &'a mut Control,
    pub(super) memory: RemoteMemory,
    pub(super) size: u32,
    pub(super) stop: &'a AtomicBool,
}

/// Numbers of messages that have been posted and completed on one queue pair.
#[derive(Clone, Copy, Default)]
struct Lane {
    posted: u64,
    done: u64,
}

impl Client<'_> {
    pub(super) fn run(mut self, amount: Amount) -> Result<Outcome, PerfError> {
        if self.end.setup.verify { self.run_in_rounds(amount) } else { self.run_freely(amount) }
    }

    fn heed(&self) -> Result<(), PerfError> {
        self.control.quiet()?;
        if self.is_stopped() { Err(PerfError::Interrupted) } else { Ok(()) }
    }

    /// Whether the caller has interrupted the measurement. The result then covers the messages before the interruption.
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn run_freely(&mut self, amount: Amount) -> Result<Outcome, PerfError> {
        let depth = u64::from(self.end.setup.depth);
        let group = self.group();
        let clock = Clock::start();
        let mut lanes = vec![Lane::default(); self.end.lanes.count()];
        let (limit, until) = match amount {
            Amount::Messages(count) => (count, Time::MAX),
            Amount::Duration(time) => (u64::MAX, time),
        };
        let mut completions = [Completion::BLANK; AT_ONCE];
        let mut peak = Peak::new(Time::ZERO);
        let mut elapsed = Time::ZERO;
        let mut open = true;
        let mut timed = self.end.live.as_ref().map(|live| Timed::new(live.clone(), self.size));
        loop {
            self.control.quiet()?;
            if self.is_stopped() {
                break;
            }
            open &= clock.now() < until;
            for (queue_pair, lane) in lanes.iter_mut().enumerate().filter(|_| open) {
                loop {
                    let count = group.min(limit - lane.posted);
                    if count == 0 || lane.posted - lane.done + count > depth {
                        break;
                    }
                    self.post(queue_pair, lane.posted, count as u32)?;
                    lane.posted += count;
                    if let Some(timed) = timed.as_mut().filter(|_| queue_pair == 0) {
                        timed.posted(&clock, lane.posted);
                    }
                }
            }
            if lanes.iter().all(|lane| lane.posted == lane.done && (!open || lane.posted == limit)) {
                break;
            }
            let mut messages = 0;
            for completion in self.end.wait(&mut completions)? {
                let tag = Tag::of(completion.wr_id);
                lanes[tag.queue_pair].done += u64::from(tag.value);
                messages += u64::from(tag.value);
            }
            if messages > 0 {
                elapsed = clock.now();
                peak.add(elapsed, messages);
                if let Some(timed) = &mut timed {
                    timed.completed(elapsed, messages, lanes[0].done);
                }
            }
        }
        let messages = lanes.iter().map(|lane| lane.done).collect();
        Ok(Outcome { messages, elapsed, peak: peak.best(), verified: Verified::default() })
    }

    /// Number of messages per completion: only the last message of each group is signalled.
    fn group(&self) -> u64 {
        if self.size > 16_384 { 1 } else { u64::from(self.end.setup.depth / 2).clamp(1, AT_ONCE as u64) }
    }

    /// Posts messages `first` to `first + count - 1` on a queue pair. Only the last message is signalled.
    fn post(&self, queue_pair: usize, first: u64, count: u32) -> Result<(), PerfError> {
        let slots = u64::from(self.end.setup.slots);
        let slot = |message: u64| (message % slots) as u32;
        let messages = first..first + u64::from(count);
        // Slot n has the same offset from slot 0 in this memory as in the peer's memory.
        let base = self.end.sge(queue_pair, 0, self.size)?;
        let offset = |slot| (self.end.offset(queue_pair, slot) - self.end.offset(queue_pair, 0)) as u64;
        let place = |message| Sge { addr: base.addr + offset(slot(message)), ..base };
        let places: Vec<Sge> = messages.clone().map(place).collect();
        let requests: Vec<SendRequest<'_>> = messages
            .zip(&places)
            .map(|(message, place)| SendRequest {
                wr_id: Tag::id(queue_pair, count),
                op: self.op(queue_pair, slot(message), message),
                data: Data::Gather(std::slice::from_ref(place)),
                flags: SendFlags { signaled: message + 1 == first + u64::from(count), ..SendFlags::default() },
            })
            .collect();
        let posted = self.end.lanes.post_sends(queue_pair, &requests)?;
        debug_assert_eq!(posted, requests.len(), "the send queue holds `depth` messages");
        Ok(())
    }

    fn op(&self, queue_pair: usize, slot: u32, message: u64) -> SendOp {
        let RemoteMemory { addr, rkey, .. } = self.memory;
        let at = |slot| addr + self.end.offset(queue_pair, slot) as u64;
        match self.end.setup.op {
            // On UC, Writes carry immediate data, so that the receiver gets completions and can count the messages that
            // arrive.
            Op::Write if self.end.setup.service == "uc" => SendOp::WriteImm { addr: at(slot), rkey, imm: 0 },
            Op::Write => SendOp::Write { addr: at(slot), rkey },
            Op::Read => SendOp::Read { addr: at(slot), rkey },
            Op::Send => SendOp::Send,
            Op::FetchAdd => SendOp::FetchAdd { addr: at(0), rkey, add: 1 },
            Op::CompareSwap => SendOp::CompareSwap { addr: at(0), rkey, compare: message, swap: message + 1 },
        }
    }

    /// Runs a measurement with verification. It sends messages in rounds, at most one message for each slot of the
    /// memory in a round, and compares every byte of a round before the next round overwrites the slots.
    fn run_in_rounds(&mut self, amount: Amount) -> Result<Outcome, PerfError> {
        let clock = Clock::start();
        let (limit, until) = match amount {
            Amount::Messages(count) => (count, Time::MAX),
            Amount::Duration(time) => (u64::MAX, time),
        };
        let mut verified = Verified::default();
        let (mut first, mut peak) = (0, Peak::new(Time::ZERO));
        while first < limit && clock.now() < until {
            let count = (limit - first).min(u64::from(self.end.setup.slots)) as u32;
            match self.verify(first, count) {
                Ok(more) => verified += more,
                Err(PerfError::Interrupted) => break,
                Err(error) => return Err(error),
            }
            first += u64::from(count);
            peak.add(clock.now(), u64::from(count) * self.end.lanes.count() as u64);
        }
        let messages = vec![first; self.end.lanes.count()];
        Ok(Outcome { messages, elapsed: clock.now(), peak: peak.best(), verified })
    }

    /// Sends and verifies the messages of a round; returns the bytes that the client itself has verified.
    fn verify(&mut self, first: u64, count: u32) -> Result<Verified, PerfError> {
        let op = self.end.setup.op;
        let mut verified = Verified::default();
        if op == Op::Read {
            self.round(first, count)?;
        }
        if matches!(op, Op::Write | Op::Send) {
            self.end.each_slot(first, count, self.size, |pattern, bytes| pattern.fill(bytes))?;
        }
        self.carry_out(first, count)?;
        match op {
            Op::Write => self.round(first, count)?,
            Op::Send => {}
            Op::Read => verified += self.end.check(first, count, self.size)?,
            Op::FetchAdd | Op::CompareSwap => verified += self.check_atomics(first, count),
        }
        Ok(verified)
    }

    /// Posts the messages of a round (messages that are verified together) on every queue pair, and waits until all of
    /// them are complete.
    fn carry_out(&mut self, first: u64, count: u32) -> Result<(), PerfError> {
        let mut left = 0;
        for message in first..first + u64::from(count) {
            for queue_pair in 0..self.end.lanes.count() {
                self.post(queue_pair, message, 1)?;
                left += 1;
            }
        }
        let mut completions = [Completion::BLANK; AT_ONCE];
        while left > 0 {
            self.heed()?;
            left -= self.end.wait(&mut completions)?.len();
        }
        Ok(())
    }

    /// Requests the server to verify a round (group) of Writes, or to write the data for a round of Reads, and waits
    /// until the server has done so.
    fn round(&mut self, first: u64, count: u32) -> Result<(), PerfError> {
        self.control.say(&Message::Round { first, count })?;
        match self.control.wait_for_message(&self.end.device, self.stop)? {
            Message::Checked => Ok(()),
            message => Err(unexpected(self.control.peer(), &message)),
        }
    }

    /// Checks the responses of atomic operations. The response to operation number n (from 0) must be n, because the
    /// value starts at 0 and each operation increases it by 1.
    fn check_atomics(&self, first: u64, count: u32) -> Verified {
        let mut verified = Verified::default();
        let slots = u64::from(self.end.setup.slots);
        self.end.region.with(|bytes| {
            for queue_pair in 0..self.end.lanes.count() {
                for message in first..first + u64::from(count) {
                    let at = self.end.offset(queue_pair, (message % slots) as u32);
                    let wrong = bytes[at..at + 8].iter().zip(message.to_ne_bytes()).filter(|(a, b)| **a != *b).count();
                    verified += Verified { bytes: 8, wrong: wrong as u64 };
                }
            }
        });
        verified
    }
}

impl End {
    /// Calls `with` on the bytes of each message of a round, which are messages `first` to `first + count - 1` of each
    /// queue pair. The memory is locked for one message at a time, so that the device can send and receive packets in
    /// between.
    pub(super) fn each_slot(
        &self, first: u64, count: u32, size: u32, mut with: impl FnMut(Pattern, &mut [u8]),
    ) -> Result<(), PerfError> {
        for queue_pair in 0..self.lanes.count() {
            for message in first..first + u64::from(count) {
                let at = self.offset(queue_pair, (message % u64::from(self.setup.slots)) as u32);
                let pattern = Pattern::new(self.setup.seed, queue_pair, message);
                self.region.with_mut(|bytes| with(pattern, &mut bytes[at..at + size as usize]));
                self.device.progress()?;
            }
        }
        Ok(())
    }

    /// Compares every byte of messages `first` to `first + count - 1` of each queue pair with its expected value.
    pub(super) fn check(&self, first: u64, count: u32, size: u32) -> Result<Verified, PerfError> {
        let mut verified = Verified::default();
        self.each_slot(first, count, size, |pattern, bytes| {
            verified += Verified { bytes: bytes.len() as u64, wrong: pattern.wrong(bytes) };
            // Clears the slot, so that bytes of this round cannot pass the comparison of the next round.
            bytes.fill(0);
        })?;
        Ok(verified)
    }
}

/// Runs a measurement of bandwidth at the server, which sends and receives packets, and checks received messages, until
/// the client has sent all messages. Returns the number of received messages and the result of the verification.
pub(super) fn attend(
    end: &End, control: &mut Control, size: u32, stop: &AtomicBool, watch: &mut Watch<'_>,
) -> Result<(u64, Verified), PerfError> {
    let mut verified = Verified::default();
    let mut completions = [Completion::BLANK; AT_ONCE];
    let mut taken = vec![0; end.lanes.count()];
    // The number of the first message of the next round. Rounds follow each other without gaps.
    let mut next = 0;
    let is_verified_in_rounds = end.setup.verify && matches!(end.setup.op, Op::Write | Op::Read);
    loop {
        match control.try_receive()? {
            None => watch.look()?,
            Some(Message::Round { first, count })
                if is_verified_in_rounds && first == next && (1..=end.setup.slots).contains(&count) =>
            {
                next += u64::from(count);
                watch.message_received();
                if end.setup.op == Op::Read {
                    end.each_slot(first, count, size, |pattern, bytes| pattern.fill(bytes))?;
                } else {
                    verified += end.check(first, count, size)?;
                }
                control.say(&Message::Checked)?;
            }
            Some(Message::End { .. }) => break,
            Some(message) => return Err(unexpected(control.peer(), &message)),
        }
        if stop.load(Ordering::Relaxed) {
            return Err(PerfError::Interrupted);
        }
        let arrived = end.wait(&mut completions)?;
        take(end, size, arrived, &mut taken, &mut verified)?;
    }
    // On a reliable connection all messages of the client are complete here, because the client has got their ACKs. On
    // an unreliable connection some messages may still be in flight.
    let clock = Clock::start();
    let aftermath = if end.setup.service == "uc" { AFTERMATH } else { Time::ZERO };
    loop {
        let arrived = end.poll(&mut completions)?;
        if arrived.is_empty() && clock.now() >= aftermath {
            break;
        }
        take(end, size, arrived, &mut taken, &mut verified)?;
    }
    Ok((taken.iter().sum(), verified))
}

/// Counts the received messages, compares their bytes if the plan has verification, and posts their receives again.
fn take(
    end: &End, size: u32, completions: &[Completion], taken: &mut [u64], verified: &mut Verified,
) -> Result<(), PerfError> {
    for completion in completions {
        if !matches!(completion.opcode, Opcode::Recv | Opcode::RecvWithImmediate) {
            continue;
        }
        let Tag { queue_pair, value: slot } = Tag::of(completion.wr_id);
        if end.setup.verify {
            let at = end.offset(queue_pair, slot);
            let pattern = Pattern::new(end.setup.seed, queue_pair, taken[queue_pair]);
            let wrong = end.region.with_mut(|bytes| {
                let bytes = &mut bytes[at..at + size as usize];
                let wrong = pattern.wrong(bytes);
                bytes.fill(0);
                wrong
            });
            let wrong = if completion.byte_len == size { wrong } else { u64::from(size) };
            *verified += Verified { bytes: u64::from(size), wrong };
        }
        taken[queue_pair] += 1;
        end.post_recv(queue_pair, slot)?;
    }
    Ok(())
}
