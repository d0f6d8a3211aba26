//! Collects the counters of ports and hosts at the end of a run for the run's record.

use crate::host::HostTotals;
use rnic_fabric::{Body, Fabric, PortId};
use rnic_spec::{PortRecord, PriorityCounters, Totals};

/// The record (name, rate and counters) of each port of the fabric.
pub(super) fn port_records<B: Body>(fabric: &Fabric<B>) -> Vec<PortRecord> {
    let topology = fabric.topology();
    let record = |port: PortId| {
        let info = topology.port(port);
        PortRecord {
            node: topology.names[info.node as usize].clone(),
            port: topology.port_in_node(port),
            peer: topology.names[topology.peer_node(port) as usize].clone(),
            rate: info.link.rate,
            // The transmission of a frame that is not finished at the end of the run counts in full; so the busy time
            // is limited to the length of the run.
            busy: fabric.busy(port).min(fabric.now()),
            priorities: fabric.counters(port).iter().map(priority_counters).collect(),
        }
    };
    topology.port_ids().map(record).collect()
}

/// The counters of a run, summed over its hosts and ports.
pub(super) fn totals<B: Body>(fabric: &Fabric<B>, ports: &[PortRecord], hosts: HostTotals) -> Totals {
    let mut totals = Totals {
        data: hosts.data,
        control: hosts.control,
        retransmitted: hosts.retransmitted,
        delivered: hosts.delivered + fabric.probe_packets().1,
        marked: hosts.marked,
        notifications: hosts.notifications,
        aborted: hosts.aborted,
        cpu_send_ps: hosts.cpu_send,
        cpu_receive_ps: hosts.cpu_receive,
        probes: fabric.probe_packets().0,
        flooded: fabric.flooded_copies(),
        hops: fabric.hops(),
        in_flight: fabric.in_flight(),
        ..Totals::default()
    };
    for port in fabric.topology().port_ids() {
        totals.dropped_data += fabric.counters(port).iter().map(|c| c.drops - c.control_drops).sum::<u64>();
    }
    for counters in ports.iter().flat_map(|port| &port.priorities) {
        totals.dropped += counters.drops;
        totals.trimmed += counters.trimmed;
        totals.returned += counters.returned;
        totals.lost += counters.lost;
        totals.pause_frames += counters.pause_sent;
        totals.paused_ps += counters.paused_ps;
    }
    totals
}

fn priority_counters(c: &rnic_fabric::PriorityCounters) -> PriorityCounters {
    PriorityCounters {
        tx_packets: c.tx_packets,
        tx_bytes: c.tx_bytes,
        drops: c.drops,
        lost: c.lost,
        marked: c.marked,
        pause_sent: c.pause_sent,
        pause_received: c.pause_received,
        paused_ps: c.paused_ps,
        queue_high_water: c.queue_high_water,
        trimmed: c.trimmed,
        returned: c.returned,
    }
}
