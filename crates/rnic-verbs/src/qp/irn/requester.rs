//! The requester of an IRN connection: source of requests, sink of answers.

use super::acks::{Acknowledgements, Cause, run};
use crate::common::{Common, Ctx, status_of};
use crate::flow::Flow;
use crate::packet::{Turn, place};
use crate::qp::AROUND_PACKET;
use crate::qp::sending::{Due, Stamps, Waiting};
use crate::types::{State, Status, VerbsError};
use crate::{Congestion, Dropped};
use rnic_transport::recovery::{Arrival, Irn, StreamReceiver};
use rnic_transport::{BitRate, FlowConfig, Pdu, Psn, Receiver, RxMeta, Time, Timer};
use rnic_wire::{Headers, NakCode, Packet, Syndrome};

pub(crate) struct Requester {
    flow: Box<dyn Flow>,
    first: Psn,
    acked: u64,
    stamps: Stamps,
    waiting: Waiting,
    credit_limit: Option<u32>,
    answer_cfg: FlowConfig,
    answers: Receiver<Irn>,
    answers_expected: u64,
    pub(crate) answer_acks: Acknowledgements,
    /// When the peer was last heard of.
    heard: Time,
    /// A request for which the peer owes an answer goes out once more, to see whether the peer still lives.
    probe: Option<u64>,
}

impl Requester {
    pub(crate) fn new(
        c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time,
    ) -> Result<Requester, VerbsError> {
        let first = Psn::new(c.attributes.send_psn);
        let cfg = FlowConfig { first_psn: first, ..cfg.clone() };
        // A peer may have more in flight than this side. Marks are the queue pair's to see to.
        let answer_cfg = FlowConfig { bdp_cap: crate::MOST_IN_FLIGHT, cnp_interval: None, ..cfg.clone() };
        Ok(Requester {
            flow: congestion.irn(&cfg, now).map_err(VerbsError::Congestion)?,
            first,
            acked: 0,
            stamps: Stamps::new(cfg.bdp_cap),
            waiting: Waiting::new(c),
            credit_limit: None,
            answers: Receiver::stream(&answer_cfg, now),
            answer_cfg,
            answers_expected: 0,
            answer_acks: Acknowledgements::default(),
            heard: now,
            probe: None,
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

    /// The answer that is expected next.
    pub(crate) fn expected(&self) -> Psn {
        self.answers.recovery().expected()
    }

    /// Gives the flow what may be sent.
    pub(crate) fn release(&mut self, c: &mut Common) {
        while c.state == State::ReadyToSend && c.failing().is_none() {
            let Some(wqe) = c.sends.waiting() else { return };
            let held = (wqe.flags.fence && c.sends.released() > 0)
                || (wqe.op.is_fetching() && c.sends.fetching() >= u32::from(c.attributes.max_rd_atomic))
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
        let (Some(aeth), Some(sack)) = (headers.aeth, headers.sack) else { return Err(Dropped::Opcode) };
        let at = self.position(headers.bth.psn);
        let (acked, sent) = (self.acked as i64, self.sent() as i64);
        // An ACK is of its packet, what else there is of what precedes it.
        let upto = if matches!(aeth.syndrome, Syndrome::Ack { .. }) { at + 1 } else { at };
        if at >= sent {
            if c.failing().is_none() {
                return Err(Dropped::Stale);
            }
            // What comes after a failed send is forgotten; that it arrived says that all before it did.
            let stamp = self.stamps.of(Psn::new(sack.psn), headers.bth.attempt);
            self.advance(c, ctx, now, Pdu::ack(self.psn(sent as u64), stamp));
            return Ok(());
        }
        if upto < acked {
            return self.on_late_refusal(c, ctx, at, aeth.syndrome);
        }
        self.heard = now;
        if self.flow.outstanding() == 0 {
            self.waiting.sign_of_life();
        }
        let upto = upto as u64;
        let first = self.psn(upto);
        if let Syndrome::Nak(NakCode::PsnSequenceError) = aeth.syndrome {
            ctx.counters.naks_received += 1;
            for cause in run(&sack) {
                let pdu = Pdu::nack(first, cause, self.stamps.of(cause, headers.bth.attempt));
                self.advance(c, ctx, now, pdu.with_mark_echo(headers.bth.becn));
            }
        } else {
            let pdu = Pdu::ack(first, self.stamps.of(Psn::new(sack.psn), headers.bth.attempt));
            self.advance(c, ctx, now, pdu.with_mark_echo(headers.bth.becn));
        }
        if let Syndrome::Ack { credits } = aeth.syndrome {
            self.credit_limit = credits.count().map(|count| aeth.msn.wrapping_add(count));
        }
        match aeth.syndrome {
            Syndrome::RnrNak { timer } if self.acked == upto => {
                ctx.counters.rnr_naks_received += 1;
                self.waiting.sign_of_life();
                if !self.waiting.not_ready(now, Time::from_us(u64::from(timer.micros()))) {
                    self.fail_at(c, ctx, upto, Status::RnrRetryExceeded);
                }
            }
            Syndrome::Nak(code) if code != NakCode::PsnSequenceError => {
                self.fail_at(c, ctx, upto, status_of(code));
            }
            _ => {}
        }
        Ok(())
    }

    /// A NAK of something acknowledged is news only for a read whose answer is outstanding.
    fn on_late_refusal(&mut self, c: &mut Common, ctx: &mut Ctx, at: i64, syndrome: Syndrome) -> Result<(), Dropped> {
        match (syndrome, u64::try_from(at)) {
            (Syndrome::Nak(code), Ok(packet))
                if code != NakCode::PsnSequenceError && c.sends.find(packet).is_some_and(|wqe| !wqe.is_answered()) =>
            {
                self.fail_at(c, ctx, packet, status_of(code));
                Ok(())
            }
            _ => Err(Dropped::Stale),
        }
    }

    /// The send that `packet` belongs to failed: nothing from there on is sent any more.
    fn fail_at(&mut self, c: &mut Common, ctx: &mut Ctx, packet: u64, status: Status) {
        c.fail_at(ctx, packet, status);
        self.flow.truncate(packet.saturating_sub(self.acked));
    }

    fn advance(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, pdu: Pdu) {
        let progress = self.flow.handle(now, pdu);
        if progress.acked > 0 {
            self.acked += u64::from(progress.acked);
            self.waiting.progress();
            c.retire(ctx, self.acked);
        }
    }

    pub(crate) fn on_answer(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, packet: &Packet<'_>, marked: bool,
    ) -> Result<(), Dropped> {
        let psn = Psn::new(packet.headers.bth.psn);
        let expected = self.expected();
        let new = matches!(self.answers.recovery().foresee(psn), Arrival::InOrder | Arrival::Ahead);
        if new {
            let answer = self.answers_expected + u64::from(psn.since(expected));
            let (mtu, sent) = (c.route.mtu, self.sent());
            let Some(wqe) = c.sends.find_answer(answer).filter(|wqe| wqe.first < sent) else {
                return Err(Dropped::Stale);
            };
            let index = (answer - wqe.answer) as u32;
            let request = wqe.first;
            let original = packet.headers.atomic_ack.map(|atomic| atomic.original.to_ne_bytes());
            let (data, fits) = match &original {
                Some(bytes) => (&bytes[..], wqe.op.is_atomic()),
                None => {
                    let (position, len) = place(wqe.len, index, mtu);
                    let fits = packet.payload.len() == len as usize && packet.headers.bth.opcode.position() == position;
                    (packet.payload, !wqe.op.is_atomic() && fits)
                }
            };
            if !fits {
                self.fail_at(c, ctx, request, Status::BadResponse);
                return Ok(());
            }
            if wqe.local.scatter(&mut ctx.memory, index * mtu, data).is_err() {
                self.fail_at(c, ctx, request, Status::LocalProtection);
                return Ok(());
            }
            wqe.answered += 1;
            self.heard = now;
            self.waiting.progress();
            if request >= self.acked {
                // The request has arrived, and all before it.
                let upto = c.failing().map_or(request + 1, |failing| failing.min(request + 1));
                self.advance(c, ctx, now, Pdu::ack(self.psn(upto), self.stamps.of(self.psn(request), 0)));
            }
        }
        let outcome = self.answers.handle(&self.answer_cfg, now, Pdu::data(psn, false, now), RxMeta::default());
        self.answer_acks.note(outcome.reply, Cause::new(&packet.headers.bth, marked));
        self.answers_expected += u64::from(self.expected().since(expected));
        c.retire(ctx, self.acked);
        if new {
            Ok(())
        } else {
            ctx.counters.duplicates += 1;
            Err(Dropped::Duplicate)
        }
    }

    /// Writes the next request; 0 if there is none for now.
    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, out: &mut [u8]) -> usize {
        if !c.sends_packets() || self.waiting.is_waiting() {
            return 0;
        }
        if let Some(packet) = self.probe.take() {
            let psn = self.psn(packet);
            return self.emit_packet(c, ctx, now, packet, psn, true, out);
        }
        let Some(pick) = self.flow.poll(now) else { return 0 };
        let packet = self.acked + u64::from(pick.psn.since(self.psn(self.acked)));
        self.emit_packet(c, ctx, now, packet, pick.psn, pick.retransmission, out)
    }

    #[expect(clippy::too_many_arguments, reason = "what a packet is made of")]
    fn emit_packet(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, packet: u64, psn: Psn, again: bool, out: &mut [u8],
    ) -> usize {
        let route = c.route;
        let Some(wqe) = c.sends.find(packet) else { return 0 };
        let attempt = self.stamps.set(psn, again, now);
        let index = (packet - wqe.first) as u32;
        let (writer, offset, len) = route.request(wqe, index, Turn { psn, ask: true, attempt }, out);
        match writer.end_with(len, |payload| wqe.local.gather(&ctx.memory, offset, payload)) {
            Ok(bytes) => {
                ctx.counters.sent(again, len);
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
            if self.probe.is_some() {
                due.at_once();
            }
        }
        due
    }

    /// When the peer has been silent too long, if nothing but answers is outstanding: then no other timer would notice that it is gone.
    fn patience_ends(&self, c: &Common) -> Option<Time> {
        let timeouts = self.answer_cfg.timeouts?;
        let answer = c.sends.front().is_some_and(|oldest| oldest.op.is_fetching() && oldest.end() <= self.acked);
        let waits = answer && self.flow.outstanding() == 0 && c.sends_packets();
        waits.then_some(self.heard + timeouts.high)
    }

    pub(crate) fn deadline(&self, c: &Common) -> Due {
        let mut due = Due::never();
        match self.waiting.until() {
            Some(until) => due.at(until),
            None => {
                due.maybe(self.flow.deadline());
                due.maybe(self.patience_ends(c));
            }
        }
        due
    }

    pub(crate) fn on_deadline(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time) {
        if self.waiting.is_waiting() {
            if self.waiting.ends(now) {
                self.flow.resend(now);
            }
            return;
        }
        let silent = self.patience_ends(c).is_some_and(|end| end <= now);
        if self.flow.on_deadline(now) == Some(Timer::Retransmit) || silent {
            ctx.counters.timeouts += 1;
            if !self.waiting.timed_out(now) {
                c.fail_send(ctx, Status::TransportRetryExceeded);
            } else if silent {
                self.heard = now;
                self.probe = c.sends.front().map(|oldest| oldest.first);
            }
        }
    }
}
