//! Faults of a [`FaultyPort`](super::FaultyPort): their probabilities and counters.

use rnic_transport::Time;

/// A probability: a number between 0 and 1, stored as a multiple of 2^-32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Probability(u64);

/// Error: the given number is not a probability.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{0} is not a probability; give a number between 0 and 1, for example 0.01 for one in a hundred")]
pub struct ProbabilityError(f64);

impl Probability {
    /// Probability 0: the fault never happens.
    pub const NEVER: Probability = Probability(0);
    /// Probability 1: the fault always happens.
    pub const ALWAYS: Probability = Probability(1 << 32);

    /// Rounds `value`, from 0 (never) to 1 (always), to a multiple of 2^-32.
    ///
    /// # Errors
    ///
    /// If `value` is negative, greater than 1, or not a number.
    pub fn new(value: f64) -> Result<Probability, ProbabilityError> {
        if !(0.0..=1.0).contains(&value) {
            return Err(ProbabilityError(value));
        }
        Ok(Probability((value * (1u64 << 32) as f64).round() as u64))
    }

    /// The probability that a command line or an environment variable states as a percentage ([`percentage`]).
    ///
    /// # Errors
    /// A sentence that says what is wrong, and what would be accepted.
    ///
    /// ```
    /// use rnic_endpoint::port::Probability;
    ///
    /// assert_eq!(Probability::from_percentage("25%"), Ok(Probability::new(0.25).unwrap()));
    /// assert!(Probability::from_percentage("0.25").is_err(), "25 % or 0.25 %?");
    /// ```
    pub fn from_percentage(text: &str) -> Result<Probability, String> {
        Probability::new(percentage(text)? / 100.0).map_err(|error| error.to_string())
    }

    /// Decides with 32 random bits whether an event with this probability happens.
    pub(super) fn strikes(self, bits: u32) -> bool {
        u64::from(bits) < self.0
    }
}

/// Reads a percentage, 0% to 100%, as faults are stated in `RNIC_FAULTS` and on command lines. A number needs its
/// percent sign, because readers take 1 for one in a hundred, or for a probability. Only 0 needs no sign.
///
/// # Errors
/// A sentence that says what is wrong, and what would be accepted.
pub fn percentage(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let (value, has_sign) = match text.strip_suffix('%') {
        Some(text) => (number(text), true),
        None => (number(text), false),
    };
    match value {
        Some(value) if (0.0..=100.0).contains(&value) && has_sign || value == 0.0 => Ok(value.abs()),
        Some(value) if !has_sign && value > 0.0 && value <= 1.0 => Err(format!(
            "`{text}` has no percent sign: it could mean {value}%, or the probability {value}, which is {}%; write one of \
             these percentages",
            value * 100.0
        )),
        Some(value) if !has_sign && value > 1.0 && value <= 100.0 => {
            Err(format!("`{text}` has no percent sign; write {value}%"))
        }
        _ => Err(format!("`{text}` is not a percentage; it must be 0% to 100%, such as 1% or 0.5%")),
    }
}

/// How a corrupted datagram differs from the sent datagram. Every corrupted datagram differs in at least one bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CorruptionKind {
    /// One bit is flipped. A CRC always detects this error.
    Bit,
    /// Two to 32 consecutive bytes have random values; the length is random, too. A CRC always detects bursts of up to
    /// 4 bytes.
    Burst,
    /// Eight bytes anywhere in the datagram have random values. A CRC of 32 bits misses one of 2^32 such errors.
    Bytes,
    /// Each corrupted datagram has one of the three kinds, with equal probabilities.
    #[default]
    Mixed,
}

impl CorruptionKind {
    /// All values.
    pub const ALL: [CorruptionKind; 4] =
        [CorruptionKind::Bit, CorruptionKind::Burst, CorruptionKind::Bytes, CorruptionKind::Mixed];

    /// The name on command lines and in reports: `bit`, `burst`, `bytes` or `mixed`.
    pub const fn name(self) -> &'static str {
        match self {
            CorruptionKind::Bit => "bit",
            CorruptionKind::Burst => "burst",
            CorruptionKind::Bytes => "bytes",
            CorruptionKind::Mixed => "mixed",
        }
    }
}

/// The probabilities of the faults that a [`FaultyPort`](super::FaultyPort) adds in one direction, sending or
/// receiving. Each fault happens to each datagram independently of the other faults.
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
    /// Probability that a datagram is lost.
    pub loss: Probability,
    /// Probability that a datagram is delivered a second time. The copy is neither corrupted nor held back (reordered
    /// or delayed): it follows the original directly, or takes its place if the original is held back.
    pub duplication: Probability,
    /// Probability that a datagram is delivered corrupted.
    pub corruption: Probability,
    /// How corrupted datagrams differ from the sent datagrams.
    pub corruption_kind: CorruptionKind,
    /// Probability that a datagram is reordered: it is held back until a random number of later datagrams, from 1 to
    /// [`Faults::reordering_depth`], have passed, or for a millisecond if fewer arrive.
    pub reordering: Probability,
    /// Maximum number of later datagrams that overtake a reordered datagram. With 0 no datagram is reordered.
    pub reordering_depth: u32,
    /// Probability that a datagram is delayed by a random time of up to [`Faults::longest_delay`].
    pub delay: Probability,
    /// Maximum delay of a datagram. With 0 no datagram is delayed.
    pub longest_delay: Time,
}

impl Faults {
    /// Whether no fault can happen.
    pub fn none(&self) -> bool {
        [self.loss, self.duplication, self.corruption, self.reordering, self.delay] == [Probability::NEVER; 5]
    }
}

/// Counters of the faults of a [`FaultyPort`](super::FaultyPort) in one direction, sending or receiving.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FaultCounters {
    /// Number of datagrams in this direction, with or without faults; 0 if all probabilities are 0.
    pub seen: u64,
    /// Number of datagrams that were lost.
    pub lost: u64,
    /// Number of datagrams that were delivered a second time.
    pub duplicated: u64,
    /// Number of datagrams that were delivered corrupted.
    pub corrupted: u64,
    /// Number of datagrams that were held back so that later datagrams overtook them.
    pub reordered: u64,
    /// Number of datagrams that were delayed.
    pub delayed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_have_a_percent_sign() {
        for (text, value) in [("1%", 1.0), ("0.5 %", 0.5), (" 100%", 100.0), ("0", 0.0), ("0.0", 0.0), ("0%", 0.0)] {
            assert_eq!(percentage(text), Ok(value), "{text}");
        }
        for (text, sentence) in [
            (
                "1",
                "`1` has no percent sign: it could mean 1%, or the probability 1, which is 100%; write one of these percentages",
            ),
            (
                "0.25",
                "`0.25` has no percent sign: it could mean 0.25%, or the probability 0.25, which is 25%; write one of these percentages",
            ),
            ("5", "`5` has no percent sign; write 5%"),
            ("", "`` is not a percentage; it must be 0% to 100%, such as 1% or 0.5%"),
            ("101%", "`101%` is not a percentage; it must be 0% to 100%, such as 1% or 0.5%"),
            ("-1%", "`-1%` is not a percentage; it must be 0% to 100%, such as 1% or 0.5%"),
            ("nan%", "`nan%` is not a percentage; it must be 0% to 100%, such as 1% or 0.5%"),
            ("inf", "`inf` is not a percentage; it must be 0% to 100%, such as 1% or 0.5%"),
        ] {
            assert_eq!(percentage(text).unwrap_err(), sentence);
        }
    }

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
