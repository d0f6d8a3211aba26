//! Checks of the links in `[[fabric.link]]`: whether the nodes at both ends exist, and whether the links of a graph
//! topology connect all hosts.

use super::error::ScenarioError;
use super::reader::{Result, Table, did_you_mean};
use rnic_fabric::config::{NamedLink, TopologySpec};
use std::collections::BTreeMap;

/// A link, and the `[[fabric.link]]` table that defines it.
pub(super) type Link<'a> = (NamedLink, Table<'a>);

/// Checks the node names in every `[[fabric.link]]`. In a graph topology, also checks that each host has exactly one
/// link and that all hosts can reach each other.
pub(super) fn check(table: &Table<'_>, topology: &TopologySpec, links: &[Link<'_>]) -> Result<()> {
    match topology {
        TopologySpec::Graph { hosts, switches } => Graph::new(table, hosts, switches)?.check(table, links),
        _ => links.iter().try_for_each(|link| check_existing(topology, link)),
    }
}

/// A node that the `from` or `to` of a link names: the index of a host, or of a switch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    Host(usize),
    Switch(usize),
}

struct Graph<'n> {
    hosts: &'n [String],
    switches: &'n [String],
    nodes: BTreeMap<&'n str, Node>,
}

impl<'n> Graph<'n> {
    fn new(table: &Table<'_>, hosts: &'n [String], switches: &'n [String]) -> Result<Graph<'n>> {
        let mut nodes = BTreeMap::new();
        let hosts_then_switches = hosts.iter().enumerate().map(|(number, name)| ("hosts", name, Node::Host(number)));
        let switch_nodes = switches.iter().enumerate().map(|(number, name)| ("switches", name, Node::Switch(number)));
        for (key, name, node) in hosts_then_switches.chain(switch_nodes) {
            if nodes.insert(name.as_str(), node).is_some() {
                return Err(table.error_at(key, format!("two nodes are called \"{name}\""), "give each its own name"));
            }
        }
        Ok(Graph { hosts, switches, nodes })
    }

    fn check(&self, table: &Table<'_>, links: &[Link<'_>]) -> Result<()> {
        let mut links_of_host = vec![0u32; self.hosts.len()];
        let mut groups = Groups::new(self.hosts.len() + self.switches.len());
        for (link, link_table) in links {
            let ends = self.ends(link, link_table)?;
            for (end, key) in ends.into_iter().zip(["from", "to"]) {
                if let Node::Host(host) = end {
                    links_of_host[host] += 1;
                    if links_of_host[host] > 1 {
                        let message = format!("the host \"{}\" has a second link here", self.hosts[host]);
                        return Err(link_table.error_at(key, message, "each host has exactly one link"));
                    }
                }
            }
            groups.join(self.index(ends[0]), self.index(ends[1]));
        }
        if let Some(host) = links_of_host.iter().position(|links| *links == 0) {
            let message = format!("the host \"{}\" has no link", self.hosts[host]);
            return Err(table.error_at("hosts", message, "each host has exactly one link: add a [[fabric.link]]"));
        }
        let first = groups.of(0);
        if let Some(host) = (0..self.hosts.len()).find(|host| groups.of(*host) != first) {
            let message = format!("the host \"{}\" cannot be reached from \"{}\"", self.hosts[host], self.hosts[0]);
            return Err(table.error_at("hosts", message, "add a [[fabric.link]] that joins their switches"));
        }
        Ok(())
    }

    /// The two nodes that `link` joins; at most one of them may be a host.
    fn ends(&self, link: &NamedLink, table: &Table<'_>) -> Result<[Node; 2]> {
        let ends = [self.node(table, "from", &link.from)?, self.node(table, "to", &link.to)?];
        if ends[0] == ends[1] {
            let message = format!("the link joins \"{}\" to itself", link.from);
            return Err(table.error_at("to", message, "name two nodes"));
        }
        if let [Node::Host(_), Node::Host(_)] = ends {
            let message = format!("the link joins the hosts \"{}\" and \"{}\"", link.from, link.to);
            return Err(table.error_at("to", message, "a host's link goes to a switch"));
        }
        Ok(ends)
    }

    fn node(&self, table: &Table<'_>, key: &str, name: &str) -> Result<Node> {
        let unknown = || {
            let names: Vec<&str> = self.hosts.iter().chain(self.switches).map(String::as_str).collect();
            let help = format!("{}a link joins two of `hosts` and `switches`", did_you_mean(name, &names));
            table.error_at(key, format!("there is no node \"{name}\""), &help)
        };
        self.nodes.get(name).copied().ok_or_else(unknown)
    }

    fn index(&self, node: Node) -> usize {
        match node {
            Node::Host(number) => number,
            Node::Switch(number) => self.hosts.len() + number,
        }
    }
}

/// The connected components of a graph topology, as a disjoint-set forest over its nodes.
pub(crate) struct Groups {
    parents: Vec<usize>,
}

impl Groups {
    /// Creates a forest in which each node is a tree of its own.
    pub(crate) fn new(nodes: usize) -> Groups {
        Groups { parents: (0..nodes).collect() }
    }

    /// The representative of the component of `node`.
    pub(crate) fn of(&mut self, mut node: usize) -> usize {
        while self.parents[node] != node {
            self.parents[node] = self.parents[self.parents[node]];
            node = self.parents[node];
        }
        node
    }

    /// Joins the components of two nodes.
    pub(crate) fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        self.parents[a] = b;
    }
}

/// Checks that a `[[fabric.link]]` names a link that the topology has, if the topology is not a graph.
fn check_existing(topology: &TopologySpec, (link, table): &Link<'_>) -> Result<()> {
    let tiers = tiers(topology);
    for (key, name) in [("from", &link.from), ("to", &link.to)] {
        if !tiers.iter().any(|(prefix, count)| has(prefix, *count, name)) {
            let names: Vec<String> = tiers.iter().map(describe).collect();
            let help = format!("the nodes of this topology: {}", names.join(", "));
            return Err(table.error_at(key, format!("there is no node \"{name}\""), &help));
        }
    }
    if joined(topology, &link.from, &link.to) || joined(topology, &link.to, &link.from) {
        return Ok(());
    }
    Err(no_link(table, link, |_| true))
}

/// The error that the topology does not have the link that a `[[fabric.link]]` changes. `exists` says whether the
/// topology has a node of this name.
pub(super) fn no_link(table: &Table<'_>, link: &NamedLink, exists: impl Fn(&str) -> bool) -> ScenarioError {
    const HELP: &str = "[[fabric.link]] changes a link that this topology has";
    for (key, name) in [("from", &link.from), ("to", &link.to)] {
        if !exists(name) {
            return table.error_at(key, format!("there is no node \"{name}\""), HELP);
        }
    }
    table.error_at("to", format!("no link joins \"{}\" and \"{}\"", link.from, link.to), HELP)
}

/// For each kind of node of a topology that is not a graph, the prefix of the node names and the number of nodes.
/// `None` stands for a single node, whose name is the prefix.
fn tiers(topology: &TopologySpec) -> Vec<(&'static str, Option<u32>)> {
    let hosts = ("h", Some(rnic_spec::hosts(topology)));
    match topology {
        TopologySpec::FatTree { k } => {
            vec![hosts, ("edge", Some(k * k / 2)), ("agg", Some(k * k / 2)), ("core", Some(k * k / 4))]
        }
        TopologySpec::LeafSpine { leaves, spines, .. } => {
            vec![hosts, ("leaf", Some(*leaves)), ("spine", Some(*spines))]
        }
        TopologySpec::MultiPlane { planes, leaves, spines, .. } => {
            vec![hosts, ("leaf", Some(planes * leaves)), ("spine", Some(planes * spines))]
        }
        TopologySpec::LeafSpineCore { pods, leaves_per_pod, spines_per_pod, cores_per_plane, .. } => {
            let (leaves, spines) = (pods * leaves_per_pod, pods * spines_per_pod);
            vec![
                hosts,
                ("leaf", Some(leaves)),
                ("spine", Some(spines)),
                ("core", Some(spines_per_pod * cores_per_plane)),
            ]
        }
        TopologySpec::SingleSwitch { .. } => vec![hosts, ("s0", None)],
        TopologySpec::Dumbbell { .. } => vec![hosts, ("left", None), ("right", None)],
        TopologySpec::Dragonfly { groups, routers_per_group, .. } => {
            vec![hosts, ("router", Some(groups.saturating_mul(*routers_per_group)))]
        }
        TopologySpec::Graph { .. } => vec![],
    }
}

fn has(prefix: &str, count: Option<u32>, name: &str) -> bool {
    match count {
        None => name == prefix,
        Some(count) => number(name, prefix).is_some_and(|number| number < count),
    }
}

/// The index of the host that is called `name`; `None` if the topology has no such host.
pub(super) fn host(topology: &TopologySpec, name: &str) -> Option<u32> {
    match topology {
        TopologySpec::Graph { hosts, .. } => {
            hosts.iter().zip(0..).find(|(host, _)| *host == name).map(|(_, number)| number)
        }
        _ => number(name, "h").filter(|number| *number < rnic_spec::hosts(topology)),
    }
}

/// The number that follows `prefix` in `name`; `None` if `name` is not the prefix and a decimal number without sign and
/// leading zeros.
fn number(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    let number: u32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

fn describe((prefix, count): &(&str, Option<u32>)) -> String {
    match count {
        None => (*prefix).to_string(),
        Some(count) => format!("{prefix}0 to {prefix}{}", count.saturating_sub(1)),
    }
}

/// Whether the topology has a link from the node `lower` up to the node `upper`, which is nearer to the core.
fn joined(topology: &TopologySpec, lower: &str, upper: &str) -> bool {
    let host = number(lower, "h");
    match topology {
        TopologySpec::FatTree { k } => {
            let half = k / 2;
            match (host, number(lower, "edge"), number(lower, "agg")) {
                (Some(host), _, _) => number(upper, "edge") == Some(host / half),
                (_, Some(edge), _) => number(upper, "agg").is_some_and(|agg| agg / half == edge / half),
                (_, _, Some(agg)) => number(upper, "core").is_some_and(|core| core / half == agg % half),
                _ => false,
            }
        }
        TopologySpec::LeafSpine { hosts_per_leaf, .. } => match host {
            Some(host) => number(upper, "leaf") == Some(host / hosts_per_leaf),
            None => number(lower, "leaf").is_some() && number(upper, "spine").is_some(),
        },
        TopologySpec::MultiPlane { leaves, spines, hosts_per_leaf, .. } => match (host, number(lower, "leaf")) {
            (Some(host), _) => number(upper, "leaf") == Some(host / hosts_per_leaf),
            (_, Some(leaf)) => number(upper, "spine").is_some_and(|spine| spine / spines == leaf / leaves),
            _ => false,
        },
        TopologySpec::LeafSpineCore { leaves_per_pod, spines_per_pod, cores_per_plane, hosts_per_leaf, .. } => {
            match (host, number(lower, "leaf"), number(lower, "spine")) {
                (Some(host), _, _) => number(upper, "leaf") == Some(host / hosts_per_leaf),
                (_, Some(leaf), _) => {
                    number(upper, "spine").is_some_and(|spine| spine / spines_per_pod == leaf / leaves_per_pod)
                }
                (_, _, Some(spine)) => {
                    number(upper, "core").is_some_and(|core| core / cores_per_plane == spine % spines_per_pod)
                }
                _ => false,
            }
        }
        TopologySpec::SingleSwitch { .. } => host.is_some() && upper == "s0",
        TopologySpec::Dumbbell { left, .. } => match host {
            Some(host) => upper == if host < *left { "left" } else { "right" },
            None => lower == "left" && upper == "right",
        },
        TopologySpec::Dragonfly { groups, routers_per_group, global_links, hosts_per_router, .. } => {
            let (Some(other), routers) = (number(upper, "router"), *routers_per_group) else { return false };
            let (host, router) = (host, number(lower, "router"));
            if let Some(host) = host {
                return other == host / hosts_per_router;
            }
            let Some(router) = router.filter(|router| *router < other) else { return false };
            let (group, other_group) = (router / routers, other / routers);
            let distance = other_group - group;
            // The ports that lead there and back, for each of the links between the two groups.
            let mut copies = (0..routers * global_links / (groups - 1)).map(|copy| copy * (groups - 1));
            distance == 0
                || copies.any(|ports| {
                    let there = (distance - 1 + ports) / global_links == router % routers;
                    there && (groups - 1 - distance + ports) / global_links == other % routers
                })
        }
        TopologySpec::Graph { .. } => false,
    }
}
