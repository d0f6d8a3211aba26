//! The ICRC against packets that scapy 2.8 built.

use rnic_wire::icrc::IcrcSeed;
use rnic_wire::{Opcode, Packet, ROCE_PORT};

/// A Send of "hello" as scapy wrote it: base transport header to ICRC, over IPv4 (identification 0x1234) and IPv6.
const IPV4: [u8; 24] = *b"\x04\x30\xff\xff\0\0\0\x11\x80\xab\xcd\xefhello\0\0\0\xb0\x1a\xa0\xb5";
const IPV6: [u8; 24] = *b"\x04\x30\xff\xff\0\0\0\x11\x80\xab\xcd\xefhello\0\0\0\x5d\x3b\x7a\x77";

fn ipv4() -> IcrcSeed {
    IcrcSeed::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 49152, ROCE_PORT)
}

fn ipv6() -> IcrcSeed {
    IcrcSeed::ipv6("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap(), 49152, ROCE_PORT)
}

#[test]
fn it_is_what_scapy_computes() {
    assert!(ipv4().check(0x1234, &IPV4));
    assert!(!ipv4().check(0x1235, &IPV4));
    assert!(ipv6().check(0, &IPV6));
    assert!(!ipv6().check(0, &IPV4));
}

#[test]
fn congestion_marks_do_not_change_it() {
    for byte in 0..=255 {
        let mut packet = IPV4;
        packet[4] = byte;
        assert!(ipv4().check(0x1234, &packet));
    }
}

#[test]
fn the_identification_is_found() {
    assert_eq!(ipv4().solve_id(&IPV4), Some(0x1234));
    assert_eq!(ipv6().solve_id(&IPV6), Some(0));
    let mut broken = IPV4;
    broken[13] ^= 1;
    assert_eq!(ipv4().solve_id(&broken), None);
}

#[test]
fn the_packet_is_read_and_written() {
    let packet = Packet::parse(&IPV4).unwrap();
    assert_eq!(packet.headers.bth.opcode, Opcode::RC_SEND_ONLY);
    assert_eq!((packet.headers.bth.dest_qp, packet.headers.bth.psn, packet.payload), (0x11, 0xabcdef, &b"hello"[..]));
    let mut out = [0; 24];
    assert_eq!(packet.emit(&ipv4(), 0x1234, &mut out), 24);
    assert_eq!(out, IPV4);
}
