//! What a paper states, what was measured, and whether the one is inside the other.

use super::statistics::Estimate;
use rnic_results::text::round6;
use serde_json::{Value, json};

/// What a paper states of one quantity.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Claim {
    /// The mean lies between these two. `neutral` is the value that would mean no difference.
    Between {
        /// Smallest stated.
        low: f64,
        /// Largest stated.
        high: f64,
        /// No difference: 1 for ratios, 0 for changes.
        neutral: f64,
    },
    /// The mean lies between these two, and no value would mean that there is no effect: a size.
    Within {
        /// Smallest stated.
        low: f64,
        /// Largest stated.
        high: f64,
    },
    /// The mean is at most this: a bound on the worst of several cases.
    AtMost(f64),
    /// One number. It is met if the 95 % confidence interval reaches it and is no wider than the stated effect to either side.
    Exactly {
        /// The number.
        value: f64,
        /// No difference.
        neutral: f64,
    },
    /// A direction without a number: the 95 % confidence interval lies above this.
    Above(f64),
    /// Nothing that a number could be held against.
    Open,
}

/// How numbers of a row are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// One quantity over another: `1.53x`.
    Ratio,
    /// A fraction, shown in percent.
    Percent,
    /// A rate.
    Gbps,
    /// Bytes, shown in kilobytes.
    Kilobytes,
    /// A time.
    Microseconds,
    /// Messages, millions of them each second.
    MillionsPerSecond,
    /// A number of things.
    Count,
}

impl Unit {
    /// Mean and half-width with three digits of the mean.
    fn show(self, estimate: &Estimate) -> String {
        let (scale, unit) = match self {
            Unit::Ratio => (1.0, "x"),
            Unit::Percent => (100.0, " %"),
            Unit::Gbps => (1.0, " Gbps"),
            Unit::Kilobytes => (0.001, " KB"),
            Unit::Microseconds => (1.0, " us"),
            Unit::MillionsPerSecond => (1.0, " M/s"),
            Unit::Count => (1.0, ""),
        };
        let mean = estimate.mean * scale;
        let decimals = match mean.abs() {
            _ if self == Unit::Count && estimate.mean.fract() == 0.0 => 0,
            size if size >= 99.95 => 0,
            size if size >= 9.995 => 1,
            _ => 2,
        };
        let half = estimate.half_width.map_or(String::new(), |half| format!(" ± {:.decimals$}", half * scale));
        // Never a zero with a sign.
        let mean = format!("{mean:.decimals$}");
        let mean =
            if mean.chars().any(|c| ('1'..='9').contains(&c)) { mean.as_str() } else { mean.trim_start_matches('-') };
        format!("{mean}{half}{unit}")
    }

    fn name(self) -> &'static str {
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
}

/// The measured values of one quantity, one for each seed in ascending order, or why there are none.
pub type Sample = Result<Vec<f64>, String>;

/// One line of the result: a statement and what was measured for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Which quantity.
    pub metric: String,
    /// What the paper says, in its words where they matter.
    pub stated: String,
    /// The same as a rule.
    pub claim: Claim,
    /// How its numbers are shown.
    pub unit: Unit,
    /// What was measured.
    pub sample: Sample,
    /// What a reader should know; may be empty.
    pub note: String,
}

impl Row {
    /// A row without a note.
    pub fn new(metric: impl Into<String>, stated: &str, claim: Claim, unit: Unit, sample: Sample) -> Row {
        Row { metric: metric.into(), stated: stated.to_string(), claim, unit, sample, note: String::new() }
    }

    /// The same row with a note.
    pub fn note(mut self, note: impl Into<String>) -> Row {
        self.note = note.into();
        self
    }
}

/// Whether what was measured is inside what is stated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is.
    Inside,
    /// Outside: the same direction, but a smaller difference.
    Smaller,
    /// Outside: the same direction, but a larger difference.
    Larger,
    /// Outside: the opposite direction, or none.
    Opposite,
    /// Outside: a size below what is stated.
    Below,
    /// Outside: a size above it.
    Above,
    /// The confidence interval allows either answer.
    Inconclusive,
    /// The paper states no number or direction.
    NotStated,
    /// There is no measurement: a run failed, or could not be set up.
    NoResult,
}

impl Outcome {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Outcome::Inside => "inside",
            Outcome::Smaller => "outside: same direction, smaller",
            Outcome::Larger => "outside: same direction, larger",
            Outcome::Opposite => "outside: opposite direction",
            Outcome::Below => "outside: below",
            Outcome::Above => "outside: above",
            Outcome::Inconclusive => "inconclusive: the interval is too wide",
            Outcome::NotStated => "not stated",
            Outcome::NoResult => "no result",
        }
    }

    /// Whether it was measured and is not inside.
    pub fn is_outside(self) -> bool {
        matches!(self, Outcome::Smaller | Outcome::Larger | Outcome::Opposite | Outcome::Below | Outcome::Above)
    }
}

/// Holds an estimate against a claim.
pub fn judge(claim: Claim, estimate: &Estimate) -> Outcome {
    let mean = estimate.mean;
    let [from, to] = estimate.interval();
    match claim {
        Claim::Between { low, high, .. } if (low..=high).contains(&mean) => Outcome::Inside,
        Claim::Between { low, high, neutral } => beyond(mean, if mean < low { low } else { high }, neutral),
        Claim::Within { low, high } if (low..=high).contains(&mean) => Outcome::Inside,
        Claim::Within { low, .. } => {
            if mean < low {
                Outcome::Below
            } else {
                Outcome::Above
            }
        }
        Claim::Exactly { value, neutral } if (from..=to).contains(&value) => {
            let narrow = estimate.half_width.is_some_and(|half| half <= (value - neutral).abs());
            if narrow || value == mean { Outcome::Inside } else { Outcome::Inconclusive }
        }
        Claim::Exactly { .. } if estimate.half_width.is_none() => Outcome::Inconclusive,
        Claim::Exactly { value, neutral } => beyond(mean, value, neutral),
        Claim::AtMost(most) if mean <= most => Outcome::Inside,
        Claim::AtMost(_) => Outcome::Larger,
        Claim::Above(least) if from > least => Outcome::Inside,
        Claim::Above(least) if to <= least => Outcome::Opposite,
        Claim::Above(_) => Outcome::Inconclusive,
        Claim::Open => Outcome::NotStated,
    }
}

/// On which side of a stated value a mean lies, seen from the value that means no difference.
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

/// A row with what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Name of its experiment.
    pub experiment: String,
    /// The row.
    pub row: Row,
    /// The mean over the seeds.
    pub estimate: Option<Estimate>,
    /// Inside or not.
    pub outcome: Outcome,
}

impl Verdict {
    /// Judges a row of an experiment.
    pub fn of(experiment: &str, mut row: Row) -> Verdict {
        let estimate = match &row.sample {
            Ok(values) => Estimate::of(values),
            Err(_) => None,
        };
        if let Err(reason) = &row.sample {
            row.note = if row.note.is_empty() { reason.clone() } else { format!("{reason}; {}", row.note) };
        }
        let outcome = estimate.as_ref().map_or(Outcome::NoResult, |estimate| judge(row.claim, estimate));
        Verdict { experiment: experiment.to_string(), row, estimate, outcome }
    }

    /// The mean and half the width of its interval for people: `1.53 ± 0.12x`.
    pub fn measured(&self) -> String {
        self.estimate.as_ref().map_or("-".to_string(), |estimate| self.row.unit.show(estimate))
    }
}

/// The verdicts as CSV; numbers have six significant digits, fractions are not in percent.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_csv(out: impl std::io::Write, verdicts: &[Verdict]) -> std::io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "experiment",
        "metric",
        "stated",
        "unit",
        "mean",
        "ci_low",
        "ci_high",
        "seeds",
        "verdict",
        "note",
    ])?;
    for verdict in verdicts {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| round6(value).to_string());
        let interval = verdict.estimate.filter(|e| e.half_width.is_some()).map(|e| e.interval());
        csv.write_record([
            verdict.experiment.as_str(),
            &verdict.row.metric,
            &verdict.row.stated,
            verdict.row.unit.name(),
            &number(verdict.estimate.map(|e| e.mean)),
            &number(interval.map(|i| i[0])),
            &number(interval.map(|i| i[1])),
            &verdict.estimate.map_or(0, |e| e.count).to_string(),
            verdict.outcome.text(),
            &verdict.row.note,
        ])?;
    }
    csv.flush()
}

/// The verdicts as JSON, with the value of each seed.
pub fn to_json(verdicts: &[Verdict]) -> Value {
    let one = |verdict: &Verdict| {
        json!({
            "experiment": verdict.experiment,
            "metric": verdict.row.metric,
            "stated": verdict.row.stated,
            "unit": verdict.row.unit.name(),
            "mean": verdict.estimate.map(|e| round6(e.mean)),
            "ci95": verdict.estimate.filter(|e| e.half_width.is_some()).map(|e| e.interval().map(round6)),
            "values": verdict.row.sample.as_ref().map(|values| values.iter().map(|v| round6(*v)).collect::<Vec<_>>()).ok(),
            "verdict": verdict.outcome.text(),
            "note": verdict.row.note,
        })
    };
    Value::Array(verdicts.iter().map(one).collect())
}

/// The verdicts as a Markdown table.
pub fn to_markdown(verdicts: &[Verdict]) -> String {
    let mut text =
        "| experiment | metric | the paper states | we measure | verdict | note |\n|---|---|---|---|---|---|\n"
            .to_string();
    for verdict in verdicts {
        let cells = [
            &verdict.experiment,
            &verdict.row.metric,
            &verdict.row.stated,
            &verdict.measured(),
            verdict.outcome.text(),
            &verdict.row.note,
        ];
        let cells = cells.map(|cell: &str| cell.replace('|', "\\|"));
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(mean: f64) -> Estimate {
        Estimate { mean, half_width: None, count: 1 }
    }

    #[test]
    fn a_range_is_left_on_either_side_or_in_the_other_direction() {
        let worse = Claim::Between { low: 1.5, high: 2.0, neutral: 1.0 };
        let cases = [
            (1.5, Outcome::Inside),
            (2.0, Outcome::Inside),
            (1.2, Outcome::Smaller),
            (2.1, Outcome::Larger),
            (0.9, Outcome::Opposite),
            (1.0, Outcome::Opposite),
        ];
        for (mean, expected) in cases {
            assert_eq!(judge(worse, &single(mean)), expected, "{mean}");
        }
        let faster = Claim::Between { low: 0.04, high: 0.30, neutral: 0.0 };
        assert_eq!(judge(faster, &single(0.01)), Outcome::Smaller);
        assert_eq!(judge(faster, &single(-0.01)), Outcome::Opposite);
        let from_nothing = Claim::Between { low: 0.0, high: 0.75, neutral: 0.0 };
        assert_eq!(judge(from_nothing, &single(-0.01)), Outcome::Opposite);
        assert_eq!(judge(from_nothing, &single(0.8)), Outcome::Larger);
    }

    #[test]
    fn a_size_is_met_or_missed_below_or_above() {
        let size = Claim::Within { low: 95.0, high: 105.0 };
        let outcomes = [94.9, 95.0, 105.0, 105.1].map(|mean| judge(size, &single(mean)));
        assert_eq!(outcomes, [Outcome::Below, Outcome::Inside, Outcome::Inside, Outcome::Above]);
        assert!(outcomes[0].is_outside() && outcomes[3].is_outside());
        let more = Claim::Between { low: 0.5, high: f64::INFINITY, neutral: 0.0 };
        let outcomes = [-0.1, 0.1, 0.6].map(|mean| judge(more, &single(mean)));
        assert_eq!(outcomes, [Outcome::Opposite, Outcome::Smaller, Outcome::Inside]);
    }

    #[test]
    fn bounds_directions_and_single_numbers() {
        assert_eq!(judge(Claim::AtMost(0.01), &single(-0.2)), Outcome::Inside);
        assert_eq!(judge(Claim::AtMost(0.01), &single(0.02)), Outcome::Larger);
        assert_eq!(judge(Claim::Above(1.0), &single(1.0)), Outcome::Opposite);
        assert_eq!(judge(Claim::Above(1.0), &single(1.1)), Outcome::Inside);
        assert_eq!(judge(Claim::Open, &single(1.0)), Outcome::NotStated);
        let near = Estimate { mean: 0.08, half_width: Some(0.01), count: 5 };
        let stated = Claim::Exactly { value: 0.085, neutral: 0.0 };
        assert_eq!(judge(stated, &near), Outcome::Inside);
        assert_eq!(judge(stated, &single(0.08)), Outcome::Inconclusive, "one seed has no interval");
        let of = |mean, half| Estimate { mean, half_width: Some(half), count: 2 };
        assert_eq!(judge(stated, &of(0.05, 0.01)), Outcome::Smaller);
        assert_eq!(judge(stated, &of(0.12, 0.09)), Outcome::Inconclusive, "wider than the effect");
        assert_eq!(judge(Claim::Above(1.0), &of(1.2, 0.1)), Outcome::Inside);
        assert_eq!(judge(Claim::Above(1.0), &of(1.2, 0.3)), Outcome::Inconclusive);
        assert_eq!(judge(Claim::Above(1.0), &of(0.9, 0.3)), Outcome::Inconclusive);
        assert_eq!(judge(Claim::Above(1.0), &of(0.9, 0.05)), Outcome::Opposite);
    }

    fn row(sample: Sample) -> Row {
        Row::new("average FCT", "1.5x to 2x", Claim::Between { low: 1.5, high: 2.0, neutral: 1.0 }, Unit::Ratio, sample)
    }

    #[test]
    fn a_failed_run_is_told_in_the_row() {
        let verdict = Verdict::of("fig2", row(Err("run \"IRN\" failed: stuck".into())));
        assert_eq!((verdict.outcome, verdict.measured().as_str()), (Outcome::NoResult, "-"));
        assert!(verdict.row.note.contains("stuck"));
    }

    #[test]
    fn the_files_say_the_same() {
        let verdicts = [Verdict::of("fig2", row(Ok(vec![1.5, 1.7]))), Verdict::of("fig2", row(Ok(vec![])))];
        let mut bytes = Vec::new();
        write_csv(&mut bytes, &verdicts).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.lines().nth(1), Some("fig2,average FCT,1.5x to 2x,ratio,1.6,0.32938,2.87062,2,inside,"));
        assert_eq!(text.lines().nth(2), Some("fig2,average FCT,1.5x to 2x,ratio,,,,0,no result,"));
        assert!(to_markdown(&verdicts).contains("| fig2 | average FCT | 1.5x to 2x | 1.60 ± 1.27x | inside |  |"));
        assert_eq!(to_json(&verdicts)[0]["values"], json!([1.5, 1.7]));
    }

    #[test]
    fn numbers_as_shown() {
        let show = |unit: Unit, mean, half_width| unit.show(&Estimate { mean, half_width, count: 2 });
        assert_eq!(show(Unit::Percent, -0.034, None), "-3.40 %");
        assert_eq!(show(Unit::Percent, 0.85, Some(0.0123)), "85.0 ± 1.2 %");
        assert_eq!(show(Unit::Ratio, 0.987, Some(0.5)), "0.99 ± 0.50x");
        assert_eq!(show(Unit::Ratio, 1234.5, Some(10.2)), "1234 ± 10x");
        assert_eq!(show(Unit::Percent, -0.000001, None), "0.00 %");
    }
}
