//! The times between the flows of a host: a Poisson process, log-normal times, or an interrupted Poisson process.
//!
//! Benson, Akella and Maltz (Network Traffic Characteristics of Data Centers in the Wild, IMC 2010) found on-off
//! behaviour and log-normal times between arrivals at the switches of data centers. Both processes are burstier than a
//! Poisson process; the coefficient of variation (standard deviation divided by mean) of the times between flows says
//! by how much.
//!
//! An *interrupted Poisson process* (Kuczura: The interrupted Poisson process as an overflow process, Bell System
//! Technical Journal, 1973) is a Poisson process of rate l that is on for exponentially distributed periods of mean 1/a
//! and off for periods of mean 1/b. With the fraction s = b/(a + b) of the time in which it is on, the squared
//! coefficient of variation of the times between its arrivals is 1 + 2 l a/(a + b)^2 = 1 + 2 (l/a) (1 - s)^2. Here s
//! and the coefficient of variation are given, and the mean number of arrivals in an on period, l/a, follows.

use super::rng::{Stream, exp, ln};
use rnic_spec::Arrivals;

/// A process of arrivals, without the state of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Process {
    /// Exponential times between flows.
    Poisson,
    /// Log-normal times between flows: `sigma` is the standard deviation of their logarithms.
    LogNormal { sigma: f64 },
    /// An interrupted Poisson process, in units of the mean time between flows.
    OnOff {
        /// Fraction of the time in which a host is on.
        on_share: f64,
        /// Mean length of an on period.
        on: f64,
        /// Mean length of an off period.
        off: f64,
    },
}

impl Process {
    pub(crate) fn new(arrivals: &Arrivals) -> Process {
        match *arrivals {
            Arrivals::Poisson => Process::Poisson,
            Arrivals::LogNormal { cv } => Process::LogNormal { sigma: ln(1.0 + cv * cv).sqrt() },
            Arrivals::OnOff { cv, on_share } => {
                let flows = (cv * cv - 1.0) / (2.0 * (1.0 - on_share) * (1.0 - on_share));
                // On average a host starts 1/on_share flows per mean time between flows while it is on.
                Process::OnOff { on_share, on: flows * on_share, off: flows * (1.0 - on_share) }
            }
        }
    }

    /// What is left of a host's on period at the beginning, in units of the mean time between flows. The processes
    /// without periods take no draw.
    pub(crate) fn begin(&self, stream: &mut Stream) -> f64 {
        match *self {
            // Any instant is within an on period with this probability, and an exponential time is left of it.
            Process::OnOff { on_share, on, .. } if stream.unit() < on_share => stream.exponential() * on,
            _ => 0.0,
        }
    }

    /// Draws the time until a host's next flow in units of the mean time between flows. `left` is what is left of the
    /// host's on period.
    pub(crate) fn gap(&self, left: &mut f64, stream: &mut Stream) -> f64 {
        match *self {
            Process::Poisson => stream.exponential(),
            // The mean of e^(sigma z) is e^(sigma^2/2).
            Process::LogNormal { sigma } => exp(sigma * stream.normal() - sigma * sigma / 2.0),
            Process::OnOff { on_share, on, off } => {
                // Time in on periods until the next flow, and time in all periods.
                let (mut needed, mut gap) = (stream.exponential() * on_share, 0.0);
                while needed > *left {
                    needed -= *left;
                    gap += *left + stream.exponential() * off;
                    *left = stream.exponential() * on;
                }
                *left -= needed;
                gap + needed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and coefficient of variation of many times between flows of one host.
    fn moments(arrivals: Arrivals, draws: u32) -> (f64, f64) {
        let (process, mut stream) = (Process::new(&arrivals), Stream::new(3, 0, 0));
        let mut left = process.begin(&mut stream);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..draws {
            let gap = process.gap(&mut left, &mut stream);
            assert!(gap >= 0.0 && gap.is_finite());
            sum += gap;
            squares += gap * gap;
        }
        let mean = sum / f64::from(draws);
        (mean, (squares / f64::from(draws) - mean * mean).sqrt() / mean)
    }

    #[test]
    fn every_process_keeps_its_mean_and_coefficient_of_variation() {
        for (arrivals, cv, tolerance) in [
            (Arrivals::Poisson, 1.0, 0.01),
            (Arrivals::LogNormal { cv: 0.5 }, 0.5, 0.01),
            (Arrivals::LogNormal { cv: 2.0 }, 2.0, 0.05),
            (Arrivals::OnOff { cv: 1.1, on_share: 0.5 }, 1.1, 0.01),
            (Arrivals::OnOff { cv: 2.0, on_share: 0.2 }, 2.0, 0.02),
            (Arrivals::OnOff { cv: 5.0, on_share: 0.5 }, 5.0, 0.1),
        ] {
            let (mean, measured) = moments(arrivals, 2_000_000);
            assert!((mean - 1.0).abs() < 5.0 * cv / 2_000_000f64.sqrt() + 0.005, "{arrivals:?}: mean {mean}");
            assert!((measured - cv).abs() < tolerance, "{arrivals:?}: {measured}");
        }
    }

    #[test]
    fn on_off_periods_have_the_given_share() {
        // cv 3 and a share of 0.25: (9 - 1)/(2 x 0.75^2) = 7.11 flows in an on period, which last 1.78 mean times
        // between flows; off periods are three times as long.
        let Process::OnOff { on, off, .. } = Process::new(&Arrivals::OnOff { cv: 3.0, on_share: 0.25 }) else {
            panic!()
        };
        assert!((on - 64.0 / 9.0 * 0.25).abs() < 1e-12 && (off - 3.0 * on).abs() < 1e-12, "{on} {off}");
        let mut begun = 0;
        for host in 0..10_000 {
            let process = Process::new(&Arrivals::OnOff { cv: 3.0, on_share: 0.25 });
            begun += u32::from(process.begin(&mut Stream::new(1, 0, host)) > 0.0);
        }
        // 2,500 hosts should begin in an on period, with a standard deviation of 43.
        assert!(u32::abs_diff(begun, 2_500) < 215, "{begun}");
    }
}
