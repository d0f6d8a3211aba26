//! The protocol engine of a reliable connection with IRN's loss recovery ("Revisiting Network Support for RDMA",
//! SIGCOMM 2018, section 5).
//!
//! Both ends place the payload of packets in memory on arrival, also of packets out of order. Requests and responses
//! have separate PSN sequences:
//!
//! | | requests | responses (to reads and atomics) |
//! |---|---|---|
//! | sent by | requester: [`IrnSender`](rnic_transport::recovery::IrnSender) | responder: [`IrnSender`](rnic_transport::recovery::IrnSender) |
//! | received by | responder: [`IrnReceiver`](rnic_transport::recovery::IrnReceiver) | requester: [`IrnReceiver`](rnic_transport::recovery::IrnReceiver) |
//! | acknowledged by | Acknowledge | Read Acknowledge |
//!
//! The first request of a side and the first response to its requests have the same PSN.
//!
//! - Every packet of a Write carries the memory address of its payload. Every packet of a Send carries the payload's
//!   offset in the message, and the sequence number of the receive that the message consumes. So the responder can
//!   place each payload in memory on arrival.
//! - The responder completes messages in order: it generates a completion, increments the MSN, or executes a read or
//!   atomic only when all earlier packets have arrived. Only then does it check that each packet continues the message
//!   where the previous packet ended. In the paper a second bitmap marks the packets that end messages; here a buffer
//!   (`ReorderBuffer`) holds the headers of packets that arrived out of order.
//! - If a packet out of order needs a receive that is not posted, or an access that is not allowed, the responder drops
//!   the packet, as if the network had lost it. If such a packet arrives in order, the responder sends an RNR NAK or a
//!   NAK, as with RC. The NAK ends the connection, so it waits until the peer has acknowledged the responses to all
//!   earlier requests: a queue pair in the error state sends no responses.
//! - A response acknowledges its request. A read or atomic request with sequence number `n` acknowledges the responses
//!   to all reads and atomics up to number `n - max_rd_atomic`, because the requester must have these responses before
//!   it may send request `n`. So if the ACK of a request or response is lost, a timeout is seldom necessary.
//! - A requester that waits only for responses has no packet in flight, so its retransmission timer does not run. If no
//!   packet of the peer arrives for the long timeout (`RTO_high`), the requester retransmits its oldest request. The
//!   peer's ACK then shows that the peer is alive.
//! - An ACK or NAK that a CE-marked packet triggers has BECN set.

mod acks;
mod request;
mod requester;
mod responder;

use super::sending::{CnpState, Due};
use crate::common::{Common, Ctx};
use crate::packet::Writer;
use crate::types::{SenderState, VerbsError};
use crate::{Congestion, Dropped};
use acks::Cause;
use requester::Requester;
use responder::Responder;
use rnic_transport::{BitRate, FlowConfig, Psn, Time};
use rnic_wire::{Aeth, NakCode, Operation, Packet, RnrTimer, Syndrome};

/// State of a queue pair's IRN connection: requester, responder and pending CNPs.
pub(crate) struct Irn {
    requester: Requester,
    pub(super) responder: Responder,
    cnp: CnpState,
    /// Whether the responder was asked for a packet before the requester the last time. The order alternates, so that
    /// responses and requests alternate.
    responses_next: bool,
}

impl Irn {
    pub(crate) fn new(c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time) -> Result<Irn, VerbsError> {
        Ok(Irn {
            requester: Requester::new(c, cfg, congestion, now)?,
            responder: Responder::new(c, cfg, congestion, now)?,
            cnp: CnpState::new(cfg),
            responses_next: false,
        })
    }

    /// RTR to RTS: creates the requester again, with the attributes of this transition (first PSN, retries).
    pub(crate) fn start(
        &mut self, c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time,
    ) -> Result<(), VerbsError> {
        self.requester = Requester::new(c, cfg, congestion, now)?;
        self.responder.start(c);
        Ok(())
    }

    /// Called after a change of the connection's attributes: passes the new values to requester and responder.
    pub(crate) fn change(&mut self, c: &Common) {
        self.requester.change(c);
        self.responder.change(c);
    }

    /// The state of the sender of requests.
    pub(crate) fn sender_state(&self) -> SenderState {
        self.requester.sender_state()
    }

    pub(crate) fn set_rate(&mut self, rate: Option<BitRate>) {
        self.requester.set_rate(rate);
        self.responder.set_rate(rate);
    }

    /// Counts all stored times from an origin that is later by `by`; `now` counts from the new origin.
    pub(crate) fn rebase(&mut self, now: Time, by: Time) {
        self.requester.rebase(now, by);
        self.responder.rebase(now, by);
        self.cnp.rebase(by);
    }

    pub(crate) fn release(&mut self, c: &mut Common, ctx: &mut Ctx) {
        self.requester.release(c, ctx);
    }

    pub(crate) fn drain(&mut self, c: &mut Common) {
        self.requester.drain(c);
    }

    /// Handles a received packet of the connection.
    pub(crate) fn handle(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, packet: &Packet<'_>, marked: bool,
    ) -> Result<(), Dropped> {
        let operation = packet.headers.bth.opcode.operation();
        if operation.is_request() {
            self.cnp.on_packet(ctx, now, marked);
            return self.responder.handle(c, ctx, now, packet, marked);
        }
        match operation {
            Operation::ReadAcknowledge => return self.responder.on_read_acknowledge(c, ctx, now, &packet.headers),
            _ if !c.sends_packets() => return Err(Dropped::State),
            _ => {}
        }
        let result = match operation {
            Operation::Acknowledge => self.requester.on_acknowledge(c, ctx, now, &packet.headers),
            Operation::ReadResponse | Operation::AtomicAcknowledge => {
                self.cnp.on_packet(ctx, now, marked);
                self.requester.on_response(c, ctx, now, packet, marked)
            }
            _ => return Err(Dropped::Opcode),
        };
        self.requester.release(c, ctx);
        result
    }

    /// Handles a CNP: both the requests and the responses of the queue pair may have caused it.
    pub(crate) fn on_cnp(&mut self, now: Time) {
        self.requester.on_cnp(now);
        self.responder.on_cnp(now);
    }

    fn emit_control(&mut self, c: &mut Common, ctx: &mut Ctx, out: &mut [u8]) -> usize {
        if self.cnp.take_due() {
            ctx.counters.cnps_sent += 1;
            return super::cnp(c, out);
        }
        const LOST: Syndrome = Syndrome::Nak(NakCode::PsnSequenceError);
        let msn = self.responder.msn();
        let mut acknowledge = |operation, psn: Psn, syndrome, cause: Cause, msn| {
            let mut bth = c.route.only(operation, psn.value());
            bth.becn = cause.marked;
            bth.attempt = cause.attempt;
            let mut writer = Writer::begin(&bth, 0, out);
            writer.put(&Aeth { syndrome, msn }.emit());
            writer.put(&cause.sack().emit());
            writer.end()
        };
        let last = |expected: Psn| expected.plus(Psn::MODULUS - 1);
        let expected = self.responder.expected();
        if let Some((nack, cause)) = self.responder.acks.next(expected) {
            if nack {
                ctx.counters.naks_sent += 1;
                return acknowledge(Operation::Acknowledge, expected, LOST, cause, msn);
            }
            ctx.counters.acks_sent += 1;
            let credits = c.credits();
            return acknowledge(Operation::Acknowledge, last(expected), credits, cause, msn);
        }
        if let Some(psn) = self.responder.not_ready.take() {
            ctx.counters.rnr_naks_sent += 1;
            let timer = RnrTimer::from_code(c.connection.map_or(0, |connection| connection.min_rnr_timer));
            return acknowledge(Operation::Acknowledge, psn, Syndrome::RnrNak { timer }, Cause::of(psn), msn);
        }
        let expected = self.requester.expected();
        if let Some((nack, cause)) = self.requester.response_acks.next(expected) {
            if nack {
                ctx.counters.naks_sent += 1;
                return acknowledge(Operation::ReadAcknowledge, expected, LOST, cause, 0);
            }
            ctx.counters.acks_sent += 1;
            let (ack, upto) = (Syndrome::ACK, last(expected));
            return acknowledge(Operation::ReadAcknowledge, upto, ack, cause, 0);
        }
        if let Some((psn, code)) = self.responder.refusal.take() {
            ctx.counters.naks_sent += 1;
            return acknowledge(Operation::Acknowledge, psn, Syndrome::Nak(code), Cause::of(psn), msn);
        }
        0
    }

    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, out: &mut [u8]) -> usize {
        let bytes = self.emit_control(c, ctx, out);
        if bytes > 0 || !c.receives_packets() {
            return bytes;
        }
        let response_first = !self.responses_next;
        self.responses_next = response_first;
        for answer in [response_first, !response_first] {
            let bytes =
                if answer { self.responder.emit(c, ctx, now, out) } else { self.requester.emit(c, ctx, now, out) };
            if bytes > 0 {
                return bytes;
            }
        }
        0
    }

    /// The time at which the connection can send its next packet; `Time::ZERO` means immediately.
    pub(crate) fn next_transmit(&self, c: &Common) -> Due {
        let mut due = self.responder.next_transmit(c);
        due.maybe(self.requester.next_transmit(c).time());
        if self.cnp.is_due() || self.requester.response_acks.is_due() {
            due.immediately();
        }
        due
    }

    pub(crate) fn deadline(&self, c: &Common) -> Due {
        let mut due = self.requester.deadline(c);
        due.maybe(self.responder.deadline());
        due
    }

    pub(crate) fn on_deadline(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time) {
        self.responder.on_deadline(c, ctx, now);
        if c.sends_packets() {
            self.requester.on_deadline(c, ctx, now);
        }
    }
}
