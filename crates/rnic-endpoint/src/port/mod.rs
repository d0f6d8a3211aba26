//! Ports, the lowest layer of the endpoint: they send and receive UDP datagrams in batches.
//!
//! [`Port`] is the trait through which the endpoint's [driver](crate::driver) sends and receives packets. [`UdpPort`]
//! implements it on Linux UDP sockets and [`loopback::pair`] in memory; [`FaultyPort`] loses, duplicates, corrupts,
//! reorders and delays the datagrams of another port, and [`CapturePort`] captures them in a file. [`shared_address`]
//! has a port that shares its IP address with ports of other processes. The trait does not assume a socket: a port that
//! writes whole Ethernet frames can implement it as well.
//!
//! # Batches
//!
//! A port sends a [`Batch`]: datagrams of equal length (the last may be shorter) for one destination, with one traffic
//! class and one source port. Its bytes are given as slices that may begin and end anywhere in a datagram, so that a
//! payload can be sent from its place in memory while header and trailer are elsewhere. A port receives an [`Arrival`]:
//! datagrams of equal length (the last may be shorter) from one source, contiguous in the port's own buffer.
//!
//! # IPv4 identification
//!
//! RoCEv2's invariant CRC (ICRC) covers the header field Identification of IPv4, which a UDP socket can neither set nor
//! see. So every implementation of [`Port`] must follow this rule: **the n-th datagram (from 0) that one call of
//! [`Port::send`] takes carries identification n and "don't fragment".** A port that cannot do so for a whole batch
//! takes only its first datagram, and returns 1.

mod capture;
mod error;
mod faulty;
pub mod loopback;
pub mod shared_address;
mod traffic;
mod udp;
mod wake;

pub use capture::{CaptureFailure, CaptureFile, CapturePort};
pub use error::{BindError, SendError};
pub use faulty::{CorruptionKind, FaultCounters, Faults, FaultyPort, Probability, ProbabilityError, percentage};
pub use traffic::{Ecn, TrafficClass};
pub use udp::{Buffers, UdpConfig, UdpPort};

use rnic_transport::Time;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::task::Waker;

/// The UDP destination port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

/// The UDP source ports of RoCEv2: the range of dynamic ports. The sender chooses one for each flow, so that ECMP
/// spreads the flows.
pub const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// Datagrams that one call of [`Port::send`] sends. They have one destination, one length (the last may be shorter) and
/// one traffic class.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// IP address and UDP port to which the datagrams are sent.
    pub destination: SocketAddr,
    /// The UDP source port of the datagrams, which [`Port::source_port`] returned.
    pub source_port: u16,
    /// The source address of the datagrams. With `None` it is the port's own address. If the port's address is the
    /// unspecified address, the system chooses the source address by its route to the destination.
    pub source_address: Option<IpAddr>,
    /// DSCP and ECN codepoint of the datagrams.
    pub traffic_class: TrafficClass,
    /// UDP payload bytes of each datagram; the last may be shorter.
    pub segment: usize,
    /// The bytes of the datagrams, one after the other, in slices of any length.
    pub data: &'a [IoSlice<'a>],
}

impl Batch<'_> {
    /// Number of UDP payload bytes of all datagrams together.
    pub fn bytes(&self) -> usize {
        self.data.iter().map(|slice| slice.len()).sum()
    }

    /// Number of datagrams; 0 if the batch is invalid, because it has no bytes or a segment length of 0.
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

/// Datagrams that one call of [`Port::receive`] received. They have one source, one length (the last may be shorter)
/// and one traffic class.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Source, destination and traffic class of all datagrams.
    pub meta: Meta,
    /// UDP payload bytes of each datagram; the last may be shorter.
    pub segment: usize,
    /// The UDP payloads of the datagrams, one after the other.
    pub data: &'a [u8],
}

impl<'a> Arrival<'a> {
    /// The datagrams in order of arrival. Empty datagrams are left out.
    pub fn segments(&self) -> std::slice::Chunks<'a, u8> {
        self.data.chunks(self.segment.max(1))
    }
}

/// The result of [`Port::receive_into`]: an [`Arrival`] whose bytes are in the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Source, destination and traffic class of all datagrams.
    pub meta: Meta,
    /// UDP payload bytes of each datagram; the last may be shorter.
    pub segment: usize,
    /// Number of bytes of all datagrams. They are at the beginning of the buffer, which may be longer.
    pub length: usize,
}

/// Source, destination and traffic class of a received datagram, or of all datagrams of an [`Arrival`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// IP address and UDP source port of the sender.
    pub source: SocketAddr,
    /// The local address to which the datagram was sent.
    pub destination: IpAddr,
    /// DSCP and ECN codepoint.
    pub traffic_class: TrafficClass,
    /// IPv4 identification of the datagram, or of the first datagram of an arrival; `None` if the port cannot see it.
    pub identification: Option<u16>,
    /// Whether the bytes came from another process of this host by memory, so that their ICRC is not checked
    /// ([`Port::stays_within_host`]).
    pub is_within_host: bool,
    /// Reading of the system's monotonic clock, in nanoseconds, when the kernel received the datagram, or the first
    /// datagram of an arrival; `None` if the port does not know it ([`Port::arrival_times`]).
    pub arrived_ns: Option<u64>,
}

/// Whether a port knows when the kernel received the datagrams ([`Meta::arrived_ns`]).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ArrivalTimes {
    /// The port does not ask the kernel for them.
    #[default]
    NotRequested,
    /// The kernel takes a time stamp of each datagram.
    Kernel,
    /// The kernel refuses time stamps, with this error number.
    Refused(i32),
}

/// The largest batch that a port takes in one call of [`Port::send`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of datagrams.
    pub segments: usize,
    /// Maximum UDP payload bytes of all datagrams together.
    pub bytes: usize,
}

/// Counters of a port.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Number of send calls that sent at least one datagram.
    pub sent_batches: u64,
    /// Number of datagrams sent.
    pub sent_segments: u64,
    /// Number of UDP payload bytes sent.
    pub sent_bytes: u64,
    /// Number of send calls that found the send buffer full.
    pub blocked: u64,
    /// Number of send calls for which the system had no memory for packets.
    pub starved: u64,
    /// Number of send calls that failed with a [`SendError`].
    pub refused: u64,
    /// Number of arrivals: batches of received datagrams.
    pub received_batches: u64,
    /// Number of datagrams received.
    pub received_segments: u64,
    /// Number of UDP payload bytes received.
    pub received_bytes: u64,
    /// Number of packets that other processes of this host got by memory, and not as datagrams. The numbers of sent
    /// batches, segments and bytes include them.
    pub sent_within_host: u64,
    /// Number of packets that came from other processes of this host by memory. The numbers of received batches,
    /// segments and bytes include them.
    pub received_within_host: u64,
    /// Number of datagrams lost because the receive buffer was full, as far as the system reports them.
    pub overflowed: u64,
    /// Number of datagrams that this port received and handed to another port on the same address
    /// ([`UdpPort::bind_shards`]).
    pub handed_over: u64,
    /// Number of arrivals discarded because they were longer than the port's buffer or lacked their control messages
    /// (source address and traffic class).
    pub malformed: u64,
}

/// Sends and receives datagrams in batches. Only [`Port::wait`] blocks.
pub trait Port: Send {
    /// The IP address and UDP port on which this port receives.
    fn local_addr(&self) -> SocketAddr;

    /// Returns the UDP source port for a flow with this hash. It is one of [`SOURCE_PORTS`] unless the port is
    /// configured otherwise. The same hash always gives the same source port, and different hashes spread over all
    /// source ports of this port.
    fn source_port(&self, hash: u32) -> u16;

    /// The largest batch that [`Port::send`] takes now. The limits shrink if the system refuses larger batches.
    fn limits(&self) -> Limits;

    /// Maximum UDP payload bytes of a datagram that reaches `destination` without fragmentation, as far as the system
    /// knows the MTU of the path.
    ///
    /// # Errors
    ///
    /// The destination is not of the port's address family (IPv4 or IPv6), or the host has no route to it.
    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize>;

    /// Sends a batch; returns how many of its datagrams, from the first on, the port has taken.
    ///
    /// A result of 0 means that the send buffer is full: [`Port::wait`] with [`Interest::ArrivalOrRoom`] waits for
    /// room. If the port takes only some of the datagrams, the caller sends the others by another call. Their IPv4
    /// identifications then count from 0 again (see the module's documentation).
    ///
    /// # Errors
    ///
    /// [`SendError`] says why. In that case no datagram was sent.
    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError>;

    /// Returns the next arrival (a batch of received datagrams), or `None` if none is waiting. An arrival may be empty.
    /// Its bytes stay in the port's buffer until the next call.
    ///
    /// # Errors
    ///
    /// An error of the system; none is expected on an open port.
    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>>;

    /// Receives like [`Port::receive`], but into the caller's buffer, so that the caller can keep or change the bytes.
    /// A port that can do so exchanges its own buffer for `data` instead of copying the bytes.
    ///
    /// # Errors
    ///
    /// As [`Port::receive`].
    fn receive_into(&mut self, data: &mut Vec<u8>) -> io::Result<Option<Received>> {
        let Some(arrival) = self.receive()? else { return Ok(None) };
        data.clear();
        data.extend_from_slice(arrival.data);
        Ok(Some(Received { meta: arrival.meta, segment: arrival.segment, length: arrival.data.len() }))
    }

    /// Whether some packets may stay within the host ([`Port::stays_within_host`]). The answer does not change.
    fn has_path_within_host(&self) -> bool {
        false
    }

    /// Whether a packet to `destination` goes to another process of this host by memory. The caller need not compute
    /// the ICRC of such a packet, because its receiver does not check it ([`Meta::is_within_host`]).
    fn stays_within_host(&self, destination: SocketAddr, packet: &[u8]) -> bool {
        let _ = (destination, packet);
        false
    }

    /// Whether the port knows when the kernel received the datagrams. The answer does not change.
    fn arrival_times(&self) -> ArrivalTimes {
        ArrivalTimes::NotRequested
    }

    /// Blocks until a datagram arrives, the send buffer has room (with [`Interest::ArrivalOrRoom`]), the waker is
    /// woken, or `timeout` has passed. May return early.
    ///
    /// # Errors
    ///
    /// An error of the system; none is expected on an open port.
    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()>;

    /// Returns a handle by which another thread ends the current call of [`Port::wait`], or the next call if none is
    /// in progress.
    fn waker(&self) -> Waker;

    /// The counters of the port.
    fn counters(&self) -> Counters;
}

/// The events that end a [`Port::wait`], besides the waker and the timeout.
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
    fn receive_into(&mut self, data: &mut Vec<u8>) -> io::Result<Option<Received>> {
        (**self).receive_into(data)
    }
    fn has_path_within_host(&self) -> bool {
        (**self).has_path_within_host()
    }
    fn stays_within_host(&self, destination: SocketAddr, packet: &[u8]) -> bool {
        (**self).stays_within_host(destination, packet)
    }
    fn arrival_times(&self) -> ArrivalTimes {
        (**self).arrival_times()
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
