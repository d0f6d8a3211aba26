//! Formats of other tools: flow lists and topologies of the HPCC simulator, htsim and Graphviz.

// STUB: everything below stands in for the formats themselves.

use crate::workload::FlowSpec;
use rnic_fabric::config::{LinkSpec, TopologySpec};
use rnic_transport::{BitRate, Time};
use std::io::{self, Write};

/// Formats of flow lists that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowExport {
    /// Comma-separated values with a header.
    Csv,
    /// The flow file of the HPCC simulator.
    Hpcc,
    /// The connection matrix of htsim.
    Htsim,
}

/// Formats of topologies that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopologyExport {
    /// The topology file of the HPCC simulator.
    Hpcc,
    /// The fat-tree file of htsim.
    Htsim,
    /// An undirected graph for Graphviz.
    Dot,
}

/// A built topology: nodes by number, hosts first, and cables.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Graph {
    /// The nodes; a node's number is its position.
    pub nodes: Vec<Node>,
    /// The cables.
    pub cables: Vec<Cable>,
}

/// A host or a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its name, for example `h0` or `edge3`.
    pub name: String,
    /// Whether it is a switch.
    pub is_switch: bool,
}

/// A full-duplex cable between two nodes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cable {
    /// Numbers of the two nodes.
    pub ends: [u32; 2],
    /// Rate of each direction.
    pub rate: BitRate,
    /// Propagation delay.
    pub delay: Time,
    /// Probability that a frame is lost.
    pub loss: f64,
}

/// A regular tree: all switches of a tier are alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FatTreeShape {}

impl FatTreeShape {
    /// The shape of a fat-tree or a leaf-spine fabric with these host cables; `None` for other topologies.
    pub fn of(_topology: &TopologySpec, _link: &LinkSpec) -> Option<FatTreeShape> {
        None
    }
}

/// Writes `flows` of a network with `hosts` hosts; `total` is how many there are.
pub fn write_flows(
    _out: &mut dyn Write,
    _format: FlowExport,
    _flows: impl Iterator<Item = FlowSpec>,
    _hosts: u32,
    _total: u64,
) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "flow lists are not available in this build",
    ))
}

/// Writes `graph`; htsim's format describes a regular tree, so it also needs the tree's `shape`.
pub fn write_topology(
    _out: &mut dyn Write,
    _format: TopologyExport,
    _graph: &Graph,
    _shape: Option<&FatTreeShape>,
) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "topologies are not available in this build",
    ))
}
