//! The state machine of the connections of one address.
//!
//! The program asks for connections ([`Manager::connect`]) or listens ([`Manager::listen`]), hands over received MADs
//! ([`Manager::handle`]), sends the MADs of [`Manager::poll_transmit`], and takes events from
//! [`Manager::poll_event`]. It calls [`Manager::on_deadline`] at the time of [`Manager::deadline`], at which
//! messages are retransmitted or their connection ends.
//!
//! | module | contents |
//! |---|---|
//! | `receive` | handles received MADs |
//! | `timers` | retransmissions, timeouts, probes |
//! | `half_open` | connections whose peers have not proved their addresses |
//! | `state` | changes of the states of connections, and the messages and events that they cause |

mod half_open;
mod receive;
mod state;
mod timers;

pub use half_open::MessageRate;

use crate::connection::{Connection, State};
use crate::connection_list::{self, Entry, Slots};
use crate::message::{
    About, MadBytes, Message, Parsed, Reject, Reply, Request, ServiceReply, Transmit, private, reason, service_status,
};
use chacha20::ChaCha20Rng;
use half_open::HalfOpen;
use rand_core::{Rng, SeedableRng};
use rnic_transport::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// Bounds of the state of a [`Manager`], and its times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of connections and SIDR requests, those in timewait included. At most 32,768: then a random
    /// communication ID is free after two draws on average.
    pub connections: usize,
    /// Maximum number of retransmissions of a message, at most 15.
    pub retries: u8,
    /// Time between two retransmissions, as a code: 4.096 us times 2 to the power of the code.
    pub response_timeout: u8,
    /// Time that an ended connection, or a SIDR request with a response, stays in timewait.
    pub time_wait: Time,
    /// Time between two probes, which ask the peer of a connection whether it still exists.
    pub probe_interval: Time,
    /// Maximum number of accepted connections whose peers have not confirmed the acceptance. If the program accepts
    /// one more, the oldest ends with [`Event::Unreachable`].
    pub half_open: usize,
    /// Maximum rate of the messages that the manager sends, without being asked, to all peers that have not confirmed
    /// an acceptance. A retransmission beyond this rate is left out.
    pub unconfirmed_rate: MessageRate,
}

impl Default for Limits {
    /// 32,768 connections; a peer that is silent for 8.6 s (15 retransmissions, each after 0.54 s) is unreachable;
    /// ended connections stay in timewait for two seconds; peers are probed every 5 s. At most 4,096 connections are
    /// half open, and unconfirmed peers get at most 100 unsolicited messages per second, with a burst of 64.
    fn default() -> Limits {
        Limits {
            connections: connection_list::MAX_CONNECTIONS,
            retries: 15,
            response_timeout: 17,
            time_wait: Time::from_ms(2_000),
            probe_interval: Time::from_ms(5_000),
            half_open: 4_096,
            unconfirmed_rate: MessageRate { per_second: 100, burst: 64 },
        }
    }
}

/// Code of the service timeout in an MRA: 69 s, as in Linux.
const SERVICE_TIMEOUT: u8 = 24;
/// Maximum backlog of a listener, and the default.
const MAX_BACKLOG: usize = 1_024;
/// Maximum number of requests that are queued for a program that is going to listen. Further requests are ignored, and
/// their senders retransmit them.
const MAX_EARLY_REQUESTS: usize = 16;

/// Why the manager refuses a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ManagerError {
    /// Another identifier already listens on the service ID.
    #[error("another identifier listens on service {0:#x} already")]
    InUse(u64),
    /// The manager already has the maximum number of connections that the limits allow.
    #[error("{0} connections are open, and no more are possible")]
    Full(usize),
    /// No connection has this communication ID.
    #[error("there is no connection {0:#x}")]
    Unknown(u32),
    /// The state of the connection does not allow the call.
    #[error("connection {0:#x} is in another state")]
    State(u32),
    /// The private data is too long.
    #[error("{len} bytes of private data are too many: at most {max}")]
    Private {
        /// Length of the private data in bytes.
        len: usize,
        /// Maximum length in bytes.
        max: usize,
    },
}

/// An event for the program. `token` is the program's name for the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are explained at the variants and in `message`")]
pub enum Event {
    /// A peer requests a connection to a service. The program calls [`Manager::accept`] or [`Manager::reject`].
    Request { listener: u64, connection: u32, peer: IpAddr, request: Box<Request> },
    /// The peer accepts. The program calls [`Manager::establish`] or [`Manager::reject`].
    Reply { token: u64, connection: u32, reply: Box<Reply> },
    /// The peer has confirmed the acceptance.
    Established { token: u64, connection: u32, private: Box<[u8; private::READY]> },
    /// The peer refuses, for [`reason`].
    Rejected { token: u64, connection: u32, reason: u16, private: Box<[u8; private::REJECT]> },
    /// The peer has withdrawn its request, which the program has not adopted.
    Withdrawn { listener: u64, connection: u32 },
    /// The peer does not respond.
    Unreachable { token: u64, connection: u32 },
    /// The connection has ended; `silent` if the peer did not respond to the DREQ, or to probes.
    Disconnected { token: u64, connection: u32, silent: bool },
    /// The ended connection has left timewait: none of its packets is in flight.
    TimewaitExit { token: u64, connection: u32 },
    /// A peer asks for the UD queue pair of a service. The program calls [`Manager::reply_service`].
    ServiceRequest { listener: u64, connection: u32, peer: IpAddr, private: Box<[u8; private::SERVICE_REQUEST]> },
    /// The response to a SIDR request.
    ServiceReply { token: u64, connection: u32, reply: Box<ServiceReply> },
}

struct Listener {
    token: u64,
    backlog: usize,
    /// Requests to which the program has not responded.
    pending: usize,
}

/// A service on which a program has announced that it will listen.
#[derive(Default)]
struct Expected {
    /// Number of identifiers that have announced it.
    count: usize,
    /// The requests that have arrived, with their IDs.
    early: Vec<(IpAddr, MadBytes, u32)>,
}

impl Listener {
    /// Returns the token of the listener, and whether its backlog is full.
    fn state(&self) -> (u64, bool) {
        (self.token, self.pending >= self.backlog)
    }
}

/// The communication manager of an address.
pub struct Manager {
    local: IpAddr,
    /// Lower half of the communication IDs.
    manager_id: u16,
    limits: Limits,
    rng: ChaCha20Rng,
    connections: BTreeMap<u32, Connection>,
    /// Connections that peers have requested, by address and communication ID of the peer.
    requests: BTreeMap<(IpAddr, u32), u32>,
    listeners: BTreeMap<u64, Listener>,
    /// Services of programs that do not listen yet.
    expected: BTreeMap<u64, Expected>,
    deadlines: BTreeSet<(Time, u32)>,
    half_open: HalfOpen,
    /// The connection list: if this process is killed, another process sends the DREQs of these connections.
    slots: Slots,
    out: VecDeque<Transmit>,
    events: VecDeque<Event>,
}

/// Copies private data into a field of `N` bytes; the bytes after the data are 0.
///
/// # Errors
/// If the data is longer than `N` bytes.
pub fn padded<const N: usize>(data: &[u8]) -> Result<[u8; N], ManagerError> {
    let mut out = [0; N];
    out.get_mut(..data.len()).ok_or(ManagerError::Private { len: data.len(), max: N })?.copy_from_slice(data);
    Ok(out)
}

impl Manager {
    /// Makes the manager of the address `local`. `manager_id` is the lower half of all communication IDs of this
    /// manager: if several processes share the address, they find the manager of a message by its manager ID. The upper
    /// half is random, from `seed`, which must be unpredictable.
    pub fn new(local: IpAddr, manager_id: u16, limits: Limits, seed: [u8; 32]) -> Manager {
        Manager {
            local,
            manager_id,
            limits,
            rng: ChaCha20Rng::from_seed(seed),
            connections: BTreeMap::new(),
            requests: BTreeMap::new(),
            listeners: BTreeMap::new(),
            expected: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            half_open: HalfOpen::new(limits.unconfirmed_rate),
            slots: Slots::default(),
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Listens on a service ID. Events about it have the `token`. `backlog` is the maximum number of requests that wait
    /// for the program; 0 for 1,024. Further requests are ignored, and their senders retransmit them.
    ///
    /// # Errors
    /// [`ManagerError::InUse`].
    pub fn listen(&mut self, now: Time, service: u64, token: u64, backlog: usize) -> Result<(), ManagerError> {
        if self.listeners.contains_key(&service) {
            return Err(ManagerError::InUse(service));
        }
        let backlog = if backlog == 0 { MAX_BACKLOG } else { backlog.min(MAX_BACKLOG) };
        self.listeners.insert(service, Listener { token, backlog, pending: 0 });
        let early = self.expected.get_mut(&service).map(|expected| std::mem::take(&mut expected.early));
        for (peer, mad, _) in early.unwrap_or_default() {
            self.handle(now, peer, &mad);
        }
        Ok(())
    }

    /// Announces that an identifier is going to listen on a service ID (`soon` is true), or withdraws the announcement.
    /// Between the announcement and the call of `listen`, the manager queues requests instead of refusing them, because
    /// some servers publish their port before they listen. When the last announcement is withdrawn, the manager refuses
    /// the queued requests.
    pub fn expect_listener(&mut self, service: u64, soon: bool) {
        let expected = self.expected.entry(service).or_default();
        if soon {
            expected.count += 1;
            return;
        }
        expected.count = expected.count.saturating_sub(1);
        if expected.count == 0 {
            let refused = self.expected.remove(&service).map(|expected| expected.early).unwrap_or_default();
            for (peer, mad, _) in refused {
                if let Some(parsed) = Parsed::parse(&mad) {
                    self.respond_to_unmatched(peer, &parsed);
                }
            }
        }
    }

    /// Stops listening on a service ID. The program can still respond to the requests that it has already received.
    pub fn stop_listening(&mut self, service: u64) {
        self.listeners.remove(&service);
    }

    /// Returns a 24-bit number to be used as the first PSN of a queue pair.
    pub fn psn(&mut self) -> u32 {
        self.rng.next_u32() >> 8
    }

    /// Number of connections and SIDR requests.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether the manager has neither connections nor SIDR requests.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Requests a connection with `peer`. `request` is complete except for the fields that the manager sets: the
    /// communication ID, and the retry counts and timeouts of the communication manager. Returns the communication ID.
    ///
    /// # Errors
    /// [`ManagerError::Full`].
    pub fn connect(&mut self, now: Time, token: u64, peer: IpAddr, mut request: Request) -> Result<u32, ManagerError> {
        let id = self.new_id()?;
        request.local_id = id;
        request.max_cm_retries = self.limits.retries;
        request.remote_response_timeout = self.limits.response_timeout;
        request.local_response_timeout = self.limits.response_timeout;
        let transaction = u64::from(self.rng.next_u32()) << 32 | u64::from(id);
        self.insert(id, peer, token, State::RequestSent, transaction, request.service);
        let connection = self.entry(id);
        (connection.qpn, connection.requested_at) = (request.qpn, now);
        self.send_until_answered(now, id, Message::Request(request));
        Ok(id)
    }

    /// Asks `peer` for the UD queue pair of a service by a SIDR_REQ. Returns the request ID.
    ///
    /// # Errors
    /// [`ManagerError::Full`], [`ManagerError::Private`].
    pub fn look_up(
        &mut self, now: Time, token: u64, peer: IpAddr, service: u64, data: &[u8],
    ) -> Result<u32, ManagerError> {
        let private = padded(data)?;
        let id = self.new_id()?;
        let transaction = u64::from(self.rng.next_u32()) << 32 | u64::from(id);
        self.insert(id, peer, token, State::ServiceSent, transaction, service);
        let pkey = crate::packet::PKEY;
        self.send_until_answered(now, id, Message::ServiceRequest { request_id: id, pkey, service, private });
        Ok(id)
    }

    /// Sets the program's token for a connection that a peer has requested.
    pub fn adopt(&mut self, id: u32, token: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.token = token;
            connection.unadopted = false;
        }
    }

    /// Accepts a request. `reply` is complete except for the communication IDs.
    ///
    /// # Errors
    /// [`ManagerError::Unknown`], [`ManagerError::State`].
    pub fn accept(&mut self, now: Time, id: u32, mut reply: Reply) -> Result<(), ManagerError> {
        let connection = self.in_state(id, &[State::RequestReceived])?;
        connection.state = State::ReplySent;
        connection.qpn = reply.qpn;
        reply.local_id = id;
        reply.remote_id = connection.remote_id.unwrap_or(0);
        self.answered(id);
        self.list(id);
        self.send_until_answered(now, id, Message::Reply(reply));
        self.half_opened(id);
        Ok(())
    }

    /// Confirms the peer's acceptance.
    ///
    /// # Errors
    /// [`ManagerError::Unknown`], [`ManagerError::State`].
    pub fn establish(&mut self, now: Time, id: u32) -> Result<(), ManagerError> {
        let connection = self.in_state(id, &[State::ReplyReceived])?;
        connection.state = State::Established;
        let remote_id = connection.remote_id.unwrap_or(0);
        let ready = Message::ReadyToUse { local_id: id, remote_id, private: [0; private::READY] };
        let mad = self.send(id, ready);
        self.entry(id).response = Some(Box::new(mad));
        self.begin_probes(now, id);
        Ok(())
    }

    /// Records that the queue pair of an accepted connection has received a message: the peer's RTU is in flight or
    /// lost.
    ///
    /// # Errors
    /// [`ManagerError::Unknown`], [`ManagerError::State`].
    pub fn communication_established(&mut self, now: Time, id: u32) -> Result<(), ManagerError> {
        self.in_state(id, &[State::ReplySent])?;
        self.confirmed(now, id, [0; private::READY]);
        Ok(())
    }

    /// Rejects a REQ, a REP or a SIDR_REQ; afterwards the connection is unknown.
    ///
    /// # Errors
    /// [`ManagerError::Unknown`], [`ManagerError::State`], [`ManagerError::Private`].
    pub fn reject(&mut self, now: Time, id: u32, reason: u16, data: &[u8]) -> Result<(), ManagerError> {
        if self.in_state(id, &[State::ServiceReceived]).is_ok() {
            return self.reply_service(now, id, service_status::REJECT, 0, 0, data);
        }
        let connection = self.in_state(id, &[State::RequestReceived, State::ReplyReceived])?;
        let about = if connection.state == State::RequestReceived { About::Request } else { About::Reply };
        let remote_id = connection.remote_id.unwrap_or(0);
        let private = padded(data)?;
        let reject = Reject { local_id: id, remote_id, about, reason, info_len: 0, info: [0; 72], private };
        self.send(id, Message::Reject(reject));
        self.forget(id);
        Ok(())
    }

    /// Responds to a SIDR_REQ; afterwards the program must not use its ID.
    ///
    /// # Errors
    /// [`ManagerError::Unknown`], [`ManagerError::State`], [`ManagerError::Private`].
    pub fn reply_service(
        &mut self, now: Time, id: u32, status: u8, qpn: u32, qkey: u32, data: &[u8],
    ) -> Result<(), ManagerError> {
        let connection = self.in_state(id, &[State::ServiceReceived])?;
        let (request_id, service) = (connection.remote_id.unwrap_or(0), connection.service);
        let private = padded(data)?;
        let reply = ServiceReply { request_id, status, qpn, service, qkey, private };
        let mad = self.send(id, Message::ServiceReply(reply));
        self.answered(id);
        let connection = self.entry(id);
        connection.state = State::ServiceAnswered;
        connection.response = Some(Box::new(mad));
        connection.detached = true;
        self.set_deadline(id, Some(now.saturating_add(self.limits.time_wait)));
        Ok(())
    }

    /// Ends a connection. [`Event::Disconnected`] follows.
    ///
    /// # Errors
    /// [`ManagerError::Unknown`]; [`ManagerError::State`] if it is not established.
    pub fn disconnect(&mut self, now: Time, id: u32) -> Result<(), ManagerError> {
        let connection = self.in_state(id, &[State::Established, State::ReplySent])?;
        connection.state = State::DisconnectSent;
        connection.transaction = connection.transaction.wrapping_add(1 << 32);
        let (remote_id, remote_qpn) = (connection.remote_id.unwrap_or(0), connection.remote_qpn);
        let private = [0; private::DISCONNECT];
        let message = Message::Disconnect { local_id: id, remote_id, remote_qpn, private };
        if self.may_send(now, id) {
            self.send_until_answered(now, id, message);
        } else {
            self.wait_for_answer(now, id, message);
        }
        Ok(())
    }

    /// Removes a connection in any state, and notifies the peer. No further event has its token.
    pub fn destroy(&mut self, now: Time, id: u32) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.detached = true;
        match connection.state {
            State::RequestReceived | State::ReplyReceived | State::ServiceReceived => {
                // This call cannot fail: the state of the connection is right, and the private data is empty.
                let _ = self.reject(now, id, reason::CONSUMER, &[]);
            }
            State::RequestSent => {
                self.abandon(now, id);
                self.forget(id);
            }
            State::ServiceSent => self.forget(id),
            State::ReplySent | State::Established => {
                let _ = self.disconnect(now, id);
            }
            State::DisconnectSent | State::TimeWait | State::ServiceAnswered => {}
        }
        let unwanted = |event: &Event| event.connection() != id;
        self.events.retain(unwanted);
    }

    /// Whether a connection is established.
    pub fn is_established(&self, id: u32) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.state == State::Established)
    }

    /// Ends all connections, each by one message, without waiting for the responses, because the process ends.
    pub fn end_all(&mut self, now: Time) {
        let ids: Vec<u32> = self.connections.keys().copied().collect();
        for id in ids {
            self.destroy(now, id);
        }
    }

    /// The next slot of the connection list that has changed, and its new bytes. The caller should write them before it
    /// sends the messages of [`Manager::poll_transmit`]. Slots are below [`connection_list::MAX_CONNECTIONS`].
    pub fn poll_connection_list(&mut self) -> Option<(u32, [u8; connection_list::ENTRY_LEN])> {
        let (slot, connection) = self.slots.poll()?;
        let connection = connection.and_then(|id| Some((id, self.connections.get(&id)?)));
        let bytes = connection.map_or([0; connection_list::ENTRY_LEN], |(local_id, connection)| {
            let Connection { remote_qpn, transaction, peer, .. } = *connection;
            // The DREQ has its own transaction ID, which `disconnect` may have set already.
            let transaction = transaction.wrapping_add(u64::from(connection.state != State::DisconnectSent) << 32);
            Entry { local_id, remote_id: connection.remote_id.unwrap_or(0), remote_qpn, transaction, peer }.bytes()
        });
        Some((slot, bytes))
    }

    /// The next MAD to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

impl Event {
    /// The connection or SIDR request to which the event belongs.
    pub fn connection(&self) -> u32 {
        match self {
            Event::Request { connection, .. }
            | Event::Reply { connection, .. }
            | Event::Established { connection, .. }
            | Event::Rejected { connection, .. }
            | Event::Withdrawn { connection, .. }
            | Event::Unreachable { connection, .. }
            | Event::Disconnected { connection, .. }
            | Event::TimewaitExit { connection, .. }
            | Event::ServiceRequest { connection, .. }
            | Event::ServiceReply { connection, .. } => *connection,
        }
    }
}
