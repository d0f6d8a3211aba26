//! The responder of an IRN connection. It receives requests, and sends the responses to reads and atomics. Request
//! packets and response packets have separate sequences of PSNs, and each kind is numbered from 0.

use super::acks::{Acknowledgements, Cause, run};
use super::request::{ReorderBuffer, RequestKind, RequestPacket};
use crate::common::{Common, Ctx, Delivery, MAX_MESSAGE, Refusal};
use crate::flow::Flow;
use crate::memory::Right;
use crate::packet::{TxContext, Writer, segment};
use crate::qp::incoming::Incoming;
use crate::qp::sending::{Due, RetryState, SendTimes};
use crate::qp::{AROUND_PACKET, atomic};
use crate::send_queue::{packets, payload};
use crate::types::{Status, VerbsError};
use crate::{Congestion, Dropped};
use rnic_transport::recovery::{Arrival, Irn, StreamReceiver};
use rnic_transport::{BitRate, FlowConfig, Pdu, Psn, Receiver, RxMeta, Time, Timer};
use rnic_wire::{Aeth, AtomicAckEth, Extra, Headers, NakCode, Operation, Packet, Reth, Syndrome};
use std::collections::VecDeque;

/// The response to a read or atomic. The responder stores it until the requester has acknowledged all its packets.
#[derive(Clone, Copy, Debug)]
struct Response {
    /// Number of the response's first packet; the first response packet of the connection has number 0.
    first: u64,
    packets: u32,
    /// Number of the request packet that the response belongs to.
    request: u64,
    /// Sequence number of the request among reads and atomics (read_WQE_SN).
    serial: u32,
    kind: ResponseKind,
}

#[derive(Clone, Copy, Debug)]
enum ResponseKind {
    Read { addr: u64, rkey: u32, len: u32, payload: u32 },
    Atomic { value: u64 },
}

/// A NAK that ends the connection. The responder sends it when the peer has acknowledged the responses to all earlier
/// requests.
#[derive(Clone, Copy, Debug)]
struct Ending {
    request: u64,
    code: NakCode,
    status: Status,
    uses_receive: bool,
}

pub(crate) struct Responder {
    // Received requests.
    first: Psn,
    cfg: FlowConfig,
    receiver: Receiver<Irn>,
    /// Number of the next request packet to process: the number of packets processed so far.
    next: u64,
    early: ReorderBuffer,
    /// Number of the first packet of the message in progress, of which not all packets have been processed.
    message: u64,
    incoming: Option<Incoming>,
    msn: u32,
    /// Sequence number (read_WQE_SN) of the next read or atomic to execute.
    next_fetch: u32,
    pub(crate) acks: Acknowledgements,
    /// PSN of the request packet for which an RNR NAK is to be sent; `None` if no RNR NAK is due.
    pub(crate) not_ready: Option<Psn>,
    ending: Option<Ending>,
    /// PSN and code of the NAK that ends the connection and is to be sent now; `None` if no such NAK is due.
    pub(crate) refusal: Option<(Psn, NakCode)>,
    // Sent responses.
    flow: Box<dyn Flow>,
    /// Number of response packets that the requester has acknowledged.
    acked: u64,
    /// Number of response packets created so far, sent or not.
    end: u64,
    times: SendTimes,
    responses: VecDeque<Response>,
    max_dest: u32,
    retry: RetryState,
}

impl Responder {
    pub(crate) fn new(
        c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time,
    ) -> Result<Responder, VerbsError> {
        let connection = c.connection.ok_or(VerbsError::Unknown("connection"))?;
        let first = Psn::new(connection.recv_psn);
        let cfg = FlowConfig { first_psn: first, ..cfg.clone() };
        let flow = congestion.irn(&cfg, now).map_err(VerbsError::Congestion)?;
        let times = SendTimes::new(cfg.bdp_cap);
        // The receiver's window is the peer's limit of packets in flight, which may exceed this side's.
        // The queue pair decides when to send CNPs (`CnpState`), so the receiver sends none.
        let cfg = FlowConfig { bdp_cap: connection.peer_in_flight, cnp_interval: None, ..cfg };
        Ok(Responder {
            first,
            receiver: Receiver::stream(&cfg, now),
            cfg,
            next: 0,
            early: ReorderBuffer::default(),
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
            end: 0,
            times,
            responses: VecDeque::new(),
            max_dest: u32::from(connection.max_dest_rd_atomic),
            retry: RetryState::new(c, now),
        })
    }

    /// Queues an ACK of the packets processed so far, which carries the number of receives.
    pub(crate) fn tell_credits(&mut self) {
        let last = self.expected().plus(Psn::MODULUS - 1);
        self.acks.acknowledge(Cause::of(last));
    }

    /// Called after a change of the connection's attributes: sets the maximum number of reads and atomics that the peer
    /// may have outstanding, and the maximum numbers of retries. All retries are restored.
    pub(crate) fn change(&mut self, c: &Common) {
        self.max_dest = c.connection.map_or(0, |connection| u32::from(connection.max_dest_rd_atomic));
        self.retry.change(c);
    }

    /// RTR to RTS: sets the number of retries, which is known only now.
    pub(crate) fn start(&mut self, c: &Common) {
        self.retry.change(c);
    }

    /// The PSN of the next request packet to process.
    pub(crate) fn expected(&self) -> Psn {
        self.first.plus(self.next as u32)
    }

    pub(crate) fn msn(&self) -> u32 {
        self.msn & rnic_wire::MAX_24
    }

    /// Sets the sequence numbers as if `messages` messages of every kind had been received before, so that a test can
    /// make them wrap.
    #[cfg(test)]
    pub(crate) fn count_from(&mut self, messages: u32) {
        (self.msn, self.next_fetch) = (messages, messages);
    }

    // Received requests.

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
        let Some(request) = RequestPacket::of(packet) else { return Err(Dropped::Opcode) };
        let in_order = arrival == Arrival::InOrder;
        let ahead = psn.since(self.expected());
        let checked = if in_order { self.follows(c, &request) } else { self.may_be_early(&request) };
        match checked.and_then(|()| self.place(c, ctx, packet.payload, &request, ahead)) {
            Ok(()) => {}
            // The packet is dropped as if it were lost. The peer retransmits it, and by then it is in order.
            Err(Refusal::NotReady) if !in_order => return Err(Dropped::NoReceive),
            Err(Refusal::Never(..)) if !in_order => return Err(Dropped::Refused),
            Err(Refusal::NotReady) => {
                self.not_ready = Some(psn);
                return Err(Dropped::NoReceive);
            }
            Err(refusal) => {
                self.refuse(c, ctx, self.next, refusal, request.uses_receive());
                return Err(Dropped::Refused);
            }
        }
        self.receiver.recovery_mut().accept(psn);
        if in_order {
            self.acks.acknowledge(cause);
        } else {
            self.acks.note(Some(Pdu::nack(self.expected(), psn, data.stamp())), cause);
        }
        if !in_order {
            self.early.insert(ahead as usize, request);
            return Ok(());
        }
        self.not_ready = None;
        let mut request = request;
        let mut result = self.finish(c, ctx, now, &request);
        while result.is_ok() {
            self.next += 1;
            let Some(next) = self.early.pop_next() else { return Ok(()) };
            request = next;
            // When this packet arrived out of order, it could not yet be compared with the packet before it.
            result = self.follows(c, &request).and_then(|()| self.finish(c, ctx, now, &request));
        }
        if let Err(refusal) = result {
            self.refuse(c, ctx, self.next, refusal, request.uses_receive());
        }
        Ok(())
    }

    /// Checks that `request`, the next packet to process, continues the message where the previous packet ended, or
    /// begins a new message after the end of the previous one.
    fn follows(&self, c: &Common, request: &RequestPacket) -> Result<(), Refusal> {
        let is_receive = |serial: u32| Psn::new(serial) == Psn::new(c.next_receive());
        let good = match (request.kind, self.incoming) {
            (RequestKind::Send { serial, offset, .. }, None) => request.begins && is_receive(serial) && offset == 0,
            (RequestKind::Send { serial, offset, .. }, Some(Incoming::Send { done })) => {
                !request.begins && is_receive(serial) && offset == done
            }
            (RequestKind::Write { serial, .. }, None) => request.begins && serial.is_none_or(is_receive),
            (
                RequestKind::Write { addr, rkey, left, serial },
                Some(Incoming::Write { addr: at, rkey: key, left: rest, .. }),
            ) => !request.begins && (addr, rkey, left) == (at, key, rest) && serial.is_none_or(is_receive),
            (RequestKind::Read { serial, .. } | RequestKind::Atomic { serial, .. }, None) => {
                Psn::new(serial) == Psn::new(self.next_fetch)
            }
            _ => false,
        };
        if good { Ok(()) } else { Err(Refusal::INVALID) }
    }

    /// Checks that the responder may store a packet that arrived out of order: with it, the peer must not have more
    /// than `max_dest_rd_atomic` reads and atomics outstanding.
    fn may_be_early(&self, request: &RequestPacket) -> Result<(), Refusal> {
        match request.kind {
            RequestKind::Read { serial, .. } | RequestKind::Atomic { serial, .. } => {
                let ahead = Psn::new(serial).distance_from(Psn::new(self.next_fetch));
                if (0..self.max_dest as i32).contains(&ahead) { Ok(()) } else { Err(Refusal::INVALID) }
            }
            _ => Ok(()),
        }
    }

    /// Checks a packet that is `ahead` packets after the next packet to process, and places its payload in memory. All
    /// checks precede the write to memory. The function changes no protocol state, except that it may take receives
    /// from the receive queue.
    fn place(
        &mut self, c: &mut Common, ctx: &mut Ctx, payload: &[u8], request: &RequestPacket, ahead: u32,
    ) -> Result<(), Refusal> {
        // Each message has at least one packet. So at most as many receives precede this packet's receive as packets
        // were sent since the start of the message in progress.
        let max = self.next + u64::from(ahead) - self.message;
        let receives_ahead = |c: &Common, serial: u32| {
            let ahead = Psn::new(serial).distance_from(Psn::new(c.next_receive()));
            u32::try_from(ahead).ok().filter(|ahead| u64::from(*ahead) <= max).ok_or(Refusal::INVALID)
        };
        match request.kind {
            RequestKind::Send { serial, offset, rkey } => {
                let receives = receives_ahead(c, serial)?;
                let at = c.at();
                let receive = c.receive(ctx, receives, ahead > 0).ok_or(Refusal::NotReady)?;
                if let Some(rkey) = rkey {
                    ctx.memory.may_invalidate(at, rkey).map_err(|_| Refusal::ACCESS)?;
                }
                let end = u64::from(offset) + u64::from(request.len);
                if end > receive.room.min(u64::from(MAX_MESSAGE)) {
                    return Err(Refusal::TOO_LONG);
                }
                ctx.memory.scatter(&receive.scatter, offset, payload).map_err(|_| Refusal::RECEIVE)
            }
            RequestKind::Write { addr, rkey, left, serial } => {
                if !c.access.remote_write {
                    return Err(Refusal::INVALID);
                }
                if left > MAX_MESSAGE || request.len > left || request.ends != (request.len == left) {
                    return Err(Refusal::INVALID);
                }
                if let Some(serial) = serial {
                    let receives = receives_ahead(c, serial)?;
                    c.receive(ctx, receives, ahead > 0).ok_or(Refusal::NotReady)?;
                }
                if left > 0 {
                    // The check covers the rest of the message, so that no byte is written of a message that exceeds
                    // the region.
                    let refusal = if serial.is_some() { Refusal::ACCESS_WITH_RECEIVE } else { Refusal::ACCESS };
                    let span = ctx.memory.remote(c.at(), rkey, addr, left, Right::Write);
                    span.and_then(|span| ctx.memory.write(span, payload)).map_err(|_| refusal)?;
                }
                Ok(())
            }
            RequestKind::Read { .. } | RequestKind::Atomic { .. } => Ok(()),
        }
    }

    /// Processes a packet whose payload is in memory, after all earlier packets have been processed. If the packet ends
    /// a message, completes the message; a read or atomic is executed.
    fn finish(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, request: &RequestPacket) -> Result<(), Refusal> {
        match request.kind {
            RequestKind::Send { offset, rkey, .. } => {
                let bytes = offset + request.len;
                if !request.ends {
                    self.incoming = Some(Incoming::Send { done: bytes });
                    return Ok(());
                }
                if let Some(rkey) = rkey {
                    ctx.memory.invalidate(c.at(), rkey).map_err(|_| Refusal::ACCESS)?;
                }
                let (imm, solicited) = (request.imm, request.solicited);
                c.received(ctx, &Delivery { bytes, imm, invalidated: rkey, solicited, ..Delivery::default() });
            }
            RequestKind::Write { addr, rkey, left, serial } => {
                let done = match self.incoming {
                    Some(Incoming::Write { done, .. }) => done,
                    _ => 0,
                };
                let bytes = done + request.len;
                if !request.ends {
                    let addr = addr.wrapping_add(u64::from(request.len));
                    self.incoming = Some(Incoming::Write { addr, rkey, done: bytes, left: left - request.len });
                    return Ok(());
                }
                if serial.is_some() {
                    let (imm, solicited) = (request.imm, request.solicited);
                    c.received(ctx, &Delivery { write: true, bytes, imm, solicited, ..Delivery::default() });
                }
            }
            RequestKind::Read { reth, serial } => self.respond_to_read(c, ctx, now, &reth, serial)?,
            RequestKind::Atomic { request, compare, serial } => {
                if !c.access.remote_atomic {
                    return Err(Refusal::INVALID);
                }
                self.make_room(now, serial)?;
                let value = atomic::execute(&mut ctx.memory, c.at(), &request, compare)?;
                self.respond(serial, 1, ResponseKind::Atomic { value });
            }
        }
        self.incoming = None;
        self.message = self.next + 1;
        self.msn = self.msn.wrapping_add(1);
        Ok(())
    }

    /// Refuses an invalid request with this PSN if the responder expects the PSN; returns whether it does.
    pub(crate) fn refuse_invalid(&mut self, c: &mut Common, ctx: &mut Ctx, psn: Psn) -> bool {
        let expected = self.ending.is_none() && self.receiver.recovery().foresee(psn) == Arrival::InOrder;
        if expected {
            self.refuse(c, ctx, self.next, Refusal::INVALID, false);
        }
        expected
    }

    /// Refuses the request in packet number `request`. The responder first sends the responses to earlier requests,
    /// then a NAK that ends the connection.
    fn refuse(&mut self, c: &mut Common, ctx: &mut Ctx, request: u64, refusal: Refusal, uses_receive: bool) {
        let Refusal::Never(code, status) = refusal else { return };
        if self.ending.is_none_or(|ending| request < ending.request) {
            self.ending = Some(Ending { request, code, status, uses_receive });
        }
        self.end_when_acknowledged(c, ctx);
    }

    fn end_when_acknowledged(&mut self, c: &mut Common, ctx: &mut Ctx) {
        if !self.responses.is_empty() {
            return;
        }
        if let Some(Ending { request, code, status, uses_receive }) = self.ending.take() {
            self.refusal = Some((self.first.plus(request as u32), code));
            c.fail_receive(ctx, status, uses_receive);
        }
    }

    // Sent responses.

    fn respond_to_read(&mut self, c: &Common, ctx: &Ctx, now: Time, reth: &Reth, serial: u32) -> Result<(), Refusal> {
        if !c.access.remote_read || reth.dma_len > MAX_MESSAGE {
            return Err(Refusal::INVALID);
        }
        self.make_room(now, serial)?;
        if reth.dma_len > 0 {
            let span = ctx.memory.remote(c.at(), reth.rkey, reth.va, reth.dma_len, Right::Read);
            span.map_err(|_| Refusal::ACCESS)?;
        }
        let payload = payload(c.init.service, reth.dma_len, c.route.mtu);
        let kind = ResponseKind::Read { addr: reth.va, rkey: reth.rkey, len: reth.dma_len, payload };
        self.respond(serial, packets(reth.dma_len, payload), kind);
        Ok(())
    }

    /// Makes room among the stored responses for the response to the read or atomic with sequence number `serial`. The
    /// peer has at most `max_dest` reads and atomics outstanding. So this request shows that the responses to all reads
    /// and atomics up to number `serial - max_dest` have arrived, even if the ACKs of these responses are lost or late.
    fn make_room(&mut self, now: Time, serial: u32) -> Result<(), Refusal> {
        let arrived =
            |response: &Response| Psn::new(serial).distance_from(Psn::new(response.serial)) >= self.max_dest as i32;
        if let Some(last) = self.responses.iter().rfind(|response| arrived(response)) {
            let end = (last.first + u64::from(last.packets)).min(self.acked + u64::from(self.flow.outstanding()));
            let psn = self.first.plus(end as u32);
            let stamp = self.times.sent_at(psn.plus(Psn::MODULUS - 1), 0);
            self.slide(now, Pdu::ack(psn, stamp));
        }
        if self.responses.len() < self.max_dest as usize { Ok(()) } else { Err(Refusal::INVALID) }
    }

    /// Queues a response to the request packet that is being processed.
    fn respond(&mut self, serial: u32, packets: u32, kind: ResponseKind) {
        self.responses.push_back(Response { first: self.end, packets, request: self.next, serial, kind });
        self.end += u64::from(packets);
        self.next_fetch = self.next_fetch.wrapping_add(1);
        self.flow.extend(u64::from(packets));
    }

    fn slide(&mut self, now: Time, pdu: Pdu) {
        let progress = self.flow.handle(now, pdu);
        if progress.acked > 0 {
            self.acked += u64::from(progress.acked);
            self.retry.on_progress(now);
            while self.responses.front().is_some_and(|a| a.first + u64::from(a.packets) <= self.acked) {
                self.responses.pop_front();
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
                let pdu = Pdu::nack(upto, cause, self.times.sent_at(cause, headers.bth.attempt));
                self.slide(now, pdu.with_mark_echo(headers.bth.becn));
            }
        } else {
            let pdu = Pdu::ack(upto, self.times.sent_at(Psn::new(sack.psn), headers.bth.attempt));
            self.slide(now, pdu.with_mark_echo(headers.bth.becn));
        }
        // As in `Core::detect_second_loss`.
        let first = self.first.plus(self.acked as u32);
        let stamp = self.times.sent_at(Psn::new(sack.psn), headers.bth.attempt);
        if self.flow.outstanding() > 0 && self.times.is_retransmitted_before(first, stamp) {
            self.flow.lost_again();
        }
        self.end_when_acknowledged(c, ctx);
        Ok(())
    }

    pub(crate) fn rebase(&mut self, now: Time, by: Time) {
        self.flow.rebase(now, by);
        self.retry.rebase(by);
    }

    pub(crate) fn set_rate(&mut self, rate: Option<BitRate>) {
        self.flow.set_rate(rate);
    }

    pub(crate) fn on_cnp(&mut self, now: Time) {
        self.flow.handle(now, Pdu::cnp());
    }

    /// Writes the next response packet into `out` and returns its length in bytes; 0 if there is no packet to send now.
    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, out: &mut [u8]) -> usize {
        let waits = self.flow.outstanding() > 0;
        let Some(pick) = self.flow.poll(now) else { return 0 };
        if !waits {
            self.retry.on_wait_begins(now);
        }
        let packet = self.acked + u64::from(pick.psn.since(self.first.plus(self.acked as u32)));
        let at = self.responses.partition_point(|response| response.first + u64::from(response.packets) <= packet);
        let Some(response) = self.responses.get(at).copied() else { return 0 };
        let index = (packet - response.first) as u32;
        let aeth = Aeth { syndrome: c.credits(), msn: self.msn() }.emit();
        let attempt = self.times.record(pick.psn, pick.retransmission, now);
        let tx = TxContext { psn: pick.psn, ask: false, attempt };
        let (written, len) = match response.kind {
            ResponseKind::Atomic { value } => {
                let mut writer =
                    Writer::begin(&tx.apply(c.route.only(Operation::AtomicAcknowledge, pick.psn.value())), 0, out);
                writer.put(&aeth);
                writer.put(&AtomicAckEth { original: value }.emit());
                (Ok(writer.end()), 0)
            }
            ResponseKind::Read { addr, rkey, len, payload } => {
                let (position, here) = segment(len, index, payload);
                let bth = tx.apply(c.route.bth(Operation::ReadResponse, position, Extra::None, pick.psn.value()));
                let mut writer = Writer::begin(&bth, here, out);
                writer.put(&aeth);
                let addr = addr.wrapping_add(u64::from(index * payload));
                let written = writer.end_with(here, |payload| {
                    if here > 0 {
                        let span = ctx.memory.remote(c.at(), rkey, addr, here, Right::Read)?;
                        ctx.memory.read(span, payload)?;
                    }
                    Ok(())
                });
                (written, here)
            }
        };
        let Ok(bytes) = written else {
            // The region was deregistered, so neither this response nor the responses behind it can be sent.
            self.responses.truncate(at);
            self.flow.truncate(response.first.saturating_sub(self.acked));
            self.refuse(c, ctx, response.request, Refusal::ACCESS, false);
            return 0;
        };
        c.count_sent(ctx, pick.retransmission, len);
        self.flow.sent(now, bytes as u32 + AROUND_PACKET);
        bytes
    }

    pub(crate) fn next_transmit(&self, c: &Common) -> Due {
        let mut due = Due::never();
        if self.acks.is_due() || self.not_ready.is_some() || self.refusal.is_some() {
            due.immediately();
        }
        if c.receives_packets() {
            due.maybe(self.flow.next_transmit());
        }
        due
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let mut due = Due::never();
        due.maybe(self.flow.deadline());
        due.maybe(self.gives_up_at());
        due.time()
    }

    /// The time at which the responder gives up the peer if it does not acknowledge responses.
    fn gives_up_at(&self) -> Option<Time> {
        self.retry.gives_up_at().filter(|_| self.flow.outstanding() > 0)
    }

    pub(crate) fn on_deadline(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time) {
        if self.gives_up_at().is_some_and(|at| at <= now) {
            c.fail(ctx, Status::TransportRetryExceeded);
            return;
        }
        if self.flow.on_deadline(now) == Some(Timer::Retransmit) {
            ctx.counters.timeouts += 1;
            if !self.retry.on_timeout() {
                c.fail(ctx, Status::TransportRetryExceeded);
            }
        }
    }
}
