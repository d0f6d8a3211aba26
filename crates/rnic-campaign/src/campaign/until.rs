//! The condition under which a point of a campaign has been simulated with enough seeds.

use rnic_results::estimate::{CONFIDENCE, Estimate};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The metrics that [`Until`] accepts: numbers of `summary.json`, with the keys joined by dots.
pub const METRICS: [&str; 46] = [
    "slowdown.mean",
    "slowdown.p50",
    "slowdown.p95",
    "slowdown.p99",
    "slowdown.p999",
    "fct_us.mean",
    "fct_us.p50",
    "fct_us.p95",
    "fct_us.p99",
    "fct_us.p999",
    "rct_us",
    "requests.mean",
    "requests.p50",
    "requests.p99",
    "requests.max",
    "goodput_bps.mean",
    "goodput_bps.min",
    "goodput_bps.p10",
    "goodput_bps.p50",
    "goodput_bps.max",
    "drop_rate",
    "flows.offered",
    "flows.completed",
    "flows.measured",
    "flows.aborted",
    "packets.data",
    "packets.control",
    "packets.retransmitted",
    "packets.dropped",
    "packets.lost",
    "packets.marked",
    "packets.cnps",
    "packets.delivered",
    "packets.in_flight",
    "packets.hops",
    "packets.trimmed",
    "packets.returned",
    "pause.frames",
    "pause.time_us",
    "utilisation.hosts.mean",
    "utilisation.hosts.max",
    "utilisation.links.mean",
    "utilisation.links.max",
    "timeouts",
    "sim_time_us",
    "requests.count",
];

/// Seeds are added to a point until the confidence interval of the mean of a metric is narrow enough. It is written as
/// `slowdown.mean ± 5 %` (relative to the mean) or `fct_us.p99 ± 20` (in the metric's unit); `+-` is the same as `±`.
///
/// The interval is computed from Student's t distribution. It assumes that the values are independent (each has another
/// seed) and about normally distributed.
///
/// ```
/// use rnic_campaign::campaign::Until;
///
/// let until: Until = "slowdown.mean ± 5 %".parse().unwrap();
/// assert_eq!((until.metric.as_str(), until.width, until.is_relative), ("slowdown.mean", 0.05, true));
/// assert!("slowdwn.mean ± 5 %".parse::<Until>().unwrap_err().contains("accepted"));
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// The metric, one of [`METRICS`].
    pub metric: String,
    /// Maximum of half the width of the interval: a fraction of the mean if `is_relative`, else in the metric's unit.
    pub width: f64,
    /// Whether `width` is a fraction of the mean.
    pub is_relative: bool,
    /// Probability that the interval contains the mean over all seeds, above 0 and below 1.
    pub confidence: f64,
    /// Maximum number of seeds of a point.
    pub max_seeds: u32,
}

impl Until {
    /// Default probability that the interval contains the mean.
    pub const CONFIDENCE: f64 = CONFIDENCE;
    /// Default maximum number of seeds of a point.
    pub const MAX_SEEDS: u32 = 100;
    /// Default number of seeds with which a point begins.
    pub const FIRST_SEEDS: u32 = 5;

    /// Whether the interval of the estimate is narrow enough.
    pub fn is_narrow(&self, estimate: &Estimate) -> bool {
        estimate.half_width.is_some_and(|half| half <= self.limit(estimate))
    }

    /// Maximum of half the width of the interval, in the metric's unit.
    fn limit(&self, estimate: &Estimate) -> f64 {
        if self.is_relative { self.width * estimate.mean.abs() } else { self.width }
    }

    /// The number of seeds to simulate next, more than `values`; `None` if the interval is narrow enough or the maximum
    /// is reached. It depends on the values alone, so every engine simulates the same seeds.
    pub fn next(&self, values: &[f64]) -> Option<u32> {
        let count = values.len() as u32;
        let estimate = Estimate::of(values, self.confidence);
        if count >= self.max_seeds || estimate.is_some_and(|estimate| self.is_narrow(&estimate)) {
            return None;
        }
        // The width falls with the square root of the number of seeds. The number at most doubles, because the first
        // estimates of the variance are rough.
        let ratio = estimate.and_then(|estimate| Some(estimate.half_width? / self.limit(&estimate)));
        let needed = match ratio {
            Some(ratio) if ratio.is_finite() => (f64::from(count) * ratio.powi(2)).ceil(),
            _ => f64::from(count) * 2.0,
        };
        Some((needed.min(f64::from(count) * 2.0) as u32).clamp(count + 1, self.max_seeds))
    }

    /// Checks the values that are not in the text of a condition.
    ///
    /// # Errors
    /// A sentence that says what would be accepted.
    pub fn check(&self, seeds: u32) -> Result<(), String> {
        if !METRICS.contains(&self.metric.as_str()) {
            return Err(format!("there is no metric `{}`; accepted: {}", self.metric, METRICS.join(", ")));
        }
        if !(self.width > 0.0 && self.width.is_finite()) {
            return Err(format!("the width {} of the interval is not above 0", self.width));
        }
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            let text = "accepted: a probability above 0 and below 1, such as 0.95";
            return Err(format!("the confidence {} is no probability; {text}", self.confidence));
        }
        if seeds < 2 {
            return Err(format!("{seeds} seeds have no confidence interval; accepted: 2 or more"));
        }
        if self.max_seeds < seeds {
            return Err(format!("at most {} seeds are less than the first {seeds}", self.max_seeds));
        }
        Ok(())
    }
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Until, String> {
        let wrong = || format!("`{text}` is no condition; accepted: a metric and a width, as in `slowdown.mean ± 5 %`");
        let (metric, width) = text.split_once('±').or_else(|| text.split_once("+-")).ok_or_else(wrong)?;
        let (number, is_relative) = match width.trim().strip_suffix('%') {
            Some(number) => (number, true),
            None => (width, false),
        };
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        let until = Until {
            metric: metric.trim().to_string(),
            width: if is_relative { number / 100.0 } else { number },
            is_relative,
            confidence: Until::CONFIDENCE,
            max_seeds: Until::MAX_SEEDS,
        };
        until.check(Until::FIRST_SEEDS)?;
        Ok(until)
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, unit) = if self.is_relative { (self.width * 100.0, " %") } else { (self.width, "") };
        write!(f, "{} ± {width}{unit}", self.metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_added_until_the_interval_is_narrow() {
        let until = |text: &str| text.parse::<Until>().unwrap();
        let values = [2.0, 4.0, 6.0, 8.0];
        assert_eq!(until("rct_us ± 5").next(&values), None);
        // 4 * (4.1085 / 3.5)^2 = 5.5
        assert_eq!(until("rct_us ± 70 %").next(&values), Some(6));
        assert_eq!(until("rct_us +- 0.1").next(&values), Some(8), "at most twice as many");
        assert_eq!(Until { max_seeds: 7, ..until("rct_us ± 0.1") }.next(&values), Some(7));
        assert_eq!(Until { max_seeds: 4, ..until("rct_us ± 0.1") }.next(&values), None);
        assert_eq!(until("timeouts ± 5 %").next(&[0.0; 5]), None, "no variance");
        assert_eq!(until("timeouts ± 5 %").next(&[-1.0, 1.0]), Some(4), "a mean of 0");
    }

    #[test]
    fn conditions_are_text() {
        for text in ["slowdown.mean ± 5 %", "fct_us.p99 ± 20"] {
            assert_eq!(text.parse::<Until>().unwrap().to_string(), text);
        }
        for (text, expected) in [
            ("slowdown.mean", "accepted: a metric and a width"),
            ("slowdown.mean ± five", "accepted: a metric and a width"),
            ("slowdown.mean ± 0 %", "not above 0"),
            ("slowdown.mean ± -1", "not above 0"),
            ("slowdown.mean ± inf", "not above 0"),
            ("slowdown ± 5 %", "there is no metric `slowdown`; accepted: slowdown.mean, "),
        ] {
            let error = text.parse::<Until>().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
