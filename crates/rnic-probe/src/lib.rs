//! Latency probes between two hosts, over unreliable datagrams or reliable connections, with the endpoint in software
//! or a real NIC. `rnic ping` and the agents of `rnic mesh` use this crate.
//!
//! | module | holds |
//! |---|---|
//! | [`message`] | the datagrams |
//! | [`prober`] | decides when probes leave, and computes the outcome of each; without sockets and clocks |
//! | [`responder`] | decides which probes get a response; without sockets and clocks |
//! | [`connections`] | reliable connections, which carry probes instead of datagrams |
//! | [`endpoint`] | their queue pairs on a device of the endpoint |
//! | [`nic`] | datagrams and reliable messages over a real NIC, by the libibverbs that is found at run time |
//! | [`summary`] | statistics of the probes |
//! | crate root | [`ping`] and [`respond`]: prober and responder on devices of the endpoint, and the exchange over TCP that opens a session |
//!
//! A session begins over TCP. The prober connects to the responder and sends the address of its queue pair; the
//! responder sends the address of its own queue pair and the number of the session. The session lasts as long as the
//! TCP connection.
//!
//! ```
//! use rnic_probe::{PingOptions, RespondOptions, ping, respond};
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

#![deny(unsafe_code)]

mod client;
pub mod connections;
pub mod endpoint;
pub mod message;
pub mod nic;
pub mod prober;
pub mod responder;
mod server;
pub mod summary;

pub use client::{PingEvent, PingOptions, ping};
pub use connections::Carrier;
pub use prober::{Outcome, ProbeError, Split, Times};
pub use responder::ResponderCounters;
pub use server::{RespondEvent, RespondOptions, respond};
pub use summary::{Distribution, PathSummary, Summary};

use rnic_endpoint::exchange::{Channel, ExchangeError};
use rnic_endpoint::port::ArrivalTimes;
use rnic_endpoint::{DatagramAddress, Error, MemoryRegion, Sge, VerbsError};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};

/// Default TCP port of a responder.
pub const PING_PORT: u16 = 18_516;
/// Version of the exchange over TCP and of the datagrams.
const VERSION: u32 = 1;

/// The reason why a ping failed as a whole. Lost probes are not an error.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// The exchange with the responder over TCP failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The responder refused the session; the text is the responder's reason.
    #[error("the responder refuses: {0}")]
    Refused(String),
    /// The local device refused an operation or failed.
    #[error(transparent)]
    Device(#[from] Error),
    /// An option is out of range, or does not match the path.
    #[error("{0}")]
    Option(String),
}

/// A message of the exchange over TCP.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Control {
    /// The prober requests a session.
    Hello { ping: u32, prober: DatagramAddress },
    /// The responder opens a session.
    Welcome { ping: u32, session: u64, responder: DatagramAddress },
    /// The responder refuses the session.
    Refused { why: String },
}

/// The error for an unexpected message of the peer.
fn unexpected(channel: &Channel) -> ExchangeError {
    let peer = channel.peer_addr();
    ExchangeError::NotUnderstood { peer, why: "it does not belong there".to_string() }
}

/// Checks the version of the peer.
fn check_version(channel: &Channel, theirs: u32) -> Result<(), ExchangeError> {
    if theirs == VERSION {
        return Ok(());
    }
    let peer = channel.peer_addr();
    let why = format!("{peer} has version {theirs} of ping, this side version {VERSION}; use the same rnic on both");
    Err(ExchangeError::Disagreement(why))
}

/// Why the times of a device's completions are not those at which the kernel received the packets, as a sentence;
/// `None` if they are.
pub fn no_arrival_times(times: ArrivalTimes) -> Option<String> {
    match times {
        ArrivalTimes::Kernel => None,
        ArrivalTimes::NotRequested => Some("nobody asked the kernel for receive time stamps".to_string()),
        ArrivalTimes::Refused(error) => {
            let error = io::Error::from_raw_os_error(error);
            Some(format!("the kernel refuses receive time stamps (SO_TIMESTAMPNS): {error}"))
        }
    }
}

/// Memory of outgoing datagrams: a slot for each message, followed by zeros, which fill the datagram after any message.
pub struct Outbox {
    /// Memory of [`Outbox::len`] bytes, all zero.
    pub region: MemoryRegion,
    /// Number of slots.
    pub slots: usize,
}

impl Outbox {
    /// Length in bytes of the memory for this number of slots.
    pub fn len(slots: usize) -> usize {
        slots * message::MESSAGE_LEN + message::MAX_PROBE
    }

    /// Writes a message into its slot; returns the memory of the datagram of `len` bytes.
    ///
    /// # Errors
    /// If the memory is shorter than [`Outbox::len`].
    pub fn write(&self, slot: usize, bytes: &[u8; message::MESSAGE_LEN], len: usize) -> Result<[Sge; 2], Error> {
        let at = slot % self.slots * message::MESSAGE_LEN;
        self.region.write(at, bytes)?;
        let zeros = self.slots * message::MESSAGE_LEN;
        let rest = len.saturating_sub(message::MESSAGE_LEN);
        Ok([self.region.slice(at, message::MESSAGE_LEN)?, self.region.slice(zeros, rest)?])
    }
}

/// Random bytes of the system.
///
/// # Errors
/// If the system's random numbers cannot be read.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether a datagram was posted. If the send queue is full or the recipient cannot exist, the datagram is
/// lost; this is not a failure of the device.
///
/// # Errors
/// All other errors.
pub fn is_posted(result: Result<(), Error>) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(Error::Verbs(VerbsError::Full(_) | VerbsError::Unsupported(_) | VerbsError::Range { .. })) => Ok(false),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_kernel_is_a_sentence() {
        assert_eq!(no_arrival_times(ArrivalTimes::Kernel), None);
        assert_eq!(
            no_arrival_times(ArrivalTimes::Refused(92)).as_deref(),
            Some("the kernel refuses receive time stamps (SO_TIMESTAMPNS): Protocol not available (os error 92)")
        );
    }
}
