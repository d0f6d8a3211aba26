//! Monotonic time as [`Time`], and CPU time.

use nix::time::{ClockId, clock_gettime};
use rnic_transport::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Something that tells the time.
pub trait TimeSource {
    /// Time since the source's start. It never goes back.
    fn now(&self) -> Time;
}

/// The system's monotonic clock, counted from when the clock was started.
///
/// A reading is one `clock_gettime`, which Linux answers without a system call: cheap enough to take once per batch.
/// Copies count from the same start, in any thread. After 213 days it stands still, at the end of [`Time`].
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_ns: u64,
}

impl Clock {
    /// A clock that shows zero now.
    pub fn start() -> Clock {
        Clock { start_ns: read_ns(ClockId::CLOCK_MONOTONIC) }
    }
}

impl TimeSource for Clock {
    fn now(&self) -> Time {
        from_ns(read_ns(ClockId::CLOCK_MONOTONIC) - self.start_ns)
    }
}

/// A clock that shows what it is told, for tests. Copies show the same.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Goes on by `span`.
    pub fn advance(&self, span: Time) {
        self.0.fetch_add(span.as_ps(), Ordering::Relaxed);
    }
}

impl TimeSource for ManualClock {
    fn now(&self) -> Time {
        Time::from_ps(self.0.load(Ordering::Relaxed))
    }
}

/// CPU time that the calling thread has used, in the program and in the system.
pub fn thread_cpu_time() -> Time {
    from_ns(read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID))
}

/// Linux has all clocks read here, so that a reading cannot fail.
fn read_ns(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// `ns` nanoseconds, or the end of time.
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
    fn nanoseconds_become_picoseconds_up_to_the_end_of_time() {
        assert_eq!(from_ns(1_500), Time::from_ps(1_500_000));
        assert_eq!(from_ns(u64::MAX / 1_000 + 1), Time::MAX);
    }
}
