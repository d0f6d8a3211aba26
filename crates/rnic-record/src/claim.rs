//! Claims of papers, and the rule that compares a measured value with them.

use serde_json::{Value, json};

/// Relative deviation within which a single stated number counts as reproduced, unless the number is stated more
/// coarsely. A paper that states one number states no interval; a twentieth is its assumed uncertainty.
pub const MARGIN: f64 = 0.05;

/// A claim of a paper about one quantity: the set of values that meet the claim.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Claim {
    /// From `low` to `high`. The quantity is an effect, for example a ratio or a relative change.
    Between {
        /// Minimum of the stated range.
        low: f64,
        /// Maximum of the stated range.
        high: f64,
        /// The value that means no effect: 1 for ratios, 0 for changes.
        neutral: f64,
    },
    /// From `low` to `high`. The quantity is a size, for which no value means "no effect".
    Within {
        /// Minimum of the stated range.
        low: f64,
        /// Maximum of the stated range.
        high: f64,
    },
    /// At most this value.
    AtMost(f64),
    /// Above this value, which itself does not meet the claim.
    Above(f64),
    /// From `value - tolerance` to `value + tolerance`.
    Number {
        /// The number that the paper states.
        value: f64,
        /// Deviation up to which a value meets the claim.
        tolerance: f64,
        /// The value that means no effect; `None` for a size.
        neutral: Option<f64>,
    },
    /// The paper states nothing with which a number could be compared.
    Open,
}

impl Claim {
    /// A claim that an effect equals `value`. `step` is one unit of the last digit that the paper prints: 0.1 for
    /// "2.8", 1 for "about 2". `neutral` is the value that means no effect. The tolerance is half of `step`, but at
    /// least [`MARGIN`].
    pub const fn effect(value: f64, step: f64, neutral: f64) -> Claim {
        Claim::Number { value, tolerance: tolerance(value, step), neutral: Some(neutral) }
    }

    /// A claim that a size equals `value`, with the tolerance of [`Claim::effect`].
    pub const fn size(value: f64, step: f64) -> Claim {
        Claim::Number { value, tolerance: tolerance(value, step), neutral: None }
    }

    /// A claim that two quantities are equal: their ratio is 1 within [`MARGIN`].
    pub const fn equal() -> Claim {
        Claim::size(1.0, 0.0)
    }

    /// The smallest and the largest value that meets the claim; `None` if every value does. The smallest value of
    /// [`Claim::Above`] itself does not meet it.
    pub fn range(&self) -> Option<[f64; 2]> {
        match *self {
            Claim::Between { low, high, .. } | Claim::Within { low, high } => Some([low, high]),
            Claim::AtMost(high) => Some([f64::NEG_INFINITY, high]),
            Claim::Above(low) => Some([low, f64::INFINITY]),
            Claim::Number { value, tolerance, .. } => Some([value - tolerance, value + tolerance]),
            Claim::Open => None,
        }
    }

    /// The claim as JSON: `{"between": [1.5, 2], "neutral": 1}`, `{"within": [95, null]}`, `{"at_most": 0.01}`,
    /// `{"above": 1}`, `{"number": 0.085, "tolerance": 0.00425, "neutral": 0}`, or null. An end of a range that is
    /// infinite is null.
    pub fn to_json(&self) -> Value {
        let end = |value: f64| if value.is_finite() { number(value) } else { Value::Null };
        match *self {
            Claim::Between { low, high, neutral } => {
                json!({"between": [end(low), end(high)], "neutral": number(neutral)})
            }
            Claim::Within { low, high } => json!({"within": [end(low), end(high)]}),
            Claim::AtMost(high) => json!({"at_most": number(high)}),
            Claim::Above(low) => json!({"above": number(low)}),
            Claim::Number { value, tolerance, neutral: Some(neutral) } => {
                json!({"number": number(value), "tolerance": number(tolerance), "neutral": number(neutral)})
            }
            Claim::Number { value, tolerance, neutral: None } => {
                json!({"number": number(value), "tolerance": number(tolerance)})
            }
            Claim::Open => Value::Null,
        }
    }

    /// Reads a claim that [`Claim::to_json`] wrote.
    ///
    /// # Errors
    /// One sentence if `value` is none of the accepted forms.
    pub fn from_json(value: &Value) -> Result<Claim, String> {
        let wrong = || format!("`{value}` is no claim; accepted are between, within, at_most, above, number, null");
        if value.is_null() {
            return Ok(Claim::Open);
        }
        let of = |key: &str| value.get(key).and_then(Value::as_f64);
        let ends = |key: &str| {
            let [low, high] = value.get(key)?.as_array()?.as_slice() else { return None };
            Some((low.as_f64().unwrap_or(f64::NEG_INFINITY), high.as_f64().unwrap_or(f64::INFINITY)))
        };
        let claim = if let (Some((low, high)), Some(neutral)) = (ends("between"), of("neutral")) {
            Claim::Between { low, high, neutral }
        } else if let Some((low, high)) = ends("within") {
            Claim::Within { low, high }
        } else if let Some(high) = of("at_most") {
            Claim::AtMost(high)
        } else if let Some(low) = of("above") {
            Claim::Above(low)
        } else if let (Some(value), Some(tolerance)) = (of("number"), of("tolerance")) {
            Claim::Number { value, tolerance, neutral: of("neutral") }
        } else {
            return Err(wrong());
        };
        Ok(claim)
    }
}

const fn tolerance(value: f64, step: f64) -> f64 {
    let (margin, half) = (MARGIN * value.abs(), step / 2.0);
    if half > margin { half } else { margin }
}

/// A number as JSON; a whole number has no decimal point.
pub(crate) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

/// What was measured of one quantity.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Mean over the seeds, or the only value.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean; `None` for a single value.
    pub half_width: Option<f64>,
    /// Whether nothing about the value is random. Such a value needs no interval.
    pub exact: bool,
}

/// Result of the comparison of a measured value with a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Every value of the confidence interval meets the claim.
    Inside,
    /// No value of the interval meets the claim: the effect has the stated direction, but is smaller than stated.
    Smaller,
    /// No value of the interval meets the claim: the effect has the stated direction, but is larger than stated.
    Larger,
    /// No value of the interval meets the claim: the effect is opposite to the stated direction, or there is none.
    Opposite,
    /// No value of the interval meets the claim, which is about a size: the value is below the stated range.
    Below,
    /// No value of the interval meets the claim, which is about a size: the value is above the stated range.
    Above,
    /// The confidence interval contains values that meet the claim and values that do not.
    Inconclusive,
    /// A single value of a random experiment has no interval.
    NoInterval,
    /// The paper states neither a number nor a direction.
    NotStated,
    /// There is no measured value, because a run failed or could not be set up.
    NoResult,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Outcome; 10] = [
        Outcome::Inside,
        Outcome::Smaller,
        Outcome::Larger,
        Outcome::Opposite,
        Outcome::Below,
        Outcome::Above,
        Outcome::Inconclusive,
        Outcome::NoInterval,
        Outcome::NotStated,
        Outcome::NoResult,
    ];

    /// Text of the outcome for tables.
    pub fn text(self) -> &'static str {
        match self {
            Outcome::Inside => "inside",
            Outcome::Smaller => "outside: same direction, smaller",
            Outcome::Larger => "outside: same direction, larger",
            Outcome::Opposite => "outside: opposite direction",
            Outcome::Below => "outside: below",
            Outcome::Above => "outside: above",
            Outcome::Inconclusive => "inconclusive: the interval is too wide",
            Outcome::NoInterval => "inconclusive: a single value",
            Outcome::NotStated => "not stated",
            Outcome::NoResult => "no result",
        }
    }

    /// The outcome with this text; `None` if there is none.
    pub fn of_text(text: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.text() == text)
    }

    /// Whether no value of the interval meets the claim.
    pub fn is_outside(self) -> bool {
        matches!(self, Outcome::Smaller | Outcome::Larger | Outcome::Opposite | Outcome::Below | Outcome::Above)
    }

    /// Whether the measurement does not decide whether the claim is met.
    pub fn is_inconclusive(self) -> bool {
        matches!(self, Outcome::Inconclusive | Outcome::NoInterval)
    }
}

/// Compares a measured value with a claim, by its 95 % confidence interval: inside if the whole interval meets the
/// claim, outside if no value of it does, inconclusive otherwise. The interval of an exact value is the value itself. A
/// single value of a random experiment is inconclusive.
pub fn judge(claim: &Claim, measured: &Measured) -> Outcome {
    let Some([low, high]) = claim.range() else { return Outcome::NotStated };
    let half = match measured.half_width {
        Some(half) => half,
        None if measured.exact => 0.0,
        None => return Outcome::NoInterval,
    };
    let mean = measured.mean;
    let (from, to) = (mean - half, mean + half);
    // Only a direction excludes its bound.
    let too_low = |value: f64| value < low || (value == low && matches!(claim, Claim::Above(_)));
    if !too_low(from) && to <= high {
        return Outcome::Inside;
    }
    if !too_low(to) && from <= high {
        return Outcome::Inconclusive;
    }
    let nearest = if mean < low { low } else { high };
    match *claim {
        Claim::Between { neutral, .. } | Claim::Number { neutral: Some(neutral), .. } => beyond(mean, nearest, neutral),
        Claim::AtMost(_) => Outcome::Larger,
        Claim::Above(_) => Outcome::Opposite,
        _ if mean < low => Outcome::Below,
        _ => Outcome::Above,
    }
}

/// The outcome for an interval outside the claim. It compares the mean's distance from `neutral` (no effect) with the
/// distance of the nearest stated value from `neutral`.
fn beyond(mean: f64, stated: f64, neutral: f64) -> Outcome {
    let (mean, stated) = (mean - neutral, stated - neutral);
    if stated == 0.0 {
        return if mean == 0.0 { Outcome::Smaller } else { Outcome::Opposite };
    }
    match mean / stated {
        share if share > 1.0 => Outcome::Larger,
        share if share > 0.0 => Outcome::Smaller,
        _ => Outcome::Opposite,
    }
}

/// Unit of a measured quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A ratio of two quantities, shown as in `1.53x`.
    Ratio,
    /// A fraction, shown in percent.
    Percent,
    /// A bit rate in Gbps.
    Gbps,
    /// A number of bytes, shown in kilobytes.
    Kilobytes,
    /// A time in microseconds.
    Microseconds,
    /// Messages in millions per second.
    MillionsPerSecond,
    /// A count without a unit.
    Count,
}

impl Unit {
    /// All units.
    pub const ALL: [Unit; 7] = [
        Unit::Ratio,
        Unit::Percent,
        Unit::Gbps,
        Unit::Kilobytes,
        Unit::Microseconds,
        Unit::MillionsPerSecond,
        Unit::Count,
    ];

    /// Name of the unit in which data files have their numbers.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Ratio => "ratio",
            Unit::Percent => "fraction",
            Unit::Gbps => "Gbps",
            Unit::Kilobytes => "bytes",
            Unit::Microseconds => "us",
            Unit::MillionsPerSecond => "millions/s",
            Unit::Count => "count",
        }
    }

    /// The unit with this name; `None` if there is none.
    pub fn of_name(name: &str) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// The mean and half the width of its confidence interval as text, with three digits of the mean: `1.53 ± 0.12x`.
    pub fn show(self, mean: f64, half_width: Option<f64>) -> String {
        let (scale, unit) = match self {
            Unit::Ratio => (1.0, "x"),
            Unit::Percent => (100.0, " %"),
            Unit::Gbps => (1.0, " Gbps"),
            Unit::Kilobytes => (0.001, " KB"),
            Unit::Microseconds => (1.0, " us"),
            Unit::MillionsPerSecond => (1.0, " M/s"),
            Unit::Count => (1.0, ""),
        };
        let is_whole = self == Unit::Count && mean.fract() == 0.0;
        let mean = mean * scale;
        let decimals = match mean.abs() {
            _ if is_whole => 0,
            size if size >= 99.95 => 0,
            size if size >= 9.995 => 1,
            _ => 2,
        };
        let half = half_width.map_or(String::new(), |half| format!(" ± {:.decimals$}", half * scale));
        // A mean that is rounded to zero is shown without its minus sign.
        let mean = format!("{mean:.decimals$}");
        let mean =
            if mean.chars().any(|c| ('1'..='9').contains(&c)) { mean.as_str() } else { mean.trim_start_matches('-') };
        format!("{mean}{half}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mean: f64, half: f64) -> Measured {
        Measured { mean, half_width: Some(half), exact: false }
    }

    fn exact(mean: f64) -> Measured {
        Measured { mean, half_width: None, exact: true }
    }

    #[test]
    fn an_interval_is_inside_outside_or_across_an_end_of_the_range() {
        let range = Claim::Between { low: 1.5, high: 2.0, neutral: 1.0 };
        for (mean, half, expected) in [
            (1.75, 0.25, Outcome::Inside),
            (1.75, 0.26, Outcome::Inconclusive),
            (1.45, 0.1, Outcome::Inconclusive),
            (2.2, 0.2, Outcome::Inconclusive),
            (1.75, 3.0, Outcome::Inconclusive),
            (1.3, 0.1, Outcome::Smaller),
            (2.4, 0.1, Outcome::Larger),
            (0.8, 0.1, Outcome::Opposite),
        ] {
            assert_eq!(judge(&range, &of(mean, half)), expected, "{mean} ± {half}");
        }
    }

    #[test]
    fn an_interval_as_wide_as_the_claim_decides_nothing_and_a_small_one_below_a_bound_does() {
        let fig6 = Claim::Between { low: 1.35, high: 3.5, neutral: 1.0 };
        assert_eq!(judge(&fig6, &of(2.86, 2.56)), Outcome::Inconclusive);
        // Three times as wide as the mean, but far below the bound.
        assert_eq!(judge(&Claim::AtMost(0.39), &of(0.01, 0.03)), Outcome::Inside);
        assert_eq!(judge(&Claim::AtMost(0.01), &of(-0.0008, 0.0143)), Outcome::Inconclusive);
        assert_eq!(judge(&Claim::AtMost(0.01), &of(0.05, 0.01)), Outcome::Larger);
    }

    #[test]
    fn exact_values_need_no_interval_and_single_random_values_decide_nothing() {
        let single = Measured { mean: 1.7, half_width: None, exact: false };
        let range = Claim::Between { low: 1.5, high: 2.0, neutral: 1.0 };
        assert_eq!(judge(&range, &single), Outcome::NoInterval);
        assert_eq!(judge(&Claim::Open, &single), Outcome::NotStated);
        for (mean, expected) in [(1.5, Outcome::Inside), (2.0, Outcome::Inside), (1.2, Outcome::Smaller)] {
            assert_eq!(judge(&range, &exact(mean)), expected, "{mean}");
        }
        assert_eq!(judge(&range, &exact(1.0)), Outcome::Opposite);
        let from_nothing = Claim::Between { low: 0.0, high: 0.75, neutral: 0.0 };
        assert_eq!(judge(&from_nothing, &exact(-0.01)), Outcome::Opposite);
        let size = Claim::Within { low: 95.0, high: 105.0 };
        let outcomes = [94.9, 95.0, 105.0, 105.1].map(|mean| judge(&size, &exact(mean)));
        assert_eq!(outcomes, [Outcome::Below, Outcome::Inside, Outcome::Inside, Outcome::Above]);
        assert_eq!(judge(&Claim::AtMost(0.0), &exact(0.0)), Outcome::Inside);
    }

    #[test]
    fn a_direction_excludes_its_bound() {
        assert_eq!(judge(&Claim::Above(1.0), &exact(1.0)), Outcome::Opposite);
        assert_eq!(judge(&Claim::Above(1.0), &of(1.2, 0.1)), Outcome::Inside);
        assert_eq!(judge(&Claim::Above(1.0), &of(1.2, 0.3)), Outcome::Inconclusive);
        assert_eq!(judge(&Claim::Above(1.0), &of(0.9, 0.05)), Outcome::Opposite);
    }

    #[test]
    fn a_number_has_the_margin_or_the_precision_with_which_it_is_stated() {
        let Claim::Number { tolerance, .. } = Claim::size(162.9, 0.1) else { panic!("a number") };
        assert!((tolerance - 8.145).abs() < 1e-9, "a twentieth is more than half of the last digit");
        let Claim::Number { tolerance, .. } = Claim::effect(2.0, 1.0, 1.0) else { panic!("a number") };
        assert_eq!(tolerance, 0.5, "half of the last digit is more than a twentieth");
        let dropped = Claim::effect(0.085, 0.001, 0.0);
        assert_eq!(judge(&dropped, &of(0.085, 0.004)), Outcome::Inside);
        assert_eq!(judge(&dropped, &of(0.08, 0.01)), Outcome::Inconclusive);
        assert_eq!(judge(&dropped, &of(0.0528, 0.0035)), Outcome::Smaller);
        assert_eq!(judge(&Claim::size(76_600.0, 100.0), &of(218_000.0, 0.0)), Outcome::Above);
        assert_eq!(judge(&Claim::size(76_600.0, 100.0), &exact(50_000.0)), Outcome::Below);
    }

    #[test]
    fn claims_are_read_as_they_were_written() {
        let infinite = Claim::Within { low: f64::NEG_INFINITY, high: 3.0 };
        for claim in [
            Claim::Between { low: 0.5, high: f64::INFINITY, neutral: 0.0 },
            infinite,
            Claim::AtMost(0.01),
            Claim::Above(1.0),
            Claim::effect(8.0, 1.0, 1.0),
            Claim::equal(),
            Claim::Open,
        ] {
            assert_eq!(Claim::from_json(&claim.to_json()), Ok(claim), "{claim:?}");
        }
        assert!(Claim::from_json(&json!({"about": 3})).unwrap_err().contains("accepted"));
        assert!(Outcome::ALL.into_iter().all(|outcome| Outcome::of_text(outcome.text()) == Some(outcome)));
        assert!(Unit::ALL.into_iter().all(|unit| Unit::of_name(unit.name()) == Some(unit)));
    }

    #[test]
    fn numbers_as_shown() {
        assert_eq!(Unit::Percent.show(-0.034, None), "-3.40 %");
        assert_eq!(Unit::Percent.show(0.85, Some(0.0123)), "85.0 ± 1.2 %");
        assert_eq!(Unit::Ratio.show(0.987, Some(0.5)), "0.99 ± 0.50x");
        assert_eq!(Unit::Ratio.show(1234.5, Some(10.2)), "1234 ± 10x");
        assert_eq!(Unit::Percent.show(-0.000001, None), "0.00 %");
        assert_eq!(Unit::Count.show(4.0, Some(0.0)), "4 ± 0");
    }
}
