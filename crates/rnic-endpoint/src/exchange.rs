//! What two endpoints tell each other before the first packet, over TCP: one JSON document a line.
//!
//! A [`Channel`] carries any messages; [`connect`] brings a queue pair at either end into contact. Programs use it like this, both
//! sides the same way:
//!
//! ```no_run
//! use rnic_endpoint::exchange::{self, Channel, RemoteMemory};
//! # fn client(qp: &rnic_endpoint::QueuePair, region: &rnic_endpoint::MemoryRegion) -> Result<(), exchange::ExchangeError> {
//! let mut channel = Channel::connect("10.0.0.2:18515")?;
//! exchange::connect(&mut channel, qp, &rnic_endpoint::PathOptions::default())?;
//! channel.send(&RemoteMemory::of(region))?;
//! let theirs: RemoteMemory = channel.receive()?;
//! # Ok(())
//! # }
//! ```
//!
//! The conversation is neither encrypted nor authenticated, as RDMA itself: who can read it can write the memory whose keys it tells.

use crate::device::{Address, Error, MemoryRegion, PathOptions, QueuePair};
use rnic_verbs::Service;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Version of [`connect`]'s messages.
const VERSION: u32 = 1;
/// Longest line in bytes.
const LONGEST_LINE: u64 = 1 << 20;
/// How long a host may take to accept a connection, and the other side to say something that it says at once.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// A peer that is silent for so long is asked whether it is still there, and given up after a few such times.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// Why two endpoints did not come to an agreement.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The name of the host means nothing.
    #[error("cannot find {host}: {error}")]
    Name {
        /// What was asked for.
        host: String,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// Nobody accepts the connection.
    #[error("cannot connect to {peer} over TCP: {error}; is the other side running, and the port open?")]
    Connect {
        /// Where to.
        peer: SocketAddr,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The connection broke.
    #[error("the connection to {peer} failed: {error}")]
    Connection {
        /// The other side.
        peer: SocketAddr,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The other side ended the conversation.
    #[error("{peer} went away")]
    Gone {
        /// The other side.
        peer: SocketAddr,
    },
    /// The other side says nothing.
    #[error("{peer} did not answer within {} seconds", .waited.as_secs())]
    Silent {
        /// The other side.
        peer: SocketAddr,
        /// How long it had.
        waited: Duration,
    },
    /// The other side says something else than expected.
    #[error("{peer} said something else than expected: {why}")]
    NotUnderstood {
        /// The other side.
        peer: SocketAddr,
        /// What is wrong with it.
        why: String,
    },
    /// The two do not fit together.
    #[error("{0}")]
    Disagreement(String),
    /// The device refuses.
    #[error(transparent)]
    Device(#[from] Error),
}

/// A conversation with another endpoint.
#[derive(Debug)]
pub struct Channel {
    reader: BufReader<TcpStream>,
    writer: Speaker,
    local: SocketAddr,
}

/// The half of a [`Channel`] that speaks.
#[derive(Debug)]
pub struct Speaker {
    stream: TcpStream,
    peer: SocketAddr,
}

impl Channel {
    /// Connects to a host that listens: `"host:port"` or an address.
    ///
    /// # Errors
    /// The name is unknown, or nobody answers at any of its addresses.
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

    /// A conversation over a connection that is there.
    ///
    /// # Errors
    /// When the connection is broken already.
    pub fn over(stream: TcpStream) -> Result<Channel, ExchangeError> {
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let peer = stream.peer_addr().map_err(|error| ExchangeError::Connection { peer: none, error })?;
        let peer = canonical(peer);
        let prepare = || {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            // A host that vanished without a word shall not be waited for for ever.
            let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(3);
            SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
            Ok((canonical(stream.local_addr()?), stream.try_clone()?))
        };
        let (local, copy) = prepare().map_err(|error| ExchangeError::Connection { peer, error })?;
        Ok(Channel { reader: BufReader::new(copy), writer: Speaker { stream, peer }, local })
    }

    /// The address of this side: the one to open a device on that the other side can reach.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The address of the other side.
    pub fn peer_addr(&self) -> SocketAddr {
        self.writer.peer
    }

    /// Says something.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), ExchangeError> {
        self.writer.send(message)
    }

    /// Hears what the other side says at once: within [`PATIENCE`].
    ///
    /// # Errors
    /// When the other side is silent, says something else, or is gone.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ExchangeError> {
        self.receive_within(Some(PATIENCE))
    }

    /// Hears what the other side says, within `patience` or whenever that is.
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
        self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(failed)?;
        let not_understood = |why: String| ExchangeError::NotUnderstood { peer, why };
        if line.is_empty() {
            return Err(ExchangeError::Gone { peer });
        }
        if line.last() != Some(&b'\n') {
            return Err(not_understood("it hung up in the middle of a line, or the line is too long".to_string()));
        }
        serde_json::from_slice(&line).map_err(|error| {
            let start: String = String::from_utf8_lossy(&line).trim_end().chars().take(60).collect();
            not_understood(format!("`{}` ({error})", start.escape_debug()))
        })
    }

    /// The two directions, each for a thread of its own. What is said by the `Speaker` and heard by the `Channel` is the same
    /// conversation; [`Speaker::hang_up`] ends it for both.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn speaker(&self) -> Result<Speaker, ExchangeError> {
        let peer = self.peer_addr();
        let stream = self.writer.stream.try_clone().map_err(|error| ExchangeError::Connection { peer, error })?;
        Ok(Speaker { stream, peer })
    }
}

impl Speaker {
    /// Says something.
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

    /// Ends the conversation, also for a thread that listens.
    pub fn hang_up(&self) {
        // It fails for one that is broken already.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// An IPv4 address that an IPv6 socket shows as an IPv6 one, as what it is.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}

/// Registered memory of the other side, with what opens it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemoteMemory {
    /// Address of the first byte.
    pub addr: u64,
    /// Key.
    pub rkey: u32,
    /// Length in bytes.
    pub len: u64,
}

impl RemoteMemory {
    /// What the other side needs to know of a region.
    pub fn of<B>(region: &MemoryRegion<B>) -> RemoteMemory {
        RemoteMemory { addr: region.addr(), rkey: region.rkey(), len: region.len() as u64 }
    }
}

/// The name of a service on the wire and on command lines.
pub fn service_name(service: Service) -> &'static str {
    match service {
        Service::Rc => "rc",
        Service::Irn => "irn",
        Service::Uc => "uc",
    }
}

#[derive(Serialize, Deserialize)]
struct Offer {
    rnic: u32,
    service: String,
    mtu: u32,
    address: Address,
}

#[derive(Serialize, Deserialize)]
struct Ready {
    ready: bool,
}

/// Brings a queue pair into contact with the other side's, which calls this too. Afterwards both can send. Returns the MTU: the
/// smaller of what either side asked for, or what its path carries.
///
/// # Errors
/// When the two have different services or versions, the connection breaks or the device refuses.
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
            "{} has version {} of the exchange, this side {VERSION}; use the same rnic on both sides",
            channel.peer_addr(),
            theirs.rnic
        );
        return Err(ExchangeError::Disagreement(why));
    }
    if theirs.service != service {
        let why = format!(
            "{} has a queue pair of service {}, this side {service}; both must be the same",
            channel.peer_addr(),
            theirs.service
        );
        return Err(ExchangeError::Disagreement(why));
    }
    let mtu = mtu.min(theirs.mtu);
    qp.connect(&theirs.address, &PathOptions { mtu: Some(mtu), ..*options })?;
    // A packet that comes before its receiver is ready would be lost.
    channel.send(&Ready { ready: true })?;
    channel.receive::<Ready>()?;
    Ok(mtu)
}
