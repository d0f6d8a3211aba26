//! The datagram layer of a RoCEv2 endpoint in user space: where packets leave and arrive, what time it is, and how to wait.
//!
//! It knows neither packets nor queue pairs: a datagram is a slice of bytes. Linux only.
//!
//! | module | holds |
//! |---|---|
//! | [`port`] | datagrams in batches: UDP sockets, a pair in memory, a port with faults |
//! | [`clock`] | monotonic time |
//! | [`idle`] | what a progress loop does between two packets: spin or sleep |
//! | [`raw`] | how fast and how soon plain datagrams are: the bound for any transport on top |

#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("rnic-endpoint needs Linux: it uses UDP_SEGMENT, UDP_GRO and control messages of Linux sockets");

pub mod clock;
pub mod idle;
pub mod port;
pub mod raw;

pub use clock::{Clock, TimeSource};
pub use port::{Arrival, Batch, FaultyPort, Port, UdpPort};
