//! The members of a broker: the devices and connection managers that are connected to it by a Unix socket.

use super::{SLOTS, message, socket};
use nix::errno::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum bytes of messages that a broker queues for a member that does not receive them. The broker drops further
/// packets, like a full receive buffer.
const MAX_BACKLOG: usize = 8 << 20;

/// Maximum bytes of messages that a broker queues for all members together.
const MAX_TOTAL_BACKLOG: usize = 64 << 20;
/// Maximum number of members that have not introduced themselves. If one more process connects, the oldest of them is
/// disconnected, and connects again if it still exists. The number is larger than the queue of the listening socket.
const MAX_UNKNOWN: usize = 256;

/// Number of a member, in the order in which the members connected.
pub(super) type MemberId = u64;

/// The identity of a member, which the member states in its first message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Identity {
    /// The member has not introduced itself yet, or another member has taken over its identity.
    Unknown,
    /// A device with this slot.
    Device(u32),
    /// The connection manager with this manager ID.
    Manager(u16),
}

/// A process that is connected to the broker, as a device or as a connection manager.
pub(super) struct Member {
    link: OwnedFd,
    identity: Identity,
    /// Messages for which the socket had no room.
    backlog: VecDeque<Vec<u8>>,
    backlog_bytes: usize,
    /// Bytes in the queues of all members.
    total_backlog: Arc<AtomicUsize>,
    /// Whether the member has closed its socket or violated the protocol. The broker removes it at the next
    /// [`Broker::serve`](super::broker::Broker::serve).
    has_left: bool,
    /// Whether the member belongs to the process of the broker.
    is_own_process: bool,
    /// Whether the member is a standby, which has the connection lists of all managers.
    pub(super) is_standby: bool,
}

impl Member {
    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// The manager ID, if the member is a connection manager.
    pub(super) fn manager(&self) -> Option<u16> {
        if let Identity::Manager(id) = self.identity { Some(id) } else { None }
    }

    pub(super) fn is_own_process(&self) -> bool {
        self.is_own_process
    }

    /// Marks the member for removal.
    pub(super) fn leave(&mut self) {
        self.has_left = true;
    }

    /// Sends a message, or queues it if the socket has no room. Returns `false` if the message was dropped.
    pub(super) fn send(&mut self, message: Vec<u8>) -> bool {
        if self.backlog.is_empty() {
            match socket::send(&self.link, &message) {
                Ok(()) => return true,
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => {}
                Err(_) => self.has_left = true,
            }
        }
        let total = self.total_backlog.load(Ordering::Relaxed);
        if self.has_left
            || self.backlog_bytes + message.len() > MAX_BACKLOG
            || total + message.len() > MAX_TOTAL_BACKLOG
        {
            return false;
        }
        self.backlog_bytes += message.len();
        self.total_backlog.fetch_add(message.len(), Ordering::Relaxed);
        self.backlog.push_back(message);
        true
    }

    /// Sends a message with a file descriptor, if the socket has room.
    pub(super) fn send_with(&self, message: &[u8], file: &impl AsFd) -> nix::Result<()> {
        socket::send_with(&self.link, message, file)
    }

    /// Sends queued messages, as many as the socket has room for.
    pub(super) fn flush(&mut self) {
        while let Some(message) = self.backlog.front() {
            match socket::send(&self.link, message) {
                Ok(()) => {
                    self.backlog_bytes -= message.len();
                    self.total_backlog.fetch_sub(message.len(), Ordering::Relaxed);
                    self.backlog.pop_front();
                }
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => return,
                Err(_) => {
                    self.has_left = true;
                    return;
                }
            }
        }
    }

    /// Receives a message without waiting, and the descriptor that came with it.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> nix::Result<(usize, Option<OwnedFd>)> {
        socket::receive_with(&self.link, buffer)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.total_backlog.fetch_sub(self.backlog_bytes, Ordering::Relaxed);
    }
}

/// All members, with an index by slot and an index by manager ID.
pub(super) struct Members {
    table: BTreeMap<MemberId, Member>,
    next_id: MemberId,
    total_backlog: Arc<AtomicUsize>,
    by_slot: Box<[Option<MemberId>; SLOTS as usize]>,
    by_manager: BTreeMap<u16, MemberId>,
}

impl Members {
    pub(super) fn new() -> Members {
        Members {
            table: BTreeMap::new(),
            next_id: 0,
            total_backlog: Arc::default(),
            by_slot: Box::new([None; SLOTS as usize]),
            by_manager: BTreeMap::new(),
        }
    }

    /// Adds a process that has just connected.
    pub(super) fn accept(&mut self, link: OwnedFd) {
        let is_own_process = socket::peer_process(&link) == std::process::id() as i32;
        let member = Member {
            link,
            identity: Identity::Unknown,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            total_backlog: self.total_backlog.clone(),
            has_left: false,
            is_own_process,
            is_standby: false,
        };
        let is_unknown = |member: &Member| member.identity == Identity::Unknown && !member.has_left;
        if self.table.values().filter(|member| is_unknown(member)).count() >= MAX_UNKNOWN {
            // A member without identity is in no index.
            let oldest = self.table.iter().find(|(_, member)| is_unknown(member)).map(|(id, _)| *id);
            oldest.and_then(|oldest| self.table.remove(&oldest));
        }
        self.table.insert(self.next_id, member);
        self.next_id += 1;
    }

    /// The members that have not left.
    pub(super) fn ids(&self) -> Vec<MemberId> {
        self.table.iter().filter(|(_, member)| !member.has_left).map(|(id, _)| *id).collect()
    }

    pub(super) fn get_mut(&mut self, id: MemberId) -> Option<&mut Member> {
        self.table.get_mut(&id)
    }

    /// All members, in the order in which they connected.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.table.values_mut()
    }

    /// The device with this slot.
    pub(super) fn device(&mut self, slot: u32) -> Option<&mut Member> {
        self.table.get_mut(&self.by_slot[slot as usize]?)
    }

    /// The connection manager with this manager ID.
    pub(super) fn manager(&mut self, manager: u16) -> Option<&mut Member> {
        self.table.get_mut(self.by_manager.get(&manager)?)
    }

    /// Whether a device with this slot has joined.
    pub(super) fn has_device(&self, slot: u32) -> bool {
        self.by_slot[slot as usize].is_some()
    }

    /// Gives a member its identity. A member that had the same identity is removed: the system admits one owner of a
    /// slot and of a manager ID at a time, so the earlier owner no longer exists.
    pub(super) fn introduce(&mut self, id: MemberId, identity: Identity) {
        let earlier = match identity {
            Identity::Unknown => None,
            Identity::Device(slot) => self.by_slot[slot as usize].replace(id),
            Identity::Manager(manager) => self.by_manager.insert(manager, id),
        };
        if let Some(member) = earlier.and_then(|earlier| self.table.get_mut(&earlier)) {
            (member.identity, member.has_left) = (Identity::Unknown, true);
        }
        if let Some(member) = self.table.get_mut(&id) {
            member.identity = identity;
        }
    }

    /// Removes the members that have left; returns their identities.
    pub(super) fn remove_left(&mut self) -> Vec<Identity> {
        let mut left = Vec::new();
        self.table.retain(|_, member| {
            if member.has_left {
                left.push(member.identity);
            }
            !member.has_left
        });
        for identity in &left {
            match identity {
                Identity::Unknown => {}
                Identity::Device(slot) => self.by_slot[*slot as usize] = None,
                Identity::Manager(manager) => drop(self.by_manager.remove(manager)),
            }
        }
        left
    }

    /// The sockets of all members, for waiting.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.table.values().map(|member| member.link.as_fd())
    }

    /// Whether messages are queued for a member.
    pub(super) fn have_backlog(&self) -> bool {
        self.table.values().any(|member| !member.backlog.is_empty())
    }

    /// Sends the ports of all devices to each device.
    pub(super) fn send_directory(&mut self, directory: &message::Directory) {
        for member in self.table.values_mut() {
            if let Identity::Device(slot) = member.identity {
                member.send(message::directory(slot, directory));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    /// The two ends of a link, of which neither waits.
    fn link() -> (OwnedFd, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap()
    }

    #[test]
    fn processes_that_do_not_introduce_themselves_are_bounded() {
        let mut members = Members::new();
        let (known, _other) = link();
        members.accept(known);
        members.introduce(0, Identity::Device(7));
        let mut silent = Vec::new();
        for _ in 0..MAX_UNKNOWN + 50 {
            let (own, other) = link();
            members.accept(own);
            silent.push(other);
        }
        assert_eq!(members.ids().len(), MAX_UNKNOWN + 1);
        assert!(members.device(7).is_some());
        let mut buffer = [0; 8];
        let is_closed = |link: &OwnedFd, buffer: &mut [u8]| socket::receive(link, buffer) == Ok(0);
        assert!(is_closed(&silent[49], &mut buffer) && !is_closed(&silent[50], &mut buffer), "the oldest are closed");
    }

    /// For members that do not receive, messages are queued up to a limit for each member, and up to a limit for all
    /// members together.
    #[test]
    fn messages_for_members_that_do_not_receive_are_bounded() {
        let mut members = Members::new();
        let mut others = Vec::new();
        for id in 0..12 {
            let (own, other) = link();
            members.accept(own);
            others.push(other);
            let member = members.get_mut(id).unwrap();
            while member.send(vec![0; 60_000]) {}
            assert!(member.backlog_bytes <= MAX_BACKLOG);
        }
        let total = |members: &Members| members.total_backlog.load(Ordering::Relaxed);
        assert!((MAX_TOTAL_BACKLOG - 60_000..=MAX_TOTAL_BACKLOG).contains(&total(&members)), "{}", total(&members));
        // A member that receives again empties its queue.
        let member = members.get_mut(0).unwrap();
        let mut buffer = vec![0; 60_000];
        while !member.backlog.is_empty() {
            while socket::receive(&others[0], &mut buffer).is_ok() {}
            member.flush();
        }
        let before = total(&members);
        members.get_mut(1).unwrap().leave();
        members.remove_left();
        assert!(total(&members) < before);
        drop(others);
    }
}
