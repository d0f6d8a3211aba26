//! The TCP receiver: acknowledgements after RFC 5681 section 4.2 and RFC 2018 section 4.

use super::super::ReceiveRecovery;
use crate::bitmap::BitWindow;
use crate::config::FlowConfig;
use crate::pdu::Stamp;
use crate::{Pdu, Psn, RxOutcome, Time};

/// The TCP receiver.
#[derive(Clone, Debug)]
pub struct TcpReceiver {
    /// Number of the first segment that has not arrived.
    expected: Psn,
    /// Departure time of the segment whose acknowledgement is delayed; the acknowledgement will echo it.
    held: Stamp,
    /// Time at which the delayed acknowledgement must be sent; [`Time::MAX`] while no acknowledgement is delayed.
    held_until: Time,
    /// Number of segments of the messages after the current one; 0 for a flow with one message.
    later: u32,
    /// Number of segments of the flow from segment `expected` to the end.
    left: u64,
    /// Whether the connection is set up: a SYN has arrived, or the settings turn the handshake off.
    connected: bool,
    /// Segments after segment `expected` that have arrived out of order.
    arrived: BitWindow,
}

impl TcpReceiver {
    /// Returns a cumulative acknowledgement to send now, which echoes `stamp`, the departure time of a segment. It
    /// replaces the delayed acknowledgement, if one is pending.
    fn ack_now(&mut self, stamp: Stamp) -> Option<Pdu> {
        self.held_until = Time::MAX;
        Some(Pdu::ack(self.expected, stamp))
    }

    fn on_syn(&mut self, cfg: &FlowConfig, pdu: Pdu) -> RxOutcome {
        if !cfg.tcp.handshake {
            return RxOutcome { discarded: true, ..RxOutcome::default() };
        }
        let repeated = std::mem::replace(&mut self.connected, true);
        let reply = Some(Pdu::ack(self.expected, pdu.stamp()).with_syn());
        RxOutcome { reply, discarded: repeated, ..RxOutcome::default() }
    }

    #[inline]
    fn in_order(&mut self, cfg: &FlowConfig, now: Time, stamp: Stamp) -> RxOutcome {
        let fills_gap = self.arrived.count() > 0;
        let run = if fills_gap { 1 + self.arrived.run_length(self.expected.plus(1)) } else { 1 };
        self.arrived.clear(self.expected, run);
        self.expected = self.expected.plus(run);
        self.left -= u64::from(run);
        let completed = self.left <= u64::from(self.later);
        let holding = self.held_until != Time::MAX;
        let reply = match cfg.tcp.delayed_acks {
            // The acknowledgement of the flow's last segment is not delayed, because in TCP a FIN would follow, which
            // the receiver would acknowledge immediately.
            Some(delay) if !fills_gap && !completed && !holding => {
                self.held = stamp;
                self.held_until = now.saturating_add(delay);
                None
            }
            _ => {
                let oldest = if holding { self.held } else { stamp };
                self.ack_now(oldest)
            }
        };
        RxOutcome { reply, completed, ..RxOutcome::default() }
    }
}

impl ReceiveRecovery for TcpReceiver {
    fn new(cfg: &FlowConfig, packets: u64, _now: Time) -> TcpReceiver {
        TcpReceiver {
            expected: cfg.first_psn,
            held: Stamp::default(),
            held_until: Time::MAX,
            later: 0,
            left: packets,
            connected: !cfg.tcp.handshake,
            arrived: super::window(cfg, packets),
        }
    }

    #[inline]
    fn on_data(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> RxOutcome {
        if pdu.is_syn() {
            return self.on_syn(cfg, pdu);
        }
        if !self.connected {
            return RxOutcome { discarded: true, ..RxOutcome::default() };
        }
        let ahead = pdu.psn().distance_from(self.expected);
        if ahead == 0 && self.left > 0 {
            return self.in_order(cfg, now, pdu.stamp());
        }
        let window = cfg.tcp.receive_window_segments(cfg.mtu);
        if ahead <= 0 || ahead as u32 >= window || ahead as u64 >= self.left {
            // The segment is old or outside the receive window (RFC 9293 section 3.10.7.4).
            let reply = self.ack_now(pdu.stamp());
            return RxOutcome { reply, discarded: true, ..RxOutcome::default() };
        }
        let new = self.arrived.set(pdu.psn());
        let mut reply = self.ack_now(pdu.stamp());
        if cfg.tcp.sack {
            let below = self.arrived.run_length_below(pdu.psn(), Pdu::MAX_BELOW.min(ahead as u32 - 1));
            reply = Some(Pdu::nack(self.expected, pdu.psn(), pdu.stamp()).with_below(below));
        }
        RxOutcome { reply, discarded: !new, ..RxOutcome::default() }
    }

    fn deadline(&self, _cfg: &FlowConfig) -> Option<Time> {
        (self.held_until != Time::MAX).then_some(self.held_until)
    }

    fn on_deadline(&mut self, _cfg: &FlowConfig, _now: Time) -> Option<Pdu> {
        self.ack_now(self.held)
    }

    fn is_complete(&self) -> bool {
        self.left == 0
    }

    fn missing(&self) -> (u64, bool) {
        super::super::missing(self.expected, self.left, &self.arrived)
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
