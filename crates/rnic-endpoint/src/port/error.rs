//! Why a port could not be opened or a batch could not be sent.

use super::Limits;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another socket has the address and port.
    #[error(
        "UDP port {} of {} is taken by another program or by the kernel's own RoCE (rdma_rxe); stop it or choose another address",
        address.port(), address.ip()
    )]
    InUse {
        /// The requested address.
        address: SocketAddr,
    },
    /// The address is not one of this host.
    #[error("{} is not an address of this host; `ip address` lists them", address.ip())]
    NotLocal {
        /// The requested address.
        address: SocketAddr,
    },
    /// More source ports than a port can have.
    #[error("{asked} source ports are too many; at most {max} are possible")]
    TooManySourcePorts {
        /// The requested number.
        asked: usize,
        /// The maximum number.
        max: usize,
    },
    /// Too few UDP ports are free.
    #[error("only {found} of {asked} source ports between 49152 and 65535 are free on this host; ask for fewer")]
    NoSourcePorts {
        /// The requested number.
        asked: usize,
        /// The number of free ones.
        found: usize,
    },
    /// A system call failed for another reason.
    #[error("cannot {step} for {address}: {error}")]
    System {
        /// The step that failed.
        step: &'static str,
        /// The requested address.
        address: SocketAddr,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
}

/// Why no datagram of a batch was sent.
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
        /// Datagrams in the batch.
        segments: usize,
        /// Bytes in the batch.
        bytes: usize,
        /// The limits of the port.
        limits: Limits,
    },
    /// A datagram is longer than the path carries without fragmentation.
    #[error(
        "a datagram of {length} bytes is longer than the path to {destination} carries in one piece; send shorter ones"
    )]
    TooLong {
        /// UDP payload bytes.
        length: usize,
        /// The destination.
        destination: SocketAddr,
    },
    /// One address is IPv4, another one IPv6.
    #[error(
        "cannot send from {source_address} to {destination}: the port and both addresses must be all IPv4 or all IPv6"
    )]
    OtherFamily {
        /// The requested source address, or the port's own.
        source_address: IpAddr,
        /// The destination.
        destination: SocketAddr,
    },
    /// The port does not have the source port.
    #[error("UDP port {source_port} is not one of this port's source ports")]
    UnknownSourcePort {
        /// The requested source port.
        source_port: u16,
    },
    /// The system refused to send for another reason: no route, a firewall.
    #[error("cannot send to {destination}: {error}")]
    System {
        /// The destination.
        destination: SocketAddr,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
}
