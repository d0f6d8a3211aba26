//! The responder of a reliable connection (InfiniBand volume 1, section 9.7.4).

use super::reply::{Executed, ReadResponse, Replies, Reply, Resources};
use crate::common::{Common, Ctx, MAX_MESSAGE, Refusal};
use crate::flow::Pace;
use crate::memory::Right;
use crate::packet::{Writer, segment};
use crate::qp::incoming::Incoming;
use crate::qp::sending::Due;
use crate::qp::{AROUND_PACKET, atomic};
use crate::send_queue::packets;
use crate::types::{Status, VerbsError};
use crate::{Congestion, Dropped};
use rnic_transport::recovery::{Arrival, GoBackN, StreamReceiver};
use rnic_transport::{BitRate, FlowConfig, Pdu, Psn, Receiver, RxMeta, Time};
use rnic_wire::{Aeth, AtomicAckEth, Extra, NakCode, Operation, Packet, Position, RnrTimer, Syndrome};

pub(crate) struct Responder {
    cfg: FlowConfig,
    receiver: Receiver<GoBackN>,
    msn: u32,
    incoming: Option<Incoming>,
    replies: Replies,
    resources: Resources,
    /// Whether an RNR NAK was sent for the expected request packet. Until the peer retransmits this packet, later
    /// packets are dropped, and trigger no NAK.
    not_ready: bool,
    /// PSN and code of the NAK that ends the connection; `None` if no such NAK is to be sent. It is sent after the
    /// responses to earlier requests.
    refusal: Option<(Psn, NakCode)>,
    /// Whether the next ACK or NAK has BECN set, because a CE-marked packet arrived.
    echo: bool,
    pace: Box<dyn Pace>,
}

impl Responder {
    pub(crate) fn new(
        c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time,
    ) -> Result<Responder, VerbsError> {
        let connection = c.connection.ok_or(VerbsError::Unknown("connection"))?;
        // The queue pair decides when to send CNPs (`CnpState`), so the receiver sends none.
        let cfg = FlowConfig { first_psn: Psn::new(connection.recv_psn), cnp_interval: None, ..cfg.clone() };
        Ok(Responder {
            receiver: Receiver::stream(&cfg, now),
            msn: 0,
            incoming: None,
            replies: Replies::default(),
            resources: Resources::new(connection.max_dest_rd_atomic),
            not_ready: false,
            refusal: None,
            echo: false,
            pace: congestion.pace(&cfg, now).map_err(VerbsError::Congestion)?,
            cfg,
        })
    }

    /// Queues an ACK of the packets processed so far, which carries the number of receives.
    pub(crate) fn tell_credits(&mut self) {
        let last = self.receiver.recovery().expected().plus(Psn::MODULUS - 1);
        self.replies.control(Reply::Ack(last));
    }

    /// Called after a change of the connection's attributes: sets the number of executed reads and atomics that the
    /// responder stores, as many as the peer may have outstanding.
    pub(crate) fn change(&mut self, c: &Common) {
        self.resources.resize(c.connection.map_or(0, |connection| connection.max_dest_rd_atomic));
    }

    /// Sets the MSN as if `messages` messages had been received before, so that a test can make it wrap.
    #[cfg(test)]
    pub(crate) fn count_from(&mut self, messages: u32) {
        self.msn = messages;
    }

    pub(crate) fn handle(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, packet: &Packet<'_>, marked: bool,
    ) -> Result<(), Dropped> {
        let bth = &packet.headers.bth;
        let psn = Psn::new(bth.psn);
        self.echo |= marked;
        let data = Pdu::data(psn, false, now);
        match self.receiver.recovery().foresee(psn) {
            Arrival::InOrder => {
                let claims = match self.execute(c, ctx, packet) {
                    Ok(claims) => claims,
                    Err(Refusal::NotReady) => {
                        self.not_ready = true;
                        self.replies.control(Reply::NotReady(psn));
                        return Err(Dropped::NoReceive);
                    }
                    Err(Refusal::Never(code, status)) => {
                        self.refuse(c, ctx, psn, code, status);
                        return Err(Dropped::Refused);
                    }
                };
                self.not_ready = false;
                self.receiver.handle(&self.cfg, now, data, RxMeta::default());
                match claims {
                    Some(claims) => self.receiver.claim(claims - 1),
                    None if bth.ack_request => self.replies.control(Reply::Ack(psn)),
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
                if !self.not_ready && self.receiver.handle(&self.cfg, now, data, RxMeta::default()).reply.is_some() {
                    self.replies.control(Reply::OutOfSequence(self.receiver.recovery().expected()));
                }
                Err(Dropped::OutOfOrder)
            }
        }
    }

    /// Executes a request packet that arrived in order. For a read or atomic, returns the number of PSNs that its
    /// response takes; for a packet of a Send or Write, `None`.
    fn execute(&mut self, c: &mut Common, ctx: &mut Ctx, packet: &Packet<'_>) -> Result<Option<u32>, Refusal> {
        let headers = &packet.headers;
        let operation = headers.bth.opcode.operation();
        if matches!(operation, Operation::Send | Operation::Write) {
            let ended = Incoming::take(&mut self.incoming, c, ctx, packet)?;
            self.msn = self.msn.wrapping_add(u32::from(ended));
            return Ok(None);
        }
        let admitted = if operation == Operation::ReadRequest { c.access.remote_read } else { c.access.remote_atomic };
        // The queue may hold repeated responses besides the responses to outstanding requests, so its limit is three
        // times `max_dest_rd_atomic`.
        if self.incoming.is_some() || !admitted || self.replies.responses() >= 3 * self.resources.max() {
            return Err(Refusal::INVALID);
        }
        let psn = Psn::new(headers.bth.psn);
        let claims = match (headers.reth, headers.atomic) {
            (Some(reth), _) => {
                let count = packets(reth.dma_len, c.route.mtu);
                if reth.dma_len > MAX_MESSAGE || count > Psn::MAX_WINDOW {
                    return Err(Refusal::INVALID);
                }
                if reth.dma_len > 0 {
                    let span = ctx.memory.remote(c.at(), reth.rkey, reth.va, reth.dma_len, Right::Read);
                    span.map_err(|_| Refusal::ACCESS)?;
                }
                let (addr, rkey, len) = (reth.va, reth.rkey, reth.dma_len);
                self.resources.keep(psn, count, Executed::Read { addr, rkey, len });
                self.replies.respond(Reply::Read(ReadResponse {
                    psn,
                    addr,
                    rkey,
                    len,
                    count,
                    sent: 0,
                    resumed: false,
                }));
                count
            }
            (None, Some(request)) => {
                let compare = operation == Operation::CompareSwap;
                let value = atomic::execute(&mut ctx.memory, c.at(), &request, compare)?;
                self.resources.keep(psn, 1, Executed::Atomic { value });
                self.replies.respond(Reply::Atomic { psn, value });
                1
            }
            _ => return Err(Refusal::INVALID),
        };
        self.msn = self.msn.wrapping_add(1);
        Ok(Some(claims))
    }

    /// Handles a duplicate of a request packet that was processed before: queues an ACK, or the response to the read or
    /// atomic, again.
    fn repeat(&mut self, c: &Common, ctx: &Ctx, packet: &Packet<'_>) {
        let headers = &packet.headers;
        let psn = Psn::new(headers.bth.psn);
        let response = match headers.bth.opcode.operation() {
            Operation::ReadRequest => {
                let Some(reth) = headers.reth else { return };
                let all = reth.dma_len;
                let count = packets(reth.dma_len, c.route.mtu);
                let again = (reth.va, reth.rkey, reth.dma_len);
                let Some(response) = self.resources.read_again(psn, again, c.route.mtu, count) else { return };
                if all > 0 && ctx.memory.remote(c.at(), reth.rkey, reth.va, all, Right::Read).is_err() {
                    return;
                }
                Reply::Read(response)
            }
            Operation::CompareSwap | Operation::FetchAdd => match self.resources.find(psn) {
                Some((_, Executed::Atomic { value })) => Reply::Atomic { psn, value },
                _ => return,
            },
            _ => {
                let last = self.receiver.recovery().expected().plus(Psn::MODULUS - 1);
                self.replies.control(Reply::Ack(last));
                return;
            }
        };
        // The number of queued responses is bounded, because the network may duplicate requests. If the limit drops a
        // response that the peer needs, the peer retransmits its request.
        if self.replies.responses() < 2 * self.resources.max() {
            self.replies.repeat_response(response);
        }
    }

    /// Refuses an invalid request with this PSN if the responder expects the PSN; returns whether it does.
    pub(crate) fn refuse_invalid(&mut self, c: &mut Common, ctx: &mut Ctx, psn: Psn) -> bool {
        let expected = self.receiver.recovery().foresee(psn) == Arrival::InOrder && self.refusal.is_none();
        if expected {
            self.refuse(c, ctx, psn, NakCode::InvalidRequest, Status::LocalQpOperation);
        }
        expected
    }

    /// Ends the connection with a NAK for the request with PSN `psn`. The NAK is sent after the replies to earlier
    /// requests.
    fn refuse(&mut self, c: &mut Common, ctx: &mut Ctx, psn: Psn, code: NakCode, status: Status) {
        self.refusal = Some((psn, code));
        c.fail_receive(ctx, status, true);
    }

    /// Called in the error state of the queue pair, in which it sends no responses: drops the queued responses. If a
    /// NAK that ends the connection is still to be sent, the responses before the NAK remain and are sent first.
    pub(crate) fn quiet(&mut self) {
        if self.refusal.is_none() {
            self.replies.drop_responses();
        }
    }

    /// Writes the next reply into `out` and returns its length in bytes; 0 if there is no reply to send now.
    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, out: &mut [u8]) -> usize {
        let (syndrome, psn) = match self.replies.front().copied() {
            None => {
                let Some((psn, code)) = self.refusal.take() else { return 0 };
                ctx.counters.naks_sent += 1;
                return self.acknowledge(c, psn, Syndrome::Nak(code), out);
            }
            Some(Reply::Read(read)) => return self.emit_read(c, ctx, now, &read, out),
            Some(Reply::Atomic { psn, value }) => {
                self.replies.pop();
                let mut writer = Writer::begin(&c.route.only(Operation::AtomicAcknowledge, psn.value()), 0, out);
                writer.put(&self.aeth(c.credits()).emit());
                writer.put(&AtomicAckEth { original: value }.emit());
                return writer.end();
            }
            Some(Reply::Ack(psn)) => {
                ctx.counters.acks_sent += 1;
                (c.credits(), psn)
            }
            Some(Reply::OutOfSequence(psn)) => {
                ctx.counters.naks_sent += 1;
                (Syndrome::Nak(NakCode::PsnSequenceError), psn)
            }
            Some(Reply::NotReady(psn)) => {
                ctx.counters.rnr_naks_sent += 1;
                let timer = RnrTimer::from_code(c.connection.map_or(0, |connection| connection.min_rnr_timer));
                (Syndrome::RnrNak { timer }, psn)
            }
        };
        self.replies.pop();
        self.acknowledge(c, psn, syndrome, out)
    }

    fn aeth(&self, syndrome: Syndrome) -> Aeth {
        Aeth { syndrome, msn: self.msn & rnic_wire::MAX_24 }
    }

    fn acknowledge(&mut self, c: &Common, psn: Psn, syndrome: Syndrome, out: &mut [u8]) -> usize {
        let mut bth = c.route.only(Operation::Acknowledge, psn.value());
        bth.becn = std::mem::take(&mut self.echo);
        let mut writer = Writer::begin(&bth, 0, out);
        writer.put(&self.aeth(syndrome).emit());
        writer.end()
    }

    fn emit_read(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, read: &ReadResponse, out: &mut [u8]) -> usize {
        if self.pace.not_before() > now {
            return 0;
        }
        let (position, here) = segment(read.len, read.sent, c.route.mtu);
        let position = read.position(position);
        let addr = read.addr.wrapping_add(u64::from(read.sent * c.route.mtu));
        let psn = read.psn.plus(read.sent);
        let bth = c.route.bth(Operation::ReadResponse, position, Extra::None, psn.value());
        let mut writer = Writer::begin(&bth, here, out);
        if position != Position::Middle {
            writer.put(&self.aeth(c.credits()).emit());
        }
        let written = writer.end_with(here, |payload| {
            if here > 0 {
                let span = ctx.memory.remote(c.at(), read.rkey, addr, here, Right::Read)?;
                ctx.memory.read(span, payload)?;
            }
            Ok(())
        });
        let Ok(bytes) = written else {
            // The region was deregistered, so neither this response nor the replies behind it can be sent.
            self.replies = Replies::default();
            self.refuse(c, ctx, psn, NakCode::RemoteAccessError, Status::RemoteAccess);
            return 0;
        };
        c.count_sent(ctx, false, here);
        if let Some(Reply::Read(read)) = self.replies.front_mut() {
            read.sent += 1;
            if read.sent == read.count {
                self.replies.pop();
            }
        }
        let more = matches!(self.replies.front(), Some(Reply::Read(_)));
        self.pace.sent(now, bytes as u32 + AROUND_PACKET, more);
        bytes
    }

    /// Whether the next reply is the response to a read or atomic. Responses alternate with requests, but ACKs and NAKs
    /// precede requests.
    pub(crate) fn responses_next(&self) -> bool {
        matches!(self.replies.front(), Some(Reply::Read(_) | Reply::Atomic { .. }))
    }

    /// Counts all stored times from an origin that is later by `by`. The receiver acknowledges all packets, so it has
    /// no timer.
    pub(crate) fn rebase(&mut self, now: Time, by: Time) {
        self.pace.rebase(now, by);
    }

    pub(crate) fn set_rate(&mut self, rate: Option<BitRate>) {
        self.pace.set_rate(rate);
    }

    /// Handles a received CNP: the congestion control lowers the rate of responses to reads.
    pub(crate) fn on_cnp(&mut self, now: Time) {
        self.pace.on_cnp(now);
    }

    pub(crate) fn next_transmit(&self) -> Due {
        let mut due = Due::never();
        match self.replies.front() {
            Some(Reply::Read(_)) => due.at(self.pace.not_before()),
            Some(_) => due.immediately(),
            None if self.refusal.is_some() => due.immediately(),
            None => {}
        }
        due
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.pace.deadline()
    }

    pub(crate) fn on_deadline(&mut self, now: Time) {
        self.pace.on_deadline(now);
    }
}
