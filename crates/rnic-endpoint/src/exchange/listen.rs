//! Accepting TCP connections: until a condition ends it, and with a bounded number of clients for each host.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rnic_untrusted::admission::{Admission, Admissions};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

/// Interval in milliseconds at which [`accept`] calls `ends`.
const CHECK_INTERVAL: u8 = 100;

/// What to do after `accept` has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AfterError {
    /// Wait for the next client.
    Wait,
    /// Try again after [`CHECK_INTERVAL`]: the system has no room for the connection now.
    Pause,
    /// The listener cannot be used.
    End,
}

/// Classifies an error of `accept`. On Linux, `accept` also returns errors of a client's network (accept(2), "Error
/// handling"). A server must survive these errors, and must also survive if clients use up its file descriptors.
fn after(error: &io::Error) -> AfterError {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(
            Errno::EAGAIN
            | Errno::EINTR
            | Errno::ECONNABORTED
            | Errno::EPROTO
            | Errno::ENOPROTOOPT
            | Errno::EPERM
            | Errno::ENETDOWN
            | Errno::ENETUNREACH
            | Errno::EHOSTDOWN
            | Errno::EHOSTUNREACH
            | Errno::ENONET
            | Errno::EOPNOTSUPP
            | Errno::ETIMEDOUT,
        ) => AfterError::Wait,
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM) => AfterError::Pause,
        _ => AfterError::End,
    }
}

/// Waits for the next client; returns `None` when `ends` returns true. Calls `ends` about ten times a second.
///
/// # Errors
/// The listener cannot be used. If the system has no file descriptors or no memory for a client, the call waits until
/// it has.
pub fn accept(listener: &TcpListener, ends: &impl Fn() -> bool) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    listener.set_nonblocking(true)?;
    loop {
        if ends() {
            return Ok(None);
        }
        let next = match listener.accept() {
            Ok(client) => return Ok(Some(client)),
            Err(error) => match after(&error) {
                AfterError::End => return Err(error),
                next => next,
            },
        };
        let mut listening = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        // After a pause the client still waits, so polling the listener would return immediately.
        let waited_for = if next == AfterError::Pause { &mut listening[..0] } else { &mut listening[..] };
        match poll(waited_for, PollTimeout::from(CHECK_INTERVAL)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Admits a client that [`accept`] has returned. If the client is evicted, its connection is closed, and a thread that
/// waits for its messages gets an error. Returns `None` if the client must be refused.
pub fn admit(admissions: &Admissions, stream: &TcpStream, peer: SocketAddr) -> Option<Admission> {
    let socket = stream.try_clone().ok()?;
    admissions.admit(peer.ip(), move || {
        // The call fails only if the connection is already broken.
        let _ = socket.shutdown(Shutdown::Both);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_untrusted::admission::Limit;
    use std::io::Read;

    #[test]
    fn an_evicted_client_is_disconnected() {
        let limit = Limit { of_all: 1, of_host: 1 };
        let admissions = Admissions::new(limit, limit);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, peer) = accept(&listener, &|| false).unwrap().unwrap();
            let admission = admit(&admissions, &stream, peer).unwrap();
            (client, stream, admission)
        };
        let (mut first, mut at_server, admission) = connect();
        let _second = connect();
        assert!(admission.is_evicted());
        assert_eq!(first.read(&mut [0]).unwrap(), 0);
        assert_eq!(at_server.read(&mut [0]).unwrap(), 0, "the thread of the server does not wait any longer");
    }

    #[test]
    fn errors_of_clients_do_not_end_a_server() {
        let after = |errno: Errno| after(&io::Error::from_raw_os_error(errno as i32));
        assert_eq!(after(Errno::ECONNABORTED), AfterError::Wait);
        assert_eq!(after(Errno::EHOSTUNREACH), AfterError::Wait);
        assert_eq!(after(Errno::EMFILE), AfterError::Pause);
        assert_eq!(after(Errno::EBADF), AfterError::End);
    }
}
