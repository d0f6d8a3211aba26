//! Comparisons of one run with another, as text: `2.9x better average FCT`.

use super::summary::RunSummary;
use std::fmt;

/// How a quantity for which smaller values are better differs between a reference run and another run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Change {
    /// The two values differ by less than 0.5 %.
    Same,
    /// The value is smaller than the reference value. The field is reference / value, above 1.
    Better(f64),
    /// The value is larger than the reference value. The field is value / reference, above 1.
    Worse(f64),
}

impl Change {
    /// The change from `reference` to `value`. `None` unless both values are positive and finite.
    pub(crate) fn of(reference: f64, value: f64) -> Option<Change> {
        let ratio = value / reference;
        if !(reference > 0.0 && value > 0.0 && ratio.is_finite() && ratio > 0.0) {
            return None;
        }
        Some(match ratio {
            r if r.max(1.0 / r) < 1.005 => Change::Same,
            r if r < 1.0 => Change::Better(1.0 / r),
            r => Change::Worse(r),
        })
    }
}

/// Formats a change, for example `same`, `4 % better`, `2.9x better` or `34x worse`. Percentages refer to the smaller
/// value: 4 % better means that the reference is 1.04 times the value.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (factor, word) = match *self {
            Change::Same => return f.write_str("same"),
            Change::Better(factor) => (factor, "better"),
            Change::Worse(factor) => (factor, "worse"),
        };
        match factor {
            x if x < 1.095 => write!(f, "{:.0} % {word}", (x - 1.0) * 100.0),
            x if x < 9.95 => write!(f, "{x:.1}x {word}"),
            x => write!(f, "{x:.0}x {word}"),
        }
    }
}

/// A quantity by which runs are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Metric {
    /// Mean slowdown over measured flows.
    AverageSlowdown,
    /// Mean flow completion time over measured flows, in microseconds.
    AverageFct,
    /// 99th percentile of the flow completion time over measured flows, in microseconds.
    P99Fct,
    /// Mean completion time of requests (groups of flows, such as an incast), in microseconds.
    AverageRct,
}

impl Metric {
    /// The three metrics of flows, without the request completion time, in the order of the IRN paper's figures.
    pub(crate) const OF_FLOWS: [Metric; 3] = [Metric::AverageSlowdown, Metric::AverageFct, Metric::P99Fct];

    /// The name of the metric for use within a sentence, for example `average FCT`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Metric::AverageSlowdown => "average slowdown",
            Metric::AverageFct => "average FCT",
            Metric::P99Fct => "99th percentile FCT",
            Metric::AverageRct => "average request completion time",
        }
    }

    /// Value of the metric in `run`; `None` for failed runs and for runs without measured flows.
    pub(crate) fn value(self, run: &RunSummary) -> Option<f64> {
        match self {
            Metric::AverageSlowdown => run.slowdown.map(|d| d.mean),
            Metric::AverageFct => run.fct_us.map(|d| d.mean),
            Metric::P99Fct => run.fct_us.map(|d| d.p99),
            Metric::AverageRct => run.requests.map(|d| d.mean),
        }
    }

    /// Change of the metric from `reference` to `run`.
    pub(crate) fn change(self, reference: &RunSummary, run: &RunSummary) -> Option<Change> {
        Change::of(self.value(reference)?, self.value(run)?)
    }
}

/// One sentence that compares the metrics of `run` with those of `reference`. `None` if the two runs have no metric in
/// common, for example because one of them failed.
pub(crate) fn sentence(reference: &RunSummary, run: &RunSummary) -> Option<String> {
    let changes: Vec<(Change, &str)> = Metric::OF_FLOWS
        .iter()
        .chain(&[Metric::AverageRct])
        .filter_map(|metric| Some((metric.change(reference, run)?, metric.name())))
        .collect();
    if changes.is_empty() {
        return None;
    }
    let parts: Vec<String> = changes.iter().map(|(change, name)| format!("{change} {name}")).collect();
    let any_same = changes.iter().any(|(change, _)| *change == Change::Same);
    let link = if any_same { "compared with" } else { "than" };
    Some(format!("{}: {} {link} {}", run.name, parts.join(", "), reference.name))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn changes_in_words() {
        let text = |reference, value| Change::of(reference, value).map(|c| c.to_string());
        assert_eq!(text(10.0, 10.04).as_deref(), Some("same"));
        assert_eq!(text(10.0, 3.42).as_deref(), Some("2.9x better"));
        assert_eq!(text(10.0, 16.0).as_deref(), Some("1.6x worse"));
        assert_eq!(text(10.4, 10.0).as_deref(), Some("4 % better"));
        assert_eq!(text(10.0, 10.949).as_deref(), Some("9 % worse"));
        assert_eq!(text(10.0, 10.96).as_deref(), Some("1.1x worse"));
        assert_eq!(text(340.0, 10.0).as_deref(), Some("34x better"));
        for (reference, value) in [(0.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            assert_eq!(Change::of(reference, value), None);
        }
    }

    #[test]
    fn sentences_name_both_runs() {
        let (scenario, reports) = fixture::two_runs();
        let runs = super::super::summarise(&scenario, &reports).runs;
        assert_eq!(
            sentence(&runs[0], &runs[1]).unwrap(),
            "IRN: 2.0x better average slowdown, 2.0x better average FCT, 2.0x better 99th percentile FCT, \
             2.0x better average request completion time than RoCE + PFC"
        );
        let same = sentence(&runs[0], &runs[0]).unwrap();
        assert!(same.ends_with("compared with RoCE + PFC"), "{same}");
    }
}
