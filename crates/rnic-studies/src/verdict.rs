//! The rows of a study: claims of a paper, measured results, and the verdict whether they agree. The rule of the
//! verdicts is [`rnic_record::judge`].

use rnic_campaign::statistics::{CONFIDENCE, Estimate};
pub use rnic_record::{Claim, Outcome, Unit};
use rnic_record::{Measured, judge};
use rnic_results::text::round6;
use serde_json::{Value, json};

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
    /// Whether the sample is one value of all seeds together, such as their maximum, and so has no interval.
    pub pooled: bool,
    /// A remark on the row; may be empty.
    pub note: String,
}

impl Row {
    /// Makes a row without a note.
    pub fn new(metric: impl Into<String>, stated: &str, claim: Claim, unit: Unit, sample: Sample) -> Row {
        Row {
            metric: metric.into(),
            stated: stated.to_string(),
            claim,
            unit,
            sample,
            pooled: false,
            note: String::new(),
        }
    }

    /// The same row, whose sample is one value of all seeds together.
    pub fn pooled(mut self) -> Row {
        self.pooled = true;
        self
    }

    /// The same row with the given note.
    pub fn note(mut self, note: impl Into<String>) -> Row {
        self.note = note.into();
        self
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
    /// Whether nothing about the measured value is random, so that it needs no interval.
    pub exact: bool,
    /// Whether the measured value agrees with the claim.
    pub outcome: Outcome,
}

impl Verdict {
    /// Compares the measured values of a row with the row's claim. With `exact`, nothing in the experiment is random.
    pub fn of(experiment: &str, exact: bool, mut row: Row) -> Verdict {
        let estimate = match &row.sample {
            Ok(values) => Estimate::of(values, CONFIDENCE),
            Err(_) => None,
        };
        if let Err(reason) = &row.sample {
            row.note = if row.note.is_empty() { reason.clone() } else { format!("{reason}; {}", row.note) };
        }
        let outcome = estimate.map_or(Outcome::NoResult, |Estimate { mean, half_width, .. }| {
            judge(&row.claim, &Measured { mean, half_width, exact })
        });
        Verdict { experiment: experiment.to_string(), row, estimate, exact, outcome }
    }

    /// The mean over the seeds and half the width of its confidence interval as text: `1.53 ± 0.12x`.
    pub fn measured(&self) -> String {
        self.estimate.map_or("-".to_string(), |of| self.row.unit.show(of.mean, of.half_width))
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

    fn row(sample: Sample) -> Row {
        Row::new("average FCT", "1.5x to 2x", Claim::Between { low: 1.5, high: 2.0, neutral: 1.0 }, Unit::Ratio, sample)
    }

    #[test]
    fn the_note_of_a_row_names_a_failed_run() {
        let verdict = Verdict::of("fig2", false, row(Err("run \"IRN\" failed: stuck".into())));
        assert_eq!((verdict.outcome, verdict.measured().as_str()), (Outcome::NoResult, "-"));
        assert!(verdict.row.note.contains("stuck"));
    }

    #[test]
    fn all_files_have_the_same_values() {
        let verdicts =
            [Verdict::of("fig2", false, row(Ok(vec![1.5, 1.7]))), Verdict::of("fig2", false, row(Ok(vec![])))];
        let mut bytes = Vec::new();
        write_csv(&mut bytes, &verdicts).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            text.lines().nth(1),
            Some("fig2,average FCT,1.5x to 2x,ratio,1.6,0.32938,2.87062,2,inconclusive: the interval is too wide,")
        );
        assert_eq!(text.lines().nth(2), Some("fig2,average FCT,1.5x to 2x,ratio,,,,0,no result,"));
        assert!(to_markdown(&verdicts).contains(
            "| fig2 | average FCT | 1.5x to 2x | 1.60 ± 1.27x | inconclusive: the interval is too wide |  |"
        ));
        assert_eq!(to_json(&verdicts)[0]["values"], json!([1.5, 1.7]));
    }
}
