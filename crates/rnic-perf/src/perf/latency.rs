//! Measures latency with one outstanding message at a time.

use super::PerfError;
use super::control::{Control, Message, unexpected};
use super::end::{End, Tag, Watch};
use super::plan::Amount;
use crate::Op;
use rnic_endpoint::clock::{Clock, TimeSource};
use rnic_endpoint::exchange::RemoteMemory;
use rnic_transport::Time;
use rnic_verbs::{Completion, Data, Opcode, SendFlags, SendOp, SendRequest, Sge};
use std::sync::atomic::{AtomicBool, Ordering};

/// Time without a response after which a measurement is aborted. It takes effect only on unreliable connections: on
/// reliable connections the work request fails earlier.
const GIVE_UP: Time = Time::from_ms(10_000);
/// Number of polls between two checks of the control connection and the clock.
const LOOKS: u32 = 256;
/// Slot (place of one message in the registered memory) from which messages are sent.
const OUT: u32 = 0;
/// Slot (place of one message in the registered memory) into which messages are received.
const IN: u32 = 1;

/// The message of a ping-pong, which client and server send back and forth, from the view of one end.
pub(super) struct Ball<'a> {
    pub(super) end: &'a End,
    pub(super) memory: RemoteMemory,
    pub(super) size: u32,
    pub(super) stop: &'a AtomicBool,
    /// Whether the receiver detects a message by polling its last byte. Otherwise it waits for a completion.
    by_byte: bool,
}

impl<'a> Ball<'a> {
    pub(super) fn new(end: &'a End, memory: RemoteMemory, size: u32, mtu: u32, stop: &'a AtomicBool) -> Ball<'a> {
        let in_order = end.lanes.is_ordered() || size <= mtu;
        let by_byte = end.setup.op == Op::Write && end.setup.polled && in_order;
        Ball { end, memory, size, stop, by_byte }
    }

    /// Sends the message for the `turn`-th time, counted from 1.
    fn throw(&self, turn: u64) -> Result<(), PerfError> {
        let last = self.end.offset(0, OUT) + self.size as usize - 1;
        self.end.region.with_mut(|bytes| bytes[last] = turn as u8);
        let RemoteMemory { addr, rkey, .. } = self.memory;
        let addr = addr + self.end.offset(0, IN) as u64;
        let op = match self.end.setup.op {
            Op::Write if self.by_byte => SendOp::Write { addr, rkey },
            Op::Write => SendOp::WriteImm { addr, rkey, imm: turn as u32 },
            _ => SendOp::Send,
        };
        self.end.post_one(op, self.end.sge(0, OUT, self.size)?)
    }

    /// Checks whether the message has arrived for the `turn`-th time.
    fn look(&self, turn: u64) -> Result<bool, PerfError> {
        let mut out = [Completion::BLANK; 8];
        let completions = if self.end.setup.polled { self.end.poll(&mut out)? } else { self.end.wait(&mut out)? };
        let came = completions.iter().find(|completion| is_receive(completion));
        if let Some(came) = came {
            self.end.post_recv(0, Tag::of(came.wr_id).value)?;
        }
        if self.by_byte {
            let mut last = [0];
            self.end.region.read(self.end.offset(0, IN) + self.size as usize - 1, &mut last)?;
            return Ok(last[0] == turn as u8);
        }
        Ok(came.is_some())
    }

    /// Waits until the message arrives for the `turn`-th time. Calls `heed` at intervals, and stops waiting if `heed`
    /// returns `false`. Returns whether the message has arrived.
    fn catch(&self, turn: u64, heed: &mut impl FnMut() -> Result<bool, PerfError>) -> Result<bool, PerfError> {
        loop {
            for _ in 0..if self.end.setup.polled { LOOKS } else { 1 } {
                if self.look(turn)? {
                    return Ok(true);
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(PerfError::Interrupted);
            }
            if !heed()? {
                return Ok(false);
            }
        }
    }
}

impl End {
    /// Posts the only outstanding request of a measurement of latency.
    fn post_one(&self, op: SendOp, local: Sge) -> Result<(), PerfError> {
        let (wr_id, flags) = (Tag::id(0, 1), SendFlags::SIGNALED);
        let request = SendRequest { wr_id, op, data: Data::Gather(&[local]), flags };
        self.lanes.post_sends(0, &[request]).map(|_| ())
    }
}

fn is_receive(completion: &Completion) -> bool {
    matches!(completion.opcode, Opcode::Recv | Opcode::RecvWithImmediate)
}

/// Runs a measurement of latency at the client. Returns the round-trip time of each message.
pub(super) fn measure(ball: &Ball<'_>, control: &Control, amount: Amount) -> Result<Vec<Time>, PerfError> {
    let clock = Clock::start();
    let mut times = Vec::new();
    let mut start = Time::ZERO;
    for turn in 1.. {
        let over = match amount {
            Amount::Messages(count) => turn > count,
            Amount::Duration(time) => start >= time,
        };
        if over {
            break;
        }
        let mut heed = || {
            control.quiet()?;
            if clock.now().saturating_sub(start) > GIVE_UP {
                return Err(PerfError::Lost { seconds: GIVE_UP.as_ps() / 1_000_000_000_000 });
            }
            Ok(true)
        };
        let turned = if ball.end.setup.op.is_fetching() {
            fetch(ball, turn, &mut heed)
        } else {
            ball.throw(turn).and_then(|()| ball.catch(turn, &mut heed)).map(|_| ())
        };
        match turned {
            // After an interruption, the result consists of the messages that were measured before.
            Err(PerfError::Interrupted) => break,
            other => other?,
        }
        let now = clock.now();
        times.push(now - start);
        start = now;
    }
    Ok(times)
}

/// Posts a Read or an atomic operation and waits for its completion.
fn fetch(ball: &Ball<'_>, turn: u64, heed: &mut impl FnMut() -> Result<bool, PerfError>) -> Result<(), PerfError> {
    let RemoteMemory { addr, rkey, .. } = ball.memory;
    let op = match ball.end.setup.op {
        Op::FetchAdd => SendOp::FetchAdd { addr, rkey, add: 1 },
        Op::CompareSwap => SendOp::CompareSwap { addr, rkey, compare: turn - 1, swap: turn },
        _ => SendOp::Read { addr, rkey },
    };
    ball.end.post_one(op, ball.end.sge(0, IN, ball.size)?)?;
    let mut out = [Completion::BLANK; 1];
    loop {
        for _ in 0..if ball.end.setup.polled { LOOKS } else { 1 } {
            let done = if ball.end.setup.polled { ball.end.poll(&mut out)? } else { ball.end.wait(&mut out)? };
            if !done.is_empty() {
                return Ok(());
            }
        }
        if ball.stop.load(Ordering::Relaxed) {
            return Err(PerfError::Interrupted);
        }
        heed()?;
    }
}

/// Runs a measurement of latency at the server, which sends each message back until the client ends the measurement.
/// For Reads and atomics, the server only lets its device send and receive packets.
pub(super) fn attend(ball: &Ball<'_>, control: &Control, watch: &mut Watch<'_>) -> Result<(), PerfError> {
    let mut heed = || match control.try_receive()? {
        None => watch.look().map(|()| true),
        Some(Message::End { .. }) => Ok(false),
        Some(message) => Err(unexpected(control.peer(), &message)),
    };
    if ball.end.setup.op.is_fetching() {
        let mut out = [Completion::BLANK; 8];
        while heed()? {
            for _ in 0..if ball.end.setup.polled { LOOKS } else { 1 } {
                if ball.end.setup.polled {
                    ball.end.poll(&mut out)?
                } else {
                    ball.end.wait(&mut out)?
                };
            }
            if ball.stop.load(Ordering::Relaxed) {
                return Err(PerfError::Interrupted);
            }
        }
        return Ok(());
    }
    for turn in 1.. {
        if !ball.catch(turn, &mut heed)? {
            break;
        }
        ball.throw(turn)?;
    }
    Ok(())
}
