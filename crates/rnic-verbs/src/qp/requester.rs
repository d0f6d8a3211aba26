//! The common part of the requesters of RC and IRN. It hands send requests to the flow (the sender with loss recovery
//! and congestion control), writes request packets, takes responses and counts retries.
//!
//! The parts that depend on the loss recovery are in `rc/requester.rs` and `irn/requester.rs`: which packets an ACK, a
//! NAK or a response acknowledges, and when a requester asks for an ACK. Request packets are numbered; the first
//! request packet of the connection has number 0.

use super::AROUND_PACKET;
use super::sending::{Due, KeepAlive, RetryState, SendTimes};
use crate::Dropped;
use crate::common::{Common, Ctx};
use crate::flow::Flow;
use crate::memory::Memory;
use crate::packet::{TxContext, Writer, segment};
use crate::send_queue::{SendQueue, Wqe};
use crate::types::{SenderState, State, Status};
use rnic_transport::pdu::Stamp;
use rnic_transport::recovery::Pick;
use rnic_transport::{BitRate, FlowConfig, Pdu, Psn, Time};
use rnic_wire::{Aeth, Extra, Opcode, Operation, Packet, Position, Reth, RnrTimer, Syndrome};

/// The request packets that an ACK or NAK refers to, by number; the first request packet of the connection has number
/// 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Acknowledged {
    /// Number of the packet that has the PSN of the ACK or NAK; negative if this PSN is before the PSN of the first
    /// packet.
    pub(crate) at: i64,
    /// Number of the first packet that is not acknowledged. An ACK acknowledges the packet with its own PSN and all
    /// earlier packets; a NAK acknowledges only the earlier packets.
    pub(crate) upto: i64,
}

/// State that the requesters of RC and of IRN share.
pub(crate) struct Core {
    pub(crate) flow: Box<dyn Flow>,
    first: Psn,
    /// Number of acknowledged request packets, which is also the number of the first unacknowledged packet.
    pub(crate) acked: u64,
    pub(crate) times: SendTimes,
    pub(crate) retry: RetryState,
    pub(crate) keep_alive: KeepAlive,
    /// Message sequence number (MSN) of the last message that the peer's end-to-end credits admit; `None`: the peer's
    /// ACKs carry no credits.
    pub(crate) credit_limit: Option<u32>,
    /// Number of packets of the last released message that the flow does not have yet: a message without credits is
    /// sent packet by packet, until the peer has taken its first packet.
    withheld: u32,
}

impl Core {
    /// The configuration of the flow of requests: the queue pair's configuration, with this side's first PSN.
    pub(crate) fn config(c: &Common, cfg: &FlowConfig) -> FlowConfig {
        FlowConfig { first_psn: Psn::new(c.attributes.send_psn), ..cfg.clone() }
    }

    pub(crate) fn new(c: &Common, cfg: &FlowConfig, flow: Box<dyn Flow>, now: Time) -> Core {
        Core {
            flow,
            first: cfg.first_psn,
            acked: 0,
            times: SendTimes::new(cfg.bdp_cap),
            retry: RetryState::new(c, now),
            keep_alive: KeepAlive::new(c, cfg.timeouts),
            credit_limit: None,
            withheld: 0,
        }
    }

    pub(crate) fn psn(&self, packet: u64) -> Psn {
        self.first.plus(packet as u32)
    }

    /// The number of the request packet with this PSN. PSNs repeat after 2^24 packets; of the packets with this PSN,
    /// the function chooses the nearest to the first unacknowledged packet. The number is negative for a PSN before the
    /// PSN of the first packet.
    pub(crate) fn position(&self, psn: u32) -> i64 {
        self.acked as i64 + i64::from(Psn::new(psn).distance_from(self.psn(self.acked)))
    }

    /// The number of request packets that were ever sent, which is also the number of the next new packet.
    pub(crate) fn sent(&self) -> u64 {
        self.acked + u64::from(self.flow.outstanding())
    }

    /// Called after a change of the connection's attributes: sets the maximum numbers of retries after timeouts and
    /// after RNR NAKs, and restores all retries.
    pub(crate) fn change(&mut self, c: &Common) {
        self.retry.change(c);
    }

    /// Counts all stored times from an origin that is later by `by`; `now` counts from the new origin.
    pub(crate) fn rebase(&mut self, now: Time, by: Time) {
        self.flow.rebase(now, by);
        self.retry.rebase(by);
        self.keep_alive.rebase(by);
    }

    /// The state of the sender, with a round-trip time that the caller has measured.
    pub(crate) fn sender_state(&self, rtt: Option<Time>) -> SenderState {
        SenderState { window: self.flow.window(), in_flight: self.flow.in_flight(), rate: self.flow.rate(), rtt }
    }

    pub(crate) fn set_rate(&mut self, rate: Option<BitRate>) {
        self.flow.set_rate(rate);
    }

    pub(crate) fn on_cnp(&mut self, now: Time) {
        self.flow.handle(now, Pdu::cnp());
    }

    // The send queue.

    /// Releases posted send requests to the flow, which may then send their packets, as long as the fence,
    /// `max_rd_atomic` and the peer's credits allow the next request. A request with the fence flag waits while
    /// `fenced` returns true.
    pub(crate) fn release(&mut self, c: &mut Common, ctx: &mut Ctx, fenced: impl Fn(&SendQueue) -> bool) {
        if self.withheld > 0
            && (self.acked + u64::from(self.withheld) >= c.sends.next_packet()
                || !c.sends.lacks_last_credit(self.credit_limit))
        {
            self.flow.extend(u64::from(std::mem::take(&mut self.withheld)));
        }
        while self.withheld == 0 && c.state == State::ReadyToSend && c.failing().is_none() {
            let Some(wqe) = c.sends.waiting() else { return };
            if wqe.is_local() {
                if c.execute(ctx) {
                    continue;
                }
                return;
            }
            let held = (wqe.flags.fence && fenced(&c.sends))
                || (wqe.op.is_fetching() && c.sends.fetching() >= u32::from(c.attributes.max_rd_atomic))
                || (wqe.op.takes_receive() && c.sends.lacks_credits(self.credit_limit));
            if held {
                return;
            }
            let takes_receive = wqe.op.takes_receive();
            let packets = c.sends.release(c.init.service, c.route.mtu);
            if takes_receive && packets > 1 && c.sends.lacks_last_credit(self.credit_limit) {
                self.withheld = packets - 1;
            }
            self.flow.extend(u64::from(packets - self.withheld));
        }
    }

    /// RTS to SQD: the queue pair finishes the messages of which a packet was sent. All other send requests wait again,
    /// as if they were not released to the flow.
    pub(crate) fn drain(&mut self, c: &mut Common) {
        c.sends.hold(self.sent());
        if c.sends.released() == 0 {
            self.withheld = 0;
        }
        self.flow.truncate(c.sends.next_packet() - self.acked);
    }

    /// Fails the send request to which packet number `packet` belongs. The flow forgets all packets from `packet` on.
    pub(crate) fn fail_at(&mut self, c: &mut Common, ctx: &mut Ctx, packet: u64, status: Status) {
        c.fail_at(ctx, packet, status);
        self.flow.truncate(packet.saturating_sub(self.acked));
    }

    // ACKs, NAKs and responses.

    /// The request packets that an ACK or NAK with this PSN and AETH refers to.
    pub(crate) fn acknowledged(&self, psn: u32, aeth: &Aeth) -> Acknowledged {
        let at = self.position(psn);
        Acknowledged { at, upto: at + i64::from(matches!(aeth.syndrome, Syndrome::Ack { .. })) }
    }

    /// Hands the ACK or NACK `pdu` to the flow, and completes the send requests that it acknowledges.
    pub(crate) fn advance(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, pdu: Pdu) {
        let progress = self.flow.handle(now, pdu);
        if progress.acked > 0 {
            self.acked += u64::from(progress.acked);
            self.on_progress(now);
            c.retire(ctx, self.acked);
        }
    }

    /// Called when the arrival of a packet that departed at `stamp` is known. If the retransmission of the first
    /// missing packet departed before, it is lost, too, because the network keeps the order; if it does not, an
    /// additional retransmission is the only harm.
    pub(crate) fn detect_second_loss(&mut self, stamp: Stamp) {
        let first = self.psn(self.acked);
        if self.flow.outstanding() > 0 && self.times.is_retransmitted_before(first, stamp) {
            self.flow.lost_again();
        }
    }

    /// Called when the peer has acknowledged a packet, or sent a response packet, for the first time.
    pub(crate) fn on_progress(&mut self, now: Time) {
        self.retry.on_progress(now);
        self.keep_alive.on_response();
    }

    /// Stores the end-to-end credits of an ACK: for how many messages after the AETH's MSN the peer has posted
    /// receives.
    pub(crate) fn on_credits(&mut self, aeth: &Aeth) {
        if let Syndrome::Ack { credits } = aeth.syndrome {
            self.credit_limit = credits.count().map(|count| aeth.msn.wrapping_add(count));
        }
    }

    /// Handles an RNR NAK for packet number `upto`, the first unacknowledged packet. The requester waits for the time
    /// of `timer` before it retries. If no retry is left, the packet's send request fails.
    pub(crate) fn on_rnr_nak(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, upto: u64, timer: RnrTimer) {
        ctx.counters.rnr_naks_received += 1;
        self.retry.on_sign_of_life(now);
        if !self.retry.on_rnr_nak(now, Time::from_us(u64::from(timer.micros()))) {
            self.fail_at(c, ctx, upto, Status::RnrRetryExceeded);
        }
    }

    // Sent packets.

    /// Whether request packets may be sent now: the queue pair's state allows it, and no RNR NAK keeps the requester
    /// waiting.
    pub(crate) fn may_send(&self, c: &Common) -> bool {
        c.sends_packets() && !self.retry.in_rnr_wait()
    }

    /// Asks the flow for the request packet to send now; returns the packet's number, and the flow's answer with PSN
    /// and retransmission flag. `None`: no packet may be sent now.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(u64, Pick)> {
        let pick = self.flow.poll(now)?;
        Some((self.acked + u64::from(pick.psn.since(self.psn(self.acked))), pick))
    }

    /// Writes request packet number `packet` into `out` and returns its length in bytes. If the memory of the request
    /// was deregistered, the request fails and the result is 0. The function calls `describe` with the send request and
    /// the packet's index in it, and gets the header fields of this transmission.
    #[expect(clippy::too_many_arguments, reason = "the packet, its surroundings and the time")]
    pub(crate) fn write(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, packet: u64, retransmission: bool,
        describe: impl FnOnce(&mut Core, &Wqe, u32) -> TxContext, out: &mut [u8],
    ) -> usize {
        let route = c.route;
        if !retransmission && c.sends.oldest_packet() == Some(packet) && !self.keep_alive.is_waiting() {
            self.retry.on_wait_begins(now);
        }
        let Some(wqe) = c.sends.find(packet) else { return 0 };
        let index = (packet - wqe.first) as u32;
        let tx = describe(self, wqe, index);
        let (writer, offset, len) = route.request(wqe, index, tx, out);
        match writer.end_with(len, |payload| wqe.local.gather(&ctx.memory, offset, payload)) {
            Ok(bytes) => {
                c.count_sent(ctx, retransmission, len);
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
            if self.keep_alive.is_due() {
                due.immediately();
            }
        }
        due
    }

    /// Writes a probe into `out` if one is due, and returns its length in bytes; 0 if none is due. The probe is a Write
    /// of 0 bytes with the PSN of the last packet, which is a duplicate for the peer; the peer acknowledges it.
    pub(crate) fn emit_probe(&mut self, c: &Common, out: &mut [u8]) -> usize {
        if !self.keep_alive.take_due() {
            return 0;
        }
        let psn = self.psn(self.sent()).plus(Psn::MODULUS - 1);
        let mut bth = c.route.bth(Operation::Write, Position::Only, Extra::None, psn.value());
        bth.ack_request = true;
        let mut writer = Writer::begin(&bth, 0, out);
        writer.put(&Reth { va: 0, rkey: 0, dma_len: 0 }.emit());
        writer.end()
    }

    // Timers.

    /// The time of the requester's next timer: the end of the wait after an RNR NAK, or else the earliest of the flow's
    /// next timer, the end of the patience with a silent peer, and the next probe.
    pub(crate) fn deadline(&self, c: &Common) -> Option<Time> {
        if let Some(end) = self.retry.rnr_wait_end() {
            return Some(end);
        }
        let mut due = Due::never();
        due.maybe(self.flow.deadline());
        due.maybe(self.gives_up_at(c));
        due.maybe(self.probes_at(c));
        due.time()
    }

    /// Whether packets of the oldest send request were sent, so that the peer owes a response.
    fn is_outstanding(&self, c: &Common) -> bool {
        c.sends.oldest_packet().is_some_and(|oldest| oldest < self.sent())
    }

    /// The time at which the requester gives up the peer if no response arrives.
    fn gives_up_at(&self, c: &Common) -> Option<Time> {
        let at = self.retry.gives_up_at()?;
        (self.keep_alive.is_waiting() || self.is_outstanding(c)).then_some(at)
    }

    /// The time at which the requester, which is idle, probes whether the peer is alive.
    fn probes_at(&self, c: &Common) -> Option<Time> {
        let at = self.keep_alive.next(self.retry.silent_since())?;
        (c.sends_packets() && !self.is_outstanding(c)).then_some(at)
    }

    /// Gives up the peer if it has been silent for too long, and makes a probe due if it is time for one. Returns
    /// whether the queue pair continues.
    pub(crate) fn on_silence(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time) -> bool {
        if self.gives_up_at(c).is_some_and(|at| at <= now) {
            c.fail_send(ctx, Status::TransportRetryExceeded);
            return false;
        }
        if self.probes_at(c).is_some_and(|at| at <= now) {
            if !self.keep_alive.is_waiting() {
                self.retry.on_wait_begins(now);
            } else if !self.on_timeout(c, ctx) {
                return false;
            }
            self.keep_alive.probe(now);
        }
        true
    }

    /// Ends the wait after an RNR NAK if its time has come, and lets the flow retransmit from the first unacknowledged
    /// packet on. Returns whether the wait has ended; `None` if the requester was not waiting.
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

    /// Handles a retransmission timeout, which uses up a retry. Returns whether the requester retries; if no retry is
    /// left, the oldest send request fails.
    pub(crate) fn on_timeout(&mut self, c: &mut Common, ctx: &mut Ctx) -> bool {
        ctx.counters.timeouts += 1;
        let again = self.retry.on_timeout();
        if !again {
            c.fail_send(ctx, Status::TransportRetryExceeded);
        }
        again
    }
}

/// Handles packet `index` of the response for which the send request `wqe` waits, and places its data in the request's
/// local memory. `in_place` says whether an opcode fits a packet's position in the response.
///
/// # Errors
/// The status with which the send request fails.
pub(crate) fn take_response(
    wqe: &mut Wqe, memory: &mut Memory, packet: &Packet<'_>, index: u32,
    in_place: impl FnOnce(Opcode, Position) -> bool,
) -> Result<(), Status> {
    let original = packet.headers.atomic_ack.map(|atomic| atomic.original.to_ne_bytes());
    let (data, fits) = match &original {
        Some(bytes) => (&bytes[..], wqe.op.is_atomic()),
        None => {
            let (position, len) = segment(wqe.len, index, wqe.payload);
            let fits = packet.payload.len() == len as usize && in_place(packet.headers.bth.opcode, position);
            (packet.payload, !wqe.op.is_atomic() && fits)
        }
    };
    if !fits {
        return Err(Status::BadResponse);
    }
    wqe.local.scatter(memory, index * wqe.payload, data).map_err(|_| Status::LocalProtection)?;
    wqe.responses_received += 1;
    Ok(())
}

/// Returns the AETH of a received ACK or NAK.
///
/// # Errors
/// [`Dropped::Opcode`] if the packet has no AETH.
pub(crate) fn aeth(headers: &rnic_wire::Headers) -> Result<Aeth, Dropped> {
    headers.aeth.ok_or(Dropped::Opcode)
}
