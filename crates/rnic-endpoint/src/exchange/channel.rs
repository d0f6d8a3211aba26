//! Messages over TCP, with TLS or without.

use super::deadline::Deadline;
use super::tls::{Credentials, Stream};
use crate::device::Error;
use crate::host::ChannelError;
use rnic_untrusted::text::{MAX_CHARS, brief};
use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a message in bytes; a longer line is refused.
const MAX_LINE: usize = 1 << 20;
/// Timeout for a host to accept a TCP connection, and for the TLS handshake. It is also the timeout for the peer's next
/// message if the peer can send it immediately, and need not wait for something else first.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Time without data after which TCP sends a keepalive probe to the peer, and time between probes. After 3 probes
/// without response the system aborts the connection.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// Why an out-of-band exchange failed.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The host name cannot be resolved.
    #[error("cannot find {host}: {error}")]
    Name {
        /// The host name.
        host: String,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The TCP connection cannot be opened.
    #[error("cannot connect to {peer} over TCP: {error}; is the peer running, and the port open?")]
    Connect {
        /// The address of the peer.
        peer: SocketAddr,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The TCP connection broke.
    #[error("the connection to {peer} failed: {error}")]
    Connection {
        /// The address of the peer.
        peer: SocketAddr,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The peer closed the TCP connection.
    #[error("{peer} closed the TCP connection")]
    Gone {
        /// The address of the peer.
        peer: SocketAddr,
    },
    /// The peer sent no message within the timeout.
    #[error("{peer} sent no message within {} seconds", .waited.as_secs())]
    Silent {
        /// The address of the peer.
        peer: SocketAddr,
        /// The timeout that passed.
        waited: Duration,
    },
    /// The peer sent another message than expected.
    #[error("{peer} sent another message than expected: {why}")]
    NotUnderstood {
        /// The address of the peer.
        peer: SocketAddr,
        /// What is wrong with the message.
        why: String,
    },
    /// The two sides have different versions of the exchange or different transport services.
    #[error("{0}")]
    Disagreement(String),
    /// The peer closed the TCP connection before the TLS handshake was complete.
    #[error(
        "{peer} closed the connection during the TLS handshake; a server does so if it has no room for another client, \
         or does not use TLS"
    )]
    ClosedEarly {
        /// The address of the peer.
        peer: SocketAddr,
    },
    /// The two sides could not agree on a TLS connection.
    #[error(
        "no secured connection with {peer}: {why}; do both sides have the same secret, or certificates of one authority?"
    )]
    Untrusted {
        /// The address of the peer.
        peer: SocketAddr,
        /// What TLS says.
        why: String,
    },
    /// The local device refused an operation or failed.
    #[error(transparent)]
    Device(#[from] Error),
    /// The channel in host software refused to connect.
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

/// A TCP connection to another endpoint that carries the messages of an out-of-band exchange.
#[derive(Debug)]
pub struct Channel {
    writer: Speaker,
    local: SocketAddr,
    /// Received bytes of messages that were not returned yet.
    received: Vec<u8>,
}

/// The sending half of a [`Channel`].
#[derive(Clone, Debug)]
pub struct Speaker {
    stream: Arc<Stream>,
    peer: SocketAddr,
}

impl Channel {
    /// Opens a TCP connection to a host on which the peer's program listens. `host` is `"host:port"` or a socket
    /// address.
    ///
    /// # Errors
    /// The name cannot be resolved, or none of its addresses accepts the connection.
    pub fn connect(host: impl ToSocketAddrs + ToString) -> Result<Channel, ExchangeError> {
        Channel::over(dial(host)?)
    }

    /// Opens a connection like [`Channel::connect`] with TLS 1.3, in which both ends authenticate each other.
    ///
    /// # Errors
    /// As [`Channel::connect`]; also if the peer has other credentials, or does not use TLS.
    pub fn connect_secured(
        host: impl ToSocketAddrs + ToString, credentials: &Credentials,
    ) -> Result<Channel, ExchangeError> {
        let text = host.to_string();
        let name = text.rsplit_once(':').map_or(text.as_str(), |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']').to_string();
        Channel::prepare(dial(host)?, |socket, deadline| Stream::secured(socket, credentials.client(&name)?, deadline))
    }

    /// Makes a channel of a TCP connection that is open already, such as one that a listener accepted.
    ///
    /// # Errors
    /// When the connection is already broken.
    pub fn over(stream: TcpStream) -> Result<Channel, ExchangeError> {
        Channel::prepare(stream, |socket, _| Ok(Stream::plain(socket)))
    }

    /// Makes a channel of a TCP connection that a listener accepted, with TLS 1.3, in which both ends authenticate each
    /// other.
    ///
    /// # Errors
    /// When the connection is already broken, the peer has other credentials, or it does not use TLS.
    pub fn accept_secured(stream: TcpStream, credentials: &Credentials) -> Result<Channel, ExchangeError> {
        Channel::prepare(stream, |socket, deadline| Stream::secured(socket, credentials.server()?, deadline))
    }

    fn prepare(
        socket: TcpStream, stream: impl FnOnce(TcpStream, Deadline) -> io::Result<Stream>,
    ) -> Result<Channel, ExchangeError> {
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let peer = socket.peer_addr().map_err(|error| ExchangeError::Connection { peer: none, error })?;
        let peer = canonical(peer);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::InvalidData => ExchangeError::Untrusted { peer, why: shown(&error) },
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                ExchangeError::ClosedEarly { peer }
            }
            io::ErrorKind::TimedOut => ExchangeError::Silent { peer, waited: PATIENCE },
            _ => ExchangeError::Connection { peer, error },
        };
        let set = || {
            socket.set_nonblocking(false)?;
            socket.set_nodelay(true)?;
            socket.set_write_timeout(Some(PATIENCE))?;
            // If the peer's host disappears without closing the connection, a receive must not block for ever.
            let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(3);
            SockRef::from(&socket).set_tcp_keepalive(&keepalive)?;
            socket.local_addr()
        };
        let local = canonical(set().map_err(|error| ExchangeError::Connection { peer, error })?);
        let stream = Arc::new(stream(socket, Deadline::after(PATIENCE)).map_err(failed)?);
        Ok(Channel { writer: Speaker { stream, peer }, local, received: Vec::new() })
    }

    /// The local address of the connection. The peer can reach a device that is opened on this IP address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The address of the peer.
    pub fn peer_addr(&self) -> SocketAddr {
        self.writer.peer
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), ExchangeError> {
        self.writer.send(message)
    }

    /// Receives a message, which must arrive within [`PATIENCE`].
    ///
    /// # Errors
    /// When no message arrives in time, it has another type, or the peer closed the connection.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ExchangeError> {
        self.receive_within(Some(PATIENCE))
    }

    /// Receives a message, all bytes of which must arrive within `patience`. `None` means no time limit.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn receive_within<T: DeserializeOwned>(&mut self, patience: Option<Duration>) -> Result<T, ExchangeError> {
        let peer = self.peer_addr();
        let line = self.line(patience)?;
        serde_json::from_slice(&line).map_err(|error| {
            let text = String::from_utf8_lossy(&line);
            // The error of the JSON reader may quote the whole message.
            ExchangeError::NotUnderstood { peer, why: format!("`{}` ({})", brief(text.trim_end(), 60), shown(&error)) }
        })
    }

    /// Reads a line, with its end.
    fn line(&mut self, patience: Option<Duration>) -> Result<Vec<u8>, ExchangeError> {
        let peer = self.peer_addr();
        let deadline = patience.map(Deadline::after);
        let failed = |error: io::Error| match (error.kind(), patience) {
            (io::ErrorKind::TimedOut, Some(waited)) => ExchangeError::Silent { peer, waited },
            (io::ErrorKind::ConnectionReset, _) => ExchangeError::Gone { peer },
            (io::ErrorKind::InvalidData, _) => ExchangeError::Untrusted { peer, why: shown(&error) },
            _ => ExchangeError::Connection { peer, error },
        };
        let mut searched = 0;
        loop {
            if let Some(end) = self.received[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.received.split_off(searched + end + 1);
                return Ok(std::mem::replace(&mut self.received, rest));
            }
            searched = self.received.len();
            let mut bytes = [0; 4_096];
            let read = self.writer.stream.read(&mut bytes, deadline).map_err(failed)?;
            if read == 0 && searched == 0 {
                return Err(ExchangeError::Gone { peer });
            }
            // A message begins with a printable character, and a record of TLS with its type, 20 to 23.
            if searched == 0 && (20..24).contains(&bytes[0]) {
                return Err(ExchangeError::Untrusted { peer, why: "it uses TLS, and this side does not".to_string() });
            }
            if read == 0 {
                let why = "the connection ended within a line".to_string();
                return Err(ExchangeError::NotUnderstood { peer, why });
            }
            self.received.extend_from_slice(&bytes[..read]);
            let end = bytes[..read].iter().position(|byte| *byte == b'\n').unwrap_or(read);
            if searched + end >= MAX_LINE {
                return Err(ExchangeError::NotUnderstood { peer, why: format!("it is longer than {MAX_LINE} bytes") });
            }
        }
    }

    /// Returns a second sending half of the same connection, so that one thread can send while another one receives.
    /// [`Speaker::hang_up`] closes the connection for both threads.
    pub fn speaker(&self) -> Speaker {
        self.writer.clone()
    }
}

impl Speaker {
    /// Sends a message.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), ExchangeError> {
        let peer = self.peer;
        let mut line = serde_json::to_vec(message)
            .map_err(|error| ExchangeError::Disagreement(format!("a message cannot be written as JSON: {error}")))?;
        line.push(b'\n');
        self.stream.write_all(&line).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ExchangeError::Gone { peer },
            _ => ExchangeError::Connection { peer, error },
        })
    }

    /// Closes the connection. A thread that waits in [`Channel::receive`] gets [`ExchangeError::Gone`].
    pub fn hang_up(&self) {
        self.stream.close();
    }
}

/// An error as text for users. It may contain text of the peer, such as the names in its certificate.
fn shown(error: &dyn std::error::Error) -> String {
    brief(&error.to_string(), MAX_CHARS).into_owned()
}

/// Opens a TCP connection to the first address of `host` that accepts it.
fn dial(host: impl ToSocketAddrs + ToString) -> Result<TcpStream, ExchangeError> {
    let name = |error| ExchangeError::Name { host: host.to_string(), error };
    let mut last = name(io::Error::other("it has no address"));
    for peer in host.to_socket_addrs().map_err(name)? {
        match TcpStream::connect_timeout(&peer, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = ExchangeError::Connect { peer, error },
        }
    }
    Err(last)
}

/// Replaces an IPv4-mapped IPv6 address by the IPv4 address; returns any other address as it is.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}
