//! What queue pairs of every service have in common: queues, completions, errors.

use crate::Counters;
use crate::memory::Memory;
use crate::queue::{CompletionQueue, Receive, ReceiveQueue, SharedReceiveQueue};
use crate::send_queue::{Route, SendQueue, Wqe};
use crate::types::{
    Access, Completion, Connection, CqId, Event, Opcode, Pd, QpInit, Qpn, SendAttributes, State, Status,
};
use rnic_wire::{Credits, NakCode, Syndrome};
use slab::Slab;
use std::collections::VecDeque;

/// The device around a queue pair.
pub(crate) struct Ctx<'a> {
    pub(crate) memory: &'a mut Memory,
    pub(crate) cqs: &'a mut Slab<CompletionQueue>,
    pub(crate) srqs: &'a mut Slab<SharedReceiveQueue>,
    pub(crate) events: &'a mut VecDeque<Event>,
    pub(crate) counters: &'a mut Counters,
    /// A completion queue just overflowed: its queue pairs are to go into error.
    pub(crate) overflow: &'a mut bool,
}

impl Ctx<'_> {
    fn complete(&mut self, cq: CqId, completion: Completion, solicited: bool) {
        let Some(queue) = self.cqs.get_mut(cq.0 as usize) else { return };
        if !queue.push(completion, solicited) {
            self.events.push_back(Event::CompletionQueueOverflow(cq));
            *self.overflow = true;
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

/// The queues of a queue pair and what it is connected to.
pub(crate) struct Common {
    pub(crate) qpn: Qpn,
    pub(crate) pd: Pd,
    pub(crate) init: QpInit,
    pub(crate) access: Access,
    pub(crate) state: State,
    pub(crate) connection: Option<Connection>,
    pub(crate) attributes: SendAttributes,
    pub(crate) route: Route,
    pub(crate) sends: SendQueue,
    pub(crate) receives: ReceiveQueue,
    /// Receives given to messages that are coming in, in order; the first has number `inbox_base`.
    pub(crate) inbox: VecDeque<Receive>,
    pub(crate) inbox_base: u32,
    /// The send queue is to be reported as drained.
    pub(crate) draining: bool,
    /// An event told of the first packet.
    pub(crate) established: bool,
}

impl Common {
    /// Whether packets of the peer are taken.
    pub(crate) fn receives_packets(&self) -> bool {
        matches!(self.state, State::ReadyToReceive | State::ReadyToSend | State::SendQueueDrain | State::SendQueueError)
    }

    /// Whether released sends go out.
    pub(crate) fn sends_packets(&self) -> bool {
        matches!(self.state, State::ReadyToSend | State::SendQueueDrain)
    }

    /// The receive with number `base + ahead`, taken from the queue if it was not yet.
    pub(crate) fn receive(&mut self, ctx: &mut Ctx<'_>, ahead: usize) -> Option<&Receive> {
        while self.inbox.len() <= ahead {
            let next = match self.init.srq {
                None => self.receives.queue.pop_front()?,
                Some(id) => {
                    let srq = ctx.srqs.get_mut(id.0 as usize)?;
                    let next = srq.receives.queue.pop_front()?;
                    if srq.limit > 0 && (srq.receives.queue.len() as u32) < srq.limit {
                        srq.limit = 0;
                        ctx.events.push_back(Event::SharedReceiveLimit(id));
                    }
                    next
                }
            };
            self.inbox.push_back(next);
        }
        self.inbox.get(ahead)
    }

    /// The oldest receive in use is done.
    pub(crate) fn received(
        &mut self, ctx: &mut Ctx<'_>, status: Status, opcode: Opcode, byte_len: u32, imm: Option<u32>,
        invalidated: Option<u32>, solicited: bool,
    ) {
        let Some(receive) = self.inbox.pop_front() else { return };
        self.inbox_base = self.inbox_base.wrapping_add(1);
        let completion = Completion { wr_id: receive.wr_id, status, opcode, byte_len, imm, invalidated, qpn: self.qpn };
        ctx.complete(self.init.recv_cq, completion, solicited);
    }

    /// A send is done.
    pub(crate) fn sent(&mut self, ctx: &mut Ctx<'_>, wqe: &Wqe, status: Status) {
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
        };
        ctx.complete(self.init.send_cq, completion, false);
    }

    /// Completes the sends that are done, given that `acked` packets are acknowledged.
    pub(crate) fn retire(&mut self, ctx: &mut Ctx<'_>, acked: u64) {
        while let Some(wqe) = self.sends.pop_done(acked) {
            self.sent(ctx, &wqe, Status::Success);
        }
        if self.draining && self.state == State::SendQueueDrain && self.sends.released() == 0 {
            self.draining = false;
            ctx.events.push_back(Event::SendQueueDrained(self.qpn));
        }
    }

    /// The oldest send failed, and with it the queue pair.
    pub(crate) fn fail_send(&mut self, ctx: &mut Ctx<'_>, status: Status) {
        if let Some(wqe) = self.sends.pop() {
            self.sent(ctx, &wqe, status);
        }
        self.fail(ctx, status);
    }

    /// The send that `packet` belongs to failed here, and with it the queue pair. Nobody knows of those before it.
    pub(crate) fn fail_packet(&mut self, ctx: &mut Ctx<'_>, packet: u64, status: Status) {
        while let Some(wqe) = self.sends.pop() {
            if packet < wqe.end() {
                self.sent(ctx, &wqe, status);
                break;
            }
            self.sent(ctx, &wqe, Status::WorkRequestFlushed);
        }
        self.fail(ctx, status);
    }

    /// A request of the peer cannot be taken: the receive in use, if there is one, and the queue pair fail.
    pub(crate) fn fail_receive(&mut self, ctx: &mut Ctx<'_>, status: Status) {
        if !self.inbox.is_empty() {
            self.received(ctx, status, Opcode::Recv, 0, None, None, false);
        }
        self.fail(ctx, status);
    }

    /// The queue pair goes into error: everything outstanding is flushed.
    pub(crate) fn fail(&mut self, ctx: &mut Ctx<'_>, status: Status) {
        if self.state == State::Error {
            return;
        }
        self.state = State::Error;
        ctx.counters.queue_pair_errors += 1;
        ctx.events.push_back(Event::QueuePairError(self.qpn, status));
        self.flush(ctx);
    }

    /// Everything outstanding completes as flushed.
    pub(crate) fn flush(&mut self, ctx: &mut Ctx<'_>) {
        self.flush_sends(ctx);
        loop {
            if self.inbox.is_empty() {
                match self.receives.queue.pop_front() {
                    Some(next) => self.inbox.push_back(next),
                    None => break,
                }
            }
            self.received(ctx, Status::WorkRequestFlushed, Opcode::Recv, 0, None, None, false);
        }
        if self.init.srq.is_some() {
            ctx.events.push_back(Event::LastReceiveTaken(self.qpn));
        }
    }

    pub(crate) fn flush_sends(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(wqe) = self.sends.pop() {
            self.sent(ctx, &wqe, Status::WorkRequestFlushed);
        }
    }

    /// What an acknowledgement promises: the receives that are posted, or nothing with a shared queue.
    pub(crate) fn credits(&self) -> Syndrome {
        let credits = match self.init.srq {
            Some(_) => Credits::UNLIMITED,
            None => Credits::at_most(self.receives.queue.len() as u32),
        };
        Syndrome::Ack { credits }
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
