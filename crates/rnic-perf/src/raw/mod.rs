//! Measures throughput and round-trip time of plain UDP datagrams between two hosts. The results are upper bounds for
//! every transport protocol over the same UDP ports.
//!
//! One host runs [`serve`], and the other host runs [`throughput`] and [`round_trips`]. The hosts set up each
//! measurement over TCP. The datagrams are neither acknowledged nor retransmitted, and the receiver does not read their
//! payload.
//!
//! Throughput is measured with a window: the sender keeps at most [`Case::window`] bytes in flight, so that the
//! receiver's buffer does not overflow and the result is the throughput without loss. Without a window the sender sends
//! as fast as it can, and the receiver counts the datagrams that arrive.

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

/// How datagrams pass through the kernel: each by a separate system call, or in batches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mode {
    /// Both ends use a separate system call for each datagram.
    Plain,
    /// The sender sends batches by `UDP_SEGMENT`; the receiver receives datagrams one by one.
    Segmented,
    /// The sender sends batches by `UDP_SEGMENT`; the receiver receives batches by `UDP_GRO`.
    Merged,
}

impl Mode {
    /// All modes, from slow to fast.
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

/// The parameters of one measurement of throughput.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// How datagrams pass through the kernel.
    pub mode: Mode,
    /// UDP payload bytes of each datagram: 1 to 65507, and at most as many as the path MTU allows without
    /// fragmentation.
    pub size: usize,
    /// Time for which the sender sends.
    pub duration: Time,
    /// Maximum UDP payload bytes in flight. With a window, the number of datagrams in flight is also limited, to 4,096.
    /// `None`: unlimited.
    pub window: Option<u64>,
}

/// The result of a measurement of throughput.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throughput {
    /// Number of datagrams sent.
    pub sent: u64,
    /// Number of datagrams received.
    pub received: u64,
    /// Number of UDP payload bytes received.
    pub received_bytes: u64,
    /// Time between the arrival of the first datagram and the arrival of the last one.
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
    /// CPU time per datagram in nanoseconds: first of the sending, then of the receiving thread. It includes the time
    /// in which the threads spin.
    pub fn cpu_ns_per_datagram(&self) -> (f64, f64) {
        let per = |cpu: Time, count: u64| cpu.as_us() * 1e3 / count.max(1) as f64;
        (per(self.sender_cpu, self.sent), per(self.receiver_cpu, self.received))
    }
    /// Gigabytes (10^9) of UDP payload received per second.
    pub fn gigabytes_per_second(&self) -> f64 {
        self.received_bytes as f64 / self.elapsed.as_us() / 1e3
    }
}

/// Result of a measurement of round-trip times. Only one datagram was outstanding at a time, and both ends polled
/// without sleeping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoundTrips {
    sorted: Vec<Time>,
    /// Number of datagrams that did not return within 0.1 s.
    pub lost: u64,
}

impl RoundTrips {
    /// Quantile of the round-trip times: the share `fraction` (0 to 1) of the round-trip times is at most this long.
    /// `None` if no datagram returned.
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
