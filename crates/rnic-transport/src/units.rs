//! Quantities with units, as they are written in scenario files: `"40 Gbps"`, `"240 KB"`, `"2 us"`.
//!
//! Prefixes are decimal, as usual in networking: 1 KB is 1,000 bytes and 1 Gbps is 10^9 bits per second. The binary
//! prefixes are `KiB`, `MiB` and `GiB`.

use crate::Time;
use std::fmt;
use std::str::FromStr;

/// The rate of a link or of pacing, in bits per second.
///
/// ```
/// use rnic_transport::{BitRate, Time};
///
/// let rate: BitRate = "40 Gbps".parse()?;
/// assert_eq!(rate.time_for(1_500), Time::from_ns(300));
/// assert_eq!(rate.bytes_in(Time::from_us(24)), 120_000, "the bandwidth-delay product");
/// # Ok::<(), rnic_transport::units::UnitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BitRate(u64);

impl BitRate {
    /// `bps` bits per second.
    pub const fn from_bps(bps: u64) -> BitRate {
        BitRate(bps)
    }
    /// `gbps` gigabits (10^9 bits) per second.
    pub const fn from_gbps(gbps: u64) -> BitRate {
        BitRate(gbps * 1_000_000_000)
    }
    /// The rate in bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Time to transmit `bytes` bytes at this rate, rounded to the nearest picosecond.
    pub const fn time_for(self, bytes: u64) -> Time {
        let bits_ps = bytes as u128 * 8 * 1_000_000_000_000;
        Time::from_ps(((bits_ps + self.0 as u128 / 2) / self.0 as u128) as u64)
    }
    /// Number of whole bytes transmitted in `span` at this rate.
    pub const fn bytes_in(self, span: Time) -> u64 {
        (self.0 as u128 * span.as_ps() as u128 / (8 * 1_000_000_000_000)) as u64
    }
}

/// A number of bytes.
///
/// ```
/// use rnic_transport::Bytes;
///
/// assert_eq!("1 KiB".parse(), Ok(Bytes(1_024)));
/// assert_eq!(Bytes(240_000).to_string(), "240 KB");
/// let error = "240".parse::<Bytes>().unwrap_err();
/// assert!(error.to_string().starts_with("`240` has no unit; use one of B, KB"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(pub u64);

/// The reason why a text could not be parsed as a quantity. The error message gives an example of an accepted text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnitError {
    /// The text does not begin with a number.
    #[error("`{text}` does not start with a number; write for example {example}")]
    NotANumber {
        /// The text that was rejected.
        text: String,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// The number has no unit, or a unit of another kind of quantity.
    #[error("`{text}` has {}; use one of {units}, for example {example}",
        if unit.is_empty() { "no unit".to_string() } else { format!("the unknown unit `{unit}`") })]
    Unit {
        /// The text that was rejected.
        text: String,
        /// The unit in the text; empty if there is none.
        unit: String,
        /// The units that are accepted.
        units: &'static str,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// The number is negative, not finite, or too large.
    #[error("`{text}` is out of range; write for example {example}")]
    Range {
        /// The text that was rejected.
        text: String,
        /// A value that would be accepted.
        example: &'static str,
    },
}

/// Parses `text` as a number with a unit from `table` and returns the quantity as an integer multiple of the base unit.
fn parse(text: &str, table: &[(&str, f64)], units: &'static str, example: &'static str) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let end =
        trimmed.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+'))).unwrap_or(trimmed.len());
    let (number, unit) = (trimmed[..end].replace('_', ""), trimmed[end..].trim());
    let value: f64 = number.parse().map_err(|_| UnitError::NotANumber { text: text.to_string(), example })?;
    // The case of a unit's letters does not matter (`40 gbps`), except that a final `B` (byte) must be upper case,
    // because `b` means bit.
    let same = |name: &str| name.eq_ignore_ascii_case(unit) && name.ends_with('B') == unit.ends_with('B');
    let scale = table.iter().find(|(name, _)| same(name)).map(|(_, scale)| *scale);
    let Some(scale) = scale else {
        return Err(UnitError::Unit { text: text.to_string(), unit: unit.to_string(), units, example });
    };
    // A whole number is multiplied as an integer, because floating point would round a large number.
    if let Some(exact) = number.parse::<u64>().ok().and_then(|whole| whole.checked_mul(scale as u64))
        && exact < 9_000_000_000_000_000_000
    {
        return Ok(exact);
    }
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

/// Prints `value` in the largest of `units` in which it has at most three decimals.
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

/// Serialisation of quantities. A human-readable format, such as JSON, contains text with a unit, such as `"2 us"`. A
/// binary format contains the number of base units (ps, B, bps) as an integer.
#[cfg(feature = "serde")]
mod data {
    use super::*;
    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::borrow::Cow;

    macro_rules! quantity {
        ($type:ty, $name:literal, $unit:literal, $about:literal, $get:expr, $make:expr) => {
            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    let base: u64 = $get(*self);
                    if !serializer.is_human_readable() {
                        return base.serialize(serializer);
                    }
                    let text = self.to_string();
                    // The text contains a floating-point number, which cannot represent every large value. In this case
                    // the value is written as a whole number of base units.
                    let exact = text.parse::<$type>().is_ok_and(|read| read == *self);
                    if exact { text.serialize(serializer) } else { format!("{base} {}", $unit).serialize(serializer) }
                }
            }

            impl<'de> Deserialize<'de> for $type {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                    if !deserializer.is_human_readable() {
                        return u64::deserialize(deserializer).map($make);
                    }
                    let text = Cow::<'de, str>::deserialize(deserializer)?;
                    text.parse().map_err(D::Error::custom)
                }
            }

            impl JsonSchema for $type {
                fn schema_name() -> Cow<'static, str> {
                    $name.into()
                }
                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!({"type": "string", "description": $about})
                }
            }
        };
    }

    quantity!(
        Time,
        "Time",
        "ps",
        "a time with its unit (ps, ns, us, ms, s), such as \"2 us\"",
        Time::as_ps,
        Time::from_ps
    );
    quantity!(
        Bytes,
        "Bytes",
        "B",
        "a size with its unit (B, KB, MB, GB, TB), such as \"240 KB\"",
        |b: Bytes| b.0,
        Bytes
    );
    quantity!(
        BitRate,
        "BitRate",
        "bps",
        "a rate with its unit (bps, Kbps, Mbps, Gbps, Tbps), such as \"40 Gbps\"",
        BitRate::as_bps,
        BitRate::from_bps
    );
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
