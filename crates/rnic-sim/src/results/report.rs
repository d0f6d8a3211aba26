//! stub
use super::summary::ScenarioSummary;
use crate::run::RunReport;
use crate::scenario::Scenario;
/// stub
pub fn render(_: &Scenario, _: &ScenarioSummary, _: &[RunReport]) -> String {
    String::new()
}
