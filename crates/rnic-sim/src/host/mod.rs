//! The simulated hosts of a run: their NICs, by partition of the fabric, and the table of their flows.
//!
//! RC-like NICs (`rc`) and message NICs (`message`) share `Hosts`: it starts and retires flows, knows the
//! locations of both ends of each flow, and answers probes. A `NicKind` adds the steps between windows in which
//! the two kinds differ. Each kind implements the fabric's [`HostPartition`](rnic_fabric::HostPartition) for
//! `NicPartition`: this code sends and receives packets, and is compiled for each kind.

mod config;
mod ends;
mod flow_table;
mod hosts;
mod ids;
mod message;
mod partition;
mod rc;
mod slab;

pub(crate) use config::DATA_PRIORITY;
pub use config::{HostConfig, HostTotals};
pub use ends::FlowHashes;
pub(crate) use ends::{EndAddress, FlowAddress};
pub use flow_table::flow_hashes;
pub(crate) use flow_table::{FlowTable, Stop};
pub(crate) use hosts::{FlowUnderWay, RunHosts};
#[cfg(test)]
pub(crate) use ids::EndSlot;
pub(crate) use message::{Framing, MessageHosts, MessageSegment};
pub(crate) use rc::RcHosts;
pub use rc::segment::Segment;
