//! Errors of ports: the reasons why a port could not be opened, or a batch of datagrams could not be sent.

use super::Limits;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Why a [`UdpPort`](super::UdpPort) could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another socket is bound to the address and UDP port.
    #[error(
        "UDP port {} of {} is taken by another program or by the kernel's own RoCE (rdma_rxe); stop it or choose another address",
        address.port(), address.ip()
    )]
    InUse {
        /// The requested address.
        address: SocketAddr,
    },
    /// The IP address is not an address of this host.
    #[error("{} is not an address of this host; `ip address` lists them", address.ip())]
    NotLocal {
        /// The requested address.
        address: SocketAddr,
    },
    /// The configuration asks for more UDP source ports than a port can have.
    #[error("{asked} source ports are too many; at most {max} are possible")]
    TooManySourcePorts {
        /// The requested number of source ports.
        asked: usize,
        /// The maximum number of source ports.
        max: usize,
    },
    /// Fewer UDP ports are free on this host than the configuration asks for.
    #[error("only {found} of {asked} source ports between 49152 and 65535 are free on this host; ask for fewer")]
    NoSourcePorts {
        /// The requested number of source ports.
        asked: usize,
        /// The number of UDP ports that are free.
        found: usize,
    },
    /// The number of ports that share an address is not possible.
    #[error("{asked} devices cannot share one address; the number must be 1 to {max}")]
    Shards {
        /// The requested number of ports.
        asked: u32,
        /// The maximum number of ports.
        max: u32,
    },
    /// A system call failed for another reason.
    #[error("cannot {step} for {address}: {error}")]
    System {
        /// The step that failed, as the error message names it, such as `bind a UDP socket`.
        step: &'static str,
        /// The requested address.
        address: SocketAddr,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
}

/// Why a port sent no datagram of a batch.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The batch has no bytes, or a segment length of 0.
    #[error("a batch must have at least one byte and a segment length of at least 1")]
    Empty,
    /// The batch exceeds the limits of the port.
    #[error(
        "{segments} datagrams of {bytes} bytes are too much for one call; at most {} of {} bytes are possible",
        limits.segments, limits.bytes
    )]
    TooMany {
        /// Number of datagrams in the batch.
        segments: usize,
        /// Number of bytes in the batch, over all datagrams.
        bytes: usize,
        /// The limits of the port.
        limits: Limits,
    },
    /// A datagram is longer than the MTU of the path allows without fragmentation.
    #[error(
        "a datagram of {length} bytes is longer than the path to {destination} carries in one piece; send shorter ones"
    )]
    TooLong {
        /// UDP payload bytes of the datagram.
        length: usize,
        /// The destination of the batch.
        destination: SocketAddr,
    },
    /// The addresses of the port and of the batch mix IPv4 and IPv6.
    #[error(
        "cannot send from {source_address} to {destination}: the port and both addresses must be all IPv4 or all IPv6"
    )]
    OtherFamily {
        /// The requested source address, or the port's own.
        source_address: IpAddr,
        /// The destination of the batch.
        destination: SocketAddr,
    },
    /// The batch's UDP source port is not one of the source ports of this [`Port`](super::Port).
    #[error("UDP port {source_port} is not one of this port's source ports")]
    UnknownSourcePort {
        /// The requested source port.
        source_port: u16,
    },
    /// The system refused to send for another reason, such as a missing route or a firewall.
    #[error("cannot send to {destination}: {error}")]
    System {
        /// The destination of the batch.
        destination: SocketAddr,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
}
