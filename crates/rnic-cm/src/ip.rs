//! The RDMA IP CM service (InfiniBand volume 1, annex A11): service IDs that stand for port numbers, and the header in
//! front of the private data that carries IP addresses and the port of the sender.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Length of [`IpHeader`] in bytes.
pub const LEN: usize = 36;

/// Service ID of a port number in a port space (`RDMA_PS_TCP` is 0x0106, `RDMA_PS_UDP` 0x0111, `RDMA_PS_IB` 0x013f,
/// `RDMA_PS_IPOIB` 0x0002).
pub const fn service(space: u16, port: u16) -> u64 {
    (space as u64) << 16 | port as u64
}

/// The port number in a service ID.
pub const fn port(service: u64) -> u16 {
    service as u16
}

/// Returns the GUID that rnic's libibverbs reports for the device of an address. The bit of locally administered
/// identifiers is set. If the messages of a peer contain the GUID that belongs to the peer's own address, the peer runs
/// this library too, because no other device computes its GUID in this way.
pub fn guid(ip: IpAddr) -> u64 {
    // FNV-1a, with 64 bits.
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = gid(ip).into_iter().fold(0xcbf2_9ce4_8422_2325, add);
    hash | 0x0200_0000_0000_0000
}

/// The addresses of a connection, as the sender of the REQ or SIDR_REQ sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpHeader {
    /// Address and port of the sender.
    pub source: SocketAddr,
    /// Address of the receiver. Its port is in the service ID.
    pub destination: IpAddr,
}

impl IpHeader {
    /// Writes the header to the start of the private data.
    ///
    /// # Panics
    /// If `out` has fewer than [`LEN`] bytes.
    pub fn emit(&self, out: &mut [u8]) {
        let octets = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => {
                let mut octets = [0; 16];
                octets[12..].copy_from_slice(&ip.octets());
                octets
            }
            IpAddr::V6(ip) => ip.octets(),
        };
        out[0] = 0;
        out[1] = if self.source.is_ipv4() { 0x40 } else { 0x60 };
        out[2..4].copy_from_slice(&self.source.port().to_be_bytes());
        out[4..20].copy_from_slice(&octets(self.source.ip()));
        out[20..36].copy_from_slice(&octets(self.destination));
    }

    /// Reads the header from the start of the private data; `None` if its version is unknown, or it is too short.
    pub fn parse(bytes: &[u8]) -> Option<IpHeader> {
        let bytes = bytes.first_chunk::<LEN>()?;
        if bytes[0] != 0 {
            return None;
        }
        let ip = |at: usize| -> Option<IpAddr> {
            let octets: [u8; 16] = bytes[at..at + 16].try_into().ok()?;
            match bytes[1] >> 4 {
                4 => Some(Ipv4Addr::new(octets[12], octets[13], octets[14], octets[15]).into()),
                6 => Some(Ipv6Addr::from(octets).into()),
                _ => None,
            }
        };
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        Some(IpHeader { source: SocketAddr::new(ip(4)?, port), destination: ip(20)? })
    }
}

/// An address as a GID of RoCEv2.
pub fn gid(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// The address in a GID of RoCEv2.
pub fn address(gid: [u8; 16]) -> IpAddr {
    IpAddr::V6(gid.into()).to_canonical()
}
