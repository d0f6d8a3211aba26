//! The timers of the messages that a NIC sends or receives: one timer per message slot.
//!
//! The hardware of the NanoTransport paper has a table of expiry times, and a background scan that finds expired
//! timers. Here a heap finds expired timers. Every arriving data packet restarts the timer of its message, so a restart
//! must be cheap. A restart only stores the new expiry time; the timer's entry in the heap keeps the old time. When the
//! entry reaches the top of the heap, it moves to the new time.

use crate::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The timer of one message.
#[derive(Clone, Copy, Debug)]
struct Timer {
    /// Expiry time; [`Time::MAX`] if the timer is off.
    expires: Time,
    /// Time of the timer's entry in the heap; [`Time::MAX`] if it has none.
    queued: Time,
}

/// The timers of all messages that a NIC sends, or of all messages that it receives, by slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    timers: Vec<Timer>,
    /// Entries (time, slot), earliest first.
    heap: BinaryHeap<Reverse<(Time, u16)>>,
    /// Number of timers that are running.
    on: usize,
}

/// Rounds `at` up to a multiple of `granularity`; a granularity of zero means no rounding.
fn round_up(at: Time, granularity: Time) -> Time {
    if granularity == Time::ZERO {
        return at;
    }
    Time::from_ps(at.as_ps().div_ceil(granularity.as_ps()).saturating_mul(granularity.as_ps()))
}

impl Timers {
    /// Sets the timer of `slot` to expire at `at`, rounded up to a multiple of `granularity`. [`Time::MAX`] turns it
    /// off.
    #[inline]
    pub(super) fn set(&mut self, slot: u16, at: Time, granularity: Time) {
        let at = round_up(at, granularity);
        let index = usize::from(slot);
        if index >= self.timers.len() {
            self.timers.resize(index + 1, Timer { expires: Time::MAX, queued: Time::MAX });
        }
        let timer = &mut self.timers[index];
        self.on += usize::from(timer.expires == Time::MAX);
        self.on -= usize::from(at == Time::MAX);
        timer.expires = at;
        if at < timer.queued {
            timer.queued = at;
            self.heap.push(Reverse((at, slot)));
        }
    }

    /// Turns the timer of `slot` off.
    #[inline]
    pub(super) fn cancel(&mut self, slot: u16) {
        if let Some(timer) = self.timers.get_mut(usize::from(slot)) {
            self.on -= usize::from(timer.expires != Time::MAX);
            timer.expires = Time::MAX;
        }
    }

    /// The time at which to call [`Timers::expired`] next; `None` if no timer is on. No timer expires before this time.
    /// The time may be too early, because the heap still has the old time of a timer that was restarted or turned off.
    /// Then the call finds no expired timer.
    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        if self.on == 0 {
            return None;
        }
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the next timer that has expired by `now`, in order of expiry time and slot, and turns it off.
    pub(super) fn expired(&mut self, now: Time) -> Option<u16> {
        while let Some(&Reverse((at, slot))) = self.heap.peek()
            && at <= now
        {
            self.heap.pop();
            let timer = &mut self.timers[usize::from(slot)];
            if timer.queued != at {
                continue; // the timer has another, earlier entry
            }
            timer.queued = Time::MAX;
            if timer.expires <= now {
                timer.expires = Time::MAX;
                self.on -= 1;
                return Some(slot);
            }
            if timer.expires != Time::MAX {
                timer.queued = timer.expires;
                self.heap.push(Reverse((timer.expires, slot)));
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
    fn restarting_a_timer_keeps_one_entry() {
        let mut timers = Timers::default();
        for at in 1..100 {
            timers.set(0, us(at), Time::ZERO);
        }
        assert_eq!(timers.heap.len(), 1);
        assert_eq!(timers.expired(us(98)), None);
        assert_eq!(timers.next(), Some(us(99)));
        assert_eq!(timers.expired(us(99)), Some(0));
        // An expiry time before the time of the timer's entry adds a second entry. The first entry is ignored when it
        // reaches the top of the heap.
        timers.set(0, us(200), Time::ZERO);
        timers.set(0, us(150), Time::ZERO);
        assert_eq!(timers.next(), Some(us(150)));
        assert_eq!((timers.expired(us(150)), timers.expired(us(300))), (Some(0), None));
    }

    #[test]
    fn a_cancelled_timer_does_not_expire() {
        let mut timers = Timers::default();
        timers.set(0, us(5), Time::ZERO);
        timers.cancel(0);
        timers.cancel(0);
        timers.cancel(7);
        assert_eq!(timers.next(), None);
        timers.set(0, us(8), Time::ZERO);
        assert_eq!(timers.heap.len(), 1, "the cancelled timer's entry is reused");
        assert_eq!((timers.expired(us(7)), timers.expired(us(8))), (None, Some(0)));
    }

    #[test]
    fn expiry_times_are_rounded_up_to_the_granularity() {
        let mut timers = Timers::default();
        timers.set(0, Time::from_ns(2_100), us(1));
        timers.set(1, us(2), us(1));
        assert_eq!((timers.expired(Time::from_ns(2_999)), timers.expired(us(3))), (Some(1), Some(0)));
        timers.set(0, Time::MAX, us(1));
        assert_eq!(timers.next(), None);
    }
}
