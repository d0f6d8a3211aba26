//! Ports: they send and receive datagrams in batches.
//!
//! [`Port`] is the trait that the layers above use. [`UdpPort`] implements it on Linux UDP sockets and
//! [`loopback::pair`] in memory; [`FaultyPort`] loses, duplicates, corrupts, reorders and delays the datagrams of
//! another port. The trait does not assume a socket: a port that writes whole Ethernet frames can implement it as well.
//!
//! # Batches
//!
//! A port sends a [`Batch`]: datagrams of equal length (the last may be shorter) for one destination, with one traffic
//! class and one source port. The slices of its bytes may begin and end anywhere, so that a payload can be sent from
//! its place in memory, between a header and a trailer elsewhere. A port receives an [`Arrival`]: datagrams of equal
//! length from one source, contiguous in the port's own buffer.
//!
//! # IPv4 identification
//!
//! RoCEv2's invariant CRC covers the IPv4 identification, which a UDP socket can neither set nor see. So it is part of
//! the contract: **the n-th datagram (from 0) that one call of [`Port::send`] takes carries identification n and "don't
//! fragment".** A port that cannot do so for a batch takes only its first datagram, and returns 1.

mod error;
mod faulty;
pub mod loopback;
mod traffic;
mod udp;
mod wake;

pub use error::{BindError, SendError};
pub use faulty::{FaultCounters, Faults, FaultyPort, Probability, ProbabilityError};
pub use traffic::{Ecn, TrafficClass};
pub use udp::{Buffers, UdpConfig, UdpPort};

use rnic_transport::Time;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::task::Waker;

/// The UDP port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

/// The UDP source ports of RoCEv2, among which the sender chooses as entropy for ECMP: the dynamic ports.
pub const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// Datagrams that one call sends: one destination, one length (the last may be shorter), one traffic class.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The destination.
    pub destination: SocketAddr,
    /// The UDP source port, one that [`Port::source_port`] returned.
    pub source_port: u16,
    /// The source address. `None`: the port's own address, or that of the route for a port on the unspecified address.
    pub source_address: Option<IpAddr>,
    /// DSCP and ECN codepoint.
    pub traffic_class: TrafficClass,
    /// UDP payload bytes of each datagram; the last may be shorter.
    pub segment: usize,
    /// The bytes of the datagrams, one after the other, in slices of any length.
    pub data: &'a [IoSlice<'a>],
}

impl Batch<'_> {
    /// Bytes of all datagrams.
    pub fn bytes(&self) -> usize {
        self.data.iter().map(|slice| slice.len()).sum()
    }

    /// Number of datagrams; 0 for a batch that is not valid.
    pub fn segments(&self) -> usize {
        if self.segment == 0 { 0 } else { self.bytes().div_ceil(self.segment) }
    }

    /// Checks a batch against the address and the limits of a port; returns the number of datagrams.
    fn check(&self, local: SocketAddr, limits: Limits) -> Result<usize, SendError> {
        let source_address = self.source_address.unwrap_or(local.ip());
        if [self.destination.is_ipv4(), source_address.is_ipv4()] != [local.is_ipv4(); 2] {
            return Err(SendError::OtherFamily { source_address, destination: self.destination });
        }
        let (bytes, segments) = (self.bytes(), self.segments());
        if segments == 0 {
            return Err(SendError::Empty);
        }
        if segments > limits.segments || bytes > limits.bytes {
            return Err(SendError::TooMany { segments, bytes, limits });
        }
        Ok(segments)
    }
}

/// Datagrams that one call has received: one source, one length (the last may be shorter), one traffic class.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Source, destination and traffic class of all datagrams.
    pub meta: Meta,
    /// UDP payload bytes of each datagram; the last may be shorter.
    pub segment: usize,
    /// The datagrams one after the other.
    pub data: &'a [u8],
}

impl<'a> Arrival<'a> {
    /// The datagrams in order of arrival. Empty datagrams are left out.
    pub fn segments(&self) -> std::slice::Chunks<'a, u8> {
        self.data.chunks(self.segment.max(1))
    }
}

/// Source, destination and traffic class of a received datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// The sender.
    pub source: SocketAddr,
    /// The local address to which it was sent.
    pub destination: IpAddr,
    /// DSCP and ECN codepoint.
    pub traffic_class: TrafficClass,
    /// IPv4 identification of the first datagram, where the port can see it.
    pub identification: Option<u16>,
}

/// The largest batch that a port takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Datagrams.
    pub segments: usize,
    /// Bytes of all datagrams.
    pub bytes: usize,
}

/// Counters of a port.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Calls that sent at least one datagram.
    pub sent_batches: u64,
    /// Datagrams sent.
    pub sent_segments: u64,
    /// Bytes of these datagrams.
    pub sent_bytes: u64,
    /// Calls that found the send buffer full.
    pub blocked: u64,
    /// Calls for which the system had no memory for packets.
    pub starved: u64,
    /// Calls that failed.
    pub refused: u64,
    /// Arrivals.
    pub received_batches: u64,
    /// Datagrams received.
    pub received_segments: u64,
    /// Bytes of these datagrams.
    pub received_bytes: u64,
    /// Datagrams that were lost because the receive buffer was full, as far as the system reports them.
    pub overflowed: u64,
    /// Arrivals discarded because they were longer than the port's buffer or came without their control messages.
    pub malformed: u64,
}

/// Sends and receives datagrams in batches. Only [`Port::wait`] blocks.
pub trait Port: Send {
    /// The address on which the port receives.
    fn local_addr(&self) -> SocketAddr;

    /// The source port for a flow with this hash, one of [`SOURCE_PORTS`] unless the port is configured otherwise. The
    /// same hash gives the same source port, and different hashes spread over all source ports of the port.
    fn source_port(&self, hash: u32) -> u16;

    /// The largest batch that [`Port::send`] takes now. It shrinks if the system refuses larger ones.
    fn limits(&self) -> Limits;

    /// Maximum UDP payload bytes of a datagram that reaches `destination` without fragmentation, as far as the system
    /// knows the path.
    ///
    /// # Errors
    ///
    /// The address belongs to the other family, or has no route.
    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize>;

    /// Sends a batch; returns how many of its datagrams, from the first on, were taken.
    ///
    /// 0 means that the send buffer is full: [`Port::wait`] with [`Interest::ArrivalOrRoom`] waits for room. If the
    /// port takes some of the datagrams, the caller sends the rest by another call, with identifications from 0 (see
    /// the module's documentation).
    ///
    /// # Errors
    ///
    /// [`SendError`]; no datagram was sent then.
    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError>;

    /// The next arrival, if there is one. An arrival may hold no datagram. It stays in the port's buffer until the next
    /// call.
    ///
    /// # Errors
    ///
    /// The system's, none of which is expected on a port that was opened.
    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>>;

    /// Blocks until a datagram arrives, the send buffer has room (with [`Interest::ArrivalOrRoom`]), the waker is
    /// woken, or `timeout` has passed. May return early.
    ///
    /// # Errors
    ///
    /// The system's, none of which is expected on a port that was opened.
    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()>;

    /// A handle with which another thread ends the [`Port::wait`] in progress, or else the next one.
    fn waker(&self) -> Waker;

    /// The counters of the port.
    fn counters(&self) -> Counters;
}

/// The event that ends a [`Port::wait`], besides the waker and the timeout.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Interest {
    /// A datagram arrives.
    #[default]
    Arrival,
    /// A datagram arrives, or the send buffer has room after [`Port::send`] found none.
    ArrivalOrRoom,
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn local_addr(&self) -> SocketAddr {
        (**self).local_addr()
    }
    fn source_port(&self, hash: u32) -> u16 {
        (**self).source_port(hash)
    }
    fn limits(&self) -> Limits {
        (**self).limits()
    }
    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize> {
        (**self).longest_datagram(destination)
    }
    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError> {
        (**self).send(batch)
    }
    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        (**self).receive()
    }
    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()> {
        (**self).wait(interest, timeout)
    }
    fn waker(&self) -> Waker {
        (**self).waker()
    }
    fn counters(&self) -> Counters {
        (**self).counters()
    }
}
