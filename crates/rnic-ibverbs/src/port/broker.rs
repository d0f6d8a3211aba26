//! The broker of an address: the process that has UDP port 4791. It hands the packets of the other processes' queue
//! pairs over to them.

use super::ledger::Ledger;
use super::message::{self, Directory, Message};
use super::{MANAGERS, SLOTS, closing, slot_of, socket};
use nix::errno::Errno;
use rnic_cm::message::MadBytes;
use rnic_cm::{Message as CmMessage, Parsed, packet, stray};
use rnic_endpoint::port::{Arrival, Meta};
use rnic_endpoint::{Port, UdpPort};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Time for which a new broker keeps the slots of the processes that its predecessor served, until they have joined.
const GRACE: Duration = Duration::from_secs(10);
/// Bytes that wait for a process that does not take them. Beyond that they are dropped, as in a full receive buffer.
const BACKLOG: usize = 8 << 20;
/// Service IDs that all managers of the address may have together.
const SERVICES: usize = 65_536;
/// Time after which a broker answers messages to nobody. Before it, managers of other processes may not have joined yet
/// that an earlier broker served; the messages are retransmitted.
const SILENT: Duration = Duration::from_secs(1);
/// Messages to nobody that are answered per arrival. Further ones get no answer.
const STRAYS: usize = 64;
/// How long a request for a service ID that nobody has waits for somebody to claim it, before it is refused. A server
/// that has just started may not have come so far, and programs that agree on a port by other means (perftest does so
/// over its control connection) do not wait for its listener.
const PARKED: Duration = Duration::from_secs(1);
/// Requests that wait so. Further ones are refused at once.
const PARKING: usize = 64;

/// Ledgers of managers that the broker has, each with a descriptor. Peers of further managers depend on probes.
const LEDGERS: usize = super::mads::LEDGERS;
/// Managers of other processes that have all ledgers too, for the case that the broker is killed.
const DEPUTIES: usize = 2;
/// How long they keep the ledger of a manager that has left: the broker may be killed while it ends the connections.
const KEPT: Duration = Duration::from_secs(20);

/// A process that has joined.
struct Member {
    link: OwnedFd,
    /// Its slot, once it has introduced itself as a device.
    slot: Option<u32>,
    /// The lower half of its communication IDs, once it has introduced itself as a communication manager.
    manager: Option<u16>,
    /// Messages for which its socket had no room.
    backlog: VecDeque<Vec<u8>>,
    waiting: usize,
    gone: bool,
    /// Whether it belongs to this process.
    own: bool,
    /// Whether it has all ledgers.
    deputy: bool,
}

impl Member {
    fn put(&mut self, message: Vec<u8>) -> bool {
        if self.backlog.is_empty() {
            match socket::put(&self.link, &message) {
                Ok(()) => return true,
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => {}
                Err(_) => self.gone = true,
            }
        }
        if self.gone || self.waiting + message.len() > BACKLOG {
            return false;
        }
        self.waiting += message.len();
        self.backlog.push_back(message);
        true
    }

    fn flush(&mut self) {
        while let Some(message) = self.backlog.front() {
            match socket::put(&self.link, message) {
                Ok(()) => {
                    self.waiting -= message.len();
                    self.backlog.pop_front();
                }
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => return,
                Err(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
    }
}

/// A request for a service ID that nobody has.
struct Parked {
    until: Instant,
    meta: Meta,
    bytes: Vec<u8>,
    parsed: Parsed,
}

/// A manager that has a service ID.
struct Owner {
    mark: u16,
    /// Whether others may have it too: all of them have bound it with `RDMA_OPTION_ID_REUSEADDR`, and nobody listens.
    shared: bool,
}

/// Who has which service ID.
#[derive(Default)]
struct Services(BTreeMap<u64, Vec<Owner>>);

impl Services {
    /// Lets a manager have a service ID, if the others admit it.
    fn claim(&mut self, service: u64, mark: u16, shared: bool) -> bool {
        let full = self.0.len() >= SERVICES;
        let others = self.0.get(&service).into_iter().flatten().filter(|owner| owner.mark != mark);
        let admitted = if shared { others.clone().all(|owner| owner.shared) } else { others.count() == 0 };
        if !admitted || full && !self.0.contains_key(&service) {
            return false;
        }
        let owners = self.0.entry(service).or_default();
        owners.retain(|owner| owner.mark != mark);
        owners.push(Owner { mark, shared });
        true
    }

    fn release(&mut self, service: u64, mark: u16) {
        if let Some(owners) = self.0.get_mut(&service) {
            owners.retain(|owner| owner.mark != mark);
            if owners.is_empty() {
                self.0.remove(&service);
            }
        }
    }

    fn forget(&mut self, mark: u16) {
        self.0.retain(|_, owners| {
            owners.retain(|owner| owner.mark != mark);
            !owners.is_empty()
        });
    }

    /// The manager that gets the requests for a service ID.
    fn owner(&self, service: u64) -> Option<u16> {
        self.0.get(&service)?.first().map(|owner| owner.mark)
    }
}

pub(super) struct Broker {
    pub(super) public: UdpPort,
    listener: OwnedFd,
    members: Vec<Member>,
    /// The ports of all processes, this one included.
    pub(super) directory: Box<Directory>,
    /// Slots that processes of an earlier broker have until this time, if they have not joined.
    inherited: Option<Instant>,
    own: u32,
    born: Instant,
    services: Services,
    ledgers: BTreeMap<u16, Ledger>,
    /// Managers that have left, until deputies forget their ledgers.
    left: VecDeque<(Instant, u16)>,
    parked: VecDeque<Parked>,
    /// Answers to messages for no manager.
    pub(super) answers: Vec<(IpAddr, MadBytes)>,
    /// Number of packets that could not be handed over.
    pub(super) dropped: u64,
}

impl Broker {
    /// The broker of this process, which has the slot `own`; `directory` is that of the broker before, if any.
    pub(super) fn new(public: UdpPort, listener: OwnedFd, directory: Box<Directory>, own: u32) -> Broker {
        let others = directory.iter().enumerate().any(|(slot, port)| *port != 0 && slot as u32 != own);
        let inherited = others.then(|| Instant::now() + GRACE);
        Broker {
            public,
            listener,
            members: Vec::new(),
            directory,
            inherited,
            own,
            born: Instant::now(),
            services: Services::default(),
            ledgers: BTreeMap::new(),
            left: VecDeque::new(),
            parked: VecDeque::new(),
            answers: Vec::new(),
            dropped: 0,
        }
    }

    /// What the process has to wait for besides its own packets.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let members = self.members.iter().map(|member| member.link.as_fd());
        [self.public.as_fd(), self.listener.as_fd()].into_iter().chain(members)
    }

    /// Whether messages wait for room in a socket.
    pub(super) fn has_backlog(&self) -> bool {
        self.members.iter().any(|member| !member.backlog.is_empty())
    }

    /// Lets processes join and leave.
    pub(super) fn serve(&mut self, buffer: &mut [u8]) {
        while let Some(link) = socket::accept(&self.listener) {
            let backlog = VecDeque::new();
            let own = socket::process(&link) == std::process::id() as i32;
            let (slot, manager, waiting) = (None, None, 0);
            self.members.push(Member { link, slot, manager, backlog, waiting, gone: false, own, deputy: false });
        }
        let mut changed = false;
        let mut new = Vec::new();
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            member.flush();
            let (message, file) = match socket::take_with(&member.link, buffer) {
                Ok((len, file)) => (message::read(&buffer[..len]), file),
                Err(Errno::EAGAIN) => continue,
                Err(_) => (None, None),
            };
            let is_new = member.slot.is_none() && member.manager.is_none();
            match (message, member.manager) {
                (Some(Message::Hello { slot, port }), None) if is_new && port != 0 && slot != self.own => {
                    // Nobody else has the slot, so that a member which had it is gone.
                    for old in self.members.iter_mut().filter(|member| member.slot == Some(slot)) {
                        (old.slot, old.gone) = (None, true);
                    }
                    self.members[at].slot = Some(slot);
                    self.directory[slot as usize] = port;
                    changed = true;
                }
                (Some(Message::Manager { mark }), None) if is_new => {
                    // The mark is a UDP port that no two processes have at the same time.
                    for old in self.members.iter_mut().filter(|member| member.manager == Some(mark)) {
                        (old.manager, old.gone) = (None, true);
                    }
                    self.services.forget(mark);
                    let member = &mut self.members[at];
                    member.manager = Some(mark);
                    member.put(message::joined());
                    let full = self.ledgers.len() >= LEDGERS && !self.ledgers.contains_key(&mark);
                    if let Some(ledger) = file.and_then(Ledger::received).filter(|_| !full) {
                        self.ledgers.insert(mark, ledger);
                        new.push(mark);
                    }
                }
                (Some(Message::Claim { service, shared }), Some(mark)) => {
                    let granted = self.services.claim(service, mark, shared);
                    member.put(message::claimed(service, granted));
                }
                (Some(Message::Release { service }), Some(mark)) => self.services.release(service, mark),
                // It has gone, or it does not speak the protocol.
                _ => member.gone = true,
            }
        }
        for member in self.members.iter().filter(|member| member.gone) {
            if let Some(slot) = member.slot {
                self.directory[slot as usize] = 0;
                changed = true;
            }
            if let Some(mark) = member.manager {
                self.services.forget(mark);
                if let Some(ledger) = self.ledgers.remove(&mark) {
                    closing::begin(self.public.local_addr().ip(), mark, ledger);
                    self.left.push_back((Instant::now(), mark));
                }
            }
        }
        self.members.retain(|member| !member.gone);
        self.inform_deputies(&new);
        self.look_at_parked();
        if self.inherited.is_some_and(|until| Instant::now() > until) {
            self.inherited = None;
            for slot in 0..SLOTS {
                let served = slot == self.own || self.members.iter().any(|member| member.slot == Some(slot));
                changed |= !served && self.directory[slot as usize] != 0;
                self.directory[slot as usize] *= u16::from(served);
            }
        }
        if changed {
            for member in &mut self.members {
                if let Some(slot) = member.slot {
                    member.put(message::directory(slot, &self.directory));
                }
            }
        }
    }

    /// Gives the ledgers of the managers `new` to the deputies, and all ledgers to new deputies.
    fn inform_deputies(&mut self, new: &[u16]) {
        let tell = |member: &Member, mark: u16, ledger: &Ledger| {
            if member.manager != Some(mark) {
                // Without room in the socket, probes end the connections.
                let _ = socket::put_with(&member.link, &message::ledger(mark), ledger);
            }
        };
        for mark in new {
            let Some(ledger) = self.ledgers.get(mark) else { continue };
            self.members.iter().filter(|member| member.deputy).for_each(|member| tell(member, *mark, ledger));
        }
        let forgotten = |(at, _): &(Instant, u16)| at.elapsed() > KEPT;
        while self.left.front().is_some_and(forgotten) || self.left.len() > LEDGERS {
            let Some((_, mark)) = self.left.pop_front() else { break };
            if !self.ledgers.contains_key(&mark) {
                self.members.iter_mut().filter(|member| member.deputy).for_each(|member| {
                    member.put(message::forget(mark));
                });
            }
        }
        let count = self.members.iter().filter(|member| member.deputy).count();
        let ledgers = &self.ledgers;
        let able = |member: &&mut Member| {
            !member.own && !member.deputy && member.manager.is_some_and(|mark| ledgers.contains_key(&mark))
        };
        for member in self.members.iter_mut().filter(able).take(DEPUTIES.saturating_sub(count)) {
            member.deputy = true;
            ledgers.iter().for_each(|(mark, ledger)| tell(member, *mark, ledger));
        }
    }

    /// Hands requests over whose service ID has been claimed in the meantime, and refuses those that have waited long
    /// enough.
    fn look_at_parked(&mut self) {
        let now = Instant::now();
        for parked in std::mem::take(&mut self.parked) {
            let owner = parked.parsed.message.service().and_then(|service| self.services.owner(service));
            let member = owner.and_then(|mark| self.members.iter_mut().find(|member| member.manager == Some(mark)));
            if let Some(member) = member {
                self.dropped +=
                    u64::from(!member.put(message::packets(&parked.meta, parked.bytes.len(), &parked.bytes)));
            } else if parked.until > now {
                self.parked.push_back(parked);
            } else {
                let answer = stray::answer(&parked.parsed);
                self.answers.extend(answer.map(|answer| (parked.meta.source.ip(), answer.emit())));
            }
        }
    }

    /// Time until the next request has waited long enough.
    pub(super) fn next_answer(&self) -> Option<Duration> {
        self.parked.front().map(|parked| parked.until.saturating_duration_since(Instant::now()))
    }

    /// Hands an arrival over to the processes of its queue pairs. Returns `true` if all of it is for this process; then
    /// nothing was handed over. Otherwise the datagrams for this process are in `own`.
    pub(super) fn hand_over(members: &mut Members<'_>, arrival: &Arrival<'_>, this: u32, own: &mut Vec<u8>) -> bool {
        own.clear();
        let mut rest = arrival.data;
        let segment = arrival.segment.max(1);
        let first = slot_of(rest);
        if arrival.segments().all(|packet| slot_of(packet) == first) {
            if first == Some(this) {
                return true;
            }
            members.put(first, arrival, rest);
            return false;
        }
        while !rest.is_empty() {
            let slot = slot_of(rest);
            let run = rest.chunks(segment).take_while(|packet| slot_of(packet) == slot).map(<[u8]>::len).sum();
            let (now, after) = rest.split_at(run);
            if slot == Some(this) {
                own.extend_from_slice(now);
            } else {
                members.put(slot, arrival, now);
            }
            rest = after;
        }
        false
    }

    /// The port of the address, and apart from it the processes to which its packets may go.
    pub(super) fn parts(&mut self) -> (&mut UdpPort, Members<'_>) {
        let members = Members {
            members: &mut self.members,
            services: &self.services,
            parked: &mut self.parked,
            age: self.born.elapsed(),
            answers: &mut self.answers,
            dropped: &mut self.dropped,
        };
        (&mut self.public, members)
    }
}

/// The processes that have joined.
pub(super) struct Members<'a> {
    members: &'a mut Vec<Member>,
    services: &'a Services,
    parked: &'a mut VecDeque<Parked>,
    /// Time since the broker has begun.
    age: Duration,
    answers: &'a mut Vec<(IpAddr, MadBytes)>,
    dropped: &'a mut u64,
}

impl Members<'_> {
    fn put(&mut self, slot: Option<u32>, arrival: &Arrival<'_>, data: &[u8]) {
        if slot == Some(MANAGERS) {
            data.chunks(arrival.segment.max(1)).for_each(|packet| self.put_mad(arrival, packet));
            return;
        }
        let member = slot.and_then(|slot| self.members.iter_mut().find(|member| member.slot == Some(slot)));
        let sent = member.is_some_and(|member| member.put(message::packets(&arrival.meta, arrival.segment, data)));
        if !sent {
            *self.dropped += data.len().div_ceil(arrival.segment.max(1)) as u64;
        }
    }

    /// Hands a packet to queue pair 1 over to the manager that has the service ID or the communication ID in its
    /// message.
    fn put_mad(&mut self, arrival: &Arrival<'_>, bytes: &[u8]) {
        let source = arrival.meta.source;
        let mad = packet::parse(bytes, source, arrival.meta.destination);
        let Some(parsed) = mad.as_ref().and_then(Parsed::parse) else { return };
        let mark = match (&parsed.message, parsed.message.service()) {
            (_, Some(service)) => self.services.owner(service),
            // Who has waited for a response in vain does not know the communication ID of the other side.
            (CmMessage::Reject(reject), None) if reject.remote_id == 0 => {
                for member in self.members.iter_mut().filter(|member| member.manager.is_some()) {
                    member.put(message::packets(&arrival.meta, bytes.len(), bytes));
                }
                return self.unpark(source.ip(), reject.local_id);
            }
            (message, None) => message.receiver().map(|id| id as u16),
        };
        let member = mark.and_then(|mark| self.members.iter_mut().find(|member| member.manager == Some(mark)));
        if let Some(member) = member {
            *self.dropped += u64::from(!member.put(message::packets(&arrival.meta, bytes.len(), bytes)));
        } else if parsed.message.service().is_some() && self.parked.len() < PARKING {
            // A retransmission does not wait twice.
            let same = |parked: &Parked| parked.meta.source.ip() == source.ip() && parked.parsed == parsed;
            if !self.parked.iter().any(same) {
                let until = Instant::now() + PARKED;
                self.parked.push_back(Parked { until, meta: arrival.meta, bytes: bytes.to_vec(), parsed });
            }
        } else if self.age > if stray::is_probe(&parsed.message) { GRACE } else { SILENT }
            && self.answers.len() < STRAYS
        {
            self.answers.extend(stray::answer(&parsed).map(|answer| (source.ip(), answer.emit())));
        }
    }

    /// The peer does not wait for the response to its request any more.
    fn unpark(&mut self, peer: IpAddr, request: u32) {
        let asks = |message: &CmMessage| matches!(message, CmMessage::Request(own) if own.local_id == request);
        self.parked.retain(|parked| parked.meta.source.ip() != peer || !asks(&parked.parsed.message));
    }
}
