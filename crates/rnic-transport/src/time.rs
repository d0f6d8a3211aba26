//! Time as the whole project counts it: integer picoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

/// An instant (since the start of a simulation or an endpoint) or a span, in integer picoseconds.
///
/// Sixty-four bits hold 213 days. One bit at 800 Gbps takes 1.25 ps, one byte at 40 Gbps exactly 200 ps,
/// so serialisation times of whole frames are exact at every standard Ethernet rate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The start of everything.
    pub const ZERO: Time = Time(0);
    /// Later than any event: "never".
    pub const MAX: Time = Time(u64::MAX);

    /// `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }
    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns * 1_000)
    }
    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Time {
        Time(us * 1_000_000)
    }
    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Time {
        Time(ms * 1_000_000_000)
    }
    /// Picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Microseconds, as a fraction.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// Seconds, as a fraction.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e12
    }
    /// The span from `earlier` to `self`, zero where `earlier` is later.
    pub const fn saturating_sub(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }
    /// The sum, or [`Time::MAX`] where it does not fit.
    pub const fn saturating_add(self, span: Time) -> Time {
        Time(self.0.saturating_add(span.0))
    }
    /// The span `factor` times as long, rounded to the nearest picosecond.
    pub fn scale(self, factor: f64) -> Time {
        Time((self.0 as f64 * factor).round() as u64)
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, span: Time) -> Time {
        Time(self.0 + span.0)
    }
}
impl AddAssign for Time {
    fn add_assign(&mut self, span: Time) {
        self.0 += span.0;
    }
}
impl Sub for Time {
    type Output = Time;
    fn sub(self, earlier: Time) -> Time {
        Time(self.0 - earlier.0)
    }
}
impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, count: u64) -> Time {
        Time(self.0 * count)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The largest unit in which the value has no more than six decimals: `2 us`, `1.5 ms`, `25.4304 us`, `217.2 ns`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Time::MAX {
            return f.write_str("never");
        }
        for (unit, ps) in [("s", 1_000_000_000_000u64), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000)] {
            if self.0 >= ps && self.0.is_multiple_of((ps / 1_000_000).max(1)) {
                return write!(f, "{} {unit}", self.0 as f64 / ps as f64);
            }
        }
        write!(f, "{} ps", self.0)
    }
}
