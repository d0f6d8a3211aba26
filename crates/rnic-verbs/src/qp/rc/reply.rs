//! The queue of replies that an RC responder has to send: ACKs, NAKs, and responses to reads and atomics, in the order
//! of the requests. Also the list of executed reads and atomics, whose responses the responder can repeat.

use rnic_transport::Psn;
use rnic_wire::Position;
use std::collections::VecDeque;

/// The response to a read request. A repeated response may cover only the last packets of the read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadResponse {
    /// PSN of the first packet of this response.
    pub(crate) psn: Psn,
    pub(crate) addr: u64,
    pub(crate) rkey: u32,
    /// Length in bytes of this response, which reaches to the end of the read.
    pub(crate) len: u32,
    /// Number of packets of this response.
    pub(crate) count: u32,
    /// Number of packets of this response that were sent.
    pub(crate) sent: u32,
    /// Whether this response repeats only the last packets of a read's response that was sent before.
    pub(crate) resumed: bool,
}

impl ReadResponse {
    /// Returns the position (First, Middle, Last, Only) that a packet's opcode states, for the packet at `position` of
    /// this response. They differ in a repeated response that begins in the middle of a read: such a response continues
    /// with Middle packets, because the Linux kernel's requester drops a First packet in the middle of a read.
    pub(crate) fn position(&self, position: Position) -> Position {
        match position {
            Position::First if self.resumed => Position::Middle,
            Position::Only if self.resumed => Position::Last,
            position => position,
        }
    }
}

/// A reply that an RC responder sends to the requester.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// An ACK: all packets up to this PSN have been processed.
    Ack(Psn),
    /// A NAK: the packet with this PSN is missing.
    OutOfSequence(Psn),
    /// An RNR NAK: no receive is posted for the request packet with this PSN.
    NotReady(Psn),
    /// The response to an atomic operation.
    Atomic { psn: Psn, value: u64 },
    /// The response to a read.
    Read(ReadResponse),
}

impl Reply {
    /// The PSNs that the reply's packets have: the first PSN, and the number of PSNs.
    fn span(&self) -> (Psn, u32) {
        match *self {
            Reply::Ack(psn) | Reply::OutOfSequence(psn) | Reply::NotReady(psn) | Reply::Atomic { psn, .. } => (psn, 1),
            Reply::Read(read) => (read.psn, read.count),
        }
    }

    /// Whether the reply is the response to a read or atomic operation.
    fn is_response(&self) -> bool {
        matches!(self, Reply::Atomic { .. } | Reply::Read(_))
    }
}

/// The queue of replies that the responder has not sent yet, in the order of their PSNs.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    queue: VecDeque<Reply>,
    /// Number of responses to reads and atomics in the queue.
    responses: usize,
}

impl Replies {
    pub(crate) fn front(&self) -> Option<&Reply> {
        self.queue.front()
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut Reply> {
        self.queue.front_mut()
    }

    /// The number of responses to reads and atomics in the queue.
    pub(crate) fn responses(&self) -> usize {
        self.responses
    }

    /// Queues the response to a newly executed read or atomic, behind all other replies.
    pub(crate) fn respond(&mut self, reply: Reply) {
        self.responses += 1;
        self.queue.push_back(reply);
    }

    /// Queues an ACK, NAK or RNR NAK. If a reply of the same kind is in the queue behind the last response to a read or
    /// atomic, the new reply replaces it. So the queue stays short, whatever packets arrive.
    pub(crate) fn control(&mut self, reply: Reply) {
        let same = |other: &Reply| std::mem::discriminant(other) == std::mem::discriminant(&reply);
        if let Some(last) = self.queue.back_mut().filter(|last| same(last)) {
            *last = reply;
            return;
        }
        let since = self.queue.iter().rposition(Reply::is_response).map_or(0, |response| response + 1);
        if let Some(old) = self.queue.iter().skip(since).position(same) {
            self.queue.remove(since + old);
        }
        self.queue.push_back(reply);
    }

    /// Removes the oldest reply. The caller has just sent this reply.
    pub(crate) fn pop(&mut self) {
        if let Some(reply) = self.queue.pop_front() {
            self.responses -= usize::from(reply.is_response());
        }
    }

    /// Queues a repeated response, which may cover only the last packets of a read, at its place in the order of PSNs.
    /// Packets that the repeated response covers are removed from the queued responses, so that no packet is queued
    /// twice.
    pub(crate) fn repeat_response(&mut self, reply: Reply) {
        let (psn, count) = reply.span();
        self.queue.retain_mut(|other| {
            if let Reply::Read(read) = other {
                // The repeated response covers its packets from `psn` on.
                if let Ok(before @ 1..) = u32::try_from(psn.distance_from(read.psn)) {
                    read.count = read.count.min(before);
                    return read.sent < read.count;
                }
            }
            !other.is_response() || other.span().0.since(psn) >= count
        });
        let place = self.queue.iter().position(|other| !other.span().0.is_before(psn));
        self.queue.insert(place.unwrap_or(self.queue.len()), reply);
        self.responses = self.queue.iter().filter(|reply| reply.is_response()).count();
    }

    /// Drops the responses to reads and atomics, and all ACKs and NAKs that are queued behind the first response.
    pub(crate) fn drop_responses(&mut self) {
        if self.responses > 0 {
            let first = self.queue.iter().position(Reply::is_response).unwrap_or(self.queue.len());
            self.queue.truncate(first);
            self.responses = 0;
        }
    }
}

/// A read or atomic operation that the responder has executed, with the data to repeat its response. The address, key
/// and length of a read are those in its request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Executed {
    Atomic { value: u64 },
    Read { addr: u64, rkey: u32, len: u32 },
}

/// The responder resources (InfiniBand volume 1, section 9.7.7.2): the last executed reads and atomics, as many as the
/// peer may have outstanding. The responder can repeat only the responses of these operations.
pub(crate) struct Resources {
    kept: VecDeque<(Psn, u32, Executed)>,
    max: usize,
}

impl Resources {
    pub(crate) fn new(max: u8) -> Resources {
        Resources { kept: VecDeque::new(), max: usize::from(max) }
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Changes the number of operations that the store holds. If it holds more now, the oldest are removed.
    pub(crate) fn resize(&mut self, max: u8) {
        self.max = usize::from(max);
        while self.kept.len() > self.max {
            self.kept.pop_front();
        }
    }

    /// Stores an executed operation whose response takes `count` PSNs from `psn` on. If the store is full, removes the
    /// oldest operation.
    pub(crate) fn keep(&mut self, psn: Psn, count: u32, executed: Executed) {
        if self.kept.len() >= self.max {
            self.kept.pop_front();
        }
        self.kept.push_back((psn, count, executed));
    }

    /// Finds the executed operation whose response contains PSN `psn`. Also returns how many packets of the response
    /// have earlier PSNs.
    pub(crate) fn find(&self, psn: Psn) -> Option<(u32, Executed)> {
        let holds = |(first, count, _): &&(Psn, u32, Executed)| psn.since(*first) < *count;
        self.kept.iter().rev().find(holds).map(|(first, _, executed)| (psn.since(*first), *executed))
    }

    /// Returns the response to a retransmitted read request, which asks for all packets of an executed read or for
    /// some of them. `rest` holds the address, key and length in the request. `None` if they match no stored read.
    pub(crate) fn read_again(&self, psn: Psn, rest: (u64, u32, u32), mtu: u32, count: u32) -> Option<ReadResponse> {
        let (before, Executed::Read { addr, rkey, len }) = self.find(psn)? else { return None };
        let done = before * mtu;
        let (rest_addr, rest_rkey, rest_len) = rest;
        let is_part = rest_addr == addr.wrapping_add(u64::from(done)) && rest_rkey == rkey;
        if !is_part || rest_len > len.checked_sub(done)? {
            return None;
        }
        Some(ReadResponse { psn, addr: rest.0, rkey, len: rest.2, count, sent: 0, resumed: before > 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(psn: u32, count: u32) -> Reply {
        let (len, resumed) = (count * 256, false);
        Reply::Read(ReadResponse { psn: Psn::new(psn), addr: 0, rkey: 0, len, count, sent: 0, resumed })
    }

    /// PSNs of the responses in the queue, in order.
    fn psns(replies: &Replies) -> Vec<u32> {
        let responses = replies.queue.iter().filter(|reply| reply.is_response());
        responses
            .flat_map(|reply| {
                let (psn, count) = reply.span();
                (0..count).map(move |at| psn.plus(at).value())
            })
            .collect()
    }

    #[test]
    fn an_ack_or_nak_replaces_the_previous_one() {
        let mut replies = Replies::default();
        let [a, b] = [Psn::new(0xff_ffff), Psn::new(0)];
        for reply in [Reply::Ack(a), Reply::OutOfSequence(b), Reply::Ack(b), Reply::OutOfSequence(b)] {
            replies.control(reply);
        }
        assert_eq!(replies.queue, [Reply::Ack(b), Reply::OutOfSequence(b)]);
        // A reply does not replace a reply in front of a response.
        replies.respond(read(1, 2));
        replies.control(Reply::Ack(Psn::new(3)));
        assert_eq!(replies.queue.len(), 4);
        // When the connection is in error, neither responses nor the ACKs behind them are sent.
        replies.drop_responses();
        assert_eq!(replies.queue, [Reply::Ack(b), Reply::OutOfSequence(b)]);
    }

    proptest! {
        /// A repeated response is queued once, and all replies stay in the order of their PSNs.
        #[test]
        fn each_response_is_queued_once_and_in_order(
            start in 0..Psn::MODULUS, lengths in prop::collection::vec(1u32..6, 1..8),
            again in prop::collection::vec((0usize..8, 0u32..6), 0..12),
        ) {
            let mut replies = Replies::default();
            let (mut psn, mut reads) = (start, Vec::new());
            for count in lengths {
                replies.respond(read(psn, count));
                replies.control(Reply::Ack(Psn::new(psn + count)));
                reads.push((psn, count));
                psn = (psn + count + 1) % Psn::MODULUS;
            }
            let all = psns(&replies);
            for (which, from) in again {
                let Some((psn, count)) = reads.get(which) else { continue };
                let from = from.min(count - 1);
                replies.repeat_response(read(psn + from, count - from));
                prop_assert_eq!(&psns(&replies), &all);
                prop_assert_eq!(replies.responses(), replies.queue.iter().filter(|reply| reply.is_response()).count());
                let order = replies.queue.iter().map(|reply| reply.span().0.since(Psn::new(start)));
                prop_assert!(order.is_sorted());
            }
        }
    }
}
