//! The requests of an application, split into parts, and the parts that the NIC has.

use super::replay::{PartKind, Verdict, verdicts};
use crate::chunk::Local;
use crate::rtt::Departure;
use rnic_verbs::{SendFlags, SendOp};
use std::collections::VecDeque;

/// A request of the application.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    pub(crate) local: Local,
    pub(crate) flags: SendFlags,
    pub(crate) len: u64,
    /// Number of the message, if the request consumes a receive of the peer.
    pub(crate) message: Option<u64>,
    /// Number of bytes of which parts exist.
    split: u64,
    /// Whether the last part exists.
    is_split: bool,
    /// Number of parts that are not done.
    open: u32,
    /// Over UC: whether the part with the upper half of the immediate data exists.
    has_upper_half: bool,
}

/// A part of a request: one request of the NIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Number of the part in the order of posting to the NIC, which is its work request ID. It is set when the part is
    /// posted.
    pub(crate) number: u64,
    /// Number of the request.
    request: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) kind: PartKind,
    pub(crate) is_last: bool,
    /// Over UC: the part is empty and carries the upper half of the request's immediate data.
    pub(crate) is_upper_half: bool,
    /// Over UC: the part asks for an acknowledgement.
    pub(crate) asks: bool,
    pub(crate) departure: Departure,
    /// Length on the wire.
    pub(crate) bytes: u64,
    pub(crate) packets: u32,
}

/// The requests that are not complete, their parts, and the order in which parts are posted.
#[derive(Default, Debug)]
pub(crate) struct Queue {
    requests: VecDeque<Request>,
    /// Number of the first of `requests`.
    first: u64,
    /// Number of the first request that is not split completely.
    next: u64,
    /// Parts that the NIC has, oldest first.
    flight: VecDeque<Part>,
    /// Parts of an earlier queue pair that are to be posted before new parts.
    replays: VecDeque<Part>,
    messages: u64,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn push(&mut self, wr_id: u64, op: SendOp, local: Local, flags: SendFlags, len: u64) {
        let message = op.takes_receive().then(|| {
            self.messages += 1;
            self.messages
        });
        let (split, is_split, open, has_upper_half) = (0, false, 0, false);
        let request = Request { wr_id, op, local, flags, len, message, split, is_split, open, has_upper_half };
        self.requests.push_back(request);
    }

    pub(crate) fn request(&self, part: &Part) -> Option<&Request> {
        self.requests.get((part.request - self.first) as usize)
    }

    /// The part to post next: a replay, or the next part of the oldest request that is not split completely.
    /// `is_counted`: over UC.
    pub(crate) fn next(&self, chunk: u64, is_counted: bool) -> Option<Part> {
        if let Some(part) = self.replays.front() {
            return Some(*part);
        }
        let request = self.requests.get((self.next - self.first) as usize)?;
        let rest = request.len - request.split;
        let splits = matches!(request.op, SendOp::Write { .. } | SendOp::WriteImm { .. } | SendOp::Read { .. });
        let len = if splits { rest.min(chunk) } else { rest };
        let is_upper_half = is_counted
            && len == rest
            && !request.has_upper_half
            && matches!(request.op, SendOp::WriteImm { imm, .. } if imm >> 16 != 0);
        let (len, is_last) = if is_upper_half { (0, false) } else { (len, len == rest) };
        let kind = match request.op {
            SendOp::Read { .. } => PartKind::Read,
            SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. } => PartKind::Atomic,
            _ => request.message.filter(|_| is_last).map_or(PartKind::Write, PartKind::Message),
        };
        let departure = Departure { start: Default::default(), left: Default::default() };
        let (request, offset) = (self.next, request.split);
        let (number, bytes, packets, asks) = (0, 0, 0, false);
        Some(Part { number, request, offset, len, kind, is_last, is_upper_half, asks, departure, bytes, packets })
    }

    /// Moves the part that [`Queue::next`] returned into the flight.
    pub(crate) fn posted(&mut self, part: Part) {
        if self.replays.pop_front().is_none()
            && let Some(request) = self.requests.get_mut((part.request - self.first) as usize)
        {
            request.split += part.len;
            request.open += 1;
            request.has_upper_half |= part.is_upper_half;
            if part.is_last {
                request.is_split = true;
                self.next += 1;
            }
        }
        self.flight.push_back(part);
    }

    /// Removes the oldest part in flight if its number is at most `number`, because it is done.
    pub(crate) fn done(&mut self, number: u64) -> Option<Part> {
        self.flight.front().filter(|part| part.number <= number)?;
        let part = self.flight.pop_front()?;
        self.settle(&part);
        Some(part)
    }

    /// The oldest part that the NIC has, and the number of such parts.
    pub(crate) fn oldest(&self) -> (Option<&Part>, usize) {
        (self.flight.front(), self.flight.len())
    }

    /// The parts that the NIC has, oldest first.
    pub(crate) fn flight(&mut self) -> impl Iterator<Item = &mut Part> {
        self.flight.iter_mut()
    }

    fn settle(&mut self, part: &Part) {
        if let Some(request) = self.requests.get_mut((part.request - self.first) as usize) {
            request.open -= 1;
        }
    }

    /// Takes the oldest request if it is complete.
    pub(crate) fn complete(&mut self) -> Option<Request> {
        self.requests.front().filter(|request| request.is_split && request.open == 0)?;
        self.first += 1;
        self.requests.pop_front()
    }

    /// Takes the oldest request, complete or not, because the channel ends.
    pub(crate) fn abandon(&mut self) -> Option<Request> {
        self.flight.clear();
        self.replays.clear();
        self.first += 1;
        self.next = self.next.max(self.first);
        self.requests.pop_front()
    }

    /// Decides which parts of a dead queue pair are done and which are replayed: the parts whose completions did not
    /// arrive; `received` is the number of the last message that the peer has received. Returns the numbers of executed
    /// and of replayed parts.
    ///
    /// # Errors
    /// If it is unknown whether an atomic was executed. In this case the parts of the longest executed prefix are done,
    /// and no part is replayed.
    pub(crate) fn recover(&mut self, received: u64) -> Result<(u64, u64), ()> {
        let kinds: Vec<PartKind> = self.flight.iter().map(|part| part.kind).collect();
        let verdicts = verdicts(&kinds, received);
        let undecided = verdicts.contains(&Verdict::Undecided);
        let flight = std::mem::take(&mut self.flight);
        let (mut settled, mut replays) = (0, VecDeque::new());
        for (part, verdict) in flight.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Done => {
                    settled += 1;
                    self.settle(&part);
                }
                _ => replays.push_back(part),
            }
        }
        if undecided {
            return Err(());
        }
        Ok((settled, self.replay(replays)))
    }

    /// Over UC: the parts before number `accepted` are done, and the others are replayed. Returns their numbers.
    pub(crate) fn recover_counted(&mut self, accepted: u64) -> (u64, u64) {
        let mut settled = 0;
        while self.flight.front().is_some_and(|part| part.number < accepted)
            && let Some(part) = self.flight.pop_front()
        {
            settled += 1;
            self.settle(&part);
        }
        let replays = std::mem::take(&mut self.flight);
        (settled, self.replay(replays))
    }

    /// Replays these parts before the parts that are already waiting to be replayed. Returns their number.
    fn replay(&mut self, mut replays: VecDeque<Part>) -> u64 {
        let count = replays.len() as u64;
        replays.append(&mut self.replays);
        self.replays = replays;
        count
    }
}
