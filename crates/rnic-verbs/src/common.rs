//! State of a queue pair that is the same for every transport service (RC, IRN, UC, UD): queues, completions, errors.

use crate::memory::Memory;
use crate::packet::Route;
use crate::queue::{CompletionQueue, Receive, ReceiveQueue, SharedReceiveQueue};
use crate::send_queue::{Local, SendQueue, Wqe};
use crate::table::Table;
use crate::types::{
    Access, Completion, Connection, CqId, Event, Extras, Opcode, Pd, QpCounters, QpInit, Qpn, SendAttributes, SendOp,
    Service, Source, State, Status,
};
use crate::{Counters, VerbsError};
use rnic_transport::Time;
use rnic_wire::{Credits, NakCode, Syndrome};
use std::cell::Cell;
use std::collections::VecDeque;

/// Maximum number of asynchronous events that wait until the application polls them. If more occur, the oldest are
/// lost.
pub const MAX_EVENTS: usize = 65_536;

/// State of the device that all queue pairs share.
pub(crate) struct Ctx {
    pub(crate) memory: Memory,
    pub(crate) cqs: Table<CompletionQueue>,
    pub(crate) srqs: Table<SharedReceiveQueue>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    /// Whether a completion queue has just overflowed, so that the queue pairs that use it must go into the error
    /// state.
    pub(crate) overflow: bool,
    /// Whether completions or events were generated that the device's owner does not know of.
    pub(crate) news: bool,
    /// Whether an asynchronous event was raised since the last [`Device::take_raised`](crate::Device::take_raised).
    pub(crate) raised: bool,
    /// The latest time that was passed to the device. Completions get it as their timestamp.
    pub(crate) now: Time,
    /// The time at which the packet arrived that is being processed, if the device's owner knows it. Completions get it
    /// as their timestamp instead of `now`.
    pub(crate) arrived: Option<Time>,
    /// Earliest time of the next CNP of any queue pair (`nic_cnp_interval` of DCQCN).
    pub(crate) next_cnp: Time,
}

impl Ctx {
    pub(crate) fn new() -> Ctx {
        Ctx {
            memory: Memory::new(),
            cqs: Table::new(),
            srqs: Table::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            overflow: false,
            news: false,
            raised: false,
            now: Time::ZERO,
            arrived: None,
            next_cnp: Time::ZERO,
        }
    }

    /// The timestamp of a completion that is generated now.
    pub(crate) fn completion_time(&self) -> Time {
        self.arrived.unwrap_or(self.now)
    }

    /// Queues an asynchronous event for the application. If [`MAX_EVENTS`] events already wait, the oldest is lost.
    pub(crate) fn raise(&mut self, event: Event) {
        if self.events.len() >= MAX_EVENTS {
            self.events.pop_front();
            self.counters.events_lost += 1;
        }
        self.events.push_back(event);
        (self.news, self.raised) = (true, true);
    }

    fn complete(&mut self, cq: CqId, completion: Completion, solicited: bool) {
        let Some(queue) = self.cqs.get_mut(cq.0) else { return };
        self.news = true;
        if !queue.push(completion, solicited) {
            self.raise(Event::CompletionQueueOverflow(cq));
            self.overflow = true;
        }
    }
}

/// The reason for which a responder refuses a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The message needs a posted receive, and there is none. The responder sends an RNR NAK, and the peer may retry.
    NotReady,
    /// The request can never succeed: the responder sends a NAK with this code, which ends the connection. The
    /// [`Status`] goes into the completion of the receive that the message was using, and into
    /// [`Event::QueuePairError`].
    Never(NakCode, Status),
}

impl Refusal {
    /// The request is malformed, or the queue pair does not allow its operation.
    pub(crate) const INVALID: Refusal = Refusal::Never(NakCode::InvalidRequest, Status::LocalQpOperation);
    /// The access to the addressed memory is not allowed: wrong remote key, range or rights.
    pub(crate) const ACCESS: Refusal = Refusal::Never(NakCode::RemoteAccessError, Status::RemoteAccess);
    /// As [`Refusal::ACCESS`], for a Write with Immediate, which uses a receive: the receive completes with the status
    /// of section 11.6.2 for this case.
    pub(crate) const ACCESS_WITH_RECEIVE: Refusal = Refusal::Never(NakCode::RemoteAccessError, Status::LocalAccess);
    /// The message is longer than the memory of its receive.
    pub(crate) const TOO_LONG: Refusal = Refusal::Never(NakCode::InvalidRequest, Status::LocalLength);
    /// The memory of the receive that the message needs was deregistered.
    pub(crate) const RECEIVE: Refusal = Refusal::Never(NakCode::RemoteOperationalError, Status::LocalProtection);
}

/// Maximum length of a message in bytes, 2^31 (InfiniBand volume 1, section 9.7.6).
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// A received message that completes a posted receive, with the fields of the completion.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) write: bool,
    pub(crate) bytes: u32,
    pub(crate) imm: Option<u32>,
    pub(crate) invalidated: Option<u32>,
    pub(crate) solicited: bool,
    pub(crate) source: Option<Source>,
}

/// State of a queue pair that does not depend on its transport service (RC, IRN, UC or UD).
pub(crate) struct Common {
    pub(crate) qpn: Qpn,
    pub(crate) pd: Pd,
    pub(crate) init: QpInit,
    pub(crate) access: Access,
    pub(crate) state: State,
    pub(crate) connection: Option<Connection>,
    pub(crate) extras: Extras,
    pub(crate) counters: QpCounters,
    /// Whether a packet of the message that is being received was CE-marked.
    pub(crate) marked: bool,
    pub(crate) attributes: SendAttributes,
    pub(crate) route: Route,
    pub(crate) sends: SendQueue,
    pub(crate) receives: ReceiveQueue,
    /// Receives that messages in progress have taken from the receive queue, with the sequence number of each receive,
    /// in ascending order.
    inbox: VecDeque<(u64, Receive)>,
    /// Sequence number of the oldest receive that is not completed.
    next_receive: u64,
    /// The earliest send request that has failed: the number of one of its packets, and the status of the failure. The
    /// request completes with this status after all earlier requests; then the queue pair goes into the error state.
    failing: Option<(u64, Status)>,
    /// Whether the queue pair is in SQD and messages are outstanding. When they are completed, it raises
    /// [`Event::SendQueueDrained`].
    pub(crate) draining: bool,
    /// Whether the first packet of the peer has arrived.
    pub(crate) established: bool,
    /// Whether the last credits sent to the peer were 0, so that the peer waits for news of a receive.
    pub(crate) told_no_credits: Cell<bool>,
}

impl Common {
    /// Maximum number of receives of a shared receive queue that one queue pair holds for messages in progress. If a
    /// packet out of order needs a receive beyond this limit, the packet is dropped, as if it were lost. So a lost
    /// packet of one peer cannot use up the receives of other queue pairs.
    pub(crate) const MAX_EARLY: usize = 64;

    /// The send queue and the receive queue that `init` describes.
    ///
    /// # Errors
    /// If the system has no memory for them.
    pub(crate) fn queues(init: &QpInit) -> Result<(SendQueue, ReceiveQueue), VerbsError> {
        let sizes = init.capacities;
        let (capacity, max_sge) = if init.srq.is_some() { (0, 0) } else { (sizes.recv_wr, sizes.recv_sge) };
        Ok((SendQueue::new(sizes.send_wr)?, ReceiveQueue::new(capacity, max_sge)?))
    }

    pub(crate) fn new(qpn: Qpn, pd: Pd, init: QpInit, (sends, receives): (SendQueue, ReceiveQueue)) -> Common {
        Common {
            qpn,
            pd,
            route: Route { service: init.service, peer_qpn: 0, mtu: 0 },
            init,
            access: Access::LOCAL_READ,
            state: State::Reset,
            connection: None,
            extras: Extras::default(),
            counters: QpCounters::default(),
            marked: false,
            attributes: SendAttributes::default(),
            sends,
            receives,
            inbox: VecDeque::new(),
            next_receive: 0,
            failing: None,
            draining: false,
            established: false,
            told_no_credits: Cell::new(false),
        }
    }

    /// Resets the queue pair: from any state to RESET.
    pub(crate) fn reset(&mut self) {
        let queues = (self.sends.take_emptied(), self.receives.take_emptied());
        // The extras are abilities of the queue pair and not attributes of its connection.
        let (extras, counters) = (self.extras, self.counters);
        *self = Common::new(self.qpn, self.pd, self.init.clone(), queues);
        (self.extras, self.counters) = (extras, counters);
    }

    /// Whether the queue pair is in a state in which it processes packets of the peer.
    pub(crate) fn receives_packets(&self) -> bool {
        matches!(self.state, State::ReadyToReceive | State::ReadyToSend | State::SendQueueDrain | State::SendQueueError)
    }

    /// Whether the queue pair is in a state in which it sends request packets.
    pub(crate) fn sends_packets(&self) -> bool {
        matches!(self.state, State::ReadyToSend | State::SendQueueDrain)
    }

    /// Sets the sequence numbers as if `messages` messages of every kind had been sent and received before, so that a
    /// test can make them wrap.
    #[cfg(test)]
    pub(crate) fn count_from(&mut self, messages: u32) {
        self.next_receive = messages.into();
        self.sends.count_from(messages);
    }

    /// The queue pair with its protection domain, as checks of the peer's accesses need it.
    #[inline]
    pub(crate) fn at(&self) -> (Pd, Qpn) {
        (self.pd, self.qpn)
    }

    /// Counts a data packet that was sent with `bytes` bytes of payload.
    #[inline]
    pub(crate) fn count_sent(&mut self, ctx: &mut Ctx, retransmission: bool, bytes: u32) {
        ctx.counters.sent(retransmission, bytes);
        self.counters.bytes_sent += u64::from(bytes);
        self.counters.retransmitted += u64::from(retransmission);
    }

    // Receives.

    /// The number of receives that messages in progress hold.
    pub(crate) fn inbox_len(&self) -> usize {
        self.inbox.len()
    }

    /// The sequence number, modulo 2^24, of the oldest receive that is not completed.
    pub(crate) fn next_receive(&self) -> u32 {
        self.next_receive as u32
    }

    /// Returns the receive for a packet of the peer, which is `ahead` receives after the oldest uncompleted receive. If
    /// no packet has used this receive yet, takes it from the receive queue. `early` says that the packet arrived out
    /// of order.
    pub(crate) fn receive(&mut self, ctx: &mut Ctx, ahead: u32, early: bool) -> Option<&Receive> {
        let number = self.next_receive + u64::from(ahead);
        let found = match self.inbox.front() {
            Some((first, _)) if *first == number => Ok(0),
            Some(_) => self.inbox.binary_search_by_key(&number, |(number, _)| *number),
            None => Err(0),
        };
        let slot = match (found, self.init.srq) {
            (Ok(slot), _) => slot,
            (Err(_), None) => {
                // The receives before this receive belong to earlier messages, and leave the receive queue too.
                while self.inbox.len() <= ahead as usize {
                    let next = self.receives.queue.pop_front()?;
                    self.inbox.push_back((self.next_receive + self.inbox.len() as u64, next));
                }
                ahead as usize
            }
            (Err(slot), Some(id)) => {
                if early && self.inbox.len() >= Common::MAX_EARLY {
                    return None;
                }
                let srq = ctx.srqs.get_mut(id.0)?;
                let next = srq.receives.queue.pop_front()?;
                if srq.reaches_limit() {
                    ctx.raise(Event::SharedReceiveLimit(id));
                }
                self.inbox.insert(slot, (number, next));
                slot
            }
        };
        self.inbox.get(slot).map(|(_, receive)| receive)
    }

    /// Completes the oldest receive with success, for the received message `delivery`.
    pub(crate) fn received(&mut self, ctx: &mut Ctx, delivery: &Delivery) {
        let Some(receive) = self.take_oldest() else { return };
        let opcode = if delivery.write { Opcode::RecvWithImmediate } else { Opcode::Recv };
        let completion = Completion {
            wr_id: receive.wr_id,
            status: Status::Success,
            opcode,
            byte_len: delivery.bytes,
            imm: delivery.imm,
            invalidated: delivery.invalidated,
            source: delivery.source,
            marked: self.marked,
            trimmed: false,
            qpn: self.qpn,
            time: ctx.completion_time(),
        };
        ctx.complete(self.init.recv_cq, completion, delivery.solicited);
    }

    fn take_oldest(&mut self) -> Option<Receive> {
        self.inbox.front().filter(|(number, _)| *number == self.next_receive)?;
        self.next_receive += 1;
        self.inbox.pop_front().map(|(_, receive)| receive)
    }

    /// Completes the oldest receive for a message whose payload a switch has trimmed.
    pub(crate) fn receive_trimmed(&mut self, ctx: &mut Ctx, imm: u32) {
        if self.receive(ctx, 0, false).is_none() {
            return;
        }
        let Some(receive) = self.take_oldest() else { return };
        let completion = Completion {
            wr_id: receive.wr_id,
            status: Status::LocalQpOperation,
            opcode: Opcode::RecvWithImmediate,
            imm: Some(imm),
            trimmed: true,
            qpn: self.qpn,
            time: ctx.completion_time(),
            ..Completion::BLANK
        };
        ctx.complete(self.init.recv_cq, completion, false);
    }

    fn receive_failed(&self, ctx: &mut Ctx, receive: &Receive, status: Status) {
        let completion = Completion {
            wr_id: receive.wr_id,
            status,
            opcode: Opcode::Recv,
            byte_len: 0,
            imm: None,
            invalidated: None,
            source: None,
            marked: false,
            trimmed: false,
            qpn: self.qpn,
            time: ctx.completion_time(),
        };
        ctx.complete(self.init.recv_cq, completion, false);
    }

    /// Fails the queue pair after it refused a request of the peer. If the request was using the oldest receive
    /// (`in_use`), this receive completes with `status` too.
    pub(crate) fn fail_receive(&mut self, ctx: &mut Ctx, status: Status, in_use: bool) {
        if in_use && let Some(receive) = self.take_oldest() {
            self.receive_failed(ctx, &receive, status);
        }
        self.fail(ctx, status);
    }

    /// The syndrome of an ACK with end-to-end credits: the number of receives that are not completed. With a shared
    /// receive queue the ACK carries no credits, because other queue pairs take receives from the same queue.
    pub(crate) fn credits(&self) -> Syndrome {
        let credits = match self.init.srq {
            Some(_) => Credits::UNLIMITED,
            None => Credits::at_most((self.receives.queue.len() + self.inbox.len()) as u32),
        };
        self.told_no_credits.set(credits.count() == Some(0));
        Syndrome::Ack { credits }
    }

    // Sends.

    /// Completes a send request with `status`. A request that succeeds generates a completion only if it is signalled.
    pub(crate) fn sent(&self, ctx: &mut Ctx, wqe: &Wqe, status: Status) {
        if status == Status::Success && !wqe.flags.signaled && !self.init.signal_all {
            return;
        }
        let completion = Completion {
            wr_id: wqe.wr_id,
            status,
            opcode: wqe.op.completion(),
            byte_len: if wqe.op.is_fetching() { wqe.len } else { 0 },
            imm: None,
            invalidated: None,
            source: None,
            marked: false,
            trimmed: false,
            qpn: self.qpn,
            time: ctx.completion_time(),
        };
        ctx.complete(self.init.send_cq, completion, false);
    }

    /// Executes the oldest send request, which sends no packet and was not released for sending: a local operation, or
    /// a request that cannot be executed. It waits until all earlier requests are complete. Returns whether the next
    /// request may begin.
    #[cold]
    pub(crate) fn execute(&mut self, ctx: &mut Ctx) -> bool {
        if self.sends.released() > 0 {
            return false;
        }
        let Some(wqe) = self.sends.front() else { return false };
        let done = match (wqe.op, &wqe.local) {
            (SendOp::Bind, Local::Bind(bind)) => {
                ctx.memory.bind(self.pd, self.qpn, bind).map_err(|_| Status::WindowBind)
            }
            (SendOp::LocalInv(rkey), _) => {
                ctx.memory.invalidate_window(self.at(), rkey).map_err(|_| Status::WindowBind)
            }
            (_, Local::Invalid(status)) => Err(*status),
            _ => Err(Status::LocalQpOperation),
        };
        match done {
            Ok(()) => {
                if let Some(wqe) = self.sends.pop() {
                    self.sent(ctx, &wqe, Status::Success);
                }
                true
            }
            Err(status) if matches!(self.init.service, Service::Uc | Service::Ud) => {
                self.fail_send_queue(ctx, status);
                false
            }
            Err(status) => {
                self.fail_send(ctx, status);
                false
            }
        }
    }

    /// Completes with success the send requests that are done: all their packets are among the queue pair's first
    /// `acked` packets, and their responses have arrived.
    pub(crate) fn retire(&mut self, ctx: &mut Ctx, acked: u64) {
        while let Some(wqe) = self.sends.done(acked) {
            self.sent(ctx, wqe, Status::Success);
            self.sends.pop();
        }
        if let Some((packet, status)) = self.failing
            && self.sends.front().is_some_and(|oldest| oldest.end() > packet)
        {
            self.fail_send(ctx, status);
        }
        if self.draining && self.sends.released() == 0 {
            self.draining = false;
            ctx.raise(Event::SendQueueDrained(self.qpn));
        }
    }

    /// The number of a packet of the earliest send request that has failed; `None` if no request has failed. Neither
    /// this request nor any later request can succeed.
    pub(crate) fn failing(&self) -> Option<u64> {
        self.failing.map(|(packet, _)| packet)
    }

    /// Fails the send request to which packet number `packet` belongs. The request completes with `status` after all
    /// earlier requests; then the queue pair goes into the error state.
    pub(crate) fn fail_at(&mut self, ctx: &mut Ctx, packet: u64, status: Status) {
        if self.failing.is_none_or(|(earliest, _)| packet < earliest) {
            self.failing = Some((packet, status));
        }
        self.retire(ctx, 0);
    }

    /// Completes the oldest send request with `status`, and moves the queue pair into the error state.
    pub(crate) fn fail_send(&mut self, ctx: &mut Ctx, status: Status) {
        if let Some(wqe) = self.sends.pop() {
            self.sent(ctx, &wqe, status);
        }
        self.fail(ctx, status);
    }

    /// Completes the oldest send request with `status`, and moves the send queue into the error state (SQE). The queue
    /// pair still receives.
    pub(crate) fn fail_send_queue(&mut self, ctx: &mut Ctx, status: Status) {
        if let Some(wqe) = self.sends.pop() {
            self.sent(ctx, &wqe, status);
        }
        self.state = State::SendQueueError;
        self.draining = false;
        self.flush_sends(ctx);
    }

    /// Moves the queue pair into the error state for the reason `status`, and flushes its work requests.
    pub(crate) fn fail(&mut self, ctx: &mut Ctx, status: Status) {
        if self.state == State::Error {
            return;
        }
        self.state = State::Error;
        ctx.counters.queue_pair_errors += 1;
        ctx.raise(Event::QueuePairError(self.qpn, status));
        self.flush(ctx);
    }

    /// Completes all outstanding work requests with [`Status::WorkRequestFlushed`].
    pub(crate) fn flush(&mut self, ctx: &mut Ctx) {
        self.draining = false;
        self.failing = None;
        self.flush_sends(ctx);
        while let Some((_, receive)) = self.inbox.pop_front() {
            self.receive_failed(ctx, &receive, Status::WorkRequestFlushed);
        }
        while let Some(receive) = self.receives.queue.pop_front() {
            self.receive_failed(ctx, &receive, Status::WorkRequestFlushed);
        }
        if self.init.srq.is_some() {
            ctx.raise(Event::LastReceiveTaken(self.qpn));
        }
    }

    pub(crate) fn flush_sends(&mut self, ctx: &mut Ctx) {
        while let Some(wqe) = self.sends.pop() {
            self.sent(ctx, &wqe, Status::WorkRequestFlushed);
        }
    }
}

/// The completion status of a send request that the peer refused with the NAK code `code`.
pub(crate) fn status_of(code: NakCode) -> Status {
    match code {
        NakCode::RemoteAccessError => Status::RemoteAccess,
        NakCode::RemoteOperationalError => Status::RemoteOperation,
        _ => Status::RemoteInvalidRequest,
    }
}
