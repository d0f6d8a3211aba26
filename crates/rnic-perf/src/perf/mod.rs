//! Bandwidth and latency between two hosts, in the manner of perftest.
//!
//! One host runs [`serve`], the other [`run`] with a [`Plan`]. The client sends the plan to the server over TCP. A
//! measurement ends in a [`Report`].
//!
//! | operation | bandwidth | latency |
//! |---|---|---|
//! | Write | completions at the client | half a round trip; each side polls the last byte of the other's Write if that is placed last (one packet, or RC, with polled progress); else the Writes carry immediate data |
//! | Send | completions at the client | half a round trip |
//! | Read, atomics | completions at the client | a round trip |
//!
//! [`run_perftest`] measures with a program of perftest on the other side.
//!
//! With [`Plan::verify`] the bytes of message `i` of a queue pair are derived from a seed, the queue pair and `i`, and
//! the receiver compares every byte. The response to an atomic operation must be the value that the previous one
//! stored.

mod bandwidth;
mod client;
mod control;
mod counters;
mod end;
mod latency;
mod pattern;
mod perftest;
mod plan;
mod report;
mod server;

pub use client::run;
pub use counters::Counts;
pub use perftest::run_perftest;
pub use plan::{Amount, DEFAULT_PORT, FaultPlan, Plan, PlanError, SIZES};
pub use report::{Latencies, Report, Row, Side, Unit, Verified};
pub use server::{ServeOptions, Served, serve};

use rnic_endpoint::device::Error;
use rnic_endpoint::exchange::ExchangeError;
use rnic_verbs::Status;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// The plan cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The exchange with the peer failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The peer refuses the plan, for this reason.
    #[error("the peer refuses: {0}")]
    Refused(String),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] Error),
    /// A work request failed.
    #[error("queue pair {queue_pair} failed: {}", describe(*.status))]
    Failed {
        /// Index of the queue pair, from 0.
        queue_pair: usize,
        /// How the work request ended.
        status: Status,
    },
    /// No response.
    #[error("no response for {seconds} s; an unreliable connection does not retransmit a lost message")]
    Lost {
        /// The timeout in seconds.
        seconds: u64,
    },
    /// The measurement was interrupted.
    #[error("interrupted")]
    Interrupted,
}

fn describe(status: Status) -> &'static str {
    match status {
        Status::TransportRetryExceeded => "no response after all retries; does a firewall drop the UDP port?",
        Status::RnrRetryExceeded => "the peer had no receive posted, after all retries",
        Status::RemoteAccess => "the peer's memory does not admit the access",
        Status::RemoteInvalidRequest => "the peer found the request invalid",
        Status::RemoteOperation => "the peer could not carry out the request",
        Status::WorkRequestFlushed => "the queue pair is in the error state",
        Status::BadResponse => "the response does not match the request",
        _ => "the local device refused the request",
    }
}
