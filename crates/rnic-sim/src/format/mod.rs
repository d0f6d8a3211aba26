//! Formats of other tools: flow lists and topologies of the HPCC simulator, htsim and Graphviz.

// STUB: the functions below stand in for the formats themselves.

use crate::scenario::FabricSetup;
use crate::workload::FlowSpec;
use std::io;

/// How a flow list is written out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowListFormat {
    /// Comma-separated values with a header line.
    Csv,
    /// The HPCC simulator's flow file.
    Hpcc,
    /// htsim's connection matrix.
    Htsim,
}

/// How a topology is written out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopologyFormat {
    /// The HPCC simulator's topology file.
    Hpcc,
    /// htsim's topology file.
    Htsim,
    /// Graphviz.
    Dot,
}

/// Writes a flow list for a fabric of `hosts` hosts.
pub fn write_flows(
    _out: &mut dyn io::Write,
    _format: FlowListFormat,
    _flows: &[FlowSpec],
    _hosts: u32,
) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "writing flow lists is not available in this build",
    ))
}

/// Writes the topology of a fabric.
pub fn write_topology(
    _out: &mut dyn io::Write,
    _format: TopologyFormat,
    _fabric: &FabricSetup,
) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "writing topologies is not available in this build",
    ))
}
