//! The reliable connection of RoCE (InfiniBand volume 1, chapter 9): go-back-N.
//!
//! A read takes one sequence number for each packet of its answer, so requests and answers share one sequence. An answer
//! acknowledges what precedes it; an acknowledgement of something after an unanswered read is an implied NAK of the read.
//!
//! Where the specification leaves a choice:
//! - an acknowledgement is asked for with the last packet of a message, at least every 16 packets, with every packet sent again, and
//!   with the last packet that may be sent for now;
//! - timeouts alone use up retries, any progress gives them back; a NAK is proof that the peer lives;
//! - with credits used up, a message that needs a receive still goes out if nothing else is outstanding; the RNR NAK paces it.

use super::reply::{Reply, Resource, Resources};
use super::sending::{Due, Stamps, Waiting};
use crate::common::{Common, Ctx, Refusal, status_of};
use crate::flow::{Flow, Pace};
use crate::memory::Want;
use crate::send_queue::{packets, place, write};
use crate::types::{Opcode, SendOp, State, Status, VerbsError};
use crate::{Congestion, Dropped};
use rnic_transport::pdu::Stamp;
use rnic_transport::recovery::{Arrival, GoBackN, StreamReceiver};
use rnic_transport::{FlowConfig, Notifier, Pdu, PduKind, Psn, Receiver, RxMeta, Time, Timer};
use rnic_wire::{Aeth, AtomicAckEth, Extra, Headers, NakCode, Operation, Packet, Position, RnrTimer, Syndrome};
use std::collections::VecDeque;

/// A message of the peer that has begun.
#[derive(Clone, Copy, Debug)]
enum Incoming {
    Send { done: u32 },
    Write { addr: u64, rkey: u32, done: u32, left: u32 },
}

/// State of a reliable connection.
pub(crate) struct Rc {
    cfg: FlowConfig,
    // The requester.
    flow: Box<dyn Flow>,
    first: Psn,
    /// Packets acknowledged, counted from the first.
    acked: u64,
    stamps: Stamps,
    /// The answer for which an implied NAK went back already.
    implied: Option<u64>,
    waiting: Waiting,
    /// Number of the last message that the peer's credits admit; `None` without end-to-end flow control.
    credit_limit: Option<u32>,
    /// Packets since an acknowledgement was asked for.
    unasked: u32,
    /// The last round-trip time measured. Of an answer's packets after the first nobody knows when they were asked for.
    rtt: Time,
    // The responder.
    receiver: Receiver<GoBackN>,
    msn: u32,
    incoming: Option<Incoming>,
    replies: VecDeque<Reply>,
    resources: Resources,
    /// An RNR NAK is out: what follows is dropped until the packet comes again.
    not_ready: bool,
    /// The last word: why the connection ends.
    refusal: Option<(Psn, NakCode)>,
    pace: Box<dyn Pace>,
    notifier: Notifier,
    cnp_due: bool,
    /// Whose turn it is: answers to the peer, or requests.
    answers_next: bool,
}

impl Rc {
    /// Packets after which an acknowledgement is asked for.
    const ASK_EVERY: u32 = 16;

    pub(crate) fn new(c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time) -> Result<Rc, VerbsError> {
        let connection = c.connection.ok_or(VerbsError::Unknown("connection"))?;
        let first = Psn::new(c.attributes.send_psn);
        let cfg = FlowConfig { first_psn: first, ..cfg.clone() };
        let flow = congestion.go_back_n(&cfg, now).map_err(VerbsError::Congestion)?;
        let pace = congestion.pace(&cfg, now).map_err(VerbsError::Congestion)?;
        let receive = FlowConfig { first_psn: Psn::new(connection.recv_psn), ..cfg.clone() };
        Ok(Rc {
            flow,
            first,
            acked: 0,
            stamps: Stamps::new(cfg.bdp_cap),
            implied: None,
            waiting: Waiting::default(),
            credit_limit: None,
            unasked: 0,
            rtt: cfg.base_rtt,
            receiver: Receiver::stream(&receive, now),
            msn: 0,
            incoming: None,
            replies: VecDeque::new(),
            resources: Resources::new(connection.max_dest_rd_atomic),
            not_ready: false,
            refusal: None,
            pace,
            notifier: Notifier::new(),
            cnp_due: false,
            answers_next: false,
            cfg,
        })
    }

    /// RTR to RTS: what the requester needs.
    pub(crate) fn start(
        &mut self, c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time,
    ) -> Result<(), VerbsError> {
        self.first = Psn::new(c.attributes.send_psn);
        self.cfg = FlowConfig { first_psn: self.first, ..cfg.clone() };
        self.flow = congestion.go_back_n(&self.cfg, now).map_err(VerbsError::Congestion)?;
        self.waiting = Waiting::new(&c.attributes);
        Ok(())
    }

    fn psn(&self, packet: u64) -> Psn {
        self.first.plus(packet as u32)
    }

    /// The packet of this sequence number, near the first unacknowledged; may be negative or beyond what was sent.
    fn position(&self, psn: u32) -> i64 {
        self.acked as i64 + i64::from(Psn::new(psn).distance_from(self.psn(self.acked)))
    }

    /// Gives the flow what may be sent.
    pub(crate) fn release(&mut self, c: &mut Common) {
        while c.state == State::ReadyToSend {
            let Some(wqe) = c.sends.waiting() else { return };
            let fetching = c.sends.fetching();
            let held = (wqe.flags.fence && fetching > 0)
                || (wqe.op.is_fetching() && fetching >= u32::from(c.attributes.max_rd_atomic))
                || (wqe.op.takes_receive()
                    && c.sends.released() > 0
                    && self
                        .credit_limit
                        .is_some_and(|limit| Psn::new(c.sends.next_message()).distance_from(Psn::new(limit)) > 0));
            if held {
                return;
            }
            let packets = c.sends.release(c.init.service, c.route.mtu);
            self.flow.extend(u64::from(packets));
        }
    }

    /// A packet of the connection came in.
    pub(crate) fn handle(
        &mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, packet: &Packet<'_>, marked: bool,
    ) -> Result<(), Dropped> {
        let operation = packet.headers.bth.opcode.operation();
        if operation.is_request() {
            return self.on_request(c, ctx, now, packet, marked);
        }
        if !c.sends_packets() {
            return Err(Dropped::State);
        }
        match operation {
            Operation::Acknowledge => self.on_acknowledge(c, ctx, now, &packet.headers)?,
            Operation::ReadResponse | Operation::AtomicAcknowledge => {
                if let Some(interval) = self.cfg.cnp_interval {
                    self.cnp_due |= self.notifier.on_packet(interval, now, marked);
                }
                self.on_answer(c, ctx, now, packet)?;
            }
            Operation::Cnp => {
                ctx.counters.cnps_received += 1;
                self.flow.handle(now, Pdu::cnp());
                self.pace.on_cnp(now);
            }
            _ => return Err(Dropped::Opcode),
        }
        self.release(c);
        Ok(())
    }

    // Requester.

    fn on_acknowledge(
        &mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, headers: &Headers,
    ) -> Result<(), Dropped> {
        let Some(aeth) = headers.aeth else { return Err(Dropped::Opcode) };
        let at = self.position(headers.bth.psn);
        let behind = at + 1 < self.acked as i64;
        let Ok(at) = u64::try_from(at) else {
            // Before the first packet: an ACK of nothing.
            return if behind { Err(Dropped::Stale) } else { Ok(()) };
        };
        match aeth.syndrome {
            Syndrome::Ack { credits } => {
                if behind {
                    return Err(Dropped::Stale);
                }
                self.credit_limit = credits.count().map(|count| aeth.msn.wrapping_add(count) & 0xff_ffff);
                self.advance(c, ctx, now, at + 1, PduKind::Ack);
            }
            _ if at < self.acked => return Err(Dropped::Stale),
            Syndrome::Nak(NakCode::PsnSequenceError) => {
                ctx.counters.naks_received += 1;
                self.advance(c, ctx, now, at, PduKind::Nack);
            }
            Syndrome::RnrNak { timer } => {
                self.advance(c, ctx, now, at, PduKind::Ack);
                if self.acked == at && at < self.acked + u64::from(self.flow.in_flight()) {
                    ctx.counters.rnr_naks_received += 1;
                    if !self.waiting.not_ready(now, Time::from_us(u64::from(timer.micros()))) {
                        c.fail_send(ctx, Status::RnrRetryExceeded);
                    }
                }
            }
            Syndrome::Nak(code) => {
                self.advance(c, ctx, now, at, PduKind::Ack);
                if self.acked == at && c.sends.released() > 0 {
                    c.fail_send(ctx, status_of(code));
                }
            }
        }
        Ok(())
    }

    /// Everything before packet `upto` has arrived, unless an answer is missing; a NACK asks for `upto` again.
    fn advance(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, upto: u64, kind: PduKind) {
        let stamp = self.stamps.get(self.psn(upto.saturating_sub(1)));
        self.advance_with(c, ctx, now, upto, kind, stamp);
    }

    /// The same, caused by a packet that left at `stamp`.
    fn advance_with(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, upto: u64, kind: PduKind, stamp: Stamp) {
        self.rtt = stamp.elapsed(now);
        let missing = c.sends.unanswered().map(|wqe| wqe.first + u64::from(wqe.answered));
        let pdu = match missing {
            Some(missing) if missing < upto => {
                if self.implied == Some(missing) {
                    Pdu::ack(self.psn(missing), stamp)
                } else {
                    self.implied = Some(missing);
                    ctx.counters.implied_naks += 1;
                    Pdu::nack(self.psn(missing), self.psn(upto), stamp)
                }
            }
            _ if kind == PduKind::Nack => Pdu::nack(self.psn(upto), self.psn(upto), stamp),
            _ => Pdu::ack(self.psn(upto), stamp),
        };
        let progress = self.flow.handle(now, pdu);
        if progress.acked > 0 {
            self.acked += u64::from(progress.acked);
            self.waiting.progress();
            c.retire(ctx, self.acked);
        }
    }

    fn on_answer(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, packet: &Packet<'_>) -> Result<(), Dropped> {
        let at = self.position(packet.headers.bth.psn);
        let atomic = packet.headers.atomic_ack;
        let pd = c.pd;
        let mtu = c.route.mtu;
        let Some(wqe) = c.sends.unanswered() else { return Err(Dropped::Stale) };
        let expected = wqe.first + u64::from(wqe.answered);
        if at < expected as i64 {
            return Err(Dropped::Stale);
        }
        if at as u64 != expected || expected >= self.acked + u64::from(self.flow.in_flight()) {
            // A later answer: those before it are lost. One to a request that is not out any more is none.
            if (at as u64) < self.acked + u64::from(self.flow.in_flight()) {
                let stamp = Stamp::before(now, self.rtt);
                self.advance_with(c, ctx, now, at as u64, PduKind::Ack, stamp);
            }
            return Err(Dropped::OutOfOrder);
        }
        let done = wqe.answered * mtu;
        let original = atomic.map(|atomic| atomic.original.to_ne_bytes());
        let (data, fits) = match &original {
            Some(bytes) => (&bytes[..], wqe.op.is_atomic()),
            None => {
                let (_, len) = place(wqe.len, wqe.answered, mtu);
                (packet.payload, !wqe.op.is_atomic() && packet.payload.len() == len as usize)
            }
        };
        if !fits {
            self.fail_after(c, ctx, now, expected, Status::BadResponse);
            return Ok(());
        }
        if wqe.local.scatter(ctx.memory, pd, done, data).is_err() {
            self.fail_after(c, ctx, now, expected, Status::LocalProtection);
            return Ok(());
        }
        wqe.answered += 1;
        let stamp = match wqe.answered {
            1 => self.stamps.get(self.psn(expected)),
            _ => Stamp::before(now, self.rtt),
        };
        self.advance_with(c, ctx, now, expected + 1, PduKind::Ack, stamp);
        Ok(())
    }

    /// Everything before `packet` is done, the request at `packet` failed.
    fn fail_after(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, packet: u64, status: Status) {
        let progress = self.flow.handle(now, Pdu::ack(self.psn(packet), Stamp::at(now)));
        self.acked += u64::from(progress.acked);
        c.retire(ctx, self.acked);
        c.fail_send(ctx, status);
    }

    fn emit_request(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, out: &mut [u8]) -> usize {
        if !c.sends_packets() || self.waiting.is_waiting() {
            return 0;
        }
        let Some(pick) = self.flow.poll(now) else { return 0 };
        let packet = self.acked + u64::from(pick.psn.since(self.psn(self.acked)));
        let (route, pd) = (c.route, c.pd);
        let Some(wqe) = c.sends.find(packet) else { return 0 };
        let index = (packet - wqe.first) as u32;
        let (mut headers, offset, len) = route.request(wqe, index, pick.psn.value());
        let fetching = wqe.op.is_fetching();
        let claimed = if fetching { wqe.packets - index - 1 } else { 0 };
        let ends = packet + 1 == wqe.end() || fetching;
        self.flow.claim(claimed);
        self.unasked += 1;
        let asks = ends || pick.retransmission || self.unasked >= Rc::ASK_EVERY || self.flow.next_transmit().is_none();
        headers.bth.ack_request = asks;
        if asks {
            self.unasked = 0;
        }
        self.stamps.set(pick.psn, now);
        match write(&headers, len, out, |payload| wqe.local.gather(ctx.memory, pd, offset, payload)) {
            Ok(bytes) => {
                ctx.counters.sent(pick.retransmission, len);
                self.flow.sent(now, bytes as u32 + super::AROUND_PACKET);
                bytes
            }
            Err(_) => {
                c.fail_packet(ctx, packet, Status::LocalProtection);
                0
            }
        }
    }

    // Responder.

    fn on_request(
        &mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, packet: &Packet<'_>, marked: bool,
    ) -> Result<(), Dropped> {
        let bth = &packet.headers.bth;
        let psn = Psn::new(bth.psn);
        match self.receiver.recovery().foresee(psn) {
            Arrival::InOrder => {
                let claims = match self.execute(c, ctx, packet) {
                    Ok(claims) => claims,
                    Err(Refusal::NotReady) => {
                        self.not_ready = true;
                        self.reply(Reply::NotReady(psn));
                        ctx.counters.rnr_naks_sent += 1;
                        return Err(Dropped::NoReceive);
                    }
                    Err(Refusal::Never(code, status)) => {
                        self.refusal = Some((psn, code));
                        c.fail_receive(ctx, status);
                        return Err(Dropped::Refused);
                    }
                };
                self.not_ready = false;
                let outcome = self.receiver.handle(&self.cfg, now, Pdu::data(psn, false, now), RxMeta { marked });
                self.cnp_due |= outcome.notify;
                match claims {
                    Some(claims) => self.receiver.claim(claims - 1),
                    None if bth.ack_request => self.reply(Reply::Ack(psn)),
                    None => {}
                }
                Ok(())
            }
            Arrival::Duplicate => {
                ctx.counters.duplicates += 1;
                self.repeat(c, ctx, packet);
                Err(Dropped::Duplicate)
            }
            Arrival::Ahead | Arrival::Useless => {
                if !self.not_ready {
                    let outcome = self.receiver.handle(&self.cfg, now, Pdu::data(psn, false, now), RxMeta { marked });
                    self.cnp_due |= outcome.notify;
                    if outcome.reply.is_some() {
                        ctx.counters.naks_sent += 1;
                        self.reply(Reply::OutOfSequence(self.receiver.recovery().expected()));
                    }
                }
                Err(Dropped::OutOfOrder)
            }
        }
    }

    /// Queues a reply; an ACK takes the place of one just before it.
    fn reply(&mut self, reply: Reply) {
        if let (Reply::Ack(psn), Some(Reply::Ack(last))) = (&reply, self.replies.back_mut()) {
            *last = *psn;
            return;
        }
        self.replies.push_back(reply);
    }

    /// Carries out a packet in order. Reads and atomics return how many sequence numbers they take.
    fn execute(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, packet: &Packet<'_>) -> Result<Option<u32>, Refusal> {
        const INVALID: Refusal = Refusal::Never(NakCode::InvalidRequest, Status::LocalQpOperation);
        const ACCESS: Refusal = Refusal::Never(NakCode::RemoteAccessError, Status::RemoteAccess);
        let headers = &packet.headers;
        let opcode = headers.bth.opcode;
        let len = packet.payload.len() as u32;
        let begins = super::begins(opcode.position());
        let ends = super::ends(opcode.position());
        if begins != self.incoming.is_none() {
            return Err(INVALID);
        }
        let imm = headers.imm.map(|imm| imm.0);
        match opcode.operation() {
            Operation::Send => {
                let done = match self.incoming {
                    None => 0,
                    Some(Incoming::Send { done }) => done,
                    Some(Incoming::Write { .. }) => return Err(INVALID),
                };
                let pd = c.pd;
                let receive = c.receive(ctx, 0).ok_or(Refusal::NotReady)?;
                if u64::from(done) + u64::from(len) > receive.room {
                    return Err(Refusal::Never(NakCode::InvalidRequest, Status::LocalLength));
                }
                let scatter = receive.scatter.clone();
                ctx.memory
                    .scatter(pd, &scatter, done, packet.payload)
                    .map_err(|_| Refusal::Never(NakCode::RemoteOperationalError, Status::LocalProtection))?;
                let done = done + len;
                self.incoming = (!ends).then_some(Incoming::Send { done });
                if ends {
                    let invalidated = headers.ieth.map(|ieth| ieth.rkey);
                    if let Some(rkey) = invalidated {
                        ctx.memory.invalidate(pd, rkey).map_err(|_| ACCESS)?;
                    }
                    self.msn += 1;
                    let solicited = headers.bth.solicited;
                    c.received(ctx, Status::Success, Opcode::Recv, done, imm, invalidated, solicited);
                }
            }
            Operation::Write => {
                let (addr, rkey, done, left) = match (self.incoming, headers.reth) {
                    (None, Some(reth)) => {
                        let all = u64::from(reth.dma_len);
                        if !c.access.remote_write
                            || all > 0 && ctx.memory.remote(c.pd, reth.rkey, reth.va, all, Want::RemoteWrite).is_err()
                        {
                            return Err(ACCESS);
                        }
                        (reth.va, reth.rkey, 0, reth.dma_len)
                    }
                    (Some(Incoming::Write { addr, rkey, done, left }), _) => (addr, rkey, done, left),
                    _ => return Err(INVALID),
                };
                if len > left || ends != (len == left) {
                    return Err(INVALID);
                }
                if imm.is_some() && c.receive(ctx, 0).is_none() {
                    return Err(Refusal::NotReady);
                }
                if len > 0 {
                    let span =
                        ctx.memory.remote(c.pd, rkey, addr, u64::from(len), Want::RemoteWrite).map_err(|_| ACCESS)?;
                    ctx.memory.slice_mut(span).copy_from_slice(packet.payload);
                }
                let (done, left) = (done + len, left - len);
                let addr = addr.wrapping_add(u64::from(len));
                self.incoming = (!ends).then_some(Incoming::Write { addr, rkey, done, left });
                if ends {
                    self.msn += 1;
                    if imm.is_some() {
                        let solicited = headers.bth.solicited;
                        c.received(ctx, Status::Success, Opcode::RecvWithImmediate, done, imm, None, solicited);
                    }
                }
            }
            Operation::ReadRequest => {
                let Some(reth) = headers.reth else { return Err(INVALID) };
                let all = u64::from(reth.dma_len);
                if !c.access.remote_read
                    || all > 0 && ctx.memory.remote(c.pd, reth.rkey, reth.va, all, Want::RemoteRead).is_err()
                {
                    return Err(ACCESS);
                }
                let count = packets(reth.dma_len, c.route.mtu);
                if self.replies.iter().filter(|reply| reply.is_answer()).count() >= self.resources.most()
                    || count > Psn::MAX_WINDOW
                {
                    return Err(INVALID);
                }
                self.msn += 1;
                let psn = Psn::new(headers.bth.psn);
                self.reply(Reply::Read { psn, addr: reth.va, rkey: reth.rkey, len: reth.dma_len, sent: 0, count });
                return Ok(Some(count));
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                let Some(atomic) = headers.atomic else { return Err(INVALID) };
                if !c.access.remote_atomic {
                    return Err(ACCESS);
                }
                if self.replies.iter().filter(|reply| reply.is_answer()).count() >= self.resources.most() {
                    return Err(INVALID);
                }
                let compare = opcode.operation() == Operation::CompareSwap;
                let value = super::reply::atomic(ctx.memory, c.pd, &atomic, compare).map_err(|why| match why {
                    crate::types::AccessError::Alignment => INVALID,
                    _ => ACCESS,
                })?;
                self.msn += 1;
                let psn = Psn::new(headers.bth.psn);
                self.resources.keep(Resource { psn, value });
                self.reply(Reply::Atomic { psn, value });
                return Ok(Some(1));
            }
            _ => return Err(INVALID),
        }
        Ok(None)
    }

    /// A packet that was carried out before: answers again.
    fn repeat(&mut self, c: &Common, ctx: &mut Ctx<'_>, packet: &Packet<'_>) {
        let headers = &packet.headers;
        let psn = Psn::new(headers.bth.psn);
        let expected = self.receiver.recovery().expected();
        let answer = match headers.bth.opcode.operation() {
            Operation::ReadRequest => {
                let Some(reth) = headers.reth else { return };
                let count = packets(reth.dma_len, c.route.mtu);
                let all = u64::from(reth.dma_len);
                let admitted = c.access.remote_read
                    && (all == 0 || ctx.memory.remote(c.pd, reth.rkey, reth.va, all, Want::RemoteRead).is_ok());
                // Only what was asked for before is repeated.
                if !admitted || psn.plus(count).distance_from(expected) > 0 || count > Psn::MAX_WINDOW {
                    return;
                }
                Reply::Read { psn, addr: reth.va, rkey: reth.rkey, len: reth.dma_len, sent: 0, count }
            }
            Operation::CompareSwap | Operation::FetchAdd => match self.resources.find(psn) {
                Some(value) => Reply::Atomic { psn, value },
                None => return,
            },
            _ => {
                self.reply(Reply::Ack(expected.plus(Psn::MODULUS - 1)));
                return;
            }
        };
        // The requester went back to this packet: what follows it, it asks for again.
        self.replies.retain(|reply| reply.psn().is_before(psn));
        self.reply(answer);
    }

    fn emit_reply(&mut self, c: &Common, ctx: &mut Ctx<'_>, now: Time, out: &mut [u8]) -> usize {
        let msn = self.msn & 0xff_ffff;
        let acknowledge = |psn: Psn, syndrome| {
            let headers = c.route.headers(Operation::Acknowledge, Position::Only, Extra::None, psn.value());
            Headers { aeth: Some(Aeth { syndrome, msn }), ..headers }
        };
        let Some(reply) = self.replies.front_mut() else {
            let Some((psn, code)) = self.refusal.take() else { return 0 };
            ctx.counters.naks_sent += 1;
            return write(&acknowledge(psn, Syndrome::Nak(code)), 0, out, |_| Ok(())).unwrap_or(0);
        };
        let headers = match *reply {
            Reply::Ack(psn) => {
                ctx.counters.acks_sent += 1;
                acknowledge(psn, c.credits())
            }
            Reply::OutOfSequence(psn) => acknowledge(psn, Syndrome::Nak(NakCode::PsnSequenceError)),
            Reply::NotReady(psn) => {
                let timer = RnrTimer::from_code(c.connection.map_or(0, |connection| connection.min_rnr_timer));
                acknowledge(psn, Syndrome::RnrNak { timer })
            }
            Reply::Atomic { psn, value } => {
                let headers = c.route.headers(Operation::AtomicAcknowledge, Position::Only, Extra::None, psn.value());
                let aeth = Some(Aeth { syndrome: c.credits(), msn });
                Headers { aeth, atomic_ack: Some(AtomicAckEth { original: value }), ..headers }
            }
            Reply::Read { psn, addr, rkey, len, ref mut sent, count } => {
                if self.pace.not_before() > now {
                    return 0;
                }
                let (position, here) = place(len, *sent, c.route.mtu);
                let at = addr.wrapping_add(u64::from(*sent * c.route.mtu));
                let mut headers =
                    c.route.headers(Operation::ReadResponse, position, Extra::None, psn.plus(*sent).value());
                if position != Position::Middle {
                    headers.aeth = Some(Aeth { syndrome: c.credits(), msn });
                }
                let written = write(&headers, here, out, |payload| {
                    if here > 0 {
                        let span = ctx.memory.remote(c.pd, rkey, at, u64::from(here), Want::RemoteRead)?;
                        payload.copy_from_slice(ctx.memory.slice(span));
                    }
                    Ok(())
                });
                *sent += 1;
                if *sent == count {
                    self.replies.pop_front();
                }
                return match written {
                    Ok(bytes) => {
                        ctx.counters.sent(false, here);
                        self.pace.sent(now, bytes as u32 + super::AROUND_PACKET);
                        bytes
                    }
                    Err(_) => {
                        // The region went away in the middle.
                        self.replies.retain(|reply| reply.psn() != psn);
                        self.replies.push_back(Reply::Refused(psn, NakCode::RemoteAccessError));
                        0
                    }
                };
            }
            Reply::Refused(psn, code) => acknowledge(psn, Syndrome::Nak(code)),
        };
        self.replies.pop_front();
        write(&headers, 0, out, |_| Ok(())).unwrap_or(0)
    }

    // Both.

    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, out: &mut [u8]) -> usize {
        if std::mem::take(&mut self.cnp_due) {
            ctx.counters.cnps_sent += 1;
            return super::cnp(c, out);
        }
        let control = self.replies.front().is_none_or(|reply| !reply.is_answer());
        if control || self.answers_next {
            self.answers_next = false;
            match self.emit_reply(c, ctx, now, out) {
                0 => self.emit_request(c, ctx, now, out),
                bytes => bytes,
            }
        } else {
            self.answers_next = true;
            match self.emit_request(c, ctx, now, out) {
                0 => self.emit_reply(c, ctx, now, out),
                bytes => bytes,
            }
        }
    }

    /// When there is something to send; `Time::ZERO` at once.
    pub(crate) fn next_transmit(&self, c: &Common) -> Due {
        let mut due = Due::never();
        if self.cnp_due || self.refusal.is_some() {
            due.at_once();
        }
        match self.replies.front() {
            Some(Reply::Read { .. }) => due.at(self.pace.not_before()),
            Some(_) => due.at_once(),
            None => {}
        }
        if c.sends_packets() && !self.waiting.is_waiting() {
            due.maybe(self.flow.next_transmit());
        }
        due
    }

    pub(crate) fn deadline(&self) -> Due {
        let mut due = Due::never();
        due.maybe(self.pace.deadline());
        match self.waiting.until() {
            Some(until) => due.at(until),
            None => due.maybe(self.flow.deadline()),
        }
        due
    }

    pub(crate) fn on_deadline(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time) {
        self.pace.on_deadline(now);
        if self.waiting.is_waiting() {
            if self.waiting.ends(now) {
                self.implied = None;
                self.flow.resend(now);
            }
            return;
        }
        if self.flow.on_deadline(now) == Some(Timer::Retransmit) {
            ctx.counters.timeouts += 1;
            self.implied = None;
            if !self.waiting.timed_out() {
                c.fail_send(ctx, Status::TransportRetryExceeded);
            }
        }
    }

    /// The kind of send that this service can do.
    pub(crate) fn admits(op: &SendOp, len: u32, mtu: u32) -> Result<(), VerbsError> {
        if matches!(op, SendOp::Read { .. }) && packets(len, mtu) > Psn::MAX_WINDOW / 2 {
            return Err(VerbsError::Unsupported(
                "a read is at most 4,194,303 packets: more would leave no room in the sequence numbers",
            ));
        }
        Ok(())
    }
}
