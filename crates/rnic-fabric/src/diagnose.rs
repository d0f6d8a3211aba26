//! Diagnosis of PFC pauses: the port for which each paused transmitter waits, the root cause of each pause, and cycles
//! of pauses.

use crate::cycles::find_cycle;
use crate::engine::Fabric;
use crate::ids::PortId;
use crate::packet::Body;
use rnic_transport::Time;
use std::collections::BTreeMap;
use std::ops::Range;

/// The root cause of a pause: the end of a chain in which each paused transmitter waits for the next port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// An output that sends as fast as it can and is not paused: more packets arrive for it than it can send.
    Congestion {
        /// The congested output.
        port: PortId,
    },
    /// A host's NIC that pauses its switch.
    Nic {
        /// The host's port.
        port: PortId,
    },
    /// A cycle of paused transmitters: each waits for the next, so the transmitter waits for itself.
    Cycle {
        /// The port with the lowest number on the cycle.
        port: PortId,
    },
    /// No cause is left: the peer holds no packets of the transmitter any more, and the resume frame is on its way.
    Released,
}

/// The next element of the chain from a paused transmitter to its root cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Another port on the chain: its index in [`PauseTree::ports`].
    Port(usize),
    /// The end of the chain: the root cause.
    Root(Cause),
}

/// A transmitter in a pause tree (the tree of all chains that end at one root cause). It is paused in a priority now,
/// or an earlier pause of it has led to another pause in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paused {
    /// The port of the transmitter.
    pub port: PortId,
    /// The paused priority.
    pub priority: u8,
    /// Whether the transmitter is paused now.
    pub on: bool,
    /// Start of the current pause, or of the latest pause of a transmitter that is not paused now.
    pub since: Time,
    /// Bytes of the transmitter's packets that wait in the buffer of its peer; 0 if the peer is a host.
    pub held: u64,
    /// The next element of the chain: an output of the peer, or the root cause. Of the transmitter's packets in the
    /// peer's buffer, the most bytes wait for this output.
    pub waits_for: Wait,
    /// The root cause of the pause, at the end of the chain of paused transmitters.
    pub cause: Cause,
    /// Number of steps from the transmitter to the root cause: 1 if the root cause itself pauses the transmitter, or if
    /// the transmitter is on the cycle.
    pub depth: u32,
}

/// Every paused transmitter of a fabric at an instant, as trees whose roots are the root causes of the pauses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PauseTree {
    /// The transmitters that are paused now, in order of port and priority; then transmitters that are not paused now,
    /// but are on the chain from a paused transmitter to its root cause.
    pub ports: Vec<Paused>,
    /// A cyclic buffer dependency: paused ports, each of which waits for the next, and the last for the first. A port
    /// of the cycle may wait for ports outside the cycle as well. Empty if no such cycle exists.
    pub cycle: Vec<PortId>,
}

/// Builds the tree of pauses for the current state of a fabric.
///
/// A paused transmitter waits for buffer at an input of its peer. Packets from this input wait for outputs of the peer,
/// and the chain continues at the output for which most bytes wait. If this output is paused, it waits for its own peer
/// in turn. An output that was paused shortly before is treated in the same way, because packets that piled up during
/// its pause take a while to drain. Any other output is congested, and is the root cause.
pub fn pause_tree<B: Body>(fabric: &Fabric<B>) -> PauseTree {
    let mut tree = PauseTree::default();
    if !fabric.any_paused() {
        return tree;
    }
    for port in fabric.topology().port_ids() {
        let mask = fabric.paused(port);
        tree.ports.extend((0..8).filter(|p| mask & (1 << p) != 0).map(|p| node(fabric, port, p, true)));
    }
    let paused = tree.ports.len();
    let mut held = Held::default();
    let mut off = BTreeMap::new();
    let mut index = 0;
    while let Some(waiting) = tree.ports.get(index).copied() {
        if held.rows.len() == index {
            held.add(fabric, &tree.ports);
        }
        tree.ports[index].waits_for = match most_held(fabric, &waiting, held.of(index)) {
            Wait::Root(Cause::Congestion { port }) => {
                let cell = (port, waiting.priority);
                let on = tree.ports[..paused].binary_search_by_key(&cell, |p| (p.port, p.priority)).ok();
                match on.or_else(|| off.get(&cell).copied()) {
                    Some(known) => Wait::Port(known),
                    None if was_paused_during(fabric, port, &waiting) => {
                        tree.ports.push(node(fabric, port, waiting.priority, false));
                        off.insert(cell, tree.ports.len() - 1);
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
    let blockers = |index| blockers(fabric, &tree.ports[..paused], index, held.of(index));
    let edges: Vec<Vec<usize>> = (0..paused).map(blockers).collect();
    let cycle = find_cycle(&edges, 0..paused).unwrap_or_default();
    tree.cycle = cycle.into_iter().map(|index| tree.ports[index].port).collect();
    tree
}

fn node<B: Body>(fabric: &Fabric<B>, port: PortId, priority: u8, on: bool) -> Paused {
    let input = fabric.topology().port(port).peer;
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

/// The bytes of paused ports' packets in the buffers of their peers, by the outputs for which the packets wait.
#[derive(Default)]
struct Held {
    /// For each paused port, its numbers in `bytes`: one for each port of its peer, and none if the peer is a host.
    rows: Vec<Range<usize>>,
    bytes: Vec<u64>,
}

impl Held {
    fn of(&self, index: usize) -> &[u64] {
        &self.bytes[self.rows[index].clone()]
    }

    /// Adds the paused ports that are not here, so that each switch is asked once for each priority.
    fn add<B: Body>(&mut self, fabric: &Fabric<B>, ports: &[Paused]) {
        let topology = fabric.topology();
        let first = self.rows.len();
        self.rows.resize(ports.len(), 0..0);
        let inputs = ports.iter().enumerate().skip(first).map(|(index, paused)| {
            let input = topology.port(paused.port).peer;
            (topology.port(input).node, paused.priority, input, index)
        });
        let mut inputs: Vec<_> = inputs.filter(|(node, ..)| !topology.is_host(*node)).collect();
        inputs.sort_unstable();
        for group in inputs.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (node, priority, ..) = group[0];
            let (outputs, from) = (topology.ports_of(node).len(), self.bytes.len());
            self.bytes.resize(from + group.len() * outputs, 0);
            let rows = (from..).step_by(outputs);
            group.iter().zip(rows).for_each(|((.., index), row)| self.rows[*index] = row..row + outputs);
            let inputs: Vec<PortId> = group.iter().map(|(.., input, _)| *input).collect();
            fabric.held(&inputs, usize::from(priority), &mut self.bytes[from..]);
        }
    }
}

/// The next element of the chain from a paused port to its root cause: the output for which the port's peer holds the
/// most bytes of the port's packets, or the NIC that pauses the port. `held` has these bytes for each output.
fn most_held<B: Body>(fabric: &Fabric<B>, waiting: &Paused, held: &[u64]) -> Wait {
    let topology = fabric.topology();
    let input = topology.port(waiting.port).peer;
    let node = topology.port(input).node;
    if topology.is_host(node) {
        return Wait::Root(Cause::Nic { port: input });
    }
    let held = held.iter().copied().zip(topology.ports_of(node));
    // Of outputs with equally many bytes, the lowest port counts.
    let most = held.filter(|(bytes, _)| *bytes > 0).max_by_key(|(bytes, output)| (*bytes, std::cmp::Reverse(*output)));
    Wait::Root(most.map_or(Cause::Released, |(_, port)| Cause::Congestion { port }))
}

/// Whether an earlier pause of `port`, which is not paused now, may have caused the pause of `waiting`.
///
/// The earlier pause may be the cause if it ended after the peer had sent the pause of `waiting`. It may also be the
/// cause if it ended before that, by less time than it had lasted: the packets that piled up may not have drained yet.
fn was_paused_during<B: Body>(fabric: &Fabric<B>, port: PortId, waiting: &Paused) -> bool {
    let priority = usize::from(waiting.priority);
    let sent = waiting.since.saturating_sub(fabric.topology().port(waiting.port).link.delay);
    let recent = |at: Time| at + (at - fabric.paused_since(port, priority)) > sent;
    fabric.resumed_at(port, priority).is_some_and(recent)
}

/// The indices of the paused ports for which packets of port `index` wait at its peer. Empty if the peer is a host, or
/// no longer wants the pause.
fn blockers<B: Body>(fabric: &Fabric<B>, paused: &[Paused], index: usize, held: &[u64]) -> Vec<usize> {
    let (topology, waiting) = (fabric.topology(), &paused[index]);
    let input = topology.port(waiting.port).peer;
    let node = topology.port(input).node;
    if topology.is_host(node) || fabric.pauses_peer(input) & (1 << waiting.priority) == 0 {
        return Vec::new();
    }
    let (first, end) = (topology.first_port[node as usize], topology.first_port[node as usize + 1]);
    let from = paused.partition_point(|p| p.port < first);
    let to = paused.partition_point(|p| p.port < end);
    let waits = |p: &Paused| p.priority == waiting.priority && held[(p.port.0 - first.0) as usize] > 0;
    (from..to).filter(|other| waits(&paused[*other])).collect()
}

/// Follows the chain of pauses from a port to its root cause; returns the cause and the number of steps.
fn trace(ports: &[Paused], start: usize) -> (Cause, u32) {
    let mut path = vec![start];
    loop {
        let last = &ports[path[path.len() - 1]];
        match last.waits_for {
            // The port sends packets that piled up during a pause, and waits for no other port.
            Wait::Root(Cause::Released) if !last.on => {
                return (Cause::Congestion { port: last.port }, (path.len() as u32 - 1).max(1));
            }
            Wait::Root(cause) => return (cause, path.len() as u32),
            Wait::Port(next) => {
                let Some(first) = path.iter().position(|index| *index == next) else {
                    path.push(next);
                    continue;
                };
                let port = path[first..].iter().map(|index| ports[*index].port).min().unwrap_or_default();
                return (Cause::Cycle { port }, first as u32 + 1);
            }
        }
    }
}

impl PauseTree {
    /// The ports that are paused now, without ports that are in the tree because of an earlier pause.
    pub fn paused(&self) -> impl Iterator<Item = &Paused> {
        self.ports.iter().filter(|port| port.on)
    }

    /// Whether a port is where pauses with this root cause begin: the congested output, the switch's port that a NIC
    /// pauses, or a port on the cycle.
    pub fn is_at_root(&self, cause: Cause, port: PortId) -> bool {
        match cause {
            Cause::Congestion { port: root } => port == root,
            Cause::Nic { .. } | Cause::Cycle { .. } => {
                self.ports.iter().any(|other| other.port == port && other.cause == cause && other.depth == 1)
            }
            Cause::Released => false,
        }
    }
}
