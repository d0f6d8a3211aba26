//! Requests of inferences: the time to the first token, the time per output token and the rate of requests, in
//! `summary.json`, as sentences, and in `requests.csv`.

use super::stats::Distribution;
use super::text::{duration, exact_us, round6, three_digits};
use rnic_spec::{AnsweredRequest, RunOutput, RunRecord, RunSpec, Scenario, TrafficPattern};
use rnic_transport::Time;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Columns of `requests.csv`, one row per run and request. Times that a request did not reach are empty.
const COLUMNS: [&str; 9] = [
    "run",
    "traffic",
    "request",
    "arrival_us",
    "begin_us",
    "first_token_us",
    "end_us",
    "time_to_first_token_us",
    "time_per_output_token_us",
];

/// The requests of one traffic source.
#[derive(Clone, PartialEq, Debug)]
pub struct InferenceSummary {
    /// Name of the traffic source.
    pub traffic: String,
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that got all tokens.
    pub answered: u64,
    /// Distribution of the times from the arrival of a request to its first token, in microseconds.
    pub first_token_us: Option<Distribution>,
    /// Distribution of the mean times between two tokens of a request, in microseconds.
    pub output_token_us: Option<Distribution>,
    /// Number of answered requests, and of their tokens, per second from the first arrival to the last token; `None` if
    /// no request was answered.
    pub per_second: Option<(f64, f64)>,
}

fn first_token(request: &AnsweredRequest) -> Option<Time> {
    Some(request.first_token?.saturating_sub(request.arrival))
}

/// The mean time between two tokens of a request, in microseconds.
fn output_token_us(request: &AnsweredRequest) -> Option<f64> {
    let time = request.end?.saturating_sub(request.first_token?);
    (request.output > 1).then(|| time.as_us() / f64::from(request.output - 1))
}

/// The requests of a run, by traffic source.
pub(super) fn summarise(spec: &RunSpec, output: &RunOutput) -> Vec<InferenceSummary> {
    let summary = |(index, source): (usize, &rnic_spec::Traffic)| {
        let TrafficPattern::Inference(inference) = &source.pattern else { return None };
        let own: Vec<_> =
            output.answered.iter().filter(|request| usize::from(request.traffic) == index).copied().collect();
        let ends: Vec<_> = own.iter().filter_map(|request| Some((request.end?, request.output))).collect();
        let first = own.iter().map(|request| request.arrival).min().unwrap_or_default();
        let last = ends.iter().map(|(end, _)| *end).max().unwrap_or_default();
        let seconds = last.saturating_sub(first).as_us() / 1e6;
        let tokens: f64 = ends.iter().map(|(_, output)| f64::from(*output)).sum();
        Some(InferenceSummary {
            traffic: source.name.clone(),
            requests: inference.requests.into(),
            answered: ends.len() as u64,
            first_token_us: Distribution::of(own.iter().filter_map(first_token).map(Time::as_us).collect()),
            output_token_us: Distribution::of(own.iter().filter_map(output_token_us).collect()),
            per_second: (seconds > 0.0).then(|| (ends.len() as f64 / seconds, tokens / seconds)),
        })
    };
    spec.traffic.iter().enumerate().filter_map(summary).collect()
}

/// The requests as a JSON array, one object per traffic source.
pub(super) fn to_json(summaries: &[InferenceSummary]) -> Value {
    let times = |of: &Option<Distribution>| {
        let us = |get: fn(&Distribution) -> f64| of.as_ref().map(|time| round6(get(time)));
        json!({
            "mean": us(|time| time.mean),
            "p50": us(|time| time.p50),
            "p99": us(|time| time.p99),
            "max": us(|time| time.max),
        })
    };
    let object = |summary: &InferenceSummary| {
        json!({
            "traffic": summary.traffic,
            "requests": summary.requests,
            "answered": summary.answered,
            "time_to_first_token_us": times(&summary.first_token_us),
            "time_per_output_token_us": times(&summary.output_token_us),
            "requests_per_second": summary.per_second.map(|(requests, _)| round6(requests)),
            "tokens_per_second": summary.per_second.map(|(_, tokens)| round6(tokens)),
        })
    };
    summaries.iter().map(object).collect()
}

/// A sentence for each traffic source with requests.
pub(super) fn sentences(summaries: &[InferenceSummary]) -> Vec<String> {
    let of_source = |summary: &InferenceSummary| {
        let InferenceSummary { traffic, requests, answered, .. } = summary;
        match (&summary.first_token_us, &summary.output_token_us, summary.per_second) {
            (Some(first), Some(output), Some((rate, tokens))) => format!(
                "{answered} of {requests} requests (`{traffic}`) answered, {} requests and {} tokens per second: first token \
                 after {} on average, {} at p99; {} per output token on average, {} at p99",
                three_digits(rate),
                three_digits(tokens),
                duration(first.mean),
                duration(first.p99),
                duration(output.mean),
                duration(output.p99),
            ),
            _ => format!("none of {requests} requests (`{traffic}`) was answered"),
        }
    };
    summaries.iter().map(of_source).collect()
}

/// Whether a run has requests.
pub(super) fn any(reports: &[RunRecord]) -> bool {
    reports.iter().any(|report| !report.output.answered.is_empty())
}

/// Writes `requests.csv`.
pub(super) fn write(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    let time = |time: Option<Time>| time.map_or(String::new(), exact_us);
    for (run, report) in scenario.runs.iter().zip(reports) {
        for request in &report.output.answered {
            csv.write_record([
                run.name.as_str(),
                &run.traffic[usize::from(request.traffic)].name,
                &request.request.to_string(),
                &exact_us(request.arrival),
                &time(request.begin),
                &time(request.first_token),
                &time(request.end),
                &time(first_token(request)),
                &output_token_us(request).map_or(String::new(), |us| round6(us).to_string()),
            ])?;
        }
    }
    csv.flush()
}
