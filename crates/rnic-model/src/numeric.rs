//! Expressions of the fluid models that contain a probability p. For every p from 0 to 1 they are computed in a form in
//! which no cancellation reduces the precision.

use libm::{expm1, log1p};

/// `-ln(1 - p)`, from which powers of 1 - p are computed; infinite for p = 1.
fn hazard(p: f64) -> f64 {
    -log1p(-p)
}

/// `x / (e^x - 1)`, a factor of [`per_packet`] and [`per_second`]. It falls from 1 at x = 0 to 0 at infinity.
fn bernoulli(x: f64) -> f64 {
    if x == 0.0 {
        1.0
    } else if x > 700.0 {
        0.0 // the result is below 1e-301, and for larger x the quotient would be infinity divided by infinity
    } else {
        x / expm1(x)
    }
}

/// `1 - (1 - p)^n`: the probability that at least one of `n` packets is marked.
pub fn at_least_one(p: f64, n: f64) -> f64 {
    if p <= 0.0 || n <= 0.0 { 0.0 } else { -expm1(-n * hazard(p)) }
}

/// `(1 - p)^n`: the probability that none of `n` packets is marked.
pub(crate) fn none_of(p: f64, n: f64) -> f64 {
    if p <= 0.0 || n <= 0.0 { 1.0 } else { libm::exp(-n * hazard(p)) }
}

/// `p / -ln(1 - p)`, a factor of [`per_packet`] and [`per_second`]. It falls from 1 at p = 0 to 0 at p = 1.
fn spread(p: f64) -> f64 {
    if p <= 0.0 {
        1.0
    } else if p >= 1.0 {
        0.0
    } else {
        p / hazard(p)
    }
}

/// `p / ((1 - p)^-n - 1)`: the number of events per packet. Packets are marked with probability p, and an event happens
/// after `n` consecutive packets without a mark. The limits are `1/n` for p = 0, and 0 for p = 1.
pub fn per_packet(p: f64, n: f64) -> f64 {
    if p >= 1.0 { 0.0 } else { spread(p) * bernoulli(n * hazard(p)) / n }
}

/// `rate p / ((1 - p)^-(period rate) - 1)`: the number of events per second at `rate` packets per second. Packets are
/// marked with probability p, and an event happens after a `period` (in seconds) without a mark. The limits are
/// `1/period` for p = 0 or a rate of 0, and 0 for p = 1.
pub fn per_second(p: f64, rate: f64, period: f64) -> f64 {
    if p >= 1.0 { 0.0 } else { spread(p) * bernoulli(period * rate * hazard(p)) / period }
}

/// Finds the zero of `f` between `low`, where `f` is positive, and `high`, where `f` is negative; `low` and `high` must
/// be positive. The bisection is geometric, so that a root near 0 has the same relative precision as other roots. It
/// ends when the bounds are adjacent floating-point numbers.
pub(crate) fn root(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..400 {
        // When the bounds are close together, the geometric mean would lose the last bits.
        let middle = if high / low < 1.01 { low + (high - low) / 2.0 } else { low.sqrt() * high.sqrt() };
        if middle <= low || middle >= high {
            break;
        }
        if f(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    if f(low).abs() <= f(high).abs() { low } else { high }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_close(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 4.0 * f64::EPSILON * expected.abs(), "{value:e} is not {expected:e}");
    }

    #[test]
    fn limits() {
        assert_eq!((at_least_one(0.0, 250.0), at_least_one(1.0, 250.0), at_least_one(1.0, 0.0)), (0.0, 1.0, 0.0));
        assert_eq!((per_packet(0.0, 10_000.0), per_packet(1.0, 10_000.0)), (1.0 / 10_000.0, 0.0));
        assert_eq!((per_second(0.0, 5e6, 0.25), per_second(1.0, 5e6, 0.25)), (4.0, 0.0));
        assert_eq!((per_second(1.0, 0.0, 0.25), per_second(0.0, 0.0, 0.25)), (0.0, 4.0));
        assert_eq!((none_of(1.0, 0.0), none_of(1.0, 5.0), none_of(0.0, 5.0)), (1.0, 0.0, 1.0));
    }

    #[test]
    fn roots_to_the_last_bit() {
        assert_close(root(1e-300, 1.0, |x| 2e-20 - x), 2e-20);
        assert_close(root(1e-3, 10.0, |x| 2.0 - x * x), std::f64::consts::SQRT_2);
    }
}
