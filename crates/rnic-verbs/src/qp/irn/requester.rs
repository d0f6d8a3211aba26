//! The requester of an IRN connection. It sends requests, and receives the responses to reads and atomics. Requests and
//! responses have separate sequences of PSNs.

use super::acks::{Acknowledgements, Cause, run};
use crate::common::{Common, Ctx, status_of};
use crate::packet::TxContext;
use crate::qp::requester::{Acknowledged, Core, aeth, take_response};
use crate::qp::sending::Due;
use crate::types::{SenderState, VerbsError};
use crate::{Congestion, Dropped};
use rnic_transport::pdu::Stamp;
use rnic_transport::recovery::{Arrival, Irn, StreamReceiver};
use rnic_transport::{BitRate, FlowConfig, Pdu, Psn, Receiver, RxMeta, Time, Timer};
use rnic_wire::{Headers, NakCode, Packet, Syndrome};

pub(crate) struct Requester {
    core: Core,
    response_cfg: FlowConfig,
    responses: Receiver<Irn>,
    /// Number of the response packet that is expected next; the first response packet of the connection has number 0.
    next_response: u64,
    pub(crate) response_acks: Acknowledgements,
    /// Time of arrival of the last packet that shows that the peer is alive: an ACK, a NAK or a new response.
    heard: Time,
    /// Number of a request packet that is to be retransmitted to find out whether the peer is alive, while only
    /// responses are outstanding; `None` if no such retransmission is due.
    probe: Option<u64>,
    /// Smoothed round-trip time in nanoseconds; 0 before the first measurement.
    rtt_ns: u32,
}

impl Requester {
    pub(crate) fn new(
        c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time,
    ) -> Result<Requester, VerbsError> {
        let connection = c.connection.ok_or(VerbsError::Unknown("connection"))?;
        let cfg = Core::config(c, cfg);
        let flow = congestion.irn(&cfg, now).map_err(VerbsError::Congestion)?;
        // The receiver's window is the peer's limit of packets in flight, which may exceed this side's.
        // The queue pair decides when to send CNPs (`CnpState`), so the receiver sends none.
        let response_cfg = FlowConfig { bdp_cap: connection.peer_in_flight, cnp_interval: None, ..cfg.clone() };
        Ok(Requester {
            core: Core::new(c, &cfg, flow, now),
            responses: Receiver::stream(&response_cfg, now),
            response_cfg,
            next_response: 0,
            response_acks: Acknowledgements::default(),
            heard: now,
            probe: None,
            rtt_ns: 0,
        })
    }

    /// The state of the sender of requests.
    pub(crate) fn sender_state(&self) -> SenderState {
        self.core.sender_state((self.rtt_ns > 0).then(|| Time::from_ns(self.rtt_ns.into())))
    }

    /// Adds a measured round-trip time, of a packet that departed at `stamp`, with weight 1/8.
    #[inline]
    fn measure(&mut self, now: Time, stamp: Stamp) {
        let ns = (stamp.elapsed(now).as_ps() / 1_000) as u32;
        let apart = ns.wrapping_sub(self.rtt_ns) as i32;
        self.rtt_ns = if self.rtt_ns == 0 { ns } else { self.rtt_ns.wrapping_add_signed(apart >> 3) };
    }

    /// The PSN of the response packet that is expected next.
    pub(crate) fn expected(&self) -> Psn {
        self.responses.recovery().expected()
    }

    /// Releases posted send requests to the flow, the sender that transmits their packets. A request with the fence
    /// flag waits until all earlier requests are complete.
    pub(crate) fn release(&mut self, c: &mut Common, ctx: &mut Ctx) {
        self.core.release(c, ctx, |sends| sends.released() > 0);
    }

    pub(crate) fn drain(&mut self, c: &mut Common) {
        self.core.drain(c);
    }

    pub(crate) fn change(&mut self, c: &Common) {
        self.core.change(c);
    }

    pub(crate) fn rebase(&mut self, now: Time, by: Time) {
        self.core.rebase(now, by);
        self.heard = self.heard.rebased(by);
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
            // After a send request has failed, the flow has forgotten all packets from this request on. An ACK of a
            // forgotten packet shows that all packets before them have arrived.
            let pdu = Pdu::ack(self.core.psn(sent), stamp(&self.core, Psn::new(sack.psn)));
            self.core.advance(c, ctx, now, pdu);
            return Ok(());
        }
        if upto < self.core.acked as i64 {
            return self.on_late_nak(c, ctx, at, aeth.syndrome);
        }
        self.heard = now;
        if self.core.flow.outstanding() == 0 {
            self.core.retry.on_sign_of_life(now);
            if self.core.keep_alive.on_response() {
                // No packet was acknowledged, so no round-trip time follows.
                self.core.on_credits(&aeth);
                return Ok(());
            }
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
            let departed = stamp(&self.core, Psn::new(sack.psn));
            self.measure(now, departed);
            self.core.advance(c, ctx, now, Pdu::ack(first, departed).with_mark_echo(headers.bth.becn));
        }
        self.core.detect_second_loss(stamp(&self.core, Psn::new(sack.psn)));
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

    /// Handles a NAK for packet `at`, which is already acknowledged. If the packet is a read or atomic request whose
    /// response is still outstanding, a NAK that ends the connection fails the request. Any other NAK is stale.
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
            let sent = self.core.sent();
            let Some(wqe) = c.sends.find_response(response).filter(|wqe| wqe.first < sent) else {
                return Err(Dropped::Stale);
            };
            let index = (response - wqe.first_response) as u32;
            let request = wqe.first;
            let in_place = |opcode: rnic_wire::Opcode, position| opcode.position() == position;
            if let Err(status) = take_response(wqe, &mut ctx.memory, packet, index, in_place) {
                self.core.fail_at(c, ctx, request, status);
                return Ok(());
            }
            self.heard = now;
            self.core.on_progress(now);
            if request >= self.core.acked {
                // The response shows that its request has arrived, and all earlier requests.
                let upto = c.failing().map_or(request + 1, |failing| failing.min(request + 1));
                let stamp = self.core.times.sent_at(self.core.psn(request), 0);
                if self.core.times.is_sent_once(self.core.psn(request)) {
                    self.measure(now, stamp);
                }
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

    /// Writes the next request packet into `out` and returns its length in bytes; 0 if there is no packet to send now.
    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, out: &mut [u8]) -> usize {
        if !self.core.may_send(c) {
            return 0;
        }
        let probe = self.core.emit_probe(c, out);
        if probe > 0 {
            return probe;
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

    /// The time at which the requester retransmits its oldest request to probe the peer, if no sign of life of the peer
    /// arrives before. It is the long timeout (`RTO_high`) after the last sign of life, or after the last such probe.
    /// `None` unless only responses are outstanding: otherwise the retransmission timer detects a silent peer.
    fn patience_ends(&self, c: &Common) -> Option<Time> {
        let timeouts = self.response_cfg.timeouts?;
        let oldest_waits = |oldest: &crate::send_queue::Wqe| oldest.op.is_fetching() && oldest.end() <= self.core.acked;
        let waits = c.sends.front().is_some_and(oldest_waits) && self.core.flow.outstanding() == 0 && c.sends_packets();
        waits.then_some(self.heard + timeouts.high)
    }

    pub(crate) fn deadline(&self, c: &Common) -> Due {
        let mut due = Due::never();
        due.maybe(self.core.deadline(c));
        if !self.core.retry.in_rnr_wait() {
            due.maybe(self.patience_ends(c));
        }
        due
    }

    pub(crate) fn on_deadline(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time) {
        if self.core.end_rnr_wait(now).is_some() {
            return;
        }
        if !self.core.on_silence(c, ctx, now) {
            return;
        }
        let silent = self.patience_ends(c).is_some_and(|end| end <= now);
        let timed_out = self.core.flow.on_deadline(now) == Some(Timer::Retransmit);
        if timed_out || silent {
            let again = self.core.on_timeout(c, ctx);
            if again && silent {
                self.heard = now;
                self.probe = c.sends.front().map(|oldest| oldest.first);
            }
        }
    }
}
