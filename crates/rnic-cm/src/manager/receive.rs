//! Handles received MADs.

use super::{Event, Listener, MAX_EARLY_REQUESTS, Manager, SERVICE_TIMEOUT, Transmit};
use crate::connection::{LISTENER_WAIT, Probe, State, time_of};
use crate::message::{About, MadBytes, Message, Parsed, Reject, Reply, Request, private, reason};
use crate::{ip, unmatched};
use rnic_transport::time::Time;
use std::net::IpAddr;

/// Time between two retransmissions to a peer: minimum and maximum.
const INTERVALS: (Time, Time) = (Time::from_ms(100), Time::from_ms(10_000));

impl Manager {
    /// Handles a MAD that came from `peer`.
    pub fn handle(&mut self, now: Time, peer: IpAddr, mad: &MadBytes) {
        let Some(parsed) = Parsed::parse(mad) else { return };
        match &parsed.message {
            Message::Request(request) => self.on_request(peer, &parsed, request),
            Message::ServiceRequest { request_id, service, private, .. } => {
                self.on_service_request(peer, &parsed, *request_id, *service, private);
            }
            message => {
                // The sender of a queued request no longer waits for the response.
                if let Message::Reject(Reject { remote_id: 0, local_id, reason: reason::TIMEOUT, .. }) = message {
                    self.expected.values_mut().for_each(|expected| {
                        expected.early.retain(|(from, _, request)| *from != peer || request != local_id);
                    });
                }
                let Some(id) = self.connection_of(peer, message) else {
                    self.respond_to_unmatched(peer, &parsed);
                    return;
                };
                self.on_message(now, id, &parsed);
            }
        }
    }

    pub(super) fn respond_to_unmatched(&mut self, peer: IpAddr, parsed: &Parsed) {
        if let Some(response) = unmatched::response(parsed) {
            self.out.push_back(Transmit { peer, mad: response.emit() });
        }
    }

    /// Handles a request for a service without a listener: queues it if a program is going to listen, and otherwise
    /// refuses it.
    fn on_unclaimed_request(&mut self, peer: IpAddr, parsed: &Parsed, service: u64) {
        let Some(expected) = self.expected.get_mut(&service) else { return self.respond_to_unmatched(peer, parsed) };
        let early = &mut expected.early;
        let request = match parsed.message {
            Message::Request(request) => request.local_id,
            Message::ServiceRequest { request_id, .. } => request_id,
            _ => return,
        };
        if early.len() < MAX_EARLY_REQUESTS && !early.iter().any(|(from, _, other)| (*from, *other) == (peer, request))
        {
            early.push((peer, parsed.emit(), request));
        }
    }

    /// Finds the connection to which a message of `peer` belongs, by the communication IDs of both ends.
    fn connection_of(&self, peer: IpAddr, message: &Message) -> Option<u32> {
        let (local, remote) = match message {
            Message::Mra { local_id, remote_id, .. }
            | Message::ReadyToUse { local_id, remote_id, .. }
            | Message::Disconnect { local_id, remote_id, .. }
            | Message::Disconnected { local_id, remote_id, .. } => (*remote_id, Some(*local_id)),
            Message::Reply(reply) => (reply.remote_id, Some(reply.local_id)),
            Message::ServiceReply(reply) => (reply.request_id, None),
            // A peer that has received no response does not know the communication ID of this end.
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
            let message = Message::Reject(unmatched::rejection(request.local_id, reason));
            let answer = Parsed { transaction: parsed.transaction, message };
            manager.out.push_back(Transmit { peer, mad: answer.emit() });
        };
        let Some((token, is_full)) = self.listeners.get(&request.service).map(Listener::state) else {
            return self.on_unclaimed_request(peer, parsed, request.service);
        };
        if request.transport > 1 {
            return reject(self, reason::INVALID_TRANSPORT);
        }
        if !(1..=5).contains(&request.mtu) {
            return reject(self, reason::INVALID_MTU);
        }
        // A peer must not make this end send to another host.
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
        connection.probe.responds = request.ca_guid == ip::guid(peer);
        connection.retries = request.max_cm_retries.max(1);
        // The peer states its response timeout; it is limited to a useful range.
        connection.interval = time_of(request.local_response_timeout).clamp(INTERVALS.0, INTERVALS.1);
        self.asked(id, peer, request.local_id, request.service);
        let request = Box::new(*request);
        self.events.push_back(Event::Request { listener: token, connection: id, peer, request });
    }

    fn on_service_request(
        &mut self, peer: IpAddr, parsed: &Parsed, request_id: u32, service: u64,
        private: &[u8; private::SERVICE_REQUEST],
    ) {
        if let Some(id) = self.requests.get(&(peer, request_id)) {
            // A retransmission: the response was lost, or the program has not responded yet.
            if let Some(mad) = self.connections.get(id).and_then(|connection| connection.response.as_deref()) {
                self.out.push_back(Transmit { peer, mad: *mad });
            }
            return;
        }
        let Some((token, is_full)) = self.listeners.get(&service).map(Listener::state) else {
            return self.on_unclaimed_request(peer, parsed, service);
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

    /// Records the request of a peer for the connection.
    fn asked(&mut self, id: u32, peer: IpAddr, remote_id: u32, service: u64) {
        self.requests.insert((peer, remote_id), id);
        if let Some(listener) = self.listeners.get_mut(&service) {
            listener.pending += 1;
        }
    }

    /// Records that the program has responded to a request.
    pub(super) fn answered(&mut self, id: u32) {
        let Some(service) = self.connections.get(&id).map(|connection| connection.service) else { return };
        if let Some(listener) = self.listeners.get_mut(&service) {
            listener.pending = listener.pending.saturating_sub(1);
        }
    }

    fn on_repeated_request(&mut self, id: u32, request: &Request) {
        let connection = self.entry(id);
        match connection.state {
            // The program has not responded yet: tell the peer to wait longer.
            State::RequestReceived => {
                let remote_id = request.local_id;
                let about = About::Request;
                self.send(id, Message::Mra { local_id: id, remote_id, about, service_timeout: SERVICE_TIMEOUT });
            }
            // The peer repeats its REQ, so the REP was lost: retransmit it now, in addition to the scheduled
            // retransmissions.
            State::ReplySent => {
                if let Some(waiting) = &connection.waiting {
                    let again = Transmit { peer: connection.peer, mad: *waiting.mad };
                    self.out.push_back(again);
                }
            }
            State::TimeWait | State::DisconnectSent => {
                let message = Message::Reject(unmatched::rejection(request.local_id, reason::STALE_CONNECTION));
                self.send(id, message);
            }
            _ => {}
        }
    }

    /// Handles a message of an existing connection.
    fn on_message(&mut self, now: Time, id: u32, parsed: &Parsed) {
        let state = self.entry(id).state;
        match &parsed.message {
            Message::Reply(reply) => self.on_reply(id, state, reply),
            Message::ReadyToUse { private, .. } if state == State::ReplySent => self.confirmed(now, id, *private),
            Message::Mra { about: About::Other, service_timeout, remote_id, local_id } => {
                self.on_probe(now, id, *service_timeout, (*remote_id, *local_id));
            }
            Message::Mra { about, service_timeout, .. }
                if matches!(
                    (about, state),
                    (About::Request, State::RequestSent) | (About::Reply, State::ReplySent)
                ) =>
            {
                let pause = time_of(*service_timeout).saturating_add(self.entry(id).interval);
                self.set_deadline(id, Some(now.saturating_add(pause)));
            }
            Message::Reject(reject) => self.on_reject(now, id, reject),
            Message::Disconnect { remote_qpn, .. } => self.on_disconnect(now, id, *remote_qpn, parsed),
            Message::Disconnected { .. } if state == State::DisconnectSent => self.ended(now, id, false),
            Message::ServiceReply(reply) if state == State::ServiceSent => {
                let token = self.entry(id).token;
                self.raise(id, Event::ServiceReply { token, connection: id, reply: Box::new(*reply) });
                self.forget(id);
            }
            _ => {}
        }
    }

    fn on_reply(&mut self, id: u32, state: State, reply: &Reply) {
        let connection = self.entry(id);
        match state {
            State::RequestSent if reply.qpn >= 2 => {
                connection.state = State::ReplyReceived;
                connection.remote_id = Some(reply.local_id);
                connection.remote_qpn = reply.qpn;
                connection.probe.responds = reply.ca_guid == ip::guid(connection.peer);
                let token = connection.token;
                self.stop_waiting(id);
                self.list(id);
                self.raise(id, Event::Reply { token, connection: id, reply: Box::new(*reply) });
            }
            State::ReplyReceived => {
                let (remote_id, about) = (reply.local_id, About::Reply);
                self.send(id, Message::Mra { local_id: id, remote_id, about, service_timeout: SERVICE_TIMEOUT });
            }
            State::Established if connection.active => {
                if let Some(mad) = connection.response.as_deref().copied() {
                    let peer = connection.peer;
                    self.out.push_back(Transmit { peer, mad });
                }
            }
            _ => {}
        }
    }

    /// Handles a probe or its response. `ids` are the communication IDs of this end and of the peer.
    fn on_probe(&mut self, now: Time, id: u32, service_timeout: u8, ids: (u32, u32)) {
        let state = self.entry(id).state;
        match (service_timeout, state) {
            (Probe::REQUEST, State::ReplySent | State::Established) => {
                // The peer considers the connection established, because it sends a probe. So its RTU was lost.
                if state == State::ReplySent {
                    self.confirmed(now, id, [0; private::READY]);
                }
                self.alive(now, id);
                let ((local_id, remote_id), about) = (ids, About::Other);
                self.send(id, Message::Mra { local_id, remote_id, about, service_timeout: Probe::RESPONSE });
            }
            (Probe::RESPONSE, State::Established) => self.alive(now, id),
            _ => {}
        }
    }

    fn on_reject(&mut self, now: Time, id: u32, reject: &Reject) {
        let connection = self.entry(id);
        match connection.state {
            // The host of the peer does not know the connection: the process has ended.
            State::Established if reject.about == About::Other && reject.reason == reason::INVALID_ID => {
                self.ended(now, id, true);
            }
            // The peer has not received the RTU.
            State::Established
                if connection.active && reject.about == About::Reply && reject.reason == reason::TIMEOUT =>
            {
                self.ended(now, id, false);
            }
            // A program at the peer may be about to listen: retransmit the REQ later.
            State::RequestSent
                if reject.reason == reason::INVALID_SERVICE
                    && now < connection.requested_at.saturating_add(LISTENER_WAIT.0)
                    && connection.waiting.as_ref().is_some_and(|waiting| waiting.retries > 0) =>
            {
                self.set_deadline(id, Some(now.saturating_add(LISTENER_WAIT.1)));
            }
            State::RequestSent | State::ReplyReceived | State::RequestReceived | State::ReplySent => {
                let token = connection.token;
                let event = if connection.state == State::RequestReceived && connection.unadopted {
                    Event::Withdrawn { listener: token, connection: id }
                } else {
                    let private = Box::new(reject.private);
                    Event::Rejected { token, connection: id, reason: reject.reason, private }
                };
                // If the program has not received the event of the request yet, the program should get neither this nor
                // another event.
                let count = self.events.len();
                self.events.retain(|event| !matches!(event, Event::Request { connection, .. } if *connection == id));
                if self.events.len() == count {
                    self.raise(id, event);
                }
                self.forget(id);
            }
            _ => {}
        }
    }

    fn on_disconnect(&mut self, now: Time, id: u32, remote_qpn: u32, parsed: &Parsed) {
        let connection = self.entry(id);
        let state = connection.state;
        let is_connected = matches!(
            state,
            State::ReplyReceived | State::ReplySent | State::Established | State::DisconnectSent | State::TimeWait
        );
        // Ignore a DREQ for a connection that was never established, or with the QPN of an older connection.
        if !is_connected || remote_qpn != connection.qpn {
            return;
        }
        let peer = connection.peer;
        let response = unmatched::response(parsed).map(|response| response.emit());
        self.out.extend(response.map(|mad| Transmit { peer, mad }));
        if state != State::TimeWait {
            self.ended(now, id, false);
        }
    }
}
