//! The record of a study: its verdicts as data, from which the pages of the documentation are generated.

use super::verdict::Verdict;
use super::{ExperimentState, Plan};
use rnic_campaign::statistics::Estimate;
use rnic_record::{Measured, Outcome, Record, Table, cells, judge};
use serde_json::{Value, json};

/// Columns of the table `experiments`.
const EXPERIMENTS: [&str; 10] =
    ["experiment", "title", "seeds", "simulations", "date", "version", "commit", "machine", "plan", "behaviour"];
/// Columns of the table `rows`.
const ROWS: [&str; 11] =
    ["experiment", "metric", "stated", "claim", "unit", "mean", "half_width", "seeds", "sample", "outcome", "note"];

/// The record of the verdicts of `plan`. The command, the date and the machine come from `now`, whose tables are
/// replaced. If the plan has only some of the study's experiments, the record keeps the other experiments of `earlier`.
///
/// # Errors
/// One sentence if the results are partial, or if `earlier` has numbers of another kind (`--quick` or not).
pub fn record(plan: &Plan, verdicts: &[Verdict], now: Record, earlier: Option<&Record>) -> Result<Record, String> {
    if plan.missing > 0 {
        return Err("partial results are not recorded; the same command continues with the others".to_string());
    }
    if earlier.is_some_and(|earlier| earlier.quick != plan.quick) {
        return Err("results of --quick and of full runs are not recorded in the same file".to_string());
    }
    let names: Vec<&str> = plan.study.experiments.iter().map(|experiment| experiment.name).collect();
    let mut experiments = Table::named(&EXPERIMENTS);
    let mut rows = Table::named(&ROWS);
    for name in names {
        let Some(planned) = plan.experiments.iter().find(|planned| planned.experiment.name == name) else {
            for (table, own) in [("experiments", &mut experiments), ("rows", &mut rows)] {
                let old = earlier.and_then(|earlier| earlier.table(table));
                let kept = old.into_iter().flat_map(|old| old.rows.iter().filter(|row| row[0] == name));
                own.rows.extend(kept.cloned());
            }
            continue;
        };
        let state = plan.states().into_iter().find(|state| state.experiment == name);
        let behaviour = state.as_ref().and_then(ExperimentState::behaviour);
        experiments.rows.push(vec![
            json!(name),
            json!(planned.experiment.title),
            json!(planned.seeds),
            json!(planned.jobs.as_ref().map_or(0, Vec::len)),
            json!(now.date),
            json!(now.version),
            json!(now.commit),
            json!(now.machine),
            json!(state.map(|state| state.plan)),
            json!(behaviour),
        ]);
        rows.rows.extend(verdicts.iter().filter(|verdict| verdict.experiment == name).map(row));
    }
    let mut record = Record { quick: plan.quick, tables: Vec::new(), ..now };
    if plan.experiments.len() < plan.study.experiments.len() && earlier.is_some() {
        // The command must also name the experiments of the earlier record.
        record.command = format!("rnic reproduce {}", plan.study.name);
    }
    // The whole record counts as imported as long as it has imported rows.
    record.imported = experiments.rows.iter().any(|row| experiments.cell(row, "plan").is_some_and(Value::is_null));
    record.put("experiments", experiments);
    record.put("rows", rows);
    Ok(record)
}

fn row(verdict: &Verdict) -> Vec<Value> {
    let one = |value: Option<f64>| value.map_or(Value::Null, |value| cells(&[value]));
    let mean = one(verdict.estimate.map(|e| e.mean));
    let half = one(verdict.estimate.and_then(|e| e.half_width));
    // The outcome is computed from the recorded mean, which has six significant digits.
    let outcome = mean.as_f64().map_or(Outcome::NoResult, |mean| {
        judge(&verdict.row.claim, &Measured { mean, half_width: half.as_f64(), exact: verdict.exact })
    });
    let sample = match (verdict.row.pooled, verdict.exact) {
        (true, _) => "pooled",
        (_, true) => "exact",
        _ => "seeds",
    };
    vec![
        json!(verdict.experiment),
        json!(verdict.row.metric),
        json!(verdict.row.stated),
        verdict.row.claim.to_json(),
        json!(verdict.row.unit.name()),
        mean,
        half,
        json!(verdict.estimate.map_or(0, |Estimate { count, .. }| count)),
        json!(sample),
        json!(outcome.text()),
        json!(verdict.row.note),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Claim, Unit};
    use crate::{Request, Row, irn};

    fn plan(experiments: &[&str], quick: bool) -> Plan {
        let experiments = experiments.iter().map(ToString::to_string).collect();
        Plan::new(&irn::STUDY, &Request { experiments, quick, seeds: Some(1), ..Request::default() }).unwrap()
    }

    fn verdict(experiment: &str, values: &[f64]) -> Verdict {
        let claim = Claim::Between { low: 1.5, high: 2.0, neutral: 1.0 };
        Verdict::of(experiment, false, Row::new("FCT", "1.5-2x", claim, Unit::Ratio, Ok(values.to_vec())))
    }

    #[test]
    fn a_record_of_some_experiments_keeps_the_others() {
        let earlier = plan(&["fig1", "fig2"], false);
        let verdicts = [verdict("fig1", &[1.6, 1.61]), verdict("fig2", &[1.0, 1.01])];
        let now = |date: &str| Record { date: date.to_string(), ..Record::default() };
        let earlier = record(&earlier, &verdicts, now("2026-01-01"), None).unwrap();
        let text = |record: &Record, column: &str| {
            let rows = record.table("rows").unwrap();
            rows.rows.iter().map(|row| rows.text(row, column).to_string()).collect::<Vec<_>>()
        };
        assert_eq!(text(&earlier, "outcome"), ["inside", "outside: same direction, smaller"]);
        let verdicts = [verdict("fig2", &[1.6, 1.7])];
        let later = record(&plan(&["fig2"], false), &verdicts, now("2026-02-02"), Some(&earlier)).unwrap();
        assert_eq!(text(&later, "outcome"), ["inside", "inconclusive: the interval is too wide"]);
        let dates: Vec<&Value> = later.table("experiments").unwrap().rows.iter().map(|row| &row[4]).collect();
        assert_eq!(dates, [&json!("2026-01-01"), &json!("2026-02-02")]);
        assert!(!later.imported && later.command == "rnic reproduce irn");
        assert_eq!(Record::from_text(&later.to_text()), Ok(later));
    }

    #[test]
    fn partial_and_mixed_results_are_refused() {
        let mut partial = plan(&["fig1"], false);
        partial.missing = 1;
        assert!(record(&partial, &[], Record::default(), None).unwrap_err().contains("partial"));
        let full = Record::default();
        assert!(record(&plan(&["fig1"], true), &[], Record::default(), Some(&full)).unwrap_err().contains("--quick"));
    }
}
