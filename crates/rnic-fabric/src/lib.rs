//! A packet-level data-center fabric: event engine, links, switches, topologies and routing.
//!
//! It knows no transport: hosts are [`Endpoints`], and a packet's body is theirs.

mod buffer;
pub mod config;
mod detours;
mod diagnose;
mod ecn;
mod endpoint;
mod engine;
mod event;
mod headroom;
mod ideal;
mod packet;
mod part;
mod partition;
mod path;
mod paths;
mod port;
mod prefetch;
pub mod rng;
mod routing;
mod scheduler;
mod switch;
mod team;
pub mod topology;

pub use diagnose::{Cause, PauseTree, Paused, Wait, pause_tree};
pub use endpoint::{BodyOf, Endpoint, Endpoints, Watcher};
pub use engine::{Ending, Fabric, lossless_headroom};
pub use headroom::required_headroom;
pub use ideal::completion_time;
pub use packet::{Body, MIN_FRAME, PAUSE_FRAME, Packet};
pub use partition::{Partition, Place};
pub use paths::{PathFacts, longest_path};
pub use port::{Pause, PriorityCounters, Tapped};
pub use routing::{Routes, buffer_cycle};
pub use topology::{Topology, TopologyError};
