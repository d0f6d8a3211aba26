//! Socket options and their values.

use nix::libc;
use nix::sys::socket::{SetSockOpt, setsockopt, sockopt};
use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::io;
use std::net::SocketAddr;

sockopt_impl!(
    /// Whether the kernel fragments a datagram longer than the path MTU.
    Ipv4MtuDiscover,
    Both,
    libc::IPPROTO_IP,
    libc::IP_MTU_DISCOVER,
    libc::c_int
);
sockopt_impl!(
    /// Whether the kernel fragments a datagram longer than the path MTU.
    Ipv6MtuDiscover,
    Both,
    libc::IPPROTO_IPV6,
    libc::IPV6_MTU_DISCOVER,
    libc::c_int
);
sockopt_impl!(
    /// MTU of the path to a connected peer.
    Ipv6Mtu,
    GetOnly,
    libc::IPPROTO_IPV6,
    libc::IPV6_MTU,
    libc::c_int
);
sockopt_impl!(
    /// Whether IPv6 datagrams without a UDP checksum are accepted.
    NoCheck6Receive,
    Both,
    libc::IPPROTO_UDP,
    libc::UDP_NO_CHECK6_RX,
    bool
);

/// A UDP socket on `address` that does not block and never fragments.
///
/// "Don't fragment" on a socket that is not connected is also what makes Linux send IPv4 identification 0 (and 0, 1, 2,
/// ... within a `UDP_SEGMENT` batch), on which the invariant CRC depends.
pub(super) fn unbound(address: &SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(*address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    match address {
        SocketAddr::V4(_) => setsockopt(&socket, Ipv4MtuDiscover, &libc::IP_PMTUDISC_DO)?,
        SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            setsockopt(&socket, Ipv6MtuDiscover, &libc::IPV6_PMTUDISC_DO)?;
        }
    }
    Ok(socket)
}

/// Enables the control messages that [`super::receive`] reads: traffic class, local address if the socket has none,
/// lengths of merged datagrams.
pub(super) fn prepare_receiver(socket: &Socket, address: &SocketAddr, coalescing: bool) -> io::Result<()> {
    let open = address.ip().is_unspecified();
    match address {
        SocketAddr::V4(_) => {
            socket.set_recv_tos_v4(true)?;
            setsockopt(socket, sockopt::Ipv4PacketInfo, &open)?;
        }
        SocketAddr::V6(_) => {
            socket.set_recv_tclass_v6(true)?;
            setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &open)?;
            // The Linux kernel's software RoCE sends IPv6 without a UDP checksum, as RoCEv2 allows.
            setsockopt(socket, NoCheck6Receive, &true)?;
        }
    }
    setsockopt(socket, sockopt::RxqOvfl, &1)?;
    if coalescing {
        setsockopt(socket, sockopt::UdpGroSegment, &true)?;
    }
    Ok(())
}

/// Lets the socket drop all datagrams that arrive: it only sends, and its receive buffer must not fill up.
pub(super) fn never_receive(socket: &Socket) -> io::Result<()> {
    let drop_all = SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0);
    socket.attach_filter(&[drop_all])?;
    socket.set_recv_buffer_size(0)
}

/// Requests `bytes` of buffer: beyond the system's limit if the process has the privilege, else up to the limit.
pub(super) fn size_buffer<F, S>(socket: &Socket, force: F, set: S, bytes: usize) -> io::Result<()>
where
    F: SetSockOpt<Val = usize>,
    S: SetSockOpt<Val = usize>,
{
    Ok(setsockopt(socket, force, &bytes).or_else(|_| setsockopt(socket, set, &bytes))?)
}
