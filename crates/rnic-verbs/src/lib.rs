//! RDMA verbs as a state machine: queue pairs, memory regions, completion queues, on rnic's transports. No sockets, no
//! clocks.
//!
//! A [`Device`] holds the state of one RDMA NIC. Its owner hands in received packets ([`Device::receive`]), takes
//! packets to send ([`Device::transmit`]), passes the time to both, and calls [`Device::on_time`] at
//! [`Device::next_time`]. Applications post work requests and poll completions. The trait [`Verbs`] has the part of it
//! that every NIC offers, with an example.
//!
//! | module | holds |
//! |---|---|
//! | [`types`] | handles, work requests, completions, states, errors |
//! | [`device`] | the device: verbs, packets in and out, timers |
//! | [`queue`] | completion queues and receive queues |
//! | [`flow`] | congestion controls, by name or type |
//! | [`counters`] | counters of a device, reasons for dropped packets |
//! | [`conformance`] | checks of an implementation of [`Verbs`], the trait that layers above a NIC use |
//!
//! Registered memory belongs to the device: an application hands a `Vec<u8>` over and reads and writes the bytes
//! through the device, so no packet can touch memory that is gone. [`ForeignMemory`] stays with the application, for
//! interfaces in other languages; making one is `unsafe`, and its module holds the only `unsafe` code of the crate.
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
pub mod queue;
mod send_queue;
mod table;
pub mod types;
mod verbs;

#[cfg(test)]
extern crate self as rnic_verbs;
#[cfg(test)]
mod wraps;

pub use backing::ForeignMemory;
pub use batch::acknowledges;
pub use common::MAX_EVENTS;
pub use counters::{Counters, Dropped};
pub use device::{Batch, Device, DeviceConfig, Limits};
pub use flow::Congestion;
pub use interface::{Verbs, until_full};
pub use qp::MAX_IN_FLIGHT;
pub use queue::Notify;
pub use types::*;
