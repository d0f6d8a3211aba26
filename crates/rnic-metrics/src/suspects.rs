//! Finds the origin of PFC pauses from the pause counters of all switches and hosts.
//!
//! A probe shows that a part of the network on its path is bad. When pauses have spread, nearly all parts are bad, and
//! probes cannot identify the origin. Pause counters can, because a pause has a direction: a transmitter that is paused
//! waits for the node at the other end of its link. A link whose transmitter was paused for (nearly) the whole interval
//! is *blocked*. Blocked links are the edges of a graph, in which nodes wait for other nodes:
//!
//! - nodes that wait for each other in a cycle are a **deadlock**, which does not dissolve by itself;
//! - a node for which other nodes wait, and which does not wait for any node, is an **origin**: a host whose NIC sends
//!   pauses without end (a pause storm), or a switch that cannot forward packets fast enough.
//!
//! Counters do not show for which output port the packets of an input port wait. So a deadlock is inferred: each link
//! of the cycle was blocked for the whole interval, which does not happen when the congestion behind pauses dissolves.

use rnic_spec::RunRecord;
use rnic_transport::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Minimum share of an interval for which the transmitter of a blocked link was paused.
pub const BLOCKED: f64 = 0.9;

/// The transmitter of a node on a link, for one priority.
#[derive(Clone, PartialEq, Debug)]
pub struct Transmitter {
    /// The node of the transmitter.
    pub node: String,
    /// The node at the other end of the link.
    pub peer: String,
    /// Whether the other end is known to be a host. A host does not forward packets.
    pub peer_is_host: bool,
    /// Priority.
    pub priority: u8,
    /// Share of the interval for which the transmitter was paused, 0 to 1.
    pub paused: f64,
}

/// The kind of origin of pauses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The nodes wait for each other in a cycle.
    Deadlock,
    /// A host's NIC pauses its switch.
    Nic,
    /// A switch pauses other nodes, and is not paused itself.
    Switch,
}

/// An origin of pauses.
#[derive(Clone, PartialEq, Debug)]
pub struct PauseSuspect {
    /// The kind of origin.
    pub kind: Kind,
    /// Priority.
    pub priority: u8,
    /// The nodes of the origin. In a deadlock, each node waits for the next, and the last waits for the first.
    pub nodes: Vec<String>,
    /// Number of blocked links that lead to the origin, including the origin's own links.
    pub links: usize,
    /// Number of nodes that wait for the origin, without the origin itself.
    pub waiting: usize,
}

impl PauseSuspect {
    /// Describes the suspect in one sentence.
    pub fn text(&self) -> String {
        let PauseSuspect { kind, priority, nodes, links, waiting } = self;
        let first = nodes.first().map_or("?", String::as_str);
        let others = format!("{waiting} other {} for it", if *waiting == 1 { "node waits" } else { "nodes wait" });
        let links = format!("{links} blocked {}", if *links == 1 { "link" } else { "links" });
        match kind {
            Kind::Deadlock => format!(
                "deadlock in priority {priority}: {} -> {first} wait for each other; {others}, over {links}",
                nodes.join(" -> ")
            ),
            Kind::Nic => format!("the NIC of {first} pauses priority {priority} without end; {others}, over {links}"),
            Kind::Switch => {
                format!("switch {first} pauses priority {priority} and is not blocked itself; {others}, over {links}")
            }
        }
    }
}

/// Finds the origins of the pauses. The origin for which most nodes wait comes first. `transmitters` has the
/// transmitters of all nodes in one interval; a transmitter that is missing counts as not paused.
pub fn suspects(transmitters: &[Transmitter]) -> Vec<PauseSuspect> {
    let mut found = Vec::new();
    let priorities: BTreeSet<u8> = transmitters.iter().map(|one| one.priority).collect();
    for priority in priorities {
        let blocked = transmitters.iter().filter(|one| one.priority == priority && one.paused >= BLOCKED);
        let graph = Graph::new(blocked);
        found.extend(graph.suspects(priority));
    }
    found.sort_by(|a, b| (b.waiting, a.kind, &a.nodes).cmp(&(a.waiting, b.kind, &b.nodes)));
    found
}

/// The graph of blocked links: for each node, the nodes for which it waits.
#[derive(Default)]
struct Graph<'t> {
    waits_for: BTreeMap<&'t str, BTreeSet<&'t str>>,
    /// For each node, the nodes that wait for it.
    waiting_for: BTreeMap<&'t str, BTreeSet<&'t str>>,
    hosts: BTreeSet<&'t str>,
}

impl<'t> Graph<'t> {
    fn new(blocked: impl Iterator<Item = &'t Transmitter>) -> Graph<'t> {
        let mut graph = Graph::default();
        for Transmitter { node, peer, peer_is_host, .. } in blocked {
            graph.waits_for.entry(node).or_default().insert(peer);
            graph.waits_for.entry(peer).or_default();
            graph.waiting_for.entry(peer).or_default().insert(node);
            if *peer_is_host {
                graph.hosts.insert(peer);
            }
        }
        graph
    }

    /// The shortest cycle of waiting nodes through `start`; `None` if there is none.
    fn circle(&self, start: &'t str) -> Option<Vec<&'t str>> {
        let mut from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for next in &self.waits_for[node] {
                if *next == start {
                    let mut circle = vec![node];
                    while let Some(before) =
                        circle.last().filter(|last| **last != start).and_then(|last| from.get(*last))
                    {
                        circle.push(before);
                    }
                    circle.reverse();
                    return Some(circle);
                }
                if !from.contains_key(next) {
                    from.insert(next, node);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// The nodes that wait, directly or indirectly, for one of the nodes `of`.
    fn upstream(&self, of: &BTreeSet<&'t str>) -> BTreeSet<&'t str> {
        let mut all = of.clone();
        let mut queue: Vec<&str> = of.iter().copied().collect();
        while let Some(node) = queue.pop() {
            for waiting in self.waiting_for.get(node).into_iter().flatten() {
                if all.insert(waiting) {
                    queue.push(waiting);
                }
            }
        }
        all
    }

    /// The nodes that may be on a cycle: the remaining nodes after all nodes that wait for no node, or only for removed
    /// nodes, were removed.
    fn core(&self) -> BTreeSet<&'t str> {
        let mut left: BTreeMap<&str, usize> = self.waits_for.iter().map(|(node, peers)| (*node, peers.len())).collect();
        let mut ends: Vec<&str> = left.iter().filter(|(_, count)| **count == 0).map(|(node, _)| *node).collect();
        while let Some(node) = ends.pop() {
            for waiting in self.waiting_for.get(node).into_iter().flatten() {
                if let Some(count) = left.get_mut(waiting) {
                    *count -= 1;
                    if *count == 0 {
                        ends.push(waiting);
                    }
                }
            }
        }
        left.into_iter().filter(|(_, count)| *count > 0).map(|(node, _)| node).collect()
    }

    fn suspect(&self, kind: Kind, priority: u8, nodes: &[&'t str]) -> PauseSuspect {
        let own: BTreeSet<&str> = nodes.iter().copied().collect();
        let all = self.upstream(&own);
        let links = all.iter().map(|node| self.waits_for[node].iter().filter(|peer| all.contains(*peer)).count()).sum();
        let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        PauseSuspect { kind, priority, waiting: all.len() - nodes.len(), nodes, links }
    }

    fn suspects(&self, priority: u8) -> Vec<PauseSuspect> {
        let mut found = Vec::new();
        let mut in_circle: BTreeSet<&str> = BTreeSet::new();
        for node in self.core() {
            if in_circle.contains(node) {
                continue;
            }
            if let Some(circle) = self.circle(node) {
                in_circle.extend(circle.iter().copied());
                found.push(self.suspect(Kind::Deadlock, priority, &circle));
            }
        }
        for (node, _) in self.waits_for.iter().filter(|(_, peers)| peers.is_empty()) {
            let kind = if self.hosts.contains(node) { Kind::Nic } else { Kind::Switch };
            found.push(self.suspect(kind, priority, &[*node]));
        }
        found
    }
}

/// The transmitters of a simulated run in the last interval of the run, as the counters of all nodes would show them;
/// empty if the run did not record pauses.
pub fn of_run(record: &RunRecord, hosts: u32, interval: Time) -> Vec<Transmitter> {
    let output = &record.output;
    let Some(pauses) = &output.pauses else { return Vec::new() };
    let from = output.end.saturating_sub(interval);
    let mut paused: BTreeMap<(u32, u8), u64> = BTreeMap::new();
    for row in &pauses.log {
        let (begin, end) = (row.from.max(from), row.to.unwrap_or(output.end).min(output.end));
        *paused.entry((row.port, row.priority)).or_default() += end.saturating_sub(begin).as_ps();
    }
    let names: BTreeSet<&str> = output.ports.iter().take(hosts as usize).map(|port| port.node.as_str()).collect();
    let length = (output.end - from).as_ps().max(1) as f64;
    let transmitter = |((port, priority), paused): ((u32, u8), u64)| {
        let port = output.ports.get(port as usize)?;
        Some(Transmitter {
            node: port.node.clone(),
            peer: port.peer.clone(),
            peer_is_host: names.contains(port.peer.as_str()),
            priority,
            paused: paused as f64 / length,
        })
    };
    paused.into_iter().filter_map(transmitter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(links: &[(&str, &str)]) -> Vec<Transmitter> {
        let transmitter = |(node, peer): &(&str, &str)| Transmitter {
            node: node.to_string(),
            peer: peer.to_string(),
            peer_is_host: peer.starts_with('h'),
            priority: 3,
            paused: 0.95,
        };
        links.iter().map(transmitter).collect()
    }

    #[test]
    fn a_circle_is_a_deadlock_and_the_others_wait_for_it() {
        let links = [("t0", "la"), ("la", "t1"), ("t1", "lb"), ("lb", "t0"), ("h1", "t0"), ("h4", "t1"), ("x", "la")];
        let found = suspects(&blocked(&links));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].nodes, ["la", "t1", "lb", "t0"]);
        assert_eq!((found[0].kind, found[0].links, found[0].waiting), (Kind::Deadlock, 7, 3));
        assert_eq!(
            found[0].text(),
            "deadlock in priority 3: la -> t1 -> lb -> t0 -> la wait for each other; 3 other nodes wait for it, over 7 \
             blocked links"
        );
    }

    #[test]
    fn the_end_of_a_chain_is_the_origin() {
        let found = suspects(&blocked(&[("l0", "h0"), ("s", "l0"), ("l1", "s"), ("h5", "l1"), ("h6", "l2")]));
        let origins: Vec<_> = found.iter().map(|one| (one.kind, one.nodes[0].as_str(), one.waiting)).collect();
        assert_eq!(origins, [(Kind::Nic, "h0", 4), (Kind::Switch, "l2", 1)]);
        assert!(found[1].text().contains("1 other node waits for it, over 1 blocked link"), "{}", found[1].text());
    }

    #[test]
    fn links_that_are_paused_now_and_then_are_not_blocked() {
        let mut links = blocked(&[("a", "b"), ("b", "a")]);
        links[0].paused = 0.89;
        // Only one of the two links is blocked, and priorities are evaluated separately.
        assert_eq!(suspects(&links).iter().map(|one| one.kind).collect::<Vec<_>>(), [Kind::Switch]);
        links[0].paused = 1.0;
        links[0].priority = 4;
        assert!(suspects(&links).iter().all(|one| one.kind == Kind::Switch));
        assert!(suspects(&[]).is_empty());
    }
}
