//! Metrics in the text formats of Prometheus and OpenMetrics.

use rnic_untrusted::text;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Content type of the text format of Prometheus ([`Metrics::prometheus`]).
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A number that only increases; its name ends in `_total`.
    Counter,
    /// A number that can increase and decrease.
    Gauge,
}

/// A value of a metric.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A whole number.
    Integer(u64),
    /// Any number.
    Number(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Number(value)
    }
}

#[derive(Clone, PartialEq, Debug)]
struct Sample {
    labels: Vec<(String, String)>,
    value: Value,
    /// Nanoseconds since 1970.
    time: Option<u64>,
}

#[derive(Clone, PartialEq, Debug)]
struct Family {
    kind: Kind,
    help: String,
    samples: Vec<Sample>,
}

/// A set of metrics, to be written as text.
///
/// ```
/// use rnic_metrics::exposition::{Kind, Metrics};
///
/// let mut metrics = Metrics::new();
/// metrics.add("rnic_pauses_total", Kind::Counter, "Pauses.", &[("port", "eth0")], 3);
/// assert_eq!(
///     metrics.prometheus(),
///     "# HELP rnic_pauses_total Pauses.\n# TYPE rnic_pauses_total counter\nrnic_pauses_total{port=\"eth0\"} 3\n"
/// );
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Metrics {
    families: BTreeMap<String, Family>,
    /// The time stamp of new samples.
    time: Option<u64>,
}

impl Metrics {
    /// An empty set.
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// Sets the time stamp of the samples that are added from now on, in nanoseconds since 1970.
    pub fn set_time(&mut self, time: u64) {
        self.time = Some(time);
    }

    /// Adds a sample. Samples of the same name have the same kind and help.
    pub fn add(&mut self, name: &str, kind: Kind, help: &str, labels: &[(&str, &str)], value: impl Into<Value>) {
        let family = self.families.entry(name.to_string()).or_insert_with(|| Family {
            kind,
            help: help.to_string(),
            samples: Vec::new(),
        });
        let labels = labels.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect();
        family.samples.push(Sample { labels, value: value.into(), time: self.time });
    }

    /// Adds all samples of another set.
    pub fn extend(&mut self, other: &Metrics) {
        for (name, family) in &other.families {
            let own =
                self.families.entry(name.clone()).or_insert_with(|| Family { samples: Vec::new(), ..family.clone() });
            own.samples.extend(family.samples.iter().cloned());
        }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.families.values().map(|family| family.samples.len()).sum()
    }

    /// Whether the set has no samples.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// The metrics in alphabetical order: name, kind, help, and samples as labels and value.
    #[expect(clippy::type_complexity, reason = "the parts of a metric, once")]
    pub fn families(
        &self,
    ) -> impl Iterator<Item = (&str, Kind, &str, impl Iterator<Item = (&[(String, String)], Value)>)> {
        self.families.iter().map(|(name, family)| {
            let samples = family.samples.iter().map(|sample| (&sample.labels[..], sample.value));
            (name.as_str(), family.kind, family.help.as_str(), samples)
        })
    }

    /// The names of the metrics, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.families.keys().map(String::as_str)
    }

    /// The text format of Prometheus, version 0.0.4. Time stamps are in milliseconds.
    pub fn prometheus(&self) -> String {
        self.text(
            |text, name, family| {
                let kind = kind_name(family.kind);
                let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", escaped_help(&family.help));
            },
            |text, time| {
                let _ = write!(text, " {}", time / 1_000_000);
            },
        )
    }

    /// The text format of OpenMetrics 1.0. Time stamps are in seconds; samples with the same labels are in order of
    /// time.
    pub fn open_metrics(&self) -> String {
        let mut text = self.text(
            |text, name, family| {
                // The name of a counter's family does not have the suffix `_total`.
                let name = match family.kind {
                    Kind::Counter => name.strip_suffix("_total").unwrap_or(name),
                    Kind::Gauge => name,
                };
                let kind = kind_name(family.kind);
                let _ = writeln!(text, "# TYPE {name} {kind}\n# HELP {name} {}", escaped_help(&family.help));
            },
            |text, time| {
                let _ = write!(text, " {}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
            },
        );
        text.push_str("# EOF\n");
        text
    }

    fn text(&self, head: impl Fn(&mut String, &str, &Family), time: impl Fn(&mut String, u64)) -> String {
        let mut text = String::new();
        for (name, family) in &self.families {
            head(&mut text, name, family);
            // Samples with equal labels must be adjacent and in order of time.
            let mut samples: Vec<&Sample> = family.samples.iter().collect();
            samples.sort_by(|a, b| (&a.labels, a.time).cmp(&(&b.labels, b.time)));
            for sample in samples {
                text.push_str(name);
                if !sample.labels.is_empty() {
                    let labels: Vec<String> =
                        sample.labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
                    let _ = write!(text, "{{{}}}", labels.join(","));
                }
                let _ = match sample.value {
                    Value::Integer(value) => write!(text, " {value}"),
                    Value::Number(value) => write!(text, " {value}"),
                };
                if let Some(at) = sample.time {
                    time(&mut text, at);
                }
                text.push('\n');
            }
        }
        text
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    }
}

/// The value of a label between quotation marks. Control characters, which a terminal could execute, become text such
/// as `\u{1b}`; line feeds, which the format can express, stay.
fn escaped(value: &str) -> String {
    let part = |part| text::escaped(part).replace('\\', "\\\\").replace('"', "\\\"");
    value.split('\n').map(part).collect::<Vec<_>>().join("\\n")
}

fn escaped_help(help: &str) -> String {
    help.replace('\\', "\\\\").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats() {
        let mut metrics = Metrics::new();
        metrics.set_time(2_500_000_000);
        metrics.add("a_total", Kind::Counter, "A.", &[("x", "1")], 7);
        metrics.set_time(1_000_000);
        metrics.add("a_total", Kind::Counter, "A.", &[("x", "1")], 5);
        metrics.add("b", Kind::Gauge, "B\nb.", &[("x", "a\"b\\c\nd")], 0.5);
        assert_eq!(
            metrics.prometheus(),
            "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\"} 5 1\na_total{x=\"1\"} 7 2500\n\
             # HELP b B\\nb.\n# TYPE b gauge\nb{x=\"a\\\"b\\\\c\\nd\"} 0.5 1\n"
        );
        assert_eq!(
            metrics.open_metrics(),
            "# TYPE a counter\n# HELP a A.\na_total{x=\"1\"} 5 0.001000000\na_total{x=\"1\"} 7 2.500000000\n\
             # TYPE b gauge\n# HELP b B\\nb.\nb{x=\"a\\\"b\\\\c\\nd\"} 0.5 0.001000000\n# EOF\n"
        );
        assert_eq!((metrics.len(), metrics.names().collect::<Vec<_>>()), (3, vec!["a_total", "b"]));
    }
}
