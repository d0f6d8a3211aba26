//! What the requesters of RC and of IRN do alike: hand the send queue to the flow, write request packets, take
//! responses, count retries.
//!
//! What depends on the loss recovery stands beside it: which packets an ACK, a NAK or a response acknowledges, and when
//! a requester asks for an ACK, in `rc/requester.rs` and `irn/requester.rs`.

use super::AROUND_PACKET;
use super::sending::{Due, RetryState, SendTimes};
use crate::Dropped;
use crate::common::{Common, Ctx};
use crate::flow::Flow;
use crate::memory::Memory;
use crate::packet::{TxContext, segment};
use crate::send_queue::{SendQueue, Wqe};
use crate::types::{State, Status};
use rnic_transport::recovery::Pick;
use rnic_transport::{BitRate, FlowConfig, Pdu, Psn, Time};
use rnic_wire::{Aeth, Opcode, Packet, Position, RnrTimer, Syndrome};

/// What an ACK or NAK is about, in packets counted from the queue pair's first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Acknowledged {
    /// The packet with the PSN of the ACK or NAK; negative if that is before the first.
    pub(crate) at: i64,
    /// The packets before this one have arrived. An ACK acknowledges the packet with its own PSN and those before it, a
    /// NAK only those before it.
    pub(crate) upto: i64,
}

/// State that the requesters of RC and of IRN share.
pub(crate) struct Core {
    pub(crate) flow: Box<dyn Flow>,
    first: Psn,
    /// Packets acknowledged, counted from the first.
    pub(crate) acked: u64,
    pub(crate) times: SendTimes,
    pub(crate) retry: RetryState,
    /// Sequence number (MSN) of the last message that the peer's credits admit; `None` without end-to-end flow control.
    pub(crate) credit_limit: Option<u32>,
}

impl Core {
    /// The configuration of the flow of requests: that of the queue pair, from its first PSN on.
    pub(crate) fn config(c: &Common, cfg: &FlowConfig) -> FlowConfig {
        FlowConfig { first_psn: Psn::new(c.attributes.send_psn), ..cfg.clone() }
    }

    pub(crate) fn new(c: &Common, cfg: &FlowConfig, flow: Box<dyn Flow>) -> Core {
        Core {
            flow,
            first: cfg.first_psn,
            acked: 0,
            times: SendTimes::new(cfg.bdp_cap),
            retry: RetryState::new(c),
            credit_limit: None,
        }
    }

    pub(crate) fn psn(&self, packet: u64) -> Psn {
        self.first.plus(packet as u32)
    }

    /// The packet with this PSN, near the first unacknowledged; negative for a PSN before the first.
    pub(crate) fn position(&self, psn: u32) -> i64 {
        self.acked as i64 + i64::from(Psn::new(psn).distance_from(self.psn(self.acked)))
    }

    /// One past the last packet that was ever sent.
    pub(crate) fn sent(&self) -> u64 {
        self.acked + u64::from(self.flow.outstanding())
    }

    pub(crate) fn set_rate(&mut self, rate: Option<BitRate>) {
        self.flow.set_rate(rate);
    }

    pub(crate) fn on_cnp(&mut self, now: Time) {
        self.flow.handle(now, Pdu::cnp());
    }

    // The send queue.

    /// Hands sends to the flow while fence, `max_rd_atomic` and credits admit the next one. A send with a fence waits
    /// while `fenced`.
    pub(crate) fn release(&mut self, c: &mut Common, fenced: impl Fn(&SendQueue) -> bool) {
        while c.state == State::ReadyToSend && c.failing().is_none() {
            let Some(wqe) = c.sends.waiting() else { return };
            let held = (wqe.flags.fence && fenced(&c.sends))
                || (wqe.op.is_fetching() && c.sends.fetching() >= u32::from(c.attributes.max_rd_atomic))
                || (wqe.op.takes_receive() && c.sends.lacks_credits(self.credit_limit));
            if held {
                return;
            }
            let packets = c.sends.release(c.init.service, c.route.mtu);
            self.flow.extend(u64::from(packets));
        }
    }

    /// RTS to SQD: only messages that have begun are sent to their end.
    pub(crate) fn drain(&mut self, c: &mut Common) {
        c.sends.hold(self.sent());
        self.flow.truncate(c.sends.next_packet() - self.acked);
    }

    /// The send that `packet` belongs to failed: no packet from `packet` on is sent any more.
    pub(crate) fn fail_at(&mut self, c: &mut Common, ctx: &mut Ctx, packet: u64, status: Status) {
        c.fail_at(ctx, packet, status);
        self.flow.truncate(packet.saturating_sub(self.acked));
    }

    // ACKs, NAKs and responses.

    /// What an ACK or NAK with this PSN is about.
    pub(crate) fn acknowledged(&self, psn: u32, aeth: &Aeth) -> Acknowledged {
        let at = self.position(psn);
        Acknowledged { at, upto: at + i64::from(matches!(aeth.syndrome, Syndrome::Ack { .. })) }
    }

    /// Hands an ACK or NACK to the flow, and completes the sends that it finishes.
    pub(crate) fn advance(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, pdu: Pdu) {
        let progress = self.flow.handle(now, pdu);
        if progress.acked > 0 {
            self.acked += u64::from(progress.acked);
            self.retry.on_progress();
            c.retire(ctx, self.acked);
        }
    }

    /// Credits of an ACK: the peer has receives for so many messages after the last that it has carried out.
    pub(crate) fn on_credits(&mut self, aeth: &Aeth) {
        if let Syndrome::Ack { credits } = aeth.syndrome {
            self.credit_limit = credits.count().map(|count| aeth.msn.wrapping_add(count));
        }
    }

    /// An RNR NAK of packet `upto`, the first unacknowledged: the requester waits, and aborts the send after too many
    /// of them.
    pub(crate) fn on_rnr_nak(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, upto: u64, timer: RnrTimer) {
        ctx.counters.rnr_naks_received += 1;
        self.retry.on_sign_of_life();
        if !self.retry.on_rnr_nak(now, Time::from_us(u64::from(timer.micros()))) {
            self.fail_at(c, ctx, upto, Status::RnrRetryExceeded);
        }
    }

    // Packets out.

    /// Whether request packets may leave: not in an RNR wait, nor in a state that does not send.
    pub(crate) fn may_send(&self, c: &Common) -> bool {
        c.sends_packets() && !self.retry.in_rnr_wait()
    }

    /// The packet that the flow sends next, counted from the first, if it sends one now.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(u64, Pick)> {
        let pick = self.flow.poll(now)?;
        Some((self.acked + u64::from(pick.psn.since(self.psn(self.acked))), pick))
    }

    /// Writes request packet `packet`, a `retransmission` or not, and returns its length in bytes; 0 if its memory is
    /// gone, with which the send fails. `describe` completes the packet's header, given its send and its index therein.
    #[expect(clippy::too_many_arguments, reason = "the packet, its surroundings and the time")]
    pub(crate) fn write(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, packet: u64, retransmission: bool,
        describe: impl FnOnce(&mut Core, &Wqe, u32) -> TxContext, out: &mut [u8],
    ) -> usize {
        let route = c.route;
        let Some(wqe) = c.sends.find(packet) else { return 0 };
        let index = (packet - wqe.first) as u32;
        let tx = describe(self, wqe, index);
        let (writer, offset, len) = route.request(wqe, index, tx, out);
        match writer.end_with(len, |payload| wqe.local.gather(&ctx.memory, offset, payload)) {
            Ok(bytes) => {
                ctx.counters.sent(retransmission, len);
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
        if self.may_send(c) {
            due.maybe(self.flow.next_transmit());
        }
        due
    }

    // Timers.

    /// The end of the RNR wait, or else the flow's next timer.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.retry.rnr_wait_end().or_else(|| self.flow.deadline())
    }

    /// In an RNR wait: whether it is over. Then the flow retransmits from the first unacknowledged packet on. `None`
    /// outside of one.
    pub(crate) fn end_rnr_wait(&mut self, now: Time) -> Option<bool> {
        if !self.retry.in_rnr_wait() {
            return None;
        }
        let over = self.retry.end_rnr_wait(now);
        if over {
            self.flow.resend(now);
        }
        Some(over)
    }

    /// The peer has been silent for a timeout: whether the requester tries again. Else the oldest send fails.
    pub(crate) fn on_timeout(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time) -> bool {
        ctx.counters.timeouts += 1;
        let again = self.retry.on_timeout(now);
        if !again {
            c.fail_send(ctx, Status::TransportRetryExceeded);
        }
        again
    }
}

/// Takes packet `index` of the response that `wqe` waits for, and places its data. `in_place` compares the packet's
/// opcode with its position in the response.
///
/// # Errors
/// The status with which the send fails.
pub(crate) fn take_response(
    wqe: &mut Wqe, memory: &mut Memory, packet: &Packet<'_>, index: u32, mtu: u32,
    in_place: impl FnOnce(Opcode, Position) -> bool,
) -> Result<(), Status> {
    let original = packet.headers.atomic_ack.map(|atomic| atomic.original.to_ne_bytes());
    let (data, fits) = match &original {
        Some(bytes) => (&bytes[..], wqe.op.is_atomic()),
        None => {
            let (position, len) = segment(wqe.len, index, mtu);
            let fits = packet.payload.len() == len as usize && in_place(packet.headers.bth.opcode, position);
            (packet.payload, !wqe.op.is_atomic() && fits)
        }
    };
    if !fits {
        return Err(Status::BadResponse);
    }
    wqe.local.scatter(memory, index * mtu, data).map_err(|_| Status::LocalProtection)?;
    wqe.responses_received += 1;
    Ok(())
}

/// The AETH of an ACK or NAK, which has one.
///
/// # Errors
/// If there is none.
pub(crate) fn aeth(headers: &rnic_wire::Headers) -> Result<Aeth, Dropped> {
    headers.aeth.ok_or(Dropped::Opcode)
}
