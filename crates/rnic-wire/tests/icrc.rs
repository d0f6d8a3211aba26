//! Compares the ICRC with that of packets that scapy 2.8 built, and checks that the ICRC detects corruption.

use rnic_wire::icrc::IcrcSeed;
use rnic_wire::{Opcode, Packet, ROCE_PORT};

/// A Send of "hello" that scapy built, from base transport header to ICRC, over IPv4 (identification 0x1234) and over
/// IPv6.
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
    assert_eq!(ipv4().solve_id_from(0x1234, &broken), None);
    assert_eq!(ipv6().solve_id_from(9, &IPV6), Some(9), "IPv6 has no identification");
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

#[test]
fn parts_give_the_whole() {
    let (bth, rest) = IPV4[..20].split_first_chunk().unwrap();
    for cut in 0..=rest.len() {
        let (a, b) = rest.split_at(cut);
        assert_eq!(ipv4().begin(0x1234, 20, bth).update(a).update(b).finish(), ipv4().icrc(0x1234, &IPV4[..20]));
    }
}

#[test]
fn every_identification_and_length_is_found() {
    for len in (0..=4096).step_by(4).chain([9000, 65_000]) {
        let mut packet = vec![0x5a; 12 + len + 4];
        packet[..20.min(12 + len)].copy_from_slice(&IPV4[..20.min(12 + len)]);
        let id = (len * 16 + 11) as u16;
        let icrc = ipv4().icrc(id, &packet[..12 + len]);
        packet[12 + len..].copy_from_slice(&icrc.to_le_bytes());
        assert_eq!(ipv4().solve_id(&packet), Some(id), "{len}");
        for guess in [id, id ^ 1, 0xffff] {
            assert_eq!(ipv4().solve_id_from(guess, &packet), Some(id), "{len}");
        }
    }
    for id in 0..=u16::MAX {
        let mut packet = IPV4;
        let icrc = ipv4().icrc(id, &packet[..20]);
        packet[20..].copy_from_slice(&icrc.to_le_bytes());
        assert_eq!(ipv4().solve_id(&packet), Some(id));
    }
}

#[test]
fn too_few_bytes_are_wrong() {
    for len in 0..16 {
        assert!(!ipv4().check(0, &IPV4[..len]));
        assert_eq!(ipv4().solve_id(&IPV4[..len]), None);
    }
}

/// Corrupts a packet of 64 bytes 2^20 times at random. If the identification is unknown, one of 2^16 corrupted packets
/// passes, so 16 should pass, with a standard deviation of 4. One in 1024 of the packets that pass has an
/// identification below 64.
#[test]
fn an_unknown_identification_costs_16_of_32_bits() {
    let mut whole = [0x33; 64];
    whole[..12].copy_from_slice(&IPV4[..12]);
    let icrc = ipv4().icrc(7, &whole[..60]);
    whole[60..].copy_from_slice(&icrc.to_le_bytes());
    // Pseudo-random numbers (xorshift) with a fixed seed.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut known, mut solved, mut small) = (0, 0, 0);
    for _ in 0..1 << 20 {
        let mut packet = whole;
        for place in packet[12..].chunks_exact_mut(8) {
            let random = next().to_le_bytes();
            place.iter_mut().zip(random).for_each(|(byte, other)| *byte ^= other);
        }
        known += u32::from(ipv4().check(7, &packet));
        let id = ipv4().solve_id(&packet);
        solved += u32::from(id.is_some());
        small += u32::from(id.is_some_and(|id| id < 64));
    }
    assert_eq!((known, small), (0, 0));
    assert!((4..=32).contains(&solved), "{solved} of 2^20 corrupted packets pass");
}

#[test]
fn every_single_damaged_bit_is_seen() {
    for (seed, packet) in [(ipv4(), IPV4), (ipv6(), IPV6)] {
        for bit in 0..packet.len() * 8 {
            let mut damaged = packet;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(seed.solve_id(&damaged).is_some(), bit / 8 == 4, "bit {bit}");
        }
    }
}
