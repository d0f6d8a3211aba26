//! Metrics in the text formats of Prometheus and OpenMetrics.

use rnic_untrusted::text;
use std::collections::BTreeMap;
use std::io;

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

/// Names and values of the labels of a time series.
type Labels = Vec<(String, String)>;

/// A value and its time stamp in nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Sample {
    time: Option<u64>,
    value: Value,
}

#[derive(Clone, PartialEq, Debug)]
struct Family {
    kind: Kind,
    help: String,
    /// The samples of each time series, so that series with many samples have their labels once.
    series: BTreeMap<Labels, Vec<Sample>>,
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

    /// Adds a sample. Samples of the same name have the same kind and help. A gauge must not have the name of a counter
    /// without its `_total`, because OpenMetrics has one family for both.
    pub fn add(&mut self, name: &str, kind: Kind, help: &str, labels: &[(&str, &str)], value: impl Into<Value>) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect();
        let sample = Sample { time: self.time, value: value.into() };
        match self.families.get_mut(name) {
            Some(family) => family.series.entry(labels).or_default().push(sample),
            None => {
                let series = BTreeMap::from([(labels, vec![sample])]);
                self.families.insert(name.to_string(), Family { kind, help: help.to_string(), series });
            }
        }
    }

    /// Adds all samples of another set.
    pub fn extend(&mut self, other: &Metrics) {
        for (name, family) in &other.families {
            let own = self.families.entry(name.clone()).or_insert_with(|| Family {
                series: BTreeMap::new(),
                help: family.help.clone(),
                kind: family.kind,
            });
            for (labels, samples) in &family.series {
                own.series.entry(labels.clone()).or_default().extend(samples);
            }
        }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.families.values().flat_map(|family| family.series.values()).map(Vec::len).sum()
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
            let series = family.series.iter();
            let samples = series.flat_map(|(labels, samples)| samples.iter().map(|sample| (&labels[..], sample.value)));
            (name.as_str(), family.kind, family.help.as_str(), samples)
        })
    }

    /// The names of the metrics, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.families.keys().map(String::as_str)
    }

    /// The text format of Prometheus, version 0.0.4. Time stamps are in milliseconds.
    pub fn prometheus(&self) -> String {
        in_memory(|out| {
            for (name, family) in &self.families {
                let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
                writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind_name(family.kind))?;
                family.write(name, out, |out, time| write!(out, " {}", time / 1_000_000))?;
            }
            Ok(())
        })
    }

    /// The text format of OpenMetrics 1.0, as [`Metrics::write_open_metrics`] writes it.
    pub fn open_metrics(&self) -> String {
        in_memory(|out| self.write_open_metrics(out))
    }

    /// Writes the text format of OpenMetrics 1.0. Time stamps are in seconds; samples with the same labels are in order
    /// of time.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_open_metrics(&self, out: &mut dyn io::Write) -> io::Result<()> {
        for (name, family) in &self.families {
            // The name of a counter's family does not have the suffix `_total`.
            let own = match family.kind {
                Kind::Counter => name.strip_suffix("_total").unwrap_or(name),
                Kind::Gauge => name,
            };
            writeln!(out, "# TYPE {own} {}", kind_name(family.kind))?;
            if let Some(unit) = unit(own) {
                writeln!(out, "# UNIT {own} {unit}")?;
            }
            writeln!(out, "# HELP {own} {}", escaped(&family.help))?;
            let time =
                |out: &mut dyn io::Write, at: u64| write!(out, " {}.{:09}", at / 1_000_000_000, at % 1_000_000_000);
            family.write(name, out, time)?;
        }
        writeln!(out, "# EOF")
    }
}

impl Family {
    /// Writes the samples: the samples of a series are adjacent and in order of time.
    fn write(
        &self, name: &str, out: &mut dyn io::Write, time: impl Fn(&mut dyn io::Write, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        for (labels, samples) in &self.series {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let mut samples: Vec<&Sample> = samples.iter().collect();
            samples.sort_by_key(|sample| sample.time);
            for sample in samples {
                match sample.value {
                    Value::Integer(value) => write!(out, "{name}{labels} {value}")?,
                    Value::Number(value) => write!(out, "{name}{labels} {value}")?,
                }
                if let Some(at) = sample.time {
                    time(out, at)?;
                }
                writeln!(out)?;
            }
        }
        Ok(())
    }
}

/// What `write` writes, as text. Writing to memory does not fail, and the metrics are text.
fn in_memory(write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> String {
    let mut bytes = Vec::new();
    let _ = write(&mut bytes);
    String::from_utf8(bytes).unwrap_or_default()
}

/// The unit of a family, which is the end of its name.
fn unit(family: &str) -> Option<&'static str> {
    ["seconds", "bytes", "ratio"]
        .into_iter()
        .find(|unit| family.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_has_units_and_escapes_quotes_in_helps() {
        let mut metrics = Metrics::new();
        metrics.add("a_seconds_total", Kind::Counter, "method=\"x\"", &[], 1);
        let expected = "# TYPE a_seconds counter\n# UNIT a_seconds seconds\n# HELP a_seconds method=\\\"x\\\"\n\
                        a_seconds_total 1\n# EOF\n";
        assert_eq!(metrics.open_metrics(), expected);
        assert!(metrics.prometheus().starts_with("# HELP a_seconds_total method=\"x\"\n"));
        crate::check::open_metrics(expected).unwrap();
    }

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
        crate::check::open_metrics(&metrics.open_metrics()).unwrap();
        assert_eq!((metrics.len(), metrics.names().collect::<Vec<_>>()), (3, vec!["a_total", "b"]));
    }
}
