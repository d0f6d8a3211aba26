//! A reliable connection with IRN's loss recovery ("Revisiting Network Support for RDMA", SIGCOMM 2018, section 5).
//!
//! Both ends keep what arrives out of order, in memory, at once. Requests and answers have sequence numbers of their own:
//!
//! | | requests | answers (of reads and atomics) |
//! |---|---|---|
//! | source | requester: [`IrnSender`](rnic_transport::recovery::IrnSender) | responder: another |
//! | sink | responder: [`IrnReceiver`](rnic_transport::recovery::IrnReceiver) | requester: another |
//! | acknowledged by | Acknowledge | Read Acknowledge |
//!
//! The answers of one side begin with the number that its own requests begin with.
//!
//! - Every packet of a Write has its address; one of a Send the number of its receive and its offset: they are placed on arrival.
//! - What the last packet of a message causes (a completion, a count, a read or atomic operation) waits until everything before it
//!   has arrived; the map of those packets is the second bitmap of the paper, with what to do in each place.
//! - A packet that cannot be taken out of order (no receive, no right) is dropped as if lost; in order it is refused as in RoCE.
//! - An answer says that its request has arrived; a request for a read number `n` that the answers before the last
//!   `max_rd_atomic` reads have: lost acknowledgements cost no timeout.

use super::sending::{Due, Stamps, Waiting};
use crate::common::{Common, Ctx, Refusal, status_of};
use crate::flow::Flow;
use crate::memory::Want;
use crate::send_queue::{packets, place, write};
use crate::types::{Opcode, State, Status, VerbsError};
use crate::{Congestion, Dropped};
use rnic_transport::recovery::{Arrival, Irn as IrnProtocol, StreamReceiver};
use rnic_transport::{FlowConfig, Pdu, PduKind, Psn, Receiver, RxMeta, RxOutcome, Time, Timer};
use rnic_wire::{
    Aeth, AtomicAckEth, AtomicEth, Extra, Headers, NakCode, Operation, Packet, Position, Reth, RnrTimer, SackEth,
    Syndrome,
};
use std::collections::{BTreeMap, VecDeque};

/// What the last packet of a message causes when its turn comes.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Send { bytes: u32, imm: Option<u32>, rkey: Option<u32>, solicited: bool },
    Write,
    WriteImm { last: u32, imm: u32, solicited: bool },
    Read { reth: Reth, serial: u32 },
    Atomic { request: AtomicEth, compare: bool, serial: u32 },
}

/// An answer that goes out, or is not known to have arrived.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// Its first packet, counted from the first answer.
    first: u64,
    packets: u32,
    serial: u32,
    kind: AnswerKind,
}

#[derive(Clone, Copy, Debug)]
enum AnswerKind {
    Read { addr: u64, rkey: u32, len: u32 },
    Atomic { value: u64 },
}

/// Acknowledgements to send: NACKs each, of ACKs the last.
#[derive(Debug, Default)]
struct Acknowledgements {
    ack: Option<Psn>,
    nacks: VecDeque<Psn>,
}

impl Acknowledgements {
    /// More NACKs than this wait only if nothing can be sent; the oldest count as lost then.
    const MOST: usize = 1_024;

    /// Packet `cause` arrived, and this is the answer to it.
    fn note(&mut self, reply: Option<Pdu>, cause: Psn) {
        match reply.map(Pdu::kind) {
            Some(PduKind::Nack) => {
                if self.nacks.len() >= Acknowledgements::MOST {
                    self.nacks.pop_front();
                }
                self.nacks.push_back(cause);
            }
            Some(_) => self.ack = Some(cause),
            None => {}
        }
    }

    fn is_due(&self) -> bool {
        self.ack.is_some() || !self.nacks.is_empty()
    }

    /// The next one, given the packet that is expected now: whether it is a NACK, and its cause.
    fn next(&mut self, expected: Psn) -> Option<(bool, Psn)> {
        while let Some(cause) = self.nacks.pop_front() {
            if expected.is_before(cause) {
                return Some((true, cause));
            }
            // The hole is filled since: an ACK says as much.
            self.ack = self.ack.or(Some(cause));
        }
        self.ack.take().map(|cause| (false, cause))
    }
}

/// State of an IRN connection.
pub(crate) struct Irn {
    cfg: FlowConfig,
    // Requests out.
    flow: Box<dyn Flow>,
    first: Psn,
    acked: u64,
    stamps: Stamps,
    waiting: Waiting,
    credit_limit: Option<u32>,
    // Answers in.
    answers: Receiver<IrnProtocol>,
    answers_expected: u64,
    answer_acks: Acknowledgements,
    // Requests in.
    receive_cfg: FlowConfig,
    receiver: Receiver<IrnProtocol>,
    expected: u64,
    /// Messages that have ended before their turn, by their last packet.
    endings: BTreeMap<u64, Ending>,
    /// The first packet of the message whose turn it is.
    message: u64,
    msn: u32,
    acks: Acknowledgements,
    not_ready: Option<Psn>,
    refusal: Option<(Psn, NakCode)>,
    // Answers out.
    answer_flow: Box<dyn Flow>,
    answer_first: Psn,
    answer_acked: u64,
    answer_next: u64,
    answer_stamps: Stamps,
    answering: VecDeque<Answer>,
    max_dest: u32,
    answer_waiting: Waiting,
    cnp_due: bool,
    answers_next: bool,
}

impl Irn {
    pub(crate) fn new(c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time) -> Result<Irn, VerbsError> {
        let connection = c.connection.ok_or(VerbsError::Unknown("connection"))?;
        let first = Psn::new(c.attributes.send_psn);
        let theirs = Psn::new(connection.recv_psn);
        let cfg = FlowConfig { first_psn: first, ..cfg.clone() };
        // A peer may have more in flight than this side.
        let receive_cfg = FlowConfig { first_psn: theirs, bdp_cap: super::MOST_IN_FLIGHT, ..cfg.clone() };
        let flow = congestion.irn(&cfg, now).map_err(VerbsError::Congestion)?;
        let answer_flow = congestion.irn(&cfg, now).map_err(VerbsError::Congestion)?;
        Ok(Irn {
            flow,
            first,
            acked: 0,
            stamps: Stamps::new(cfg.bdp_cap),
            waiting: Waiting::default(),
            credit_limit: None,
            answers: Receiver::stream(&receive_cfg, now),
            answers_expected: 0,
            answer_acks: Acknowledgements::default(),
            receiver: Receiver::stream(&receive_cfg, now),
            receive_cfg,
            expected: 0,
            endings: BTreeMap::new(),
            message: 0,
            msn: 0,
            acks: Acknowledgements::default(),
            not_ready: None,
            refusal: None,
            answer_flow,
            answer_first: first,
            answer_acked: 0,
            answer_next: 0,
            answer_stamps: Stamps::new(cfg.bdp_cap),
            answering: VecDeque::new(),
            max_dest: u32::from(connection.max_dest_rd_atomic),
            answer_waiting: Waiting::new(&c.attributes),
            cnp_due: false,
            answers_next: false,
            cfg,
        })
    }

    /// RTR to RTS: what the requester needs.
    pub(crate) fn start(
        &mut self, c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time,
    ) -> Result<(), VerbsError> {
        let first = Psn::new(c.attributes.send_psn);
        self.cfg = FlowConfig { first_psn: first, ..cfg.clone() };
        self.flow = congestion.irn(&self.cfg, now).map_err(VerbsError::Congestion)?;
        self.first = first;
        // Answers may be out before this side is ready to send.
        if self.answer_next == 0 {
            self.answer_flow = congestion.irn(&self.cfg, now).map_err(VerbsError::Congestion)?;
            self.answer_first = first;
        } else if self.answer_first != first {
            return Err(VerbsError::Unsupported("the first PSN is set before RTR where reads are answered before RTS"));
        }
        self.waiting = Waiting::new(&c.attributes);
        self.answer_waiting = Waiting::new(&c.attributes);
        Ok(())
    }

    fn psn(&self, packet: u64) -> Psn {
        self.first.plus(packet as u32)
    }

    /// Gives the flow what may be sent.
    pub(crate) fn release(&mut self, c: &mut Common) {
        while c.state == State::ReadyToSend {
            let Some(wqe) = c.sends.waiting() else { return };
            let fetching = c.sends.fetching();
            let held = (wqe.flags.fence && c.sends.released() > 0)
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
        match operation {
            Operation::ReadAcknowledge => return self.on_read_acknowledge(ctx, now, &packet.headers),
            Operation::Cnp => {
                ctx.counters.cnps_received += 1;
                self.flow.handle(now, Pdu::cnp());
                self.answer_flow.handle(now, Pdu::cnp());
                return Ok(());
            }
            _ if !c.sends_packets() => return Err(Dropped::State),
            Operation::Acknowledge => self.on_acknowledge(c, ctx, now, &packet.headers)?,
            Operation::ReadResponse | Operation::AtomicAcknowledge => self.on_answer(c, ctx, now, packet, marked)?,
            _ => return Err(Dropped::Opcode),
        }
        self.release(c);
        Ok(())
    }

    // Requests out.

    fn on_acknowledge(
        &mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, headers: &Headers,
    ) -> Result<(), Dropped> {
        let (Some(aeth), Some(sack)) = (headers.aeth, headers.sack) else { return Err(Dropped::Opcode) };
        let (psn, cause) = (Psn::new(headers.bth.psn), Psn::new(sack.psn));
        let stamp = self.stamps.get(cause);
        let pdu = match aeth.syndrome {
            Syndrome::Ack { credits } => {
                let newest = psn.plus(1).distance_from(self.psn(self.acked)) >= 0;
                if newest {
                    self.credit_limit = credits.count().map(|count| aeth.msn.wrapping_add(count) & 0xff_ffff);
                }
                Pdu::ack(psn.plus(1), stamp)
            }
            Syndrome::Nak(NakCode::PsnSequenceError) => {
                ctx.counters.naks_received += 1;
                Pdu::nack(psn, cause, stamp)
            }
            _ => Pdu::ack(psn, stamp),
        };
        self.advance(c, ctx, now, pdu);
        let refused = psn == self.psn(self.acked) && self.flow.in_flight() > 0;
        match aeth.syndrome {
            Syndrome::RnrNak { timer } if refused => {
                ctx.counters.rnr_naks_received += 1;
                if !self.waiting.not_ready(now, Time::from_us(u64::from(timer.micros()))) {
                    c.fail_send(ctx, Status::RnrRetryExceeded);
                }
            }
            Syndrome::Nak(code) if code != NakCode::PsnSequenceError && refused && c.sends.released() > 0 => {
                c.fail_send(ctx, status_of(code));
            }
            _ => {}
        }
        Ok(())
    }

    fn advance(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, pdu: Pdu) {
        let progress = self.flow.handle(now, pdu);
        if progress.acked > 0 {
            self.acked += u64::from(progress.acked);
            self.waiting.progress();
            c.retire(ctx, self.acked);
        }
    }

    fn emit_request(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, out: &mut [u8]) -> usize {
        if !c.sends_packets() || self.waiting.is_waiting() {
            return 0;
        }
        let Some(pick) = self.flow.poll(now) else { return 0 };
        let packet = self.acked + u64::from(pick.psn.since(self.psn(self.acked)));
        let (route, pd) = (c.route, c.pd);
        let Some(wqe) = c.sends.find(packet) else { return 0 };
        let (mut headers, offset, len) = route.request(wqe, (packet - wqe.first) as u32, pick.psn.value());
        headers.bth.ack_request = true;
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

    // Answers in.

    fn on_answer(
        &mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, packet: &Packet<'_>, marked: bool,
    ) -> Result<(), Dropped> {
        let psn = Psn::new(packet.headers.bth.psn);
        let expected = self.answers.recovery().expected();
        let arrival = self.answers.recovery().foresee(psn);
        if matches!(arrival, Arrival::InOrder | Arrival::Ahead) {
            let answer = self.answers_expected + u64::from(psn.since(expected));
            let (pd, mtu) = (c.pd, c.route.mtu);
            let Some(wqe) = c.sends.find_answer(answer) else { return Err(Dropped::Stale) };
            let index = (answer - wqe.answer) as u32;
            let request = wqe.first;
            let original = packet.headers.atomic_ack.map(|atomic| atomic.original.to_ne_bytes());
            let (data, fits) = match &original {
                Some(bytes) => (&bytes[..], wqe.op.is_atomic()),
                None => {
                    let (_, len) = place(wqe.len, index, mtu);
                    (packet.payload, !wqe.op.is_atomic() && packet.payload.len() == len as usize)
                }
            };
            if !fits {
                c.fail_packet(ctx, request, Status::BadResponse);
                return Ok(());
            }
            if wqe.local.scatter(ctx.memory, pd, index * mtu, data).is_err() {
                c.fail_packet(ctx, request, Status::LocalProtection);
                return Ok(());
            }
            wqe.answered += 1;
            let stamp = self.stamps.get(self.psn(request));
            // The request has arrived, and all before it.
            self.advance(c, ctx, now, Pdu::ack(self.psn(request + 1), stamp));
        }
        let outcome = self.answers.handle(&self.receive_cfg, now, Pdu::data(psn, false, now), RxMeta { marked });
        self.cnp_due |= outcome.notify;
        self.answer_acks.note(outcome.reply, psn);
        self.answers_expected += u64::from(self.answers.recovery().expected().since(expected));
        c.retire(ctx, self.acked);
        Ok(())
    }

    // Requests in.

    fn on_request(
        &mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, packet: &Packet<'_>, marked: bool,
    ) -> Result<(), Dropped> {
        let psn = Psn::new(packet.headers.bth.psn);
        let before = self.receiver.recovery().expected();
        let arrival = self.receiver.recovery().foresee(psn);
        if matches!(arrival, Arrival::Duplicate | Arrival::Useless) {
            let outcome = self.arrive(now, psn, marked);
            self.acks.note(outcome.reply, psn);
            ctx.counters.duplicates += 1;
            return Err(Dropped::Duplicate);
        }
        let at = self.expected + u64::from(psn.since(before));
        let in_order = arrival == Arrival::InOrder;
        let ending = match self.take(c, ctx, packet, at) {
            Ok(ending) => ending,
            // As if lost: it will come again when its turn is there.
            Err(_) if !in_order => return Err(Dropped::NoReceive),
            Err(Refusal::NotReady) => {
                self.not_ready = Some(psn);
                ctx.counters.rnr_naks_sent += 1;
                return Err(Dropped::NoReceive);
            }
            Err(Refusal::Never(code, status)) => {
                self.refusal = Some((psn, code));
                c.fail_receive(ctx, status);
                return Err(Dropped::Refused);
            }
        };
        let outcome = self.arrive(now, psn, marked);
        self.acks.note(outcome.reply, psn);
        if in_order {
            self.not_ready = None;
        }
        let after = self.expected + u64::from(self.receiver.recovery().expected().since(before));
        if in_order && self.endings.is_empty() {
            self.expected = after;
            if let Some(ending) = ending {
                self.end(c, ctx, now, at, ending);
            }
            return Ok(());
        }
        if let Some(ending) = ending {
            self.endings.insert(at, ending);
        }
        self.expected = after;
        while let Some(entry) = self.endings.first_entry() {
            if *entry.key() >= after || c.state == State::Error {
                break;
            }
            let (at, ending) = entry.remove_entry();
            self.end(c, ctx, now, at, ending);
        }
        Ok(())
    }

    fn arrive(&mut self, now: Time, psn: Psn, marked: bool) -> RxOutcome {
        let outcome = self.receiver.handle(&self.receive_cfg, now, Pdu::data(psn, false, now), RxMeta { marked });
        self.cnp_due |= outcome.notify;
        outcome
    }

    /// Places a packet's data and says what is to happen when its turn comes.
    fn take(
        &mut self, c: &mut Common, ctx: &mut Ctx<'_>, packet: &Packet<'_>, at: u64,
    ) -> Result<Option<Ending>, Refusal> {
        const INVALID: Refusal = Refusal::Never(NakCode::InvalidRequest, Status::LocalQpOperation);
        const ACCESS: Refusal = Refusal::Never(NakCode::RemoteAccessError, Status::RemoteAccess);
        let headers = &packet.headers;
        let opcode = headers.bth.opcode;
        let len = packet.payload.len() as u32;
        let ends = super::ends(opcode.position());
        let imm = headers.imm.map(|imm| imm.0);
        let solicited = headers.bth.solicited;
        // Each message takes at least one packet, so the receives ahead are no more than the packets ahead.
        let ahead = |serial: u32, base: u32| {
            let ahead = Psn::new(serial).distance_from(Psn::new(base));
            u64::try_from(ahead).ok().filter(|ahead| *ahead <= at - self.message).map(|ahead| ahead as usize)
        };
        match opcode.operation() {
            Operation::Send => {
                let Some(send) = headers.send else { return Err(INVALID) };
                let ahead = ahead(send.recv_wqe_sn, c.inbox_base).ok_or(INVALID)?;
                let pd = c.pd;
                let receive = c.receive(ctx, ahead).ok_or(Refusal::NotReady)?;
                if u64::from(send.offset) + u64::from(len) > receive.room {
                    return Err(Refusal::Never(NakCode::InvalidRequest, Status::LocalLength));
                }
                ctx.memory
                    .scatter(pd, &receive.scatter, send.offset, packet.payload)
                    .map_err(|_| Refusal::Never(NakCode::RemoteOperationalError, Status::LocalProtection))?;
                let rkey = headers.ieth.map(|ieth| ieth.rkey);
                Ok(ends.then_some(Ending::Send { bytes: send.offset + len, imm, rkey, solicited }))
            }
            Operation::Write => {
                let Some(reth) = headers.reth else { return Err(INVALID) };
                if len > reth.dma_len || ends != (len == reth.dma_len) {
                    return Err(INVALID);
                }
                if !c.access.remote_write {
                    return Err(ACCESS);
                }
                if reth.dma_len > 0 {
                    // The rest of the message too: what cannot be written whole is not begun.
                    let rest = u64::from(reth.dma_len);
                    ctx.memory.remote(c.pd, reth.rkey, reth.va, rest, Want::RemoteWrite).map_err(|_| ACCESS)?;
                }
                if let Some(recv) = headers.recv {
                    let ahead = ahead(recv.recv_wqe_sn, c.inbox_base).ok_or(INVALID)?;
                    c.receive(ctx, ahead).ok_or(Refusal::NotReady)?;
                }
                if len > 0 {
                    let span = ctx.memory.remote(c.pd, reth.rkey, reth.va, u64::from(len), Want::RemoteWrite);
                    ctx.memory.slice_mut(span.map_err(|_| ACCESS)?).copy_from_slice(packet.payload);
                }
                Ok(ends.then_some(match imm {
                    Some(imm) => Ending::WriteImm { last: len, imm, solicited },
                    None => Ending::Write,
                }))
            }
            Operation::ReadRequest => match (headers.reth, headers.read) {
                (Some(reth), Some(read)) => Ok(Some(Ending::Read { reth, serial: read.read_wqe_sn })),
                _ => Err(INVALID),
            },
            Operation::CompareSwap | Operation::FetchAdd => match (headers.atomic, headers.read) {
                (Some(request), Some(read)) => {
                    let compare = opcode.operation() == Operation::CompareSwap;
                    Ok(Some(Ending::Atomic { request, compare, serial: read.read_wqe_sn }))
                }
                _ => Err(INVALID),
            },
            _ => Err(INVALID),
        }
    }

    /// The turn of a message's last packet has come.
    fn end(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, at: u64, ending: Ending) {
        let message = std::mem::replace(&mut self.message, at + 1);
        let refused = match ending {
            Ending::Write => None,
            Ending::WriteImm { last, imm, solicited } => {
                let bytes = (at - message) as u32 * c.route.mtu + last;
                c.received(ctx, Status::Success, Opcode::RecvWithImmediate, bytes, Some(imm), None, solicited);
                None
            }
            Ending::Send { bytes, imm, rkey, solicited } => match rkey.map(|rkey| ctx.memory.invalidate(c.pd, rkey)) {
                Some(Err(_)) => Some((NakCode::RemoteAccessError, Status::RemoteAccess)),
                _ => {
                    c.received(ctx, Status::Success, Opcode::Recv, bytes, imm, rkey, solicited);
                    None
                }
            },
            Ending::Read { reth, serial } => self.answer_read(c, ctx, now, &reth, serial).err(),
            Ending::Atomic { request, compare, serial } => {
                self.answer_atomic(c, ctx, now, &request, compare, serial).err()
            }
        };
        match refused {
            None => self.msn += 1,
            Some((code, status)) => {
                self.refusal = Some((Psn::new(self.receive_cfg.first_psn.value()).plus(at as u32), code));
                c.fail_receive(ctx, status);
            }
        }
    }

    // Answers out.

    fn answer_read(
        &mut self, c: &Common, ctx: &mut Ctx<'_>, now: Time, reth: &Reth, serial: u32,
    ) -> Result<(), (NakCode, Status)> {
        let all = u64::from(reth.dma_len);
        let admitted = c.access.remote_read
            && (all == 0 || ctx.memory.remote(c.pd, reth.rkey, reth.va, all, Want::RemoteRead).is_ok());
        if !admitted {
            return Err((NakCode::RemoteAccessError, Status::RemoteAccess));
        }
        let kind = AnswerKind::Read { addr: reth.va, rkey: reth.rkey, len: reth.dma_len };
        self.answer(now, serial, packets(reth.dma_len, c.route.mtu), kind)
    }

    fn answer_atomic(
        &mut self, c: &Common, ctx: &mut Ctx<'_>, now: Time, request: &AtomicEth, compare: bool, serial: u32,
    ) -> Result<(), (NakCode, Status)> {
        if !c.access.remote_atomic {
            return Err((NakCode::RemoteAccessError, Status::RemoteAccess));
        }
        let value = super::reply::atomic(ctx.memory, c.pd, request, compare).map_err(|why| match why {
            crate::types::AccessError::Alignment => (NakCode::InvalidRequest, Status::LocalQpOperation),
            _ => (NakCode::RemoteAccessError, Status::RemoteAccess),
        })?;
        self.answer(now, serial, 1, AnswerKind::Atomic { value })
    }

    /// Puts an answer in line. Its number says which ones before have arrived.
    fn answer(&mut self, now: Time, serial: u32, packets: u32, kind: AnswerKind) -> Result<(), (NakCode, Status)> {
        let arrived = |answer: &Answer| Psn::new(serial).distance_from(Psn::new(answer.serial)) >= self.max_dest as i32;
        if let Some(last) = self.answering.iter().rfind(|answer| arrived(answer)) {
            let end = last.first + u64::from(last.packets);
            self.answers_arrived(now, end);
        }
        if self.answering.len() >= self.max_dest as usize {
            return Err((NakCode::InvalidRequest, Status::LocalQpOperation));
        }
        self.answering.push_back(Answer { first: self.answer_next, packets, serial, kind });
        self.answer_next += u64::from(packets);
        self.answer_flow.extend(u64::from(packets));
        Ok(())
    }

    /// Answers before `end` have arrived, as the requester's next request shows.
    fn answers_arrived(&mut self, now: Time, end: u64) {
        let end = end.min(self.answer_acked + u64::from(self.answer_flow.in_flight()));
        let psn = self.answer_first.plus(end as u32);
        let stamp = self.answer_stamps.get(psn.plus(Psn::MODULUS - 1));
        self.slide_answers(now, Pdu::ack(psn, stamp));
    }

    fn slide_answers(&mut self, now: Time, pdu: Pdu) {
        let progress = self.answer_flow.handle(now, pdu);
        if progress.acked > 0 {
            self.answer_acked += u64::from(progress.acked);
            self.answer_waiting.progress();
            while self.answering.front().is_some_and(|a| a.first + u64::from(a.packets) <= self.answer_acked) {
                self.answering.pop_front();
            }
        }
    }

    fn on_read_acknowledge(&mut self, ctx: &mut Ctx<'_>, now: Time, headers: &Headers) -> Result<(), Dropped> {
        let (Some(aeth), Some(sack)) = (headers.aeth, headers.sack) else { return Err(Dropped::Opcode) };
        let (psn, cause) = (Psn::new(headers.bth.psn), Psn::new(sack.psn));
        let stamp = self.answer_stamps.get(cause);
        let pdu = match aeth.syndrome {
            Syndrome::Ack { .. } => Pdu::ack(psn.plus(1), stamp),
            Syndrome::Nak(NakCode::PsnSequenceError) => {
                ctx.counters.naks_received += 1;
                Pdu::nack(psn, cause, stamp)
            }
            _ => return Err(Dropped::Opcode),
        };
        self.slide_answers(now, pdu);
        Ok(())
    }

    fn emit_answer(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, out: &mut [u8]) -> usize {
        let Some(pick) = self.answer_flow.poll(now) else { return 0 };
        let acked = self.answer_first.plus(self.answer_acked as u32);
        let packet = self.answer_acked + u64::from(pick.psn.since(acked));
        let at = self.answering.partition_point(|answer| answer.first + u64::from(answer.packets) <= packet);
        let Some(answer) = self.answering.get(at) else { return 0 };
        let index = (packet - answer.first) as u32;
        let aeth = Some(Aeth { syndrome: c.credits(), msn: self.msn & 0xff_ffff });
        self.answer_stamps.set(pick.psn, now);
        let psn = pick.psn.value();
        let (written, len) = match answer.kind {
            AnswerKind::Atomic { value } => {
                let headers = c.route.headers(Operation::AtomicAcknowledge, Position::Only, Extra::None, psn);
                let headers = Headers { aeth, atomic_ack: Some(AtomicAckEth { original: value }), ..headers };
                (write(&headers, 0, out, |_| Ok(())), 0)
            }
            AnswerKind::Read { addr, rkey, len } => {
                let (position, here) = place(len, index, c.route.mtu);
                let mut headers = c.route.headers(Operation::ReadResponse, position, Extra::None, psn);
                if position != Position::Middle {
                    headers.aeth = aeth;
                }
                let addr = addr.wrapping_add(u64::from(index * c.route.mtu));
                let written = write(&headers, here, out, |payload| {
                    if here > 0 {
                        let span = ctx.memory.remote(c.pd, rkey, addr, u64::from(here), Want::RemoteRead)?;
                        payload.copy_from_slice(ctx.memory.slice(span));
                    }
                    Ok(())
                });
                (written, here)
            }
        };
        match written {
            Ok(bytes) => {
                ctx.counters.sent(pick.retransmission, len);
                self.answer_flow.sent(now, bytes as u32 + super::AROUND_PACKET);
                bytes
            }
            Err(_) => {
                // The region went away: the connection cannot keep its word.
                let request = self.receiver.recovery().expected().plus(Psn::MODULUS - 1);
                self.refusal = Some((request, NakCode::RemoteAccessError));
                c.fail_receive(ctx, Status::RemoteAccess);
                0
            }
        }
    }

    // All.

    fn emit_control(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, out: &mut [u8]) -> usize {
        if std::mem::take(&mut self.cnp_due) {
            ctx.counters.cnps_sent += 1;
            return super::cnp(c, out);
        }
        let expected = self.receiver.recovery().expected();
        let msn = self.msn & 0xff_ffff;
        let mut acknowledge = |operation, psn: Psn, syndrome, cause: Psn| {
            let headers = c.route.headers(operation, Position::Only, Extra::None, psn.value());
            let headers =
                Headers { aeth: Some(Aeth { syndrome, msn }), sack: Some(SackEth { psn: cause.value() }), ..headers };
            write(&headers, 0, out, |_| Ok(())).unwrap_or(0)
        };
        const LOST: Syndrome = Syndrome::Nak(NakCode::PsnSequenceError);
        if let Some((nack, cause)) = self.acks.next(expected) {
            if nack {
                ctx.counters.naks_sent += 1;
                return acknowledge(Operation::Acknowledge, expected, LOST, cause);
            }
            ctx.counters.acks_sent += 1;
            return acknowledge(Operation::Acknowledge, expected.plus(Psn::MODULUS - 1), c.credits(), cause);
        }
        if let Some(psn) = self.not_ready.take() {
            let timer = RnrTimer::from_code(c.connection.map_or(0, |connection| connection.min_rnr_timer));
            return acknowledge(Operation::Acknowledge, psn, Syndrome::RnrNak { timer }, psn);
        }
        let expected = self.answers.recovery().expected();
        if let Some((nack, cause)) = self.answer_acks.next(expected) {
            if nack {
                ctx.counters.naks_sent += 1;
                return acknowledge(Operation::ReadAcknowledge, expected, LOST, cause);
            }
            ctx.counters.acks_sent += 1;
            let upto = expected.plus(Psn::MODULUS - 1);
            return acknowledge(Operation::ReadAcknowledge, upto, Syndrome::ACK, cause);
        }
        if let Some((psn, code)) = self.refusal.take() {
            ctx.counters.naks_sent += 1;
            return acknowledge(Operation::Acknowledge, psn, Syndrome::Nak(code), psn);
        }
        0
    }

    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, out: &mut [u8]) -> usize {
        let bytes = self.emit_control(c, ctx, out);
        if bytes > 0 || !c.receives_packets() {
            return bytes;
        }
        self.answers_next = !self.answers_next;
        if self.answers_next {
            match self.emit_answer(c, ctx, now, out) {
                0 => self.emit_request(c, ctx, now, out),
                bytes => bytes,
            }
        } else {
            match self.emit_request(c, ctx, now, out) {
                0 => self.emit_answer(c, ctx, now, out),
                bytes => bytes,
            }
        }
    }

    pub(crate) fn next_transmit(&self, c: &Common) -> Due {
        let mut due = Due::never();
        if self.cnp_due
            || self.acks.is_due()
            || self.answer_acks.is_due()
            || self.not_ready.is_some()
            || self.refusal.is_some()
        {
            due.at_once();
        }
        if c.receives_packets() {
            due.maybe(self.answer_flow.next_transmit());
        }
        if c.sends_packets() && !self.waiting.is_waiting() {
            due.maybe(self.flow.next_transmit());
        }
        due
    }

    pub(crate) fn deadline(&self) -> Due {
        let mut due = Due::never();
        due.maybe(self.answer_flow.deadline());
        match self.waiting.until() {
            Some(until) => due.at(until),
            None => due.maybe(self.flow.deadline()),
        }
        due
    }

    pub(crate) fn on_deadline(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time) {
        if self.answer_flow.on_deadline(now) == Some(Timer::Retransmit) {
            ctx.counters.timeouts += 1;
            if !self.answer_waiting.timed_out() {
                c.fail(ctx, Status::TransportRetryExceeded);
                return;
            }
        }
        if self.waiting.is_waiting() {
            if self.waiting.ends(now) {
                self.flow.resend(now);
            }
            return;
        }
        if self.flow.on_deadline(now) == Some(Timer::Retransmit) {
            ctx.counters.timeouts += 1;
            if !self.waiting.timed_out() {
                c.fail_send(ctx, Status::TransportRetryExceeded);
            }
        }
    }
}
