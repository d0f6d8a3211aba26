//! When two scenarios are equal.

use rnic_campaign::Fingerprint;
use rnic_spec::Scenario;

/// A text that two scenarios share if and only if they have the same names and the same runs.
pub(crate) fn of(scenario: &Scenario) -> String {
    let mut text = format!("{:?} {:?} {}", scenario.name, scenario.title, scenario.seed);
    for run in &scenario.runs {
        text.push_str(&format!(" {:?} {:?} {:?} {}", run.name, run.base, run.point, Fingerprint::of(run, "").key()));
    }
    text
}
