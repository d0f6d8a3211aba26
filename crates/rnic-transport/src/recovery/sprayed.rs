//! Selective retransmission for flows whose packets take many paths, and therefore arrive out of order.
//!
//! The receiver is IRN's ([`IrnReceiver`]): it accepts packets in any order, and responds to every packet. Its ACK or
//! NACK also returns the entropy of the packet ([`Pdu::path`]). The sender differs from IRN's in one respect: an
//! out-of-order packet is no evidence of a loss, because the missing packet may be on a slower path. The sender detects
//! losses by time, as RACK does (RFC 8985, section 6.2). A packet counts as lost at time `t` if
//!
//! - a packet that departed later has arrived, and
//! - the packet departed at least `rtt + reorder` before `t`, where `reorder` is the reordering tolerance
//!   ([`FlowConfig::reorder`]).
//!
//! RACK's `rtt` is the round-trip time of the latest-departed packet that has arrived. With many paths, the time of one
//! path says little about another one, so here `rtt` is the largest recent round-trip time: each reply with a smaller
//! time brings it nearer to that time by 1/256 of the difference.
//!
//! A timer lets the sender detect the loss even if no further ACK arrives. Timestamps distinguish a packet from its
//! retransmission, so the sender also detects the loss of a retransmission. After a retransmission timeout all packets
//! count as lost that departed at least the base round-trip time ago.
//!
//! Packets that are selectively acknowledged are not in flight, and neither are lost ones. BDP-FC and the window of the
//! congestion control limit the packets in flight. The receiver's bitmap is twice as large as BDP-FC's cap, so a packet
//! that is late by a round trip does not make the sender wait; [`FlowConfig::psn_range`] sets another size.

use super::irn::IrnReceiver;
use super::{Pick, Progress, Protocol, ReceiveRecovery, SendRecovery};
use crate::config::{FlowConfig, TimerRestart};
use crate::congestion::LossSignal;
use crate::paths::{PathConfig, PathState, Signal};
use crate::pdu::Stamp;
use crate::rto::RttEstimator;
use crate::{Pdu, PduKind, Psn, RxOutcome, Time};
use std::collections::VecDeque;

/// The loss recovery protocol of sprayed flows: its sender and receiver.
#[derive(Clone, Copy, Debug)]
pub struct Sprayed;

impl Protocol for Sprayed {
    type Sender = SprayedSender;
    type Receiver = SprayedReceiver;
    const SPRAYS: bool = true;
    fn sender_learns_completion(_cfg: &FlowConfig) -> bool {
        true
    }
    fn receiver_has_timer(_cfg: &FlowConfig) -> bool {
        false
    }
}

/// Maximum distance of a packet from the first missing one, in packets.
pub(super) fn span(cfg: &FlowConfig) -> u32 {
    cfg.psn_range.unwrap_or(2 * cfg.bdp_cap).min(Psn::MAX_WINDOW)
}

/// Whether a sender looks at the order of departures to find losses: with trimming by the switches it needs no order
/// unless the user sets a tolerance, and in a lossless fabric a missing packet is only late.
pub(super) fn detects(cfg: &FlowConfig) -> bool {
    cfg.reorder.is_some() || !cfg.trims && cfg.timeouts.is_some()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    InFlight,
    Acknowledged,
    Lost,
}

/// A packet that has been sent and is not acknowledged cumulatively.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Time of its latest departure.
    pub(super) at: Time,
    /// Entropy that it had then.
    path: u16,
    pub(super) state: State,
}

/// The sender of a sprayed flow.
#[derive(Clone, Debug)]
pub struct SprayedSender {
    /// First packet not acknowledged cumulatively.
    pub(super) first_missing: Psn,
    /// The packets from `first_missing` on that have been sent.
    pub(super) sent: VecDeque<Sent>,
    /// Number of packets of `sent` that are in flight, and that are lost and not retransmitted.
    pub(super) in_flight: u32,
    pub(super) lost: u32,
    /// The packets that were found to be lost, in that order; some may have been acknowledged since.
    retransmit: VecDeque<Psn>,
    /// Departures in order of time, if [`detects`] says that the sender needs them. The first one is that of a packet
    /// in flight.
    pub(super) departures: VecDeque<(Time, Psn)>,
    /// Departure time of the latest-departed packet that has arrived.
    latest: Option<Stamp>,
    /// The largest recent round-trip time.
    slowest: Time,
    /// While a recovery lasts: the last packet sent before it began.
    recover: Option<Psn>,
    /// Number of packets of the flow, sent or not, that are not acknowledged cumulatively.
    left: u64,
    /// Time at which the retransmission timer was last started.
    timer_start: Time,
    /// Measured round-trip times; used only if the timeout is computed from them (`Timeouts::dynamic`).
    rtt: RttEstimator,
    pub(super) paths: PathState,
    /// Entropy of the packet that was sent last.
    path: u16,
}

impl SprayedSender {
    pub(super) fn sent_since_missing(&self) -> u32 {
        self.sent.len() as u32
    }

    pub(super) fn slot(&self, psn: Psn) -> Option<usize> {
        usize::try_from(psn.distance_from(self.first_missing)).ok().filter(|slot| *slot < self.sent.len())
    }

    /// Changes the state of a packet to acknowledged. Returns 1 if it was not, else 0.
    fn acknowledge(&mut self, slot: usize) -> u32 {
        let is_new = self.sent[slot].state != State::Acknowledged;
        self.set(slot, State::Acknowledged);
        u32::from(is_new)
    }

    /// Changes the state of a packet, and the numbers of packets in each state.
    pub(super) fn set(&mut self, slot: usize, state: State) {
        let mut count = |state: State, by: u32| match state {
            State::InFlight => self.in_flight = self.in_flight.wrapping_add(by),
            State::Lost => self.lost = self.lost.wrapping_add(by),
            State::Acknowledged => {}
        };
        count(self.sent[slot].state, u32::MAX); // -1
        count(state, 1);
        self.sent[slot].state = state;
    }

    /// Removes the first `count` packets, which are acknowledged cumulatively. Returns how many of them were not
    /// acknowledged before.
    pub(super) fn slide(&mut self, now: Time, count: u32) -> u32 {
        let mut acked = count;
        for _ in 0..count {
            match self.sent.pop_front().map(|sent| sent.state) {
                Some(State::InFlight) => self.in_flight -= 1,
                Some(State::Lost) => self.lost -= 1,
                Some(State::Acknowledged) | None => acked -= 1,
            }
        }
        self.first_missing = self.first_missing.plus(count);
        self.left -= u64::from(count);
        self.timer_start = now;
        if self.recover.is_some_and(|recover| recover.is_before(self.first_missing)) {
            self.recover = None;
        }
        acked
    }

    pub(super) fn lose(&mut self, now: Time, slot: usize, signal: Signal) {
        self.set(slot, State::Lost);
        self.retransmit.push_back(self.first_missing.plus(slot as u32));
        self.paths.feedback(now, self.sent[slot].path, signal);
    }

    /// Handles an ACK, or a NACK of packets that are selectively acknowledged. Returns the number of packets that it
    /// acknowledges first; `None` if it is about packets that were never sent.
    pub(super) fn on_acknowledgement(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> Option<u32> {
        let advance = pdu.psn().distance_from(self.first_missing);
        if advance > self.sent.len() as i32 {
            return None;
        }
        self.paths.feedback(now, pdu.path(), if pdu.mark_echo() { Signal::Marked } else { Signal::Good });
        if advance >= 0 && cfg.timer_restart == TimerRestart::Response {
            self.timer_start = now;
        }
        let mut acked = if advance > 0 { self.slide(now, advance as u32) } else { 0 };
        if pdu.kind() == PduKind::Nack {
            acked += pdu.selected().filter_map(|psn| self.slot(psn).map(|slot| self.acknowledge(slot))).sum::<u32>();
        }
        if acked > 0 && cfg.timeouts.is_some_and(|timeouts| timeouts.dynamic.is_some()) {
            self.rtt.sample(pdu.stamp().elapsed(now));
        }
        Some(acked)
    }

    /// When the first departure counts as lost, unless its packet is acknowledged before.
    fn lost_at(&self, cfg: &FlowConfig) -> Option<Time> {
        let (reorder, latest, (at, _)) = (cfg.reorder?, self.latest?, self.departures.front()?);
        let departed = Stamp::at(*at);
        let is_passed = latest != departed && latest.is_from(departed);
        is_passed.then(|| at.saturating_add(self.slowest).saturating_add(reorder))
    }

    /// Finds the packets that count as lost at `now`. Returns whether a recovery begins.
    fn detect(&mut self, cfg: &FlowConfig, now: Time) -> bool {
        let mut found = false;
        while let Some((at, psn)) = self.departures.front().copied() {
            let slot = self.slot(psn).filter(|slot| {
                let sent = self.sent[*slot];
                sent.state == State::InFlight && sent.at == at
            });
            if let Some(slot) = slot {
                if self.lost_at(cfg).is_none_or(|lost_at| lost_at > now) {
                    break;
                }
                self.lose(now, slot, Signal::Lost);
                found = true;
            }
            self.departures.pop_front();
        }
        found && self.begin_recovery()
    }

    /// Returns whether no recovery was in progress.
    pub(super) fn begin_recovery(&mut self) -> bool {
        let begins = self.recover.is_none();
        if begins {
            self.recover = Some(self.first_missing.plus(self.sent_since_missing() + Psn::MODULUS - 1));
        }
        begins
    }

    fn can_send_new(&self, cfg: &FlowConfig, window: u32) -> bool {
        let ahead = self.sent_since_missing();
        self.in_flight < cfg.bdp_cap.min(window) && ahead < span(cfg) && u64::from(ahead) < self.left
    }

    fn send(&mut self, cfg: &FlowConfig, now: Time, slot: usize, retransmission: bool) -> Pick {
        self.path = self.paths.next(now);
        let sent = Sent { at: now, path: self.path, state: State::InFlight };
        if retransmission {
            self.set(slot, State::InFlight);
            self.sent[slot] = sent;
        } else {
            self.sent.push_back(sent);
            self.in_flight += 1;
        }
        if slot == 0 {
            self.timer_start = now;
        }
        let psn = self.first_missing.plus(slot as u32);
        if detects(cfg) {
            self.departures.push_back((now, psn));
        }
        Pick { psn, last: slot as u64 + 1 == self.left, retransmission, syn: false }
    }

    fn timeout_at(&self, cfg: &FlowConfig) -> Option<Time> {
        let timeouts = cfg.timeouts.filter(|_| !self.sent.is_empty())?;
        Some(self.timer_start + timeouts.span(self.sent_since_missing(), &self.rtt))
    }
}

impl SendRecovery for SprayedSender {
    fn new(cfg: &FlowConfig, packets: u64) -> SprayedSender {
        SprayedSender {
            first_missing: cfg.first_psn,
            sent: VecDeque::new(),
            in_flight: 0,
            lost: 0,
            retransmit: VecDeque::new(),
            departures: VecDeque::new(),
            latest: None,
            slowest: Time::ZERO,
            recover: None,
            left: packets,
            timer_start: Time::ZERO,
            rtt: RttEstimator::new(),
            paths: PathState::new(&cfg.paths, 0),
            path: 0,
        }
    }

    fn following(&self, cfg: &FlowConfig, packets: u64, _now: Time) -> SprayedSender {
        let paths = self.paths.clone();
        let (rtt, latest, slowest) = (self.rtt, self.latest, self.slowest);
        SprayedSender { rtt, latest, slowest, paths, ..SprayedSender::new(cfg, packets) }
    }

    fn on_reply(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> Progress {
        let Some(acked) = self.on_acknowledgement(cfg, now, pdu) else { return Progress::default() };
        let rtt = pdu.stamp().elapsed(now);
        if self.latest.is_none_or(|latest| pdu.stamp().is_from(latest)) {
            self.latest = Some(pdu.stamp());
        }
        let above = self.slowest.saturating_sub(rtt);
        self.slowest = rtt + above.saturating_sub(Time::from_ps(above.as_ps() / 256));
        let loss = self.detect(cfg, now).then_some(LossSignal::Nack);
        Progress { acked, loss }
    }

    fn has_work(&self, cfg: &FlowConfig, window: u32) -> bool {
        self.lost > 0 || self.can_send_new(cfg, window)
    }

    fn poll(&mut self, cfg: &FlowConfig, now: Time, window: u32) -> Option<Pick> {
        while let Some(psn) = self.retransmit.pop_front() {
            if let Some(slot) = self.slot(psn).filter(|slot| self.sent[*slot].state == State::Lost) {
                return Some(self.send(cfg, now, slot, true));
            }
        }
        self.can_send_new(cfg, window).then(|| self.send(cfg, now, self.sent.len(), false))
    }

    fn deadline(&self, cfg: &FlowConfig) -> Option<Time> {
        match (self.timeout_at(cfg), self.lost_at(cfg)) {
            (Some(timeout), Some(lost)) => Some(timeout.min(lost)),
            (timeout, lost) => timeout.or(lost),
        }
    }

    fn on_deadline(&mut self, cfg: &FlowConfig, now: Time) {
        for slot in 0..self.sent.len() {
            let Sent { at, state, .. } = self.sent[slot];
            if state == State::InFlight && (slot == 0 || at.saturating_add(cfg.base_rtt) <= now) {
                self.lose(now, slot, Signal::Timeout);
            }
        }
        self.detect(cfg, now);
        self.begin_recovery();
        self.rtt.back_off();
        self.timer_start = now;
    }

    fn on_timer(&mut self, cfg: &FlowConfig, now: Time) -> Option<LossSignal> {
        if self.timeout_at(cfg).is_some_and(|at| at <= now) {
            self.on_deadline(cfg, now);
            return Some(LossSignal::Timeout);
        }
        self.detect(cfg, now).then_some(LossSignal::Nack)
    }

    fn path(&self) -> u16 {
        self.path
    }

    fn seed_paths(&mut self, cfg: &PathConfig, seed: u64) {
        self.paths = PathState::new(cfg, seed);
    }

    /// Number of packets that are neither acknowledged, also selectively, nor lost.
    fn in_flight(&self) -> u32 {
        self.in_flight
    }

    fn is_complete(&self) -> bool {
        self.left == 0
    }

    fn extend(&mut self, packets: u64) {
        self.left += packets;
    }

    fn unsent(&self) -> u64 {
        self.left - u64::from(self.sent_since_missing())
    }

    fn backlog(&self) -> u64 {
        self.unsent() + u64::from(self.lost)
    }

    fn shorten(&mut self, packets: u64) {
        self.left -= packets;
    }

    fn unacknowledged(&self) -> (Psn, u64) {
        (self.first_missing, self.left)
    }
}

/// The receiver of a sprayed flow: IRN's receiver, which returns the entropy of each packet.
#[derive(Clone, Debug)]
pub struct SprayedReceiver(pub(super) IrnReceiver);

impl ReceiveRecovery for SprayedReceiver {
    fn new(cfg: &FlowConfig, packets: u64, now: Time) -> SprayedReceiver {
        SprayedReceiver(IrnReceiver::new(&FlowConfig { bdp_cap: span(cfg), ..cfg.clone() }, packets, now))
    }

    fn on_data(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> RxOutcome {
        let outcome = self.0.on_data(cfg, now, pdu);
        RxOutcome { reply: outcome.reply.map(|reply| reply.with_path(pdu.path())), ..outcome }
    }

    fn deadline(&self, cfg: &FlowConfig) -> Option<Time> {
        self.0.deadline(cfg)
    }

    fn on_deadline(&mut self, cfg: &FlowConfig, now: Time) -> Option<Pdu> {
        self.0.on_deadline(cfg, now)
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    fn missing(&self) -> (u64, bool) {
        self.0.missing()
    }

    fn post(&mut self, packets: u64, waiting: bool) {
        self.0.post(packets, waiting);
    }

    fn next_message(&mut self, packets: u64) -> bool {
        self.0.next_message(packets)
    }

    fn left_of_message(&self) -> u64 {
        self.0.left_of_message()
    }

    fn shorten(&mut self, packets: u64) {
        self.0.shorten(packets);
    }
}
