//! IRN's loss recovery and BDP-FC ("Revisiting Network Support for RDMA", SIGCOMM 2018, sections 3.1 and 3.2).
//!
//! The receiver accepts out-of-order packets and responds to every packet: with ACK(expected) if the packet is in
//! order, and with NACK(expected, trigger) otherwise, where `trigger` is the PSN of the packet that arrived. The sender
//! keeps a bitmap of selectively acknowledged packets, and during recovery it retransmits only lost packets. A packet
//! counts as lost if it is not acknowledged and a later packet is selectively acknowledged.
//!
//! Where the paper leaves a choice, the implementation follows the NIC logic that the authors published, except in two
//! respects that are named below:
//!
//! - The recovery sequence is the PSN whose cumulative acknowledgement ends the recovery: the last new packet sent
//!   before the latest retransmission of a lost packet. It moves up with each retransmission of a packet that selective
//!   acknowledgements prove to be lost.
//! - A partial acknowledgement is a cumulative acknowledgement during recovery that does not include the recovery
//!   sequence. The sender then retransmits the new first missing packet under two conditions. First, the current
//!   recovery has not retransmitted this packet yet. Second, the packet that caused the acknowledgement departed no
//!   earlier than the retransmission that set the recovery sequence (the acknowledgement echoes the departure time).
//!   Under these conditions the missing packet departed before a packet that has already arrived. The second condition
//!   is the first difference from the published logic: there the loss of one NACK makes the sender retransmit every
//!   packet in flight, one after each partial acknowledgement.
//! - The timeout is `RTO_low` for at most N packets in flight, else `RTO_high`. If `RTO_low` expires with more than N
//!   packets in flight, the authors' NIC extends the timeout to `RTO_high`. Here [`deadline`](SendRecovery::deadline)
//!   has the same effect, because it computes the timeout from the current number of packets in flight.
//!
//! The second difference from the NIC logic that IRN's authors published concerns the recovery sequence, the PSN whose
//! cumulative acknowledgement ends a recovery. The published logic moves this PSN up with *every* retransmission, so a
//! single late packet or early timeout can keep a long flow in recovery until the flow ends. In such a recovery the
//! sender makes one unnecessary retransmission for each new packet. In this implementation only retransmissions of
//! packets that are proven lost move the recovery sequence.
//!
//! The NIC detects the loss of a retransmission only by a timeout. An owner that knows the departure time of each
//! packet in flight detects it sooner ([`StreamSender::lost_again`]): the endpoint does, the simulator does not.
//!
//! Four events restart IRN's retransmission timer: an acknowledgement, the transmission of a packet while no packet is
//! in flight, a retransmission of the first missing packet, and a timeout. The paper does not say which
//! acknowledgements restart the timer: either every ACK and NACK, or only the cumulative acknowledgement of new packets
//! ([`TimerRestart`]).

mod registers;

pub use registers::{IrnReceiverRegisters, IrnSenderRegisters};

use super::{Arrival, Pick, Progress, Protocol, ReceiveRecovery, SendRecovery, StreamReceiver, StreamSender};
use crate::bitmap::BitWindow;
use crate::config::{FlowConfig, TimerRestart};
use crate::congestion::LossSignal;
use crate::pdu::Stamp;
use crate::rto::RttEstimator;
use crate::{Pdu, PduKind, Psn, RxOutcome, Time};

/// The loss recovery protocol of IRN: its sender and receiver.
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

/// An empty bitmap of the packets in flight, for a flow of `packets` packets (0 for a stream, a flow without a fixed
/// length). It is no larger than the flow, or BDP-FC's cap on packets in flight, requires.
fn window(cfg: &FlowConfig, packets: u64) -> BitWindow {
    let packets = if packets == 0 { u64::MAX } else { packets };
    BitWindow::new(u64::from(cfg.bdp_cap).min(packets) as u32)
}

/// The IRN sender.
#[derive(Clone, Debug)]
pub struct IrnSender {
    /// First packet not acknowledged cumulatively.
    first_missing: Psn,
    /// First packet never sent.
    next: Psn,
    /// During recovery: every lost packet before this PSN has been retransmitted.
    retransmit_next: Psn,
    /// During recovery: the recovery sequence, whose cumulative acknowledgement ends the recovery.
    recover: Psn,
    /// During recovery: departure time of the retransmission that last set `recover`, the recovery sequence; before the
    /// first retransmission, the time at which the recovery began.
    recover_since: Stamp,
    /// Highest selectively acknowledged packet; valid only while `sacked` has a set bit.
    highest_sacked: Psn,
    in_recovery: bool,
    /// Whether to retransmit packet `first_missing` next, even if no selective acknowledgement proves its loss.
    retransmit_first: bool,
    /// Number of packets of the flow, sent or not, that are not acknowledged cumulatively.
    left: u64,
    /// Time at which the retransmission timer was last started.
    timer_start: Time,
    /// Measured round-trip times; used only if the timeout is computed from them (`Timeouts::dynamic`).
    rtt: RttEstimator,
    /// Selectively acknowledged packets.
    sacked: BitWindow,
}

impl IrnSender {
    /// The next lost packet: not acknowledged, before a selectively acknowledged packet, and not retransmitted in this
    /// recovery.
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

    /// Handles a cumulative acknowledgement of all packets before `expected`, caused by the arrival of a data packet
    /// that departed at `stamp`. Returns how many packets it newly acknowledges.
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

    fn enter_recovery(&mut self, now: Time) {
        self.in_recovery = true;
        self.recover_since = Stamp::at(now);
        self.retransmit_first = true;
        self.retransmit_next = self.first_missing;
        self.recover = self.next.plus(Psn::MODULUS - 1);
    }

    fn can_send_new(&self, cfg: &FlowConfig, window: u32) -> bool {
        let in_flight = self.in_flight();
        in_flight < cfg.bdp_cap.min(window) && u64::from(in_flight) < self.left
    }

    fn retransmit(&mut self, now: Time, psn: Psn) -> Pick {
        // A retransmission without proof of a loss: at the start of a recovery, or after a partial acknowledgement.
        if self.retransmit_first {
            self.recover_since = Stamp::at(now);
        }
        if psn == self.first_missing {
            self.retransmit_first = false;
            self.timer_start = now;
        }
        self.retransmit_next = psn.plus(1).later(self.retransmit_next);
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
            return Progress::default(); // an old reply, or a reply about packets that were never sent
        }
        if cfg.timer_restart == TimerRestart::Response {
            self.timer_start = now;
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
            self.enter_recovery(now);
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
        self.enter_recovery(now);
        self.rtt.back_off();
        self.timer_start = now;
    }

    fn in_flight(&self) -> u32 {
        self.next.since(self.first_missing)
    }

    fn is_complete(&self) -> bool {
        self.left == 0
    }

    fn extend(&mut self, packets: u64) {
        self.left += packets;
    }

    fn unsent(&self) -> u64 {
        self.left - u64::from(self.in_flight())
    }

    fn shorten(&mut self, packets: u64) {
        self.left -= packets;
    }

    fn unacknowledged(&self) -> (Psn, u64) {
        (self.first_missing, self.left)
    }
}

impl StreamSender for IrnSender {
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

    fn lost_again(&mut self) {
        self.retransmit_first |= self.in_recovery && self.in_flight() > 0;
    }

    fn rebase(&mut self, by: Time) {
        self.timer_start = self.timer_start.rebased(by);
    }

    fn resend(&mut self, now: Time) {
        if self.in_flight() > 0 {
            self.enter_recovery(now);
            self.timer_start = now;
        }
    }
}

/// The IRN receiver.
#[derive(Clone, Debug)]
pub struct IrnReceiver {
    /// PSN of the first packet that has not arrived.
    expected: Psn,
    /// Number of packets of the messages after the current one; 0 for a flow with one message.
    later: u32,
    /// Number of packets of the flow from packet `expected` to the end.
    left: u64,
    /// Packets after packet `expected` that have arrived out of order.
    arrived: BitWindow,
}

impl IrnReceiver {
    /// Accepts packet `psn`, for which [`foresee`](StreamReceiver::foresee) has returned [`Arrival::InOrder`] or
    /// [`Arrival::Ahead`], as [`on_data`](ReceiveRecovery::on_data) does. The owner composes the ACK or NACK itself.
    #[inline]
    pub fn accept(&mut self, psn: Psn) {
        if psn == self.expected {
            self.advance();
        } else {
            self.arrived.set(psn);
        }
    }

    /// Whether packets have arrived after one that has not.
    pub(super) fn has_gaps(&self) -> bool {
        self.arrived.count() > 0
    }

    /// Accepts the expected packet, and with it the packets after it that have arrived.
    #[inline]
    fn advance(&mut self) {
        let run = if self.arrived.count() == 0 { 1 } else { 1 + self.arrived.run_length(self.expected.plus(1)) };
        self.arrived.clear(self.expected, run);
        self.expected = self.expected.plus(run);
        self.left -= u64::from(run);
    }
}

impl ReceiveRecovery for IrnReceiver {
    fn new(cfg: &FlowConfig, packets: u64, _now: Time) -> IrnReceiver {
        IrnReceiver { expected: cfg.first_psn, later: 0, left: packets, arrived: window(cfg, packets) }
    }

    #[inline]
    fn on_data(&mut self, _cfg: &FlowConfig, _now: Time, pdu: Pdu) -> RxOutcome {
        let ahead = pdu.psn().distance_from(self.expected);
        if ahead == 0 && self.left > 0 {
            self.advance();
            let reply = Some(Pdu::ack(self.expected, pdu.stamp()));
            return RxOutcome { reply, completed: self.left <= u64::from(self.later), ..RxOutcome::default() };
        }
        if ahead < 0 || self.left == 0 {
            let reply = Some(Pdu::ack(self.expected, pdu.stamp()));
            return RxOutcome { reply, discarded: true, ..RxOutcome::default() };
        }
        if ahead as u32 >= self.arrived.capacity() || ahead as u64 >= self.left {
            // The packet is beyond the BDP-FC cap that both ends agreed on, so the bitmap has no bit for it.
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

    fn post(&mut self, packets: u64, waiting: bool) {
        self.left += packets;
        self.later += if waiting { packets as u32 } else { 0 };
    }

    fn next_message(&mut self, packets: u64) -> bool {
        self.later -= packets as u32;
        self.left <= u64::from(self.later)
    }

    fn left_of_message(&self) -> u64 {
        self.left.saturating_sub(self.later.into())
    }

    fn shorten(&mut self, packets: u64) {
        self.left -= packets;
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
