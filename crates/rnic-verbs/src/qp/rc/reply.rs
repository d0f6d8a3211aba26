//! What a responder owes the requester, in the order of the requests.

use rnic_transport::Psn;
use rnic_wire::Position;
use std::collections::VecDeque;

/// The answer to a read, or what is left of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadAnswer {
    /// Sequence number of the first packet.
    pub(crate) psn: Psn,
    pub(crate) addr: u64,
    pub(crate) rkey: u32,
    /// Bytes to the end of the read.
    pub(crate) len: u32,
    /// Packets to send, and sent.
    pub(crate) count: u32,
    pub(crate) sent: u32,
    /// It goes on in the middle of an answer that came before.
    pub(crate) resumed: bool,
}

impl ReadAnswer {
    /// What a packet is called that is `position` in this answer. An answer that is resumed goes on with Middle packets: the requester
    /// in the Linux kernel does not take a First in the middle of a read.
    pub(crate) fn position(&self, position: Position) -> Position {
        match position {
            Position::First if self.resumed => Position::Middle,
            Position::Only if self.resumed => Position::Last,
            position => position,
        }
    }
}

/// A reply of a reliable connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// Everything up to here is carried out.
    Ack(Psn),
    /// This packet is missing.
    OutOfSequence(Psn),
    /// There is no receive for this packet.
    NotReady(Psn),
    /// The answer to an atomic operation.
    Atomic { psn: Psn, value: u64 },
    /// The answer to a read.
    Read(ReadAnswer),
}

impl Reply {
    /// The sequence numbers that it is for: the first and how many.
    fn span(&self) -> (Psn, u32) {
        match *self {
            Reply::Ack(psn) | Reply::OutOfSequence(psn) | Reply::NotReady(psn) | Reply::Atomic { psn, .. } => (psn, 1),
            Reply::Read(read) => (read.psn, read.count),
        }
    }

    /// Whether it answers a read or atomic.
    fn is_answer(&self) -> bool {
        matches!(self, Reply::Atomic { .. } | Reply::Read(_))
    }
}

/// Replies that are not sent yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    queue: VecDeque<Reply>,
    answers: usize,
}

impl Replies {
    pub(crate) fn front(&self) -> Option<&Reply> {
        self.queue.front()
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut Reply> {
        self.queue.front_mut()
    }

    /// Answers to reads and atomics.
    pub(crate) fn answers(&self) -> usize {
        self.answers
    }

    pub(crate) fn answer(&mut self, reply: Reply) {
        self.answers += 1;
        self.queue.push_back(reply);
    }

    /// Adds a reply that is no answer. It takes the place of one of its kind since the last answer, so that what is not sent stays
    /// little, whatever comes in.
    pub(crate) fn control(&mut self, reply: Reply) {
        let same = |other: &Reply| std::mem::discriminant(other) == std::mem::discriminant(&reply);
        if let Some(last) = self.queue.back_mut().filter(|last| same(last)) {
            *last = reply;
            return;
        }
        let since = self.queue.iter().rposition(Reply::is_answer).map_or(0, |answer| answer + 1);
        if let Some(old) = self.queue.iter().skip(since).position(same) {
            self.queue.remove(since + old);
        }
        self.queue.push_back(reply);
    }

    /// The front is sent.
    pub(crate) fn pop(&mut self) {
        if let Some(reply) = self.queue.pop_front() {
            self.answers -= usize::from(reply.is_answer());
        }
    }

    /// An answer is to be given again: in its place, and instead of what is left of it there.
    pub(crate) fn answer_again(&mut self, reply: Reply) {
        let (psn, count) = reply.span();
        self.queue.retain_mut(|other| {
            if let Reply::Read(read) = other {
                // What it holds from `psn` on is part of the new one.
                if let Ok(before @ 1..) = u32::try_from(psn.distance_from(read.psn)) {
                    read.count = read.count.min(before);
                    return read.sent < read.count;
                }
            }
            !other.is_answer() || other.span().0.since(psn) >= count
        });
        let place = self.queue.iter().position(|other| !other.span().0.is_before(psn));
        self.queue.insert(place.unwrap_or(self.queue.len()), reply);
        self.answers = self.queue.iter().filter(|reply| reply.is_answer()).count();
    }

    /// The connection is over: answers, and what waits for them, are not sent any more.
    pub(crate) fn drop_answers(&mut self) {
        if self.answers > 0 {
            let first = self.queue.iter().position(Reply::is_answer).unwrap_or(self.queue.len());
            self.queue.truncate(first);
            self.answers = 0;
        }
    }
}

/// What a read or atomic operation was, to answer it again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Executed {
    Atomic { value: u64 },
    Read { addr: u64, rkey: u32, len: u32 },
}

/// The last reads and atomic operations: as many as the peer may have outstanding (InfiniBand volume 1, section 9.7.7.2, "responder
/// resources"). Nothing else is answered again.
pub(crate) struct Resources {
    kept: VecDeque<(Psn, u32, Executed)>,
    most: usize,
}

impl Resources {
    pub(crate) fn new(most: u8) -> Resources {
        Resources { kept: VecDeque::new(), most: usize::from(most) }
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Keeps an operation that takes `count` sequence numbers from `psn` on.
    pub(crate) fn keep(&mut self, psn: Psn, count: u32, executed: Executed) {
        if self.kept.len() >= self.most {
            self.kept.pop_front();
        }
        self.kept.push_back((psn, count, executed));
    }

    /// The operation that `psn` belongs to, and the packets of its answer before `psn`.
    pub(crate) fn find(&self, psn: Psn) -> Option<(u32, Executed)> {
        let holds = |(first, count, _): &&(Psn, u32, Executed)| psn.since(*first) < *count;
        self.kept.iter().rev().find(holds).map(|(first, _, executed)| (psn.since(*first), *executed))
    }

    /// The answer to a read request that came again: all of what was asked for, or the end of it.
    pub(crate) fn read_again(&self, psn: Psn, again: (u64, u32, u32), mtu: u32, count: u32) -> Option<ReadAnswer> {
        let (before, Executed::Read { addr, rkey, len }) = self.find(psn)? else { return None };
        let done = before * mtu;
        if again != (addr.wrapping_add(u64::from(done)), rkey, len.checked_sub(done)?) {
            return None;
        }
        Some(ReadAnswer { psn, addr: again.0, rkey, len: again.2, count, sent: 0, resumed: before > 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(psn: u32, count: u32) -> Reply {
        let (len, resumed) = (count * 256, false);
        Reply::Read(ReadAnswer { psn: Psn::new(psn), addr: 0, rkey: 0, len, count, sent: 0, resumed })
    }

    /// Sequence numbers for which answers wait, in order.
    fn owed(replies: &Replies) -> Vec<u32> {
        let answers = replies.queue.iter().filter(|reply| reply.is_answer());
        answers
            .flat_map(|reply| {
                let (psn, count) = reply.span();
                (0..count).map(move |at| psn.plus(at).value())
            })
            .collect()
    }

    #[test]
    fn replies_that_are_no_answers_take_the_place_of_their_like() {
        let mut replies = Replies::default();
        let [a, b] = [Psn::new(0xff_ffff), Psn::new(0)];
        for reply in [Reply::Ack(a), Reply::OutOfSequence(b), Reply::Ack(b), Reply::OutOfSequence(b)] {
            replies.control(reply);
        }
        assert_eq!(replies.queue, [Reply::Ack(b), Reply::OutOfSequence(b)]);
        // Not across an answer.
        replies.answer(read(1, 2));
        replies.control(Reply::Ack(Psn::new(3)));
        assert_eq!(replies.queue.len(), 4);
        // A connection that is over answers nothing, nor what would come behind an answer.
        replies.drop_answers();
        assert_eq!(replies.queue, [Reply::Ack(b), Reply::OutOfSequence(b)]);
    }

    proptest! {
        /// What is asked for again is owed once, and everything in the order of its numbers.
        #[test]
        fn each_answer_is_owed_once_and_in_order(
            start in 0..Psn::MODULUS, lengths in prop::collection::vec(1u32..6, 1..8),
            again in prop::collection::vec((0usize..8, 0u32..6), 0..12),
        ) {
            let mut replies = Replies::default();
            let (mut psn, mut reads) = (start, Vec::new());
            for count in lengths {
                replies.answer(read(psn, count));
                replies.control(Reply::Ack(Psn::new(psn + count)));
                reads.push((psn, count));
                psn = (psn + count + 1) % Psn::MODULUS;
            }
            let all = owed(&replies);
            for (which, from) in again {
                let Some((psn, count)) = reads.get(which) else { continue };
                let from = from.min(count - 1);
                replies.answer_again(read(psn + from, count - from));
                prop_assert_eq!(&owed(&replies), &all);
                prop_assert_eq!(replies.answers(), replies.queue.iter().filter(|reply| reply.is_answer()).count());
                let order = replies.queue.iter().map(|reply| reply.span().0.since(Psn::new(start)));
                prop_assert!(order.is_sorted());
            }
        }
    }
}
