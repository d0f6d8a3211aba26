//! The RDMA traffic of perftest's tests of bandwidth and latency.

use super::{Error, Op, Session};
use crate::peak::Peak;
use rnic_endpoint::{Clock, TimeSource};
use rnic_transport::Time;
use rnic_verbs::{Completion, SendOp, Status};

/// Bit in the identifier of a work request that marks a receive. The low 32 bits are the index of its queue pair.
const RECEIVE: u64 = 1 << 32;

/// Numbers of completed sends and receives on each queue pair.
struct Progress {
    found: [Completion; 16],
    sent: Vec<u32>,
    received: Vec<u32>,
}

impl Progress {
    fn new(pairs: usize) -> Progress {
        Progress { found: [Completion::BLANK; 16], sent: vec![0; pairs], received: vec![0; pairs] }
    }

    fn total(&self) -> u64 {
        self.sent.iter().chain(&self.received).map(|count| u64::from(*count)).sum()
    }
}

impl Session {
    pub(super) fn post_receive(&self, index: usize, number: u32) -> Result<(), Error> {
        let place = self.region.slice(self.place(index, number), self.options.size as usize)?;
        Ok(self.pairs[index].post_recv(RECEIVE | index as u64, &[place])?)
    }

    /// Posts message `number` of queue pair `index`. Its data come from the message's slot in the local end's memory.
    fn post(&self, index: usize, number: u32, op: SendOp) -> Result<(), Error> {
        let start = index * self.layout.part + self.layout.offset(number);
        Ok(self.pairs[index].post(index as u64, op, &[self.region.slice(start, self.options.size as usize)?])?)
    }

    /// Returns the operation of message `number` of queue pair `index`, with the remote address that perftest uses.
    fn request(&self, index: usize, number: u32) -> SendOp {
        let rkey = self.peers[index].rkey;
        let addr = self.peers[index].buffer.wrapping_add(self.layout.offset(number) as u64);
        match self.options.op {
            Op::Write => SendOp::Write { addr, rkey },
            Op::Read => SendOp::Read { addr, rkey },
            Op::Send => SendOp::Send,
            Op::FetchAdd => SendOp::FetchAdd { addr, rkey, add: 1 },
            Op::CompareSwap => SendOp::CompareSwap { addr, rkey, compare: 0, swap: 0 },
        }
    }

    /// Waits for completions and counts them. Posts a new receive for each completed receive, as long as further
    /// messages will need it.
    fn complete(&self, progress: &mut Progress) -> Result<(), Error> {
        let timeout = self.options.timeout;
        let count = self.cq.wait(&mut progress.found, timeout)?;
        if count == 0 {
            return Err(Error::Silence(timeout, progress.total()));
        }
        for at in 0..count {
            let Completion { wr_id, status, byte_len, .. } = progress.found[at];
            let index = (wr_id & 0xffff_ffff) as usize;
            let receive = wr_id & RECEIVE != 0;
            if status != Status::Success {
                let what = if receive { "a receive" } else { "a request" };
                return Err(Error::Failed { what, done: progress.total(), status });
            }
            if !receive {
                progress.sent[index] += 1;
                continue;
            }
            if byte_len != self.options.size {
                return Err(Error::Length { found: byte_len, expected: self.options.size });
            }
            let number = progress.received[index].wrapping_add(self.options.receives);
            progress.received[index] += 1;
            // The receives of the last messages are already posted.
            if number < self.options.messages {
                self.post_receive(index, number)?;
            }
        }
        Ok(())
    }

    /// Runs a test of bandwidth as the requester: posts all messages and waits for their completions.
    pub(super) fn request_all(&mut self) -> Result<(), Error> {
        let (messages, depth) = (self.options.messages, self.options.depth);
        let mut progress = Progress::new(self.pairs.len());
        let mut posted = vec![0; self.pairs.len()];
        let clock = Clock::start();
        let mut peak = Peak::new(Time::ZERO);
        while progress.sent.iter().any(|sent| *sent < messages) {
            for (index, posted) in posted.iter_mut().enumerate() {
                while *posted < messages && *posted - progress.sent[index] < depth {
                    self.post(index, *posted, self.request(index, *posted))?;
                    *posted += 1;
                }
            }
            let before = progress.total();
            self.complete(&mut progress)?;
            peak.add(clock.now(), progress.total() - before);
        }
        (self.elapsed, self.peak) = (clock.now(), peak.best());
        Ok(())
    }

    /// Runs a test of the bandwidth of Sends as the receiver: receives all messages.
    pub(super) fn receive_all(&mut self) -> Result<(), Error> {
        let mut progress = Progress::new(self.pairs.len());
        let clock = Clock::start();
        let mut peak = Peak::new(Time::ZERO);
        while progress.received.iter().any(|received| *received < self.options.messages) {
            let before = progress.total();
            self.complete(&mut progress)?;
            peak.add(clock.now(), progress.total() - before);
        }
        (self.elapsed, self.peak) = (clock.now(), peak.best());
        Ok(())
    }

    /// Runs a test of the latency of Reads or atomics as the requester: one operation after the other, all on the first
    /// bytes of the peer's memory. Checks that each atomic returns the value that the previous operation stored.
    pub(super) fn request_one_by_one(&mut self) -> Result<(), Error> {
        let clock = Clock::start();
        let mut progress = Progress::new(1);
        let mut expected: Option<u64> = None;
        for message in 0..self.options.messages {
            let mut op = self.request(0, 0);
            if let (SendOp::CompareSwap { compare, swap, .. }, Some(there)) = (&mut op, expected) {
                // The first operation returns the initial value. Each later one compares with the stored value, so that
                // it succeeds, and adds 1.
                (*compare, *swap) = (there, there.wrapping_add(1));
            }
            let start = clock.now();
            self.post(0, 0, op)?;
            while progress.sent[0] <= message {
                self.complete(&mut progress)?;
            }
            self.latencies.push(clock.now().saturating_sub(start));
            if self.options.op.is_atomic() {
                let mut bytes = [0; 8];
                self.region.read(0, &mut bytes)?;
                // A NIC stores the value in the byte order of the host.
                let found = u64::from_ne_bytes(bytes);
                if let Some(expected) = expected.filter(|expected| *expected != found) {
                    return Err(Error::Wrong { message, found, expected });
                }
                expected = Some(match op {
                    SendOp::FetchAdd { add, .. } => found.wrapping_add(add),
                    SendOp::CompareSwap { compare, swap, .. } if compare == found => swap,
                    _ => found,
                });
            }
        }
        self.elapsed = clock.now();
        Ok(())
    }

    /// Runs a test of the latency of Sends: both ends send alternately. With `first` the local end sends the first
    /// message.
    pub(super) fn send_in_turn(&mut self, first: bool) -> Result<(), Error> {
        let clock = Clock::start();
        let mut progress = Progress::new(1);
        for number in 0..self.options.messages {
            let due = if first { number } else { number + 1 };
            // The previous message must also be complete, because the send queue holds only one request.
            while progress.received[0] < due || progress.sent[0] < number {
                self.complete(&mut progress)?;
            }
            self.turn(&clock, number);
            self.post(0, 0, SendOp::Send)?;
        }
        while progress.received[0] < self.options.messages || progress.sent[0] < self.options.messages {
            self.complete(&mut progress)?;
        }
        self.elapsed = clock.now();
        Ok(())
    }

    /// Runs a test of the latency of Writes: both ends write alternately, and the last byte of each message is its
    /// number. With `first` the local end writes the first message.
    pub(super) fn write_in_turn(&mut self, first: bool) -> Result<(), Error> {
        let clock = Clock::start();
        let mut progress = Progress::new(1);
        let last = self.options.size as usize - 1;
        let rkey = self.peers[0].rkey;
        let addr = self.peers[0].buffer;
        for number in 1..=self.options.messages {
            if !first {
                self.await_byte(number)?;
            }
            self.turn(&clock, number - 1);
            self.region.write(last, &[number as u8])?;
            self.post(0, 0, SendOp::Write { addr, rkey })?;
            while progress.sent[0] < number {
                self.complete(&mut progress)?;
            }
            if first {
                self.await_byte(number)?;
            }
        }
        self.elapsed = clock.now();
        Ok(())
    }

    /// Waits until the peer has written message `number`, by polling the last byte of the buffer.
    fn await_byte(&self, number: u32) -> Result<(), Error> {
        let clock = Clock::start();
        let last = self.layout.part + self.options.size as usize - 1;
        let mut byte = [0];
        loop {
            self.region.read(last, &mut byte)?;
            if byte[0] == number as u8 {
                return Ok(());
            }
            if clock.now() >= self.options.timeout {
                return Err(Error::Silence(self.options.timeout, u64::from(number) - 1));
            }
            // A Write generates no completion at the responder, so the local end must poll the memory at short
            // intervals.
            self.device.wait(Time::from_us(50))?;
        }
    }

    /// Records the time at which message `number` starts. A latency is half of the time between two messages of the
    /// local end.
    fn turn(&mut self, clock: &Clock, number: u32) {
        let now = clock.now();
        if number > 0 {
            self.latencies.push(Time::from_ps(now.saturating_sub(self.elapsed).as_ps() / 2));
        }
        self.elapsed = now;
    }
}
