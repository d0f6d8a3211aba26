//! State that queue pairs of several transport services use: the earliest of several times, pending CNPs, times of
//! transmission, retries.

use crate::common::Common;
use crate::types::SendAttributes;
use rnic_transport::pdu::Stamp;
use rnic_transport::{Notifier, Psn, Time};
use rnic_wire::Bth;

/// The earliest of the times that were passed to it: when a timer fires or a packet is to be sent. [`Due::never`]
/// begins without a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due(Option<Time>);

impl Due {
    pub(crate) fn never() -> Due {
        Due(None)
    }
    pub(crate) fn at(&mut self, time: Time) {
        self.0 = Some(self.0.map_or(time, |due| due.min(time)));
    }
    pub(crate) fn immediately(&mut self) {
        self.0 = Some(Time::ZERO);
    }
    pub(crate) fn maybe(&mut self, time: Option<Time>) {
        if let Some(time) = time {
            self.at(time);
        }
    }
    pub(crate) fn time(self) -> Option<Time> {
        self.0
    }
}

/// Decides when a queue pair sends congestion notification packets (CNPs). CE-marked packets trigger CNPs, with a
/// minimum interval between two CNPs.
#[derive(Debug)]
pub(crate) struct CnpState {
    notifier: Notifier,
    /// Minimum time between two CNPs; `None`: the queue pair sends no CNPs.
    interval: Option<Time>,
    due: bool,
}

impl CnpState {
    pub(crate) fn new(interval: Option<Time>) -> CnpState {
        CnpState { notifier: Notifier::new(), interval, due: false }
    }

    /// Handles the arrival of a request or response packet, for which a CNP may be due; `marked` says whether it was
    /// CE-marked.
    pub(crate) fn on_packet(&mut self, now: Time, marked: bool) {
        if let Some(interval) = self.interval {
            self.due |= self.notifier.on_packet(interval, now, marked);
        }
    }

    /// Whether a CNP is to be sent now.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Returns whether a CNP is to be sent now. If so, the caller sends it, and it is no longer due.
    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }
}

/// When and how often each packet in flight was transmitted, for the measurement of round-trip times.
pub(crate) struct SendTimes {
    /// An entry for each packet in flight; the index is the PSN modulo the number of entries, which is a power of two.
    packets: Vec<Transmissions>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Transmissions {
    first: Stamp,
    last: Stamp,
    /// Number of transmissions before the last transmission, at most [`Bth::MAX_ATTEMPTS`].
    attempt: u8,
}

impl SendTimes {
    /// Creates room for at least `window` packets in flight.
    pub(crate) fn new(window: u32) -> SendTimes {
        SendTimes { packets: vec![Transmissions::default(); window.max(1).next_power_of_two() as usize] }
    }

    fn slot(&self, psn: Psn) -> usize {
        psn.value() as usize & (self.packets.len() - 1)
    }

    /// Records that the packet with PSN `psn` is sent now, as a `retransmission` or for the first time. Returns the
    /// number of its earlier transmissions, at most [`Bth::MAX_ATTEMPTS`].
    pub(crate) fn record(&mut self, psn: Psn, retransmission: bool, now: Time) -> u8 {
        let (slot, now) = (self.slot(psn), Stamp::at(now));
        let packet = &mut self.packets[slot];
        *packet = match retransmission {
            false => Transmissions { first: now, last: now, attempt: 0 },
            true => Transmissions { last: now, attempt: (packet.attempt + 1).min(Bth::MAX_ATTEMPTS), ..*packet },
        };
        packet.attempt
    }

    /// The time of the last transmission of the packet with PSN `psn`. If this packet is no longer in flight, a later
    /// packet may have taken its entry; then the result is the time of the later packet.
    pub(crate) fn last_sent(&self, psn: Psn) -> Stamp {
        self.packets[self.slot(psn)].last
    }

    /// The time of the transmission of the packet with PSN `psn` that the peer acknowledges: the transmission after
    /// `attempt` others. Only the times of the first and of the last transmission are stored. For a transmission
    /// between them the result is the time of the first: an earlier time is safe, because the arrival of a packet
    /// proves nothing about packets that were sent later.
    pub(crate) fn sent_at(&self, psn: Psn, attempt: u8) -> Stamp {
        let packet = self.packets[self.slot(psn)];
        if attempt == packet.attempt { packet.last } else { packet.first }
    }
}

/// Counters of the retries that are left after timeouts and after RNR NAKs (InfiniBand volume 1, sections 9.7.5.2.8 and
/// 9.9.2.4.2).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RetryState {
    retry_count: u8,
    rnr_retry: u8,
    retries: u8,
    rnr_retries: u8,
    /// Period within which all timeouts together use up only one retry.
    patience: Time,
    /// Time when a timeout last used up a retry; `None` if no timeout has since the retries were restored.
    counted: Option<Time>,
    /// Time until which the requester waits because of an RNR NAK; `None` if it is not waiting.
    rnr_wait_end: Option<Time>,
}

impl RetryState {
    /// Value of the attribute `rnr_retry` that means: retry after RNR NAKs without limit.
    const FOREVER: u8 = 7;

    pub(crate) fn new(c: &Common) -> RetryState {
        let SendAttributes { retry_count, rnr_retry, .. } = c.attributes;
        RetryState {
            retry_count,
            rnr_retry,
            retries: retry_count,
            rnr_retries: rnr_retry,
            patience: c.patience,
            ..RetryState::default()
        }
    }

    /// Called when the peer has acknowledged a packet for the first time: restores all retries.
    pub(crate) fn on_progress(&mut self) {
        self.on_sign_of_life();
        self.rnr_retries = self.rnr_retry;
    }

    /// Called when the peer has sent a packet that acknowledges no new packet: restores only the retries after
    /// timeouts.
    pub(crate) fn on_sign_of_life(&mut self) {
        self.retries = self.retry_count;
        self.counted = None;
    }

    /// Handles a retransmission timeout; returns whether to retransmit. `false`: no retry is left.
    pub(crate) fn on_timeout(&mut self, now: Time) -> bool {
        if self.counted.is_some_and(|counted| now < counted + self.patience) {
            return true;
        }
        self.counted = Some(now);
        let again = self.retries > 0;
        self.retries = self.retries.saturating_sub(1);
        again
    }

    /// Handles an RNR NAK that asks the requester to wait for `delay`. Returns whether to retransmit after this time;
    /// `false`: no retry is left.
    pub(crate) fn on_rnr_nak(&mut self, now: Time, delay: Time) -> bool {
        if self.rnr_wait_end.is_some() {
            return true;
        }
        if self.rnr_retry != RetryState::FOREVER {
            if self.rnr_retries == 0 {
                return false;
            }
            self.rnr_retries -= 1;
        }
        self.rnr_wait_end = Some(now + delay);
        true
    }

    pub(crate) fn rnr_wait_end(&self) -> Option<Time> {
        self.rnr_wait_end
    }

    /// Whether the requester is waiting because of an RNR NAK.
    pub(crate) fn in_rnr_wait(&self) -> bool {
        self.rnr_wait_end.is_some()
    }

    /// Ends the wait after an RNR NAK if its time has come; returns whether it ended.
    pub(crate) fn end_rnr_wait(&mut self, now: Time) -> bool {
        let over = self.rnr_wait_end.is_some_and(|end| end <= now);
        if over {
            self.rnr_wait_end = None;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_within_the_patience_use_up_one_retry() {
        let patience = Time::from_ms(10);
        let mut retry = RetryState { retry_count: 2, retries: 2, patience, ..RetryState::default() };
        let timeouts = [(0, true), (1, true), (9, true), (10, true), (19, true), (20, false)];
        for (ms, again) in timeouts {
            assert_eq!(retry.on_timeout(Time::from_ms(ms)), again, "at {ms} ms");
        }
        retry.on_progress();
        for (ms, again) in [(21, true), (30, true), (31, true), (40, true), (41, false)] {
            assert_eq!(retry.on_timeout(Time::from_ms(ms)), again, "at {ms} ms");
        }
    }

    #[test]
    fn an_ack_names_the_transmission_that_it_acknowledges() {
        let mut times = SendTimes::new(3);
        let (psn, us) = (Psn::new(0xff_ffff), Time::from_us);
        assert_eq!(times.record(psn, false, us(10)), 0);
        assert_eq!(times.sent_at(psn, 0), Stamp::at(us(10)));
        assert_eq!([times.record(psn, true, us(20)), times.record(psn, true, us(30))], [1, 2]);
        // The time of the second of three transmissions is not stored, so the result is the time of the first.
        let attempts = [(0, 10), (1, 10), (2, 30)];
        assert!(attempts.iter().all(|(attempt, at)| times.sent_at(psn, *attempt) == Stamp::at(us(*at))));
        assert_eq!(times.last_sent(psn), Stamp::at(us(30)));
        // The packet four PSNs later uses the same entry.
        assert_eq!(times.record(psn.plus(4), false, us(40)), 0);
        assert_eq!(times.sent_at(psn.plus(4), 0), Stamp::at(us(40)));
        assert_eq!((0..200).map(|_| times.record(psn, true, us(50))).last(), Some(127));
    }

    #[test]
    fn without_patience_each_timeout_counts() {
        let mut retry = RetryState { retry_count: 1, retries: 1, ..RetryState::default() };
        assert!(retry.on_timeout(Time::ZERO) && !retry.on_timeout(Time::ZERO));
    }
}
