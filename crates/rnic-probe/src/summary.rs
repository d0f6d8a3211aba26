//! The outcomes of the probes of a ping, as data and as a table.

use crate::connections::Carrier;
use crate::prober::{Outcome, ProbeError, Times};
use hdrhistogram::Histogram;
use rnic_transport::Time;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;

/// Statistics of times in microseconds. Values that come from a histogram are exact to one part in 1000.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Distribution {
    /// Minimum.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}

impl Distribution {
    fn of(times: &Histogram<u64>) -> Option<Distribution> {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |quantile| us(times.value_at_quantile(quantile));
        (!times.is_empty()).then(|| Distribution {
            min: us(times.min()),
            mean: times.mean() / 1e3,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: us(times.max()),
        })
    }
}

/// A histogram of times with `digits` significant decimal digits. Its memory grows with the longest time.
fn histogram(digits: u8) -> Histogram<u64> {
    let empty = || Histogram::new(1);
    // Only more than 5 digits are refused.
    Histogram::new(digits).or_else(|_| empty()).unwrap_or_else(|_| unreachable!("one digit is possible"))
}

fn record(times: &mut Histogram<u64>, time: Time) {
    // A probe is outstanding for at most a minute, and a growing histogram accepts every value of this range.
    let _ = times.record((time.as_ps() / 1_000).clamp(1, 3_600_000_000_000));
}

/// The probes of one path.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PathSummary {
    /// Index of the path.
    pub path: u16,
    /// UDP source port of the path's probes.
    pub source_port: u16,
    /// Number of the path's probes with an outcome.
    pub probes: u64,
    /// Number of the path's probes that were answered.
    pub answered: u64,
    /// Round-trip times of the network.
    pub network_us: Option<Distribution>,
}

/// The outcomes of all probes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The probed host, as the user typed it.
    pub host: String,
    /// IP address and UDP port of the responder's device.
    pub responder: SocketAddr,
    /// Queue pair number of the responder.
    pub qpn: u32,
    /// Carrier of the probes: `ud`, `rc-send` or `rc-write`.
    pub transport: Carrier,
    /// Payload bytes of a probe.
    pub size: usize,
    /// Number of probes with an outcome.
    pub probes: u64,
    /// Number of probes that were answered.
    pub answered: u64,
    /// Share of the probes that were not answered, 0 to 1.
    pub loss: f64,
    /// Number of probes by error code.
    pub errors: BTreeMap<&'static str, u64>,
    /// Number of answered probes whose report was lost, so that the round-trip time of the network is unknown.
    pub without_report: u64,
    /// Number of received datagrams that do not belong to an outstanding probe: late, duplicate, or from other senders.
    pub stray: u64,
    /// Round-trip times of the network.
    pub network_us: Option<Distribution>,
    /// Delays at the prober.
    pub prober_us: Option<Distribution>,
    /// Delays at the responder.
    pub responder_us: Option<Distribution>,
    /// Times from posting a probe until the prober saw the response.
    pub total_us: Option<Distribution>,
    /// The paths.
    pub paths: Vec<PathSummary>,
    /// Whether the ping was interrupted.
    pub interrupted: bool,
    /// Whether the responder ended before the ping did.
    pub responder_ended: bool,
}

/// The counts and times of one path.
struct Path {
    source_port: u16,
    probes: u64,
    answered: u64,
    network: Histogram<u64>,
}

/// Collects the outcomes of probes. Its memory does not grow with their number.
pub(crate) struct Tally {
    errors: BTreeMap<&'static str, u64>,
    without_report: u64,
    network: Histogram<u64>,
    prober: Histogram<u64>,
    responder: Histogram<u64>,
    total: Histogram<u64>,
    paths: Vec<Path>,
}

impl Tally {
    /// Creates an empty tally. `source_ports` has the UDP source port of each path.
    pub(crate) fn new(source_ports: &[u16]) -> Tally {
        let path =
            |source_port: &u16| Path { source_port: *source_port, probes: 0, answered: 0, network: histogram(3) };
        Tally {
            errors: ProbeError::ALL.map(|error| (error.code(), 0)).into(),
            without_report: 0,
            network: histogram(3),
            prober: histogram(3),
            responder: histogram(3),
            total: histogram(3),
            paths: source_ports.iter().map(path).collect(),
        }
    }

    pub(crate) fn add(&mut self, outcome: &Outcome) {
        let Some(path) = self.paths.get_mut(usize::from(outcome.path)) else { return };
        path.probes += 1;
        let Times { total, prober, split } = match outcome.result {
            Ok(times) => times,
            Err(error) => {
                *self.errors.entry(error.code()).or_default() += 1;
                return;
            }
        };
        path.answered += 1;
        record(&mut self.total, total);
        record(&mut self.prober, prober);
        let Some(split) = split else {
            self.without_report += 1;
            return;
        };
        record(&mut self.network, split.network);
        record(&mut self.responder, split.responder);
        record(&mut path.network, split.network);
    }

    pub(crate) fn summary(&self, about: About<'_>) -> Summary {
        let paths = self.paths.iter().enumerate().map(|(at, path)| PathSummary {
            path: at as u16,
            source_port: path.source_port,
            probes: path.probes,
            answered: path.answered,
            network_us: Distribution::of(&path.network),
        });
        let paths: Vec<PathSummary> = paths.collect();
        let probes = paths.iter().map(|path| path.probes).sum::<u64>();
        let answered = paths.iter().map(|path| path.answered).sum::<u64>();
        Summary {
            host: about.host.to_string(),
            responder: about.responder,
            qpn: about.qpn,
            transport: about.carrier,
            size: about.size,
            probes,
            answered,
            loss: if probes == 0 { 0.0 } else { (probes - answered) as f64 / probes as f64 },
            errors: self.errors.clone(),
            without_report: self.without_report,
            stray: about.stray,
            network_us: Distribution::of(&self.network),
            prober_us: Distribution::of(&self.prober),
            responder_us: Distribution::of(&self.responder),
            total_us: Distribution::of(&self.total),
            paths,
            interrupted: about.interrupted,
            responder_ended: about.responder_ended,
        }
    }
}

/// The attributes of a ping that are copied into the summary.
pub(crate) struct About<'a> {
    pub(crate) host: &'a str,
    pub(crate) responder: SocketAddr,
    pub(crate) qpn: u32,
    pub(crate) carrier: Carrier,
    pub(crate) size: usize,
    pub(crate) stray: u64,
    pub(crate) interrupted: bool,
    pub(crate) responder_ended: bool,
}

impl Summary {
    /// Writes the summary as a table.
    ///
    /// # Errors
    /// An error of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let errors = self.errors.iter().filter(|(_, count)| **count > 0);
        let errors: Vec<String> = errors.map(|(code, count)| format!("{count} {code}")).collect();
        let errors = if errors.is_empty() { String::new() } else { format!(" ({})", errors.join(", ")) };
        writeln!(out, "--- {} ---", self.host)?;
        writeln!(out, "{} probes, {} responses, {:.3} % lost{errors}", self.probes, self.answered, self.loss * 100.0)?;
        if self.without_report > 0 {
            writeln!(out, "{} responses without a report: their network RTT is not known", self.without_report)?;
        }
        if self.total_us.is_none() {
            return Ok(());
        }
        writeln!(
            out,
            "{:<12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "us", "min", "mean", "p50", "p99", "p99.9", "max"
        )?;
        let rows = [
            ("network RTT", self.network_us),
            ("responder", self.responder_us),
            ("prober", self.prober_us),
            ("total", self.total_us),
        ];
        for (name, row) in rows {
            if let Some(row) = row {
                row.write(name, out)?;
            }
        }
        if self.paths.len() > 1 {
            writeln!(out, "network RTT by path:")?;
            for path in &self.paths {
                let name = format!("port {}", path.source_port);
                match path.network_us {
                    Some(row) => row.write(&name, out)?,
                    None => writeln!(out, "{name:<12} {} of {} probes answered", path.answered, path.probes)?,
                }
            }
        }
        Ok(())
    }
}

impl Distribution {
    fn write(&self, name: &str, out: &mut dyn Write) -> io::Result<()> {
        let Distribution { min, mean, p50, p99, p999, max } = self;
        writeln!(out, "{name:<12} {min:>10.1} {mean:>10.1} {p50:>10.1} {p99:>10.1} {p999:>10.1} {max:>10.1}")
    }
}

/// Writes the line of one probe.
///
/// # Errors
/// An error of `out`.
pub fn write_outcome(outcome: &Outcome, source_port: u16, out: &mut dyn Write) -> io::Result<()> {
    let Outcome { sequence, path, result } = outcome;
    write!(out, "seq={sequence} path={path} port={source_port} ")?;
    match result {
        Ok(Times { total, prober, split: Some(split) }) => writeln!(
            out,
            "rtt={:.1} us responder={:.1} us prober={:.1} us total={:.1} us",
            split.network.as_us(),
            split.responder.as_us(),
            prober.as_us(),
            total.as_us()
        ),
        Ok(Times { total, .. }) => writeln!(out, "rtt=? (the report was lost) total={:.1} us", total.as_us()),
        Err(error) => writeln!(out, "error={}", error.code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prober::Split;

    #[test]
    fn a_summary_counts_and_computes() {
        let mut tally = Tally::new(&[50_000, 50_001]);
        for sequence in 0..1_000 {
            let us = |us| Time::from_us(us);
            let split = Some(Split { network: us(sequence + 1), responder: us(5) });
            let times = Times { total: us(sequence + 10), prober: us(4), split };
            let result = match sequence {
                7 => Err(ProbeError::Timeout),
                9 => Ok(Times { split: None, ..times }),
                _ => Ok(times),
            };
            tally.add(&Outcome { sequence, path: (sequence % 2) as u16, result });
        }
        let responder = "10.0.0.2:4791".parse().unwrap();
        let (interrupted, responder_ended) = (false, false);
        let about = About {
            host: "h",
            responder,
            qpn: 5,
            carrier: Carrier::Ud,
            size: 512,
            stray: 0,
            interrupted,
            responder_ended,
        };
        let summary = tally.summary(about);
        assert_eq!((summary.probes, summary.answered, summary.without_report), (1_000, 999, 1));
        assert!((summary.loss - 0.001).abs() < 1e-12);
        assert_eq!(
            summary.paths.iter().map(|path| (path.probes, path.answered)).collect::<Vec<_>>(),
            [(500, 500), (500, 499)]
        );
        let network = summary.network_us.unwrap();
        for (found, expected) in [
            (network.min, 1.0),
            (network.mean, 500.98),
            (network.p50, 501.0),
            (network.p99, 990.0),
            (network.p999, 999.0),
            (network.max, 1_000.0),
        ] {
            assert!((found / expected - 1.0).abs() < 2e-3, "{found} {expected}");
        }
        let mut text = Vec::new();
        summary.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("1000 probes, 999 responses, 0.100 % lost (1 timeout)"), "{text}");
        assert!(text.contains("port 50001"), "{text}");
    }
}
