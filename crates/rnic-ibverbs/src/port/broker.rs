//! The broker of an address: the process that has UDP port 4791. It hands the packets of the other processes' queue
//! pairs over to them.

use super::message::{self, Directory, Message};
use super::{SLOTS, slot_of, socket};
use nix::errno::Errno;
use rnic_endpoint::UdpPort;
use rnic_endpoint::port::Arrival;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Time for which a new broker keeps the slots of the processes that its predecessor served, until they have joined.
const GRACE: Duration = Duration::from_secs(10);
/// Bytes that wait for a process that does not take them. Beyond that they are dropped, as in a full receive buffer.
const BACKLOG: usize = 8 << 20;

/// A process that has joined.
struct Member {
    link: OwnedFd,
    /// Its slot, once it has introduced itself.
    slot: Option<u32>,
    /// Messages for which its socket had no room.
    backlog: VecDeque<Vec<u8>>,
    waiting: usize,
    gone: bool,
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

pub(super) struct Broker {
    pub(super) public: UdpPort,
    listener: OwnedFd,
    members: Vec<Member>,
    /// The ports of all processes, this one included.
    pub(super) directory: Box<Directory>,
    /// Slots that processes of an earlier broker have until this time, if they have not joined.
    inherited: Option<Instant>,
    own: u32,
    /// Number of packets that could not be handed over.
    pub(super) dropped: u64,
}

impl Broker {
    /// The broker of this process, which has the slot `own`; `directory` is that of the broker before, if any.
    pub(super) fn new(public: UdpPort, listener: OwnedFd, directory: Box<Directory>, own: u32) -> Broker {
        let others = directory.iter().enumerate().any(|(slot, port)| *port != 0 && slot as u32 != own);
        let inherited = others.then(|| Instant::now() + GRACE);
        Broker { public, listener, members: Vec::new(), directory, inherited, own, dropped: 0 }
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
            self.members.push(Member { link, slot: None, backlog: VecDeque::new(), waiting: 0, gone: false });
        }
        let mut changed = false;
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            member.flush();
            let hello = match socket::take(&member.link, buffer) {
                Ok(0) => None,
                Ok(len) => match message::read(&buffer[..len]) {
                    Some(Message::Hello { slot, port }) if member.slot.is_none() && port != 0 => Some((slot, port)),
                    _ => None,
                },
                Err(Errno::EAGAIN) => continue,
                Err(_) => None,
            };
            let Some((wish, port)) = hello else {
                // It has gone, or it does not speak the protocol.
                member.gone = true;
                continue;
            };
            match self.slot(wish, port) {
                Some(slot) => {
                    self.directory[slot as usize] = port;
                    self.members[at].slot = Some(slot);
                    changed = true;
                }
                None => {
                    let member = &mut self.members[at];
                    member.put(message::refused());
                    member.gone = true;
                }
            }
        }
        for member in self.members.iter().filter(|member| member.gone) {
            if let Some(slot) = member.slot {
                self.directory[slot as usize] = 0;
                changed = true;
            }
        }
        self.members.retain(|member| !member.gone);
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

    /// A slot for a process that wishes the slot `wish`, which it had before, and receives at `port`.
    fn slot(&self, wish: Option<u32>, port: u16) -> Option<u32> {
        let taken = |slot: u32| slot == self.own || self.members.iter().any(|member| member.slot == Some(slot));
        if let Some(wish) = wish {
            let inherited = [0, port].contains(&self.directory[wish as usize]);
            return (!taken(wish) && inherited).then_some(wish);
        }
        // The slots follow each other, so that a new process does not get the slot of a process that has just gone,
        // whose packets may still be on their way.
        (1..SLOTS).map(|step| (u32::from(port) * 7 + step) % SLOTS).find(|slot| self.directory[*slot as usize] == 0)
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
        (&mut self.public, Members { members: &mut self.members, dropped: &mut self.dropped })
    }
}

/// The processes that have joined.
pub(super) struct Members<'a> {
    members: &'a mut Vec<Member>,
    dropped: &'a mut u64,
}

impl Members<'_> {
    fn put(&mut self, slot: Option<u32>, arrival: &Arrival<'_>, data: &[u8]) {
        let member = slot.and_then(|slot| self.members.iter_mut().find(|member| member.slot == Some(slot)));
        let sent = member.is_some_and(|member| member.put(message::packets(&arrival.meta, arrival.segment, data)));
        if !sent {
            *self.dropped += data.len().div_ceil(arrival.segment.max(1)) as u64;
        }
    }
}
