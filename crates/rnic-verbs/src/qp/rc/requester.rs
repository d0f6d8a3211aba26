//! The requester of a reliable connection (InfiniBand volume 1, section 9.7.5).

use crate::common::{Common, Ctx, status_of};
use crate::flow::Flow;
use crate::packet::{Turn, place};
use crate::qp::AROUND_PACKET;
use crate::qp::sending::{Due, Stamps, Waiting};
use crate::types::{State, Status, VerbsError};
use crate::{Congestion, Dropped};
use rnic_transport::pdu::Stamp;
use rnic_transport::{BitRate, FlowConfig, Pdu, PduKind, Psn, Time, Timer};
use rnic_wire::{Headers, NakCode, Packet, Syndrome};

pub(crate) struct Requester {
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
}

impl Requester {
    /// Packets after which an acknowledgement is asked for.
    const ASK_EVERY: u32 = 16;

    pub(crate) fn new(
        c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time,
    ) -> Result<Requester, VerbsError> {
        let first = Psn::new(c.attributes.send_psn);
        let cfg = FlowConfig { first_psn: first, ..cfg.clone() };
        Ok(Requester {
            flow: congestion.go_back_n(&cfg, now).map_err(VerbsError::Congestion)?,
            first,
            acked: 0,
            stamps: Stamps::new(cfg.bdp_cap),
            implied: None,
            waiting: Waiting::new(c),
            credit_limit: None,
            unasked: 0,
            rtt: cfg.base_rtt,
        })
    }

    fn psn(&self, packet: u64) -> Psn {
        self.first.plus(packet as u32)
    }

    /// The packet of this sequence number, near the first unacknowledged; may be negative.
    fn position(&self, psn: u32) -> i64 {
        self.acked as i64 + i64::from(Psn::new(psn).distance_from(self.psn(self.acked)))
    }

    /// One past the last packet that was ever sent.
    fn sent(&self) -> u64 {
        self.acked + u64::from(self.flow.outstanding())
    }

    /// Gives the flow what may be sent.
    pub(crate) fn release(&mut self, c: &mut Common) {
        while c.state == State::ReadyToSend && c.failing().is_none() {
            let Some(wqe) = c.sends.waiting() else { return };
            let fetching = c.sends.fetching();
            let held = (wqe.flags.fence && fetching > 0)
                || (wqe.op.is_fetching() && fetching >= u32::from(c.attributes.max_rd_atomic))
                || (wqe.op.takes_receive() && c.sends.lacks_credits(self.credit_limit));
            if held {
                return;
            }
            let packets = c.sends.release(c.init.service, c.route.mtu);
            self.flow.extend(u64::from(packets));
        }
    }

    /// Only messages that have begun are sent to their end.
    pub(crate) fn drain(&mut self, c: &mut Common) {
        c.sends.hold(self.sent());
        self.flow.truncate(c.sends.next_packet() - self.acked);
    }

    pub(crate) fn set_rate(&mut self, rate: Option<BitRate>) {
        self.flow.set_rate(rate);
    }

    pub(crate) fn on_cnp(&mut self, now: Time) {
        self.flow.handle(now, Pdu::cnp());
    }

    pub(crate) fn on_acknowledge(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, headers: &Headers,
    ) -> Result<(), Dropped> {
        let Some(aeth) = headers.aeth else { return Err(Dropped::Opcode) };
        let at = self.position(headers.bth.psn);
        let (acked, sent) = (self.acked as i64, self.sent() as i64);
        // An ACK is of its packet, what else there is of what precedes it.
        let upto = if matches!(aeth.syndrome, Syndrome::Ack { .. }) { at + 1 } else { at };
        if upto < acked || at >= sent {
            return Err(Dropped::Stale);
        }
        let upto = upto as u64;
        let mark = headers.bth.becn;
        match aeth.syndrome {
            Syndrome::Ack { credits } => {
                self.credit_limit = credits.count().map(|count| aeth.msn.wrapping_add(count));
                self.advance(c, ctx, now, upto, PduKind::Ack, mark);
            }
            Syndrome::Nak(NakCode::PsnSequenceError) => {
                ctx.counters.naks_received += 1;
                self.advance(c, ctx, now, upto, PduKind::Nack, mark);
            }
            Syndrome::RnrNak { timer } => {
                self.advance(c, ctx, now, upto, PduKind::Ack, mark);
                if self.acked == upto {
                    ctx.counters.rnr_naks_received += 1;
                    self.waiting.sign_of_life();
                    if !self.waiting.not_ready(now, Time::from_us(u64::from(timer.micros()))) {
                        self.fail_at(c, ctx, upto, Status::RnrRetryExceeded);
                    }
                }
            }
            Syndrome::Nak(code) => {
                self.advance(c, ctx, now, upto, PduKind::Ack, mark);
                self.fail_at(c, ctx, upto, status_of(code));
            }
        }
        Ok(())
    }

    /// The send that `packet` belongs to failed: nothing from there on is sent any more.
    fn fail_at(&mut self, c: &mut Common, ctx: &mut Ctx, packet: u64, status: Status) {
        c.fail_at(ctx, packet, status);
        self.flow.truncate(packet.saturating_sub(self.acked));
    }

    /// Everything before packet `upto` has arrived, unless an answer is missing; a NACK asks for `upto` again.
    fn advance(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, upto: u64, kind: PduKind, mark: bool) {
        let stamp = self.stamps.last(self.psn(upto.saturating_sub(1)));
        self.advance_with(c, ctx, now, upto, kind, stamp, mark);
    }

    /// The same, caused by a packet that left at `stamp`.
    #[expect(clippy::too_many_arguments, reason = "what an acknowledgement says")]
    fn advance_with(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, upto: u64, kind: PduKind, stamp: Stamp, mark: bool,
    ) {
        self.rtt = stamp.elapsed(now);
        let upto = c.failing().map_or(upto, |failing| upto.min(failing));
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
        let progress = self.flow.handle(now, pdu.with_mark_echo(mark));
        if progress.acked > 0 {
            self.acked += u64::from(progress.acked);
            self.waiting.progress();
            c.retire(ctx, self.acked);
        }
    }

    pub(crate) fn on_answer(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, packet: &Packet<'_>,
    ) -> Result<(), Dropped> {
        let at = self.position(packet.headers.bth.psn);
        let (mtu, sent) = (c.route.mtu, self.sent());
        let Some(wqe) = c.sends.unanswered() else { return Err(Dropped::Stale) };
        let expected = wqe.first + u64::from(wqe.answered);
        if at < expected as i64 || at as u64 >= sent {
            return Err(Dropped::Stale);
        }
        if at as u64 != expected {
            // A later answer: those before it are lost.
            let stamp = Stamp::before(now, self.rtt);
            self.advance_with(c, ctx, now, at as u64, PduKind::Ack, stamp, false);
            return Err(Dropped::OutOfOrder);
        }
        let original = packet.headers.atomic_ack.map(|atomic| atomic.original.to_ne_bytes());
        let (data, fits) = match &original {
            Some(bytes) => (&bytes[..], wqe.op.is_atomic()),
            None => {
                let (_, len) = place(wqe.len, wqe.answered, mtu);
                let ends = wqe.answered + 1 == wqe.answers;
                let fits = packet.payload.len() == len as usize && packet.headers.bth.opcode.ends_message() == ends;
                (packet.payload, !wqe.op.is_atomic() && fits)
            }
        };
        let wrong = if !fits {
            Some(Status::BadResponse)
        } else if wqe.local.scatter(&mut ctx.memory, wqe.answered * mtu, data).is_err() {
            Some(Status::LocalProtection)
        } else {
            None
        };
        if let Some(status) = wrong {
            // All before it is done.
            let stamp = Stamp::before(now, self.rtt);
            self.advance_with(c, ctx, now, expected, PduKind::Ack, stamp, false);
            self.fail_at(c, ctx, expected, status);
            return Ok(());
        }
        wqe.answered += 1;
        let stamp = match wqe.answered {
            1 => self.stamps.last(self.psn(expected)),
            _ => Stamp::before(now, self.rtt),
        };
        self.advance_with(c, ctx, now, expected + 1, PduKind::Ack, stamp, false);
        Ok(())
    }

    /// Writes the next request; 0 if there is none for now.
    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, out: &mut [u8]) -> usize {
        if !c.sends_packets() || self.waiting.is_waiting() {
            return 0;
        }
        let Some(pick) = self.flow.poll(now) else { return 0 };
        let packet = self.acked + u64::from(pick.psn.since(self.psn(self.acked)));
        let route = c.route;
        let Some(wqe) = c.sends.find(packet) else { return 0 };
        let index = (packet - wqe.first) as u32;
        let mut ends = index + 1 == wqe.packets;
        if wqe.op.is_fetching() {
            self.flow.claim(wqe.packets - index - 1);
            ends = true;
        }
        self.unasked += 1;
        let asks =
            ends || pick.retransmission || self.unasked >= Requester::ASK_EVERY || self.flow.next_transmit().is_none();
        if asks {
            self.unasked = 0;
        }
        self.stamps.set(pick.psn, pick.retransmission, now);
        let turn = Turn { psn: pick.psn, ask: asks, attempt: 0 };
        let (writer, offset, len) = route.request(wqe, index, turn, out);
        match writer.end_with(len, |payload| wqe.local.gather(&ctx.memory, offset, payload)) {
            Ok(bytes) => {
                ctx.counters.sent(pick.retransmission, len);
                self.flow.sent(now, bytes as u32 + AROUND_PACKET);
                bytes
            }
            Err(_) => {
                self.fail_at(c, ctx, packet, Status::LocalProtection);
                0
            }
        }
    }

    pub(crate) fn next_transmit(&self, c: &Common) -> Due {
        let mut due = Due::never();
        if c.sends_packets() && !self.waiting.is_waiting() {
            due.maybe(self.flow.next_transmit());
        }
        due
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.waiting.until().or_else(|| self.flow.deadline())
    }

    pub(crate) fn on_deadline(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time) {
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
            if !self.waiting.timed_out(now) {
                c.fail_send(ctx, Status::TransportRetryExceeded);
            }
        }
    }
}
