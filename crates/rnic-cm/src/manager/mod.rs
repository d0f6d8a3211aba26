//! The state machine of the connections of one address.
//!
//! The program asks for connections ([`Manager::connect`]) or listens ([`Manager::listen`]), hands over received MADs
//! ([`Manager::handle`]), sends those of [`Manager::poll_transmit`], and gets to know what happened from
//! [`Manager::poll_event`]. It calls [`Manager::on_deadline`] at the time of [`Manager::deadline`], at which
//! messages are retransmitted or their connection ends.
//!
//! | module | contents |
//! |---|---|
//! | `receive` | what happens when a MAD arrives |
//! | `timers` | what happens when time has passed |
//! | `state` | the states of connections and what leaves them |

mod receive;
mod state;
mod timers;

use crate::connection::{Connection, State};
use crate::ledger::{self, Entry, Slots};
use crate::message::{
    About, MadBytes, Message, Parsed, Reject, Reply, Request, ServiceReply, Transmit, private, reason, service_status,
};
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rnic_transport::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// Bounds of the state of a [`Manager`], and its times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of connections and look-ups, ended ones that rest included; at most 32,768, so that a random
    /// communication ID is soon found.
    pub connections: usize,
    /// How often a message is retransmitted, at most 15.
    pub retries: u8,
    /// Pause between two retransmissions, as a code: 4.096 us times 2 to the power of it.
    pub response_timeout: u8,
    /// The time for which an ended connection or an answered look-up rests.
    pub time_wait: Time,
    /// The time after which the peer of a connection is asked whether it still exists.
    pub probe_interval: Time,
}

impl Default for Limits {
    /// 32,768 connections; a peer that is silent for 8.6 s (15 retransmissions, each after 0.54 s) is unreachable;
    /// ended connections and answered look-ups rest for two seconds; peers are probed every 5 s.
    fn default() -> Limits {
        Limits {
            connections: ledger::MAX,
            retries: 15,
            response_timeout: 17,
            time_wait: Time::from_ms(2_000),
            probe_interval: Time::from_ms(5_000),
        }
    }
}

/// The code of the time that an MRA asks for: 69 s, as Linux does.
const SERVICE_TIMEOUT: u8 = 24;
/// Requests that wait for the program, if it does not say how many it admits.
const BACKLOG: usize = 1_024;
/// Requests that wait for a program that is going to listen on their service. Senders of further ones try again.
const EARLY: usize = 16;

/// Why the manager refuses a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ManagerError {
    /// Somebody listens on the service ID already.
    #[error("somebody listens on service {0:#x} already")]
    InUse(u64),
    /// There are as many connections as the limits admit.
    #[error("{0} connections are open, and no more are possible")]
    Full(usize),
    /// There is no such connection.
    #[error("there is no connection {0:#x}")]
    Unknown(u32),
    /// The connection is in a state in which the call has no meaning.
    #[error("connection {0:#x} is in another state")]
    State(u32),
    /// The private data is too long.
    #[error("{len} bytes of private data are too many: at most {max}")]
    Private {
        /// Their length.
        len: usize,
        /// The maximum.
        max: usize,
    },
}

/// Something that the program should know. `token` is what the program calls the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are explained at the variants and in `message`")]
pub enum Event {
    /// A peer wants a connection with a service. The program calls [`Manager::accept`] or [`Manager::reject`].
    Request { listener: u64, connection: u32, peer: IpAddr, request: Box<Request> },
    /// The peer accepts. The program calls [`Manager::establish`] or [`Manager::reject`].
    Reply { token: u64, connection: u32, reply: Box<Reply> },
    /// The peer has confirmed the acceptance.
    Established { token: u64, connection: u32, private: Box<[u8; private::READY]> },
    /// The peer refuses, for [`reason`].
    Rejected { token: u64, connection: u32, reason: u16, private: Box<[u8; private::REJECT]> },
    /// The peer takes back its request, which the program has not adopted.
    Withdrawn { listener: u64, connection: u32 },
    /// The peer does not respond.
    Unreachable { token: u64, connection: u32 },
    /// The connection has ended; `silent` if the peer did not respond to the wish to end it.
    Disconnected { token: u64, connection: u32, silent: bool },
    /// Nothing of the ended connection is on its way any more.
    Rested { token: u64, connection: u32 },
    /// A peer asks for the UD queue pair of a service. The program calls [`Manager::reply_service`].
    ServiceRequest { listener: u64, connection: u32, peer: IpAddr, private: Box<[u8; private::SERVICE_REQUEST]> },
    /// The answer to a look-up.
    ServiceReply { token: u64, connection: u32, reply: Box<ServiceReply> },
}

struct Listener {
    token: u64,
    backlog: usize,
    /// Requests that wait for the program.
    pending: usize,
}

/// A service of which a program has said that it will listen.
#[derive(Default)]
struct Expected {
    /// How many have said so.
    count: usize,
    /// The requests that have come, with their IDs.
    early: Vec<(IpAddr, MadBytes, u32)>,
}

impl Listener {
    /// Its token, and whether no further request may wait.
    fn state(&self) -> (u64, bool) {
        (self.token, self.pending >= self.backlog)
    }
}

/// The communication manager of an address.
pub struct Manager {
    local: IpAddr,
    /// Lower half of the communication IDs.
    mark: u16,
    limits: Limits,
    rng: ChaCha20Rng,
    connections: BTreeMap<u32, Connection>,
    /// Connections that peers have asked for, by address and communication ID of the peer.
    requests: BTreeMap<(IpAddr, u32), u32>,
    listeners: BTreeMap<u64, Listener>,
    /// Services of programs that do not listen yet.
    expected: BTreeMap<u64, Expected>,
    deadlines: BTreeSet<(Time, u32)>,
    /// Connections whose peers have to be told if this process dies.
    slots: Slots,
    out: VecDeque<Transmit>,
    events: VecDeque<Event>,
}

/// Private data in a field of its full length.
///
/// # Errors
/// If it is too long.
pub fn padded<const N: usize>(data: &[u8]) -> Result<[u8; N], ManagerError> {
    let mut out = [0; N];
    out.get_mut(..data.len()).ok_or(ManagerError::Private { len: data.len(), max: N })?.copy_from_slice(data);
    Ok(out)
}

impl Manager {
    /// The manager of the address `local`. All its communication IDs have the lower half `mark`, so that processes
    /// which
    /// share the address can tell whose they are; the upper half is random, from `seed`, which must be unpredictable.
    pub fn new(local: IpAddr, mark: u16, limits: Limits, seed: [u8; 32]) -> Manager {
        Manager {
            local,
            mark,
            limits,
            rng: ChaCha20Rng::from_seed(seed),
            connections: BTreeMap::new(),
            requests: BTreeMap::new(),
            listeners: BTreeMap::new(),
            expected: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            slots: Slots::default(),
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Listens on a service ID. Events about it have the `token`. `backlog` is the maximum number of requests that
    /// wait for the program; 0 for 1,024. Further ones are ignored, and their senders try again.
    ///
    /// # Errors
    /// [`ManagerError::InUse`].
    pub fn listen(&mut self, now: Time, service: u64, token: u64, backlog: usize) -> Result<(), ManagerError> {
        if self.listeners.contains_key(&service) {
            return Err(ManagerError::InUse(service));
        }
        let backlog = if backlog == 0 { BACKLOG } else { backlog.min(BACKLOG) };
        self.listeners.insert(service, Listener { token, backlog, pending: 0 });
        let early = self.expected.get_mut(&service).map(|expected| std::mem::take(&mut expected.early));
        for (peer, mad, _) in early.unwrap_or_default() {
            self.handle(now, peer, &mad);
        }
        Ok(())
    }

    /// A program will listen on a service ID soon, or not any more. Until it listens, requests wait and are not
    /// refused: some servers tell their port before they listen. Several programs may say so; when none is left, the
    /// requests are refused.
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
                    self.answer_stray(peer, &parsed);
                }
            }
        }
    }

    /// Listens no more. Requests that wait for the program stay.
    pub fn stop_listening(&mut self, service: u64) {
        self.listeners.remove(&service);
    }

    /// A 24-bit number for the first PSN of a queue pair.
    pub fn psn(&mut self) -> u32 {
        self.rng.next_u32() >> 8
    }

    /// Number of connections and look-ups.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there are no connections.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Asks `peer` for a connection. `request` is complete but for its communication ID and the numbers of retries and
    /// the timeouts of the communication manager, which the manager sets. Returns the communication ID.
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
        (connection.qpn, connection.asked) = (request.qpn, now);
        self.send_until_answered(now, id, Message::Request(request));
        Ok(id)
    }

    /// Asks `peer` for the UD queue pair of a service. Returns the ID of the look-up.
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

    /// Gives a connection that a peer has asked for the program's own name.
    pub fn adopt(&mut self, id: u32, token: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.token = token;
            connection.unnamed = false;
        }
    }

    /// Accepts a request. `reply` is complete but for the communication IDs.
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
        self.enter(id);
        self.send_until_answered(now, id, Message::Reply(reply));
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

    /// The queue pair of an accepted connection has received a message: the peer's RTU is on its way or lost.
    ///
    /// # Errors
    /// [`ManagerError::Unknown`], [`ManagerError::State`].
    pub fn communication_established(&mut self, now: Time, id: u32) -> Result<(), ManagerError> {
        self.in_state(id, &[State::ReplySent])?;
        self.confirmed(now, id, [0; private::READY]);
        Ok(())
    }

    /// Refuses a request or an acceptance, or a look-up; afterwards the connection is unknown.
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

    /// Answers a look-up; afterwards the program has no more to do with it.
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
        connection.orphan = true;
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
        self.send_until_answered(now, id, Message::Disconnect { local_id: id, remote_id, remote_qpn, private });
        Ok(())
    }

    /// Forgets a connection, whatever its state. The peer is told. No further event has its token.
    pub fn destroy(&mut self, now: Time, id: u32) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.orphan = true;
        match connection.state {
            State::RequestReceived | State::ReplyReceived | State::ServiceReceived => {
                // It has the right state, and no data.
                let _ = self.reject(now, id, reason::CONSUMER, &[]);
            }
            State::RequestSent => {
                self.abandon(id);
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

    /// Ends all connections, each by one message whose response is not awaited: the process ends.
    pub fn end_all(&mut self, now: Time) {
        let ids: Vec<u32> = self.connections.keys().copied().collect();
        for id in ids {
            self.destroy(now, id);
        }
    }

    /// The next slot of the ledger that has changed, and its new bytes. They should be written before the messages of
    /// [`Manager::poll_transmit`] are sent. Slots are below [`ledger::MAX`].
    pub fn poll_ledger(&mut self) -> Option<(u32, [u8; ledger::LEN])> {
        let (slot, connection) = self.slots.poll()?;
        let connection = connection.and_then(|id| Some((id, self.connections.get(&id)?)));
        let bytes = connection.map_or([0; ledger::LEN], |(local_id, connection)| {
            let Connection { remote_qpn, transaction, peer, .. } = *connection;
            // The DREQ has a transaction of its own, which `disconnect` has begun already.
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
    /// The connection or look-up to which the event belongs.
    pub fn connection(&self) -> u32 {
        match self {
            Event::Request { connection, .. }
            | Event::Reply { connection, .. }
            | Event::Established { connection, .. }
            | Event::Rejected { connection, .. }
            | Event::Withdrawn { connection, .. }
            | Event::Unreachable { connection, .. }
            | Event::Disconnected { connection, .. }
            | Event::Rested { connection, .. }
            | Event::ServiceRequest { connection, .. }
            | Event::ServiceReply { connection, .. } => *connection,
        }
    }
}
