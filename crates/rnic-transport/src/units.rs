//! Quantities with units, as a scenario writes them: `"40 Gbps"`, `"240 KB"`, `"2 us"`.
//!
//! Prefixes are decimal, as in networking: 1 KB is 1,000 bytes and 1 Gbps is 10^9 bits per second; `KiB`, `MiB` and
//! `GiB` are the binary ones.

use crate::Time;
use std::fmt;
use std::str::FromStr;

/// A link or pacing rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BitRate(u64);

impl BitRate {
    /// `bps` bits per second.
    pub const fn from_bps(bps: u64) -> BitRate {
        BitRate(bps)
    }
    /// `gbps` times 10^9 bits per second.
    pub const fn from_gbps(gbps: u64) -> BitRate {
        BitRate(gbps * 1_000_000_000)
    }
    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Time to send `bytes` at this rate, rounded to the nearest picosecond.
    pub const fn time_for(self, bytes: u64) -> Time {
        let bits_ps = bytes as u128 * 8 * 1_000_000_000_000;
        Time::from_ps(((bits_ps + self.0 as u128 / 2) / self.0 as u128) as u64)
    }
    /// Whole bytes that fit into `span` at this rate.
    pub const fn bytes_in(self, span: Time) -> u64 {
        (self.0 as u128 * span.as_ps() as u128 / (8 * 1_000_000_000_000)) as u64
    }
}

/// A count of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(pub u64);

/// Why a quantity was not understood; the text says what would be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnitError {
    /// No number in front of the unit.
    #[error("`{text}` does not start with a number; write for example {example}")]
    NotANumber {
        /// What was given.
        text: String,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// A number without a unit, or with one of another kind.
    #[error("`{text}` has {}; use one of {units}, for example {example}",
        if unit.is_empty() { "no unit".to_string() } else { format!("the unknown unit `{unit}`") })]
    Unit {
        /// What was given.
        text: String,
        /// The unit found, possibly empty.
        unit: String,
        /// The units of this kind of quantity.
        units: &'static str,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// Negative, not finite, or too large.
    #[error("`{text}` is out of range; write for example {example}")]
    Range {
        /// What was given.
        text: String,
        /// A value that would be accepted.
        example: &'static str,
    },
}

/// Splits `text` into number and unit and scales it; the result is an integer count of the base unit.
fn parse(text: &str, table: &[(&str, f64)], units: &'static str, example: &'static str) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let end =
        trimmed.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+'))).unwrap_or(trimmed.len());
    let (number, unit) = (trimmed[..end].replace('_', ""), trimmed[end..].trim());
    let value: f64 = number.parse().map_err(|_| UnitError::NotANumber { text: text.to_string(), example })?;
    // `40 gbps` is clear, but a `b` is a bit and a `B` a byte.
    let same = |name: &str| name.eq_ignore_ascii_case(unit) && name.ends_with('B') == unit.ends_with('B');
    let scale = table.iter().find(|(name, _)| same(name)).map(|(_, scale)| *scale);
    let Some(scale) = scale else {
        return Err(UnitError::Unit { text: text.to_string(), unit: unit.to_string(), units, example });
    };
    let scaled = (value * scale).round();
    if !(0.0..9.0e18).contains(&scaled) {
        return Err(UnitError::Range { text: text.to_string(), example });
    }
    Ok(scaled as u64)
}

impl FromStr for BitRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<BitRate, UnitError> {
        const TABLE: &[(&str, f64)] = &[("bps", 1.0), ("Kbps", 1e3), ("Mbps", 1e6), ("Gbps", 1e9), ("Tbps", 1e12)];
        parse(text, TABLE, "bps, Kbps, Mbps, Gbps, Tbps", "\"40 Gbps\"").map(BitRate)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Bytes, UnitError> {
        const TABLE: &[(&str, f64)] = &[
            ("B", 1.0),
            ("KB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
            ("TB", 1e12),
            ("KiB", 1024.0),
            ("MiB", 1048576.0),
            ("GiB", 1073741824.0),
        ];
        parse(text, TABLE, "B, KB, MB, GB, TB, KiB, MiB, GiB", "\"240 KB\"").map(Bytes)
    }
}

impl FromStr for Time {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Time, UnitError> {
        const TABLE: &[(&str, f64)] = &[("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("µs", 1e6), ("ms", 1e9), ("s", 1e12)];
        parse(text, TABLE, "ps, ns, us, ms, s", "\"2 us\"").map(Time::from_ps)
    }
}

/// `value` in the largest of `units` that leaves no more than three decimals.
fn display(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    for &(unit, scale) in units {
        if value >= scale && (scale == 1 || value.is_multiple_of(scale / 1_000)) {
            return write!(f, "{} {unit}", value as f64 / scale as f64);
        }
    }
    write!(f, "{value} {}", units.last().map_or("", |u| u.0))
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units =
            [("Tbps", 1_000_000_000_000), ("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("Kbps", 1_000), ("bps", 1)];
        display(f, self.0, &units)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(f, self.0, &[("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000), ("B", 1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_as_written() {
        assert_eq!("40 Gbps".parse(), Ok(BitRate::from_gbps(40)));
        assert_eq!("1.5Gbps".parse(), Ok(BitRate::from_bps(1_500_000_000)));
        assert_eq!("240 KB".parse(), Ok(Bytes(240_000)));
        assert_eq!("1 KiB".parse(), Ok(Bytes(1024)));
        assert_eq!("2 us".parse(), Ok(Time::from_us(2)));
        assert_eq!("87.5 ns".parse(), Ok(Time::from_ps(87_500)));
    }

    #[test]
    fn wrong_quantities_say_what_would_be_right() {
        let error = "40".parse::<BitRate>().unwrap_err().to_string();
        assert_eq!(error, "`40` has no unit; use one of bps, Kbps, Mbps, Gbps, Tbps, for example \"40 Gbps\"");
        let error = "2 KB".parse::<Time>().unwrap_err().to_string();
        assert_eq!(error, "`2 KB` has the unknown unit `KB`; use one of ps, ns, us, ms, s, for example \"2 us\"");
        assert!(matches!("fast".parse::<BitRate>(), Err(UnitError::NotANumber { .. })));
        assert!(matches!("-1 KB".parse::<Bytes>(), Err(UnitError::Range { .. })));
        assert!(matches!("1 Kb".parse::<Bytes>(), Err(UnitError::Unit { .. })));
    }

    #[test]
    fn display_is_what_a_scenario_would_say() {
        assert_eq!(BitRate::from_gbps(40).to_string(), "40 Gbps");
        assert_eq!(Bytes(240_000).to_string(), "240 KB");
        assert_eq!(Bytes(1_024).to_string(), "1.024 KB");
        assert_eq!(Time::from_us(320).to_string(), "320 us");
        assert_eq!(Time::from_ps(87_500).to_string(), "87.5 ns");
    }

    #[test]
    fn serialisation_times_are_exact() {
        assert_eq!(BitRate::from_gbps(40).time_for(1_106), Time::from_ps(221_200));
        assert_eq!(BitRate::from_gbps(800).time_for(84), Time::from_ps(840));
        assert_eq!(BitRate::from_gbps(40).bytes_in(Time::from_us(24)), 120_000);
    }
}
