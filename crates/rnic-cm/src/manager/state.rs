//! Changes of the states of connections, and the messages and events that they cause.

use super::{Event, Manager, ManagerError, Transmit};
use crate::connection::{Connection, Probe, State, Waiting, time_of};
use crate::connection_list;
use crate::message::{About, MadBytes, Message, Parsed, Reject, private, reason};
use rand_core::Rng;
use rnic_transport::time::Time;
use std::net::IpAddr;

impl Manager {
    pub(super) fn new_id(&mut self) -> Result<u32, ManagerError> {
        if self.connections.len() >= self.limits.connections.min(connection_list::MAX_CONNECTIONS) {
            return Err(ManagerError::Full(self.connections.len()));
        }
        loop {
            let id = self.rng.next_u32() << 16 | u32::from(self.manager_id);
            if id != 0 && !self.connections.contains_key(&id) {
                return Ok(id);
            }
        }
    }

    pub(super) fn insert(&mut self, id: u32, peer: IpAddr, token: u64, state: State, transaction: u64, service: u64) {
        let connection = Connection {
            peer,
            remote_id: None,
            transaction,
            state,
            token,
            unadopted: matches!(state, State::RequestReceived | State::ServiceReceived),
            detached: false,
            active: matches!(state, State::RequestSent | State::ServiceSent),
            confirmed: false,
            half_open: None,
            requested_at: Time::ZERO,
            service,
            qpn: 0,
            remote_qpn: 0,
            retries: self.limits.retries,
            interval: time_of(self.limits.response_timeout),
            probe: Probe::default(),
            slot: None,
            waiting: None,
            response: None,
            deadline: None,
        };
        self.connections.insert(id, connection);
    }

    /// Handles the peer's confirmation of the REP.
    pub(super) fn confirmed(&mut self, now: Time, id: u32, private: [u8; private::READY]) {
        self.stop_waiting(id);
        let connection = self.entry(id);
        connection.state = State::Established;
        connection.confirmed = true;
        let token = connection.token;
        self.no_longer_half_open(id);
        self.begin_probes(now, id);
        self.raise(id, Event::Established { token, connection: id, private: Box::new(private) });
    }

    /// Handles the end of a connection; `silent` if the peer did not respond.
    pub(super) fn ended(&mut self, now: Time, id: u32, silent: bool) {
        self.stop_waiting(id);
        self.no_longer_half_open(id);
        self.unlist(id);
        let end = now.saturating_add(self.limits.time_wait);
        let connection = self.entry(id);
        connection.state = State::TimeWait;
        let token = connection.token;
        self.set_deadline(id, Some(end));
        self.raise(id, Event::Disconnected { token, connection: id, silent });
    }

    /// Adds a connection to the connection list, so that another process sends the DREQ if this process is killed.
    pub(super) fn list(&mut self, id: u32) {
        if self.entry(id).slot.is_none() {
            let slot = self.slots.insert(id);
            self.entry(id).slot = Some(slot);
        }
    }

    /// Removes a connection from the connection list, because the peer knows that the connection has ended, or does not
    /// know the connection at all.
    fn unlist(&mut self, id: u32) {
        if let Some(slot) = self.connections.get_mut(&id).and_then(|connection| connection.slot.take()) {
            self.slots.remove(slot);
        }
    }

    /// Whether the manager may send a message to the peer of a connection without being asked. The address of a peer is
    /// proved if this end has sent the REQ, or if the peer has confirmed the REP. The messages to all other peers have
    /// a limited rate.
    pub(super) fn may_send(&mut self, now: Time, id: u32) -> bool {
        let is_at_address = |connection: &Connection| connection.active || connection.confirmed;
        self.connections.get(&id).is_some_and(is_at_address) || self.half_open.may_send(now)
    }

    /// Notifies the peer that this end no longer waits for its message.
    pub(super) fn abandon(&mut self, now: Time, id: u32) {
        let Some(connection) = self.connections.get(&id) else { return };
        let about = match connection.state {
            State::RequestSent => About::Request,
            State::ReplySent => About::Reply,
            _ => return,
        };
        let remote_id = connection.remote_id.unwrap_or(0);
        let (info, private) = ([0; 72], [0; private::REJECT]);
        let reject = Reject { local_id: id, remote_id, about, reason: reason::TIMEOUT, info_len: 0, info, private };
        if self.may_send(now, id) {
            self.send(id, Message::Reject(reject));
        }
    }

    pub(super) fn raise(&mut self, id: u32, event: Event) {
        if self.connections.get(&id).is_some_and(|connection| !connection.detached) {
            self.events.push_back(event);
        }
    }

    pub(super) fn entry(&mut self, id: u32) -> &mut Connection {
        self.connections.get_mut(&id).expect("the connection was looked up before")
    }

    pub(super) fn in_state(&mut self, id: u32, states: &[State]) -> Result<&mut Connection, ManagerError> {
        let connection = self.connections.get_mut(&id).ok_or(ManagerError::Unknown(id))?;
        if states.contains(&connection.state) { Ok(connection) } else { Err(ManagerError::State(id)) }
    }

    pub(super) fn forget(&mut self, id: u32) {
        if self
            .connections
            .get(&id)
            .is_some_and(|connection| matches!(connection.state, State::RequestReceived | State::ServiceReceived))
        {
            self.answered(id);
        }
        self.set_deadline(id, None);
        self.no_longer_half_open(id);
        self.unlist(id);
        let Some(connection) = self.connections.remove(&id) else { return };
        if let Some(remote_id) = connection.remote_id.filter(|_| !connection.active) {
            self.requests.remove(&(connection.peer, remote_id));
        }
    }

    pub(super) fn set_deadline(&mut self, id: u32, deadline: Option<Time>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Some(old) = connection.deadline {
            self.deadlines.remove(&(old, id));
        }
        connection.deadline = deadline;
        self.deadlines.extend(deadline.map(|new| (new, id)));
    }

    pub(super) fn stop_waiting(&mut self, id: u32) {
        self.entry(id).waiting = None;
        self.set_deadline(id, None);
    }

    pub(super) fn send(&mut self, id: u32, message: Message) -> MadBytes {
        let connection = self.entry(id);
        let mad = Parsed { transaction: connection.transaction, message }.emit();
        let peer = connection.peer;
        self.out.push_back(Transmit { peer, mad });
        mad
    }

    pub(super) fn send_until_answered(&mut self, now: Time, id: u32, message: Message) {
        self.send(id, message);
        self.wait_for_answer(now, id, message);
    }

    /// Schedules the retransmissions of a message until its response comes.
    pub(super) fn wait_for_answer(&mut self, now: Time, id: u32, message: Message) {
        let connection = self.entry(id);
        let mad = Box::new(Parsed { transaction: connection.transaction, message }.emit());
        let retries = connection.retries;
        connection.waiting = Some(Waiting { mad, retries });
        let interval = connection.interval;
        self.set_deadline(id, Some(now.saturating_add(interval)));
    }
}
