//! Formats of other tools: flow lists and topologies of the HPCC simulator, htsim and Graphviz.
//!
//! [`flows`] and [`topology`] write them; [`list`] reads flow lists.

pub(crate) mod decimal;
pub mod flows;
mod htsim;
pub mod list;
pub mod topology;

pub use flows::{FlowExport, write_flows};
pub use htsim::{FatTreeShape, Tier};
pub use list::{ListFormat, read_flow_list};
pub use topology::{Graph, Link, Node, TopologyExport, write_topology};
