//! Small things that queue pairs of several services have in common.

use crate::common::Common;
use crate::types::SendAttributes;
use rnic_transport::pdu::Stamp;
use rnic_transport::{Notifier, Psn, Time};
use rnic_wire::Bth;

/// The earliest of several times, if there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due(Option<Time>);

impl Due {
    pub(crate) fn never() -> Due {
        Due(None)
    }
    pub(crate) fn at(&mut self, time: Time) {
        self.0 = Some(self.0.map_or(time, |due| due.min(time)));
    }
    pub(crate) fn at_once(&mut self) {
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

/// Congestion marks on the packets that come in, and the notifications that they earn.
#[derive(Debug)]
pub(crate) struct Marks {
    notifier: Notifier,
    /// Shortest time between two notifications; without one there are none.
    interval: Option<Time>,
    due: bool,
}

impl Marks {
    pub(crate) fn new(interval: Option<Time>) -> Marks {
        Marks { notifier: Notifier::new(), interval, due: false }
    }

    /// A packet with data, or a request for data, arrived.
    pub(crate) fn packet(&mut self, now: Time, marked: bool) {
        if let Some(interval) = self.interval {
            self.due |= self.notifier.on_packet(interval, now, marked);
        }
    }

    /// Whether a notification is to be sent now.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }
}

/// When the packets of a window left, and how often.
pub(crate) struct Stamps {
    /// By sequence number, modulo their count.
    packets: Vec<Departure>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Departure {
    first: Stamp,
    last: Stamp,
    /// How often it left before the last time, at most [`Bth::MAX_ATTEMPTS`].
    attempt: u8,
}

impl Stamps {
    /// For at least `window` packets in flight.
    pub(crate) fn new(window: u32) -> Stamps {
        Stamps { packets: vec![Departure::default(); window.max(1).next_power_of_two() as usize] }
    }

    fn at(&self, psn: Psn) -> usize {
        psn.value() as usize & (self.packets.len() - 1)
    }

    /// Packet `psn` leaves, `again` or for the first time; returns how often it left before.
    pub(crate) fn set(&mut self, psn: Psn, again: bool, now: Time) -> u8 {
        let (at, now) = (self.at(psn), Stamp::at(now));
        let packet = &mut self.packets[at];
        *packet = match again {
            false => Departure { first: now, last: now, attempt: 0 },
            true => Departure { last: now, attempt: (packet.attempt + 1).min(Bth::MAX_ATTEMPTS), ..*packet },
        };
        packet.attempt
    }

    /// When packet `psn` last left; for one that is older than the window, something in the past.
    pub(crate) fn last(&self, psn: Psn) -> Stamp {
        self.packets[self.at(psn)].last
    }

    /// When packet `psn` left that arrived as the peer says; if it left again since, and more than once, when it first left: what arrived
    /// then proves nothing about what left later.
    pub(crate) fn of(&self, psn: Psn, attempt: u8) -> Stamp {
        let packet = self.packets[self.at(psn)];
        if attempt == packet.attempt { packet.last } else { packet.first }
    }
}

/// How often the peer may still stay silent, or without a receive (InfiniBand volume 1, sections 9.7.5.2.8 and 9.9.2.4.2).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    retry_count: u8,
    rnr_retry: u8,
    retries: u8,
    rnr_retries: u8,
    patience: Time,
    /// When a retry was last used up for a timeout.
    counted: Option<Time>,
    until: Option<Time>,
}

impl Waiting {
    /// A `rnr_retry` of this never ends.
    const FOREVER: u8 = 7;

    pub(crate) fn new(c: &Common) -> Waiting {
        let SendAttributes { retry_count, rnr_retry, .. } = c.attributes;
        let (retries, rnr_retries) = (retry_count, rnr_retry);
        Waiting { retry_count, rnr_retry, retries, rnr_retries, patience: c.patience, counted: None, until: None }
    }

    /// The peer has acknowledged something new.
    pub(crate) fn progress(&mut self) {
        self.sign_of_life();
        self.rnr_retries = self.rnr_retry;
    }

    /// The peer lives, though nothing new has happened.
    pub(crate) fn sign_of_life(&mut self) {
        self.retries = self.retry_count;
        self.counted = None;
    }

    /// The peer did not answer in time: whether to ask again.
    pub(crate) fn timed_out(&mut self, now: Time) -> bool {
        if self.counted.is_some_and(|counted| now < counted + self.patience) {
            return true;
        }
        self.counted = Some(now);
        let again = self.retries > 0;
        self.retries = self.retries.saturating_sub(1);
        again
    }

    /// The peer has no receive and wants to be left alone for `delay`: whether to ask again.
    pub(crate) fn not_ready(&mut self, now: Time, delay: Time) -> bool {
        if self.until.is_some() {
            return true;
        }
        if self.rnr_retry != Waiting::FOREVER {
            if self.rnr_retries == 0 {
                return false;
            }
            self.rnr_retries -= 1;
        }
        self.until = Some(now + delay);
        true
    }

    pub(crate) fn until(&self) -> Option<Time> {
        self.until
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.until.is_some()
    }

    /// Whether the wait is over; then it is forgotten.
    pub(crate) fn ends(&mut self, now: Time) -> bool {
        let over = self.until.is_some_and(|until| until <= now);
        if over {
            self.until = None;
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
        let mut waiting = Waiting { retry_count: 2, retries: 2, patience, ..Waiting::default() };
        let times = [(0, true), (1, true), (9, true), (10, true), (19, true), (20, false)];
        for (ms, again) in times {
            assert_eq!(waiting.timed_out(Time::from_ms(ms)), again, "at {ms} ms");
        }
        waiting.progress();
        for (ms, again) in [(21, true), (30, true), (31, true), (40, true), (41, false)] {
            assert_eq!(waiting.timed_out(Time::from_ms(ms)), again, "at {ms} ms");
        }
    }

    #[test]
    fn an_arrival_is_that_of_the_attempt_it_names() {
        let mut stamps = Stamps::new(3);
        let (psn, us) = (Psn::new(0xff_ffff), Time::from_us);
        assert_eq!(stamps.set(psn, false, us(10)), 0);
        assert_eq!(stamps.of(psn, 0), Stamp::at(us(10)));
        assert_eq!([stamps.set(psn, true, us(20)), stamps.set(psn, true, us(30))], [1, 2]);
        // The second attempt's time is forgotten: the first is the earliest that it can be.
        let times = [(0, 10), (1, 10), (2, 30)];
        assert!(times.iter().all(|(attempt, at)| stamps.of(psn, *attempt) == Stamp::at(us(*at))));
        assert_eq!(stamps.last(psn), Stamp::at(us(30)));
        // The same place, four packets on.
        assert_eq!(stamps.set(psn.plus(4), false, us(40)), 0);
        assert_eq!(stamps.of(psn.plus(4), 0), Stamp::at(us(40)));
        assert_eq!((0..200).map(|_| stamps.set(psn, true, us(50))).last(), Some(127));
    }

    #[test]
    fn without_patience_each_timeout_counts() {
        let mut waiting = Waiting { retry_count: 1, retries: 1, ..Waiting::default() };
        assert!(waiting.timed_out(Time::ZERO) && !waiting.timed_out(Time::ZERO));
    }
}
