//! The points of the report's curves.

use super::super::model::FlowRecord;
use super::super::stats::{self, nearest_rank};
use super::super::summary::ScenarioSummary;
use super::super::text::round6;
use crate::run::RunReport;
use crate::scenario::Scenario;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One object per run: `tail`, the points (percentile, FCT in microseconds) of single-packet messages from the 90th to
/// the 99.9th percentile; `sizes`, per range of sizes (median size in bytes, flows, 50th, 95th, 99th percentile of the
/// slowdown), `null` for percentiles that fewer than 20 and 100 flows cannot tell. Both empty for failed runs.
pub(super) fn curves(scenario: &Scenario, summary: &ScenarioSummary, reports: &[RunReport]) -> Vec<Value> {
    let runs = scenario.runs.iter().zip(&summary.runs).zip(reports);
    let curve =
        |((spec, run), report): ((&crate::scenario::RunSpec, &super::super::summary::RunSummary), &RunReport)| {
            let flows: Vec<&FlowRecord> = match run.failure {
                Some(_) => Vec::new(),
                None => report.output.flows.iter().filter(|f| f.measured).collect(),
            };
            json!({"run": run.name, "tail": tail(&flows, spec.fabric.mtu.0), "sizes": by_size(&flows)})
        };
    runs.map(curve).collect()
}

/// From the 90th percentile in steps of 0.1 % while at least one flow in the mean lies beyond.
fn tail(flows: &[&FlowRecord], mtu: u64) -> Vec<Value> {
    let mut fct: Vec<f64> = flows.iter().filter(|f| f.bytes <= mtu).filter_map(|f| stats::fct_us(f)).collect();
    fct.sort_unstable_by(f64::total_cmp);
    (900..=999u32)
        .take_while(|per_mille| fct.len() as u64 * u64::from(1000 - per_mille) >= 1000)
        .filter_map(|per_mille| Some(json!([f64::from(per_mille) / 10.0, round6(nearest_rank(&fct, per_mille)?)])))
        .collect()
}

/// Percentiles of the slowdown in ranges of sizes that end at 1, 2, 5, 10, 20, 50, ... bytes.
fn by_size(flows: &[&FlowRecord]) -> Vec<Value> {
    let mut ranges: BTreeMap<u64, Vec<(u64, f64)>> = BTreeMap::new();
    for flow in flows {
        if let Some(slowdown) = stats::slowdown(flow) {
            ranges.entry(range_end(flow.bytes)).or_default().push((flow.bytes, slowdown));
        }
    }
    ranges.into_values().filter_map(|members| size_point(&members)).collect()
}

fn size_point(members: &[(u64, f64)]) -> Option<Value> {
    let (mut sizes, mut slowdowns): (Vec<u64>, Vec<f64>) = members.iter().copied().unzip();
    sizes.sort_unstable();
    slowdowns.sort_unstable_by(f64::total_cmp);
    let at = |per_mille, enough| {
        (members.len() >= enough).then(|| nearest_rank(&slowdowns, per_mille).map(round6)).flatten()
    };
    Some(json!([nearest_rank(&sizes, 500)?, members.len(), at(500, 1), at(950, 20), at(990, 100)]))
}

/// The smallest of 1, 2, 5, 10, 20, 50, ... that is not below `bytes`.
fn range_end(bytes: u64) -> u64 {
    let mut decade = 1u64;
    loop {
        for end in [1, 2, 5].map(|digit| decade.saturating_mul(digit)) {
            if bytes <= end {
                return end;
            }
        }
        decade = decade.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::flow;
    use super::*;
    use rnic_transport::Time;

    #[test]
    fn size_ranges() {
        let ends = [0, 1, 2, 3, 5, 6, 10, 1_000, 1_001, u64::MAX].map(range_end);
        assert_eq!(ends, [1, 1, 2, 5, 5, 10, 10, 1_000, 2_000, u64::MAX]);
    }

    fn flows(n: u64) -> Vec<FlowRecord> {
        (1..=n).map(|i| FlowRecord { finish: Some(Time::from_us(i)), ..flow(i as u32, 1_000) }).collect()
    }

    #[test]
    fn the_tail_ends_where_the_flows_end() {
        let thousand = flows(1_000);
        let points = tail(&thousand.iter().collect::<Vec<_>>(), 1_000);
        assert_eq!((points.len(), &points[0], &points[99]), (100, &json!([90.0, 900.0]), &json!([99.9, 999.0])));
        let fifty = flows(50);
        let points = tail(&fifty.iter().collect::<Vec<_>>(), 1_000);
        assert_eq!(points.last(), Some(&json!([98.0, 49.0])));
        assert_eq!(tail(&fifty.iter().collect::<Vec<_>>(), 999), Vec::<Value>::new());
    }

    #[test]
    fn percentiles_that_few_flows_cannot_tell_are_null() {
        let twenty = flows(20);
        let points = by_size(&twenty.iter().collect::<Vec<_>>());
        assert_eq!(points, [json!([1_000, 20, 2.0, 3.8, null])]);
    }
}
