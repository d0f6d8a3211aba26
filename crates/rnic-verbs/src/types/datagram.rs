//! The types of UD (unreliable datagram) queue pairs: where a datagram goes, where it came from, and the network header
//! that precedes received data in memory.

use super::{Qpn, VerbsError, range};
use rnic_transport::Psn;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Number of bytes in front of the data of each received datagram, in the memory of the receive: the global route
/// header (GRH) of InfiniBand volume 1, section 11.4, which RoCEv2 fills with the IP header. A receive for datagrams of
/// n bytes needs n + 40 bytes.
///
/// With IPv6 the 40 bytes are the IPv6 header. With IPv4 the first 20 bytes are 0, and the other 20 bytes are the IPv4
/// header. The device rebuilds the header: version, traffic class (or type of service), length, protocol (UDP), source
/// and destination are those of the datagram. The owner of a device does not see the other fields, so they have fixed
/// values: hop limit (TTL) 64, flow label 0, identification 0, "don't fragment", and an IPv4 header checksum that is
/// right for these values.
pub const GRH_LEN: u32 = 40;

/// The attributes that a UD queue pair gets in the transition from INIT to RTR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramAttributes {
    /// Queue key (Q_Key). The queue pair drops datagrams with another one. A host that knows the queue pair number and
    /// the Q_Key can send to the queue pair, from any address.
    pub qkey: u32,
    /// Maximum length of a datagram in bytes of payload: 256, 512, 1024, 2048 or 4096. A datagram is one packet, so the
    /// path to each recipient must admit a packet with so much payload.
    pub path_mtu: u32,
}

/// An address handle: the path of a datagram to its recipient. It is a value, which the device neither stores nor
/// counts.
///
/// ```
/// use rnic_verbs::AddressHandle;
///
/// let path = AddressHandle { flow: 7, ..AddressHandle::to("10.0.0.2:4791".parse().unwrap()) };
/// assert_eq!(path.dscp, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressHandle {
    /// The recipient's IP address, and the UDP port on which it receives: 4791 with RoCEv2.
    pub peer: SocketAddr,
    /// Flow label, 20 bits. The owner of the device chooses the UDP source port of the datagram by it, so that ECMP
    /// sends datagrams with different flow labels over different paths. A different UDP source port is not guaranteed:
    /// the owner may have fewer of them than there are flow labels.
    pub flow: u32,
    /// Differentiated services code point, 0 to 63: the upper six bits of the traffic class.
    pub dscp: u8,
}

impl AddressHandle {
    /// A path with flow label 0 and DSCP 0.
    pub const fn to(peer: SocketAddr) -> AddressHandle {
        AddressHandle { peer, flow: 0, dscp: 0 }
    }

    fn check(&self) -> Result<(), VerbsError> {
        let ip = self.peer.ip().to_canonical();
        if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return Err(VerbsError::Unsupported(
                "a datagram goes to one host: there is no multicast or broadcast, so the address must be that of a host",
            ));
        }
        if ip.is_unspecified() || self.peer.port() == 0 {
            return Err(VerbsError::Unsupported(
                "a datagram needs an address of a host and a UDP port of 1 to 65535 (4791 with RoCEv2)",
            ));
        }
        range("the flow label", self.flow, 0, (1 << 20) - 1)?;
        range("the DSCP", self.dscp.into(), 0, 63)
    }
}

/// The recipient of a datagram: a UD queue pair, and the path to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipient {
    /// The path to the host of the queue pair.
    pub path: AddressHandle,
    /// Number of the queue pair.
    pub qpn: Qpn,
    /// Queue key of the queue pair. If the most significant bit is set, the datagram carries the Q_Key of the sending
    /// queue pair instead (InfiniBand volume 1, section 10.2: a controlled Q_Key).
    pub qkey: u32,
}

impl Recipient {
    /// Checks a recipient in a work request.
    pub(crate) fn check(&self) -> Result<(), VerbsError> {
        range("the QPN of the recipient", self.qpn.0, 0, Psn::MODULUS - 2)?;
        self.path.check()
    }
}

/// The sender of a received datagram, as its packet says. Anyone can write these fields into a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source {
    family: Family,
    ip: [u8; 16],
    port: [u8; 2],
    qpn: [u8; 3],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Family {
    V4,
    V6,
}

impl Source {
    pub(crate) fn new(from: SocketAddr, qpn: u32) -> Source {
        let (family, ip) = match from.ip() {
            IpAddr::V4(ip) => (Family::V4, ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => (Family::V6, ip.octets()),
        };
        let [_, high, middle, low] = qpn.to_be_bytes();
        Source { family, ip, port: from.port().to_be_bytes(), qpn: [high, middle, low] }
    }

    /// The IP address of the sender.
    pub fn ip(&self) -> IpAddr {
        let ip = Ipv6Addr::from(self.ip);
        match (self.family, ip.to_ipv4_mapped()) {
            (Family::V4, Some(ip)) => ip.into(),
            _ => ip.into(),
        }
    }

    /// The UDP source port of the datagram. It tells the path that ECMP chose, and not where the sender receives: in
    /// RoCEv2 that is always port 4791.
    pub fn port(&self) -> u16 {
        u16::from_be_bytes(self.port)
    }

    /// The queue pair that sent the datagram.
    pub fn qpn(&self) -> Qpn {
        let [high, middle, low] = self.qpn;
        Qpn(u32::from_be_bytes([0, high, middle, low]))
    }

    /// The recipient of a reply: the sending queue pair at UDP port `port` of its host, with the given queue key. Flow
    /// label and DSCP are 0.
    pub fn reply(&self, port: u16, qkey: u32) -> Recipient {
        Recipient { path: AddressHandle::to(SocketAddr::new(self.ip(), port)), qpn: self.qpn(), qkey }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({}, QP {:#x})", SocketAddr::new(self.ip(), self.port()), self.qpn().0)
    }
}

/// The fields of a received packet's IP and UDP headers that the owner of a device passes to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkHeader {
    /// Source IP address and UDP source port.
    pub source: SocketAddr,
    /// Destination IP address, of the same family as the source.
    pub destination: IpAddr,
    /// Traffic class of IPv6, or type of service of IPv4: DSCP in the upper six bits, ECN codepoint in the lower two.
    pub traffic_class: u8,
}

impl NetworkHeader {
    /// The header of a packet from `source`, of which nothing else is known but whether it is CE-marked.
    pub(crate) fn from(source: SocketAddr, marked: bool) -> NetworkHeader {
        let destination = match source {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        NetworkHeader { source, destination, traffic_class: if marked { 3 } else { 0 } }
    }

    /// Whether a switch CE-marked the packet.
    pub fn is_marked(&self) -> bool {
        self.traffic_class & 3 == 3
    }

    /// The bytes in front of the data of a received datagram, for a packet of `len` bytes ([`GRH_LEN`]).
    pub(crate) fn grh(&self, len: usize) -> [u8; GRH_LEN as usize] {
        const UDP: u8 = 17;
        const HOP_LIMIT: u8 = 64;
        let mut out = [0; GRH_LEN as usize];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        let udp_len = (8 + len) as u16;
        let class = self.traffic_class;
        match (self.source.ip(), self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                put(20, &[0x45, class]);
                put(22, &(20 + udp_len).to_be_bytes());
                put(26, &[0x40, 0, HOP_LIMIT, UDP]);
                put(32, &source.octets());
                put(36, &destination.octets());
                let sum: u32 = out[20..].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
                let sum = (sum >> 16) + (sum & 0xffff);
                let checksum = !((sum >> 16) + sum) as u16;
                out[30..32].copy_from_slice(&checksum.to_be_bytes());
            }
            (source, destination) => {
                let octets = |ip| match ip {
                    IpAddr::V4(ip) => Ipv4Addr::to_ipv6_mapped(&ip).octets(),
                    IpAddr::V6(ip) => ip.octets(),
                };
                put(0, &[0x60 | class >> 4, class << 4]);
                put(4, &udp_len.to_be_bytes());
                put(6, &[UDP, HOP_LIMIT]);
                put(8, &octets(source));
                put(24, &octets(destination));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_keeps_its_address() {
        for from in ["10.1.2.3:50000", "[2001:db8::1]:65535", "[::ffff:10.0.0.1]:1", "0.0.0.0:0", "[::]:0"] {
            let from: SocketAddr = from.parse().unwrap();
            let source = Source::new(from, 0xab_cdef);
            assert_eq!((source.ip(), source.port(), source.qpn()), (from.ip(), from.port(), Qpn(0xab_cdef)));
            assert_eq!(source.reply(4_791, 9).path.peer, SocketAddr::new(from.ip(), 4_791));
        }
    }

    /// The headers were computed by hand and with the checksum of RFC 1071.
    #[test]
    fn the_network_header_is_an_ip_header() {
        let header = NetworkHeader {
            source: "10.0.0.1:50000".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            traffic_class: 0x6a,
        };
        let grh = header.grh(32);
        assert_eq!(grh[..20], [0; 20]);
        assert_eq!(grh[20..30], [0x45, 0x6a, 0, 60, 0, 0, 0x40, 0, 64, 17]);
        assert_eq!(grh[32..], [10, 0, 0, 1, 10, 0, 0, 2]);
        // A header with its checksum sums up to 0xffff.
        let sum: u32 = grh[20..].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
        assert_eq!((sum >> 16) + (sum & 0xffff), 0xffff);

        let header = NetworkHeader {
            source: "[2001:db8::1]:50000".parse().unwrap(),
            destination: "2001:db8::2".parse().unwrap(),
            traffic_class: 0x6a,
        };
        let grh = header.grh(32);
        assert_eq!(grh[..8], [0x66, 0xa0, 0, 0, 0, 40, 17, 64]);
        assert_eq!(grh[8..24], "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(grh[24..], "2001:db8::2".parse::<Ipv6Addr>().unwrap().octets());
    }
}
