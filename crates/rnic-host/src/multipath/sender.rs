//! The sender's requests and chunks: which chunk is transmitted next, which chunks are outstanding, and which are lost.
//!
//! All chunks of a direction have consecutive numbers in the order of posting. So a request is complete when all chunks
//! up to its last one are acknowledged, and requests complete in the order of posting.

use super::note::{Bits, WINDOW};
use super::record::Record;
use crate::chunk::Local;
use crate::rtt::Departure;
use rnic_verbs::{SendFlags, SendOp};
use std::collections::VecDeque;

/// A request of the application.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) wr_id: u64,
    pub(super) op: SendOp,
    pub(super) local: Local,
    pub(super) flags: SendFlags,
    pub(super) len: u64,
    /// Number of bytes in chunks.
    split: u64,
    /// Where the data goes in the peer's memory, once the request has begun.
    to: Option<Room>,
    /// Whether the record that ends a message exists.
    is_told: bool,
    /// Number of the chunk after its last one.
    end: Option<u64>,
}

/// A range of the peer's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) addr: u64,
    pub(super) rkey: u32,
    pub(super) len: u32,
}

/// The contents of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    /// Bytes of a request, from an offset on.
    Data {
        request: u64,
        offset: u64,
    },
    Record(Record),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Lost,
    Flying { path: u32 },
    Acked,
}

/// A chunk that is not acknowledged cumulatively.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) content: Content,
    pub(super) to: Room,
    pub(super) attempts: u32,
    pub(super) departure: Departure,
    state: State,
}

/// What could be transmitted next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Candidate {
    /// No chunk can be transmitted until a request is posted, an acknowledgement arrives or the peer posts a receive.
    None,
    /// The chunk with this number is lost.
    Again(u64),
    /// The next record.
    Record(Record),
    /// Data of this request, of which this number of bytes is not transmitted.
    Data { request: u64, left: u64 },
    /// The message is longer than the peer's receive.
    TooLong,
}

#[derive(Default, Debug)]
pub(super) struct Sender {
    requests: VecDeque<Request>,
    /// Number of the first request in `requests`, and number of the request to which the next chunk belongs.
    first: u64,
    current: u64,
    chunks: VecDeque<Chunk>,
    /// Number of the first of `chunks`.
    base: u64,
    lost: VecDeque<u64>,
    /// Records about this end's receives that are not transmitted yet.
    receives: VecDeque<Record>,
    /// Receives of the peer that no message has taken.
    rooms: VecDeque<Room>,
    /// Bytes and chunks that are outstanding, and bytes that wait.
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) waiting: u64,
}

impl Sender {
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn push(&mut self, wr_id: u64, op: SendOp, local: Local, flags: SendFlags, len: u64) {
        self.waiting += len;
        let (to, is_told, end) = (None, false, None);
        self.requests.push_back(Request { wr_id, op, local, flags, len, split: 0, to, is_told, end });
    }

    pub(super) fn push_receive(&mut self, record: Record) {
        self.receives.push_back(record);
    }

    pub(super) fn push_room(&mut self, room: Room) {
        self.rooms.push_back(room);
    }

    fn next(&self) -> u64 {
        self.base + self.chunks.len() as u64
    }

    /// Number of chunks that are transmitted or lost, and not acknowledged cumulatively.
    pub(super) fn open(&self) -> usize {
        self.chunks.len()
    }

    pub(super) fn request(&self, number: u64) -> Option<&Request> {
        self.requests.get((number - self.first) as usize)
    }

    pub(super) fn chunk(&self, number: u64) -> Option<&Chunk> {
        self.chunks.get(number.checked_sub(self.base)? as usize)
    }

    /// Whether the chunk is acknowledged.
    pub(super) fn is_acked(&self, number: u64) -> bool {
        number < self.base || self.chunk(number).is_some_and(|chunk| chunk.state == State::Acked)
    }

    /// The path on which the chunk was transmitted, if it is neither acknowledged nor lost.
    pub(super) fn path_of(&self, number: u64) -> Option<u32> {
        match self.chunk(number)?.state {
            State::Flying { path } => Some(path),
            State::Lost | State::Acked => None,
        }
    }

    /// Whether the chunk is transmitted, and neither acknowledged nor lost.
    pub(super) fn is_flying(&self, number: u64) -> bool {
        self.path_of(number).is_some()
    }

    /// What is transmitted next: lost chunks first, then records about receives, then requests.
    pub(super) fn candidate(&mut self) -> Candidate {
        if let Some(number) = self.lost.front() {
            return Candidate::Again(*number);
        }
        let next = self.next();
        if next - self.base >= WINDOW {
            return Candidate::None;
        }
        if let Some(record) = self.receives.front() {
            return Candidate::Record(*record);
        }
        while let Some(request) = self.requests.get_mut((self.current - self.first) as usize) {
            if request.to.is_none() {
                if request.flags.fence && next > self.base {
                    return Candidate::None;
                }
                let room = if request.op.takes_receive() {
                    let Some(room) = self.rooms.front() else { return Candidate::None };
                    let is_send = !matches!(request.op, SendOp::WriteImm { .. });
                    if is_send && request.len > u64::from(room.len) {
                        return Candidate::TooLong;
                    }
                    self.rooms.pop_front()
                } else {
                    None
                };
                request.to = match request.op {
                    SendOp::Write { addr, rkey } | SendOp::WriteImm { addr, rkey, .. } => {
                        Some(Room { addr, rkey, len: request.len as u32 })
                    }
                    _ => room,
                };
            }
            let left = request.len - request.split;
            if left > 0 {
                return Candidate::Data { request: self.current, left };
            }
            let len = request.len as u32;
            let record = match request.op {
                SendOp::WriteImm { imm, .. } => Some(Record::Written { len, imm }),
                SendOp::Send => Some(Record::Sent { len, imm: None }),
                SendOp::SendImm(imm) => Some(Record::Sent { len, imm: Some(imm) }),
                _ => None,
            };
            if let Some(record) = record.filter(|_| !request.is_told) {
                return Candidate::Record(record);
            }
            request.end = Some(next);
            self.current += 1;
        }
        Candidate::None
    }

    /// Makes a chunk from a candidate; returns it with its number. `len` is the length of a data chunk, `ring` the
    /// address of the next record in the peer's memory.
    pub(super) fn make(&self, candidate: Candidate, len: u64, ring: impl FnOnce(u64) -> Room) -> Option<(u64, Chunk)> {
        let next = self.next();
        let (content, to) = match candidate {
            Candidate::Again(number) => return Some((number, *self.chunk(number)?)),
            Candidate::Record(record) => (Content::Record(record), ring(next)),
            Candidate::Data { request, .. } => {
                let data = self.request(request)?;
                let room = data.to?;
                let to = Room { addr: room.addr + data.split, rkey: room.rkey, len: len as u32 };
                (Content::Data { request, offset: data.split }, to)
            }
            Candidate::None | Candidate::TooLong => return None,
        };
        let departure = Departure { start: Default::default(), left: Default::default() };
        Some((next, Chunk { content, to, attempts: 0, departure, state: State::Lost }))
    }

    /// A chunk that [`Sender::make`] made was transmitted on `path`; it has `packets` packets.
    pub(super) fn transmitted(&mut self, number: u64, chunk: Chunk, path: u32, departure: Departure, packets: u64) {
        let is_new = number == self.next();
        let chunk = Chunk { attempts: chunk.attempts + 1, departure, state: State::Flying { path }, ..chunk };
        self.bytes += u64::from(chunk.to.len);
        self.packets += packets;
        if let Content::Data { .. } = chunk.content {
            self.waiting -= u64::from(chunk.to.len);
        }
        if !is_new {
            self.lost.pop_front();
            if let Some(old) = self.chunks.get_mut((number - self.base) as usize) {
                *old = chunk;
            }
            return;
        }
        match chunk.content {
            Content::Data { request, .. } => {
                if let Some(request) = self.requests.get_mut((request - self.first) as usize) {
                    request.split += u64::from(chunk.to.len);
                }
            }
            Content::Record(Record::Receive { .. }) => {
                self.receives.pop_front();
            }
            Content::Record(_) => {
                if let Some(request) = self.requests.get_mut((self.current - self.first) as usize) {
                    request.is_told = true;
                }
            }
        }
        self.chunks.push_back(chunk);
    }

    /// The chunk is lost: the copy that was transmitted cannot arrive any more.
    pub(super) fn lose(&mut self, number: u64, packets: impl FnOnce(u64) -> u64) {
        let Some(at) = number.checked_sub(self.base) else { return };
        let Some(chunk) = self.chunks.get_mut(at as usize) else { return };
        if let State::Flying { .. } = chunk.state {
            chunk.state = State::Lost;
            let len = u64::from(chunk.to.len);
            self.bytes -= len;
            self.packets -= packets(len);
            if let Content::Data { .. } = chunk.content {
                self.waiting += len;
            }
            self.lost.push_back(number);
        }
    }

    /// Handles an acknowledgement: all chunks before `next`, and the chunks in `bits`. Calls `acked` for each chunk
    /// that it acknowledges for the first time, with number, path and length. Returns `false` if it acknowledges chunks
    /// that were never transmitted.
    pub(super) fn acknowledge(&mut self, next: u64, bits: &Bits, mut acked: impl FnMut(u64, u32, u32)) -> bool {
        if next > self.next() {
            return false;
        }
        let first = self.base;
        let mut mark = |number: u64| {
            let Some(chunk) = number.checked_sub(first).and_then(|at| self.chunks.get_mut(at as usize)) else { return };
            if let State::Flying { path } = std::mem::replace(&mut chunk.state, State::Acked) {
                acked(number, path, chunk.to.len);
            }
        };
        (first..next).for_each(&mut mark);
        for (word, at) in bits.iter().zip((0..).step_by(64)) {
            let mut word = *word;
            while word != 0 {
                mark(next + at + u64::from(word.trailing_zeros()));
                word &= word - 1;
            }
        }
        while self.base < next {
            self.chunks.pop_front();
            self.base += 1;
        }
        true
    }

    /// Takes the oldest request if it is complete.
    pub(super) fn complete(&mut self) -> Option<Request> {
        self.requests.front().filter(|request| request.end.is_some_and(|end| end <= self.base))?;
        self.first += 1;
        self.requests.pop_front()
    }

    /// Takes the oldest request, complete or not, because the channel ends.
    pub(super) fn abandon(&mut self) -> Option<Request> {
        self.chunks.clear();
        self.lost.clear();
        self.receives.clear();
        self.first += 1;
        self.current = self.current.max(self.first);
        self.requests.pop_front()
    }
}
