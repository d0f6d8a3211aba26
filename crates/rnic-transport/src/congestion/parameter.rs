//! Parameters of a congestion control: their declaration (kind, range, default), and their values in a scenario.

use crate::{BitRate, Bytes, Time};
use std::fmt;

/// The value of a parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// `"40 Mbps"`.
    Rate(BitRate),
    /// `"55 us"`.
    Time(Time),
    /// `"10 MB"`.
    Bytes(Bytes),
    /// `0.8`.
    Number(f64),
    /// `5`.
    Count(u64),
    /// `true`.
    Flag(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Rate(rate) => rate.fmt(f),
            Value::Time(time) => time.fmt(f),
            Value::Bytes(bytes) => bytes.fmt(f),
            Value::Number(number) => number.fmt(f),
            Value::Count(count) => count.fmt(f),
            Value::Flag(flag) => flag.fmt(f),
        }
    }
}

/// The kind of value that a parameter takes, and its range (bounds included).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// A rate greater than zero.
    Rate,
    /// A time greater than zero.
    Time,
    /// A size of at least one byte.
    Bytes,
    /// A number.
    Number {
        /// Minimum.
        min: f64,
        /// Maximum.
        max: f64,
    },
    /// A whole number.
    Count {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// `true` or `false`.
    Flag,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Rate => f.write_str("a rate above 0, for example \"40 Gbps\""),
            Kind::Time => f.write_str("a time above 0, for example \"55 us\""),
            Kind::Bytes => f.write_str("a size of at least 1 B, for example \"10 MB\""),
            Kind::Number { min, max } => write!(f, "a number from {min} to {max}"),
            Kind::Count { min, max } => write!(f, "a whole number from {min} to {max}"),
            Kind::Flag => f.write_str("true or false"),
        }
    }
}

/// The declaration of a parameter of a congestion control.
///
/// ```
/// use rnic_transport::Time;
/// use rnic_transport::congestion::{Kind, Parameter, Value};
///
/// const GAIN: Parameter = Parameter::number("g", 1.0 / 16.0, 0.0, 1.0, "gain of alpha; published (1/16)");
/// assert_eq!(GAIN.kind, Kind::Number { min: 0.0, max: 1.0 });
/// assert_eq!(GAIN.default, Some(Value::Number(0.0625)));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameter {
    /// The key of the parameter in a scenario.
    pub name: &'static str,
    /// Kind and range of its value.
    pub kind: Kind,
    /// Default value; `None` if the default is derived from the fabric, as `about` describes.
    pub default: Option<Value>,
    /// Description of one line: the meaning, a semicolon, and the source of the default.
    pub about: &'static str,
}

impl Parameter {
    /// A rate.
    pub const fn rate(name: &'static str, default: BitRate, about: &'static str) -> Parameter {
        Parameter { name, kind: Kind::Rate, default: Some(Value::Rate(default)), about }
    }
    /// A time.
    pub const fn time(name: &'static str, default: Time, about: &'static str) -> Parameter {
        Parameter { name, kind: Kind::Time, default: Some(Value::Time(default)), about }
    }
    /// A size.
    pub const fn bytes(name: &'static str, default: u64, about: &'static str) -> Parameter {
        Parameter { name, kind: Kind::Bytes, default: Some(Value::Bytes(Bytes(default))), about }
    }
    /// A number from `min` to `max`.
    pub const fn number(name: &'static str, default: f64, min: f64, max: f64, about: &'static str) -> Parameter {
        Parameter { name, kind: Kind::Number { min, max }, default: Some(Value::Number(default)), about }
    }
    /// A whole number from `min` to `max`.
    pub const fn count(name: &'static str, default: u64, min: u64, max: u64, about: &'static str) -> Parameter {
        Parameter { name, kind: Kind::Count { min, max }, default: Some(Value::Count(default)), about }
    }
    /// `true` or `false`.
    pub const fn flag(name: &'static str, default: bool, about: &'static str) -> Parameter {
        Parameter { name, kind: Kind::Flag, default: Some(Value::Flag(default)), about }
    }
    /// A parameter whose default is derived from the fabric; `about` describes how.
    pub const fn derived(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
        Parameter { name, kind, default: None, about }
    }
}

/// The values of a congestion control's parameters: the values that a scenario sets, and the declared defaults of the
/// others.
///
/// ```
/// use rnic_transport::Time;
/// use rnic_transport::congestion::{CongestionControl, Dcqcn, Settings, Value};
///
/// let mut settings = Settings::new(Dcqcn::PARAMETERS);
/// settings.set("rate_timer", Value::Time(Time::from_us(300)))?;
/// assert_eq!(settings.time("rate_timer"), Ok(Time::from_us(300)));
/// assert_eq!(settings.count("fast_recovery"), Ok(5), "the default");
/// assert!(settings.set("fast_recovery", Value::Count(0)).is_err(), "out of range");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Settings {
    declared: &'static [Parameter],
    given: Vec<(&'static str, Value)>,
}

impl Settings {
    /// The default values of the parameters in `declared`.
    pub fn new(declared: &'static [Parameter]) -> Settings {
        Settings { declared, given: Vec::new() }
    }

    /// Sets the value of a parameter.
    ///
    /// # Errors
    /// If no parameter has this name, or `value` has the wrong kind or is out of range. The message says what would be
    /// accepted.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), String> {
        let parameter = self.declared.iter().find(|parameter| parameter.name == name);
        let parameter = parameter.ok_or_else(|| {
            let names: Vec<String> = self.declared.iter().map(|parameter| format!("`{}`", parameter.name)).collect();
            match names.is_empty() {
                true => format!("there is no parameter `{name}`; the congestion control has no parameters"),
                false => format!("there is no parameter `{name}`; there are {}", names.join(", ")),
            }
        })?;
        let fits = match (parameter.kind, value) {
            (Kind::Rate, Value::Rate(rate)) => rate.as_bps() > 0,
            (Kind::Time, Value::Time(time)) => time > Time::ZERO,
            (Kind::Bytes, Value::Bytes(bytes)) => bytes.0 > 0,
            (Kind::Number { min, max }, Value::Number(number)) => (min..=max).contains(&number),
            (Kind::Count { min, max }, Value::Count(count)) => (min..=max).contains(&count),
            (Kind::Flag, Value::Flag(_)) => true,
            _ => false,
        };
        if !fits {
            return Err(format!("`{name}` cannot be {value}; it takes {}", parameter.kind));
        }
        self.given.retain(|(given, _)| *given != parameter.name);
        self.given.push((parameter.name, value));
        Ok(())
    }

    /// The value of a parameter: the value that was set, or its default. `None` if it was not set and its default is
    /// derived, or if there is no such parameter.
    pub fn value(&self, name: &str) -> Option<Value> {
        let given = self.given.iter().find(|(given, _)| *given == name).map(|(_, value)| *value);
        given.or_else(|| self.declared.iter().find(|parameter| parameter.name == name)?.default)
    }

    /// The value of a parameter that is a rate.
    ///
    /// # Errors
    /// If no rate of this name is declared, or if it was not set and has no fixed default. Such an error is a bug in
    /// the congestion control, not a mistake in a scenario. The same holds for the functions below.
    pub fn rate(&self, name: &str) -> Result<BitRate, String> {
        match self.value(name) {
            Some(Value::Rate(rate)) => Ok(rate),
            _ => Err(undeclared(name, "rate")),
        }
    }
    /// The value of a parameter that is a time.
    ///
    /// # Errors
    /// See [`Settings::rate`].
    pub fn time(&self, name: &str) -> Result<Time, String> {
        match self.value(name) {
            Some(Value::Time(time)) => Ok(time),
            _ => Err(undeclared(name, "time")),
        }
    }
    /// The value, in bytes, of a parameter that is a size.
    ///
    /// # Errors
    /// See [`Settings::rate`].
    pub fn bytes(&self, name: &str) -> Result<u64, String> {
        match self.value(name) {
            Some(Value::Bytes(bytes)) => Ok(bytes.0),
            _ => Err(undeclared(name, "size")),
        }
    }
    /// The value of a parameter that is a number.
    ///
    /// # Errors
    /// See [`Settings::rate`].
    pub fn number(&self, name: &str) -> Result<f64, String> {
        match self.value(name) {
            Some(Value::Number(number)) => Ok(number),
            _ => Err(undeclared(name, "number")),
        }
    }
    /// The value of a parameter that is a whole number.
    ///
    /// # Errors
    /// See [`Settings::rate`].
    pub fn count(&self, name: &str) -> Result<u64, String> {
        match self.value(name) {
            Some(Value::Count(count)) => Ok(count),
            _ => Err(undeclared(name, "whole number")),
        }
    }
    /// The value of a parameter that is a flag.
    ///
    /// # Errors
    /// See [`Settings::rate`].
    pub fn flag(&self, name: &str) -> Result<bool, String> {
        match self.value(name) {
            Some(Value::Flag(flag)) => Ok(flag),
            _ => Err(undeclared(name, "flag")),
        }
    }
}

fn undeclared(name: &str, kind: &str) -> String {
    format!("the congestion control has no {kind} `{name}` with a value")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &[Parameter] = &[
        Parameter::time("timer", Time::from_us(55), "a timer"),
        Parameter::number("g", 0.0625, 0.0, 1.0, "a gain"),
        Parameter::derived("delta", Kind::Rate, "a thousandth of line rate"),
    ];

    #[test]
    fn a_set_value_overrides_the_default() {
        let mut settings = Settings::new(DECLARED);
        assert_eq!(settings.time("timer"), Ok(Time::from_us(55)));
        settings.set("timer", Value::Time(Time::from_us(300))).unwrap();
        settings.set("timer", Value::Time(Time::from_us(30))).unwrap();
        assert_eq!(settings.time("timer"), Ok(Time::from_us(30)));
        assert_eq!(settings.value("delta"), None);
        assert_eq!(settings.number("g"), Ok(0.0625));
    }

    #[test]
    fn wrong_values_are_refused() {
        let mut settings = Settings::new(DECLARED);
        let refused = |value| Err(format!("`g` cannot be {value}; it takes a number from 0 to 1"));
        assert_eq!(settings.set("g", Value::Number(1.5)), refused("1.5"));
        assert_eq!(settings.set("g", Value::Number(f64::NAN)), refused("NaN"));
        assert!(settings.set("g", Value::Flag(true)).is_err());
        assert!(settings.set("timer", Value::Time(Time::ZERO)).is_err());
        let unknown = "there is no parameter `h`; there are `timer`, `g`, `delta`".to_string();
        assert_eq!(settings.set("h", Value::Number(0.5)), Err(unknown));
        assert!(settings.rate("timer").is_err() && settings.rate("delta").is_err());
    }
}
