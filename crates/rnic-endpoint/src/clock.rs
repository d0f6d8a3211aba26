//! Clocks of the endpoint: monotonic time as [`Time`], and the CPU time of a thread.

use crate::sync::lock;
use nix::time::{ClockId, clock_gettime};
use rnic_transport::Time;
use rnic_verbs::Device;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A monotonic clock: the system's ([`Clock`]), or one that a test advances ([`ManualClock`]).
pub trait TimeSource {
    /// The time since the clock was started. It never goes back.
    fn now(&self) -> Time;
}

/// The system's monotonic clock. It counts from zero, from the call of [`Clock::start`] on.
///
/// A reading is one `clock_gettime`, for which Linux needs no system call, so the driver can read the clock for each
/// batch of packets. Copies of a `Clock` show the same time, in any thread. It is a stopwatch: after 213 days it stops
/// at [`Time::MAX`], because [`Time`] counts picoseconds in 64 bits. (The clock of a device has no end.)
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
        Clock { start_ns: monotonic_ns() }
    }
}

impl TimeSource for Clock {
    fn now(&self) -> Time {
        from_ns(monotonic_ns() - self.start_ns)
    }
}

/// The clock of a device ([`Device::clock`](crate::Device::clock)), which never ends: before its reading becomes too
/// large for a [`Time`], the device moves the clock's origin, by 2^52 ns (52 days), and the reading goes back. Copies
/// share the origin. A [`ContinuousClock`] has readings that never go back.
///
/// A thread that passes a reading to the device takes it while it has locked the device or its driver, so that no
/// reading from before a rebase reaches the device after it.
#[derive(Clone, Debug)]
pub struct DeviceClock {
    origin_ns: Arc<AtomicU64>,
}

impl DeviceClock {
    /// The reading from which on the device moves the origin: one and a half epochs, 78 days.
    pub(crate) const END: Time = Time::from_ns(3 << 51);

    /// Returns a clock that reads zero now.
    pub(crate) fn start() -> DeviceClock {
        DeviceClock::reading(Time::ZERO)
    }

    /// Returns a clock that reads `reading` now.
    pub(crate) fn reading(reading: Time) -> DeviceClock {
        let origin = monotonic_ns().wrapping_sub(reading.as_ps() / 1_000);
        DeviceClock { origin_ns: Arc::new(AtomicU64::new(origin)) }
    }

    /// The current reading. If it is too large, first moves the origin of the clock and of `device`, which this thread
    /// must not have locked.
    #[inline]
    pub(crate) fn now_for(&self, device: &Mutex<Device>) -> Time {
        let now = self.now();
        if now < DeviceClock::END { now } else { self.rebase(device) }
    }

    /// Moves the origin of the clock and of `device` by whole epochs, until the reading is small enough. Returns the
    /// reading.
    #[cold]
    fn rebase(&self, device: &Mutex<Device>) -> Time {
        let mut device = lock(device);
        while self.now() >= DeviceClock::END {
            device.rebase();
            self.origin_ns.fetch_add(Device::EPOCH.as_ps() / 1_000, Ordering::Relaxed);
        }
        self.now()
    }
}

impl DeviceClock {
    /// Converts a reading of the clock, at most 52 days old, to the reading of the system's monotonic clock at the same
    /// time, in nanoseconds. A later reading yields a later time, also if the device has moved the clock's origin.
    pub fn monotonic_ns(&self, reading: Time) -> u64 {
        // A reading from before a move of the origin is larger than all readings after the move.
        let reading = if reading > self.now() { reading.saturating_sub(Device::EPOCH) } else { reading };
        self.origin_ns.load(Ordering::Relaxed).wrapping_add(reading.as_ps() / 1_000)
    }
}

impl DeviceClock {
    /// Converts a reading of the system's monotonic clock, in nanoseconds, to the reading of this clock at the same
    /// time. Times before the clock's origin become 0.
    pub(crate) fn reading_at(&self, monotonic_ns: u64) -> Time {
        from_ns(monotonic_ns.saturating_sub(self.origin_ns.load(Ordering::Relaxed)))
    }
}

impl TimeSource for DeviceClock {
    fn now(&self) -> Time {
        from_ns(monotonic_ns().wrapping_sub(self.origin_ns.load(Ordering::Relaxed)))
    }
}

/// The time from the reading `earlier` of a [`DeviceClock`] until the reading `later`, if it is less than 52 days. The
/// device may have moved the clock's origin in between.
pub fn since(later: Time, earlier: Time) -> Time {
    if later < earlier { (later + Device::EPOCH).saturating_sub(earlier) } else { later - earlier }
}

/// The time since this clock was started on the clock of a device. Its readings never go back, and stop at
/// [`Time::MAX`], after 213 days: a program that runs for longer uses differences ([`since`]), or starts a new clock.
/// It also converts times of completions.
///
/// ```
/// use rnic_endpoint::clock::{ContinuousClock, TimeSource};
/// use rnic_endpoint::{Config, Device};
///
/// # fn main() -> Result<(), rnic_endpoint::Error> {
/// let device = Device::open_at("127.0.0.1:0".parse().unwrap(), Config::default())?;
/// let clock = ContinuousClock::start(device.clock());
/// let first = clock.now();
/// assert!(clock.now() >= first);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ContinuousClock {
    clock: DeviceClock,
    /// Reading of the device's clock at the start, in ps.
    origin_ps: u64,
    /// The latest time, in ps, counted like the device's clock at the start.
    latest_ps: AtomicU64,
}

impl ContinuousClock {
    /// Returns a clock that reads zero now.
    pub fn start(clock: DeviceClock) -> ContinuousClock {
        let origin_ps = clock.now().as_ps();
        ContinuousClock { clock, origin_ps, latest_ps: AtomicU64::new(origin_ps) }
    }

    /// Converts a reading of the device's clock, or the time of a completion, to the time since the start. The reading
    /// must be less than 26 days older or newer than the latest one.
    pub fn time(&self, reading: Time) -> Time {
        let epoch = Device::EPOCH.as_ps();
        let latest = self.latest_ps.load(Ordering::Relaxed);
        let ahead = (reading.as_ps() % epoch + epoch - latest % epoch) % epoch;
        let time = match ahead < epoch / 2 {
            true => latest.saturating_add(ahead),
            false => latest.saturating_sub(epoch - ahead),
        };
        self.latest_ps.fetch_max(time, Ordering::Relaxed);
        Time::from_ps(time.saturating_sub(self.origin_ps))
    }
}

impl TimeSource for ContinuousClock {
    fn now(&self) -> Time {
        self.time(self.clock.now())
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

/// The reading of the system's monotonic clock in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    read_ns(ClockId::CLOCK_MONOTONIC)
}

/// The reading of the system's real-time clock: nanoseconds since 1970.
pub(crate) fn real_ns() -> u64 {
    read_ns(ClockId::CLOCK_REALTIME)
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
    fn the_clock_of_a_device_goes_back_before_its_end() {
        let device = Mutex::new(Device::new(rnic_verbs::DeviceConfig::default()));
        let before = DeviceClock::reading(DeviceClock::END.saturating_sub(Time::from_ms(3_600_000)));
        assert!(before.now_for(&device) > Device::EPOCH, "an hour before");
        // As after a pause without polls: almost three epochs are left out at once.
        for passed in [DeviceClock::END, Device::EPOCH * 3, Device::EPOCH * 4] {
            lock(&device).advance_to(passed);
            let clock = DeviceClock::reading(passed);
            let copy = clock.clone();
            let now = clock.now_for(&device);
            assert!(now < DeviceClock::END && copy.now() < DeviceClock::END, "{passed}: {now}");
            assert!(now >= DeviceClock::END.saturating_sub(Device::EPOCH), "{passed}: {now}");
            assert!(lock(&device).now() <= now);
        }
    }

    #[test]
    fn readings_convert_to_monotonic_time_in_order() {
        let second = Time::from_ms(1_000);
        let clock = DeviceClock::reading(Device::EPOCH + second);
        let old = Device::EPOCH + second - Time::from_us(1);
        let time = clock.monotonic_ns(old);
        assert_eq!(clock.monotonic_ns(old - Time::from_us(1)), time - 1_000);
        assert!(time <= monotonic_ns());
        // The device moves the origin.
        clock.origin_ns.fetch_add(Device::EPOCH.as_ps() / 1_000, Ordering::Relaxed);
        assert_eq!(clock.monotonic_ns(old), time, "a completion from before");
        assert_eq!(clock.monotonic_ns(second), time + 1_000, "and one from after the move");
    }

    #[test]
    fn a_difference_of_readings_ignores_a_move_of_the_origin() {
        let us = Time::from_us;
        assert_eq!(since(us(5), us(3)), us(2));
        assert_eq!(since(us(5), Device::EPOCH + us(3)), us(2));
    }

    #[test]
    fn a_continuous_clock_never_goes_back() {
        let (epoch, us) = (Device::EPOCH, Time::from_us(1));
        let clock =
            ContinuousClock { clock: DeviceClock::start(), origin_ps: us.as_ps(), latest_ps: us.as_ps().into() };
        let weeks = Time::from_ms(14 * 24 * 3_600_000);
        for n in 1..=5 {
            assert_eq!(clock.time(weeks * n + us), weeks * n);
        }
        // The device moves its origin; a completion is from before.
        assert_eq!(clock.time(weeks * 5 + us * 2 - epoch), weeks * 5 + us);
        assert_eq!(clock.time(weeks * 5), weeks * 5 - us);
        for n in 6..=15 {
            let reading = Time::from_ps((weeks * n + us).as_ps() % epoch.as_ps());
            assert_eq!(clock.time(reading), weeks * n);
        }
    }

    #[test]
    fn a_continuous_clock_stops_at_its_end() {
        let late = u64::MAX - 1_000_000;
        let clock = ContinuousClock { clock: DeviceClock::start(), origin_ps: 0, latest_ps: late.into() };
        let reading = |ps: u64| Time::from_ps((late % Device::EPOCH.as_ps() + ps) % Device::EPOCH.as_ps());
        assert_eq!(clock.time(reading(1_000)), Time::from_ps(late + 1_000));
        assert_eq!(clock.time(reading(5_000_000)), Time::MAX);
    }

    #[test]
    fn nanoseconds_saturate_at_the_maximum() {
        assert_eq!(from_ns(1_500), Time::from_ps(1_500_000));
        assert_eq!(from_ns(u64::MAX / 1_000 + 1), Time::MAX);
    }
}
