//! The report of the measurements of `rnic perf`, as data and as a table.

use super::counters::Counts;
use super::plan::{FaultPlan, Plan};
use crate::Op;
use nix::time::{ClockId, clock_gettime};
use rnic_transport::Time;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::ops::AddAssign;

/// Returns the CPU time that the process has used so far, in user and kernel mode.
pub(super) fn process_cpu_time() -> Time {
    // Linux always has this clock, so a reading cannot fail.
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    time.map_or(Time::ZERO, |time| Time::from_ns(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64))
}

/// Statistics of the latencies of all messages, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latencies {
    /// Minimum latency.
    pub min: f64,
    /// Maximum latency.
    pub max: f64,
    /// Median latency, which perftest calls typical.
    pub typical: f64,
    /// Mean latency.
    pub average: f64,
    /// Standard deviation of the latencies.
    pub deviation: f64,
    /// 99th percentile of the latencies.
    pub percentile_99: f64,
    /// 99.9th percentile of the latencies.
    pub percentile_99_9: f64,
}

impl Latencies {
    /// Computes the statistics of `times`, each divided by `parts` (2 turns a round-trip time into a latency). Returns
    /// `None` if `times` is empty.
    pub fn new(mut times: Vec<Time>, parts: f64) -> Option<Latencies> {
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        let us = |time: &Time| time.as_us() / parts;
        // The smallest time such that at least `fraction` of all times are no longer, as in perftest.
        let quantile =
            |fraction: f64| us(&times[((times.len() as f64 * fraction).ceil() as usize).clamp(1, last + 1) - 1]);
        let average = times.iter().map(us).sum::<f64>() / times.len() as f64;
        let variance = times.iter().map(|time| (us(time) - average).powi(2)).sum::<f64>() / times.len() as f64;
        Some(Latencies {
            min: us(&times[0]),
            max: us(&times[last]),
            typical: quantile(0.5),
            average,
            deviation: variance.sqrt(),
            percentile_99: quantile(0.99),
            percentile_99_9: quantile(0.999),
        })
    }
}

/// Result of the comparison of received bytes with the bytes that were sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Verified {
    /// Number of bytes that were compared.
    pub bytes: u64,
    /// Number of compared bytes that were wrong.
    pub wrong: u64,
}

impl AddAssign for Verified {
    fn add_assign(&mut self, more: Verified) {
        self.bytes += more.bytes;
        self.wrong += more.wrong;
    }
}

/// Counters of one end, client or server, during a measurement.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Side {
    /// CPU time that the process used during the measurement, in seconds, in user and kernel mode.
    pub cpu_seconds: f64,
    /// Increase of each counter during the measurement, by name: counters of packets, loss recovery, congestion control
    /// and faults.
    pub counts: Counts,
}

impl Side {
    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Number of received packets that the device dropped because they were invalid. Packets dropped as part of loss
    /// recovery, such as duplicates, are not counted.
    fn dropped(&self) -> u64 {
        let reasons =
            ["malformed", "unknown_qp", "wrong_peer", "unprotected", "partition", "opcode", "state", "length"];
        reasons.iter().map(|why| self.count(&format!("dropped_{why}"))).sum()
    }
}

/// The result of one measurement. A report has one row for each message size.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Message size in bytes.
    pub bytes: u32,
    /// Number of messages sent on all queue pairs together.
    pub messages: u64,
    /// Number of messages that arrived. It is lower than the number of sent messages only on an unreliable connection.
    pub arrived: u64,
    /// Duration of the measurement in seconds.
    pub seconds: f64,
    /// Average bandwidth in payload bytes per second. Retransmissions do not count.
    pub bytes_per_second: f64,
    /// Peak bandwidth: maximum payload bytes per second over an interval of at least 10 ms.
    pub peak_bytes_per_second: f64,
    /// Average message rate in messages per second.
    pub messages_per_second: f64,
    /// Latencies of the messages. `None` in a measurement of bandwidth, and if rnic is a server that only responds to a
    /// perftest client.
    pub latency: Option<Latencies>,
    /// Result of the verification; `None` if the plan has no verification.
    pub verified: Option<Verified>,
    /// Counters of the client. `None` if the client is a perftest program, which does not send its counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Side>,
    /// Counters of the server. `None` if the server is a perftest program, which does not send its counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Side>,
}

/// The results of all measurements of a plan, with the settings that affect them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Version of the format of this report as JSON.
    pub rnic_perf: u32,
    /// The measured operation.
    pub op: Op,
    /// Whether the report is about latency. Otherwise it is about bandwidth.
    pub latency: bool,
    /// Transport service: `rc`, `irn` or `uc`.
    pub service: &'static str,
    /// Path MTU in payload bytes.
    pub mtu: u32,
    /// Number of queue pairs.
    pub queue_pairs: u32,
    /// Maximum number of outstanding messages on each queue pair.
    pub depth: u32,
    /// Name of the congestion control.
    pub congestion: String,
    /// The thread that sends and receives packets: `thread` for a progress thread, `polled` for the measuring thread.
    pub progress: &'static str,
    /// How packets are protected: `none`, `authenticated` or `encrypted`.
    pub security: &'static str,
    /// IP address and UDP port of the client's device.
    pub client: SocketAddr,
    /// IP address and UDP port of the server's device.
    pub server: SocketAddr,
    /// Faults injected at both ends.
    pub faults: FaultPlan,
    /// Whether the measurement was interrupted. If so, the last row has the results up to the interruption, and the
    /// rows of further message sizes are missing.
    #[serde(default)]
    pub interrupted: bool,
    /// The results, one for each message size.
    pub rows: Vec<Row>,
}

/// Unit of the bandwidth columns in a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unit {
    /// 2^20 bytes per second, which perftest calls MB/sec.
    #[default]
    MegaBytes,
    /// 10^9 bits per second.
    GigaBits,
}

impl Report {
    pub(super) fn new(plan: &Plan, mtu: u32, client: SocketAddr, server: SocketAddr) -> Report {
        Report {
            rnic_perf: 1,
            op: plan.op,
            latency: plan.latency,
            service: plan.service.name(),
            mtu,
            queue_pairs: plan.queue_pairs,
            depth: plan.depth,
            congestion: plan.congestion.clone(),
            progress: plan.mode.name(),
            security: plan.security.name(),
            client,
            server,
            faults: plan.faults,
            interrupted: false,
            rows: Vec::new(),
        }
    }

    /// Whether every compared byte had the right value. Also `true` if no bytes were compared.
    pub fn is_right(&self) -> bool {
        self.rows.iter().all(|row| row.verified.is_none_or(|verified| verified.wrong == 0))
    }

    /// Writes the head of the table: the settings of the plan, and the names of the columns.
    ///
    /// # Errors
    /// An error of writing to `out`.
    pub fn write_head(&self, out: &mut dyn Write, unit: Unit) -> io::Result<()> {
        let what = if self.latency { "latency" } else { "bandwidth" };
        writeln!(out, " {} {what}, {}, {} to {}", self.op.name(), self.service, self.client, self.server)?;
        writeln!(
            out,
            " MTU {}, {} queue pair{}, depth {}, congestion control {}, progress {}, security {}",
            self.mtu,
            self.queue_pairs,
            if self.queue_pairs == 1 { "" } else { "s" },
            self.depth,
            self.congestion,
            self.progress,
            self.security
        )?;
        let FaultPlan { loss, reorder, duplicate, corrupt, corrupt_kind, seed } = self.faults;
        if !self.faults.is_none() {
            let kind = if corrupt > 0.0 { format!(" ({})", corrupt_kind.name()) } else { String::new() };
            writeln!(
                out,
                " faults both ways: {loss} % lost, {reorder} % reordered, {duplicate} % duplicated, {corrupt} % corrupted{kind}; seed {seed}"
            )?;
        }
        if self.latency {
            let columns = [
                "#bytes    ",
                "#iterations   ",
                "t_min[usec]  ",
                "t_max[usec]  ",
                "t_typical[usec] ",
                "t_avg[usec] ",
                "t_stdev[usec] ",
                "99%[usec]    ",
                "99.9%[usec]",
            ];
            return writeln!(out, " {}", columns.join(" "));
        }
        let unit = match unit {
            Unit::MegaBytes => "MB/sec",
            Unit::GigaBits => "Gb/sec",
        };
        let (peak, average) = (format!("BW peak[{unit}]"), format!("BW average[{unit}]"));
        writeln!(out, " {:<10} {:<14} {peak:<18} {average:<20} MsgRate[Mpps]", "#bytes", "#iterations")
    }

    /// Writes one row of the table: the measured values, and below them the result of the verification, counters of
    /// loss recovery and congestion control, and CPU time.
    ///
    /// # Errors
    /// An error of writing to `out`.
    pub fn write_row(&self, row: &Row, out: &mut dyn Write, unit: Unit) -> io::Result<()> {
        if let Some(latency) = &row.latency {
            writeln!(
                out,
                " {:<10} {:<14} {:<13.2} {:<13.2} {:<16.2} {:<12.2} {:<14.2} {:<13.2} {:.2}",
                row.bytes,
                row.messages,
                latency.min,
                latency.max,
                latency.typical,
                latency.average,
                latency.deviation,
                latency.percentile_99,
                latency.percentile_99_9
            )?;
        } else if self.latency {
            writeln!(out, " {:<10} {:<14} measured by the client", row.bytes, row.messages)?;
        } else {
            let scale = match unit {
                Unit::MegaBytes => 1.0 / f64::from(1 << 20),
                Unit::GigaBits => 8e-9,
            };
            let (peak, average) = (row.peak_bytes_per_second * scale, row.bytes_per_second * scale);
            let rate = row.messages_per_second / 1e6;
            writeln!(out, " {:<10} {:<14} {peak:<18.2} {average:<20.2} {rate:.6}", row.bytes, row.messages)?;
        }
        if row.arrived < row.messages {
            writeln!(out, "   arrived: {} of {} messages", row.arrived, row.messages)?;
        }
        if let Some(Verified { bytes, wrong }) = row.verified {
            writeln!(out, "   verified: {bytes} bytes, {wrong} wrong")?;
        }
        for (name, side) in [("client", &row.client), ("server", &row.server)] {
            let Some(side) = side else { continue };
            let count = |name| side.count(name);
            let congestion = match [count("marked"), count("cnps_sent"), count("cnps_received")] {
                [0, 0, 0] => String::new(),
                [marked, sent, received] => format!(", {marked} marked, {sent} CNPs sent, {received} CNPs received"),
            };
            let forged = match count("forged") {
                0 => String::new(),
                forged => format!(", {forged} forged"),
            };
            writeln!(
                out,
                "   {name}: {} packets sent, {} retransmitted, {} timeouts, {} NAKs received, {} bad ICRC, {} dropped, {} overflowed{forged}{congestion}; CPU {:.3} s",
                count("packets_sent"),
                count("retransmitted"),
                count("timeouts"),
                count("naks_received") + count("implied_naks") + count("rnr_naks_received"),
                count("bad_icrc"),
                side.dropped(),
                count("port_overflowed"),
                side.cpu_seconds
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_summarised() {
        // 1 to 1000 us, each divided by two: mean 250.25, variance (1000^2 - 1) / 12 / 4.
        let times = (1..=1_000).rev().map(Time::from_us).collect();
        let latencies = Latencies::new(times, 2.0).unwrap();
        assert_eq!((latencies.min, latencies.max, latencies.typical), (0.5, 500.0, 250.0));
        assert_eq!((latencies.percentile_99, latencies.percentile_99_9), (495.0, 499.5));
        assert_eq!(latencies.average, 250.25);
        assert!((latencies.deviation - (999_999.0_f64 / 48.0).sqrt()).abs() < 1e-9);
        let one = Latencies::new(vec![Time::from_us(3)], 1.0).unwrap();
        assert_eq!((one.typical, one.percentile_99_9, one.deviation), (3.0, 3.0, 0.0));
        assert_eq!(Latencies::new(Vec::new(), 1.0), None);
    }
}
