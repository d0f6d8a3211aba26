//! The state of one connection, or of one look-up of a service.

use crate::message::MadBytes;
use rnic_transport::time::Time;
use std::net::IpAddr;

/// States, as in figures 125 and 126 of section 12.9.7.
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
    /// Both sides may send.
    Established,
    /// The DREQ waits for its DREP.
    DisconnectSent,
    /// The connection has ended. Its packets may still be on their way, so its queue pair number rests.
    TimeWait,
    /// The SIDR_REQ waits for its SIDR_REP.
    ServiceSent,
    /// A SIDR_REQ has come; the program has not responded yet.
    ServiceReceived,
    /// The SIDR_REP is remembered for a while, for the case that it is lost.
    ServiceAnswered,
}

/// A message that is retransmitted until its response comes.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) mad: Box<MadBytes>,
    /// Retransmissions that are left.
    pub(crate) retries: u8,
}

/// Probes of an established connection. The communication manager of InfiniBand has no message by which a side asks
/// whether the other one is there, and a process that is killed says nothing. So each side sends now and then an MRA
/// about no message, to which managers of this crate respond with an MRA, and their hosts with a REJ if the connection
/// is unknown. Linux ignores such an MRA, as it ends the connections of killed processes itself: a peer that has never
/// responded stays connected, and is asked on, because its host may say later that the connection is unknown.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Probe {
    /// Whether the peer is known to respond: it has done so, or its device is one of rnic's libibverbs.
    pub(crate) responds: bool,
    /// Probes in a row without a response.
    pub(crate) unanswered: u8,
}

impl Probe {
    /// Service timeout of an MRA that asks for a response.
    pub(crate) const ASK: u8 = 31;
    /// Service timeout of the response.
    pub(crate) const ANSWER: u8 = 0;
}

/// Probes in a row without a response after which a peer is dead.
pub(crate) const PROBES: u8 = 4;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: IpAddr,
    /// Communication ID of the peer; `None` as long as it is unknown.
    pub(crate) remote_id: Option<u32>,
    pub(crate) transaction: u64,
    pub(crate) state: State,
    /// What the program calls the connection; the listener's token until it is adopted.
    pub(crate) token: u64,
    /// Whether the token is that of the listener.
    pub(crate) unnamed: bool,
    /// Whether the program has forgotten the connection, and wants no events.
    pub(crate) orphan: bool,
    /// Whether this side has sent the REQ.
    pub(crate) active: bool,
    /// When this side has sent it first.
    pub(crate) asked: Time,
    /// The service of the REQ or SIDR_REQ.
    pub(crate) service: u64,
    /// Own queue pair number, which a DREQ must name.
    pub(crate) qpn: u32,
    /// Queue pair number of the peer.
    pub(crate) remote_qpn: u32,
    /// How often a message may be retransmitted.
    pub(crate) retries: u8,
    /// Pause between two retransmissions.
    pub(crate) interval: Time,
    /// What is known about the peer of an established connection.
    pub(crate) probe: Probe,
    /// Its slot in the ledger, while the peer has to be told if this process dies.
    pub(crate) slot: Option<u32>,
    pub(crate) waiting: Option<Waiting>,
    /// The response to the peer's latest message, for the case that it is lost.
    pub(crate) response: Option<Box<MadBytes>>,
    pub(crate) deadline: Option<Time>,
}

/// How long a peer on which nobody listens yet is asked again, and the pause between. Programs tell their clients to
/// connect when they are about to listen. Managers of this crate let such a request wait, and refuse it after this
/// time; Linux refuses it at once, and the step is too fast here for the time that it takes over a NIC to be enough.
pub(crate) const ABOUT_TO_LISTEN: (Time, Time) = (Time::from_ms(1_000), Time::from_ms(100));

/// The time that a code of 5 bits stands for: 4.096 us times 2 to the power of the code; at most 275 s, so that no peer
/// can make this side wait for hours.
pub(crate) fn time_of(code: u8) -> Time {
    Time::from_ns(4_096 << u32::from(code.min(26)))
}
