//! The simulated hosts of a run: their NICs, grouped by fabric partition (the part of the fabric that one thread
//! simulates), and the table of their flows.
//!
//! There are two kinds of simulated NICs: RC-like NICs (module `rc`), which send reliable flows, and message NICs
//! (module `message`). Both use the type `Hosts`, which starts and retires flows, knows the locations of both ends of
//! each flow, and supplies samples. The trait `NicKind` has the steps between two windows of simulated time in which
//! the two kinds differ. The code that sends and receives packets is each kind's implementation of the fabric's
//! [`HostPartition`](rnic_fabric::HostPartition) for `NicPartition`.

mod config;
mod ends;
mod flow_table;
mod hosts;
mod ids;
mod message;
mod message_delays;
mod messages;
mod observer;
mod partition;
mod ranks;
mod rc;
mod slab;
mod stacks;
mod verbs;

pub(crate) use config::DATA_PRIORITY;
pub(crate) use config::{HostConfig, HostTotals, PipelineConfig, ProcessingConfig, StackConfig};
pub use ends::FlowHashes;
pub(crate) use ends::{EndAddress, FlowAddress};
pub use flow_table::flow_hashes;
pub(crate) use flow_table::{FlowTable, Stop};
pub(crate) use hosts::{FlowUnderWay, HostState, Remaining, RunHosts, Skipped};
#[cfg(test)]
pub(crate) use ids::EndSlot;
pub(crate) use ids::FlowId;
pub(crate) use message::{Framing, MessageHosts, MessageSegment};
pub(crate) use observer::Observer;
pub(crate) use rc::RcHosts;
pub use rc::segment::Segment;
pub(crate) use stacks::{SharedHosts, Sharing as LinkSharing, StackHosts};
pub(crate) use verbs::{HostChannel, MultipathSettings, NicSegment, NicTiming, VerbsConfig, VerbsHosts, try_out};
