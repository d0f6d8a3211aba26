//! The out-of-band exchange: two endpoints connect their queue pairs by messages over TCP. Each message is one line
//! with a JSON document.
//!
//! A [`Channel`] carries messages of any serialisable type. [`connect`] exchanges the addresses of the two queue pairs
//! over a channel and connects them. Both sides call the same functions:
//!
//! ```no_run
//! use rnic_endpoint::exchange::{self, Channel, RemoteMemory};
//! # use rnic_endpoint::{MemoryRegion, QueuePair};
//! # fn client(qp: &QueuePair, region: &MemoryRegion) -> Result<(), exchange::ExchangeError> {
//! let mut channel = Channel::connect("10.0.0.2:18515")?;
//! exchange::connect(&mut channel, qp, &rnic_endpoint::PathOptions::default())?;
//! channel.send(&RemoteMemory::of(region))?;
//! let theirs: RemoteMemory = channel.receive()?;
//! # Ok(())
//! # }
//! ```
//!
//! The exchange is neither encrypted nor authenticated, like RDMA itself. Whoever can read the exchange on the network
//! learns the memory keys, and can use them to access the registered memory.

use crate::device::{Address, Error, MemoryRegion, PathOptions, QueuePair};
use rnic_verbs::Service;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Version of the messages that [`connect`] exchanges. Both sides must have the same version.
const VERSION: u32 = 1;
/// Maximum length of a message in bytes; a longer line is refused.
const MAX_LINE: u64 = 1 << 20;
/// Timeout for a host to accept a TCP connection. It is also the timeout for the peer's next message if the peer can
/// send it immediately, and need not wait for something else first.
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
    #[error("cannot connect to {peer} over TCP: {error}; is the other side running, and the port open?")]
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
    /// The local device refused an operation or failed.
    #[error(transparent)]
    Device(#[from] Error),
}

/// A TCP connection to another endpoint that carries the messages of an out-of-band exchange.
#[derive(Debug)]
pub struct Channel {
    reader: BufReader<TcpStream>,
    writer: Speaker,
    local: SocketAddr,
}

/// The sending half of a [`Channel`].
#[derive(Debug)]
pub struct Speaker {
    stream: TcpStream,
    peer: SocketAddr,
}

impl Channel {
    /// Opens a TCP connection to a host on which the peer's program listens. `host` is `"host:port"` or a socket
    /// address.
    ///
    /// # Errors
    /// The name cannot be resolved, or none of its addresses accepts the connection.
    pub fn connect(host: impl ToSocketAddrs + ToString) -> Result<Channel, ExchangeError> {
        let name = |error| ExchangeError::Name { host: host.to_string(), error };
        let mut last = name(io::Error::other("it has no address"));
        for peer in host.to_socket_addrs().map_err(name)? {
            match TcpStream::connect_timeout(&peer, PATIENCE) {
                Ok(stream) => return Channel::over(stream),
                Err(error) => last = ExchangeError::Connect { peer, error },
            }
        }
        Err(last)
    }

    /// Makes a channel of a TCP connection that is open already, such as one that a listener accepted.
    ///
    /// # Errors
    /// When the connection is already broken.
    pub fn over(stream: TcpStream) -> Result<Channel, ExchangeError> {
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let peer = stream.peer_addr().map_err(|error| ExchangeError::Connection { peer: none, error })?;
        let peer = canonical(peer);
        let prepare = || {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            // If the peer's host disappears without closing the connection, a receive must not block for ever.
            let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(3);
            SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
            Ok((canonical(stream.local_addr()?), stream.try_clone()?))
        };
        let (local, copy) = prepare().map_err(|error| ExchangeError::Connection { peer, error })?;
        Ok(Channel { reader: BufReader::new(copy), writer: Speaker { stream, peer }, local })
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

    /// Receives a message, which must arrive within `patience`. With `None` there is no time limit.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn receive_within<T: DeserializeOwned>(&mut self, patience: Option<Duration>) -> Result<T, ExchangeError> {
        let peer = self.peer_addr();
        let failed = |error: io::Error| match (error.kind(), patience) {
            (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, Some(waited)) => {
                ExchangeError::Silent { peer, waited }
            }
            (io::ErrorKind::ConnectionReset, _) => ExchangeError::Gone { peer },
            _ => ExchangeError::Connection { peer, error },
        };
        self.reader.get_ref().set_read_timeout(patience).map_err(failed)?;
        let mut line = Vec::new();
        self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(failed)?;
        let not_understood = |why: String| ExchangeError::NotUnderstood { peer, why };
        if line.is_empty() {
            return Err(ExchangeError::Gone { peer });
        }
        if line.last() != Some(&b'\n') {
            return Err(not_understood("the connection ended within a line, or the line is too long".to_string()));
        }
        serde_json::from_slice(&line).map_err(|error| {
            let start: String = String::from_utf8_lossy(&line).trim_end().chars().take(60).collect();
            not_understood(format!("`{}` ({error})", start.escape_debug()))
        })
    }

    /// Returns a second sending half of the same connection, so that one thread can send while another one receives.
    /// [`Speaker::hang_up`] closes the connection for both threads.
    ///
    /// # Errors
    /// When the process cannot open another file descriptor.
    pub fn speaker(&self) -> Result<Speaker, ExchangeError> {
        let peer = self.peer_addr();
        let stream = self.writer.stream.try_clone().map_err(|error| ExchangeError::Connection { peer, error })?;
        Ok(Speaker { stream, peer })
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
        // The call fails only if the connection is already broken.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Replaces an IPv4-mapped IPv6 address by the IPv4 address; returns any other address as it is.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}

/// Message about a memory region of the sender: its address, remote key and length. The receiver needs them for RDMA
/// Writes, RDMA Reads and atomics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemoteMemory {
    /// Address of the first byte.
    pub addr: u64,
    /// Remote key (rkey).
    pub rkey: u32,
    /// Length in bytes.
    pub len: u64,
}

impl RemoteMemory {
    /// Describes a memory region of this side, to be sent to the peer.
    pub fn of<B>(region: &MemoryRegion<B>) -> RemoteMemory {
        RemoteMemory { addr: region.addr(), rkey: region.rkey(), len: region.len() as u64 }
    }
}

/// The name of a transport service in the messages of the exchange and on command lines.
pub fn service_name(service: Service) -> &'static str {
    match service {
        Service::Rc => "rc",
        Service::Irn => "irn",
        Service::Uc => "uc",
    }
}

/// The first message of [`connect`]: the address and attributes of the sender's queue pair.
#[derive(Serialize, Deserialize)]
struct Offer {
    rnic: u32,
    service: String,
    mtu: u32,
    address: Address,
}

/// The second message of [`connect`]. It says that the sender's queue pair can receive packets.
#[derive(Serialize, Deserialize)]
struct Ready {
    ready: bool,
}

/// Connects `qp` with a queue pair of the peer, which calls this function at the same time. When it returns, both queue
/// pairs can send. Returns the path MTU of the connection in payload bytes. Each side offers `options.mtu`. If
/// `options.mtu` is `None`, the side offers the MTU of its path to the peer. The smaller of the two offers is used.
///
/// # Errors
/// When the two sides have different transport services or versions of the exchange, the TCP connection breaks, or the
/// device refuses to connect.
pub fn connect(channel: &mut Channel, qp: &QueuePair, options: &PathOptions) -> Result<u32, ExchangeError> {
    let mtu = match options.mtu {
        Some(mtu) => mtu,
        None => qp.path_mtu(SocketAddr::new(channel.peer_addr().ip(), crate::port::ROCE_PORT))?,
    };
    let service = service_name(qp.service());
    channel.send(&Offer { rnic: VERSION, service: service.to_string(), mtu, address: qp.address() })?;
    let theirs: Offer = channel.receive()?;
    if theirs.rnic != VERSION {
        let why = format!(
            "{} has version {} of the exchange, this side has version {VERSION}; use the same rnic on both sides",
            channel.peer_addr(),
            theirs.rnic
        );
        return Err(ExchangeError::Disagreement(why));
    }
    if theirs.service != service {
        let why = format!(
            "{} has a queue pair of service {}, this side one of service {service}; both must be the same",
            channel.peer_addr(),
            theirs.service
        );
        return Err(ExchangeError::Disagreement(why));
    }
    let mtu = mtu.min(theirs.mtu);
    qp.connect(&theirs.address, &PathOptions { mtu: Some(mtu), ..*options })?;
    // Each side waits for the peer's queue pair: a packet that arrives before the peer has connected its queue pair
    // would be lost.
    channel.send(&Ready { ready: true })?;
    channel.receive::<Ready>()?;
    Ok(mtu)
}
