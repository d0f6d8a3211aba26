//! The figures of the steps of programs of tasks: why messages are slower, the busiest links, and bandwidths.

use super::super::steps::{StepSummary, busbw};
use super::super::summary::{RunSummary, ScenarioSummary};
use super::figure::{Bar, BarGroup, Bars, Board, Figure, Unit};

/// A run's name, with the traffic source if the run has several with steps; and the statistics of its steps.
fn named(summary: &ScenarioSummary) -> Vec<(String, &StepSummary)> {
    fn of_run(run: &RunSummary) -> Vec<(String, &StepSummary)> {
        let several = run.steps.len() > 1;
        let name = |traffic: &str| if several { format!("{}, {traffic}", run.name) } else { run.name.clone() };
        run.steps.iter().map(|steps| (name(&steps.traffic), steps)).collect()
    }
    summary.runs.iter().flat_map(of_run).collect()
}

/// A board of bars with a group for each run. `values` has named values of a run; `None` for an absent bar.
fn bars(
    summary: &ScenarioSummary, (title, caption, unit): (&str, &str, Unit),
    values: impl Fn(&StepSummary) -> Vec<(String, f64)>,
) -> Option<(String, Board)> {
    let all: Vec<(String, Vec<(String, f64)>)> =
        named(summary).into_iter().map(|(name, steps)| (name, values(steps))).collect();
    let mut series: Vec<String> = Vec::new();
    for (name, _) in all.iter().flat_map(|(_, values)| values) {
        if !series.contains(name) {
            series.push(name.clone());
        }
    }
    if series.is_empty() {
        return None;
    }
    let value = |values: &[(String, f64)], name: &String| values.iter().find(|(own, _)| own == name).map(|own| own.1);
    let group = |(name, values): &(String, Vec<(String, f64)>)| BarGroup {
        name: name.clone(),
        bars: (0..)
            .zip(&series)
            .map(|(index, name)| Bar { series: index, value: value(values, name), ..Bar::default() })
            .collect(),
        stated: None,
    };
    let groups = all.iter().map(group).collect();
    let figure = Bars { title: title.into(), caption: caption.into(), groups, unit, ..Bars::default() };
    Some((title.to_string(), Board { series: series.clone(), shown: 0, rows: vec![vec![Figure::Bars(figure)]] }))
}

/// The boards of steps that have a value in any run.
pub(super) fn boards(summary: &ScenarioSummary) -> Vec<(String, Board)> {
    let excess = (
        "Why messages are slower than on an empty fabric",
        "parts of the excess of the critical path, on average over the measured steps",
        Unit::Time,
    );
    let causes = |steps: &StepSummary| {
        let names = ["queueing", "pauses", "retransmission", "waiting at the sender"];
        let causes = steps.causes.into_iter().flat_map(|causes| names.into_iter().zip(causes));
        causes.map(|(name, time)| (name.to_string(), time)).collect()
    };
    let links = (
        "Busiest links of steps",
        "fraction of the time of the measured steps for which a link was sending",
        Unit::Percent,
    );
    let utilisation =
        |steps: &StepSummary| steps.links.iter().map(|link| (link.name.clone(), 100.0 * link.utilisation)).collect();
    let bandwidth = (
        "Bus bandwidth of operations",
        "in 10^9 bytes per second, as nccl-tests defines it, at the mean size and time of each kind of operations",
        Unit::Number,
    );
    let of_kinds = |steps: &StepSummary| {
        let collective = |of: &&rnic_spec::OperationRecord| of.operation.is_some() && of.ranks > 1;
        let kinds = steps.operations.iter().filter(collective).filter_map(|of| {
            let name = of.operation?.name();
            Some((format!("{} {name}, {} ranks", of.label, of.ranks).trim_start().to_string(), busbw(of)?))
        });
        kinds.take(8).collect()
    };
    let all = [bars(summary, excess, causes), bars(summary, links, utilisation), bars(summary, bandwidth, of_kinds)];
    all.into_iter().flatten().collect()
}
