//! A model of the sender's logic that the authors of IRN published, where it differs from the core's logic. The
//! hardware with the published logic is compared with this model. The code is written for reading, not for speed.
//!
//! The differences from [`rnic_transport::recovery::IrnSender`]:
//!
//! - Every retransmission advances the recovery sequence, not only a retransmission of a packet that is proven lost.
//! - A partial acknowledgement makes the sender retransmit the new first missing packet whenever this recovery has not
//!   retransmitted it yet; the departure time of the packet that caused the acknowledgement does not matter.
//! - The timer is armed with RTO_low or RTO_high when it starts. A short timer that expires while more than N packets
//!   are in flight is extended to RTO_high.

use rnic_transport::Psn;
use std::collections::VecDeque;

/// A sender with the published logic. Times are in nanoseconds modulo 2^32.
#[derive(Clone, Debug)]
pub struct Published {
    /// First packet not acknowledged cumulatively.
    pub first_missing: Psn,
    /// First packet never sent.
    pub next: Psn,
    /// During recovery: every lost packet before this PSN has been retransmitted.
    pub retransmit_next: Psn,
    /// During recovery: the recovery sequence.
    pub recover: Psn,
    /// Highest selectively acknowledged packet; valid only while a packet is selectively acknowledged.
    pub highest_sacked: Psn,
    /// Whether the sender is in recovery.
    pub in_recovery: bool,
    /// Whether to retransmit packet `first_missing` next.
    pub retransmit_first: bool,
    /// Whether the timer is armed with RTO_high.
    pub rto_high: bool,
    /// Time at which the timer was last started.
    pub timer_start: u32,
    /// For each packet from `first_missing` on, whether it is selectively acknowledged; one entry per packet in flight.
    pub sacked: VecDeque<bool>,
    /// BDP-FC's cap on packets in flight.
    pub cap: u32,
    /// N: maximum number of packets in flight at which the timeout is RTO_low.
    pub low_packets: u32,
    /// RTO_low and RTO_high in nanoseconds.
    pub timeouts: (u32, u32),
}

impl Published {
    /// A sender without packets whose first PSN is `first`.
    pub fn new(first: Psn, cap: u32, low_packets: u32, timeouts: (u32, u32)) -> Published {
        Published {
            first_missing: first,
            next: first,
            retransmit_next: first,
            recover: first,
            highest_sacked: first,
            in_recovery: false,
            retransmit_first: false,
            rto_high: false,
            timer_start: 0,
            sacked: VecDeque::new(),
            cap,
            low_packets,
            timeouts,
        }
    }

    /// Packets in flight.
    pub fn in_flight(&self) -> u32 {
        self.sacked.len() as u32
    }

    fn start_timer(&mut self, now: u32) {
        self.timer_start = now;
        self.rto_high = self.in_flight() > self.low_packets;
    }

    fn last_sent(&self) -> Psn {
        self.next.plus(Psn::MODULUS - 1)
    }

    fn enter_recovery(&mut self) {
        self.in_recovery = true;
        self.retransmit_first = true;
        self.retransmit_next = self.first_missing;
        self.recover = self.last_sent();
    }

    /// Handles an ACK, or a NACK that packet `trigger` caused. Returns the number of packets newly acknowledged
    /// cumulatively, and whether a recovery begins.
    pub fn receive_ack(&mut self, now: u32, expected: Psn, trigger: Option<Psn>) -> (u32, bool) {
        let advance = expected.distance_from(self.first_missing);
        if advance < 0 || advance > self.in_flight() as i32 {
            return (0, false);
        }
        for _ in 0..advance {
            self.sacked.pop_front();
            self.first_missing = self.first_missing.plus(1);
        }
        if advance > 0 {
            self.retransmit_first = false;
            if self.recover.is_before(expected) {
                self.in_recovery = false;
            }
            if self.in_recovery && !expected.is_before(self.retransmit_next) {
                self.retransmit_first = true;
            }
        }
        self.start_timer(now);
        let Some(trigger) = trigger else { return (advance as u32, false) };
        let offset = trigger.distance_from(expected);
        if offset <= 0 || offset >= self.in_flight() as i32 {
            return (advance as u32, false);
        }
        let first = !self.sacked.contains(&true);
        if !std::mem::replace(&mut self.sacked[offset as usize], true) {
            self.highest_sacked = if first { trigger } else { self.highest_sacked.later(trigger) };
        }
        let entered = !self.in_recovery;
        if entered {
            self.enter_recovery();
        }
        (advance as u32, entered)
    }

    /// The next packet that counts as lost.
    fn next_lost(&self) -> Option<Psn> {
        if !self.sacked.contains(&true) {
            return None;
        }
        let from = self.retransmit_next.later(self.first_missing);
        let count = self.highest_sacked.distance_from(from).max(0) as u32;
        let acknowledged = |psn: &Psn| self.sacked.get(psn.since(self.first_missing) as usize) == Some(&true);
        (0..count).map(|offset| from.plus(offset)).find(|psn| !acknowledged(psn))
    }

    /// Chooses the next packet to send among the packets before `end`. The congestion control allows `window` packets
    /// in flight. Returns the packet's PSN and whether it is a retransmission.
    pub fn tx_free(&mut self, now: u32, window: u32, end: Psn) -> Option<(Psn, bool)> {
        if self.in_recovery {
            let lost = if self.retransmit_first { Some(self.first_missing) } else { self.next_lost() };
            if let Some(psn) = lost {
                if psn == self.first_missing {
                    self.retransmit_first = false;
                    self.start_timer(now);
                }
                self.retransmit_next = psn.plus(1);
                self.recover = self.last_sent();
                return Some((psn, true));
            }
        }
        if self.in_flight() >= window.min(self.cap) || self.next == end {
            return None;
        }
        let psn = self.next;
        self.next = psn.plus(1);
        self.sacked.push_back(false);
        if self.in_flight() == 1 {
            self.start_timer(now);
        }
        Some((psn, false))
    }

    /// Checks the timer. Returns whether it has expired, and whether it was extended from RTO_low to RTO_high.
    pub fn timeout(&mut self, now: u32) -> (bool, bool) {
        let (low, high) = self.timeouts;
        let length = if self.rto_high { high } else { low };
        if self.in_flight() == 0 || now.wrapping_sub(self.timer_start) < length {
            return (false, false);
        }
        if !self.rto_high && self.in_flight() > self.low_packets {
            self.rto_high = true;
            return (false, true);
        }
        self.enter_recovery();
        self.start_timer(now);
        (true, false)
    }
}
