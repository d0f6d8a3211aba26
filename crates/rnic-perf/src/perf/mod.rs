//! Bandwidth and latency between two hosts, in the manner of perftest.
//!
//! One host runs [`serve`], the other [`run`] with a [`Plan`]. They talk over TCP; the server learns everything from
//! the client. A measurement ends in a [`Report`].
//!
//! | operation | bandwidth | latency |
//! |---|---|---|
//! | Write | completions at the client | half a round trip; each side waits for the last byte of the other's Write, where it is surely placed last (one packet, or RC, with polled progress), else the Writes carry immediate data |
//! | Send | completions at the client | half a round trip |
//! | Read, atomics | completions at the client | a round trip |
//!
//! [`run_perftest`] measures with a program of perftest on the other side.
//!
//! With [`Plan::verify`] message `i` of a queue pair carries bytes that follow from a seed, the queue pair and `i`, and
//! whoever they arrive at compares every one of them. An atomic operation must bring back what the one before left.

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
    /// What was asked for is not possible.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The conversation with the other side.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The other side cannot do what it is asked to, and says why.
    #[error("the other side says: {0}")]
    Refused(String),
    /// The device.
    #[error(transparent)]
    Device(#[from] Error),
    /// A message did not get through.
    #[error("queue pair {queue_pair} failed: {}", describe(*.status))]
    Failed {
        /// Which one, from 0.
        queue_pair: usize,
        /// How its work request ended.
        status: Status,
    },
    /// Nothing comes back.
    #[error("nothing came back for {seconds} s; on an unreliable connection a lost message is lost")]
    Lost {
        /// How long it was waited for.
        seconds: u64,
    },
    /// Somebody wants it to end.
    #[error("interrupted")]
    Interrupted,
}

fn describe(status: Status) -> &'static str {
    match status {
        Status::TransportRetryExceeded => "the other side did not answer as often as it was asked",
        Status::RnrRetryExceeded => "the other side had no receive as often as it was asked",
        Status::RemoteAccess => "the other side's memory does not admit it",
        Status::RemoteInvalidRequest => "the other side found the request invalid",
        Status::RemoteOperation => "the other side could not carry it out",
        Status::WorkRequestFlushed => "the connection is in error",
        Status::BadResponse => "the answer does not fit the question",
        _ => "it was refused here",
    }
}
