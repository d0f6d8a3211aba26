//! Quantities with units, as they are written in scenario files: `"40 Gbps"`, `"240 KB"`, `"2 us"`.
//!
//! Prefixes are decimal, as usual in networking: 1 KB is 1,000 bytes and 1 Gbps is 10^9 bits per second. The binary
//! prefixes are `KiB`, `MiB` and `GiB`. The case of letters matters as in the SI: `b` is a bit and `B` a byte, `M` is
//! mega and `m` milli. Only for kilo both cases are accepted, because `kB` and `KB` are both usual.

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
        /// A value that would be accepted, in quotes. If only the case of the unit's letters is wrong, it is the value
        /// in the text.
        example: String,
    },
    /// The unit belongs to another quantity, such as bytes per second instead of bits per second.
    #[error(
        "`{text}` is in {is}, and a {quantity} is in {wanted}; use one of {units}: \"{same}\" is the same {quantity}"
    )]
    Confused {
        /// The text that was rejected.
        text: String,
        /// What the unit in the text counts.
        is: &'static str,
        /// Name of the quantity that was expected.
        quantity: &'static str,
        /// What the accepted units count.
        wanted: &'static str,
        /// The units that are accepted.
        units: &'static str,
        /// The same value in an accepted unit.
        same: String,
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

/// A kind of quantity: its units, and how an error speaks of it.
struct Quantity {
    /// The accepted units, each with its value in the base unit.
    table: &'static [(&'static str, f64)],
    /// The units, as an error message lists them.
    units: &'static str,
    /// A value that would be accepted.
    example: &'static str,
    /// Units of other quantities that are easily confused with the units of this one.
    confused: Option<&'static Confused>,
}

/// Units that belong to another quantity.
struct Confused {
    /// The units, each with its value in the base unit of the quantity that was expected.
    table: &'static [(&'static str, f64)],
    /// What these units count.
    is: &'static str,
    /// Name of the quantity that was expected, and what its units count.
    quantity: &'static str,
    wanted: &'static str,
}

/// Whether `unit` is the unit `name`. Case matters, except for kilo: `kB` is `KB`.
fn is_unit(unit: &str, name: &str) -> bool {
    unit == name || (name.starts_with('K') && unit.strip_prefix('k') == name.strip_prefix('K'))
}

impl Quantity {
    /// Parses `text` as a number with a unit, and returns the quantity as an integer multiple of the base unit.
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let Quantity { table, example, .. } = *self;
        let trimmed = text.trim();
        let end = trimmed
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+')))
            .unwrap_or(trimmed.len());
        let (number, unit) = (trimmed[..end].replace('_', ""), trimmed[end..].trim());
        let value: f64 = number.parse().map_err(|_| UnitError::NotANumber { text: text.to_string(), example })?;
        let Some((_, scale)) = table.iter().copied().find(|(name, _)| is_unit(unit, name)) else {
            return Err(self.wrong_unit(text, value, unit));
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

    /// The error that `unit` is not a unit of this quantity. `value` is the number before it in `text`.
    fn wrong_unit(&self, text: &str, value: f64, unit: &str) -> UnitError {
        let Quantity { table, units, example, confused } = *self;
        let text = text.to_string();
        if let Some(Confused { table: others, is, quantity, wanted }) = confused
            && let Some((_, scale)) = others.iter().find(|(name, _)| is_unit(unit, name))
        {
            return UnitError::Confused { text, is, quantity, wanted, units, same: self.show(value * scale) };
        }
        // The case may be all that is wrong, but a bit is not a byte: the last letter keeps its case.
        let loosely = |name: &str| name.eq_ignore_ascii_case(unit) && name.ends_with('B') == unit.ends_with('B');
        let example = match table.iter().find(|(name, _)| loosely(name)) {
            Some((name, _)) => format!("\"{value} {name}\""),
            None => example.to_string(),
        };
        UnitError::Unit { text, unit: unit.to_string(), units, example }
    }

    /// `base` base units as text, in the largest decimal unit in which the number is at least 1.
    fn show(&self, base: f64) -> String {
        let mut decimal = self.table.iter().rev().filter(|(name, _)| !name.contains('i'));
        let fitting = decimal.find(|(_, scale)| *scale <= base.abs().max(1.0));
        let (name, scale) = fitting.copied().unwrap_or(("", 1.0));
        format!("{} {name}", base / scale)
    }
}

impl FromStr for BitRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<BitRate, UnitError> {
        const BYTES: Confused = Confused {
            table: &[
                ("Bps", 8.0),
                ("KBps", 8e3),
                ("MBps", 8e6),
                ("GBps", 8e9),
                ("TBps", 8e12),
                ("B/s", 8.0),
                ("KB/s", 8e3),
                ("MB/s", 8e6),
                ("GB/s", 8e9),
                ("TB/s", 8e12),
            ],
            is: "bytes per second",
            quantity: "rate",
            wanted: "bits per second",
        };
        const RATE: Quantity = Quantity {
            table: &[("bps", 1.0), ("Kbps", 1e3), ("Mbps", 1e6), ("Gbps", 1e9), ("Tbps", 1e12)],
            units: "bps, Kbps, Mbps, Gbps, Tbps",
            example: "\"40 Gbps\"",
            confused: Some(&BYTES),
        };
        RATE.parse(text).map(BitRate)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Bytes, UnitError> {
        const BITS: Confused = Confused {
            table: &[("b", 0.125), ("Kb", 125.0), ("Mb", 125e3), ("Gb", 125e6), ("Tb", 125e9)],
            is: "bits",
            quantity: "size",
            wanted: "bytes",
        };
        const SIZE: Quantity = Quantity {
            table: &[
                ("B", 1.0),
                ("KB", 1e3),
                ("MB", 1e6),
                ("GB", 1e9),
                ("TB", 1e12),
                ("KiB", 1024.0),
                ("MiB", 1048576.0),
                ("GiB", 1073741824.0),
            ],
            units: "B, KB, MB, GB, TB, KiB, MiB, GiB",
            example: "\"240 KB\"",
            confused: Some(&BITS),
        };
        SIZE.parse(text).map(Bytes)
    }
}

impl FromStr for Time {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Time, UnitError> {
        const TIME: Quantity = Quantity {
            // U+00B5 (micro sign) and U+03BC (Greek mu) look alike.
            table: &[
                ("ps", 1.0),
                ("ns", 1e3),
                ("us", 1e6),
                ("\u{b5}s", 1e6),
                ("\u{3bc}s", 1e6),
                ("ms", 1e9),
                ("s", 1e12),
            ],
            units: "ps, ns, us, ms, s",
            example: "\"2 us\"",
            confused: None,
        };
        TIME.parse(text).map(Time::from_ps)
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
        assert!(matches!("1 Kb".parse::<Bytes>(), Err(UnitError::Confused { .. })));
    }

    /// Prefixes and units have the case of the SI; only kilo may be `k` or `K`.
    #[test]
    fn the_case_of_units_matters() {
        for text in ["40 Gbps", "40_000 Mbps", "40000000kbps", "40000000 Kbps", "0.04 Tbps"] {
            assert_eq!(text.parse(), Ok(BitRate::from_gbps(40)), "{text}");
        }
        for text in ["2 kB", "2KB", "2000 B", "0.002 MB"] {
            assert_eq!(text.parse(), Ok(Bytes(2_000)), "{text}");
        }
        assert_eq!(("2 kiB".parse(), "2 KiB".parse()), (Ok(Bytes(2_048)), Ok(Bytes(2_048))));
        for text in ["2 us", "2 \u{b5}s", "2\u{3bc}s", "0.002 ms"] {
            assert_eq!(text.parse(), Ok(Time::from_us(2)), "{text}");
        }
        let rates = "use one of bps, Kbps, Mbps, Gbps, Tbps";
        for (text, expected) in [
            (
                "25 GBps",
                format!(
                    "`25 GBps` is in bytes per second, and a rate is in bits per second; {rates}: \"200 Gbps\" is the same rate"
                ),
            ),
            (
                "100 kB/s",
                format!(
                    "`100 kB/s` is in bytes per second, and a rate is in bits per second; {rates}: \"800 Kbps\" is the same rate"
                ),
            ),
            ("40 gbps", format!("`40 gbps` has the unknown unit `gbps`; {rates}, for example \"40 Gbps\"")),
            ("2 mbps", format!("`2 mbps` has the unknown unit `mbps`; {rates}, for example \"2 Mbps\"")),
        ] {
            assert_eq!(text.parse::<BitRate>().unwrap_err().to_string(), expected);
        }
        let sizes = "use one of B, KB, MB, GB, TB, KiB, MiB, GiB";
        for (text, expected) in [
            ("16 Mb", format!("`16 Mb` is in bits, and a size is in bytes; {sizes}: \"2 MB\" is the same size")),
            ("1 b", format!("`1 b` is in bits, and a size is in bytes; {sizes}: \"0.125 B\" is the same size")),
            ("2 mB", format!("`2 mB` has the unknown unit `mB`; {sizes}, for example \"2 MB\"")),
            ("2 mib", format!("`2 mib` has the unknown unit `mib`; {sizes}, for example \"240 KB\"")),
        ] {
            assert_eq!(text.parse::<Bytes>().unwrap_err().to_string(), expected);
        }
        let error = "1 S".parse::<Time>().unwrap_err().to_string();
        assert_eq!(error, "`1 S` has the unknown unit `S`; use one of ps, ns, us, ms, s, for example \"1 s\"");
        assert!("1 Ms".parse::<Time>().unwrap_err().to_string().ends_with("for example \"1 ms\""));
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
