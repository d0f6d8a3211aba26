//! Access to the results of one experiment by scenario file, run, congestion control and point of the sweep.

use super::RunKey;
use super::verdict::Sample;
use crate::measurement::Measurement;
use crate::metric::Metric;
use rnic_transport::congestion::{CongestionControl, NoCongestionControl};
use std::collections::BTreeMap;

/// One case of an experiment: a run with its congestion control at one point of the sweep. A case has a result per
/// seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case<'c> {
    /// Name of the scenario file.
    pub file: &'c str,
    /// Name of the run in the scenario file.
    pub run: &'c str,
    /// Name of the run's congestion control.
    pub cc: &'c str,
    /// Name of the point of the sweep; empty without a sweep.
    pub point: &'c str,
}

impl<'c> Case<'c> {
    /// A copy of this case with another run: the scenario file, the congestion control and the point of the sweep stay.
    pub const fn run(self, run: &'c str) -> Case<'c> {
        Case { run, ..self }
    }

    /// Whether the result with this key belongs to this case.
    fn is(&self, key: &RunKey) -> bool {
        (self.file, self.run, self.cc, self.point) == (key.file, key.run.as_str(), key.cc, key.point.as_str())
    }

    /// Description of the case for readers: run, congestion control and point.
    pub fn text(&self) -> String {
        let point = if self.point.is_empty() { String::new() } else { format!(", {}", self.point) };
        format!("{}, {}{point}", self.run, cc_text(self.cc))
    }
}

/// Name of a congestion control for tables and figures, for example `no cc`.
pub fn cc_text(cc: &str) -> String {
    match cc {
        NoCongestionControl::NAME => "no cc".to_string(),
        name => name.to_uppercase(),
    }
}

/// The results of one experiment, for all its runs and seeds.
#[derive(Debug)]
pub struct Measured<'r> {
    results: BTreeMap<&'r RunKey, &'r Measurement>,
    points: &'r [(&'static str, String)],
    /// Reason why the experiment has no results; `None` if it has results.
    missing: Option<&'r str>,
}

impl<'r> Measured<'r> {
    pub(super) fn new(
        results: BTreeMap<&'r RunKey, &'r Measurement>, points: &'r [(&'static str, String)], missing: Option<&'r str>,
    ) -> Measured<'r> {
        Measured { results, points, missing }
    }

    /// Names of the points of the sweep in `file`, in the order of the file.
    pub fn points(&self, file: &str) -> Vec<&'r str> {
        self.points.iter().filter(|(name, _)| *name == file).map(|(_, point)| point.as_str()).collect()
    }

    /// Names of the runs of `file`, in alphabetical order.
    pub fn runs(&self, file: &str) -> Vec<&'r str> {
        let mut names: Vec<&str> =
            self.results.keys().filter(|key| key.file == file).map(|key| key.run.as_str()).collect();
        names.dedup();
        names
    }

    /// The congestion controls in `of` for which the experiment has results of runs of `file`, in the order of `of`.
    pub fn ccs<'c>(&self, file: &str, of: &[&'c str]) -> Vec<&'c str> {
        let known = |cc: &&&str| self.results.keys().any(|key| key.file == file && key.cc == **cc);
        // If the experiment has no results, all congestion controls are returned, so that each gets a row that states
        // this.
        of.iter().filter(|cc| self.missing.is_some() || known(cc)).copied().collect()
    }

    /// Whether the experiment has a result for this case (a run at a point of the sweep).
    pub fn has(&self, case: Case<'_>) -> bool {
        self.results.keys().any(|key| case.is(key))
    }

    /// The values of a metric in a case (a run at a point of the sweep), one value per seed.
    pub fn values(&self, case: Case<'_>, metric: Metric) -> Sample {
        self.values_of(case, "", metric)
    }

    /// The values of a metric for the flows of one traffic source in a case, one value per seed.
    pub fn values_of(&self, case: Case<'_>, traffic: &str, metric: Metric) -> Sample {
        if let Some(reason) = self.missing {
            return Err(format!("not available: {reason}"));
        }
        let mut values = Vec::new();
        for (key, result) in self.results.iter().filter(|(key, _)| case.is(key)) {
            match (metric.value(result, traffic), &result.failure) {
                (_, Some(reason)) => return Err(format!("{} failed (seed {}): {reason}", case.text(), key.seed)),
                (None, None) => return Err(format!("{} has no {} (seed {})", case.text(), metric.text(), key.seed)),
                (Some(value), None) => values.push(value),
            }
        }
        if values.is_empty() { Err(format!("there is no run {} of {}", case.text(), case.file)) } else { Ok(values) }
    }

    /// The result of the case (a run at a point of the sweep) for the first seed; `None` if there is none.
    pub fn first(&self, case: Case<'_>) -> Option<&'r Measurement> {
        self.results.iter().find(|(key, _)| case.is(key)).map(|(_, result)| *result)
    }

    /// The ratio of a metric between two cases (`above` / `below`), one value per seed.
    pub fn ratio(&self, above: Case<'_>, below: Case<'_>, metric: Metric) -> Sample {
        divide(self.values(above, metric)?, &self.values(below, metric)?)
    }

    /// The ratio of a metric between two cases for the flows of one traffic source, one value per seed.
    pub fn ratio_of(&self, above: Case<'_>, below: Case<'_>, traffic: &str, metric: Metric) -> Sample {
        divide(self.values_of(above, traffic, metric)?, &self.values_of(below, traffic, metric)?)
    }
}

/// The quotients of two samples (`above` / `below`), one value per seed.
pub fn divide(above: Vec<f64>, below: &[f64]) -> Sample {
    if above.len() != below.len() {
        return Err("the two cases have different seeds".to_string());
    }
    Ok(above.into_iter().zip(below).map(|(a, b)| a / b).collect())
}

/// Applies `change` to each value of a sample, for example to turn the ratio 1.2 into the increase 0.2.
pub fn each(sample: Sample, change: impl Fn(f64) -> f64) -> Sample {
    sample.map(|values| values.into_iter().map(change).collect())
}

/// The sample with the largest mean among the named samples of several cases, and its name. If a case has no result,
/// the returned sample is an error, because the missing mean could be the largest.
pub fn largest(cases: Vec<(String, Sample)>) -> (Sample, String) {
    extreme(cases, |mean| mean)
}

/// The sample with the smallest mean among the named samples of several cases, and its name.
pub fn smallest(cases: Vec<(String, Sample)>) -> (Sample, String) {
    extreme(cases, |mean| -mean)
}

/// The sample whose mean has the largest absolute value among the named samples of several cases, and its name.
pub fn farthest(cases: Vec<(String, Sample)>) -> (Sample, String) {
    extreme(cases, f64::abs)
}

fn extreme(cases: Vec<(String, Sample)>, rank: impl Fn(f64) -> f64) -> (Sample, String) {
    let mean = |values: &[f64]| rnic_results::stats::mean(values).unwrap_or(f64::NAN);
    let total = cases.len();
    let mut failures = Vec::new();
    let mut best: Option<(f64, String, Vec<f64>)> = None;
    for (name, sample) in cases {
        match sample {
            Err(reason) => failures.push(reason),
            Ok(values) => {
                let value = rank(mean(&values));
                if best.as_ref().is_none_or(|(max, ..)| value > *max) {
                    best = Some((value, name, values));
                }
            }
        }
    }
    match (best, failures.first()) {
        (None, None) => (Err("there is no case".to_string()), String::new()),
        (None, Some(reason)) => (Err(reason.clone()), String::new()),
        (Some((_, name, values)), None) => (Ok(values), name),
        (Some((_, name, _)), Some(reason)) => {
            let without = format!("{} of {total} cases have no result: {reason}", failures.len());
            (Err(without), format!("{name} of the others"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_have_a_name_and_need_all_cases() {
        let cases = || vec![("a".to_string(), Ok(vec![1.0, 2.0])), ("b".to_string(), Ok(vec![3.0, 1.0]))];
        assert_eq!(largest(cases()), (Ok(vec![3.0, 1.0]), "b".to_string()));
        assert_eq!(smallest(cases()), (Ok(vec![1.0, 2.0]), "a".to_string()));
        let mut failed = cases();
        failed.push(("c".to_string(), Err("stuck".to_string())));
        assert_eq!(largest(failed).0, Err("1 of 3 cases have no result: stuck".to_string()));
        assert_eq!(largest(vec![("c".into(), Err("stuck".into()))]).0, Err("stuck".to_string()));
        assert!(largest(Vec::new()).0.is_err());
    }

    #[test]
    fn ratios_are_computed_for_each_seed() {
        assert_eq!(divide(vec![2.0, 9.0], &[1.0, 3.0]), Ok(vec![2.0, 3.0]));
        assert!(divide(vec![2.0], &[1.0, 3.0]).is_err());
        assert_eq!(each(Ok(vec![1.5]), |r| r - 1.0), Ok(vec![0.5]));
    }
}
