//! Socket addresses of C.

use libc::{AF_INET, AF_INET6, c_int, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Reads an address.
///
/// # Errors
/// `EAFNOSUPPORT` if it is neither IPv4 nor IPv6.
///
/// # Safety
/// `address` is valid for reads of a `sockaddr_in` (`AF_INET`), `sockaddr_in6` (`AF_INET6`) or `sockaddr` (others).
pub(crate) unsafe fn read(address: *const sockaddr) -> Result<SocketAddr, c_int> {
    // SAFETY: the caller promises the conditions of this function.
    unsafe {
        match c_int::from((*address).sa_family) {
            AF_INET => {
                let v4 = address.cast::<sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Ok(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
            }
            AF_INET6 => {
                let v6 = address.cast::<sockaddr_in6>().read_unaligned();
                let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
                let address = SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id);
                // An IPv4-mapped address is the address of an IPv4 peer of an IPv6 socket.
                Ok(match ip.to_ipv4_mapped() {
                    Some(ip) => SocketAddr::new(ip.into(), port),
                    None => SocketAddr::V6(address),
                })
            }
            _ => Err(libc::EAFNOSUPPORT),
        }
    }
}

/// An address as C sees it, and its length.
pub(crate) fn of(address: SocketAddr) -> (sockaddr_storage, u32) {
    // SAFETY: all zeroes are a valid value.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    let to = (&raw mut storage).cast::<u8>();
    // SAFETY: the storage is large enough for each address, and aligned for it.
    let len = unsafe {
        match address {
            SocketAddr::V4(v4) => {
                let mut c: sockaddr_in = std::mem::zeroed();
                c.sin_family = AF_INET as u16;
                c.sin_port = v4.port().to_be();
                c.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
                to.cast::<sockaddr_in>().write(c);
                size_of::<sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let mut c: sockaddr_in6 = std::mem::zeroed();
                c.sin6_family = AF_INET6 as u16;
                c.sin6_port = v6.port().to_be();
                c.sin6_addr.s6_addr = v6.ip().octets();
                c.sin6_scope_id = v6.scope_id();
                to.cast::<sockaddr_in6>().write(c);
                size_of::<sockaddr_in6>()
            }
        }
    };
    (storage, len as u32)
}

/// Returns the address from which this host sends to `peer`, according to the host's routes.
pub(crate) fn source_for(peer: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    // Connecting a UDP socket sends no packet.
    socket.connect(SocketAddr::new(peer.ip(), peer.port().max(1))).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
