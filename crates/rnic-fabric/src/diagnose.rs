//! Why nothing moves: who is paused by whom, and whether the pauses form a cycle.

use crate::engine::Fabric;

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
    if let Some(cycle) = find_cycle(&waits_for) {
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

/// A cycle in a directed graph, as the nodes along it.
fn find_cycle(edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    // 0: not visited, 1: on the current path, 2: done.
    let mut state = vec![0u8; edges.len()];
    for root in 0..edges.len() {
        if state[root] != 0 {
            continue;
        }
        let mut path = vec![(root, 0)];
        state[root] = 1;
        while let Some((node, tried)) = path.last_mut() {
            let Some(next) = edges[*node].get(*tried).copied() else {
                state[*node] = 2;
                path.pop();
                continue;
            };
            *tried += 1;
            if state[next] == 1 {
                let from = path.iter().position(|(n, _)| *n == next)?;
                return Some(path[from..].iter().map(|(n, _)| *n).collect());
            }
            if state[next] == 0 {
                state[next] = 1;
                path.push((next, 0));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::find_cycle;

    #[test]
    fn cycles_are_found_and_only_cycles() {
        assert_eq!(find_cycle(&[vec![1, 2], vec![3], vec![3], vec![]]), None);
        assert_eq!(find_cycle(&[vec![1], vec![2], vec![3], vec![1]]), Some(vec![1, 2, 3]));
        assert_eq!(find_cycle(&[vec![], vec![1]]), Some(vec![1]));
    }
}
