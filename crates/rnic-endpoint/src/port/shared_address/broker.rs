//! The broker of an address: the device that has UDP port 4791. It forwards packets from other hosts to the devices and
//! connection managers that have joined.

use super::connection_list::ConnectionList;
use super::lists::Lists;
use super::members::{Identity, MemberId, Members};
use super::message::{self, Directory, Message};
use super::services::Services;
use super::{MANAGERS, SLOTS, mads, slot_of, socket, takeover};
use crate::port::{Arrival, Counters, Meta, Port, Received, UdpPort};
use nix::errno::Errno;
use rnic_cm::message::MadBytes;
use rnic_cm::{Message as CmMessage, Parsed, packet, unmatched};
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a new broker reserves the slots in the directory of its predecessor for devices that have not joined yet.
/// For the same time it does not reject probes of unknown connections.
const RESERVATION: Duration = Duration::from_secs(10);
/// Time after its start for which a broker does not respond to unmatched messages, because managers that the previous
/// broker served may not have joined yet. The senders retransmit the messages.
const FIRST_RESPONSE: Duration = Duration::from_secs(1);
/// Maximum number of responses to unmatched messages that wait to be sent. Further messages get no response.
const MAX_RESPONSES: usize = 64;
/// How long a request for an unclaimed service ID is queued before it is refused. A server that has just started may
/// not have claimed the service ID yet, and programs that exchange a port by other means do not wait for the listener:
/// perftest exchanges it over its control connection.
const REQUEST_WAIT: Duration = Duration::from_secs(1);
/// Maximum number of queued requests. Further requests are refused immediately.
const MAX_QUEUED_REQUESTS: usize = 64;

/// A request for a service ID that no manager has claimed.
struct QueuedRequest {
    /// When the request is refused.
    expires: Instant,
    meta: Meta,
    bytes: Vec<u8>,
    parsed: Parsed,
}

pub(super) struct Broker {
    /// UDP port 4791 of the address.
    public: UdpPort,
    listener: OwnedFd,
    members: Members,
    /// The UDP ports of all devices, including the broker's.
    directory: Box<Directory>,
    directory_changed: bool,
    /// Until when the slots of the previous broker's directory are reserved.
    reserved_until: Option<Instant>,
    own_slot: u32,
    started: Instant,
    services: Services,
    lists: Lists,
    queued: VecDeque<QueuedRequest>,
    /// Responses to unmatched messages.
    responses: Vec<(IpAddr, MadBytes)>,
    /// Number of packets that could not be passed on.
    dropped: u64,
}

impl Broker {
    /// Makes the device with the slot `own_slot` the broker. `directory` is the directory of the previous broker, or
    /// contains the device alone.
    pub(super) fn new(public: UdpPort, listener: OwnedFd, directory: Box<Directory>, own_slot: u32) -> Broker {
        let now = Instant::now();
        let has_others = directory.iter().enumerate().any(|(slot, port)| *port != 0 && slot as u32 != own_slot);
        Broker {
            public,
            listener,
            members: Members::new(),
            directory,
            directory_changed: false,
            reserved_until: has_others.then(|| now + RESERVATION),
            own_slot,
            started: now,
            services: Services::default(),
            lists: Lists::default(),
            queued: VecDeque::new(),
            responses: Vec::new(),
            dropped: 0,
        }
    }

    /// The UDP ports of all devices, by slot.
    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The descriptors that the process has to wait for in addition to its own UDP port.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.public.as_fd(), self.listener.as_fd()].into_iter().chain(self.members.descriptors())
    }

    /// Whether messages are queued for a member.
    pub(super) fn has_backlog(&self) -> bool {
        self.members.have_backlog()
    }

    /// Adds the received packets, and the packets that could not be passed on, to the counters of a port.
    pub(super) fn add_counters(&self, counters: &mut Counters) {
        let public = self.public.counters();
        counters.received_batches += public.received_batches;
        counters.received_segments += public.received_segments;
        counters.received_bytes += public.received_bytes;
        counters.overflowed += public.overflowed + self.dropped;
        counters.malformed += public.malformed;
    }

    /// Handles the changes since the last call: processes that have joined or left, their messages, queued requests and
    /// reserved slots.
    pub(super) fn serve(&mut self, buffer: &mut [u8]) {
        while let Some(link) = socket::accept(&self.listener) {
            self.members.accept(link);
        }
        let new_lists = self.receive_messages(buffer);
        self.remove_members();
        self.lists.distribute(&mut self.members, &new_lists);
        self.pass_on_queued_requests();
        self.release_reserved_slots();
        if std::mem::take(&mut self.directory_changed) {
            self.members.send_directory(&self.directory);
        }
    }

    /// Handles at most one message of each member. Returns the managers whose connection lists have arrived.
    fn receive_messages(&mut self, buffer: &mut [u8]) -> Vec<u16> {
        let mut new_lists = Vec::new();
        for id in self.members.ids() {
            let Some(member) = self.members.get_mut(id) else { continue };
            member.flush();
            let (message, file) = match member.receive(buffer) {
                Ok((len, file)) => (message::read(&buffer[..len]), file),
                Err(Errno::EAGAIN) => continue,
                Err(_) => (None, None),
            };
            new_lists.extend(self.handle(id, message, file));
        }
        new_lists
    }

    /// Handles a message of a member. `None` stands for a closed socket and for bytes that are not a message. Returns
    /// the manager ID if the message is from a new manager and has a connection list.
    fn handle(&mut self, id: MemberId, message: Option<Message<'_>>, file: Option<OwnedFd>) -> Option<u16> {
        let member = self.members.get_mut(id)?;
        match (message, member.identity()) {
            (Some(Message::JoinDevice { slot, port }), Identity::Unknown) if port != 0 && slot != self.own_slot => {
                self.members.introduce(id, Identity::Device(slot));
                self.directory[slot as usize] = port;
                self.directory_changed = true;
            }
            (Some(Message::JoinManager { manager }), Identity::Unknown) => {
                member.send(message::joined());
                self.members.introduce(id, Identity::Manager(manager));
                self.services.release_all(manager);
                let list = file.and_then(ConnectionList::from_descriptor)?;
                return self.lists.insert(manager, list).then_some(manager);
            }
            (Some(Message::Claim { service, shared }), Identity::Manager(manager)) => {
                let granted = self.services.claim(service, manager, shared);
                member.send(message::claimed(service, granted));
            }
            (Some(Message::Release { service }), Identity::Manager(manager)) => {
                self.services.release(service, manager);
            }
            _ => member.leave(),
        }
        None
    }

    /// Removes the members that have left, with their slots and service IDs. If a manager has left and does not exist
    /// any more, a thread ends its connections.
    fn remove_members(&mut self) {
        for identity in self.members.remove_left() {
            match identity {
                Identity::Unknown => {}
                Identity::Device(slot) => {
                    self.directory[slot as usize] = 0;
                    self.directory_changed = true;
                }
                Identity::Manager(manager) => {
                    self.services.release_all(manager);
                    if let Some(list) = self.lists.take(manager, Instant::now()) {
                        takeover::begin(self.public.local_addr().ip(), manager, list);
                    }
                }
            }
        }
    }

    /// Removes the slots from the directory whose devices have not joined within the time for which they were reserved.
    fn release_reserved_slots(&mut self) {
        if self.reserved_until.is_none_or(|until| Instant::now() <= until) {
            return;
        }
        self.reserved_until = None;
        for slot in (0..SLOTS).filter(|slot| *slot != self.own_slot) {
            let port = &mut self.directory[slot as usize];
            if *port != 0 && !self.members.has_device(slot) {
                *port = 0;
                self.directory_changed = true;
            }
        }
    }

    /// Passes on queued requests whose service ID was claimed in the meantime, and refuses expired requests.
    fn pass_on_queued_requests(&mut self) {
        let now = Instant::now();
        for request in std::mem::take(&mut self.queued) {
            let owner = request.parsed.message.service().and_then(|service| self.services.owner(service));
            if let Some(member) = owner.and_then(|manager| self.members.manager(manager)) {
                let sent = member.send(message::packets(&request.meta, request.bytes.len(), &request.bytes));
                self.dropped += u64::from(!sent);
            } else if request.expires > now {
                self.queued.push_back(request);
            } else {
                let response = unmatched::response(&request.parsed);
                self.responses.extend(response.map(|response| (request.meta.source.ip(), response.emit())));
            }
        }
    }

    /// Time until the next queued request expires.
    pub(super) fn next_expiry(&self) -> Option<Duration> {
        self.queued.front().map(|request| request.expires.saturating_duration_since(Instant::now()))
    }

    /// Sends the responses to unmatched messages from `port`. A response may be lost, because its message is
    /// retransmitted.
    pub(super) fn send_responses(&mut self, port: &mut UdpPort) {
        for (peer, mad) in self.responses.drain(..) {
            let _ = mads::send(port, peer, &mad, 0);
        }
    }

    /// Receives at UDP port 4791, into `data`.
    pub(super) fn receive_into(&mut self, data: &mut Vec<u8>) -> io::Result<Option<Received>> {
        self.public.receive_into(data)
    }

    /// Passes the packets of an arrival to their members. Returns `true` if all packets are for the broker's own
    /// device; in this case no packet is passed on. Otherwise `own` contains the packets for the broker's own device.
    pub(super) fn route(&mut self, arrival: &Arrival<'_>, own: &mut Vec<u8>) -> bool {
        own.clear();
        let segment = arrival.segment.max(1);
        let first = slot_of(arrival.data);
        if arrival.segments().all(|packet| slot_of(packet) == first) {
            if first == Some(self.own_slot) {
                return true;
            }
            self.pass_on(first, arrival, arrival.data);
            return false;
        }
        let mut rest = arrival.data;
        while !rest.is_empty() {
            let slot = slot_of(rest);
            let run = rest.chunks(segment).take_while(|packet| slot_of(packet) == slot).map(<[u8]>::len).sum();
            let (packets, others) = rest.split_at(run);
            if slot == Some(self.own_slot) {
                own.extend_from_slice(packets);
            } else {
                self.pass_on(slot, arrival, packets);
            }
            rest = others;
        }
        false
    }

    /// Passes packets with the same slot to their device, or to managers.
    fn pass_on(&mut self, slot: Option<u32>, arrival: &Arrival<'_>, packets: &[u8]) {
        let segment = arrival.segment.max(1);
        if slot == Some(MANAGERS) {
            packets.chunks(segment).for_each(|packet| self.pass_on_mad(&arrival.meta, packet));
            return;
        }
        let device = slot.and_then(|slot| self.members.device(slot));
        let sent = device.is_some_and(|member| member.send(message::packets(&arrival.meta, arrival.segment, packets)));
        if !sent {
            self.dropped += packets.len().div_ceil(segment) as u64;
        }
    }

    /// Passes a packet to queue pair 1 to the manager that has the service ID or the communication ID of its message.
    fn pass_on_mad(&mut self, meta: &Meta, bytes: &[u8]) {
        let source = meta.source;
        let mad = packet::parse(bytes, source, meta.destination);
        let Some(parsed) = mad.as_ref().and_then(Parsed::parse) else { return };
        let manager = match (&parsed.message, parsed.message.service()) {
            (_, Some(service)) => self.services.owner(service),
            // A peer that got no response does not know the communication ID of this host's end.
            (CmMessage::Reject(reject), None) if reject.remote_id == 0 => {
                for member in self.members.iter_mut().filter(|member| member.manager().is_some()) {
                    member.send(message::packets(meta, bytes.len(), bytes));
                }
                return self.withdraw_request(source.ip(), reject.local_id);
            }
            (message, None) => message.receiver().map(|id| id as u16),
        };
        if let Some(member) = manager.and_then(|manager| self.members.manager(manager)) {
            self.dropped += u64::from(!member.send(message::packets(meta, bytes.len(), bytes)));
        } else if parsed.message.service().is_some() && self.queued.len() < MAX_QUEUED_REQUESTS {
            self.queue_request(*meta, bytes, parsed);
        } else {
            self.respond_to_unmatched(source.ip(), &parsed);
        }
    }

    /// Queues a request, unless it is the retransmission of a queued one.
    fn queue_request(&mut self, meta: Meta, bytes: &[u8], parsed: Parsed) {
        let is_same =
            |request: &QueuedRequest| request.meta.source.ip() == meta.source.ip() && request.parsed == parsed;
        if !self.queued.iter().any(is_same) {
            let expires = Instant::now() + REQUEST_WAIT;
            self.queued.push_back(QueuedRequest { expires, meta, bytes: bytes.to_vec(), parsed });
        }
    }

    /// Responds to a message that matches no manager.
    fn respond_to_unmatched(&mut self, peer: IpAddr, parsed: &Parsed) {
        let earliest = if unmatched::is_probe(&parsed.message) { RESERVATION } else { FIRST_RESPONSE };
        if self.started.elapsed() > earliest && self.responses.len() < MAX_RESPONSES {
            self.responses.extend(unmatched::response(parsed).map(|response| (peer, response.emit())));
        }
    }

    /// Removes a queued request whose sender no longer waits for the response.
    fn withdraw_request(&mut self, peer: IpAddr, request: u32) {
        let is_withdrawn = |queued: &QueuedRequest| {
            let is_request =
                matches!(&queued.parsed.message, CmMessage::Request(message) if message.local_id == request);
            is_request && queued.meta.source.ip() == peer
        };
        self.queued.retain(|queued| !is_withdrawn(queued));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{TrafficClass, UdpConfig};
    use rnic_cm::ip;
    use rnic_cm::message::private;
    use std::net::SocketAddr;

    /// Requests for services without a listener are queued up to a limit, and then refused, up to a limit.
    #[test]
    fn requests_without_a_listener_are_bounded() {
        let local: IpAddr = [127, 0, 0, 1].into();
        let config = UdpConfig { source_ports: 0, ..UdpConfig::default() };
        let public = UdpPort::bind(SocketAddr::new(local, 0), &config).unwrap();
        let directory = Box::new([0; SLOTS as usize]);
        let listener = public.as_fd().try_clone_to_owned().unwrap();
        let mut broker = Broker::new(public, listener, directory, 0);
        let Some(earlier) = broker.started.checked_sub(RESERVATION) else { return };
        broker.started = earlier;
        let source = SocketAddr::new(local, 5_000);
        let meta = Meta {
            source,
            destination: local,
            traffic_class: TrafficClass::default(),
            identification: None,
            is_within_host: false,
            arrived_ns: None,
        };
        for request_id in 0..1_000 {
            let service = ip::service(0x0106, request_id as u16);
            let private = [0; private::SERVICE_REQUEST];
            let message = CmMessage::ServiceRequest { request_id, pkey: packet::PKEY, service, private };
            let mad = Parsed { transaction: request_id.into(), message }.emit();
            let bytes = packet::emit(&mad, 0, source, local).unwrap();
            broker.pass_on_mad(&meta, &bytes);
            broker.pass_on_mad(&meta, &bytes);
        }
        assert_eq!((broker.queued.len(), broker.responses.len()), (MAX_QUEUED_REQUESTS, MAX_RESPONSES));
    }
}
