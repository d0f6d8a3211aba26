//! Metrics out to an OpenTelemetry collector: OTLP over HTTP in its JSON encoding (OTLP 1.x, `POST /v1/metrics`).

use super::{Shared, metrics, unix_us};
use rnic_watch::exposition::{Kind, Metrics, Value as Number};
use serde_json::{Value, json};
use std::time::Duration;
use ureq::Agent;

/// Pushes metrics.
pub(super) struct Exporter {
    agent: Agent,
    url: String,
    start_us: u64,
    failed: bool,
}

impl Exporter {
    /// # Errors
    /// A sentence, if the URL cannot be used.
    pub(super) fn new(url: &str) -> Result<Exporter, String> {
        if !url.starts_with("http://") {
            return Err(format!(
                "{url:?} is no address of a collector; accepted: http://HOST:PORT/v1/metrics (a collector on this \
                 machine can forward over TLS)"
            ));
        }
        let config =
            Agent::config_builder().proxy(None).max_redirects(0).timeout_global(Some(Duration::from_secs(3))).build();
        Ok(Exporter { agent: config.into(), url: url.to_string(), start_us: unix_us(), failed: false })
    }

    /// Pushes all metrics; tells `failed` when a collector that took them does not any more.
    pub(super) fn push(&mut self, shared: &Shared, mut failed: impl FnMut(String)) {
        let body = document(&metrics::metrics(shared), self.start_us, unix_us()).to_string();
        let sent = self.agent.post(&self.url).header("Content-Type", "application/json").send(body);
        match sent {
            Ok(_) => self.failed = false,
            Err(error) if !self.failed => {
                self.failed = true;
                failed(format!("{}: {error}", self.url));
            }
            Err(_) => {}
        }
    }
}

/// An export request: gauges, and counters as cumulative monotonic sums.
fn document(metrics: &Metrics, start_us: u64, now_us: u64) -> Value {
    let nano = |us: u64| (us * 1_000).to_string();
    let mut families = Vec::new();
    for (name, kind, help, samples) in metrics.families() {
        let points: Vec<Value> = samples
            .map(|(labels, value)| {
                let attributes: Vec<Value> =
                    labels.iter().map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).collect();
                let mut point = json!({"attributes": attributes, "timeUnixNano": nano(now_us)});
                match value {
                    // 64-bit integers are strings in the JSON encoding.
                    Number::Integer(value) => point["asInt"] = json!(value.to_string()),
                    Number::Number(value) => point["asDouble"] = json!(value),
                }
                if kind == Kind::Counter {
                    point["startTimeUnixNano"] = json!(nano(start_us));
                }
                point
            })
            .collect();
        let data = match kind {
            Kind::Gauge => json!({"gauge": {"dataPoints": points}}),
            Kind::Counter => {
                json!({"sum": {"dataPoints": points, "aggregationTemporality": 2, "isMonotonic": true}})
            }
        };
        let unit = if name.ends_with("_ns") { "ns" } else { "1" };
        let mut metric = json!({"name": name, "description": help, "unit": unit});
        if let (Some(metric), Value::Object(data)) = (metric.as_object_mut(), data) {
            metric.extend(data);
        }
        families.push(metric);
    }
    let service = json!({"key": "service.name", "value": {"stringValue": "rnic-mesh"}});
    let scope = json!({"name": "rnic", "version": env!("CARGO_PKG_VERSION")});
    json!({"resourceMetrics": [{
        "resource": {"attributes": [service]},
        "scopeMetrics": [{"scope": scope, "metrics": families}],
    }]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_sums_and_gauges_are_gauges() {
        let mut metrics = Metrics::new();
        metrics.add("a_total", Kind::Counter, "A.", &[("x", "1")], 7);
        metrics.add("b_ns", Kind::Gauge, "B.", &[], 0.5);
        let document = document(&metrics, 1, 2);
        let found = &document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let sum = &found[0]["sum"];
        assert_eq!((&sum["isMonotonic"], &sum["aggregationTemporality"]), (&json!(true), &json!(2)));
        let point = json!({"attributes": [{"key": "x", "value": {"stringValue": "1"}}], "asInt": "7",
            "timeUnixNano": "2000", "startTimeUnixNano": "1000"});
        assert_eq!(sum["dataPoints"][0], point);
        assert_eq!((&found[1]["gauge"]["dataPoints"][0]["asDouble"], &found[1]["unit"]), (&json!(0.5), &json!("ns")));
        assert!(Exporter::new("ftp://x").err().unwrap().contains("accepted: http://"));
    }
}
