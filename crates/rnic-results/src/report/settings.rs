//! The settings of a scenario's runs, divided into settings that all runs share and settings in which the runs differ.

use super::super::summary::{RunSummary, ScenarioSummary};
use super::html::{escape, row, table};
use rnic_spec::{Arrivals, Receiver, Rotation, RunSpec, Scenario, TrafficPattern};

/// Minimum number of runs for which tables have a row per run instead of a column per run.
pub(super) const ROWS_FROM: usize = 7;

/// The settings of all runs of a scenario. `values[run][key]` is `None` if the run does not have the setting.
pub(super) struct Settings {
    pub(super) keys: Vec<String>,
    pub(super) values: Vec<Vec<Option<String>>>,
}

impl Settings {
    pub(super) fn of(scenario: &Scenario, summary: &ScenarioSummary) -> Settings {
        let runs: Vec<Vec<(String, String)>> =
            scenario.runs.iter().zip(&summary.runs).map(|(spec, run)| of_run(spec, run)).collect();
        let mut keys: Vec<String> = Vec::new();
        for (key, _) in runs.iter().flatten() {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        let value =
            |run: &[(String, String)], key: &str| run.iter().find(|(k, _)| k == key).map(|(_, value)| value.clone());
        let values = runs.iter().map(|run| keys.iter().map(|key| value(run, key)).collect()).collect();
        Settings { keys, values }
    }

    /// Whether the setting with index `key` has the same value in all runs.
    pub(super) fn same(&self, key: usize) -> bool {
        self.values.windows(2).all(|pair| pair[0][key] == pair[1][key])
    }
}

fn of_run(spec: &RunSpec, run: &RunSummary) -> Vec<(String, String)> {
    let mut list = vec![
        ("transport".to_string(), run.transport.clone()),
        ("cc".to_string(), run.cc.clone()),
        ("pfc".to_string(), if run.pfc { "on" } else { "off" }.to_string()),
    ];
    let several = spec.traffic.len() > 1;
    for source in &spec.traffic {
        let mut put = |key: &str, value: String| {
            let key = if several { format!("traffic.{}.{key}", source.name) } else { format!("traffic.{key}") };
            if !run.parameters.iter().any(|(k, _)| *k == key) {
                list.push((key, value));
            }
        };
        match &source.pattern {
            TrafficPattern::Poisson { load, flows, locality, arrivals, .. } => {
                put("load", load.to_string());
                put("flows", flows.to_string());
                for (key, fraction) in [("locality", locality.leaf), ("pod_locality", locality.pod)] {
                    fraction.into_iter().for_each(|fraction| put(key, fraction.to_string()));
                }
                match arrivals {
                    Arrivals::Poisson => {}
                    Arrivals::LogNormal { cv } => put("arrivals", format!("log-normal, cv {cv}")),
                    Arrivals::OnOff { cv, on_share } => {
                        put("arrivals", format!("on-off, cv {cv}, on_share {on_share}"))
                    }
                }
            }
            TrafficPattern::Incast { senders, total, repeats, connections, receiver, .. } => {
                put_receiver(*receiver, &mut put);
                put("senders", senders.to_string());
                put("total", total.to_string());
                put("repeats", repeats.to_string());
                put("connections", connections.to_string());
            }
            TrafficPattern::Pairs { pairs, messages, think_time, persistent, .. } => {
                put("pairs", pairs.to_string());
                put("messages", messages.map_or("endless".to_string(), |messages| messages.to_string()));
                put("think_time", think_time.to_string());
                put("persistent_connections", persistent.to_string());
            }
            TrafficPattern::AllToAllLoop { repeats, outstanding, think_time, .. } => {
                put("repeats", repeats.to_string());
                put("outstanding", outstanding.to_string());
                put("think_time", think_time.to_string());
            }
            TrafficPattern::IncastLoop { incast, repeats, think_time, persistent } => {
                put_receiver(incast.receiver, &mut put);
                put("senders", incast.senders.to_string());
                put("total", incast.total.to_string());
                put("repeats", repeats.map_or("endless".to_string(), |repeats| repeats.to_string()));
                put("connections", incast.connections.to_string());
                put("interval", "completion".to_string());
                put("think_time", think_time.to_string());
                put("persistent_connections", persistent.to_string());
            }
            TrafficPattern::Collective(collective) => {
                put("operation", collective.operation.name().to_string());
                put("algorithm", collective.algorithm.name().to_string());
                put("size", collective.size.to_string());
                put("ranks", collective.ranks.to_string());
                put("group", collective.group.to_string());
                put("repeats", collective.repeats.to_string());
            }
            TrafficPattern::Outside { largest, reaction } => {
                put("largest", largest.to_string());
                put("reaction", reaction.map_or("one window".to_string(), |reaction| reaction.to_string()));
            }
            TrafficPattern::Trace(trace) => {
                put("file", trace.file.clone());
                put("format", trace.format.name().to_string());
                put("ranks", trace.content.ranks.to_string());
                put("tasks", trace.content.tasks.to_string());
                put("algorithm", trace.algorithm.name().to_string());
                put("channels", trace.channels.to_string());
                put("chunk", trace.chunk.to_string());
                put("compute_scale", trace.compute_scale.to_string());
            }
            TrafficPattern::Inference(inference) => {
                put("ranks", inference.deployment.ranks.to_string());
                put("tensor", inference.tensor.to_string());
                put("prefill", inference.prefill.to_string());
                put("requests", inference.requests.to_string());
                put("request_rate", inference.rate.map_or("all at the start".to_string(), |rate| rate.to_string()));
                put("prompt", inference.prompt.to_string());
                put("output", inference.output.to_string());
                put("batch", inference.batch.to_string());
            }
            TrafficPattern::Training(training) => {
                put("ranks", training.deployment.ranks.to_string());
                put("tensor", training.tensor.to_string());
                put("pipeline", training.pipeline.to_string());
                put("context", training.context.to_string());
                put("algorithm", training.algorithm.name().to_string());
                put("data", training.data().to_string());
                put("expert", training.expert.to_string());
                put("micro_batches", training.micro_batches.to_string());
                put("schedule", training.schedule.name().to_string());
                put("overlap", training.overlap.to_string());
                put("sharded", training.sharded.to_string());
                put("steps", training.steps.to_string());
            }
            _ => {}
        }
    }
    list.extend(run.parameters.iter().cloned());
    list
}

/// Passes the receiver of an incast to `put` if it changes.
fn put_receiver(receiver: Receiver, put: &mut impl FnMut(&str, String)) {
    match receiver {
        Receiver::Host(_) => {}
        Receiver::Changing(Rotation::RoundRobin) => put("receiver", "round-robin".to_string()),
        Receiver::Changing(Rotation::Random) => put("receiver", "random".to_string()),
    }
}

/// Two HTML tables, folded when the page loads: the settings in which the runs differ, and the settings that all runs
/// share.
pub(super) fn section(summary: &ScenarioSummary, settings: &Settings) -> String {
    if settings.keys.is_empty() || summary.runs.is_empty() {
        return String::new();
    }
    let (same, differ): (Vec<usize>, Vec<usize>) = (0..settings.keys.len()).partition(|key| settings.same(*key));
    let mut body = String::new();
    if !differ.is_empty() {
        body += "<h3>Different between runs</h3>\n";
        body += &differing(summary, settings, &differ);
        if !same.is_empty() {
            body += "<h3>The same in all runs</h3>\n";
        }
    }
    if !same.is_empty() {
        let pair = |key: &usize| {
            let value = settings.values[0][*key].as_deref().unwrap_or_default();
            format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(&settings.keys[*key]), escape(value))
        };
        body += &format!("<dl class=\"same\">{}</dl>\n", same.iter().map(pair).collect::<String>());
    }
    let differ = match (summary.runs.len(), differ.len()) {
        (1, _) => String::new(),
        (_, 0) => ", the same in all runs".to_string(),
        (_, n) => format!(", {n} differ between runs"),
    };
    format!(
        "<details class=\"parameters\"><summary>Parameters: {} settings in effect{differ}</summary>\n{body}</details>\n",
        settings.keys.len(),
    )
}

fn differing(summary: &ScenarioSummary, settings: &Settings, keys: &[usize]) -> String {
    let value = |run: usize, key: usize| settings.values[run][key].as_deref().map_or("&ndash;".to_string(), escape);
    let runs = || summary.runs.iter().map(|run| escape(&run.name));
    let names = || keys.iter().map(|key| escape(&settings.keys[*key]));
    let cells = |run: usize| keys.iter().map(|key| value(run, *key)).collect::<Vec<_>>();
    let (head, rows): (Vec<String>, Vec<String>) = if summary.runs.len() >= ROWS_FROM {
        let rows = runs().enumerate().map(|(run, name)| row(&name, &cells(run))).collect();
        (std::iter::once("Run".to_string()).chain(names()).collect(), rows)
    } else {
        let row_of = |(key, name): (&usize, String)| {
            row(&name, &(0..summary.runs.len()).map(|run| value(run, *key)).collect::<Vec<_>>())
        };
        let rows = keys.iter().zip(names()).map(row_of).collect();
        (std::iter::once("Parameter".to_string()).chain(runs()).collect(), rows)
    };
    table("parameters", "Parameters that differ between runs", &head, &rows)
}
