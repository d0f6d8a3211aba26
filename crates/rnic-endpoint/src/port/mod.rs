//! A place where datagrams go out and come in, in batches.
//!
//! [`Port`] is what the layers above see. [`UdpPort`] is Linux UDP sockets, [`loopback::pair`] two ports in memory, and
//! [`FaultyPort`] loses, doubles, damages and delays what passes through another port. Nothing in the trait assumes a socket:
//! a port that writes whole Ethernet frames fits it as well.
//!
//! # Batches
//!
//! What is sent is a [`Batch`]: datagrams of equal length (the last may be shorter) for one destination, with one traffic class
//! and one source port. Its bytes are gathered from slices that may be cut anywhere, so that a payload can be sent
//! from where it lies, between a header and a trailer kept elsewhere. What is received is an [`Arrival`]: datagrams of equal
//! length from one source, contiguous in the port's own buffer.
//!
//! # IPv4 identification
//!
//! RoCEv2's invariant CRC covers the IPv4 identification, which a UDP socket can neither set nor see. So it is part of the contract:
//! **the n-th datagram (from 0) that one call of [`Port::send`] takes carries identification n and "don't fragment".** A port
//! that cannot keep this for a batch takes only its first datagram, and says so by the number it returns.

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

/// The UDP ports that RoCEv2 leaves to the sender's choice, as entropy for ECMP: the dynamic ones.
pub const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// Datagrams to be sent by one call: one destination, one length (the last may be shorter), one traffic class.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Where they go.
    pub destination: SocketAddr,
    /// The UDP port they come from, one that [`Port::source_port`] gave.
    pub source_port: u16,
    /// The address they come from. `None` is the port's own address, or what the route says for a port on the unspecified address.
    pub source_address: Option<IpAddr>,
    /// DSCP and ECN codepoint.
    pub traffic_class: TrafficClass,
    /// UDP payload bytes of each datagram; the last may be shorter.
    pub segment: usize,
    /// The datagrams' bytes one after the other, cut into slices in any way.
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

    /// Number of datagrams of a batch that is right for a port with this address and these limits.
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

/// Datagrams that one call received: one source, one length (the last may be shorter), one traffic class.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// What they have in common.
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

/// Where a datagram came from and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// The sender.
    pub source: SocketAddr,
    /// The local address it was sent to.
    pub destination: IpAddr,
    /// DSCP and ECN codepoint, as the last router left them.
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

/// What a port did so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Calls that sent something.
    pub sent_batches: u64,
    /// Datagrams sent.
    pub sent_segments: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Calls that found the send buffer full.
    pub blocked: u64,
    /// Calls that found the system without memory for packets.
    pub starved: u64,
    /// Calls that failed.
    pub refused: u64,
    /// Arrivals.
    pub received_batches: u64,
    /// Datagrams received.
    pub received_segments: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// What arrived and was lost because the receive buffer was full, as far as the system told.
    pub overflowed: u64,
    /// Arrivals discarded because they were longer than the port's buffer or came without their control messages.
    pub malformed: u64,
}

/// A place where datagrams go out and come in, in batches. No call blocks but [`Port::wait`].
pub trait Port: Send {
    /// The address on which datagrams arrive.
    fn local_addr(&self) -> SocketAddr;

    /// A source port for a flow with this hash, one of [`SOURCE_PORTS`] unless the port was told otherwise: the same hash gives the
    /// same source port, and different hashes spread over as many as the port has.
    fn source_port(&self, hash: u32) -> u16;

    /// The largest batch that [`Port::send`] takes now. It may shrink, when the system turns out to refuse larger ones.
    fn limits(&self) -> Limits;

    /// UDP payload bytes of the longest datagram that reaches `destination` in one piece, as far as the system knows the path.
    ///
    /// # Errors
    ///
    /// An address of the other family, or one without a route.
    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize>;

    /// Sends a batch; returns how many of its datagrams, from the first on, were taken.
    ///
    /// None means that the port is full: [`Port::wait`] with [`Interest::ArrivalOrRoom`] waits for room. Fewer than all means that the
    /// rest must be sent by a call of its own, with identifications from 0 (see the module's documentation), within [`Port::limits`].
    ///
    /// # Errors
    ///
    /// [`SendError`]; then nothing was sent.
    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError>;

    /// What arrived, or `None` if nothing did. An arrival may hold no datagram at all. It stays in the port's buffer until the next call.
    ///
    /// # Errors
    ///
    /// The system's, none of which is expected on a port that was opened.
    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>>;

    /// Blocks until something arrived, the port can send again (if that is of interest), its waker was woken, or `timeout` has passed;
    /// without a timeout there is no last. May return early without any of them.
    ///
    /// # Errors
    ///
    /// The system's, none of which is expected on a port that was opened.
    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()>;

    /// A handle by which another thread ends a [`Port::wait`], the one in progress or else the next.
    fn waker(&self) -> Waker;

    /// What the port did so far.
    fn counters(&self) -> Counters;
}

/// What ends a [`Port::wait`], apart from the waker and the timeout.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Interest {
    /// Something arrives.
    #[default]
    Arrival,
    /// Something arrives, or there is room to send after [`Port::send`] found none.
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
