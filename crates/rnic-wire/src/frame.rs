//! Ethernet frames that carry RoCEv2 packets (with VLAN tags, IPv4 or IPv6, UDP), RoCEv1 packets, or priority flow
//! control.
//!
//! [`Frame::parse`] classifies a frame from a capture or a raw socket; [`Envelope::emit`] builds a frame for a raw
//! socket. A program that sends RoCEv2 packets through a UDP socket needs neither.

use crate::bytes::{array, put, read_u16};
use crate::icrc::{self, IcrcSeed};
use crate::mac::MacAddr;
use crate::packet::Packet;
use crate::pfc::{ETHERTYPE_MAC_CONTROL, Pfc};
use crate::{ICRC_LEN, ROCE_PORT};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherType of RoCEv1.
pub const ETHERTYPE_ROCE_V1: u16 = 0x8915;
/// EtherTypes of VLAN tags: IEEE 802.1Q, IEEE 802.1ad, and the unofficial predecessor of the latter.
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// Numbers of IPv6 extension headers.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const ENCRYPTED: u8 = 50;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

const LOOPBACK_LEN: usize = 4;
const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const PROTOCOL_UDP: u8 = 17;
/// UDP destination port of VXLAN.
const VXLAN_PORT: u16 = 4789;
const VXLAN_LEN: usize = 8;
/// First byte of a VXLAN header: only the flag I is set, which says that the header has a network identifier.
const VXLAN_HAS_NETWORK: u8 = 0x08;
/// "Next header" value in the GRH of a RoCEv1 packet: a base transport header follows the GRH.
const NEXT_HEADER_BTH: u8 = 0x1b;
/// Maximum number of VLAN tags in [`Ethernet::vlans`]; the parser skips further tags of a frame.
pub const MAX_VLANS: usize = 2;

/// The link-layer header type of captured frames, as a capture file declares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkType {
    /// Ethernet II.
    Ethernet,
    /// Linux "cooked" capture (SLL): a header of 16 bytes that ends with the EtherType.
    LinuxCooked,
    /// Linux "cooked" capture, version 2 (SLL2): a header of 20 bytes that begins with the EtherType.
    LinuxCooked2,
    /// BSD loopback: the address family in four bytes, in the byte order of the capturing host or of the network.
    Loopback,
    /// IPv4 or IPv6 without a link layer.
    RawIp,
}

impl LinkType {
    /// The link type with this number in a pcap or pcapng file; `None` if this crate cannot parse its frames.
    pub const fn from_number(number: i32) -> Option<LinkType> {
        match number {
            0 | 108 => Some(LinkType::Loopback),
            1 => Some(LinkType::Ethernet),
            113 => Some(LinkType::LinuxCooked),
            276 => Some(LinkType::LinuxCooked2),
            12 | 14 | 101 | 228 | 229 => Some(LinkType::RawIp),
            _ => None,
        }
    }
}

/// The control information of a VLAN tag: from the most significant bit, priority (3 bits), drop eligible (1 bit),
/// identifier (12 bits).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Vlan(pub u16);

impl Vlan {
    /// VLAN identifier, 0 to 4095; a tag with identifier 0 carries only a priority.
    pub const fn id(self) -> u16 {
        self.0 & 0xfff
    }
    /// Priority code point, 0 to 7.
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }
    /// Drop eligible indicator: whether a congested bridge may drop the frame before others.
    pub const fn drop_eligible(self) -> bool {
        self.0 & 0x1000 != 0
    }
}

/// Ethernet header with its VLAN tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ethernet {
    /// Destination address.
    pub destination: MacAddr,
    /// Source address.
    pub source: MacAddr,
    /// The VLAN tags, from the outermost inwards; `None` in the places after the last tag.
    pub vlans: [Option<Vlan>; MAX_VLANS],
}

/// IPv4 header without options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4 {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// DSCP (6 bits) and ECN (2 bits).
    pub tos: u8,
    /// IPv4 identification, which the ICRC covers.
    pub id: u16,
    /// Flags (3 bits) and fragment offset (13 bits); see [`icrc::DONT_FRAGMENT`].
    pub flags: u16,
    /// Time to live.
    pub ttl: u8,
}

impl Ipv4 {
    /// A header with the don't-fragment flag, identification 0 and a time to live of 64.
    pub const fn new(source: Ipv4Addr, destination: Ipv4Addr) -> Ipv4 {
        Ipv4 { source, destination, tos: 0, id: 0, flags: icrc::DONT_FRAGMENT, ttl: 64 }
    }
}

/// IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6 {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// DSCP (6 bits) and ECN (2 bits).
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
}

impl Ipv6 {
    /// A header with a hop limit of 64.
    pub const fn new(source: Ipv6Addr, destination: Ipv6Addr) -> Ipv6 {
        Ipv6 { source, destination, traffic_class: 0, flow_label: 0, hop_limit: 64 }
    }

    /// Parses the header.
    fn parse(bytes: &[u8; IPV6_LEN]) -> Ipv6 {
        let word = u32::from_be_bytes(array(bytes, 0));
        Ipv6 {
            source: array::<16>(bytes, 8).into(),
            destination: array::<16>(bytes, 24).into(),
            traffic_class: (word >> 20) as u8,
            flow_label: word & 0xf_ffff,
            hop_limit: bytes[7],
        }
    }
}

/// IP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ip {
    /// IPv4.
    V4(Ipv4),
    /// IPv6.
    V6(Ipv6),
}

impl Ip {
    /// Source address.
    pub const fn source(&self) -> IpAddr {
        match self {
            Ip::V4(ip) => IpAddr::V4(ip.source),
            Ip::V6(ip) => IpAddr::V6(ip.source),
        }
    }
    /// Destination address.
    pub const fn destination(&self) -> IpAddr {
        match self {
            Ip::V4(ip) => IpAddr::V4(ip.destination),
            Ip::V6(ip) => IpAddr::V6(ip.destination),
        }
    }
    /// Type of service (IPv4) or traffic class (IPv6): DSCP (6 bits) and ECN (2 bits).
    pub const fn traffic_class(&self) -> u8 {
        match self {
            Ip::V4(ip) => ip.tos,
            Ip::V6(ip) => ip.traffic_class,
        }
    }
    /// IPv4 identification; 0 for IPv6.
    pub const fn id(&self) -> u16 {
        match self {
            Ip::V4(ip) => ip.id,
            Ip::V6(_) => 0,
        }
    }
}

/// A RoCEv2 packet in a frame, with the IP and UDP headers around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoceV2<'a> {
    /// IP header.
    pub ip: Ip,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port, normally [`ROCE_PORT`].
    pub destination_port: u16,
    /// UDP checksum; 0 means that the sender computed none.
    pub udp_checksum: u16,
    /// The captured bytes of the packet, from the base transport header to the ICRC: the input of [`Packet::parse`].
    pub body: &'a [u8],
    /// Number of bytes at the end of the packet that the capture does not hold.
    pub missing: usize,
    /// The bytes of the IP header with its options, and of the UDP header.
    headers: &'a [u8],
}

impl RoceV2<'_> {
    /// The seed that computes the ICRCs of packets with the same IP addresses and UDP ports, and without IPv4 options.
    pub fn icrc_seed(&self) -> IcrcSeed {
        icrc_seed(&self.ip, self.source_port, self.destination_port)
    }

    /// The checksum of the IPv4 header; `None` for IPv6, which has none.
    pub fn ip_checksum(&self) -> Option<Checksum> {
        let ip = &self.headers[..self.headers.len() - UDP_LEN];
        matches!(self.ip, Ip::V4(_)).then(|| {
            let found = read_u16(ip, 10);
            Checksum { found, computed: !fold(sum(ip) - u64::from(found)) }
        })
    }

    /// The checksum of the UDP datagram; `None` if the sender computed none, or bytes are missing.
    pub fn udp_checksum(&self) -> Option<Checksum> {
        if self.udp_checksum == 0 || self.missing > 0 {
            return None;
        }
        let udp = &self.headers[self.headers.len() - UDP_LEN..];
        let words = sum(udp) - u64::from(self.udp_checksum) + sum(self.body);
        let computed = udp_checksum(&self.ip, UDP_LEN + self.body.len(), words);
        Some(Checksum { found: self.udp_checksum, computed })
    }

    /// The correct ICRC of the packet, with which `body` should end, computed from the captured headers. `None` if the
    /// capture lacks bytes of the packet, `body` is shorter than a BTH and an ICRC, or the IPv6 header has extension
    /// headers, for which the specification defines no ICRC.
    pub fn icrc(&self) -> Option<u32> {
        if self.missing > 0 {
            return None;
        }
        let ip_len = self.headers.len() - UDP_LEN;
        if matches!(self.ip, Ip::V6(_)) && ip_len != IPV6_LEN {
            return None;
        }
        icrc::of_headers(&self.headers[..ip_len], &self.headers[ip_len..], self.body.strip_icrc()?)
    }
}

/// A checksum of the Internet protocols (RFC 1071).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksum {
    /// The checksum in the packet.
    pub found: u16,
    /// The checksum that the packet should contain.
    pub computed: u16,
}

impl Checksum {
    /// Whether the packet contains the right checksum.
    pub const fn is_right(&self) -> bool {
        self.found == self.computed
    }
}

/// A RoCEv1 packet in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoceV1<'a> {
    /// Global routing header (GRH), which has the layout of an IPv6 header.
    pub grh: Ipv6,
    /// The captured bytes of the packet, from the base transport header to the ICRC.
    pub body: &'a [u8],
    /// Number of bytes at the end of the packet that the capture does not hold.
    pub missing: usize,
    header: &'a [u8],
}

impl RoceV1<'_> {
    /// The correct ICRC of the packet, with which `body` should end. `None` if the capture lacks bytes of the packet,
    /// or `body` is shorter than a BTH and an ICRC.
    pub fn icrc(&self) -> Option<u32> {
        if self.missing > 0 {
            return None;
        }
        icrc::of_headers(self.header, &[], self.body.strip_icrc()?)
    }
}

trait StripIcrc {
    fn strip_icrc(&self) -> Option<&[u8]>;
}

impl StripIcrc for [u8] {
    fn strip_icrc(&self) -> Option<&[u8]> {
        self.len().checked_sub(ICRC_LEN).map(|len| &self[..len])
    }
}

/// The content of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// A RoCEv2 datagram.
    RoceV2(RoceV2<'a>),
    /// A RoCEv1 packet.
    RoceV1(RoceV1<'a>),
    /// A priority flow control frame.
    Pfc(Pfc),
    /// The Ethernet frame inside a VXLAN packet (RFC 7348), the input of [`Frame::parse`].
    Vxlan(&'a [u8]),
    /// A frame of another protocol, with a short description of it.
    Other(&'static str),
    /// A frame whose headers are truncated or inconsistent, and the reason in one sentence.
    Malformed(&'static str),
}

/// A parsed and classified frame.
///
/// ```
/// use rnic_wire::{Content, Envelope, Frame, Ip, Ipv4, LinkType, MacAddr, Packet};
///
/// let ip = Ip::V4(Ipv4::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
/// let envelope = Envelope::new(MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1]), ip, 49152);
/// let mut bytes = [0; 128];
/// let len = envelope.emit(&Packet::cnp(17), &mut bytes);
///
/// let frame = Frame::parse(LinkType::Ethernet, &bytes[..len]);
/// let Content::RoceV2(datagram) = frame.content else { panic!("not RoCEv2") };
/// assert_eq!((datagram.ip, datagram.source_port), (ip, 49152));
/// assert_eq!(Packet::parse(datagram.body)?, Packet::cnp(17));
/// # Ok::<(), rnic_wire::Reject>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// Ethernet header; `None` if the link type has none, or if the frame ends inside it.
    pub ethernet: Option<Ethernet>,
    /// The content of the frame.
    pub content: Content<'a>,
}

impl<'a> Frame<'a> {
    /// Parses and classifies a frame of which `bytes` were captured. No input causes a panic.
    pub fn parse(link: LinkType, bytes: &'a [u8]) -> Frame<'a> {
        Frame::parse_with(link, bytes, false)
    }

    /// Like [`Frame::parse`], but every UDP datagram that is not VXLAN is [`Content::RoceV2`], whatever its destination
    /// port is. The caller decides whether the datagram is RoCE, for example by its ICRC.
    pub fn parse_any_port(link: LinkType, bytes: &'a [u8]) -> Frame<'a> {
        Frame::parse_with(link, bytes, true)
    }

    fn parse_with(link: LinkType, bytes: &'a [u8], any_port: bool) -> Frame<'a> {
        let content = match link {
            LinkType::Ethernet => return Frame::parse_ethernet(bytes, any_port),
            LinkType::LinuxCooked => cooked(bytes, 14, 16, any_port),
            LinkType::LinuxCooked2 => cooked(bytes, 0, 20, any_port),
            LinkType::Loopback => match bytes.get(LOOPBACK_LEN..) {
                Some(rest) => by_version(rest, any_port),
                None => Content::Malformed("the frame ends inside its loopback header"),
            },
            LinkType::RawIp => by_version(bytes, any_port),
        };
        Frame { ethernet: None, content }
    }

    fn parse_ethernet(bytes: &'a [u8], any_port: bool) -> Frame<'a> {
        if bytes.len() < ETHERNET_LEN {
            return Frame { ethernet: None, content: Content::Malformed("the frame ends inside its Ethernet header") };
        }
        let mut ethernet = Ethernet {
            destination: MacAddr(array(bytes, 0)),
            source: MacAddr(array(bytes, 6)),
            vlans: [None; MAX_VLANS],
        };
        let (mut at, mut tags) = (ETHERNET_LEN, 0);
        let mut ethertype = read_u16(bytes, 12);
        while ETHERTYPES_VLAN.contains(&ethertype) {
            if bytes.len() < at + VLAN_LEN {
                let content = Content::Malformed("the frame ends inside a VLAN tag");
                return Frame { ethernet: Some(ethernet), content };
            }
            if tags < MAX_VLANS {
                ethernet.vlans[tags] = Some(Vlan(read_u16(bytes, at)));
            }
            tags += 1;
            ethertype = read_u16(bytes, at + 2);
            at += VLAN_LEN;
        }
        Frame { ethernet: Some(ethernet), content: by_ethertype(ethertype, &bytes[at..], any_port) }
    }
}

/// Classifies a packet by the version in its first four bits. BSD systems have different numbers for the family of
/// IPv6, so the version tells more than the loopback header.
fn by_version(bytes: &[u8], any_port: bool) -> Content<'_> {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => ipv4(bytes, any_port),
        Some(6) => ipv6(bytes, any_port),
        _ => Content::Other("not IP"),
    }
}

fn cooked(bytes: &[u8], ethertype_at: usize, len: usize, any_port: bool) -> Content<'_> {
    match bytes.get(len..) {
        Some(rest) => by_ethertype(read_u16(bytes, ethertype_at), rest, any_port),
        None => Content::Malformed("the frame ends inside its Linux cooked header"),
    }
}

fn by_ethertype(ethertype: u16, bytes: &[u8], any_port: bool) -> Content<'_> {
    match ethertype {
        ETHERTYPE_IPV4 => ipv4(bytes, any_port),
        ETHERTYPE_IPV6 => ipv6(bytes, any_port),
        ETHERTYPE_ROCE_V1 => roce_v1(bytes),
        ETHERTYPE_MAC_CONTROL => mac_control(bytes),
        0x0806 => Content::Other("ARP"),
        _ => Content::Other("not IP"),
    }
}

fn mac_control(bytes: &[u8]) -> Content<'_> {
    match Pfc::parse(bytes) {
        Some(pfc) => Content::Pfc(pfc),
        None => match bytes {
            [0x01, 0x01, ..] => Content::Malformed("the PFC frame ends before its eight timers do"),
            _ => Content::Other("MAC control"),
        },
    }
}

fn ipv4(bytes: &[u8], any_port: bool) -> Content<'_> {
    if bytes.len() < IPV4_LEN {
        return Content::Malformed("the frame ends inside its IPv4 header");
    }
    let header_len = usize::from(bytes[0] & 15) * 4;
    let total = usize::from(read_u16(bytes, 2));
    if bytes[0] >> 4 != 4 || header_len < IPV4_LEN || total < header_len {
        return Content::Malformed("the IPv4 header has a wrong version or inconsistent lengths");
    }
    if bytes[9] != PROTOCOL_UDP {
        return Content::Other("IP but not UDP");
    }
    let flags = read_u16(bytes, 6);
    // The more-fragments flag is set, or the fragment offset is not 0.
    if flags & 0x3fff != 0 {
        return Content::Other("IP fragment");
    }
    let ip = Ip::V4(Ipv4 {
        source: array::<4>(bytes, 12).into(),
        destination: array::<4>(bytes, 16).into(),
        tos: bytes[1],
        id: read_u16(bytes, 4),
        flags,
        ttl: bytes[8],
    });
    udp(ip, bytes, header_len, total, any_port)
}

fn ipv6(bytes: &[u8], any_port: bool) -> Content<'_> {
    let Some(header) = bytes.first_chunk::<IPV6_LEN>() else {
        return Content::Malformed("the frame ends inside its IPv6 header");
    };
    if header[0] >> 4 != 6 {
        return Content::Malformed("the IPv6 header's version is not 6");
    }
    let total = IPV6_LEN + usize::from(read_u16(header, 4));
    let (mut next, mut at) = (header[6], IPV6_LEN);
    // An extension header begins with the number of the next header and, except in a fragment header, with its length.
    loop {
        let len = match next {
            PROTOCOL_UDP => return udp(Ip::V6(Ipv6::parse(header)), bytes, at, total, any_port),
            HOP_BY_HOP | ROUTING | DESTINATION => 8,
            AUTHENTICATION => 4,
            FRAGMENT => 0,
            ENCRYPTED => return Content::Other("encrypted IP"),
            _ => return Content::Other("IP but not UDP"),
        };
        let Some(extension) = bytes.get(at..at + 8) else {
            return Content::Malformed("the frame ends inside an IPv6 extension header");
        };
        at += match len {
            8 => (usize::from(extension[1]) + 1) * 8,
            4 => (usize::from(extension[1]) + 2) * 4,
            // A fragment with offset 0 and no more fragments is a whole packet.
            _ if read_u16(extension, 2) & 0xfff9 != 0 => return Content::Other("IP fragment"),
            _ => 8,
        };
        next = extension[0];
    }
}

/// Classifies the UDP datagram at offset `at` of an IP packet of `total` bytes, of which `bytes` were captured.
fn udp(ip: Ip, bytes: &[u8], at: usize, total: usize, any_port: bool) -> Content<'_> {
    let body_at = at + UDP_LEN;
    if bytes.len() < body_at {
        return Content::Malformed("the frame ends inside its UDP header");
    }
    let destination_port = read_u16(bytes, at + 2);
    if destination_port == VXLAN_PORT
        && let Some((header, inner)) = bytes[body_at..].split_first_chunk::<VXLAN_LEN>()
        && header[0] == VXLAN_HAS_NETWORK
    {
        return Content::Vxlan(inner);
    }
    if destination_port != ROCE_PORT && !any_port {
        return Content::Other("UDP to another port");
    }
    let len = usize::from(read_u16(bytes, at + 4));
    if len < UDP_LEN || at + len > total {
        return Content::Malformed("the UDP length is inconsistent with the length in the IP header");
    }
    let end = at + len;
    Content::RoceV2(RoceV2 {
        ip,
        source_port: read_u16(bytes, at),
        destination_port,
        udp_checksum: read_u16(bytes, at + 6),
        body: &bytes[body_at..end.min(bytes.len())],
        missing: end.saturating_sub(bytes.len()),
        headers: &bytes[..body_at],
    })
}

fn roce_v1(bytes: &[u8]) -> Content<'_> {
    let Some(header) = bytes.first_chunk::<IPV6_LEN>() else {
        return Content::Malformed("the frame ends inside its global routing header");
    };
    if header[0] >> 4 != 6 || header[6] != NEXT_HEADER_BTH {
        return Content::Malformed(
            "the global routing header's version is not 6, or its next header is not 0x1b (BTH)",
        );
    }
    let end = IPV6_LEN + usize::from(read_u16(header, 4));
    Content::RoceV1(RoceV1 {
        grh: Ipv6::parse(header),
        body: &bytes[IPV6_LEN..end.min(bytes.len())],
        missing: end.saturating_sub(bytes.len()),
        header: &bytes[..IPV6_LEN],
    })
}

/// The Ethernet, IP and UDP headers that precede a RoCEv2 packet in a frame.
///
/// ```
/// use rnic_wire::{Envelope, Ip, Ipv6, MacAddr, Packet};
///
/// let ip = Ip::V6(Ipv6::new("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()));
/// let envelope = Envelope::new(MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1]), ip, 49152);
/// let mut frame = [0; 128];
/// let len = envelope.emit(&Packet::cnp(17), &mut frame);
/// assert_eq!(len, 14 + 40 + 8 + 32, "Ethernet, IPv6, UDP, CNP");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Ethernet header.
    pub ethernet: Ethernet,
    /// IP header.
    pub ip: Ip,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port, normally [`ROCE_PORT`].
    pub destination_port: u16,
    /// Whether to compute the UDP checksum. Network cards and the Linux kernel write 0, which means "no checksum",
    /// because the ICRC detects more errors.
    pub udp_checksum: bool,
}

impl Envelope {
    /// The headers of a frame to UDP port 4791, without VLAN tags and without UDP checksum. `destination` and `source`
    /// are the Ethernet addresses.
    pub const fn new(destination: MacAddr, source: MacAddr, ip: Ip, source_port: u16) -> Envelope {
        let ethernet = Ethernet { destination, source, vlans: [None; MAX_VLANS] };
        Envelope { ethernet, ip, source_port, destination_port: ROCE_PORT, udp_checksum: false }
    }

    /// Length in bytes of these headers: of all bytes before the base transport header.
    pub const fn header_len(&self) -> usize {
        let ip_len = match self.ip {
            Ip::V4(_) => IPV4_LEN,
            Ip::V6(_) => IPV6_LEN,
        };
        let mut tags = 0;
        let mut at = 0;
        while at < MAX_VLANS {
            tags += self.ethernet.vlans[at].is_some() as usize;
            at += 1;
        }
        ETHERNET_LEN + tags * VLAN_LEN + ip_len + UDP_LEN
    }

    /// The seed that computes the ICRCs of packets behind these headers.
    pub fn icrc_seed(&self) -> IcrcSeed {
        icrc_seed(&self.ip, self.source_port, self.destination_port)
    }

    /// Writes the frame that carries `packet`, without frame check sequence, to the start of `out`, and returns its
    /// length in bytes. Computes the ICRC and the IPv4 header checksum.
    ///
    /// # Panics
    /// Like [`Packet::emit`], or if `out` is too short.
    pub fn emit(&self, packet: &Packet, out: &mut [u8]) -> usize {
        let len = packet.emit(&self.icrc_seed(), self.ip.id(), &mut out[self.header_len()..]);
        self.emit_headers(len, out)
    }

    /// Writes the frame that carries the UDP payload `datagram`, such as a protected datagram, to the start of `out`,
    /// and returns its length in bytes.
    ///
    /// # Panics
    /// If `out` is too short.
    pub fn emit_datagram(&self, datagram: &[u8], out: &mut [u8]) -> usize {
        let body_at = self.header_len();
        out[body_at..body_at + datagram.len()].copy_from_slice(datagram);
        self.emit_headers(datagram.len(), out)
    }

    /// Writes the headers before the `len` bytes of UDP payload that `out` has. Returns the length of the frame.
    fn emit_headers(&self, len: usize, out: &mut [u8]) -> usize {
        let body_at = self.header_len();
        let udp_at = body_at - UDP_LEN;
        let end = body_at + len;
        let ip_at = self.emit_ethernet(out);
        emit_ip(&self.ip, len + UDP_LEN, &mut out[ip_at..udp_at]);
        put(out, udp_at, &self.source_port.to_be_bytes());
        put(out, udp_at + 2, &self.destination_port.to_be_bytes());
        put(out, udp_at + 4, &((UDP_LEN + len) as u16).to_be_bytes());
        put(out, udp_at + 6, &[0, 0]);
        if self.udp_checksum {
            let datagram = &out[udp_at..end];
            let checksum = udp_checksum(&self.ip, datagram.len(), sum(datagram));
            put(out, udp_at + 6, &checksum.to_be_bytes());
        }
        end
    }

    fn emit_ethernet(&self, out: &mut [u8]) -> usize {
        put(out, 0, &self.ethernet.destination.0);
        put(out, 6, &self.ethernet.source.0);
        let mut at = 12;
        for tag in self.ethernet.vlans.iter().flatten() {
            put(out, at, &ETHERTYPES_VLAN[0].to_be_bytes());
            put(out, at + 2, &tag.0.to_be_bytes());
            at += VLAN_LEN;
        }
        let ethertype = match self.ip {
            Ip::V4(_) => ETHERTYPE_IPV4,
            Ip::V6(_) => ETHERTYPE_IPV6,
        };
        put(out, at, &ethertype.to_be_bytes());
        at + 2
    }
}

fn icrc_seed(ip: &Ip, source_port: u16, destination_port: u16) -> IcrcSeed {
    match ip {
        Ip::V4(ip) => IcrcSeed::ipv4_with_flags(ip.source, ip.destination, source_port, destination_port, ip.flags),
        Ip::V6(ip) => IcrcSeed::ipv6(ip.source, ip.destination, source_port, destination_port),
    }
}

/// Writes the IP header of a packet with `len` bytes after that header. The length of `out` is the header's length.
fn emit_ip(ip: &Ip, len: usize, out: &mut [u8]) {
    match ip {
        Ip::V4(ip) => {
            put(out, 0, &[0x45, ip.tos]);
            put(out, 2, &((IPV4_LEN + len) as u16).to_be_bytes());
            put(out, 4, &ip.id.to_be_bytes());
            put(out, 6, &ip.flags.to_be_bytes());
            put(out, 8, &[ip.ttl, PROTOCOL_UDP, 0, 0]);
            put(out, 12, &ip.source.octets());
            put(out, 16, &ip.destination.octets());
            let checksum = !fold(sum(out));
            put(out, 10, &checksum.to_be_bytes());
        }
        Ip::V6(ip) => {
            let word = 6 << 28 | u32::from(ip.traffic_class) << 20 | ip.flow_label & 0xf_ffff;
            put(out, 0, &word.to_be_bytes());
            put(out, 4, &(len as u16).to_be_bytes());
            put(out, 6, &[PROTOCOL_UDP, ip.hop_limit]);
            put(out, 8, &ip.source.octets());
            put(out, 24, &ip.destination.octets());
        }
    }
}

/// Computes the UDP checksum of a datagram of `len` bytes whose 16-bit words, without the checksum, have the sum
/// `words`. The result is never 0, because 0 means "no checksum".
fn udp_checksum(ip: &Ip, len: usize, words: u64) -> u16 {
    let addresses = match ip {
        Ip::V4(ip) => sum(&ip.source.octets()) + sum(&ip.destination.octets()),
        Ip::V6(ip) => sum(&ip.source.octets()) + sum(&ip.destination.octets()),
    };
    let checksum = !fold(addresses + u64::from(PROTOCOL_UDP) + len as u64 + words);
    if checksum == 0 { 0xffff } else { checksum }
}

/// The sum of all big-endian 16-bit words in `bytes`, for an IP or UDP checksum. If the number of bytes is odd, the
/// last byte is the upper half of a word.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let whole: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    whole + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

/// Folds the carries of a ones' complement sum into 16 bits.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
