//! Finds links of the fabric by name: the names of two nodes with a colon between them, such as `h0:s0`.

use rnic_fabric::{PortId, Topology};

/// The ports of the first node named in `link` whose links lead to the second node.
///
/// # Errors
/// No such link exists; the error is one sentence.
pub(crate) fn ports(topology: &Topology, link: &str) -> Result<Vec<PortId>, String> {
    let node = |name: &str| topology.names.iter().position(|other| other == name);
    // The name of a node may itself contain colons, so each colon of `link` is tried as the separator.
    let pairs = link.match_indices(':').map(|(at, _)| (&link[..at], &link[at + 1..]));
    let Some((a, b)) = pairs.clone().find_map(|(a, b)| node(a).zip(node(b))) else {
        let unknown = pairs.flat_map(|(a, b)| [a, b]).find(|name| node(name).is_none());
        return Err(match unknown {
            Some(name) => format!("no node is called \"{name}\"; ports.csv and `rnic topology` name the nodes"),
            None => format!(
                "\"{link}\" names no link; write two nodes with a colon between them, like h0:{}",
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
        return Err(format!("no link joins {a} and {b}; {a} has links to {}", peers.join(", ")));
    }
    Ok(ports)
}

fn peer_name(topology: &Topology, port: PortId) -> &str {
    &topology.names[topology.peer_node(port) as usize]
}
