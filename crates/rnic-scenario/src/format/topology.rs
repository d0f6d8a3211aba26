//! Writes built topologies in the formats of the HPCC simulator, htsim and Graphviz.

use super::htsim::{self, FatTreeShape};
use rnic_transport::{BitRate, Time};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};

/// A topology to write: its nodes, hosts before switches, and its links.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Graph {
    /// The nodes; links refer to a node by its index in this list.
    pub nodes: Vec<Node>,
    /// The full-duplex links between the nodes.
    pub links: Vec<Link>,
}

/// A host or a switch of a topology.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Name of the node, for example `h0` or `edge3`.
    pub name: String,
    /// Whether the node is a switch; otherwise it is a host.
    pub is_switch: bool,
}

/// A full-duplex link between two nodes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Indices of the two nodes in [`Graph::nodes`].
    pub ends: [u32; 2],
    /// Rate of each direction.
    pub rate: BitRate,
    /// Propagation delay of each direction.
    pub delay: Time,
    /// Probability that the link loses a frame.
    pub loss: f64,
}

/// File formats in which a topology can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopologyExport {
    /// The topology file of the HPCC simulator (ns-3).
    Hpcc,
    /// The fat-tree file of the simulator htsim; only for regular trees.
    Htsim,
    /// An undirected graph for Graphviz, hosts at the bottom.
    Dot,
}

impl Graph {
    /// Number of hosts of the topology.
    pub fn hosts(&self) -> usize {
        self.nodes.iter().filter(|node| !node.is_switch).count()
    }

    /// For each node, its distance in links from the nearest host: 0 for hosts, 1 for the switches that hosts are
    /// attached to, and so on; `None` for a node that no host can reach.
    pub fn tiers(&self) -> Vec<Option<u32>> {
        let mut neighbours = vec![Vec::new(); self.nodes.len()];
        for link in &self.links {
            let [a, b] = link.ends.map(|end| end as usize);
            if a.max(b) < neighbours.len() {
                neighbours[a].push(b);
                neighbours[b].push(a);
            }
        }
        let mut tiers: Vec<Option<u32>> = self.nodes.iter().map(|node| (!node.is_switch).then_some(0)).collect();
        let mut reached: VecDeque<usize> = (0..tiers.len()).filter(|&node| tiers[node].is_some()).collect();
        while let Some(node) = reached.pop_front() {
            for &next in &neighbours[node] {
                if tiers[next].is_none() {
                    tiers[next] = tiers[node].map(|tier| tier + 1);
                    reached.push_back(next);
                }
            }
        }
        tiers
    }

    /// Checks that both ends of every link are nodes of the graph.
    fn validate(&self) -> io::Result<()> {
        let nodes = self.nodes.len();
        match self.links.iter().find(|link| link.ends.iter().any(|&end| end as usize >= nodes)) {
            Some(Link { ends: [a, b], .. }) => {
                Err(invalid(format!("a link joins nodes {a} and {b}, but there are {nodes}")))
            }
            None => Ok(()),
        }
    }
}

/// Writes the topology `graph` in `format`. htsim's format describes a regular tree and therefore also needs its
/// `shape`.
///
/// # Errors
/// Errors of `out`; `InvalidInput` with one sentence if the format cannot represent the topology.
pub fn write_topology(
    out: &mut dyn Write, format: TopologyExport, graph: &Graph, shape: Option<&FatTreeShape>,
) -> io::Result<()> {
    graph.validate()?;
    match format {
        TopologyExport::Hpcc => write_hpcc(out, graph),
        TopologyExport::Htsim => htsim::write(out, graph, shape),
        TopologyExport::Dot => write_dot(out, graph),
    }
}

/// An I/O error of kind `InvalidInput` with the message `text`.
pub(super) fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Writes the topology file of the HPCC simulator: the numbers of nodes, switches and links; the indices of the
/// switches; then each link's ends, rate, delay and loss.
fn write_hpcc(out: &mut dyn Write, graph: &Graph) -> io::Result<()> {
    let numbered = graph.nodes.iter().enumerate();
    let switches: Vec<String> =
        numbered.filter(|(_, node)| node.is_switch).map(|(number, _)| number.to_string()).collect();
    writeln!(out, "{} {} {}", graph.nodes.len(), switches.len(), graph.links.len())?;
    writeln!(out, "{}", switches.join(" "))?;
    for Link { ends: [a, b], rate, delay, loss } in &graph.links {
        writeln!(out, "{a} {b} {} {} {loss}", ns3_rate(*rate), ns3_delay(*delay))?;
    }
    Ok(())
}

/// The text of a rate in the syntax of ns-3, such as `40Gbps`: in the largest unit in which the rate is a whole number.
fn ns3_rate(rate: BitRate) -> String {
    let bps = rate.as_bps();
    match bps {
        0 => "0bps".to_string(),
        _ if bps.is_multiple_of(1_000_000_000) => format!("{}Gbps", bps / 1_000_000_000),
        _ if bps.is_multiple_of(1_000_000) => format!("{}Mbps", bps / 1_000_000),
        _ => format!("{bps}bps"),
    }
}

/// The text of a delay in the syntax of ns-3, such as `2000ns`: in nanoseconds, the usual resolution of ns-3, or in
/// picoseconds if the delay is not a whole number of nanoseconds.
fn ns3_delay(delay: Time) -> String {
    let ps = delay.as_ps();
    if ps.is_multiple_of(1_000) { format!("{}ns", ps / 1_000) } else { format!("{ps}ps") }
}

/// Writes the graph for Graphviz, with one rank per tier (distance from the hosts) and the highest tier on top. The
/// label of a link is its rate; its tooltip has rate, delay and loss.
fn write_dot(out: &mut dyn Write, graph: &Graph) -> io::Result<()> {
    let tiers = graph.tiers();
    let mut ranks: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
    for (number, tier) in tiers.iter().enumerate() {
        ranks.entry(*tier).or_default().push(number);
    }
    writeln!(out, "graph topology {{\n  rankdir=TB; ranksep=1.2;")?;
    writeln!(out, "  node [fontname=\"sans-serif\", fontsize=10]; edge [fontname=\"sans-serif\", fontsize=8];")?;
    for rank in ranks.values().rev() {
        writeln!(out, "  {{ rank=same;")?;
        for &number in rank {
            let node = &graph.nodes[number];
            let shape = if node.is_switch { "box" } else { "box, width=0.2, height=0.2, fontsize=7" };
            writeln!(out, "    n{number} [label=\"{}\", shape={shape}];", escaped(&node.name))?;
        }
        writeln!(out, "  }}")?;
    }
    for Link { ends: [a, b], rate, delay, loss } in &graph.links {
        let (upper, lower) = if tiers[*a as usize] < tiers[*b as usize] { (b, a) } else { (a, b) };
        let tooltip = if *loss > 0.0 { format!("{rate}, {delay}, loss {loss}") } else { format!("{rate}, {delay}") };
        writeln!(out, "  n{upper} -- n{lower} [label=\"{rate}\", tooltip=\"{tooltip}\"];")?;
    }
    writeln!(out, "}}")
}

/// Escapes a name for a quoted string of Graphviz.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example: two hosts on a switch, which has a link to a second switch.
    fn small() -> Graph {
        let node = |name: &str, is_switch| Node { name: name.into(), is_switch };
        let link =
            |a, b, gbps, loss| Link { ends: [a, b], rate: BitRate::from_gbps(gbps), delay: Time::from_us(2), loss };
        Graph {
            nodes: vec![node("h0", false), node("h1", false), node("s\"0", true), node("s1", true)],
            links: vec![link(0, 2, 40, 0.0), link(1, 2, 40, 0.001), link(2, 3, 100, 0.0)],
        }
    }

    fn written(format: TopologyExport) -> String {
        let mut out = Vec::new();
        write_topology(&mut out, format, &small(), None).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn hpcc_lists_switches_and_cables() {
        let expected = "4 2 3\n2 3\n0 2 40Gbps 2000ns 0\n1 2 40Gbps 2000ns 0.001\n2 3 100Gbps 2000ns 0\n";
        assert_eq!(written(TopologyExport::Hpcc), expected);
    }

    #[test]
    fn ns3_quantities_are_exact() {
        assert_eq!(ns3_rate(BitRate::from_bps(2_500_000_000)), "2500Mbps");
        assert_eq!(ns3_rate(BitRate::from_bps(1_500)), "1500bps");
        assert_eq!(ns3_delay(Time::from_ps(217_200)), "217200ps");
    }

    #[test]
    fn dot_ranks_the_tiers() {
        let dot = written(TopologyExport::Dot);
        assert!(dot.starts_with("graph topology {\n") && dot.ends_with("}\n"));
        let place = |text: &str| dot.find(text).unwrap_or_else(|| panic!("{text} is not in\n{dot}"));
        assert!(place("n3 [label=\"s1\", shape=box];") < place("n2 [label=\"s\\\"0\", shape=box];"));
        assert!(place("n2 [") < place("n0 [label=\"h0\", shape=box, width=0.2"));
        place("n2 -- n1 [label=\"40 Gbps\", tooltip=\"40 Gbps, 2 us, loss 0.001\"];");
        place("n3 -- n2 [label=\"100 Gbps\", tooltip=\"100 Gbps, 2 us\"];");
    }

    #[test]
    fn tiers_are_distances_from_hosts() {
        let mut graph = small();
        graph.nodes.push(Node { name: "alone".into(), is_switch: true });
        assert_eq!(graph.tiers(), [Some(0), Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn a_cable_to_nowhere_is_an_error() {
        let mut graph = small();
        graph.links[0].ends = [0, 9];
        let error = write_topology(&mut Vec::new(), TopologyExport::Dot, &graph, None).unwrap_err();
        assert_eq!(error.to_string(), "a link joins nodes 0 and 9, but there are 4");
    }
}
