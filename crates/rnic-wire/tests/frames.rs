//! Compares frames with hand-written bytes, and checks the classification of other and of malformed frames.

use proptest::prelude::*;
use rnic_wire::icrc::DONT_FRAGMENT;
use rnic_wire::{
    Bth, Content, Envelope, Ethernet, Frame, Headers, Ip, Ipv4, Ipv6, LinkType, MacAddr, Opcode, Packet, Pfc, Vlan,
};
use std::net::{Ipv4Addr, Ipv6Addr};

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);

fn hello() -> Packet<'static> {
    let bth = Bth { migrated: false, ack_request: true, ..Bth::new(Opcode::RC_SEND_ONLY, 0x11, 0xabcdef) };
    Packet::new(Headers::new(bth), b"hello")
}

fn over_ipv4() -> Envelope {
    let ip = Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    Envelope::new(B, A, Ip::V4(Ipv4 { id: 0x1234, ..ip }), 49152)
}

fn over_ipv6() -> Envelope {
    let ip = Ipv6::new("fd00::1".parse::<Ipv6Addr>().unwrap(), "fd00::2".parse().unwrap());
    Envelope::new(B, A, Ip::V6(Ipv6 { traffic_class: 3, flow_label: 0x12345, ..ip }), 49152)
}

fn emit(envelope: &Envelope, packet: &Packet) -> Vec<u8> {
    let mut out = vec![0xee; 200];
    let len = envelope.emit(packet, &mut out);
    out.truncate(len);
    out
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The RoCEv2 datagram in a frame; panics if the frame holds none.
fn roce_v2<'a>(link: LinkType, bytes: &'a [u8]) -> rnic_wire::RoceV2<'a> {
    match Frame::parse(link, bytes).content {
        Content::RoceV2(datagram) => datagram,
        other => panic!("{other:?}"),
    }
}

/// The description of a frame that is not RoCE; panics if it is RoCE.
fn other(link: LinkType, bytes: &[u8]) -> &'static str {
    match Frame::parse(link, bytes).content {
        Content::Other(name) => name,
        content => panic!("{content:?}"),
    }
}

fn icrc_is_right(body: &[u8], icrc: Option<u32>) -> bool {
    body.last_chunk().map(|bytes| u32::from_le_bytes(*bytes)) == icrc
}

#[test]
fn ipv4_as_scapy_writes_it() {
    let expected = hex("02000000000b 02000000000a 0800
         4500 0034 1234 4000 4011 1483 0a000001 0a000002  c000 12b7 0020 0000
         0430ffff 00000011 80abcdef 68656c6c6f 000000 b01aa0b5");
    assert_eq!(emit(&over_ipv4(), &hello()), expected);
    let with_checksum = emit(&Envelope { udp_checksum: true, ..over_ipv4() }, &hello());
    assert_eq!(with_checksum[40..42], [0x31, 0x75]);
    assert_eq!((&with_checksum[..40], &with_checksum[42..]), (&expected[..40], &expected[42..]));
}

#[test]
fn ipv6_as_scapy_writes_it() {
    let expected = hex("02000000000b 02000000000a 86dd
         60312345 0020 11 40 fd000000000000000000000000000001 fd000000000000000000000000000002  c000 12b7 0020 c490
         0430ffff 00000011 80abcdef 68656c6c6f 000000 5d3b7a77");
    assert_eq!(emit(&Envelope { udp_checksum: true, ..over_ipv6() }, &hello()), expected);
}

/// A CNP that was captured from a ConnectX-4 Lx; it comes from the tests of scapy 2.8.
#[test]
fn a_cnp_as_a_network_card_writes_it() {
    let captured = hex("e41d2dab2bc2 7cfe90643b32 0800
         45c2 003c 718c 4000 4011 9161 0a001101 0a001201  0000 12b7 0028 0000
         8100ffff 40000118 00000000 00000000000000000000000000000000 82fd002a");
    let datagram = roce_v2(LinkType::Ethernet, &captured);
    assert!(icrc_is_right(datagram.body, datagram.icrc()));
    assert_eq!(datagram.icrc_seed().solve_id(datagram.body), Some(0x718c));
    assert_eq!(Packet::parse(datagram.body), Ok(Packet::cnp(0x118)));
    let mac = |text: &str| MacAddr(hex(text).try_into().unwrap());
    let envelope = Envelope::new(mac("e41d2dab2bc2"), mac("7cfe90643b32"), datagram.ip, 0);
    assert_eq!(emit(&envelope, &Packet::cnp(0x118)), captured);
}

#[test]
fn what_is_written_is_sorted() {
    for envelope in [over_ipv4(), over_ipv6()] {
        for vlans in [[None; 2], [Some(Vlan(0x6064)), None], [Some(Vlan(0x0003)), Some(Vlan(0xf001))]] {
            let envelope = Envelope { ethernet: Ethernet { vlans, ..envelope.ethernet }, ..envelope };
            let bytes = emit(&envelope, &hello());
            assert_eq!(bytes.len(), envelope.header_len() + hello().len());
            let frame = Frame::parse(LinkType::Ethernet, &bytes);
            assert_eq!(frame.ethernet, Some(envelope.ethernet));
            let datagram = roce_v2(LinkType::Ethernet, &bytes);
            assert_eq!((datagram.ip, datagram.source_port, datagram.missing), (envelope.ip, 49152, 0));
            assert_eq!(Packet::parse(datagram.body), Ok(hello()));
            assert!(icrc_is_right(datagram.body, datagram.icrc()));
        }
    }
    let tag = Vlan(0x7064);
    assert_eq!((tag.id(), tag.priority(), tag.drop_eligible()), (100, 3, true));
    assert_eq!(MacAddr([0, 1, 2, 0xa, 0xb, 0xff]).to_string(), "00:01:02:0a:0b:ff");
}

#[test]
fn the_icrc_of_a_frame_covers_what_routers_leave_alone() {
    let check = |bytes: &[u8]| {
        let datagram = roce_v2(LinkType::Ethernet, bytes);
        icrc_is_right(datagram.body, datagram.icrc())
    };
    let ipv4 = emit(&over_ipv4(), &hello());
    // Not covered: Ethernet header; IPv4 type of service, time to live, checksum; UDP checksum; byte 4 of the BTH.
    let free = [0, 7, 15, 22, 24, 25, 40, 41, 46];
    for at in free {
        let mut bytes = ipv4.clone();
        bytes[at] ^= 0xff;
        assert!(check(&bytes), "byte {at}");
    }
    // Covered: IPv4 identification and addresses, UDP source port, BTH, payload, the ICRC itself.
    for at in [18, 19, 27, 33, 34, 42, 45, 49, 55, 60, 65] {
        let mut bytes = ipv4.clone();
        bytes[at] ^= 1;
        assert!(!check(&bytes), "byte {at}");
    }
    let ipv6 = emit(&over_ipv6(), &hello());
    for (at, bits) in [(14, 0x0f), (15, 0xff), (16, 0xff), (17, 0xff), (21, 0xff), (60, 0xff), (66, 0xff)] {
        let mut bytes = ipv6.clone();
        bytes[at] ^= bits;
        assert!(check(&bytes), "byte {at}");
    }
    for at in [22, 53, 54, 62, 69, 80] {
        let mut bytes = ipv6.clone();
        bytes[at] ^= 1;
        assert!(!check(&bytes), "byte {at}");
    }
}

#[test]
fn other_link_types() {
    let ethernet = emit(&over_ipv4(), &hello());
    let ip = &ethernet[14..];
    let datagram = roce_v2(LinkType::Ethernet, &ethernet);
    assert_eq!(roce_v2(LinkType::RawIp, ip), datagram);
    let cooked = [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 0xb, 0, 0, 0x08, 0x00], ip].concat();
    assert_eq!(roce_v2(LinkType::LinuxCooked, &cooked), datagram);
    let cooked2 = [&[0x08, 0x00, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 0xb, 0, 0], ip].concat();
    assert_eq!(roce_v2(LinkType::LinuxCooked2, &cooked2), datagram);
    let numbers = [1, 113, 276, 101, 12, 0, 147].map(LinkType::from_number);
    let (cooked, cooked2) = (Some(LinkType::LinuxCooked), Some(LinkType::LinuxCooked2));
    let raw = Some(LinkType::RawIp);
    assert_eq!(numbers, [Some(LinkType::Ethernet), cooked, cooked2, raw, raw, Some(LinkType::Loopback), None]);
}

#[test]
fn options_in_the_ipv4_header_are_covered() {
    let plain = emit(&over_ipv4(), &hello());
    let mut bytes = [&plain[..34], &[1, 1, 1, 0], &plain[34..]].concat();
    bytes[14] = 0x46;
    bytes[17] += 4;
    let expected = roce_v2(LinkType::Ethernet, &bytes).icrc().unwrap();
    assert_eq!(roce_v2(LinkType::Ethernet, &bytes).body, &plain[42..]);
    bytes[36] = 7;
    assert_ne!(roce_v2(LinkType::Ethernet, &bytes).icrc(), Some(expected));
}

#[test]
fn padding_and_check_sequence_of_ethernet_are_no_part_of_the_packet() {
    let mut bytes = emit(&over_ipv4(), &hello());
    bytes.extend([0xaa; 10]);
    assert_eq!(Packet::parse(roce_v2(LinkType::Ethernet, &bytes).body), Ok(hello()));
}

#[test]
fn a_capture_may_be_cut_off() {
    let bytes = emit(&over_ipv4(), &hello());
    for cut in 1..24 {
        let datagram = roce_v2(LinkType::Ethernet, &bytes[..bytes.len() - cut]);
        assert_eq!((datagram.missing, datagram.body.len(), datagram.icrc()), (cut, 24 - cut, None));
    }
}

/// A hand-written RoCEv1 frame. Python's zlib computed the ICRC: the CRC-32 over 8 bytes 0xff, the GRH with ones for
/// traffic class, flow label and hop limit, and the remaining bytes.
#[test]
fn roce_v1_is_told_apart() {
    let bytes = hex("02000000000b 02000000000a 8915
         60000000 0018 1b 40 fe800000000000000000000000000001 fe800000000000000000000000000002
         0430ffff 00000011 80abcdef 68656c6c6f 000000 ba5ad7c0");
    let Content::RoceV1(v1) = Frame::parse(LinkType::Ethernet, &bytes).content else { panic!("not parsed as RoCEv1") };
    assert_eq!((v1.grh.source.to_string(), v1.grh.hop_limit, v1.missing), ("fe80::1".to_string(), 64, 0));
    assert_eq!(Packet::parse(v1.body), Ok(hello()));
    assert!(icrc_is_right(v1.body, v1.icrc()));
    let Content::RoceV1(cut) = Frame::parse(LinkType::Ethernet, &bytes[..70]).content else {
        panic!("not parsed as RoCEv1")
    };
    assert_eq!((cut.missing, cut.icrc()), (8, None));
}

#[test]
fn priority_flow_control() {
    let bytes = hex("0180c2000001 02000000000a 8808 0101 0009
         ffff 0000 0000 0001 0000 0000 0000 0000
         0000000000000000000000000000000000000000000000000000");
    let pfc = Pfc { enabled: 0b1001, quanta: [0xffff, 0, 0, 1, 0, 0, 0, 0] };
    assert_eq!(pfc.emit(A)[..], bytes);
    assert_eq!(Frame::parse(LinkType::Ethernet, &bytes).content, Content::Pfc(pfc));
    assert_eq!([0, 1, 3, 8].map(|priority| pfc.quanta_of(priority)), [Some(0xffff), None, Some(1), None]);
    assert_eq!(Pfc::of(3, 0), Pfc { enabled: 8, quanta: [0; 8] });
    // The pause frame of the whole link is not a PFC frame.
    let mut pause = bytes;
    pause[14] = 0;
    assert_eq!(Frame::parse(LinkType::Ethernet, &pause).content, Content::Other("MAC control"));
}

#[test]
fn what_is_not_roce_is_named() {
    let ipv4 = emit(&over_ipv4(), &hello());
    let ipv6 = emit(&over_ipv6(), &hello());
    let change = |frame: &[u8], changes: &[(usize, u8)]| {
        let mut bytes = frame.to_vec();
        changes.iter().for_each(|(at, value)| bytes[*at] = *value);
        other(LinkType::Ethernet, &bytes)
    };
    assert_eq!(change(&ipv4, &[(13, 6)]), "ARP");
    assert_eq!(change(&ipv4, &[(12, 0x88), (13, 0xcc)]), "not IP");
    assert_eq!(change(&ipv4, &[(23, 6)]), "IP but not UDP");
    assert_eq!(change(&ipv6, &[(20, 59)]), "IP but not UDP");
    assert_eq!(change(&ipv6, &[(20, 44)]), "IP fragment");
    assert_eq!(change(&ipv6, &[(20, 50)]), "encrypted IP");
    assert_eq!(change(&ipv4, &[(20, 0x20)]), "IP fragment");
    assert_eq!(change(&ipv4, &[(21, 1)]), "IP fragment");
    assert_eq!(change(&ipv4, &[(37, 0)]), "UDP to another port");
    assert_eq!(change(&ipv6, &[(57, 0)]), "UDP to another port");
    assert_eq!(other(LinkType::RawIp, &[0x70; 40]), "not IP");
    assert_eq!(other(LinkType::RawIp, &[]), "not IP");
}

/// A datagram to another port is RoCE only for a caller that asks for it, and its ICRC covers the port.
#[test]
fn any_port_can_carry_roce() {
    for envelope in [over_ipv4(), over_ipv6()] {
        let bytes = emit(&Envelope { destination_port: 4792, ..envelope }, &hello());
        assert_eq!(other(LinkType::Ethernet, &bytes), "UDP to another port");
        let Content::RoceV2(datagram) = Frame::parse_any_port(LinkType::Ethernet, &bytes).content else {
            panic!("not parsed as RoCEv2")
        };
        assert_eq!((datagram.destination_port, icrc_is_right(datagram.body, datagram.icrc())), (4792, true));
        assert!(datagram.icrc_seed().check(datagram.ip.id(), datagram.body));
    }
}

/// A VXLAN packet contains a frame.
#[test]
fn vxlan_is_unpacked() {
    let inner = emit(&over_ipv6(), &hello());
    let vxlan = |port: u16, flags: u8| {
        let mut outer = emit(&Envelope { destination_port: port, ..over_ipv4() }, &hello());
        outer.truncate(42);
        let len = (8 + 8 + inner.len()) as u16;
        outer[38..40].copy_from_slice(&len.to_be_bytes());
        outer[16..18].copy_from_slice(&(20 + len).to_be_bytes());
        [outer, vec![flags, 0, 0, 0, 0, 0, 7, 0], inner.clone()].concat()
    };
    let bytes = vxlan(4789, 8);
    let Content::Vxlan(found) = Frame::parse(LinkType::Ethernet, &bytes).content else { panic!("not VXLAN") };
    assert_eq!(found, inner);
    assert_eq!(other(LinkType::Ethernet, &vxlan(4789, 0)), "UDP to another port");
    assert_eq!(other(LinkType::Ethernet, &vxlan(4788, 8)), "UDP to another port");
    assert_eq!(other(LinkType::Ethernet, &bytes[..49]), "UDP to another port", "the header is cut off");
}

#[test]
fn what_contradicts_itself_is_malformed() {
    let ipv4 = emit(&over_ipv4(), &hello());
    let ipv6 = emit(&over_ipv6(), &hello());
    let tagged =
        Envelope { ethernet: Ethernet { vlans: [Some(Vlan(1)), None], ..over_ipv4().ethernet }, ..over_ipv4() };
    let tagged = emit(&tagged, &hello());
    let why = |bytes: &[u8]| match Frame::parse(LinkType::Ethernet, bytes).content {
        Content::Malformed(why) => why,
        other => panic!("{other:?}"),
    };
    let change = |frame: &[u8], at: usize, value: u8| {
        let mut bytes = frame.to_vec();
        bytes[at] = value;
        bytes
    };
    assert_eq!(why(&ipv4[..13]), "the frame ends inside its Ethernet header");
    assert_eq!(why(&tagged[..17]), "the frame ends inside a VLAN tag");
    assert_eq!(why(&ipv4[..33]), "the frame ends inside its IPv4 header");
    assert_eq!(why(&ipv6[..53]), "the frame ends inside its IPv6 header");
    assert_eq!(why(&ipv4[..41]), "the frame ends inside its UDP header");
    let contradiction = "the IPv4 header has a wrong version or inconsistent lengths";
    assert_eq!(why(&change(&ipv4, 14, 0x55)), contradiction);
    assert_eq!(why(&change(&ipv4, 14, 0x44)), contradiction);
    assert_eq!(why(&change(&ipv4, 17, 19)), contradiction);
    assert_eq!(why(&change(&ipv6, 14, 0x50)), "the IPv6 header's version is not 6");
    let length = "the UDP length is inconsistent with the length in the IP header";
    assert_eq!(why(&change(&ipv4, 39, 7)), length);
    assert_eq!(why(&change(&ipv4, 39, 0x21)), length);
    assert_eq!(why(&change(&ipv6, 59, 0x21)), length);
    let v1 = change(&change(&ipv6, 12, 0x89), 13, 0x15);
    let header = "the global routing header's version is not 6, or its next header is not 0x1b (BTH)";
    assert_eq!(why(&v1), header);
    assert_eq!(why(&v1[..53]), "the frame ends inside its global routing header");
    assert_eq!(why(&Pfc::of(0, 1).emit(A)[..33]), "the PFC frame ends before its eight timers do");
    let cooked = Frame::parse(LinkType::LinuxCooked, &[0; 15]).content;
    assert_eq!(cooked, Content::Malformed("the frame ends inside its Linux cooked header"));
}

#[test]
fn fragments_of_a_sender_that_allows_them_still_have_their_icrc() {
    let Ip::V4(ip) = over_ipv4().ip else { unreachable!() };
    let bytes = emit(&Envelope { ip: Ip::V4(Ipv4 { flags: 0, ..ip }), ..over_ipv4() }, &hello());
    let datagram = roce_v2(LinkType::Ethernet, &bytes);
    assert!(icrc_is_right(datagram.body, datagram.icrc()));
    assert_ne!(
        bytes[62..],
        emit(&over_ipv4(), &hello())[62..],
        "the don't-fragment flag {DONT_FRAGMENT:#x} is covered"
    );
}

proptest! {
    #[test]
    fn no_frame_panics(
        base in 0..4_usize, cut in 0..100_usize, changes in proptest::collection::vec((0..100_usize, any::<u8>()), 0..6),
    ) {
        let mut bytes = match base {
            0 => emit(&over_ipv4(), &hello()),
            1 => emit(&over_ipv6(), &hello()),
            2 => Pfc::of(1, 2).emit(A).to_vec(),
            _ => [0x89, 0x15].repeat(50),
        };
        bytes.truncate(cut);
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        for link in [LinkType::Ethernet, LinkType::LinuxCooked, LinkType::LinuxCooked2, LinkType::RawIp] {
            match Frame::parse(link, &bytes).content {
                Content::RoceV2(datagram) => {
                    let _ = (datagram.icrc(), Packet::parse(datagram.body));
                }
                Content::RoceV1(packet) => {
                    let _ = (packet.icrc(), Packet::parse(packet.body));
                }
                _ => {}
            }
        }
    }
}
