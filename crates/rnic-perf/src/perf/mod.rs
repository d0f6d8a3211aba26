//! Measures bandwidth and latency of RDMA between two hosts, as perftest does.
//!
//! The server runs [`serve`], and the client runs [`run`] with a [`Plan`], which it sends to the server over TCP. The
//! results are a [`Report`]. The table shows the method of measurement for each operation:
//!
//! | operation | bandwidth | latency |
//! |---|---|---|
//! | Write | completions at the client | half a round trip. With polled progress, and if packets of a message are
//! placed in order (RC, or messages of one packet), each end polls the last byte of the peer's Write. Otherwise the
//! Writes carry immediate data |
//! | Send | completions at the client | half a round trip |
//! | Read, atomics | completions at the client | a round trip |
//!
//! [`run_perftest`] measures with a perftest program, such as `ib_write_bw`, as the peer.
//!
//! With [`Plan::verify`] the bytes of message `i` of a queue pair are derived from a seed, the queue pair and `i`, and
//! the receiver compares every byte. The response to an atomic operation must be the value that the previous atomic
//! operation stored.

mod bandwidth;
mod client;
mod control;
mod counters;
mod end;
mod lane;
mod latency;
mod live;
mod pattern;
mod perftest;
mod plan;
mod report;
mod server;

pub use client::run;
pub use counters::Counts;
pub use live::{FaultError, Live, LiveFaults, Meter, Point, QueuePairPoint};
pub use perftest::run_perftest;
pub use plan::{
    Amount, CHANNEL_GIVE_UP_AFTER, Carrier, ChannelPlan, ChannelService, DEFAULT_PORT, FaultPlan, GIVE_UP_AFTER,
    HostTransport, PathSelection, Plan, PlanError, SIZES,
};
pub use report::{Latencies, Report, Row, Side, Unit, Verified};
pub use server::{DEFAULT_MAX_MEMORY, ServeOptions, Served, serve};

use rnic_endpoint::device::Error;
use rnic_endpoint::exchange::ExchangeError;
use rnic_endpoint::host::ChannelError;
use rnic_verbs::Status;
use std::net::SocketAddr;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// The plan is invalid, or one of the two hosts cannot carry it out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The exchange of control messages with the peer over TCP failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The peer refused the plan or has failed; the text is the peer's reason.
    #[error("the peer refuses: {0}")]
    Refused(String),
    /// The local device refused an operation or failed.
    #[error(transparent)]
    Device(#[from] Error),
    /// A channel of a host transport refused an operation or has ended.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A work request failed.
    #[error("queue pair {queue_pair} failed: {}", describe(*.status))]
    Failed {
        /// Index of the queue pair, from 0.
        queue_pair: usize,
        /// Status of the work request's completion.
        status: Status,
    },
    /// The TCP connection works, but not one packet of the server arrived.
    #[error(
        "the TCP connection to {} works, but nothing came back on UDP port {}: does a firewall drop it?",
        .server.ip(),
        .server.port()
    )]
    Blocked {
        /// IP address and UDP port of the server's device.
        server: SocketAddr,
    },
    /// No message arrived in a measurement of latency within the timeout.
    #[error("no response for {seconds} s; an unreliable connection does not retransmit a lost message")]
    Lost {
        /// The timeout in seconds.
        seconds: u64,
    },
    /// The client sent neither a packet nor a message to the server for [`ServeOptions::idle_timeout`].
    #[error("the client sent neither a packet nor a message for {seconds} s")]
    Idle {
        /// Time without a packet or message, in seconds.
        seconds: f64,
    },
    /// The caller interrupted the measurement, by setting `stop`.
    #[error("interrupted")]
    Interrupted,
}

fn describe(status: Status) -> &'static str {
    match status {
        Status::TransportRetryExceeded => "the peer stopped responding, or every retransmission was lost",
        Status::RnrRetryExceeded => "the peer had no receive posted, after all retries",
        Status::RemoteAccess => "the peer's memory does not admit the access",
        Status::RemoteInvalidRequest => "the peer found the request invalid",
        Status::RemoteOperation => "the peer could not carry out the request",
        Status::WorkRequestFlushed => "the queue pair is in the error state",
        Status::BadResponse => "the response does not match the request",
        _ => "the local device refused the request",
    }
}
