//! Go-back-N, the loss recovery of RoCE NICs (InfiniBand reliable connection).
//!
//! The receiver keeps packets only in order. The first packet out of order earns a NACK with the expected sequence number;
//! no further one follows until order resumes. The sender goes back to that packet and sends everything from there again.
//!
//! Timeouts depend on who owns the transfer. With per-packet ACKs (Writes, Sends) the source has a timer that restarts
//! whenever an acknowledgement makes progress. Without ACKs (the all-Reads extreme of IRN section 4.1) the sink is the
//! requester: its timer restarts whenever a packet arrives in order, and asks for the expected packet again.

use super::{Arrival, Pick, Progress, Protocol, ReceiveRecovery, SendRecovery, StreamReceiver, StreamSender};
use crate::config::{FlowConfig, NackPolicy};
use crate::congestion::LossSignal;
use crate::rto::RttEstimator;
use crate::{Pdu, PduKind, Psn, RxOutcome, Time};

/// Marker of the protocol.
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

/// The data source. Packets are counted from the start of the flow in 64 bits; sequence numbers follow from that.
#[derive(Clone, Debug)]
pub struct GoBackNSender {
    first: Psn,
    /// Packets known to have arrived.
    acked: u64,
    /// The packet to send next; falls back when a loss is noticed.
    next: u64,
    /// One past the highest packet ever sent.
    highest: u64,
    packets: u64,
    /// What the timer runs from.
    timer_start: Time,
    /// Round-trip times, measured for a dynamic timeout only.
    rtt: RttEstimator,
}

impl GoBackNSender {
    /// The packet count that `psn` names, given that it is at most `highest`; `None` if it lies after.
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
        let Some(expected) = self.absolute(pdu.psn()).filter(|expected| *expected >= self.acked) else {
            return Progress::default(); // stale, or of packets never sent
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
        // Without ACKs nothing is known to be in flight, and nothing bounds it.
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

    fn on_deadline(&mut self, _cfg: &FlowConfig, now: Time) {
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
}

impl StreamSender for GoBackNSender {
    fn extend(&mut self, packets: u64) {
        self.packets += packets;
    }

    fn truncate(&mut self, keep: u64) {
        self.packets = self.packets.min(self.acked + keep);
        self.next = self.next.min(self.packets);
        self.highest = self.highest.min(self.packets);
    }

    fn outstanding(&self) -> u32 {
        (self.highest - self.acked) as u32
    }

    /// Everything from there on: the receiver has dropped it.
    fn resend(&mut self, now: Time) {
        self.next = self.acked;
        self.timer_start = now;
    }
}

impl GoBackNSender {
    /// The packet just picked stands for `packets` more sequence numbers after its own (a Read request: its responses bear them).
    pub fn claim(&mut self, packets: u32) {
        self.next = (self.next + u64::from(packets)).min(self.packets);
        self.highest = self.highest.max(self.next);
    }
}

/// The data sink.
#[derive(Clone, Debug)]
pub struct GoBackNReceiver {
    expected: Psn,
    /// A NACK for `expected` is out.
    nack_sent: bool,
    left: u64,
    timer_start: Time,
}

impl ReceiveRecovery for GoBackNReceiver {
    fn new(cfg: &FlowConfig, packets: u64, now: Time) -> GoBackNReceiver {
        GoBackNReceiver { expected: cfg.first_psn, nack_sent: false, left: packets, timer_start: now }
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

    fn on_deadline(&mut self, _cfg: &FlowConfig, now: Time) -> Option<Pdu> {
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
    /// The packet just taken in order stands for `packets` more sequence numbers after its own.
    pub fn claim(&mut self, packets: u32) {
        self.expected = self.expected.plus(packets);
    }
}
