//! How fast and how soon plain datagrams are between two hosts: the bound for any transport on top of the same ports.
//!
//! One host runs [`serve`], the other [`throughput`] and [`round_trips`]. They agree on each measurement over TCP; the datagrams
//! go from port to port. Nothing is retransmitted and no payload is looked at.
//!
//! Throughput is measured with a window: the sender keeps at most [`Case::window`] bytes on the way, so that the receiver's buffer never
//! overflows and the result is what arrives without loss. Without a window it sends as fast as it can, and the
//! receiver counts what is left.

mod client;
mod control;
mod server;

pub use client::{round_trips, throughput};
pub use control::RawError;
pub use server::serve;

use rnic_endpoint::port::UdpConfig;
use rnic_transport::Time;
use std::fmt;
use std::str::FromStr;

/// How datagrams pass the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mode {
    /// One by one on both sides.
    Plain,
    /// Sent in batches by `UDP_SEGMENT`, received one by one.
    Segmented,
    /// Sent in batches by `UDP_SEGMENT`, received in batches by `UDP_GRO`.
    Merged,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 3] = [Mode::Plain, Mode::Segmented, Mode::Merged];

    fn config(self) -> UdpConfig {
        let (segmentation, coalescing) = (self != Mode::Plain, self == Mode::Merged);
        UdpConfig { source_ports: 1, segmentation, coalescing, ..UdpConfig::default() }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Plain => "plain",
            Mode::Segmented => "gso",
            Mode::Merged => "gso+gro",
        })
    }
}

impl FromStr for Mode {
    type Err = RawError;
    fn from_str(text: &str) -> Result<Mode, RawError> {
        let mode = Mode::ALL.into_iter().find(|mode| mode.to_string() == text);
        mode.ok_or_else(|| RawError::Protocol(format!("unknown mode `{text}`; one of plain, gso, gso+gro")))
    }
}

/// What to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// How datagrams pass the kernel.
    pub mode: Mode,
    /// UDP payload bytes of each, 1 to 65507 and no more than the path carries in one piece.
    pub size: usize,
    /// How long to send.
    pub duration: Time,
    /// Most bytes on the way, and no more than 4,096 datagrams; `None` for no limit.
    pub window: Option<u64>,
}

/// How many datagrams went through.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throughput {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Bytes that arrived.
    pub received_bytes: u64,
    /// From the first arrival to the last.
    pub elapsed: Time,
    /// CPU time of the sending thread, in the program and in the kernel.
    pub sender_cpu: Time,
    /// CPU time of the receiving thread, in the program and in the kernel.
    pub receiver_cpu: Time,
}

impl Throughput {
    /// Million datagrams that arrived per second.
    pub fn million_per_second(&self) -> f64 {
        self.received as f64 / self.elapsed.as_us()
    }
    /// Nanoseconds of CPU time that sending and receiving a datagram took; a thread that spins while it waits is charged for it.
    pub fn cpu_ns_per_datagram(&self) -> (f64, f64) {
        let per = |cpu: Time, count: u64| cpu.as_us() * 1e3 / count.max(1) as f64;
        (per(self.sender_cpu, self.sent), per(self.receiver_cpu, self.received))
    }
    /// Gigabytes (10^9) of UDP payload that arrived per second.
    pub fn gigabytes_per_second(&self) -> f64 {
        self.received_bytes as f64 / self.elapsed.as_us() / 1e3
    }
}

/// Round-trip times of single datagrams, both sides polling without sleep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoundTrips {
    sorted: Vec<Time>,
    /// Datagrams that did not come back within a tenth of a second.
    pub lost: u64,
}

impl RoundTrips {
    /// The time that `fraction` (0 to 1) of the round trips do not exceed, or `None` if none came back.
    pub fn quantile(&self, fraction: f64) -> Option<Time> {
        let last = self.sorted.len().checked_sub(1)?;
        let at = (fraction.clamp(0.0, 1.0) * last as f64).round() as usize;
        self.sorted.get(at).copied()
    }
    /// How many came back.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }
}
