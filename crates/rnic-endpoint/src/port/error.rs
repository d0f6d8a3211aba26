//! Why a port could not be opened or a batch could not be sent.

use super::Limits;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another socket receives there.
    #[error(
        "UDP port {} of {} is taken by another program or by the kernel's own RoCE (rdma_rxe); stop it or choose another address",
        address.port(), address.ip()
    )]
    InUse {
        /// The address asked for.
        address: SocketAddr,
    },
    /// The address is not this host's.
    #[error("{} is not an address of this host; `ip address` lists them", address.ip())]
    NotLocal {
        /// The address asked for.
        address: SocketAddr,
    },
    /// More source ports than a port may have.
    #[error("{asked} source ports are too many; at most {most} are possible")]
    TooManySourcePorts {
        /// The number asked for.
        asked: usize,
        /// The greatest number.
        most: usize,
    },
    /// Too few UDP ports are free.
    #[error("only {found} of {asked} source ports between 49152 and 65535 are free on this host; ask for fewer")]
    NoSourcePorts {
        /// The number asked for.
        asked: usize,
        /// The number found.
        found: usize,
    },
    /// Anything else that the system refuses.
    #[error("cannot {step} for {address}: {error}")]
    System {
        /// What was tried.
        step: &'static str,
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

/// Why nothing of a batch was sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No bytes, or a segment length of 0.
    #[error("a batch must have at least one byte and a segment length of at least 1")]
    Empty,
    /// More than the port takes at once.
    #[error(
        "{segments} datagrams of {bytes} bytes are too much for one call; at most {} of {} bytes are possible",
        limits.segments, limits.bytes
    )]
    TooMany {
        /// Datagrams in the batch.
        segments: usize,
        /// Bytes in the batch.
        bytes: usize,
        /// What is possible.
        limits: Limits,
    },
    /// A datagram longer than the path carries in one piece.
    #[error(
        "a datagram of {length} bytes is longer than the path to {destination} carries in one piece; send shorter ones"
    )]
    TooLong {
        /// UDP payload bytes.
        length: usize,
        /// Where it should have gone.
        destination: SocketAddr,
    },
    /// IPv4 and IPv6 mixed.
    #[error(
        "cannot send from {source_address} to {destination}: the port and both addresses must be all IPv4 or all IPv6"
    )]
    OtherFamily {
        /// The source address asked for, or the port's own.
        source_address: IpAddr,
        /// Where it should have gone.
        destination: SocketAddr,
    },
    /// A source port that the port does not have.
    #[error("UDP port {source_port} is not one of this port's source ports")]
    UnknownSourcePort {
        /// The source port asked for.
        source_port: u16,
    },
    /// Anything else that the system refuses: no route, a firewall.
    #[error("cannot send to {destination}: {error}")]
    System {
        /// Where it should have gone.
        destination: SocketAddr,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}
