//! Why nothing moves: who is paused by whom, and whether the pauses form a cycle.

use crate::engine::Fabric;
use crate::routing::find_cycle;

/// What holds a fabric up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Blockage {
    /// Ports whose transmitter is paused, by name, with the bytes queued at the input that pauses them.
    pub paused: Vec<(String, u64)>,
    /// A cyclic buffer dependency, as the names of the paused ports along it; empty if there is none.
    pub cycle: Vec<String>,
}

/// Looks at the pauses of a fabric as it stands.
///
/// A paused port P waits for buffer at its peer's input; that input waits for the outputs that it has packets queued for, as far as
/// these are paused themselves. A cycle in "waits for" is a deadlock.
pub fn blockage<B: Copy + Default>(fabric: &Fabric<B>) -> Blockage {
    let topology = fabric.topology();
    let paused: Vec<usize> = (0..topology.ports.len()).filter(|p| fabric.paused(*p) != 0).collect();
    let mut found = Blockage::default();
    for port in &paused {
        let input = topology.ports[*port].peer as usize;
        let bytes = (0..8).filter(|p| fabric.paused(*port) & (1 << p) != 0).map(|p| fabric.occupancy(input, p)).sum();
        found.paused.push((topology.port_name(*port), bytes));
    }
    let waits_for: Vec<Vec<usize>> = paused.iter().map(|port| successors(fabric, *port, &paused)).collect();
    if let Some(cycle) = find_cycle(&waits_for, 0..waits_for.len()) {
        found.cycle = cycle.into_iter().map(|i| topology.port_name(paused[i])).collect();
    }
    found
}

/// Indices into `paused` of the ports that `port` waits for.
fn successors<B: Copy + Default>(fabric: &Fabric<B>, port: usize, paused: &[usize]) -> Vec<usize> {
    let topology = fabric.topology();
    let input = topology.ports[port].peer as usize;
    let node = topology.ports[input].node;
    let waits = |output: usize| {
        let both = fabric.paused(port) & fabric.paused(output);
        (0..8).any(|p| both & (1 << p) != 0 && fabric.has_queued(input, output, p))
    };
    (0..paused.len()).filter(|i| topology.ports[paused[*i]].node == node && waits(paused[*i])).collect()
}
