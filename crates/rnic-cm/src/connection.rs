//! The state of one connection, or of one look-up of a service.

use crate::message::MadBytes;
use rnic_transport::time::Time;
use std::net::IpAddr;

/// States of a connection, as in figures 125 and 126 of section 12.9.7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The REQ waits for its REP.
    RequestSent,
    /// A REP has come; the program has not confirmed it yet.
    ReplyReceived,
    /// A REQ has come; the program has not responded yet.
    RequestReceived,
    /// The REP waits for its RTU.
    ReplySent,
    /// Both ends may send.
    Established,
    /// The DREQ waits for its DREP.
    DisconnectSent,
    /// The connection has ended. Its packets may still be in flight, so its queue pair number must not be used again.
    TimeWait,
    /// The SIDR_REQ waits for its SIDR_REP.
    ServiceSent,
    /// A SIDR_REQ has come; the program has not responded yet.
    ServiceReceived,
    /// The SIDR_REP is kept for a while, to be retransmitted if it was lost.
    ServiceAnswered,
}

/// A message that is retransmitted until its response comes.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) mad: Box<MadBytes>,
    /// Retransmissions that are left.
    pub(crate) retries: u8,
}

/// State of the probes by which an end checks whether the peer of an established connection still exists. InfiniBand's
/// communication manager has no message for this purpose, and a killed process sends no message. So each end
/// periodically sends a probe: an MRA that names no message. A manager of this crate that knows the connection responds
/// with an MRA; if the connection is unknown, the manager's host responds with a REJ. Linux ignores such an MRA,
/// because the kernel ends the connections of killed processes itself. So a connection stays established if its peer
/// has never responded to a probe. The probes of such a peer continue, because the peer's host may later report that
/// the connection is unknown.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Probe {
    /// Whether the peer is known to respond to probes: it has responded before, or its device belongs to rnic's
    /// libibverbs.
    pub(crate) responds: bool,
    /// Consecutive probes without a response.
    pub(crate) unanswered: u8,
}

impl Probe {
    /// Service timeout in an MRA that is a probe.
    pub(crate) const REQUEST: u8 = 31;
    /// Service timeout in an MRA that responds to a probe.
    pub(crate) const RESPONSE: u8 = 0;
}

/// Consecutive probes without a response after which a peer is considered dead.
pub(crate) const MAX_UNANSWERED_PROBES: u8 = 4;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: IpAddr,
    /// Communication ID of the peer; `None` as long as it is unknown.
    pub(crate) remote_id: Option<u32>,
    pub(crate) transaction: u64,
    pub(crate) state: State,
    /// The program's token for the connection; the listener's token until the program adopts the connection.
    pub(crate) token: u64,
    /// Whether `token` is still the token of the listener.
    pub(crate) unadopted: bool,
    /// Whether the program has destroyed its identifier, and gets no more events of the connection.
    pub(crate) detached: bool,
    /// Whether this end has sent the REQ.
    pub(crate) active: bool,
    /// Whether the peer has confirmed the REP of this end, which proves the peer's address.
    pub(crate) confirmed: bool,
    /// Number of this connection among the half-open ones, if it is half open.
    pub(crate) half_open: Option<u64>,
    /// When this end sent the REQ for the first time.
    pub(crate) requested_at: Time,
    /// The service of the REQ or SIDR_REQ.
    pub(crate) service: u64,
    /// Own queue pair number, which a DREQ must name.
    pub(crate) qpn: u32,
    /// Queue pair number of the peer.
    pub(crate) remote_qpn: u32,
    /// How often a message may be retransmitted.
    pub(crate) retries: u8,
    /// Time between two retransmissions.
    pub(crate) interval: Time,
    /// Probes of the peer of an established connection.
    pub(crate) probe: Probe,
    /// Slot of this connection in the connection list, from which another process sends the DREQ if this process is
    /// killed.
    pub(crate) slot: Option<u32>,
    pub(crate) waiting: Option<Waiting>,
    /// The response to the peer's latest message, to be retransmitted if it was lost.
    pub(crate) response: Option<Box<MadBytes>>,
    pub(crate) deadline: Option<Time>,
}

/// Time for which a REQ is retransmitted to a peer without a listener, and the time between two such REQs. Some servers
/// let their clients connect shortly before they listen. Managers of this crate queue such an early REQ, and refuse it
/// after this time; Linux refuses it immediately. With a NIC, the server listens before the REQ arrives; with this
/// library the REQ arrives earlier.
pub(crate) const LISTENER_WAIT: (Time, Time) = (Time::from_ms(1_000), Time::from_ms(100));

/// Decodes a time of 5 bits: 4.096 us times 2 to the power of the code; at most 275 s, so that no peer can make this
/// end wait for hours.
pub(crate) fn time_of(code: u8) -> Time {
    Time::from_ns(4_096 << u32::from(code.min(26)))
}
