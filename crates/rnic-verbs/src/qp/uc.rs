//! The protocol engine of the unreliable connection (UC; InfiniBand volume 1, section 9.8): Sends and Writes without
//! acknowledgements. If a packet of a message is lost, the receiver drops the whole message, and the next message uses
//! the receive of the dropped message.
//!
//! The specification of UC does not provide for reordered or duplicated packets. This receiver treats a packet with a
//! PSN before the expected PSN as reordered or duplicated, and drops it. A PSN after the expected PSN means that
//! packets were lost.

use super::incoming::Incoming;
use super::sending::{CnpState, Due};
use super::spread::Spread;
use crate::common::{Common, Ctx, Refusal};
use crate::flow::Pace;
use crate::packet::TxContext;
use crate::types::{State, Status, VerbsError};
use crate::{Congestion, Dropped};
use rnic_transport::{BitRate, FlowConfig, Psn, Time};
use rnic_wire::Packet;

/// State of a queue pair's unreliable connection.
pub(crate) struct Uc {
    first: Psn,
    /// Number of request packets sent, which is also the number of the next packet to send.
    next: u64,
    /// Number of packets of all send requests that were released for sending so far.
    total: u64,
    pace: Box<dyn Pace>,
    expected: Psn,
    /// The message of which some packets have arrived; `None` between two messages, and while the remaining packets of
    /// a dropped message arrive.
    incoming: Option<Incoming>,
    /// Whether the payload of a packet of the current message was trimmed.
    trimmed: bool,
    /// The messages in progress of a connection whose requests take different paths.
    spread: Option<Spread>,
    cnp: CnpState,
}

impl Uc {
    pub(crate) fn new(c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time) -> Result<Uc, VerbsError> {
        let connection = c.connection.ok_or(VerbsError::Unknown("connection"))?;
        Ok(Uc {
            first: Psn::new(c.attributes.send_psn),
            next: 0,
            total: 0,
            pace: congestion.pace(cfg, now).map_err(VerbsError::Congestion)?,
            expected: Psn::new(connection.recv_psn),
            incoming: None,
            trimmed: false,
            spread: c.extras.spread.then(|| Spread::new(Psn::new(connection.recv_psn))),
            cnp: CnpState::new(cfg),
        })
    }

    pub(crate) fn start(&mut self, c: &Common) {
        self.first = Psn::new(c.attributes.send_psn);
    }

    pub(crate) fn set_rate(&mut self, rate: Option<BitRate>) {
        self.pace.set_rate(rate);
    }

    /// Counts all stored times from an origin that is later by `by`; `now` counts from the new origin.
    pub(crate) fn rebase(&mut self, now: Time, by: Time) {
        self.pace.rebase(now, by);
        self.cnp.rebase(by);
    }

    pub(crate) fn release(&mut self, c: &mut Common, ctx: &mut Ctx) {
        while c.state == State::ReadyToSend
            && let Some(wqe) = c.sends.waiting()
        {
            if wqe.is_local() {
                if c.execute(ctx) {
                    continue;
                }
                return;
            }
            self.total += u64::from(c.sends.release(c.init.service, c.route.mtu));
        }
    }

    /// RTS to SQD: the queue pair finishes the messages of which a packet was sent. All other send requests wait again,
    /// as if they were not released for sending.
    pub(crate) fn drain(&mut self, c: &mut Common) {
        c.sends.hold(self.next);
        self.total = c.sends.next_packet();
    }

    pub(crate) fn on_cnp(&mut self, now: Time) {
        self.pace.on_cnp(now);
    }

    pub(crate) fn handle(
        &mut self, c: &mut Common, ctx: &mut Ctx, now: Time, packet: &Packet<'_>, marked: bool,
    ) -> Result<(), Dropped> {
        let opcode = packet.headers.bth.opcode;
        self.cnp.on_packet(ctx, now, marked);
        let psn = Psn::new(packet.headers.bth.psn);
        let begins = opcode.starts_message();
        if self.spread.is_some() {
            return self.handle_spread(c, ctx, psn, packet);
        }
        if psn.is_before(self.expected) {
            ctx.counters.duplicates += 1;
            return Err(Dropped::Duplicate);
        }
        self.trimmed &= psn == self.expected && !begins;
        if psn != self.expected || begins != self.incoming.is_none() {
            // A packet was lost, so the message in progress is dropped. This packet is dropped too, unless it begins
            // another message.
            self.incoming = None;
            if !begins {
                self.expected = psn.plus(1);
                self.end_trimmed(c, ctx, packet);
                return Err(Dropped::OutOfOrder);
            }
        }
        self.expected = psn.plus(1);
        self.take(c, ctx, packet)
    }

    /// Handles a packet of a connection whose requests take different paths.
    fn handle_spread(&mut self, c: &mut Common, ctx: &mut Ctx, psn: Psn, packet: &Packet<'_>) -> Result<(), Dropped> {
        let Some(spread) = &mut self.spread else { return Err(Dropped::State) };
        if !spread.see(psn) {
            ctx.counters.duplicates += 1;
            return Err(Dropped::Duplicate);
        }
        self.incoming = None;
        if !packet.headers.bth.opcode.starts_message() {
            let Some((message, marked)) = spread.take(psn) else { return Err(Dropped::OutOfOrder) };
            (self.incoming, c.marked) = (Some(message), c.marked || marked);
        }
        let result = self.take(c, ctx, packet);
        if let (Some(message), Some(spread)) = (self.incoming.take(), &mut self.spread) {
            spread.keep(psn.plus(1), message, c.marked);
        }
        result
    }

    /// Handles the headers of a packet whose payload a switch has trimmed. Its message is lost; the completion of its
    /// receive tells so when the message's last packet has arrived, if that has immediate data.
    pub(crate) fn handle_trimmed(&mut self, c: &mut Common, ctx: &mut Ctx, packet: &Packet<'_>) -> Result<(), Dropped> {
        let psn = Psn::new(packet.headers.bth.psn);
        if let Some(spread) = &mut self.spread {
            if spread.see(psn) {
                spread.take(psn);
                // The last packet names the message. A message that lost an earlier packet is not reported.
                self.trimmed = true;
                self.end_trimmed(c, ctx, packet);
                self.trimmed = false;
            }
            return Err(Dropped::Length);
        }
        if psn.is_before(self.expected) {
            ctx.counters.duplicates += 1;
            return Err(Dropped::Duplicate);
        }
        self.expected = psn.plus(1);
        self.incoming = None;
        self.trimmed = true;
        self.end_trimmed(c, ctx, packet);
        Err(Dropped::Length)
    }

    /// If `packet` ends a message that lost payload in a switch and has immediate data: completes its receive.
    fn end_trimmed(&mut self, c: &mut Common, ctx: &mut Ctx, packet: &Packet<'_>) {
        let headers = &packet.headers;
        if self.trimmed && headers.bth.opcode.ends_message() {
            self.trimmed = false;
            if let Some(imm) = headers.imm {
                c.receive_trimmed(ctx, imm.0);
            }
        }
    }

    /// The entropy of the request to which the next packet belongs.
    pub(crate) fn next_entropy(&self, c: &Common) -> Option<u16> {
        (self.next < self.total).then(|| c.sends.entropy(self.next)).flatten()
    }

    fn take(&mut self, c: &mut Common, ctx: &mut Ctx, packet: &Packet<'_>) -> Result<(), Dropped> {
        match Incoming::take(&mut self.incoming, c, ctx, packet) {
            Ok(_) => return Ok(()),
            Err(Refusal::NotReady) => {
                self.incoming = None;
                return Err(Dropped::NoReceive);
            }
            // The receive is at fault: it is too short, or its memory was deregistered. It completes with an error.
            Err(Refusal::Never(_, status @ (Status::LocalLength | Status::LocalProtection))) => {
                c.fail_receive(ctx, status, true);
            }
            Err(Refusal::Never(..)) => {}
        }
        self.incoming = None;
        Err(Dropped::Refused)
    }

    /// Handles an invalid request with this PSN: its message is dropped.
    pub(crate) fn refuse_invalid(&mut self, psn: Psn) {
        if !psn.is_before(self.expected) {
            self.incoming = None;
            self.expected = psn.plus(1);
        }
    }

    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, out: &mut [u8]) -> usize {
        if self.cnp.take_due() {
            ctx.counters.cnps_sent += 1;
            return super::cnp(c, out);
        }
        if !c.sends_packets() || self.next == self.total || self.pace.not_before() > now {
            return 0;
        }
        let packet = self.next;
        let route = c.route;
        let Some(wqe) = c.sends.find(packet) else { return 0 };
        let tx = TxContext { psn: self.first.plus(packet as u32), ask: false, attempt: 0 };
        let (writer, offset, len) = route.request(wqe, (packet - wqe.first) as u32, tx, out);
        match writer.end_with(len, |payload| wqe.local.gather(&ctx.memory, offset, payload)) {
            Ok(bytes) => {
                self.next += 1;
                c.count_sent(ctx, false, len);
                self.pace.sent(now, bytes as u32 + super::AROUND_PACKET, self.next < self.total);
                c.retire(ctx, self.next);
                self.release(c, ctx);
                bytes
            }
            Err(_) => {
                // The memory of the send request was deregistered. The send queue goes into the error state (SQE); the
                // queue pair still receives.
                c.fail_send_queue(ctx, Status::LocalProtection);
                self.next = self.total;
                0
            }
        }
    }

    pub(crate) fn next_transmit(&self, c: &Common) -> Due {
        let mut due = Due::never();
        if self.cnp.is_due() {
            due.immediately();
        }
        if c.sends_packets() && self.next < self.total {
            due.at(self.pace.not_before());
        }
        due
    }

    pub(crate) fn deadline(&self) -> Due {
        let mut due = Due::never();
        due.maybe(self.pace.deadline());
        due
    }

    pub(crate) fn on_deadline(&mut self, now: Time) {
        self.pace.on_deadline(now);
    }
}
