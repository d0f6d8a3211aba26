//! Time in integer picoseconds: the time type of the simulator and the endpoint.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

/// An instant (counted from the start of the simulation or of the endpoint) or a duration, in integer picoseconds.
///
/// The range is 213 days. One byte takes exactly 200 ps at 40 Gbps and 10 ps at 800 Gbps; serialisation times of whole
/// frames are exact at every standard Ethernet rate.
///
/// ```
/// use rnic_transport::Time;
///
/// let sent = Time::from_us(5);
/// let rtt = Time::from_ns(7_200) - sent;
/// assert_eq!(rtt, Time::from_ps(2_200_000));
/// assert_eq!(rtt.to_string(), "2.2 us");
/// assert_eq!("2.2 us".parse(), Ok(rtt));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// Time zero: the start of the simulation or of the endpoint, or a duration of zero.
    pub const ZERO: Time = Time(0);
    /// The largest time, later than any event; stands for "never".
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
    /// The time in picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// The time in microseconds, as a floating-point number.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// The time in seconds, as a floating-point number.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e12
    }
    /// The duration from `earlier` to `self`; zero if `earlier` is later than `self`.
    pub const fn saturating_sub(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }
    /// The sum of the two times; [`Time::MAX`] if it overflows.
    pub const fn saturating_add(self, span: Time) -> Time {
        Time(self.0.saturating_add(span.0))
    }
    /// This instant, counted from an origin that is later by `by`. [`Time::ZERO`] if it precedes that origin;
    /// [`Time::MAX`], which stands for "never", stays.
    pub fn rebased(self, by: Time) -> Time {
        if self == Time::MAX { self } else { self.saturating_sub(by) }
    }
    /// This duration multiplied by `factor`, rounded to the nearest picosecond.
    pub fn scale(self, factor: f64) -> Time {
        Time((self.0 as f64 * factor).round() as u64)
    }
    /// The time rounded down to nine significant digits, for messages to people.
    ///
    /// ```
    /// use rnic_transport::Time;
    ///
    /// let end = Time::from_ns(4_482_036_638_312_036);
    /// assert_eq!(end.to_string(), "4482036638.312036 ms");
    /// assert_eq!(end.rounded().to_string(), "4482036.63 s");
    /// ```
    pub fn rounded(self) -> Time {
        let step = 10_u64.pow(self.0.checked_ilog10().unwrap_or(0).saturating_sub(8));
        if self == Time::MAX { self } else { Time(self.0 / step * step) }
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

/// Prints the time in the largest unit in which it has at most six decimals: `2 us`, `1.5 ms`, `25.4304 us`, `217.2
/// ns`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Time::MAX {
            return f.write_str("never");
        }
        for (unit, ps) in [("s", 1_000_000_000_000u64), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000)] {
            if self.0 >= ps && self.0.is_multiple_of((ps / 1_000_000).max(1)) {
                // The digits are those of integers, because a long time has more digits than an `f64`.
                let millionths = self.0 % ps * 1_000_000 / ps;
                let digits = format!("{}.{millionths:06}", self.0 / ps);
                return write!(f, "{} {unit}", digits.trim_end_matches('0').trim_end_matches('.'));
            }
        }
        write!(f, "{} ps", self.0)
    }
}
