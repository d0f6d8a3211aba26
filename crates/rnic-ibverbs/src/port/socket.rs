//! The Unix sockets between the processes that share an address. They are in the abstract namespace, which belongs to
//! the network namespace as the address does: no file is left behind, and containers do not meet.

use super::message::VERSION;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind, connect, getsockopt,
    listen, recv, send, sendmsg, setsockopt, socket, sockopt,
};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

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

/// Claims the name of the communication manager with this mark, for as long as the descriptor is open: who has it is
/// the manager, or knows that there is none.
///
/// # Errors
/// `EADDRINUSE` if another process has it.
pub(super) fn claim_manager(ip: IpAddr, mark: u16) -> nix::Result<OwnedFd> {
    let socket = unbound()?;
    bind(socket.as_raw_fd(), &UnixAddr::new_abstract(format!("rnic/verbs/{VERSION}/{ip}/cm/{mark}").as_bytes())?)?;
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

/// The number of the process that has made the other end; 0 if it has none in this process's namespace.
pub(super) fn process(socket: &OwnedFd) -> i32 {
    getsockopt(socket, sockopt::PeerCredentials).map_or(0, |peer| peer.pid())
}

/// As [`put`], with a descriptor.
pub(super) fn put_with(socket: &OwnedFd, message: &[u8], file: &impl AsFd) -> nix::Result<()> {
    let files = [file.as_fd().as_raw_fd()];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    loop {
        let control = [ControlMessage::ScmRights(&files)];
        match sendmsg::<()>(socket.as_raw_fd(), &[std::io::IoSlice::new(message)], &control, flags, None) {
            Err(Errno::EINTR) => {}
            result => return result.map(|_| ()),
        }
    }
}

/// Room for a control message with one descriptor; the system puts two there if it gets two.
#[repr(C, align(8))]
struct Control([u8; 24]);

/// As [`take`], with a descriptor that may have come with the message. Further ones are closed.
pub(super) fn take_with(socket: &OwnedFd, buffer: &mut [u8]) -> nix::Result<(usize, Option<OwnedFd>)> {
    let mut control = Control([0; 24]);
    let mut data = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zeros is a valid value.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    (head.msg_iov, head.msg_iovlen) = (&raw mut data, 1);
    let len = loop {
        (head.msg_control, head.msg_controllen) = ((&raw mut control).cast(), size_of::<Control>());
        // SAFETY: the buffers are valid, and live until the call has ended.
        let len =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut head, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) };
        match Errno::result(len) {
            Err(Errno::EINTR) => {}
            result => break result? as usize,
        }
    };
    let mut files = Vec::new();
    // SAFETY: the system has filled the buffer, whose length it has written to the head. The crate `nix` is not used
    // here, because it does not tell the descriptors of a truncated control message, which would stay open.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&raw const head);
        while let Some(part) = next.as_ref() {
            if (part.cmsg_level, part.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = part.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let first = libc::CMSG_DATA(next).cast::<libc::c_int>();
                for at in 0..bytes / size_of::<libc::c_int>() {
                    // The descriptors are new, and nobody else owns them.
                    files.push(OwnedFd::from_raw_fd(first.add(at).read_unaligned()));
                }
            }
            next = libc::CMSG_NXTHDR(&raw const head, next);
        }
    }
    Ok((len, files.into_iter().next()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::socketpair;

    /// One descriptor arrives, and neither several nor none leave any behind.
    #[test]
    fn descriptors_are_taken_or_closed() {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (a, b) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        let mut buffer = [0; 16];
        put(&a, b"none").unwrap();
        assert!(matches!(take_with(&b, &mut buffer), Ok((4, None))));
        assert_eq!(take_with(&b, &mut buffer).unwrap_err(), Errno::EAGAIN);
        put_with(&a, b"one", &b).unwrap();
        assert!(matches!(take_with(&b, &mut buffer), Ok((3, Some(_)))));
        // A pipe whose writing ends are sent: its reading end sees the end of the data only if all of them are closed.
        for count in [1, 2, 3, 50] {
            let (read, write) = nix::unistd::pipe().unwrap();
            let files = vec![write.as_raw_fd(); count];
            let control = [ControlMessage::ScmRights(&files)];
            sendmsg::<()>(a.as_raw_fd(), &[std::io::IoSlice::new(b"many")], &control, MsgFlags::empty(), None).unwrap();
            drop(write);
            let (len, first) = take_with(&b, &mut buffer).unwrap();
            assert!(len == 4 && first.is_some());
            drop(first);
            assert_eq!(nix::unistd::read(&read, &mut buffer), Ok(0), "{count}");
        }
    }
}
