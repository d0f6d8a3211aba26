//! Flow sizes as a distribution: points of its CDF, samples, exact means.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How large flows are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeDistribution {
    /// What the scenario calls it: `irn-heavy-tailed`, `websearch`, `fixed 1 MB`, `uniform 500 KB - 5 MB`, or a file's name.
    pub name: String,
    /// Points (bytes, cumulative probability), both rising, the last probability 1. Between two points bytes are linear in
    /// probability; two points of equal probability make a gap, two of equal bytes a point mass; below the first point's
    /// probability lies its own mass.
    pub points: Vec<(f64, f64)>,
}

impl SizeDistribution {
    /// The size in bytes, at least 1, below which the share `u` of all flows lies: the inverse of the CDF, rounded to the
    /// nearest byte. Uniform `u` in `0.0..1.0` gives flows of this distribution.
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

    /// Mean size in bytes, exactly that of [`SizeDistribution::sample`] for points at whole bytes.
    pub fn mean(&self) -> f64 {
        self.expect(|a, b| {
            // A size below one byte is sent as one byte: add the average of 1 - x over the part of the range below 1.
            let raised = match () {
                () if a >= 1.0 => 0.0,
                () if b <= 1.0 => 1.0 - (a + b) / 2.0,
                () => (1.0 - a) * (1.0 - a) / 2.0 / (b - a),
            };
            (a + b) / 2.0 + raised
        })
    }

    /// Mean number of packets per flow that carry at most `mtu` bytes each: the mean of ceil(size / mtu), exactly.
    pub fn mean_packets(&self, mtu: u32) -> f64 {
        let mtu = f64::from(mtu.max(1));
        // A size x, rounded to whole bytes, takes 1 + extra(x) packets.
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

    /// Expectation of a function given by its `average` over a range of sizes (a range of one size: its value there).
    fn expect(&self, average: impl Fn(f64, f64) -> f64) -> f64 {
        let Some(&(first, share)) = self.points.first() else {
            return 1.0;
        };
        let at_first = if share > 0.0 { share * average(first, first) } else { 0.0 };
        let pieces = self.points.windows(2).filter(|pair| pair[1].1 > pair[0].1);
        pieces.fold(at_first, |sum, pair| sum + (pair[1].1 - pair[0].1) * average(pair[0].0, pair[1].0))
    }

    /// Whether the points are a distribution at all, for distributions that [`parse`] did not make.
    ///
    /// # Errors
    /// One sentence that names what is wrong.
    pub fn validate(&self) -> Result<(), String> {
        let ordered = self.points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
        let inside = self.points.iter().all(|p| p.0 >= 0.0 && p.0.is_finite() && (0.0..=1.0).contains(&p.1));
        if !ordered || !inside || self.points.last().is_none_or(|point| point.1 != 1.0) {
            return Err(format!("sizes `{}`: bytes and probabilities must rise, the last probability to 1", self.name));
        }
        Ok(())
    }
}
