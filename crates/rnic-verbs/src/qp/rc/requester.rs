//! The requester of a reliable connection (InfiniBand volume 1, section 9.7.5).

use super::timeout::{Probe, RttTimeout};
use crate::common::{Common, Ctx, status_of};
use crate::packet::TxContext;
use crate::qp::requester::{Acknowledged, Core, aeth, take_response};
use crate::qp::sending::Due;
use crate::types::{SenderState, VerbsError};
use crate::{Congestion, Dropped};
use rnic_transport::pdu::Stamp;
use rnic_transport::{BitRate, FlowConfig, Pdu, PduKind, Time, Timer};
use rnic_wire::{Headers, NakCode, Packet, Position, Syndrome};

pub(crate) struct Requester {
    core: Core,
    /// Number of the missing response packet for which the flow has already handled an implied NAK (an ACK of packets
    /// after the missing one), so that it retransmits only once.
    implied: Option<u64>,
    /// Number of packets sent since the last packet that asked for an ACK (BTH bit A).
    unasked: u32,
    /// The last measured round-trip time. It serves as an estimate for all response packets of a read except the first:
    /// no request packet was sent with their PSNs, so their round-trip time cannot be measured.
    rtt: Time,
    /// The timeout from round-trip times; `None`: the timeout is the connection's ACK timeout.
    timeout: Option<RttTimeout>,
    probe: Probe,
}

impl Requester {
    /// Maximum interval, in packets, between two packets that ask for an ACK.
    const ASK_EVERY: u32 = 16;

    pub(crate) fn new(
        c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time,
    ) -> Result<Requester, VerbsError> {
        let cfg = Core::config(c, cfg);
        let flow = congestion.go_back_n(&cfg, now).map_err(VerbsError::Congestion)?;
        let mut requester = Requester {
            core: Core::new(c, &cfg, flow, now),
            implied: None,
            unasked: 0,
            rtt: cfg.base_rtt,
            timeout: RttTimeout::new(c, &cfg),
            probe: Probe::None,
        };
        requester.apply_timeout();
        Ok(requester)
    }

    /// Passes a changed timeout to the flow.
    fn apply_timeout(&mut self) {
        if let Some(timeouts) = self.timeout.as_mut().and_then(RttTimeout::changed) {
            self.core.flow.set_timeouts(Some(timeouts));
        }
    }

    /// Measures the round-trip time of the packet with number `packet`, whose response has just arrived.
    fn measure(&mut self, now: Time, packet: u64) {
        let psn = self.core.psn(packet);
        if let Some(timeout) = self.timeout.as_mut().filter(|_| self.core.times.is_sent_once(psn)) {
            timeout.sample(self.core.times.last_sent(psn).elapsed(now));
            self.apply_timeout();
        }
    }

    /// The state of the sender of requests.
    pub(crate) fn sender_state(&self) -> SenderState {
        let last = || (self.core.acked > 0).then_some(self.rtt);
        self.core.sender_state(self.timeout.as_ref().map_or_else(last, RttTimeout::smoothed))
    }

    /// Releases posted send requests to the flow, the sender that transmits their packets. A request with the fence
    /// flag waits until all earlier reads and atomics are complete.
    pub(crate) fn release(&mut self, c: &mut Common, ctx: &mut Ctx) {
        self.core.release(c, ctx, |sends| sends.fetching() > 0);
    }

    pub(crate) fn drain(&mut self, c: &mut Common) {
        self.core.drain(c);
    }

    pub(crate) fn change(&mut self, c: &Common, cfg: &FlowConfig) {
        self.core.change(c);
        self.core.flow.set_timeouts(cfg.timeouts);
        self.timeout = RttTimeout::new(c, cfg).map(|new| new.continued(self.timeout.as_ref()));
        self.apply_timeout();
    }

    pub(crate) fn rebase(&mut self, now: Time, by: Time) {
        self.core.rebase(now, by);
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
        let aeth = aeth(headers)?;
        let Acknowledged { at, upto } = self.core.acknowledged(headers.bth.psn, &aeth);
        if upto < self.core.acked as i64 || at >= self.core.sent() as i64 {
            return Err(Dropped::Stale);
        }
        let upto = upto as u64;
        let echo = headers.bth.becn;
        self.probe = Probe::None;
        self.core.on_credits(&aeth);
        if self.core.keep_alive.on_response() {
            self.core.retry.on_sign_of_life(now);
        }
        if upto == self.core.acked && matches!(aeth.syndrome, Syndrome::Ack { .. }) && !echo {
            // Only the credits are new. The packet before was acknowledged long ago, so no round-trip time follows.
            return Ok(());
        }
        match aeth.syndrome {
            Syndrome::Ack { .. } => {
                if upto > self.core.acked {
                    self.measure(now, upto - 1);
                }
                self.advance(c, ctx, now, upto, PduKind::Ack, echo);
            }
            Syndrome::Nak(NakCode::PsnSequenceError) => {
                ctx.counters.naks_received += 1;
                self.advance(c, ctx, now, upto, PduKind::Nack, echo);
            }
            Syndrome::RnrNak { timer } => {
                self.advance(c, ctx, now, upto, PduKind::Ack, echo);
                if self.core.acked == upto {
                    self.core.on_rnr_nak(c, ctx, now, upto, timer);
                }
            }
            Syndrome::Nak(code) => {
                self.advance(c, ctx, now, upto, PduKind::Ack, echo);
                self.core.fail_at(c, ctx, upto, status_of(code));
            }
        }
        Ok(())
    }

    /// Handles the acknowledgement of all packets before packet number `upto`; a NACK also asks for a retransmission
    /// from `upto` on. If the response to an earlier read or atomic is missing, the packets from this response on
    /// remain unacknowledged.
    fn advance(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, upto: u64, kind: PduKind, echo: bool) {
        let stamp = self.core.times.last_sent(self.core.psn(upto.saturating_sub(1)));
        self.advance_with(c, ctx, now, upto, kind, stamp, echo);
    }

    /// Like [`Requester::advance`]. `stamp` is the time when the acknowledged packet was sent, for the measurement of
    /// the round-trip time.
    #[expect(clippy::too_many_arguments, reason = "what an acknowledgement says")]
    fn advance_with(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, upto: u64, kind: PduKind, stamp: Stamp, echo: bool,
    ) {
        self.rtt = stamp.elapsed(now);
        let upto = c.failing().map_or(upto, |failing| upto.min(failing));
        let missing = c.sends.awaiting_response().map(|wqe| wqe.first + u64::from(wqe.responses_received));
        let psn = |packet| self.core.psn(packet);
        let pdu = match missing {
            Some(missing) if missing < upto => {
                if self.implied == Some(missing) {
                    Pdu::ack(psn(missing), stamp)
                } else {
                    self.implied = Some(missing);
                    ctx.counters.implied_naks += 1;
                    Pdu::nack(psn(missing), psn(upto), stamp)
                }
            }
            _ if kind == PduKind::Nack => Pdu::nack(psn(upto), psn(upto), stamp),
            _ => Pdu::ack(psn(upto), stamp),
        };
        self.core.advance(c, ctx, now, pdu.with_mark_echo(echo));
    }

    pub(crate) fn on_response(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, packet: &Packet<'_>,
    ) -> Result<(), Dropped> {
        let at = self.core.position(packet.headers.bth.psn);
        let sent = self.core.sent();
        let Some(wqe) = c.sends.awaiting_response() else { return Err(Dropped::Stale) };
        let expected = wqe.first + u64::from(wqe.responses_received);
        if at < expected as i64 || at as u64 >= sent {
            return Err(Dropped::Stale);
        }
        self.probe = Probe::None;
        if at as u64 != expected {
            // This is a later response packet than expected, so the packets before it are lost.
            let stamp = Stamp::before(now, self.rtt);
            self.advance_with(c, ctx, now, at as u64, PduKind::Ack, stamp, false);
            return Err(Dropped::OutOfOrder);
        }
        // A resumed response begins with a Middle packet, so the first packet of a response may have position First or
        // Middle.
        let in_place = |opcode: rnic_wire::Opcode, position| {
            opcode.ends_message() == matches!(position, Position::Last | Position::Only)
        };
        let index = wqe.responses_received;
        if let Some(aeth) = packet.headers.aeth {
            self.core.on_credits(&aeth);
        }
        if let Err(status) = take_response(wqe, &mut ctx.memory, packet, index, in_place) {
            // The response also acknowledges all packets before it.
            let stamp = Stamp::before(now, self.rtt);
            self.advance_with(c, ctx, now, expected, PduKind::Ack, stamp, false);
            self.core.fail_at(c, ctx, expected, status);
            return Ok(());
        }
        let stamp = if index == 0 {
            self.measure(now, expected);
            self.core.times.last_sent(self.core.psn(expected))
        } else {
            Stamp::before(now, self.rtt)
        };
        self.advance_with(c, ctx, now, expected + 1, PduKind::Ack, stamp, false);
        Ok(())
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
        if self.probe == Probe::Sent {
            return 0;
        }
        let Some((packet, pick)) = self.core.poll(now) else { return 0 };
        if self.probe == Probe::Due {
            self.probe = Probe::Sent;
        }
        let unasked = &mut self.unasked;
        let describe = |core: &mut Core, wqe: &crate::send_queue::Wqe, index: u32| {
            let mut ends = index + 1 == wqe.packets;
            if wqe.op.is_fetching() {
                core.flow.claim(wqe.packets - index - 1);
                ends = true;
            }
            *unasked += 1;
            let ask =
                ends || pick.retransmission || *unasked >= Requester::ASK_EVERY || core.flow.next_transmit().is_none();
            if ask {
                *unasked = 0;
            }
            core.times.record(pick.psn, pick.retransmission, now);
            TxContext { psn: pick.psn, ask, attempt: 0 }
        };
        self.core.write(c, ctx, now, packet, pick.retransmission, describe, out)
    }

    pub(crate) fn next_transmit(&self, c: &Common) -> Due {
        if self.probe == Probe::Sent { Due::never() } else { self.core.next_transmit(c) }
    }

    pub(crate) fn deadline(&self, c: &Common) -> Option<Time> {
        self.core.deadline(c)
    }

    pub(crate) fn on_deadline(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time) {
        match self.core.end_rnr_wait(now) {
            Some(true) => self.implied = None,
            Some(false) => {}
            None => {
                if self.core.on_silence(c, ctx, now) && self.core.flow.on_deadline(now) == Some(Timer::Retransmit) {
                    self.implied = None;
                    if let Some(timeout) = &mut self.timeout {
                        timeout.back_off();
                        self.probe = Probe::Due;
                        self.apply_timeout();
                    }
                    self.core.on_timeout(c, ctx);
                }
            }
        }
    }
}
