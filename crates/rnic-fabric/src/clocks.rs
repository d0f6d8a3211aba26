//! Imperfect clocks: nodes whose oscillators differ, and links whose frames arrive a little later than computed.
//!
//! In a simulation with perfect clocks and links of equal length, many frames arrive at the same picosecond, and they
//! keep doing so for the whole run. Real clocks drift apart: IEEE 802.3 allows a transmit clock of a link of 10 Gbps or
//! more to differ by 100 ppm from its nominal rate. The simulator draws both imperfections, of clock rates and of
//! arrival times, from random streams that the run's seed determines.

use crate::rng::{Purpose, Stream, mix};
use rnic_transport::{BitRate, Time};

/// The imperfections of all clocks of a fabric; none by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct ClockSpec {
    /// Maximum difference of a node's clock from the nominal rate, in parts per million, below 1,000,000. Each node
    /// draws its own difference uniformly from minus to plus this value, and transmits faster or slower on all of its
    /// links.
    pub skew_ppm: u32,
    /// Maximum additional delay of a frame on a link. Each frame draws its own delay uniformly from zero to this value.
    /// Frames never overtake each other. The delay also decides at random which of two frames arrives first if both
    /// would arrive at the same time.
    pub jitter: Time,
}

impl ClockSpec {
    /// The rate, in bits per second, at which a node with its imperfect clock transmits on a link of the nominal rate
    /// `rate`.
    pub(crate) fn rate(&self, rate: BitRate, seed: u64, node: u32) -> u64 {
        const PARTS: u128 = 1_000_000_000;
        let skew = u128::from(self.skew_ppm) * 1_000;
        // Uniform in 0..=2 x skew, from the upper half of a product.
        let drawn = (u128::from(mix(seed, Purpose::ClockSkew, &[node.into()])) * (2 * skew + 1)) >> 64;
        let scaled = u128::from(rate.as_bps()) * (PARTS - skew + drawn) / PARTS;
        u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
    }

    /// The highest rate at which any node transmits on a link of the nominal rate `rate`.
    pub(crate) fn max_rate(&self, rate: BitRate) -> BitRate {
        let scaled = u128::from(rate.as_bps()) * (1_000_000 + u128::from(self.skew_ppm)) / 1_000_000;
        BitRate::from_bps(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// The number of bytes that a node with the fastest possible clock sends in the time in which a node with the
    /// slowest sends `bytes`, rounded up.
    pub(crate) fn stretched(&self, bytes: u64) -> u64 {
        let (fast, slow) = (1_000_000 + u128::from(self.skew_ppm), 1_000_000 - u128::from(self.skew_ppm));
        u64::try_from((u128::from(bytes) * fast).div_ceil(slow)).unwrap_or(u64::MAX)
    }
}

/// The jitter (random additional delays of frames) of one direction of a link.
pub(crate) struct Jitter {
    stream: Stream,
    max: u64,
    /// Arrival time of the latest frame, before which no later frame may arrive.
    last: u64,
}

impl Jitter {
    /// The jitter of the link from port `port`; `None` if `clocks` has no jitter.
    pub(crate) fn new(clocks: &ClockSpec, seed: u64, port: usize) -> Option<Jitter> {
        let max = clocks.jitter.as_ps();
        (max > 0).then(|| Jitter { stream: Stream::new(seed, Purpose::Jitter, &[port as u64]), max, last: 0 })
    }

    /// The arrival time of the next frame, which would arrive at `at` without jitter.
    pub(crate) fn delayed(&mut self, at: u64) -> u64 {
        let drawn = (u128::from(self.stream.next_u64()) * (u128::from(self.max) + 1)) >> 64;
        self.last = (at + drawn as u64).max(self.last);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_fill_the_range_of_the_skew_and_depend_on_seed_and_node() {
        let clocks = ClockSpec { skew_ppm: 100, ..ClockSpec::default() };
        let nominal = BitRate::from_gbps(40);
        let rates: Vec<u64> = (0..1_000).map(|node| clocks.rate(nominal, 7, node)).collect();
        let (min, max) = (*rates.iter().min().unwrap(), *rates.iter().max().unwrap());
        assert!((39_996_000_000..39_996_100_000).contains(&min), "{min}");
        assert!((40_003_900_000..=40_004_000_000).contains(&max), "{max}");
        assert_eq!(clocks.max_rate(nominal), BitRate::from_bps(40_004_000_000));
        assert_ne!(clocks.rate(nominal, 8, 0), rates[0]);
        assert_eq!(ClockSpec::default().rate(nominal, 7, 3), nominal.as_bps());
    }

    #[test]
    fn frames_are_late_by_at_most_the_jitter_and_stay_in_order() {
        let clocks = ClockSpec { jitter: Time::from_ps(500), ..ClockSpec::default() };
        let mut jitter = Jitter::new(&clocks, 1, 0).unwrap();
        let (mut last, mut latest) = (0, 0);
        for frame in 0..1_000 {
            let at = frame * 100;
            let arrival = jitter.delayed(at);
            assert!(arrival >= last && (at..=at + 500).contains(&arrival));
            latest = latest.max(arrival - at);
            last = arrival;
        }
        assert!(latest > 490);
        assert!(Jitter::new(&ClockSpec::default(), 1, 0).is_none());
    }

    #[test]
    fn bytes_stretch_by_the_ratio_of_the_fastest_to_the_slowest_clock() {
        assert_eq!(ClockSpec { skew_ppm: 10_000, ..ClockSpec::default() }.stretched(99_000), 101_000);
        assert_eq!(ClockSpec { skew_ppm: 100, ..ClockSpec::default() }.stretched(1), 2);
        assert_eq!(ClockSpec::default().stretched(99_000), 99_000);
    }
}
