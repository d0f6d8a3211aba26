//! IRN's loss recovery and BDP-FC ("Revisiting Network Support for RDMA", SIGCOMM 2018, sections 3.1 and 3.2).
//!
//! The receiver keeps packets out of order and answers every packet: ACK(expected) in order, NACK(expected, trigger) out of
//! order. The sender keeps a bitmap of what is selectively acknowledged and, in recovery, retransmits exactly what is
//! lost. Where the text leaves a choice, we take the one of the authors' published NIC logic:
//!
//! - the recovery sequence is the last new packet sent before the latest retransmission of a lost packet: while selective
//!   acknowledgements prove losses, it moves up with each retransmission;
//! - a partial acknowledgement (progress, but not past the recovery sequence) retransmits the new first missing packet, if
//!   this recovery has not already, and if a packet caused it that left no earlier than the retransmission which set the recovery
//!   sequence: then the missing packet, which left before, has been overtaken. The echoed departure time tells. (The published
//!   logic does not ask; there, after the loss of a NACK, every packet in flight is sent again as its predecessor arrives.);
//! - a short timeout that fires with more than N packets in flight extends to the long one: here the deadline is a
//!   function of the packets in flight when it is asked for.
//!
//! The published logic moves the recovery sequence up with *every* retransmission. Then one late packet or early timeout can
//! keep a long flow in recovery to its end, sending one packet in vain for each new one; so retransmissions without proof of a
//! loss do not move it here.
//!
//! The timer runs from the latest of: cumulative progress, a first packet into an empty flight, a retransmission of the first
//! missing packet, a timeout.

use super::{Arrival, Pick, Progress, Protocol, ReceiveRecovery, SendRecovery, StreamReceiver, StreamSender};
use crate::bitmap::BitWindow;
use crate::config::FlowConfig;
use crate::congestion::LossSignal;
use crate::pdu::Stamp;
use crate::rto::RttEstimator;
use crate::{Pdu, PduKind, Psn, RxOutcome, Time};

/// Marker of the protocol.
#[derive(Clone, Copy, Debug)]
pub struct Irn;

impl Protocol for Irn {
    type Sender = IrnSender;
    type Receiver = IrnReceiver;
    fn sender_learns_completion(_cfg: &FlowConfig) -> bool {
        true
    }
    fn receiver_has_timer(_cfg: &FlowConfig) -> bool {
        false
    }
}

/// The bitmap for a flow of `packets`, 0 for a stream: no larger than the flow or the cap needs.
fn window(cfg: &FlowConfig, packets: u64) -> BitWindow {
    let packets = if packets == 0 { u64::MAX } else { packets };
    BitWindow::new(u64::from(cfg.bdp_cap).min(packets) as u32)
}

/// The data source.
#[derive(Clone, Debug)]
pub struct IrnSender {
    /// First packet not acknowledged cumulatively.
    first_missing: Psn,
    /// First packet never sent.
    next: Psn,
    /// In recovery: packets before this one are retransmitted already, or not lost.
    retransmit_next: Psn,
    /// In recovery: the recovery sequence.
    recover: Psn,
    /// In recovery: departure of the retransmission before which `recover` was the last new packet.
    recover_since: Stamp,
    /// Highest packet selectively acknowledged; meaningful while `sacked` has a bit set.
    highest_sacked: Psn,
    in_recovery: bool,
    /// `first_missing` must be retransmitted, whatever the bitmap says.
    retransmit_first: bool,
    /// Packets of the flow not acknowledged cumulatively, sent or not.
    left: u64,
    timer_start: Time,
    /// Round-trip times, measured for a dynamic timeout only.
    rtt: RttEstimator,
    sacked: BitWindow,
}

impl IrnSender {
    /// The next packet known to be lost: not acknowledged, below one that is, and not yet retransmitted.
    fn next_lost(&self) -> Option<Psn> {
        if self.sacked.count() == 0 {
            return None;
        }
        let from = self.retransmit_next.later(self.first_missing);
        let below = self.highest_sacked.distance_from(from);
        if below <= 0 {
            return None;
        }
        self.sacked.first_clear(from, below as u32)
    }

    /// Acknowledges everything before `expected`, as a packet stamped `stamp` has made known; returns how many packets that is.
    fn slide(&mut self, now: Time, expected: Psn, stamp: Stamp) -> u32 {
        let count = expected.since(self.first_missing);
        self.sacked.clear(self.first_missing, count);
        self.first_missing = expected;
        self.left -= u64::from(count);
        self.timer_start = now;
        self.retransmit_first = false;
        if self.in_recovery {
            if expected.distance_from(self.recover) > 0 {
                self.in_recovery = false;
            } else if !expected.is_before(self.retransmit_next) && stamp.is_from(self.recover_since) {
                self.retransmit_first = true; // partial acknowledgement
            }
        }
        count
    }

    fn enter_recovery(&mut self) {
        self.in_recovery = true;
        self.retransmit_first = true;
        self.retransmit_next = self.first_missing;
        self.recover = self.next.plus(Psn::MODULUS - 1);
    }

    fn can_send_new(&self, cfg: &FlowConfig, window: u32) -> bool {
        let in_flight = self.in_flight();
        in_flight < cfg.bdp_cap.min(window) && u64::from(in_flight) < self.left
    }

    fn retransmit(&mut self, now: Time, psn: Psn) -> Pick {
        // The first retransmission of a recovery, or of one packet after another without proof.
        if self.retransmit_first {
            self.recover_since = Stamp::at(now);
        }
        if psn == self.first_missing {
            self.retransmit_first = false;
            self.timer_start = now;
        }
        self.retransmit_next = psn.plus(1);
        if self.sacked.count() > 0 {
            self.recover = self.next.plus(Psn::MODULUS - 1);
            self.recover_since = Stamp::at(now);
        }
        Pick { psn, last: self.is_last(psn), retransmission: true, syn: false }
    }

    fn is_last(&self, psn: Psn) -> bool {
        u64::from(psn.since(self.first_missing)) + 1 == self.left
    }
}

impl SendRecovery for IrnSender {
    fn new(cfg: &FlowConfig, packets: u64) -> IrnSender {
        let first = cfg.first_psn;
        IrnSender {
            first_missing: first,
            next: first,
            retransmit_next: first,
            recover: first,
            recover_since: Stamp::default(),
            highest_sacked: first,
            in_recovery: false,
            retransmit_first: false,
            left: packets,
            timer_start: Time::ZERO,
            rtt: RttEstimator::new(),
            sacked: window(cfg, packets),
        }
    }

    fn following(&self, cfg: &FlowConfig, packets: u64, _now: Time) -> IrnSender {
        IrnSender { rtt: self.rtt, ..IrnSender::new(cfg, packets) }
    }

    #[inline]
    fn on_reply(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> Progress {
        let expected = pdu.psn();
        let advance = expected.distance_from(self.first_missing);
        if advance < 0 || advance as u32 > self.in_flight() {
            return Progress::default(); // stale, or of packets never sent
        }
        let acked = if advance > 0 { self.slide(now, expected, pdu.stamp()) } else { 0 };
        if acked > 0 && cfg.timeouts.is_some_and(|timeouts| timeouts.dynamic.is_some()) {
            self.rtt.sample(pdu.stamp().elapsed(now));
        }
        if pdu.kind() != PduKind::Nack {
            return Progress { acked, loss: None };
        }
        let offset = pdu.trigger().distance_from(self.first_missing);
        if offset <= 0 || offset as u32 >= self.in_flight() {
            return Progress { acked, loss: None };
        }
        let none_before = self.sacked.count() == 0;
        if cfg.sack && self.sacked.set(pdu.trigger()) && (none_before || self.highest_sacked.is_before(pdu.trigger())) {
            self.highest_sacked = pdu.trigger();
        }
        let entered = !self.in_recovery;
        if entered {
            self.enter_recovery();
        }
        Progress { acked, loss: entered.then_some(LossSignal::Nack) }
    }

    #[inline]
    fn has_work(&self, cfg: &FlowConfig, window: u32) -> bool {
        self.retransmit_first || self.can_send_new(cfg, window) || (self.in_recovery && self.next_lost().is_some())
    }

    #[inline]
    fn poll(&mut self, cfg: &FlowConfig, now: Time, window: u32) -> Option<Pick> {
        if self.in_recovery {
            let lost = if self.retransmit_first { Some(self.first_missing) } else { self.next_lost() };
            if let Some(psn) = lost {
                return Some(self.retransmit(now, psn));
            }
        }
        if !self.can_send_new(cfg, window) {
            return None;
        }
        if self.next == self.first_missing {
            self.timer_start = now;
        }
        let psn = self.next;
        self.next = psn.plus(1);
        Some(Pick { psn, last: self.is_last(psn), retransmission: false, syn: false })
    }

    fn deadline(&self, cfg: &FlowConfig) -> Option<Time> {
        let timeouts = cfg.timeouts?;
        let in_flight = self.in_flight();
        if in_flight == 0 {
            return None;
        }
        Some(self.timer_start + timeouts.span(in_flight, &self.rtt))
    }

    fn on_deadline(&mut self, _cfg: &FlowConfig, now: Time) {
        self.enter_recovery();
        self.rtt.back_off();
        self.timer_start = now;
    }

    fn in_flight(&self) -> u32 {
        self.next.since(self.first_missing)
    }

    fn is_complete(&self) -> bool {
        self.left == 0
    }
}

impl StreamSender for IrnSender {
    fn extend(&mut self, packets: u64) {
        self.left += packets;
    }

    fn truncate(&mut self, keep: u64) {
        self.left = self.left.min(keep);
        let in_flight = self.in_flight();
        if u64::from(in_flight) <= self.left {
            return;
        }
        let keep = self.left as u32;
        self.next = self.first_missing.plus(keep);
        self.sacked.clear(self.next, in_flight - keep);
        if !self.highest_sacked.is_before(self.next) {
            self.highest_sacked = self.next;
        }
        if !self.recover.is_before(self.next) {
            self.recover = self.next.plus(Psn::MODULUS - 1);
        }
        self.retransmit_first &= keep > 0;
        self.in_recovery &= keep > 0;
    }

    fn outstanding(&self) -> u32 {
        self.in_flight()
    }

    fn resend(&mut self, now: Time) {
        if self.in_flight() > 0 {
            self.enter_recovery();
            self.timer_start = now;
        }
    }
}

/// The data sink.
#[derive(Clone, Debug)]
pub struct IrnReceiver {
    expected: Psn,
    left: u64,
    arrived: BitWindow,
}

impl ReceiveRecovery for IrnReceiver {
    fn new(cfg: &FlowConfig, packets: u64, _now: Time) -> IrnReceiver {
        IrnReceiver { expected: cfg.first_psn, left: packets, arrived: window(cfg, packets) }
    }

    #[inline]
    fn on_data(&mut self, _cfg: &FlowConfig, _now: Time, pdu: Pdu) -> RxOutcome {
        let ahead = pdu.psn().distance_from(self.expected);
        if ahead == 0 && self.left > 0 {
            let run = if self.arrived.count() == 0 { 1 } else { 1 + self.arrived.run_length(self.expected.plus(1)) };
            self.arrived.clear(self.expected, run);
            self.expected = self.expected.plus(run);
            self.left -= u64::from(run);
            let reply = Some(Pdu::ack(self.expected, pdu.stamp()));
            return RxOutcome { reply, completed: self.left == 0, ..RxOutcome::default() };
        }
        if ahead < 0 || self.left == 0 {
            let reply = Some(Pdu::ack(self.expected, pdu.stamp()));
            return RxOutcome { reply, discarded: true, ..RxOutcome::default() };
        }
        if ahead as u32 >= self.arrived.capacity() || ahead as u64 >= self.left {
            // Beyond the cap that both ends agreed on: no place to note it.
            return RxOutcome { discarded: true, ..RxOutcome::default() };
        }
        let new = self.arrived.set(pdu.psn());
        let reply = Some(Pdu::nack(self.expected, pdu.psn(), pdu.stamp()));
        RxOutcome { reply, discarded: !new, ..RxOutcome::default() }
    }

    fn deadline(&self, _cfg: &FlowConfig) -> Option<Time> {
        None
    }

    fn on_deadline(&mut self, _cfg: &FlowConfig, _now: Time) -> Option<Pdu> {
        None
    }

    fn is_complete(&self) -> bool {
        self.left == 0
    }

    fn missing(&self) -> (u64, bool) {
        super::missing(self.expected, self.left, &self.arrived)
    }
}

impl StreamReceiver for IrnReceiver {
    fn expected(&self) -> Psn {
        self.expected
    }

    fn foresee(&self, psn: Psn) -> Arrival {
        match psn.distance_from(self.expected) {
            0 => Arrival::InOrder,
            ahead if ahead < 0 => Arrival::Duplicate,
            ahead if ahead as u32 >= self.arrived.capacity() || self.arrived.get(psn) => Arrival::Useless,
            _ => Arrival::Ahead,
        }
    }
}
