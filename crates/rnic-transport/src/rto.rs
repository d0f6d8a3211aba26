//! The retransmission timeout that follows from measured round trips: RFC 6298, section 2.

use crate::Time;

/// What bounds a computed retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoBounds {
    /// Shortest (RFC 6298, rule 2.4).
    pub min: Time,
    /// Before the first measurement (rule 2.1).
    pub initial: Time,
    /// Longest, backed off or not (rules 2.5 and 5.5).
    pub max: Time,
}

/// Smoothed round-trip time and its variation, in nanoseconds, and the back-off of the timeout.
///
/// The gains are alpha = 1/8 and beta = 1/4, the variation counts K = 4 times, the clock's granularity G is 1 ns. Results round
/// to the nearest nanosecond. Measurements are good up to 4.3 s, the span of a [`Stamp`](crate::pdu::Stamp).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RttEstimator {
    srtt: u32,
    rttvar: u32,
    measured: bool,
    /// How often the timeout is doubled.
    doublings: u8,
}

impl RttEstimator {
    /// Doublings beyond this change nothing: the longest timeout is reached before.
    const MAX_DOUBLINGS: u8 = 32;

    /// Nothing measured yet.
    pub const fn new() -> RttEstimator {
        RttEstimator { srtt: 0, rttvar: 0, measured: false, doublings: 0 }
    }

    /// A round trip took `rtt`: rules 2.2 and 2.3. It ends any back-off (end of section 5).
    #[inline]
    pub fn sample(&mut self, rtt: Time) {
        let rtt = u32::try_from(rtt.as_ps() / 1_000).unwrap_or(u32::MAX);
        self.doublings = 0;
        if !self.measured {
            self.measured = true;
            self.srtt = rtt;
            self.rttvar = rtt / 2;
            return;
        }
        let apart = u64::from(self.srtt.abs_diff(rtt));
        self.rttvar = ((3 * u64::from(self.rttvar) + apart + 2) / 4) as u32;
        self.srtt = ((7 * u64::from(self.srtt) + u64::from(rtt) + 4) / 8) as u32;
    }

    /// The timer fired: the timeout doubles (rule 5.5), up to the longest.
    pub fn back_off(&mut self) {
        self.doublings = (self.doublings + 1).min(RttEstimator::MAX_DOUBLINGS);
    }

    /// How often the timer has fired since the last measurement.
    pub const fn doublings(&self) -> u32 {
        self.doublings as u32
    }

    /// Smoothed round-trip time, once there is a measurement.
    pub fn smoothed(&self) -> Option<Time> {
        self.measured.then(|| Time::from_ns(u64::from(self.srtt)))
    }

    /// Variation of the round-trip time, once there is a measurement.
    pub fn variation(&self) -> Option<Time> {
        self.measured.then(|| Time::from_ns(u64::from(self.rttvar)))
    }

    /// The timeout now.
    #[inline]
    pub fn timeout(&self, bounds: &RtoBounds) -> Time {
        let base = if self.measured {
            let ns = u64::from(self.srtt) + (4 * u64::from(self.rttvar)).max(1);
            Time::from_ns(ns).max(bounds.min)
        } else {
            bounds.initial
        };
        let doubled = base.as_ps().saturating_mul(1 << self.doublings);
        Time::from_ps(doubled).min(bounds.max)
    }
}
