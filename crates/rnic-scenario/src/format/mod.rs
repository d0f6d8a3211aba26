//! File formats of flow lists and topologies, among them those of the HPCC simulator, htsim and Graphviz.
//!
//! [`flows`] writes flow lists, [`topology`] writes topologies, [`list`] reads flow lists, and [`import`] reads
//! topologies.

mod astra;
mod connections;
pub(crate) mod decimal;
pub mod flows;
mod htsim;
pub mod import;
pub mod list;
pub(crate) mod server;
pub mod topology;
mod xml;

pub use flows::{FlowExport, write_flows};
pub use htsim::{FatTreeShape, Tier};
pub use import::{Imported, Nvswitches, TopologyFormat, read_topology};
pub use list::{ListFormat, read_flow_list};
pub use topology::{Graph, Link, Node, TopologyExport, write_topology};
