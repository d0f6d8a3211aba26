//! RDMA verbs as a state machine: queue pairs, memory regions and completion queues. Loss recovery and congestion
//! control come from the crate `rnic-transport`. The crate uses neither sockets nor clocks.
//!
//! A [`Device`] holds the state of one RDMA NIC. The device's owner is a driver or a simulation. It hands in
//! received packets ([`Device::receive`]) and takes packets to send ([`Device::transmit`]); both functions take the
//! current time. When the time reaches [`Device::next_time`], the owner calls [`Device::on_time`]. Applications post
//! work requests and poll completions. The trait [`Verbs`] holds the verbs that every NIC offers; its documentation has
//! an example.
//!
//! | module | contents |
//! |---|---|
//! | [`types`] | handles, work requests, completions, states, errors |
//! | [`device`] | the device: its verbs, received and sent packets, timers |
//! | [`queue`] | completion queues and receive queues |
//! | [`flow`] | congestion controls of queue pairs, chosen by name or by type |
//! | [`counters`] | counters of a device, and the reasons for which it drops packets |
//! | [`conformance`] | checks of an implementation of [`Verbs`], the trait that software above a NIC uses |
//!
//! Registered memory belongs to the device: an application hands a `Vec<u8>` over, and reads and writes the bytes
//! through the device. So no packet can touch memory that was freed. A [`Buffer`] of another type works like the
//! vector. [`ForeignMemory`] is memory that stays with the application, for interfaces to other languages. Creating a
//! `ForeignMemory` is `unsafe`, and its module holds the only `unsafe` code of the crate.
#![deny(unsafe_code)]

mod backing;
mod batch;
mod common;
mod config;
pub mod conformance;
pub mod counters;
pub mod device;
pub mod flow;
mod interface;
mod memory;
mod packet;
mod qp;
mod qps;
pub mod queue;
mod send_queue;
mod table;
pub mod types;
mod verbs;

#[cfg(test)]
extern crate self as rnic_verbs;
#[cfg(test)]
mod wraps;

pub use backing::{Buffer, ForeignMemory};
pub use batch::{AROUND_PAYLOAD, acknowledges, split_overtaken_ack};
pub use common::MAX_EVENTS;
pub use counters::{Counters, Dropped};
pub use device::{Batch, Device, DeviceConfig, Limits, Shard};
pub use flow::Congestion;
pub use interface::{Verbs, until_full};
pub use qp::MAX_IN_FLIGHT;
pub use qps::{QpnHasher, QpnMap};
pub use queue::Notify;
pub use types::*;
