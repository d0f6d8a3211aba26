//! Detours: routes that a user configures by hand in place of shortest paths. This module resolves the names in them,
//! and checks that packets still arrive.

use crate::config::NamedRoute;
use crate::cycles::find_cycle;
use crate::ids::{HostId, PortId};
use crate::shortest_paths::{Distances, DownPorts, next_hops};
use crate::topology::{NodeId, Topology, TopologyError};
use std::collections::BTreeMap;

/// The detours (routes configured by hand) to one host. Per switch: the ports (numbered within the switch) that replace
/// the ports on shortest paths, and the index of the route in the list of configured routes.
pub(crate) type Detours = BTreeMap<NodeId, (Vec<u16>, usize)>;

/// Finds the nodes and ports that the routes `named`, configured by hand, refer to by name. The result has, per host,
/// the switches that such a route leads from.
pub(crate) fn detours(topology: &Topology, named: &[NamedRoute]) -> Result<BTreeMap<HostId, Detours>, TopologyError> {
    let mut found: BTreeMap<HostId, Detours> = BTreeMap::new();
    if named.is_empty() {
        return Ok(found);
    }
    let nodes: BTreeMap<&str, NodeId> =
        topology.names.iter().zip(0..).map(|(name, node)| (name.as_str(), node)).collect();
    for (index, route) in named.iter().enumerate() {
        let refused = |reason: String| TopologyError::Route { index, reason };
        let find = |name: &str| {
            nodes
                .get(name)
                .copied()
                .ok_or_else(|| refused(format!("a route names `{name}`, but no node is called that")))
        };
        let (at, via) = (find(&route.at)?, find(&route.via)?);
        if topology.is_host(at) {
            return Err(refused(format!("a route is at `{}`, which is a host; only switches have routes", route.at)));
        }
        let towards = |port: &PortId| topology.peer_node(*port) == via;
        let ports: Vec<u16> =
            topology.ports_of(at).filter(towards).map(|port| topology.port_in_node(port) as u16).collect();
        if ports.is_empty() {
            return Err(refused(format!(
                "a route at `{}` goes via `{}`, but no link joins the two; name a neighbour",
                route.at, route.via
            )));
        }
        for name in &route.to {
            let to = find(name)?;
            if !topology.is_host(to) {
                return Err(refused(format!("a route leads to `{name}`, which is a switch; routes lead to hosts")));
            }
            if topology.is_host(via) && via != to {
                return Err(refused(format!(
                    "a route to `{name}` goes via the host `{}`; hosts do not forward packets",
                    route.via
                )));
            }
            if found.entry(HostId(to)).or_default().insert(at, (ports.clone(), index)).is_some() {
                return Err(refused(format!("a second route at `{}` to `{name}`; there can be one", route.at)));
            }
        }
    }
    Ok(found)
}

/// The next-hop ports of every switch towards `host`: the ports on shortest paths without the links in `down`, except
/// at switches with a detour (a route configured by hand).
///
/// The result is an error if packets from a switch in `host_switches`, the switches with hosts, would loop.
pub(crate) fn detoured(
    topology: &Topology, host_switches: &[NodeId], host: HostId, detours: &Detours, down: DownPorts<'_>,
) -> Result<Vec<Vec<u16>>, TopologyError> {
    let last = topology.peer_node(topology.host_port(host));
    let distances = Distances::to(topology, last, down);
    let mut sets: Vec<Vec<u16>> =
        (topology.hosts..topology.nodes()).map(|node| next_hops(topology, node, &distances, down)).collect();
    let own = topology.port_in_node(topology.port(topology.host_port(host)).peer);
    sets[(last - topology.hosts) as usize] = vec![own as u16];
    for (at, (ports, _)) in detours {
        sets[(at - topology.hosts) as usize] = ports.clone();
    }
    // Every switch with a path to the host has a next hop. So a packet that never arrives must be in a loop.
    let next = |node: u32| -> Vec<usize> {
        let first = topology.first_port[node as usize];
        let set = sets.get((node.wrapping_sub(topology.hosts)) as usize).map_or(&[][..], Vec::as_slice);
        set.iter().map(|port| topology.peer_node(PortId(first.0 + u32::from(*port))) as usize).collect()
    };
    let edges: Vec<Vec<usize>> = (0..topology.nodes()).map(next).collect();
    let starts = host_switches.iter().map(|switch| *switch as usize);
    let Some(circle) = find_cycle(&edges, starts) else {
        return Ok(sets);
    };
    let index =
        circle.iter().filter_map(|node| detours.get(&(*node as u32))).map(|(_, index)| *index).max().unwrap_or(0);
    let names: Vec<&str> = circle.iter().chain(&circle[..1]).map(|node| topology.names[*node].as_str()).collect();
    let reason = format!(
        "with this route packets to `{}` would circle for ever through {}; let it lead to the host in the end",
        topology.names[host.index()],
        names.join(" -> ")
    );
    Err(TopologyError::Route { index, reason })
}
