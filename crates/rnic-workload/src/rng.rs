//! Random numbers of workloads: one random stream for each entity (a host, or a repetition of a pattern), with the same
//! numbers on every machine.
//!
//! Every host of a Poisson source has its own PCG generator (permuted congruential generator), and so has every
//! repetition of an incast, permutation or all-to-all. A generator is seeded from (seed of the run, index of the
//! traffic source, entity). Additional traffic sources, hosts or repetitions therefore do not change the existing
//! streams. The code uses only integer arithmetic, the four basic floating-point operations and the square root, which
//! IEEE 754 defines to the last bit.

use rnic_fabric::rng::{self, Purpose};
use rnic_transport::random::below;

/// The stream of random numbers of one entity: a host, or a repetition of a traffic pattern.
#[derive(Clone, Debug)]
pub struct Stream(rng::Stream);

impl Stream {
    /// Creates the random stream of `entity` (a host or a repetition) in the traffic source with index `traffic`.
    ///
    /// ```
    /// use rnic_workload::rng::Stream;
    ///
    /// let mut stream = Stream::new(1, 0, 0);
    /// assert_eq!([stream.below(1_000_000), stream.below(1_000_000)], [602_157, 57_833]);
    /// ```
    pub fn new(seed: u64, traffic: u16, entity: u64) -> Stream {
        Stream(rng::Stream::new(seed, Purpose::Workload, &[u64::from(traffic), entity]))
    }

    /// A number uniform in `0.0..1.0`, a multiple of 2^-53. It takes one 64-bit draw from the stream.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number uniform in `0..bound`; 0 for a bound of 0. It always takes one draw, so later draws do not depend on
    /// the bound. The bias is at most `bound` / 2^64, too small to be visible in any run.
    pub fn below(&mut self, bound: u32) -> u32 {
        below(self.0.next_u64(), bound.into()) as u32
    }

    /// An exponentially distributed number with mean 1, by inversion. It takes one draw from the stream.
    pub fn exponential(&mut self) -> f64 {
        -ln(1.0 - self.unit())
    }

    /// A normally distributed number with mean 0 and standard deviation 1, by the polar method (Marsaglia and Bray: A
    /// convenient method for generating normal variables, 1964). It takes two draws from the stream, and two more with
    /// a probability of 1 - pi/4 each time.
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }
}

/// Natural logarithm of a positive normal number, accurate to a few units in the last place.
///
/// The last digits of the standard library's `f64::ln` depend on the platform, but the results of a simulation must
/// not. With x = m 2^e and m between sqrt(1/2) and sqrt(2): ln x = e ln 2 + 2 artanh s, s = (m - 1) / (m + 1).
pub(crate) fn ln(x: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & FRACTION) | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    // |s| <= 0.172, so the first neglected term, s^27 / 27, is below 10^-21.
    let series = (0..13u32).rev().fold(0.0, |sum, i| sum * square + 1.0 / f64::from(2 * i + 1));
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * s * series
}

/// The exponential function of a number between -700 and 700, with a relative error of about |x| times 10^-16.
///
/// With x = k ln 2 + r and |r| at most ln(2)/2: e^x = 2^k e^r, and a series for e^r. Like [`ln`], it is the same on
/// every machine.
pub(crate) fn exp(x: f64) -> f64 {
    let exponent = (x / std::f64::consts::LN_2).round().clamp(-1_000.0, 1_000.0);
    let rest = x - exponent * std::f64::consts::LN_2;
    // |r| <= 0.347, so the first neglected term, r^16 / 16!, is below 10^-20.
    let series = (1..16u32).rev().fold(1.0, |sum, i| 1.0 + sum * rest / f64::from(i));
    series * f64::from_bits(((exponent as i64 + 1_023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn streams_are_the_same_everywhere() {
        let mut stream = Stream::new(1, 0, 0);
        let values = [stream.below(1_000_000), stream.below(1_000_000), stream.below(1_000_000)];
        // Computed independently of this code, from the definitions of splitmix64 and pcg64_mcg.
        assert_eq!(values, [602_157, 57_833, 142_705]);
    }

    #[test]
    fn every_part_of_the_seed_matters() {
        let first = |seed, traffic, entity| Stream::new(seed, traffic, entity).unit().to_bits();
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..8 {
            for traffic in 0..8 {
                for entity in 0..64 {
                    assert!(seen.insert(first(seed, traffic, entity)), "{seed} {traffic} {entity}");
                }
            }
        }
    }

    #[test]
    fn exponential_has_mean_and_deviation_one() {
        let mut stream = Stream::new(7, 0, 0);
        let draws: Vec<f64> = (0..100_000).map(|_| stream.exponential()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let square = draws.iter().map(|x| x * x).sum::<f64>() / draws.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((square - 2.0).abs() < 0.05, "{square}");
    }

    #[test]
    fn normal_has_mean_zero_and_deviation_one() {
        let mut stream = Stream::new(7, 0, 0);
        let draws: Vec<f64> = (0..100_000).map(|_| stream.normal()).collect();
        let moment = |power: i32| draws.iter().map(|x| x.powi(power)).sum::<f64>() / draws.len() as f64;
        // The standard errors of the first four moments are 0.003, 0.0045, 0.012 and 0.031.
        assert!(moment(1).abs() < 0.013, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.018, "{}", moment(2));
        assert!(moment(3).abs() < 0.05, "{}", moment(3));
        assert!((moment(4) - 3.0).abs() < 0.13, "{}", moment(4));
    }

    proptest! {
        #[test]
        fn exponential_function_agrees_with_the_library(x in -600f64..600.0) {
            prop_assert!((exp(x) / x.exp() - 1.0).abs() <= 4e-16 * (1.0 + x.abs()), "{x}");
        }

        #[test]
        fn logarithm_agrees_with_the_library(x in 1e-16f64..1.0) {
            prop_assert!((ln(x) - x.ln()).abs() <= 4.0 * f64::EPSILON * x.ln().abs(), "{x}");
        }

        #[test]
        fn below_stays_below(seed: u64, bound in 1u32..) {
            prop_assert!(Stream::new(seed, 0, 0).below(bound) < bound);
        }
    }
}
