//! The error of runs of flows as fluids (`fidelity = "flow"`): their metrics compared with the metrics of the same runs
//! with packets.

use super::stats::{Distribution, Goodput};
use super::summary::{RunSummary, ScenarioSummary};
use super::text::{duration, percent, rate, round6, three_digits};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, TableStyle};
use serde_json::{Value, json};

/// Suffix of the name of a run with fluids, after the name of the same run with packets (`rnic run --fidelity both`).
pub const OF_FLOWS: &str = ", flow";

/// A metric of a run with packets and of the same run with fluids.
#[derive(Clone, Copy, Debug)]
pub struct MetricError {
    /// Name of the metric, for example `average FCT`.
    pub metric: &'static str,
    /// Its value with packets.
    pub packet: f64,
    /// Its value with fluids.
    pub flow: f64,
    show: fn(f64) -> String,
}

impl MetricError {
    /// The relative error: 0.1 if the value with fluids is 10 % higher than with packets; `None` if the value with
    /// packets is 0.
    pub fn relative(&self) -> Option<f64> {
        (self.packet > 0.0).then(|| self.flow / self.packet - 1.0)
    }
}

/// A run with packets and the same run with fluids.
#[derive(Clone, Debug)]
pub struct Pair<'s> {
    /// The run with packets.
    pub packet: &'s RunSummary,
    /// The run with fluids.
    pub flow: &'s RunSummary,
    /// The metrics that both have.
    pub errors: Vec<MetricError>,
}

impl Pair<'_> {
    /// CPU time with packets divided by CPU time with fluids; `None` if either was too short to measure.
    pub fn speed(&self) -> Option<f64> {
        let (packet, flow) = (self.packet.timing.cpu_s, self.flow.timing.cpu_s);
        (packet > 0.0 && flow > 0.0).then(|| packet / flow)
    }
}

/// The runs of a scenario that have been simulated with packets and with fluids, in the scenario's order.
pub fn pairs(summary: &ScenarioSummary) -> Vec<Pair<'_>> {
    let with_packets = summary.runs.iter().filter(|run| run.fidelity.is_packet());
    let pair = |packet: &'_ RunSummary| {
        let name = format!("{}{OF_FLOWS}", packet.name);
        let flow = summary.runs.iter().find(|run| !run.fidelity.is_packet() && run.name == name)?;
        Some((flow, errors(packet, flow)))
    };
    with_packets.filter_map(|packet| pair(packet).map(|(flow, errors)| Pair { packet, flow, errors })).collect()
}

/// The metrics that both runs have.
fn errors(packet: &RunSummary, flow: &RunSummary) -> Vec<MetricError> {
    type OfRun = (&'static str, fn(&RunSummary) -> Option<f64>, fn(f64) -> String);
    let metrics: [OfRun; 9] = [
        ("average slowdown", |run| of(run.slowdown, |d| d.mean), three_digits),
        ("median slowdown", |run| of(run.slowdown, |d| d.p50), three_digits),
        ("99th percentile slowdown", |run| of(run.slowdown, |d| d.p99), three_digits),
        ("average FCT", |run| of(run.fct_us, |d| d.mean), duration),
        ("99th percentile FCT", |run| of(run.fct_us, |d| d.p99), duration),
        ("average request time", |run| of(run.requests, |d| d.mean), duration),
        ("mean goodput", |run| run.goodput.map(|goodput: Goodput| goodput.mean), rate),
        ("average time of a collective", collective, duration),
        ("mean utilisation of host links", |run| run.host_utilisation.map(|of| of.mean), percent),
    ];
    let both =
        |(metric, value, show): OfRun| Some(MetricError { metric, packet: value(packet)?, flow: value(flow)?, show });
    metrics.into_iter().filter_map(both).collect()
}

fn of(distribution: Option<Distribution>, value: fn(Distribution) -> f64) -> Option<f64> {
    distribution.map(value)
}

/// Mean time of the collective operations of all traffic sources, in microseconds.
fn collective(run: &RunSummary) -> Option<f64> {
    let times = run.collectives.iter().filter_map(|of| of.time_us);
    let (sum, count) = times.fold((0.0, 0.0), |(sum, count), time| (sum + time.mean, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// The errors as a table of text, at most `width` characters wide; empty if no run was simulated both ways.
pub(crate) fn render(summary: &ScenarioSummary, width: usize, style: TableStyle) -> String {
    let pairs = pairs(summary);
    if pairs.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(style).set_content_arrangement(ContentArrangement::Dynamic).set_width(width as u16).force_no_tty();
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let head = ["packets", "flows as fluids", "error"].map(|title| right(title.to_string()));
    table.set_header([Cell::new("run, metric")].into_iter().chain(head));
    for pair in &pairs {
        for error in &pair.errors {
            let relative = error.relative().map_or("-".to_string(), |error| format!("{:+.1} %", error * 100.0));
            let cells = [(error.show)(error.packet), (error.show)(error.flow), relative].map(right);
            table.add_row([Cell::new(format!("{}, {}", pair.packet.name, error.metric))].into_iter().chain(cells));
        }
        if let Some(speed) = pair.speed() {
            let times = [pair.packet.timing.cpu_s, pair.flow.timing.cpu_s].map(|s| right(duration(s * 1e6)));
            let faster = right(format!("{}x faster", three_digits(speed)));
            table.add_row(
                [Cell::new(format!("{}, CPU time", pair.packet.name))].into_iter().chain(times).chain([faster]),
            );
        }
    }
    table.trim_fmt() + "\n"
}

/// The errors as JSON; `None` if no run was simulated both ways.
pub(crate) fn to_json(summary: &ScenarioSummary) -> Option<Value> {
    let pairs = pairs(summary);
    let of_pair = |pair: &Pair<'_>| -> Vec<Value> {
        let row = |error: &MetricError| {
            json!({
                "run": pair.packet.name,
                "metric": error.metric,
                "packet": round6(error.packet),
                "flow": round6(error.flow),
                "error": error.relative().map(round6),
            })
        };
        pair.errors.iter().map(row).collect()
    };
    (!pairs.is_empty()).then(|| pairs.iter().flat_map(of_pair).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, summarise, table};
    use super::*;
    use rnic_spec::Fidelity;

    #[test]
    fn the_same_run_with_packets_and_with_fluids() {
        let (mut scenario, mut reports) = fixture::two_runs();
        scenario.runs[1] = scenario.runs[0].clone();
        scenario.runs[1].name += OF_FLOWS;
        reports[1] = reports[0].clone();
        reports[1].output.fidelity = Fidelity::Flow;
        // The flow with slowdown 8 has 4: the mean of 2, 4, 6 and 8 falls from 5 to 4.
        let slowest = (0..).zip(&reports[0].output.flows).max_by_key(|(_, flow)| flow.finish).unwrap();
        let (start, ideal) = (slowest.1.start, slowest.1.ideal);
        reports[1].output.flows.edit(slowest.0, |flow| flow.finish = Some(start + ideal * 4));
        (reports[0].cpu_s, reports[1].cpu_s) = (3.0, 0.01);
        let summary = summarise(&scenario, &reports);
        let pairs = pairs(&summary);
        let errors = &pairs[0].errors;
        assert_eq!((errors[0].metric, errors[0].packet, errors[0].flow), ("average slowdown", 5.0, 4.0));
        assert!((errors[0].relative().unwrap() + 0.2).abs() < 1e-12);
        assert_eq!(pairs[0].speed(), Some(300.0));
        let json = to_json(&summary).unwrap();
        assert_eq!(
            json[0],
            json!({"run": "RoCE + PFC", "metric": "average slowdown", "packet": 5.0, "flow": 4.0, "error": -0.2})
        );
        let text = table::render(&summary, 120);
        for part in ["RoCE + PFC, average slowdown", "-20.0 %", "300x faster", "modelled"] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        assert_eq!(summary.to_json(false)["fidelity_errors"], json);
        let run = &summary.to_json(false)["runs"][1];
        let absent = json!(null);
        let of_packets = ["dropped", "lost", "retransmitted", "marked"].map(|name| &run["packets"][name]);
        assert!(
            [&run["drop_rate"], &run["timeouts"], &run["pause"]].into_iter().chain(of_packets).all(|v| *v == absent)
        );
        assert_eq!((&run["fidelity"], &run["packets"]["data"]), (&json!("flow"), &json!(600)));
    }
}
