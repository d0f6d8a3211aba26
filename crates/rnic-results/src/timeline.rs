//! The timeline of a step: the tasks of each rank of a program over time, in `timeline.csv`.

use super::text::exact_us;
use rnic_spec::{RunOutput, RunRecord, RunSpec, Scenario, TrafficPattern};
use std::io::{self, Write};

/// Columns of `timeline.csv`, one row per run and task.
const COLUMNS: [&str; 7] = ["run", "traffic", "rank", "task", "kind", "start_us", "end_us"];

/// Whether a run recorded a timeline.
pub(super) fn any(reports: &[RunRecord]) -> bool {
    reports.iter().any(|report| !report.output.timeline.spans.is_empty())
}

/// A warning for each traffic source whose `timeline` is a step without tasks, and for each traffic source of which
/// tasks are missing.
pub(super) fn missing(spec: &RunSpec, output: &RunOutput) -> Vec<String> {
    let timeline = &output.timeline;
    let warning = |(index, source): (usize, &rnic_spec::Traffic)| {
        let deployment = match &source.pattern {
            TrafficPattern::Training(training) => &training.deployment,
            TrafficPattern::Trace(trace) => &trace.deployment,
            _ => return None,
        };
        let step = deployment.timeline?;
        let found = timeline.spans.iter().any(|span| usize::from(span.traffic) == index);
        (!found).then(|| format!("the timeline of `{}` is empty: no task of step {step} completed", source.name))
    };
    let empty = spec.traffic.iter().enumerate().filter_map(warning);
    let left_out = (timeline.left_out > 0).then(|| {
        format!("{} tasks are missing in the timeline, which has the first {}", timeline.left_out, timeline.spans.len())
    });
    empty.chain(left_out).collect()
}

/// Writes `timeline.csv`: the tasks in order of traffic source, rank and start.
pub(super) fn write(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        let timeline = &report.output.timeline;
        for span in &timeline.spans {
            csv.write_record([
                run.name.as_str(),
                &run.traffic[usize::from(span.traffic)].name,
                &span.rank.to_string(),
                span.kind.name(),
                timeline.labels.get(span.label as usize).map_or("", String::as_str),
                &exact_us(span.start),
                &exact_us(span.end),
            ])?;
        }
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use rnic_spec::{CollectiveOperation, TaskKind, TaskSpan, Timeline};
    use rnic_transport::Time;

    #[test]
    fn tasks_in_rows() {
        let (scenario, mut reports) = fixture::two_runs();
        assert!(!any(&reports));
        let us = Time::from_us;
        let span =
            |rank, kind, label, start, end| TaskSpan { traffic: 0, rank, start: us(start), end: us(end), kind, label };
        reports[0].output.timeline = Timeline {
            labels: vec![String::new(), "tensor".into()],
            spans: vec![
                span(0, TaskKind::Compute, 0, 0, 5),
                span(1, TaskKind::Collective(CollectiveOperation::AllReduce), 1, 5, 7),
            ],
            left_out: 0,
        };
        assert!(any(&reports));
        let mut out = Vec::new();
        write(&mut out, &scenario, &reports).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<&str> = text.lines().collect();
        let (run, traffic) = (&scenario.runs[0].name, &scenario.runs[0].traffic[0].name);
        assert_eq!(rows[0], "run,traffic,rank,task,kind,start_us,end_us");
        assert!(rows[1].starts_with(&format!("{run},{traffic},0,compute,,0")), "{}", rows[1]);
        assert!(rows[2].starts_with(&format!("{run},{traffic},1,all-reduce,tensor,5")), "{}", rows[2]);
        assert_eq!(rows.len(), 3);
    }
}
