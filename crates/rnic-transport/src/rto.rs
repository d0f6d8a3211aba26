//! The retransmission timeout (RTO) computed from measured round-trip times, after RFC 6298, section 2.

use crate::Time;

/// Minimum, initial and maximum value of a retransmission timeout that is computed from round-trip times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoBounds {
    /// Minimum timeout (RFC 6298, rule 2.4).
    pub min: Time,
    /// Timeout before the first round-trip time measurement (RFC 6298, rule 2.1).
    pub initial: Time,
    /// Maximum timeout, exponential back-off included (RFC 6298, rules 2.5 and 5.5).
    pub max: Time,
}

/// Estimates the round-trip time (RTT) and its variation, and computes the retransmission timeout with exponential
/// back-off.
///
/// The parameters of RFC 6298 are alpha = 1/8, beta = 1/4, K = 4, and a clock granularity G of 1 ns. RTT and variation
/// are stored in nanoseconds, rounded to the nearest nanosecond. A measurement must be less than 4.3 s, the range of a
/// [`Stamp`](crate::pdu::Stamp).
///
/// ```
/// use rnic_transport::Time;
/// use rnic_transport::rto::{RtoBounds, RttEstimator};
///
/// let bounds = RtoBounds { min: Time::from_us(10), initial: Time::from_ms(1), max: Time::from_ms(60) };
/// let mut rtt = RttEstimator::new();
/// assert_eq!(rtt.timeout(&bounds), Time::from_ms(1));
/// rtt.sample(Time::from_us(20));
/// assert_eq!(rtt.timeout(&bounds), Time::from_us(60), "SRTT + 4 RTTVAR = 20 us + 4 * 10 us");
/// rtt.back_off();
/// assert_eq!(rtt.timeout(&bounds), Time::from_us(120));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RttEstimator {
    /// Smoothed RTT in nanoseconds.
    srtt: u32,
    /// RTT variation in nanoseconds.
    rttvar: u32,
    /// Whether there was at least one measurement.
    measured: bool,
    /// Number of times that exponential back-off has doubled the timeout since the last RTT measurement.
    doublings: u8,
}

impl RttEstimator {
    /// Maximum number of doublings of the timeout. Further doublings would have no effect, because the timeout has
    /// reached its maximum.
    const MAX_DOUBLINGS: u8 = 32;

    /// An estimator without measurements.
    pub const fn new() -> RttEstimator {
        RttEstimator { srtt: 0, rttvar: 0, measured: false, doublings: 0 }
    }

    /// Adds an RTT measurement (RFC 6298, rules 2.2 and 2.3), and ends the exponential back-off (end of section 5).
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

    /// Doubles the timeout, up to the maximum, because the retransmission timer fired (RFC 6298, rule 5.5).
    pub fn back_off(&mut self) {
        self.doublings = (self.doublings + 1).min(RttEstimator::MAX_DOUBLINGS);
    }

    /// Number of times that the retransmission timer has fired since the last RTT measurement, at most 32.
    pub const fn doublings(&self) -> u32 {
        self.doublings as u32
    }

    /// The smoothed RTT (SRTT); `None` before the first measurement.
    pub fn smoothed(&self) -> Option<Time> {
        self.measured.then(|| Time::from_ns(u64::from(self.srtt)))
    }

    /// The RTT variation (RTTVAR); `None` before the first measurement.
    pub fn variation(&self) -> Option<Time> {
        self.measured.then(|| Time::from_ns(u64::from(self.rttvar)))
    }

    /// The current retransmission timeout.
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
