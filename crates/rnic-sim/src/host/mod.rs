//! The simulated hosts of a run: their NICs, by partition of the fabric, and the table of their flows.
//!
//! [`Hosts`] is what RC-like NICs ([`rc`]) and message NICs ([`message`]) share: which flows start and end, where the two
//! ends of a flow are, and what probes can read. A [`NicKind`] adds what differs between windows. What a NIC does with a
//! packet is the kind's implementation of the fabric's host trait, and compiled for the kind.

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
