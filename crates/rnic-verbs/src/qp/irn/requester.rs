//! The requester of an IRN connection: sends requests, receives responses, each with PSNs of their own.

use super::acks::{Acknowledgements, Cause, run};
use crate::common::{Common, Ctx, status_of};
use crate::packet::TxContext;
use crate::qp::requester::{Acknowledged, Core, aeth, take_response};
use crate::qp::sending::Due;
use crate::types::VerbsError;
use crate::{Congestion, Dropped};
use rnic_transport::recovery::{Arrival, Irn, StreamReceiver};
use rnic_transport::{BitRate, FlowConfig, Pdu, Psn, Receiver, RxMeta, Time, Timer};
use rnic_wire::{Headers, NakCode, Packet, Syndrome};

pub(crate) struct Requester {
    core: Core,
    response_cfg: FlowConfig,
    responses: Receiver<Irn>,
    /// The response packet that is expected next, counted from the first.
    next_response: u64,
    pub(crate) response_acks: Acknowledgements,
    /// When the last packet of the peer arrived.
    heard: Time,
    /// The first packet of a request whose response is outstanding: it is sent once more, to see whether the peer still
    /// lives.
    probe: Option<u64>,
}

impl Requester {
    pub(crate) fn new(
        c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time,
    ) -> Result<Requester, VerbsError> {
        let cfg = Core::config(c, cfg);
        let flow = congestion.irn(&cfg, now).map_err(VerbsError::Congestion)?;
        // A peer may have more in flight than this side. CNPs are up to the queue pair, not to the receiver.
        let response_cfg = FlowConfig { bdp_cap: crate::MAX_IN_FLIGHT, cnp_interval: None, ..cfg.clone() };
        Ok(Requester {
            core: Core::new(c, &cfg, flow),
            responses: Receiver::stream(&response_cfg, now),
            response_cfg,
            next_response: 0,
            response_acks: Acknowledgements::default(),
            heard: now,
            probe: None,
        })
    }

    /// The PSN of the response packet that is expected next.
    pub(crate) fn expected(&self) -> Psn {
        self.responses.recovery().expected()
    }

    /// Hands sends to the flow. A fence waits for everything before it.
    pub(crate) fn release(&mut self, c: &mut Common) {
        self.core.release(c, |sends| sends.released() > 0);
    }

    pub(crate) fn drain(&mut self, c: &mut Common) {
        self.core.drain(c);
    }

    pub(crate) fn set_rate(&mut self, rate: Option<BitRate>) {
        self.core.set_rate(rate);
    }

    pub(crate) fn on_cnp(&mut self, now: Time) {
        self.core.on_cnp(now);
    }

    pub(crate) fn on_acknowledge(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, headers: &Headers,
    ) -> Result<(), Dropped> {
        let (aeth, sack) = (aeth(headers)?, headers.sack.ok_or(Dropped::Opcode)?);
        let Acknowledged { at, upto } = self.core.acknowledged(headers.bth.psn, &aeth);
        let sent = self.core.sent();
        let stamp = |core: &Core, psn| core.times.sent_at(psn, headers.bth.attempt);
        if at >= sent as i64 {
            if c.failing().is_none() {
                return Err(Dropped::Stale);
            }
            // The flow has forgotten the packets after a failed send; that one of them arrived says that all before
            // them did.
            let pdu = Pdu::ack(self.core.psn(sent), stamp(&self.core, Psn::new(sack.psn)));
            self.core.advance(c, ctx, now, pdu);
            return Ok(());
        }
        if upto < self.core.acked as i64 {
            return self.on_late_nak(c, ctx, at, aeth.syndrome);
        }
        self.heard = now;
        if self.core.flow.outstanding() == 0 {
            self.core.retry.on_sign_of_life();
        }
        let upto = upto as u64;
        let first = self.core.psn(upto);
        if let Syndrome::Nak(NakCode::PsnSequenceError) = aeth.syndrome {
            ctx.counters.naks_received += 1;
            for cause in run(&sack) {
                let pdu = Pdu::nack(first, cause, stamp(&self.core, cause));
                self.core.advance(c, ctx, now, pdu.with_mark_echo(headers.bth.becn));
            }
        } else {
            let pdu = Pdu::ack(first, stamp(&self.core, Psn::new(sack.psn)));
            self.core.advance(c, ctx, now, pdu.with_mark_echo(headers.bth.becn));
        }
        self.core.on_credits(&aeth);
        match aeth.syndrome {
            Syndrome::RnrNak { timer } if self.core.acked == upto => {
                self.core.on_rnr_nak(c, ctx, now, upto, timer);
            }
            Syndrome::Nak(code) if code != NakCode::PsnSequenceError => {
                self.core.fail_at(c, ctx, upto, status_of(code));
            }
            _ => {}
        }
        Ok(())
    }

    /// A NAK of an acknowledged packet is news only if the packet asks for a response that is outstanding.
    fn on_late_nak(&mut self, c: &mut Common, ctx: &mut Ctx, at: i64, syndrome: Syndrome) -> Result<(), Dropped> {
        match (syndrome, u64::try_from(at)) {
            (Syndrome::Nak(code), Ok(packet))
                if code != NakCode::PsnSequenceError && c.sends.find(packet).is_some_and(|wqe| !wqe.has_response()) =>
            {
                self.core.fail_at(c, ctx, packet, status_of(code));
                Ok(())
            }
            _ => Err(Dropped::Stale),
        }
    }

    pub(crate) fn on_response(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, packet: &Packet<'_>, marked: bool,
    ) -> Result<(), Dropped> {
        let psn = Psn::new(packet.headers.bth.psn);
        let expected = self.expected();
        let new = matches!(self.responses.recovery().foresee(psn), Arrival::InOrder | Arrival::Ahead);
        if new {
            let response = self.next_response + u64::from(psn.since(expected));
            let (mtu, sent) = (c.route.mtu, self.core.sent());
            let Some(wqe) = c.sends.find_response(response).filter(|wqe| wqe.first < sent) else {
                return Err(Dropped::Stale);
            };
            let index = (response - wqe.first_response) as u32;
            let request = wqe.first;
            let in_place = |opcode: rnic_wire::Opcode, position| opcode.position() == position;
            if let Err(status) = take_response(wqe, &mut ctx.memory, packet, index, mtu, in_place) {
                self.core.fail_at(c, ctx, request, status);
                return Ok(());
            }
            self.heard = now;
            self.core.retry.on_progress();
            if request >= self.core.acked {
                // The request has arrived, and all before it.
                let upto = c.failing().map_or(request + 1, |failing| failing.min(request + 1));
                let stamp = self.core.times.sent_at(self.core.psn(request), 0);
                self.core.advance(c, ctx, now, Pdu::ack(self.core.psn(upto), stamp));
            }
        }
        let outcome = self.responses.handle(&self.response_cfg, now, Pdu::data(psn, false, now), RxMeta::default());
        self.response_acks.note(outcome.reply, Cause::new(&packet.headers.bth, marked));
        self.next_response += u64::from(self.expected().since(expected));
        c.retire(ctx, self.core.acked);
        if new {
            Ok(())
        } else {
            ctx.counters.duplicates += 1;
            Err(Dropped::Duplicate)
        }
    }

    /// Writes the next request packet; 0 if there is none for now.
    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, out: &mut [u8]) -> usize {
        if !self.core.may_send(c) {
            return 0;
        }
        let (packet, psn, again) = match self.probe.take() {
            Some(packet) => (packet, self.core.psn(packet), true),
            None => {
                let Some((packet, pick)) = self.core.poll(now) else { return 0 };
                (packet, pick.psn, pick.retransmission)
            }
        };
        let describe = |core: &mut Core, _: &_, _| {
            let attempt = core.times.record(psn, again, now);
            TxContext { psn, ask: true, attempt }
        };
        self.core.write(c, ctx, now, packet, again, describe, out)
    }

    pub(crate) fn next_transmit(&self, c: &Common) -> Due {
        let mut due = self.core.next_transmit(c);
        if self.probe.is_some() && self.core.may_send(c) {
            due.immediately();
        }
        due
    }

    /// When the peer has been silent for too long, if nothing but responses is outstanding: no timer of the flow would
    /// notice then.
    fn patience_ends(&self, c: &Common) -> Option<Time> {
        let timeouts = self.response_cfg.timeouts?;
        let oldest_waits = |oldest: &crate::send_queue::Wqe| oldest.op.is_fetching() && oldest.end() <= self.core.acked;
        let waits = c.sends.front().is_some_and(oldest_waits) && self.core.flow.outstanding() == 0 && c.sends_packets();
        waits.then_some(self.heard + timeouts.high)
    }

    pub(crate) fn deadline(&self, c: &Common) -> Due {
        let mut due = Due::never();
        due.maybe(self.core.deadline());
        if !self.core.retry.in_rnr_wait() {
            due.maybe(self.patience_ends(c));
        }
        due
    }

    pub(crate) fn on_deadline(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time) {
        if self.core.end_rnr_wait(now).is_some() {
            return;
        }
        let silent = self.patience_ends(c).is_some_and(|end| end <= now);
        let timed_out = self.core.flow.on_deadline(now) == Some(Timer::Retransmit);
        if timed_out || silent {
            let again = self.core.on_timeout(c, ctx, now);
            if again && silent {
                self.heard = now;
                self.probe = c.sends.front().map(|oldest| oldest.first);
            }
        }
    }
}
