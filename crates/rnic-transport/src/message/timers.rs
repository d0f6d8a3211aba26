//! One timer per message.
//!
//! The hardware of the paper has a table of expiry times and a scan in the background that finds those that have passed. Here a heap
//! finds them. A timer that is set anew before it expires, as at every packet, costs one store: its entry in the heap stays where it is and is
//! moved when it comes up.

use crate::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One message's timer.
#[derive(Clone, Copy, Debug)]
struct Timer {
    /// When it expires; [`Time::MAX`]: it is off.
    expires: Time,
    /// Time of its entry in the heap; [`Time::MAX`]: it has none.
    queued: Time,
}

/// The timers of one direction, by message number.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    timers: Vec<Timer>,
    heap: BinaryHeap<Reverse<(Time, u16)>>,
    on: usize,
}

/// The next multiple of `scan` from `at` on: when a scan with this period sees it.
fn seen(at: Time, scan: Time) -> Time {
    if scan == Time::ZERO { at } else { Time::from_ps(at.as_ps().div_ceil(scan.as_ps()).saturating_mul(scan.as_ps())) }
}

impl Timers {
    /// Makes the timer expire at `at`, or at the scan that follows; [`Time::MAX`] is never.
    #[inline]
    pub(super) fn set(&mut self, number: u16, at: Time, scan: Time) {
        let at = seen(at, scan);
        let place = usize::from(number);
        if place >= self.timers.len() {
            self.timers.resize(place + 1, Timer { expires: Time::MAX, queued: Time::MAX });
        }
        let timer = &mut self.timers[place];
        self.on += usize::from(timer.expires == Time::MAX);
        self.on -= usize::from(at == Time::MAX);
        timer.expires = at;
        if at < timer.queued {
            timer.queued = at;
            self.heap.push(Reverse((at, number)));
        }
    }

    /// Turns the timer off.
    #[inline]
    pub(super) fn cancel(&mut self, number: u16) {
        if let Some(timer) = self.timers.get_mut(usize::from(number)) {
            self.on -= usize::from(timer.expires != Time::MAX);
            timer.expires = Time::MAX;
        }
    }

    /// No timer expires before this; none is on if there is none.
    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        if self.on == 0 {
            return None;
        }
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// The next timer that has expired by `now`, in order of time and number; it is off from then on.
    pub(super) fn expired(&mut self, now: Time) -> Option<u16> {
        while let Some(&Reverse((at, number))) = self.heap.peek()
            && at <= now
        {
            self.heap.pop();
            let timer = &mut self.timers[usize::from(number)];
            if timer.queued != at {
                continue; // an earlier entry took its place
            }
            timer.queued = Time::MAX;
            if timer.expires <= now {
                timer.expires = Time::MAX;
                self.on -= 1;
                return Some(number);
            }
            if timer.expires != Time::MAX {
                timer.queued = timer.expires;
                self.heap.push(Reverse((timer.expires, number)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Time {
        Time::from_us(us)
    }

    #[test]
    fn timers_expire_in_order_and_once() {
        let mut timers = Timers::default();
        timers.set(3, us(5), Time::ZERO);
        timers.set(1, us(2), Time::ZERO);
        timers.set(2, us(5), Time::ZERO);
        assert_eq!(timers.next(), Some(us(2)));
        assert_eq!(timers.expired(us(1)), None);
        assert_eq!([timers.expired(us(5)), timers.expired(us(5)), timers.expired(us(5))], [Some(1), Some(2), Some(3)]);
        assert_eq!((timers.expired(us(9)), timers.next()), (None, None));
    }

    #[test]
    fn setting_anew_keeps_one_entry() {
        let mut timers = Timers::default();
        for at in 1..100 {
            timers.set(0, us(at), Time::ZERO);
        }
        assert_eq!(timers.heap.len(), 1);
        assert_eq!(timers.expired(us(98)), None);
        assert_eq!(timers.next(), Some(us(99)));
        assert_eq!(timers.expired(us(99)), Some(0));
        // Earlier than its entry: a second entry, and the first is found out.
        timers.set(0, us(200), Time::ZERO);
        timers.set(0, us(150), Time::ZERO);
        assert_eq!(timers.next(), Some(us(150)));
        assert_eq!((timers.expired(us(150)), timers.expired(us(300))), (Some(0), None));
    }

    #[test]
    fn a_cancelled_timer_is_silent() {
        let mut timers = Timers::default();
        timers.set(0, us(5), Time::ZERO);
        timers.cancel(0);
        timers.cancel(0);
        timers.cancel(7);
        assert_eq!(timers.next(), None);
        timers.set(0, us(8), Time::ZERO);
        assert_eq!(timers.heap.len(), 1, "the entry of the first time is used again");
        assert_eq!((timers.expired(us(7)), timers.expired(us(8))), (None, Some(0)));
    }

    #[test]
    fn a_scan_sees_an_expiry_at_its_next_round() {
        let mut timers = Timers::default();
        timers.set(0, Time::from_ns(2_100), us(1));
        timers.set(1, us(2), us(1));
        assert_eq!((timers.expired(Time::from_ns(2_999)), timers.expired(us(3))), (Some(1), Some(0)));
        timers.set(0, Time::MAX, us(1));
        assert_eq!(timers.next(), None);
    }
}
