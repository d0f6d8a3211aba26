//! Groups of runs that differ in their seed only, and means over them.

use super::estimate::{CONFIDENCE, Estimate};
use super::summary::{RunSummary, ScenarioSummary};

/// Key of the seed in a scenario file and in the points of a sweep.
pub(crate) const SEED: &str = "seed";

/// The runs of a sweep that differ in their seed only; without a sweep over seeds, a single run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Replicates<'s> {
    /// Name of the runs in the scenario file.
    pub(crate) base: &'s str,
    /// Indices of the runs in the summary.
    pub(crate) indices: Vec<usize>,
    /// The runs, in the order of the scenario.
    pub(crate) runs: Vec<&'s RunSummary>,
}

impl<'s> Replicates<'s> {
    /// The swept keys other than the seed, with their values.
    pub(crate) fn point(&self) -> Vec<(&'s str, &'s str)> {
        self.runs.first().map_or(Vec::new(), |run| point(run))
    }

    /// Name of the group: the name of its run, or of several runs their common name with the swept values.
    pub(crate) fn name(&self) -> String {
        match self.runs.as_slice() {
            [run] => run.name.clone(),
            _ => named(self.base, &self.point()),
        }
    }

    /// The mean of `value` over the runs that have a value.
    pub(crate) fn estimate(&self, value: impl Fn(&RunSummary) -> Option<f64>) -> Option<Estimate> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| value(run)).collect();
        Estimate::of(&values, CONFIDENCE)
    }

    /// The mean of the ratio `value` of `other` / `value` of `self`, over the seeds that both groups have.
    pub(crate) fn ratio(&self, other: &Replicates<'_>, value: impl Fn(&RunSummary) -> Option<f64>) -> Option<Estimate> {
        let ratio = |run: &&RunSummary| {
            let same = other.runs.iter().find(|other| other.seed == run.seed)?;
            let (own, other) = (value(run)?, value(same)?);
            (own > 0.0 && other > 0.0).then(|| other / own)
        };
        let ratios: Vec<f64> = self.runs.iter().filter_map(ratio).collect();
        Estimate::of(&ratios, CONFIDENCE)
    }
}

/// The swept keys of `run` other than the seed, with their values.
pub(crate) fn point(run: &RunSummary) -> Vec<(&str, &str)> {
    let keys = run.point.iter().filter(|(key, _)| key != SEED);
    keys.map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// A run's name in the scenario file, followed by swept values.
pub(crate) fn named(base: &str, point: &[(&str, &str)]) -> String {
    let keys: Vec<&str> = point.iter().map(|(key, _)| *key).collect();
    let values =
        rnic_spec::short_keys(&keys).into_iter().zip(point).map(|(key, (_, value))| format!(", {key}={value}"));
    std::iter::once(base.to_string()).chain(values).collect()
}

/// The runs of the scenario in groups that differ in their seed only, in the order of their first runs.
pub(crate) fn over_seeds(summary: &ScenarioSummary) -> Vec<Replicates<'_>> {
    let mut groups: Vec<Replicates<'_>> = Vec::new();
    for (index, run) in summary.runs.iter().enumerate() {
        // Only a sweep repeats a run with several seeds.
        let same = |group: &&mut Replicates<'_>| {
            !run.point.is_empty() && group.base == run.base && group.point() == point(run)
        };
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.indices.push(index);
                group.runs.push(run);
            }
            None => groups.push(Replicates { base: &run.base, indices: vec![index], runs: vec![run] }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::super::compare::Metric;
    use super::super::fixture;
    use super::*;

    #[test]
    fn runs_of_several_seeds_are_one_group() {
        let summary = fixture::sweep(&["0.3", "0.7"], &[1, 2, 3], |_, _, _| 1.0);
        let groups = over_seeds(&summary);
        let shape: Vec<_> = groups.iter().map(|group| (group.name(), group.indices.clone())).collect();
        assert_eq!(shape.len(), 4);
        assert_eq!(shape[0], ("RoCE + PFC, load=0.3".to_string(), vec![0, 2, 4]));
        assert_eq!(shape[3], ("IRN, load=0.7".to_string(), vec![7, 9, 11]));
    }

    #[test]
    fn ratios_are_those_of_the_same_seed() {
        // The slowdowns of IRN are 1, 2 and 3, and those of RoCE twice as large with every seed.
        let summary =
            fixture::sweep(&["0.3"], &[1, 2, 3], |run, _, seed| seed as f64 * if run == "IRN" { 1.0 } else { 2.0 });
        let groups = over_seeds(&summary);
        let value = |run: &RunSummary| Metric::AverageSlowdown.value(run);
        let ratio = groups[1].ratio(&groups[0], value).unwrap();
        assert_eq!((ratio.mean, ratio.half_width, ratio.count), (2.0, Some(0.0), 3));
        let irn = groups[1].estimate(value).unwrap();
        // The standard deviation is 1, so the half-width is t(2) / sqrt(3).
        assert!(irn.mean == 2.0 && (irn.half_width.unwrap() - 4.302_653 / 3f64.sqrt()).abs() < 1e-5);
    }
}
