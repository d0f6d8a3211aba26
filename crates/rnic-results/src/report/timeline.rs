//! The figures of programs of tasks: the parts of the time of a step, and the tasks of each rank over time.

use super::super::summary::{RunSummary, ScenarioSummary};
use super::figure::{Axis, Bar, BarGroup, Bars, Board, Figure, Scale, Span, SpanRow, Spans, Unit};
use rnic_spec::{RunRecord, RunSpec, Scenario, TaskKind, TaskSpan, Timeline};
use std::collections::BTreeMap;

/// Maximum number of runs with a timeline. Runs after these have none.
const RUNS: usize = 8;
/// Maximum number of ranks that a timeline shows, each with a row of computations and a row of operations.
const RANKS: usize = 16;
/// A gap between two tasks of one kind is not drawn if it is shorter than the length of the figure divided by this
/// number.
const FINEST: f64 = 1_200.0;

/// What a row shows: traffic source, rank, and whether the row has operations instead of computations.
type RowKey = (u16, u32, bool);

/// The board with the parts of the time of steps; `None` if no run has completed a step.
pub(super) fn parts(summary: &ScenarioSummary) -> Option<Board> {
    let of_run = |run: &RunSummary| {
        let several = run.steps.len() > 1;
        let named = |traffic: &str| if several { format!("{}, {traffic}", run.name) } else { run.name.clone() };
        run.steps.iter().filter_map(|steps| Some((named(&steps.traffic), steps.parts?))).collect::<Vec<_>>()
    };
    let all: Vec<_> = summary.runs.iter().flat_map(of_run).collect();
    let names = all.first()?.1.named().map(|(name, _)| name.to_string());
    let group = |(name, parts): &(String, super::super::steps::Parts)| BarGroup {
        name: name.clone(),
        bars: (0..)
            .zip(parts.named())
            .map(|(series, (_, time))| Bar { series, value: Some(time), ..Bar::default() })
            .collect(),
        stated: None,
    };
    Some(Board {
        series: names.to_vec(),
        shown: 0,
        rows: vec![vec![Figure::Bars(Bars {
            title: "Where the time of a step goes".to_string(),
            caption: "parts of the critical path, on average over the measured steps: late start of a rank; computation of a \
                      rank on average; further computation of the rank that computes longest; computation of other ranks \
                      (bubble); messages on an empty fabric; time by which messages are slower"
                .to_string(),
            groups: all.iter().map(group).collect(),
            unit: Unit::Time,
            ..Bars::default()
        })]],
    })
}

/// The boards of all runs that recorded a timeline.
pub(super) fn boards(scenario: &Scenario, reports: &[RunRecord]) -> Vec<(String, Board)> {
    let runs = scenario.runs.iter().zip(reports).take(RUNS);
    let board = |(spec, report): (&RunSpec, &RunRecord)| {
        let timeline = &report.output.timeline;
        (!timeline.spans.is_empty()).then(|| (format!("Timeline: {}", spec.name), board(spec, timeline)))
    };
    runs.filter_map(board).collect()
}

fn board(spec: &RunSpec, timeline: &Timeline) -> Board {
    let several = timeline.spans.iter().any(|span| span.traffic != timeline.spans[0].traffic);
    let name_of = |span: &TaskSpan| {
        let label = timeline.labels.get(span.label as usize).map_or("", String::as_str);
        match (span.kind, label) {
            (TaskKind::Compute, _) => "compute".to_string(),
            (kind, "") => kind.name().to_string(),
            (kind, label) => format!("{label}: {}", kind.name()),
        }
    };
    let mut series: Vec<String> = Vec::new();
    let mut rows: BTreeMap<RowKey, Vec<(usize, &TaskSpan)>> = BTreeMap::new();
    for span in &timeline.spans {
        let name = name_of(span);
        let index = series.iter().position(|known| *known == name).unwrap_or_else(|| {
            series.push(name);
            series.len() - 1
        });
        rows.entry((span.traffic, span.rank, span.kind != TaskKind::Compute)).or_default().push((index, span));
    }
    let from = timeline.spans.iter().map(|span| span.start).min().unwrap_or_default().as_us();
    let to = timeline.spans.iter().map(|span| span.end).max().unwrap_or_default().as_us();
    let mut ranks: Vec<(u16, u32)> = rows.keys().map(|(traffic, rank, _)| (*traffic, *rank)).collect();
    ranks.dedup();
    // Evenly among all ranks, so that all stages of a pipeline are visible.
    let step = ranks.len().div_ceil(RANKS).max(1);
    let shown: Vec<(u16, u32)> = ranks.iter().copied().step_by(step).collect();
    let row = |((traffic, rank, is_operation), spans): (&RowKey, &Vec<(usize, &TaskSpan)>)| {
        let what = if *is_operation { "operations" } else { "compute" };
        let of = if several { format!("{}, ", spec.traffic[usize::from(*traffic)].name) } else { String::new() };
        let name = format!("{of}rank {rank}, {what}");
        SpanRow { name, root: None, spans: joined(spans, (to - from) / FINEST) }
    };
    let drawn = rows.iter().filter(|((traffic, rank, _), _)| shown.contains(&(*traffic, *rank))).map(row).collect();
    let of_all = match ranks.len() == shown.len() {
        true => String::new(),
        false => format!("; {} of {} ranks", shown.len(), ranks.len()),
    };
    let left_out = match timeline.left_out {
        0 => String::new(),
        more => format!("; {more} further tasks were not recorded"),
    };
    Board {
        series,
        shown: 0,
        rows: vec![vec![Figure::Spans(Spans {
            title: "What each rank does".to_string(),
            caption: format!("tasks of one step; operations of a rank may overlap each other{of_all}{left_out}"),
            x: Axis { name: "Time".into(), unit: Unit::Time, scale: Scale::Linear },
            reach: [from, to],
            rows: drawn,
            marks: Vec::new(),
        })]],
    }
}

/// The tasks of a row, without gaps between tasks of one kind that are too short to be seen.
fn joined(spans: &[(usize, &TaskSpan)], gap: f64) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    for (series, span) in spans {
        let (from, to) = (span.start.as_us(), span.end.as_us());
        match all.last_mut().filter(|last| last.series == *series && from <= last.to + gap) {
            Some(last) => last.to = last.to.max(to),
            None => all.push(Span { series: *series, from, to }),
        }
    }
    all
}
