//! Parameters of a congestion control as a scenario writes them: declared once, with unit, default and range.

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

/// What kind of value a parameter takes, and within which bounds (both included).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// A rate of more than zero.
    Rate,
    /// A time of more than zero.
    Time,
    /// A size of at least one byte.
    Bytes,
    /// A number.
    Number {
        /// Smallest that is accepted.
        least: f64,
        /// Largest that is accepted.
        most: f64,
    },
    /// A whole number.
    Count {
        /// Smallest that is accepted.
        least: u64,
        /// Largest that is accepted.
        most: u64,
    },
    /// `true` or `false`.
    Flag,
}

/// One parameter of a congestion control.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameter {
    /// The key under which a scenario gives it.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its default; `None` where that follows from the fabric, as `about` says.
    pub default: Option<Value>,
    /// One line: what it does, and where the default comes from.
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
    /// A number from `least` to `most`.
    pub const fn number(name: &'static str, default: f64, least: f64, most: f64, about: &'static str) -> Parameter {
        Parameter { name, kind: Kind::Number { least, most }, default: Some(Value::Number(default)), about }
    }
    /// A whole number from `least` to `most`.
    pub const fn count(name: &'static str, default: u64, least: u64, most: u64, about: &'static str) -> Parameter {
        Parameter { name, kind: Kind::Count { least, most }, default: Some(Value::Count(default)), about }
    }
    /// `true` or `false`.
    pub const fn flag(name: &'static str, default: bool, about: &'static str) -> Parameter {
        Parameter { name, kind: Kind::Flag, default: Some(Value::Flag(default)), about }
    }
    /// A parameter whose default follows from the fabric: `about` says how.
    pub const fn derived(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
        Parameter { name, kind, default: None, about }
    }
}

/// The parameters that a scenario gives, over the defaults of a declared list.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Settings {
    declared: &'static [Parameter],
    given: Vec<(&'static str, Value)>,
}

impl Settings {
    /// Nothing but the defaults of `declared`.
    pub fn new(declared: &'static [Parameter]) -> Settings {
        Settings { declared, given: Vec::new() }
    }

    /// Gives a parameter a value.
    ///
    /// # Errors
    /// One sentence when no such parameter is declared, or when it does not take this value.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), String> {
        let parameter = self.declared.iter().find(|parameter| parameter.name == name);
        let parameter = parameter.ok_or_else(|| format!("there is no parameter `{name}`"))?;
        let fits = match (parameter.kind, value) {
            (Kind::Rate, Value::Rate(rate)) => rate.as_bps() > 0,
            (Kind::Time, Value::Time(time)) => time > Time::ZERO,
            (Kind::Bytes, Value::Bytes(bytes)) => bytes.0 > 0,
            (Kind::Number { least, most }, Value::Number(number)) => (least..=most).contains(&number),
            (Kind::Count { least, most }, Value::Count(count)) => (least..=most).contains(&count),
            (Kind::Flag, Value::Flag(_)) => true,
            _ => false,
        };
        if !fits {
            return Err(format!("`{name}` cannot be {value}"));
        }
        self.given.retain(|(given, _)| *given != parameter.name);
        self.given.push((parameter.name, value));
        Ok(())
    }

    /// The value of a parameter: as given, else its default; `None` where neither is known.
    pub fn value(&self, name: &str) -> Option<Value> {
        let given = self.given.iter().find(|(given, _)| *given == name).map(|(_, value)| *value);
        given.or_else(|| self.declared.iter().find(|parameter| parameter.name == name)?.default)
    }

    /// The value of a rate.
    ///
    /// # Errors
    /// When no rate of this name is given or declared with a default: a mistake in the congestion control, not in a scenario. The
    /// same goes for the functions below.
    pub fn rate(&self, name: &str) -> Result<BitRate, String> {
        match self.value(name) {
            Some(Value::Rate(rate)) => Ok(rate),
            _ => Err(undeclared(name, "rate")),
        }
    }
    /// The value of a time.
    ///
    /// # Errors
    /// See [`Settings::rate`].
    pub fn time(&self, name: &str) -> Result<Time, String> {
        match self.value(name) {
            Some(Value::Time(time)) => Ok(time),
            _ => Err(undeclared(name, "time")),
        }
    }
    /// The value of a size, in bytes.
    ///
    /// # Errors
    /// See [`Settings::rate`].
    pub fn bytes(&self, name: &str) -> Result<u64, String> {
        match self.value(name) {
            Some(Value::Bytes(bytes)) => Ok(bytes.0),
            _ => Err(undeclared(name, "size")),
        }
    }
    /// The value of a number.
    ///
    /// # Errors
    /// See [`Settings::rate`].
    pub fn number(&self, name: &str) -> Result<f64, String> {
        match self.value(name) {
            Some(Value::Number(number)) => Ok(number),
            _ => Err(undeclared(name, "number")),
        }
    }
    /// The value of a whole number.
    ///
    /// # Errors
    /// See [`Settings::rate`].
    pub fn count(&self, name: &str) -> Result<u64, String> {
        match self.value(name) {
            Some(Value::Count(count)) => Ok(count),
            _ => Err(undeclared(name, "whole number")),
        }
    }
    /// The value of a flag.
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
    format!("the congestion control has no {kind} `{name}`")
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
    fn what_is_given_wins_over_the_default() {
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
        assert_eq!(settings.set("g", Value::Number(1.5)), Err("`g` cannot be 1.5".to_string()));
        assert_eq!(settings.set("g", Value::Number(f64::NAN)), Err("`g` cannot be NaN".to_string()));
        assert!(settings.set("g", Value::Flag(true)).is_err());
        assert!(settings.set("timer", Value::Time(Time::ZERO)).is_err());
        assert_eq!(settings.set("h", Value::Number(0.5)), Err("there is no parameter `h`".to_string()));
        assert!(settings.rate("timer").is_err() && settings.rate("delta").is_err());
    }
}
