//! A packet-level simulator of a data-center fabric: event engine, links, switches, topologies and routing.
//!
//! The fabric does not depend on a transport protocol: it carries packets between hosts, and only the hosts understand
//! a packet's body. The caller provides the hosts as an implementation of [`PartitionedHosts`].
//!
//! In this example a fabric has two hosts on one switch; host 0 sends one frame of 1,000 bytes to host 1:
//!
//! ```
//! use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
//! use rnic_fabric::{Ending, Fabric, HostId, HostPartition, Packet, PartitionedHosts, SlotId};
//! use rnic_transport::{BitRate, Bytes, Time};
//! use std::ops::ControlFlow;
//!
//! /// The NICs of both hosts: the packet that host 0 sends once the flow has started, and all arrivals.
//! struct Nics {
//!     started: bool,
//!     to_send: Option<Packet<u32>>,
//!     arrived: Vec<(SlotId, Time)>,
//! }
//!
//! impl HostPartition for Nics {
//!     type Body = u32;
//!     fn receive(&mut self, host: SlotId, now: Time, _packet: &Packet<u32>) {
//!         self.arrived.push((host, now));
//!     }
//!     fn next_wake(&self, host: SlotId) -> Time {
//!         if host == SlotId(0) && !self.started { Time::ZERO } else { Time::MAX }
//!     }
//!     fn wake(&mut self, _host: SlotId, _now: Time) {
//!         self.started = true;
//!     }
//!     fn wants_to_transmit(&self, host: SlotId) -> bool {
//!         host == SlotId(0) && self.to_send.is_some()
//!     }
//!     fn transmit(&mut self, _host: SlotId, _now: Time, _paused: u8) -> Option<Packet<u32>> {
//!         self.to_send.take()
//!     }
//! }
//!
//! /// All hosts, in one partition (a part of the fabric that one thread simulates). The only flow starts at time 0.
//! struct Hosts {
//!     partitions: Vec<Nics>,
//!     started: bool,
//! }
//!
//! impl PartitionedHosts for Hosts {
//!     type Partition = Nics;
//!     fn partitions(&mut self) -> &mut Vec<Nics> {
//!         &mut self.partitions
//!     }
//!     fn next_start(&self) -> Time {
//!         if self.started { Time::MAX } else { Time::ZERO }
//!     }
//!     fn open_window(&mut self, _end: Time, wake: &mut dyn FnMut(HostId, Time)) {
//!         self.started = true;
//!         wake(HostId(0), Time::ZERO);
//!     }
//!     fn close_window(&mut self, _end: Time, _hops: u64) -> ControlFlow<()> {
//!         ControlFlow::Continue(())
//!     }
//! }
//!
//! let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 };
//! let switch = SwitchSpec::input_queued(Bytes(240_000));
//! let spec = FabricSpec::new(TopologySpec::SingleSwitch { hosts: 2 }, link, switch);
//! let mut fabric = Fabric::new(&spec, 1)?;
//! let packet = Packet { dst: HostId(1), bytes: 1_000, ..Packet::default() };
//! let mut hosts =
//!     Hosts { partitions: vec![Nics { started: false, to_send: Some(packet), arrived: Vec::new() }], started: false };
//! assert_eq!(fabric.run(&mut hosts), Ending::Idle);
//! // Each of the two links takes 200 ps for each of 1,020 bytes (frame and gap), and 2 us of delay.
//! assert_eq!(hosts.partitions[0].arrived, [(SlotId(1), Time::from_ps(2 * (204_000 + 2_000_000)))]);
//! # Ok::<(), rnic_fabric::TopologyError>(())
//! ```

mod buffer;
mod clocks;
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
mod ids;
mod link_queue;
mod load;
mod mailbox;
mod observed;
mod packet;
mod partition;
mod partition_plan;
mod path;
mod port;
mod prefetch;
pub mod rank_message;
mod ranks;
pub mod rng;
mod routing;
mod scheduler;
mod shortest_paths;
mod stage;
mod switch;
mod tap;
pub mod topology;
mod worker_pool;

pub use diagnose::{Cause, PauseTree, Paused, Wait, pause_tree};
pub use engine::{Counted, Ending, Fabric, LinkState, Watcher, lossless_headroom};
pub use headroom::required_headroom;
pub use hosts::{BodyOf, HostPartition, NextWindow, PartitionedHosts};
pub use ideal::completion_time;
pub use ids::{HostId, PortId, SlotId};
pub use load::Demand;
pub use observed::{ObservedPorts, PortState, PortStates};
pub use packet::{Body, MIN_FRAME, PAUSE_FRAME, Packet};
pub use partition_plan::{Location, PartitionPlan};
pub use port::{Pause, PriorityCounters};
pub use rank_message::RankCodec;
pub use ranks::{RankCosts, RankError, RankGroup, Ranks, local_ranks};
pub use routing::{Routes, buffer_cycle};
pub use shortest_paths::{PathFacts, RoundTripFrames, frames_to_fill, longest_path};
pub use stage::{ProbeResult, ProbeSpec, ReceiverSpec};
pub use switch::{Mitigation, UnknownMac};
pub use tap::{Fate, TapFilter, Tapped};
pub use topology::{Topology, TopologyError};
