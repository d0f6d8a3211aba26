//! The state machine of the connections of one address.
//!
//! The program asks for connections ([`Manager::connect`]) or listens ([`Manager::listen`]), hands over received MADs
//! ([`Manager::handle`]), sends those of [`Manager::poll_transmit`], and gets to know what happened from
//! [`Manager::poll_event`]. It calls [`Manager::on_deadline`] at the time of [`Manager::deadline`], at which
//! messages are retransmitted or their connection ends.

use crate::connection::{Connection, State, Waiting, time_of};
use crate::message::{
    About, MadBytes, Message, Parsed, Reject, Reply, Request, ServiceReply, private, reason, service_status,
};
use crate::{ip, stray};
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
}

impl Default for Limits {
    /// 32,768 connections; a peer that is silent for 8.6 s (15 retransmissions, each after 0.54 s) is unreachable;
    /// ended
    /// connections and answered look-ups rest for two seconds.
    fn default() -> Limits {
        Limits { connections: MAX_CONNECTIONS, retries: 15, response_timeout: 17, time_wait: Time::from_ms(2_000) }
    }
}

/// Half of the communication IDs of a process.
const MAX_CONNECTIONS: usize = 1 << 15;
/// The code of the time that an MRA asks for: 69 s, as Linux does.
const SERVICE_TIMEOUT: u8 = 24;
/// Requests that wait for the program, if it does not say how many it admits.
const BACKLOG: usize = 1_024;

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

/// A MAD to send to UDP port 4791 of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The address.
    pub peer: IpAddr,
    /// The MAD.
    pub mad: MadBytes,
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
    expected: BTreeSet<u64>,
    deadlines: BTreeSet<(Time, u32)>,
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
            expected: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Listens on a service ID. Events about it have the `token`. `backlog` is the maximum number of requests that
    /// wait for the program; 0 for 1,024. Further ones are ignored, and their senders try again.
    ///
    /// # Errors
    /// [`ManagerError::InUse`].
    pub fn listen(&mut self, service: u64, token: u64, backlog: usize) -> Result<(), ManagerError> {
        if self.listeners.contains_key(&service) {
            return Err(ManagerError::InUse(service));
        }
        let backlog = if backlog == 0 { BACKLOG } else { backlog.min(BACKLOG) };
        self.listeners.insert(service, Listener { token, backlog, pending: 0 });
        Ok(())
    }

    /// A program will listen on a service ID soon, or not any more. Until it listens, requests are ignored and not
    /// refused, so that their senders try again: some servers tell their port before they listen.
    pub fn expect_listener(&mut self, service: u64, soon: bool) {
        if soon {
            self.expected.insert(service);
        } else {
            self.expected.remove(&service);
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

    fn new_id(&mut self) -> Result<u32, ManagerError> {
        if self.connections.len() >= self.limits.connections.min(MAX_CONNECTIONS) {
            return Err(ManagerError::Full(self.connections.len()));
        }
        loop {
            let id = self.rng.next_u32() << 16 | u32::from(self.mark);
            if id != 0 && !self.connections.contains_key(&id) {
                return Ok(id);
            }
        }
    }

    fn insert(&mut self, id: u32, peer: IpAddr, token: u64, state: State, transaction: u64, service: u64) {
        let connection = Connection {
            peer,
            remote_id: None,
            transaction,
            state,
            token,
            orphan: false,
            active: matches!(state, State::RequestSent | State::ServiceSent),
            service,
            qpn: 0,
            remote_qpn: 0,
            retries: self.limits.retries,
            waiting: None,
            response: None,
            deadline: None,
        };
        self.connections.insert(id, connection);
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
        self.entry(id).qpn = request.qpn;
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
        self.send_until_answered(now, id, Message::Reply(reply));
        Ok(())
    }

    /// Confirms the peer's acceptance.
    ///
    /// # Errors
    /// [`ManagerError::Unknown`], [`ManagerError::State`].
    pub fn establish(&mut self, id: u32) -> Result<(), ManagerError> {
        let connection = self.in_state(id, &[State::ReplyReceived])?;
        connection.state = State::Established;
        let remote_id = connection.remote_id.unwrap_or(0);
        let ready = Message::ReadyToUse { local_id: id, remote_id, private: [0; private::READY] };
        let mad = self.send(id, ready);
        self.entry(id).response = Some(Box::new(mad));
        Ok(())
    }

    /// The queue pair of an accepted connection has received a message: the peer's RTU is on its way or lost.
    ///
    /// # Errors
    /// [`ManagerError::Unknown`], [`ManagerError::State`].
    pub fn communication_established(&mut self, id: u32) -> Result<(), ManagerError> {
        self.in_state(id, &[State::ReplySent])?;
        self.confirmed(id, [0; private::READY]);
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

    /// The next MAD to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Manager::on_deadline`] has to be called.
    pub fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(time, _)| *time)
    }

    /// Retransmits messages whose response has not come in time, or gives them up.
    pub fn on_deadline(&mut self, now: Time) {
        while let Some((time, id)) = self.deadlines.first().copied().filter(|(time, _)| *time <= now) {
            debug_assert!(time <= now);
            self.set_deadline(id, None);
            let interval = time_of(self.limits.response_timeout);
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            if let Some(waiting) = connection.waiting.as_mut().filter(|waiting| waiting.retries > 0) {
                waiting.retries -= 1;
                self.out.push_back(Transmit { peer: connection.peer, mad: *waiting.mad });
                self.set_deadline(id, Some(now.saturating_add(interval)));
                continue;
            }
            let token = connection.token;
            match connection.state {
                State::TimeWait => {
                    self.raise(id, Event::Rested { token, connection: id });
                    self.forget(id);
                }
                State::DisconnectSent => self.ended(now, id, true),
                State::ServiceAnswered => self.forget(id),
                _ => {
                    self.abandon(id);
                    self.raise(id, Event::Unreachable { token, connection: id });
                    self.forget(id);
                }
            }
        }
    }

    /// Handles a MAD that came from `peer`.
    pub fn handle(&mut self, now: Time, peer: IpAddr, mad: &MadBytes) {
        let Some(parsed) = Parsed::parse(mad) else { return };
        match &parsed.message {
            Message::Request(request) => self.on_request(peer, &parsed, request),
            Message::ServiceRequest { request_id, service, private, .. } => {
                self.on_service_request(peer, &parsed, *request_id, *service, private);
            }
            message => {
                let Some(id) = self.connection_of(peer, message) else {
                    self.answer_stray(peer, &parsed);
                    return;
                };
                self.on_message(now, id, &parsed);
            }
        }
    }

    fn answer_stray(&mut self, peer: IpAddr, parsed: &Parsed) {
        if let Some(answer) = stray::answer(parsed) {
            self.out.push_back(Transmit { peer, mad: answer.emit() });
        }
    }

    /// The connection to which a message of `peer` belongs, with the communication IDs of both sides.
    fn connection_of(&self, peer: IpAddr, message: &Message) -> Option<u32> {
        let (local, remote) = match message {
            Message::Mra { local_id, remote_id, .. }
            | Message::ReadyToUse { local_id, remote_id, .. }
            | Message::Disconnect { local_id, remote_id, .. }
            | Message::Disconnected { local_id, remote_id, .. } => (*remote_id, Some(*local_id)),
            Message::Reply(reply) => (reply.remote_id, Some(reply.local_id)),
            Message::ServiceReply(reply) => (reply.request_id, None),
            // Who waited for a response in vain does not know the other side's ID.
            Message::Reject(reject) if reject.remote_id == 0 && reject.reason == reason::TIMEOUT => {
                return self.requests.get(&(peer, reject.local_id)).copied();
            }
            Message::Reject(reject) => (reject.remote_id, Some(reject.local_id)),
            Message::Request(_) | Message::ServiceRequest { .. } => return None,
        };
        let connection = self.connections.get(&local).filter(|connection| connection.peer == peer)?;
        let matches = match (connection.remote_id, remote) {
            (Some(known), Some(remote)) => known == remote,
            // As long as the ID of the peer is unknown, only the response to the REQ or SIDR_REQ can come.
            (None, _) => matches!(connection.state, State::RequestSent | State::ServiceSent),
            (Some(_), None) => false,
        };
        matches.then_some(local)
    }

    fn on_request(&mut self, peer: IpAddr, parsed: &Parsed, request: &Request) {
        if let Some(id) = self.requests.get(&(peer, request.local_id)).copied() {
            self.on_repeated_request(id, request);
            return;
        }
        let reject = |manager: &mut Manager, reason| {
            let message = Message::Reject(stray::rejection(request.local_id, reason));
            let answer = Parsed { transaction: parsed.transaction, message };
            manager.out.push_back(Transmit { peer, mad: answer.emit() });
        };
        let Some((token, is_full)) = self.listeners.get(&request.service).map(Listener::state) else {
            if self.expected.contains(&request.service) {
                return;
            }
            return self.answer_stray(peer, parsed);
        };
        if request.transport > 1 {
            return reject(self, reason::INVALID_TRANSPORT);
        }
        if !(1..=5).contains(&request.mtu) {
            return reject(self, reason::INVALID_MTU);
        }
        // A peer must not make this side speak to somebody else.
        if request.path.local_gid != ip::gid(peer) || request.path.remote_gid != ip::gid(self.local) || request.qpn < 2
        {
            return reject(self, reason::INVALID_GID);
        }
        if is_full {
            return;
        }
        let Ok(id) = self.new_id() else { return };
        self.insert(id, peer, token, State::RequestReceived, parsed.transaction, request.service);
        let connection = self.entry(id);
        connection.remote_id = Some(request.local_id);
        connection.remote_qpn = request.qpn;
        connection.retries = request.max_cm_retries.max(1);
        self.asked(id, peer, request.local_id, request.service);
        let request = Box::new(*request);
        self.events.push_back(Event::Request { listener: token, connection: id, peer, request });
    }

    fn on_service_request(
        &mut self, peer: IpAddr, parsed: &Parsed, request_id: u32, service: u64,
        private: &[u8; private::SERVICE_REQUEST],
    ) {
        if let Some(id) = self.requests.get(&(peer, request_id)) {
            // A repeated one: the answer was lost, or the program is still at it.
            if let Some(mad) = self.connections.get(id).and_then(|connection| connection.response.as_deref()) {
                self.out.push_back(Transmit { peer, mad: *mad });
            }
            return;
        }
        let Some((token, is_full)) = self.listeners.get(&service).map(Listener::state) else {
            return self.answer_stray(peer, parsed);
        };
        if is_full {
            return;
        }
        let Ok(id) = self.new_id() else { return };
        self.insert(id, peer, token, State::ServiceReceived, parsed.transaction, service);
        self.entry(id).remote_id = Some(request_id);
        self.asked(id, peer, request_id, service);
        let private = Box::new(*private);
        self.events.push_back(Event::ServiceRequest { listener: token, connection: id, peer, private });
    }

    /// Notes that a peer has asked for the connection.
    fn asked(&mut self, id: u32, peer: IpAddr, remote_id: u32, service: u64) {
        self.requests.insert((peer, remote_id), id);
        if let Some(listener) = self.listeners.get_mut(&service) {
            listener.pending += 1;
        }
    }

    /// The program has responded to a request.
    fn answered(&mut self, id: u32) {
        let Some(service) = self.connections.get(&id).map(|connection| connection.service) else { return };
        if let Some(listener) = self.listeners.get_mut(&service) {
            listener.pending = listener.pending.saturating_sub(1);
        }
    }

    fn on_repeated_request(&mut self, id: u32, request: &Request) {
        let connection = self.entry(id);
        match connection.state {
            // The program needs time.
            State::RequestReceived => {
                let remote_id = request.local_id;
                let about = About::Request;
                self.send(id, Message::Mra { local_id: id, remote_id, about, service_timeout: SERVICE_TIMEOUT });
            }
            // The REP is retransmitted at its own pace; the REQ says that it was lost.
            State::ReplySent => {
                if let Some(waiting) = &connection.waiting {
                    let again = Transmit { peer: connection.peer, mad: *waiting.mad };
                    self.out.push_back(again);
                }
            }
            State::TimeWait | State::DisconnectSent => {
                let message = Message::Reject(stray::rejection(request.local_id, reason::STALE_CONNECTION));
                self.send(id, message);
            }
            _ => {}
        }
    }

    fn on_message(&mut self, now: Time, id: u32, parsed: &Parsed) {
        let connection = self.entry(id);
        let (state, token) = (connection.state, connection.token);
        match (&parsed.message, state) {
            (Message::Reply(reply), State::RequestSent) => {
                if reply.qpn < 2 {
                    return;
                }
                connection.state = State::ReplyReceived;
                connection.remote_id = Some(reply.local_id);
                connection.remote_qpn = reply.qpn;
                self.stop_waiting(id);
                self.raise(id, Event::Reply { token, connection: id, reply: Box::new(*reply) });
            }
            (Message::Reply(reply), State::ReplyReceived) => {
                let (remote_id, about) = (reply.local_id, About::Reply);
                self.send(id, Message::Mra { local_id: id, remote_id, about, service_timeout: SERVICE_TIMEOUT });
            }
            (Message::Reply(_), State::Established) if connection.active => {
                if let Some(mad) = connection.response.as_deref().copied() {
                    let peer = connection.peer;
                    self.out.push_back(Transmit { peer, mad });
                }
            }
            (Message::ReadyToUse { private, .. }, State::ReplySent) => self.confirmed(id, *private),
            (Message::Mra { service_timeout, .. }, State::RequestSent | State::ReplySent | State::ServiceSent) => {
                let pause = time_of(*service_timeout).saturating_add(time_of(self.limits.response_timeout));
                self.set_deadline(id, Some(now.saturating_add(pause)));
            }
            (
                Message::Reject(reject),
                State::RequestSent | State::ReplyReceived | State::RequestReceived | State::ReplySent,
            ) => {
                let private = Box::new(reject.private);
                let event = Event::Rejected { token, connection: id, reason: reject.reason, private };
                // If the program has not seen the request yet, it should not see it at all.
                let count = self.events.len();
                self.events.retain(|event| !matches!(event, Event::Request { connection, .. } if *connection == id));
                if self.events.len() == count {
                    self.raise(id, event);
                }
                self.forget(id);
            }
            // The peer has waited for the RTU in vain.
            (Message::Reject(reject), State::Established)
                if connection.active && reject.about == About::Reply && reject.reason == reason::TIMEOUT =>
            {
                self.ended(now, id, false);
            }
            (Message::Disconnect { remote_qpn, .. }, _) => {
                // Of a connection that was never established, or with the QPN of an older one.
                let is_connected = matches!(
                    state,
                    State::ReplyReceived
                        | State::ReplySent
                        | State::Established
                        | State::DisconnectSent
                        | State::TimeWait
                );
                if !is_connected || *remote_qpn != connection.qpn {
                    return;
                }
                let answer = stray::answer(parsed).map(|answer| answer.emit());
                let peer = connection.peer;
                self.out.extend(answer.map(|mad| Transmit { peer, mad }));
                if state != State::TimeWait {
                    self.ended(now, id, false);
                }
            }
            (Message::Disconnected { .. }, State::DisconnectSent) => self.ended(now, id, false),
            (Message::ServiceReply(reply), State::ServiceSent) => {
                self.raise(id, Event::ServiceReply { token, connection: id, reply: Box::new(*reply) });
                self.forget(id);
            }
            _ => {}
        }
    }

    /// The peer has confirmed the REP.
    fn confirmed(&mut self, id: u32, private: [u8; private::READY]) {
        self.stop_waiting(id);
        let connection = self.entry(id);
        connection.state = State::Established;
        let token = connection.token;
        self.raise(id, Event::Established { token, connection: id, private: Box::new(private) });
    }

    /// The connection has ended.
    fn ended(&mut self, now: Time, id: u32, silent: bool) {
        self.stop_waiting(id);
        let rest = now.saturating_add(self.limits.time_wait);
        let connection = self.entry(id);
        connection.state = State::TimeWait;
        let token = connection.token;
        self.set_deadline(id, Some(rest));
        self.raise(id, Event::Disconnected { token, connection: id, silent });
    }

    /// Tells the peer that this side waits no longer.
    fn abandon(&mut self, id: u32) {
        let Some(connection) = self.connections.get(&id) else { return };
        let about = match connection.state {
            State::RequestSent => About::Request,
            State::ReplySent => About::Reply,
            _ => return,
        };
        let remote_id = connection.remote_id.unwrap_or(0);
        let (info, private) = ([0; 72], [0; private::REJECT]);
        let reject = Reject { local_id: id, remote_id, about, reason: reason::TIMEOUT, info_len: 0, info, private };
        self.send(id, Message::Reject(reject));
    }

    fn raise(&mut self, id: u32, event: Event) {
        if self.connections.get(&id).is_some_and(|connection| !connection.orphan) {
            self.events.push_back(event);
        }
    }

    fn entry(&mut self, id: u32) -> &mut Connection {
        self.connections.get_mut(&id).expect("the connection was looked up before")
    }

    fn in_state(&mut self, id: u32, states: &[State]) -> Result<&mut Connection, ManagerError> {
        let connection = self.connections.get_mut(&id).ok_or(ManagerError::Unknown(id))?;
        if states.contains(&connection.state) { Ok(connection) } else { Err(ManagerError::State(id)) }
    }

    fn forget(&mut self, id: u32) {
        if self
            .connections
            .get(&id)
            .is_some_and(|connection| matches!(connection.state, State::RequestReceived | State::ServiceReceived))
        {
            self.answered(id);
        }
        self.set_deadline(id, None);
        let Some(connection) = self.connections.remove(&id) else { return };
        if let Some(remote_id) = connection.remote_id.filter(|_| !connection.active) {
            self.requests.remove(&(connection.peer, remote_id));
        }
    }

    fn set_deadline(&mut self, id: u32, deadline: Option<Time>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Some(old) = connection.deadline {
            self.deadlines.remove(&(old, id));
        }
        connection.deadline = deadline;
        self.deadlines.extend(deadline.map(|new| (new, id)));
    }

    fn stop_waiting(&mut self, id: u32) {
        self.entry(id).waiting = None;
        self.set_deadline(id, None);
    }

    fn send(&mut self, id: u32, message: Message) -> MadBytes {
        let connection = self.entry(id);
        let mad = Parsed { transaction: connection.transaction, message }.emit();
        let peer = connection.peer;
        self.out.push_back(Transmit { peer, mad });
        mad
    }

    fn send_until_answered(&mut self, now: Time, id: u32, message: Message) {
        let mad = Box::new(self.send(id, message));
        let connection = self.entry(id);
        let retries = connection.retries;
        connection.waiting = Some(Waiting { mad, retries });
        let interval = time_of(self.limits.response_timeout);
        self.set_deadline(id, Some(now.saturating_add(interval)));
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
            | Event::Unreachable { connection, .. }
            | Event::Disconnected { connection, .. }
            | Event::Rested { connection, .. }
            | Event::ServiceRequest { connection, .. }
            | Event::ServiceReply { connection, .. } => *connection,
        }
    }
}
