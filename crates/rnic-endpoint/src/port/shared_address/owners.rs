//! Which users own the names of Unix sockets of an address, for messages to users.
//!
//! Names in the abstract namespace belong to the first process that binds them, of any user. The kernel reports the
//! names and the users of all sockets of a network namespace over netlink (sock_diag(7)), also to unprivileged
//! processes.

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use nix::unistd::{Uid, User};
use rnic_untrusted::text::escaped;
use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::AsRawFd;

/// Types of netlink messages, and flags of a request for all sockets (linux/netlink.h, linux/sock_diag.h).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
/// Lengths of the header of a netlink message, and of `unix_diag_msg` (linux/unix_diag.h); offset of its socket type.
const HEADER: usize = 16;
const ABOUT: usize = 16;
const TYPE: usize = 1;
/// Attributes of a socket: name, and user ID (since Linux 5.3); bits that request them.
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_UID: u16 = 7;
const SHOW: u32 = 1 << 0 | 1 << 6;
/// Maximum number of netlink messages that are read, one for each Unix socket of the host. On a host with more sockets
/// the result is incomplete.
const MAX_MESSAGES: usize = 1 << 20;

/// A user of this host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Owner(u32);

impl Owner {
    pub(super) fn new(uid: u32) -> Owner {
        Owner(uid)
    }

    /// Whether the user is the user of this process.
    pub(super) fn is_self(self) -> bool {
        self.0 == nix::unistd::geteuid().as_raw()
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match User::from_uid(Uid::from_raw(self.0)) {
            Ok(Some(user)) => write!(f, "user {} (ID {})", escaped(&user.name), self.0),
            _ => write!(f, "the user with ID {}", self.0),
        }
    }
}

/// The owners of the names that are `name` or begin with `name` and a slash, in the network namespace of this thread. A
/// name has no owner here if the kernel does not report it.
pub(super) fn owners(name: &str) -> BTreeMap<String, Option<Owner>> {
    let mut owners = BTreeMap::new();
    // Without an answer of the kernel the message to the user does not name the user.
    let _ = each_socket(|bytes, uid| {
        let Some(found) = bytes.strip_prefix(b"\0").and_then(|bytes| std::str::from_utf8(bytes).ok()) else { return };
        if found.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            owners.insert(found.to_string(), uid.map(Owner));
        }
    });
    owners
}

/// Calls `each` with the name and the user ID of every Unix socket of type `SOCK_SEQPACKET` that has a name.
pub(crate) fn each_socket(mut each: impl FnMut(&[u8], Option<u32>)) -> nix::Result<()> {
    let (family, kind) = (AddressFamily::Netlink, SockType::Raw);
    let netlink = socket(family, kind, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)?;
    send(netlink.as_raw_fd(), &request(), MsgFlags::empty())?;
    let mut buffer = vec![0; 1 << 16];
    let mut messages = 0;
    loop {
        let len = match recv(netlink.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Err(Errno::EINTR) => continue,
            received => received?,
        };
        let mut rest = &buffer[..len];
        while let Some((kind, payload, next)) = split(rest) {
            messages += 1;
            if kind == NLMSG_DONE || kind == NLMSG_ERROR || messages > MAX_MESSAGES {
                return Ok(());
            }
            if kind == SOCK_DIAG_BY_FAMILY {
                // Sockets of other types have their own names.
                let is_sequenced = payload.get(TYPE) == Some(&(SockType::SeqPacket as u8));
                let (name, uid) = attributes(payload.get(ABOUT..).unwrap_or_default());
                if is_sequenced && !name.is_empty() {
                    each(name, uid);
                }
            }
            rest = next;
        }
        if len == 0 {
            return Ok(());
        }
    }
}

/// The request for all Unix sockets: the header of a netlink message, and `unix_diag_req`.
fn request() -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((HEADER as u32 + 24).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_DUMP.to_ne_bytes());
    // Sequence number, and port ID of the sender.
    bytes.extend([0; 8]);
    bytes.extend([AddressFamily::Unix as u8, 0, 0, 0]);
    // All states, any inode number, the attributes, any cookie.
    for word in [u32::MAX, 0, SHOW, u32::MAX, u32::MAX] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Splits the first netlink message off: its type, its payload, and the messages after it.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = word(bytes, 0)? as usize;
    let payload = bytes.get(HEADER..len)?;
    Some((half(bytes, 4)?, payload, bytes.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

/// The name and the user ID in a list of attributes.
fn attributes(mut bytes: &[u8]) -> (&[u8], Option<u32>) {
    let (mut name, mut uid) = (&[][..], None);
    while let (Some(len), Some(kind)) = (half(bytes, 0), half(bytes, 2)) {
        let Some(value) = bytes.get(4..usize::from(len)) else { break };
        match kind {
            UNIX_DIAG_NAME => name = value,
            UNIX_DIAG_UID => uid = word(value, 0),
            _ => {}
        }
        bytes = bytes.get(usize::from(len).next_multiple_of(4)..).unwrap_or_default();
    }
    (name, uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{Backlog, UnixAddr, bind, listen};

    #[test]
    fn names_and_their_users_are_found() {
        let base = format!("rnic-test-owners-{}", std::process::id());
        let bound = |kind: SockType, part: &str| {
            let socket = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
            let name = UnixAddr::new_abstract(format!("{base}{part}").as_bytes()).unwrap();
            bind(socket.as_raw_fd(), &name).unwrap();
            socket
        };
        let own = ["", "/3", "0"].map(|part| bound(SockType::SeqPacket, part));
        listen(&own[0], Backlog::new(1).unwrap()).unwrap();
        let _other = bound(SockType::Datagram, "/4");
        let found = owners(&base);
        assert_eq!(found.keys().cloned().collect::<Vec<_>>(), [base.clone(), format!("{base}/3")]);
        for owner in found.values() {
            // Kernels before 5.3 do not report users.
            assert!(owner.is_none_or(Owner::is_self), "{owner:?}");
        }
        assert!(owners(&format!("{base}/no")).is_empty());
    }

    #[test]
    fn users_have_names_or_numbers() {
        assert_eq!(Owner(0).to_string(), "user root (ID 0)");
        assert_eq!(Owner(4_000_000_000).to_string(), "the user with ID 4000000000");
    }

    #[test]
    fn truncated_answers_end_the_search() {
        assert_eq!(split(&[1, 0, 0]), None);
        let message = request();
        for len in 0..message.len() {
            assert!(split(&message[..len]).is_none());
        }
        assert!(split(&message).is_some_and(|(kind, payload, rest)| {
            kind == SOCK_DIAG_BY_FAMILY && payload.len() == 24 && rest.is_empty()
        }));
        assert_eq!(attributes(&[3, 0, 0, 0]), (&[][..], None), "shorter than its own header");
        assert_eq!(attributes(&[200, 0, 0, 0, 1]), (&[][..], None));
    }
}
