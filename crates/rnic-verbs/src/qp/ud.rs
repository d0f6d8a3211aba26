//! The protocol engine of unreliable datagrams (UD; InfiniBand volume 1, section 9.8.3): each message is one packet,
//! which goes to any queue pair and is not acknowledged.
//!
//! Everybody can send to a UD queue pair, so nothing that arrives changes the state of the queue pair, makes it send,
//! or ends it: a datagram is placed into a posted receive, or it is dropped and counted.

use super::sending::Due;
use crate::common::{Common, Ctx, Delivery};
use crate::flow::Pace;
use crate::packet::{Route, Writer};
use crate::qp::Inadmissible;
use crate::queue::reserve;
use crate::types::{
    AddressHandle, DatagramAttributes, GRH_LEN, NetworkHeader, Recipient, SendOp, Source, State, Status, VerbsError,
};
use crate::{Congestion, Dropped};
use rnic_transport::congestion::{NoCongestionControl, Settings};
use rnic_transport::{BitRate, FlowConfig, Psn, Time};
use rnic_wire::{Deth, Extra, ImmDt, Operation, Packet, Position};
use std::collections::VecDeque;

/// Why a UD queue pair cannot be connected.
pub(crate) const NO_CONNECTION: &str =
    "a UD queue pair has no peer: it goes to RTR by ReceiveDatagrams, and each send request names its recipient";

/// State of a UD queue pair.
pub(crate) struct Ud {
    attributes: DatagramAttributes,
    first: Psn,
    /// Number of packets sent, which is also the number of the next packet to send.
    next: u64,
    /// Number of send requests that were released for sending so far.
    total: u64,
    /// Keeps the rate that the application has set. Datagrams have no congestion control.
    pace: Box<dyn Pace>,
    /// The recipients of the requests in the send queue, in the same order; `None` for a request that cannot be
    /// executed. Requests that were flushed may have left their recipients at the front ([`Ud::forget`]).
    recipients: VecDeque<Option<Recipient>>,
}

impl Ud {
    pub(crate) fn new(
        c: &Common, attributes: DatagramAttributes, cfg: &FlowConfig, now: Time,
    ) -> Result<Ud, VerbsError> {
        let mut recipients = VecDeque::new();
        reserve(&mut recipients, c.init.capacities.send_wr, "send queue")?;
        let congestion = Congestion::of::<NoCongestionControl>(Settings::new(&[]));
        Ok(Ud {
            attributes,
            first: Psn::new(c.attributes.send_psn),
            next: 0,
            total: 0,
            pace: congestion.pace(cfg, now).map_err(VerbsError::Congestion)?,
            recipients,
        })
    }

    /// Checks whether UD supports the operation, for a message of `len` bytes.
    pub(crate) fn admits(op: &SendOp, len: u32, mtu: u32) -> Result<(), Inadmissible> {
        if !matches!(op, SendOp::Send | SendOp::SendImm(_)) {
            return Err(Inadmissible::operation("a UD queue pair has Send and Send with Immediate, and nothing else"));
        }
        // In the error state after RESET there is no MTU, and requests are flushed.
        if mtu > 0 && len > mtu {
            let possible = format!("0 to {mtu} bytes, the path MTU, because a datagram is one packet");
            return Err(Inadmissible::length(len.into(), possible));
        }
        Ok(())
    }

    pub(crate) fn attributes(&self) -> DatagramAttributes {
        self.attributes
    }

    pub(crate) fn set_qkey(&mut self, qkey: u32) {
        self.attributes.qkey = qkey;
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
    }

    /// Forgets the recipients of send requests that have left the queue.
    fn forget(&mut self, c: &Common) {
        let done = self.recipients.len().saturating_sub(c.sends.len());
        self.recipients.drain(..done);
    }

    /// A send request to this recipient will be appended to the send queue.
    pub(crate) fn address(&mut self, c: &Common, to: Option<Recipient>) {
        self.forget(c);
        self.recipients.push_back(to);
    }

    pub(crate) fn release(&mut self, c: &mut Common, ctx: &mut Ctx) {
        while c.state == State::ReadyToSend
            && let Some(wqe) = c.sends.waiting()
        {
            if wqe.is_local() {
                // It fails, and with it the send queue, unless earlier datagrams are still to be sent.
                c.execute(ctx);
                return;
            }
            self.total += u64::from(c.sends.release(c.init.service, c.route.mtu));
        }
    }

    /// RTS to SQD: no request is under way, so all send requests wait.
    pub(crate) fn drain(&mut self, c: &mut Common) {
        c.sends.hold(self.next);
        self.total = c.sends.next_packet();
    }

    fn has_packet(&self, c: &Common) -> bool {
        c.sends_packets() && self.next < self.total
    }

    /// The path of the next packet; `None` if there is no packet to send.
    pub(crate) fn path(&self, c: &Common) -> Option<AddressHandle> {
        self.recipients.front().filter(|_| self.has_packet(c))?.map(|to| to.path)
    }

    /// Places a received datagram into the oldest receive: the network header, and the payload after it.
    pub(crate) fn handle(
        &mut self, c: &mut Common, ctx: &mut Ctx, packet: &Packet<'_>, from: &NetworkHeader,
    ) -> Result<(), Dropped> {
        let deth = packet.headers.deth.ok_or(Dropped::Opcode)?;
        if deth.qkey != self.attributes.qkey {
            return Err(Dropped::QKey);
        }
        let receive = c.receive(ctx, 0, false).ok_or(Dropped::NoReceive)?;
        let bytes = GRH_LEN + packet.payload.len() as u32;
        if u64::from(bytes) > receive.room {
            return Err(Dropped::Length);
        }
        let grh = from.grh(packet.len());
        let placed = ctx.memory.scatter(&receive.scatter, 0, &grh);
        if placed.and_then(|()| ctx.memory.scatter(&receive.scatter, GRH_LEN, packet.payload)).is_err() {
            // The application has deregistered the memory of the receive.
            c.fail_receive(ctx, Status::LocalProtection, true);
            return Err(Dropped::Refused);
        }
        let delivery = Delivery {
            bytes,
            imm: packet.headers.imm.map(|imm| imm.0),
            solicited: packet.headers.bth.solicited,
            source: Some(Source::new(from.source, deth.src_qp)),
            ..Delivery::default()
        };
        c.received(ctx, &delivery);
        Ok(())
    }

    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx, now: Time, out: &mut [u8]) -> usize {
        if !self.has_packet(c) || self.pace.not_before() > now {
            return 0;
        }
        let packet = self.next;
        let (qpn, route) = (c.qpn, c.route);
        let (Some(Some(to)), Some(wqe)) = (self.recipients.front().copied(), c.sends.find(packet)) else { return 0 };
        let imm = match wqe.op {
            SendOp::SendImm(imm) => Some(ImmDt(imm)),
            _ => None,
        };
        let extra = if imm.is_some() { Extra::Immediate } else { Extra::None };
        let psn = self.first.plus(packet as u32).value();
        let mut bth = Route { peer_qpn: to.qpn.0, ..route }.bth(Operation::Send, Position::Only, extra, psn);
        bth.solicited = wqe.flags.solicited;
        let controlled = to.qkey >> 31 == 1;
        let qkey = if controlled { self.attributes.qkey } else { to.qkey };
        let len = wqe.len;
        let mut writer = Writer::begin(&bth, len, out);
        writer.put(&Deth { qkey, src_qp: qpn.0 }.emit());
        if let Some(imm) = imm {
            writer.put(&imm.emit());
        }
        let bytes = match writer.end_with(len, |payload| wqe.local.gather(&ctx.memory, 0, payload)) {
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
        };
        self.forget(c);
        bytes
    }

    pub(crate) fn next_transmit(&self, c: &Common) -> Due {
        let mut due = Due::never();
        if self.has_packet(c) {
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
