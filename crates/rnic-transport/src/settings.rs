//! Parameters of transports and congestion controls: their declarations (kind, range, default), and the values that a
//! simulation run gives them.

mod kind;

pub use kind::{BUFFER_CLASS, Kind, MAX_BYTES, MAX_RATE, MAX_TIME, MIN_TIMEOUT};

use crate::message::buffers::BufferClass;
use crate::{BitRate, Bytes, Time};
use std::fmt;

/// The value of a parameter.
///
/// In a JSON or TOML document it is a string with a unit, a number, `true` or `false`, a word, or a list of buffer
/// classes. A whole number is read as a [`Value::Count`], which [`Settings::set`] also accepts for a parameter that
/// takes any number.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(untagged))]
pub enum Value {
    /// A rate, such as `"40 Mbps"`.
    Rate(BitRate),
    /// A time, such as `"55 us"`.
    Time(Time),
    /// A size, such as `"10 MB"`.
    Bytes(Bytes),
    /// A whole number, such as `5`.
    Count(u64),
    /// A number with a fraction, such as `0.8`.
    Number(f64),
    /// `true` or `false`.
    Flag(bool),
    /// A word, such as `"selective"`.
    Choice(String),
    /// A list of buffer classes, such as `[{ size = "2 KB", count = 32 }]`.
    Buffers(Vec<BufferClass>),
}

impl Value {
    /// A [`Value::Choice`]: one of the words that a parameter of kind [`Kind::Choice`] takes.
    pub fn choice(word: &str) -> Value {
        Value::Choice(word.to_string())
    }
}

impl From<BitRate> for Value {
    fn from(rate: BitRate) -> Value {
        Value::Rate(rate)
    }
}
impl From<Time> for Value {
    fn from(time: Time) -> Value {
        Value::Time(time)
    }
}
impl From<Bytes> for Value {
    fn from(bytes: Bytes) -> Value {
        Value::Bytes(bytes)
    }
}
impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}
impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Count(count)
    }
}
impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}
impl From<&str> for Value {
    fn from(word: &str) -> Value {
        Value::choice(word)
    }
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
            Value::Choice(word) => write!(f, "\"{word}\""),
            Value::Buffers(classes) if classes.is_empty() => f.write_str("without limit"),
            Value::Buffers(classes) => {
                let classes: Vec<String> = classes.iter().map(|c| format!("{} of {} B", c.count, c.bytes)).collect();
                f.write_str(&classes.join(", "))
            }
        }
    }
}

/// The declaration of a parameter of a transport or a congestion control.
///
/// ```
/// use rnic_transport::Time;
/// use rnic_transport::settings::{Kind, Parameter, Value};
///
/// const GAIN: Parameter = Parameter::number("g", 1.0 / 16.0, 0.0, 1.0, "gain of alpha; published (1/16)");
/// assert_eq!(GAIN.kind, Kind::Number { min: 0.0, max: 1.0 });
/// assert_eq!(GAIN.default_value(), Some(Value::Number(0.0625)));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameter {
    /// The name of the parameter, which is also its key in a scenario file.
    pub name: &'static str,
    /// Kind and range of the parameter's value.
    pub kind: Kind,
    /// Default value; `None` if the default is derived from the fabric or other settings, as `about` describes.
    pub default: Option<DefaultValue>,
    /// Description of the parameter in one line: its meaning, a semicolon, and the source of the default.
    pub about: &'static str,
    /// Sets of values of the other parameters, if the words of this parameter select such sets; otherwise empty.
    pub profiles: &'static [Profile],
}

/// A named set of values for the parameters of a congestion control or transport: the word `name` of a parameter that
/// is declared with [`Parameter::profile`] selects it. A parameter that is set keeps its value in every profile.
///
/// ```
/// use rnic_transport::Time;
/// use rnic_transport::settings::{DefaultValue, Parameter, Profile, Settings, Value};
///
/// const QUICK: Profile = Profile { name: "quick", values: &[("period", Some(DefaultValue::Time(Time::from_us(1))))] };
/// const USUAL: Profile = Profile { name: "usual", values: &[] };
/// const PARAMETERS: &[Parameter] = &[
///     Parameter::profile("profile", &["usual", "quick"], &[USUAL, QUICK], "values of all parameters"),
///     Parameter::time("period", Time::from_us(55), "time between two updates; our choice"),
///     Parameter::number("gain", 0.5, 0.0, 1.0, "gain of an update; our choice"),
/// ];
///
/// let mut settings = Settings::new(PARAMETERS);
/// assert_eq!(settings.time("period"), Ok(Time::from_us(55)));
/// settings.set("profile", Value::choice("quick"))?;
/// assert_eq!(settings.time("period"), Ok(Time::from_us(1)), "the value of the profile");
/// assert_eq!(settings.number("gain"), Ok(0.5), "the profile has no value for it");
/// settings.set("period", Value::Time(Time::from_us(7)))?;
/// assert_eq!(settings.time("period"), Ok(Time::from_us(7)), "a set value overrides the profile");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Profile {
    /// Name of the profile: a word of the parameter that selects profiles.
    pub name: &'static str,
    /// Names of parameters with their values; `None` stands for a value that is derived from the fabric. The other
    /// parameters keep their declared defaults.
    pub values: &'static [(&'static str, Option<DefaultValue>)],
}

/// The default value of a parameter: like [`Value`], but usable in a constant, because it allocates no memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DefaultValue {
    /// A default rate.
    Rate(BitRate),
    /// A default time.
    Time(Time),
    /// A default size.
    Bytes(Bytes),
    /// A default number.
    Number(f64),
    /// A default whole number.
    Count(u64),
    /// The default `true` or `false`.
    Flag(bool),
    /// A default word of a [`Kind::Choice`].
    Choice(&'static str),
}

impl From<DefaultValue> for Value {
    fn from(default: DefaultValue) -> Value {
        match default {
            DefaultValue::Rate(rate) => Value::Rate(rate),
            DefaultValue::Time(time) => Value::Time(time),
            DefaultValue::Bytes(bytes) => Value::Bytes(bytes),
            DefaultValue::Number(number) => Value::Number(number),
            DefaultValue::Count(count) => Value::Count(count),
            DefaultValue::Flag(flag) => Value::Flag(flag),
            DefaultValue::Choice(word) => Value::choice(word),
        }
    }
}

impl Parameter {
    /// The parameter's default value; `None` if it is derived, as [`Parameter::about`] describes.
    pub fn default_value(&self) -> Option<Value> {
        self.default.map(Value::from)
    }
    /// A parameter without a default and without profiles.
    const fn new(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
        Parameter { name, kind, default: None, about, profiles: &[] }
    }
    const fn with(self, default: DefaultValue) -> Parameter {
        Parameter { default: Some(default), ..self }
    }
    /// Declares a parameter that is a rate greater than zero.
    pub const fn rate(name: &'static str, default: BitRate, about: &'static str) -> Parameter {
        Parameter::new(name, Kind::Rate, about).with(DefaultValue::Rate(default))
    }
    /// Declares a parameter that is a time greater than zero.
    pub const fn time(name: &'static str, default: Time, about: &'static str) -> Parameter {
        Parameter::new(name, Kind::Time, about).with(DefaultValue::Time(default))
    }
    /// Declares a parameter that is a size of at least one byte; `default` is in bytes.
    pub const fn bytes(name: &'static str, default: u64, about: &'static str) -> Parameter {
        Parameter::new(name, Kind::Bytes, about).with(DefaultValue::Bytes(Bytes(default)))
    }
    /// Declares a parameter that is a number from `min` to `max`.
    pub const fn number(name: &'static str, default: f64, min: f64, max: f64, about: &'static str) -> Parameter {
        Parameter::new(name, Kind::Number { min, max }, about).with(DefaultValue::Number(default))
    }
    /// Declares a parameter that is a whole number from `min` to `max`.
    pub const fn count(name: &'static str, default: u64, min: u64, max: u64, about: &'static str) -> Parameter {
        Parameter::new(name, Kind::Count { min, max }, about).with(DefaultValue::Count(default))
    }
    /// Declares a parameter that is `true` or `false`.
    pub const fn flag(name: &'static str, default: bool, about: &'static str) -> Parameter {
        Parameter::new(name, Kind::Flag, about).with(DefaultValue::Flag(default))
    }
    /// Declares a parameter that is a time, zero included.
    pub const fn delay(name: &'static str, default: Time, about: &'static str) -> Parameter {
        Parameter::new(name, Kind::Delay, about).with(DefaultValue::Time(default))
    }
    /// Declares a parameter that is a size from `min` to `max`; these and `default` are in bytes.
    pub const fn size(name: &'static str, default: u64, min: u64, max: u64, about: &'static str) -> Parameter {
        Parameter::new(name, Kind::Size { min, max }, about).with(DefaultValue::Bytes(Bytes(default)))
    }
    /// Declares a parameter that is a retransmission timeout of at least [`MIN_TIMEOUT`].
    pub const fn timeout(name: &'static str, default: Time, about: &'static str) -> Parameter {
        Parameter::new(name, Kind::Timeout, about).with(DefaultValue::Time(default))
    }
    /// Declares a parameter whose value is one of `words`.
    pub const fn choice(
        name: &'static str, default: &'static str, words: &'static [&'static str], about: &'static str,
    ) -> Parameter {
        Parameter::new(name, Kind::Choice(words), about).with(DefaultValue::Choice(default))
    }
    /// Declares a parameter whose default is derived from the fabric; `about` describes the derivation.
    pub const fn derived(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
        Parameter::new(name, kind, about)
    }
    /// Declares a parameter that selects one of `profiles` by its name. `names` are the names of the profiles in the
    /// same order; the first profile is the default.
    pub const fn profile(
        name: &'static str, names: &'static [&'static str], profiles: &'static [Profile], about: &'static str,
    ) -> Parameter {
        let selector = Parameter::new(name, Kind::Choice(names), about).with(DefaultValue::Choice(names[0]));
        Parameter { profiles, ..selector }
    }
}

/// The values of a transport's or congestion control's parameters: the values that a simulation run sets, and the
/// declared defaults of the other parameters.
///
/// ```
/// use rnic_transport::Time;
/// use rnic_transport::congestion::{CongestionControl, Dcqcn};
/// use rnic_transport::settings::{Settings, Value};
///
/// let mut settings = Settings::new(Dcqcn::PARAMETERS);
/// settings.set("rate_timer", Value::Time(Time::from_us(300)))?;
/// assert_eq!(settings.time("rate_timer"), Ok(Time::from_us(300)));
/// assert_eq!(settings.count("fast_recovery"), Ok(5), "the default");
/// assert!(settings.set("fast_recovery", Value::Count(0)).is_err(), "out of range");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    /// The declared parameters.
    declared: Vec<&'static Parameter>,
    /// Names and values of the parameters that were set.
    given: Vec<(&'static str, Value)>,
}

/// Two `Settings` are equal if the same parameters were set to the same values, in any order.
impl PartialEq for Settings {
    fn eq(&self, other: &Settings) -> bool {
        self.given.len() == other.given.len() && self.given.iter().all(|given| other.given.contains(given))
    }
}

impl Settings {
    /// Settings in which all parameters in `declared` have their default values.
    pub fn new(declared: &'static [Parameter]) -> Settings {
        Settings::of(&[declared])
    }

    /// Settings in which all parameters of several lists have their default values.
    pub fn of(declared: &[&'static [Parameter]]) -> Settings {
        Settings { declared: declared.iter().copied().flatten().collect(), given: Vec::new() }
    }

    /// The declared parameters.
    pub fn declared(&self) -> impl Iterator<Item = &'static Parameter> {
        self.declared.iter().copied()
    }

    /// Names and values of the parameters that were set, in the order of the calls of [`Settings::set`].
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.given.iter().map(|(name, value)| (*name, value))
    }

    /// Sets the value of a parameter. A whole number is also accepted where a number is declared.
    ///
    /// # Errors
    /// If no parameter has this name, or `value` has the wrong kind or is out of range. The message says what would be
    /// accepted.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), String> {
        let parameter = self.declared.iter().find(|parameter| parameter.name == name);
        let parameter = parameter.ok_or_else(|| {
            let names: Vec<String> = self.declared.iter().map(|parameter| format!("`{}`", parameter.name)).collect();
            match names.is_empty() {
                true => format!("there is no parameter `{name}`: there are none at all"),
                false => format!("there is no parameter `{name}`; there are {}", names.join(", ")),
            }
        })?;
        let value = match (parameter.kind, value) {
            (Kind::Number { .. }, Value::Count(count)) => Value::Number(count as f64),
            (_, value) => value,
        };
        if !parameter.kind.accepts(&value) {
            return Err(format!("`{name}` cannot be {value}; it takes {}", parameter.kind));
        }
        self.given.retain(|(given, _)| *given != parameter.name);
        self.given.push((parameter.name, value));
        Ok(())
    }

    /// Resets a parameter to its default.
    pub fn unset(&mut self, name: &str) {
        self.given.retain(|(given, _)| *given != name);
    }

    /// Whether the value of the parameter called `name` was set, instead of left at its default.
    pub fn is_set(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// The value of a parameter: the value that was set, or the value of the selected [`Profile`], or the default.
    /// `None` if it was not set and is derived from the fabric, or if there is no such parameter.
    pub fn value(&self, name: &str) -> Option<Value> {
        if let Some(value) = self.given_value(name) {
            return Some(value.clone());
        }
        let of_profile = self.profile().and_then(|profile| profile.values.iter().find(|(key, _)| *key == name));
        let default = match of_profile {
            Some((_, value)) => *value,
            None => self.declared.iter().find(|parameter| parameter.name == name)?.default,
        };
        default.map(Value::from)
    }

    fn given_value(&self, name: &str) -> Option<&Value> {
        self.given.iter().find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// The profile that these settings select; `None` if no parameter selects profiles.
    pub fn profile(&self) -> Option<&'static Profile> {
        let selector = self.declared.iter().find(|parameter| !parameter.profiles.is_empty())?;
        match self.given_value(selector.name) {
            Some(Value::Choice(word)) => selector.profiles.iter().find(|profile| profile.name == word),
            _ => selector.profiles.first(),
        }
    }

    /// The value of a parameter that is a rate.
    ///
    /// # Errors
    /// If no rate of this name is declared, or if it was not set and has no fixed default. Such an error is a bug in
    /// the transport or congestion control, not a mistake in a scenario. The same holds for the errors of the other
    /// functions that return a value of one kind.
    pub fn rate(&self, name: &str) -> Result<BitRate, String> {
        match self.value(name) {
            Some(Value::Rate(rate)) => Ok(rate),
            _ => Err(undeclared(name, "rate")),
        }
    }
    /// The value of a parameter that is a time.
    ///
    /// # Errors
    /// If no time of this name is declared, or it has no value; see [`Settings::rate`].
    pub fn time(&self, name: &str) -> Result<Time, String> {
        match self.value(name) {
            Some(Value::Time(time)) => Ok(time),
            _ => Err(undeclared(name, "time")),
        }
    }
    /// The value, in bytes, of a parameter that is a size.
    ///
    /// # Errors
    /// If no size of this name is declared, or it has no value; see [`Settings::rate`].
    pub fn bytes(&self, name: &str) -> Result<u64, String> {
        match self.value(name) {
            Some(Value::Bytes(bytes)) => Ok(bytes.0),
            _ => Err(undeclared(name, "size")),
        }
    }
    /// The value of a parameter that is a number.
    ///
    /// # Errors
    /// If no number of this name is declared, or it has no value; see [`Settings::rate`].
    pub fn number(&self, name: &str) -> Result<f64, String> {
        match self.value(name) {
            Some(Value::Number(number)) => Ok(number),
            _ => Err(undeclared(name, "number")),
        }
    }
    /// The value of a parameter that is a whole number.
    ///
    /// # Errors
    /// If no whole number of this name is declared, or it has no value; see [`Settings::rate`].
    pub fn count(&self, name: &str) -> Result<u64, String> {
        match self.value(name) {
            Some(Value::Count(count)) => Ok(count),
            _ => Err(undeclared(name, "whole number")),
        }
    }
    /// The value of a parameter that is `true` or `false`.
    ///
    /// # Errors
    /// If no flag of this name is declared, or it has no value; see [`Settings::rate`].
    pub fn flag(&self, name: &str) -> Result<bool, String> {
        match self.value(name) {
            Some(Value::Flag(flag)) => Ok(flag),
            _ => Err(undeclared(name, "flag")),
        }
    }
    /// The value of a parameter that is one of several words.
    ///
    /// # Errors
    /// If no word of this name is declared, or it has no value; see [`Settings::rate`].
    pub fn choice(&self, name: &str) -> Result<String, String> {
        match self.value(name) {
            Some(Value::Choice(word)) => Ok(word),
            _ => Err(undeclared(name, "choice")),
        }
    }
    /// Whether the parameter called `name`, whose value is one of several words, has the value `word`.
    pub fn is(&self, name: &str, word: &str) -> bool {
        self.choice(name).is_ok_and(|chosen| chosen == word)
    }
    /// The buffer classes that a parameter was set to. Empty if it was not set, which means an unlimited number of
    /// buffers.
    pub fn buffers(&self, name: &str) -> Vec<BufferClass> {
        match self.value(name) {
            Some(Value::Buffers(classes)) => classes,
            _ => Vec::new(),
        }
    }
}

fn undeclared(name: &str, kind: &str) -> String {
    format!("there is no {kind} `{name}` with a value")
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
        settings.unset("timer");
        assert_eq!(settings, Settings::new(DECLARED));
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
