//! Clocks of the endpoint: monotonic time as [`Time`], and the CPU time of a thread.

use nix::time::{ClockId, clock_gettime};
use rnic_transport::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A monotonic clock: the system's ([`Clock`]), or one that a test advances ([`ManualClock`]).
pub trait TimeSource {
    /// The time since the clock was started. It never goes back.
    fn now(&self) -> Time;
}

/// The system's monotonic clock. It counts from zero, from the call of [`Clock::start`] on.
///
/// A reading is one `clock_gettime`, for which Linux needs no system call, so the driver can read the clock for each
/// batch of packets. Copies of a `Clock` show the same time, in any thread. After 213 days the clock stops at
/// [`Time::MAX`], because [`Time`] counts picoseconds in 64 bits.
///
/// ```
/// use rnic_endpoint::{Clock, TimeSource};
///
/// let clock = Clock::start();
/// let start = clock.now();
/// assert!(clock.now() >= start);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_ns: u64,
}

impl Clock {
    /// Returns a clock that reads zero now.
    pub fn start() -> Clock {
        Clock { start_ns: read_ns(ClockId::CLOCK_MONOTONIC) }
    }
}

impl TimeSource for Clock {
    fn now(&self) -> Time {
        from_ns(read_ns(ClockId::CLOCK_MONOTONIC) - self.start_ns)
    }
}

/// A clock that moves only when a test calls [`ManualClock::advance`]. Copies of a `ManualClock` show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Moves the clock forward by `span`.
    pub fn advance(&self, span: Time) {
        self.0.fetch_add(span.as_ps(), Ordering::Relaxed);
    }
}

impl TimeSource for ManualClock {
    fn now(&self) -> Time {
        Time::from_ps(self.0.load(Ordering::Relaxed))
    }
}

/// Returns the CPU time that the calling thread has used so far, in user and in kernel mode together.
pub fn thread_cpu_time() -> Time {
    from_ns(read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID))
}

/// Returns the reading of a system clock in nanoseconds. Linux has every clock that this module reads, so a reading
/// cannot fail.
fn read_ns(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Converts nanoseconds to a [`Time`]. A value that does not fit becomes [`Time::MAX`].
fn from_ns(ns: u64) -> Time {
    Time::from_ps(ns.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_starts_at_zero_and_never_goes_back() {
        let clock = Clock::start();
        let copy = clock;
        let mut last = clock.now();
        assert!(last < Time::from_ms(60_000), "{last}");
        for _ in 0..10_000 {
            let now = copy.now();
            assert!(now >= last);
            last = now;
        }
        assert!(last > Time::ZERO);
    }

    #[test]
    fn nanoseconds_saturate_at_the_maximum() {
        assert_eq!(from_ns(1_500), Time::from_ps(1_500_000));
        assert_eq!(from_ns(u64::MAX / 1_000 + 1), Time::MAX);
    }
}
