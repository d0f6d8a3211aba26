//! Reads topology files of other simulators: HPCC and its forks, such as ConWeave (ns-3), SimAI, htsim and ASTRA-sim.
//!
//! - **HPCC**: the numbers of nodes, switches and links; the numbers of the switches; then for each link
//!   `node node rate delay loss`, such as `0 4 100Gbps 1000ns 0`. All other nodes are hosts.
//! - **SimAI**: the numbers of nodes, of GPUs per server, of NVSwitches, of other switches and of links, and the type
//!   of the GPUs; the numbers of the NVSwitches and then of the other switches; then the links as in HPCC's files. GPUs
//!   are hosts.
//! - **htsim**: a regular tree of switches, tier by tier (module `tree`).
//! - **ASTRA-sim**: dimensions, of which the last one is a switch between all hosts (module `astra`).
//!
//! A file may come from anybody. So no memory is reserved for a count in a file before the file has as many entries,
//! and no topology is larger than a scenario may describe.

mod ns3;
mod tree;

use super::astra;
use super::topology::Graph;
use crate::graph::Groups;
use rnic_spec::settings::MAX_UPLINKS;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Maximum size of a topology file: 1 GiB, about 30 bytes for each of the links that a fabric may have.
const MAX_FILE: u64 = 1 << 30;

/// Maximum number of links of a topology.
const MAX_LINKS: u64 = MAX_UPLINKS;

/// File formats of topologies that can be read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TopologyFormat {
    /// The topology file of the HPCC simulator and of its forks, such as ConWeave's.
    Hpcc,
    /// The topology file of SimAI.
    Simai,
    /// The fat-tree file of htsim (`.topo`).
    Htsim,
    /// The network file of ASTRA-sim's analytical network (`network.yml`).
    AstraSim,
}

impl TopologyFormat {
    /// The format of the topology file `content`, judged by its first line that is neither empty nor a comment; `None`
    /// if the line fits no format.
    pub fn guess(content: &str) -> Option<TopologyFormat> {
        let first = content.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
        let words: Vec<&str> = first.split_whitespace().collect();
        let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
        match words.len() {
            3 if words.iter().all(is_number) => Some(TopologyFormat::Hpcc),
            6 if words[..5].iter().all(is_number) => Some(TopologyFormat::Simai),
            2 if tree::is_key(words[0]) => Some(TopologyFormat::Htsim),
            _ if astra::is_first(first) => Some(TopologyFormat::AstraSim),
            _ => None,
        }
    }
}

/// What to do with the NVSwitches of SimAI's files, which connect the GPUs of a server with each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Nvswitches {
    /// They are switches like others.
    #[default]
    Keep,
    /// They and their links are left out, so that packets between the GPUs of a server cross the network.
    Omit,
}

/// A topology that was read from a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Imported {
    /// The format of the file.
    pub format: TopologyFormat,
    /// Nodes and links; each host has exactly one link, and all hosts can reach each other.
    pub graph: Graph,
    /// For each host, its number in the file, in ascending order.
    pub numbers: Vec<u32>,
}

/// Reads the topology in the file at `path`, in `format`, or in the format that [`TopologyFormat::guess`] finds.
///
/// # Errors
/// The file cannot be read, or is no topology that can be simulated. The error is one sentence: file, line, what is
/// wrong and what would be accepted.
pub fn read_topology(path: &Path, format: Option<TopologyFormat>, nvswitches: Nvswitches) -> Result<Imported, String> {
    let cannot = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => format!("{}: this topology file does not exist", path.display()),
        _ => format!("{}: cannot read this topology file: {error}", path.display()),
    };
    let mut content = String::new();
    File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut content)).map_err(cannot)?;
    if content.len() as u64 > MAX_FILE {
        return Err(format!("{}: this topology file is too large; accepted: at most 1 GiB", path.display()));
    }
    parse_topology(&content, path, format, nvswitches)
}

/// As [`read_topology`], for the text `content` of a file; `path` is used in error messages only.
///
/// # Errors
/// As for [`read_topology`].
pub fn parse_topology(
    content: &str, path: &Path, format: Option<TopologyFormat>, nvswitches: Nvswitches,
) -> Result<Imported, String> {
    let unknown = || {
        format!(
            "{}: the format of this topology file is unknown; the first line of HPCC's files has three numbers, of SimAI's \
             five numbers and a type of GPU, htsim's files begin with `Nodes`, and ASTRA-sim's with `topology:`",
            path.display()
        )
    };
    let format = format.or_else(|| TopologyFormat::guess(content)).ok_or_else(unknown)?;
    if nvswitches != Nvswitches::default() && format != TopologyFormat::Simai {
        return Err(format!(
            "{}: `nvswitches` has no effect; only SimAI's topology files have NVSwitches",
            path.display()
        ));
    }
    let (graph, numbers) = match format {
        TopologyFormat::Hpcc => ns3::read_hpcc(content),
        TopologyFormat::Simai => ns3::read_simai(content, nvswitches),
        TopologyFormat::Htsim => tree::read(content),
        TopologyFormat::AstraSim => astra::read(content),
    }
    .and_then(|(graph, numbers)| check(&graph).map(|()| (graph, numbers)).map_err(|error| (0, error)))
    .map_err(|(line, error)| match line {
        0 => format!("{}: {error}", path.display()),
        line => format!("{}:{line}: {error}", path.display()),
    })?;
    Ok(Imported { format, graph, numbers })
}

/// Checks that the topology has at least two hosts, each with a link, and a path between any two of them.
fn check(graph: &Graph) -> Result<(), String> {
    let hosts = graph.hosts();
    if hosts < 2 {
        return Err(format!("the topology has {hosts} hosts; a flow needs a sender and a receiver"));
    }
    let mut groups = Groups::new(graph.nodes.len());
    let mut linked = vec![false; graph.nodes.len()];
    for [a, b] in graph.links.iter().map(|link| link.ends.map(|end| end as usize)) {
        (linked[a], linked[b]) = (true, true);
        groups.join(a, b);
    }
    if let Some(host) = (0..hosts).find(|host| !linked[*host]) {
        return Err(format!("the host {} has no link; each host has exactly one", graph.nodes[host].name));
    }
    let first = groups.of(0);
    match (0..hosts).find(|host| groups.of(*host) != first) {
        Some(host) => Err(format!(
            "no path joins the hosts {} and {}; every host must reach every other",
            graph.nodes[0].name, graph.nodes[host].name
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
