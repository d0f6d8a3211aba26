//! Counters of nodes as Prometheus metrics, for real and simulated networks alike.
//!
//! A source returns [`Reading`]s, and a [`Recorder`] converts each into [`Metrics`](exposition::Metrics). [`simulated`]
//! makes the readings of a simulated run. [`suspects`] finds the ports that cause pauses. [`check`] checks the text
//! format for tests.

pub mod check;
pub mod exposition;
mod reading;
mod recorder;
pub mod simulated;
pub mod suspects;

pub use reading::{Group, Paused, Priority, Queue, Reading};
pub use recorder::Recorder;
