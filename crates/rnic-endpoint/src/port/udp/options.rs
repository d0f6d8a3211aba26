//! The options of the UDP port's sockets, and functions that set them.

use crate::port::ArrivalTimes;
use nix::libc;
use nix::sys::socket::{SetSockOpt, setsockopt, sockopt};
use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

sockopt_impl!(
    /// `IP_MTU_DISCOVER`: whether the kernel fragments a datagram that is longer than the path MTU.
    Ipv4MtuDiscover,
    Both,
    libc::IPPROTO_IP,
    libc::IP_MTU_DISCOVER,
    libc::c_int
);
sockopt_impl!(
    /// `IPV6_MTU_DISCOVER`: whether the kernel fragments a datagram that is longer than the path MTU.
    Ipv6MtuDiscover,
    Both,
    libc::IPPROTO_IPV6,
    libc::IPV6_MTU_DISCOVER,
    libc::c_int
);
sockopt_impl!(
    /// `IPV6_MTU`: the MTU of the path to the peer of a connected socket.
    Ipv6Mtu,
    GetOnly,
    libc::IPPROTO_IPV6,
    libc::IPV6_MTU,
    libc::c_int
);
sockopt_impl!(
    /// `UDP_NO_CHECK6_RX`: whether the socket accepts IPv6 datagrams without a UDP checksum.
    NoCheck6Receive,
    Both,
    libc::IPPROTO_UDP,
    libc::UDP_NO_CHECK6_RX,
    bool
);

sockopt_impl!(
    /// `SO_ATTACH_REUSEPORT_CBPF`: the program that selects the socket of a group (`SO_REUSEPORT`) for a datagram.
    GroupFilter,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_ATTACH_REUSEPORT_CBPF,
    libc::sock_fprog
);

/// Lets the kernel select the socket of each datagram that arrives at a group of `count` sockets: the remainder of the
/// destination queue pair number (QPN) divided by `count`. `socket` is one of the group.
pub(super) fn steer_by_qpn(socket: &Socket, count: u32) -> io::Result<()> {
    // Offset in bytes of the 32-bit word in a datagram whose lower 24 bits are the QPN.
    const QPN_WORD: u32 = 4;
    let filter = |code: u32, k| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = [
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, QPN_WORD),
        filter(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xff_ffff),
        filter(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count),
        filter(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    Ok(setsockopt(socket, GroupFilter, &program)?)
}

/// Opens a UDP socket for the address family of `address`, without binding it. The socket never blocks and never
/// fragments datagrams.
///
/// "Don't fragment" also determines the IPv4 identifications, on which the invariant CRC depends. On a socket that is
/// not connected and has this option, Linux sends identification 0, and 0, 1, 2, ... within a `UDP_SEGMENT` batch.
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

/// Enables the control messages that [`super::receive`] reads: the traffic class, the count of dropped datagrams, the
/// length of merged datagrams if `coalescing` is set, and the local address of each datagram if the socket receives on
/// the unspecified address.
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

/// Asks the kernel for a time stamp of each datagram that the socket receives.
pub(super) fn request_arrival_times(socket: &impl AsFd) -> ArrivalTimes {
    match setsockopt(socket, sockopt::ReceiveTimestampns, &true) {
        Ok(()) => ArrivalTimes::Kernel,
        Err(error) => ArrivalTimes::Refused(error as i32),
    }
}

/// Makes the socket drop all datagrams that arrive. The socket only sends, and the program never reads its receive
/// buffer.
pub(super) fn never_receive(socket: &Socket) -> io::Result<()> {
    let drop_all = SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0);
    socket.attach_filter(&[drop_all])?;
    socket.set_recv_buffer_size(0)
}

/// Requests a buffer of `bytes`. `force` exceeds the system's limit and needs a privilege; without the privilege, `set`
/// requests up to the limit.
pub(super) fn size_buffer<F, S>(socket: &Socket, force: F, set: S, bytes: usize) -> io::Result<()>
where
    F: SetSockOpt<Val = usize>,
    S: SetSockOpt<Val = usize>,
{
    Ok(setsockopt(socket, force, &bytes).or_else(|_| setsockopt(socket, set, &bytes))?)
}
