//! A measurement of bandwidth or latency with a perftest program as the peer.

use super::counters::{counts, difference};
use super::plan::FaultPlan;
use super::report::process_cpu_time;
use super::{Latencies, Report, Row, Side};
use crate::ibverbs::perftest::{Error, Options, Role, Session};
use rnic_endpoint::Security;
use rnic_endpoint::device::Device;
use rnic_endpoint::port::FaultCounters;
use rnic_verbs::Service;
use std::net::TcpStream;

/// Measures over `device` with the perftest program at the peer of `stream`. The report has only the counters of the
/// local end. As a server, the local end receives the bandwidth of Writes, Reads and atomics from the client. It
/// measures the latency of Sends and Writes itself, but the latency of Reads and atomics remains unknown.
///
/// # Errors
/// The same errors as [`Session::start`], [`Session::traffic`] and [`Session::finish`].
pub fn run_perftest(device: &Device, options: Options, role: Role, stream: TcpStream) -> Result<Report, Error> {
    let mut session = Session::start(device, options, role, stream)?;
    let ours = device.local_addr();
    let theirs = session.peers()[0].address.addr;
    let (client, server) = if role == Role::Client { (ours, theirs) } else { (theirs, ours) };
    let mtu = session.mtu();

    let look = || counts(&device.counters(), &FaultCounters::default(), None);
    let (before, cpu) = (look(), process_cpu_time());
    session.traffic()?;
    let cpu = process_cpu_time().saturating_sub(cpu);
    let side = Side { cpu_seconds: cpu.as_secs(), counts: difference(look(), &before) };
    let outcome = session.finish()?;

    let count = outcome.messages as f64;
    let report = outcome.report.filter(|_| role == Role::Server).filter(|report| report.rate > 0.0);
    let (rate, peak) = match report {
        // The client's report does not contain the unit of its bandwidths (MiB/s or Gbit/s). So the bandwidths are
        // computed from its message rate, whose unit is fixed.
        Some(report) => {
            let peak = if report.average > 0.0 { report.peak / report.average } else { 0.0 };
            (report.rate * 1e6, report.rate * 1e6 * peak)
        }
        None => (count / outcome.elapsed.as_secs().max(1e-9), outcome.peak),
    };
    let size = f64::from(options.size);
    let row = Row {
        bytes: options.size,
        messages: outcome.messages,
        arrived: outcome.messages,
        seconds: count / rate,
        bytes_per_second: rate * size,
        peak_bytes_per_second: peak.max(rate) * size,
        messages_per_second: rate,
        latency: Latencies::new(outcome.latencies, 1.0),
        verified: None,
        client: (role == Role::Client).then(|| side.clone()),
        server: (role == Role::Server).then_some(side),
    };
    Ok(Report {
        rnic_perf: 1,
        op: options.op,
        latency: options.latency,
        service: Service::Rc.name(),
        mtu,
        queue_pairs: options.queue_pairs,
        depth: if options.latency { 1 } else { options.depth },
        congestion: "none".to_string(),
        progress: device.mode().name(),
        security: Security::None.name(),
        client,
        server,
        faults: FaultPlan::default(),
        interrupted: false,
        rows: vec![row],
    })
}
