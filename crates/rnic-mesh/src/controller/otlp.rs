//! Metrics out to an OpenTelemetry collector: OTLP over HTTP in its binary encoding (`POST /v1/metrics`), which every
//! collector reads.

mod proto;

use super::{Shared, metrics};
use prost::Message;
use rnic_metrics::exposition::{Kind, Metrics, Value as Number};
use std::io::Read;
use std::time::Duration;
use ureq::Agent;

/// Maximum length of a collector's response.
const MAX_RESPONSE: u64 = 64 << 10;

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
    pub(super) fn new(url: &str, now_us: u64) -> Result<Exporter, String> {
        if !url.starts_with("http://") {
            return Err(format!(
                "{url:?} is no address of a collector; accepted: http://HOST:PORT/v1/metrics (a collector on this \
                 machine can forward over TLS)"
            ));
        }
        let config =
            Agent::config_builder().proxy(None).max_redirects(0).timeout_global(Some(Duration::from_secs(3))).build();
        Ok(Exporter { agent: config.into(), url: url.to_string(), start_us: now_us, failed: false })
    }

    /// Pushes all metrics; tells `failed` when a collector that took them does not any more.
    pub(super) fn push(&mut self, shared: &Shared, mut failed: impl FnMut(String)) {
        let body = request(&metrics::metrics(&shared.view), self.start_us, shared.clock.unix_us()).encode_to_vec();
        match self.send(&body) {
            Ok(()) => self.failed = false,
            Err(why) if !self.failed => {
                self.failed = true;
                failed(format!("{}: {why}", self.url));
            }
            Err(_) => {}
        }
    }

    fn send(&self, body: &[u8]) -> Result<(), String> {
        let request = self.agent.post(&self.url).header("Content-Type", "application/x-protobuf");
        let mut response = request.send(body).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        let read = response.body_mut().as_reader().take(MAX_RESPONSE).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
        // A collector that takes everything may answer with anything.
        match proto::Response::decode(&bytes[..]).ok().and_then(|response| response.partial_success) {
            Some(partial) if partial.rejected_data_points > 0 => {
                let why: String = partial.error_message.chars().filter(|c| !c.is_control()).take(200).collect();
                Err(format!("the collector has rejected {} values: {why}", partial.rejected_data_points))
            }
            _ => Ok(()),
        }
    }
}

/// An export request: gauges, and counters as cumulative monotonic sums.
fn request(metrics: &Metrics, start_us: u64, now_us: u64) -> proto::Request {
    let nano = |us: u64| us.saturating_mul(1_000);
    let mut families = Vec::new();
    for (name, kind, help, samples) in metrics.families() {
        let points = samples.map(|(labels, value)| proto::NumberDataPoint {
            attributes: labels.iter().map(|(key, value)| proto::KeyValue::text(key, value)).collect(),
            // A clock that goes back must not make an interval that ends before it begins.
            start_time_unix_nano: if kind == Kind::Counter { nano(start_us.min(now_us)) } else { 0 },
            time_unix_nano: nano(now_us),
            value: Some(match value {
                Number::Integer(value) => proto::Value::AsInt(i64::try_from(value).unwrap_or(i64::MAX)),
                Number::Number(value) => proto::Value::AsDouble(value),
            }),
        });
        let points = points.collect();
        let data = match kind {
            Kind::Gauge => proto::MetricData::Gauge(proto::Gauge { data_points: points }),
            Kind::Counter => proto::MetricData::Sum(proto::Sum {
                data_points: points,
                aggregation_temporality: proto::CUMULATIVE,
                is_monotonic: true,
            }),
        };
        families.push(proto::Metric {
            name: name.to_string(),
            description: help.to_string(),
            unit: if name.ends_with("_ns") { "ns" } else { "1" }.to_string(),
            data: Some(data),
        });
    }
    let scope = proto::Scope { name: "rnic".to_string(), version: env!("CARGO_PKG_VERSION").to_string() };
    proto::Request {
        resource_metrics: vec![proto::ResourceMetrics {
            resource: Some(proto::Resource { attributes: vec![proto::KeyValue::text("service.name", "rnic-mesh")] }),
            scope_metrics: vec![proto::ScopeMetrics { scope: Some(scope), metrics: families }],
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_sums_and_gauges_are_gauges() {
        let mut metrics = Metrics::new();
        metrics.add("a_total", Kind::Counter, "A.", &[("x", "1")], 7);
        metrics.add("b_ns", Kind::Gauge, "B.", &[], 0.5);
        let request = request(&metrics, 1, 2);
        let found = &request.resource_metrics[0].scope_metrics[0].metrics;
        let Some(proto::MetricData::Sum(sum)) = &found[0].data else { panic!("{found:?}") };
        assert_eq!((sum.is_monotonic, sum.aggregation_temporality), (true, 2));
        let point = &sum.data_points[0];
        assert_eq!((point.time_unix_nano, point.start_time_unix_nano), (2_000, 1_000));
        assert_eq!((point.value, point.attributes[0].key.as_str()), (Some(proto::Value::AsInt(7)), "x"));
        let Some(proto::MetricData::Gauge(gauge)) = &found[1].data else { panic!("{found:?}") };
        let value = gauge.data_points[0].value;
        assert_eq!((value, found[1].unit.as_str()), (Some(proto::Value::AsDouble(0.5)), "ns"));
        assert!(Exporter::new("ftp://x", 0).err().unwrap().contains("accepted: http://"));
    }
}
