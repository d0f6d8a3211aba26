//! The mean of the results of a few seeds, and its confidence interval.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Default probability of a confidence interval.
pub const CONFIDENCE: f64 = 0.95;

/// A mean over seeds, with its confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// Arithmetic mean of the values.
    pub mean: f64,
    /// Half the width of the confidence interval; `None` if there is only a single value.
    pub half_width: Option<f64>,
    /// Number of values, one per seed.
    pub count: usize,
}

impl Estimate {
    /// Estimates the mean of independent values, which are assumed to be normally distributed. The interval is computed
    /// from Student's t distribution. It contains the mean over all seeds with the probability `confidence`, above 0
    /// and below 1. `None` if `values` is empty, or if a value is not finite.
    pub fn of(values: &[f64], confidence: f64) -> Option<Estimate> {
        let count = values.len();
        if count == 0 || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let n = count as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let quantile = (count > 1).then(|| StudentsT::new(0.0, 1.0, n - 1.0).ok()).flatten();
        let half_width = quantile.map(|t| t.inverse_cdf(f64::midpoint(1.0, confidence)) * (variance / n).sqrt());
        Some(Estimate { mean, half_width, count })
    }

    /// The ends of the confidence interval. Without an interval (a single value), both ends are the mean.
    pub fn interval(&self) -> [f64; 2] {
        let half = self.half_width.unwrap_or(0.0);
        [self.mean - half, self.mean + half]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed tables have t(2) = 4.303, t(3) = 3.182, t(30) = 2.0423 and t(120) = 1.9799.
    #[test]
    fn estimates_by_hand() {
        let half = |values: &[f64]| Estimate::of(values, CONFIDENCE).unwrap().half_width.unwrap();
        // The standard deviation of 1, 2, 3 is 1, so the half-width is t(2) / sqrt(3).
        let estimate = Estimate::of(&[1.0, 2.0, 3.0], CONFIDENCE).unwrap();
        assert_eq!((estimate.mean, estimate.count), (2.0, 3));
        assert!((half(&[1.0, 2.0, 3.0]) - 4.302_653 / 3f64.sqrt()).abs() < 1e-5);
        // Mean 5, standard deviation 2.5820: 3.1824 * 2.5820 / 2.
        assert!((half(&[2.0, 4.0, 6.0, 8.0]) - 4.1085).abs() < 1e-3);
        for (freedom, t) in [(30_u32, 2.0423), (120, 1.9799)] {
            // Half of the values are 1 and half are -1, apart from a 0: the variance is 1.
            let values: Vec<f64> = (0..=freedom).map(|i| [0.0, 1.0, -1.0][(i.min(1) * (1 + i % 2)) as usize]).collect();
            assert!((half(&values) * f64::from(freedom + 1).sqrt() - t).abs() < 1e-4, "{freedom}");
        }
        assert_eq!(Estimate::of(&[5.0, 5.0], CONFIDENCE).unwrap().interval(), [5.0, 5.0]);
        assert!(
            Estimate::of(&[1.0, 2.0], 0.5).unwrap().half_width < Estimate::of(&[1.0, 2.0], 0.9).unwrap().half_width
        );
    }

    #[test]
    fn a_single_value_has_no_interval_and_no_values_have_no_mean() {
        let one = Estimate::of(&[7.0], CONFIDENCE).unwrap();
        assert_eq!((one.half_width, one.interval()), (None, [7.0, 7.0]));
        assert_eq!(Estimate::of(&[], CONFIDENCE), None);
        assert_eq!(Estimate::of(&[1.0, f64::NAN], CONFIDENCE), None);
    }
}
