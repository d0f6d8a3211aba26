//! Metrics about running a network: storms that watchdogs detected, latencies of probes, paused hosts, and the useful
//! share of the traffic.

use rnic_results::text::round6;
use rnic_spec::{FlowRecord, MeshRecord, MeshRow, RunOutput, RunSpec};
use rnic_transport::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of equal intervals of a run for which [`Operations::finished`] counts flows.
pub const INTERVALS: usize = 100;

/// Metrics about running a network.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Operations {
    /// Data packets that hosts sent, retransmissions included.
    pub data: u64,
    /// Retransmitted data packets.
    pub retransmitted: u64,
    /// Data packets that switches dropped.
    pub dropped: u64,
    /// Payload bytes that receivers have of all flows, finished or not.
    pub delivered_bytes: u64,
    /// The same for the flows of each traffic source, by its name.
    #[serde(default)]
    pub delivered_of: BTreeMap<String, u64>,
    /// Packets that switches dropped in each priority.
    #[serde(default)]
    pub dropped_in: Vec<u64>,
    /// Payload bytes of the finished flows.
    pub finished_bytes: u64,
    /// Number of flows that finished in each of [`INTERVALS`] equal intervals of the run.
    pub finished: Vec<u64>,
    /// Maximum utilisation of a host's transmitter.
    pub busiest_host: f64,
    /// Number of hosts.
    pub hosts: u64,
    /// Number of hosts whose pause at the end of the run had lasted for at least a tenth of the run; 0 if the run did
    /// not record pauses.
    pub blocked_hosts: u64,
    /// Number of ports of a cycle of pauses at the end of the run; 0 without one, or if the run did not record pauses.
    pub cycle_ports: u64,
    /// The storms that watchdogs found.
    pub storms: Vec<Storm>,
    /// What each mesh of probes measured, by the name of the mesh.
    pub meshes: BTreeMap<String, Rtt>,
}

/// A storm that a watchdog found.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Storm {
    /// Whether the watchdog is that of a NIC.
    pub by_nic: bool,
    /// Simulated time in milliseconds at which the watchdog found the storm.
    pub detected_ms: f64,
    /// Packets that the watchdog dropped.
    pub dropped: u64,
}

/// Round-trip times of probes in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Rtt {
    /// Number of probes.
    pub probes: u64,
    /// Number of probes without a response.
    pub unanswered: u64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The largest 99th percentile of a window of the mesh; 0 in results of older versions.
    #[serde(default)]
    pub worst_p99: f64,
}

impl Operations {
    pub(super) fn of(run: &RunSpec, output: &RunOutput) -> Operations {
        let hosts = rnic_spec::hosts(&run.fabric.topology);
        let end = output.end.as_ps().max(1);
        let mut finished = vec![0; INTERVALS];
        let mut delivered_bytes = 0;
        let mut finished_bytes = 0;
        let mut delivered_of = vec![0; run.traffic.len()];
        for flow in &output.flows {
            let FlowRecord { finish, bytes, delivered, .. } = flow;
            let arrived = if finish.is_some() { bytes } else { delivered };
            delivered_bytes += arrived;
            if let Some(sum) = delivered_of.get_mut(usize::from(flow.traffic)) {
                *sum += arrived;
            }
            if let Some(finish) = finish {
                finished_bytes += bytes;
                let interval = (u128::from(finish.as_ps()) * INTERVALS as u128 / u128::from(end)) as usize;
                finished[interval.min(INTERVALS - 1)] += 1;
            }
        }
        let busiest = output.ports.iter().take(hosts as usize).map(|port| port.busy.as_ps()).max().unwrap_or(0);
        let long = Time::from_ps(end / 10);
        let is_blocked = |port: u32, from: Time| port < hosts && output.end.saturating_sub(from) >= long;
        let open = output.pauses.iter().flat_map(|pauses| &pauses.log).filter(|row| row.to.is_none());
        let mut blocked: Vec<u32> = open.filter(|row| is_blocked(row.port, row.from)).map(|row| row.port).collect();
        blocked.sort_unstable();
        blocked.dedup();
        let cycle = output.pauses.as_ref().and_then(|pauses| pauses.cycle.as_ref()).filter(|cycle| cycle.at_end);
        Operations {
            data: output.totals.data,
            retransmitted: output.totals.retransmitted,
            dropped: output.totals.dropped_data,
            delivered_bytes,
            delivered_of: run.traffic.iter().map(|source| source.name.clone()).zip(delivered_of).collect(),
            dropped_in: dropped_in(output),
            finished_bytes,
            finished,
            busiest_host: round6(busiest as f64 / end as f64),
            hosts: hosts.into(),
            blocked_hosts: blocked.len() as u64,
            cycle_ports: cycle.map_or(0, |cycle| cycle.ports.len() as u64),
            storms: output
                .watchdog
                .iter()
                .map(|record| Storm {
                    by_nic: record.action.is_none(),
                    detected_ms: round6(record.detected.as_us() / 1e3),
                    dropped: record.dropped,
                })
                .collect(),
            meshes: output.meshes.iter().map(|mesh| (mesh.name.clone(), Rtt::of(mesh))).collect(),
        }
    }
}

/// The packets that switches dropped, by priority.
fn dropped_in(output: &RunOutput) -> Vec<u64> {
    let mut sums = Vec::new();
    for port in &output.ports {
        sums.resize(port.priorities.len().max(sums.len()), 0);
        for (sum, counters) in sums.iter_mut().zip(&port.priorities) {
            *sum += counters.drops;
        }
    }
    sums
}

impl Rtt {
    fn of(mesh: &MeshRecord) -> Rtt {
        let us = |time: Time| round6(time.as_us());
        let MeshRow { probes, unanswered, p50, p99, p999, .. } = mesh.total;
        let worst = mesh.rows.iter().map(|row| row.p99).max().unwrap_or_default();
        Rtt { probes, unanswered, p50: us(p50), p99: us(p99), p999: us(p999), worst_p99: us(worst) }
    }
}
