//! Exports metrics to an OpenTelemetry collector: OTLP over HTTP in its binary encoding (`POST /v1/metrics`), which
//! every collector accepts.

use super::{Controller, metrics};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use rnic_metrics::exposition::{Kind, Metrics, Value as Number};
use rnic_untrusted::text::{MAX_CHARS, brief};
use std::io::Read;
use std::time::Duration;
use ureq::Agent;

/// Maximum length of a collector's response.
const MAX_RESPONSE: u64 = 64 << 10;

/// Pushes metrics to a collector.
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

    /// Pushes all metrics; passes the reason to `failed` if this push fails and the previous one did not.
    pub(super) fn push(&mut self, controller: &Controller, mut failed: impl FnMut(String)) {
        let body =
            request(&metrics::metrics(&controller.state), self.start_us, controller.clock.unix_us()).encode_to_vec();
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
        // A collector that accepts everything may return a body in any format.
        match ExportMetricsServiceResponse::decode(&bytes[..]).ok().and_then(|response| response.partial_success) {
            Some(partial) if partial.rejected_data_points > 0 => {
                let why = brief(&partial.error_message, MAX_CHARS);
                Err(format!("the collector has rejected {} values: {why}", partial.rejected_data_points))
            }
            _ => Ok(()),
        }
    }
}

/// An export request: gauges, and counters as cumulative monotonic sums.
fn request(metrics: &Metrics, start_us: u64, now_us: u64) -> ExportMetricsServiceRequest {
    let nano = |us: u64| us.saturating_mul(1_000);
    let mut families = Vec::new();
    for (name, kind, help, samples) in metrics.families() {
        let points = samples.map(|(labels, value)| NumberDataPoint {
            attributes: labels.iter().map(|(key, value)| attribute(key, value)).collect(),
            // If the clock goes back, the interval must not begin after its end.
            start_time_unix_nano: if kind == Kind::Counter { nano(start_us.min(now_us)) } else { 0 },
            time_unix_nano: nano(now_us),
            value: Some(match value {
                Number::Integer(value) => Value::AsInt(i64::try_from(value).unwrap_or(i64::MAX)),
                Number::Number(value) => Value::AsDouble(value),
            }),
            ..NumberDataPoint::default()
        });
        let data_points = points.collect();
        let data = match kind {
            Kind::Gauge => Data::Gauge(Gauge { data_points }),
            Kind::Counter => Data::Sum(Sum {
                data_points,
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
                is_monotonic: true,
            }),
        };
        families.push(Metric {
            name: name.to_string(),
            description: help.to_string(),
            unit: if name.ends_with("_ns") { "ns" } else { "1" }.to_string(),
            data: Some(data),
            ..Metric::default()
        });
    }
    let (name, version) = ("rnic".to_string(), env!("CARGO_PKG_VERSION").to_string());
    let scope = InstrumentationScope { name, version, ..InstrumentationScope::default() };
    let resource = Resource { attributes: vec![attribute("service.name", "rnic-mesh")], ..Resource::default() };
    let of_scope = ScopeMetrics { scope: Some(scope), metrics: families, ..ScopeMetrics::default() };
    let of_resource =
        ResourceMetrics { resource: Some(resource), scope_metrics: vec![of_scope], ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }
}

/// An attribute with a string value.
fn attribute(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_string())) };
    KeyValue { key: key.to_string(), value: Some(value), ..KeyValue::default() }
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
        let Some(Data::Sum(sum)) = &found[0].data else { panic!("{found:?}") };
        assert_eq!((sum.is_monotonic, sum.aggregation_temporality), (true, 2));
        let point = &sum.data_points[0];
        assert_eq!((point.time_unix_nano, point.start_time_unix_nano), (2_000, 1_000));
        assert_eq!((point.value, point.attributes[0].key.as_str()), (Some(Value::AsInt(7)), "x"));
        let Some(Data::Gauge(gauge)) = &found[1].data else { panic!("{found:?}") };
        let value = gauge.data_points[0].value;
        assert_eq!((value, found[1].unit.as_str()), (Some(Value::AsDouble(0.5)), "ns"));
        assert!(Exporter::new("ftp://x", 0).err().unwrap().contains("accepted: http://"));
    }
}
