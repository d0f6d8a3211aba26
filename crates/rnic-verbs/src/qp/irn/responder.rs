//! The responder of an IRN connection: sink of requests, source of answers.

use super::acks::{Acknowledgements, Cause, run};
use super::part::{Kind, Parked, Part};
use crate::common::{Common, Ctx, Delivery, MOST_BYTES, Refusal};
use crate::flow::Flow;
use crate::memory::Right;
use crate::packet::{Turn, Writer, place};
use crate::qp::incoming::Incoming;
use crate::qp::sending::{Due, Stamps, Waiting};
use crate::qp::{AROUND_PACKET, atomic};
use crate::send_queue::packets;
use crate::types::{Status, VerbsError};
use crate::{Congestion, Dropped, MOST_IN_FLIGHT};
use rnic_transport::recovery::{Arrival, Irn, StreamReceiver};
use rnic_transport::{BitRate, FlowConfig, Pdu, Psn, Receiver, RxMeta, Time, Timer};
use rnic_wire::{Aeth, AtomicAckEth, Extra, Headers, NakCode, Operation, Packet, Position, Reth, Syndrome};
use std::collections::VecDeque;

/// An answer that goes out, or is not known to have arrived.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// Its first packet, counted from the first answer.
    first: u64,
    packets: u32,
    /// The request: its packet, and its number among reads and atomics.
    request: u64,
    serial: u32,
    kind: AnswerKind,
}

#[derive(Clone, Copy, Debug)]
enum AnswerKind {
    Read { addr: u64, rkey: u32, len: u32 },
    Atomic { value: u64 },
}

/// Why the connection ends as soon as what precedes it is answered.
#[derive(Clone, Copy, Debug)]
struct Ending {
    request: u64,
    code: NakCode,
    status: Status,
    uses_receive: bool,
}

pub(crate) struct Responder {
    // Requests in.
    first: Psn,
    cfg: FlowConfig,
    receiver: Receiver<Irn>,
    /// The packet whose turn it is: all before it are carried out.
    turn: u64,
    parked: Parked,
    /// The first packet of the message whose turn it is.
    message: u64,
    incoming: Option<Incoming>,
    msn: u32,
    /// Number of the next read or atomic.
    next_fetch: u32,
    pub(crate) acks: Acknowledgements,
    /// There is no receive for this packet.
    pub(crate) not_ready: Option<Psn>,
    ending: Option<Ending>,
    /// The last word.
    pub(crate) refusal: Option<(Psn, NakCode)>,
    // Answers out.
    flow: Box<dyn Flow>,
    acked: u64,
    next: u64,
    stamps: Stamps,
    answering: VecDeque<Answer>,
    max_dest: u32,
    waiting: Waiting,
}

impl Responder {
    pub(crate) fn new(
        c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time,
    ) -> Result<Responder, VerbsError> {
        let connection = c.connection.ok_or(VerbsError::Unknown("connection"))?;
        let first = Psn::new(connection.recv_psn);
        let cfg = FlowConfig { first_psn: first, ..cfg.clone() };
        let flow = congestion.irn(&cfg, now).map_err(VerbsError::Congestion)?;
        let stamps = Stamps::new(cfg.bdp_cap);
        // A peer may have more in flight than this side. Marks are the queue pair's to see to.
        let cfg = FlowConfig { bdp_cap: MOST_IN_FLIGHT, cnp_interval: None, ..cfg };
        Ok(Responder {
            first,
            receiver: Receiver::stream(&cfg, now),
            cfg,
            turn: 0,
            parked: Parked::default(),
            message: 0,
            incoming: None,
            msn: 0,
            next_fetch: 0,
            acks: Acknowledgements::default(),
            not_ready: None,
            ending: None,
            refusal: None,
            flow,
            acked: 0,
            next: 0,
            stamps,
            answering: VecDeque::new(),
            max_dest: u32::from(connection.max_dest_rd_atomic),
            waiting: Waiting::new(c),
        })
    }

    /// RTR to RTS: how patient it is.
    pub(crate) fn start(&mut self, c: &Common) {
        self.waiting = Waiting::new(c);
    }

    /// The packet whose turn it is.
    pub(crate) fn expected(&self) -> Psn {
        self.first.plus(self.turn as u32)
    }

    pub(crate) fn msn(&self) -> u32 {
        self.msn & rnic_wire::MAX_24
    }

    /// As if `messages` of every kind had come before.
    #[cfg(test)]
    pub(crate) fn count_from(&mut self, messages: u32) {
        (self.msn, self.next_fetch) = (messages, messages);
    }

    // Requests in.

    pub(crate) fn handle(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, packet: &Packet<'_>, marked: bool,
    ) -> Result<(), Dropped> {
        if self.ending.is_some() {
            return Err(Dropped::State);
        }
        let psn = Psn::new(packet.headers.bth.psn);
        let cause = Cause::new(&packet.headers.bth, marked);
        let data = Pdu::data(psn, false, now);
        let arrival = self.receiver.recovery().foresee(psn);
        if matches!(arrival, Arrival::Duplicate | Arrival::Useless) {
            let outcome = self.receiver.handle(&self.cfg, now, data, RxMeta::default());
            self.acks.note(outcome.reply, cause);
            ctx.counters.duplicates += 1;
            return Err(Dropped::Duplicate);
        }
        let Some(part) = Part::of(packet) else { return Err(Dropped::Opcode) };
        let in_order = arrival == Arrival::InOrder;
        let ahead = psn.since(self.expected());
        let checked = if in_order { self.follows(c, &part) } else { self.may_follow(&part) };
        match checked.and_then(|()| self.place(c, ctx, packet.payload, &part, ahead)) {
            Ok(()) => {}
            // As if lost: it will come again when its turn is there.
            Err(Refusal::NotReady) if !in_order => return Err(Dropped::NoReceive),
            Err(Refusal::Never(..)) if !in_order => return Err(Dropped::Refused),
            Err(Refusal::NotReady) => {
                self.not_ready = Some(psn);
                return Err(Dropped::NoReceive);
            }
            Err(refusal) => {
                self.refuse(c, ctx, self.turn, refusal, part.uses_receive());
                return Err(Dropped::Refused);
            }
        }
        let outcome = self.receiver.handle(&self.cfg, now, data, RxMeta::default());
        self.acks.note(outcome.reply, cause);
        if !in_order {
            self.parked.park(ahead as usize, part);
            return Ok(());
        }
        self.not_ready = None;
        let mut part = part;
        let mut result = self.finish(c, ctx, now, &part);
        while result.is_ok() {
            self.turn += 1;
            let Some(next) = self.parked.next() else { return Ok(()) };
            part = next;
            // What was parked could not be checked for this.
            result = self.follows(c, &part).and_then(|()| self.finish(c, ctx, now, &part));
        }
        if let Err(refusal) = result {
            self.refuse(c, ctx, self.turn, refusal, part.uses_receive());
        }
        Ok(())
    }

    /// Whether the packet whose turn it is goes on where the one before it stopped.
    fn follows(&self, c: &Common, part: &Part) -> Result<(), Refusal> {
        let is_receive = |serial: u32| Psn::new(serial) == Psn::new(c.next_receive());
        let good = match (part.kind, self.incoming) {
            (Kind::Send { serial, offset, .. }, None) => part.begins && is_receive(serial) && offset == 0,
            (Kind::Send { serial, offset, .. }, Some(Incoming::Send { done })) => {
                !part.begins && is_receive(serial) && offset == done
            }
            (Kind::Write { serial, .. }, None) => part.begins && serial.is_none_or(is_receive),
            (
                Kind::Write { addr, rkey, left, serial },
                Some(Incoming::Write { addr: at, rkey: key, left: rest, .. }),
            ) => !part.begins && (addr, rkey, left) == (at, key, rest) && serial.is_none_or(is_receive),
            (Kind::Read { serial, .. } | Kind::Atomic { serial, .. }, None) => {
                Psn::new(serial) == Psn::new(self.next_fetch)
            }
            _ => false,
        };
        if good { Ok(()) } else { Err(Refusal::INVALID) }
    }

    /// Whether a packet may wait for its turn. A peer has no more reads and atomics outstanding than it is allowed.
    fn may_follow(&self, part: &Part) -> Result<(), Refusal> {
        match part.kind {
            Kind::Read { serial, .. } | Kind::Atomic { serial, .. } => {
                let ahead = Psn::new(serial).distance_from(Psn::new(self.next_fetch));
                if (0..self.max_dest as i32).contains(&ahead) { Ok(()) } else { Err(Refusal::INVALID) }
            }
            _ => Ok(()),
        }
    }

    /// Checks what a packet wants and places its data; `ahead` is its distance from the one whose turn it is. Nothing is written before
    /// all checks, and nothing else happens.
    fn place(&mut self, c: &mut Common, ctx: &mut Ctx, payload: &[u8], part: &Part, ahead: u32) -> Result<(), Refusal> {
        // Each message takes at least one packet: the receives ahead are no more than the packets since the message began.
        let most = self.turn + u64::from(ahead) - self.message;
        let receives_ahead = |c: &Common, serial: u32| {
            let ahead = Psn::new(serial).distance_from(Psn::new(c.next_receive()));
            u32::try_from(ahead).ok().filter(|ahead| u64::from(*ahead) <= most).ok_or(Refusal::INVALID)
        };
        match part.kind {
            Kind::Send { serial, offset, .. } => {
                let place = receives_ahead(c, serial)?;
                let receive = c.receive(ctx, place, ahead > 0).ok_or(Refusal::NotReady)?;
                let end = u64::from(offset) + u64::from(part.len);
                if end > receive.room.min(u64::from(MOST_BYTES)) {
                    return Err(Refusal::TOO_LONG);
                }
                ctx.memory.scatter(&receive.scatter, offset, payload).map_err(|_| Refusal::RECEIVE)
            }
            Kind::Write { addr, rkey, left, serial } => {
                if !c.access.remote_write {
                    return Err(Refusal::INVALID);
                }
                if left > MOST_BYTES || part.len > left || part.ends != (part.len == left) {
                    return Err(Refusal::INVALID);
                }
                if let Some(serial) = serial {
                    let place = receives_ahead(c, serial)?;
                    c.receive(ctx, place, ahead > 0).ok_or(Refusal::NotReady)?;
                }
                if left > 0 {
                    // The rest of the message too: what cannot be written whole is not begun.
                    let span = ctx.memory.remote(c.pd, rkey, addr, left, Right::Write).map_err(|_| Refusal::ACCESS)?;
                    ctx.memory.write(span, payload).map_err(|_| Refusal::ACCESS)?;
                }
                Ok(())
            }
            Kind::Read { .. } | Kind::Atomic { .. } => Ok(()),
        }
    }

    /// A packet's turn has come, its data is in place: what it causes.
    fn finish(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, part: &Part) -> Result<(), Refusal> {
        match part.kind {
            Kind::Send { offset, rkey, .. } => {
                let bytes = offset + part.len;
                if !part.ends {
                    self.incoming = Some(Incoming::Send { done: bytes });
                    return Ok(());
                }
                if let Some(rkey) = rkey {
                    ctx.memory.invalidate(c.pd, rkey).map_err(|_| Refusal::ACCESS)?;
                }
                let (imm, solicited) = (part.imm, part.solicited);
                c.received(ctx, &Delivery { write: false, bytes, imm, invalidated: rkey, solicited });
            }
            Kind::Write { addr, rkey, left, serial } => {
                let done = match self.incoming {
                    Some(Incoming::Write { done, .. }) => done,
                    _ => 0,
                };
                let bytes = done + part.len;
                if !part.ends {
                    let addr = addr.wrapping_add(u64::from(part.len));
                    self.incoming = Some(Incoming::Write { addr, rkey, done: bytes, left: left - part.len });
                    return Ok(());
                }
                if serial.is_some() {
                    let (imm, solicited) = (part.imm, part.solicited);
                    c.received(ctx, &Delivery { write: true, bytes, imm, invalidated: None, solicited });
                }
            }
            Kind::Read { reth, serial } => self.answer_read(c, ctx, now, &reth, serial)?,
            Kind::Atomic { request, compare, serial } => {
                if !c.access.remote_atomic {
                    return Err(Refusal::INVALID);
                }
                self.make_room(now, serial)?;
                let value = atomic::execute(&mut ctx.memory, c.pd, &request, compare)?;
                self.answer(serial, 1, AnswerKind::Atomic { value });
            }
        }
        self.incoming = None;
        self.message = self.turn + 1;
        self.msn = self.msn.wrapping_add(1);
        Ok(())
    }

    /// The request in packet `request` cannot be taken. What precedes it is answered still, then a NAK ends the connection.
    fn refuse(&mut self, c: &mut Common, ctx: &mut Ctx, request: u64, refusal: Refusal, uses_receive: bool) {
        let Refusal::Never(code, status) = refusal else { return };
        if self.ending.is_none_or(|ending| request < ending.request) {
            self.ending = Some(Ending { request, code, status, uses_receive });
        }
        self.end_when_answered(c, ctx);
    }

    fn end_when_answered(&mut self, c: &mut Common, ctx: &mut Ctx) {
        if !self.answering.is_empty() {
            return;
        }
        if let Some(Ending { request, code, status, uses_receive }) = self.ending.take() {
            self.refusal = Some((self.first.plus(request as u32), code));
            c.fail_receive(ctx, status, uses_receive);
        }
    }

    // Answers out.

    fn answer_read(&mut self, c: &Common, ctx: &Ctx, now: Time, reth: &Reth, serial: u32) -> Result<(), Refusal> {
        if !c.access.remote_read || reth.dma_len > MOST_BYTES {
            return Err(Refusal::INVALID);
        }
        self.make_room(now, serial)?;
        if reth.dma_len > 0 {
            let span = ctx.memory.remote(c.pd, reth.rkey, reth.va, reth.dma_len, Right::Read);
            span.map_err(|_| Refusal::ACCESS)?;
        }
        let kind = AnswerKind::Read { addr: reth.va, rkey: reth.rkey, len: reth.dma_len };
        self.answer(serial, packets(reth.dma_len, c.route.mtu), kind);
        Ok(())
    }

    /// Request `serial` says that the answers to those at least `max_dest` before it have arrived: acknowledgements of them may be lost
    /// or late.
    fn make_room(&mut self, now: Time, serial: u32) -> Result<(), Refusal> {
        let arrived = |answer: &Answer| Psn::new(serial).distance_from(Psn::new(answer.serial)) >= self.max_dest as i32;
        if let Some(last) = self.answering.iter().rfind(|answer| arrived(answer)) {
            let end = (last.first + u64::from(last.packets)).min(self.acked + u64::from(self.flow.outstanding()));
            let psn = self.first.plus(end as u32);
            let stamp = self.stamps.of(psn.plus(Psn::MODULUS - 1), 0);
            self.slide(now, Pdu::ack(psn, stamp));
        }
        if self.answering.len() < self.max_dest as usize { Ok(()) } else { Err(Refusal::INVALID) }
    }

    /// Puts an answer in line.
    fn answer(&mut self, serial: u32, packets: u32, kind: AnswerKind) {
        self.answering.push_back(Answer { first: self.next, packets, request: self.turn, serial, kind });
        self.next += u64::from(packets);
        self.next_fetch = self.next_fetch.wrapping_add(1);
        self.flow.extend(u64::from(packets));
    }

    fn slide(&mut self, now: Time, pdu: Pdu) {
        let progress = self.flow.handle(now, pdu);
        if progress.acked > 0 {
            self.acked += u64::from(progress.acked);
            self.waiting.progress();
            while self.answering.front().is_some_and(|a| a.first + u64::from(a.packets) <= self.acked) {
                self.answering.pop_front();
            }
        }
    }

    pub(crate) fn on_read_acknowledge(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, headers: &Headers,
    ) -> Result<(), Dropped> {
        let (Some(aeth), Some(sack)) = (headers.aeth, headers.sack) else { return Err(Dropped::Opcode) };
        let psn = Psn::new(headers.bth.psn);
        let (upto, nack) = match aeth.syndrome {
            Syndrome::Ack { .. } => (psn.plus(1), false),
            Syndrome::Nak(NakCode::PsnSequenceError) => (psn, true),
            _ => return Err(Dropped::Opcode),
        };
        let news = upto.distance_from(self.first.plus(self.acked as u32));
        if news < 0 || news as u32 > self.flow.outstanding() {
            return Err(Dropped::Stale);
        }
        if nack {
            ctx.counters.naks_received += 1;
            for cause in run(&sack) {
                let pdu = Pdu::nack(upto, cause, self.stamps.of(cause, headers.bth.attempt));
                self.slide(now, pdu.with_mark_echo(headers.bth.becn));
            }
        } else {
            let pdu = Pdu::ack(upto, self.stamps.of(Psn::new(sack.psn), headers.bth.attempt));
            self.slide(now, pdu.with_mark_echo(headers.bth.becn));
        }
        self.end_when_answered(c, ctx);
        Ok(())
    }

    pub(crate) fn set_rate(&mut self, rate: Option<BitRate>) {
        self.flow.set_rate(rate);
    }

    pub(crate) fn on_cnp(&mut self, now: Time) {
        self.flow.handle(now, Pdu::cnp());
    }

    /// Writes the next packet of an answer; 0 if there is none for now.
    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, out: &mut [u8]) -> usize {
        let Some(pick) = self.flow.poll(now) else { return 0 };
        let packet = self.acked + u64::from(pick.psn.since(self.first.plus(self.acked as u32)));
        let at = self.answering.partition_point(|answer| answer.first + u64::from(answer.packets) <= packet);
        let Some(answer) = self.answering.get(at).copied() else { return 0 };
        let index = (packet - answer.first) as u32;
        let aeth = Aeth { syndrome: c.credits(), msn: self.msn() }.emit();
        let attempt = self.stamps.set(pick.psn, pick.retransmission, now);
        let turn = Turn { psn: pick.psn, ask: false, attempt };
        let (written, len) = match answer.kind {
            AnswerKind::Atomic { value } => {
                let mut writer =
                    Writer::begin(&turn.mark(c.route.only(Operation::AtomicAcknowledge, pick.psn.value())), 0, out);
                writer.put(&aeth);
                writer.put(&AtomicAckEth { original: value }.emit());
                (Ok(writer.end()), 0)
            }
            AnswerKind::Read { addr, rkey, len } => {
                let (position, here) = place(len, index, c.route.mtu);
                let bth = turn.mark(c.route.bth(Operation::ReadResponse, position, Extra::None, pick.psn.value()));
                let mut writer = Writer::begin(&bth, here, out);
                if position != Position::Middle {
                    writer.put(&aeth);
                }
                let addr = addr.wrapping_add(u64::from(index * c.route.mtu));
                let written = writer.end_with(here, |payload| {
                    if here > 0 {
                        let span = ctx.memory.remote(c.pd, rkey, addr, here, Right::Read)?;
                        ctx.memory.read(span, payload)?;
                    }
                    Ok(())
                });
                (written, here)
            }
        };
        let Ok(bytes) = written else {
            // The region went away in the middle: this answer and those after it cannot be given.
            self.answering.truncate(at);
            self.flow.truncate(answer.first.saturating_sub(self.acked));
            self.refuse(c, ctx, answer.request, Refusal::ACCESS, false);
            return 0;
        };
        ctx.counters.sent(pick.retransmission, len);
        self.flow.sent(now, bytes as u32 + AROUND_PACKET);
        bytes
    }

    pub(crate) fn next_transmit(&self, c: &Common) -> Due {
        let mut due = Due::never();
        if self.acks.is_due() || self.not_ready.is_some() || self.refusal.is_some() {
            due.at_once();
        }
        if c.receives_packets() {
            due.maybe(self.flow.next_transmit());
        }
        due
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.flow.deadline()
    }

    pub(crate) fn on_deadline(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time) {
        if self.flow.on_deadline(now) == Some(Timer::Retransmit) {
            ctx.counters.timeouts += 1;
            if !self.waiting.timed_out(now) {
                c.fail(ctx, Status::TransportRetryExceeded);
            }
        }
    }
}
