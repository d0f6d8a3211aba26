//! Raw sockets: send packets with any source port, and capture the packets of other sockets.

use rnic_netns::Namespace;
use rnic_wire::IcrcSeed;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

/// Length of IPv4 and UDP header.
const HEADERS: usize = 28;

/// Sends UDP datagrams over IPv4 with forged headers.
pub struct Sender {
    socket: Socket,
    source: Ipv4Addr,
    to: SocketAddrV4,
}

impl Sender {
    /// Opens a raw socket in `namespace`. Its datagrams go to `to`, and seem to come from `source`.
    ///
    /// # Panics
    /// Without the privilege to open raw sockets.
    pub fn open(namespace: &Namespace, source: Ipv4Addr, to: SocketAddrV4) -> Sender {
        /// IPPROTO_RAW: the bytes begin with the IP header.
        const RAW: i32 = 255;
        let open = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(RAW)));
        Sender { socket: namespace.run(open).expect("the privilege of raw sockets"), source, to }
    }

    /// Sends one datagram. Errors, such as a full queue, are ignored.
    pub fn send(&self, source_port: u16, payload: &[u8]) {
        let len = HEADERS + payload.len();
        let mut bytes = Vec::with_capacity(len);
        bytes.extend([0x45, 0]);
        bytes.extend((len as u16).to_be_bytes());
        // Identification 0 and "don't fragment"; the kernel writes the checksum.
        bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        bytes.extend(self.source.octets());
        bytes.extend(self.to.ip().octets());
        bytes.extend(source_port.to_be_bytes());
        bytes.extend(self.to.port().to_be_bytes());
        bytes.extend(((len - 20) as u16).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(payload);
        let _ = self.socket.send_to(&bytes, &SockAddr::from(self.to));
    }

    /// Writes the ICRC of a plain packet into its last four bytes.
    pub fn write_icrc(&self, source_port: u16, packet: &mut [u8]) {
        let end = packet.len() - rnic_wire::ICRC_LEN;
        let seed = IcrcSeed::ipv4(self.source, *self.to.ip(), source_port, self.to.port());
        let icrc = seed.icrc(0, &packet[..end]);
        packet[end..].copy_from_slice(&icrc.to_le_bytes());
    }
}

/// Captures the packets of a namespace, like an attacker on the path.
pub struct Tap(Socket);

impl Tap {
    /// Starts to listen in `namespace`.
    ///
    /// # Panics
    /// Without the privilege to capture packets.
    pub fn open(namespace: &Namespace) -> Tap {
        /// ETH_P_ALL in network order.
        const ALL: i32 = 0x0003_u16.to_be() as i32;
        let open = || Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(ALL)));
        let socket = namespace.run(open).expect("the privilege to capture packets");
        socket.set_read_timeout(Some(Duration::from_millis(10))).expect("a socket has a timeout");
        Tap(socket)
    }

    /// Returns the source port and the payload of the next datagram to `to`; `None` if no datagram arrives within the
    /// timeout.
    pub fn next(&mut self, to: SocketAddr) -> Option<(u16, Vec<u8>)> {
        let mut frame = [0; 65_536];
        let SocketAddr::V4(to) = to else { return None };
        for _ in 0..64 {
            let len = self.0.read(&mut frame).ok()?;
            let packet = frame.get(14..len).filter(|packet| packet.len() > HEADERS && packet[0] == 0x45)?;
            let half = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
            if packet[9] == 17 && packet[16..20] == to.ip().octets() && half(22) == to.port() {
                return Some((half(20), packet[HEADERS..].to_vec()));
            }
        }
        None
    }
}
