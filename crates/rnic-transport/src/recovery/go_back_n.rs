//! Go-back-N, the loss recovery of RoCE NICs (InfiniBand reliable connection).
//!
//! The receiver accepts packets only in order. The first out-of-order packet triggers a NACK with the expected PSN; the
//! receiver sends no other NACK until a packet arrives in order ([`NackPolicy::First`]). The sender goes back to the
//! expected PSN and retransmits all packets from there on.
//!
//! The requester of an RDMA operation has the retransmission timer. If flows have ACKs (Writes, Sends), the requester
//! is the sender of the data. Its timer restarts whenever an acknowledgement makes progress. If flows have no ACKs
//! ([`FlowConfig::acks`]), all flows are RDMA Reads (the extreme case in section 4.1 of the IRN paper), and the
//! requester is the receiver of the data. Its timer restarts whenever a packet arrives in order. When the timer
//! expires, the receiver sends a NACK for the expected packet.
//!
//! With go-back-0 ([`GoBack::First`]) the receiver discards the part of the message that it has when it sends a NACK,
//! and the sender begins again with the first packet of the message. After a timeout of the sender the first packet of
//! the message tells the receiver so.

use super::{Arrival, Pick, Progress, Protocol, ReceiveRecovery, SendRecovery, StreamReceiver, StreamSender};
use crate::config::{FlowConfig, GoBack, NackPolicy};
use crate::congestion::LossSignal;
use crate::rto::RttEstimator;
use crate::{Pdu, PduKind, Psn, RxOutcome, Time};

/// The loss recovery protocol go-back-N: its sender and receiver.
#[derive(Clone, Copy, Debug)]
pub struct GoBackN;

impl Protocol for GoBackN {
    type Sender = GoBackNSender;
    type Receiver = GoBackNReceiver;
    fn sender_learns_completion(cfg: &FlowConfig) -> bool {
        cfg.acks
    }
    fn receiver_has_timer(cfg: &FlowConfig) -> bool {
        !cfg.acks && cfg.timeouts.is_some()
    }
}

/// The go-back-N sender. It numbers the packets of a flow with 64 bits, from 0; packet n has the PSN `first` + n.
#[derive(Clone, Debug)]
pub struct GoBackNSender {
    /// PSN of the flow's first packet.
    first: Psn,
    /// Number of packets acknowledged cumulatively.
    acked: u64,
    /// Number of the packet to send next; a loss sets it back to `acked`.
    next: u64,
    /// Number of the packet after the highest packet that was ever sent.
    highest: u64,
    /// Number of packets of the flow. For a stream, to which packets are added over time: the number added so far.
    packets: u64,
    /// Time at which the retransmission timer was last started.
    timer_start: Time,
    /// Measured round-trip times; used only if the timeout is computed from them (`Timeouts::dynamic`).
    rtt: RttEstimator,
}

impl GoBackNSender {
    /// The 64-bit number of the packet with PSN `psn`; `None` if this number would exceed `highest`.
    fn absolute(&self, psn: Psn) -> Option<u64> {
        let behind = self.first.plus(self.highest as u32).distance_from(psn);
        u64::try_from(behind).ok().and_then(|behind| self.highest.checked_sub(behind))
    }
}

impl SendRecovery for GoBackNSender {
    fn new(cfg: &FlowConfig, packets: u64) -> GoBackNSender {
        GoBackNSender {
            first: cfg.first_psn,
            acked: 0,
            next: 0,
            highest: 0,
            packets,
            timer_start: Time::ZERO,
            rtt: RttEstimator::new(),
        }
    }

    fn following(&self, cfg: &FlowConfig, packets: u64, _now: Time) -> GoBackNSender {
        GoBackNSender { rtt: self.rtt, ..GoBackNSender::new(cfg, packets) }
    }

    fn on_reply(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> Progress {
        if pdu.kind() == PduKind::Nack && cfg.go_back == GoBack::First {
            let lost = self.next > 0;
            (self.acked, self.next, self.timer_start) = (0, 0, now);
            return Progress { acked: 0, loss: lost.then_some(LossSignal::Nack) };
        }
        let Some(expected) = self.absolute(pdu.psn()).filter(|expected| *expected >= self.acked) else {
            return Progress::default(); // an old reply, or a reply about packets that were never sent
        };
        let acked = (expected - self.acked) as u32;
        self.acked = expected;
        self.next = self.next.max(expected);
        if acked > 0 {
            self.timer_start = now;
            if cfg.timeouts.is_some_and(|timeouts| timeouts.dynamic.is_some()) {
                self.rtt.sample(pdu.stamp().elapsed(now));
            }
        }
        let lost = pdu.kind() == PduKind::Nack && expected < self.next;
        if lost {
            self.next = expected;
            self.timer_start = now;
        }
        Progress { acked, loss: lost.then_some(LossSignal::Nack) }
    }

    #[inline]
    fn has_work(&self, cfg: &FlowConfig, window: u32) -> bool {
        // Without ACKs the sender does not know how many packets are in flight, so no window limits it.
        let limit = if cfg.acks { window.min(cfg.bdp_cap).min(Psn::MAX_WINDOW - 1) } else { u32::MAX };
        self.next < self.packets && self.next - self.acked < u64::from(limit)
    }

    #[inline]
    fn poll(&mut self, cfg: &FlowConfig, now: Time, window: u32) -> Option<Pick> {
        if !self.has_work(cfg, window) {
            return None;
        }
        if self.next == self.acked {
            self.timer_start = now;
        }
        let pick = Pick {
            psn: self.first.plus(self.next as u32),
            last: self.next + 1 == self.packets,
            retransmission: self.next < self.highest,
            syn: false,
        };
        self.next += 1;
        self.highest = self.highest.max(self.next);
        Some(pick)
    }

    fn deadline(&self, cfg: &FlowConfig) -> Option<Time> {
        let timeouts = cfg.timeouts.filter(|_| cfg.acks && self.next > self.acked)?;
        Some(self.timer_start + timeouts.span(self.in_flight(), &self.rtt))
    }

    fn on_deadline(&mut self, cfg: &FlowConfig, now: Time) {
        if cfg.go_back == GoBack::First {
            self.acked = 0;
        }
        self.next = self.acked;
        self.rtt.back_off();
        self.timer_start = now;
    }

    fn in_flight(&self) -> u32 {
        (self.next - self.acked) as u32
    }

    fn is_complete(&self) -> bool {
        self.acked == self.packets
    }

    fn extend(&mut self, packets: u64) {
        self.packets += packets;
    }

    fn unsent(&self) -> u64 {
        self.packets - self.highest
    }

    fn shorten(&mut self, packets: u64) {
        self.packets -= packets;
    }

    fn unacknowledged(&self) -> (Psn, u64) {
        (self.first.plus(self.acked as u32), self.packets - self.acked)
    }
}

impl StreamSender for GoBackNSender {
    fn truncate(&mut self, keep: u64) {
        self.packets = self.packets.min(self.acked + keep);
        self.next = self.next.min(self.packets);
        self.highest = self.highest.min(self.packets);
    }

    fn outstanding(&self) -> u32 {
        (self.highest - self.acked) as u32
    }

    fn rebase(&mut self, by: Time) {
        self.timer_start = self.timer_start.rebased(by);
    }

    /// Retransmits all unacknowledged packets after an RNR NAK, because the receiver has discarded them.
    fn resend(&mut self, now: Time) {
        self.next = self.acked;
        self.timer_start = now;
    }
}

impl GoBackNSender {
    /// Reserves `packets` more PSNs after the packet that [`poll`](SendRecovery::poll) just returned. The owner calls
    /// this function for an RDMA Read request, because the response packets use these PSNs.
    pub fn claim(&mut self, packets: u32) {
        self.next = (self.next + u64::from(packets)).min(self.packets);
        self.highest = self.highest.max(self.next);
    }
}

/// The go-back-N receiver.
#[derive(Clone, Debug)]
pub struct GoBackNReceiver {
    /// PSN of the first packet that has not arrived.
    expected: Psn,
    /// Whether a NACK for packet `expected` has been sent.
    nack_sent: bool,
    /// Number of packets of the flow that have not arrived.
    left: u64,
    /// Time at which the retransmission timer was last started.
    timer_start: Time,
    /// PSN of the flow's first packet, and number of packets of the flow; for go-back-0.
    whole: (Psn, u64),
}

impl ReceiveRecovery for GoBackNReceiver {
    fn new(cfg: &FlowConfig, packets: u64, now: Time) -> GoBackNReceiver {
        let whole = (cfg.first_psn, packets);
        GoBackNReceiver { expected: cfg.first_psn, nack_sent: false, left: packets, timer_start: now, whole }
    }

    #[inline]
    fn on_data(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> RxOutcome {
        let ahead = pdu.psn().distance_from(self.expected);
        if ahead == 0 && self.left > 0 {
            self.expected = self.expected.plus(1);
            self.nack_sent = false;
            self.left -= 1;
            self.timer_start = now;
            let reply = cfg.acks.then(|| Pdu::ack(self.expected, pdu.stamp()));
            return RxOutcome { reply, completed: self.left == 0, ..RxOutcome::default() };
        }
        if cfg.go_back == GoBack::First && self.left > 0 {
            return self.begin_again(cfg, now, pdu);
        }
        let reply = if ahead < 0 || self.left == 0 {
            cfg.acks.then(|| Pdu::ack(self.expected, pdu.stamp()))
        } else if self.nack_sent && cfg.nacks == NackPolicy::First {
            None
        } else {
            self.nack_sent = true;
            Some(Pdu::nack(self.expected, pdu.psn(), pdu.stamp()))
        };
        RxOutcome { reply, discarded: true, ..RxOutcome::default() }
    }

    fn deadline(&self, cfg: &FlowConfig) -> Option<Time> {
        let timeouts = cfg.timeouts.filter(|_| !cfg.acks && self.left > 0)?;
        Some(self.timer_start + timeouts.high)
    }

    fn on_deadline(&mut self, cfg: &FlowConfig, now: Time) -> Option<Pdu> {
        if cfg.go_back == GoBack::First {
            (self.expected, self.left) = self.whole;
        }
        self.timer_start = now;
        self.nack_sent = true;
        Some(Pdu::nack(self.expected, self.expected, crate::pdu::Stamp::at(now)))
    }

    fn is_complete(&self) -> bool {
        self.left == 0
    }

    fn missing(&self) -> (u64, bool) {
        (self.left, self.left > 0)
    }

    fn post(&mut self, packets: u64, waiting: bool) {
        if !waiting {
            self.left = packets;
        }
    }

    // Packets arrive in order, so the packets of the next message arrive after this call.
    fn next_message(&mut self, packets: u64) -> bool {
        self.left = packets;
        false
    }

    fn left_of_message(&self) -> u64 {
        self.left
    }

    fn shorten(&mut self, packets: u64) {
        self.left -= packets;
        self.whole.1 -= packets;
    }
}

impl StreamReceiver for GoBackNReceiver {
    fn expected(&self) -> Psn {
        self.expected
    }

    fn foresee(&self, psn: Psn) -> Arrival {
        match psn.distance_from(self.expected) {
            0 => Arrival::InOrder,
            ahead if ahead > 0 => Arrival::Useless,
            _ => Arrival::Duplicate,
        }
    }
}

impl GoBackNReceiver {
    /// Handles a packet that is not the expected one, with go-back-0: the receiver discards the part of the message
    /// that it has. If the packet is the first of the message, the sender has begun again. Otherwise the receiver sends
    /// a NACK.
    #[cold]
    fn begin_again(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> RxOutcome {
        let from_start = pdu.psn() == self.whole.0;
        if from_start || pdu.psn().distance_from(self.expected) > 0 {
            (self.expected, self.left) = self.whole;
        }
        if from_start {
            return self.on_data(cfg, now, pdu);
        }
        let behind = pdu.psn().distance_from(self.expected) < 0;
        let silent = behind || (self.nack_sent && cfg.nacks == NackPolicy::First);
        self.nack_sent |= !behind;
        let reply = (!silent).then(|| Pdu::nack(self.expected, pdu.psn(), pdu.stamp()));
        RxOutcome { reply, discarded: true, ..RxOutcome::default() }
    }

    /// Skips `packets` more PSNs after the packet that just arrived in order. The owner calls this function for an RDMA
    /// Read request, whose response packets use these PSNs: the counterpart of [`GoBackNSender::claim`].
    pub fn claim(&mut self, packets: u32) {
        self.expected = self.expected.plus(packets);
    }
}
