//! The protocol engine of RoCE's reliable connection (RC), with go-back-N loss recovery (InfiniBand volume 1, section
//! 9.7).
//!
//! A read takes one PSN for each packet of its response, so that requests and responses share one sequence of PSNs. A
//! response acknowledges all earlier requests. If an ACK acknowledges packets after a read whose response has not
//! arrived, the ACK is an implied NAK of the read: response packets are lost.
//!
//! Where the specification leaves a choice, rnic does the following:
//! - The requester sets the AckReq bit in the last packet of a message, at least in every 16th packet, in every
//!   retransmission, and in the last packet that the window or pacing allow it to send for now.
//! - Only timeouts use up the retries of `retry_count`; a NAK does not, because it shows that the peer is alive. When a
//!   new packet is acknowledged, all retries are restored.
//! - When the peer's credits are used up, the requester sends a message that needs a receive only if no other message
//!   is outstanding. It sends only the first packet of this message until the peer has acknowledged this packet. If the
//!   peer has no receive, its RNR NAKs then set the pace of the retries.
//! - If a requester repeats a read request only for the last packets of the response, the response continues with
//!   Middle packets, as the Linux kernel sends and expects it.
//! - If a time limits the connection's life ([`give_up_after`](crate::SendAttributes::give_up_after)), the
//!   retransmission timeout follows from measured round-trip times, and the ACK timeout is its maximum. After a timeout
//!   the requester sends one packet, and the others when the peer responds.
//! - The first ACK or NAK after a CE-marked packet has BECN set, for congestion controls that respond to echoed marks.

mod reply;
mod requester;
mod responder;
mod timeout;

use super::Inadmissible;
use super::sending::{CnpState, Due};
use crate::common::{Common, Ctx};
use crate::send_queue::packets;
use crate::types::{SendOp, SenderState, Status, VerbsError};
use crate::{Congestion, Dropped};
use requester::Requester;
use responder::Responder;
use rnic_transport::{BitRate, FlowConfig, Psn, Time};
use rnic_wire::{Operation, Packet};

/// State of a queue pair's reliable connection: requester, responder and pending CNPs.
pub(crate) struct Rc {
    requester: Requester,
    pub(super) responder: Responder,
    cnp: CnpState,
    /// Whether the responder is asked for a packet before the requester the next time, so that responses and requests
    /// alternate.
    responses_next: bool,
}

impl Rc {
    pub(crate) fn new(c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time) -> Result<Rc, VerbsError> {
        Ok(Rc {
            requester: Requester::new(c, cfg, congestion, now)?,
            responder: Responder::new(c, cfg, congestion, now)?,
            cnp: CnpState::new(cfg),
            responses_next: false,
        })
    }

    /// RTR to RTS: creates the requester again, with the attributes of this transition (first PSN, timeout, retries).
    pub(crate) fn start(
        &mut self, c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time,
    ) -> Result<(), VerbsError> {
        self.requester = Requester::new(c, cfg, congestion, now)?;
        Ok(())
    }

    /// Called after a change of the connection's attributes: passes the new values to requester and responder.
    pub(crate) fn change(&mut self, c: &Common, cfg: &FlowConfig) {
        self.requester.change(c, cfg);
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

    /// Tells the responder that the connection is in the error state, in which it sends no responses.
    pub(crate) fn quiet(&mut self) {
        self.responder.quiet();
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
        if !c.sends_packets() {
            return Err(Dropped::State);
        }
        let result = match operation {
            Operation::Acknowledge => self.requester.on_acknowledge(c, ctx, now, &packet.headers),
            Operation::ReadResponse | Operation::AtomicAcknowledge => {
                self.cnp.on_packet(ctx, now, marked);
                self.requester.on_response(c, ctx, now, packet)
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

    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, out: &mut [u8]) -> usize {
        if self.cnp.take_due() {
            ctx.counters.cnps_sent += 1;
            return super::cnp(c, out);
        }
        // ACKs and NAKs precede requests; responses and requests alternate.
        let reply_first = !self.responder.responses_next() || self.responses_next;
        self.responses_next = !reply_first;
        for reply in [reply_first, !reply_first] {
            let bytes =
                if reply { self.responder.emit(c, ctx, now, out) } else { self.requester.emit(c, ctx, now, out) };
            if bytes > 0 {
                return bytes;
            }
        }
        0
    }

    /// The time at which the connection can send its next packet; `Time::ZERO` means immediately.
    pub(crate) fn next_transmit(&self, c: &Common) -> Due {
        let mut due = self.responder.next_transmit();
        due.maybe(self.requester.next_transmit(c).time());
        if self.cnp.is_due() {
            due.immediately();
        }
        due
    }

    pub(crate) fn deadline(&self, c: &Common) -> Due {
        let mut due = Due::never();
        due.maybe(self.responder.deadline());
        due.maybe(self.requester.deadline(c));
        due
    }

    pub(crate) fn on_deadline(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time) {
        self.responder.on_deadline(now);
        self.requester.on_deadline(c, ctx, now);
    }

    /// Checks whether RC supports the operation `op` with a message of `len` bytes: a read must not take too many PSNs.
    pub(crate) fn admits(op: &SendOp, len: u32, mtu: u32) -> Result<(), Inadmissible> {
        if matches!(op, SendOp::Read { .. }) && packets(len, mtu) > Psn::MAX_WINDOW / 2 {
            return Err(Inadmissible {
                status: Status::LocalLength,
                error: VerbsError::Unsupported(
                    "a read is at most 4,194,303 packets: more would leave no room in the sequence numbers",
                ),
            });
        }
        Ok(())
    }
}
