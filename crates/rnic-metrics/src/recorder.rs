//! Converts readings of counters into metrics, and adds the pause time per interval, which needs two readings.

use crate::exposition::{Kind, Metrics, Value};
use crate::{Group, Paused, Priority, Queue, Reading};
use std::collections::BTreeMap;

/// Maximum pause time of a pause frame: 65,535 quanta of 512 bit times (IEEE 802.1Q, 36.1.3).
const MAX_QUANTA: f64 = 65_535.0;
/// Bits per pause quantum.
const QUANTUM_BITS: f64 = 512.0;

/// Converts the readings of one node into metrics.
///
/// ```
/// use rnic_metrics::{Paused, Priority, Reading, Recorder};
/// use rnic_metrics::exposition::Metrics;
///
/// let mut recorder = Recorder::new("leaf1");
/// let reading = |us| {
///     let port = "Ethernet0".to_string();
///     let priority = Priority { port, priority: 3, paused: Paused::Measured(us), ..Priority::default() };
///     Reading { priorities: vec![priority], ..Reading::default() }
/// };
/// recorder.record(&reading(1_000.0), 0, &mut Metrics::new());
/// let mut metrics = Metrics::new();
/// recorder.record(&reading(501_000.0), 1_000_000_000, &mut metrics); // one second later
/// let ratio = "rnic_pfc_paused_ratio{node=\"leaf1\",port=\"Ethernet0\",priority=\"3\",method=\"measured\"} 0.5";
/// assert!(metrics.prometheus().contains(ratio));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Recorder {
    node: String,
    /// Labels that are added to every metric.
    labels: Vec<(String, String)>,
    previous: BTreeMap<(String, u8), Previous>,
}

/// The values of a priority at the previous reading.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Previous {
    /// Time of the reading in nanoseconds.
    at: u64,
    frames: Option<u64>,
    /// Total time in seconds for which the transmitter was paused.
    paused: f64,
}

/// Adds metrics with the labels of one node.
struct To<'t> {
    metrics: &'t mut Metrics,
    labels: Vec<(&'t str, &'t str)>,
}

impl To<'_> {
    fn put(&mut self, name: &str, kind: Kind, help: &str, labels: &[(&str, &str)], value: impl Into<Value>) {
        let labels: Vec<(&str, &str)> = self.labels.iter().copied().chain(labels.iter().copied()).collect();
        self.metrics.add(name, kind, help, &labels, value);
    }

    fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: Option<u64>) {
        if let Some(value) = value {
            self.put(name, Kind::Counter, help, labels, value);
        }
    }

    fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: Option<u64>) {
        if let Some(value) = value {
            self.put(name, Kind::Gauge, help, labels, value);
        }
    }
}

impl Recorder {
    /// A recorder of the node with this name.
    pub fn new(node: impl Into<String>) -> Recorder {
        Recorder { node: node.into(), labels: Vec::new(), previous: BTreeMap::new() }
    }

    /// Adds a label to every metric.
    #[must_use]
    pub fn with_label(mut self, name: &str, value: &str) -> Recorder {
        self.labels.push((name.to_string(), value.to_string()));
        self
    }

    /// Adds the metrics of a reading that was made at the time `at`, in nanoseconds of a monotonic clock.
    pub fn record(&mut self, reading: &Reading, at: u64, metrics: &mut Metrics) {
        metrics.extend(&reading.other);
        let extra: Vec<(String, String)> = self.labels.clone();
        let node = self.node.clone();
        let labels = extra.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let labels = labels.chain([("node", node.as_str())]).collect();
        let mut to = To { metrics, labels };
        for priority in &reading.priorities {
            self.of_priority(priority, at, &mut to);
        }
        for queue in &reading.queues {
            of_queue(queue, &mut to);
        }
        for group in &reading.groups {
            of_group(group, &mut to);
        }
        for (source, up) in &reading.sources {
            let help = "Whether this source of counters could be read.";
            to.put("rnic_counters_up", Kind::Gauge, help, &[("source", source)], u64::from(*up));
        }
        if !reading.sources.is_empty() {
            let help = "Values of the last reading that are no numbers.";
            to.put("rnic_counters_malformed_values", Kind::Gauge, help, &[], reading.malformed);
        }
    }

    fn of_priority(&mut self, of: &Priority, at: u64, to: &mut To<'_>) {
        let number = of.priority.to_string();
        let labels = [("port", of.port.as_str()), ("priority", number.as_str())];
        let with = |name, value| [labels[0], labels[1], (name, value)];
        let frames = "PFC frames by direction.";
        to.counter("rnic_pfc_frames_total", frames, &with("direction", "received"), of.frames_received);
        to.counter("rnic_pfc_frames_total", frames, &with("direction", "sent"), of.frames_sent);
        to.counter("rnic_pfc_pauses_total", "Pauses of the transmitter that began.", &labels, of.pauses);
        if let Some(us) = of.pausing_us {
            let help = "Time for which this port paused its peer.";
            to.put("rnic_pfc_pausing_seconds_total", Kind::Counter, help, &labels, us / 1e6);
        }
        for (direction, index) in [("received", 0), ("sent", 1)] {
            let labels = with("direction", direction);
            to.counter("rnic_priority_packets_total", "Packets of a priority.", &labels, of.packets[index]);
            to.counter("rnic_priority_bytes_total", "Bytes of a priority.", &labels, of.bytes[index]);
        }
        let help = "Received packets of a priority that were dropped for lack of buffer.";
        to.counter("rnic_priority_dropped_packets_total", help, &labels, of.dropped);
        self.pause_time(of, at, &labels, to);
    }

    /// Adds the time for which the transmitter was paused. The device has measured or estimated the time; otherwise it
    /// is estimated as the maximum time that the received pause frames can request, but at most the interval.
    fn pause_time(&mut self, of: &Priority, at: u64, labels: &[(&str, &str); 2], to: &mut To<'_>) {
        let key = (of.port.clone(), of.priority);
        let previous = self.previous.get(&key).copied();
        let interval = previous.map(|previous| at.saturating_sub(previous.at) as f64 / 1e9);
        let (paused, method) = match (of.paused, of.speed, of.frames_received) {
            (Paused::Measured(us), _, _) => (us / 1e6, "measured"),
            (Paused::Estimated(us), _, _) => (us / 1e6, "estimated"),
            (Paused::Unknown, Some(speed), Some(frames)) => {
                let before = previous.map_or(0.0, |previous| previous.paused);
                // A counter that has decreased was reset, and has counted from 0 since.
                let new = match previous.and_then(|previous| previous.frames) {
                    Some(earlier) if frames >= earlier => frames - earlier,
                    Some(_) => frames,
                    None => 0,
                };
                let most = new as f64 * MAX_QUANTA * QUANTUM_BITS / speed.as_bps() as f64;
                (before + most.min(interval.unwrap_or(0.0)), "estimated")
            }
            (Paused::Unknown, _, _) => return,
        };
        let labels = [labels[0], labels[1], ("method", method)];
        let help = "Time for which the transmitter was paused. method=\"estimated\": not measured by the device.";
        to.put("rnic_pfc_paused_seconds_total", Kind::Counter, help, &labels, paused);
        if let (Some(previous), Some(interval)) = (previous, interval.filter(|interval| *interval > 0.0)) {
            let within = if paused >= previous.paused { paused - previous.paused } else { paused };
            let help = "Time for which the transmitter was paused, in the interval between the last two readings.";
            to.put("rnic_pfc_paused_interval_seconds", Kind::Gauge, help, &labels, within);
            let help = "Share of the interval between the last two readings for which the transmitter was paused.";
            to.put("rnic_pfc_paused_ratio", Kind::Gauge, help, &labels, (within / interval).min(1.0));
        }
        self.previous.insert(key, Previous { at, frames: of.frames_received, paused });
    }
}

fn of_queue(of: &Queue, to: &mut To<'_>) {
    let number = of.queue.map_or("all".to_string(), |queue| queue.to_string());
    let labels = [("port", of.port.as_str()), ("queue", number.as_str())];
    to.counter("rnic_queue_packets_total", "Packets that an egress queue sent.", &labels, of.packets);
    to.counter("rnic_queue_bytes_total", "Bytes that an egress queue sent.", &labels, of.bytes);
    to.counter("rnic_queue_dropped_packets_total", "Packets that an egress queue dropped.", &labels, of.dropped);
    to.counter("rnic_queue_ecn_marked_packets_total", "Packets that an egress queue CE-marked.", &labels, of.marked);
    to.counter("rnic_queue_trimmed_packets_total", "Packets that an egress queue trimmed.", &labels, of.trimmed);
    to.gauge("rnic_queue_occupancy_bytes", "Bytes in an egress queue.", &labels, of.occupancy);
    let help = "Maximum number of bytes in an egress queue since the watermark was cleared.";
    to.gauge("rnic_queue_watermark_bytes", help, &labels, of.watermark);
}

fn of_group(of: &Group, to: &mut To<'_>) {
    let number = of.group.to_string();
    let labels = [("port", of.port.as_str()), ("pg", number.as_str())];
    to.counter("rnic_pg_dropped_packets_total", "Packets that a priority group dropped.", &labels, of.dropped);
    let help = "Maximum number of shared bytes of a priority group since the watermark was cleared.";
    to.gauge("rnic_pg_shared_watermark_bytes", help, &labels, of.shared_watermark);
    let help = "Maximum number of headroom bytes of a priority group since the watermark was cleared.";
    to.gauge("rnic_pg_headroom_watermark_bytes", help, &labels, of.headroom_watermark);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_transport::BitRate;

    fn value(metrics: &Metrics, name: &str) -> Option<f64> {
        let text = metrics.prometheus();
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")))?;
        line.rsplit_once(' ')?.1.parse().ok()
    }

    fn at(recorder: &mut Recorder, paused: Paused, frames: u64, seconds: u64) -> Metrics {
        let priority = Priority {
            port: "p".into(),
            priority: 3,
            speed: Some(BitRate::from_gbps(100)),
            frames_received: Some(frames),
            paused,
            ..Priority::default()
        };
        let mut metrics = Metrics::new();
        recorder.record(
            &Reading { priorities: vec![priority], ..Reading::default() },
            seconds * 1_000_000_000,
            &mut metrics,
        );
        metrics
    }

    /// A frame at 100 Gbps pauses for at most 65,535 * 512 / 10^11 s = 335.5392 us.
    #[test]
    fn without_a_duration_the_time_is_estimated_from_frames() {
        let mut recorder = Recorder::new("n");
        let first = at(&mut recorder, Paused::Unknown, 1_000_000, 0);
        assert_eq!(value(&first, "rnic_pfc_paused_seconds_total"), Some(0.0), "what was before is unknown");
        assert_eq!(value(&first, "rnic_pfc_paused_ratio"), None);
        let second = at(&mut recorder, Paused::Unknown, 1_001_000, 1);
        let paused = value(&second, "rnic_pfc_paused_seconds_total").unwrap();
        assert!((paused - 0.335_539_2).abs() < 1e-9, "{paused}");
        assert!(second.prometheus().contains("method=\"estimated\""));
        // More pause frames than fit into the interval: the transmitter was paused for the whole interval.
        let third = at(&mut recorder, Paused::Unknown, 2_000_000, 3);
        assert_eq!(value(&third, "rnic_pfc_paused_ratio"), Some(1.0));
        assert!((value(&third, "rnic_pfc_paused_interval_seconds").unwrap() - 2.0).abs() < 1e-9);
        // The device has restarted.
        let fourth = at(&mut recorder, Paused::Unknown, 10, 4);
        assert!((value(&fourth, "rnic_pfc_paused_interval_seconds").unwrap() - 0.003_355_392).abs() < 1e-9);
    }

    #[test]
    fn a_measured_duration_that_was_reset_counts_from_zero() {
        let mut recorder = Recorder::new("n");
        at(&mut recorder, Paused::Measured(5e6), 0, 0);
        let metrics = at(&mut recorder, Paused::Measured(250_000.0), 0, 1);
        assert_eq!(value(&metrics, "rnic_pfc_paused_ratio"), Some(0.25));
        assert_eq!(value(&metrics, "rnic_pfc_paused_seconds_total"), Some(0.25));
    }
}
