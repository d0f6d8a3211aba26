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

/// State of the probes of an established connection. The communication manager of InfiniBand has no message by which an
/// end asks whether its peer still exists, and a process that is killed sends no message. So each end periodically
/// sends an MRA that names no message. Managers of this crate respond with an MRA, and their hosts with a REJ if the
/// connection is unknown. Linux ignores such an MRA, because it ends the connections of killed processes itself: a peer
/// that has never responded stays connected, and is still probed, because its host may later report that the connection
/// is unknown.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Probe {
    /// Whether the peer is known to respond: it has done so, or its device is one of rnic's libibverbs.
    pub(crate) responds: bool,
    /// Consecutive probes without a response.
    pub(crate) unanswered: u8,
}

impl Probe {
    /// Service timeout of an MRA that is a probe.
    pub(crate) const REQUEST: u8 = 31;
    /// Service timeout of the response.
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
    /// Slot in the connection list, while another process has to send the DREQ if this one is killed.
    pub(crate) slot: Option<u32>,
    pub(crate) waiting: Option<Waiting>,
    /// The response to the peer's latest message, to be retransmitted if it was lost.
    pub(crate) response: Option<Box<MadBytes>>,
    pub(crate) deadline: Option<Time>,
}

/// How long a REQ is retransmitted to a peer without a listener, and the time between two REQs. Servers let their
/// clients connect when they are about to listen. Managers of this crate queue such a request, and refuse it after this
/// time. Linux refuses it immediately. Over a NIC the server has started to listen by then; here the REQ arrives
/// earlier.
pub(crate) const LISTENER_WAIT: (Time, Time) = (Time::from_ms(1_000), Time::from_ms(100));

/// Decodes a time of 5 bits: 4.096 us times 2 to the power of the code; at most 275 s, so that no peer can make this
/// end wait for hours.
pub(crate) fn time_of(code: u8) -> Time {
    Time::from_ns(4_096 << u32::from(code.min(26)))
}
