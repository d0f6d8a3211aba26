//! What queue pairs of every service have in common: queues, completions, errors.

use crate::Counters;
use crate::memory::Memory;
use crate::packet::Route;
use crate::queue::{CompletionQueue, Receive, ReceiveQueue, SharedReceiveQueue};
use crate::send_queue::{SendQueue, Wqe};
use crate::table::Table;
use crate::types::{
    Access, Completion, Connection, CqId, Event, Opcode, Pd, QpInit, Qpn, SendAttributes, State, Status,
};
use rnic_transport::Time;
use rnic_wire::{Credits, NakCode, Syndrome};
use std::collections::VecDeque;

/// Events that wait for the application; with more the oldest is lost.
pub const MAX_EVENTS: usize = 65_536;

/// The device around its queue pairs.
pub(crate) struct Ctx {
    pub(crate) memory: Memory,
    pub(crate) cqs: Table<CompletionQueue>,
    pub(crate) srqs: Table<SharedReceiveQueue>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    /// A completion queue just overflowed: its queue pairs are to go into error.
    pub(crate) overflow: bool,
    /// The latest time that the device was told: the timestamp of completions.
    pub(crate) now: Time,
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
            now: Time::ZERO,
        }
    }

    /// Keeps an event until the application asks for it, or so many have come since that it never will.
    pub(crate) fn raise(&mut self, event: Event) {
        if self.events.len() >= MAX_EVENTS {
            self.events.pop_front();
            self.counters.events_lost += 1;
        }
        self.events.push_back(event);
    }

    fn complete(&mut self, cq: CqId, completion: Completion, solicited: bool) {
        let Some(queue) = self.cqs.get_mut(cq.0) else { return };
        if !queue.push(completion, solicited) {
            self.raise(Event::CompletionQueueOverflow(cq));
            self.overflow = true;
        }
    }
}

/// Why a request of the peer is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// There is no receive for it: later, perhaps.
    NotReady,
    /// Never. The status is for the receive that it would have used, and the event.
    Never(NakCode, Status),
}

impl Refusal {
    /// The request makes no sense here, or the queue pair does not admit its kind.
    pub(crate) const INVALID: Refusal = Refusal::Never(NakCode::InvalidRequest, Status::LocalQpOperation);
    /// The memory does not admit it.
    pub(crate) const ACCESS: Refusal = Refusal::Never(NakCode::RemoteAccessError, Status::RemoteAccess);
    /// The message is longer than its receive.
    pub(crate) const TOO_LONG: Refusal = Refusal::Never(NakCode::InvalidRequest, Status::LocalLength);
    /// The receive's own memory is gone.
    pub(crate) const RECEIVE: Refusal = Refusal::Never(NakCode::RemoteOperationalError, Status::LocalProtection);
}

/// A message has at most this many bytes (InfiniBand volume 1, section 9.7.6).
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// A receive that completes with a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) write: bool,
    pub(crate) bytes: u32,
    pub(crate) imm: Option<u32>,
    pub(crate) invalidated: Option<u32>,
    pub(crate) solicited: bool,
}

/// The queues of a queue pair and what it is connected to.
pub(crate) struct Common {
    pub(crate) qpn: Qpn,
    pub(crate) pd: Pd,
    pub(crate) init: QpInit,
    pub(crate) access: Access,
    pub(crate) state: State,
    pub(crate) connection: Option<Connection>,
    pub(crate) attributes: SendAttributes,
    /// IRN: retries within this time count once.
    pub(crate) patience: Time,
    pub(crate) route: Route,
    pub(crate) sends: SendQueue,
    pub(crate) receives: ReceiveQueue,
    /// Receives given to messages that are coming in, by their numbers.
    inbox: VecDeque<(u64, Receive)>,
    /// Number of the oldest receive that is not completed.
    next_receive: u64,
    /// The send that this packet belongs to has failed; it completes so when its turn comes, and the queue pair fails with it.
    failing: Option<(u64, Status)>,
    /// The send queue is to be reported as drained.
    pub(crate) draining: bool,
    /// An event told of the first packet.
    pub(crate) established: bool,
}

impl Common {
    /// Messages out of order hold at most this many receives of a shared queue: a peer that leaves out one packet must not drain what
    /// others live on. Packets beyond count as lost.
    pub(crate) const MAX_EARLY: usize = 64;

    pub(crate) fn new(qpn: Qpn, pd: Pd, init: QpInit) -> Common {
        let sizes = init.capacities;
        let (capacity, max_sge) = if init.srq.is_some() { (0, 0) } else { (sizes.recv_wr, sizes.recv_sge) };
        Common {
            qpn,
            pd,
            route: Route { service: init.service, peer_qpn: 0, mtu: 0 },
            init,
            access: Access::LOCAL_READ,
            state: State::Reset,
            connection: None,
            attributes: SendAttributes::default(),
            patience: Time::ZERO,
            sends: SendQueue::default(),
            receives: ReceiveQueue::new(capacity, max_sge),
            inbox: VecDeque::new(),
            next_receive: 0,
            failing: None,
            draining: false,
            established: false,
        }
    }

    /// Any state to RESET: as it was made.
    pub(crate) fn reset(&mut self) {
        *self = Common::new(self.qpn, self.pd, self.init.clone());
    }

    /// Whether packets of the peer are taken.
    pub(crate) fn receives_packets(&self) -> bool {
        matches!(self.state, State::ReadyToReceive | State::ReadyToSend | State::SendQueueDrain | State::SendQueueError)
    }

    /// Whether released sends go out.
    pub(crate) fn sends_packets(&self) -> bool {
        matches!(self.state, State::ReadyToSend | State::SendQueueDrain)
    }

    /// As if `messages` of every kind had come and gone before.
    #[cfg(test)]
    pub(crate) fn count_from(&mut self, messages: u32) {
        self.next_receive = messages.into();
        self.sends.count_from(messages);
    }

    // Receives.

    /// Receives with messages in progress.
    pub(crate) fn inbox_len(&self) -> usize {
        self.inbox.len()
    }

    /// The number, modulo 2^24, of the oldest receive that is not completed.
    pub(crate) fn next_receive(&self) -> u32 {
        self.next_receive as u32
    }

    /// The receive that follows `ahead` others, taken from the queue if it was not yet. `early`: for a message out of order.
    pub(crate) fn receive(&mut self, ctx: &mut Ctx, ahead: u32, early: bool) -> Option<&Receive> {
        let number = self.next_receive + u64::from(ahead);
        let place = match self.inbox.front() {
            Some((first, _)) if *first == number => Ok(0),
            Some(_) => self.inbox.binary_search_by_key(&number, |(number, _)| *number),
            None => Err(0),
        };
        let place = match (place, self.init.srq) {
            (Ok(place), _) => place,
            (Err(_), None) => {
                // Those before it are given to the messages before it.
                while self.inbox.len() <= ahead as usize {
                    let next = self.receives.queue.pop_front()?;
                    self.inbox.push_back((self.next_receive + self.inbox.len() as u64, next));
                }
                ahead as usize
            }
            (Err(place), Some(id)) => {
                if early && self.inbox.len() >= Common::MAX_EARLY {
                    return None;
                }
                let srq = ctx.srqs.get_mut(id.0)?;
                let next = srq.receives.queue.pop_front()?;
                if srq.reaches_limit() {
                    ctx.raise(Event::SharedReceiveLimit(id));
                }
                self.inbox.insert(place, (number, next));
                place
            }
        };
        self.inbox.get(place).map(|(_, receive)| receive)
    }

    /// The oldest receive is done.
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
            qpn: self.qpn,
            time: ctx.now,
        };
        ctx.complete(self.init.recv_cq, completion, delivery.solicited);
    }

    fn take_oldest(&mut self) -> Option<Receive> {
        self.inbox.front().filter(|(number, _)| *number == self.next_receive)?;
        self.next_receive += 1;
        self.inbox.pop_front().map(|(_, receive)| receive)
    }

    fn receive_failed(&self, ctx: &mut Ctx, receive: &Receive, status: Status) {
        let completion = Completion {
            wr_id: receive.wr_id,
            status,
            opcode: Opcode::Recv,
            byte_len: 0,
            imm: None,
            invalidated: None,
            qpn: self.qpn,
            time: ctx.now,
        };
        ctx.complete(self.init.recv_cq, completion, false);
    }

    /// A request of the peer cannot be taken: the queue pair fails, and the oldest receive if it was `in_use` by the request.
    pub(crate) fn fail_receive(&mut self, ctx: &mut Ctx, status: Status, in_use: bool) {
        if in_use && let Some(receive) = self.take_oldest() {
            self.receive_failed(ctx, &receive, status);
        }
        self.fail(ctx, status);
    }

    /// What an acknowledgement promises: the receives that no completed message has used, or nothing with a shared queue.
    pub(crate) fn credits(&self) -> Syndrome {
        let credits = match self.init.srq {
            Some(_) => Credits::UNLIMITED,
            None => Credits::at_most((self.receives.queue.len() + self.inbox.len()) as u32),
        };
        Syndrome::Ack { credits }
    }

    // Sends.

    /// A send is done.
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
            qpn: self.qpn,
            time: ctx.now,
        };
        ctx.complete(self.init.send_cq, completion, false);
    }

    /// Completes the sends that are done, given that `acked` packets are acknowledged.
    pub(crate) fn retire(&mut self, ctx: &mut Ctx, acked: u64) {
        while let Some(wqe) = self.sends.pop_done(acked) {
            self.sent(ctx, &wqe, Status::Success);
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

    /// The packet from which on no send can succeed any more, if there is one.
    pub(crate) fn failing(&self) -> Option<u64> {
        self.failing.map(|(packet, _)| packet)
    }

    /// The send that `packet` belongs to has failed. Those before it still complete; then it does, and the queue pair fails.
    pub(crate) fn fail_at(&mut self, ctx: &mut Ctx, packet: u64, status: Status) {
        if self.failing.is_none_or(|(earliest, _)| packet < earliest) {
            self.failing = Some((packet, status));
        }
        self.retire(ctx, 0);
    }

    /// The oldest send failed, and with it the queue pair.
    pub(crate) fn fail_send(&mut self, ctx: &mut Ctx, status: Status) {
        if let Some(wqe) = self.sends.pop() {
            self.sent(ctx, &wqe, status);
        }
        self.fail(ctx, status);
    }

    /// The queue pair goes into error: everything outstanding is flushed.
    pub(crate) fn fail(&mut self, ctx: &mut Ctx, status: Status) {
        if self.state == State::Error {
            return;
        }
        self.state = State::Error;
        ctx.counters.queue_pair_errors += 1;
        ctx.raise(Event::QueuePairError(self.qpn, status));
        self.flush(ctx);
    }

    /// Everything outstanding completes as flushed.
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

/// The status of a send that the peer refused.
pub(crate) fn status_of(code: NakCode) -> Status {
    match code {
        NakCode::RemoteAccessError => Status::RemoteAccess,
        NakCode::RemoteOperationalError => Status::RemoteOperation,
        _ => Status::RemoteInvalidRequest,
    }
}
