//! Why transmitters stand still: who is paused by whom and what for, and whether the pauses form a cycle.

use crate::engine::Fabric;
use crate::packet::Body;
use crate::routing::find_cycle;
use rnic_transport::Time;

/// What a paused transmitter waits for in the end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// A port that sends as fast as it can, and is not paused itself: more comes in for it than goes out.
    Congestion {
        /// That output.
        port: usize,
    },
    /// A host's NIC that tells its switch to pause.
    Nic {
        /// The host's port.
        port: usize,
    },
    /// Itself, through other paused ports.
    Cycle {
        /// The lowest port on the cycle.
        port: usize,
    },
    /// Nothing any more: the resume is on its way.
    Released,
}

/// What a paused transmitter waits for next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Another port of [`PauseTree::ports`], by index.
    Port(usize),
    /// The end of the chain.
    Root(Cause),
}

/// A transmitter that is paused in a priority, or was when one that is paused now came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paused {
    /// The port whose transmitter it is.
    pub port: usize,
    /// In which priority.
    pub priority: u8,
    /// Whether it is paused now.
    pub on: bool,
    /// Since when; of one that is not paused now, when its latest pause began.
    pub since: Time,
    /// Bytes that its peer holds for it; 0 if that is a host.
    pub held: u64,
    /// What its peer's input waits for: the output for which it holds the most.
    pub waits_for: Wait,
    /// Where that leads in the end.
    pub cause: Cause,
    /// Its distance from there: 1 if the cause itself pauses it or it is on the cycle.
    pub depth: u32,
}

/// Every paused transmitter of a fabric at an instant, and why. With one cause each they form trees, with causes as
/// their roots.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PauseTree {
    /// Those that are paused now, in order of port and priority; then those that lie between them and their causes.
    pub ports: Vec<Paused>,
    /// A cyclic buffer dependency: paused ports of which each waits for the next and the last for the first, whatever
    /// else they wait for. Empty if there is none.
    pub cycle: Vec<usize>,
}

/// Looks at the pauses of a fabric as it stands.
///
/// A paused transmitter waits for buffer at its peer's input. That input waits for the outputs that it holds packets
/// for, first of all for the one for which it holds the most. An output that is paused, or was shortly before, waits in
/// turn: pauses come and go, and what a pause piled up takes a while to drain. Any other output is where packets come
/// out too slowly.
pub fn pause_tree<B: Body>(fabric: &Fabric<B>) -> PauseTree {
    let mut tree = PauseTree::default();
    if !fabric.any_paused() {
        return tree;
    }
    for port in 0..fabric.topology().ports.len() {
        let mask = fabric.paused(port);
        tree.ports.extend((0..8).filter(|p| mask & (1 << p) != 0).map(|p| node(fabric, port, p, true)));
    }
    let paused = tree.ports.len();
    let mut index = 0;
    while let Some(asking) = tree.ports.get(index).copied() {
        tree.ports[index].waits_for = match most_held(fabric, &asking) {
            Wait::Root(Cause::Congestion { port }) => {
                let cell = (port, asking.priority);
                let (on, off) = tree.ports.split_at(paused);
                let known = on.binary_search_by_key(&cell, |p| (p.port, p.priority)).ok();
                let known = known.or_else(|| Some(paused + off.iter().position(|p| (p.port, p.priority) == cell)?));
                match known {
                    Some(known) => Wait::Port(known),
                    None if was_paused_during(fabric, port, &asking) => {
                        tree.ports.push(node(fabric, port, asking.priority, false));
                        Wait::Port(tree.ports.len() - 1)
                    }
                    None => Wait::Root(Cause::Congestion { port }),
                }
            }
            wait => wait,
        };
        index += 1;
    }
    for index in 0..tree.ports.len() {
        let (cause, depth) = trace(&tree.ports, index);
        (tree.ports[index].cause, tree.ports[index].depth) = (cause, depth);
    }
    let edges: Vec<Vec<usize>> = (0..paused).map(|index| blockers(fabric, &tree.ports[..paused], index)).collect();
    let cycle = find_cycle(&edges, 0..paused).unwrap_or_default();
    tree.cycle = cycle.into_iter().map(|index| tree.ports[index].port).collect();
    tree
}

fn node<B: Body>(fabric: &Fabric<B>, port: usize, priority: u8, on: bool) -> Paused {
    let input = fabric.topology().ports[port].peer as usize;
    Paused {
        port,
        priority,
        on,
        since: fabric.paused_since(port, usize::from(priority)),
        held: fabric.occupancy(input, usize::from(priority)),
        waits_for: Wait::Root(Cause::Released),
        cause: Cause::Released,
        depth: 0,
    }
}

/// The output for which the peer of a paused port holds the most of its packets, or the NIC that pauses it.
fn most_held<B: Body>(fabric: &Fabric<B>, asking: &Paused) -> Wait {
    let topology = fabric.topology();
    let input = topology.ports[asking.port].peer as usize;
    let node = topology.ports[input].node;
    if topology.is_host(node) {
        return Wait::Root(Cause::Nic { port: input });
    }
    let held = topology.ports_of(node).map(|output| (fabric.held(input, output, usize::from(asking.priority)), output));
    // Of equals the lowest.
    let most = held.filter(|(bytes, _)| *bytes > 0).max_by_key(|(bytes, output)| (*bytes, std::cmp::Reverse(*output)));
    Wait::Root(most.map_or(Cause::Released, |(_, port)| Cause::Congestion { port }))
}

/// Whether a port that is not paused now was when the pause of `asking` was sent for, or later, or not longer before
/// than its own pause had lasted: what that piled up may not have drained by then.
fn was_paused_during<B: Body>(fabric: &Fabric<B>, port: usize, asking: &Paused) -> bool {
    let priority = usize::from(asking.priority);
    let asked = asking.since.saturating_sub(fabric.topology().ports[asking.port].link.delay);
    let recent = |at: Time| at + (at - fabric.paused_since(port, priority)) > asked;
    fabric.resumed_at(port, priority).is_some_and(recent)
}

/// The paused ports that one of them waits for in any way, by index.
fn blockers<B: Body>(fabric: &Fabric<B>, paused: &[Paused], index: usize) -> Vec<usize> {
    let (topology, asking) = (fabric.topology(), &paused[index]);
    let input = topology.ports[asking.port].peer as usize;
    let node = topology.ports[input].node;
    if topology.is_host(node) || fabric.pauses_peer(input) & (1 << asking.priority) == 0 {
        return Vec::new();
    }
    let ports = topology.ports_of(node);
    let from = paused.partition_point(|p| p.port < ports.start);
    let to = paused.partition_point(|p| p.port < ports.end);
    let waits = |p: &Paused| p.priority == asking.priority && fabric.held(input, p.port, usize::from(p.priority)) > 0;
    (from..to).filter(|other| waits(&paused[*other])).collect()
}

/// Follows what a port waits for to the end; returns that, and how far it is.
fn trace(ports: &[Paused], start: usize) -> (Cause, u32) {
    let mut path = vec![start];
    loop {
        let last = &ports[path[path.len() - 1]];
        match last.waits_for {
            // It sends what a pause has left behind, and nothing is beyond it any more.
            Wait::Root(Cause::Released) if !last.on => {
                return (Cause::Congestion { port: last.port }, (path.len() as u32 - 1).max(1));
            }
            Wait::Root(cause) => return (cause, path.len() as u32),
            Wait::Port(next) => {
                let Some(first) = path.iter().position(|index| *index == next) else {
                    path.push(next);
                    continue;
                };
                let port = path[first..].iter().map(|index| ports[*index].port).min().unwrap_or(0);
                return (Cause::Cycle { port }, first as u32 + 1);
            }
        }
    }
}

impl PauseTree {
    /// The ports that are paused now.
    pub fn paused(&self) -> impl Iterator<Item = &Paused> {
        self.ports.iter().filter(|port| port.on)
    }

    /// Whether a port is what holds others up in the end: the congested output, the switch's port that a NIC pauses, a
    /// port on the cycle.
    pub fn is_at_root(&self, cause: Cause, port: usize) -> bool {
        match cause {
            Cause::Congestion { port: root } => port == root,
            Cause::Nic { .. } | Cause::Cycle { .. } => {
                self.ports.iter().any(|other| other.port == port && other.cause == cause && other.depth == 1)
            }
            Cause::Released => false,
        }
    }
}
