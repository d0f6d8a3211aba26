//! A queue pair: the state that is the same for all transport services, and a protocol engine, which is the state of
//! the queue pair's own service (RC, IRN, UC or UD).

mod atomic;
mod incoming;
pub(crate) mod irn;
mod offer;
pub(crate) mod rc;
mod requester;
pub(crate) mod sending;
mod spread;
pub(crate) mod uc;
pub(crate) mod ud;

use crate::batch::{AROUND_PAYLOAD, Destination};
use crate::common::{Common, Ctx, MAX_MESSAGE};
use crate::send_queue::Wqe;
use crate::types::{
    DatagramAttributes, NetworkHeader, QpChange, Qpn, Recipient, SendOp, Service, State, Status, VerbsError,
};
use crate::{Congestion, Dropped};
use offer::{Answer, Offer, Outcome};
use rnic_transport::{BitRate, FlowConfig, Psn, Time};
use rnic_wire::{Operation, Packet, ProtectedHeader};
use sending::Due;

/// Number of bytes around a RoCEv2 packet that congestion control and rate limits count too: Ethernet, IPv4 and UDP
/// headers, and the frame check sequence.
pub(crate) const AROUND_PACKET: u32 = 14 + 20 + 8 + 4;

/// Maximum number of packets in flight on a connection: the size of an IRN receiver's bitmap of arrived packets.
pub const MAX_IN_FLIGHT: u32 = 8_192;

/// Time after the last packet that a queue pair sent for which it heeds CNPs. A packet, its CNP and the peer's delay
/// between them take less.
const CNP_LIFETIME: Time = Time::from_ms(100);

/// Writes a congestion notification packet (CNP) for the peer; returns its length in bytes.
pub(crate) fn cnp(c: &Common, out: &mut [u8]) -> usize {
    let packet = Packet::cnp(c.route.peer_qpn);
    let bytes = packet.emit_without_icrc(out);
    out[bytes..bytes + rnic_wire::ICRC_LEN].fill(0);
    bytes + rnic_wire::ICRC_LEN
}

/// The flow of the packets of a request with this entropy: from it follows their UDP source port.
fn spread_flow(qpn: Qpn, entropy: u16) -> u32 {
    // A multiplicative hash, so that consecutive entropies differ in all bits.
    (qpn.0 << 8 ^ u32::from(entropy)).wrapping_mul(0x9e37_79b1)
}

/// Why a queue pair cannot execute a send request.
#[derive(Debug)]
pub(crate) struct Inadmissible {
    /// The status with which the request completes, if the device refuses it as late as NICs do
    /// ([`late_checks`](crate::DeviceConfig::late_checks)).
    pub(crate) status: Status,
    /// The error of the verb, if the device refuses the request when it is posted.
    pub(crate) error: VerbsError,
}

impl Inadmissible {
    /// The transport service or the connection lacks the operation.
    fn operation(why: &'static str) -> Inadmissible {
        Inadmissible { status: Status::LocalQpOperation, error: VerbsError::Unsupported(why) }
    }

    /// The length `value` does not fit.
    fn length(value: u64, possible: String) -> Inadmissible {
        let error = VerbsError::Range { name: "the length", value, possible: possible.into() };
        Inadmissible { status: Status::LocalLength, error }
    }
}

/// The protocol engine of a queue pair; `None` before the queue pair is connected (UD: before
/// it receives).
pub(crate) enum Engine {
    None,
    Rc(Box<rc::Rc>),
    Irn(Box<irn::Irn>),
    Uc(Box<uc::Uc>),
    Ud(Box<ud::Ud>),
    /// The queue pair is connected and has not decided between RC and IRN.
    Offer(Box<Offer>),
}

/// A queue pair of a device.
pub(crate) struct Qp {
    pub(crate) common: Common,
    pub(crate) engine: Engine,
    pub(crate) congestion: Congestion,
    pub(crate) cfg: FlowConfig,
    /// Limit on the sending rate that the application has set; `None`: only the link limits the rate.
    pub(crate) rate: Option<BitRate>,
    /// Whether the queue pair is in `Device::ready`, the ring of queue pairs that may have packets to send.
    pub(crate) ready: bool,
    /// Time of the queue pair's entry in the device's timers; `None` if it has no entry.
    pub(crate) armed: Option<Time>,
    /// When the queue pair last sent a packet.
    pub(crate) last_sent: Option<Time>,
    /// When a received CNP last took effect.
    pub(crate) last_cnp: Option<Time>,
    /// The answer to the peer's Offer of IRN that is to be sent now; `None` without one.
    pub(crate) answer: Option<Answer>,
}

impl Qp {
    /// INIT to RTR: creates the protocol engine of the queue pair's service.
    pub(crate) fn connect(&mut self, now: Time) -> Result<(), VerbsError> {
        let c = &self.common;
        self.engine = match c.init.service {
            Service::Rc => Engine::Rc(Box::new(rc::Rc::new(c, &self.cfg, &self.congestion, now)?)),
            Service::Irn => Engine::Irn(Box::new(irn::Irn::new(c, &self.cfg, &self.congestion, now)?)),
            Service::Uc => Engine::Uc(Box::new(uc::Uc::new(c, &self.cfg, &self.congestion, now)?)),
            Service::Ud => return Err(VerbsError::Unsupported(ud::NO_CONNECTION)),
        };
        self.set_rate(self.rate);
        Ok(())
    }

    /// INIT to RTR of a queue pair that may use RC or IRN, with the settings `irn` for IRN: offers IRN to the peer.
    pub(crate) fn offer(&mut self, irn: FlowConfig, now: Time) {
        self.engine = Engine::Offer(Box::new(Offer::new(irn, now)));
    }

    /// Decides between RC and IRN.
    #[cold]
    fn agree(&mut self, service: Service, ctx: &mut Ctx, now: Time) {
        let Engine::Offer(offer) = std::mem::replace(&mut self.engine, Engine::None) else { return };
        if service == Service::Irn {
            self.cfg = offer.irn;
        }
        self.common.init.service = service;
        self.common.route.service = service;
        let begins = self.common.sends_packets();
        let begun = self.connect(now).and_then(|()| if begins { self.begin(now) } else { Ok(()) });
        match begun {
            Ok(()) => self.release(ctx),
            // The settings were checked when the queue pair was connected.
            Err(_) => self.common.fail(ctx, Status::LocalQpOperation),
        }
    }

    /// Handles an Offer of IRN.
    #[cold]
    fn on_offer(&mut self, ctx: &mut Ctx, now: Time, packet: &Packet<'_>) -> Result<(), Dropped> {
        match &mut self.engine {
            Engine::Offer(offer) => {
                if let Outcome::Agreed(service, answer) = offer.handle(&self.common, now, packet)? {
                    self.answer = answer;
                    self.agree(service, ctx, now);
                }
                Ok(())
            }
            Engine::None | Engine::Uc(_) | Engine::Ud(_) => Err(Dropped::Opcode),
            Engine::Rc(_) | Engine::Irn(_) => {
                self.answer = offer::answer(&self.common, self.common.init.service, packet)?;
                Ok(())
            }
        }
    }

    /// INIT to RTR of a UD queue pair: creates its protocol engine.
    pub(crate) fn receive_datagrams(&mut self, attributes: DatagramAttributes, now: Time) -> Result<(), VerbsError> {
        self.engine = Engine::Ud(Box::new(ud::Ud::new(&self.common, attributes, &self.cfg, now)?));
        self.set_rate(self.rate);
        // Datagrams come from anyone, so no datagram shows that a peer is connected.
        self.common.established = true;
        Ok(())
    }

    /// Attributes of a UD queue pair in state RTR or later.
    pub(crate) fn datagrams(&self) -> Option<DatagramAttributes> {
        match &self.engine {
            Engine::Ud(ud) => Some(ud.attributes()),
            _ => None,
        }
    }

    /// Appends a send request to the send queue; `to` is the recipient of a datagram.
    pub(crate) fn push(&mut self, ctx: &mut Ctx, wqe: Wqe, to: Option<Recipient>) {
        if let Engine::Ud(ud) = &mut self.engine {
            ud.address(&self.common, to);
        }
        self.common.sends.push(wqe);
        self.release(ctx);
    }

    /// The destination of the next packet; `None` if the queue pair has none.
    pub(crate) fn destination(&self) -> Option<Destination> {
        let c = &self.common;
        let qpn = c.qpn;
        let around = AROUND_PAYLOAD + ProtectedHeader::OVERHEAD;
        if let Engine::Ud(ud) = &self.engine {
            let path = ud.path(c)?;
            let longest = c.route.mtu as usize + around;
            let (peer, dscp, flow) = (path.peer, path.dscp, path.flow);
            return Some(Destination { qpn, flow, peer, dscp, ecn: false, protected: false, longest });
        }
        let connection = c.connection.as_ref()?;
        Some(Destination {
            qpn,
            flow: self.path_of_next().map_or(qpn.0, |entropy| spread_flow(qpn, entropy)),
            peer: connection.peer,
            dscp: connection.dscp,
            ecn: self.common.extras.ecn || self.congestion.marks(&self.cfg),
            protected: connection.protected,
            longest: connection.path_mtu as usize + around,
        })
    }

    /// Whether each packet has a destination or a path of its own.
    pub(crate) fn is_datagram(&self) -> bool {
        matches!(self.engine, Engine::Ud(_)) || self.common.extras.spread
    }

    /// The entropy of the next packet's request; `None` if all packets take the queue pair's own path.
    fn path_of_next(&self) -> Option<u16> {
        match &self.engine {
            Engine::Uc(uc) if self.common.extras.spread => uc.next_entropy(&self.common),
            _ => None,
        }
    }

    /// Handles a packet whose payload a switch has trimmed.
    pub(crate) fn handle_trimmed(&mut self, ctx: &mut Ctx, packet: &Packet<'_>) -> Result<(), Dropped> {
        match &mut self.engine {
            Engine::Uc(uc) => uc.handle_trimmed(&mut self.common, ctx, packet),
            _ => Err(Dropped::Length),
        }
    }

    /// RTR to RTS: the protocol engine may send requests from now on.
    pub(crate) fn start(&mut self, ctx: &mut Ctx, now: Time) -> Result<(), VerbsError> {
        self.begin(now)?;
        self.common.state = State::ReadyToSend;
        if let Engine::Offer(offer) = &mut self.engine {
            offer.start(&self.common);
        }
        self.release(ctx);
        Ok(())
    }

    /// Lets the protocol engine send requests, with the attributes of the transition to RTS.
    fn begin(&mut self, now: Time) -> Result<(), VerbsError> {
        match &mut self.engine {
            Engine::None => return Err(VerbsError::Unknown("connection")),
            Engine::Rc(rc) => rc.start(&self.common, &self.cfg, &self.congestion, now)?,
            Engine::Irn(irn) => irn.start(&self.common, &self.cfg, &self.congestion, now)?,
            Engine::Uc(uc) => uc.start(&self.common),
            Engine::Ud(ud) => ud.start(&self.common),
            Engine::Offer(_) => {}
        }
        self.set_rate(self.rate);
        Ok(())
    }

    /// Limits the rate at which the queue pair sends. The limit is set after the congestion control was created:
    /// otherwise the congestion control would take the limit for the link's rate, although it may be raised later.
    pub(crate) fn set_rate(&mut self, rate: Option<BitRate>) {
        self.rate = rate;
        match &mut self.engine {
            Engine::None => {}
            Engine::Rc(rc) => rc.set_rate(rate),
            Engine::Irn(irn) => irn.set_rate(rate),
            Engine::Uc(uc) => uc.set_rate(rate),
            Engine::Ud(ud) => ud.set_rate(rate),
            Engine::Offer(_) => {}
        }
    }

    /// Counts all stored times from an origin that is later by `by`; `now` counts from the new origin.
    pub(crate) fn rebase(&mut self, now: Time, by: Time) {
        for time in [&mut self.armed, &mut self.last_sent, &mut self.last_cnp].into_iter().flatten() {
            *time = time.rebased(by);
        }
        match &mut self.engine {
            Engine::None => {}
            Engine::Rc(rc) => rc.rebase(now, by),
            Engine::Irn(irn) => irn.rebase(now, by),
            Engine::Uc(uc) => uc.rebase(now, by),
            Engine::Ud(ud) => ud.rebase(now, by),
            Engine::Offer(offer) => offer.rebase(by),
        }
    }

    /// Sets the sequence numbers as if `messages` messages of every kind had been sent and received before, so that a
    /// test can make them wrap.
    #[cfg(test)]
    pub(crate) fn count_from(&mut self, messages: u32) {
        self.common.count_from(messages);
        match &mut self.engine {
            Engine::Rc(rc) => rc.responder.count_from(messages),
            Engine::Irn(irn) => irn.responder.count_from(messages),
            Engine::None | Engine::Uc(_) | Engine::Ud(_) | Engine::Offer(_) => {}
        }
    }

    pub(crate) fn release(&mut self, ctx: &mut Ctx) {
        match &mut self.engine {
            Engine::None => {}
            Engine::Rc(rc) => rc.release(&mut self.common, ctx),
            Engine::Irn(irn) => irn.release(&mut self.common, ctx),
            Engine::Uc(uc) => uc.release(&mut self.common, ctx),
            Engine::Ud(ud) => ud.release(&mut self.common, ctx),
            Engine::Offer(offer) => offer.release(&self.common, ctx.now),
        }
    }

    /// A receive was posted. If the last ACK told the peer that there is none, the peer gets another ACK with the new
    /// credits (InfiniBand volume 1, section 9.7.7).
    pub(crate) fn tell_credits(&mut self) {
        if !self.common.receives_packets() || !self.common.told_no_credits.take() {
            return;
        }
        match &mut self.engine {
            Engine::None | Engine::Uc(_) | Engine::Ud(_) | Engine::Offer(_) => {}
            Engine::Rc(rc) => rc.responder.tell_credits(),
            Engine::Irn(irn) => irn.responder.tell_credits(),
        }
    }

    /// Sets attributes of the connection that were changed in state RTS or SQD.
    pub(crate) fn change(&mut self, change: &QpChange) {
        let c = &mut self.common;
        c.access = change.access.unwrap_or(c.access);
        if let Some(connection) = &mut c.connection {
            connection.min_rnr_timer = change.min_rnr_timer.unwrap_or(connection.min_rnr_timer);
            connection.peer = change.peer.unwrap_or(connection.peer);
            connection.dscp = change.dscp.unwrap_or(connection.dscp);
            connection.max_dest_rd_atomic = change.max_dest_rd_atomic.unwrap_or(connection.max_dest_rd_atomic);
        }
        let attributes = &mut c.attributes;
        attributes.timeout = change.timeout.unwrap_or(attributes.timeout);
        attributes.retry_count = change.retry_count.unwrap_or(attributes.retry_count);
        attributes.rnr_retry = change.rnr_retry.unwrap_or(attributes.rnr_retry);
        attributes.max_rd_atomic = change.max_rd_atomic.unwrap_or(attributes.max_rd_atomic);
        if change.timeout.is_some() && c.init.service == Service::Rc {
            self.cfg.timeouts = c.attributes.timeouts();
        }
        match &mut self.engine {
            Engine::None | Engine::Uc(_) | Engine::Offer(_) => {}
            Engine::Rc(rc) => rc.change(c, &self.cfg),
            Engine::Irn(irn) => irn.change(c),
            Engine::Ud(ud) => ud.set_qkey(change.qkey.unwrap_or(ud.attributes().qkey)),
        }
    }

    /// RTS to SQD: the send requests of which no packet was sent wait again, as if they were not released for sending.
    pub(crate) fn drain(&mut self) {
        match &mut self.engine {
            Engine::None | Engine::Offer(_) => {}
            Engine::Rc(rc) => rc.drain(&mut self.common),
            Engine::Irn(irn) => irn.drain(&mut self.common),
            Engine::Uc(uc) => uc.drain(&mut self.common),
            Engine::Ud(ud) => ud.drain(&mut self.common),
        }
    }

    /// Checks a packet against the queue pair's service and path MTU. The error says why the packet is dropped, and
    /// whether it is an invalid request that the queue pair refuses ([`Qp::refuse`]).
    pub(crate) fn check(&self, packet: &Packet<'_>) -> Result<(), (Dropped, bool)> {
        let opcode = packet.headers.bth.opcode;
        let service = match opcode.service() {
            rnic_wire::Service::Rc => Some(Service::Rc),
            rnic_wire::Service::Irn => Some(Service::Irn),
            rnic_wire::Service::Uc => Some(Service::Uc),
            rnic_wire::Service::Cnp => None,
            rnic_wire::Service::Ud => Some(Service::Ud),
        };
        let own = self.common.init.service;
        // UD has no congestion control, so peers send it no CNPs.
        if service.map_or(own == Service::Ud, |service| service != own) && !self.may_use_irn(opcode) {
            return Err((Dropped::Opcode, false));
        }
        let is_request = opcode.operation().is_request();
        packet.check_mtu(self.common.route.mtu as usize).map_err(|_| (Dropped::Length, is_request))
    }

    /// Whether a queue pair of the service RC handles a packet of IRN: an Offer, or, before it has decided, any.
    #[cold]
    fn may_use_irn(&self, opcode: rnic_wire::Opcode) -> bool {
        match &self.engine {
            Engine::Rc(_) => opcode.operation() == Operation::Offer,
            Engine::Offer(_) => opcode.service() == rnic_wire::Service::Irn,
            _ => false,
        }
    }

    /// Whether an opcode that no service defines lies in the range of this queue pair's service.
    pub(crate) fn owns_reserved_opcode(&self, code: u8) -> bool {
        let own = match self.common.init.service {
            Service::Rc => rnic_wire::Service::Rc,
            Service::Uc => rnic_wire::Service::Uc,
            Service::Irn => rnic_wire::Service::Irn,
            Service::Ud => rnic_wire::Service::Ud,
        };
        rnic_wire::Service::of(code) == Some(own)
    }

    /// Handles an invalid request with this PSN. If it is the next request that the responder expects, RC and IRN
    /// answer with NAK Invalid Request, which ends the connection (InfiniBand volume 1, section 9.7.4.1); UC drops its
    /// message, UD only the packet. Returns whether there is a NAK to send.
    pub(crate) fn refuse(&mut self, ctx: &mut Ctx, psn: Psn) -> bool {
        match &mut self.engine {
            Engine::None | Engine::Ud(_) | Engine::Offer(_) => false,
            Engine::Rc(rc) => rc.responder.refuse_invalid(&mut self.common, ctx, psn),
            Engine::Irn(irn) => irn.responder.refuse_invalid(&mut self.common, ctx, psn),
            Engine::Uc(uc) => {
                uc.refuse_invalid(psn);
                false
            }
        }
    }

    pub(crate) fn handle(
        &mut self, ctx: &mut Ctx, now: Time, packet: &Packet<'_>, from: &NetworkHeader,
    ) -> Result<(), Dropped> {
        let marked = from.is_marked();
        match packet.headers.bth.opcode.operation() {
            Operation::Cnp => return self.on_cnp(ctx, now),
            Operation::Offer => return self.on_offer(ctx, now, packet),
            _ => {}
        }
        if let Engine::Offer(offer) = &mut self.engine
            && let Outcome::Begun(service) = offer.handle(&self.common, now, packet)?
        {
            self.agree(service, ctx, now);
        }
        // IRN completes messages out of order, so it does not tell which of them was marked.
        if self.common.init.service != Service::Irn {
            let begins = packet.headers.bth.opcode.starts_message();
            self.common.marked = marked || (self.common.marked && !begins);
        }
        match &mut self.engine {
            Engine::None | Engine::Offer(_) => Err(Dropped::State),
            Engine::Rc(rc) => rc.handle(&mut self.common, ctx, now, packet, marked),
            Engine::Irn(irn) => irn.handle(&mut self.common, ctx, now, packet, marked),
            Engine::Uc(uc) => uc.handle(&mut self.common, ctx, now, packet, marked),
            Engine::Ud(ud) => ud.handle(&mut self.common, ctx, packet, from),
        }
    }

    /// Handles a received CNP. A stranger can write CNPs too, so a CNP takes effect only if it can belong to a packet
    /// of this queue pair: the queue pair sent one within [`CNP_LIFETIME`], and the last CNP that took effect is at
    /// least half the interval ago at which a peer sends them. Half, because delays in the network vary.
    fn on_cnp(&mut self, ctx: &mut Ctx, now: Time) -> Result<(), Dropped> {
        if self.last_sent.is_none_or(|sent| now > sent + CNP_LIFETIME) {
            return Err(Dropped::Stale);
        }
        ctx.counters.cnps_received += 1;
        let interval = self.cfg.cnp_interval.unwrap_or(Time::ZERO);
        if self.last_cnp.is_some_and(|last| now < last + interval.scale(0.5)) {
            return Ok(());
        }
        self.last_cnp = Some(now);
        match &mut self.engine {
            Engine::None | Engine::Ud(_) | Engine::Offer(_) => {}
            Engine::Rc(rc) => rc.on_cnp(now),
            Engine::Irn(irn) => irn.on_cnp(now),
            Engine::Uc(uc) => uc.on_cnp(now),
        }
        Ok(())
    }

    /// Writes the next packet into `out` and returns its length in bytes; 0 if the queue pair has no packet to send at
    /// `now`.
    pub(crate) fn emit(&mut self, ctx: &mut Ctx, now: Time, out: &mut [u8]) -> usize {
        let bytes = match &mut self.engine {
            _ if self.answer.is_some() => self.answer.take().map_or(0, |answer| answer.emit(&self.common, out)),
            Engine::None => 0,
            Engine::Offer(offer) => offer.emit(&self.common, now, out),
            Engine::Rc(rc) => {
                if self.common.state == State::Error {
                    rc.quiet();
                }
                rc.emit(&mut self.common, ctx, now, out)
            }
            Engine::Irn(irn) => irn.emit(&mut self.common, ctx, now, out),
            Engine::Uc(uc) => uc.emit(&mut self.common, ctx, now, out),
            Engine::Ud(ud) => ud.emit(&mut self.common, ctx, now, out),
        };
        if bytes > 0 {
            self.last_sent = Some(now);
            ctx.counters.packets_sent += 1;
            self.common.counters.packets_sent += 1;
        }
        bytes
    }

    pub(crate) fn next_transmit(&self) -> Option<Time> {
        match &self.engine {
            _ if self.answer.is_some() => {
                let mut due = Due::never();
                due.immediately();
                due
            }
            Engine::Offer(offer) => offer.next_transmit(),
            Engine::None => Due::never(),
            Engine::Rc(rc) => rc.next_transmit(&self.common),
            Engine::Irn(irn) => irn.next_transmit(&self.common),
            Engine::Uc(uc) => uc.next_transmit(&self.common),
            Engine::Ud(ud) => ud.next_transmit(&self.common),
        }
        .time()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        if !self.common.receives_packets() {
            return None;
        }
        match &self.engine {
            Engine::None => Due::never(),
            Engine::Rc(rc) => rc.deadline(&self.common),
            Engine::Irn(irn) => irn.deadline(&self.common),
            Engine::Uc(uc) => uc.deadline(),
            Engine::Ud(ud) => ud.deadline(),
            Engine::Offer(offer) => offer.deadline(),
        }
        .time()
    }

    pub(crate) fn on_deadline(&mut self, ctx: &mut Ctx, now: Time) {
        match &mut self.engine {
            Engine::None => {}
            Engine::Rc(rc) => rc.on_deadline(&mut self.common, ctx, now),
            Engine::Irn(irn) => irn.on_deadline(&mut self.common, ctx, now),
            Engine::Uc(uc) => uc.on_deadline(now),
            Engine::Ud(ud) => ud.on_deadline(now),
            Engine::Offer(offer) => {
                if let Outcome::Agreed(service, _) = offer.on_deadline(now) {
                    self.agree(service, ctx, now);
                }
            }
        }
        self.release(ctx);
    }

    /// Checks whether the queue pair can execute a send request for `len` bytes of memory.
    pub(crate) fn admits(&self, op: &SendOp, len: u64) -> Result<(), Inadmissible> {
        let Some(len) = u32::try_from(len).ok().filter(|len| *len <= MAX_MESSAGE) else {
            return Err(Inadmissible::length(len, "0 to 2147483648 bytes".to_string()));
        };
        match self.common.init.service {
            Service::Rc => rc::Rc::admits(op, len, self.common.route.mtu.max(256))?,
            Service::Uc if op.is_fetching() || matches!(op, SendOp::SendInv(_)) => {
                return Err(Inadmissible::operation(
                    "an unreliable connection has Sends and RDMA Writes, but no reads, atomics or Send with Invalidate",
                ));
            }
            Service::Ud => ud::Ud::admits(op, len, self.common.route.mtu)?,
            _ => {}
        }
        if op.is_fetching() && self.common.attributes.max_rd_atomic == 0 {
            let why = "the connection admits no reads and atomics (max_rd_atomic is 0)";
            return Err(Inadmissible::operation(why));
        }
        if op.is_atomic() && len != 8 {
            return Err(Inadmissible::length(len.into(), "8 bytes for an atomic".to_string()));
        }
        Ok(())
    }

    pub(crate) fn qpn(&self) -> Qpn {
        self.common.qpn
    }
}
