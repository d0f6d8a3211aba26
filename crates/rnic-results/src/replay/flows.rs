//! The flows of a replay, with their paths: the flows that readers want to see first, and the flows that the user
//! names.

use super::picture::INSIDE;
use super::recorder::Seen;
use rnic_fabric::{HostId, PortId};
use rnic_spec::{FlowRecord, RunRecord};
use rnic_transport::Time;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Number of flows of each kind: the slowest, the largest, victims.
const OF_KIND: usize = 3;

/// A flow of the replay.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) flow: FlowRecord,
    /// Why the flow was chosen, such as "slowest".
    why: &'static str,
}

/// The flows of a run: first the flows in `named`, then victims, the slowest and the largest.
pub(super) fn choose(report: &RunRecord, named: &[u32]) -> Vec<Chosen> {
    let victims = report.output.pauses.iter().flat_map(|pauses| &pauses.victims).map(|victim| victim.flow);
    let victims: Vec<u32> = victims.take(OF_KIND).collect();
    let (mut slowest, mut largest) = (Vec::new(), Vec::new());
    let mut found: Vec<(usize, Chosen)> = Vec::new();
    for flow in report.output.flows.iter() {
        if let Some(place) = named.iter().position(|id| *id == flow.id) {
            found.push((place, Chosen { flow, why: "named" }));
        } else if let Some(place) = victims.iter().position(|id| *id == flow.id) {
            found.push((named.len() + place, Chosen { flow, why: "victim" }));
        }
        keep_first(&mut slowest, (slowdown(&flow, report.output.end), flow));
        keep_first(&mut largest, (flow.bytes as f64, flow));
    }
    found.sort_by_key(|(place, _)| *place);
    let mut chosen: Vec<Chosen> = found.into_iter().map(|(_, chosen)| chosen).collect();
    for (why, flows) in [("slowest", slowest), ("largest", largest)] {
        for (_, flow) in flows {
            if chosen.iter().all(|other| other.flow.id != flow.id) {
                chosen.push(Chosen { flow, why });
            }
        }
    }
    chosen
}

/// The completion time relative to the completion time on an empty fabric. For an unfinished flow, the time until the
/// end of the run counts.
fn slowdown(flow: &FlowRecord, end: Time) -> f64 {
    let time = flow.finish.unwrap_or(end).saturating_sub(flow.start);
    time.as_ps() as f64 / flow.ideal.as_ps().max(1) as f64
}

/// Keeps the flows with the greatest values, in descending order. Among flows with equal values, the first flows are
/// kept.
fn keep_first(kept: &mut Vec<(f64, FlowRecord)>, candidate: (f64, FlowRecord)) {
    let place = kept.partition_point(|(value, _)| *value >= candidate.0);
    if place < OF_KIND {
        kept.insert(place, candidate);
        kept.truncate(OF_KIND);
    }
}

/// The drawn ports that the packets of a flow pass, and whether they all take this path: with the `hash` by which
/// switches select it. Without, the ports of all shortest paths.
pub(super) fn path(seen: &Seen, src: u32, dst: u32, hash: Option<u32>) -> (Vec<u32>, bool) {
    let (src, dst) = (HostId(src), HostId(dst));
    let ports: Vec<PortId> = match hash {
        Some(hash) => seen.routes.path(&seen.topology, src, dst, hash),
        None => shortest_paths(seen, src, dst),
    };
    let drawn = ports.iter().filter_map(|port| seen.picture.drawn.get(port.0 as usize).copied());
    let mut known = BTreeSet::new();
    let drawn = drawn.filter(|port| *port != INSIDE && known.insert(*port)).collect();
    (drawn, hash.is_some() || ports.len() < 3)
}

/// The ports of all shortest paths between two hosts.
fn shortest_paths(seen: &Seen, src: HostId, dst: HostId) -> Vec<PortId> {
    let mut ports = vec![seen.topology.host_port(src)];
    let mut known = BTreeSet::new();
    let mut next = 0;
    while next < ports.len() {
        let node = seen.topology.peer_node(ports[next]);
        if node != dst.0 && !seen.topology.is_host(node) && known.insert(node) {
            ports.extend(seen.routes.candidates(&seen.topology, node, dst));
        }
        next += 1;
    }
    ports
}

/// The flow as the page reads it. Times are in microseconds.
pub(super) fn to_json(seen: &Seen, chosen: &Chosen, is_per_flow: bool) -> Value {
    let Chosen { flow, why } = chosen;
    let us = |time: Time| time.as_ps() as f64 / 1e6;
    let hash = seen.hashes.get(&flow.id).copied().filter(|_| is_per_flow);
    let (path, is_exact) = path(seen, flow.src, flow.dst, hash);
    json!({
        "id": flow.id,
        "src": flow.src,
        "dst": flow.dst,
        "bytes": flow.bytes,
        "start": us(flow.start),
        "finish": flow.finish.map(us),
        "why": why,
        "path": path,
        "onePath": is_exact,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture;
    use super::*;

    #[test]
    fn flows_are_chosen_once() {
        let (_, mut reports) = fixture::empty();
        // The flow alone takes 1 us. Sizes and times: flow 4 is slowest, flow 1 largest.
        let flows = [(100, 2), (900, 3), (200, 4), (300, 5), (400, 9), (500, 1)];
        let flow = |(id, (bytes, us)): (u32, (u64, u64))| FlowRecord {
            start: Time::ZERO,
            finish: Some(Time::from_us(us)),
            ideal: Time::from_us(1),
            ..fixture::flow(id, bytes)
        };
        reports[0].output.flows = (0..).zip(flows).map(flow).collect();
        let chosen = choose(&reports[0], &[5, 99]);
        let ids: Vec<(u32, &str)> = chosen.iter().map(|chosen| (chosen.flow.id, chosen.why)).collect();
        assert_eq!(ids, [(5, "named"), (4, "slowest"), (3, "slowest"), (2, "slowest"), (1, "largest")]);
    }
}
