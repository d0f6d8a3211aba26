//! A packet-level data-center fabric: event engine, links, switches, topologies and routing.
//!
//! It knows no transport: the hosts implement [`PartitionedHosts`], and only they understand a packet's body.

mod buffer;
pub mod config;
mod cycles;
mod detours;
mod diagnose;
mod ecn;
mod engine;
mod event;
mod headroom;
mod hosts;
mod ideal;
mod packet;
mod partition;
mod partition_plan;
mod path;
mod port;
mod prefetch;
pub mod rng;
mod routing;
mod scheduler;
mod shortest_paths;
mod switch;
pub mod topology;
mod worker_pool;

pub use diagnose::{Cause, PauseTree, Paused, Wait, pause_tree};
pub use engine::{Ending, Fabric, Watcher, lossless_headroom};
pub use headroom::required_headroom;
pub use hosts::{BodyOf, HostPartition, PartitionedHosts};
pub use ideal::completion_time;
pub use packet::{Body, MIN_FRAME, PAUSE_FRAME, Packet};
pub use partition_plan::{Location, PartitionPlan};
pub use port::{Pause, PriorityCounters, Tapped};
pub use routing::{Routes, buffer_cycle};
pub use shortest_paths::{PathFacts, longest_path};
pub use topology::{Topology, TopologyError};
