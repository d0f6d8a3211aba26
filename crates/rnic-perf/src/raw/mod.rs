//! Throughput and round-trip time of plain UDP datagrams between two hosts: the upper bound for every transport on the
//! same ports.
//!
//! One host runs [`serve`], the other [`throughput`] and [`round_trips`]. They agree on each measurement over TCP; the
//! datagrams go from port to port, without retransmissions, and nobody reads their payload.
//!
//! Throughput is measured with a window: the sender keeps at most [`Case::window`] bytes in flight, so that the
//! receiver's buffer never overflows and the result is the throughput without loss. Without a window it sends as fast
//! as it can, and the receiver counts the datagrams that arrive.

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

/// How datagrams pass through the kernel.
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
    /// All modes.
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
        mode.ok_or_else(|| RawError::Protocol(format!("unknown mode `{text}`; there are plain, gso and gso+gro")))
    }
}

/// A measurement of throughput.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// How datagrams pass through the kernel.
    pub mode: Mode,
    /// UDP payload bytes of each datagram: 1 to 65507, and no more than the path carries without fragmentation.
    pub size: usize,
    /// How long to send.
    pub duration: Time,
    /// Maximum bytes in flight, with at most 4,096 datagrams; `None` for no limit.
    pub window: Option<u64>,
}

/// The result of a measurement of throughput.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throughput {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// UDP payload bytes received.
    pub received_bytes: u64,
    /// From the first arrival to the last.
    pub elapsed: Time,
    /// CPU time of the sending thread, in user and kernel mode.
    pub sender_cpu: Time,
    /// CPU time of the receiving thread, in user and kernel mode.
    pub receiver_cpu: Time,
}

impl Throughput {
    /// Millions of datagrams received per second.
    pub fn million_per_second(&self) -> f64 {
        self.received as f64 / self.elapsed.as_us()
    }
    /// Nanoseconds of CPU time to send and to receive a datagram, including the time in which the threads spin.
    pub fn cpu_ns_per_datagram(&self) -> (f64, f64) {
        let per = |cpu: Time, count: u64| cpu.as_us() * 1e3 / count.max(1) as f64;
        (per(self.sender_cpu, self.sent), per(self.receiver_cpu, self.received))
    }
    /// Gigabytes (10^9) of UDP payload received per second.
    pub fn gigabytes_per_second(&self) -> f64 {
        self.received_bytes as f64 / self.elapsed.as_us() / 1e3
    }
}

/// Round-trip times of single datagrams; both sides poll without sleeping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoundTrips {
    sorted: Vec<Time>,
    /// Datagrams that did not return within 0.1 s.
    pub lost: u64,
}

impl RoundTrips {
    /// The time that `fraction` (0 to 1) of the round trips do not exceed; `None` if no datagram returned.
    pub fn quantile(&self, fraction: f64) -> Option<Time> {
        let last = self.sorted.len().checked_sub(1)?;
        let at = (fraction.clamp(0.0, 1.0) * last as f64).round() as usize;
        self.sorted.get(at).copied()
    }
    /// The number of datagrams that returned.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }
}
