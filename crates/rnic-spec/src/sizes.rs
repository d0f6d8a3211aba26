//! Distributions of flow sizes, each given by points of its CDF: random samples and exact means.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A distribution of flow sizes, given by points of its CDF.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeDistribution {
    /// Name of the distribution in the scenario: a file name, or for example `irn-heavy-tailed`, `websearch`,
    /// `fixed 1 MB` or `uniform 500 KB - 5 MB`.
    pub name: String,
    /// Points of the CDF, as (bytes, cumulative probability). Neither coordinate decreases from point to point, and the
    /// last probability is 1. Between two points the CDF is linear. Two points of equal probability form a gap: sizes
    /// between them do not occur. Two points of equal size form a point mass: this size occurs with the difference of
    /// their probabilities. The first point's probability is the point mass at its size.
    pub points: Vec<(f64, f64)>,
}

impl SizeDistribution {
    /// The size in bytes at which the CDF reaches `u`, rounded to whole bytes and at least 1. If `u` is uniformly
    /// distributed in `0.0..1.0`, the sizes have this distribution.
    ///
    /// ```
    /// use rnic_spec::SizeDistribution;
    ///
    /// // Half of the flows have 1,000 bytes, the others 1,000 to 9,000.
    /// let sizes = SizeDistribution { name: "example".into(), points: vec![(1_000.0, 0.5), (9_000.0, 1.0)] };
    /// assert_eq!((sizes.sample(0.3), sizes.sample(0.75)), (1_000, 5_000));
    /// assert_eq!(sizes.mean(), 3_000.0);
    /// ```
    pub fn sample(&self, u: f64) -> u64 {
        const BELOW_ONE: f64 = 1.0 - f64::EPSILON / 2.0;
        let u = u.clamp(0.0, BELOW_ONE);
        let above = self.points.partition_point(|point| point.1 <= u);
        let size = match (above.checked_sub(1).map(|below| self.points[below]), self.points.get(above)) {
            (Some((small, p)), Some(&(large, q))) => small + (u - p) / (q - p) * (large - small),
            (None, Some(&(size, _))) | (Some((size, _)), None) => size,
            (None, None) => 1.0,
        };
        (size.round() as u64).max(1)
    }

    /// Mean size in bytes. It is exactly the mean of [`SizeDistribution::sample`] if all points are at whole bytes.
    pub fn mean(&self) -> f64 {
        self.expect(|a, b| {
            // `sample` rounds sizes below one byte up: add the average of 1 - x over the part of the range below 1.
            let raised = match () {
                () if a >= 1.0 => 0.0,
                () if b <= 1.0 => 1.0 - (a + b) / 2.0,
                () => (1.0 - a) * (1.0 - a) / 2.0 / (b - a),
            };
            (a + b) / 2.0 + raised
        })
    }

    /// Exact mean number of packets per flow if each packet carries at most `mtu` payload bytes: the mean of ceil(size
    /// / mtu).
    pub fn mean_packets(&self, mtu: u32) -> f64 {
        let mtu = f64::from(mtu.max(1));
        // A flow of x bytes, rounded to whole bytes, has 1 + extra(x) packets.
        let shifted = |x: f64| (x - 0.5).max(0.0) / mtu;
        let extra = |x: f64| shifted(x).floor();
        let integral_of_extra = |x: f64| {
            let (whole, packets) = (extra(x), shifted(x));
            mtu * whole * (packets - (whole + 1.0) / 2.0)
        };
        self.expect(|a, b| {
            1.0 + if a == b { extra(a) } else { (integral_of_extra(b) - integral_of_extra(a)) / (b - a) }
        })
    }

    /// Expectation of a function of the size. `average(a, b)` is the function's average over the sizes from a to b, and
    /// its value at a if a equals b.
    fn expect(&self, average: impl Fn(f64, f64) -> f64) -> f64 {
        let Some(&(first, share)) = self.points.first() else {
            return 1.0;
        };
        let at_first = if share > 0.0 { share * average(first, first) } else { 0.0 };
        let pieces = self.points.windows(2).filter(|pair| pair[1].1 > pair[0].1);
        pieces.fold(at_first, |sum, pair| sum + (pair[1].1 - pair[0].1) * average(pair[0].0, pair[1].0))
    }

    /// Checks that the points form a CDF, in which sizes and probabilities do not decrease.
    ///
    /// # Errors
    /// The points do not form a CDF. The error is one sentence that names the distribution and the rule that it breaks.
    pub fn validate(&self) -> Result<(), String> {
        let ordered = self.points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
        let inside = self.points.iter().all(|p| p.0 >= 0.0 && p.0.is_finite() && (0.0..=1.0).contains(&p.1));
        if !ordered || !inside || self.points.last().is_none_or(|point| point.1 != 1.0) {
            return Err(format!(
                "sizes `{}`: bytes and probabilities (0 to 1) must not decrease from point to point, and the last \
                 probability must be 1",
                self.name
            ));
        }
        Ok(())
    }
}
