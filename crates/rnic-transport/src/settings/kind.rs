//! Kinds of values, with their ranges: what a setting of a run accepts, from a scenario file, a JSON document, Python
//! or the command line.

use super::{Parameter, Value};
use crate::{BitRate, Bytes, Time};
use std::fmt;

/// The kind of value that a setting takes, and the range of the value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// A rate greater than zero, at most [`MAX_RATE`].
    Rate,
    /// A time greater than zero, at most [`MAX_TIME`].
    Time,
    /// A size of at least one byte, at most [`MAX_BYTES`].
    Bytes,
    /// A number.
    Number {
        /// Minimum, included in the range.
        min: f64,
        /// Maximum, included in the range.
        max: f64,
    },
    /// A number greater than a minimum.
    NumberAbove {
        /// Minimum, not included in the range.
        min: f64,
        /// Maximum, included in the range.
        max: f64,
    },
    /// A number less than a maximum.
    NumberBelow {
        /// Minimum, included in the range.
        min: f64,
        /// Maximum, not included in the range.
        max: f64,
    },
    /// A whole number.
    Count {
        /// Minimum, included in the range.
        min: u64,
        /// Maximum, included in the range.
        max: u64,
    },
    /// `true` or `false`.
    Flag,
    /// A retransmission timeout of at least [`MIN_TIMEOUT`], at most [`MAX_TIME`].
    Timeout,
    /// A time, zero included, at most [`MAX_TIME`].
    Delay,
    /// A time within a range.
    Span {
        /// Minimum, included in the range.
        min: Time,
        /// Maximum, included in the range.
        max: Time,
    },
    /// A size within a range.
    Size {
        /// Minimum in bytes.
        min: u64,
        /// Maximum in bytes.
        max: u64,
    },
    /// One of the listed words.
    Choice(&'static [&'static str]),
    /// Classes of message buffers, at least one; each has the values that [`BUFFER_CLASS`] declares.
    Buffers,
    /// A string without control characters such as line breaks, which may be empty.
    Title,
    /// A string without control characters that has other characters than spaces.
    Text,
    /// A list of values of one kind.
    List(&'static Kind),
    /// A value of one of several kinds; the first is the usual one.
    Either(&'static [Kind]),
    /// The table of settings with this name.
    Table(&'static str),
    /// A list of tables of settings with this name.
    Tables(&'static str),
}

/// Minimum retransmission timeout that a setting accepts, 100 ns. It is shorter than any round trip, but long enough
/// that a simulation with this timeout still ends.
pub const MIN_TIMEOUT: Time = Time::from_ns(100);
/// Maximum of every time that a setting accepts, 30 days; sums of a few such times still fit into [`Time`].
pub const MAX_TIME: Time = Time::from_ms(30 * 24 * 3_600 * 1_000);
/// Maximum of every rate that a setting accepts, 10 Tbps.
pub const MAX_RATE: BitRate = BitRate::from_gbps(10_000);
/// Maximum of every size that a setting accepts, in bytes: 1,000 TB.
pub const MAX_BYTES: u64 = 1_000_000_000_000_000;

/// The values of a class of message buffers ([`Kind::Buffers`]).
pub const BUFFER_CLASS: [Parameter; 2] = [
    Parameter::derived("size", Kind::Size { min: 1, max: u32::MAX as u64 }, "bytes that a buffer holds"),
    Parameter::derived("count", Kind::Count { min: 1, max: 1_000_000 }, "number of buffers of this size"),
];

impl Kind {
    /// Parses a value of this kind from the text of a command-line option. [`Kind::accepts`] checks the range.
    ///
    /// # Errors
    /// If the text is not a value of this kind. The error is one sentence that names the expected kind.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let unit = |error: crate::units::UnitError| error.to_string();
        let plain = |what: &str| format!("`{text}` is not {what}");
        match self {
            Kind::Rate => text.parse().map(Value::Rate).map_err(unit),
            Kind::Time | Kind::Timeout | Kind::Delay | Kind::Span { .. } => text.parse().map(Value::Time).map_err(unit),
            Kind::Bytes | Kind::Size { .. } => text.parse().map(Value::Bytes).map_err(unit),
            Kind::Number { .. } | Kind::NumberAbove { .. } | Kind::NumberBelow { .. } => {
                text.parse().map(Value::Number).map_err(|_| plain("a number"))
            }
            Kind::Count { .. } => text.parse().map(Value::Count).map_err(|_| plain("a whole number")),
            Kind::Flag => text.parse().map(Value::Flag).map_err(|_| plain("true or false")),
            Kind::Choice(_) | Kind::Title | Kind::Text => Ok(Value::choice(text)),
            Kind::Either(kinds) => kinds.first().map_or(Err(plain("a value")), |kind| kind.parse(text)),
            Kind::Buffers => Err(plain("given as text: buffers are a list in a scenario file")),
            Kind::List(_) | Kind::Table(_) | Kind::Tables(_) => Err(plain("given as text: it is a list or a table")),
        }
    }

    /// Whether `value` is of this kind and within its range. A [`Value`] is never a list of several values or a table.
    pub fn accepts(&self, value: &Value) -> bool {
        match (self, value) {
            (Kind::Rate, Value::Rate(rate)) => rate.as_bps() > 0 && *rate <= MAX_RATE,
            (_, Value::Time(time)) => self.times().is_some_and(|(min, max)| (min..=max).contains(time)),
            (_, Value::Bytes(bytes)) => self.sizes().is_some_and(|(min, max)| (min..=max).contains(&bytes.0)),
            (Kind::Number { min, max }, Value::Number(number)) => (*min..=*max).contains(number),
            (Kind::NumberAbove { min, max }, Value::Number(number)) => number > min && number <= max,
            (Kind::NumberBelow { min, max }, Value::Number(number)) => (*min..*max).contains(number),
            (Kind::Count { min, max }, Value::Count(count)) => (*min..=*max).contains(count),
            (Kind::Flag, Value::Flag(_)) => true,
            (Kind::Title, Value::Choice(text)) => !text.contains(char::is_control),
            (Kind::Choice(words), Value::Choice(word)) => words.contains(&word.as_str()),
            (Kind::Text, Value::Choice(text)) => !text.trim().is_empty() && !text.contains(char::is_control),
            (Kind::Either(kinds), value) => kinds.iter().any(|kind| kind.accepts(value)),
            (Kind::Buffers, Value::Buffers(classes)) => {
                let [size, count] = BUFFER_CLASS.map(|parameter| parameter.kind);
                let fits = |bytes: u32, number: u32| {
                    size.accepts(&Value::Bytes(Bytes(bytes.into()))) && count.accepts(&Value::Count(number.into()))
                };
                !classes.is_empty() && classes.iter().all(|class| fits(class.bytes, class.count))
            }
            _ => false,
        }
    }

    /// Minimum and maximum of a kind of times.
    pub fn times(&self) -> Option<(Time, Time)> {
        match self {
            Kind::Time => Some((Time::from_ps(1), MAX_TIME)),
            Kind::Timeout => Some((MIN_TIMEOUT, MAX_TIME)),
            Kind::Delay => Some((Time::ZERO, MAX_TIME)),
            Kind::Span { min, max } => Some((*min, *max)),
            _ => None,
        }
    }

    /// Minimum and maximum of a kind of sizes, in bytes.
    pub fn sizes(&self) -> Option<(u64, u64)> {
        match self {
            Kind::Bytes => Some((1, MAX_BYTES)),
            Kind::Size { min, max } => Some((*min, *max)),
            _ => None,
        }
    }

    /// The values that this kind accepts, in a few words: `64 B to 9 KB`, `more than 0, at most 1`, `true or false`.
    pub fn range(&self) -> String {
        match self {
            Kind::Rate => format!("more than zero, at most {MAX_RATE}"),
            Kind::Time => "more than zero, at most 30 days".to_string(),
            Kind::Delay => "at most 30 days".to_string(),
            Kind::Timeout => format!("{MIN_TIMEOUT} to 30 days"),
            Kind::Span { min: Time::ZERO, max } => format!("0 to {max}"),
            Kind::Span { min, max } => format!("{min} to {max}"),
            Kind::Bytes | Kind::Size { .. } => {
                let (min, max) = self.sizes().unwrap_or_default();
                format!("{} to {}", Bytes(min), Bytes(max))
            }
            Kind::Number { min, max } => format!("{min} to {max}"),
            Kind::NumberAbove { min, max } if max.is_infinite() => format!("more than {min}"),
            Kind::NumberAbove { min, max } => format!("more than {min}, at most {max}"),
            Kind::NumberBelow { min, max } => format!("at least {min}, less than {max}"),
            Kind::Count { min, max } => format!("{min} to {max}"),
            Kind::Flag => "true or false".to_string(),
            Kind::Choice(words) => words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", "),
            Kind::Title => "a string".to_string(),
            Kind::Text => "a string that is not empty".to_string(),
            Kind::List(kind) => format!("a list of: {}", kind.range()),
            Kind::Either(kinds) => kinds.iter().map(Kind::range).collect::<Vec<_>>().join("; or "),
            Kind::Buffers => "a list of buffer classes".to_string(),
            Kind::Table(_) => "a table".to_string(),
            Kind::Tables(_) => "a list of tables".to_string(),
        }
    }

    /// A value of this kind as TOML text, for error messages.
    pub fn example(&self) -> &'static str {
        match self {
            Kind::Rate => "\"40 Gbps\"",
            Kind::Time => "\"50 us\"",
            Kind::Timeout => "\"320 us\"",
            Kind::Delay | Kind::Span { .. } => "\"100 ns\"",
            Kind::Bytes => "\"16 KB\"",
            Kind::Size { max: 0..=9_000, .. } => "\"66 B\"",
            Kind::Size { .. } => "\"4 KB\"",
            Kind::Number { .. } | Kind::NumberAbove { .. } | Kind::NumberBelow { .. } => "0.5",
            Kind::Count { .. } => "1",
            Kind::Flag => "true",
            Kind::Buffers => "[{ size = \"2 KB\", count = 32 }, { size = \"39 KB\", count = 16 }]",
            Kind::Choice(_) | Kind::Title | Kind::Text => "\"text\"",
            Kind::Either(kinds) => kinds.first().map_or("", Kind::example),
            Kind::List(_) | Kind::Tables(_) => "[]",
            Kind::Table(_) => "{}",
        }
    }
}

/// The kind with its range and an example: `a rate above 0, at most 10 Tbps, for example "40 Gbps"`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Rate => write!(f, "a rate above 0, at most {MAX_RATE}, for example \"40 Gbps\""),
            Kind::Time => f.write_str("a time above 0, at most 30 days, for example \"55 us\""),
            Kind::Timeout => write!(f, "a time of at least {MIN_TIMEOUT}, at most 30 days, for example \"320 us\""),
            Kind::Delay => f.write_str("a time of at most 30 days, for example \"100 ns\""),
            Kind::Span { .. } => write!(f, "a time, {}", self.range()),
            Kind::Bytes => write!(f, "a size from 1 B to {}, for example \"10 MB\"", Bytes(MAX_BYTES)),
            Kind::Size { .. } => write!(f, "a size from {}", self.range()),
            Kind::Number { .. } => write!(f, "a number from {}", self.range()),
            Kind::NumberAbove { .. } | Kind::NumberBelow { .. } => write!(f, "a number, {}", self.range()),
            Kind::Count { .. } => write!(f, "a whole number from {}", self.range()),
            Kind::Buffers => f.write_str("a list of buffer classes, for example [{ size = \"2 KB\", count = 32 }]"),
            Kind::List(kind) => write!(f, "a list of: {kind}"),
            Kind::Either(kinds) => {
                let kinds: Vec<String> = kinds.iter().map(Kind::to_string).collect();
                f.write_str(&kinds.join("; or "))
            }
            Kind::Flag | Kind::Choice(_) | Kind::Title | Kind::Text | Kind::Table(_) | Kind::Tables(_) => {
                f.write_str(&self.range())
            }
        }
    }
}
