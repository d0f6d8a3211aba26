//! Links by name: two nodes with a colon between them.

use rnic_fabric::{PortId, Topology};

/// The ports of the first node of `link` whose cables go to the second.
///
/// # Errors
/// A sentence, if there is no such link.
pub(crate) fn ports(topology: &Topology, link: &str) -> Result<Vec<PortId>, String> {
    let node = |name: &str| topology.names.iter().position(|other| other == name);
    // Names may have colons too.
    let pairs = link.match_indices(':').map(|(at, _)| (&link[..at], &link[at + 1..]));
    let Some((a, b)) = pairs.clone().find_map(|(a, b)| node(a).zip(node(b))) else {
        let unknown = pairs.flat_map(|(a, b)| [a, b]).find(|name| node(name).is_none());
        return Err(match unknown {
            Some(name) => format!("no node is called \"{name}\"; ports.csv and `rnic topology` name the nodes"),
            None => format!(
                "\"{link}\" is no link; write two nodes with a colon between them, like h0:{}",
                peer_name(topology, PortId(0))
            ),
        });
    };
    let own = topology.ports_of(a as u32);
    let ports: Vec<PortId> = own.clone().filter(|port| topology.peer_node(*port) as usize == b).collect();
    if ports.is_empty() {
        let mut peers: Vec<&str> = own.map(|port| peer_name(topology, port)).collect();
        peers.dedup();
        let (a, b) = (&topology.names[a], &topology.names[b]);
        return Err(format!("no cable joins {a} and {b}; {a} is linked with {}", peers.join(", ")));
    }
    Ok(ports)
}

fn peer_name(topology: &Topology, port: PortId) -> &str {
    &topology.names[topology.peer_node(port) as usize]
}
