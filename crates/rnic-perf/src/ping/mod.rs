//! Latency probes between two hosts over unreliable datagrams or reliable connections: `rnic ping`.
//!
//! | module | holds |
//! |---|---|
//! | [`message`] | the datagrams |
//! | [`prober`] | when probes leave, and what became of each; without sockets and clocks |
//! | [`responder`] | which probes are answered; without sockets and clocks |
//! | [`connected`] | reliable connections, which carry probes instead of datagrams |
//! | [`summary`] | statistics of the probes |
//! | here | [`ping`] and [`respond`]: prober and responder on devices, and the exchange over TCP that opens a session |
//!
//! A session begins over TCP. The prober connects to the responder and tells the queue pair at which it receives; the
//! responder tells its own queue pair and the number of the session. The session lasts as long as the TCP connection.
//!
//! ```
//! use rnic_perf::ping::{PingOptions, RespondOptions, ping, respond};
//! use std::net::TcpListener;
//! use std::sync::atomic::{AtomicBool, Ordering};
//!
//! let listener = TcpListener::bind("127.0.0.1:0").unwrap();
//! let host = listener.local_addr().unwrap().to_string();
//! let stop = AtomicBool::new(false);
//! std::thread::scope(|scope| {
//!     // Both sides are on one host, so they cannot both use UDP port 4791; port 0 stands for any free port.
//!     let options = RespondOptions { roce_port: 0, ..RespondOptions::default() };
//!     let responder = scope.spawn(|| respond(&listener, options, &stop, |_| {}));
//!     let options = PingOptions { roce_port: 0, count: Some(1), ..PingOptions::default() };
//!     let summary = ping(&host, &options, &AtomicBool::new(false), |_, _| {}).unwrap();
//!     assert_eq!(summary.answered, 1);
//!     stop.store(true, Ordering::Relaxed);
//!     responder.join().unwrap().unwrap();
//! });
//! ```

pub mod calls;
mod client;
pub mod connected;
pub mod message;
pub mod prober;
pub mod responder;
mod server;
pub mod summary;

pub use client::{PingEvent, PingOptions, ping};
pub use connected::Carrier;
pub use prober::{Outcome, ProbeError, Split, Times};
pub use responder::ResponderCounters;
pub use server::{RespondEvent, RespondOptions, respond};
pub use summary::{Distribution, PathSummary, Summary};

use rnic_endpoint::exchange::{Channel, ExchangeError};
use rnic_endpoint::{DatagramAddress, Error, MemoryRegion, Sge};
use serde::{Deserialize, Serialize};

/// Default TCP port of a responder.
pub const PING_PORT: u16 = 18_516;
/// Version of the exchange over TCP and of the datagrams.
const VERSION: u32 = 1;

/// Why a ping failed as a whole, apart from probes that were lost.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// The exchange with the responder over TCP failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The responder refuses the session; the text is its reason.
    #[error("the responder refuses: {0}")]
    Refused(String),
    /// The local device refused an operation or failed.
    #[error(transparent)]
    Device(#[from] Error),
    /// An option is out of range, or does not fit the path.
    #[error("{0}")]
    Option(String),
}

/// A message of the exchange over TCP.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Control {
    /// The prober asks for a session.
    Hello { ping: u32, prober: DatagramAddress },
    /// The responder opens it.
    Welcome { ping: u32, session: u64, responder: DatagramAddress },
    /// The responder does not.
    Refused { why: String },
}

/// The reason for which a message of the peer is not the expected one.
fn unexpected(channel: &Channel) -> ExchangeError {
    let peer = channel.peer_addr();
    ExchangeError::NotUnderstood { peer, why: "it does not belong there".to_string() }
}

/// Checks the version of the peer.
fn same_version(channel: &Channel, theirs: u32) -> Result<(), ExchangeError> {
    if theirs == VERSION {
        return Ok(());
    }
    let peer = channel.peer_addr();
    let why = format!("{peer} has version {theirs} of ping, this side version {VERSION}; use the same rnic on both");
    Err(ExchangeError::Disagreement(why))
}

/// The memory of datagrams to be sent: a slot for each message, and the zeros that follow it.
pub struct Outbox {
    /// Memory of [`Outbox::len`] bytes, all zero.
    pub region: MemoryRegion,
    /// Number of slots.
    pub slots: usize,
}

impl Outbox {
    /// Length in bytes of the memory for this number of slots.
    pub fn len(slots: usize) -> usize {
        slots * message::MESSAGE + message::MAX_PROBE
    }

    /// Writes a message into its slot; returns the memory of the datagram of `len` bytes.
    ///
    /// # Errors
    /// If the memory is shorter than [`Outbox::len`].
    pub fn write(&self, slot: usize, bytes: &[u8; message::MESSAGE], len: usize) -> Result<[Sge; 2], Error> {
        let at = slot % self.slots * message::MESSAGE;
        self.region.write(at, bytes)?;
        let zeros = self.slots * message::MESSAGE;
        let rest = len.saturating_sub(message::MESSAGE);
        Ok([self.region.slice(at, message::MESSAGE)?, self.region.slice(zeros, rest)?])
    }
}
