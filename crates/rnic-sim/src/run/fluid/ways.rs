//! The ways of flows through the fabric: the links that a flow uses, and which part of the flow each of them carries.

use super::shares::Hop;
use rnic_fabric::config::Paths;
use rnic_fabric::{HostId, PortId, Routes, Topology};
use std::collections::BTreeMap;

/// The way of the packets with this hash from host `src` to host `dst`; `scale` is the part of the flow's bytes on each
/// link of a single path.
pub(super) fn way(
    topology: &Topology, routes: &Routes, paths: Paths, (src, dst): (HostId, HostId), hash: u32, scale: f64,
) -> Vec<Hop> {
    match paths {
        Paths::Ecmp => {
            let path = routes.path(topology, src, dst, hash);
            path.into_iter().map(|port| Hop { link: port.0, share: scale }).collect()
        }
        // On average, adaptive routing and flowlets divide packets evenly, too.
        Paths::Spray | Paths::Adaptive | Paths::Flowlet => sprayed(topology, routes, src, dst, scale),
    }
}

/// The way of packets that each switch divides evenly among its ports of equal cost.
fn sprayed(topology: &Topology, routes: &Routes, src: HostId, dst: HostId, scale: f64) -> Vec<Hop> {
    let first = topology.host_port(src);
    let mut shares: BTreeMap<PortId, f64> = BTreeMap::from([(first, scale)]);
    let mut at: BTreeMap<u32, f64> = BTreeMap::from([(topology.peer_node(first), scale)]);
    // No route is longer than the number of nodes: named routes with loops are refused.
    for _ in 0..topology.nodes() {
        let mut next: BTreeMap<u32, f64> = BTreeMap::new();
        for (switch, share) in at {
            let ports = routes.candidates(topology, switch, dst);
            let part = share / ports.len() as f64;
            for port in ports {
                *shares.entry(port).or_default() += part;
                let peer = topology.peer_node(port);
                if peer != dst.0 {
                    *next.entry(peer).or_default() += part;
                }
            }
        }
        if next.is_empty() {
            break;
        }
        at = next;
    }
    shares.into_iter().map(|(port, share)| Hop { link: port.0, share }).collect()
}
