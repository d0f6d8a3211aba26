//! Reliable RDMA transport protocols as pure state machines: no sockets, no clocks, no threads, no payload bytes.

pub mod time;
pub mod units;

pub use time::Time;
pub use units::{BitRate, Bytes};
