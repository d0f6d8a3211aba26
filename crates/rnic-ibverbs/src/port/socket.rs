//! The Unix sockets between the processes that share an address. They are in the abstract namespace, which belongs to
//! the network namespace as the address does: no file is left behind, and containers do not meet.

use super::message::VERSION;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind, connect, getsockopt, listen, recv,
    send, setsockopt, socket, sockopt,
};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bytes of messages that may wait in a socket, as far as the system admits it.
const BUFFER: usize = 4 << 20;

fn unbound() -> nix::Result<OwnedFd> {
    socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)
}

fn name(ip: IpAddr) -> nix::Result<UnixAddr> {
    UnixAddr::new_abstract(format!("rnic/verbs/{VERSION}/{ip}").as_bytes())
}

/// Claims the slot `slot` of the address `ip`, for as long as the descriptor is open. The system makes sure that no
/// other process gets it, whatever brokers come and go.
///
/// # Errors
/// `EADDRINUSE` if another process has it.
pub(super) fn claim_slot(ip: IpAddr, slot: u32) -> nix::Result<OwnedFd> {
    let socket = unbound()?;
    bind(socket.as_raw_fd(), &UnixAddr::new_abstract(format!("rnic/verbs/{VERSION}/{ip}/{slot}").as_bytes())?)?;
    Ok(socket)
}

/// Claims the address `ip`: only one process gets the socket.
///
/// # Errors
/// `EADDRINUSE` if another process has claimed the address.
pub(super) fn claim(ip: IpAddr) -> nix::Result<OwnedFd> {
    let socket = unbound()?;
    bind(socket.as_raw_fd(), &name(ip)?)?;
    listen(&socket, Backlog::new(128)?)?;
    Ok(socket)
}

/// Connects to the process that has claimed the address `ip`.
///
/// # Errors
/// `ECONNREFUSED` if there is none, `EPERM` if it belongs to another user.
pub(super) fn join(ip: IpAddr) -> nix::Result<OwnedFd> {
    let socket = unbound()?;
    connect(socket.as_raw_fd(), &name(ip)?)?;
    of_this_user(socket)
}

/// The next process that has connected; `None` if there is none, or it belongs to another user.
pub(super) fn accept(listener: &OwnedFd) -> Option<OwnedFd> {
    let fd = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK).ok()?;
    // SAFETY: `accept4` has returned a new descriptor that nobody else owns.
    of_this_user(unsafe { OwnedFd::from_raw_fd(fd) }).ok()
}

fn of_this_user(socket: OwnedFd) -> nix::Result<OwnedFd> {
    let peer = getsockopt(&socket, sockopt::PeerCredentials)?;
    if peer.uid() != nix::unistd::geteuid().as_raw() {
        return Err(Errno::EPERM);
    }
    let _ = setsockopt(&socket, sockopt::SndBuf, &BUFFER);
    Ok(socket)
}

/// Sends a message without waiting.
pub(super) fn put(socket: &OwnedFd, message: &[u8]) -> nix::Result<()> {
    loop {
        match send(socket.as_raw_fd(), message, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EINTR) => {}
            result => return result.map(|_| ()),
        }
    }
}

/// Receives a message without waiting; returns its length. 0: the peer has gone.
pub(super) fn take(socket: &OwnedFd, buffer: &mut [u8]) -> nix::Result<usize> {
    loop {
        match recv(socket.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}
