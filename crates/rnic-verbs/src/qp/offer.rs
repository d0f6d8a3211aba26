//! The agreement on IRN: a queue pair of the service RC that may use IRN (`Extras::offer_irn`) finds out, before the
//! first packet of a connection, whether its peer may too. Without an answer it uses RC, which every NIC has.
//!
//! Both ends must decide alike although packets are lost. Each sends Offers; an Offer says whether its sender has
//! received one. Three rules decide:
//!
//! - An end uses IRN when it receives an Offer, or a request of IRN, that shows that the peer knows of its own Offer.
//! - An end that has received no Offer gives up when its first request has waited for [`PATIENCE`], and uses RC.
//! - An end that has received an Offer does not give up. It uses RC only if the peer does: the peer's answer states
//!   this, or the peer sends a request of RC.
//!
//! If one end uses IRN, the other end has sent an Offer with the knowledge of the first one's, so it has received an
//! Offer and does not give up. The first one answers its Offers until it uses IRN, too.

use super::sending::Due;
use crate::Dropped;
use crate::common::Common;
use crate::packet::{Route, Writer};
use crate::types::{Service, State};
use rnic_transport::{FlowConfig, Psn, Time};
use rnic_wire::{Bth, Operation, Packet};

/// Time that the first request waits for an answer before the queue pair uses RC.
pub(crate) const PATIENCE: Time = Time::from_ms(250);
/// Time after which an end that has received an Offer no longer waits for its peer. The connection has failed then,
/// because neither end could reach the other, and requests of RC will find it out.
const LIMIT: Time = Time::from_ms(10_000);
/// Intervals between two Offers: the first, from which each interval is twice the previous one, and the longest.
const INTERVALS: [Time; 2] = [Time::from_ms(2), Time::from_ms(64)];
/// Number of Offers that a queue pair sends while nothing waits and no Offer has arrived.
const UNASKED: u32 = 8;
/// Number of packets by which the first received request may be ahead of the expected PSN.
const AHEAD: i32 = 256;

/// What an end says to its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Irn,
    Rc,
}

impl Answer {
    pub(crate) fn emit(self, c: &Common, out: &mut [u8]) -> usize {
        let mut bth = header(c);
        bth.solicited = self == Answer::Irn;
        Writer::begin(&bth, 0, out).end()
    }
}

/// The header of an Offer to the peer.
fn header(c: &Common) -> Bth {
    let first = c.connection.map_or(0, |connection| connection.recv_psn);
    // A NIC that took the packet for a response would find it older than all it waits for.
    let psn = Psn::new(first).plus(Psn::MODULUS - 1);
    Route { service: Service::Irn, ..c.route }.only(Operation::Offer, psn.value())
}

/// Whether an Offer comes from the peer: it names the first PSN of this side, which is known from RTS on.
fn is_genuine(c: &Common, psn: u32) -> bool {
    c.state == State::ReadyToReceive || Psn::new(psn) == Psn::new(c.attributes.send_psn).plus(Psn::MODULUS - 1)
}

/// The answer of a queue pair that has decided for `service` to a received Offer; `None` if it asks for no answer.
pub(crate) fn answer(c: &Common, service: Service, packet: &Packet<'_>) -> Result<Option<Answer>, Dropped> {
    let bth = &packet.headers.bth;
    let answer = match service {
        Service::Irn if c.extras.offer_irn => Answer::Irn,
        Service::Rc => Answer::Rc,
        _ => return Err(Dropped::Opcode),
    };
    match is_genuine(c, bth.psn) {
        true => Ok(bth.ack_request.then_some(answer)),
        false => Err(Dropped::Stale),
    }
}

/// What follows from a packet or a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The queue pair continues offering.
    Open,
    /// The queue pair uses this service from now on, and sends this answer.
    Agreed(Service, Option<Answer>),
    /// The queue pair uses this service from now on, and handles the received packet.
    Begun(Service),
}

/// State of a queue pair that has not decided.
pub(crate) struct Offer {
    /// The settings of the flow with IRN; those of the queue pair are for RC.
    pub(crate) irn: FlowConfig,
    /// PSN of an Offer that was received, and when the first one was.
    heard: Option<(u32, Time)>,
    /// Whether the peer was told that an Offer has arrived.
    told: bool,
    /// When the first request began to wait.
    since: Option<Time>,
    /// Whether an Offer is to be sent now.
    due: bool,
    /// When the next Offer is due, and the interval to the one after it.
    next: Time,
    interval: Time,
    unasked: u32,
}

impl Offer {
    pub(crate) fn new(irn: FlowConfig, now: Time) -> Offer {
        Offer {
            irn,
            heard: None,
            told: false,
            since: None,
            due: true,
            next: now,
            interval: INTERVALS[0],
            unasked: UNASKED,
        }
    }

    /// RTR to RTS: the first PSN of this side is known, so Offers that were received before can be checked. What the
    /// peer was told of them stays true for this side, too.
    pub(crate) fn start(&mut self, c: &Common) {
        self.heard = self.heard.filter(|(psn, _)| self.told || is_genuine(c, *psn));
        self.offer_soon();
    }

    fn offer_soon(&mut self) {
        (self.due, self.interval) = (true, INTERVALS[0]);
    }

    /// Notes that a request waits, if there is one.
    pub(crate) fn release(&mut self, c: &Common, now: Time) {
        if c.state == State::ReadyToSend && self.since.is_none() && c.sends.len() > 0 {
            self.since = Some(now);
            self.offer_soon();
        }
    }

    pub(crate) fn handle(&mut self, c: &Common, now: Time, packet: &Packet<'_>) -> Result<Outcome, Dropped> {
        let bth = &packet.headers.bth;
        let operation = bth.opcode.operation();
        if operation == Operation::Offer {
            return self.on_offer(c, now, bth);
        }
        if !operation.is_request() {
            return Err(Dropped::Stale);
        }
        let expected = Psn::new(c.connection.map_or(0, |connection| connection.recv_psn));
        if !(0..AHEAD).contains(&Psn::new(bth.psn).distance_from(expected)) {
            return Err(Dropped::OutOfOrder);
        }
        match bth.opcode.service() {
            rnic_wire::Service::Rc => Ok(Outcome::Begun(Service::Rc)),
            // The peer would not use IRN without an answer of this side, which follows an Offer of the peer.
            _ if self.heard.is_some() => Ok(Outcome::Begun(Service::Irn)),
            _ => Err(Dropped::State),
        }
    }

    fn on_offer(&mut self, c: &Common, now: Time, bth: &Bth) -> Result<Outcome, Dropped> {
        if !is_genuine(c, bth.psn) {
            return Err(Dropped::Stale);
        }
        match (bth.ack_request, bth.solicited) {
            (false, false) => Ok(Outcome::Agreed(Service::Rc, None)),
            (asks, true) => Ok(Outcome::Agreed(Service::Irn, asks.then_some(Answer::Irn))),
            (true, false) => {
                self.heard.get_or_insert((bth.psn, now)).0 = bth.psn;
                self.offer_soon();
                Ok(Outcome::Open)
            }
        }
    }

    /// Writes an Offer if one is due; returns its length in bytes, 0 without one.
    pub(crate) fn emit(&mut self, c: &Common, now: Time, out: &mut [u8]) -> usize {
        if !std::mem::take(&mut self.due) || !c.receives_packets() {
            return 0;
        }
        self.unasked = self.unasked.saturating_sub(1);
        self.next = now + self.interval;
        self.interval = (self.interval + self.interval).min(INTERVALS[1]);
        let mut bth = header(c);
        (bth.ack_request, bth.solicited) = (true, self.heard.is_some());
        self.told |= bth.solicited;
        Writer::begin(&bth, 0, out).end()
    }

    pub(crate) fn next_transmit(&self) -> Due {
        let mut due = Due::never();
        if self.due {
            due.immediately();
        }
        due
    }

    /// When the queue pair no longer waits for its peer.
    fn ends(&self) -> Option<Time> {
        match self.heard {
            Some((_, at)) => Some(at + LIMIT),
            None => self.since.map(|since| since + PATIENCE),
        }
    }

    pub(crate) fn deadline(&self) -> Due {
        let mut due = Due::never();
        due.maybe(self.ends());
        if !self.due && (self.unasked > 0 || self.since.is_some() || self.heard.is_some()) {
            due.at(self.next);
        }
        due
    }

    pub(crate) fn on_deadline(&mut self, now: Time) -> Outcome {
        if self.ends().is_some_and(|end| end <= now) {
            return Outcome::Agreed(Service::Rc, None);
        }
        self.due |= self.next <= now;
        Outcome::Open
    }

    /// Counts all stored times from an origin that is later by `by`.
    pub(crate) fn rebase(&mut self, by: Time) {
        self.next = self.next.rebased(by);
        self.since = self.since.map(|since| since.rebased(by));
        self.heard = self.heard.map(|(psn, at)| (psn, at.rebased(by)));
    }
}
