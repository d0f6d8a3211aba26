//! Means of the results of a few seeds, and the confidence intervals of these means.

/// 97.5 % quantiles of Student's t distribution for 1 to 30 degrees of freedom, from which [`Estimate`] computes 95 %
/// confidence intervals.
const STUDENT: [f64; 30] = [
    12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139, 2.200985,
    2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963, 2.079614, 2.073873,
    2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272,
];

/// A mean over seeds, with its 95 % confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// Arithmetic mean of the values.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` if there is only a single value.
    pub half_width: Option<f64>,
    /// Number of values, one per seed.
    pub count: usize,
}

impl Estimate {
    /// Estimates the mean of independent values, which are assumed to be normally distributed. `None` if there are no
    /// values, or if a value is not finite.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let count = values.len();
        if count == 0 || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let half_width =
            (count > 1).then(|| student(count - 1) * (squares / (count - 1) as f64).sqrt() / (count as f64).sqrt());
        Some(Estimate { mean, half_width, count })
    }

    /// The ends of the confidence interval. Without an interval (a single value), both ends are the mean.
    pub fn interval(&self) -> [f64; 2] {
        let half = self.half_width.unwrap_or(0.0);
        [self.mean - half, self.mean + half]
    }
}

/// The 97.5 % quantile of Student's t distribution with `freedom` degrees of freedom.
pub fn student(freedom: usize) -> f64 {
    if let Some(quantile) = STUDENT.get(freedom.saturating_sub(1)) {
        return *quantile;
    }
    // Series expansion around the quantile of the normal distribution. For more than 30 degrees of freedom, the error
    // of this expansion is below 0.0001.
    let (z, n) = (1.959_964_f64, freedom as f64);
    z + (z.powi(3) + z) / (4.0 * n) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_printed_tables() {
        let printed = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
        for (n, expected) in (2..=10).zip(printed) {
            assert!((student(n - 1) - expected).abs() < 0.0006, "n = {n}");
        }
        for (freedom, expected) in [(30, 2.0423), (31, 2.0395), (40, 2.0211), (120, 1.9799), (100_000, 1.9600)] {
            assert!((student(freedom) - expected).abs() < 0.0001, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn an_estimate_by_hand() {
        // The standard deviation of 1, 2, 3 is 1, so the half-width is t(2) / sqrt(3).
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((estimate.mean, estimate.count), (2.0, 3));
        assert!((estimate.half_width.unwrap() - 4.302653 / 3f64.sqrt()).abs() < 1e-9);
        assert_eq!(Estimate::of(&[5.0, 5.0]).unwrap().interval(), [5.0, 5.0]);
    }

    #[test]
    fn a_single_value_has_no_interval_and_no_values_have_no_mean() {
        let one = Estimate::of(&[7.0]).unwrap();
        assert_eq!((one.half_width, one.interval()), (None, [7.0, 7.0]));
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[1.0, f64::NAN]), None);
    }
}
