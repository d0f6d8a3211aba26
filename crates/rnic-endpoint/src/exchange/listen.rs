//! Accepting TCP connections: until a condition ends it, and with a bounded number of clients for each host.

use crate::sync::lock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

/// Interval in milliseconds at which [`accept`] calls `ends`.
const CHECK_INTERVAL: u8 = 100;

/// Waits for the next client; returns `None` when `ends` returns true. Calls `ends` about ten times a second.
///
/// # Errors
/// An error of `listener`.
pub fn accept(listener: &TcpListener, ends: &impl Fn() -> bool) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    listener.set_nonblocking(true)?;
    loop {
        if ends() {
            return Ok(None);
        }
        match listener.accept() {
            Ok(client) => return Ok(Some(client)),
            // Either no client is waiting, or the client has already closed its connection.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        match poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], PollTimeout::from(CHECK_INTERVAL)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Limits the number of clients of a server at the same time.
#[derive(Clone, Debug)]
pub struct ClientLimit {
    /// The host of each client.
    clients: Arc<Mutex<Vec<IpAddr>>>,
    /// Maximum number of clients of all hosts, and of one host.
    max: [usize; 2],
}

impl ClientLimit {
    /// A limit for all hosts, and one for each host.
    pub fn new(of_all: usize, of_host: usize) -> ClientLimit {
        ClientLimit { clients: Arc::default(), max: [of_all, of_host] }
    }

    /// Admits a client with this address; `None` if a limit is reached.
    pub fn admit(&self, client: SocketAddr) -> Option<Admission> {
        let host = client.ip().to_canonical();
        let mut clients = lock(&self.clients);
        let [of_all, of_host] = self.max;
        let has_room = clients.len() < of_all && clients.iter().filter(|other| **other == host).count() < of_host;
        has_room.then(|| {
            clients.push(host);
            Admission { clients: self.clients.clone(), host }
        })
    }
}

/// An admitted client of a [`ClientLimit`]. Dropping it makes room for another client.
#[derive(Debug)]
pub struct Admission {
    clients: Arc<Mutex<Vec<IpAddr>>>,
    host: IpAddr,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut clients = lock(&self.clients);
        if let Some(at) = clients.iter().position(|host| *host == self.host) {
            clients.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_limited_by_host_and_in_total() {
        let limit = ClientLimit::new(3, 2);
        let [a, same, b, c] = ["10.0.0.1:1", "[::ffff:10.0.0.1]:2", "10.0.0.2:1", "10.0.0.3:1"]
            .map(|client| client.parse::<SocketAddr>().unwrap());
        let first = limit.admit(a).unwrap();
        let _second = limit.admit(same).unwrap();
        assert!(limit.admit(a).is_none(), "two clients of this host");
        let _third = limit.admit(b).unwrap();
        assert!(limit.admit(c).is_none(), "three clients of all hosts");
        drop(first);
        assert!(limit.admit(a).is_some());
    }
}
