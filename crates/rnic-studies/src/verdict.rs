//! Claims of a paper, measured results, and the verdict whether a result is inside its claim.

use rnic_campaign::statistics::{CONFIDENCE, Estimate};
use rnic_results::text::round6;
use serde_json::{Value, json};

/// A paper's claim about one measured quantity, as a rule that can be checked. "Mean" is the mean over the seeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Claim {
    /// The mean lies in the stated range. The range is an effect, for example a ratio or a relative change.
    Between {
        /// Minimum of the stated range.
        low: f64,
        /// Maximum of the stated range.
        high: f64,
        /// The value that means no effect: 1 for ratios, 0 for changes.
        neutral: f64,
    },
    /// The mean lies in the stated range. The range is a size, for which no value means "no effect".
    Within {
        /// Minimum of the stated range.
        low: f64,
        /// Maximum of the stated range.
        high: f64,
    },
    /// The mean is at most this value, which the paper states as an upper bound for several cases.
    AtMost(f64),
    /// The paper states one number. The rule is met if the 95 % confidence interval contains this number and is narrow
    /// enough: half its width is at most the distance between this number and `neutral`.
    Exactly {
        /// The number that the paper states.
        value: f64,
        /// The value that means no effect: 1 for ratios, 0 for changes.
        neutral: f64,
    },
    /// The paper states a direction without a number: the 95 % confidence interval must lie above this value.
    Above(f64),
    /// The paper states nothing with which a number could be compared.
    Open,
}

/// Unit in which a row shows its numbers.
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
    /// The mean and half the width of its confidence interval as text, with three digits of the mean.
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
        // A mean that is rounded to zero is shown without its minus sign.
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

/// The measured values of one quantity, one per seed in ascending order of seeds, or the reason why there are none.
pub type Sample = Result<Vec<f64>, String>;

/// A row of the table of verdicts: a claim of the paper and the measured values for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Name of the measured quantity.
    pub metric: String,
    /// The claim in the paper's words.
    pub stated: String,
    /// The claim as a rule that can be checked.
    pub claim: Claim,
    /// Unit in which the row shows its numbers.
    pub unit: Unit,
    /// The measured values, one per seed.
    pub sample: Sample,
    /// A remark on the row; may be empty.
    pub note: String,
}

impl Row {
    /// Makes a row without a note.
    pub fn new(metric: impl Into<String>, stated: &str, claim: Claim, unit: Unit, sample: Sample) -> Row {
        Row { metric: metric.into(), stated: stated.to_string(), claim, unit, sample, note: String::new() }
    }

    /// The same row with the given note.
    pub fn note(mut self, note: impl Into<String>) -> Row {
        self.note = note.into();
        self
    }
}

/// Result of the comparison of a measured mean over the seeds with the paper's claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The mean is inside the claim.
    Inside,
    /// The mean is outside the claim: it shows an effect in the stated direction, but a smaller effect than stated.
    Smaller,
    /// The mean is outside the claim: it shows an effect in the stated direction, but a larger effect than stated.
    Larger,
    /// The mean is outside the claim: it shows an effect opposite to the stated direction, or no effect.
    Opposite,
    /// The mean is outside the claim, which is about a size: it is below the stated range.
    Below,
    /// The mean is outside the claim, which is about a size: it is above the stated range.
    Above,
    /// The confidence interval contains values that meet the claim and values that do not.
    Inconclusive,
    /// The paper states neither a number nor a direction.
    NotStated,
    /// There is no measured value, because a run failed or could not be set up.
    NoResult,
}

impl Outcome {
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
            Outcome::NotStated => "not stated",
            Outcome::NoResult => "no result",
        }
    }

    /// Whether the measured mean is outside the claim.
    pub fn is_outside(self) -> bool {
        matches!(self, Outcome::Smaller | Outcome::Larger | Outcome::Opposite | Outcome::Below | Outcome::Above)
    }
}

/// Compares a measured mean and its confidence interval with a claim.
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
        Claim::AtMost(max) if mean <= max => Outcome::Inside,
        Claim::AtMost(_) => Outcome::Larger,
        Claim::Above(bound) if from > bound => Outcome::Inside,
        Claim::Above(bound) if to <= bound => Outcome::Opposite,
        Claim::Above(_) => Outcome::Inconclusive,
        Claim::Open => Outcome::NotStated,
    }
}

/// The outcome for a mean that is not inside the claim. It compares the mean's distance from `neutral` (no effect) with
/// the distance of the stated value from `neutral`: larger, smaller, or in the opposite direction.
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

/// A row of the table of verdicts with its outcome.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Name of the experiment to which the row belongs.
    pub experiment: String,
    /// The claim and the measured values.
    pub row: Row,
    /// Mean over the seeds with its confidence interval; `None` if there is no measured value.
    pub estimate: Option<Estimate>,
    /// Whether the mean is inside the claim.
    pub outcome: Outcome,
}

impl Verdict {
    /// Compares the measured values of a row with the row's claim.
    pub fn of(experiment: &str, mut row: Row) -> Verdict {
        let estimate = match &row.sample {
            Ok(values) => Estimate::of(values, CONFIDENCE),
            Err(_) => None,
        };
        if let Err(reason) = &row.sample {
            row.note = if row.note.is_empty() { reason.clone() } else { format!("{reason}; {}", row.note) };
        }
        let outcome = estimate.as_ref().map_or(Outcome::NoResult, |estimate| judge(row.claim, estimate));
        Verdict { experiment: experiment.to_string(), row, estimate, outcome }
    }

    /// The mean over the seeds and half the width of its confidence interval as text: `1.53 ± 0.12x`.
    pub fn measured(&self) -> String {
        self.estimate.as_ref().map_or("-".to_string(), |estimate| self.row.unit.show(estimate))
    }
}

/// Writes the verdicts as CSV. Numbers have six significant digits. Fractions are written as such, not in percent.
///
/// # Errors
/// `out` cannot be written.
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

/// The verdicts as a JSON array, with the measured values of all seeds.
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

/// The verdicts as a Markdown table, a row per claim.
pub fn to_markdown(verdicts: &[Verdict]) -> String {
    let mut text =
        "| experiment | metric | stated in the paper | measured | verdict | note |\n|---|---|---|---|---|---|\n"
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
    fn the_note_of_a_row_names_a_failed_run() {
        let verdict = Verdict::of("fig2", row(Err("run \"IRN\" failed: stuck".into())));
        assert_eq!((verdict.outcome, verdict.measured().as_str()), (Outcome::NoResult, "-"));
        assert!(verdict.row.note.contains("stuck"));
    }

    #[test]
    fn all_files_have_the_same_values() {
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
