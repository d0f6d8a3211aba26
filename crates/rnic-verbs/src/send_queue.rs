//! The send queue of a queue pair: send requests in order of posting. It numbers the request packets and the response
//! packets of the requests; the PSNs follow from these numbers.

use crate::memory::{Memory, Span, Spans};
use crate::queue::reserve;
use crate::types::{AccessError, Bind, SendFlags, SendOp, Service, Status, VerbsError};
use rnic_transport::Psn;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// The local data of a send request: ranges of registered memory, or a copy of inline data.
#[derive(Clone, Debug)]
pub(crate) enum Local {
    /// One range, as most requests have it.
    One(Span),
    Gather(Spans),
    Inline(SmallVec<[u8; 64]>),
    /// Of a request that binds a memory window.
    Bind(Box<Bind>),
    /// Of a request that cannot be executed. When its turn comes, it completes with this status.
    Invalid(Status),
}

/// A posted send request, as a work queue element (WQE) of the send queue.
#[derive(Clone, Debug)]
pub(crate) struct Wqe {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    pub(crate) local: Local,
    pub(crate) len: u32,
    pub(crate) flags: SendFlags,
    /// Number of the request's first packet; the first request packet of the connection has number 0.
    pub(crate) first: u64,
    /// Number of PSNs that the request takes. With RC a read takes one PSN for each packet of its response.
    pub(crate) packets: u32,
    /// Payload in bytes of every packet of the message, or of the response to a read, except the last packet, which may
    /// have less.
    pub(crate) payload: u32,
    /// Number of packets of the response; 0 for an operation without response (Send, Write).
    pub(crate) response_packets: u32,
    /// Number of packets of the response that have arrived.
    pub(crate) responses_received: u32,
    /// Number of the response's first packet; the first response packet of the connection has number 0. For an
    /// operation without response it is the number that the next response's first packet will have.
    pub(crate) first_response: u64,
    /// For IRN: sequence number of the receive that the message consumes (recv_WQE_SN), or of the read or atomic among
    /// all reads and atomics (read_WQE_SN).
    pub(crate) serial: u32,
    /// Chooses the path of the request, if its queue pair spreads requests over paths.
    pub(crate) entropy: u16,
}

impl Wqe {
    /// A newly posted send request. Its packets have no numbers before it is released for sending.
    pub(crate) fn new(wr_id: u64, op: SendOp, local: Local, len: u32, flags: SendFlags) -> Wqe {
        Wqe {
            wr_id,
            op,
            local,
            len,
            flags,
            first: 0,
            packets: 0,
            payload: 0,
            response_packets: 0,
            responses_received: 0,
            first_response: 0,
            serial: 0,
            entropy: 0,
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.first + u64::from(self.packets)
    }

    /// Whether the request sends no packet: it is a local operation, or cannot be executed.
    #[inline]
    pub(crate) fn is_local(&self) -> bool {
        self.op.is_local() || matches!(self.local, Local::Invalid(_))
    }

    fn response_end(&self) -> u64 {
        self.first_response + u64::from(self.response_packets)
    }

    pub(crate) fn has_response(&self) -> bool {
        self.responses_received == self.response_packets
    }
}

/// The number of packets of a message of `len` bytes, with `payload` bytes in all but the last; at least 1.
pub(crate) fn packets(len: u32, payload: u32) -> u32 {
    // Most messages are short, and a division takes longer than a comparison.
    if len <= payload { 1 } else { len.div_ceil(payload) }
}

/// The payload of the packets of a message of `len` bytes, except its last packet, which may have less.
///
/// RC and UC fill every packet but the last one to the path MTU, as the specification demands. IRN divides a message
/// that fits into one batch into equal packets, because packets of equal length fit into one batch: without it, the
/// short last packet of each message would end a batch. Up to a third more packets than necessary are a good price.
/// Both ends of a connection compute the same payload for the response to a read.
pub(crate) fn payload(service: Service, len: u32, mtu: u32) -> u32 {
    /// Messages with more packets nearly fill batches by themselves.
    const MANY: u32 = 32;
    if service != Service::Irn || len <= mtu {
        return mtu;
    }
    let least = len.div_ceil(mtu);
    if least > MANY {
        return mtu;
    }
    let equal = (least..=least + least / 3).find(|count| len.is_multiple_of(4 * count));
    match equal {
        Some(count) => len / count,
        None => len.div_ceil(least).next_multiple_of(4),
    }
}

/// The send requests of a queue pair that are not completed, in order of posting. The oldest requests are *released*:
/// their packets have PSNs and may be sent. The requests behind them wait, for instance for a fence or for the peer's
/// credits.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    wqes: VecDeque<Wqe>,
    released: usize,
    /// Number of reads and atomics that are released (may be sent) and not completed.
    fetching: u32,
    next_packet: u64,
    next_response: u64,
    next_receive: u32,
    next_fetch: u32,
    /// Number of messages released for sending so far, modulo 2^32.
    messages: u32,
    /// Index in `wqes` at which the last search for a packet ended; the next search begins there.
    near_packet: usize,
    /// Index in `wqes` at which the last search for a response packet ended; the next search begins there.
    near_response: usize,
}

impl SendQueue {
    /// An empty queue with memory for `capacity` send requests.
    ///
    /// # Errors
    /// If the system has no memory for them.
    pub(crate) fn new(capacity: u32) -> Result<SendQueue, VerbsError> {
        let mut queue = SendQueue::default();
        reserve(&mut queue.wqes, capacity, "send queue")?;
        Ok(queue)
    }

    /// Takes the memory of the queue for a queue as it was created, and leaves this one without memory.
    pub(crate) fn take_emptied(&mut self) -> SendQueue {
        let mut wqes = std::mem::take(&mut self.wqes);
        wqes.clear();
        SendQueue { wqes, ..SendQueue::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.wqes.len()
    }

    pub(crate) fn push(&mut self, wqe: Wqe) {
        self.wqes.push_back(wqe);
    }

    /// Sets the sequence numbers as if `messages` messages of every kind had been sent before, so that a test can make
    /// them wrap.
    #[cfg(test)]
    pub(crate) fn count_from(&mut self, messages: u32) {
        (self.next_receive, self.next_fetch, self.messages) = (messages, messages, messages);
    }

    /// The oldest send request that is not completed.
    pub(crate) fn front(&self) -> Option<&Wqe> {
        self.wqes.front()
    }

    /// Number of the first packet of the oldest send request; `None` if there is none, or it is not released for
    /// sending.
    pub(crate) fn oldest_packet(&self) -> Option<u64> {
        self.wqes.front().filter(|_| self.released > 0).map(|wqe| wqe.first)
    }

    /// The oldest send request that is not released for sending; `None` if all are released.
    pub(crate) fn waiting(&self) -> Option<&Wqe> {
        self.wqes.get(self.released)
    }

    pub(crate) fn released(&self) -> usize {
        self.released
    }

    pub(crate) fn fetching(&self) -> u32 {
        self.fetching
    }

    /// The number that the first packet of the next released request gets: one more than the number of the last packet
    /// of the requests that are released now.
    pub(crate) fn next_packet(&self) -> u64 {
        self.next_packet
    }

    /// Whether the peer's end-to-end credits do not allow the next message. The credits allow messages up to message
    /// sequence number `limit`; `None`: the peer's ACKs carry no credits, so they allow all messages. If no other
    /// message is outstanding, one message may be sent without credits.
    pub(crate) fn lacks_credits(&self, limit: Option<u32>) -> bool {
        let beyond = |limit| Psn::new(self.messages.wrapping_add(1)).distance_from(Psn::new(limit)) > 0;
        self.released > 0 && limit.is_some_and(beyond)
    }

    /// Whether the peer's end-to-end credits do not admit the message that was released last; `limit` as in
    /// [`SendQueue::lacks_credits`].
    pub(crate) fn lacks_last_credit(&self, limit: Option<u32>) -> bool {
        limit.is_some_and(|limit| Psn::new(self.messages).distance_from(Psn::new(limit)) > 0)
    }

    /// Releases the next send request for sending: numbers its packets. Returns the number of PSNs that it takes.
    pub(crate) fn release(&mut self, service: Service, mtu: u32) -> u32 {
        let Some(wqe) = self.wqes.get_mut(self.released) else { return 0 };
        let fetching = wqe.op.is_fetching();
        wqe.payload = payload(service, wqe.len, mtu);
        wqe.response_packets = match wqe.op {
            SendOp::Read { .. } => packets(wqe.len, wqe.payload),
            op => u32::from(op.is_atomic()),
        };
        wqe.packets = match (service, fetching) {
            (Service::Irn, true) => 1,
            (_, true) => wqe.response_packets,
            _ => packets(wqe.len, wqe.payload),
        };
        wqe.first = self.next_packet;
        self.next_packet = wqe.end();
        wqe.first_response = self.next_response;
        self.next_response = wqe.response_end();
        if fetching {
            wqe.serial = self.next_fetch;
            self.next_fetch = self.next_fetch.wrapping_add(1);
            self.fetching += 1;
        } else if wqe.op.takes_receive() {
            wqe.serial = self.next_receive;
            self.next_receive = self.next_receive.wrapping_add(1);
        }
        self.released += 1;
        self.messages = self.messages.wrapping_add(1);
        wqe.packets
    }

    /// Makes the send requests of which no packet was sent wait again, as if they were not released for sending. `sent`
    /// is the number of the first packet that was not sent.
    pub(crate) fn hold(&mut self, sent: u64) {
        while let Some(wqe) = self.released.checked_sub(1).and_then(|last| self.wqes.get(last)) {
            if wqe.first < sent {
                break;
            }
            self.next_packet = wqe.first;
            self.next_response = wqe.first_response;
            if wqe.op.is_fetching() {
                self.next_fetch = wqe.serial;
                self.fetching -= 1;
            } else if wqe.op.takes_receive() {
                self.next_receive = wqe.serial;
            }
            self.released -= 1;
            self.messages = self.messages.wrapping_sub(1);
        }
    }

    /// Finds the released send request to which request packet number `packet` belongs.
    pub(crate) fn find(&mut self, packet: u64) -> Option<&mut Wqe> {
        let at = self.search(self.near_packet, |wqe| wqe.end() <= packet);
        self.near_packet = at;
        self.wqes.get_mut(at).filter(|wqe| at < self.released && (wqe.first..wqe.end()).contains(&packet))
    }

    /// The entropy of the released request to which the request packet number `packet` belongs.
    pub(crate) fn entropy(&self, packet: u64) -> Option<u16> {
        self.wqes.get(self.search(self.near_packet, |wqe| wqe.end() <= packet)).map(|wqe| wqe.entropy)
    }

    /// Finds the released read or atomic to which response packet number `response` belongs.
    pub(crate) fn find_response(&mut self, response: u64) -> Option<&mut Wqe> {
        let at = self.search(self.near_response, |wqe| wqe.response_end() <= response);
        self.near_response = at;
        self.wqes
            .get_mut(at)
            .filter(|wqe| at < self.released && (wqe.first_response..wqe.response_end()).contains(&response))
    }

    /// Returns the index of the first released send request for which `before` is false, by binary search. The search
    /// tries the indices `near` and `near + 1` first, because consecutive searches mostly end at the same request or
    /// the next.
    #[inline]
    fn search(&self, near: usize, before: impl Fn(&Wqe) -> bool) -> usize {
        let is_before = |at: usize| self.wqes.get(at).is_some_and(&before);
        if near < self.released && (near == 0 || is_before(near - 1)) {
            if !is_before(near) {
                return near;
            }
            if near + 1 < self.released && !is_before(near + 1) {
                return near + 1;
            }
        }
        let (mut low, mut high) = (0, self.released);
        while low < high {
            let middle = (low + high) / 2;
            if is_before(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Finds the oldest released read or atomic whose response is not complete. The function shares its search position
    /// with `find_response`, so a queue pair uses only one of the two functions: RC this one, IRN the other.
    pub(crate) fn awaiting_response(&mut self) -> Option<&mut Wqe> {
        if self.fetching == 0 {
            return None;
        }
        while self.near_response < self.released && self.wqes.get(self.near_response).is_some_and(Wqe::has_response) {
            self.near_response += 1;
        }
        if self.near_response < self.released { self.wqes.get_mut(self.near_response) } else { None }
    }

    /// The oldest send request if it is done: all its packets are among the first `acked` packets of the connection,
    /// and its response is complete.
    #[inline]
    pub(crate) fn done(&self, acked: u64) -> Option<&Wqe> {
        let is_done = |front: &&Wqe| self.released > 0 && front.end() <= acked && front.has_response();
        self.wqes.front().filter(is_done)
    }

    /// Removes the oldest send request.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Wqe> {
        let wqe = self.wqes.pop_front()?;
        if self.released > 0 {
            self.released -= 1;
            self.fetching -= u32::from(wqe.op.is_fetching());
        }
        self.near_packet = self.near_packet.saturating_sub(1);
        self.near_response = self.near_response.saturating_sub(1);
        Some(wqe)
    }
}

impl Local {
    /// Copies `out.len()` bytes of the request's data, beginning with byte `offset` of the message, into the packet
    /// payload `out`.
    #[inline]
    pub(crate) fn gather(&self, memory: &Memory, offset: u32, out: &mut [u8]) -> Result<(), AccessError> {
        match self {
            Local::Inline(bytes) => {
                out.copy_from_slice(&bytes[offset as usize..offset as usize + out.len()]);
                Ok(())
            }
            Local::One(span) => memory.read(span.part(offset, out.len())?, out),
            Local::Gather(spans) => memory.gather(spans, offset, out),
            Local::Bind(_) | Local::Invalid(_) => Err(AccessError::Rights),
        }
    }

    /// Copies the payload `data` of a response packet into the request's memory, beginning at byte `offset` of the
    /// response.
    pub(crate) fn scatter(&self, memory: &mut Memory, offset: u32, data: &[u8]) -> Result<(), AccessError> {
        match self {
            Local::Inline(_) | Local::Bind(_) | Local::Invalid(_) => Err(AccessError::Rights),
            Local::One(span) => memory.write(span.part(offset, data.len())?, data),
            Local::Gather(spans) => memory.scatter(spans, offset, data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A released send request in the plain list with which the test compares the send queue.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Released {
        id: u64,
        first: u64,
        end: u64,
        answer: u64,
        response_end: u64,
        serial: u32,
    }

    fn operation(kind: u8) -> SendOp {
        match kind {
            0 => SendOp::Send,
            1 => SendOp::Write { addr: 0, rkey: 0 },
            2 => SendOp::Read { addr: 0, rkey: 0 },
            _ => SendOp::FetchAdd { addr: 0, rkey: 0, add: 1 },
        }
    }

    #[test]
    fn irn_divides_messages_into_equal_packets() {
        // (length, path MTU, payload), by hand.
        let cases = [
            (0, 1_344, 1_344),
            (1_344, 1_344, 1_344),
            (2_048, 1_344, 1_024),
            // Seven packets are enough; eight have equal lengths.
            (8_192, 1_344, 1_024),
            (12_288, 8_832, 6_144),
            // Three packets are enough; four have equal lengths.
            (4_096, 1_408, 1_024),
            // 6 packets, and more are no better: 7,777 is odd.
            (7_777, 1_344, 1_300),
            (1_349, 1_344, 676),
            (32 * 1_344 + 1, 1_344, 1_344),
            (1 << 20, 1_344, 1_344),
        ];
        for (len, mtu, expected) in cases {
            assert_eq!(payload(Service::Irn, len, mtu), expected, "{len} B");
            assert_eq!([Service::Rc, Service::Uc].map(|service| payload(service, len, mtu)), [mtu; 2]);
        }
        for (mtu, len) in (256..400).step_by(4).flat_map(|mtu| (0..mtu * 34).map(move |len| (mtu, len))) {
            let payload = payload(Service::Irn, len, mtu);
            let (count, least) = (packets(len, payload), packets(len, mtu));
            assert!(
                payload <= mtu && payload.is_multiple_of(4) && count <= least + least / 3,
                "{len} B, {mtu}: {payload}"
            );
        }
    }

    proptest! {
        /// Compares the send queue with a plain list of all released requests. After random posts, releases, withdrawn
        /// releases (`hold`) and completions, searches for packets and responses find the same requests in both.
        #[test]
        fn agrees_with_a_list(
            irn: bool,
            steps in prop::collection::vec((0u8..7, 0u8..4, 0u32..2_000, 0u64..60), 1..200),
        ) {
            let service = if irn { Service::Irn } else { Service::Rc };
            let (mut queue, mut posted) = (SendQueue::default(), VecDeque::new());
            let mut list: VecDeque<Released> = VecDeque::new();
            let (mut packet, mut answer, mut receives, mut fetches, mut id) = (0, 0, 0, 0, 0);
            for (action, kind, len, at) in steps {
                match action {
                    0 | 1 => {
                        let local = Local::Inline(SmallVec::new());
                        let wqe = Wqe::new(id, operation(kind), local, len, SendFlags::default());
                        posted.push_back((id, operation(kind), len));
                        queue.push(wqe);
                        id += 1;
                    }
                    2 | 3 => {
                        let count = queue.release(service, 256);
                        let Some((id, op, len)) = posted.pop_front() else {
                            prop_assert_eq!(count, 0);
                            continue;
                        };
                        let segments = u64::from(len.div_ceil(payload(service, len, 256)).max(1));
                        let (packets, answers) = match (op, irn) {
                            (SendOp::Read { .. }, false) => (segments, segments),
                            (SendOp::Read { .. }, true) => (1, segments),
                            (SendOp::FetchAdd { .. }, _) => (1, 1),
                            _ => (segments, 0),
                        };
                        prop_assert_eq!(u64::from(count), packets);
                        let counter = if answers > 0 { &mut fetches } else { &mut receives };
                        let counts = answers > 0 || op.takes_receive();
                        let serial = if counts { *counter } else { 0 };
                        *counter += u32::from(counts);
                        let (end, response_end) = (packet + packets, answer + answers);
                        list.push_back(Released { id, first: packet, end, answer, response_end, serial });
                        (packet, answer) = (end, response_end);
                    }
                    4 => {
                        // The release of the requests that begin with packet `sent` or later is taken back.
                        let sent = packet.saturating_sub(at);
                        queue.hold(sent);
                        while let Some(last) = list.back().copied().filter(|last| last.first >= sent) {
                            list.pop_back();
                            let op = operation_of(&queue, list.len());
                            posted.push_front((last.id, op.0, op.1));
                            (packet, answer) = (last.first, last.answer);
                            if last.response_end > last.answer {
                                fetches = last.serial;
                            } else if op.0.takes_receive() {
                                receives = last.serial;
                            }
                        }
                    }
                    5 => {
                        // The oldest request gets its response, then its ACK, and completes.
                        let Some(oldest) = list.front().copied() else { continue };
                        if oldest.response_end > oldest.answer {
                            prop_assert!(queue.done(oldest.end).is_none());
                            for at in oldest.answer..oldest.response_end {
                                let wqe = if irn { queue.find_response(at) } else { queue.awaiting_response() };
                                let wqe = wqe.unwrap();
                                prop_assert_eq!(wqe.wr_id, oldest.id);
                                wqe.responses_received += 1;
                            }
                        }
                        prop_assert!(queue.done(oldest.end - 1).is_none());
                        prop_assert_eq!(queue.done(oldest.end).map(|wqe| wqe.wr_id), Some(oldest.id));
                        queue.pop();
                        list.pop_front();
                    }
                    _ => {
                        let wanted = packet.saturating_sub(at);
                        let found = queue.find(wanted).map(|wqe| (wqe.wr_id, wqe.first, wqe.end(), wqe.serial));
                        let holds = list.iter().find(|send| (send.first..send.end).contains(&wanted));
                        prop_assert_eq!(found, holds.map(|send| (send.id, send.first, send.end, send.serial)));
                        if irn {
                            let wanted = answer.saturating_sub(at);
                            let found = queue.find_response(wanted).map(|wqe| (wqe.wr_id, wqe.first_response));
                            let holds = list.iter().find(|send| (send.answer..send.response_end).contains(&wanted));
                            prop_assert_eq!(found, holds.map(|send| (send.id, send.answer)));
                        }
                    }
                }
                prop_assert_eq!((queue.released(), queue.next_packet()), (list.len(), packet));
                let fetching = list.iter().filter(|send| send.response_end > send.answer).count();
                prop_assert_eq!(queue.fetching() as usize, fetching);
                prop_assert_eq!(queue.len(), list.len() + posted.len());
                prop_assert_eq!(queue.messages as usize, id as usize - posted.len());
            }
        }
    }

    fn operation_of(queue: &SendQueue, at: usize) -> (SendOp, u32) {
        queue.wqes.get(at).map_or((SendOp::Send, 0), |wqe| (wqe.op, wqe.len))
    }

    #[test]
    fn without_credits_one_message_may_be_outstanding() {
        let mut queue = SendQueue::default();
        for id in 0..4 {
            queue.push(Wqe::new(id, SendOp::Send, Local::Inline(SmallVec::new()), 0, SendFlags::default()));
        }
        assert!(!queue.lacks_credits(Some(0)));
        queue.release(Service::Rc, 256);
        // One message is outstanding, and the next message has sequence number 2.
        assert_eq!(
            [None, Some(1), Some(2), Some(0xff_ffff)].map(|limit| queue.lacks_credits(limit)),
            [false, true, false, true]
        );
        // Message sequence numbers wrap at 24 bits.
        queue.messages = 0x1ff_ffff;
        assert_eq!(
            [Some(0), Some(0xff_ffff), Some(0x7f_ffff)].map(|limit| queue.lacks_credits(limit)),
            [false, true, false]
        );
    }
}
