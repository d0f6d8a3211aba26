//! Encodes and decodes Ethernet, ARP, IPv4, IPv6, neighbour discovery and UDP, as far as a RoCE endpoint needs them on
//! a link without routers.
//!
//! Formats: ARP RFC 826, IPv4 RFC 791, UDP RFC 768, IPv6 RFC 8200, neighbour discovery RFC 4861.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The UDP port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

/// Length of an Ethernet header in bytes.
pub const ETHERNET_HEADER: usize = 14;

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;

const UDP_PROTOCOL: u8 = 17;
const ICMPV6_PROTOCOL: u8 = 58;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the caller has checked the length")
}

/// Computes the Internet checksum (RFC 1071) over several pieces. Each piece but the last must have an even length.
fn checksum(pieces: &[&[u8]]) -> u16 {
    let words = pieces.iter().flat_map(|piece| piece.chunks(2));
    let mut sum: u32 = words.map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |&low| u32::from(low))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Builds an Ethernet frame of header and payload. It has no padding and no frame check sequence, which the device
/// adds.
pub fn ethernet(dst: Mac, src: Mac, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&dst[..], &src[..], &ethertype.to_be_bytes()[..], payload].concat()
}

/// Returns the EtherType of a frame, or `None` if the frame is shorter than an Ethernet header.
pub fn ethertype(frame: &[u8]) -> Option<u16> {
    (frame.len() >= ETHERNET_HEADER).then(|| u16_at(frame, 12))
}

/// Returns the offset of the UDP payload in a frame with a RoCEv2 packet, over IPv4 without options or over IPv6.
/// Returns `None` for any other frame.
pub fn roce_payload(frame: &[u8]) -> Option<usize> {
    let (protocol, udp) = match ethertype(frame)? {
        IPV4 => (9, IPV4_HEADER),
        IPV6 => (6, IPV6_HEADER),
        _ => return None,
    };
    let udp = ETHERNET_HEADER + udp;
    let long_enough = frame.len() >= udp + UDP_HEADER;
    (long_enough && frame[ETHERNET_HEADER + protocol] == UDP_PROTOCOL && u16_at(frame, udp + 2) == ROCE_PORT)
        .then_some(udp + UDP_HEADER)
}

/// An ARP request or reply for IPv4 over Ethernet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arp {
    /// Whether this is a reply. Otherwise it is a request.
    pub reply: bool,
    /// Ethernet and IPv4 address of the sender.
    pub sender: (Mac, Ipv4Addr),
    /// Ethernet and IPv4 address of the target. In a request the Ethernet address is unknown, so it is zero.
    pub target: (Mac, Ipv4Addr),
}

impl Arp {
    /// Reads the bytes that follow an Ethernet header of type [`ARP`]. Returns `None` if they are not ARP for IPv4 over
    /// Ethernet.
    pub fn parse(bytes: &[u8]) -> Option<Arp> {
        if bytes.len() < 28 || bytes[..6] != [0, 1, 8, 0, 6, 4] {
            return None;
        }
        let reply = match u16_at(bytes, 6) {
            1 => false,
            2 => true,
            _ => return None,
        };
        let address = |at| (array_at::<6>(bytes, at), Ipv4Addr::from(array_at::<4>(bytes, at + 6)));
        Some(Arp { reply, sender: address(8), target: address(18) })
    }

    /// Returns the bytes that follow the Ethernet header.
    pub fn emit(&self) -> Vec<u8> {
        let operation = [0, if self.reply { 2 } else { 1 }];
        let sender = (self.sender.0, self.sender.1.octets());
        let target = (self.target.0, self.target.1.octets());
        [&[0, 1, 8, 0, 6, 4][..], &operation, &sender.0, &sender.1, &target.0, &target.1].concat()
    }
}

/// A neighbour solicitation or advertisement of IPv6 neighbour discovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// Whether this is an advertisement. Otherwise it is a solicitation.
    pub advertisement: bool,
    /// IPv6 source address.
    pub src: Ipv6Addr,
    /// IPv6 destination address.
    pub dst: Ipv6Addr,
    /// The address that a solicitation asks for, or that an advertisement is about.
    pub target: Ipv6Addr,
    /// The Ethernet address of the sender (in a solicitation) or of the target (in an advertisement); `None` if the
    /// message has none.
    pub link: Option<Mac>,
}

impl Neighbour {
    /// Reads an IPv6 packet. Returns `None` if it is not a neighbour solicitation or advertisement, or its checksum is
    /// wrong.
    pub fn parse(packet: &[u8]) -> Option<Neighbour> {
        let (header, message) = packet.split_at_checked(IPV6_HEADER)?;
        let message = message.get(..usize::from(u16_at(header, 4)))?;
        // RFC 4861, section 7.1: hop limit 255, code 0, at least 24 bytes.
        if header[0] >> 4 != 6
            || header[6] != ICMPV6_PROTOCOL
            || header[7] != 255
            || message.len() < 24
            || message[1] != 0
        {
            return None;
        }
        if checksum(&[&pseudo_header_v6(header, ICMPV6_PROTOCOL, message.len()), message]) != 0 {
            return None;
        }
        let (advertisement, link_option) = match message[0] {
            135 => (false, 1),
            136 => (true, 2),
            _ => return None,
        };
        let mut options = &message[24..];
        let mut link = None;
        while options.len() >= 8 && options[1] > 0 {
            if options[0] == link_option && options[1] == 1 {
                link = Some(array_at::<6>(options, 2));
            }
            options = options.get(usize::from(options[1]) * 8..).unwrap_or_default();
        }
        let address = |bytes, at| Ipv6Addr::from(array_at::<16>(bytes, at));
        Some(Neighbour {
            advertisement,
            src: address(header, 8),
            dst: address(header, 24),
            target: address(message, 8),
            link,
        })
    }

    /// Returns the IPv6 packet. In an advertisement the flags solicited and override are set.
    pub fn emit(&self) -> Vec<u8> {
        let (kind, flags, option) = if self.advertisement { (136, 0x60, 2) } else { (135, 0, 1) };
        let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
        message.extend(self.target.octets());
        if let Some(link) = self.link {
            message.extend([option, 1]);
            message.extend(link);
        }
        let mut packet = header_v6(self.src, self.dst, 0, 0, ICMPV6_PROTOCOL, 255, message.len());
        let sum = checksum(&[&pseudo_header_v6(&packet, ICMPV6_PROTOCOL, message.len()), &message]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        packet.extend(message);
        packet
    }
}

/// Returns the solicited-node multicast address of an IPv6 address: ff02::1:ff followed by the last 24 bits of the
/// address.
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low)
}

/// Returns the Ethernet address of an IPv6 multicast group: 33:33 followed by the last 32 bits of the group's address.
pub fn multicast_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

/// A UDP datagram to send, with all fields of the IP header that matter to RoCE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Udp<'a> {
    /// Source IP address, of the same family as `dst`.
    pub src: IpAddr,
    /// Destination IP address.
    pub dst: IpAddr,
    /// UDP source port.
    pub sport: u16,
    /// UDP destination port.
    pub dport: u16,
    /// DSCP and ECN: type of service or traffic class.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Identification in the IPv4 header; IPv6 has none.
    pub ip_id: u16,
    /// The flag "don't fragment" of IPv4; IPv6 has no such flag.
    pub dont_fragment: bool,
    /// Flow label of IPv6, 20 bits.
    pub flow_label: u32,
    /// Whether to compute the UDP checksum. Otherwise it is 0, as in the packets of most RoCEv2 senders.
    pub checksum: bool,
    /// UDP payload: the RoCEv2 packet from the base transport header to the ICRC.
    pub payload: &'a [u8],
}

impl<'a> Udp<'a> {
    /// Makes a RoCEv2 packet with the IP fields that rxe uses: TOS 0, TTL 64, "don't fragment", no UDP checksum. Only
    /// the IPv4 identification differs: it is 0.
    pub fn roce(src: IpAddr, dst: IpAddr, sport: u16, payload: &'a [u8]) -> Udp<'a> {
        Udp {
            src,
            dst,
            sport,
            dport: ROCE_PORT,
            tos: 0,
            ttl: 64,
            ip_id: 0,
            dont_fragment: true,
            flow_label: 0,
            checksum: false,
            payload,
        }
    }

    /// Returns the IP packet.
    ///
    /// # Panics
    /// If source and destination are not of one family, or the payload is too long for a packet.
    pub fn emit(&self) -> Vec<u8> {
        let length = UDP_HEADER + self.payload.len();
        let udp_length = u16::try_from(length).expect("a datagram has at most 65,527 bytes");
        let mut udp = [self.sport, self.dport, udp_length, 0].map(u16::to_be_bytes).concat();
        let (mut packet, pseudo) = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let header = self.header_v4(src, dst, length);
                let pseudo = [&header[12..20], &[0, UDP_PROTOCOL], &udp_length.to_be_bytes()].concat();
                (header, pseudo)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let header = header_v6(src, dst, self.tos, self.flow_label, UDP_PROTOCOL, self.ttl, length);
                let pseudo = pseudo_header_v6(&header, UDP_PROTOCOL, length);
                (header, pseudo)
            }
            _ => panic!("{} and {} are not of one family", self.src, self.dst),
        };
        if self.checksum {
            let sum = checksum(&[&pseudo, &udp, self.payload]);
            // A checksum of 0 would mean that the packet has no checksum.
            udp[6..8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
        }
        packet.extend(udp);
        packet.extend(self.payload);
        packet
    }

    fn header_v4(&self, src: Ipv4Addr, dst: Ipv4Addr, length: usize) -> Vec<u8> {
        let total = u16::try_from(IPV4_HEADER + length).expect("an IPv4 packet has at most 65,535 bytes");
        let fragment: u16 = if self.dont_fragment { 0x4000 } else { 0 };
        let mut header = vec![0x45, self.tos];
        header.extend([total, self.ip_id, fragment].map(u16::to_be_bytes).concat());
        header.extend([self.ttl, UDP_PROTOCOL, 0, 0]);
        header.extend(src.octets());
        header.extend(dst.octets());
        let sum = checksum(&[&header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    }
}

fn header_v6(src: Ipv6Addr, dst: Ipv6Addr, class: u8, label: u32, next: u8, hops: u8, length: usize) -> Vec<u8> {
    let length = u16::try_from(length).expect("an IPv6 payload has at most 65,535 bytes");
    let first = 6 << 28 | u32::from(class) << 20 | (label & 0xf_ffff);
    let mut header = first.to_be_bytes().to_vec();
    header.extend(length.to_be_bytes());
    header.extend([next, hops]);
    header.extend(src.octets());
    header.extend(dst.octets());
    header
}

fn pseudo_header_v6(header: &[u8], next: u8, length: usize) -> Vec<u8> {
    [&header[8..40], &(length as u32).to_be_bytes(), &[0, 0, 0, next]].concat()
}

/// A received UDP datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Source IP address.
    pub src: IpAddr,
    /// Destination IP address.
    pub dst: IpAddr,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// DSCP and ECN: type of service or traffic class.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Identification in the IPv4 header; 0 for IPv6.
    pub ip_id: u16,
    /// The flag "don't fragment" of IPv4; false for IPv6.
    pub dont_fragment: bool,
    /// The UDP checksum as it was sent; 0 means that the packet has none.
    pub udp_checksum: u16,
    /// The whole packet from the IP header on, without Ethernet's padding. The ICRC is computed over these bytes.
    pub packet: Vec<u8>,
    /// Offset of the UDP payload in `packet`.
    payload: usize,
}

impl Datagram {
    /// Reads an IP packet. Bytes after its end are ignored as Ethernet padding.
    ///
    /// # Errors
    /// A text that says why the packet is not a complete and intact UDP datagram. If the UDP checksum is not 0, it must
    /// be correct.
    pub fn parse(packet: &[u8]) -> Result<Datagram, &'static str> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => Datagram::parse_v4(packet),
            Some(6) => Datagram::parse_v6(packet),
            _ => Err("neither IPv4 nor IPv6"),
        }
    }

    fn parse_v4(packet: &[u8]) -> Result<Datagram, &'static str> {
        if packet.len() < IPV4_HEADER {
            return Err("shorter than an IPv4 header");
        }
        let header = usize::from(packet[0] & 15) * 4;
        let total = usize::from(u16_at(packet, 2));
        if header < IPV4_HEADER || total < header || packet.len() < total {
            return Err("wrong length in the IPv4 header");
        }
        let packet = &packet[..total];
        if checksum(&[&packet[..header]]) != 0 {
            return Err("wrong checksum in the IPv4 header");
        }
        let fragment = u16_at(packet, 6);
        if fragment & 0x3fff != 0 {
            return Err("a fragment");
        }
        let pseudo = [&packet[12..20], &[0, packet[9]], &((total - header) as u16).to_be_bytes()].concat();
        let mut datagram = Datagram::parse_udp(packet, packet[9], header, &pseudo)?;
        datagram.src = Ipv4Addr::from(array_at::<4>(packet, 12)).into();
        datagram.dst = Ipv4Addr::from(array_at::<4>(packet, 16)).into();
        datagram.tos = packet[1];
        datagram.ttl = packet[8];
        datagram.ip_id = u16_at(packet, 4);
        datagram.dont_fragment = fragment & 0x4000 != 0;
        Ok(datagram)
    }

    fn parse_v6(packet: &[u8]) -> Result<Datagram, &'static str> {
        if packet.len() < IPV6_HEADER {
            return Err("shorter than an IPv6 header");
        }
        let length = usize::from(u16_at(packet, 4));
        let packet = packet.get(..IPV6_HEADER + length).ok_or("wrong length in the IPv6 header")?;
        let pseudo = pseudo_header_v6(packet, packet[6], length);
        let mut datagram = Datagram::parse_udp(packet, packet[6], IPV6_HEADER, &pseudo)?;
        datagram.src = Ipv6Addr::from(array_at::<16>(packet, 8)).into();
        datagram.dst = Ipv6Addr::from(array_at::<16>(packet, 24)).into();
        datagram.tos = (u16_at(packet, 0) >> 4) as u8;
        datagram.ttl = packet[7];
        Ok(datagram)
    }

    /// Reads the UDP header. The caller fills in the fields of the IP header.
    fn parse_udp(packet: &[u8], protocol: u8, at: usize, pseudo: &[u8]) -> Result<Datagram, &'static str> {
        if protocol != UDP_PROTOCOL {
            return Err("not UDP");
        }
        let udp = &packet[at..];
        if udp.len() < UDP_HEADER || usize::from(u16_at(udp, 4)) != udp.len() {
            return Err("wrong length in the UDP header");
        }
        let udp_checksum = u16_at(udp, 6);
        if udp_checksum != 0 && checksum(&[pseudo, udp]) != 0 {
            return Err("wrong UDP checksum");
        }
        Ok(Datagram {
            src: Ipv4Addr::UNSPECIFIED.into(),
            dst: Ipv4Addr::UNSPECIFIED.into(),
            sport: u16_at(udp, 0),
            dport: u16_at(udp, 2),
            tos: 0,
            ttl: 0,
            ip_id: 0,
            dont_fragment: false,
            udp_checksum,
            packet: packet.to_vec(),
            payload: at + UDP_HEADER,
        })
    }

    /// The UDP payload: a RoCEv2 packet from its base transport header to its ICRC.
    pub fn payload(&self) -> &[u8] {
        &self.packet[self.payload..]
    }

    /// The congestion experienced bits: 0 not capable, 1 and 2 capable, 3 marked.
    pub fn ecn(&self) -> u8 {
        self.tos & 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use proptest::prelude::*;

    const A: Mac = [2, 0, 0, 0, 0, 1];
    const B: Mac = [2, 0, 0, 0, 0, 2];

    #[test]
    fn the_checksum_of_the_example_in_rfc_1071() {
        // Section 3: 0001 f203 f4f5 f6f7 add up to ddf2.
        assert_eq!(checksum(&[&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        // An odd byte counts as the high one: 0100 + 0200 = 0300.
        assert_eq!(checksum(&[&[1, 0], &[2]]), !0x0300);
    }

    #[test]
    fn an_arp_request_byte_by_byte() {
        let (from, to) = (Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2));
        let request = Arp { reply: false, sender: (A, from), target: ([0; 6], to) };
        let bytes = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 77, 0, 1, 0, 0, 0, 0, 0, 0, 10, 77, 0, 2];
        assert_eq!(request.emit(), bytes);
        assert_eq!(Arp::parse(&bytes), Some(request));
        assert_eq!(Arp::parse(&bytes[..27]), None);
    }

    #[test]
    fn an_ipv4_header_by_hand() {
        let (src, dst) = (Ipv4Addr::new(10, 77, 0, 1).into(), Ipv4Addr::new(10, 77, 0, 2).into());
        let packet = Udp { ip_id: 0x1234, tos: 2, ..Udp::roce(src, dst, 0xc000, &[0xaa; 4]) }.emit();
        // 4502 + 0020 + 1234 + 4000 + 4011 + 0a4d + 0001 + 0a4d + 0002 = ec04; its complement is 13fb.
        let header = [0x45, 2, 0, 32, 0x12, 0x34, 0x40, 0, 64, 17, 0x13, 0xfb, 10, 77, 0, 1, 10, 77, 0, 2];
        assert_eq!(packet[..20], header);
        assert_eq!(packet[20..], [0xc0, 0x00, 0x12, 0xb7, 0, 12, 0, 0, 0xaa, 0xaa, 0xaa, 0xaa]);
    }

    #[test]
    fn a_udp_checksum_by_hand() {
        let (src, dst) = (Ipv4Addr::new(1, 2, 3, 4).into(), Ipv4Addr::new(5, 6, 7, 8).into());
        let packet = Udp { checksum: true, dport: 2, ..Udp::roce(src, dst, 1, &[0xff]) }.emit();
        // 0102 + 0304 + 0506 + 0708 + 0011 + 0009 (pseudo header) + 0001 + 0002 + 0009 + ff00 = 1 0f3a -> 0f3b.
        assert_eq!(u16_at(&packet, 26), !0x0f3b);
        assert!(Datagram::parse(&packet).is_ok());
        let mut wrong = packet.clone();
        wrong[28] ^= 1;
        assert_eq!(Datagram::parse(&wrong), Err("wrong UDP checksum"));
    }

    #[test]
    fn multicast_addresses_of_an_ipv6_host() {
        let address: Ipv6Addr = "fe80::5054:ff:fe77:2".parse().unwrap();
        assert_eq!(solicited_node(address), "ff02::1:ff77:2".parse::<Ipv6Addr>().unwrap());
        assert_eq!(multicast_mac(solicited_node(address)), [0x33, 0x33, 0xff, 0x77, 0, 2]);
    }

    #[test]
    fn what_the_kernel_asks_and_answers() {
        // Captured between two guests: who has fd77::3, and its answer.
        #[rustfmt::skip]
        let question = [
            0x60, 0, 0, 0, 0, 0x20, 0x3a, 0xff, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0x77, 0, 2,
            0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 3, 0x87, 0, 0xdb, 5, 0, 0, 0, 0,
            0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 1, 0x52, 0x54, 0, 0x77, 0, 2,
        ];
        let asked = Neighbour {
            advertisement: false,
            src: Host::guest(1).link_local(),
            dst: "ff02::1:ff00:3".parse().unwrap(),
            target: "fd77::3".parse().unwrap(),
            link: Some(Host::guest(1).mac()),
        };
        assert_eq!(Neighbour::parse(&question), Some(asked));
        assert_eq!(asked.emit(), question);
        #[rustfmt::skip]
        let answer = [
            0x60, 0, 0, 0, 0, 0x20, 0x3a, 0xff, 0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3,
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0x77, 0, 2, 0x88, 0, 0x79, 0x91, 0x60, 0, 0, 0,
            0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 2, 1, 0x52, 0x54, 0, 0x77, 0, 3,
        ];
        let answered = Neighbour {
            advertisement: true,
            src: Host::guest(2).ipv6(),
            dst: Host::guest(1).link_local(),
            target: Host::guest(2).ipv6(),
            link: Some(Host::guest(2).mac()),
        };
        assert_eq!(Neighbour::parse(&answer), Some(answered));
        assert_eq!(answered.emit(), answer);
        let mut wrong = answer;
        wrong[63] ^= 1;
        assert_eq!(Neighbour::parse(&wrong), None);
    }

    #[test]
    fn roce_frames_are_told_from_others() {
        let (src, dst) = (Ipv4Addr::new(10, 77, 0, 1).into(), Ipv4Addr::new(10, 77, 0, 2).into());
        let roce = ethernet(B, A, IPV4, &Udp::roce(src, dst, 1, &[7; 16]).emit());
        assert_eq!(roce_payload(&roce), Some(42));
        let other = ethernet(B, A, IPV4, &Udp { dport: 53, ..Udp::roce(src, dst, 1, &[7; 16]) }.emit());
        assert_eq!(roce_payload(&other), None);
        let (src, dst) = (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
        let roce = ethernet(B, A, IPV6, &Udp::roce(src, dst, 1, &[7; 16]).emit());
        assert_eq!(roce_payload(&roce), Some(62));
        assert_eq!(roce_payload(&roce[..30]), None);
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_comes_in(
            v6: bool, sport: u16, dport: u16, tos: u8, ttl: u8, ip_id: u16, df: bool, with_checksum: bool,
            payload in proptest::collection::vec(any::<u8>(), 0..2000), padding in 0..30_usize,
        ) {
            let (src, dst): (IpAddr, IpAddr) = if v6 {
                ("fd77::1".parse().unwrap(), "fd77::2".parse().unwrap())
            } else {
                ("10.77.0.1".parse().unwrap(), "10.77.0.2".parse().unwrap())
            };
            let sent = Udp {
                src, dst, sport, dport, tos, ttl, ip_id, dont_fragment: df, flow_label: 0xabcde, checksum: with_checksum,
                payload: &payload,
            };
            let mut packet = sent.emit();
            let length = packet.len();
            packet.resize(length + padding, 0);
            let got = Datagram::parse(&packet).unwrap();
            prop_assert_eq!((got.src, got.dst, got.sport, got.dport), (src, dst, sport, dport));
            prop_assert_eq!((got.tos, got.ttl), (tos, ttl));
            prop_assert_eq!((got.ip_id, got.dont_fragment), if v6 { (0, false) } else { (ip_id, df) });
            prop_assert_eq!(got.udp_checksum != 0, with_checksum);
            prop_assert_eq!(got.payload(), &payload[..]);
            prop_assert_eq!(got.packet.len(), length);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = Datagram::parse(&bytes);
            let _ = Arp::parse(&bytes);
            let _ = Neighbour::parse(&bytes);
            let _ = roce_payload(&bytes);
            // The same bytes behind valid IP headers, so that the parser reads further.
            let mut v6 = header_v6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 0, 0, ICMPV6_PROTOCOL, 255, bytes.len());
            v6.extend(&bytes);
            let _ = Neighbour::parse(&v6);
            v6[6] = UDP_PROTOCOL;
            let _ = Datagram::parse(&v6);
        }
    }
}
