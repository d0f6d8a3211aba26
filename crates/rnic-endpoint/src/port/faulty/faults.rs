//! Faults and their probabilities.

use rnic_transport::Time;

/// A number between 0 and 1, kept as a multiple of 2^-32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Probability(u64);

/// The number is not a probability.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{0} is not a probability; give a number between 0 and 1, for example 0.01 for one in a hundred")]
pub struct ProbabilityError(f64);

impl Probability {
    /// Never.
    pub const NEVER: Probability = Probability(0);
    /// Always.
    pub const ALWAYS: Probability = Probability(1 << 32);

    /// `value` from 0 (never) to 1 (always), rounded to a multiple of 2^-32.
    ///
    /// # Errors
    ///
    /// Negative, greater than 1, or not a number.
    pub fn new(value: f64) -> Result<Probability, ProbabilityError> {
        if !(0.0..=1.0).contains(&value) {
            return Err(ProbabilityError(value));
        }
        Ok(Probability((value * (1u64 << 32) as f64).round() as u64))
    }

    /// Whether an event with this probability happens, given 32 random bits.
    pub(super) fn strikes(self, bits: u32) -> bool {
        u64::from(bits) < self.0
    }
}

/// The probabilities of faults in one direction. Each fault happens to each datagram independently of the other faults.
///
/// ```
/// use rnic_endpoint::port::{Faults, Probability};
///
/// let faults = Faults { loss: Probability::new(0.01).unwrap(), ..Faults::default() };
/// assert_eq!(faults.duplication, Probability::NEVER);
/// assert!(Probability::new(1.5).is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Faults {
    /// The datagram is lost.
    pub loss: Probability,
    /// The datagram is delivered a second time, without corruption, directly after the first or in its place.
    pub duplication: Probability,
    /// The datagram is delivered with one bit flipped.
    pub corruption: Probability,
    /// The datagram is held back until one to [`Faults::reordering_depth`] later datagrams have passed, at most for a
    /// millisecond.
    pub reordering: Probability,
    /// Maximum number of later datagrams that pass a reordered one. With 0 there is no reordering.
    pub reordering_depth: u32,
    /// The datagram is held back for up to [`Faults::longest_delay`].
    pub delay: Probability,
    /// Maximum delay. With 0 there are no delays.
    pub longest_delay: Time,
}

impl Faults {
    /// Whether no fault can happen.
    pub fn none(&self) -> bool {
        [self.loss, self.duplication, self.corruption, self.reordering, self.delay] == [Probability::NEVER; 5]
    }
}

/// Counters of faults in one direction, in datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FaultCounters {
    /// All datagrams, if any fault can happen.
    pub seen: u64,
    /// Lost.
    pub lost: u64,
    /// Delivered a second time.
    pub duplicated: u64,
    /// Delivered with a bit flipped.
    pub corrupted: u64,
    /// Reordered: held back for later ones to pass.
    pub reordered: u64,
    /// Delayed.
    pub delayed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_what_they_say() {
        assert_eq!(Probability::new(0.0), Ok(Probability::NEVER));
        assert_eq!(Probability::new(1.0), Ok(Probability::ALWAYS));
        assert_eq!(Probability::new(0.25), Ok(Probability(1 << 30)));
        assert!(Probability::ALWAYS.strikes(u32::MAX));
        assert!(!Probability::NEVER.strikes(0));
        assert!(Probability(1 << 30).strikes((1 << 30) - 1) && !Probability(1 << 30).strikes(1 << 30));
        for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Probability::new(wrong).is_err(), "{wrong}");
        }
        let error = Probability::new(5.0).unwrap_err().to_string();
        assert_eq!(
            error,
            "5 is not a probability; give a number between 0 and 1, for example 0.01 for one in a hundred"
        );
    }
}
