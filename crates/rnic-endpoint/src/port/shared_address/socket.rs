//! The Unix sockets between the processes that share an address, and the names that they claim. Names are in the
//! abstract namespace, which belongs to the network namespace, as the address does: no file remains, and containers are
//! separate.
//!
//! | name | its owner is |
//! |---|---|
//! | `rnic/verbs/VERSION/IP` | the broker of the address |
//! | `rnic/verbs/VERSION/IP/SLOT` | the device with this slot |
//! | `rnic/verbs/VERSION/IP/cm/ID` | the connection manager with this manager ID, or the process that ends its connections |
//! | `rnic/stats/VERSION/ID` | a process that publishes statistics ([`crate::statistics`]), with a random ID |

use super::message::VERSION;
use super::owners::Owner;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, bind, connect as connect_to,
    getsockopt, listen, recv, send as send_to, sendmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, accept_with, recvmsg};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

/// Size of the send buffer of a socket to request from the system, in bytes.
const SEND_BUFFER: usize = 4 << 20;

fn unbound() -> nix::Result<OwnedFd> {
    socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)
}

/// Binds a new socket to an abstract name. The name is in use as long as the descriptor is open in any process.
fn claim(name: &str) -> nix::Result<OwnedFd> {
    let socket = unbound()?;
    bind(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
    Ok(socket)
}

/// The name of the broker of an address; the names of slots and managers begin with it.
pub(super) fn broker_name(ip: IpAddr) -> String {
    format!("rnic/verbs/{VERSION}/{ip}")
}

/// Claims the slot `slot` of the address `ip` for as long as the descriptor is open. The system ensures that no other
/// process gets the slot, even if the broker changes.
///
/// # Errors
/// `EADDRINUSE` if another process has the slot.
pub(super) fn claim_slot(ip: IpAddr, slot: u32) -> nix::Result<OwnedFd> {
    claim(&format!("{}/{slot}", broker_name(ip)))
}

/// Claims the name of the connection manager with this manager ID for as long as the descriptor is open. The owner of
/// the name is the manager, or the only process that may end its connections after the manager has ended.
///
/// # Errors
/// `EADDRINUSE` if another process has the name.
pub(super) fn claim_manager(ip: IpAddr, manager: u16) -> nix::Result<OwnedFd> {
    claim(&format!("{}/cm/{manager}", broker_name(ip)))
}

/// Claims the role of the broker of the address `ip`, and listens for members. Only one process at a time can have this
/// role.
///
/// # Errors
/// `EADDRINUSE` if another process is the broker.
pub(super) fn claim_address(ip: IpAddr) -> nix::Result<OwnedFd> {
    let socket = claim(&broker_name(ip))?;
    listen(&socket, Backlog::new(128)?)?;
    Ok(socket)
}

/// Connects to the broker of the address `ip`. The result is the user of the broker if this is another user.
///
/// # Errors
/// `ECONNREFUSED` if the address has no broker.
pub(super) fn connect(ip: IpAddr) -> nix::Result<Result<OwnedFd, Owner>> {
    let socket = unbound()?;
    connect_to(socket.as_raw_fd(), &UnixAddr::new_abstract(broker_name(ip).as_bytes())?)?;
    of_this_user(socket)
}

/// Listens at the name of a slot, so that the device gets packets by memory ([`super::links`]).
pub(super) fn listen_at(name: &OwnedFd) -> nix::Result<()> {
    listen(name, Backlog::new(128)?)
}

/// Connects to the device with the slot `slot` of the address `ip`. The result is the user of the device if this is
/// another user.
///
/// # Errors
/// `ECONNREFUSED` if no device has the slot, or the device does not listen.
pub(super) fn connect_slot(ip: IpAddr, slot: u32) -> nix::Result<Result<OwnedFd, Owner>> {
    let socket = unbound()?;
    let name = format!("{}/{slot}", broker_name(ip));
    connect_to(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
    of_this_user(socket)
}

/// Maximum number of processes of other users whose connections one call of [`accept`] closes.
const MAX_OTHERS: usize = 128;

/// Accepts the next process of this user that has connected; `None` if no such process has connected. Closes earlier
/// connections of other users.
pub(super) fn accept(listener: &OwnedFd) -> Option<OwnedFd> {
    for _ in 0..MAX_OTHERS {
        let socket = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()?;
        if let Ok(Ok(socket)) = of_this_user(socket) {
            return Some(socket);
        }
    }
    None
}

/// Checks that the peer of a connected socket belongs to the user of this process; otherwise returns the peer's user.
fn of_this_user(socket: OwnedFd) -> nix::Result<Result<OwnedFd, Owner>> {
    let peer = Owner::new(getsockopt(&socket, sockopt::PeerCredentials)?.uid());
    if !peer.is_self() {
        return Ok(Err(peer));
    }
    let _ = setsockopt(&socket, sockopt::SndBuf, &SEND_BUFFER);
    Ok(Ok(socket))
}

/// Listens at `name`, for any process. Accepting from the socket waits for a process.
pub(crate) fn listen_with_blocking(name: &str) -> nix::Result<OwnedFd> {
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    bind(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
    listen(&socket, Backlog::new(16)?)?;
    Ok(socket)
}

/// Waits for the next process that connects. `None` if it belongs neither to this user nor to root, or has gone.
pub(crate) fn accept_reader(listener: &OwnedFd) -> Option<OwnedFd> {
    let socket = accept_with(listener, SocketFlags::CLOEXEC).ok()?;
    let user = getsockopt(&socket, sockopt::PeerCredentials).ok()?.uid();
    (user == 0 || Owner::new(user).is_self()).then_some(socket)
}

/// Sends a message, and waits for at most `timeout` for room.
pub(crate) fn send_within(socket: &OwnedFd, message: &[u8], timeout: Duration) -> nix::Result<()> {
    // A timeout of 0 would mean none.
    let timeout = TimeVal::new(timeout.as_secs() as i64, i64::from(timeout.subsec_micros().max(1)));
    setsockopt(socket, sockopt::SendTimeout, &timeout)?;
    loop {
        match send_to(socket.as_raw_fd(), message, MsgFlags::MSG_NOSIGNAL) {
            Err(Errno::EINTR) => {}
            result => return result.map(|_| ()),
        }
    }
}

/// Connects to a process that listens at `name`, without waiting. Returns the socket, the process's user, and its
/// process ID if it has one in the namespace of this process.
pub(crate) fn connect_to_any(name: &str) -> nix::Result<(OwnedFd, u32, Option<u32>)> {
    let socket = unbound()?;
    connect_to(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
    let peer = getsockopt(&socket, sockopt::PeerCredentials)?;
    Ok((socket, peer.uid(), u32::try_from(peer.pid()).ok().filter(|pid| *pid > 0)))
}

/// Sends a message without waiting.
pub(super) fn send(socket: &OwnedFd, message: &[u8]) -> nix::Result<()> {
    loop {
        match send_to(socket.as_raw_fd(), message, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EINTR) => {}
            result => return result.map(|_| ()),
        }
    }
}

/// Receives a message without waiting; returns its length, or 0 if the peer has closed its socket.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> nix::Result<usize> {
    loop {
        match recv(socket.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// The process ID of the peer of a connected socket; 0 if the peer has none in the namespace of this process.
pub(super) fn peer_process(socket: &OwnedFd) -> i32 {
    getsockopt(socket, sockopt::PeerCredentials).map_or(0, |peer| peer.pid())
}

/// Sends a message with a file descriptor, without waiting.
pub(super) fn send_with(socket: &OwnedFd, message: &[u8], file: &impl AsFd) -> nix::Result<()> {
    let files = [file.as_fd().as_raw_fd()];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    loop {
        let control = [ControlMessage::ScmRights(&files)];
        match sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(message)], &control, flags, None) {
            Err(Errno::EINTR) => {}
            result => return result.map(|_| ()),
        }
    }
}

/// Receives a message like [`receive`], with the first file descriptor that came with it. Further descriptors are
/// closed, even if the system truncated the control message: the crate `nix` does not return the descriptors of a
/// truncated message.
pub(super) fn receive_with(socket: &OwnedFd, buffer: &mut [u8]) -> nix::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let length = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Errno::from_raw(error.raw_os_error())),
            Ok(message) => break message.bytes,
        }
    };
    let descriptors = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<OwnedFd>>(),
        _ => Vec::new(),
    });
    let descriptors: Vec<OwnedFd> = descriptors.collect();
    Ok((length, descriptors.into_iter().next()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::socketpair;

    /// One descriptor arrives. Several descriptors, or none, leave none open.
    #[test]
    fn descriptors_are_received_or_closed() {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (a, b) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        let mut buffer = [0; 16];
        send(&a, b"none").unwrap();
        assert!(matches!(receive_with(&b, &mut buffer), Ok((4, None))));
        assert_eq!(receive_with(&b, &mut buffer).unwrap_err(), Errno::EAGAIN);
        send_with(&a, b"one", &b).unwrap();
        assert!(matches!(receive_with(&b, &mut buffer), Ok((3, Some(_)))));
        // A pipe whose writing ends are sent: its reading end sees the end of the data only if all of them are closed.
        for count in [1, 2, 3, 50] {
            let (read, write) = nix::unistd::pipe().unwrap();
            let files = vec![write.as_raw_fd(); count];
            let control = [ControlMessage::ScmRights(&files)];
            sendmsg::<()>(a.as_raw_fd(), &[IoSlice::new(b"many")], &control, MsgFlags::empty(), None).unwrap();
            drop(write);
            let (len, first) = receive_with(&b, &mut buffer).unwrap();
            assert!(len == 4 && first.is_some());
            drop(first);
            assert_eq!(nix::unistd::read(&read, &mut buffer), Ok(0), "{count}");
        }
    }
}
