//! The out-of-band exchange: two endpoints connect their queue pairs by messages over TCP. Each message is one line
//! with a JSON document.
//!
//! A [`Channel`] carries messages of any serialisable type. [`connect`] exchanges the addresses of the two queue pairs
//! over a channel and connects them. Both ends call the same functions:
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
//! # Security
//!
//! The addresses hold public keys, from which the two queue pairs derive the keys that protect their packets
//! ([`Security`](crate::Security)). So an attacker who can only read the exchange, or can only send packets, can
//! neither read nor forge protected packets. With [`Channel::connect_secured`] and [`Channel::accept_secured`] the
//! exchange runs over TLS 1.3, in which both ends prove that they know a secret or have a certificate. An attacker who
//! alters the exchange is then detected too. Without TLS he can impersonate the peer.

mod channel;
mod deadline;
mod listen;
mod tls;

pub use channel::{Channel, ExchangeError, PATIENCE, Speaker};
pub use listen::{accept, admit};
pub use rnic_untrusted::admission::{Admission, Admissions, Limit, Refusal};
pub use tls::{Credentials, CredentialsError};

use crate::device::{Address, MemoryRegion, PathOptions, QueuePair};
use crate::host;
use rnic_untrusted::text::{MAX_CHARS, brief};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// Version of the messages that [`connect`] exchanges. Both sides must have the same version.
const VERSION: u32 = 2;

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
    /// Describes a memory region of this end, to be sent to the peer.
    pub fn of<B>(region: &MemoryRegion<B>) -> RemoteMemory {
        RemoteMemory { addr: region.addr(), rkey: region.rkey(), len: region.len() as u64 }
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
/// pairs can send. Returns the path MTU of the connection in payload bytes. Each end offers `options.mtu`. If
/// `options.mtu` is `None`, the end offers the MTU of its path to the peer. The smaller of the two offers is used.
///
/// The peer's device must have the IP address from which the peer's TCP connection comes; [`connect_at`] admits
/// another.
///
/// # Errors
/// When the two ends have different transport services or versions of the exchange, the TCP connection breaks, the
/// peer's device has another IP address, or the device refuses to connect.
pub fn connect(channel: &mut Channel, qp: &QueuePair, options: &PathOptions) -> Result<u32, ExchangeError> {
    let peer = channel.peer_addr().ip();
    connect_at(channel, qp, peer, options)
}

/// Connects `qp` like [`connect`] with a queue pair whose device has the IP address `device`. The address in the peer's
/// message must be the same: otherwise a peer could make this host send packets to a third party.
///
/// # Errors
/// As [`connect`].
pub fn connect_at(
    channel: &mut Channel, qp: &QueuePair, device: IpAddr, options: &PathOptions,
) -> Result<u32, ExchangeError> {
    let mtu = match options.mtu {
        Some(mtu) => mtu,
        None => qp.path_mtu(SocketAddr::new(device, crate::port::ROCE_PORT))?,
    };
    let service = qp.service().name();
    channel.send(&Offer { rnic: VERSION, service: service.to_string(), mtu, address: qp.address() })?;
    let theirs: Offer = channel.receive()?;
    same_version(channel, theirs.rnic)?;
    if theirs.service != service {
        let why = format!(
            "{} has a queue pair of service {}, this side one of service {service}; both must be the same",
            channel.peer_addr(),
            brief(&theirs.service, MAX_CHARS)
        );
        return Err(ExchangeError::Disagreement(why));
    }
    on_device(channel, theirs.address.addr.ip(), device)?;
    let mtu = mtu.min(theirs.mtu);
    qp.connect(&theirs.address, &PathOptions { mtu: Some(mtu), ..*options })?;
    await_peer(channel)?;
    Ok(mtu)
}

/// The message of [`connect_channel`]: the address of the sender's channel.
#[derive(Serialize, Deserialize)]
struct ChannelOffer {
    rnic: u32,
    mtu: u32,
    channel: host::Address,
}

/// Connects a channel ([`host`]) with a channel of the peer, which calls this function at the same time. Returns the
/// path MTU in payload bytes, which is chosen as by [`connect`].
///
/// # Errors
/// When the two ends have different kinds of channel or versions of the exchange, the TCP connection breaks, the peer's
/// device has another IP address than the peer, or the device refuses to connect.
pub fn connect_channel(
    channel: &mut Channel, own: &host::Channel, options: &host::PathOptions,
) -> Result<u32, ExchangeError> {
    let device = channel.peer_addr().ip();
    let mtu = match options.mtu {
        Some(mtu) => mtu,
        None => own.path_mtu(SocketAddr::new(device, crate::port::ROCE_PORT))?,
    };
    channel.send(&ChannelOffer { rnic: VERSION, mtu, channel: own.address() })?;
    let theirs: ChannelOffer = channel.receive()?;
    same_version(channel, theirs.rnic)?;
    on_device(channel, theirs.channel.addr.ip(), device)?;
    let mtu = mtu.min(theirs.mtu);
    own.connect(&theirs.channel, &host::PathOptions { mtu: Some(mtu), ..*options })?;
    await_peer(channel)?;
    Ok(mtu)
}

fn same_version(channel: &Channel, theirs: u32) -> Result<(), ExchangeError> {
    if theirs == VERSION {
        return Ok(());
    }
    let why = format!(
        "{} has version {theirs} of the exchange, this side has version {VERSION}; use the same rnic on both sides",
        channel.peer_addr()
    );
    Err(ExchangeError::Disagreement(why))
}

/// Checks that the peer's device is on `device`: otherwise a peer could make this host send packets to a third party.
fn on_device(channel: &Channel, told: IpAddr, device: IpAddr) -> Result<(), ExchangeError> {
    let told = told.to_canonical();
    if told == device.to_canonical() {
        return Ok(());
    }
    let why = format!("{} has its device on {told}; it must be on {device}", channel.peer_addr());
    Err(ExchangeError::Disagreement(why))
}

/// Waits until the peer is connected too: a packet that arrives before would be lost.
fn await_peer(channel: &mut Channel) -> Result<(), ExchangeError> {
    channel.send(&Ready { ready: true })?;
    channel.receive::<Ready>()?;
    Ok(())
}
